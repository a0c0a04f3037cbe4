"""Output: handing over is the moment that counts. Withdrawing, bounds, failed writes, peers that do not read."""

from __future__ import annotations

import json

import pytest

from acp_core import (
    AgentMessageChunk,
    ConnectionClosed,
    ConnectionOver,
    Limits,
    LocalProtocolError,
    PromptSent,
    RemoteProtocolError,
    RequestRefused,
    RequestSettled,
    SessionFailed,
    TurnEnded,
    TurnFailed,
    WriteFailed,
)
from tests.core.helpers import (
    AGENT_STATES,
    CLIENT_STATES,
    CWD,
    agent,
    as_line,
    chunk,
    client,
    decode_output,
    error,
    idle_client,
    names,
    one,
    only,
    permission,
    prompting_client,
    request,
    result,
)
from tests.spec.requirements import requirement

# ── Handing over ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000, 10**9])
def test_any_size_of_hand_over_gives_the_same_bytes(size: int) -> None:
    def fill() -> tuple[list[bytes], object]:
        driver, session = idle_client()
        driver.conn.notify("_a", {"text": "é" * 50})
        driver.conn.prompt(session, "hi")
        driver.conn.request("_b", deadline=5.0)
        parts = []
        while data := driver.conn.data_to_send(driver.now, size):
            assert len(data) <= size
            parts.append(data)
        assert driver.conn.output_bytes == 0
        return parts, driver.drain()

    parts, events = fill()
    driver, session = idle_client()
    driver.conn.notify("_a", {"text": "é" * 50})
    driver.conn.prompt(session, "hi")
    driver.conn.request("_b", deadline=5.0)
    assert b"".join(parts) == driver.conn.data_to_send(driver.now)
    assert [type(event) for event in driver.drain()] == [PromptSent]
    assert isinstance(events, list)
    assert [type(event) for event in events] == [PromptSent]
    assert [message.get("method") for message in decode_output(b"".join(parts))] == ["_a", "session/prompt", "_b"]


def test_there_is_nothing_to_send_when_nothing_was_said() -> None:
    driver = client()
    assert driver.conn.data_to_send(1.0) == b""
    assert driver.conn.data_to_send(1.0, 1) == b""
    assert driver.conn.output_bytes == 0


def test_a_size_that_is_none() -> None:
    driver, _ = idle_client()
    driver.conn.notify("_a")
    with pytest.raises(LocalProtocolError):
        driver.conn.data_to_send(driver.now, -1)
    for wrong in ("5", 1.5, True):
        with pytest.raises(TypeError):
            driver.conn.data_to_send(driver.now, wrong)  # type: ignore[arg-type]  # wrong on purpose
    assert [message["method"] for message in driver.sent()] == ["_a"]


def test_no_bytes_at_all_begin_durations_and_send_nothing() -> None:
    """For a write that hangs: time goes on for what waits behind it, and it can still be withdrawn."""
    driver, session = idle_client()
    driver.conn.prompt(session, "hi", deadline=5.0)
    assert driver.conn.data_to_send(driver.now, 0) == b""
    assert (driver.drain(), driver.conn.next_deadline()) == ([], 105.0)
    failed = one(driver.wait(5.0), TurnFailed)
    assert (failed.outcome, failed.dispatch) == ("deadline", "not_sent")
    assert driver.sent() == []


def test_a_prompt_is_known_before_its_bytes_are_written() -> None:
    """PromptSent is there as soon as data_to_send has returned, with the time of that call."""
    driver, session = idle_client()
    id = driver.conn.prompt(session, "hi", identity="mine", token="t")
    assert driver.drain() == []
    driver.now = 123.0
    driver.conn.data_to_send(driver.now, 1)
    event = one(driver.drain(), PromptSent)
    assert (event.prompt_id, event.at, event.session, event.turn.identity) == (id, 123.0, session, "mine")
    assert event.turn.sent_at == 123.0
    # Once a prompt.
    driver.conn.data_to_send(driver.now)
    assert driver.drain() == []


