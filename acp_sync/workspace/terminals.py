"""Commands that the agent runs here: bounded output, exit status, and a process group that never outlives its use."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from codecs import getincrementaldecoder
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from acp_core.errors import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, local, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MIB = 1024 * 1024
# How long the end of the output is waited for once the command is gone, in seconds: another process may hold it open.
LAST_WORDS = 0.25
_decoder = getincrementaldecoder("utf-8")


class Output:
    """The end of what was written, at most ``limit`` bytes. Thread safe."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.truncated = False
        self._kept = bytearray()
        self._lock = threading.Lock()

    def add(self, data: bytes) -> None:
        """Append; past the limit the beginning goes."""
        with self._lock:
            self._kept += data
            if len(self._kept) > self.limit:
                self.truncated = True
                del self._kept[: len(self._kept) - self.limit]

    def text(self, *, complete: bool) -> str:
        """What is kept as text of at most ``limit`` UTF-8 bytes, cut at a character. A character whose end has not
        come is left out unless the output is ``complete``."""
        with self._lock:
            data = bytes(self._kept)
            cut = self.truncated
        if cut:
            # The rest of a character whose beginning is gone: three bytes at most.
            start = next((at for at in range(min(4, len(data))) if data[at] & 0xC0 != 0x80), 0)
            data = data[start:]
        text = _decoder("replace").decode(data, complete)
        # What is no UTF-8 is longer as a replacement character than it was.
        encoded = text.encode()
        if len(encoded) > self.limit:
            self.truncated = True
            text = encoded[len(encoded) - self.limit :].decode("utf-8", "ignore")
        return text


class Terminal:
    """One command, as the leader of a process group of its own. stdout and stderr are one output, stdin is empty.

    Nothing here blocks but ``wait``. The command is not reaped before ``release``: until then nobody else can get the
    number of its group, so a signal never hits a stranger.

    Raises:
        OSError, ValueError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], cwd: str, env: Mapping[str, str], limit: int) -> None:
        self.output = Output(limit)
        self.status: dict[str, object] | None = None
        self._exited = threading.Event()
        self._released = threading.Event()
        self._reaping = threading.Lock()
        self._stop_read, self._stop = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                cwd=cwd,
                env=dict(env),
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except BaseException:
            os.close(self._stop_read)
            os.close(self._stop)
            raise
        self.pid = self._process.pid
        self._threads = [
            threading.Thread(target=work, name=f"acp terminal {self.pid}", daemon=True)
            for work in (self._drain, self._watch)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, timeout: float | None = None) -> dict[str, object] | None:
        """The exit status once the command has ended; None when it has not after ``timeout`` seconds."""
        self._exited.wait(timeout)
        return self.status

    def kill(self) -> None:
        """Kill the group. Output and status stay."""
        with self._reaping:
            if self._process.returncode is not None:
                return
            with suppress(OSError):
                if sys.platform == "win32":
                    self._process.kill()
                else:
                    os.killpg(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Kill what is left of the group, and let go of it."""
        self.kill()
        self._released.set()

    @property
    def alive(self) -> bool:
        """Something of it is left."""
        return self._threads[1].is_alive()

    def join(self, timeout: float) -> None:
        """Wait until nothing of a released terminal is left, at most so many seconds."""
        self._threads[1].join(timeout)

    def _drain(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with stream:
            while self._readable(stream.fileno()) and (data := stream.read(65536)):
                self.output.add(data)

    def _readable(self, descriptor: int) -> bool:
        """Wait for output. False: nobody wants it any more."""
        if sys.platform == "win32":
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._stop_read, select.POLLIN)
        return self._stop_read not in [found for found, _ in poll.poll()]

    def _watch(self) -> None:
        code = self._exit_code()
        self._threads[0].join(LAST_WORDS)
        self.status = exit_status(code)
        self._exited.set()
        self._released.wait()
        # What the command has started may have come after the kill at its release.
        self.kill()
        with self._reaping:
            self._process.wait()
        os.close(self._stop)
        self._threads[0].join(LAST_WORDS)
        if not self._threads[0].is_alive():
            os.close(self._stop_read)

    def _exit_code(self) -> int:
        if sys.platform == "win32" or not hasattr(os, "waitid"):
            return self._process.wait()
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        assert found is not None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def exit_status(code: int) -> dict[str, object]:
    """A return code of ``subprocess`` as it goes on the wire, where an exit code has no sign."""
    if code >= 0:
        return {"exitCode": code, "signal": None}
    try:
        return {"exitCode": None, "signal": signal.Signals(-code).name}
    except ValueError:
        return {"exitCode": None, "signal": f"SIG{-code}"}


