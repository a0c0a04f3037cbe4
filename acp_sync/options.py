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
    Handler: TypeAlias = Callable[[RequestReceived], Mapping[str, object] | None]

    class ConnectOptions(core.ConnectOptions, total=False):
        """Besides the transport and ``permissions``; see ``connect``."""

        handlers: Mapping[str, Handler] | None
        elicitation: Mapping[str, Callable[[ElicitationRequested], Answer]] | None
        on_snapshot: Callable[[dict[str, object], int], None] | None
