"""The agent's end: sessions served, turns answered once, text append-only, questions that end with their turn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_core import (
    AgentMessageChunk,
    AnswerUnmatched,
    CancelRequested,
    CloseSessionRequested,
    DeleteSessionRequested,
    Limits,
    ListSessionsRequested,
    LoadSessionRequested,
    LocalProtocolError,
    NewSessionRequested,
    RequestAbandoned,
    RequestError,
    RequestRefused,
    RequestSettled,
    ResumeSessionRequested,
    StreamConflict,
    StreamGap,
    TextRevised,
    TurnCancelReceived,
    UsageUpdate,
)
from acp_core.errors import unsupported_interaction
from tests.core.helpers import (
    CWD,
    OPTIONS,
    AgentDriver,
    Message,
    agent,
    idle_client,
    notification,
    one,
    only,
    request,
    result,
)
from tests.spec.requirements import requirement

PROMPT: list[Message] = [{"type": "text", "text": "hi"}]
CALL: Message = {"toolCallId": "call"}


def idle(**how: object) -> AgentDriver:
    driver = agent(**how)  # type: ignore[arg-type]  # passed through
    driver.initialize()
    driver.open()
    return driver


def prompting(**how: object) -> tuple[AgentDriver, str]:
    driver = idle(**how)
    return driver, driver.prompt()


def second(driver: AgentDriver, rpc_id: object = 3) -> str:
    return driver.prompt(rpc_id=rpc_id)


def cancel(driver: AgentDriver) -> list[TurnCancelReceived]:
    return only(driver.feed(notification("session/cancel", {"sessionId": "s1"})), TurnCancelReceived)


def chunks(messages: list[Message]) -> list[tuple[object, object]]:
    """Message id and text of the chunks among messages."""
    found = []
    for message in messages:
        params = message.get("params")
        if message.get("method") == "session/update" and isinstance(params, dict):
            update = params["update"]
            found.append((update.get("messageId"), update["content"]["text"]))
    return found


# ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(64)
def test_a_list_is_asked_for_and_answered() -> None:
    driver = agent().initialize()
    event = one(driver.feed(request(1, "session/list", {"cwd": CWD, "cursor": "next"})), ListSessionsRequested)
    assert (event.cwd, event.cursor) == (CWD, "next")
    for wrong in ([{"sessionId": "s1"}], [{"cwd": CWD}], [{"sessionId": "s1", "cwd": "relative"}], ["s1"]):
        with pytest.raises(LocalProtocolError):
            driver.conn.answer_list(event.request_id, wrong)  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(LocalProtocolError):
            driver.conn.respond(event.request_id, {"sessions": wrong})
    with pytest.raises(LocalProtocolError):
        driver.conn.respond(event.request_id)
    driver.conn.answer_list(event.request_id, [{"sessionId": "s1", "cwd": CWD}], "more")
    assert driver.sent() == [result(1, {"sessions": [{"sessionId": "s1", "cwd": CWD}], "nextCursor": "more"})]


@requirement(64)
def test_an_empty_list_is_a_list() -> None:
    driver = agent().initialize()
    event = one(driver.feed(request(1, "session/list", {})), ListSessionsRequested)
    assert (event.cwd, event.cursor) == (None, None)
    driver.conn.answer_list(event.request_id, [])
    assert driver.sent() == [result(1, {"sessions": []})]


def test_answer_list_answers_lists_only() -> None:
    driver, request_id = prompting()
    with pytest.raises(LocalProtocolError):
        driver.conn.answer_list(request_id, [])


def test_deleting_an_unknown_session_is_the_owners_to_grant() -> None:
    driver = agent().initialize()
    event = one(driver.feed(request(1, "session/delete", {"sessionId": "gone"})), DeleteSessionRequested)
    assert event.session_id == "gone"
    driver.conn.respond(event.request_id)
    assert driver.sent() == [result(1, {})]


def test_deleting_an_open_session_ends_it() -> None:
    driver, _ = prompting()
    event = one(driver.feed(request(9, "session/delete", {"sessionId": "s1"})), DeleteSessionRequested)
    driver.conn.respond(event.request_id)
    assert driver.sent() == [result(9, {}), result(2, {"stopReason": "cancelled"})]
    session = driver.conn.session("s1")
    assert session is not None and session.state == "closed"


def test_a_refused_delete_changes_nothing() -> None:
    driver, _ = prompting()
    event = one(driver.feed(request(9, "session/delete", {"sessionId": "s1"})), DeleteSessionRequested)
    driver.conn.respond_error(event.request_id, -32603, "busy")
    session = driver.conn.session("s1")
    assert session is not None and session.state == "prompting"


@requirement(62)
def test_close_cancels_the_turn_and_lets_no_prompt_in() -> None:
    driver, request_id = prompting()
    events = driver.feed(request(3, "session/close", {"sessionId": "s1"}))
    assert [event.request_id for event in only(events, TurnCancelReceived)] == [request_id]
    close = one(events, CloseSessionRequested)
    assert events.index(close) == len(events) - 1
    late = one(driver.feed(request(4, "session/prompt", {"sessionId": "s1", "prompt": PROMPT})), RequestRefused)
    assert late.code == -32002
    driver.sent()
    # What the turn still has to say goes out, and its own end is the client's cancel.
    driver.conn.update_text("s1", "message", delta="last words")
    driver.conn.end_turn(request_id)
    driver.conn.respond(close.request_id)
    found = driver.sent()
    assert chunks(found) == [(None, "last words")]
    assert found[1:] == [result(2, {"stopReason": "cancelled"}), result(3, {})]


def test_a_prompt_that_is_open_when_close_is_answered_ends_cancelled() -> None:
    driver, request_id = prompting()
    close = one(driver.feed(request(3, "session/close", {"sessionId": "s1"})), CloseSessionRequested)
    driver.conn.respond(close.request_id)
    assert driver.sent() == [result(3, {}), result(2, {"stopReason": "cancelled"})]
    assert one(driver.drain(), RequestAbandoned).request_id == request_id
    with pytest.raises(LocalProtocolError):
        driver.conn.update_text("s1", "message", delta="more")


def test_closes_that_meet_are_each_answered() -> None:
    driver = idle()
    first = one(driver.feed(request(3, "session/close", {"sessionId": "s1"})), CloseSessionRequested)
    again = one(driver.feed(request(4, "session/close", {"sessionId": "s1"})), CloseSessionRequested)
    driver.conn.respond_error(first.request_id, -32603, "no")
    session = driver.conn.session("s1")
    assert session is not None and session.state == "closing"
    driver.conn.respond(again.request_id)
    assert session.state == "closed"
    late = one(driver.feed(request(5, "session/close", {"sessionId": "s1"})), RequestRefused)
    assert late.code == -32002


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_refused_close_leaves_the_session_open(in_turn: bool) -> None:
    driver = idle()
    request_id = driver.prompt() if in_turn else ""
    close = one(driver.feed(request(3, "session/close", {"sessionId": "s1"})), CloseSessionRequested)
    driver.conn.respond_error(close.request_id, -32603, "no")
    session = driver.conn.session("s1")
    assert session is not None
    if in_turn:
        assert session.state == "cancelling"
        driver.conn.end_turn(request_id)
        assert driver.sent()[-1] == result(2, {"stopReason": "cancelled"})
    assert session.state == "idle"
    assert second(driver)


def test_a_close_that_nobody_answers_ends_with_its_client() -> None:
    driver = idle()
    close = one(driver.feed(request(3, "session/close", {"sessionId": "s1"})), CloseSessionRequested)
    # The client reuses the id: the close is abandoned, and the session open again.
    events = driver.feed(request(3, "session/prompt", {"sessionId": "s1", "prompt": PROMPT}))
    assert one(events, RequestRefused).code == -32002
    events = driver.feed(request(3, "session/list", {}))
    assert one(events, RequestAbandoned).request_id == close.request_id
    session = driver.conn.session("s1")
    assert session is not None and session.state == "idle"


@requirement(57)
def test_load_says_the_history_before_its_answer() -> None:
    driver = agent().initialize()
    params = {"sessionId": "old", "cwd": CWD, "mcpServers": []}
    event = one(driver.feed(request(1, "session/load", params)), LoadSessionRequested)
    early = one(driver.feed(request(2, "session/prompt", {"sessionId": "old", "prompt": PROMPT})), RequestRefused)
    assert early.code == -32002
    driver.sent()
    driver.conn.update_text("old", "user", "m1", snapshot="hi")
    driver.conn.update_text("old", "message", "m2", delta="hello")
    driver.conn.update("old", {"sessionUpdate": "tool_call", "toolCallId": "call", "title": "Read"})
    driver.conn.accept(event.request_id)
    found = driver.sent()
    assert [message.get("method", "answer") for message in found] == [*["session/update"] * 3, "answer"]


@requirement(58)
def test_resume_says_no_history() -> None:
    driver = agent().initialize()
    params = {"sessionId": "old", "cwd": CWD}
    event = one(driver.feed(request(1, "session/resume", params)), ResumeSessionRequested)
    for say in (
        {"sessionUpdate": "tool_call", "toolCallId": "call", "title": "Read"},
        {"sessionUpdate": "plan", "entries": []},
        {"sessionUpdate": "_new_kind"},
    ):
        with pytest.raises(LocalProtocolError) as found:
            driver.conn.update("old", say)
        assert found.value.rule == "session.resume"
    with pytest.raises(LocalProtocolError):
        driver.conn.update_text("old", "message", delta="history")
    driver.conn.update("old", {"sessionUpdate": "available_commands_update", "availableCommands": []})
    driver.conn.accept(event.request_id)
    assert len(driver.sent()) == 2
    assert driver.conn.update_text("old", "message", delta="news") == "sent"


@requirement(58)
def test_resume_after_a_turn_says_no_history_either() -> None:
    driver, request_id = prompting()
    driver.conn.update_text("s1", "message", delta="one")
    driver.conn.end_turn(request_id)
    driver.feed(request(3, "session/resume", {"sessionId": "s1", "cwd": CWD}))
    with pytest.raises(LocalProtocolError) as found:
        driver.conn.update_text("s1", "message", delta="two")
    assert found.value.rule == "session.resume"


def test_nothing_about_a_session_goes_out_before_it_was_accepted() -> None:
    driver = agent().initialize()
    event = one(driver.feed(request(1, "session/new", {"cwd": CWD, "mcpServers": []})), NewSessionRequested)
    assert event.session is not None
    for say in (
        lambda: driver.conn.update_text(event.session, "message", delta="x"),  # type: ignore[arg-type]  # ours
        lambda: driver.conn.update(event.session, {"sessionUpdate": "plan", "entries": []}),  # type: ignore[arg-type]  # ours
        lambda: driver.conn.ask_permission(event.session, CALL, OPTIONS),  # type: ignore[arg-type]  # ours
    ):
        with pytest.raises(LocalProtocolError) as found:
            say()
        assert found.value.rule == "session.accept_first"
    assert driver.sent() == []


@requirement(66, 67, 68)
@pytest.mark.parametrize("key", ["session/new", "session/load", "session/resume"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"cwd": None}, "cwd"),
        ({"cwd": "relative"}, "cwd"),
        ({"additionalDirectories": "/a"}, "additionalDirectories"),
        ({"additionalDirectories": ["/a", ""]}, "additional directories"),
        ({"additionalDirectories": ["/a", 7]}, "additional directories"),
        ({"additionalDirectories": ["a"]}, "additional directories"),
    ],
)
def test_directories_are_absolute(key: str, fields: Message, reason: str) -> None:
    driver = agent().initialize()
    params: Message = {"sessionId": "s1", "cwd": CWD, "mcpServers": [], **fields}
    event = one(driver.feed(request(1, key, params)), RequestRefused)
    assert event.code == -32602 and reason in event.reason


@requirement(68)
def test_additional_directories_need_their_capability() -> None:
    driver = agent({}).initialize()
    params = {"cwd": CWD, "mcpServers": [], "additionalDirectories": ["/a"]}
    assert one(driver.feed(request(1, "session/new", params)), RequestRefused).code == -32602
    driver = agent().initialize()
    event = one(driver.feed(request(1, "session/new", params)), NewSessionRequested)
    assert event.additional_directories == ["/a"]


def test_the_owner_ends_a_session() -> None:
    driver, _ = prompting()
    driver.conn.end_session("s1")
    driver.conn.end_session("s1")
    assert driver.sent() == [result(2, {"stopReason": "cancelled"})]
    late = one(driver.feed(request(3, "session/prompt", {"sessionId": "s1", "prompt": PROMPT})), RequestRefused)
    assert late.code == -32002
    event = one(driver.feed(request(4, "session/new", {"cwd": CWD, "mcpServers": []})), NewSessionRequested)
    with pytest.raises(LocalProtocolError) as found:
        driver.conn.accept(event.request_id, "s1")
    assert found.value.rule == "session.id"
    with pytest.raises(LocalProtocolError):
        driver.conn.end_session(event.session)  # type: ignore[arg-type]  # a ServedSession


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_is_answered_once() -> None:
    driver, request_id = prompting()
    driver.conn.end_turn(request_id, "refusal")
    assert driver.sent() == [result(2, {"stopReason": "refusal"})]
    for again in ("end_turn", "cancelled"):
        with pytest.raises(LocalProtocolError):
            driver.conn.end_turn(request_id, again)
    with pytest.raises(LocalProtocolError) as found:
        driver.conn.end_turn("s1")
    assert found.value.rule == "turn.none"
    assert driver.sent() == []


@requirement(78, 79)
@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request"])
def test_once_cancelled_the_answer_is_cancelled_and_what_was_given_is_kept(how: str) -> None:
    driver, request_id = prompting()
    params: Message = {"sessionId": "s1"} if how == "session/cancel" else {"requestId": 2}
    events = driver.feed(notification(how, params))
    assert len(only(events, TurnCancelReceived) + only(events, CancelRequested)) == 1
    session = driver.conn.session("s1")
    assert session is not None and session.cancelled
    driver.conn.update_text("s1", "message", delta="on the way")
    driver.conn.end_turn(request_id, "max_tokens", meta={"kept": True})
    found = driver.sent()
    assert chunks(found) == [(None, "on the way")]
    assert found[1] == result(2, {"stopReason": "cancelled", "_meta": {"kept": True}})
    assert session.last_turn is not None and session.last_turn.given == "max_tokens"
    assert session.last_turn.cancelled and not session.cancelled


@requirement(78)
def test_once_cancelled_an_error_is_cancelled_and_kept() -> None:
    driver, request_id = prompting()
    cancel(driver)
    driver.conn.respond_error(request_id, -32603, "aborted", {"why": ["x"]})
    assert driver.sent() == [result(2, {"stopReason": "cancelled"})]
    session = driver.conn.session("s1")
    assert session is not None and session.last_turn is not None
    given = session.last_turn.given
    assert isinstance(given, RequestError) and (given.code, given.data) == (-32603, {"why": ["x"]})


def test_a_turn_that_fails_keeps_the_session() -> None:
    driver, _ = prompting()
    driver.conn.fail_turn("s1", RequestError(-32000, "log in"))
    (message,) = driver.sent()
    assert message["error"] == {"code": -32000, "message": "log in"}
    assert second(driver)


def test_what_cannot_be_presented_is_unsupported_interaction() -> None:
    driver, request_id = prompting()
    driver.conn.fail_turn(request_id, unsupported_interaction("sandbox_boundary"))
    (message,) = driver.sent()
    error = message["error"]
    assert isinstance(error, dict)
    assert error["code"] == -32603
    assert error["data"] == {"source": "adapter", "code": "unsupported_interaction", "kind": "sandbox_boundary"}
    assert second(driver)


def test_a_cancel_while_idle_is_an_event() -> None:
    driver = idle()
    (event,) = cancel(driver)
    assert (event.request_id, event.session_id) == (None, "s1")
    assert second(driver)
    session = driver.conn.session("s1")
    assert session is not None and not session.cancelled
    assert one(driver.feed(notification("session/cancel", {"sessionId": "nobody"})), TurnCancelReceived).session is None


def test_updates_after_the_answer_are_out_of_turn_on_the_client() -> None:
    driver, request_id = prompting()
    driver.conn.update_text("s1", "message", delta="in")
    driver.conn.end_turn(request_id)
    driver.conn.update_text("s1", "message", delta="out")
    driver.conn.update("s1", {"sessionUpdate": "usage_update", "used": 1, "size": 2})
    other, session = idle_client()
    id = other.prompt(session)
    lines = [
        {**message, "id": id} if "result" in message else message
        for message in driver.sent()
        if message.get("id") in (None, 2)
    ]
    events = other.feed(*lines)
    first, late = only(events, AgentMessageChunk)
    assert first.turn is not None and first.turn.prompt_id == id
    assert late.turn is None and late.text == "out"
    assert one(events, UsageUpdate).turn is None


# ── Concurrent prompts ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_prompt_is_refused_by_default() -> None:
    driver, _ = prompting()
    event = one(driver.feed(request(3, "session/prompt", {"sessionId": "s1", "prompt": PROMPT})), RequestRefused)
    assert event.code == -32600 and "one prompt at a time" in event.reason


def test_concurrent_prompts_by_choice() -> None:
    driver, first = prompting(concurrent_prompts=True)
    other = second(driver)
    session = driver.conn.session("s1")
    assert session is not None and list(session.turns) == [first, other] and session.request_id == first
    # Whose text it is has to be said, and each turn is compared with its own.
    for unclear in (
        lambda: driver.conn.update_text("s1", "message", delta="x"),
        lambda: driver.conn.end_turn(session),
    ):
        with pytest.raises(LocalProtocolError) as found:
            unclear()
        assert found.value.rule == "turn.which"
    driver.conn.update_text(first, "message", "m", delta="one")
    assert driver.conn.update_text(other, "message", "m", snapshot="one") == "sent"
    assert driver.conn.update_text(first, "message", "m", snapshot="one") == "same"
    driver.conn.end_turn(other)
    assert session.state == "prompting"
    assert driver.conn.update_text("s1", "message", "m", snapshot="one more") == "sent"
    driver.conn.end_turn("s1")
    assert session.state == "idle"
    found_ends = [message["id"] for message in driver.sent() if "result" in message]
    assert found_ends == [3, 2]


def test_a_revision_fails_its_own_turn_only() -> None:
    driver, first = prompting(concurrent_prompts=True)
    other = second(driver)
    driver.conn.update_text(first, "message", "m", delta="one")
    assert driver.conn.update_text(first, "message", "m", snapshot="two") == "revised"
    assert driver.conn.update_text(other, "message", "n", delta="goes on") == "sent"
    assert driver.conn.update_text("s1", "message", "n", delta=" alone") == "sent"
    driver.conn.update("s1", {"sessionUpdate": "plan", "entries": []})
    driver.conn.end_turn("s1")
    session = driver.conn.session("s1")
    assert session is not None and session.state == "idle"


def test_a_cancel_is_for_every_open_prompt_and_for_no_later_one() -> None:
    driver, first = prompting(concurrent_prompts=True)
    other = second(driver)
    assert [event.request_id for event in cancel(driver)] == [first, other]
    later = driver.prompt(rpc_id=4)
    for request_id in (first, other, later):
        driver.conn.end_turn(request_id)
    reasons = {str(message["id"]): message["result"] for message in driver.sent()}
    assert reasons == {
        "2": {"stopReason": "cancelled"},
        "3": {"stopReason": "cancelled"},
        "4": {"stopReason": "end_turn"},
    }


def test_a_cancelled_request_is_one_prompt_only() -> None:
    driver, first = prompting(concurrent_prompts=True)
    other = second(driver)
    driver.feed(notification("$/cancel_request", {"requestId": 3}))
    driver.conn.end_turn(first)
    driver.conn.end_turn(other)
    assert [message["result"] for message in driver.sent()] == [{"stopReason": "end_turn"}, {"stopReason": "cancelled"}]


# ── Requests to the client ──────────────────────────────────────────────────────────────────────────────────────────


@requirement(42, 44)
def test_requests_to_the_client_are_gated() -> None:
    driver = agent().initialize({"elicitation": {"form": {}, "url": None}})
    driver.open()
    driver.prompt()
    form: Message = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    driver.conn.request("elicitation/create", form, session="s1")
    driver.sent()
    for method, params in (
        ("fs/read_text_file", {"path": "/a"}),
        ("terminal/create", {"command": "ls"}),
        ("elicitation/create", {**form, "mode": "url"}),
        ("elicitation/create", {**form, "mode": "new"}),
    ):
        with pytest.raises(LocalProtocolError) as found:
            driver.conn.request(method, params, session="s1")
        assert found.value.rule == "capability.missing"
    for params in ({"message": "?"}, {**form, "mode": 1}):
        with pytest.raises(LocalProtocolError, match='needs a "mode", "form" or "url"') as found:
            driver.conn.request("elicitation/create", params, session="s1")
        assert found.value.rule == "elicitation.mode"
    assert driver.sent() == []


def test_a_turn_that_was_answered_is_named_as_such() -> None:
    driver, request_id = prompting()
    driver.conn.end_turn(request_id)
    again = (
        lambda: driver.conn.end_turn(request_id),
        lambda: driver.conn.fail_turn(request_id, RequestError(-32000, "no")),
        lambda: driver.conn.update_text(request_id, "message", delta="late"),
    )
    for late in again:
        with pytest.raises(LocalProtocolError, match="was answered or abandoned before: its turn is over") as found:
            late()
        assert found.value.rule == "request.answered"
    with pytest.raises(LocalProtocolError) as found:
        driver.conn.end_turn(f"{driver.conn.nonce}.99")
    assert found.value.rule == "session.unknown"


@requirement(129)
def test_what_is_sent_is_known() -> None:
    driver, _ = prompting()
    text = {"type": "text", "text": "x"}
    for update, rule in (
        ({"sessionUpdate": "agent_mesage_chunk", "content": text}, "update.kind"),
        ({"sessionUpdate": "", "content": text}, "update.kind"),
        ({"sessionUpdate": "agent_message_chunk", "content": "x"}, "update.content"),
        ({"sessionUpdate": "agent_thought_chunk", "content": [text]}, "update.content"),
        ({"sessionUpdate": "user_message_chunk"}, "update.content"),
    ):
        with pytest.raises(LocalProtocolError) as found:
            driver.conn.update("s1", update)
        assert found.value.rule == rule
    for kind in ("allow", "_allow", ""):
        with pytest.raises(LocalProtocolError, match="a kind of allow_once, allow_always") as found:
            driver.conn.ask_permission("s1", CALL, [{**OPTIONS[0], "kind": kind}])
        assert found.value.rule == "permission.options"
    assert driver.sent() == []
    for kind in ("agent_message_chunk", "plan", "notice", "_vendor/kind"):
        driver.conn.update("s1", {"sessionUpdate": kind, "content": text, "entries": []})
    assert len(driver.sent()) == 4


def test_questions_of_a_turn_end_with_it() -> None:
    driver, request_id = prompting()
    asked = driver.conn.ask_permission("s1", CALL, OPTIONS, token="asked")
    read = driver.conn.request("fs/read_text_file", {"path": "/a"}, session="s1", token="read")
    write = driver.conn.request("fs/write_text_file", {"path": "/a", "content": ""}, session="s1", token="write")
    kill = driver.conn.request("terminal/kill", {"terminalId": "t"}, session="s1", token="kill")
    driver.sent()
    unsent = driver.conn.ask_permission("s1", CALL, OPTIONS, token="unsent")
    driver.conn.end_turn(request_id)
    ends = {event.token: (event.outcome, event.dispatch) for event in only(driver.drain(), RequestSettled)}
    assert ends == {
        "asked": ("closed", "sent_no_reply"),
        "read": ("closed", "sent_no_reply"),
        "unsent": ("withdrawn", "not_sent"),
    }
    found = driver.sent()
    assert found[0] == result(2, {"stopReason": "end_turn"})
    assert [message["params"] for message in found[1:]] == [{"requestId": asked}, {"requestId": read}]
    assert unsent not in [message.get("id") for message in found]
    # A late answer settles nothing; what acts on the client's machine is still waited for.
    late = driver.feed(result(asked, {"outcome": {"outcome": "selected", "optionId": "yes"}}))
    assert one(late, AnswerUnmatched).why == "late"
    assert [event.token for event in only(driver.feed(result(write, {}), result(kill, {})), RequestSettled)] == [
        "write",
        "kill",
    ]


@pytest.mark.parametrize("how", ["error", "revision", "close", "end"])
def test_however_a_turn_ends_its_questions_do(how: str) -> None:
    driver, request_id = prompting()
    driver.conn.update_text("s1", "message", "m", delta="text")
    driver.conn.ask_permission("s1", CALL, OPTIONS)
    driver.sent()
    if how == "error":
        driver.conn.respond_error(request_id, -32603, "no")
    elif how == "revision":
        driver.conn.update_text("s1", "message", "m", snapshot="other")
    elif how == "close":
        close = one(driver.feed(request(3, "session/close", {"sessionId": "s1"})), CloseSessionRequested)
        driver.conn.respond(close.request_id)
    else:
        driver.end()
    driver.drain()
    ends = only(driver.log, RequestSettled)
    assert [event.outcome for event in ends] == ["over" if how == "end" else "closed"]


def test_a_question_settles_once_when_the_answer_comes_first() -> None:
    driver, request_id = prompting()
    asked = driver.conn.ask_permission("s1", CALL, OPTIONS)
    driver.sent()
    driver.feed(result(asked, {"outcome": {"outcome": "cancelled"}}))
    driver.conn.end_turn(request_id)
    driver.drain()
    assert [event.outcome for event in only(driver.log, RequestSettled)] == ["result"]
    assert driver.sent() == [result(2, {"stopReason": "end_turn"})]


def test_a_question_between_turns_is_nobodys() -> None:
    driver = idle()
    driver.conn.ask_permission("s1", CALL, OPTIONS)
    driver.sent()
    driver.conn.end_turn(driver.prompt())
    driver.drain()
    assert only(driver.log, RequestSettled) == []


def test_questions_of_concurrent_turns_end_with_their_own() -> None:
    driver, first = prompting(concurrent_prompts=True)
    other = second(driver)
    driver.conn.ask_permission(first, CALL, OPTIONS, token="first")
    driver.conn.ask_permission(other, CALL, OPTIONS, token="other")
    driver.sent()
    driver.conn.end_turn(first)
    assert [event.token for event in only(driver.drain(), RequestSettled)] == ["first"]
    driver.conn.end_turn(other)
    assert [event.token for event in only(driver.drain(), RequestSettled)] == ["other"]


# ── Text, append-only ───────────────────────────────────────────────────────────────────────────────────────────────


@requirement(17)
def test_M7_only_the_suffix_goes_out_with_the_same_message_id() -> None:
    driver, _ = prompting()
    assert driver.conn.update_text("s1", "message", "m1", delta="he") == "sent"
    assert driver.conn.update_text("s1", "message", "m1", snapshot="hello") == "sent"
    assert driver.conn.update_text("s1", "message", "m1", snapshot="hello") == "same"
    assert driver.conn.update_text("s1", "message", "m1", delta="lo!", offset=3) == "sent"
    assert driver.conn.update_text("s1", "message", "m2", snapshot="next") == "sent"
    assert driver.conn.update_text("s1", "message", "m1", delta="?") == "sent"
    assert driver.conn.update_text("s1", "message", None, delta="") == "same"
    assert chunks(driver.sent()) == [("m1", "he"), ("m1", "llo"), ("m1", "!"), ("m2", "next"), ("m1", "?")]


@pytest.mark.parametrize("now", ["OLD", "ol", ""])
def test_M8_a_revision_fails_the_prompt_and_sticks(now: str) -> None:
    driver, request_id = prompting()
    driver.conn.update_text("s1", "message", "m", delta="old")
    driver.sent()
    assert driver.conn.update_text("s1", "message", "m", snapshot=now) == "revised"
    events = driver.drain()
    event = one(events, TextRevised)
    assert (event.request_id, event.kind, event.message_id) == (request_id, "message", "m")
    assert (event.error.said, event.error.now) == (3, len(now))
    assert one(events, RequestAbandoned).request_id == request_id
    (message,) = driver.sent()
    error = message["error"]
    assert isinstance(error, dict) and error["code"] == -32603
    assert error["data"] == {"source": "adapter", "code": "unsupported_stream_revision"}
    # Nothing more of this turn, under any id, and never end_turn.
    assert driver.conn.update_text("s1", "message", "m", delta=" and on") == "revised"
    assert driver.conn.update_text("s1", "message", "m", snapshot="old") == "revised"
    assert driver.conn.update_text("s1", "thought", "other", delta="x") == "revised"
    text: Message = {"content": {"type": "text", "text": "x"}}
    for kind, said in (
        ("plan", {"entries": []}),
        ("tool_call", {"toolCallId": "t", "title": "T"}),
        ("agent_message_chunk", text),
    ):
        with pytest.raises(LocalProtocolError) as found:
            driver.conn.update("s1", {"sessionUpdate": kind, **said})
        assert found.value.rule == "turn.revised"
    with pytest.raises(LocalProtocolError):
        driver.conn.end_turn(request_id)
    assert driver.sent() == [] and driver.drain() == []
    # What is no part of the turn may be said, and the next prompt begins anew.
    driver.conn.update("s1", {"sessionUpdate": "session_info_update", "title": "T"})
    assert len(driver.sent()) == 1
    again = second(driver)
    assert driver.conn.update_text("s1", "message", "m", snapshot="new") == "sent"
    driver.conn.end_turn(again)
    assert driver.sent()[-1] == result(3, {"stopReason": "end_turn"})


def test_M47_a_cancelled_turn_is_cancelled_also_when_its_text_is_revised() -> None:
    driver, request_id = prompting()
    driver.conn.update_text("s1", "message", "m", delta="old")
    cancel(driver)
    driver.sent()
    assert driver.conn.update_text("s1", "message", "m", snapshot="new") == "revised"
    assert driver.sent() == [result(2, {"stopReason": "cancelled"})]
    assert one(driver.drain(), TextRevised).request_id == request_id
    session = driver.conn.session("s1")
    assert session is not None and session.last_turn is not None
    assert isinstance(session.last_turn.given, RequestError)


def test_text_after_the_turn_is_compared_with_it() -> None:
    driver, request_id = prompting()
    driver.conn.update_text("s1", "message", "m", delta="hello")
    driver.conn.end_turn(request_id)
    assert driver.conn.update_text("s1", "message", "m", snapshot="hello") == "same"
    assert driver.conn.update_text("s1", "message", "m", snapshot="bye") == "revised"
    assert one(driver.drain(), TextRevised).request_id is None
    assert driver.conn.update_text("s1", "message", "m", delta="!") == "revised"
    assert chunks(driver.sent()) == [("m", "hello")]


def test_M6_a_gap_and_a_conflict_change_nothing() -> None:
    driver, request_id = prompting()
    driver.conn.update_text("s1", "message", "m", delta="hello")
    driver.sent()
    with pytest.raises(StreamGap):
        driver.conn.update_text("s1", "message", "m", delta="x", offset=9)
    with pytest.raises(StreamConflict):
        driver.conn.update_text("s1", "message", "m", delta="x", offset=1)
    assert driver.sent() == [] and driver.drain() == []
    assert driver.conn.update_text("s1", "message", "m", delta="o!", offset=4) == "sent"
    driver.conn.end_turn(request_id)


def test_a_seed_is_compared_with_and_not_sent() -> None:
    driver, request_id = prompting(concurrent_prompts=True)
    driver.conn.update_text("s1", "message", "m", delta="x")
    driver.conn.seed_text("s1", "message", "m", "seen ")
    assert driver.conn.update_text("s1", "message", "m", delta="on") == "sent"
    assert driver.conn.update_text("s1", "message", "m", snapshot="seen on") == "same"
    driver.conn.seed_text(request_id, "thought", None, "hm")
    assert driver.conn.update_text(request_id, "thought", None, snapshot="hm") == "same"
    assert chunks(driver.sent()) == [("m", "x"), ("m", "on")]


def test_text_that_does_not_fit_is_not_in_the_ledger() -> None:
    driver, _ = prompting(limits=Limits(max_output_bytes=1000, max_output_total_bytes=5000))
    with pytest.raises(LocalProtocolError):
        driver.conn.update_text("s1", "message", "m", delta="x" * 1000)
    assert driver.conn.update_text("s1", "message", "m", snapshot="y") == "sent"
    # And the same for the short way that a second piece takes.
    with pytest.raises(LocalProtocolError):
        driver.conn.update_text("s1", "message", "m", delta="x" * 1000)
    assert driver.conn.update_text("s1", "message", "m", snapshot="yz") == "sent"
    assert chunks(driver.sent()) == [("m", "y"), ("m", "z")]


def test_the_bound_of_a_turns_text() -> None:
    driver, _ = prompting(limits=Limits(max_ledger_size=100))
    for _ in range(100):
        driver.conn.update_text("s1", "message", "m", delta="x")
    assert len(chunks(driver.sent())) == 100
    with pytest.raises(LocalProtocolError) as found:
        driver.conn.update_text("s1", "message", "m", snapshot="x" * 100)
    assert found.value.rule == "text.forgotten"


def test_the_short_way_is_only_for_the_same_session_connection_and_state() -> None:
    driver, request_id = prompting()
    session = driver.conn.session("s1")
    assert session is not None
    driver.conn.update_text(session, "message", delta="a")
    driver.conn.update_text(session, "message", delta="b")
    other = idle(nonce="other")
    with pytest.raises(LocalProtocolError):
        other.conn.update_text(session, "message", delta="c")
    driver.conn.update_text(session, "thought", delta="d")
    driver.conn.update_text(session, "message", "m", delta="e")
    driver.conn.end_turn(request_id)
    driver.conn.update_text(session, "message", "m", delta="f")
    kinds = [message["params"]["update"]["sessionUpdate"] for message in driver.sent() if "method" in message]  # type: ignore[index]  # an update
    assert kinds == [f"agent_{kind}_chunk" for kind in ("message", "message", "thought", "message", "message")]
    driver.conn.send_failed("gone", driver.now)
    with pytest.raises(LocalProtocolError):
        driver.conn.update_text(session, "message", "m", delta="g")


LETTERS = "ab😀"
SAYING = st.lists(
    st.tuples(
        st.sampled_from(["delta", "offset", "snapshot", "replay", "other"]),
        st.sampled_from(["message", "thought"]),
        st.sampled_from(["m1", "m2", None]),
        st.text(LETTERS, max_size=6),
        st.integers(0, 8),
    ),
    max_size=20,
)


@settings(max_examples=300, deadline=None)
@given(SAYING)
def test_the_client_has_a_prefix_of_what_the_source_said_or_the_prompt_failed(
    steps: list[tuple[str, str, str | None, str, int]],
) -> None:
    driver, request_id = prompting()
    source: dict[tuple[str, str | None], str] = {}
    session = driver.conn.session("s1")
    assert session is not None
    revised = False
    for what, kind, message_id, text, number in steps:
        had = source.get((kind, message_id), "")
        if what == "delta":
            now, say = had + text, driver.conn.update_text(session, kind, message_id, delta=text)
        elif what == "offset":
            start = min(number, len(had))
            now = had + text
            say = driver.conn.update_text("s1", kind, message_id, delta=now[start:], offset=start)
        else:
            now = {"snapshot": had + text, "replay": had, "other": text}[what]
            say = driver.conn.update_text(request_id if not revised else "s1", kind, message_id, snapshot=now)
        if say == "revised":
            assert revised or not now.startswith(had)
            revised = True
        else:
            assert not revised and (say == "same") == (now == had)
            source[kind, message_id] = now
    if not revised:
        driver.conn.end_turn(request_id)
    reader: dict[tuple[str, str | None], str] = {}
    other, client_session = idle_client()
    id = other.prompt(client_session)
    for message in driver.sent():
        if message.get("id") == 2:
            message = {**message, "id": id}
        for event in other.feed(message):
            if isinstance(event, AgentMessageChunk) or type(event).__name__ == "AgentThoughtChunk":
                kind = "message" if isinstance(event, AgentMessageChunk) else "thought"
                key = (kind, event.update.get("messageId"))  # type: ignore[attr-defined]  # an Update
                reader[key] = reader.get(key, "") + event.text  # type: ignore[attr-defined]  # a Chunk
    assert reader == {key: text for key, text in source.items() if text}
    end = other.log[-1]
    assert (type(end).__name__ == "TurnFailed") == revised


def test_rejoined_lines_are_valid() -> None:
    """Every chunk is one line, whatever stands in its text and ids."""
    driver, _ = prompting()
    nasty = 'a"b\\c\n\u2028\ud800\x00'
    for _ in range(2):
        driver.conn.update_text("s1", "message", nasty, delta=nasty)
    assert chunks(driver.sent()) == [(nasty, nasty), (nasty, nasty)]
