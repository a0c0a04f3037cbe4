"""Rules M1 to M4: login, model and options while a session opens. One test a rule, named after it."""

from __future__ import annotations

from collections.abc import Sequence

from acp_core import LocalProtocolError, RequestError, SessionFailed, SessionReady, SessionStep, TurnFailed
from tests.core.helpers import CWD, ClientDriver, Message, client, error, names, one, only, result, update

INTERACTIVE: Message = {"id": "browser", "name": "Log in"}
KEY: Message = {"id": "key", "name": "API key", "_meta": {"api-key": {"provider": "x"}}}
VARIABLE: Message = {"id": "variable", "name": "Variable", "type": "env_var", "vars": []}
TERMINAL: Message = {"id": "console", "name": "Console", "type": "terminal"}
NEW: Message = {"sessionId": "s1"}


def model_option(current: object, id: str = "model", **more: object) -> Message:
    return {"id": id, "name": "Model", "type": "select", "currentValue": current, "options": [], **more}


def opened(auth_methods: Sequence[Message] = (), **how: object) -> ClientDriver:
    """A client that has begun to open a session, with a prompt that waits for it."""
    driver = client().initialize(auth_methods=auth_methods)
    session = driver.conn.open_session(CWD, **how)  # type: ignore[arg-type]  # passed through
    driver.conn.prompt(session, "hi")
    return driver


def walk(driver: ClientDriver, *answers: object) -> list[str]:
    """Answer what is asked, one after the other: an int is an error's code. Returns what was asked, in order."""
    asked = []
    for answer in answers:
        (message,) = driver.sent()
        asked.append(str(message["method"]))
        driver.feed(error(message["id"], answer) if isinstance(answer, int) else result(message["id"], answer))
    return [*asked, *(str(message["method"]) for message in driver.sent())]


def test_M1_login_is_never_more_than_was_asked_for_and_never_needs_a_person() -> None:
    every = [INTERACTIVE, TERMINAL, VARIABLE, KEY]
    # The default: nothing, until a call is refused.
    assert walk(opened(every), NEW) == ["session/new", "session/prompt"]
    # Unattended: ahead of the session, if a method needs no person.
    driver = opened(every, auth="unattended")
    assert walk(driver, {}, NEW) == ["authenticate", "session/new", "session/prompt"]
    driver = opened([INTERACTIVE, TERMINAL], auth="unattended")
    assert walk(driver, NEW) == ["session/new", "session/prompt"]
    # Which one it was.
    for methods, chosen in ((every, "variable"), ([INTERACTIVE, KEY], "key")):
        driver = opened(methods, auth="unattended")
        assert [message["params"] for message in driver.sent()] == [{"methodId": chosen}]
    # A failed automatic one does not fail the open.
    driver = opened(every, auth="unattended")
    assert walk(driver, -32603, NEW) == ["authenticate", "session/new", "session/prompt"]
    # By name: any method but one in a terminal, and its failure is the open's.
    driver = opened(every, auth="browser")
    assert walk(driver, {}, NEW) == ["authenticate", "session/new", "session/prompt"]
    driver = opened(every, auth="browser")
    assert walk(driver, -32603) == ["authenticate"]
    assert one(driver.log, SessionFailed).step == "authenticate"
    for name in ("console", "nobody"):
        driver = client().initialize(auth_methods=every)
        driver.conn.open_session(CWD, auth=name)
        assert driver.sent() == []
        assert isinstance(one(driver.drain(), SessionFailed).error, LocalProtocolError)
    # One login serves the connection; one that names another method has its own.
    driver = opened(every, auth="key")
    driver.conn.open_session("/two", auth="key")
    driver.conn.open_session("/three", auth="browser")
    (first,) = driver.sent()
    driver.drain()
    driver.feed(result(first["id"], {}))
    asked = driver.sent()
    assert [message["method"] for message in asked] == ["session/new", "session/new", "authenticate"]
    assert asked[2]["params"] == {"methodId": "browser"}
    driver.feed(result(asked[2]["id"], {}))
    assert [message["method"] for message in driver.sent()] == ["session/new"]


def test_M2_a_refused_session_call_leads_to_one_login_and_one_retry() -> None:
    for key in ("session/new", "session/resume"):
        driver = opened([INTERACTIVE, KEY], resume=None if key == "session/new" else "s1")
        assert walk(driver, -32000, {}, NEW) == [key, "authenticate", key, "session/prompt"]
        # Never in a loop.
        driver = opened([INTERACTIVE, KEY], resume=None if key == "session/new" else "s1")
        assert walk(driver, -32000, {}, -32000) == [key, "authenticate", key]
        failure = one(driver.log, SessionFailed).error
        assert isinstance(failure, RequestError)
        assert failure.auth_required
        assert one(driver.log, TurnFailed).dispatch == "not_sent"
    # A login that fails leads to the retry too: the call's own refusal is what the owner gets.
    driver = opened([KEY])
    assert walk(driver, -32000, -32603, -32000) == ["session/new", "authenticate", "session/new"]
    # Nothing when something was tried, when nothing needs no person, or for another refusal.
    driver = opened([KEY], auth="unattended")
    assert walk(driver, {}, -32000) == ["authenticate", "session/new"]
    assert walk(opened([INTERACTIVE, TERMINAL]), -32000) == ["session/new"]
    assert walk(opened([KEY]), -32603) == ["session/new"]


