"""A client's sessions: the handshake, the opening plan, replay windows, turns, cancelling, and what the agent says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from acp_core import (
    V1,
    AgentMessageChunk,
    AnswerUnmatched,
    AuthenticateRequested,
    ClientConnection,
    ConfigOptionUpdate,
    ConnectionOver,
    CurrentModeUpdate,
    Event,
    FenceLifted,
    ForeignUpdate,
    Gate,
    Initialized,
    Limits,
    LocalProtocolError,
    Malformed,
    Method,
    MethodTable,
    PermissionAnswered,
    PermissionRequested,
    PromptSent,
    RemoteProtocolError,
    ReplayDiscarded,
    RequestError,
    RequestRefused,
    RequestSettled,
    RequestTimeout,
    Session,
    SessionClosed,
    SessionFailed,
    SessionFenced,
    SessionOpened,
    SessionReady,
    SessionStep,
    ToolCall,
    TurnEnded,
    TurnFailed,
    UnknownUpdate,
    Update,
    UserMessageChunk,
)
from tests.core.helpers import (
    CWD,
    FULL_AGENT,
    STDIO,
    ClientDriver,
    Message,
    as_line,
    chunk,
    client,
    error,
    idle_client,
    names,
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
    from acp_core.options import CancelThen

LOADS: Message = {"loadSession": True}
MODES: Message = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "C"}]}


def option(current: object = "low", id: str = "effort", **more: object) -> Message:
    return {"id": id, "name": id, "type": "select", "currentValue": current, "options": [], **more}


def steps(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.step, event.phase) for event in only(events, SessionStep)]


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in only(events, AgentMessageChunk)]


# ── The handshake ───────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(24, 29)
def test_initialize_says_who_we_are_and_learns_who_they_are() -> None:
    driver = client({"terminal": True}, info={"name": "me", "version": "1"})
    id = driver.conn.initialize(token="t")
    assert driver.conn.state == "initializing"
    assert driver.sent() == [
        request(
            id,
            "initialize",
            {
                "protocolVersion": 1,
                "clientCapabilities": {"terminal": True},
                "clientInfo": {"name": "me", "version": "1"},
            },
        )
    ]
    answer = {
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": True, "_meta": {"x": 1}},
        "agentInfo": {"name": "agent"},
        "authMethods": [{"id": "key", "name": "Key"}, "broken"],
        "future": 5,
    }
    initialized, settled = driver.feed(result(id, answer))
    assert isinstance(initialized, Initialized)
    assert (initialized.version, initialized.peer_info, initialized.raw) == (1, {"name": "agent"}, answer)
    assert isinstance(settled, RequestSettled)
    assert (settled.id, settled.outcome, settled.token) == (id, "result", "t")
    assert (driver.conn.state, driver.conn.version) == ("open", 1)
    assert driver.conn.peer_capabilities == {"loadSession": True, "_meta": {"x": 1}}
    assert driver.conn.auth_methods == [{"id": "key", "name": "Key"}]


@requirement(27, 28, 30)
@pytest.mark.parametrize("version", [0, 2, 99, "1", 1.0, True, None, [1]])
def test_a_version_that_we_do_not_speak_ends_the_connection(version: object) -> None:
    driver = client()
    id = driver.conn.initialize()
    driver.sent()
    settled, over = driver.feed(result(id, {"protocolVersion": version}))
    assert isinstance(settled, RequestSettled)
    assert settled.outcome == "invalid"
    assert isinstance(settled.error, RemoteProtocolError)
    assert settled.error.rule == "initialize.version"
    assert isinstance(over, ConnectionOver)
    assert over.error is settled.error
    assert "this side speaks 1" in over.reason
    assert (driver.conn.state, driver.conn.version, driver.conn.output_closed) == ("over", None, True)


@requirement(25)
def test_initialize_goes_out_once() -> None:
    driver = client()
    driver.conn.initialize()
    for _ in range(2):
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.initialize()
        assert caught.value.rule == "initialize.once"
        driver.sent()
    driver.feed(result(1, {"protocolVersion": 1}))
    with pytest.raises(LocalProtocolError):
        driver.conn.initialize()
    # A refused one may be tried again.
    driver = client()
    id = driver.conn.initialize()
    driver.sent()
    driver.feed(error(id, -32603, "not now"))
    assert driver.conn.state == "new"
    assert driver.conn.initialize() == id + 1


def test_a_handshake_without_an_answer_fails_what_waits_for_it() -> None:
    driver = client()
    session = driver.conn.open_session(CWD, step_deadline=5.0)
    driver.conn.prompt(session, "hi")
    driver.sent()
    driver.drain()
    events = driver.wait(5.0)
    assert one(events, RequestSettled).outcome == "deadline"
    assert (one(events, TurnFailed).dispatch, one(events, TurnFailed).outcome) == ("not_sent", "withdrawn")
    failed = one(events, SessionFailed)
    assert (failed.step, failed.outcome, failed.dispatch) == ("initialize", "deadline", "sent_no_reply")
    assert isinstance(failed.error, RequestTimeout)


@pytest.mark.parametrize("opens", [False, True])
def test_a_late_answer_to_initialize_is_taken(opens: bool) -> None:
    """The agent takes initialize once: whoever gave it up neither sends another nor ignores what comes."""

    def overdue() -> tuple[ClientDriver, object]:
        driver = client()
        if opens:
            driver.conn.open_session(CWD, step_deadline=5.0)
        else:
            driver.conn.initialize(deadline=5.0)
        (message,) = driver.sent()
        driver.wait(5.0)
        assert one(driver.log, RequestSettled).outcome == "deadline"
        assert driver.conn.state == "overdue"
        assert [message["method"] for message in driver.sent()] == ["$/cancel_request"]
        return driver, message["id"]

    driver, id = overdue()
    for attempt in (
        lambda: driver.conn.initialize(),
        lambda: driver.conn.open_session(CWD),
        lambda: driver.conn.request("_x"),
    ):
        with pytest.raises(LocalProtocolError) as caught:
            attempt()
        assert caught.value.rule == "initialize.overdue"
    assert (driver.sent(), driver.conn.sessions, driver.conn.open_requests) == ([], (), 0)
    late = driver.feed(result(id, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}))
    assert names(late) == ["AnswerUnmatched", "Initialized"]
    assert one(late, AnswerUnmatched).why == "late"
    assert (driver.conn.state, driver.conn.peer_capabilities) == ("open", {"loadSession": True})
    driver.open("s1")
    # It comes once.
    assert one(driver.feed(result(id, {"protocolVersion": 1})), AnswerUnmatched).why == "repeated"
    # An error says that the agent has not taken it: it may be sent again. Another version is the end.
    driver, id = overdue()
    assert names(driver.feed(error(id, -32800))) == ["AnswerUnmatched"]
    assert (driver.conn.state, driver.conn.version) == ("new", None)
    driver.initialize()
    assert driver.conn.state == "open"
    for answer in (result(id, {"protocolVersion": 7}), result(id, None)):
        driver, id = overdue()
        assert names(driver.feed(answer)) == ["AnswerUnmatched", "ConnectionOver"]
        assert (driver.conn.state, driver.conn.version) == ("over", None)
    # One that never left was never taken.
    driver = client()
    driver.conn.initialize(deadline=5.0)
    driver.conn.data_to_send(driver.now, 0)
    driver.wait(5.0)
    assert (one(driver.log, RequestSettled).dispatch, driver.conn.state) == ("not_sent", "new")
    # Nothing can be written: what the agent says is kept, and that is all.
    driver, id = overdue()
    driver.conn.send_failed("gone", driver.now)
    driver.feed(result(id, {"protocolVersion": 1}))
    assert (driver.conn.state, driver.conn.version) == ("broken", 1)


@pytest.mark.parametrize("waits", [False, True])
def test_what_cannot_be_written_is_refused_when_it_is_given(waits: bool) -> None:
    """A plan is worked off by events, and events never raise: all of it is checked by the intent, which is atomic."""
    driver = client(limits=Limits(max_depth=8, max_line_bytes=2000))
    if not waits:
        driver.initialize()
    deep: Message = {"a": {"b": {"c": {"d": {}}}}}
    wrong: list[Message] = [
        {"mcp_servers": [{**STDIO, **deep}]},
        {"meta": {"deeper": {"still": deep}}},
        {"meta": {"x": float("nan")}},
        {"meta": {"long": "x" * 2000}},
        {"resume": "x" * 2000},
        {"config": {"o": object()}},
        {"config": {"o": 1}},
        {"config": {"o": None}},
        {"config": {1: "x"}},
        {"config": "ab"},
    ]
    for how in wrong:
        with pytest.raises((LocalProtocolError, TypeError)):
            driver.conn.open_session(CWD, **how)  # type: ignore[arg-type]  # wrong on purpose
        assert (driver.conn.output_bytes, driver.conn.open_requests, driver.drain()) == (0, 0, [])
    # As deep as it may be is fine, now and when the handshake is done.
    driver.conn.open_session(CWD, mcp_servers=[{**STDIO, "a": {"b": {"c": {}}}}])
    if waits:
        (message,) = driver.sent()
        driver.feed(result(message["id"], {"protocolVersion": 1}))
    assert [message["method"] for message in driver.sent()] == ["session/new"]


@requirement(24, 25)
def test_concurrent_opens_share_one_handshake() -> None:
    driver = client()
    handles = [driver.conn.open_session(f"/work/{number}") for number in range(3)]
    (message,) = driver.sent()
    assert message["method"] == "initialize"
    assert {handle.state for handle in handles} == {"starting"}
    events = driver.feed(result(message["id"], {"protocolVersion": 1}))
    assert len(only(events, Initialized)) == 1
    opens = driver.sent()
    assert [open["method"] for open in opens] == ["session/new"] * 3
    # The answers may come in any order.
    for number in (2, 0, 1):
        driver.feed(result(opens[number]["id"], {"sessionId": f"s{number}"}))
    assert [(handle.session_id, handle.state, handle.cwd) for handle in handles] == [
        (f"s{number}", "idle", f"/work/{number}") for number in range(3)
    ]
    assert driver.conn.sessions == (handles[2], handles[0], handles[1])


def test_a_refused_handshake_fails_every_open() -> None:
    driver = client()
    handles = [driver.conn.open_session(CWD) for _ in range(3)]
    (message,) = driver.sent()
    events = driver.feed(error(message["id"], -32603, "broken"))
    assert [(event.session, event.step, event.outcome) for event in only(events, SessionFailed)] == [
        (handle, "initialize", "error") for handle in handles
    ]
    assert {handle.state for handle in handles} == {"closed"}


# ── Opening a new session ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_session_step_by_step() -> None:
    driver = client()
    session = driver.conn.open_session(
        CWD,
        mcp_servers=[{"name": "m", "command": "/bin/m", "args": [], "env": []}],
        additional_directories=["/other", "C:\\dir", "\\\\server\\share"],
        meta={"a": 1},
        token="t",
    )
    assert (session.session_id, session.state, session.token) == (None, "starting", "t")
    id = driver.conn.prompt(session, "hi", identity="mine")
    (first,) = driver.sent()
    assert steps(driver.drain()) == [("initialize", "sent")]
    events = driver.feed(result(first["id"], {"protocolVersion": 1, "agentCapabilities": FULL_AGENT}))
    assert steps(events) == [("initialize", "done")]
    (second,) = driver.sent()
    assert second["params"] == {
        "cwd": CWD,
        "mcpServers": [{"name": "m", "command": "/bin/m", "args": [], "env": []}],
        "additionalDirectories": ["/other", "C:\\dir", "\\\\server\\share"],
        "_meta": {"a": 1},
    }
    assert steps(driver.drain()) == [("session_new", "sent")]
    setup = {"sessionId": "s1", "modes": MODES, "configOptions": [option()], "models": {"currentModelId": "m"}}
    events = driver.feed(result(second["id"], setup))
    assert names(events) == ["SessionStep", "SessionOpened", "SessionReady"]
    opened = one(events, SessionOpened)
    assert (opened.session_id, opened.how, opened.result) == ("s1", "session_new", setup)
    assert (session.modes, session.current_mode_id) == (MODES, "ask")
    assert (session.config_options, session.models) == ([option()], {"currentModelId": "m"})
    (prompt,) = driver.sent()
    assert prompt == request(id, "session/prompt", {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]})
    assert names(driver.drain()) == ["PromptSent"]
    assert session.state == "prompting"


@pytest.mark.parametrize("answer", [{}, None, {"sessionId": None}, {"sessionId": ""}, {"sessionId": 5}, [], "s1"])
def test_an_answer_that_names_no_session_is_a_failure(answer: object) -> None:
    driver = client().initialize()
    session = driver.conn.open_session(CWD)
    id = driver.conn.prompt(session, "hi")
    (message,) = driver.sent()
    driver.drain()
    events = driver.feed(result(message["id"], answer))
    assert names(events) == ["SessionStep", "TurnFailed", "SessionFailed"]
    failed = one(events, SessionFailed)
    assert (failed.step, failed.outcome, failed.dispatch) == ("session_new", "invalid", "answered")
    assert (one(events, TurnFailed).prompt_id, one(events, TurnFailed).dispatch) == (id, "not_sent")
    assert session.state == "closed"


def test_an_id_that_is_open_already_is_a_failure() -> None:
    driver, first = idle_client("s1")
    driver.conn.open_session(CWD)
    (message,) = driver.sent()
    failed = one(driver.feed(result(message["id"], {"sessionId": "s1"})), SessionFailed)
    assert failed.outcome == "invalid"
    assert driver.conn.session("s1") is first
    assert first.state == "idle"


def test_a_refused_session_is_a_failure() -> None:
    driver = client().initialize()
    session = driver.conn.open_session(CWD)
    (message,) = driver.sent()
    driver.drain()
    step, failed = driver.feed(error(message["id"], -32602, "no such directory"))
    assert isinstance(step, SessionStep)
    assert (step.phase, step.error) == ("failed", failed.error)  # type: ignore[attr-defined]  # a SessionFailed
    assert isinstance(failed, SessionFailed)
    assert isinstance(failed.error, RequestError)
    assert (failed.session, failed.step, failed.outcome) == (session, "session_new", "error")
    with pytest.raises(LocalProtocolError):
        driver.conn.prompt(session, "hi")


@requirement(38, 41, 46)
def test_what_the_agent_did_not_advertise_is_not_sent() -> None:
    driver = client().initialize({})
    for how in (
        {"additional_directories": ["/other"]},
        {"mcp_servers": [{"type": "http", "name": "m", "url": "http://localhost", "headers": []}]},
        {"mcp_servers": [{"type": "sse", "name": "m", "url": "http://localhost", "headers": []}]},
        {"resume": "s1"},
    ):
        driver.conn.open_session(CWD, **how)
        failed = one(driver.drain(), SessionFailed)
        assert failed.dispatch == "not_sent"
        assert isinstance(failed.error, LocalProtocolError)
    assert driver.sent() == []


def test_settings_are_made_before_the_first_prompt() -> None:
    driver = client().initialize()
    session = driver.conn.open_session(CWD, model="big", config={"effort": "high", "same": "x", "flag": True})
    driver.conn.prompt(session, "hi")
    (message,) = driver.sent()
    model = option("small", "which", category="model")
    setup = [model, option("low"), option("x", "same"), {"id": "flag", "type": "boolean", "currentValue": False}]
    driver.feed(result(message["id"], {"sessionId": "s1", "configOptions": setup}))
    params = []
    for id, value in (("which", "big"), ("effort", "high"), ("flag", True)):
        (message,) = driver.sent()
        assert message["method"] == "session/set_config_option"
        params.append(message["params"])
        setup = [{**known, "currentValue": value} if known["id"] == id else known for known in setup]
        driver.feed(result(message["id"], {"configOptions": setup}))
    assert params == [
        {"sessionId": "s1", "configId": "which", "value": "big"},
        {"sessionId": "s1", "configId": "effort", "value": "high"},
        {"sessionId": "s1", "configId": "flag", "value": True, "type": "boolean"},
    ]
    assert [message["method"] for message in driver.sent()] == ["session/prompt"]
    assert session.config_options == setup


def test_the_legacy_way_to_select_a_model() -> None:
    driver = client().initialize()
    session = driver.conn.open_session(CWD, model="big")
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"sessionId": "s1", "models": {"currentModelId": "small"}}))
    (message,) = driver.sent()
    assert (message["method"], message["params"]) == ("session/set_model", {"sessionId": "s1", "modelId": "big"})
    driver.feed(result(message["id"], {}))
    assert session.state == "idle"


@pytest.mark.parametrize(
    ("confirmed", "good"),
    [("big", True), ("Big [1m context]", True), ("big-20260101", True), ("small", False), ("", False)],
)
def test_a_confirmation_that_names_another_model_fails(confirmed: str, good: bool) -> None:
    driver = client().initialize()
    session = driver.conn.open_session(CWD, model="big")
    driver.conn.prompt(session, "hi")
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"sessionId": "s1", "configOptions": [option("small", "model")]}))
    (message,) = driver.sent()
    events = driver.feed(result(message["id"], {"configOptions": [option(confirmed, "model")]}))
    assert len(only(events, SessionReady)) == good
    assert len(only(events, SessionFailed)) == (not good)
    assert len(only(events, TurnFailed)) == (not good)


def test_a_setting_that_fails_fails_before_any_prompt() -> None:
    driver = client().initialize()
    for how, setup in (({"model": "big"}, {}), ({"config": {"none": "x"}}, {"configOptions": [option()]})):
        driver.conn.open_session(CWD, **how)
        (message,) = driver.sent()
        events = driver.feed(result(message["id"], {"sessionId": str(how), **setup}))
        assert one(events, SessionFailed).dispatch == "not_sent"
    driver.conn.open_session(CWD, config={"effort": "high"})
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"sessionId": "s9", "configOptions": [option()]}))
    (message,) = driver.sent()
    failed = one(driver.feed(error(message["id"], -32602)), SessionFailed)
    assert (failed.step, failed.outcome) == ("session_set_config_option", "error")


# ── Logging in ──────────────────────────────────────────────────────────────────────────────────────────────────────

KEY: Message = {"id": "key", "name": "Key", "_meta": {"api-key": {}}}
ENV: Message = {"id": "env", "name": "Env", "type": "env_var"}
PERSON: Message = {"id": "person", "name": "Browser"}
TERMINAL: Message = {"id": "terminal", "name": "Terminal", "type": "terminal"}


def test_a_refused_open_logs_in_once_and_tries_again() -> None:
    driver = client().initialize(auth_methods=[PERSON, KEY])
    session = driver.conn.open_session(CWD)
    (message,) = driver.sent()
    driver.feed(error(message["id"], -32000, "log in"))
    (message,) = driver.sent()
    assert (message["method"], message["params"]) == ("authenticate", {"methodId": "key"})
    driver.feed(result(message["id"], {}))
    (message,) = driver.sent()
    assert message["method"] == "session/new"
    # Never in a loop.
    failed = one(driver.feed(error(message["id"], -32000, "still not")), SessionFailed)
    assert isinstance(failed.error, RequestError)
    assert failed.error.auth_required
    assert driver.sent() == []
    assert session.state == "closed"


@requirement(51)
def test_nothing_logs_in_interactively_by_itself() -> None:
    driver = client().initialize(auth_methods=[PERSON, TERMINAL])
    driver.conn.open_session(CWD)
    (message,) = driver.sent()
    assert one(driver.feed(error(message["id"], -32000)), SessionFailed).step == "session_new"
    assert driver.sent() == []
    # Not even when it is asked for ahead.
    driver.conn.open_session(CWD, auth="unattended")
    assert [message["method"] for message in driver.sent()] == ["session/new"]


@pytest.mark.parametrize(("auth", "method"), [("unattended", "env"), ("person", "person")])
def test_logging_in_ahead(auth: str, method: str) -> None:
    driver = client().initialize(auth_methods=[PERSON, ENV])
    driver.conn.open_session(CWD, auth=auth)
    driver.conn.open_session(CWD, auth=auth)
    # Both wait for one login.
    (message,) = driver.sent()
    assert message["params"] == {"methodId": method}
    driver.feed(result(message["id"], None))
    assert [message["method"] for message in driver.sent()] == ["session/new"] * 2
    # And a later one needs none.
    driver.conn.open_session(CWD, auth=auth)
    assert [message["method"] for message in driver.sent()] == ["session/new"]


def test_a_failed_login_fails_only_who_chose_it() -> None:
    driver = client().initialize(auth_methods=[KEY])
    chosen = driver.conn.open_session(CWD, auth="key")
    automatic = driver.conn.open_session(CWD, auth="unattended")
    (message,) = driver.sent()
    events = driver.feed(error(message["id"], -1, "wrong key"))
    assert [event.session for event in only(events, SessionFailed)] == [chosen]
    assert automatic.state == "creating"
    for wrong in ("nobody", "terminal"):
        driver.conn.open_session(CWD, auth=wrong)
        failed = one(driver.drain(), SessionFailed)
        assert (failed.step, failed.dispatch) == ("authenticate", "not_sent")


@requirement(51)
def test_logging_in_by_hand() -> None:
    driver = client().initialize(auth_methods=[PERSON, TERMINAL])
    id = driver.conn.authenticate("person", token="t")
    assert driver.sent() == [request(id, "authenticate", {"methodId": "person"})]
    settled = one(driver.feed(result(id, {})), RequestSettled)
    assert (settled.outcome, settled.token, settled.key) == ("result", "t", "authenticate")
    for wrong, rule in (("nobody", "auth.method"), ("terminal", "auth.terminal")):
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.authenticate(wrong)
        assert caught.value.rule == rule
    assert AuthenticateRequested.__name__ == V1["authenticate"].event


# ── Opening a session again ─────────────────────────────────────────────────────────────────────────────────────────


@requirement(38, 57, 58)
@pytest.mark.parametrize(
    ("capabilities", "method"),
    [
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, "session/resume"),
        ({"sessionCapabilities": {"resume": {"any": 1}}}, "session/resume"),
        ({"loadSession": True, "sessionCapabilities": {"resume": None}}, "session/load"),
        ({"loadSession": True, "sessionCapabilities": {"resume": False}}, "session/load"),
        ({"loadSession": True, "sessionCapabilities": {"resume": True}}, "session/load"),
        ({"loadSession": True}, "session/load"),
        ({"loadSession": 1}, None),
        ({"loadSession": {}}, None),
        ({}, None),
    ],
)
def test_resume_is_preferred_then_load_then_a_failure(capabilities: Message, method: str | None) -> None:
    driver = client().initialize(capabilities)
    session = driver.conn.open_session(CWD, resume="s1", mcp_servers=[STDIO], meta={"a": 1})
    sent = driver.sent()
    if method is None:
        assert sent == []
        assert one(driver.drain(), SessionFailed).dispatch == "not_sent"
        return
    (message,) = sent
    assert message["method"] == method
    # What a first open sent is sent again.
    assert message["params"] == {"cwd": CWD, "mcpServers": [STDIO], "_meta": {"a": 1}, "sessionId": "s1"}
    assert session.session_id == "s1"
    assert driver.conn.session("s1") is session


@pytest.mark.parametrize("answer", [{}, None, {"sessionId": "other"}])
def test_a_resumed_session_is_ready_at_once(answer: object) -> None:
    driver = client().initialize()
    session, id = driver.load()
    driver.drain()
    events = driver.feed(result(id, answer))
    assert names(events) == ["SessionStep", "SessionOpened", "SessionReady"]
    assert (session.session_id, session.state) == ("s1", "idle")
    # What comes now is live.
    assert [event.mark for event in only(driver.feed(chunk("s1", "x")), Update)] == [""]


def test_the_history_of_a_load_is_discarded_and_counted() -> None:
    driver = client().initialize(LOADS)
    session, id = driver.load()
    driver.drain()
    history = [
        chunk("s1", "q", "user_message_chunk"),
        chunk("s1", "a"),
        update("s1", "tool_call", toolCallId="t", title="T"),
        update("s1", "plan", entries=[]),
        update("s1", "future_kind", x=1),
    ]
    size = sum(len(as_line(message)) - 1 for message in history)
    assert driver.feed(*history) == []
    assert session.state == "loading"
    events = driver.feed(result(id, {"modes": MODES}), chunk("s1", "more"))
    assert names(events) == ["SessionStep", "SessionOpened"]
    assert session.state == "replaying"
    events = driver.wait(0.25)
    assert names(events) == ["ReplayDiscarded", "SessionReady"]
    discarded = one(events, ReplayDiscarded)
    assert (discarded.count, discarded.wire_bytes) == (6, size + len(as_line(chunk("s1", "more"))) - 1)
    assert one(events, SessionReady).replayed == 6
    assert (session.state, session.current_mode_id) == ("idle", "ask")


def test_the_history_of_a_load_is_reported_when_asked_for() -> None:
    driver = client().initialize(LOADS)
    _, id = driver.load(replay="report")
    driver.drain()
    events = driver.feed(chunk("s1", "q", "user_message_chunk"), result(id, None), chunk("s1", "a"))
    assert names(events) == ["UserMessageChunk", "SessionStep", "SessionOpened", "AgentMessageChunk"]
    assert [event.mark for event in only(events, Update)] == ["replayed"] * 2
    assert all(event.replayed and event.turn is None for event in only(events, Update))
    assert names(driver.wait(0.25)) == ["SessionReady"]


def test_whole_state_is_no_history() -> None:
    """It is applied and reported, marked, and does not push the quiet period."""
    driver = client().initialize(LOADS)
    session, id = driver.load()
    driver.drain()
    events = driver.feed(
        update("s1", "available_commands_update", availableCommands=[{"name": "c"}]),
        update("s1", "current_mode_update", currentModeId="code"),
        update("s1", "session_info_update", title="T"),
        result(id, {}),
    )
    assert [(type(event).__name__, event.mark) for event in only(events, Update)] == [
        ("AvailableCommandsUpdate", "replayed"),
        ("CurrentModeUpdate", "replayed"),
        ("SessionInfoUpdate", "replayed"),
    ]
    assert (session.available_commands, session.current_mode_id, session.title) == ([{"name": "c"}], "code", "T")
    driver.now += 0.2
    driver.feed(update("s1", "usage_update", used=1, size=2))
    assert names(driver.wait(0.05)) == ["SessionReady"]
    assert session.usage == {"sessionUpdate": "usage_update", "used": 1, "size": 2}


def test_the_window_stays_open_while_history_comes_and_not_for_ever() -> None:
    """Real agents answer before the last of their history; none may hold a session up without end."""
    driver = client().initialize(LOADS)
    session, id = driver.load(replay_quiet=0.25, replay_max=2.0)
    driver.conn.prompt(session, "hi")
    driver.sent()
    driver.feed(result(id, {}))
    for _ in range(9):
        driver.now += 0.2
        driver.conn.handle_timeout(driver.now)
        assert driver.feed(chunk("s1", "old")) == []
    assert session.state == "replaying"
    assert driver.conn.next_deadline() is not None
    # Two seconds after the response, whatever still comes.
    driver.now = 102.0
    driver.conn.handle_timeout(driver.now)
    assert names(driver.drain()) == ["ReplayDiscarded", "SessionReady"]
    # The discard never extends past the first prompt: that would eat the answer.
    (message,) = driver.sent()
    assert message["method"] == "session/prompt"
    assert texts(driver.feed(chunk("s1", "answer"))) == ["answer"]


def test_the_quiet_time_is_the_agents_silence_and_not_the_readers() -> None:
    """History that was received before the timeout is worked off first: a busy reader closes no window."""
    driver = client().initialize(LOADS)
    session, id = driver.load()
    driver.conn.receive_data(as_line(result(id, {})), 100.0)
    driver.drain()
    driver.conn.receive_data(as_line(chunk("s1", "old")), 100.2)
    driver.conn.handle_timeout(100.3)
    assert driver.drain() == []
    assert session.state == "replaying"
    driver.conn.handle_timeout(100.45)
    assert names(driver.drain()) == ["ReplayDiscarded", "SessionReady"]


def test_other_sessions_do_not_push_the_quiet_period() -> None:
    driver, _ = idle_client("other")
    session, id = driver.load(can_resume(driver))
    driver.feed(result(id, {}))
    driver.now += 0.2
    assert texts(driver.feed(chunk("other", "busy"))) == ["busy"]
    driver.wait(0.05)
    assert session.state == "idle"


def can_resume(driver: ClientDriver) -> str:
    """Make the agent one that can only load, and give the id of a stored session."""
    driver.conn._peer_capabilities = LOADS
    return "s1"


def test_history_that_a_resume_sends_is_history() -> None:
    """Two real agents do it, against the specification."""
    driver = client().initialize()
    _, id = driver.load()
    driver.drain()
    assert driver.feed(chunk("s1", "old")) == []
    events = driver.feed(result(id, {}), chunk("s1", "live"))
    assert names(events) == ["SessionStep", "SessionOpened", "ReplayDiscarded", "SessionReady", "AgentMessageChunk"]


def test_requests_during_the_window_are_answered_like_at_any_other_time() -> None:
    driver = client().initialize(LOADS)
    _, id = driver.load()
    driver.drain()
    (asked,) = driver.feed(permission(0, "s1"))
    assert isinstance(asked, PermissionRequested)
    driver.feed(result(id, {}))
    driver.conn.answer_permission(asked.request_id, "yes")
    assert driver.sent() == [result(0, {"outcome": {"outcome": "selected", "optionId": "yes"}})]


def test_a_refused_load_may_be_followed_by_a_new_session_once() -> None:
    driver = client().initialize(LOADS)
    session, id = driver.load(fresh_if_refused=True, config={"effort": "high"})
    driver.conn.prompt(session, "hi")
    driver.feed(error(id, -32002, "gone"))
    (message,) = driver.sent()
    assert (message["method"], message["params"]) == ("session/new", {"cwd": CWD, "mcpServers": []})
    assert session.session_id is None
    driver.feed(result(message["id"], {"sessionId": "s2", "configOptions": [option()]}))
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"configOptions": [option("high")]}))
    assert [message["method"] for message in driver.sent()] == ["session/prompt"]
    # Never twice, and not without being asked to.
    _, id = driver.load("s3", fresh_if_refused=True)
    driver.feed(error(id, -1))
    (message,) = driver.sent()
    assert names(driver.feed(error(message["id"], -1)))[-1] == "SessionFailed"
    _, id = driver.load("s4")
    assert names(driver.feed(error(id, -1)))[-1] == "SessionFailed"
    assert driver.sent() == []


def test_a_session_can_be_reopened_after_it_was_closed() -> None:
    driver, session = idle_client()
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.open_session(CWD, resume="s1")
    assert caught.value.rule == "session.open"
    close = driver.conn.close_session(session)
    driver.sent()
    driver.feed(result(close, {}))
    again, id = driver.load()
    driver.feed(result(id, {}))
    assert (session.state, again.state) == ("closed", "idle")
    assert driver.conn.session("s1") is again
    with pytest.raises(LocalProtocolError):
        driver.conn.prompt(session, "to the old handle")


def test_load_can_be_forced_by_the_method_table() -> None:
    rows = [
        Method(row.key, row.wire, row.handler, gate=Gate("bool", "never"), intent=row.intent)
        if row.key == "session_resume"
        else row
        for row in V1
    ]
    driver = client(methods=MethodTable(1, tuple(rows))).initialize()
    driver.conn.open_session(CWD, resume="s1")
    assert [message["method"] for message in driver.sent()] == ["session/load"]


# ── Updates around the answer that names the session ────────────────────────────────────────────────────────────────


def test_what_comes_before_a_session_is_named_is_held_for_it() -> None:
    driver = client().initialize()
    session = driver.conn.open_session(CWD)
    (message,) = driver.sent()
    driver.drain()
    held = driver.feed(
        update("s1", "available_commands_update", availableCommands=[]),
        chunk("s2", "of nobody"),
        chunk("s1", "first"),
        permission("p", "s1"),
        request("f", "fs/read_text_file", {"sessionId": "s2", "path": "/a"}),
    )
    assert held == []
    events = driver.feed(result(message["id"], {"sessionId": "s1"}), chunk("s1", "second"))
    assert names(events) == [
        "SessionStep",
        "SessionOpened",
        "AvailableCommandsUpdate",
        "AgentMessageChunk",
        "PermissionRequested",
        "SessionReady",
        # No other session is being created: the rest was for nobody.
        "ForeignUpdate",
        "RequestRefused",
        "AgentMessageChunk",
    ]
    assert {event.mark for event in only(events, Update)} == {""}
    assert one(events, PermissionRequested).session is session
    assert [(message["id"], "error" in message) for message in driver.sent()] == [("f", True)]


def test_what_was_held_waits_while_another_session_is_created() -> None:
    driver = client().initialize()
    for _ in range(2):
        driver.conn.open_session(CWD)
    first, second = driver.sent()
    driver.drain()
    driver.feed(chunk("s2", "for the second"), chunk("s1", "for the first"))
    events = driver.feed(result(first["id"], {"sessionId": "s1"}))
    assert texts(events) == ["for the first"]
    events = driver.feed(result(second["id"], {"sessionId": "s2"}))
    assert texts(events) == ["for the second"]


def test_what_was_held_for_a_session_that_is_refused() -> None:
    driver = client().initialize()
    driver.conn.open_session(CWD)
    (message,) = driver.sent()
    driver.drain()
    driver.feed(chunk("s1", "early"), permission("p", "s1"))
    events = driver.feed(error(message["id"], -1))
    assert names(events) == ["SessionStep", "SessionFailed", "ForeignUpdate", "RequestRefused"]
    assert one(events, ForeignUpdate).why == "unknown"
    assert driver.sent() == [result("p", {"outcome": {"outcome": "cancelled"}})]


def test_updates_of_strangers_are_mixed_into_nothing() -> None:
    driver, session = idle_client()
    driver.conn.close_session(session)
    (message,) = driver.sent()
    driver.feed(result(message["id"], {}))
    events = driver.feed(chunk("s1", "after the end"), chunk("s9", "who is it"))
    assert [(event.session_id, event.why) for event in only(events, ForeignUpdate)] == [
        ("s1", "closed"),
        ("s9", "unknown"),
    ]
    assert len(events) == 2


# ── Updates ─────────────────────────────────────────────────────────────────────────────────────────────────────────

KINDS: list[tuple[str, Message]] = [
    ("user_message_chunk", {"content": {"type": "text", "text": "x"}}),
    ("agent_message_chunk", {"content": {"type": "text", "text": "x"}, "messageId": "m"}),
    ("agent_thought_chunk", {"content": {"type": "text", "text": "x"}}),
    ("tool_call", {"toolCallId": "t", "title": "T", "kind": "read", "status": "pending", "rawInput": [1]}),
    ("tool_call_update", {"toolCallId": "t", "status": "completed", "content": []}),
    ("plan", {"entries": [{"content": "c", "priority": "high", "status": "pending"}]}),
    ("available_commands_update", {"availableCommands": [{"name": "n", "description": "d"}]}),
    ("current_mode_update", {"currentModeId": "code"}),
    ("config_option_update", {"configOptions": [option()]}),
    ("session_info_update", {"title": "T", "updatedAt": "now"}),
    ("usage_update", {"used": 5, "size": 10, "cost": {"amount": 1.5, "currency": "EUR"}}),
]


@pytest.mark.parametrize(("kind", "fields"), KINDS)
def test_every_kind_of_update_has_its_event(kind: str, fields: Message) -> None:
    driver, session, id = prompting_client()
    message = update("s1", kind, fields, _meta={"a": 1}, future={"b": [None]})
    (event,) = driver.feed(message)
    assert isinstance(event, Update)
    assert type(event).__name__ == "".join(part.capitalize() for part in kind.split("_"))
    assert event.update == {"sessionUpdate": kind, **fields, "_meta": {"a": 1}, "future": {"b": [None]}}
    assert (event.session, event.kind, event.mark, event.meta) == (session, kind, "", {"a": 1})
    assert event.turn is not None
    assert event.turn.prompt_id == id
    assert event.raw + b"\n" == as_line(message)
    assert event.message == message
    # The properties read what stands there.
    for name in ("tool_call_id", "title", "status", "entries", "config_options", "used", "cost", "current_mode_id"):
        if hasattr(event, name):
            getattr(event, name)


def test_the_properties_of_updates() -> None:
    driver, _, _ = prompting_client()

    def read(kind: str, /, **fields: object) -> Update:
        (event,) = driver.feed(update("s1", kind, fields))
        assert isinstance(event, Update)
        return event

    call = read("tool_call", toolCallId="t", title="T", kind="read", status="new", locations=[{"path": "/a"}, 5])
    assert isinstance(call, ToolCall)
    assert (call.tool_call_id, call.title, call.tool_kind, call.status) == ("t", "T", "read", "new")
    assert (call.content, call.locations, call.raw_input, call.raw_output) == (None, [{"path": "/a"}], None, None)
    mode = read("current_mode_update", modeId="code")
    assert isinstance(mode, CurrentModeUpdate)
    assert mode.current_mode_id == "code"
    assert isinstance(read("config_option_update", configOptions=[option()]), ConfigOptionUpdate)
    user = read("user_message_chunk", content={"type": "text", "text": "x"}, messageId="m")
    assert isinstance(user, UserMessageChunk)
    assert (user.text, user.message_id, user.content) == ("x", "m", {"type": "text", "text": "x"})


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
@pytest.mark.parametrize(
    "value", [None, 5, "x", [], [5, None], {}, {"type": "text"}, {"type": "text", "text": 5}, True]
)
def test_updates_with_wrong_values_raise_nothing(kind: str, value: object) -> None:
    """Properties read a value of a wrong type as None or empty; the object as it came stays reachable."""
    driver, _, _ = prompting_client()
    fields = ["content", "messageId", "toolCallId", "title", "kind", "status", "locations", "entries", "used", "size"]
    fields += ["availableCommands", "currentModeId", "configOptions", "cost", "updatedAt", "rawInput", "_meta"]
    (event,) = driver.feed(update("s1", kind, dict.fromkeys(fields, value)))
    assert isinstance(event, Update)
    assert event.update["content"] == value
    for cls in type(event).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, property):
                getattr(event, name)
    if isinstance(event, AgentMessageChunk):
        assert event.text == ""
    repr(event)


def test_unknown_kinds_are_kept() -> None:
    driver, _, _ = prompting_client()
    for kind in ("plan_update", "_vendor/thing", ""):
        (event,) = driver.feed(update("s1", kind, a={"b": 1}))
        assert type(event) is UnknownUpdate
        assert (event.kind, event.update["a"]) == (kind, {"b": 1})
    no_words: list[object] = [None, 5, [], {}, True]
    for strange in no_words:
        (event,) = driver.feed(update("s1", "", {"sessionUpdate": strange}, a=1))
        assert type(event) is UnknownUpdate
        assert (event.kind, event.update["sessionUpdate"]) == ("", strange)


@pytest.mark.parametrize(
    "params",
    [{}, {"sessionId": "s1"}, {"update": {}}, {"sessionId": 5, "update": {}}, {"sessionId": "s1", "update": []}],
)
def test_an_update_without_session_or_update_is_malformed(params: Message) -> None:
    driver, _, _ = prompting_client()
    (fault,) = driver.feed({"jsonrpc": "2.0", "method": "session/update", "params": params})
    assert isinstance(fault, Malformed)
    assert fault.error.rule == "update.params"
    assert driver.sent() == []


def test_an_update_that_asks_for_an_answer_is_no_notification() -> None:
    driver, _, _ = prompting_client()
    message = {**chunk("s1", "x"), "id": 5}
    (refused,) = driver.feed(message)
    assert isinstance(refused, RequestRefused)
    assert refused.code == -32601


def test_updates_between_turns_belong_to_no_turn() -> None:
    driver, session = idle_client()
    (event,) = driver.feed(chunk("s1", "background"))
    assert isinstance(event, AgentMessageChunk)
    assert (event.turn, event.identity, event.mark) == (None, None, "")
    id = driver.conn.prompt(session, "hi", identity="mine")
    driver.sent()
    driver.now = 120.0
    prompt_sent, event = driver.feed(chunk("s1", "answer"))
    assert isinstance(prompt_sent, PromptSent)
    assert isinstance(event, AgentMessageChunk)
    assert (event.identity, prompt_sent.turn.updates, prompt_sent.turn.last_at) == ("mine", 1, 120.0)
    driver.feed(result(id, {"stopReason": "end_turn"}))
    (event,) = driver.feed(chunk("s1", "after"))
    assert isinstance(event, AgentMessageChunk)
    assert event.turn is None


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "stop", "known"),
    [
        ({"stopReason": "end_turn"}, "end_turn", True),
        ({"stopReason": "max_tokens", "usage": {"totalTokens": 1}}, "max_tokens", True),
        ({"stopReason": "max_turn_requests"}, "max_turn_requests", True),
        ({"stopReason": "refusal"}, "refusal", True),
        ({"stopReason": "cancelled"}, "cancelled", True),
        ({"stopReason": "exhausted"}, "exhausted", False),
        ({"stopReason": ""}, "", False),
        ({"stopReason": None}, "", False),
        ({"stopReason": 5}, "", False),
        ({}, "", False),
        (None, "", False),
        ([], "", False),
        ("end_turn", "", False),
    ],
)
def test_a_turn_ends_with_the_agents_own_word(value: object, stop: str, known: bool) -> None:
    driver, session = idle_client()
    id = driver.conn.prompt(session, "hi", identity="mine", token="t")
    driver.sent()
    driver.drain()
    (ended,) = driver.feed(result(id, value))
    assert isinstance(ended, TurnEnded)
    assert (ended.stop_reason, ended.known, ended.prompt_id) == (stop, known, id)
    assert (ended.identity, ended.token, ended.cancel_asked, ended.cancel_error) == ("mine", "t", None, None)
    assert ended.result == (value if isinstance(value, dict) else {})
    assert (session.state, session.turn) == ("idle", None)


def test_an_error_fails_a_turn_and_the_session_lives_on() -> None:
    driver, session, id = prompting_client()
    (failed,) = driver.feed(error(id, -32603, "model overloaded"))
    assert isinstance(failed, TurnFailed)
    assert (failed.outcome, failed.dispatch, failed.cancel_asked) == ("error", "answered", None)
    assert isinstance(failed.error, RequestError)
    assert failed.error.message == "model overloaded"
    assert session.state == "idle"
    driver.prompt(session)


def test_only_the_prompts_own_answer_ends_a_turn() -> None:
    driver, session, id = prompting_client()
    driver.feed(result(id + 1, {"stopReason": "end_turn"}), result(id - 1, {}), error(None, -32603))
    assert session.state == "prompting"
    assert isinstance(one(driver.feed(result(id, {"stopReason": "end_turn"})), TurnEnded), TurnEnded)
    assert one(driver.feed(result(id, {"stopReason": "end_turn"})), AnswerUnmatched).why == "repeated"


def test_one_turn_at_a_time() -> None:
    driver, session, id = prompting_client()
    for _ in range(2):
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.prompt(session, "second")
        assert caught.value.rule == "turn.one_at_a_time"
        assert session.state in str(caught.value)
        driver.conn.cancel_turn(session)
    driver.sent()
    driver.feed(result(id, {"stopReason": "cancelled"}))
    driver.conn.prompt(session, "third")


@requirement(50)
def test_one_prompt_may_wait_while_the_session_opens() -> None:
    driver = client()
    session = driver.conn.open_session(CWD)
    first = driver.conn.prompt(session, "a")
    with pytest.raises(LocalProtocolError):
        driver.conn.prompt(session, "b")
    # It can be withdrawn, and another may wait in its place.
    driver.conn.cancel_turn(session)
    failed = one(driver.drain(), TurnFailed)
    assert (failed.prompt_id, failed.dispatch, failed.outcome) == (first, "not_sent", "withdrawn")
    second = driver.conn.prompt(session, "c")
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"protocolVersion": 1}))
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"sessionId": "s1"}))
    (message,) = driver.sent()
    assert message["id"] == second


def test_a_waiting_prompt_is_encoded_when_it_is_given() -> None:
    """What the caller does to its blocks afterwards changes nothing."""
    driver = client()
    session = driver.conn.open_session(CWD)
    block: dict[str, object] = {"type": "text", "text": "as given"}
    driver.conn.prompt(session, [block])
    block["text"] = "changed"
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"protocolVersion": 1}))
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"sessionId": "s1"}))
    (message,) = driver.sent()
    assert message["params"] == {"sessionId": "s1", "prompt": [{"type": "text", "text": "as given"}]}


@requirement(37)
@pytest.mark.parametrize("kind", ["image", "audio", "resource"])
def test_content_that_the_agent_does_not_take(kind: str) -> None:
    block: Message = {"type": kind, "data": "", "mimeType": "x", "resource": {"uri": "file:///a", "text": ""}}
    driver = client().initialize({})
    session = driver.open()
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.prompt(session, [block])
    assert caught.value.rule == "capability.missing"
    # One that waited settles unsent once the agent is known.
    driver = client()
    session = driver.conn.open_session(CWD)
    id = driver.conn.prompt(session, [block])
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"protocolVersion": 1}))
    (message,) = driver.sent()
    events = driver.feed(result(message["id"], {"sessionId": "s1"}))
    failed = one(events, TurnFailed)
    assert (failed.prompt_id, failed.dispatch) == (id, "not_sent")
    assert isinstance(failed.error, LocalProtocolError)
    assert driver.sent() == []
    assert session.state == "idle"
    # Text and links always go, and what was advertised.
    driver, session = idle_client()
    driver.conn.prompt(
        session, [{"type": "text", "text": ""}, {"type": "resource_link", "uri": "u", "name": "n"}, block]
    )
    assert len(driver.sent()) == 1


def test_a_prompts_deadline_cancels_its_turn() -> None:
    driver, session = idle_client()
    id = driver.conn.prompt(session, "hi", deadline=30.0)
    driver.sent()
    driver.drain()
    assert driver.wait(29.9) == []
    driver.wait(0.1)
    assert [message["method"] for message in driver.sent()] == ["session/cancel"]
    assert session.state == "cancelling"
    (ended,) = driver.feed(result(id, {"stopReason": "cancelled"}))
    assert isinstance(ended, TurnEnded)
    assert ended.cancel_asked == "deadline"
    # One that could not even be sent in time is withdrawn.
    driver.conn.notify("_big", {"x": "x" * 1000})
    driver.conn.prompt(session, "hi", deadline=30.0)
    driver.sent(10)
    failed = one(driver.wait(30.0), TurnFailed)
    assert (failed.outcome, failed.dispatch) == ("deadline", "not_sent")
    assert session.state == "idle"


# ── Cancelling ──────────────────────────────────────────────────────────────────────────────────────────────────────


def cancelling(then: CancelThen = "report") -> tuple[ClientDriver, Session, int]:
    driver, session, id = prompting_client()
    driver.conn.cancel_turn(session, then=then)
    assert [message["method"] for message in driver.sent()] == ["session/cancel"]
    assert driver.drain() == []
    return driver, session, id


@requirement(76)
def test_a_cancelled_turn_ends_with_its_answer() -> None:
    driver, session, id = cancelling()
    # Updates go on until then.
    assert [event.mark for event in only(driver.feed(chunk("s1", "last")), Update)] == [""]
    (ended,) = driver.feed(result(id, {"stopReason": "cancelled"}))
    assert isinstance(ended, TurnEnded)
    assert (ended.stop_reason, ended.cancel_asked, session.state) == ("cancelled", "owner", "idle")


def test_a_turn_that_ended_anyway_says_both() -> None:
    driver, _, id = cancelling()
    (ended,) = driver.feed(result(id, {"stopReason": "end_turn"}))
    assert isinstance(ended, TurnEnded)
    assert (ended.stop_reason, ended.cancel_asked) == ("end_turn", "owner")


def test_the_error_of_a_cancelled_turn_counts_as_cancelled() -> None:
    """An abort that leaks out as an error."""
    driver, session, id = cancelling()
    (ended,) = driver.feed(error(id, -32603, "AbortError"))
    assert isinstance(ended, TurnEnded)
    assert (ended.stop_reason, ended.cancel_asked, session.state) == ("cancelled", "owner", "idle")
    assert isinstance(ended.cancel_error, RequestError)


def test_a_second_cancel_is_nothing() -> None:
    driver, session, _ = cancelling()
    driver.conn.cancel_turn(session)
    assert driver.sent() == []
    assert driver.conn.next_deadline() == 102.0


def test_a_cancel_between_turns_is_written_and_that_is_all() -> None:
    """A turn that another client started may be running."""
    driver, session = idle_client()
    driver.conn.cancel_turn(session)
    assert [message["method"] for message in driver.sent()] == ["session/cancel"]
    assert (driver.drain(), session.state, driver.conn.next_deadline()) == ([], "idle", None)


def fenced(then: CancelThen = "report") -> tuple[ClientDriver, Session, int]:
    driver, session, id = cancelling(then)
    failed, fence = driver.wait(2.0)
    assert isinstance(failed, TurnFailed)
    assert (failed.outcome, failed.dispatch, failed.cancel_asked) == ("deadline", "sent_no_reply", "owner")
    assert isinstance(failed.error, RequestTimeout)
    assert isinstance(fence, SessionFenced)
    assert fence.prompt_id == id
    return driver, session, id


def test_a_fence_keeps_the_next_turn_out() -> None:
    """Updates carry no turn, so nothing may be mixed in."""
    driver, session, _ = fenced()
    assert session.state == "fenced"
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.prompt(session, "next")
    assert "fence" in str(caught.value)
    events = driver.feed(chunk("s1", "late"), update("s1", "current_mode_update", currentModeId="code"))
    assert [(event.mark, event.turn, event.late) for event in only(events, Update)] == [("late", None, True)] * 2
    assert session.current_mode_id == "code"
    assert driver.wait(1e6) == []


@pytest.mark.parametrize(
    "unreadable", ['"result":{},"error":{"code":1,"message":"x"}', '"error":5', '"error":{"code":"x"}']
)
def test_an_answer_that_cannot_be_read_lifts_the_fence_too(unreadable: str) -> None:
    """The agent is done with the prompt, whatever it said of it."""
    driver, session, id = fenced()
    line = f'{{"jsonrpc":"2.0","id":{id},{unreadable}}}'
    events = driver.feed(line)
    assert one(events, FenceLifted).raw == {}
    assert session.state == "idle"
    assert only(driver.feed(line), FenceLifted) == []


@pytest.mark.parametrize("late", [lambda id: result(id, {"stopReason": "end_turn"}), lambda id: error(id, -1)])
def test_only_the_late_answer_lifts_the_fence(late: Callable[[int], Message]) -> None:
    driver, session, id = fenced()
    driver.feed(result(id + 1, {}), result(999, {}))
    assert session.state == "fenced"
    unmatched, lifted = driver.feed(late(id))
    assert isinstance(unmatched, AnswerUnmatched)
    assert unmatched.why == "late"
    assert isinstance(lifted, FenceLifted)
    assert (lifted.prompt_id, lifted.raw["id"], session.state) == (id, id, "idle")
    driver.prompt(session, "next")
    assert [event.mark for event in only(driver.feed(chunk("s1", "x")), Update)] == [""]


def test_closing_a_fenced_session() -> None:
    driver, session, id = fenced()
    close = driver.conn.close_session(session)
    driver.sent()
    events = driver.feed(result(close, {}))
    assert names(events) == ["SessionClosed", "RequestSettled"]
    assert session.state == "closed"
    assert names(driver.feed(result(id, {}))) == ["AnswerUnmatched"]


def test_a_refused_close_leaves_the_fence_where_it_is() -> None:
    driver, session, id = fenced()
    close = driver.conn.close_session(session)
    driver.sent()
    driver.feed(error(close, -1))
    assert session.state == "fenced"
    assert names(driver.feed(result(id, {}))) == ["AnswerUnmatched", "FenceLifted"]


def test_reopening_a_fenced_session() -> None:
    driver, session, prompt = fenced()
    again, id = driver.load()
    assert one(driver.drain(), SessionClosed).session is session
    assert names(driver.feed(result(id, {})))[-1] == "SessionReady"
    assert (session.state, again.state) == ("closed", "idle")
    # The late answer of the old turn touches neither.
    driver.prompt(again)
    assert names(driver.feed(result(prompt, {"stopReason": "end_turn"}))) == ["AnswerUnmatched"]
    assert again.state == "prompting"


def test_the_fence_may_close_the_session() -> None:
    driver, session, _ = fenced(then="close_session")
    assert session.state == "closing"
    (message,) = driver.sent()
    assert message["method"] == "session/close"
    events = driver.feed(result(message["id"], {}))
    assert names(events) == ["SessionClosed", "RequestSettled"]


def test_the_fence_may_close_the_connection() -> None:
    driver, _, _ = cancelling(then="close")
    events = driver.wait(2.0)
    assert names(events) == ["TurnFailed", "SessionFenced", "ConnectionOver"]
    assert driver.conn.closed


def test_a_cancel_that_meets_a_close_that_is_refused() -> None:
    """The turn was given up while the session was being closed: when it lives on, it is fenced."""
    driver, session, id = cancelling()
    close = driver.conn.close_session(session, deadline=100.0)
    driver.sent()
    assert names(driver.wait(2.0)) == ["TurnFailed", "SessionFenced"]
    assert session.state == "closing"
    driver.feed(error(close, -1))
    assert session.state == "fenced"
    assert names(driver.feed(result(id, {}))) == ["AnswerUnmatched", "FenceLifted"]
    assert session.state == "idle"


def test_cancelling_a_prompt_as_a_request_cancels_its_turn() -> None:
    driver, session, id = prompting_client()
    driver.conn.cancel_request(id)
    assert [message["method"] for message in driver.sent()] == ["session/cancel"]
    assert session.state == "cancelling"


# ── Closing a session ───────────────────────────────────────────────────────────────────────────────────────────────


def test_closing_a_session_ends_its_turn_and_its_permissions() -> None:
    driver, session, prompt = prompting_client()
    driver.feed(permission(0, "s1"))
    id = driver.conn.close_session(session, token="t")
    # Closing cancels the work: what the agent waits for is answered at once, behind the request.
    assert [event.by for event in only(driver.drain(), PermissionAnswered)] == ["close"]
    cancelled = {"outcome": {"outcome": "cancelled"}}
    assert driver.sent() == [request(id, "session/close", {"sessionId": "s1"}), result(0, cancelled)]
    assert one(driver.feed(permission(1, "s1")), PermissionAnswered).option_id is None
    assert driver.sent() == [result(1, cancelled)]
    events = driver.feed(result(id, {}))
    assert names(events) == ["TurnFailed", "SessionClosed", "RequestSettled"]
    failed = one(events, TurnFailed)
    assert (failed.prompt_id, failed.outcome, failed.dispatch) == (prompt, "closed", "sent_no_reply")
    assert one(events, RequestSettled).token == "t"
    assert one(driver.feed(result(prompt, {})), AnswerUnmatched).why == "late"


@pytest.mark.parametrize("order", ["prompt first", "close first"])
def test_the_answers_to_close_and_prompt_come_in_any_order(order: str) -> None:
    driver, session, prompt = prompting_client()
    close = driver.conn.close_session(session)
    driver.sent()
    ended, closed = result(prompt, {"stopReason": "cancelled"}), result(close, {})
    events = driver.feed(*((ended, closed) if order == "prompt first" else (closed, ended)))
    assert len(only(events, TurnEnded)) + len(only(events, TurnFailed)) == 1
    assert len(only(events, SessionClosed)) == 1
    assert session.state == "closed"


@pytest.mark.parametrize("state", ["idle", "prompting", "cancelling"])
def test_a_refused_close_leaves_the_session_as_it_was(state: str) -> None:
    driver, session, prompt = prompting_client()
    if state == "cancelling":
        driver.conn.cancel_turn(session, deadline=100.0)
    if state == "idle":
        driver.feed(result(prompt, {"stopReason": "end_turn"}))
    id = driver.conn.close_session(session)
    driver.sent()
    assert session.state == "closing"
    settled = one(driver.feed(error(id, -32603, "busy")), RequestSettled)
    assert (settled.outcome, session.state) == ("error", state)
    # Without an answer in time, too.
    driver.conn.close_session(session, deadline=1.0)
    driver.sent()
    assert one(driver.wait(1.0), RequestSettled).outcome == "deadline"
    assert session.state == state


@requirement(38)
def test_closing_needs_the_capability() -> None:
    driver = client().initialize({})
    session = driver.open()
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.close_session(session)
    assert caught.value.rule == "capability.missing"


# ── Modes and options ───────────────────────────────────────────────────────────────────────────────────────────────


@requirement(108)
def test_modes_and_options_can_be_set_at_any_time() -> None:
    driver = client().initialize()
    session = driver.open(setup={"modes": MODES, "configOptions": [option()]})
    driver.prompt(session)
    mode = driver.conn.set_mode(session, "code", token="m")
    value = driver.conn.set_config_option("s1", "effort", "high", token="o")
    assert driver.sent() == [
        request(mode, "session/set_mode", {"sessionId": "s1", "modeId": "code"}),
        request(value, "session/set_config_option", {"sessionId": "s1", "configId": "effort", "value": "high"}),
    ]
    settled = driver.feed(result(mode, {}), result(value, {"configOptions": [option("high")]}))
    assert [event.token for event in only(settled, RequestSettled)] == ["m", "o"]
    assert (session.current_mode_id, session.config_options) == ("code", [option("high")])
    with pytest.raises(LocalProtocolError):
        driver.conn.set_mode(session, "none")
    with pytest.raises(LocalProtocolError):
        driver.conn.set_config_option(session, "none", "x")
    # A refusal changes nothing on the handle.
    id = driver.conn.set_mode(session, "ask")
    driver.sent()
    driver.feed(error(id, -1))
    assert session.current_mode_id == "code"


# ── Many sessions, many connections ─────────────────────────────────────────────────────────────────────────────────


def test_sessions_do_not_disturb_each_other() -> None:
    driver, first = idle_client("s1")
    second = driver.open("s2")
    one_id, two_id = driver.prompt(first), driver.prompt(second)
    events = driver.feed(chunk("s2", "b"), chunk("s1", "a"))
    assert [(event.session, event.text) for event in only(events, AgentMessageChunk)] == [(second, "b"), (first, "a")]
    driver.conn.cancel_turn(first)
    driver.sent()
    driver.wait(2.0)
    assert (first.state, second.state) == ("fenced", "prompting")
    assert names(driver.feed(result(two_id, {"stopReason": "end_turn"}))) == ["TurnEnded"]
    assert names(driver.feed(result(one_id, {}))) == ["AnswerUnmatched", "FenceLifted"]


@pytest.mark.parametrize("nonce", ["other", "test"])
def test_a_handle_of_another_connection_is_refused(nonce: str) -> None:
    """Also when both were given one nonce by mistake, and their sessions one id."""
    driver, _ = idle_client()
    other_driver, other = idle_client(nonce=nonce)
    assert (driver.conn.nonce, other_driver.conn.nonce) == ("test", nonce)
    for intent in (
        lambda: driver.conn.prompt(other, "hi"),
        lambda: driver.conn.cancel_turn(other),
        lambda: driver.conn.close_session(other),
        lambda: driver.conn.request("_x", session=other),
    ):
        with pytest.raises(LocalProtocolError) as caught:
            intent()
        assert caught.value.rule == "session.unknown"


# ── The loop that any IO stack can use ──────────────────────────────────────────────────────────────────────────────


class Wire:
    """A transport and a clock of a test: what the agent says, and when."""

    def __init__(self, answer: Callable[[Message], list[tuple[float, Message]]]) -> None:
        self.now = 100.0
        self.answer = answer
        # What the agent will have said, by time.
        self.pending: list[tuple[float, bytes]] = []
        self.reads = 0

    def clock(self) -> float:
        return self.now

    def write(self, data: bytes) -> None:
        for line in data.splitlines():
            for delay, message in self.answer(json.loads(line)):
                self.pending.append((self.now + delay, as_line(message)))
        self.pending.sort(key=lambda item: item[0])

    def read(self, until: float | None) -> bytes | None:
        """None: time is up; b"": end of input."""
        self.reads += 1
        assert self.reads < 1000, "the loop spins"
        if self.pending and (until is None or self.pending[0][0] <= until):
            when, data = self.pending.pop(0)
            self.now = max(self.now, when)
            return data
        if until is None:
            return b""
        self.now = max(self.now, until)
        return None


def run(conn: ClientConnection, transport: Wire, handle: Callable[[Event], None]) -> None:
    """As DESIGN.md writes it."""
    clock = transport.clock
    while not conn.closed:
        data_out = conn.data_to_send(clock())
        for event in conn.events():
            handle(event)
        transport.write(data_out)
        data = transport.read(until=conn.next_deadline())
        if data is None:
            conn.handle_timeout(clock())
        else:
            conn.receive_data(data, clock())
        for event in conn.events():
            handle(event)


def agent_answers(silent_after_load: bool) -> Callable[[Message], list[tuple[float, Message]]]:
    def answer(message: Message) -> list[tuple[float, Message]]:
        id, method = message.get("id"), message.get("method")
        if method == "initialize":
            return [(0.1, result(id, {"protocolVersion": 1, "agentCapabilities": LOADS}))]
        if method == "session/load":
            history = [(0.2, chunk("s1", "old")), (0.3, result(id, {}))]
            return history if silent_after_load else [*history, (0.35, chunk("s1", "older"))]
        if method == "session/prompt":
            return [
                (0.1, permission("p", "s1")),
                (0.5, chunk("s1", "hello")),
                (0.6, result(id, {"stopReason": "end_turn"})),
            ]
        return []

    return answer


@pytest.mark.parametrize("silent_after_load", [False, True])
def test_the_loop_of_any_io_stack(silent_after_load: bool) -> None:
    """Also against an agent that says nothing after a load: the deadline alone wakes the loop."""
    conn = ClientConnection(nonce="loop")
    session = conn.open_session(CWD, resume="s1")
    conn.prompt(session, "fix the tests")
    wire = Wire(agent_answers(silent_after_load))
    seen: list[str] = []

    def handle(event: Event) -> None:
        match event:
            case AgentMessageChunk(text=text):
                seen.append(text)
            case PermissionRequested() as ask:
                seen.append("asked")
                conn.answer_permission(ask.request_id, ask.options[0])
            case PromptSent(prompt_id=id):
                seen.append(f"sent {id}")
            case TurnEnded(stop_reason=reason):
                seen.append(reason)
            case TurnFailed() | SessionFailed() as why:
                raise AssertionError(why)

    run(conn, wire, handle)
    assert seen == ["sent 2", "asked", "hello", "end_turn"]
    assert isinstance(conn.next_event(), type(None))
    assert conn.state == "over"
    # The window closed a quarter of a second after the last of the history.
    began = 100.1 + (0.3 if silent_after_load else 0.35) + 0.25
    assert math.isclose(wire.now, began + 0.6)
    assert wire.reads < 12


def test_the_loop_prints_and_ends_on_the_agents_death() -> None:
    conn = ClientConnection(nonce="loop")
    conn.open_session(CWD)
    ends: list[Event] = []
    run(conn, Wire(lambda message: []), ends.append)
    assert names(ends)[-2:] == ["SessionFailed", "ConnectionOver"]
    assert len(only(ends, ConnectionOver)) == 1


def test_a_handle_says_what_it_is() -> None:
    _, session = idle_client()
    assert repr(session) == "Session('s1', idle)"
