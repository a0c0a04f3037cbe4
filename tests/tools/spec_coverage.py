"""Write docs/spec-coverage.md from the manifest of rules and the marks of the tests.

``python -m tests.tools.spec_coverage [--check]``; with ``--check`` nothing is written and 1 returned when the page is
not fresh.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.spec.requirements import REQUIREMENTS, Requirement, marked_tests

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spec-coverage.md"
COMMAND = "python -m tests.tools.spec_coverage"


def page() -> str:
    """Return the text of the page."""
    tests = marked_tests()
    kept = [row for row in REQUIREMENTS if row.kept_in]
    beyond = [row for row in REQUIREMENTS if row.reason]
    lines = [
        "# Rules of protocol version 1, and where they are kept",
        "",
        f"Made by `{COMMAND}`; do not edit.",
        "",
        "Where a docstring or a comment says *spec rule 72*, it is the row of that number here; other rules that are",
        "named are in [rules.md](rules.md). MUST, SHOULD and MAY are the levels of the protocol;",
        '"is" marks a definition. Draft rules are in italics.',
        "",
        f"{len(REQUIREMENTS)} rules: {len(kept)} kept and tested, {len(beyond)} out of a library's reach.",
        "",
        "| rule | binds | level | what it says | kept in | tests |",
        "|---|---|---|---|---|---|",
    ]
    lines += [line(row, tests.get(row.number, ())) for row in kept]
    lines += [
        "",
        "## Out of reach",
        "",
        "| rule | binds | level | what it says | why a library cannot keep it |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {row.number} | {row.who} | {row.level} | {text(row)} | {row.reason} |" for row in beyond]
    return "\n".join(lines) + "\n"


def text(row: Requirement) -> str:
    return f"*{row.text}*" if row.draft else row.text


def line(row: Requirement, tests: tuple[str, ...]) -> str:
    modules = ", ".join(f"`{module}`" for module in row.kept_in)
    links = ", ".join(f"`{name}`" for name in tests)
    return f"| {row.number} | {row.who} | {row.level} | {text(row)} | {modules} | {links} |"


def main(argv: list[str] | None = None) -> int:
    """Write the page, or compare it with ``--check``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    if not options.check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    print(f"docs/spec-coverage.md is not fresh: run {COMMAND}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
