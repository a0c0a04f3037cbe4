"""The recorded traffic of real agents: one file an agent, one JSON object a line.

``recording`` names the conversation, ``t`` is in milliseconds, ``dir`` is ``c2a`` or ``a2c``, and ``raw`` is the line
as it stood on the wire, without its line end. README.md beside this file says which agents they are.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).resolve().parent / "data"


class Line(NamedTuple):
    """One recorded line; ``at`` is in seconds."""

    at: float
    by_agent: bool
    raw: str


class Recording(NamedTuple):
    """One conversation with one agent."""

    agent: str
    name: str
    lines: tuple[Line, ...]

    @property
    def size(self) -> int:
        """Bytes the agent wrote."""
        return sum(len(line.raw.encode()) + 1 for line in self.lines if line.by_agent)


@cache
def recordings() -> dict[str, Recording]:
    """Every recording, by ``agent/name``."""
    found: dict[str, Recording] = {}
    for path in sorted(DATA.glob("*.jsonl.gz")):
        agent = path.name.removesuffix(".jsonl.gz")
        lines: dict[str, list[Line]] = {}
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for text in file:
                row = json.loads(text)
                lines.setdefault(row["recording"], []).append(Line(row["t"] / 1000, row["dir"] == "a2c", row["raw"]))
        for name, rows in lines.items():
            found[f"{agent}/{name}"] = Recording(agent, name, tuple(rows))
    return found
