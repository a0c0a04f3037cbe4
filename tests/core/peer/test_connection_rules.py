"""Rules C1 to C12: the connection, its prompts and their turns. One test a rule, named after it."""

from __future__ import annotations

import json

import pytest

from acp_core import (
    AgentMessageChunk,
    AnswerUnmatched,
    ConnectionOver,
    CycleEnded,
    Event,
    FenceLifted,
    LocalProtocolError,
    PermissionAnswered,
    Policy,
    PromptSent,
    RequestSettled,
    SessionFailed,
    SessionFenced,
    SessionOpened,
    SessionStep,
    TurnEnded,
    TurnFailed,
    UsageUpdate,
    WriteFailed,
)
from acp_core.usage import classify_error
from tests.core.helpers import (
    CWD,
    FULL_AGENT,
    Message,
    chunk,
    client,
    error,
    idle_client,
    names,
    notification,
    one,
    only,
    permission,
    prompting_client,
    result,
    update,
)

AUTH: list[Message] = [{"id": "key", "name": "Key", "_meta": {"api-key": {}}}]
SELECT_MODEL = [{"id": "model", "name": "Model", "type": "select", "currentValue": "small", "options": []}]
AGREED = {"protocolVersion": 1, "agentCapabilities": FULL_AGENT, "authMethods": AUTH}


def test_C1_one_connection_serves_many_turns_and_sessions_in_the_order_of_the_plan() -> None:
    driver = client()
    session = driver.conn.open_session(CWD, auth="unattended", model="large")
    first = driver.conn.prompt(session, "one")
    answers = {
        "initialize": AGREED,
        "authenticate": {},
        "session/new": {"sessionId": "s1", "configOptions": SELECT_MODEL},
        "session/set_config_option": {"configOptions": [{**SELECT_MODEL[0], "currentValue": "large"}]},
    }
    written = []
    for _ in range(4):
        (message,) = driver.sent()
        written.append(message["method"])
        driver.feed(result(message["id"], answers[str(message["method"])]))
    (prompt,) = driver.sent()
    assert [*written, prompt["method"]] == [*answers, "session/prompt"]
    driver.feed(result(first, {"stopReason": "end_turn"}))
    assert session.state == "idle"
    # The next turn and the next session: no handshake again.
    second = driver.conn.prompt(session, "two")
    other = driver.conn.open_session("/other")
    assert [message["method"] for message in driver.sent()] == ["session/prompt", "session/new"]
    driver.feed(result(second, {"stopReason": "end_turn"}), result(second + 1, {"sessionId": "s2"}))
    third, fourth = driver.conn.prompt(session, "three"), driver.conn.prompt(other, "four")
    assert [message["id"] for message in driver.sent()] == [third, fourth]
    # Both turns end with the input, each by itself, and the connection last.
    events = driver.end()
    assert [event.prompt_id for event in only(events, TurnFailed)] == [third, fourth]
    assert isinstance(events[-1], ConnectionOver)


def test_C2_one_prompt_waits_and_any_other_is_refused_and_writes_nothing() -> None:
    driver = client()
    session = driver.conn.open_session(CWD)
    words = [{"type": "text", "text": "as it was given"}]
    waiting = driver.conn.prompt(session, words)
    words[0]["text"] = "changed later"
    with pytest.raises(LocalProtocolError, match="starting"):
        driver.conn.prompt(session, "another")
    (hello,) = driver.sent()
    driver.feed(result(hello["id"], AGREED))
    (new,) = driver.sent()
    assert new["method"] == "session/new"
    driver.feed(result(new["id"], {"sessionId": "s1"}))
    # It goes out when the session is ready, as it was when it was given.
    (prompt,) = driver.sent()
    assert prompt["id"] == waiting
    assert prompt["params"] == {"sessionId": "s1", "prompt": [{"type": "text", "text": "as it was given"}]}
    for state in ("prompting", "cancelling"):
        if state == "cancelling":
            driver.conn.cancel_turn(session)
        before = driver.conn.output_bytes
        with pytest.raises(LocalProtocolError, match=state):
            driver.conn.prompt(session, "another")
        assert driver.conn.output_bytes == before
    # One that waits can be withdrawn: it was not sent, and nothing of it is written.
    other = driver.conn.open_session(CWD)
    driver.sent()
    withdrawn = driver.conn.prompt(other, "never mind")
    driver.conn.cancel_turn(other)
    failed = one(driver.drain(), TurnFailed)
    assert (failed.prompt_id, failed.outcome, failed.dispatch) == (withdrawn, "withdrawn", "not_sent")
    driver.feed(result(new["id"] + 2 if isinstance(new["id"], int) else None, {"sessionId": "s2"}))
    assert driver.sent() == []


