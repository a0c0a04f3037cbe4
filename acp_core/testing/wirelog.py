"""What went over the wire, as data: a bounded ring of lines that can be kept, sent, read again and replayed."""

from __future__ import annotations

import json
import re
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TO_AGENT = "to_agent"
TO_CLIENT = "to_client"

# Members whose values are secrets more often than not: environments and headers of MCP servers and terminals.
REDACTED_MEMBERS = frozenset({"env", "headers"})
REDACTED = "[redacted]"
MIB = 1024 * 1024
# What an entry costs besides its line, so that many empty lines are bounded too.
_OVERHEAD = 64
_ESCAPE = re.compile(rb"\\u00([0-7][0-9a-fA-F])")


class WireEntry:
    """One line: ``now`` is in seconds on the owner's clock, ``direction`` ``"to_agent"`` or ``"to_client"``, ``line``
    the bytes without their line end."""

    __slots__ = ("direction", "line", "now")

    def __init__(self, now: float, direction: str, line: bytes) -> None:
        self.now = now
        self.direction = direction
        self.line = line

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WireEntry):
            return NotImplemented
        return (self.now, self.direction, self.line) == (other.now, other.direction, other.line)

    __hash__ = None  # type: ignore[assignment] # it is not frozen

    def __repr__(self) -> str:
        return f"WireEntry({self.now!r}, {self.direction!r}, {self.line!r})"

    @property
    def text(self) -> str:
        """The line as text; bytes that are no UTF-8 become U+FFFD."""
        return self.line.decode("utf-8", "replace")


