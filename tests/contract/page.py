"""The binding of docs/writing-a-binding.md as a colour: the code is the page's, the suite's names are added here."""

from __future__ import annotations

import re
import secrets
import types
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acp_core import V1, AgentMessageChunk, ClientConnection, Event, PermissionRequested, RequestError, RequestReceived
from acp_core.errors import METHOD_NOT_FOUND
from acp_core.inbox import MIB, Inbox
from tests.contract.harness import AgentLike, Loop, LoopAgent

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from acp_core import TurnEnded

PAGE = Path(__file__).resolve().parents[2] / "docs" / "writing-a-binding.md"
HEADING = "## A whole binding"

# The modules of the suite whose bodies the page's binding runs. The others are about what it has not: the agent's side,
# a workspace and elicitations, going on after a restart.
MODULES = ("test_cancel", "test_closing", "test_order", "test_pressure", "test_requests", "test_stall")
# Bodies in them that it does not run: what it has not, and the bodies that need it.
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "the agent's side": ("test_flood_of_two_bindings",),
    "what a session says between turns": (
        "test_close_settles_every_waiter",
        "test_an_answer_comes_after_the_updates_before_it",
        "test_what_the_agent_says_ahead_of_the_session_id_is_kept",
        "test_replay_goes_to_the_session",
        "test_events_of_a_session_end_with_the_connection",
        "test_the_origins_that_end_a_cycle_are_an_argument",
        "test_idle_metadata_keeps_only_its_latest_state",
    ),
    "arguments that are checked and guarded": (
        "test_typed_request_is_found_by_its_key",
        "test_an_exception_of_on_event_is_contained",
        "test_what_a_policy_wants_asked_is_denied",
        "test_permissions_are_required",
        "test_a_handler_that_nobody_asks_for_is_refused",
        "test_what_was_advertised_and_nobody_serves_is_reported",
    ),
    "a handler for all that has none": ("test_one_handler_for_every_extension",),
    "text() of a turn, which cancels it": ("test_a_cancelled_text_cancels_the_turn",),
    "ConnectionClosed for an intent that comes too late": ("test_the_end_of_input_settles_every_waiter",),
    "a socket that is read on after a failed write": ("test_a_failed_write_hears_the_agents_last_words",),
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
        ask = options.pop("permissions")
        handlers = {key: self.threaded(handler) for key, handler in (options.pop("handlers", None) or {}).items()}
        agent: Any = self.call(_connect, sock, self.threaded(ask) if callable(ask) else ask, handlers, **options)
        try:
            yield LoopAgent(self, agent)
        finally:
            self.call(agent.close)

    def serve(self, agent: object, sock: socket.socket, **options: Any) -> None:
        """The page has no agent's side."""
        raise NotImplementedError


async def _connect(
    sock: socket.socket,
    ask: Any,
    handlers: Mapping[str, Callable[[RequestReceived], Any]],
    *,
    on_event: Callable[[Event], None] | None = None,
    close_grace: float = 2.0,
    pause_at: int = MIB,
    full_at: int = 64 * MIB,
    capabilities: Mapping[str, object] | None = None,
    **options: Any,
) -> PageAgent:
    methods = options.get("methods", V1)
    connection = ClientConnection(
        nonce=secrets.token_hex(8),
        permissions=None if callable(ask) else ask,
        capabilities=methods.advertised(handlers) if capabilities is None else capabilities,
        extensions=[key for key in handlers if key.startswith("_")],
        **options,
    )

    async def serve(request: RequestReceived) -> object:
        if isinstance(request, PermissionRequested):
            found = await ask(request)
            return getattr(found, "option_id", found)
        handler = handlers.get(request.key or request.method)
        if handler is None:
            raise RequestError(METHOD_NOT_FOUND, f"{request.method} is not served")
        answer: object = await handler(request)
        return answer

    client = binding().Client(connection, Inbox(pause_at=pause_at, full_at=full_at), serve, on_event or print)
    await client.connect(sock)
    return PageAgent(client)


class PageAgent:
    """The page's client under the suite's names."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.connection: ClientConnection = client.connection
        self.close = client.close

    @property
    def peer_capabilities(self) -> Mapping[str, object]:
        """As in the bindings."""
        return self.connection.peer_capabilities

    @property
    def closed(self) -> bool:
        """As in the bindings."""
        return self.connection.closed

    async def initialize(self) -> None:
        """As in the bindings."""
        await self._client.ask(lambda token: self.connection.initialize(token=token))

    async def authenticate(self, method_id: str) -> None:
        """As in the bindings."""
        await self._client.ask(lambda token: self.connection.authenticate(method_id, token=token))

    async def open_session(self, cwd: str) -> PageSession:
        """As in the bindings."""
        return PageSession(self._client, await self._client.open_session(cwd))

    async def request(self, method: str, params: Any = None, *, session: Any = None, **options: Any) -> object:
        """As in the bindings."""
        handle = session.handle if session is not None else None
        found: object = await self._client.ask(
            lambda token: self.connection.request(method, params, session=handle, token=token, **options)
        )
        return found

    async def notify(self, method: str, params: Any = None) -> None:
        """As in the bindings."""
        self._client.link.call(lambda: self.connection.notify(method, params))


class PageSession:
    """A session under the suite's names."""

    def __init__(self, client: Any, handle: Any) -> None:
        self._client = client
        self.handle = handle

    @property
    def session_id(self) -> str:
        """As in the bindings."""
        return str(self.handle.session_id)

    @property
    def state(self) -> str:
        """As in the bindings."""
        return str(self.handle.state)

    def prompt(self, content: str, **options: Any) -> PageTurn:
        """As in the bindings."""
        return PageTurn(binding().Turn(self._client, self.handle, content, **options))

    def cancel(self, **options: Any) -> None:
        """As in the bindings."""
        self._client.link.call(lambda: self._client.connection.cancel_turn(self.handle, **options))

    async def set_mode(self, mode_id: str) -> None:
        """As in the bindings."""
        await self._client.ask(lambda token: self._client.connection.set_mode(self.handle, mode_id, token=token))


class PageTurn:
    """A turn under the suite's names."""

    def __init__(self, turn: Any) -> None:
        self._turn = turn
        self.prompt_id: int = turn.prompt_id
        self.cancel = turn.cancel
        self.detach = turn.detach

    @property
    def discarded(self) -> int:
        """As in the bindings."""
        found: int = self._turn.channel.discarded
        return found

    def __aiter__(self) -> AsyncIterator[Event]:
        found: AsyncIterator[Event] = self._turn.__aiter__()
        return found

    async def __aexit__(self, *exc: object) -> None:
        self._turn.detach()

    async def result(self) -> TurnEnded:
        """As in the bindings."""
        ended: TurnEnded = await self._turn.result()
        return ended

    async def text(self) -> str:
        """As in the bindings."""
        return "".join([event.text async for event in self._turn if isinstance(event, AgentMessageChunk)])
