"""The client's front: an agent that is connected, its sessions and their turns."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, TypeVar, overload

from acp_core import AgentMessageChunk, ConsumerTooSlow, Grace, RequestTimeout, SessionFailed, TurnEnded, TurnFailed
from acp_core.closing import AGENT as AGENT_STEP
from acp_core.errors import ACPError
from acp_core.front.client import (
    OPEN_OPTIONS,
    SETUP_OPTIONS,
    AgentFront,
    ClientSetup,
    SessionFront,
    TurnFront,
    check_options,
)
from acp_core.state import STEP_DONE

from .closing import Closer
from .connection import Driver, Waiter, print_failure
from .transport import adapt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self, TypeAlias, Unpack

    from acp_core import ClientConnection, Event, Policy
    from acp_core import Session as Handle
    from acp_core.inbox import Channel
    from acp_core.options import OpenOptions
    from acp_core.schema import Notification, Request

    from .options import Ask, ConnectOptions
    from .process import Process
    from .transport import Connectable

    Params: TypeAlias = Mapping[str, object] | None
    About: TypeAlias = "Session | str | None"

# Nobody waits for long when nobody has closed.
LEFT = Grace(exit=0.2, terminate=0.2, drain=0.2)
R = TypeVar("R")


class Turn(TurnFront[Waiter, "Session"]):
    """One prompt and what comes of it.

    Iterate it for every event of the turn, in order; the last one is TurnEnded. Leaving the loop early detaches: the
    turn runs on, what it still says is counted and discarded, and it holds up nobody. ``with turn:`` does the same at
    the end of the block. Iteration and ``result`` raise the error of a turn that failed: RequestError,
    RequestTimeout (no answer to a cancel), ConnectionClosed, AgentExited, RemoteProtocolError; and ConsumerTooSlow,
    after which both may be tried again. A turn that was cancelled in time is no failure: it ends with the stop reason
    ``"cancelled"``, also when its prompt had not left.
    """

    link: Driver

    def __iter__(self) -> Iterator[Event]:
        stays = False
        try:
            while True:
                event = self.link.wait(self.waiter.bell, self._next)
                if isinstance(event, TurnFailed):
                    self.link.fail(event.error)
                if isinstance(event, AgentMessageChunk):
                    self._keep(event)
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
        """Wait for the end of the turn. Unread events of it are discarded and counted: for the text, too, call ``text``
        first.

        A caller that is interrupted (KeyboardInterrupt) cancels the turn; the connection stays whole.
        """
        self.detach()
        try:
            event = self.link.answer(self.waiter)
        except ConsumerTooSlow:
            raise
        except BaseException:
            self._give_up()
            raise
        if isinstance(event, TurnFailed):
            self.link.fail(event.error)
        assert isinstance(event, TurnEnded)
        return event

    def text(self) -> str:
        """Wait for the end of the turn and give the text of the agent's message: all of it, with what a loop over the
        turn has read before, and the same again on another call. Interrupted as ``result`` is.

        Raises:
            LocalProtocolError: some of it was discarded, by ``result``, ``detach`` or a loop that was left early.
            As ``result``.
        """
        self._asked = True
        try:
            for _ in self:
                pass
            return self._text()
        except ACPError:
            raise
        except BaseException:
            self._give_up()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, tb: TracebackType | None) -> None:
        self.detach()

    def _next(self) -> Event | None:
        return self.channel.take() or (self.waiter.event if self.channel.ended else None)


class Session(SessionFront[Waiter, Turn]):
    """A session of the agent. ``handle`` is the core's: modes, options, commands, title, usage as the agent said.

    The connection lasts as long as anybody holds the agent, a session of it or a turn.
    """

    link: Driver

    def __init__(self, link: Driver, connection: ClientConnection, handle: Handle, lease: Lease) -> None:
        super().__init__(link, connection, handle)
        self._lease = lease

    def close(self, *, deadline: float = 10.0) -> None:
        """Close the session and wait for the agent's answer, at most ``deadline`` seconds.

        Raises:
            LocalProtocolError: the agent does not advertise it, or the session is not open.
            RequestError, RequestTimeout, ConnectionClosed: it was refused, or not answered.
        """
        self.link.ask(partial(self.connection.close_session, self.handle, deadline=deadline))

    def set_mode(self, mode_id: str, *, deadline: float | None = None) -> None:
        """Set the mode, one of ``handle.modes``, and wait for the answer. Raises as ``close``."""
        self.link.ask(partial(self.connection.set_mode, self.handle, mode_id, deadline=deadline))

    def set_config_option(self, config_id: str, value: str | bool, *, deadline: float | None = None) -> None:
        """Set an option, one of ``handle.config_options``, and wait for the answer. Raises as ``close``."""
        self.link.ask(partial(self.connection.set_config_option, self.handle, config_id, value, deadline=deadline))

    def events(self) -> Iterator[Event]:
        """What the agent says about the session between turns: how it was opened up to SessionReady, with a replay that
        was asked for or the count of one that was discarded before it; late updates; metadata.

        Blocks until there is something; ends with the session or the connection. Unread metadata is only kept in its
        latest state. For one reader at a time.
        """
        waiter = Waiter()
        channel = self.link.inbox.listen(self.handle)
        channel.wake = waiter.notify

        def ready() -> tuple[Event | None] | None:
            event = channel.take()
            return (event,) if event is not None or channel.ended else None

        while (event := self.link.wait(waiter.bell, ready, counts=False)[0]) is not None:
            yield event

    def _turn(self, prompt_id: int, channel: Channel, waiter: Waiter) -> Turn:
        return Turn(self, prompt_id, channel, waiter)


class Lease:
    """What an agent and its sessions hold: when the last of them is let go of, so is the connection."""


class Agent(AgentFront[Waiter, Session, Turn]):
    """One connected agent. Made by ``open_agent`` or ``connect``; ``with`` closes it at the end of the block. One that
    is not closed ends when it, its sessions and their turns are let go of.

    All methods may be called from any thread. ``connection`` is the core, for reading only.
    """

    link: Driver
    _closer: Closer

    def __init__(self, setup: ClientSetup[Waiter], transport: Connectable, process: Process | None):
        explain = process.explain if process is not None else None
        link = Driver(
            setup.connection,
            adapt(transport),
            setup.inbox,
            on_event=setup.on_event or print_failure,
            explain=explain,
            keep=setup.keep,
        )
        # No session holds the agent itself: it holds those that were restored, and a circle is noticed late.
        self._lease = Lease()
        super().__init__(setup, link, Closer(setup.connection, link, process, setup.grace), process)
        self._finalizer = weakref.finalize(self._lease, _left, link, process, os.getpid())
        link.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, tb: TracebackType | None) -> None:
        if why is None:
            self.close()
            return
        # Nothing waits for an answer any more, and what went wrong is not hidden by what else does.
        self.link.call(self.connection.abort, "its owner has left")
        try:
            self.close()
        except ExceptionGroup as also:
            why.add_note(f"{also.message}: {[*also.exceptions]}")

    def initialize(self, *, deadline: float | None = 60.0) -> None:
        """Do the handshake and wait for it, at most ``deadline`` seconds. ``open_session`` does it by itself.

        Raises:
            LocalProtocolError: it was done before.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: it failed.
        """
        try:
            self.link.ask(partial(self.connection.initialize, deadline=deadline))
        except RequestTimeout as why:
            raise self._no_agent(why) from why

    def authenticate(self, method_id: str, *, deadline: float | None = 300.0) -> None:
        """Log in by one of ``auth_methods`` and wait for the answer. Raises as ``initialize``."""
        self.link.ask(partial(self.connection.authenticate, method_id, deadline=deadline))

    def open_session(self, cwd: str | os.PathLike[str], **options: Unpack[OpenOptions]) -> Session:
        """Open a session and wait until it takes prompts. See ``ClientConnection.open_session`` for the arguments.

        Raises:
            TypeError, LocalProtocolError: an argument is wrong, or the agent cannot do what was asked for.
            RequestError, RequestTimeout, RemoteProtocolError, ConnectionClosed: a step was refused or not answered.
        """
        check_options("open_session", OPEN_OPTIONS, options)
        waiter = Waiter()
        handle = self.link.call(self._open, os.fspath(cwd), waiter, options)
        try:
            event = self.link.answer(waiter)
        except BaseException:
            # It opens without an owner: what it says is counted and keeps nobody from reading.
            self.link.leave(self.link.inbox.idle(handle))
            raise
        if isinstance(event, SessionFailed):
            # Nobody can read what was replayed of it.
            self.link.leave(self.link.inbox.idle(handle))
            self.link.fail(self._no_agent(event.error))
        return self._session(handle)

    @overload
    def request(
        self, method: Request[R], params: None = None, *, session: About = None, deadline: float | None = None
    ) -> R: ...
    @overload
    def request(
        self, method: str, params: Params = None, *, session: About = None, deadline: float | None = None
    ) -> object: ...
    def request(
        self,
        method: str | Request[object],
        params: Params = None,
        *,
        session: About = None,
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
        return self.link.ask(self._request(method, params, session, deadline))

    @overload
    def notify(self, method: Notification) -> None: ...
    @overload
    def notify(self, method: str, params: Params = None, *, session: About = None) -> None: ...
    def notify(self, method: str | Notification, params: Params = None, *, session: About = None) -> None:
        """Send a notification. Waits while the agent reads too slowly.

        Raises:
            TypeError, LocalProtocolError, ConnectionClosed: see ``Connection.notify``.
        """
        self.link.pace(lambda: False)
        self._notify(method, params, session)

    def close(self, *, cancel: bool = True) -> None:
        """Take no new turn, cancel those in flight and wait for their results, settle everything, write what is left,
        end the agent's input, wait for its process, ask its group to terminate, kill it; then release what hangs on it.
        Every wait is one of ``close_grace``.

        ``cancel=False`` is for an owner who hands over to another one, on a transport that outlives this connection: no
        turn is cancelled and nothing that the agent has asked is answered, so that the turns run on. Take the
        ``snapshot`` before; see docs/closing.md.

        A second call joins the first, and one after a failure does what is left. An interrupted call
        (KeyboardInterrupt) kills the agent at once. Also done at the end of the block; if that is left by an
        exception, no turn is cancelled first.

        Raises:
            ExceptionGroup: what failed, in the order of the steps, each with its step's name as a note. If the only
                thing is that a turn did not end when it was cancelled, and the agent has ended, nothing is raised;
                ``closing.failures`` has it.
        """
        try:
            self._closer.close(cancel)
        finally:
            if self.closing.states[AGENT_STEP] == STEP_DONE:
                self._finalizer.detach()

    def _session(self, handle: Handle) -> Session:
        return Session(self.link, self.connection, handle, self._lease)


def connect(transport: Connectable, *, permissions: Policy | Ask, **options: Unpack[ConnectOptions]) -> Agent:
    """Talk to an agent over a transport that is there already. It is owned from now on.

    Args:
        transport: a socket, a pair (reader, writer) of binary files or descriptors, a ``Transport``, or a
            ``MessageTransport``. Files are read by their descriptor: nothing may be buffered. See docs/transports.md.
        permissions: a Policy, or a callable that gets a PermissionRequested and returns one of its options, an option
            id, or None for cancelled. It runs in a thread of its own. A policy that says ask denies.
        capabilities: the ``clientCapabilities``; without it they are derived from ``handlers``.
        info: name, title and version of this client.
        handlers: what serves the agent's requests: method-table key, or wire name of an extension (``_*`` is every
            other one), to a callable. Each call has a thread of its own. It returns the result, or raises RequestError;
            any other exception is answered -32603 and reported as HandlerFailed.
        elicitation: who asks the user for input: mode (``"form"``, ``"url"``) to a callable that gets the
            ElicitationRequested and returns what ``acp_core.elicitation_result`` takes. The modes are advertised.
        workspace: files and terminals of this machine to serve; for this connection only, whose end ends its commands.
        limits, methods, extensions, codec: as ``ClientConnection``.
        on_event: gets every event that nothing else uses, in order, in a thread of its own. Without it a HandlerFailed
            is printed to stderr.
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
    return Agent(client_setup("connect", permissions, **options), transport, None)


def client_setup(caller: str, permissions: Policy | Ask, **options: Unpack[ConnectOptions]) -> ClientSetup[Waiter]:
    """Check the arguments of ``connect``, before there is a transport. Raises as it does, in the name of ``caller``."""
    check_options(caller, SETUP_OPTIONS, options)
    return ClientSetup(Waiter, secrets.token_hex(8), permissions, **options)


def _left(driver: Driver, process: Process | None, owner: int) -> None:
    """The owner has let go of an agent without closing it, or the interpreter ends."""
    if os.getpid() != owner:
        return
    if driver.held:
        # Maybe collected in the middle of the core: this thread must not wait for itself. (At the end of the
        # interpreter no thread starts any more, and none that was started here holds it for long.)
        with contextlib.suppress(RuntimeError):
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
