"""Reattaching to a turn in flight: the snapshot of an owner, the window in which a tail is replayed, and the comparison
of that tail with what the owner has stored (client rules A1 to A6)."""

from __future__ import annotations

from zlib import crc32

from . import codec
from .errors import check_type, clip, local
from .events import get_int, get_list, get_object, get_objects, get_str
from .shapes import COUNT, INT, OBJECT, STR, misfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from .limits import Limits
    from .methods import Method
    from .shapes import Shape
    from .timers import Timer

    JsonObject: TypeAlias = dict[str, object]
    # What tells a request from others when its line is replayed byte by byte: its id, and the mark of its line.
    Fingerprint: TypeAlias = tuple[int | str, int]

FORMAT = 1
# Own ids of a reattached connection start at a multiple of this, so that nothing in the tail can answer them.
ID_STEP = 1 << 20


# What a snapshot has (``acp_core.shapes``). A part that is missing would be a session that is lost in silence.
SNAPSHOT: dict[str, Shape] = {
    "protocolVersion": COUNT,
    "nonce": STR,
    "nextId": COUNT,
    "clientCapabilities": OBJECT,
    "agentCapabilities": OBJECT,
    "authMethods": [OBJECT],
    "sessions": [
        {
            "sessionId": STR,
            "cwd~": STR,
            "promptId~": COUNT,
            "identity~": STR,
            "openedId~": COUNT,
            "historyLeft~": COUNT,
        }
    ],
    "openRequests": [
        {
            "requestId": STR,
            "rpcId": (INT, STR),
            "key": STR,
            "method": STR,
            "params": OBJECT,
            "print": STR,
        }
    ],
    "answered": [STR],
}


