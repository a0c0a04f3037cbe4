"""Permissions: policies, what is asked, and who answers when the owner does not."""

from __future__ import annotations

import pytest

from acp_core import (
    LocalProtocolError,
    PermissionAnswered,
    PermissionRequested,
    Policy,
    RequestAbandoned,
    RequestRefused,
    TurnEnded,
)
from acp_core.events import PermissionOption
from tests.core.helpers import (
    OPTIONS,
    ClientDriver,
    Message,
    error,
    idle_client,
    names,
    notification,
    one,
    only,
    permission,
    prompting_client,
    request,
    result,
)
from tests.spec.requirements import requirement

CANCELLED: Message = {"outcome": {"outcome": "cancelled"}}


def selected(option_id: str) -> Message:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


def ask(driver: ClientDriver, id: object = "p", **tool_call: object) -> PermissionRequested:
    return one(driver.feed(permission(id, "s1", OPTIONS, **tool_call)), PermissionRequested)


# ── Policies ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rules", "title", "kind", "verdict"),
    [
        ({}, "T", "read", "ask"),
        ({"default": "allow"}, "T", "read", "allow"),
        ({"default": "allow", "read": "deny"}, "T", "read", "deny"),
        ({"default": "allow", "read": "deny", "T": "ask"}, "T", "read", "ask"),
        ({"read": "allow"}, None, None, "ask"),
        ({"read": "allow"}, "T", "edit", "ask"),
        ({"read": "yes"}, "T", "read", "deny"),
        ({"default": None}, "T", "read", "deny"),
    ],
)
def test_the_most_specific_key_wins(rules: dict[str, str], title: str | None, kind: str | None, verdict: str) -> None:
    # What is no verdict may come from a file.
    assert Policy(rules).verdict(title, kind) == verdict  # type: ignore[arg-type]  # wrong on purpose


def test_a_word_that_is_no_verdict_denies_and_is_told() -> None:
    """Client rule P2: rules may come from a file, so a policy of them is made, denies, and says what it could not
    read. A word misspelt in a program is a type error (tests/contract/typed_arguments.py)."""
    policy = Policy({"default": "denny", "read": "allow", "edit": None})  # type: ignore[dict-item]  # wrong on purpose
    assert policy.rules == {"default": "deny", "read": "allow", "edit": "deny"}
    assert policy.unknown_verdicts == {"default": "denny", "edit": None}
    assert Policy({"default": "deny"}).unknown_verdicts == {}
    for merged in (policy.merged(Policy({"read": "ask"})), Policy({"read": "ask"}).merged(policy)):
        assert merged.rules == {"default": "deny", "read": "ask", "edit": "deny"}
        assert merged.unknown_verdicts == {"default": "denny", "edit": None}


def options(*kinds: str) -> tuple[PermissionOption, ...]:
    return tuple(PermissionOption(f"{kind} {number}", kind, kind) for number, kind in enumerate(kinds))


@pytest.mark.parametrize(
    ("verdict", "always", "kinds", "chosen"),
    [
        ("allow", False, ("allow_always", "allow_once", "reject_once"), "allow_once 1"),
        ("allow", False, ("allow_always", "reject_once"), None),
        ("allow", True, ("allow_always", "reject_once"), "allow_always 0"),
        ("allow", True, ("allow_always", "allow_once"), "allow_once 1"),
        ("allow", True, ("reject_once", "brand_new"), None),
        ("deny", False, ("allow_once", "reject_always", "reject_once"), "reject_once 2"),
        ("deny", False, ("allow_once", "reject_always"), "reject_always 1"),
        ("deny", False, ("allow_once",), None),
        ("deny", False, (), None),
        # Two of one kind: the first that was offered.
        ("allow", False, ("allow_once", "allow_once"), "allow_once 0"),
    ],
)
def test_an_option_is_chosen_and_never_invented(
    verdict: str, always: bool, kinds: tuple[str, ...], chosen: str | None
) -> None:
    option = Policy(always=always).choose(verdict, options(*kinds))
    assert (option.option_id if option is not None else None) == chosen


def test_a_merge_takes_the_stricter_and_names_what_widens() -> None:
    base = Policy({"default": "ask", "read": "allow", "edit": "deny"}, always=True, ask_deadline=300.0)
    launch = Policy({"default": "deny", "edit": "allow", "execute": "allow"}, ask_deadline=10.0)
    merged = base.merged(launch)
    assert merged.rules == {"default": "deny", "read": "deny", "edit": "deny", "execute": "ask"}
    assert (merged.always, merged.ask_deadline) == (False, 10.0)
    assert base.widened_by(launch) == "edit"
    assert base.widened_by(merged) is None
    assert base.widened_by(base) is None
    assert Policy().widened_by(Policy({"default": "allow"})) == "default"


