"""Append-only text: what was said of each message, and what has to be said next so that the reader has all of it.

The wire knows text only as chunks to append, while the source of the text may speak in deltas, in whole texts, or in
replays of both. A ``TextLedger`` decides: the piece that is missing, nothing, or an error, because what was said cannot
be taken back. An agent's connection has one a turn; an owner of a client can check a reported replay with one.

Offsets and lengths count code points. ``TextLedger.from_utf16`` converts an offset in UTF-16 code units.
"""

from __future__ import annotations

from bisect import bisect_right

from .errors import StreamConflict, StreamGap, StreamRevision, check_type, check_word, clip, local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    Key: TypeAlias = tuple[str, str | None]
    # What one message of a transcript says: its id, its thought (None: it has none), and its text.
    Recovered: TypeAlias = tuple[str | None, str | None, str]

MESSAGE = "message"
THOUGHT = "thought"
USER = "user"
KINDS = (MESSAGE, THOUGHT, USER)

# What an entry costs besides its text, in code points, so that many empty ones are bounded too.
_ENTRY_COST = 64
# Pieces of this length are the units in which a UTF-16 offset is looked up.
_BLOCK = 1024


class Stream:
    """The text of one message so far, in pieces. ``forgotten``: its text was dropped to stay within the bound."""

    __slots__ = ("_blocks", "_points", "_starts", "_units", "forgotten", "length", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.length = 0
        self.forgotten = False
        # Where each piece starts; grows when it is asked for.
        self._starts: list[int] = []
        # The same for UTF-16: pieces of at most one block, where each starts in code points and in code units. The last
        # start is the end of what was counted.
        self._blocks: list[str] = []
        self._points: list[int] = [0]
        self._units: list[int] = [0]

    def forget(self) -> None:
        """Drop the text; the length stays."""
        for pieces in (self.parts, self._starts, self._blocks, self._points, self._units):
            pieces.clear()
        self.forgotten = True

    def text(self) -> str:
        """All of it, as one str."""
        if len(self.parts) != 1:
            self.parts[:] = ["".join(self.parts)]
            self._starts.clear()
        return self.parts[0]

    def has(self, text: str, offset: int) -> bool:
        """Whether ``text`` stands at ``offset``; it ends within the stream. The cost is that of ``text``."""
        parts, starts = self.parts, self._starts
        start = starts[-1] + len(parts[len(starts) - 1]) if starts else 0
        for part in parts[len(starts) :]:
            starts.append(start)
            start += len(part)
        position = 0
        index = bisect_right(starts, offset) - 1
        while position < len(text):
            part = parts[index]
            inside = offset + position - starts[index]
            piece = text[position : position + len(part) - inside]
            if not part.startswith(piece, inside):
                return False
            position += len(piece)
            index += 1
        return True

    def from_utf16(self, units: int) -> int | None:
        """The code points before ``units`` UTF-16 code units; None inside a pair. What lies past the end counts 1."""
        if self._points[-1] < self.length:
            self._count()
        if units >= self._units[-1]:
            return self.length + units - self._units[-1]
        index = bisect_right(self._units, units) - 1
        left = units - self._units[index]
        for inside, letter in enumerate(self._blocks[index]):
            if left <= 0:
                return self._points[index] + inside if left == 0 else None
            left -= 2 if letter > "\uffff" else 1
        return None if left else self._points[index + 1]

    def _count(self) -> None:
        """Count the code units of what came since the last time."""
        fresh: list[str] = []
        left = self.length - self._points[-1]
        for part in reversed(self.parts):
            fresh.append(part[-left:] if left < len(part) else part)
            left -= len(part)
            if left <= 0:
                break
        for part in reversed(fresh):
            for start in range(0, len(part), _BLOCK):
                block = part[start : start + _BLOCK]
                self._blocks.append(block)
                self._points.append(self._points[-1] + len(block))
                self._units.append(self._units[-1] + utf16_length(block))


class TextLedger:
    """What was said of each (kind, message id), append-only. Memory and time are linear in the text.

    Each call about a text gives the piece that is missing, ``""`` for none. An error that is raised changes nothing,
    except for a revision, which sticks: whoever has said something that is not so any more must not go on as if
    nothing had happened, so every later call raises the same StreamRevision, until ``clear``.

    Args:
        max_size: how many code points may be kept, 64 more an entry; past it the oldest texts are forgotten. None for
            no bound. A text that was forgotten takes only plain deltas: nothing about it can be compared.

    Raises:
        TypeError: ``max_size`` is no int.
    """

    __slots__ = ("_max_size", "_size", "_streams", "forgotten", "revision")

    def __init__(self, *, max_size: int | None = None) -> None:
        if max_size is not None:
            check_type("max_size", max_size, int, "an int or None")
        self._max_size: float = max_size if max_size is not None else float("inf")
        self._size = 0
        self._streams: dict[Key, Stream] = {}
        # How many texts were forgotten.
        self.forgotten = 0
        # The error that sticks, or None.
        self.revision: StreamRevision | None = None

    def __repr__(self) -> str:
        return f"TextLedger({len(self._streams)} texts, {self._size} code points)"

    @property
    def size(self) -> int:
        """What it keeps, in code points, the fixed cost of each entry included."""
        return self._size

    def text(self, kind: str, message_id: str | None) -> str | None:
        """The text that was said; None when nothing was, or when it was forgotten."""
        stream = self._streams.get((kind, message_id))
        return None if stream is None or stream.forgotten else stream.text()

    def delta(self, kind: str, message_id: str | None, text: str, offset: int | None = None) -> str:
        """A piece of the text, which starts at ``offset``; None is the end of what was said. What of it stands there
        already must be the same.

        Returns: the piece that is missing.

        Raises:
            TypeError: an argument has a wrong type.
            StreamGap: ``offset`` lies past the end.
            StreamConflict: something else was said there.
            StreamRevision: a revision came before.
            LocalProtocolError: the kind is unknown, the offset negative, or the text was forgotten.
        """
        return self._done(kind, message_id, self.missing(kind, message_id, delta=text, offset=offset))

    def snapshot(self, kind: str, message_id: str | None, text: str | None) -> str:
        """The whole text, as it is now. None counts as "" (a transcript's message without a thought).

        Returns: the piece that is missing: all of a new text, the rest of a longer one, "" of the same.

        Raises:
            TypeError: an argument has a wrong type.
            StreamRevision: it does not start with what was said. Sticky.
            LocalProtocolError: the kind is unknown, or the text was forgotten.
        """
        try:
            missing = self.missing(kind, message_id, snapshot=text if text is not None else "")
        except StreamRevision as why:
            self.revision = why
            raise
        return self._done(kind, message_id, missing)

    def recover(self, messages: Iterable[Recovered]) -> list[tuple[str, str | None, str]]:
        """A transcript, message by message: id, thought (None counts as "") and text; the thought comes first.

        Returns: the missing pieces, as kind, message id and text, in order, without the empty ones.

        Raises:
            TypeError, LocalProtocolError: as ``snapshot``; what came before the message at fault is in the ledger.
        """
        found: list[tuple[str, str | None, str]] = []
        for message_id, thought, text in messages:
            for kind, whole in ((THOUGHT, thought), (MESSAGE, text)):
                piece = self.snapshot(kind, message_id, whole)
                if piece:
                    found.append((kind, message_id, piece))
        return found

    def seed(self, kind: str, message_id: str | None, text: str) -> None:
        """Say that this text was said before, to this reader. It replaces what is known of it, and nothing comes out.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the kind is unknown.
        """
        _check_key(kind, message_id)
        check_type("text", text, str, "a str")
        old = self._streams.pop((kind, message_id), None)
        if old is not None:
            self._size -= _cost((kind, message_id), old)
        self.add(kind, message_id, text)

    def missing(
        self,
        kind: str,
        message_id: str | None,
        *,
        delta: str | None = None,
        offset: int | None = None,
        snapshot: str | None = None,
    ) -> str:
        """What ``delta`` or ``snapshot`` would return, and nothing changes, not even for a revision.

        Raises:
            TypeError: an argument has a wrong type, or there is not exactly one of delta and snapshot.
            LocalProtocolError: as ``delta`` and ``snapshot``.
        """
        _check_key(kind, message_id)
        if self.revision is not None:
            raise self.revision
        stream = self._streams.get((kind, message_id))
        if snapshot is not None:
            if delta is not None or offset is not None:
                raise TypeError("give a delta, with or without its offset, or a snapshot, not both")
            check_type("snapshot", snapshot, str, "a str")
            return self._rest(kind, message_id, stream, snapshot)
        check_type("delta", delta, str, "a str")
        assert delta is not None
        return delta if offset is None else self._tail(kind, message_id, stream, delta, offset)

    def add(self, kind: str, message_id: str | None, text: str) -> Stream:
        """Say that this piece was appended: the second half of ``delta`` and ``snapshot``, without a check."""
        stream = self._streams.get((kind, message_id))
        if stream is None:
            stream = Stream()
            if not text:
                return stream
            self._streams[kind, message_id] = stream
            # It may have been said and forgotten before: then nothing is known of its beginning.
            stream.forgotten = self.forgotten > 0
            self._size += _ENTRY_COST + len(message_id or "")
        self.extend(stream, text)
        return stream

    def extend(self, stream: Stream, text: str) -> None:
        """``add`` for a text that ``add`` returned before, as long as nothing was cleared or seeded."""
        size = len(text)
        stream.length += size
        if not stream.forgotten:
            stream.parts.append(text)
            self._size += size
        if self._size > self._max_size:
            self._forget(stream)

    def from_utf16(self, kind: str, message_id: str | None, offset: int) -> int:
        """An offset in UTF-16 code units of this text, in code points. What lies past the end counts one each.

        Raises:
            StreamConflict: it lies between the halves of a surrogate pair.
            LocalProtocolError: it is negative, or the text was forgotten.
        """
        check_type("offset", offset, int, "an int")
        if offset < 0:
            local("text.offset", f"offset is {offset}; it counts from 0")
        stream = self._streams.get((kind, message_id))
        if stream is None:
            return offset
        self._check_known(stream, message_id)
        found = stream.from_utf16(offset)
        if found is None:
            raise StreamConflict(f"offset {offset} lies inside a character of message {clip(message_id)}")
        return found

    def clear(self) -> None:
        """Forget everything, a revision too: a new turn begins."""
        self._streams.clear()
        self._size = self.forgotten = 0
        self.revision = None

    def _done(self, kind: str, message_id: str | None, text: str) -> str:
        self.add(kind, message_id, text)
        return text

    def _rest(self, kind: str, message_id: str | None, stream: Stream | None, whole: str) -> str:
        self._check_known(stream, message_id)
        if stream is None or not stream.length:
            return whole
        # Cheap first: a shorter text costs nothing to tell, and a longer one pays for the comparison itself.
        if len(whole) < stream.length or not whole.startswith(stream.text()):
            raise StreamRevision(kind, message_id, stream.length, len(whole))
        return whole[stream.length :]

    def _tail(self, kind: str, message_id: str | None, stream: Stream | None, text: str, offset: int) -> str:
        check_type("offset", offset, int, "an int or None")
        if offset < 0:
            local("text.offset", f"offset is {offset}; it counts from 0")
        self._check_known(stream, message_id)
        length = stream.length if stream is not None else 0
        if offset > length:
            raise StreamGap(
                f"a delta of {kind} {clip(message_id)} starts at {offset}, but only {length} code points came before"
            )
        overlap = text[: length - offset]
        if stream is not None and overlap and not stream.has(overlap, offset):
            raise StreamConflict(f"a delta of {kind} {clip(message_id)} says something else at {offset} than before")
        return text[len(overlap) :]

    def _check_known(self, stream: Stream | None, message_id: str | None) -> None:
        if (stream is not None and stream.forgotten) or (stream is None and self.forgotten):
            local(
                "text.forgotten",
                f"the text of {clip(message_id)} was forgotten: {self._max_size} code points are the bound; send "
                "plain deltas",
            )

    def _forget(self, current: Stream) -> None:
        """Drop the oldest texts; of the current one the text alone, so that its deltas still find it."""
        for key, stream in [*self._streams.items()]:
            if self._size <= self._max_size:
                return
            if stream is not current:
                del self._streams[key]
                self._size -= _cost(key, stream)
                self.forgotten += 1
        if self._size > self._max_size and not current.forgotten:
            self._size -= current.length
            current.forget()
            self.forgotten += 1


def _cost(key: Key, stream: Stream) -> int:
    return _ENTRY_COST + len(key[1] or "") + (0 if stream.forgotten else stream.length)


def _check_key(kind: str, message_id: str | None) -> None:
    check_word("kind", kind, KINDS, "update.text_kind")
    if message_id is not None:
        check_type("message_id", message_id, str, "a str or None")


def utf16_length(text: str) -> int:
    """How many UTF-16 code units a text has: two for each character past U+FFFF, one for any other."""
    if text.isascii():
        return len(text)
    return len(text) + sum(letter > "\uffff" for letter in text)
