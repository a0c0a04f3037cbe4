"""What can come out of a connection: one plain slotted class per kind.

Every event has ``at``: the ``now`` (seconds, the caller's clock) of the input that completed it. Events are not frozen
by machinery, since that triples the cost of making one; treat them as read-only. Fields hold what stood on the wire.
Properties are computed when asked for and never raise: a value of the wrong type reads as None or empty, and the
object as it came stays reachable as ``update``, ``params`` or ``result``.
"""

from __future__ import annotations

from json import loads

from .errors import clip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from .agent import ServedSession
    from .errors import RemoteProtocolError, StreamRevision
    from .requests import OwnRequest, PeerRequest, Settlement
    from .sessions import Session, Turn

    JsonObject: TypeAlias = dict[str, object]


def get_str(value: JsonObject, key: str) -> str | None:
    """``value[key]`` when it is a str, else None."""
    found = value.get(key)
    return found if type(found) is str else None


def is_given(value: JsonObject, key: str) -> bool:
    """Whether ``value`` has a str or null at ``key``, where absent means unchanged and null means cleared."""
    found = value.get(key, 0)
    return found is None or type(found) is str


def get_object(value: JsonObject, key: str) -> JsonObject:
    """``value[key]`` when it is an object, else an empty one."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def get_list(value: JsonObject, key: str) -> list[object]:
    """``value[key]`` when it is a list, else an empty one."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def get_objects(value: JsonObject, key: str) -> list[JsonObject]:
    """The objects in the list ``value[key]``; empty when there is no list."""
    return [item for item in get_list(value, key) if isinstance(item, dict)]


def get_int(value: JsonObject, key: str) -> int | None:
    """``value[key]`` when it is an integer (a bool is none), else None."""
    found = value.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def get_number(value: JsonObject, key: str) -> int | float | None:
    """``value[key]`` when it is a number (a bool is none), else None."""
    found = value.get(key)
    return found if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def line_bytes(line: str | bytes) -> bytes:
    """The bytes of a kept line. ASCII lines are kept as str, all others as the bytes that came."""
    return line if isinstance(line, bytes) else line.encode("ascii")


class Event:
    """The base of every event."""

    __slots__ = ("at",)

    at: float

    def fields(self) -> Iterator[tuple[str, object]]:
        """Name and value of every field, those of base classes first."""
        for cls in reversed(type(self).__mro__):
            for name in cls.__dict__.get("__slots__", ()):
                if name[0] != "_":
                    yield name, getattr(self, name)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={clip(value, 60)}" for name, value in self.fields() if value is not None)
        return f"{type(self).__name__}({shown})"


# ── The connection ──────────────────────────────────────────────────────────────────────────────────────────────────


class Initialized(Event):
    """The handshake is done: both sides agreed on a protocol version.

    When: a client gets the initialize result; an agent has been asked to initialize and has queued its answer.
    Do: read what the peer can do; nothing has to be answered.
    """

    __slots__ = ("auth_methods", "peer_capabilities", "peer_info", "raw", "version")

    def __init__(
        self,
        version: int,
        peer_capabilities: JsonObject,
        peer_info: JsonObject,
        auth_methods: list[JsonObject],
        raw: JsonObject,
        at: float,
    ) -> None:
        self.version = version
        self.peer_capabilities = peer_capabilities
        self.peer_info = peer_info
        self.auth_methods = auth_methods
        self.raw = raw
        self.at = at


