"""Requests both ways, as data: what was asked, in which state it is, and whether its bytes have left."""

from __future__ import annotations

from .errors import NOT_SENT, SENT_NO_REPLY, ACPError
from .state import QUEUED, UNANSWERED, WAITING
from .timers import Deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias, TypeVar

    from .agent import ServedSession
    from .methods import Method
    from .sessions import Session, Turn
    from .timers import Timer

    K = TypeVar("K")
    T = TypeVar("T")
    Settle: TypeAlias = "Callable[[OwnRequest, Settlement, float], None]"


class Settlement:
    """How a request ended. ``outcome`` is result, error, invalid, deadline, withdrawn, closed or over."""

    __slots__ = ("dispatch", "error", "line", "outcome", "result")

    def __init__(
        self,
        outcome: str,
        dispatch: str,
        result: object = None,
        error: Exception | None = None,
        line: str | bytes = "",
    ) -> None:
        self.outcome = outcome
        self.dispatch = dispatch
        self.result = result
        self.error = error
        if error is not None and isinstance(error, ACPError):
            error.dispatch = dispatch
        self.line = line


class OwnRequest:
    """A request made here. ``settle`` is called exactly once, when it has come to its end. ``data`` is its line while
    that waits to be handed to the transport, and empty before, after, and once it was withdrawn."""

    __slots__ = (
        "cancel_asked",
        "data",
        "id",
        "method",
        "params",
        "session",
        "settle",
        "state",
        "timer",
        "token",
        "turn",
    )

    def __init__(
        self,
        id: int,
        method: Method,
        session: Session | ServedSession | None,
        token: object,
        settle: Settle,
    ) -> None:
        self.id = id
        self.method = method
        self.session = session
        self.token = token
        self.settle = settle
        self.state = WAITING
        self.cancel_asked = False
        self.data = b""
        self.params = ""
        self.timer: Timer | None = None
        self.turn: Turn | None = None

    @property
    def dispatch(self) -> str:
        """Whether its bytes have left: ``not_sent`` or ``sent_no_reply``."""
        return NOT_SENT if self.state in (WAITING, QUEUED) else SENT_NO_REPLY


class PeerRequest(Deadline):
    """A request of the peer that waits for our answer, and the time by which its owner has to give it, if there is one.
    ``mark`` tells its line from others (``attach.line_mark``), where that is of use to this side."""

    __slots__ = ("mark", "method", "params", "request_id", "rpc_id", "session", "state", "turn")

    def __init__(
        self,
        request_id: str,
        rpc_id: int | str,
        method: Method,
        params: dict[str, object],
        session: Session | ServedSession | None,
        turn: Turn | None,
        mark: int | None,
    ) -> None:
        self.mark = mark
        self.request_id = request_id
        self.rpc_id = rpc_id
        self.method = method
        self.params = params
        self.session = session
        self.turn = turn
        self.state = UNANSWERED
        self.pending = False


# What is mostly empty is the one empty tuple until something is added, and costs nothing till then.


def appended(waiting: list[T] | tuple[()], item: T) -> list[T]:
    """``waiting`` with ``item`` behind it."""
    if waiting:
        waiting.append(item)
        return waiting
    return [item]


def remembered(known: dict[K, T] | tuple[()], key: K, value: T, limit: int) -> dict[K, T]:
    """``known`` with one more entry; past ``limit`` the oldest is forgotten."""
    if not known:
        return {key: value}
    known[key] = value
    if len(known) > limit:
        del known[next(iter(known))]
    return known
