"""Time comes in as ``now`` and goes out as a deadline: durations, order with the input, and clocks that misbehave."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from acp_core import (
    AgentMessageChunk,
    AnswerUnmatched,
    ClientConnection,
    Limits,
    LocalProtocolError,
    Policy,
    RequestSettled,
    RequestTimeout,
    SessionFenced,
    TurnEnded,
    TurnFailed,
)
from tests.core.helpers import (
    CLIENT_STATES,
    CWD,
    ClientDriver,
    agent,
    as_line,
    chunk,
    client,
    error,
    idle_client,
    names,
    one,
    only,
    prompting_client,
    result,
)

NEVER = -math.inf


def asking(deadline: float = 5.0) -> tuple[ClientDriver, int]:
    """A client with one plain request that was handed over at 100."""
    driver, _ = idle_client()
    id = driver.conn.request("_slow", deadline=deadline)
    driver.sent()
    return driver, id


# ── What an event's time is ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_event_has_the_time_of_the_input_that_completed_it() -> None:
    driver, _ = idle_client()
    first, second = as_line(chunk("s1", "a")), as_line(chunk("s1", "b"))
    driver.conn.receive_data(first[:20], 200.0)
    driver.conn.receive_data(first[20:] + second[:-1], 201.0)
    driver.conn.receive_data(second[-1:], 202.0)
    assert [event.at for event in driver.drain()] == [201.0, 202.0]


def test_a_clock_that_runs_backwards_stands_still() -> None:
    driver, _ = idle_client()
    driver.conn.receive_data(as_line(chunk("s1", "a")), 200.0)
    driver.conn.receive_data(as_line(chunk("s1", "b")), 150.0)
    driver.conn.handle_timeout(10.0)
    assert [event.at for event in driver.drain()] == [200.0, 200.0]
    # A duration counts from the latest time that was ever given.
    driver.conn.request("_slow", deadline=5.0)
    driver.conn.data_to_send(150.0)
    assert driver.conn.next_deadline() == 205.0


@pytest.mark.parametrize("no_time", [math.nan, math.inf, -math.inf, 10**400, -(10**400), -5, 0])
def test_what_is_no_time_counts_as_the_last_time(no_time: float) -> None:
    driver, id = asking()
    driver.conn.handle_timeout(no_time)
    driver.conn.receive_data(as_line(chunk("s1", "a")), no_time)
    (event,) = driver.drain()
    assert event.at == 100.0
    assert driver.conn.next_deadline() == 105.0
    driver.conn.request("_other", deadline=1.0)
    driver.conn.data_to_send(no_time)
    assert driver.conn.next_deadline() == 101.0
    # Time goes on afterwards.
    assert [settled.id for settled in only(driver.wait(5.0), RequestSettled)] == [id + 1, id]


def negative_input(conn: ClientConnection) -> None:
    conn.receive_data(as_line(chunk("s1", "x")), -50.0)


def negative_output(conn: ClientConnection) -> None:
    conn.data_to_send(-50.0)


@pytest.mark.parametrize("first", [negative_input, negative_output])
def test_a_clock_may_begin_below_zero(first: Callable[[ClientConnection], None]) -> None:
    """Any monotonic clock: the first time that is given is the first, whatever its sign."""
    conn = ClientConnection(nonce="n")
    conn.initialize(deadline=5.0)
    first(conn)
    conn.data_to_send(-50.0)
    assert conn.next_deadline() in (-45.0, NEVER)
    list(conn.events())
    assert conn.next_deadline() == -45.0
    # From there on it stands still when it runs backwards, also below zero.
    conn.handle_timeout(-60.0)
    conn.handle_timeout(-45.5)
    assert list(conn.events()) == []
    conn.handle_timeout(-45.0)
    (settled,) = conn.events()
    assert (settled.at, conn.state) == (-45.0, "overdue")
    # A first time that is none is not the first.
    conn = ClientConnection(nonce="n")
    for no_time in (math.nan, math.inf, -math.inf, -(10**400)):
        conn.data_to_send(no_time)
    conn.receive_data(as_line(chunk("s1", "x")), -7)
    (event,) = conn.events()
    assert event.at == -7.0
    # And one that was given is: nothing comes before it.
    conn = ClientConnection(nonce="n")
    conn.receive_data(as_line(chunk("s1", "x")), 3.0)
    conn.receive_data(as_line(chunk("s1", "x")), -7.0)
    assert [event.at for event in conn.events()] == [3.0, 3.0]


def test_what_lasts_is_measured_below_zero_too() -> None:
    """The window of a replayed tail, and the rate of error answers."""
    conn = ClientConnection(nonce="n")
    conn.attach("s1", None, deadline=None, tail_quiet=0.5)
    conn.data_to_send(-50.0)
    conn.handle_timeout(-49.0)
    assert names(conn.events()) == ["TailOver"]
    serving = agent(limits=Limits(error_answer_burst=2, error_answer_rate=1.0))
    serving.now = -50.0
    serving.feed("noise", "noise", "noise")
    assert len(serving.sent()) == 2
    serving.now += 1.0
    serving.feed("noise")
    assert len(serving.sent()) == 1


def test_a_whole_number_of_seconds_is_a_time() -> None:
    driver, _ = idle_client()
    driver.conn.receive_data(as_line(chunk("s1", "a")), 200)
    (event,) = driver.drain()
    assert event.at == 200.0
    assert type(event.at) is float


@pytest.mark.parametrize("wrong", [None, "1.0", True, 1j, [1.0]])
@pytest.mark.parametrize(
    "call",
    [
        lambda conn, now: conn.receive_data(b"x", now),
        lambda conn, now: conn.receive_data(b"", now),
        lambda conn, now: conn.receive_message(b"x", now),
        lambda conn, now: conn.receive_eof(now),
        lambda conn, now: conn.handle_timeout(now),
        lambda conn, now: conn.data_to_send(now),
        lambda conn, now: conn.send_failed("gone", now),
    ],
)
def test_a_time_of_a_wrong_type_is_the_callers_fault(
    call: Callable[[ClientConnection, object], None], wrong: object
) -> None:
    driver, _ = idle_client()
    with pytest.raises(TypeError):
        call(driver.conn, wrong)
    assert driver.drain() == []
    assert (driver.conn.state, driver.conn.unread_bytes) == ("open", 0)


# ── Durations ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_duration_begins_when_the_bytes_are_handed_over() -> None:
    """An intent does not know the time: a thousand idle seconds before it are not counted."""
    driver, session, id = prompting_client()
    driver.now += 1000.0
    driver.conn.cancel_turn(session, deadline=2.0)
    assert driver.conn.next_deadline() == NEVER
    driver.sent()
    driver.drain()
    assert driver.conn.next_deadline() == 1102.0
    assert driver.wait(1.9) == []
    (ended,) = driver.feed(result(id, {"stopReason": "cancelled"}))
    assert isinstance(ended, TurnEnded)
    assert driver.conn.next_deadline() is None


def test_a_cancel_after_long_silence_and_no_answer() -> None:
    driver, session, id = prompting_client()
    driver.now += 1000.0
    driver.conn.cancel_turn(session, deadline=2.0)
    driver.sent()
    driver.drain()
    failed, fenced = driver.wait(2.0)
    assert isinstance(failed, TurnFailed)
    assert (failed.outcome, failed.dispatch, failed.at) == ("deadline", "sent_no_reply", 1102.0)
    assert isinstance(fenced, SessionFenced)
    assert fenced.prompt_id == id


def test_a_request_that_is_never_handed_over_has_no_deadline_yet() -> None:
    driver, _ = idle_client()
    id = driver.conn.request("_slow", deadline=5.0)
    assert driver.wait(1e6) == []
    driver.sent()
    settled = one(driver.wait(5.0), RequestSettled)
    assert (settled.id, settled.outcome, settled.dispatch) == (id, "deadline", "sent_no_reply")


def test_a_deadline_before_the_bytes_could_leave() -> None:
    """Time runs for what waits behind other output; when it is over, the bytes are withdrawn."""
    driver, _ = idle_client()
    driver.conn.notify("_big", {"text": "x" * 1000})
    id = driver.conn.request("_slow", deadline=5.0, token="t")
    driver.conn.data_to_send(driver.now, 10)
    settled = one(driver.wait(5.0), RequestSettled)
    assert (settled.id, settled.outcome, settled.dispatch, settled.token) == (id, "deadline", "not_sent", "t")
    assert isinstance(settled.error, RequestTimeout)
    rest = driver.conn.data_to_send(driver.now)
    assert rest.count(b"\n") == 1
    assert b"_slow" not in rest


def test_when_a_deadline_passes_the_peer_is_told_once() -> None:
    driver, id = asking()
    driver.wait(5.0)
    assert [(message["method"], message["params"]) for message in driver.sent()] == [
        ("$/cancel_request", {"requestId": id})
    ]
    driver, id = asking()
    driver.conn.cancel_request(id)
    driver.sent()
    driver.wait(5.0)
    assert driver.sent() == []


@pytest.mark.parametrize("seconds", [0, -1, -0.5, math.nan, math.inf, -math.inf, 10**400])
@pytest.mark.parametrize(
    "call",
    [
        lambda conn, seconds: conn.request("_x", deadline=seconds),
        lambda conn, seconds: conn.prompt("s1", "hi", deadline=seconds),
        lambda conn, seconds: conn.cancel_turn("s1", deadline=seconds),
        lambda conn, seconds: conn.close_session("s1", deadline=seconds),
        lambda conn, seconds: conn.open_session(CWD, step_deadline=seconds),
        lambda conn, seconds: conn.open_session(CWD, authenticate_deadline=seconds),
        lambda conn, seconds: conn.open_session(CWD, replay_quiet=seconds),
        lambda conn, seconds: conn.open_session(CWD, replay_max=seconds),
        lambda conn, seconds: conn.set_mode("s1", "m", deadline=seconds),
        lambda conn, seconds: conn.set_config_option("s1", "c", "v", deadline=seconds),
        lambda conn, seconds: Policy(ask_deadline=seconds),
    ],
)
def test_a_duration_that_is_none_is_refused(call: Callable[[ClientConnection, float], object], seconds: float) -> None:
    driver = client().initialize()
    driver.open(
        setup={
            "modes": {"currentModeId": "m", "availableModes": [{"id": "m", "name": "M"}]},
            "configOptions": [{"id": "c", "name": "C", "type": "select", "currentValue": "v", "options": []}],
        }
    )
    with pytest.raises(LocalProtocolError):
        call(driver.conn, seconds)
    assert driver.sent() == []


@pytest.mark.parametrize("seconds", ["5", True, [5.0]])
def test_a_duration_of_a_wrong_type_is_the_callers_fault(seconds: object) -> None:
    driver, _ = idle_client()
    with pytest.raises(TypeError):
        driver.conn.request("_x", deadline=seconds)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError):
        driver.conn.open_session(CWD, step_deadline=None)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError):
        Policy(ask_deadline=seconds)  # type: ignore[arg-type]  # wrong on purpose
    assert driver.sent() == []


# ── Time and input ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_that_was_received_before_the_timeout_is_in_time() -> None:
    """A deadline fires only where a handle_timeout is reached, whatever time the answer was read at."""
    driver, id = asking(5.0)
    driver.conn.receive_data(as_line(result(id, {"ok": 1})), 300.0)
    driver.conn.handle_timeout(300.0)
    settled = one(driver.drain(), RequestSettled)
    assert (settled.outcome, settled.result, settled.at) == ("result", {"ok": 1}, 300.0)


def test_the_deadline_of_one_and_the_answer_to_another_in_one_read() -> None:
    driver, first = asking(5.0)
    second = driver.conn.request("_other", deadline=6.0)
    driver.sent()
    driver.conn.receive_data(as_line(result(second, 2)) + as_line(chunk("s1", "x")), 110.0)
    driver.conn.handle_timeout(110.0)
    events = driver.drain()
    assert names(events) == ["RequestSettled", "AgentMessageChunk", "RequestSettled"]
    assert [(event.id, event.outcome) for event in only(events, RequestSettled)] == [
        (second, "result"),
        (first, "deadline"),
    ]


def test_a_response_behind_a_timeout_is_late() -> None:
    driver, id = asking(5.0)
    driver.conn.handle_timeout(105.0)
    driver.conn.receive_data(as_line(result(id, 1)), 105.0)
    settled, late = driver.drain()
    assert isinstance(settled, RequestSettled)
    assert settled.outcome == "deadline"
    assert isinstance(late, AnswerUnmatched)
    assert late.why == "late"


def test_timeouts_keep_their_place_in_the_input() -> None:
    """One update before each of two deadlines, both worked off at once."""
    driver, _ = idle_client()
    for seconds in (1.0, 2.0):
        driver.conn.request("_slow", deadline=seconds, token=seconds)
    driver.sent()
    for now in (101.0, 102.0):
        driver.conn.receive_data(as_line(chunk("s1", str(now))), now)
        driver.conn.handle_timeout(now)
    events = driver.drain()
    assert names(events) == ["AgentMessageChunk", "RequestSettled", "AgentMessageChunk", "RequestSettled"]
    assert [event.at for event in events] == [101.0, 101.0, 102.0, 102.0]


def test_an_early_timeout_is_nothing() -> None:
    driver, _ = asking(5.0)
    for now in (100.0, 101.0, 104.999):
        driver.conn.handle_timeout(now)
        assert driver.conn.unread_bytes == 0
        assert driver.conn.next_deadline() == 105.0
        assert driver.drain() == []
    assert names(driver.wait(5.0)) == ["RequestSettled"]


def test_many_timeouts_behind_unread_input_are_one() -> None:
    """Nobody drains, and the timer goes on calling: no memory, and the last time counts."""
    driver, _ = asking(5.0)
    line = as_line(chunk("s1", "x"))
    driver.conn.receive_data(line, 101.0)
    for step in range(10_000):
        driver.conn.handle_timeout(101.0 + step)
    assert driver.conn.unread_bytes == len(line)
    chunks, settled = driver.drain()
    assert isinstance(chunks, AgentMessageChunk)
    assert settled.at == 101.0 + 9_999


# ── next_deadline ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_next_deadline_says_when_and_whether_to_wait() -> None:
    driver, _ = idle_client()
    assert driver.conn.next_deadline() is None
    # Unread input: work it off first.
    driver.conn.receive_data(as_line(chunk("s1", "x")), driver.now)
    assert driver.conn.next_deadline() == NEVER
    driver.drain()
    assert driver.conn.next_deadline() is None
    # A duration that has not begun: take the output first.
    id = driver.conn.request("_slow", deadline=5.0)
    assert driver.conn.next_deadline() == NEVER
    driver.sent()
    assert driver.conn.next_deadline() == 105.0
    # The earliest of several.
    driver.conn.request("_slow", deadline=3.0)
    driver.sent()
    assert driver.conn.next_deadline() == 103.0
    driver.feed(error(id + 1, -1))
    assert driver.conn.next_deadline() == 105.0
    # An event that waits to be pulled.
    driver.conn.send_failed("gone", driver.now)
    assert driver.conn.next_deadline() == NEVER
    driver.drain()
    assert driver.conn.next_deadline() == 102.0


def test_half_a_line_is_no_reason_to_hurry() -> None:
    driver, _ = idle_client()
    driver.conn.receive_data(b'{"jsonrpc":', driver.now)
    assert driver.drain() == []
    assert driver.conn.next_deadline() is None
    assert driver.conn.unread_bytes == 0


@pytest.mark.parametrize("state", CLIENT_STATES)
def test_a_loop_that_follows_next_deadline_comes_to_rest(state: str) -> None:
    """In every state: drain, hand over, wait for the deadline it names. It ends with nothing to wait for."""
    driver = CLIENT_STATES[state]()
    for _ in range(20):
        driver.sent()
        driver.drain()
        if driver.conn.state == "over":
            break
        due = driver.conn.next_deadline()
        if due is None:
            break
        if due > driver.now:
            driver.now = due
        driver.conn.handle_timeout(driver.now)
    assert driver.conn.next_deadline() == (NEVER if driver.conn.state == "over" else None)


# ── The agent's side ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_permission_of_an_agent_has_a_deadline_of_its_own() -> None:
    driver = agent().initialize()
    driver.open()
    driver.prompt()
    id = driver.conn.ask_permission(
        "s1", {"toolCallId": "c"}, [{"optionId": "a", "name": "A", "kind": "allow_once"}], deadline=9
    )
    driver.sent()
    assert driver.conn.next_deadline() == 109.0
    settled = one(driver.wait(9.0), RequestSettled)
    assert (settled.id, settled.outcome, settled.dispatch) == (id, "deadline", "sent_no_reply")
    assert [message["method"] for message in driver.sent()] == ["$/cancel_request"]
