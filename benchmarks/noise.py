"""M1 to M3: floods of lines that are no messages."""

from __future__ import annotations

import json

from acp_core import AgentMessageChunk

from . import traffic
from .ends import prompting
from .receiving import READ, receive
from .rows import Arm, Figure, Lines, Ratio, Row, Work

GOOD = traffic.chunks(1)[0]


def bad_lines(size: float) -> list[tuple[bytes, int]]:
    """Every kind of line that has ended the connection of some client, and the reads it comes in."""
    mib = int(size * (1 << 20))
    return [
        (b"npm warn deprecated something", READ),
        (b"[1,2]", READ),
        (b"42", READ),
        (b"null", READ),
        # Bytes that are no UTF-8.
        (b'{"jsonrpc":"2.0","method":"_x","params":{"a":"\xff\xfe"}}', READ),
        # Characters that are cut by reads.
        ('{"jsonrpc":"2.0","method":"_x","params":{"a":"→日本"}}'.encode(), 1),
        (b"[" * 200_000, READ),
        (b'{"jsonrpc":"2.0","method":"_x","params":{"a":"' + b"a" * (17 * mib) + b'"}}', READ),
        # Past the bound.
        (b"x" * (64 * mib + 1), READ),
    ]


def blank(count: int) -> Lines:
    """Empty lines."""
    return [b""] * count


def text(count: int) -> Lines:
    """What a runtime prints."""
    return [b"npm warn deprecated package@1.0.%d: use another one instead" % number for number in range(count)]


def scalar(count: int) -> Lines:
    """JSON that is no object."""
    return [b"%d" % number for number in range(count)]


def truncated(count: int) -> Lines:
    """Messages without their end."""
    return [line[:-20] for line in traffic.chunks(count)]


def open_array(count: int) -> Lines:
    """Arrays that never end."""
    return [b'["a","b",'] * count


def try_loads(lines: Lines) -> Arm:
    """The floor: the same lines, and the same faults caught."""

    def arm() -> Work:
        def work() -> None:
            for line in lines:
                try:
                    json.loads(line)
                except ValueError:
                    pass

        return work

    return arm


def receive_whole(lines: Lines) -> Arm:
    """All of it in one read."""
    return receive(lines, 1 << 40)


def lost(size: float) -> float:
    """How many of the good lines beside a bad one do not come."""
    missing = 0
    for line, read in bad_lines(size):
        # A good line behind the bad one, and a last one without its line end.
        data = b"\n".join([GOOD, line, GOOD, GOOD])
        client = prompting(line=max(1 << 18, int(64 * size * (1 << 20))))
        found = 0
        for start in range(0, len(data), read):
            client.receive_data(data[start : start + read], 1.0)
            found += sum(isinstance(event, AgentMessageChunk) for event in client.events())
        client.receive_eof(1.0)
        found += sum(isinstance(event, AgentMessageChunk) for event in client.events())
        missing += 3 - found
    return missing


ROWS: list[Row] = [
    Ratio("M1.blank", "empty lines / json.loads in a try", 0.1, blank, 50_000, receive, try_loads),
    Ratio("M1.text", "lines of text", 1.5, text, 20_000, receive, try_loads),
    Ratio("M1.scalar", "JSON that is no object", 2.0, scalar, 20_000, receive, try_loads),
    Ratio("M1.truncated", "messages without their end", 2.0, truncated, 20_000, receive, try_loads),
    Ratio("M1.array", "arrays without their end", 1.5, open_array, 20_000, receive, try_loads),
    Ratio("M2.text", "lines of text, in one read / in 64 KiB reads", 1.1, text, 20_000, receive_whole, receive),
    Ratio("M2.array", "the same of arrays without their end", 1.1, open_array, 20_000, receive_whole, receive),
    Ratio("M2.truncated", "the same of messages without their end", 1.1, truncated, 20_000, receive_whole, receive),
    Figure("M3", "good lines lost beside a bad one of nine kinds", 0, lost),
]
