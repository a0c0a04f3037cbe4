"""A fake model on the loopback interface: real agents can run a turn against it without an account or a network.

It speaks the OpenAI responses API and the Gemini API, streamed or whole, and what it answers follows from the request
alone. The newest prompt of the user may hold directives, carried out one after the other; none can hold two closing
brackets in a row:

    [[say TEXT]]        answer TEXT; the turn is over
    [[shell COMMAND]]   call the agent's shell tool; once its result is back, go on with the next directive
    [[call TOOL JSON]]  the same with any tool, and with exactly these arguments
    [[slow]]            stream many small pieces slowly, until the client leaves or all are sent
    [[status CODE]]     answer with this HTTP status

After the last directive the answer is `CLOSING`, without any it is `GREETING`. A request that offers no tools or
demands JSON is a side request of the agent (a title, a routing decision): it gets a plain answer, whatever the prompt.
"""

import contextlib
import itertools
import json
import re
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["CLOSING", "GREETING", "PREFACE", "Ask", "ModelServer"]

Json = dict[str, Any]

GREETING = "Hello, what can I do for you?"
PREFACE = "I need a tool for that."
CLOSING = "That is all."

# The agents send their whole system prompt and tool list with each request: some 100 kB.
MAX_BODY = 16 * 1024 * 1024
# A connection on which nothing moves for this long is given up, so that no thread can stay for ever.
IDLE_SECONDS = 60.0

# Shell tools of the two agents, and of earlier versions of them.
SHELL_TOOLS = ("exec_command", "shell_command", "shell", "run_shell_command")

DIRECTIVE = re.compile(r"\[\[(say|shell|call|slow|status)(?:\s+(.*?))?\]\]", re.DOTALL)
# Agents add notes in a tag of their own to the conversation, in the user's name.
NOTE = re.compile(r"\s*<([A-Za-z_][\w-]*)[^>]*>.*</\1>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for, whichever API it came by."""

    api: str
    """`openai` or `gemini`."""
    model: str
    streamed: bool
    prompt: str
    """The text of the user's newest message, without the agent's notes in it."""
    results: int
    """How many tool results came after the prompt."""
    tools: Json = field(repr=False)
    """Name of each offered tool, with the JSON schema of its arguments."""
    schema: Json | None = field(repr=False)
    """What the answer has to fit, where JSON is demanded."""


@dataclass(frozen=True, slots=True)
class Reply:
    pieces: tuple[str, ...] = ()
    call: tuple[str, Json] | None = None
    slow: bool = False
    status: int = 200

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class BadRequest(Exception):
    """The request or a directive in it makes no sense; the text goes to the client with status 400."""


# Reading a request


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in _objects(content) if isinstance(part.get("text"), str)]


def _newest_prompt(items: list[list[str] | None]) -> tuple[str, int]:
    """The newest prompt and the number of tool results after it; items are messages, or None for a result."""
    results = 0
    for item in reversed(items):
        if item is None:
            results += 1
            continue
        own = [text for text in item if not NOTE.fullmatch(text)]
        # A message of nothing but notes is the agent's, not the user's; one without any text may be an image.
        if own or not item:
            return "\n".join(own), results
    return "", results


def _read_openai(body: Json, streamed: bool) -> Ask:
    items: list[list[str] | None] = []
    given = body.get("input")
    for entry in _objects([{"role": "user", "content": given}] if isinstance(given, str) else given):
        if entry.get("type", "message") == "message":
            if entry.get("role") == "user":
                items.append(_texts(entry.get("content")))
        elif str(entry["type"]).endswith("_output"):
            items.append(None)
    prompt, results = _newest_prompt(items)
    wanted = _object(_object(body.get("text")).get("format"))
    return Ask(
        api="openai",
        model=str(body.get("model", "fake-model")),
        streamed=streamed,
        prompt=prompt,
        results=results,
        tools={
            str(tool.get("name")): _object(tool.get("parameters"))
            for tool in _objects(body.get("tools"))
            if tool.get("type") == "function"
        },
        schema=_object(wanted.get("schema")) if wanted.get("type") == "json_schema" else None,
    )


