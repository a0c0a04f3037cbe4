"""What carries the bytes: descriptors and sockets that are polled, and any blocking stream behind a thread."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import IO, Protocol, TypeAlias, runtime_checkable

from acp_core.drive import Pieces

READ_SIZE = 256 * 1024
# A write of so much does not block after poll() said there is room, whatever the mode of the descriptor.
PIPE_BUF = getattr(select, "PIPE_BUF", 512)
POLLS = hasattr(select, "poll")


@runtime_checkable
class Transport(Protocol):
    """What a connection needs. ``close`` makes a blocked ``receive`` or ``send`` of another thread come back.

    A transport may also have ``wake()``, which makes a blocked ``receive`` raise TimeoutError early, and
    ``close_output()``, which ends what the peer reads. Without ``wake`` it is asked again every 50 ms.
    """

    def receive(self, timeout: float | None) -> bytes:
        """The next bytes, ``b""`` at the end. TimeoutError after ``timeout`` seconds; OSError when it is broken."""

    def send(self, data: bytes) -> None:
        """Write all of ``data``. OSError when that cannot be done."""

    def close(self) -> None:
        """Let go of everything. A second call does nothing."""


@runtime_checkable
class MessageTransport(Protocol):
    """What a connection needs of a transport that keeps message boundaries, such as a WebSocket: one JSON object a
    message, without a line end. ``wake`` and ``close_output`` are as for ``Transport``."""

    def receive_message(self, timeout: float | None) -> str | bytes | None:
        """The next message, None at the end. TimeoutError after ``timeout`` seconds; OSError when it is broken."""

    def send_message(self, message: bytes) -> None:
        """Send one message. OSError when that cannot be done."""

    def close(self) -> None:
        """As ``Transport.close``."""


Pair: TypeAlias = "tuple[int | IO[bytes], int | IO[bytes]]"
Connectable: TypeAlias = "Transport | MessageTransport | socket.socket | Pair"


class PollTransport:
    """Two descriptors of pipes, sockets or terminals. They are owned: ``close`` runs ``closers``, the first of which
    closes the writer and, when there are two, may be run ahead by ``close_output``.

    ``blocking`` says that the writing descriptor must stay in blocking mode, since others share it: then small pieces
    are written, each when there is room for it.
    """

    def __init__(
        self, reader: int, writer: int | None, *closers: Callable[[], object], sock: bool = False, blocking: bool = True
    ) -> None:
        self.ended = threading.Event()
        self._reader = reader
        self._writer = writer
        self._closers = [*closers]
        self._sock = socket.socket(fileno=os.dup(reader)) if sock else None
        self._blocking = blocking and not sock
        self._piece = PIPE_BUF if blocking else READ_SIZE
        if writer is not None and not blocking:
            os.set_blocking(writer, False)
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._waking = threading.Lock()
        self._closed = False
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        self._readable = select.poll()
        self._readable.register(reader, select.POLLIN)
        self._readable.register(self._wake_reader, select.POLLIN)
        self._writable = select.poll()
        # No flags: only the hang-up counts, which close() makes. Bytes in it are for the reader.
        self._writable.register(self._wake_reader, 0)
        if writer is not None:
            self._writable.register(writer, select.POLLOUT)

    def receive(self, timeout: float | None) -> bytes:
        """As ``Transport.receive``."""
        with self._reading:
            self._check_open()
            ready = dict(self._readable.poll(None if timeout is None else max(0.0, timeout * 1000)))
            if self._reader in ready:
                with contextlib.suppress(BlockingIOError):
                    data = os.read(self._reader, READ_SIZE)
                    if not data:
                        self.ended.set()
                    return data
            self._check_open()
            if self._wake_reader in ready:
                os.read(self._wake_reader, 4096)
            raise TimeoutError("nothing came in time")

    def send(self, data: bytes) -> None:
        """As ``Transport.send``."""
        with self._writing:
            rest = memoryview(data)
            full = self._blocking
            while rest:
                self._check_open()
                if self._writer is None:
                    raise BrokenPipeError("the output was closed")
                if full and self._writer not in dict(self._writable.poll()):
                    continue
                # A socket has room long before poll() says so: it is asked only when there is none.
                full = self._blocking
                try:
                    if self._sock is not None:
                        rest = rest[self._sock.send(rest, socket.MSG_DONTWAIT) :]
                    else:
                        rest = rest[os.write(self._writer, rest[: self._piece]) :]
                except BlockingIOError:
                    full = True

    def wake(self) -> None:
        """Make a blocked ``receive`` raise TimeoutError now."""
        with self._waking, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.write(self._wake_writer, b"\0")

    def close_output(self) -> None:
        """End what the peer reads. Nothing happens while a write hangs, since the peer does not read then."""
        if not self._writing.acquire(timeout=0.1):
            return
        try:
            if self._sock is not None:
                with contextlib.suppress(OSError):
                    self._sock.shutdown(socket.SHUT_WR)
            elif self._writer is not None and len(self._closers) > 1:
                self._writable.unregister(self._writer)
                self._writer = None
                with contextlib.suppress(OSError):
                    self._closers.pop(0)()
        finally:
            self._writing.release()

    def close(self) -> None:
        """As ``Transport.close``."""
        with self._waking:
            if self._closed:
                return
            self._closed = True
            os.close(self._wake_writer)
        with self._reading, self._writing:
            os.close(self._wake_reader)
            if self._sock is not None:
                self._sock.close()
            while self._closers:
                with contextlib.suppress(OSError):
                    self._closers.pop()()
        self.ended.set()

    def _check_open(self) -> None:
        if self._closed:
            raise OSError("the transport was closed here")


class StreamTransport:
    """Any two blocking binary streams. A thread reads ahead by one piece, since such a read knows no timeout."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes] | None, *closers: Callable[[], object]) -> None:
        self.ended = threading.Event()
        self._reader = reader
        self._writer = writer
        self._closers = closers
        self._changed = threading.Condition()
        self._piece: bytes | None = None
        self._error: Exception | None = None
        self._woken = False
        self._closed = False
        threading.Thread(target=self._read, name="acp stream", daemon=True).start()

    def receive(self, timeout: float | None) -> bytes:
        """As ``Transport.receive``."""
        due = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while self._piece is None and not self._woken and not self._closed and self._error is None:
                left = None if due is None else due - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            self._woken = False
            piece = self._piece
            if piece is not None:
                if piece:
                    self._piece = None
                    self._changed.notify_all()
                return piece
            if self._error is not None or self._closed:
                raise OSError("the transport was closed here" if self._error is None else str(self._error))
            raise TimeoutError("nothing came in time")

    def send(self, data: bytes) -> None:
        """As ``Transport.send``. A write that blocks is not interrupted by ``close``."""
        if self._writer is None:
            raise BrokenPipeError("the output was closed")
        try:
            rest = memoryview(data)
            while rest:
                # An unbuffered stream may write less than it was given.
                rest = rest[self._writer.write(rest) or 0 :]
            self._writer.flush()
        except ValueError as why:
            raise BrokenPipeError(str(why)) from why

    def wake(self) -> None:
        """Make a blocked ``receive`` raise TimeoutError now."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close_output(self) -> None:
        """End what the peer reads."""
        if self._writer is not None:
            with contextlib.suppress(OSError, ValueError):
                self._writer.close()

    def close(self) -> None:
        """As ``Transport.close``. A thread that is blocked in a read stays until the stream ends."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self.close_output()
        for close in self._closers:
            with contextlib.suppress(OSError):
                close()
        self.ended.set()

    def _read(self) -> None:
        read: Callable[[int], bytes] = getattr(self._reader, "read1", self._reader.read)
        while True:
            try:
                piece = read(READ_SIZE)
            except (OSError, ValueError) as why:
                with self._changed:
                    self._error = why
                    self._changed.notify_all()
                return
            with self._changed:
                while self._piece is not None and not self._closed:
                    self._changed.wait()
                self._piece = piece
                self._changed.notify_all()
                if not piece:
                    self.ended.set()
                if not piece or self._closed:
                    return


