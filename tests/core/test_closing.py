"""The closing plan: one test for each rule P11 to P14 and P18 to P25 of hosts.md, named after it; and its bounds."""

from __future__ import annotations

import math

import pytest

from acp_core import (
    Admission,
    ClosingPlan,
    ConnectionClosed,
    ConnectionOver,
    Grace,
    LocalProtocolError,
    RequestAbandoned,
    StepTimeout,
    TurnFailed,
)
from acp_core.closing import AgentClosing
from tests.core.helpers import ClientDriver, idle_client, one, only, permission, request
from tests.core.owner import BRIDGE, CANCEL, COMMAND, CREDENTIAL, RUNTIME, STEPS, Owner

OTHERS = (COMMAND, BRIDGE, CREDENTIAL)


def owner(*at_once: str, turn: bool = True) -> Owner:
    """An owner; with a turn in flight, as long as nobody says otherwise."""
    driver, session = idle_client("s1", admission=Admission())
    found = Owner(driver, session, at_once)
    if turn:
        found.prompt()
    return found


def steps(plan: ClosingPlan, *names: str, **how: object) -> ClosingPlan:
    for name in names:
        plan.add(name, **how)  # type: ignore[arg-type]  # passed through
    return plan


def cancels(driver: ClientDriver) -> int:
    """How many cancels are in the output now."""
    return len([message for message in driver.sent() if message["method"] == "session/cancel"])


# ── Cancelling, inside a close ──────────────────────────────────────────────────────────────────────────────────────


def test_P11_the_turn_is_cancelled_once_an_attempt_before_any_resource_is_touched() -> None:
    o = owner(*OTHERS)
    o.close()
    o.close()
    assert o.started == [(1, CANCEL)]
    assert cancels(o.driver) == 1
    o.answer()
    assert [name for _, name in o.started] == [CANCEL, RUNTIME, COMMAND]


@pytest.mark.parametrize("how", ["settles", "fails", "raises", "never"])
def test_P12_the_wait_for_a_cancel_is_bounded(how: str) -> None:
    o = owner(*OTHERS)
    if how == "raises":
        o.driver.conn.send_failed("pipe", o.driver.now)
    o.close()
    o.driver.sent()
    errors: dict[str, type[Exception]] = {"fails": OSError, "raises": LocalProtocolError, "never": StepTimeout}
    if how == "settles":
        o.answer()
    elif how == "fails":
        o.end(CANCEL, OSError("no such turn"))
    elif how == "never":
        assert o.plan.next_deadline() == o.driver.now + 2.0
        o.wait(1.999)
        assert o.plan.states[CANCEL] == "running"
        o.wait(0.001)
    assert o.plan.states[RUNTIME] == "running"
    o.end(RUNTIME)
    assert [type(why) for why in o.plan.failures.values()] == ([errors[how]] if how in errors else [])
    assert o.plan.closed
    if how == "never":
        # The connection gave the turn up as well, which came late: it is not asked for any more.
        assert o.plan.states[CANCEL] == "failed"
        assert o.errors() == ["closing step 'cancel' did not end within 2 s; it ran on"]
        assert o.plan.next_deadline() is None


@pytest.mark.parametrize("how", ["settles", "fails", "never"])
def test_P13_cleanup_goes_on_whatever_became_of_the_cancel(how: str) -> None:
    o = owner()
    o.close()
    o.driver.sent()
    if how == "never":
        o.wait(2.0)
    else:
        o.end(CANCEL, OSError() if how == "fails" else None)
    for name in (RUNTIME, COMMAND, BRIDGE, CREDENTIAL):
        o.end(name)
    assert o.plan.closed
    assert o.plan.states[CREDENTIAL] == "done"


def test_P14_a_cancel_has_no_reason_to_bound() -> None:
    """session/cancel of the protocol carries the session and nothing else."""
    o = owner()
    o.close()
    assert [message for message in o.driver.sent() if "id" not in message] == [
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}
    ]


