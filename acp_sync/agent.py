"""The agent's front: an object with the methods it serves, and what it is given to answer with."""

from __future__ import annotations

import contextlib
import secrets
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, Unpack

from acp_core import (
    AgentConnection,
    CancelRequested,
    ConnectionOver,
    Event,
    HandlerFailed,
    LocalProtocolError,
    PromptRequested,
    RequestAbandoned,
    RequestReceived,
    RequestSettled,
    ServedSession,
    TurnCancelReceived,
)
from acp_core.errors import ACPError, not_served
from acp_core.front import REOPENS, agent_connection, answer_of, chosen_option, method_for, plain_dict
from acp_core.inbox import Inbox

from .client import settled
from .connection import Driver, Waiter
from .transport import Connectable, adapt

if TYPE_CHECKING:
    from acp_core.options import AgentOptions


class PromptAgent(Protocol):
    """An agent, as small as it can be. Every other method is found by its name.

    ``prompt(turn)`` answers a prompt: a stop reason, or None for end_turn. Optional: ``new_session(request)`` gives the
    new session's id, None to have one made, or the whole result with its ``sessionId``;
    ``load_session(request, session)`` sends the history and returns the rest of the result or None, as
    ``resume_session(request, session)`` does without a history; ``list_sessions``, ``close_session``,
    ``delete_session``, ``set_mode``, ``set_config_option``, ``authenticate``, ``logout`` and ``extension`` get the
    request and return the result or None; ``cancel(turn)`` is told that a turn was cancelled. What is not defined is
    answered -32601 and not advertised. Each call has a thread of its own. A RequestError is answered as it is, any
    other exception -32603 without its text.
    """

    def prompt(self, turn: AgentTurn, /) -> str | None:
        """Answer a prompt."""


