"""The client's front: an agent that is connected, its sessions and their turns."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack, overload

import acp_core
from acp_core import (
    V1,
    AgentMessageChunk,
    ClientConnection,
    ClosingPlan,
    ConnectionOver,
    ConsumerTooSlow,
    Event,
    Grace,
    Limits,
    LocalProtocolError,
    MethodTable,
    PermissionOption,
    PermissionRequested,
    Policy,
    RequestReceived,
    RequestSettled,
    SessionFailed,
    TurnEnded,
    TurnFailed,
)
from acp_core.client import CYCLE_ORIGINS
from acp_core.closing import AGENT as AGENT_STEP
from acp_core.closing import SETTLED
from acp_core.elicitation import elicitation_capabilities
from acp_core.errors import ACPError, check_type, not_served
from acp_core.inbox import MIB, Inbox, TurnToken
from acp_core.methods import AGENT, NOTIFICATION_KIND
from acp_core.permissions import DENY
from acp_core.state import STEP_DONE

from .closing import Closer
from .connection import Driver, Waiter
from .handlers import Elicit, Handler, elicits
from .transport import Connectable, adapt

if TYPE_CHECKING:
    from acp_core.options import OpenOptions, PromptOptions
    from acp_core.schema import Notification, Request

    from .process import Process
    from .workspace import Workspace

# Nobody waits for long when nobody has closed.
LEFT = Grace(exit=0.2, terminate=0.2, drain=0.2)
T = TypeVar("T")
R = TypeVar("R")
Ask = Callable[[PermissionRequested], "PermissionOption | str | None"]


class ConnectOptions(TypedDict, total=False):
    """What ``connect`` and ``open_agent`` take besides the transport and ``permissions``; see ``connect``."""

    capabilities: Mapping[str, object] | None
    info: Mapping[str, object] | None
    handlers: Mapping[str, Handler] | None
    elicitation: Mapping[str, Elicit] | None
    workspace: Workspace | None
    limits: Limits | None
    methods: MethodTable
    extensions: Iterable[str]
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
    on_snapshot: Callable[[dict[str, object], int], None] | None


class Desk:
    """Answers what the agent asks: permissions by the owner's callback, all else by handlers. Knows no front, so that
    an owner who lets go of the front without closing it is noticed."""

    def __init__(
        self,
        driver: Driver,
        connection: ClientConnection,
        handlers: Mapping[str, Handler],
        ask: Ask | None,
        workspace: Workspace | None,
    ) -> None:
        self._driver = driver
        self._connection = connection
        self._handlers = dict(handlers)
        self._ask = ask
        self._workspace = workspace

    def act(self, event: Event) -> bool:
        """Take a request. One that nobody serves is answered here and reported."""
        if isinstance(event, PermissionRequested):
            if self._ask is None:
                # The policy says ask and there is nobody: nothing is allowed in silence.
                option = Policy().choose(DENY, event.options)
                with contextlib.suppress(ACPError):
                    self._connection.answer_permission(event.request_id, option)
                return False
            ask = self._ask
            self._driver.spawn(event, lambda: self._permission(event, ask))
            return True
        if isinstance(event, RequestReceived):
            handler = self._handlers.get(event.key or event.method)
            if handler is None:
                with contextlib.suppress(ACPError):
                    error = not_served(event.method)
                    self._connection.respond_error(event.request_id, error.code, error.message, error.data)
                return False
            self._driver.spawn(event, lambda: self._handle(event, handler))
            return True
        if isinstance(event, ConnectionOver) and self._workspace is not None:
            self._workspace.close()
        return False

    def _permission(self, event: PermissionRequested, ask: Ask) -> None:
        option = ask(event)
        self._driver.call(self._connection.answer_permission, event.request_id, option)

    def _handle(self, event: RequestReceived, handler: Handler) -> None:
        result = handler(event)
        self._driver.call(self._connection.respond, event.request_id, own_dict(result))


class Turn:
    """One prompt and what comes of it.

    Iterate it for every event of the turn, in order; the last one is TurnEnded. Leaving the loop early detaches: the
    turn runs on, what it still says is counted and discarded, and it holds up nobody. ``with turn:`` does the same at
    the end of the block. Iteration and ``result`` raise the error of a turn that failed: RequestError,
    RequestTimeout (no answer to a cancel), ConnectionClosed, AgentExited, RemoteProtocolError; and ConsumerTooSlow,
    after which both may be tried again.
    """

    def __init__(
        self, driver: Driver, connection: ClientConnection, handle: acp_core.Session, prompt_id: int, token: TurnToken
    ) -> None:
        self.prompt_id = prompt_id
        self._driver = driver
        self._connection = connection
        self._handle = handle
        self._channel = token.channel
        waiter = token.waiter
        assert isinstance(waiter, Waiter)
        self._waiter = waiter

    def __repr__(self) -> str:
        return f"Turn(prompt_id={self.prompt_id}, session_id={self._handle.session_id!r})"

    @property
    def discarded(self) -> int:
        """How many events of the turn were discarded because nobody read them."""
        return self._channel.discarded

    def __iter__(self) -> Iterator[Event]:
        stays = False
        try:
            while True:
                event = self._driver.wait(self._waiter.bell, self._next)
                if isinstance(event, TurnFailed):
                    self._raise(event)
                yield event
                if isinstance(event, TurnEnded):
                    return
        except ConsumerTooSlow:
            stays = True
            raise
        finally:
            if not stays:
                self.detach()

    def result(self) -> TurnEnded:
        """Wait for the end of the turn. Unread events of it are discarded and counted.

        A caller that is interrupted (KeyboardInterrupt) cancels the turn; the connection stays whole.
        """
        self.detach()
        try:
            event = self._driver.answer(self._waiter)
        except ConsumerTooSlow:
            raise
        except BaseException:
            self._give_up()
            raise
        if isinstance(event, TurnFailed):
            self._raise(event)
        assert isinstance(event, TurnEnded)
        return event

    def text(self) -> str:
        """Wait for the end of the turn and give the text of the agent's message. Interrupted as ``result`` is."""
        try:
            return "".join([event.text for event in self if isinstance(event, AgentMessageChunk)])
        except ACPError:
            raise
        except BaseException:
            self._give_up()
            raise

    def cancel(self, *, deadline: float = 2.0, then: str = "report") -> None:
        """Cancel the turn (see ``ClientConnection.cancel_turn``): it still ends by itself, so read on. Does not wait.

        ``deadline`` is how long the agent may take, in seconds; then the turn fails with RequestTimeout.
        """

        def cancel() -> None:
            turn = self._handle.turn
            if turn is not None and turn.prompt_id == self.prompt_id:
                self._connection.cancel_turn(self._handle, deadline=deadline, then=then)

        self._driver.intent(cancel)

    def detach(self) -> None:
        """Stop reading. A second call does nothing."""
        if not self._channel.detached:
            self._driver.leave(self._channel)

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, tb: TracebackType | None) -> None:
        self.detach()

    def __del__(self) -> None:
        # A turn that nobody holds is read by nobody.
        with contextlib.suppress(AttributeError):
            self.detach()

    def _next(self) -> Event | None:
        channel = self._channel
        return channel.take() or (self._waiter.event if channel.ended else None)

    def _raise(self, event: TurnFailed) -> None:
        error = self._driver.explained(event.error)
        raise error from (event.error if error is not event.error else None)

    def _give_up(self) -> None:
        with contextlib.suppress(ACPError):
            self.cancel()