# ── Closing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_P18_who_calls_again_joins_and_a_closed_owner_returns_at_once() -> None:
    o = owner(*OTHERS)
    o.close()
    o.close()
    o.driver.sent()
    o.answer()
    o.close()
    assert o.callers == [1, 1, 1]
    o.end(RUNTIME)
    assert (o.plan.closed, o.plan.error) == (True, None)
    before = [*o.started]
    o.close()
    assert (o.callers[-1], o.plan.attempting, o.plan.closed, o.plan.error) == (2, False, True, None)
    assert o.started == before


def test_P19_each_step_starts_when_what_it_waits_for_has_settled() -> None:
    o = owner(turn=False)
    o.close()
    assert o.started == [(1, CANCEL), (1, RUNTIME), (1, COMMAND)]
    assert o.plan.states == dict(zip(STEPS, ("done", "running", "running", "waiting", "waiting"), strict=True))
    o.end(RUNTIME)
    assert o.running == {COMMAND, BRIDGE, CREDENTIAL}


@pytest.mark.parametrize("how", ["fails", "never"])
def test_P19_the_bridge_closes_after_the_runtime_settled_and_the_credential_only_after_success(how: str) -> None:
    o = owner(COMMAND, turn=False)
    o.close()
    if how == "fails":
        o.end(RUNTIME, OSError("stuck"))
    else:
        o.wait(5.0)
    assert o.running - {RUNTIME} == {BRIDGE}
    assert o.plan.states[CREDENTIAL] == "kept"
    o.end(BRIDGE)
    assert (o.plan.attempting, o.plan.closed) == (False, False)


def test_P20_a_runtime_that_does_not_settle_keeps_the_credential_and_the_wait_has_a_bound() -> None:
    o = owner(COMMAND, BRIDGE, turn=False)
    o.close()
    assert o.plan.states[COMMAND] == "done"
    assert o.plan.next_deadline() == o.driver.now + 5.0
    o.wait(4.999)
    assert o.plan.attempting
    assert CREDENTIAL not in o.running
    o.wait(0.001)
    assert not o.plan.attempting
    assert o.plan.states[CREDENTIAL] == "kept"
    assert o.errors() == ["closing step 'runtime' did not end within 5 s; it ran on"]
    # It ends after all: the next attempt has nothing to wait for, and releases the credential.
    o.end(RUNTIME)
    o.close()
    assert o.started[-1] == (2, CREDENTIAL)
    o.end(CREDENTIAL)
    assert (o.plan.closed, o.plan.error) == (True, None)


def test_P21_a_kept_credential_is_no_error_of_its_own() -> None:
    o = owner(COMMAND, BRIDGE, turn=False)
    o.close()
    o.end(RUNTIME, OSError("stuck"))
    assert o.errors() == ["stuck"]
    assert o.plan.states[CREDENTIAL] == "kept"
    assert not o.plan.closed


def test_P22_all_errors_come_flat_and_in_the_order_of_the_steps() -> None:
    o = owner()
    o.close()
    o.driver.sent()
    o.wait(2.0)
    o.end(COMMAND, OSError("command"))
    group = ExceptionGroup("inner", [OSError("runtime 1"), ExceptionGroup("deeper", [OSError("runtime 2")])])
    o.end(RUNTIME, group)
    o.end(BRIDGE, OSError("bridge"))
    cancel = "closing step 'cancel' did not end within 2 s; it ran on"
    assert o.errors() == [cancel, "runtime 1", "runtime 2", "command", "bridge"]
    assert o.plan.error is not None
    assert o.plan.error.message == "closing failed"
    # By step, each is there as it was reported.
    assert [*o.plan.failures] == [CANCEL, RUNTIME, COMMAND, BRIDGE]
    assert o.plan.failures[RUNTIME] is group
    # In the group a note says whose it is, once; the cancel's says it by itself.
    notes = [getattr(error, "__notes__", []) for error in o.plan.error.exceptions]
    runtime = [f"in closing step '{RUNTIME}'"]
    assert notes == [[], runtime, runtime, [f"in closing step '{COMMAND}'"], [f"in closing step '{BRIDGE}'"]]
    o.close()
    o.end(RUNTIME, group)
    assert [getattr(error, "__notes__", []) for error in [*group.exceptions][:1]] == [runtime]


