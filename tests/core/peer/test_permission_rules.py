"""Rules P1 to P9: requests of the agent, permissions above all. One test a rule, named after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from acp_core import (
    ElicitationRequested,
    ForeignUpdate,
    LocalProtocolError,
    PermissionAnswered,
    PermissionRequested,
    Policy,
    ReadTextFileRequested,
    RequestAbandoned,
    RequestReceived,
    RequestRefused,
    RequestRepeated,
    Session,
    TurnEnded,
    TurnFailed,
    Update,
)
from tests.core.helpers import (
    CWD,
    OPTIONS,
    ClientDriver,
    Message,
    chunk,
    client,
    idle_client,
    names,
    notification,
    one,
    only,
    permission,
    prompting_client,
    request,
    result,
    update,
)
from tests.spec.requirements import requirement

if TYPE_CHECKING:
    from acp_core.options import CancelThen, Verdict

CANCELLED: Message = {"outcome": {"outcome": "cancelled"}}


def selected(option: str) -> Message:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def option(kind: str) -> Message:
    return {"optionId": f"id of {kind}", "name": "", "kind": kind}


def answers(driver: ClientDriver) -> dict[object, object]:
    """What goes out for the agent's ids: the result, or the error's code."""
    found: dict[object, object] = {}
    for message in driver.sent():
        if "method" not in message:
            assert message["id"] not in found
            failure = message.get("error")
            found[message["id"]] = failure["code"] if isinstance(failure, dict) else message["result"]
    return found


def verdicts(policy: Policy | None, *messages: Message) -> list[str]:
    """What becomes of permission requests of a running turn: the policy's verdicts, or "ask"."""
    driver, _, _ = prompting_client(permissions=policy)
    events = driver.feed(*messages)
    return [
        event.verdict if isinstance(event, PermissionAnswered) else "ask"
        for event in events
        if isinstance(event, (PermissionAnswered, PermissionRequested))
    ]


def test_P1_every_request_is_answered_exactly_once() -> None:
    # A client that can do nothing: the core says so for it.
    driver, _, _ = prompting_client(capabilities=None)
    driver.feed(
        request(0, "fs/read_text_file", {"sessionId": "s1", "path": "/f"}),
        request(1, "fs/write_text_file", {"sessionId": "s1", "path": "/f", "content": ""}),
        request(2, "terminal/create", {"sessionId": "s1", "command": "x"}),
        request(3, "elicitation/create", {"sessionId": "s1", "mode": "form"}),
        request(4, "session/unheard_of", {"sessionId": "s1"}),
        request(5, "_extension", {}),
    )
    assert answers(driver) == dict.fromkeys(range(6), -32601)
    assert len(only(driver.log, RequestRefused)) == 6
    # One that advertised them owns the answers; a mode of elicitation that it did not advertise is refused.
    driver, _, _ = prompting_client(capabilities={"fs": {"readTextFile": True}, "elicitation": {"url": {}}})
    events = driver.feed(
        request(0, "fs/read_text_file", {"sessionId": "s1", "path": "/f"}),
        request(1, "fs/write_text_file", {"sessionId": "s1", "path": "/f", "content": ""}),
        request(2, "elicitation/create", {"sessionId": "s1", "mode": "form"}),
        request(3, "elicitation/create", {"sessionId": "s1", "mode": "url", "elicitationId": "e"}),
        permission(4, "s1"),
    )
    assert answers(driver) == {1: -32601, 2: -32602}
    raised = [event.request_id for event in only(events, RequestReceived)]
    assert len(raised) == 3
    driver.conn.respond(raised[0], {"content": "x"})
    driver.conn.respond_error(raised[1], -32603, "no window")
    driver.conn.answer_permission(raised[2], "yes")
    for request_id in raised:
        with pytest.raises(LocalProtocolError, match="first answer counts"):
            driver.conn.respond(request_id, {})
    assert answers(driver) == {0: {"content": "x"}, 3: -32603, 4: selected("yes")}


