"""The silence of a turn is an event in its queue, in every colour; and by choice its end."""

from __future__ import annotations

from acp_core import AgentMessageChunk, Event, PermissionRequested, TurnEnded, TurnStalled
from tests.contract.harness import Bench, get
from tests.contract.test_pressure import push


def test_silence_is_reported_in_the_turn(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi", idle_timeout=0.1)
    prompt = peer.prompted()
    stalls: list[TurnStalled] = []
    heard = False
    last: Event | None = None
    for event in turn:
        last = event
        if isinstance(event, AgentMessageChunk):
            heard = True
        if isinstance(event, TurnStalled):
            stalls.append(event)
            if len(stalls) == 1:
                peer.send(peer.chunk("back"))
            elif heard:
                peer.end(prompt)
                heard = False
    assert isinstance(last, TurnEnded)
    assert len(stalls) == 2
    assert all(stall.at - stall.since >= 0.1 and not stall.cancelled for stall in stalls)
    assert stalls[0].at <= stalls[1].since


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
    turn = session.prompt("hi", idle_timeout=0.1, pending_tool_grace=0.5)
    prompt = peer.prompted()
    peer.send(peer.update("tool_call", toolCallId="t1", status="in_progress"))
    for event in turn:
        # One without it came before the tool call did, if the peer was slow.
        if isinstance(event, TurnStalled) and event.pending_tools:
            assert event.pending_tools == ("t1",)
            assert event.at - event.since >= 0.5
            peer.end(prompt)
    assert turn.result().stop_reason == "end_turn"


def test_a_question_to_this_side_is_no_silence(bench: Bench) -> None:
    release = bench.event()

    def ask(request: PermissionRequested) -> str:
        release.wait(0.9)
        return "yes"

    _agent, session, peer = bench.session(permissions=ask)
    turn = session.prompt("hi", idle_timeout=0.6, on_idle="cancel")
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
    turn = session.prompt("hi", idle_timeout=0.8, on_idle="cancel")
    prompt = peer.prompted()
    assert not push(peer, 4000)
    bench.event().wait(1.2)
    reading = bench.spawn(lambda: [event for event in turn if not isinstance(event, AgentMessageChunk)])
    peer.raw(peer.unsent)
    peer.end(prompt)
    assert [type(event).__name__ for event in get(reading)] == ["PromptSent", "TurnEnded"]
