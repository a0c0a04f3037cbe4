"""What ``connect`` and ``open_agent`` take. For type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from acp_core import ElicitationRequested, PermissionOption, PermissionRequested, RequestReceived
    from acp_core import options as core
    from acp_core.elicitation import Answer

    Ask: TypeAlias = Callable[[PermissionRequested], PermissionOption | str | None]
    Result: TypeAlias = Mapping[str, object] | None
    Handler: TypeAlias = Callable[[RequestReceived], Result]

    class ConnectOptions(core.ConnectOptions, total=False):
        """Besides the transport and ``permissions``; see ``connect``."""

        handlers: core.Handlers[Result] | Mapping[str, Handler] | None
        elicitation: Mapping[core.ElicitationMode, Callable[[ElicitationRequested], Answer]] | None
        on_snapshot: Callable[[dict[str, object], int], None] | None
