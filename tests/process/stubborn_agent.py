"""An agent, spoken by hand, that does not want to end: how is its first argument. It knows nothing of the library."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

FLOOD = b"f" * 65536
# Holds the pipes of its parent, does not heed what ends its parent, and says when it is there.
GRANDCHILD = "import signal, time; signal.signal(15, signal.SIG_IGN); print('{}', flush=True); time.sleep(600)"


def write(message: Mapping[str, object]) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def forever() -> None:
    while True:
        threading.Event().wait(600)


def flood(file: int) -> None:
    """Write without end, and without the end of a line."""
    with open(file, "wb", buffering=0, closefd=False) as stream:
        while True:
            stream.write(FLOOD)


def main(mode: str) -> None:
    if mode == "ignores SIGTERM":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode.startswith("forks"):
        # One that is outside the group is no business of whoever ends the group; its number is for the test.
        outside = "outside" in mode
        child = subprocess.Popen([sys.executable, "-S", "-c", GRANDCHILD], start_new_session=outside)
        print(f"child {child.pid}", file=sys.stderr, flush=True)
    waiting: object = None
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            write({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}})
        elif method == "session/new":
            write({"id": id, "result": {"sessionId": "s1"}})
        elif method == "session/prompt":
            waiting = id
            text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "working"}}
            write({"method": "session/update", "params": {"sessionId": "s1", "update": text}})
            if mode.startswith("floods"):
                threading.Thread(target=flood, args=(2 if "stderr" in mode else 1,), daemon=True).start()
        elif method == "session/cancel":
            if mode == "sleeps in cancel":
                forever()
            if not mode.startswith("floods"):
                write({"id": waiting, "result": {"stopReason": "cancelled"}})
    if mode in ("ignores SIGTERM", "ignores stdin end"):
        forever()


if __name__ == "__main__":
    main(sys.argv[1])