class RequestSettled(Event):
    """One of our own requests has come to its end, exactly once (rule 3).

    When: its answer came, its deadline passed, it was withdrawn unsent, its turn or the connection ended.
    Do: ``outcome`` says how: ``"result"``, ``"error"`` (the peer refused: ``error`` is a RequestError), ``"invalid"``
    (the answer broke the protocol: ``error`` is a RemoteProtocolError), ``"deadline"``, ``"withdrawn"``, ``"closed"``
    (its turn or session ended first) or ``"over"``.
    ``dispatch`` is ``"answered"``, ``"sent_no_reply"`` (the peer may have acted on it) or ``"not_sent"``. ``token`` is
    what the caller gave with the request; ``cancel_asked`` says that a cancel had been asked for.
    """

    __slots__ = (
        "cancel_asked",
        "dispatch",
        "error",
        "id",
        "key",
        "line",
        "method",
        "outcome",
        "result",
        "session",
        "token",
    )

    def __init__(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        row = request.method
        self.id: int = request.id
        self.key: str = row.key
        self.method: str = row.wire
        self.session: Session | ServedSession | None = request.session
        self.outcome: str = settlement.outcome
        self.dispatch: str = settlement.dispatch
        self.result: object = settlement.result
        self.error: Exception | None = settlement.error
        self.cancel_asked: bool = request.cancel_asked
        self.token: object = request.token
        self.line: str | bytes = settlement.line
        self.at = at


class RequestRefused(Event):
    """The core has answered a request of the peer with an error, by a rule of the protocol.

    When: an unknown or unadvertised method, params that are no object, a session nobody knows, a busy session, too
    many open requests.
    Do: nothing; log it when you wonder why the peer does not get on. ``code`` and ``reason`` are what it was told.
    """

    __slots__ = ("code", "line", "method", "params", "reason", "rpc_id", "session_id")

    def __init__(
        self,
        rpc_id: int | str,
        method: str,
        params: object,
        session_id: str | None,
        code: int,
        reason: str,
        line: str | bytes,
        at: float,
    ) -> None:
        self.rpc_id = rpc_id
        self.method = method
        self.params = params
        self.session_id = session_id
        self.code = code
        self.reason = reason
        self.line = line
        self.at = at


class RequestRepeated(Event):
    """The peer sent a request again that is still open, the same in method and params.

    When: a relay replays traffic. Do: nothing; it is not raised again, and not answered twice.
    """

    __slots__ = ("line", "method", "request_id", "rpc_id")

    def __init__(self, request_id: str, rpc_id: int | str, method: str, line: str | bytes, at: float) -> None:
        self.request_id = request_id
        self.rpc_id = rpc_id
        self.method = method
        self.line = line
        self.at = at


class RequestAbandoned(Event):
    """A request of the peer will not be answered by its owner any more.

    When: the peer reused its id for another request, the core answered it because the turn or the connection ended, or
    nothing can be written any more. Do: stop working on it; a later answer is a LocalProtocolError.
    """

    __slots__ = ("key", "method", "reason", "request_id", "rpc_id", "session", "turn")

    def __init__(
        self,
        request_id: str,
        rpc_id: int | str,
        key: str,
        method: str,
        session: Session | ServedSession | None,
        reason: str,
        at: float,
        turn: Turn | None = None,
    ) -> None:
        self.request_id = request_id
        self.rpc_id = rpc_id
        self.key = key
        self.method = method
        self.session = session
        self.reason = reason
        self.at = at
        self.turn = turn

    @property
    def identity(self) -> str | None:
        """The owner's identity of the turn in flight."""
        return self.turn.identity if self.turn is not None else None


class CancelRequested(Event):
    """The peer asks to cancel a request of its own that we have not answered yet (``$/cancel_request``).

    When: the request is still open. Do: stop the work and answer it: with what there is, or with error -32800. A held
    permission has been answered cancelled by the core, which is a PermissionAnswered instead.
    """

    __slots__ = ("key", "method", "request_id", "rpc_id", "session", "turn")

    def __init__(
        self,
        request_id: str,
        rpc_id: int | str,
        key: str,
        method: str,
        session: Session | ServedSession | None,
        at: float,
        turn: Turn | None = None,
    ) -> None:
        self.request_id = request_id
        self.rpc_id = rpc_id
        self.key = key
        self.method = method
        self.session = session
        self.at = at
        self.turn = turn

    @property
    def identity(self) -> str | None:
        """The owner's identity of the turn in flight."""
        return self.turn.identity if self.turn is not None else None


class NotificationReceived(Event):
    """A notification that the core itself has no use for: an extension, or a method unknown to this version.

    When: any time. Do: whatever the extension says; unknown ones may be ignored. It is never answered.
    """

    __slots__ = ("known", "line", "method", "params", "session_id")

    def __init__(
        self, method: str, params: JsonObject, session_id: str | None, known: bool, line: str | bytes, at: float
    ) -> None:
        self.method = method
        self.params = params
        self.session_id = session_id
        self.known = known
        self.line = line
        self.at = at


class AnswerUnmatched(Event):
    """A response that settles nothing.

    When: ``why`` is ``"unknown"`` (nobody asked), ``"late"`` (the request was given up before), ``"repeated"`` (it was
    answered before), ``"unsent"`` (its bytes never left), ``"history"`` (asked by an earlier owner) or ``"no_id"`` (an
    error about a line that the peer could not read). Do: nothing; the object as it came is in ``raw``.
    """

    __slots__ = ("line", "raw", "rpc_id", "why")

    def __init__(self, rpc_id: object, why: str, raw: JsonObject, line: str | bytes, at: float) -> None:
        self.rpc_id = rpc_id
        self.why = why
        self.raw = raw
        self.line = line
        self.at = at


class Noise(Event):
    """A line that is no message: text of the agent's runtime, a JSON scalar or array, an object without "jsonrpc".

    When: any time. Do: show or log ``text``; the connection goes on. ``raw`` has the bytes.
    """

    __slots__ = ("line", "reason")

    def __init__(self, line: str | bytes, reason: str, at: float) -> None:
        self.line = line
        self.reason = reason
        self.at = at

    @property
    def raw(self) -> bytes:
        """The line's bytes, without its line end."""
        return line_bytes(self.line)

    @property
    def text(self) -> str:
        """The line as text; bytes that are no UTF-8 become U+FFFD."""
        return self.line if isinstance(self.line, str) else self.line.decode("utf-8", "replace")


class Malformed(Event):
    """A line that claims to be a message and is none. Nothing of it was used.

    When: broken JSON or UTF-8, an id of a wrong type, result and error together. If it answers one of our requests,
    that request settles as ``"invalid"`` right after. Do: log ``error``; the connection goes on.
    """

    __slots__ = ("error", "line")

    def __init__(self, error: RemoteProtocolError, line: str | bytes, at: float) -> None:
        self.error = error
        self.line = line
        self.at = at

    @property
    def raw(self) -> bytes:
        """The line's bytes, without its line end."""
        return line_bytes(self.line)


class LineTooLong(Event):
    """A line past the bound was skipped to its end.

    When: the end of the line was reached. If a request of ours is answered by it, that request settles as
    ``"invalid"`` right after; if it is a request, it was answered -32600. Do: raise ``Limits.max_line_bytes`` if such
    lines are expected. ``length`` is in bytes without the line end, ``head`` and ``tail`` are its first and last ones.
    """

    __slots__ = ("error", "head", "length", "rpc_id", "tail")

    def __init__(
        self,
        length: int,
        head: bytes,
        tail: bytes,
        rpc_id: int | str | None,
        error: RemoteProtocolError,
        at: float,
    ) -> None:
        self.length = length
        self.head = head
        self.tail = tail
        self.rpc_id = rpc_id
        self.error = error
        self.at = at


class Truncated(Event):
    """The input ended in the middle of a line.

    When: just before the end. Do: log it; ``raw`` has what came of the line (its head, when it was past the bound).
    """

    __slots__ = ("length", "raw")

    def __init__(self, raw: bytes, length: int, at: float) -> None:
        self.raw = raw
        self.length = length
        self.at = at


class TailDropped(Event):
    """The first line of a stream that was joined in its middle was no whole message and has been dropped.

    When: only on a connection made with ``tail=True``. Do: keep ``raw`` as evidence of a possible gap.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: bytes, at: float) -> None:
        self.raw = raw
        self.at = at


class TailRequest(Event):
    """A request of the agent in a replayed tail that is history: it is not raised, and nothing answers it.

    When: before TailOver. ``why`` is ``"answered"`` (by an earlier owner, says the snapshot), ``"reused"`` (the agent
    used its id for a later request), ``"turn_over"`` (the turn it was asked in has ended, or the owner closes, and
    without a snapshot nothing is known of it) or ``"over"`` (the connection has ended). Do: nothing; ``line`` is for an
    owner that compares all lines with what it stored.
    """

    __slots__ = ("line", "method", "params", "rpc_id", "session_id", "why")

    def __init__(
        self,
        rpc_id: int | str,
        method: str,
        params: JsonObject,
        session_id: str | None,
        why: str,
        line: str | bytes,
        at: float,
    ) -> None:
        self.rpc_id = rpc_id
        self.method = method
        self.params = params
        self.session_id = session_id
        self.why = why
        self.line = line
        self.at = at


class TailOver(Event):
    """The replayed tail of a reattached connection has ended; from here on everything is live.

    When: nothing came for a while, or ``end_tail`` was called. Requests that stood in the tail and were not answered
    before follow, marked ``replayed``. Do: compare the tail with what was stored (``compare_tail``). ``requests`` and
    ``answers`` count what was history: each TailRequest, and answers to earlier owners. ``sessions`` are the attached
    ones.
    """

    __slots__ = ("answers", "requests", "sessions")

    def __init__(self, sessions: tuple[Session, ...], requests: int, answers: int, at: float) -> None:
        self.sessions = sessions
        self.requests = requests
        self.answers = answers
        self.at = at


class Deviation(Event):
    """The peer broke a rule in a way that does no harm; what it meant was used.

    When: a response whose id is ``"7"`` or ``7.0`` for 7, for example. Do: nothing, or tell the peer's authors.
    """

    __slots__ = ("error", "line")

    def __init__(self, error: RemoteProtocolError, line: str | bytes, at: float) -> None:
        self.error = error
        self.line = line
        self.at = at


class WriteFailed(Event):
    """The write half is gone. Unsent requests have settled; what the peer still says is read (``send_failed``).

    When: once, after ``send_failed``. Do: go on reading until ConnectionOver, since the reason may still come.
    """

    __slots__ = ("dropped_bytes", "reason")

    def __init__(self, reason: str, dropped_bytes: int, at: float) -> None:
        self.reason = reason
        self.dropped_bytes = dropped_bytes
        self.at = at


class ConnectionOver(Event):
    """The last event of a connection.

    When: the input ended, ``close`` or ``abort`` was called, the write grace passed, or the peer made us end it.
    Do: let go. ``reason`` is one clear sentence; ``error`` is set when a rule was broken. The counts say what was
    dropped: bytes never read, bytes never written, and automatic answers that could not be queued (rule 10).
    """

    __slots__ = ("dropped_answers", "error", "reason", "unread_bytes", "unwritten_bytes")

    def __init__(
        self,
        reason: str,
        error: RemoteProtocolError | None,
        unread_bytes: int,
        unwritten_bytes: int,
        dropped_answers: int,
        at: float,
    ) -> None:
        self.reason = reason
        self.error = error
        self.unread_bytes = unread_bytes
        self.unwritten_bytes = unwritten_bytes
        self.dropped_answers = dropped_answers
        self.at = at


# ── Sessions of a client ────────────────────────────────────────────────────────────────────────────────────────────


class SessionEvent(Event):
    """The base of events about one session of a client: ``session`` is its handle, ``session_id`` the agent's id."""

    __slots__ = ("session",)

    session: Session

    @property
    def session_id(self) -> str | None:
        """The agent's id for the session, or None while it is not known."""
        return self.session.session_id


class SessionStep(SessionEvent):
    """One step of opening a session was sent, done or refused.

    When: ``phase`` is ``"sent"`` (its bytes were handed over), ``"done"`` or ``"failed"`` (``error`` says why).
    Do: nothing; measure with it. ``step`` is the key in the method table, ``method`` the name on the wire.
    """

    __slots__ = ("error", "method", "phase", "step")

    def __init__(
        self, session: Session, step: str, method: str, phase: str, error: Exception | None, at: float
    ) -> None:
        self.session = session
        self.step = step
        self.method = method
        self.phase = phase
        self.error = error
        self.at = at


class SessionOpened(SessionEvent):
    """The agent has named the session. Updates that were held for it follow, then SessionReady.

    When: the answer to session/new, load or resume came (``how`` is the key of that method). Do: store the id.
    """

    __slots__ = ("how", "result")

    def __init__(self, session: Session, how: str, result: JsonObject, at: float) -> None:
        self.session = session
        self.how = how
        self.result = result
        self.at = at


class SessionReady(SessionEvent):
    """The session takes prompts; one that was waiting goes out now.

    When: the whole opening plan is done. Do: prompt. ``replayed`` counts the transcript updates of the replay.
    """

    __slots__ = ("replayed",)

    def __init__(self, session: Session, replayed: int, at: float) -> None:
        self.session = session
        self.replayed = replayed
        self.at = at


class SessionFailed(SessionEvent):
    """Opening the session has failed, or the connection ended before it was open.

    When: once, instead of SessionReady. Do: ``step`` says where and ``error`` why; open another one if you like.
    ``outcome`` and ``dispatch`` are those of the step's request, as in RequestSettled.
    """

    __slots__ = ("dispatch", "error", "outcome", "step")

    def __init__(self, session: Session, step: str, error: Exception, outcome: str, dispatch: str, at: float) -> None:
        self.session = session
        self.step = step
        self.error = error
        self.outcome = outcome
        self.dispatch = dispatch
        self.at = at


class SessionClosed(SessionEvent):
    """The session has ended; its handle is of no more use.

    When: the agent confirmed session/close, or another open took the session over. Do: drop the handle.
    """

    __slots__ = ("reason",)

    def __init__(self, session: Session, reason: str, at: float) -> None:
        self.session = session
        self.reason = reason
        self.at = at


class SessionFenced(SessionEvent):
    """A cancelled turn got no answer in time, so nothing of it can be told from a next turn's.

    When: the deadline of a cancel passed. Do: close the session, reopen it, or wait: FenceLifted comes with the late
    answer. Until then prompts are refused and updates are marked late.
    """

    __slots__ = ("prompt_id", "turn")

    def __init__(self, session: Session, turn: Turn | None, prompt_id: int, at: float) -> None:
        self.session = session
        self.turn = turn
        self.prompt_id = prompt_id
        self.at = at

    @property
    def identity(self) -> str | None:
        """The owner's identity of the turn."""
        return self.turn.identity if self.turn is not None else None


class FenceLifted(SessionEvent):
    """The late answer of the fenced turn has come; the session is idle again.

    When: after SessionFenced. Do: prompt again if you like. ``raw`` is the late response, {} for one that broke a rule.
    """

    __slots__ = ("prompt_id", "raw", "turn")

    def __init__(self, session: Session, turn: Turn | None, prompt_id: int, raw: JsonObject, at: float) -> None:
        self.session = session
        self.turn = turn
        self.prompt_id = prompt_id
        self.raw = raw
        self.at = at

    @property
    def identity(self) -> str | None:
        """The owner's identity of the turn."""
        return self.turn.identity if self.turn is not None else None


class TailHistory(SessionEvent):
    """At this point of a replayed tail the session was loaded or resumed by an earlier owner.

    When: before TailOver, when the tail begins so early. Do: leave the session's updates that came before it in the
    tail out of the comparison: the agent replayed them, or they are of an earlier time.
    """

    __slots__ = ()

    def __init__(self, session: Session, at: float) -> None:
        self.session = session
        self.at = at


class PromptSent(SessionEvent):
    """The first bytes of a prompt have been handed to the transport.

    When: inside ``data_to_send``; drain events after it and before writing. Do: store ``prompt_id``: a restarted owner
    attaches by it.
    """

    __slots__ = ("prompt_id", "turn")

    def __init__(self, session: Session, turn: Turn, prompt_id: int, at: float) -> None:
        self.session = session
        self.turn = turn
        self.prompt_id = prompt_id
        self.at = at

    @property
    def identity(self) -> str | None:
        """The owner's identity of the turn."""
        return self.turn.identity


class TurnEnded(SessionEvent):
    """The agent has answered a prompt with a result: the turn is over.

    When: once a prompt, unless TurnFailed comes. Do: read ``stop_reason``; it is the wire's word, "" when there is
    none, and an unknown word is not success (``known``). ``cancel_asked`` is None, ``"owner"``, ``"deadline"`` or
    ``"idle"``; ``cancel_error`` is the agent's error when it answered a cancelled prompt with one. ``identity`` and
    ``token`` are the owner's.
    """

    __slots__ = ("cancel_asked", "cancel_error", "line", "prompt_id", "result", "stop_reason", "turn")

    def __init__(
        self,
        session: Session,
        turn: Turn,
        prompt_id: int,
        stop_reason: str,
        cancel_asked: str | None,
        cancel_error: Exception | None,
        result: JsonObject,
        line: str | bytes,
        at: float,
    ) -> None:
        self.session = session
        self.turn = turn
        self.prompt_id = prompt_id
        self.stop_reason = stop_reason
        self.cancel_asked = cancel_asked
        self.cancel_error = cancel_error
        self.result = result
        self.line = line
        self.at = at

    @property
    def known(self) -> bool:
        """The stop reason is one of the five of protocol version 1."""
        return self.stop_reason in STOP_REASONS

    @property
    def identity(self) -> str | None:
        """The owner's identity of the prompt."""
        return self.turn.identity

    @property
    def token(self) -> object:
        """What the caller gave with the prompt."""
        return self.turn.token


class TurnFailed(SessionEvent):
    """A prompt came to its end without a result.

    When: once a prompt, unless TurnEnded comes. Do: ``outcome`` is ``"error"``, ``"invalid"``, ``"deadline"`` (no
    answer to a cancel: the session is fenced), ``"withdrawn"``, ``"closed"`` (the session was closed) or ``"over"``;
    ``error`` is the exception that says it. ``dispatch`` is ``"not_sent"`` (safe to send again), ``"sent_no_reply"``
    (the agent may have acted on it) or ``"answered"``.
    """

    __slots__ = ("cancel_asked", "dispatch", "error", "line", "outcome", "prompt_id", "turn")

    def __init__(
        self,
        session: Session,
        turn: Turn,
        prompt_id: int,
        error: Exception,
        outcome: str,
        dispatch: str,
        cancel_asked: str | None,
        line: str | bytes,
        at: float,
    ) -> None:
        self.session = session
        self.turn = turn
        self.prompt_id = prompt_id
        self.error = error
        self.outcome = outcome
        self.dispatch = dispatch
        self.cancel_asked = cancel_asked
        self.line = line
        self.at = at

    @property
    def identity(self) -> str | None:
        """The owner's identity of the prompt."""
        return self.turn.identity

    @property
    def token(self) -> object:
        """What the caller gave with the prompt."""
        return self.turn.token


class TurnStalled(SessionEvent):
    """The agent has said nothing of a turn for longer than its ``idle_timeout``.

    When: once a silence, of a prompt that was given one; with a tool call in progress not before the
    ``pending_tool_grace`` is over. Do: tell the user, ask a person, or cancel; ``cancelled`` says that the core has,
    since the prompt said ``on_idle="cancel"``. ``since`` is when the silence began, ``pending_tools`` are the ids of
    the tool calls in progress.
    """

    __slots__ = ("cancelled", "pending_tools", "prompt_id", "since", "turn")

    def __init__(
        self,
        session: Session,
        turn: Turn,
        prompt_id: int,
        since: float,
        pending_tools: tuple[str, ...],
        cancelled: bool,
        at: float,
    ) -> None:
        self.session = session
        self.turn = turn
        self.prompt_id = prompt_id
        self.since = since
        self.pending_tools = pending_tools
        self.cancelled = cancelled
        self.at = at

    @property
    def identity(self) -> str | None:
        """The owner's identity of the turn."""
        return self.turn.identity


class CycleEnded(SessionEvent):
    """A cycle of work that the agent began by itself, without a prompt, has ended (client rule C4).

    When: a usage_update names such an origin in its ``_meta``; the UsageUpdate stands just before. Do: take the output
    since the last turn as one piece. ``origin`` is the kind that the agent named.
    """

    __slots__ = ("origin",)

    def __init__(self, session: Session, origin: str, at: float) -> None:
        self.session = session
        self.origin = origin
        self.at = at


OPTION_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
STOP_REASONS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})


