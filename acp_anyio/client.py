"""The client's side: an agent that was started or is reached over a transport, its sessions, and their turns."""

from __future__ import annotations

import inspect
import secrets
from contextlib import asynccontextmanager, suppress
from os import fspath
from typing import TYPE_CHECKING, TypedDict, TypeVar, overload

import anyio
import anyio.lowlevel
from anyio import to_thread

from acp_core import (
    V1,
    AgentMessageChunk,
    ClientConnection,
    ConnectionClosed,
    ConnectionOver,
    Grace,
    PermissionRequested,
    Policy,
    RequestReceived,
    SessionEvent,
    SessionFailed,
    TurnEnded,
    TurnFailed,
)
from acp_core.client import CYCLE_ORIGINS
from acp_core.closing import AGENT as AGENT_STEP
from acp_core.closing import SETTLED
from acp_core.elicitation import elicitation_capabilities
from acp_core.errors import not_served
from acp_core.inbox import MIB, TurnToken

from .closing import Closer
from .connection import Link, Waiter
from .handlers import elicits, threaded
from .process import AgentProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from os import PathLike
    from types import TracebackType
    from typing import Self, TypeAlias, Unpack

    from anyio.abc import ByteStream, ObjectStream

    from acp_core import ClosingPlan, Event, Limits, MethodTable, PermissionOption
    from acp_core import Session as Handle
    from acp_core.inbox import Channel
    from acp_core.options import OpenOptions, PromptOptions
    from acp_core.schema import Notification, Request
    from acp_sync.workspace import Workspace

    from .handlers import Elicit, Handler

    Choice: TypeAlias = "PermissionOption | str | None"
    Ask: TypeAlias = "Callable[[PermissionRequested], Awaitable[Choice] | Choice]"
    Store: TypeAlias = "Callable[[dict[str, object], int], Awaitable[None] | None]"

R = TypeVar("R")
# The owner's code runs in the loop: after so many events in one go the others get their turn.
EVENTS_PER_TURN = 64


class ConnectOptions(TypedDict, total=False):
    """What ``connect`` and ``open_agent`` take besides the transport and ``permissions``; see ``connect``."""

    capabilities: Mapping[str, object] | None
    info: Mapping[str, object] | None
    handlers: Mapping[str, Handler] | None
    elicitation: Mapping[str, Elicit] | None
    workspace: Workspace | None
    limits: Limits | None
    methods: MethodTable
    extensions: Sequence[str]
    codec: Callable[[str], object] | None
    on_event: Callable[[Event], None] | None
    close_grace: float | Grace
    pause_at: int
    full_at: int
    cycle_origins: Iterable[str]
    restore: Mapping[str, object] | None
    attach_deadline: float
    tail_quiet: float
    tail_max: float
    on_snapshot: Store | None


@asynccontextmanager
async def open_agent(
    command: str | Sequence[str],
    *,
    permissions: Policy | Ask,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
    **options: Unpack[ConnectOptions],
) -> AsyncIterator[Agent]:
    """Start an agent and talk to it over its stdin and stdout. Leaving the context ends it, and its process group.

    Args:
        command: the program and its arguments; one str is split as a POSIX shell would.
        cwd: the working directory of the process; None is this one's.
        env: its whole environment; None inherits this one's.
        on_stderr: told each piece of its stderr, which is read in any case: the last 64 KiB are ``stderr_tail``.
        permissions and the rest: as ``connect``.

    Raises:
        AgentNotStarted: the command cannot be run.
        TypeError, LocalProtocolError: an argument is wrong.
    """
    _check_permissions(permissions)
    given = options.get("close_grace")
    grace = Grace.of(given) if given is not None else Grace()
    process = await AgentProcess.start(command, cwd=cwd, env=env, on_stderr=on_stderr, grace=grace)
    try:
        agent = Agent(process.stream, permissions, process, **options)
    except BaseException:
        process.kill()
        with anyio.CancelScope(shield=True), suppress(TimeoutError):
            await process.stop()
        raise
    async with agent._block():
        yield agent


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
        handlers: who answers the agent's other requests, by key of the method table or wire name of an extension. A
            handler is plain or async, takes the request and returns its result; it may raise RequestError.
            Anything else that it raises is answered -32603 and reported as HandlerFailed.
        elicitation: who asks the user for input: mode (``"form"``, ``"url"``) to a function, plain or async, of the
            ElicitationRequested that returns what ``acp_core.elicitation_result`` takes. The modes are advertised.
        workspace: files and terminals of this machine to serve; for this connection only, whose end ends its commands.
        limits, methods, extensions, codec: as ``ClientConnection``.
        on_event: told, in order, every event that nothing else consumes.
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
    _check_permissions(permissions)
    agent = Agent(transport, permissions, None, **options)
    async with agent._block():
        yield agent


