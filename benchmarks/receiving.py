"""R1 to R4: from bytes to events, against ``json.loads`` of the same lines, which need not be cut there."""

from __future__ import annotations

import json
from collections.abc import Callable

from acp_core import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ClientConnection,
    Event,
    PermissionRequested,
    ToolCall,
    ToolCallUpdate,
)

from . import traffic
from .ends import prompting
from .rows import Arm, Lines, Ratio, Row, Work

READ = 65536
# What reads an event, by its class.
Readers = dict[type[Event], Callable[[ClientConnection, Event], object]]


def cut(lines: Lines, read: int) -> list[bytes]:
    """The stream of these lines in reads of so many bytes; 0 is one line a read."""
    if not read:
        return [line + b"\n" for line in lines]
    data = b"\n".join(lines) + b"\n"
    return [data[start : start + read] for start in range(0, len(data), read)]


def receive(lines: Lines, read: int = READ, *, policy: bool = True) -> Arm:
    """A policy, or nobody, answers what is asked; the events are pulled and dropped."""

    def arm() -> Work:
        parts = cut(lines, read)
        requests = sum(line.endswith(traffic.RESULT) for line in lines)
        client = prompting(requests=requests, policy=policy)

        def work() -> None:
            for part in parts:
                client.receive_data(part, 1.0)
                for _ in client.events():
                    pass
                if client.output_bytes:
                    client.data_to_send(1.0)

        return work

    return arm


def receive_by_line(lines: Lines) -> Arm:
    """One line a read."""
    return receive(lines, 0)


def receive_unanswered(lines: Lines) -> Arm:
    """What is asked stays open."""
    return receive(lines, policy=False)


def receive_typed(lines: Lines) -> Arm:
    """The owner reads every field of every event; what is asked stays open."""
    return read_with(READERS, lines)


def receive_answered(lines: Lines) -> Arm:
    """The owner reads every field of every event and answers what is asked."""
    return read_with(ANSWERING, lines)


def read_with(readers: Readers, lines: Lines) -> Arm:
    """Every event goes to the reader of its class."""

    def arm() -> Work:
        parts = cut(lines, READ)
        client = prompting(policy=False)

        def work() -> None:
            for part in parts:
                client.receive_data(part, 1.0)
                for event in client.events():
                    readers[event.__class__](client, event)
                if client.output_bytes:
                    client.data_to_send(1.0)

        return work

    return arm


def read_chunk(client: ClientConnection, event: Event) -> object:
    """Every field of a chunk."""
    assert isinstance(event, (AgentMessageChunk, AgentThoughtChunk))
    return event.session_id, event.kind, event.text, event.message_id, event.content, event.meta, event.replayed


def read_tool(client: ClientConnection, event: Event) -> object:
    """Every field of a tool call."""
    assert isinstance(event, (ToolCall, ToolCallUpdate))
    return (
        event.session_id,
        event.kind,
        event.tool_call_id,
        event.title,
        event.tool_kind,
        event.status,
        event.content,
        event.locations,
        event.raw_input,
        event.raw_output,
        event.meta,
        event.replayed,
    )


def read_permission(client: ClientConnection, event: Event) -> object:
    """Every field of a permission request."""
    assert isinstance(event, PermissionRequested)
    fields = (event.session_id, event.rpc_id, event.tool_call_id, event.title, event.tool_kind, event.meta)
    return fields, [(option.option_id, option.name, option.kind) for option in event.options]


def answer_permission(client: ClientConnection, event: Event) -> object:
    """Every field of a permission request, and the answer."""
    assert isinstance(event, PermissionRequested)
    found = read_permission(client, event)
    client.answer_permission(event.request_id, event.options[0])
    return found


READERS: Readers = {
    AgentMessageChunk: read_chunk,
    AgentThoughtChunk: read_chunk,
    ToolCall: read_tool,
    ToolCallUpdate: read_tool,
    PermissionRequested: read_permission,
}
ANSWERING: Readers = {**READERS, PermissionRequested: answer_permission}


def loads(lines: Lines) -> Arm:
    """The floor."""

    def arm() -> Work:
        def work() -> None:
            for line in lines:
                json.loads(line)

        return work

    return arm


ROWS: list[Row] = [
    Ratio("R1", "chunks, 64 KiB reads", 0.90, traffic.chunks, 100_000, receive, loads),
    Ratio("R2", "chunks, one line a read", 0.95, traffic.chunks, 100_000, receive_by_line, loads),
    Ratio("R3.other", "chunks in other scripts", 1.00, traffic.other_chunks, 100_000, receive, loads),
    Ratio("R3.permission", "permissions, left open", 1.05, traffic.permissions, 20_000, receive_unanswered, loads),
    Ratio("R3.answered", "permissions, answered by a policy", 1.50, traffic.permissions, 20_000, receive, loads),
    Ratio("R3.results", "results of own requests", 0.75, traffic.results, 50_000, receive, loads),
    Ratio("R3.mixed", "mixed traffic", 1.12, traffic.mixed, 30_000, receive, loads),
    Ratio("R3.tools", "tool calls of 2 to 20 KB", 1.30, traffic.tools, 3_000, receive, loads),
    Ratio("R4.chunks", "chunks, every field read", 1.20, traffic.chunks, 100_000, receive_typed, loads),
    Ratio(
        "R4.permission",
        "permissions, every field read, left open",
        1.50,
        traffic.permissions,
        20_000,
        receive_typed,
        loads,
    ),
    Ratio(
        "R4.answered",
        "permissions, every field read, answered",
        2.10,
        traffic.permissions,
        20_000,
        receive_answered,
        loads,
    ),
    Ratio("R4.tools", "tool calls, every field read", 1.60, traffic.tools, 3_000, receive_typed, loads),
]
