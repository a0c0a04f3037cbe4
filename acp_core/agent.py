"""The agent's end: the handshake's answer, sessions served, turns answered, updates sent."""

from __future__ import annotations

from . import codec, events
from .connection import Connection
from .errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    check_type,
    clip,
    local,
)
from .events import get_object, get_str
from .methods import AGENT, V1, Method, MethodTable
from .requests import PeerRequest
from .state import (
    CANCELLING,
    CLOSED,
    CONNECTION,
    CREATING,
    IDLE,
    LOADING,
    NEW,
    PROMPTING,
    RESUMING,
    SERVED_SESSION,
    allows,
    move,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .connection import AnySession, JsonObject
    from .limits import Limits
    from .sessions import Turn

# Words for the three kinds of text that an agent streams, and what they are on the wire.
TEXT_KINDS = {
    "message": "agent_message_chunk",
    "thought": "agent_thought_chunk",
    "user": "user_message_chunk",
}
_SETUP = {"session_new": CREATING, "session_load": LOADING, "session_resume": RESUMING}


class ServedSession:
    """A session that this agent serves. ``session_id`` is ours; it is None until a new session was accepted."""

    __slots__ = ("cancelled", "cwd", "opened_by", "owner", "prefixes", "prompt", "session_id", "state")

    def __init__(self, owner: str, state: str, session_id: str | None, cwd: str) -> None:
        self.owner = owner
        self.state = state
        self.session_id = session_id
        self.cwd = cwd
        self.opened_by: str | None = None
        self.prompt: PeerRequest | None = None
        self.cancelled = False
        # Encoded beginnings of the chunks of this session, one a kind.
        self.prefixes: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"ServedSession({self.session_id!r}, {self.state})"

    @property
    def request_id(self) -> str | None:
        """The public id of the prompt in flight, or None."""
        return self.prompt.request_id if self.prompt is not None else None

    def move(self, event: str) -> None:
        """Walk the served session's table."""
        self.state = move(SERVED_SESSION, self.state, event)


class AgentConnection(Connection):
    """An agent's end of an ACP connection.

    Args:
        nonce, limits, methods, extensions, tail: as ``Connection``.
        capabilities: what this agent can do, as the ``agentCapabilities`` of the initialize result. Requests that need
            anything else are answered -32601 by the core.
        info: name, title and version of this agent (``agentInfo``).
        auth_methods: the ways to log in, as on the wire; without any, authenticate is answered -32601.

    Raises:
        TypeError, LocalProtocolError: as ``Connection``; or an argument is no JSON.
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
        auth_methods: Sequence[Mapping[str, object]] = (),
    ) -> None:
        super().__init__(AGENT, nonce=nonce, limits=limits, methods=methods, extensions=extensions, tail=tail)
        result: dict[str, object] = {"protocolVersion": methods.version, "agentCapabilities": {}}
        for name, value in (("agentCapabilities", capabilities), ("agentInfo", info)):
            if value is not None:
                check_type(name, value, dict, "a dict")
                result[name] = value
        for method in auth_methods:
            check_type("an auth method", method, dict, "a dict")
        result["authMethods"] = list(auth_methods)
        self._initialize_result = codec.encode(result, "the result of initialize", self.limits.max_depth)
        # A copy of its own: what was advertised does not change when the caller's dict does.
        decoded = codec.decode('{"jsonrpc":"2.0","result":' + self._initialize_result + "}", self.limits.max_depth)
        copy = get_object(decoded, "result") if isinstance(decoded, dict) else {}
        self._capabilities = get_object(copy, "agentCapabilities")
        self._auth_methods = events.get_objects(copy, "authMethods")
        self._sessions: dict[str, ServedSession] = {}

    # ── Getters ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def sessions(self) -> tuple[ServedSession, ...]:
        """The sessions that are known here, ended ones included."""
        return tuple(self._sessions.values())

    def session(self, session_id: str) -> ServedSession | None:
        """The session with this id, or None."""
        return self._sessions.get(session_id)

    # ── Intents ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def accept(
        self, request_id: str, session_id: str | None = None, result: Mapping[str, object] | None = None
    ) -> ServedSession:
        """Accept a NewSessionRequested, LoadSessionRequested or ResumeSessionRequested.

        ``session_id`` is the new session's id, unique here; for load and resume it is the one that was asked for.
        ``result`` has the other members of the answer: modes, configOptions, _meta.

        Returns: the session; updates may be sent from now on, the answer goes first.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: no such request is open, the id is empty or taken, or nothing can be written.
        """
        request = self._open_peer_request(request_id, "accept")
        if request.method.key not in _SETUP:
            local("session.accept", f"{clip(request_id)} is a {request.method.wire}; it opens no session")
        if result is not None:
            check_type("result", result, dict, "a dict")
        body: dict[str, object] = dict(result) if result is not None else {}
        if session_id is not None:
            check_type("session_id", session_id, str, "a str")
            body["sessionId"] = session_id
        self._respond_value(request, body)
        session = request.session
        assert isinstance(session, ServedSession)
        return session

    def respond(self, request_id: str, result: Mapping[str, object] | None = None) -> None:
        """Answer a request of the client with a result. The first answer counts.

        A result for session/new names the session (as ``accept``); one for session/prompt ends the turn, and once the
        client has cancelled it, ``cancelled`` is written whatever its stop reason says (spec.md rule 78).

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: no such request is open, the result is no JSON or breaks a rule, or nothing can be
                written.
        """
        request = self._open_peer_request(request_id, "answer")
        if result is not None:
            check_type("result", result, dict, "a dict")
        self._respond_value(request, dict(result) if result is not None else {})

    def end_turn(
        self,
        session: ServedSession | str,
        stop_reason: str = "end_turn",
        *,
        meta: Mapping[str, object] | None = None,
    ) -> None:
        """Answer the prompt of a session, or the prompt with a public request id: the turn is over.

        ``stop_reason`` is end_turn, max_tokens, max_turn_requests, refusal or cancelled. Once the client has cancelled
        the turn, ``cancelled`` is written whatever it says.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: no turn is open, the stop reason is not one of the five, or nothing can be written.
        """
        check_type("stop_reason", stop_reason, str, "a str")
        if isinstance(session, str) and session in self._peer_requests:
            request = self._peer_requests[session]
        else:
            handle = self._own_session(session)
            if handle.prompt is None:
                local("turn.none", f"session {handle.session_id} is {handle.state}: no prompt waits for an answer")
            request = handle.prompt
        if request.method.key != "session_prompt":
            local("turn.request", f"{request.request_id} is a {request.method.wire}, not a prompt")
        result: dict[str, object] = {"stopReason": stop_reason}
        if meta is not None:
            check_type("meta", meta, dict, "a dict")
            result["_meta"] = meta
        self._respond_value(request, result)

    def update(self, session: ServedSession | str, update: Mapping[str, object]) -> None:
        """Send one session/update: ``update`` is an object with ``sessionUpdate``, as on the wire.

        Allowed between turns too. A session that is being loaded takes its history; a new one takes nothing before it
        was accepted.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the session is not open, the update is no JSON or has no kind, or nothing can be
                written.
        """
        handle = self._speaking_session(session)
        check_type("update", update, dict, "a dict")
        if not isinstance(update.get("sessionUpdate"), str):
            local("update.kind", f'an update needs a "sessionUpdate" string: {clip(update)}')
        body = codec.encode(update, "the update", self.limits.max_depth)
        self._send_update(handle, body)

    def update_text(
        self, session: ServedSession | str, kind: str, message_id: str | None = None, *, delta: str
    ) -> None:
        """Send a piece of text: ``kind`` is ``"message"``, ``"thought"`` or ``"user"``.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the session is not open, the kind is unknown, or nothing can be written.
        """
        handle = self._speaking_session(session)
        if kind not in TEXT_KINDS:
            local("update.text_kind", f"kind is {clip(kind)}; it is one of {', '.join(TEXT_KINDS)}")
        check_type("delta", delta, str, "a str")
        # The beginning is the same for every chunk of a kind: encoding it once makes a chunk cost a fifth.
        prefix = handle.prefixes.get(kind)
        if prefix is None:
            wire = codec.encode_str(self.methods.wire("session_update"))
            session_id = codec.encode_str(handle.session_id or "")
            prefix = handle.prefixes[kind] = (
                f'{{"jsonrpc":"2.0","method":{wire},"params":{{"sessionId":{session_id},"update":'
                f'{{"sessionUpdate":"{TEXT_KINDS[kind]}","content":{{"type":"text","text":'
            )
        tail = "}}}}\n"
        if message_id is not None:
            check_type("message_id", message_id, str, "a str or None")
            tail = f'}},"messageId":{codec.encode_str(message_id)}}}}}}}\n'
        line = f"{prefix}{codec.encode_str(delta)}{tail}".encode("ascii")
        self._check_room(len(line))
        self._queue(line)

    def ask_permission(
        self,
        session: ServedSession | str,
        tool_call: Mapping[str, object],
        options: Sequence[Mapping[str, object]],
        *,
        deadline: float | None = None,
        token: object = None,
    ) -> int:
        """Ask the client whether a tool call may run. RequestSettled follows; its result has the ``outcome``.

        Returns: the JSON-RPC id.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the session is not open, no option is given, an option has no id, or nothing can be
                written.
        """
        handle = self._speaking_session(session)
        check_type("tool_call", tool_call, dict, "a dict")
        if not isinstance(tool_call.get("toolCallId"), str):
            local("permission.tool_call", f'tool_call needs a "toolCallId" string: {clip(tool_call)}')
        offered = list(options)
        if not offered:
            local("permission.options", "no option is offered; give at least one to allow and one to reject")
        for option in offered:
            check_type("an option", option, dict, "a dict")
            if not all(isinstance(option.get(name), str) for name in ("optionId", "name", "kind")):
                local("permission.options", f"an option needs optionId, name and kind strings: {clip(option)}")
        row = self.methods["session_request_permission"]
        self._check_duration("deadline", deadline)
        self._check_open_requests()
        params = {"sessionId": handle.session_id, "toolCall": tool_call, "options": offered}
        body = codec.encode(params, "the permission request", self.limits.max_depth)
        data = codec.request_line(self._next_id, row.wire, body)
        self._check_room(len(data))
        request = self._new_request(row, handle, token, self._settled)
        self._queue(data, request)
        self._set_deadline(request, deadline)
        return request.id

    # ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _respond_value(self, request: PeerRequest, result: dict[str, object]) -> None:
        key = request.method.key
        if key in _SETUP:
            self._accept(request, result)
            return
        if key == "session_prompt":
            self._end_turn(request, result)
            return
        body = codec.encode(result, "the result", self.limits.max_depth)
        super()._respond(request, body)
        session = request.session
        if key == "session_close" and isinstance(session, ServedSession):
            self._close_served(session)

    def _accept(self, request: PeerRequest, result: dict[str, object]) -> None:
        session = request.session
        assert isinstance(session, ServedSession)
        session_id = result.get("sessionId")
        if request.method.key == "session_new":
            if not isinstance(session_id, str) or not session_id:
                local("session.id", f"a new session needs an id: session_id is {clip(session_id)}; give a unique str")
            if session_id in self._sessions:
                local("session.id", f"session id {clip(session_id)} is taken; an id names one session for ever")
            if len(self._sessions) >= self.limits.max_sessions:
                local("limits.max_sessions", f"{self.limits.max_sessions} sessions are known here; refuse the request")
        else:
            if session_id is not None and session_id != session.session_id:
                local("session.id", f"session_id is {clip(session_id)}, but {session.session_id!r} was asked for")
            result = {name: value for name, value in result.items() if name != "sessionId"}
        super()._respond(request, codec.encode(result, "the result", self.limits.max_depth))
        if isinstance(session_id, str):
            session.session_id = session_id
            self._sessions[session_id] = session
        session.opened_by = None
        session.move("accept")

    def _end_turn(self, request: PeerRequest, result: dict[str, object]) -> None:
        session = request.session
        assert isinstance(session, ServedSession)
        stop_reason = result.get("stopReason")
        if stop_reason not in events.STOP_REASONS:
            local("turn.stop_reason", f"stop reason {clip(stop_reason)}; it is one of {sorted(events.STOP_REASONS)}")
        if session.cancelled:
            result = {**result, "stopReason": "cancelled"}
        super()._respond(request, codec.encode(result, "the result", self.limits.max_depth))
        self._turn_over(session)

    def _turn_over(self, session: ServedSession) -> None:
        session.prompt = None
        session.cancelled = False
        if allows(SERVED_SESSION, session.state, "turn_over"):
            session.move("turn_over")

    def _respond_error(self, request: PeerRequest, code: int, message: str, data: str | None) -> None:
        session = request.session
        key = request.method.key
        if key == "session_prompt" and isinstance(session, ServedSession):
            if session.cancelled:
                # An abort that leaks out as an error is still a cancelled turn (spec.md rule 78).
                super()._respond(request, '{"stopReason":"cancelled"}')
            else:
                super()._respond_error(request, code, message, data)
            self._turn_over(session)
            return
        super()._respond_error(request, code, message, data)
        if key in _SETUP and isinstance(session, ServedSession):
            session.opened_by = None
            session.move("refuse")

    def _close_served(self, session: ServedSession) -> None:
        """session/close was answered: a prompt that is still open ends as cancelled (spec.md rule 62)."""
        prompt = session.prompt
        if prompt is not None:
            self._forget_peer_request(prompt, "answer")
            self._answer(codec.result_line(prompt.rpc_id, '{"stopReason":"cancelled"}'))
            self._abandoned(prompt, "the session was closed")
            self._turn_over(session)
        session.move("close")

    def _abandoned(self, request: PeerRequest, reason: str) -> None:
        row = request.method
        self._emit(
            events.RequestAbandoned(
                request.request_id, request.rpc_id, row.key, row.wire, request.session, reason, self._now
            )
        )

    def _close_peer_request(self, request: PeerRequest) -> None:
        session = request.session
        if request.method.key == "session_prompt" and isinstance(session, ServedSession) and session.cancelled:
            self._answer(codec.result_line(request.rpc_id, '{"stopReason":"cancelled"}'))
            self._abandon(request, "the connection was closed", self._now)
        else:
            super()._close_peer_request(request)

    # ── Requests and notifications of the client ────────────────────────────────────────────────────────────────────

    def _gate_peer(self, row: Method, params: JsonObject) -> tuple[int, str] | None:
        if row.key == "initialize":
            if self._state != NEW:
                return INVALID_REQUEST, "initialize goes out once, at the start"
            version = params.get("protocolVersion")
            if version.__class__ is not int or not 0 <= version <= 65535:
                return INVALID_PARAMS, f"protocolVersion must be an integer from 0 to 65535, not {clip(version)}"
            return None
        if self._state == NEW:
            return INVALID_REQUEST, f"{row.wire} came before initialize"
        if row.key == "authenticate" and not self._auth_methods:
            return METHOD_NOT_FOUND, "no way to log in was advertised"
        return super()._gate_peer(row, params)

    def _admit(self, rpc_id: int | str, row: Method, params: JsonObject, line: str | bytes, at: float) -> None:
        if row.key == "initialize":
            self._answer_initialize(rpc_id, params, at)
            return
        refusal = self._session_refusal(row, params)
        if refusal is not None:
            self._refuse(rpc_id, row.wire, params, refusal[0], refusal[1], line, at)
            return
        super()._admit(rpc_id, row, params, line, at)

    def _session_refusal(self, row: Method, params: JsonObject) -> tuple[int, str] | None:
        """Why a request about a session cannot be raised: code and reason, or None."""
        if not row.session and row.key != "session_new":
            return None
        session_id = get_str(params, "sessionId")
        session = self._sessions.get(session_id or "")
        if row.key == "session_new":
            return None
        if session_id is None:
            return INVALID_PARAMS, "params have no sessionId string"
        if row.key in _SETUP:
            if session is not None and session.state not in (IDLE, CLOSED):
                return INVALID_REQUEST, f"session {clip(session_id)} is {session.state}"
            return None
        if row.key == "session_close" and session is None:
            return RESOURCE_NOT_FOUND, f"session {clip(session_id)} is not open here"
        if session is None or session.state in (CLOSED, LOADING, RESUMING):
            return RESOURCE_NOT_FOUND, f"session {clip(session_id)} is not open here"
        if row.key == "session_prompt":
            if session.state != IDLE:
                return INVALID_REQUEST, f"session {clip(session_id)} is {session.state}: one prompt at a time"
            if not isinstance(params.get("prompt"), list):
                return INVALID_PARAMS, "params have no prompt list"
        return None

    def _session_of(self, row: Method, params: JsonObject) -> tuple[AnySession | None, Turn | None]:
        session_id = get_str(params, "sessionId")
        if row.key == "session_new":
            return ServedSession(self.nonce, CREATING, None, get_str(params, "cwd") or ""), None
        session = self._sessions.get(session_id or "")
        if row.key in _SETUP and session is None:
            return ServedSession(self.nonce, _SETUP[row.key], session_id, get_str(params, "cwd") or ""), None
        return session, None

    def _raise_request(self, request: PeerRequest, line: str | bytes, at: float) -> None:
        session = request.session
        key = request.method.key
        if isinstance(session, ServedSession):
            if key in ("session_load", "session_resume"):
                assert session.session_id is not None
                if self._sessions.get(session.session_id) is session:
                    session.move("load" if key == "session_load" else "resume")
                    session.cwd = get_str(request.params, "cwd") or ""
                self._sessions[session.session_id] = session
                session.opened_by = request.request_id
            elif key == "session_prompt":
                session.prompt = request
                session.move("prompt")
        super()._raise_request(request, line, at)

    def _answer_initialize(self, rpc_id: int | str, params: JsonObject, at: float) -> None:
        # Any other version is answered with the one that is spoken here; the client decides (spec.md rule 26).
        self._state = move(CONNECTION, self._state, "initialize")
        self._answer(codec.result_line(rpc_id, self._initialize_result))
        self._state = move(CONNECTION, self._state, "initialized")
        self._version = self.methods.version
        self._peer_capabilities = get_object(params, "clientCapabilities")
        self._emit(
            events.Initialized(self._version, self._peer_capabilities, get_object(params, "clientInfo"), [], params, at)
        )

    def _notified(self, row: Method, params: JsonObject, line: str | bytes, at: float) -> bool:
        if row.key != "session_cancel":
            return super()._notified(row, params, line, at)
        session_id = get_str(params, "sessionId")
        session = self._sessions.get(session_id or "")
        if session_id is None:
            return False
        request_id = session.request_id if session is not None else None
        if session is not None:
            self._cancel_served(session)
        self._emit(events.TurnCancelReceived(session, session_id, request_id, at))
        return True

    def _cancel_served(self, session: ServedSession) -> None:
        if session.state in (PROMPTING, CANCELLING):
            session.move("cancel")
            session.cancelled = True

    def _cancel_asked(self, request: PeerRequest, at: float) -> None:
        session = request.session
        if request.method.key == "session_prompt" and isinstance(session, ServedSession):
            self._cancel_served(session)
        super()._cancel_asked(request, at)

    def _abandon(self, request: PeerRequest, reason: str, at: float) -> None:
        super()._abandon(request, reason, at)
        session = request.session
        if not isinstance(session, ServedSession):
            return
        if session.prompt is request:
            self._turn_over(session)
        elif request.method.key in _SETUP and allows(SERVED_SESSION, session.state, "refuse"):
            session.move("refuse")

    # ── Checks ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _own_session(self, session: AnySession | str) -> ServedSession:
        if isinstance(session, str):
            found = self._sessions.get(session)
            if found is None:
                local("session.unknown", f"no session {clip(session)} on this connection; accept() makes one")
            return found
        if not isinstance(session, ServedSession):
            raise TypeError(f"session must be a ServedSession or its id, not {type(session).__name__}")
        if session.owner != self.nonce:
            local("session.unknown", f"{session!r} belongs to another connection")
        return session

    def _speaking_session(self, session: ServedSession | str) -> ServedSession:
        """A session about which something may be sent now."""
        handle = self._own_session(session)
        self._check_writable()
        if handle.state == CREATING:
            local("session.accept_first", "nothing about a new session may be sent before it was accepted")
        if handle.state == CLOSED:
            local("session.ended", f"session {handle.session_id} is closed: nothing may be sent about it")
        return handle

    def _send_update(self, session: ServedSession, update: str) -> None:
        row = self.methods["session_update"]
        params = f'{{"sessionId":{codec.encode_str(session.session_id or "")},"update":{update}}}'
        line = codec.notification_line(row.wire, params)
        self._check_room(len(line))
        self._queue(line)

    def _outgoing_row(self, wire: str, kind: str) -> Method:
        row = super()._outgoing_row(wire, kind)
        if self._state == NEW:
            local("initialize.first", "the client has not sent initialize yet: nothing may be asked of it")
        return row

    def _named_session(self, session: AnySession | str) -> tuple[ServedSession | None, str]:
        handle = self._speaking_session(self._own_session(session))
        return handle, handle.session_id or ""

    def _ending(self, reason: str, at: float) -> None:
        for session in self._sessions.values():
            session.move("close")
