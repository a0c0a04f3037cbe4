"""Going on where an earlier owner stopped: its snapshots, its sessions and turns, and the replayed tail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acp_core import (
    AgentMessageChunk,
    ConnectionClosed,
    LocalProtocolError,
    RequestTimeout,
    TailOver,
    TurnEnded,
    Update,
    compare_tail,
)
from tests.contract.harness import Bench, JsonObject, Peer, get, wait_until

TAIL: dict[str, Any] = {"tail_quiet": 0.05}


def kept(*messages: JsonObject) -> bytes:
    """What a relay has kept of the agent's output."""
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


def first_owner(bench: Bench) -> tuple[dict[str, object], list[bytes], int, JsonObject]:
    """An owner that dies with a turn in flight and a permission open: its snapshot, the lines it stored, the id of its
    prompt and the question."""
    snapshots: list[dict[str, object]] = []
    sizes: list[int] = []

    def store(snapshot: dict[str, object], size: int) -> None:
        snapshots.append(json.loads(json.dumps(snapshot)))
        sizes.append(size)

    asked, release = bench.event(), bench.event()

    def ask(request: object) -> None:
        asked.set()
        release.wait(20)

    agent, session, peer = bench.session(on_snapshot=store, permissions=ask)
    turn = session.prompt("hi", identity="job")
    prompt = peer.prompted()
    # Each was stored before its bytes left: the prompt that has come stands in one, and its size is that of the write.
    assert snapshots[-1]["sessions"] == [
        {
            "sessionId": "s1",
            "cwd": "/tmp",
            "promptId": prompt["id"],
            "identity": "job",
            "openedId": None,
            "historyLeft": 0,
        }
    ]
    assert sizes[-1] == len(json.dumps(prompt, separators=(",", ":"))) + 1
    question = peer.permission(0)
    peer.send(peer.chunk("seen"), question)
    stored = [next(event.raw for event in turn if isinstance(event, Update))]
    assert asked.wait(20)
    # The last one; its answers come too late.
    last = json.loads(json.dumps(agent.snapshot()))
    peer.close()
    release.set()
    with pytest.raises(ConnectionClosed):
        turn.result()
    return last, stored, prompt["id"], question


