"""What holds for both ends: intents are atomic, requests settle once, ids are exact, and every state can end."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import pytest

from acp_core import (
    V1,
    AgentConnection,
    AnswerUnmatched,
    CancelRequested,
    ClientConnection,
    Connection,
    ConnectionClosed,
    ConnectionOver,
    Deviation,
    LocalProtocolError,
    Malformed,
    NotificationReceived,
    PermissionAnswered,
    PermissionRequested,
    ReadTextFileRequested,
    RequestAbandoned,
    RequestError,
    RequestReceived,
    RequestRefused,
    RequestRepeated,
    RequestSettled,
    SessionFailed,
    TurnEnded,
    TurnFailed,
)
from acp_core.testing import event_key
from tests.core.helpers import (
    AGENT_STATES,
    CLIENT_STATES,
    CWD,
    OPTIONS,
    AgentDriver,
    ClientDriver,
    Message,
    agent,
    as_line,
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
    request,
    result,
)
from tests.spec.requirements import requirement

NAN = math.nan
DEEP: dict[str, object] = {}
for _ in range(200):
    DEEP = {"deeper": DEEP}


# ── An intent that raises has changed nothing ───────────────────────────────────────────────────────────────────────


def getters(connection: Connection) -> dict[str, object]:
    """Every public getter, and everything that the handles of its sessions say, as values that do not change later."""
    found: dict[str, object] = {"next_deadline": connection.next_deadline()}
    for cls in type(connection).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, property):
                found[name] = still(getattr(connection, name))
    assert isinstance(connection, (ClientConnection, AgentConnection))
    for session in connection.sessions:
        for name in type(session).__slots__:
            # An agent's session keeps the encoded ends of its chunks.
            if not name.startswith("_") and name not in ("prefixes", "chunk"):
                found[f"{session.session_id} {name}"] = still(getattr(session, name))
        turn = getattr(session, "turn", None)
        if turn is not None:
            found[f"{session.session_id} turn"] = (turn.prompt_id, turn.cancel_asked, turn.updates)
    return found


def still(value: object) -> object:
    if isinstance(value, (str, int, float, type(None))):
        return value
    return repr(value) if isinstance(value, (list, dict, tuple)) else type(value).__name__


def future(driver: ClientDriver | AgentDriver) -> list[object]:
    """All that comes of a connection from here on, whatever happens to it: its output and its events."""
    found: list[object] = [driver.conn.data_to_send(driver.now)]
    try:
        found.append(driver.conn.request("_probe"))
    except LocalProtocolError as why:
        found.append(why.rule)
    found += driver.drain()
    found.append(driver.conn.data_to_send(driver.now))
    if driver.conn.state != "over" and driver.conn.unread_bytes == 0:
        try:
            lines: list[Message] = [result(id, {}) for id in range(1, 12)]
            found += driver.feed(chunk("s1", "x"), permission(77, "s1"), permission(0, "s1"), *lines)
            found += driver.feed(request(78, "session/prompt", {"sessionId": "s1", "prompt": []}))
            found += driver.feed(notification("session/cancel", {"sessionId": "s1"}))
        except LocalProtocolError as why:
            found.append(why.rule)
    found.append(driver.conn.data_to_send(driver.now))
    found += driver.wait(1000.0)
    found.append(driver.conn.data_to_send(driver.now))
    found += driver.end()
    return [item if isinstance(item, (bytes, int, str)) else event_key(item, at=True) for item in found]  # type: ignore[arg-type]  # an Event


def foreign_session() -> object:
    return idle_client(nonce="other")[1]


CLIENT_CALLS: list[tuple[str, Callable[[ClientConnection], object]]] = [
    ("initialize", lambda c: c.initialize()),
    ("initialize deadline", lambda c: c.initialize(deadline=0)),
    ("initialize deadline type", lambda c: c.initialize(deadline="1")),  # type: ignore[arg-type]
    ("open", lambda c: c.open_session(CWD)),
    ("open cwd type", lambda c: c.open_session(5)),  # type: ignore[arg-type]
    ("open relative", lambda c: c.open_session("work")),
    ("open resume type", lambda c: c.open_session(CWD, resume=5)),  # type: ignore[arg-type]
    ("open resume empty", lambda c: c.open_session(CWD, resume="")),
    ("open resume open one", lambda c: c.open_session(CWD, resume="s1")),
    ("open auth type", lambda c: c.open_session(CWD, auth=5)),  # type: ignore[arg-type]
    ("open model type", lambda c: c.open_session(CWD, model=5)),  # type: ignore[arg-type]
    ("open config type", lambda c: c.open_session(CWD, config=5)),  # type: ignore[arg-type]
    ("open config value", lambda c: c.open_session(CWD, config={"a": 5})),  # type: ignore[dict-item]
    ("open replay", lambda c: c.open_session(CWD, replay="maybe")),  # type: ignore[arg-type]
    ("open quiet", lambda c: c.open_session(CWD, replay_quiet=None)),  # type: ignore[arg-type]
    ("open step deadline", lambda c: c.open_session(CWD, step_deadline=-1)),
    ("open relative directory", lambda c: c.open_session(CWD, additional_directories=["a"])),
    ("open directory type", lambda c: c.open_session(CWD, additional_directories=[5])),  # type: ignore[list-item]
    ("open directories type", lambda c: c.open_session(CWD, additional_directories=5)),  # type: ignore[arg-type]
    ("open server type", lambda c: c.open_session(CWD, mcp_servers=[5])),  # type: ignore[list-item]
    ("open server nan", lambda c: c.open_session(CWD, mcp_servers=[{}, {"a": NAN}])),
    ("open server deep", lambda c: c.open_session(CWD, mcp_servers=[DEEP])),
    ("open meta type", lambda c: c.open_session(CWD, meta=5)),  # type: ignore[arg-type]
    ("open meta nan", lambda c: c.open_session(CWD, meta={"a": NAN})),
    ("prompt", lambda c: c.prompt("s1", "hi")),
    ("prompt no session", lambda c: c.prompt("nope", "hi")),
    ("prompt session type", lambda c: c.prompt(5, "hi")),  # type: ignore[arg-type]
    ("prompt foreign", lambda c: c.prompt(foreign_session(), "hi")),  # type: ignore[arg-type]
    ("prompt content type", lambda c: c.prompt("s1", 5)),  # type: ignore[arg-type]
    ("prompt bytes", lambda c: c.prompt("s1", b"hi")),  # type: ignore[arg-type]
    ("prompt one block", lambda c: c.prompt("s1", {"type": "text", "text": "a"})),  # type: ignore[arg-type]
    ("prompt empty", lambda c: c.prompt("s1", [])),
    ("prompt block type", lambda c: c.prompt("s1", [5])),  # type: ignore[list-item]
    ("prompt block without type", lambda c: c.prompt("s1", [{"text": "a"}])),
    ("prompt nan", lambda c: c.prompt("s1", [{"type": "text", "text": NAN}])),
    ("prompt deep", lambda c: c.prompt("s1", [{"type": "text", **DEEP}])),
    ("prompt identity type", lambda c: c.prompt("s1", "hi", identity=5)),  # type: ignore[arg-type]
    ("prompt identity long", lambda c: c.prompt("s1", "hi", identity="x" * 1025)),
    ("prompt deadline", lambda c: c.prompt("s1", "hi", deadline=0)),
    ("prompt meta type", lambda c: c.prompt("s1", "hi", meta=5)),  # type: ignore[arg-type]
    ("prompt meta nan", lambda c: c.prompt("s1", "hi", meta={"a": NAN})),
    ("cancel", lambda c: c.cancel_turn("s1")),
    ("cancel no session", lambda c: c.cancel_turn("nope")),
    ("cancel session type", lambda c: c.cancel_turn(None)),  # type: ignore[arg-type]
    ("cancel deadline", lambda c: c.cancel_turn("s1", deadline=0)),
    ("cancel then", lambda c: c.cancel_turn("s1", then="explode")),  # type: ignore[arg-type]
    ("close session", lambda c: c.close_session("s1")),
    ("close no session", lambda c: c.close_session("nope")),
    ("close deadline", lambda c: c.close_session("s1", deadline=-1)),
    ("mode", lambda c: c.set_mode("s1", "none")),
    ("mode type", lambda c: c.set_mode("s1", 5)),  # type: ignore[arg-type]
    ("option", lambda c: c.set_config_option("s1", "none", "v")),
    ("option value type", lambda c: c.set_config_option("s1", "effort", 5)),  # type: ignore[arg-type]
    ("option id type", lambda c: c.set_config_option("s1", 5, "v")),  # type: ignore[arg-type]
    ("authenticate", lambda c: c.authenticate("none")),
    ("authenticate type", lambda c: c.authenticate(5)),  # type: ignore[arg-type]
    ("answer option", lambda c: c.answer_permission("test.1", "not offered")),
    ("answer option type", lambda c: c.answer_permission("test.1", 5)),  # type: ignore[arg-type]
    ("answer unknown", lambda c: c.answer_permission("test.99", None)),
    ("answer other nonce", lambda c: c.answer_permission("other.1", None)),
    ("answer type", lambda c: c.answer_permission(1, None)),  # type: ignore[arg-type]
    ("answer a file", lambda c: c.answer_permission("test.2", None)),
    ("snapshot", lambda c: c.snapshot()),
    ("attach", lambda c: c.attach("s1", 5, deadline=1.0)),
    ("attach no deadline", lambda c: c.attach("s9", 5, deadline=None)),
    ("attach no session", lambda c: c.attach("", None, deadline=None)),
    ("attach type", lambda c: c.attach("s9", "5", deadline=1.0)),  # type: ignore[arg-type]
]

BOTH_CALLS: list[tuple[str, Callable[[Connection], object]]] = [
    ("respond unknown", lambda c: c.respond("test.99", {})),
    ("respond text", lambda c: c.respond("nonsense", {})),
    ("respond empty", lambda c: c.respond("", {})),
    ("respond type", lambda c: c.respond(5, {})),  # type: ignore[arg-type]
    ("respond huge", lambda c: c.respond("test." + "9" * 5000, {})),
    ("respond result type", lambda c: c.respond("test.2", [])),  # type: ignore[arg-type]
    ("respond nan", lambda c: c.respond("test.2", {"a": NAN})),
    ("error code type", lambda c: c.respond_error("test.2", "1", "m")),  # type: ignore[arg-type]
    ("error code bool", lambda c: c.respond_error("test.2", True, "m")),
    ("error code large", lambda c: c.respond_error("test.2", 2**31, "m")),
    ("error code small", lambda c: c.respond_error("test.2", -(2**31) - 1, "m")),
    ("error message type", lambda c: c.respond_error("test.2", 1, None)),  # type: ignore[arg-type]
    ("error data nan", lambda c: c.respond_error("test.2", 1, "m", NAN)),
    ("request type", lambda c: c.request(5)),  # type: ignore[arg-type]
    ("request unknown", lambda c: c.request("unknown/method")),
    ("request with an intent", lambda c: c.request("session/prompt")),
    ("request of a notification", lambda c: c.request("elicitation/complete")),
    ("request to this side", lambda c: c.request("session/list" if c.role == "agent" else "fs/read_text_file")),
    ("request params type", lambda c: c.request("_x", [])),  # type: ignore[arg-type]
    ("request nan", lambda c: c.request("_x", {"a": NAN})),
    ("request deep", lambda c: c.request("_x", DEEP)),
    ("request deadline", lambda c: c.request("_x", deadline=NAN)),
    ("request no session", lambda c: c.request("_x", session="nope")),
    ("request session type", lambda c: c.request("_x", session=5)),  # type: ignore[arg-type]
    ("notify type", lambda c: c.notify(None)),  # type: ignore[arg-type]
    ("notify unknown", lambda c: c.notify("unknown/method")),
    ("notify with an intent", lambda c: c.notify("session/cancel")),
    ("notify of a request", lambda c: c.notify("session/list" if c.role == "client" else "fs/read_text_file")),
    ("notify params type", lambda c: c.notify("_x", "p")),  # type: ignore[arg-type]
    ("notify nan", lambda c: c.notify("_x", {"a": NAN})),
    ("cancel request unknown", lambda c: c.cancel_request(999)),
    ("cancel request zero", lambda c: c.cancel_request(0)),
    ("cancel request type", lambda c: c.cancel_request("1")),  # type: ignore[arg-type]
    ("cancel request bool", lambda c: c.cancel_request(True)),
    ("abort type", lambda c: c.abort(5)),  # type: ignore[arg-type]
    ("send failed type", lambda c: c.send_failed(None, 1.0)),  # type: ignore[arg-type]
]

AGENT_CALLS: list[tuple[str, Callable[[AgentConnection], object]]] = [
    ("accept", lambda a: a.accept("test.1", "")),
    ("accept no id", lambda a: a.accept("test.1")),
    ("accept taken", lambda a: a.accept("test.1", "s1")),
    ("accept id type", lambda a: a.accept("test.1", 5)),  # type: ignore[arg-type]
    ("accept result type", lambda a: a.accept("test.1", "s9", [])),  # type: ignore[arg-type]
    ("accept result nan", lambda a: a.accept("test.1", "s9", {"a": NAN})),
    ("accept other id", lambda a: a.accept("test.1", "not s1")),
    ("accept a prompt", lambda a: a.accept("test.2", "s9")),
    ("accept unknown", lambda a: a.accept("test.99", "s9")),
    ("end", lambda a: a.end_turn("s1", "finished")),
    ("end no turn", lambda a: a.end_turn("s1")),
    ("end no session", lambda a: a.end_turn("nope")),
    ("end type", lambda a: a.end_turn(5)),  # type: ignore[arg-type]
    ("end reason type", lambda a: a.end_turn("s1", None)),  # type: ignore[arg-type]
    ("end meta type", lambda a: a.end_turn("s1", meta=[])),  # type: ignore[arg-type]
    ("end meta nan", lambda a: a.end_turn("s1", meta={"a": NAN})),
    ("end another request", lambda a: a.end_turn("test.1")),
    ("fail no turn", lambda a: a.fail_turn("s1", RequestError(1, "m"))),
    ("fail no session", lambda a: a.fail_turn("nope", RequestError(1, "m"))),
    ("fail error type", lambda a: a.fail_turn("s1", ValueError())),  # type: ignore[arg-type]
    ("fail error nan", lambda a: a.fail_turn("s1", RequestError(1, "m", NAN))),
    ("list no list", lambda a: a.answer_list("test.1", [])),
    ("list type", lambda a: a.answer_list(5, [])),  # type: ignore[arg-type]
    ("list cursor type", lambda a: a.answer_list("test.1", [], 5)),  # type: ignore[arg-type]
    ("end session", lambda a: a.end_session("nope")),
    ("end session loading", lambda a: a.end_session("s1")),
    ("end session type", lambda a: a.end_session(5)),  # type: ignore[arg-type]
    ("seed no session", lambda a: a.seed_text("nope", "message", None, "x")),
    ("seed kind", lambda a: a.seed_text("s1", "shout", None, "x")),
    ("seed type", lambda a: a.seed_text("s1", "message", None, 5)),  # type: ignore[arg-type]
    ("update", lambda a: a.update("s1", {})),
    ("update type", lambda a: a.update("s1", [])),  # type: ignore[arg-type]
    ("update kind type", lambda a: a.update("s1", {"sessionUpdate": 5})),
    ("update kind", lambda a: a.update("s1", {"sessionUpdate": "agent_mesage_chunk"})),
    ("update content", lambda a: a.update("s1", {"sessionUpdate": "agent_message_chunk", "content": "text"})),
    ("update nan", lambda a: a.update("s1", {"sessionUpdate": "_x", "a": NAN})),
    ("update deep", lambda a: a.update("s1", {"sessionUpdate": "_x", **DEEP})),
    ("update no session", lambda a: a.update("nope", {"sessionUpdate": "x"})),
    ("update session", lambda a: a.update("s1", {"sessionUpdate": "plan", "entries": 5, "x": object()})),
    ("text kind", lambda a: a.update_text("s1", "shout", delta="x")),
    ("text type", lambda a: a.update_text("s1", "message", delta=5)),  # type: ignore[arg-type]
    ("text message id type", lambda a: a.update_text("s1", "message", 5, delta="x")),  # type: ignore[arg-type]
    ("text no session", lambda a: a.update_text("nope", "message", delta="x")),
    ("ask no options", lambda a: a.ask_permission("s1", {"toolCallId": "c"}, [])),
    ("ask option type", lambda a: a.ask_permission("s1", {"toolCallId": "c"}, [5])),  # type: ignore[list-item]
    ("ask option incomplete", lambda a: a.ask_permission("s1", {"toolCallId": "c"}, [{"optionId": "a"}])),
    ("ask call type", lambda a: a.ask_permission("s1", 5, OPTIONS)),  # type: ignore[arg-type]
    ("ask call without id", lambda a: a.ask_permission("s1", {}, OPTIONS)),
    ("ask call nan", lambda a: a.ask_permission("s1", {"toolCallId": "c", "a": NAN}, OPTIONS)),
    ("ask deadline", lambda a: a.ask_permission("s1", {"toolCallId": "c"}, OPTIONS, deadline=0)),
    ("ask no session", lambda a: a.ask_permission("nope", {"toolCallId": "c"}, OPTIONS)),
]


def call_name(value: object) -> str:
    return value if isinstance(value, str) else ""


@cache
def undisturbed(make: Callable[[], ClientDriver | AgentDriver]) -> tuple[dict[str, object], list[object]]:
    """The getters and the future of a connection in which no illegal intent was made."""
    twin = make()
    return getters(twin.conn), future(twin)


def check_atomic(make: Callable[[], ClientDriver | AgentDriver], call: Callable[..., object]) -> bool:
    """Whether the call is illegal in this state; if so, a twin without it has the same getters and the same future."""
    driver = make()
    before = getters(driver.conn)
    try:
        call(driver.conn)
    except (LocalProtocolError, TypeError):
        pass
    else:
        return False
    assert getters(driver.conn) == before
    assert (before, future(driver)) == undisturbed(make)
    return True


@pytest.mark.parametrize(("name", "call"), [*CLIENT_CALLS, *BOTH_CALLS], ids=call_name)
def test_an_intent_of_a_client_that_raises_has_changed_nothing(
    name: str, call: Callable[[ClientConnection], object]
) -> None:
    assert [state for state, make in CLIENT_STATES.items() if check_atomic(make, call)], name


@pytest.mark.parametrize(("name", "call"), [*AGENT_CALLS, *BOTH_CALLS], ids=call_name)
def test_an_intent_of_an_agent_that_raises_has_changed_nothing(
    name: str, call: Callable[[AgentConnection], object]
) -> None:
    assert [state for state, make in AGENT_STATES.items() if check_atomic(make, call)], name


def test_every_intent_is_among_them() -> None:
    """A new public method that can raise has to be tried above."""
    receiving = {"receive_data", "receive_message", "receive_eof", "handle_timeout", "data_to_send"}
    never_raising = {"events", "next_event", "next_deadline", "session"}
    never_raising |= {"close", "end_tail", "refuse_turns", "hand_over"}
    tried = {name for _, call in (*CLIENT_CALLS, *BOTH_CALLS, *AGENT_CALLS) for name in call.__code__.co_names}
    for cls in (ClientConnection, AgentConnection):
        public = {name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name))}
        assert public - receiving - never_raising <= tried


# ── Ends ────────────────────────────────────────────────────────────────────────────────────────────────────────────

ALL_STATES: dict[str, Callable[[], ClientDriver | AgentDriver]] = {
    **{f"client {name}": make for name, make in CLIENT_STATES.items()},
    **{f"agent {name}": make for name, make in AGENT_STATES.items()},
}


def check_over(driver: ClientDriver | AgentDriver) -> ConnectionOver:
    """Everything has settled once, the end is said last, and nothing more can be done."""
    conn = driver.conn
    driver.drain()
    assert conn.state == "over"
    over = one(driver.log, ConnectionOver)
    assert driver.log[-1] is over
    assert (conn.open_requests, conn.open_peer_requests, conn.unread_bytes) == (0, 0, 0)
    settled = [event.id for event in only(driver.log, RequestSettled)]
    settled += [event.prompt_id for event in only(driver.log, TurnEnded)]
    settled += [event.prompt_id for event in only(driver.log, TurnFailed)]
    assert len({*settled}) == len(settled)
    assert {session.state for session in conn.sessions} <= {"closed"}
    for intent in (lambda: conn.request("_x"), lambda: conn.notify("_x")):
        with pytest.raises(LocalProtocolError):
            intent()
    return over


@pytest.mark.parametrize("name", ALL_STATES)
def test_close_in_every_state(name: str) -> None:
    driver, twin = ALL_STATES[name](), ALL_STATES[name]()
    half_sent = driver.half_sent
    queued = len([message for message in twin.sent() if "method" not in message])
    # A permission that waits for its session to be named is open too.
    still_open = driver.conn.open_peer_requests + (name == "client creating")
    can_write = driver.conn.state not in ("broken", "over")
    driver.conn.close()
    driver.conn.close()
    over = check_over(driver)
    # Each open request of the peer is answered, unless nothing can be written.
    answered = [message for message in driver.sent() if "method" not in message]
    assert len(answered) == queued + still_open * can_write
    for message in answered[queued:]:
        failure = message.get("error", {"code": -32800})
        assert isinstance(failure, dict)
        assert failure["code"] == -32800
    assert over.unwritten_bytes == 0
    assert (half_sent != b"") == (name == "client prompt half sent")
    assert driver.half_sent == b""
    assert driver.conn.output_closed
    assert driver.conn.closed
    # And after it, everything else is nothing.
    driver.conn.abort()
    driver.conn.receive_eof(driver.now)
    driver.conn.send_failed("late", driver.now)
    assert driver.wait(1e6) == []
    assert driver.sent() == []


@pytest.mark.parametrize("name", ALL_STATES)
def test_abort_in_every_state(name: str) -> None:
    driver = ALL_STATES[name]()
    was_over = driver.conn.state == "over"
    waiting = driver.conn.output_bytes
    driver.conn.abort("enough")
    driver.conn.abort("twice")
    over = check_over(driver)
    assert driver.conn.output_bytes == 0
    assert driver.conn.data_to_send(driver.now) == b""
    assert driver.conn.output_closed
    assert driver.conn.closed
    if not was_over:
        assert (over.reason, over.unwritten_bytes) == ("enough", waiting)
    driver.conn.close()
    assert driver.wait(1e6) == []


def test_output_stays_after_close_until_it_was_handed_over() -> None:
    driver, _, _ = prompting_client()
    driver.feed(permission(0, "s1"))
    driver.conn.close()
    driver.drain()
    assert not driver.conn.closed
    assert not driver.conn.output_closed
    (answer,) = driver.sent()
    assert answer == result(0, {"outcome": {"outcome": "cancelled"}})
    assert driver.conn.output_closed
    assert driver.conn.closed


@requirement(74)
def test_close_withdraws_what_is_unsent_and_settles_the_rest() -> None:
    driver, _ = idle_client()
    first = driver.conn.request("_sent")
    driver.sent()
    second = driver.conn.request("_unsent")
    driver.conn.notify("_stays")
    driver.feed(request("f", "fs/read_text_file", {"sessionId": "s1", "path": "/a"}), permission("p", "s1"))
    driver.conn.close()
    events = driver.drain()
    # What settles while output can still be written comes first; then the rest by id; the end is last.
    assert names(events) == [
        "RequestAbandoned",
        "PermissionAnswered",
        "RequestSettled",
        "RequestSettled",
        "ConnectionOver",
    ]
    assert [(event.id, event.outcome, event.dispatch) for event in only(events, RequestSettled)] == [
        (second, "over", "not_sent"),
        (first, "over", "sent_no_reply"),
    ]
    assert driver.sent() == [
        notification("_stays", {}),
        error("f", -32800, "the connection is closing", {"field": "request", "reason": "connection.closing"}),
        result("p", {"outcome": {"outcome": "cancelled"}}),
    ]


def test_everything_settles_by_id_and_by_arrival() -> None:
    driver, session = idle_client()
    ids = [driver.conn.request("_a"), driver.conn.prompt(session, "hi"), driver.conn.request("_b")]
    driver.sent()
    for rpc_id in ("z", 5, "a"):
        driver.feed(request(rpc_id, "fs/read_text_file", {"sessionId": "s1", "path": "/a"}))
    driver.drain()
    events = driver.end()
    assert names(events) == ["RequestSettled", "TurnFailed", "RequestSettled"] + ["RequestAbandoned"] * 3 + [
        "ConnectionOver"
    ]
    assert [getattr(event, "id", getattr(event, "prompt_id", None)) for event in events[:3]] == ids
    assert [event.rpc_id for event in only(events, RequestAbandoned)] == ["z", 5, "a"]
    for failure in [event.error for event in only(events, RequestSettled)] + [one(events, TurnFailed).error]:
        assert isinstance(failure, ConnectionClosed)
        assert failure.dispatch == "sent_no_reply"


def test_a_session_that_was_being_opened_fails_with_the_connection() -> None:
    for name in ("starting", "authenticating", "creating", "loading", "resuming", "replaying", "configuring"):
        driver = CLIENT_STATES[name]()
        driver.end()
        failed = one(driver.log, SessionFailed)
        assert failed.outcome == "over"
        assert failed.session.state == "closed"
        turns = only(driver.log, TurnFailed)
        assert len(turns) == (name != "authenticating")
        assert all(turn.dispatch == "not_sent" for turn in turns)


# ── Answers, and ids that are nearly right ──────────────────────────────────────────────────────────────────────────


def asked() -> tuple[ClientDriver, int]:
    driver, _ = idle_client()
    id = driver.conn.request("_slow", token="t")
    driver.sent()
    return driver, id


def test_a_result_and_an_error_settle() -> None:
    driver, id = asked()
    settled = one(driver.feed(result(id, [1, None])), RequestSettled)
    assert (settled.outcome, settled.dispatch, settled.result, settled.error) == ("result", "answered", [1, None], None)
    assert (settled.method, settled.key, settled.token, settled.cancel_asked) == ("_slow", "", "t", False)
    driver, id = asked()
    failure = {"code": -32000, "message": "log in", "data": {"how": 1}}
    settled = one(driver.feed({"jsonrpc": "2.0", "id": id, "error": failure}), RequestSettled)
    assert (settled.outcome, settled.dispatch, settled.result) == ("error", "answered", None)
    assert isinstance(settled.error, RequestError)
    assert (settled.error.code, settled.error.message, settled.error.data) == (-32000, "log in", {"how": 1})
    assert settled.error.auth_required


@pytest.mark.parametrize("spelling", [float, str])
def test_an_id_that_came_back_in_another_type_matches_with_a_warning(spelling: Callable[[int], object]) -> None:
    driver, id = asked()
    deviation, settled = driver.feed(result(spelling(id), {}))
    assert isinstance(deviation, Deviation)
    assert deviation.error.rule == "jsonrpc.id"
    assert isinstance(settled, RequestSettled)
    assert settled.outcome == "result"


@pytest.mark.parametrize("wire_id", [True, [1], {"a": 1}, 1.5, None, "1.0", "one", 2**70, -1])
def test_an_id_that_is_wrong_matches_nothing(wire_id: object) -> None:
    """The request has id 1: true, 1.5 and [1] must not be taken for it."""
    driver = client()
    assert driver.conn.initialize() == 1
    driver.sent()
    events = driver.feed(result(wire_id, {"protocolVersion": 1}))
    assert names(events) in (["Malformed"], ["AnswerUnmatched"])
    assert (driver.conn.open_requests, driver.conn.state) == (1, "initializing")
    assert names(driver.feed(result(1, {"protocolVersion": 1}))) == ["Initialized", "RequestSettled"]


@pytest.mark.parametrize(
    "members",
    [
        {"error": "text"},
        {"error": {"message": "no code"}},
        {"error": {"code": "1", "message": "m"}},
        {"result": {}, "error": {"code": 1, "message": "m"}},
        {"error": None},
        {},
        {"result": math.nan},
    ],
)
def test_an_answer_that_breaks_a_rule_settles_as_invalid(members: Message) -> None:
    driver, id = asked()
    fault, settled = driver.feed({"jsonrpc": "2.0", "id": id, **members})
    assert isinstance(fault, Malformed)
    assert isinstance(settled, RequestSettled)
    assert (settled.outcome, settled.dispatch, settled.error) == ("invalid", "answered", fault.error)
    assert names(driver.feed(result(id, {}))) == ["AnswerUnmatched"]


def test_answers_to_nobody() -> None:
    """Unknown, repeated, unsent, late, and an error about a line that the peer could not read."""
    driver, id = asked()
    unsent = driver.conn.request("_unsent")
    given_up = driver.conn.request("_given_up", deadline=1.0)
    driver.sent(1)

    def why(message: Message) -> str:
        event = one(driver.feed(message), AnswerUnmatched)
        assert event.raw["id"] == message["id"]
        return event.why

    assert why(result(999, {})) == "unknown"
    assert why(result(0, {})) == "unknown"
    assert why(result(-1, {})) == "unknown"
    assert why(result("x", {})) == "unknown"
    assert why(error(999, -1)) == "unknown"
    assert why(result(given_up, {})) == "unsent"
    driver.sent()
    driver.feed(result(unsent, {}))
    driver.feed(result(id, {}))
    assert why(result(id, {})) == "repeated"
    assert why(error(id, -1)) == "repeated"
    driver.wait(1.0)
    assert why(result(given_up, {})) == "late"
    assert why(result(given_up, {})) == "repeated"
    assert why(error(None, -32700)) == "no_id"
    assert driver.conn.open_requests == 0
    # What was withdrawn never left: the agent cannot have answered it before, however often it does now.
    withdrawn = driver.conn.request("_x")
    driver.conn.cancel_request(withdrawn)
    never = driver.conn.request("_x", deadline=1.0)
    driver.conn.data_to_send(driver.now, 0)
    driver.wait(1.0)
    assert [why(result(id, {})) for id in (withdrawn, never, withdrawn)] == ["unsent"] * 3


def test_an_agents_answers_follow_the_same_rules() -> None:
    driver = agent().initialize()
    driver.open()
    driver.prompt()
    id = driver.conn.ask_permission("s1", {"toolCallId": "c"}, OPTIONS)
    assert one(driver.feed(result(id, {})), AnswerUnmatched).why == "unsent"
    driver.sent()
    assert names(driver.feed(result(str(id), {"outcome": {"outcome": "cancelled"}}))) == ["Deviation", "RequestSettled"]
    assert one(driver.feed(result(id, {})), AnswerUnmatched).why == "repeated"


# ── Requests of the peer ────────────────────────────────────────────────────────────────────────────────────────────


def read_file(id: object, path: str = "/a") -> Message:
    return request(id, "fs/read_text_file", {"sessionId": "s1", "path": path})


def test_every_request_has_a_public_id_of_its_own() -> None:
    """Agents count from 0 in every turn, and use texts: a stale answer can hit no other request."""
    driver, _, _ = prompting_client()
    ids = []
    for _ in range(3):
        event = one(driver.feed(read_file(0)), ReadTextFileRequested)
        ids.append(event.request_id)
        assert event.rpc_id == 0
        driver.conn.respond(event.request_id, {"content": ""})
    assert ids == ["test.1", "test.2", "test.3"]
    assert driver.sent() == [result(0, {"content": ""})] * 3
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.respond(ids[0], {"content": "late"})
    assert caught.value.rule == "request.answered"


@requirement(13)
@pytest.mark.parametrize("id", [0, -5, 2**53 + 1, 10**30, "", "0", "ü\u2028", "\U0001f600"])
def test_an_answer_has_the_peers_id_in_its_own_type(id: object) -> None:
    driver, _, _ = prompting_client()
    event = one(driver.feed(read_file(id)), ReadTextFileRequested)
    driver.conn.respond(event.request_id, {"content": ""})
    (answer,) = driver.sent()
    assert (answer["id"], type(answer["id"])) == (id, type(id))


def test_ids_of_different_types_are_different_requests() -> None:
    driver, _, _ = prompting_client()
    events = driver.feed(read_file(1), read_file("1"))
    assert names(events) == ["ReadTextFileRequested"] * 2
    for event in only(events, ReadTextFileRequested):
        driver.conn.respond(event.request_id, {"content": ""})
    assert [message["id"] for message in driver.sent()] == [1, "1"]


def test_an_open_request_that_comes_again_is_a_repetition() -> None:
    driver, _, _ = prompting_client()
    first, again = driver.feed(read_file(5), read_file(5))
    assert isinstance(first, ReadTextFileRequested)
    assert isinstance(again, RequestRepeated)
    assert (again.request_id, again.rpc_id, again.method) == (first.request_id, 5, "fs/read_text_file")
    driver.conn.respond(first.request_id, {"content": ""})
    assert driver.sent() == [result(5, {"content": ""})]
    # Once it was answered, the same id is a new request.
    assert names(driver.feed(read_file(5))) == ["ReadTextFileRequested"]


def test_an_open_id_with_another_request_abandons_the_older() -> None:
    driver, _, _ = prompting_client()
    (first,) = only(driver.feed(read_file(5, "/a")), ReadTextFileRequested)
    abandoned, second = driver.feed(read_file(5, "/b"))
    assert isinstance(abandoned, RequestAbandoned)
    assert (abandoned.request_id, abandoned.rpc_id) == (first.request_id, 5)
    assert isinstance(second, ReadTextFileRequested)
    assert driver.sent() == []
    with pytest.raises(LocalProtocolError):
        driver.conn.respond(first.request_id, {"content": "stale"})
    driver.conn.respond(second.request_id, {"content": "b"})
    assert driver.sent() == [result(5, {"content": "b"})]


def test_an_open_id_is_never_answered_with_an_error() -> None:
    """An error would settle the peer's own open request: an illegal second one with its id gets none."""
    driver, _, _ = prompting_client(extensions=["_served"])
    driver.feed(request(5, "_served", {}))
    for bad in (
        request(5, "unknown/method", {}),
        request(5, "_served", []),
        {"jsonrpc": "2.0", "id": 5, "method": "_served", "result": {}},
        {"jsonrpc": "2.0", "id": 5, "method": 7},
    ):
        assert names(driver.feed(bad))[0] in ("RequestRefused", "Malformed")
    assert driver.sent() == []
    assert driver.conn.open_peer_requests == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (request(5, "m", [1]), -32602),
        (request("x", "m", "text"), -32602),
        ({"jsonrpc": "2.0", "id": 5, "method": 7}, -32600),
        ({"jsonrpc": "2.0", "id": 5, "method": "m", "error": {"code": 1, "message": "m"}}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "m"}, None),
        ({"jsonrpc": "2.0", "method": "m", "params": 5}, None),
        ({"id": 5, "method": "m"}, None),
        ({"jsonrpc": "1.0", "id": 5, "method": "m", "params": {}}, None),
    ],
)
def test_a_client_answers_a_broken_request_only_when_its_id_is_clear(message: Message, code: int | None) -> None:
    driver, _, _ = prompting_client()
    assert names(driver.feed(message)) in (["Malformed"], ["Noise"])
    answers = [(answer["id"], answer["error"]) for answer in driver.sent()]
    assert [(id, failure["code"]) for id, failure in answers if isinstance(failure, dict)] == (
        [] if code is None else [(message["id"], code)]
    )


