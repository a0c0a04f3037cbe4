"""What ``connect`` and ``open_agent`` take. For type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias, TypeVar

    from acp_core import ElicitationRequested, PermissionOption, PermissionRequested, RequestReceived
    from acp_core import options as core
    from acp_core.elicitation import Answer

    T = TypeVar("T")
    # What a plain function returns, or an async one.
    Maybe: TypeAlias = Awaitable[T] | T
    Ask: TypeAlias = Callable[[PermissionRequested], Maybe[PermissionOption | str | None]]
    Result: TypeAlias = Mapping[str, object] | None
    Handler: TypeAlias = Callable[[RequestReceived], Maybe[Result]]

    class ConnectOptions(core.ConnectOptions, total=False):
        """Besides the transport and ``permissions``; see ``connect``."""

        handlers: core.Handlers[Maybe[Result]] | Mapping[str, Handler] | None
        elicitation: Mapping[core.ElicitationMode, Callable[[ElicitationRequested], Maybe[Answer]]] | None
        on_snapshot: Callable[[dict[str, object], int], Maybe[None]] | None
