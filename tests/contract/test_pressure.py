"""Floods and slow readers: nothing hangs, nothing grows without bound, nothing is dropped in silence."""

from __future__ import annotations

import socket
import time

import pytest

from acp_core import (
    AgentMessageChunk,
    ConnectionClosed,
    ConsumerTooSlow,
    CurrentModeUpdate,
    Limits,
    LocalProtocolError,
    TurnEnded,
    Update,
    UsageUpdate,
)
from tests.contract.harness import Bench, Peer, get, wait_until

BIG = "x" * (8 << 20)
KIB = "k" * 1024


def push(peer: Peer, count: int, text: str = KIB, session_id: str = "s1") -> bool:
    """Send chunks; False when the binding did not take them all within a short time."""
    data = b"".join(
        (
            f'{{"jsonrpc":"2.0","method":"{peer.methods.wire("session_update")}","params":{{"sessionId":"{session_id}",'
        ).encode()
        + b'"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n' % text.encode()
        for _ in range(count)
    )
    view = memoryview(data)
    peer.sock.settimeout(0.3)
    try:
        while view:
            try:
                view = view[peer.sock.send(view) :]
            except TimeoutError:
                peer.unsent = bytes(view)
                return False
    finally:
        peer.sock.settimeout(20)
    return True


def test_flood_both_ways(bench: Bench) -> None:
    """Both write 8 MB before either reads an answer: whoever waits for the other's reading would hang."""
    agent, session, peer = bench.session()
    asked = bench.spawn(agent.request, "_x/big", {"data": BIG})
    turn = session.prompt("hi")
    sending = bench.spawn(peer.raw, b"".join(_line(peer, "y" * 65536) for _ in range(128)))
    lengths = bench.spawn(lambda: sum(len(event.text) for event in turn if isinstance(event, AgentMessageChunk)))
    get(sending)
    messages = {message["method"]: message for message in (peer.read(), peer.read())}
    request, prompt = messages["_x/big"], messages[bench.methods.wire("session_prompt")]
    assert len(request["params"]["data"]) == len(BIG)
    peer.result(request, {"got": len(BIG)})
    peer.end(prompt)
    assert get(asked) == {"got": len(BIG)}
    assert get(lengths) <= 8 << 20


def test_flood_of_two_bindings(bench: Bench) -> None:
    class Mirror:
        def prompt(self, turn: object) -> None:
            for _ in range(128):
                turn.send("z" * 65536)  # type: ignore[attr-defined]  # each colour has a turn class of its own

    agent = bench.both(Mirror())
    session = agent.open_session("/tmp")
    jobs = [bench.spawn(agent.notify, "_x/big", {"data": "n" * (1 << 20)}) for _ in range(8)]
    assert len(session.prompt("hi").text()) == 128 * 65536
    for job in jobs:
        get(job)


def test_a_bound_of_unread_input_below_the_size_of_a_read(bench: Bench) -> None:
    limits = Limits(max_unread_bytes=5000, max_line_bytes=2000)
    _agent, session, peer = bench.session(limits=limits)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    peer.send(*(peer.chunk("x" * 1000) for _ in range(200)))
    peer.end(prompt)
    assert turn.text() == "x" * 200_000


def test_who_sends_does_not_outlive_the_connection(bench: Bench) -> None:
    """The peer reads nothing: what is left is let go of when the owner has waited for it long enough."""
    agent, _session, _peer = bench.session(close_grace=0.2)

    def send() -> None:
        while True:
            agent.notify("_x/much", {"data": "n" * 100_000})

    job = bench.spawn(send)
    wait_until(lambda: agent.connection.output_bytes > 1 << 20)
    agent.close()
    with pytest.raises((ConnectionClosed, LocalProtocolError)):
        get(job)


def test_reading_pauses_when_nobody_waits(bench: Bench) -> None:
    agent, session, peer = bench.session(pause_at=100_000, full_at=50_000_000)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    assert not push(peer, 4000), "4 MB were taken although nobody reads"
    # A waiter makes reading go on; its answer stands behind all of that.
    asked = bench.spawn(agent.request, "_x/ask")
    request = peer.read()
    peer.raw(peer.unsent)
    peer.result(request, {"ok": 1})
    assert get(asked) == {"ok": 1}
    peer.end(prompt)
    assert len(turn.text()) == 4000 * 1024


def test_reading_goes_on_when_the_consumer_does(bench: Bench) -> None:
    _agent, session, peer = bench.session(pause_at=100_000, full_at=50_000_000)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    assert not push(peer, 4000)
    reading = bench.spawn(turn.text)
    peer.raw(peer.unsent)
    peer.end(prompt)
    assert len(get(reading)) == 4000 * 1024


def test_consumer_too_slow(bench: Bench) -> None:
    agent, session, peer = bench.session(pause_at=100_000, full_at=400_000)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    asked = bench.spawn(agent.request, "_x/ask")
    request = peer.read()
    push(peer, 4000)
    with pytest.raises(ConsumerTooSlow):
        get(asked)
    assert not agent.closed
    # Nothing was dropped: the turn is read to its end, and the connection is as good as ever.
    reading = bench.spawn(turn.text)
    peer.raw(peer.unsent)
    peer.result(request, {"late": 1})
    peer.end(prompt)
    assert len(get(reading)) == 4000 * 1024
    again = bench.spawn(agent.request, "_x/again")
    peer.result(peer.read(), {"ok": 1})
    assert get(again) == {"ok": 1}


