"""Closing as a plan: named steps that wait for one another, every wait bounded, retryable, joined by who calls again.

Pure: the owner starts what ``begin``, ``finished`` and ``handle_timeout`` return, says how each step ended, and passes
time in. What is promised, and for how long each wait is, stands in docs/closing.md.
"""

from __future__ import annotations

from .errors import END_OF_TIME, LocalProtocolError, check_duration, check_number, check_type, clip, local
from .state import (
    CLOSE_STEP,
    STEP_DONE,
    STEP_OVERDUE,
    STEP_RUNNING,
    STEP_WAITING,
    move,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Final

    from .client import ClientConnection
    from .options import StepNeeds

SETTLED: Final = "settled"
SUCCESS: Final = "success"
# The steps that closing an agent has by itself.
CANCEL = "cancel"
AGENT = "agent"


class StepTimeout(TimeoutError):
    """A step of a closing plan did not end within its bound. It runs on; a retry waits for it.

    ``step`` is its name, ``within`` the bound in seconds.
    """

    step: str
    within: float

    def __init__(self, step: str, within: float) -> None:
        super().__init__(f"closing step {step!r} did not end within {within:g} s; it ran on")
        self.step = step
        self.within = within


class Grace:
    """How long each wait of closing an agent may take, in seconds. The bindings take it as ``close_grace``.

    Args:
        cancel: for the results of the turns that are cancelled.
        write: for what is left to be written.
        exit: for the process to go by itself, once its input has ended.
        terminate: for the same after its group was asked to terminate (SIGTERM).
        kill: for the end of what was killed (SIGKILL), until it is reaped.
        drain: for the last words of a process that is gone, since another one may hold its output open; and for the
            rest of its group to go, once that was killed.

    Raises:
        TypeError: an argument is no number.
        LocalProtocolError: an argument is not positive.
    """

    __slots__ = ("cancel", "drain", "exit", "kill", "terminate", "write")

    cancel: float
    write: float
    exit: float
    terminate: float
    kill: float
    drain: float

    def __init__(
        self,
        *,
        cancel: float = 2.0,
        write: float = 2.0,
        exit: float = 2.0,
        terminate: float = 2.0,
        kill: float = 5.0,
        drain: float = 1.0,
    ) -> None:
        waits = {"cancel": cancel, "write": write, "exit": exit, "terminate": terminate, "kill": kill, "drain": drain}
        for name, seconds in waits.items():
            check_duration(name, seconds, "closing.grace")
            setattr(self, name, float(seconds))

    @classmethod
    def of(cls, grace: Grace | float) -> Grace:
        """A number of seconds for each of the waits, or a Grace as it is.

        Raises: as Grace.
        """
        if isinstance(grace, Grace):
            return grace
        return cls(cancel=grace, write=grace, exit=grace, terminate=grace, kill=grace, drain=grace)

    @property
    def total(self) -> float:
        """All of it: the longest that ending the agent takes, its turns included."""
        return self.cancel + self.write + self.exit + self.terminate + self.kill + self.drain

    @property
    def ladder(self) -> tuple[tuple[float, str], ...]:
        """How a process is ended whose input has ended: wait so long, then send this signal; after the last nothing is
        left to send."""
        return (self.exit, "SIGTERM"), (self.terminate, "SIGKILL"), (self.kill, "")


class _Step:
    """``error`` is what this attempt has against it; what comes after that is not asked for any more."""

    __slots__ = ("after", "best_effort", "deadline", "error", "name", "needs", "state", "within")

    def __init__(self, name: str, after: tuple[_Step, ...], needs: str, within: float, best_effort: bool) -> None:
        self.name = name
        self.after = after
        self.needs = needs
        self.within = within
        self.best_effort = best_effort
        self.state = STEP_WAITING
        self.deadline: float | None = None
        self.error: Exception | None = None

    @property
    def settled(self) -> bool:
        """In this attempt it is not waited for any more."""
        return self.state not in (STEP_WAITING, STEP_RUNNING)

    @property
    def released(self) -> bool:
        """It asks for no further attempt."""
        return self.best_effort or self.state == STEP_DONE


class ClosingPlan:
    """A plan of named steps for one resource, attempted until everything in it is released.

    An attempt starts with ``begin`` and is over when ``attempting`` is false. Then ``error`` has its failures, all in
    one flat ExceptionGroup in the order of the steps, or None. The next ``begin`` runs only what is left: a step that
    succeeded never runs again, and one that ran past its bound is waited for, not started twice.

    ``max_steps`` bounds the plan: each step may be one of the owner's resources.

    Raises:
        TypeError: ``max_steps`` is no int.
        LocalProtocolError: it is not positive.
    """

    __slots__ = ("_attempting", "_attempts", "_error", "_failures", "_max_steps", "_now", "_steps")

    def __init__(self, *, max_steps: int = 256) -> None:
        check_type("max_steps", max_steps, int, "an int")
        if max_steps <= 0:
            local("closing.max_steps", f"max_steps is {max_steps}; give a positive number of steps")
        self._steps: dict[str, _Step] = {}
        self._max_steps = max_steps
        self._now = 0.0
        self._attempting = False
        self._attempts = 0
        self._failures: dict[str, Exception] = {}
        self._error: ExceptionGroup[Exception] | None = None

    # ── Getters ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def begun(self) -> bool:
        """``begin`` was called: from here on new work is refused, also if an attempt fails."""
        return self._attempts > 0

    @property
    def attempting(self) -> bool:
        """An attempt is under way; another caller joins it."""
        return self._attempting

    @property
    def attempts(self) -> int:
        """How many attempts have begun: the number of the present one, or of the last."""
        return self._attempts

    @property
    def closed(self) -> bool:
        """Everything is released: another attempt has nothing to run. The last one may have had an ``error`` still."""
        return self.begun and not self._attempting and all(step.released for step in self._steps.values())

    @property
    def error(self) -> ExceptionGroup[Exception] | None:
        """What failed in the last attempt, flat and in the order of the steps, each with its step's name as a note;
        None while one is under way."""
        return self._error

    @property
    def failures(self) -> dict[str, Exception]:
        """The same by the name of the step, as each was reported."""
        return {**self._failures}

    @property
    def states(self) -> dict[str, str]:
        """Each step, in order: ``waiting``, ``running``, ``done``, ``failed``, ``overdue`` (past its bound, still
        running) or ``kept`` (what it needs did not succeed)."""
        return {step.name: step.state for step in self._steps.values()}

    @property
    def bound(self) -> float:
        """The longest that one attempt can take, in seconds."""
        ends: dict[str, float] = {}
        for step in self._steps.values():
            ends[step.name] = step.within + max((ends[other.name] for other in step.after), default=0.0)
        return max(ends.values(), default=0.0)

    def next_deadline(self) -> float | None:
        """When ``handle_timeout`` is next of use, in seconds on the caller's clock; None when no attempt is under
        way."""
        return min((step.deadline for step in self._running() if step.deadline is not None), default=None)

    # ── Intents ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(
        self,
        name: str,
        *,
        after: str | Sequence[str] = (),
        needs: StepNeeds = SETTLED,
        within: float = 2.0,
        best_effort: bool = False,
    ) -> None:
        """Add a step. Steps that it waits for must have been added before, so a plan has no cycle.

        Args:
            name: its name, none that the plan has already.
            after: the name of the step that it waits for, or several.
            needs: ``"settled"``: they have ended in any way or are past their bounds. ``"success"``: they have
                succeeded; else the step is kept for a later attempt. That is for a credential, a lock.
            within: its bound in seconds; when it is past, the plan goes on without it.
            best_effort: its failure is reported and leaves nothing behind that would need another attempt. It runs
                again only together with others.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: closing has begun, the name is empty or taken, a step it waits for is unknown, the bound
                is none, or the plan is full.
        """
        check_type("name", name, str, "a str")
        check_type("best_effort", best_effort, bool, "a bool")
        if isinstance(after, bytes):
            raise TypeError("after must be a step's name or a sequence of them, not bytes")
        check_duration("within", within, "closing.within")
        if self.begun:
            local("closing.begun", f"closing has begun: step {clip(name)} cannot be added any more")
        if not name or name in self._steps:
            local("closing.name", f"step name {clip(name)} is empty or taken")
        if needs not in (SETTLED, SUCCESS):
            local("closing.needs", f'needs is {clip(needs)}; it is "settled" or "success"')
        if len(self._steps) >= self._max_steps:
            local("closing.max_steps", f"the plan has {self._max_steps} steps already, and that is its bound")
        names = (after,) if isinstance(after, str) else after
        others = tuple(self._step(other, f"step {clip(name)} waits for") for other in names)
        self._steps[name] = _Step(name, others, needs, within, best_effort)

    def begin(self, now: float) -> list[str]:
        """Start an attempt, or join the one under way. Returns the steps to start now, in order.

        When everything is released already, the attempt is over at once and without an error.

        Raises:
            TypeError: ``now`` is no number.
        """
        self._clock(now)
        if self._attempting:
            return []
        released = self.closed
        self._attempts += 1
        self._failures = {}
        self._error = None
        if released:
            return []
        self._attempting = True
        for step in self._steps.values():
            if step.state == STEP_OVERDUE:
                self._run(step, "wait_again")
            elif step.state not in (STEP_WAITING, STEP_DONE):
                step.state = move(CLOSE_STEP, step.state, "retry")
        return self._go_on()

    def finished(self, name: str, now: float, error: Exception | None = None) -> list[str]:
        """A started step has ended, with ``error`` if it failed. Returns the steps to start now, in order.

        An end that comes past the bound is taken quietly, whenever it comes: a success counts for the next attempt.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the step is unknown or not running.
        """
        check_type("name", name, str, "a str")
        if error is not None:
            check_type("error", error, Exception, "an Exception or None")
        step = self._step(name, "no end of")
        if step.state not in (STEP_RUNNING, STEP_OVERDUE):
            local("closing.finished", f"step {clip(name)} is {step.state}: it cannot end now")
        self._clock(now)
        if step.state == STEP_RUNNING:
            step.error = error
        step.state = move(CLOSE_STEP, step.state, "succeed" if error is None else "fail")
        step.deadline = None
        return self._go_on()

    def handle_timeout(self, now: float) -> list[str]:
        """Time has passed. Returns the steps to start now, in order. Early calls are no-ops.

        Raises:
            TypeError: ``now`` is no number.
        """
        self._clock(now)
        for step in self._running():
            if step.deadline is not None and step.deadline <= self._now:
                step.state = move(CLOSE_STEP, step.state, "overdue")
                step.deadline = None
                step.error = StepTimeout(step.name, step.within)
        return self._go_on()

    # ── The engine ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _clock(self, now: float) -> None:
        check_number("now", now)
        # As on a connection: time never runs backwards, and what is no time counts as the last one.
        if self._now < now < END_OF_TIME:
            self._now = float(now)

    def _step(self, name: str, what: str) -> _Step:
        step = self._steps.get(name)
        if step is None:
            local("closing.step", f"{what} {clip(name)}, which the plan does not have: {clip([*self._steps])}")
        return step

    def _running(self) -> Iterator[_Step]:
        return (step for step in self._steps.values() if step.state == STEP_RUNNING)

    def _run(self, step: _Step, event: str) -> None:
        step.state = move(CLOSE_STEP, step.state, event)
        step.deadline = self._now + step.within

    def _go_on(self) -> list[str]:
        """Start what can start. One pass is enough: a step comes after all that it waits for."""
        started: list[str] = []
        if not self._attempting:
            return started
        for step in self._steps.values():
            if step.state != STEP_WAITING or not all(other.settled for other in step.after):
                continue
            if step.needs == SUCCESS and not all(other.state == STEP_DONE for other in step.after):
                step.state = move(CLOSE_STEP, step.state, "keep")
                continue
            self._run(step, "start")
            started.append(step.name)
        if all(step.settled for step in self._steps.values()):
            self._attempting = False
            for step in self._steps.values():
                if step.error is not None:
                    self._failures[step.name] = step.error
                    _name(step.error, step.name)
                    step.error = None
            errors = [*_leaves(self._failures.values())]
            self._error = ExceptionGroup("closing failed", errors) if errors else None
        return started


