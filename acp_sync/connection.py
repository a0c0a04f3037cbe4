"""The threads around a core connection: a reader, a writer, one dispatcher for events, one thread for each handler.

All knowledge of the protocol is in the core. Here: one lock around it, and one pump after every call into it, which
drains its events, wakes whom they concern, and publishes the next deadline.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

from acp_core.connection import Connection
from acp_core.drive import NEVER, PACE_AT, Drive
from acp_core.errors import ACPError, ConnectionClosed, ConsumerTooSlow, LocalProtocolError
from acp_core.events import ConnectionOver, Event, RequestReceived, RequestSettled
from acp_core.front import nothing
from acp_core.inbox import Channel, HandlerFailed, Inbox
from acp_core.state import OVER

from .transport import Messages, Transport

if TYPE_CHECKING:
    from types import TracebackType

    from acp_core.front import Ask

T = TypeVar("T")
P = ParamSpec("P")

# The main thread waits in pieces, in seconds: on Windows a wait for a lock hears no Ctrl-C, and elsewhere one that
# comes just before the wait begins would only be heard at its end.
SLICE = 0.5 if os.name == "posix" else 0.1
NO_WAKE = 0.05
JOIN = 1.0
# Threads that wait for the end of a close, each maybe in a callback: closing waits for none of them.
WAITING: set[threading.Thread] = set()


class Bell:
    """Wakes one thread. It is rung with the driver's lock held, and stays rung until somebody has waited."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake who waits, or who comes next."""
        if self._lock.locked():
            self._lock.release()

    def wait(self, timeout: float | None = None) -> None:
        """Until it rings or ``timeout`` seconds have passed. May also come back early."""
        if timeout is None:
            timeout = SLICE if threading.get_ident() == threading.main_thread().ident else -1.0
        self._lock.acquire(timeout=timeout)


class Later:
    """What must not wait for a driver's lock, since a finalizer runs anywhere, also where its own thread holds it. Who
    lets go of the lock does it: ``with later, lock``. (The lock itself stays one of C, which a Ctrl-C cannot tear.)"""

    __slots__ = ("_lock", "_work")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._work: deque[Callable[[], None]] = deque()

    def soon(self, work: Callable[[], None]) -> None:
        """Do this under the lock: now, or when whoever holds it lets go."""
        self._work.append(work)
        self._work_off()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, tb: TracebackType | None) -> None:
        self._work_off()

    def _work_off(self) -> None:
        while self._work and self._lock.acquire(blocking=False):
            try:
                while self._work:
                    self._work.popleft()()
            finally:
                self._lock.release()


class Waiter:
    """The token of a request: who waits for its end."""

    __slots__ = ("bell", "event")

    def __init__(self) -> None:
        self.bell = Bell()
        self.event: Event | None = None

    def settle(self, event: Event) -> None:
        """The request has come to its end."""
        self.event = event
        self.notify()

    def notify(self) -> None:
        """Wake who waits."""
        self.bell.ring()


