"""What intents take as dicts: a slip is refused by the call that makes it, with the member at fault and what would fit,
and nothing has changed. tests/spec/test_shapes.py holds the shapes against the official schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from acp_core import (
    Admission,
    AgentConnection,
    ClientConnection,
    HostLimits,
    LocalProtocolError,
    PermissionRequested,
    Policy,
    RequestReceived,
    StartSettlement,
    compare_tail,
    elicitation_capabilities,
)
from acp_core.errors import clip
from acp_core.inbox import Inbox
from acp_core.schema import build, validation
from tests.core.helpers import (
    CWD,
    FULL_AGENT,
    FULL_CLIENT,
    OPTIONS,
    STDIO,
    AgentDriver,
    ClientDriver,
    Message,
    agent,
    idle_client,
    one,
    permission,
    prompting_client,
    request,
    result,
)


def refused(call: Callable[[], object], *words: str, rule: str = "message.shape") -> None:
    with pytest.raises(LocalProtocolError) as caught:
        call()
    assert caught.value.rule == rule
    for word in words:
        assert word in str(caught.value), str(caught.value)


INFO: Message = {"name": "n", "version": "1"}


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"name": 5, "version": "1"}, "Info.name is 5; give a str"),
        ({"name": "n"}, "Info.version is missing; give a str"),
        ({**INFO, "title": ["t"]}, "Info.title is a list; give a str"),
        ({**INFO, "_meta": 1}, "Info._meta is 1; give a dict"),
    ],
)
def test_what_a_side_says_of_itself(info: Message, words: str) -> None:
    refused(lambda: ClientConnection(nonce="n", info=info), f"client{words}")
    refused(lambda: AgentConnection(nonce="n", info=info), f"agent{words}")


@pytest.mark.parametrize("info", [None, INFO, {**INFO, "title": None, "_meta": None, "more": 5}])
def test_what_a_side_may_say_of_itself(info: Message | None) -> None:
    ClientConnection(nonce="n", info=info, capabilities=FULL_CLIENT)
    AgentConnection(nonce="n", info=info, capabilities=FULL_AGENT)


def test_capabilities_and_logins() -> None:
    for capabilities, words in (
        ({"terminal": "yes"}, "clientCapabilities.terminal is a str; give a bool"),
        ({"fs": True}, "clientCapabilities.fs is True; give a dict"),
        ({"fs": {"readTextFile": 1}}, "clientCapabilities.fs.readTextFile is 1; give a bool"),
        ({"elicitation": {"form": True}}, "clientCapabilities.elicitation.form is True; give a dict"),
    ):
        refused(lambda given=capabilities: ClientConnection(nonce="n", capabilities=given), words)  # type: ignore[misc]  # a default binds it
    for offered, words in (
        ({"loadSession": 1}, "agentCapabilities.loadSession is 1; give a bool"),
        ({"sessionCapabilities": {"close": True}}, "agentCapabilities.sessionCapabilities.close is True; give a dict"),
    ):
        refused(lambda given=offered: AgentConnection(nonce="n", capabilities=given), words)  # type: ignore[misc]  # a default binds it
    for login, words in (
        ({"id": 5, "name": "n"}, "authMethods[0].id is 5; give a str"),
        ({"id": "k"}, "authMethods[0].name is missing; give a str"),
        ({"id": "k", "name": "n", "type": "terminal", "env": {"A": 1}}, "authMethods[0].env.A is 1; give a str"),
    ):
        refused(lambda given=login: AgentConnection(nonce="n", auth_methods=[given]), words)  # type: ignore[misc]  # a default binds it


def test_what_a_session_is_opened_with() -> None:
    driver = ClientDriver(ClientConnection(nonce="n"))
    for servers, words in (
        ([{"name": "m"}], "mcpServers[0].command is missing; give a str"),
        ([STDIO, {**STDIO, "args": "-v"}], "mcpServers[1].args is a str; give a list"),
        ([{**STDIO, "env": {"A": "1"}}], "mcpServers[0].env is a dict; give a list"),
        ([{"type": "http", "name": "m", "url": "u"}], "mcpServers[0].headers is missing; give a list"),
    ):
        refused(lambda given=servers: driver.conn.open_session(CWD, mcp_servers=given), words)  # type: ignore[misc]  # a default binds it
        assert (driver.conn.output_bytes, driver.conn.open_requests, driver.conn.state) == (0, 0, "new")


def test_what_a_prompt_has() -> None:
    driver, session = idle_client()
    for block, words in (
        ({"type": "text"}, "prompt[0].text is missing; give a str"),
        ({"type": "text", "text": 5}, "prompt[0].text is 5; give a str"),
        ({"type": "txt", "text": ""}, "prompt[0].type is 'txt'; give one of text, image"),
        ({"text": ""}, "prompt[0].type is missing; give one of text, image"),
        ({"type": "image", "data": b"x", "mimeType": "a/b"}, "prompt[0].data is a bytes; give a str"),
        ({"type": "resource", "resource": {"uri": "u"}}, "prompt[0].resource.text is missing; give a str"),
        ({"type": "resource_link", "uri": "u"}, "prompt[0].name is missing; give a str"),
        ({"type": "text", "text": "", "annotations": {"priority": float("nan")}}, "priority is nan; give a finite"),
    ):
        refused(lambda given=block: driver.conn.prompt(session, [given]), words)  # type: ignore[misc]  # a default binds it
        assert (session.state, session.turn, driver.conn.output_bytes) == ("idle", None, 0)
    driver.conn.prompt(session, [{"type": "text", "text": "hi", "more": 1}])


# ── Answers of a client ─────────────────────────────────────────────────────────────────────────────────────────────


def asked(driver: ClientDriver, method: str) -> str:
    params: Message = {
        "sessionId": "s1",
        "path": "/a",
        "content": "",
        "command": "c",
        "terminalId": "t",
        "mode": "form",
        "message": "?",
        "requestedSchema": {"type": "object", "properties": {}},
    }
    return one(driver.feed(request(7, method, params)), RequestReceived).request_id


@pytest.mark.parametrize(
    ("method", "wrong", "words", "right"),
    [
        ("fs/read_text_file", {}, "content is missing; give a str", {"content": ""}),
        ("fs/read_text_file", {"content": b""}, "content is a bytes; give a str", {"content": "x", "_meta": {}}),
        ("fs/write_text_file", {"_meta": []}, "_meta is a list; give a dict", {}),
        ("terminal/create", {"terminalId": 5}, "terminalId is 5; give a str", {"terminalId": "t"}),
        ("terminal/output", {"output": ""}, "truncated is missing; give a bool", {"output": "", "truncated": False}),
        ("terminal/wait_for_exit", {"exitCode": -9}, "exitCode is -9; give an int from 0", {"signal": "SIGKILL"}),
        ("elicitation/create", {"action": 1}, "action is 1; give one of accept", {"action": "decline"}),
        (
            "elicitation/create",
            {"action": "accept", "content": {"a": None}},
            "content.a is None; give a str",
            {"action": "accept", "content": {"a": 1, "b": ["x"]}},
        ),
    ],
)
def test_what_is_answered(method: str, wrong: Message, words: str, right: Message) -> None:
    driver, _ = idle_client()
    request_id = asked(driver, method)
    refused(lambda: driver.conn.respond(request_id, wrong), f"the result of {method} cannot be sent: {words}")
    assert (driver.conn.open_peer_requests, driver.sent()) == (1, [])
    driver.conn.respond(request_id, right)
    assert driver.sent() == [result(7, right)]


@pytest.mark.parametrize(
    ("wrong", "words", "rule"),
    [
        ({}, "outcome is missing; give a dict", "message.shape"),
        ({"outcome": "selected"}, "outcome is a str; give a dict", "message.shape"),
        ({"outcome": {}}, "outcome.outcome is missing; give one of cancelled, selected", "message.shape"),
        ({"outcome": {"outcome": "allowed"}}, "outcome.outcome is 'allowed'; give one of", "message.shape"),
        ({"outcome": {"outcome": "selected"}}, "outcome.optionId is missing; give a str", "message.shape"),
        ({"outcome": {"outcome": "selected", "optionId": "other"}}, "option 'other' was not", "permission.option"),
    ],
)
def test_a_permission_is_answered_by_respond_as_by_its_own_intent(wrong: Message, words: str, rule: str) -> None:
    driver, _, _ = prompting_client()
    ask = one(driver.feed(permission(3, "s1", OPTIONS)), PermissionRequested)
    refused(lambda: driver.conn.respond(ask.request_id, wrong), words, rule=rule)
    assert (driver.conn.open_peer_requests, driver.sent()) == (1, [])
    answer: Message = {"outcome": {"outcome": "selected", "optionId": "no", "_meta": {"why": "x"}}}
    driver.conn.respond(ask.request_id, answer)
    assert driver.sent() == [result(3, answer)]


# ── What an agent sends ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("fs/read_text_file", {}, "path is missing; give an absolute path"),
        ("fs/read_text_file", {"path": "/a", "limit": -1}, "limit is -1; give an int from 0"),
        ("fs/write_text_file", {"path": "/a"}, "content is missing; give a str"),
        ("terminal/create", {"command": ["ls"]}, "command is a list; give a str"),
        ("terminal/create", {"command": "ls", "env": [{"name": "A"}]}, "env[0].value is missing; give a str"),
        ("terminal/kill", {}, "terminalId is missing; give a str"),
        (
            "elicitation/create",
            {"mode": "form", "requestedSchema": {"type": "object", "properties": {}}},
            "message is missing; give a str",
        ),
        (
            "elicitation/create",
            {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {"a": {}}}},
            "requestedSchema.properties.a.type is missing; give one of string",
        ),
    ],
)
def test_what_is_asked_of_a_client(method: str, params: Message, words: str) -> None:
    driver = agent().initialize()
    driver.open()
    refused(
        lambda: driver.conn.request(method, params, session="s1"), f"the params of {method} cannot be sent: {words}"
    )
    assert (driver.conn.open_requests, driver.sent()) == (0, [])


def test_a_request_about_a_session_names_it() -> None:
    driver = agent().initialize()
    driver.open()
    for params in ({"path": "/a"}, {"path": "/a", "sessionId": 5}):
        refused(
            lambda given=params: driver.conn.request("fs/read_text_file", given),  # type: ignore[misc]  # a default binds it
            "fs/read_text_file is about a session: give session=",
            rule="session.missing",
        )
    driver.conn.request("fs/read_text_file", {"path": "/a", "sessionId": "s1"})
    assert len(driver.sent()) == 1


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ({"sessionUpdate": "agent_message_chunk", "content": {}}, "content.type is missing; give one of text"),
        ({"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}}, "content.text is missing; give a str"),
        ({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": 5}}, "content.text is 5; give a"),
        (
            {"sessionUpdate": "user_message_chunk", "content": {"type": "txt", "text": ""}},
            "content.type is 'txt'; give",
        ),
        (
            {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": ""}, "messageId": 5},
            "messageId is 5; give a str",
        ),
        (
            {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "", "_meta": 5}},
            "content._meta is 5; give a dict",
        ),
        (
            {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": ""}, "_meta": 5},
            "_meta is 5; give a dict",
        ),
        ({"sessionUpdate": "tool_call", "toolCallId": "t"}, "title is missing; give a str"),
        (
            {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "kind": "Bash"},
            "kind is 'Bash'; give one of",
        ),
        ({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "done"}, "status is 'done'; give one of"),
        (
            {"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": [{"type": "text", "text": "x"}]},
            "content[0].type is 'text'; give one of content, diff, terminal",
        ),
        ({"sessionUpdate": "plan"}, "entries is missing; give a list"),
        (
            {"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "top", "status": "pending"}]},
            "entries[0].priority is 'top'; give one of high, low, medium",
        ),
        (
            {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "a"}]},
            "description is missing",
        ),
        ({"sessionUpdate": "current_mode_update", "modeId": "a"}, "currentModeId is missing; give a str"),
        ({"sessionUpdate": "session_info_update", "title": 5}, "title is 5; give a str"),
        ({"sessionUpdate": "usage_update", "used": -1, "size": 2}, "used is -1; give an int from 0"),
    ],
)
def test_what_is_said_of_a_session(update: Message, words: str) -> None:
    driver = agent().initialize()
    driver.open()
    refused(lambda: driver.conn.update("s1", update), "the update cannot be sent: ", words)
    assert driver.sent() == []


@pytest.mark.parametrize(
    "update",
    [
        {"content": {"type": "text", "text": "x"}},
        {"content": {"type": "text", "text": "x"}, "messageId": None},
        {"content": {"type": "text", "text": "x", "annotations": {"priority": 1}}, "messageId": "m", "more": 1},
        {"content": {"type": "image", "data": "", "mimeType": "image/png"}},
    ],
)
def test_a_chunk_goes_out_as_it_was_given(update: Message) -> None:
    driver = agent().initialize()
    driver.open()
    whole: Message = {"sessionUpdate": "agent_message_chunk", **update}
    driver.conn.update("s1", whole)
    assert [message["params"] for message in driver.sent()] == [{"sessionId": "s1", "update": whole}]


def opened(driver: AgentDriver) -> str:
    return one(driver.feed(request(5, "session/new", {"cwd": CWD, "mcpServers": []})), RequestReceived).request_id


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"modes": {"currentModeId": "a"}}, "modes.availableModes is missing; give a list"),
        ({"modes": {"currentModeId": "a", "availableModes": [{"id": "a"}]}}, "modes.availableModes[0].name is missing"),
        (
            {"configOptions": [{"id": "c", "name": "C", "type": "select", "currentValue": "v"}]},
            "configOptions[0].options is missing; give a list",
        ),
        ({"configOptions": [{"id": "c", "name": "C", "currentValue": "v"}]}, "configOptions[0].type is missing"),
    ],
)
def test_what_a_session_is_accepted_with(said: Message, words: str) -> None:
    driver = agent().initialize()
    request_id = opened(driver)
    refused(lambda: driver.conn.accept(request_id, "s1", said), words)
    assert (driver.conn.sessions, driver.conn.open_peer_requests, driver.sent()) == ((), 1, [])
    driver.conn.accept(request_id, "s1")


def test_what_a_client_asks_for() -> None:
    driver, _ = idle_client()
    refused(lambda: driver.conn.request("session/delete", {}), "sessionId is missing; give a str")
    refused(lambda: driver.conn.request("session/list", {"cursor": 5}), "cursor is 5; give a str")
    refused(lambda: driver.conn.request("authenticate", {"methodId": None}), "methodId is None; give a str")
    assert (driver.conn.open_requests, driver.sent()) == (0, [])


def test_extensions_and_drafts_are_free() -> None:
    """What no shape is known of is sent as it is."""
    driver, _ = idle_client()
    free: Mapping[str, object] = {"sessionId": 5, "_meta": 1}
    driver.conn.request("_mine", free)
    driver.conn.notify("_mine", free)
    assert [message["params"] for message in driver.sent()] == [free, free]


# ── Lists, words and switches ───────────────────────────────────────────────────────────────────────────────────────


def deep() -> Message:
    """Too deep for repr, of every version of Python."""
    found: Message = {}
    for _ in range(200_000):
        found = {"a": found}
    return found


class Odd:
    """Whoever compares or shows it gets an error, as with the arrays of some libraries."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __repr__(self) -> str:
        raise RuntimeError("shown")


