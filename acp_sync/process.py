"""An agent as a child process: started in a group of its own, its stderr drained, ended for certain."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from acp_core import AgentExited, AgentNotStarted, ConnectionClosed, Grace, Policy
from acp_core.front.setup import check_command, not_started

from .client import Agent, client_setup
from .connection import JOIN, join
from .transport import POLLS, PollTransport, StreamTransport

if TYPE_CHECKING:
    from .options import Ask, ConnectOptions

TAIL = 64 * 1024
# Seconds between two looks at whether what was killed has gone.
LOOK = 0.002


class Process:
    """One child process. ``transport`` is its stdin and stdout, ``grace`` how long each wait for it may take.

    Raises:
        AgentNotStarted: it cannot be started.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        grace: Grace | float | None = None,
    ) -> None:
        self.grace = Grace.of(grace) if grace is not None else Grace()
        argv = split(command) if isinstance(command, str) else [*command]
        if not argv:
            raise AgentNotStarted("the agent could not be started: the command is empty")
        self._on_stderr = on_stderr
        self._popen = _start(argv, cwd, env)
        self.pid = self._popen.pid
        self.stderr_tail = b""
        self._exit: int | None = None
        self._exited = threading.Event()
        self._reaping = threading.Lock()
        stdin, stdout, stderr = self._popen.stdin, self._popen.stdout, self._popen.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        if POLLS:
            self.transport: PollTransport | StreamTransport = PollTransport(
                stdout.fileno(), stdin.fileno(), stdin.close, stdout.close, blocking=False
            )
            self._stderr: PollTransport | StreamTransport = PollTransport(stderr.fileno(), None, stderr.close)
        else:
            self.transport = StreamTransport(stdout, stdin, stdout.close)
            self._stderr = StreamTransport(stderr, None, stderr.close)
        self._threads = [
            threading.Thread(target=self._drain, name="acp stderr", daemon=True),
            threading.Thread(target=self._watch, name="acp exit", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def exit_cause(self) -> str | None:
        """How it ended and what it said last, as a sentence; None while it runs."""
        return self._exit_error("", "").cause if self._exited.is_set() else None

    def explain(self, error: ConnectionClosed) -> ConnectionClosed:
        """The error that says how the process ended; the same error when it runs on. Waits for a bounded time."""
        if not self._exited.wait(2 * self.grace.drain + 0.5):
            return error
        return self._exit_error(error.reason, error.dispatch)

    def end(self) -> None:
        """Wait for the end of a process whose stdin has ended; terminate its group, then kill it. Lets go of stderr.
        Each wait is one of ``grace``; may be called again.

        Raises:
            TimeoutError: it was killed and is still there.
        """
        self._end(self.grace.ladder)

    def kill(self) -> None:
        """The same at once, and quietly."""
        with contextlib.suppress(TimeoutError):
            self._end(((0.0, "SIGKILL"), (self.grace.kill, "")))

    def _end(self, ladder: tuple[tuple[float, str], ...]) -> None:
        try:
            for seconds, then in ladder:
                if self._exited.wait(seconds):
                    return
                if then:
                    self._signal(kill=then == "SIGKILL")
            raise TimeoutError(f"process {self.pid} was killed and has not ended within {seconds:g} s")
        finally:
            self._stderr.close()
            for thread in self._threads:
                join(thread, self.grace.drain + JOIN)

    def _exit_error(self, reason: str, dispatch: str) -> AgentExited:
        code = self._exit if self._exit is not None else 0
        name: str | None = None
        if code < 0:
            name = str(-code)
            with contextlib.suppress(ValueError):
                name = signal.Signals(-code).name
        return AgentExited(reason, returncode=code, signal=name, stderr_tail=self.stderr_tail, dispatch=dispatch)

    def _drain(self) -> None:
        """An unread stderr would block the agent once its pipe is full."""
        while True:
            try:
                data = self._stderr.receive(None)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            self.stderr_tail = (self.stderr_tail + data)[-TAIL:]
            if self._on_stderr is not None:
                with contextlib.suppress(Exception):
                    self._on_stderr(data)

    def _watch(self) -> None:
        if sys.platform != "win32" and hasattr(os, "waitid"):
            # Noticed, not reaped: until then nobody else can get the number of its group.
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        # What it started may hold its output open, and would keep everybody waiting.
        self.transport.ended.wait(self.grace.drain)
        with self._reaping:
            self._signal_group(kill=True)
            self._exit = self._popen.wait()
        self._stderr.ended.wait(self.grace.drain)
        self._exited.set()
        due = time.monotonic() + self.grace.drain
        while group_lives(self.pid) and time.monotonic() < due:
            time.sleep(LOOK)

    def _signal(self, *, kill: bool) -> None:
        with self._reaping:
            if self._popen.returncode is None:
                self._signal_group(kill=kill)
        if kill:
            # Nobody has last words any more.
            self.transport.ended.set()

    def _signal_group(self, *, kill: bool) -> None:
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                if kill:
                    command = ["taskkill", "/T", "/F", "/PID", str(self.pid)]
                    subprocess.run(command, capture_output=True, timeout=self.grace.kill, check=False)
                else:
                    self._popen.send_signal(signal.CTRL_BREAK_EVENT)
            else:
                os.killpg(self.pid, signal.SIGKILL if kill else signal.SIGTERM)


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
        with contextlib.suppress(OSError, ValueError):
            if int(name) and (stat := Path("/proc", name, "stat").read_text().rpartition(")")[2].split()):
                if int(stat[2]) == pgid and stat[0] not in "ZX":
                    return True
    return False


def split(command: str) -> list[str]:
    """The words of a command, quoted as in a POSIX shell; on Windows a backslash is an ordinary character.

    Raises:
        AgentNotStarted: a quote is not closed.
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if os.name == "nt":
        lexer.escape = ""
    try:
        return list(lexer)
    except ValueError as why:
        raise AgentNotStarted(f"the agent could not be started: {why} in the command {command!r}") from why


def _start(
    argv: list[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    program = argv[0]
    if os.name == "nt":
        # Launchers such as npx are .cmd files, which only a search by PATHEXT finds.
        program = shutil.which(argv[0], path=env.get("PATH") if env is not None else None) or argv[0]
    try:
        return subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=cwd,
            env=dict(env) if env is not None else None,
            start_new_session=os.name == "posix",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    except (OSError, ValueError) as why:
        raise not_started(argv[0], cwd, why) from why


def open_agent(
    command: str | Sequence[str],
    *,
    permissions: Policy | Ask,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
    **options: Unpack[ConnectOptions],
) -> Agent:
    """Start an agent and connect to it::

        with open_agent("my-agent --acp", permissions=Policy({"default": "deny"})) as agent:
            session = agent.open_session("/path/to/project")
            for event in session.prompt("fix the tests"):
                print(event)

    The process is the leader of a group of its own. When it ends, or the agent is closed or let go of, nothing of that
    group stays. Errors that its end causes are AgentExited: exit code or signal, and the end of its stderr.

    Args:
        command: the words of the command, or one str that is split as in a POSIX shell.
        cwd: the process's working directory. Sessions have their own.
        env: None for this process's environment, else exactly the whole environment.
        on_stderr: gets what the agent writes to stderr, as it comes. The last 64 KiB are kept in any case.
        permissions, options: as ``connect``.

    Raises:
        AgentNotStarted: the process cannot be started.
        TypeError, LocalProtocolError: an argument is wrong.
    """
    check_command(command)
    setup = client_setup("open_agent", permissions, **options)
    process = Process(command, cwd=cwd, env=env, on_stderr=on_stderr, grace=setup.grace)
    try:
        return Agent(setup, process.transport, process)
    except BaseException:
        process.kill()
        process.transport.close()
        raise
