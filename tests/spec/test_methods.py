"""The method table against the official schema's, every gate both ways, and the draft methods behind their switch."""

from __future__ import annotations

import pytest

from acp_core import (
    V1,
    V1_UNSTABLE,
    LocalProtocolError,
    Method,
    NotificationReceived,
    RequestReceived,
    RequestRefused,
    ResumeSessionRequested,
    SessionFailed,
    events,
)
from acp_core.methods import AGENT, BOTH, NOTIFICATION_KIND, REQUEST_KIND
from acp_core.schema import v1_table, v1_table_unstable
from tests.core.helpers import (
    CWD,
    FULL_AGENT,
    FULL_CLIENT,
    OPTIONS,
    AgentDriver,
    ClientDriver,
    Message,
    agent,
    client,
    names,
    notification,
    one,
    request,
    result,
)
from tests.spec.requirements import requirement

STABLE = v1_table.METHODS
DRAFT = v1_table_unstable.METHODS
DRAFTS = [row for row in V1_UNSTABLE if row.key not in {known.key for known in V1}]
LEGACY = {"session_set_model"}
DRAFT_AGENT: Message = {
    **FULL_AGENT,
    "sessionCapabilities": {"fork": {}},
    "mcpCapabilities": {"acp": True},
    "providers": {},
    "nes": {"events": {"document": {f"did{name}": {} for name in ("Open", "Change", "Close", "Save", "Focus")}}},
}


def facts(row: Method) -> tuple[str, str, str]:
    return row.wire, row.kind, row.handler


# ── The two tables ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_stable_methods_are_those_of_the_schema() -> None:
    assert {row.key: facts(row) for row in V1 if row.stable} == {key: row[:3] for key, row in STABLE.items()}
    assert len([row for row in V1 if row.stable]) == 25
    assert {row.key for row in V1 if not row.stable} == LEGACY


def test_draft_methods_are_those_of_the_schema() -> None:
    assert {row.key: facts(row) for row in DRAFTS} == {key: row[:3] for key, row in DRAFT.items()}
    assert len(DRAFTS) == 17
    assert not any(row.stable for row in DRAFTS)
    assert {row.key for row in V1} == {row.key for row in V1_UNSTABLE} - {row.key for row in DRAFTS}
    assert V1_UNSTABLE.version == V1.version == 1


@pytest.mark.parametrize("row", [*V1_UNSTABLE], ids=lambda row: row.key)
def test_a_row_can_be_served(row: Method) -> None:
    """Each request has the class of its event; and a call that sends it, where the general one must not."""
    # The handshake is answered by the core.
    assert bool(row.event) == (row.is_a(REQUEST_KIND) and row.key != "initialize")
    if row.event:
        assert issubclass(getattr(events, row.event), RequestReceived)
    if row.intent:
        sender = agent() if row.handler != AGENT else client()
        assert callable(getattr(sender.conn, row.intent))


@pytest.mark.parametrize("row", [*V1_UNSTABLE], ids=lambda row: row.key)
def test_a_renamed_row_is_the_same_row(row: Method) -> None:
    renamed = V1_UNSTABLE.renamed({row.key: "other/name"})[row.key]
    assert {name: getattr(renamed, name) for name in Method.__slots__} == {
        **{name: getattr(row, name) for name in Method.__slots__},
        "wire": "other/name",
    }


def test_a_table_has_names_for_the_wire() -> None:
    for wrong in (5, None, b"x"):
        with pytest.raises(TypeError, match="the wire name of initialize must be a str"):
            V1.renamed({"initialize": wrong})  # type: ignore[dict-item]  # wrong on purpose
    with pytest.raises(ValueError, match="the wire name of initialize is empty"):
        V1.renamed({"initialize": ""})
    with pytest.raises(TypeError, match="must be a mapping of keys to wire names, not list"):
        V1.renamed(["initialize"])  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="no such method key"):
        V1.renamed({5: "x", "y": "z"})  # type: ignore[dict-item]  # wrong on purpose
    assert V1.get("initialize") is V1["initialize"] and V1.get("no_such_key") is None