# ── Withdrawing ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_withdrawn_before_its_first_byte_writes_nothing() -> None:
    driver, session = idle_client()
    id = driver.conn.prompt(session, "hi", identity="mine", token="t")
    driver.conn.cancel_turn(session)
    failed = one(driver.drain(), TurnFailed)
    assert (failed.outcome, failed.dispatch, failed.prompt_id) == ("withdrawn", "not_sent", id)
    assert (failed.cancel_asked, failed.identity, failed.token) == ("owner", "mine", "t")
    assert driver.conn.output_bytes == 0
    assert driver.conn.data_to_send(driver.now) == b""
    assert driver.drain() == []
    assert session.state == "idle"
    # The next prompt goes out, with an id of its own.
    other = driver.conn.prompt(session, "again")
    assert other != id
    assert [message["id"] for message in driver.sent()] == [other]


def test_a_prompt_of_which_one_byte_left_goes_out_whole() -> None:
    driver, session = idle_client()
    id = driver.conn.prompt(session, "hi")
    assert driver.conn.data_to_send(driver.now, 1) == b"{"
    assert names(driver.drain()) == ["PromptSent"]
    driver.conn.cancel_turn(session)
    assert driver.drain() == []
    rest = decode_output(b"{" + driver.conn.data_to_send(driver.now))
    assert [(message["method"], message.get("id")) for message in rest] == [
        ("session/prompt", id),
        ("session/cancel", None),
    ]
    (ended,) = driver.feed(result(id, {"stopReason": "cancelled"}))
    assert isinstance(ended, TurnEnded)


def test_a_prompt_behind_other_output_can_be_withdrawn() -> None:
    """Bytes of a message before it may have left, and bytes of one behind it stay."""
    driver, session = idle_client()
    driver.conn.notify("_first")
    driver.conn.prompt(session, "hi")
    driver.conn.notify("_last")
    head = driver.conn.data_to_send(driver.now, 10)
    driver.conn.cancel_turn(session)
    assert one(driver.drain(), TurnFailed).dispatch == "not_sent"
    rest = driver.conn.data_to_send(driver.now)
    assert [message["method"] for message in decode_output(head + rest)] == ["_first", "_last"]
    assert driver.drain() == []


def test_a_request_withdrawn_before_its_first_byte_writes_nothing() -> None:
    driver, _ = idle_client()
    id = driver.conn.request("_slow", token="t")
    driver.conn.cancel_request(id)
    settled = one(driver.drain(), RequestSettled)
    assert (settled.id, settled.outcome, settled.dispatch) == (id, "withdrawn", "not_sent")
    assert (settled.cancel_asked, settled.token) == (True, "t")
    assert driver.conn.data_to_send(driver.now) == b""
    # It has settled: a second cancel is nothing, and an answer to it settles nothing.
    driver.conn.cancel_request(id)
    assert names(driver.feed(result(id, {}))) == ["AnswerUnmatched"]


def test_withdrawn_messages_do_not_pile_up() -> None:
    """A peer that never reads, and an owner that prompts and withdraws for ever."""
    driver, session = idle_client()
    driver.conn.notify("_stuck")
    for _ in range(1000):
        driver.conn.prompt(session, "hi")
        driver.conn.cancel_turn(session)
        driver.drain()
    assert len(driver.conn._output) <= 2
    assert [message["method"] for message in driver.sent()] == ["_stuck"]


# ── Bounds of the output ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_limit_of_intents_is_below_that_of_answers() -> None:
    """What the owner asks for is refused first; what the core itself has to say still fits."""
    driver, session, _ = prompting_client(limits=Limits(max_output_bytes=2000, max_output_total_bytes=4000))
    with pytest.raises(LocalProtocolError) as caught:
        while True:
            driver.conn.notify("_fill", {"text": "x" * 100})
    assert caught.value.rule == "limits.max_output_bytes"
    filled = driver.conn.output_bytes
    assert filled <= 2000
    # An automatic answer, and the cancel of a turn.
    driver.feed(request(0, "unknown/method", {}))
    driver.conn.cancel_turn(session)
    assert filled < driver.conn.output_bytes <= 4000
    sent = driver.sent()
    assert [message["method"] for message in sent if "method" in message][-1] == "session/cancel"
    # Room again.
    driver.conn.notify("_fill")