def test_C3_updates_that_come_while_idle_are_reported() -> None:
    driver, session = idle_client()
    (event,) = driver.feed(chunk("s1", "still working"))
    assert isinstance(event, AgentMessageChunk)
    assert (event.text, event.session, event.turn, event.mark) == ("still working", session, None, "")


def origin(kind: object, beside: bool) -> dict[str, object]:
    """A usage update with an origin in its ``_meta``, or in that of the params beside it."""
    meta = {"_claude/origin": {"kind": kind}}
    return notification(
        "session/update",
        {
            "sessionId": "s1",
            "update": {"sessionUpdate": "usage_update", "used": 1, "size": 2, **({} if beside else {"_meta": meta})},
            **({"_meta": meta} if beside else {}),
        },
    )


def test_C4_the_end_of_an_autonomous_cycle_is_reported() -> None:
    driver, session = idle_client()
    kind: object
    for kind in ("task-notification", "peer", "coordinator", "observer", "observer-activity"):
        for beside in (False, True):
            events = driver.feed(origin(kind, beside))
            assert names(events) == ["UsageUpdate", "CycleEnded"]
            assert (one(events, CycleEnded).origin, one(events, CycleEnded).session) == (kind, session)
    for kind in ("human", "", None, 3):
        assert names(driver.feed(origin(kind, False))) == ["UsageUpdate"]
    assert names(driver.feed(update("s1", "usage_update", used=1, size=2))) == ["UsageUpdate"]
    # The set is the owner's choice; and what a history tells is no cycle of now.
    chosen, _ = idle_client(cycle_origins=("mine",))
    found = chosen.feed(origin("peer", False), origin("mine", False))
    assert names(found) == ["UsageUpdate", "UsageUpdate", "CycleEnded"]
    loading = client().initialize()
    loading.load(replay_quiet=1.0)
    assert one(loading.feed(origin("peer", False)), UsageUpdate).replayed
    assert only(loading.log, CycleEnded) == []


def test_C5_a_prompts_id_is_reported_when_its_bytes_are_handed_over() -> None:
    driver, session = idle_client()
    prompt = driver.conn.prompt(session, "hi")
    assert driver.drain() == []
    data = driver.conn.data_to_send(driver.now, max_bytes=1)
    # One byte has left, and the owner knows before it is written.
    assert data == b"{"
    sent = one(driver.drain(), PromptSent)
    assert (sent.prompt_id, sent.session, sent.at) == (prompt, session, driver.now)
    assert driver.conn.data_to_send(driver.now).endswith(b"\n")
    driver.feed(result(prompt, {"stopReason": "end_turn"}))
    # Never for one that was withdrawn.
    driver.conn.prompt(session, "never mind")
    driver.conn.cancel_turn(session)
    assert driver.conn.data_to_send(driver.now) == b""
    assert only(driver.drain(), PromptSent) == []
    assert one(driver.log, PromptSent) is sent


def test_C6_the_session_id_comes_first_then_what_was_held_then_readiness() -> None:
    driver = client().initialize()
    session = driver.conn.open_session(CWD)
    (message,) = driver.sent()
    driver.drain()
    assert driver.feed(chunk("s1", "early")) == []
    events = driver.feed(result(message["id"], {"sessionId": "s1"}))
    assert names(events) == ["SessionStep", "SessionOpened", "AgentMessageChunk", "SessionReady"]
    assert session.session_id == one(events, SessionOpened).session_id == "s1"
    # Without an id nothing is ready, and a prompt that waits is not sent into the dark.
    answer: object
    for answer in ({}, {"sessionId": None}, {"sessionId": 7}, {"sessionId": ""}, None, [], "s3"):
        blind = driver.conn.open_session(CWD)
        driver.conn.prompt(blind, "hi")
        (message,) = driver.sent()
        events = driver.feed(result(message["id"], answer))
        assert one(events, SessionFailed).outcome == "invalid"
        assert one(events, TurnFailed).dispatch == "not_sent"
        assert driver.sent() == []
    # The id of a loaded session is known: its answer may be null.
    loaded, id = driver.load("s9")
    driver.feed(result(id, None))
    driver.wait(0.25)
    assert loaded.state == "idle"