# ── Gates ───────────────────────────────────────────────────────────────────────────────────────────────────────────

GATED = [row for row in V1_UNSTABLE if row.gate is not None]
# What a gate's marker does not take for yes; absent counts too.
NO: dict[str, list[object]] = {"bool": [False, None, 1, "yes", {}], "object": [None, False, True, 1, []]}
# Of these, and of none, what the schema allows.
ALLOWED: dict[str, list[object]] = {"bool": [False, ...], "object": [None, ...]}


def capabilities(row: Method, value: object) -> Message:
    """The capabilities that say only `value` about a row."""
    assert row.gate is not None
    found: object = value
    for name in reversed(row.gate.path):
        found = {name: found}
    assert isinstance(found, dict)
    return found


def params_for(row: Method) -> Message:
    """Params that nothing but the gate can refuse."""
    form: Message = {"type": "object", "properties": {}}
    return {
        "sessionId": "s1",
        "cwd": CWD,
        "mcpServers": [],
        "path": "/a",
        "content": "",
        "command": "c",
        "terminalId": "t",
        "mode": "form",
        "message": "?",
        "requestedSchema": form,
        "elicitationId": "e1",
        "methodId": "k",
    }


def side(row: Method, advertised: Message, *, asks: bool) -> AgentDriver | ClientDriver:
    """The side that asks or the side that is asked, for a row whose advertiser says `advertised`."""
    of_agent = advertised if row.advertiser == AGENT else {}
    of_client = advertised if row.advertiser != AGENT else {}
    if asks is (row.handler in (AGENT, BOTH)):
        # Its own capabilities are of use only where it is the one that has to advertise.
        using = client({} if asks else of_client, methods=V1_UNSTABLE).initialize(of_agent)
        using.open("s1")
        return using
    own = of_agent if not asks or row.advertiser == AGENT else {}
    serving = agent(own, methods=V1_UNSTABLE).initialize(of_client)
    serving.open("s1", "open")
    return serving


def use(driver: AgentDriver | ClientDriver, row: Method) -> list[Message]:
    """Send a method the way an owner does, and give what went out."""
    conn = driver.conn
    if row.key == "session_close":
        assert isinstance(driver, ClientDriver)
        driver.conn.close_session("s1")
    elif row.key in ("session_load", "session_resume"):
        assert isinstance(driver, ClientDriver)
        driver.conn.open_session(CWD, resume="s2")
        for event in driver.drain():
            if isinstance(event, SessionFailed):
                raise event.error
    elif row.kind == NOTIFICATION_KIND:
        conn.notify(row.wire, params_for(row))
    else:
        conn.request(row.wire, params_for(row))
    return driver.sent()


@requirement(33, 34, 38, 40, 42, 44)
@pytest.mark.parametrize("row", GATED, ids=lambda row: row.key)
def test_what_was_not_advertised_is_a_local_error_that_names_it(row: Method) -> None:
    assert row.gate is not None
    for value in [*NO[row.gate.marker], ...]:
        using = side(row, capabilities(row, value) if value is not ... else {}, asks=True)
        with pytest.raises(LocalProtocolError) as caught:
            use(using, row)
        # Opening again has two ways, and tells of both.
        if row.key not in ("session_load", "session_resume"):
            assert caught.value.rule == "capability.missing"
            assert str(row.gate) in str(caught.value)
        else:
            assert caught.value.rule == "session.reopen"
            assert "resume" in str(caught.value) and "load" in str(caught.value)
        assert using.sent() == []


@requirement(33, 38, 40, 42)
@pytest.mark.parametrize("row", GATED, ids=lambda row: row.key)
def test_what_was_advertised_is_sent(row: Method) -> None:
    assert row.gate is not None
    yes: object = True if row.gate.marker == "bool" else {}
    said = capabilities(row, yes)
    if row.key == "elicitation_create":
        said = {"elicitation": {"form": {}}}
    using = side(row, said, asks=True)
    if row.key == "elicitation_complete":
        # Only what was asked for is completed.
        url: Message = {**params_for(row), "mode": "url", "url": "https://example.org"}
        using.conn.request("elicitation/create", url, session="s1")
        using.sent()
    (message,) = use(using, row)
    assert message["method"] == row.wire