def test_a_peer_that_asks_without_end_and_never_reads() -> None:
    """Bounded memory, reading goes on, and it ends with an event that says why."""
    limits = Limits(max_output_bytes=50_000, max_output_total_bytes=60_000)
    driver, _, prompt = prompting_client(limits=limits)
    driver.feed(permission("held", "s1"))
    asked = 0
    while driver.conn.state != "over":
        lines = [request(f"{asked}.{number}", "unknown/method", {"n": number}) for number in range(50)]
        events = driver.feed(*lines, chunk("s1", "still read"))
        asked += 50
        assert driver.conn.output_bytes <= 60_000
        assert asked < 10_000
        if driver.conn.state != "over":
            assert names(events) == ["RequestRefused"] * 50 + ["AgentMessageChunk"]
    over = driver.log[-1]
    assert isinstance(over, ConnectionOver)
    assert isinstance(over.error, RemoteProtocolError)
    assert over.error.rule == "limits.max_output_total_bytes"
    assert "does not read" in over.reason
    # What was dropped is counted, and everything has settled.
    refused = len(only(driver.log, RequestRefused))
    assert 0 < over.dropped_answers < 60
    assert 50_000 < over.unwritten_bytes <= 60_000
    assert over.unread_bytes > 0 or refused == asked
    failed = one(driver.log, TurnFailed)
    assert (failed.prompt_id, failed.outcome, failed.dispatch) == (prompt, "over", "sent_no_reply")
    assert (driver.conn.open_requests, driver.conn.open_peer_requests, driver.conn.output_bytes) == (0, 0, 0)
    # Reading never waits for writing, not even now.
    assert driver.feed(request(1, "unknown/method", {})) == []
    assert driver.conn.closed


def test_a_flood_at_an_agent_ends_it_too() -> None:
    driver = agent(limits=Limits(max_output_bytes=5_000, max_output_total_bytes=6_000)).initialize()
    for number in range(200):
        driver.feed(request(number, "unknown/method", {}))
    assert names(driver.log)[-1] == "ConnectionOver"
    assert driver.conn.state == "over"


def test_a_message_past_the_bound_of_a_line_is_refused() -> None:
    driver, session = idle_client(limits=Limits(max_line_bytes=3000))
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.prompt(session, "x" * 3000)
    assert caught.value.rule == "limits.max_line_bytes"
    assert driver.sent() == []


# ── A write that failed ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failed_write_followed_by_the_agents_last_error() -> None:
    """Unsent requests settle, sent ones wait: the reason that a dying agent gives still comes through."""
    driver, _, id = prompting_client()
    other = driver.conn.request("_never_sent")
    dropped = driver.conn.output_bytes
    driver.conn.send_failed("broken pipe", driver.now)
    failed, settled = driver.drain()
    assert isinstance(failed, WriteFailed)
    assert (failed.reason, failed.dropped_bytes) == ("broken pipe", dropped)
    assert isinstance(settled, RequestSettled)
    assert (settled.id, settled.outcome, settled.dispatch) == (other, "over", "not_sent")
    assert isinstance(settled.error, ConnectionClosed)
    assert driver.conn.state == "broken"
    assert driver.conn.output_closed
    # Its last words.
    text, ended = driver.feed(chunk("s1", "out of memory"), error(id, -32603, "model crashed"))
    assert isinstance(text, AgentMessageChunk)
    assert isinstance(ended, TurnFailed)
    assert (ended.outcome, ended.dispatch, str(ended.error)) == ("error", "answered", "model crashed (-32603)")
    assert names(driver.end()) == ["ConnectionOver"]


def test_the_grace_after_a_failed_write() -> None:
    driver, _, id = prompting_client()
    driver.conn.send_failed("broken pipe", driver.now)
    driver.drain()
    assert driver.conn.next_deadline() == 102.0
    assert driver.wait(1.9) == []
    failed, over = driver.wait(0.1)
    assert isinstance(failed, TurnFailed)
    assert (failed.prompt_id, failed.outcome, failed.dispatch) == (id, "over", "sent_no_reply")
    assert isinstance(over, ConnectionOver)
    assert over.reason == "a write failed: broken pipe"
    assert driver.conn.closed


def test_nothing_can_be_said_after_a_failed_write() -> None:
    driver, session, _ = prompting_client()
    driver.conn.send_failed("gone", driver.now)
    driver.drain()
    for intent in (
        lambda: driver.conn.prompt(session, "hi"),
        lambda: driver.conn.request("_x"),
        lambda: driver.conn.notify("_x"),
        lambda: driver.conn.open_session(CWD),
        lambda: driver.conn.cancel_turn(session),
        lambda: driver.conn.close_session(session),
    ):
        with pytest.raises(LocalProtocolError):
            intent()
    # Automatic answers are dropped and counted.
    assert names(driver.feed(request(1, "unknown/method", {}))) == ["RequestRefused"]
    assert driver.conn.data_to_send(driver.now) == b""
    assert one(driver.end(), ConnectionOver).dropped_answers == 1


