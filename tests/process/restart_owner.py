"""An owner that stores what it needs to be killed at any moment, and takes over from one that was.

``restart_owner.py DIRECTORY TURN TEXT CRASH`` ends turn number TURN, whose prompt is TEXT, and exits. With CRASH above 0
it kills itself with SIGKILL in the middle of that write, counted over files and socket. In the directory:

- ``lines``: the lines of the agent as they came, appended.
- ``steps``: one JSON object a line, appended before anything is written to the agent: the snapshot, and how many bytes
  the agent has been given when what goes with it has arrived whole. A restarted owner takes the latest one that did.
- ``found``: what the comparison with the tail has said, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from acp_core import (  # noqa: E402
    ClientConnection,
    Event,
    Limits,
    PermissionRequested,
    SessionFailed,
    TailDropped,
    TailOver,
    TurnEnded,
    TurnFailed,
    compare_tail,
)

DIRECTORY = Path(sys.argv[1])
TURN = f"turn {sys.argv[2]}"
TEXT = sys.argv[3]
CUT = 7


class Writes:
    """Every write goes through here, in two halves; the process dies between those of the chosen one."""

    def __init__(self, left: int) -> None:
        self.left = left

    def file(self, descriptor: int, data: bytes) -> None:
        for part in self.halves(data):
            os.write(descriptor, part)

    def socket(self, stream: socket.socket, data: bytes) -> None:
        for part in self.halves(data):
            stream.sendall(part)

    def halves(self, data: bytes) -> list[bytes]:
        self.left -= 1
        if self.left:
            return [data]
        # Anywhere in it, before its first byte and behind its last one too.
        part = data[: len(data) * (os.getpid() % (CUT + 1)) // CUT]
        return [part, self.die()]

    def die(self) -> bytes:
        return b""


class Crashing(Writes):
    def file(self, descriptor: int, data: bytes) -> None:
        for part in self.halves(data):
            os.write(descriptor, part)
        self.crash()

    def socket(self, stream: socket.socket, data: bytes) -> None:
        for part in self.halves(data):
            stream.sendall(part)
        self.crash()

    def crash(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