@pytest.mark.parametrize("wrong", [None, 5, True, "text", {"a": 1}, b"x", Odd(), len])
def test_a_list_is_a_list(wrong: object) -> None:
    """A TypeError that names the argument, and never a text taken letter by letter."""
    driver, session = idle_client()
    served = agent().initialize()
    served.open()
    listed = one(served.feed(request(9, "session/list", {})), RequestReceived).request_id
    calls: list[tuple[str, Callable[..., object]]] = [
        ("mcp_servers", lambda mcp_servers: driver.conn.open_session(CWD, mcp_servers=mcp_servers)),
        ("auth_methods", lambda given: AgentConnection(nonce="n", auth_methods=given)),
        ("options", lambda given: served.conn.ask_permission("s1", {"toolCallId": "t"}, given)),
        ("sessions", lambda given: served.conn.answer_list(listed, given)),
    ]
    if not isinstance(wrong, dict):
        # The keys of a mapping are names.
        calls += [
            ("additional_directories", lambda given: driver.conn.open_session(CWD, additional_directories=given)),
            ("extensions", lambda given: ClientConnection(nonce="n", extensions=given)),
            ("extensions", lambda given: AgentConnection(nonce="n", extensions=given)),
            ("cycle_origins", lambda given: ClientConnection(nonce="n", cycle_origins=given)),
        ]
    if not isinstance(wrong, str):
        calls.append(("content", lambda given: driver.conn.prompt(session, given)))
    for name, call in calls:
        with pytest.raises(TypeError, match=f"{name} must be a list of .*, not {type(wrong).__name__}"):
            call(wrong)
    assert (driver.conn.output_bytes, served.conn.output_bytes) == (0, 0)


