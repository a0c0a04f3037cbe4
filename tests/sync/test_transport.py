"""What may carry a connection: descriptors, files, sockets, and objects with three methods."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import threading
from collections.abc import Callable

import pytest

import acp_core
import acp_sync
from acp_sync.transport import PollTransport, StreamTransport
from tests.spec.requirements import requirement
from tests.sync.peer import Peer, Script, bounded, until

DENY = acp_core.Policy({"default": "deny"})


def forward(peer: Peer) -> tuple[int, int, list[threading.Thread]]:
    """Two pipes that lead to the peer's socket: reader, writer and what moves the bytes."""
    in_reader, in_writer = os.pipe()
    out_reader, out_writer = os.pipe()

    def into() -> None:
        with contextlib.suppress(OSError):
            while data := peer.other.recv(65536):
                os.write(in_writer, data)
        os.close(in_writer)

    def out() -> None:
        while data := os.read(out_reader, 65536):
            peer.other.sendall(data)
        os.close(out_reader)
        with contextlib.suppress(OSError):
            peer.other.shutdown(socket.SHUT_WR)

    threads = [threading.Thread(target=job, daemon=True) for job in (into, out)]
    for thread in threads:
        thread.start()
    return in_reader, out_writer, threads


def conversation(agent: acp_sync.Agent, peer: Peer) -> None:
    def answer() -> None:
        peer.opened()
        prompt = peer.read_method("session/prompt")
        peer.say("hello")
        peer.end_turn(prompt)

    script = Script(answer)
    with agent:
        session = agent.open_session("/tmp")
        assert session.prompt("hi").text() == "hello"
        script.done()
        with pytest.raises(acp_core.RequestTimeout):
            agent.request("_x", {}, deadline=0.05)
        # A deadline that comes while a read is under way.
        with pytest.raises(acp_core.RequestTimeout):
            bounded(lambda: agent.request("_x", {}, deadline=0.05), 5)


def close_peer(peer: Peer, threads: list[threading.Thread]) -> None:
    peer.mine.shutdown(socket.SHUT_WR)
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_descriptors(peer: Peer) -> None:
    reader, writer, threads = forward(peer)
    conversation(acp_sync.connect((reader, writer), permissions=DENY), peer)
    close_peer(peer, threads)


def test_binary_files(peer: Peer) -> None:
    reader, writer, threads = forward(peer)
    pair = (os.fdopen(reader, "rb", 0), os.fdopen(writer, "wb", 0))
    conversation(acp_sync.connect(pair, permissions=DENY), peer)
    assert pair[0].closed
    close_peer(peer, threads)


def test_streams_behind_a_thread(peer: Peer) -> None:
    reader, writer, threads = forward(peer)
    pair = (os.fdopen(reader, "rb", 0), os.fdopen(writer, "wb", 0))
    agent = acp_sync.connect(StreamTransport(pair[0], pair[1]), permissions=DENY)
    conversation(agent, peer)
    close_peer(peer, threads)
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "acp stream"])
    pair[0].close()