def _check_permissions(permissions: Policy | Ask) -> None:
    if not isinstance(permissions, Policy) and not callable(permissions):
        raise TypeError(f"permissions must be a Policy or a function, not {type(permissions).__name__}")


def _turn_token(link: Link) -> tuple[TurnToken, Waiter]:
    waiter = Waiter()
    token = TurnToken(link.inbox.channel(), waiter)
    token.channel.wake = waiter.notify
    return token, waiter


class Agent:
    """One connected agent. ``connection`` is the core, for reading; its intents belong to the methods here."""

    def __init__(
        self,
        transport: ByteStream | ObjectStream[bytes | str],
        permissions: Policy | Ask,
        process: AgentProcess | None,
        *,
        capabilities: Mapping[str, object] | None = None,
        info: Mapping[str, object] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        elicitation: Mapping[str, Elicit] | None = None,
        workspace: Workspace | None = None,
        limits: Limits | None = None,
        methods: MethodTable = V1,
        extensions: Sequence[str] = (),
        codec: Callable[[str], object] | None = None,
        on_event: Callable[[Event], None] | None = None,
        close_grace: float | Grace | None = None,
        pause_at: int = 1 * MIB,
        full_at: int = 64 * MIB,
        cycle_origins: Iterable[str] = CYCLE_ORIGINS,
        restore: Mapping[str, object] | None = None,
        attach_deadline: float = 600.0,
        tail_quiet: float = 0.5,
        tail_max: float = 10.0,
        on_snapshot: Store | None = None,
    ) -> None:
        self._handlers = {**(threaded(workspace) if workspace is not None else {}), **(handlers or {})}
        self._workspace = workspace
        self._policy = permissions if isinstance(permissions, Policy) else Policy()
        self._ask = None if isinstance(permissions, Policy) else permissions
        self._process = process
        keys = {row.key for row in methods}
        derived = methods.advertised(self._handlers)
        if elicitation is not None:
            self._handlers["elicitation_create"] = elicits(elicitation)
            derived["elicitation"] = elicitation_capabilities(elicitation)
        self.connection = ClientConnection(
            nonce=secrets.token_hex(8),
            limits=limits,
            methods=methods,
            extensions=[*extensions, *(key for key in self._handlers if key not in keys)],
            capabilities=capabilities if capabilities is not None else derived,
            info=info,
            permissions=self._policy,
            codec=codec,
            cycle_origins=cycle_origins,
            restore=dict(restore) if restore is not None else None,
        )
        self.link = Link(
            self.connection,
            transport,
            act=self._act,
            on_event=on_event,
            close_grace=close_grace,
            process=process,
            pause_at=pause_at,
            full_at=full_at,
            keep=self._keeper(on_snapshot) if on_snapshot is not None else None,
        )
        self._closer = Closer(self.connection, self.link, self.link.grace)
        if workspace is not None:
            self.on_close(lambda: to_thread.run_sync(workspace.join), name="workspace")
        self._restored: list[tuple[Session, Turn | None]] = []
        for session_id, prompt_id in self.connection.unattached.items():
            token, waiter = _turn_token(self.link)
            handle = self.connection.attach(
                session_id,
                prompt_id,
                deadline=attach_deadline,
                tail_quiet=tail_quiet,
                tail_max=tail_max,
                token=token,
            )
            session = Session(self, handle)
            turn = None if prompt_id is None else Turn(session, prompt_id, token.channel, waiter)
            self._restored.append((session, turn))

    @property
    def restored(self) -> list[tuple[Session, Turn | None]]:
        """The sessions that ``restore`` has attached, each with the turn that was in flight."""
        return [*self._restored]

    @property
    def peer_capabilities(self) -> Mapping[str, object]:
        """The ``agentCapabilities``, as on the wire; empty before the handshake."""
        return self.connection.peer_capabilities

    @property
    def auth_methods(self) -> Sequence[Mapping[str, object]]:
        """The ways to log in that the agent advertised, as on the wire."""
        return self.connection.auth_methods

    @property
    def closed(self) -> bool:
        """The connection is over."""
        return self.link.over.is_set()

    @property
    def pid(self) -> int | None:
        """The process id of an agent that was started here."""
        return self._process.pid if self._process is not None else None

    @property
    def stderr_tail(self) -> bytes:
        """The last 64 KiB of the agent's stderr."""
        return self._process.tail if self._process is not None else b""

    @property
    def exit_cause(self) -> str | None:
        """How the process has ended and what it said last, or None while it runs."""
        exited = self._process.exit_error(ConnectionClosed("")) if self._process is not None else None
        return exited.cause if exited is not None else None

    @property
    def closing(self) -> ClosingPlan:
        """How closing stands, for reading only: ``closed``, ``states``, ``failures``, ``bound``."""
        return self._closer.closing.plan

    async def initialize(self, *, deadline: float | None = 60.0) -> None:
        """Do the handshake now; ``open_session`` does it by itself.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError, LocalProtocolError: as ``request``.
        """
        await self.link.ask(lambda token: self.connection.initialize(deadline=deadline, token=token))

    async def authenticate(self, method_id: str, *, deadline: float | None = 300.0) -> None:
        """Log in by one of ``auth_methods``. ``deadline`` is in seconds.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError, LocalProtocolError: as ``request``.
        """
        await self.link.ask(lambda token: self.connection.authenticate(method_id, deadline=deadline, token=token))

    def _keeper(self, on_snapshot: Store) -> Callable[[int], Awaitable[None] | None]:
        connection = self.connection

        def keep(size: int) -> Awaitable[None] | None:
            # Before the handshake there is nothing to store.
            return None if connection.version is None else on_snapshot(connection.snapshot(), size)

        return keep

    def snapshot(self) -> dict[str, object]:
        """What a restarted owner goes on with. See ``ClientConnection.snapshot``; ``on_snapshot`` gets each in time.

        Raises:
            LocalProtocolError: the handshake is not done, or it would be too large.
        """
        return self.connection.snapshot()

    def answer_permission(self, request_id: str, option: Choice) -> None:
        """Answer a permission that was open in ``restore``, by its id there. The first answer counts.

        Raises:
            TypeError, LocalProtocolError: as ``ClientConnection.answer_permission``.
            ConnectionClosed: the connection is over.
        """
        self.link.call(lambda: self.connection.answer_permission(request_id, option))

    async def open_session(self, cwd: str | PathLike[str], **options: Unpack[OpenOptions]) -> Session:
        """Open a session and wait until it is ready. The options are those of ``ClientConnection.open_session``.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError: a step of opening has failed.
            TypeError, LocalProtocolError: an argument is wrong, or the agent cannot do what was asked for.
        """
        waiter = Waiter()
        handle = self.link.call(lambda: self.connection.open_session(fspath(cwd), token=waiter, **options))
        try:
            await self.link.wait(waiter, lambda: waiter.event is not None)
        except BaseException:
            # It opens without an owner: what it says is counted and keeps nobody from reading.
            self.link.inbox.idle(handle).detach()
            raise
        if isinstance(waiter.event, SessionFailed):
            await self.link.fail(waiter.event.error)
        return Session(self, handle)

    @overload
    async def request(
        self,
        method: Request[R],
        params: None = None,
        *,
        session: Session | str | None = None,
        deadline: float | None = None,
    ) -> R: ...

    @overload
    async def request(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        session: Session | str | None = None,
        deadline: float | None = None,
    ) -> object: ...

    async def request(
        self,
        method: Request[R] | str,
        params: Mapping[str, object] | None = None,
        *,
        session: Session | str | None = None,
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
        name, body = self._named(method, params)
        handle = session.handle if isinstance(session, Session) else session
        return await self.link.ask(
            lambda token: self.connection.request(name, body, session=handle, deadline=deadline, token=token)
        )

    async def notify(
        self,
        method: Notification | str,
        params: Mapping[str, object] | None = None,
        *,
        session: Session | str | None = None,
    ) -> None:
        """Send a notification: a name on the wire, or a ``Notification`` of ``acp_core.schema``.

        Raises:
            TypeError, LocalProtocolError: as ``Connection.notify``.
        """
        name, body = self._named(method, params)
        handle = session.handle if isinstance(session, Session) else session
        self.link.call(lambda: self.connection.notify(name, body, session=handle))
        await self.link.drained()

    def on_close(
        self,
        step: Callable[[], Awaitable[object] | object],
        *,
        name: str | None = None,
        after: str | Sequence[str] = AGENT_STEP,
        needs: str = SETTLED,
        within: float = 10.0,
    ) -> str:
        """Hang a step on ``close``, for a resource that must be let go of with the agent. See docs/closing.md.

        Args:
            step: a function that releases it, async, or plain if it does not block. What it raises is its failure. It
                is called again only by another ``close``, and only after a failure.
            name: in the plan; without it, the function's.
            after: the steps that it waits for: ``"agent"`` (no process is left), ``"cancel"``, or names of others.
            needs: ``"settled"``: they have ended in any way. ``"success"``: they have succeeded, else the step is kept
                for another ``close``. That is for what the agent may still use: a credential, a lock.
            within: seconds after which closing goes on without it. It is cancelled when the block is left.

        Returns: the name.

        Raises:
            TypeError, LocalProtocolError: as ``ClosingPlan.add``; closing may have begun.
        """
        return self._closer.closing.add(step, name, after, needs, within)

    async def close(self) -> None:
        """Take no new turn, cancel those in flight and wait for their results, settle everything, write what is left,
        end the agent's input, wait for its process, ask its group to terminate, kill it; then release what hangs on it.
        Every wait is one of ``close_grace``.

        A second call joins the first, and one after a failure does what is left. A cancelled call kills the agent at
        once. Also done at the end of the block; if that is left by an exception, no turn is cancelled first.

        Raises:
            ExceptionGroup: what failed, in the order of the steps. A turn that did not end when it was cancelled is no
                failure once the agent has ended; ``closing.failures`` has it.
        """
        await self._closer.close()

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

    def _named(
        self, method: Request[R] | Notification | str, params: Mapping[str, object] | None
    ) -> tuple[str, Mapping[str, object] | None]:
        if isinstance(method, str):
            return method, params
        try:
            return self.connection.methods.wire(method.key), method.params
        except KeyError:
            return method.method, method.params

    def _act(self, event: Event) -> bool:
        if isinstance(event, PermissionRequested):
            self.link.spawn(event, lambda: self._choose(event))
            return True
        if isinstance(event, RequestReceived):
            self.link.spawn(event, lambda: self._serve(event))
            return True
        if isinstance(event, ConnectionOver) and self._workspace is not None:
            self._workspace.close()
        return False

    async def _choose(self, event: PermissionRequested) -> Callable[[], None]:
        if self._ask is None:
            option: Choice = self._policy.choose("deny", event.options)
        else:
            found = self._ask(event)
            option = await found if inspect.isawaitable(found) else found
        return lambda: self.connection.answer_permission(event.request_id, option)

    async def _serve(self, event: RequestReceived) -> Callable[[], None]:
        handler = self._handlers.get(event.key or event.method)
        if handler is None:
            raise not_served(event.method)
        found = handler(event)
        result = await found if inspect.isawaitable(found) else found
        body = dict(result) if result is not None else None
        return lambda: self.connection.respond(event.request_id, body)


class Session:
    """One session of an agent. ``handle`` is the core's: modes, options and usage are read there."""

    def __init__(self, agent: Agent, handle: Handle) -> None:
        self.agent = agent
        self.handle = handle
        self._waiter = Waiter()
        agent.link.inbox.idle(handle).wake = self._waiter.notify

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, {self.state})"

    @property
    def session_id(self) -> str:
        """The agent's id of the session."""
        return self.handle.session_id or ""

    @property
    def state(self) -> str:
        """``idle``, ``prompting``, ``cancelling``, ``fenced``, ``closing`` or ``closed``."""
        return self.handle.state

    def prompt(self, content: str | Sequence[Mapping[str, object]], **options: Unpack[PromptOptions]) -> Turn:
        """Start a turn; the options are those of ``ClientConnection.prompt``. It does not wait.

        Raises:
            AgentExited: the process has ended.
            TypeError, LocalProtocolError: as ``ClientConnection.prompt``.
        """
        link = self.agent.link
        token, waiter = _turn_token(link)
        prompt = self.agent.connection.prompt
        prompt_id = link.call(lambda: prompt(self.handle, content, token=token, **options))
        return Turn(self, prompt_id, token.channel, waiter)

    def cancel(self, *, deadline: float = 2.0, then: str = "report") -> None:
        """Cancel the turn in flight, if any; see ``ClientConnection.cancel_turn``. It does not wait.

        Raises:
            TypeError, LocalProtocolError: as there.
        """
        connection = self.agent.connection
        self.agent.link.call(lambda: connection.cancel_turn(self.handle, deadline=deadline, then=then))

    async def close(self, *, deadline: float = 10.0) -> None:
        """Have the agent close the session. ``deadline`` is in seconds.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, LocalProtocolError: as ``Agent.request``.
        """
        await self.agent.link.ask(
            lambda token: self.agent.connection.close_session(self.handle, deadline=deadline, token=token)
        )

    async def set_mode(self, mode_id: str, *, deadline: float | None = None) -> None:
        """Set the mode, one of those in ``handle.modes``. ``deadline`` is in seconds.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, LocalProtocolError: as ``Agent.request``.
        """
        await self.agent.link.ask(
            lambda token: self.agent.connection.set_mode(self.handle, mode_id, deadline=deadline, token=token)
        )

    async def set_config_option(self, config_id: str, value: str | bool, *, deadline: float | None = None) -> None:
        """Set an option, one of those in ``handle.config_options``. ``deadline`` is in seconds.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, LocalProtocolError: as ``Agent.request``.
        """
        await self.agent.link.ask(
            lambda token: self.agent.connection.set_config_option(
                self.handle, config_id, value, deadline=deadline, token=token
            )
        )

    def events(self) -> SessionIterator:
        """What the agent says between turns: unread metadata only in its latest state. Ends with the session or the
        connection. Waiting for the next event raises ConsumerTooSlow while another queue of the connection is full.
        """
        return SessionIterator(self.agent.link, self.agent.link.inbox.listen(self.handle), self._waiter)