@requirement(124)
def test_extension_requests_are_served_when_they_are_named() -> None:
    driver, _, _ = prompting_client(extensions=["_served", "plain/name"])
    events = driver.feed(request(1, "_served", {"a": 1}), request(2, "plain/name", {}), request(3, "_other", {}))
    assert [type(event) for event in events] == [RequestReceived, RequestReceived, RequestRefused]
    served, plain_name, refused = events
    assert isinstance(served, RequestReceived)
    assert (served.method, served.params, served.rpc_id) == ("_served", {"a": 1}, 1)
    assert isinstance(plain_name, RequestReceived)
    assert isinstance(refused, RequestRefused)
    assert (refused.code, refused.method, refused.rpc_id) == (-32601, "_other", 3)
    driver.conn.respond(served.request_id, {"b": 2})
    driver.conn.respond_error(plain_name.request_id, -5, "no", {"why": None})
    assert driver.sent() == [
        error(3, -32601, "unknown method '_other'", {"field": "method", "reason": "method.unknown"}),
        result(1, {"b": 2}),
        {"jsonrpc": "2.0", "id": 2, "error": {"code": -5, "message": "no", "data": {"why": None}}},
    ]


@requirement(10, 124)
def test_notifications_are_reported_and_never_answered() -> None:
    driver, _, _ = prompting_client()
    events = driver.feed(notification("_note", {"sessionId": "s1"}), notification("session/prompt", {}))
    assert [(event.method, event.known) for event in only(events, NotificationReceived)] == [
        ("_note", False),
        ("session/prompt", False),
    ]
    assert one(events[:1], NotificationReceived).session_id == "s1"
    assert driver.sent() == []


