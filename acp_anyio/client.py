"""The client's side: an agent that was started or is reached over a transport, its sessions, and their turns."""

from __future__ import annotations

import inspect
import secrets
from contextlib import asynccontextmanager
from functools import partial
from os import fspath
from time import monotonic
from typing import TYPE_CHECKING, TypeVar, overload

import anyio
import anyio.lowlevel

from acp_core import AgentMessageChunk, ConsumerTooSlow, RequestTimeout, SessionFailed, TurnEnded, TurnFailed
from acp_core.front.client import (
    OPEN_OPTIONS,
    SETUP_OPTIONS,
    AgentFront,
    ClientSetup,
    SessionFront,
    TurnFront,
    check_options,
)

from .closing import Closer
from .connection import Link, Waiter
from .handlers import threaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from os import PathLike
    from types import TracebackType
    from typing import Self, TypeAlias, Unpack

    from anyio.abc import ByteStream, ObjectStream

    from acp_core import Event, Policy
    from acp_core import Session as Handle
    from acp_core.inbox import Channel
    from acp_core.options import OpenOptions
    from acp_core.schema import Notification, Request

    from .options import Ask, ConnectOptions
    from .process import AgentProcess

    Params: TypeAlias = Mapping[str, object] | None
    About: TypeAlias = "Session | str | None"

R = TypeVar("R")
# The owner's code runs in the loop: after so many seconds in one go the others get their turn, which is looked at every
# so many events. By a number of events alone a quick consumer falls behind the reader, and all that is unread is kept:
# that costs half of json.loads an update.
TURN, EVENTS_PER_LOOK = 0.005, 64


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
    if inspect.iscoroutinefunction(options.get("on_event")):
        raise TypeError("on_event must be a plain function: it is told events in order, and awaited by nobody")
    return ClientSetup(Waiter, secrets.token_hex(8), permissions, blocking=threaded, **options)


