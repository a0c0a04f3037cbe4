"""The agent's front: an object with the methods it serves, and what it is given to answer with."""

from __future__ import annotations

import inspect
import secrets
import threading
from typing import TYPE_CHECKING, Protocol, TypeVar, overload

from acp_core import Grace
from acp_core.front.agent import (
    SERVED,
    TOLD,
    AgentDesk,
    AgentSessionFront,
    AgentTurnFront,
    agent_connection,
    chosen_option,
)
from acp_core.inbox import Inbox

from .connection import Driver, print_failure
from .transport import adapt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias, Unpack

    from acp_core import (
        AuthenticateRequested,
        CloseSessionRequested,
        DeleteSessionRequested,
        Event,
        ListSessionsRequested,
        LoadSessionRequested,
        LogoutRequested,
        NewSessionRequested,
        PromptRequested,
        RequestReceived,
        ResumeSessionRequested,
        SetConfigOptionRequested,
        SetModeRequested,
    )
    from acp_core.options import AgentOptions
    from acp_core.schema import Notification, Request
    from acp_core.schema.v1 import StopReason

    from .transport import Connectable

    Params: TypeAlias = Mapping[str, object] | None
    Result: TypeAlias = Mapping[str, object] | None

R = TypeVar("R")


class PromptAgent(Protocol):
    """An agent, as small as it can be. Every other method is found by its name; see ``AgentMethods``.

    ``prompt(turn)`` answers a prompt: a stop reason, or None for end_turn. Optional: ``new_session(request)`` gives the
    new session's id, None to have one made, or the whole result with its ``sessionId``; ``load_session(request,
    session)`` sends the history and returns the rest of the result or None, as ``resume_session(request, session)``
    does without a history; ``list_sessions``, ``close_session``, ``delete_session``, ``set_mode``,
    ``set_config_option``, ``authenticate``, ``logout`` and ``extension`` get the request and return the result or None
    (``extension`` is for every method that begins with an underscore, or for those that ``extensions`` names);
    ``opened(session)`` is told of a session that is open now, behind the answer; ``cancel(turn)`` is told that a turn
    was cancelled. What is not defined is answered -32601 and not advertised; what can never be called, by its name or
    its arguments, is a TypeError of ``serve``. Each call has a thread of its own. A RequestError is answered as it is,
    any other exception -32603 without its text.
    """

    def prompt(self, turn: AgentTurn, /) -> StopReason | None:
        """Answer a prompt."""


class AgentMethods:
    """The optional methods of an agent with their types, for type checkers: a class that inherits it is told of a wrong
    argument or result. It defines none of them, so what a class does not define is not served."""

    if TYPE_CHECKING:

        def new_session(self, request: NewSessionRequested, /) -> str | Result: ...
        def load_session(self, request: LoadSessionRequested, session: AgentSession, /) -> Result: ...
        def resume_session(self, request: ResumeSessionRequested, session: AgentSession, /) -> Result: ...
        def opened(self, session: AgentSession, /) -> None: ...
        def cancel(self, turn: AgentTurn, /) -> None: ...
        def list_sessions(self, request: ListSessionsRequested, /) -> Result: ...
        def close_session(self, request: CloseSessionRequested, /) -> Result: ...
        def delete_session(self, request: DeleteSessionRequested, /) -> Result: ...
        def set_mode(self, request: SetModeRequested, /) -> Result: ...
        def set_config_option(self, request: SetConfigOptionRequested, /) -> Result: ...
        def authenticate(self, request: AuthenticateRequested, /) -> Result: ...
        def logout(self, request: LogoutRequested, /) -> Result: ...
        def extension(self, request: RequestReceived, /) -> Result: ...


