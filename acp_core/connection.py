"""The symmetric endpoint: framing, correlation, deadlines, automatic answers and the end, for either role."""

from __future__ import annotations

from collections import deque

from . import codec, events
from .codec import Envelope, Reject, decode, scanner_by_choice
from .errors import (
    ANSWERED,
    END_OF_TIME,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_SENT,
    REQUEST_CANCELLED,
    ConnectionClosed,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
    check_duration,
    check_number,
    check_type,
    clip,
    local,
    names,
    refusal,
    request_error,
)
from .framing import Framer, LongLine
from .limits import DEFAULT_LIMITS, Limits
from .methods import AGENT, BOTH, CLIENT, NOTIFICATION_KIND, REQUEST_KIND, V1, Method, MethodTable, wrong_place
from .requests import OwnRequest, PeerRequest, Settlement, remembered
from .shapes import check_shape
from .state import (
    BROKEN,
    CONNECTION,
    FORGOTTEN,
    INCOMING,
    NEW,
    OVER,
    QUEUED,
    REQUEST,
    UNWRITABLE,
    WAITING,
    allows,
    move,
)
from .timers import Timer, Timers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeAlias

    from .agent import ServedSession
    from .events import Event
    from .requests import Settle
    from .sessions import Session, Turn

    JsonObject: TypeAlias = dict[str, object]
    AnySession: TypeAlias = "Session | ServedSession"

_DATA, _MESSAGE, _TIMEOUT, _END = 0, 1, 2, 3
# What one input costs besides its bytes, so that many tiny ones are bounded too.
_INPUT_OVERHEAD = 128
# A read up to here is looked at for being one line or a piece of one. A longer one mostly has many: the look copies it.
_AT_ONCE = 16384
_NEVER = float("-inf")
# Integers below fit 64 bits with their sign.
_WORD = 2**63
_NO_METHOD = object()
_NO_NAMES: frozenset[str] = frozenset()
# Among the names of extensions: every method that begins with an underscore. The protocol leaves those free.
ANY_EXTENSION = "_*"
# What every update has around its params, in characters: as short as it can be written, without the method's name.
_UPDATE_FRAME = len('"jsonrpc":"2.0","method":"","params":')


