"""R5 to R7: other libraries, on the same lines from the same pipe of a child process, each in its plainest use.

Python peers and the core run on asyncio in one process, in shuffled rounds, and the process is a fresh one every time:
their figures differ between processes more than within one. The TypeScript SDK has a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

from acp_core import ClientConnection, Event, Policy, TurnEnded

from . import traffic
from .delivery import streaming
from .fresh import in_fresh_process
from .receiving import ANSWERING, READ
from .rows import Figure, Lines, Row

ROUNDS = 3
CHUNKS, TOOLS, PERMISSIONS = range(3)
DATA = (traffic.chunks, traffic.tools, traffic.permissions)
COUNTS = (20_000, 1_500, 5_000)
# A command and how many messages come: CPU seconds from the prompt until the handlers have had everything.
Client: TypeAlias = Callable[[list[str], int], Coroutine[object, object, float]]


async def ours(command: list[str], expected: int, *, typed: bool) -> float:
    """The core on the streams of asyncio: a policy answers, or every field is read and the owner answers."""
    policy = None if typed else Policy({"default": "allow"})
    client = ClientConnection(nonce="peers", permissions=policy)
    client.prompt(client.open_session("/work"), "go")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None and process.stdout is not None
    handled = 0

    def count(event: Event) -> None:
        nonlocal handled
        handled += 1

    ended = False
    gc.collect()
    began = time.process_time()
    now = asyncio.get_running_loop().time
    while not ended:
        if out := client.data_to_send(now()):
            process.stdin.write(out)
        client.receive_data(await process.stdout.read(READ), now())
        for event in client.events():
            if not typed:
                count(event)
            elif reader := ANSWERING.get(event.__class__):
                reader(client, event)
                handled += 1
            if event.__class__ is TurnEnded:
                ended = True
    spent = time.process_time() - began
    assert handled >= expected
    process.stdin.close()
    await process.wait()
    return spent


async def ours_raw(command: list[str], expected: int) -> float:
    """A handler is called with each event."""
    return await ours(command, expected, typed=False)


async def ours_typed(command: list[str], expected: int) -> float:
    """Every field of each event is read."""
    return await ours(command, expected, typed=True)


async def official(command: list[str], expected: int) -> float:
    """The official Python SDK."""
    import acp
    from acp.schema import AllowedOutcome, RequestPermissionResponse

    class Handler:
        """Counts, and allows."""

        def __init__(self) -> None:
            self.handled = 0

        async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
            """One update."""
            self.handled += 1

        async def request_permission(
            self, session_id: str, tool_call: Any, options: list[Any], **rest: Any
        ) -> RequestPermissionResponse:
            """One request."""
            self.handled += 1
            outcome = AllowedOutcome(outcome="selected", option_id=options[0].option_id)
            return RequestPermissionResponse(outcome=outcome)

    handler = Handler()
    client: Any = handler
    async with acp.spawn_agent_process(client, command[0], *command[1:]) as (connection, _):
        await connection.initialize(protocol_version=1)
        session = await connection.new_session(cwd="/work", mcp_servers=[])
        gc.collect()
        began = time.process_time()
        await connection.prompt(prompt=[acp.text_block("go")], session_id=session.session_id)
        while handler.handled < expected:
            await asyncio.sleep(0)
        return time.process_time() - began


async def acp_client(command: list[str], expected: int) -> float:
    """acp-client."""
    from importlib import import_module

    handled = 0

    def count(update: object) -> None:
        nonlocal handled
        handled += 1

    # No type checker knows it.
    agent: Any = import_module("acp_client").Agent(command, Path("/"))
    await agent.start()
    gc.collect()
    began = time.process_time()
    await agent.ask("go", on_update=count)
    spent = time.process_time() - began
    assert handled >= expected
    await agent.stop()
    await agent.reading
    return spent


def against(peer: Client, own: Client, lines: Lines, rounds: int) -> float:
    """The CPU of a peer, in ours: the median of a few rounds in this process."""
    rng = random.Random(5)
    ratios = []
    with streaming(lines) as command:
        for _ in range(rounds):
            spent: dict[Client, float] = {}
            for client in rng.sample([peer, own], 2):
                spent[client] = asyncio.run(client(command, len(lines)))
            ratios.append(spent[peer] / spent[own])
    return statistics.median(ratios)


PEERS: tuple[Client, ...] = (official, acp_client)
OWN: tuple[Client, ...] = (ours_raw, ours_typed)


def rounds_of(size: float) -> int:
    """How often each works the lines off in a process."""
    return max(1, round(ROUNDS * min(size, 1.0)))


def ratio(peer: float, own: float, kind: float, size: float) -> float:
    """What a fresh process is asked for."""
    lines = DATA[int(kind)](max(20, round(COUNTS[int(kind)] * size)))
    return against(PEERS[int(peer)], OWN[int(own)], lines, rounds_of(size))


def in_a_fresh_one(peer: Client, own: Client, kind: int) -> Callable[[float], float]:
    """A figure from a fresh process."""
    return lambda size: in_fresh_process("peers", "ratio", PEERS.index(peer), OWN.index(own), kind, size)


def own_seconds(kind: float, size: float) -> float:
    """The core's CPU, every field read."""
    lines = lines_of(int(kind), size)
    with streaming(lines) as command:
        return statistics.median(asyncio.run(ours_typed(command, len(lines))) for _ in range(rounds_of(size)))