class Session:
    """A session of the agent. ``handle`` is the core's: modes, options, commands, title, usage as the agent said."""

    def __init__(self, driver: Driver, connection: ClientConnection, handle: acp_core.Session) -> None:
        self.handle = handle
        self._driver = driver
        self._connection = connection

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, {self.state})"

    @property
    def session_id(self) -> str:
        """The agent's id: store it to reopen the session later."""
        return self.handle.session_id or ""

    @property
    def state(self) -> str:
        """``idle``, ``prompting``, ``cancelling``, ``fenced``, ``closing`` or ``closed``."""
        return self.handle.state

    def prompt(self, content: str | Sequence[Mapping[str, object]], **options: Unpack[PromptOptions]) -> Turn:
        """Start a turn; returns at once. The options are those of ``ClientConnection.prompt``.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, or the session is not idle.
            ConnectionClosed: the connection is over.
        """
        token = _turn_token(self._driver.inbox)
        prompt_id = self._driver.intent(self._connection.prompt, self.handle, content, token=token, **options)
        return Turn(self._driver, self._connection, self.handle, prompt_id, token)

    def cancel(self, *, deadline: float = 2.0, then: str = "report") -> None:
        """Cancel whatever turn the session has (see ``ClientConnection.cancel_turn``). Does not wait for its end."""
        self._driver.intent(self._connection.cancel_turn, self.handle, deadline=deadline, then=then)

    def close(self, *, deadline: float = 10.0) -> None:
        """Close the session and wait for the agent's answer, at most ``deadline`` seconds.

        Raises:
            LocalProtocolError: the agent does not advertise it, or the session is not open.
            RequestError, RequestTimeout, ConnectionClosed: it was refused, or not answered.
        """
        settled(
            self._driver,
            lambda token: self._connection.close_session(self.handle, deadline=deadline, token=token),
        )

    def set_mode(self, mode_id: str, *, deadline: float | None = None) -> None:
        """Set the mode, one of ``handle.modes``, and wait for the answer. Raises as ``close``."""
        settled(
            self._driver,
            lambda token: self._connection.set_mode(self.handle, mode_id, deadline=deadline, token=token),
        )

    def set_config_option(self, id: str, value: str | bool, *, deadline: float | None = None) -> None:
        """Set an option, one of ``handle.config_options``, and wait for the answer. Raises as ``close``."""
        settled(
            self._driver,
            lambda token: self._connection.set_config_option(self.handle, id, value, deadline=deadline, token=token),
        )

    def events(self) -> Iterator[Event]:
        """What the agent says about the session between turns: a replay that was asked for, late updates, metadata.

        Blocks until there is something; ends with the session or the connection. Unread metadata is only kept in its
        latest state. For one reader at a time.
        """
        waiter = Waiter()
        channel = self._driver.inbox.listen(self.handle)
        channel.wake = waiter.bell.ring

        def ready() -> tuple[Event | None] | None:
            event = channel.take()
            return (event,) if event is not None or channel.ended else None

        while (event := self._driver.wait(waiter.bell, ready, counts=False)[0]) is not None:
            yield event


