"""One connection on an event loop: reader, writer, timer and dispatcher around a core that does no IO.

Nothing here knows a method. Every call into the core is followed by one ``pump``: events are routed, the writer is
woken, the deadline is published. No caller writes, so no caller's cancellation can tear a message (rule 7).
"""

from __future__ import annotations

import inspect
import sys
import threading
import traceback
from collections import deque
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, ObjectStream

from acp_core import (
    CancelRequested,
    ConnectionClosed,
    ConnectionOver,
    ConsumerTooSlow,
    Grace,
    LocalProtocolError,
    PermissionAnswered,
    RequestAbandoned,
    RequestError,
    RequestSettled,
    TurnCancelReceived,
    WriteFailed,
)
from acp_core.errors import handler_failed, request_cancelled
from acp_core.front import nothing
from acp_core.inbox import MIB, HandlerFailed, Inbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

    from anyio.abc import TaskGroup

    from acp_core import Connection, Event, RequestReceived
    from acp_core.front import Ask
    from acp_core.inbox import Channel

    from .process import AgentProcess

T = TypeVar("T")
P = ParamSpec("P")
NEVER = float("-inf")
WRITE_SIZE = 65536
# Callers that only send wait while more than this is unsent.
HIGH_WATER = 1 * MIB
# So many turns of the loop let every event source deliver what it has before a deadline counts as passed in silence.
SETTLE_TURNS = 4
# Under a stream of input that never pauses a deadline fires this late, in seconds, instead of never.
OVERDUE = 0.5
# How long a peer that is no process of ours is given to hang up, in seconds.
HANG_UP = 0.05
# Rules that refuse an intent although its caller did nothing wrong: the connection, or the request, is gone.
GONE = ("connection.over", "connection.write_failed")
LATE = ("request.answered", *GONE)
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

    async def pause(self) -> None:
        """Sleep until the next ``notify``."""
        if self._wake is None:
            self._wake = anyio.Event()
        await self._wake.wait()