# ── Gates, both ways ────────────────────────────────────────────────────────────────────────────────────────────────

CLIENT_METHODS = [
    ("fs/read_text_file", {"fs": {"readTextFile": True}}),
    ("fs/write_text_file", {"fs": {"writeTextFile": True}}),
    *((f"terminal/{name}", {"terminal": True}) for name in ("create", "output", "wait_for_exit", "kill", "release")),
]


@pytest.mark.parametrize(("method", "capability"), CLIENT_METHODS)
def test_a_client_serves_what_it_advertised(method: str, capability: Message) -> None:
    params = {"sessionId": "s1", "path": "/a", "terminalId": "t", "command": "c", "content": ""}
    for capabilities, expected in (
        (capability, "raised"),
        (None, "refused"),
        ({"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}, "refused"),
    ):
        driver, _ = idle_client(capabilities=capabilities)
        (event,) = driver.feed(request(0, method, params))
        assert isinstance(event, RequestReceived if expected == "raised" else RequestRefused)
        if isinstance(event, RequestRefused):
            assert event.code == -32601
            (answer,) = driver.sent()
            assert answer["id"] == 0


@requirement(117)
@pytest.mark.parametrize("mode", ["form", "url"])
def test_a_client_serves_the_elicitation_modes_it_advertised(mode: str) -> None:
    def ask(capabilities: Message | None, asked_mode: object) -> object:
        driver, _ = idle_client(capabilities=capabilities)
        (event,) = driver.feed(
            request(0, "elicitation/create", {"sessionId": "s1", "mode": asked_mode, "message": "?"})
        )
        return event.code if isinstance(event, RequestRefused) else type(event).__name__

    other = {"form": "url", "url": "form"}[mode]
    assert ask({"elicitation": {mode: {}}}, mode) == "ElicitationRequested"
    assert ask({"elicitation": {mode: {}}}, other) == -32602
    assert ask({"elicitation": {mode: {}}}, "new") == -32602
    assert ask({"elicitation": {mode: {}}}, None) == -32602
    assert ask({"elicitation": {}}, mode) == -32602
    assert ask({"elicitation": {mode: None}}, mode) == -32602
    assert ask({"elicitation": None}, mode) == -32601
    assert ask(None, mode) == -32601


AGENT_METHODS: list[tuple[str, Message]] = [
    ("session/load", {"loadSession": True}),
    ("session/resume", {"sessionCapabilities": {"resume": {}}}),
    ("session/list", {"sessionCapabilities": {"list": {}}}),
    ("session/close", {"sessionCapabilities": {"close": {}}}),
    ("session/delete", {"sessionCapabilities": {"delete": {}}}),
    ("logout", {"auth": {"logout": {}}}),
]


@pytest.mark.parametrize(("method", "capability"), AGENT_METHODS)
def test_an_agent_serves_what_it_advertised(method: str, capability: Message) -> None:
    for capabilities, expected in ((capability, "raised"), (None, "refused"), ({"loadSession": False}, "refused")):
        driver = agent(capabilities).initialize()
        if method in ("session/close",):
            driver.open()
        (event,) = driver.feed(request(9, method, {"sessionId": "s1", "cwd": CWD, "mcpServers": []}))
        assert isinstance(event, RequestReceived if expected == "raised" else RequestRefused)
        assert not isinstance(event, RequestRefused) or event.code == -32601


@requirement(38, 40)
@pytest.mark.parametrize("method", ["session/list", "session/delete", "logout"])
def test_a_client_asks_only_for_what_the_agent_advertised(method: str) -> None:
    driver = client().initialize({})
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.request(method)
    assert caught.value.rule == "capability.missing"
    driver = client().initialize()
    driver.conn.request(method, {"sessionId": "s1"} if method == "session/delete" else None)
    assert [message["method"] for message in driver.sent()] == [method]


@requirement(42)
@pytest.mark.parametrize(("method", "capability"), CLIENT_METHODS)
def test_an_agent_asks_only_for_what_the_client_advertised(method: str, capability: Message) -> None:
    driver = agent().initialize({})
    driver.open()
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.request(method, session="s1")
    assert caught.value.rule == "capability.missing"
    driver = agent().initialize(capability)
    driver.open()
    params: Message = {"path": "/a", "content": "", "command": "c", "terminalId": "t"}
    driver.conn.request(method, params, session="s1")
    (message,) = driver.sent()
    assert (message["method"], message["params"]) == (method, {**params, "sessionId": "s1"})


@pytest.mark.parametrize("name", ["initialize", "session/new", "session/prompt", "$/cancel_request"])
def test_what_has_an_intent_of_its_own_is_not_sent_by_hand(name: str) -> None:
    driver, _ = idle_client()
    for send in (driver.conn.request, driver.conn.notify):
        with pytest.raises(LocalProtocolError) as caught:
            send(name)
        assert caught.value.rule == "method.intent"
    assert driver.sent() == []


def test_what_this_side_handles_is_not_sent_by_it_whatever_has_an_intent() -> None:
    client, _ = idle_client()
    served = agent().initialize({})
    for driver, name in ((client, "session/update"), (served, "session/prompt"), (served, "session/new")):
        with pytest.raises(LocalProtocolError, match="which is this side") as caught:
            driver.conn.request(name)
        assert caught.value.rule == "method.direction"


def test_a_session_that_is_closed_is_not_waited_for() -> None:
    driver, session = idle_client()
    assert driver.conn.session("s1") is session
    driver.conn.abort()
    with pytest.raises(LocalProtocolError, match="is closed; open_session") as caught:
        driver.conn.set_mode(session, "m")
    assert caught.value.rule == "session.ended"


@requirement(50)
def test_nothing_is_asked_before_the_handshake() -> None:
    for send in (client().conn.request, client().conn.notify, agent().conn.request, agent().conn.notify):
        with pytest.raises(LocalProtocolError):
            send("_extension")


# ── Cancelling requests, both ways ──────────────────────────────────────────────────────────────────────────────────


@requirement(71, 73, 75)
def test_cancelling_an_own_request() -> None:
    driver, id = asked()
    driver.conn.cancel_request(id)
    driver.conn.cancel_request(id)
    assert driver.sent() == [notification("$/cancel_request", {"requestId": id})]
    assert driver.drain() == []
    # Whatever comes still settles it, and both facts are told.
    settled = one(driver.feed(error(id, -32800, "cancelled")), RequestSettled)
    assert (settled.outcome, settled.cancel_asked) == ("error", True)
    assert isinstance(settled.error, RequestError)
    assert settled.error.cancelled
    driver, id = asked()
    driver.conn.cancel_request(id)
    settled = one(driver.feed(result(id, {"partial": True})), RequestSettled)
    assert (settled.outcome, settled.cancel_asked, settled.result) == ("result", True, {"partial": True})
    # A settled one is left alone: that race is nobody's fault.
    driver.sent()
    driver.conn.cancel_request(id)
    assert driver.sent() == []


@requirement(72)
def test_the_peer_cancels_its_request() -> None:
    driver, _, _ = prompting_client()
    (asked_for,) = only(driver.feed(read_file("f")), ReadTextFileRequested)
    event = one(driver.feed(notification("$/cancel_request", {"requestId": "f"})), CancelRequested)
    assert (event.request_id, event.rpc_id, event.method) == (asked_for.request_id, "f", "fs/read_text_file")
    assert driver.sent() == []
    # It may come again; the owner answers once, with what there is or -32800.
    assert names(driver.feed(notification("$/cancel_request", {"requestId": "f"}))) == ["CancelRequested"]
    driver.conn.respond_error(asked_for.request_id, -32800, "cancelled")
    assert driver.sent() == [error("f", -32800, "cancelled")]


@requirement(71, 73)
@pytest.mark.parametrize("params", [{"requestId": 7}, {"requestId": "7"}, {"requestId": True}, {"requestId": None}, {}])
def test_a_cancel_of_nothing_is_reported(params: Message) -> None:
    driver, _, _ = prompting_client()
    driver.feed(read_file(1))
    event = one(driver.feed(notification("$/cancel_request", params)), NotificationReceived)
    assert event.known
    assert driver.sent() == []
    assert driver.conn.open_peer_requests == 1


def test_a_held_permission_that_the_agent_takes_back_is_answered_cancelled() -> None:
    driver, _, _ = prompting_client()
    (held,) = only(driver.feed(permission("p", "s1")), PermissionRequested)
    event = one(driver.feed(notification("$/cancel_request", {"requestId": "p"})), PermissionAnswered)
    assert (event.request_id, event.by, event.option_id) == (held.request_id, "peer_cancel", None)
    assert driver.sent() == [result("p", {"outcome": {"outcome": "cancelled"}})]


@requirement(72)
def test_the_client_cancels_a_request_at_the_agent() -> None:
    driver = agent().initialize()
    (event,) = driver.feed(request(1, "session/list", {}))
    cancelled = one(driver.feed(notification("$/cancel_request", {"requestId": 1})), CancelRequested)
    assert isinstance(event, RequestReceived)
    assert cancelled.request_id == event.request_id
    driver.conn.respond(event.request_id, {"sessions": []})
    assert driver.sent() == [result(1, {"sessions": []})]


def test_a_connection_without_a_role_hands_every_request_to_its_owner() -> None:
    for row in V1:
        if row.kind == "request" and row.handler != "client":
            conn = Connection("agent", nonce="n")
            conn.receive_data(as_line(request(1, row.wire, {})), 1.0)
            found = [*conn.events()]
            assert names(found) in ([row.event or "RequestReceived"], ["RequestRefused"])
            assert row.key != "initialize" or names(found) == ["RequestReceived"]
