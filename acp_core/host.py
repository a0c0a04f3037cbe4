"""An ACP agent over a runtime host: the adapter between an AgentConnection and whatever owns sessions and turns.

Pure. The owner gives it every event of the connection (``receive``), what the host said by itself (``host_event``), how
each command ended (``succeeded``, ``failed``), the time (``handle_timeout``) and word that output was written
(``resume``), and carries out the commands that ``next_command`` gives, in order. Taking a command is its dispatch: one
that was not taken yet can still be withdrawn. A host whose subscriptions can be renewed gives its deltas an offset.
The rules are the host rules M13 to M63; docs/host.md says which of them are here, and which belong to a product.
"""

from __future__ import annotations

from collections import deque

from . import events
from .agent import REVISED, AgentConnection, ServedSession
from .errors import (
    END_OF_TIME,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    NOT_SENT,
    LocalProtocolError,
    RequestError,
    StreamConflict,
    StreamGap,
    check_number,
    check_type,
    clip,
    items,
    local,
    not_served,
    unsupported_interaction,
    unsupported_stream_revision,
)
from .events import get_str
from .projection import MESSAGE, THOUGHT, USER
from .settlement import ATTEMPT_DEADLINE, ATTEMPTS, PAUSES, UNKNOWN, StartSettlement
from .state import (
    ATTACHED,
    ATTACHING,
    BACKING_OFF,
    CHECKING,
    CONNECTING,
    ENDED,
    HOST_ATTACHMENT,
    HOST_PROMPT,
    HYDRATING,
    STARTING,
    SUBSCRIBING,
    UNATTACHED,
    UPLOADING,
    move,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    JsonObject: TypeAlias = dict[str, object]
    Done: TypeAlias = "Callable[[object, float], None]"
    Failed: TypeAlias = "Callable[[HostError, float], None]"

KIB = 1024
MIB = 1024 * KIB

# Whether a command that failed may have been carried out.
DISPATCHED = "dispatched"
# Status of a turn that goes on; every other one is an end.
GOING_ON = "running"


# ── What the owner is asked to do ───────────────────────────────────────────────────────────────────────────────────


class Command:
    """The base of what is asked of the owner. ``id`` names it in ``succeeded`` and ``failed``."""

    __slots__ = ("id",)

    id: int

    def __repr__(self) -> str:
        names = [name for cls in type(self).__mro__ for name in cls.__dict__.get("__slots__", ())]
        shown = ", ".join(f"{name}={clip(getattr(self, name, None), 60)}" for name in names)
        return f"{type(self).__name__}({shown})"


class OpenFile(Command):
    """Open a local file read-only and without blocking, and look at what it is; read nothing. Gives a FileFacts."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


class ReadFile(Command):
    """Read up to ``size`` bytes at ``offset`` of an open file. Gives bytes: fewer than ``size`` only at the end."""

    __slots__ = ("file", "offset", "size")

    def __init__(self, file: object, offset: int, size: int) -> None:
        self.file = file
        self.offset = offset
        self.size = size


class CloseFile(Command):
    """Close a file. Nobody waits for it."""

    __slots__ = ("file",)

    def __init__(self, file: object) -> None:
        self.file = file


class Connect(Command):
    """Connect to the host. Gives None."""

    __slots__ = ()


class Disconnect(Command):
    """Close the connection to the host; every command that still runs on it fails. Gives None."""

    __slots__ = ()


class SessionCommand(Command):
    """The base of commands about one session of the host."""

    __slots__ = ("session_id",)

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


class CreateSession(Command):
    """Create a session. Gives its id, or the result of session/new with its ``sessionId``."""

    __slots__ = ("cwd", "params")

    def __init__(self, cwd: str, params: JsonObject) -> None:
        self.cwd = cwd
        self.params = params


class ListSessions(Command):
    """List sessions. Gives a SessionPage."""

    __slots__ = ("cursor", "cwd")

    def __init__(self, cwd: str | None, cursor: str | None) -> None:
        self.cwd = cwd
        self.cursor = cursor


class ReadTranscript(SessionCommand):
    """Read what was said in a session, and the turn it shows. Gives a Transcript."""

    __slots__ = ()


class ReadPresentation(SessionCommand):
    """Read what else there is to show of a session. Gives a list of updates, as on the wire."""

    __slots__ = ()


class OpenSubscription(SessionCommand):
    """Subscribe to a session. Gives the subscription, any object; its events follow as host events."""

    __slots__ = ()


class CloseSubscription(SessionCommand):
    """Close a subscription. Gives None."""

    __slots__ = ("subscription",)

    def __init__(self, session_id: str, subscription: object) -> None:
        super().__init__(session_id)
        self.subscription = subscription


class UploadCommand(SessionCommand):
    """The base of the steps of an upload; ``upload_id`` is unique."""

    __slots__ = ("upload_id",)

    def __init__(self, session_id: str, upload_id: str) -> None:
        super().__init__(session_id)
        self.upload_id = upload_id


class UploadBegin(UploadCommand):
    """Begin an upload of ``data`` (for its size and digest). Gives the next offset, or an Uploaded when it is known."""

    __slots__ = ("data", "mime", "name")

    def __init__(self, session_id: str, upload_id: str, name: str, mime: str, data: bytes) -> None:
        super().__init__(session_id, upload_id)
        self.name = name
        self.mime = mime
        self.data = data


class UploadChunk(UploadCommand):
    """Send a piece of an upload. Gives the next offset."""

    __slots__ = ("data", "offset")

    def __init__(self, session_id: str, upload_id: str, offset: int, data: bytes) -> None:
        super().__init__(session_id, upload_id)
        self.offset = offset
        self.data = data


class UploadCommit(UploadCommand):
    """End an upload. Gives an Uploaded."""

    __slots__ = ()


class UploadAbort(UploadCommand):
    """Give an upload up. Gives None."""

    __slots__ = ()


class StartTurn(SessionCommand):
    """Start a turn. Gives a Started or a Blocked. Never sent twice.

    ``text`` is for the model, ``display_text`` for people (None: the same), ``attachments`` are the references of what
    was uploaded.
    """

    __slots__ = ("attachments", "display_text", "text", "turn_id")

    def __init__(
        self, session_id: str, turn_id: str, text: str, display_text: str | None, attachments: list[object]
    ) -> None:
        super().__init__(session_id)
        self.turn_id = turn_id
        self.text = text
        self.display_text = display_text
        self.attachments = attachments


class QueryTurn(SessionCommand):
    """Ask what became of a turn. Gives a Root, or fails with the code ``not_found``."""

    __slots__ = ("turn_id",)

    def __init__(self, session_id: str, turn_id: str) -> None:
        super().__init__(session_id)
        self.turn_id = turn_id


class StopTurn(SessionCommand):
    """Stop exactly this run of this turn. Gives None."""

    __slots__ = ("run_id", "turn_id")

    def __init__(self, session_id: str, turn_id: str, run_id: str) -> None:
        super().__init__(session_id)
        self.turn_id = turn_id
        self.run_id = run_id


# ── What the owner gives ────────────────────────────────────────────────────────────────────────────────────────────


class HostError(Exception):
    """How a command failed.

    ``code`` is the host's word. ``dispatch`` says what became of it: ``"not_sent"``, ``"dispatched"`` (it may have been
    carried out, no answer came) or ``"answered"`` (the host refused).
    """

    def __init__(self, code: str, message: str = "", *, dispatch: str = "answered", data: object = None) -> None:
        super().__init__(message or code)
        self.code = code
        self.dispatch = dispatch
        self.data = data


class FileFacts:
    """An open file: what it is called, whether it is a regular file, its size in bytes."""

    __slots__ = ("file", "mime", "name", "path", "regular", "size")

    def __init__(self, file: object, *, path: str, name: str, regular: bool, size: int, mime: str = "") -> None:
        self.file = file
        self.path = path
        self.name = name
        self.regular = regular
        self.size = size
        self.mime = mime


class Root:
    """The turn that a session shows. ``status`` is ``"running"``, ``"completed"``, ``"failed"`` or ``"aborted"``."""

    __slots__ = ("run_id", "status", "turn_id")

    def __init__(self, turn_id: str, run_id: str, status: str = GOING_ON) -> None:
        self.turn_id = turn_id
        self.run_id = run_id
        self.status = status

    def __repr__(self) -> str:
        return f"Root({self.turn_id!r}, {self.run_id!r}, {self.status!r})"


class Said:
    """One message of a transcript: ``role`` is ``"user"``, ``"assistant"`` or another word; ``thought`` may be None."""

    __slots__ = ("message_id", "role", "text", "thought", "turn_id")

    def __init__(self, turn_id: str, role: str, message_id: str | None, text: str, thought: str | None = None) -> None:
        self.turn_id = turn_id
        self.role = role
        self.message_id = message_id
        self.text = text
        self.thought = thought


class Transcript:
    """What was said in a session, in order, and the turn it shows."""

    __slots__ = ("messages", "root")

    def __init__(self, messages: Sequence[Said] = (), root: Root | None = None) -> None:
        self.messages = list(messages)
        self.root = root


class SessionPage:
    """Sessions of the host, each as on the wire, and where to go on."""

    __slots__ = ("next_cursor", "sessions")

    def __init__(self, sessions: Sequence[Mapping[str, object]], next_cursor: str | None = None) -> None:
        self.sessions = list(sessions)
        self.next_cursor = next_cursor


class Uploaded:
    """An upload is there: ``reference`` goes into the turn as it is."""

    __slots__ = ("reference",)

    def __init__(self, reference: object) -> None:
        self.reference = reference


class Started:
    """The turn was admitted; ``run_id`` is the host's."""

    __slots__ = ("run_id",)

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id


