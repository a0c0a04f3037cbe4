"""The loop around a connection with callers that wait, as the fronts want it.

What waits is a coroutine, and awaits nothing but ``Link.wait`` of the binding. On an event loop that suspends. With
threads it blocks, so that such a coroutine ends in one step, whoever takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, TypeVar

from ..drive import PACE_AT, Drive
from ..errors import ACPError, ConnectionClosed, ConsumerTooSlow, LocalProtocolError
from ..events import RequestSettled
from ..state import OVER

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..events import Event, RequestReceived
    from ..inbox import Channel

    class Waiter(Protocol):
        """Who waits for a request to settle. ``event`` is what has settled it, None before; ``notify`` wakes."""

        event: Event | None

        def settle(self, event: Event, /) -> None: ...
        def notify(self) -> None: ...

    class Ask(Protocol):
        """An intent that sends a request: it is given the token, and returns the request's id."""

        def __call__(self, *, token: object) -> int: ...


P = ParamSpec("P")
T = TypeVar("T")
WaiterT = TypeVar("WaiterT", bound="Waiter")


def nothing() -> None:
    """What ``over`` is when nobody wants to know."""


class Link(Drive, Generic[WaiterT]):
    """A core connection, what moves its bytes, and how a caller waits. The base of a binding's own."""

    # ── What a binding overrides ────────────────────────────────────────────────────────────────────────────────────

    def waiter(self) -> WaiterT:
        """One who waits."""
        raise NotImplementedError

    async def wait(self, waiter: WaiterT, ready: Callable[[], T | None], *, counts: bool = True) -> T:
        """Wait until ``ready`` gives something; ``waiter`` is notified when it may. With threads it is asked with the
        lock held. ``counts``: for an answer, so reading goes on past the first mark.

        Raises:
            ConsumerTooSlow: what is waited for stands behind more unread input than may be kept.
        """
        raise NotImplementedError

    def locked(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make an intent, then pump; with threads, under the lock."""
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

    def explained(self, error: Exception) -> Exception:
        """The error to raise for one of the core: of a connection that went away one that knows why."""
        return error

    async def last_words(self) -> None:
        """The connection went away: wait, for a bounded time, for what ``explained`` needs."""

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
        raise NotImplementedError

    def tell(self, event: RequestReceived, work: Callable[[], object]) -> None:
        """Run the owner's code beside everything else. Nobody is answered; what it raises is reported."""
        raise NotImplementedError

    # ── Calls into the core ─────────────────────────────────────────────────────────────────────────────────────────

    def call(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make an intent, then pump.

        Raises:
            ConnectionClosed: the connection went away; AgentExited when the agent's process has ended. After this
                side's own close it is the LocalProtocolError of the core.
        """
        try:
            return self.locked(intent, *args, **kwargs)
        except LocalProtocolError as why:
            error = self.refusal(why)
            if error is why:
                raise
            raise self.explained(error) from why

    def quietly(self, intent: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Make an intent whose refusal means that there is nothing left to do."""
        try:
            self.locked(intent, *args, **kwargs)
        except ACPError:
            pass

    # ── Callers that wait ───────────────────────────────────────────────────────────────────────────────────────────

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
        raise told from (error if told is not error else None)
