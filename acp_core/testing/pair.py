"""Two ends of a connection joined in memory: a virtual clock, any chunking, delays and cuts. No IO, no waiting."""

from __future__ import annotations

from collections import deque
from types import GenericAlias

from ..methods import AGENT, CLIENT
from .wirelog import TO_AGENT, TO_CLIENT, WireLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Generic, Protocol, TypeAlias, TypeVar

    from ..events import Event

    class Endpoint(Protocol):
        """What can stand at an end of the link: a Connection, or a scripted peer. The methods are Connection's."""

        @property
        def output_closed(self) -> bool: ...
        def receive_data(self, data: bytes, now: float) -> None: ...
        def receive_eof(self, now: float) -> None: ...
        def handle_timeout(self, now: float) -> None: ...
        def next_event(self) -> Event | None: ...
        def data_to_send(self, now: float, max_bytes: int | None = None) -> bytes: ...
        def next_deadline(self) -> float | None: ...
        def send_failed(self, reason: str, now: float) -> None: ...

    Chunks: TypeAlias = "int | Iterable[int] | None"
    Handler: TypeAlias = "Callable[[Event], None]"
    ClientT = TypeVar("ClientT", bound=Endpoint)
    AgentT = TypeVar("AgentT", bound=Endpoint)

    class _Pair(Generic[ClientT, AgentT]):
        __slots__ = ()

else:
    ClientT = AgentT = object

    class _Pair:
        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


MAX_ROUNDS = 10_000
# A deadline that says "drain first", not "it is time".
_NEVER = float("-inf")


class Pipe:
    """One direction of a link: the bytes on their way.

    Args:
        chunks: sizes in bytes of the pieces in which the receiver reads: one int for all, an iterable for one after the
            other (when it ends, reads take all there is), None for all there is.
        writes: the most bytes the writer hands over at once, None for all.
        delay: seconds from writing to reading.
        cut_at: after so many bytes the direction breaks: what is written beyond is lost, the reader meets the end of
            input, and the next write fails.

    Raises:
        ValueError: a size or the delay is negative, or a size is 0.
    """

    def __init__(
        self,
        *,
        chunks: Chunks = None,
        writes: int | None = None,
        delay: float = 0.0,
        cut_at: int | None = None,
    ) -> None:
        if (isinstance(chunks, int) and chunks < 1) or (writes is not None and writes < 1):
            raise ValueError(f"chunks ({chunks!r}) and writes ({writes!r}) are at least 1 byte")
        if delay < 0 or (cut_at is not None and cut_at < 0):
            raise ValueError(f"delay ({delay!r}) and cut_at ({cut_at!r}) are not negative")
        self._sizes = chunks if chunks is None or isinstance(chunks, int) else iter(chunks)
        self.writes = writes
        self.delay = delay
        self.cut_at = cut_at
        # What was written, piece by piece, with the time: (now, bytes).
        self.written: list[tuple[float, bytes]] = []
        self.carried = 0
        self.delivered = 0
        self.lost = 0
        # Nothing can be written any more.
        self.broken = False
        # When the end of input may be read; None while the direction is open.
        self.ends_at: float | None = None
        self.end_delivered = False
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._offset = 0

    @property
    def data(self) -> bytes:
        """All bytes that were written, lost ones not included."""
        return b"".join(data for _, data in self.written)

    @property
    def in_flight(self) -> int:
        """Bytes written and not read yet."""
        return self.carried - self.delivered

    def write(self, data: bytes, now: float) -> None:
        """Put bytes in. Those past ``cut_at`` are lost, and the direction is broken."""
        if self.broken:
            self.lost += len(data)
            return
        if self.cut_at is not None and self.carried + len(data) >= self.cut_at:
            kept = data[: self.cut_at - self.carried]
            self.lost += len(data) - len(kept)
            data = kept
            self.sever(now)
        if data:
            self.carried += len(data)
            self.written.append((now, data))
            self._waiting.append((now + self.delay, data))

    def end(self, now: float) -> None:
        """Close the direction in order: what is in flight is read, then the end."""
        if self.ends_at is None:
            self.ends_at = now + self.delay

    def sever(self, now: float) -> None:
        """Break the direction: what is in flight is still read, then the end; the next write fails."""
        self.broken = True
        self.end(now)

    def moment(self) -> float | None:
        """When there is something to read next (seconds), or None."""
        if self._waiting:
            return self._waiting[0][0]
        return None if self.end_delivered else self.ends_at

    def read(self, now: float, size: int | None = None) -> bytes | None:
        """The next piece due at ``now``: of ``size`` bytes at most, else as ``chunks`` says. b"" is the end, once; None
        when nothing is due.

        Raises:
            ValueError: ``chunks`` gave a size below 1.
        """
        moment = self.moment()
        if moment is None or moment > now:
            return None
        if not self._waiting:
            self.end_delivered = True
            return b""
        if size is None:
            size = self._sizes if self._sizes is None or isinstance(self._sizes, int) else next(self._sizes, None)
        if size is not None and size < 1:
            raise ValueError(f"a chunk of {size} bytes: give at least 1")
        parts: list[bytes] = []
        while self._waiting and self._waiting[0][0] <= now and (size is None or size > 0):
            data = self._waiting[0][1]
            part = data[self._offset :] if size is None else data[self._offset : self._offset + size]
            parts.append(part)
            self._offset += len(part)
            if size is not None:
                size -= len(part)
            if self._offset == len(data):
                self._waiting.popleft()
                self._offset = 0
        piece = b"".join(parts)
        self.delivered += len(piece)
        return piece


