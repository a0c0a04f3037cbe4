"""The list of what the page's binding leaves out is true to the suite."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.page import LEFT_OUT, MODULES

BODY = re.compile(r"^def (test_\w+)\(\s*bench: Bench", re.M)


def test_what_is_left_out_exists_and_most_is_run() -> None:
    here = Path(__file__).parent
    bodies = {name for module in MODULES for name in BODY.findall((here / f"{module}.py").read_text("utf-8"))}
    left_out = [name for names in LEFT_OUT.values() for name in names]
    assert len(left_out) == len(set(left_out))
    assert set(left_out) <= bodies
    assert len(bodies) - len(left_out) >= 65
