"""Between the core and a consumer: where each event goes, in which order, and when reading must pause.

Every binding uses it the same way: each event of ``connection.events()`` goes through ``route``. Waiters are settled,
updates are queued per session, and what needs a handler comes back. Sizes are wire bytes.
"""

from __future__ import annotations

from collections import deque

from . import events
from .errors import check_type
from .events import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from .events import TurnEnded, TurnFailed
    from .sessions import Session, Turn

    class Waiter(Protocol):
        """What a binding gives as ``token``: settling it wakes the caller. Never more than once a request."""

        def settle(self, event: Event) -> None:
            """The event that settles the request."""


MIB = 1024 * 1024


class HandlerFailed(Event):
    """Code of the owner raised where nobody waits for it.

    When: a handler, a permission callback or an agent's method raised. The peer was answered -32603 without internals.
    Do: log ``exception``. ``event`` is the request that was being handled.
    """

    __slots__ = ("event", "exception")

    def __init__(self, exception: BaseException, event: Event) -> None:
        self.exception = exception
        self.event = event
        self.at = event.at


class ConsumerBehind(Event):
    """Events that nobody has read yet have reached the first mark.

    When: the unread events of a connection have reached ``pause_at`` bytes; once, until half of that was read. From
    here on the transport is read only while somebody waits for an answer: else nothing more comes, not even a request
    of the agent or its end. Do: read what is unread, or leave it; a replay that was asked for with ``"report"`` stands
    in ``session.events()``. ``session`` has most of what is unread between turns, or said the latest of it;
    ``unread_bytes`` are those of all sessions.
    """

    __slots__ = ("session", "unread_bytes")

    def __init__(self, session: Session, unread_bytes: int, at: float) -> None:
        self.session = session
        self.unread_bytes = unread_bytes
        self.at = at


def withdrawn(event: TurnEnded | TurnFailed) -> TurnEnded | TurnFailed:
    """The end of a turn as who waits for it is told: whoever cancels has one outcome, and not another one when the
    prompt had not left. ``cancel_error`` says that it had not."""
    if isinstance(event, events.TurnEnded) or event.outcome != "withdrawn" or event.cancel_asked is None:
        return event
    by, at = event.cancel_asked, event.at
    return events.TurnEnded(event.session, event.turn, event.prompt_id, "cancelled", by, event.error, {}, "", at)


# Metadata between turns: only the latest state of each kind is of use.
COALESCED = (
    events.AvailableCommandsUpdate,
    events.CurrentModeUpdate,
    events.ConfigOptionUpdate,
    events.SessionInfoUpdate,
    events.UsageUpdate,
)


