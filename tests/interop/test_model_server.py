"""The fake model server by itself, the installation of the agents, and each real agent against the server."""

import http.client
import json
import os
import selectors
import signal
import socket
import stat
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop import agents, model_server
from tests.interop.agents import AGENTS, AgentSetup, age_sessions, install, missing, prepare
from tests.interop.model_server import CLOSING, GREETING, PREFACE, ModelServer

Json = dict[str, Any]

APIS = ("openai", "gemini")
SHELLS: dict[str, Json] = {
    "openai": {
        "name": "exec_command",
        "schema": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
    },
    "gemini": {
        "name": "run_shell_command",
        "schema": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "is_background": {"type": "boolean"}},
            "required": ["command", "is_background"],
        },
    },
}

# No proxy of the environment may come between the tests and the loopback interface.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def body(api: str, *turns: str | None, tools: tuple[Json, ...] | None = None) -> Json:
    """A request in one of the APIs: `turns` are texts of the user, or None for a tool call with its result."""
    offered = (SHELLS[api],) if tools is None else tools
    if api == "openai":
        items: list[Json] = []
        for turn in turns:
            if turn is None:
                items.append({"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}"})
                items.append({"type": "function_call_output", "call_id": "c", "output": "done"})
            else:
                items.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": turn}]})
        functions = [{"type": "function", "name": tool["name"], "parameters": tool["schema"]} for tool in offered]
        return {"model": "m", "input": items, "tools": [*functions, {"type": "web_search"}] if functions else []}
    contents: list[Json] = []
    for turn in turns:
        if turn is None:
            contents.append({"role": "model", "parts": [{"functionCall": {"name": "run_shell_command", "args": {}}}]})
            contents.append({"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command"}}]})
        else:
            contents.append({"role": "user", "parts": [{"text": turn}]})
    declared = [{"name": tool["name"], "parametersJsonSchema": tool["schema"]} for tool in offered]
    return {"contents": contents, "tools": [{"functionDeclarations": declared}] if declared else []}


def address(server: ModelServer, api: str, streamed: bool) -> str:
    if api == "openai":
        return f"{server.base_url}/v1/responses"
    return f"{server.base_url}/v1beta/models/m:" + ("streamGenerateContent?alt=sse" if streamed else "generateContent")


