"""The content of a form against what the form asks for (spec.md rules 112, 119, 120)."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_core import LocalProtocolError, elicitation_problems, elicitation_result
from tests.spec.requirements import requirement

FORM: dict[str, object] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 3},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "count": {"type": "integer", "minimum": 1},
        "sure": {"type": "boolean"},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mo", "tu"]}, "minItems": 1, "maxItems": 2},
        "tags": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        "later": {"type": "color-wheel", "minimum": 3},
        "code": {"type": "string", "pattern": "(a+)+$", "format": "made-up"},
        "many": {"type": "array", "items": {"type": "future"}},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("name", "", "has 0 code points; minLength is 1"),
        ("name", "éééé", "has 4 code points; maxLength is 3"),
        ("name", 3, "must be a text, not 3"),
        ("size", "m", "is 'm', not one of ['s', 'l']"),
        ("color", "s", "is 's', not one of ['red', 'blue']"),
        ("share", 1.5, "has 1.5 as its value; maximum is 1"),
        ("share", -1, "has -1 as its value; minimum is 0"),
        ("share", True, "must be a number, not True"),
        ("count", 1.5, "must be a whole number, not 1.5"),
        ("count", False, "must be a whole number, not False"),
        ("count", 0, "has 0 as its value; minimum is 1"),
        ("sure", 1, "must be true or false, not 1"),
        ("days", [], "has 0 items; minItems is 1"),
        ("days", ["mo", "tu", "mo"], "has 3 items; maxItems is 2"),
        ("days", ["we"], "has 'we', not one of ['mo', 'tu']"),
        ("days", "mo", "must be a list of texts, not 'mo'"),
        ("tags", ["b"], "has 'b', not one of ['a']"),
        ("later", {}, "is {}, not a text, a finite number, a bool or a list of texts"),
        ("later", None, "is None, not a text, a finite number, a bool or a list of texts"),
        ("share", float("inf"), "is inf, not a text, a finite number, a bool or a list of texts"),
        ("days", [1], "is [1], not a text, a finite number, a bool or a list of texts"),
    ],
)
def test_what_does_not_fit_is_named(field: str, value: object, problem: str) -> None:
    assert elicitation_problems(FORM, {"name": "é", field: value}) == {field: problem}


@pytest.mark.parametrize(
    "content",
    [
        {"size": "l", "color": "red", "share": 0.5, "count": 2, "sure": False, "days": ["tu"], "tags": ["a"]},
        {"count": 3.0, "share": 1},
        # A field that the form does not have, an unknown type, a pattern, a format, items of an unknown type.
        {"extra": "x", "later": 1, "code": "b" * 3, "many": ["x"]},
    ],
)
def test_what_fits_and_what_is_not_judged(content: dict[str, object]) -> None:
    assert elicitation_problems(FORM, {"name": "abc", **content}) == {}


def test_a_pattern_of_the_agent_takes_no_time() -> None:
    form = {"properties": {"code": {"type": "string", "pattern": "^(a+)+$"}}}
    assert elicitation_problems(form, {"code": "a" * 40 + "b"}) == {}


@requirement(112)
def test_an_answer_that_does_not_fit_is_refused_here() -> None:
    with pytest.raises(LocalProtocolError, match=r"'name' is required.*'share' has 7") as caught:
        elicitation_result({"share": 7}, FORM)
    assert caught.value.rule == "elicitation.content"
    with pytest.raises(LocalProtocolError, match="'name' is required"):
        elicitation_result(True, FORM)
    assert elicitation_result({"name": "x"}, FORM) == {"action": "accept", "content": {"name": "x"}}


def test_who_declines_or_cancels_has_no_form_to_fit() -> None:
    assert elicitation_result(False, FORM) == {"action": "decline"}
    assert elicitation_result(None, FORM) == {"action": "cancel"}
    assert elicitation_result(True, {}) == {"action": "accept"}


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["type", "properties", "required", "x"]), JUNK), st.dictionaries(st.text(), JUNK)
)
def test_no_form_makes_the_check_raise(form: dict[str, object], content: dict[str, object]) -> None:
    elicitation_problems(form, content)


WORDS = st.sampled_from(["", "a", "bb", "é", "ccc"])
BOUND = st.integers(-3, 5)
COUNT = st.integers(0, 4)
CHOICES = st.lists(WORDS, max_size=3)
TITLED = CHOICES.map(lambda words: [{"const": word, "title": word} for word in words])


def field_of(kind: str, **optional: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    """Fields of a type with some of what such a field may have."""
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=optional).map(dict)


FIELD = st.one_of(
    field_of("string", minLength=COUNT, maxLength=COUNT),
    field_of("string", enum=CHOICES),
    field_of("string", oneOf=TITLED),
    field_of("number", minimum=BOUND, maximum=BOUND),
    field_of("integer", minimum=BOUND, maximum=BOUND),
    field_of("boolean"),
    st.builds(
        lambda field, items: {**field, "items": items},
        field_of("array", minItems=COUNT, maxItems=COUNT),
        CHOICES.map(lambda words: {"type": "string", "enum": words}) | TITLED.map(lambda words: {"anyOf": words}),
    ),
)
VALUE = st.one_of(
    WORDS, st.booleans(), BOUND, st.floats(-3, 5, allow_nan=False), st.lists(WORDS, max_size=4), st.just(2.0)
)
NAMES = st.sampled_from(["one", "two", "three"])


@requirement(112)
@given(st.dictionaries(NAMES, FIELD), st.lists(NAMES, max_size=2, unique=True), st.dictionaries(NAMES, VALUE))
def test_the_judgement_is_that_of_json_schema(
    properties: dict[str, dict[str, object]], required: list[str], content: dict[str, object]
) -> None:
    form: dict[str, object] = {"type": "object", "properties": properties, "required": required}
    judge = jsonschema.Draft202012Validator(
        {
            **form,
            # An empty list of choices is no valid oneOf or anyOf there; here nothing is on offer then.
            "properties": {name: as_json_schema(field) for name, field in properties.items()},
        }
    )
    wrong = {
        str(error.path[0]) if error.path else str(error.message).split("'")[1] for error in judge.iter_errors(content)
    }
    assert elicitation_problems(form, content).keys() == wrong


def as_json_schema(field: dict[str, object]) -> dict[str, object]:
    """The field with its titled choices as an ``enum``."""
    plain = {key: value for key, value in field.items() if key not in ("oneOf", "anyOf", "items")}
    for key in ("oneOf", "anyOf"):
        titled = field.get(key)
        if isinstance(titled, list):
            plain["enum"] = [choice["const"] for choice in titled]
    items = field.get("items")
    if isinstance(items, dict):
        plain["items"] = as_json_schema(items)
    return plain


@pytest.mark.parametrize("wrong", [3, None, [("name", "x")], "name"])
def test_content_is_a_mapping(wrong: Any) -> None:
    for form, content in ((FORM, wrong), (wrong, FORM)):
        with pytest.raises(TypeError, match="must be a mapping"):
            elicitation_problems(form, content)