def first_id_after(used: int) -> int:
    """The next multiple of ``ID_STEP`` above ``used``."""
    return (used // ID_STEP + 1) * ID_STEP


def line_mark(line: str | bytes) -> int:
    """How long a line is, and its checksum, in one integer: it is kept with every open request."""
    raw = line if isinstance(line, bytes) else line.encode("ascii")
    return len(raw) << 32 | crc32(raw)


def written_fingerprint(rpc_id: int | str, mark: int) -> str:
    """A fingerprint as a snapshot has it."""
    return f"{'s' if isinstance(rpc_id, str) else 'i'}{rpc_id}:{mark >> 32}:{mark & 0xFFFFFFFF:08x}"


def read_fingerprint(text: str) -> Fingerprint | None:
    """The fingerprint that a snapshot has, or None for what is none."""
    try:
        head, size, checksum = text.rsplit(":", 2)
        return head[1:] if head[0] == "s" else int(head[1:]), int(size) << 32 | int(checksum, 16)
    except (ValueError, IndexError):
        return None


class Collected:
    """A request of the agent that stood in the tail: it may have been answered before."""

    __slots__ = ("line", "mark", "method", "params", "rpc_id")

    def __init__(self, rpc_id: int | str, method: Method, params: JsonObject, line: str | bytes, mark: int) -> None:
        self.rpc_id = rpc_id
        self.method = method
        self.params = params
        self.line = line
        self.mark = mark


class Tail:
    """The window in which a tail is replayed: over when nothing has come for ``quiet`` seconds, at the latest after
    ``longest`` seconds, or when the owner says so."""

    __slots__ = ("answers", "began_at", "collected", "last_at", "longest", "quiet", "requests", "timer")

    def __init__(self, quiet: float, longest: float) -> None:
        self.quiet = quiet
        self.longest = longest
        self.began_at: float | None = None
        self.last_at = 0.0
        self.collected: list[Collected] = []
        self.answers = 0
        self.requests = 0
        self.timer: Timer | None = None

    def saw(self, at: float) -> None:
        """Input came."""
        self.last_at = at
        if self.began_at is None:
            self.began_at = at

    def deadline(self) -> float:
        """When the window closes, as far as is known now; -inf while nothing has come."""
        if self.began_at is None:
            return float("-inf")
        return min(self.last_at + self.quiet, self.began_at + self.longest)

    def take(self, rpc_id: object) -> list[Collected]:
        """Remove and return the collected requests with an id of the agent."""
        taken = [one for one in self.collected if one.rpc_id == rpc_id and one.rpc_id.__class__ is rpc_id.__class__]
        if taken:
            self.collected = [one for one in self.collected if one not in taken]
        return taken

    def leave(self, session_id: str | None) -> list[Collected]:
        """Remove and return the collected requests of a session: its turn has ended."""
        left = [one for one in self.collected if one.params.get("sessionId") == session_id]
        self.collected = [one for one in self.collected if one not in left]
        return left


class Snapshot:
    """A snapshot, read back: what a new owner goes on with."""

    __slots__ = (
        "agent_capabilities",
        "answered",
        "auth_methods",
        "client_capabilities",
        "next_id",
        "nonce",
        "requests",
        "sessions",
        "version",
    )

    def __init__(self, value: Mapping[str, object], limits: Limits) -> None:
        check_type("restore", value, dict, "the dict that snapshot() gave")
        form = value.get("format")
        if form.__class__ is not int or form != FORMAT:
            local("snapshot.format", f"the snapshot's format is {clip(form)}; this version reads {FORMAT}")
        problem = misfit(SNAPSHOT, value, "")
        if problem:
            local("snapshot.format", f"the snapshot cannot be read: {problem}")
        # A copy of its own, of JSON alone: what comes next may be stored again.
        text = codec.encode(value, "the snapshot", limits.max_depth)
        read = codec.decode('{"jsonrpc":"2.0","value":' + text + "}", limits.max_depth)
        copy = get_object(read, "value") if isinstance(read, dict) else {}
        for row in get_objects(copy, "sessions"):
            if not row["sessionId"]:
                local("snapshot.format", f"a session of the snapshot has no id: {clip(row)}")
        for row in get_objects(copy, "openRequests"):
            if not codec.id_fits(row["rpcId"], limits.max_id_bytes):
                local("snapshot.format", f"an id of the snapshot takes more than {limits.max_id_bytes} bytes")
        self.version = copy.get("protocolVersion")
        self.next_id = get_int(copy, "nextId") or 0
        self.nonce = get_str(copy, "nonce") or ""
        self.client_capabilities = get_object(copy, "clientCapabilities")
        self.agent_capabilities = get_object(copy, "agentCapabilities")
        self.auth_methods = get_objects(copy, "authMethods")
        self.sessions = {get_str(row, "sessionId") or "": row for row in get_objects(copy, "sessions")}
        self.requests = get_objects(copy, "openRequests")
        self.answered = [print_ for print_ in get_list(copy, "answered") if isinstance(print_, str)]


class TailComparison:
    """What a replayed tail adds to the lines that an owner has stored.

    ``new`` are the lines of the tail that were not stored, ``overlap`` how many were. ``ambiguous`` says that equal
    lines allow more than one answer: the longest overlap was taken. ``gap`` says that no whole line stands in both:
    lines may be missing between what was stored and the tail, or the tail may begin with what is no news.
    """

    __slots__ = ("ambiguous", "gap", "new", "overlap")

    def __init__(self, new: list[bytes], overlap: int, ambiguous: bool, gap: bool) -> None:
        self.new = new
        self.overlap = overlap
        self.ambiguous = ambiguous
        self.gap = gap

    def __repr__(self) -> str:
        return (
            f"TailComparison(new={len(self.new)} lines, overlap={self.overlap}, "
            f"ambiguous={self.ambiguous}, gap={self.gap})"
        )


def compare_tail(stored: Sequence[bytes], tail: Sequence[bytes], dropped: bytes = b"") -> TailComparison:
    """Match a replayed tail with stored lines, by content: whole lines without their ends, oldest first.

    ``dropped`` are the bytes of the tail's cut first line (``TailDropped.raw``), for an owner that stores every line:
    the stored line before an overlap has to end with them. Linear in the number of lines. Nothing is guessed in
    silence: see ``ambiguous`` and ``gap``.

    Raises:
        TypeError: an argument has a wrong type.
    """
    given: tuple[tuple[str, object], ...] = (("stored", stored), ("tail", tail))
    for name, lines in given:
        if isinstance(lines, (str, bytes)) or not hasattr(lines, "__getitem__"):
            raise TypeError(f"{name} must be a list of lines, not {type(lines).__name__}")
    check_type("dropped", dropped, bytes, "bytes")
    # Every end of the stored lines that begins the tail, longest first.
    table = _failures(tail)
    length = 0
    for matched in _matches(tail, table, stored[-len(tail) :] if tail else ()):
        length = matched
    overlaps: list[int] = []
    while length:
        before = len(stored) - length - 1
        if before < 0 or stored[before].endswith(dropped):
            overlaps.append(length)
        length = table[length - 1]
    if not overlaps:
        # The cut line alone proves nothing: other lines may end as the last stored one does.
        return TailComparison(list(tail), 0, False, bool(stored or tail or dropped))
    overlap = overlaps[0]
    # What overlaps stands once on each side; if it stands anywhere else, it may as well be that other place.
    both = [*stored, None, *tail]
    places = sum(length == overlap for length in _matches(tail[:overlap], table[:overlap], both))
    return TailComparison(list(tail[overlap:]), overlap, len(overlaps) > 1 or places > 2, False)


def _failures(pattern: Sequence[bytes]) -> list[int]:
    """For each prefix of a pattern: the length of its longest proper suffix that begins the pattern."""
    table = [0] * len(pattern)
    for index in range(1, len(pattern)):
        length = table[index - 1]
        while length and pattern[index] != pattern[length]:
            length = table[length - 1]
        table[index] = length + 1 if pattern[index] == pattern[length] else 0
    return table


def _matches(pattern: Sequence[bytes], table: Sequence[int], lines: Iterable[bytes | None]) -> Iterator[int]:
    """After each line: how much of the pattern's beginning the lines end with."""
    length = 0
    for line in lines:
        while length and (length == len(pattern) or line != pattern[length]):
            length = table[length - 1]
        if line == pattern[length]:
            length += 1
        yield length
