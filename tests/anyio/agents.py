"""Agents that the tests of this colour start as real processes: ``python -m tests.anyio.agents KIND``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import anyio

import acp_anyio


class Echo:
    """Says what it was told; some words make it do something else."""

    async def prompt(self, turn: acp_anyio.AgentTurn) -> None:
        """Serve a turn."""
        if turn.text == "print":
            print("a stray print")
            os.write(1, b"a stray write\n")
            subprocess.run([sys.executable, "-c", "print('a stray child')"], check=True)
            await turn.send(f"stdin has {sys.stdin.read()!r}")
        elif turn.text == "die":
            sys.stderr.write("the model file is corrupt\n")
            sys.stderr.flush()
            os._exit(3)
        elif turn.text == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif turn.text == "hang":
            await turn.send("hanging")
            await anyio.sleep_forever()
        elif turn.text == "child":
            # It keeps our stdout open, as a child of a careless launcher does.
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=3, pass_fds=(3,))
            await turn.send(str(child.pid))
        elif turn.text == "env":
            await turn.send(",".join(sorted(os.environ)))
        else:
            await turn.send(f"you said: {turn.text[:1000]} ({len(turn.text)})")


def main(kind: str) -> None:
    """Be an agent."""
    if kind == "stubborn":
        # Neither the end of stdin nor TERM ends it.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stderr.write(f"pid {os.getpid()}\n")
        sys.stderr.flush()
        while True:
            time.sleep(600)
    if kind == "deaf":
        # It never reads, and writes a lot to stderr.
        sys.stderr.write("e" * (1 << 20))
        sys.stderr.flush()
        time.sleep(600)
    if kind == "family":
        # The one that was started is a wrapper; the agent is its child.
        sys.exit(subprocess.run([sys.executable, "-m", "tests.anyio.agents", "stubborn"], check=False).returncode)
    if kind == "held":
        os.dup2(1, 3)
    anyio.run(acp_anyio.serve, Echo(), backend="trio" if kind == "trio" else "asyncio")


if __name__ == "__main__":
    main(sys.argv[1])