def test_C7_a_stop_reason_that_nobody_knows_is_never_success() -> None:
    for answer, reason in (
        ({}, ""),
        ({"stopReason": None}, ""),
        ({"stopReason": ""}, ""),
        ({"stopReason": 3}, ""),
        (None, ""),
        ({"stopReason": "new_reason", "extra": [1]}, "new_reason"),
    ):
        driver, _, prompt = prompting_client()
        ended = one(driver.feed(result(prompt, answer)), TurnEnded)
        assert ended.stop_reason == reason
        assert not ended.known
        # The raw response stays within reach.
        assert ended.result == (answer if isinstance(answer, dict) else {})
        assert json.loads(ended.line)["result"] == answer
    driver, _, prompt = prompting_client()
    assert one(driver.feed(result(prompt, {"stopReason": "end_turn"})), TurnEnded).known


def test_C8_each_step_of_the_plan_is_an_event_with_its_time() -> None:
    driver = client()
    session = driver.conn.open_session(CWD, resume="s1", auth="unattended", model="large")
    agreed = {**AGREED, "agentCapabilities": {"loadSession": True}}
    for answer in (agreed, {}, {"configOptions": SELECT_MODEL}):
        (message,) = driver.sent()
        driver.drain()
        driver.now += 2.0
        driver.feed(result(message["id"], answer))
    driver.wait(0.25)
    (message,) = driver.sent()
    driver.drain()
    driver.now += 2.0
    driver.feed(error(message["id"], -32602))
    steps = [(step.step, step.method, step.phase, step.at) for step in only(driver.log, SessionStep)]
    assert steps == [
        ("initialize", "initialize", "sent", 100.0),
        ("initialize", "initialize", "done", 102.0),
        ("authenticate", "authenticate", "sent", 102.0),
        ("authenticate", "authenticate", "done", 104.0),
        ("session_load", "session/load", "sent", 104.0),
        ("session_load", "session/load", "done", 106.0),
        ("session_set_config_option", "session/set_config_option", "sent", 106.25),
        ("session_set_config_option", "session/set_config_option", "failed", 108.25),
    ]
    assert all(step.session is session for step in only(driver.log, SessionStep))
    # Sessions that share a step are told of it each.
    shared = client().initialize(auth_methods=AUTH)
    both = [shared.conn.open_session(CWD, auth="key") for _ in range(2)]
    (message,) = shared.sent()
    events = [*shared.drain(), *shared.feed(result(message["id"], {}))]
    told = [(step.session, step.phase) for step in only(events, SessionStep) if step.step == "authenticate"]
    assert told == [(session, phase) for phase in ("sent", "done") for session in both]


def test_C9_a_failed_write_is_reported_once_and_reading_goes_on() -> None:
    driver, session, prompt = prompting_client()
    driver.conn.request("_ask")
    driver.conn.send_failed("broken pipe", driver.now)
    driver.conn.send_failed("broken pipe", driver.now)
    events = driver.drain()
    assert one(events, WriteFailed).reason == "broken pipe"
    assert one(events, RequestSettled).dispatch == "not_sent"
    # Nothing is written after it, not even what the core would answer by itself.
    driver.feed(permission(0, "other"))
    assert driver.conn.data_to_send(driver.now) == b""
    with pytest.raises(LocalProtocolError, match="write has failed"):
        driver.conn.cancel_turn(session)
    # The last words of the agent are the reason, and they end the turn.
    failed = one(driver.feed(chunk("s1", "out of credit"), error(prompt, -32603, "out of credit")), TurnFailed)
    assert (str(failed.error), failed.dispatch) == ("out of credit (-32603)", "answered")
    assert isinstance(driver.end()[-1], ConnectionOver)
    assert len(only(driver.log, WriteFailed)) == 1
    # Nor is a session ready to which nothing can be written.
    driver = client().initialize()
    driver.conn.open_session(CWD)
    (message,) = driver.sent()
    driver.conn.send_failed("broken pipe", driver.now)
    events = driver.feed(result(message["id"], {"sessionId": "s1"}))
    assert names(events)[-2:] == ["SessionOpened", "SessionFailed"]
    assert one(events, SessionFailed).dispatch == "sent_no_reply"