def test_P2_the_most_specific_key_of_the_policy_counts_on_the_merged_tool_call() -> None:
    policy = Policy(
        {"Bash": "allow", "execute": "deny", "default": "ask", "edit": "perhaps"}  # type: ignore[dict-item]  # wrong on purpose
    )
    assert verdicts(
        policy,
        permission(0, "s1", title="Bash", kind="execute"),
        permission(1, "s1", title="Make", kind="execute"),
        permission(2, "s1", title="Other", kind="read"),
        permission(3, "s1"),
        # A value that is no verdict counts as deny.
        permission(4, "s1", title="Other", kind="edit"),
    ) == ["allow", "deny", "ask", "ask", "deny"]
    # A request may hold only an id: what was said of it before counts, and the request's own word counts more.
    assert verdicts(
        policy,
        update("s1", "tool_call", toolCallId="t", title="Bash", kind="execute"),
        permission(0, "s1", toolCallId="t"),
        update("s1", "tool_call_update", toolCallId="t", title="Make"),
        permission(1, "s1", toolCallId="t"),
        permission(2, "s1", toolCallId="t", title="Bash"),
        update("s1", "tool_call_update", toolCallId="u", kind="execute"),
        permission(3, "s1", toolCallId="u"),
    ) == ["allow", "deny", "allow", "deny"]
    # No key and no default, or no policy at all: ask.
    assert verdicts(Policy({"Bash": "allow"}), permission(0, "s1", title="x")) == ["ask"]
    assert verdicts(None, permission(0, "s1", title="x")) == ["ask"]


def test_P3_only_what_was_offered_is_chosen_and_always_only_on_purpose() -> None:
    once, always, no, never = (option(kind) for kind in ("allow_once", "allow_always", "reject_once", "reject_always"))
    twin = {**once, "optionId": "twin"}
    odd = option("allow_for_a_day")
    cases: list[tuple[Verdict, bool, list[Message], Message]] = [
        ("allow", False, [always, once, no], selected("id of allow_once")),
        ("allow", False, [always, no], CANCELLED),
        ("allow", True, [no, always], selected("id of allow_always")),
        ("allow", True, [always, once], selected("id of allow_once")),
        ("allow", True, [odd, no], CANCELLED),
        ("deny", False, [once, no, never], selected("id of reject_once")),
        ("deny", False, [once, never], selected("id of reject_always")),
        ("deny", False, [once, always], CANCELLED),
        ("allow", False, [], CANCELLED),
        # Two of one kind are not told apart: the first stands for both.
        ("allow", False, [once, twin], selected("id of allow_once")),
        ("allow", False, [{"name": "no id", "kind": "allow_once"}], CANCELLED),
    ]
    for rules, wide, offered, outcome in cases:
        driver, _, _ = prompting_client(permissions=Policy({"default": rules}, always=wide))
        driver.feed(permission(0, "s1", offered))
        assert answers(driver) == {0: outcome}


def test_P4_ask_holds_the_request_and_the_first_answer_wins() -> None:
    driver, _, _ = prompting_client()
    asked = one(driver.feed(permission("a", "s1")), PermissionRequested)
    assert [(offer.option_id, offer.name, offer.kind) for offer in asked.options] == [
        (offer["optionId"], offer["name"], offer["kind"]) for offer in OPTIONS
    ]
    with pytest.raises(LocalProtocolError, match="not offered"):
        driver.conn.answer_permission(asked.request_id, "maybe")
    assert answers(driver) == {}
    driver.conn.answer_permission(asked.request_id, asked.options[1])
    for again in ("yes", None):
        with pytest.raises(LocalProtocolError, match="first answer counts"):
            driver.conn.answer_permission(asked.request_id, again)
    assert answers(driver) == {"a": selected("always")}
    # Held for 300 seconds by default, then denied.
    driver.feed(permission("b", "s1"), permission("c", "s1", OPTIONS[:1]))
    assert driver.wait(299.9) == []
    denied = only(driver.wait(0.1), PermissionAnswered)
    assert [(event.by, event.verdict, event.option_id) for event in denied] == [
        ("deadline", "deny", "no"),
        ("deadline", "deny", None),
    ]
    assert answers(driver) == {"b": selected("no"), "c": CANCELLED}
    with pytest.raises(LocalProtocolError, match="first answer counts"):
        driver.conn.answer_permission(denied[0].request_id, "yes")
    driver, _, _ = prompting_client(permissions=Policy(ask_deadline=5.0))
    driver.feed(permission("d", "s1"))
    assert one(driver.wait(5.0), PermissionAnswered).by == "deadline"


