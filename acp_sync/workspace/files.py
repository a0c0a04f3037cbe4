"""Text files below given directories. No path leads out: not by a link, nor by a race where the OS opens relatively."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from acp_core import RequestError
from acp_core.errors import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, clip, local, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

MIB = 1024 * 1024
MAX_LINKS = 40
# Every step of a path is opened relative to the one before and follows no link, so nothing can be swapped under it.
RELATIVE = {os.open, os.readlink, os.mkdir} <= os.supports_dir_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOSE = getattr(os, "O_CLOEXEC", 0)
# Going through a directory needs no right to list it, where the OS makes the difference.
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _CLOSE
# A pipe or a device in the place of a file must not hold the thread up.
_FILE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0) | _CLOSE


class Files:
    """Text files below ``roots``.

    A path is taken when it leads to a place below a root, through whatever links; else the agent gets -32602. A root
    itself is trusted: it is resolved once, here. Not covered: a hard link or a mount below a root, which is in no way
    different from a file there; and on an OS that cannot open relative to a directory (Windows), a link that is put
    into a path between the check and the opening.

    Args:
        roots: directories that exist.
        max_bytes: of a text that is read or written; more is refused, and may be asked for in parts.

    Raises:
        LocalProtocolError: there is no root, one is no directory, or ``max_bytes`` is not positive.
    """

    def __init__(self, roots: Iterable[str | os.PathLike[str]], *, max_bytes: int = 16 * MIB) -> None:
        if max_bytes <= 0:
            local("workspace.max_bytes", f"max_bytes is {max_bytes}; give a positive number of bytes")
        given = [os.path.abspath(os.fspath(root)) for root in roots]
        if not given:
            local("workspace.roots", "no root was given; name the directories that the agent may use")
        for path in given:
            if not os.path.isdir(path):
                local("workspace.roots", f"root {clip(path)} is no directory")
        self.roots = tuple(os.path.realpath(path) for path in given)
        self.max_bytes = max_bytes
        # A root may be named as it was given, or by its real path; where one is below another the outer one counts.
        names = {name: root for path, root in zip(given, self.roots, strict=True) for name in (path, root)}
        self._names = sorted(names.items(), key=lambda pair: len(pair[0]))

    def read(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file: all of it, or ``limit`` lines from ``line`` on, which counts from 1. Line ends are kept.

        Raises:
            RequestError: for the agent: no such file (-32002), outside, no regular file, no UTF-8 text, or too long.
        """
        with self._opened(path, os.O_RDONLY) as file:
            for _ in range((line or 1) - 1):
                if not _skip_line(file):
                    return ""
            parts, left, lines = [], self.max_bytes, limit
            while lines is None or lines > 0:
                part = file.readline(left + 1) if lines is not None else file.read(left + 1)
                left -= len(part)
                if left < 0:
                    message = f"more than {self.max_bytes} bytes: ask by line and limit"
                    raise refusal(INVALID_PARAMS, message, "limit", "workspace.max_file_bytes")
                parts.append(part)
                if lines is None or not part:
                    break
                lines -= 1
        try:
            return b"".join(parts).decode("utf-8")
        except UnicodeDecodeError as why:
            raise refusal(INVALID_PARAMS, "the file is no UTF-8 text", "path", "file.text") from why

    def write(self, path: str, text: str) -> None:
        """Make ``text`` the whole content of a file. The file, and the directories above it, are made where missing.

        It is written in place: mode, owner and hard links of a file that is there stay.

        Raises:
            RequestError: for the agent: outside, no regular file, too long, no Unicode text, or it cannot be written.
        """
        try:
            data = memoryview(text.encode("utf-8"))
        except UnicodeEncodeError as why:
            message = "the content has a lone surrogate: it is no Unicode text"
            raise refusal(INVALID_PARAMS, message, "content", "content.text") from why
        if len(data) > self.max_bytes:
            message = f"{len(data)} bytes are more than {self.max_bytes}"
            raise refusal(INVALID_PARAMS, message, "content", "workspace.max_file_bytes")
        with self._opened(path, os.O_WRONLY | os.O_CREAT, parents=True) as file:
            try:
                file.truncate(0)
                while data:
                    data = data[file.write(data) :]
            except OSError as why:
                raise _refusal(why) from why

    def directory(self, path: str) -> str:
        """The real path of a directory, which lies below a root. For a program that is started there: what it does
        then is not confined to the roots.

        Raises:
            RequestError: for the agent: outside, or no directory.
        """
        self._place(path, "cwd")
        real = os.path.realpath(path)
        if not any(real == root or real.startswith(os.path.join(root, "")) for root in self.roots):
            raise _outside("cwd")
        if not os.path.isdir(real):
            raise refusal(RESOURCE_NOT_FOUND, "no such directory", "cwd", "file.missing")
        return real

    def _opened(self, path: str, flags: int, *, parents: bool = False) -> BinaryIO:
        try:
            descriptor = (self._open if RELATIVE else self._open_checked)(path, flags | _FILE, parents)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise _no_file()
                return os.fdopen(descriptor, "rb") if flags == os.O_RDONLY else os.fdopen(descriptor, "wb", buffering=0)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as why:
            raise _refusal(why) from why

    def _place(self, path: str, field: str = "path") -> tuple[str, list[str]]:
        """The root that a path begins with, and the steps from there. ``field`` is the member of the params."""
        if not os.path.isabs(path) or "\0" in path:
            raise refusal(INVALID_PARAMS, "paths are absolute", field, "path.absolute")
        for name, root in self._names:
            if path == name or path.startswith(os.path.join(name, "")):
                rest = path[len(name) :].replace(os.altsep or os.sep, os.sep)
                return root, [step for step in rest.split(os.sep) if step not in ("", os.curdir)]
        raise _outside(field)

    def _open(self, path: str, flags: int, parents: bool) -> int:
        """Walk step by step, each relative to the directory before it. Links are read and walked like the rest."""
        root, steps = self._place(path)
        walked = [os.open(root, _DIRECTORY)]
        # Links that were followed and directories that were made; nobody who changes both meanwhile keeps this going.
        detours = MAX_LINKS + len(steps)
        try:
            while steps:
                name = steps.pop(0)
                if name == os.pardir:
                    if len(walked) == 1:
                        raise _outside()
                    os.close(walked.pop())
                    continue
                here = walked[-1]
                try:
                    if not steps:
                        return os.open(name, flags | _NO_FOLLOW, 0o666, dir_fd=here)
                    walked.append(os.open(name, _DIRECTORY | _NO_FOLLOW, dir_fd=here))
                    continue
                except OSError as why:
                    target = _link(name, here)
                    missing = parents and bool(steps) and why.errno == errno.ENOENT
                    detours -= 1
                    if (target is None and not missing) or detours < 0:
                        raise
                if target is None:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=here)
                    steps.insert(0, name)
                elif os.path.isabs(target):
                    root, first = self._place(target)
                    while walked:
                        os.close(walked.pop())
                    walked.append(os.open(root, _DIRECTORY))
                    steps[:0] = first
                else:
                    steps[:0] = [step for step in target.split(os.sep) if step not in ("", os.curdir)]
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        finally:
            for descriptor in walked:
                os.close(descriptor)

    def _open_checked(self, path: str, flags: int, parents: bool) -> int:
        """The same for an OS that opens by whole paths only: checked first, so a race is possible."""
        self._place(path)
        real = os.path.realpath(path)
        if not any(real.startswith(os.path.join(root, "")) for root in self.roots):
            raise _outside()
        if parents:
            os.makedirs(os.path.dirname(real), exist_ok=True)
        return os.open(real, flags | _NO_FOLLOW, 0o666)


def _link(name: str, directory: int) -> str | None:
    """Where a link leads, or None when it is none."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError:
        return None


def _skip_line(file: BinaryIO) -> bool:
    """Go past a line, however long. False at the end."""
    while part := file.readline(65536):
        if part.endswith(b"\n"):
            return True
    return False


def _outside(field: str = "path") -> RequestError:
    return refusal(INVALID_PARAMS, "the path is outside of what this client serves", field, "path.outside")


def _no_file() -> RequestError:
    return refusal(INVALID_PARAMS, "it is no regular file", "path", "file.kind")


def _refusal(why: OSError) -> RequestError:
    """What the agent is told: the reason, no path that it did not name."""
    # A directory cannot be opened for writing, nor a pipe that nobody reads.
    if why.errno in (errno.EISDIR, errno.ENXIO):
        return _no_file()
    reason = why.strerror or "the file cannot be opened"
    if why.errno in (errno.ENOENT, errno.ENOTDIR):
        return refusal(RESOURCE_NOT_FOUND, reason, "path", "file.missing")
    return refusal(INTERNAL_ERROR, reason, "path", "file.failed")
