"""The client's front: an agent that is connected, its sessions and their turns, and who answers what the agent asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ..closing import AGENT as AGENT_STEP
from ..closing import SETTLED
from ..connection import ANY_EXTENSION
from ..elicitation import elicitation_result
from ..errors import ACPError, ConsumerTooSlow, RequestTimeout, clip, last_words, local, not_served
from ..events import (
    AgentMessageChunk,
    ConnectionOver,
    ElicitationRequested,
    Noise,
    PermissionOption,
    PermissionRequested,
    RequestReceived,
    SessionFailed,
    TurnEnded,
    TurnFailed,
)
from ..permissions import DENY, Policy
from ..state import OVER
from . import attempt, plain_dict, wire_message
from .link import WaiterT
from .setup import OPEN_OPTIONS, PROMPT_OPTIONS, check_options, turn_token

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import Self, TypeAlias, Unpack

    from ..client import ClientConnection
    from ..closing import ClosingPlan
    from ..elicitation import Answer
    from ..events import Event
    from ..inbox import Channel
    from ..options import CancelThen, OpenOptions, PromptOptions, StepNeeds
    from ..schema import Notification, Request
    from ..sessions import Session
    from . import JsonObject, Params, Process
    from .closing import Closer
    from .link import Link
    from .setup import ClientSetup

    About: TypeAlias = "SessionFront[Any, Any] | str | None"

SessionT = TypeVar("SessionT", bound="SessionFront[Any, Any]")
TurnT = TypeVar("TurnT")
R = TypeVar("R")


# ── What the agent asks ─────────────────────────────────────────────────────────────────────────────────────────────


class ClientDesk:
    """Decides what becomes of each request of the agent. Knows no front, so that an owner who lets go of the front
    without closing it is noticed."""

    def __init__(self, setup: ClientSetup[WaiterT], link: Link[Any]) -> None:
        self._connection = setup.connection
        self._link = link
        self._ask = setup.ask
        self._handlers = setup.handlers
        self._elicits = setup.elicits
        self._workspace = setup.workspace
        # What was printed first before the handshake: of a program that is no agent it is the best clue.
        self.noise = ""

    def act(self, event: Event) -> bool:
        """Take a request; see ``Link``. One that nobody serves is answered here, and reported."""
        connection = self._connection
        if isinstance(event, PermissionRequested):
            if self._ask is None:
                # The policy says ask and there is nobody: nothing is allowed in silence.
                attempt(connection.answer_permission, event.request_id, Policy().choose(DENY, event.options))
                return False
            self._link.spawn(event, partial(self._ask, event), partial(self._choose, event.request_id))
            return True
        if isinstance(event, RequestReceived):
            handler = self._handlers.get(event.key or event.method)
            if handler is None and not event.key:
                handler = self._handlers.get(ANY_EXTENSION)
            if handler is None:
                error = not_served(event.method)
                attempt(connection.respond_error, event.request_id, error.code, error.message, error.data)
                return False
            self._link.spawn(event, partial(handler, event), partial(self._answer, event))
            return True
        if isinstance(event, Noise) and not self.noise and connection.version is None:
            self.noise = clip(event.text)
        if isinstance(event, ConnectionOver) and self._workspace is not None:
            self._workspace.close()
        return False

    def _choose(self, request_id: str, option: object) -> None:
        if option is not None and not isinstance(option, (str, PermissionOption)):
            raise TypeError(f"an option, its id or None was expected, not {type(option).__name__}")
        self._connection.answer_permission(request_id, option)

    def _answer(self, event: RequestReceived, result: object) -> None:
        if self._elicits and isinstance(event, ElicitationRequested):
            result = elicitation_result(elicited(result), event.requested_schema)
        self._connection.respond(event.request_id, plain_dict(result))


def elicited(result: object) -> Answer:
    """What a callback for an elicitation returned.

    Raises:
        TypeError: it is no answer.
    """
    if result is None or isinstance(result, (bool, Mapping)):
        return result
    raise TypeError(f"the answer must be a mapping, a bool or None, not {type(result).__name__}")


# ── What a program holds ────────────────────────────────────────────────────────────────────────────────────────────


class TurnFront(Generic[WaiterT, SessionT]):
    """One prompt and what comes of it. ``session`` is its session, ``channel`` the queue of its events."""

    def __init__(self, session: SessionT, prompt_id: int, channel: Channel, waiter: WaiterT) -> None:
        self.session = session
        self.prompt_id = prompt_id
        self.channel = channel
        self.waiter = waiter
        self.link: Link[WaiterT] = session.link
        # The text that was read so far, or None when it was more than is kept for who has not asked for it.
        self._read: list[str] | None = []
        self._read_bytes = 0
        self._read_limit = self.link.inbox.full_at
        self._asked = False

    def __repr__(self) -> str:
        return f"Turn(prompt_id={self.prompt_id}, session_id={self.session.session_id!r})"

    @property
    def discarded(self) -> int:
        """How many events of the turn were discarded because nobody read them: after ``detach``, or by ``result``."""
        return self.channel.discarded

    def cancel(self, *, deadline: float = 2.0, then: CancelThen = "report") -> None:
        """Cancel this turn (see ``ClientConnection.cancel_turn``): it still ends by itself, so read on. Does not wait.
        One that is over is left alone. It ends with the stop reason ``"cancelled"``, or with the agent's own when that
        was quicker; so does one whose prompt had not left: then nothing was written, and ``cancel_error`` says it.

        ``deadline`` is how long the agent may take, in seconds; then the turn fails with RequestTimeout.

        Raises:
            TypeError, LocalProtocolError: as there.
            ConnectionClosed: the connection is over.
        """
        self.link.call(self._cancel, deadline, then)

    def detach(self) -> None:
        """Stop reading; the turn runs on. A second call does nothing."""
        if not self.channel.detached:
            self.link.leave(self.channel)

    def __del__(self) -> None:
        # A turn that nobody holds is read by nobody. One whose making failed has no channel.
        if hasattr(self, "link"):
            self.detach()

    def _keep(self, chunk: AgentMessageChunk) -> None:
        """A piece of the message was read: keep its text; for who has not asked for it, as much as may be unread."""
        self._read_bytes += len(chunk.line)
        if self._read_bytes > self._read_limit and not self._asked:
            self._read = None
        elif self._read is not None:
            self._read.append(chunk.text)

    def _text(self) -> str:
        """The text of the agent's message, behind the end of the turn.

        Raises:
            LocalProtocolError: not all of it was read, or it is more than is kept.
        """
        if self._read is None:
            local(
                "turn.text",
                f"a loop has read more than the {self._read_limit} bytes that are kept for text(); call that instead",
            )
        if self.channel.discarded_bytes:
            local(
                "turn.text",
                f"{self.channel.discarded} events of the turn were discarded unread, by result(), detach() or the end "
                "of a loop over it; call text() instead, or first",
            )
        return "".join(self._read)

    def _cancel(self, deadline: float, then: CancelThen) -> None:
        handle = self.session.handle
        if handle.turn is not None and handle.turn.prompt_id == self.prompt_id:
            self.session.connection.cancel_turn(handle, deadline=deadline, then=then)

    def _next(self) -> Event | None:
        # Of a turn that was detached only its end is left.
        return self.channel.take() or (self.waiter.event if self.channel.ended else None)

    def _give_up(self) -> None:
        self.detach()
        attempt(self.cancel)


class TurnIterator:
    """One loop over a turn. Dropping it before the end detaches the turn, and so does what interrupts it."""

    # There is nothing to leave yet where a Ctrl-C comes while it is made.
    _over = True
    _stays = False

    def __init__(self, turn: TurnFront[Any, Any]) -> None:
        self._turn = turn
        self._over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        turn = self._turn
        event = turn.link.take(turn.channel)
        if event is None:
            event = await self._wait()
        if isinstance(event, AgentMessageChunk):
            turn._keep(event)
        elif isinstance(event, TurnEnded):
            self._over = True
        elif isinstance(event, TurnFailed):
            self._over = True
            await turn.link.fail(event.error)
        return event

    async def _wait(self) -> Event:
        self._stays = False
        try:
            return await self._turn.link.wait(self._turn.waiter, self._turn._next)
        except ConsumerTooSlow:
            # May be tried again, by another loop, too.
            self._stays = True
            raise
        except BaseException:
            self._over = True
            self._turn.detach()
            raise

    def __del__(self) -> None:
        if not self._over and not self._stays:
            self._turn.detach()


class TurnCalls(TurnFront[WaiterT, SessionT]):
    """What waits for a turn."""

    def __aiter__(self) -> TurnIterator:
        return TurnIterator(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, why: BaseException | None, tb: object) -> None:
        self.detach()

    async def result(self: TurnFront[WaiterT, SessionT]) -> TurnEnded:
        """Wait for the end of the turn. Unread events of it are discarded and counted: for the text, too, call ``text``
        first. A caller that is cancelled or interrupted cancels the turn; the connection stays whole.

        Raises:
            RequestError, RequestTimeout, ConnectionClosed, RemoteProtocolError: the turn failed.
            ConsumerTooSlow: its answer stands behind more unread events of others than may be kept.
        """
        self.detach()
        try:
            event = await self.link.answer(self.waiter)
        except (ConsumerTooSlow, GeneratorExit):
            raise
        except BaseException:
            self._give_up()
            raise
        if isinstance(event, TurnFailed):
            await self.link.fail(event.error)
        assert isinstance(event, TurnEnded)
        return event

    async def text(self: TurnFront[WaiterT, SessionT]) -> str:
        """Wait for the end of the turn and give the text of the agent's message: all of it, with what a loop over the
        turn has read before, and the same again on another call. Cancelled or interrupted as ``result``.

        Raises:
            LocalProtocolError: some of it was discarded, by ``result``, ``detach`` or a loop that was left early.
            As ``result``.
        """
        self._asked = True
        try:
            async for _ in TurnIterator(self):
                pass
        except (ACPError, GeneratorExit):
            raise
        except BaseException:
            self._give_up()
            raise
        return self._text()


class SessionFront(Generic[WaiterT, TurnT]):
    """A session of the agent. ``handle`` is the core's: modes, options, commands, title, usage as the agent said."""

    def __init__(self, link: Link[WaiterT], connection: ClientConnection, handle: Session) -> None:
        self.link = link
        self.connection = connection
        self.handle = handle
        # Whoever reads its events, so that one who reads again is not forgotten for another.
        self._reader = link.waiter()

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

    @property
    def discarded(self) -> int:
        """How many events between the turns were discarded, since nobody reads ``events``."""
        return self.link.inbox.idle(self.handle).discarded

    def prompt(self, content: str | Sequence[Mapping[str, object]], **options: Unpack[PromptOptions]) -> TurnT:
        """Start a turn; returns at once. The options are those of ``ClientConnection.prompt``.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, the session is not idle, or this side has closed.
            ConnectionClosed: the connection has ended otherwise; AgentExited when the agent's process has.
        """
        check_options("prompt", PROMPT_OPTIONS, options)
        waiter = self.link.waiter()
        token = turn_token(self.link.inbox, waiter)
        prompt_id = self.link.call(self.connection.prompt, self.handle, content, token=token, **options)
        return self._turn(prompt_id, token.channel, waiter)

    def cancel(self, *, deadline: float = 2.0, then: CancelThen = "report") -> None:
        """Cancel whatever turn the session has (see ``ClientConnection.cancel_turn``). Does not wait for its end.

        Raises:
            TypeError, LocalProtocolError: as there.
            ConnectionClosed: the connection is over.
        """
        self.link.call(self.connection.cancel_turn, self.handle, deadline=deadline, then=then)

    def _turn(self, prompt_id: int, channel: Channel, waiter: WaiterT) -> TurnT:
        """The binding's turn."""
        raise NotImplementedError


