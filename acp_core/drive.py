"""What every binding does around a core connection, without a colour: drain, route, wake whom it concerns, keep reports
for the owner, answer for a handler that failed, and say why a connection went away. No IO and no clock here either.
"""

from __future__ import annotations

from collections import deque

from .errors import ACPError, ConnectionClosed, ConsumerTooSlow, LocalProtocolError, RequestError, handler_failed
from .events import (
    CancelRequested,
    ConnectionOver,
    PermissionAnswered,
    RequestAbandoned,
    TurnCancelReceived,
    WriteFailed,
)
from .inbox import MIB, HandlerFailed
from .state import OVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import Connection
    from .events import Event, RequestReceived
    from .inbox import Channel, Inbox, Waker

NEVER = float("-inf")
WRITE_SIZE = 65536
# Callers who produce faster than the peer reads wait above this mark, in bytes.
PACE_AT = 1 * MIB
# Reports that an owner is too slow for. The second one bounds the lines that they keep alive.
MAX_REPORTS, MAX_REPORT_BYTES = 10_000, 16 * MIB
# Rules that refuse an intent although its caller did nothing wrong: the connection, or the request, is gone.
GONE = ("connection.over", "connection.write_failed")
LATE = ("request.answered", *GONE)


class Drive:
    """The base of what runs a connection.

    A binding calls ``pump`` after every call into the core, and overrides ``write_soon`` and the ``wake_`` methods.
    ``act`` gets every event that settles nobody and is in nobody's queue: it says whether it took it, and must neither
    block nor run code of the owner. With threads, all of this is called with one lock held.

    Args:
        connection: the core; nobody else drains it.
        inbox: where its events are queued.
        clock: the time in seconds, monotonic.
        whole_writes: each write takes all the output there is.
        messages: the transport keeps message boundaries.
    """

    def __init__(
        self,
        connection: Connection,
        inbox: Inbox,
        clock: Callable[[], float],
        *,
        whole_writes: bool = False,
        messages: bool = False,
    ) -> None:
        self.connection = connection
        self.inbox = inbox
        self.act: Callable[[Event], bool] = lambda event: False
        # This side has ended the connection.
        self.closing = False
        # Why nothing can be sent any more.
        self.gone = "the connection is over"
        self.dropped_reports = 0
        # The reader has stopped, and waits for ``wake_reader``.
        self.paused = False
        # A write is under way. Whoever writes sets it to False behind it, and then looks at ``output_waits``.
        self.sending = False
        # The deadline that whoever handles timeouts sleeps for.
        self.sleeps_until: float | None = None
        # Called after every pump: somebody waits for a state of the connection.
        self.watching: set[Waker] = set()
        self._clock = clock
        self._write_size = None if whole_writes else WRITE_SIZE
        self._messages = messages
        self._at_once = connection.limits.max_unread_bytes
        self._blocked: dict[Waker, int] = {}
        self._reports: deque[Event] | None = None
        self._report_bytes = 0

    # ── What a binding overrides ────────────────────────────────────────────────────────────────────────────────────

    def write_soon(self) -> bool:
        """There is output, or a duration to begin, and no write is under way: write what can be written without
        waiting, or wake the writer. True: something was taken out, look again."""
        raise NotImplementedError

    def wake_reader(self) -> None:
        """The reader has paused, and may go on."""

    def wake_timer(self) -> None:
        """There is a deadline before the one that is slept for."""

    def wake_dispatcher(self) -> None:
        """There is a report."""

    def cancel_handler(self, request_id: str) -> None:
        """Nobody waits for the answer of a handler any more."""

    def ended(self) -> None:
        """The connection is over: nothing more will be said but what is left to be written."""

    # ── After every call into the core ──────────────────────────────────────────────────────────────────────────────

    def pump(self) -> None:
        """Route every event, have output written, publish the deadline, wake who has something to do."""
        connection, inbox = self.connection, self.inbox
        while True:
            self.drain()
            due = connection.next_deadline()
            if due != NEVER and not connection.output_bytes:
                break
            if not self.sending:
                if not self.write_soon():
                    due = connection.next_deadline()
                    break
            elif due != NEVER or connection.state == OVER:
                break
            else:
                # The writer hangs in a write. Durations start all the same.
                connection.data_to_send(self._clock(), 0)
        if due is not None and due != NEVER and (self.sleeps_until is None or due < self.sleeps_until):
            self.sleeps_until = due
            self.wake_timer()
        for wake in [*self.watching] if self.watching else ():
            wake()
        if inbox.size >= inbox.full_at:
            for wake in [*self._blocked]:
                wake()
        if self.paused:
            self.refresh()

    def drain(self) -> None:
        """Work off what the core has to say."""
        route = self.inbox.route
        for event in self.connection.events():
            rest = route(event)
            if rest is None:
                if isinstance(event, PermissionAnswered):
                    self.cancel_handler(event.request_id)
                continue
            if isinstance(rest, (RequestAbandoned, CancelRequested, TurnCancelReceived)):
                self.cancel_handler(rest.request_id or "")
            elif isinstance(rest, (ConnectionOver, WriteFailed)):
                self.gone = rest.reason
                if isinstance(rest, ConnectionOver):
                    self.ended()
            if not self.act(rest):
                self.report(rest)

    def received(self, data: bytes | str | None) -> None:
        """Give the core what was read; None is the end of input, and ``b""`` too where there are no boundaries."""
        if data is None:
            self.connection.receive_eof(self._clock())
        elif self._messages or isinstance(data, str):
            self.connection.receive_message(data, self._clock())
        else:
            # No more at once than may be unread: a bound below the size of a read is no fault of the peer.
            for start in range(0, len(data) or 1, self._at_once):
                if start:
                    self.drain()
                self.connection.receive_data(data[start : start + self._at_once], self._clock())

    def time_is_up(self) -> None:
        """Reading has found nothing up to the deadline."""
        self.connection.handle_timeout(self._clock(), paused=self.paused)

    def take_output(self) -> bytes:
        """What is written next. It has to be pumped or drained before the write: PromptSent is out before its bytes."""
        data = self.connection.data_to_send(self._clock(), self._write_size)
        self.sending = bool(data)
        return data

    @property
    def output_waits(self) -> bool:
        """``take_output`` has something to do: there are bytes, a duration to begin, or the connection is over."""
        return self.connection.output_bytes > 0 or self.connection.next_deadline() == NEVER

    # ── Reading and those who wait ──────────────────────────────────────────────────────────────────────────────────

    @property
    def must_pause(self) -> bool:
        """Nothing may be read now."""
        return self.inbox.paused and self.connection.state != OVER

    def refresh(self) -> None:
        """Let the reader go on if it may: a consumer has taken something, or somebody waits for an answer now."""
        if self.paused and not self.must_pause:
            self.wake_reader()

    def block(self, wake: Waker, *, counts: bool = True) -> None:
        """A caller begins to wait. ``counts``: for an answer, so reading goes on past the first mark.

        Raises:
            ConsumerTooSlow: what is waited for stands behind more unread input than may be kept.
        """
        inbox = self.inbox
        if counts and inbox.full:
            raise ConsumerTooSlow(
                f"{inbox.size} bytes of unread events stand before the answer, and {inbox.full_at} are the bound; "
                "read or detach the other turns and sessions of this connection"
            )
        inbox.waiters += counts
        self._blocked[wake] = self._blocked.get(wake, 0) + 1
        if self.paused:
            self.refresh()

    def unblock(self, wake: Waker, *, counts: bool = True) -> None:
        """The caller waits no more."""
        self.inbox.waiters -= counts
        left = self._blocked[wake] - 1
        if left:
            self._blocked[wake] = left
        else:
            del self._blocked[wake]

    def taken(self, wake: Waker) -> None:
        """A caller has taken what it waited for, or has given up. Somebody else may wait for the same."""
        if wake in self._blocked:
            wake()
        if self.paused:
            self.refresh()

    def detach(self, channel: Channel) -> None:
        """A consumer has left."""
        channel.detach()
        self.refresh()

    # ── What is told to the owner ───────────────────────────────────────────────────────────────────────────────────

    def report(self, event: Event) -> None:
        """Queue an event that nobody consumes. Past the bound it is dropped and counted; the last one never is."""
        size = len(getattr(event, "line", b""))
        if self._reports is None:
            self._reports = deque()
        full = len(self._reports) >= MAX_REPORTS or self._report_bytes + size > MAX_REPORT_BYTES
        if full and not isinstance(event, ConnectionOver):
            self.dropped_reports += 1
            return
        self._reports.append(event)
        self._report_bytes += size
        self.wake_dispatcher()

    def next_report(self) -> Event | None:
        """The oldest report, or None."""
        if not self._reports:
            return None
        event = self._reports.popleft()
        self._report_bytes -= len(getattr(event, "line", b""))
        if not self._reports:
            # An idle connection keeps no empty queue.
            self._reports = None
        return event

    # ── Calls that are refused, handlers that fail ──────────────────────────────────────────────────────────────────

    def refusal(self, why: LocalProtocolError) -> Exception:
        """What a refused intent raises: a connection that went away is a ConnectionClosed, not a rule that its caller
        broke. After this side's own close it is the core's error."""
        return why if why.rule not in GONE or self.closing else ConnectionClosed(self.gone)

    def failed(self, event: Event, why: BaseException) -> None:
        """Report what code of the owner raised where nobody waits for it."""
        self.report(HandlerFailed(why, event))

    def handler_raised(self, event: RequestReceived, why: BaseException) -> None:
        """Answer for a handler, or for the answer that it gave. A RequestError is what the peer is told; of anything
        else it is told nothing, and the owner is told, except of a connection or a request that was gone by then."""
        refusal = isinstance(why, RequestError)
        error = why if isinstance(why, RequestError) else handler_failed()
        late = isinstance(why, ConnectionClosed) or (isinstance(why, LocalProtocolError) and why.rule in LATE)
        if not refusal and not late:
            # First: a peer that has its answer may hang up, and nothing is reported behind the end.
            self.failed(event, why)
        try:
            self.connection.respond_error(event.request_id, error.code, error.message, error.data)
        except (ACPError, TypeError, ValueError) as wrong:
            if refusal and not (isinstance(wrong, LocalProtocolError) and wrong.rule in LATE):
                # The error is no JSON.
                self.handler_raised(event, wrong)


class Pieces:
    """Cuts what is written into whole messages, for a transport that keeps their boundaries."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def cut(self, data: bytes) -> list[bytes]:
        """The messages that are whole by now, without their line ends."""
        head, *others = data.split(b"\n")
        found = []
        for part in others:
            found.append(b"".join([*self._parts, head]))
            self._parts, head = [], part
        self._parts.append(head)
        return found
