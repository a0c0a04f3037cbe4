"""The list of what the page's binding leaves out is true to the suite."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.page import LEFT_OUT

BODY = re.compile(r"^def (test_\w+)\(\s*bench: Bench", re.M)


def test_what_is_left_out_exists_and_most_is_run() -> None:
    bodies = {
        name for path in Path(__file__).parent.glob("test_*.py") for name in BODY.findall(path.read_text("utf-8"))
    }
    left_out = [name for names in LEFT_OUT.values() for name in names]
    assert len(left_out) == len(set(left_out))
    assert set(left_out) <= bodies
    assert len(bodies) - len(left_out) >= 160
