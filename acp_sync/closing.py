"""Closing with threads: each step of the plan has one, one more drives the plan, and whoever calls ``close`` waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from acp_core.closing import AgentClosing
from acp_core.state import STEP_OVERDUE

from .connection import SLICE, WAITING, Driver, finish, join

if TYPE_CHECKING:
    from acp_core import ClientConnection, Grace

    from .process import Process


class Attempt:
    """One attempt to close, for everybody who waits for it."""

    def __init__(self, drive: Callable[[Attempt], None]) -> None:
        self.over = threading.Event()
        self.error: ExceptionGroup[Exception] | None = None
        self.thread = threading.Thread(target=drive, args=(self,), name="acp closing", daemon=True)


class Closer:
    """Runs the plan of one agent. No caller walks it, so a Ctrl-C in one of them leaves it whole."""

    def __init__(self, connection: ClientConnection, driver: Driver, process: Process | None, grace: Grace) -> None:
        self.closing = AgentClosing(connection, grace, self._cancel, self._end)
        self.lock = threading.Lock()
        self._connection = connection
        self._driver = driver
        self._process = process
        self._attempt: Attempt | None = None
        self._wake = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._inside: set[threading.Thread] = set()

    async def close(self, cancel: bool) -> None:
        """Take no new turn; begin an attempt or join the one under way, and wait for its end. When everything is
        released, nothing is done. A step that calls it does not wait for its own end. Who begins says whether turns in
        flight are cancelled.

        Raises:
            ExceptionGroup: what failed.
        """
        me = threading.current_thread()
        if me in self._inside:
            return
        attempt: Attempt | None = None
        WAITING.add(me)
        try:
            self._driver.call(self._connection.refuse_turns)
            attempt = self._begin(cancel)
            while attempt is not None and not attempt.over.wait(SLICE):
                pass
        except BaseException:
            # Interrupted: the agent goes now, and what hangs on it has its time still.
            self._cut()
            if attempt is not None:
                attempt.over.wait(self.closing.plan.bound)
            raise
        finally:
            WAITING.discard(me)
        if attempt is not None:
            join(attempt.thread)
            if attempt.error is not None:
                raise attempt.error

    # ── What is done ────────────────────────────────────────────────────────────────────────────────────────────────

    def _cancel(self) -> None:
        self._driver.call(self.closing.leave_turns)
        finish(self._driver.until(lambda: self.closing.turns_left))

    def _end(self) -> None:
        driver = self._driver
        try:
            driver.closing = True
            driver.call(self._connection.close)
            driver.flush(self.closing.grace.write)
            close_output: Callable[[], None] | None = getattr(driver.transport, "close_output", None)
            if close_output is not None:
                close_output()
            if self._process is not None:
                self._process.end()
        finally:
            driver.stop()

    def _cut(self) -> None:
        self._driver.closing = True
        self._driver.call(self._connection.abort, "its close was interrupted")
        if self._process is not None:
            self._process.kill()
        self._driver.stop()

    # ── How it is run ───────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, cancel: bool) -> Attempt | None:
        with self.lock:
            if self._attempt is not None and not self._attempt.over.is_set():
                return self._attempt
            if self.closing.plan.closed:
                return None
            self.closing.cancels = cancel
            attempt = self._attempt = Attempt(self._drive)
            try:
                attempt.thread.start()
            except BaseException:
                attempt.over.set()
                raise
            return attempt

    def _drive(self, attempt: Attempt) -> None:
        closing, plan = self.closing, self.closing.plan
        try:
            with self.lock:
                names = closing.begin(monotonic())
            while True:
                for name in names:
                    self._start(name)
                deadline = plan.next_deadline()
                if deadline is None:
                    break
                self._wake.wait(max(0.0, deadline - monotonic()))
                self._wake.clear()
                names = closing.go_on(monotonic())
            for name, thread in self._threads.items():
                if plan.states[name] != STEP_OVERDUE:
                    join(thread)
            attempt.error = closing.error
        except Exception as why:
            # A defect here must neither pass for success nor leave anybody waiting.
            attempt.error = ExceptionGroup("closing failed", [why])
        finally:
            attempt.over.set()

    def _start(self, name: str) -> None:
        thread = threading.Thread(target=self._run, args=(name,), name=f"acp closing {name}", daemon=True)
        self._threads[name] = thread
        try:
            thread.start()
        except RuntimeError as why:
            del self._threads[name]
            self._ended(name, why)

    def _run(self, name: str) -> None:
        error: Exception | None = None
        me = threading.current_thread()
        self._inside.add(me)
        try:
            self.closing.steps[name]()
        except Exception as why:
            error = why
        except BaseException as why:
            error = RuntimeError(f"closing step {name!r} was ended by {why!r}")
        self._inside.discard(me)
        self._ended(name, error)

    def _ended(self, name: str, error: Exception | None) -> None:
        self.closing.ended(name, error)
        self._wake.set()
