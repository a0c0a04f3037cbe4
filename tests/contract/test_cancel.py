"""Cancelling: a turn, a request, a caller. A cancelled caller never tears a message (rule 7)."""

from __future__ import annotations

import pytest

from acp_core import PermissionAnswered, PermissionRequested, RequestTimeout, TurnEnded
from tests.contract.harness import Bench, get, wait_until
from tests.spec.requirements import requirement

BIG = "x" * (8 << 20)


def test_cancel_a_turn(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    turn.cancel()
    assert session.state == "cancelling"
    assert peer.expect("session_cancel")["params"] == {"sessionId": "s1"}
    peer.send(peer.chunk("last words"))
    peer.end(prompt, "cancelled")
    events = list(turn)
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].stop_reason == "cancelled"
    assert events[-1].cancel_asked == "owner"
    turn.cancel()
    job = bench.spawn(lambda: session.prompt("again").text())
    # No second cancel was written for the turn that is over.
    peer.end(peer.prompted())
    assert get(job) == ""


def test_an_error_after_a_cancel_counts_as_cancelled(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    turn.cancel()
    peer.expect("session_cancel")
    peer.error(prompt, -32603, "aborted")
    assert turn.result().stop_reason == "cancelled"


def test_a_held_permission_is_answered_cancelled(bench: Bench) -> None:
    asked, release = bench.event(), bench.event()

    def ask(request: PermissionRequested) -> str:
        asked.set()
        release.wait(20)
        return "yes"

    _agent, session, peer = bench.session(permissions=ask)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    peer.send(peer.permission(3))
    assert asked.wait(20)
    session.cancel()
    peer.expect("session_cancel")
    assert peer.read() == {"jsonrpc": "2.0", "id": 3, "result": {"outcome": {"outcome": "cancelled"}}}
    # The callback's late answer hits nothing.
    release.set()
    peer.end(prompt, "cancelled")
    events = list(turn)
    assert any(isinstance(event, PermissionAnswered) and event.by == "cancel" for event in events)
    job = bench.spawn(lambda: session.prompt("again").result())
    peer.end(peer.prompted())
    assert get(job).stop_reason == "end_turn"


def test_no_answer_to_a_cancel(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    turn.cancel(deadline=0.05)
    peer.expect("session_cancel")
    with pytest.raises(RequestTimeout):
        turn.result()
    assert session.state == "fenced"
    peer.end(prompt, "cancelled")
    wait_until(lambda: session.state == "idle")


def test_the_deadline_of_a_prompt_cancels_it(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi", deadline=0.05)
    prompt = peer.prompted()
    peer.expect("session_cancel")
    peer.end(prompt, "cancelled")
    ended = turn.result()
    assert (ended.stop_reason, ended.cancel_asked) == ("cancelled", "deadline")


def test_a_deadline_passes_while_the_agent_talks_without_end(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi", deadline=0.1)
    prompt = peer.prompted()
    stop = bench.event()

    def talk() -> None:
        line = b"".join(b"noise %d\n" % number for number in range(200))
        while not stop.is_set():
            peer.raw(line)

    talking = bench.spawn(talk)
    cancelled = peer.expect("session_cancel")
    stop.set()
    get(talking)
    assert cancelled["params"] == {"sessionId": "s1"}
    peer.end(prompt, "cancelled")
    assert turn.result().cancel_asked == "deadline"


def test_a_deadline_passes_while_the_peer_reads_nothing(bench: Bench) -> None:
    agent, session, peer = bench.session()
    blocked = bench.spawn(agent.request, "_x/big", {"data": BIG})
    wait_until(lambda: 0 < agent.connection.output_bytes < len(BIG))
    for _ in range(2):
        asked = bench.spawn(agent.request, "_x/never_written", deadline=0.05)
        with pytest.raises(RequestTimeout):
            get(asked)
    with pytest.raises(RequestTimeout):
        session.prompt("never written", deadline=0.05).result()
    request = peer.read()
    peer.result(request, {"n": 1})
    assert get(blocked) == {"n": 1}
    job = bench.spawn(lambda: session.prompt("written").text())
    peer.end(peer.prompted())
    assert get(job) == ""


def test_a_cancelled_result_cancels_the_turn(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    bench.binding.interrupt(turn.result, lambda: _flush(bench, peer))
    peer.expect("session_cancel")
    peer.end(prompt, "cancelled")
    assert turn.result().stop_reason == "cancelled"


def test_a_cancelled_text_cancels_the_turn(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    bench.binding.interrupt(turn.text, lambda: _flush(bench, peer))
    peer.expect("session_cancel")
    peer.end(prompt, "cancelled")
    wait_until(lambda: session.state == "idle")


def test_a_cancelled_loop_detaches(bench: Bench) -> None:
    agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    bench.binding.interrupt(lambda: list(turn), lambda: _flush(bench, peer))
    peer.send(peer.chunk("unheard"))
    peer.end(prompt)
    wait_until(lambda: session.state == "idle")
    assert turn.discarded >= 2
    asked = bench.spawn(agent.request, "_x/next")
    assert peer.read()["method"] == "_x/next"
    agent.close()
    assert asked.exception(20) is not None


@requirement(72)
def test_a_cancelled_request_is_cancelled_at_the_agent(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    seen: list[object] = []

    def arrived() -> None:
        seen.append(peer.read()["id"])
        _flush(bench, peer)

    bench.binding.interrupt(lambda: agent.request("_x/slow"), arrived)
    assert peer.expect("cancel_request")["params"] == {"requestId": seen[0]}
    peer.send({"id": seen[0], "result": {}})
    asked = bench.spawn(agent.request, "_x/next")
    peer.result(peer.read(), {"fine": 1})
    assert get(asked) == {"fine": 1}


def test_a_caller_cancelled_in_the_middle_of_its_write(bench: Bench) -> None:
    """The peer has read a part of a message when its caller is cancelled: the rest comes, then the next message."""
    agent, _session, peer = bench.session()
    head = bytearray()

    def begun() -> None:
        while len(head) < 100_000:
            head.extend(peer.sock.recv(65536))

    bench.binding.interrupt(lambda: agent.request("_x/big", {"data": BIG}), begun)
    asked = bench.spawn(agent.request, "_x/second")
    peer._buffer[:0] = head
    first = peer.read()
    assert first["method"] == "_x/big"
    assert first["params"] == {"data": BIG}
    messages = [peer.read(), peer.read()]
    # Cancelling tells the agent; where that stands is a matter of timing, that all is whole is not.
    assert {message["method"] for message in messages} == {bench.methods.wire("cancel_request"), "_x/second"}
    second = next(message for message in messages if message["method"] == "_x/second")
    peer.result(second, {"ok": 1})
    assert get(asked) == {"ok": 1}


def test_a_request_withdrawn_before_it_was_written(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    blocked = bench.spawn(agent.request, "_x/big", {"data": BIG})
    wait_until(lambda: 0 < agent.connection.output_bytes < len(BIG))
    bench.binding.interrupt(
        lambda: agent.request("_x/withdrawn"), lambda: wait_until(lambda: agent.connection.open_requests == 2)
    )
    wait_until(lambda: agent.connection.open_requests == 1)
    last = bench.spawn(agent.request, "_x/last")
    first, second = peer.read(), peer.read()
    assert [first["method"], second["method"]] == ["_x/big", "_x/last"]
    peer.result(first, {"n": 1})
    peer.result(second, {"n": 2})
    assert [get(blocked), get(last)] == [{"n": 1}, {"n": 2}]


def test_a_prompt_withdrawn_before_it_was_written(bench: Bench) -> None:
    agent, session, peer = bench.session()
    blocked = bench.spawn(agent.request, "_x/big", {"data": BIG})
    wait_until(lambda: 0 < agent.connection.output_bytes < len(BIG))
    turn = session.prompt("never seen")
    turn.cancel()
    ended = turn.result()
    assert (ended.stop_reason, ended.cancel_asked) == ("cancelled", "owner")
    assert "withdrawn before it was sent" in str(ended.cancel_error)
    assert [type(event) for event in turn] == [TurnEnded]
    assert session.state == "idle"
    job = bench.spawn(lambda: session.prompt("seen").text())
    request, prompt = peer.read(), peer.read()
    assert prompt["params"]["prompt"] == [{"type": "text", "text": "seen"}]
    peer.result(request)
    peer.end(prompt)
    assert get(job) == ""
    get(blocked)


def test_a_cancelled_open_session_freezes_nobody(bench: Bench) -> None:
    agent, peer = bench.connect(pause_at=1000)
    bench.binding.interrupt(lambda: agent.open_session("/tmp"), lambda: peer.expect("initialize"))
    peer.send({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
    peer.opened("lost")
    peer.send(*(peer.chunk("y" * 100, "lost") for _ in range(50)))
    session = bench.another(agent, peer, "s2")
    job = bench.spawn(lambda: session.prompt("hi").text())
    peer.end(peer.prompted())
    assert get(job) == ""


def _flush(bench: Bench, peer: object) -> None:
    """Give a caller in another thread or task the time to be where it waits; being late does no harm."""
    bench.event().wait(0.3)
