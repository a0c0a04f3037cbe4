"""Closing on an event loop: each step of the plan is a task, one more drives it, and whoever closes waits."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

import anyio

from acp_core.closing import AgentClosing

from .connection import HANDLING, Waiter

if TYPE_CHECKING:
    from acp_core import ClientConnection, Grace

    from .connection import Link

# The closer whose step this task runs.
CLOSING: ContextVar[Closer | None] = ContextVar("CLOSING", default=None)


class Attempt:
    """One attempt to close, for everybody who waits for it."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: ExceptionGroup[Exception] | None = None


class Closer:
    """Runs the plan of one agent in its connection's tasks. They are shielded: who closes may be cancelled, what is
    being released is not. When the connection's block is left, steps that still run are cancelled."""

    def __init__(self, connection: ClientConnection, link: Link, grace: Grace) -> None:
        self.closing = AgentClosing(connection, grace, self._cancel, link.aclose)
        # All of it runs on one loop.
        self.lock = nullcontext()
        self._connection = connection
        self._link = link
        self._attempt: Attempt | None = None
        self._wake = Waiter()

    async def close(self, cancel: bool) -> None:
        """Take no new turn; begin an attempt or join the one under way, and wait for its end. When everything is
        released, nothing is done. A step that calls it does not wait for its own end. Who begins says whether turns in
        flight are cancelled.

        Raises:
            ExceptionGroup: what failed.
        """
        if CLOSING.get() is self:
            return
        self._connection.refuse_turns()
        attempt = self._attempt
        if attempt is None or attempt.over.is_set():
            if self.closing.plan.closed:
                return
            self.closing.cancels = cancel
            begun = Attempt()
            self._link.start_soon(lambda: self._drive(begun))
            attempt = self._attempt = begun
        try:
            await attempt.over.wait()
        except anyio.get_cancelled_exc_class():
            handling = HANDLING.get()
            if handling is None or not handling.cancel_called:
                # The agent goes now, and what hangs on it has its time still. (A handler that closes is cancelled by
                # that itself.)
                self._link.cut("its close was cancelled")
                with anyio.CancelScope(shield=True):
                    await attempt.over.wait()
            raise
        if attempt.error is not None:
            raise attempt.error

    async def _cancel(self) -> None:
        self._link.call(self.closing.leave_turns)
        await self._link.until(lambda: self.closing.turns_left)

    async def _drive(self, attempt: Attempt) -> None:
        closing = self.closing
        with self._link.working():
            try:
                names = closing.begin(anyio.current_time())
                while True:
                    for name in names:
                        self._link.start_soon(partial(self._run, name))
                    deadline = closing.plan.next_deadline()
                    if deadline is None:
                        break
                    with anyio.CancelScope(deadline=deadline):
                        await self._wake.pause()
                    names = closing.go_on(anyio.current_time())
                attempt.error = closing.error
            except Exception as why:
                # A defect here must not pass for success.
                attempt.error = ExceptionGroup("closing failed", [why])
            finally:
                attempt.over.set()

    async def _run(self, name: str) -> None:
        CLOSING.set(self)
        error: Exception | None = TimeoutError(f"closing step {name!r} was cancelled: the connection was left")
        with self._link.working():
            try:
                found = self.closing.steps[name]()
                if inspect.isawaitable(found):
                    await found
                error = None
            except Exception as why:
                error = why
        self.closing.ended(name, error)
        self._wake.notify()