def lines_of(kind: int, size: float) -> Lines:
    """What the TypeScript SDK gets: more, since its engine has to warm up."""
    return DATA[kind](max(20, round(2 * COUNTS[kind] * size)))


def typescript() -> bool:
    """Whether the TypeScript SDK can run here."""
    return shutil.which("node") is not None and shutil.which("npm") is not None


def against_typescript(kind: int) -> Callable[[float], float | None]:
    """The CPU of the TypeScript SDK, in ours; None without node and npm."""

    def take(size: float) -> float | None:
        if not typescript():
            return None
        from tests.interop.agents import install_pinned

        installed = install_pinned("typescript-sdk", "@agentclientprotocol/sdk")
        lines = lines_of(kind, size)
        with tempfile.TemporaryDirectory(prefix="peer") as folder, streaming(lines) as command:
            # The script finds the package beside itself.
            script = shutil.copy(Path(__file__).with_name("peer.mjs"), folder)
            Path(folder, "node_modules").symlink_to(installed / "node_modules")
            node = ["node", script, str(len(lines)), *command]
            out = subprocess.run(node, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout
        return float(out) / 1e6 / in_fresh_process("peers", "own_seconds", kind, size)

    return take


def row(
    name: str, title: str, bar: float, take: Callable[[float], float | None], *needs: str, program: str = ""
) -> Row:
    """A row that says how many times as much CPU a peer takes."""
    return Figure(name, title, bar, take, times=3, at_least=True, needs=needs, program=program)


SDK, TS, THIRD = "the official Python SDK / ours", "the TypeScript SDK / ours", "acp-client / ours"
ROWS: list[Row] = [
    row("R5.raw", f"chunks: {SDK}", 5.5, in_a_fresh_one(official, ours_raw, CHUNKS), "acp"),
    row("R5.typed", f"chunks, every field read: {SDK}", 4.5, in_a_fresh_one(official, ours_typed, CHUNKS), "acp"),
    row("R5.permission", f"permissions: {SDK}", 4.5, in_a_fresh_one(official, ours_typed, PERMISSIONS), "acp"),
    row("R6.chunks", f"chunks, every field read: {TS}", 4.0, against_typescript(CHUNKS), program="node and npm"),
    row("R6.permission", f"permissions: {TS}", 5.0, against_typescript(PERMISSIONS), program="node and npm"),
    row("R6.tools", f"tool calls: {TS}", 3.0, against_typescript(TOOLS), program="node and npm"),
    row("R7.raw", f"chunks: {THIRD}", 1.5, in_a_fresh_one(acp_client, ours_raw, CHUNKS), "acp_client"),
    row(
        "R7.typed",
        f"chunks, every field read: {THIRD}",
        1.1,
        in_a_fresh_one(acp_client, ours_typed, CHUNKS),
        "acp_client",
    ),
]
