"""How a figure is taken: CPU time, shuffled rounds, the floor beside the work, medians of the ratios."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import groupby

from .rows import Arm, Figure, Ratio, Row


class Result:
    """What came out: the ratios of the rounds, and what one line costs and its floor, in us of CPU."""

    def __init__(self, row: Row, values: Sequence[float], cost: float = 0.0, floor: float = 0.0) -> None:
        self.row = row
        self.values = sorted(values)
        self.cost = cost
        self.floor = floor

    @property
    def median(self) -> float | None:
        """The figure, or None where it cannot be taken here."""
        return statistics.median(self.values) if self.values else None

    @property
    def ok(self) -> bool:
        """Whether it keeps its bar; what cannot be taken does."""
        median = self.median
        return median is None or self.row.ok(median)


def measure(rows: Sequence[Row], rounds: int, size: float = 1.0) -> Iterator[Result]:
    """Every row's result, topic by topic; ``size`` scales how much each round works off."""
    for _, topic in groupby(rows, topic_of):
        group = list(topic)
        able = [row for row in group if not missing(row)]
        results = {row: Result(row, []) for row in group}
        results |= {result.row: result for result in measure_ratios(able, rounds, size)}
        for row in able:
            if isinstance(row, Figure):
                found = [row.take(size) for _ in range(row.times)]
                results[row] = Result(row, [value for value in found if value is not None])
        yield from (results[row] for row in group)


def missing(row: Row) -> list[str]:
    """The modules that it needs and that are not installed."""
    return [module for module in row.needs if find_spec(module) is None]


def topic_of(row: Row) -> str:
    """Rows of one topic are measured together."""
    return row.name[0]


def measure_ratios(rows: Sequence[Row], rounds: int, size: float) -> list[Result]:
    """The rows that have a floor. A round takes them in a new order, and a work and its floor one after the other, also
    in a new order: what else the machine does meanwhile meets both."""
    ratios = [row for row in rows if isinstance(row, Ratio)]
    counts = {row: max(1, round(row.count * size)) for row in ratios}
    data = {row: row.data(counts[row]) for row in ratios}
    arms = {row: [row.work(data[row]), row.floor(data[row])] for row in ratios}
    spent: dict[Row, list[float]] = {row: [] for row in ratios}
    floors: dict[Row, list[float]] = {row: [] for row in ratios}
    rng = random.Random(4)
    gc.collect()
    # What the rows hold ready is not walked again by a collection that falls into a measured time.
    gc.freeze()
    for _ in range(rounds):
        for row in rng.sample(ratios, len(ratios)):
            pair = list(zip(arms[row], (spent[row], floors[row]), strict=True))
            for arm, seconds in rng.sample(pair, 2):
                seconds.append(cpu_seconds(arm))
    gc.unfreeze()
    found = []
    for row in ratios:
        values = [one / other for one, other in zip(spent[row], floors[row], strict=True)]
        each = 1e6 / counts[row]
        found.append(Result(row, values, statistics.median(spent[row]) * each, statistics.median(floors[row]) * each))
    return found


def cpu_seconds(arm: Arm) -> float:
    """The CPU time of a work, of this process alone."""
    work = arm()
    gc.collect()
    began = time.process_time()
    taken = work()
    spent = taken if isinstance(taken, float) else time.process_time() - began
    return max(spent, 1e-9)
