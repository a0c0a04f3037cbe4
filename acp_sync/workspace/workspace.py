"""The agent's requests about files and terminals, answered: params are checked here, results are made here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from acp_core import RequestError, Session
from acp_core.errors import INVALID_PARAMS, clip, refusal
from acp_core.events import get_str

from .files import Files
from .terminals import Terminals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from acp_core import RequestReceived

    Handler: TypeAlias = Callable[[RequestReceived], Mapping[str, object]]

MIB = 1024 * 1024


class Workspace:
    """What a client serves of this machine, for one connection.

    ``handlers`` maps the keys of the method table to functions that block; what they raise for the agent is a
    RequestError. When the connection is over ``close`` ends every command; it does not wait, ``join`` does. A binding
    that is given ``workspace=`` does all of this, and advertises what the handlers serve.

    Args:
        roots: directories: files are read and written below them only, and commands start there. A command itself is
            confined by nothing: who lets an agent run commands lets it do what this process's user may.
        write: files may be written too.
        terminals: commands may be run.
        max_file_bytes: of a text that is read or written at once.
        max_output_bytes, max_terminals, env: as ``Terminals``.

    Raises:
        LocalProtocolError: a root is no directory, or a bound is not positive.
    """

    def __init__(
        self,
        *roots: str | os.PathLike[str],
        write: bool = True,
        terminals: bool = False,
        max_file_bytes: int = 16 * MIB,
        max_output_bytes: int = 1 * MIB,
        max_terminals: int = 64,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.files = Files(roots, max_bytes=max_file_bytes)
        self.terminals = Terminals(max_output_bytes=max_output_bytes, max_terminals=max_terminals, env=env)
        self.handlers: dict[str, Handler] = {"fs_read_text_file": self._read}
        if write:
            self.handlers["fs_write_text_file"] = self._write
        if terminals:
            self.handlers |= {
                "terminal_create": self._create,
                "terminal_output": self._output,
                "terminal_wait_for_exit": self._wait,
                "terminal_kill": self._kill,
                "terminal_release": self._release,
            }

    def close(self) -> None:
        """End every command. Does not wait; a second call does nothing."""
        self.terminals.close()

    def join(self, timeout: float = 1.0) -> None:
        """Wait until nothing of the commands is left, at most about so many seconds."""
        self.terminals.join(timeout)

    def _read(self, request: RequestReceived) -> dict[str, object]:
        params = request.params
        line, limit = _count(params, "line"), _count(params, "limit")
        return {"content": self.files.read(_text(params, "path"), line, limit)}

    def _write(self, request: RequestReceived) -> dict[str, object]:
        self.files.write(_text(request.params, "path"), _text(request.params, "content"))
        return {}

    def _create(self, request: RequestReceived) -> dict[str, object]:
        params = request.params
        arguments = params.get("args")
        if arguments is None:
            arguments = []
        if not isinstance(arguments, list):
            raise _wrong("args", "a list", arguments)
        words = [word for word in arguments if isinstance(word, str)]
        if len(words) != len(arguments):
            raise _wrong("args", "a list of strings", arguments)
        env = _environment(params)
        cwd = get_str(params, "cwd")
        directory = self._home(request) if cwd is None else self.files.directory(cwd)
        limit = _count(params, "outputByteLimit")
        command = [_text(params, "command"), *words]
        return {"terminalId": self.terminals.create(_session(request), command, directory, env, limit)}

    def _home(self, request: RequestReceived) -> str:
        """Where a command starts that names no directory: the session's, where that is one of ours."""
        session = request.session
        try:
            return self.files.directory(session.cwd) if isinstance(session, Session) else self.files.roots[0]
        except RequestError:
            return self.files.roots[0]

    def _output(self, request: RequestReceived) -> dict[str, object]:
        terminal = self.terminals.get(_session(request), _text(request.params, "terminalId"))
        status = terminal.status
        text = terminal.output.text(complete=status is not None)
        result: dict[str, object] = {"output": text, "truncated": terminal.output.truncated}
        return result if status is None else {**result, "exitStatus": status}

    def _wait(self, request: RequestReceived) -> dict[str, object]:
        status = self.terminals.get(_session(request), _text(request.params, "terminalId")).wait()
        assert status is not None
        return status

    def _kill(self, request: RequestReceived) -> dict[str, object]:
        self.terminals.get(_session(request), _text(request.params, "terminalId")).kill()
        return {}

    def _release(self, request: RequestReceived) -> dict[str, object]:
        self.terminals.release(_session(request), _text(request.params, "terminalId"))
        return {}


def _session(request: RequestReceived) -> str:
    return request.session_id or ""


def _text(params: Mapping[str, object], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise _wrong(name, "a string", value)
    return value


def _environment(params: Mapping[str, object]) -> dict[str, str]:
    entries = params.get("env")
    if entries is None:
        return {}
    found: dict[str, str] = {}
    whole = isinstance(entries, list)
    for entry in entries if isinstance(entries, list) else ():
        name, value = (entry.get("name"), entry.get("value")) if isinstance(entry, dict) else (None, None)
        whole = whole and isinstance(name, str) and isinstance(value, str)
        found[str(name)] = str(value)
    if not whole:
        raise _wrong("env", "a list of objects with a name and a value", entries)
    return found


def _count(params: Mapping[str, object], name: str) -> int | None:
    value = params.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise _wrong(name, "a number that is not negative", value)
    return value


def _wrong(name: str, want: str, value: object) -> RequestError:
    return refusal(INVALID_PARAMS, f"{name} must be {want}, not {clip(value, 40)}", name, "params.type")
