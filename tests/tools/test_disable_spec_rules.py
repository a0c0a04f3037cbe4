"""Each rule of the protocol that is kept has a line whose loss is noticed; a few are disabled each time.

``python tests/tools/disable_spec_rules.py`` disables them all.
"""

from __future__ import annotations

import pytest

from tests.tools.disable_rules import misplaced
from tests.tools.disable_spec_rules import DISABLINGS, ids_of, run, without_a_line

SAMPLE = {"20", "45", "83"}


def test_every_rule_has_a_line_and_every_line_is_there() -> None:
    assert misplaced(DISABLINGS) == []
    assert without_a_line() == []
    assert all(ids_of(one.rule) for one in DISABLINGS)


@pytest.mark.parametrize("rule", sorted(SAMPLE))
def test_a_disabled_line_is_noticed(rule: str) -> None:
    disabling = next(one for one in DISABLINGS if one.rule == rule)
    code, said = run(ids_of(rule), disabling)
    assert code == 1, said