# ── session/update ──────────────────────────────────────────────────────────────────────────────────────────────────


class Update(SessionEvent):
    """The base of the update events: ``update`` is the object as it came, ``line`` the whole line.

    ``mark`` is ``""`` for a live update, ``"replayed"`` for one that belongs to a replayed history, ``"late"`` for one
    that came behind a fence, ``"tail"`` for one in a replayed tail, which the owner may have seen before. ``turn`` is
    the turn in flight, or None: agents also send updates between turns.
    """

    __slots__ = ("line", "mark", "turn", "update")

    turn: Turn | None
    update: JsonObject
    line: str | bytes
    mark: str

    def __init__(
        self, session: Session, turn: Turn | None, update: JsonObject, line: str | bytes, mark: str, at: float
    ) -> None:
        self.session = session
        self.turn = turn
        self.update = update
        self.line = line
        self.mark = mark
        self.at = at

    @property
    def kind(self) -> str:
        """The wire's ``sessionUpdate``."""
        return get_str(self.update, "sessionUpdate") or ""

    @property
    def meta(self) -> JsonObject:
        """The update's ``_meta``, or an empty object."""
        return get_object(self.update, "_meta")

    @property
    def message(self) -> JsonObject:
        """The whole message, parsed again from its line: for what stands beside the update, such as a ``_meta``."""
        found: object = loads(line_bytes(self.line).decode("utf-8-sig"))
        return found if isinstance(found, dict) else {}

    @property
    def replayed(self) -> bool:
        """It belongs to a replayed history."""
        return self.mark == "replayed"

    @property
    def late(self) -> bool:
        """It came behind a fence: it may belong to the turn that was given up."""
        return self.mark == "late"

    @property
    def identity(self) -> str | None:
        """The owner's identity of the turn in flight."""
        return self.turn.identity if self.turn is not None else None

    @property
    def raw(self) -> bytes:
        """The line's bytes, without its line end."""
        return line_bytes(self.line)


