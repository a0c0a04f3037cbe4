"""An agent's end: the handshake's answer, sessions served, turns answered, updates and questions sent."""

from __future__ import annotations

import json

import pytest

from acp_core import (
    AuthenticateRequested,
    CancelRequested,
    CloseSessionRequested,
    DeleteSessionRequested,
    Event,
    Initialized,
    Limits,
    ListSessionsRequested,
    LoadSessionRequested,
    LocalProtocolError,
    LogoutRequested,
    NewSessionRequested,
    PromptRequested,
    RequestAbandoned,
    RequestReceived,
    RequestRefused,
    RequestSettled,
    ResumeSessionRequested,
    SetConfigOptionRequested,
    SetModeRequested,
    TurnCancelReceived,
)
from tests.core.helpers import (
    CWD,
    FULL_AGENT,
    OPTIONS,
    AgentDriver,
    Message,
    agent,
    error,
    names,
    notification,
    one,
    only,
    request,
    result,
)
from tests.spec.requirements import requirement


def idle() -> AgentDriver:
    driver = agent().initialize()
    driver.open()
    return driver


def prompting() -> tuple[AgentDriver, str]:
    driver = idle()
    return driver, driver.prompt()


def refused(events: list[Event]) -> int:
    """The code of the only event, a refusal."""
    (event,) = events
    assert isinstance(event, RequestRefused), event
    return event.code


def answered(driver: AgentDriver) -> list[tuple[object, object]]:
    """Ids of the answers that were written, with the result or the error's code."""
    found = []
    for message in driver.sent():
        failure = message.get("error")
        found.append((message.get("id"), failure["code"] if isinstance(failure, dict) else message.get("result")))
    return found


# ── The handshake ───────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(26, 29)
def test_the_answer_to_initialize() -> None:
    driver = agent({"loadSession": True}, info={"name": "a", "version": "1"}, auth_methods=[{"id": "k", "name": "K"}])
    params = {"protocolVersion": 1, "clientCapabilities": {"terminal": True}, "clientInfo": {"name": "c"}}
    (event,) = driver.feed(request("i", "initialize", params))
    assert isinstance(event, Initialized)
    assert (event.version, event.peer_capabilities, event.peer_info) == (1, {"terminal": True}, {"name": "c"})
    assert driver.sent() == [
        result(
            "i",
            {
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": True},
                "agentInfo": {"name": "a", "version": "1"},
                "authMethods": [{"id": "k", "name": "K"}],
            },
        )
    ]
    assert (driver.conn.state, driver.conn.version, driver.conn.peer_capabilities) == ("open", 1, {"terminal": True})


@requirement(26, 28)
@pytest.mark.parametrize("version", [0, 2, 99, 65535])
def test_another_version_is_answered_with_ours(version: int) -> None:
    """The client decides whether it can go on."""
    driver = agent()
    assert names(driver.feed(request(0, "initialize", {"protocolVersion": version}))) == ["Initialized"]
    (answer,) = driver.sent()
    assert isinstance(answer["result"], dict)
    assert answer["result"]["protocolVersion"] == 1


@requirement(30)
@pytest.mark.parametrize("version", [-1, 65536, 1.0, "1", True, None, [1]])
def test_a_version_that_is_none_is_refused(version: object) -> None:
    driver = agent()
    assert refused(driver.feed(request(0, "initialize", {"protocolVersion": version}))) == -32602
    assert driver.conn.state == "new"
    driver.initialize()
    assert driver.conn.state == "open"


@requirement(25, 50)
def test_nothing_is_served_before_initialize_and_it_comes_once() -> None:
    driver = agent(auth_methods=[{"id": "k", "name": "K"}], extensions=["_x"])
    for method in ("session/new", "session/prompt", "authenticate", "session/list", "_x"):
        assert refused(driver.feed(request(1, method, {"sessionId": "s1", "prompt": []}))) == -32600
    driver.sent()
    driver.initialize()
    assert refused(driver.feed(request(2, "initialize", {"protocolVersion": 1}))) == -32600
    assert answered(driver) == [(2, -32600)]
    assert driver.conn.state == "open"
    # A first one whose answer cannot be written is no second one, and what follows it comes before it all the same.
    driver = agent()
    driver.conn.send_failed("gone", driver.now)
    event = one(driver.feed(request(1, "initialize", {"protocolVersion": 1})), RequestRefused)
    assert (event.code, event.reason) == (-32603, "the connection is broken: the answer cannot be written")
    assert driver.conn.version is None
    assert refused(driver.feed(request(2, "session/new", {"cwd": "/"}))) == -32600


