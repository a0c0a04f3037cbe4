"""A runtime host and a client played by a test, around the adapter between them. No IO, a virtual clock."""

from __future__ import annotations

from typing import TypeVar

from acp_core import host
from acp_core.host import Command, Diagnostic, HostAdapter, HostError, HostLimits, Root, Transcript
from tests.core.helpers import CWD, AgentDriver, Message, agent, notification, request

CommandT = TypeVar("CommandT", bound=Command)

TEXT: list[Message] = [{"type": "text", "text": "hi"}]
CAPABILITIES: Message = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}, "close": {}}}
# What the rig answers by itself; everything else waits for the test.
AUTOMATIC: tuple[type[Command], ...] = (
    host.Connect,
    host.CreateSession,
    host.OpenSubscription,
    host.ReadTranscript,
    host.CloseSubscription,
    host.OpenFile,
    host.ReadFile,
    host.Disconnect,
    host.ListSessions,
)


def link(path: str, **fields: object) -> Message:
    uri = path if ":" in path else f"file://{path}"
    return {"type": "resource_link", "name": "file", "uri": uri, **fields}


class Rig:
    """``held`` are the commands of a type that is not automatic, ``log`` all that were taken, in order."""

    def __init__(
        self, *, manual: tuple[type[Command], ...] = (), limits: HostLimits | None = None, **how: object
    ) -> None:
        self.client: AgentDriver = agent(CAPABILITIES, concurrent_prompts=True)
        self.client.initialize()
        self.adapter = HostAdapter(self.client.conn, limits=limits, **how)  # type: ignore[arg-type]  # passed through
        self.automatic = tuple(kind for kind in AUTOMATIC if kind not in manual)
        self.log: list[Command] = []
        self.held: list[Command] = []
        self.files: dict[str, bytes | HostError | host.FileFacts] = {}
        self.sessions = 0
        self.diagnostics: list[Diagnostic] = []
        self.seen: list[Message] = []
        self.next_rpc_id = 1
        self.transcript: Transcript | HostError = Transcript()

    @property
    def now(self) -> float:
        return self.client.now

    # ── The client ──────────────────────────────────────────────────────────────────────────────────────────────────

    def call(self, method: str, **params: object) -> int:
        id = self.next_rpc_id
        self.next_rpc_id += 1
        self.feed(request(id, method, params))
        return id

    def feed(self, *messages: Message) -> None:
        for event in self.client.feed(*messages):
            self.adapter.receive(event, self.now)
        self.pump()

    def session(self) -> str:
        self.call("session/new", cwd=CWD, mcpServers=[])
        return f"s{self.sessions}"

    def prompt(self, session_id: str = "s1", content: list[Message] | None = None) -> int:
        return self.call("session/prompt", sessionId=session_id, prompt=TEXT if content is None else content)

    def cancel(self, session_id: str = "s1") -> None:
        self.feed(notification("session/cancel", {"sessionId": session_id}))

    def close(self, session_id: str = "s1") -> int:
        return self.call("session/close", sessionId=session_id)

    def answers(self) -> dict[int, object]:
        """What each request was answered with, by id: a result, or code and data of an error."""
        self.seen += self.client.sent()
        found: dict[int, object] = {}
        for message in self.seen:
            id = message.get("id")
            if isinstance(id, int) and ("result" in message or "error" in message):
                error = message.get("error")
                assert id not in found, "answered twice"
                found[id] = message["result"] if not isinstance(error, dict) else (error["code"], error.get("data"))
        return found

    def answer(self, id: int) -> object:
        return self.answers().get(id)

    def reason(self, id: int) -> tuple[int, object]:
        """Code and ``reason`` of an error."""
        found = self.answer(id)
        assert isinstance(found, tuple), found
        return found[0], found[1].get("reason")

    def code(self, id: int) -> tuple[int, object]:
        """Code and ``code`` of an error's data."""
        found = self.answer(id)
        assert isinstance(found, tuple), found
        return found[0], found[1].get("code")

    def texts(self) -> list[tuple[str, object, str]]:
        self.answers()
        found = []
        for message in self.seen:
            params = message.get("params")
            if message.get("method") == "session/update" and isinstance(params, dict):
                update = params["update"]
                if "content" in update:
                    kind = update["sessionUpdate"].removesuffix("_chunk").removeprefix("agent_")
                    found.append((kind, update.get("messageId"), update["content"]["text"]))
        return found

    # ── The host ────────────────────────────────────────────────────────────────────────────────────────────────────

    def pump(self) -> None:
        """Take every command; answer the automatic ones. Events that the adapter's own calls led to come first."""
        for event in self.client.drain():
            self.adapter.receive(event, self.now)
        while (command := self.adapter.next_command()) is not None:
            self.log.append(command)
            if isinstance(command, self.automatic):
                self._automatic(command)
            elif not isinstance(command, host.CloseFile):
                self.held.append(command)
        self.diagnostics += self.adapter.diagnostics()

    def _automatic(self, command: Command) -> None:
        value: object = None
        if isinstance(command, host.CreateSession):
            self.sessions += 1
            value = f"s{self.sessions}"
        elif isinstance(command, host.OpenSubscription):
            value = f"subscription of {command.session_id}"
        elif isinstance(command, host.ReadTranscript):
            value = self.transcript
        elif isinstance(command, host.ListSessions):
            value = host.SessionPage([{"sessionId": "other", "cwd": CWD}])
        elif isinstance(command, host.OpenFile):
            value = self.files.get(command.path, HostError("not_found"))
            if isinstance(value, bytes):
                value = host.FileFacts(command.path, path=command.path, name="f", regular=True, size=len(value))
        elif isinstance(command, host.ReadFile):
            data = self.files[str(command.file)]
            assert isinstance(data, bytes)
            value = data[command.offset : command.offset + command.size]
        if isinstance(value, HostError):
            self.adapter.failed(command.id, value, self.now)
        else:
            self.adapter.succeeded(command.id, value, self.now)

    def taken(self, kind: type[CommandT]) -> list[CommandT]:
        return [command for command in self.log if isinstance(command, kind)]

    def waiting(self, kind: type[CommandT]) -> CommandT:
        """The one command of a kind that the test has to answer."""
        found = [command for command in self.held if isinstance(command, kind)]
        assert len(found) == 1, (kind.__name__, self.held)
        return found[0]

    def ok(self, kind: type[Command], value: object = None) -> None:
        command = self.waiting(kind)
        self.held.remove(command)
        self.adapter.succeeded(command.id, value, self.now)
        self.pump()

    def fail(self, kind: type[Command], code: str = "internal_failure", dispatch: str = "answered") -> None:
        command = self.waiting(kind)
        self.held.remove(command)
        self.adapter.failed(command.id, HostError(code, dispatch=dispatch), self.now)
        self.pump()

    def say(self, *events: host.HostEvent) -> None:
        for event in events:
            self.adapter.host_event(event, self.now)
        self.pump()

    def lose(self) -> None:
        """The connection to the host is gone."""
        self.held = [command for command in self.held if isinstance(command, host.OpenFile)]
        self.adapter.connection_lost("gone", self.now)
        self.pump()

    def wait(self, seconds: float) -> None:
        self.client.now += seconds
        self.adapter.handle_timeout(self.now)
        self.pump()

    def dispose(self) -> None:
        self.adapter.dispose(self.now)
        self.pump()

    # ── Shortcuts ───────────────────────────────────────────────────────────────────────────────────────────────────

    def turn_id(self) -> str:
        """The turn of the latest start."""
        return self.taken(host.StartTurn)[-1].turn_id

    def running(self, content: list[Message] | None = None) -> tuple[int, str]:
        """A session with a prompt whose turn runs: the prompt's JSON-RPC id, and the turn's id."""
        if not self.sessions:
            self.session()
        id = self.prompt(content=content)
        self.ok(host.StartTurn, host.Started("run"))
        return id, self.turn_id()

    def text(self, turn_id: str, text: str, message_id: str = "m", kind: str = "message") -> None:
        self.say(host.TextArrived("s1", turn_id, kind, message_id, delta=text))

    def whole(self, turn_id: str, text: str, message_id: str = "m", kind: str = "message") -> None:
        self.say(host.TextArrived("s1", turn_id, kind, message_id, snapshot=text))

    def finish(self, turn_id: str, status: str = "completed") -> None:
        self.say(host.TurnFinished("s1", turn_id, status))

    def root(self, turn_id: str = "other", run_id: str = "run", status: str = "running") -> None:
        self.say(host.RootShown("s1", Root(turn_id, run_id, status)))