def test_what_a_policy_is_made_of() -> None:
    with pytest.raises(TypeError):
        Policy({5: "allow"})  # type: ignore[dict-item]  # wrong on purpose
    with pytest.raises(TypeError, match="always must be a bool, not str"):
        Policy(always="no")  # type: ignore[arg-type]  # true, and wider, as a condition
    with pytest.raises(LocalProtocolError):
        Policy(ask_deadline=0)


# ── Asking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_policy_everything_is_asked() -> None:
    driver, session, _ = prompting_client()
    asked = ask(driver, 7, title="Write", kind="edit")
    assert (asked.session, asked.rpc_id, asked.title, asked.tool_kind) == (session, 7, "Write", "edit")
    assert (asked.tool_call_id, asked.replayed) == ("call", False)
    assert [(option.option_id, option.name, option.kind) for option in asked.options] == [
        ("yes", "Yes", "allow_once"),
        ("always", "Always", "allow_always"),
        ("no", "No", "reject_once"),
    ]
    assert driver.sent() == []
    driver.conn.answer_permission(asked.request_id, "always")
    assert driver.sent() == [result(7, selected("always"))]
    assert driver.conn.open_peer_requests == 0


def test_an_answer_is_one_of_the_offered_options_or_cancelled() -> None:
    driver, _, _ = prompting_client()
    asked = ask(driver)
    for wrong in ("other", ""):
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.answer_permission(asked.request_id, wrong)
        assert caught.value.rule == "permission.option"
    assert driver.sent() == []
    driver.conn.answer_permission(asked.request_id, asked.options[2])
    assert driver.sent() == [result("p", selected("no"))]
    driver.conn.answer_permission(ask(driver).request_id, None)
    assert driver.sent() == [result("p", CANCELLED)]


def test_the_first_answer_wins() -> None:
    driver, _, _ = prompting_client()
    asked = ask(driver)
    driver.conn.answer_permission(asked.request_id, "yes")
    for late in ("no", None):
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.answer_permission(asked.request_id, late)
        assert caught.value.rule == "request.answered"
    assert driver.sent() == [result("p", selected("yes"))]


def test_options_that_cannot_be_chosen_are_not_offered() -> None:
    driver, _, _ = prompting_client()
    broken: list[Message] = [{"name": "no id"}, {"optionId": 5, "name": "number"}, {"optionId": "only id"}]
    asked = one(driver.feed(permission("p", "s1", broken)), PermissionRequested)
    assert [(option.option_id, option.name, option.kind) for option in asked.options] == [("only id", "only id", "")]
    none = one(driver.feed(request("q", "session/request_permission", {"sessionId": "s1"})), PermissionRequested)
    assert (none.options, none.tool_call, none.title) == ((), {}, None)
    driver.conn.answer_permission(none.request_id, None)
    assert driver.sent() == [result("q", CANCELLED)]


@requirement(82)
def test_a_policy_answers_and_says_so() -> None:
    driver, session, _ = prompting_client(permissions=Policy({"read": "allow", "edit": "deny", "default": "ask"}))
    event = one(driver.feed(permission(1, "s1", kind="read")), PermissionAnswered)
    assert (event.session, event.rpc_id, event.by, event.verdict, event.option_id) == (
        session,
        1,
        "policy",
        "allow",
        "yes",
    )
    assert one(driver.feed(permission(2, "s1", kind="edit")), PermissionAnswered).option_id == "no"
    assert driver.sent() == [result(1, selected("yes")), result(2, selected("no"))]
    # Never the "always" that would stop the agent from asking, unless the policy names it.
    always = [OPTIONS[1], OPTIONS[2]]
    assert one(driver.feed(permission(3, "s1", always, kind="read")), PermissionAnswered).option_id is None
    assert driver.sent() == [result(3, CANCELLED)]
    assert names(driver.feed(permission(4, "s1", kind="other"))) == ["PermissionRequested"]


def test_an_asked_request_is_denied_after_its_deadline() -> None:
    driver, _, _ = prompting_client(permissions=Policy(ask_deadline=300.0))
    asked = ask(driver)
    assert driver.conn.next_deadline() == 400.0
    assert driver.wait(299.9) == []
    event = one(driver.wait(0.1), PermissionAnswered)
    assert (event.request_id, event.by, event.verdict, event.option_id) == (asked.request_id, "deadline", "deny", "no")
    assert driver.sent() == [result("p", selected("no"))]
    # One that was answered in time has no deadline left.
    driver.conn.answer_permission(ask(driver, "q").request_id, "yes")
    assert driver.conn.next_deadline() is None