def _read_gemini(body: Json, model: str, streamed: bool) -> Ask:
    items: list[list[str] | None] = []
    for content in _objects(body.get("contents")):
        if content.get("role") == "model":
            continue
        parts = _objects(content.get("parts"))
        results = [part for part in parts if "functionResponse" in part]
        items += [None] * len(results)
        if len(results) < len(parts):
            items.append(_texts(parts))
    prompt, count = _newest_prompt(items)
    config = _object(body.get("generationConfig"))
    schema = None
    if config.get("responseMimeType") == "application/json":
        schema = _object(config.get("responseJsonSchema") or config.get("responseSchema"))
    return Ask(
        api="gemini",
        model=model,
        streamed=streamed,
        prompt=prompt,
        results=count,
        tools={
            str(tool.get("name")): _object(tool.get("parametersJsonSchema") or tool.get("parameters"))
            for group in _objects(body.get("tools"))
            for tool in _objects(group.get("functionDeclarations"))
        },
        schema=schema,
    )


# Deciding on the answer


def _fitting(schema: object) -> object:
    """A small value that fits a JSON schema as far as the agents' own schemas go."""
    rules = _object(schema)
    if "const" in rules:
        return rules["const"]
    if rules.get("enum"):
        return rules["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if rules.get(choice):
            return _fitting(rules[choice][0])
    kind = rules.get("type", "object")
    # Gemini's own schema language spells the types in capitals.
    kind = str(kind[0] if isinstance(kind, list) and kind else kind).lower()
    if kind == "object":
        properties = _object(rules.get("properties"))
        return {name: _fitting(properties.get(name)) for name in rules.get("required", [])}
    if kind == "array":
        return [_fitting(rules.get("items"))] * int(rules.get("minItems", 0))
    if kind in ("integer", "number"):
        return rules.get("minimum", 1)
    return {"boolean": False, "null": None}.get(kind, "text")


def _shell_call(tools: Json, command: str) -> tuple[str, Json]:
    for name in SHELL_TOOLS:
        if name in tools:
            break
    else:
        raise BadRequest(f"none of the offered tools is a shell: {', '.join(sorted(tools))}")
    arguments = _object(_fitting(tools[name] | {"type": "object"}))
    properties = _object(tools[name].get("properties"))
    key = "cmd" if "cmd" in properties else "command"
    words = _object(properties.get(key)).get("type") == "array"
    arguments[key] = ["bash", "-c", command] if words else command
    return name, arguments


def _tool_call(tools: Json, operand: str) -> tuple[str, Json]:
    name, _, arguments = operand.partition(" ")
    if name not in tools:
        raise BadRequest(f"no tool {name!r} is offered, only {', '.join(sorted(tools))}")
    try:
        return name, _object(json.loads(arguments))
    except ValueError as error:
        raise BadRequest(f"the arguments of {name!r} are no JSON: {error}") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\s*\S+\s*", text)) or (text,)


def _decide(ask: Ask, slow_pieces: int) -> Reply:
    if ask.schema is not None:
        return Reply((json.dumps(_fitting(ask.schema)),))
    if not ask.tools:
        return Reply(_words(GREETING))
    directives = DIRECTIVE.findall(ask.prompt)
    if not directives:
        return Reply(_words(GREETING))
    if ask.results >= len(directives):
        return Reply(_words(CLOSING))
    # Each tool call brings one result, and only those are followed by another request in the same turn.
    name, operand = directives[ask.results]
    match name:
        case "say":
            return Reply(_words(operand))
        case "shell":
            return Reply(_words(PREFACE), call=_shell_call(ask.tools, operand))
        case "call":
            return Reply(_words(PREFACE), call=_tool_call(ask.tools, operand))
        case "slow":
            return Reply(tuple(f"piece {number} " for number in range(slow_pieces)), slow=True)
        case _:
            if not re.fullmatch("[45][0-9][0-9]", operand):
                raise BadRequest(f"{operand!r} is no HTTP status of an error")
            return Reply(status=int(operand))


# Writing the answer: as a whole, and as the events of a stream

Events = Iterator[Json]


def _openai_whole(ask: Ask, reply: Reply, number: int) -> Json:
    output: list[Json] = []
    if reply.pieces:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        output.append(
            {"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant", "content": content}
        )
    if reply.call:
        name, arguments = reply.call
        output.append(
            {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": f"call_{number}",
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
        )
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": ask.model,
        "output": output,
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 10,
        },
    }