class SessionIterator:
    """What a session says between turns. Leaving it loses nothing: the next one goes on."""

    def __init__(self, session: SessionFront[Any, Any]) -> None:
        self._link = session.link
        self._channel = self._link.inbox.listen(session.handle)
        self._waiter = session._reader
        self._channel.wake = self._waiter.notify

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        event = self._link.take(self._channel)
        if event is None:
            # No answer is waited for.
            (event,) = await self._link.wait(self._waiter, self._next, counts=False)
        if event is None:
            raise StopAsyncIteration
        return event

    def _next(self) -> tuple[Event | None] | None:
        event = self._channel.take()
        ended = self._channel.ended or self._link.connection.state == OVER
        return (event,) if event is not None or ended else None


class SessionCalls(SessionFront[WaiterT, TurnT]):
    """What waits for an answer about a session."""

    def events(self) -> SessionIterator:
        """What the agent says about the session between turns: how it was opened up to SessionReady, with a replay that
        was asked for or the count of one that was discarded before it; late updates; metadata, unread only in its
        latest state. Ends with the session or the connection. For one reader at a time.
        """
        return SessionIterator(self)

    async def close(self: SessionFront[WaiterT, TurnT], *, deadline: float = 10.0) -> None:
        """Close the session and wait for the agent's answer, at most ``deadline`` seconds.

        Raises:
            LocalProtocolError: the agent does not advertise it, or the session is not open.
            RequestError, RequestTimeout, ConnectionClosed: it was refused, or not answered.
        """
        await self.link.ask(partial(self.connection.close_session, self.handle, deadline=deadline))

    async def set_mode(self: SessionFront[WaiterT, TurnT], mode_id: str, *, deadline: float | None = None) -> None:
        """Set the mode, one of ``handle.modes``, and wait for the answer. ``deadline`` is in seconds. Raises as
        ``close``."""
        await self.link.ask(partial(self.connection.set_mode, self.handle, mode_id, deadline=deadline))

    async def set_config_option(
        self: SessionFront[WaiterT, TurnT], config_id: str, value: str | bool, *, deadline: float | None = None
    ) -> None:
        """Set an option, one of ``handle.config_options``, and wait for the answer. ``deadline`` is in seconds. Raises
        as ``close``."""
        await self.link.ask(
            partial(self.connection.set_config_option, self.handle, config_id, value, deadline=deadline)
        )


