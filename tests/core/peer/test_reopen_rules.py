"""Rules L1 to L7: opening a session again. One test a rule, named after it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from acp_core import (
    AgentMessageChunk,
    ForeignUpdate,
    LocalProtocolError,
    PermissionAnswered,
    PermissionRequested,
    Policy,
    ReadTextFileRequested,
    ReplayDiscarded,
    RequestError,
    SessionFailed,
    SessionReady,
    SessionStep,
    Update,
)
from tests.core.helpers import (
    CWD,
    FULL_AGENT,
    ClientDriver,
    Message,
    chunk,
    client,
    error,
    names,
    one,
    only,
    permission,
    request,
    result,
    update,
)
from tests.spec.requirements import requirement

LOAD_ONLY: Message = {"loadSession": True}
# The kinds of update that make a transcript, one that nobody knows included.
HISTORY = [
    chunk("s1", "a", "user_message_chunk"),
    chunk("s1", "b"),
    chunk("s1", "c", "agent_thought_chunk"),
    update("s1", "tool_call", toolCallId="t", title="Bash"),
    update("s1", "tool_call_update", toolCallId="t", status="completed"),
    update("s1", "plan", entries=[]),
    update("s1", "a_kind_of_tomorrow", text="d"),
]
# The kinds that hold the whole of some state.
STATE = [
    update("s1", "available_commands_update", availableCommands=[{"name": "go", "description": ""}]),
    update("s1", "current_mode_update", currentModeId="plan"),
    update("s1", "config_option_update", configOptions=[{"id": "o", "currentValue": "x"}]),
    update("s1", "session_info_update", title="Titled"),
    update("s1", "usage_update", used=1, size=2),
]


def loading(capabilities: Mapping[str, object] = LOAD_ONLY, **how: object) -> tuple[ClientDriver, object]:
    """A client that waits for the answer to session/load (or resume) of "s1": its driver, and the request's id."""
    driver = client().initialize(capabilities)
    _, id = driver.load("s1", **how)
    driver.drain()
    driver.log.clear()
    return driver, id


def test_L1_resume_is_preferred_then_load_and_never_a_second_session_in_silence() -> None:
    able: list[tuple[Message, str]] = [
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, "session/resume"),
        ({"loadSession": False, "sessionCapabilities": {"resume": {"more": 1}}}, "session/resume"),
        ({"loadSession": True, "sessionCapabilities": {"resume": None}}, "session/load"),
        ({"loadSession": True, "sessionCapabilities": {"resume": False}}, "session/load"),
        ({"loadSession": True, "sessionCapabilities": {"resume": True}}, "session/load"),
        ({"loadSession": True}, "session/load"),
    ]
    for capabilities, method in able:
        driver = client().initialize(capabilities)
        driver.conn.open_session(CWD, resume="s1")
        assert [message["method"] for message in driver.sent()] == [method]
    unable: list[Message] = [{}, {"loadSession": "yes"}, {"loadSession": {}}, {"sessionCapabilities": {"resume": 1}}]
    for capabilities in unable:
        driver = client().initialize(capabilities)
        session = driver.conn.open_session(CWD, resume="s1")
        assert driver.sent() == []
        failed = one(driver.drain(), SessionFailed)
        assert (failed.session, failed.dispatch) == (session, "not_sent")
        assert "neither resume nor load" in str(failed.error)
    driver = client().initialize()
    with pytest.raises(LocalProtocolError, match="empty id"):
        driver.conn.open_session(CWD, resume="")
    # Nor is one session opened twice on a connection, not even before the handshake is done.
    driver = client()
    driver.conn.open_session(CWD, resume="s1")
    with pytest.raises(LocalProtocolError, match="is open here"):
        driver.conn.open_session(CWD, resume="s1")


