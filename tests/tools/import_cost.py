"""What importing costs, over a bare interpreter: CPU time and memory, in many fresh processes, interleaved.

``python -m tests.tools.import_cost [ROUNDS]`` prints a table. ``official`` is the official Python SDK.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CASES = {
    "json": "import json",
    "core": "import acp_core",
    "client": "from acp_core import ClientConnection",
    "agent": "from acp_core import AgentConnection",
    "both": "from acp_core import AgentConnection, ClientConnection",
    "everything": "import acp_core; [getattr(acp_core, name) for name in acp_core.__all__]",
    "official": "import acp",
}
# Nothing of the site is loaded, which would bring in half of what is to be measured.
CODE = """
import sys
sys.path[:0] = {paths!r}
from resource import RUSAGE_SELF, getrusage
def cpu():
    spent = getrusage(RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime
began = cpu()
{statement}
print(cpu() - began, flush=True)
sys.stdin.read()
"""


class Cost(NamedTuple):
    """CPU in seconds, and resident memory of the whole process in KiB."""

    cpu: float
    rss: int


def once(statement: str) -> Cost:
    """Run a statement in a fresh process."""
    paths = [str(ROOT), sysconfig.get_paths()["purelib"]]
    code = CODE.format(paths=paths, statement=statement)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        spent = child.stdout.readline()
        ps = ["ps", "-o", "rss=", "-p", str(child.pid)]
        rss = subprocess.run(ps, capture_output=True, text=True, check=True, timeout=60).stdout
        child.stdin.close()
    return Cost(float(spent), int(rss))


def measure(names: Iterable[str], rounds: int) -> dict[str, Cost]:
    """The medians of some cases, each over a process that imports nothing."""
    cases = {"nothing": "pass", **{name: CASES[name] for name in names}}
    found: dict[str, list[Cost]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, statement in cases.items():
            found[name].append(once(statement))
    bare = statistics.median(cost.rss for cost in found.pop("nothing"))
    return {
        name: Cost(
            statistics.median(cost.cpu for cost in costs), int(statistics.median(cost.rss for cost in costs) - bare)
        )
        for name, costs in found.items()
    }


def main(arguments: list[str]) -> None:
    """Measure and print."""
    costs = measure(CASES, int(arguments[0]) if arguments else 9)
    for name, cost in costs.items():
        ratios = f"{cost.cpu / costs['json'].cpu:6.2f} x json   official is {costs['official'].cpu / cost.cpu:5.1f} x"
        share = f"{cost.rss / 1024:6.2f} MiB, 1/{costs['official'].rss / cost.rss:.1f} of official"
        print(f"{name:10} {cost.cpu * 1000:8.1f} ms {ratios}   {share}")


if __name__ == "__main__":
    main(sys.argv[1:])
