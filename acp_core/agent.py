"""The agent's end: the handshake's answer, sessions served, turns answered, updates sent."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii

from . import codec, events
from .codec import decode, encode
from .connection import Connection
from .errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_SENT,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
    RequestError,
    StreamRevision,
    check_type,
    check_word,
    clip,
    is_absolute,
    items,
    local,
    refusal,
    request_error,
    unsupported_stream_revision,
)
from .events import OPTION_KINDS, get_object, get_objects, get_str
from .methods import (
    AGENT,
    BOOLEAN_OPTIONS,
    TERMINAL_LOGINS,
    UPDATE_GATES,
    V1,
    Gate,
    Method,
    MethodTable,
    is_line,
    wrong_place,
)
from .projection import TextLedger
from .requests import OwnRequest, PeerRequest, Settlement
from .shapes import UPDATES, check_shape
from .state import (
    CLOSED,
    CLOSING,
    CONNECTION,
    CREATING,
    IDLE,
    LOADING,
    NEW,
    OPEN,
    PROMPTING,
    QUEUED,
    RESUMING,
    SERVED_SESSION,
    UNWRITABLE,
    WAITING,
    allows,
    move,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from .connection import AnySession, JsonObject
    from .limits import Limits
    from .projection import Stream

    # The latest chunk of text of a session: who sent it, its kind and message id, what stands before and behind the
    # text, and where the text is kept.
    Chunk: TypeAlias = "tuple[AgentConnection, str, str | None, str, str, Stream, TextLedger]"

# Words for the three kinds of text that an agent streams, and what they are on the wire.
TEXT_KINDS = {
    "message": "agent_message_chunk",
    "thought": "agent_thought_chunk",
    "user": "user_message_chunk",
}
# What update_text did.
SENT, SAME, REVISED = "sent", "same", "revised"

_SETUP = {"session_new": CREATING, "session_load": LOADING, "session_resume": RESUMING}
_ADDITIONAL = Gate("object", "sessionCapabilities", "additionalDirectories")
# Updates that hold the whole of something, and so are no part of the history.
_WHOLE_STATE = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "session_info_update",
        "usage_update",
    }
)
_CHUNKS = frozenset(TEXT_KINDS.values())
_TOOL_CALLS = frozenset({"tool_call", "tool_call_update"})
# What goes out is of these, or begins with an underscore.
_KINDS = frozenset({*_CHUNKS, *_TOOL_CALLS, *_WHOLE_STATE, *UPDATE_GATES, "plan", "notice"})
# Requests to the client that nobody needs an answer to once their turn is over. What acts on the client's machine is
# not among them: it settles by itself, and a terminal outlives the turn.
_OF_A_TURN = frozenset({"session_request_permission", "elicitation_create", "fs_read_text_file"})


class ServedTurn:
    """A prompt of the client that is to be answered, and then the latest one that was.

    ``cancelled`` says that the client has cancelled it. ``given`` is what the owner ended it with, whatever was
    written: a stop reason, a RequestError, or None while it is open or when the core answered it. ``ledger`` has its
    text.
    """

    __slots__ = ("cancelled", "given", "ledger", "request")

    def __init__(self, request: PeerRequest, ledger: TextLedger) -> None:
        self.request = request
        self.ledger = ledger
        self.cancelled = False
        self.given: str | RequestError | None = None

    def __repr__(self) -> str:
        return f"ServedTurn({self.request_id!r}, cancelled={self.cancelled!r})"

    @property
    def request_id(self) -> str:
        """The public id of its prompt."""
        return self.request.request_id


class ServedSession:
    """A session that this agent serves. ``session_id`` is ours; it is None until a new session was accepted.

    ``turns`` are the open ones by the public ids of their prompts, ``last_turn`` is the latest that ended. ``ledger``
    has the text of the latest turn, and of what was said since.
    """

    __slots__ = (
        "accepted",
        "chunk",
        "closes",
        "cwd",
        "last_turn",
        "ledger",
        "offers",
        "opened_by",
        "owner",
        "prefixes",
        "session_id",
        "state",
        "turns",
    )

    def __init__(self, owner: object, state: str, session_id: str | None, cwd: str, ledger: TextLedger) -> None:
        self.owner = owner
        self.state = state
        self.session_id = session_id
        self.cwd = cwd
        self.opened_by: str | None = None
        # What its results and updates have offered: modes, configOptions, models.
        self.offers: set[str] = set()
        # It was opened here once: its id stays known.
        self.accepted = False
        self.turns: dict[str, ServedTurn] = {}
        self.last_turn: ServedTurn | None = None
        self.ledger = ledger
        # How many requests to close it are open.
        self.closes = 0
        # Encoded beginnings of the chunks of this session, one a kind. And the latest chunk, while nothing has changed
        # since.
        self.prefixes: dict[str, str] = {}
        self.chunk: Chunk | None = None

    def __repr__(self) -> str:
        return f"ServedSession({self.session_id!r}, {self.state})"

    @property
    def request_id(self) -> str | None:
        """The public id of the prompt in flight, the oldest where there are several, or None."""
        return next(iter(self.turns), None)

    @property
    def cancelled(self) -> bool:
        """The client has cancelled a turn that is open."""
        return any(turn.cancelled for turn in self.turns.values())

    def move(self, event: str) -> None:
        """Walk the served session's table."""
        self.state = move(SERVED_SESSION, self.state, event)
        self.chunk = None


_CHUNK_END = "}}}}\n"