class Agent(AgentFront[Waiter, "Session", "Turn"]):
    """One connected agent. ``connection`` is the core, for reading; its intents belong to the methods here."""

    link: Link
    _closer: Closer

    def __init__(
        self,
        setup: ClientSetup[Waiter],
        transport: ByteStream | ObjectStream[bytes | str],
        process: AgentProcess | None,
    ) -> None:
        link = Link(
            setup.connection,
            transport,
            on_event=setup.on_event,
            close_grace=setup.grace,
            process=process,
            inbox=setup.inbox,
            keep=setup.keep,
        )
        super().__init__(setup, link, Closer(setup.connection, link, setup.grace), process)

    async def initialize(self, *, deadline: float | None = 60.0) -> None:
        """Do the handshake now; ``open_session`` does it by itself.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError, LocalProtocolError: as ``request``.
        """
        try:
            await self.link.ask(partial(self.connection.initialize, deadline=deadline))
        except RequestTimeout as why:
            raise self._no_agent(why) from why

    async def authenticate(self, method_id: str, *, deadline: float | None = 300.0) -> None:
        """Log in by one of ``auth_methods``. ``deadline`` is in seconds.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError, LocalProtocolError: as ``request``.
        """
        await self.link.ask(partial(self.connection.authenticate, method_id, deadline=deadline))

    async def open_session(self, cwd: str | PathLike[str], **options: Unpack[OpenOptions]) -> Session:
        """Open a session and wait until it is ready. The options are those of ``ClientConnection.open_session``.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError: a step of opening has failed.
            TypeError, LocalProtocolError: an argument is wrong, or the agent cannot do what was asked for.
        """
        check_options("open_session", OPEN_OPTIONS, options)
        waiter = Waiter()
        handle = self.link.call(self._open, fspath(cwd), waiter, options)
        try:
            event = await self.link.answer(waiter)
        except BaseException:
            # It opens without an owner: what it says is counted and keeps nobody from reading.
            self.link.inbox.idle(handle).detach()
            raise
        if isinstance(event, SessionFailed):
            # Nobody can read what was replayed of it.
            self.link.leave(self.link.inbox.idle(handle))
            await self.link.fail(self._no_agent(event.error))
        return self._session(handle)

    @overload
    async def request(
        self, method: Request[R], params: None = None, *, session: About = None, deadline: float | None = None
    ) -> R: ...
    @overload
    async def request(
        self, method: str, params: Params = None, *, session: About = None, deadline: float | None = None
    ) -> object: ...
    async def request(
        self,
        method: Request[object] | str,
        params: Params = None,
        *,
        session: About = None,
        deadline: float | None = None,
    ) -> object:
        """Send a request and wait for its result. A cancelled caller cancels the request.

        Args:
            method: a name on the wire, or a ``Request`` of ``acp_core.schema``, which knows its params and result.
            session: adds its ``sessionId`` to the params.
            deadline: seconds until RequestTimeout.

        Raises:
            RequestError: the agent answered with an error.
            RequestTimeout: no answer in time.
            ConnectionClosed: the connection ended first; AgentExited when the process did.
            RemoteProtocolError: the answer broke the protocol.
            ConsumerTooSlow: the answer stands behind more unread updates than may be kept.
            TypeError, LocalProtocolError: as ``Connection.request``.
        """
        return await self.link.ask(self._request(method, params, session, deadline))

    async def notify(self, method: Notification | str, params: Params = None, *, session: About = None) -> None:
        """Send a notification: a name on the wire, or a ``Notification`` of ``acp_core.schema``.

        Raises:
            TypeError, LocalProtocolError: as ``Connection.notify``.
        """
        self._notify(method, params, session)
        await self.link.drained()

    async def close(self, *, cancel: bool = True) -> None:
        """Take no new turn, cancel those in flight and wait for their results, settle everything, write what is left,
        end the agent's input, wait for its process, ask its group to terminate, kill it; then release what hangs on it.
        Every wait is one of ``close_grace``.

        ``cancel=False`` is for an owner who hands over to another one, on a transport that outlives this connection: no
        turn is cancelled and nothing that the agent has asked is answered, so that the turns run on. Take the
        ``snapshot`` before; see docs/closing.md.

        A second call joins the first, and one after a failure does what is left. A cancelled call kills the agent at
        once. Also done at the end of the block; if that is left by an exception, no turn is cancelled first.

        Raises:
            ExceptionGroup: what failed, in the order of the steps, each with its step's name as a note. If the only
                thing is that a turn did not end when it was cancelled, and the agent has ended, nothing is raised;
                ``closing.failures`` has it.
        """
        await self._closer.close(cancel)

    @asynccontextmanager
    async def _block(self) -> AsyncIterator[None]:
        """What ``open_agent`` and ``connect`` are around."""
        async with self.link.run():
            try:
                yield
            except BaseException as why:
                # Nothing waits for an answer any more, and what went wrong is not hidden by what else does.
                self.link.end("its owner has left")
                with anyio.CancelScope(shield=True):
                    try:
                        await self.close()
                    except ExceptionGroup as also:
                        why.add_note(f"{also.message}: {[*also.exceptions]}")
                raise
            await self.close()

    def _session(self, handle: Handle) -> Session:
        return Session(self, handle)


class Session(SessionFront[Waiter, "Turn"]):
    """One session of an agent. ``handle`` is the core's: modes, options and usage are read there."""

    link: Link

    def __init__(self, agent: Agent, handle: Handle) -> None:
        super().__init__(agent.link, agent.connection, handle)
        self.agent = agent
        self._waiter = Waiter()
        agent.link.inbox.idle(handle).wake = self._waiter.notify

    async def close(self, *, deadline: float = 10.0) -> None:
        """Have the agent close the session. ``deadline`` is in seconds.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, LocalProtocolError: as ``Agent.request``.
        """
        await self.link.ask(partial(self.connection.close_session, self.handle, deadline=deadline))

    async def set_mode(self, mode_id: str, *, deadline: float | None = None) -> None:
        """Set the mode, one of those in ``handle.modes``. ``deadline`` is in seconds.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, LocalProtocolError: as ``Agent.request``.
        """
        await self.link.ask(partial(self.connection.set_mode, self.handle, mode_id, deadline=deadline))

    async def set_config_option(self, config_id: str, value: str | bool, *, deadline: float | None = None) -> None:
        """Set an option, one of those in ``handle.config_options``. ``deadline`` is in seconds.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, LocalProtocolError: as ``Agent.request``.
        """
        await self.link.ask(
            partial(self.connection.set_config_option, self.handle, config_id, value, deadline=deadline)
        )

    def events(self) -> SessionIterator:
        """What the agent says about the session between turns: how it was opened up to SessionReady, with a replay that
        was asked for or the count of one that was discarded before it; late updates; metadata, unread only in its
        latest state. Ends with the session or the connection. Waiting for the next event raises ConsumerTooSlow while
        another queue of the connection is full.
        """
        return SessionIterator(self.link, self.link.inbox.listen(self.handle), self._waiter)

    def _turn(self, prompt_id: int, channel: Channel, waiter: Waiter) -> Turn:
        return Turn(self, prompt_id, channel, waiter)


