"""Cancelling a turn, and what follows when it is not answered: rules P15 to P17 of hosts.md, each named in its test."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from acp_core import (
    V1,
    AgentMessageChunk,
    AnswerUnmatched,
    Event,
    FenceLifted,
    Limits,
    LocalProtocolError,
    RequestSettled,
    SessionClosed,
    SessionFenced,
    TurnEnded,
    TurnFailed,
)
from tests.core.helpers import (
    ClientDriver,
    chunk,
    client,
    error,
    idle_client,
    names,
    one,
    only,
    permission,
    prompting_client,
    result,
)
from tests.spec.requirements import requirement

if TYPE_CHECKING:
    from acp_core.options import CancelThen

CLOSE = V1["session_close"].wire
CANCEL = V1["session_cancel"].wire


def methods(driver: ClientDriver) -> list[object]:
    """What goes out now, by method."""
    return [message.get("method") for message in driver.sent()]


def fenced(then: CancelThen = "report", **how: object) -> tuple[ClientDriver, object, list[Event]]:
    """A turn that was cancelled and not answered in time: its driver, the prompt's id, and what the timeout led to."""
    driver, session, id = prompting_client()
    driver.conn.cancel_turn(session, then=then, **how)  # type: ignore[arg-type]  # passed through
    driver.sent()
    return driver, id, driver.wait(2.0)


def test_P15_a_cancel_without_a_turn_is_written_and_is_all() -> None:
    driver, session = idle_client()
    driver.conn.cancel_turn(session, then="close")
    assert methods(driver) == [CANCEL]
    assert (session.state, driver.conn.next_deadline()) == ("idle", None)


def test_P15_a_cancel_frees_nothing_by_itself() -> None:
    driver, session, _ = prompting_client()
    driver.conn.cancel_turn(session)
    assert [*driver.conn.busy_sessions] == [session]
    assert methods(driver) == [CANCEL]
    assert [*driver.conn.busy_sessions] == [session]
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.prompt(session, "more")
    assert caught.value.rule == "turn.one_at_a_time"


@pytest.mark.parametrize("stop", ["cancelled", "end_turn", "refusal", "new_word", ""])
def test_P16_the_outcome_says_that_a_cancel_was_asked_and_what_came(stop: str) -> None:
    """A turn that completed in the race is told apart by its own stop reason; nothing is rewritten."""
    driver, session, id = prompting_client()
    driver.conn.cancel_turn(session)
    driver.sent()
    ended = one(driver.feed(result(id, {"stopReason": stop})), TurnEnded)
    assert (ended.cancel_asked, ended.stop_reason, ended.cancel_error) == ("owner", stop, None)
    assert driver.conn.next_deadline() is None


def test_P16_the_error_of_a_cancelled_turn_is_its_cancelled_end() -> None:
    driver, session, id = prompting_client()
    driver.conn.cancel_turn(session)
    driver.sent()
    ended = one(driver.feed(error(id, -32603, "aborted")), TurnEnded)
    assert (ended.cancel_asked, ended.stop_reason, str(ended.cancel_error)) == (
        "owner",
        "cancelled",
        "aborted (-32603)",
    )


def test_P16_without_an_answer_in_time_the_turn_fails_and_a_fence_stands() -> None:
    driver, session, id = prompting_client()
    driver.conn.cancel_turn(session)
    # The wait begins when the bytes go out, not when they are queued.
    driver.now += 1000.0
    driver.sent()
    assert driver.conn.next_deadline() == driver.now + 2.0
    assert driver.wait(1.999) == []
    found = driver.wait(0.001)
    assert names(found) == ["TurnFailed", "SessionFenced"]
    failed = one(found, TurnFailed)
    assert (failed.outcome, failed.dispatch, failed.cancel_asked) == ("deadline", "sent_no_reply", "owner")
    assert session.state == "fenced"
    # What comes behind the fence is marked, and its late answer lifts it: nothing is lost and nothing ends twice.
    assert one(driver.feed(chunk("s1", "late")), AgentMessageChunk).mark == "late"
    found = driver.feed(result(id, {"stopReason": "end_turn"}))
    assert names(found) == ["AnswerUnmatched", "FenceLifted"]
    assert one(found, AnswerUnmatched).why == "late"
    assert session.state == "idle"


