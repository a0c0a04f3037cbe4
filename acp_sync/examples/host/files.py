"""Local files for attachments: opened so that nothing hangs, and looked at before a byte is read."""

from __future__ import annotations

import os
import stat

from acp_core.host import FileFacts, HostError

# A FIFO or a device must not block the open, and a terminal must not become ours.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
)


def open_file(path: str) -> FileFacts:
    """Open a file read-only and say what it is. Its descriptor is the ``file``.

    Raises:
        HostError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, FLAGS)
    except (OSError, ValueError) as why:
        raise HostError("unreadable", getattr(why, "strerror", None) or str(why)) from why
    try:
        found = os.fstat(descriptor)
        regular = stat.S_ISREG(found.st_mode)
        real = os.path.realpath(path)
        mime = sniff(os.pread(descriptor, 16, 0)) if regular else ""
    except OSError as why:
        os.close(descriptor)
        raise HostError("unreadable", str(why.strerror)) from why
    return FileFacts(descriptor, path=real, name=os.path.basename(real), regular=regular, size=found.st_size, mime=mime)


def read_file(descriptor: object, offset: int, size: int) -> bytes:
    """Read up to ``size`` bytes at ``offset``; fewer only at the end.

    Raises:
        HostError: it cannot be read.
    """
    assert isinstance(descriptor, int)
    pieces: list[bytes] = []
    try:
        while size:
            piece = os.pread(descriptor, size, offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
    except OSError as why:
        raise HostError("unreadable", str(why.strerror)) from why
    return b"".join(pieces)


def sniff(prefix: bytes) -> str:
    """A type that the first bytes give away, "" for none."""
    return next((mime for signature, mime in SIGNATURES if prefix.startswith(signature)), "")
