"""Requests both ways: results, errors, deadlines, handlers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from acp_core import (
    CreateTerminalRequested,
    LocalProtocolError,
    PermissionRequested,
    Policy,
    RemoteProtocolError,
    RequestError,
    RequestReceived,
    RequestRefused,
    RequestTimeout,
)
from acp_core.inbox import HandlerFailed
from acp_core.schema import Request
from tests.contract.harness import Bench, allow, get, nothing

if TYPE_CHECKING:
    from collections.abc import Mapping


def test_result(bench: Bench) -> None:
    agent, peer = bench.connect()
    job = bench.spawn(agent.initialize)
    peer.initialized(loadSession=True)
    get(job)
    assert agent.peer_capabilities == {"loadSession": True}
    asked = bench.spawn(agent.request, "_x/ask", {"a": 1})
    request = peer.read()
    assert request["method"] == "_x/ask"
    assert request["params"] == {"a": 1}
    peer.result(request, [1, None, "é"])
    assert get(asked) == [1, None, "é"]


def test_the_client_says_what_its_handlers_serve(bench: Bench) -> None:
    def read(request: RequestReceived) -> Mapping[str, object]:
        return {"content": ""}

    agent, peer = bench.connect(handlers={"fs_read_text_file": read, "terminal_create": read, "_x/one": read})
    job = bench.spawn(agent.initialize)
    request = peer.initialized()
    get(job)
    assert request["params"]["clientCapabilities"] == {"fs": {"readTextFile": True}, "terminal": True}


def test_one_handler_for_every_extension(bench: Bench) -> None:
    def other(request: RequestReceived) -> Mapping[str, object]:
        return {"method": request.method}

    _agent, _session, peer = bench.session(handlers={"_*": other, "_x/one": lambda request: {"one": True}})
    for number, (method, result) in enumerate((("_x/one", {"one": True}), ("_x/two", {"method": "_x/two"}))):
        peer.send({"jsonrpc": "2.0", "id": f"a{number}", "method": method, "params": {}})
        assert peer.read() == {"jsonrpc": "2.0", "id": f"a{number}", "result": result}
    peer.send({"jsonrpc": "2.0", "id": "b", "method": "made/up", "params": {}})
    assert peer.read()["error"]["code"] == -32601


def test_explicit_capabilities_win(bench: Bench) -> None:
    agent, peer = bench.connect(handlers={"fs_read_text_file": lambda request: None}, capabilities={"_meta": {"a": 1}})
    job = bench.spawn(agent.initialize)
    assert peer.initialized()["params"]["clientCapabilities"] == {"_meta": {"a": 1}}
    get(job)


def test_error_carries_code_message_and_data(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    asked = bench.spawn(agent.request, "_x/ask")
    peer.error(peer.read(), -32042, "no such thing", {"why": "x"})
    with pytest.raises(RequestError) as caught:
        get(asked)
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32042, "no such thing", {"why": "x"})


def test_an_answer_that_breaks_the_protocol(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    asked = bench.spawn(agent.request, "_x/ask")
    request = peer.read()
    peer.send({"id": request["id"], "result": 1, "error": {"code": 1, "message": "both"}})
    with pytest.raises(RemoteProtocolError):
        get(asked)
    asked = bench.spawn(agent.request, "_x/ask")
    peer.result(peer.read(), {"still": "here"})
    assert get(asked) == {"still": "here"}


def test_a_local_error_writes_nothing(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    with pytest.raises(LocalProtocolError):
        agent.request("no/such/method")
    with pytest.raises(TypeError):
        agent.request("_x/ask", ["no", "object"])  # type: ignore[arg-type]  # the wrong type is what is tested
    asked = bench.spawn(agent.request, "_x/next")
    assert peer.read()["method"] == "_x/next"
    agent.close()
    with pytest.raises(Exception, match="over"):
        get(asked)


def test_deadline(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    asked = bench.spawn(agent.request, "_x/ask", deadline=0.05)
    request = peer.read()
    with pytest.raises(RequestTimeout):
        get(asked)
    assert peer.expect("cancel_request")["params"] == {"requestId": request["id"]}
    # The late answer is harmless.
    peer.result(request, {})
    again = bench.spawn(agent.request, "_x/again", deadline=20.0)
    peer.result(peer.read(), {"ok": True})
    assert get(again) == {"ok": True}


def test_many_at_once_answered_backwards(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    jobs = {number: bench.spawn(agent.request, "_x/ask", {"number": number}) for number in range(40)}
    requests = [peer.read() for _ in jobs]
    for request in reversed(requests):
        peer.result(request, {"number": request["params"]["number"]})
    for number, job in jobs.items():
        assert get(job) == {"number": number}


def test_typed_request_is_found_by_its_key(bench: Bench) -> None:
    agent, _session, peer = bench.session(agent_capabilities={"sessionCapabilities": {"list": {}}})
    typed: Request[dict[str, object]] = Request("session/list", "session_list", {"cwd": "/tmp"})
    asked = bench.spawn(agent.request, typed)
    request = peer.expect("session_list")
    assert request["params"] == {"cwd": "/tmp"}
    peer.result(request, {"sessions": []})
    assert get(asked) == {"sessions": []}


def test_request_about_a_session(bench: Bench) -> None:
    agent, session, peer = bench.session()
    asked = bench.spawn(agent.request, "_x/ask", {"a": 1}, session=session)
    request = peer.read()
    assert request["params"] == {"a": 1, "sessionId": "s1"}
    peer.result(request, {})
    get(asked)


def test_notify(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    agent.notify("_x/told", {"a": [1]})
    assert peer.read() == {"jsonrpc": "2.0", "method": "_x/told", "params": {"a": [1]}}


def test_set_mode_and_authenticate(bench: Bench) -> None:
    agent, peer = bench.connect()
    job = bench.spawn(agent.initialize)
    request = peer.expect("initialize")
    peer.result(request, {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": [{"id": "key", "name": "Key"}]})
    get(job)
    job = bench.spawn(agent.authenticate, "key")
    request = peer.expect("authenticate")
    assert request["params"] == {"methodId": "key"}
    peer.result(request)
    get(job)
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
    opening = bench.spawn(agent.open_session, "/tmp")
    peer.opened(modes=modes)
    session = get(opening)
    job = bench.spawn(session.set_mode, "b")
    peer.result(peer.expect("session_set_mode"))
    get(job)
    assert session.handle.current_mode_id == "b"


def test_open_session_fails_with_the_agents_error(bench: Bench) -> None:
    agent, peer = bench.connect()
    opening = bench.spawn(agent.open_session, "/tmp")
    peer.initialized()
    peer.error(peer.expect("session_new"), -32000, "log in first")
    with pytest.raises(RequestError) as caught:
        get(opening)
    assert caught.value.auth_required


# ── Requests of the agent ───────────────────────────────────────────────────────────────────────────────────────────


def test_handlers_by_key_and_by_name(bench: Bench) -> None:
    def read(request: RequestReceived) -> Mapping[str, object]:
        return {"content": f"text of {request.params['path']}"}

    def extra(request: RequestReceived) -> None:
        return None

    _agent, _session, peer = bench.session(handlers={"fs_read_text_file": read, "_x/extra": extra})
    peer.send(peer.message("fs_read_text_file", {"sessionId": "s1", "path": "/a"}, "r1"))
    assert peer.read() == {"jsonrpc": "2.0", "id": "r1", "result": {"content": "text of /a"}}
    peer.send({"id": 2, "method": "_x/extra", "params": {}})
    assert peer.read() == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_what_nobody_serves_is_refused(bench: Bench) -> None:
    _agent, _session, peer = bench.session(capabilities={"terminal": True})
    for id, message in enumerate(
        (
            peer.message("terminal_create", {"sessionId": "s1", "command": "x"}),
            peer.message("fs_read_text_file", {"sessionId": "s1", "path": "/a"}),
            {"method": "_x/unknown", "params": {}},
        )
    ):
        peer.send({"id": id, **message})
        answer = peer.read()
        assert (answer["id"], answer["error"]["code"]) == (id, -32601)
    bench.wait_seen(RequestRefused, 2)


def test_what_was_advertised_and_nobody_serves_is_reported(bench: Bench) -> None:
    _agent, _session, peer = bench.session(capabilities={"terminal": True})
    peer.send(peer.message("terminal_create", {"sessionId": "s1", "command": "x"}, 1))
    assert peer.read()["error"]["code"] == -32601
    bench.wait_seen(CreateTerminalRequested)


@pytest.mark.parametrize("name", ["session_new", "session_request_permission", "no such key"])
def test_a_handler_that_nobody_asks_for_is_refused(bench: Bench, name: str) -> None:
    ours, _peer = bench.pair()
    with (
        pytest.raises(LocalProtocolError) as caught,
        bench.binding.connect(ours, permissions=allow, handlers={name: nothing}, methods=bench.methods),
    ):
        pass
    assert caught.value.rule == "handlers.name"
    ours.close()


def test_a_handler_may_answer_with_an_error(bench: Bench) -> None:
    def refuse(request: RequestReceived) -> None:
        raise RequestError(-32002, "no such file", {"path": "/a"})

    _agent, _session, peer = bench.session(handlers={"fs_read_text_file": refuse})
    peer.send(peer.message("fs_read_text_file", {"sessionId": "s1", "path": "/a"}, 1))
    assert peer.read()["error"] == {"code": -32002, "message": "no such file", "data": {"path": "/a"}}


def test_what_a_handler_raises_stays_here(bench: Bench) -> None:
    def fail(request: RequestReceived) -> None:
        raise ValueError("a secret")

    _agent, _session, peer = bench.session(handlers={"fs_read_text_file": fail})
    peer.send(peer.message("fs_read_text_file", {"sessionId": "s1", "path": "/a"}, 1))
    error = peer.read()["error"]
    assert error["code"] == -32603
    assert "secret" not in str(error)
    failed = bench.wait_seen(HandlerFailed)[0]
    assert isinstance(failed, HandlerFailed)
    assert isinstance(failed.exception, ValueError)
    assert isinstance(failed.event, RequestReceived)


def test_what_a_handler_returns_must_be_json(bench: Bench) -> None:
    _agent, _session, peer = bench.session(handlers={"fs_read_text_file": lambda request: {"content": object()}})
    peer.send(peer.message("fs_read_text_file", {"sessionId": "s1", "path": "/a"}, 1))
    assert peer.read()["error"]["code"] == -32603
    bench.wait_seen(HandlerFailed)


def test_a_handler_may_call_back(bench: Bench) -> None:
    """User code that re-enters: a handler that asks the agent something itself."""
    box: list[object] = []

    def read(request: RequestReceived) -> Mapping[str, object]:
        return {"content": str(agent.request("_x/inner"))}

    agent, _session, peer = bench.session(handlers={"fs_read_text_file": read})
    box.append(agent)
    peer.send(peer.message("fs_read_text_file", {"sessionId": "s1", "path": "/a"}, 1))
    inner = peer.read()
    assert inner["method"] == "_x/inner"
    peer.result(inner, "the inner answer")
    assert peer.read()["result"] == {"content": "the inner answer"}


def test_a_handler_that_never_ends_holds_up_nobody(bench: Bench) -> None:
    forever = bench.event()
    entered = threading.Event()

    def stuck(request: RequestReceived) -> None:
        entered.set()
        forever.wait()

    agent, session, peer = bench.session(handlers={"fs_read_text_file": stuck})
    peer.send(peer.message("fs_read_text_file", {"sessionId": "s1", "path": "/a"}, 1))
    assert entered.wait(20)
    job = bench.spawn(lambda: session.prompt("hi").text())
    prompt = peer.prompted()
    peer.send(peer.chunk("hello"))
    peer.end(prompt)
    assert get(job) == "hello"
    agent.close()
    assert peer.read()["error"]["code"] == -32800


def test_an_exception_of_on_event_is_contained(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    def bad(event: object) -> None:
        raise RuntimeError("on_event failed")

    agent, _session, peer = bench.session(on_event=bad)
    peer.raw(b"noise\n")
    asked = bench.spawn(agent.request, "_x/ask")
    peer.result(peer.read(), {})
    assert get(asked) == {}
    agent.close()


# ── Permissions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_permission_callback(bench: Bench) -> None:
    asked: list[PermissionRequested] = []

    def ask(request: PermissionRequested) -> object:
        asked.append(request)
        return (request.options[1], "yes", None)[len(asked) - 1]

    _agent, _session, peer = bench.session(permissions=ask)
    outcomes = []
    for id in range(3):
        peer.send(peer.permission(id))
        outcomes.append(peer.read()["result"]["outcome"])
    assert outcomes == [
        {"outcome": "selected", "optionId": "no"},
        {"outcome": "selected", "optionId": "yes"},
        {"outcome": "cancelled"},
    ]
    assert asked[0].title == "edit"


def test_permission_policy(bench: Bench) -> None:
    _agent, _session, peer = bench.session(permissions=Policy({"edit": "allow", "run": "deny"}))
    peer.send(peer.permission(0))
    assert peer.read()["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}


def test_what_a_policy_wants_asked_is_denied(bench: Bench) -> None:
    _agent, _session, peer = bench.session(permissions=Policy())
    peer.send(peer.permission(0))
    assert peer.read()["result"]["outcome"] == {"outcome": "selected", "optionId": "no"}


def test_permissions_are_required(bench: Bench) -> None:
    ours, _peer = bench.pair()
    with pytest.raises(TypeError), bench.binding.connect(ours, permissions=None):
        pass
    ours.close()


def test_a_permission_callback_that_raises_allows_nothing(bench: Bench) -> None:
    def ask(request: PermissionRequested) -> str:
        raise ValueError("the screen is gone")

    _agent, _session, peer = bench.session(permissions=ask)
    peer.send(peer.permission(0))
    answer = peer.read()
    assert answer.get("result", {"outcome": {}})["outcome"].get("outcome") != "selected"
    bench.wait_seen(HandlerFailed)


def test_an_option_that_was_not_offered_is_not_sent(bench: Bench) -> None:
    _agent, _session, peer = bench.session(permissions=lambda request: "invented")
    peer.send(peer.permission(0))
    assert "invented" not in str(peer.read())
    bench.wait_seen(HandlerFailed)


@pytest.mark.parametrize("seconds", [3e6, 1e10, 1e15])
def test_a_deadline_in_the_far_future_is_no_fault(bench: Bench, seconds: float) -> None:
    agent, _session, peer = bench.session()
    agent.on_close(lambda: None, name="step", within=seconds)
    for number in range(2):
        asked = bench.spawn(agent.request, "_x/ask", {"number": number}, deadline=seconds)
        peer.result(peer.read(), {"number": number})
        assert get(asked) == {"number": number}
    agent.close()
    assert agent.closing.closed
