"""The agent's process: started in a group of its own, its stderr always drained, ended by a bounded ladder."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import traceback
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.streams.stapled import StapledByteStream

from acp_core import AgentExited, AgentNotStarted, ConnectionClosed, Grace
from acp_core.front.setup import check_command, not_started

from .client import Agent, client_setup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from typing import Unpack

    from anyio.abc import Process

    from acp_core import Policy

    from .connection import Link
    from .options import Ask, ConnectOptions

STDERR_TAIL = 64 * 1024
# Seconds between two looks at whether what was killed has gone.
LOOK = 0.005


class AgentProcess:
    """A running agent. Its stdin and stdout are ``stream``.

    ``stop`` ends it: stdin is closed, then TERM and KILL go to its group, each after a wait. What is left of the group
    when the agent itself has gone is killed too.
    """

    def __init__(self, process: Process, on_stderr: Callable[[bytes], None] | None, grace: Grace) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self.grace = grace
        self.stream = StapledByteStream(process.stdin, process.stdout)
        self._stdin = process.stdin
        self._process = process
        self._on_stderr = on_stderr
        self._tail = bytearray()
        self._stderr_done = anyio.Event()
        self._ended = anyio.Event()
        self._survivors = False

    @classmethod
    async def start(
        cls,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        on_stderr: Callable[[bytes], None] | None,
        grace: Grace,
    ) -> AgentProcess:
        """Start a command. A str is split as a POSIX shell would.

        Raises:
            AgentNotStarted: there is no such program, it may not be run, or the command is empty.
        """
        try:
            arguments = shlex.split(command) if isinstance(command, str) else [os.fspath(part) for part in command]
        except ValueError as why:
            raise AgentNotStarted(f"the agent could not be started: {why} in the command {command!r}") from why
        if not arguments:
            raise AgentNotStarted("the agent could not be started: the command is empty")
        try:
            # A cancellation between the start and its report would leave a process that nobody knows.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    arguments,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=cwd,
                    env=env,
                    start_new_session=True,
                )
        except (OSError, ValueError) as why:
            raise not_started(arguments[0], cwd, why) from why
        return cls(process, on_stderr, grace)

    @property
    def stderr_tail(self) -> bytes:
        """The end of what it wrote to stderr, at most 64 KiB."""
        return bytes(self._tail)

    @property
    def exit_cause(self) -> str | None:
        """How it ended and what it said last, as a sentence; None while it runs."""
        exited = self.exit_error(ConnectionClosed(""))
        return exited.cause if exited is not None else None

    def exit_error(self, error: ConnectionClosed) -> AgentExited | None:
        """The error that tells how the process ended, in place of ``error``; None while it runs."""
        code = self._process.returncode
        if code is None:
            return None
        name = None
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
        return AgentExited(
            error.reason, returncode=code, signal=name, stderr_tail=self.stderr_tail, dispatch=error.dispatch
        )

    async def wait_ended(self, seconds: float) -> None:
        """Wait for the process's end, and for the end of its stderr, for at most so long."""
        with anyio.move_on_after(seconds):
            await self._ended.wait()

    async def drain_stderr(self) -> None:
        """Read stderr to its end, so that the agent never blocks on it."""
        stream = self._process.stderr
        assert stream is not None
        try:
            async for data in stream:
                self._tail += data
                del self._tail[:-STDERR_TAIL]
                if self._on_stderr is not None:
                    try:
                        self._on_stderr(data)
                    except Exception as why:
                        traceback.print_exception(why)
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._stderr_done.set()

    async def watch_for(self, link: Link) -> None:
        """Wait until the process has ended and said its last words; then input has ended, too, although the process may
        have left its output open in another one."""
        await self._process.wait()
        self._look_for_survivors()
        with anyio.move_on_after(self.grace.drain):
            await self._stderr_done.wait()
        self._ended.set()
        reads = -1
        while not link.over.is_set() and (link.paused or reads != link.reads):
            reads = link.reads
            with anyio.move_on_after(0.5):
                await link.over.wait()
        link.pumped(link.connection.receive_eof, anyio.current_time())

    async def stop(self) -> None:
        """End the process: each wait is one of ``grace``. Harmless when it has ended before.

        Raises:
            TimeoutError: it was killed and is still there.
        """
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            with anyio.move_on_after(self.grace.write):
                await self._stdin.aclose()
        for seconds, then in self.grace.ladder:
            if await self._gone(seconds):
                break
            self._signal(then)
        else:
            raise TimeoutError(f"process {self.pid} was killed and has not ended within {seconds:g} s")
        if self._survivors:
            # The group's id cannot have been given to another one: it had members when the agent was reaped.
            self._survivors = False
            self._signal("SIGKILL")
            with anyio.move_on_after(self.grace.drain):
                while group_lives(self.pid):
                    await anyio.sleep(LOOK)
        with anyio.move_on_after(self.grace.drain):
            await self._process.aclose()

    def kill(self) -> None:
        """Kill its group now, without waiting."""
        if self._process.returncode is None:
            self._signal("SIGKILL")

    async def _gone(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._process.wait()
            self._look_for_survivors()
            return True
        return False

    def _look_for_survivors(self) -> None:
        if sys.platform != "win32" and not self._ended.is_set():
            try:
                os.killpg(self.pid, 0)
                self._survivors = True
            except OSError:
                pass

    def _signal(self, name: str) -> None:
        try:
            if sys.platform == "win32":
                self._process.kill() if name == "SIGKILL" else self._process.terminate()
            elif name:
                os.killpg(self.pid, signal.Signals[name])
        except OSError:
            # It has ended in the meantime.
            pass


def group_lives(pgid: int) -> bool:
    """Some process of a group runs. What has died may stay until a parent looks, and is nothing to wait for."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(pgid, 0)
    except OSError:
        return False
    if not os.path.isdir("/proc/self"):
        return True
    for name in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            if int(name) and (stat := Path("/proc", name, "stat").read_text().rpartition(")")[2].split()):
                if int(stat[2]) == pgid and stat[0] not in "ZX":
                    return True
    return False


@asynccontextmanager
async def open_agent(
    command: str | Sequence[str],
    *,
    permissions: Policy | Ask,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
    **options: Unpack[ConnectOptions],
) -> AsyncIterator[Agent]:
    """Start an agent and talk to it over its stdin and stdout. Leaving the context ends it, and its process group.

    Args:
        command: the program and its arguments; one str is split as a POSIX shell would.
        cwd: the working directory of the process; None is this one's.
        env: its whole environment; None inherits this one's.
        on_stderr: told each piece of its stderr, which is read in any case: the last 64 KiB are ``stderr_tail``.
        permissions and the rest: as ``connect``.

    Raises:
        AgentNotStarted: the command cannot be run.
        TypeError, LocalProtocolError: an argument is wrong.
    """
    check_command(command)
    setup = client_setup("open_agent", permissions, **options)
    process = await AgentProcess.start(command, cwd=cwd, env=env, on_stderr=on_stderr, grace=setup.grace)
    agent = Agent(setup, process.stream, process)
    async with agent._block():
        yield agent
