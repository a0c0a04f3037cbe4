"""What became of a start whose response was lost: M34 to M36 and M39."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_core import LocalProtocolError, StartSettlement


def exhaust(poll: StartSettlement, now: float = 0.0) -> list[float]:
    """Let every query fail at once: the times at which they were made."""
    asked = []
    while poll.verdict is None:
        attempt = poll.take_query(now)
        assert attempt is not None
        asked.append(now)
        poll.failed(attempt, "down", now)
        deadline = poll.next_deadline()
        if deadline is not None:
            now = deadline
            poll.handle_timeout(now)
    return asked


def test_M34_five_queries_with_pauses_of_25_50_100_and_200_ms() -> None:
    poll = StartSettlement()
    asked = exhaust(poll)
    assert [round(later - earlier, 6) for earlier, later in pairwise(asked)] == [0.025, 0.05, 0.1, 0.2]
    assert (poll.verdict, poll.attempts, poll.cause) == ("unknown", 5, "down")


def test_M34_a_query_takes_one_second_at_most() -> None:
    poll = StartSettlement()
    assert poll.take_query(10.0) == 1
    assert poll.take_query(10.0) is None
    assert poll.next_deadline() == 11.0
    poll.handle_timeout(10.999)
    assert poll.next_deadline() == 11.0
    poll.handle_timeout(11.0)
    assert poll.next_deadline() == pytest.approx(11.025)
    assert "1.0 s" in str(poll.cause)


def test_M34_a_change_ends_a_pause() -> None:
    poll = StartSettlement()
    poll.take_query(0.0)
    poll.wake()
    assert poll.take_query(0.0) is None, "a query is under way"
    poll.failed(1, "down", 0.0)
    assert poll.take_query(0.001) is None
    poll.wake()
    assert poll.take_query(0.001) == 2
    assert poll.next_deadline() == 1.001


@pytest.mark.parametrize(("fact", "verdict"), [("admitted", "admitted"), ("not_admitted", "not_admitted")])
@pytest.mark.parametrize("when", ["before", "asking", "pausing", "late"])
def test_M35_a_fact_settles_whenever_it_comes(fact: str, verdict: str, when: str) -> None:
    poll = StartSettlement()
    if when != "before":
        poll.take_query(0.0)
    if when in ("pausing", "late"):
        poll.failed(1, "down", 0.0)
    if when == "late":
        # The first query's answer comes while the second is under way.
        poll.wake()
        poll.take_query(0.0)
    getattr(poll, fact)()
    assert poll.verdict == verdict
    assert poll.next_deadline() is None


def test_M36_after_the_last_failure_it_is_unknown_for_good() -> None:
    poll = StartSettlement(attempts=1)
    poll.take_query(0.0)
    poll.failed(1, "down", 0.0)
    assert poll.verdict == "unknown"
    poll.admitted()
    poll.not_admitted()
    poll.drop()
    assert poll.verdict == "unknown"


@pytest.mark.parametrize("settle", ["admitted", "not_admitted", "drop"])
def test_M39_once_settled_nothing_is_asked_any_more(settle: str) -> None:
    poll = StartSettlement()
    poll.take_query(0.0)
    poll.failed(1, "down", 0.0)
    getattr(poll, settle)()
    for now in (0.1, 1.0, 60.0):
        poll.handle_timeout(now)
        poll.wake()
        poll.failed(1, "again", now)
        assert poll.take_query(now) is None
        assert poll.next_deadline() is None
    assert poll.attempts == 1


def test_a_failure_of_an_older_query_does_not_count() -> None:
    poll = StartSettlement(attempts=2)
    poll.take_query(0.0)
    poll.failed(1, "down", 0.0)
    poll.failed(1, "twice", 0.0)
    poll.wake()
    poll.failed(1, "before it was made", 0.0)
    assert poll.take_query(0.0) == 2
    poll.failed(1, "the first again", 0.0)
    assert (poll.verdict, poll.cause) == (None, "down")
    poll.failed(2, "the second", 0.0)
    assert (poll.verdict, poll.cause) == ("unknown", "the second")


def test_every_constant_is_an_argument() -> None:
    poll = StartSettlement(attempts=3, attempt_deadline=7.0, pauses=(2.0,))
    assert exhaust(poll) == [0.0, 2.0, 4.0]
    poll = StartSettlement(attempts=1, pauses=())
    assert exhaust(poll) == [0.0]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"attempts": 0}, LocalProtocolError),
        ({"attempts": True}, TypeError),
        ({"attempt_deadline": 0}, LocalProtocolError),
        ({"attempt_deadline": "1"}, TypeError),
        ({"pauses": (0.1, -1.0)}, LocalProtocolError),
        ({"pauses": ()}, LocalProtocolError),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        StartSettlement(**arguments)  # type: ignore[arg-type]  # wrong on purpose


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["take", "fail", "wake", "time", "admitted", "not_admitted", "drop"]), max_size=60),
    st.integers(1, 6),
)
def test_never_more_queries_than_allowed_and_one_verdict(steps: list[str], attempts: int) -> None:
    poll = StartSettlement(attempts=attempts)
    now = 0.0
    verdict = None
    for step in steps:
        now += 0.3
        if step == "take":
            poll.take_query(now)
        elif step == "fail":
            poll.failed(poll.attempts, "down", now)
        elif step == "time":
            poll.handle_timeout(now)
        else:
            getattr(poll, step)()
        assert poll.attempts <= attempts
        assert verdict in (None, poll.verdict)
        verdict = poll.verdict
        assert poll.next_deadline() is None or verdict is None
