"""Our strict validator against the official schema, value by value.

``python -m tests.spec.agree --examples 100000`` spreads that many random values over all types, stable and unstable;
``--type NAME`` looks at one type. The default test run does the same with few values per type. Where the two differ
the difference must be one of `DIFFERENCES`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from acp_core.schema.validation import ValidationError, validate_type
from tests.spec.strategies import Strategies, neighbours

DATA = Path(__file__).parent / "data"

# rule of the refusal -> why we refuse to send what the official schema lets pass.
DIFFERENCES = {
    "integer": "JSON Schema calls 1.0 an integer; decoders with integer types refuse it",
    "range": "the widths of integers (uint32, int64) are annotations there, and lower bounds exist for unsigned only",
    "finite": "NaN, the infinities and integers past a double are no JSON numbers, but Python floats and ints can be",
    "absolute-path": "rule 12: paths are absolute; there they are plain strings",
    "line": "rule 12: lines start at 1; there the minimum is 0",
    "uri": "`format: uri` is an annotation there",
    "variant": "a known tag with a broken payload passes there as the form without a tag (spec.md 8.3)",
}


@cache
def definitions(unstable: bool) -> dict[str, object]:
    """Return the official definitions, stripped."""
    name = "v1.schema.unstable.json" if unstable else "v1.schema.json"
    schema = json.loads((DATA / name).read_text(encoding="utf-8"))
    defs = schema["$defs"]
    assert isinstance(defs, dict)
    return defs


@cache
def official(name: str, unstable: bool) -> Draft202012Validator:
    """Return the official validator of one type."""
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions(unstable)})


def compare(name: str, value: object, unstable: bool) -> str | None:
    """Return the rule by which we alone refuse `value`, None when both agree; raise where that is not deliberate."""
    theirs = bool(official(name, unstable).is_valid(value))
    try:
        validate_type(name, value, unstable=unstable)
    except ValidationError as error:
        if not theirs:
            return None
        assert error.rule in DIFFERENCES, f"{name}: only we refuse {value!r}: {error} ({error.rule})"
        return error.rule
    assert theirs, f"{name}: only the official schema refuses {value!r}"
    return None


@cache
def strategies(unstable: bool) -> Strategies:
    """Return the strategies of one table; building them takes longer than most of their use."""
    return Strategies(unstable=unstable)


def run(name: str, unstable: bool, examples: int, changes: int = 0, derandomize: bool = False) -> int:
    """Check `examples` values of one type, half of them valid and half mutated, and `changes` more that differ from
    each in one place: `examples` times `changes + 1` in all. Return how many were compared."""
    made = strategies(unstable)
    chance = random.Random(name)
    drawn: list[object] = []

    @settings(
        max_examples=examples,
        derandomize=derandomize,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(made.valid(name).map(lambda value: (True, value)), made.mutated(name).map(lambda v: (False, v))))
    def check(choice: tuple[bool, object]) -> None:
        fits, value = choice
        if fits:
            validate_type(name, value, unstable=unstable)
        compare(name, value, unstable)
        drawn.append(value)

    check()
    # Drawing a value takes many times as long as comparing it: each is used for its neighbours too. Of some types there
    # are few values to draw.
    compared = len(drawn)
    for value in itertools.cycle(drawn):
        count = min(changes, examples * (changes + 1) - compared)
        for changed in neighbours(value, count, chance):
            compare(name, changed, unstable)
        compared += count
        if count <= 0 or not changes:
            return compared
    return compared


def type_names(unstable: bool) -> list[str]:
    """Return the types to look at: all of the stable schema, or those that the draft features add or change."""
    stable = Strategies().kinds
    if not unstable:
        return list(stable)
    return [name for name, kind in strategies(True).kinds.items() if stable.get(name) != kind]


def main(argv: list[str] | None = None) -> int:
    """Run the comparison over all types."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=40, help="values drawn of each type")
    parser.add_argument("--changes", type=int, default=99, help="values that differ from each in one place")
    parser.add_argument("--type", help="only this type")
    options = parser.parse_args(argv)
    jobs = [(name, unstable) for unstable in (False, True) for name in type_names(unstable)]
    jobs = [job for job in jobs if options.type in (None, job[0])]
    if not jobs:
        parser.error(f"no type {options.type}")
    start = time.perf_counter()
    compared = sum(run(name, unstable, options.examples, options.changes) for name, unstable in jobs)
    spent = time.perf_counter() - start
    print(f"{len(jobs)} types, {compared} values, {spent:.1f} s: only the listed differences")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
