"""The method table, as data: name, direction, kind, gate and session scope of every method, per protocol version.

The rest of the library names methods by ``key``; the name on the wire stands only here, so a table with other names
works unchanged.
"""

from __future__ import annotations

from .errors import check_type, clip, is_absolute
from .events import STOP_REASONS
from .shapes import (
    AGENT_CAPABILITIES,
    AUTH_METHOD,
    BOOL,
    CLIENT_CAPABILITIES,
    CONFIG_OPTION,
    CONTENT,
    ELICITATION,
    ELICITATION_RESULT,
    EXIT_STATUS,
    INFO,
    LINE,
    NOTHING,
    OPENED,
    PAIR,
    PATH,
    PERMISSION_RESULT,
    SESSION_INFO,
    SETUP,
    STR,
    TERMINAL,
    U16,
    U32,
    U64,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .shapes import Shape

REQUEST_KIND = "request"
NOTIFICATION_KIND = "notification"
AGENT = "agent"
CLIENT = "client"
BOTH = "both"


class Gate:
    """A capability that a method needs.

    ``path`` leads to it in the capabilities of the side that handles the method. ``marker`` is ``"bool"`` (true means
    yes) or ``"object"`` (an object means yes, `{}` too; null and false do not).
    """

    __slots__ = ("marker", "path")

    def __init__(self, marker: str, *path: str) -> None:
        self.marker = marker
        self.path = path

    def __str__(self) -> str:
        return ".".join(self.path)

    def open(self, capabilities: Mapping[str, object]) -> bool:
        """Whether the capabilities advertise it."""
        value: object = capabilities
        for name in self.path:
            if not isinstance(value, dict):
                return False
            value = value.get(name)
        return value is True if self.marker == "bool" else isinstance(value, dict)


class Method:
    """One row of the table.

    key: the library's name. wire: the name on the wire. handler: the side that handles it (agent, client or both).
    kind: request or notification, or both. gate: the capability it needs, or None. advertiser: the side that advertises
    it. presence: the member that the result of opening a session must have. session: its params name a session.
    event: the class of the event it becomes, or "" when the core uses it up. intent: the call that sends it, when
    ``request`` and ``notify`` must not. cancel: the key of the notification that cancels it. paths, lines: the members
    of its params that are absolute paths, and line numbers from 1. params, result: what it looks like where this side
    sends it (``acp_core.shapes``), beside the id of its session; None is not looked at. stable: part of the stable
    protocol.
    """

    __slots__ = (
        "advertiser",
        "cancel",
        "event",
        "gate",
        "handler",
        "intent",
        "key",
        "kind",
        "lines",
        "params",
        "paths",
        "presence",
        "result",
        "session",
        "stable",
        "wire",
    )

    def __init__(
        self,
        key: str,
        wire: str,
        handler: str,
        kind: str = REQUEST_KIND,
        *,
        gate: Gate | None = None,
        advertiser: str = "",
        presence: str = "",
        session: bool = False,
        event: str = "",
        intent: str = "",
        cancel: str = "cancel_request",
        paths: tuple[str, ...] = (),
        lines: tuple[str, ...] = (),
        params: Shape | None = None,
        result: Shape | None = None,
        stable: bool = True,
    ) -> None:
        self.key = key
        self.wire = wire
        self.handler = handler
        self.kind = kind
        self.gate = gate
        self.advertiser = advertiser or handler
        self.presence = presence
        self.session = session
        self.event = event
        self.intent = intent
        self.cancel = cancel
        self.paths = paths
        self.lines = lines
        self.params = params
        self.result = result
        self.stable = stable

    def renamed(self, wire: str) -> Method:
        """The same row under another name on the wire."""
        return self._with(wire=wire)

    def shaped(self, params: Shape) -> Method:
        """The same row whose params look otherwise."""
        return self._with(params=params)

    def _with(self, **changes: object) -> Method:
        other = Method.__new__(Method)
        for name in Method.__slots__:
            setattr(other, name, changes.get(name, getattr(self, name)))
        return other

    def is_a(self, kind: str) -> bool:
        """Whether it may come as a request, or as a notification."""
        return self.kind in (kind, BOTH)

    def __repr__(self) -> str:
        return f"Method({self.key!r}, {self.wire!r})"


def wrong_place(row: Method, params: Mapping[str, object]) -> tuple[str, str, str] | None:
    """The first path or line number of ``params`` that cannot be one: its field, the rule and why (spec rule 12).

    Absent and null are no path.
    """
    for name in row.paths:
        path = params.get(name)
        if path is not None and not (isinstance(path, str) and is_absolute(path)):
            return name, "path.absolute", f"{name} is {clip(path)}; paths of the protocol are absolute"
    for name in row.lines:
        line = params.get(name)
        if line is not None and not is_line(line):
            return name, "line.from_1", f"{name} is {clip(line)}; lines count from 1"
    return None


def is_line(value: object) -> bool:
    """Whether a value is a line number: an integer from 1 up."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class MethodTable:
    """The methods of one protocol version, by key and by wire name.

    Raises:
        TypeError: a wire name is no str.
        ValueError: a key or a wire name stands twice, or a wire name is empty.
    """

    __slots__ = ("_by_key", "_by_wire", "_served", "version")

    def __init__(self, version: int, rows: tuple[Method, ...]) -> None:
        for row in rows:
            check_type(f"the wire name of {row.key or 'a method'}", row.wire, str, "a str")
            if not row.wire:
                raise ValueError(f"the wire name of {row.key} is empty")
        self.version = version
        self._by_key = {row.key: row for row in rows}
        self._by_wire = {row.wire: row for row in rows}
        self._served = {
            role: {row.wire: row for row in rows if row.is_a(REQUEST_KIND) and row.handler in (role, BOTH)}
            for role in (CLIENT, AGENT)
        }
        if len(self._by_key) != len(rows) or len(self._by_wire) != len(rows):
            raise ValueError("a method table has a key or a wire name twice")

    def __getitem__(self, key: str) -> Method:
        return self._by_key[key]

    def __iter__(self) -> Iterator[Method]:
        return iter(self._by_key.values())

    def get(self, key: str) -> Method | None:
        """The row of ``key``, or None."""
        return self._by_key.get(key)

    def wire(self, key: str) -> str:
        """The wire name of ``key``. KeyError when there is no such row."""
        return self._by_key[key].wire

    def find(self, wire: str) -> Method | None:
        """The row of a wire name, or None."""
        return self._by_wire.get(wire)

    def served(self, role: str) -> Mapping[str, Method]:
        """The rows of the requests that a role handles, by wire name."""
        return self._served[role]

    def advertised(self, keys: Iterable[str]) -> dict[str, object]:
        """The capabilities of a side that serves the methods of ``keys``: what their gates demand."""
        capabilities: dict[str, object] = {}
        wanted = {*keys}
        for row in self:
            if row.key not in wanted or row.gate is None or row.advertiser != row.handler:
                continue
            level = capabilities
            for name in row.gate.path[:-1]:
                inner = level.setdefault(name, {})
                assert isinstance(inner, dict)
                level = inner
            level.setdefault(row.gate.path[-1], True if row.gate.marker == "bool" else {})
        return capabilities

    def renamed(self, names: Mapping[str, str]) -> MethodTable:
        """A copy in which the rows of ``names`` (key to wire name) have other wire names.

        Raises:
            TypeError: ``names`` is no mapping of str to str.
            ValueError: there is no such key, or two rows would have one wire name.
        """
        if not hasattr(names, "keys"):
            raise TypeError(f"names must be a mapping of keys to wire names, not {type(names).__name__}")
        unknown = set(names) - set(self._by_key)
        if unknown:
            wrong = clip(sorted(map(str, unknown)))
            raise ValueError(f"no such method key: {wrong}; the keys are {clip(sorted(self._by_key))}")
        return MethodTable(
            self.version, tuple(row.renamed(names[row.key]) if row.key in names else row for row in self)
        )


# What an agent may offer and say only to a client that advertises it.
TERMINAL_LOGINS = Gate("bool", "auth", "terminal")
BOOLEAN_OPTIONS = Gate("object", "session", "configOptions", "boolean")
UPDATE_GATES = {
    "plan_update": Gate("object", "plan"),
    "plan_removed": Gate("object", "plan"),
    "compaction_update": Gate("object", "session", "compaction"),
    "compaction_summary_chunk": Gate("object", "session", "compaction"),
}


V1 = MethodTable(
    1,
    (
        # handled by the agent
        Method(
            "initialize",
            "initialize",
            AGENT,
            intent="initialize",
            params={"protocolVersion": U16, "clientInfo~": INFO, "clientCapabilities?": CLIENT_CAPABILITIES},
            result={
                "protocolVersion": U16,
                "agentInfo~": INFO,
                "agentCapabilities?": AGENT_CAPABILITIES,
                "authMethods?": [AUTH_METHOD],
            },
        ),
        Method(
            "authenticate",
            "authenticate",
            AGENT,
            event="AuthenticateRequested",
            params={"methodId": STR},
            result=NOTHING,
        ),
        Method(
            "logout",
            "logout",
            AGENT,
            gate=Gate("object", "auth", "logout"),
            event="LogoutRequested",
            params=NOTHING,
            result=NOTHING,
        ),
        Method(
            "session_new",
            "session/new",
            AGENT,
            event="NewSessionRequested",
            intent="open_session",
            params=SETUP,
            result={**OPENED, "sessionId": STR},
        ),
        Method(
            "session_load",
            "session/load",
            AGENT,
            gate=Gate("bool", "loadSession"),
            session=True,
            event="LoadSessionRequested",
            intent="open_session",
            params=SETUP,
            result=OPENED,
        ),
        Method(
            "session_resume",
            "session/resume",
            AGENT,
            gate=Gate("object", "sessionCapabilities", "resume"),
            session=True,
            event="ResumeSessionRequested",
            intent="open_session",
            params=SETUP,
            result=OPENED,
        ),
        Method(
            "session_list",
            "session/list",
            AGENT,
            gate=Gate("object", "sessionCapabilities", "list"),
            event="ListSessionsRequested",
            paths=("cwd",),
            params={"cwd~": PATH, "cursor~": STR},
            result={"sessions": [SESSION_INFO], "nextCursor~": STR},
        ),
        Method(
            "session_close",
            "session/close",
            AGENT,
            gate=Gate("object", "sessionCapabilities", "close"),
            session=True,
            event="CloseSessionRequested",
            intent="close_session",
            result=NOTHING,
        ),
        Method(
            "session_delete",
            "session/delete",
            AGENT,
            gate=Gate("object", "sessionCapabilities", "delete"),
            event="DeleteSessionRequested",
            params={"sessionId": STR},
            result=NOTHING,
        ),
        Method(
            "session_set_mode",
            "session/set_mode",
            AGENT,
            presence="modes",
            session=True,
            event="SetModeRequested",
            intent="set_mode",
            result=NOTHING,
        ),
        Method(
            "session_set_config_option",
            "session/set_config_option",
            AGENT,
            presence="configOptions",
            session=True,
            event="SetConfigOptionRequested",
            intent="set_config_option",
            result={"configOptions": [CONFIG_OPTION]},
        ),
        Method(
            "session_prompt",
            "session/prompt",
            AGENT,
            session=True,
            event="PromptRequested",
            intent="prompt",
            cancel="session_cancel",
            params={"prompt": [CONTENT]},
            result={"stopReason": STOP_REASONS},
        ),
        Method("session_cancel", "session/cancel", AGENT, NOTIFICATION_KIND, session=True, intent="cancel_turn"),
        # handled by the client
        Method("session_update", "session/update", CLIENT, NOTIFICATION_KIND, session=True, intent="update"),
        Method(
            "session_request_permission",
            "session/request_permission",
            CLIENT,
            session=True,
            event="PermissionRequested",
            intent="ask_permission",
            result=PERMISSION_RESULT,
        ),
        Method(
            "fs_read_text_file",
            "fs/read_text_file",
            CLIENT,
            gate=Gate("bool", "fs", "readTextFile"),
            session=True,
            event="ReadTextFileRequested",
            paths=("path",),
            lines=("line",),
            params={"path": PATH, "line~": LINE, "limit~": U32},
            result={"content": STR},
        ),
        Method(
            "fs_write_text_file",
            "fs/write_text_file",
            CLIENT,
            gate=Gate("bool", "fs", "writeTextFile"),
            session=True,
            event="WriteTextFileRequested",
            paths=("path",),
            params={"path": PATH, "content": STR},
            result=NOTHING,
        ),
        Method(
            "terminal_create",
            "terminal/create",
            CLIENT,
            gate=Gate("bool", "terminal"),
            session=True,
            event="CreateTerminalRequested",
            paths=("cwd",),
            params={"command": STR, "args?": [STR], "env?": [PAIR], "cwd~": PATH, "outputByteLimit~": U64},
            result=TERMINAL,
        ),
        Method(
            "terminal_output",
            "terminal/output",
            CLIENT,
            gate=Gate("bool", "terminal"),
            session=True,
            event="TerminalOutputRequested",
            params=TERMINAL,
            result={"output": STR, "truncated": BOOL, "exitStatus~": EXIT_STATUS},
        ),
        Method(
            "terminal_wait_for_exit",
            "terminal/wait_for_exit",
            CLIENT,
            gate=Gate("bool", "terminal"),
            session=True,
            event="WaitForTerminalExitRequested",
            params=TERMINAL,
            result=EXIT_STATUS,
        ),
        Method(
            "terminal_kill",
            "terminal/kill",
            CLIENT,
            gate=Gate("bool", "terminal"),
            session=True,
            event="KillTerminalRequested",
            params=TERMINAL,
            result=NOTHING,
        ),
        Method(
            "terminal_release",
            "terminal/release",
            CLIENT,
            gate=Gate("bool", "terminal"),
            session=True,
            event="ReleaseTerminalRequested",
            params=TERMINAL,
            result=NOTHING,
        ),
        Method(
            "elicitation_create",
            "elicitation/create",
            CLIENT,
            gate=Gate("object", "elicitation"),
            event="ElicitationRequested",
            params=ELICITATION,
            result=ELICITATION_RESULT,
        ),
        Method(
            "elicitation_complete",
            "elicitation/complete",
            CLIENT,
            NOTIFICATION_KIND,
            gate=Gate("object", "elicitation", "url"),
            params={"elicitationId": STR},
        ),
        # handled by both
        Method("cancel_request", "$/cancel_request", BOTH, NOTIFICATION_KIND, intent="cancel_request"),
        # in no schema, yet spoken by agents
        Method(
            "session_set_model",
            "session/set_model",
            AGENT,
            presence="models",
            session=True,
            event="RequestReceived",
            intent="open_session",
            stable=False,
        ),
    ),
)
