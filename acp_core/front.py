"""What the agent's front of every binding has in common: an object's methods by name, and the connection they make."""

from __future__ import annotations

from collections.abc import Mapping

from .agent import AgentConnection
from .events import get_object, get_str
from .methods import V1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    from .events import RequestReceived
    from .limits import Limits
    from .methods import MethodTable

    JsonObject: TypeAlias = dict[str, object]

# The method of an agent that serves each row of the method table, by the row's key; "" is every other request.
SERVED = {
    "session_prompt": "prompt",
    "session_new": "new_session",
    "session_load": "load_session",
    "session_resume": "resume_session",
    "session_list": "list_sessions",
    "session_close": "close_session",
    "session_delete": "delete_session",
    "session_set_mode": "set_mode",
    "session_set_config_option": "set_config_option",
    "authenticate": "authenticate",
    "logout": "logout",
    "": "extension",
}
# These take the session as a second argument.
REOPENS = ("session_load", "session_resume")


def method_for(agent: object, key: str) -> Callable[..., object] | None:
    """The method of an agent that serves a key, or None. ``cancel`` is told of cancels, and serves no key."""
    method: object = getattr(agent, "cancel" if key == "cancel" else SERVED.get(key, SERVED[""]), None)
    return method if callable(method) else None


def agent_connection(
    nonce: str,
    agent: object,
    *,
    limits: Limits | None = None,
    methods: MethodTable = V1,
    extensions: Iterable[str] = (),
    codec: Callable[[str], object] | None = None,
    info: Mapping[str, object] | None = None,
    capabilities: Mapping[str, object] | None = None,
    auth_methods: Sequence[Mapping[str, object]] | None = None,
) -> AgentConnection:
    """The connection of an object with the methods it serves: what is defined is advertised, and ``capabilities`` are
    merged over that. The rest is as in ``AgentConnection``.

    Raises:
        TypeError: the agent has no ``prompt``, or an argument has a wrong type.
        LocalProtocolError: an argument is wrong.
    """
    if method_for(agent, "session_prompt") is None:
        raise TypeError(f"an agent needs a method prompt(turn); {type(agent).__name__} has none")
    served = (key for key in SERVED if method_for(agent, key) is not None)
    return AgentConnection(
        nonce=nonce,
        limits=limits,
        methods=methods,
        extensions=extensions,
        codec=codec,
        capabilities=merged(methods.advertised(served), plain_dict(capabilities) or {}),
        info=plain_dict(info),
        auth_methods=[dict(method) for method in auth_methods or ()],
    )


def answer_of(event: RequestReceived, result: object, new_id: Callable[[], str]) -> JsonObject | None:
    """What a method of an agent returned, as the result of the request. A new session's may be its id, or None for one
    that is made by ``new_id``.

    Raises:
        TypeError: it is neither a mapping nor None.
    """
    if event.key == "session_new":
        result = {"sessionId": result} if isinstance(result, str) else result
        return {"sessionId": new_id(), **(plain_dict(result) or {})}
    return plain_dict(result)


def chosen_option(result: object) -> str | None:
    """The option in the result of a permission request; None for cancelled, and for what is no such result."""
    return get_str(get_object(result, "outcome"), "optionId") if isinstance(result, dict) else None


def plain_dict(value: object) -> JsonObject | None:
    """A mapping as the dict that the core takes.

    Raises:
        TypeError: it is neither a mapping nor None.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError(f"what goes on the wire must be a mapping or None, not {type(value).__name__}")
    return dict(value)


def merged(base: Mapping[str, object], over: Mapping[str, object]) -> JsonObject:
    """``over`` laid over ``base``, object by object."""
    result = dict(base)
    for name, value in over.items():
        below, above = result.get(name), value
        result[name] = merged(below, above) if isinstance(below, dict) and isinstance(above, dict) else above
    return result