def test_an_owner_goes_on_with_the_turn_of_an_earlier_one(bench: Bench) -> None:
    snapshot, stored, prompt_id, question = first_owner(bench)
    ours, peer = bench.pair()
    peer.raw(kept(peer.chunk("seen"), question, peer.chunk("missed")))
    again: list[dict[str, object]] = []
    agent, peer = restored(bench, ours, peer, snapshot, on_snapshot=lambda value, size: again.append(value))
    ((session, turn),) = agent.restored
    assert turn is not None
    assert (session.session_id, turn.prompt_id) == ("s1", prompt_id)
    bench.wait_seen(TailOver)
    # Its question is answered by its old id; the first byte that was written is a newline.
    (row,) = open_requests(snapshot)
    agent.answer_permission(row, "yes")
    assert peer.sock.recv(1) == b"\n"
    assert peer.read() == {"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}
    peer.send(peer.chunk("live"), {"id": prompt_id, "result": {"stopReason": "end_turn"}})
    *updates, ended = turn
    assert isinstance(ended, TurnEnded)
    assert ended.identity == "job"
    tail = [event for event in updates if isinstance(event, Update) and event.mark == "tail"]
    found = compare_tail(stored, [event.raw for event in tail])
    assert (found.overlap, found.ambiguous, found.gap) == (1, False, False)
    # Where the tail ends stands between what was replayed and what is live.
    assert [type(event) for event in updates[len(tail) :]] == [TailOver, AgentMessageChunk]
    news = [*tail[found.overlap :], *(event for event in updates if event not in tail)]
    assert [event.text for event in news if isinstance(event, AgentMessageChunk)] == ["missed", "live"]
    assert again[-1]["openRequests"] == []
    # The session takes the next prompt, and the connection opens others without another handshake.
    job = bench.spawn(lambda: session.prompt("more").result())
    following = peer.prompted()
    assert following["id"] > prompt_id
    peer.end(following)
    assert get(job).stop_reason == "end_turn"
    assert bench.another(agent, peer, "s2").session_id == "s2"


def restored(bench: Bench, ours: Any, peer: Peer, snapshot: dict[str, object], **options: Any) -> tuple[Any, Peer]:
    how = {"permissions": lambda request: None, "methods": bench.methods, "on_event": bench.on_event, **TAIL, **options}
    return bench.stack.enter_context(bench.binding.connect(ours, restore=snapshot, close_grace=0.5, **how)), peer


def open_requests(snapshot: dict[str, object]) -> list[str]:
    return [str(row["requestId"]) for row in rows(snapshot, "openRequests")]


def test_every_request_of_an_earlier_owner_can_be_answered(bench: Bench) -> None:
    """Not permissions alone: with a result or an error, by the ids of the snapshot."""
    held, release = bench.event(), bench.event()

    def hold(request: object) -> None:
        held.set()
        release.wait(20)

    agent, session, peer = bench.session(handlers={"_x/one": hold, "_x/two": hold})
    session.prompt("hi")
    prompt = peer.prompted()
    asked = [{"id": id, "method": f"_x/{id}", "params": {"sessionId": "s1"}} for id in ("one", "two")]
    peer.send(*asked)
    wait_until(lambda: agent.connection.open_peer_requests == 2)
    assert held.wait(20)
    snapshot = json.loads(json.dumps(agent.snapshot()))
    agent.close(cancel=False)
    release.set()
    assert peer.rest() == []
    ours, peer = bench.pair()
    peer.raw(kept(*asked))
    agent, peer = restored(bench, ours, peer, snapshot)
    bench.wait_seen(TailOver)
    one, two = open_requests(snapshot)
    agent.respond(one, {"answer": 42})
    agent.respond_error(two, -32000, "no", {"why": "late"})
    assert peer.sock.recv(1) == b"\n"
    assert peer.read() == {"jsonrpc": "2.0", "id": "one", "result": {"answer": 42}}
    assert peer.read()["error"] == {"code": -32000, "message": "no", "data": {"why": "late"}}
    with pytest.raises(LocalProtocolError) as caught:
        agent.respond(one)
    assert caught.value.rule == "request.answered"
    peer.end({"id": prompt["id"]})
    ((_, turn),) = agent.restored
    assert turn is not None
    assert turn.result().stop_reason == "end_turn"


def test_an_owner_that_hands_over_leaves_its_turns_to_the_next_one(bench: Bench) -> None:
    snapshots: list[dict[str, object]] = []
    asked, release = bench.event(), bench.event()

    def ask(request: object) -> None:
        asked.set()
        release.wait(20)

    agent, session, peer = bench.session(on_snapshot=lambda value, size: snapshots.append(value), permissions=ask)
    result = bench.spawn(session.prompt("hi").result)
    prompt = peer.prompted()
    question = peer.permission(0)
    peer.send(peer.chunk("seen"), question)
    assert asked.wait(20)
    snapshot = json.loads(json.dumps(agent.snapshot()))
    agent.close(cancel=False)
    release.set()
    assert agent.closing.closed
    assert agent.closing.failures == {}
    assert isinstance(result.exception(20), ConnectionClosed)
    # No cancel, no answer; and what was stored last is still what the next owner needs.
    assert peer.rest() == []
    assert [row["promptId"] for row in rows(snapshots[-1], "sessions")] == [prompt["id"]]
    ours, peer = bench.pair()
    peer.raw(kept(peer.chunk("seen"), question))
    agent, peer = restored(bench, ours, peer, snapshot)
    ((_, turn),) = agent.restored
    assert turn is not None
    bench.wait_seen(TailOver)
    agent.answer_permission(open_requests(snapshot)[0], "yes")
    assert peer.sock.recv(1) == b"\n"
    assert peer.read()["id"] == 0
    peer.send({"id": prompt["id"], "result": {"stopReason": "end_turn"}})
    assert turn.result().stop_reason == "end_turn"


def test_what_is_said_is_written_before_a_hand_over(bench: Bench) -> None:
    agent, session, peer = bench.session()
    session.prompt("x" * 1_000_000)
    job = bench.spawn(agent.close, cancel=False)
    assert len(peer.prompted()["params"]["prompt"][0]["text"]) == 1_000_000
    get(job)
    assert peer.rest() == []


def rows(snapshot: dict[str, object], name: str) -> list[dict[str, object]]:
    found: Any = snapshot[name]
    return [*found]


def test_a_turn_whose_end_is_gone_does_not_hang(bench: Bench) -> None:
    snapshot, _, _, _ = first_owner(bench)
    ours, peer = bench.pair()
    agent, peer = restored(bench, ours, peer, snapshot, attach_deadline=0.1)
    ((session, turn),) = agent.restored
    with pytest.raises(RequestTimeout):
        turn.result()
    assert session.state == "fenced"


def test_what_cannot_be_stored_is_not_written(bench: Bench) -> None:
    def store(snapshot: dict[str, object], size: int) -> None:
        raise OSError("no space left")

    agent, peer = bench.connect(on_snapshot=store)
    opening = bench.spawn(agent.open_session, "/tmp")
    # Before the handshake there is nothing to store.
    peer.initialized()
    with pytest.raises(ConnectionClosed, match="no space left"):
        get(opening)
    assert agent.closed
    agent.close()
    assert peer.rest() == []
