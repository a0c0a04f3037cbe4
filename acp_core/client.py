"""The client's end, once its sessions are open: prompts and their turns, cancelling, closing, permissions, updates."""

from __future__ import annotations

from . import codec, events
from .attach import line_mark
from .errors import (
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
    check_word,
    clip,
    items,
    local,
    names,
    refusal,
    request_error,
)
from .events import get_list, get_object, get_objects, get_str, is_given
from .methods import V1, Gate, Method, MethodTable
from .opening import REPORT
from .permissions import ALLOW, ASK, DENY, QUESTIONS, Policy
from .reattach import ReattachingClient
from .requests import OwnRequest, PeerRequest, Settlement, appended
from .sessions import Session, Turn, Watch
from .settings import config_params
from .shapes import check_shape
from .state import (
    CANCELLING,
    CLOSED,
    CLOSING,
    ENDING,
    FENCED,
    IDLE,
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
    from typing import Final

    from .connection import AnySession, JsonObject
    from .events import Event, PermissionOption
    from .limits import Limits
    from .options import CancelThen, OnIdle
    from .turns import Admission

# Content blocks of a prompt that an agent has to advertise; text and resource_link are always taken.
CONTENT_GATES = {
    "image": Gate("bool", "promptCapabilities", "image"),
    "audio": Gate("bool", "promptCapabilities", "audio"),
    "resource": Gate("bool", "promptCapabilities", "embeddedContext"),
}
ELICITATION_MODES = {"form": Gate("object", "elicitation", "form"), "url": Gate("object", "elicitation", "url")}

# Origins in a usage update that mark the end of a cycle without a prompt (client rule C4).
CYCLE_ORIGINS = frozenset({"task-notification", "peer", "coordinator", "observer", "observer-activity"})

CLOSE_SESSION: Final = "close_session"
CLOSE: Final = "close"
THEN = (REPORT, CLOSE_SESSION, CLOSE)
CANCEL: Final = "cancel"
ON_IDLE = (REPORT, CANCEL)
# What asked for a cancel, for people.
CANCELLED_BY = {"owner": "by its owner", "deadline": "past its deadline", "idle": "for its silence"}


# Without a policy every request is asked.
ASKING = Policy()


class _Held:
    """A message that came ahead of the session/new answer which names its session."""

    __slots__ = ("line", "method", "params", "rpc_id", "size")

    def __init__(self, method: Method, rpc_id: int | str | None, params: JsonObject, line: str | bytes) -> None:
        self.method = method
        self.rpc_id = rpc_id
        self.params = params
        self.line = line
        self.size = len(line)


class ClientConnection(ReattachingClient):
    """A client's end of an ACP connection: an editor, or a platform that runs agents.

    Args:
        nonce, limits, methods, extensions, tail, codec: as ``Connection``.
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

    __slots__ = (
        "_admission",
        "_cycle_origins",
        "_hands_over",
        "_held",
        "_held_bytes",
        "_held_ids",
        "_permissions",
        "_turns_refused",
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
        permissions: Policy | None = None,
        cycle_origins: Iterable[str] = CYCLE_ORIGINS,
        restore: Mapping[str, object] | None = None,
        admission: Admission | None = None,
    ) -> None:
        super().__init__(
            nonce=nonce,
            limits=limits,
            methods=methods,
            extensions=extensions,
            tail=tail,
            codec=codec,
            capabilities=capabilities,
            info=info,
            restore=restore,
        )
        if permissions is not None:
            check_type("permissions", permissions, Policy, "a Policy or None")
        if admission is not None and not hasattr(admission, "check_identity"):
            raise TypeError(f"admission must be an Admission or None, not {type(admission).__name__}")
        self._permissions = permissions if permissions is not None else ASKING
        self._update_wire = methods.wire("session_update")
        self._held: list[_Held] | tuple[()] = ()
        self._held_bytes = 0
        self._held_ids: dict[int | str, _Held] = {}
        origins = names("cycle_origins", cycle_origins, "origins")
        # One set for all that take the usual ones: 0.7 KiB a connection.
        self._cycle_origins = CYCLE_ORIGINS if cycle_origins is CYCLE_ORIGINS else frozenset(origins)
        self._admission = admission
        self._turns_refused = False
        self._hands_over = False

    # ── Getters ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def busy_sessions(self) -> tuple[Session, ...]:
        """The sessions with a turn that has not ended, in the order of their prompts; also one whose prompt waits."""
        return tuple(
            request.session
            for request in self._requests.values()
            if request.turn is not None and isinstance(request.session, Session)
        )

    # ── Intents ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def prompt(
        self,
        session: Session | str,
        content: str | Sequence[Mapping[str, object]],
        *,
        identity: str | None = None,
        deadline: float | None = None,
        idle_timeout: float | None = None,
        pending_tool_grace: float = 600.0,
        on_idle: OnIdle = REPORT,
        meta: Mapping[str, object] | None = None,
        token: object = None,
    ) -> int:
        """Start a turn. While the session opens, or its tail is replayed, one prompt may wait; else it has to be idle.

        Args:
            session: the handle or the id.
            content: a text, or a list of content blocks as on the wire.
            identity: the owner's own name for the prompt, at most ``Limits.max_identity_bytes`` UTF-8 bytes; echoed
                on every event of the turn.
            deadline: seconds, counted from the next ``data_to_send``; when they pass, the turn is cancelled as
                ``cancel_turn`` does.
            idle_timeout: seconds; when the agent has said nothing of the turn for so long, TurnStalled tells it, once a
                silence. While the agent waits for an answer of this side, no silence is counted.
            pending_tool_grace: seconds that a silence may last instead while a tool call is in progress.
            on_idle: ``"report"`` only, or ``"cancel"``: the turn is cancelled then, as past its deadline.
            token: comes back on TurnEnded or TurnFailed.

        Returns: the JSON-RPC id of the prompt.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, the session is not idle, the agent does not take such
                content, a limit is reached, or nothing can be written.
        """
        handle = self._own_session(session)
        self._check_duration("deadline", deadline)
        self._check_duration("idle_timeout", idle_timeout)
        if pending_tool_grace is None:
            raise TypeError("pending_tool_grace must be a number of seconds, not None")
        self._check_duration("pending_tool_grace", pending_tool_grace)
        check_word("on_idle", on_idle, ON_IDLE, "prompt.on_idle")
        # In a fixed order: closing, active turn, identity, text; nothing has changed when one of them refuses.
        self._check_writable()
        if self._turns_refused:
            local("turn.closing", "the owner is closing: no new turn is taken from the first call on")
        # In a replayed tail its answer could not be told from what is replayed.
        waits = handle.state in OPENING or (handle.state == IDLE and handle.in_tail)
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
        watch = Watch(idle_timeout, pending_tool_grace, on_idle == CANCEL) if idle_timeout is not None else None
        turn = Turn(0, identity, token, watch)
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

    def hand_over(self) -> None:
        """Leave the agent to another owner: no turn is taken from here on, and ``close`` answers nothing that is open,
        so that turns in flight run on. Take the other owner's ``snapshot()`` before ``close``. A second call is a
        no-op."""
        self._turns_refused = self._hands_over = True

    def cancel_turn(
        self, session: Session | str, *, deadline: float = 2.0, then: CancelThen = REPORT, close_deadline: float = 10.0
    ) -> None:
        """Cancel the turn of a session, as one operation (client rule P8).

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
        check_word("then", then, THEN, "cancel.then")
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
        # Closing cancels the work (spec rules 62 and 83): the agent may wait for these before it answers.
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
            self._check_offered(request, option_id)
        self._respond(request, permission_result(option_id))

    def _check_offered(self, request: PeerRequest, option_id: str) -> None:
        if not events.offers_option(request.params, option_id):
            offered = [offer.option_id for offer in events.permission_options(request.params)]
            local("permission.option", f"option {clip(option_id)} was not offered; the options are {clip(offered)}")

    def _check_result(self, request: PeerRequest, result: Mapping[str, object]) -> None:
        super()._check_result(request, result)
        if request.method.key == "session_request_permission":
            outcome = get_object(dict(result), "outcome")
            if outcome.get("outcome") == "selected":
                self._check_offered(request, get_str(outcome, "optionId") or "")

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
        blocks = [self._checked_object(block, "a content block") for block in items("content", content, "blocks")]
        if not blocks:
            local("prompt.empty", "the prompt has no content; give a text or at least one content block")
        check_shape(self.methods["session_prompt"].params, {"prompt": blocks}, "the prompt")
        return blocks

    def _check_content(self, blocks: list[JsonObject]) -> None:
        for block in blocks:
            gate = CONTENT_GATES.get(get_str(block, "type") or "")
            if gate is not None and not gate.open(self._peer_capabilities):
                local("capability.missing", f"a block of type {block['type']} needs the agent's capability {gate}")

    def _session_ready(self, session: Session, at: float) -> None:
        """The prompt that waited goes out, if the agent takes what stands in it."""
        request = session.waiting
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
            if turn.watch is not None:
                self._count_silence(session, turn, turn.watch, now)
            return
        row = request.method
        sharing: list[Session] | tuple[()] = ()
        if row.key == "initialize":
            sharing = self._opening
        elif isinstance(session, Session) and session.state in OPENING:
            # A login is shared by all that wait for the same one.
            logins = self._authenticating if row.key == "authenticate" else ()
            sharing = [one[0] for one in logins if one[1] == logins[0][1]] if logins else [session]
        for waiting in sharing:
            self._emit(events.SessionStep(waiting, row.key, row.wire, "sent", None, now))

    def _prompt_settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        session = request.session
        turn = request.turn
        assert isinstance(session, Session)
        assert turn is not None
        self._timers.cancel(session.cancel_timer)
        if turn.watch is not None:
            self._timers.cancel(turn.watch.timer)
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
            # The error of a cancelled prompt is an abort that leaked out: it counts as cancelled (spec rule 78).
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
        error = request_error(REQUEST_CANCELLED, "the prompt was withdrawn before it was sent")
        self._settle(request, "withdraw", Settlement("withdrawn", NOT_SENT, error=error), self._now)

    def _prompt_deadline(self, session: Session, request: OwnRequest, at: float) -> None:
        if request.state in (WAITING, QUEUED):
            error = RequestTimeout("the prompt could not be sent in time")
            self._settle(request, "withdraw", Settlement("deadline", NOT_SENT, error=error), at)
        elif session.state == PROMPTING:
            session.then = REPORT
            self._cancel(session, self.limits.cancel_grace, "deadline")

    def _count_silence(self, session: Session, turn: Turn, watch: Watch, now: float | None) -> None:
        """Count the silence of a turn from ``now`` on; None is the moment when the next bytes are handed over."""
        self._timers.cancel(watch.timer)
        watch.since = now
        if now is None:
            watch.timer = self._timers.after(watch.idle_timeout, lambda at: self._look(session, turn, watch, at))
        else:
            self._look_at(now + watch.idle_timeout, session, turn, watch)

    def _look_at(self, when: float, session: Session, turn: Turn, watch: Watch) -> None:
        watch.timer = self._timers.at(when, lambda at: self._look(session, turn, watch, at))

    def _look(self, session: Session, turn: Turn, watch: Watch, at: float) -> None:
        """Whether a turn has been silent for too long. Updates only note the time; it is looked at now and then."""
        timer, watch.timer = watch.timer, None
        if session.turn is not turn or session.state != PROMPTING:
            return
        if any(request.turn is turn for request in self._peer_requests.values()):
            # It is this side that is waited for; counting begins with the answer.
            return
        if watch.since is None and timer is not None:
            watch.since = timer.when - watch.idle_timeout
        if self._paused or watch.since is None:
            watch.since = at
        since = watch.since if turn.last_at is None else max(watch.since, turn.last_at)
        due = since + watch.allowed
        if due <= at and watch.reported != since:
            watch.reported = since
            tools = tuple(watch.tools)
            self._emit(events.TurnStalled(session, turn, turn.prompt_id, since, tools, watch.cancels, at))
            if watch.cancels:
                session.then = REPORT
                self._cancel(session, self.limits.cancel_grace, "idle")
                return
        # A tool call that ends shortens what is allowed, so the next look is never further away.
        following = at + watch.idle_timeout
        # A clock too coarse for the duration would look for ever at one moment.
        if following > at:
            self._look_at(min(due, following) if due > at else following, session, turn, watch)

    def _forgotten(self, request: PeerRequest, event: str) -> None:
        if event == "answer" and request.mark is not None:
            self._remember_answered(request.rpc_id, request.mark)
        turn = request.turn
        if turn is None or turn.watch is None:
            return
        session = request.session
        if isinstance(session, Session) and session.turn is turn:
            self._count_silence(session, turn, turn.watch, None)

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
        session.cancel_timer = self._timers.after(deadline, lambda at: self._no_answer(session, request, by, at))
        self._cancel_permissions(session, None, "cancel", self._now)

    def _no_answer(self, session: Session, request: OwnRequest, by: str, at: float) -> None:
        self._fence(session, request, f"no answer in time to the prompt, which was cancelled {CANCELLED_BY[by]}", at)
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

    def _fence(self, session: Session, request: OwnRequest, why: str, at: float) -> None:
        if allows(SESSION, session.state, "no_answer"):
            session.move("no_answer")
        # While the session is being closed, too: when the agent refuses that, the fence stands.
        session.fenced = request
        self._settle(request, "give_up", Settlement("deadline", SENT_NO_REPLY, error=RequestTimeout(why)), at)
        self._emit(events.SessionFenced(session, request.turn, request.id, at))

    def _late_answer(self, request: OwnRequest, raw: JsonObject, at: float) -> None:
        super()._late_answer(request, raw, at)
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
        elif session.turn is None or session.waiting is not None:
            session.move("refused")
            if not session.in_tail:
                self._session_ready(session, at)
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
        return cls(session, session.turn if session.in_tail and not session.unsent else None, update, line, mark, at)

    def _hold(self, held: _Held) -> bool:
        """Keep a message until an outstanding session/new names its session. False past the bound."""
        if self._held_bytes + held.size + 256 > self.limits.max_held_bytes:
            return False
        self._held = appended(self._held, held)
        self._held_bytes += held.size + 256
        if held.rpc_id is not None:
            self._held_ids[held.rpc_id] = held
        return True

    def _release_held(self, session_id: str | None, at: float) -> None:
        """Work off what was held: for a session that is known now, or all that is left when no new one is coming."""
        if not self._held:
            return
        held_before, self._held = self._held, ()
        for held in held_before:
            if session_id is not None and held.params.get("sessionId") != session_id:
                self._held = appended(self._held, held)
                continue
            self._held_bytes -= held.size + 256
            if held.method.key == "cancel_request":
                self._peer_notification(held.method.wire, held.params, held.line, at)
            elif held.rpc_id is None:
                event = self._update(held.params, held.line, at)
                if event is not None:
                    self._emit(event)
            else:
                self._held_ids.pop(held.rpc_id, None)
                self._peer_request(held.rpc_id, held.method.wire, held.params, held.line, at)

    # ── Requests of the agent ───────────────────────────────────────────────────────────────────────────────────────

    def _gate_peer(self, row: Method, params: JsonObject) -> RequestError | None:
        if row.gate is None:
            return None
        refused = super()._gate_peer(row, params)
        if refused is None and row.key == "elicitation_create":
            mode = get_str(params, "mode") or ""
            gate = ELICITATION_MODES.get(mode)
            if gate is None or not gate.open(self._capabilities):
                message = f"elicitation mode {clip(mode)} was not advertised"
                return refusal(INVALID_PARAMS, message, "mode", "capability.missing")
        return refused

    def _admit(self, rpc_id: int | str, row: Method, params: JsonObject, line: str | bytes, at: float) -> None:
        if self._window is not None and not self._replaying:
            self._collect(rpc_id, row, params, line, at)
            return
        session: Session | None
        turn = None
        try:
            session = self._sessions[params["sessionId"]]  # type: ignore[index] # a TypeError is caught
        except (KeyError, TypeError):
            session = None
        if session is not None:
            turn = session.turn
            if turn is not None and turn.sent_at is None and session.unsent:
                # The agent does not know of it yet.
                turn = None
        if row.session and (session is None or session.state == CLOSED):
            named = session is None and self._creating and params.get("sessionId")
            if not (named and self._hold(_Held(row, rpc_id, params, line))):
                self._stranger(rpc_id, row, params, line, at)
            return
        self._raise_new(PeerRequest("", rpc_id, row, params, session, turn, line_mark(line)), line, at)

    def _stranger(self, rpc_id: int | str, row: Method, params: JsonObject, line: str | bytes, at: float) -> None:
        """A request about a session that is not open here: a permission is cancelled unasked (client rule P9)."""
        session_id = get_str(params, "sessionId")
        reason = f"session {clip(session_id)} is not open on this connection"
        if row.key != "session_request_permission":
            error = refusal(RESOURCE_NOT_FOUND, reason, "sessionId", "session.unknown")
            self._refuse(rpc_id, row.wire, params, error, line, at)
            return
        self._emit(events.RequestRefused(rpc_id, row.wire, params, session_id, 0, f"cancelled: {reason}", line, at))
        if self._answerable(rpc_id):
            self._answer(codec.result_line(rpc_id, permission_result(None)))

    def _answer_at_once(self, request: PeerRequest, at: float) -> bool:
        session = request.session
        if not isinstance(session, Session):
            return False
        if session.state in ENDING:
            # What it is about has been cancelled (client rule P8).
            if self._cancel_question(request, "close" if session.state == CLOSING else "cancel", at):
                return True
        if request.method.key != "session_request_permission":
            return False
        policy = self._permissions
        verdict = ASK
        if policy is not ASKING:
            tool_call = get_object(request.params, "toolCall")
            title, kind = get_str(tool_call, "title"), get_str(tool_call, "kind")
            if not (title and kind):
                known = session.tools.get(get_str(tool_call, "toolCallId") or "", (None, None))
                title, kind = title or known[0], kind or known[1]
            verdict = policy.verdict(title, kind)
            # Of a tail without a snapshot nothing is known to be unanswered: nothing is allowed by itself (client rule
            # A5). Nor is a tool call without a name, when its name may have been said before the tail began.
            if verdict == ALLOW and (
                (self._replaying and not self._restored) or (session.attached and title is None and kind is None)
            ):
                verdict = ASK
        if verdict == ASK:
            self._timers.arm(request, at + policy.ask_deadline)
            return False
        option_id = events.permission_option_id(request.params, policy.kinds(verdict))
        self._answer_permission(request, "policy", verdict, option_id, at)
        return True

    def _ask_restored(self, request: PeerRequest) -> None:
        self._timers.arm_later(request, self._permissions.ask_deadline)

    def _unanswered(self, request: PeerRequest, at: float) -> None:
        """Deny a held permission: nobody has answered it in time (client rule P4)."""
        option_id = events.permission_option_id(request.params, self._permissions.kinds(DENY))
        self._answer_permission(request, "deadline", DENY, option_id, at)

    def _answer_permission(self, request: PeerRequest, by: str, verdict: str, option_id: str | None, at: float) -> None:
        """Answer a permission without its owner, and say so."""
        session = request.session
        if not isinstance(session, Session):
            # It was restored, and its session was never attached.
            self._answer_unasked(request, permission_result(option_id), f"answered {verdict}: {by}", at)
            return
        self._forget_peer_request(request, "answer")
        self._answer(codec.result_line(request.rpc_id, permission_result(option_id)))
        self._ready.append(
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
        rpc_id = params.get("requestId")
        if row.key == "cancel_request" and codec.is_request_id(rpc_id) and rpc_id in self._held_ids:
            # It is held behind the request that it cancels, until that has a session.
            about = {**params, "sessionId": self._held_ids[rpc_id].params.get("sessionId")}
            if self._hold(_Held(row, None, about, line)):
                return True
        return super()._notified(row, params, line, at)

    def _cancel_asked(self, request: PeerRequest, at: float) -> None:
        if request.method.key == "session_request_permission":
            self._answer_permission(request, "peer_cancel", DENY, None, at)
        else:
            super()._cancel_asked(request, at)

    def _closing(self) -> None:
        if self._hands_over:
            return
        # No session will be named any more: what was held for one is answered as a stranger's.
        self._creating = 0
        self._release_held(None, self._now)
        if self._window is not None:
            for session in self._sessions.values():
                self._leave_questions(self._window, session, self._now)

    def _close_peer_request(self, request: PeerRequest) -> None:
        if self._hands_over:
            self._abandon(request, "it was left to another owner", self._now)
        elif request.method.key == "session_request_permission":
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
        if session.owner is not self._mark:
            local("session.unknown", f"{session!r} belongs to another connection")
        return session

    def _ready_session(self, session: Session | str) -> Session:
        handle = self._own_session(session)
        if handle.state in (CLOSING, CLOSED):
            local(
                "session.ended",
                f"session {handle.session_id} is {handle.state}; open_session(resume=...) opens it again",
            )
        if handle.state not in (IDLE, PROMPTING, CANCELLING, FENCED):
            local("session.ready", f"session {handle.session_id} is {handle.state}; wait for SessionReady")
        return handle

    def _named_session(self, session: AnySession | str) -> tuple[Session | None, str]:
        handle = self._own_session(session)
        if handle.session_id is None:
            local("session.unnamed", "the agent has not named the session yet; wait for SessionOpened")
        return handle, handle.session_id

    def _ending(self, reason: str, at: float) -> None:
        super()._ending(reason, at)
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


def permission_result(option_id: str | None) -> str:
    """The result of a permission request as JSON: an option, or cancelled for None."""
    if option_id is None:
        return QUESTIONS["session_request_permission"]
    return f'{{"outcome":{{"outcome":"selected","optionId":{codec.encode_str(option_id)}}}}}'


def _keep_tool(session: Session, update: JsonObject, limit: int) -> None:
    tool_id = get_str(update, "toolCallId")
    if tool_id is not None:
        title, kind = session.tools.pop(tool_id, (None, None))
        session.tools[tool_id] = (get_str(update, "title") or title, get_str(update, "kind") or kind)
        if len(session.tools) > limit:
            del session.tools[next(iter(session.tools))]
        turn = session.turn
        if turn is not None and turn.watch is not None and turn.sent_at is not None:
            announced = update.get("sessionUpdate") == "tool_call"
            turn.watch.saw_tool(tool_id, get_str(update, "status"), announced, limit)


def _keep_mode(session: Session, update: JsonObject, limit: int) -> None:
    session.current_mode_id = get_str(update, "currentModeId") or get_str(update, "modeId")


def _keep_config(session: Session, update: JsonObject, limit: int) -> None:
    session.config_options = get_objects(update, "configOptions")


def _keep_commands(session: Session, update: JsonObject, limit: int) -> None:
    session.available_commands = get_objects(update, "availableCommands")


def _keep_usage(session: Session, update: JsonObject, limit: int) -> None:
    session.usage = update


def _keep_info(session: Session, update: JsonObject, limit: int) -> None:
    if is_given(update, "title"):
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