class AgentFront(Generic[WaiterT, SessionT, TurnT]):
    """One connected agent. ``connection`` is the core, for reading; its intents belong to the methods here."""

    def __init__(
        self, setup: ClientSetup[WaiterT], link: Link[WaiterT], closer: Closer[WaiterT], process: Process | None
    ) -> None:
        self.connection = setup.connection
        self.link = link
        self._closer = closer
        self._process = process
        self._desk = ClientDesk(setup, link)
        link.act = self._desk.act
        self._restored: list[tuple[SessionT, TurnT | None]] = []
        for handle, prompt_id, channel, waiter in setup.attached:
            session = self._session(handle)
            turn = None if prompt_id is None else session._turn(prompt_id, channel, waiter)
            self._restored.append((session, turn))
        if setup.join is not None:
            self.on_close(setup.join, name="workspace")

    def _session(self, handle: Session) -> SessionT:
        """The binding's session."""
        raise NotImplementedError

    # ── What is known ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def peer_capabilities(self) -> JsonObject:
        """What the agent advertised, as it stood on the wire; empty before the handshake."""
        return self.connection.peer_capabilities

    @property
    def auth_methods(self) -> list[JsonObject]:
        """The ways to log in that the agent advertised, as on the wire."""
        return self.connection.auth_methods

    @property
    def restored(self) -> list[tuple[SessionT, TurnT | None]]:
        """The sessions that ``restore`` has attached, each with the turn that was in flight."""
        return [*self._restored]

    @property
    def closed(self) -> bool:
        """The connection is over, whoever ended it."""
        return self.connection.state == OVER

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
        """How many events were dropped because ``on_event`` was too slow for them."""
        return self.link.dropped_reports

    # ── What does not wait ──────────────────────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> dict[str, object]:
        """What a restarted owner goes on with. See ``ClientConnection.snapshot``; ``on_snapshot`` gets each in time.

        Raises:
            LocalProtocolError: the handshake is not done, or it would be too large.
        """
        return self.link.call(self.connection.snapshot)

    def answer_permission(self, request_id: str, option: PermissionOption | str | None) -> None:
        """Answer a permission that was open in ``restore``, by its id there. The first answer counts.

        Raises:
            TypeError, LocalProtocolError: as ``ClientConnection.answer_permission``.
            ConnectionClosed: the connection is over.
        """
        self.link.call(self.connection.answer_permission, request_id, option)

    def respond(self, request_id: str, result: Mapping[str, object] | None = None) -> None:
        """Answer any other request that was open in ``restore``, by its id there. The first answer counts.

        Raises:
            TypeError, LocalProtocolError: as ``ClientConnection.respond``.
            ConnectionClosed: the connection is over.
        """
        self.link.call(self.connection.respond, request_id, plain_dict(result))

    def respond_error(self, request_id: str, code: int, message: str, data: object = None) -> None:
        """Answer a request that was open in ``restore`` with an error, by its id there. Raises as ``respond``."""
        self.link.call(self.connection.respond_error, request_id, code, message, data)

    def on_close(
        self,
        step: Callable[[], object],
        *,
        name: str | None = None,
        after: str | Sequence[str] = AGENT_STEP,
        needs: StepNeeds = SETTLED,
        within: float = 10.0,
    ) -> str:
        """Hang a step on ``close``, for a resource that must be let go of with the agent. See docs/closing.md.

        Args:
            step: a function that releases it. In ``acp_sync`` it is called in a thread of its own; in ``acp_anyio`` it
                is async, or plain if it does not block, and cancelled when the block is left. What it raises is its
                failure. It is called again only by another ``close``, and only after a failure.
            name: in the plan; without it, the function's.
            after: the steps that it waits for: ``"agent"`` (no process is left), ``"cancel"``, or names of others.
            needs: ``"settled"``: they have ended in any way. ``"success"``: they have succeeded, else the step is kept
                for another ``close``. That is for what the agent may still use: a credential, a lock.
            within: seconds after which closing goes on without it.

        Returns: the name.

        Raises:
            TypeError, LocalProtocolError: as ``ClosingPlan.add``; closing may have begun.
        """
        return self.link.locked(self._closer.closing.add, step, name, after, needs, within)

    # ── For the binding's methods ───────────────────────────────────────────────────────────────────────────────────

    def _open(self, cwd: str, waiter: WaiterT, options: OpenOptions) -> Session:
        """Begin to open a session; for ``Link.call``."""
        handle = self.connection.open_session(cwd, token=waiter, **options)
        if options.get("replay") == "report":
            # It was asked for: all of it is kept until it is read, which can only be when the session is open.
            self.link.inbox.listen(handle)
        return handle

    def _no_agent(self, why: Exception) -> Exception:
        """The error for a step that was not answered: of the handshake, with what is known of who is there instead."""
        if not isinstance(why, RequestTimeout) or self.connection.version is not None:
            return why
        words = [f"{why}; this is no ACP agent, or it needs other arguments"]
        if self._desk.noise:
            words.append(f"it printed: {self._desk.noise}")
        if self._process is not None:
            tail = last_words(self.stderr_tail)
            words.append(self.exit_cause or f"it still runs; its stderr {'ends with: ' + tail if tail else 'is empty'}")
        told = RequestTimeout("; ".join(words))
        told.dispatch = why.dispatch
        return told


