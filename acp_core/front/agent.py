"""The agent's front: an object with the methods it serves, its sessions and turns, and who calls which method."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from ..agent import AgentConnection, ServedSession
from ..connection import ANY_EXTENSION
from ..errors import not_served
from ..events import (
    CancelRequested,
    ConnectionOver,
    PromptRequested,
    RequestAbandoned,
    RequestReceived,
    TurnCancelReceived,
    get_object,
    get_str,
)
from ..methods import V1
from . import as_dict, attempt, plain_dict, wire_message
from .setup import ELICITATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..events import (
        AuthenticateRequested,
        CloseSessionRequested,
        DeleteSessionRequested,
        Event,
        ListSessionsRequested,
        LoadSessionRequested,
        LogoutRequested,
        NewSessionRequested,
        ResumeSessionRequested,
        SetConfigOptionRequested,
        SetModeRequested,
    )
    from ..limits import Limits
    from ..methods import MethodTable
    from ..schema import Notification, Request
    from . import JsonObject, Params
    from .link import Link

SessionT = TypeVar("SessionT", bound="AgentSessionFront")
GivenT = TypeVar("GivenT", contravariant=True)
TurnT = TypeVar("TurnT", contravariant=True)
StopT = TypeVar("StopT", covariant=True)
OpenedT = TypeVar("OpenedT", covariant=True)
ResultT = TypeVar("ResultT", covariant=True)
ToldT = TypeVar("ToldT", covariant=True)
R = TypeVar("R")

# The method of an agent that serves each row of the method table, by the row's key; "" is every other request.
SERVED = {
    "session_prompt": "prompt",
    "session_new": "new_session",
    "session_load": "load_session",
    "session_resume": "resume_session",
    "session_list": "list_sessions",
    "session_close": "close_session",
    "session_delete": "delete_session",
    "session_set_mode": "set_mode",
    "session_set_config_option": "set_config_option",
    "authenticate": "authenticate",
    "logout": "logout",
    "": "extension",
}
# These take the session as a second argument.
REOPENS = ("session_load", "session_resume")
# The requests that open a session.
OPENS = ("session_new", *REOPENS)
# These serve no request: they are told of a session that is open now, and of a turn that was cancelled.
TOLD = ("opened", "cancel")
# What each method is called with; every other one with the request.
GIVEN = {
    "prompt": ("turn",),
    "cancel": ("turn",),
    "opened": ("session",),
    **{SERVED[key]: ("request", "session") for key in REOPENS},
}


class PromptAgent(Protocol[TurnT, StopT]):
    """An agent, as small as it can be: any object with ``prompt``. Every other method is found by its name, and typed
    by ``AgentMethods``.

    ``prompt(turn)`` answers a prompt: a stop reason, or None for end_turn. Optional: ``new_session(request)`` gives the
    new session's id, None to have one made, or the whole result with its ``sessionId``; ``load_session(request,
    session)`` sends the history and returns the rest of the result or None, as ``resume_session(request, session)``
    does without a history; ``list_sessions``, ``close_session``, ``delete_session``, ``set_mode``,
    ``set_config_option``, ``authenticate``, ``logout`` and ``extension`` get the request and return the result or None
    (``extension`` is for every method that begins with an underscore, or for those that ``extensions`` names);
    ``opened(session)`` is told of a session that is open now, behind the answer; ``cancel(turn)`` is told that a turn
    was cancelled. What is not defined is answered -32601 and not advertised; what can never be called, by its name or
    its arguments, is a TypeError of ``serve``. A RequestError is answered as it is, any other exception -32603 without
    its text, and reported as HandlerFailed.

    In ``acp_sync`` each call has a thread of its own. In ``acp_anyio`` it has a task, is plain or async, and is
    cancelled with its request.
    """

    def prompt(self, turn: TurnT, /) -> StopT:
        """Answer a prompt. When the client cancels it, ``cancelled`` is answered, whatever this returns."""


class AgentMethods(Generic[GivenT, TurnT, OpenedT, ResultT, ToldT]):
    """The optional methods of an agent with their types, for type checkers: a class that inherits it is told of a wrong
    argument or result. It defines none of them, so what a class does not define is not served."""

    if TYPE_CHECKING:

        def new_session(self, request: NewSessionRequested, /) -> OpenedT: ...
        def load_session(self, request: LoadSessionRequested, session: GivenT, /) -> ResultT: ...
        def resume_session(self, request: ResumeSessionRequested, session: GivenT, /) -> ResultT: ...
        def opened(self, session: GivenT, /) -> ToldT: ...
        def cancel(self, turn: TurnT, /) -> ToldT: ...
        def list_sessions(self, request: ListSessionsRequested, /) -> ResultT: ...
        def close_session(self, request: CloseSessionRequested, /) -> ResultT: ...
        def delete_session(self, request: DeleteSessionRequested, /) -> ResultT: ...
        def set_mode(self, request: SetModeRequested, /) -> ResultT: ...
        def set_config_option(self, request: SetConfigOptionRequested, /) -> ResultT: ...
        def authenticate(self, request: AuthenticateRequested, /) -> ResultT: ...
        def logout(self, request: LogoutRequested, /) -> ResultT: ...
        def extension(self, request: RequestReceived, /) -> ResultT: ...


def method_for(agent: object, key: str) -> Callable[..., object] | None:
    """The method of an agent that serves a key, or that is told of what ``TOLD`` says; or None."""
    method: object = getattr(agent, key if key in TOLD else SERVED.get(key, SERVED[""]), None)
    return method if callable(method) else None


def check_agent(agent: object) -> None:
    """Refuse what cannot serve: no instance, no ``prompt``, a method that cannot be called with what it will be given,
    or one whose name is a misspelt name of a method that is not there.

    Raises:
        TypeError: it is so.
    """
    # Loading it costs more than everything else here: not before somebody serves.
    import inspect

    if isinstance(agent, type):
        raise TypeError(f"an agent is an object: give {agent.__name__}(), not the class {agent.__name__}")
    kind = type(agent).__name__
    names = [name for name in (*SERVED.values(), *TOLD) if callable(getattr(agent, name, None))]
    public = [name for name in dir(agent) if not name.startswith("_")]
    for known in {*SERVED.values(), *TOLD}.difference(public):
        for name in public:
            if misspelt(name, known) and callable(getattr(agent, name, None)):
                raise TypeError(
                    f"{kind}.{name} is never called: a method of an agent is named {known}. Helpers that happen to be "
                    "named so begin with an underscore"
                )
    if SERVED["session_prompt"] not in names:
        raise TypeError(f"an agent needs a method prompt(turn); {kind} has none")
    for name in names:
        given = GIVEN.get(name, ("request",))
        try:
            signature = inspect.signature(getattr(agent, name))
        except (TypeError, ValueError):
            # Not every callable that is written in C says.
            continue
        try:
            signature.bind(*given)
        except TypeError as why:
            call = f"{name}({', '.join(given)})"
            raise TypeError(f"{kind}.{name}{signature} cannot be called as {call}: {why}") from None


def misspelt(name: str, known: str) -> bool:
    """Whether a name is a known one with a letter left out, put in or swapped with the next, or written with other
    capitals or underscores. Other ends and other letters make other words: load_sessions, get_mode, clone_session."""
    one, other = name.replace("_", "").lower(), known.replace("_", "").lower()
    if name == known or one == other:
        return name != known
    if one[:1] != other[:1] or one[-1:] != other[-1:]:
        return False
    while one[:1] == other[:1] != "":
        one, other = one[1:], other[1:]
    while one[-1:] == other[-1:] != "":
        one, other = one[:-1], other[:-1]
    swapped = len(one) == len(other) == 2 and one == other[::-1]
    return swapped or (len(one) + len(other) == 1)


def agent_connection(
    nonce: str,
    agent: object,
    *,
    limits: Limits | None = None,
    methods: MethodTable = V1,
    extensions: Iterable[str] = (),
    codec: Callable[[str], object] | None = None,
    info: Mapping[str, object] | None = None,
    capabilities: Mapping[str, object] | None = None,
    auth_methods: Sequence[Mapping[str, object]] | None = None,
) -> AgentConnection:
    """The connection of an object with the methods it serves: what is defined is advertised, and ``capabilities`` are
    merged over that. ``extension`` gets the methods that ``extensions`` names, and where it names none, all that begin
    with an underscore. The rest is as in ``AgentConnection``.

    Raises:
        TypeError: it is no agent (see ``check_agent``), or an argument has a wrong type.
        LocalProtocolError: an argument is wrong.
    """
    check_agent(agent)
    served = [key for key in SERVED if method_for(agent, key) is not None]
    if isinstance(extensions, str):
        raise TypeError("extensions must be an iterable of method names, not one str")
    named = tuple(extensions)
    return AgentConnection(
        nonce=nonce,
        limits=limits,
        methods=methods,
        extensions=named if named or "" not in served else (ANY_EXTENSION,),
        codec=codec,
        capabilities=merged(methods.advertised(served), plain_dict(capabilities) or {}),
        info=plain_dict(info),
        auth_methods=[as_dict(method) for method in auth_methods or ()],
    )


def answer_of(event: RequestReceived, result: object, new_id: Callable[[], str]) -> JsonObject | None:
    """What a method of an agent returned, as the result of the request. A new session's may be its id, or None for one
    that is made by ``new_id``.

    Raises:
        TypeError: it is neither a mapping nor None.
    """
    if event.key == "session_new":
        result = {"sessionId": result} if isinstance(result, str) else result
        return {"sessionId": new_id(), **(plain_dict(result) or {})}
    return plain_dict(result)


def chosen_option(result: object) -> str | None:
    """The option in the result of a permission request; None for cancelled, and for what is no such result."""
    return get_str(get_object(result, "outcome"), "optionId") if isinstance(result, dict) else None


def merged(base: Mapping[str, object], over: Mapping[str, object]) -> JsonObject:
    """``over`` laid over ``base``, object by object."""
    result = dict(base)
    for name, value in over.items():
        below, above = result.get(name), value
        result[name] = merged(below, above) if isinstance(below, dict) and isinstance(above, dict) else above
    return result


# ── What a method of an agent is given ──────────────────────────────────────────────────────────────────────────────


class AgentSessionFront:
    """A session that the agent serves. ``handle`` is the core's."""

    # Who asks the client stops waiting when this is true: a turn that was cancelled.
    _stop: Callable[[], bool] | None = None

    def __init__(self, link: Link[Any], connection: AgentConnection, handle: object) -> None:
        assert isinstance(handle, ServedSession)
        self.link = link
        self.connection = connection
        self.handle = handle

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r})"

    @property
    def session_id(self) -> str:
        """The id that this agent gave it."""
        return self.handle.session_id or ""

    @property
    def cwd(self) -> str:
        """The absolute working directory that the client gave."""
        return self.handle.cwd

    @property
    def peer_capabilities(self) -> JsonObject:
        """What the client advertised, as it stood on the wire."""
        return self.connection.peer_capabilities

    async def _say(
        self,
        kind: str,
        message_id: str | None,
        delta: str | None,
        offset: int | None = None,
        snapshot: str | None = None,
    ) -> str:
        await self.link.pace(self._stop)
        done: str = self.link.call(
            self.connection.update_text, self.handle, kind, message_id, delta=delta, offset=offset, snapshot=snapshot
        )
        return done

    def _about(self, wire: str, params: JsonObject | None) -> ServedSession | None:
        """The session that a message names. The completion of an elicitation names none, and an elicitation is about
        a session or about a request."""
        row = self.connection.methods.find(wire)
        if row is None or row.session:
            return self.handle
        return self.handle if row.key == ELICITATION and "requestId" not in (params or {}) else None


