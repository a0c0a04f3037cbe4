"""The loop around a connection with callers that wait, as the fronts want it.

What waits is a coroutine, and awaits nothing but the binding's ``Waiter.pause`` and ``send``, and code of the owner. On
an event loop these suspend. With threads they block, so that such a coroutine ends in one step, whoever takes it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, TypeVar

from ..drive import PACE_AT, Drive
from ..errors import (
    SENT_NO_REPLY,
    ACPError,
    ConnectionClosed,
    ConsumerTooSlow,
    LocalProtocolError,
    request_cancelled,
)
from ..events import RequestSettled
from ..state import OVER

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager
    from typing import Protocol, TypeAlias

    from ..connection import Connection
    from ..events import Event, RequestReceived
    from ..inbox import Channel, Inbox

    Keep: TypeAlias = Callable[[int], Callable[[], object] | None]

    class Waiter(Protocol):
        """Who waits for a request to settle. ``event`` is what has settled it, None before; ``notify`` wakes."""

        event: Event | None

        def settle(self, event: Event, /) -> None: ...
        def notify(self) -> None: ...
        async def pause(self, deadline: float | None = None, /) -> None:
            """Sleep until ``notify``, at most until ``deadline`` on the clock. May also come back early."""

    class Ask(Protocol):
        """An intent that sends a request: it is given the token, and returns the request's id."""

        def __call__(self, *, token: object) -> int: ...


P = ParamSpec("P")
T = TypeVar("T")
WaiterT = TypeVar("WaiterT", bound="Waiter")


def nothing() -> None:
    """What ``over`` is when nobody wants to know."""