def test_M3_the_model_is_selected_before_the_first_prompt_and_only_when_changed() -> None:
    by_id = {**NEW, "configOptions": [model_option("small")]}
    by_category = {**NEW, "configOptions": [model_option("x", "other"), model_option("small", "m", category="model")]}
    legacy = {**NEW, "models": {"currentModelId": "small", "availableModels": []}}
    for setup, method, params, confirmed in (
        (by_id, "session/set_config_option", {"configId": "model", "value": "large"}, [model_option("large")]),
        (
            by_category,
            "session/set_config_option",
            {"configId": "m", "value": "large"},
            [model_option("large", "m", category="model")],
        ),
        (legacy, "session/set_model", {"modelId": "large"}, None),
    ):
        driver = opened(model="large")
        walk(driver)
        driver.feed(result(2, setup))
        (message,) = driver.sent()
        assert (message["method"], message["params"]) == (method, {"sessionId": "s1", **params})
        session = driver.conn.session("s1")
        assert session is not None
        assert session.state == "configuring"
        driver.feed(result(message["id"], {} if confirmed is None else {"configOptions": confirmed}))
        assert [message["method"] for message in driver.sent()] == ["session/prompt"]
        # What was confirmed is known.
        assert session.model == "large"
        # Not when it is so already, and not when nobody asked.
        assert walk(opened(model="small"), setup) == ["session/new", "session/prompt"]
        assert walk(opened(), setup) == ["session/new", "session/prompt"]
        # A refusal fails before any prompt.
        driver = opened(model="large")
        assert walk(driver, setup, -32602) == ["session/new", method]
        assert (one(driver.log, SessionFailed).step, one(driver.log, TurnFailed).dispatch) == (
            method.replace("/", "_"),
            "not_sent",
        )
    # Nothing to select with: a failure before any prompt.
    driver = opened(model="large")
    assert walk(driver, NEW) == ["session/new"]
    assert one(driver.log, SessionFailed).dispatch == "not_sent"
    # Options follow the model, in their order, each only when it changes.
    driver = opened(model="large", config={"effort": "high", "fast": True, "same": "x"})
    setup = {
        **NEW,
        "configOptions": [
            model_option("small"),
            {"id": "effort", "currentValue": "low"},
            {"id": "fast", "currentValue": False},
            {"id": "same", "currentValue": "x"},
        ],
    }
    (message,) = driver.sent()
    driver.feed(result(message["id"], setup))
    written = []
    for _ in range(3):
        (message,) = driver.sent()
        written.append(message["params"])
        driver.feed(result(message["id"], {}))
    assert written == [
        {"sessionId": "s1", "configId": "model", "value": "large"},
        {"sessionId": "s1", "configId": "effort", "value": "high"},
        {"sessionId": "s1", "configId": "fast", "value": True, "type": "boolean"},
    ]


def test_M4_a_confirmation_that_names_another_model_fails() -> None:
    for asked, confirmed, same in (
        ("large", "large", True),
        ("claude-large-4", "Large", True),
        ("large", "claude-large-4[1m]", True),
        ("large (fast)", "LARGE", True),
        ("la.rge", "lar-ge", True),
        ("large", "small", False),
        ("large", "", False),
        ("large", "[large]", False),
        ("[large]", "[large]x", False),
    ):
        driver = opened(model=asked)
        setup = {**NEW, "configOptions": [model_option("another")]}
        walked = walk(driver, setup, {"configOptions": [model_option(confirmed)]})
        assert walked == ["session/new", "session/set_config_option", *(["session/prompt"] if same else [])]
        if same:
            assert one(driver.log, SessionReady).session.model == confirmed
        else:
            failed = one(driver.log, SessionFailed)
            assert (failed.outcome, failed.step) == ("invalid", "session_set_config_option")
            assert repr(asked) in str(failed.error)
            assert repr(confirmed) in str(failed.error)
            assert [step.phase for step in only(driver.log, SessionStep)][-1] == "failed"
    # The legacy call may name it too; an agent that says nothing has confirmed.
    legacy = {**NEW, "models": {"currentModelId": "another", "availableModels": []}}
    for answer, ready in (({"modelId": "small"}, False), ({"currentModelId": "large[x]"}, True), ({}, True)):
        driver = opened(model="large")
        walk(driver, legacy, answer)
        assert (len(only(driver.log, SessionReady)) == 1) is ready
    # An option of another kind has to be confirmed as it is, and a later word of the agent counts.
    driver = opened(config={"effort": "high"})
    options = [{"id": "effort", "currentValue": "low"}]
    walk(driver, {**NEW, "configOptions": options}, {"configOptions": [{"id": "effort", "currentValue": "higher"}]})
    assert one(driver.log, SessionFailed).outcome == "invalid"
    driver = opened(model="large")
    walk(driver, {**NEW, "configOptions": [model_option("another")]}, {})
    session = driver.conn.session("s1")
    assert session is not None
    driver.feed(update("s1", "config_option_update", configOptions=[model_option("fallback")]))
    assert session.model == "fallback"
    assert names(driver.log)[-1] == "ConfigOptionUpdate"
