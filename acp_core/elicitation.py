"""Input that an agent asks of the user, and what an owner's answer is on the wire (spec rules 110 to 120)."""

from __future__ import annotations

from .errors import clip, local, names
from .events import get_list, get_number, get_object, get_objects, get_str

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    Answer: TypeAlias = Mapping[str, object] | bool | None
    JsonObject: TypeAlias = dict[str, object]

# Each is advertised, and asked for, on its own; what has no name here is refused by the core (-32602).
MODES = ("form", "url")


def elicitation_result(answer: Answer, requested_schema: Mapping[str, object] | None = None) -> dict[str, object]:
    """The result of an elicitation: a mapping accepts with this content, True accepts (a URL has no content), False
    declines, None cancels. With ``requested_schema``, the form's, what is accepted must fit it (spec rule 112).

    Raises:
        TypeError: it is none of these.
        LocalProtocolError: the content does not fit; see ``elicitation_problems``.
    """
    if answer is None:
        return {"action": "cancel"}
    if isinstance(answer, bool) and not answer:
        return {"action": "decline"}
    if not isinstance(answer, bool) and not hasattr(answer, "keys"):
        raise TypeError(f"the answer must be a mapping, a bool or None, not {type(answer).__name__}")
    content = {} if isinstance(answer, bool) else dict(answer)
    problems = elicitation_problems(requested_schema, content) if requested_schema is not None else {}
    if problems:
        told = "; ".join(f"{clip(name)} {problem}" for name, problem in problems.items())
        local("elicitation.content", f"the content does not fit the form: {told}; ask again, decline or cancel")
    return {"action": "accept"} if isinstance(answer, bool) else {"action": "accept", "content": content}


def elicitation_problems(requested_schema: Mapping[str, object], content: Mapping[str, object]) -> dict[str, str]:
    """What keeps the content of a form from being accepted: field to what is wrong with it; empty when nothing is.

    Required fields, types, choices and bounds are checked, lengths in code points. A ``pattern`` and a ``format`` are
    not: the agent's patterns may take time without bound (spec rule 119). Nor is a field whose type is unknown
    (spec rule 120), or that the form does not have.

    Raises:
        TypeError: an argument is no mapping.
    """
    for what, given in (("requested_schema", requested_schema), ("content", content)):
        if not hasattr(given, "keys"):
            raise TypeError(f"{what} must be a mapping, not {type(given).__name__}")
    schema = dict(requested_schema)
    properties = get_object(schema, "properties")
    problems = {
        name: "is required" for name in get_list(schema, "required") if isinstance(name, str) and name not in content
    }
    for name, value in content.items():
        if not is_content(value):
            problems[name] = f"is {clip(value)}, not a text, a finite number, a bool or a list of texts"
            continue
        field = get_object(properties, name)
        check = CHECKS.get(get_str(field, "type") or "")
        problem = check(field, value) if check is not None else None
        if problem is not None:
            problems[name] = problem
    return problems


def is_content(value: object) -> bool:
    """Whether a form may have it as a value at all."""
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    # What is infinite or no number leaves no zero.
    return isinstance(value, (str, bool, int)) or (isinstance(value, float) and value - value == 0)


def _text(field: JsonObject, value: object) -> str | None:
    if not isinstance(value, str):
        return f"must be a text, not {clip(value)}"
    choices = _choices(field, "oneOf")
    if choices is not None and value not in choices:
        return f"is {clip(value)}, not one of {clip([*choices])}"
    return _within(field, "minLength", "maxLength", len(value), "code points")


def _number(field: JsonObject, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"must be a number, not {clip(value)}"
    return _within(field, "minimum", "maximum", value, "as its value")


def _integer(field: JsonObject, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1 != 0:
        return f"must be a whole number, not {clip(value)}"
    return _within(field, "minimum", "maximum", value, "as its value")


def _truth(field: JsonObject, value: object) -> str | None:
    return None if isinstance(value, bool) else f"must be true or false, not {clip(value)}"


def _selection(field: JsonObject, value: object) -> str | None:
    if not isinstance(value, list):
        return f"must be a list of texts, not {clip(value)}"
    items = get_object(field, "items")
    choices = _choices(items, "anyOf") if get_str(items, "type") in ("string", None) else None
    if choices is not None:
        for item in value:
            if item not in choices:
                return f"has {clip(item)}, not one of {clip([*choices])}"
    return _within(field, "minItems", "maxItems", len(value), "items")


def _choices(field: JsonObject, titled: str) -> dict[str, None] | None:
    """The values on offer, in order; None when any will do."""
    if isinstance(field.get("enum"), list):
        offered = get_list(field, "enum")
    elif isinstance(field.get(titled), list):
        offered = [option.get("const") for option in get_objects(field, titled)]
    else:
        return None
    return dict.fromkeys(choice for choice in offered if isinstance(choice, str))


def _within(field: JsonObject, least: str, most: str, found: int | float, unit: str) -> str | None:
    low, high = get_number(field, least), get_number(field, most)
    if low is not None and found < low:
        return f"has {clip(found)} {unit}; {least} is {low}"
    if high is not None and found > high:
        return f"has {clip(found)} {unit}; {most} is {high}"
    return None


# How a value is checked, by the ``type`` of its field.
CHECKS: dict[str, Callable[[JsonObject, object], str | None]] = {
    "string": _text,
    "number": _number,
    "integer": _integer,
    "boolean": _truth,
    "array": _selection,
}


def elicitation_capabilities(modes: Iterable[str]) -> dict[str, object]:
    """What a client advertises that serves these modes.

    Raises:
        TypeError: ``modes`` is no list of words.
        LocalProtocolError: there is no such mode.
    """
    given = names("modes", modes, "words")
    for mode in given:
        if mode not in MODES:
            local("elicitation.mode", f"no elicitation mode {clip(mode)}; the modes are {', '.join(MODES)}")
    return {mode: {} for mode in given}