class Blocked:
    """The turn was not started. ``reason`` is the host's."""

    __slots__ = ("reason",)

    def __init__(self, reason: str = "") -> None:
        self.reason = reason


class HostEvent:
    """The base of what a host says by itself, over a subscription."""

    __slots__ = ("session_id",)

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


class RootShown(HostEvent):
    """The session shows this turn, or none."""

    __slots__ = ("root",)

    def __init__(self, session_id: str, root: Root | None) -> None:
        super().__init__(session_id)
        self.root = root


class TurnEvent(HostEvent):
    """The base of events of one turn."""

    __slots__ = ("turn_id",)

    def __init__(self, session_id: str, turn_id: str) -> None:
        super().__init__(session_id)
        self.turn_id = turn_id


class TextArrived(TurnEvent):
    """Text of the assistant: a ``delta``, with or without its ``offset`` (code points), or the whole as ``snapshot``.
    ``kind`` is ``"message"`` or ``"thought"``."""

    __slots__ = ("delta", "kind", "message_id", "offset", "snapshot")

    def __init__(
        self,
        session_id: str,
        turn_id: str,
        kind: str,
        message_id: str | None,
        *,
        delta: str | None = None,
        offset: int | None = None,
        snapshot: str | None = None,
    ) -> None:
        super().__init__(session_id, turn_id)
        self.kind = kind
        self.message_id = message_id
        self.delta = delta
        self.offset = offset
        self.snapshot = snapshot


class UpdateArrived(TurnEvent):
    """Anything else to show of a turn: a session update, as on the wire. ``droppable``: part of a tool's output."""

    __slots__ = ("droppable", "update")

    def __init__(self, session_id: str, turn_id: str, update: Mapping[str, object], *, droppable: bool = False) -> None:
        super().__init__(session_id, turn_id)
        self.update = update
        self.droppable = droppable


class TurnFinished(TurnEvent):
    """A turn is over: ``"completed"``, ``"failed"`` or ``"aborted"`` (by whoever)."""

    __slots__ = ("message", "status")

    def __init__(self, session_id: str, turn_id: str, status: str = "completed", message: str = "") -> None:
        super().__init__(session_id, turn_id)
        self.status = status
        self.message = message


class InteractionPending(TurnEvent):
    """A turn waits for something only a person can give: a permission, an answer, a form."""

    __slots__ = ("kind",)

    def __init__(self, session_id: str, turn_id: str, kind: str) -> None:
        super().__init__(session_id, turn_id)
        self.kind = kind


class SubscriptionLost(HostEvent):
    """A subscription is gone. ``recoverable``: a new one may do."""

    __slots__ = ("reason", "recoverable")

    def __init__(self, session_id: str, reason: str = "", *, recoverable: bool = False) -> None:
        super().__init__(session_id)
        self.reason = reason
        self.recoverable = recoverable


class Diagnostic:
    """Something went wrong that the client is not told as the answer to its prompt, since cancelled wins.

    ``error`` is what it would have been told; session/close tells it.
    """

    __slots__ = ("at", "error", "request_id", "session_id")

    def __init__(self, session_id: str, request_id: str | None, error: RequestError, at: float) -> None:
        self.session_id = session_id
        self.request_id = request_id
        self.error = error
        self.at = at

    def __repr__(self) -> str:
        return f"Diagnostic({self.session_id!r}, {self.request_id!r}, {self.error!r}, {self.error.data!r})"


# ── Bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


# Of the limits of an adapter; the others are counts.
_SECONDS = frozenset(
    {"query_deadline", "stop_grace", "backoff", "backoff_max", "stable_after", "dispose_deadline"},
)


class HostLimits:
    """The constants of an adapter, each an argument.

    max_links, max_file_bytes: resource links a prompt may have, and the size of each. read_bytes, chunk_bytes: a file
    is read and uploaded in pieces of so many bytes. max_text_bytes, max_content_bytes: UTF-8 bytes of the model's text,
    and of it and the displayed text together. query_attempts, query_deadline, query_pauses: see StartSettlement.
    stop_grace: seconds that a cancelled turn waits for its last events once it was stopped. max_buffered: events kept
    while a subscription hydrates. max_queued, rearm_at: events of a turn kept while the client reads slowly; past the
    first, text is dropped until no more than the second are left, and then read again. pace_at: unsent bytes from which
    on events are kept. max_recoveries, backoff, backoff_max, stable_after: new subscriptions after a lost one, with
    pauses of ``backoff`` seconds that double up to ``backoff_max``; the count begins anew with a live event, or after
    ``stable_after`` seconds. dispose_deadline: seconds until the connection to the host is closed whatever is pending.

    Raises:
        TypeError: one has a wrong type.
        ValueError: one is not positive.
    """

    __slots__ = (
        "backoff",
        "backoff_max",
        "chunk_bytes",
        "dispose_deadline",
        "max_buffered",
        "max_content_bytes",
        "max_file_bytes",
        "max_links",
        "max_queued",
        "max_recoveries",
        "max_text_bytes",
        "pace_at",
        "query_attempts",
        "query_deadline",
        "query_pauses",
        "read_bytes",
        "rearm_at",
        "stable_after",
        "stop_grace",
    )

    def __init__(
        self,
        *,
        max_links: int = 8,
        max_file_bytes: int = 50 * MIB,
        read_bytes: int = 48 * KIB,
        chunk_bytes: int = 48 * KIB,
        max_text_bytes: int = 48 * KIB,
        max_content_bytes: int = 52 * KIB,
        query_attempts: int = ATTEMPTS,
        query_deadline: float = ATTEMPT_DEADLINE,
        query_pauses: Sequence[float] = PAUSES,
        stop_grace: float = 2.0,
        max_buffered: int = 512,
        max_queued: int = 1024,
        rearm_at: int = 512,
        pace_at: int = 1 * MIB,
        max_recoveries: int = 8,
        backoff: float = 0.025,
        backoff_max: float = 0.5,
        stable_after: float = 1.0,
        dispose_deadline: float = 10.0,
    ) -> None:
        self.max_links = max_links
        self.max_file_bytes = max_file_bytes
        self.read_bytes = read_bytes
        self.chunk_bytes = chunk_bytes
        self.max_text_bytes = max_text_bytes
        self.max_content_bytes = max_content_bytes
        self.query_attempts = query_attempts
        self.query_deadline = query_deadline
        self.query_pauses = tuple(items("query_pauses", query_pauses, "seconds"))
        self.stop_grace = stop_grace
        self.max_buffered = max_buffered
        self.max_queued = max_queued
        self.rearm_at = rearm_at
        self.pace_at = pace_at
        self.max_recoveries = max_recoveries
        self.backoff = backoff
        self.backoff_max = backoff_max
        self.stable_after = stable_after
        self.dispose_deadline = dispose_deadline
        for name in self.__slots__:
            value = getattr(self, name)
            if name == "query_pauses":
                continue
            if name in _SECONDS:
                check_number(name, value)
            else:
                check_type(name, value, int, "an int")
            if not 0 < value < END_OF_TIME:
                raise ValueError(f"{name} must be positive, not {clip(value)}")


# ── Errors for the client ───────────────────────────────────────────────────────────────────────────────────────────