# ── Answered by what happens to the turn ────────────────────────────────────────────────────────────────────────────


@requirement(83)
def test_a_cancelled_turn_answers_its_permissions_cancelled() -> None:
    driver, session, id = prompting_client(capabilities={"fs": {"readTextFile": True}})
    first, second = ask(driver, 1), ask(driver, 2)
    driver.feed(request(3, "fs/read_text_file", {"sessionId": "s1", "path": "/a"}))
    driver.conn.cancel_turn(session)
    events = driver.drain()
    assert [(event.request_id, event.by) for event in only(events, PermissionAnswered)] == [
        (first.request_id, "cancel"),
        (second.request_id, "cancel"),
    ]
    # session/cancel goes out first; what the client does for the agent is left to its handler.
    assert driver.sent() == [
        notification("session/cancel", {"sessionId": "s1"}),
        result(1, CANCELLED),
        result(2, CANCELLED),
    ]
    assert driver.conn.open_peer_requests == 1
    # One that arrives while cancelling is not asked either.
    assert one(driver.feed(permission(4, "s1")), PermissionAnswered).by == "cancel"
    assert driver.sent() == [result(4, CANCELLED)]
    driver.feed(result(id, {"stopReason": "cancelled"}))
    assert names(driver.feed(permission(5, "s1"))) == ["PermissionRequested"]


def test_other_sessions_keep_their_questions() -> None:
    driver, first, _ = prompting_client()
    second = driver.open("s2")
    driver.prompt(second)
    kept = one(driver.feed(permission(1, "s2")), PermissionRequested)
    ask(driver, 2)
    driver.conn.cancel_turn(first)
    assert [message.get("id") for message in driver.sent()] == [None, 2]
    driver.conn.answer_permission(kept.request_id, "yes")
    assert driver.sent() == [result(1, selected("yes"))]


@pytest.mark.parametrize("end", [lambda id: result(id, {"stopReason": "end_turn"}), lambda id: error(id, -32603)])
def test_a_question_that_its_turn_left_open_is_answered_cancelled(end: object) -> None:
    driver, _, id = prompting_client()
    asked = ask(driver)
    assert callable(end)
    events = driver.feed(end(id))
    event = one(events, PermissionAnswered)
    assert (event.request_id, event.by, event.option_id) == (asked.request_id, "turn_end", None)
    assert driver.sent() == [result("p", CANCELLED)]
    # First the answers, then the end of the turn.
    assert names(events)[0] == "PermissionAnswered"


def test_elicitations_of_a_cancelled_turn_are_answered_cancel() -> None:
    driver, session, _ = prompting_client()
    driver.feed(request(1, "elicitation/create", {"sessionId": "s1", "mode": "form", "message": "?"}))
    driver.conn.cancel_turn(session)
    assert one(driver.drain(), RequestAbandoned).method == "elicitation/create"
    assert driver.sent()[1:] == [result(1, {"action": "cancel"})]


def test_the_agent_takes_a_question_back() -> None:
    driver, _, _ = prompting_client()
    asked = ask(driver, 9)
    event = one(driver.feed(notification("$/cancel_request", {"requestId": 9})), PermissionAnswered)
    assert (event.request_id, event.by) == (asked.request_id, "peer_cancel")
    assert driver.sent() == [result(9, CANCELLED)]


@pytest.mark.parametrize("session_id", ["s9", "", None, 5])
def test_a_question_of_a_stranger_is_answered_cancelled_without_asking(session_id: object) -> None:
    """Not even a policy that allows everything is asked."""
    driver, _, _ = prompting_client(permissions=Policy({"default": "allow"}))
    params = {"sessionId": session_id, "toolCall": {"toolCallId": "c"}, "options": OPTIONS}
    event = one(driver.feed(request("p", "session/request_permission", params)), RequestRefused)
    assert event.code == 0
    assert driver.sent() == [result("p", CANCELLED)]


def test_a_question_about_a_closed_session() -> None:
    driver, session = idle_client()
    id = driver.conn.close_session(session)
    driver.sent()
    driver.feed(result(id, {}))
    assert names(driver.feed(permission("p", "s1"))) == ["RequestRefused"]
    assert driver.sent() == [result("p", CANCELLED)]


def test_a_question_between_turns_is_asked_and_stays() -> None:
    """An agent may work in the background: the next turn's end does not answer for it."""
    driver, session = idle_client()
    asked = ask(driver, "background")
    id = driver.prompt(session)
    ended = driver.feed(result(id, {"stopReason": "end_turn"}))
    assert [type(event) for event in ended] == [TurnEnded]
    driver.conn.answer_permission(asked.request_id, "yes")
    assert driver.sent() == [result("background", selected("yes"))]