class AgentCalls(AgentFront[WaiterT, SessionT, TurnT]):
    """What waits for the agent."""

    async def initialize(self: AgentFront[WaiterT, SessionT, TurnT], *, deadline: float | None = 60.0) -> None:
        """Do the handshake and wait for it, at most ``deadline`` seconds. ``open_session`` does it by itself.

        Raises:
            LocalProtocolError: it was done before.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: it failed.
        """
        try:
            await self.link.ask(partial(self.connection.initialize, deadline=deadline))
        except RequestTimeout as why:
            raise self._no_agent(why) from why

    async def authenticate(
        self: AgentFront[WaiterT, SessionT, TurnT], method_id: str, *, deadline: float | None = 300.0
    ) -> None:
        """Log in by one of ``auth_methods`` and wait for the answer, at most ``deadline`` seconds. Raises as
        ``initialize``."""
        await self.link.ask(partial(self.connection.authenticate, method_id, deadline=deadline))

    async def open_session(
        self: AgentFront[WaiterT, SessionT, TurnT], cwd: str | PathLike[str], **options: Unpack[OpenOptions]
    ) -> SessionT:
        """Open a session and wait until it takes prompts. The options are those of ``ClientConnection.open_session``.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, or the agent cannot do what was asked for.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: a step was refused or not answered.
        """
        check_options("open_session", OPEN_OPTIONS, options)
        waiter = self.link.waiter()
        handle = self.link.call(self._open, path_str(cwd), waiter, options)
        try:
            event = await self.link.answer(waiter)
        except BaseException:
            # It opens without an owner: what it says is counted and keeps nobody from reading.
            self.link.leave(self.link.inbox.idle(handle))
            raise
        if isinstance(event, SessionFailed):
            # Nobody can read what was replayed of it.
            self.link.leave(self.link.inbox.idle(handle))
            await self.link.fail(self._no_agent(event.error))
        return self._session(handle)

    @overload
    async def request(
        self: AgentFront[WaiterT, SessionT, TurnT],
        method: Request[R],
        params: None = None,
        *,
        session: About = None,
        deadline: float | None = None,
    ) -> R: ...
    @overload
    async def request(
        self: AgentFront[WaiterT, SessionT, TurnT],
        method: str,
        params: Params = None,
        *,
        session: About = None,
        deadline: float | None = None,
    ) -> object: ...
    async def request(
        self: AgentFront[WaiterT, SessionT, TurnT],
        method: str | Request[object],
        params: Params = None,
        *,
        session: About = None,
        deadline: float | None = None,
    ) -> object:
        """Send a request and wait for its result. What stood before the answer on the wire is in its queue by then. A
        caller that is cancelled or interrupted cancels the request.

        Args:
            method: a wire name, or a typed request of ``acp_core.schema``, which knows its params and result.
            session: adds its ``sessionId`` to the params.
            deadline: seconds until RequestTimeout.

        Raises:
            TypeError, LocalProtocolError: see ``Connection.request``.
            RequestError: the agent answered with an error.
            RequestTimeout: no answer within ``deadline``.
            ConnectionClosed, AgentExited: the connection ended first.
            RemoteProtocolError: the answer broke the protocol.
            ConsumerTooSlow: the answer stands behind too many unread events. The request stays open.
        """
        wire, body = wire_message(self.connection.methods, method, params)
        about = handle_of(session)
        return await self.link.ask(partial(self.connection.request, wire, body, session=about, deadline=deadline))

    @overload
    async def notify(self: AgentFront[WaiterT, SessionT, TurnT], method: Notification) -> None: ...
    @overload
    async def notify(
        self: AgentFront[WaiterT, SessionT, TurnT], method: str, params: Params = None, *, session: About = None
    ) -> None: ...
    async def notify(
        self: AgentFront[WaiterT, SessionT, TurnT],
        method: str | Notification,
        params: Params = None,
        *,
        session: About = None,
    ) -> None:
        """Send a notification: a wire name, or a ``Notification`` of ``acp_core.schema``. Waits while the agent reads
        too slowly.

        Raises:
            TypeError, LocalProtocolError, ConnectionClosed: see ``Connection.notify``.
        """
        await self.link.pace()
        wire, body = wire_message(self.connection.methods, method, params)
        self.link.call(self.connection.notify, wire, body, session=handle_of(session))

    async def close(self: AgentFront[WaiterT, SessionT, TurnT], *, cancel: bool = True) -> None:
        """Take no new turn, cancel those in flight and wait for their results, settle everything, write what is left,
        end the agent's input, wait for its process, ask its group to terminate, kill it; then release what hangs on it.
        Every wait is one of ``close_grace``.

        ``cancel=False`` is for an owner who hands over to another one, on a transport that outlives this connection: no
        turn is cancelled and nothing that the agent has asked is answered, so that the turns run on. Take the
        ``snapshot`` before; see docs/closing.md.

        A second call joins the first, and one after a failure does what is left. A call that is cancelled or
        interrupted kills the agent at once. Also done at the end of the block; if that is left by an exception, no turn
        is cancelled first.

        Raises:
            ExceptionGroup: what failed, in the order of the steps, each with its step's name as a note. If the only
                thing is that a turn did not end when it was cancelled, and the agent has ended, nothing is raised;
                ``closing.failures`` has it.
        """
        await self._closer.close(cancel)

    async def _leave(self: AgentFront[WaiterT, SessionT, TurnT], why: BaseException | None) -> None:
        """Close behind the owner's block, which ``why`` has ended if it is no None. Raises as ``close``, or notes that
        on ``why``."""
        if why is None:
            await self._closer.close(True)
            return
        # Nothing waits for an answer any more, and what went wrong is not hidden by what else does.
        self.link.end("its owner has left")
        try:
            await self._closer.close(True)
        except ExceptionGroup as also:
            why.add_note(f"{also.message}: {[*also.exceptions]}")


def path_str(path: str | PathLike[str]) -> str:
    """As ``os.fspath``, which is not loaded here.

    Raises:
        TypeError: it is no path.
    """
    if isinstance(path, str):
        return path
    try:
        return path.__fspath__()
    except AttributeError:
        raise TypeError(f"cwd must be a str or a path, not {type(path).__name__}") from None


def handle_of(session: SessionFront[Any, Any] | str | None) -> Session | str | None:
    """The core's session of a front's."""
    return session.handle if isinstance(session, SessionFront) else session
