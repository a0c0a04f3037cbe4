"""Functions of the owner that block, such as those of a workspace, on an event loop."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio
from anyio import to_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

P = ParamSpec("P")
R = TypeVar("R")


def threaded(function: Callable[P, R]) -> Callable[P, Awaitable[R]]:
    """A function that blocks, in a thread of its own: it may wait for a command for hours."""
    # The core bounds how many requests of the peer are open.
    places = anyio.CapacityLimiter(math.inf)

    async def in_thread(*args: P.args, **kwargs: P.kwargs) -> R:
        return await to_thread.run_sync(partial(function, *args, **kwargs), abandon_on_cancel=True, limiter=places)

    return in_thread
