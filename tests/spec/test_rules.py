"""Rules of the protocol that no other test shows as a whole, in the order of their numbers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from acp_core import (
    AuthRequired,
    CancelRequested,
    ConfigOptionUpdate,
    ElicitationRequested,
    Limits,
    ListSessionsRequested,
    LocalProtocolError,
    NotificationReceived,
    PromptRequested,
    ReadTextFileRequested,
    RequestRefused,
    RequestSettled,
    SessionFailed,
    SetConfigOptionRequested,
    Transcript,
    TurnFailed,
)
from acp_core.schema import v1_table, v1_table_unstable
from tests.core.helpers import (
    CWD,
    FULL_AGENT,
    OPTIONS,
    STDIO,
    AgentDriver,
    Message,
    agent,
    chunk,
    client,
    error,
    idle_client,
    names,
    notification,
    one,
    only,
    prompting_client,
    request,
    result,
    update,
)
from tests.spec.requirements import requirement

FORM: Message = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}
URL: Message = {"mode": "url", "message": "?", "url": "https://localhost/", "elicitationId": "e1"}


def option(id: str, value: object, kind: str = "select", **more: object) -> Message:
    return {"id": id, "name": id, "type": kind, "currentValue": value, "options": [], **more}


def prompting_agent(capabilities: Message | None = None) -> tuple[AgentDriver, str]:
    """An agent in a turn; the client has `capabilities`, all of them by default."""
    driver = agent().initialize() if capabilities is None else agent().initialize(capabilities)
    driver.open()
    return driver, driver.prompt()


def refused(driver: AgentDriver, **params: object) -> LocalProtocolError:
    """The local error of an elicitation that must not go out."""
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.request("elicitation/create", params)
    assert driver.sent() == []
    return caught.value


# ── Framing and identifiers ─────────────────────────────────────────────────────────────────────────────────────────


def names_in(kind: object) -> Iterator[tuple[str, str]]:
    """Every field name and every tag in a type of the generated table."""
    if not isinstance(kind, tuple):
        return
    if kind[:1] == ("o",):
        for field in kind[1]:
            yield "field", str(field[0])
    if kind[:1] == ("t",):
        yield "field", str(kind[1])
        for tag, _ in kind[2]:
            yield "tag", str(tag)
    for part in kind:
        yield from names_in(part)


@requirement(11)
def test_fields_are_camel_case_and_tags_snake_case() -> None:
    seen = set()
    for table in (v1_table, v1_table_unstable):
        for kind in table.TYPES.values():
            seen |= {*names_in(kind)}
    assert len([name for kind, name in seen if kind == "field"]) > 150
    assert {"agent_message_chunk", "resource_link"} <= {name for kind, name in seen if kind == "tag"}
    for kind, name in sorted(seen):
        # The one tag of a draft that is not: an edit suggestion.
        if name in ("_meta", "searchAndReplace"):
            continue
        assert re.fullmatch(r"[a-z][a-zA-Z0-9]*" if kind == "field" else r"[a-z][a-z0-9_-]*", name), name


@requirement(16)
def test_a_client_never_makes_a_message_id() -> None:
    driver, session = idle_client()
    driver.conn.prompt(session, [{"type": "text", "text": "hi"}], identity="mine")
    (message,) = driver.sent()
    assert message["params"] == {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]}
    # And it compares them only: what looks alike is another message.
    transcript = Transcript()
    for event in driver.feed(
        *(update("s1", "agent_message_chunk", content={"type": "text", "text": id}, messageId=id) for id in ("1", "01"))
    ):
        transcript.add(event)
    assert [found.text for found in transcript.messages] == ["1", "01"]


@requirement(17)
def test_no_message_id_and_null_are_the_same() -> None:
    driver, _ = idle_client()
    transcript = Transcript()
    for more in ({}, {"messageId": None}, {}):
        for event in driver.feed(update("s1", "agent_message_chunk", content={"type": "text", "text": "a"}, **more)):
            transcript.add(event)
    assert [(message.text, message.message_id) for message in transcript.messages] == [("aaa", None)]
    assert transcript.ignored == 0
    # An agent names a message where it can.
    serving, _ = prompting_agent()
    for id in (None, "m1"):
        serving.conn.update_text("s1", "message", id, delta="x")
    said = [message["params"] for message in serving.sent()]
    assert ["messageId" in params["update"] for params in said if isinstance(params, dict)] == [False, True]


@requirement(20)
def test_the_id_of_an_open_elicitation_by_url_is_not_used_twice() -> None:
    driver, _ = prompting_agent()
    first = driver.conn.request("elicitation/create", URL, session="s1")
    assert driver.sent()[0]["params"] == {**URL, "sessionId": "s1"}
    for bad in ({}, {"elicitationId": ""}, {"elicitationId": 7}, {"elicitationId": "e1"}):
        params = {name: value for name, value in URL.items() if name != "elicitationId"}
        assert refused(driver, **params, **bad, sessionId="s1").rule == "elicitation.id"
    # Another one is free, and so is this one when it was declined.
    driver.conn.request("elicitation/create", {**URL, "elicitationId": "e2"}, session="s1")
    driver.sent()
    driver.feed(result(first, {"action": "decline"}))
    driver.conn.request("elicitation/create", URL, session="s1")
    assert len(driver.sent()) == 1


@requirement(20)
@pytest.mark.parametrize("extra", [0, 1])
def test_so_many_elicitations_by_url_are_remembered(extra: int) -> None:
    """At the bound all of them can be completed; past it the oldest is forgotten."""
    driver = agent(limits=Limits(max_open_requests=3)).initialize()
    driver.open()
    driver.prompt()
    for number in range(3 + extra):
        id = driver.conn.request("elicitation/create", {**URL, "elicitationId": f"e{number}"}, session="s1")
        driver.sent()
        driver.feed(result(id, {"action": "accept"}))
    for number in range(3 + extra):
        if number < extra:
            with pytest.raises(LocalProtocolError) as caught:
                driver.conn.notify("elicitation/complete", {"elicitationId": f"e{number}"})
            assert caught.value.rule == "elicitation.unknown"
        else:
            driver.conn.notify("elicitation/complete", {"elicitationId": f"e{number}"})
            assert len(driver.sent()) == 1


# ── Capabilities ────────────────────────────────────────────────────────────────────────────────────────────────────

SWITCHES: list[tuple[str, ...]] = [
    ("loadSession",),
    ("promptCapabilities", "image"),
    ("mcpCapabilities", "http"),
    ("sessionCapabilities", "resume"),
    ("sessionCapabilities", "close"),
    ("sessionCapabilities", "additionalDirectories"),
    ("auth", "logout"),
]


def some_capabilities(chosen: tuple[bool, ...]) -> Message:
    found: Message = {}
    for path, wanted in zip(SWITCHES, chosen, strict=True):
        if wanted:
            place = found
            for name in path[:-1]:
                inner = place.setdefault(name, {})
                assert isinstance(inner, dict)
                place = inner
            place[path[-1]] = {} if path[0] in ("sessionCapabilities", "auth") else True
    return found


@requirement(34)
@pytest.mark.parametrize("chosen", [*itertools.product((False, True), repeat=len(SWITCHES))])
def test_any_combination_of_capabilities_is_coped_with(chosen: tuple[bool, ...]) -> None:
    """Each switch decides what hangs on it, and nothing else."""
    load, image, http, resume, close, directories, logout = chosen
    driver = client().initialize(some_capabilities(chosen))

    def opens(**how: object) -> bool:
        session = driver.conn.open_session(CWD, **how)  # type: ignore[arg-type]  # passed through
        if session.state == "closed":
            assert isinstance(one(driver.drain(), SessionFailed).error, LocalProtocolError)
            return False
        (message,) = driver.sent()
        driver.feed(result(message["id"], {"sessionId": f"new {len(driver.conn.sessions)}"}))
        return True

    def goes(intent: str, *args: object) -> bool:
        try:
            getattr(driver.conn, intent)(*args)
        except LocalProtocolError as why:
            assert why.rule == "capability.missing"
            return False
        return len(driver.sent()) == 1

    assert opens()
    (session,) = driver.conn.sessions
    assert opens(resume="old") == (load or resume)
    assert opens(mcp_servers=[{"type": "http", "name": "m", "url": "http://localhost", "headers": []}]) == http
    assert opens(mcp_servers=[STDIO])
    assert opens(additional_directories=["/b"]) == directories
    assert goes("request", "logout") == logout
    assert goes("prompt", session, [{"type": "image", "data": "", "mimeType": "image/png"}]) == image
    assert goes("close_session", session) == close


@requirement(36)
def test_an_agent_takes_text_and_links_whatever_it_advertised() -> None:
    blocks: list[Message] = [
        {"type": "text", "text": "see "},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
    ]
    advertised: tuple[Message | None, ...] = (None, {}, {"promptCapabilities": {}}, FULL_AGENT)
    for capabilities in advertised:
        driver = agent(capabilities).initialize()
        driver.open()
        event = one(driver.feed(request(5, "session/prompt", {"sessionId": "s1", "prompt": blocks})), PromptRequested)
        assert (event.prompt, event.text) == (blocks, "see ")
        driver.conn.end_turn("s1")
        assert driver.sent() == [result(5, {"stopReason": "end_turn"})]


BOOLEAN: Message = {"session": {"configOptions": {"boolean": {}}}}


@requirement(43)
@pytest.mark.parametrize("capabilities", [{}, {"session": {"configOptions": {"boolean": None}}}, BOOLEAN])
def test_boolean_options_go_to_clients_that_know_them(capabilities: Message) -> None:
    flag = option("flag", False, "boolean")
    driver = agent().initialize(capabilities)
    driver.open(setup={"configOptions": [option("c", "x")]})

    def say() -> None:
        driver.conn.update("s1", {"sessionUpdate": "config_option_update", "configOptions": [flag]})

    (asked,) = driver.feed(
        request(2, "session/set_config_option", {"sessionId": "s1", "configId": "flag", "value": True})
    )
    assert isinstance(asked, SetConfigOptionRequested)

    def answer() -> None:
        driver.conn.respond(asked.request_id, {"configOptions": [flag]})

    opens = [*driver.feed(request(3, "session/new", {"cwd": CWD, "mcpServers": []}))]

    def accept() -> None:
        driver.conn.accept(opens[0].request_id, "s2", {"configOptions": [flag]})  # type: ignore[attr-defined]  # a request

    for offer in (say, answer, accept):
        if capabilities == BOOLEAN:
            offer()
            assert len(driver.sent()) == 1
            continue
        with pytest.raises(LocalProtocolError) as caught:
            offer()
        assert caught.value.rule == "capability.missing"
        assert "session.configOptions.boolean" in str(caught.value)
        assert driver.sent() == []


@requirement(44)
@pytest.mark.parametrize("advertised", [None, {}, {"form": None, "url": None}, {"form": True}])
def test_an_empty_elicitation_capability_is_none(advertised: object) -> None:
    driver, _ = prompting_agent({"elicitation": advertised})
    for params in (FORM, URL):
        assert refused(driver, **params, sessionId="s1").rule == "capability.missing"


LOGINS: list[Message] = [{"id": "key", "name": "Key"}, {"id": "tty", "name": "Terminal", "type": "terminal"}]


@requirement(45, 51)
@pytest.mark.parametrize(
    ("advertised", "offered"),
    [({}, 1), ({"auth": {}}, 1), ({"auth": {"terminal": 1}}, 1), ({"auth": {"terminal": True}}, 2)],
)
def test_terminal_logins_are_offered_to_clients_that_can_run_them(advertised: Message, offered: int) -> None:
    driver = agent(auth_methods=LOGINS)
    driver.feed(request(0, "initialize", {"protocolVersion": 1, "clientCapabilities": advertised}))
    (answer,) = driver.sent()
    told = answer["result"]
    assert isinstance(told, dict)
    assert told["authMethods"] == LOGINS[:offered]
    # Either way it is not what authenticate is for.
    for method_id in ("tty", "nobody", None):
        event = one(driver.feed(request(1, "authenticate", {"methodId": method_id})), RequestRefused)
        assert event.code == -32602
    assert names(driver.feed(request(2, "authenticate", {"methodId": "key"}))) == ["AuthenticateRequested"]


@requirement(45)
def test_an_agent_with_terminal_logins_alone_has_none_for_other_clients() -> None:
    driver = agent(auth_methods=LOGINS[1:]).initialize({})
    assert one(driver.feed(request(1, "authenticate", {"methodId": "tty"})), RequestRefused).code == -32601


@requirement(46)
def test_stdio_servers_need_no_capability() -> None:
    driver = client().initialize({})
    driver.conn.open_session(CWD, mcp_servers=[STDIO, {"type": "stdio", **STDIO}])
    (message,) = driver.sent()
    params = message["params"]
    assert isinstance(params, dict)
    assert params["mcpServers"] == [STDIO, {"type": "stdio", **STDIO}]
    for kind in ("http", "sse"):
        driver.conn.open_session(CWD, mcp_servers=[{"type": kind, "name": "m", "url": "http://x", "headers": []}])
        failed = one(driver.drain(), SessionFailed)
        assert f"mcpCapabilities.{kind}" in str(failed.error)
    assert driver.sent() == []


DRAFT_UPDATES: list[tuple[str, Message]] = [
    ("plan_update", {"plan": {}}),
    ("plan_removed", {"plan": {}}),
    ("compaction_update", {"session": {"compaction": {}}}),
    ("compaction_summary_chunk", {"session": {"compaction": {}}}),
]


@requirement(48)
@pytest.mark.parametrize(("kind", "capability"), DRAFT_UPDATES)
def test_draft_updates_go_to_clients_that_know_them(kind: str, capability: Message) -> None:
    other: Message = {"plan": None, "session": {"compaction": None}}
    for advertised in ({}, other, capability):
        driver, _ = prompting_agent(advertised)
        if advertised == capability:
            driver.conn.update("s1", {"sessionUpdate": kind})
            assert len(driver.sent()) == 1
            continue
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.update("s1", {"sessionUpdate": kind})
        assert caught.value.rule == "capability.missing"
        assert driver.sent() == []


# ── Lifecycle ───────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(55)
def test_after_a_logout_a_turn_may_fail_for_lack_of_a_login() -> None:
    driver = client().initialize(auth_methods=[{"id": "key", "name": "Key"}])
    session = driver.open()
    id = driver.conn.request("logout")
    driver.sent()
    driver.feed(result(id, {}))
    prompt = driver.prompt(session)
    failed = one(driver.feed(error(prompt, -32000, "log in")), TurnFailed)
    assert isinstance(failed.error, AuthRequired)
    assert failed.error.auth_required
    # Logging in again is possible, and the session is still there.
    login = driver.conn.authenticate("key")
    driver.sent()
    driver.feed(result(login, {}))
    assert session.state == "idle"
    driver.prompt(session)


@requirement(61)
def test_a_replay_may_hold_whole_states() -> None:
    driver = client().initialize({"loadSession": True})
    session, id = driver.load(replay="report")
    transcript = Transcript()
    whole: Message = {"toolCallId": "t", "title": "Read", "status": "completed", "content": []}
    for event in driver.feed(
        chunk("s1", "hello", "user_message_chunk"),
        update("s1", "tool_call", whole),
        chunk("s1", "the whole answer"),
        result(id, None),
    ):
        transcript.add(event)
    for event in driver.wait(1.0):
        transcript.add(event)
    assert session.state == "idle"
    assert [entry.kind for entry in transcript.entries] == ["message", "tool_call", "message"]
    assert [message.text for message in transcript.messages] == ["hello", "the whole answer"]
    (call,) = transcript.tool_calls
    assert (call.mark, call.display_state) == ("replayed", "completed")


@requirement(65)
def test_the_directories_of_a_listed_session_are_taken_as_they_are() -> None:
    driver, _ = idle_client()
    id = driver.conn.request("session/list")
    driver.sent()
    listed = {"sessionId": "old", "cwd": "/a", "additionalDirectories": ["/b", "/b", "/a"]}
    settled = one(driver.feed(result(id, {"sessions": [listed]})), RequestSettled)
    assert settled.result == {"sessions": [listed]}
    # Nothing of it is put in by itself when the session is opened again.
    for given in ([], ["/c"]):
        driver.conn.open_session("/a", resume="old", additional_directories=given)
        (message,) = driver.sent()
        params = message["params"]
        assert isinstance(params, dict)
        assert params.get("additionalDirectories", []) == given
        driver.feed(error(message["id"], -32002))


@requirement(66, 67)
@pytest.mark.parametrize("how", [{}, {"resume": "old"}])
def test_a_client_sends_absolute_directories_and_all_of_them_each_time(how: Message) -> None:
    driver = client().initialize()
    for cwd, further in (("work", []), ("", []), ("C:work", []), (CWD, ["/a", "b"]), (CWD, [""])):
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.open_session(cwd, additional_directories=further, **how)  # type: ignore[arg-type]  # passed on
        assert caught.value.rule == "path.absolute"
    assert driver.sent() == []
    driver.conn.open_session(CWD, additional_directories=["/a", "C:\\b"], **how)  # type: ignore[arg-type]  # passed on
    (message,) = driver.sent()
    params = message["params"]
    assert isinstance(params, dict)
    assert (params["cwd"], params["additionalDirectories"]) == (CWD, ["/a", "C:\\b"])


@requirement(70)
@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
def test_requests_without_further_directories_are_served(method: str) -> None:
    for capabilities in (FULL_AGENT, {**FULL_AGENT, "sessionCapabilities": {"resume": {}}}):
        driver = agent(capabilities).initialize()
        (event,) = driver.feed(request(1, method, {"sessionId": "s1", "cwd": CWD, "mcpServers": []}))
        assert not isinstance(event, RequestRefused)


# ── Cancellation, turns ─────────────────────────────────────────────────────────────────────────────────────────────


@requirement(76)
def test_open_tool_calls_of_a_cancelled_turn_are_shown_as_cancelled_at_once() -> None:
    driver, session, id = prompting_client()
    transcript = Transcript()

    def hear(*messages: Message) -> None:
        for event in driver.feed(*messages):
            transcript.add(event)

    hear(
        update("s1", "tool_call", toolCallId="open", title="x", status="in_progress"),
        update("s1", "tool_call", toolCallId="done", title="y", status="completed"),
    )

    def shown() -> list[str]:
        return [call.display_state for call in transcript.tool_calls]

    assert shown() == ["in_progress", "completed"]
    driver.conn.cancel_turn(session)
    assert shown() == ["cancelled", "completed"]
    # The agent's own word stays, and may still come.
    assert transcript.tool_calls[0].status == "in_progress"
    hear(update("s1", "tool_call_update", toolCallId="open", status="failed"))
    assert shown() == ["failed", "completed"]
    driver.sent()
    hear(result(id, {"stopReason": "cancelled"}))
    # The next turn is not cancelled.
    driver.prompt(session)
    hear(update("s1", "tool_call", toolCallId="next", title="z", status="pending"))
    assert shown()[-1] == "pending"


@requirement(97)
def test_a_refusal_says_what_is_not_in_the_context_any_more() -> None:
    for reason, expected in (("refusal", True), ("end_turn", False)):
        driver, session, id = prompting_client()
        transcript = Transcript()
        for event in driver.feed(chunk("s1", "no"), result(id, {"stopReason": reason})):
            transcript.add(event)
        assert ("ot in the agent's context any more" in transcript.to_markdown()) == expected
        assert session.state == "idle"


# ── Configuration options ───────────────────────────────────────────────────────────────────────────────────────────


@requirement(104)
def test_options_go_out_as_the_complete_list_each_with_its_value() -> None:
    driver = agent().initialize()
    driver.open(setup={"configOptions": [option("a", "x"), option("b", "y")]})
    (asked,) = driver.feed(request(5, "session/set_config_option", {"sessionId": "s1", "configId": "a", "value": "z"}))
    assert isinstance(asked, SetConfigOptionRequested)
    bad: list[tuple[object, str]] = [
        (None, "config.list"),
        ({}, "config.list"),
        ([option("b", "y")], "config.list"),
        ([option("a", None)], "config.value"),
        ([{"id": "a", "name": "a", "type": "select", "options": []}], "config.value"),
        ([{"name": "a", "currentValue": "z"}], "config.option"),
        (["a"], "config.option"),
    ]
    for options, rule in bad:
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.respond(asked.request_id, {} if options is None else {"configOptions": options})
        assert caught.value.rule == rule
        if options != [option("b", "y")]:
            with pytest.raises(LocalProtocolError) as caught:
                driver.conn.update("s1", {"sessionUpdate": "config_option_update", "configOptions": options})
            assert caught.value.rule == rule
    assert driver.sent() == []
    whole = [option("a", "z"), option("b", "y")]
    driver.conn.respond(asked.request_id, {"configOptions": whole})
    assert driver.sent() == [result(5, {"configOptions": whole})]


@requirement(104, 105, 108)
def test_a_client_takes_options_as_a_whole_in_their_order() -> None:
    driver = client().initialize()
    first = [option("b", "x"), option("odd", {"any": 1}, "slider", category="model"), option("a", "y")]
    session = driver.open(setup={"configOptions": first})
    assert session.config_options == first
    # What is of a type that nobody knows is kept, and is never taken for the one that selects the model.
    assert session.model is None
    later = [option("a", "z"), option("m", "big", category="model")]
    one(driver.feed(update("s1", "config_option_update", configOptions=later)), ConfigOptionUpdate)
    assert session.config_options == later
    assert driver.conn.sessions[0].model == "big"


@requirement(105)
def test_a_model_is_not_selected_by_an_option_of_an_unknown_type() -> None:
    driver = client().initialize()
    driver.conn.open_session(CWD, model="big")
    (message,) = driver.sent()
    options = [option("odd", "small", "slider", category="model"), option("m", "small", category="model")]
    driver.feed(result(message["id"], {"sessionId": "s1", "configOptions": options}))
    (message,) = driver.sent()
    assert message["params"] == {"sessionId": "s1", "configId": "m", "value": "big"}


# ── Elicitation ─────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(110)
def test_an_elicitation_names_its_mode_and_its_scope() -> None:
    driver, _ = prompting_agent()
    assert refused(driver, **FORM).rule == "elicitation.scope"
    assert refused(driver, **FORM, sessionId=None, requestId=1.5).rule == "elicitation.scope"
    assert refused(driver, message="?", sessionId="s1").rule == "elicitation.mode"
    for scope in ({"sessionId": "s1"}, {"requestId": 7}, {"requestId": "seven"}):
        driver.conn.request("elicitation/create", {**FORM, **scope})
        (message,) = driver.sent()
        assert message["params"] == {**FORM, **scope}


@requirement(111)
def test_a_form_says_type_and_properties_and_readers_cope_without() -> None:
    driver, _ = prompting_agent()
    bad: list[object] = [None, {}, {"type": "object"}, {"properties": {}}, {"type": "array", "properties": {}}, "x"]
    for form in bad:
        assert refused(driver, **{**FORM, "requestedSchema": form}, sessionId="s1").rule == "elicitation.form"
    asked, _ = idle_client()
    for number, form in enumerate([*bad, {"type": 5, "properties": 7}]):
        params = {**FORM, "requestedSchema": form, "sessionId": "s1"}
        event = one(asked.feed(request(number, "elicitation/create", params)), ElicitationRequested)
        assert event.mode == "form"
        assert isinstance(event.requested_schema, dict)
        asked.conn.respond(event.request_id, {"action": "decline"})


@requirement(115, 116)
@pytest.mark.parametrize("action", ["accept", "decline", "cancel", "later", None, "error"])
def test_consent_is_not_completion(action: str | None) -> None:
    """Every outcome settles the question; only what was accepted is still open, until it is completed."""
    driver, _ = prompting_agent()

    def complete(id: str = "e1") -> str:
        try:
            driver.conn.notify("elicitation/complete", {"elicitationId": id})
        except LocalProtocolError as why:
            return why.rule
        assert driver.sent() == [notification("elicitation/complete", {"elicitationId": id})]
        return "sent"

    assert complete() == "elicitation.unknown"
    id = driver.conn.request("elicitation/create", URL, session="s1", token="t")
    driver.sent()
    answer = error(id, -32603) if action == "error" else result(id, {} if action is None else {"action": action})
    settled = one(driver.feed(answer), RequestSettled)
    assert (settled.token, settled.outcome) == ("t", "error" if action == "error" else "result")
    if action == "accept":
        assert refused(driver, **URL, sessionId="s1").rule == "elicitation.id"
        assert complete("other") == "elicitation.unknown"
        assert complete() == "sent"
    assert complete() == "elicitation.unknown"


@requirement(116)
def test_a_completion_of_something_unknown_is_passed_over() -> None:
    driver, session, _ = prompting_client()
    for id in ("nobody", None, 5):
        event = one(driver.feed(notification("elicitation/complete", {"elicitationId": id})), NotificationReceived)
        assert event.known
    assert driver.sent() == []
    assert session.state == "prompting"


# ── Extensions and proxies ──────────────────────────────────────────────────────────────────────────────────────────


@requirement(125)
def test_extensions_are_advertised_in_the_meta_of_the_capabilities() -> None:
    mine: Message = {"_meta": {"example.com/extra": {"version": 1}}}
    serving, using = agent(mine), client(mine)
    using.conn.initialize()
    serving.feed(*using.sent())
    using.feed(*serving.sent())
    assert serving.conn.peer_capabilities == mine
    assert using.conn.peer_capabilities == mine


@requirement(130)
def test_a_proxy_keeps_meta_and_cancels_stay_on_their_connection() -> None:
    """A question of an agent goes on to a client behind; each connection has ids and cancels of its own."""
    near, _ = idle_client()
    far, _ = prompting_agent()
    # Ids that differ on the two connections.
    near_id = "of the agent"
    params: Message = {"sessionId": "s1", "path": "/a", "_meta": {"traceparent": "00-1", "mine": {"x": None}}}
    asked = one(near.feed(request(near_id, "fs/read_text_file", params)), ReadTextFileRequested)
    assert asked.meta == params["_meta"]
    far_id = far.conn.request(asked.method, asked.params, token=asked.request_id)
    (passed,) = far.sent()
    assert passed["params"] == params
    # The cancel is used up here, and names the request by this side's own id.
    cancel = one(near.feed(notification("$/cancel_request", {"requestId": near_id})), CancelRequested)
    assert cancel.request_id == asked.request_id
    far.conn.cancel_request(far_id)
    assert far.sent() == [notification("$/cancel_request", {"requestId": far_id})]
    settled = one(far.feed(result(far_id, {"content": "c", "_meta": {"kept": True}})), RequestSettled)
    assert settled.token == asked.request_id
    assert isinstance(settled.result, dict)
    near.conn.respond(asked.request_id, settled.result)
    assert near.sent() == [result(near_id, {"content": "c", "_meta": {"kept": True}})]


# ── Paths and lines ─────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(12)
@pytest.mark.parametrize(
    ("method", "params", "rule"),
    [
        ("fs/read_text_file", {"path": "a"}, "path.absolute"),
        ("fs/read_text_file", {"path": 5}, "path.absolute"),
        ("fs/read_text_file", {"path": "/a", "line": 0}, "line.from_1"),
        ("fs/read_text_file", {"path": "/a", "line": True}, "line.from_1"),
        ("fs/write_text_file", {"path": "./a", "content": ""}, "path.absolute"),
        ("terminal/create", {"command": "ls", "cwd": "work"}, "path.absolute"),
    ],
)
def test_an_agent_sends_absolute_paths_and_lines_from_1(method: str, params: Message, rule: str) -> None:
    driver, _ = prompting_agent()
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.request(method, params, session="s1")
    assert caught.value.rule == rule
    assert driver.sent() == []
    driver.conn.request(method, {**params, "path": "C:\\a", "line": None, "cwd": None}, session="s1")
    assert len(driver.sent()) == 1


@requirement(12)
@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"locations": [{"path": "/a"}, {"path": "b"}]}, "path.absolute"),
        ({"locations": [{"line": 3}]}, "path.absolute"),
        ({"locations": [{"path": "/a", "line": 0}]}, "line.from_1"),
        ({"content": [{"type": "diff", "path": "a", "newText": ""}]}, "path.absolute"),
    ],
)
def test_a_tool_call_names_absolute_paths_and_lines_from_1(fields: Message, rule: str) -> None:
    driver, _ = prompting_agent()
    for kind in ("tool_call", "tool_call_update"):
        with pytest.raises(LocalProtocolError) as caught:
            driver.conn.update("s1", {"sessionUpdate": kind, "toolCallId": "t", "title": "a", **fields})
        assert caught.value.rule == rule
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.ask_permission("s1", {"toolCallId": "t", **fields}, OPTIONS)
    assert caught.value.rule == rule
    assert driver.sent() == []
    fine: Message = {
        "locations": [{"path": "/a", "line": 1}, {"path": "C:\\b", "line": None}, {"path": "\\\\server\\c"}],
        "content": [{"type": "diff", "path": "/a", "newText": ""}, {"type": "terminal", "terminalId": "x"}],
    }
    driver.conn.update("s1", {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "a", **fine})
    assert len(driver.sent()) == 1


@requirement(12, 64)
def test_the_filter_of_a_list_is_an_absolute_path() -> None:
    using = client().initialize()
    with pytest.raises(LocalProtocolError) as caught:
        using.conn.request("session/list", {"cwd": "work"})
    assert caught.value.rule == "path.absolute"
    serving = agent().initialize()
    refusal = one(serving.feed(request(1, "session/list", {"cwd": "work"})), RequestRefused)
    assert (refusal.code, "cwd" in refusal.reason) == (-32602, True)
    (answer,) = serving.sent()
    failure = answer["error"]
    assert isinstance(failure, dict)
    assert failure["data"] == {"field": "cwd", "reason": "path.absolute"}
    for params in ({"cwd": "/work"}, {"cwd": None}, {}):
        assert names(serving.feed(request(2, "session/list", params))) == ["ListSessionsRequested"]
        serving.conn.respond(only(serving.log, ListSessionsRequested)[-1].request_id, {"sessions": []})
