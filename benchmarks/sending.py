"""S1 and S2: from an intent to bytes, against ``json.dumps(message).encode()`` of the whole message, made before."""

from __future__ import annotations

import json

from acp_core import AgentConnection

from . import traffic
from .ends import serving
from .receiving import READ
from .rows import Arm, Lines, Ratio, Row, Work


def drain(agent: AgentConnection) -> None:
    """Hand over what is queued, as often as a transport would."""
    if agent.output_bytes > READ:
        agent.data_to_send(1.0)


def send_updates(lines: Lines) -> Arm:
    """``update()`` of a dict."""
    updates: list[dict[str, object]] = [json.loads(line)["params"]["update"] for line in lines]

    def arm() -> Work:
        agent, _ = serving(turn=True)

        def work() -> None:
            for update in updates:
                agent.update(traffic.SESSION, update)
                drain(agent)

        return work

    return arm


def send_results(lines: Lines) -> Arm:
    """``respond()`` to requests of the client that are open."""
    values: list[dict[str, object]] = [json.loads(line)["result"] for line in lines]

    def arm() -> Work:
        agent, waiting = serving(requests=len(lines))
        pairs = list(zip(waiting, values, strict=True))

        def work() -> None:
            for request_id, value in pairs:
                agent.respond(request_id, value)
                drain(agent)

        return work

    return arm


def send_permissions(lines: Lines) -> Arm:
    """``ask_permission()``, each of which stays open."""
    params = [json.loads(line)["params"] for line in lines]
    asked: list[tuple[dict[str, object], list[dict[str, object]]]] = [
        (one["toolCall"], one["options"]) for one in params
    ]

    def arm() -> Work:
        agent, _ = serving(turn=True)

        def work() -> None:
            for tool_call, options in asked:
                agent.ask_permission(traffic.SESSION, tool_call, options)
                drain(agent)

        return work

    return arm


def send_texts(lines: Lines) -> Arm:
    """``update_text()`` of pieces."""
    texts = [line.decode() for line in lines]

    def arm() -> Work:
        agent, _ = serving(turn=True)

        def work() -> None:
            for text in texts:
                agent.update_text(traffic.SESSION, "message", "m1", delta=text)
                drain(agent)

        return work

    return arm


def dumps(lines: Lines) -> Arm:
    """The floor: the same messages, made before."""
    messages = [json.loads(line) for line in lines]

    def arm() -> Work:
        def work() -> None:
            for message in messages:
                json.dumps(message).encode()

        return work

    return arm


def dumps_texts(lines: Lines) -> Arm:
    """The floor of ``update_text``: its messages."""
    updates: list[dict[str, object]] = [
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": line.decode()},
            "messageId": "m1",
        }
        for line in lines
    ]
    return dumps([traffic.notification(update) for update in updates])


ROWS: list[Row] = [
    Ratio("S1.chunks", "update() of chunks", 0.75, traffic.chunks, 50_000, send_updates, dumps),
    Ratio("S1.results", "respond()", 0.55, traffic.results, 50_000, send_results, dumps),
    Ratio("S1.permission", "ask_permission()", 0.85, traffic.permissions, 20_000, send_permissions, dumps),
    Ratio("S2", "update_text() of pieces", 0.30, traffic.texts, 50_000, send_texts, dumps_texts),
]