def _openai_events(ask: Ask, reply: Reply, number: int) -> Events:
    whole = _openai_whole(ask, reply, number)
    yield {"type": "response.created", "response": whole | {"status": "in_progress", "output": [], "usage": None}}
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        begun: Json = {"content": []} if item["type"] == "message" else {"arguments": ""}
        added = item | {"status": "in_progress"} | begun
        yield {"type": "response.output_item.added", "output_index": index, "item": added}
        if item["type"] == "message":
            for piece in reply.pieces:
                yield {"type": "response.output_text.delta", "content_index": 0, "delta": piece} | place
            yield {"type": "response.output_text.done", "content_index": 0, "text": reply.text} | place
        else:
            yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"]} | place
            yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"]} | place
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


def _gemini_chunk(ask: Ask, parts: list[Json], number: int, *, last: bool) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    if last:
        candidate["finishReason"] = "STOP"
    return {
        "candidates": [candidate],
        "modelVersion": ask.model,
        "responseId": f"resp_{number}",
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10},
    }


def _gemini_call(reply: Reply) -> list[Json]:
    return [{"functionCall": {"name": reply.call[0], "args": reply.call[1]}}] if reply.call else []


def _gemini_whole(ask: Ask, reply: Reply, number: int) -> Json:
    return _gemini_chunk(ask, [{"text": reply.text}, *_gemini_call(reply)], number, last=True)


def _gemini_events(ask: Ask, reply: Reply, number: int) -> Events:
    for piece in reply.pieces:
        yield _gemini_chunk(ask, [{"text": piece}], number, last=False)
    yield _gemini_chunk(ask, _gemini_call(reply) or [{"text": ""}], number, last=True)


WRITERS: dict[str, tuple[Callable[[Ask, Reply, int], Json], Callable[[Ask, Reply, int], Events]]] = {
    "openai": (_openai_whole, _openai_events),
    "gemini": (_gemini_whole, _gemini_events),
}


