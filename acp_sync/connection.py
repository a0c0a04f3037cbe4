"""The threads around a core connection: a reader, a writer, one dispatcher for events, one thread for each handler.

All knowledge of the protocol is in the core. Here: one lock around it, and one pump after every call into it, which
drains its events, wakes whom they concern, and publishes the next deadline.
"""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

from acp_core.connection import Connection
from acp_core.errors import (
    ACPError,
    ConnectionClosed,
    ConsumerTooSlow,
    LocalProtocolError,
    RequestError,
    handler_failed,
)
from acp_core.events import ConnectionOver, Event, RequestReceived, RequestSettled, WriteFailed
from acp_core.front import nothing
from acp_core.inbox import Channel, HandlerFailed, Inbox
from acp_core.state import OVER

from .transport import Messages, Transport

if TYPE_CHECKING:
    from acp_core.front import Ask

T = TypeVar("T")
P = ParamSpec("P")

# The main thread waits in pieces, in seconds: on Windows a wait for a lock hears no Ctrl-C, and elsewhere one that
# comes just before the wait begins would only be heard at its end.
SLICE = 0.5 if os.name == "posix" else 0.1
NO_WAKE = 0.05
WRITE_SIZE = 65536
# Callers that produce faster than the peer reads wait above this mark, in bytes.
PACE_AT = 1024 * 1024
MAX_REPORTS, MAX_REPORT_BYTES = 10_000, 16 * 1024 * 1024
JOIN = 1.0
# Threads that wait for the end of a close, each maybe in a callback: closing waits for none of them.
WAITING: set[threading.Thread] = set()
# Rules whose breach says that the connection went away under the caller.
GONE = ("connection.over", "connection.write_failed")


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