def test_P16_report_does_nothing_more() -> None:
    driver, _, _ = fenced("report")
    assert (driver.sent(), driver.conn.next_deadline(), driver.conn.state) == ([], None, "open")


def test_P16_closing_the_session_ends_the_fence_when_it_succeeds() -> None:
    driver, id, found = fenced("close_session")
    assert names(found) == ["TurnFailed", "SessionFenced"]
    (message,) = driver.sent()
    assert message["method"] == CLOSE
    session = one(found, SessionFenced).session
    assert session.state == "closing"
    found = driver.feed(result(message["id"], {}))
    assert one(found, SessionClosed).session is session
    assert driver.conn.state == "open"
    # Its id may be opened again, and the late answer of the old turn disturbs nobody.
    again, load = driver.load()
    driver.sent()
    driver.feed(result(load, {}))
    assert names(driver.feed(result(id, {"stopReason": "cancelled"}))) == ["AnswerUnmatched"]
    assert again.state == "idle"
    driver.conn.prompt(again, "more")


@pytest.mark.parametrize("how", ["refused", "late"])
def test_P16_closing_the_session_leaves_the_fence_when_it_fails(how: str) -> None:
    driver, id, found = fenced("close_session", close_deadline=3.0)
    session = one(found, SessionFenced).session
    (message,) = driver.sent()
    if how == "refused":
        driver.feed(error(message["id"], -32603))
    else:
        assert driver.conn.next_deadline() == driver.now + 3.0
        driver.wait(3.0)
    assert session.state == "fenced"
    with pytest.raises(LocalProtocolError, match="fence"):
        driver.conn.prompt(session, "more")
    if how == "refused":
        assert names(driver.feed(result(id, {"stopReason": "cancelled"}))) == ["AnswerUnmatched", "FenceLifted"]
    else:
        # The agent has closed it after all, and so it is closed here.
        found = driver.feed(result(message["id"], {}))
        assert one(found, SessionClosed).session is session
        assert session.state == "closed"


@pytest.mark.parametrize("then_prompted", [False, True])
def test_a_close_that_succeeds_late_ends_the_session_whatever_it_does_meanwhile(then_prompted: bool) -> None:
    driver, session = idle_client()
    close = driver.conn.close_session(session, deadline=3.0)
    driver.sent()
    driver.wait(3.0)
    assert session.state == "idle"
    if then_prompted:
        driver.prompt(session)
    found = driver.feed(result(close, {}))
    assert one(found, SessionClosed).session is session
    assert [failed.outcome for failed in only(found, TurnFailed)] == ["closed"] * then_prompted
    # A late refusal says nothing.
    driver, session = idle_client()
    close = driver.conn.close_session(session, deadline=3.0)
    driver.sent()
    driver.wait(3.0)
    assert names(driver.feed(error(close, -32603))) == ["AnswerUnmatched"]
    assert session.state == "idle"


def test_a_close_that_succeeds_late_meets_a_second_close() -> None:
    driver, session = idle_client()
    first = driver.conn.close_session(session, deadline=3.0)
    driver.sent()
    driver.wait(3.0)
    second = driver.conn.close_session(session)
    driver.sent()
    found = driver.feed(result(first, {}), error(second, -32002))
    assert len(only(found, SessionClosed)) == 1
    assert one(found, RequestSettled).outcome == "error"
    assert session.state == "closed"


def test_P16_closing_the_connection_settles_everything() -> None:
    driver, id, found = fenced("close")
    assert names(found) == ["TurnFailed", "SessionFenced", "ConnectionOver"]
    assert driver.conn.state == "over"
    assert driver.feed(result(id, {"stopReason": "end_turn"})) == []


def test_P16_the_choice_is_refused_ahead_where_the_agent_cannot_close_sessions() -> None:
    driver = client()
    driver.initialize({})
    session = driver.open()
    driver.prompt(session)
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.cancel_turn(session, then="close_session")
    assert caught.value.rule == "capability.missing"
    assert (session.state, driver.sent(), driver.conn.next_deadline()) == ("prompting", [], None)
    driver.conn.cancel_turn(session, then="close")