# HTTP


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    # Small pieces have to leave at once: held back, each would wait for the acknowledgement of the one before.
    disable_nagle_algorithm = True
    server: "_HttpServer"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        # A model list is optional for both agents.
        self._send_error(404, f"nothing at {self.path}")

    def do_POST(self) -> None:
        owner = self.server.owner
        with owner._in_progress():
            try:
                self._answer(owner, self._read_body())
            except BadRequest as error:
                self._send_error(400, str(error))

    def _read_body(self) -> Json:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            data = bytearray()
            while size := self._chunk_size():
                if len(data) + size > MAX_BODY:
                    self.close_connection = True
                    raise BadRequest("the body is too long")
                data += self.rfile.read(size)
                self.rfile.readline(64)
            self.rfile.readline(64)
        else:
            size = int(self.headers.get("Content-Length", 0))
            if size > MAX_BODY:
                self.close_connection = True
                raise BadRequest("the body is too long")
            data = bytearray(self.rfile.read(size))
        try:
            body = json.loads(data)
        except ValueError:
            raise BadRequest("the body is no JSON") from None
        if not isinstance(body, dict):
            raise BadRequest("the body is no object")
        return body

    def _chunk_size(self) -> int:
        line = self.rfile.readline(64)
        if not line:
            raise ConnectionAbortedError("the client has left")
        return int(line.split(b";")[0], 16)

    def _answer(self, owner: "ModelServer", body: Json) -> None:
        path = self.path.partition("?")[0]
        gemini = re.search(r"/models/([^/:]+):(\w+)$", path)
        if path.endswith("/responses"):
            ask = _read_openai(body, streamed=body.get("stream") is True)
        elif gemini and gemini[2] in ("generateContent", "streamGenerateContent"):
            ask = _read_gemini(body, gemini[1], streamed=gemini[2] == "streamGenerateContent")
        elif gemini and gemini[2] == "countTokens":
            return self._send_json(200, {"totalTokens": 7})
        else:
            return self._send_error(404, f"nothing at {path}")
        owner.asks.append(ask)
        reply = _decide(ask, owner.slow_pieces)
        number = next(owner._numbers)
        whole, events = WRITERS[ask.api]
        if reply.status != 200:
            self._send_error(reply.status, "the prompt asked for this status")
        elif ask.streamed:
            self._stream(ask.api, events(ask, reply, number), owner.slow_step if reply.slow else 0.0)
        else:
            self._send_json(200, whole(ask, reply, number))

    def _stream(self, api: str, events: Events, step: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            head = f"event: {event['type']}\n" if api == "openai" else ""
            block = f"{head}data: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
            if step:
                self._pause(step)
        self.wfile.write(b"0\r\n\r\n")

    def _pause(self, seconds: float) -> None:
        """Wait, but not a moment longer than the client (or the server's own end) keeps the connection open."""
        self.connection.settimeout(seconds)
        try:
            self.connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return
        finally:
            self.connection.settimeout(self.timeout)
        # It has nothing to say before the answer is complete, so this is the end of its stream.
        raise ConnectionAbortedError("the client has left")

    def _send_json(self, status: int, value: Json) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_error(self, status: int, message: str) -> None:
        # Fits what both APIs say of an error.
        error = {"code": status, "message": message, "type": "fake_error", "status": "FAKE_ERROR"}
        self._send_json(status, {"error": error})


_Request = socket.socket | tuple[bytes, socket.socket]


class _HttpServer(ThreadingHTTPServer):
    # Threads that are no daemons are the ones server_close() waits for.
    daemon_threads = False
    request_queue_size = 64

    def __init__(self, owner: "ModelServer") -> None:
        self.owner = owner
        self.lock = threading.Lock()
        self.open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's own: it looks up the host's name, which can take seconds where no resolver answers.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: _Request, client_address: Any) -> None:
        assert isinstance(request, socket.socket)
        with self.lock:
            self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: _Request) -> None:
        assert isinstance(request, socket.socket)
        with self.lock:
            self.open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Wake each thread that waits for its client, by ending the connection under it."""
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: _Request, client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            self.owner.faults.append(repr(error))


class ModelServer:
    """Runs while its `with` block does; leaving it ends every connection and every thread.

    A fault of the server itself is raised on leaving, unless the block already ends with an exception.
    """

    def __init__(self, *, slow_step: float = 0.05, slow_pieces: int = 600) -> None:
        self.slow_step = slow_step
        self.slow_pieces = slow_pieces
        self.asks: list[Ask] = []
        """Each request so far, side requests included."""
        self.faults: list[str] = []
        self._numbers = itertools.count(1)
        self._busy = 0
        self._calm = threading.Condition()
        self._http: _HttpServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """Without a path: agents that expect one get it in their configuration."""
        assert self._http is not None, "the server runs inside its with block only"
        return f"http://127.0.0.1:{self._http.server_port}"

    def wait_idle(self, timeout: float = 5.0) -> bool:
        """Wait until no request is being answered; False when that takes longer than `timeout` seconds."""
        with self._calm:
            return self._calm.wait_for(lambda: self._busy == 0, timeout)

    @contextlib.contextmanager
    def _in_progress(self) -> Iterator[None]:
        with self._calm:
            self._busy += 1
        try:
            yield
        finally:
            with self._calm:
                self._busy -= 1
                self._calm.notify_all()

    def __enter__(self) -> Self:
        self._http = _HttpServer(self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, name="model-server"
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._http is not None and self._thread is not None
        # In this order: once nothing is accepted any more, the set of connections can only shrink.
        self._http.shutdown()
        self._http.end_connections()
        self._http.server_close()
        self._thread.join()
        self._http = self._thread = None
        if error is None and self.faults:
            raise RuntimeError(f"the model server failed: {'; '.join(self.faults)}")