class Chunk(Update):
    """The base of the three message chunks. ``text`` is always a str: "" when the content is no text."""

    __slots__ = ("text",)

    text: str

    def __init__(
        self, session: Session, turn: Turn | None, update: JsonObject, line: str | bytes, mark: str, at: float
    ) -> None:
        self.session = session
        self.turn = turn
        self.update = update
        self.line = line
        self.mark = mark
        self.at = at
        # As in the core's hot path: subscripts and one handler cost half of the gets and their checks.
        try:
            content: JsonObject = update["content"]  # type: ignore[assignment] # a TypeError is caught
            text = content["text"]
            self.text = text if text.__class__ is str and content["type"] == "text" else ""
        except (KeyError, TypeError):
            self.text = ""

    @property
    def content(self) -> JsonObject:
        """The content block as it came."""
        return get_object(self.update, "content")

    @property
    def message_id(self) -> str | None:
        """The agent's id of the message this chunk belongs to, if it sends one."""
        return get_str(self.update, "messageId")


class UserMessageChunk(Chunk):
    """A piece of a user message, as the agent took it.

    When: in a replay, or as an echo of a prompt. Do: append it to the message with the same id.
    """

    __slots__ = ()


class AgentMessageChunk(Chunk):
    """A piece of the agent's answer.

    When: during a turn, in a replay, or between turns. Do: append ``text`` to the message with the same id.
    """

    __slots__ = ()


