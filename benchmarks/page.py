"""The table in the documentation: ``python -m benchmarks --page docs/performance.md`` writes it between two marks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .measuring import Result

BLOCK = re.compile(r"(<!-- measured -->\n).*(<!-- /measured -->\n)", re.DOTALL)


def markdown(results: Sequence[Result], how: str) -> str:
    """The rows as Markdown, and how they were measured."""
    rows = [how, "", "| row | what | measured | bar |", "| --- | --- | ---: | ---: |"]
    for result in results:
        row, median = result.row, result.median
        measured = "not here" if median is None else f"{median:.2f}{'' if result.ok else ' (over)'}"
        title = row.title.replace("|", "\\|")
        rows.append(f"| {row.name} | {title} | {measured} | {'at least ' if row.at_least else ''}{row.bar:g} |")
    return "\n".join(rows) + "\n"


def insert(page: str, table: str) -> str:
    """The page with a new table.

    Raises:
        ValueError: it has no marks for one.
    """
    if BLOCK.search(page) is None:
        raise ValueError("the page has no <!-- measured --> and <!-- /measured -->")
    return BLOCK.sub(lambda found: f"{found[1]}\n{table}\n{found[2]}", page)
