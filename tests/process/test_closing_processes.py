"""Closing real agents that do not want to end, on every binding, many times over: nothing of them is left.

Each run starts an agent, has a turn in flight, and closes. The runs of a binding go through the variants in turn.

    python -m tests.process.test_closing_processes 200      so many runs a binding, and how long each close took
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
import trio

import acp_anyio
import acp_sync
from acp_core import ClosingPlan, Grace, Policy
from tests.process.conftest import own_threads, until
from tests.spec.requirements import requirement

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups of POSIX")

AGENT = Path(__file__).with_name("stubborn_agent.py")
DENY = Policy({"default": "deny"})
VARIANTS = (
    "obeys",
    "ignores SIGTERM",
    "ignores stdin end",
    "forks a grandchild",
    "floods stderr",
    "floods stdout",
    "sleeps in cancel",
)
BINDINGS = ("threads", "asyncio", "trio")
RUNS = 2 * len(VARIANTS)
# Short enough for many runs. What is killed gets longer: nothing goes on before that.
GRACE = Grace(cancel=0.3, write=0.3, exit=0.3, terminate=0.3, kill=10.0, drain=0.3)
# Longer than a test may take.
PATIENT = Grace(cancel=60.0, write=60.0, exit=60.0, terminate=60.0, kill=10.0, drain=0.3)
# What a busy machine takes for what no wait bounds: to start a thread, to look for processes.
SLACK = 5.0
Record = Callable[[str, float], None]


def command(variant: str) -> list[str]:
    return [sys.executable, "-S", str(AGENT), variant]


def processes() -> list[tuple[int, str, int, int]]:
    """Number, state, parent and group of every process."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                state, parent, group = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            found.append((int(entry), state, int(parent), int(group)))
    return found


def check_gone(pid: int | None) -> None:
    """Nothing of the group runs, and the agent was reaped. Looked at once: close does not end before."""
    assert pid is not None
    here = processes()
    assert [process for process in here if process[3] == pid and process[1] not in "ZX"] == []
    assert [process for process in here if process[2] == os.getpid()] == []


def check_outcome(plan: ClosingPlan, variant: str, seconds: float) -> None:
    assert plan.closed
    assert plan.states == {"cancel": plan.states["cancel"], "agent": "done"}
    assert plan.failures.keys() <= {"cancel"}
    assert seconds < plan.bound - GRACE.kill + SLACK
    if variant in ("floods stderr", "floods stdout", "sleeps in cancel"):
        # Nobody answered. The turn ended with the process, which is said without being raised.
        assert plan.failures.keys() == {"cancel"}


def close_with_threads(variant: str, record: Record) -> None:
    before = own_threads()
    with acp_sync.open_agent(command(variant), permissions=DENY, close_grace=GRACE) as agent:
        session = agent.open_session("/tmp")
        next(iter(session.prompt("go")))
        begin = time.monotonic()
        agent.close()
        seconds = time.monotonic() - begin
        check_gone(agent.pid)
        assert own_threads() <= before
        check_outcome(agent.closing, variant, seconds)
        record(variant, seconds)


async def close_with_tasks(variant: str, record: Record) -> None:
    async with acp_anyio.open_agent(command(variant), permissions=DENY, close_grace=GRACE) as agent:
        session = await agent.open_session("/tmp")
        await anext(aiter(session.prompt("go")))
        begin = time.monotonic()
        await agent.close()
        seconds = time.monotonic() - begin
        check_gone(agent.pid)
        check_outcome(agent.closing, variant, seconds)
        record(variant, seconds)


