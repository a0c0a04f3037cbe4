"""Closing real agents that do not want to end, in every binding, many times over: nothing of them is left.

Each run starts an agent, has a turn in flight, and closes. The runs of a binding go through the variants in turn; how many
there are says ACP_CLOSING_RUNS. The long form is

    ACP_CLOSING_RUNS=200 python -m pytest tests/process/test_closing_processes.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import acp_anyio
import acp_sync
from acp_core import Grace, Policy

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
RUNS = int(os.environ.get("ACP_CLOSING_RUNS", str(len(VARIANTS))))
# Short enough for many runs, long enough for a busy machine to start a signal handler.
GRACE = Grace(cancel=0.3, write=0.3, exit=0.3, terminate=0.3, kill=10.0, drain=0.3)
BINDINGS = ("threads", "asyncio", "trio")


def command(variant: str) -> list[str]:
    return [sys.executable, "-S", str(AGENT), variant]


def group(pgid: int) -> list[int]:
    """The processes of a group that run; a zombie that nobody has reaped yet counts, if it is a child of ours."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            state, parent, its_group = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == pgid and (state != "Z" or int(parent) == os.getpid()):
            found.append(int(entry))
    return found


def close_threads(variant: str, grace: Grace = GRACE) -> int:
    with acp_sync.open_agent(command(variant), permissions=DENY, close_grace=grace) as agent:
        session = agent.open_session("/tmp")
        next(iter(session.prompt("go")))
        pid = agent.pid
        agent.close()
        assert pid is not None
        assert group(pid) == []
    return pid


async def close_tasks(variant: str, grace: Grace = GRACE) -> int:
    async with acp_anyio.open_agent(command(variant), permissions=DENY, close_grace=grace) as agent:
        session = await agent.open_session("/tmp")
        await anext(aiter(session.prompt("go")))
        pid = agent.pid
        await agent.close()
        assert pid is not None
        assert group(pid) == []
    return pid
