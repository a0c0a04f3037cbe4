"""Deterministic traffic: the same lines in every run."""

from __future__ import annotations

import json
import random

SESSION = "sess_0123456789abcdef"
WORDS = (
    "the quick brown fox jumps over a lazy dog while it refactors tests functions modules errors and "
    "reads writes runs checks fixes names files lines"
).split()
OTHER_WORDS = ["日本語", "→", "naïve", "…", "🚀"]


def compact(value: object) -> bytes:
    """One line, as the peers write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def chunks(count: int, *, other: float = 0.0, seed: int = 1) -> list[bytes]:
    """Message and thought chunks of a few words, half of them with a messageId; ``other`` is the share of words that
    are not ASCII."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        words = [rng.choice(OTHER_WORDS if rng.random() < other else WORDS) for _ in range(rng.randint(1, 6))]
        update: dict[str, object] = {
            "sessionUpdate": rng.choice(["agent_message_chunk", "agent_thought_chunk"]),
            "content": {"type": "text", "text": " ".join(words)},
        }
        if rng.random() < 0.5:
            update["messageId"] = f"msg_{rng.getrandbits(32):08x}"
        lines.append(notification(update))
    return lines


def tools(count: int, seed: int = 2) -> list[bytes]:
    """Tool calls with 2 to 20 KB of text in them."""
    rng = random.Random(seed)
    lines = []
    for number in range(count):
        text = "\n".join(" ".join(rng.choices(WORDS, k=10)) for _ in range(rng.randint(30, 300)))
        update: dict[str, object] = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": f"call_{number}",
            "title": "Read a file",
            "kind": "read",
            "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": text}}],
            "locations": [{"path": "/work/file.py", "line": 12}],
        }
        lines.append(notification(update))
    return lines


def permissions(count: int) -> list[bytes]:
    """Permission requests, each with an id of its own."""
    options = [
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    ]
    return [
        compact(
            {
                "jsonrpc": "2.0",
                "id": number,
                "method": "session/request_permission",
                "params": {
                    "sessionId": SESSION,
                    "toolCall": {"toolCallId": f"call_{number}", "title": "Run a command", "kind": "execute"},
                    "options": options,
                },
            }
        )
        for number in range(count)
    ]


def notification(update: dict[str, object]) -> bytes:
    """An update as a line."""
    return compact({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}})
