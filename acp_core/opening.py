"""How a session comes to be: one handshake and one login for all, then the plan of each session: create or reopen, the
replay window, model and options, ready."""

from __future__ import annotations

from . import codec, events
from .codec import decode, encode
from .connection import Connection
from .errors import (
    ANSWERED,
    NOT_SENT,
    SENT_NO_REPLY,
    ConnectionClosed,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    check_type,
    check_word,
    clip,
    is_absolute,
    items,
    local,
    names,
)
from .events import get_object, get_objects, get_str
from .methods import CLIENT, Gate, Method
from .replay import Replay
from .requests import OwnRequest, Settlement, appended
from .sessions import Plan, Session
from .settings import setting, unconfirmed
from .shapes import check_shape
from .state import CLOSED, CONNECTION, FENCED, NEW, OPEN, OVERDUE, allows, move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final, Unpack

    from .connection import JsonObject
    from .options import ConnectionOptions, ReplayChoice
    from .sessions import Turn

MCP_GATES = {"http": Gate("bool", "mcpCapabilities", "http"), "sse": Gate("bool", "mcpCapabilities", "sse")}
DIRECTORIES_GATE = Gate("object", "sessionCapabilities", "additionalDirectories")

# An id with as many digits as one can have.
END_OF_IDS = 2**53

UNATTENDED = "unattended"
REPORT: Final = "report"
DISCARD: Final = "discard"