def post(url: str, value: object) -> tuple[int, bytes]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with direct.open(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def events(raw: bytes) -> Iterator[Json]:
    for block in raw.decode().split("\n\n"):
        for line in block.splitlines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def ask(
    server: ModelServer, api: str, *turns: str | None, streamed: bool = True, tools: tuple[Json, ...] | None = None
) -> tuple[str, list[tuple[str, Json]]]:
    """The text and the tool calls of the answer, from the pieces of a stream or from a whole answer."""
    request = body(api, *turns, tools=tools)
    if api == "openai":
        request["stream"] = streamed
    status, raw = post(address(server, api, streamed), request)
    assert status == 200, raw
    text, calls = "", []
    if api == "gemini":
        for chunk in events(raw) if streamed else [json.loads(raw)]:
            for part in chunk["candidates"][0]["content"]["parts"]:
                text += part.get("text", "")
                if "functionCall" in part:
                    calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
        return text, calls
    if streamed:
        seen = list(events(raw))
        assert [seen[0]["type"], seen[-1]["type"]] == ["response.created", "response.completed"]
        pieces = "".join(event["delta"] for event in seen if event["type"] == "response.output_text.delta")
        output = [event["item"] for event in seen if event["type"] == "response.output_item.done"]
        assert output == seen[-1]["response"]["output"]
    else:
        output = json.loads(raw)["output"]
        pieces = None
    for item in output:
        if item["type"] == "message":
            text += item["content"][0]["text"]
        else:
            calls.append((item["name"], json.loads(item["arguments"])))
    assert pieces in (None, text)
    return text, calls


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


# What it answers


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_without_a_directive_it_greets(server: ModelServer, api: str, streamed: bool) -> None:
    assert ask(server, api, "hello", streamed=streamed) == (GREETING, [])


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_say(server: ModelServer, api: str, streamed: bool) -> None:
    assert ask(server, api, "please [[say one  two\nthree]] now", streamed=streamed) == ("one  two\nthree", [])


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_shell_is_one_call_and_then_a_closing_text(server: ModelServer, api: str, streamed: bool) -> None:
    arguments = {"openai": {"cmd": "echo a | cat"}, "gemini": {"command": "echo a | cat", "is_background": False}}
    prompt = "[[shell echo a | cat]]"
    assert ask(server, api, prompt, streamed=streamed) == (PREFACE, [(SHELLS[api]["name"], arguments[api])])
    assert ask(server, api, prompt, None, streamed=streamed) == (CLOSING, [])


@pytest.mark.parametrize("api", APIS)
def test_directives_are_carried_out_one_after_the_other(server: ModelServer, api: str) -> None:
    prompt = "[[shell one]] and [[shell two]], then [[say three]]"
    key = "cmd" if api == "openai" else "command"
    assert [call[key] for _, call in ask(server, api, prompt)[1]] == ["one"]
    assert [call[key] for _, call in ask(server, api, prompt, None)[1]] == ["two"]
    assert ask(server, api, prompt, None, None) == ("three", [])
    assert ask(server, api, prompt, None, None, None) == (CLOSING, [])


@pytest.mark.parametrize("api", APIS)
def test_an_earlier_prompt_is_history(server: ModelServer, api: str) -> None:
    assert ask(server, api, "[[say old]]", None, "hello again") == (GREETING, [])
    assert ask(server, api, "[[shell old]]", None, "[[say new]]") == ("new", [])


@pytest.mark.parametrize("api", APIS)
def test_notes_of_the_agent_are_no_prompt(server: ModelServer, api: str) -> None:
    assert ask(server, api, "[[say yes]]", "<turn_note>\nall is <b>well</b>\n</turn_note>\n") == ("yes", [])


def test_a_call_takes_its_arguments_as_they_are(server: ModelServer) -> None:
    tools = ({"name": "write_file", "schema": {"type": "object"}},)
    prompt = 'do [[call write_file {"file_path": "/a b", "content": "]"}]]'
    expected = [("write_file", {"file_path": "/a b", "content": "]"})]
    assert ask(server, "gemini", prompt, tools=tools) == (PREFACE, expected)


def test_a_shell_that_wants_a_list_of_words(server: ModelServer) -> None:
    schema = {"type": "object", "properties": {"command": {"type": "array"}}, "required": ["command"]}
    assert ask(server, "openai", "[[shell ls -l]]", tools=({"name": "shell", "schema": schema},)) == (
        PREFACE,
        [("shell", {"command": ["bash", "-c", "ls -l"]})],
    )


@pytest.mark.parametrize("status", [400, 429, 500])
@pytest.mark.parametrize("api", APIS)
def test_status(server: ModelServer, api: str, status: int) -> None:
    code, raw = post(address(server, api, True), body(api, f"[[status {status}]]") | {"stream": True})
    assert (code, json.loads(raw)["error"]["code"]) == (status, status)


@pytest.mark.parametrize(
    ("prompt", "tools", "word"),
    [
        ("[[status 200]]", ({"name": "shell", "schema": {}},), "HTTP status"),
        ("[[shell ls]]", ({"name": "read_file", "schema": {}},), "read_file"),
        ("[[call write_file {}]]", ({"name": "read_file", "schema": {}},), "write_file"),
        ("[[call read_file {]]", ({"name": "read_file", "schema": {}},), "no JSON"),
    ],
)
def test_a_directive_that_cannot_be_done_is_told(
    server: ModelServer, prompt: str, tools: tuple[Json, ...], word: str
) -> None:
    code, raw = post(address(server, "openai", False), body("openai", prompt, tools=tools))
    assert code == 400
    assert word in json.loads(raw)["error"]["message"]


SCHEMA = {
    "type": "object",
    "properties": {
        "choice": {"type": "string", "enum": ["fast", "slow"]},
        "why": {"type": ["string", "null"]},
        "score": {"type": "INTEGER", "minimum": 3},
        "sure": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "list": {"type": "array", "items": {"const": 7}, "minItems": 2},
        "extra": {"type": "string"},
    },
    "required": ["choice", "why", "score", "sure", "list"],
}
FITTING = {"choice": "fast", "why": "text", "score": 3, "sure": False, "list": [7, 7]}


@pytest.mark.parametrize("prompt", ["[[shell ls]]", "[[slow]]", "[[status 400]]"])
@pytest.mark.parametrize("api", APIS)
def test_a_side_request_spends_no_directive(server: ModelServer, api: str, prompt: str) -> None:
    assert ask(server, api, prompt, tools=()) == (GREETING, [])
    extra: dict[str, Json] = {
        "openai": {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        "gemini": {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
    }
    status, raw = post(address(server, api, False), body(api, prompt) | extra[api])
    answer = json.loads(raw)
    if api == "openai":
        text = answer["output"][0]["content"][0]["text"]
    else:
        text = answer["candidates"][0]["content"]["parts"][0]["text"]
    assert (status, json.loads(text)) == (200, FITTING)


def test_it_tells_what_it_was_asked(server: ModelServer) -> None:
    ask(server, "gemini", "hello", tools=())
    ask(server, "openai", "<note>x</note>", "[[shell ls]]", None)
    assert [(a.api, a.streamed, a.prompt, a.results, sorted(a.tools)) for a in server.asks] == [
        ("gemini", True, "hello", 0, []),
        ("openai", True, "[[shell ls]]", 1, ["exec_command"]),
    ]


# How it behaves on the wire


def test_bad_requests(server: ModelServer) -> None:
    assert post(f"{server.base_url}/v1/responses", b"{")[0] == 400
    assert post(f"{server.base_url}/v1/responses", [1])[0] == 400
    assert post(f"{server.base_url}/v1/elsewhere", {})[0] == 404
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        direct.open(f"{server.base_url}/v1/models", timeout=10)
    caught.value.close()


def test_tokens_are_counted(server: ModelServer) -> None:
    assert post(f"{server.base_url}/v1beta/models/m:countTokens", {}) == (200, b'{"totalTokens": 7}')


def test_a_body_in_chunks_and_a_connection_used_twice(server: ModelServer) -> None:
    data = json.dumps(body("openai", "[[say chunks]]")).encode()
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=10)
    try:
        for _ in range(2):
            connection.request("POST", "/v1/responses", iter([data[:50], data[50:]]), encode_chunked=True)
            answer = json.loads(connection.getresponse().read())
            assert answer["output"][0]["content"][0]["text"] == "chunks"
    finally:
        connection.close()


def test_a_client_may_leave_at_any_time(server: ModelServer) -> None:
    host, port = server.base_url.removeprefix("http://").split(":")
    head = b"POST /v1/responses HTTP/1.1\r\n"
    for start in (
        b"POST",
        head,
        head + b"Content-Length: 9\r\n\r\n{",
        head + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{",
    ):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(start)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert server.wait_idle(5)
    assert ask(server, "openai", "hello") == (GREETING, [])


@pytest.mark.parametrize("api", APIS)
def test_slow_comes_to_an_end(api: str) -> None:
    with ModelServer(slow_step=0.001, slow_pieces=30) as server:
        text, calls = ask(server, api, "[[slow]]")
        assert (text.split()[-2:], text.count("piece"), calls) == (["piece", "29"], 30, [])


@contextmanager
def slow_answer(server: ModelServer, api: str) -> Iterator[http.client.HTTPConnection]:
    """A connection on which the first pieces of a slow answer have come."""
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=10)
    try:
        path = address(server, api, True).removeprefix(server.base_url)
        connection.request("POST", path, json.dumps(body(api, "[[slow]]") | {"stream": True}))
        response = connection.getresponse()
        received = b""
        while b"piece 2" not in received:
            received += response.read1(4096)
        yield connection
        response.close()
    finally:
        connection.close()


@pytest.mark.parametrize("api", APIS)
def test_slow_stops_when_the_client_leaves(server: ModelServer, api: str) -> None:
    with slow_answer(server, api):
        assert not server.wait_idle(0.01)
    began = time.monotonic()
    assert server.wait_idle(5)
    assert time.monotonic() - began < 1


def test_leaving_ends_all_connections_and_threads() -> None:
    before = set(threading.enumerate())
    with ModelServer() as server:
        host, port = server.base_url.removeprefix("http://").split(":")
        assert host == "127.0.0.1"
        silent = socket.create_connection((host, int(port)), timeout=10)
        with slow_answer(server, "openai"):
            began = time.monotonic()
            server.__exit__(None, None, None)
            assert time.monotonic() - began < 1
        assert set(threading.enumerate()) == before
        with silent:
            assert silent.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=10)
        server.__enter__()
    assert set(threading.enumerate()) == before


def test_a_fault_of_the_server_is_raised_on_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_server, "_decide", lambda ask, pieces: 1 // 0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"), ModelServer() as server:
        with pytest.raises(http.client.RemoteDisconnected):
            post(f"{server.base_url}/v1/responses", body("openai", "hello"))


# Installing


@pytest.fixture
def fake_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm that notes each call in a file and then runs the script written beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    npm = folder / "npm"
    npm.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n. {tmp_path}/script\n')
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "script").write_text("test -f package-lock.json && mkdir -p node_modules && echo ok > node_modules/x\n")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ACP_AGENTS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_install_once(fake_npm: Path) -> None:
    installed = install("gemini")
    assert installed == fake_npm / "cache" / f"gemini-{AGENTS['gemini'].version}"
    assert (installed / "node_modules" / "x").read_text() == "ok\n"
    assert install("gemini") == installed
    assert [line.split()[0] for line in (fake_npm / "calls").read_text().splitlines()] == ["ci"]
    assert list((fake_npm / "cache").iterdir()) == [installed]


