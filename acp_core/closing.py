"""Closing as a plan: named steps that wait for one another, every wait bounded, retryable, joined by concurrent callers.

Pure: the owner runs what ``begin`` and ``finished`` tell it to start, says how each step ended, and passes time in.
"""

from __future__ import annotations

from .errors import check_type, clip, local
from .state import (
    CLOSE_STEP,
    STEP_DONE,
    STEP_FAILED,
    STEP_KEPT,
    STEP_OVERDUE,
    STEP_RUNNING,
    STEP_WAITING,
    move,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SETTLED = "settled"
SUCCESS = "success"


class StepTimeout(TimeoutError):
    """A step of a closing plan did not settle within its bound. It still runs; a retry waits for it."""


class Step:
    """One step. ``after`` are the names of the steps it waits for, ``needs`` whether these must have settled or
    succeeded, ``within`` its bound in seconds, ``retried`` whether a failure leaves it for the next attempt."""

    __slots__ = ("after", "deadline", "error", "late", "name", "needs", "retried", "state", "within")

    def __init__(self, name: str, after: tuple[str, ...], needs: str, within: float, retried: bool) -> None:
        self.name = name
        self.after = after
        self.needs = needs
        self.within = within
        self.retried = retried
        self.state = STEP_WAITING
        self.deadline: float | None = None
        self.error: Exception | None = None
        # It ran past its bound in an earlier attempt and has not been heard of since.
        self.late = False

    @property
    def settled(self) -> bool:
        """In this attempt it is not waited for any more."""
        return self.state not in (STEP_WAITING, STEP_RUNNING)


class ClosingPlan:
    """A plan of named steps for one resource, attempted until everything in it is released.

    An attempt starts with ``begin`` and is over when ``attempting`` is false; then ``error`` has its failures, all in
    one flat ExceptionGroup in the order of the steps, or None. A second ``begin`` runs only what is left: a step that
    succeeded never runs again, and one that ran past its bound is waited for, not started twice.
    """

    __slots__ = ("_attempting", "_begun", "_steps", "error")

    def __init__(self) -> None:
        self._steps: dict[str, Step] = {}
        self._attempting = False
        self._begun = False
        self.error: ExceptionGroup[Exception] | None = None

    # ── Getters ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def begun(self) -> bool:
        """``begin`` was called: from here on new work is refused, also if an attempt fails."""
        return self._begun

    @property
    def attempting(self) -> bool:
        """An attempt is under way; another caller joins it."""
        return self._attempting

    @property
    def closed(self) -> bool:
        """Everything is released: another attempt has nothing to run."""
        return (
            self._begun
            and not self._attempting
            and all(step.state == STEP_DONE or (step.state == STEP_FAILED and not step.retried) for step in self)
        )

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps.values())

    def state(self, name: str) -> str:
        """``waiting``, ``running``, ``done``, ``failed``, ``overdue`` (past its bound, still running) or ``kept``."""
        return self._step(name).state

    def next_deadline(self) -> float | None:
        """When ``handle_timeout`` is next of use, in seconds on the caller's clock; None for never."""
        return min(
            (step.deadline for step in self if step.state == STEP_RUNNING and step.deadline is not None), default=None
        )

    # ── Intents ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(
        self, name: str, *, after: Sequence[str] = (), needs: str = SETTLED, within: float = 2.0, retried: bool = True
    ) -> None:
        """Add a step. Steps that it waits for must have been added before, so a plan has no cycle.

        ``needs="success"`` keeps what the step releases until the others have succeeded: a credential, a lock.
        ``retried=False`` is for a step that is tried once an attempt and whose failure leaves nothing behind.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the name is taken, a step it waits for is unknown, or closing has begun.
        """
        check_type("name", name, str, "a str")
        if isinstance(after, str):
            raise TypeError("after must be a list of step names, not one str")
        if self._begun:
            local("closing.begun", f"closing has begun: step {clip(name)} cannot be added any more")
        if not name or name in self._steps:
            local("closing.name", f"step name {clip(name)} is empty or taken")
        if needs not in (SETTLED, SUCCESS):
            local("closing.needs", f'needs is {clip(needs)}; it is "settled" or "success"')
        if not 0 < within < float("inf"):
            local(
                "closing.within", f"within is {clip(within)}; give a positive number of seconds: every wait is bounded"
            )
        for other in after:
            if other not in self._steps:
                local("closing.after", f"step {clip(name)} waits for {clip(other)}, which was not added before")
        self._steps[name] = Step(name, tuple(after), needs, within, retried)

    def begin(self, now: float) -> list[str]:
        """Start an attempt, or join the one under way. Returns the steps to start now, in order.

        Raises:
            TypeError: ``now`` is no number.
        """
        self._begun = True
        if self._attempting:
            return []
        self._attempting = True
        self.error = None
        for step in self:
            if step.state == STEP_OVERDUE:
                step.late = True
                step.state = move(CLOSE_STEP, step.state, "wait_again")
                step.deadline = now + step.within
            elif step.state == STEP_KEPT or (step.state == STEP_FAILED and step.retried):
                step.state = move(CLOSE_STEP, step.state, "retry")
            if step.state != STEP_FAILED:
                step.error = None
        return self._go_on(now)

    def finished(self, name: str, now: float, error: Exception | None = None) -> list[str]:
        """A started step has ended, with ``error`` if it failed. Returns the steps to start now, in order.

        The late end of a step that ran past its bound is taken quietly: a success counts for the next attempt.

        Raises:
            LocalProtocolError: the step is unknown or not running.
        """
        step = self._step(name)
        if step.state not in (STEP_RUNNING, STEP_OVERDUE):
            local("closing.finished", f"step {clip(name)} is {step.state}: it cannot end now")
        step.state = move(CLOSE_STEP, step.state, "succeed" if error is None else "fail")
        step.deadline = None
        step.late = False
        if self._attempting:
            # An end that comes late in the same attempt does not undo that the bound was passed.
            step.error = step.error if step.error is not None else error
        return self._go_on(now) if self._attempting else []

    def handle_timeout(self, now: float) -> list[str]:
        """Time has passed. Returns the steps to start now, in order. Early calls are no-ops."""
        for step in self:
            if step.state == STEP_RUNNING and step.deadline is not None and step.deadline <= now:
                step.state = move(CLOSE_STEP, step.state, "overdue")
                step.error = StepTimeout(f"closing step {step.name!r} did not settle within {step.within:g} s")
        return self._go_on(now) if self._attempting else []

    # ── The engine ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _go_on(self, now: float) -> list[str]:
        started: list[str] = []
        for step in self:
            if step.state != STEP_WAITING:
                continue
            others = [self._steps[name] for name in step.after]
            if not all(other.settled for other in others):
                continue
            if step.needs == SUCCESS and not all(other.state == STEP_DONE for other in others):
                step.state = move(CLOSE_STEP, step.state, "keep")
                continue
            step.state = move(CLOSE_STEP, step.state, "start")
            step.deadline = now + step.within
            started.append(step.name)
        if not started and all(step.settled for step in self):
            self._attempting = False
            errors = [step.error for step in self if step.error is not None]
            self.error = ExceptionGroup("closing failed", errors) if errors else None
            for step in self:
                step.error = None
        return started

    def _step(self, name: str) -> Step:
        step = self._steps.get(name)
        if step is None:
            local("closing.step", f"no step {clip(name)}; the plan has {clip(list(self._steps))}")
        return step
