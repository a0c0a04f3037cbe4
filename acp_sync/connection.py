"""The threads around a core connection: a reader, a writer, one dispatcher for events, one thread for each handler.

All knowledge of the protocol is in the core. Here: one lock around it, and one pump after every call into it, which
drains its events, wakes whom they concern, and publishes the next deadline.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from acp_core.connection import Connection
from acp_core.drive import NEVER
from acp_core.errors import ConnectionClosed
from acp_core.events import ConnectionOver, Event, RequestReceived
from acp_core.front.link import Link, nothing
from acp_core.inbox import Channel, HandlerFailed, Inbox
from acp_core.state import OVER

from .transport import Messages, Transport

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType
    from typing import Self

    from acp_core.front.client import SessionIterator, TurnIterator

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

# The main thread waits in pieces, in seconds: on Windows a wait for a lock hears no Ctrl-C, and elsewhere one that
# comes just before the wait begins would only be heard at its end.
SLICE = 0.5 if os.name == "posix" else 0.1
NO_WAKE = 0.05
JOIN = 1.0
# Threads that wait for the end of a close, each maybe in a callback: closing waits for none of them.
WAITING: set[threading.Thread] = set()


class Waiter:
    """Who waits: for the event that settles a request, or to be woken. It is given to the core as a token, is notified
    with the driver's lock held, and stays so until somebody has paused."""

    __slots__ = ("_lock", "event")

    def __init__(self) -> None:
        self.event: Event | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def settle(self, event: Event) -> None:
        """The event that settles the request."""
        self.event = event
        self.notify()

    def notify(self) -> None:
        """Wake who waits, or who comes next."""
        if self._lock.locked():
            self._lock.release()

    def pause(self, timeout: float | None = None) -> None:
        """Until it is notified or ``timeout`` seconds have passed. May also come back early."""
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


def finish(work: Coroutine[object, None, T]) -> T:
    """Run a coroutine of a front here: all that it waits for blocks, so it ends in one step."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError(f"{work!r} waits for something else than this connection")


def blocking(method: Callable[Concatenate[S, P], Coroutine[object, None, T]]) -> Callable[Concatenate[S, P], T]:
    """A method of a front that waits, as one that blocks."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return finish(method(self, *args, **kwargs))

    return call


class Events:
    """What a loop over a front gets, blocking."""

    def __init__(self, events: TurnIterator | SessionIterator) -> None:
        self._next = events.__anext__

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        try:
            return finish(self._next())
        except StopAsyncIteration:
            raise StopIteration from None


class Driver(Link[Waiter]):
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
        self._reported = Waiter()
        self._lock = threading.Lock()
        self._later = Later(self._lock)
        self._readable = Waiter()
        self._reading = False
        self._writable = Waiter()
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

    def locked(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``Link``."""
        with self._later, self._lock:
            try:
                return super().locked(intent, *args, **kwargs)
            except Exception:
                raise
            except BaseException:
                # Ctrl-C between two steps of the core: what it left half done is not to be trusted.
                self.connection.abort("a caller was interrupted inside the core")
                self.pump()
                raise

    def explained(self, error: Exception) -> Exception:
        """As ``Link``. May wait for a bounded time."""
        if isinstance(error, ConnectionClosed) and self._explain is not None and not self.closing:
            return self._explain(error)
        return error

    def waiter(self) -> Waiter:
        """As ``Link``."""
        return Waiter()

    async def wait(self, waiter: Waiter, ready: Callable[[], T | None], *, counts: bool = True) -> T:
        """As ``Link``; it blocks."""
        wake = waiter.notify
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
                waiter.pause()
        finally:
            if blocked:
                with self._later, self._lock:
                    self.unblock(wake, counts=counts)
                    self.taken(wake)

    def take(self, channel: Channel) -> Event | None:
        """As ``Link``."""
        with self._later, self._lock:
            return super().take(channel)

    def leave(self, channel: Channel) -> None:
        """As ``Link``: a finalizer may run inside the core."""
        self._later.soon(lambda: self.detach(channel))

    @property
    def held(self) -> bool:
        """Some thread is in the core: a finalizer must not wait for it, since it may be its own."""
        return self._lock.locked()

    # ── What the pump asks for; the lock is held ────────────────────────────────────────────────────────────────────

    def write_soon(self) -> bool:
        """As ``Drive``: the writer's thread writes. A caller does not, since a Ctrl-C would leave half a message."""
        self._writable.notify()
        return False

    def wake_reader(self) -> None:
        """As ``Drive``."""
        self._readable.notify()

    def wake_timer(self) -> None:
        """As ``Drive``: the reader keeps the time."""
        if self._reading and self._wake is not None:
            self._wake()
        elif self.paused:
            self._readable.notify()

    def wake_dispatcher(self) -> None:
        """As ``Drive``."""
        self._reported.notify()

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
            self.locked(self.connection.abort, f"the {loop.__name__[1:]} loop failed: {why!r}")
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
                    self.locked(self.time_is_up)
                else:
                    self._readable.pause(left)
                continue
            if self._wake is None:
                left = NO_WAKE if left is None else min(left, NO_WAKE)
            try:
                data = self.transport.receive(left)
            except TimeoutError:
                self.locked(self.time_is_up)
                continue
            except OSError as why:
                self.locked(self.connection.abort, f"reading failed: {why}")
                return
            self.locked(self._received, data, due)
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
                self._writable.pause()
                continue
            try:
                data, store = self.locked(self._output)
                if store is not None:
                    store()
            except Exception as why:
                if self._keep is None:
                    raise
                self.locked(self.connection.abort, f"the snapshot was not stored: {why!r}")
                continue
            if data:
                try:
                    self.transport.send(data)
                except OSError as why:
                    self.locked(self.connection.send_failed, str(why.strerror or why), monotonic())
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
                self._reported.pause()
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
                self.locked(self.handler_raised, event, why)
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
                self.locked(self.failed, event, why)

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
        self.locked(self.connection.abort, reason)
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
