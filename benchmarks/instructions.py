"""``python -m benchmarks.instructions BASE [ROW ...]``: instructions per message, of a commit and of the work tree.

callgrind counts them, under one interpreter and one hash seed, so that they are the same from run to run, however busy
the machine is. Each figure is a process with the work minus the same process without it. A row is one of
``python -m benchmarks`` that works in one process, or the first part of such names (``R3``). It decides nothing; it is
for a reviewer.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import huge, noise, receiving, sending
from .rows import Arm, Lines, Ratio, Row
from .table import pick

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("acp_core", "benchmarks")
# These rows do all their work in one process and one thread.
COUNTED: list[Row] = [*receiving.ROWS, *huge.ROWS, *noise.ROWS, *sending.ROWS]
DEFAULT = ("R1", "R2", "R3", "S1", "S2")
# What is counted, and the file of its lines.
Job = tuple[Callable[[Lines], Arm], Path]
TOTAL = re.compile(r"^(?:summary|totals):\s*(\d+)", re.MULTILINE)


def unpack(commit: str, where: Path) -> None:
    """The packages as they were at a commit."""
    archive = subprocess.run(["git", "archive", commit, "acp_core"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        sys.exit(f"no such commit: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(where, filter="data")


def copy(package: str, where: Path) -> None:
    """A package as it is in the work tree."""
    shutil.copytree(ROOT / package, where / package, ignore=shutil.ignore_patterns("__pycache__"))


def count(tree: Path, jobs: list[Job]) -> list[int]:
    """The instructions of each job, in one process that forks."""
    arguments = [text for function, data in jobs for text in (function.__module__, function.__name__, str(data))]
    out = tree.parent / f"{tree.name}.%p"
    # A fixed environment: its size is counted too.
    environment = {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "PATH": os.defpath}
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable, "-S"]
    found = subprocess.run(
        [*command, "-m", "benchmarks.counted", *arguments], env=environment, cwd=tree, capture_output=True, text=True
    )
    if found.returncode:
        sys.exit(f"a row fails in {tree.name}:\n{found.stderr[-3000:]}")
    totals = [int(TOTAL.findall(out.with_name(f"{tree.name}.{pid}").read_text())[-1]) for pid in found.stdout.split()]
    return [run - ready for run, ready in zip(totals[::2], totals[1::2], strict=True)]


def grow(where: Path) -> None:
    """A tree of what stands in the work tree; the core only if there is none."""
    for package in PACKAGES:
        if not (where / package).exists():
            copy(package, where)
    subprocess.run([sys.executable, "-m", "compileall", "-q", *PACKAGES], cwd=where, check=True)


def write_lines(rows: list[Ratio], messages: int, where: Path) -> tuple[list[Path], list[int]]:
    """The lines of each row in a file, and how many they are."""
    files: list[Path] = []
    sizes: list[int] = []
    for row in rows:
        share = messages * row.count // 100_000
        lines = row.data(max(50, share) if row.unit == "line" else max(1, share))
        sizes.append(len(lines))
        files.append(where / row.name)
        files[-1].write_bytes(b"\n".join(lines))
    return files, sizes


def per_message(totals: list[int], sizes: list[int]) -> list[float]:
    """Instructions a message."""
    return [total / size for total, size in zip(totals, sizes, strict=True)]


def compare(base: str, rows: list[Ratio], messages: int) -> list[tuple[Ratio, float, float, float]]:
    """The instructions per message of the floor, of the commit, and of the work tree, for each row."""
    with tempfile.TemporaryDirectory(prefix="instructions") as temporary:
        # Names of one length, for the same reason.
        before, after = Path(temporary, "base"), Path(temporary, "work")
        unpack(base, before)
        for tree in (before, after):
            grow(tree)
        files, sizes = write_lines(rows, messages, Path(temporary))
        works = [(row.work, file) for row, file in zip(rows, files, strict=True)]
        floors = [(row.floor, file) for row, file in zip(rows, files, strict=True)]
        with ThreadPoolExecutor() as pool:
            found = pool.map(count, (before, after, after), (works, works, floors))
            old, new, floor = (per_message(totals, sizes) for totals in found)
        return list(zip(rows, floor, old, new, strict=True))


def countable(names: Sequence[str]) -> list[Ratio]:
    """The rows of these names. Ends the program when there are none, or nothing to count with."""
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: it counts the instructions. On Debian: apt-get install valgrind")
    rows = [row for row in pick(names) if row in COUNTED and isinstance(row, Ratio)]
    if not rows:
        can = ", ".join(row.name for row in COUNTED if isinstance(row, Ratio))
        sys.exit(f"none of {' '.join(names)} can be counted; these can: {can}")
    return rows


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("base", metavar="BASE", help="the commit to compare with; the other side is the work tree")
    parser.add_argument("rows", metavar="ROW", nargs="*", default=DEFAULT, help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument(
        "--messages", type=int, default=2000, help="how many chunks R1 has, 2000 by default; others in proportion"
    )
    options = parser.parse_args()
    rows = countable(options.rows)
    print(f"{'row':14} {'floor':>8} {'before':>8} {'after':>8} {'change':>8}   {'before':>6} {'after':>6} {'bar':>6}")
    print(f"{'':14} {'instructions per message':>35}   {'of the floor':>20}")
    for row, floor, before, after in compare(options.base, rows, options.messages):
        change = 100 * (after / before - 1)
        print(
            f"{row.name:14} {floor:8.0f} {before:8.0f} {after:8.0f} {change:+7.2f}%   "
            f"{before / floor:6.3f} {after / floor:6.3f} {row.bar:6.2f}"
        )


if __name__ == "__main__":
    main()