def test_P5_public_ids_never_come_again_although_the_agents_do() -> None:
    driver, session, prompt = prompting_client(nonce="n1")
    seen = []
    rpc_ids: list[object] = [0, 0, "0", "0b5c5d5e-1111-4222-8333-abcdefabcdef", 0]
    for rpc_id in rpc_ids:
        asked = one(driver.feed(permission(rpc_id, "s1")), PermissionRequested)
        seen.append(asked.request_id)
        # The answer to an earlier turn's question misses, although the agent's id is the same.
        for stale in seen[:-1]:
            with pytest.raises(LocalProtocolError):
                driver.conn.answer_permission(stale, "yes")
        driver.conn.answer_permission(asked.request_id, "no")
        (answer,) = driver.sent()
        # The type comes back as it came.
        assert answer["id"] == rpc_id
        assert type(answer["id"]) is type(rpc_id)
        driver.feed(result(prompt, {"stopReason": "end_turn"}))
        prompt = driver.prompt(session)
    assert seen == [f"n1.{number}" for number in range(1, 6)]


def test_P6_several_are_open_at_once_and_an_id_that_comes_again_is_no_error() -> None:
    driver, _, _ = prompting_client()
    other = driver.conn.open_session(CWD)
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"sessionId": "s2"}))
    events = driver.feed(permission(0, "s1"), permission(1, "s1"), permission(2, "s2"))
    first, second, third = only(events, PermissionRequested)
    assert third.session is other
    # The same again is a replay: counted, not raised, not answered.
    events = driver.feed(permission(0, "s1"))
    assert names(events) == ["RequestRepeated"]
    assert one(events, RequestRepeated).request_id == first.request_id
    # Another one with an open id: the older is abandoned, the newer raised, and no error is written.
    events = driver.feed(permission(1, "s1", title="another"))
    assert names(events) == ["RequestAbandoned", "PermissionRequested"]
    assert one(events, RequestAbandoned).request_id == second.request_id
    assert answers(driver) == {}
    with pytest.raises(LocalProtocolError):
        driver.conn.answer_permission(second.request_id, "yes")
    driver.conn.answer_permission(third.request_id, "yes")
    driver.conn.answer_permission(one(events, PermissionRequested).request_id, "no")
    driver.conn.answer_permission(first.request_id, "always")
    assert answers(driver) == {2: selected("yes"), 1: selected("no"), 0: selected("always")}
    # Nor is a refusal written for an id that is open.
    driver.feed(permission(5, "s1"), request(5, "session/unheard_of", {}))
    assert answers(driver) == {}


def test_P7_policies_merge_to_the_stricter_and_a_check_names_what_widens() -> None:
    site = Policy({"Bash": "ask", "edit": "allow", "default": "ask"}, always=True, ask_deadline=100.0)
    launch = Policy({"Bash": "allow", "edit": "deny", "read": "allow"}, ask_deadline=50.0)
    for merged in (site.merged(launch), launch.merged(site)):
        assert merged.rules == {"Bash": "ask", "edit": "deny", "read": "ask", "default": "ask"}
        assert (merged.always, merged.ask_deadline) == (False, 50.0)
    assert site.widened_by(launch) == "Bash"
    assert site.widened_by(site.merged(launch)) is None
    assert Policy({"default": "deny"}).widened_by(Policy({})) == "default"
    assert Policy({"Rm": "deny", "default": "allow"}).widened_by(Policy({"default": "allow"})) == "Rm"
    assert Policy({}).widened_by(Policy({"default": "deny"})) is None
    assert Policy({}).widened_by(Policy({"default": "nonsense"})) is None  # type: ignore[dict-item]  # wrong on purpose
    # A title hides a kind: neither policy's more specific key widens what the other says of the kind.
    kinds, titles = Policy({"execute": "deny", "default": "allow"}), Policy({"Bash": "allow", "execute": "deny"})
    assert kinds.widened_by(titles) == "Bash"
    for merged in (kinds.merged(titles), titles.merged(kinds), kinds.merged(titles).merged(Policy({"Bash": "allow"}))):
        assert merged.verdict("Bash", "execute") == "deny"
        assert kinds.widened_by(merged) is None


def cancelling() -> tuple[ClientDriver, Session, int]:
    driver, session, prompt = prompting_client()
    driver.conn.cancel_turn(session)
    driver.sent()
    driver.drain()
    return driver, session, prompt


