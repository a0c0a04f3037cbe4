"""One test for each row of docs/decisions.md."""

from __future__ import annotations

import json
from typing import TypeVar

import pytest

from acp_core import (
    AgentConnection,
    AgentMessageChunk,
    AnswerUnmatched,
    ClientConnection,
    Connection,
    ConnectionOver,
    CurrentModeUpdate,
    Event,
    ForeignUpdate,
    LineTooLong,
    LocalProtocolError,
    Malformed,
    NewSessionRequested,
    NotificationReceived,
    PermissionAnswered,
    PermissionRequested,
    Policy,
    PromptRequested,
    RequestAbandoned,
    RequestReceived,
    RequestRefused,
    RequestRepeated,
    RequestSettled,
    Session,
    SessionFailed,
    SessionFenced,
    Truncated,
    TurnCancelReceived,
    TurnEnded,
    TurnFailed,
)

T = TypeVar("T")

OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


def line(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def update(session_id: str, text: str) -> bytes:
    content = {"type": "text", "text": text}
    return line(
        method="session/update",
        params={"sessionId": session_id, "update": {"sessionUpdate": "agent_message_chunk", "content": content}},
    )


def feed(connection: Connection, data: bytes, now: float = 1.0) -> list[Event]:
    connection.receive_data(data, now)
    return list(connection.events())


def sent(connection: Connection, now: float = 1.0) -> list[dict[str, object]]:
    """What goes out now, parsed."""
    data = connection.data_to_send(now)
    list(connection.events())
    return [json.loads(part) for part in data.splitlines()]


def only(kind: type[T], found: list[Event]) -> T:
    matches = [event for event in found if isinstance(event, kind)]
    assert len(matches) == 1, found
    return matches[0]


INITIALIZED = line(
    id=1,
    result={
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"close": {}, "list": {}}},
    },
)


def opened(permissions: Policy | None = None) -> tuple[ClientConnection, Session]:
    """A client with an idle session named s1."""
    client = ClientConnection(nonce="c", permissions=permissions)
    session = client.open_session("/w")
    sent(client)
    feed(client, INITIALIZED)
    sent(client)
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
    feed(client, line(id=2, result={"sessionId": "s1", "modes": modes}))
    assert session.state == "idle"
    return client, session


def prompting() -> tuple[ClientConnection, Session, int]:
    client, session = opened()
    prompt_id = client.prompt(session, "go")
    sent(client)
    return client, session, prompt_id


def served() -> AgentConnection:
    """An agent with an idle session named s1."""
    agent = AgentConnection(nonce="a", capabilities={"sessionCapabilities": {"close": {}}})
    feed(agent, line(id=0, method="initialize", params={"protocolVersion": 1}))
    request = only(NewSessionRequested, feed(agent, line(id=1, method="session/new", params={"cwd": "/w"})))
    agent.accept(request.request_id, "s1")
    sent(agent)
    return agent


def permission(rpc_id: object, session_id: str = "s1", options: object = OPTIONS) -> bytes:
    return line(
        id=rpc_id,
        method="session/request_permission",
        params={"sessionId": session_id, "toolCall": {"toolCallId": "t"}, "options": options},
    )


PROMPT = line(id=2, method="session/prompt", params={"sessionId": "s1", "prompt": [{"type": "text", "text": "go"}]})


def test_traffic_before_initialize_is_answered() -> None:
    agent = AgentConnection(nonce="a")
    found = feed(agent, line(id=1, method="session/new", params={}) + line(method="_hello", params={}))
    assert only(RequestRefused, found).code == -32600
    assert only(NotificationReceived, found).method == "_hello"
    assert agent.state == "new"
    client = ClientConnection(nonce="c")
    client.initialize()
    sent(client)
    assert only(NotificationReceived, feed(client, line(method="_status", params={}))).method == "_status"
    assert only(RequestRefused, feed(client, line(id=7, method="fs/read_text_file", params={}))).code == -32601


def test_second_initialize() -> None:
    agent = served()
    found = feed(agent, line(id=9, method="initialize", params={"protocolVersion": 1}))
    assert only(RequestRefused, found).code == -32600
    assert agent.state == "open"
    client, _ = opened()
    with pytest.raises(LocalProtocolError, match="once"):
        client.initialize()


def test_duplicate_ids_in_flight() -> None:
    client, _, _ = prompting()
    first = only(PermissionRequested, feed(client, permission(0)))
    assert only(RequestRepeated, feed(client, permission(0))).request_id == first.request_id
    other = [{"optionId": "other", "name": "Other", "kind": "allow_once"}]
    found = feed(client, permission(0, options=other))
    assert only(RequestAbandoned, found).request_id == first.request_id
    second = only(PermissionRequested, found)
    assert second.request_id != first.request_id
    with pytest.raises(LocalProtocolError, match="before"):
        client.answer_permission(first.request_id, "yes")
    assert sent(client) == []
    client.answer_permission(second.request_id, "other")
    assert [message["id"] for message in sent(client)] == [0]