class Turn(TurnFront[Waiter, Session]):
    """A prompt and what comes of it.

    Iterate it for every event in order; TurnEnded is the last one. A loop that is left early detaches the turn: it runs
    on, what it still says is counted and discarded, and it keeps nobody from reading. As an async context manager,
    leaving detaches too. A cancelled iteration detaches; a cancelled ``result`` or ``text`` cancels the turn. After
    ConsumerTooSlow each may be tried again. A turn that was cancelled in time is no failure: it ends with the stop
    reason ``"cancelled"``, also when its prompt had not left.
    """

    link: Link

    def __aiter__(self) -> TurnIterator:
        return TurnIterator(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    async def result(self) -> TurnEnded:
        """Wait for the end; events that were not read are discarded and counted. Call ``text`` first to have that, too.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError: the turn failed.
            ConsumerTooSlow: its answer stands behind more unread updates of others than may be kept.
        """
        self.detach()
        try:
            event = await self.link.answer(self.waiter)
        except anyio.get_cancelled_exc_class():
            self._give_up()
            raise
        if isinstance(event, TurnFailed):
            await self.link.fail(event.error)
        assert isinstance(event, TurnEnded)
        return event

    async def text(self) -> str:
        """Read the turn to its end and give the text of the agent's message: all of it, with what a loop over the turn
        has read before, and the same again on another call.

        Raises:
            LocalProtocolError: some of it was discarded, by ``result``, ``detach`` or a loop that was left early.
            As ``result``.
        """
        self._asked = True
        try:
            async for _ in self:
                pass
            return self._text()
        except anyio.get_cancelled_exc_class():
            self._give_up()
            raise


class TurnIterator:
    """One loop over a turn. Dropping it before the end detaches the turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._taken = 0
        self._since = 0.0
        self._over = False
        self._stays = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        turn = self._turn
        link, channel = turn.link, turn.channel
        self._stays = False
        self._taken += 1
        gives_way = self._taken % EVENTS_PER_LOOK == 0 and monotonic() > self._since + TURN
        event = None if gives_way else channel.take()
        if event is None:
            try:
                if gives_way:
                    await anyio.lowlevel.checkpoint()
                await link.wait(turn.waiter, lambda: bool(len(channel)) or turn.waiter.event is not None)
            except ConsumerTooSlow:
                # May be tried again, by another loop, too.
                self._stays = True
                raise
            except anyio.get_cancelled_exc_class():
                turn.detach()
                raise
            self._since = monotonic()
            # Of a turn that was detached only its end is left.
            event = channel.take() or turn.waiter.event
            assert event is not None
        if link.paused:
            link.refresh()
        if isinstance(event, AgentMessageChunk):
            turn._keep(event)
        if isinstance(event, (TurnEnded, TurnFailed)):
            self._over = True
        if isinstance(event, TurnFailed):
            await turn.link.fail(event.error)
        return event

    def __del__(self) -> None:
        if not self._over and not self._stays:
            self._turn.detach()


class SessionIterator:
    """What a session says between turns. Leaving it loses nothing: the next one goes on."""

    def __init__(self, link: Link, channel: Channel, waiter: Waiter) -> None:
        self._link = link
        self._channel = channel
        self._waiter = waiter

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        channel = self._channel
        await self._link.wait(self._waiter, lambda: bool(len(channel)) or channel.ended)
        event = channel.take()
        if event is None:
            raise StopAsyncIteration
        self._link.refresh()
        return event
