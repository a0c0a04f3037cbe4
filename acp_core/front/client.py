"""The client's front: an agent that is connected, its sessions and their turns, and who answers what the agent asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..client import CYCLE_ORIGINS, ClientConnection
from ..closing import AGENT as AGENT_STEP
from ..closing import SETTLED, Grace
from ..connection import ANY_EXTENSION
from ..elicitation import elicitation_capabilities, elicitation_result
from ..errors import (
    ACPError,
    AgentNotStarted,
    RequestTimeout,
    check_duration,
    check_type,
    clip,
    last_words,
    local,
    not_served,
)
from ..events import (
    AgentMessageChunk,
    ConnectionOver,
    ElicitationRequested,
    Noise,
    PermissionOption,
    PermissionRequested,
    RequestReceived,
)
from ..inbox import MIB, Inbox, TurnToken
from ..methods import AGENT, NOTIFICATION_KIND, V1, MethodTable
from ..permissions import DENY, Policy
from ..state import OVER
from . import plain_dict, wire_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol, TypeAlias, Unpack

    from ..closing import ClosingPlan
    from ..elicitation import Answer
    from ..events import Event
    from ..inbox import Channel
    from ..limits import Limits
    from ..options import CancelThen, ElicitationMode, OpenOptions, PromptOptions, StepNeeds, Workspace
    from ..schema import Notification, Request
    from ..sessions import Session
    from . import Ask, Closer, JsonObject, Link, Process, T
    from . import P as Params
    from . import Waiter as AnyWaiter

    Keep: TypeAlias = Callable[[int], Callable[[], object] | None]

    class Blocking(Protocol):
        """Makes a function that blocks into one that a binding can run beside everything else."""

        def __call__(self, function: Callable[Params, T], /) -> Callable[Params, object]: ...


WaiterT = TypeVar("WaiterT", bound="AnyWaiter")
SessionT = TypeVar("SessionT", bound="SessionFront[Any, Any]")
TurnT = TypeVar("TurnT")
NameT = TypeVar("NameT", bound=str)

# The key of the one request that has an argument of its own besides permissions.
ELICITATION = "elicitation_create"


# ── Before there is a transport ─────────────────────────────────────────────────────────────────────────────────────


def as_it_is(function: Callable[Params, T]) -> Callable[Params, object]:
    """For a binding whose handlers may block."""
    return function


class ClientSetup(Generic[WaiterT]):
    """A client that has no transport yet: its arguments are checked, its connection is made, and it is attached to what
    an earlier owner left. So nothing has to be undone when an argument is wrong.

    Args:
        waiter: makes one who waits.
        nonce: as ``Connection``.
        permissions: a Policy, or who is asked.
        blocking: for the functions of ``workspace``, which block.
        handlers, elicitation, on_snapshot: the owner's code, as the binding can run it.
        (others): see ``connect`` of a binding.

    Raises:
        TypeError, ValueError, LocalProtocolError: an argument is wrong.
    """

    def __init__(
        self,
        waiter: Callable[[], WaiterT],
        nonce: str,
        permissions: object,
        *,
        blocking: Blocking = as_it_is,
        handlers: Mapping[str, object] | None = None,
        elicitation: Mapping[ElicitationMode, Callable[[ElicitationRequested], object]] | None = None,
        on_snapshot: Callable[[dict[str, object], int], object] | None = None,
        capabilities: Mapping[str, object] | None = None,
        info: Mapping[str, object] | None = None,
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
    ) -> None:
        for name, value in (
            ("handlers", handlers),
            ("elicitation", elicitation),
            ("capabilities", capabilities),
            ("info", info),
            ("restore", restore),
        ):
            if value is not None and not isinstance(value, Mapping):
                raise TypeError(f"{name} must be a mapping or None, not {type(value).__name__}")
        for name, function in (("on_event", on_event), ("on_snapshot", on_snapshot)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be callable or None, not {type(function).__name__}")
        durations = (("attach_deadline", attach_deadline), ("tail_quiet", tail_quiet), ("tail_max", tail_max))
        for name, seconds in durations:
            check_duration(name, seconds)
        for name, size in (("pause_at", pause_at), ("full_at", full_at)):
            check_type(name, size, int, "a number of bytes")
        if workspace is not None and not all(hasattr(workspace, name) for name in ("handlers", "close", "join")):
            raise TypeError(f"workspace must be a Workspace or None, not {type(workspace).__name__}")
        # It is asked before the connection is made, which would refuse it, too.
        check_type("methods", methods, MethodTable, "a MethodTable")
        policy = permissions if isinstance(permissions, Policy) else None
        self.ask: Callable[[PermissionRequested], object] | None = None
        if policy is None:
            if not callable(permissions):
                raise TypeError(f"permissions must be a Policy or a callable, not {type(permissions).__name__}")
            self.ask = permissions
        self.grace = Grace.of(close_grace) if close_grace is not None else Grace()
        self.inbox = Inbox(pause_at=pause_at, full_at=full_at)
        self.on_event = on_event
        self.workspace = workspace
        self.join = blocking(workspace.join) if workspace is not None else None
        served = workspace.handlers if workspace is not None else {}
        self.handlers: dict[str, Callable[..., object]] = {
            **{key: blocking(handler) for key, handler in served.items()},
            **functions("handlers", handlers or {}),
        }
        derived = methods.advertised(self.handlers)
        if elicitation is not None:
            self.handlers[ELICITATION] = partial(elicit, functions("elicitation", elicitation))
            derived["elicitation"] = elicitation_capabilities(elicitation)
        self.elicits = elicitation is not None
        self.connection = ClientConnection(
            nonce=nonce,
            limits=limits,
            methods=methods,
            extensions=extension_names(self.handlers, methods, extensions),
            capabilities=plain_dict(capabilities) if capabilities is not None else derived,
            info=plain_dict(info),
            permissions=policy,
            codec=codec,
            cycle_origins=cycle_origins,
            restore=plain_dict(restore),
        )
        self.keep: Keep | None = partial(keep, self.connection, on_snapshot) if on_snapshot is not None else None
        self.attached: list[tuple[Session, int | None, Channel, WaiterT]] = []
        for session_id, prompt_id in self.connection.unattached.items():
            token = turn_token(self.inbox, one := waiter())
            handle = self.connection.attach(
                session_id, prompt_id, deadline=attach_deadline, tail_quiet=tail_quiet, tail_max=tail_max, token=token
            )
            self.attached.append((handle, prompt_id, token.channel, one))


# What the bindings pass on.
SETUP_OPTIONS = frozenset(ClientSetup.__init__.__kwdefaults__ or ()) - {"blocking"}
OPEN_OPTIONS = frozenset(ClientConnection.open_session.__kwdefaults__ or ()) - {"token"}
PROMPT_OPTIONS = frozenset(ClientConnection.prompt.__kwdefaults__ or ()) - {"token"}


def check_options(caller: str, known: frozenset[str], options: Mapping[str, object]) -> None:
    """Refuse an option that there is not, in the name of the function that was called.

    Raises:
        TypeError: there is one.
    """
    for name in options:
        if name not in known:
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}; it takes {sorted(known)}")


def check_command(command: object) -> None:
    """Raises:
    TypeError: it is neither a str nor a sequence of words.
    """
    if not isinstance(command, (str, Sequence)) or isinstance(command, bytes):
        raise TypeError(f"command must be a str or a sequence of words, not {type(command).__name__}")


def not_started(program: str, cwd: object, why: Exception) -> AgentNotStarted:
    """The error for a program that the system could not start, whatever binding has tried."""
    reason = getattr(why, "strerror", None) or str(why)
    if cwd is not None and getattr(why, "filename", None) == cwd:
        return AgentNotStarted(f"the agent could not be started in {str(cwd)!r}: {reason}")
    return AgentNotStarted(f"the agent could not be started: {reason}: {program!r}")


def functions(argument: str, given: Mapping[NameT, object]) -> dict[str, Callable[..., object]]:
    """The owner's functions by their names.

    Raises:
        TypeError: it is no mapping of names to functions.
    """
    found: dict[str, Callable[..., object]] = {}
    for name, function in given.items():
        if not callable(function):
            raise TypeError(f"{argument}[{name!r}] must be callable, not {type(function).__name__}")
        found[name] = function
    return found


def extension_names(handlers: Mapping[str, object], methods: MethodTable, extensions: Iterable[str]) -> tuple[str, ...]:
    """The extensions to serve: those named, and those that have a handler.

    Raises:
        LocalProtocolError: a handler's name is no key that a client serves, and no extension.
    """
    asked = PermissionRequested.__name__
    served = [row for row in methods if row.kind != NOTIFICATION_KIND and row.handler != AGENT]
    keys = {row.key for row in served if row.event != asked}
    named = (extensions,) if isinstance(extensions, str) else tuple(extensions)
    found = [*named]
    for name in handlers:
        if name in keys:
            continue
        if any(row.key == name for row in served):
            local("handlers.name", f"no handler can be named {name!r}: who is asked is the argument permissions")
        if name not in named and not name.startswith("_"):
            local(
                "handlers.name",
                f"no handler can be named {name!r}: give a key of {sorted(keys)}, or an extension's name",
            )
        found.append(name)
    return tuple(found)


def elicit(modes: Mapping[str, Callable[..., object]], event: RequestReceived) -> object:
    """One handler for the callbacks of all modes. The core lets no other mode through."""
    assert isinstance(event, ElicitationRequested)
    return modes[event.mode](event)


def keep(
    connection: ClientConnection, on_snapshot: Callable[[dict[str, object], int], object], size: int
) -> Callable[[], object] | None:
    """What is to be done before so many bytes are written. Before the handshake there is nothing to store, and behind
    the end what was stored last is what a successor goes on with."""
    if connection.version is None or connection.state == OVER:
        return None
    return partial(on_snapshot, connection.snapshot(), size)


def turn_token(inbox: Inbox, waiter: AnyWaiter) -> TurnToken:
    """The token of a prompt, with a queue of its own."""
    token = TurnToken(inbox.channel(), waiter)
    token.channel.wake = waiter.notify
    return token


# ── What the agent asks ─────────────────────────────────────────────────────────────────────────────────────────────


class ClientDesk:
    """Decides what becomes of each request of the agent. Knows no front, so that an owner who lets go of the front
    without closing it is noticed."""

    def __init__(self, setup: ClientSetup[WaiterT], link: Link[object]) -> None:
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


def attempt(intent: Callable[Params, None], *args: Params.args, **kwargs: Params.kwargs) -> None:
    """Make an intent whose refusal means that there is nothing left to do."""
    try:
        intent(*args, **kwargs)
    except ACPError:
        pass


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

    def _give_up(self) -> None:
        attempt(self.cancel)


class SessionFront(Generic[WaiterT, TurnT]):
    """A session of the agent. ``handle`` is the core's: modes, options, commands, title, usage as the agent said."""

    def __init__(self, link: Link[WaiterT], connection: ClientConnection, handle: Session) -> None:
        self.link = link
        self.connection = connection
        self.handle = handle

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


class AgentFront(Generic[WaiterT, SessionT, TurnT]):
    """One connected agent. ``connection`` is the core, for reading; its intents belong to the methods here."""

    def __init__(
        self, setup: ClientSetup[WaiterT], link: Link[WaiterT], closer: Closer, process: Process | None
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
        with self._closer.lock:
            return self._closer.closing.add(step, name, after, needs, within)

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

    def _request(
        self,
        method: Request[object] | str,
        params: Mapping[str, object] | None,
        session: SessionT | str | None,
        deadline: float | None,
    ) -> Ask:
        wire, body = wire_message(self.connection.methods, method, params)
        return partial(self.connection.request, wire, body, session=handle_of(session), deadline=deadline)

    def _notify(
        self, method: Notification | str, params: Mapping[str, object] | None, session: SessionT | str | None
    ) -> None:
        wire, body = wire_message(self.connection.methods, method, params)
        self.link.call(self.connection.notify, wire, body, session=handle_of(session))


def handle_of(session: SessionFront[Any, Any] | str | None) -> Session | str | None:
    """The core's session of a front's."""
    return session.handle if isinstance(session, SessionFront) else session
