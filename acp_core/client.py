"""The client's end: the opening plan of a session, prompts and their turns, cancelling, permissions, updates."""

from __future__ import annotations

from . import codec, events
from .attach import FORMAT, Collected, Snapshot, Tail, fingerprint, first_id_after
from .connection import Connection
from .errors import (
    ANSWERED,
    INVALID_PARAMS,
    NOT_SENT,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
    SENT_NO_REPLY,
    ConnectionClosed,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
    check_type,
    clip,
    is_absolute,
    local,
)
from .events import get_list, get_object, get_objects, get_str
from .methods import CLIENT, V1, Gate, Method, MethodTable
from .permissions import ALLOW, ASK, DENY, Policy
from .replay import Replay
from .requests import OwnRequest, PeerRequest, Settlement
from .sessions import Plan, Session, Turn, is_model
from .state import (
    CANCELLING,
    CLOSED,
    CLOSING,
    CONNECTION,
    ENDING,
    FENCED,
    IDLE,
    NEW,
    OPEN,
    OPENING,
    PROMPTING,
    QUEUED,
    REPLAY,
    REQUEST,
    SESSION,
    WAITING,
    allows,
    move,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .connection import AnySession, JsonObject
    from .events import Event, PermissionOption
    from .limits import Limits
    from .timers import Timer
    from .turns import Admission

# Content blocks of a prompt that an agent has to advertise; text and resource_link are always taken.
CONTENT_GATES = {
    "image": Gate("bool", "promptCapabilities", "image"),
    "audio": Gate("bool", "promptCapabilities", "audio"),
    "resource": Gate("bool", "promptCapabilities", "embeddedContext"),
}
MCP_GATES = {"http": Gate("bool", "mcpCapabilities", "http"), "sse": Gate("bool", "mcpCapabilities", "sse")}
DIRECTORIES_GATE = Gate("object", "sessionCapabilities", "additionalDirectories")
ELICITATION_MODES = {"form": Gate("object", "elicitation", "form"), "url": Gate("object", "elicitation", "url")}

# Requests of the agent that ask the user, and the result that cancels each.
QUESTIONS = {
    "session_request_permission": '{"outcome":{"outcome":"cancelled"}}',
    "elicitation_create": '{"action":"cancel"}',
}

# Origins in a usage update that mark the end of a cycle without a prompt (peer.md C4).
CYCLE_ORIGINS = ("task-notification", "peer", "coordinator", "observer", "observer-activity")

UNATTENDED = "unattended"
REPORT = "report"
DISCARD = "discard"
CLOSE_SESSION = "close_session"
CLOSE = "close"
THEN = (REPORT, CLOSE_SESSION, CLOSE)


class _Held:
    """A message that came ahead of the session/new answer which names its session."""

    __slots__ = ("line", "method", "params", "rpc_id", "size")

    def __init__(self, method: Method, rpc_id: int | str | None, params: JsonObject, line: str | bytes) -> None:
        self.method = method
        self.rpc_id = rpc_id
        self.params = params
        self.line = line
        self.size = len(line)


class ClientConnection(Connection):
    """A client's end of an ACP connection: an editor, or a platform that runs agents.

    Args:
        nonce, limits, methods, extensions, tail: as ``Connection``.
        capabilities: what this client can do, as the ``clientCapabilities`` of initialize. Requests for anything else
            are answered -32601 by the core.
        info: name, title and version of this client (``clientInfo``).
        permissions: a Policy that answers permission requests; without one every request is asked.
        cycle_origins: the origins in a usage update that end a cycle of the agent's own (CycleEnded).
        admission: what a prompt must be, for an owner that is a platform (``acp_core.turns``).
        restore: what an earlier owner's ``snapshot()`` gave; then ``attach`` once a session. Its capabilities count.

    Raises:
        TypeError, LocalProtocolError: as ``Connection``; or capabilities or info are no JSON objects.
    """

    def __init__(
        self,
        *,
        nonce: str,
        limits: Limits | None = None,
        methods: MethodTable = V1,
        extensions: Iterable[str] = (),
        tail: bool = False,
        capabilities: Mapping[str, object] | None = None,
        info: Mapping[str, object] | None = None,
        permissions: Policy | None = None,
        cycle_origins: Iterable[str] = CYCLE_ORIGINS,
        restore: Mapping[str, object] | None = None,
        admission: Admission | None = None,
    ) -> None:
        super().__init__(CLIENT, nonce=nonce, limits=limits, methods=methods, extensions=extensions, tail=tail)
        if permissions is not None:
            check_type("permissions", permissions, Policy, "a Policy or None")
        params: dict[str, object] = {"protocolVersion": methods.version, "clientCapabilities": {}}
        for name, value in (("clientCapabilities", capabilities), ("clientInfo", info)):
            if value is not None:
                check_type(name, value, dict, "a dict")
                params[name] = value
        self._initialize_params = codec.encode(params, "the params of initialize", self.limits.max_depth)
        decoded = codec.decode('{"jsonrpc":"2.0","params":' + self._initialize_params + "}", self.limits.max_depth)
        # A copy of its own: what was advertised does not change when the caller's dict does.
        self._capabilities = (
            get_object(get_object(decoded, "params"), "clientCapabilities") if isinstance(decoded, dict) else {}
        )
        self._permissions = permissions if permissions is not None else Policy()
        self._update_wire = methods.wire("session_update")
        self._auth_methods: list[JsonObject] = []
        self._sessions: dict[str, Session] = {}
        self._opening: list[Session] = []
        # Sessions that are opening, open, or ended and still known.
        self._session_count = 0
        self._authentication: str = ""
        self._authentication_error: Exception | None = None
        self._authenticating: list[tuple[Session, str, Callable[[Session, float], None]]] = []
        self._creating = 0
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._cycle_origins = frozenset(cycle_origins)
        self._admission = admission
        self._turns_refused = False
        self._window: Tail | None = None
        self._restored: dict[str, JsonObject] = {}
        if restore is not None:
            self._restore(Snapshot(restore))

    # ── Getters ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions whose ids are known, closed ones included."""
        return tuple(self._sessions.values())

    @property
    def auth_methods(self) -> list[JsonObject]:
        """The ways to log in that the agent advertised, as they stood on the wire."""
        return self._auth_methods

    @property
    def busy_sessions(self) -> tuple[Session, ...]:
        """The sessions with a turn that has not ended, in the order of their prompts; also one whose prompt waits."""
        return tuple(
            request.session
            for request in self._requests.values()
            if request.turn is not None and isinstance(request.session, Session)
        )

    def session(self, session_id: str) -> Session | None:
        """The session with an id of the agent, or None."""
        return self._sessions.get(session_id)

    # ── Intents ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def initialize(self, *, deadline: float | None = 60.0, token: object = None) -> int:
        """Send initialize; Initialized follows, and RequestSettled with ``token``. ``open_session`` does it by itself.

        Returns: the JSON-RPC id.

        Raises:
            LocalProtocolError: it was sent before; or the connection cannot be written.
        """
        self._check_duration("deadline", deadline)
        self._check_writable()
        if self._state != NEW:
            local("initialize.once", f"initialize was sent before (the connection is {self._state}); it goes out once")
        return self._initialize(deadline, token).id

    def open_session(
        self,
        cwd: str,
        *,
        resume: str | None = None,
        mcp_servers: Sequence[Mapping[str, object]] = (),
        additional_directories: Sequence[str] = (),
        auth: str | None = None,
        model: str | None = None,
        config: Mapping[str, str | bool] | None = None,
        replay: str = DISCARD,
        replay_quiet: float = 0.25,
        replay_max: float = 10.0,
        fresh_if_refused: bool = False,
        step_deadline: float = 60.0,
        authenticate_deadline: float = 300.0,
        meta: Mapping[str, object] | None = None,
        token: object = None,
    ) -> Session:
        """Open a session: initialize if needed, log in if needed, create or reopen, replay window, model and options.

        Ends in SessionReady or SessionFailed; every step is a SessionStep. One prompt may be given at once and waits.

        Args:
            cwd: the absolute working directory.
            resume: the id of a session to reopen: resumed if the agent can, else loaded, else a failure.
            mcp_servers, additional_directories, meta: as on the wire; sent again when a session is reopened.
            auth: None (log in only when refused, and only without a person), ``"unattended"``, or a method's id.
            model: the model to select before the first prompt.
            config: configuration options to set before the first prompt, id to value.
            replay: ``"discard"`` (counted) or ``"report"`` the transcript updates of a reopened session.
            replay_quiet, replay_max: seconds; when the replay window of a load closes after the response.
            fresh_if_refused: open a new session when the agent refuses to reopen.
            step_deadline, authenticate_deadline: seconds for each step's answer.
            token: comes back as ``session.token``.

        Returns: the handle, at once; its ``session_id`` is None until the agent names it.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, a limit is reached, or nothing can be written.
        """
        check_type("cwd", cwd, str, "a str")
        if not is_absolute(cwd):
            local("path.absolute", f"cwd is {clip(cwd)}; paths of the protocol are absolute")
        if resume is not None:
            check_type("resume", resume, str, "a str or None")
            if not resume:
                local(
                    "session.resume_id", "resume is an empty id; give the stored session id, or None for a new session"
                )
            known = self._sessions.get(resume)
            if known is None or known.state in (CLOSED, FENCED):
                starting = [*self._opening, *(waiting[0] for waiting in self._authenticating)]
                known = next((one for one in starting if one.plan.reopens == resume), None)
            if known is not None:
                local("session.open", f"session {clip(resume)} is open here ({known.state}); use its handle")
        for name, text in (("auth", auth), ("model", model)):
            if text is not None:
                check_type(name, text, str, "a str or None")
        if replay not in (DISCARD, REPORT):
            local("session.replay", f'replay is {clip(replay)}; it is "discard" or "report"')
        for name, seconds in (
            ("replay_quiet", replay_quiet),
            ("replay_max", replay_max),
            ("step_deadline", step_deadline),
            ("authenticate_deadline", authenticate_deadline),
        ):
            if seconds is None:
                raise TypeError(f"{name} must be a number of seconds, not None")
            self._check_duration(name, seconds)
        for directory in additional_directories:
            check_type("an additional directory", directory, str, "a str")
            if not is_absolute(directory):
                local("path.absolute", f"additional directory {clip(directory)}: paths of the protocol are absolute")
        self._check_writable()
        if self._session_count >= self.limits.max_sessions:
            local("limits.max_sessions", f"{self.limits.max_sessions} sessions are known here; use another connection")
        plan = Plan(
            cwd=cwd,
            resume=resume,
            mcp_servers=[self._own_copy(server, "an MCP server") for server in mcp_servers],
            additional_directories=list(additional_directories),
            meta=self._own_copy(meta, "meta") if meta is not None else None,
            auth=auth,
            model=model,
            config=config or {},
            replay=Replay(replay_quiet, replay_max, replay == REPORT),
            fresh_if_refused=fresh_if_refused,
            step_deadline=step_deadline,
            authenticate_deadline=authenticate_deadline,
        )
        session = Session(self.nonce, plan, token)
        self._session_count += 1
        if self._state == OPEN:
            self._start(session, self._now)
        else:
            self._opening.append(session)
            if self._state == NEW:
                self._initialize(step_deadline, None)
        return session

    def prompt(
        self,
        session: Session | str,
        content: str | Sequence[Mapping[str, object]],
        *,
        identity: str | None = None,
        deadline: float | None = None,
        meta: Mapping[str, object] | None = None,
        token: object = None,
    ) -> int:
        """Start a turn. While the session opens one prompt may wait; else the session has to be idle.

        Args:
            session: the handle or the id.
            content: a text, or a list of content blocks as on the wire.
            identity: the owner's own name for the prompt, at most ``Limits.max_identity_bytes`` UTF-8 bytes; echoed
                on every event of the turn.
            deadline: seconds, counted from the next ``data_to_send``; when they pass, the turn is cancelled as
                ``cancel_turn`` does.
            token: comes back on TurnEnded or TurnFailed.

        Returns: the JSON-RPC id of the prompt.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, the session is not idle, the agent does not take such
                content, a limit is reached, or nothing can be written.
        """
        handle = self._own_session(session)
        self._check_duration("deadline", deadline)
        # In a fixed order: closing, active turn, identity, text; nothing has changed when one of them refuses.
        self._check_writable()
        if self._turns_refused:
            local("turn.closing", "the owner is closing: no new turn is taken from the first call on")
        waits = handle.state in OPENING
        if waits and handle.turn is not None:
            local("turn.one_at_a_time", f"a prompt waits already for session {handle.session_id} ({handle.state})")
        if not waits and handle.state != IDLE:
            advice = "wait for its turn to end" if handle.state in (PROMPTING, CANCELLING) else "reopen it"
            if handle.state == FENCED:
                advice = "a fence stands: close or reopen the session, or wait for FenceLifted"
            local("turn.one_at_a_time", f"session {handle.session_id} is {handle.state}; {advice}")
        admission = self._admission
        if admission is not None:
            self._check_place(admission)
            admission.check_identity(identity)
        elif identity is not None:
            check_type("identity", identity, str, "a str or None")
            if len(identity.encode("utf-8", "surrogatepass")) > self.limits.max_identity_bytes:
                local("prompt.identity", f"identity is longer than {self.limits.max_identity_bytes} UTF-8 bytes")
        blocks = self._content(content)
        if admission is not None:
            admission.check_text(blocks)
        self._check_open_requests()
        if not waits:
            self._check_content(blocks)
        rest = (
            ""
            if meta is None
            else f',"_meta":{codec.encode(self._checked_object(meta, "meta"), "meta", self.limits.max_depth)}'
        )
        tail = f',"prompt":{codec.encode(blocks, "the prompt", self.limits.max_depth)}{rest}}}'
        self._check_room(len(tail) + 256)
        turn = Turn(0, identity, token)
        request = self._new_request(self.methods["session_prompt"], handle, token, self._prompt_settled, turn)
        turn.prompt_id = request.id
        request.params = tail
        handle.turn = turn
        handle.prompt_request = request
        if deadline is not None:
            request.timer = self._timers.after(deadline, lambda at: self._prompt_deadline(handle, request, at))
        if not waits:
            self._release(handle)
        return request.id

    def refuse_turns(self) -> None:
        """Take no new turn from here on: the first step of closing. Turns in flight go on. A second call is a no-op."""
        self._turns_refused = True

    def attach(
        self,
        session_id: str,
        prompt_id: int | None,
        *,
        deadline: float | None,
        cwd: str = "/",
        identity: str | None = None,
        tail_quiet: float = 0.5,
        tail_max: float = 10.0,
        token: object = None,
    ) -> Session:
        """Go on with a turn in flight that an earlier owner started, on a stream that replays its last bytes.

        Nothing is asked of the agent. The answer to ``prompt_id`` ends the turn; without one in ``deadline`` seconds it
        fails as unknown. A ``prompt_id`` of None attaches to a session without a turn.
        The first byte ever written is a newline, since the earlier owner may have left half a line. The tail is over
        when nothing came for ``tail_quiet`` seconds, at the latest after ``tail_max``: then TailOver.
        Call it before any input is received; again for each further session.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, input was received before, or the session is open here.
        """
        check_type("session_id", session_id, str, "a str")
        if prompt_id is not None:
            check_type("prompt_id", prompt_id, int, "an int or None")
            if deadline is None:
                local("attach.deadline", "deadline is None; an answer that is already gone would never be given up")
        for name, seconds in (("deadline", deadline), ("tail_quiet", tail_quiet), ("tail_max", tail_max)):
            if seconds is None and name != "deadline":
                raise TypeError(f"{name} must be a number of seconds, not None")
            self._check_duration(name, seconds)
        self._check_writable()
        if self._received_at is not None or (self._window is None and self._state != NEW):
            local(
                "attach.first", "attach() comes before initialize() and before any input; make a new connection for it"
            )
        if not session_id or session_id in self._sessions:
            local("attach.session", f"session {clip(session_id)} is open here already; attach once a session")
        if prompt_id is not None and (prompt_id < 0 or prompt_id in self._requests):
            local("attach.prompt", f"prompt id {prompt_id} is negative or attached already; give PromptSent.prompt_id")
        stored = self._restored.get(session_id, {})
        plan = Plan(
            cwd=get_str(stored, "cwd") or cwd,
            resume=session_id,
            mcp_servers=[],
            additional_directories=[],
            meta=None,
            auth=None,
            model=None,
            config={},
            replay=Replay(tail_quiet, tail_max, report=True),
            fresh_if_refused=False,
            step_deadline=60.0,
            authenticate_deadline=300.0,
        )
        if self._window is None:
            self._state = move(CONNECTION, self._state, "attach")
            self._version = self.methods.version
            self._joined = True
            self._queue(b"\n")
            window = self._window = Tail(tail_quiet, tail_max)
            window.timer = self._timers.after(tail_quiet, self._tail_quiet)
        used = max(prompt_id if prompt_id is not None else 0, self._next_id - 1)
        self._first_id = self._next_id = first_id_after(used)
        opened_id, history = stored.get("openedId"), stored.get("historyLeft")
        plan.replay.after = history if isinstance(history, int) else 0
        session = Session(self.nonce, plan, token)
        session.attached = session.in_tail = True
        session.opened_id = opened_id if isinstance(opened_id, int) else None
        session.session_id = session_id
        self._session_count += 1
        self._sessions[session_id] = session
        if prompt_id is None:
            session.move("attach_idle")
            return session
        turn = Turn(prompt_id, identity if identity is not None else get_str(stored, "identity"), token)
        request = OwnRequest(prompt_id, self.methods["session_prompt"], session, token, self._prompt_settled)
        request.turn = turn
        request.state = move(REQUEST, request.state, "attach")
        self._requests[prompt_id] = request
        session.turn = turn
        session.prompt_request = request
        session.move("attach")
        if deadline is not None:
            request.timer = self._timers.after(deadline, lambda at: self._fate_unknown(session, request, at))
        for open_request in self._peer_requests.values():
            if open_request.session is None and get_str(open_request.params, "sessionId") == session_id:
                open_request.session = session
                open_request.turn = turn
                if open_request.method.key == "session_request_permission":
                    self._limit_asking(open_request, self._timers.after)
        return session

    def end_tail(self) -> None:
        """Say that the replayed tail is over, ahead of its quiet time. A no-op when there is none.

        Raises: nothing.
        """
        if self._window is not None:
            self._tail_over(self._now)

    def snapshot(self) -> dict[str, object]:
        """What a restarted owner goes on with: one small JSON-able value. Store it whenever something has changed.

        It has no secret in it: no environment, no headers, no content.

        Raises:
            LocalProtocolError: the handshake is not done, or it would be larger than ``Limits.max_snapshot_bytes``.
        """
        if self._version is None:
            local("snapshot.early", f"the connection is {self._state}; there is nothing to store before Initialized")
        value: dict[str, object] = {
            "format": FORMAT,
            "protocolVersion": self._version,
            "nonce": self.nonce,
            "nextId": self._next_id,
            "clientCapabilities": self._capabilities,
            "agentCapabilities": self._peer_capabilities,
            "authMethods": [
                {name: method[name] for name in ("id", "name", "type") if name in method}
                for method in self._auth_methods
            ],
            "sessions": [
                stored_session(session)
                for session in self._sessions.values()
                if session.state != CLOSED and session.state not in OPENING
            ],
            "openRequests": [stored_request(request) for request in self._peer_requests.values()],
            "answered": list(self._answered),
        }
        size = len(codec.encode(value, "the snapshot", self.limits.max_depth))
        if size > self.limits.max_snapshot_bytes:
            local("limits.max_snapshot_bytes", f"the snapshot has {size} bytes; close sessions or raise the limit")
        return value

    def cancel_turn(
        self, session: Session | str, *, deadline: float = 2.0, then: str = REPORT, close_deadline: float = 10.0
    ) -> None:
        """Cancel the turn of a session, as one operation (peer.md P8).

        A prompt that was not sent is withdrawn. Else session/cancel goes out, every open permission of the session is
        answered cancelled, and the turn ends with its result; without one after ``deadline`` seconds it fails and the
        session is fenced. ``then`` says what happens at the fence: ``"report"`` only, ``"close_session"`` (which the
        agent answers within ``close_deadline``, else the fence stands), or ``"close"`` the connection. A turn is
        cancelled once: a second call joins the first, and changes it only to a stronger ``then``. Without a turn
        session/cancel is still written, and that is all.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, the agent cannot close sessions, the session has ended,
                or nothing can be written.
        """
        handle = self._own_session(session)
        for name, seconds in (("deadline", deadline), ("close_deadline", close_deadline)):
            if seconds is None:
                raise TypeError(f"{name} must be a number of seconds, not None: a cancel is bounded")
            self._check_duration(name, seconds)
        if then not in THEN:
            local("cancel.then", f"then is {clip(then)}; it is one of {', '.join(THEN)}")
        request = handle.prompt_request
        if request is not None and request.state in (WAITING, QUEUED):
            self._withdraw_prompt(request)
            return
        self._check_writable()
        if handle.session_id is None or handle.state == CLOSED:
            local("session.ended", f"session {handle.session_id} is {handle.state}: there is nothing to cancel")
        if then == CLOSE_SESSION:
            self._check_gate(self.methods["session_close"])
        joins = handle.state == CANCELLING
        if not joins or THEN.index(then) > THEN.index(handle.then):
            handle.then = then
            handle.close_deadline = close_deadline
        if not joins:
            self._cancel(handle, deadline, "owner")

    def close_session(self, session: Session | str, *, deadline: float = 10.0, token: object = None) -> int:
        """Close a session: the agent ends its work. SessionClosed follows, and RequestSettled with ``token``.

        Returns: the JSON-RPC id.

        Raises:
            TypeError, LocalProtocolError: the agent does not advertise it, the session is not open, or nothing can be
                written.
        """
        handle = self._own_session(session)
        row = self.methods["session_close"]
        self._check_duration("deadline", deadline)
        self._check_writable()
        self._check_gate(row)
        if handle.session_id is None or not allows(SESSION, handle.state, "close"):
            local("session.close", f"session {handle.session_id} is {handle.state}; it cannot be closed now")
        self._check_open_requests()
        params = f'{{"sessionId":{codec.encode_str(handle.session_id)}}}'
        data = codec.request_line(self._next_id, row.wire, params)
        self._check_room(len(data))
        request = self._new_request(row, handle, token, self._close_settled)
        handle.move("close")
        self._queue(data, request)
        self._set_deadline(request, deadline)
        # Closing cancels the work (spec.md rules 62 and 83): the agent may wait for these before it answers.
        self._cancel_permissions(handle, None, "close", self._now)
        return request.id

    def set_mode(
        self, session: Session | str, mode_id: str, *, deadline: float | None = None, token: object = None
    ) -> int:
        """Set the session's mode: one of those in ``session.modes``. RequestSettled follows.

        Returns: the JSON-RPC id.

        Raises:
            TypeError, LocalProtocolError: the session offers no such mode, or nothing can be written.
        """
        handle = self._ready_session(session)
        check_type("mode_id", mode_id, str, "a str")
        offered = [get_str(mode, "id") for mode in get_objects(handle.modes or {}, "availableModes")]
        if mode_id not in offered:
            local("session.mode", f"mode {clip(mode_id)} is not offered by the session; it has {clip(offered)}")
        return self._session_request("session_set_mode", handle, {"modeId": mode_id}, deadline, token, self._mode_set)

    def set_config_option(
        self,
        session: Session | str,
        config_id: str,
        value: str | bool,
        *,
        deadline: float | None = None,
        token: object = None,
    ) -> int:
        """Set a configuration option of the session. RequestSettled follows; ``session.config_options`` is up to date.

        Returns: the JSON-RPC id.

        Raises:
            TypeError, LocalProtocolError: the session has no such option, or nothing can be written.
        """
        handle = self._ready_session(session)
        check_type("config_id", config_id, str, "a str")
        if not isinstance(value, (str, bool)):
            raise TypeError(f"value must be a str or a bool, not {type(value).__name__}")
        offered = [get_str(option, "id") for option in handle.config_options or []]
        if config_id not in offered:
            local("session.config", f"the session has no option {clip(config_id)}; it has {clip(offered)}")
        params = config_params(config_id, value)
        return self._session_request("session_set_config_option", handle, params, deadline, token, self._config_set)

    def authenticate(self, method_id: str, *, deadline: float | None = 300.0, token: object = None) -> int:
        """Log in by one of ``auth_methods``. RequestSettled follows.

        Returns: the JSON-RPC id.

        Raises:
            TypeError, LocalProtocolError: no such method was advertised, it is a login in a terminal, the handshake is
                not done, or nothing can be written.
        """
        check_type("method_id", method_id, str, "a str")
        self._check_duration("deadline", deadline)
        self._check_open()
        refusal = self._auth_refusal(method_id)
        if refusal is not None:
            raise refusal
        row = self.methods["authenticate"]
        self._check_open_requests()
        data = codec.request_line(self._next_id, row.wire, f'{{"methodId":{codec.encode_str(method_id)}}}')
        self._check_room(len(data))
        request = self._new_request(row, None, token, self._settled)
        self._queue(data, request)
        self._set_deadline(request, deadline)
        return request.id

    def answer_permission(self, request_id: str, option: PermissionOption | str | None) -> None:
        """Answer a PermissionRequested with one of its options, or None for cancelled. The first answer counts.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the option was not offered, the request is no open permission, or nothing can be
                written.
        """
        request = self._open_peer_request(request_id, "answer")
        if request.method.key != "session_request_permission":
            local("permission.request", f"{clip(request_id)} is a {request.method.wire}; answer it with respond()")
        option_id = option.option_id if isinstance(option, events.PermissionOption) else option
        if option_id is not None:
            check_type("option", option_id, str, "a PermissionOption, an option id or None")
            offered = [offer.option_id for offer in events.permission_options(request.params)]
            if option_id not in offered:
                local("permission.option", f"option {clip(option_id)} was not offered; the options are {clip(offered)}")
        self._respond(request, permission_result(option_id))

    # ── Reattaching ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _restore(self, snapshot: Snapshot) -> None:
        if snapshot.nonce == self.nonce:
            local("snapshot.nonce", "the nonce is the earlier owner's; give a new one, so that public ids stay unique")
        if snapshot.version != self.methods.version:
            local("snapshot.version", f"the snapshot is of protocol version {snapshot.version}")
        self._capabilities = snapshot.client_capabilities
        self._peer_capabilities = snapshot.agent_capabilities
        self._auth_methods = snapshot.auth_methods
        self._first_id = self._next_id = first_id_after(snapshot.next_id)
        self._restored = snapshot.sessions
        self._answered = dict.fromkeys(snapshot.answered)
        for stored in snapshot.requests:
            request_id, key, print_ = get_str(stored, "requestId"), get_str(stored, "key"), get_str(stored, "print")
            rpc_id, wire = stored.get("rpcId"), get_str(stored, "method")
            if request_id is None or print_ is None or wire is None or not isinstance(rpc_id, (int, str)):
                local("snapshot.format", f"an open request of the snapshot is incomplete: {clip(stored)}")
            row = self.methods[key] if key else Method("", wire, CLIENT, event="RequestReceived")
            request = PeerRequest(request_id, rpc_id, row, get_object(stored, "params"), None, None, print_)
            self._peer_requests[request_id] = request
            self._peer_ids[rpc_id] = request

    def _tail_quiet(self, at: float) -> None:
        window = self._window
        if window is None:
            return
        if self._received_at is not None:
            window.saw(self._received_at)
        if window.deadline() > at:
            window.timer = self._timers.at(window.deadline(), self._tail_quiet)
        else:
            self._tail_over(at)

    def _tail_over(self, at: float) -> None:
        window, self._window = self._window, None
        assert window is not None
        self._timers.cancel(window.timer)
        for session in self._sessions.values():
            session.leave_tail()
        self._emit(events.TailOver(window.requests, window.answers, at))
        for collected in window.collected:
            self._raise_collected(collected, at)

    def _raise_collected(self, collected: Collected, at: float) -> None:
        self._replaying = True
        try:
            self._admit(collected.rpc_id, collected.method, collected.params, collected.line, at)
        finally:
            self._replaying = False

    def _collect(self, rpc_id: int | str, row: Method, params: JsonObject, line: str | bytes, at: float) -> None:
        """A request in the tail: known ones are recognised by their line, others wait until the tail is over."""
        window = self._window
        assert window is not None
        print_ = fingerprint(rpc_id, line)
        older = self._peer_ids.get(rpc_id)
        if older is not None and older.fingerprint == print_:
            older.params = params
            self._emit(events.RequestRepeated(older.request_id, rpc_id, row.wire, line, at))
        elif print_ in self._answered:
            window.requests += 1
        else:
            # An id that comes again means that the earlier request with it is settled.
            window.requests += len(window.take(rpc_id))
            window.collected.append(Collected(rpc_id, row, params, line, print_))
            if len(window.collected) >= self.limits.max_incoming_requests:
                self._tail_over(at)

    def _leave_questions(self, window: Tail, session: Session, at: float) -> None:
        """A turn has ended in the tail: what was asked in it is history, or nobody ever saw it."""
        for collected in window.leave(session.session_id):
            row = collected.method
            if not self._restored:
                window.requests += 1
            elif row.key in QUESTIONS:
                # The earlier owner has not seen it, and there is nothing left to allow (peer.md P8).
                reason = "cancelled: its turn has ended"
                params, line = collected.params, collected.line
                self._emit(
                    events.RequestRefused(collected.rpc_id, row.wire, params, session.session_id, 0, reason, line, at)
                )
                self._answered[collected.fingerprint] = None
                self._answer(codec.result_line(collected.rpc_id, QUESTIONS[row.key]))
            else:
                window.collected.append(collected)

    def _fate_unknown(self, session: Session, request: OwnRequest, at: float) -> None:
        """The answer to an attached prompt may have been given before the tail began."""
        if allows(SESSION, session.state, "no_answer"):
            session.move("no_answer")
            session.fenced = request
        error = RequestTimeout("no answer to the attached prompt in time: its fate is unknown")
        self._settle(request, "give_up", Settlement("deadline", SENT_NO_REPLY, error=error), at)
        if session.state == FENCED:
            self._emit(events.SessionFenced(session, request.turn, request.id, at))

    # ── The handshake ───────────────────────────────────────────────────────────────────────────────────────────────

    def _initialize(self, deadline: float | None, token: object) -> OwnRequest:
        row = self.methods["initialize"]
        self._state = move(CONNECTION, self._state, "initialize")
        request = self._new_request(row, None, token, self._initialize_settled)
        self._send_own(request, codec.request_line(request.id, row.wire, self._initialize_params), deadline)
        return request

    def _initialize_settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        result = settlement.result if isinstance(settlement.result, dict) else {}
        error = settlement.error
        version = result.get("protocolVersion")
        if error is None and (version.__class__ is not int or version != self.methods.version):
            error = RemoteProtocolError(
                f"the agent answered protocol version {clip(version)}; this side speaks {self.methods.version}",
                rule="initialize.version",
            )
            settlement = Settlement("invalid", ANSWERED, error=error, raw=settlement.raw, line=settlement.line)
        event = "initialized" if error is None else "refused"
        if allows(CONNECTION, self._state, event):
            self._state = move(CONNECTION, self._state, event)
        waiting, self._opening = self._opening, []
        if error is None:
            self._version = self.methods.version
            self._peer_capabilities = get_object(result, "agentCapabilities")
            self._auth_methods = get_objects(result, "authMethods")
            self._emit(
                events.Initialized(
                    self._version,
                    self._peer_capabilities,
                    get_object(result, "agentInfo"),
                    self._auth_methods,
                    result,
                    at,
                )
            )
        self._settled(request, settlement, at)
        for session in waiting:
            self._step_done(session, request, error, at)
            if error is None:
                self._start(session, at)
            else:
                self._fail(session, "initialize", settlement, at)

    def _check_open(self) -> None:
        self._check_writable()
        if self._state != OPEN:
            local("initialize.first", f"the connection is {self._state}; call initialize() or open_session() first")

    def _outgoing_row(self, wire: str, kind: str) -> Method:
        row = super()._outgoing_row(wire, kind)
        self._check_open()
        return row

    # ── The opening plan ────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, session: Session, at: float) -> None:
        """The first step after the handshake: log in ahead if the caller chose so, then open."""
        plan = session.plan
        if plan.auth is not None and not plan.auth_tried:
            plan.auth_tried = True
            method_id = self._unattended_method() if plan.auth == UNATTENDED else plan.auth
            if method_id is not None:
                self._log_in(session, method_id, self._open, at)
                return
        self._open(session, at)

    def _log_in(self, session: Session, method_id: str, resume: Callable[[Session, float], None], at: float) -> None:
        """One login for the connection; every session that needs it waits for the same answer."""
        if self._authentication == method_id:
            resume(session, at)
            return
        refusal = self._auth_refusal(method_id)
        if refusal is not None:
            self._fail(session, "authenticate", Settlement("error", NOT_SENT, error=refusal), at)
            return
        self._authenticating.append((session, method_id, resume))
        if len(self._authenticating) > 1:
            return
        row = self.methods["authenticate"]

        def settled(request: OwnRequest, settlement: Settlement, at: float) -> None:
            waiting, self._authenticating = self._authenticating, []
            if settlement.error is None:
                self._authentication = method_id
            for waiter, wanted, go_on in waiting:
                if wanted != method_id:
                    # One login at a time; this one's turn comes now.
                    self._log_in(waiter, wanted, go_on, at)
                    continue
                self._step_done(waiter, request, settlement.error, at)
                if settlement.outcome == "over" or (settlement.error is not None and waiter.plan.auth == method_id):
                    self._fail(waiter, "authenticate", settlement, at)
                else:
                    # A failed automatic login does not fail the open (peer.md M1): the session call may still do.
                    go_on(waiter, at)

        request = self._new_request(row, session, None, settled)
        params = f'{{"methodId":{codec.encode_str(method_id)}}}'
        self._send_own(request, codec.request_line(request.id, row.wire, params), session.plan.authenticate_deadline)

    def _unattended_method(self) -> str | None:
        """The id of a login that needs no person, if one is advertised."""
        for method in self._auth_methods:
            if "api-key" in get_object(method, "_meta") or method.get("type") == "env_var":
                return get_str(method, "id")
        return None

    def _auth_refusal(self, method_id: str) -> LocalProtocolError | None:
        for method in self._auth_methods:
            if method.get("id") == method_id:
                if method.get("type") == "terminal":
                    return LocalProtocolError(
                        f"{clip(method_id)} is a login in a terminal: run the agent's command with its arguments",
                        rule="auth.terminal",
                    )
                return None
        offered = [get_str(method, "id") for method in self._auth_methods]
        return LocalProtocolError(
            f"no login {clip(method_id)} was advertised; the agent has {clip(offered)}", rule="auth.method"
        )

    def _open(self, session: Session, at: float) -> None:
        """Create or reopen."""
        plan = session.plan
        key = "session_new"
        if plan.reopens is not None:
            key = "session_resume" if self._advertised("session_resume") else "session_load"
            if not self._advertised(key):
                error: Exception = LocalProtocolError(
                    "the agent can neither resume nor load a session; open a new one without resume=",
                    rule="session.reopen",
                )
                if plan.fresh_if_refused:
                    key = "session_new"
                    plan.fresh_tried = True
                else:
                    self._fail(session, key, Settlement("error", NOT_SENT, error=error), at)
                    return
        refusal = self._setup_refusal(plan)
        if refusal is not None:
            self._fail(session, key, Settlement("error", NOT_SENT, error=refusal), at)
            return
        params: dict[str, object] = {"cwd": plan.cwd, "mcpServers": plan.mcp_servers}
        if plan.additional_directories:
            params["additionalDirectories"] = plan.additional_directories
        if plan.meta is not None:
            params["_meta"] = plan.meta
        if key == "session_new":
            session.move("create")
            self._creating += 1
        else:
            assert plan.resume is not None
            params["sessionId"] = plan.resume
            session.move("load" if key == "session_load" else "resume")
            self._take_over(session, plan.resume, at)
        plan.opened_by = key
        self._plan_request(session, key, params, self._open_settled)

    def _setup_refusal(self, plan: Plan) -> LocalProtocolError | None:
        caps = self._peer_capabilities
        if plan.additional_directories and not DIRECTORIES_GATE.open(caps):
            return LocalProtocolError(
                f"additional_directories need the agent's capability {DIRECTORIES_GATE}", rule="capability.missing"
            )
        for server in plan.mcp_servers:
            gate = MCP_GATES.get(get_str(server, "type") or "")
            if gate is not None and not gate.open(caps):
                return LocalProtocolError(
                    f"MCP server {clip(server.get('name'))} needs the agent's capability {gate}",
                    rule="capability.missing",
                )
        return None

    def _advertised(self, key: str) -> bool:
        gate = self.methods[key].gate
        return gate is None or gate.open(self._peer_capabilities)

    def _take_over(self, session: Session, session_id: str, at: float) -> None:
        """Give an id of the agent to a handle; an ended or fenced one that had it lets go."""
        older = self._sessions.get(session_id)
        if older is not None and older is not session:
            self._session_count -= 1
            if older.state != CLOSED:
                self._end_session(older, "another open took the session over", at)
        self._sessions[session_id] = session
        session.session_id = session_id

    def _plan_request(
        self,
        session: Session,
        key: str,
        params: Mapping[str, object],
        settle: Callable[[OwnRequest, Settlement, float], None],
    ) -> None:
        row = self.methods[key]
        body = codec.encode(params, f"the params of {row.wire}", self.limits.max_depth)
        request = self._new_request(row, session, None, settle)
        self._send_own(request, codec.request_line(request.id, row.wire, body), session.plan.step_deadline)

    def _step_done(self, session: Session, request: OwnRequest, error: Exception | None, at: float) -> None:
        row = request.method
        phase = "done" if error is None else "failed"
        self._emit(events.SessionStep(session, row.key, row.wire, phase, error, at))

    def _open_settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        session = request.session
        assert isinstance(session, Session)
        plan = session.plan
        key = request.method.key
        if key == "session_new" and self._creating:
            self._creating -= 1
        result = settlement.result if isinstance(settlement.result, dict) else {}
        error = settlement.error
        session_id = get_str(result, "sessionId") if key == "session_new" else plan.resume
        if error is None and key == "session_new":
            known = self._sessions.get(session_id or "")
            if not session_id:
                error = RemoteProtocolError("session/new was answered without a sessionId", rule="session.id")
            elif known is not None and known.state not in (CLOSED, FENCED):
                error = RemoteProtocolError(
                    f"session/new was answered with the id of an open session, {clip(session_id)}", rule="session.id"
                )
            if error is not None:
                settlement = Settlement("invalid", ANSWERED, error=error, raw=settlement.raw, line=settlement.line)
        self._step_done(session, request, error, at)
        if error is not None or session_id is None:
            self._open_refused(session, key, settlement, at)
        else:
            self._take_over(session, session_id, at)
            self._take_setup(session, result)
            session.opened_id = request.id if key != "session_new" else None
            if key == "session_load":
                plan.replay.answered(at)
                session.move("answered")
                self._arm_replay(session)
            else:
                session.move("opened")
            self._emit(events.SessionOpened(session, key, result, at))
            self._release_held(session_id, at)
            if key != "session_load":
                self._configure(session, at)
        if not self._creating:
            self._release_held(None, at)

    def _open_refused(self, session: Session, key: str, settlement: Settlement, at: float) -> None:
        plan = session.plan
        error = settlement.error
        # Nothing more is tried when nothing can be written.
        refused = settlement.outcome == "error" and self._state == OPEN
        if refused and isinstance(error, RequestError) and error.auth_required and not plan.auth_tried:
            plan.auth_tried = True
            method_id = self._unattended_method()
            if method_id is not None:
                session.move("retry")
                self._log_in(session, method_id, self._open, at)
                return
        if refused and plan.fresh_if_refused and plan.resume is not None and not plan.fresh_tried:
            plan.fresh_tried = True
            self._drop_id(session)
            session.session_id = None
            session.move("retry")
            self._open(session, at)
            return
        self._fail(session, key, settlement, at)

    def _take_setup(self, session: Session, result: JsonObject) -> None:
        """What the agent says of a session it has opened."""
        modes = result.get("modes")
        if isinstance(modes, dict):
            session.modes = modes
            session.current_mode_id = get_str(modes, "currentModeId")
        if isinstance(result.get("configOptions"), list):
            session.config_options = get_objects(result, "configOptions")
        models = result.get("models")
        if isinstance(models, dict):
            session.models = models

    def _arm_replay(self, session: Session) -> None:
        replay = session.plan.replay
        replay.timer = self._timers.at(replay.deadline(), lambda at: self._replay_quiet(session, at))

    def _replay_quiet(self, session: Session, at: float) -> None:
        # Updates move the deadline without touching the timer; it looks again when it fires.
        if session.plan.replay.deadline() > at:
            self._arm_replay(session)
            return
        session.move("opened")
        self._configure(session, at)

    def _configure(self, session: Session, at: float) -> None:
        """Model first, then options, one after the other, then ready."""
        plan = session.plan
        plan.steps = [*((("", plan.model),) if plan.model is not None else ()), *plan.config.items()]
        self._next_setting(session, at)

    def _next_setting(self, session: Session, at: float) -> None:
        plan = session.plan
        while plan.steps:
            config_id, value = plan.steps[0]
            key, params, done = setting(session, config_id, value)
            if done:
                plan.steps.pop(0)
                continue
            if not key:
                what = f"model {clip(value)}" if not config_id else f"option {clip(config_id)}"
                error = LocalProtocolError(f"the session has nothing to set {what} with", rule="session.setting")
                self._fail(session, "session_set_config_option", Settlement("error", NOT_SENT, error=error), at)
                return
            self._plan_request(session, key, {"sessionId": session.session_id, **params}, self._setting_settled)
            return
        self._make_ready(session, at)

    def _setting_settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        session = request.session
        assert isinstance(session, Session)
        result = settlement.result if isinstance(settlement.result, dict) else {}
        confirmed = isinstance(result.get("configOptions"), list)
        if confirmed:
            session.config_options = get_objects(result, "configOptions")
        if settlement.error is None:
            config_id, value = session.plan.steps.pop(0)
            if request.method.key == "session_set_model":
                said = get_str(result, "modelId") or get_str(result, "currentModelId") or value
                session.models = {**(session.models or {}), "currentModelId": said}
                confirmed = True
            wrong = unconfirmed(session, config_id, value) if confirmed else None
            if wrong is not None:
                error = RemoteProtocolError(
                    f"{clip(value)} was asked for and {clip(wrong)} was confirmed", rule="session.setting"
                )
                settlement = Settlement("invalid", ANSWERED, error=error, raw=settlement.raw, line=settlement.line)
        self._step_done(session, request, settlement.error, at)
        if settlement.error is not None:
            self._fail(session, request.method.key, settlement, at)
        else:
            self._next_setting(session, at)

    def _make_ready(self, session: Session, at: float) -> None:
        replay = session.plan.replay
        if self._state != OPEN:
            # The agent has answered, and nothing can be written to it any more.
            error = ConnectionClosed("nothing can be written any more", dispatch=SENT_NO_REPLY)
            self._fail(session, session.plan.opened_by, Settlement("over", SENT_NO_REPLY, error=error), at)
            return
        session.move("ready")
        self._tell_discarded(session, at)
        self._emit(events.SessionReady(session, replay.count, at))
        request = session.prompt_request
        if request is None:
            return
        try:
            self._check_content(get_objects({"prompt": self._waiting_blocks(request)}, "prompt"))
        except LocalProtocolError as why:
            self._settle(request, "withdraw", Settlement("error", NOT_SENT, error=why), at)
            return
        self._release(session)

    def _waiting_blocks(self, request: OwnRequest) -> object:
        decoded = codec.decode('{"jsonrpc":"2.0"' + request.params, self.limits.max_depth)
        return get_list(decoded, "prompt") if isinstance(decoded, dict) else []

    def _fail(self, session: Session, step: str, settlement: Settlement, at: float) -> None:
        """Opening has failed: the waiting prompt settles, the handle ends."""
        error = settlement.error
        assert error is not None
        session.move("fail")
        self._session_count -= 1
        self._drop_id(session)
        self._timers.cancel(session.plan.replay.timer)
        request = session.prompt_request
        if request is not None:
            self._settle(request, "withdraw", Settlement("withdrawn", NOT_SENT, error=error), at)
        if self._state == OPEN:
            self._cancel_permissions(session, None, "close", at)
        self._tell_discarded(session, at)
        self._emit(events.SessionFailed(session, step, error, settlement.outcome, settlement.dispatch, at))

    def _tell_discarded(self, session: Session, at: float) -> None:
        replay = session.plan.replay
        if replay.count and not replay.report:
            self._emit(events.ReplayDiscarded(session, replay.count, replay.wire_bytes, at))

    def _drop_id(self, session: Session) -> None:
        if session.session_id is not None and self._sessions.get(session.session_id) is session:
            del self._sessions[session.session_id]

    # ── Prompts and turns ───────────────────────────────────────────────────────────────────────────────────────────

    def _check_place(self, admission: Admission) -> None:
        """Where the owner has one turn at a time on the whole connection: nobody has it."""
        if admission.one_turn != "connection":
            return
        holder = next(iter(self.busy_sessions), None) or next(
            (session for session in self._sessions.values() if session.state == FENCED), None
        )
        if holder is not None:
            local(
                "turn.one_at_a_time",
                f"session {holder.session_id} has the one turn of this connection ({holder.state}); wait for its end",
            )

    def _content(self, content: str | Sequence[Mapping[str, object]]) -> list[JsonObject]:
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        if isinstance(content, (bytes, bytearray, dict)) or not hasattr(content, "__iter__"):
            raise TypeError(f"content must be a str or a list of content blocks, not {type(content).__name__}")
        blocks = [self._checked_object(block, "a content block") for block in content]
        if not blocks:
            local("prompt.empty", "the prompt has no content; give a text or at least one content block")
        for block in blocks:
            if not isinstance(block.get("type"), str):
                local("prompt.content", f"a content block has no type: {clip(block)}")
        return blocks

    def _checked_object(self, value: object, what: str) -> JsonObject:
        if not isinstance(value, dict):
            raise TypeError(f"{what} must be a dict, not {type(value).__name__}")
        return value

    def _own_copy(self, value: object, what: str) -> JsonObject:
        text = codec.encode(self._checked_object(value, what), what, self.limits.max_depth)
        copy = codec.decode('{"jsonrpc":"2.0","value":' + text + "}", self.limits.max_depth)
        return get_object(copy, "value") if isinstance(copy, dict) else {}

    def _check_content(self, blocks: list[JsonObject]) -> None:
        for block in blocks:
            gate = CONTENT_GATES.get(get_str(block, "type") or "")
            if gate is not None and not gate.open(self._peer_capabilities):
                local("capability.missing", f"a block of type {block['type']} needs the agent's capability {gate}")

    def _release(self, session: Session) -> None:
        """The prompt goes to the output."""
        request = session.prompt_request
        assert request is not None
        assert session.session_id is not None
        session.move("prompt")
        params = f'{{"sessionId":{codec.encode_str(session.session_id)}{request.params}'
        request.params = ""
        self._send_own(request, codec.request_line(request.id, request.method.wire, params), None)

    def _sent(self, request: OwnRequest, now: float) -> None:
        session = request.session
        turn = request.turn
        if turn is not None and isinstance(session, Session):
            turn.sent_at = now
            self._emit(events.PromptSent(session, turn, request.id, now))
            return
        row = request.method
        sharing: list[Session] = []
        if row.key == "initialize":
            sharing = self._opening
        elif isinstance(session, Session) and session.state in OPENING:
            # A login is shared by all that wait for the same one.
            logins = self._authenticating if row.key == "authenticate" else []
            sharing = [one[0] for one in logins if one[1] == logins[0][1]] or [session]
        for waiting in sharing:
            self._emit(events.SessionStep(waiting, row.key, row.wire, "sent", None, now))

    def _prompt_settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        session = request.session
        turn = request.turn
        assert isinstance(session, Session)
        assert turn is not None
        self._timers.cancel(session.cancel_timer)
        session.prompt_request = None
        session.turn = None
        if settlement.dispatch != NOT_SENT:
            self._cancel_permissions(session, turn, "turn_end", at)
            if self._window is not None:
                self._leave_questions(self._window, session, at)
        if allows(SESSION, session.state, "turn_over"):
            session.move("turn_over")
        error = settlement.error
        asked = turn.cancel_asked
        result = settlement.result if isinstance(settlement.result, dict) else {}
        if error is None or (asked is not None and settlement.outcome == "error"):
            # The error of a cancelled prompt is an abort that leaked out: it counts as cancelled (spec.md rule 78).
            stop = (get_str(result, "stopReason") or "") if error is None else "cancelled"
            self._emit(events.TurnEnded(session, turn, request.id, stop, asked, error, result, settlement.line, at))
        else:
            self._emit(
                events.TurnFailed(
                    session,
                    turn,
                    request.id,
                    error,
                    settlement.outcome,
                    settlement.dispatch,
                    asked,
                    settlement.line,
                    at,
                )
            )

    def _withdraw_prompt(self, request: OwnRequest) -> None:
        if request.turn is not None:
            request.turn.cancel_asked = "owner"
        error = RequestError(REQUEST_CANCELLED, "the prompt was withdrawn before it was sent")
        self._settle(request, "withdraw", Settlement("withdrawn", NOT_SENT, error=error), self._now)

    def _prompt_deadline(self, session: Session, request: OwnRequest, at: float) -> None:
        if request.state in (WAITING, QUEUED):
            error = RequestTimeout("the prompt could not be sent in time")
            self._settle(request, "withdraw", Settlement("deadline", NOT_SENT, error=error), at)
        elif session.state == PROMPTING:
            session.then = REPORT
            self._cancel(session, self.limits.cancel_grace, "deadline")

    def _cancel(self, session: Session, deadline: float, by: str) -> None:
        row = self.methods["session_cancel"]
        self._answer(codec.notification_line(row.wire, f'{{"sessionId":{codec.encode_str(session.session_id or "")}}}'))
        turn = session.turn
        request = session.prompt_request
        if turn is None or request is None or session.state != PROMPTING:
            return
        session.move("cancel")
        turn.cancel_asked = by
        request.cancel_asked = True
        request.state = move(REQUEST, request.state, "cancel")
        session.cancel_timer = self._timers.after(deadline, lambda at: self._no_answer(session, request, at))
        self._cancel_permissions(session, None, "cancel", self._now)

    def _no_answer(self, session: Session, request: OwnRequest, at: float) -> None:
        if session.state == CANCELLING:
            session.move("no_answer")
        # While the session is being closed, too: when the agent refuses that, the fence stands.
        session.fenced = request
        error = RequestTimeout("no answer to the cancelled prompt in time")
        self._settle(request, "give_up", Settlement("deadline", SENT_NO_REPLY, error=error), at)
        self._emit(events.SessionFenced(session, request.turn, request.id, at))
        if session.state != FENCED:
            return
        if session.then == CLOSE_SESSION and self._state == OPEN:
            row = self.methods["session_close"]
            closing = self._new_request(row, session, None, self._close_settled)
            session.move("close")
            params = f'{{"sessionId":{codec.encode_str(session.session_id or "")}}}'
            self._send_own(closing, codec.request_line(closing.id, row.wire, params), session.close_deadline)
        elif session.then == CLOSE:
            self.close()

    def _late_answer(self, request: OwnRequest, raw: JsonObject, at: float) -> None:
        session = request.session
        if isinstance(session, Session) and session.fenced is request:
            session.fenced = None
            lifted = session.state in (FENCED, CLOSING)
            if session.state in (FENCED, CLOSING, CLOSED):
                session.move("late_answer")
            if lifted:
                self._emit(events.FenceLifted(session, request.turn, request.id, raw, at))
        elif isinstance(session, Session) and request.method.key == "session_close" and session.state != CLOSED:
            # The agent has closed it after all: nothing can be asked of the session any more.
            if "result" in raw:
                self._end_session(session, "closed", at)

    def _cancel_own(self, request: OwnRequest) -> None:
        session = request.session
        if request.turn is not None and isinstance(session, Session):
            self.cancel_turn(session)
        else:
            super()._cancel_own(request)

    # ── Other requests about a session ──────────────────────────────────────────────────────────────────────────────

    def _session_request(
        self,
        key: str,
        session: Session,
        params: Mapping[str, object],
        deadline: float | None,
        token: object,
        settle: Callable[[OwnRequest, Settlement, float], None],
    ) -> int:
        row = self.methods[key]
        self._check_duration("deadline", deadline)
        self._check_writable()
        self._check_open_requests()
        body = codec.encode({"sessionId": session.session_id, **params}, "the params", self.limits.max_depth)
        data = codec.request_line(self._next_id, row.wire, body)
        self._check_room(len(data))
        request = self._new_request(row, session, token, settle)
        request.params = body
        self._queue(data, request)
        self._set_deadline(request, deadline)
        return request.id

    def _mode_set(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        session = request.session
        if settlement.error is None and isinstance(session, Session):
            asked = codec.decode('{"jsonrpc":"2.0",' + request.params[1:], self.limits.max_depth)
            session.current_mode_id = get_str(asked, "modeId") if isinstance(asked, dict) else None
        self._settled(request, settlement, at)

    def _config_set(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        session = request.session
        result = settlement.result if isinstance(settlement.result, dict) else {}
        if isinstance(session, Session) and isinstance(result.get("configOptions"), list):
            session.config_options = get_objects(result, "configOptions")
        self._settled(request, settlement, at)

    def _close_settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        session = request.session
        assert isinstance(session, Session)
        if session.state == CLOSING:
            if settlement.error is None:
                self._end_session(session, "closed", at)
            elif settlement.outcome != "over":
                self._close_refused(session, at)
        self._settled(request, settlement, at)

    def _close_refused(self, session: Session, at: float) -> None:
        """The session lives on, in the state that it was in."""
        if session.fenced is not None:
            session.move("refused_in_fence")
        elif session.turn is None:
            session.move("refused")
        else:
            session.move("refused_in_turn" if session.turn.cancel_asked is None else "refused_in_cancel")

    def _end_session(self, session: Session, reason: str, at: float) -> None:
        """The handle is of no more use: its turn settles, its permissions are answered."""
        self._timers.cancel(session.plan.replay.timer)
        request = session.prompt_request
        if request is not None:
            error = ConnectionClosed(f"the session was closed: {reason}", dispatch=request.dispatch)
            event = "withdraw" if request.state in (WAITING, QUEUED) else "give_up"
            self._settle(request, event, Settlement("closed", request.dispatch, error=error), at)
        self._cancel_permissions(session, None, "close", at)
        session.move("closed" if session.state == CLOSING else "fail")
        self._emit(events.SessionClosed(session, reason, at))

    # ── Updates ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _update(self, params: JsonObject, line: str | bytes, at: float) -> Event | None:
        # Of all JSON values only an object takes a str as its subscript. Subscripts, and one handler for what is rare,
        # save 0.05 of json.loads a line against gets and checks.
        session: Session | None
        update: JsonObject
        try:
            session = self._sessions[params["sessionId"]]  # type: ignore[index] # a TypeError is caught
            update = params["update"]  # type: ignore[assignment] # a TypeError is caught
            cls, transcript, keep = UPDATES[update["sessionUpdate"]]  # type: ignore[index] # a TypeError is caught
        except (KeyError, TypeError):
            session_id = get_str(params, "sessionId")
            if session_id is None or type(params.get("update")) is not dict:
                return events.Malformed(_bad_update(params), line, at)
            session = self._sessions.get(session_id)
            update = get_object(params, "update")
            cls, transcript, keep = UPDATES.get(get_str(update, "sessionUpdate") or "", _UNKNOWN)
        if session is None or not session.live:
            return self._update_not_live(session, cls, transcript, params, line, at)
        turn = session.turn
        if turn is not None:
            if turn.sent_at is None and session.unsent:
                # The agent does not know of it yet.
                turn = None
            else:
                turn.updates += 1
                turn.last_at = at
        if keep is not None:
            self._keep(session, keep, cls, params, at)
        return cls(session, turn, update, line, "", at)

    def _keep(
        self,
        session: Session,
        keep: Callable[[Session, JsonObject, int], None],
        cls: type[events.Update],
        params: JsonObject,
        at: float,
    ) -> None:
        """What an update tells about the session, beside being reported."""
        update = get_object(params, "update")
        keep(session, update, self.limits.max_tool_calls)
        if cls is events.UsageUpdate and session.state not in REPLAY:
            for holder in (update, params):
                origin = get_str(get_object(get_object(holder, "_meta"), "_claude/origin"), "kind")
                if origin is not None and origin in self._cycle_origins:
                    # Behind the update itself, which is returned before anything in the queue is.
                    self._emit(events.CycleEnded(session, origin, at))
                    break

    def _update_not_live(
        self,
        session: Session | None,
        cls: type[events.Update],
        transcript: bool,
        params: JsonObject,
        line: str | bytes,
        at: float,
    ) -> Event | None:
        update = get_object(params, "update")
        session_id = get_str(params, "sessionId") or ""
        if session is None:
            why = "unknown"
            if self._creating:
                if self._hold(_Held(self.methods["session_update"], None, params, line)):
                    return None
                why = "overflow"
            return events.ForeignUpdate(session_id, update, why, line, at)
        if session.state == CLOSED:
            return events.ForeignUpdate(session_id, update, "closed", line, at)
        mark = "late" if session.state == FENCED else "replayed" if session.state in REPLAY else ""
        if session.in_tail:
            mark = "tail"
            if transcript and session.history_left:
                session.history_left -= 1
                mark = "replayed"
        keep = UPDATES.get(get_str(update, "sessionUpdate") or "", _UNKNOWN)[2]
        if keep is not None:
            self._keep(session, keep, cls, params, at)
        if transcript and session.state in REPLAY:
            replay = session.plan.replay
            replay.saw(len(line), at)
            if not replay.report:
                return None
        return cls(session, session.turn if session.in_tail else None, update, line, mark, at)

    def _hold(self, held: _Held) -> bool:
        """Keep a message until an outstanding session/new names its session. False past the bound."""
        if self._held_bytes + held.size + 256 > self.limits.max_held_bytes:
            return False
        self._held.append(held)
        self._held_bytes += held.size + 256
        return True

    def _release_held(self, session_id: str | None, at: float) -> None:
        """Work off what was held: for a session that is known now, or all that is left when no new one is coming."""
        if not self._held:
            return
        held_before, self._held = self._held, []
        for held in held_before:
            if session_id is not None and held.params.get("sessionId") != session_id:
                self._held.append(held)
                continue
            self._held_bytes -= held.size + 256
            if held.rpc_id is None:
                event = self._update(held.params, held.line, at)
                if event is not None:
                    self._emit(event)
            else:
                self._peer_request(held.rpc_id, held.method.wire, held.params, held.line, at)

    # ── Requests of the agent ───────────────────────────────────────────────────────────────────────────────────────

    def _session_of(self, row: Method, params: JsonObject) -> tuple[AnySession | None, Turn | None]:
        session = self._sessions.get(get_str(params, "sessionId") or "")
        if session is None or session.unsent:
            return session, None
        return session, session.turn

    def _gate_peer(self, row: Method, params: JsonObject) -> tuple[int, str] | None:
        refusal = super()._gate_peer(row, params)
        if refusal is None and row.key == "elicitation_create":
            mode = get_str(params, "mode") or ""
            gate = ELICITATION_MODES.get(mode)
            if gate is None or not gate.open(self._capabilities):
                return INVALID_PARAMS, f"elicitation mode {clip(mode)} was not advertised"
        return refusal

    def _admit(self, rpc_id: int | str, row: Method, params: JsonObject, line: str | bytes, at: float) -> None:
        if self._window is not None and not self._replaying:
            self._collect(rpc_id, row, params, line, at)
            return
        if row.session:
            session_id = get_str(params, "sessionId")
            session = self._sessions.get(session_id or "")
            if session is None or session.state == CLOSED:
                if session is None and self._creating and session_id and self._hold(_Held(row, rpc_id, params, line)):
                    return
                self._stranger(rpc_id, row, params, line, at)
                return
        super()._admit(rpc_id, row, params, line, at)

    def _stranger(self, rpc_id: int | str, row: Method, params: JsonObject, line: str | bytes, at: float) -> None:
        """A request about a session that is not open here: a permission is cancelled unasked (peer.md P9)."""
        session_id = get_str(params, "sessionId")
        reason = f"session {clip(session_id)} is not open on this connection"
        if row.key != "session_request_permission":
            self._refuse(rpc_id, row.wire, params, RESOURCE_NOT_FOUND, reason, line, at)
            return
        self._emit(events.RequestRefused(rpc_id, row.wire, params, session_id, 0, f"cancelled: {reason}", line, at))
        if self._answerable(rpc_id):
            self._answer(codec.result_line(rpc_id, permission_result(None)))

    def _raise_request(self, request: PeerRequest, line: str | bytes, at: float) -> None:
        session = request.session
        if isinstance(session, Session) and session.state in ENDING:
            # What it is about has been cancelled (peer.md P8).
            if self._cancel_question(request, "close" if session.state == CLOSING else "cancel", at):
                return
        if request.method.key != "session_request_permission":
            super()._raise_request(request, line, at)
            return
        assert isinstance(session, Session)
        tool_call = get_object(request.params, "toolCall")
        options = events.permission_options(request.params)
        known = session.tools.get(get_str(tool_call, "toolCallId") or "", (None, None))
        title, kind = get_str(tool_call, "title") or known[0], get_str(tool_call, "kind") or known[1]
        verdict = self._permissions.verdict(title, kind)
        # Of a tail without a snapshot nothing is known to be unanswered: nothing is allowed by itself (peer.md A5). Nor
        # is a tool call without a name, when its name may have been said before the tail began.
        unsure = (self._replaying and not self._restored) or (session.attached and title is None and kind is None)
        if verdict == ALLOW and unsure:
            verdict = ASK
        if verdict != ASK:
            self._answer_permission(request, "policy", verdict, self._permissions.choose(verdict, options), at)
            return
        super()._raise_request(request, line, at)
        self._limit_asking(request, lambda seconds, action: self._timers.at(at + seconds, action))

    def _limit_asking(self, request: PeerRequest, start: Callable[[float, Callable[[float], None]], Timer]) -> None:
        """Deny a held permission when nobody has answered it in time (peer.md P4)."""

        def deny(at: float) -> None:
            options = events.permission_options(request.params)
            self._answer_permission(request, "deadline", DENY, self._permissions.choose(DENY, options), at)

        request.timer = start(self._permissions.ask_deadline, deny)

    def _answer_permission(
        self, request: PeerRequest, by: str, verdict: str, option: PermissionOption | None, at: float
    ) -> None:
        """Answer a permission without its owner, and say so."""
        option_id = option.option_id if option is not None else None
        session = request.session
        if not isinstance(session, Session):
            # It was restored, and its session was never attached.
            self._answer_unasked(request, permission_result(option_id), f"answered {verdict}: {by}", at)
            return
        self._forget_peer_request(request, "answer")
        self._answer(codec.result_line(request.rpc_id, permission_result(option_id)))
        self._emit(
            events.PermissionAnswered(
                session, request.turn, request.request_id, request.rpc_id, request.params, by, verdict, option_id, at
            )
        )

    def _answer_unasked(self, request: PeerRequest, result: str, reason: str, at: float) -> None:
        row = request.method
        self._forget_peer_request(request, "answer")
        self._answer(codec.result_line(request.rpc_id, result))
        self._emit(
            events.RequestAbandoned(
                request.request_id, request.rpc_id, row.key, row.wire, request.session, reason, at, request.turn
            )
        )

    def _cancel_permissions(self, session: Session, turn: Turn | None, by: str, at: float) -> None:
        """Answer the open permissions and elicitations of a session (of one turn of it) with cancelled."""
        for request in [*self._peer_requests.values()]:
            if request.session is session and (turn is None or request.turn is turn):
                self._cancel_question(request, by, at)

    def _cancel_question(self, request: PeerRequest, by: str, at: float) -> bool:
        """Answer a permission or an elicitation with cancelled. False for any other request: its handler answers it."""
        if request.method.key not in QUESTIONS:
            return False
        if request.method.key == "session_request_permission":
            self._answer_permission(request, by, DENY, None, at)
        else:
            self._answer_unasked(request, QUESTIONS[request.method.key], f"answered cancel: {by}", at)
        return True

    def _notified(self, row: Method, params: JsonObject, line: str | bytes, at: float) -> bool:
        if self._window is not None and row.key == "cancel_request":
            for collected in self._window.take(params.get("requestId")):
                self._raise_collected(collected, at)
        return super()._notified(row, params, line, at)

    def _unmatched_as(self, why: str, rpc_id: object, at: float) -> None:
        if self._window is None or why != "history":
            return
        self._window.answers += 1
        for session in self._sessions.values():
            if session.in_tail and session.opened_id == rpc_id:
                # Here it was loaded or resumed: what stands before was replayed, or is of an earlier time.
                session.history_left = session.plan.replay.after
                self._emit(events.TailHistory(session, at))

    def _cancel_asked(self, request: PeerRequest, at: float) -> None:
        if request.method.key == "session_request_permission":
            self._answer_permission(request, "peer_cancel", DENY, None, at)
        else:
            super()._cancel_asked(request, at)

    def _closing(self) -> None:
        # No session will be named any more: what was held for one is answered as a stranger's.
        self._creating = 0
        self._release_held(None, self._now)

    def _close_peer_request(self, request: PeerRequest) -> None:
        if request.method.key == "session_request_permission":
            self._answer_permission(request, "close", DENY, None, self._now)
        else:
            super()._close_peer_request(request)

    # ── Handles, and the end ────────────────────────────────────────────────────────────────────────────────────────

    def _own_session(self, session: AnySession | str) -> Session:
        if isinstance(session, str):
            found = self._sessions.get(session)
            if found is None:
                local("session.unknown", f"no session {clip(session)} on this connection; use open_session()")
            return found
        if not isinstance(session, Session):
            raise TypeError(f"session must be a Session or its id, not {type(session).__name__}")
        if session.owner != self.nonce:
            local("session.unknown", f"{session!r} belongs to another connection")
        return session

    def _ready_session(self, session: Session | str) -> Session:
        handle = self._own_session(session)
        if handle.state not in (IDLE, PROMPTING, CANCELLING, FENCED):
            local("session.ready", f"session {handle.session_id} is {handle.state}; wait for SessionReady")
        return handle

    def _named_session(self, session: AnySession | str) -> tuple[Session | None, str]:
        handle = self._own_session(session)
        if handle.session_id is None:
            local("session.unnamed", "the agent has not named the session yet; wait for SessionOpened")
        return handle, handle.session_id

    def _broken(self, reason: str, at: float) -> None:
        for session in [*self._opening]:
            self._fail(session, "initialize", Settlement("over", NOT_SENT, error=ConnectionClosed(reason)), at)
        self._opening.clear()

    def _ending(self, reason: str, at: float) -> None:
        self._broken(reason, at)
        self._creating = 0
        self._release_held(None, at)
        for session in self._sessions.values():
            if session.state in OPENING:
                error = ConnectionClosed(reason, dispatch=SENT_NO_REPLY)
                self._timers.cancel(session.plan.replay.timer)
                session.move("fail")
                self._tell_discarded(session, at)
                self._emit(events.SessionFailed(session, session.plan.opened_by, error, "over", SENT_NO_REPLY, at))
            elif session.state != CLOSED:
                session.move("fail")


# ── Rules of version 1 that need no connection ──────────────────────────────────────────────────────────────────────


def stored_session(session: Session) -> JsonObject:
    """What a snapshot keeps of a session. A prompt counts once it was handed over; behind a fence it is the one whose
    answer may still come."""
    request = session.prompt_request
    if request is None or request.state in (WAITING, QUEUED):
        request = session.fenced
    turn = request.turn if request is not None else None
    return {
        "sessionId": session.session_id,
        "cwd": session.cwd,
        "promptId": turn.prompt_id if turn is not None else None,
        "identity": turn.identity if turn is not None else None,
        "openedId": session.opened_id,
        "historyLeft": session.plan.replay.after,
    }


def stored_request(request: PeerRequest) -> JsonObject:
    """What a snapshot keeps of an open request: enough to answer it, nothing of its content."""
    params: dict[str, object] = {"sessionId": get_str(request.params, "sessionId")}
    options = events.permission_options(request.params)
    if options:
        params["options"] = [
            {"optionId": option.option_id, "name": option.name, "kind": option.kind} for option in options
        ]
    return {
        "requestId": request.request_id,
        "rpcId": request.rpc_id,
        "key": request.method.key,
        "method": request.method.wire,
        "params": params,
        "print": request.fingerprint,
    }


def permission_result(option_id: str | None) -> str:
    """The result of a permission request as JSON: an option, or cancelled for None."""
    if option_id is None:
        return QUESTIONS["session_request_permission"]
    return f'{{"outcome":{{"outcome":"selected","optionId":{codec.encode_str(option_id)}}}}}'


def config_params(config_id: str, value: str | bool) -> dict[str, object]:
    """The params that set an option; only a boolean value has a type (spec.md 1.1)."""
    params: dict[str, object] = {"configId": config_id, "value": value}
    if isinstance(value, bool):
        params["type"] = "boolean"
    return params


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: a shorter name, or one with a qualifier in brackets (peer.md M4)."""
    left, right = _model_letters(one), _model_letters(other)
    return bool(left) and bool(right) and (left in right or right in left)


def _model_letters(name: str) -> str:
    depth = 0
    letters: list[str] = []
    for letter in name.lower():
        if letter in "[(":
            depth += 1
        elif letter in "])":
            depth = max(0, depth - 1)
        elif not depth and letter.isascii() and letter.isalnum():
            letters.append(letter)
    return "".join(letters)


def setting(session: Session, config_id: str, value: str | bool) -> tuple[str, dict[str, object], bool]:
    """How to set an option, or the model for an empty id: method key, params, and whether it is so already."""
    for option in session.config_options or []:
        found = get_str(option, "id")
        if found is not None and (found == config_id or (not config_id and is_model(option))):
            return "session_set_config_option", config_params(found, value), option.get("currentValue") == value
    if not config_id and session.models is not None:
        return "session_set_model", {"modelId": value}, session.model == value
    return "", {}, False


def unconfirmed(session: Session, config_id: str, value: str | bool) -> object:
    """What the agent confirmed instead of ``value``; None when it confirmed it, or does not name it."""
    if config_id:
        option = next((one for one in session.config_options or [] if one.get("id") == config_id), {})
        current = option.get("currentValue")
        return None if current == value else current
    model = session.model
    return None if model is None or same_model(model, str(value)) else model


def _keep_tool(session: Session, update: JsonObject, limit: int) -> None:
    tool_id = get_str(update, "toolCallId")
    if tool_id is not None:
        title, kind = session.tools.pop(tool_id, (None, None))
        session.tools[tool_id] = (get_str(update, "title") or title, get_str(update, "kind") or kind)
        if len(session.tools) > limit:
            del session.tools[next(iter(session.tools))]


def _keep_mode(session: Session, update: JsonObject, limit: int) -> None:
    session.current_mode_id = get_str(update, "currentModeId") or get_str(update, "modeId")


def _keep_config(session: Session, update: JsonObject, limit: int) -> None:
    session.config_options = get_objects(update, "configOptions")


def _keep_commands(session: Session, update: JsonObject, limit: int) -> None:
    session.available_commands = get_objects(update, "availableCommands")


def _keep_usage(session: Session, update: JsonObject, limit: int) -> None:
    session.usage = update


def _keep_info(session: Session, update: JsonObject, limit: int) -> None:
    if "title" in update:
        session.title = get_str(update, "title")


def _bad_update(params: object) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"an update without a sessionId string and an update object: {clip(params)}",
        rule="update.params",
        code=INVALID_PARAMS,
    )


# What a kind of update becomes; whether it is a piece of the transcript (else it is the whole of some state); and what
# the session's handle keeps of it.
UPDATES: dict[str, tuple[type[events.Update], bool, Callable[[Session, JsonObject, int], None] | None]] = {
    "user_message_chunk": (events.UserMessageChunk, True, None),
    "agent_message_chunk": (events.AgentMessageChunk, True, None),
    "agent_thought_chunk": (events.AgentThoughtChunk, True, None),
    "tool_call": (events.ToolCall, True, _keep_tool),
    "tool_call_update": (events.ToolCallUpdate, True, _keep_tool),
    "plan": (events.Plan, True, None),
    "available_commands_update": (events.AvailableCommandsUpdate, False, _keep_commands),
    "current_mode_update": (events.CurrentModeUpdate, False, _keep_mode),
    "config_option_update": (events.ConfigOptionUpdate, False, _keep_config),
    "session_info_update": (events.SessionInfoUpdate, False, _keep_info),
    "usage_update": (events.UsageUpdate, False, _keep_usage),
}
_UNKNOWN = (events.UnknownUpdate, True, None)
