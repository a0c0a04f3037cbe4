"""The end of a connection, by whom and whenever: every waiter settles, nothing hangs, the reason is told."""

from __future__ import annotations

import socket
import time
from concurrent.futures import Future

import pytest

from acp_core import (
    ACPError,
    AgentMessageChunk,
    ConnectionClosed,
    ConnectionOver,
    LineTooLong,
    LocalProtocolError,
    Malformed,
    Noise,
    PermissionRequested,
    RequestError,
    Truncated,
    WriteFailed,
)
from acp_core.limits import Limits
from tests.contract.harness import AgentLike, Bench, Peer, SessionLike, get, wait_until
from tests.spec.requirements import requirement

BIG = "x" * (8 << 20)


def waiters(bench: Bench, agent: AgentLike, session: SessionLike, peer: Peer) -> list[Future[object]]:
    """One of every kind of caller that waits."""
    turn = session.prompt("hi")
    peer.prompted()
    other = bench.another(agent, peer, "s2")
    iterated = other.prompt("hi")
    peer.prompted()
    jobs: list[Future[object]] = [
        bench.spawn(turn.result),
        bench.spawn(lambda: list(iterated)),
        bench.spawn(agent.request, "_x/one"),
        bench.spawn(agent.request, "_x/two"),
        bench.spawn(agent.open_session, "/tmp"),
    ]
    for _ in range(3):
        peer.read()
    return jobs


def failures(jobs: list[Future[object]]) -> list[BaseException | None]:
    return [job.exception(20) for job in jobs]


def test_close_settles_every_waiter(bench: Bench) -> None:
    agent, session, peer = bench.session()
    jobs = waiters(bench, agent, session, peer)
    reading = bench.spawn(lambda: list(session.events()))
    agent.close()
    assert all(isinstance(failure, ConnectionClosed) for failure in failures(jobs)), failures(jobs)
    get(reading)
    assert agent.closed
    agent.close()
    cancel = peer.methods.wire("session_cancel")
    assert [(told["method"], told["params"]["sessionId"]) for told in peer.rest()] == [(cancel, "s1"), (cancel, "s2")]
    with pytest.raises(LocalProtocolError):
        session.prompt("too late")


def test_the_end_of_input_settles_every_waiter(bench: Bench) -> None:
    agent, session, peer = bench.session()
    jobs = waiters(bench, agent, session, peer)
    peer.shutdown()
    assert all(isinstance(failure, ConnectionClosed) for failure in failures(jobs)), failures(jobs)
    over = bench.wait_seen(ConnectionOver)[0]
    assert isinstance(over, ConnectionOver)
    assert over.reason == "the input ended"
    with pytest.raises(ConnectionClosed):
        session.prompt("too late")


def test_leaving_the_block_with_an_exception_settles_every_waiter(bench: Bench) -> None:
    ours, peer = bench.pair()
    jobs: list[Future[object]] = []
    with (
        pytest.raises(KeyError, match="mine"),
        bench.binding.connect(
            ours, permissions=lambda request: None, methods=bench.methods, on_event=bench.on_event
        ) as agent,
    ):
        opening = bench.spawn(agent.open_session, "/tmp")
        peer.initialized()
        peer.opened()
        jobs += waiters(bench, agent, get(opening), peer)
        raise KeyError("mine")
    assert all(isinstance(failure, ConnectionClosed) for failure in failures(jobs)), failures(jobs)