def resources() -> tuple[int, int]:
    """Open files and threads."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def with_threads(runs: int, record: Record) -> None:
    close_with_threads(VARIANTS[0], record)
    before = resources()
    for number in range(runs):
        close_with_threads(VARIANTS[number % len(VARIANTS)], record)
        now = resources()
        assert now[0] <= before[0]
        assert now[1] <= before[1]
        # What another test had left may have gone meanwhile: from here on it counts.
        before = now


async def with_tasks(runs: int, record: Record) -> None:
    # The first run starts what the loop keeps: its worker threads, its own descriptors.
    await close_with_tasks(VARIANTS[0], record)
    files, threads, tasks = (*resources(), living_tasks())
    for number in range(runs):
        await close_with_tasks(VARIANTS[number % len(VARIANTS)], record)
        with anyio.fail_after(SLACK):
            # Loops let go of descriptors and of tasks that have ended when they come round.
            while resources()[0] > files or living_tasks() > tasks:
                await anyio.sleep(0.001)
        assert resources()[1] <= threads + 1


def living_tasks() -> int:
    try:
        return trio.lowlevel.current_statistics().tasks_living
    except RuntimeError:
        return len(asyncio.all_tasks())


def run(binding: str, runs: int, record: Record) -> None:
    if binding == "threads":
        with_threads(runs, record)
    else:
        anyio.run(with_tasks, runs, record, backend=binding)


@pytest.mark.parametrize("binding", BINDINGS)
def test_nothing_is_left_of_an_agent_that_does_not_want_to_end(binding: str) -> None:
    run(binding, RUNS, lambda variant, seconds: None)


@requirement(7)
@pytest.mark.parametrize("binding", BINDINGS)
def test_an_agent_that_heeds_the_end_of_its_input_gets_no_signal(binding: str) -> None:
    causes: list[str | None] = []

    async def loop() -> None:
        async with acp_anyio.open_agent(command("obeys"), permissions=DENY, close_grace=PATIENT) as agent:
            await agent.open_session("/tmp")
        causes.append(agent.exit_cause)

    if binding == "threads":
        with acp_sync.open_agent(command("obeys"), permissions=DENY, close_grace=PATIENT) as agent:
            agent.open_session("/tmp")
        causes.append(agent.exit_cause)
    else:
        anyio.run(loop, backend=binding)
    assert causes == ["the agent exited with code 0; it wrote nothing to stderr"]


def interrupt_threads(variant: str, step: str, released: list[str]) -> None:
    with acp_sync.open_agent(command(variant), permissions=DENY, close_grace=PATIENT) as agent:

        def release() -> None:
            threading.Event().wait(0.1)
            released.append("lock")

        agent.on_close(release, needs="success")
        session = agent.open_session("/tmp")
        next(iter(session.prompt("go")))

        def interrupt() -> None:
            until(lambda: agent.closing.states[step] == "running")
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            agent.close()
        thread.join()
        check_gone(agent.pid)
        assert agent.closing.closed


async def interrupt_tasks(variant: str, step: str, released: list[str]) -> None:
    async with acp_anyio.open_agent(command(variant), permissions=DENY, close_grace=PATIENT) as agent:

        async def release() -> None:
            await anyio.sleep(0.1)
            released.append("lock")

        agent.on_close(release, needs="success")
        session = await agent.open_session("/tmp")
        await anext(aiter(session.prompt("go")))
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:

                async def interrupt() -> None:
                    while agent.closing.states[step] != "running":
                        await anyio.sleep(0.001)
                    scope.cancel()

                tasks.start_soon(interrupt)
                await agent.close()
        assert scope.cancelled_caught
        check_gone(agent.pid)
        assert agent.closing.closed


@pytest.mark.parametrize(("variant", "step"), [("sleeps in cancel", "cancel"), ("ignores stdin end", "agent")])
@pytest.mark.parametrize("binding", BINDINGS)
def test_an_interrupted_close_leaves_no_process_and_releases_what_hangs_on_it(
    binding: str, variant: str, step: str
) -> None:
    released: list[str] = []
    begin = time.monotonic()
    if binding == "threads":
        interrupt_threads(variant, step, released)
    else:
        anyio.run(interrupt_tasks, variant, step, released, backend=binding)
    assert time.monotonic() - begin < 2 * SLACK
    assert released == ["lock"]


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_process_outside_the_group_that_holds_the_pipes_holds_up_nobody(binding: str) -> None:
    grandchild: list[int] = []

    def heard(data: bytes) -> None:
        grandchild.extend(int(word) for word in data.split() if word.isdigit())

    async def loop() -> float:
        async with acp_anyio.open_agent(
            command("forks one outside"), permissions=DENY, close_grace=GRACE, on_stderr=heard
        ) as agent:
            await agent.open_session("/tmp")
            begin = time.monotonic()
            await agent.close()
            check_gone(agent.pid)
            return time.monotonic() - begin

    def threads() -> float:
        with acp_sync.open_agent(
            command("forks one outside"), permissions=DENY, close_grace=GRACE, on_stderr=heard
        ) as agent:
            agent.open_session("/tmp")
            begin = time.monotonic()
            agent.close()
            check_gone(agent.pid)
            return time.monotonic() - begin

    try:
        assert (threads() if binding == "threads" else anyio.run(loop, backend=binding)) < SLACK
    finally:
        for pid in grandchild:
            os.kill(pid, signal.SIGKILL)
    assert len(grandchild) == 1


def _note(times: list[tuple[str, float]], variant: str, seconds: float) -> None:
    times.append((variant, seconds))


def main(runs: int) -> None:
    for binding in BINDINGS:
        times: list[tuple[str, float]] = []
        begin = time.monotonic()
        run(binding, runs, partial(_note, times))
        until(lambda: own_threads() == set())
        for variant in VARIANTS:
            found = [seconds for name, seconds in times if name == variant] or [0.0]
            print(f"{binding:8} {variant:20} {len(found):4} runs, {min(found):.2f} to {max(found):.2f} s")
        print(f"{binding:8} {runs} runs and one before them, {time.monotonic() - begin:.0f} s, nothing left")


if __name__ == "__main__":
    main(int(sys.argv[1]))