def test_one_step_may_be_named_by_itself() -> None:
    plan = ClosingPlan()
    plan.add("runtime", within=1.0)
    plan.add("bridge", after="runtime", within=2.0)
    assert (plan.begin(0.0), plan.bound) == (["runtime"], 3.0)
    assert plan.finished("runtime", 0.5) == ["bridge"]


def test_P22_only_an_exception_is_a_failure() -> None:
    o = owner(turn=False)
    o.close()
    for wrong in ("stuck", 0, False, KeyboardInterrupt()):
        with pytest.raises(TypeError, match="error"):
            o.plan.finished(RUNTIME, o.driver.now, wrong)  # type: ignore[arg-type]  # on purpose
    assert o.plan.states[RUNTIME] == "running"


@pytest.mark.parametrize("how", ["fails", "never"])
def test_P23_a_failed_cancel_fails_this_close_and_leaves_nothing_to_close(how: str) -> None:
    o = owner(RUNTIME, *OTHERS)
    o.close()
    o.driver.sent()
    if how == "fails":
        o.end(CANCEL, OSError("no such turn"))
    else:
        o.wait(2.0)
    assert len(o.errors()) == 1
    assert o.plan.closed
    before = [*o.started]
    o.close()
    assert o.started == before
    assert (o.plan.attempting, o.plan.error, o.plan.failures) == (False, None, {})


def test_P24_a_retry_runs_what_is_left_and_cancels_again_where_that_had_failed() -> None:
    o = owner(*OTHERS)
    o.close()
    o.driver.sent()
    o.end(CANCEL, OSError("no such turn"))
    o.end(RUNTIME, OSError("stuck"))
    assert o.plan.states == dict(zip(STEPS, ("failed", "failed", "done", "done", "kept"), strict=True))
    # The turn has ended meanwhile: cancelling is tried again all the same, and has nothing to do.
    o.driver.feed({"jsonrpc": "2.0", "id": o.prompt_id, "result": {"stopReason": "end_turn"}})
    o.close()
    assert o.started[-2:] == [(2, CANCEL), (2, RUNTIME)]
    assert o.plan.states[CANCEL] == "done"
    o.end(RUNTIME)
    assert o.started[4:] == [(2, CANCEL), (2, RUNTIME), (2, CREDENTIAL)]
    assert (o.plan.closed, o.plan.error) == (True, None)


def test_P24_what_succeeded_never_runs_again() -> None:
    o = owner(COMMAND, BRIDGE)
    o.close()
    o.driver.sent()
    o.answer()
    for number in range(1, 4):
        assert o.plan.attempts == number
        o.end(RUNTIME, OSError("stuck"))
        o.close()
    assert [name for _, name in o.started] == [CANCEL, RUNTIME, COMMAND, BRIDGE, RUNTIME, RUNTIME, RUNTIME]


def test_P25_a_retry_starts_only_after_the_attempt_before_it() -> None:
    o = owner(*OTHERS, turn=False)
    o.close()
    o.close()
    assert (o.plan.attempts, o.plan.attempting) == (1, True)
    o.end(RUNTIME, OSError("stuck"))
    assert o.plan.attempting is False
    o.close()
    assert (o.plan.attempts, o.plan.error) == (2, None)


def test_P25_a_step_that_ran_past_its_bound_is_awaited_and_never_started_twice() -> None:
    o = owner(COMMAND, BRIDGE, turn=False)
    o.close()
    o.wait(5.0)
    assert o.plan.states[RUNTIME] == "overdue"
    # Past its bound again: the same wait, the same error.
    o.close()
    assert (o.plan.states[RUNTIME], o.plan.next_deadline()) == ("running", o.driver.now + 5.0)
    o.wait(5.0)
    assert o.errors() == ["closing step 'runtime' did not end within 5 s; it ran on"]
    o.close()
    o.end(RUNTIME)
    o.end(CREDENTIAL)
    assert (o.plan.attempts, o.plan.closed, o.plan.error) == (3, True, None)
    assert [name for _, name in o.started].count(RUNTIME) == 1