class Plain:
    """The smallest transport: no wake, no close_output."""

    def __init__(self, sock: socket.socket) -> None:
        self.received: queue.Queue[bytes] = queue.Queue()
        self.sock = sock
        self.thread = threading.Thread(target=self.pump, daemon=True)
        self.thread.start()

    def pump(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.sock.recv(65536):
                self.received.put(data)
        self.received.put(b"")

    def receive(self, timeout: float | None) -> bytes:
        try:
            return self.received.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


def test_any_object(peer: Peer) -> None:
    transport = Plain(peer.other)
    conversation(acp_sync.connect(transport, permissions=DENY), peer)
    transport.thread.join(5)


class Whole:
    """A transport of whole messages over a socket. What is sent and what came is kept."""

    def __init__(self, sock: socket.socket) -> None:
        self.plain = Plain(sock)
        self.sent: list[bytes] = []
        self.close = self.plain.close
        self._rest = b""
        self._ended = False

    def receive_message(self, timeout: float | None) -> str | bytes | None:
        while b"\n" not in self._rest and not self._ended:
            data = self.plain.receive(timeout)
            self._rest += data
            self._ended = not data
        if self._ended:
            return None
        line, _, self._rest = self._rest.partition(b"\n")
        # A message may have line ends inside, and be text or bytes.
        spread = line.replace(b'{"jsonrpc"', b'{\n"jsonrpc"')
        return spread.decode() if len(line) % 2 else spread

    def send_message(self, message: bytes) -> None:
        self.sent.append(message)
        self.plain.send(message + b"\n")


@requirement(9)
def test_message_boundaries(peer: Peer) -> None:
    transport = Whole(peer.other)
    conversation(acp_sync.connect(transport, permissions=DENY), peer)
    transport.plain.thread.join(5)
    methods = [json.loads(message).get("method") for message in transport.sent]
    assert methods[:3] == ["initialize", "session/new", "session/prompt"]
    assert not any(b"\n" in message for message in transport.sent)


def test_a_long_message_is_sent_whole(peer: Peer) -> None:
    transport = Whole(peer.other)
    text = "x" * 300_000
    with acp_sync.connect(transport, permissions=DENY) as agent:
        script = Script(peer.opened)
        session = agent.open_session("/tmp")
        script.done()
        turn = session.prompt(text)
        peer.end_turn(peer.read_method("session/prompt"))
        turn.result()
    assert sum(text.encode() in message for message in transport.sent) == 1
    transport.plain.thread.join(5)


def test_an_empty_message_is_no_end(peer: Peer) -> None:
    transport = Whole(peer.other)
    with acp_sync.connect(transport, permissions=DENY) as agent:
        script = Script(peer.opened)
        peer.mine.sendall(b"\n\n")
        agent.open_session("/tmp")
        script.done()
        assert not agent.closed
    transport.plain.thread.join(5)


@pytest.mark.parametrize(
    "wrong", [3, None, object(), Plain, (1,), ("a", "b"), (1, 2, 3)], ids=lambda wrong: type(wrong).__name__
)
def test_what_is_no_transport_is_named(wrong: acp_sync.Transport) -> None:
    with pytest.raises(TypeError, match=r"receive_message, send_message and close, not "):
        acp_sync.connect(wrong, permissions=DENY)


def test_a_listening_socket_is_no_transport() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(TypeError, match="a connected socket"):
            acp_sync.connect(listener, permissions=DENY)
        with pytest.raises(TypeError, match="a connected socket"):
            acp_sync.serve_on(Silent(), listener)


class Silent:
    def prompt(self, turn: acp_sync.AgentTurn) -> None:
        return None


class Broken:
    """A transport whose parts fail."""

    def __init__(self, receive: Callable[[], bytes], send: Callable[[], None]) -> None:
        self.fail_receive = receive
        self.fail_send = send
        self.closed = threading.Event()

    def receive(self, timeout: float | None) -> bytes:
        return self.fail_receive()

    def send(self, data: bytes) -> None:
        self.fail_send()

    def close(self) -> None:
        self.closed.set()


def reset() -> bytes:
    raise ConnectionResetError(104, "Connection reset by peer")


def broken_pipe() -> None:
    raise BrokenPipeError(32, "Broken pipe")


def test_a_read_that_fails_ends_the_connection() -> None:
    with (
        acp_sync.connect(Broken(reset, lambda: None), permissions=DENY) as agent,
        pytest.raises(acp_core.ConnectionClosed, match="reset"),
    ):
        agent.open_session("/tmp")


def test_a_defect_of_a_transport_leaves_nobody_waiting() -> None:
    def defect() -> bytes:
        raise ZeroDivisionError("a defect")

    hooked: list[object] = []
    before = threading.excepthook
    threading.excepthook = hooked.append
    try:
        with (
            acp_sync.connect(Broken(defect, lambda: None), permissions=DENY) as agent,
            pytest.raises(acp_core.ConnectionClosed, match="a defect"),
        ):
            agent.open_session("/tmp")
    finally:
        threading.excepthook = before
    assert len(hooked) == 1


def test_a_write_that_fails_reads_on() -> None:
    go = threading.Event()

    def late() -> bytes:
        assert go.wait(10)
        return b""

    events: list[acp_core.Event] = []
    with acp_sync.connect(Broken(late, broken_pipe), permissions=DENY, on_event=events.append) as agent:
        opening = Script(lambda: agent.open_session("/tmp"))
        until(lambda: any(isinstance(event, acp_core.WriteFailed) for event in events))
        assert not agent.closed
        go.set()
        with pytest.raises(acp_core.ConnectionClosed, match="Broken pipe"):
            opening.done()


def test_poll_transport_close_is_idempotent_and_frees_both_calls() -> None:
    reader, writer = os.pipe()
    transport = PollTransport(reader, writer, lambda: os.close(writer), lambda: os.close(reader))
    receiving = Script(lambda: transport.receive(None))
    transport.wake()
    with pytest.raises(TimeoutError):
        receiving.done()
    receiving = Script(lambda: transport.receive(None))
    transport.close()
    transport.close()
    transport.wake()
    with pytest.raises(OSError, match="closed here"):
        receiving.done()
    with pytest.raises(OSError, match="closed here"):
        transport.send(b"x")


def test_the_mode_of_a_shared_descriptor_is_left_alone() -> None:
    reader, writer = os.pipe()
    out_reader, out_writer = os.pipe()
    with acp_sync.connect((reader, out_writer), permissions=DENY):
        assert os.get_blocking(reader)
        assert os.get_blocking(out_writer)
    os.close(writer)
    os.close(out_reader)