class LinkedPair(_Pair[ClientT, AgentT]):
    """A client's end and an agent's end, joined.

    ``run`` moves everything that can move without time passing; ``advance`` and ``jump`` let time pass, on a clock that
    only they move. The steps they are made of (``drain``, ``hand_over``, ``deliver``, ``wake``) are there for tests
    that choose the order themselves. Either end may be a scripted peer instead of a Connection.

    Args:
        client, agent: the two ends. They are only driven through their public methods.
        to_agent, to_client: the two directions; a plain Pipe by default.
        on_client, on_agent: called with each event as it is pulled; may call intents of its connection. They are
            attributes too, so that they can be set when the pair is there.
        now: where the clock starts, in seconds.
        log: a WireLog that gets every line both ways.

    Raises:
        ValueError: an end is of the other role.

    Attributes:
        client_events, agent_events: every event so far, oldest first.
        dead: the sides that ``kill`` has ended.
    """

    def __init__(
        self,
        client: ClientT,
        agent: AgentT,
        *,
        to_agent: Pipe | None = None,
        to_client: Pipe | None = None,
        on_client: Handler | None = None,
        on_agent: Handler | None = None,
        now: float = 0.0,
        log: WireLog | None = None,
    ) -> None:
        for end, role in ((client, CLIENT), (agent, AGENT)):
            if getattr(end, "role", role) != role:
                raise ValueError(f"{end!r} is no {role}: give the client first, then the agent")
        self.client = client
        self.agent = agent
        self.to_agent = to_agent if to_agent is not None else Pipe()
        self.to_client = to_client if to_client is not None else Pipe()
        self.on_client = on_client
        self.on_agent = on_agent
        self.client_events: list[Event] = []
        self.agent_events: list[Event] = []
        self.log = log
        self._now = now
        self.dead: set[str] = set()

    @property
    def now(self) -> float:
        """The virtual clock, in seconds."""
        return self._now

    # ── Time ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, max_rounds: int = MAX_ROUNDS) -> int:
        """Move until nothing moves any more at this time. Returns the rounds it took.

        Raises:
            RuntimeError: it still moves after ``max_rounds``: the two ends, or a handler, answer each other for ever.
        """
        for rounds in range(max_rounds):
            if not (self._move(CLIENT) | self._move(AGENT)):
                return rounds
        raise RuntimeError(f"still moving after {max_rounds} rounds; do the two ends answer each other for ever?")

    def advance(self, seconds: float) -> None:
        """Let time pass: each delivery and each deadline on the way happens at its own time.

        Raises:
            ValueError: ``seconds`` is negative.
            RuntimeError: as ``run``, or the clock stands still at a deadline.
        """
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds!r} seconds")
        end = self._now + seconds
        self.run()
        for _ in range(MAX_ROUNDS):
            moment = self.next_moment()
            if moment is None or moment > end:
                break
            self._now = moment
            self.run()
        else:
            raise RuntimeError(f"still busy at {self._now} after {MAX_ROUNDS} deadlines and deliveries")
        self._now = end
        self.run()

    def tick(self, seconds: float) -> None:
        """Move the clock, and nothing else.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f"time does not run backwards: {seconds!r} seconds")
        self._now += seconds

    def jump(self) -> bool:
        """Go to the next delivery or deadline and run there. False when nothing will ever happen by itself.

        Raises:
            RuntimeError: as ``run``.
        """
        self.run()
        moment = self.next_moment()
        if moment is None:
            return False
        self._now = moment
        self.run()
        return True

    def exhaust(self, seconds: float = 3600.0) -> None:
        """Jump until nothing will happen by itself, over at most so many seconds.

        Raises:
            RuntimeError: as ``advance``.
        """
        end = self._now + seconds
        self.run()
        for _ in range(MAX_ROUNDS):
            moment = self.next_moment()
            if moment is None or moment > end:
                return
            self._now = moment
            self.run()
        raise RuntimeError(f"still busy at {self._now} after {MAX_ROUNDS} deadlines and deliveries")

    def next_moment(self) -> float | None:
        """When something happens by itself next, later than now; None for never."""
        moments = [self.to_agent.moment(), self.to_client.moment()]
        moments += [self._end(side).next_deadline() for side in (CLIENT, AGENT) if side not in self.dead]
        later = [moment for moment in moments if moment is not None and moment > self._now]
        return min(later) if later else None

    # ── Steps; ``side`` is "client" or "agent" ──────────────────────────────────────────────────────────────────────

    def drain(self, side: str, limit: int | None = None) -> int:
        """Pull events of one side, all of them or at most ``limit``. Returns how many there were."""
        end = self._end(side)
        events, handler = (self.client_events, self.on_client) if side == CLIENT else (self.agent_events, self.on_agent)
        count = 0
        while (limit is None or count < limit) and (event := end.next_event()) is not None:
            count += 1
            events.append(event)
            if handler is not None:
                handler(event)
        return count

    def hand_over(self, side: str, max_bytes: int | None = None) -> int:
        """Take output of one side and put it on its way, and close the direction after the last byte. A broken
        direction fails the write. Returns the number of bytes."""
        end, pipe = self._end(side), self._out(side)
        if side in self.dead:
            return 0
        data = end.data_to_send(self._now, max_bytes if max_bytes is not None else pipe.writes)
        # What the hand-over says (PromptSent) is known before the bytes leave.
        self.drain(side)
        if data:
            if pipe.broken:
                pipe.write(data, self._now)
                end.send_failed("the pipe is broken", self._now)
            else:
                pipe.write(data, self._now)
                if self.log is not None:
                    self.log.feed(self._now, TO_AGENT if side == CLIENT else TO_CLIENT, data)
        if getattr(end, "crashed", False):
            self.kill(side)
        elif end.output_closed:
            pipe.end(self._now)
        return len(data)

    def deliver(self, side: str, size: int | None = None) -> int:
        """Give one side the next piece that is due, or the end of input. Returns the number of bytes, -1 when nothing
        was due."""
        data = self._in(side).read(self._now, size)
        if data is None:
            return -1
        if side in self.dead:
            return len(data)
        if data:
            self._end(side).receive_data(data, self._now)
        else:
            self._end(side).receive_eof(self._now)
        return len(data)

    def wake(self, side: str) -> bool:
        """Tell one side that its deadline is due. False, and nothing is done, when it is not or when there is still
        something to read: a timer counts the peer's silence, not the reader's."""
        deadline = self._end(side).next_deadline()
        moment = self._in(side).moment()
        if side in self.dead or deadline is None or not _NEVER < deadline <= self._now:
            return False
        if moment is not None and moment <= self._now:
            return False
        self._end(side).handle_timeout(self._now)
        return True

    def kill(self, side: str) -> None:
        """Let one side die as a process does: it is not driven any more, its peer reads what is in flight and then the
        end, and writes to it fail.

        Raises:
            ValueError: there is no such side.
        """
        self._end(side)
        self.dead.add(side)
        self._out(side).sever(self._now)
        self._in(side).sever(self._now)

    def _move(self, side: str) -> bool:
        moved = self.drain(side) > 0
        moved |= self._flush(side)
        while self.deliver(side) >= 0:
            moved = True
            self.drain(side)
        moved |= self._flush(side)
        if self.wake(side):
            moved |= self.drain(side) > 0
        return moved | self._flush(side)

    def _flush(self, side: str) -> bool:
        moved = False
        while self.hand_over(side):
            moved = True
            self.drain(side)
        return moved

    def _end(self, side: str) -> Endpoint:
        if side not in (CLIENT, AGENT):
            raise ValueError(f"side is {side!r}; it is {CLIENT!r} or {AGENT!r}")
        return self.client if side == CLIENT else self.agent

    def _out(self, side: str) -> Pipe:
        return self.to_agent if side == CLIENT else self.to_client

    def _in(self, side: str) -> Pipe:
        return self.to_client if side == CLIENT else self.to_agent
