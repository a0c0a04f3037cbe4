"""What a row of the table is: a figure, how it is taken, and its bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# What is timed, and what makes it ready outside the clock, anew in every round. (No ``typing`` here: a process under
# callgrind imports this.)
Work = Callable[[], object]
Arm = Callable[[], Work]
Lines = Sequence[bytes]


class Row:
    """A figure: its name (``R3.mixed``), what it is, its bar, and whether the bar is a floor (``at_least``).

    ``needs`` are modules without which it cannot be taken.
    """

    def __init__(self, name: str, title: str, bar: float, *, at_least: bool = False, needs: Sequence[str] = ()) -> None:
        self.name = name
        self.title = title
        self.bar = bar
        self.at_least = at_least
        self.needs = needs

    def ok(self, median: float) -> bool:
        """Whether a median keeps the bar."""
        return median >= self.bar if self.at_least else median <= self.bar


class Ratio(Row):
    """The time of some work over the time of its floor, in the same round.

    ``data(count)`` makes the lines; ``work(lines)`` and ``floor(lines)`` make the two arms. ``count`` is how many lines
    a round has at size 1, or how many of what ``unit`` names; "" shows no cost of one. A work that returns a float has
    taken its CPU time itself.
    """

    def __init__(
        self,
        name: str,
        title: str,
        bar: float,
        data: Callable[[int], Lines],
        count: int,
        work: Callable[[Lines], Arm],
        floor: Callable[[Lines], Arm],
        *,
        at_least: bool = False,
        needs: Sequence[str] = (),
        unit: str = "line",
    ) -> None:
        super().__init__(name, title, bar, at_least=at_least, needs=needs)
        self.data = data
        self.count = count
        self.work = work
        self.floor = floor
        self.unit = unit


class Figure(Row):
    """A number that is taken by itself, ``times`` times: bytes, a count of losses, a ratio from a fresh process.

    ``take(size)`` takes it once; it returns None where this machine cannot for want of a ``program``.
    """

    def __init__(
        self,
        name: str,
        title: str,
        bar: float,
        take: Callable[[float], float | None],
        *,
        times: int = 1,
        at_least: bool = False,
        needs: Sequence[str] = (),
        program: str = "",
    ) -> None:
        super().__init__(name, title, bar, at_least=at_least, needs=needs)
        self.take = take
        self.times = times
        self.program = program