def test_what_is_in_a_list_of_texts_is_text() -> None:
    for call in (
        lambda given: ClientConnection(nonce="n", extensions=given),
        lambda given: ClientConnection(nonce="n", cycle_origins=given),
        lambda given: ClientConnection(nonce="n").open_session(CWD, additional_directories=given),
    ):
        for wrong in ([5], [["_x"]], [None]):
            with pytest.raises(TypeError, match="must be a str, not"):
                call(wrong)


def test_an_iterator_is_a_list_too() -> None:
    """It is walked once: what it had is not lost on the second look."""
    driver = ClientDriver(ClientConnection(nonce="n", extensions=iter(["_x"])))
    driver.initialize(FULL_AGENT)
    driver.conn.open_session(CWD, mcp_servers=iter([STDIO]), additional_directories=iter(["/a"]))  # type: ignore[arg-type]  # works all the same
    (message,) = driver.sent()
    assert message["params"] == {"cwd": CWD, "mcpServers": [STDIO], "additionalDirectories": ["/a"]}
    served = AgentDriver(AgentConnection(nonce="n", auth_methods=iter([{"id": "k", "name": "K"}])))  # type: ignore[arg-type]  # works all the same
    served.feed(request(0, "initialize", {"protocolVersion": 1}))
    (message,) = served.sent()
    shaken = message["result"]
    assert isinstance(shaken, dict) and shaken["authMethods"] == [{"id": "k", "name": "K"}]


