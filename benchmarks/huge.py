"""H1 to H4, B1: one huge line, and reads of one byte. What is not linear shows here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

from acp_core import AgentMessageChunk, LineTooLong

from . import traffic
from .ends import prompting
from .fresh import in_fresh_process, peak_memory
from .receiving import READ, loads, receive
from .rows import Arm, Figure, Lines, Ratio, Row, Work

MIB = 1 << 20
SMALL_READ = 4096
# The longest line by default, in MiB.
LONGEST = 64


def envelope(update: dict[str, object], mark: str) -> tuple[bytes, bytes]:
    """What stands before and behind a value of a message that is filled in later."""
    before, after = traffic.notification(update).split(mark.encode())
    return before, after


def image_around() -> tuple[bytes, bytes]:
    """A chunk with an image, without its data."""
    image = {"type": "image", "mimeType": "image/png", "data": "@@"}
    return envelope({"sessionUpdate": "agent_message_chunk", "content": image}, "@@")


def image(mib: float) -> bytes:
    """A line of so many MiB with base64 in it, which has nothing to escape."""
    before, after = image_around()
    size = int(mib * MIB) - len(before) - len(after)
    return (
        before
        + b"iVBORw0KGgoAAAANSUhEUgAAB9AAAAfQ"[: size % 32]
        + b"iVBORw0KGgoAAAANSUhEUgAAB9AAAAfQ" * (size // 32)
        + after
    )


def diff(mib: float) -> bytes:
    """A line of at most so many MiB with source text in it, which is full of escapes."""
    block = {"type": "diff", "path": "/work/a.py", "oldText": None, "newText": "@@"}
    update: dict[str, object] = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit", "content": [block]}
    before, after = envelope(update, "@@")
    text = json.dumps(traffic.source(traffic.generator(5), 60_000) + "\n")[1:-1].encode()
    return before + text * ((int(mib * MIB) - len(before) - len(after)) // len(text) or 1) + after


def images(mib: int) -> Lines:
    """One line."""
    return [image(mib)]


def diffs(mib: int) -> Lines:
    """One line."""
    return [diff(mib)]


def two_images(mib: int) -> Lines:
    """A line, and one of a quarter of its size."""
    return [image(mib), image(mib / 4)]


def two_diffs(mib: int) -> Lines:
    """A line, and one of a quarter of its size."""
    return [diff(mib), diff(mib / 4)]


def receive_small(lines: Lines) -> Arm:
    """In reads of 4 KiB."""
    return receive(lines, SMALL_READ)


def first(lines: Lines) -> Arm:
    """The whole line, in reads of 64 KiB."""
    return receive(lines[:1])


def second(lines: Lines) -> Arm:
    """The shorter line, in reads of 64 KiB."""
    return receive(lines[1:])


def first_small(lines: Lines) -> Arm:
    """The whole line, in reads of 4 KiB."""
    return receive(lines[:1], SMALL_READ)


def second_small(lines: Lines) -> Arm:
    """The shorter line, in reads of 4 KiB."""
    return receive(lines[1:], SMALL_READ)


def kilobytes(count: int) -> Lines:
    """A line of twice so many KiB, and one of so many."""
    return [image(2 * count / 1024), image(count / 1024)]


def by_byte(line: bytes) -> Arm:
    """Reads of one byte."""
    parts = [line[start : start + 1] for start in range(len(line))]

    def arm() -> Work:
        client = prompting()

        def work() -> None:
            for part in parts:
                client.receive_data(part, 1.0)
                for _ in client.events():
                    pass

        return work

    return arm


def bytes_of_first(lines: Lines) -> Arm:
    """The longer line."""
    return by_byte(lines[0])


def bytes_of_second(lines: Lines) -> Arm:
    """The shorter line."""
    return by_byte(lines[1])


class Nothing:
    """Has the methods and does nothing."""

    def receive_data(self, data: bytes, now: float) -> None:
        """Nothing."""

    def events(self) -> Iterator[None]:
        """Nothing."""
        return iter(())


def empty_calls(lines: Lines) -> Arm:
    """The same loop over an object whose methods do nothing."""
    line = lines[1]
    parts = [line[start : start + 1] for start in range(len(line))]

    def arm() -> Work:
        nothing = Nothing()

        def work() -> None:
            for part in parts:
                nothing.receive_data(part, 1.0)
                for _ in nothing.events():
                    pass

        return work

    return arm


def streamed(mib: float, read: int) -> Iterator[bytes]:
    """The line of an image in reads, of which only one is there at a time."""
    before, after = image_around()
    size = int(mib * MIB) - len(before) - len(after)
    yield before
    for start in range(0, size, read):
        yield b"A" * min(read, size - start)
    yield after
    yield b"\n"


def peak_growth(mib: float, read: float) -> float:
    """How much the peak of this process's memory grows by a line, in lengths of the line."""
    client = prompting()
    before = peak_memory()
    for part in streamed(mib, int(read)):
        client.receive_data(part, 1.0)
        for _ in client.events():
            pass
    return (peak_memory() - before) / (mib * MIB)


