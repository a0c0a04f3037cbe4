"""A client that goes on where an earlier owner stopped: its snapshot, a turn that is in flight, and the replayed tail
of the stream (client rules A1 to A6)."""

from __future__ import annotations

from collections import deque

from . import codec, events
from .attach import (
    FORMAT,
    Collected,
    Snapshot,
    Tail,
    first_id_after,
    line_mark,
    read_fingerprint,
    written_fingerprint,
)
from .errors import check_type, clip, local
from .events import get_object, get_str
from .methods import BOTH, CLIENT, Method
from .opening import OpeningClient
from .permissions import QUESTIONS
from .replay import Replay
from .requests import OwnRequest, PeerRequest, Settlement
from .sessions import Plan, Session, Turn
from .state import CLOSED, CONNECTION, IDLE, NEW, OPENING, QUEUED, REQUEST, WAITING, move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Unpack

    from .attach import Fingerprint
    from .connection import JsonObject
    from .options import HandshakeOptions

# Of every connection without a snapshot.
_NOTHING_RESTORED: Mapping[str, JsonObject] = {}


class ReattachingClient(OpeningClient):
    """A client that can attach to what an earlier owner left. Arguments: as ``ClientConnection``."""

    __slots__ = (
        "_answered",
        "_restored",
        "_restored_ids",
        "_window",
    )

    def __init__(self, *, restore: Mapping[str, object] | None = None, **options: Unpack[HandshakeOptions]) -> None:
        super().__init__(**options)
        self._window: Tail | None = None
        # Fingerprints of the latest requests of the agent that were answered: one that is replayed is no news.
        self._answered: deque[Fingerprint] | tuple[()] = ()
        self._restored = _NOTHING_RESTORED
        self._restored_ids: Collection[str] = ()
        if restore is not None:
            self._restore(Snapshot(restore, self.limits))

    # ── Getters ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def unattached(self) -> dict[str, int | None]:
        """The sessions of the snapshot that were not attached yet: id to the prompt in flight, None without one."""
        found: dict[str, int | None] = {}
        for session_id, stored in self._restored.items():
            if session_id not in self._sessions:
                prompt_id = stored.get("promptId")
                found[session_id] = prompt_id if isinstance(prompt_id, int) else None
        return found

    # ── Intents ───────────────────────────────────────────────────────────────────────────────────────────────────────

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
        if identity is not None:
            check_type("identity", identity, str, "a str or None")
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
            self._join()
            self._queue(b"\n")
            window = self._window = Tail(tail_quiet, tail_max)
            window.timer = self._timers.after(tail_quiet, self._tail_quiet)
        used = max(prompt_id if prompt_id is not None else 0, self._next_id - 1)
        self._first_id = self._next_id = first_id_after(used)
        opened_id, history = stored.get("openedId"), stored.get("historyLeft")
        plan.replay.after = history if isinstance(history, int) else 0
        session = Session(self._mark, plan, token)
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
            # The answer may have been given before the tail began.
            why = "no answer to the attached prompt in time: its fate is unknown"
            request.timer = self._timers.after(deadline, lambda at: self._fence(session, request, why, at))
        for open_request in self._peer_requests.values():
            if open_request.session is None and get_str(open_request.params, "sessionId") == session_id:
                open_request.session = session
                open_request.turn = turn
                if open_request.method.key == "session_request_permission":
                    self._ask_restored(open_request)
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
            "answered": [written_fingerprint(*print_) for print_ in self._answered],
        }
        size = len(codec.encode(value, "the snapshot", self.limits.max_depth))
        if size > self.limits.max_snapshot_bytes:
            local("limits.max_snapshot_bytes", f"the snapshot has {size} bytes; close sessions or raise the limit")
        return value

    # ── The snapshot of an earlier owner, and the tail ────────────────────────────────────────────────────────────────

    def _restore(self, snapshot: Snapshot) -> None:
        # An open request may be of an owner before the earlier one.
        owners = {snapshot.nonce, *((get_str(row, "requestId") or "").partition(".")[0] for row in snapshot.requests)}
        if self.nonce in owners:
            local("snapshot.nonce", "the nonce is the earlier owner's; give a new one, so that public ids stay unique")
        if snapshot.version != self.methods.version:
            local("snapshot.version", f"the snapshot is of protocol version {clip(snapshot.version)}")
        self._capabilities = snapshot.client_capabilities
        self._peer_capabilities = snapshot.agent_capabilities
        self._auth_methods = (*snapshot.auth_methods,)
        self._first_id = self._next_id = first_id_after(snapshot.next_id)
        self._restored = snapshot.sessions
        for text in snapshot.answered:
            found = read_fingerprint(text)
            if found is not None:
                self._remember_answered(*found)
        for stored in snapshot.requests:
            request_id, key, wire = (get_str(stored, name) or "" for name in ("requestId", "key", "method"))
            rpc_id, print_ = stored.get("rpcId"), get_str(stored, "print") or ""
            assert isinstance(rpc_id, (int, str))
            known = self.methods.get(key) if key else Method("", wire, CLIENT, event="RequestReceived")
            if known is None or known.handler not in (CLIENT, BOTH):
                local(
                    "snapshot.methods",
                    f"the snapshot has an open {clip(wire)}, which this method table does not have for a client; give "
                    "methods= as the earlier owner did",
                )
            params = get_object(stored, "params")
            found = read_fingerprint(print_)
            mark = found[1] if found is not None else None
            request = PeerRequest(request_id, rpc_id, known, params, None, None, mark)
            self._peer_requests[request_id] = request
            self._peer_ids[rpc_id] = request
        self._restored_ids = {*self._peer_requests}

    def _was_asked(self, request_id: str) -> bool:
        return request_id in self._restored_ids or super()._was_asked(request_id)

    def _remember_answered(self, rpc_id: int | str, mark: int) -> None:
        if self._answered:
            self._answered.append((rpc_id, mark))
        else:
            self._answered = deque(((rpc_id, mark),), self.limits.max_answered_kept)

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
        self._tell_over(window, at)
        for session in self._sessions.values():
            session.leave_tail()
        for collected in window.collected:
            self._raise_collected(collected, at)
        for session in [*self._sessions.values()]:
            if session.state == IDLE:
                self._session_ready(session, at)

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
        mark = line_mark(line)
        older = self._peer_ids.get(rpc_id)
        if older is not None and older.mark == mark:
            older.params = params
            self._emit(events.RequestRepeated(older.request_id, rpc_id, row.wire, line, at))
            return
        collected = Collected(rpc_id, row, params, line, mark)
        if (rpc_id, mark) in self._answered:
            self._tell_history(window, collected, "answered", at)
        else:
            # An id that comes again means that the earlier request with it is settled.
            for earlier in window.take(rpc_id):
                self._tell_history(window, earlier, "reused", at)
            window.collected.append(collected)
            if len(window.collected) >= self.limits.max_incoming_requests:
                self._tail_over(at)

    def _ending(self, reason: str, at: float) -> None:
        window, self._window = self._window, None
        if window is not None:
            for collected in window.collected:
                self._tell_history(window, collected, "over", at)
            self._tell_over(window, at)

    def _tell_over(self, window: Tail, at: float) -> None:
        attached = tuple(session for session in self._sessions.values() if session.in_tail)
        self._emit(events.TailOver(attached, window.requests, window.answers, at))

    def _tell_history(self, window: Tail, collected: Collected, why: str, at: float) -> None:
        window.requests += 1
        params = collected.params
        self._emit(
            events.TailRequest(
                collected.rpc_id,
                collected.method.wire,
                params,
                get_str(params, "sessionId"),
                why,
                collected.line,
                at,
            )
        )

    def _leave_questions(self, window: Tail, session: Session, at: float) -> None:
        """A turn has ended in the tail: what was asked in it is history, or nobody ever saw it."""
        for collected in window.leave(session.session_id):
            row = collected.method
            if not self._restored:
                self._tell_history(window, collected, "turn_over", at)
            elif row.key in QUESTIONS:
                # The earlier owner has not seen it, and there is nothing left to allow (client rule P8).
                reason = "cancelled: its turn has ended"
                params, line = collected.params, collected.line
                self._emit(
                    events.RequestRefused(collected.rpc_id, row.wire, params, session.session_id, 0, reason, line, at)
                )
                self._remember_answered(collected.rpc_id, collected.mark)
                self._answer(codec.result_line(collected.rpc_id, QUESTIONS[row.key]))
            else:
                window.collected.append(collected)

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

    def _prompt_settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        """For a subclass: an attached prompt has come to its end."""

    def _fence(self, session: Session, request: OwnRequest, why: str, at: float) -> None:
        """For a subclass: a prompt that was sent is given up, and its answer may still come."""

    def _session_ready(self, session: Session, at: float) -> None:
        """For a subclass: the session takes a prompt from here on."""

    def _ask_restored(self, request: PeerRequest) -> None:
        """For a subclass: a restored permission has its session; its owner's time begins with the next bytes."""


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
        "print": written_fingerprint(request.rpc_id, request.mark) if request.mark is not None else "",
    }