class AgentThoughtChunk(Chunk):
    """A piece of the agent's reasoning.

    When: as AgentMessageChunk. Do: show it apart from the answer, or not at all.
    """

    __slots__ = ()


class ToolCallFields(Update):
    """What tool_call and tool_call_update have in common. Absent and null both read as None: unchanged."""

    __slots__ = ()

    @property
    def tool_call_id(self) -> str:
        """The id of the tool call in its session, "" when the agent sent none."""
        return get_str(self.update, "toolCallId") or ""

    @property
    def title(self) -> str | None:
        """What the agent says it does."""
        return get_str(self.update, "title")

    @property
    def tool_kind(self) -> str | None:
        """The category: read, edit, delete, move, search, execute, think, fetch, switch_mode, other, or a new word."""
        return get_str(self.update, "kind")

    @property
    def status(self) -> str | None:
        """pending, in_progress, completed, failed, or a new word."""
        return get_str(self.update, "status")

    @property
    def content(self) -> list[JsonObject] | None:
        """What the call produced; a list replaces what was there, None leaves it."""
        return get_objects(self.update, "content") if isinstance(self.update.get("content"), list) else None

    @property
    def locations(self) -> list[JsonObject] | None:
        """Files it touches; a list replaces what was there, None leaves it."""
        return get_objects(self.update, "locations") if isinstance(self.update.get("locations"), list) else None

    @property
    def raw_input(self) -> object:
        """The tool's input, any JSON value."""
        return self.update.get("rawInput")

    @property
    def raw_output(self) -> object:
        """The tool's output, any JSON value."""
        return self.update.get("rawOutput")


class ToolCall(ToolCallFields):
    """The agent announces a tool call.

    When: during a turn or a replay. Do: create the entry; a second one with the same id replaces it.
    """

    __slots__ = ()


class ToolCallUpdate(ToolCallFields):
    """A tool call changed, or is seen for the first time.

    When: as ToolCall. Do: merge the fields that are there; create the entry when the id is new.
    """

    __slots__ = ()


class Plan(Update):
    """The agent's plan, complete.

    When: whenever it changes. Do: replace the plan.
    """

    __slots__ = ()

    @property
    def entries(self) -> list[JsonObject]:
        """Every entry: content, priority, status."""
        return get_objects(self.update, "entries")


class AvailableCommandsUpdate(Update):
    """The slash commands of the session, complete.

    When: any time after the session was created. Do: replace the list.
    """

    __slots__ = ()

    @property
    def available_commands(self) -> list[JsonObject]:
        """Every command: name, description, input."""
        return get_objects(self.update, "availableCommands")


class CurrentModeUpdate(Update):
    """The session's mode changed.

    When: any time. Do: show it. ``session.current_mode_id`` is set already.
    """

    __slots__ = ()

    @property
    def current_mode_id(self) -> str:
        """The id of the mode; ``modeId`` is read too, as one page of the specification writes it."""
        return get_str(self.update, "currentModeId") or get_str(self.update, "modeId") or ""


class ConfigOptionUpdate(Update):
    """The session's configuration options, complete.

    When: any time. Do: replace them. ``session.config_options`` is set already.
    """

    __slots__ = ()

    @property
    def config_options(self) -> list[JsonObject]:
        """Every option with its current value."""
        return get_objects(self.update, "configOptions")