class AgentSession(AgentSessionFront):
    """A session that the agent serves. Everything may be called from any thread, between turns too."""

    link: Driver

    def send(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the answer. Waits while the client reads too slowly.

        Raises:
            TypeError, LocalProtocolError: see ``AgentConnection.update_text``.
            ConnectionClosed: the client has gone.
        """
        self.update_text("message", message_id, delta=text)

    def think(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of reasoning. Waits and raises as ``send``."""
        self.update_text("thought", message_id, delta=text)

    def echo(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of a user's message, as a history has it. Waits and raises as ``send``."""
        self.update_text("user", message_id, delta=text)

    def update_text(
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
        answered with an error: return.

        Raises:
            TypeError, StreamGap, StreamConflict, LocalProtocolError: as there.
            ConnectionClosed: the client has gone.
        """
        self._pace()
        return self._update_text(kind, message_id, delta, offset, snapshot)

    def update(self, update: Mapping[str, object]) -> None:
        """Send any update: an object with ``sessionUpdate``, as on the wire. Waits and raises as ``send``."""
        self._pace()
        self._update(update)

    def ask_permission(
        self, tool_call: Mapping[str, object], options: Sequence[Mapping[str, object]], *, deadline: float | None = None
    ) -> str | None:
        """Ask the client whether a tool call may run, and wait. See ``AgentConnection.ask_permission``.

        Returns: the id of the chosen option, or None when the turn was cancelled.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong.
            RequestError, RequestTimeout, ConnectionClosed: there is no answer; do not run it.
        """
        # A cancelled turn does not wait for a client that forgets to answer.
        return chosen_option(self.link.ask(self._permission(tool_call, options, deadline), self._stop))

    @overload
    def request(self, method: Request[R], params: None = None, *, deadline: float | None = None) -> R: ...
    @overload
    def request(self, method: str, params: Params = None, *, deadline: float | None = None) -> object: ...
    def request(self, method: str | Request[object], params: Params = None, *, deadline: float | None = None) -> object:
        """Ask the client something else about this session, and wait for the result. ``deadline`` is in seconds.

        ``method`` is a wire name, or a typed request of ``acp_core.schema``. The id of the session is added, except to
        an elicitation that has a ``requestId``.

        Raises:
            TypeError, LocalProtocolError: see ``Connection.request``.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: there is no result.
        """
        return self.link.ask(self._request(method, params, deadline))

    @overload
    def notify(self, method: Notification) -> None: ...
    @overload
    def notify(self, method: str, params: Params = None) -> None: ...
    def notify(self, method: str | Notification, params: Params = None) -> None:
        """Send the client a notification: that an elicitation by URL is complete, or an extension, to which the id of
        the session is added. ``method`` is as in ``request``. Waits as ``send``.

        Raises:
            TypeError, LocalProtocolError: see ``AgentConnection.notify``.
            ConnectionClosed: the client has gone.
        """
        self._pace()
        self._notify(method, params)

    def _pace(self) -> None:
        self.link.pace(self._stop)

    def _stop(self) -> bool:
        return False


class AgentTurn(AgentTurnFront[AgentSession], AgentSession):
    """One prompt to answer: what was asked, and the ways to say something about it.

    ``text`` is the prompt's text, ``prompt`` all its content blocks, ``session`` the session. ``cancelled`` is true,
    and ``cancel_event`` set, when the client has cancelled the turn, and when it has gone: stop, and return. The core
    answers ``cancelled``.
    """

    def __init__(self, session: AgentSession, event: PromptRequested) -> None:
        super().__init__(session, event)
        self.cancel_event = threading.Event()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds; whether the turn is cancelled then. A sleep that a cancel ends."""
        return self.cancel_event.wait(timeout)

    def mark_cancelled(self) -> None:
        """For the desk: the client has cancelled it, or has gone."""
        super().mark_cancelled()
        self.cancel_event.set()

    def _stop(self) -> bool:
        return self.cancelled


def refuse_coroutines(agent: object) -> None:
    """Refuse an agent whose methods nobody here would await.

    Raises:
        TypeError: a method is async.
    """
    for name in (*SERVED.values(), *TOLD):
        if inspect.iscoroutinefunction(getattr(agent, name, None)):
            raise TypeError(f"{type(agent).__name__}.{name} is async: acp_sync calls it in a thread; acp_anyio awaits")


def serve_on(
    agent: PromptAgent,
    transport: Connectable,
    *,
    on_event: Callable[[Event], None] | None = None,
    close_grace: float | Grace = 2.0,
    **options: Unpack[AgentOptions],
) -> None:
    """Serve one client over a transport (see ``connect``) until it has gone.

    Args:
        agent: an object with the methods it serves, see ``PromptAgent``.
        capabilities: the ``agentCapabilities``, merged over those that follow from the methods of ``agent``.
        info: name, title and version of this agent.
        auth_methods: the ways to log in, as on the wire.
        extensions: which methods outside the table ``agent.extension`` gets; all that begin with an underscore without.
        limits, methods, codec: as ``AgentConnection``.
        on_event: gets every event that nothing else uses, in a thread of its own. Without it, tracebacks of the
            agent's methods go to stderr.
        close_grace: how long output and running methods may take when the client has gone: seconds for each, or a
            Grace, whose ``write`` is for output and whose ``cancel`` is for methods.

    Raises:
        TypeError, LocalProtocolError: an argument is wrong.
    """
    grace = Grace.of(close_grace)
    connection = agent_connection(secrets.token_hex(8), agent, **options)
    refuse_coroutines(agent)
    link = Driver(connection, adapt(transport), Inbox(), on_event=on_event or print_failure)
    desk = AgentDesk(
        link, connection, agent, session=AgentSession, turn=AgentTurn, new_id=lambda: secrets.token_hex(16)
    )
    link.act = desk.act
    link.start()
    try:
        link.join()
        link.flush(grace.write)
        link.join_handlers(grace.cancel)
    finally:
        link.stop("the agent has stopped")
