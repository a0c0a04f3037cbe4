"""The binding of docs/writing-a-binding.md as a colour: the code is the page's, the suite's names are added here."""

from __future__ import annotations

import re
import secrets
import types
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acp_anyio.handlers import threaded
from tests.contract.harness import AgentLike, Loop, LoopAgent, adapted

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "writing-a-binding.md"
HEADING = "## A whole binding"

# Bodies that it does not run: what it has not.
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "a write that waits for what is stored: the transport writes by itself": (
        "test_an_owner_goes_on_with_the_turn_of_an_earlier_one",
        "test_an_owner_that_hands_over_leaves_its_turns_to_the_next_one",
        "test_a_turn_whose_end_is_gone_does_not_hang",
        "test_what_cannot_be_stored_is_not_written",
    ),
    "a socket that is read on after a failed write: asyncio closes it, and what was unread is lost": (
        "test_a_failed_write_hears_the_agents_last_words",
        "test_P12_a_cancel_that_cannot_be_written_is_a_failure_of_its_own",
    ),
    "a traceback for what nobody listens to": (
        "test_a_failing_permission_callback_is_printed",
        "test_a_failing_elicitation_and_a_failing_handler_are_printed",
    ),
    "a block that closes": ("test_what_the_owner_raises_is_not_hidden_by_what_fails_to_close",),
}


@cache
def binding() -> Any:
    """The block of the page as a module. Its line numbers are the page's."""
    text = PAGE.read_text("utf-8")
    found = re.compile(r"^```python\n(.*?)^```", re.M | re.S).search(text, text.index(HEADING))
    assert found is not None
    source = "\n" * text.count("\n", 0, found.start(1)) + found.group(1)
    module = types.ModuleType("page_binding")
    exec(compile(source, str(PAGE), "exec"), module.__dict__)
    return module


class Page(Loop):
    """The page's binding on an asyncio loop."""

    @contextmanager
    def connect(self, sock: socket.socket, **options: Any) -> Iterator[AgentLike]:
        """As ``Binding``."""
        agent = self.call(self._connect, sock, **self.on_the_loop(options))
        try:
            yield LoopAgent(self, agent)
        except BaseException:
            self.run(agent.link.cut)
            raise
        finally:
            self.call(agent.close)

    async def _connect(self, sock: socket.socket, permissions: object, **options: Any) -> Any:
        page = binding()
        setup = page.ClientSetup(page.Waiter, secrets.token_hex(8), permissions, blocking=threaded, **options)
        return await page.connect(sock, setup)

    def serve(self, agent: object, sock: socket.socket, **options: Any) -> None:
        """As ``Binding``."""

        async def serve() -> None:
            await binding().serve(adapted(agent), sock, **options)

        self.portal.call(serve)
