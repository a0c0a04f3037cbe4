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
from contextlib import suppress
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from acp_core.connection import Connection
from acp_core.drive import NEVER
from acp_core.errors import ConnectionClosed
from acp_core.events import ConnectionOver, Event
from acp_core.front.link import Link
from acp_core.inbox import Channel, HandlerFailed, Inbox
from acp_core.state import OVER

from .transport import Messages, Transport

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from acp_core.front.client import SessionIterator, TurnIterator
    from acp_core.front.link import Keep

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")

# The main thread waits in pieces, in seconds: on Windows a wait for a lock hears no Ctrl-C, and elsewhere one that
# comes just before the wait begins would only be heard at its end.
SLICE = 0.5 if os.name == "posix" else 0.1
NO_WAKE = 0.05
# No call of the system is given a longer wait, in seconds: poll takes no 25 days, and a lock on Windows no 50.
LONGEST = 86400.0
JOIN = 1.0
# Threads that wait for the end of a close, each maybe in a callback: closing waits for none of them.
WAITING: set[threading.Thread] = set()


def until(deadline: float) -> float:
    """How many seconds to sleep for a deadline, at most; who wakes looks again."""
    return min(LONGEST, max(0.0, deadline - monotonic()))


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

    async def pause(self, deadline: float | None = None) -> None:
        """Until it is notified, at most until ``deadline``; it blocks. May also come back early."""
        self.sleep(None if deadline is None else until(deadline))

    def sleep(self, timeout: float | None = None) -> None:
        """The same, for at most so many seconds."""
        if timeout is None:
            timeout = SLICE if threading.get_ident() == threading.main_thread().ident else -1.0
        self._lock.acquire(timeout=timeout)


class Later:
    """What must not wait for a driver's lock, since a finalizer runs anywhere, also where its own thread holds it. Who
    lets go of the lock does it. (The lock itself stays one of C, which a Ctrl-C cannot tear.)"""

    __slots__ = ("_lock", "work")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.work: deque[Callable[[], None]] = deque()

    def soon(self, work: Callable[[], None]) -> None:
        """Do this under the lock: now, or when whoever holds it lets go."""
        self.work.append(work)
        self.work_off()

    def work_off(self) -> None:
        """The lock was let go of."""
        while self.work and self._lock.acquire(blocking=False):
            try:
                while self.work:
                    self.work.popleft()()
            finally:
                self._lock.release()