# ── The plan by itself ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_without_steps_closes_at_once() -> None:
    plan = ClosingPlan()
    assert (plan.begun, plan.closed, plan.bound, plan.next_deadline()) == (False, False, 0.0, None)
    assert plan.begin(0.0) == []
    assert (plan.begun, plan.attempting, plan.closed, plan.error) == (True, False, True, None)


def test_a_late_end_in_the_same_attempt_counts_for_what_waits_and_not_for_the_error() -> None:
    """The runtime ends late, while the command still runs: its bound was passed, and it is closed all the same."""
    o = owner(BRIDGE, turn=False)
    o.close()
    o.wait(3.0)
    assert o.plan.states[COMMAND] == "overdue"
    o.wait(1.0)
    o.end(COMMAND)
    assert o.plan.states[COMMAND] == "done"
    o.end(RUNTIME)
    o.end(CREDENTIAL)
    assert o.plan.closed
    assert [*o.plan.failures] == [COMMAND]
    # A failure that comes late adds nothing to the error, and is what a retry meets.
    o = owner(BRIDGE, turn=False)
    o.close()
    o.wait(3.0)
    o.end(COMMAND, OSError("late"))
    o.end(RUNTIME)
    o.end(CREDENTIAL)
    assert o.errors() == ["closing step 'command' did not end within 3 s; it ran on"]
    assert o.plan.states[COMMAND] == "failed"
    o.close()
    assert o.started[-1] == (2, COMMAND)


def test_a_late_failure_between_attempts_is_quiet_and_runs_again() -> None:
    o = owner(COMMAND, BRIDGE, turn=False)
    o.close()
    o.wait(5.0)
    before = o.plan.error
    o.end(RUNTIME, OSError("late"))
    assert o.plan.error is before
    assert o.plan.attempting is False
    o.close()
    assert o.started[-1] == (2, RUNTIME)


def test_a_step_that_needs_several_is_kept_until_all_have_succeeded() -> None:
    plan = steps(ClosingPlan(), "a", "b")
    plan.add("lock", after=["a", "b"], needs="success")
    plan.add("last", after=["lock"])
    assert plan.begin(0.0) == ["a", "b"]
    assert plan.finished("a", 0.0) == []
    # It is kept, which settles it: what only waits for it goes on.
    assert plan.finished("b", 0.0, OSError()) == ["last"]
    assert plan.states["lock"] == "kept"
    plan.finished("last", 0.0)
    assert plan.begin(0.0) == ["b"]
    assert plan.finished("b", 0.0) == ["lock"]
    plan.finished("lock", 0.0)
    assert plan.closed


def test_a_step_that_needs_a_best_effort_step_has_it_tried_again() -> None:
    plan = ClosingPlan()
    plan.add("flush", best_effort=True)
    plan.add("lock", after=["flush"], needs="success")
    assert plan.begin(0.0) == ["flush"]
    plan.finished("flush", 0.0, OSError())
    assert not plan.closed
    assert plan.begin(0.0) == ["flush"]
    assert plan.finished("flush", 0.0) == ["lock"]


def test_a_best_effort_step_past_its_bound_is_awaited_while_others_are_left() -> None:
    plan = ClosingPlan()
    plan.add("flush", within=1.0, best_effort=True)
    plan.add("process", after=["flush"], within=1.0)
    plan.begin(0.0)
    assert plan.handle_timeout(1.0) == ["process"]
    plan.finished("process", 1.0, OSError())
    assert plan.begin(2.0) == []
    assert plan.handle_timeout(3.0) == ["process"]
    plan.finished("process", 3.0)
    assert plan.closed
    # It ends at last, when nobody asks.
    assert plan.finished("flush", 9.0) == []
    assert plan.states["flush"] == "done"


def test_the_end_of_a_step_is_in_time_until_a_timeout_is_handled() -> None:
    plan = steps(ClosingPlan(), "a", within=1.0)
    plan.begin(0.0)
    plan.finished("a", 100.0)
    assert plan.error is None


