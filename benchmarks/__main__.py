"""``python -m benchmarks``: what the library costs, every figure beside its floor and its bar.

A ratio is the median over the rounds of (CPU time of the work) / (CPU time of its floor in the same round). The table
decides nothing: it is for a person, before and after a change.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

from .measuring import Result, measure, missing
from .page import insert, markdown
from .plot import svg
from .rows import Figure, Ratio
from .table import ROWS, pick


def line(result: Result) -> str:
    """A row of the printed table."""
    row, median = result.row, result.median
    bar = f"{'>=' if row.at_least else '<='} {row.bar:g}"
    if median is None:
        lacking = missing(row) or ([row.program] if isinstance(row, Figure) else [])
        return f"{row.name:15} {'-':>8} {bar:>9}  {'':4} {row.title}: not measured, without {', '.join(lacking)}"
    unit = row.unit if isinstance(row, Ratio) else ""
    costs = f" ({result.cost:.2f} of {result.floor:.2f} us a {unit})" if unit else ""
    return f"{row.name:15} {median:8.3f} {bar:>9}  {'' if result.ok else 'over':4} {row.title}{costs}"


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", help="names of rows, separated by commas; R3 means every case of R3")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the medians to this file")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the table as an SVG")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table into this Markdown page")
    parser.add_argument("--rounds", type=int, default=7, help="how many rounds a ratio has, 7 by default")
    parser.add_argument("--size", type=float, default=1.0, help="how much a round works off, 1 by default")
    options = parser.parse_args()
    rows = ROWS if options.only is None else pick(options.only.split(","))
    began = time.monotonic()
    system = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    how = f"{system}, {options.rounds} rounds, size {options.size:g}"
    print(how)
    results = []
    for result in measure(rows, options.rounds, options.size):
        print(line(result), flush=True)
        results.append(result)
    over = sum(not result.ok for result in results)
    print(f"{len(results)} rows in {time.monotonic() - began:.0f} s, {over} over their bar")
    if options.json is not None:
        options.json.write_text(json.dumps({result.row.name: stored(result) for result in results}, indent=2) + "\n")
    if options.plot is not None:
        options.plot.write_text(svg(results))
    if options.page is not None:
        options.page.write_text(insert(options.page.read_text(), markdown(results, f"{how}.")))


def stored(result: Result) -> dict[str, object]:
    """What ``--json`` keeps of a row."""
    return {"median": result.median, "bar": result.row.bar, "at_least": result.row.at_least, "ok": result.ok}


if __name__ == "__main__":
    main()
