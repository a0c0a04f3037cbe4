"""A small driver for tests of the core: one connection, a virtual clock, messages as dicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from acp_core import (
    AgentConnection,
    ClientConnection,
    CloseSessionRequested,
    Connection,
    Event,
    Limits,
    NewSessionRequested,
    ServedSession,
    Session,
    SessionReady,
)

Message: TypeAlias = dict[str, object]
EventT = TypeVar("EventT", bound=Event)
ConnectionT = TypeVar("ConnectionT", bound=Connection)

CWD = "/work"
FULL_AGENT: Message = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}
FULL_CLIENT: Message = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
}
STDIO: Message = {"name": "m", "command": "/bin/m", "args": [], "env": []}
OPTIONS: list[Message] = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def result(id: object, value: object) -> Message:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: object, code: int, message: str = "no", data: object = None) -> Message:
    body: Message = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": id, "error": body}


def request(id: object, method: str, params: object) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, params: object) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def update(session_id: str, kind: str, fields: Mapping[str, object] | None = None, /, **more: object) -> Message:
    return notification(
        "session/update", {"sessionId": session_id, "update": {"sessionUpdate": kind, **(fields or {}), **more}}
    )


def chunk(session_id: str, text: str, kind: str = "agent_message_chunk") -> Message:
    return update(session_id, kind, content={"type": "text", "text": text})


def permission(id: object, session_id: str, options: Iterable[Message] = OPTIONS, **tool_call: object) -> Message:
    call = {"toolCallId": "call", **tool_call}
    return request(
        id, "session/request_permission", {"sessionId": session_id, "toolCall": call, "options": list(options)}
    )


def as_line(message: Message | str | bytes) -> bytes:
    """One line of the wire: a dict becomes JSON, text and bytes go as they are."""
    if isinstance(message, bytes):
        return message + b"\n"
    text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


# ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def only(events: Iterable[Event], kind: type[EventT]) -> list[EventT]:
    """The events of one class, in order."""
    return [event for event in events if isinstance(event, kind)]


def one(events: Iterable[Event], kind: type[EventT]) -> EventT:
    """The only event of a class."""
    found = only(events, kind)
    assert len(found) == 1, f"{len(found)} {kind.__name__} instead of one"
    return found[0]


def names(events: Iterable[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


# ── Drivers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Driver(Generic[ConnectionT]):
    """Drives one connection by hand. ``now`` is in seconds; every event that was pulled is in ``log``."""

    def __init__(self, connection: ConnectionT, now: float = 100.0) -> None:
        self.conn = connection
        self.now = now
        self.log: list[Event] = []
        self.half_sent = b""

    def drain(self) -> list[Event]:
        found = list(self.conn.events())
        self.log += found
        return found

    def feed(self, *messages: Message | str | bytes) -> list[Event]:
        """Receive lines in one read, and give the events they lead to."""
        self.conn.receive_data(b"".join(map(as_line, messages)), self.now)
        return self.drain()

    def wait(self, seconds: float) -> list[Event]:
        """Time passes, and a read attempt has found nothing."""
        self.now += seconds
        self.conn.handle_timeout(self.now)
        return self.drain()

    def end(self) -> list[Event]:
        self.conn.receive_eof(self.now)
        return self.drain()

    def sent(self, max_bytes: int | None = None) -> list[Message]:
        """Take the output, and give the messages whose last byte has come: each is one valid line."""
        self.half_sent += self.conn.data_to_send(self.now, max_bytes)
        whole, end, self.half_sent = self.half_sent.rpartition(b"\n")
        return decode_output(whole + end)


def decode_output(data: bytes) -> list[Message]:
    assert data == b"" or data.endswith(b"\n")
    found = []
    for line in data.split(b"\n")[:-1]:
        assert b"\r" not in line
        message = json.loads(line.decode("utf-8"))
        assert isinstance(message, dict)
        assert message["jsonrpc"] == "2.0"
        found.append(message)
    return found


class ClientDriver(Driver[ClientConnection]):
    """A client with an agent played by the test."""

    def initialize(
        self, capabilities: Mapping[str, object] = FULL_AGENT, auth_methods: Iterable[Message] = ()
    ) -> ClientDriver:
        id = self.conn.initialize()
        self.sent()
        self.feed(
            result(
                id,
                {
                    "protocolVersion": 1,
                    "agentCapabilities": dict(capabilities),
                    "authMethods": list(auth_methods),
                },
            )
        )
        return self

    def open(self, session_id: str = "s1", setup: Mapping[str, object] | None = None) -> Session:
        """Open a new session."""
        session = self.conn.open_session(CWD)
        (message,) = self.sent()
        self.feed(result(message["id"], {"sessionId": session_id, **(setup or {})}))
        assert session.state == "idle"
        return session

    def load(self, session_id: str = "s1", **how: object) -> tuple[Session, object]:
        """Ask for a stored session by session/load or resume: the handle, and the id of the request."""
        session = self.conn.open_session(CWD, resume=session_id, **how)  # type: ignore[arg-type]  # passed through
        (message,) = self.sent()
        return session, message["id"]

    def prompt(self, session: Session, text: str = "hi") -> int:
        """Start a turn, and hand its bytes over."""
        id = self.conn.prompt(session, text)
        self.sent()
        self.drain()
        return id


def client(
    capabilities: Mapping[str, object] | None = FULL_CLIENT, *, nonce: str = "test", **how: object
) -> ClientDriver:
    """A client that has not said anything yet."""
    return ClientDriver(
        ClientConnection(nonce=nonce, capabilities=capabilities, **how)  # type: ignore[arg-type]  # passed through
    )


def idle_client(session_id: str = "s1", **how: object) -> tuple[ClientDriver, Session]:
    """A client with one open session."""
    driver = client(**how)  # type: ignore[arg-type]  # passed through
    driver.initialize()
    return driver, driver.open(session_id)


def prompting_client(session_id: str = "s1", **how: object) -> tuple[ClientDriver, Session, int]:
    """A client with a turn that is running: its driver, the session, and the prompt's id."""
    driver, session = idle_client(session_id, **how)
    return driver, session, driver.prompt(session)


