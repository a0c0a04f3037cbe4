"""Closing on an event loop: each step of the plan is a task, one more drives it, and whoever closes waits."""

from __future__ import annotations

import inspect
from collections import deque
from typing import TYPE_CHECKING

import anyio

from acp_core import ClosingPlan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import TaskGroup

CANCEL = "cancel"
AGENT = "agent"


class Attempt:
    """One attempt to close, with everybody who waits for it."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: ExceptionGroup[Exception] | None = None


class Closer:
    """Runs a plan of functions, plain or async, in the connection's task group.

    Its tasks are shielded: who closes may be cancelled, what is being released is not. ``stop`` cancels what still
    runs.
    """

    def __init__(self) -> None:
        self.plan = ClosingPlan()
        self._steps: dict[str, Callable[[], object] | Callable[[], Awaitable[object]]] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._ended: deque[tuple[str, Exception | None]] = deque()
        self._wake = anyio.Event()
        self._attempt: Attempt | None = None

    def add(
        self,
        step: Callable[[], object] | Callable[[], Awaitable[object]],
        name: str,
        *,
        after: Sequence[str] = (),
        needs: str = "settled",
        within: float = 2.0,
        best_effort: bool = False,
    ) -> None:
        """Add a step. Raises as ``ClosingPlan.add``."""
        if not callable(step):
            raise TypeError(f"step must be callable, not {type(step).__name__}")
        self.plan.add(name, after=after, needs=needs, within=within, best_effort=best_effort)
        self._steps[name] = step

    def attempt(self, tasks: TaskGroup) -> Attempt | None:
        """Begin an attempt in ``tasks``, or join the one under way. None when everything is released."""
        attempt = self._attempt
        if attempt is not None and not attempt.over.is_set():
            return attempt
        while self._ended:
            # Steps that ran past their bounds have ended since the last attempt.
            name, error = self._ended.popleft()
            self.plan.finished(name, anyio.current_time(), error)
        if self.plan.closed:
            return None
        attempt = self._attempt = Attempt()
        names = self.plan.begin(anyio.current_time())
        tasks.start_soon(self._drive, tasks, attempt, names, name="acp closing")
        return attempt

    def stop(self) -> None:
        """Cancel the steps that still run: their connection's block is left."""
        for scope in self._scopes.values():
            scope.cancel()

    async def _drive(self, tasks: TaskGroup, attempt: Attempt, names: list[str]) -> None:
        plan = self.plan
        with anyio.CancelScope(shield=True):
            while True:
                for name in names:
                    tasks.start_soon(self._run, name, name=f"acp closing {name}")
                deadline = plan.next_deadline()
                if deadline is None:
                    break
                if not self._ended:
                    self._wake = anyio.Event()
                    with anyio.CancelScope(deadline=deadline):
                        await self._wake.wait()
                if self._ended:
                    name, error = self._ended.popleft()
                    names = plan.finished(name, anyio.current_time(), error)
                else:
                    names = plan.handle_timeout(anyio.current_time())
        attempt.error = plan.error
        attempt.over.set()

    async def _run(self, name: str) -> None:
        error: Exception | None = TimeoutError(f"closing step {name!r} was cancelled: its connection was left")
        scope = self._scopes[name] = anyio.CancelScope(shield=True)
        with scope:
            try:
                found = self._steps[name]()
                if inspect.isawaitable(found):
                    await found
                error = None
            except Exception as why:
                error = why
        del self._scopes[name]
        self._ended.append((name, error))
        self._wake.set()
