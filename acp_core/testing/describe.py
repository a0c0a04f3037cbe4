"""Events as plain data, so that two runs can be compared and a failing one can be read."""

from __future__ import annotations

import json

from ..agent import ServedSession
from ..events import Event, PermissionOption
from ..sessions import Session, Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"


def describe(event: Event, *, at: bool = True) -> dict[str, Plain]:
    """An event as JSON-able data: ``"type"`` is the name of its class, the other keys are its fields.

    A session becomes its id, a turn the id of its prompt, an exception ``{"error", "message"}`` with its rule or code,
    bytes become text with undecodable ones as lone surrogates, a token that is no JSON becomes the name of its type. A
    session's id is the one it has now: describe an event when it comes. ``at=False`` leaves out the time (seconds).
    """
    plain: dict[str, Plain] = {"type": type(event).__name__}
    for name, value in event.fields():
        if name != "at":
            plain[name] = _plain(value)
        elif at:
            plain["at"] = event.at
    return plain


def event_key(event: Event, *, at: bool = False) -> str:
    """``describe`` as one line of JSON: equal for events that say the same, so lists and sets of them compare.

    By default without the time, which may differ between two deliveries of the same bytes.
    """
    return json.dumps(describe(event, at=at), sort_keys=True, separators=(",", ":"))


def _plain(value: object) -> Plain:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (Session, ServedSession)):
        return value.session_id
    if isinstance(value, Turn):
        return value.prompt_id
    if isinstance(value, PermissionOption):
        return {"option_id": value.option_id, "name": value.name, "kind": value.kind}
    if isinstance(value, Event):
        plain: dict[str, Plain] = {}
        plain.update(describe(value))
        return plain
    if isinstance(value, BaseException):
        said: dict[str, Plain] = {"error": type(value).__name__, "message": str(value)}
        for name in ("rule", "code", "data", "dispatch"):
            if name in vars(value):
                said[name] = _plain(getattr(value, name))
        return said
    return type(value).__name__
