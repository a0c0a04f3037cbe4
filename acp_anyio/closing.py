"""Closing on an event loop: each step of the plan is a task, and one more walks the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from acp_core.front import closing as front

from .connection import HANDLING, Link, Waiter

if TYPE_CHECKING:
    from acp_core import ClientConnection, Grace


class Closer(front.Closer[Waiter]):
    """As the base, in the connection's tasks. They are shielded: who closes may be cancelled, what is being released is
    not. When the connection's block is left, steps that still run are cancelled."""

    def __init__(self, connection: ClientConnection, link: Link, grace: Grace) -> None:
        super().__init__(connection, link, grace, link.aclose)
        self._loop = link

    async def interrupted(self, attempt: front.Attempt | None) -> None:
        """As the base."""
        handling = HANDLING.get()
        # A handler that closes is cancelled by that itself.
        if handling is None or not handling.cancel_called:
            self._loop.cut("its close was cancelled")
            with anyio.CancelScope(shield=True):
                if attempt is not None:
                    await self.over(attempt)