class SessionInfoUpdate(Update):
    """Title or time of the session changed. Here absent means unchanged and null means cleared.

    When: any time, often after the turn. Do: patch: where ``title_given``, take ``title``, None clears it.
    """

    __slots__ = ()

    @property
    def title(self) -> str | None:
        """The new title, None when absent or cleared."""
        return get_str(self.update, "title")

    @property
    def title_given(self) -> bool:
        """The update says something about the title: a new one, or that there is none any more."""
        return is_given(self.update, "title")

    @property
    def updated_at(self) -> str | None:
        """The new time (ISO 8601), None when absent or cleared."""
        return get_str(self.update, "updatedAt")

    @property
    def updated_at_given(self) -> bool:
        """The update says something about the time."""
        return is_given(self.update, "updatedAt")


class UsageUpdate(Update):
    """How full the context window is, and what the session has cost.

    When: any time. Do: replace the numbers. ``used`` and ``size`` are in tokens.
    """

    __slots__ = ()

    @property
    def used(self) -> int | float | None:
        """Tokens in the context window."""
        return get_number(self.update, "used")

    @property
    def size(self) -> int | float | None:
        """Size of the context window in tokens."""
        return get_number(self.update, "size")

    @property
    def cost(self) -> JsonObject | None:
        """``{"amount", "currency"}`` for the whole session, or None."""
        found = self.update.get("cost")
        return found if isinstance(found, dict) else None


class UnknownUpdate(Update):
    """An update of a kind this version does not know, kept as it came (rule 9).

    When: a newer agent, or an extension. Do: ignore it, or show ``update`` in a generic way.
    """

    __slots__ = ()


class ReplayDiscarded(SessionEvent):
    """How much of a replayed history was discarded, as the caller chose.

    When: the opening is over, just before SessionReady or SessionFailed, if anything was discarded. Do: nothing.
    """

    __slots__ = ("count", "wire_bytes")

    def __init__(self, session: Session, count: int, wire_bytes: int, at: float) -> None:
        self.session = session
        self.count = count
        self.wire_bytes = wire_bytes
        self.at = at


class ForeignUpdate(Event):
    """An update for a session that is not open on this connection; it is mixed into nothing.

    When: ``why`` is ``"unknown"`` (no such session here), ``"closed"`` (it was one) or ``"overflow"`` (more came ahead
    of a session/new answer than may be held). Do: ignore it.
    """

    __slots__ = ("line", "session_id", "update", "why")

    def __init__(self, session_id: str, update: JsonObject, why: str, line: str | bytes, at: float) -> None:
        self.session_id = session_id
        self.update = update
        self.why = why
        self.line = line
        self.at = at


# ── Requests of the peer ────────────────────────────────────────────────────────────────────────────────────────────


class RequestReceived(Event):
    """A request of the peer that its owner has to answer, once: ``respond`` or ``respond_error`` with ``request_id``.

    When: an extension method that this connection serves; the subclasses are the methods of the protocol.
    Do: answer. ``request_id`` is unique over the life of the owner, ``rpc_id`` is the peer's own id and may come again.
    ``replayed`` says that it stood in a replayed tail and may have been answered before. ``turn`` is the client's turn
    in flight, with the owner's ``identity`` of it, or None.
    """

    __slots__ = ("_made", "key", "line", "method", "params", "replayed", "request_id", "rpc_id", "session", "turn")

    def __init__(self, request: PeerRequest, replayed: bool, line: str | bytes, at: float) -> None:
        row = request.method
        self.request_id: str = request.request_id
        self.rpc_id: int | str = request.rpc_id
        self.key: str = row.key
        self.method: str = row.wire
        self.params: JsonObject = request.params
        self.session: Session | ServedSession | None = request.session
        self.turn: Turn | None = request.turn
        self.replayed = replayed
        self.line = line
        self.at = at
        # What a subclass has made of the params, once it was asked for.
        self._made: object = None

    @property
    def identity(self) -> str | None:
        """The owner's identity of the turn in flight."""
        return self.turn.identity if self.turn is not None else None

    @property
    def session_id(self) -> str | None:
        """The session it is about, if it names one."""
        return get_str(self.params, "sessionId")

    @property
    def meta(self) -> JsonObject:
        """The params' ``_meta``, or an empty object."""
        return get_object(self.params, "_meta")


class PermissionOption:
    """One option of a permission request. ``kind`` is allow_once, allow_always, reject_once, reject_always or new."""

    __slots__ = ("kind", "name", "option_id")

    def __init__(self, option_id: str, name: str, kind: str) -> None:
        self.option_id = option_id
        self.name = name
        self.kind = kind

    def __repr__(self) -> str:
        return f"PermissionOption(option_id={self.option_id!r}, name={self.name!r}, kind={self.kind!r})"


class PermissionRequested(RequestReceived):
    """The agent asks whether it may do something.

    When: during a turn, mostly; the policy said ask, or there is none. Do: ``answer_permission(request_id, option)``
    with one of ``options``, or None for cancelled.
    """

    __slots__ = ()

    _made: tuple[PermissionOption, ...] | None

    # These are read of every request. What looks itself, instead of asking get_str and get_object, saves 0.06 of
    # json.loads.
    @property
    def tool_call(self) -> JsonObject:
        """The tool call, as it stood on the wire; what is missing in it an earlier update may have said."""
        found = self.params.get("toolCall")
        return found if isinstance(found, dict) else {}

    @property
    def options(self) -> tuple[PermissionOption, ...]:
        """The options that have an id, in the order offered. Made once: an option can be found by identity."""
        if self._made is None:
            self._made = permission_options(self.params)
        return self._made

    @property
    def title(self) -> str | None:
        """The tool call's title: the request's, else what an earlier update said of the same id."""
        found = self.tool_call.get("title")
        return found if found and isinstance(found, str) else self._known[0]

    @property
    def tool_kind(self) -> str | None:
        """The tool call's category: the request's, else what an earlier update said of the same id."""
        found = self.tool_call.get("kind")
        return found if found and isinstance(found, str) else self._known[1]

    @property
    def _known(self) -> tuple[str | None, str | None]:
        tools: dict[str, tuple[str | None, str | None]] = getattr(self.session, "tools", {})
        return tools.get(self.tool_call_id, (None, None))

    @property
    def tool_call_id(self) -> str:
        """The tool call's id, "" when the agent sent none."""
        found = self.tool_call.get("toolCallId")
        return found if isinstance(found, str) else ""


