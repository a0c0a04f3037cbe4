"""Every exception of the library.

ACPError
├─ ProtocolError            abstract: a rule of the protocol was broken
│  ├─ LocalProtocolError    by you: raised by the call that broke it; nothing changed, nothing was queued
│  │  ├─ StreamRevision     a text that was sent is not so any more
│  │  ├─ StreamGap          a delta starts past the end of what was sent
│  │  └─ StreamConflict     a delta overlaps what was sent, and differs from it
│  └─ RemoteProtocolError   by the peer: never raised while receiving, carried by an event
├─ RequestError             the peer answered a request with an error: no rule was broken
│  └─ ParseError, InvalidRequest, MethodNotFound, InvalidParams, InternalError, RequestCancelled, AuthRequired,
│     ResourceNotFound      the same, for the codes that the protocol knows
├─ RequestTimeout           no answer in time (also a TimeoutError)
├─ ConnectionClosed         the connection ended before the answer came
│  └─ AgentExited           because the agent's process has ended
├─ AgentNotStarted          the agent's process could not be started
└─ ConsumerTooSlow          raised by bindings: an answer stands behind more unread input than may be kept
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import NoReturn, TypeVar

    T = TypeVar("T")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002

NOT_SENT = "not_sent"
SENT_NO_REPLY = "sent_no_reply"
ANSWERED = "answered"

# Seconds. Below it a time and a duration can be added without leaving the floats.
END_OF_TIME = 1e300


class ACPError(Exception):
    """The base of every exception this library raises or carries.

    ``dispatch`` is set on one that has settled a request: what is known of its fate, ``"answered"``, ``"not_sent"`` or
    ``"sent_no_reply"`` (rule 3). None on any other.
    """

    dispatch: str | None = None


class ProtocolError(ACPError):
    """A rule of the protocol was broken. Abstract: one of its two subclasses says by whom.

    ``rule`` is a short stable name of the rule, such as ``turn.one_at_a_time``.
    """

    rule: str

    def __init__(self, message: str, *, rule: str) -> None:
        if type(self) is ProtocolError:
            raise TypeError("ProtocolError is abstract: use LocalProtocolError or RemoteProtocolError")
        super().__init__(message)
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.args[0]} [{self.rule}]"


class LocalProtocolError(ProtocolError):
    """You broke a rule. The call that raised this has changed nothing and queued nothing (rule 2)."""


class StreamRevision(LocalProtocolError):
    """A whole text does not start with what was said of it: changed, shortened or cleared (projection.py).

    ``kind`` and ``message_id`` name the text, ``said`` and ``now`` are the two lengths in code points.
    """

    kind: str
    message_id: str | None
    said: int
    now: int

    def __init__(self, kind: str, message_id: str | None, said: int, now: int) -> None:
        super().__init__(
            f"{kind} {clip(message_id)} was revised: {said} code points were sent, and the {now} it has now do not "
            "start with them; what was sent cannot be taken back",
            rule="text.revision",
        )
        self.kind = kind
        self.message_id = message_id
        self.said = said
        self.now = now


class StreamGap(LocalProtocolError):
    """A delta starts past the end of what was said: something is missing in between (projection.py)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, rule="text.gap")


