"""Bytes to lines: the same lines for every chunking, bounded memory, linear cost."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_core.framing import _WINDOW, BLOCK, Framer, LongLine, split
from tests.spec.requirements import requirement

LIMIT, HEAD, TAIL = 12, 5, 3

# Mostly line ends and the bytes around them, so that short examples meet every case.
streams = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"{", b"\x85", b"\xe2\x80\xa8", b"0123456789", b"\x00"]), max_size=40
).map(b"".join)


def feed(framer: Framer, chunks: Iterable[bytes]) -> Iterator[object]:
    """Every line of a stream, and what is left at its end."""
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            lines, at = framer.feed(chunk, at)
            yield from map(plain, lines)
    rest = framer.finish()
    if rest is not None:
        yield ("rest", plain(rest))


def plain(line: str | bytes | LongLine) -> object:
    return (line.length, line.head, line.tail) if isinstance(line, LongLine) else line


def expected(data: bytes, limit: int = LIMIT, head: int = HEAD, tail: int = TAIL) -> list[object]:
    """The same by splitting the whole stream at once."""

    def line(raw: bytes) -> object:
        raw = raw.removesuffix(b"\r")
        if len(raw) > limit:
            return (len(raw), raw[:head], raw[-tail:])
        return raw.decode("ascii") if raw.isascii() else raw

    *lines, rest = data.split(b"\n")
    return [*map(line, lines), *([("rest", line(rest))] if rest else [])]


def pieces(data: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


@given(streams, st.lists(st.integers(1, 9), max_size=30))
def test_any_chunking_gives_the_same_lines(data: bytes, sizes: list[int]) -> None:
    assert list(feed(Framer(LIMIT, HEAD, TAIL), pieces(data, sizes))) == expected(data)
    assert list(feed(Framer(LIMIT, HEAD, TAIL), pieces(data, [1] * len(data)))) == expected(data)
    assert list(feed(Framer(LIMIT, HEAD, TAIL), [data])) == expected(data)


@pytest.mark.parametrize("seed", range(8))
def test_any_chunking_around_a_block(seed: int) -> None:
    """One step takes at most a block: lines shorter, longer and just as long as one, cut anywhere."""
    chance = random.Random(seed)
    lengths = [0, 1, 50, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK]
    lines = [chance.choice([b"x", b"\xff"]) * chance.choice(lengths) + chance.choice([b"", b"\r"]) for _ in range(12)]
    data = b"\n".join(lines) + chance.choice([b"", b"\n"])
    limit = 2 * BLOCK
    sizes = [chance.choice([1, 4096, BLOCK, BLOCK + 1, 200_000]) for _ in range(20)]
    assert list(feed(Framer(limit, HEAD, TAIL), pieces(data, sizes))) == expected(data, limit)


@requirement(2)
def test_only_a_newline_ends_a_line() -> None:
    """str.splitlines knows eight more ends, and all of them may stand in JSON text."""
    others = b"a\x0bb\x0cc\x1cd\x1de\x1ef\xc2\x85g\xe2\x80\xa8h\xe2\x80\xa9i"
    assert list(feed(Framer(100, HEAD, TAIL), [others + b"\n"])) == [others]
    assert list(feed(Framer(100, HEAD, TAIL), [b"a\rb\r\r\n"])) == ["a\rb\r"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("sizes", [[], [1] * 40, [LIMIT], [LIMIT + 1], [LIMIT + 2]])
def test_a_line_at_the_limit_and_one_above(end: bytes, sizes: list[int]) -> None:
    """The line's end does not count."""
    at_limit, above = b"x" * LIMIT, b"y" * (LIMIT + 1)
    found = list(feed(Framer(LIMIT, HEAD, TAIL), pieces(at_limit + end + above + end, sizes)))
    assert found == ["x" * LIMIT, (LIMIT + 1, b"yyyyy", b"yyy")]


def test_a_long_line_is_skipped_in_bounded_memory() -> None:
    framer = Framer(1000, 100, 50)
    for _ in range(2000):
        assert framer.feed(b"z" * 997, 0) == ([], 997)
        assert framer.pending_bytes <= 1000 + 100 + 51 + 997
    (line,), at = framer.feed(b"end\nnext", 0)
    assert at == 4
    assert plain(line) == (2000 * 997 + 3, b"z" * 100, b"z" * 47 + b"end")
    assert framer.feed(b"next\n", 0) == (["next"], 5)


def test_a_step_takes_one_block() -> None:
    """A consumer who stops early has not paid for the whole read."""
    data = b"short\n" * (BLOCK // 2)
    lines, at = Framer(LIMIT, HEAD, TAIL).feed(data, 0)
    assert len(lines) == at // 6
    assert BLOCK - 6 <= at <= BLOCK


def test_a_message_with_its_boundaries() -> None:
    framer = Framer(LIMIT, HEAD, TAIL)
    assert [framer.whole(line) for line in (b"a", b"a\n", b"a\r\n", b"", b"\xff")] == ["a", "a", "a", "", b"\xff"]
    assert plain(framer.whole(b"x" * LIMIT)) == "x" * LIMIT
    assert plain(framer.whole(b"x" * (LIMIT + 1))) == (LIMIT + 1, b"xxxxx", b"xxx")
    assert framer.pending_bytes == 0


def seconds(size: int) -> float:
    """The least CPU time in which a line of ``size`` bytes goes through in chunks of 256 bytes."""
    chunk = b"x" * 256
    best = 1e9
    for _ in range(3):
        framer = Framer(size, HEAD, TAIL)
        began = time.process_time()
        for _ in range(size // len(chunk)):
            framer.feed(chunk, 0)
        (line,), _ = framer.feed(b"\n", 0)
        best = min(best, time.process_time() - began)
        assert len(plain(line)) == size  # type: ignore[arg-type]  # a str
    return best


def test_the_cost_of_a_long_line_is_linear() -> None:
    """16 MiB may take four times as long as 4 MiB; quadratic cost would take sixteen times as long. In small chunks, so
    that it is not the system's time for fresh pages, of which the longer line needs more than its share."""
    assert seconds(16 * 2**20) < 10 * seconds(4 * 2**20)


lengths = st.one_of(
    st.integers(0, 3), st.integers(_WINDOW - 2, _WINDOW + 2), st.integers(2 * _WINDOW - 2, 2 * _WINDOW + 2)
)


@given(st.lists(lengths, max_size=8))
def test_a_text_is_split_as_split_does_whatever_the_lengths_of_its_lines(sizes: list[int]) -> None:
    text = "\n".join(chr(97 + number) * size for number, size in enumerate(sizes))
    assert split(text, "\n") == text.split("\n")
    assert split(text.encode(), b"\n") == text.encode().split(b"\n")