def permission_options(params: JsonObject) -> tuple[PermissionOption, ...]:
    """The options of a permission request which have an id, in the order offered."""
    options = []
    for item in get_list(params, "options"):
        if not isinstance(item, dict):
            continue
        try:
            # Mostly all are there, and a subscript costs half of a get.
            option_id, name, kind = item["optionId"], item["name"], item["kind"]
        except KeyError:
            option_id, name, kind = item.get("optionId"), item.get("name"), item.get("kind")
        if isinstance(option_id, str):
            options.append(
                PermissionOption(
                    option_id,
                    name if name and isinstance(name, str) else option_id,
                    kind if isinstance(kind, str) else "",
                )
            )
    return tuple(options)


def offers_option(params: JsonObject, option_id: str) -> bool:
    """Whether an option of a permission request has this id."""
    for item in get_list(params, "options"):
        if isinstance(item, dict) and item.get("optionId") == option_id:
            return True
    return False


def permission_option_id(params: JsonObject, kinds: tuple[str, ...]) -> str | None:
    """The id of the first option of the first of these kinds that is offered, or None."""
    offered = get_list(params, "options")
    for kind in kinds:
        for item in offered:
            if isinstance(item, dict) and item.get("kind") == kind:
                if isinstance(option_id := item.get("optionId"), str):
                    return option_id
    return None


class PermissionAnswered(SessionEvent):
    """A permission request was answered without its owner.

    When: ``by`` is ``"policy"``, ``"cancel"`` (the turn was cancelled), ``"turn_end"``, ``"peer_cancel"`` (the agent
    took it back), ``"deadline"`` or ``"close"``. Do: take the question off the screen. ``option_id`` is the option
    that was chosen, None for cancelled.
    """

    __slots__ = ("by", "option_id", "params", "request_id", "rpc_id", "turn", "verdict")

    def __init__(
        self,
        session: Session,
        turn: Turn | None,
        request_id: str,
        rpc_id: int | str,
        params: JsonObject,
        by: str,
        verdict: str,
        option_id: str | None,
        at: float,
    ) -> None:
        self.session = session
        self.turn = turn
        self.request_id = request_id
        self.rpc_id = rpc_id
        self.params = params
        self.by = by
        self.verdict = verdict
        self.option_id = option_id
        self.at = at

    @property
    def identity(self) -> str | None:
        """The owner's identity of the turn it belonged to."""
        return self.turn.identity if self.turn is not None else None


class ReadTextFileRequested(RequestReceived):
    """The agent wants a file's text. When: ``fs.readTextFile`` was advertised. Do: respond ``{"content": str}``."""

    __slots__ = ()

    @property
    def path(self) -> str:
        """The absolute path, "" when there is none."""
        return get_str(self.params, "path") or ""

    @property
    def start_line(self) -> int | None:
        """The line to begin with, from 1 (``line`` on the wire); None for the first, and for what is no integer."""
        return get_int(self.params, "line")

    @property
    def limit(self) -> int | None:
        """How many lines are wanted at most; None for all."""
        return get_int(self.params, "limit")


class WriteTextFileRequested(RequestReceived):
    """The agent wants a file written. When: ``fs.writeTextFile`` was advertised. Do: write it, respond ``{}``."""

    __slots__ = ()

    @property
    def path(self) -> str:
        """The absolute path, "" when there is none."""
        return get_str(self.params, "path") or ""

    @property
    def content(self) -> str:
        """The whole text."""
        return get_str(self.params, "content") or ""


class TerminalRequest(RequestReceived):
    """The base of the requests about terminals."""

    __slots__ = ()

    @property
    def terminal_id(self) -> str:
        """The terminal's id, "" when there is none."""
        return get_str(self.params, "terminalId") or ""


class CreateTerminalRequested(TerminalRequest):
    """The agent wants a command started. When: ``terminal`` was advertised. Do: respond ``{"terminalId": str}``."""

    __slots__ = ()

    @property
    def command(self) -> str:
        """The program to run, "" when there is none."""
        return get_str(self.params, "command") or ""

    @property
    def args(self) -> list[str]:
        """Its arguments."""
        return [item for item in get_list(self.params, "args") if isinstance(item, str)]

    @property
    def env(self) -> dict[str, str]:
        """Environment variables beside the inherited ones, name to value; the last one of a name counts."""
        pairs = [(get_str(item, "name"), get_str(item, "value")) for item in get_objects(self.params, "env")]
        return {name: value for name, value in pairs if name is not None and value is not None}

    @property
    def cwd(self) -> str | None:
        """The absolute directory to run it in; None for the session's."""
        return get_str(self.params, "cwd")

    @property
    def output_byte_limit(self) -> int | None:
        """How many bytes of output to keep, the last ones; None for no bound."""
        return get_int(self.params, "outputByteLimit")


class TerminalOutputRequested(TerminalRequest):
    """The agent wants a terminal's output. When: as above. Do: respond output, truncated and exitStatus."""

    __slots__ = ()


class WaitForTerminalExitRequested(TerminalRequest):
    """The agent waits for a command's end. When: as above. Do: respond exitCode and signal, when it has ended."""

    __slots__ = ()


class KillTerminalRequested(TerminalRequest):
    """The agent wants a command killed; its terminal stays. When: as above. Do: respond ``{}``."""

    __slots__ = ()


class ReleaseTerminalRequested(TerminalRequest):
    """The agent is done with a terminal. When: as above. Do: kill the command, forget the id, respond ``{}``."""

    __slots__ = ()


