"""Deadlines as data: order, cancelling, bounded memory, and a clock that is only ever given."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from acp_core.timers import Timer, Timers


class Log:
    """Timers whose actions write down their name and the time."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.fired: list[tuple[str, float]] = []

    def action(self, name: str) -> Callable[[float], None]:
        return lambda now: self.fired.append((name, now))

    def at(self, when: float, name: str) -> Timer:
        return self.timers.at(when, self.action(name))

    def after(self, seconds: float, name: str) -> Timer:
        return self.timers.after(seconds, self.action(name))

    def run(self, now: float) -> list[tuple[str, float]]:
        while due := self.timers.take(now):
            assert isinstance(due, Timer)
            due.action(now)
        found, self.fired = self.fired, []
        return found


def test_earliest_first_and_equal_ones_in_order() -> None:
    log = Log()
    log.at(3.0, "c")
    log.at(1.0, "a")
    log.at(2.0, "b1")
    log.at(2.0, "b2")
    assert log.timers.next() == 1.0
    assert log.run(0.99) == []
    assert log.run(2.0) == [("a", 2.0), ("b1", 2.0), ("b2", 2.0)]
    assert log.timers.next() == 3.0
    assert log.run(3.0) == [("c", 3.0)]
    assert log.timers.next() is None
    assert log.timers.take(1e9) is None


def test_a_duration_begins_when_it_is_started() -> None:
    log = Log()
    log.after(5.0, "a")
    assert log.timers.unarmed
    assert log.timers.next() is None
    assert log.run(1e9) == []
    log.timers.start(100.0)
    assert not log.timers.unarmed
    assert log.timers.next() == 105.0
    # Starting again does not move it.
    log.timers.start(200.0)
    assert log.run(105.0) == [("a", 105.0)]


def test_a_cancelled_timer_never_fires() -> None:
    log = Log()
    armed, unarmed, other = log.at(1.0, "armed"), log.after(1.0, "unarmed"), log.at(2.0, "other")
    log.timers.cancel(armed)
    log.timers.cancel(armed)
    log.timers.cancel(unarmed)
    log.timers.cancel(None)
    assert log.timers.next() == 2.0
    assert not log.timers.unarmed
    log.timers.start(0.0)
    assert log.run(9.0) == [("other", 9.0)]
    log.timers.cancel(other)
    assert len(log.timers) == 0


def test_an_action_may_make_and_cancel_timers() -> None:
    log = Log()
    victim = log.at(2.0, "victim")

    def first(now: float) -> None:
        log.timers.cancel(victim)
        log.at(now, "follower")

    log.timers.at(1.0, first)
    assert log.run(2.0) == [("follower", 2.0)]


def test_clear_disarms_all() -> None:
    log = Log()
    log.at(1.0, "a")
    log.after(1.0, "b")
    log.timers.clear()
    assert (log.timers.next(), log.timers.unarmed, len(log.timers)) == (None, False, 0)
    log.timers.start(0.0)
    assert log.run(9.0) == []


def test_cancelled_timers_do_not_pile_up() -> None:
    """Ten thousand requests with a deadline that were answered in time, beside one that waits for a day."""
    log = Log()
    log.at(86400.0, "day")
    for number in range(10_000):
        log.timers.cancel(log.at(100_000.0 + number, "hour"))
    assert len(log.timers) == 1
    assert len(log.timers._heap) < 100


@given(
    st.lists(
        st.tuples(st.sampled_from(["at", "after", "cancel", "start", "run"]), st.integers(0, 9), st.integers(0, 9)),
        max_size=60,
    )
)
def test_as_a_plain_list_would_do_it(steps: list[tuple[str, int, int]]) -> None:
    log = Log()
    made: list[Timer] = []
    # What should be: number to (time or None, duration).
    armed: dict[int, float] = {}
    waiting: dict[int, float] = {}
    now = 0.0
    for what, value, pick in steps:
        if what == "at":
            armed[len(made)] = now + value
            made.append(log.at(now + value, str(len(made))))
        elif what == "after":
            waiting[len(made)] = float(value)
            made.append(log.after(value, str(len(made))))
        elif what == "cancel" and made:
            number = pick % len(made)
            log.timers.cancel(made[number])
            armed.pop(number, None)
            waiting.pop(number, None)
        elif what == "start":
            log.timers.start(now)
            armed |= {number: now + seconds for number, seconds in waiting.items()}
            waiting.clear()
        elif what == "run":
            now += value
            due = sorted((when, number) for number, when in armed.items() if when <= now)
            assert log.run(now) == [(str(number), now) for _, number in due]
            for _, number in due:
                del armed[number]
        assert log.timers.next() == min(armed.values(), default=None)
        assert log.timers.unarmed == bool(waiting)
        assert len(log.timers) == len(armed) + len(waiting)