def test_L1_a_reopening_that_waited_does_not_take_a_session_away() -> None:
    """While it waits for its login, the agent gives the id to a new session, which is being configured by then."""
    driver = client().initialize(LOAD_ONLY, auth_methods=[{"id": "key", "name": "Key"}])
    options = {"configOptions": [{"id": "o", "currentValue": "x"}]}
    first = driver.conn.open_session(CWD, config={"o": "y"})
    second = driver.conn.open_session(CWD, resume="s1", auth="key")
    new, login = driver.sent()
    driver.feed(result(new["id"], {"sessionId": "s1", **options}))
    (setting,) = driver.sent()
    failed = one(driver.feed(result(login["id"], {})), SessionFailed)
    assert (failed.session, failed.dispatch) == (second, "not_sent")
    assert isinstance(failed.error, LocalProtocolError)
    assert failed.error.rule == "session.open"
    assert driver.sent() == []
    driver.feed(result(setting["id"], {"configOptions": [{"id": "o", "currentValue": "y"}]}))
    assert (first.state, driver.conn.session("s1")) == ("idle", first)


@requirement(57, 58, 67)
def test_L2_the_options_of_the_session_are_sent_again() -> None:
    options: Message = {
        "mcp_servers": [{"name": "m", "command": "/bin/m", "args": [], "env": []}],
        "additional_directories": ["/more"],
        "meta": {"tag": 1},
    }
    params = {
        "cwd": CWD,
        "mcpServers": options["mcp_servers"],
        "additionalDirectories": ["/more"],
        "_meta": {"tag": 1},
    }
    resuming: Message = {"sessionCapabilities": {"resume": {}, "additionalDirectories": {}}}
    for capabilities, resume in ((FULL_AGENT, None), (resuming, "s1"), ({**resuming, **LOAD_ONLY}, "s1")):
        driver = client().initialize(capabilities)
        driver.conn.open_session(CWD, resume=resume, **options)  # type: ignore[arg-type]  # as they stand above
        (message,) = driver.sent()
        assert message["params"] == {**params, **({"sessionId": resume} if resume else {})}
    # Load and resume send empty lists too: absent would mean something else to an agent.
    driver, _ = loading()
    again = driver.conn.open_session(CWD, resume="s2")
    assert driver.sent()[0]["params"] == {"cwd": CWD, "mcpServers": [], "sessionId": "s2"}
    assert again.cwd == CWD


@requirement(57)
def test_L3_what_comes_while_a_load_is_outstanding_is_replay() -> None:
    for replay in ("discard", "report"):
        driver, id = loading(replay=replay)
        before = driver.feed(*HISTORY, *STATE)
        driver.feed(result(id, {}))
        after = driver.feed(*HISTORY, *STATE)
        for events in (before, after):
            kinds = [(event.kind, event.mark) for event in only(events, Update)]
            told = (HISTORY if replay == "report" else []) + STATE
            assert kinds == [(message["params"]["update"]["sessionUpdate"], "replayed") for message in told]  # type: ignore[index]
        events = driver.wait(0.25)
        # Discarded is counted, and reported is not discarded: never both, never neither.
        assert [event.count for event in only(events, ReplayDiscarded)] == ([] if replay == "report" else [14])
        assert one(events, SessionReady).replayed == 14
        # State is applied either way.
        session = one(events, SessionReady).session
        assert session.current_mode_id == "plan"
        assert session.title == "Titled"
        assert session.available_commands[0]["name"] == "go"
        assert session.usage is not None
        assert session.config_options == [{"id": "o", "currentValue": "x"}]
        # And what comes from here on is live.
        assert one(driver.feed(chunk("s1", "now")), AgentMessageChunk).mark == ""


def test_L3_what_comes_between_a_refusal_and_the_login_that_it_asked_for_is_replay() -> None:
    for replay, shown in (("discard", 0), ("report", 1)):
        keys: list[Message] = [{"id": "key", "name": "Key", "type": "env_var"}]
        driver = client().initialize(LOAD_ONLY, auth_methods=keys)
        _, id = driver.load("s1", replay=replay)
        assert len(only(driver.feed(error(id, -32000, "log in"), HISTORY[0]), Update)) == shown
        (login,) = driver.sent()
        driver.feed(result(login["id"], {}))
        (again,) = driver.sent()
        driver.feed(HISTORY[0], result(again["id"], {}))
        assert one(driver.wait(0.25), SessionReady).replayed == 2


