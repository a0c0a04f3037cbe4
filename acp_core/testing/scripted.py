"""Peers as data: what an agent or a client says is a list of steps, faults included. For tests of whoever talks to it.

A scripted peer is pure, like a Connection, and has the same methods for bytes and time; it works on raw lines, so that
it can say what no Connection ever would. Put one at an end of a LinkedPair, or drive it from any transport.
"""

from __future__ import annotations

import json
from collections import deque
from heapq import heappop, heappush

from ..methods import AGENT, CLIENT, V1, MethodTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from ..events import Event

    JsonObject: TypeAlias = dict[str, object]
    # Pieces of one message: seconds after the piece before, and the bytes.
    Pieces: TypeAlias = list[tuple[float, bytes]]

# A string in params, results and updates that stands for the id of the session at hand.
SESSION = "$session"


class ScriptError(AssertionError):
    """A script cannot go on, or did not come to its end: the message says at which step and why."""


class Step:
    """One step of a script. Steps are values: they compare, print, and can be used again."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment] # params are dicts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._values()))})"

    def _values(self) -> list[object]:
        return [getattr(self, name) for name in type(self).__slots__]


class Send(Step):
    """The base of steps that send: everything but waiting and dying. Faults are put around these."""

    __slots__ = ()


class Expect(Step):
    """Wait for a request or notification of the peer: the first of this ``method`` whose params contain ``params``.

    Others stay where they are, for a later Expect; what nobody expects ends up in ``unused``.
    """

    __slots__ = ("method", "params")

    def __init__(self, method: str, params: Mapping[str, object] | None = None) -> None:
        self.method = method
        self.params = params


class ExpectAnswer(Step):
    """Wait for the answer to our own latest request, or to the latest one of a ``method``."""

    __slots__ = ("method",)

    def __init__(self, method: str | None = None) -> None:
        self.method = method


class Silence(Step):
    """Say nothing for so many seconds, or for ever with None. What comes meanwhile is kept."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds


class Die(Step):
    """Stop as a killed process does, after what was said so far and these ``last`` bytes. Nothing is read or written
    any more."""

    __slots__ = ("last",)

    def __init__(self, last: bytes = b"") -> None:
        self.last = last


class Answer(Send):
    """Answer the latest open request that was expected, or the latest one of the method ``to``, with a result: any JSON
    value, or a function that makes one of the request."""

    __slots__ = ("result", "to")

    def __init__(self, result: object | Callable[[JsonObject], object] = None, to: str | None = None) -> None:
        self.result = {} if result is None else result
        self.to = to


