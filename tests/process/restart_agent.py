"""An agent whose every line differs from every other, for tests of owners that are killed. It knows nothing of the
library.

``restart_agent.py DIRECTORY``: ``said`` in it has every line that was written to stdout, ``heard`` every line that was
read from stdin. A prompt's text says what to do: ``"lines N ask M"`` says N numbered lines and asks a permission after
every M of them, waiting for its answer; ``"equal N"`` says the same line N times; ``"big N"`` says N lines of 1 KiB and
waits for nobody; ``"wait"`` in front asks one permission first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

DIRECTORY = Path(sys.argv[1])


class Agent:
    def __init__(self) -> None:
        self.said = open(DIRECTORY / "said", "ab", buffering=0)
        self.heard = open(DIRECTORY / "heard", "ab", buffering=0)
        self.count = 0

    def read(self) -> dict[str, object] | None:
        """The next message; None at the end. Whatever is no message is left aside."""
        while line := sys.stdin.buffer.readline():
            self.heard.write(line)
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                return message
        return None

    def write(self, message: Mapping[str, object], times: int = 1) -> None:
        data = (json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n") * times
        # Recorded first: what an owner has read is always in here.
        self.said.write(data)
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def say(self, text: str, times: int = 1) -> None:
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        self.write({"method": "session/update", "params": {"sessionId": "s1", "update": update}}, times)

    def ask(self, rpc_id: int) -> None:
        """Ask, and wait for the answer. Each question has a title of its own; the ids come again in every turn."""
        self.count += 1
        call = {"toolCallId": "t", "title": f"question {self.count}"}
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": "s1", "toolCall": call, "options": options}
        self.write({"id": rpc_id, "method": "session/request_permission", "params": params})
        while (message := self.read()) is not None:
            if message.get("id") == rpc_id and "method" not in message:
                return

    def turn(self, words: list[str]) -> None:
        asked = 0
        if words[0] == "wait":
            words = words[1:]
            self.ask(asked)
            asked += 1
        match words:
            case ["lines", lines, "ask", every]:
                for number in range(int(lines)):
                    self.count += 1
                    self.say(f"line {self.count} " + "é" * (number % 50))
                    if number % int(every) == int(every) - 1:
                        self.ask(asked)
                        asked += 1
            case ["equal", lines]:
                # At once, so that an owner reads several of them together.
                self.say("again", int(lines))
            case ["big", lines]:
                for _ in range(int(lines)):
                    self.count += 1
                    self.say(f"line {self.count} " + "x" * 1024)

    def run(self) -> None:
        while (message := self.read()) is not None:
            match message:
                case {"method": "initialize", "id": id}:
                    self.write({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
                case {"method": "session/new", "id": id}:
                    self.write({"id": id, "result": {"sessionId": "s1"}})
                case {"method": "session/prompt", "id": id, "params": {"prompt": [{"text": str(text)}]}}:
                    self.turn(text.split())
                    self.write({"id": id, "result": {"stopReason": "end_turn"}})


Agent().run()