@requirement(83)
def test_P8_cancel_goes_out_first_and_then_every_open_question_is_answered_so() -> None:
    driver, session, prompt = prompting_client()
    driver.feed(
        permission(0, "s1"),
        request(1, "elicitation/create", {"sessionId": "s1", "mode": "form"}),
        request(2, "fs/read_text_file", {"sessionId": "s1", "path": "/f"}),
        request(3, "elicitation/create", {"requestId": 1, "mode": "form"}),
    )
    driver.conn.cancel_turn(session)
    written = driver.sent()
    assert written[0] == notification("session/cancel", {"sessionId": "s1"})
    # What no session names, and what has a handler, is left alone.
    assert [(message["id"], message["result"]) for message in written[1:]] == [
        (0, CANCELLED),
        (1, {"action": "cancel"}),
    ]
    events = driver.drain()
    assert [event.by for event in only(events, PermissionAnswered)] == ["cancel"]
    assert [event.key for event in only(events, RequestAbandoned)] == ["elicitation_create"]
    # A second cancel writes nothing; what arrives now is answered cancelled too.
    driver.conn.cancel_turn(session)
    driver.feed(permission(4, "s1"), request(5, "elicitation/create", {"sessionId": "s1", "mode": "form"}))
    assert answers(driver) == {4: CANCELLED, 5: {"action": "cancel"}}
    driver.conn.respond(one(driver.log, ReadTextFileRequested).request_id, {"content": ""})
    ended = one(driver.feed(result(prompt, {"stopReason": "cancelled"})), TurnEnded)
    assert (ended.stop_reason, ended.cancel_asked) == ("cancelled", "owner")
    # Behind a fence, and while the session closes, the work is cancelled all the same.
    for close in (False, True):
        driver, session, _ = cancelling() if not close else prompting_client()
        if close:
            driver.feed(permission(6, "s1"))
            driver.conn.close_session(session)
            assert answers(driver) == {6: CANCELLED}
        else:
            driver.wait(2.0)
            assert session.state == "fenced"
        driver.feed(permission(7, "s1"))
        assert answers(driver) == {7: CANCELLED}
    # One still open when its turn ends is answered, and reported; one of another time or session is not.
    driver, session, prompt = prompting_client()
    driver.feed(permission(0, "s1"))
    events = driver.feed(result(prompt, {"stopReason": "end_turn"}), permission(1, "s1"))
    assert [(event.rpc_id, event.by) for event in only(events, PermissionAnswered)] == [(0, "turn_end")]
    prompt = driver.prompt(session)
    assert only(driver.feed(result(prompt, {"stopReason": "end_turn"})), PermissionAnswered) == []
    assert answers(driver) == {}
    # The agent takes its own question back.
    events = driver.feed(notification("$/cancel_request", {"requestId": 1}))
    assert one(events, PermissionAnswered).by == "peer_cancel"
    assert answers(driver) == {1: CANCELLED}


