"""A relay that keeps an agent alive while its owner comes and goes. It knows nothing of the protocol.

``restart_relay.py SOCKET COMMAND...`` starts the agent and listens. An owner that connects is told in one line of JSON
how many bytes of its predecessors the agent was given (``taken``), then gets the last 16 KiB that the agent wrote, then
whatever comes. It ends when its stdin ends, and the agent with it.
"""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys

KEPT = 16384


class Relay:
    def __init__(self, path: str, command: list[str]) -> None:
        self.agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen()
        self.owner: socket.socket | None = None
        self.kept = b""
        self.taken = 0
        self.selector = selectors.DefaultSelector()
        assert self.agent.stdout is not None
        self.control = open(0, "rb", buffering=0)
        for file in (self.agent.stdout, self.server, self.control):
            self.selector.register(file, selectors.EVENT_READ)

    def give(self, data: bytes) -> None:
        """Pass bytes of an owner to the agent: from here on they are taken."""
        assert self.agent.stdin is not None
        while data:
            written = self.agent.stdin.write(data)
            assert written is not None
            self.taken += written
            data = data[written:]

    def send(self, data: bytes) -> None:
        if self.owner is not None:
            try:
                self.owner.sendall(data)
            except OSError:
                # It has died; its end of input comes next.
                pass

    def hear(self) -> bool:
        """Read from the owner. False when it is gone."""
        assert self.owner is not None
        try:
            data = self.owner.recv(65536)
        except OSError:
            data = b""
        self.give(data)
        if not data:
            self.selector.unregister(self.owner)
            self.owner.close()
            self.owner = None
        return bool(data)

    def accept(self) -> None:
        # What the one before has written still counts: it is dead, so its end comes.
        while self.owner is not None:
            self.hear()
        self.owner, _ = self.server.accept()
        self.selector.register(self.owner, selectors.EVENT_READ)
        self.send(json.dumps({"taken": self.taken}).encode() + b"\n" + self.kept)

    def run(self) -> None:
        assert self.agent.stdout is not None
        while True:
            ready = [key.fileobj for key, _ in self.selector.select()]
            if self.agent.stdout in ready:
                data = self.agent.stdout.read(65536)
                if not data:
                    return
                self.kept = (self.kept + data)[-KEPT:]
                self.send(data)
            if self.owner in ready:
                self.hear()
            if self.server in ready:
                self.accept()
            if self.control in ready and not self.control.read(1):
                return


relay = Relay(sys.argv[1], sys.argv[2:])
try:
    relay.run()
finally:
    assert relay.agent.stdin is not None
    relay.agent.stdin.close()
    relay.agent.wait()
