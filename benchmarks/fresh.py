"""Figures from a process of their own: ``python -m benchmarks.fresh MODULE FUNCTION [NUMBER ...]`` prints a number."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def call(module: str, function: str, *numbers: float) -> float:
    """``function(*numbers)`` of a module of this package."""
    return float(getattr(import_module(f"benchmarks.{module}"), function)(*numbers))


def in_fresh_process(module: str, function: str, *numbers: float) -> float:
    """The same in a new interpreter."""
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


# What is loaded when it is first used counts too: the ends of a connection are what the core is for.
USED = {"acp_core": "acp_core.ClientConnection, acp_core.AgentConnection"}


@cache
def imported(runs: int, *modules: str) -> dict[str, list[Import]]:
    """For every module, so many processes that import it.

    Without ``site``, whose hooks would load half of it before; with compiled files, which installed packages have and
    which are made here for the core.
    """
    code = (
        "import sys, time\n"
        "sys.path[:] = {path!r}\n"
        "def memory():\n"
        "    with open('/proc/self/statm') as file: return int(file.read().split()[1])\n"
        "def now():\n"
        "    return time.process_time()\n"
        "before, began = memory(), now()\n"
        "import {module}\n"
        "{used}\n"
        "spent = now() - began\n"
        "print(spent, (memory() - before) * {page}, *sys.modules)\n"
    )
    found: dict[str, list[Import]] = {module: [] for module in modules}
    compileall.compile_dir(ROOT / "acp_core", quiet=2)
    for _ in range(runs):
        for module in modules:
            path, page = [str(ROOT), *sys.path], os.sysconf("SC_PAGE_SIZE")
            text = code.format(path=path, module=module, used=USED.get(module, ""), page=page)
            command = [sys.executable, "-S", "-c", text]
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[module].append(Import(*out.split()))
    return found


if __name__ == "__main__":
    print(call(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])))
