"""Every interleaving of a close, up to a depth: the real plan and a real connection with a turn, no sampling.

What may happen next is a list of actions: the owner closes (again), the agent's result comes, a step ends well or
badly, time passes to the next deadline (so a step that never ends is one during which only time passes). A path is a
sequence of actions; each path runs on new objects from the start, one after the other, until none is left. What must
hold is looked at after every action. At the end of a path the clock alone ends what is under way, and a last close in
which everything ends well closes the owner.

    python -m tests.core.test_closing_model 8      walks every step's ends to that depth, in both orders of the clocks
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import pytest

from acp_core import V1, Admission, TurnEnded, TurnFailed
from tests.core.helpers import idle_client, only
from tests.core.owner import BRIDGE, CANCEL, COMMAND, CREDENTIAL, RUNTIME, STEPS, Owner

AFTER = {CANCEL: None, RUNTIME: CANCEL, COMMAND: CANCEL, BRIDGE: RUNTIME, CREDENTIAL: RUNTIME}
CANCEL_WIRE = V1["session_cancel"].wire


class World:
    """One run: an owner with a turn in flight, and what is known of it beside its plan."""

    def __init__(self, at_once: tuple[str, ...], connection_first: bool) -> None:
        driver, session = idle_client("s1", admission=Admission())
        self.owner = Owner(driver, session, at_once)
        self.owner.prompt()
        self.connection_first = connection_first
        self.answered = False
        self.looked_at = 0
        self.began_at: dict[int, float] = {}
        self.told: dict[int, object] = {}

    # ── What may happen ─────────────────────────────────────────────────────────────────────────────────────────────

    def actions(self) -> list[tuple[str, Callable[[], None]]]:
        owner = self.owner
        found: list[tuple[str, Callable[[], None]]] = []
        if not owner.plan.closed:
            found.append(("close", self.close))
        if not self.answered and owner.driver.conn.state == "open":
            found.append(("result", self.answer))
        for name in STEPS:
            if name in owner.running:
                # A cancel that ends well was taken note of: that is no result yet.
                found.append((f"{name} ends", partial(self.end, name)))
                found.append((f"{name} fails", partial(self.end, name, OSError(name))))
        if owner.next_deadline() is not None:
            found.append(("time passes", self.tick))
        return found

    def close(self) -> None:
        closed, before = self.owner.plan.closed, len(self.owner.started)
        self.owner.close()
        self.began_at.setdefault(self.owner.plan.attempts, self.owner.driver.now)
        # Closed is closed: nothing runs any more, and nothing is wrong.
        if closed:
            assert len(self.owner.started) == before
            assert (self.owner.plan.attempting, self.owner.plan.error) == (False, None)

    def answer(self) -> None:
        self.answered = True
        self.owner.answer()

    def end(self, name: str, why: Exception | None = None) -> None:
        if name == RUNTIME and why is None:
            # It was the agent's process: its output ends with it.
            self.owner.driver.end()
        if name in self.owner.running:
            self.owner.end(name, why)

    def tick(self) -> None:
        deadline = self.owner.next_deadline()
        assert deadline is not None
        self.owner.wait(deadline - self.owner.driver.now, connection_first=self.connection_first)

    # ── What must hold ──────────────────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        owner, plan = self.owner, self.owner.plan
        now, deadline = owner.driver.now, plan.next_deadline()
        # A close under way waits for a deadline, never for ever, and is over when its bound is.
        assert plan.attempting == (deadline is not None)
        if deadline is not None:
            assert now <= deadline <= self.began_at[plan.attempts] + plan.bound
        # What runs is what the plan takes for running. Owner looks at each start: never twice at a time, never again
        # after a success.
        assert owner.running == {name for name, state in plan.states.items() if state in ("running", "overdue")}
        self.check_starts()
        # A new turn is refused: from the first close on for that reason, before it by the turn in flight.
        if plan.begun or not self.answered:
            assert owner.refused() in (("turn.closing", "connection.over") if plan.begun else ("turn.one_at_a_time",))
        # The turn ends once, and only its result makes room for another.
        ends = len(only(owner.driver.log, TurnEnded)) + len(only(owner.driver.log, TurnFailed))
        assert ends <= 1
        assert owner.driver.conn.open_requests == 1 - ends
        assert self.answered or owner.session.state != "idle"
        # It is cancelled once, however often closing is tried, and not before.
        cancels = sum(message.get("method") == CANCEL_WIRE for message in owner.wire)
        assert cancels <= min(1, plan.attempts)
        if plan.begun and not plan.attempting:
            self.check_outcome()

    def check_starts(self) -> None:
        owner = self.owner
        for (_, name), states in list(zip(owner.started, owner.states, strict=True))[self.looked_at :]:
            before = AFTER[name]
            if before is not None:
                assert states[before] not in ("waiting", "running")
            if name == CREDENTIAL:
                assert states[RUNTIME] == "done"
                assert RUNTIME in owner.succeeded
        self.looked_at = len(owner.started)

    def check_outcome(self) -> None:
        plan = self.owner.plan
        # Who joined an attempt is told the same as who began it.
        assert self.told.setdefault(plan.attempts, plan.error) is plan.error
        errors = [] if plan.error is None else [*plan.error.exceptions]
        assert [*plan.failures.values()] == errors
        assert [*plan.failures] == [name for name in STEPS if name in plan.failures]
        released = all(plan.states[name] == "done" for name in STEPS if name != CANCEL)
        assert plan.closed == released
        assert plan.error is not None or released

    def finish(self) -> None:
        plan = self.owner.plan
        while plan.attempting:
            self.tick()
            self.check()
        self.close()
        while plan.attempting:
            self.check()
            self.end(next(name for name in STEPS if plan.states[name] == "running"))
        self.check()
        assert (plan.closed, plan.error) == (True, None)
        self.close()


def walk(depth: int, at_once: tuple[str, ...] = (), connection_first: bool = False) -> tuple[int, int]:
    """Run every path. Returns how many there were, and how many actions they took."""
    chosen: list[int] = []
    paths = actions = 0
    while True:
        world = World(at_once, connection_first)
        world.check()
        done: list[str] = []
        widths: list[int] = []
        try:
            while len(done) < depth and (possible := world.actions()):
                if len(done) == len(chosen):
                    chosen.append(0)
                name, action = possible[chosen[len(done)]]
                done.append(name)
                widths.append(len(possible))
                action()
                world.check()
            world.finish()
        except Exception as why:
            why.add_note("after: " + ", ".join(done))
            raise
        paths += 1
        actions += len(done)
        # On to the next path: the last choice that has another one.
        del chosen[len(widths) :]
        while chosen and chosen[-1] + 1 == widths[len(chosen) - 1]:
            chosen.pop()
        if not chosen:
            return paths, actions
        chosen[-1] += 1


@pytest.mark.parametrize("connection_first", [False, True], ids=["plan first", "connection first"])
def test_every_interleaving_of_cancel_runtime_result_and_closes(connection_first: bool) -> None:
    assert walk(8, (COMMAND, BRIDGE, CREDENTIAL), connection_first) == (5127, 40289)


@pytest.mark.parametrize("connection_first", [False, True], ids=["plan first", "connection first"])
def test_every_interleaving_of_all_steps(connection_first: bool) -> None:
    assert walk(5, (), connection_first) == (1377, 6885)


if __name__ == "__main__":
    for first in (False, True):
        began = time.monotonic()
        found = walk(int(sys.argv[1]), (), first)
        print(f"{found[0]} paths, {found[1]} actions, {time.monotonic() - began:.0f} s")
