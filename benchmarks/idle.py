"""Z1 to Z3: what a connection costs that does nothing."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import ByteStream

import acp_anyio
from acp_core import ClientConnection

from . import traffic
from .fresh import in_fresh_process
from .round_trip import DENY
from .rows import Figure, Row

CONNECTIONS = 2000
KIB = 1024
HELLO = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n'


def bytes_each(make: Callable[[], object], count: int) -> float:
    """Memory of one of many objects, in bytes; two are made before, so that nothing is counted that is made once."""
    kept: list[object] = [make(), make()]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept += [make() for _ in range(count)]
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / count


def open_connection() -> ClientConnection:
    """After the handshake, without a session."""
    client = ClientConnection(nonce="idle", permissions=DENY)
    client.initialize()
    client.data_to_send(0.0)
    client.receive_data(HELLO, 0.0)
    list(client.events())
    return client


def open_session(client: ClientConnection, number: int) -> object:
    """One more session, idle."""
    session = client.open_session("/work")
    client.data_to_send(0.0)
    answer = {"jsonrpc": "2.0", "id": 2 + number, "result": {"sessionId": f"{traffic.SESSION}-{number}"}}
    client.receive_data(traffic.compact(answer) + b"\n", 0.0)
    list(client.events())
    return session


def connection_bytes(size: float) -> float:
    """KiB of an idle connection."""
    return bytes_each(open_connection, scaled(size)) / KIB


def session_bytes(size: float) -> float:
    """KiB of a session more."""
    client = open_connection()
    numbers = iter(range(1 << 30))
    return bytes_each(lambda: open_session(client, next(numbers)), scaled(size)) / KIB


def scaled(size: float) -> int:
    """How many are made."""
    return max(20, round(CONNECTIONS * size))


class Silent(ByteStream):
    """A transport of which only the answer to initialize comes, and which takes everything."""

    def __init__(self) -> None:
        self.asked: anyio.Event | None = anyio.Event()
        self.closed = anyio.Event()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """The answer, then nothing."""
        if self.asked is not None:
            await self.asked.wait()
            self.asked = None
            return HELLO
        await self.closed.wait()
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        """What is sent is initialize."""
        if self.asked is not None:
            self.asked.set()

    async def send_eof(self) -> None:
        """Nothing."""

    async def aclose(self) -> None:
        """What waits is woken."""
        self.closed.set()


async def bytes_of_tasks(
    hold: Callable[[anyio.Event, anyio.Event], Coroutine[object, object, None]], count: int
) -> float:
    """Memory of one of many tasks, in bytes, when each has said that it is ready, and waits to be let go."""

    async def start(number: int) -> None:
        for _ in range(number):
            ready = anyio.Event()
            tasks.start_soon(hold, ready, over)
            await ready.wait()

    over = anyio.Event()
    async with anyio.create_task_group() as tasks:
        await start(2)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        await start(count)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        over.set()
    return used / count


async def hold_nothing(ready: anyio.Event, over: anyio.Event) -> None:
    """A task that waits."""
    silent = Silent()
    ready.set()
    await over.wait()
    await silent.aclose()


async def hold_agent(ready: anyio.Event, over: anyio.Event) -> None:
    """A task with a connected agent."""
    async with acp_anyio.connect(Silent(), permissions=DENY) as agent:
        await agent.initialize()
        ready.set()
        await over.wait()


async def with_binding(count: int) -> float:
    """Memory of an idle connection with its binding, in bytes."""
    return await bytes_of_tasks(hold_agent, count) - await bytes_of_tasks(hold_nothing, count)


def binding_bytes(size: float) -> float:
    """KiB that the binding takes besides the core."""
    return anyio.run(with_binding, scaled(size)) / KIB - connection_bytes(size)


class Writer(asyncio.Transport):
    """A transport that takes everything, for the official SDK."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nothing."""

    def is_closing(self) -> bool:
        """It needs no closing."""
        return True


def official_connection() -> object:
    """An idle connection of the official SDK; a loop must be running."""
    import acp

    class Client:
        """Has nothing to do."""

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    writer = asyncio.StreamWriter(Writer(), asyncio.StreamReaderProtocol(reader), reader, loop)
    client: Any = Client()
    return acp.connect_to_agent(client, writer, reader), writer, reader


async def official_bytes(count: int) -> float:
    """Memory of one, in bytes."""
    found = bytes_each(official_connection, count)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0)
    return found


def against_official(size: float) -> float:
    """The memory of an idle connection of the official SDK, in that of one of ours with its binding."""
    count = scaled(size)
    return asyncio.run(official_bytes(count)) / anyio.run(with_binding, count)


def collect_ours(count: float) -> float:
    """Seconds of CPU of a full collection with so many connections."""
    kept = [open_connection() for _ in range(int(count))]
    return collection() if kept else 0.0


def collect_official(count: float) -> float:
    """The same of the official SDK."""

    async def run() -> float:
        kept = [official_connection() for _ in range(int(count))]
        await asyncio.sleep(0)
        seconds = collection() if kept else 0.0
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return seconds

    return asyncio.run(run())


def collection() -> float:
    """Seconds of CPU of a full collection, the shortest of three."""
    spent = []
    for _ in range(3):
        began = time.process_time()
        gc.collect()
        spent.append(time.process_time() - began)
    return min(spent)


def collecting(size: float) -> float:
    """What a collection costs with 10,000 connections, in that with as many of the official SDK."""
    count = max(20, round(10_000 * size))
    empty = in_fresh_process("idle", "collect_ours", 0)
    ours, theirs = (in_fresh_process("idle", name, count) for name in ("collect_ours", "collect_official"))
    return max(0.0, ours - empty) / theirs


ROWS: list[Row] = [
    Figure("Z1.connection", "KiB of an idle connection, the core alone", 4.0, connection_bytes),
    Figure("Z1.session", "KiB of a session more", 1.0, session_bytes),
    Figure("Z1.binding", "KiB of the anyio binding more", 8.0, binding_bytes, needs=("anyio",)),
    # The bars of Z1 leave room for no more than this.
    Figure(
        "Z2",
        "memory of an idle connection of the official SDK / of ours with its binding",
        1.0,
        against_official,
        at_least=True,
        needs=("anyio", "acp"),
    ),
    Figure("Z3", "gc.collect() with 10,000 connections / of the official SDK", 1 / 20, collecting, needs=("acp",)),
]
