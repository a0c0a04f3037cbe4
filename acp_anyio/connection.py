"""One connection on an event loop: a reader and a writer around a core that does no IO, a timer and a dispatcher while
there is something for them.

Nothing here knows a method. No caller writes, so no caller's cancellation can tear a message (rule 7).
"""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteStream, ObjectStream

from acp_core import Grace
from acp_core.drive import NEVER, Pieces
from acp_core.errors import request_cancelled
from acp_core.front import link as front
from acp_core.inbox import HandlerFailed, Inbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

    from anyio.abc import TaskGroup

    from acp_core import Connection, Event, RequestReceived
    from acp_core.inbox import Channel

    from .process import AgentProcess

# The owner's code runs in the loop: after so many seconds in one go the others get their turn, which is looked at every
# so many events. By a number of events alone a quick consumer falls behind the reader, and all that is unread is kept:
# that costs half of json.loads an update.
TURN, EVENTS_PER_LOOK = 0.005, 64
# So many turns of the loop let every event source deliver what it has before a deadline counts as passed in silence.
SETTLE_TURNS = 4
# Under a stream of input that never pauses a deadline fires this late, in seconds, instead of never.
OVERDUE = 0.5
# How long a peer that is no process of ours is given to hang up, in seconds.
HANG_UP = 0.05
# The handler that this task runs: the closing of the connection cancels it.
HANDLING: ContextVar[anyio.CancelScope | None] = ContextVar("HANDLING", default=None)


class Waiter:
    """Who waits: for the event that settles a request, or to be woken. It is given to the core as a token."""

    __slots__ = ("_wake", "event")

    def __init__(self) -> None:
        self.event: Event | None = None
        self._wake: anyio.Event | None = None

    def settle(self, event: Event) -> None:
        """The event that settles the request."""
        self.event = event
        self.notify()

    def notify(self) -> None:
        """Wake everybody who is in ``pause`` now."""
        wake, self._wake = self._wake, None
        if wake is not None:
            wake.set()

    async def pause(self, deadline: float | None = None) -> None:
        """Sleep until the next ``notify``, at most until ``deadline``."""
        if self._wake is None:
            self._wake = anyio.Event()
        if deadline is None:
            await self._wake.wait()
        else:
            with anyio.CancelScope(deadline=deadline):
                await self._wake.wait()


