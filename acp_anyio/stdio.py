"""The process's own stdin and stdout as one stream, claimed so that nothing else can write on the wire."""

from __future__ import annotations

import os
import select
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.lowlevel
from anyio import to_thread
from anyio.abc import ByteStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
# A pipe that polls as writable takes this much without blocking (PIPE_BUF is 4096 on Linux and 512 by POSIX).
PIECE = getattr(select, "PIPE_BUF", 512)


class DescriptorStream(ByteStream):
    """Two descriptors as a stream, blocking reads and writes in threads.

    O_NONBLOCK is never set: it belongs to the open file, which is shared with other processes. A thread waits with
    poll for its descriptor or for the word to stop, so ``aclose`` leaves no thread behind. The stream owns both
    descriptors. A cancelled receive may lose bytes: cancel it only to close.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self._writer = writer
        self._stop_read, self._stop = os.pipe()
        # Places and locks of their own: a program that keeps all worker threads busy does not stop the wire.
        self._places = (anyio.CapacityLimiter(1), anyio.CapacityLimiter(1))
        self._busy = (threading.Lock(), threading.Lock())
        self._closed = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Read what is there, at least one byte.

        Raises:
            EndOfStream: the end of input, or the stream was closed.
        """
        data = await self._in_thread(0, lambda: self._read(max_bytes))
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        """Write all of it.

        Raises:
            BrokenResourceError: nobody reads, or the stream was closed in the middle.
        """
        try:
            await self._in_thread(1, lambda: self._write(item))
        except OSError as why:
            raise anyio.BrokenResourceError from why

    async def send_eof(self) -> None:
        """Close the write end."""
        writer, self._writer = self._writer, -1
        if writer >= 0:
            os.close(writer)
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Stop the threads and close everything."""
        if self._closed:
            return
        self._closed = True
        os.write(self._stop, b"x")
        # Shielded: each thread leaves at once, and its descriptors must not be closed under it.
        with anyio.CancelScope(shield=True):
            left = await to_thread.run_sync(lambda: all(_was_free(lock) for lock in self._busy))
        for descriptor in (self._reader, self._writer, self._stop_read, self._stop) if left else ():
            if descriptor >= 0:
                os.close(descriptor)

    async def _in_thread(self, side: int, work: Callable[[], T]) -> T:
        def guarded() -> T:
            with self._busy[side]:
                if self._closed:
                    raise anyio.ClosedResourceError
                return work()

        return await to_thread.run_sync(guarded, abandon_on_cancel=True, limiter=self._places[side])

    def _read(self, max_bytes: int) -> bytes:
        return os.read(self._reader, max_bytes) if self._ready(self._reader, "in") else b""

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if not self._ready(self._writer, "out"):
                raise BrokenPipeError("the stream was closed")
            view = view[os.write(self._writer, view[:PIECE]) :]

    def _ready(self, descriptor: int, direction: str) -> bool:
        """Wait until the descriptor is ready. False: the stream is being closed."""
        if sys.platform == "win32":
            return True
        poll = select.poll()
        poll.register(self._stop_read, select.POLLIN)
        poll.register(descriptor, select.POLLIN if direction == "in" else select.POLLOUT)
        return self._stop_read not in [found for found, _ in poll.poll()]


def _was_free(lock: threading.Lock) -> bool:
    """Whether the thread that may hold the lock has left it within a second."""
    free = lock.acquire(timeout=1.0)
    if free:
        lock.release()
    return free


@contextmanager
def claimed_stdio() -> Iterator[DescriptorStream]:
    """Take stdin and stdout for the wire: inside, descriptor 0 is empty and descriptor 1 is stderr, so that a stray
    print does no harm. Both are given back at the end."""
    # Text that was printed before and is still buffered must not get onto the wire: it goes to stderr.
    reader, writer = os.dup(0), os.dup(1)
    kept = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    _flush()
    try:
        yield DescriptorStream(reader, writer)
    finally:
        _flush()
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):
        # There is no usable stdout, so nothing is lost.
        pass