def test_end_of_input_in_the_middle_of_a_turn(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    peer.prompted()
    peer.send(peer.chunk("half an ans"))
    peer.raw(b'{"jsonrpc":"2.0","id":')
    peer.shutdown()
    found: list[str] = []
    with pytest.raises(ConnectionClosed) as caught:
        found += [event.text for event in turn if isinstance(event, AgentMessageChunk)]
    assert caught.value.dispatch == "sent_no_reply"
    bench.wait_seen(Truncated)


def test_what_came_before_the_end_is_read(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    peer.send(peer.chunk("all of it"), {"id": prompt["id"], "result": {"stopReason": "end_turn"}})
    peer.shutdown()
    bench.wait_seen(ConnectionOver)
    assert turn.text() == "all of it"


def test_a_last_answer_without_a_newline_counts(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    asked = bench.spawn(agent.request, "_x/ask")
    request = peer.read()
    peer.raw(b'{"jsonrpc":"2.0","id":%d,"result":"made it"}' % request["id"])
    peer.shutdown()
    assert get(asked) == "made it"


@requirement(74)
def test_close_answers_what_the_agent_waits_for(bench: Bench) -> None:
    asked, release = bench.event(), bench.event()

    def ask(request: PermissionRequested) -> str:
        asked.set()
        release.wait(20)
        return "yes"

    agent, session, peer = bench.session(permissions=ask)
    session.prompt("hi")
    peer.prompted()
    peer.send(peer.permission(5))
    assert asked.wait(20)
    agent.close()
    answers = peer.rest()
    assert {"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "cancelled"}}} in answers


def test_close_is_bounded_when_the_peer_never_reads(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    asked = bench.spawn(agent.request, "_x/big", {"data": BIG})
    wait_until(lambda: 0 < agent.connection.output_bytes < len(BIG))
    begin = time.monotonic()
    agent.close()
    assert isinstance(asked.exception(20), ConnectionClosed)
    assert time.monotonic() - begin < 10
    del peer


def test_close_writes_what_was_asked_before(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    agent.notify("_x/last", {"data": "x" * 100_000})
    agent.close()
    assert [message["method"] for message in peer.rest()] == ["_x/last"]


def test_noise_kills_nothing(bench: Bench) -> None:
    limits = Limits(max_line_bytes=100_000)
    agent, session, peer = bench.session(limits=limits)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    noise = [b"Loaded cached credentials.", b"null", b"42", b"[1]", b'{"a":1}', b"\xff\xfe", b"[20:18:05] Using"]
    broken = [b'{"jsonrpc":"2.0","method":', b'{"jsonrpc":"2.0","id":null,"result":1,"error":2}']
    peer.raw(b"".join(line + b"\n" for line in [*noise, *broken, b"z" * 200_000, b"", b"\r"]))
    peer.send(
        peer.update("unheard_of"),
        {"id": 999, "result": {}},
        peer.chunk("fine"),
        {"id": prompt["id"], "result": {"stopReason": "brand_new_reason"}},
    )
    assert turn.text() == "fine"
    assert turn.result().stop_reason == "brand_new_reason"
    bench.wait_seen(Noise, len(noise))
    bench.wait_seen(Malformed)
    bench.wait_seen(LineTooLong)
    assert not agent.closed


def test_a_failed_write_hears_the_agents_last_words(bench: Bench) -> None:
    """The agent reads no more, says why, and goes: the reason is not lost."""
    agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    peer.sock.shutdown(socket.SHUT_RD)
    told = bench.spawn(agent.request, "_x/unread", {"data": BIG})
    bench.wait_seen(WriteFailed)
    with pytest.raises(ConnectionClosed):
        agent.notify("_x/more")
    peer.send(peer.chunk("out of "), peer.chunk("memory"))
    peer.error(prompt, -32603, "the model is gone")
    found: list[str] = []
    with pytest.raises(RequestError, match="the model is gone"):
        found += [event.text for event in turn if isinstance(event, AgentMessageChunk)]
    peer.close()
    assert isinstance(told.exception(20), ACPError)
    bench.wait_seen(ConnectionOver)
    assert len(bench.wait_seen(WriteFailed)) == 1


def test_a_failed_write_ends_the_connection_after_a_grace(bench: Bench) -> None:
    agent, session, peer = bench.session(limits=Limits(write_grace=0.1))
    turn = session.prompt("hi")
    peer.prompted()
    peer.sock.shutdown(socket.SHUT_RD)
    bench.spawn(agent.request, "_x/unread", {"data": BIG})
    with pytest.raises(ConnectionClosed):
        turn.result()
    bench.wait_seen(ConnectionOver)


def test_the_peer_vanishes(bench: Bench) -> None:
    agent, session, peer = bench.session()
    jobs = waiters(bench, agent, session, peer)
    peer.close()
    assert all(isinstance(failure, ConnectionClosed) for failure in failures(jobs)), failures(jobs)


def test_closing_from_a_handler(bench: Bench) -> None:
    """User code that re-enters: the handler of a request closes the connection it came on."""
    done = bench.event()
    box: list[AgentLike] = []

    def close(request: object) -> None:
        box[0].close()
        done.set()

    agent, session, peer = bench.session(handlers={"_x/bye": close})
    box.append(agent)
    turn = session.prompt("hi")
    peer.prompted()
    peer.send({"id": 1, "method": "_x/bye", "params": {}})
    with pytest.raises(ConnectionClosed):
        turn.result()
    wait_until(lambda: agent.closed)
    peer.rest()


def test_prompting_from_on_event(bench: Bench) -> None:
    """User code that re-enters: on_event may use the connection, from wherever the binding calls it."""
    turns: list[object] = []

    def on_event(event: object) -> None:
        if isinstance(event, Noise) and not turns:
            turns.append(bench.spawn(lambda: session.prompt("from on_event").text()))

    _agent, session, peer = bench.session(on_event=on_event)
    peer.raw(b"noise\n")
    prompt = peer.prompted()
    peer.send(peer.chunk("ok"))
    peer.end(prompt)
    # The job may be done before on_event has noted it.
    wait_until(lambda: bool(turns))
    job = turns[0]
    assert isinstance(job, Future)
    assert job.result(20) == "ok"