def test_authenticate_needs_a_way_to_log_in() -> None:
    driver = agent().initialize()
    assert refused(driver.feed(request(1, "authenticate", {"methodId": "k"}))) == -32601
    driver = agent(auth_methods=[{"id": "k", "name": "K"}]).initialize()
    (event,) = driver.feed(request(1, "authenticate", {"methodId": "k"}))
    assert isinstance(event, AuthenticateRequested)
    assert event.method_id == "k"
    driver.conn.respond_error(event.request_id, -1, "wrong key")
    assert answered(driver) == [(1, -1)]


# ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(66)
def test_a_new_session() -> None:
    driver = agent().initialize()
    params = {"cwd": CWD, "mcpServers": [{"name": "m"}, 5], "additionalDirectories": ["/other"]}
    (event,) = driver.feed(request(1, "session/new", params))
    assert isinstance(event, NewSessionRequested)
    assert (event.cwd, event.mcp_servers, event.session_id) == (CWD, [{"name": "m"}], None)
    modes: Message = {"currentModeId": "a", "availableModes": []}
    session = driver.conn.accept(event.request_id, "s1", {"modes": modes, "_meta": {"x": 1}})
    assert (session.session_id, session.cwd, session.state) == ("s1", CWD, "idle")
    assert driver.conn.sessions == (session,)
    assert answered(driver) == [(1, {"modes": modes, "_meta": {"x": 1}, "sessionId": "s1"})]
    assert repr(session) == "ServedSession('s1', idle)"


@requirement(109)
def test_the_answer_goes_before_the_first_update() -> None:
    driver = agent().initialize()
    (event,) = driver.feed(request(1, "session/new", {"cwd": CWD, "mcpServers": []}))
    assert isinstance(event, NewSessionRequested)
    with pytest.raises(LocalProtocolError):
        driver.conn.update_text("s1", "message", delta="too early")
    driver.conn.accept(event.request_id, "s1")
    driver.conn.update("s1", {"sessionUpdate": "available_commands_update", "availableCommands": []})
    assert [message.get("method", "answer") for message in driver.sent()] == ["answer", "session/update"]


@requirement(14)
def test_an_id_names_one_session_for_ever() -> None:
    driver = idle()
    (event,) = driver.feed(request(5, "session/new", {"cwd": CWD, "mcpServers": []}))
    assert isinstance(event, NewSessionRequested)
    for wrong in ("s1", "", None):
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.accept(event.request_id, wrong)
        assert caught.value.rule == "session.id"
    driver.conn.respond_error(event.request_id, -32000, "log in")
    assert answered(driver) == [(5, -32000)]
    assert len(driver.conn.sessions) == 1


@pytest.mark.parametrize(
    ("method", "kind"), [("session/load", LoadSessionRequested), ("session/resume", ResumeSessionRequested)]
)
def test_a_stored_session(method: str, kind: type[RequestReceived]) -> None:
    driver = agent().initialize()
    (event,) = driver.feed(request(1, method, {"sessionId": "old", "cwd": CWD, "mcpServers": []}))
    assert type(event) is kind
    assert isinstance(event, RequestReceived)
    assert event.session_id == "old"
    # Nothing else about it is served until it is open.
    assert refused(driver.feed(request(2, "session/prompt", {"sessionId": "old", "prompt": []}))) == -32002
    assert refused(driver.feed(request(3, method, {"sessionId": "old", "cwd": CWD, "mcpServers": []}))) == -32600
    driver.sent()
    if kind is LoadSessionRequested:
        driver.conn.update_text("old", "user", delta="history")
    else:
        with pytest.raises(LocalProtocolError):
            driver.conn.update_text("old", "user", delta="history")
    session = driver.conn.accept(event.request_id, result={"modes": None})
    sent = driver.sent()
    assert sent[-1] == result(1, {"modes": None})
    assert len(sent) == 1 + (kind is LoadSessionRequested)
    assert (session.session_id, session.state) == ("old", "idle")