@pytest.mark.parametrize("wrong", [None, 5, Odd(), [], deep()], ids=["None", "int", "odd", "list", "deep"])
def test_a_word_is_a_str(wrong: object) -> None:
    driver, session = idle_client()
    served = agent().initialize()
    served.open()
    calls: list[tuple[str, Callable[..., object]]] = [
        ("on_idle", lambda given: driver.conn.prompt(session, "hi", on_idle=given)),
        ("then", lambda given: driver.conn.cancel_turn(session, then=given)),
        ("replay", lambda given: driver.conn.open_session(CWD, replay=given)),
        ("kind", lambda given: served.conn.update_text("s1", given, delta="x")),
        ("kind", lambda given: served.conn.seed_text("s1", given, None, "x")),
        ("one_turn", lambda given: Admission(one_turn=given)),
    ]
    for name, call in calls:
        with pytest.raises(TypeError, match=f"{name} must be a str, not {type(wrong).__name__}"):
            call(wrong)
    assert (driver.conn.output_bytes, served.conn.output_bytes) == (0, 0)


@pytest.mark.parametrize("wrong", [None, 1, "no", []])
def test_a_switch_is_a_bool(wrong: object) -> None:
    calls: list[tuple[str, Callable[..., object]]] = [
        ("tail", lambda given: ClientConnection(nonce="n", tail=given)),
        ("concurrent_prompts", lambda given: AgentConnection(nonce="n", concurrent_prompts=given)),
    ]
    for name, call in calls:
        with pytest.raises(TypeError, match=f"{name} must be a bool, not {type(wrong).__name__}"):
            call(wrong)
    for other in (1, "strict"):
        with pytest.raises(TypeError, match="admission must be an Admission or None"):
            ClientConnection(nonce="n", admission=other)  # type: ignore[arg-type]  # wrong on purpose


