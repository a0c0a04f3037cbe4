"""The silence of a turn is an event in its queue, in every colour; and by choice its end."""

from __future__ import annotations

from acp_core import AgentMessageChunk, PermissionRequested, TurnEnded, TurnStalled
from tests.contract.harness import Bench, get
from tests.contract.test_pressure import push


def test_silence_is_reported_in_the_turn(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi", idle_timeout=0.1)
    prompt = peer.prompted()
    peer.send(peer.chunk("one"), peer.update("tool_call", toolCallId="t1", status="completed"))
    found: list[object] = []
    for event in turn:
        found.append(event)
        if isinstance(event, TurnStalled):
            assert (event.pending_tools, event.cancelled) == ((), False)
            if len([one for one in found if isinstance(one, TurnStalled)]) == 1:
                peer.send(peer.chunk("two"))
            else:
                peer.end(prompt)
    kinds = [type(event).__name__ for event in found if isinstance(event, (AgentMessageChunk, TurnStalled, TurnEnded))]
    assert kinds[-5:] == ["AgentMessageChunk", "TurnStalled", "AgentMessageChunk", "TurnStalled", "TurnEnded"]


def test_silence_cancels_by_choice(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi", idle_timeout=0.1, on_idle="cancel")
    prompt = peer.prompted()
    peer.expect("session_cancel")
    peer.end(prompt, "cancelled")
    events = list(turn)
    assert [event.cancelled for event in events if isinstance(event, TurnStalled)] == [True]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].cancel_asked == "idle"


def test_a_tool_call_has_its_grace(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi", idle_timeout=0.05, pending_tool_grace=0.4, on_idle="cancel")
    prompt = peer.prompted()
    peer.send(peer.update("tool_call", toolCallId="t1", status="in_progress"))
    peer.expect("session_cancel")
    peer.end(prompt, "cancelled")
    (stalled,) = (event for event in turn if isinstance(event, TurnStalled))
    assert stalled.pending_tools == ("t1",)
    assert stalled.at - stalled.since >= 0.4


def test_a_question_to_this_side_is_no_silence(bench: Bench) -> None:
    release = bench.event()

    def ask(request: PermissionRequested) -> str:
        release.wait(0.5)
        return "yes"

    _agent, session, peer = bench.session(permissions=ask)
    turn = session.prompt("hi", idle_timeout=0.2, on_idle="cancel")
    prompt = peer.prompted()
    peer.send(peer.permission(1))
    # Had the silence counted, the cancel would be the first message.
    assert peer.read()["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}
    peer.expect("session_cancel")
    peer.end(prompt, "cancelled")
    assert turn.result().cancel_asked == "idle"


def test_a_reader_that_pauses_hears_no_silence(bench: Bench) -> None:
    """The agent talks, and this side does not read: that is nobody's silence."""
    _agent, session, peer = bench.session(pause_at=100_000, full_at=50_000_000)
    turn = session.prompt("hi", idle_timeout=0.2, on_idle="cancel")
    prompt = peer.prompted()
    assert not push(peer, 4000)
    bench.event().wait(0.6)
    reading = bench.spawn(lambda: [event for event in turn if not isinstance(event, AgentMessageChunk)])
    peer.raw(peer.unsent)
    peer.end(prompt)
    assert [type(event).__name__ for event in get(reading)] == ["PromptSent", "TurnEnded"]