def test_a_refused_load_is_forgotten() -> None:
    driver = agent().initialize()
    for number in range(3):
        (event,) = driver.feed(request(number, "session/load", {"sessionId": f"s{number}", "cwd": CWD}))
        assert isinstance(event, LoadSessionRequested)
        driver.conn.respond_error(event.request_id, -32002, "no such session")
    assert not [*driver.conn.sessions]
    # One that is known keeps its id.
    driver.open("s1", 9)
    (event,) = driver.feed(request(10, "session/load", {"sessionId": "s1", "cwd": CWD}))
    assert isinstance(event, LoadSessionRequested)
    driver.conn.respond_error(event.request_id, -1, "not now")
    assert [session.session_id for session in driver.conn.sessions] == ["s1"]


@pytest.mark.parametrize(
    "params",
    [
        {"mcpServers": []},
        {"cwd": "relative", "mcpServers": []},
        {"cwd": 5, "mcpServers": []},
        {"cwd": CWD, "additionalDirectories": "x"},
        {"cwd": CWD, "additionalDirectories": ["relative"]},
        {"cwd": CWD, "additionalDirectories": [5]},
    ],
)
def test_directories_are_absolute(params: Message) -> None:
    driver = agent().initialize()
    for method in ("session/new", "session/load", "session/resume"):
        assert refused(driver.feed(request(1, method, {"sessionId": "s1", **params}))) == -32602


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("session/list", {"cwd": "/a", "cursor": "c"}, ListSessionsRequested),
        ("session/close", {"sessionId": "s1"}, CloseSessionRequested),
        ("session/delete", {"sessionId": "s1"}, DeleteSessionRequested),
        ("session/set_mode", {"sessionId": "s1", "modeId": "m"}, SetModeRequested),
        ("session/set_config_option", {"sessionId": "s1", "configId": "c", "value": True}, SetConfigOptionRequested),
        ("logout", {}, LogoutRequested),
    ],
)
def test_every_request_has_its_event(method: str, params: Message, kind: type[RequestReceived]) -> None:
    driver = agent().initialize()
    driver.open(setup={"modes": {"currentModeId": "m", "availableModes": []}, "configOptions": []})
    (event,) = driver.feed(request("r", method, {**params, "_meta": {"a": 1}}))
    assert type(event) is kind
    assert isinstance(event, RequestReceived)
    assert (event.method, event.rpc_id, event.meta) == (method, "r", {"a": 1})
    assert event.params == {**params, "_meta": {"a": 1}}
    if isinstance(event, SetModeRequested):
        assert event.mode_id == "m"
    if isinstance(event, SetConfigOptionRequested):
        assert (event.config_id, event.value) == ("c", True)