@requirement(33, 124)
@pytest.mark.parametrize("row", [row for row in GATED if row.is_a(REQUEST_KIND)], ids=lambda row: row.key)
def test_being_asked_for_what_was_not_advertised_is_method_not_found(row: Method) -> None:
    assert row.gate is not None
    for value in [*NO[row.gate.marker], ...]:
        said = capabilities(row, value) if value is not ... else {}
        if row.stable and value not in ALLOWED[row.gate.marker]:
            # Nobody advertises such a thing by a slip.
            with pytest.raises(LocalProtocolError) as caught:
                side(row, said, asks=False)
            assert caught.value.rule == "message.shape"
            continue
        serving = side(row, said, asks=False)
        refused = one(serving.feed(request(7, row.wire, params_for(row))), RequestRefused)
        (answer,) = serving.sent()
        assert answer["id"] == 7
        assert answer["error"] == {
            "code": -32601,
            "message": refused.reason,
            "data": {"field": "method", "reason": "capability.missing", "capability": str(row.gate)},
        }
        assert str(row.gate) in refused.reason


@requirement(117)
@pytest.mark.parametrize("mode", ["form", "url", "new", None, 5])
def test_an_elicitation_mode_that_was_not_advertised_is_invalid_params(mode: object) -> None:
    serving = client({"elicitation": {}}).initialize()
    serving.open()
    serving.feed(request(7, "elicitation/create", {"sessionId": "s1", "message": "?", "mode": mode}))
    (answer,) = serving.sent()
    failure = answer["error"]
    assert isinstance(failure, dict)
    assert (failure["code"], failure["data"]["field"]) == (-32602, "mode")


PRESENCE = [row for row in V1 if row.presence]
OFFERS: Message = {
    "modes": {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]},
    "configOptions": [{"id": "c", "name": "C", "type": "select", "currentValue": "v", "options": []}],
    "models": {"currentModelId": "m", "availableModels": []},
}


@requirement(33, 108)
@pytest.mark.parametrize("row", PRESENCE, ids=lambda row: row.key)
def test_what_a_session_does_not_offer_is_not_used(row: Method) -> None:
    """Modes, options and models have no capability: the session's own result says whether it has them."""
    assert {row.presence for row in PRESENCE} == OFFERS.keys()
    others = {name: value for name, value in OFFERS.items() if name != row.presence}
    serving = agent().initialize()
    serving.open(setup=others)
    params: Message = {"sessionId": "s1", "modeId": "a", "configId": "c", "value": "v", "modelId": "m"}
    refused = one(serving.feed(request(5, row.wire, params)), RequestRefused)
    assert (refused.code, row.presence in refused.reason) == (-32601, True)
    serving.open("s2", 2, OFFERS)
    asked = request(6, row.wire, {**params, "sessionId": "s2"})
    served = one(serving.feed(asked), RequestReceived)
    assert type(served).__name__ == row.event
    serving.conn.respond_error(served.request_id, -32603, "no")
    # Opening it again may say less, and null takes back.
    for said, offered in (({}, True), ({row.presence: None}, False)):
        again = request(7, "session/resume", {"sessionId": "s2", "cwd": CWD})
        serving.conn.accept(one(serving.feed(again), ResumeSessionRequested).request_id, result=said)
        assert (names(serving.feed(asked)) == [row.event]) == offered
    # And the client.
    using = client().initialize()
    session = using.open(setup=others)
    with pytest.raises(LocalProtocolError):
        if row.key == "session_set_mode":
            using.conn.set_mode(session, "a")
        elif row.key == "session_set_config_option":
            using.conn.set_config_option(session, "c", "v")
        else:
            using.conn.request(row.wire, params)
    assert using.sent() == []