def invalid(reason: str, message: str, field: str = "prompt") -> RequestError:
    """-32602: the client asked for something that cannot be."""
    return RequestError(INVALID_PARAMS, message, {"field": field, "reason": reason})


def internal(operation: str, code: str, source: str = "runtime_host", /, **rest: object) -> RequestError:
    """-32603: the host or the adapter could not do it."""
    data: JsonObject = {"source": source, "operation": operation, "code": code, **rest}
    return RequestError(INTERNAL_ERROR, f"{operation} failed: {code}", data)


def mapped(operation: str, error: HostError) -> RequestError:
    """A host's refusal, for the client: what it said was wrong with the request is -32602, anything else -32603."""
    rest: JsonObject = {"reason": str(error)}
    if error.dispatch == DISPATCHED:
        rest["dispatch"] = DISPATCHED
    if error.data is not None:
        rest["details"] = error.data
    if error.dispatch == "answered" and error.code in ("invalid_request", "not_found"):
        data = {"source": "runtime_host", "operation": operation, "code": error.code, **rest}
        return RequestError(INVALID_PARAMS, f"{operation} was refused: {error.code}", data)
    return internal(operation, error.code, **rest)


# ── A prompt's content ──────────────────────────────────────────────────────────────────────────────────────────────

_SCHEME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.")
_HEX = frozenset("0123456789abcdefABCDEF")


def local_path(uri: str) -> str:
    """The path that a plain ``file:`` URI names.

    Raises:
        RequestError: -32602 ``invalid_resource_uri`` when it is no URI, ``unsupported_resource_uri`` when it is another
            one, or has a host, a query or a fragment.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or not scheme or not set(scheme) <= _SCHEME or not scheme[0].isalpha():
        raise invalid("invalid_resource_uri", f"{clip(uri)} is no URI")
    if scheme.lower() != "file" or "?" in rest or "#" in rest:
        raise invalid("unsupported_resource_uri", f"{clip(uri)} is no plain file: URI")
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        if host:
            raise invalid("unsupported_resource_uri", f"{clip(uri)} names a host; only local files can be attached")
    path = _unquoted(rest)
    if path is None or not path.startswith("/") or any(letter < " " for letter in rest) or "\0" in path:
        raise invalid("invalid_resource_uri", f"{clip(uri)} names no absolute path")
    return path


def _unquoted(text: str) -> str | None:
    """Percent escapes resolved; None when one is broken, hides a slash, or the bytes are no UTF-8."""
    first, *pieces = text.split("%")
    found = bytearray(first.encode("utf-8", "surrogatepass"))
    for piece in pieces:
        if len(piece) < 2 or not set(piece[:2]) <= _HEX or piece[:2].lower() == "2f":
            return None
        found.append(int(piece[:2], 16))
        found += piece[2:].encode("utf-8", "surrogatepass")
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        return None


class Content:
    """What a prompt says: the model's text, what people see of it (None: the same), and the links in order."""

    __slots__ = ("display_text", "links", "text")

    def __init__(self, text: str, display_text: str | None, links: list[tuple[str, str, str]]) -> None:
        self.text = text
        self.display_text = display_text
        # Path, name and declared type of each.
        self.links = links


def map_content(blocks: Sequence[object], limits: HostLimits) -> Content:
    """A prompt's content blocks, as a host takes them. No file is touched.

    Raises:
        RequestError: -32602 with its reason.
    """
    links = [block for block in blocks if isinstance(block, dict) and block.get("type") == "resource_link"]
    if len(links) > limits.max_links:
        raise invalid("too_many_attachments", f"{len(links)} resource links; {limits.max_links} are the bound")
    model: list[str] = []
    display: list[str] = []
    found: list[tuple[str, str, str]] = []
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, dict) and kind == "text" and isinstance(block.get("text"), str):
            model.append(str(block["text"]))
            display.append(str(block["text"]))
        elif isinstance(block, dict) and kind == "resource_link" and isinstance(block.get("uri"), str):
            uri = str(block["uri"])
            found.append((local_path(uri), get_str(block, "name") or "", get_str(block, "mimeType") or ""))
            model.append(uri)
        else:
            raise invalid("unsupported_content_type", f"a content block of type {clip(kind)} cannot be sent on")
    text, shown = "\n\n".join(model), "\n\n".join(display)
    display_text = None if shown == text else shown
    size = len(text.encode("utf-8", "surrogatepass"))
    whole = size + len((display_text or "").encode("utf-8", "surrogatepass"))
    if size > limits.max_text_bytes or whole > limits.max_content_bytes:
        reason = f"the prompt has {size} bytes of text, {limits.max_text_bytes} are the bound"
        raise invalid("runtime_host_admission_rejected", reason)
    return Content(text, display_text, found)


# ── The adapter's own state ─────────────────────────────────────────────────────────────────────────────────────────


class _Upload:
    """One file on its way to the host."""

    __slots__ = ("begun", "data", "facts", "mime", "name", "offset", "upload_id")

    def __init__(self, upload_id: str, facts: FileFacts, name: str, mime: str) -> None:
        self.upload_id = upload_id
        self.facts = facts
        self.name = name
        self.mime = mime
        self.data = bytearray()
        self.offset = 0
        self.begun = False


class _Prompt:
    """One prompt: its turn has the public id of its request, which is unique."""

    __slots__ = (
        "answered",
        "attachments",
        "awaited",
        "cancelled",
        "content",
        "dropped",
        "failure",
        "finished",
        "queue",
        "recovering",
        "request_id",
        "run_id",
        "session",
        "settlement",
        "stage",
        "start_sent",
        "stop",
        "stop_until",
        "uploads",
    )

    def __init__(self, session: _Session, request_id: str, content: Content) -> None:
        self.session = session
        self.request_id = request_id
        self.content = content
        self.stage = CHECKING
        self.cancelled = False
        # What the prompt is to be answered with, when it is an error.
        self.failure: RequestError | None = None
        self.answered = False
        self.uploads: deque[_Upload] = deque()
        self.attachments: list[object] = []
        # The command that this prompt alone waits for, and whether the start has left.
        self.awaited: Command | None = None
        self.start_sent = False
        self.settlement: StartSettlement | None = None
        self.run_id: str | None = None
        # How the host's turn ended: status and message.
        self.finished: tuple[str, str] | None = None
        # none, pending, done or failed
        self.stop = "none"
        self.stop_until: float | None = None
        self.queue: deque[TurnEvent] = deque()
        self.dropped = False
        self.recovering = False

    @property
    def ending(self) -> bool:
        """Nothing more is wanted of the host than that it stops."""
        return self.cancelled or self.failure is not None


class _Session:
    """A session that this connection created, loaded or resumed."""

    __slots__ = (
        "attachment",
        "buffered",
        "closers",
        "closing_subscription",
        "command",
        "fault",
        "first",
        "handle",
        "opened_at",
        "owned",
        "prompts",
        "recoveries",
        "retry_at",
        "root",
        "session_id",
        "stopping",
        "subscription",
    )

    def __init__(self, session_id: str, handle: ServedSession) -> None:
        self.session_id = session_id
        self.handle = handle
        self.owned = True
        self.prompts: dict[str, _Prompt] = {}
        self.attachment = UNATTACHED
        # No subscription has been complete since the last retirement: a failure is not recovered from.
        self.first = True
        self.command: Command | None = None
        self.subscription: tuple[object] | None = None
        self.buffered: list[HostEvent] = []
        self.recoveries = 0
        self.opened_at = 0.0
        self.retry_at: float | None = None
        self.root: Root | None = None
        # Runs of other clients' turns that are being stopped.
        self.stopping: set[str] = set()
        # The first cancellation that failed, which session/close tells.
        self.fault: RequestError | None = None
        self.closers: list[str] = []
        self.closing_subscription = False