def test_two_installations_at_once(fake_npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "INSTALL_SECONDS", 20.0)
    # Each waits for the other to have begun, so that both come to the renaming.
    (fake_npm / "script").write_text(
        f"mkdir node_modules\nuntil [ $(wc -l < {fake_npm}/calls) = 2 ]; do sleep 0.01; done\n"
    )
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(install, ["gemini"] * 2)
    assert first == second
    assert list((fake_npm / "cache").iterdir()) == [first]


def test_an_installation_that_fails_leaves_nothing(fake_npm: Path) -> None:
    (fake_npm / "script").write_text("mkdir node_modules\necho no such package >&2\nexit 3\n")
    with pytest.raises(RuntimeError, match=r"(?s)failed with 3.*no such package"):
        install("gemini")
    assert list((fake_npm / "cache").iterdir()) == []


def test_an_installation_that_hangs_is_ended(fake_npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "INSTALL_SECONDS", 0.2)
    (fake_npm / "script").write_text("sleep 60 &\nwait\n")
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="more than"):
        install("gemini")
    assert time.monotonic() - began < 10
    assert list((fake_npm / "cache").iterdir()) == []


def test_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing() == "node and npm not found"


def test_a_setup_keeps_the_callers_environment_out(fake_npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a real one")
    monkeypatch.setenv("HTTP_PROXY", "http://elsewhere")
    setup = prepare("gemini", fake_npm / "run", "http://base")
    assert setup.env["PATH"] == os.environ["PATH"]
    assert setup.env["GOOGLE_GEMINI_BASE_URL"] == "http://base"
    assert not {"OPENAI_API_KEY", "HTTP_PROXY"} & set(setup.env)
    home = Path(setup.env["HOME"])
    assert home.is_relative_to(fake_npm / "run") and (home / ".gemini/settings.json").is_file()
    assert setup.cwd.is_relative_to(fake_npm / "run") and not list(setup.cwd.iterdir())
    with pytest.raises(FileExistsError):
        prepare("gemini", fake_npm / "run", "http://base")


def test_aged_sessions_bear_no_recent_name(fake_npm: Path) -> None:
    setup = prepare("gemini", fake_npm, "http://base")
    age_sessions(setup)
    chats = Path(setup.env["HOME"]) / ".gemini/tmp/work/chats"
    chats.mkdir(parents=True)
    (chats / "session-2026-11-30T19-04-660e29f2.jsonl").write_text("kept")
    for _ in range(2):
        age_sessions(setup)
        assert [file.name for file in chats.iterdir()] == ["session-2000-01-01T00-00-660e29f2.jsonl"]
    assert (chats / "session-2000-01-01T00-00-660e29f2.jsonl").read_text() == "kept"


# The real agents

WAIT_SECONDS = 30.0


class RawAgent:
    """Drives one agent in raw JSON lines; every wait is bounded, and its process group is killed in the end."""

    def __init__(self, setup: AgentSetup, errors: Path) -> None:
        with errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                setup.command,
                cwd=setup.cwd,
                env=setup.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.buffer = bytearray()
        self.ids = 0
        self.session = ""

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(WAIT_SECONDS)
        self.stdin.close()
        self.stdout.close()

    def send(self, message: Json) -> None:
        self.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")

    def receive(self) -> Json:
        deadline = time.monotonic() + WAIT_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self.stdout, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                assert selector.select(max(0.0, deadline - time.monotonic())), "the agent says nothing"
                data = os.read(self.stdout.fileno(), 65536)
                assert data, "the agent has closed its output"
                self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    def request(self, method: str, params: Json) -> Iterator[Json]:
        """Each message up to the answer, which is the last one."""
        self.ids += 1
        self.send({"id": self.ids, "method": method, "params": params})
        while True:
            message = self.receive()
            yield message
            if message.get("id") == self.ids and "method" not in message:
                return

    def result(self, method: str, params: Json) -> Json:
        *_, answer = self.request(method, params)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def prompt(self, text: str, *, permission: str | None = None, cancel: bool = False) -> tuple[str, str, int]:
        """The stop reason, the text and the number of permission requests of one turn."""
        said, asked = "", 0
        prompt = [{"type": "text", "text": text}]
        for message in self.request("session/prompt", {"sessionId": self.session, "prompt": prompt}):
            if message.get("method") == "session/request_permission":
                asked += 1
                [option] = [o["optionId"] for o in message["params"]["options"] if o["kind"] == permission]
                self.send({"id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": option}}})
            elif message.get("method") == "session/update":
                update = message["params"]["update"]
                if update["sessionUpdate"] == "agent_message_chunk":
                    said += update["content"]["text"]
                    if cancel and "piece 1 " in said:
                        cancel = False
                        self.send({"method": "session/cancel", "params": {"sessionId": self.session}})
        assert "result" in message, message
        return message["result"]["stopReason"], said, asked


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_real_agent(name: str, server: ModelServer, tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(f"{reason}: no hello, shell or cancel was run with {name} {AGENTS[name].version}")
    setup = prepare(name, tmp_path, server.base_url)
    made = setup.cwd / "made.txt"
    agent = RawAgent(setup, tmp_path / "stderr.txt")
    try:
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        answer = agent.result("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        assert answer["protocolVersion"] == 1
        assert answer["agentInfo"]["version"] == AGENTS[name].version
        agent.session = agent.result("session/new", {"cwd": str(setup.cwd), "mcpServers": []})["sessionId"]

        assert agent.prompt("hello") == ("end_turn", GREETING, 0)

        assert agent.prompt(setup.shell_prompt, permission="allow_once") == ("end_turn", PREFACE + CLOSING, 1)
        assert made.read_text() == "made\n"
        made.unlink()

        # What a rejection does to the turn is the agent's own choice: codex-acp-zed ends it, gemini tells the model.
        stop, said, asked = agent.prompt(setup.shell_prompt, permission="reject_once")
        expected = {"codex-acp-zed": ("cancelled", PREFACE), "gemini": ("end_turn", PREFACE + CLOSING)}
        assert (stop, said, asked) == (*expected[name], 1)
        assert not made.exists()

        began = time.monotonic()
        stop, said, _ = agent.prompt("[[slow]]", cancel=True)
        assert stop == "cancelled" and said.startswith("piece 0 piece 1 ")
        assert server.wait_idle(5), "the agent still reads the cancelled answer"
        assert time.monotonic() - began < 20

        assert agent.prompt("[[say still here]]") == ("end_turn", "still here", 0)
    except BaseException:
        print((tmp_path / "stderr.txt").read_text("utf-8", "replace")[-3000:])
        raise
    finally:
        agent.close()