def test_P17_a_turn_is_cancelled_once_and_the_first_reason_stays() -> None:
    driver, session, _ = prompting_client()
    driver.conn.cancel_turn(session, deadline=2.0)
    driver.sent()
    driver.now += 1.0
    driver.conn.cancel_turn(session, deadline=60.0)
    assert driver.sent() == []
    assert driver.conn.next_deadline() == driver.now + 1.0
    assert names(driver.wait(1.0)) == ["TurnFailed", "SessionFenced"]


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [
        ("report", "close", "over"),
        ("close", "report", "over"),
        ("report", "close_session", "closing"),
        ("close_session", "report", "closing"),
        ("close_session", "close", "over"),
    ],
)
def test_P17_a_second_call_may_only_choose_a_stronger_end(first: CancelThen, second: CancelThen, end: str) -> None:
    driver, session, _ = prompting_client()
    driver.conn.cancel_turn(session, then=first)
    driver.conn.cancel_turn(session, then=second)
    driver.sent()
    driver.wait(2.0)
    assert end in (driver.conn.state, session.state)


@requirement(80)
def test_P17_what_comes_while_cancelling_is_still_told() -> None:
    driver, session, id = prompting_client()
    driver.conn.cancel_turn(session)
    driver.sent()
    found = driver.feed(chunk("s1", "one"), permission(0, "s1"), chunk("s1", "two"), result(id, {"stopReason": "x"}))
    assert names(found) == ["AgentMessageChunk", "PermissionAnswered", "AgentMessageChunk", "TurnEnded"]
    assert [text.mark for text in only(found, AgentMessageChunk)] == ["", ""]


def test_P17_the_end_of_input_is_no_result() -> None:
    driver, session, id = prompting_client()
    driver.conn.cancel_turn(session)
    driver.sent()
    failed = one(driver.end(), TurnFailed)
    assert (failed.outcome, failed.dispatch, failed.cancel_asked, failed.prompt_id) == (
        "over",
        "sent_no_reply",
        "owner",
        id,
    )


def test_a_turn_past_its_own_deadline_is_cancelled_as_well() -> None:
    driver, session = idle_client("s1", limits=Limits(cancel_grace=5.0))
    driver.conn.prompt(session, "hi", deadline=10.0)
    driver.sent()
    driver.wait(10.0)
    assert methods(driver) == [CANCEL]
    assert driver.conn.next_deadline() == driver.now + 5.0
    # Its owner joins, and chooses what is to follow.
    driver.conn.cancel_turn(session, then="close")
    found = driver.wait(5.0)
    assert names(found) == ["TurnFailed", "SessionFenced", "ConnectionOver"]
    assert one(found, TurnFailed).cancel_asked == "deadline"


def test_a_fence_of_one_session_is_nobody_elses() -> None:
    driver, session, id = prompting_client()
    other = driver.open("s2")
    second = driver.prompt(other)
    driver.conn.cancel_turn(session)
    driver.sent()
    driver.wait(2.0)
    assert [*driver.conn.busy_sessions] == [other]
    assert one(driver.feed(result(second, {"stopReason": "end_turn"})), TurnEnded).session is other
    assert one(driver.feed(result(id, {"stopReason": "end_turn"})), FenceLifted).session is session


def test_a_cancel_whose_bytes_cannot_leave_ends_with_the_connection() -> None:
    driver, session, _ = prompting_client()
    driver.conn.send_failed("pipe", driver.now)
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.cancel_turn(session)
    assert caught.value.rule == "connection.write_failed"
    found = driver.wait(2.0)
    assert one(found, TurnFailed).outcome == "over"
    assert names(found)[-1] == "ConnectionOver"


@pytest.mark.parametrize("name", ["deadline", "close_deadline"])
def test_every_wait_of_a_cancel_is_bounded(name: str) -> None:
    driver, session, _ = prompting_client()
    for value in (None, "2", True):
        with pytest.raises(TypeError, match=name):
            driver.conn.cancel_turn(session, **{name: value})  # type: ignore[arg-type]  # on purpose
    for number in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(LocalProtocolError, match=name):
            driver.conn.cancel_turn(session, **{name: number})  # type: ignore[arg-type]  # one of the two
    with pytest.raises(LocalProtocolError, match="then"):
        driver.conn.cancel_turn(session, then="shout")  # type: ignore[arg-type]  # wrong on purpose
    assert (session.state, driver.sent()) == ("prompting", [])