class Driver:
    """Runs one core connection over one transport.

    ``act`` gets every event that settles nobody and is in nobody's queue, with the lock held; it says whether it took
    the event, and must neither block nor run code of the owner. ``explain`` turns the error of a connection that went
    away into one that knows why; it may wait for a bounded time. ``keep`` is told with the lock held how many bytes the
    next write has, and gives what is to be done before it.
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
        self.connection = connection
        self.transport = transport
        self._keeps_boundaries = isinstance(transport, Messages)
        self.inbox = inbox
        self.act: Callable[[Event], bool] = lambda event: False
        self.closing = False
        self.dropped_reports = 0
        self._explain = explain
        self._gone = "the connection is over"
        self._on_event = on_event
        self._keep = keep
        self._reports: deque[Event] = deque()
        self._report_bytes = 0
        self._reported = Bell()
        self._lock = threading.Lock()
        self._holder = 0
        self._bells: set[Bell] = set()
        self._watching: set[Bell] = set()
        self._leaving: list[Channel] = []
        self._readable = Bell()
        self._read_until: float | None = None
        self._reading = False
        self._writable = Bell()
        self._sending = False
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
            if why.rule not in GONE or self.closing:
                raise
            raise self.explained(ConnectionClosed(self._gone)) from why

    def _locked(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            self._holder = threading.get_ident()
            try:
                try:
                    return intent(*args, **kwargs)
                finally:
                    self._pump()
            except Exception:
                raise
            except BaseException:
                # Ctrl-C between two steps of the core: what it left half done is not to be trusted.
                self.connection.abort("a caller was interrupted inside the core")
                self._pump()
                raise
            finally:
                self._holder = 0

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
            self.call(self.connection.cancel_request, id)

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
        entered = False
        try:
            while True:
                with self._lock:
                    found = ready()
                    if found is not None:
                        # Somebody else may wait for the same.
                        bell.ring()
                        self._resume()
                        return found
                    if counts and self.inbox.full:
                        raise ConsumerTooSlow(
                            f"{self.inbox.size} bytes of unread events stand before the answer, and "
                            f"{self.inbox.full_at} are the bound; read or detach the other turns of this connection"
                        )
                    if not entered:
                        entered = True
                        self._bells.add(bell)
                        self.inbox.waiters += counts
                        self._resume()
                bell.wait()
        finally:
            if entered:
                with self._lock:
                    self._bells.discard(bell)
                    self.inbox.waiters -= counts

    def answer(self, waiter: Waiter) -> Event:
        """Wait for the end of a request."""
        return self.wait(waiter.bell, lambda: waiter.event)

    def until(self, done: Callable[[], bool], *, counts: bool = True) -> None:
        """Wait until ``done``, which is asked with the lock held, after every call into the core. As ``wait``."""
        bell = Bell()

        def ready() -> bool | None:
            self._watching.add(bell)
            return True if done() else None

        try:
            self.wait(bell, ready, counts=counts)
        finally:
            with self._lock:
                self._watching.discard(bell)

    def pace(self, stop: Callable[[], bool]) -> None:
        """Wait while the peer reads too slowly, at most until ``stop``."""
        connection = self.connection
        if connection.output_bytes > PACE_AT:
            self.until(lambda: connection.output_bytes <= PACE_AT or connection.state == OVER or stop(), counts=False)

    def leave(self, channel: Channel) -> None:
        """A consumer has left. Safe in a finalizer, which may run inside the core."""
        if self._holder == threading.get_ident():
            self._leaving.append(channel)
            return
        with self._lock:
            channel.detach()
            self._resume()

    @property
    def inside(self) -> bool:
        """The caller runs inside the core: a finalizer that must not wait for it."""
        return self._holder == threading.get_ident()

    # ── The pump; the lock is held ──────────────────────────────────────────────────────────────────────────────────

    def _pump(self) -> None:
        connection, inbox = self.connection, self.inbox
        while True:
            for event in connection.events():
                rest = inbox.route(event)
                if rest is None:
                    continue
                if isinstance(rest, (ConnectionOver, WriteFailed)):
                    self._gone = rest.reason
                if not self.act(rest):
                    self.report(rest)
            deadline = connection.next_deadline()
            if deadline != float("-inf") or not self._sending or connection.state == OVER:
                break
            # The writer hangs in a write. Durations start all the same.
            connection.data_to_send(monotonic(), 0)
        while self._leaving:
            self._leaving.pop().detach()
        if connection.output_bytes or deadline == float("-inf"):
            self._writable.ring()
        earlier = deadline is not None and (self._read_until is None or deadline < self._read_until)
        if earlier and deadline != float("-inf"):
            self._read_until = deadline
            if self._reading and self._wake is not None:
                self._wake()
            self._readable.ring()
        for bell in self._watching:
            bell.ring()
        if inbox.full:
            for bell in self._bells:
                bell.ring()
        self._resume()

    def _resume(self) -> None:
        if not self._paused():
            self._readable.ring()

    def _paused(self) -> bool:
        return self.inbox.paused and self.connection.state != OVER

    def report(self, event: Event) -> None:
        """Queue an event for the dispatcher. Past the bound it is dropped and counted. The lock is held."""
        if self._on_event is None:
            return
        size = len(getattr(event, "line", b""))
        if len(self._reports) >= MAX_REPORTS or self._report_bytes + size > MAX_REPORT_BYTES:
            if not isinstance(event, ConnectionOver):
                self.dropped_reports += 1
                return
        self._reports.append(event)
        self._report_bytes += size
        self._reported.ring()

    # ── The threads ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as why:
            # A defect here must not leave anybody waiting.
            self.call(self.connection.abort, f"the {loop.__name__[1:]} loop failed: {why!r}")
            raise

    def _read(self) -> None:
        connection = self.connection
        while True:
            with self._lock:
                deadline = connection.next_deadline()
                if deadline == float("-inf"):
                    deadline = None
                self._read_until = deadline
                paused = self._paused()
                self._reading = not paused
            left = None if deadline is None else max(0.0, deadline - monotonic())
            # A read that began at a deadline takes what was there by then: its time has come, whatever still follows.
            due = left == 0
            if paused:
                # Nothing is read for a deadline either: a timer that comes again and again would read without bound.
                if due:
                    self.call(connection.handle_timeout, monotonic(), paused=True)
                else:
                    self._readable.wait(left)
                continue
            if self._wake is None:
                left = NO_WAKE if left is None else min(left, NO_WAKE)
            try:
                data = self.transport.receive(left)
            except TimeoutError:
                self.call(connection.handle_timeout, monotonic())
                continue
            except OSError as why:
                self.call(connection.abort, f"reading failed: {why}")
                return
            self.call(self._received, data, due)
            if data is None or (not data and not self._keeps_boundaries):
                return

    def _received(self, data: str | bytes | None, due: bool) -> None:
        self._reading = False
        if data is None:
            self.connection.receive_eof(monotonic())
        elif isinstance(data, str) or self._keeps_boundaries:
            self.connection.receive_message(data, monotonic())
        else:
            self.connection.receive_data(data, monotonic())
        if due:
            self.connection.handle_timeout(monotonic())

    def _write(self) -> None:
        connection = self.connection
        while True:
            try:
                data, store = self.call(self._output)
                if store is not None:
                    store()
            except Exception as why:
                if self._keep is None:
                    raise
                self.call(connection.abort, f"the snapshot was not stored: {why!r}")
                continue
            if data:
                try:
                    self.transport.send(data)
                except OSError as why:
                    self.call(self._send_failed, str(why.strerror or why))
            elif connection.state == OVER:
                return
            else:
                self._writable.wait()

    def _output(self) -> tuple[bytes, Callable[[], object] | None]:
        # All of it where a snapshot is kept: what that calls answered leaves with the write it is stored for.
        data = self.connection.data_to_send(monotonic(), WRITE_SIZE if self._keep is None else None)
        self._sending = bool(data)
        return data, self._keep(len(data)) if data and self._keep is not None else None

    def _send_failed(self, reason: str) -> None:
        self._sending = False
        self.connection.send_failed(reason, monotonic())

    def _dispatch(self) -> None:
        assert self._on_event is not None
        while True:
            self._reported.wait()
            while self._reports:
                with self._lock:
                    event = self._reports.popleft()
                    self._report_bytes -= len(getattr(event, "line", b""))
                try:
                    self._on_event(event)
                except Exception:
                    traceback.print_exc()
                if isinstance(event, ConnectionOver):
                    return

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
            except RequestError as why:
                self._refuse(event, why)
            except BaseException as why:
                late = isinstance(why, LocalProtocolError) and why.rule in (*GONE, "request.answered")
                if not late and not isinstance(why, ConnectionClosed):
                    # First: a peer that has its answer may hang up, and nothing is reported behind the end.
                    self._failed(event, why)
                self._refuse(event, handler_failed())
            finally:
                over()

        try:
            self._start(event, body)
        except RuntimeError as why:
            over()
            error = handler_failed()
            self.connection.respond_error(event.request_id, error.code, error.message, error.data)
            self.report(HandlerFailed(why, event))

    def tell(self, event: RequestReceived, work: Callable[[], object]) -> None:
        """Run the owner's code in a thread of its own; nobody is answered. The lock is held."""

        def body() -> None:
            try:
                work()
            except BaseException as why:
                self._failed(event, why)

        try:
            self._start(event, body)
        except RuntimeError as why:
            self.report(HandlerFailed(why, event))

    def _start(self, event: RequestReceived, body: Callable[[], None]) -> None:
        def run() -> None:
            try:
                body()
            finally:
                with self._lock:
                    self._handlers.discard(threading.current_thread())

        thread = threading.Thread(target=run, name=f"acp {event.key or event.method}", daemon=True)
        self._handlers.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._handlers.discard(thread)
            raise

    def _failed(self, event: Event, why: BaseException) -> None:
        with self._lock:
            self.report(HandlerFailed(why, event))

    def _refuse(self, event: RequestReceived, error: RequestError) -> None:
        """Answer with an error. It may have been answered before, and an error that is no JSON becomes a plain one."""
        for one in (error, handler_failed()):
            with contextlib.suppress(ACPError, TypeError):
                self.call(self.connection.respond_error, event.request_id, one.code, one.message, one.data)
                return

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
        self.call(self.connection.abort, reason)
        self.transport.close()
        for thread in self._loops:
            join(thread)


def join(thread: threading.Thread, timeout: float = JOIN) -> None:
    """Wait for the end of a thread, at most ``timeout`` seconds; not for one that waits for this."""
    if thread is not threading.current_thread() and thread not in WAITING and thread.ident is not None:
        thread.join(timeout)