def test_C10_an_answer_to_nobody_is_reported_and_otherwise_ignored() -> None:
    driver, session, prompt = prompting_client()
    stray = one(driver.feed(result(999, {"stopReason": "end_turn"})), AnswerUnmatched)
    assert (stray.rpc_id, stray.why) == (999, "unknown")
    assert session.state == "prompting"
    answer = result(prompt, {"stopReason": "end_turn"})
    events = driver.feed(answer, answer)
    assert names(events) == ["TurnEnded", "AnswerUnmatched"]
    assert one(events, AnswerUnmatched).why == "repeated"


def test_C11_only_an_answer_to_the_prompts_own_id_ends_the_turn() -> None:
    driver, session, prompt = prompting_client()
    driver.feed(
        update("s1", "session_info_update", title="done", stopReason="end_turn"),
        notification("session/update", {"sessionId": "s1", "stopReason": "end_turn"}),
        notification("_turn_over", {"sessionId": "s1", "stopReason": "end_turn"}),
        result(prompt + 1, {"stopReason": "end_turn"}),
        error(None, -32603, "the model is gone"),
        error(str(prompt) + "0", -32603),
        {"id": prompt, "result": {"stopReason": "end_turn"}},
    )
    assert session.state == "prompting"
    assert not [event for event in driver.log if isinstance(event, (TurnEnded, TurnFailed))]
    failed = one(driver.feed(error(prompt, -32603, "overloaded")), TurnFailed)
    assert (failed.outcome, failed.prompt_id) == ("error", prompt)
    assert session.state == "idle"


def test_C11_an_error_is_told_apart_on_the_prompt_and_stays_generic_elsewhere() -> None:
    for message, data, kind in (
        ("Internal error", {"error": {"type": "permission_error", "message": "not you"}}, "account"),
        ("The model `large` does not exist", None, "model_gone"),
        ("File not found", None, "generic"),
        ("overloaded", None, "generic"),
    ):
        driver, _, prompt = prompting_client()
        refusal = error(prompt, -32603, message)
        if data is not None:
            refusal["error"] = {"code": -32603, "message": message, "data": data}
        failure = one(driver.feed(refusal), TurnFailed).error
        assert classify_error(failure) == kind
        assert classify_error(failure, "session_new") == "generic"


def identities(events: list[Event]) -> set[object]:
    return {getattr(event, "identity", "none") for event in events}


def test_C12_the_owners_identity_is_on_every_event_of_its_turn_and_in_the_snapshot() -> None:
    driver, session = idle_client()
    with pytest.raises(LocalProtocolError):
        driver.conn.prompt(session, "hi", identity="x" * 1025)
    prompt = driver.conn.prompt(session, "hi", identity="order 7")
    driver.sent()
    events = driver.drain()
    events += driver.feed(chunk("s1", "a"), update("s1", "tool_call", toolCallId="c"), permission(0, "s1"))
    assert names(events) == ["PromptSent", "AgentMessageChunk", "ToolCall", "PermissionRequested"]
    assert identities(events) == {"order 7"}
    stored = driver.conn.snapshot()["sessions"]
    assert isinstance(stored, list)
    assert [(row["promptId"], row["identity"]) for row in stored] == [(prompt, "order 7")]
    driver.conn.cancel_turn(session, deadline=2.0)
    events = driver.drain()
    driver.sent()
    events += driver.wait(2.0)
    events += driver.feed(result(prompt, {"stopReason": "cancelled"}))
    assert names(events) == ["PermissionAnswered", "TurnFailed", "SessionFenced", "AnswerUnmatched", "FenceLifted"]
    told = (PermissionAnswered, TurnFailed, SessionFenced, FenceLifted)
    assert identities([event for event in events if isinstance(event, told)]) == {"order 7"}
    # The next turn has its own, or none.
    second = driver.prompt(session)
    events = driver.feed(chunk("s1", "b"), result(second, {"stopReason": "end_turn"}))
    assert identities(events) == {None}
    assert one(events, TurnEnded).prompt_id == second

    # What the policy answers is told with it too.
    strict, idle = idle_client(permissions=Policy({"default": "deny"}))
    strict.conn.prompt(idle, "hi", identity="order 8")
    strict.sent()
    strict.drain()
    assert identities(strict.feed(permission(0, "s1"))) == {"order 8"}