def finish(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine of a front here: all that it waits for blocks, so it ends in one step. Code of the owner that
    waits for something else is told so."""
    try:
        work.send(None)
        work.throw(RuntimeError("acp_sync runs no event loop: what it calls must be plain functions; see acp_anyio"))
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError(f"{work!r} does not end")


def blocking(method: Callable[Concatenate[S, P], Coroutine[object, object, T]]) -> Callable[Concatenate[S, P], T]:
    """A method of a front that waits, as one that blocks."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return finish(method(self, *args, **kwargs))

    return call


def each(events: TurnIterator | SessionIterator) -> Iterator[Event]:
    """What a loop over a front gets, blocking."""
    while True:
        try:
            event = finish(events.__anext__())
        except StopAsyncIteration:
            return
        yield event


class Driver(Link[Waiter]):
    """Runs one core connection over one transport. ``on_event`` is told what nobody takes; the others as ``Link``."""

    def __init__(
        self,
        connection: Connection,
        transport: Transport | Messages,
        inbox: Inbox,
        *,
        on_event: Callable[[Event], None],
        explain: Callable[[ConnectionClosed], ConnectionClosed | None] | None = None,
        keep: Keep | None = None,
    ) -> None:
        messages = isinstance(transport, Messages)
        super().__init__(connection, inbox, monotonic, messages=messages, keep=keep, explain=explain)
        self.transport = transport
        self._on_event = on_event
        self._reported = Waiter()
        self._lock = threading.Lock()
        self._later = Later(self._lock)
        self._readable = Waiter()
        self._reading = False
        self._wake: Callable[[], None] | None = getattr(transport, "wake", None)
        self._loops = [
            threading.Thread(target=self._guard, args=(loop,), name=f"acp {loop.__name__[1:]}", daemon=True)
            for loop in (self._read, self._write, self._dispatch)
        ]
        self._handlers: set[threading.Thread] = set()

    def run(self) -> None:
        """Start the threads."""
        for thread in self._loops:
            thread.start()

    # ── Calls into the core ─────────────────────────────────────────────────────────────────────────────────────────

    def locked(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``Link``."""
        try:
            with self._lock:
                return work(*args, **kwargs)
        finally:
            if self._later.work:
                self._later.work_off()

    def pumped(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``Link``."""
        try:
            with self._lock:
                try:
                    return super().pumped(intent, *args, **kwargs)
                except Exception:
                    raise
                except BaseException:
                    # Ctrl-C between two steps of the core: what it left half done is not to be trusted.
                    self.connection.abort("a caller was interrupted inside the core")
                    self.pump()
                    # Nor is it known whom it has kept from being woken.
                    self.wake_dispatcher()
                    for wake in [*self._blocked]:
                        wake()
                    raise
        finally:
            if self._later.work:
                self._later.work_off()

    waiter = Waiter

    def take(self, channel: Channel) -> Event | None:
        """As ``Link``."""
        return self.locked(super().take, channel)

    def leave(self, channel: Channel) -> None:
        """As ``Link``: a finalizer may run inside the core."""
        self._later.soon(lambda: self.detach(channel))

    @property
    def held(self) -> bool:
        """Some thread is in the core: a finalizer must not wait for it, since it may be its own."""
        return self._lock.locked()

    # ── What the pump asks for; the lock is held ────────────────────────────────────────────────────────────────────

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

    # ── The threads ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _guard(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as why:
            # A defect here must not leave anybody waiting.
            self.pumped(self.connection.abort, f"the {loop.__name__[1:]} loop failed: {why!r}")
            raise

    def _read(self) -> None:
        while True:
            deadline = self.locked(self._look)
            left = None if deadline is None else until(deadline)
            # A read that began at a deadline takes what was there by then: its time has come, whatever still follows.
            due = left == 0
            if self.paused:
                # Nothing is read for a deadline either: a timer that comes again and again would read without bound.
                if due:
                    self.pumped(self.time_is_up)
                else:
                    self._readable.sleep(left)
                continue
            if self._wake is None:
                left = NO_WAKE if left is None else min(left, NO_WAKE)
            try:
                data = self.transport.receive(left)
            except TimeoutError:
                self.pumped(self.time_is_up)
                continue
            except OSError as why:
                self.pumped(self.connection.abort, f"reading failed: {why}")
                return
            self.pumped(self._received, data, due)
            if data is None or (not data and not self._messages):
                return

    def _look(self) -> float | None:
        due = self.connection.next_deadline()
        self.sleeps_until = None if due == NEVER else due
        self.paused = self.must_pause
        self._reading = not self.paused
        return self.sleeps_until

    def _received(self, data: str | bytes | None, due: bool) -> None:
        self._reading = False
        self.received(data)
        if due:
            self.time_is_up()

    async def send(self, data: bytes) -> None:
        """As ``Link``."""
        self.transport.send(data)

    def _write(self) -> None:
        finish(self.write())

    def _dispatch(self) -> None:
        event: Event | None = None
        while not isinstance(event, ConnectionOver):
            event, over = self.locked(lambda: (self.next_report(), self.connection.state == OVER))
            if event is None:
                if over:
                    return
                self._reported.sleep()
                continue
            try:
                self._on_event(event)
            except Exception:
                traceback.print_exc()

    def start(
        self, work: Callable[[], Coroutine[object, object, None]], name: str, serves: str | None = None
    ) -> threading.Thread:
        """As ``Link``, in a thread of its own. The lock is held."""

        def run() -> None:
            try:
                # Whom it concerns was told. It ends this thread.
                with suppress(SystemExit, KeyboardInterrupt):
                    finish(work())
            finally:
                self.locked(self._handlers.discard, threading.current_thread())

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._handlers.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._handlers.discard(thread)
            raise
        return thread

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
        self.pumped(self.connection.abort, reason)
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
