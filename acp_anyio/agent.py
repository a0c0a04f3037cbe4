"""The agent's side: an object with the methods it serves, its sessions, and the turns it answers."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from acp_core import (
    PromptRequested,
    RequestReceived,
    ServedSession,
    TurnCancelReceived,
)
from acp_core.errors import not_served
from acp_core.front import REOPENS, agent_connection, answer_of, chosen_option, method_for

from .connection import Link
from .stdio import claimed_stdio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Unpack

    from anyio.abc import ByteStream, ObjectStream

    from acp_core import Event
    from acp_core.options import AgentOptions, ServeOptions


class PromptAgent(Protocol):
    """An agent: any object with ``prompt``, plain or async; it returns a stop reason, None for end_turn.

    It may also define ``new_session(request)`` (returns an id, a result with ``sessionId``, or None for an id made
    here), ``load_session(request, session)`` and ``resume_session(request, session)`` (a load sends the history and
    returns), ``list_sessions``, ``close_session``, ``delete_session``, ``set_mode``, ``set_config_option``,
    ``authenticate``, ``logout`` and ``extension``, each with ``(request)`` and returning the result, and
    ``cancel(turn)``, told of a cancel. What is not defined is answered -32601 and not advertised. Any of them may raise
    RequestError; anything else raised is answered -32603 and reported as HandlerFailed.
    """

    def prompt(self, turn: AgentTurn, /) -> Awaitable[str | None] | str | None:
        """Serve a turn. When the client cancels it, this is cancelled, and ``cancelled`` is answered."""


async def serve(agent: PromptAgent, **options: Unpack[ServeOptions]) -> None:
    """Serve one client over this process's stdin and stdout, until its input ends.

    Both are claimed meanwhile: a stray print goes to stderr, reading stdin finds nothing.

    Raises:
        TypeError, LocalProtocolError: an option is wrong.
    """
    with claimed_stdio() as stream:
        try:
            await serve_on(agent, stream, **options)
        finally:
            await stream.aclose()


async def serve_on(
    agent: PromptAgent, transport: ByteStream | ObjectStream[bytes | str], **options: Unpack[ServeOptions]
) -> None:
    """Serve one client over a transport, as ``connect`` takes it, until its input ends.

    Args:
        limits, methods, extensions, codec, info, auth_methods: as ``AgentConnection``.
        capabilities: merged over those that follow from the methods ``agent`` defines.
        on_event: told, in order, every event that nothing else consumes. Without it a HandlerFailed is printed to
            stderr.
        close_grace: seconds that each step of closing may take when the client has gone.

    Raises:
        TypeError, LocalProtocolError: an option is wrong.
    """
    server = Server(agent, transport, **options)
    async with server.link.run():
        await server.link.over.wait()


class Server:
    """An agent on one connection."""

    def __init__(
        self,
        agent: PromptAgent,
        transport: ByteStream | ObjectStream[bytes | str],
        *,
        on_event: Callable[[Event], None] | None = None,
        close_grace: float = 2.0,
        **options: Unpack[AgentOptions],
    ) -> None:
        self._agent = agent
        self._turns: dict[str, AgentTurn] = {}
        self.connection = agent_connection(secrets.token_hex(8), agent, **options)
        self.link = Link(self.connection, transport, act=self._act, on_event=on_event, close_grace=close_grace)

    def _act(self, event: Event) -> bool:
        if isinstance(event, PromptRequested):
            turn = self._turns[event.request_id] = AgentTurn(self, event)
            self.link.spawn(event, lambda: self._prompt(event, turn))
        elif isinstance(event, RequestReceived):
            self.link.spawn(event, lambda: self._serve(event))
        elif isinstance(event, TurnCancelReceived) and event.request_id in self._turns:
            running = self._turns[event.request_id]
            running.cancelled = True
            if (notice := method_for(self._agent, "cancel")) is not None:
                self.link.start_soon(lambda: self._notice(notice, running, event))
            self.link.cancel_handler(event.request_id)
        else:
            return False
        return True

    async def _prompt(self, event: PromptRequested, turn: AgentTurn) -> Callable[[], None]:
        try:
            found = self._agent.prompt(turn)
            reason = await found if inspect.isawaitable(found) else found
        finally:
            del self._turns[event.request_id]
        return lambda: self.connection.end_turn(event.request_id, reason if reason is not None else "end_turn")

    async def _serve(self, event: RequestReceived) -> Callable[[], None]:
        connection = self.connection
        method = method_for(self._agent, event.key)
        if method is None and event.key != "session_new":
            raise not_served(event.method)
        rest = (AgentSession(self, event.session),) if event.key in REOPENS else ()
        result = method(event, *rest) if method is not None else None
        if inspect.isawaitable(result):
            result = await result
        answer = answer_of(event, result, lambda: secrets.token_hex(16))
        return lambda: connection.respond(event.request_id, answer)

    async def _notice(self, notice: Callable[..., object], turn: AgentTurn, event: Event) -> None:
        try:
            found = notice(turn)
            if inspect.isawaitable(found):
                await found
        except Exception as why:
            self.link.failed(event, why)


class AgentSession:
    """A session that this agent serves."""

    def __init__(self, server: Server, handle: object) -> None:
        assert isinstance(handle, ServedSession)
        self.handle = handle
        self._server = server

    @property
    def session_id(self) -> str:
        """The id that this agent gave it."""
        return self.handle.session_id or ""

    @property
    def cwd(self) -> str:
        """The client's working directory."""
        return self.handle.cwd

    async def send(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the agent's message. Waits while more than 1 MiB is unsent.

        Raises:
            TypeError, LocalProtocolError: as ``AgentConnection.update_text``.
        """
        await self._text("message", text, message_id)

    async def think(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the agent's reasoning; see ``send``."""
        await self._text("thought", text, message_id)

    async def echo(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the user's message, as a replayed history has it; see ``send``."""
        await self._text("user", text, message_id)

    async def update(self, update: Mapping[str, object]) -> None:
        """Send one update, as on the wire. Waits while more than 1 MiB is unsent.

        Raises:
            TypeError, LocalProtocolError: as ``AgentConnection.update``.
        """
        self._server.link.call(lambda: self._server.connection.update(self.handle, update))
        await self._server.link.drained()

    async def ask_permission(
        self,
        tool_call: Mapping[str, object],
        options: Sequence[Mapping[str, object]],
        *,
        deadline: float | None = None,
    ) -> str | None:
        """Ask the client whether a tool call may run. ``deadline`` is in seconds.

        Returns: the id of the option that was chosen, None for cancelled.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError: there is no answer.
            TypeError, LocalProtocolError: as ``AgentConnection.ask_permission``.
        """
        result = await self._server.link.ask(
            lambda token: self._server.connection.ask_permission(
                self.handle, tool_call, options, deadline=deadline, token=token
            )
        )
        return chosen_option(result)

    async def request(
        self, method: str, params: Mapping[str, object] | None = None, *, deadline: float | None = None
    ) -> object:
        """Ask something else of the client about this session, by the name on the wire. ``deadline`` is in seconds.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError: there is no result.
            TypeError, LocalProtocolError: as ``Connection.request``.
        """
        return await self._server.link.ask(
            lambda token: self._server.connection.request(
                method, params, session=self.handle, deadline=deadline, token=token
            )
        )

    async def _text(self, kind: str, text: str, message_id: str | None) -> None:
        self._server.link.call(lambda: self._server.connection.update_text(self.handle, kind, message_id, delta=text))
        await self._server.link.drained()


class AgentTurn(AgentSession):
    """A prompt to answer: what was asked, and everything that may be sent about its session."""

    def __init__(self, server: Server, event: PromptRequested) -> None:
        super().__init__(server, event.session)
        self.event = event
        self.cancelled = False
        self.session = AgentSession(server, event.session)

    @property
    def text(self) -> str:
        """The text of the prompt."""
        return self.event.text

    @property
    def prompt(self) -> Sequence[Mapping[str, object]]:
        """The content blocks of the prompt, as on the wire."""
        return self.event.prompt
