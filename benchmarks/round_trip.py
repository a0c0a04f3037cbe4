"""L1 and L2: one request and its answer over the pipes of a child process, in CPU of this process.

The floor of L1 has the same structure as the binding: a reader of its own, ``json.loads`` of each line, and one who
waits is woken. The floor of L2 is ``prompt()`` of the official SDK.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import acp_anyio
import acp_sync
from acp_core import Policy

from .ends import ASK
from .rows import Arm, Lines, Ratio, Row, Work

ROOT = Path(__file__).resolve().parent.parent
ECHO = [sys.executable, str(Path(__file__).with_name("echo.py"))]
DENY = Policy({"default": "deny"})
# Before the clock starts: what is made once is made.
WARM_UP = 20


def trips(count: int) -> Lines:
    """So many."""
    return [b""] * count


def timed(trip: Callable[[], object], count: int) -> float:
    """CPU seconds of so many round trips."""
    for _ in range(WARM_UP):
        trip()
    gc.collect()
    began = time.process_time()
    for _ in range(count):
        trip()
    return time.process_time() - began


async def timed_async(trip: Callable[[], Awaitable[object]], count: int) -> float:
    """CPU seconds of so many round trips."""
    for _ in range(WARM_UP):
        await trip()
    gc.collect()
    began = time.process_time()
    for _ in range(count):
        await trip()
    return time.process_time() - began


def on(backend: str, run: Callable[[int], Awaitable[float]]) -> Callable[[Lines], Arm]:
    """The arms of an async round trip."""

    def make(lines: Lines) -> Arm:
        import anyio

        def arm() -> Work:
            return lambda: anyio.run(run, len(lines), backend=backend)

        return arm

    return make


def in_threads(run: Callable[[int], float]) -> Callable[[Lines], Arm]:
    """The arms of a blocking round trip."""

    def make(lines: Lines) -> Arm:
        def arm() -> Work:
            return lambda: run(len(lines))

        return arm

    return make


async def request(count: int) -> float:
    """A request through ``acp_anyio``."""
    async with acp_anyio.open_agent(ECHO, permissions=DENY) as agent:
        await agent.open_session("/work")
        return await timed_async(lambda: agent.request(ASK), count)


async def prompt(count: int) -> float:
    """A prompt through ``acp_anyio``."""
    async with acp_anyio.open_agent(ECHO, permissions=DENY) as agent:
        session = await agent.open_session("/work")
        return await timed_async(lambda: session.prompt("go").result(), count)


def request_sync(count: int) -> float:
    """A request through ``acp_sync``."""
    with acp_sync.open_agent(ECHO, permissions=DENY) as agent:
        agent.open_session("/work")
        return timed(lambda: agent.request(ASK), count)


def prompt_sync(count: int) -> float:
    """A prompt through ``acp_sync``."""
    with acp_sync.open_agent(ECHO, permissions=DENY) as agent:
        session = agent.open_session("/work")
        return timed(lambda: session.prompt("go").result(), count)


async def raw(count: int) -> float:
    """The floor on asyncio and trio: a reader task and an event."""
    import anyio

    waiting: dict[int, anyio.Event] = {}
    number = 0

    async with await anyio.open_process(ECHO, stderr=None) as process, anyio.create_task_group() as tasks:
        assert process.stdin is not None and process.stdout is not None
        reader, writer = process.stdout, process.stdin

        async def read() -> None:
            pending = b""
            while True:
                *lines, pending = (pending + await reader.receive(65536)).split(b"\n")
                for line in lines:
                    waiting.pop(json.loads(line)["id"]).set()

        async def trip() -> None:
            nonlocal number
            number += 1
            event = waiting[number] = anyio.Event()
            await writer.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": ASK}).encode() + b"\n")
            await event.wait()

        tasks.start_soon(read)
        spent = await timed_async(trip, count)
        tasks.cancel_scope.cancel()
    return spent


def raw_sync(count: int) -> float:
    """The floor with threads: a reader thread and a future."""
    waiting: dict[int, Future[object]] = {}
    number = 0
    with subprocess.Popen(ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None
        reader, writer = process.stdout, process.stdin

        def read() -> None:
            pending = b""
            while data := reader.read(65536):
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    answer = json.loads(line)
                    waiting.pop(answer["id"]).set_result(answer["result"])

        def trip() -> None:
            nonlocal number
            number += 1
            future = waiting[number] = Future()
            writer.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": ASK}).encode() + b"\n")
            future.result()

        thread = threading.Thread(target=read)
        thread.start()
        spent = timed(trip, count)
        writer.close()
        thread.join()
    return spent


async def official(count: int) -> float:
    """``prompt()`` of the official SDK."""
    import acp

    class Client:
        """Has nothing to do."""

    client: Any = Client()
    async with acp.spawn_agent_process(client, ECHO[0], *ECHO[1:]) as (connection, _):
        await connection.initialize(protocol_version=1)
        session = await connection.new_session(cwd="/work", mcp_servers=[])
        text = acp.text_block("go")
        return await timed_async(lambda: connection.prompt(prompt=[text], session_id=session.session_id), count)


TRIPS = 1000
ANYIO, TRIO, SDK = ("anyio",), ("anyio", "trio"), ("anyio", "acp")


def row(
    name: str, title: str, bar: float, work: Callable[[Lines], Arm], floor: Callable[[Lines], Arm], *needs: str
) -> Row:
    """A row of round trips."""
    return Ratio(name, title, bar, trips, TRIPS, work, floor, unit="trip", needs=needs)


RAW = "a request and its answer over pipes / the same without the library"
PROMPT = "a prompt and its answer over pipes / of the official SDK"
ROWS: list[Row] = [
    row("L1.asyncio", f"asyncio: {RAW}", 1.40, on("asyncio", request), on("asyncio", raw), "anyio"),
    row("L1.trio", f"trio: {RAW}", 1.40, on("trio", request), on("trio", raw), "anyio", "trio"),
    row("L1.threads", f"threads: {RAW}", 1.40, in_threads(request_sync), in_threads(raw_sync)),
    row("L2.asyncio", f"asyncio: {PROMPT}", 0.80, on("asyncio", prompt), on("asyncio", official), "anyio", "acp"),
    row("L2.trio", f"trio: {PROMPT}", 0.90, on("trio", prompt), on("asyncio", official), "anyio", "trio", "acp"),
    row("L2.threads", f"threads: {PROMPT}", 0.80, in_threads(prompt_sync), on("asyncio", official), "anyio", "acp"),
]
