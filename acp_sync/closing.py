"""Closing with threads: each step of the plan has one, and one more walks the plan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from acp_core.front import closing as front
from acp_core.state import STEP_OVERDUE

from .connection import WAITING, Driver, Waiter, join

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from acp_core import ClientConnection, Grace

    from .process import Process


class Closer(front.Closer[Waiter]):
    """As the base. A Ctrl-C in whoever closes kills the agent."""

    def __init__(self, connection: ClientConnection, driver: Driver, process: Process | None, grace: Grace) -> None:
        super().__init__(connection, driver, grace, self._end)
        self._driver = driver
        self._process = process
        self._threads: dict[str, threading.Thread] = {}

    def start(self, work: Callable[[], Coroutine[object, object, None]], name: str) -> None:
        """As the base."""
        self._threads[name] = self._driver.start(work, name)

    async def over(self, attempt: front.Attempt) -> None:
        """As the base, and for the threads of what has ended."""
        me = threading.current_thread()
        WAITING.add(me)
        try:
            await super().over(attempt)
        finally:
            WAITING.discard(me)
        for name, thread in [*self._threads.items()]:
            if self.closing.plan.states.get(name.removeprefix("acp closing ")) != STEP_OVERDUE:
                join(thread)

    async def interrupted(self, attempt: front.Attempt | None) -> None:
        """As the base."""
        self._driver.end("its close was interrupted")
        if self._process is not None:
            self._process.kill()
        self._driver.stop()
        if attempt is not None:
            await self.over(attempt)

    def _end(self) -> None:
        driver = self._driver
        try:
            driver.end()
            driver.flush(self.closing.grace.write)
            close_output: Callable[[], None] | None = getattr(driver.transport, "close_output", None)
            if close_output is not None:
                close_output()
            if self._process is not None:
                self._process.end()
        finally:
            driver.stop()
