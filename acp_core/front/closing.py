"""Closing an agent by its plan: each step runs beside everything else, one more walks the plan, and whoever closes
waits."""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from ..closing import AgentClosing
from .link import WaiterT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..client import ClientConnection
    from ..closing import Grace
    from .link import Link

# The closer whose step this task or thread runs.
CLOSING: ContextVar[Closer[Any] | None] = ContextVar("CLOSING", default=None)


class Attempt:
    """One attempt to close, for everybody who waits for it."""

    def __init__(self) -> None:
        self.over = False
        self.error: ExceptionGroup[Exception] | None = None


class Closer(Generic[WaiterT]):
    """Runs the plan of one agent. Nobody who closes walks it, so one who is interrupted leaves it whole.

    Args:
        connection: the agent's.
        link: runs it.
        grace: how long each wait may take.
        end: ends the connection and the process, by the waits of ``grace``.
    """

    def __init__(
        self, connection: ClientConnection, link: Link[WaiterT], grace: Grace, end: Callable[[], object]
    ) -> None:
        self.closing = AgentClosing(connection, grace, self._cancel, end)
        self._connection = connection
        self._link = link
        self._attempt: Attempt | None = None
        self._wake = link.waiter()

    # ── What a binding overrides ────────────────────────────────────────────────────────────────────────────────────

    def start(self, work: Callable[[], Coroutine[object, object, None]], name: str) -> None:
        """Run a part of closing beside everything else, shielded from whatever happens to who closes.

        Raises:
            RuntimeError: nothing more can be run.
        """
        self._link.start(partial(self._shielded, work), name)

    async def over(self, attempt: Attempt) -> None:
        """Wait for the end of an attempt."""
        await self._link.until(lambda: attempt.over, counts=False)

    async def interrupted(self, attempt: Attempt | None) -> None:
        """Who waits is interrupted, or nothing could be begun: kill the agent now. What hangs on it has its time still,
        and is waited for."""
        raise NotImplementedError

    # ── Who closes ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def close(self, cancel: bool) -> None:
        """Take no new turn; begin an attempt or join the one under way, and wait for its end. When everything is
        released, nothing is done. A step that calls it does not wait for its own end. Who begins says whether turns in
        flight are cancelled.

        Raises:
            ExceptionGroup: what failed.
        """
        if CLOSING.get() is self:
            return
        attempt: Attempt | None = None
        try:
            self._link.call(self._connection.refuse_turns)
            attempt = self._link.locked(self._begin, cancel)
            if attempt is None:
                return
            await self.over(attempt)
        except GeneratorExit:
            raise
        except BaseException:
            await self.interrupted(attempt)
            raise
        if attempt.error is not None:
            raise attempt.error

    def _begin(self, cancel: bool) -> Attempt | None:
        if self._attempt is not None and not self._attempt.over:
            return self._attempt
        if self.closing.plan.closed:
            return None
        self.closing.cancels = cancel
        attempt = Attempt()
        try:
            self._attempt = attempt
            self.start(partial(self._walk, attempt), "acp closing")
        except BaseException:
            # Nobody waits for it. A thread may run all the same where a Ctrl-C came behind its start.
            attempt.over = True
            raise
        return attempt

    async def _cancel(self) -> None:
        self._link.call(self.closing.leave_turns)
        await self._link.until(lambda: self.closing.turns_left)

    # ── The plan ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _walk(self, attempt: Attempt) -> None:
        link, closing = self._link, self.closing
        try:
            if link.locked(lambda: attempt.over):
                return
            names = link.locked(closing.begin, link.now)
            while True:
                for name in names:
                    self._start(name)
                deadline = closing.plan.next_deadline()
                if deadline is None:
                    break
                await self._wake.pause(deadline)
                names = closing.go_on(link.now)
            attempt.error = closing.error
        except Exception as why:
            # A defect here must neither pass for success nor leave anybody waiting.
            attempt.error = ExceptionGroup("closing failed", [why])
        finally:
            attempt.over = True
            link.locked(link.pump)

    def _start(self, name: str) -> None:
        try:
            self.start(partial(self._step, name), f"acp closing {name}")
        except RuntimeError as why:
            self._ended(name, why)

    async def _step(self, name: str) -> None:
        CLOSING.set(self)
        error: Exception | None = TimeoutError(f"closing step {name!r} was cancelled: the connection was left")
        try:
            with self._link.working():
                await self._link.result(self.closing.steps[name])
                error = None
        except Exception as why:
            error = why
        except BaseException as why:
            error = RuntimeError(f"closing step {name!r} was ended by {why!r}")
            raise
        finally:
            self._ended(name, error)

    async def _shielded(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        with self._link.working():
            await work()

    def _ended(self, name: str, error: Exception | None) -> None:
        self.closing.ended(name, error)
        self._link.locked(self._wake.notify)