class Connection:
    """One end of an ACP connection, without IO, clock or randomness.

    Four kinds of methods, in this order: getters; what comes in (``receive_data``, ``receive_message``,
    ``receive_eof``, ``handle_timeout``), worked off by ``events`` or ``next_event``; intents, which are synchronous and
    atomic: one that raises has changed nothing; and what goes out (``data_to_send``, ``next_deadline``). ``now`` is in
    seconds (float) on any monotonic clock of the caller.

    Args:
        role: ``"client"`` or ``"agent"``.
        nonce: a short string that no other connection of this owner has: it makes the public request ids unique.
        limits: the bounds (see ``acp_core.limits``).
        methods: the method table of the protocol version.
        extensions: names of methods outside the table which this side serves as ``RequestReceived``, or ``"_*"`` for
            all that begin with an underscore; every other unknown request is answered -32601.
        tail: the input joins a stream in its middle: its first line is dropped unless it is whole.
        codec: a faster reader of JSON by choice, as ``msgspec.json.decode`` or ``orjson.loads``: a function from the
            str of a line to its value. A line that it refuses, with whatever error, is read by the standard library:
            every odd line is classified alike.

    Raises:
        TypeError: an argument has a wrong type.
        LocalProtocolError: the nonce is empty, has a dot in it, or is longer than 64 characters.
    """

    __slots__ = (
        "__weakref__",
        "_at",
        "_at_once",
        "_block",
        "_capabilities",
        "_clock_read",
        "_data",
        "_dropped_answers",
        "_due",
        "_ended",
        "_ends",
        "_error_credit",
        "_error_credit_at",
        "_extensions",
        "_fatal",
        "_faults",
        "_first_id",
        "_flat",
        "_framer",
        "_inputs",
        "_joined",
        "_leaving",
        "_lines",
        "_mark",
        "_max_depth",
        "_max_unread",
        "_next_id",
        "_next_peer_request",
        "_now",
        "_output",
        "_output_bytes",
        "_output_offset",
        "_over_pulled",
        "_over_reason",
        "_paused",
        "_peer_capabilities",
        "_peer_ids",
        "_peer_requests",
        "_position",
        "_ready",
        "_received_at",
        "_replaying",
        "_requests",
        "_scan",
        "_served",
        "_state",
        "_timers",
        "_tombstones",
        "_unread",
        "_update_wire",
        "_version",
        "_withdrawn",
        "limits",
        "methods",
        "nonce",
        "role",
    )

    def __init__(
        self,
        role: str,
        *,
        nonce: str,
        limits: Limits | None = None,
        methods: MethodTable = V1,
        extensions: Iterable[str] = (),
        tail: bool = False,
        codec: Callable[[str], object] | None = None,
    ) -> None:
        check_type("nonce", nonce, str, "a str")
        check_type("methods", methods, MethodTable, "a MethodTable")
        if limits is not None:
            check_type("limits", limits, Limits, "a Limits or None")
        if codec is not None and not callable(codec):
            raise TypeError(f"codec must be a function from str to a value, not {type(codec).__name__}")
        if role not in (CLIENT, AGENT):
            local("connection.role", f"role is {clip(role)}; it is {CLIENT!r} or {AGENT!r}")
        if not nonce or "." in nonce or len(nonce) > 64:
            local("connection.nonce", f"nonce is {clip(nonce)}; give 1 to 64 characters without a dot")
        check_type("tail", tail, bool, "a bool")
        served = names("extensions", extensions, "method names")
        self.role = role
        self.nonce = nonce
        # What its sessions are known by: a nonce may be given twice by mistake.
        self._mark = object()
        self.limits = limits if limits is not None else DEFAULT_LIMITS
        self.methods = methods
        self._served = methods.served(role)
        self._extensions = frozenset(served) or _NO_NAMES
        self._scan, self._faults = scanner_by_choice(codec)
        self._state = NEW
        self._now = 0.0
        # A clock was read here: until then nothing is known that a time could be smaller than.
        self._clock_read = False
        # input
        # Made for an input and let go behind the last one: an empty deque is as large as a session.
        self._inputs: deque[tuple[int, bytes, float]] | tuple[()] = ()
        self._unread = 0
        self._ended = False
        self._max_unread = self.limits.max_unread_bytes
        self._max_depth = self.limits.max_depth
        # An update as short as this cannot nest too deeply: every level takes two characters, and its frame some.
        self._flat = 2 * self._max_depth + _UPDATE_FRAME
        self._received_at: float | None = None
        # The last timeout was handled by a caller who does not read at present.
        self._paused = False
        self._framer = Framer(
            self.limits.max_line_bytes, self.limits.too_long_head_bytes, self.limits.too_long_tail_bytes
        )
        self._data = b""
        self._position = 0
        self._block = 0
        self._lines: Iterator[str | bytes | LongLine] | None = None
        # Lines that are being worked off, and how long the end of each was, where not all were one LF.
        self._ends: tuple[Iterator[str | bytes | LongLine], bytes] | None = None
        self._at = 0.0
        # The input joins a stream in its middle, and its first line has not come.
        self._joined = tail
        self._at_once = self._longest_at_once()
        # events that are known and not pulled: new ones, and ahead of them those that are being pulled, last first
        self._ready: list[Event] = []
        self._due: list[Event] | tuple[()] = ()
        self._fatal: tuple[str, RemoteProtocolError] | None = None
        self._over_pulled = False
        self._over_reason = ""
        # output: what is new, and ahead of it what is being handed over, last first. An own request stands for its line
        # until it is handed over, so that it can be withdrawn.
        self._output: list[bytes | OwnRequest] = []
        self._leaving: list[bytes | OwnRequest] | tuple[()] = ()
        self._output_offset = 0
        self._output_bytes = 0
        self._dropped_answers = 0
        # requests
        self._first_id = self._next_id = 1
        self._requests: dict[int, OwnRequest] = {}
        # Requests that were given up, so that a late answer differs from one to nothing. The oldest go first.
        self._tombstones: dict[int, OwnRequest] | tuple[()] = ()
        # Ids of requests that were withdrawn: the peer cannot know of them.
        self._withdrawn: dict[int, None] | tuple[()] = ()
        self._next_peer_request = 1
        self._peer_requests: dict[str, PeerRequest] = {}
        self._peer_ids: dict[int | str, PeerRequest] = {}
        # Requests are being raised that stood in a replayed tail.
        self._replaying = False
        self._timers = Timers()
        self._error_credit = float(self.limits.error_answer_burst)
        self._error_credit_at = 0.0
        self._peer_capabilities: JsonObject = {}
        self._capabilities: JsonObject = {}
        self._version: int | None = None
        # The one notification that comes by the thousand; a subclass that takes it sets the name.
        self._update_wire: object = _NO_METHOD

    # ── Getters ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def state(self) -> str:
        """``new``, ``initializing``, ``overdue`` (initialize was given up, its answer may still come), ``open``,
        ``broken`` (nothing can be written) or ``over``."""
        return self._state

    @property
    def closed(self) -> bool:
        """ConnectionOver was pulled and no output is left: nothing more will ever happen here."""
        return self._over_pulled and not self._output_bytes

    @property
    def output_closed(self) -> bool:
        """Nothing will be written any more: the transport's write half can be closed."""
        return self._state == BROKEN or (self._state == OVER and not self._output_bytes)

    @property
    def unread_bytes(self) -> int:
        """Bytes that were received and not worked off yet."""
        return self._unread

    @property
    def output_bytes(self) -> int:
        """Bytes that wait for ``data_to_send``."""
        return self._output_bytes

    @property
    def version(self) -> int | None:
        """The protocol version both sides agreed on, None before."""
        return self._version

    @property
    def peer_capabilities(self) -> JsonObject:
        """What the peer advertised, as it stood on the wire; empty before the handshake."""
        return self._peer_capabilities

    @property
    def open_requests(self) -> int:
        """How many own requests wait for an answer."""
        return len(self._requests)

    @property
    def open_peer_requests(self) -> int:
        """How many requests of the peer wait for our answer."""
        return len(self._peer_requests)

    # ── What comes in ───────────────────────────────────────────────────────────────────────────────────────────────

    def receive_data(self, data: bytes | bytearray | memoryview, now: float) -> None:
        """Append bytes of the stream; ``b""`` is the end of input. ``bytes`` are kept by reference, others are copied.

        Never raises for what stands in them (rule 4).

        Raises:
            TypeError: ``data`` is no bytes-like object or ``now`` no number.
            LocalProtocolError: the input has ended before, or unread input would pass ``Limits.max_unread_bytes``:
                the caller did not drain ``events()``.
        """
        if data.__class__ is not bytes:
            if not isinstance(data, (bytes, bytearray, memoryview)):
                raise TypeError(f"data must be bytes, bytearray or memoryview, not {type(data).__name__}")
            data = bytes(data)
        size = len(data)
        if not size:
            self.receive_eof(now)
            return
        if not (self._unread or size > self._at_once or self._inputs):
            # Nothing stands before it. One line or a piece of one, which is how agents stream, is framed as it comes:
            # without the way through the queue a line a read costs 0.2 of json.loads less.
            if now.__class__ is not float or not self._now <= now or not now < END_OF_TIME:
                now = self._clock(now)
            line, newline, rest = data.partition(b"\n")
            if not newline:
                self._framer.extend(data)
                self._unread = self._block = size
                self._received_at = self._now = now
                return
            # 13 is a CR: a line with a longer end goes the long way, where ends are counted.
            if not (rest or self._framer.busy or data[size - 2] == 13):
                self._lines = iter((line.decode() if line.isascii() else line,))
                self._unread = self._block = size
                self._received_at = self._at = self._now = now
                return
        self._receive(_DATA, data, now)

    def receive_message(self, line: bytes | str, now: float) -> None:
        """Append one message of a transport that keeps message boundaries.

        Raises:
            TypeError, LocalProtocolError: as ``receive_data``.
        """
        if isinstance(line, str):
            line = line.encode("utf-8", "surrogatepass")
        elif not isinstance(line, bytes):
            raise TypeError(f"line must be bytes or str, not {type(line).__name__}")
        self._receive(_MESSAGE, line, now)

    def receive_eof(self, now: float) -> None:
        """Append the end of input. A second one is a no-op.

        Raises:
            TypeError: ``now`` is no number.
        """
        now = self._clock(now)
        if not self._ended and self._state != OVER:
            self._ended = True
            self._at_once = self._longest_at_once()
            self._append_input(_END, b"", now)

    def handle_timeout(self, now: float, *, paused: bool = False) -> None:
        """Say that time has passed. Early calls are no-ops. Call it only after a read attempt found nothing.

        ``paused`` says that the caller does not read at present: then no silence of the agent is counted.

        Raises:
            TypeError: ``now`` is no number.
        """
        now = self._clock(now)
        if self._state == OVER:
            return
        self._paused = paused
        if self._inputs and self._inputs[-1][0] == _TIMEOUT:
            self._inputs[-1] = (_TIMEOUT, b"", now)
            return
        due = self._timers.next()
        if self._unread or self._inputs or (due is not None and due <= now):
            self._append_input(_TIMEOUT, b"", now)

    def events(self) -> Iterator[Event]:
        """Work off the input, lazily and in order. The position lives here: an abandoned iterator loses nothing."""
        ready = self._ready
        while True:
            if ready or self._due:
                due = self._due
                while due or ready:
                    if not due:
                        due = self._due = ready[::-1]
                        ready.clear()
                    event = due.pop()
                    if event.__class__ is events.ConnectionOver:
                        self._over_pulled = True
                    yield event
                    due = self._due
                self._due = ()
            if self._fatal is not None:
                reason, error = self._fatal
                self._fatal = None
                self._end(reason, self._now, error=error)
                continue
            lines = self._lines
            if lines is None:
                if self._inputs or self._data:
                    self._advance()
                    continue
                self._unread = self._block = 0
                return
            wire = self._update_wire
            scan = self._scan
            flat = self._flat
            at = self._at
            for line in lines:
                if not line:
                    if isinstance(line, LongLine):
                        self._long_line(line, at)
                        break
                    continue
                try:
                    text = line if isinstance(line, str) else line.decode()
                    value, end = scan(text, 0)
                except self._faults as why:
                    found = self._odd_line(line, why, at)
                else:
                    # The one message that comes by the thousand is told here, by all that decode and envelope would
                    # check of it: the calls that this saves are 0.2 of json.loads a line.
                    if (
                        value.__class__ is dict
                        and len(value) == 3
                        and value.get("method") == wire
                        and (params := value.get("params")).__class__ is dict
                        and value.get("jsonrpc") == "2.0"
                        and end == len(text)
                        and (end <= flat or not codec.is_deep(text, self._max_depth))
                    ):
                        found = self._update(params, line, at)
                    elif (
                        # The same for judge and every other message: 0.1 of json.loads a result.
                        value.__class__ is dict
                        and value.get("jsonrpc") == "2.0"
                        and end == len(text)
                        and (end <= 2 * self._max_depth or not codec.is_deep(text, self._max_depth))
                    ):
                        found = self._object(value, line, at)
                    else:
                        found = self._value(codec.judge(value, end, text, line, self._max_depth), line, at)
                if found is not None:
                    yield found
                elif len(ready) == 1 and self._lines is lines:
                    # Without a detour through the list of those that are due: 0.1 of json.loads less for a result.
                    yield ready.pop()
                # The consumer may have pulled, sent or closed meanwhile: look at the whole state again.
                if ready or self._due or self._lines is not lines or self._fatal is not None:
                    break
            else:
                self._lines = None
                if not (self._inputs or self._data):
                    self._unread = self._block = 0
                    return

    def next_event(self) -> Event | None:
        """The next event, or None when the input is worked off. The connection's state moves with each event."""
        return next(self.events(), None)

    def _join(self) -> None:
        """The next bytes are from the middle of a stream."""
        self._joined = True
        self._at_once = self._longest_at_once()

    def _longest_at_once(self) -> int:
        """So long a read may be framed as it comes: none while the first line of a joined stream has to be looked at,
        and none after the end."""
        return 0 if self._joined or self._ended else min(_AT_ONCE, self.limits.max_line_bytes, self._max_unread)

    def _receive(self, kind: int, data: bytes, now: float) -> None:
        if now.__class__ is float and self._now <= now < END_OF_TIME:
            self._now = now
        else:
            now = self._clock(now)
        size = len(data)
        if self._ended or self._unread + size + _INPUT_OVERHEAD * len(self._inputs) > self._max_unread:
            self._cannot_receive(size)
            return
        self._unread += size
        self._received_at = now
        self._append_input(kind, data, now)

    def _append_input(self, kind: int, data: bytes, now: float) -> None:
        if self._inputs:
            self._inputs.append((kind, data, now))
        else:
            self._inputs = deque(((kind, data, now),))

    def _drop_input(self) -> None:
        """Forget the oldest input."""
        if self._inputs:
            self._inputs.popleft()
        if not self._inputs:
            self._inputs = ()

    def _end_later(self, at: float) -> None:
        """The end of input comes again, when what is being read is worked off."""
        rest, self._inputs = self._inputs, deque(((_END, b"", at),))
        self._inputs.extend(rest)

    def _cannot_receive(self, size: int) -> None:
        if self._state == OVER:
            return
        if self._ended:
            local("connection.input_ended", "bytes came after the end of input; make a new connection for a new stream")
        local(
            "limits.max_unread_bytes",
            f"{size} bytes on top of {self._unread} unread ones pass {self._max_unread}; drain events() before "
            "receiving more",
        )

    def _clock(self, now: float) -> float:
        if now.__class__ is not float:
            check_number("now", now)
        # Time never runs backwards here; what is no time (NaN, inf, an int past all floats) counts as the last one too.
        first = not self._clock_read and self._received_at is None
        if (self._now < now or (first and -END_OF_TIME < now)) and now < END_OF_TIME:
            self._now = float(now)
            self._clock_read = True
        return self._now

    def _advance(self) -> None:
        """Take the next block of the input, which is not empty: the one before is worked off."""
        self._unread -= self._block
        self._block = 0
        if self._inputs and not self._data:
            kind, data, self._at = self._inputs[0]
            if kind == _TIMEOUT:
                due = self._timers.take(self._at)
                if isinstance(due, Timer):
                    due.action(self._at)
                elif isinstance(due, PeerRequest):
                    self._unanswered(due, self._at)
                else:
                    self._drop_input()
                return
            self._drop_input()
            if kind == _END:
                self._end_of_input(self._at)
                return
            size = len(data)
            if kind == _MESSAGE:
                self._take([self._framer.whole(data)], size)
                return
            self._data, self._position = data, 0
        before = self._position
        lines, self._position = self._framer.feed(self._data, before)
        if self._position >= len(self._data):
            self._data = b""
        self._take(lines, self._position - before)

    def _take(self, lines: list[str | bytes | LongLine], size: int) -> None:
        """Make these the lines that are worked off next; they stood in ``size`` bytes of the input."""
        if self._joined and lines:
            self._joined = False
            self._at_once = self._longest_at_once()
            first = lines[0]
            if isinstance(first, LongLine):
                self._emit(events.TailDropped(first.head, self._at))
                del lines[0]
            elif not isinstance(decode(first, self._max_depth), dict):
                self._emit(events.TailDropped(events.line_bytes(first), self._at))
                del lines[0]
        self._block = size
        self._lines = iter(lines)
        ends = self._framer.ends
        self._ends = (self._lines, ends) if ends else None

    def _end_of_input(self, at: float) -> None:
        rest = self._framer.finish()
        if rest is None:
            self._end("the input ended", at)
        elif isinstance(rest, LongLine):
            self._emit(events.Truncated(rest.head, rest.length, at))
            self._end_later(at)
        else:
            # A last line without a newline counts when it is a whole object.
            if isinstance(codec.decode(rest, self.limits.max_depth), dict):
                self._take([rest], 0)
            else:
                self._emit(events.Truncated(events.line_bytes(rest), len(rest), at))
            self._end_later(at)

    def _odd_line(self, line: str | bytes, why: Exception, at: float) -> Event | None:
        """What a line says that is no plain compact JSON. ``why`` is what was raised for it."""
        # What a codec by choice refuses says nothing: the standard library may read it.
        said = why if self._faults is codec.FAULTS else None
        return self._value(codec.diagnose(line, self._max_depth, said), line, at)

    def _value(self, value: JsonObject | Reject, line: str | bytes, at: float) -> Event | None:
        """What a line says. Returns its event, or None when there is none or it stands in ``_ready``."""
        if isinstance(value, dict):
            return self._object(value, line, at)
        if line.strip():
            self._rejected(value, line, at)
        return None

    def _object(self, value: JsonObject, line: str | bytes, at: float) -> Event | None:
        """What a JSON-RPC object says, the same way."""
        # A plain request and a plain result are told here, by all that envelope would check of them: an integer id of
        # 64 bits, or of a request of ours, and nothing beside the members of their kind. Without an Envelope a result
        # costs 0.7 of json.loads less, a request 0.24.
        rpc_id = value.get("id")
        if type(rpc_id) is int:
            size = len(value)
            if size == 3:
                if "result" in value:
                    request = self._requests.get(rpc_id)
                    if request is not None and "answer" in REQUEST[request.state]:
                        self._settle(request, "answer", Settlement("result", ANSWERED, value["result"], None, line), at)
                        return None
            elif size == 4:
                wire, params = value.get("method"), value.get("params")
                if isinstance(wire, str) and isinstance(params, dict) and -_WORD < rpc_id < _WORD:
                    self._peer_request(rpc_id, wire, params, line, at)
                    return None
        elif value.get("method") == self._update_wire and "id" not in value:
            return self._update(events.get_object(value, "params"), line, at)
        message = codec.envelope(value, self.limits.max_id_bytes)
        if isinstance(message, Reject):
            self._rejected(message, line, at)
        else:
            self._message(message, line, at)
        return None

    def _long_line(self, line: LongLine, at: float) -> None:
        limit = self.limits.max_line_bytes
        rpc_id, is_request = codec.trusted_id(line.head, line.tail)
        error = RemoteProtocolError(
            f"a line of {line.length} bytes passes the bound of {limit}", rule="limits.max_line_bytes"
        )
        self._emit(events.LineTooLong(line.length, line.head, line.tail, rpc_id, error, at))
        if rpc_id is None:
            return
        if is_request:
            if self._answerable(rpc_id):
                message = f"the request is {line.length} bytes long; at most {limit} are read"
                self._answer_error(rpc_id, refusal(INVALID_REQUEST, message, "line", "limits.max_line_bytes"))
            return
        own_id = rpc_id if isinstance(rpc_id, int) else codec.loose_id(rpc_id)
        if own_id is not None:
            self._settle_invalid(own_id, error, "", at)

    def _rejected(self, reject: Reject, line: str | bytes, at: float) -> None:
        if reject.kind == codec.NOISE:
            self._emit(events.Noise(line, reject.reason, at))
            self._answer_rejected(reject, at)
            return
        error = RemoteProtocolError(reject.reason, rule=reject.rule, code=reject.code)
        self._emit(events.Malformed(error, line, at))
        answered = codec.answered_id(reject, line)
        if answered is not None:
            self._settle_invalid(answered, error, line, at)
        self._answer_rejected(reject, at)

    def _answer_rejected(self, reject: Reject, at: float) -> None:
        """Answer what can be answered: a request by its id; else an agent says, at a bounded rate, what it could not
        read. A client never answers noise (client rule N1), and nobody answers what looks like a response."""
        if self.role == CLIENT and reject.kind == codec.NOISE:
            return
        value = reject.value
        if value is not None:
            if "result" in value or "error" in value or ("method" in value and "id" not in value):
                return
            rpc_id = value.get("id")
            if "method" in value and isinstance(rpc_id, (int, str)) and self._answerable(rpc_id):
                self._answer_error(rpc_id, refusal(reject.code, reject.reason, reject.field, reject.rule))
                return
        if self.role == CLIENT:
            return
        limits = self.limits
        gained = max(0.0, at - self._error_credit_at) * limits.error_answer_rate
        self._error_credit = min(self._error_credit + gained, float(limits.error_answer_burst))
        self._error_credit_at = at
        if self._error_credit < 1:
            self._dropped_answers += 1
            return
        self._error_credit -= 1
        self._answer_error(None, refusal(reject.code, reject.reason, reject.field, reject.rule))

    def _answer_error(self, rpc_id: int | str | None, error: RequestError) -> None:
        """Answer with an error of the core's own."""
        data = None if error.data is None else codec.encode(error.data, "the error's data", self.limits.max_depth)
        self._answer(codec.error_line(rpc_id, error.code, error.message, data))

    def _answerable(self, rpc_id: int | str) -> bool:
        """An error may be written for this id: it is legal, and no open request has it (client rule P6)."""
        if not codec.is_request_id(rpc_id) or rpc_id in self._peer_ids:
            return False
        return codec.id_fits(rpc_id, self.limits.max_id_bytes)

    def _message(self, message: Envelope, line: str | bytes, at: float) -> None:
        kind = message.kind
        if kind == codec.REQUEST and isinstance(message.id, (int, str)):
            self._peer_request(message.id, message.method, message.params, line, at)
            return
        if kind == codec.NOTIFICATION:
            self._peer_notification(message.method, message.params, line, at)
            return
        raw: JsonObject = (
            {"id": message.id, "result": message.result}
            if kind == codec.RESULT
            else {"id": message.id, "error": message.error}
        )
        if kind == codec.ERROR_WITHOUT_ID:
            self._emit(events.AnswerUnmatched(None, "no_id", raw, line, at))
            return
        self._peer_answer(message, raw, line, at)

    # ── Answers of the peer ─────────────────────────────────────────────────────────────────────────────────────────

    def _peer_answer(self, message: Envelope, raw: JsonObject, line: str | bytes, at: float) -> None:
        rpc_id = message.id if message.id.__class__ is int else codec.loose_id(message.id)
        request = self._requests.get(rpc_id) if isinstance(rpc_id, int) else None
        if request is None or not allows(REQUEST, request.state, "answer"):
            self._unmatched(message.id, rpc_id, request, raw, line, at)
            return
        if message.id.__class__ is not int:
            self._deviation("jsonrpc.id", f"the id {request.id} came back as {clip(message.id)}", line, at)
        if message.kind == codec.RESULT:
            settlement = Settlement("result", ANSWERED, result=message.result, line=line)
        else:
            error = request_error(message.code, message.message, message.error.get("data"))
            settlement = Settlement("error", ANSWERED, error=error, line=line)
        self._settle(request, "answer", settlement, at)

    def _unmatched(
        self,
        wire_id: object,
        rpc_id: object,
        request: OwnRequest | None,
        raw: JsonObject,
        line: str | bytes,
        at: float,
    ) -> None:
        if request is not None or rpc_id in self._withdrawn:
            why = "unsent"
        elif isinstance(rpc_id, int) and (late := self._given_up(rpc_id)) is not None:
            late.state = move(REQUEST, late.state, "answer")
            self._emit(events.AnswerUnmatched(wire_id, "late", raw, line, at))
            self._late_answer(late, raw, at)
            return
        elif isinstance(rpc_id, int) and self._issued(rpc_id):
            why = "repeated"
        else:
            why = "history" if isinstance(rpc_id, int) and 0 <= rpc_id < self._first_id - 1 else "unknown"
        self._unmatched_as(why, rpc_id, at)
        self._emit(events.AnswerUnmatched(wire_id, why, raw, line, at))

    def _unmatched_as(self, why: str, rpc_id: object, at: float) -> None:
        """For a subclass: an answer settles nothing, for this reason."""

    def _issued(self, rpc_id: int) -> bool:
        return self._first_id <= rpc_id < self._next_id

    def _given_up(self, rpc_id: int) -> OwnRequest | None:
        """The request that was given up under this id, once: its answer has come."""
        return self._tombstones.pop(rpc_id, None) if self._tombstones else None

    def _late_answer(self, request: OwnRequest, raw: JsonObject, at: float) -> None:
        """For a subclass: the answer to a request that was given up has come."""

    def _settle_invalid(self, rpc_id: int, error: RemoteProtocolError, line: str | bytes, at: float) -> None:
        request = self._requests.get(rpc_id)
        if request is not None and allows(REQUEST, request.state, "answer"):
            self._settle(request, "answer", Settlement("invalid", ANSWERED, error=error, line=line), at)
        elif (late := self._given_up(rpc_id)) is not None:
            # Whatever it says, the peer is done with it.
            late.state = move(REQUEST, late.state, "answer")
            self._late_answer(late, {}, at)

    def _settle(self, request: OwnRequest, event: str, settlement: Settlement, at: float) -> None:
        """The one place where an own request comes to its end."""
        request.state = move(REQUEST, request.state, event)
        del self._requests[request.id]
        if request.timer is not None:
            self._timers.cancel(request.timer)
        if request.state == FORGOTTEN:
            self._tombstones = remembered(self._tombstones, request.id, request, self.limits.max_tombstones)
        elif settlement.dispatch == NOT_SENT:
            self._withdrawn = remembered(self._withdrawn, request.id, None, self.limits.max_tombstones)
            self._output_bytes -= len(request.data)
            request.data = b""
            # Empty messages go with the next hand-over; for a peer that never reads they must not pile up.
            while self._output and isinstance(last := self._output[-1], OwnRequest) and not last.data:
                self._output.pop()
        request.settle(request, settlement, at)

    def _settled(self, request: OwnRequest, settlement: Settlement, at: float) -> None:
        """Tell the owner of a plain request how it ended."""
        self._ready.append(events.RequestSettled(request, settlement, at))

    # ── Requests and notifications of the peer ──────────────────────────────────────────────────────────────────────

    def _peer_request(self, rpc_id: int | str, wire: str, params: JsonObject, line: str | bytes, at: float) -> None:
        row = self._served.get(wire)
        if row is None:
            free = wire.startswith("_") and ANY_EXTENSION in self._extensions
            if not free and wire not in self._extensions:
                error = refusal(METHOD_NOT_FOUND, f"unknown method {clip(wire)}", "method", "method.unknown")
                self._refuse(rpc_id, wire, params, error, line, at)
                return
            row = Method("", wire, self.role, event="RequestReceived")
        refused = self._gate_peer(row, params)
        if refused is not None:
            self._refuse(rpc_id, wire, params, refused, line, at)
            return
        self._admit(rpc_id, row, params, line, at)

    def _admit(self, rpc_id: int | str, row: Method, params: JsonObject, line: str | bytes, at: float) -> None:
        """Take a legal request. For a subclass that has sessions: the session and the turn it belongs to, too."""
        self._raise_new(PeerRequest("", rpc_id, row, params, None, None, None), line, at)

    def _raise_new(self, request: PeerRequest, line: str | bytes, at: float) -> None:
        """Open a legal request, and raise it."""
        rpc_id = request.rpc_id
        older = self._peer_ids.get(rpc_id)
        if older is not None:
            row = request.method
            if older.method.wire == row.wire and older.params == request.params:
                self._emit(events.RequestRepeated(older.request_id, rpc_id, row.wire, line, at))
                return
            # The peer has forgotten the older one; answering it would settle the newer.
            self._abandon(older, "the peer used its id for another request", at)
        if len(self._peer_requests) >= self.limits.max_incoming_requests:
            reason = f"{self.limits.max_incoming_requests} requests are open; wait for answers"
            error = refusal(INTERNAL_ERROR, reason, "request", "limits.max_incoming_requests")
            self._refuse(rpc_id, request.method.wire, request.params, error, line, at)
            return
        request.request_id = request_id = f"{self.nonce}.{self._next_peer_request}"
        self._next_peer_request += 1
        if self._answer_at_once(request, at):
            return
        self._peer_requests[request_id] = request
        self._peer_ids[rpc_id] = request
        self._raise_request(request, line, at)

    def _raise_request(self, request: PeerRequest, line: str | bytes, at: float) -> None:
        # A row without an event of its own is answered by a role; without one its owner has it.
        name = request.method.event or events.RequestReceived.__name__
        cls: type[events.RequestReceived] = getattr(events, name)
        self._ready.append(cls(request, self._replaying, line, at))

    def _answer_at_once(self, request: PeerRequest, at: float) -> bool:
        """For a subclass: answer a new request that its owner need not be asked about; it is never open then. Any other
        may be given the time by which its owner has to answer."""
        return False

    def _gate_peer(self, row: Method, params: JsonObject) -> RequestError | None:
        """The error that refuses a request of the peer, or None."""
        if not self._gate_open(row):
            message = f"{row.wire} needs the capability {row.gate}, which was not advertised"
            return refusal(METHOD_NOT_FOUND, message, "method", "capability.missing", capability=str(row.gate))
        return None

    def _refuse(
        self,
        rpc_id: int | str,
        wire: str,
        params: JsonObject,
        error: RequestError,
        line: str | bytes,
        at: float,
    ) -> None:
        session_id = events.get_str(params, "sessionId")
        self._emit(events.RequestRefused(rpc_id, wire, params, session_id, error.code, error.message, line, at))
        if self._answerable(rpc_id):
            self._answer_error(rpc_id, error)

    def _peer_notification(self, wire: str, params: JsonObject, line: str | bytes, at: float) -> None:
        row = self.methods.find(wire)
        known = row is not None and row.is_a(NOTIFICATION_KIND) and row.handler in (self.role, BOTH)
        if known and row is not None and self._notified(row, params, line, at):
            return
        self._emit(events.NotificationReceived(wire, params, events.get_str(params, "sessionId"), known, line, at))

    def _notified(self, row: Method, params: JsonObject, line: str | bytes, at: float) -> bool:
        """Use up a notification of the table. False: it is the owner's."""
        if row.key != "cancel_request":
            return False
        rpc_id = params.get("requestId")
        request = self._peer_ids.get(rpc_id) if isinstance(rpc_id, (int, str)) and codec.is_request_id(rpc_id) else None
        if request is not None:
            request.state = move(INCOMING, request.state, "cancel")
            self._cancel_asked(request, at)
            return True
        # Too late, or for nothing: the answer is on its way (spec rule 73).
        return False

    def _cancel_asked(self, request: PeerRequest, at: float) -> None:
        row = request.method
        self._emit(
            events.CancelRequested(
                request.request_id, request.rpc_id, row.key, row.wire, request.session, at, request.turn
            )
        )

    def _update(self, params: JsonObject, line: str | bytes, at: float) -> Event | None:
        """For a subclass that takes session updates: one of them."""
        return None

    def _forget_peer_request(self, request: PeerRequest, event: str) -> None:
        """The one place where a request of the peer stops being open."""
        request.state = move(INCOMING, request.state, event)
        if self._peer_requests.pop(request.request_id, None) is not None:
            if self._peer_ids.get(request.rpc_id) is request:
                del self._peer_ids[request.rpc_id]
            if request.pending:
                self._timers.cancel(request)
        self._forgotten(request, event)

    def _forgotten(self, request: PeerRequest, event: str) -> None:
        """For a subclass: a request of the peer is not open any more."""

    def _unanswered(self, request: PeerRequest, at: float) -> None:
        """For a subclass: the owner has not answered a request in the time that was set for it."""

    def _abandon(self, request: PeerRequest, reason: str, at: float) -> None:
        self._forget_peer_request(request, "abandon")
        row = request.method
        self._emit(
            events.RequestAbandoned(
                request.request_id, request.rpc_id, row.key, row.wire, request.session, reason, at, request.turn
            )
        )

    def _open_peer_request(self, request_id: str, what: str) -> PeerRequest:
        """The open request with a public id. Raises the LocalProtocolError that says why there is none."""
        if isinstance(request_id, str):
            request = self._peer_requests.get(request_id)
            if request is not None:
                return request
        check_type("request_id", request_id, str, "a str")
        if self._was_asked(request_id):
            local(
                "request.answered",
                f"cannot {what} {clip(request_id)}: it was answered or abandoned before; the first answer counts",
            )
        local("request.unknown", f"cannot {what} {clip(request_id)}: no such request; use an event's request_id")

    def _was_asked(self, request_id: str) -> bool:
        """Whether a public id is one that a request of the peer here has, or had."""
        prefix, _, counter = request_id.rpartition(".")
        return (
            prefix == self.nonce
            and counter.isascii()
            and counter.isdigit()
            and int(counter[:20]) < self._next_peer_request
        )

    # ── Intents ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def request(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        session: AnySession | str | None = None,
        deadline: float | None = None,
        token: object = None,
    ) -> int:
        """Send a request. It settles as one RequestSettled, which carries ``token``.

        ``deadline`` is in seconds, counted from the next ``data_to_send``. When it passes, the request settles as
        ``"deadline"`` and the peer is told to cancel it. ``session`` adds ``sessionId`` to the params.

        Returns: the JSON-RPC id.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: the method has an intent of its own, is no extension and not in the table, needs a
                capability that the peer did not advertise, the params are not what the method's look like
                (``message.shape``), a limit is reached, or nothing can be written any more.
        """
        row = self._outgoing_row(method, REQUEST_KIND)
        handle, body = self._outgoing_params(row, params, session)
        self._check_duration("deadline", deadline)
        self._check_writable()
        self._check_open_requests()
        data = codec.request_line(self._next_id, row.wire, body)
        self._check_room(len(data))
        request = self._new_request(row, handle, token, self._settled)
        self._queue(data, request)
        self._set_deadline(request, deadline)
        return request.id

    def notify(
        self, method: str, params: Mapping[str, object] | None = None, *, session: AnySession | str | None = None
    ) -> None:
        """Send a notification.

        Raises:
            TypeError, LocalProtocolError: as ``request``.
        """
        row = self._outgoing_row(method, NOTIFICATION_KIND)
        _, body = self._outgoing_params(row, params, session)
        self._check_writable()
        data = codec.notification_line(row.wire, body)
        self._check_room(len(data))
        self._queue(data)

    def respond(self, request_id: str, result: Mapping[str, object] | None = None) -> None:
        """Answer a request of the peer with a result. The first answer counts.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: no such request is open, the result is no JSON or not what the method's results look
                like (``message.shape``), or nothing can be written any more.
        """
        request = self._open_peer_request(request_id, "answer")
        if result is None:
            result = {}
        elif result.__class__ is not dict:
            check_type("result", result, dict, "a dict")
        self._check_result(request, result)
        self._respond(request, codec.encode(result, "the result", self.limits.max_depth))

    def respond_error(self, request_id: str, code: int, message: str, data: object = None) -> None:
        """Answer a request of the peer with an error: ``code`` is a 32-bit integer, ``message`` one short sentence.

        Raises:
            TypeError, LocalProtocolError: as ``respond``.
        """
        request = self._open_peer_request(request_id, "answer")
        check_type("code", code, int, "an int")
        check_type("message", message, str, "a str")
        if not -(2**31) <= code < 2**31:
            local("error.code", f"code is {clip(code)}; it must fit 32 bits")
        body = None if data is None else codec.encode(data, "the error's data", self.limits.max_depth)
        self._respond_error(request, code, message, body)

    def cancel_request(self, id: int) -> None:
        """Cancel an own request. One that was not sent is withdrawn and settles ``not_sent``; for any other the peer is
        asked to cancel, and its answer still settles it. A settled one is left alone: that race is nobody's fault.

        Raises:
            TypeError: ``id`` is no int.
            LocalProtocolError: no request of this connection ever had this id, or nothing can be written any more.
        """
        check_type("id", id, int, "an int")
        request = self._requests.get(id)
        if request is None:
            if self._issued(id):
                return
            local("request.unknown", f"cannot cancel {clip(id)}: no request has this id; use what request() returned")
        self._cancel_own(request)

    def send_failed(self, reason: str, now: float) -> None:
        """Say that the transport cannot be written any more. Reading goes on: the peer's last words are often the
        reason. Unsent requests settle ``not_sent``, sent ones wait for their answer, the end of input, or
        ``Limits.write_grace`` seconds. A second call is a no-op.

        Raises:
            TypeError: an argument has a wrong type.
        """
        check_type("reason", reason, str, "a str")
        now = self._clock(now)
        if self._state == OVER:
            self._drop_output()
            return
        if self._state == BROKEN:
            return
        self._state = move(CONNECTION, self._state, "write_failed")
        self._emit(events.WriteFailed(reason, self._drop_output(), now))
        for request in [*self._requests.values()]:
            if request.state in (WAITING, QUEUED) and request.id in self._requests:
                error = ConnectionClosed(reason)
                self._settle(request, "end", Settlement("over", NOT_SENT, error=error), now)
        self._broken(reason, now)
        self._timers.at(now + self.limits.write_grace, lambda at: self._end(f"a write failed: {reason}", at))

    def close(self) -> None:
        """End the connection in order: open requests of the peer are answered (held permissions cancelled, others
        -32800), what is unsent is withdrawn, everything settles. Output stays until it was handed over; then
        ``output_closed`` is true. A second call is a no-op."""
        if self._state == OVER:
            return
        if self._state != BROKEN:
            self._closing()
            for request in [*self._peer_requests.values()]:
                if request.request_id in self._peer_requests:
                    self._close_peer_request(request)
            for own in [*self._requests.values()]:
                if own.state in (WAITING, QUEUED) and own.id in self._requests:
                    error = ConnectionClosed("closed by the owner")
                    self._settle(own, "end", Settlement("over", NOT_SENT, error=error), self._now)
        self._end("closed by the owner", self._now)

    def abort(self, reason: str = "aborted by the owner") -> None:
        """End the connection at once: output is dropped and counted, everything settles. A second call is a no-op.

        Raises:
            TypeError: ``reason`` is no str.
        """
        check_type("reason", reason, str, "a str")
        dropped = self._drop_output()
        if self._state != OVER:
            self._end(reason, self._now, unwritten=dropped)

    def _broken(self, reason: str, at: float) -> None:
        """For a subclass: the write half is gone, and no request that could still tell it is open."""

    def _closing(self) -> None:
        """For a subclass: the owner closes, and what is still unanswered can be answered now."""

    def _close_peer_request(self, request: PeerRequest) -> None:
        error = refusal(REQUEST_CANCELLED, "the connection is closing", "request", "connection.closing")
        self._answer_error(request.rpc_id, error)
        self._abandon(request, "the connection was closed", self._now)

    def _respond(self, request: PeerRequest, result: str) -> None:
        """Write a result, JSON already, for an open request."""
        self._write_answer(request, codec.result_line(request.rpc_id, result))

    def _respond_error(self, request: PeerRequest, code: int, message: str, data: str | None) -> None:
        self._write_answer(request, codec.error_line(request.rpc_id, code, message, data))

    def _write_answer(self, request: PeerRequest, line: bytes) -> None:
        if self._state in UNWRITABLE:
            self._check_writable()
        size = len(line)
        self._check_room(size)
        self._forget_peer_request(request, "answer")
        self._output_bytes += size
        self._output.append(line)

    def _cancel_own(self, request: OwnRequest) -> None:
        if request.state in (WAITING, QUEUED):
            request.cancel_asked = True
            error = request_error(REQUEST_CANCELLED, "the request was withdrawn before it was sent")
            self._settle(request, "withdraw", Settlement("withdrawn", NOT_SENT, error=error), self._now)
            return
        if not request.cancel_asked:
            self._check_writable()
            self._send_cancel(request)

    def _send_cancel(self, request: OwnRequest) -> None:
        request.cancel_asked = True
        request.state = move(REQUEST, request.state, "cancel")
        row = self.methods[request.method.cancel]
        self._answer(codec.notification_line(row.wire, f'{{"requestId":{request.id}}}'))

    def _request_deadline(self, request: OwnRequest, at: float) -> None:
        error = RequestTimeout(f"no answer to {request.method.wire} in time")
        if request.state in (WAITING, QUEUED):
            self._settle(request, "withdraw", Settlement("deadline", NOT_SENT, error=error), at)
            return
        if not request.cancel_asked:
            self._send_cancel(request)
        self._settle(request, "deadline", Settlement("deadline", request.dispatch, error=error), at)

    def _set_deadline(self, request: OwnRequest, seconds: float | None) -> None:
        if seconds is not None:
            request.timer = self._timers.after(seconds, lambda at: self._request_deadline(request, at))

    # ── Checks that every intent makes before it changes anything ───────────────────────────────────────────────────

    def _outgoing_row(self, wire: str, kind: str) -> Method:
        check_type("method", wire, str, "a str")
        row = self.methods.find(wire)
        if row is None:
            if not wire.startswith("_") and wire not in self._extensions:
                local(
                    "method.unknown",
                    f"{clip(wire)} is not in this method table; an extension starts with '_' or is named in "
                    "extensions=, a draft needs methods=V1_UNSTABLE",
                )
            return Method("", wire, BOTH, kind)
        if row.handler == self.role:
            local("method.direction", f"{clip(wire)} is handled by the {self.role}, which is this side")
        if row.intent:
            local("method.intent", f"{clip(wire)} is not sent by hand: call {row.intent}() instead")
        if not row.is_a(kind):
            call = "request" if row.kind == REQUEST_KIND else "notify"
            local("method.kind", f"{clip(wire)} is a {row.kind}: use {call}()")
        self._check_gate(row)
        return row

    def _gate_open(self, row: Method) -> bool:
        """Whether the side that has to advertise a method does so."""
        mine = row.advertiser == self.role
        return row.gate is None or row.gate.open(self._capabilities if mine else self._peer_capabilities)

    def _check_gate(self, row: Method) -> None:
        if not self._gate_open(row):
            local(
                "capability.missing",
                f"{row.wire} needs the capability {row.gate}, which the {row.advertiser} did not advertise",
            )

    def _check_result(self, request: PeerRequest, result: Mapping[str, object]) -> None:
        row = request.method
        check_shape(row.result, result, f"the result of {row.wire}")

    def _outgoing_params(
        self, row: Method, params: Mapping[str, object] | None, session: AnySession | str | None
    ) -> tuple[AnySession | None, str]:
        if params is not None:
            check_type("params", params, dict, "a dict")
        value: dict[str, object] = dict(params) if params is not None else {}
        wrong = wrong_place(row, value)
        if wrong is not None:
            local(wrong[1], f"{row.wire}: {wrong[2]}")
        handle: AnySession | None = None
        if session is not None:
            handle, session_id = self._named_session(session)
            value["sessionId"] = session_id
        if row.session and not isinstance(value.get("sessionId"), str):
            local("session.missing", f"{row.wire} is about a session: give session=")
        check_shape(row.params, value, f"the params of {row.wire}")
        return handle, codec.encode(value, f"the params of {row.wire}", self.limits.max_depth)

    def _named_session(self, session: AnySession | str) -> tuple[AnySession | None, str]:
        """For a subclass that has sessions: the handle and the id of one."""
        if not isinstance(session, str):
            raise TypeError(f"session must be a session id, not {type(session).__name__}")
        return None, session

    def _check_duration(self, name: str, seconds: float | None) -> None:
        """None is no bound."""
        if seconds is not None:
            check_duration(name, seconds)

    def _check_writable(self) -> None:
        if self._state == OVER:
            local("connection.over", f"the connection is over: {self._over_reason}; make a new one")
        if self._state == BROKEN:
            local("connection.write_failed", "a write has failed: nothing can be sent; drain events() for the reason")

    def _check_open_requests(self) -> None:
        limit = self.limits.max_open_requests
        if len(self._requests) >= limit:
            local("limits.max_open_requests", f"{limit} requests wait for an answer; wait for some of them to settle")

    def _check_room(self, size: int) -> None:
        limits = self.limits
        if size - 1 > limits.max_line_bytes:
            local(
                "limits.max_line_bytes",
                f"a message of {size - 1} bytes passes the bound of {limits.max_line_bytes}; split it",
            )
        if self._output_bytes + size > limits.max_output_bytes:
            local(
                "limits.max_output_bytes",
                f"{size} bytes on top of {self._output_bytes} unsent ones pass {limits.max_output_bytes}; the peer "
                "reads too slowly: write what data_to_send() gives first",
            )

    # ── What goes out ───────────────────────────────────────────────────────────────────────────────────────────────

    def data_to_send(self, now: float, max_bytes: int | None = None) -> bytes:
        """Hand over output: at most ``max_bytes`` bytes, all of it by default. With 0 only durations begin: for a pump
        whose writer still hangs in an earlier write.

        This is the moment that counts: a request whose first byte is handed over is sent, durations begin, and
        PromptSent is queued. So drain ``events()`` after it and before writing.

        Raises:
            TypeError: an argument has a wrong type.
            LocalProtocolError: ``max_bytes`` is negative.
        """
        now = self._clock(now)
        if max_bytes is not None:
            check_type("max_bytes", max_bytes, int, "an int or None")
            if max_bytes < 0:
                local("output.max_bytes", f"max_bytes is {max_bytes}; give a number of bytes, or None for all")
        if self._timers.unarmed:
            self._timers.start(now)
        leaving = self._leaving
        if not leaving and not self._output:
            return b""
        offset = self._output_offset
        if max_bytes is None or max_bytes >= self._output_bytes:
            messages = [*reversed(leaving), *self._output] if leaving else self._output
            self._output, self._leaving = [], ()
            self._output_bytes = self._output_offset = 0
            parts = [one if isinstance(one, bytes) else self._handed_over(one, now) for one in messages]
            parts[0] = parts[0][offset:]
            return parts[0] if len(parts) == 1 else b"".join(parts)
        parts = []
        room = max_bytes
        while room:
            if not leaving:
                leaving, self._output = self._output, []
                leaving.reverse()
                self._leaving = leaving
            message = leaving[-1]
            if not isinstance(message, bytes):
                leaving[-1] = message = self._handed_over(message, now)
            part = message[offset : offset + room]
            parts.append(part)
            room -= len(part)
            offset += len(part)
            if offset == len(message):
                offset = 0
                leaving.pop()
        if not leaving:
            self._leaving = ()
        self._output_offset = offset
        self._output_bytes -= max_bytes
        return b"".join(parts)

    def next_deadline(self) -> float | None:
        """When ``handle_timeout`` is next of use, in seconds on the caller's clock; None for never, -inf for "drain
        events() and data_to_send() first, do not wait". O(1)."""
        if self._unread or self._inputs or self._ready or self._due or self._timers.unarmed or self._fatal:
            return _NEVER
        if self._state == OVER:
            return _NEVER
        return self._timers.next()

    def _handed_over(self, request: OwnRequest, now: float) -> bytes:
        """The line of a request, whose first byte goes out; empty when it was withdrawn."""
        data = request.data
        if data:
            request.state = move(REQUEST, request.state, "hand_over")
            request.data = b""
            self._sent(request, now)
        return data

    def _sent(self, request: OwnRequest, now: float) -> None:
        """For a subclass: a request's first byte was handed over."""

    def _new_request(
        self, row: Method, session: AnySession | None, token: object, settle: Settle, turn: Turn | None = None
    ) -> OwnRequest:
        """Open an own request; its bytes are queued later."""
        request = OwnRequest(self._next_id, row, session, token, settle)
        request.turn = turn
        self._next_id += 1
        self._requests[request.id] = request
        self._opened(request)
        return request

    def _opened(self, request: OwnRequest) -> None:
        """For a subclass: an own request is open."""

    def _queue(self, data: bytes, request: OwnRequest | None = None) -> None:
        self._output_bytes += len(data)
        if request is None:
            self._output.append(data)
        else:
            request.state = move(REQUEST, request.state, "queue")
            request.data = data
            self._output.append(request)

    def _answer(self, data: bytes, request: OwnRequest | None = None) -> bool:
        """Queue what the core itself has to say. Past the second mark the connection ends: the peer never reads."""
        if self._state in UNWRITABLE or self._fatal is not None:
            self._dropped_answers += 1
            return False
        limit = self.limits.max_output_total_bytes
        if self._output_bytes + len(data) > limit:
            self._dropped_answers += 1
            reason = f"the peer does not read: {self._output_bytes} bytes wait for it, and {limit} are the bound"
            self._fatal = (reason, RemoteProtocolError(reason, rule="limits.max_output_total_bytes"))
            return False
        if request is None:
            self._output.append(data)
            self._output_bytes += len(data)
        else:
            self._queue(data, request)
        return True

    def _send_own(self, request: OwnRequest, data: bytes, deadline: float | None) -> None:
        """Queue a request that the core makes by itself. What cannot be queued settles at once, not sent."""
        if self._answer(data, request):
            self._set_deadline(request, deadline)
        elif self._fatal is None:
            error = ConnectionClosed("nothing can be written any more")
            self._settle(request, "end", Settlement("over", NOT_SENT, error=error), self._now)

    def _drop_output(self) -> int:
        dropped = self._output_bytes
        for message in (*self._leaving, *self._output):
            if isinstance(message, OwnRequest):
                message.data = b""
        self._leaving = ()
        self._output.clear()
        self._output_bytes = 0
        self._output_offset = 0
        return dropped

    # ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _end(self, reason: str, at: float, *, error: RemoteProtocolError | None = None, unwritten: int = 0) -> None:
        """Settle everything, own requests by id, the peer's by arrival, and say so last. The one way to OVER."""
        if error is not None:
            unwritten += self._drop_output()
        self._state = move(CONNECTION, self._state, "end")
        self._over_reason = reason
        self._ended = True
        self._at_once = self._longest_at_once()
        self._timers.clear()
        for id in sorted(self._requests):
            request = self._requests.get(id)
            if request is not None:
                over = ConnectionClosed(reason, dispatch=request.dispatch)
                self._settle(request, "end", Settlement("over", request.dispatch, error=over), at)
        for peer_request in [*self._peer_requests.values()]:
            self._abandon(peer_request, f"the connection is over: {reason}", at)
        self._ending(reason, at)
        unread = self._unread - self._block + self._framer.pending_length + self._left_bytes()
        self._inputs = ()
        self._data = b""
        self._lines = self._ends = None
        self._unread = self._block = 0
        self._emit(events.ConnectionOver(reason, error, unread, unwritten, self._dropped_answers, at))

    def _left_bytes(self) -> int:
        """Bytes of the lines of this block that nobody has pulled, with their ends."""
        lines, found = self._lines, self._ends
        left = [*(lines or ())]
        ends = found[1][-len(left) :] if left and found is not None and found[0] is lines else b"\1" * len(left)
        return sum(ends) + sum(line.length if isinstance(line, LongLine) else len(line) for line in left)

    def _ending(self, reason: str, at: float) -> None:
        """For a subclass: everything has settled; say what is left to say."""

    def _emit(self, event: Event) -> None:
        self._ready.append(event)

    def _deviation(self, rule: str, message: str, line: str | bytes, at: float) -> None:
        self._emit(events.Deviation(RemoteProtocolError(message, rule=rule), line, at))