class Link(front.Link[Waiter]):
    """A core, its transport and the tasks between them.

    Args:
        connection, inbox, keep: as the base.
        transport: a byte stream, or an object stream that keeps message boundaries.
        on_event: told every event that nothing else consumes.
        grace: how long each wait of closing may take.
        process: the agent's process, when this side has started it.
    """

    def __init__(
        self,
        connection: Connection,
        transport: ByteStream | ObjectStream[bytes | str],
        inbox: Inbox,
        *,
        on_event: Callable[[Event], None] | None = None,
        grace: Grace,
        process: AgentProcess | None = None,
        keep: front.Keep | None = None,
    ) -> None:
        if not isinstance(transport, (ByteStream, ObjectStream)):
            raise TypeError(
                f"transport must be an anyio ByteStream or ObjectStream, not {type(transport).__name__}; "
                "see docs/transports.md"
            )
        messages = not isinstance(transport, ByteStream)
        explain = process.exit_error if process is not None else None
        super().__init__(connection, inbox, anyio.current_time, messages=messages, keep=keep, explain=explain)
        self.process = process
        self.over = anyio.Event()
        self.grace = grace
        self._thread = threading.get_ident()
        self._transport = transport
        self._pieces = Pieces() if messages else None
        self._on_event = on_event or print_failure
        self._tasks: TaskGroup | None = None
        self._reading = anyio.CancelScope(shield=True)
        self._writing = anyio.CancelScope(shield=True)
        self._working: list[anyio.CancelScope] = []
        self._handlers: dict[str, anyio.CancelScope] = {}
        self._reader = Waiter()
        self._timer = Waiter()
        # The tasks that still run: the reader's and the writer's always do, the others while they have something to do.
        self._running = {"reader", "writer"}
        self._left = Waiter()
        self.reads = 0
        self._taken = 0
        self._since = 0.0
        self._ending: anyio.Lock | None = None

    # ── Callers that wait ───────────────────────────────────────────────────────────────────────────────────────────

    waiter = Waiter

    async def give_way(self) -> None:
        """As the base."""
        await anyio.sleep(0)

    def take(self, channel: Channel) -> Event | None:
        """As the base; nothing when it is the turn of others."""
        self._taken += 1
        if self._taken % EVENTS_PER_LOOK == 0 and (now := monotonic()) > self._since + TURN:
            self._since, self.owes_turn = now, True
            return None
        event = channel.take()
        if self.paused:
            self.refresh()
        return event

    def leave(self, channel: Channel) -> None:
        """As the base, in whatever thread a finalizer runs."""
        if threading.get_ident() == self._thread:
            self.detach(channel)
        else:
            channel.detach()

    async def last_words(self) -> None:
        """As the base."""
        if self.process is not None:
            await self.process.wait_ended(1.0)

    # ── What the pump asks for ──────────────────────────────────────────────────────────────────────────────────────

    def ended(self) -> None:
        """As ``Drive``."""
        self.over.set()

    def wake_reader(self) -> None:
        """As ``Drive``."""
        self._reader.notify()

    def wake_timer(self) -> None:
        """As ``Drive``."""
        self._timer.notify()
        self._run_meanwhile("timer", self._keep_time)

    def wake_dispatcher(self) -> None:
        """As ``Drive``."""
        self._run_meanwhile("dispatcher", self._dispatch)

    # ── Handlers ────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, work: Callable[[], Coroutine[object, object, None]], name: str, serves: str | None = None) -> None:
        """As the base, in a task for as long as the connection lives. A handler may be cancelled before it runs."""
        assert self._tasks is not None
        if serves is not None:
            self._handlers[serves] = anyio.CancelScope()
        self._tasks.start_soon(work, name=name)

    async def serve(self, event: RequestReceived, work: Callable[[], object]) -> object:
        """As the base."""
        served = False
        found: object = None
        try:
            with self._handlers[event.request_id] as scope:
                HANDLING.set(scope)
                found = await self.result(work)
                served = True
                await self.pace()
        finally:
            self._handlers.pop(event.request_id, None)
        if not served:
            raise request_cancelled()
        return found

    @contextmanager
    def working(self, scope: anyio.CancelScope | None = None) -> Iterator[None]:
        """Shield what runs here from everything but the end of the connection's block."""
        with scope or anyio.CancelScope(shield=True) as scope:
            self._working.append(scope)
            try:
                yield
            finally:
                self._working.remove(scope)

    def cancel_handler(self, request_id: str) -> None:
        """Cancel the handler of a request, if one is running."""
        if (scope := self._handlers.get(request_id)) is not None:
            scope.cancel()

    # ── Tasks ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """The connection's life. Leaving it ends the connection, in order or, after an exception, at once."""
        failure: BaseException | None = None
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._guard, "reader", self._read, self._reading)
                self._tasks.start_soon(self._guard, "writer", self.write, self._writing)
                if self.process is not None:
                    self._run_meanwhile("stderr", self.process.drain_stderr)
                    self._run_meanwhile("process", partial(self.process.watch_for, self))
                clean = False
                try:
                    yield
                    clean = True
                except anyio.get_cancelled_exc_class():
                    raise
                except BaseException as why:
                    # Kept out of the task group, which would wrap it into an exception group.
                    failure = why
                finally:
                    # First what needs no await: after it every waiter has settled.
                    self.end(None if clean else "its owner has left")
                    try:
                        with anyio.CancelScope(shield=True):
                            await self.aclose()
                    except Exception as why:
                        # The transport cannot be closed. What went wrong before says more, and so does what is told of
                        # a process that stays.
                        if clean and not isinstance(why, TimeoutError):
                            failure = why
                    finally:
                        for scope in self._working:
                            scope.cancel()
        finally:
            self._tasks = None
            await self._dispatch()
            if failure is not None:
                try:
                    raise failure
                finally:
                    del failure

    def cut(self, reason: str) -> None:
        """End the connection and kill the process now, without waiting; ``aclose`` finds nothing to wait for."""
        self.end(reason)
        self._writing.cancel()
        if self.process is not None:
            self.process.kill()

    async def aclose(self) -> None:
        """End in order: write what is left, close the transport, end the process. Each wait is one of ``grace``; a
        second call does what is left to do.

        Raises:
            TimeoutError: the process was killed and is still there.
        """
        self.end(None)
        if self._ending is None:
            self._ending = anyio.Lock()
        async with self._ending:
            with anyio.move_on_after(self.grace.write):
                await self._stopped("writer")
            self._writing.cancel()
            # What could not be written by now is let go of.
            self.connection.abort("closed by its owner")
            self.pump()
            try:
                if self.process is not None:
                    await self.process.stop()
            finally:
                # Most peers hang up now. A read that is cancelled just as they do fails on some loops.
                with anyio.move_on_after(self.grace.drain if self.process is not None else HANG_UP):
                    await self._stopped("reader")
                self._reading.cancel()
                with anyio.move_on_after(self.grace.drain):
                    # Not every transport can be closed under a call that is being cancelled.
                    await self._stopped("writer")
                    await self._stopped("reader")
                    await self._transport.aclose()

    async def _stopped(self, name: str) -> None:
        while name in self._running:
            await self._left.pause()

    def _run_meanwhile(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task until it has nothing to do any more, unless it runs."""
        if name not in self._running and self._tasks is not None:
            self._running.add(name)
            self._tasks.start_soon(self._guard, name, work)

    async def _guard(
        self, name: str, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope | None = None
    ) -> None:
        # Shielded: the tasks live until the owner has left and said so, whatever was cancelled around them.
        try:
            with self.working(scope):
                await work()
        except Exception as why:
            # A defect of this library fails the connection, not the owner's task.
            traceback.print_exception(why)
            self.end(f"the binding failed: {why!r}")
        finally:
            self._running.discard(name)
            self._left.notify()

    async def _read(self) -> None:
        item: bytes | str | None = b""
        while item is not None:
            while self.must_pause:
                self.paused = True
                # A consumer that is collected in another thread cannot wake this task: look again.
                with anyio.move_on_after(1.0):
                    await self._reader.pause()
            self.paused = False
            try:
                item = await self._transport.receive()
            except anyio.EndOfStream:
                item = None
            except Exception as why:
                item = None
                self.connection.abort(f"reading failed: {why!r}")
            self.reads += 1
            self.received(item)
            self.pump()

    async def write(self) -> None:
        """As the base."""
        await super().write()
        # It fails when the other end is gone already, in as many ways as there are transports.
        with suppress(Exception):
            await self._transport.send_eof()

    async def send(self, data: bytes) -> None:
        """As the base."""
        for piece in (data,) if self._pieces is None else self._pieces.cut(data):
            await self._transport.send(piece)

    async def _keep_time(self) -> None:
        """Until there is no deadline. One that was moved back, or has gone, is noticed at the time it had before."""
        while True:
            received = self.reads
            due = self.sleeps_until = self.connection.next_deadline()
            if due is None or due == NEVER:
                # Who works that off pumps, and starts this again.
                self.sleeps_until = None
                return
            if due > anyio.current_time():
                await self._timer.pause(due)
                continue
            # The deadline counts when reading has found nothing since. No receive is ever cut for it, so that
            # no transport can lose bytes by it.
            for _ in range(SETTLE_TURNS):
                await anyio.sleep(0)
            if self.paused or received == self.reads or anyio.current_time() > due + OVERDUE:
                self.time_is_up()
                self.pump()

    async def _dispatch(self) -> None:
        while (event := self.next_report()) is not None:
            try:
                self._on_event(event)
            except Exception as why:
                traceback.print_exception(why)


def print_failure(event: Event) -> None:
    """What becomes of events when the owner listens to none: the traceback of what his code raised goes to stderr."""
    if isinstance(event, HandlerFailed):
        traceback.print_exception(event.exception, file=sys.stderr)
