"""Every row of the table, in order."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import delivery, huge, idle, importing, noise, peers, receiving, round_trip, sending
from .rows import Row

ROWS: list[Row] = [
    *receiving.ROWS,
    *peers.ROWS,
    *huge.ROWS,
    *noise.ROWS,
    *sending.ROWS,
    *importing.ROWS,
    *round_trip.ROWS,
    *delivery.ROWS,
    *idle.ROWS,
]


def pick(names: Sequence[str]) -> list[Row]:
    """The rows of these names; the first part of a name stands for all its cases (``R3`` for ``R3.mixed``)."""
    unknown = [name for name in names if not any(stands_for(name, row) for row in ROWS)]
    if unknown:
        sys.exit(f"no row is called {', '.join(unknown)}; there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if any(stands_for(name, row) for name in names)]


def stands_for(name: str, row: Row) -> bool:
    """Whether this name means this row."""
    return row.name == name or row.name.split(".")[0] == name
