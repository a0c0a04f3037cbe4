"""The agent's side: an object with the methods it serves, its sessions, and the turns it answers."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Protocol

from acp_core import Grace
from acp_core.front import agent as front
from acp_core.front import check_listener
from acp_core.front.agent import AgentDesk, AgentSessionCalls, AgentTurnFront, agent_connection
from acp_core.inbox import Inbox

from .connection import Link
from .stdio import claimed_stdio

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias, Unpack

    from anyio.abc import ByteStream, ObjectStream

    from acp_core import Event
    from acp_core.options import AgentOptions, ServeOptions
    from acp_core.schema.v1 import StopReason

    from .options import Maybe, Result

    Prompted: TypeAlias = front.PromptAgent["AgentTurn", Maybe[StopReason | None]]
    Served: TypeAlias = front.AgentMethods["AgentSession", "AgentTurn", Maybe[str | Result], Maybe[Result], Maybe[None]]
else:
    Prompted, Served = front.PromptAgent, front.AgentMethods


class PromptAgent(Prompted, Protocol):
    """An agent: any object with ``prompt(turn)``, and what else it serves; see ``acp_core.front.agent.PromptAgent``.
    Each method is plain or async, and is cancelled with its request."""


class AgentMethods(Served):
    """The optional methods of an agent with their types; see ``acp_core.front.agent.AgentMethods``."""


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
    check_listener(on_event)
    connection = agent_connection(secrets.token_hex(8), agent, **options)
    link = Link(connection, transport, Inbox(), on_event=on_event, grace=Grace.of(close_grace))

    new_id = partial(secrets.token_hex, 16)
    link.act = AgentDesk(link, connection, agent, session=AgentSession, turn=AgentTurn, new_id=new_id).act
    async with link.run():
        await link.over.wait()


class AgentSession(AgentSessionCalls):
    """A session that this agent serves."""


class AgentTurn(AgentTurnFront[AgentSession], AgentSession):
    """A prompt to answer: what was asked, and everything that may be sent about its session."""