def test_a_value_that_cannot_be_shown_is_told_by_its_type() -> None:
    """Too deep, an integer past the interpreter's bound on digits, a class that raises."""
    served = agent().initialize()
    served.open()
    for value in (deep(), {"a": 10**5000}, {"a": Odd()}):
        refused(lambda given=value: served.conn.update("s1", given), "<dict>", rule="update.kind")  # type: ignore[misc]  # a default binds it
    assert clip(10**5000) == "<int>"


def test_functions_name_what_they_cannot_take() -> None:
    policy = Policy()
    calls: list[tuple[str, Callable[..., object], object]] = [
        ("modes must be a list of words, not str", elicitation_capabilities, "form"),
        ("modes must be a list of words, not NoneType", elicitation_capabilities, None),
        ("stored must be a list of lines, not NoneType", lambda given: compare_tail(given, []), None),
        ("tail must be a list of lines, not bytes", lambda given: compare_tail([], given), b"x"),
        ("dropped must be bytes, not str", lambda given: compare_tail([], [], given), "x"),
        ("other must be a Policy, not dict", policy.merged, {}),
        ("other must be a Policy, not NoneType", policy.widened_by, None),
        ("pauses must be a list of seconds, not int", lambda given: StartSettlement(pauses=given), 1),
        ("query_pauses must be a list of seconds", lambda given: HostLimits(query_pauses=given), 1),
        ("max_links must be an int, not str", lambda given: HostLimits(max_links=given), "8"),
        ("max_links must be an int, not float", lambda given: HostLimits(max_links=given), 8.0),
        ("backoff must be a number of seconds, not bool", lambda given: HostLimits(backoff=given), True),
        ("pause_at must be an int, not NoneType", lambda given: Inbox(pause_at=given), None),
        ("full_at must be an int, not str", lambda given: Inbox(full_at=given), "1"),
        ("key must be a str, not NoneType", lambda given: validation.validate(given, {}), None),
        ("key must be a str, not list", lambda given: validation.read(given, {}), []),
        ("name must be a str, not dict", lambda given: validation.validate_type(given, {}), {}),
        ("env must be a mapping", lambda given: build.mcp_stdio("m", command="c", env=given), ["A=1"]),
        ("headers must be a mapping", lambda given: build.mcp_http("m", url="u", headers=given), "A: 1"),
    ]
    for words, call, wrong in calls:
        with pytest.raises(TypeError, match=words):
            call(wrong)
    for seconds in (float("inf"), float("nan"), 0, -1):
        with pytest.raises(ValueError, match="backoff must be positive"):
            HostLimits(backoff=seconds)
    # An iterator of pauses is not lost on the second look.
    assert StartSettlement(attempts=2, pauses=iter([0.5])).state == StartSettlement().state  # type: ignore[arg-type]  # works all the same