def test_iteration_goes_on_after_consumer_too_slow(bench: Bench) -> None:
    agent, one, peer = bench.session(pause_at=100_000, full_at=400_000)
    two = bench.another(agent, peer, "s2")
    first, second = one.prompt("1"), two.prompt("2")
    prompts = {message["params"]["sessionId"]: message for message in (peer.prompted(), peer.prompted())}
    waiting = bench.spawn(second.result)
    pushed = push(peer, 4000, session_id="s1")
    assert not pushed
    with pytest.raises(ConsumerTooSlow):
        get(waiting)
    first.detach()
    peer.raw(peer.unsent)
    peer.end(prompts["s2"])
    assert second.result().stop_reason == "end_turn"
    peer.end(prompts["s1"])
    assert first.result().stop_reason == "end_turn"
    assert first.discarded >= 4000


def test_a_detached_turn_freezes_nobody(bench: Bench) -> None:
    agent, one, peer = bench.session(pause_at=100_000, full_at=400_000)
    two = bench.another(agent, peer, "s2")
    turn = one.prompt("1")
    prompt = peer.prompted()
    turn.detach()
    assert push(peer, 4000)
    other = bench.spawn(lambda: two.prompt("2").text())
    second = peer.prompted()
    peer.send(peer.chunk("heard", "s2"))
    peer.end(second)
    assert get(other) == "heard"
    peer.end(prompt)
    assert turn.result().stop_reason == "end_turn"
    assert turn.discarded >= 4000


def test_leaving_a_loop_early_detaches(bench: Bench) -> None:
    _agent, session, peer = bench.session(pause_at=100_000, full_at=400_000)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    peer.send(peer.chunk("first"), peer.chunk("second"))
    for event in turn:
        if isinstance(event, AgentMessageChunk):
            assert event.text == "first"
            break
    assert push(peer, 2000)
    peer.end(prompt)
    assert turn.result().stop_reason == "end_turn"
    assert turn.discarded >= 2000
    job = bench.spawn(lambda: session.prompt("next").text())
    following = peer.prompted()
    peer.send(peer.chunk("next"))
    peer.end(following)
    assert get(job) == "next"


def test_leaving_the_block_of_a_turn_detaches(bench: Bench) -> None:
    _agent, session, peer = bench.session(pause_at=100_000, full_at=400_000)
    with session.prompt("hi") as turn:
        prompt = peer.prompted()
    assert push(peer, 2000)
    peer.end(prompt)
    assert turn.result().stop_reason == "end_turn"


def test_a_turn_that_nobody_holds_freezes_nobody(bench: Bench) -> None:
    _agent, session, peer = bench.session(pause_at=100_000, full_at=400_000)
    reading = bench.spawn(lambda: next(iter(session.prompt("hi"))))
    prompt = peer.prompted()
    get(reading)
    del reading
    assert push(peer, 2000)
    peer.end(prompt)
    wait_until(lambda: session.state == "idle")


def test_result_discards_what_was_not_read(bench: Bench) -> None:
    _agent, session, peer = bench.session(pause_at=100_000, full_at=400_000)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    ending = bench.spawn(turn.result)
    assert push(peer, 4000)
    peer.end(prompt)
    ended = get(ending)
    assert isinstance(ended, TurnEnded)
    assert turn.discarded >= 4000
    assert turn.result() is ended


def test_idle_metadata_keeps_only_its_latest_state(bench: Bench) -> None:
    agent, session, peer = bench.session(pause_at=100_000, full_at=400_000)
    for number in range(2000):
        peer.send(
            peer.update("usage_update", used=number, size=KIB),
            peer.update("current_mode_update", currentModeId=f"m{number}"),
        )
    asked = bench.spawn(agent.request, "_x/ask")
    peer.result(peer.read())
    get(asked)
    agent.close()
    updates = [event for event in session.events() if isinstance(event, Update)]
    assert len(updates) == 2
    usage, mode = updates
    assert isinstance(usage, UsageUpdate)
    assert usage.used == 1999
    assert isinstance(mode, CurrentModeUpdate)
    assert mode.current_mode_id == "m1999"


def test_timers_run_while_reading_pauses(bench: Bench) -> None:
    _agent, session, peer = bench.session(pause_at=100_000, full_at=50_000_000)
    turn = session.prompt("hi", deadline=0.5)
    prompt = peer.prompted()
    assert not push(peer, 4000)
    begin = time.monotonic()
    peer.expect("session_cancel")
    assert time.monotonic() - begin < 10
    ending = bench.spawn(turn.result)
    peer.raw(peer.unsent)
    peer.end(prompt, "cancelled")
    assert get(ending).cancel_asked == "deadline"


def test_a_peer_that_asks_and_never_reads(bench: Bench) -> None:
    """Answers that nobody reads are bounded: the connection ends with a reason instead of growing for ever."""
    from acp_core import ConnectionOver
    from acp_core.limits import Limits

    limits = Limits(max_output_bytes=200_000, max_output_total_bytes=300_000)
    agent, _session, peer = bench.session(limits=limits)
    request = b'{"jsonrpc":"2.0","id":"%s","method":"_x/unknown","params":{}}\n'
    data = b"".join(request % str(number).encode() for number in range(40_000))
    try:
        peer.raw(data)
    except OSError:
        pass
    over = bench.wait_seen(ConnectionOver)[0]
    assert isinstance(over, ConnectionOver)
    assert "does not read" in over.reason
    assert agent.closed
    peer.sock.shutdown(socket.SHUT_RD)


def _line(peer: Peer, text: str) -> bytes:
    import json

    return json.dumps({"jsonrpc": "2.0", **peer.chunk(text)}).encode() + b"\n"
