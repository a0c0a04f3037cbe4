"""The agent's side: an object with the methods it serves, its sessions, and the turns it answers."""

from __future__ import annotations

import inspect
import secrets
from typing import TYPE_CHECKING, Protocol, TypeVar, overload

from acp_core.front.agent import AgentDesk, AgentSessionFront, AgentTurnFront, agent_connection, chosen_option

from .connection import Link
from .stdio import claimed_stdio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias, Unpack

    from anyio.abc import ByteStream, ObjectStream

    from acp_core import (
        AuthenticateRequested,
        CloseSessionRequested,
        DeleteSessionRequested,
        Event,
        Grace,
        ListSessionsRequested,
        LoadSessionRequested,
        LogoutRequested,
        NewSessionRequested,
        RequestReceived,
        ResumeSessionRequested,
        SetConfigOptionRequested,
        SetModeRequested,
    )
    from acp_core.options import AgentOptions, ServeOptions
    from acp_core.schema import Notification, Request
    from acp_core.schema.v1 import StopReason

    Params: TypeAlias = Mapping[str, object] | None
    Result: TypeAlias = Mapping[str, object] | None
    Answer: TypeAlias = Awaitable[Result] | Result
    Told: TypeAlias = Awaitable[None] | None

R = TypeVar("R")


class PromptAgent(Protocol):
    """An agent: any object with ``prompt``, plain or async; it returns a stop reason, None for end_turn.

    It may also define, with the types of ``AgentMethods``, ``new_session(request)`` (returns an id, a result with
    ``sessionId``, or None for an id made here), ``load_session(request, session)`` and ``resume_session(request,
    session)`` (a load sends the history and returns), ``list_sessions``, ``close_session``, ``delete_session``,
    ``set_mode``, ``set_config_option``, ``authenticate``, ``logout`` and ``extension``, each with ``(request)`` and
    returning the result (``extension`` gets every method that begins with an underscore, or those that ``extensions``
    names), ``opened(session)``, told of a session that is open now, behind the answer, and ``cancel(turn)``, told of a
    cancel. What is not defined is answered -32601 and not advertised; what can never be called, by its name or its
    arguments, is a TypeError of ``serve``. Any of them may raise RequestError; anything else raised is answered -32603
    and reported as HandlerFailed.
    """

    def prompt(self, turn: AgentTurn, /) -> Awaitable[StopReason | None] | StopReason | None:
        """Serve a turn. When the client cancels it, this is cancelled, and ``cancelled`` is answered."""


class AgentMethods:
    """The optional methods of an agent with their types, for type checkers: a class that inherits it is told of a wrong
    argument or result. It defines none of them, so what a class does not define is not served."""

    if TYPE_CHECKING:

        def new_session(self, request: NewSessionRequested, /) -> Awaitable[str | Result] | str | Result: ...
        def load_session(self, request: LoadSessionRequested, session: AgentSession, /) -> Answer: ...
        def resume_session(self, request: ResumeSessionRequested, session: AgentSession, /) -> Answer: ...
        def opened(self, session: AgentSession, /) -> Told: ...
        def cancel(self, turn: AgentTurn, /) -> Told: ...
        def list_sessions(self, request: ListSessionsRequested, /) -> Answer: ...
        def close_session(self, request: CloseSessionRequested, /) -> Answer: ...
        def delete_session(self, request: DeleteSessionRequested, /) -> Answer: ...
        def set_mode(self, request: SetModeRequested, /) -> Answer: ...
        def set_config_option(self, request: SetConfigOptionRequested, /) -> Answer: ...
        def authenticate(self, request: AuthenticateRequested, /) -> Answer: ...
        def logout(self, request: LogoutRequested, /) -> Answer: ...
        def extension(self, request: RequestReceived, /) -> Answer: ...


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
    agent: PromptAgent,
    transport: ByteStream | ObjectStream[bytes | str],
    *,
    on_event: Callable[[Event], None] | None = None,
    close_grace: float | Grace = 2.0,
    **options: Unpack[AgentOptions],
) -> None:
    """Serve one client over a transport, as ``connect`` takes it, until its input ends.

    Args:
        extensions: which methods outside the table ``agent.extension`` gets; all that begin with an underscore without.
        limits, methods, codec, info, auth_methods: as ``AgentConnection``.
        capabilities: merged over those that follow from the methods ``agent`` defines.
        on_event: told, in order, every event that nothing else consumes. Without it a HandlerFailed is printed to
            stderr.
        close_grace: how long each wait of closing may take when the client has gone: a Grace, or seconds for all of
            them.

    Raises:
        TypeError, LocalProtocolError: an option is wrong.
    """
    connection = agent_connection(secrets.token_hex(8), agent, **options)
    link = Link(connection, transport, on_event=on_event, close_grace=close_grace)

    def meanwhile(work: Callable[[], object]) -> Callable[[], object]:
        async def ends_with_the_connection() -> None:
            with link.working():
                found = work()
                if inspect.isawaitable(found):
                    await found

        return ends_with_the_connection

    desk = AgentDesk(
        link,
        connection,
        agent,
        session=AgentSession,
        turn=AgentTurn,
        new_id=lambda: secrets.token_hex(16),
        meanwhile=meanwhile,
    )
    link.act = desk.act
    async with link.run():
        await link.over.wait()


