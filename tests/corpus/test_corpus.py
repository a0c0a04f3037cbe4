"""Recorded traffic of fifteen agents, driven through a real ClientConnection and counted by a second, plain reading."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeAlias

import pytest

from acp_core import (
    AnswerUnmatched,
    ConnectionOver,
    Deviation,
    Event,
    ForeignUpdate,
    LineTooLong,
    Malformed,
    Noise,
    NotificationReceived,
    PermissionAnswered,
    ReplayDiscarded,
    RequestAbandoned,
    RequestError,
    RequestReceived,
    RequestRefused,
    RequestRepeated,
    RequestSettled,
    SessionFailed,
    SessionOpened,
    SessionReady,
    SessionStep,
    Truncated,
    TurnEnded,
    TurnFailed,
    Update,
)
from acp_core.testing import event_key
from tests.core.helpers import only
from tests.corpus.recordings import Recording, recordings
from tests.corpus.replay import Call, Player, Script, compile_script, play

NAMES = sorted(recordings())
OPENS = ("session/new", "session/load", "session/resume")
KINDS = {
    "user_message_chunk": "UserMessageChunk",
    "agent_message_chunk": "AgentMessageChunk",
    "agent_thought_chunk": "AgentThoughtChunk",
    "tool_call": "ToolCall",
    "tool_call_update": "ToolCallUpdate",
    "plan": "Plan",
    "available_commands_update": "AvailableCommandsUpdate",
    "current_mode_update": "CurrentModeUpdate",
    "config_option_update": "ConfigOptionUpdate",
    "session_info_update": "SessionInfoUpdate",
    "usage_update": "UsageUpdate",
}
# Bytes that one recording may cost byte by byte, and at its ends of input.
BYTE_BY_BYTE = 40_000
END_BUDGET = 1_000_000

Counts: TypeAlias = dict[str, Counter[str]]


# ── What a plain reading of the recording says ──────────────────────────────────────────────────────────────────────


def counted(recording: Recording, played: dict[str, str]) -> Counts:
    """What stands in a recording, by json.loads alone. ``played`` are the recorded requests that were made again."""
    counts: Counts = {
        name: Counter() for name in ("updates", "requests", "notifications", "turns", "answers", "opened", "unmatched")
    }
    session_of_prompt: dict[str, object] = {}
    cancelled: set[str] = set()
    for line in recording.lines:
        try:
            message = json.loads(line.raw)
        except ValueError:
            continue
        if not isinstance(message, dict):
            continue
        method, params = message.get("method"), message.get("params", {})
        rpc_id = json.dumps(message.get("id"))
        if not line.by_agent:
            if method == "session/prompt" and rpc_id in played:
                session_of_prompt[rpc_id] = params["sessionId"]
            elif method == "session/cancel":
                cancelled |= {id for id, session in session_of_prompt.items() if session == params["sessionId"]}
            elif method == "$/cancel_request":
                cancelled.add(json.dumps(params["requestId"]))
        elif method == "session/update":
            counts["updates"][params["update"]["sessionUpdate"]] += 1
        elif method is not None:
            counts["requests" if "id" in message else "notifications"][method] += 1
        else:
            count_answer(counts, message, played.get(rpc_id), rpc_id in cancelled)
            session_of_prompt.pop(rpc_id, None)
    return counts


def count_answer(counts: Counts, message: dict[str, dict[str, object]], method: str | None, cancelled: bool) -> None:
    failed = f"error {message['error']['code']}" if "error" in message else ""
    if method is None:
        counts["unmatched"]["unknown" if message.get("id") is not None else "no_id"] += 1
    elif method in OPENS:
        counts["opened"][f"{method} {failed or 'result'}"] += 1
    elif method != "session/prompt":
        counts["answers"][f"{method} {failed or 'result'}"] += 1
    elif failed:
        counts["turns"]["cancelled" if cancelled else failed] += 1
    else:
        counts["turns"][str(message["result"]["stopReason"])] += 1


# ── What the events say ─────────────────────────────────────────────────────────────────────────────────────────────


def told(events: list[Event]) -> Counts:
    """The same counts, from the events."""
    return {
        "updates": Counter(update_kinds(events)),
        "requests": Counter(request_methods(events)),
        "notifications": Counter(event.method for event in only(events, NotificationReceived))
        + Counter("$/cancel_request" for event in only(events, PermissionAnswered) if event.by == "peer_cancel"),
        "turns": Counter(
            [event.stop_reason for event in only(events, TurnEnded)]
            + [failure(event.error) for event in only(events, TurnFailed)]
        ),
        "answers": Counter(
            f"{event.method} {'result' if event.error is None else failure(event.error)}"
            for event in only(events, RequestSettled)
        ),
        "opened": Counter(
            f"{step.method} {'result' if step.error is None else failure(step.error)}"
            for step in only(events, SessionStep)
            if step.phase != "sent" and step.method in OPENS
        ),
        "unmatched": Counter(event.why for event in only(events, AnswerUnmatched)),
    }


def failure(error: Exception | None) -> str:
    return f"error {error.code}" if isinstance(error, RequestError) else repr(error)


def update_kinds(events: list[Event]) -> Iterator[str]:
    for event in events:
        if isinstance(event, ForeignUpdate):
            yield str(event.update["sessionUpdate"])
        elif isinstance(event, Update):
            assert type(event).__name__ == KINDS[event.kind]
            yield event.kind


def request_methods(events: list[Event]) -> Iterator[str]:
    raised = set()
    for event in events:
        if isinstance(event, RequestReceived):
            raised.add(event.request_id)
            yield event.method
        elif isinstance(event, (RequestRefused, RequestRepeated)):
            yield event.method
        elif isinstance(event, PermissionAnswered) and event.request_id not in raised:
            yield "session/request_permission"


# ── Tests ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_corpus_is_whole() -> None:
    """All recordings are here, and the driver leaves out only what the recorded client did wrong on purpose."""
    agents = Counter(recording.agent for recording in recordings().values())
    assert len(agents) == 15
    assert len(NAMES) == 268
    played = Counter(method for name in NAMES for method in compile_script(name).played.values())
    assert played == {
        "initialize": 256,
        "session/new": 190,
        "session/load": 18,
        "session/resume": 5,
        "session/prompt": 259,
        "session/close": 6,
        "session/list": 19,
        "session/delete": 3,
        "session/fork": 4,
        "session/set_mode": 12,
        "session/set_config_option": 18,
        "foo/bar": 49,
        "_vendor/thing": 13,
    }
    left_out = Counter(rule for name in NAMES for rule in compile_script(name).left_out.values())
    assert left_out == {
        # A second initialize, a relative or missing cwd, an unknown or a busy or closed session, unknown settings.
        "initialize: initialize.once": 7,
        "session/new: path.absolute": 26,
        "session/prompt: session.unknown": 13,
        "session/prompt: turn.one_at_a_time": 15,
        "session/close: session.close": 6,
        "session/set_config_option: session.config": 7,
        "session/set_mode: session.mode": 7,
        # No handshake was made, or the agent cannot load.
        "session/new: never written": 12,
        "session/load: never written": 3,
        # It is sent by open_session(model=...) only.
        "session/set_model: method.intent": 3,
    }


@pytest.mark.parametrize("name", NAMES)
def test_events_match_a_plain_reading(name: str) -> None:
    script = compile_script(name)
    player = play(script)
    expected = counted(script.recording, script.played)
    assert told(player.events) == expected
    for kind in (Noise, Malformed, LineTooLong, Deviation, Truncated, ConnectionOver):
        assert not only(player.events, kind)
    opened = only(player.events, SessionOpened)
    assert len(opened) == len(only(player.events, SessionReady))
    assert len(opened) == sum(number for what, number in expected["opened"].items() if what.endswith("result"))


@pytest.mark.parametrize("name", [name for name in NAMES if compile_script(name).prefers_load])
def test_discarded_history_is_counted(name: str) -> None:
    """What is discarded of a loaded history is what would have been reported, and nothing else is missing."""
    script = compile_script(name)
    reported = play(script).events
    discarded = play(script, replay="discard").events
    transcript = [
        event
        for event in only(reported, Update)
        if event.replayed and not event.kind.endswith(("commands_update", "mode_update", "option_update"))
        if event.kind not in ("session_info_update", "usage_update")
    ]
    counts = only(discarded, ReplayDiscarded)
    assert sum(event.count for event in counts) == len(transcript)
    assert sum(event.wire_bytes for event in counts) == sum(len(event.raw) for event in transcript)
    assert len(only(discarded, Update)) == len(only(reported, Update)) - len(transcript)


def cuts(script: Script) -> Iterator[Iterable[int]]:
    """Byte by byte where that is cheap, and two random ways."""
    if len(script.agent_data) <= BYTE_BY_BYTE:
        yield [1]
    for longest in (50, 5000):
        chance = random.Random(f"{script.recording.agent} {script.recording.name}")
        yield iter(partial(chance.randint, 1, longest), None)


@pytest.mark.parametrize("name", NAMES)
def test_events_do_not_depend_on_the_chunks(name: str) -> None:
    script = compile_script(name)
    whole = play(script)
    expected = [event_key(event, at=True) for event in whole.events]
    for sizes in cuts(script):
        player = play(script, sizes=sizes)
        assert [event_key(event, at=True) for event in player.events] == expected
        assert player.output == whole.output


@pytest.mark.parametrize("name", NAMES)
def test_events_do_not_depend_on_the_transport(name: str) -> None:
    """Message by message, as a transport that keeps boundaries gives them."""
    script = compile_script(name)
    player = Player(script)
    for step in script.steps:
        if isinstance(step, Call):
            player.call(step)
            continue
        player.advance(step.at)
        for line in step.data.split(b"\n")[:-1]:
            player.conn.receive_message(line, player.now)
        player.flush()
    assert [event_key(event, at=True) for event in player.events] == [
        event_key(event, at=True) for event in play(script).events
    ]


def end_points(script: Script) -> list[int]:
    """Every line end and every 97th byte; of the large ones an even sample that fits the budget."""
    size = len(script.agent_data)
    line_ends = [at + 1 for at, byte in enumerate(script.agent_data) if byte == 0x0A]
    points = sorted({*line_ends, *range(0, size, 97)})
    return points[:: max(1, len(points) * size // 2 // END_BUDGET)]


@pytest.mark.parametrize("name", NAMES)
def test_everything_settles_wherever_the_input_ends(name: str) -> None:
    script = compile_script(name)
    data = script.agent_data
    for cut in end_points(script):
        player = play(script, cut)
        player.end()
        check_the_end(player)
        rest = data[:cut].rpartition(b"\n")[2]
        assert len(only(player.events, Truncated)) == (rest != b"" and not is_object(rest))


def is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def check_the_end(player: Player) -> None:
    events, conn = player.events, player.conn
    assert type(events[-1]) is ConnectionOver
    assert len(only(events, ConnectionOver)) == 1
    assert (conn.state, conn.closed, conn.unread_bytes) == ("over", True, 0)
    assert (conn.open_requests, conn.open_peer_requests) == (0, 0)
    settled = only(events, RequestSettled)
    ended, failed = only(events, TurnEnded), only(events, TurnFailed)
    ids = Counter([event.id for event in settled] + [event.prompt_id for event in ended])
    ids.update(event.prompt_id for event in failed)
    # Steps of an opening plan have no id that the owner knows: their handle says how it went.
    assert ids.keys() - {1} == {*player.own_ids} - {1}
    assert max(ids.values(), default=1) == 1
    for outcome, dispatch in [(event.outcome, event.dispatch) for event in settled] + [
        (event.outcome, event.dispatch) for event in failed
    ]:
        assert outcome in ("result", "error", "over", "closed")
        assert (outcome in ("result", "error")) == (dispatch == "answered")
    ready = Counter(id(event.session) for event in only(events, SessionReady))
    refused = Counter(id(event.session) for event in only(events, SessionFailed))
    assert ready + refused == Counter(id(handle) for handle in player.handles)
    asked = [event.request_id for event in only(events, RequestReceived)]
    dropped = [event.request_id for event in only(events, RequestAbandoned)]
    dropped += [event.request_id for event in only(events, PermissionAnswered) if event.by != "policy"]
    assert len({*dropped}) == len(dropped)
    assert len({*asked}) == len(asked)
