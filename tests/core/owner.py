"""An owner that is a platform, on a virtual clock: one connection with a turn, and a closing plan for all it holds.

The plan is that of docs/closing.md: the turn is cancelled first; then the runtime and the command close together; the
bridge closes when the runtime's close has settled either way, the credential only when it has succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable

from acp_core import ClosingPlan, LocalProtocolError, Session, TurnEnded, TurnFailed
from tests.core.helpers import ClientDriver, Message, error, result

CANCEL, RUNTIME, COMMAND, BRIDGE, CREDENTIAL = "cancel", "runtime", "command", "bridge", "credential"
STEPS = (CANCEL, RUNTIME, COMMAND, BRIDGE, CREDENTIAL)


def owner_plan(cancel: float = 2.0, runtime: float = 5.0, others: float = 3.0) -> ClosingPlan:
    plan = ClosingPlan()
    plan.add(CANCEL, within=cancel, best_effort=True)
    plan.add(RUNTIME, after=[CANCEL], within=runtime)
    plan.add(COMMAND, after=[CANCEL], within=others)
    plan.add(BRIDGE, after=[RUNTIME], within=others)
    plan.add(CREDENTIAL, after=[RUNTIME], needs="success", within=others)
    return plan


class Owner:
    """Starts what its plan says and keeps a record of it. A step ends when the test says so.

    ``started`` has each step that was started, as ``(attempt, name)``, and ``states`` what the plan said just then.
    Steps in ``at_once`` end as they start. ``wire`` is what was written.
    """

    def __init__(self, driver: ClientDriver, session: Session, at_once: Iterable[str] = ()) -> None:
        self.driver = driver
        self.session = session
        self.plan = owner_plan()
        self.at_once = {*at_once}
        self.started: list[tuple[int, str]] = []
        self.states: list[dict[str, str]] = []
        self.running: set[str] = set()
        self.succeeded: set[str] = set()
        self.wire: list[Message] = []
        self.prompt_id: object = None
        # What every caller of close was told, by its attempt.
        self.callers: list[int] = []

    def prompt(self, text: str = "hi", identity: str | None = "run-1") -> object:
        self.prompt_id = self.driver.conn.prompt(self.session, text, identity=identity)
        self.driver.sent()
        self.driver.drain()
        return self.prompt_id

    def close(self) -> None:
        """Close, or join the close under way: new turns are refused from here on."""
        self.driver.conn.refuse_turns()
        self._run(self.plan.begin(self.driver.now))
        self.callers.append(self.plan.attempts)

    def end(self, name: str, why: Exception | None = None) -> None:
        """A step has come to its end."""
        self.running.remove(name)
        if why is None:
            self.succeeded.add(name)
        self._run(self.plan.finished(name, self.driver.now, why))

    def answer(self, stop_reason: str = "cancelled") -> None:
        """The agent's result of the prompt."""
        self._see(self.driver.feed(result(self.prompt_id, {"stopReason": stop_reason})))

    def refuse(self) -> None:
        """The agent's error for the prompt."""
        self._see(self.driver.feed(error(self.prompt_id, -32603)))

    def wait(self, seconds: float, *, connection_first: bool = False) -> None:
        """Time passes, for the plan and for the connection."""
        self.driver.now += seconds
        if connection_first:
            self._see(self.driver.wait(0))
        self._run(self.plan.handle_timeout(self.driver.now))
        if not connection_first:
            self._see(self.driver.wait(0))

    def next_deadline(self) -> float | None:
        """The earlier one of plan and connection."""
        self.wire += self.driver.sent()
        self._see(self.driver.drain())
        times = (self.plan.next_deadline(), self.driver.conn.next_deadline())
        return min((time for time in times if time is not None and time > 0), default=None)

    def refused(self) -> str:
        """The rule that refuses another turn; nothing is written."""
        before = self.driver.conn.output_bytes
        try:
            self.driver.conn.prompt(self.session, "more", identity="run-2")
        except LocalProtocolError as why:
            assert self.driver.conn.output_bytes == before
            return why.rule
        raise AssertionError("a turn was admitted")

    def errors(self) -> list[str]:
        """What the last attempt had against it, as text."""
        group = self.plan.error
        return [] if group is None else [str(one) for one in group.exceptions]

    def _see(self, events: Iterable[object]) -> None:
        """A cancel under way has its evidence when the turn is over, and only then."""
        for event in events:
            if CANCEL in self.running:
                if isinstance(event, TurnFailed) and event.outcome == "deadline":
                    self.end(CANCEL, event.error)
                elif isinstance(event, (TurnEnded, TurnFailed)):
                    self.end(CANCEL)

    def _run(self, names: Iterable[str]) -> None:
        for name in names:
            assert name not in self.running, f"{name} runs twice at a time"
            assert name not in self.succeeded, f"{name} runs again after a success"
            self.started.append((self.plan.attempts, name))
            self.states.append(self.plan.states)
            self.running.add(name)
            if name == CANCEL:
                self._cancel()
            elif name in self.at_once:
                self.end(name)

    def _cancel(self) -> None:
        if self.session not in self.driver.conn.busy_sessions:
            self.end(CANCEL)
            return
        try:
            self.driver.conn.cancel_turn(self.session)
        except LocalProtocolError as why:
            self.end(CANCEL, why)
            return
        # A prompt that was not sent is withdrawn: its end is there already.
        self._see(self.driver.drain())
