"""Properties of single connections: chunking, atomic intents, bounded memory, the same again from the same calls."""

from __future__ import annotations

import gc
import inspect
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_core import (
    AgentConnection,
    ClientConnection,
    Limits,
    LocalProtocolError,
    Policy,
)
from acp_core.testing import event_key
from acp_core.testing import strategies as wire
from tests.core import checks
from tests.core.checks import (
    NOW,
    feed,
    idle_client,
    line,
    new_agent,
    new_client,
    permission,
    prompted_agent,
    prompting_client,
    sent,
    update,
)
from tests.core.conversation import conversation
from tests.core.linked import EXTENSION, PERMISSION_OPTIONS, REAL, Kit, facts
from tests.spec.requirements import requirement

ROOT = Path(__file__).resolve().parent.parent.parent
# The same examples each time: a failure here is a defect, and no run should meet it by luck.
SETTINGS = settings(
    derandomize=True, database=None, deadline=None, max_examples=100, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("check", checks.CHECKS)
def test_the_core_keeps_a_rule(check: Callable[[Kit], None]) -> None:
    check(REAL)


# ── Any chunking ────────────────────────────────────────────────────────────────────────────────────────────────────


def object_line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def good_lines(prompt_id: int) -> st.SearchStrategy[bytes]:
    """Messages that a client with a turn in flight may get, without line ends."""

    def message(**members: object) -> bytes:
        return object_line({"jsonrpc": "2.0", **members})

    def session_update(value: object) -> bytes:
        return message(method="session/update", params={"sessionId": "s1", "update": value})

    def ask(rpc_id: object, params: object) -> bytes:
        return message(id=rpc_id, method="session/request_permission", params=params)

    return st.one_of(
        wire.updates().map(session_update),
        st.builds(ask, st.integers(0, 3), wire.permission_requests("s1")),
        st.sampled_from([1, "a", "é"]).map(lambda rpc_id: message(id=rpc_id, method="no/such/method")),
        st.just(message(id=prompt_id, result={"stopReason": "end_turn"})),
        st.just(message(id=prompt_id, error={"code": -32603, "message": "no"})),
        wire.texts(60).map(lambda text: message(method="_x", params={"long": text * 20})),
    )


# The id of the prompt of prompting_client.
PROMPT_ID = 3
LINES = st.lists(st.one_of(wire.odd_lines(), good_lines(PROMPT_ID)), max_size=12)


@SETTINGS
@given(st.data())
def test_any_chunking_gives_the_same_events(data: st.DataObject) -> None:
    lines = data.draw(LINES)
    ends = data.draw(st.lists(st.sampled_from([b"\n", b"\n", b"\r\n"]), min_size=len(lines), max_size=len(lines)))
    stream = b"".join(part for pair in zip(lines, ends, strict=True) for part in pair)
    stream += data.draw(st.sampled_from([b"", b"\r", b'{"half', update("s1")[:-1], b"\xc3"]))
    tail = data.draw(st.booleans())
    limits = Limits(max_line_bytes=1000, too_long_head_bytes=100, too_long_tail_bytes=60)

    def run(pieces: list[bytes]) -> tuple[list[str], bytes]:
        if tail:
            connection: Any = ClientConnection(nonce="n", limits=limits, tail=True)
        else:
            connection, _, given_id = prompting_client(REAL, limits=limits)
            assert given_id == PROMPT_ID
        found = [event_key(event, at=True) for piece in pieces for event in feed(connection, piece)]
        connection.receive_eof(NOW)
        found += [event_key(event, at=True) for event in connection.events()]
        return found, connection.data_to_send(NOW)

    whole = run([stream] if stream else [])
    assert run(data.draw(wire.chunkings(stream))) == whole


@SETTINGS
@given(st.lists(wire.odd_lines(), max_size=12), st.data())
def test_an_agent_reads_the_same_from_any_chunking(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(part + b"\n" for part in lines)

    def run(pieces: list[bytes]) -> tuple[list[str], bytes]:
        connection, _ = prompted_agent(REAL)
        found = [event_key(event, at=True) for piece in pieces for event in feed(connection, piece)]
        assert connection.state == "open"
        return found, connection.data_to_send(NOW)

    whole = run([stream] if stream else [])
    assert run(data.draw(wire.chunkings(stream))) == whole


@requirement(9)
@SETTINGS
@given(LINES)
def test_message_boundaries_change_nothing(lines: list[bytes]) -> None:
    stream, _, _ = prompting_client(REAL)
    kept, _, _ = prompting_client(REAL)
    found = feed(stream, b"".join(part + b"\n" for part in lines) or b"\n")
    again = []
    for part in lines:
        kept.receive_message(part, NOW)
        again += list(kept.events())
    assert [event_key(event) for event in again] == [event_key(event) for event in found]
    assert kept.data_to_send(NOW) == stream.data_to_send(NOW)


# ── An intent that raises has changed nothing ───────────────────────────────────────────────────────────────────────

Made = tuple[Any, Any]


def client_states() -> Iterator[tuple[str, Callable[[], Made]]]:
    """Clients in every state that matters: a name, and how to get there. The second of a pair is the session."""
    small = Limits(max_open_requests=3, max_sessions=3, max_output_bytes=3000, max_output_total_bytes=4000)

    def fresh() -> Made:
        return ClientConnection(nonce="n", limits=small), None

    def initializing() -> Made:
        connection, _ = fresh()
        connection.initialize()
        return connection, None

    def opening(resume: str | None = None) -> Made:
        connection = new_client(REAL, limits=small)
        session = connection.open_session("/work", resume=resume)
        return connection, session

    def waiting() -> Made:
        connection, session = opening()
        connection.prompt(session, "hi")
        return connection, session

    def replaying() -> Made:
        connection, session = opening("s1")
        (ask,) = sent(connection)
        feed(connection, line(id=ask["id"], result={}))
        return connection, session

    def idle() -> Made:
        connection, session = idle_client(REAL, limits=small)
        return connection, session

    def prompting() -> Made:
        connection, session, _ = prompting_client(REAL, limits=small)
        return connection, session

    def asking() -> Made:
        connection, session = prompting()
        feed(connection, permission(0, "s1"))
        return connection, session

    def cancelling() -> Made:
        connection, session = asking()
        connection.cancel_turn(session)
        return connection, session

    def fenced() -> Made:
        connection, session = cancelling()
        sent(connection)
        checks.wait(connection, NOW + 2)
        return connection, session

    def closing() -> Made:
        connection, session = prompting()
        connection.close_session(session)
        return connection, session

    def closed() -> Made:
        connection, session = closing()
        (ask,) = sent(connection)
        feed(connection, line(id=ask["id"], result={}))
        return connection, session

    def full() -> Made:
        connection, session = idle()
        while connection.open_requests < 3:
            connection.request("session/list")
        return connection, session

    def choked() -> Made:
        connection, session = asking()
        connection.notify("_x", {"pad": "x" * 2900})
        return connection, session

    def broken() -> Made:
        connection, session = asking()
        connection.send_failed("broken pipe", NOW)
        return connection, session

    def over() -> Made:
        connection, session = asking()
        connection.close()
        return connection, session

    yield from {
        "new": fresh,
        "initializing": initializing,
        "opening": opening,
        "waiting": waiting,
        "replaying": replaying,
        "idle": idle,
        "prompting": prompting,
        "asking": asking,
        "cancelling": cancelling,
        "fenced": fenced,
        "closing": closing,
        "closed": closed,
        "full": full,
        "choked": choked,
        "broken": broken,
        "over": over,
    }.items()


def agent_states() -> Iterator[tuple[str, Callable[[], Made]]]:
    small = Limits(max_open_requests=3, max_sessions=3, max_output_bytes=3000, max_output_total_bytes=4000)

    def fresh() -> Made:
        return AgentConnection(nonce="n", limits=small), None

    def setting_up() -> Made:
        connection = new_agent(REAL, limits=small)
        feed(connection, line(id=1, method="session/new", params={"cwd": "/work", "mcpServers": []}))
        params = {"cwd": "/work", "mcpServers": [], "sessionId": "s1"}
        feed(connection, line(id=2, method="session/load", params=params))
        return connection, connection.session("s1")

    def prompted() -> Made:
        connection, prompt = prompted_agent(REAL)
        return connection, prompt.session

    def cancelled() -> Made:
        connection, session = prompted()
        feed(connection, line(method="session/cancel", params={"sessionId": "s1"}))
        return connection, session

    def asked_to_close() -> Made:
        connection, session = prompted()
        feed(connection, line(id=9, method="session/close", params={"sessionId": "s1"}))
        return connection, session

    def closed() -> Made:
        connection, session = asked_to_close()
        connection.respond("n.3")
        return connection, session

    def over() -> Made:
        connection, session = prompted()
        connection.close()
        return connection, session

    yield from {
        "new": fresh,
        "setting up": setting_up,
        "prompted": prompted,
        "cancelled": cancelled,
        "asked to close": asked_to_close,
        "closed": closed,
        "over": over,
    }.items()


CLIENT_STATES = dict(client_states())
AGENT_STATES = dict(agent_states())
COMMON_INTENTS = ("request", "notify", "respond", "respond_error", "cancel_request", "send_failed", "abort")
CLIENT_INTENTS = (
    *COMMON_INTENTS,
    "initialize",
    "open_session",
    "attach",
    "prompt",
    "cancel_turn",
    "close_session",
    "set_mode",
    "set_config_option",
    "authenticate",
    "answer_permission",
    "snapshot",
)
AGENT_INTENTS = (*COMMON_INTENTS, "accept", "end_turn", "update", "update_text", "ask_permission")

# Stands for the session at hand, and for one of another connection.
HERE, ELSEWHERE = object(), object()


def cycle() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


def deep(depth: int) -> object:
    found: object = 1
    for _ in range(depth):
        found = [found]
    return found


JUNK: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    float("nan"),
    float("inf"),
    10**400,
    "",
    "x",
    "\ud800",
    "x" * 5000,
    b"bytes",
    [],
    [1],
    {},
    {"type": 1},
    {1: 2},
    {"a": float("nan")},
    {"a": {1, 2}},
    {"a": object()},
    {"a": cycle()},
    {"a": deep(400)},
    {"a": deep(100_000)},
    set(),
    object(),
    HERE,
    ELSEWHERE,
)
GOOD: dict[str, tuple[object, ...]] = {
    "session": (HERE, "s1", "nobody"),
    "session_id": ("s1", "s9", None),
    "cwd": ("/work",),
    "content": ("hi", [{"type": "text", "text": "x"}], [{"type": "image"}], [{"text": "x"}], [], "x" * 4000),
    "method": ("session/list", EXTENSION, "session/prompt", "fs/read_text_file", "no/such", "session/update"),
    "params": ({}, {"a": 1}, None),
    "request_id": ("n.1", "n.2", "n.3", "n.99", "other.1", "n.", "n.x"),
    "option": ("yes", "no", "maybe", None),
    "id": (0, 1, 2, 3, 4, 99, -1),
    "deadline": (None, 1.0, 0.0, -1.0, 3),
    "then": ("report", "close_session", "close", "never"),
    "code": (-32603, 2**31, -(2**31)),
    "message": ("no",),
    "reason": ("why",),
    "now": (NOW + 1,),
    "mode_id": ("ask", "code"),
    "config_id": ("model",),
    "value": ("large", True),
    "method_id": ("key", "other"),
    "prompt_id": (1, None, -1),
    "stop_reason": ("end_turn", "cancelled", "done"),
    "update": ({"sessionUpdate": "plan", "entries": []}, {"x": 1}, {}),
    "kind": ("message", "thought", "user", "shout"),
    "delta": ("x",),
    "tool_call": ({"toolCallId": "c"}, {}),
    "options": (PERMISSION_OPTIONS, [], [{"optionId": "a"}]),
    "result": ({}, {"stopReason": "end_turn"}, {"sessionId": "s5"}, {"stopReason": "never"}, None),
    "resume": (None, "s1", "s2", ""),
    "mcp_servers": ([], [{"name": "x"}], [{"type": "http"}], ["x"]),
    "additional_directories": ([], ["/a"], ["relative"], [1]),
    "config": (None, {"model": "large"}),
    "replay": ("discard", "report", "both"),
    "identity": (None, "me", "x" * 2000),
    "meta": (None, {"a": 1}),
}


@st.composite
def calls(draw: st.DrawFn, connection: Any, intents: tuple[str, ...]) -> tuple[str, list[object], dict[str, object]]:
    """An intent and its arguments, by the parameters that it really has: mostly fitting ones, one or two wrong."""
    name = draw(st.sampled_from(intents))
    parameters = [*inspect.signature(getattr(connection, name)).parameters.values()]
    wrong = draw(st.sets(st.integers(0, max(0, len(parameters) - 1)), max_size=2))
    args: list[object] = []
    kwargs: dict[str, object] = {}
    for index, parameter in enumerate(parameters):
        good = GOOD.get(parameter.name, (1.0,))
        value = draw(st.sampled_from(JUNK if index in wrong else good))
        if parameter.default is parameter.empty:
            if parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        elif index in wrong or draw(st.integers(0, 3)) == 0:
            kwargs[parameter.name] = value
    return name, args, kwargs


def call(made: Made, name: str, args: list[object], kwargs: dict[str, object]) -> bool:
    """Make a call. True when it raised; then nothing that can be seen has changed."""
    connection, session = made
    elsewhere = idle_client(REAL)[1]

    def real(value: object) -> object:
        return session if value is HERE else elsewhere if value is ELSEWHERE else value

    before = facts(connection)
    try:
        getattr(connection, name)(*map(real, args), **{key: real(value) for key, value in kwargs.items()})
    except (TypeError, LocalProtocolError):
        assert facts(connection) == before
        return True
    return False


def afterwards(made: Made) -> list[object]:
    """What a connection does from here on, when it is asked for a bit of everything."""
    connection, session = made
    found: list[object] = [event_key(event, at=True) for event in connection.events()]
    found.append(connection.data_to_send(NOW + 3))
    stream = permission(77, "s1") + update("s1") + line(id="more", method="no/such/method")
    for rpc_id in range(8):
        stream += line(id=rpc_id, result={"sessionId": f"n{rpc_id}", "stopReason": "end_turn", "protocolVersion": 1})
    for now, data in ((NOW + 3, stream), (NOW + 4, b"noise\n")):
        if connection.state != "over":
            found += [event_key(event, at=True) for event in feed(connection, data, now)]
        found.append(connection.data_to_send(now))
        found.append(connection.next_deadline())
    for seconds in (5, 20, 400):
        connection.handle_timeout(NOW + seconds)
        found += [event_key(event, at=True) for event in connection.events()]
        found.append(connection.data_to_send(NOW + seconds))
    found.append(session.state if session is not None else None)
    connection.close()
    found += [event_key(event, at=True) for event in connection.events()]
    found.append(connection.data_to_send(NOW + 500))
    return found


@pytest.mark.parametrize("state", CLIENT_STATES)
def test_a_client_intent_that_raises_changes_nothing(state: str) -> None:
    raising_changes_nothing(CLIENT_STATES[state], CLIENT_INTENTS)


@pytest.mark.parametrize("state", AGENT_STATES)
def test_an_agent_intent_that_raises_changes_nothing(state: str) -> None:
    raising_changes_nothing(AGENT_STATES[state], AGENT_INTENTS)


def raising_changes_nothing(make: Callable[[], Made], intents: tuple[str, ...]) -> None:
    """Of two equal connections one gets calls that raise: afterwards both do the same."""
    undisturbed = afterwards(make())
    raised = 0

    @settings(SETTINGS, max_examples=60)
    @given(st.lists(calls(make()[0], intents), min_size=1, max_size=6))
    def check(tries: list[tuple[str, list[object], dict[str, object]]]) -> None:
        nonlocal raised
        made = make()
        for name, args, kwargs in tries:
            if not call(made, name, args, kwargs):
                # It was legal; the next calls meet what it has made of the connection.
                break
            raised += 1
        else:
            assert afterwards(made) == undisturbed

    check()
    assert raised > 20


# ── Bounded memory ──────────────────────────────────────────────────────────────────────────────────────────────────

SMALL = Limits(
    max_tombstones=50,
    max_tool_calls=50,
    max_answered_kept=50,
    max_held_bytes=20_000,
    max_incoming_requests=50,
    max_sessions=50,
    max_open_requests=50,
)


def flood_lines(kind: str, number: int) -> bytes:
    match kind:
        case "noise":
            return b"noise %d\n" % number
        case "malformed":
            return b'{"jsonrpc":"2.0","id":%d,\n' % number
        case "unknown answers":
            return line(id=number + 1000, result={})
        case "foreign updates":
            return update(f"nobody-{number}")
        case "updates":
            return update("s1", f"text {number}")
        case "tool calls":
            body = {"sessionUpdate": "tool_call", "toolCallId": f"call-{number}", "title": f"title {number}"}
            return line(method="session/update", params={"sessionId": "s1", "update": body})
        case "refused requests":
            return line(id=number, method="no/such/method")
        case "repeated requests":
            return line(id=5, method=EXTENSION)
        case "abandoned requests":
            return line(id=5, method=EXTENSION, params={"number": number})
        case "too many requests":
            return line(id=number, method=EXTENSION)
        case "cancels of nothing":
            return line(method="$/cancel_request", params={"requestId": number + 1000})
        case "permissions by policy":
            return permission(number, "s1")
        case "unknown notifications":
            return line(method=f"_x/{number}", params={})
        case _:
            return b'{"jsonrpc":"2.0","method":"_x","params":{"pad":"' + b"x" * 3000 + b'"}}\n'


@pytest.mark.parametrize(
    "kind",
    [
        "noise",
        "malformed",
        "unknown answers",
        "foreign updates",
        "updates",
        "tool calls",
        "refused requests",
        "repeated requests",
        "abandoned requests",
        "too many requests",
        "cancels of nothing",
        "permissions by policy",
        "unknown notifications",
        "long lines",
    ],
)
def test_a_flood_of_the_agent_leaves_nothing_behind(kind: str) -> None:
    limits = Limits(**{**{name: getattr(SMALL, name) for name in SMALL.__slots__}, "max_line_bytes": 2000})
    connection, _ = idle_client(REAL, limits=limits, extensions=[EXTENSION], permissions=Policy({"default": "allow"}))

    def part(start: int) -> None:
        for number in range(start, start + 400):
            feed(connection, flood_lines(kind, number))
            connection.data_to_send(NOW)

    assert growth(part) < 30_000
    assert connection.unread_bytes == connection.output_bytes == 0
    assert connection.open_peer_requests <= 50


@pytest.mark.parametrize(
    "kind", ["opens refused", "loads refused", "prompts to nobody", "cancels", "noise", "turns", "questions given up"]
)
def test_a_flood_of_the_client_leaves_nothing_behind(kind: str) -> None:
    connection = new_agent(REAL, limits=SMALL)
    (new,) = feed(connection, line(id="s", method="session/new", params={"cwd": "/work", "mcpServers": []}))
    connection.accept(new.request_id, "s1")

    def part(start: int) -> None:
        for number in range(start, start + 400):
            now = NOW + number * 10
            prompt = {"prompt": [{"type": "text", "text": "hi"}]}
            match kind:
                case "opens refused":
                    data = line(id=number, method="session/new", params={"cwd": "/work", "mcpServers": []})
                case "loads refused":
                    params: dict[str, object] = {"cwd": "/work", "mcpServers": [], "sessionId": f"old-{number}"}
                    data = line(id=number, method="session/load", params=params)
                case "prompts to nobody":
                    data = line(id=number, method="session/prompt", params={"sessionId": f"no-{number}", **prompt})
                case "cancels":
                    data = line(method="session/cancel", params={"sessionId": f"no-{number}"})
                case "noise":
                    data = b"noise %d\n" % number
                case _:
                    data = line(id=number, method="session/prompt", params={"sessionId": "s1", **prompt})
            for event in feed(connection, data, now):
                if kind == "questions given up":
                    connection.ask_permission("s1", {"toolCallId": "c"}, PERMISSION_OPTIONS, deadline=1.0)
                    connection.data_to_send(now)
                    checks.wait(connection, now + 2)
                if kind in ("turns", "questions given up"):
                    connection.update_text("s1", "message", f"message {number}", delta="x")
                    connection.end_turn(event.request_id)
                elif type(event).__name__.endswith("SessionRequested"):
                    connection.respond_error(event.request_id, -32603, "no")
            connection.data_to_send(now)

    assert growth(part) < 30_000
    assert connection.open_requests == connection.open_peer_requests == connection.output_bytes == 0
    assert [session.session_id for session in connection.sessions] == ["s1"]


@pytest.mark.parametrize("kind", ["given up", "withdrawn", "answered", "notes", "turns", "sessions refused"])
def test_use_leaves_nothing_behind(kind: str) -> None:
    connection, session = idle_client(REAL, limits=SMALL, extensions=[EXTENSION])

    def part(start: int) -> None:
        for number in range(start, start + 400):
            now = NOW + number * 10
            match kind:
                case "given up":
                    connection.request(EXTENSION, deadline=1.0)
                    connection.data_to_send(now)
                    checks.wait(connection, now + 2)
                case "withdrawn":
                    connection.cancel_request(connection.request(EXTENSION, deadline=1.0))
                case "answered":
                    rpc_id = connection.request(EXTENSION, deadline=1.0)
                    connection.data_to_send(now)
                    feed(connection, line(id=rpc_id, result={}), now)
                case "notes":
                    connection.notify("_x", {"number": number})
                case "turns":
                    rpc_id = connection.prompt(session, "hi", deadline=1.0, identity=f"turn {number}")
                    connection.data_to_send(now)
                    feed(connection, update("s1") + line(id=rpc_id, result={"stopReason": "end_turn"}), now)
                case _:
                    opened = connection.open_session("/work") if number < 40 else None
                    for ask in sent(connection, now):
                        feed(connection, line(id=ask["id"], error={"code": -32603, "message": "no"}), now)
                    assert opened is None or opened.state == "closed"
            list(connection.events())
            connection.data_to_send(now)

    assert growth(part) < 30_000
    assert connection.open_requests == connection.output_bytes == 0


def growth(part: Callable[[int], None]) -> int:
    """Bytes that the second half of some work leaves behind, when the first one has filled what is bounded."""
    part(0)
    tracemalloc.start()
    try:
        part(400)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        part(800)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


# ── The same again ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_depends_on_the_interpreters_hash_seed() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-m", "tests.core.conversation"],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()
        for seed in ("0", "1", "4711")
    }
    assert found == {conversation()}