def test_a_timeout_ahead_of_time_changes_nothing() -> None:
    plan = steps(ClosingPlan(), "a", within=1.0)
    assert plan.handle_timeout(50.0) == []
    plan.begin(50.0)
    for now in (50.0, 50.5, 3.0, math.nan, math.inf, -math.inf):
        assert plan.handle_timeout(now) == []
        assert plan.next_deadline() == 51.0
    plan.handle_timeout(51.0)
    assert plan.states["a"] == "overdue"


def test_time_never_runs_backwards() -> None:
    plan = steps(ClosingPlan(), "a", "b", within=1.0)
    plan.begin(10.0)
    plan.finished("a", 5.0)
    plan.handle_timeout(10.9)
    assert plan.attempting
    plan.handle_timeout(11.0)
    assert plan.begin(4.0) == []
    assert plan.next_deadline() == 12.0


def test_the_bound_of_an_attempt_is_its_longest_chain() -> None:
    plan = ClosingPlan()
    plan.add("a", within=2.0)
    plan.add("b", after=["a"], within=5.0)
    plan.add("c", after=["a"], within=1.0)
    plan.add("d", after=["c", "b"], within=0.5)
    plan.add("e", within=7.0)
    assert plan.bound == 7.5
    now = 100.0
    plan.begin(now)
    while (deadline := plan.next_deadline()) is not None:
        now = deadline
        plan.handle_timeout(now)
    assert now == 100.0 + plan.bound
    assert len(plan.failures) == 5


def test_an_end_must_be_that_of_a_step_that_runs() -> None:
    plan = steps(ClosingPlan(), "a")
    plan.add("b", after=["a"])

    def refused(name: str) -> str:
        before = (plan.states, plan.attempting, plan.next_deadline())
        with pytest.raises(LocalProtocolError) as caught:
            plan.finished(name, 0.0)
        assert (plan.states, plan.attempting, plan.next_deadline()) == before
        return caught.value.rule

    assert refused("a") == "closing.finished"
    plan.begin(0.0)
    assert refused("b") == "closing.finished"
    assert refused("c") == "closing.step"
    plan.finished("a", 0.0)
    assert refused("a") == "closing.finished"


@pytest.mark.parametrize(
    ("rule", "name", "how"),
    [
        ("closing.name", "", {}),
        ("closing.name", "a", {}),
        ("closing.step", "b", {"after": ["c"]}),
        ("closing.step", "b", {"after": ["b"]}),
        ("closing.needs", "b", {"needs": "luck"}),
        ("closing.within", "b", {"within": 0}),
        ("closing.within", "b", {"within": -1.0}),
        ("closing.within", "b", {"within": math.inf}),
        ("closing.within", "b", {"within": math.nan}),
        ("closing.within", "b", {"within": 10**400}),
    ],
)
def test_a_step_that_cannot_be_is_refused(rule: str, name: str, how: dict[str, object]) -> None:
    plan = steps(ClosingPlan(), "a")
    with pytest.raises(LocalProtocolError) as caught:
        plan.add(name, **how)  # type: ignore[arg-type]  # on purpose
    assert caught.value.rule == rule
    assert [*plan.states] == ["a"]


def test_a_wrong_type_is_the_callers_fault() -> None:
    plan = steps(ClosingPlan(), "a")
    wrong: list[tuple[object, dict[str, object]]] = [
        (7, {}),
        ("b", {"after": b"a"}),
        ("b", {"within": "2"}),
        ("b", {"within": None}),
        ("b", {"within": True}),
        ("b", {"best_effort": 1}),
    ]
    for name, how in wrong:
        with pytest.raises(TypeError):
            plan.add(name, **how)  # type: ignore[arg-type]  # on purpose
    for call in (plan.begin, plan.handle_timeout):
        for now in ("1", None, True):
            with pytest.raises(TypeError):
                call(now)  # type: ignore[arg-type]  # on purpose
    assert (plan.begun, [*plan.states]) == (False, ["a"])


