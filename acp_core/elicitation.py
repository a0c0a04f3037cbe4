"""Input that an agent asks of the user, and what an owner's answer is on the wire (spec.md rules 110 to 120)."""

from __future__ import annotations

from .errors import clip, local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    Answer: TypeAlias = Mapping[str, object] | bool | None

# Each is advertised, and asked for, on its own; what has no name here is refused by the core (-32602).
MODES = ("form", "url")


def elicitation_result(answer: Answer) -> dict[str, object]:
    """The result of an elicitation: a mapping accepts with this content, True accepts (a URL has no content), False
    declines, None cancels.

    Raises:
        TypeError: it is none of these.
    """
    if answer is None:
        return {"action": "cancel"}
    if isinstance(answer, bool):
        return {"action": "accept" if answer else "decline"}
    if not hasattr(answer, "keys"):
        raise TypeError(f"the answer must be a mapping, a bool or None, not {type(answer).__name__}")
    return {"action": "accept", "content": dict(answer)}


def elicitation_capabilities(modes: Iterable[str]) -> dict[str, object]:
    """What a client advertises that serves these modes.

    Raises:
        LocalProtocolError: there is no such mode.
    """
    modes = tuple(modes)
    for mode in modes:
        if mode not in MODES:
            local("elicitation.mode", f"no elicitation mode {clip(mode)}; the modes are {', '.join(MODES)}")
    return {mode: {} for mode in modes}
