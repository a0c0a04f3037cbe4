"""Figures from a process of their own: ``python -m benchmarks.fresh MODULE FUNCTION [NUMBER ...]`` prints a number."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def in_fresh_process(module: str, function: str, *numbers: float) -> float:
    """What ``function(*numbers)`` of a module of this package gives in a new interpreter."""
    command = [sys.executable, "-m", "benchmarks.fresh", module, function, *map(str, numbers)]
    return float(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def peak_memory() -> int:
    """The most memory that this process has had, in bytes; what getrusage says would include its parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")


class Import:
    """What one import cost: seconds of CPU, bytes of memory, and every module that is loaded behind it."""

    def __init__(self, cpu: str, memory: str, *loaded: str) -> None:
        self.cpu = float(cpu)
        self.memory = float(memory)
        self.loaded = frozenset(loaded)


def imported(*modules: str) -> dict[str, list[Import]]:
    """For every module, three processes that import it.

    Without ``site``, whose hooks would load half of it before; with compiled files, which are made first.
    """
    code = (
        "import sys, time\n"
        f"sys.path[:] = {[str(ROOT), *sys.path]!r}\n"
        "def memory():\n"
        "    with open('/proc/self/statm') as file: return int(file.read().split()[1])\n"
        "def now():\n"
        "    return time.process_time()\n"
        "before, began = memory(), now()\n"
        "import {module}\n"
        "spent = now() - began\n"
        f"print(spent, (memory() - before) * {os.sysconf('SC_PAGE_SIZE')}, *sys.modules)\n"
    )
    found: dict[str, list[Import]] = {module: [] for module in modules}
    with tempfile.TemporaryDirectory(prefix="imports") as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for round in range(4):
            for module in modules:
                command = [sys.executable, "-S", "-c", code.replace("{module}", module)]
                out = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
                if round:
                    found[module].append(Import(*out.split()))
    return found


if __name__ == "__main__":
    print(getattr(import_module(f"benchmarks.{sys.argv[1]}"), sys.argv[2])(*map(float, sys.argv[3:])))