class Link:
    """A core, its transport and the tasks between them.

    Args:
        connection: the core; nobody else drains it.
        transport: a byte stream, or an object stream that keeps message boundaries.
        on_event: told every event that nothing else consumes.
        close_grace: how long each wait of closing may take: a Grace, or seconds for all of them.
        process: the agent's process, when this side has started it.
        keep: told how many bytes the next write has; what it gives is called, and awaited, before that.

    ``act`` is what the front does with an event that needs it; it returns False for events it has no use for.
    """

    def __init__(
        self,
        connection: Connection,
        transport: ByteStream | ObjectStream[bytes | str],
        *,
        on_event: Callable[[Event], None] | None = None,
        close_grace: float | Grace | None = None,
        process: AgentProcess | None = None,
        inbox: Inbox | None = None,
        keep: Callable[[int], Callable[[], object] | None] | None = None,
    ) -> None:
        self.connection = connection
        self.inbox = inbox if inbox is not None else Inbox()
        self.act: Callable[[Event], bool] = lambda event: False
        self.process = process
        self.over = anyio.Event()
        # Here none is.
        self.dropped_reports = 0
        self._thread = threading.get_ident()
        self._closed_here = False
        self._gone = "it has ended"
        self._transport = transport
        self._on_event = on_event
        self.grace = Grace.of(close_grace) if close_grace is not None else Grace()
        self._keep = keep
        self._tasks: TaskGroup | None = None
        self._reading = anyio.CancelScope(shield=True)
        self._writing = anyio.CancelScope(shield=True)
        self._working = [anyio.CancelScope(shield=True) for _ in range(4)]
        self._handlers: dict[str, anyio.CancelScope] = {}
        self._reports: deque[Event] = deque()
        self._blocked: dict[Waiter, int] = {}
        self._reader = Waiter()
        self._writer = Waiter()
        self._timer = Waiter()
        self._dispatcher = Waiter()
        # Whatever the core has done: somebody waits for a state of it.
        self.moved = Waiter()
        self._received = 0
        # A write is under way.
        self._sending = False
        self._paused = False
        self._published: float | None = None
        self._flushed = anyio.Event()
        self._read_out = anyio.Event()
        self._ending = anyio.Lock()
        # The message that is being put together for a transport of whole messages.
        self._parts: list[bytes] = []

    # ── Calls into the core ─────────────────────────────────────────────────────────────────────────────────────────

    def call(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make an intent, then pump.

        Raises:
            ConnectionClosed: the connection went away; AgentExited when the agent's process has ended. After this
                side's own close it is the LocalProtocolError of the core.
        """
        try:
            return intent(*args, **kwargs)
        except LocalProtocolError as why:
            if why.rule not in GONE or self._closed_here:
                raise
            closed = ConnectionClosed(self._gone)
            raise (self.process and self.process.exit_error(closed)) or closed from why
        finally:
            self.pump()

    def pump(self) -> None:
        """Route every event, wake who has work now, publish the deadline. It runs no code of the owner."""
        connection = self.connection
        inbox = self.inbox
        for event in connection.events():
            rest = inbox.route(event)
            if rest is None:
                if isinstance(event, PermissionAnswered):
                    self.cancel_handler(event.request_id)
                continue
            if isinstance(rest, (RequestAbandoned, CancelRequested, TurnCancelReceived)):
                self.cancel_handler(rest.request_id or "")
            elif isinstance(rest, WriteFailed):
                self._gone = rest.reason
            elif isinstance(rest, ConnectionOver):
                self._gone = rest.reason
                self.over.set()
            if not self.act(rest):
                self.report(rest)
        due = connection.next_deadline()
        if due == NEVER and self._sending:
            # The writer hangs in a write. Durations start all the same.
            connection.data_to_send(anyio.current_time(), 0)
            due = connection.next_deadline()
        if due == NEVER or connection.output_bytes:
            self._writer.notify()
        earlier = due is not None and due != NEVER and (self._published is None or due < self._published)
        if earlier or connection.closed:
            self._timer.notify()
        self.moved.notify()
        if inbox.full:
            for waiter in [*self._blocked]:
                waiter.notify()
        self.refresh()

    def refresh(self) -> None:
        """Let the reader go on if it may: a consumer has taken something, or somebody waits for an answer now."""
        if self._paused and (not self.inbox.paused or self.connection.closed):
            self._reader.notify()

    def leave(self, channel: Channel) -> None:
        """A consumer has gone. Safe in a finalizer, in whatever thread that runs."""
        channel.detach()
        if threading.get_ident() == self._thread:
            self.refresh()

    def report(self, event: Event) -> None:
        """Leave an event to the dispatcher."""
        self._reports.append(event)
        self._dispatcher.notify()

    # ── Callers that wait ───────────────────────────────────────────────────────────────────────────────────────────

    async def wait(self, waiter: Waiter, done: Callable[[], bool]) -> None:
        """Sleep until ``done()``.

        Raises:
            ConsumerTooSlow: what is waited for stands behind more unread input than may be kept.
        """
        while not done():
            if self.inbox.full:
                size = self.inbox.size
                raise ConsumerTooSlow(f"{size} bytes of updates are unread; read or detach the turns and sessions")
            self.inbox.waiters += 1
            self._blocked[waiter] = self._blocked.get(waiter, 0) + 1
            self.refresh()
            try:
                await waiter.pause()
            finally:
                self.inbox.waiters -= 1
                self._blocked[waiter] -= 1
                if not self._blocked[waiter]:
                    del self._blocked[waiter]

    def waiter(self) -> Waiter:
        """Who waits for a request."""
        return Waiter()

    async def answer(self, waiter: Waiter) -> Event:
        """Wait for the end of a request. Raises as ``wait``."""
        await self.wait(waiter, lambda: waiter.event is not None)
        assert waiter.event is not None
        return waiter.event

    async def ask(self, intent: Ask) -> object:
        """Send a request and wait for its result. A cancelled caller has the request cancelled (rule 7)."""
        waiter = Waiter()
        id = self.call(intent, token=waiter)
        try:
            event = await self.answer(waiter)
        except anyio.get_cancelled_exc_class():
            self.quietly(lambda: self.connection.cancel_request(id))
            raise
        assert isinstance(event, RequestSettled)
        if event.error is not None:
            await self.fail(event.error)
        return event.result

    async def fail(self, error: Exception) -> NoReturn:
        """Raise an error of the core, with the cause when it is that the agent's process has ended."""
        if isinstance(error, ConnectionClosed) and self.process is not None and not self._closed_here:
            await self.process.wait_ended(1.0)
            exited = self.process.exit_error(error)
            if exited is not None:
                raise exited from error
        raise error

    def quietly(self, intent: Callable[[], object]) -> None:
        """Make an intent whose refusal means that there is nothing left to do."""
        try:
            intent()
        except LocalProtocolError:
            pass
        finally:
            self.pump()

    async def drained(self) -> None:
        """Give the writer its turn, and wait while too much is unsent."""
        await anyio.lowlevel.checkpoint()
        while self.connection.output_bytes > HIGH_WATER:
            await self.moved.pause()

    # ── Handlers ────────────────────────────────────────────────────────────────────────────────────────────────────

    def spawn(
        self,
        event: RequestReceived,
        work: Callable[[], object],
        answer: Callable[[object], None],
        over: Callable[[], object] = nothing,
    ) -> None:
        """Run a handler in a task of its own; see ``acp_core.front.Link``. ``work`` is plain or async."""
        assert self._tasks is not None
        scope = self._handlers[event.request_id] = anyio.CancelScope()
        self._tasks.start_soon(self._handle, event, scope, work, answer, over, name=f"acp {event.method}")

    async def _handle(
        self,
        event: RequestReceived,
        scope: anyio.CancelScope,
        work: Callable[[], object],
        answer: Callable[[object], None],
        over: Callable[[], object],
    ) -> None:
        HANDLING.set(scope)
        reply: Callable[[], None] | None = None
        error = request_cancelled()
        try:
            with scope:
                found = work()
                result = await found if inspect.isawaitable(found) else found
                reply = partial(answer, result)
                await self.drained()
        except RequestError as why:
            error = why
        except Exception as why:
            error = self.failed(event, why)
        except BaseException:
            # Cancelled from outside, maybe by the handler's own doing: the peer is answered all the same.
            self._try(lambda: self._refuse(event, error))
            self.pump()
            raise
        finally:
            self._handlers.pop(event.request_id, None)
            over()
        wrong = self._try(reply if reply is not None else lambda: self._refuse(event, error))
        if wrong is not None:
            told = self.failed(event, wrong)
            self._try(lambda: self._refuse(event, told))
        self.pump()

    def tell(self, event: RequestReceived, work: Callable[[], object]) -> None:
        """Run the owner's code in a task of its own; nobody is answered."""
        self.start_soon(partial(self._tell, event, work))

    async def _tell(self, event: RequestReceived, work: Callable[[], object]) -> None:
        try:
            found = work()
            if inspect.isawaitable(found):
                await found
        except Exception as why:
            self.failed(event, why)

    def _refuse(self, event: RequestReceived, error: RequestError) -> None:
        self.connection.respond_error(event.request_id, error.code, error.message, error.data)

    def _try(self, answer: Callable[[], None]) -> Exception | None:
        try:
            answer()
        except LocalProtocolError as why:
            return None if why.rule in LATE else why
        except Exception as why:
            return why
        return None

    def failed(self, event: Event, why: Exception) -> RequestError:
        """Report what the owner's code raised. Returns what the peer is told: nothing of it."""
        self.report(HandlerFailed(why, event))
        return handler_failed()

    def start_soon(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run a task for as long as the connection lives."""
        assert self._tasks is not None
        self._tasks.start_soon(work)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Shield what runs here from everything but the end of the connection's block."""
        with anyio.CancelScope(shield=True) as scope:
            self._working.append(scope)
            try:
                yield
            finally:
                self._working.remove(scope)

    def cancel_handler(self, request_id: str) -> None:
        """Cancel the handler of a request, if one is running."""
        scope = self._handlers.get(request_id)
        if scope is not None:
            scope.cancel()

    # ── Tasks ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """The connection's life. Leaving it ends the connection, in order or, after an exception, at once."""
        failure: BaseException | None = None
        work = [self._keep_time, self._dispatch]
        if self.process is not None:
            work += [self.process.drain_stderr, self._watch_process]
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._guard, self._read, self._reading)
                self._tasks.start_soon(self._guard, self._write, self._writing)
                for task, scope in zip(work, self._working, strict=False):
                    self._tasks.start_soon(self._guard, task, scope)
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
                    with anyio.CancelScope(shield=True):
                        with suppress(TimeoutError):
                            await self.aclose()
                    for scope in self._working:
                        scope.cancel()
        finally:
            self._deliver()
            if failure is not None:
                try:
                    raise failure
                finally:
                    del failure

    def end(self, reason: str | None) -> None:
        """End the connection in order, or with a reason at once. Everything settles before this returns."""
        if not self.over.is_set():
            self._closed_here = True
        if reason is None:
            self.connection.close()
        else:
            self.connection.abort(reason)
        self.pump()

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
        async with self._ending:
            with anyio.move_on_after(self.grace.write):
                await self._flushed.wait()
            self._writing.cancel()
            try:
                if self.process is not None:
                    await self.process.stop()
            finally:
                # Most peers hang up now. A read that is cancelled just as they do fails on some loops.
                with anyio.move_on_after(self.grace.drain if self.process is not None else HANG_UP):
                    await self._read_out.wait()
                self._reading.cancel()
                with anyio.move_on_after(self.grace.drain):
                    # Not every transport can be closed under a call that is being cancelled.
                    await self._flushed.wait()
                    await self._read_out.wait()
                    await self._transport.aclose()

    async def _guard(self, work: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
        # Shielded: the tasks live until the owner has left and said so, whatever was cancelled around them.
        with scope:
            try:
                await work()
            except Exception as why:
                # A defect of this library fails the connection, not the owner's task.
                traceback.print_exception(why)
                self.end(f"the binding failed: {why!r}")

    async def _read(self) -> None:
        try:
            await self._read_all()
        finally:
            self._read_out.set()

    async def _read_all(self) -> None:
        connection = self.connection
        transport = self._transport
        item: bytes | str | None = b""
        while item is not None:
            while self.inbox.paused and not connection.closed:
                self._paused = True
                # A consumer that is collected in another thread cannot wake this task: look again.
                with anyio.move_on_after(1.0):
                    await self._reader.pause()
            self._paused = False
            try:
                item = await transport.receive()
            except anyio.EndOfStream:
                item = None
                connection.receive_eof(anyio.current_time())
            except Exception as why:
                item = None
                connection.abort(f"reading failed: {why!r}")
            self._received += 1
            if isinstance(item, bytes) and isinstance(transport, ByteStream):
                connection.receive_data(item, anyio.current_time())
            elif item is not None:
                connection.receive_message(item, anyio.current_time())
            self.pump()

    async def _write(self) -> None:
        try:
            await self._write_all()
            # It fails when the other end is gone already, in as many ways as there are transports.
            with suppress(Exception):
                await self._transport.send_eof()
        finally:
            self._flushed.set()

    async def _write_all(self) -> None:
        connection = self.connection
        while not connection.closed:
            # All of it where a snapshot is kept: what that calls answered leaves with the write it is stored for.
            data = connection.data_to_send(anyio.current_time(), WRITE_SIZE if self._keep is None else None)
            if data and self._keep is not None and not await self._kept(self._keep, len(data)):
                continue
            # PromptSent is out before the bytes are.
            self.pump()
            if data:
                self._sending = True
                try:
                    await self._send(data)
                except Exception as why:
                    connection.send_failed(f"writing failed: {why!r}", anyio.current_time())
                    self.pump()
                finally:
                    self._sending = False
            elif not connection.output_bytes and connection.next_deadline() != NEVER:
                # A connection that is over has -inf for its deadline and ends this loop.
                await self._writer.pause()

    async def _kept(self, keep: Callable[[int], Callable[[], object] | None], size: int) -> bool:
        self._sending = True
        try:
            store = keep(size)
            # Storing takes time: who waits for what was handed over is told first.
            self.pump()
            stored = store() if store is not None else None
            if inspect.isawaitable(stored):
                await stored
        except Exception as why:
            self.connection.abort(f"the snapshot was not stored: {why!r}")
            self.pump()
            return False
        finally:
            self._sending = False
        return True

    async def _send(self, data: bytes) -> None:
        transport = self._transport
        if isinstance(transport, ByteStream):
            await transport.send(data)
            return
        head, *others = data.split(b"\n")
        self._parts.append(head)
        for part in others:
            await transport.send(b"".join(self._parts))
            self._parts = [part]

    async def _keep_time(self) -> None:
        connection = self.connection
        while not connection.closed:
            due = self._published = connection.next_deadline()
            if due == NEVER:
                due = self._published = None
            if due is None or due > anyio.current_time():
                with anyio.CancelScope(deadline=float("inf") if due is None else due):
                    await self._timer.pause()
                continue
            # The deadline counts when reading has found nothing since. No receive is ever cut for it, so that
            # no transport can lose bytes by it.
            received = self._received
            for _ in range(SETTLE_TURNS):
                await anyio.lowlevel.checkpoint()
            now = anyio.current_time()
            if self._paused or received == self._received or now > due + OVERDUE:
                connection.handle_timeout(now, paused=self._paused)
                self.pump()

    async def _dispatch(self) -> None:
        while True:
            self._deliver()
            await self._dispatcher.pause()

    def _deliver(self) -> None:
        while self._reports:
            event = self._reports.popleft()
            if self._on_event is not None:
                try:
                    self._on_event(event)
                except Exception as why:
                    traceback.print_exception(why)
            elif isinstance(event, HandlerFailed):
                traceback.print_exception(event.exception, file=sys.stderr)

    async def _watch_process(self) -> None:
        """The end of input where a process that is gone has left its output open in another one."""
        assert self.process is not None
        await self.process.watch()
        received = -1
        while not self.over.is_set() and (self._paused or received != self._received):
            received = self._received
            with anyio.move_on_after(0.5):
                await self.over.wait()
        self.connection.receive_eof(anyio.current_time())
        self.pump()