class OpeningClient(Connection):
    """A client that can shake hands, log in and open sessions. Arguments: as ``ClientConnection``."""

    __slots__ = (
        "_auth_methods",
        "_authenticating",
        "_authentication",
        "_creating",
        "_initialize_params",
        "_opening",
        "_session_count",
        "_sessions",
    )

    def __init__(
        self,
        *,
        capabilities: Mapping[str, object] | None = None,
        info: Mapping[str, object] | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        super().__init__(CLIENT, **options)
        params: dict[str, object] = {"protocolVersion": self.methods.version, "clientCapabilities": {}}
        for name, value in (("clientCapabilities", capabilities), ("clientInfo", info)):
            if value is not None:
                check_type(name, value, dict, "a dict")
                params[name] = value
        check_shape(self.methods["initialize"].params, params, "the arguments of the client")
        self._initialize_params = encode(params, "the params of initialize", self.limits.max_depth)
        decoded = decode('{"jsonrpc":"2.0","params":' + self._initialize_params + "}", self.limits.max_depth)
        # A copy of its own: what was advertised does not change when the caller's dict does.
        self._capabilities = (
            get_object(get_object(decoded, "params"), "clientCapabilities") if isinstance(decoded, dict) else {}
        )
        self._auth_methods: tuple[JsonObject, ...] = ()
        self._sessions: dict[str, Session] = {}
        self._opening: list[Session] | tuple[()] = ()
        # Sessions that are opening, open, or ended and still known.
        self._session_count = 0
        self._authentication: str = ""
        self._authenticating: list[tuple[Session, str, Callable[[Session, float], None]]] | tuple[()] = ()
        self._creating = 0

    # ── Getters ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions whose ids are known, closed ones included."""
        return tuple(self._sessions.values())

    @property
    def auth_methods(self) -> list[JsonObject]:
        """The ways to log in that the agent advertised, as they stood on the wire."""
        return [*self._auth_methods]

    def session(self, session_id: str) -> Session | None:
        """The session with an id of the agent, or None."""
        return self._sessions.get(session_id)

    # ── Intents ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def initialize(self, *, deadline: float | None = 60.0, token: object = None) -> int:
        """Send initialize; Initialized follows, and RequestSettled with ``token``. ``open_session`` does it by itself.

        Without an answer in ``deadline`` seconds it settles, and the connection is ``overdue``: nothing can be opened
        until the late answer comes, which is taken. After an error it can be sent again.

        Returns: the JSON-RPC id.

        Raises:
            LocalProtocolError: it was sent before; or the connection cannot be written.
        """
        self._check_duration("deadline", deadline)
        self._check_writable()
        self._check_answered()
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
        replay: ReplayChoice = DISCARD,
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
        check_word("replay", replay, (DISCARD, REPORT), "session.replay")
        for name, seconds in (
            ("replay_quiet", replay_quiet),
            ("replay_max", replay_max),
            ("step_deadline", step_deadline),
            ("authenticate_deadline", authenticate_deadline),
        ):
            if seconds is None:
                raise TypeError(f"{name} must be a number of seconds, not None")
            self._check_duration(name, seconds)
        directories = names("additional_directories", additional_directories, "paths")
        for directory in directories:
            if not is_absolute(directory):
                local("path.absolute", f"additional directory {clip(directory)}: paths of the protocol are absolute")
        if config is not None:
            check_type("config", config, dict, "a dict or None")
            for name, value in config.items():
                check_type("an option's id", name, str, "a str")
                if not isinstance(value, (str, bool)):
                    raise TypeError(f"the value of option {clip(name)} must be a str or a bool, not {type(value)}")
        given = items("mcp_servers", mcp_servers, "dicts")
        servers = [self._own_copy(server, "an MCP server") for server in given]
        setup: dict[str, object] = {"cwd": cwd, "mcpServers": servers}
        if directories:
            setup["additionalDirectories"] = directories
        if meta is not None:
            setup["_meta"] = self._checked_object(meta, "meta")
        check_shape(self.methods["session_new"].params, setup, "what the session is opened with")
        # Once and now: what cannot be written is the caller's fault, and no event's.
        setup_params = codec.encode(setup, "what the session is opened with", self.limits.max_depth)[:-1]
        self._check_writable()
        self._check_answered()
        self._check_opening(setup_params, resume)
        if self._session_count >= self.limits.max_sessions:
            local("limits.max_sessions", f"{self.limits.max_sessions} sessions are known here; use another connection")
        plan = Plan(
            cwd=cwd,
            resume=resume,
            setup=setup_params,
            mcp_servers=servers,
            directories=bool(directories),
            auth=auth,
            model=model,
            config=config or {},
            replay=Replay(replay_quiet, replay_max, replay == REPORT),
            fresh_if_refused=fresh_if_refused,
            step_deadline=step_deadline,
            authenticate_deadline=authenticate_deadline,
        )
        session = Session(self._mark, plan, token)
        self._session_count += 1
        if self._state == OPEN:
            self._start(session, self._now)
        else:
            self._opening = appended(self._opening, session)
            if self._state == NEW:
                self._initialize(step_deadline, None)
        return session

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

    # ── The handshake ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _initialize(self, deadline: float | None, token: object) -> OwnRequest:
        row = self.methods["initialize"]
        self._state = move(CONNECTION, self._state, "initialize")
        request = self._new_request(row, None, token, self._initialize_settled)
        self._send_own(request, codec.request_line(request.id, row.wire, self._initialize_params), deadline)
        return request

    def _initialize_settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        error = settlement.error
        if error is None:
            error = self._shake_hands(settlement.result, at)
            if error is not None:
                settlement = Settlement("invalid", ANSWERED, error=error, line=settlement.line)
        else:
            given_up = settlement.outcome == "deadline" and settlement.dispatch != NOT_SENT
            self._not_initialized("no_answer" if given_up else "refused")
        waiting, self._opening = self._opening, ()
        self._settled(request, settlement, at)
        for session in waiting:
            self._step_done(session, request, error, at)
            if error is None:
                self._start(session, at)
            else:
                self._fail(session, "initialize", settlement, at)

    def _shake_hands(self, value: object, at: float) -> RemoteProtocolError | None:
        """Take the agent's answer to initialize; or say why it is none."""
        result = value if isinstance(value, dict) else {}
        version = result.get("protocolVersion")
        if version.__class__ is not int or version != self.methods.version:
            error = RemoteProtocolError(
                f"the agent answered protocol version {clip(version)}; this side speaks {self.methods.version}",
                rule="initialize.version",
            )
            self._not_initialized("refused")
            # There is nothing that both sides speak (spec rule 27).
            self._fatal = (str(error), error)
            return error
        self._state = move(CONNECTION, self._state, "initialized")
        self._version = self.methods.version
        self._peer_capabilities = get_object(result, "agentCapabilities")
        self._auth_methods = (*get_objects(result, "authMethods"),)
        self._emit(
            events.Initialized(
                self._version,
                self._peer_capabilities,
                get_object(result, "agentInfo"),
                self.auth_methods,
                result,
                at,
            )
        )
        return None

    def _not_initialized(self, event: str) -> None:
        if allows(CONNECTION, self._state, event):
            self._state = move(CONNECTION, self._state, event)

    def _late_answer(self, request: OwnRequest, raw: JsonObject, at: float) -> None:
        if request.method.key != "initialize":
            return
        if "result" in raw:
            # The agent has taken it, and would refuse another one: the connection is open after all.
            self._shake_hands(raw["result"], at)
        else:
            self._not_initialized("refused")

    def _check_answered(self) -> None:
        if self._state == OVERDUE:
            local(
                "initialize.overdue",
                "the agent has not answered initialize in time, and takes it once: wait for Initialized, or make a new "
                "connection",
            )

    def _check_open(self) -> None:
        self._check_writable()
        self._check_answered()
        if self._state != OPEN:
            local("initialize.first", f"the connection is {self._state}; call initialize() or open_session() first")

    def _outgoing_row(self, wire: str, kind: str) -> Method:
        row = super()._outgoing_row(wire, kind)
        self._check_open()
        return row

    def _broken(self, reason: str, at: float) -> None:
        for session in [*self._opening]:
            self._fail(session, "initialize", Settlement("over", NOT_SENT, error=ConnectionClosed(reason)), at)
        self._opening = ()

    # ── Logging in ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _log_in(self, session: Session, method_id: str, resume: Callable[[Session, float], None], at: float) -> None:
        """One login for the connection; every session that needs it waits for the same answer."""
        if self._authentication == method_id:
            resume(session, at)
            return
        refusal = self._auth_refusal(method_id)
        if refusal is not None:
            self._fail(session, "authenticate", Settlement("error", NOT_SENT, error=refusal), at)
            return
        self._authenticating = appended(self._authenticating, (session, method_id, resume))
        if len(self._authenticating) > 1:
            return
        row = self.methods["authenticate"]

        def settled(request: OwnRequest, settlement: Settlement, at: float) -> None:
            waiting, self._authenticating = self._authenticating, ()
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
                    # A failed automatic login does not fail the open (client rule M1): the session call may still do.
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

    # ── The plan of one session ───────────────────────────────────────────────────────────────────────────────────────

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
        if refusal is None and key != "session_new":
            refusal = self._taken(session)
        if refusal is not None:
            self._fail(session, key, Settlement("error", NOT_SENT, error=refusal), at)
            return
        # The same for all three: what the session was first opened with is sent again (client rule L2).
        params = f"{plan.setup}}}"
        if key == "session_new":
            session.move("create")
            self._creating += 1
        else:
            assert plan.resume is not None
            params = f'{plan.setup},"sessionId":{codec.encode_str(plan.resume)}}}'
            session.move("load" if key == "session_load" else "resume")
            self._take_over(session, plan.resume, at)
        plan.opened_by = key
        self._plan_request(session, key, params, self._open_settled)

    def _taken(self, session: Session) -> LocalProtocolError | None:
        """While this one waited for the handshake or a login, the agent may have given its id to a new session."""
        known = self._sessions.get(session.plan.resume or "")
        if known is None or known is session or known.state in (CLOSED, FENCED):
            return None
        return LocalProtocolError(
            f"session {clip(known.session_id)} is open here by now ({known.state}); use its handle", rule="session.open"
        )

    def _check_opening(self, setup: str, resume: str | None) -> None:
        """No request of the plan may be longer than a line."""
        params = setup if resume is None else f'{setup},"sessionId":{codec.encode_str(resume)}'
        key = "session_new" if resume is None else "session_resume"
        size = len(codec.request_line(END_OF_IDS, self.methods[key].wire, params))
        if size > self.limits.max_line_bytes:
            local(
                "limits.max_line_bytes",
                f"the session is opened with {size} bytes; a line has at most {self.limits.max_line_bytes}",
            )

    def _setup_refusal(self, plan: Plan) -> LocalProtocolError | None:
        caps = self._peer_capabilities
        if plan.directories and not DIRECTORIES_GATE.open(caps):
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
        self, session: Session, key: str, params: str, settle: Callable[[OwnRequest, Settlement, float], None]
    ) -> None:
        """Send a step of the plan; ``params`` is JSON already."""
        row = self.methods[key]
        request = self._new_request(row, session, None, settle)
        self._send_own(request, codec.request_line(request.id, row.wire, params), session.plan.step_deadline)

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
                settlement = Settlement("invalid", ANSWERED, error=error, line=settlement.line)
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
            # What was asked and said in the refused session has nothing to do with the new one.
            self._cancel_permissions(session, None, "close", at)
            self._drop_id(session)
            session.session_id = None
            session.forget()
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
            whole = {"sessionId": session.session_id, **params}
            body = codec.encode(whole, "the params of an option", self.limits.max_depth)
            self._plan_request(session, key, body, self._setting_settled)
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
                settlement = Settlement("invalid", ANSWERED, error=error, line=settlement.line)
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
        self._session_ready(session, at)

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

    def _checked_object(self, value: object, what: str) -> JsonObject:
        if not isinstance(value, dict):
            raise TypeError(f"{what} must be a dict, not {type(value).__name__}")
        return value

    def _own_copy(self, value: object, what: str) -> JsonObject:
        text = codec.encode(self._checked_object(value, what), what, self.limits.max_depth)
        copy = codec.decode('{"jsonrpc":"2.0","value":' + text + "}", self.limits.max_depth)
        return get_object(copy, "value") if isinstance(copy, dict) else {}

    # ── What a session needs beside its plan ────────────────────────────────────────────────────────────────────────

    def _session_ready(self, session: Session, at: float) -> None:
        """For a subclass: the session takes a prompt from here on."""

    def _end_session(self, session: Session, reason: str, at: float) -> None:
        """For a subclass: the handle is of no more use: its turn settles, its questions are answered."""

    def _cancel_permissions(self, session: Session, turn: Turn | None, by: str, at: float) -> None:
        """For a subclass: answer what the agent asks the user in a session (in one turn of it) with cancelled."""

    def _release_held(self, session_id: str | None, at: float) -> None:
        """For a subclass: a session is known now, or (None) no new one is coming: work off what was held for it."""