def test_L4_the_load_response_does_not_close_the_window() -> None:
    driver, id = loading()
    session = driver.conn.session("s1")
    assert session is not None
    prompt = driver.conn.prompt(session, "hi")
    # The answer comes after the first of six replayed updates.
    driver.feed(HISTORY[0], result(id, {}))
    for message in HISTORY[1:6]:
        assert only(driver.wait(0.2), SessionReady) == []
        assert only(driver.feed(message), Update) == []
    # Whole states and other sessions' updates are no history: they do not push the quiet time.
    driver.wait(0.2)
    driver.feed(*STATE, chunk("another", "x"))
    assert driver.sent() == []
    events = driver.wait(0.05)
    assert names(events) == ["ReplayDiscarded", "SessionReady"]
    assert one(events, ReplayDiscarded).count == 6
    # The prompt that waited goes out then, and its answer is not eaten.
    assert [message["id"] for message in driver.sent()] == [prompt]
    events = driver.feed(chunk("s1", "the answer"), result(prompt, {"stopReason": "end_turn"}))
    assert names(events) == ["PromptSent", "AgentMessageChunk", "TurnEnded"]
    # An agent that never falls silent is cut off, counted from the response.
    driver, id = loading(replay_quiet=0.25, replay_max=1.0)
    driver.wait(5.0)
    driver.feed(result(id, {}))
    for _ in range(7):
        driver.wait(0.125)
        assert only(driver.feed(chunk("s1", "x")), AgentMessageChunk) == []
    assert names(driver.wait(0.125)) == ["ReplayDiscarded", "SessionReady"]
    assert one(driver.feed(chunk("s1", "x")), AgentMessageChunk).mark == ""


@requirement(58)
def test_L5_a_resume_opens_no_window_but_what_comes_before_its_answer_is_replay() -> None:
    for replay, shown in (("discard", 0), ("report", 7)):
        driver, id = loading(FULL_AGENT, replay=replay)
        events = driver.feed(*HISTORY, *STATE)
        assert len(only(events, Update)) == shown + len(STATE)
        assert all(event.replayed for event in only(events, Update))
        # Ready at once: no time has to pass.
        events = driver.feed(result(id, {}), chunk("s1", "live"))
        assert one(events, SessionReady).replayed == 7
        assert len(only(events, ReplayDiscarded)) == (0 if shown else 1)
        assert one(events, AgentMessageChunk).mark == ""


def test_L6_a_refused_reopening_may_be_followed_by_one_fresh_session() -> None:
    driver = client().initialize(auth_methods=[{"id": "key", "name": "Key", "type": "env_var"}])
    session = driver.conn.open_session(
        CWD,
        resume="s1",
        auth="key",
        model="large",
        additional_directories=["/more"],
        fresh_if_refused=True,
    )
    prompt = driver.conn.prompt(session, "hi")
    written = []
    models = {"models": {"currentModelId": "small", "availableModels": []}}
    for answer in ({}, None, {"sessionId": "s2", **models}, {}):
        (message,) = driver.sent()
        written.append((message["method"], message["params"]))
        refusal = error(message["id"], -32002, "gone")
        driver.feed(refusal if answer is None else result(message["id"], answer))
    again = {"cwd": CWD, "mcpServers": [], "additionalDirectories": ["/more"]}
    # The login is kept, the model is chosen again, and the ids go on counting.
    assert written == [
        ("authenticate", {"methodId": "key"}),
        ("session/resume", {**again, "sessionId": "s1"}),
        ("session/new", again),
        ("session/set_model", {"sessionId": "s2", "modelId": "large"}),
    ]
    assert (session.session_id, session.state) == ("s2", "prompting")
    assert [message["id"] for message in driver.sent()] == [prompt]
    assert driver.conn.session("s1") is None
    assert one(driver.feed(chunk("s1", "of the old one")), ForeignUpdate).why == "unknown"
    # Never after a prompt was written: a prompt that fails opens nothing.
    driver.feed(error(prompt, -32002, "no such session"))
    assert driver.sent() == []
    # Off by default; never twice; never without a refusal; never after a failed write.
    driver, id = loading()
    failed = one(driver.feed(error(id, -32002, "gone")), SessionFailed)
    assert isinstance(failed.error, RequestError)
    assert driver.sent() == []
    driver, id = loading(fresh_if_refused=True)
    driver.feed(error(id, -32002))
    (message,) = driver.sent()
    assert names(driver.feed(error(message["id"], -32603)))[-1] == "SessionFailed"
    assert driver.sent() == []
    driver, _ = loading(fresh_if_refused=True, step_deadline=5.0)
    assert one(driver.wait(5.0), SessionFailed).outcome == "deadline"
    assert [message["method"] for message in driver.sent()] == ["$/cancel_request"]
    driver, id = loading(fresh_if_refused=True)
    driver.conn.send_failed("broken pipe", driver.now)
    events = driver.feed(error(id, -32002))
    assert one(events, SessionFailed).step == "session_load"
    assert [(step.step, step.phase) for step in only(events, SessionStep)] == [("session_load", "failed")]
    assert driver.conn.data_to_send(driver.now) == b""
    # An agent that can do neither has refused as well.
    driver = client().initialize({})
    driver.conn.open_session(CWD, resume="s1", fresh_if_refused=True)
    assert [message["method"] for message in driver.sent()] == ["session/new"]