class StreamConflict(LocalProtocolError):
    """A delta overlaps what was said, and says something else there (projection.py)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, rule="text.conflict")


class RemoteProtocolError(ProtocolError):
    """The peer broke a rule. Carried by events, never raised while receiving (rule 4).

    ``code`` is the JSON-RPC error code which names this kind of fault.
    """

    code: int

    def __init__(self, message: str, *, rule: str, code: int = INVALID_REQUEST) -> None:
        super().__init__(message, rule=rule)
        self.code = code


class RequestError(ACPError):
    """The peer answered a request with an error, or a handler wants to answer with one.

    ``code`` is any 32-bit integer, ``message`` one short sentence, ``data`` any JSON value or None; see docs/errors.md.
    """

    code: int
    message: str
    data: object

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    def __reduce__(self) -> tuple[object, ...]:
        return request_error, (self.code, self.message, self.data), self.__dict__

    @property
    def auth_required(self) -> bool:
        """The code is -32000: authenticate, then ask again."""
        return self.code == AUTH_REQUIRED

    @property
    def cancelled(self) -> bool:
        """The code is -32800: the request was cancelled."""
        return self.code == REQUEST_CANCELLED


class _KnownError(RequestError):
    """An error whose class says its code."""

    known_code = 0

    def __init__(self, message: str, data: object = None) -> None:
        super().__init__(self.known_code, message, data)


class ParseError(_KnownError):
    """-32700: a line was no JSON."""

    known_code = PARSE_ERROR


class InvalidRequest(_KnownError):
    """-32600: no JSON-RPC message, or one that has no place now."""

    known_code = INVALID_REQUEST


class MethodNotFound(_KnownError):
    """-32601: nobody serves the method, or the capability for it was not advertised."""

    known_code = METHOD_NOT_FOUND


class InvalidParams(_KnownError):
    """-32602: the params do not fit."""

    known_code = INVALID_PARAMS


class InternalError(_KnownError):
    """-32603: it went wrong inside."""

    known_code = INTERNAL_ERROR


class RequestCancelled(_KnownError):
    """-32800: the request was cancelled, by its sender or from inside (spec rules 72 and 74)."""

    known_code = REQUEST_CANCELLED


class AuthRequired(_KnownError):
    """-32000: authenticate, then ask again."""

    known_code = AUTH_REQUIRED


class ResourceNotFound(_KnownError):
    """-32002: there is no such file, session or other thing."""

    known_code = RESOURCE_NOT_FOUND


_KNOWN: dict[int, type[_KnownError]] = {
    known.known_code: known
    for known in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        RequestCancelled,
        AuthRequired,
        ResourceNotFound,
    )
}


def request_error(code: int, message: str, data: object = None) -> RequestError:
    """The error of a code: of its own class where the protocol knows the code, else a plain RequestError."""
    known = _KNOWN.get(code)
    return known(message, data) if known is not None else RequestError(code, message, data)


def refusal(code: int, message: str, field: str, reason: str, **rest: object) -> RequestError:
    """An error for the peer. ``data`` names what is wrong and why, for programs.

    ``field`` is a member of the params, or ``method``, ``id``, ``request`` or ``line`` for what is not one of them;
    ``reason`` is a short stable word, as in ``ProtocolError.rule``.
    """
    return request_error(code, message, {"field": field, "reason": reason, **rest})


def unsupported_interaction(kind: str) -> RequestError:
    """The error for a prompt whose work waits for something that cannot be presented here (host rule M49)."""
    data = {"source": "adapter", "code": "unsupported_interaction", "kind": kind}
    return RequestError(INTERNAL_ERROR, f"the turn asks for something that cannot be presented here: {kind}", data)


def unsupported_stream_revision() -> RequestError:
    """The error for a prompt whose text was revised after it had been sent (host rule M8)."""
    data = {"source": "adapter", "code": "unsupported_stream_revision"}
    return RequestError(INTERNAL_ERROR, "text that was sent has been revised, and cannot be taken back", data)


def not_served(method: str) -> RequestError:
    """The error for a request that the owner has no handler for."""
    return refusal(METHOD_NOT_FOUND, f"{method} is not served here", "method", "method.not_served")


def handler_failed() -> RequestError:
    """The error for a request whose handler raised: nothing of what it raised is told."""
    return refusal(INTERNAL_ERROR, "internal error", "request", "handler.failed")


def request_cancelled() -> RequestError:
    """The error for a request that was cancelled (spec rule 72)."""
    return refusal(REQUEST_CANCELLED, "the request was cancelled", "request", "request.cancelled")


class RequestTimeout(ACPError, TimeoutError):
    """No answer came within the deadline that the caller gave. ``dispatch`` says whether it had been sent at all."""


class ConnectionClosed(ACPError):
    """The connection ended before the answer came.

    ``reason`` says why it ended; ``dispatch`` whether the request's bytes had been handed to the transport:
    ``"not_sent"`` or ``"sent_no_reply"`` (rule 3).
    """

    reason: str
    dispatch: str

    def __init__(self, reason: str, *, dispatch: str = NOT_SENT) -> None:
        super().__init__(reason)
        self.reason = reason
        self.dispatch = dispatch

    def __str__(self) -> str:
        note = "the request was not sent" if self.dispatch == NOT_SENT else "the request was sent, its fate is unknown"
        return f"the connection is over: {self.reason} ({note})"


class AgentExited(ConnectionClosed):
    """The connection ended because the agent's process did. Raised by bindings.

    ``returncode`` is the exit code, negative when a signal ended it: then ``signal`` is the signal's name, such as
    ``"SIGKILL"``. ``stderr_tail`` is the end of what it wrote to stderr.
    """

    returncode: int
    signal: str | None
    stderr_tail: bytes

    def __init__(
        self,
        reason: str,
        *,
        returncode: int,
        signal: str | None = None,
        stderr_tail: bytes = b"",
        dispatch: str = NOT_SENT,
    ) -> None:
        super().__init__(reason, dispatch=dispatch)
        self.returncode = returncode
        self.signal = signal
        self.stderr_tail = stderr_tail

    @property
    def cause(self) -> str:
        """How the process ended and what it said last, as one sentence without its full stop."""
        how = f"was ended by {self.signal}" if self.signal is not None else f"exited with code {self.returncode}"
        words = last_words(self.stderr_tail)
        return f"the agent {how}" + (f"; its stderr ends with: {words}" if words else "; it wrote nothing to stderr")

    def __str__(self) -> str:
        return self.cause


class AgentNotStarted(ACPError):
    """The agent's process could not be started. Raised by bindings; the OSError is the ``__cause__``."""


