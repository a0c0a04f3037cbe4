"""The lines that keep the rules are where disable_rules.py says, and a few of them are disabled each time.

``python tests/tools/disable_rules.py`` disables them all.
"""

from __future__ import annotations

import pytest

from tests.tools.disable_rules import DISABLINGS, RULES, disable, misplaced

# One of each group of rules.
SAMPLE = {"C5", "L5", "A1", "P5", "M2", "N6"}


def test_every_rule_has_a_line_and_every_line_is_there() -> None:
    assert misplaced() == []
    assert {disabling.rule for disabling in DISABLINGS} == set(RULES)
    assert len(set(DISABLINGS)) == len(DISABLINGS)


@pytest.mark.parametrize("rule", sorted(SAMPLE))
def test_a_disabled_line_is_noticed(rule: str) -> None:
    disabling = next(one for one in DISABLINGS if one.rule == rule)
    noticed, said = disable(disabling)
    assert noticed, said
