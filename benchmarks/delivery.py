"""A1 and L3: updates from the pipe of a child process to the user's loop."""

from __future__ import annotations

import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import acp_anyio
import acp_sync
from acp_core import AgentMessageChunk

from . import traffic
from .receiving import loads
from .round_trip import DENY, ECHO, in_threads, on
from .rows import Arm, Figure, Lines, Ratio, Row

UPDATES = 20_000


@contextmanager
def streaming(lines: Lines) -> Iterator[list[str]]:
    """The command of an agent that says these lines before it answers a prompt."""
    with tempfile.NamedTemporaryFile(prefix="stream") as file:
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
        yield [*ECHO, file.name]


def async_for(backend: str) -> Callable[[Lines], Arm]:
    """From the pipe to ``async for``."""

    def make(lines: Lines) -> Arm:
        async def run(count: int) -> float:
            with streaming(lines) as command:
                async with acp_anyio.open_agent(command, permissions=DENY) as agent:
                    session = await agent.open_session("/work")
                    gc.collect()
                    began = time.process_time()
                    events = 0
                    async for _ in session.prompt("go"):
                        events += 1
                    spent = time.process_time() - began
            assert events > count
            return spent

        return on(backend, run)(lines)

    return make


def sync_for(lines: Lines) -> Arm:
    """From the pipe to ``for``."""

    def run(count: int) -> float:
        with streaming(lines) as command, acp_sync.open_agent(command, permissions=DENY) as agent:
            session = agent.open_session("/work")
            gc.collect()
            began = time.process_time()
            events = 0
            for _ in session.prompt("go"):
                events += 1
            spent = time.process_time() - began
        assert events > count
        return spent

    return in_threads(run)(lines)


class Stalled:
    """What a consumer who stops in the middle of a turn finds."""

    def __init__(self, memory: int, tasks: int, disorder: int) -> None:
        self.memory = memory
        self.tasks = tasks
        self.disorder = disorder


def stall(size: float) -> Stalled:
    """A turn of 20,000 updates, whose consumer takes one and then none for a while, on asyncio."""
    import asyncio

    count = max(50, round(UPDATES * size))
    texts = [f"{number:040d}" for number in range(count)]
    lines = [
        traffic.notification({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
        for text in texts
    ]

    async def run() -> Stalled:
        with streaming(lines) as command:
            async with acp_anyio.open_agent(command, permissions=DENY) as agent:
                session = await agent.open_session("/work")
                tasks = len(asyncio.all_tasks())
                gc.collect()
                tracemalloc.start()
                before = tracemalloc.get_traced_memory()[0]
                held, found, most = 0, [], 0
                async for event in session.prompt("go"):
                    if not isinstance(event, AgentMessageChunk):
                        continue
                    found.append(event.text)
                    if len(found) == 1:
                        # Until the reader has stopped: it takes no more, however often the loop turns.
                        while (now := tracemalloc.get_traced_memory()[0]) - before > held:
                            held = now - before
                            await asyncio.sleep(0.2)
                        most = len(asyncio.all_tasks()) - tasks
                tracemalloc.stop()
                disorder = sum(one != other for one, other in zip(found, texts, strict=False))
                return Stalled(held, max(0, most), disorder + abs(len(found) - count))

    return asyncio.run(run())


def memory(size: float) -> float:
    """MiB that are kept for a consumer who stalls."""
    return stall(size).memory / (1 << 20)


def tasks(size: float) -> float:
    """How many tasks 20,000 updates make."""
    return stall(size).tasks


def disorder(size: float) -> float:
    """How many updates come out of order or not at all, behind a stall."""
    return stall(size).disorder


TITLE = "100,000 chunks from a pipe to the user's loop / json.loads"
ROWS: list[Row] = [
    Ratio(
        "A1.asyncio", f"asyncio: {TITLE}", 1.6, traffic.chunks, 100_000, async_for("asyncio"), loads, needs=("anyio",)
    ),
    Ratio("A1.trio", f"trio: {TITLE}", 1.6, traffic.chunks, 100_000, async_for("trio"), loads, needs=("anyio", "trio")),
    Ratio("A1.threads", f"threads: {TITLE}", 1.6, traffic.chunks, 100_000, sync_for, loads),
    # One MiB of updates, and what a pipe holds.
    Figure("L3.memory", "MiB kept of 20,000 updates whose consumer stalls", 1.07, memory, needs=("anyio",)),
    Figure("L3.tasks", "tasks made for them", 0, tasks, needs=("anyio",)),
    Figure("L3.disorder", "of them out of order or lost", 0, disorder, needs=("anyio",)),
]