@pytest.mark.parametrize("method", ["session/prompt", "session/set_mode", "session/set_config_option", "session/close"])
def test_sessions_that_nobody_knows(method: str) -> None:
    driver = idle()
    assert refused(driver.feed(request(5, method, {"sessionId": "nope", "prompt": []}))) == -32002
    assert refused(driver.feed(request(6, method, {"prompt": []}))) == -32602
    assert refused(driver.feed(request(7, method, {"sessionId": 5, "prompt": []}))) == -32602
    assert [code for _, code in answered(driver)] == [-32002, -32602, -32602]


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(88)
def test_a_turn() -> None:
    driver = idle()
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "data": ""}, {"type": "text", "text": "b"}, 5]
    (event,) = driver.feed(request("p", "session/prompt", {"sessionId": "s1", "prompt": blocks}))
    assert isinstance(event, PromptRequested)
    assert (event.text, len(event.prompt), event.session_id) == ("ab", 3, "s1")
    session = driver.conn.session("s1")
    assert session is not None
    assert (session.state, session.request_id) == ("prompting", event.request_id)
    driver.conn.update_text(session, "thought", delta="hm")
    driver.conn.update_text("s1", "message", "m1", delta="é\n")
    driver.conn.update(session, {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"})
    driver.conn.end_turn(session, "max_tokens", meta={"x": 1})
    assert (session.state, session.request_id) == ("idle", None)
    assert driver.sent() == [
        notification("session/update", {"sessionId": "s1", "update": chunk("agent_thought_chunk", "hm")}),
        notification(
            "session/update", {"sessionId": "s1", "update": {**chunk("agent_message_chunk", "é\n"), "messageId": "m1"}}
        ),
        notification(
            "session/update",
            {"sessionId": "s1", "update": {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"}},
        ),
        result("p", {"stopReason": "max_tokens", "_meta": {"x": 1}}),
    ]


def chunk(kind: str, text: str) -> Message:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def test_text_is_escaped_like_any_other_value() -> None:
    driver, _ = prompting()
    text = '"\\\n\u2028\x00\ud800😀'
    driver.conn.update_text("s1", "message", 'm"\\', delta=text)
    data = driver.conn.data_to_send(driver.now)
    assert data.isascii()
    assert data.count(b"\n") == 1
    update = json.loads(data)["params"]["update"]
    assert (update["content"]["text"], update["messageId"]) == (text, 'm"\\')


def test_a_turn_ends_once_and_with_a_known_word() -> None:
    driver, id = prompting()
    for wrong in ("finished", "", "END_TURN"):
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.end_turn("s1", wrong)
        assert caught.value.rule == "turn.stop_reason"
    driver.conn.end_turn(id)
    for again in ("s1", id):
        with pytest.raises(LocalProtocolError):
            driver.conn.end_turn(again)
    assert answered(driver) == [(2, {"stopReason": "end_turn"})]
    # A plain answer ends it just as well.
    id = driver.prompt(rpc_id=3)
    driver.conn.respond(id, {"stopReason": "refusal", "usage": {"totalTokens": 1}})
    assert answered(driver) == [(3, {"stopReason": "refusal", "usage": {"totalTokens": 1}})]
    id = driver.prompt(rpc_id=4)
    driver.conn.respond_error(id, -32603, "model gone", {"kind": "x"})
    assert answered(driver) == [(4, -32603)]
    assert driver.conn.sessions[0].state == "idle"


def test_one_prompt_at_a_time() -> None:
    driver, id = prompting()
    assert refused(driver.feed(request(9, "session/prompt", {"sessionId": "s1", "prompt": []}))) == -32600
    assert answered(driver) == [(9, -32600)]
    driver.conn.end_turn(id)
    driver.prompt(rpc_id=10)
    assert refused(driver.feed(request(11, "session/prompt", {"sessionId": "s1"}))) == -32600
    driver.conn.end_turn("s1")
    assert refused(driver.feed(request(12, "session/prompt", {"sessionId": "s1", "prompt": "text"}))) == -32602


@requirement(78, 79)
@pytest.mark.parametrize("end", ["end_turn", "respond", "error"])
def test_a_cancelled_turn_ends_as_cancelled_whatever_it_is_ended_with(end: str) -> None:
    driver, id = prompting()
    (event,) = driver.feed(notification("session/cancel", {"sessionId": "s1"}))
    assert isinstance(event, TurnCancelReceived)
    assert (event.session_id, event.request_id) == ("s1", id)
    session = driver.conn.session("s1")
    assert session is not None
    assert (session.state, session.cancelled) == ("cancelling", True)
    # Updates go on until the end.
    driver.conn.update_text("s1", "message", delta="last words")
    if end == "end_turn":
        driver.conn.end_turn("s1", "end_turn")
    elif end == "respond":
        driver.conn.respond(id, {"stopReason": "max_tokens", "_meta": {"x": 1}})
    else:
        driver.conn.respond_error(id, -32603, "AbortError")
    written = driver.sent()
    assert [message.get("method", "answer") for message in written] == ["session/update", "answer"]
    answer = written[-1]["result"]
    assert isinstance(answer, dict)
    assert answer["stopReason"] == "cancelled"
    # The next turn is not cancelled.
    assert (session.state, session.cancelled) == ("idle", False)
    driver.prompt(rpc_id=9)
    driver.conn.end_turn("s1")
    assert answered(driver) == [(9, {"stopReason": "end_turn"})]


def test_a_cancel_of_the_prompt_request_cancels_its_turn() -> None:
    driver, id = prompting()
    events = driver.feed(notification("$/cancel_request", {"requestId": 2}))
    assert one(events, CancelRequested).request_id == id
    driver.conn.end_turn("s1")
    assert answered(driver) == [(2, {"stopReason": "cancelled"})]


@pytest.mark.parametrize("session_id", ["s1", "nope"])
def test_a_cancel_without_a_turn_is_reported(session_id: str) -> None:
    driver = idle()
    (event,) = driver.feed(notification("session/cancel", {"sessionId": session_id}))
    assert isinstance(event, TurnCancelReceived)
    assert (event.session_id, event.request_id) == (session_id, None)
    assert (event.session is not None) == (session_id == "s1")
    assert names(driver.feed(notification("session/cancel", {}))) == ["NotificationReceived"]
    assert driver.sent() == []


@requirement(62)
def test_closing_a_session_ends_its_turn_as_cancelled() -> None:
    driver, id = prompting()
    events = driver.feed(request(5, "session/close", {"sessionId": "s1"}))
    # The work is cancelled as if session/cancel had come.
    assert names(events) == ["TurnCancelReceived", "CloseSessionRequested"]
    close = one(events, CloseSessionRequested)
    driver.conn.respond(close.request_id)
    assert sorted(map(str, answered(driver))) == [
        "(2, {'stopReason': 'cancelled'})",
        "(5, {})",
    ]
    assert one(driver.drain(), RequestAbandoned).request_id == id
    session = driver.conn.session("s1")
    assert session is not None
    assert session.state == "closed"
    with pytest.raises(LocalProtocolError):
        driver.conn.update_text("s1", "message", delta="x")
    assert refused(driver.feed(request(6, "session/prompt", {"sessionId": "s1", "prompt": []}))) == -32002


def test_a_refused_close_leaves_the_session_open() -> None:
    driver = idle()
    (event,) = driver.feed(request(5, "session/close", {"sessionId": "s1"}))
    assert isinstance(event, CloseSessionRequested)
    driver.conn.respond_error(event.request_id, -32603, "busy")
    assert driver.conn.sessions[0].state == "idle"
    driver.prompt(rpc_id=6)


# ── Asking the client ───────────────────────────────────────────────────────────────────────────────────────────────


def test_asking_for_permission() -> None:
    driver, _ = prompting()
    id = driver.conn.ask_permission("s1", {"toolCallId": "c", "title": "T"}, OPTIONS, token="t")
    assert driver.sent() == [
        request(
            id,
            "session/request_permission",
            {"sessionId": "s1", "toolCall": {"toolCallId": "c", "title": "T"}, "options": OPTIONS},
        )
    ]
    outcome = {"outcome": {"outcome": "selected", "optionId": "yes"}}
    settled = one(driver.feed(result(id, outcome)), RequestSettled)
    assert (settled.result, settled.token, settled.key) == (outcome, "t", "session_request_permission")
    assert settled.session is driver.conn.session("s1")


def test_using_the_clients_files() -> None:
    driver, _ = prompting()
    id = driver.conn.request("fs/read_text_file", {"path": "/a"}, session="s1", token="t")
    assert driver.sent() == [request(id, "fs/read_text_file", {"path": "/a", "sessionId": "s1"})]
    settled = one(driver.feed(error(id, -32002, "no such file")), RequestSettled)
    assert (settled.outcome, settled.token) == ("error", "t")


def test_a_request_that_outlived_its_turn_is_given_up() -> None:
    """Nobody waits for the answer to a permission once the turn has ended."""
    driver, _ = prompting()
    id = driver.conn.ask_permission("s1", {"toolCallId": "c"}, OPTIONS)
    driver.sent()
    driver.conn.end_turn("s1")
    settled = one(driver.drain(), RequestSettled)
    assert (settled.id, settled.dispatch) == (id, "sent_no_reply")
    assert [message.get("method", "answer") for message in driver.sent()] == ["answer", "$/cancel_request"]


# ── Lines that are no message ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "id", "code"),
    [
        ("some text", None, -32700),
        ("42", None, -32600),
        ("[1]", None, -32600),
        ("{}", None, -32600),
        ('{"jsonrpc":"2.0","method":', None, -32700),
        (b"\xff", None, -32700),
        ("[" * 1000, None, -32700),
        ('{"jsonrpc":"2.0","id":null,"method":"m"}', None, -32600),
        ('{"jsonrpc":"2.0","id":[1],"method":"m"}', None, -32600),
        ('{"jsonrpc":"2.0","id":5,"method":"m","params":[1]}', 5, -32602),
        ('{"jsonrpc":"2.0","id":"x","method":5}', "x", -32600),
        ('{"id":5,"method":"session/list"}', 5, -32600),
        ('[{"jsonrpc":"2.0","id":1,"method":"m"}]', None, -32600),
    ],
)
def test_an_agent_says_what_it_could_not_read(line: str | bytes, id: object, code: int) -> None:
    driver = idle()
    driver.feed(line)
    assert answered(driver) == [(id, code)]


@requirement(10)
@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}',
        '{"jsonrpc":"2.0","id":[1],"result":{}}',
        '{"jsonrpc":"2.0","error":"text"}',
        '{"id":1,"result":{}}',
        '{"jsonrpc":"2.0","method":"m","params":5}',
        '{"jsonrpc":"2.0","method":"session/update","params":{}}',
    ],
)
def test_nobody_answers_what_looks_like_an_answer_or_a_notification(line: str) -> None:
    driver = idle()
    driver.feed(line)
    assert driver.sent() == []