def peak(size: float) -> float:
    """H3, the worse of two sizes of reads."""
    # Below 8 MiB the noise of the allocator is all there is to see.
    mib = max(8.0, LONGEST * size)
    return max(in_fresh_process("huge", "peak_growth", mib, read) for read in (SMALL_READ, READ))


def kept(mib: float) -> float:
    """The peak of what a line four times past its bound takes, in bounds and one read."""
    client = prompting(line=int(mib * MIB))
    before = peak_memory()
    found = []
    for part in chain(streamed(4 * mib, READ), [traffic.chunks(1)[0] + b"\n"]):
        client.receive_data(part, 1.0)
        found += [event.__class__ for event in client.events()]
    after = peak_memory()
    if found != [LineTooLong, AgentMessageChunk]:
        return float("inf")
    return (after - before) / (mib * MIB + READ)


def past_the_bound(size: float) -> float:
    """H4."""
    return in_fresh_process("huge", "kept", max(4.0, LONGEST / 4 * size))


ROWS: list[Row] = [
    Ratio("H1.image", "one 64 MiB line with an image, 64 KiB reads", 1.10, images, LONGEST, receive, loads, unit="MiB"),
    Ratio("H1.image4k", "the same in 4 KiB reads", 1.10, images, LONGEST, receive_small, loads, unit="MiB"),
    Ratio("H1.diff", "one 64 MiB line with a diff, 64 KiB reads", 1.10, diffs, LONGEST, receive, loads, unit="MiB"),
    Ratio("H1.diff4k", "the same in 4 KiB reads", 1.10, diffs, LONGEST, receive_small, loads, unit="MiB"),
    Ratio("H2.image", "an image of 64 MiB / of 16 MiB, 64 KiB reads", 4.5, two_images, LONGEST, first, second, unit=""),
    Ratio("H2.image4k", "the same in 4 KiB reads", 4.5, two_images, LONGEST, first_small, second_small, unit=""),
    Ratio("H2.diff", "a diff of 64 MiB / of 16 MiB, 64 KiB reads", 4.5, two_diffs, LONGEST, first, second, unit=""),
    Ratio("H2.diff4k", "the same in 4 KiB reads", 4.5, two_diffs, LONGEST, first_small, second_small, unit=""),
    Figure("H3", "growth of the peak of memory / length of the line", 2.2, peak, times=3),
    Figure("H4", "memory for a line past the bound / bound and one read; the next line comes", 1.0, past_the_bound),
    Ratio(
        "B1.reads",
        "reads of one byte / the same loop over empty methods",
        6.0,
        kilobytes,
        256,
        bytes_of_second,
        empty_calls,
        unit="KiB",
    ),
    Ratio(
        "B1.linear",
        "reads of one byte, a line twice as long",
        2.2,
        kilobytes,
        256,
        bytes_of_first,
        bytes_of_second,
        unit="",
    ),
]
