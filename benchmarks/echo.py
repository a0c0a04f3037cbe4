"""The agent at the other end of the pipe: ``python -m benchmarks.echo [FILE]``. Its CPU is not counted.

It answers every request at once, and a prompt after it has written what stands in the file.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def answer(message: dict[str, object]) -> object:
    """The result of a request."""
    match message.get("method"):
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {}}
        case "session/new":
            # As ``traffic.SESSION``, which is not imported here: this process is started often.
            return {"sessionId": "sess_018f4c1e-7a9b-7c3d-8e5f-a1b2c3d4e5f6"}
        case _:
            return {"stopReason": "end_turn"}


def write(data: bytes) -> None:
    """All of it."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest[:65536]) :]


def main(file: str | None) -> None:
    """Until the input ends."""
    streamed = b"" if file is None else Path(file).read_bytes()
    pending = b""
    while data := os.read(0, 65536):
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "id" not in message or "method" not in message:
                continue
            if message["method"] == "session/prompt":
                write(streamed)
            write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
