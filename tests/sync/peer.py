"""The other end of a socket, spoken by hand, line by line, so that tests see the wire."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")
BOUND = 20.0
JsonObject = dict[str, object]


def bounded(job: Callable[[], T], seconds: float = BOUND) -> T:
    """Run ``job`` in a thread and wait for it, so that a test that would hang fails."""
    done: list[T] = []
    failed: list[BaseException] = []

    def body() -> None:
        try:
            done.append(job())
        except BaseException as why:
            failed.append(why)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"still running after {seconds} s"
    if failed:
        raise failed[0]
    return done[0]


def until(ready: Callable[[], object], seconds: float = BOUND) -> None:
    """Wait until ``ready`` is true."""
    due = time.monotonic() + seconds
    tick = threading.Event()
    while not ready():
        assert time.monotonic() < due, f"not so within {seconds} s"
        tick.wait(0.01)


class Peer:
    """One end of a socket pair: ``other`` is for the side under test."""

    def __init__(self) -> None:
        self.mine, self.other = socket.socketpair()
        self.mine.settimeout(BOUND)
        self._file = self.mine.makefile("rb")

    def close(self) -> None:
        self._file.close()
        self.mine.close()
        self.other.close()

    def read(self) -> JsonObject:
        line = self._file.readline()
        assert line.endswith(b"\n"), f"the other side ended: {line!r}"
        value = json.loads(line)
        assert isinstance(value, dict)
        return value

    def read_method(self, method: str) -> JsonObject:
        """The next message, which must have this method."""
        message = self.read()
        assert message.get("method") == method, message
        return message

    def at_end(self) -> bool:
        return self._file.read(1) == b""

    def write(self, message: Mapping[str, object]) -> None:
        self.mine.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def answer(self, request: Mapping[str, object], result: object = None) -> None:
        self.write({"id": request["id"], "result": {} if result is None else result})

    # As an agent.

    def handshake(self, capabilities: Mapping[str, object] | None = None) -> JsonObject:
        request = self.read_method("initialize")
        self.answer(request, {"protocolVersion": 1, "agentCapabilities": capabilities or {}, "authMethods": []})
        params = request["params"]
        assert isinstance(params, dict)
        return params

    def new_session(self, session_id: str = "s1") -> None:
        self.answer(self.read_method("session/new"), {"sessionId": session_id})

    def opened(self, session_id: str = "s1", capabilities: Mapping[str, object] | None = None) -> None:
        self.handshake(capabilities)
        self.new_session(session_id)

    def say(self, text: str, session_id: str = "s1") -> None:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.write({"method": "session/update", "params": {"sessionId": session_id, "update": update}})

    def end_turn(self, prompt: Mapping[str, object], stop_reason: str = "end_turn") -> None:
        self.answer(prompt, {"stopReason": stop_reason})

    # As a client.

    def ask(self, id: int, method: str, params: Mapping[str, object] | None = None) -> None:
        self.write({"id": id, "method": method, "params": params or {}})

    def initialize(self) -> JsonObject:
        self.ask(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        result = self.read()["result"]
        assert isinstance(result, dict)
        return result


class Script:
    """Runs the peer's side of a test in a thread."""

    def __init__(self, job: Callable[[], object]) -> None:
        self._failed: list[BaseException] = []
        self._job = job
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._job()
        except BaseException as why:
            self._failed.append(why)

    def done(self, seconds: float = BOUND) -> None:
        """Wait for its end. Raises what it raised."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the peer's script still runs"
        if self._failed:
            raise self._failed[0]

    @property
    def running(self) -> bool:
        return self._thread.is_alive()