class ConsumerTooSlow(ACPError):
    """An awaited answer stands behind more unread input than may be kept. The request stays open: read on."""


def check_type(name: str, value: object, kind: type, want: str) -> None:
    """Raise TypeError when ``value`` is no ``kind``: a wrong argument type is the caller's fault (rule 4)."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} must be {want}, not {type(value).__name__}")


def check_word(name: str, value: object, words: Collection[str], rule: str) -> None:
    """Refuse what is none of these words: TypeError for no str, else a LocalProtocolError of ``rule``."""
    check_type(name, value, str, "a str")
    if value not in words:
        local(rule, f"{name} is {clip(value)}; it is one of {', '.join(words)}")


def items(name: str, value: Iterable[T], want: str) -> list[T]:
    """What a caller gives as a list, walked once: it may be an iterator. ``want`` says of what, for the TypeError.

    A text or a mapping is iterable too, and never what was meant.
    """
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name} must be a list of {want}, not {type(value).__name__}")
    return [*value]


def names(name: str, value: Iterable[str], want: str) -> list[str]:
    """``items`` that are texts, or the keys of a mapping."""
    found = [*value] if isinstance(value, dict) else items(name, value, want)
    for item in found:
        check_type(f"each of {name}", item, str, "a str")
    return found


def check_number(name: str, value: object) -> None:
    """Raise TypeError when ``value`` is no int or float; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")


def check_duration(name: str, value: object, rule: str = "time.duration") -> None:
    """Refuse what is no duration in seconds: TypeError for a wrong type, else a LocalProtocolError of ``rule``."""
    check_number(name, value)
    if not (isinstance(value, (int, float)) and 0 < value < END_OF_TIME):
        local(rule, f"{name} is {clip(value)}; give a positive number of seconds")


def local(rule: str, message: str) -> NoReturn:
    """Raise the LocalProtocolError that names a rule."""
    raise LocalProtocolError(message, rule=rule)


def clip(value: object, limit: int = 120) -> str:
    """A short printable form of ``value`` for an error message, at most about ``limit`` code points."""
    if isinstance(value, str) and len(value) > limit:
        return repr(value[:limit]) + "…"
    try:
        text = repr(value)
    except Exception:
        # Nested too deeply, an integer past the interpreter's bound on digits, or a class of the caller's.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[:limit] + "…"


def is_absolute(path: str) -> bool:
    """Whether a path is absolute on POSIX or Windows."""
    return path.startswith(("/", "\\\\")) or (path[1:2] == ":" and path[2:3] in ("/", "\\") and path[:1].isalpha())


def last_words(tail: bytes, limit: int = 400) -> str:
    """The last lines of a process's stderr on one line, at most ``limit`` code points; "" when it wrote nothing."""
    lines = [" ".join(line.split()) for line in tail[-16 * limit :].decode("utf-8", "replace").splitlines()]
    text = " | ".join(line for line in lines if line)
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return text if len(text) <= limit else "…" + text[-limit:]