def test_no_step_is_added_once_closing_has_begun() -> None:
    plan = ClosingPlan()
    plan.begin(0.0)
    with pytest.raises(LocalProtocolError) as caught:
        plan.add("late")
    assert caught.value.rule == "closing.begun"


def test_a_plan_has_a_bound_on_its_steps() -> None:
    for plan, limit in ((ClosingPlan(), 256), (ClosingPlan(max_steps=3), 3)):
        steps(plan, *(str(number) for number in range(limit)))
        with pytest.raises(LocalProtocolError) as caught:
            plan.add("one more")
        assert caught.value.rule == "closing.max_steps"
        assert len(plan.begin(0.0)) == limit
    with pytest.raises(LocalProtocolError):
        ClosingPlan(max_steps=0)
    with pytest.raises(TypeError):
        ClosingPlan(max_steps=1.0)  # type: ignore[arg-type]  # on purpose


def test_what_a_getter_gives_is_no_part_of_the_plan() -> None:
    plan = steps(ClosingPlan(), "a")
    plan.begin(0.0)
    plan.finished("a", 0.0, OSError())
    plan.states.clear()
    plan.failures.clear()
    assert (plan.states, [*plan.failures]) == ({"a": "failed"}, ["a"])


def test_a_step_timeout_names_its_step() -> None:
    plan = steps(ClosingPlan(), "a", within=1.5)
    plan.begin(0.0)
    plan.handle_timeout(1.5)
    why = plan.failures["a"]
    assert isinstance(why, StepTimeout)
    assert isinstance(why, TimeoutError)
    assert (why.step, why.within) == ("a", 1.5)


def test_an_owner_without_a_turn_cancels_nothing() -> None:
    o = owner(RUNTIME, *OTHERS, turn=False)
    o.close()
    assert o.plan.closed
    assert cancels(o.driver) == 0


def test_a_grace_bounds_every_wait_of_closing_an_agent() -> None:
    names = Grace.__slots__
    each = Grace.of(1.5)
    assert [getattr(each, name) for name in names] == [1.5] * len(names)
    assert each.total == 1.5 * len(names)
    own = Grace(cancel=0.5, kill=7)
    assert Grace.of(own) is own
    assert (own.cancel, own.kill, own.total) == (0.5, 7.0, 0.5 + 2.0 + 2.0 + 2.0 + 7.0 + 1.0)
    for name in names:
        with pytest.raises(TypeError, match=name):
            Grace(**{name: None})  # type: ignore[arg-type]  # on purpose
        for wrong in (0, -1.0, math.inf, math.nan):
            with pytest.raises(LocalProtocolError, match=name):
                Grace(**{name: wrong})


# ── What the bindings run ───────────────────────────────────────────────────────────────────────────────────────────


def agent_closing(*, turn: bool = True) -> tuple[AgentClosing, ClientDriver]:
    driver, session = idle_client("s1")
    if turn:
        driver.conn.prompt(session, "hi")
        driver.sent()
    nothing = [].clear
    return AgentClosing(driver.conn, Grace(cancel=1.0, write=1.0), nothing, nothing), driver


def test_P11_an_agent_is_closed_after_its_turns_and_before_what_hangs_on_it() -> None:
    closing, driver = agent_closing()
    order: list[str] = []
    assert closing.add(lambda: order.append("lock"), "lock", "agent", "success", 3.0) == "lock"
    assert closing.plan.bound == 1.0 + closing.grace.total + 3.0
    assert closing.begin(0.0) == ["cancel"]
    closing.leave_turns()
    assert cancels(driver) == 1
    assert closing.go_on(0.5) == []
    closing.ended("cancel", None)
    assert closing.go_on(0.5) == ["agent"]
    closing.ended("agent", None)
    assert closing.go_on(0.5) == ["lock"]
    closing.steps["lock"]()
    closing.ended("lock", None)
    assert closing.go_on(0.5) == []
    assert (closing.plan.closed, closing.error, order) == (True, None, ["lock"])