def test_L6_what_was_asked_and_said_in_the_refused_session_is_none_of_the_new_ones() -> None:
    driver = client(permissions=Policy({"Read": "allow"})).initialize(LOAD_ONLY)
    session, id = driver.load("s1", fresh_if_refused=True)
    driver.feed(
        permission(7, "s1", title="Bash"),
        request(8, "elicitation/create", {"sessionId": "s1", "mode": "form", "message": "?"}),
        request(9, "fs/read_text_file", {"sessionId": "s1", "path": "/f"}),
        update("s1", "tool_call", toolCallId="t", title="Read"),
        *STATE,
    )
    asked, reading = one(driver.log, PermissionRequested), one(driver.log, ReadTextFileRequested)
    answered = one(driver.feed(error(id, -32002)), PermissionAnswered)
    assert (answered.request_id, answered.by, answered.option_id) == (asked.request_id, "close", None)
    cancelled, closed, new = driver.sent()
    assert (cancelled["id"], cancelled["result"]) == (7, {"outcome": {"outcome": "cancelled"}})
    assert (closed["id"], closed["result"]) == (8, {"action": "cancel"})
    # A file is still answered by its handler.
    driver.conn.respond(reading.request_id, {"content": ""})
    assert [message["id"] for message in driver.sent()] == [9]
    driver.feed(result(new["id"], {"sessionId": "s2"}))
    assert (session.session_id, session.state) == ("s2", "idle")
    said = (session.current_mode_id, session.config_options, session.available_commands, session.title, session.usage)
    assert said == (None, None, [], None, None)
    # A call of the new session is no call that the policy has heard of in the old one.
    driver.feed(permission(7, "s2", toolCallId="t"))
    assert len(only(driver.log, PermissionRequested)) == 2


def test_L7_requests_during_the_window_are_answered_as_at_any_time() -> None:
    for answered in (False, True):
        driver = client(permissions=Policy({"Bash": "allow", "Rm": "deny"})).initialize(LOAD_ONLY)
        _, id = driver.load("s1")
        driver.feed(HISTORY[3], *([result(id, {})] if answered else []))
        driver.log.clear()
        events = driver.feed(
            permission(0, "s1", toolCallId="t"),
            permission(1, "s1", toolCallId="u", title="Rm"),
            permission(2, "s1", toolCallId="v", title="Other"),
            request(3, "fs/read_text_file", {"sessionId": "s1", "path": "/f"}),
            request(4, "terminal/unheard_of", {"sessionId": "s1"}),
        )
        assert [event.verdict for event in only(events, PermissionAnswered)] == ["allow", "deny"]
        asked = one(events, PermissionRequested)
        driver.conn.answer_permission(asked.request_id, "yes")
        driver.conn.respond(one(events, ReadTextFileRequested).request_id, {"content": ""})
        assert [message["id"] for message in driver.sent()] == [0, 1, 4, 2, 3]
        assert only(events, SessionReady) == []
