"""The agent's front: an object with the methods it serves, and what it is given to answer with."""

from __future__ import annotations

import inspect
import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING, Protocol

from acp_core import Grace
from acp_core.front import agent as front
from acp_core.front import check_listener
from acp_core.inbox import Inbox

from .connection import Driver, blocking, print_failure
from .transport import adapt

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias, Unpack

    from acp_core import Event, PromptRequested
    from acp_core.options import AgentOptions
    from acp_core.schema.v1 import StopReason

    from .options import Result
    from .transport import Connectable

    Prompted: TypeAlias = front.PromptAgent["AgentTurn", StopReason | None]
    Served: TypeAlias = front.AgentMethods["AgentSession", "AgentTurn", str | Result, Result, None]
else:
    Prompted, Served = front.PromptAgent, front.AgentMethods


class AgentSession(front.AgentSessionFront):
    """A session that the agent serves. Everything may be called from any thread, between turns too."""

    send = blocking(front.AgentSessionCalls.send)
    think = blocking(front.AgentSessionCalls.think)
    echo = blocking(front.AgentSessionCalls.echo)
    update_text = blocking(front.AgentSessionCalls.update_text)
    update = blocking(front.AgentSessionCalls.update)
    ask_permission = blocking(front.AgentSessionCalls.ask_permission)
    request = blocking(front.AgentSessionCalls.request)
    notify = blocking(front.AgentSessionCalls.notify)


class AgentTurn(front.AgentTurnFront[AgentSession], AgentSession):
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


class PromptAgent(Prompted, Protocol):
    """An agent: any object with ``prompt(turn)``, and what else it serves; see ``acp_core.front.agent.PromptAgent``.
    Each call has a thread of its own."""


class AgentMethods(Served):
    """The optional methods of an agent with their types; see ``acp_core.front.agent.AgentMethods``."""


def refuse_coroutines(agent: object) -> None:
    """Refuse an agent whose methods nobody here would await.

    Raises:
        TypeError: a method is async.
    """
    for name in (*front.SERVED.values(), *front.TOLD):
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
    check_listener(on_event)
    grace = Grace.of(close_grace)
    connection = front.agent_connection(secrets.token_hex(8), agent, **options)
    refuse_coroutines(agent)
    link = Driver(connection, adapt(transport), Inbox(), on_event=on_event or print_failure)
    new_id = partial(secrets.token_hex, 16)
    link.act = front.AgentDesk(link, connection, agent, session=AgentSession, turn=AgentTurn, new_id=new_id).act
    link.run()
    try:
        link.join()
        link.flush(grace.write)
        link.join_handlers(grace.cancel)
    finally:
        link.stop("the agent has stopped")
