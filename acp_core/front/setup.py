"""A client before it has a transport: its arguments are checked, its connection is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from ..client import CYCLE_ORIGINS, ClientConnection
from ..closing import Grace
from ..elicitation import elicitation_capabilities
from ..errors import AgentNotStarted, check_duration, check_type, local
from ..events import ElicitationRequested, PermissionRequested, RequestReceived
from ..inbox import MIB, Inbox, TurnToken
from ..methods import AGENT, NOTIFICATION_KIND, V1, MethodTable
from ..permissions import Policy
from ..state import OVER
from . import as_it_is, check_listener, plain_dict
from .link import WaiterT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from ..events import Event
    from ..inbox import Channel
    from ..limits import Limits
    from ..options import ElicitationMode, Workspace
    from ..sessions import Session
    from . import P as Params
    from . import T
    from .link import Keep, Waiter

    class Blocking(Protocol):
        """Makes a function that blocks into one that a binding can run beside everything else."""

        def __call__(self, function: Callable[Params, T], /) -> Callable[Params, object]: ...


NameT = TypeVar("NameT", bound=str)

# The key of the one request that has an argument of its own besides permissions.
ELICITATION = "elicitation_create"


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
        check_listener(on_event)
        if on_snapshot is not None and not callable(on_snapshot):
            raise TypeError(f"on_snapshot must be callable or None, not {type(on_snapshot).__name__}")
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


def turn_token(inbox: Inbox, waiter: Waiter) -> TurnToken:
    """The token of a prompt, with a queue of its own."""
    token = TurnToken(inbox.channel(), waiter)
    token.channel.wake = waiter.notify
    return token