def test_null_request_id() -> None:
    agent = served()
    assert only(Malformed, feed(agent, permission(None))).error.rule == "jsonrpc.id"
    assert [(message["id"], message["error"]) for message in sent(agent)] == [
        (
            None,
            {
                "code": -32600,
                "message": "the id of a request is null: None",
                "data": {"field": "id", "reason": "jsonrpc.id"},
            },
        )
    ]
    client, _ = opened()
    only(Malformed, feed(client, permission(None)))
    assert sent(client) == []


def test_response_with_unknown_id() -> None:
    client, session, prompt_id = prompting()
    assert only(AnswerUnmatched, feed(client, line(id=999, result={}))).why == "unknown"
    assert only(AnswerUnmatched, feed(client, line(id=2, result={}))).why == "repeated"
    unsent_id = client.request("session/list")
    assert only(AnswerUnmatched, feed(client, line(id=unsent_id, result={}))).why == "unsent"
    late_id = client.request("session/list", deadline=1.0)
    sent(client, 2.0)
    client.handle_timeout(3.5)
    assert only(RequestSettled, list(client.events())).outcome == "deadline"
    assert only(AnswerUnmatched, feed(client, line(id=late_id, result={}), 4.0)).why == "late"
    assert session.state == "prompting"
    assert only(TurnEnded, feed(client, line(id=prompt_id, result={"stopReason": "end_turn"}), 5.0)).known


def test_concurrent_prompts_in_one_session() -> None:
    client, session, _ = prompting()
    with pytest.raises(LocalProtocolError, match="prompting"):
        client.prompt(session, "more")
    agent = served()
    only(PromptRequested, feed(agent, PROMPT))
    again = PROMPT.replace(b'"id": 2', b'"id": 3')
    assert only(RequestRefused, feed(agent, again)).code == -32600


