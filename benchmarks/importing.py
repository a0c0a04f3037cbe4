"""I1 to I3: what importing costs, in processes of their own."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from .fresh import Import, imported
from .rows import Figure, Row

# Processes of each side.
RUNS = 9
# What takes longer to import than the whole core.
SLOW = {"asyncio", "dataclasses", "inspect", "typing"}


def compare(one: str, other: str, cost: Callable[[Import], float], size: float) -> float:
    """The cost of an import, in that of another."""
    found = imported(max(1, round(RUNS * size)), *sorted((one, other)))
    return statistics.median(map(cost, found[one])) / max(statistics.median(map(cost, found[other])), 1e-9)


def against_json(size: float) -> float:
    """CPU of importing the core, in that of importing json."""
    return compare("acp_core", "json", lambda found: found.cpu, size)


def slow_modules(size: float) -> float:
    """How many modules the core loads that it should not."""
    return len(SLOW & imported(1, "acp_core")["acp_core"][0].loaded)


def sdk_cpu(size: float) -> float:
    """CPU of importing the official SDK, in that of importing the core."""
    return compare("acp", "acp_core", lambda found: found.cpu, size)


def memory(size: float) -> float:
    """Memory that the core's import takes, in that of the official SDK's."""
    return compare("acp_core", "acp", lambda found: found.memory, size)


ROWS: list[Row] = [
    Figure("I1", "import acp_core / import json, CPU", 2.0, against_json),
    Figure("I1.modules", "modules loaded of asyncio, dataclasses, inspect, typing", 0, slow_modules),
    Figure("I2", "import acp, the official SDK / import acp_core", 25, sdk_cpu, at_least=True, needs=("acp",)),
    Figure("I3", "memory of import acp_core / of import acp", 1 / 8, memory, needs=("acp",)),
]
