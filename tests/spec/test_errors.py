"""Errors of JSON-RPC and of the protocol: a class for each code, and a field and a reason in each that goes out."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path

import pytest

from acp_core import (
    AuthRequired,
    InternalError,
    InvalidParams,
    InvalidRequest,
    Limits,
    MethodNotFound,
    ParseError,
    RequestCancelled,
    RequestError,
    RequestReceived,
    RequestSettled,
    ResourceNotFound,
)
from acp_core.errors import handler_failed, not_served, request_cancelled, request_error
from acp_core.schema.validation import validate_type
from tests.core.helpers import (
    CWD,
    FULL_AGENT,
    AgentDriver,
    ClientDriver,
    Message,
    agent,
    error,
    idle_client,
    one,
    prompting_client,
    request,
)
from tests.spec.requirements import requirement

ROOT = Path(__file__).resolve().parents[2]
CLASSES: dict[int, type[RequestError]] = {
    -32700: ParseError,
    -32600: InvalidRequest,
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32603: InternalError,
    -32800: RequestCancelled,
    -32000: AuthRequired,
    -32002: ResourceNotFound,
}


# ── What the peer answers ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", [*CLASSES, -32001, 0, 1, -(2**31), 2**31 - 1])
def test_an_error_of_the_peer_is_of_the_class_of_its_code(code: int) -> None:
    driver, _ = idle_client()
    id = driver.conn.request("session/list")
    driver.sent()
    settled = one(driver.feed(error(id, code, "said", {"uri": "file:///a"})), RequestSettled)
    found = settled.error
    assert type(found) is CLASSES.get(code, RequestError)
    assert isinstance(found, RequestError)
    assert (found.code, found.message, found.data) == (code, "said", {"uri": "file:///a"})
    assert str(found) == f"said ({code})"
    assert found.auth_required == (code == -32000)
    assert found.cancelled == (code == -32800)


@pytest.mark.parametrize("kind", CLASSES.values())
def test_a_handler_raises_an_error_by_its_name(kind: type[RequestError]) -> None:
    code = {known: code for code, known in CLASSES.items()}[kind]
    found = request_error(code, "no", [1])
    assert type(found) is kind
    for again in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert type(again) is kind
        assert (again.code, again.message, again.data) == (code, "no", [1])
    plain = pickle.loads(pickle.dumps(RequestError(-5, "no")))
    assert type(plain) is RequestError
    assert (plain.code, plain.message, plain.data) == (-5, "no", None)


def test_errors_are_made_with_a_message_and_data() -> None:
    assert ResourceNotFound("no such file", {"uri": "file:///a"}).code == -32002
    assert AuthRequired("log in").data is None


# ── What goes out ───────────────────────────────────────────────────────────────────────────────────────────────────


def new_agent() -> AgentDriver:
    return agent()


def idle_agent(**how: object) -> AgentDriver:
    driver = agent(**how)  # type: ignore[arg-type]  # passed through
    driver.initialize()
    driver.open()
    return driver


def busy_agent() -> AgentDriver:
    driver = idle_agent()
    driver.prompt()
    return driver


def closing_agent() -> AgentDriver:
    driver = idle_agent()
    driver.feed(request(90, "session/close", {"sessionId": "s1"}))
    return driver


def full_agent() -> AgentDriver:
    driver = idle_agent(limits=Limits(max_incoming_requests=1, max_sessions=1))
    driver.feed(request(90, "session/list", {}))
    return driver


def busy_client() -> ClientDriver:
    return prompting_client()[0]


def short_agent() -> AgentDriver:
    return idle_agent(limits=Limits(max_line_bytes=2000))


SETUP: Message = {"cwd": CWD, "mcpServers": []}
REFUSALS: list[tuple[object, Message | str, int, str, str]] = [
    (new_agent, request(1, "session/new", SETUP), -32600, "method", "initialize.first"),
    (new_agent, request(1, "initialize", {}), -32602, "protocolVersion", "initialize.version"),
    (idle_agent, request(1, "initialize", {"protocolVersion": 1}), -32600, "method", "initialize.once"),
    (idle_agent, request(1, "no/such", {}), -32601, "method", "method.unknown"),
    (idle_agent, request(1, "_mine", {}), -32601, "method", "method.unknown"),
    (lambda: agent({}).initialize(), request(1, "session/list", {}), -32601, "method", "capability.missing"),
    (idle_agent, request(1, "authenticate", {"methodId": "k"}), -32601, "method", "capability.missing"),
    (
        lambda: agent(auth_methods=[{"id": "k", "name": "K"}]).initialize(),
        request(1, "authenticate", {"methodId": "x"}),
        -32602,
        "methodId",
        "auth.method",
    ),
    (idle_agent, request(1, "session/set_mode", {"sessionId": "s1"}), -32601, "method", "capability.missing"),
    (idle_agent, request(1, "session/new", {}), -32602, "cwd", "path.absolute"),
    (idle_agent, request(1, "session/list", {"cwd": "a"}), -32602, "cwd", "path.absolute"),
    (
        idle_agent,
        request(1, "session/new", {**SETUP, "additionalDirectories": ["a"]}),
        -32602,
        "additionalDirectories",
        "path.absolute",
    ),
    (
        lambda: agent({}).initialize(),
        request(1, "session/new", {**SETUP, "additionalDirectories": ["/a"]}),
        -32602,
        "additionalDirectories",
        "capability.missing",
    ),
    (idle_agent, request(1, "session/prompt", {"prompt": []}), -32602, "sessionId", "session.id"),
    (idle_agent, request(1, "session/prompt", {"sessionId": "no"}), -32002, "sessionId", "session.unknown"),
    (idle_agent, request(1, "session/prompt", {"sessionId": "s1"}), -32602, "prompt", "prompt.content"),
    (busy_agent, request(1, "session/prompt", {"sessionId": "s1"}), -32600, "sessionId", "turn.one_at_a_time"),
    (busy_agent, request(1, "session/load", {"sessionId": "s1", **SETUP}), -32600, "sessionId", "session.open"),
    (closing_agent, request(1, "session/prompt", {"sessionId": "s1"}), -32002, "sessionId", "session.ended"),
    (full_agent, request(1, "session/delete", {}), -32603, "request", "limits.max_incoming_requests"),
    (full_agent, request(1, "session/load", {"sessionId": "x", **SETUP}), -32603, "request", "limits.max_sessions"),
    (short_agent, request(1, "session/list", {"x": "x" * 3000}), -32600, "line", "limits.max_line_bytes"),
    (idle_agent, "{not json", -32700, "line", "json.syntax"),
    (idle_agent, '{"jsonrpc":"2.0","method":', -32700, "line", "json.syntax"),
    (idle_agent, "42", -32600, "line", "jsonrpc.object"),
    (idle_agent, '[{"jsonrpc":"2.0"}]', -32600, "line", "jsonrpc.batch"),
    (idle_agent, request(1, "m", [1]), -32602, "params", "jsonrpc.params"),
    (idle_agent, request(None, "m", {}), -32600, "id", "jsonrpc.id"),
    (idle_agent, {"jsonrpc": "2.0", "id": 1, "method": 7}, -32600, "method", "jsonrpc.method"),
    (busy_client, request(1, "no/such", {}), -32601, "method", "method.unknown"),
    (
        lambda: idle_client(capabilities=None)[0],
        request(1, "terminal/create", {"sessionId": "s1"}),
        -32601,
        "method",
        "capability.missing",
    ),
    (busy_client, request(1, "elicitation/create", {"mode": "x"}), -32602, "mode", "capability.missing"),
    (busy_client, request(1, "fs/read_text_file", {"sessionId": "no"}), -32002, "sessionId", "session.unknown"),
    (busy_client, request(1, "m", "text"), -32602, "params", "jsonrpc.params"),
]


@pytest.mark.parametrize(
    ("start", "message", "code", "field", "reason"), REFUSALS, ids=[f"{row[4]}-{i}" for i, row in enumerate(REFUSALS)]
)
def test_every_error_that_goes_out_names_the_field_and_the_reason(
    start: object, message: Message | str, code: int, field: str, reason: str
) -> None:
    assert callable(start)
    driver = start()
    assert isinstance(driver, (AgentDriver, ClientDriver))
    driver.sent()
    driver.feed(message)
    (answer,) = driver.sent()
    found = answer["error"]
    assert isinstance(found, dict)
    validate_type("Error", found)
    assert found["code"] == code
    assert (found["data"]["field"], found["data"]["reason"]) == (field, reason)
    assert found["message"] and len(found["message"]) < 300
    assert answer["id"] == (message.get("id") if isinstance(message, dict) else None)


@requirement(74)
def test_what_closing_aborts_is_cancelled_with_a_reason() -> None:
    driver = idle_agent()
    driver.feed(request(7, "session/list", {}))
    driver.conn.close()
    (answer,) = driver.sent()
    assert answer == error(7, -32800, "the connection is closing", {"field": "request", "reason": "connection.closing"})


@pytest.mark.parametrize("made", [handler_failed(), not_served("x/y"), request_cancelled()])
def test_the_errors_of_bindings_name_theirs_too(made: RequestError) -> None:
    driver = idle_agent(capabilities=FULL_AGENT)
    event = one(driver.feed(request(7, "session/list", {})), RequestReceived)
    driver.conn.respond_error(event.request_id, made.code, made.message, made.data)
    (answer,) = driver.sent()
    found = answer["error"]
    assert isinstance(found, dict)
    assert found["data"].keys() == {"field", "reason"}


def calls(path: Path, name: str) -> list[str]:
    """The functions of a module in which something of this name is called."""
    found: list[str] = []
    for function in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
            found += [function.name for func in inside if ast.unparse(func).rpartition(".")[2] == name]
    return found


def test_there_is_one_way_out_for_errors() -> None:
    """The core's own, which have a field and a reason, and those of the owner; nothing else writes one."""
    for path in (ROOT / "acp_core").glob("*.py"):
        expected = ["_answer_error", "_respond_error"] if path.stem == "connection" else []
        assert calls(path, "error_line") == expected, path.name
    # A RequestError without data is made for the own side only: it says how an own request ended.
    for package in ("acp_anyio", "acp_sync"):
        for path in (ROOT / package).glob("*.py"):
            assert calls(path, "RequestError") == [], path.name