class AgentSession:
    """A session that the agent serves. Everything may be called from any thread, between turns too."""

    def __init__(self, driver: Driver, connection: AgentConnection, handle: ServedSession) -> None:
        self.handle = handle
        self._driver = driver
        self._connection = connection

    @property
    def session_id(self) -> str:
        """Its id."""
        return self.handle.session_id or ""

    @property
    def cwd(self) -> str:
        """The absolute working directory that the client gave."""
        return self.handle.cwd

    def send(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the answer. Waits while the client reads too slowly.

        Raises:
            TypeError, LocalProtocolError: see ``AgentConnection.update_text``.
            ConnectionClosed: the client has gone.
        """
        self._text("message", text, message_id)

    def think(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of reasoning. Waits and raises as ``send``."""
        self._text("thought", text, message_id)

    def echo(self, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of a user's message, as a history has it. Waits and raises as ``send``."""
        self._text("user", text, message_id)

    def update(self, update: Mapping[str, object]) -> None:
        """Send any update: an object with ``sessionUpdate``, as on the wire. Waits and raises as ``send``."""
        self._driver.pace(self._stop)
        self._driver.intent(self._connection.update, self.handle, dict(update))

    def _text(self, kind: str, text: str, message_id: str | None) -> None:
        self._driver.pace(self._stop)
        self._driver.intent(self._connection.update_text, self.handle, kind, message_id, delta=text)

    def _stop(self) -> bool:
        return False


class AgentTurn(AgentSession):
    """One prompt to answer: what was asked, and the ways to say something about it.

    ``text`` is the prompt's text, ``prompt`` all its content blocks, ``session`` the session. ``cancel_event`` is set
    when the client cancels the turn, and when it has gone.
    """

    def __init__(self, driver: Driver, connection: AgentConnection, event: PromptRequested) -> None:
        assert isinstance(event.session, ServedSession)
        super().__init__(driver, connection, event.session)
        self.request_event = event
        self.session = AgentSession(driver, connection, event.session)
        self.text = event.text
        self.prompt = event.prompt
        self.cancel_event = threading.Event()
        self.asking: Waiter | None = None

    @property
    def cancelled(self) -> bool:
        """The client has cancelled the turn, or has gone: stop, and return. The core answers ``cancelled``."""
        return self.cancel_event.is_set()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds; whether the turn is cancelled then. A sleep that a cancel ends."""
        return self.cancel_event.wait(timeout)

    def ask_permission(
        self,
        tool_call: Mapping[str, object],
        options: Sequence[Mapping[str, object]],
        *,
        deadline: float | None = None,
    ) -> str | None:
        """Ask the client whether a tool call may run, and wait. See ``AgentConnection.ask_permission``.

        Returns: the id of the chosen option, or None when the turn was cancelled.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong.
            RequestError, RequestTimeout, ConnectionClosed: there is no answer; do not run it.
        """
        waiter = self.asking = Waiter()
        id = self._driver.intent(
            self._connection.ask_permission,
            self.handle,
            dict(tool_call),
            [dict(option) for option in options],
            deadline=deadline,
            token=waiter,
        )
        # A cancelled turn does not wait for a client that forgets to answer.
        event = self._driver.wait(waiter.bell, lambda: waiter.event or (self if self.cancelled else None))
        if not isinstance(event, RequestSettled):
            with contextlib.suppress(LocalProtocolError):
                self._driver.call(self._connection.cancel_request, id)
            return None
        if event.error is not None:
            raise self._driver.explained(event.error)
        return chosen_option(event.result)

    def request(
        self, method: str, params: Mapping[str, object] | None = None, *, deadline: float | None = None
    ) -> object:
        """Ask the client something else about this session, and wait for the result. ``deadline`` is in seconds.

        Raises:
            TypeError, LocalProtocolError: see ``Connection.request``.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: there is no result.
        """
        body = plain_dict(params)
        return settled(
            self._driver,
            lambda token: self._connection.request(method, body, session=self.handle, deadline=deadline, token=token),
        )

    def _stop(self) -> bool:
        return self.cancelled


class Desk:
    """Gives each request to the agent's method."""

    def __init__(self, agent: object, driver: Driver, connection: AgentConnection) -> None:
        self._agent = agent
        self._driver = driver
        self._connection = connection
        self._turns: dict[str, AgentTurn] = {}

    def act(self, event: Event) -> bool:
        """Take a request or a cancel; the lock is held."""
        if isinstance(event, RequestReceived):
            method = method_for(self._agent, event.key)
            if method is None:
                if event.key != "session_new":
                    with contextlib.suppress(ACPError):
                        error = not_served(event.method)
                        self._connection.respond_error(event.request_id, error.code, error.message, error.data)
                    return False
                method = _no_opinion
            serve = method
            if isinstance(event, PromptRequested):
                turn = self._turns[event.request_id] = AgentTurn(self._driver, self._connection, event)
                self._driver.spawn(event, lambda: self._turn(turn, serve))
            else:
                self._driver.spawn(event, lambda: self._answer(event, serve))
            return True
        if isinstance(event, (TurnCancelReceived, CancelRequested, RequestAbandoned)):
            self._cancel(event.request_id or "")
        elif isinstance(event, ConnectionOver):
            for request_id in [*self._turns]:
                self._cancel(request_id)
        return False

    def _cancel(self, request_id: str) -> None:
        turn = self._turns.get(request_id)
        if turn is None or turn.cancelled:
            return
        turn.cancel_event.set()
        if turn.asking is not None:
            turn.asking.bell.ring()
        notice = method_for(self._agent, "cancel")
        if notice is not None:
            self._driver.spawn(turn.request_event, partial(_tell, notice, turn))

    def _turn(self, turn: AgentTurn, serve: Callable[..., object]) -> None:
        request_id = turn.request_event.request_id
        try:
            stop_reason = serve(turn)
            if stop_reason is not None and not isinstance(stop_reason, str):
                raise TypeError(f"prompt() gave {type(stop_reason).__name__}, not a stop reason or None")
            with contextlib.suppress(*((LocalProtocolError,) if turn.cancelled else ())):
                stop_reason = "cancelled" if turn.cancelled else stop_reason or "end_turn"
                self._driver.call(self._connection.end_turn, request_id, stop_reason)
        finally:
            self._turns.pop(request_id, None)

    def _answer(self, event: RequestReceived, serve: Callable[..., object]) -> None:
        handle = event.session
        if event.key in REOPENS and isinstance(handle, ServedSession):
            result = serve(event, AgentSession(self._driver, self._connection, handle))
        else:
            result = serve(event)
        body = answer_of(event, result, lambda: secrets.token_hex(16))
        self._driver.call(self._connection.respond, event.request_id, body)


def print_failure(event: Event) -> None:
    """What ``serve`` does with events when nobody else wants them: tracebacks of the agent's methods go to stderr."""
    if isinstance(event, HandlerFailed):
        traceback.print_exception(event.exception, file=sys.stderr)


def _tell(notice: Callable[..., object], turn: AgentTurn) -> None:
    notice(turn)


def _no_opinion(request: RequestReceived) -> None:
    return None


def serve_on(
    agent: PromptAgent,
    transport: Connectable,
    *,
    on_event: Callable[[Event], None] | None = None,
    close_grace: float = 2.0,
    **options: Unpack[AgentOptions],
) -> None:
    """Serve one client over a transport (see ``connect``) until it has gone.

    Args:
        agent: an object with the methods it serves, see ``PromptAgent``.
        capabilities: the ``agentCapabilities``, merged over those that follow from the methods of ``agent``.
        info: name, title and version of this agent.
        auth_methods: the ways to log in, as on the wire.
        limits, methods, extensions, codec: as ``AgentConnection``.
        on_event: gets every event that nothing else uses, in a thread of its own. Without it, tracebacks of the
            agent's methods go to stderr.
        close_grace: how long output and running methods may take when the client has gone, in seconds.

    Raises:
        TypeError, LocalProtocolError: an argument is wrong.
    """
    connection = agent_connection(secrets.token_hex(8), agent, **options)
    driver = Driver(connection, adapt(transport), Inbox(), on_event=on_event or print_failure)
    driver.act = Desk(agent, driver, connection).act
    driver.start()
    try:
        driver.join()
        driver.flush(close_grace)
        driver.join_handlers(close_grace)
    finally:
        driver.stop("the agent has stopped")