class Link(Drive, Generic[WaiterT]):
    """A core connection, what moves its bytes, and how a caller waits. The base of a binding's own.

    Args:
        keep: told how many bytes the next write has; what it gives is called, and awaited, before that.
        explain: gives the error that knows why the connection went away, or None; may wait for a bounded time.
        (others): see ``Drive``.
    """

    def __init__(
        self,
        connection: Connection,
        inbox: Inbox,
        clock: Callable[[], float],
        *,
        messages: bool = False,
        keep: Keep | None = None,
        explain: Callable[[ConnectionClosed], ConnectionClosed | None] | None = None,
    ) -> None:
        # All output where a snapshot is kept: what that calls answered leaves with the write it is stored for.
        super().__init__(connection, inbox, clock, whole_writes=keep is not None, messages=messages)
        self._keep = keep
        self._explain = explain
        # ``take`` gave nothing although there may be something.
        self.owes_turn = False
        self._writer = self.waiter()

    # ── What a binding overrides ────────────────────────────────────────────────────────────────────────────────────

    def waiter(self) -> WaiterT:
        """One who waits."""
        raise NotImplementedError

    async def give_way(self) -> None:
        """It is the turn of others."""

    async def send(self, data: bytes) -> None:
        """Write all of it. What it raises ends what can be sent."""
        raise NotImplementedError

    async def result(self, work: Callable[[], object]) -> object:
        """What the owner's code returns, and where that is awaitable, what comes of it."""
        found = work()
        return await found if isinstance(found, Awaitable) else found

    def working(self) -> AbstractContextManager[object]:
        """Around what ends with the connection, and with nothing else."""
        return nullcontext()

    def locked(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something that must not meet another call into the core: with threads, under the lock."""
        return work(*args, **kwargs)

    def pumped(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make an intent, then pump."""
        try:
            return intent(*args, **kwargs)
        finally:
            self.pump()

    def take(self, channel: Channel) -> Event | None:
        """The next event of a queue, or None when there is none now."""
        event = channel.take()
        if self.paused:
            self.refresh()
        return event

    def leave(self, channel: Channel) -> None:
        """A consumer has left. Safe in a finalizer."""
        self.detach(channel)

    async def last_words(self) -> None:
        """The connection went away: wait, for a bounded time, for what ``explain`` needs."""

    async def serve(self, event: RequestReceived, work: Callable[[], object]) -> object:
        """The owner's code that serves a request, as it is run here."""
        return await self.result(work)

    def start(
        self, work: Callable[[], Coroutine[object, object, None]], name: str, serves: str | None = None
    ) -> object:
        """Run something beside everything else. ``serves`` is the id of a request: what ends that cancels this, where
        it can be cancelled.

        Raises:
            RuntimeError: nothing more can be run.
        """
        raise NotImplementedError

    # ── Calls into the core ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> float:
        """The time on the clock, in seconds."""
        return self._clock()

    def call(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make an intent, then pump.

        Raises:
            ConnectionClosed: the connection went away; AgentExited when the agent's process has ended. After this
                side's own close it is the LocalProtocolError of the core.
        """
        try:
            return self.pumped(intent, *args, **kwargs)
        except LocalProtocolError as why:
            error = self.refusal(why)
            if error is why:
                raise
            raise self.explained(error) from why

    def end(self, reason: str | None = None) -> None:
        """This side ends the connection: in order, or with a reason at once. Everything settles before this returns."""
        if self.connection.state != OVER:
            self.closing = True
        if reason is None:
            self.pumped(self.connection.close)
        else:
            self.pumped(self.connection.abort, reason)

    def explained(self, error: Exception) -> Exception:
        """The error to raise for one of the core: of a connection that went away one that knows why."""
        if isinstance(error, ConnectionClosed) and self._explain is not None and not self.closing:
            return self._explain(error) or error
        return error

    def quietly(self, intent: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Make an intent whose refusal means that there is nothing left to do."""
        try:
            self.pumped(intent, *args, **kwargs)
        except ACPError:
            pass

    # ── Callers that wait ───────────────────────────────────────────────────────────────────────────────────────────

    async def wait(self, waiter: WaiterT, ready: Callable[[], T | None], *, counts: bool = True) -> T:
        """Wait until ``ready`` gives something; ``waiter`` is notified when it may. It is asked as ``locked`` does.
        ``counts``: for an answer, so reading goes on past the first mark.

        Raises:
            ConsumerTooSlow: what is waited for stands behind more unread input than may be kept.
            ConnectionClosed: there will be no answer.
        """
        wake = waiter.notify
        blocked = False

        def look() -> T | None:
            nonlocal blocked
            if blocked:
                blocked = False
                self.unblock(wake, counts=counts)
            found = ready()
            if found is None and counts and self.connection.state == OVER:
                # Everything has settled by now, and what would have said so was lost in an interrupt.
                raise ConnectionClosed(self.gone, dispatch=SENT_NO_REPLY)
            if found is None:
                self.block(wake, counts=counts)
                blocked = True
            else:
                self.taken(wake)
            return found

        def stop() -> None:
            self.unblock(wake, counts=counts)
            self.taken(wake)

        if self.owes_turn:
            self.owes_turn = False
            await self.give_way()
        try:
            while (found := self.locked(look)) is None:
                await waiter.pause()
            return found
        finally:
            if blocked:
                self.locked(stop)

    async def answer(self, waiter: WaiterT) -> Event:
        """Wait for the end of a request. Raises as ``wait``."""
        return await self.wait(waiter, lambda: waiter.event)

    async def until(self, done: Callable[[], bool], *, counts: bool = True) -> None:
        """Wait until ``done()``, which is asked after every call into the core. As ``wait``."""
        waiter = self.waiter()

        def ready() -> bool | None:
            self.watching.add(waiter.notify)
            return True if done() else None

        try:
            await self.wait(waiter, ready, counts=counts)
        finally:
            self.watching.discard(waiter.notify)

    async def pace(self, stop: Callable[[], bool] | None = None) -> None:
        """Wait while the peer reads too slowly, at most until ``stop``, which is asked as ``until`` does."""
        await self.give_way()
        connection = self.connection
        if connection.output_bytes > PACE_AT:
            await self.until(
                lambda: connection.output_bytes <= PACE_AT or connection.state == OVER or (stop is not None and stop()),
                counts=False,
            )

    async def ask(self, intent: Ask, stop: Callable[[], bool] | None = None) -> object:
        """Send a request and wait for its result; None when ``stop`` said so before, which is asked as ``until`` does.
        Whoever stops, or is interrupted, cancels the request (rule 7).

        Raises:
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: there is no result.
            ConsumerTooSlow: see ``wait``; the request stays open.
        """
        waiter = self.waiter()
        id = self.call(intent, token=waiter)
        try:
            if stop is None:
                await self.answer(waiter)
            else:
                await self.until(lambda: waiter.event is not None or stop())
        except (ConsumerTooSlow, GeneratorExit):
            raise
        except BaseException:
            self.quietly(self.connection.cancel_request, id)
            raise
        event = waiter.event
        if event is None:
            self.quietly(self.connection.cancel_request, id)
            return None
        assert isinstance(event, RequestSettled)
        if event.error is not None:
            await self.fail(event.error)
        return event.result

    async def fail(self, error: Exception) -> NoReturn:
        """Raise an error of the core, with what is known of its cause."""
        if isinstance(error, ConnectionClosed) and not self.closing:
            await self.last_words()
        told = self.explained(error)
        if told is error:
            raise error
        raise told from error

    # ── Code of the owner ───────────────────────────────────────────────────────────────────────────────────────────

    def spawn(
        self,
        event: RequestReceived,
        work: Callable[[], object],
        answer: Callable[[object], None],
        over: Callable[[], object] = nothing,
    ) -> None:
        """Serve a request of the peer beside everything else: ``work`` is the owner's code, ``answer`` makes the intent
        that answers with what came of it, ``over`` is called when no code of the owner runs any more.

        A RequestError is the answer; anything else that is raised is answered -32603 and reported.
        """
        try:
            self.start(partial(self._serve, event, work, answer, over), f"acp {event.method}", event.request_id)
        except RuntimeError as why:
            over()
            self.handler_raised(event, why)

    async def _serve(
        self,
        event: RequestReceived,
        work: Callable[[], object],
        answer: Callable[[object], None],
        over: Callable[[], object],
    ) -> None:
        try:
            try:
                found = await self.serve(event, work)
            finally:
                over()
            self.call(answer, found)
        except Exception as why:
            self.pumped(self.handler_raised, event, why)
        except (SystemExit, KeyboardInterrupt) as why:
            self.pumped(self.handler_raised, event, why)
            raise
        except BaseException:
            # Cancelled from outside, maybe by the handler's own doing: the peer is answered all the same.
            self.pumped(self.handler_raised, event, request_cancelled())
            raise

    def tell(self, event: RequestReceived, work: Callable[[], object], *, lasts: bool = False) -> None:
        """Run the owner's code beside everything else. Nobody is answered; what it raises is reported. ``lasts``: it
        may run for as long as the connection does."""
        try:
            self.start(partial(self._tell, event, work, lasts), f"acp {event.method}")
        except RuntimeError as why:
            self.failed(event, why)

    async def _tell(self, event: RequestReceived, work: Callable[[], object], lasts: bool) -> None:
        try:
            with self.working() if lasts else nullcontext():
                await self.result(work)
        except Exception as why:
            self.locked(self.failed, event, why)
        except (SystemExit, KeyboardInterrupt) as why:
            self.locked(self.failed, event, why)
            raise

    # ── The writer ──────────────────────────────────────────────────────────────────────────────────────────────────

    def write_soon(self) -> bool:
        """As ``Drive``. The writer writes, and no caller: one that is interrupted would leave half a message."""
        self._writer.notify()
        return False

    async def write(self) -> None:
        """Write what there is to write, until the connection is over and nothing is left. For one task or thread."""
        while not self.connection.closed:
            if self.locked(self._idle):
                await self._writer.pause()
            try:
                # Pumped: PromptSent is out before its bytes.
                data, store = self.pumped(self._output)
                if store is not None:
                    await self.result(store)
            except Exception as why:
                if self._keep is None:
                    raise
                self.pumped(self.connection.abort, f"the snapshot was not stored: {why!r}")
                continue
            if data:
                try:
                    await self.send(data)
                except Exception as why:
                    reason = str(getattr(why, "strerror", None) or repr(why))
                    self.pumped(self.connection.send_failed, f"writing failed: {reason}", self.now)
                finally:
                    self.sending = False

    def _idle(self) -> bool:
        return not self.output_waits

    def _output(self) -> tuple[bytes, Callable[[], object] | None]:
        data = self.take_output()
        return data, self._keep(len(data)) if data and self._keep is not None else None