class Channel:
    """One ordered queue of events for one consumer.

    A detached channel counts and discards: its consumer has left, and it freezes nobody. ``wake`` is the binding's: it
    is called when there is something to take and there was nothing before, and at the end, and must not call back.
    ``keeps`` bounds in bytes what is kept for a consumer who has never asked; what comes on top is counted and
    discarded.
    """

    __slots__ = (
        "_inbox",
        "_latest",
        "_queue",
        "_stale",
        "coalesces",
        "detached",
        "discarded",
        "discarded_bytes",
        "ended",
        "keeps",
        "size",
        "wake",
    )

    def __init__(self, inbox: Inbox, *, coalesces: bool = False, keeps: int | None = None) -> None:
        self._inbox = inbox
        self._queue: deque[Event] = deque()
        # The queued event of each kind that coalesces, and those that a later one has replaced.
        self._latest: dict[type[Event], Event] = {}
        self._stale: set[int] = set()
        self.coalesces = coalesces
        self.keeps = keeps
        self.detached = False
        self.ended = False
        self.size = 0
        self.discarded = 0
        self.discarded_bytes = 0
        self.wake: Waker | None = None

    def __len__(self) -> int:
        return len(self._queue) - len(self._stale)

    def put(self, event: Event) -> ConsumerBehind | None:
        """Append an event; on a channel that coalesces it takes the place of an older one of its kind. Returns what has
        to be told when too much is unread by then."""
        # The size of an event is the wire bytes that it keeps alive. Its count stands in line here and in ``take``: as
        # calls of a function the two cost 0.1 of json.loads an update.
        size = len(event.line) if isinstance(event, events.Update) else 0
        merges = self.coalesces and isinstance(event, COALESCED)
        # Metadata is small and the latest is of use whenever it is asked for; the rest is not kept without end.
        full = self.keeps is not None and not merges and self.size + size + 64 * len(self) > self.keeps
        if self.detached or full:
            self.discarded += 1
            self.discarded_bytes += size
            return None
        if merges:
            self._replace(event)
        queue = self._queue
        queue.append(event)
        self.size += size
        inbox = self._inbox
        inbox.size += size
        if len(queue) == 1 and self.wake is not None:
            self.wake()
        return inbox.behind(event) if inbox.size >= inbox.tell_at else None

    def take(self) -> Event | None:
        """The next event, or None when there is none now."""
        queue = self._queue
        while queue:
            event = queue.popleft()
            if self._latest:
                if id(event) in self._stale:
                    self._stale.discard(id(event))
                    continue
                if self._latest.get(event.__class__) is event:
                    del self._latest[event.__class__]
            if isinstance(event, events.Update):
                size = len(event.line)
                self.size -= size
                inbox = self._inbox
                inbox.size -= size
                if inbox.size < inbox.calm_at:
                    inbox.calm()
            return event
        return None

    def _replace(self, event: Event) -> None:
        """A queued event of the same kind is not given any more. O(1) for each event, and memory stays bounded."""
        older = self._latest.get(event.__class__)
        self._latest[event.__class__] = event
        if older is None:
            return
        self._stale.add(id(older))
        if isinstance(older, events.Update):
            self._count(-len(older.line))
        if len(self._stale) > 16 and len(self._stale) * 2 > len(self._queue):
            self._queue = deque(kept for kept in self._queue if id(kept) not in self._stale)
            self._stale.clear()

    def end(self) -> None:
        """Nothing more will come."""
        self.ended = True
        if self.wake is not None:
            self.wake()

    def detach(self) -> None:
        """The consumer leaves: what is queued and what still comes is counted and discarded."""
        if self.detached:
            return
        self.detached = True
        self.discarded += len(self)
        self.discarded_bytes += self.size
        self._count(-self.size)
        self._queue.clear()
        self._latest.clear()
        self._stale.clear()

    def _count(self, size: int) -> None:
        self.size += size
        self._inbox.size += size
        self._inbox.calm()