def test_P12_every_turn_is_cancelled_with_a_bound_beyond_that_of_the_step() -> None:
    closing, driver = agent_closing()
    closing.begin(driver.now)
    closing.leave_turns()
    driver.sent()
    driver.drain()
    assert closing.plan.next_deadline() == driver.now + 1.0
    # The connection does not give the turn up before the step does.
    assert driver.conn.next_deadline() == driver.now + 2.0


def test_P12_a_turn_that_cannot_be_cancelled_keeps_no_other_from_it() -> None:
    closing, driver = agent_closing()
    driver.conn.send_failed("pipe", driver.now)
    with pytest.raises(ExceptionGroup) as caught:
        closing.leave_turns()
    assert [type(one) for one in caught.value.exceptions] == [LocalProtocolError]
    closing, driver = agent_closing(turn=False)
    closing.leave_turns()
    assert cancels(driver) == 0


def test_turns_that_are_left_to_another_owner_run_on() -> None:
    driver, session = idle_client("s1", extensions=["_x/ask"])
    closing = AgentClosing(driver.conn, Grace(), [].clear, [].clear)
    closing.cancels = False
    driver.conn.prompt(session, "hi")
    closing.leave_turns()
    # What this owner has said is written first.
    assert not closing.turns_left
    driver.sent()
    assert closing.turns_left
    driver.feed(permission(7, "s1"), request(8, "_x/ask", {"sessionId": "s1"}))
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.prompt(session, "one more")
    assert caught.value.rule == "turn.closing"
    driver.conn.close()
    assert driver.sent() == []
    over = driver.drain()
    assert [event.rpc_id for event in only(over, RequestAbandoned)] == [7, 8]
    failed = one(over, TurnFailed)
    assert isinstance(failed.error, ConnectionClosed)
    assert failed.error.dispatch == "sent_no_reply"
    assert one(over, ConnectionOver).dropped_answers == 0


def test_P23_a_turn_that_did_not_end_is_no_failure_once_the_agent_has_ended() -> None:
    closing, _ = agent_closing()
    closing.begin(0.0)
    assert closing.go_on(1.0) == ["agent"]
    closing.ended("agent", None)
    closing.go_on(1.0)
    assert (closing.plan.closed, closing.error, [*closing.plan.failures]) == (True, None, ["cancel"])
    # With anything else it is told, ahead of the rest.
    closing, _ = agent_closing()
    closing.begin(0.0)
    closing.go_on(1.0)
    closing.ended("agent", OSError("it is still there"))
    closing.go_on(1.0)
    assert closing.error is not None
    assert len(closing.error.exceptions) == 2
    assert not closing.plan.closed


def test_P24_what_ended_between_two_attempts_is_known_to_the_second() -> None:
    closing, _ = agent_closing(turn=False)
    closing.begin(0.0)
    closing.ended("cancel", None)
    closing.go_on(0.0)
    closing.go_on(100.0)
    assert closing.plan.states["agent"] == "overdue"
    closing.ended("agent", None)
    assert closing.begin(101.0) == []
    assert (closing.plan.closed, closing.error) == (True, None)


def test_a_step_of_the_owner_has_a_name_of_its_own() -> None:
    closing, _ = agent_closing()

    def lock() -> None: ...

    assert [closing.add(lock, None, (), "settled", 1.0) for _ in range(3)] == ["lock", "lock 2", "lock 3"]
    assert closing.add(ClosingPlan, None, "lock", "settled", 1.0) == "ClosingPlan"
    for wrong in ("agent", "lock", ""):
        with pytest.raises(LocalProtocolError):
            closing.add(lock, wrong, (), "settled", 1.0)
    with pytest.raises(TypeError, match="step must be callable"):
        closing.add("lock", "x", (), "settled", 1.0)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(LocalProtocolError):
        closing.add(lock, "x", "unknown", "settled", 1.0)
    assert [*closing.steps] == ["cancel", "agent", "lock", "lock 2", "lock 3", "ClosingPlan"]


def test_a_grace_says_how_a_process_is_ended() -> None:
    grace = Grace(exit=1.0, terminate=2.0, kill=3.0)
    assert grace.ladder == ((1.0, "SIGTERM"), (2.0, "SIGKILL"), (3.0, ""))
