"""Typed layer over the messages of the protocol: requests that know their result, validation, builders.

* `acp_core.schema.v1`: TypedDicts with the wire's names and one builder per stable method.
* `acp_core.schema.v1_unstable`: the same with the draft features of version 1.
* `acp_core.schema.validation`: strict checks for what is sent, lenient reading for what is received.
* `acp_core.schema.build`: content blocks, tool calls, plans and servers from keyword arguments.

Nothing here is loaded by `import acp_core`. `typing` is imported only when somebody asks for one of the TypedDicts, so
builders and validation cost next to nothing.
"""

from types import GenericAlias

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Generic, TypeVar

    ResultT = TypeVar("ResultT", covariant=True)

    class _Typed(Generic[ResultT]):
        __slots__ = ()

else:
    ResultT = object

    class _Typed:
        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


__all__ = ["Notification", "Request"]


class Request(_Typed[ResultT]):
    """A request to send, which knows the type of its result.

    `method` is the wire's name, `key` its name in the method table (``session/new``, ``session_new``), `params` the
    object to send. The builders of `acp_core.schema.v1` make it; for an extension method make one by hand and annotate
    it: ``ask: Request[MyResult] = Request("_my/ask", "_my/ask", {...})``. Nothing is checked here.
    """

    __slots__ = ("key", "method", "params")
    __match_args__ = ("method", "key", "params")

    def __init__(self, method: str, key: str, params: "Mapping[str, object]") -> None:
        self.method = method
        self.key = key
        self.params = params

    def __repr__(self) -> str:
        return f"Request({self.method!r}, {len(self.params)} params)"


class Notification:
    """A notification to send. The fields are those of `Request`; nothing ever answers it (spec rule 10)."""

    __slots__ = ("key", "method", "params")
    __match_args__ = ("method", "key", "params")

    def __init__(self, method: str, key: str, params: "Mapping[str, object]") -> None:
        self.method = method
        self.key = key
        self.params = params

    def __repr__(self) -> str:
        return f"Notification({self.method!r}, {len(self.params)} params)"