class AgentSession(AgentSessionFront):
    """A session that this agent serves."""

    link: Link

    async def send(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the agent's message. Waits while more than 1 MiB is unsent.

        Raises:
            TypeError, LocalProtocolError: as ``AgentConnection.update_text``.
        """
        await self.update_text("message", message_id, delta=text)

    async def think(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the agent's reasoning; see ``send``."""
        await self.update_text("thought", message_id, delta=text)

    async def echo(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the user's message, as a replayed history has it; see ``send``."""
        await self.update_text("user", message_id, delta=text)

    async def update_text(
        self,
        kind: str,
        message_id: str | None = None,
        *,
        delta: str | None = None,
        offset: int | None = None,
        snapshot: str | None = None,
    ) -> str:
        """Say text, append-only: a ``delta`` that may start at ``offset``, or a ``snapshot`` of the whole text; only
        what is missing goes out. ``kind`` is ``"message"``, ``"thought"`` or ``"user"``. Waits as ``send``.

        Returns: ``"sent"``, ``"same"`` or ``"revised"``; see ``AgentConnection.update_text``. A revised turn was
        answered with an error, and is cancelled.

        Raises:
            TypeError, StreamGap, StreamConflict, LocalProtocolError: as there.
        """
        done = self._update_text(kind, message_id, delta, offset, snapshot)
        await self.link.drained()
        return done

    async def update(self, update: Mapping[str, object]) -> None:
        """Send one update, as on the wire. Waits while more than 1 MiB is unsent.

        Raises:
            TypeError, LocalProtocolError: as ``AgentConnection.update``.
        """
        self._update(update)
        await self.link.drained()

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
        return chosen_option(await self.link.ask(self._permission(tool_call, options, deadline)))

    @overload
    async def request(self, method: Request[R], params: None = None, *, deadline: float | None = None) -> R: ...
    @overload
    async def request(self, method: str, params: Params = None, *, deadline: float | None = None) -> object: ...
    async def request(
        self, method: str | Request[object], params: Params = None, *, deadline: float | None = None
    ) -> object:
        """Ask something else of the client about this session, and wait for the result. ``deadline`` is in seconds.

        ``method`` is a wire name, or a typed request of ``acp_core.schema``. The id of the session is added, except to
        an elicitation that has a ``requestId``.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError: there is no result.
            TypeError, LocalProtocolError: as ``Connection.request``.
        """
        return await self.link.ask(self._request(method, params, deadline))

    @overload
    async def notify(self, method: Notification) -> None: ...
    @overload
    async def notify(self, method: str, params: Params = None) -> None: ...
    async def notify(self, method: str | Notification, params: Params = None) -> None:
        """Send the client a notification: that an elicitation by URL is complete, or an extension, to which the id of
        the session is added. ``method`` is as in ``request``. Waits as ``send``.

        Raises:
            TypeError, LocalProtocolError: as ``AgentConnection.notify``.
        """
        self._notify(method, params)
        await self.link.drained()


class AgentTurn(AgentTurnFront[AgentSession], AgentSession):
    """A prompt to answer: what was asked, and everything that may be sent about its session."""