class Messages:
    """Cuts what is written into the messages of a MessageTransport, and hands over each that comes as it is."""

    def __init__(self, transport: MessageTransport) -> None:
        self.receive = transport.receive_message
        self.close = transport.close
        self.wake: Callable[[], None] | None = getattr(transport, "wake", None)
        self.close_output: Callable[[], None] | None = getattr(transport, "close_output", None)
        self._send = transport.send_message
        self._pieces = Pieces()

    def send(self, data: bytes) -> None:
        """Send the messages that are whole by now; the rest waits for its line end."""
        for message in self._pieces.cut(data):
            self._send(message)


def adapt(transport: Connectable) -> Transport | Messages:
    """What a driver runs, for what a caller may give. Sockets and streams are owned from now on.

    Raises:
        TypeError: it is none of them, or a socket that listens.
    """
    if isinstance(transport, socket.socket):
        if _listens(transport):
            raise TypeError("transport must be a connected socket, not one that listens: give what its accept() gives")
        if POLLS:
            return PollTransport(transport.fileno(), transport.fileno(), transport.close, sock=True)
        return StreamTransport(transport.makefile("rb"), transport.makefile("wb"), transport.close)
    if isinstance(transport, tuple) and _is_pair(transport):
        reader, writer = transport
        numbers = [_descriptor(side) for side in transport]
        if POLLS and numbers[0] is not None and numbers[1] is not None:
            closers = [_closer(side) for side in ((writer,) if numbers[0] == numbers[1] else (writer, reader))]
            return PollTransport(numbers[0], numbers[1], *closers)
        return StreamTransport(_stream(reader, "rb"), _stream(writer, "wb"), _closer(reader))
    # A class has the methods too, but nobody to call them on.
    if not isinstance(transport, type):
        if isinstance(transport, MessageTransport):
            return Messages(transport)
        if isinstance(transport, Transport):
            return transport
    raise TypeError(
        "transport must be a socket, a pair (reader, writer) of binary files or descriptors, or an object with "
        "receive, send and close, or with receive_message, send_message and close, "
        f"not {transport!r}"
    )


def _listens(sock: socket.socket) -> bool:
    try:
        return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False


def _is_pair(sides: tuple[object, ...]) -> bool:
    """Two descriptors or files."""
    return len(sides) == 2 and all(isinstance(side, int) or hasattr(side, "close") for side in sides)


def _descriptor(side: int | IO[bytes]) -> int | None:
    if isinstance(side, int):
        return side
    try:
        return side.fileno()
    except (AttributeError, OSError):
        return None


def _closer(side: int | IO[bytes]) -> Callable[[], object]:
    return (lambda: os.close(side)) if isinstance(side, int) else side.close


def _stream(side: int | IO[bytes], mode: str) -> IO[bytes]:
    return os.fdopen(side, mode, 0) if isinstance(side, int) else side
