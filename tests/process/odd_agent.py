"""An agent, spoken by hand, that misbehaves as its first argument says. It knows nothing of the library."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping


def read() -> dict[str, object] | None:
    line = sys.stdin.buffer.readline()
    if not line:
        return None
    value = json.loads(line)
    assert isinstance(value, dict)
    return value


def write(message: Mapping[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def say(text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    write({"method": "session/update", "params": {"sessionId": "s1", "update": update}})


def forever() -> None:
    threading.Event().wait()


def note_child(child: subprocess.Popen[bytes]) -> None:
    """Tell the test the number of a process that must not stay."""
    with open(os.environ["ODD_PIDS"], "a") as file:
        file.write(f"{child.pid}\n")


def prompt(mode: str, id: object) -> None:
    if mode == "exit":
        print("the last words", file=sys.stderr, flush=True)
        say("half an ans")
        sys.stdout.flush()
        os._exit(3)
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "last-error":
        # Deaf from now on, but it says why before it goes.
        os.close(0)
        write({"id": id, "error": {"code": -32000, "message": "out of credit"}})
        threading.Event().wait(0.3)
        os._exit(1)
    if mode == "grandchild":
        # It holds all three pipes and outlives its parent.
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        note_child(child)
        print("left a child", file=sys.stderr, flush=True)
        os._exit(4)
    if mode == "silent":
        forever()
    if mode == "stderr-flood":
        for _ in range(64):
            sys.stderr.write("e" * 65535 + "\n")
        sys.stderr.write("the end of it\n")
        sys.stderr.flush()
    if mode == "permission":
        ask = {
            "sessionId": "s1",
            "toolCall": {"toolCallId": "t", "title": "rm -rf"},
            "options": [
                {"optionId": "y", "name": "Yes", "kind": "allow_once"},
                {"optionId": "n", "name": "No", "kind": "reject_once"},
            ],
        }
        write({"id": 1, "method": "session/request_permission", "params": ask})
        answer = read()
        assert answer is not None
        say(json.dumps(answer["result"]))
    if mode == "stream":
        number = 0
        while True:
            say(f"{number}\n")
            number += 1
    if mode == "error":
        write({"id": id, "error": {"code": -32603, "message": "it broke"}})
        return
    if mode == "noise":
        print("just some text", flush=True)
        say("heard")
    stop = mode.removeprefix("stop:") if mode.startswith("stop:") else "end_turn"
    write({"id": id, "result": {"stopReason": stop}})


def main(mode: str) -> None:
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note_child(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
    if mode == "exit-at-start":
        print("cannot go on: no key", file=sys.stderr, flush=True)
        sys.exit(5)
    if mode == "chatter":
        print("Welcome!", flush=True)
        print("what is this?", file=sys.stderr, flush=True)
        while sys.stdin.buffer.read(1):
            pass
        return
    waiting: object = None
    while (message := read()) is not None:
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            if mode == "version":
                write({"id": id, "result": {"protocolVersion": 99, "agentCapabilities": {}}})
            else:
                write({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}})
        elif method == "session/new":
            if mode == "login":
                write({"id": id, "error": {"code": -32000, "message": "log in first"}})
            else:
                write({"id": id, "result": {"sessionId": "s1"}})
        elif method == "session/prompt":
            if mode in ("cancellable", "deaf"):
                waiting = id
                say("working\n")
            else:
                prompt(mode, id)
        elif method == "session/cancel" and mode == "cancellable":
            write({"id": waiting, "result": {"stopReason": "cancelled"}})
        elif method == "session/cancel" and mode == "deaf":
            say("ignored\n")
        elif id is not None:
            write({"id": id, "result": {"echo": len(json.dumps(message))}})
    if mode == "stubborn":
        forever()


if __name__ == "__main__":
    main(sys.argv[1])
