"""Bytes to lines. Split at 0x0A only, linear in bytes whatever the chunking, bounded in memory."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AnyStr, Literal, TypeAlias

    Line: TypeAlias = "str | bytes | LongLine"

# One step handles at most this much, so that a consumer who stops early has not paid for a large read.
BLOCK = 65536


# How much is split at a time; a longer line is cut off by itself.
_WINDOW = 4096


def split(text: AnyStr, newline: AnyStr) -> list[AnyStr]:
    """``text.split(newline)``. That looks at every character by itself, which find does not: 0.15 of json.loads on tool
    calls of 10 KiB."""
    for start in range(0, len(text) - _WINDOW, _WINDOW):
        if text.find(newline, start, start + _WINDOW) < 0:
            break
    else:
        return text.split(newline)
    lines: list[AnyStr] = []
    start = 0
    while len(text) - start > _WINDOW:
        end = text.rfind(newline, start, start + _WINDOW)
        if end >= 0:
            lines += text[start:end].split(newline)
        else:
            end = text.find(newline, start + _WINDOW)
            if end < 0:
                lines.append(text[start:])
                return lines
            lines.append(text[start:end])
        start = end + 1
    lines += text[start:].split(newline)
    return lines


class LongLine:
    """What is kept of a line past the bound: ``length`` in bytes, the first bytes and the last ones."""

    __slots__ = ("head", "length", "tail")

    def __init__(self, length: int, head: bytes, tail: bytes) -> None:
        self.length = length
        self.head = head
        self.tail = tail

    def __bool__(self) -> Literal[False]:
        """Like an empty line: there is no text to read."""
        return False


class Framer:
    """Cuts a stream of bytes into lines without their ends (LF or CRLF).

    A line is given as str when it is ASCII, else as bytes, and as a LongLine when it is longer than ``limit`` bytes.
    """

    __slots__ = ("_head_size", "_length", "_limit", "_pending", "_room", "_skipping", "_tail_size", "busy", "ends")

    def __init__(self, limit: int, head_size: int, tail_size: int) -> None:
        self._limit = limit
        # A line is known to be too long one byte past the bound: up to there its head is the same for every chunking.
        self._head_size = min(head_size, limit)
        self._tail_size = tail_size
        self._pending = bytearray()
        # How many bytes more a line may have: one above the bound may be the CR of its end. Below 0 it is too long.
        self._room = limit + 1
        # While a long line is skipped: its length so far, and in _pending its head and a running tail.
        self._length = 0
        self._skipping: bytes | None = None
        # A line whose end has not come is kept.
        self.busy = False
        # How many bytes long the end of each of the latest lines was; empty when each was one LF, which is mostly so.
        self.ends = b""

    @property
    def pending_bytes(self) -> int:
        """Bytes kept of a line whose end has not come."""
        return len(self._pending) + (len(self._skipping) if self._skipping is not None else 0)

    @property
    def pending_length(self) -> int:
        """Bytes that came of such a line, kept or not."""
        return len(self._pending) if self._skipping is None else self._length

    def feed(self, data: bytes, start: int) -> tuple[list[Line], int]:
        """Take ``data`` from ``start`` on: the lines that are whole, and where to go on. At most one block a call."""
        if self.busy:
            cut = data.find(b"\n", start)
            if cut < 0:
                self.extend(data[start:] if start else data)
                return [], len(data)
            self.extend(data[start:cut])
            return [self._finish(1)], cut + 1
        size = len(data)
        end = start + BLOCK
        if size > end:
            cut = data.rfind(b"\n", start, end)
            if cut < 0:
                cut = data.find(b"\n", end)
        else:
            cut = data.rfind(b"\n", start)
        if cut < 0:
            self.extend(data[start:] if start else data)
            return [], len(data)
        return self._split(data[start:cut]), cut + 1

    def whole(self, line: bytes) -> Line:
        """One line that came with its boundaries known."""
        end = len(line)
        if line[end - 1 : end] == b"\n":
            end -= 1
        if line[end - 1 : end] == b"\r":
            end -= 1
        self.ends = bytes((len(line) - end,))
        if end > self._limit:
            return self._line(line[:end])
        return line[:end].decode("ascii") if line.isascii() else line[:end]

    def finish(self) -> Line | None:
        """What is left when the input ends, or None."""
        return self._finish(0) if self.busy else None

    def _split(self, block: bytes) -> list[Line]:
        if block.isascii():
            text = block.decode("ascii")
            lines: list[Line] = [*split(text, "\n")]
        else:
            lines = [line.decode("ascii") if line.isascii() else line for line in split(block, b"\n")]
        self.ends = b""
        if b"\r" in block:
            texts = [line for line in lines if not isinstance(line, LongLine)]
            self.ends = bytes([2 if line[-1:] in ("\r", b"\r") else 1 for line in texts])
            lines = [line[:-1] if end == 2 else line for line, end in zip(texts, self.ends, strict=True)]
        if len(block) > self._limit:
            return [
                line
                if isinstance(line, LongLine) or len(line) <= self._limit
                else self._line(line.encode("ascii") if isinstance(line, str) else line)
                for line in lines
            ]
        return lines

    def _line(self, line: bytes) -> Line:
        if len(line) > self._limit:
            return LongLine(len(line), line[: self._head_size], line[-self._tail_size :])
        return line.decode("ascii") if line.isascii() else line

    def extend(self, data: bytes) -> None:
        """Take bytes, at least one, in which no line ends."""
        self.busy = True
        pending = self._pending
        room = self._room - len(data)
        if room >= 0:
            self._room = room
            pending += data
            return
        if self._skipping is None:
            self._room = -1
            self._length = len(pending) + len(data)
            self._skipping = bytes(pending[: self._head_size]) + data[: max(0, self._head_size - len(pending))]
            self._pending = pending[-self._tail_size - 1 :] + data[-self._tail_size - 1 :]
        else:
            self._length += len(data)
            pending += data[-self._tail_size - 1 :]
        # One byte more than is reported: it may be the CR of the line end.
        del self._pending[: -self._tail_size - 1]

    def _finish(self, end: int) -> Line:
        """The kept line, whose end was ``end`` bytes long without a CR."""
        pending, self._pending = self._pending, bytearray()
        self._room = self._limit + 1
        self.busy = False
        returned = pending.endswith(b"\r")
        if returned:
            del pending[-1]
        self.ends = bytes((end + returned,))
        if self._skipping is None:
            if len(pending) <= self._limit and pending.isascii():
                return pending.decode("ascii")
            return self._line(bytes(pending))
        length, head = self._length, self._skipping
        self._length, self._skipping = 0, None
        length -= returned
        return LongLine(length, head[:length], bytes(pending[-self._tail_size :]))