class AgentConnection(Connection):
    """An agent's end of an ACP connection.

    Args:
        nonce, limits, methods, extensions, tail, codec: as ``Connection``.
        capabilities: what this agent can do, as the ``agentCapabilities`` of the initialize result. Requests that need
            anything else are answered -32601 by the core.
        info: name, title and version of this agent (``agentInfo``).
        auth_methods: the ways to log in, as on the wire; without any, authenticate is answered -32601.
        concurrent_prompts: take a prompt while another runs in its session; by default it is answered -32600, since
            updates do not say which turn they belong to. With several turns open, name the turn by the public id of
            its prompt wherever a session is asked for.

    Raises:
        TypeError, LocalProtocolError: as ``Connection``; or an argument is no JSON.
    """

    __slots__ = (
        "_asked_urls",
        "_auth_methods",
        "_chunk_room",
        "_concurrent_prompts",
        "_initialize_fields",
        "_of_turns",
        "_sessions",
        "_urls",
    )

    def __init__(
        self,
        *,
        nonce: str,
        limits: Limits | None = None,
        methods: MethodTable = V1,
        extensions: Iterable[str] = (),
        tail: bool = False,
        codec: Callable[[str], object] | None = None,
        capabilities: Mapping[str, object] | None = None,
        info: Mapping[str, object] | None = None,
        auth_methods: Sequence[Mapping[str, object]] = (),
        concurrent_prompts: bool = False,
    ) -> None:
        super().__init__(
            AGENT, nonce=nonce, limits=limits, methods=methods, extensions=extensions, tail=tail, codec=codec
        )
        result: dict[str, object] = {"protocolVersion": methods.version, "agentCapabilities": {}}
        for name, value in (("agentCapabilities", capabilities), ("agentInfo", info)):
            if value is not None:
                check_type(name, value, dict, "a dict")
                result[name] = value
        result["authMethods"] = logins = items("auth_methods", auth_methods, "dicts")
        for login in logins:
            check_type("an auth method", login, dict, "a dict")
        check_type("concurrent_prompts", concurrent_prompts, bool, "a bool")
        check_shape(methods["initialize"].result, result, "the arguments of the agent")
        text = encode(result, "the result of initialize", self.limits.max_depth)
        # A copy of its own: what was advertised does not change when the caller's dict does.
        decoded = decode('{"jsonrpc":"2.0","result":' + text + "}", self.limits.max_depth)
        self._initialize_fields = copy = get_object(decoded, "result") if isinstance(decoded, dict) else {}
        self._capabilities = get_object(copy, "agentCapabilities")
        self._auth_methods = get_objects(copy, "authMethods")
        self._concurrent_prompts = concurrent_prompts
        # A chunk below this, on top of output below this, passes no bound.
        self._chunk_room = min(self.limits.max_line_bytes, self.limits.max_output_bytes // 2)
        self._sessions: dict[str, ServedSession] = {}
        # Own requests that end with a turn, by JSON-RPC id.
        self._of_turns: dict[int, ServedTurn] = {}
        # Elicitations by URL: those that wait for an answer, by JSON-RPC id, and all that were not completed yet.
        self._asked_urls: dict[int, str] = {}
        self._urls: dict[str, None] = {}

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
        client has cancelled it, ``cancelled`` is written whatever its stop reason says (spec rule 78).

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: no such request is open, the result is no JSON or breaks a rule, or nothing can be
                written.
        """
        request = self._open_peer_request(request_id, "answer")
        if result is None:
            result = {}
        elif result.__class__ is not dict:
            check_type("result", result, dict, "a dict")
        if request.method.result is not None:
            self._respond_value(request, dict(result))
        else:
            body = codec.encode(result, "the result", self._max_depth)
            self._write_answer(request, codec.result_line(request.rpc_id, body))

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
        request = self._open_prompt(session)
        result: dict[str, object] = {"stopReason": stop_reason}
        if meta is not None:
            check_type("meta", meta, dict, "a dict")
            result["_meta"] = meta
        self._respond_value(request, result)

    def fail_turn(self, session: ServedSession | str, error: RequestError) -> None:
        """Answer the prompt of a session, or the prompt with a public request id, with an error.

        Once the client has cancelled the turn, ``cancelled`` is written instead; the error is kept in ``given``.
        ``errors.unsupported_interaction`` makes the error for work that waits for something nobody can present.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: no turn is open, the error is no JSON, or nothing can be written.
        """
        check_type("error", error, RequestError, "a RequestError")
        request = self._open_prompt(session)
        self.respond_error(request.request_id, error.code, error.message, error.data)

    def answer_list(
        self, request_id: str, sessions: Iterable[Mapping[str, object]], next_cursor: str | None = None
    ) -> None:
        """Answer a ListSessionsRequested: each session is an object with ``sessionId`` and ``cwd``, as on the wire.

        ``next_cursor`` is where a next request goes on; None when this was all.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: no such request is open, a session lacks its id or cwd, or nothing can be written.
        """
        request = self._open_peer_request(request_id, "answer")
        if request.method.key != "session_list":
            local("request.kind", f"{clip(request_id)} is a {request.method.wire}; it asks for no list")
        result: dict[str, object] = {"sessions": items("sessions", sessions, "dicts")}
        if next_cursor is not None:
            check_type("next_cursor", next_cursor, str, "a str or None")
            result["nextCursor"] = next_cursor
        self._respond_value(request, result)

    def end_session(self, session: ServedSession | str) -> None:
        """End a session from this side: open prompts are answered ``cancelled``, and its id is refused from here on.

        A second call is a no-op.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: no such session, or it is being opened.
        """
        handle = self._own_session(session)
        if handle.state in (CREATING, LOADING, RESUMING):
            local("session.opening", f"{handle!r} is being opened: answer that request with an error instead")
        self._close_served(handle)

    def update(self, session: ServedSession | str, update: Mapping[str, object]) -> None:
        """Send one session/update: ``update`` is an object with ``sessionUpdate``, as on the wire.

        Allowed between turns too. A session that is being loaded takes its history; a new one takes nothing before it
        was accepted.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the session is not open, the update is no JSON, its kind is not of the protocol and
                begins with no underscore, it breaks a rule of its kind, or nothing can be written.
        """
        handle = self._sessions.get(session) if session.__class__ is str else None
        if handle is None or handle.state != PROMPTING or self._state != OPEN:
            # Else it is what is looked at there: without the call a chunk costs 0.02 of json.dumps less.
            handle = self._speaking_session(session)
        if not isinstance(update, dict):
            check_type("update", update, dict, "a dict")
        kind = update.get("sessionUpdate")
        if not isinstance(kind, str):
            local("update.kind", f'an update needs a "sessionUpdate" string: {clip(update)}')
        if kind in _CHUNKS:
            # They come by the thousand, mostly as text: no call for such a one.
            try:
                content = update["content"]
                if (
                    content.__class__ is not dict
                    or content["text"].__class__ is not str
                    or content["type"] != "text"
                    or len(content) != 2
                    or (len(update) != 2 and (update["messageId"].__class__ is not str or len(update) != 3))
                ):
                    self._check_update(kind, update)
            except KeyError:
                self._check_update(kind, update)
        else:
            self._check_update(kind, update)
        if kind not in _WHOLE_STATE:
            if handle.state == RESUMING:
                self._check_history(handle)
            if handle.ledger.revision is not None and not handle.turns:
                local("turn.revised", f"text of {handle!r} was revised: nothing more is said until the next prompt")
        body = codec.encode(update, "the update", self._max_depth)
        line = f"{handle.prefixes.get('') or self._update_prefix(handle)}{body}}}}}\n".encode("ascii")
        size = len(line)
        if not size < self._chunk_room > self._output_bytes:
            self._check_room(size)
        self._output.append(line)
        self._output_bytes += size
        if kind == "config_option_update":
            handle.offers.add("configOptions")

    def update_text(
        self,
        session: ServedSession | str,
        kind: str,
        message_id: str | None = None,
        *,
        delta: str | None = None,
        offset: int | None = None,
        snapshot: str | None = None,
    ) -> str:
        """Say text, append-only: ``kind`` is ``"message"``, ``"thought"`` or ``"user"``. One atomic step.

        ``delta`` is a piece of it; with ``offset`` (code points) it starts there, and what the turn has said from there
        on must be the same. ``snapshot`` is the whole text as it is now. Either way only the piece that is missing goes
        out, as a chunk with the same message id. A snapshot that does not start with what was said is a revision: it
        cannot be shown, so the open prompt is answered -32603 with ``data.code`` ``unsupported_stream_revision``,
        nothing more is said for the turn, and TextRevised tells the owner.

        Returns: ``"sent"``; ``"same"`` when nothing was missing; or ``"revised"``, also for every later call of the
        turn.

        Raises:
            TypeError: an argument has a wrong type, or there is not exactly one of delta and snapshot.
            StreamGap, StreamConflict: the delta does not fit what was said; nothing has changed.
            LocalProtocolError: the session is not open, it is being resumed, the kind is unknown, or nothing can be
                written.
        """
        known = self._sessions.get(session) if type(session) is str else session
        if type(known) is ServedSession and offset is None and snapshot is None and type(delta) is str:
            # The next piece of the same text, as it comes by the thousand: everything was checked with the one before.
            if known.chunk is not None and delta and self._state == OPEN:
                owner, kind_before, id_before, prefix, tail, stream, ledger = known.chunk
                if message_id == id_before and kind == kind_before and owner is self:
                    line = f"{prefix}{encode_basestring_ascii(delta)}{tail}".encode("ascii")
                    size = len(line)
                    if size < self._chunk_room > self._output_bytes:
                        self._output.append(line)
                        self._output_bytes += size
                        ledger.extend(stream, delta)
                        return SENT
        handle = self._speaking_session(session)
        if handle.state == RESUMING:
            self._check_history(handle)
        turns = handle.turns
        ledger = handle.ledger
        if session.__class__ is str and session in turns:
            ledger = turns[session].ledger
        elif len(turns) > 1:
            local("turn.which", f"{len(turns)} turns are open in {handle!r}: name one by the request id of its prompt")
        if delta.__class__ is str and offset is None and snapshot is None and ledger.revision is None:
            text = delta
        else:
            try:
                text = ledger.missing(kind, message_id, delta=delta, offset=offset, snapshot=snapshot)
            except StreamRevision as why:
                self._revised(handle, ledger, why)
                return REVISED
        if not text:
            return SAME
        if kind.__class__ is not str:
            check_type("kind", kind, str, "a str")
        tail = _CHUNK_END
        if message_id is not None:
            check_type("message_id", message_id, str, "a str or None")
            tail = f'}},"messageId":{codec.encode_str(message_id)}}}}}}}\n'
        prefix = handle.prefixes.get(kind) or self._chunk_prefix(handle, kind)
        line = f"{prefix}{codec.encode_str(text)}{tail}".encode("ascii")
        self._check_room(len(line))
        self._queue(line)
        stream = ledger.add(kind, message_id, text)
        handle.chunk = (self, kind, message_id, prefix, tail, stream, ledger) if len(turns) < 2 else None
        return SENT

    def seed_text(self, session: ServedSession | str, kind: str, message_id: str | None, text: str) -> None:
        """Say that the client has this text of a message already: later calls of ``update_text`` are compared with it.

        Nothing goes out. For what another connection, or another turn, has sent to this client.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the session is not open, or the kind is unknown.
        """
        handle = self._own_session(session)
        turn = handle.turns.get(session) if isinstance(session, str) else None
        (turn or handle).ledger.seed(kind, message_id, text)
        handle.chunk = None

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
            LocalProtocolError: the session is not open, no option is given, an option has no id or no kind of the
                protocol, or nothing can be written.
        """
        handle = self._speaking_session(session)
        if not isinstance(tool_call, dict):
            check_type("tool_call", tool_call, dict, "a dict")
        if not isinstance(tool_call.get("toolCallId"), str):
            local("permission.tool_call", f'tool_call needs a "toolCallId" string: {clip(tool_call)}')
        check_tool_call(tool_call)
        offered = items("options", options, "dicts") if options.__class__ is not list else options
        if not offered:
            local("permission.options", "no option is offered; give at least one to allow and one to reject")
        for option in offered:
            if not isinstance(option, dict):
                check_type("an option", option, dict, "a dict")
            if not (
                isinstance(option.get("optionId"), str)
                and isinstance(option.get("name"), str)
                and option.get("kind") in OPTION_KINDS
            ):
                kinds = ", ".join(OPTION_KINDS)
                local("permission.options", f"an option has optionId, name and a kind of {kinds}: {clip(option)}")
        row = self.methods["session_request_permission"]
        if deadline is not None:
            self._check_duration("deadline", deadline)
        self._check_open_requests()
        params = {"sessionId": handle.session_id, "toolCall": tool_call, "options": offered}
        body = codec.encode(params, "the permission request", self._max_depth)
        data = codec.request_line(self._next_id, row.wire, body)
        self._check_room(len(data))
        turn = handle.turns.get(session) if isinstance(session, str) else None
        request = self._new_request(row, handle, token, self._settled)
        if turn is not None:
            self._of_turns[request.id] = turn
        self._queue(data, request)
        if deadline is not None:
            self._set_deadline(request, deadline)
        return request.id

    def request(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        session: AnySession | str | None = None,
        deadline: float | None = None,
        token: object = None,
    ) -> int:
        """Send a request to the client, as ``Connection.request``.

        An elicitation by URL stays open until it was refused, or accepted and then completed: until then its
        ``elicitationId`` cannot be used again.

        Raises:
            TypeError, LocalProtocolError: as ``Connection.request``; or an elicitation lacks its scope, its form or an
                id of its own.
        """
        id = super().request(method, params, session=session, deadline=deadline, token=token)
        if self._requests[id].method.key == "elicitation_create" and params is not None and params["mode"] == "url":
            name = str(params["elicitationId"])
            self._asked_urls[id] = name
            self._urls[name] = None
            if len(self._urls) > self.limits.max_open_requests:
                del self._urls[next(iter(self._urls))]
        return id

    def notify(
        self, method: str, params: Mapping[str, object] | None = None, *, session: AnySession | str | None = None
    ) -> None:
        """Send a notification to the client, as ``Connection.notify``. One that completes an elicitation goes out once.

        Raises:
            TypeError, LocalProtocolError: as ``Connection.notify``; or no such elicitation is open.
        """
        super().notify(method, params, session=session)
        row = self.methods.find(method)
        if row is not None and row.key == "elicitation_complete" and params is not None:
            self._urls.pop(str(params.get("elicitationId")), None)

    # ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _respond_value(self, request: PeerRequest, result: dict[str, object]) -> None:
        key = request.method.key
        if key in _SETUP:
            self._accept(request, result)
            return
        if key == "session_prompt":
            self._end_turn(request, result)
            return
        if key == "session_list":
            sessions = events.get_list(result, "sessions")
            if sessions != result.get("sessions") or not all(
                isinstance(item, dict)
                and isinstance(item.get("sessionId"), str)
                and is_absolute(get_str(item, "cwd") or "")
                for item in sessions
            ):
                local("session.list", f'an answer has "sessions", each with its sessionId and cwd: {clip(result)}')
        if key == "session_set_config_option":
            self._check_options("the answer", result.get("configOptions"), get_str(request.params, "configId"))
        self._check_result(request, result)
        body = codec.encode(result, "the result", self.limits.max_depth)
        super()._respond(request, body)
        session = request.session
        if key == "session_delete":
            session = self._sessions.get(get_str(request.params, "sessionId") or "")
        if key in ("session_close", "session_delete") and isinstance(session, ServedSession):
            session.closes -= key == "session_close"
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
        if result.get("configOptions") is not None:
            self._check_options("the answer", result["configOptions"])
        self._check_result(request, result)
        super()._respond(request, codec.encode(result, "the result", self.limits.max_depth))
        if isinstance(session_id, str):
            session.session_id = session_id
            self._sessions[session_id] = session
        session.opened_by = None
        # A session that is opened again may say less than at first; null takes back.
        session.offers |= {name for name, value in result.items() if value is not None}
        session.offers -= {name for name, value in result.items() if value is None}
        session.accepted = True
        session.move("accept")

    def _open_prompt(self, session: ServedSession | str) -> PeerRequest:
        """The open prompt with a public request id, or the only one of a session."""
        if isinstance(session, str) and session in self._peer_requests:
            request = self._peer_requests[session]
            if request.method.key != "session_prompt":
                local("turn.request", f"{request.request_id} is a {request.method.wire}, not a prompt")
            return request
        handle = self._own_session(session)
        if not handle.turns:
            local("turn.none", f"session {handle.session_id} is {handle.state}: no prompt waits for an answer")
        if len(handle.turns) > 1:
            local("turn.which", f"{len(handle.turns)} turns are open in {handle!r}: name one by its request id")
        (turn,) = handle.turns.values()
        return turn.request

    def _end_turn(self, request: PeerRequest, result: dict[str, object]) -> None:
        session = request.session
        assert isinstance(session, ServedSession)
        turn = session.turns[request.request_id]
        stop_reason = get_str(result, "stopReason")
        if stop_reason not in events.STOP_REASONS:
            local("turn.stop_reason", f"stop reason {clip(stop_reason)}; it is one of {sorted(events.STOP_REASONS)}")
        self._check_result(request, result)
        if turn.cancelled:
            result = {**result, "stopReason": "cancelled"}
        super()._respond(request, codec.encode(result, "the result", self.limits.max_depth))
        turn.given = stop_reason
        self._turn_over(session, turn)

    def _turn_over(self, session: ServedSession, turn: ServedTurn) -> None:
        del session.turns[turn.request_id]
        session.last_turn = turn
        session.ledger = [turn, *session.turns.values()][-1].ledger
        if not session.turns and allows(SERVED_SESSION, session.state, "turn_over"):
            session.move("turn_over")
        over = [
            id
            for id, asker in self._of_turns.items()
            if asker is turn or (not session.turns and asker.request.session is session)
        ]
        for id in over:
            del self._of_turns[id]
            request = self._requests.get(id)
            if request is not None:
                self._give_up(request)

    def _give_up(self, request: OwnRequest) -> None:
        """Nobody waits for this answer any more: the turn that asked is over."""
        if request.state in (WAITING, QUEUED):
            request.cancel_asked = True
            error = request_error(REQUEST_CANCELLED, "the turn was over before the request was sent")
            self._settle(request, "withdraw", Settlement("withdrawn", NOT_SENT, error=error), self._now)
            return
        if not request.cancel_asked:
            self._send_cancel(request)
        error = request_error(REQUEST_CANCELLED, "the turn was over before the answer came")
        self._settle(request, "give_up", Settlement("closed", request.dispatch, error=error), self._now)

    def _revised(self, session: ServedSession, ledger: TextLedger, why: StreamRevision) -> None:
        """Text that was sent is not so any more: nothing more of this turn is said, and its prompt fails."""
        if ledger.revision is not None:
            return
        ledger.revision = why
        session.chunk = None
        turn = next((turn for turn in session.turns.values() if turn.ledger is ledger), None)
        request_id = turn.request_id if turn is not None else None
        self._emit(events.TextRevised(session, request_id, why.kind, why.message_id, why, self._now))
        if turn is None:
            return
        turn.given = error = unsupported_stream_revision()
        request = turn.request
        self._forget_peer_request(request, "answer")
        if turn.cancelled:
            self._answer(codec.result_line(request.rpc_id, '{"stopReason":"cancelled"}'))
        else:
            self._answer_error(request.rpc_id, error)
        self._abandoned(request, "text that was sent was revised")
        self._turn_over(session, turn)

    def _respond_error(self, request: PeerRequest, code: int, message: str, data: str | None) -> None:
        session = request.session
        key = request.method.key
        if key == "session_prompt" and isinstance(session, ServedSession):
            turn = session.turns[request.request_id]
            if turn.cancelled:
                # An abort that leaks out as an error is still a cancelled turn (spec rule 78).
                super()._respond(request, '{"stopReason":"cancelled"}')
            else:
                super()._respond_error(request, code, message, data)
            kept = None if data is None else codec.decode(f'{{"jsonrpc":"2.0","data":{data}}}', self.limits.max_depth)
            turn.given = request_error(code, message, kept.get("data") if isinstance(kept, dict) else None)
            self._turn_over(session, turn)
            return
        super()._respond_error(request, code, message, data)
        if isinstance(session, ServedSession):
            self._not_done(session, key)

    def _not_done(self, session: ServedSession, key: str) -> None:
        """A request to open or to close a session has failed."""
        if key in _SETUP:
            session.opened_by = None
            if allows(SERVED_SESSION, session.state, "refuse"):
                session.move("refuse")
            if not session.accepted and session.session_id is not None:
                self._sessions.pop(session.session_id, None)
        elif key == "session_close":
            session.closes -= 1
            if not session.closes and session.state == CLOSING:
                # Its turns stay cancelled: that they are to end was said.
                session.move("refused_in_cancel" if session.turns else "refused")

    def _close_served(self, session: ServedSession) -> None:
        """The session has ended: prompts that are still open end as cancelled (spec rule 62)."""
        if session.state in (CREATING, LOADING, RESUMING):
            return
        for turn in [*session.turns.values()]:
            prompt = turn.request
            self._forget_peer_request(prompt, "answer")
            self._answer(codec.result_line(prompt.rpc_id, '{"stopReason":"cancelled"}'))
            self._abandoned(prompt, "the session was closed")
            self._turn_over(session, turn)
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
        turn = session.turns.get(request.request_id) if isinstance(session, ServedSession) else None
        if turn is not None and turn.cancelled:
            self._answer(codec.result_line(request.rpc_id, '{"stopReason":"cancelled"}'))
            self._abandon(request, "the connection was closed", self._now)
        else:
            super()._close_peer_request(request)

    # ── Requests and notifications of the client ────────────────────────────────────────────────────────────────────

    def _gate_peer(self, row: Method, params: JsonObject) -> RequestError | None:
        if row.key == "initialize":
            if self._version is not None:
                message = "initialize goes out once, at the start"
                return refusal(INVALID_REQUEST, message, "method", "initialize.once")
            if self._state != NEW:
                message = f"the connection is {self._state}: the answer cannot be written"
                return refusal(INTERNAL_ERROR, message, "request", "connection.write_failed")
            version = params.get("protocolVersion")
            if version.__class__ is not int or not 0 <= version <= 65535:
                message = f"protocolVersion must be an integer from 0 to 65535, not {clip(version)}"
                return refusal(INVALID_PARAMS, message, "protocolVersion", "initialize.version")
            return None
        if self._version is None:
            return refusal(INVALID_REQUEST, f"{row.wire} came before initialize", "method", "initialize.first")
        if row.key == "authenticate":
            if not self._auth_methods:
                return refusal(METHOD_NOT_FOUND, "no way to log in was advertised", "method", "capability.missing")
            method_id = params.get("methodId")
            for offered in self._auth_methods:
                if offered.get("id") == method_id and offered.get("type") != "terminal":
                    return None
            message = f"no login {clip(method_id)} to be asked for here was advertised"
            return refusal(INVALID_PARAMS, message, "methodId", "auth.method")
        return super()._gate_peer(row, params)

    def _admit(self, rpc_id: int | str, row: Method, params: JsonObject, line: str | bytes, at: float) -> None:
        if row.key == "initialize":
            self._answer_initialize(rpc_id, params, at)
            return
        refused = self._params_refusal(row, params)
        if refused is not None:
            self._refuse(rpc_id, row.wire, params, refused, line, at)
            return
        self._raise_new(PeerRequest("", rpc_id, row, params, self._session_of(row, params), None, None), line, at)

    def _params_refusal(self, row: Method, params: JsonObject) -> RequestError | None:
        """The error for a request whose params cannot be, or whose session is not there; or None."""
        wrong = wrong_place(row, params)
        if wrong is not None:
            return refusal(INVALID_PARAMS, wrong[2], wrong[0], wrong[1])
        if not row.session and row.key != "session_new":
            return None
        if row.key in _SETUP:
            refused = self._bad_directories(params)
            if refused is not None or row.key == "session_new":
                return refused
        session_id = get_str(params, "sessionId")
        session = self._sessions.get(session_id or "")
        if session_id is None:
            return refusal(INVALID_PARAMS, "params have no sessionId string", "sessionId", "session.id")
        name = f"session {clip(session_id)}"
        if row.key in _SETUP:
            if session is not None and session.state not in (IDLE, CLOSED):
                return refusal(INVALID_REQUEST, f"{name} is {session.state}", "sessionId", "session.open")
            if session is None and len(self._sessions) >= self.limits.max_sessions:
                message = f"{self.limits.max_sessions} sessions are known here"
                return refusal(INTERNAL_ERROR, message, "request", "limits.max_sessions")
            return None
        if session is None or session.state in (CLOSED, LOADING, RESUMING):
            return refusal(RESOURCE_NOT_FOUND, f"{name} is not open here", "sessionId", "session.unknown")
        if session.state == CLOSING and row.key != "session_close":
            return refusal(RESOURCE_NOT_FOUND, f"{name} is being closed", "sessionId", "session.ended")
        if row.presence and row.presence not in session.offers:
            message = f"{row.wire} needs {row.presence}, which {name} does not offer"
            return refusal(METHOD_NOT_FOUND, message, "method", "capability.missing", capability=row.presence)
        if row.key == "session_prompt":
            if session.state != IDLE and not self._concurrent_prompts:
                message = f"{name} is {session.state}: one prompt at a time"
                return refusal(INVALID_REQUEST, message, "sessionId", "turn.one_at_a_time")
            if not isinstance(params.get("prompt"), list):
                return refusal(INVALID_PARAMS, "params have no prompt list", "prompt", "prompt.content")
        return None

    def _bad_directories(self, params: JsonObject) -> RequestError | None:
        """What is wrong with the directories of a session that is to be opened, or None (spec rules 66 and 68)."""

        def bad(field: str, message: str, reason: str = "path.absolute") -> RequestError:
            return refusal(INVALID_PARAMS, message, field, reason)

        cwd = params.get("cwd")
        if not isinstance(cwd, str) or not is_absolute(cwd):
            return bad("cwd", f"cwd must be an absolute path, not {clip(cwd)}")
        further = params.get("additionalDirectories", [])
        if not isinstance(further, list):
            return bad("additionalDirectories", f"additionalDirectories must be a list, not {clip(further)}")
        for directory in further:
            if not isinstance(directory, str) or not is_absolute(directory):
                return bad("additionalDirectories", f"additional directories are absolute paths, not {clip(directory)}")
        if further and not _ADDITIONAL.open(self._capabilities):
            message = f"additionalDirectories need the capability {_ADDITIONAL}, which was not advertised"
            return bad("additionalDirectories", message, "capability.missing")
        return None

    def _session_of(self, row: Method, params: JsonObject) -> ServedSession | None:
        """The session that a request is about; a fresh one where it is to open one that is not known."""
        session_id = get_str(params, "sessionId")
        if row.key == "session_new":
            return self._fresh_session(CREATING, None, params)
        session = self._sessions.get(session_id or "")
        if row.key in _SETUP and session is None:
            return self._fresh_session(_SETUP[row.key], session_id, params)
        return session

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
                session.ledger = self._ledger()
            elif key == "session_prompt":
                session.ledger = self._ledger()
                session.turns[request.request_id] = ServedTurn(request, session.ledger)
                session.move("prompt")
            elif key == "session_close":
                # The work is cancelled as if session/cancel had come (spec rule 62).
                session.closes += 1
                session.move("closing")
                for turn in session.turns.values():
                    self._cancel_served(session, turn)
                    self._emit(events.TurnCancelReceived(session, session.session_id or "", turn.request_id, at))
        super()._raise_request(request, line, at)

    def _fresh_session(self, state: str, session_id: str | None, params: JsonObject) -> ServedSession:
        return ServedSession(self._mark, state, session_id, get_str(params, "cwd") or "", self._ledger())

    def _ledger(self) -> TextLedger:
        return TextLedger(max_size=self.limits.max_ledger_size)

    def _answer_initialize(self, rpc_id: int | str, params: JsonObject, at: float) -> None:
        # Any other version is answered with the one that is spoken here; the client decides (spec rule 26).
        self._state = move(CONNECTION, self._state, "initialize")
        self._peer_capabilities = get_object(params, "clientCapabilities")
        if not TERMINAL_LOGINS.open(self._peer_capabilities):
            # Such a login needs a client that can run it (spec rule 45).
            self._auth_methods = [one for one in self._auth_methods if one.get("type") != "terminal"]
        fields = {**self._initialize_fields, "authMethods": self._auth_methods}
        self._answer(codec.result_line(rpc_id, codec.encode(fields, "the result", self.limits.max_depth)))
        self._state = move(CONNECTION, self._state, "initialized")
        self._version = self.methods.version
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
        turns = [*session.turns.values()] if session is not None else []
        for turn in turns:
            assert session is not None
            self._cancel_served(session, turn)
            self._emit(events.TurnCancelReceived(session, session_id, turn.request_id, at))
        if not turns:
            self._emit(events.TurnCancelReceived(session, session_id, None, at))
        return True

    def _cancel_served(self, session: ServedSession, turn: ServedTurn) -> None:
        turn.cancelled = True
        session.move("cancel")

    def _cancel_asked(self, request: PeerRequest, at: float) -> None:
        session = request.session
        turn = session.turns.get(request.request_id) if isinstance(session, ServedSession) else None
        if turn is not None and isinstance(session, ServedSession):
            self._cancel_served(session, turn)
        super()._cancel_asked(request, at)

    def _abandon(self, request: PeerRequest, reason: str, at: float) -> None:
        super()._abandon(request, reason, at)
        session = request.session
        if not isinstance(session, ServedSession):
            return
        turn = session.turns.get(request.request_id)
        if turn is not None:
            self._turn_over(session, turn)
        else:
            self._not_done(session, request.method.key)

    def _settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        self._of_turns.pop(request.id, None)
        asked = self._asked_urls.pop(request.id, None)
        result = settlement.result
        if asked is not None and not (isinstance(result, dict) and result.get("action") == "accept"):
            # Accepting is consent; what was consented to is over when it is completed (spec rule 115).
            self._urls.pop(asked, None)
        super()._settled(request, settlement, at)

    def _opened(self, request: OwnRequest) -> None:
        session = request.session
        if request.method.key in _OF_A_TURN and isinstance(session, ServedSession) and session.turns:
            self._of_turns[request.id] = next(reversed(session.turns.values()))

    # ── Checks ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _own_session(self, session: AnySession | str) -> ServedSession:
        if isinstance(session, str):
            found = self._sessions.get(session)
            if found is None and session in self._peer_requests:
                # The public id of a request about it, such as an open prompt.
                asked = self._peer_requests[session].session
                found = asked if isinstance(asked, ServedSession) else None
            if found is None and self._was_asked(session):
                local("request.answered", f"{clip(session)} was answered or abandoned before: its turn is over")
            if found is None:
                local("session.unknown", f"no session {clip(session)} on this connection; accept() makes one")
            return found
        if not isinstance(session, ServedSession):
            raise TypeError(f"session must be a ServedSession or its id, not {type(session).__name__}")
        if session.owner is not self._mark:
            local("session.unknown", f"{session!r} belongs to another connection")
        return session

    def _speaking_session(self, session: ServedSession | str) -> ServedSession:
        """A session about which something may be sent now."""
        handle = self._sessions.get(session) if isinstance(session, str) else None
        if handle is None:
            handle = self._own_session(session)
        if self._state in UNWRITABLE:
            self._check_writable()
        if handle.state == CREATING:
            local("session.accept_first", "nothing about a new session may be sent before it was accepted")
        if handle.state == CLOSED:
            local("session.ended", f"session {handle.session_id} is closed: nothing may be sent about it")
        return handle

    def _check_history(self, session: ServedSession) -> None:
        if session.state == RESUMING:
            local("session.resume", f"{session!r} is being resumed: no history goes out before its answer")

    def _chunk_prefix(self, session: ServedSession, kind: str) -> str:
        """The beginning of every chunk of a kind: encoding it once makes a chunk cost a fifth."""
        check_word("kind", kind, TEXT_KINDS, "update.text_kind")
        before = session.prefixes.get("") or self._update_prefix(session)
        prefix = session.prefixes[kind] = (
            f'{before}{{"sessionUpdate":"{TEXT_KINDS[kind]}","content":{{"type":"text","text":'
        )
        return prefix

    def _update_prefix(self, session: ServedSession) -> str:
        """The beginning of every update of a session, up to the update itself."""
        wire = codec.encode_str(self.methods.wire("session_update"))
        session_id = codec.encode_str(session.session_id or "")
        prefix = session.prefixes[""] = (
            f'{{"jsonrpc":"2.0","method":{wire},"params":{{"sessionId":{session_id},"update":'
        )
        return prefix

    def _outgoing_row(self, wire: str, kind: str) -> Method:
        row = super()._outgoing_row(wire, kind)
        if self._state == NEW:
            local("initialize.first", "the client has not sent initialize yet: nothing may be asked of it")
        return row

    def _outgoing_params(
        self, row: Method, params: Mapping[str, object] | None, session: AnySession | str | None
    ) -> tuple[AnySession | None, str]:
        if row.key == "elicitation_create":
            self._check_elicitation(row, params if isinstance(params, dict) else {}, session is not None)
        elif row.key == "elicitation_complete" and isinstance(params, dict):
            if params.get("elicitationId") not in self._urls:
                local(
                    "elicitation.unknown",
                    f"no elicitation {clip(params.get('elicitationId'))} by URL is open on this connection; each is "
                    "completed once, towards the client that was asked",
                )
        return super()._outgoing_params(row, params, session)

    def _check_elicitation(self, row: Method, params: Mapping[str, object], in_session: bool) -> None:
        """An elicitation names its mode and scope, and has what the mode needs (spec rules 20, 44, 110, 111)."""
        mode = params.get("mode")
        if not isinstance(mode, str):
            local("elicitation.mode", f'{row.wire} needs a "mode", "form" or "url", not {clip(mode)}')
        # Each mode has a capability of its own; an empty object advertises none.
        gate = Gate("object", "elicitation", mode)
        if not gate.open(self._peer_capabilities):
            local("capability.missing", f"{row.wire} needs the capability {gate}, which was not advertised")
        if not in_session and not isinstance(params.get("sessionId"), str):
            if not isinstance(params.get("requestId"), (int, str)):
                local("elicitation.scope", "an elicitation is about a session or a request: give session= or requestId")
        if mode == "form":
            form = params.get("requestedSchema")
            if (
                not isinstance(form, dict)
                or form.get("type") != "object"
                or not isinstance(form.get("properties"), dict)
            ):
                local("elicitation.form", f'requestedSchema needs "type": "object" and "properties": {clip(form)}')
        if mode == "url":
            name = params.get("elicitationId")
            if not isinstance(name, str) or not name:
                local("elicitation.id", f"elicitationId is {clip(name)}; give each elicitation by URL a str of its own")
            if name in self._urls:
                local("elicitation.id", f"elicitation {clip(name)} is open already; an open one's id is not used twice")

    def _check_update(self, kind: str, update: Mapping[str, object]) -> None:
        gate = UPDATE_GATES.get(kind)
        if gate is not None and not gate.open(self._peer_capabilities):
            local("capability.missing", f"{kind} needs the client's capability {gate}, which was not advertised")
        if kind == "config_option_update":
            self._check_options("the update", update.get("configOptions"))
        elif kind in _TOOL_CALLS:
            check_tool_call(update)
        elif kind in _CHUNKS and not isinstance(content := update.get("content"), dict):
            local("update.content", f"content is {clip(content)}; a chunk has one content block, an object")
        elif kind not in _KINDS and not kind.startswith("_"):
            local("update.kind", f"{clip(kind)} is no kind of update; those of extensions begin with an underscore")
        check_shape(UPDATES, update, "the update")

    def _check_options(self, what: str, options: object, config_id: str | None = None) -> None:
        """Configuration options go out as the complete list, each with its value (spec rules 43 and 104)."""
        if not isinstance(options, list):
            local("config.list", f'{what} needs "configOptions", the complete list of options, not {clip(options)}')
        known = []
        for option in options:
            if not isinstance(option, dict) or not isinstance(option.get("id"), str):
                local("config.option", f"an option needs an id string: {clip(option)}")
            if option.get("currentValue") is None:
                local("config.value", f"option {clip(option['id'])} has no currentValue; every option has one")
            if option.get("type") == "boolean" and not BOOLEAN_OPTIONS.open(self._peer_capabilities):
                local(
                    "capability.missing", f"boolean option {clip(option['id'])} needs the capability {BOOLEAN_OPTIONS}"
                )
            known.append(option["id"])
        if config_id is not None and config_id not in known:
            local("config.list", f"{what} leaves out option {clip(config_id)}, which was set; the list is complete")

    def _named_session(self, session: AnySession | str) -> tuple[ServedSession | None, str]:
        handle = self._speaking_session(self._own_session(session))
        return handle, handle.session_id or ""

    def _ending(self, reason: str, at: float) -> None:
        for session in self._sessions.values():
            session.move("close")


def check_tool_call(fields: Mapping[str, object]) -> None:
    """Refuse a tool call with a place that cannot be one: paths are absolute, lines count from 1 (spec rule 12)."""
    locations, content = fields.get("locations"), fields.get("content")
    if not locations and not content:
        return
    places = [("a location", place) for place in _objects(locations)]
    places += [("a diff", part) for part in _objects(content) if part.get("type") == "diff"]
    for what, place in places:
        path, line = place.get("path"), place.get("line")
        if not isinstance(path, str) or not is_absolute(path):
            local("path.absolute", f"the path of {what} is {clip(path)}; paths of the protocol are absolute")
        if line is not None and not is_line(line):
            local("line.from_1", f"the line of {what} is {clip(line)}; lines count from 1")


def _objects(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