def test_such_answers_have_a_rate_and_what_is_not_answered_is_counted() -> None:
    """A peer that prints text must not be answered line by line."""
    driver = agent(limits=Limits(error_answer_burst=4, error_answer_rate=2.0)).initialize()
    driver.feed(*["text"] * 10)
    assert answered(driver) == [(None, -32700)] * 4
    driver.now += 1.0
    driver.feed(*["text"] * 10)
    assert len(answered(driver)) == 2
    # The credit does not grow past the burst.
    driver.now += 1000.0
    driver.feed(*["text"] * 10)
    assert len(answered(driver)) == 4
    # A broken request with an id is always answered.
    driver.feed(*[request(number, "m", 5) for number in range(10)])
    assert len(answered(driver)) == 10
    driver.conn.close()
    (over,) = driver.drain()
    assert over.dropped_answers == 6 + 8 + 6  # type: ignore[attr-defined]  # a ConnectionOver


def test_a_request_past_the_bound_is_answered() -> None:
    driver = agent(limits=Limits(max_line_bytes=500)).initialize()
    long = {"jsonrpc": "2.0", "id": 7, "method": "session/new", "params": {"cwd": "/" + "x" * 600}}
    last = {"jsonrpc": "2.0", "method": "session/new", "params": {"cwd": "/" + "x" * 600}, "id": 8}
    driver.feed(long, last)
    assert answered(driver) == [(7, -32600), (8, -32600)]


def test_what_an_agent_advertises_gates_what_it_is_asked() -> None:
    assert not [*agent().conn.sessions]
    gated = {
        "session/load": "loadSession",
        "session/list": "sessionCapabilities",
        "session/resume": "sessionCapabilities",
        "session/close": "sessionCapabilities",
        "session/delete": "sessionCapabilities",
        "logout": "auth",
    }
    for method, needs in gated.items():
        without = {name: value for name, value in FULL_AGENT.items() if name != needs}
        driver = agent(without).initialize()
        driver.open()
        assert refused(driver.feed(request(5, method, {"sessionId": "s1", "cwd": CWD}))) == -32601
    assert only(agent().initialize().log, Initialized)


@pytest.mark.parametrize("nonce", ["other", "test"])
def test_a_handle_of_another_connection_is_refused(nonce: str) -> None:
    driver, other = idle(), agent(nonce=nonce).initialize()
    handle = other.open()
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.update_text(handle, "message", None, delta="x")
    assert caught.value.rule == "session.unknown"