class Terminals:
    """The terminals of one connection, by id.

    Args:
        max_output_bytes: kept of each output; an agent may ask for less.
        max_terminals: that are not released.
        env: what the commands' environment begins with; None is this process's.

    Raises:
        LocalProtocolError: a bound is not positive.
    """

    def __init__(
        self, *, max_output_bytes: int = 1 * MIB, max_terminals: int = 64, env: Mapping[str, str] | None = None
    ) -> None:
        for name, value in (("max_output_bytes", max_output_bytes), ("max_terminals", max_terminals)):
            if value <= 0:
                local("workspace.limits", f"{name} is {value}; give a positive number")
        self._max_output = max_output_bytes
        self._max_terminals = max_terminals
        self._env = env
        self._terminals: dict[tuple[str, str], Terminal] = {}
        self._leaving: list[Terminal] = []
        self._count = 0
        self._closed = False
        self._lock = threading.Lock()

    def create(
        self, session_id: str, command: Sequence[str], cwd: str, env: Mapping[str, str], limit: int | None
    ) -> str:
        """Start a command. Returns the terminal's id.

        Raises:
            RequestError: for the agent: it cannot be started, there are too many, or the connection has ended.
        """
        with self._lock:
            if self._closed:
                raise refusal(INTERNAL_ERROR, "the connection is closing", "request", "connection.closing")
            if len(self._terminals) >= self._max_terminals:
                message = f"{self._max_terminals} terminals are not released; release some"
                raise refusal(INVALID_PARAMS, message, "request", "workspace.max_terminals")
            whole = {**(os.environ if self._env is None else self._env), **env}
            try:
                kept = self._max_output if limit is None else min(limit, self._max_output)
                terminal = Terminal(command, cwd, whole, kept)
            except (OSError, ValueError) as why:
                reason = getattr(why, "strerror", None) or str(why)
                message = f"the command cannot be started: {reason}"
                raise refusal(INVALID_PARAMS, message, "command", "command.failed") from why
            self._count += 1
            terminal_id = f"terminal-{self._count}"
            self._terminals[session_id, terminal_id] = terminal
            return terminal_id

    def get(self, session_id: str, terminal_id: str) -> Terminal:
        """A terminal that is not released, of this session.

        Raises:
            RequestError: for the agent: there is none.
        """
        found = self._terminals.get((session_id, terminal_id))
        if found is None:
            message = "no such terminal in this session"
            raise refusal(RESOURCE_NOT_FOUND, message, "terminalId", "terminal.unknown")
        return found

    def release(self, session_id: str, terminal_id: str) -> None:
        """Kill a command and forget its id.

        Raises:
            RequestError: for the agent: there is none.
        """
        with self._lock:
            self.get(session_id, terminal_id).release()
            self._leaving = [one for one in self._leaving if one.alive]
            self._leaving.append(self._terminals.pop((session_id, terminal_id)))

    def close(self) -> None:
        """Kill every command. Does not wait; a second call does nothing."""
        with self._lock:
            self._closed = True
            for terminal in self._terminals.values():
                terminal.release()
            self._leaving += self._terminals.values()
            self._terminals.clear()

    def join(self, timeout: float) -> None:
        """Wait until what was released and closed is gone, at most about so many seconds."""
        end = monotonic() + timeout
        for terminal in self._leaving:
            terminal.join(max(0.0, end - monotonic()))
