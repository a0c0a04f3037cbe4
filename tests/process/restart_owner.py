"""An owner that may be killed at any moment, and takes over from one that was.

``restart_owner.py DIRECTORY TURN TEXT CRASH CUT`` ends turn TURN (0 only opens the session), whose prompt is TEXT, and
exits. With CRASH above 0 it dies by SIGKILL in its CRASH-th write, files and socket counted together, when CUT
thousandths of it are written. In the directory:

- ``lines``: the lines of the agent as they came, appended.
- ``steps``: appended before anything is written to the agent, one JSON object a line: the snapshot, and how many bytes
  the agent was given once what goes with it has arrived whole (``given``). The next owner takes the latest that did.
- ``found``: what the comparison with the tail has said, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from acp_core import (
    ClientConnection,
    Event,
    Limits,
    PermissionRequested,
    SessionFailed,
    SessionReady,
    TailDropped,
    TailOver,
    TurnEnded,
    TurnFailed,
    compare_tail,
)

DIRECTORY = Path(sys.argv[1])
TURN = f"turn {sys.argv[2]}"
TEXT = sys.argv[3]
DEADLINE = 60.0


class Writer:
    """All writing goes through here, so that the process can die in the middle of any."""

    def __init__(self, crash: int, cut: int) -> None:
        self.left = crash
        self.cut = cut

    def write(self, put: Callable[[bytes], object], data: bytes) -> None:
        self.left -= 1
        if self.left == 0:
            put(data[: len(data) * self.cut // 1000])
            os.kill(os.getpid(), signal.SIGKILL)
        put(data)


class Store:
    """An append-only file of lines. A last line that was cut off by a death is removed first."""

    def __init__(self, name: str, writer: Writer) -> None:
        self.descriptor = os.open(DIRECTORY / name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        data = (DIRECTORY / name).read_bytes()
        whole = data.rfind(b"\n") + 1
        os.ftruncate(self.descriptor, whole)
        self.lines = data[:whole].split(b"\n")[:-1]
        self.writer = writer

    def append(self, data: bytes) -> None:
        self.writer.write(lambda part: os.write(self.descriptor, part), data)

    def append_json(self, value: object) -> None:
        self.append(json.dumps(value).encode() + b"\n")


class Owner:
    def __init__(self) -> None:
        writer = Writer(int(sys.argv[4]), int(sys.argv[5]))
        self.writer = writer
        self.lines, self.steps, self.found = (Store(name, writer) for name in ("lines", "steps", "found"))
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(DIRECTORY / "relay"))
        stream = self.socket.makefile("rb", buffering=0)
        header = b""
        while not header.endswith(b"\n"):
            header += stream.read(1) or b""
        stream.close()
        self.given = json.loads(header)["taken"]
        # The tail: its bytes until it is over, None afterwards; and what was dropped of its first line.
        self.tail: bytes | None = None
        self.dropped: bytes | None = None
        self.ended = False
        self.over = False
        step = self.latest_step()
        if step is None:
            self.conn = ClientConnection(nonce="first", limits=Limits(max_answered_kept=32))
            self.conn.open_session("/")
        else:
            self.restore(step)

    def latest_step(self) -> dict[str, object] | None:
        """The latest one whose bytes have arrived: what comes behind it has never happened. Only its last line end may
        be missing, since the first byte of the next owner is one."""
        found = None
        for line in self.steps.lines:
            step = json.loads(line)
            if step["given"] <= self.given + 1:
                found = step
        assert found is None or isinstance(found, dict)
        return found

    def restore(self, step: dict[str, object]) -> None:
        snapshot = step["snapshot"]
        assert isinstance(snapshot, dict)
        self.ended = step["ended"] == TURN
        self.conn = ClientConnection(
            nonce=f"owner{len(self.steps.lines)}", limits=Limits(max_answered_kept=32), restore=snapshot
        )
        (row,) = snapshot["sessions"]
        self.conn.attach("s1", row["promptId"], deadline=DEADLINE, tail_quiet=0.05, tail_max=0.5)
        self.tail = b""
        # Steps of an earlier owner that never arrived must not count again.
        self.step(self.given, step["ended"])
        for request in snapshot["openRequests"]:
            self.conn.answer_permission(request["requestId"], "yes")

    def step(self, given: int, ended: object) -> None:
        self.steps.append_json({"given": given, "ended": ended, "snapshot": self.conn.snapshot()})

    def drain(self) -> None:
        for event in self.conn.events():
            self.handle(event)

    def handle(self, event: Event) -> None:
        match event:
            case PermissionRequested(request_id=request_id):
                self.conn.answer_permission(request_id, "yes")
            case TailDropped(raw=raw):
                self.dropped = raw
            case TailOver():
                self.compare()
                session = self.conn.session("s1")
                if not self.ended and session is not None and session.turn is None:
                    self.conn.prompt(session, TEXT, identity=TURN, deadline=DEADLINE)
            case TurnEnded(identity=identity):
                self.ended = identity == TURN
            case SessionReady():
                self.over = True
            case TurnFailed(error=error) | SessionFailed(error=error):
                raise error
            case _:
                pass

    def compare(self) -> None:
        """Store what the tail adds to the stored lines."""
        assert self.tail is not None
        *tail, rest = self.tail.split(b"\n")
        self.tail = None
        if self.dropped is not None:
            assert tail[0] == self.dropped
            tail = tail[1:]
        found = compare_tail(self.lines.lines, tail, self.dropped or b"")
        self.lines.append(b"".join(line + b"\n" for line in found.new) + rest)
        self.found.append_json(
            {
                "stored": len(self.lines.lines),
                "tail": len(tail),
                "overlap": found.overlap,
                "ambiguous": found.ambiguous,
                "gap": found.gap,
            }
        )

    def send(self) -> None:
        while data := self.conn.data_to_send(time.monotonic()):
            self.drain()
            if self.conn.version is not None:
                # Before the write: should it not arrive whole, this step has not happened.
                self.step(self.given + len(data), TURN if self.ended else None)
            self.writer.write(self.socket.sendall, data)
            self.given += len(data)

    def receive(self) -> None:
        deadline = self.conn.next_deadline()
        wait = DEADLINE if deadline is None else min(DEADLINE, deadline - time.monotonic())
        self.socket.settimeout(max(wait, 0.001))
        try:
            data = self.socket.recv(4096)
        except TimeoutError:
            self.conn.handle_timeout(time.monotonic())
            return
        assert data, "the relay is gone"
        if self.tail is None:
            # The line is stored before anything is done with it.
            self.lines.append(data)
        else:
            self.tail += data
        self.conn.receive_data(data, time.monotonic())

    def run(self) -> None:
        self.drain()
        self.send()
        while not self.over:
            self.receive()
            self.drain()
            self.send()
            if self.ended and self.tail is None:
                self.over = True
        self.step(self.given, TURN if self.ended else None)


Owner().run()