def test_the_legacy_model_is_selected_only_where_a_session_has_models() -> None:
    for setup, sent in (({"models": {"currentModelId": "m"}}, ["session/set_model"]), ({}, [])):
        using = client().initialize()
        using.conn.open_session(CWD, model="other")
        (message,) = using.sent()
        using.feed(result(message["id"], {"sessionId": "s1", **setup}))
        assert [message["method"] for message in using.sent()] == sent


# ── Drafts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("row", DRAFTS, ids=lambda row: row.key)
def test_a_draft_is_unknown_without_the_switch(row: Method) -> None:
    using, serving = client().initialize(DRAFT_AGENT), agent(DRAFT_AGENT).initialize(FULL_CLIENT)
    using.open()
    serving.open()
    for driver in (using, serving):
        for send in (driver.conn.request, driver.conn.notify):
            with pytest.raises(LocalProtocolError) as caught:
                send(row.wire, {"sessionId": "s1"})
            assert caught.value.rule == "method.unknown"
        assert one(driver.feed(request(5, row.wire, {})), RequestRefused).code == -32601
        driver.sent()
        assert not one(driver.feed(notification(row.wire, {})), NotificationReceived).known
        assert driver.sent() == []


@pytest.mark.parametrize("row", DRAFTS, ids=lambda row: row.key)
def test_a_draft_goes_both_ways_with_the_switch(row: Method) -> None:
    for handler in (AGENT, "client"):
        if row.handler not in (handler, BOTH):
            continue
        served = agent(DRAFT_AGENT, methods=V1_UNSTABLE).initialize(FULL_CLIENT)
        used = client(FULL_CLIENT, methods=V1_UNSTABLE).initialize(DRAFT_AGENT)
        using: AgentDriver | ClientDriver = used if handler == AGENT else served
        serving: AgentDriver | ClientDriver = served if handler == AGENT else used
        for kind in (REQUEST_KIND, NOTIFICATION_KIND):
            if not row.is_a(kind):
                with pytest.raises(LocalProtocolError) as caught:
                    (using.conn.request if kind == REQUEST_KIND else using.conn.notify)(row.wire, {})
                assert caught.value.rule == "method.kind"
                continue
            (using.conn.request if kind == REQUEST_KIND else using.conn.notify)(row.wire, {"_meta": {"a": 1}})
            (message,) = using.sent()
            (event,) = serving.feed(message)
            if kind == REQUEST_KIND:
                assert isinstance(event, RequestReceived)
                assert (event.key, event.method, event.params) == (row.key, row.wire, {"_meta": {"a": 1}})
                serving.conn.respond(event.request_id, {"b": 2})
                assert names(using.feed(*serving.sent())) == ["RequestSettled"]
            else:
                assert isinstance(event, NotificationReceived)
                assert event.known


# ── Asking for permission is baseline ───────────────────────────────────────────────────────────────────────────────


@requirement(35)
def test_the_baseline_needs_no_capability() -> None:
    """New session, prompt, cancel and update; and a client is asked for permission."""
    serving = agent(None).initialize({})
    serving.open()
    request_id = serving.prompt()
    serving.conn.update("s1", {"sessionUpdate": "plan", "entries": []})
    serving.conn.ask_permission("s1", {"toolCallId": "c"}, OPTIONS)
    sent = serving.sent()
    serving.feed(notification("session/cancel", {"sessionId": "s1"}))
    serving.conn.end_turn(request_id)
    sent += serving.sent()
    assert [message.get("method", message.get("result")) for message in sent][:3] == [
        "session/update",
        "session/request_permission",
        {"stopReason": "cancelled"},
    ]
    assert {row.key for row in V1 if row.gate is None and row.stable} == {
        "initialize",
        "authenticate",
        "session_new",
        "session_prompt",
        "session_cancel",
        "session_set_mode",
        "session_set_config_option",
        "session_update",
        "session_request_permission",
        "cancel_request",
    }