class ElicitationRequested(RequestReceived):
    """The agent wants input of the user. When: its mode was advertised. Do: respond ``{"action": ...}``; see
    ``elicitation_result``."""

    __slots__ = ()

    @property
    def mode(self) -> str:
        """form, url, or a new word."""
        return get_str(self.params, "mode") or ""

    @property
    def message(self) -> str:
        """What the user is to be told."""
        return get_str(self.params, "message") or ""

    @property
    def requested_schema(self) -> JsonObject:
        """The form's fields, as on the wire; empty when there are none (spec rule 111)."""
        return get_object(self.params, "requestedSchema")

    @property
    def url(self) -> str:
        """Where the user is to go, in mode url."""
        return get_str(self.params, "url") or ""

    @property
    def elicitation_id(self) -> str:
        """The agent's name for it, in mode url: an ``elicitation/complete`` may follow that has it."""
        return get_str(self.params, "elicitationId") or ""

    @property
    def tool_call_id(self) -> str | None:
        """The tool call that it is about."""
        return get_str(self.params, "toolCallId")

    @property
    def scope_request(self) -> int | str | None:
        """The JSON-RPC id of the own request that it is about (``requestId`` on the wire), where it is about no
        session."""
        found = self.params.get("requestId")
        return found if isinstance(found, (int, str)) and not isinstance(found, bool) else None


class AuthenticateRequested(RequestReceived):
    """The client wants to log in. When: auth methods were advertised. Do: respond ``{}`` or an error."""

    __slots__ = ()

    @property
    def method_id(self) -> str:
        """The id of one of the advertised methods, or something else."""
        return get_str(self.params, "methodId") or ""


class LogoutRequested(RequestReceived):
    """The client wants to log out. When: ``auth.logout`` was advertised. Do: respond ``{}``."""

    __slots__ = ()


class SessionSetupRequested(RequestReceived):
    """The base of the requests that open a session."""

    __slots__ = ()

    @property
    def cwd(self) -> str:
        """The absolute working directory, "" when there is none."""
        return get_str(self.params, "cwd") or ""

    @property
    def additional_directories(self) -> list[str]:
        """The further absolute directories the session may use."""
        return [item for item in get_list(self.params, "additionalDirectories") if isinstance(item, str)]

    @property
    def mcp_servers(self) -> list[JsonObject]:
        """The MCP servers to connect to."""
        return get_objects(self.params, "mcpServers")


class NewSessionRequested(SessionSetupRequested):
    """The client wants a new session. When: any time after initialize. Do: ``accept(request_id, session_id)``."""

    __slots__ = ()


class LoadSessionRequested(SessionSetupRequested):
    """The client wants a session with its history. When: ``loadSession`` was advertised.

    Do: send the whole history with ``update``, then ``accept(request_id)``.
    """

    __slots__ = ()


class ResumeSessionRequested(SessionSetupRequested):
    """The client wants a session without its history. When: ``sessionCapabilities.resume`` was advertised.

    Do: ``accept(request_id)``; send no history.
    """

    __slots__ = ()


class ListSessionsRequested(RequestReceived):
    """The client wants the list of sessions. When: advertised. Do: ``answer_list(request_id, sessions)``."""

    __slots__ = ()

    @property
    def cwd(self) -> str | None:
        """Only sessions with this working directory are asked for; None for all."""
        return get_str(self.params, "cwd")

    @property
    def cursor(self) -> str | None:
        """Where to go on, as an earlier answer said; None for the start."""
        return get_str(self.params, "cursor")


class CloseSessionRequested(RequestReceived):
    """The client closes a session. When: advertised. Its turns count as cancelled from here on, and no prompt comes.

    Do: stop its work, ``respond(request_id)``; after an error the session stays open.
    """

    __slots__ = ()


class DeleteSessionRequested(RequestReceived):
    """The client wants a stored session gone. When: advertised.

    Do: delete it, ``respond(request_id)`` even if it is unknown; one that is open here ends with the answer.
    """

    __slots__ = ()


class SetModeRequested(RequestReceived):
    """The client sets the session's mode. When: any time. Do: respond ``{}``."""

    __slots__ = ()

    @property
    def mode_id(self) -> str:
        """The id of one of the session's modes, or something else."""
        return get_str(self.params, "modeId") or ""


class SetConfigOptionRequested(RequestReceived):
    """The client sets a configuration option. When: any time. Do: respond ``{"configOptions": [...]}``, complete."""

    __slots__ = ()

    @property
    def config_id(self) -> str:
        """The id of one of the session's options, or something else."""
        return get_str(self.params, "configId") or ""

    @property
    def value(self) -> object:
        """The value: a str, or a bool for a boolean option."""
        return self.params.get("value")


class PromptRequested(RequestReceived):
    """The client starts a turn. When: the session is idle, or concurrent prompts are allowed.

    Do: send updates, then ``end_turn(request_id)``.
    """

    __slots__ = ()

    @property
    def prompt(self) -> list[JsonObject]:
        """The content blocks."""
        return get_objects(self.params, "prompt")

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(get_str(block, "text") or "" for block in self.prompt if block.get("type") == "text")


class TurnCancelReceived(Event):
    """The client cancels the session's turn.

    When: a turn is running (``request_id`` is its prompt), or none is (None). Do: stop, send what is left, then
    ``end_turn``: the core writes ``cancelled`` whatever the turn ends with.
    """

    __slots__ = ("request_id", "session", "session_id")

    def __init__(self, session: ServedSession | None, session_id: str, request_id: str | None, at: float) -> None:
        self.session = session
        self.session_id = session_id
        self.request_id = request_id
        self.at = at


class TextRevised(Event):
    """A text that was sent is not so any more: ``update_text`` was given a whole text that does not start with it.

    When: once a turn, at the call that said so. Its prompt (``request_id``) has been answered -32603 with
    ``unsupported_stream_revision``, and a RequestAbandoned follows; None: no prompt was open.
    Do: stop the work behind the turn; the session can be prompted again. ``error`` has the lengths.
    """

    __slots__ = ("error", "kind", "message_id", "request_id", "session")

    def __init__(
        self,
        session: ServedSession,
        request_id: str | None,
        kind: str,
        message_id: str | None,
        error: StreamRevision,
        at: float,
    ) -> None:
        self.session = session
        self.request_id = request_id
        self.kind = kind
        self.message_id = message_id
        self.error = error
        self.at = at


# An interpreter specializes a code object for one class. Where kinds alternate, as messages and thoughts do, a
# constructor of its own for each saves 0.04 of json.loads a line.
_init = vars(Chunk)["__init__"]
for _cls in (UserMessageChunk, AgentMessageChunk, AgentThoughtChunk):
    setattr(_cls, "__init__", type(_init)(_init.__code__.replace(), globals(), "__init__"))  # noqa: B010 # for mypy
del _init, _cls
