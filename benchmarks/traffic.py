"""Deterministic traffic: the same lines in every run, without their line ends.

Mean bytes of a line: chunks 244, chunks with other scripts 246, tools 11.5 KB, permissions 485, results 64, mixed 1150.
"""

from __future__ import annotations

import json
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from random import Random

SESSION = "sess_018f4c1e-7a9b-7c3d-8e5f-a1b2c3d4e5f6"
# How the result of an own request ends.
RESULT = b'"result":{"stopReason":"end_turn"}}'
# The first id a client is free to use after initialize, session/new and session/prompt.
FIRST_ID = 4
WORDS = (
    "the quick brown fox jumps over a lazy dog while it refactors tests functions modules errors and "
    "reads writes runs checks fixes names files lines"
).split()
OTHER_WORDS = ["日本語", "→", "naïve", "…", "🚀"]


def generator(seed: int) -> Random:
    """Random numbers that are the same in every run."""
    # Imported here: a process under callgrind is given its lines, and this import takes longer than the core's.
    from random import Random

    return Random(seed)


def compact(value: object) -> bytes:
    """One line, as the peers write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def parse(line: bytes) -> dict[str, object]:
    """A message."""
    value: dict[str, object] = json.loads(line)
    return value


def notification(update: dict[str, object]) -> bytes:
    """An update as a line."""
    return compact({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}})


def identifier(rng: Random, prefix: str) -> str:
    """An id as agents make them."""
    return f"{prefix}_{rng.getrandbits(96):024x}"


def chunks(count: int, *, other: float = 0.0, seed: int = 1) -> list[bytes]:
    """Message and thought chunks of 5 to 40 characters, half of them with a messageId; ``other`` is the share of words
    that are not ASCII."""
    rng = generator(seed)
    lines = []
    message_id = identifier(rng, "msg")
    for _ in range(count):
        if rng.random() < 0.02:
            message_id = identifier(rng, "msg")
        words = [rng.choice(OTHER_WORDS if rng.random() < other else WORDS) for _ in range(rng.randint(2, 7))]
        update: dict[str, object] = {
            "sessionUpdate": "agent_thought_chunk" if rng.random() < 0.2 else "agent_message_chunk",
            "content": {"type": "text", "text": " ".join(words)[:40] + " "},
        }
        if rng.random() < 0.5:
            update["messageId"] = message_id
        lines.append(notification(update))
    return lines


def other_chunks(count: int) -> list[bytes]:
    """Chunks, 15 % of whose words are CJK, emoji, arrows, accents."""
    return chunks(count, other=0.15)


@cache
def code() -> tuple[str, ...]:
    """Lines that look like code, with what JSON has to escape."""
    rng = generator(6)
    lines = []
    for _ in range(997):
        line = "    " * rng.randint(0, 3) + " ".join(rng.choices(WORDS, k=rng.randint(3, 9)))
        lines.append(f'{line} = "{rng.choice(WORDS)}"' if rng.random() < 0.25 else line)
    return tuple(lines)


def source(rng: Random, size: int) -> str:
    """Text of at least ``size`` characters that looks like code."""
    pool = code()
    start = rng.randrange(len(pool))
    lines: list[str] = []
    while size > 0:
        lines.append(pool[(start + len(lines)) % len(pool)])
        size -= len(lines[-1]) + 1
    return "\n".join(lines)


def tools(count: int, seed: int = 2) -> list[bytes]:
    """Tool calls of 2 to 20 KB: announced with a diff, and updated with text, locations and output."""
    rng = generator(seed)
    lines = []
    for number in range(count):
        size = rng.randint(2000, 19000)
        path = f"/work/src/{rng.choice(WORDS)}.py"
        update: dict[str, object] = {"toolCallId": f"call_{number // 3:08x}"}
        match number % 3:
            case 0:
                diff = {
                    "type": "diff",
                    "path": path,
                    "oldText": source(rng, size // 2),
                    "newText": source(rng, size // 2),
                }
                update |= {
                    "sessionUpdate": "tool_call",
                    "title": f"Edit {path}",
                    "kind": "edit",
                    "status": "pending",
                    "content": [diff],
                    "locations": [{"path": path, "line": rng.randint(1, 400)}],
                    "rawInput": {"path": path, "all": False},
                }
            case 1:
                text = {"type": "text", "text": source(rng, size)}
                update |= {
                    "sessionUpdate": "tool_call_update",
                    "status": "in_progress",
                    "content": [{"type": "content", "content": text}],
                    "locations": [{"path": path, "line": line} for line in range(1, 6)],
                }
            case _:
                output = {"exitCode": 0, "lines": source(rng, size).splitlines()}
                update |= {"sessionUpdate": "tool_call_update", "status": "completed", "rawOutput": output}
        lines.append(notification(update))
    return lines


def permissions(count: int) -> list[bytes]:
    """Permission requests, each with an id and a tool call of its own."""
    options = [
        {"optionId": "allow_once", "name": "Allow", "kind": "allow_once"},
        {"optionId": "allow_always", "name": "Always allow", "kind": "allow_always"},
        {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
    ]
    lines = []
    for number in range(count):
        call = {
            "toolCallId": f"call_{number:08x}",
            "title": "Run the tests",
            "kind": "execute",
            "status": "pending",
            "rawInput": {"command": "python -m pytest"},
        }
        params = {"sessionId": SESSION, "toolCall": call, "options": options}
        lines.append(
            compact({"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params})
        )
    return lines


def results(count: int) -> list[bytes]:
    """Results of our own requests, in the order they were asked."""
    return [
        compact({"jsonrpc": "2.0", "id": FIRST_ID + number, "result": {"stopReason": "end_turn"}})
        for number in range(count)
    ]


def mixed(count: int) -> list[bytes]:
    """88 % chunks, 8 % tools, 3 % permissions, 1 % results."""
    rng = generator(3)
    kinds = rng.choices(("chunk", "tool", "permission", "result"), (88, 8, 3, 1), k=count)
    pools = {
        "chunk": iter(chunks(kinds.count("chunk"))),
        "tool": iter(tools(kinds.count("tool"))),
        "permission": iter(permissions(kinds.count("permission"))),
        "result": iter(results(kinds.count("result"))),
    }
    return [next(pools[kind]) for kind in kinds]


def texts(count: int) -> list[bytes]:
    """The texts of the chunks alone."""
    values = [json.loads(line) for line in chunks(count)]
    return [value["params"]["update"]["content"]["text"].encode() for value in values]
