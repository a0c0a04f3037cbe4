"""What the fronts of all bindings share: everything of them but how a caller waits.

``client`` and ``agent`` have a base for each class that a program holds, and one desk a role that decides what becomes
of a request. A binding adds what has a colour, on a ``Link``: how a caller waits, how the owner's code is run, and its
transports. ``...Calls`` are the methods that wait, as coroutines: a binding with an event loop inherits them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import ACPError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, Protocol, TypeAlias, TypeVar

    from ..methods import MethodTable
    from ..schema import Notification, Request

    P = ParamSpec("P")
    T = TypeVar("T")
    JsonObject: TypeAlias = dict[str, object]
    Params: TypeAlias = Mapping[str, object] | None

    class Process(Protocol):
        """The agent's process, where this side has started it."""

        @property
        def pid(self) -> int: ...
        @property
        def stderr_tail(self) -> bytes: ...
        @property
        def exit_cause(self) -> str | None: ...


def as_it_is(function: Callable[P, T]) -> Callable[P, object]:
    """For a binding that has nothing to add to the owner's code."""
    return function


def check_listener(on_event: object) -> None:
    """Refuse an ``on_event`` that would be told nothing.

    Raises:
        TypeError: it is neither callable nor None, or async: nobody awaits it.
    """
    if on_event is None:
        return
    # Loading it costs more than everything else here: not before somebody listens.
    import inspect

    if not callable(on_event):
        raise TypeError(f"on_event must be callable or None, not {type(on_event).__name__}")
    if inspect.iscoroutinefunction(on_event) or inspect.iscoroutinefunction(type(on_event).__call__):
        raise TypeError("on_event must be a plain function: it is told events in order, and awaited by nobody")


def attempt(intent: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Make an intent whose refusal means that there is nothing left to do."""
    try:
        intent(*args, **kwargs)
    except ACPError:
        pass


def plain_dict(value: object) -> JsonObject | None:
    """A mapping as the dict that the core takes.

    Raises:
        TypeError: it is neither a mapping nor None.
    """
    return None if value is None else as_dict(value, "a mapping or None")


def as_dict(value: object, want: str = "a mapping") -> JsonObject:
    """A mapping as the dict that the core takes.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"what goes on the wire must be {want}, not {type(value).__name__}")
    return dict(value)


def wire_message(
    methods: MethodTable, message: Request[object] | Notification | str, params: Params
) -> tuple[str, JsonObject | None]:
    """The wire name, of a typed message the one in this table, and the params.

    Raises:
        TypeError: the params are neither a mapping nor None.
    """
    if isinstance(message, str):
        return message, plain_dict(params)
    try:
        wire = methods.wire(message.key)
    except KeyError:
        wire = message.method
    return wire, plain_dict(message.params)
