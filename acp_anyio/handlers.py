"""Handlers that are made from something else: a workspace, whose functions block, and callbacks for elicitations."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from acp_core import ElicitationRequested, elicitation_result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias

    from acp_core import RequestReceived
    from acp_core.elicitation import Answer
    from acp_sync.workspace import Workspace

    Result: TypeAlias = "Mapping[str, object] | None"
    Handler: TypeAlias = "Callable[[RequestReceived], Awaitable[Result] | Result]"
    Elicit: TypeAlias = "Callable[[ElicitationRequested], Awaitable[Answer] | Answer]"


def elicits(modes: Mapping[str, Elicit]) -> Handler:
    """One handler for the functions of all modes. The core lets no other mode through."""

    async def handle(event: RequestReceived) -> Result:
        assert isinstance(event, ElicitationRequested)
        found = modes[event.mode](event)
        answer = await found if inspect.isawaitable(found) else found
        return elicitation_result(answer, event.requested_schema)

    return handle


def threaded(workspace: Workspace) -> dict[str, Handler]:
    """The handlers of a workspace, which block, in threads of their own: one may wait for a command for hours."""
    # The core bounds how many requests of the peer are open.
    places = anyio.CapacityLimiter(math.inf)

    def wrap(handler: Callable[[RequestReceived], Mapping[str, object]]) -> Handler:
        async def handle(event: RequestReceived) -> Result:
            return await to_thread.run_sync(handler, event, abandon_on_cancel=True, limiter=places)

        return handle

    return {key: wrap(handler) for key, handler in workspace.handlers.items()}
