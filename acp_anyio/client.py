"""The client's side: an agent that was started or is reached over a transport, its sessions, and their turns."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from acp_core.front.client import AgentCalls, SessionCalls, TurnCalls
from acp_core.front.setup import SETUP_OPTIONS, ClientSetup, check_options

from .closing import Closer
from .connection import Link, Waiter
from .handlers import threaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Unpack

    from anyio.abc import ByteStream, ObjectStream

    from acp_core import Policy
    from acp_core import Session as Handle
    from acp_core.inbox import Channel

    from .options import Ask, ConnectOptions
    from .process import AgentProcess


@asynccontextmanager
async def connect(
    transport: ByteStream | ObjectStream[bytes | str],
    *,
    permissions: Policy | Ask,
    **options: Unpack[ConnectOptions],
) -> AsyncIterator[Agent]:
    """Talk to an agent over a transport: a byte stream, or an object stream with one message an item, sent as bytes
    without a line end. Leaving the context closes it.

    Args:
        permissions: a policy, or who is asked: a function of the request, plain or async, that returns an option, an
            option's id, or None for cancelled. What a policy wants asked is denied, since nobody can be asked.
        capabilities: the ``clientCapabilities``; None derives fs and terminal from the keys of ``handlers``.
        info: the ``clientInfo``.
        handlers: who answers the agent's other requests, by key of the method table or wire name of an extension
            (``_*`` is every other one). A handler is plain or async, takes the request and returns its result; it may
            raise RequestError. Anything else that it raises is answered -32603 and reported as HandlerFailed.
        elicitation: who asks the user for input: mode (``"form"``, ``"url"``) to a function, plain or async, of the
            ElicitationRequested that returns what ``acp_core.elicitation_result`` takes. The modes are advertised.
        workspace: files and terminals of this machine to serve; for this connection only, whose end ends its commands.
        limits, methods, extensions, codec: as ``ClientConnection``.
        on_event: a plain function, told, in order, every event that nothing else consumes. Without it a HandlerFailed
            is printed to stderr.
        close_grace: how long each wait of closing may take: a Grace, or seconds for all of them.
        pause_at, full_at: bytes of unread updates at which reading pauses while nobody waits for an answer, and at
            which those who wait get ConsumerTooSlow.
        cycle_origins: as ``ClientConnection``.
        restore: what an earlier owner's ``snapshot`` gave: each of its sessions is attached before anything is read;
            see ``restored``. The transport replays the last bytes that the agent wrote.
        attach_deadline, tail_quiet, tail_max: seconds, as ``ClientConnection.attach``.
        on_snapshot: called before each write with the snapshot to store, and how many bytes are written then. Plain or
            async; the write waits for it, and when it raises, the connection ends.

    Raises:
        TypeError, LocalProtocolError: an argument is wrong.
    """
    agent = Agent(client_setup("connect", permissions, **options), transport, None)
    async with agent._block():
        yield agent


def client_setup(caller: str, permissions: Policy | Ask, **options: Unpack[ConnectOptions]) -> ClientSetup[Waiter]:
    """Check the arguments of ``connect``, before there is a transport. Raises as it does, in the name of ``caller``."""
    check_options(caller, SETUP_OPTIONS, options)
    return ClientSetup(Waiter, secrets.token_hex(8), permissions, blocking=threaded, **options)


class Agent(AgentCalls[Waiter, "Session", "Turn"]):
    """One connected agent. ``connection`` is the core, for reading; its intents belong to the methods here."""

    link: Link

    def __init__(
        self,
        setup: ClientSetup[Waiter],
        transport: ByteStream | ObjectStream[bytes | str],
        process: AgentProcess | None,
    ) -> None:
        link = Link(
            setup.connection,
            transport,
            setup.inbox,
            on_event=setup.on_event,
            grace=setup.grace,
            process=process,
            keep=setup.keep,
        )
        super().__init__(setup, link, Closer(setup.connection, link, setup.grace), process)

    @asynccontextmanager
    async def _block(self) -> AsyncIterator[None]:
        """What ``open_agent`` and ``connect`` are around."""
        async with self.link.run():
            try:
                yield
            except BaseException as why:
                with anyio.CancelScope(shield=True):
                    await self._leave(why)
                raise
            await self._leave(None)

    def _session(self, handle: Handle) -> Session:
        return Session(self.link, self.connection, handle)


class Session(SessionCalls[Waiter, "Turn"]):
    """One session of an agent. ``handle`` is the core's: modes, options and usage are read there."""

    def _turn(self, prompt_id: int, channel: Channel, waiter: Waiter) -> Turn:
        return Turn(self, prompt_id, channel, waiter)


class Turn(TurnCalls[Waiter, Session]):
    """A prompt and what comes of it.

    Iterate it for every event in order; TurnEnded is the last one. A loop that is left early detaches the turn: it runs
    on, what it still says is counted and discarded, and it keeps nobody from reading. As an async context manager,
    leaving detaches too. A cancelled iteration detaches; a cancelled ``result`` or ``text`` cancels the turn. After
    ConsumerTooSlow each may be tried again. A turn that was cancelled in time is no failure: it ends with the stop
    reason ``"cancelled"``, also when its prompt had not left.
    """
