"""The silence of a turn: when it is reported, when it is none, and what a prompt may have done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from acp_core import (
    AgentMessageChunk,
    LocalProtocolError,
    PermissionRequested,
    Policy,
    PromptSent,
    ReadTextFileRequested,
    RequestTimeout,
    Session,
    TurnEnded,
    TurnFailed,
    TurnStalled,
)
from tests.core.helpers import ClientDriver, chunk, idle_client, names, one, only, permission, request, result, update

if TYPE_CHECKING:
    from acp_core.options import OnIdle


def watched(
    idle_timeout: float = 10.0, pending_tool_grace: float = 100.0, on_idle: OnIdle = "report", **how: object
) -> tuple[ClientDriver, Session, int]:
    """A running turn whose silence is looked after; its prompt left at 100.0."""
    driver, session = idle_client(**how)  # type: ignore[arg-type]  # passed through
    id = driver.conn.prompt(
        session, "hi", idle_timeout=idle_timeout, pending_tool_grace=pending_tool_grace, on_idle=on_idle
    )
    driver.sent()
    driver.drain()
    assert driver.now == 100.0
    return driver, session, id


def silences(driver: ClientDriver, seconds: float, step: float = 0.5) -> list[tuple[float, float]]:
    """What is reported while so much time passes in which nothing comes: when, and since when."""
    found: list[tuple[float, float]] = []
    end = driver.now + seconds
    while driver.now < end:
        found += [(event.at, event.since) for event in only(driver.wait(step), TurnStalled)]
        driver.sent()
    return found


# ── When it is reported ─────────────────────────────────────────────────────────────────────────────────────────────


def test_silence_after_the_prompt() -> None:
    driver, session, id = watched()
    assert driver.wait(9.99) == []
    (event,) = driver.wait(0.01)
    assert isinstance(event, TurnStalled)
    assert (event.session, event.prompt_id, event.at, event.since) == (session, id, 110.0, 100.0)
    assert (event.pending_tools, event.cancelled, event.identity) == ((), False, None)
    assert event.turn is session.turn
    assert driver.sent() == []
    driver.feed(result(id, {"stopReason": "end_turn"}))
    assert session.state == "idle"


def test_once_a_silence() -> None:
    driver, _session, _id = watched()
    assert silences(driver, 100) == [(110.0, 100.0)]
    # The next silence is another one, counted from the last update.
    driver.feed(chunk("s1", "back"))
    assert silences(driver, 100) == [(210.0, 200.0)]


def test_every_update_puts_it_off() -> None:
    driver, _session, _id = watched()
    for _ in range(50):
        assert only(driver.wait(9.9), TurnStalled) == []
        driver.feed(chunk("s1", "x"))
    assert only(driver.wait(9.9), TurnStalled) == []
    (event,) = only(driver.wait(0.2), TurnStalled)
    assert event.since == pytest.approx(595.0)


def test_an_update_of_another_session_does_not() -> None:
    driver, _session, _id = watched()
    driver.open("s2")
    driver.wait(6)
    driver.feed(chunk("s2", "x"), update("s2", "usage_update", used=1, size=2))
    assert silences(driver, 5) == [(110.0, 100.0)]


def test_each_turn_has_its_own() -> None:
    driver, one_session, _id = watched()
    two = driver.open("s2")
    driver.wait(3)
    driver.conn.prompt(two, "hi", idle_timeout=4.0)
    driver.sent()
    driver.drain()
    found = [event for _ in range(20) for event in only(driver.wait(0.5), TurnStalled)]
    assert [(event.session, event.at, event.since) for event in found] == [
        (two, 107.0, 103.0),
        (one_session, 110.0, 100.0),
    ]


def test_a_turn_that_is_over_is_not_silent() -> None:
    driver, _session, id = watched()
    driver.feed(result(id, {"stopReason": "end_turn"}))
    assert driver.conn.next_deadline() is None
    assert silences(driver, 100) == []


def test_a_turn_without_it_has_no_timer() -> None:
    driver, session = idle_client()
    driver.prompt(session)
    assert driver.conn.next_deadline() is None


def test_a_prompt_that_waits_is_not_silent() -> None:
    """It is counted from the moment its bytes are handed over, and a replay before is no part of the turn."""
    from tests.core.helpers import client

    driver = client().initialize()
    session, rpc_id = driver.load(replay_quiet=5.0)
    driver.conn.prompt(session, "hi", idle_timeout=10.0)
    assert silences(driver, 50) == []
    driver.feed(update("s1", "tool_call", toolCallId="old", status="in_progress"), result(rpc_id, {}))
    driver.wait(5)
    driver.sent()
    begin = one(driver.drain(), PromptSent).at
    assert silences(driver, 30) == [(begin + 10, begin)]


# ── Tool calls ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [{}, {"status": "pending"}, {"status": "in_progress"}])
def test_a_tool_call_in_progress_has_its_grace(status: dict[str, object]) -> None:
    driver, _session, _id = watched()
    driver.wait(1)
    driver.feed(update("s1", "tool_call", toolCallId="t1", title="build", **status))
    assert silences(driver, 99) == []
    (event,) = only(driver.wait(1), TurnStalled)
    assert (event.at, event.since, event.pending_tools) == (201.0, 101.0, ("t1",))
    assert silences(driver, 300) == []


@pytest.mark.parametrize("status", ["completed", "failed", "given_up"])
def test_the_grace_ends_with_the_tool_call(status: str) -> None:
    driver, _session, _id = watched()
    driver.feed(update("s1", "tool_call", toolCallId="t1", status="in_progress"))
    driver.wait(25)
    driver.feed(update("s1", "tool_call_update", toolCallId="t1", status=status))
    # Not later than its own time, though the grace would have lasted longer.
    assert silences(driver, 30) == [(135.0, 125.0)]


def test_one_of_two_tool_calls_is_enough() -> None:
    driver, _session, _id = watched()
    driver.feed(
        update("s1", "tool_call", toolCallId="t1", status="pending"),
        update("s1", "tool_call", toolCallId="t2"),
        update("s1", "tool_call_update", toolCallId="t2", title="no word of its status"),
        update("s1", "tool_call_update", toolCallId="t1", status="completed"),
        update("s1", "tool_call_update", toolCallId="t1", content=[]),
    )
    assert silences(driver, 90) == []
    assert [event.pending_tools for event in only(driver.wait(10), TurnStalled)] == [("t2",)]


def test_a_grace_below_the_timeout_changes_nothing() -> None:
    driver, _session, _id = watched(idle_timeout=10.0, pending_tool_grace=1.0)
    driver.feed(update("s1", "tool_call", toolCallId="t1"))
    assert silences(driver, 30) == [(110.0, 100.0)]


def test_tool_calls_are_bounded() -> None:
    from acp_core import Limits

    driver, session, _id = watched(limits=Limits(max_tool_calls=3))
    driver.feed(*(update("s1", "tool_call", toolCallId=f"t{number}") for number in range(10)))
    assert session.turn is not None
    assert session.turn.watch is not None
    assert [*session.turn.watch.tools] == ["t0", "t1", "t2"]


# ── While this side is waited for ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["permission", "file"])
def test_while_the_agent_waits_for_an_answer_nothing_is_counted(kind: str) -> None:
    driver, _session, _id = watched()
    driver.wait(5)
    if kind == "permission":
        asked = one(driver.feed(permission(7, "s1")), PermissionRequested).request_id
    else:
        asked = one(
            driver.feed(request(7, "fs/read_text_file", {"sessionId": "s1", "path": "/a"})), ReadTextFileRequested
        ).request_id
    assert silences(driver, 200) == []
    if kind == "permission":
        driver.conn.answer_permission(asked, "yes")
    else:
        driver.conn.respond(asked, {"content": ""})
    # It is counted from the moment the answer is handed over.
    driver.now += 1
    driver.sent()
    assert silences(driver, 50) == [(316.0, 306.0)]


def test_two_requests_and_one_answer() -> None:
    driver, _session, _id = watched()
    first, second = only(driver.feed(permission(7, "s1"), permission(8, "s1")), PermissionRequested)
    driver.conn.answer_permission(first.request_id, "yes")
    driver.sent()
    assert silences(driver, 50) == []
    driver.conn.answer_permission(second.request_id, None)
    driver.sent()
    assert silences(driver, 50) == [(160.0, 150.0)]


def test_an_answer_by_policy_counts_too() -> None:
    driver, _session, _id = watched(permissions=Policy({"edit": "allow"}))
    driver.wait(9)
    driver.feed(permission(7, "s1", title="edit"))
    driver.sent()
    assert silences(driver, 20) == [(119.0, 109.0)]


def test_who_does_not_read_hears_no_silence() -> None:
    driver, _session, _id = watched()
    for _ in range(20):
        driver.now += 5
        driver.conn.handle_timeout(driver.now, paused=True)
        assert only(driver.drain(), TurnStalled) == []
    # Read again: the silence begins where the pause was last seen.
    assert silences(driver, 30) == [(210.0, 200.0)]


# ── Cancelling ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_by_choice_it_cancels() -> None:
    driver, session, id = watched(on_idle="cancel")
    (event,) = driver.wait(10)
    assert isinstance(event, TurnStalled)
    assert event.cancelled
    assert [message["method"] for message in driver.sent()] == ["session/cancel"]
    assert session.state == "cancelling"
    assert silences(driver, 1.5) == []
    ended = one(driver.feed(result(id, {"stopReason": "cancelled"})), TurnEnded)
    assert (ended.stop_reason, ended.cancel_asked) == ("cancelled", "idle")
    assert driver.conn.next_deadline() is None


def test_a_cancel_of_silence_is_bounded() -> None:
    driver, session, _id = watched(on_idle="cancel")
    driver.wait(10)
    driver.sent()
    found = driver.wait(2.0)
    assert names(found) == ["TurnFailed", "SessionFenced"]
    failed = one(found, TurnFailed)
    assert isinstance(failed.error, RequestTimeout)
    assert failed.cancel_asked == "idle"
    assert session.state == "fenced"


def test_a_turn_that_is_being_cancelled_is_not_reported() -> None:
    driver, session, _id = watched()
    driver.conn.cancel_turn(session, deadline=50.0)
    driver.sent()
    assert silences(driver, 40) == []


# ── Arguments ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_arguments_are_checked_and_change_nothing() -> None:
    driver, session = idle_client()
    wrong_values: list[dict[str, Any]] = [
        {"idle_timeout": 0},
        {"idle_timeout": -1.0},
        {"pending_tool_grace": 0},
        {"on_idle": "kill"},
    ]
    for arguments in wrong_values:
        with pytest.raises(LocalProtocolError):
            driver.conn.prompt(session, "hi", **arguments)
    wrong_types: list[dict[str, Any]] = [{"idle_timeout": "1"}, {"pending_tool_grace": None}]
    for arguments in wrong_types:
        with pytest.raises(TypeError):
            driver.conn.prompt(session, "hi", **arguments)
    assert session.state == "idle"
    assert driver.sent() == []


def test_a_clock_too_coarse_for_the_duration_comes_to_an_end() -> None:
    driver, session = idle_client()
    driver.now = 1e20
    driver.conn.prompt(session, "hi", idle_timeout=1e-3)
    driver.sent()
    driver.drain()
    driver.wait(1.0)
    assert isinstance(driver.feed(chunk("s1", "still here"))[0], AgentMessageChunk)


def test_ten_thousand_updates_make_no_timer() -> None:
    driver, _session, _id = watched()
    driver.feed(*(chunk("s1", "x") for _ in range(10_000)))
    assert len(driver.conn._timers) == 1
