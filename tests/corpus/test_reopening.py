"""Recorded session/load and session/resume of real agents: whatever the order, an owner stores what was live, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest

from acp_core import ClientConnection, Event, ReplayDiscarded, Session, SessionReady, Update
from acp_core.transcript import Transcript
from tests.corpus.recordings import Line, recordings
from tests.corpus.replay import compile_script, play

if TYPE_CHECKING:
    from acp_core.options import ReplayChoice

TRANSCRIPT = (
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
)
# What came from the request to the next prompt: t is a piece of the transcript, s the whole of some state, q a request
# of the agent, R the answer, E a refusal.
ORDERS = {
    "claude-agent-acp/04a_load": "tttttRs",
    "claude-agent-acp/04b_resume": "Rs",
    "claude-agent-acp/04c_load_unknown": "E",
    "codex-acp-zed/04a_load": "tttttRs",
    "codex-acp-zed/04b_resume": "Rs",
    "codex-acp-zed/04c_load_unknown": "E",
    "codex-acp/04a_load": "ssttttttRss",
    "codex-acp/04b_resume": "sRss",
    "codex-acp/04c_load_unknown": "E",
    "copilot/04a_load": "tttttttRss",
    "copilot/04c_load_unknown": "E",
    "fast-agent/04a_load": "sstttR",
    "fast-agent/04b_resume": "sstttttR",
    "fast-agent/04c_load_unknown": "E",
    "gemini/04a_load": "tRttttts",
    "gemini/04c_load_unknown": "E",
    "opencode/04a_load": "tttttRs",
    "opencode/04b_resume": "Rs",
    "opencode/04c_load_unknown": "E",
    "pi-acp/04a_load": "tttttRss",
    "pi-acp/04c_load_unknown": "E",
    "py-sdk-echo/04c_load_unknown": "R",
    "py-sdk-example/04c_load_unknown": "R",
    "ts-sdk-example/04c_load_unknown": "E",
    "vibe/04a_load": "sttttsRs",
    "vibe/04c_load_unknown": "E",
}
REOPENED = [name for name, order in ORDERS.items() if "R" in order and not name.startswith("py-sdk")]


class Reopening:
    """One reopening in a recording: its lines, from the request to the next prompt of its session."""

    def __init__(self, lines: tuple[Line, ...], start: int) -> None:
        request = json.loads(lines[start].raw)
        self.method = str(request["method"])
        self.session_id = str(request["params"]["sessionId"])
        self.order = ""
        self.history: list[str] = []
        self.state: list[str] = []
        self.answer: object = None
        self.end = len(lines)
        for index, line in enumerate(lines[start + 1 :], start + 1):
            message = read(line.raw)
            params = message.get("params")
            mine = isinstance(params, dict) and params.get("sessionId") == self.session_id
            if not line.by_agent:
                if message.get("method") == "session/prompt" and mine:
                    self.end = index
                    break
            elif message.get("id") == request["id"] and "method" not in message:
                self.answer = message.get("result")
                self.order += "R" if "result" in message else "E"
            elif "id" in message and "method" in message:
                self.order += "q"
            elif message.get("method") == "session/update" and mine:
                transcript = params["update"]["sessionUpdate"] in TRANSCRIPT  # type: ignore[index]  # it is a dict
                self.order += "t" if transcript else "s"
                (self.history if transcript else self.state).append(line.raw)


def read(raw: str) -> dict[str, object]:
    try:
        message = json.loads(raw)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


@cache
def reopenings() -> dict[str, Reopening]:
    found = {}
    for name, recording in recordings().items():
        for index, line in enumerate(recording.lines):
            if not line.by_agent and read(line.raw).get("method") in ("session/load", "session/resume"):
                assert name not in found, "one reopening a recording"
                found[name] = Reopening(recording.lines, index)
    return found


def pieces(events: list[Event], mark: str) -> list[str]:
    """The lines of transcript updates with a mark."""
    updates = [event for event in events if isinstance(event, Update)]
    return [update.raw.decode() for update in updates if update.kind in TRANSCRIPT and update.mark == mark]


def test_every_order_that_was_seen_is_here() -> None:
    assert {name: found.order for name, found in reopenings().items()} == ORDERS


@pytest.mark.parametrize("name", REOPENED)
def test_a_stored_transcript_is_never_doubled_and_a_reported_one_is_complete(name: str) -> None:
    found = reopenings()[name]
    lines = recordings()[name].lines
    said = [
        line.raw
        for line in lines
        if line.by_agent and read(line.raw).get("method") == "session/update"
        if read(line.raw)["params"]["update"]["sessionUpdate"] in TRANSCRIPT  # type: ignore[index]  # as recorded
    ]
    live = [*said]
    for raw in found.history:
        # Where a replayed line is equal to the live one before, the later one is the replayed one.
        del live[len(live) - 1 - live[::-1].index(raw)]
    discarded = play(compile_script(name), replay="discard").events
    assert pieces(discarded, "") == live
    assert pieces(discarded, "replayed") == []
    assert sum(event.count for event in discarded if isinstance(event, ReplayDiscarded)) == len(found.history)
    reported = play(compile_script(name), replay="report").events
    assert pieces(reported, "") == live
    assert pieces(reported, "replayed") == found.history


def orders(found: Reopening) -> Iterator[list[str]]:
    """The answer at every place among what was replayed; behind a resume nothing is history any more."""
    # The handshake has id 1, the prompt that waits 2.
    answer = json.dumps({"jsonrpc": "2.0", "id": 3, "result": found.answer})
    places = range(len(found.history) + 1) if found.method == "session/load" else (len(found.history),)
    for place in places:
        yield [*found.history[:place], answer, *found.history[place:], *found.state]


@pytest.mark.parametrize("name", REOPENED)
@pytest.mark.parametrize("replay", ["discard", "report"])
@pytest.mark.parametrize("whole", [True, False], ids=["one read", "line by line"])
def test_the_stored_transcript_is_the_same_in_every_order(name: str, replay: ReplayChoice, whole: bool) -> None:
    found = reopenings()[name]
    tails = [line.raw for line in recordings()[name].lines[found.end :] if line.by_agent]
    turn = [raw for raw in tails if read(raw).get("method") == "session/update"]
    stored = set()
    for lines in orders(found):
        conn = ClientConnection(nonce="orders")
        load = found.method == "session/load"
        able = {"loadSession": load, "sessionCapabilities": {"resume": None if load else {}}}
        session = conn.open_session("/work", resume=found.session_id, replay=replay)
        conn.prompt(session, "go on")
        agreed = {"protocolVersion": 1, "agentCapabilities": able}
        events = feed(conn, 0.0, [json.dumps({"jsonrpc": "2.0", "id": 1, "result": agreed})])
        for index, part in enumerate([lines] if whole else [[line] for line in lines]):
            # As slowly as the quiet time allows.
            events += feed(conn, 0.2 * index, part)
        conn.handle_timeout(1000.0)
        conn.data_to_send(1000.0)
        events += conn.events()
        ready = [event for event in events if isinstance(event, SessionReady)]
        assert [event.replayed for event in ready] == [len(found.history)]
        assert session.state == "prompting"
        events += feed(conn, 1001.0, turn)
        assert pieces(events, "replayed") == (found.history if replay == "report" else [])
        assert pieces(events, "") == [raw for raw in turn if raw in pieces_of(turn, session)]
        transcript = Transcript()
        for event in events:
            transcript.add(event)
        stored.add(transcript.to_text())
    # The words are the same too, not just the lines.
    assert len(stored) == 1


def pieces_of(lines: list[str], session: Session) -> list[str]:
    """The transcript updates of a session among some lines."""
    found = []
    for raw in lines:
        params = read(raw)["params"]
        assert isinstance(params, dict)
        if params["sessionId"] == session.session_id and params["update"]["sessionUpdate"] in TRANSCRIPT:
            found.append(raw)
    return found


def feed(conn: ClientConnection, now: float, lines: list[str]) -> list[Event]:
    conn.data_to_send(now)
    conn.receive_data(b"".join(line.encode() + b"\n" for line in lines), now)
    events = list(conn.events())
    conn.data_to_send(now)
    return events + list(conn.events())