class HostAdapter:
    """Serves one client from a runtime host. See the module.

    Args:
        connection: the client's; made with ``concurrent_prompts=True`` where the host admits several turns at once.
        limits: the constants.
        failed_turn: what a prompt becomes whose turn failed at the host: ``"error"`` or ``"end_turn"``.
        presentation: ask the host what else there is to show of a session once it is open.

    Raises:
        TypeError: an argument has a wrong type.
        LocalProtocolError: ``failed_turn`` is another word.
    """

    def __init__(
        self,
        connection: AgentConnection,
        *,
        limits: HostLimits | None = None,
        failed_turn: str = "error",
        presentation: bool = False,
    ) -> None:
        check_type("connection", connection, AgentConnection, "an AgentConnection")
        if failed_turn not in ("error", "end_turn"):
            local("host.failed_turn", f'failed_turn is {clip(failed_turn)}; it is "error" or "end_turn"')
        self.connection = connection
        self.limits = limits if limits is not None else HostLimits()
        self._failed_turn = failed_turn
        self._presentation = presentation
        self._sessions: dict[str, _Session] = {}
        self._commands: deque[Command] = deque()
        self._next_id = 1
        self._open: dict[int, tuple[Command, Done, Failed]] = {}
        self._taken: set[int] = set()
        self._diagnostics: deque[Diagnostic] = deque()
        self._connected = False
        self._connecting: Command | None = None
        # What waits for the connection: called with None, or with the error.
        self._waiting: list[Callable[[RequestError | None, float], None]] = []
        self._disposing = False
        self._disconnecting = False
        self._dispose_at: float | None = None
        self.disposed = False

    # ── What comes out ──────────────────────────────────────────────────────────────────────────────────────────────

    def next_command(self) -> Command | None:
        """The next thing to do, or None. Taking it is its dispatch."""
        if not self._commands:
            return None
        command = self._commands.popleft()
        self._taken.add(command.id)
        if isinstance(command, StartTurn):
            prompt = self._prompt(command.session_id, command.turn_id)
            if prompt is not None:
                prompt.start_sent = True
        if command.id not in self._open:
            self._taken.discard(command.id)
        return command

    def diagnostics(self) -> Iterator[Diagnostic]:
        """What went wrong beside the answers, in order, once each."""
        while self._diagnostics:
            yield self._diagnostics.popleft()

    def next_deadline(self) -> float | None:
        """When ``handle_timeout`` is next of use; None for never."""
        times = [self._dispose_at]
        for session in self._sessions.values():
            times.append(session.retry_at)
            for prompt in session.prompts.values():
                times.append(prompt.stop_until)
                if prompt.settlement is not None:
                    times.append(prompt.settlement.next_deadline())
        return min((when for when in times if when is not None), default=None)

    # ── What comes in ───────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, event: events.Event, now: float) -> None:
        """Take an event of the connection. What is no concern of the adapter is left alone."""
        if isinstance(event, events.RequestReceived):
            self._request(event, now)
        elif isinstance(event, (events.TurnCancelReceived, events.CancelRequested, events.RequestAbandoned)):
            handle = event.session
            session = self._sessions.get(handle.session_id or "") if handle is not None else None
            if session is not None:
                prompt = session.prompts.get(event.request_id or "")
                if prompt is not None and not prompt.answered:
                    prompt.answered = isinstance(event, events.RequestAbandoned)
                    self._cancel(prompt, now)
                if isinstance(event, events.TurnCancelReceived):
                    self._stop_foreign(session, now)
        elif isinstance(event, events.ConnectionOver):
            self.dispose(now)
        self._settle_all(now)

    def host_event(self, event: HostEvent, now: float) -> None:
        """Take what the host said by itself."""
        session = self._sessions.get(event.session_id)
        if session is None or session.attachment in (UNATTACHED, BACKING_OFF):
            return
        if isinstance(event, SubscriptionLost):
            error = internal("subscription.open", "subscription_failure", reason=event.reason)
            self._subscription_lost(session, error, event.recoverable, now)
        elif session.attachment != ATTACHED:
            session.buffered.append(event)
            if len(session.buffered) > self.limits.max_buffered:
                self._retire(session, internal("subscription.open", "slow_consumer"), now)
        else:
            session.recoveries = 0
            self._frame(session, event, now)
        self._settle_all(now)

    def connection_lost(self, reason: str, now: float) -> None:
        """Say that the connection to the host is gone: every command on it has failed, and so have subscriptions."""
        self._connected = False
        waiting = self._connecting
        for command, _, failed in [*self._open.values()]:
            if isinstance(command, (OpenFile, ReadFile)) or command is waiting:
                continue
            if command.id not in self._open:
                continue
            taken = command.id in self._taken
            if not taken:
                self._commands.remove(command)
            self._forget(command)
            failed(HostError("connection_lost", reason, dispatch=DISPATCHED if taken else NOT_SENT), now)
        for session in [*self._sessions.values()]:
            if session.attachment in (HYDRATING, ATTACHED):
                error = internal("subscription.open", "subscription_failure", reason=reason)
                self._subscription_lost(session, error, True, now)
        self._settle_all(now)

    def succeeded(self, command_id: int, value: object, now: float) -> None:
        """Say that a command was carried out, and what it gave. Of one that nobody waits for any more: a no-op."""
        found = self._open.get(command_id)
        if found is not None:
            self._forget(found[0])
            found[1](value, now)
            self._settle_all(now)

    def failed(self, command_id: int, error: HostError, now: float) -> None:
        """Say that a command failed. Of one that nobody waits for any more: a no-op."""
        check_type("error", error, HostError, "a HostError")
        found = self._open.get(command_id)
        if found is not None:
            self._forget(found[0])
            found[2](error, now)
            self._settle_all(now)

    def handle_timeout(self, now: float) -> None:
        """Say that time has passed. Early calls are no-ops."""
        for session in [*self._sessions.values()]:
            if session.retry_at is not None and now >= session.retry_at:
                session.retry_at = None
                self._subscribe(session, now)
            for prompt in [*session.prompts.values()]:
                if prompt.settlement is not None:
                    prompt.settlement.handle_timeout(now)
                if prompt.stop_until is not None and now >= prompt.stop_until:
                    prompt.stop_until = None
        if self._dispose_at is not None and now >= self._dispose_at:
            self._dispose_at = None
            self._disconnect(now)
        self._settle_all(now)

    def resume(self, now: float) -> None:
        """Say that output of the connection was written: events that waited for it go on."""
        self._settle_all(now)

    def dispose(self, now: float) -> None:
        """The client has gone, or is to go: cancel every turn, stop what runs, then close the connection to the host.

        ``disposed`` is true once all of that is done. A second call is a no-op.
        """
        if self._disposing:
            return
        self._disposing = True
        self._dispose_at = now + self.limits.dispose_deadline
        if self._connecting is not None and self._withdraw(self._connecting):
            self._connecting = None
        for session in [*self._sessions.values()]:
            session.owned = False
            for prompt in [*session.prompts.values()]:
                self._cancel(prompt, now)
            self._stop_foreign(session, now)
            self._detach(session, now)
        for call in [*self._waiting]:
            call(internal("connect", "registry_closed", "adapter"), now)
        self._waiting.clear()
        self._settle_all(now)

    # ── Commands ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, command: Command, done: Done, failed: Failed) -> Command:
        command.id = self._next_id
        self._next_id += 1
        self._commands.append(command)
        self._open[command.id] = (command, done, failed)
        return command

    def _send_only(self, command: Command) -> None:
        """For a command whose end concerns nobody."""
        command.id = self._next_id
        self._next_id += 1
        self._commands.append(command)

    def _forget(self, command: Command) -> None:
        del self._open[command.id]
        self._taken.discard(command.id)

    def _withdraw(self, command: Command) -> bool:
        """Take back a command that was not dispatched."""
        if command.id not in self._open or command.id in self._taken:
            return False
        self._commands.remove(command)
        self._forget(command)
        return True

    def _connect(self, then: Callable[[RequestError | None, float], None], now: float) -> None:
        """Call ``then`` once the host is connected, or with the reason why not. Callers share one attempt."""
        if self._disposing:
            then(internal("connect", "registry_closed", "adapter"), now)
            return
        if self._connected:
            then(None, now)
            return
        self._waiting.append(then)
        if self._connecting is None:
            self._connecting = self._send(Connect(), self._connection_made, self._connection_failed)

    def _connection_made(self, _: object, now: float) -> None:
        self._connecting = None
        self._connected = True
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call(None, now)

    def _connection_failed(self, error: HostError, now: float) -> None:
        self._connecting = None
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call(internal("connect", "connection_failed", reason=str(error)), now)

    def _disconnect(self, now: float) -> None:
        if self._disconnecting:
            return
        self._disconnecting = True
        self._connected = False
        # What still waits can only be cut off now.
        for command, _, failed in [*self._open.values()]:
            if command.id not in self._open:
                continue
            taken = command.id in self._taken
            if not taken:
                self._commands.remove(command)
            self._forget(command)
            failed(HostError("connection_lost", "disposed", dispatch=DISPATCHED if taken else NOT_SENT), now)
        for session in self._sessions.values():
            for prompt in [*session.prompts.values()]:
                if prompt.settlement is not None:
                    prompt.settlement.drop()
                prompt.stop_until = None
        self._send(Disconnect(), lambda value, at: self._gone(), lambda error, at: self._gone())

    def _gone(self) -> None:
        self.disposed = True
        self._dispose_at = None

    # ── Requests of the client ──────────────────────────────────────────────────────────────────────────────────────

    def _request(self, event: events.RequestReceived, now: float) -> None:
        if self._disposing:
            self._refuse(event.request_id, internal(event.method, "registry_closed", "adapter"))
        elif isinstance(event, events.PromptRequested):
            self._start_prompt(event, now)
        elif isinstance(event, events.NewSessionRequested):
            self._with_host(event, lambda at: self._create(event), now)
        elif isinstance(event, (events.LoadSessionRequested, events.ResumeSessionRequested)):
            self._with_host(event, lambda at: self._reopen(event), now)
        elif isinstance(event, events.ListSessionsRequested):
            self._with_host(event, lambda at: self._list(event), now)
        elif isinstance(event, events.CloseSessionRequested):
            self._close(event, now)
        else:
            self._refuse(event.request_id, not_served(event.method))

    def _with_host(self, event: events.RequestReceived, then: Callable[[float], None], now: float) -> None:
        def go(error: RequestError | None, at: float) -> None:
            if error is not None:
                self._refuse(event.request_id, error)
            else:
                then(at)

        self._connect(go, now)

    def _refuse(self, request_id: str, error: RequestError) -> None:
        """Answer with an error. An answer that cannot be written any more concerns nobody."""
        try:
            self.connection.respond_error(request_id, error.code, error.message, error.data)
        except LocalProtocolError:
            return

    def _create(self, event: events.NewSessionRequested) -> None:
        def done(value: object, now: float) -> None:
            result: JsonObject = dict(value) if isinstance(value, dict) else {"sessionId": value}
            session_id = get_str(result, "sessionId")
            self._accept(event.request_id, session_id, result, now)

        self._send(CreateSession(event.cwd, event.params), done, self._refuser(event, "session.create"))

    def _reopen(self, event: events.LoadSessionRequested | events.ResumeSessionRequested) -> None:
        session_id = event.session_id or ""

        def done(value: object, now: float) -> None:
            transcript = value if isinstance(value, Transcript) else Transcript()
            try:
                if isinstance(event, events.LoadSessionRequested):
                    for said in transcript.messages:
                        self._replay(session_id, said)
            except LocalProtocolError as why:
                self._refuse(event.request_id, internal("session.load", "internal_failure", "adapter", reason=str(why)))
                return
            self._accept(event.request_id, session_id, {}, now)

        self._send(ReadTranscript(session_id), done, self._refuser(event, "session.read"))

    def _replay(self, session_id: str, said: Said) -> None:
        if said.thought:
            self.connection.update_text(session_id, THOUGHT, said.message_id, delta=said.thought)
        kind = {"user": USER, "assistant": MESSAGE}.get(said.role)
        if kind is not None and said.text:
            self.connection.update_text(session_id, kind, said.message_id, delta=said.text)

    def _accept(self, request_id: str, session_id: str | None, result: JsonObject, now: float) -> None:
        try:
            handle = self.connection.accept(request_id, session_id, result)
        except LocalProtocolError as why:
            self._refuse(request_id, internal("session.open", "internal_failure", "adapter", reason=str(why)))
            return
        session = _Session(handle.session_id or "", handle)
        older = self._sessions.get(session.session_id)
        if older is not None:
            self._detach(older, now)
        self._sessions[session.session_id] = session
        if self._presentation:
            self._send(
                ReadPresentation(session.session_id),
                lambda value, at: self._present(session, value),
                lambda error, at: self._diagnose(session, None, mapped("session.present", error), at),
            )

    def _present(self, session: _Session, value: object) -> None:
        for update in value if isinstance(value, list) else []:
            if session.owned and isinstance(update, dict):
                self._say(session, update)

    def _say(self, session: _Session, update: Mapping[str, object]) -> None:
        try:
            self.connection.update(session.session_id, update)
        except LocalProtocolError:
            return

    def _list(self, event: events.ListSessionsRequested) -> None:
        def done(value: object, now: float) -> None:
            page = value if isinstance(value, SessionPage) else SessionPage(())
            try:
                self.connection.answer_list(event.request_id, page.sessions, page.next_cursor)
            except LocalProtocolError as why:
                self._refuse(event.request_id, internal("session.list", "internal_failure", "adapter", reason=str(why)))

        self._send(ListSessions(event.cwd, event.cursor), done, self._refuser(event, "session.list"))

    def _refuser(self, event: events.RequestReceived, operation: str) -> Failed:
        return lambda error, now: self._refuse(event.request_id, mapped(operation, error))

    # ── Prompts: content, files ─────────────────────────────────────────────────────────────────────────────────────

    def _prompt(self, session_id: str, turn_id: str) -> _Prompt | None:
        session = self._sessions.get(session_id)
        return session.prompts.get(turn_id) if session is not None else None

    def _start_prompt(self, event: events.PromptRequested, now: float) -> None:
        session = self._sessions.get(event.session_id or "")
        if session is None or not session.owned:
            self._refuse(event.request_id, invalid("unknown_session", "this session is not open here", "sessionId"))
            return
        try:
            content = map_content(events.get_list(event.params, "prompt"), self.limits)
        except RequestError as why:
            self._refuse(event.request_id, why)
            return
        prompt = _Prompt(session, event.request_id, content)
        session.prompts[event.request_id] = prompt
        self._check_files(prompt, now)

    def _check_files(self, prompt: _Prompt, now: float) -> None:
        """Open the linked files, one after the other: what each is has to be known before the host is asked."""
        index = len(prompt.uploads)
        if index == len(prompt.content.links):
            prompt.stage = move(HOST_PROMPT, prompt.stage, "checked")
            self._connect(lambda error, at: self._host_there(prompt, error, at), now)
            return
        path, name, mime = prompt.content.links[index]

        def done(value: object, at: float) -> None:
            prompt.awaited = None
            assert isinstance(value, FileFacts)
            if prompt.stage != CHECKING:
                self._send_only(CloseFile(value.file))
                return
            upload = _Upload(f"{prompt.request_id}.{index}", value, name or value.name, value.mime or mime)
            prompt.uploads.append(upload)
            if not value.regular:
                prompt.failure = invalid("resource_not_file", f"{clip(path)} is no regular file")
            elif not 0 <= value.size <= self.limits.max_file_bytes:
                reason = f"{clip(path)} has {value.size} bytes; {self.limits.max_file_bytes} are the bound"
                prompt.failure = invalid("resource_too_large", reason)
            else:
                self._check_files(prompt, at)

        def failed(error: HostError, at: float) -> None:
            prompt.awaited = None
            prompt.failure = invalid("resource_unreadable", f"{clip(path)} cannot be opened: {error}")

        prompt.awaited = self._send(OpenFile(path), done, failed)

    def _host_there(self, prompt: _Prompt, error: RequestError | None, now: float) -> None:
        if prompt.stage != CONNECTING:
            return
        if error is not None:
            prompt.failure = error
            return
        prompt.stage = move(HOST_PROMPT, prompt.stage, "connected")
        if prompt.session.attachment == UNATTACHED:
            self._subscribe(prompt.session, now)
        elif prompt.session.attachment == ATTACHED:
            self._attached(prompt, now)

    # ── The subscription of a session ───────────────────────────────────────────────────────────────────────────────

    def _subscribe(self, session: _Session, now: float) -> None:
        session.attachment = move(HOST_ATTACHMENT, session.attachment, "subscribe")

        def there(error: RequestError | None, at: float) -> None:
            if session.attachment != SUBSCRIBING or session.command is not None:
                return
            if error is not None:
                self._subscription_lost(session, error, True, at)
                return
            session.command = self._send(
                OpenSubscription(session.session_id),
                lambda value, at: self._subscribed(session, value, at),
                lambda error, at: self._subscription_failed(session, error, at),
            )

        self._connect(there, now)

    def _subscribed(self, session: _Session, value: object, now: float) -> None:
        session.command = None
        # Any object will do, and None is one.
        session.subscription = (value,)
        session.buffered.clear()
        session.attachment = move(HOST_ATTACHMENT, session.attachment, "subscribed")
        session.command = self._send(
            ReadTranscript(session.session_id),
            lambda value, at: self._hydrated(session, value, at),
            lambda error, at: self._subscription_failed(session, error, at),
        )

    def _subscription_failed(self, session: _Session, error: HostError, now: float) -> None:
        session.command = None
        reason = internal("subscription.open", "subscription_failure", reason=str(error), cause=error.code)
        self._subscription_lost(session, reason, error.dispatch != "answered", now)

    def _hydrated(self, session: _Session, value: object, now: float) -> None:
        session.command = None
        session.attachment = move(HOST_ATTACHMENT, session.attachment, "hydrated")
        session.first = False
        session.opened_at = now
        self._wake(session)
        transcript = value if isinstance(value, Transcript) else Transcript()
        for prompt in [*session.prompts.values()]:
            if prompt.start_sent:
                # What was kept is in the transcript; a piece without its place could not be told from a new one.
                prompt.queue = deque(event for event in prompt.queue if not _placeless(event))
                self._recover(prompt, transcript)
        self._root(session, transcript.root, now)
        frames, session.buffered = session.buffered, []
        for frame in frames:
            if session.attachment == ATTACHED:
                self._frame(session, frame, now)
        for prompt in [*session.prompts.values()]:
            if prompt.stage == ATTACHING and session.attachment == ATTACHED:
                self._attached(prompt, now)

    def _subscription_lost(self, session: _Session, error: RequestError, recoverable: bool, now: float) -> None:
        self._drop_subscription(session)
        session.subscription = None
        if session.attachment == ATTACHED and now - session.opened_at >= self.limits.stable_after:
            session.recoveries = 0
        if session.first or not recoverable or session.recoveries >= self.limits.max_recoveries or not session.owned:
            self._retire(session, error, now)
            return
        if not session.prompts:
            # Nobody waits: the next prompt opens a fresh one.
            session.attachment = move(HOST_ATTACHMENT, session.attachment, "retire")
            session.first = True
            return
        session.attachment = move(HOST_ATTACHMENT, session.attachment, "recover")
        session.retry_at = now + min(self.limits.backoff * 2**session.recoveries, self.limits.backoff_max)
        session.recoveries += 1
        self._wake(session)

    def _wake(self, session: _Session) -> None:
        """Something has changed: whoever waits to ask again asks at once (M34)."""
        for prompt in session.prompts.values():
            if prompt.settlement is not None:
                prompt.settlement.wake()

    def _drop_subscription(self, session: _Session) -> None:
        """Let go of what is open or being opened; what still comes of it is closed at once."""
        command, session.command = session.command, None
        session.retry_at = None
        session.buffered.clear()
        if command is not None and not self._withdraw(command) and command.id in self._open:
            if isinstance(command, OpenSubscription):
                session_id = session.session_id
                self._open[command.id] = (
                    command,
                    lambda value, at: self._send_only(CloseSubscription(session_id, value)),
                    lambda error, at: None,
                )
            else:
                self._forget(command)

    def _retire(self, session: _Session, error: RequestError, now: float) -> None:
        """The subscription is over for good: its prompts fail, and the next prompt opens a fresh one (M54)."""
        self._detach(session, now)
        for prompt in [*session.prompts.values()]:
            if prompt.stage not in (CHECKING, CONNECTING) and prompt.failure is None:
                prompt.failure = error

    def _detach(self, session: _Session, now: float) -> None:
        """Close the subscription."""
        open_before = session.attachment in (HYDRATING, ATTACHED) and session.subscription is not None
        self._drop_subscription(session)
        if session.attachment != UNATTACHED:
            session.attachment = move(HOST_ATTACHMENT, session.attachment, "retire")
        session.first = True
        if open_before and session.subscription is not None and self._connected:
            session.closing_subscription = True

            def over(_: object, at: float) -> None:
                session.closing_subscription = False

            self._send(CloseSubscription(session.session_id, session.subscription[0]), over, over)
        session.subscription = None

    def _frame(self, session: _Session, event: HostEvent, now: float) -> None:
        """One event of a live subscription, in order."""
        self._wake(session)
        if isinstance(event, RootShown):
            self._root(session, event.root, now)
            return
        if not isinstance(event, TurnEvent):
            return
        if isinstance(event, TurnFinished) and session.root is not None and session.root.turn_id == event.turn_id:
            session.root = Root(event.turn_id, session.root.run_id, event.status)
        prompt = session.prompts.get(event.turn_id)
        if prompt is None or not prompt.start_sent:
            return
        if isinstance(event, InteractionPending):
            # Neither answered nor approved. A fresh subscription must not show it again.
            if prompt.failure is None:
                prompt.failure = unsupported_interaction(event.kind)
            self._retire(session, internal("subscription.open", "internal_failure"), now)
            return
        self._project(prompt, event)

    def _root(self, session: _Session, root: Root | None, now: float) -> None:
        session.root = root
        if root is None:
            return
        prompt = session.prompts.get(root.turn_id)
        if prompt is None or not prompt.start_sent:
            return
        prompt.run_id = root.run_id
        if root.status != GOING_ON:
            self._project(prompt, TurnFinished(session.session_id, root.turn_id, root.status))

    # ── Text ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _project(self, prompt: _Prompt, event: TurnEvent) -> None:
        """Show an event, or keep it while the client reads too slowly; text of what is kept is dropped first (M56)."""
        queue = prompt.queue
        limits = self.limits
        if not queue and not prompt.dropped and self.connection.output_bytes < limits.pace_at:
            self._show(prompt, event)
            return
        if prompt.dropped and not prompt.recovering and _droppable(event):
            return
        if len(queue) >= limits.max_queued:
            kept = [waiting for waiting in queue if not _droppable(waiting)]
            prompt.dropped = prompt.dropped or len(kept) < len(queue)
            queue.clear()
            queue.extend(kept)
            if prompt.dropped and _droppable(event):
                return
        queue.append(event)

    def _drain(self, prompt: _Prompt) -> None:
        """Show what was kept, as far as the client has read; text that was dropped is read again at the end."""
        while prompt.queue and self.connection.output_bytes < self.limits.pace_at:
            if prompt.dropped and not prompt.recovering and len(prompt.queue) <= self.limits.rearm_at:
                self._read_again(prompt)
            if prompt.recovering:
                return
            self._show(prompt, prompt.queue.popleft())
        slow = self.connection.output_bytes >= self.limits.pace_at
        if prompt.dropped and not prompt.recovering and not prompt.queue and not slow:
            self._read_again(prompt)

    def _read_again(self, prompt: _Prompt) -> None:
        prompt.recovering = True

        def done(value: object, at: float) -> None:
            prompt.recovering = prompt.dropped = False
            if isinstance(value, Transcript):
                self._recover(prompt, value)

        def failed(error: HostError, at: float) -> None:
            prompt.recovering = prompt.dropped = False
            if prompt.failure is None:
                prompt.failure = mapped("session.read", error)

        self._send(ReadTranscript(prompt.session.session_id), done, failed)

    def _recover(self, prompt: _Prompt, transcript: Transcript) -> None:
        """A transcript goes through the same comparison: thought first, and an absent one counts as "" (M9)."""
        for said in transcript.messages:
            if said.turn_id == prompt.request_id and said.role == "assistant":
                for kind, whole in ((THOUGHT, said.thought or ""), (MESSAGE, said.text)):
                    session_id = prompt.session.session_id
                    self._show(
                        prompt, TextArrived(session_id, prompt.request_id, kind, said.message_id, snapshot=whole)
                    )

    def _show(self, prompt: _Prompt, event: TurnEvent) -> None:
        if isinstance(event, TurnFinished):
            if prompt.finished is None:
                prompt.finished = event.status, event.message
            return
        if prompt.failure is not None or prompt.answered or prompt.stage == ENDED:
            return
        try:
            if isinstance(event, TextArrived):
                said = self.connection.update_text(
                    prompt.request_id,
                    event.kind,
                    event.message_id,
                    delta=event.delta,
                    offset=event.offset,
                    snapshot=event.snapshot,
                )
                if said == REVISED:
                    # The connection has answered the prompt; the turn behind it is still to be stopped.
                    prompt.answered = True
                    prompt.failure = unsupported_stream_revision()
            elif isinstance(event, UpdateArrived):
                self.connection.update(prompt.session.session_id, event.update)
        except (StreamGap, StreamConflict) as why:
            prompt.failure = internal("subscription.open", "internal_failure", reason=str(why))
        except LocalProtocolError as why:
            prompt.failure = internal("session.update", "internal_failure", "adapter", reason=str(why))

    # ── Uploads, one file after the other ───────────────────────────────────────────────────────────────────────────

    def _attached(self, prompt: _Prompt, now: float) -> None:
        prompt.stage = move(HOST_PROMPT, prompt.stage, "attached")
        self._next_upload(prompt, now)

    def _next_upload(self, prompt: _Prompt, now: float) -> None:
        if prompt.ending:
            return
        if prompt.uploads:
            self._read_on(prompt, prompt.uploads[0])
            return
        if any(other.answered for other in prompt.session.prompts.values()):
            # A turn whose prompt has its answer is still being stopped: it must not be in the way (M13).
            return
        prompt.stage = move(HOST_PROMPT, prompt.stage, "uploaded")
        content = prompt.content
        prompt.awaited = self._send(
            StartTurn(
                prompt.session.session_id, prompt.request_id, content.text, content.display_text, prompt.attachments
            ),
            lambda value, at: self._start_answered(prompt, value),
            lambda error, at: self._start_failed(prompt, error),
        )

    def _await(self, prompt: _Prompt, command: Command, operation: str, done: Done) -> None:
        """Send a step of an upload; nothing follows it once the prompt is ending."""

        def finished(value: object, at: float) -> None:
            prompt.awaited = None
            done(value, at)

        def failed(error: HostError, at: float) -> None:
            prompt.awaited = None
            if prompt.failure is None:
                local_file = isinstance(command, ReadFile)
                prompt.failure = (
                    invalid("resource_unreadable", f"a linked file cannot be read: {error}")
                    if local_file
                    else mapped(operation, error)
                )

        prompt.awaited = self._send(command, finished, failed)

    def _read_on(self, prompt: _Prompt, upload: _Upload) -> None:
        facts = upload.facts
        have = len(upload.data)
        # One byte more than it had: a file that has grown shows it.
        want = min(self.limits.read_bytes, facts.size - have) or 1

        def done(value: object, at: float) -> None:
            piece = bytes(value) if isinstance(value, (bytes, bytearray)) else b""
            expected = want if have < facts.size else 0
            if len(piece) != expected:
                prompt.failure = prompt.failure or invalid("resource_changed", f"{clip(facts.path)} changed meanwhile")
                return
            upload.data += piece
            if prompt.ending:
                return
            if expected:
                self._read_on(prompt, upload)
            else:
                self._begin(prompt, upload)

        self._await(prompt, ReadFile(facts.file, have, want), "file.read", done)

    def _begin(self, prompt: _Prompt, upload: _Upload) -> None:
        session_id = prompt.session.session_id

        def done(value: object, at: float) -> None:
            if isinstance(value, Uploaded):
                self._uploaded(prompt, value, at)
                return
            upload.begun = True
            self._upload_on(prompt, upload, value, 0)

        command = UploadBegin(session_id, upload.upload_id, upload.name, upload.mime, bytes(upload.data))
        self._await(prompt, command, "upload.begin", done)

    def _upload_on(self, prompt: _Prompt, upload: _Upload, next_offset: object, expected: int) -> None:
        """The host says where to go on: at 0 first, then behind what was sent."""
        total = len(upload.data)
        if isinstance(next_offset, bool) or not isinstance(next_offset, int) or not expected <= next_offset <= total:
            prompt.failure = prompt.failure or internal("upload.chunk", "internal_failure", reason="unexpected offset")
            return
        if expected and next_offset != expected:
            prompt.failure = prompt.failure or internal("upload.chunk", "internal_failure", reason="unexpected offset")
            return
        if prompt.ending:
            return
        session_id = prompt.session.session_id
        if next_offset == total:
            self._await(
                prompt, UploadCommit(session_id, upload.upload_id), "upload.commit", self._committer(prompt, upload)
            )
            return
        piece = bytes(upload.data[next_offset : next_offset + self.limits.chunk_bytes])
        upload.offset = next_offset + len(piece)
        self._await(
            prompt,
            UploadChunk(session_id, upload.upload_id, next_offset, piece),
            "upload.chunk",
            lambda value, at: self._upload_on(prompt, upload, value, upload.offset),
        )

    def _committer(self, prompt: _Prompt, upload: _Upload) -> Done:
        def done(value: object, at: float) -> None:
            if isinstance(value, Uploaded):
                self._uploaded(prompt, value, at)
            else:
                prompt.failure = prompt.failure or internal("upload.commit", "internal_failure")

        return done

    def _uploaded(self, prompt: _Prompt, value: Uploaded, now: float) -> None:
        upload = prompt.uploads.popleft()
        prompt.attachments.append(value.reference)
        self._send_only(CloseFile(upload.facts.file))
        self._next_upload(prompt, now)

    def _abort_upload(self, prompt: _Prompt) -> bool:
        """Give up an upload that was begun; whether the prompt has to wait for that."""
        upload = prompt.uploads[0] if prompt.uploads else None
        if upload is None or not upload.begun or self._disconnecting:
            return False
        upload.begun = False
        self._await(
            prompt, UploadAbort(prompt.session.session_id, upload.upload_id), "upload.abort", lambda value, at: None
        )
        return True

    # ── The start, and what became of it ────────────────────────────────────────────────────────────────────────────

    def _start_answered(self, prompt: _Prompt, value: object) -> None:
        prompt.awaited = None
        if isinstance(value, Started):
            prompt.run_id = value.run_id
        else:
            reason = value.reason if isinstance(value, Blocked) else "an answer of another kind"
            prompt.failure = prompt.failure or internal("turn.start", "internal_failure", reason=reason)
        prompt.stage = move(HOST_PROMPT, prompt.stage, "started")

    def _start_failed(self, prompt: _Prompt, error: HostError) -> None:
        prompt.awaited = None
        if prompt.failure is None:
            prompt.failure = mapped("turn.start", error)
        if error.dispatch != DISPATCHED:
            prompt.stage = move(HOST_PROMPT, prompt.stage, "started")
            return
        prompt.stage = move(HOST_PROMPT, prompt.stage, "lost")
        limits = self.limits
        prompt.settlement = StartSettlement(
            attempts=limits.query_attempts, attempt_deadline=limits.query_deadline, pauses=limits.query_pauses
        )

    def _poll(self, prompt: _Prompt, settlement: StartSettlement, now: float) -> None:
        """The facts in their order: the root first, then a query (M35)."""
        if prompt.run_id is not None or prompt.finished is not None:
            settlement.admitted()
            return
        attempt = settlement.take_query(now)
        if attempt is None:
            return
        number = attempt

        def done(value: object, at: float) -> None:
            if isinstance(value, Root):
                settlement.admitted()
                prompt.run_id = value.run_id
                if value.status != GOING_ON:
                    prompt.finished = prompt.finished or (value.status, "")
            else:
                settlement.failed(number, "an answer of another kind", at)

        def failed(error: HostError, at: float) -> None:
            if error.code == "not_found" and error.dispatch == "answered":
                settlement.not_admitted()
            else:
                settlement.failed(number, mapped("turn.query", error).data, at)

        def there(error: RequestError | None, at: float) -> None:
            if error is not None:
                settlement.failed(number, error.data, at)
            elif settlement.verdict is None and settlement.attempts == number:
                self._send(QueryTurn(prompt.session.session_id, prompt.request_id), done, failed)

        self._connect(there, now)

    # ── Cancel and stop ─────────────────────────────────────────────────────────────────────────────────────────────

    def _cancel(self, prompt: _Prompt, now: float) -> None:
        prompt.cancelled = True

    def _stop(self, prompt: _Prompt, run_id: str) -> None:
        """Stop this prompt's turn, exactly once (M13, M44)."""
        if self._disconnecting:
            prompt.stop = "failed"
            return
        prompt.stop = "pending"

        def done(value: object, now: float) -> None:
            prompt.stop = "done"
            if prompt.cancelled and prompt.session.attachment != UNATTACHED:
                prompt.stop_until = now + self.limits.stop_grace

        def failed(error: HostError, now: float) -> None:
            # It still counts as running: a later close tries again (M45).
            prompt.stop = "failed"
            prompt.session.root = Root(prompt.request_id, run_id)
            closing = bool(prompt.session.closers)
            self._diagnose(prompt.session, prompt.request_id, mapped("turn.stop", error), now, keep=closing)

        self._send(StopTurn(prompt.session.session_id, prompt.request_id, run_id), done, failed)

    def _stop_foreign(self, session: _Session, now: float) -> None:
        """Stop the turn that the session shows, when it is no open prompt of ours (M46)."""
        root = session.root
        if root is None or root.status != GOING_ON or root.run_id in session.stopping:
            return
        if root.turn_id in session.prompts:
            return
        session.stopping.add(root.run_id)

        def done(value: object, at: float) -> None:
            session.stopping.discard(root.run_id)
            if session.root is root:
                session.root = Root(root.turn_id, root.run_id, "aborted")

        def failed(error: HostError, at: float) -> None:
            # It still counts as running: a later close tries again.
            session.stopping.discard(root.run_id)
            self._diagnose(session, None, mapped("turn.stop", error), at, keep=bool(session.closers))

        self._send(StopTurn(session.session_id, root.turn_id, root.run_id), done, failed)

    def _diagnose(
        self, session: _Session, request_id: str | None, error: RequestError, now: float, *, keep: bool = False
    ) -> None:
        """Tell the owner; session/close tells the first of those that are kept."""
        if keep and session.fault is None:
            session.fault = error
        self._diagnostics.append(Diagnostic(session.session_id, request_id, error, now))

    # ── Close ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _close(self, event: events.CloseSessionRequested, now: float) -> None:
        session = self._sessions.get(event.session_id or "")
        if session is None:
            self._refuse(event.request_id, invalid("unknown_session", "this session is not open here", "sessionId"))
            return
        session.owned = False
        session.closers.append(event.request_id)
        for prompt in [*session.prompts.values()]:
            self._cancel(prompt, now)
        self._stop_foreign(session, now)

    def _close_on(self, session: _Session, now: float) -> None:
        """Every turn has ended and every stop has settled: then the subscription, then the answer (M60)."""
        if not session.closers or session.prompts or session.stopping:
            return
        if session.attachment != UNATTACHED:
            self._detach(session, now)
        if session.closing_subscription:
            return
        closers, session.closers = session.closers, []
        for request_id in closers:
            if session.fault is not None:
                self._refuse(request_id, session.fault)
            else:
                try:
                    self.connection.respond(request_id)
                except LocalProtocolError:
                    continue
        if not self.connection.closed:
            try:
                self.connection.end_session(session.handle)
            except LocalProtocolError:
                pass
        del self._sessions[session.session_id]

    # ── One look at everything that waits ───────────────────────────────────────────────────────────────────────────

    def _settle_all(self, now: float) -> None:
        """Go on wherever the facts allow it. Called after everything that comes in."""
        for session in [*self._sessions.values()]:
            for prompt in [*session.prompts.values()]:
                self._drain(prompt)
                self._advance(prompt, now)
            self._leave_opening(session, now)
            self._close_on(session, now)
        if self._disposing and not self._disconnecting and self._connecting is None:
            self._dispose_on(now)

    def _advance(self, prompt: _Prompt, now: float) -> None:
        if prompt.stage in (CHECKING, CONNECTING, ATTACHING):
            if prompt.ending:
                self._end(prompt, now)
        elif prompt.stage == UPLOADING:
            if prompt.ending and prompt.awaited is not None and not isinstance(prompt.awaited, UploadAbort):
                if self._withdraw(prompt.awaited):
                    prompt.awaited = None
            if prompt.awaited is None and not prompt.ending:
                self._next_upload(prompt, now)
            elif prompt.awaited is None and not self._abort_upload(prompt):
                self._end(prompt, now)
        elif prompt.stage != ENDED:
            self._advance_started(prompt, now)

    def _advance_started(self, prompt: _Prompt, now: float) -> None:
        if not prompt.start_sent and prompt.stage == STARTING:
            if prompt.ending and prompt.awaited is not None and self._withdraw(prompt.awaited):
                self._end(prompt, now)
            return
        settlement = prompt.settlement
        if settlement is not None and settlement.verdict is None:
            if self._disposing:
                # What only a query could tell must not hold the end up: reads may hang for ever (M62).
                settlement.drop()
            else:
                self._poll(prompt, settlement, now)
        if prompt.ending and prompt.run_id is not None and prompt.finished is None and prompt.stop == "none":
            self._stop(prompt, prompt.run_id)
        if prompt.stop == "pending" or prompt.stage == STARTING or (prompt.recovering and not prompt.ending):
            return
        if settlement is not None:
            if settlement.verdict is None:
                return
            if settlement.verdict == UNKNOWN and prompt.run_id is None:
                self._outcome_unknown(prompt, settlement, now)
        if prompt.finished is not None and not prompt.queue and not prompt.dropped:
            self._end(prompt, now)
        elif prompt.ending:
            waits = prompt.stop == "done" and prompt.cancelled and prompt.stop_until is not None
            if not waits or prompt.session.attachment == UNATTACHED:
                self._end(prompt, now)

    def _outcome_unknown(self, prompt: _Prompt, settlement: StartSettlement, now: float) -> None:
        prompt.settlement = None
        error = internal(
            "turn.query",
            "outcome_unknown",
            reason="admission_query_failed",
            attempts=settlement.attempts,
            cause=settlement.cause,
        )
        prompt.failure = error
        if prompt.cancelled:
            self._diagnose(prompt.session, prompt.request_id, error, now, keep=True)

    def _end(self, prompt: _Prompt, now: float) -> None:
        """Answer the prompt, once, and let go of it."""
        prompt.stage = move(HOST_PROMPT, prompt.stage, "over")
        del prompt.session.prompts[prompt.request_id]
        if prompt.settlement is not None:
            prompt.settlement.drop()
        if prompt.awaited is not None:
            self._withdraw(prompt.awaited)
        for upload in prompt.uploads:
            self._send_only(CloseFile(upload.facts.file))
        if prompt.answered:
            return
        prompt.answered = True
        try:
            if prompt.cancelled:
                self.connection.end_turn(prompt.request_id, "cancelled")
            elif prompt.failure is not None:
                self.connection.fail_turn(prompt.request_id, prompt.failure)
            elif prompt.finished is not None and prompt.finished[0] == "failed" and self._failed_turn == "error":
                error = internal("turn.run", "turn_failed", reason=prompt.finished[1])
                self.connection.fail_turn(prompt.request_id, error)
            else:
                self.connection.end_turn(prompt.request_id, "end_turn")
        except LocalProtocolError:
            # The client has gone, or cannot be written to: nobody is there to be told.
            return

    def _leave_opening(self, session: _Session, now: float) -> None:
        """Nobody waits for a subscription that is being opened any more: let go of it (M41, M42)."""
        if session.attachment in (SUBSCRIBING, HYDRATING, BACKING_OFF) and not any(
            prompt.start_sent or prompt.stage in (ATTACHING, UPLOADING, STARTING) for prompt in session.prompts.values()
        ):
            self._detach(session, now)

    def _dispose_on(self, now: float) -> None:
        """In this order: starts settle, stops settle, the connection closes (M62)."""
        prompts = [prompt for session in self._sessions.values() for prompt in session.prompts.values()]
        if any(prompt.stage in (UPLOADING, STARTING) or prompt.stop == "pending" for prompt in prompts):
            return
        if any(session.stopping for session in self._sessions.values()):
            return
        if self._connected:
            self._disconnect(now)
            self._settle_all(now)
        else:
            self._disconnecting = True
            self._gone()


def _placeless(event: TurnEvent) -> bool:
    return isinstance(event, TextArrived) and event.snapshot is None and event.offset is None


def _droppable(event: TurnEvent) -> bool:
    if isinstance(event, TextArrived):
        return event.snapshot is None
    return isinstance(event, UpdateArrived) and event.droppable


__all__ = (
    "Blocked",
    "CloseFile",
    "CloseSubscription",
    "Command",
    "Connect",
    "CreateSession",
    "Diagnostic",
    "Disconnect",
    "FileFacts",
    "HostAdapter",
    "HostError",
    "HostEvent",
    "HostLimits",
    "InteractionPending",
    "ListSessions",
    "OpenFile",
    "OpenSubscription",
    "QueryTurn",
    "ReadFile",
    "ReadPresentation",
    "ReadTranscript",
    "Root",
    "RootShown",
    "Said",
    "SessionPage",
    "StartTurn",
    "Started",
    "StopTurn",
    "SubscriptionLost",
    "TextArrived",
    "Transcript",
    "TurnFinished",
    "UpdateArrived",
    "UploadAbort",
    "UploadBegin",
    "UploadChunk",
    "UploadCommit",
    "Uploaded",
)
