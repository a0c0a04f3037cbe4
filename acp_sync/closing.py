"""Closing with threads: each step of the plan has one, one more drives the plan, and whoever calls ``close`` waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from time import monotonic

from acp_core import ClosingPlan

CANCEL = "cancel"
AGENT = "agent"


class Attempt:
    """One attempt to close, with everybody who waits for it."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.error: ExceptionGroup[Exception] | None = None


class Closer:
    """Runs a plan of plain functions. No caller touches the plan, so a Ctrl-C in one of them leaves it whole."""

    def __init__(self) -> None:
        self.plan = ClosingPlan()
        self._steps: dict[str, Callable[[], object]] = {}
        self._ended: queue.SimpleQueue[tuple[str, Exception | None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._attempt: Attempt | None = None
        self._threads: set[threading.Thread] = set()

    def add(
        self,
        step: Callable[[], object],
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
        with self._lock:
            self.plan.add(name, after=after, needs=needs, within=within, best_effort=best_effort)
            self._steps[name] = step

    @property
    def inside(self) -> bool:
        """The caller runs in a step: it must not wait for its own end."""
        return threading.current_thread() in self._threads

    def attempt(self) -> Attempt | None:
        """Begin an attempt, or join the one under way. None when everything is released.

        Raises:
            RuntimeError: no thread can be started any more.
        """
        with self._lock:
            attempt = self._attempt
            if attempt is not None and not attempt.over.is_set():
                return attempt
            self._take_late_ends()
            if self.plan.closed:
                return None
            attempt = Attempt()
            self._start(lambda: self._drive(attempt), "acp closing")
            self._attempt = attempt
            return attempt

    def _take_late_ends(self) -> None:
        """Steps that ran past their bounds may have ended since the last attempt."""
        while not self._ended.empty():
            name, error = self._ended.get()
            self.plan.finished(name, monotonic(), error)

    def _drive(self, attempt: Attempt) -> None:
        plan = self.plan
        try:
            names = plan.begin(monotonic())
            while True:
                for name in names:
                    self._start_step(name)
                deadline = plan.next_deadline()
                if deadline is None:
                    break
                try:
                    name, error = self._ended.get(timeout=max(0.0, deadline - monotonic()))
                except queue.Empty:
                    names = plan.handle_timeout(monotonic())
                else:
                    names = plan.finished(name, monotonic(), error)
            attempt.error = plan.error
        except Exception as why:
            # A defect here must not leave anybody waiting.
            attempt.error = ExceptionGroup("closing failed", [why])
        finally:
            attempt.over.set()

    def _start_step(self, name: str) -> None:
        try:
            self._start(lambda: self._run(name), f"acp closing {name}")
        except RuntimeError as why:
            self._ended.put((name, why))

    def _run(self, name: str) -> None:
        error: Exception | None = None
        try:
            self._steps[name]()
        except Exception as why:
            error = why
        except BaseException as why:
            error = RuntimeError(f"closing step {name!r} was ended by {why!r}")
            error.__cause__ = why
        self._ended.put((name, error))

    def _start(self, work: Callable[[], None], name: str) -> None:
        def body() -> None:
            try:
                work()
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=body, name=name, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._threads.discard(thread)
            raise