def test_unknown_session() -> None:
    agent = served()
    found = feed(agent, PROMPT.replace(b'"s1"', b'"s9"'))
    assert only(RequestRefused, found).code == -32002
    assert "s9" in only(RequestRefused, found).reason
    client, _ = opened(Policy({"default": "allow"}))
    only(RequestRefused, feed(client, permission(5, "s9")))
    assert sent(client) == [{"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "cancelled"}}}]


def test_prompt_to_a_closed_session() -> None:
    client, session = opened()
    close_id = client.close_session(session)
    sent(client)
    feed(client, line(id=close_id, result={}))
    with pytest.raises(LocalProtocolError, match="closed"):
        client.prompt(session, "go")
    agent = served()
    request = only(RequestReceived, feed(agent, line(id=3, method="session/close", params={"sessionId": "s1"})))
    agent.respond(request.request_id)
    assert only(RequestRefused, feed(agent, PROMPT)).code == -32002


def test_cancel_when_idle() -> None:
    client, session = opened()
    client.cancel_turn(session)
    assert [message["method"] for message in sent(client)] == ["session/cancel"]
    assert session.state == "idle"
    client.handle_timeout(100.0)
    assert list(client.events()) == []
    agent = served()
    found = feed(agent, line(method="session/cancel", params={"sessionId": "s1"}))
    assert only(TurnCancelReceived, found).request_id is None


def test_updates_for_unknown_sessions() -> None:
    client = ClientConnection(nonce="c")
    client.open_session("/w")
    sent(client)
    feed(client, INITIALIZED)
    sent(client)
    assert feed(client, update("s1", "early") + update("s9", "stranger")) == []
    found = feed(client, line(id=2, result={"sessionId": "s1"}))
    assert only(AgentMessageChunk, found).text == "early"
    assert only(ForeignUpdate, found).session_id == "s9"
    assert only(ForeignUpdate, feed(client, update("s9", "again"))).why == "unknown"


def test_mode_change_with_and_without_an_echo() -> None:
    client, session = opened()
    request_id = client.set_mode(session, "code")
    sent(client)
    feed(client, line(id=request_id, result={}))
    assert session.current_mode_id == "code"
    echo = {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    found = feed(client, line(method="session/update", params={"sessionId": "s1", "update": echo}))
    assert only(CurrentModeUpdate, found).current_mode_id == session.current_mode_id == "code"


def test_order_across_sessions() -> None:
    client, _ = opened()
    client.open_session("/w")
    sent(client)
    feed(client, line(id=3, result={"sessionId": "s2"}))
    list_id = client.request("session/list")
    sent(client)
    data = update("s1", "a") + update("s2", "b") + line(id=list_id, result={"sessions": []}) + update("s1", "c")
    found = [event.text if isinstance(event, AgentMessageChunk) else "list" for event in feed(client, data)]
    assert found == ["a", "b", "list", "c"]


def test_timeouts() -> None:
    # A prompt and a plain request have none.
    client, session, _ = prompting()
    client.request("session/list")
    sent(client)
    assert client.next_deadline() is None
    # Each step of opening has one.
    other = ClientConnection(nonce="d")
    other.open_session("/w")
    sent(other, 10.0)
    assert other.next_deadline() == 70.0
    other.handle_timeout(70.0)
    assert only(SessionFailed, list(other.events())).outcome == "deadline"
    # So has a cancel, from when it is handed over, and a held permission.
    asked = only(PermissionRequested, feed(client, permission(0), 20.0))
    assert client.next_deadline() == 320.0
    client.handle_timeout(320.0)
    assert only(PermissionAnswered, list(client.events())).request_id == asked.request_id
    client.cancel_turn(session)
    sent(client, 400.0)
    assert client.next_deadline() == 402.0
    client.handle_timeout(402.0)
    found = list(client.events())
    assert only(TurnFailed, found).outcome == "deadline"
    only(SessionFenced, found)
    # And the wait for last words.
    client.send_failed("broken pipe", 500.0)
    list(client.events())
    assert client.next_deadline() == 502.0
    client.handle_timeout(502.0)
    only(ConnectionOver, list(client.events()))


def test_size_limits() -> None:
    client, _, prompt_id = prompting()
    long = b'{"jsonrpc":"2.0","method":"_x","params":{"x":"' + b"x" * (64 << 20) + b'"}}\n'
    found = feed(client, long + line(id=prompt_id, result={"stopReason": "end_turn"}))
    assert only(LineTooLong, found).length == len(long) - 1
    assert only(TurnEnded, found).stop_reason == "end_turn"


def test_absent_params() -> None:
    agent = AgentConnection(nonce="a", capabilities={"sessionCapabilities": {"list": {}}})
    feed(agent, line(id=0, method="initialize", params={"protocolVersion": 1}))
    assert only(RequestReceived, feed(agent, line(id=1, method="session/list"))).params == {}
    client, _ = opened()
    client.request("session/list")
    assert [message["params"] for message in sent(client)] == [{}]


def test_order_of_close_and_prompt_answers() -> None:
    client, session, prompt_id = prompting()
    close_id = client.close_session(session)
    sent(client)
    answered = line(id=prompt_id, result={"stopReason": "cancelled"})
    found = feed(client, answered + line(id=close_id, result={}))
    assert only(TurnEnded, found).stop_reason == "cancelled"
    assert session.state == "closed"

    client, session, prompt_id = prompting()
    close_id = client.close_session(session)
    sent(client)
    found = feed(client, line(id=close_id, result={}) + answered)
    failed = only(TurnFailed, found)
    assert (failed.outcome, failed.dispatch) == ("closed", "sent_no_reply")
    assert only(AnswerUnmatched, found).why == "late"


def test_permission_without_options() -> None:
    client, _, _ = prompting()
    asked = only(PermissionRequested, feed(client, permission(0, options=[])))
    assert asked.options == ()
    client.answer_permission(asked.request_id, None)
    assert sent(client)[0]["result"] == {"outcome": {"outcome": "cancelled"}}
    allowing, _ = opened(Policy({"default": "allow"}))
    answered = only(PermissionAnswered, feed(allowing, permission(0, options=[])))
    assert (answered.verdict, answered.option_id) == ("allow", None)


def test_last_line_without_newline() -> None:
    client, _, prompt_id = prompting()
    client.receive_data(line(id=prompt_id, result={"stopReason": "end_turn"})[:-1], 1.0)
    client.receive_eof(1.0)
    found = list(client.events())
    only(TurnEnded, found)
    assert isinstance(found[-1], ConnectionOver)
    client, _, prompt_id = prompting()
    client.receive_data(line(id=prompt_id, result={"stopReason": "end_turn"})[:-2], 1.0)
    client.receive_eof(1.0)
    found = list(client.events())
    only(Truncated, found)
    assert only(TurnFailed, found).dispatch == "sent_no_reply"


def test_duplicate_keys() -> None:
    client, _, prompt_id = prompting()
    data = b'{"jsonrpc":"2.0","id":999,"id":%d,"result":{"stopReason":"x","stopReason":"end_turn"}}\n' % prompt_id
    assert only(TurnEnded, feed(client, data)).stop_reason == "end_turn"


def test_nan() -> None:
    client, session, prompt_id = prompting()
    found = feed(client, b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn","cost":NaN}}\n' % prompt_id)
    assert only(Malformed, found).error.rule == "json.constant"
    assert only(TurnFailed, found).outcome == "invalid"
    with pytest.raises(LocalProtocolError, match="JSON"):
        client.prompt(session, [{"type": "text", "text": "x", "_meta": {"x": float("nan")}}])