class WireLog:
    """A bounded log of lines both ways. The oldest go first; what went is counted.

    Args:
        max_lines, max_bytes: the bounds of the ring, in lines and in bytes.
        max_line_bytes: of a longer line only so many bytes are kept; such lines are counted in ``cut``.
        redact: names of members whose values are replaced before a line is kept, at any depth; give () for none. Only
            values go: names of variables and headers stay. A line that names such a member and is no JSON is replaced
            whole.

    Raises:
        ValueError: a bound is not positive.
    """

    __slots__ = (
        "_bytes",
        "_entries",
        "_marks",
        "_pending",
        "_redact",
        "cut",
        "dropped",
        "max_bytes",
        "max_line_bytes",
        "max_lines",
    )

    def __init__(
        self,
        *,
        max_lines: int = 10_000,
        max_bytes: int = 16 * MIB,
        max_line_bytes: int = 1 * MIB,
        redact: Iterable[str] = REDACTED_MEMBERS,
    ) -> None:
        if max_lines <= 0 or max_bytes <= 0 or max_line_bytes <= 0:
            raise ValueError("max_lines, max_bytes and max_line_bytes must be positive")
        self.max_lines = max_lines
        self.max_bytes = max_bytes
        self.max_line_bytes = max_line_bytes
        self.dropped = 0
        self.cut = 0
        self._redact = frozenset(redact)
        self._marks = [json.dumps(name).encode("ascii") for name in sorted(self._redact)]
        self._entries: deque[WireEntry] = deque()
        self._bytes = 0
        self._pending: dict[str, bytearray] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[WireEntry]:
        """The entries, oldest first."""
        return iter(self._entries)

    @property
    def size(self) -> int:
        """Bytes kept, an overhead for each line included."""
        return self._bytes

    def add(self, now: float, direction: str, line: bytes) -> None:
        """Keep one line, without its line end, as far as the bounds allow.

        Raises:
            TypeError: the line is no bytes.
            ValueError: the direction is neither ``"to_agent"`` nor ``"to_client"``.
        """
        _check_direction(direction)
        _check_bytes(line)
        if len(line) > self.max_line_bytes:
            line = line[: self.max_line_bytes]
            self.cut += 1
        line = self._redacted(line.rstrip(b"\r\n"))
        self._entries.append(WireEntry(now, direction, line))
        self._bytes += len(line) + _OVERHEAD
        while len(self._entries) > self.max_lines or self._bytes > self.max_bytes:
            self._bytes -= len(self._entries.popleft().line) + _OVERHEAD
            self.dropped += 1

    def feed(self, now: float, direction: str, data: bytes) -> None:
        """Keep bytes of a stream as they come; a line is kept, with this ``now``, when its end has come.

        Raises:
            TypeError, ValueError: as ``add``.
        """
        _check_direction(direction)
        _check_bytes(data)
        pending = self._pending.setdefault(direction, bytearray())
        *lines, rest = data.split(b"\n")
        for line in lines:
            # One byte too many is enough to know that a line is past the bound.
            pending += line[: max(0, self.max_line_bytes + 1 - len(pending))]
            self.add(now, direction, bytes(pending))
            pending.clear()
        pending += rest[: max(0, self.max_line_bytes + 1 - len(pending))]

    def data(self, direction: str) -> bytes:
        """All kept lines of one direction as a stream, to be received again.

        Raises:
            ValueError: as ``add``.
        """
        _check_direction(direction)
        return b"".join(entry.line + b"\n" for entry in self._entries if entry.direction == direction)

    def to_jsonl(self) -> str:
        """The log as JSON lines ``{"now", "direction", "line"}``, ASCII; ``from_jsonl`` reads them back unchanged."""
        return "".join(
            json.dumps(
                {
                    "now": entry.now,
                    "direction": entry.direction,
                    # Bytes that are no UTF-8 travel as lone surrogates.
                    "line": entry.line.decode("utf-8", "surrogateescape"),
                }
            )
            + "\n"
            for entry in self._entries
        )

    @classmethod
    def from_jsonl(
        cls,
        text: str,
        *,
        max_lines: int = 10_000,
        max_bytes: int = 16 * MIB,
        max_line_bytes: int = 1 * MIB,
        redact: Iterable[str] = REDACTED_MEMBERS,
    ) -> WireLog:
        """The log that ``to_jsonl`` wrote. Blank lines are skipped.

        Raises:
            ValueError: a line is no such object; its number is named. Or as the constructor.
        """
        log = cls(max_lines=max_lines, max_bytes=max_bytes, max_line_bytes=max_line_bytes, redact=redact)
        for number, row in enumerate(text.split("\n"), 1):
            if not row.strip():
                continue
            try:
                value = json.loads(row)
                now, direction, line = value["now"], value["direction"], value["line"]
                log.add(float(now), direction, line.encode("utf-8", "surrogateescape"))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as why:
                raise ValueError(f"line {number} of the wire log cannot be read: {why!r}") from None
        return log

    def _redacted(self, line: bytes) -> bytes:
        # A member's name may hide behind escapes.
        plain = _ESCAPE.sub(_unescaped, line) if b"\\u00" in line else line
        if not any(mark in plain for mark in self._marks):
            return line
        names = self._redact

        def hide(pairs: list[tuple[str, object]]) -> dict[str, object]:
            # Called for every object, also for one that a later duplicate key replaces.
            return {key: _hidden(value) if key in names else value for key, value in pairs}

        try:
            value = json.loads(line.decode("utf-8"), object_pairs_hook=hide)
            return json.dumps(value, separators=(",", ":")).encode("ascii")
        except (ValueError, RecursionError):
            named = " and ".join(name for name in sorted(names) if name.encode() in plain)
            return f"[{len(line)} bytes that are no JSON and name {named}]".encode()


def _check_direction(direction: str) -> None:
    if direction not in (TO_AGENT, TO_CLIENT):
        raise ValueError(f"direction is {direction!r}; it is {TO_AGENT!r} or {TO_CLIENT!r}")


def _check_bytes(data: bytes) -> None:
    if not isinstance(data, bytes):
        raise TypeError(f"what went over the wire is bytes, not {type(data).__name__}")


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes((int(found.group(1), 16),))


def _hidden(value: object) -> object:
    """The value of a redacted member: a list of name and value pairs or an object keeps its names."""
    if isinstance(value, dict):
        return dict.fromkeys(value, REDACTED)
    if isinstance(value, list):
        return [
            {key: item if key == "name" else REDACTED for key, item in entry.items()}
            if isinstance(entry, dict)
            else REDACTED
            for entry in value
        ]
    return value if value is None else REDACTED