@pytest.mark.parametrize("name", [*CLIENT_STATES, *(f"agent {name}" for name in AGENT_STATES)])
def test_a_failed_write_in_every_state(name: str) -> None:
    """One event, no more output, no unsent request left open; and it ends by itself after the grace."""
    make = AGENT_STATES[name[6:]] if name.startswith("agent ") else CLIENT_STATES[name]
    driver = make()
    driver.drain()
    before = driver.conn.state
    driver.conn.send_failed("gone", driver.now)
    driver.conn.send_failed("again", driver.now)
    events = driver.drain()
    assert len(only(driver.log, WriteFailed)) == (before != "over")
    assert driver.conn.output_closed
    assert driver.conn.output_bytes == 0
    assert driver.conn.data_to_send(driver.now) == b""
    assert {settled.dispatch for settled in only(events, RequestSettled)} <= {"not_sent"}
    driver.wait(5.0)
    assert type(driver.log[-1]) is ConnectionOver
    assert len(only(driver.log, ConnectionOver)) == 1
    assert (driver.conn.open_requests, driver.conn.open_peer_requests) == (0, 0)
    assert driver.conn.closed


def test_an_open_that_a_failed_write_ends() -> None:
    """Sessions that wait for the handshake or for a step that never left fail at once."""
    driver = client()
    waiting = driver.conn.open_session(CWD)
    driver.conn.prompt(waiting, "hi")
    driver.conn.send_failed("gone", driver.now)
    events = driver.drain()
    assert one(events, TurnFailed).dispatch == "not_sent"
    failed = one(events, SessionFailed)
    assert (failed.session, failed.step, failed.dispatch) == (waiting, "initialize", "not_sent")
    assert waiting.state == "closed"


def test_an_open_whose_next_step_cannot_be_written() -> None:
    driver = client().initialize()
    session = driver.conn.open_session(CWD, config={"effort": "high"})
    (message,) = driver.sent()
    driver.conn.send_failed("gone", driver.now)
    option = {"id": "effort", "name": "E", "type": "select", "currentValue": "low", "options": []}
    events = driver.feed(result(message["id"], {"sessionId": "s1", "configOptions": [option]}))
    failed = one(events, SessionFailed)
    assert (failed.session, failed.step, failed.dispatch) == (session, "session_set_config_option", "not_sent")


@requirement(2, 3, 5)
def test_what_is_written_is_one_json_object_a_line() -> None:
    """No raw line end inside, whatever the text: a reader may split at any of them."""
    driver, session = idle_client()
    driver.conn.prompt(session, 'a\nb\rc\u2028d\u0085e\x00"\\\ud800😀')
    data = driver.conn.data_to_send(driver.now)
    assert data.isascii()
    assert data.splitlines() == [data[:-1]]
    params = json.loads(data)["params"]
    assert params["prompt"][0]["text"] == 'a\nb\rc\u2028d\u0085e\x00"\\\ud800😀'


def test_input_that_is_read_while_output_waits() -> None:
    """Eight megabytes of updates go through while as much output waits for the peer."""
    driver, _ = idle_client()
    for _ in range(8):
        driver.conn.notify("_big", {"text": "x" * 2**20})
    line = as_line(chunk("s1", "y" * 1000))
    driver.conn.receive_data(line * (8 * 2**20 // len(line)), driver.now)
    assert len(driver.drain()) == 8 * 2**20 // len(line)
    assert driver.conn.output_bytes > 8 * 2**20
    assert len(driver.sent()) == 8


def test_what_is_said_between_partial_hand_overs_comes_behind() -> None:
    """New messages never pass those that are being handed over, and an unsent request behind both can be withdrawn."""
    driver = agent().initialize()
    driver.sent()
    written = b""
    for number in range(50):
        driver.conn.notify("_note", {"n": number})
        driver.conn.notify("_note", {"n": number})
        written += driver.conn.data_to_send(driver.now, 70)
    unsent = driver.conn.request("_ask")
    driver.conn.cancel_request(unsent)
    written += driver.conn.data_to_send(driver.now)
    found = [message["params"] for message in map(json.loads, written.splitlines())]
    assert found == [{"n": number} for number in range(50) for _ in range(2)]
    assert not driver.conn.output_bytes
