"""The manifest of rules and the tests that carry their marks fit each other, both ways."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.spec.requirements import BY_NUMBER, REQUIREMENTS, Requirement, marked_tests, marks, requirement
from tests.tools import spec_coverage

ROOT = Path(__file__).resolve().parents[2]
# Rules that bind version 2 alone.
VERSION_2 = {18, 21, 22, 31, 32, 39, 49, 53, 59, 81, 84, 85, 86, 89, 90, 93, 94, 95, 126, 127, 128, *range(131, 142)}


def test_every_rule_of_version_1_has_a_row() -> None:
    assert [row.number for row in REQUIREMENTS] == sorted(set(range(1, 150)) - VERSION_2)
    assert len(BY_NUMBER) == len(REQUIREMENTS)


@pytest.mark.parametrize("row", REQUIREMENTS, ids=lambda row: str(row.number))
def test_row_is_complete(row: Requirement) -> None:
    assert row.who in ("client", "agent", "both")
    assert row.level in ("MUST", "SHOULD", "MAY", "is")
    assert row.text.endswith(".") and len(row.text) <= 100
    assert bool(row.reason) != bool(row.kept_in)


@pytest.mark.parametrize("row", REQUIREMENTS, ids=lambda row: str(row.number))
def test_row_has_tests_or_a_reason(row: Requirement) -> None:
    tests = marked_tests().get(row.number, ())
    if row.reason:
        assert not tests, "a rule that tests check is not out of reach"
        return
    assert tests
    for module in row.kept_in:
        path = ROOT / "acp_core" / module.replace(".", "/")
        places = (path.with_suffix(".py"), path / "__init__.py", ROOT / module.replace(".", "/") / "__init__.py")
        assert any(place.exists() for place in places), module


def test_every_mark_has_a_row() -> None:
    assert set(marked_tests()) <= set(BY_NUMBER)
    with pytest.raises(KeyError):
        requirement(18)


def test_marks_are_found_and_kept() -> None:
    @requirement(12, 121)
    def sample() -> None: ...

    assert sample.__dict__["covers"] == (12, 121)
    source = "@requirement(1)\nasync def test_a(): ...\nclass T:\n    @requirement(2, 3)\n    def test_b(self): ...\n"
    assert sorted(marks(ast.parse(source))) == [("test_a", [1]), ("test_b", [2, 3])]


def test_coverage_page_is_fresh() -> None:
    assert spec_coverage.main(["--check"]) == 0