class Inbox:
    """The channels of one connection, and the verdict whether its transport may be read.

    ``pause_at`` and ``full_at`` are in wire bytes. Reading pauses at the first mark while nobody waits for an answer;
    with a waiter it goes on to the second, and past that the waiters are told that the consumer is too slow: nothing is
    dropped, and their requests stay open.
    """

    __slots__ = ("_idle", "calm_at", "full_at", "pause_at", "size", "tell_at", "waiters")

    def __init__(self, *, pause_at: int = 1 * MIB, full_at: int = 64 * MIB) -> None:
        for name, mark in (("pause_at", pause_at), ("full_at", full_at)):
            check_type(name, mark, int, "an int")
        if not 0 < pause_at <= full_at:
            raise ValueError(f"pause_at ({pause_at}) must be positive and not above full_at ({full_at})")
        self.pause_at = pause_at
        self.full_at = full_at
        self.size = 0
        # Where ConsumerBehind is told, and where it may be told again: one of the two is out of reach.
        self.tell_at: float = pause_at
        self.calm_at = 0
        # How many callers wait for an answer on this connection; the binding counts.
        self.waiters = 0
        self._idle: dict[Session, Channel] = {}

    @property
    def paused(self) -> bool:
        """The transport must not be read now."""
        return self.size >= self.pause_at and (self.waiters == 0 or self.size >= self.full_at)

    @property
    def full(self) -> bool:
        """Past the second mark: every waiter is told ConsumerTooSlow."""
        return self.size >= self.full_at

    def behind(self, event: Event) -> ConsumerBehind | None:
        """Too much is unread with this event: what is told of it, once."""
        if not isinstance(event, events.SessionEvent):
            return None
        self.tell_at, self.calm_at = float("inf"), self.pause_at // 2 + 1
        fullest = max(self._idle, key=lambda session: self._idle[session].size, default=event.session)
        idle = self._idle.get(fullest)
        most = fullest if idle is not None and 2 * idle.size >= self.size else event.session
        return ConsumerBehind(most, self.size, event.at)

    def calm(self) -> None:
        """Something was read or left: past half of the mark it may be told again."""
        if self.size < self.calm_at:
            self.tell_at, self.calm_at = self.pause_at, 0

    def channel(self) -> Channel:
        """A new channel, for the events of one turn."""
        return Channel(self)

    def idle(self, session: Session) -> Channel:
        """The channel of what a session says between turns. Until ``listen`` is called it keeps half of
        ``pause_at`` bytes: who never listens must not make reading pause."""
        channel = self._idle.get(session)
        if channel is None:
            channel = self._idle[session] = Channel(self, coalesces=True, keeps=self.pause_at // 2)
        return channel

    def listen(self, session: Session) -> Channel:
        """The same, for a consumer who reads it from now on: nothing more is discarded."""
        channel = self.idle(session)
        channel.keeps = None
        return channel

    def route(self, event: Event) -> Event | None:
        """Deliver an event of the core. Returns it when the binding has to act: run a handler, cancel one, or end; or a
        ConsumerBehind, which is for the owner.

        The token of a prompt is a ``TurnToken``, any other token of a binding a ``Waiter``.
        """
        if isinstance(event, events.Update):
            return self._channel_of(event.turn, event.session).put(event)
        if isinstance(event, (events.TurnEnded, events.TurnFailed)):
            token = event.token
            if isinstance(token, TurnToken):
                event = withdrawn(event)
                token.channel.put(event)
                token.channel.end()
                token.settle(event)
            return None
        if isinstance(event, events.RequestSettled):
            _settle(event.token, event)
            return None
        if isinstance(event, events.SessionEvent):
            self._channel_of(event.session.turn, event.session).put(event)
            if isinstance(event, (events.SessionClosed, events.SessionFailed)):
                self.idle(event.session).end()
            if isinstance(event, (events.SessionReady, events.SessionFailed)):
                # Who waits for the opening is not who reads what comes of it: a replay ends here for both.
                _settle(event.session.token, event)
            return None
        if isinstance(event, events.TailOver):
            # Who reads a replayed session learns where live begins; it is the connection's event all the same.
            for session in event.sessions:
                # A prompt that waited for it had no part in the tail.
                self._channel_of(None if session.unsent else session.turn, session).put(event)
        elif isinstance(event, events.ConnectionOver):
            for channel in self._idle.values():
                channel.end()
        return event

    def _channel_of(self, turn: Turn | None, session: Session) -> Channel:
        token = turn.token if turn is not None else None
        return token.channel if isinstance(token, TurnToken) else self.idle(session)


class TurnToken:
    """The token that a binding gives with a prompt: its channel, and who waits for the turn's end."""

    __slots__ = ("channel", "waiter")

    def __init__(self, channel: Channel, waiter: Waiter) -> None:
        self.channel = channel
        self.waiter = waiter

    def settle(self, event: Event) -> None:
        """The turn is over."""
        self.waiter.settle(event)


def _settle(token: object, event: Event) -> None:
    settle = getattr(token, "settle", None)
    if settle is not None:
        settle(event)


if TYPE_CHECKING:
    from collections.abc import Callable

    Waker = Callable[[], None]