class Refuse(Send):
    """Answer as ``Answer`` does, with an error."""

    __slots__ = ("code", "data", "message", "to")

    def __init__(self, code: int, message: str = "refused", data: object = None, to: str | None = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        self.to = to


class Call(Send):
    """Make a request. Its id is a number, counted from 0; ``ExpectAnswer`` waits for what comes back."""

    __slots__ = ("method", "params")

    def __init__(self, method: str, params: Mapping[str, object] | None = None) -> None:
        self.method = method
        self.params = params if params is not None else {}


class Notify(Send):
    """Send a notification."""

    __slots__ = ("method", "params")

    def __init__(self, method: str, params: Mapping[str, object] | None = None) -> None:
        self.method = method
        self.params = params if params is not None else {}


class SendUpdate(Send):
    """Send a session/update for the session at hand. ``update`` is the object with ``sessionUpdate``."""

    __slots__ = ("update",)

    def __init__(self, update: Mapping[str, object]) -> None:
        self.update = update


class Text(Send):
    """Send a piece of the agent's answer."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Raw(Send):
    """Send these bytes, as they are: a line end has to stand in them."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Print(Send):
    """Send a line of text, as a runtime does that prints to stdout."""

    __slots__ = ("text",)

    def __init__(self, text: str = "warning: this is no message") -> None:
        self.text = text


# ── Faults: each is put around a step that sends, and is itself one ─────────────────────────────────────────────────


class Fault(Send):
    """The base of faults."""

    __slots__ = ()

    step: Send


class Split(Fault):
    """Send in pieces of these sizes (bytes, in turn), with ``pause`` seconds between them."""

    __slots__ = ("pause", "sizes", "step")

    def __init__(self, step: Send, sizes: Sequence[int] = (1,), pause: float = 0.001) -> None:
        if not sizes or min(sizes) < 1 or pause < 0:
            raise ValueError("give sizes of at least 1 byte and a pause that is not negative")
        self.step = step
        self.sizes = sizes
        self.pause = pause


class Late(Fault):
    """Send so many seconds later; the script goes on at once, so later steps may be sent first."""

    __slots__ = ("seconds", "step")

    def __init__(self, step: Send, seconds: float) -> None:
        self.step = step
        self.seconds = seconds


class Twice(Fault):
    """Send the same bytes twice."""

    __slots__ = ("step",)

    def __init__(self, step: Send) -> None:
        self.step = step


class Slow(Fault):
    """Send at so many bytes a second, ten pieces a second."""

    __slots__ = ("rate", "step")

    def __init__(self, step: Send, rate: float = 100.0) -> None:
        if rate <= 0:
            raise ValueError(f"rate is {rate!r} bytes a second; give a positive one")
        self.step = step
        self.rate = rate


class Crash(Fault):
    """Send the first ``after`` bytes, then die."""

    __slots__ = ("after", "step")

    def __init__(self, step: Send, after: int = 10) -> None:
        self.step = step
        self.after = after


class Oversize(Fault):
    """Make the line at least ``size`` bytes long, by a member behind all others."""

    __slots__ = ("size", "step")

    def __init__(self, step: Send, size: int = 65 * 1024 * 1024) -> None:
        self.step = step
        self.size = size


class Noisy(Fault):
    """Send a line of noise before the step."""

    __slots__ = ("step", "text")

    def __init__(self, step: Send, text: str = "warning: this is no message") -> None:
        self.step = step
        self.text = text


def inject(steps: Sequence[Step], *, size: int = 65 * 1024 * 1024) -> Iterator[tuple[str, list[Step]]]:
    """One script for each fault at each step that sends, with a name for the test's id.

    ``size`` is the length of the oversize lines, in bytes: set it just above the limit of the owner under test.

    Raises:
        TypeError: something in the script is no step.
    """
    _check_steps(steps)
    for index, step in enumerate(steps):
        if not isinstance(step, Send) or isinstance(step, Fault):
            continue
        faults: list[Step] = [
            Split(step),
            Late(step, 5.0),
            Twice(step),
            Slow(step),
            Crash(step),
            Oversize(step, size),
            Noisy(step),
        ]
        for fault in faults:
            name = f"{type(fault).__name__.lower()} at step {index}, {type(step).__name__.lower()}"
            yield name, [*steps[:index], fault, *steps[index + 1 :]]
        yield f"silent from step {index} on", [*steps[:index], Silence()]
        yield f"dead from step {index} on", [*steps[:index], Die()]


def _check_steps(steps: Iterable[Step]) -> None:
    for index, step in enumerate(steps):
        if not isinstance(step, Step):
            raise TypeError(f"step {index} of the script is {step!r}, no step (a str is one in turn() only)")


# ── The peers ───────────────────────────────────────────────────────────────────────────────────────────────────────


class ScriptedPeer:
    """A peer that does what its steps say. The base of ScriptedAgent and ScriptedClient.

    Feed it with ``receive_data``, give ``handle_timeout`` what ``next_deadline`` asks for, and write what
    ``data_to_send`` returns, as with a Connection; ``now`` is in seconds on any monotonic clock.

    Args:
        steps: what to do, in order.
        methods: the method table, for the names of session/update and of the opening steps.
        first_id: the id of the first own request; the others count up from it.

    Attributes:
        received: every message that came, in order. ``unused`` has those that no step has taken, ``bad_lines`` the
            lines that were no JSON object.
        session_id: the session at hand: the latest one that stood in a message or was given in an answer.
        crashed: the peer is dead.

    Raises:
        TypeError: something in ``steps`` is no step.
        ScriptError: from any method, when a step cannot be done: an Answer without an open request.
    """

    def __init__(self, steps: Iterable[Step], *, methods: MethodTable = V1, first_id: int = 0) -> None:
        self.steps = list(steps)
        _check_steps(self.steps)
        self.methods = methods
        self.position = 0
        self.received: list[JsonObject] = []
        self.unused: list[JsonObject] = []
        self.bad_lines: list[bytes] = []
        self.session_id: str | None = None
        self.crashed = False
        self.input_ended = False
        self._next_id = first_id
        # Requests of the peer that were expected and not answered; own requests without an answer: id to method.
        self._open: list[JsonObject] = []
        self._asked: dict[object, str] = {}
        self._pending = bytearray()
        self._silent_until: float | None = None
        self._queue: list[tuple[float, int, Pieces, bool]] = []
        self._sequence = 0
        # The message that is being written: pieces that are left, and when the first of them is due.
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._due = 0.0
        self._last = False

    @property
    def done(self) -> bool:
        """Every step was done and everything was said."""
        return self.crashed or (self.position >= len(self.steps) and not self._queue and not self._pieces)

    @property
    def output_closed(self) -> bool:
        """Nothing will be written any more."""
        return self.crashed or (self.input_ended and self.done)

    def check(self) -> None:
        """Raise ScriptError unless the script came to its end, every message was expected and every line was JSON."""
        if not self.done:
            step = self.steps[self.position] if self.position < len(self.steps) else "what it has still to say"
            raise ScriptError(f"the script stopped at step {self.position}, {step!r}; unused messages: {self.unused}")
        if self.unused:
            raise ScriptError(f"messages that no step expected: {self.unused}")
        if self.bad_lines:
            raise ScriptError(f"lines that are no JSON objects: {self.bad_lines}")

    # ── Bytes and time, as a Connection ─────────────────────────────────────────────────────────────────────────────

    def receive_data(self, data: bytes, now: float) -> None:
        """Take bytes of the stream; b"" is its end."""
        if self.crashed:
            return
        if not data:
            self.receive_eof(now)
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._pending += line
            self._line(bytes(self._pending))
            self._pending.clear()
        self._pending += rest
        self._run(now)

    def receive_eof(self, now: float) -> None:
        """Take the end of the stream. The script goes on; what it waits for will not come."""
        self.input_ended = True
        self._run(now)

    def handle_timeout(self, now: float) -> None:
        """Let time pass."""
        self._run(now)

    def next_event(self) -> Event | None:
        """Always None: a scripted peer has no owner to tell."""
        return None

    def next_deadline(self) -> float | None:
        """When the next step or piece is due, or None."""
        if self.crashed:
            return None
        if self._pieces:
            return self._due
        moments = [self._queue[0][0]] if self._queue else []
        if self._silent_until is not None:
            moments.append(self._silent_until)
        return min(moments) if moments else None

    def data_to_send(self, now: float, max_bytes: int | None = None) -> bytes:
        """The next bytes that are due, one piece a call; b"" when there are none."""
        self._run(now)
        while not self.crashed:
            if not self._pieces:
                if self._last:
                    self.crashed = True
                if self.crashed or not self._queue or self._queue[0][0] > now:
                    break
                _, _, pieces, self._last = heappop(self._queue)
                self._pieces.extend(pieces)
                self._due = now + pieces[0][0] if pieces else now
                continue
            if self._due > now:
                break
            _, data = self._pieces.popleft()
            if max_bytes is not None and len(data) > max_bytes:
                self._pieces.appendleft((0.0, data[max_bytes:]))
                data = data[:max_bytes]
            elif self._pieces:
                self._due = now + self._pieces[0][0]
            elif self._last:
                self.crashed = True
            return data
        return b""

    def send_failed(self, reason: str, now: float) -> None:
        """Nobody reads any more: what is left to say is dropped."""
        self._queue.clear()
        self._pieces.clear()

    # ── The script ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self.bad_lines.append(line)
            return
        self.received.append(message)
        self.unused.append(message)

    def _run(self, now: float) -> None:
        while not self.crashed and not self._last and self.position < len(self.steps):
            step = self.steps[self.position]
            if isinstance(step, Silence):
                if step.seconds is None:
                    return
                if self._silent_until is None:
                    self._silent_until = now + step.seconds
                if now < self._silent_until:
                    return
                self._silent_until = None
            elif isinstance(step, Expect):
                if not self._expect(step):
                    return
            elif isinstance(step, ExpectAnswer):
                if not self._expect_answer(step):
                    return
            elif isinstance(step, Die):
                self._say(now, [(0.0, step.last)] if step.last else [], last=True)
                self.position = len(self.steps)
                return
            else:
                assert isinstance(step, Send)
                self._send(step, now, 0.0)
            self.position += 1

    def _expect(self, step: Expect) -> bool:
        wanted = self._filled(step.params) if step.params is not None else {}
        for message in self.unused:
            params = message.get("params")
            if message.get("method") == step.method and _contains(params if params is not None else {}, wanted):
                self.unused.remove(message)
                self._learn(params)
                if "id" in message:
                    self._open.append(message)
                return True
        return False

    def _expect_answer(self, step: ExpectAnswer) -> bool:
        asked = [id for id, method in self._asked.items() if step.method in (None, method)]
        if not asked:
            raise ScriptError(f"step {self.position}, {step!r}: no request of ours waits for an answer")
        for message in self.unused:
            if "method" not in message and message.get("id") == asked[-1]:
                self.unused.remove(message)
                del self._asked[asked[-1]]
                self._learn(message.get("result"))
                return True
        return False

    def _learn(self, value: object) -> None:
        if isinstance(value, dict) and isinstance(value.get("sessionId"), str):
            self.session_id = value["sessionId"]

    def _send(self, step: Send, now: float, delay: float) -> None:
        if isinstance(step, Late):
            self._send(step.step, now, delay + step.seconds)
            return
        last = isinstance(step, Crash)
        self._say(now + delay, self._pieces_of(step), last=last)
        if last:
            self.position = len(self.steps)

    def _pieces_of(self, step: Send) -> Pieces:
        """The bytes of a step, in the pieces and at the pace that its faults give it."""
        if not isinstance(step, Fault):
            return [(0.0, self._bytes(step))]
        data = b"".join(piece for _, piece in self._pieces_of(step.step))
        if isinstance(step, Split):
            return _cut(data, step.sizes, step.pause)
        if isinstance(step, Slow):
            return _cut(data, (max(1, round(step.rate / 10)),), 0.1 if step.rate >= 10 else 1 / step.rate)
        if isinstance(step, Twice):
            return [(0.0, data + data)]
        if isinstance(step, Crash):
            return [(0.0, data[: step.after])]
        if isinstance(step, Noisy):
            return [(0.0, step.text.encode() + b"\n" + data)]
        if isinstance(step, Oversize):
            body = data.rstrip(b"\n").removesuffix(b"}") + b',"pad":"'
            return [(0.0, body + b"x" * (step.size - len(body) - 2) + b'"}\n')]
        raise ScriptError(f"step {self.position}, {self.steps[self.position]!r}: put Late around the other fault")

    def _say(self, due: float, pieces: Pieces, *, last: bool) -> None:
        self._sequence += 1
        heappush(self._queue, (due, self._sequence, pieces, last))

    def _bytes(self, step: Send) -> bytes:
        if isinstance(step, Raw):
            return step.data
        if isinstance(step, Print):
            return step.text.encode() + b"\n"
        message: JsonObject = {"jsonrpc": "2.0"}
        if isinstance(step, (Answer, Refuse)):
            request = self._answered(step, step.to)
            message["id"] = request["id"]
            if isinstance(step, Refuse):
                error: JsonObject = {"code": step.code, "message": step.message}
                if step.data is not None:
                    error["data"] = self._filled(step.data)
                message["error"] = error
            else:
                result = step.result(request) if callable(step.result) else step.result
                self._learn(result)
                message["result"] = self._filled(result)
        elif isinstance(step, Call):
            message.update(id=self._next_id, method=step.method, params=self._filled(step.params))
            self._asked[self._next_id] = step.method
            self._next_id += 1
        elif isinstance(step, Notify):
            message.update(method=step.method, params=self._filled(step.params))
        else:
            assert isinstance(step, (SendUpdate, Text))
            update = (
                step.update
                if isinstance(step, SendUpdate)
                else {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": step.text}}
            )
            params = {"sessionId": self._session(), "update": self._filled(update)}
            message.update(method=self.methods.wire("session_update"), params=params)
        return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"

    def _answered(self, step: Step, to: str | None) -> JsonObject:
        for index in range(len(self._open) - 1, -1, -1):
            if to is None or self._open[index].get("method") == to:
                return self._open.pop(index)
        raise ScriptError(f"step {self.position}, {step!r}: no such request is open; Expect one first")

    def _session(self) -> str:
        if self.session_id is None:
            raise ScriptError(f"step {self.position}, {self.steps[self.position]!r}: no session is known yet")
        return self.session_id

    def _filled(self, value: object) -> object:
        """The value with the id of the session at hand where SESSION stands."""
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._filled(item) for item in value]
        return self._session() if value == SESSION else value


class ScriptedAgent(ScriptedPeer):
    """An agent that does what its steps say. ``opening`` and ``turn`` make the usual ones.

    Args, Attributes, Raises: as ScriptedPeer.
    """

    role = AGENT

    @staticmethod
    def opening(
        session_id: str = "session-1",
        *,
        capabilities: Mapping[str, object] | None = None,
        result: Mapping[str, object] | None = None,
        methods: MethodTable = V1,
    ) -> list[Step]:
        """The steps that answer initialize and session/new. ``result`` has more members of the session's answer."""
        agreed = {"protocolVersion": methods.version, "agentCapabilities": capabilities or {}, "authMethods": []}
        return [
            Expect(methods.wire("initialize")),
            Answer(agreed),
            Expect(methods.wire("session_new")),
            Answer({"sessionId": session_id, **(result or {})}),
        ]

    @staticmethod
    def turn(*said: Step | str, stop_reason: str = "end_turn", methods: MethodTable = V1) -> list[Step]:
        """The steps of one turn: wait for a prompt, say these (a str is a Text), end."""
        prompt = methods.wire("session_prompt")
        steps = [Text(step) if isinstance(step, str) else step for step in said]
        return [Expect(prompt), *steps, Answer({"stopReason": stop_reason}, to=prompt)]


class ScriptedClient(ScriptedPeer):
    """A client that does what its steps say. ``opening`` and ``turn`` make the usual ones.

    Args, Attributes, Raises: as ScriptedPeer.
    """

    role = CLIENT

    @staticmethod
    def opening(
        cwd: str = "/", *, capabilities: Mapping[str, object] | None = None, methods: MethodTable = V1
    ) -> list[Step]:
        """The steps that send initialize and session/new and wait for their answers."""
        hello = {"protocolVersion": methods.version, "clientCapabilities": capabilities or {}}
        return [
            Call(methods.wire("initialize"), hello),
            ExpectAnswer(),
            Call(methods.wire("session_new"), {"cwd": cwd, "mcpServers": []}),
            ExpectAnswer(),
        ]

    @staticmethod
    def turn(text: str, *steps: Step, methods: MethodTable = V1) -> list[Step]:
        """The steps of one turn: prompt, do these, wait for the turn's end."""
        prompt = methods.wire("session_prompt")
        params = {"sessionId": SESSION, "prompt": [{"type": "text", "text": text}]}
        return [Call(prompt, params), *steps, ExpectAnswer(prompt)]


def _contains(value: object, wanted: object) -> bool:
    if isinstance(value, dict) and isinstance(wanted, dict):
        return all(key in value and _contains(value[key], item) for key, item in wanted.items())
    return value == wanted


def _cut(data: bytes, sizes: Sequence[int], pause: float) -> Pieces:
    pieces: Pieces = []
    position = 0
    while position < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append((pause if pieces else 0.0, data[position : position + size]))
        position += size
    return pieces