class Agent:
    """One connected agent. Made by ``open_agent`` or ``connect``; ``with`` closes it at the end of the block.

    All methods may be called from any thread. ``connection`` is the core, for reading only.
    """

    def __init__(
        self,
        transport: Connectable,
        *,
        permissions: Policy | Ask,
        capabilities: Mapping[str, object] | None = None,
        info: Mapping[str, object] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        elicitation: Mapping[str, Elicit] | None = None,
        workspace: Workspace | None = None,
        limits: Limits | None = None,
        methods: MethodTable = V1,
        extensions: Iterable[str] = (),
        codec: Callable[[str], object] | None = None,
        on_event: Callable[[Event], None] | None = None,
        close_grace: float | Grace | None = None,
        pause_at: int = MIB,
        full_at: int = 64 * MIB,
        cycle_origins: Iterable[str] = CYCLE_ORIGINS,
        restore: Mapping[str, object] | None = None,
        attach_deadline: float = 600.0,
        tail_quiet: float = 0.5,
        tail_max: float = 10.0,
        on_snapshot: Callable[[dict[str, object], int], None] | None = None,
        process: Process | None = None,
    ) -> None:
        grace = Grace.of(close_grace) if close_grace is not None else Grace()
        handlers = {**(workspace.handlers if workspace is not None else {}), **(handlers or {})}
        derived = methods.advertised(handlers)
        if elicitation is not None:
            handlers["elicitation_create"] = elicits(elicitation)
            derived["elicitation"] = elicitation_capabilities(elicitation)
        policy = permissions if isinstance(permissions, Policy) else None
        if policy is None and not callable(permissions):
            raise TypeError(f"permissions must be a Policy or a callable, not {type(permissions).__name__}")
        names = extension_names(handlers, methods, extensions)
        self.connection = ClientConnection(
            nonce=secrets.token_hex(8),
            limits=limits,
            methods=methods,
            extensions=names,
            capabilities=dict(capabilities) if capabilities is not None else derived,
            info=own_dict(info),
            permissions=policy,
            codec=codec,
            cycle_origins=cycle_origins,
            restore=own_dict(restore),
        )
        self._process = process
        inbox = Inbox(pause_at=pause_at, full_at=full_at)
        attached: list[tuple[acp_core.Session, int | None, TurnToken]] = []
        for session_id, prompt_id in self.connection.unattached.items():
            token = _turn_token(inbox)
            handle = self.connection.attach(
                session_id,
                prompt_id,
                deadline=attach_deadline,
                tail_quiet=tail_quiet,
                tail_max=tail_max,
                token=token,
            )
            attached.append((handle, prompt_id, token))
        # After all checks, since what a transport opens here has to be closed again.
        self._driver = Driver(
            self.connection,
            adapt(transport),
            inbox,
            on_event=on_event,
            explain=process.explain if process is not None else None,
            keep=self._keeper(on_snapshot) if on_snapshot is not None else None,
        )
        self._restored: list[tuple[Session, Turn | None]] = []
        for handle, prompt_id, token in attached:
            turn = None if prompt_id is None else Turn(self._driver, self.connection, handle, prompt_id, token)
            self._restored.append((Session(self._driver, self.connection, handle), turn))
        ask = None if isinstance(permissions, Policy) else permissions
        self._driver.act = Desk(self._driver, self.connection, handlers, ask, workspace).act
        self._finalizer = weakref.finalize(self, _left, self._driver, process, os.getpid())
        self._closer = Closer(self.connection, self._driver, process, grace)
        if workspace is not None:
            self.on_close(workspace.join, name="workspace")
        self._driver.start()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, tb: TracebackType | None) -> None:
        if why is None:
            self.close()
            return
        # Nothing waits for an answer any more, and what went wrong is not hidden by what else does.
        self._driver.call(self.connection.abort, "its owner has left")
        try:
            self.close()
        except ExceptionGroup as also:
            why.add_note(f"{also.message}: {[*also.exceptions]}")

    # ── What is known ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def peer_capabilities(self) -> dict[str, object]:
        """What the agent advertised, as it stood on the wire; empty before the handshake."""
        return self.connection.peer_capabilities

    @property
    def auth_methods(self) -> list[dict[str, object]]:
        """The ways to log in that the agent advertised."""
        return self.connection.auth_methods

    @property
    def restored(self) -> list[tuple[Session, Turn | None]]:
        """The sessions that ``restore`` has attached, each with the turn that was in flight."""
        return [*self._restored]

    @property
    def closed(self) -> bool:
        """The connection is over, whoever ended it."""
        return self.connection.closed

    @property
    def pid(self) -> int | None:
        """The process id of the agent that was started here, else None."""
        return self._process.pid if self._process is not None else None

    @property
    def stderr_tail(self) -> bytes:
        """The end of what the agent wrote to stderr, at most 64 KiB."""
        return self._process.stderr_tail if self._process is not None else b""

    @property
    def exit_cause(self) -> str | None:
        """How the agent's process ended and what it said last, as a sentence; None while it runs."""
        return self._process.exit_cause if self._process is not None else None

    @property
    def closing(self) -> ClosingPlan:
        """How closing stands, for reading only: ``closed``, ``states``, ``failures``, ``bound``."""
        return self._closer.closing.plan

    @property
    def dropped_events(self) -> int:
        """How many events ``on_event`` was too slow for."""
        return self._driver.dropped_reports

    # ── What can be asked ───────────────────────────────────────────────────────────────────────────────────────────

    def initialize(self, *, deadline: float | None = 60.0) -> None:
        """Do the handshake and wait for it, at most ``deadline`` seconds. ``open_session`` does it by itself.

        Raises:
            LocalProtocolError: it was done before.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: it failed.
        """
        settled(self._driver, lambda token: self.connection.initialize(deadline=deadline, token=token))

    def authenticate(self, method_id: str, *, deadline: float | None = 300.0) -> None:
        """Log in by one of ``auth_methods`` and wait for the answer. Raises as ``initialize``."""
        settled(self._driver, lambda token: self.connection.authenticate(method_id, deadline=deadline, token=token))

    def _keeper(
        self, on_snapshot: Callable[[dict[str, object], int], None]
    ) -> Callable[[int], Callable[[], None] | None]:
        connection = self.connection

        def keep(size: int) -> Callable[[], None] | None:
            # Before the handshake there is nothing to store.
            return None if connection.version is None else partial(on_snapshot, connection.snapshot(), size)

        return keep

    def snapshot(self) -> dict[str, object]:
        """What a restarted owner goes on with. See ``ClientConnection.snapshot``; ``on_snapshot`` gets each in time.

        Raises:
            LocalProtocolError: the handshake is not done, or it would be too large.
        """
        return self._driver.call(self.connection.snapshot)

    def answer_permission(self, request_id: str, option: PermissionOption | str | None) -> None:
        """Answer a permission that was open in ``restore``, by its id there. The first answer counts.

        Raises:
            TypeError, LocalProtocolError: as ``ClientConnection.answer_permission``.
            ConnectionClosed: the connection is over.
        """
        self._driver.intent(self.connection.answer_permission, request_id, option)

    def open_session(self, cwd: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> Session:
        """Open a session and wait until it takes prompts. See ``ClientConnection.open_session`` for the arguments.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, or the agent cannot do what was asked for.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: a step was refused or not answered.
        """
        waiter = Waiter()
        handle = self._driver.intent(self.connection.open_session, os.fspath(cwd), token=waiter, **options)
        event = self._driver.answer(waiter)
        if isinstance(event, SessionFailed):
            error = self._driver.explained(event.error)
            raise error from (event.error if error is not event.error else None)
        return Session(self._driver, self.connection, handle)

    @overload
    def request(self, method: Request[R], *, deadline: float | None = None) -> R: ...
    @overload
    def request(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        session: Session | str | None = None,
        deadline: float | None = None,
    ) -> object: ...
    def request(
        self,
        method: str | Request[object],
        params: Mapping[str, object] | None = None,
        *,
        session: Session | str | None = None,
        deadline: float | None = None,
    ) -> object:
        """Send a request and wait for its result. What stood before the answer on the wire is in its queue by then.

        ``method`` is a wire name, or a typed request of ``acp_core.schema``. ``session`` adds its id to the params.
        ``deadline`` is in seconds. A caller that is interrupted cancels the request.

        Raises:
            TypeError, LocalProtocolError: see ``Connection.request``.
            RequestError: the agent answered with an error.
            RequestTimeout: no answer within ``deadline``.
            ConnectionClosed, AgentExited: the connection ended first.
            RemoteProtocolError: the answer broke the protocol.
            ConsumerTooSlow: the answer stands behind too many unread events. The request stays open.
        """
        wire, params = (method, params) if isinstance(method, str) else self._typed(method)
        body = own_dict(params)
        handle = session.handle if isinstance(session, Session) else session
        return settled(
            self._driver,
            lambda token: self.connection.request(wire, body, session=handle, deadline=deadline, token=token),
        )

    @overload
    def notify(self, method: Notification) -> None: ...
    @overload
    def notify(
        self, method: str, params: Mapping[str, object] | None = None, *, session: Session | str | None = None
    ) -> None: ...
    def notify(
        self,
        method: str | Notification,
        params: Mapping[str, object] | None = None,
        *,
        session: Session | str | None = None,
    ) -> None:
        """Send a notification. Waits while the agent reads too slowly.

        Raises:
            TypeError, LocalProtocolError, ConnectionClosed: see ``Connection.notify``.
        """
        wire, params = (method, params) if isinstance(method, str) else self._typed(method)
        body = own_dict(params)
        handle = session.handle if isinstance(session, Session) else session
        self._driver.pace(lambda: False)
        self._driver.intent(self.connection.notify, wire, body, session=handle)

    def _typed(self, message: Request[object] | Notification) -> tuple[str, Mapping[str, object]]:
        """The wire name in this connection's table, and the params."""
        names = {row.key: row.wire for row in self.connection.methods}
        return names.get(message.key, message.method), message.params

    def on_close(
        self,
        step: Callable[[], object],
        *,
        name: str | None = None,
        after: str | Sequence[str] = AGENT_STEP,
        needs: str = SETTLED,
        within: float = 10.0,
    ) -> str:
        """Hang a step on ``close``, for a resource that must be let go of with the agent. See docs/closing.md.

        Args:
            step: a function that releases it, called in a thread of its own. What it raises is its failure. It is
                called again only by another ``close``, and only after a failure.
            name: in the plan; without it, the function's.
            after: the steps that it waits for: ``"agent"`` (no process is left), ``"cancel"``, or names of others.
            needs: ``"settled"``: they have ended in any way. ``"success"``: they have succeeded, else the step is kept
                for another ``close``. That is for what the agent may still use: a credential, a lock.
            within: seconds after which closing goes on without it.

        Returns: the name.

        Raises:
            TypeError, LocalProtocolError: as ``ClosingPlan.add``; closing may have begun.
        """
        with self._closer.lock:
            return self._closer.closing.add(step, name, after, needs, within)

    def close(self) -> None:
        """Take no new turn, cancel those in flight and wait for their results, settle everything, write what is left,
        end the agent's input, wait for its process, ask its group to terminate, kill it; then release what hangs on it.
        Every wait is one of ``close_grace``.

        A second call joins the first, and one after a failure does what is left. An interrupted call
        (KeyboardInterrupt) kills the agent at once. Also done at the end of the block; if that is left by an
        exception, no turn is cancelled first.

        Raises:
            ExceptionGroup: what failed, in the order of the steps. A turn that did not end when it was cancelled is no
                failure once the agent has ended; ``closing.failures`` has it.
        """
        try:
            self._closer.close()
        finally:
            if self.closing.states[AGENT_STEP] == STEP_DONE:
                self._finalizer.detach()


def connect(transport: Connectable, *, permissions: Policy | Ask, **options: Unpack[ConnectOptions]) -> Agent:
    """Talk to an agent over a transport that is there already. It is owned from now on.

    Args:
        transport: a socket, a pair (reader, writer) of binary files or descriptors, a ``Transport``, or a
            ``MessageTransport``. Files are read by their descriptor: nothing may be buffered. See docs/transports.md.
        permissions: a Policy, or a callable that gets a PermissionRequested and returns one of its options, an option
            id, or None for cancelled. It runs in a thread of its own. A policy that says ask denies.
        capabilities: the ``clientCapabilities``; without it they are derived from ``handlers``.
        info: name, title and version of this client.
        handlers: what serves the agent's requests: method-table key, or wire name of an extension, to a callable. Each
            call has a thread of its own. It returns the result, or raises RequestError; any other exception is
            answered -32603 and reported as HandlerFailed.
        elicitation: who asks the user for input: mode (``"form"``, ``"url"``) to a callable that gets the
            ElicitationRequested and returns what ``acp_core.elicitation_result`` takes. The modes are advertised.
        workspace: files and terminals of this machine to serve; for this connection only, whose end ends its commands.
        limits, methods, extensions, codec: as ``ClientConnection``.
        on_event: gets every event that nothing else uses, in order, in a thread of its own.
        close_grace: how long each wait of ``close`` may take: a Grace, or seconds for all of them.
        pause_at, full_at: bytes of unread events at which reading pauses, without and with somebody who waits for an
            answer.
        cycle_origins: as ``ClientConnection``.
        restore: what an earlier owner's ``snapshot`` gave: each of its sessions is attached before anything is read;
            see ``restored``. The transport replays the last bytes that the agent wrote.
        attach_deadline, tail_quiet, tail_max: seconds, as ``ClientConnection.attach``.
        on_snapshot: called before each write with the snapshot to store, and how many bytes are written then. It runs
            in the writer's thread; the write waits for it, and when it raises, the connection ends.

    Raises:
        TypeError, LocalProtocolError: an argument is wrong.
    """
    return Agent(transport, permissions=permissions, **options)


def _turn_token(inbox: Inbox) -> TurnToken:
    waiter = Waiter()
    token = TurnToken(inbox.channel(), waiter)
    token.channel.wake = waiter.bell.ring
    return token


def own_dict(value: Mapping[str, object] | None) -> dict[str, object] | None:
    """A mapping as the dict that the core takes. TypeError when it is no mapping."""
    if value is not None:
        check_type("a value for the wire", value, Mapping, "a mapping")
    return dict(value) if value is not None else None


def settled(driver: Driver, send: Callable[[Waiter], int]) -> object:
    """Send a request by ``send`` and wait for its result. A caller that is interrupted cancels it."""
    waiter = Waiter()
    id = driver.intent(lambda: send(waiter))
    try:
        event = driver.answer(waiter)
    except ConsumerTooSlow:
        raise
    except BaseException:
        with contextlib.suppress(LocalProtocolError):
            driver.call(driver.connection.cancel_request, id)
        raise
    assert isinstance(event, RequestSettled)
    if event.error is not None:
        error = driver.explained(event.error)
        raise error from (event.error if error is not event.error else None)
    return event.result


def extension_names(handlers: Mapping[str, object], methods: MethodTable, extensions: Iterable[str]) -> tuple[str, ...]:
    """The extensions to serve: those named, and those that have a handler.

    Raises:
        LocalProtocolError: a handler's name is no key that a client serves, and no extension.
    """
    rows = {row.key: row for row in methods if row.kind != NOTIFICATION_KIND and row.handler != AGENT}
    named = (extensions,) if isinstance(extensions, str) else tuple(extensions)
    found = [*named]
    for name in handlers:
        if name in rows and rows[name].event != PermissionRequested.__name__:
            continue
        if name not in named and not name.startswith("_"):
            raise LocalProtocolError(
                f"no handler can be named {name!r}: give a key of {sorted(rows)}, or an extension's name "
                "(permissions have an argument of their own)",
                rule="handlers.name",
            )
        found.append(name)
    return tuple(found)


def _left(driver: Driver, process: Process | None, owner: int) -> None:
    """The owner has let go of an agent without closing it, or the interpreter ends."""
    if os.getpid() != owner:
        return
    if driver.inside:
        # Collected in the middle of the core: this thread must not wait for itself.
        threading.Thread(target=_left, args=(driver, process, owner), daemon=True).start()
        return
    driver.closing = True
    with contextlib.suppress(ACPError):
        driver.call(driver.connection.abort, "the owner let go of the agent without closing it")
    if process is not None:
        process.grace = LEFT
        with contextlib.suppress(TimeoutError):
            process.end()
    driver.stop()
