"""A process under callgrind: ``python -m benchmarks.counted MODULE FUNCTION FILE [MODULE FUNCTION FILE ...]``.

For every arm it forks twice: one child makes the work ready and runs it, the other only makes it ready. callgrind
writes a file for each child, and their names are printed. It imports little, since all this is 50 times slower.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module


def main(arguments: list[str]) -> None:
    """Fork for every arm, one child at a time."""
    jobs = [arguments[start : start + 3] for start in range(0, len(arguments), 3)]
    for module, _, _ in jobs:
        import_module(module)
    for module, function, file in jobs:
        for run in (True, False):
            child = os.fork()
            if not child:
                count(getattr(sys.modules[module], function), file, run)
                os._exit(0)
            if os.waitpid(child, 0)[1]:
                sys.exit(f"{module}.{function} failed")
            print(child, flush=True)


def count(function: object, file: str, run: bool) -> None:
    """What a child does."""
    assert callable(function)
    gc.collect()
    with open(file, "rb") as lines:
        work = function(lines.read().split(b"\n"))()
    gc.collect()
    if run:
        work()


if __name__ == "__main__":
    main(sys.argv[1:])
