"""Model and options of a session: how each is set, and whether it was confirmed (client rule M3, M4)."""

from __future__ import annotations

from .events import get_str
from .sessions import is_model

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .sessions import Session


def config_params(config_id: str, value: str | bool) -> dict[str, object]:
    """The params that set an option; only a boolean value has a type."""
    params: dict[str, object] = {"configId": config_id, "value": value}
    if isinstance(value, bool):
        params["type"] = "boolean"
    return params


def setting(session: Session, config_id: str, value: str | bool) -> tuple[str, dict[str, object], bool]:
    """How to set an option, or the model for an empty id: method key, params, and whether it is so already."""
    for option in session.config_options or []:
        found = get_str(option, "id")
        if found is not None and (found == config_id or (not config_id and is_model(option))):
            return "session_set_config_option", config_params(found, value), option.get("currentValue") == value
    if not config_id and session.models is not None:
        return "session_set_model", {"modelId": value}, session.model == value
    return "", {}, False


def unconfirmed(session: Session, config_id: str, value: str | bool) -> object:
    """What the agent confirmed instead of ``value``; None when it confirmed it, or does not name it."""
    if config_id:
        option = next((one for one in session.config_options or [] if one.get("id") == config_id), {})
        current = option.get("currentValue")
        return None if current == value else current
    model = session.model
    return None if model is None or same_model(model, str(value)) else model


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: a shorter name, or one with a qualifier in brackets (client rule M4)."""
    left, right = _model_letters(one), _model_letters(other)
    return bool(left) and bool(right) and (left in right or right in left)


def _model_letters(name: str) -> str:
    depth = 0
    letters: list[str] = []
    for letter in name.lower():
        if letter in "[(":
            depth += 1
        elif letter in "])":
            depth = max(0, depth - 1)
        elif not depth and letter.isascii() and letter.isalnum():
            letters.append(letter)
    return "".join(letters)
