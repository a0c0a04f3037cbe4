"""What the fronts of all bindings share: everything of them that does not wait.

``client`` and ``agent`` have a base for each class that a program holds, and one desk a role that decides what becomes
of a request. A binding adds what has a colour: how a caller waits, how the owner's code is run, and its transports.
Its own end of this is the object that runs the connection, a ``Link``. For type checkers it is named here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import ParamSpec, Protocol, TypeAlias, TypeVar

    from ..closing import AgentClosing
    from ..events import Event, RequestReceived
    from ..inbox import Channel, Inbox
    from ..methods import MethodTable
    from ..schema import Notification, Request

    P = ParamSpec("P")
    T = TypeVar("T")
    WaiterT_co = TypeVar("WaiterT_co", covariant=True)
    JsonObject: TypeAlias = dict[str, object]

    class Waiter(Protocol):
        """Who waits for a request to settle. ``event`` is what has settled it, None before; ``notify`` wakes."""

        event: Event | None

        def settle(self, event: Event, /) -> None: ...
        def notify(self) -> None: ...

    class Ask(Protocol):
        """An intent that sends a request: it is given the token, and returns the request's id."""

        def __call__(self, *, token: object) -> int: ...

    class Link(Protocol[WaiterT_co]):
        """A core connection and what moves its bytes.

        ``act`` gets every event that settles nobody and is in nobody's queue, and says whether it took it; one that
        it did not take is reported to the owner. It does not block, runs no code of the owner, and may make intents.
        """

        act: Callable[[Event], bool]

        @property
        def inbox(self) -> Inbox: ...
        @property
        def dropped_reports(self) -> int: ...
        def waiter(self) -> WaiterT_co: ...
        def call(self, intent: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
            """Make an intent, then drain. A connection that went away is a ConnectionClosed."""

        def leave(self, channel: Channel) -> None:
            """A consumer has left. Safe in a finalizer."""

        def spawn(
            self,
            event: RequestReceived,
            work: Callable[[], object],
            answer: Callable[[object], None],
            over: Callable[[], object] = ...,
        ) -> None:
            """Serve a request of the peer beside everything else: ``work`` is the owner's code, ``answer`` makes the
            intent that answers with what came of it, ``over`` is called when no code of the owner runs any more.

            A RequestError is the answer; anything else that is raised is answered -32603 and reported."""

        def tell(self, event: RequestReceived, work: Callable[[], object]) -> None:
            """Run the owner's code beside everything else. Nobody is answered; what it raises is reported."""

    class Closer(Protocol):
        """Who closes. ``lock`` is held while steps are added."""

        @property
        def closing(self) -> AgentClosing: ...
        @property
        def lock(self) -> AbstractContextManager[object]: ...

    class Process(Protocol):
        """The agent's process, where this side has started it."""

        @property
        def pid(self) -> int: ...
        @property
        def stderr_tail(self) -> bytes: ...
        @property
        def exit_cause(self) -> str | None: ...


def nothing() -> None:
    """What ``over`` is when nobody wants to know."""


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
    methods: MethodTable, message: Request[object] | Notification | str, params: Mapping[str, object] | None
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