class Driver(Drive):
    """Runs one core connection over one transport.

    ``explain`` turns the error of a connection that went away into one that knows why; it may wait for a bounded time.
    ``keep`` is told with the lock held how many bytes the next write has, and gives what is to be done before it.
    """

    def __init__(
        self,
        connection: Connection,
        transport: Transport | Messages,
        inbox: Inbox,
        *,
        on_event: Callable[[Event], None] | None,
        explain: Callable[[ConnectionClosed], ConnectionClosed] | None = None,
        keep: Callable[[int], Callable[[], object] | None] | None = None,
    ) -> None:
        # All output where a snapshot is kept: what that calls answered leaves with the write it is stored for.
        messages = isinstance(transport, Messages)
        super().__init__(connection, inbox, monotonic, whole_writes=keep is not None, messages=messages)
        self.transport = transport
        self._explain = explain
        self._on_event = on_event
        self._keep = keep
        self._reported = Bell()
        self._lock = threading.Lock()
        self._later = Later(self._lock)
        self._readable = Bell()
        self._reading = False
        self._writable = Bell()
        self._wake: Callable[[], None] | None = getattr(transport, "wake", None)
        loops = [self._read, self._write] + ([self._dispatch] if on_event is not None else [])
        self._loops = [
            threading.Thread(target=self._run, args=(loop,), name=f"acp {loop.__name__[1:]}", daemon=True)
            for loop in loops
        ]
        self._handlers: set[threading.Thread] = set()

    def start(self) -> None:
        """Start the threads."""
        for thread in self._loops:
            thread.start()

    # ── Calls into the core ─────────────────────────────────────────────────────────────────────────────────────────

    def call(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something on the core, and pump. A connection that went away is a ConnectionClosed, not a rule that the
        caller broke."""
        try:
            return self._locked(intent, *args, **kwargs)
        except LocalProtocolError as why:
            error = self.refusal(why)
            if error is why:
                raise
            raise self.explained(error) from why

    def _locked(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._later, self._lock:
            try:
                try:
                    return intent(*args, **kwargs)
                finally:
                    self.pump()
            except Exception:
                raise
            except BaseException:
                # Ctrl-C between two steps of the core: what it left half done is not to be trusted.
                self.connection.abort("a caller was interrupted inside the core")
                self.pump()
                raise

    def explained(self, error: Exception) -> Exception:
        """The error to raise for one of the core."""
        if isinstance(error, ConnectionClosed) and self._explain is not None and not self.closing:
            return self._explain(error)
        return error

    def waiter(self) -> Waiter:
        """Who waits for a request."""
        return Waiter()

    def ask(self, intent: Ask, stop: Callable[[], bool] | None = None) -> object:
        """Send a request and wait for its result; None when ``stop`` said so before. A caller that stops, or is
        interrupted, cancels the request. ``stop`` is asked as ``until`` does.

        Raises:
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: there is no result.
            ConsumerTooSlow: see ``wait``; the request stays open.
        """
        waiter = Waiter()
        id = self.call(intent, token=waiter)
        try:
            if stop is None:
                self.answer(waiter)
            else:
                self.until(lambda: waiter.event is not None or stop())
        except ConsumerTooSlow:
            raise
        except BaseException:
            self._withdraw(id)
            raise
        event = waiter.event
        if event is None:
            self._withdraw(id)
            return None
        assert isinstance(event, RequestSettled)
        if event.error is not None:
            self.fail(event.error)
        return event.result

    def _withdraw(self, id: int) -> None:
        with contextlib.suppress(ACPError):
            self._locked(self.connection.cancel_request, id)

    def fail(self, error: Exception) -> NoReturn:
        """Raise an error of the core, with what is known of its cause."""
        told = self.explained(error)
        raise told from (error if told is not error else None)

    def wait(self, bell: Bell, ready: Callable[[], T | None], *, counts: bool = True) -> T:
        """Block until ``ready`` gives something; it is called with the lock held. ``bell`` rings when it may.

        ``counts``: it is an answer that is waited for, so reading goes on past the first mark.

        Raises:
            ConsumerTooSlow: what is waited for stands behind more unread input than may be kept.
        """
        wake = bell.ring
        blocked = False
        try:
            while True:
                with self._later, self._lock:
                    if blocked:
                        blocked = False
                        self.unblock(wake, counts=counts)
                    found = ready()
                    if found is not None:
                        self.taken(wake)
                        return found
                    self.block(wake, counts=counts)
                    blocked = True
                bell.wait()
        finally:
            if blocked:
                with self._later, self._lock:
                    self.unblock(wake, counts=counts)
                    self.taken(wake)

    def answer(self, waiter: Waiter) -> Event:
        """Wait for the end of a request."""
        return self.wait(waiter.bell, lambda: waiter.event)

    def until(self, done: Callable[[], bool], *, counts: bool = True) -> None:
        """Wait until ``done``, which is asked with the lock held, after every call into the core. As ``wait``."""
        bell = Bell()

        def ready() -> bool | None:
            self.watching.add(bell.ring)
            return True if done() else None

        try:
            self.wait(bell, ready, counts=counts)
        finally:
            with self._later, self._lock:
                self.watching.discard(bell.ring)

    def pace(self, stop: Callable[[], bool]) -> None:
        """Wait while the peer reads too slowly, at most until ``stop``."""
        connection = self.connection
        if connection.output_bytes > PACE_AT:
            self.until(lambda: connection.output_bytes <= PACE_AT or connection.state == OVER or stop(), counts=False)

    def leave(self, channel: Channel) -> None:
        """A consumer has left. Safe in a finalizer, which may run inside the core."""
        self._later.soon(lambda: self.detach(channel))

    @property
    def held(self) -> bool:
        """Some thread is in the core: a finalizer must not wait for it, since it may be its own."""
        return self._lock.locked()

    # ── What the pump asks for; the lock is held ────────────────────────────────────────────────────────────────────

    def write_soon(self) -> bool:
        """As ``Drive``: the writer's thread writes. A caller does not, since a Ctrl-C would leave half a message."""
        self._writable.ring()
        return False

    def wake_reader(self) -> None:
        """As ``Drive``."""
        self._readable.ring()

    def wake_timer(self) -> None:
        """As ``Drive``: the reader keeps the time."""
        if self._reading and self._wake is not None:
            self._wake()
        elif self.paused:
            self._readable.ring()

    def wake_dispatcher(self) -> None:
        """As ``Drive``."""
        self._reported.ring()

    def report(self, event: Event) -> None:
        """As ``Drive``, if anybody listens."""
        if self._on_event is not None:
            super().report(event)

    # ── The threads ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as why:
            # A defect here must not leave anybody waiting.
            self._locked(self.connection.abort, f"the {loop.__name__[1:]} loop failed: {why!r}")
            raise

    def _read(self) -> None:
        while True:
            with self._later, self._lock:
                deadline = self.connection.next_deadline()
                if deadline == NEVER:
                    deadline = None
                self.sleeps_until = deadline
                self.paused = self.must_pause
                self._reading = not self.paused
            left = None if deadline is None else max(0.0, deadline - monotonic())
            # A read that began at a deadline takes what was there by then: its time has come, whatever still follows.
            due = left == 0
            if self.paused:
                # Nothing is read for a deadline either: a timer that comes again and again would read without bound.
                if due:
                    self._locked(self.time_is_up)
                else:
                    self._readable.wait(left)
                continue
            if self._wake is None:
                left = NO_WAKE if left is None else min(left, NO_WAKE)
            try:
                data = self.transport.receive(left)
            except TimeoutError:
                self._locked(self.time_is_up)
                continue
            except OSError as why:
                self._locked(self.connection.abort, f"reading failed: {why}")
                return
            self._locked(self._received, data, due)
            if data is None or (not data and not self._messages):
                return

    def _received(self, data: str | bytes | None, due: bool) -> None:
        self._reading = False
        self.received(data)
        if due:
            self.time_is_up()

    def _write(self) -> None:
        while True:
            with self._later, self._lock:
                waits = self.output_waits
            if not waits:
                self._writable.wait()
                continue
            try:
                data, store = self._locked(self._output)
                if store is not None:
                    store()
            except Exception as why:
                if self._keep is None:
                    raise
                self._locked(self.connection.abort, f"the snapshot was not stored: {why!r}")
                continue
            if data:
                try:
                    self.transport.send(data)
                except OSError as why:
                    self._locked(self.connection.send_failed, str(why.strerror or why), monotonic())
                self.sending = False
            elif self.connection.state == OVER:
                return

    def _output(self) -> tuple[bytes, Callable[[], object] | None]:
        data = self.take_output()
        return data, self._keep(len(data)) if data and self._keep is not None else None

    def _dispatch(self) -> None:
        assert self._on_event is not None
        event: Event | None = None
        while not isinstance(event, ConnectionOver):
            with self._later, self._lock:
                event = self.next_report()
            if event is None:
                self._reported.wait()
                continue
            try:
                self._on_event(event)
            except Exception:
                traceback.print_exc()

    def spawn(
        self,
        event: RequestReceived,
        work: Callable[[], object],
        answer: Callable[[object], None],
        over: Callable[[], object] = nothing,
    ) -> None:
        """Answer a request of the peer in a thread of its own; see ``acp_core.front.Link``. The lock is held."""

        def body() -> None:
            try:
                self.call(answer, work())
            except BaseException as why:
                self._locked(self.handler_raised, event, why)
            finally:
                over()

        try:
            self._start(event, body)
        except RuntimeError as why:
            over()
            self.handler_raised(event, why)

    def tell(self, event: RequestReceived, work: Callable[[], object]) -> None:
        """Run the owner's code in a thread of its own; nobody is answered. The lock is held."""

        def body() -> None:
            try:
                work()
            except BaseException as why:
                self._locked(self.failed, event, why)

        try:
            self._start(event, body)
        except RuntimeError as why:
            self.failed(event, why)

    def _start(self, event: RequestReceived, body: Callable[[], None]) -> None:
        def run() -> None:
            try:
                body()
            finally:
                with self._later, self._lock:
                    self._handlers.discard(threading.current_thread())

        thread = threading.Thread(target=run, name=f"acp {event.key or event.method}", daemon=True)
        self._handlers.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._handlers.discard(thread)
            raise

    # ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def flush(self, timeout: float) -> None:
        """Wait until what is left to write was written, at most ``timeout`` seconds."""
        join(self._loops[1], timeout)

    def join(self, timeout: float | None = None) -> None:
        """Wait until nothing is read any more."""
        self._loops[0].join(timeout)

    def join_handlers(self, timeout: float) -> None:
        """Wait for the handlers that still run, at most ``timeout`` seconds altogether."""
        due = monotonic() + timeout
        for thread in [*self._handlers]:
            if thread is not threading.current_thread():
                thread.join(max(0.0, due - monotonic()))

    def stop(self, reason: str = "closed by the owner") -> None:
        """End everything now: what waits settles first, then the threads leave. Bounded; a second call is harmless."""
        self._locked(self.connection.abort, reason)
        self.transport.close()
        for thread in self._loops:
            join(thread)


def join(thread: threading.Thread, timeout: float = JOIN) -> None:
    """Wait for the end of a thread, at most ``timeout`` seconds; not for one that waits for this."""
    if thread is not threading.current_thread() and thread not in WAITING and thread.ident is not None:
        thread.join(timeout)


def print_failure(event: Event) -> None:
    """What becomes of events when the owner listens to none: the traceback of what his code raised goes to stderr."""
    if isinstance(event, HandlerFailed):
        traceback.print_exception(event.exception, file=sys.stderr)