def test_P8_cancel_is_one_operation_with_one_of_four_ends() -> None:
    # Cancelled; or ended anyway, with the reason; an error that answers it counts as cancelled, and is kept.
    for answer, stop in (
        ({"result": {"stopReason": "cancelled"}}, "cancelled"),
        ({"result": {"stopReason": "end_turn"}}, "end_turn"),
        ({"error": {"code": -32603, "message": "aborted"}}, "cancelled"),
    ):
        driver, session, prompt = cancelling()
        ended = one(driver.feed({"jsonrpc": "2.0", "id": prompt, **answer}), TurnEnded)
        assert (ended.stop_reason, ended.cancel_asked, session.state) == (stop, "owner", "idle")
        assert (ended.cancel_error is not None) == ("error" in answer)
    # Failed: the answer broke the protocol, or the connection ended.
    driver, _, prompt = cancelling()
    failed = one(driver.feed({"jsonrpc": "2.0", "id": prompt, "result": {}, "error": {}}), TurnFailed)
    assert (failed.outcome, failed.cancel_asked) == ("invalid", "owner")
    driver, _, prompt = cancelling()
    assert one(driver.end(), TurnFailed).outcome == "over"
    # No answer in time: the session is fenced, until the late answer lifts it.
    driver, session, prompt = cancelling()
    assert driver.wait(1.9) == []
    assert names(driver.wait(0.1)) == ["TurnFailed", "SessionFenced"]
    assert one(driver.feed(chunk("s1", "x")), Update).late
    with pytest.raises(LocalProtocolError, match="fence"):
        driver.conn.prompt(session, "next")
    assert names(driver.feed(result(prompt, {"stopReason": "cancelled"}))) == ["AnswerUnmatched", "FenceLifted"]
    assert session.state == "idle"
    # What happens at the fence is an argument.
    ends: list[tuple[CancelThen, str | None, str]] = [
        ("close_session", "session/close", "closing"),
        ("close", None, "closed"),
    ]
    for then, method, state in ends:
        driver, session, _ = prompting_client()
        driver.conn.cancel_turn(session, deadline=1.0, then=then)
        driver.sent()
        driver.wait(1.0)
        assert [message["method"] for message in driver.sent()] == ([method] if method else [])
        assert session.state == state
    # A prompt's own deadline runs the same operation.
    driver, session = idle_client()
    prompt = driver.conn.prompt(session, "hi", deadline=10.0)
    driver.sent()
    driver.wait(10.0)
    assert [message["method"] for message in driver.sent()] == ["session/cancel"]
    assert one(driver.feed(result(prompt, {"stopReason": "cancelled"})), TurnEnded).cancel_asked == "deadline"
    # When idle, cancel is still written; it starts no deadline and no turn ends.
    driver, session = idle_client()
    driver.conn.cancel_turn(session)
    assert [message["method"] for message in driver.sent()] == ["session/cancel"]
    assert driver.conn.next_deadline() is None
    assert driver.wait(100.0) == []
    assert session.state == "idle"


def test_P8_a_request_that_is_held_for_its_session_can_be_cancelled() -> None:
    """The agent asks before it has answered session/new, and takes it back before anybody has seen it."""
    for ids in ([0], [0, 1], ["0"]):
        driver = client().initialize()
        driver.conn.open_session(CWD)
        (new,) = driver.sent()
        driver.feed(
            permission(0, "s1"),
            *(notification("$/cancel_request", {"requestId": id}) for id in ids),
            permission(2, "s1"),
        )
        assert driver.sent() == []
        events = driver.feed(result(new["id"], {"sessionId": "s1"}))
        cancelled = only(events, PermissionAnswered)
        assert [event.by for event in cancelled] == (["peer_cancel"] if ids != ["0"] else [])
        assert answers(driver) == (dict.fromkeys([0], CANCELLED) if ids != ["0"] else {})
        assert [event.rpc_id for event in only(events, PermissionRequested)] == [0, 2]


def test_P9_what_belongs_to_no_session_here_is_cancelled_reported_or_held() -> None:
    driver, _, _ = prompting_client(permissions=Policy({"default": "allow"}))
    events = driver.feed(
        permission(0, "s9"),
        request(1, "fs/read_text_file", {"sessionId": "s9", "path": "/f"}),
        chunk("s9", "not ours"),
    )
    # Cancelled without asking the policy, which would allow.
    assert answers(driver) == {0: CANCELLED, 1: -32002}
    assert names(events) == ["RequestRefused", "RequestRefused", "ForeignUpdate"]
    assert (one(events, ForeignUpdate).session_id, one(events, ForeignUpdate).why) == ("s9", "unknown")
    # Ahead of a session/new that has not answered, they are held: for it, or for nobody.
    driver = client(permissions=Policy({"default": "allow"})).initialize()
    session = driver.conn.open_session(CWD)
    (message,) = driver.sent()
    driver.drain()
    ahead = [chunk("s1", "early"), permission(0, "s1"), chunk("s9", "early too"), permission(1, "s9")]
    assert driver.feed(*ahead) == []
    assert answers(driver) == {}
    events = driver.feed(result(message["id"], {"sessionId": "s1"}))
    assert [(event.session, event.raw.endswith(b"}")) for event in only(events, Update)] == [(session, True)]
    assert [event.rpc_id for event in only(events, PermissionAnswered)] == [0]
    assert [event.session_id for event in only(events, ForeignUpdate)] == ["s9"]
    assert answers(driver) == {0: selected("yes"), 1: CANCELLED}
    # And what names no session at all is reported.
    assert names(driver.feed(notification("session/update", {"update": {}}))) == ["Malformed"]
    assert isinstance(
        one(driver.feed(request(9, "elicitation/create", {"mode": "form", "requestId": 1})), ElicitationRequested),
        RequestReceived,
    )
