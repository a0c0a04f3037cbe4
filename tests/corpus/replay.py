"""Play a recording to a real ClientConnection: its requests meet the recorded answers.

``compile_script`` goes through a recording once. It makes the recorded client's requests again through intents, and
puts the ids of this connection into the recorded answers. What comes of it is a list of steps that ``Player`` can run
again with the agent's bytes cut in any way. What the core refuses, since the recorded client broke a rule there on
purpose, is left out and counted; the agent's lines are fed all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple, TypeAlias

from acp_core import (
    V1,
    ClientConnection,
    Event,
    Gate,
    LocalProtocolError,
    Method,
    MethodTable,
    PermissionAnswered,
    RequestAbandoned,
    RequestReceived,
    Session,
)
from tests.corpus.recordings import Line, Recording, recordings

JsonObject: TypeAlias = dict[str, object]

# Beyond any deadline of a test: no recorded answer is too late.
LONG = 1e6
# What the recorded client tried out, and no method table knows.
EXTENSIONS = ("foo/bar", "foo/note", "session/fork")
# An id that this connection never gives: the recorded request behind it was left out.
NOT_ASKED = 1_000_000


class Call(NamedTuple):
    """An intent of the client at a time in seconds."""

    at: float
    name: str
    args: tuple[object, ...]
    options: JsonObject


class Feed(NamedTuple):
    """Bytes of the agent between two intents."""

    at: float
    data: bytes


Step: TypeAlias = Call | Feed


class Script(NamedTuple):
    """A recording made ready: ``played`` and ``left_out`` name the recorded requests by their ids as JSON text."""

    recording: Recording
    client: JsonObject
    prefers_load: bool
    steps: tuple[Step, ...]
    played: dict[str, str]
    left_out: dict[str, str]

    @property
    def agent_data(self) -> bytes:
        """All that the agent writes."""
        return b"".join(step.data for step in self.steps if isinstance(step, Feed))


def without_resume() -> MethodTable:
    """The method table of a client that can only load: the core would resume where an agent can do both."""
    rows = [
        Method(
            row.key, row.wire, row.handler, gate=Gate("bool", "never"), session=True, event=row.event, intent=row.intent
        )
        if row.key == "session_resume"
        else row
        for row in V1
    ]
    return MethodTable(V1.version, tuple(rows))


WITHOUT_RESUME = without_resume()


class Player:
    """Runs the steps of a script on a connection of its own."""

    def __init__(self, script: Script, replay: str = "report") -> None:
        self.conn = ClientConnection(
            nonce="corpus",
            extensions=EXTENSIONS,
            methods=WITHOUT_RESUME if script.prefers_load else V1,
            **script.client,  # type: ignore[arg-type]  # as recorded: capabilities and info
        )
        self.replay = replay
        self.now = 0.0
        self.events: list[Event] = []
        self.output: list[bytes] = []
        self.own_ids: list[int] = []
        self.handles: list[Session] = []

    def advance(self, at: float) -> None:
        """Let time pass up to ``at``, and every deadline with it."""
        self.now = max(self.now, at)
        while (due := self.conn.next_deadline()) is not None and due <= self.now and self.conn.state != "over":
            self.conn.handle_timeout(self.now)
            self.flush()

    def flush(self) -> None:
        self.events += self.conn.events()
        data = self.conn.data_to_send(self.now)
        if data:
            self.output.append(data)
            self.events += self.conn.events()

    def call(self, step: Call) -> object:
        self.advance(step.at)
        options = dict(step.options)
        if step.name == "open_session":
            options["replay"] = self.replay
        found: object = getattr(self.conn, step.name)(*step.args, **options)
        if isinstance(found, Session):
            self.handles.append(found)
        elif isinstance(found, int):
            self.own_ids.append(found)
        self.flush()
        return found

    def feed(self, at: float, parts: Iterable[bytes]) -> None:
        self.advance(at)
        for part in parts:
            self.conn.receive_data(part, self.now)
            self.events += self.conn.events()
        self.flush()

    def end(self) -> None:
        self.conn.receive_eof(self.now)
        self.flush()


class _Compiler:
    def __init__(self, recording: Recording) -> None:
        first = next((message for message in map(_client_message, recording.lines) if message), {})
        params = _object(first.get("params")) if first.get("method") == "initialize" else {}
        client: JsonObject = {}
        if "clientCapabilities" in params:
            client["capabilities"] = params["clientCapabilities"]
        if "clientInfo" in params:
            client["info"] = params["clientInfo"]
        prefers_load = any('"session/load"' in line.raw for line in recording.lines if not line.by_agent)
        self.recording = recording
        self.steps: list[Step] = []
        self.played: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        self.script = Script(recording, client, prefers_load, (), self.played, self.left_out)
        self.player = Player(self.script)
        # Recorded ids to ours, and the recorded ids of opens whose request has not been written yet.
        self.ids: dict[str, int] = {}
        self.unwritten: list[tuple[str, str]] = []
        # The agent's ids of requests that wait for an answer here, to our public ids.
        self.asked: dict[str, str] = {}
        self.seen_events = 0
        self.seen_output = 0

    def run(self) -> Script:
        burst: list[Line] = []
        for line in (*self.recording.lines, None):
            if line is not None and line.by_agent:
                burst.append(line)
                continue
            if burst:
                self.agent(burst)
                burst = []
            if line is not None:
                self.client(line)
        for rpc_id, method in self.unwritten:
            # The plan failed before this step: no handshake, or the agent cannot do it.
            del self.played[rpc_id]
            self.left_out[rpc_id] = f"{method}: never written"
        return self.script._replace(steps=tuple(self.steps))

    def agent(self, burst: list[Line]) -> None:
        data = b"".join(self.mapped(line.raw).encode() + b"\n" for line in burst)
        step = Feed(max(burst[-1].at, self.player.now), data)
        self.steps.append(step)
        self.player.feed(step.at, [data])
        self.look()

    def mapped(self, raw: str) -> str:
        """An answer with our id in the place of the recorded one; any other line as it is."""
        message = json.loads(raw)
        if "method" in message or message.get("id") is None:
            return raw
        message["id"] = self.ids.get(json.dumps(message["id"]), NOT_ASKED)
        return json.dumps(message, ensure_ascii=False, separators=(",", ":"))

    def client(self, line: Line) -> None:
        message = _client_message(line)
        if not message:
            return
        at = line.at
        if any(session.state == "replaying" for session in self.player.handles):
            # The recorded client did not wait for the end of the history.
            at = max(at, self.player.conn.next_deadline() or 0.0)
        if "method" not in message:
            self.answer(at, message)
            return
        rpc_id = json.dumps(message["id"]) if "id" in message else ""
        method = str(message["method"])
        found = self.make(self.intent(at, method, _object(message.get("params"))))
        if isinstance(found, str):
            self.left_out[rpc_id or f"{method} {len(self.left_out)}"] = f"{method}: {found}"
        elif rpc_id:
            self.played[rpc_id] = method
            if isinstance(found, int):
                self.ids[rpc_id] = found
            else:
                self.unwritten.append((rpc_id, method))
        self.look()

    def intent(self, at: float, method: str, params: JsonObject) -> Call:
        def call(name: str, *args: object, **options: object) -> Call:
            return Call(at, name, args, options)

        session_id = params.get("sessionId")
        if method == "initialize":
            return call("initialize", deadline=None)
        if method in ("session/new", "session/load", "session/resume"):
            options: JsonObject = {"mcp_servers": params.get("mcpServers", []), "step_deadline": LONG}
            if method != "session/new":
                options["resume"] = session_id
            return call("open_session", str(params.get("cwd", "")), **options)
        if method == "session/prompt":
            return call("prompt", session_id, params["prompt"])
        if method == "session/cancel":
            return call("cancel_turn", session_id, deadline=LONG)
        if method == "$/cancel_request":
            own = self.ids[json.dumps(params["requestId"])]
            for handle in self.player.handles:
                if handle.turn is not None and handle.turn.prompt_id == own:
                    # The same call for a prompt, with a deadline that no recorded answer misses.
                    return call("cancel_turn", handle.session_id, deadline=LONG)
            return call("cancel_request", own)
        if method == "session/close":
            return call("close_session", session_id, deadline=LONG)
        if method == "session/set_mode":
            return call("set_mode", session_id, params["modeId"])
        if method == "session/set_config_option":
            return call("set_config_option", session_id, params["configId"], params["value"])
        if method == "foo/note":
            return call("notify", method, params)
        return call("request", method, params)

    def answer(self, at: float, message: JsonObject) -> None:
        request_id = self.asked.get(json.dumps(message["id"]))
        if request_id is None:
            # Nobody asked, or the core has answered by itself.
            return
        failure = _object(message.get("error"))
        result = _object(message.get("result"))
        if failure:
            call = Call(at, "respond_error", (request_id, failure["code"], failure["message"]), {})
        elif "outcome" in result:
            call = Call(at, "answer_permission", (request_id, _object(result["outcome"]).get("optionId")), {})
        else:
            call = Call(at, "respond", (request_id, result), {})
        self.make(call)
        self.look()

    def make(self, call: Call) -> object:
        """Run an intent. What the core refuses comes back as the name of the rule."""
        try:
            found = self.player.call(call)
        except LocalProtocolError as why:
            return why.rule
        self.steps.append(call)
        return found

    def look(self) -> None:
        """Learn ids from what was written and what was raised."""
        for data in self.player.output[self.seen_output :]:
            for line in data.splitlines():
                message = json.loads(line)
                for index, (rpc_id, method) in enumerate(self.unwritten):
                    if message.get("method") == method:
                        self.ids[rpc_id] = message["id"]
                        del self.unwritten[index]
                        break
        self.seen_output = len(self.player.output)
        for event in self.player.events[self.seen_events :]:
            if isinstance(event, RequestReceived):
                self.asked[json.dumps(event.rpc_id)] = event.request_id
            elif isinstance(event, (PermissionAnswered, RequestAbandoned)):
                self.asked.pop(json.dumps(event.rpc_id), None)
        self.seen_events = len(self.player.events)


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _client_message(line: Line) -> JsonObject:
    """A message that the recorded client sent; empty for the lines by which it tried out its agent."""
    if line.by_agent:
        return {}
    try:
        message = json.loads(line.raw)
    except ValueError:
        return {}
    return message if isinstance(message, dict) and "jsonrpc" in message else {}


@cache
def compile_script(name: str) -> Script:
    """The steps of a recording, by its name ``agent/name``."""
    return _Compiler(recordings()[name]).run()


def play(script: Script, cut: int | None = None, sizes: Iterable[int] = (), replay: str = "report") -> Player:
    """Run a script. ``sizes`` cut the agent's bytes, the last one for ever; ``cut`` ends them after so many."""
    player = Player(script, replay)
    pieces = iter(sizes)
    size = next(pieces, 0)
    read = 0
    for step in script.steps:
        if isinstance(step, Call):
            player.call(step)
            continue
        data = step.data if cut is None else step.data[: cut - read]
        parts = []
        start = 0
        while size and start < len(data):
            parts.append(data[start : start + size])
            start += size
            size = next(pieces, size)
        player.feed(step.at, parts or ([data] if data else []))
        read += len(data)
        if cut is not None and read >= cut:
            break
    return player