class AgentSessionCalls(AgentSessionFront):
    """What an agent's method says and asks, waiting while the client reads too slowly (more than 1 MiB is unsent)."""

    async def send(self: AgentSessionFront, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the agent's message. Waits while more than 1 MiB is unsent.

        Raises:
            TypeError, LocalProtocolError: see ``AgentConnection.update_text``.
            ConnectionClosed: the client has gone.
        """
        await self._say("message", message_id, text)

    async def think(self: AgentSessionFront, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the agent's reasoning. Waits and raises as ``send``."""
        await self._say("thought", message_id, text)

    async def echo(self: AgentSessionFront, text: str, *, message_id: str | None = None) -> None:
        """Send a piece of the user's message, as a history has it. Waits and raises as ``send``."""
        await self._say("user", message_id, text)

    async def update_text(
        self: AgentSessionFront,
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
        return await self._say(kind, message_id, delta, offset, snapshot)

    async def update(self: AgentSessionFront, update: Mapping[str, object]) -> None:
        """Send any update: an object with ``sessionUpdate``, as on the wire. Waits and raises as ``send``."""
        await self.link.pace(self._stop)
        self.link.call(self.connection.update, self.handle, as_dict(update))

    async def ask_permission(
        self: AgentSessionFront,
        tool_call: Mapping[str, object],
        options: Sequence[Mapping[str, object]],
        *,
        deadline: float | None = None,
    ) -> str | None:
        """Ask the client whether a tool call may run, and wait, at most ``deadline`` seconds. See
        ``AgentConnection.ask_permission``.

        Returns: the id of the chosen option, None for cancelled.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: there is no answer; do not run it.
        """
        offers = [as_dict(option) for option in options]
        intent = partial(self.connection.ask_permission, self.handle, as_dict(tool_call), offers, deadline=deadline)
        # A cancelled turn does not wait for a client that forgets to answer.
        return chosen_option(await self.link.ask(intent, self._stop))

    @overload
    async def request(
        self: AgentSessionFront, method: Request[R], params: None = None, *, deadline: float | None = None
    ) -> R: ...
    @overload
    async def request(
        self: AgentSessionFront, method: str, params: Params = None, *, deadline: float | None = None
    ) -> object: ...
    async def request(
        self: AgentSessionFront,
        method: str | Request[object],
        params: Params = None,
        *,
        deadline: float | None = None,
    ) -> object:
        """Ask the client something else about this session, and wait for the result, at most ``deadline`` seconds.

        ``method`` is a wire name, or a typed request of ``acp_core.schema``. The id of the session is added, except to
        an elicitation that has a ``requestId``.

        Raises:
            TypeError, LocalProtocolError: see ``Connection.request``.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: there is no result.
        """
        wire, body = wire_message(self.connection.methods, method, params)
        about = self._about(wire, body)
        return await self.link.ask(partial(self.connection.request, wire, body, session=about, deadline=deadline))

    @overload
    async def notify(self: AgentSessionFront, method: Notification) -> None: ...
    @overload
    async def notify(self: AgentSessionFront, method: str, params: Params = None) -> None: ...
    async def notify(self: AgentSessionFront, method: str | Notification, params: Params = None) -> None:
        """Send the client a notification: that an elicitation by URL is complete, or an extension, to which the id of
        the session is added. ``method`` is as in ``request``. Waits as ``send``.

        Raises:
            TypeError, LocalProtocolError: see ``AgentConnection.notify``.
            ConnectionClosed: the client has gone.
        """
        await self.link.pace(self._stop)
        wire, body = wire_message(self.connection.methods, method, params)
        self.link.call(self.connection.notify, wire, body, session=self._about(wire, body))


class AgentTurnFront(AgentSessionFront, Generic[SessionT]):
    """One prompt to answer. ``event`` is the request, ``session`` its session, which outlives the turn. ``cancelled``
    says that the client has cancelled it, or has gone: stop, and return. ``cancelled`` is answered then."""

    def __init__(self, session: SessionT, event: PromptRequested) -> None:
        super().__init__(session.link, session.connection, session.handle)
        self.session = session
        self.event = event
        self.cancelled = False

    @property
    def text(self) -> str:
        """The text of the prompt."""
        return self.event.text

    @property
    def prompt(self) -> Sequence[Mapping[str, object]]:
        """The content blocks of the prompt, as on the wire."""
        return self.event.prompt

    def mark_cancelled(self) -> None:
        """For the desk: the client has cancelled it, or has gone."""
        self.cancelled = True


# ── What the client asks ────────────────────────────────────────────────────────────────────────────────────────────


class AgentDesk(Generic[SessionT]):
    """Gives each request to the agent's method.

    Args:
        link: runs the connection.
        connection: see ``agent_connection``.
        agent: an object with the methods it serves.
        session, turn: the binding's classes.
        new_id: makes the id of a session whose agent gave none.
    """

    def __init__(
        self,
        link: Link[Any],
        connection: AgentConnection,
        agent: object,
        *,
        session: Callable[[Link[Any], AgentConnection, object], SessionT],
        turn: Callable[[SessionT, PromptRequested], AgentTurnFront[SessionT]],
        new_id: Callable[[], str],
    ) -> None:
        self._link = link
        self._connection = connection
        self._agent = agent
        self._session = session
        self._turn = turn
        self._new_id = new_id
        self._turns: dict[str, AgentTurnFront[SessionT]] = {}

    def act(self, event: Event) -> bool:
        """Take a request or a cancel; see ``Link``. One that nobody serves is answered here, and reported."""
        if isinstance(event, RequestReceived):
            return self._serve(event)
        if isinstance(event, (TurnCancelReceived, CancelRequested, RequestAbandoned)):
            self._cancel(event.request_id or "")
        elif isinstance(event, ConnectionOver):
            for request_id in [*self._turns]:
                self._cancel(request_id)
        return False

    def _serve(self, event: RequestReceived) -> bool:
        method = method_for(self._agent, event.key)
        if method is None and event.key == "session_new":
            method = no_opinion
        if method is None:
            error = not_served(event.method)
            attempt(self._connection.respond_error, event.request_id, error.code, error.message, error.data)
            return False
        if isinstance(event, PromptRequested):
            turn = self._turn(self._session(self._link, self._connection, event.session), event)
            self._turns[event.request_id] = turn
            over = partial(self._turns.pop, event.request_id, None)
            self._link.spawn(event, partial(method, turn), partial(self._end_turn, turn), over)
            return True
        reopens = event.key in REOPENS
        rest = (self._session(self._link, self._connection, event.session),) if reopens else ()
        self._link.spawn(event, partial(method, event, *rest), partial(self._answer, event))
        return True

    def _cancel(self, request_id: str) -> None:
        turn = self._turns.get(request_id)
        if turn is None or turn.cancelled:
            return
        turn.mark_cancelled()
        notice = method_for(self._agent, "cancel")
        if notice is not None:
            self._link.tell(turn.event, partial(notice, turn))

    def _end_turn(self, turn: AgentTurnFront[SessionT], stop_reason: object) -> None:
        if stop_reason is not None and not isinstance(stop_reason, str):
            raise TypeError(f"prompt() gave {type(stop_reason).__name__}, not a stop reason or None")
        reason = "cancelled" if turn.cancelled else stop_reason or "end_turn"
        self._connection.end_turn(turn.event.request_id, reason)

    def _answer(self, event: RequestReceived, result: object) -> None:
        self._connection.respond(event.request_id, answer_of(event, result, self._new_id))
        notice = method_for(self._agent, "opened") if event.key in OPENS else None
        if notice is not None:
            # The answer is queued: what is said now stands behind it.
            session = self._session(self._link, self._connection, event.session)
            self._link.tell(event, partial(notice, session), lasts=True)


def no_opinion(request: RequestReceived) -> None:
    """A new session of an agent that does not define ``new_session``."""