def ready(events: Iterable[Event]) -> bool:
    return bool(only(events, SessionReady))


class AgentDriver(Driver[AgentConnection]):
    """An agent with a client played by the test."""

    def initialize(self, capabilities: Mapping[str, object] = FULL_CLIENT) -> AgentDriver:
        self.feed(request(0, "initialize", {"protocolVersion": 1, "clientCapabilities": dict(capabilities)}))
        self.sent()
        return self

    def open(
        self, session_id: str = "s1", rpc_id: object = 1, setup: Mapping[str, object] | None = None
    ) -> ServedSession:
        event = one(self.feed(request(rpc_id, "session/new", {"cwd": CWD, "mcpServers": []})), NewSessionRequested)
        session = self.conn.accept(event.request_id, session_id, setup)
        self.sent()
        return session

    def prompt(self, session_id: str = "s1", rpc_id: object = 2, text: str = "hi") -> str:
        """The client starts a turn: its public request id."""
        (event,) = self.feed(
            request(rpc_id, "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]})
        )
        return event.request_id  # type: ignore[attr-defined, no-any-return]  # a PromptRequested


def agent(capabilities: Mapping[str, object] | None = FULL_AGENT, *, nonce: str = "test", **how: object) -> AgentDriver:
    """An agent to which nothing was said yet."""
    return AgentDriver(
        AgentConnection(nonce=nonce, capabilities=capabilities, **how)  # type: ignore[arg-type]  # passed through
    )


# ── Connections in every state ──────────────────────────────────────────────────────────────────────────────────────


def _initializing() -> ClientDriver:
    driver = client()
    driver.conn.initialize()
    driver.sent()
    return driver


def _starting() -> ClientDriver:
    driver = client()
    driver.conn.prompt(driver.conn.open_session(CWD), "waits")
    return driver


def _authenticating() -> ClientDriver:
    driver = client().initialize(auth_methods=[{"id": "key", "name": "Key", "_meta": {"api-key": {}}}])
    driver.conn.open_session(CWD, auth="key")
    driver.sent()
    return driver


def _creating() -> ClientDriver:
    driver = client().initialize()
    driver.conn.prompt(driver.conn.open_session(CWD), "waits")
    driver.sent()
    driver.feed(chunk("s1", "early"), permission("early", "s1"))
    return driver


def _loading(can_resume: bool = False) -> ClientDriver:
    driver = client().initialize(FULL_AGENT if can_resume else {"loadSession": True})
    session, _ = driver.load()
    driver.conn.prompt(session, "waits")
    return driver


def _replaying() -> ClientDriver:
    driver = client().initialize({"loadSession": True})
    session, id = driver.load()
    driver.feed(chunk("s1", "old"), result(id, None))
    driver.conn.prompt(session, "waits")
    return driver


def _configuring() -> ClientDriver:
    driver = client().initialize()
    session = driver.conn.open_session(CWD, config={"effort": "high"})
    (message,) = driver.sent()
    options = [{"id": "effort", "name": "Effort", "type": "select", "currentValue": "low", "options": []}]
    driver.feed(result(message["id"], {"sessionId": "s1", "configOptions": options}))
    driver.conn.prompt(session, "waits")
    driver.sent()
    return driver


def _queued() -> ClientDriver:
    driver, session = idle_client()
    driver.conn.prompt(session, "not sent yet")
    return driver


def _half_sent() -> ClientDriver:
    driver = _queued()
    driver.sent(1)
    driver.drain()
    return driver


def _asked() -> ClientDriver:
    driver, _, _ = prompting_client()
    driver.feed(permission(0, "s1"), request(1, "fs/read_text_file", {"sessionId": "s1", "path": "/a"}))
    return driver


def _cancelling() -> ClientDriver:
    driver = _asked()
    driver.conn.cancel_turn("s1")
    driver.sent()
    driver.drain()
    return driver


def _fenced() -> ClientDriver:
    driver = _cancelling()
    driver.wait(10.0)
    return driver


def _closing() -> ClientDriver:
    driver = _asked()
    driver.conn.close_session("s1")
    driver.sent()
    return driver


def _session_closed() -> ClientDriver:
    driver = _asked()
    id = driver.conn.close_session("s1")
    driver.sent()
    driver.feed(result(id, {}))
    return driver


def _requests_open() -> ClientDriver:
    driver, _ = idle_client()
    driver.conn.request("session/list", token="sent", deadline=5.0)
    driver.sent()
    driver.conn.request("_extension", token="unsent")
    return driver


def _broken() -> ClientDriver:
    driver = _asked()
    driver.conn.request("_extension", token="unsent")
    driver.conn.send_failed("pipe", driver.now)
    return driver


def _ended() -> ClientDriver:
    driver = _asked()
    driver.conn.receive_data(as_line(chunk("s1", "unread")) + b'{"jsonrpc":', driver.now)
    driver.conn.receive_eof(driver.now)
    return driver


def _over() -> ClientDriver:
    driver = _asked()
    driver.conn.close()
    return driver


def _tables_full() -> ClientDriver:
    """No further request and no further session fits."""
    driver, _ = idle_client(limits=Limits(max_open_requests=1, max_sessions=1, max_incoming_requests=1))
    driver.conn.request("_x")
    driver.feed(permission(0, "s1"))
    return driver


def _output_full() -> ClientDriver:
    """No further byte of an intent fits; automatic answers do."""
    driver, _, _ = prompting_client(limits=Limits(max_output_bytes=1000))
    driver.feed(permission(0, "s1"))
    driver.conn.notify("_fill", {"x": ""})
    driver.conn.notify("_fill", {"x": "x" * (1000 - 2 * driver.conn.output_bytes)})
    assert driver.conn.output_bytes == 1000
    return driver


CLIENT_STATES: dict[str, Callable[[], ClientDriver]] = {
    "new": client,
    "initializing": _initializing,
    "starting": _starting,
    "authenticating": _authenticating,
    "creating": _creating,
    "loading": _loading,
    "resuming": lambda: _loading(can_resume=True),
    "replaying": _replaying,
    "configuring": _configuring,
    "idle": lambda: idle_client()[0],
    "requests open": _requests_open,
    "prompt queued": _queued,
    "prompt half sent": _half_sent,
    "prompting": lambda: prompting_client()[0],
    "asked": _asked,
    "cancelling": _cancelling,
    "fenced": _fenced,
    "closing": _closing,
    "session closed": _session_closed,
    "tables full": _tables_full,
    "output full": _output_full,
    "broken": _broken,
    "input ended": _ended,
    "over": _over,
}


def _agent_idle() -> AgentDriver:
    driver = agent().initialize()
    driver.open()
    return driver


def _agent_creating() -> AgentDriver:
    driver = agent().initialize()
    driver.feed(request(1, "session/new", {"cwd": CWD, "mcpServers": []}))
    return driver


def _agent_loading() -> AgentDriver:
    driver = agent().initialize()
    driver.feed(request(1, "session/load", {"sessionId": "s1", "cwd": CWD, "mcpServers": []}))
    return driver


def _agent_prompting() -> AgentDriver:
    driver = _agent_idle()
    driver.prompt()
    driver.conn.ask_permission("s1", {"toolCallId": "call"}, OPTIONS, deadline=5.0)
    driver.sent()
    driver.conn.update_text("s1", "message", delta="unsent")
    return driver


def _agent_cancelling() -> AgentDriver:
    driver = _agent_prompting()
    driver.feed(notification("session/cancel", {"sessionId": "s1"}))
    return driver


def _agent_closing() -> AgentDriver:
    driver = _agent_prompting()
    driver.feed(request(3, "session/close", {"sessionId": "s1"}))
    return driver


def _agent_session_closed() -> AgentDriver:
    driver = _agent_closing()
    (event,) = only(driver.log, CloseSessionRequested)
    driver.conn.respond(event.request_id)
    driver.drain()
    return driver


def _agent_broken() -> AgentDriver:
    driver = _agent_prompting()
    driver.conn.send_failed("pipe", driver.now)
    return driver


def _agent_over() -> AgentDriver:
    driver = _agent_prompting()
    driver.conn.close()
    return driver


def _agent_output_full() -> AgentDriver:
    driver = agent(limits=Limits(max_output_bytes=1000, max_open_requests=1)).initialize()
    driver.open()
    driver.prompt()
    driver.conn.request("_x")
    driver.sent()
    driver.conn.notify("_fill", {"x": ""})
    driver.conn.notify("_fill", {"x": "x" * (1000 - 2 * driver.conn.output_bytes)})
    assert driver.conn.output_bytes == 1000
    return driver


AGENT_STATES: dict[str, Callable[[], AgentDriver]] = {
    "new": agent,
    "open": lambda: agent().initialize(),
    "creating": _agent_creating,
    "loading": _agent_loading,
    "idle": _agent_idle,
    "prompting": _agent_prompting,
    "cancelling": _agent_cancelling,
    "closing": _agent_closing,
    "session closed": _agent_session_closed,
    "output full": _agent_output_full,
    "broken": _agent_broken,
    "over": _agent_over,
}