def _name(error: Exception, step: str) -> None:
    """Each error of a step says whose it is: in the flat group nothing else does."""
    note = f"in closing step {step!r}"
    for leaf in _leaves([error]):
        if not isinstance(leaf, StepTimeout) and note not in getattr(leaf, "__notes__", ()):
            leaf.add_note(note)


def _leaves(errors: Iterable[Exception]) -> Iterator[Exception]:
    """Groups taken apart, in order, however deep they are."""
    stack = [*errors][::-1]
    while stack:
        error = stack.pop()
        if isinstance(error, ExceptionGroup):
            stack += reversed(error.exceptions)
        else:
            yield error


class AgentClosing:
    """How a binding closes an agent: a plan, what each step does, and which have ended. What is left to the binding is
    to run the steps, to wait until the next deadline or the next end, and to tell whoever called.

    There are two steps from the start: ``CANCEL`` cancels the turns in flight, ``AGENT`` ends the agent after that.
    Where ``cancels`` is false the turns are left to another owner instead, who goes on with a snapshot.

    Args:
        connection: the agent's.
        grace: how long each wait may take.
        cancel: ends when ``turns_left`` is true, once ``leave_turns`` was called.
        agent: ends the connection and the process, by the waits of ``grace``.
    """

    __slots__ = ("_connection", "_ended", "cancels", "grace", "plan", "steps")

    def __init__(
        self, connection: ClientConnection, grace: Grace, cancel: Callable[[], object], agent: Callable[[], object]
    ) -> None:
        self.grace = grace
        self.cancels = True
        self.plan = ClosingPlan()
        self.steps: dict[str, Callable[[], object]] = {CANCEL: cancel, AGENT: agent}
        self._connection = connection
        self._ended: list[tuple[str, Exception | None]] = []
        self.plan.add(CANCEL, within=grace.cancel, best_effort=True)
        # What it waits for by itself is less by the time of the cancel, which is for the rest that it does.
        self.plan.add(AGENT, after=[CANCEL], within=grace.total)

    def add(
        self, step: Callable[[], object], name: str | None, after: str | Sequence[str], needs: StepNeeds, within: float
    ) -> str:
        """Add a step of the owner. Without a name it gets the function's, with a number where that is taken.

        Returns: its name.

        Raises: as ``ClosingPlan.add``; TypeError when ``step`` cannot be called.
        """
        if not callable(step):
            raise TypeError(f"step must be callable, not {type(step).__name__}")
        if name is None:
            base = name = str(getattr(step, "__name__", type(step).__name__))
            number = 1
            while name in self.steps:
                number += 1
                name = f"{base} {number}"
        self.plan.add(name, after=after, needs=needs, within=within)
        self.steps[name] = step
        return name

    def leave_turns(self) -> None:
        """Cancel every turn in flight, each though others cannot be; or leave all of them to another owner.

        Raises:
            ExceptionGroup: some cannot be: nothing can be written any more.
        """
        if not self.cancels:
            self._connection.hand_over()
            return
        errors: list[Exception] = []
        for session in self._connection.busy_sessions:
            try:
                # Longer than the step's own bound, which is the one that counts: no turn ends in between.
                self._connection.cancel_turn(session, deadline=2 * self.grace.cancel)
            except LocalProtocolError as why:
                errors.append(why)
        if errors:
            raise ExceptionGroup("turns cannot be cancelled", errors)

    @property
    def turns_left(self) -> bool:
        """The turns need nothing more of this owner: none is in flight, or what it has said to them is written."""
        return not (self._connection.busy_sessions if self.cancels else self._connection.output_bytes)

    def begin(self, now: float) -> list[str]:
        """Start an attempt. Returns the steps to start now."""
        # First what has run past its bound and ended since the last one.
        self._take(now)
        return self.plan.begin(now)

    def ended(self, name: str, error: Exception | None) -> None:
        """A step has ended. ``go_on`` tells the plan. For any thread."""
        self._ended.append((name, error))

    def go_on(self, now: float) -> list[str]:
        """Steps have ended or time has passed. Returns the steps to start now."""
        return self._take(now) if self._ended else self.plan.handle_timeout(now)

    @property
    def error(self) -> ExceptionGroup[Exception] | None:
        """What the attempt that is over had against it. That a turn did not end when it was cancelled is nothing by
        itself: it ended with the agent, if that has succeeded. ``plan.failures`` has it all the same, and so has the
        error where something else failed."""
        return None if [*self.plan.failures] == [CANCEL] else self.plan.error

    def _take(self, now: float) -> list[str]:
        started: list[str] = []
        while self._ended:
            name, error = self._ended.pop(0)
            started += self.plan.finished(name, now, error)
        return started