class Turn:
    """A prompt and what comes of it.

    Iterate it for every event in order; TurnEnded is the last one. A loop that is left early detaches the turn: it runs
    on, what it still says is counted and discarded, and it keeps nobody from reading. As an async context manager,
    leaving detaches too. A cancelled iteration detaches; a cancelled ``result`` or ``text`` cancels the turn.
    """

    def __init__(self, session: Session, prompt_id: int, channel: Channel, waiter: Waiter) -> None:
        self.session = session
        self.prompt_id = prompt_id
        self.channel = channel
        self._waiter = waiter
        self._turn = session.handle.turn

    @property
    def discarded(self) -> int:
        """How many events were discarded after ``detach`` or by ``result``."""
        return self.channel.discarded

    def __aiter__(self) -> TurnIterator:
        return TurnIterator(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def detach(self) -> None:
        """Stop listening; the turn runs on."""
        self.session.agent.link.leave(self.channel)

    def __del__(self) -> None:
        # A turn that nobody holds is read by nobody.
        self.detach()

    def cancel(self, *, deadline: float = 2.0, then: str = "report") -> None:
        """Cancel this turn; see ``ClientConnection.cancel_turn``. One that is over is left alone. It does not wait.

        Raises:
            TypeError, LocalProtocolError: as there.
        """
        if self._turn is not None and self.session.handle.turn is self._turn:
            self.session.cancel(deadline=deadline, then=then)

    async def result(self) -> TurnEnded:
        """Wait for the end; events that were not read are discarded and counted.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError: the turn failed.
            ConsumerTooSlow: its answer stands behind more unread updates of others than may be kept.
        """
        link = self.session.agent.link
        self.channel.detach()
        try:
            await link.wait(self._waiter, lambda: self._waiter.event is not None)
        except anyio.get_cancelled_exc_class():
            self._give_up()
            raise
        event = self._waiter.event
        if isinstance(event, TurnFailed):
            await link.fail(event.error)
        assert isinstance(event, TurnEnded)
        return event

    async def text(self) -> str:
        """Read the turn to its end: the text of the agent's message.

        Raises:
            As ``result``.
        """
        try:
            return "".join([event.text async for event in self if isinstance(event, AgentMessageChunk)])
        except anyio.get_cancelled_exc_class():
            self._give_up()
            raise

    def _give_up(self) -> None:
        self.session.agent.link.quietly(self.cancel)


class TurnIterator:
    """One loop over a turn. Dropping it before the end detaches the turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._taken = 0
        self._over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        turn = self._turn
        channel = turn.channel
        link = turn.session.agent.link
        try:
            self._taken += 1
            if self._taken % EVENTS_PER_TURN == 0:
                await anyio.lowlevel.checkpoint()
            await link.wait(turn._waiter, lambda: bool(len(channel)) or turn._waiter.event is not None)
        except anyio.get_cancelled_exc_class():
            turn.detach()
            raise
        # Of a turn that was detached only its end is left.
        event = channel.take() or turn._waiter.event
        assert event is not None
        link.refresh()
        if isinstance(event, (TurnEnded, TurnFailed)):
            self._over = True
        if isinstance(event, TurnFailed):
            await link.fail(event.error)
        return event

    def __del__(self) -> None:
        if not self._over:
            self._turn.detach()


class SessionIterator:
    """What a session says between turns. Leaving it loses nothing: the next one goes on."""

    def __init__(self, link: Link, channel: Channel, waiter: Waiter) -> None:
        self._link = link
        self._channel = channel
        self._waiter = waiter

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionEvent:
        channel = self._channel
        await self._link.wait(self._waiter, lambda: bool(len(channel)) or channel.ended)
        event = channel.take()
        if event is None:
            raise StopAsyncIteration
        self._link.refresh()
        assert isinstance(event, SessionEvent)
        return event
