"""The client's front: an agent that is connected, its sessions and their turns."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from typing import TYPE_CHECKING

from acp_core import Grace
from acp_core.front import client as front
from acp_core.front.setup import SETUP_OPTIONS, ClientSetup, check_options

from .closing import Closer
from .connection import Driver, Waiter, blocking, each, finish, print_failure
from .transport import adapt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self, Unpack

    from acp_core import ClientConnection, Event, Policy
    from acp_core import Session as Handle
    from acp_core.inbox import Channel

    from .options import Ask, ConnectOptions
    from .process import Process
    from .transport import Connectable

# Nobody waits for long when nobody has closed.
LEFT = Grace(exit=0.2, terminate=0.2, drain=0.2)


class Turn(front.TurnFront[Waiter, "Session"]):
    """One prompt and what comes of it.

    Iterate it for every event of the turn, in order; the last one is TurnEnded. Leaving the loop early detaches: the
    turn runs on, what it still says is counted and discarded, and it holds up nobody. ``with turn:`` does the same at
    the end of the block. Iteration and ``result`` raise the error of a turn that failed: RequestError,
    RequestTimeout (no answer to a cancel), ConnectionClosed, AgentExited, RemoteProtocolError; and ConsumerTooSlow,
    after which both may be tried again. A turn that was cancelled in time is no failure: it ends with the stop reason
    ``"cancelled"``, also when its prompt had not left.
    """

    result = blocking(front.TurnCalls.result)
    text = blocking(front.TurnCalls.text)

    def __iter__(self) -> Iterator[Event]:
        return each(front.TurnIterator(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, tb: TracebackType | None) -> None:
        self.detach()


class Session(front.SessionFront[Waiter, Turn]):
    """A session of the agent. ``handle`` is the core's: modes, options, commands, title, usage as the agent said.

    The connection lasts as long as anybody holds the agent, a session of it or a turn.
    """

    def __init__(self, link: Driver, connection: ClientConnection, handle: Handle, lease: Lease) -> None:
        super().__init__(link, connection, handle)
        self._lease = lease

    close = blocking(front.SessionCalls.close)
    set_mode = blocking(front.SessionCalls.set_mode)
    set_config_option = blocking(front.SessionCalls.set_config_option)

    def events(self) -> Iterator[Event]:
        """What the agent says about the session between turns: how it was opened up to SessionReady, with a replay that
        was asked for or the count of one that was discarded before it; late updates; metadata.

        Blocks until there is something; ends with the session or the connection. Unread metadata is only kept in its
        latest state. For one reader at a time.
        """
        return each(front.SessionIterator(self))

    def _turn(self, prompt_id: int, channel: Channel, waiter: Waiter) -> Turn:
        return Turn(self, prompt_id, channel, waiter)


class Lease:
    """What an agent and its sessions hold: when the last of them is let go of, so is the connection."""


class Agent(front.AgentFront[Waiter, Session, Turn]):
    """One connected agent. Made by ``open_agent`` or ``connect``; ``with`` closes it at the end of the block. One that
    is not closed ends when it, its sessions and their turns are let go of.

    All methods may be called from any thread. ``connection`` is the core, for reading only.
    """

    link: Driver

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
        link.run()

    initialize = blocking(front.AgentCalls.initialize)
    authenticate = blocking(front.AgentCalls.authenticate)
    open_session = blocking(front.AgentCalls.open_session)
    request = blocking(front.AgentCalls.request)
    notify = blocking(front.AgentCalls.notify)
    close = blocking(front.AgentCalls.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, tb: TracebackType | None) -> None:
        finish(front.AgentCalls._leave(self, why))

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
    driver.end("the owner let go of the agent without closing it")
    if process is not None:
        process.grace = LEFT
        with contextlib.suppress(TimeoutError):
            process.end()
    driver.stop()
