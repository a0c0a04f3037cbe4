"""One session of a client: its handle, its turn, and what the agent said about it. Data; opening.py and client.py have
the rules."""

from __future__ import annotations

from .events import get_str
from .state import LIVE, QUEUED, SESSION, STARTING, WAITING, move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from .events import AvailableCommandsUpdate, ConfigOptionUpdate, CurrentModeUpdate, SessionInfoUpdate, UsageUpdate
    from .replay import Replay
    from .requests import OwnRequest
    from .timers import Timer

    JsonObject: TypeAlias = dict[str, object]
    WholeState: TypeAlias = (
        AvailableCommandsUpdate | ConfigOptionUpdate | CurrentModeUpdate | SessionInfoUpdate | UsageUpdate
    )


def is_model(option: JsonObject) -> bool:
    """Whether a configuration option is the one that selects the model. One of an unknown type is passed over."""
    if option.get("type", "select") != "select":
        return False
    return option.get("id") is not None and (option.get("category") == "model" or option["id"] == "model")


# What a tool call that still runs says of itself; every other word, a new one too, is its end.
UNFINISHED = ("pending", "in_progress")


class Watch:
    """How long a turn may be silent, in seconds, and what is known of its silence.

    ``since`` is when silence was last counted from, other than an update: the prompt's own bytes, an answer to the
    agent, or a time in which nothing was read. ``tools`` are the tool calls in progress, in their order.
    """

    __slots__ = ("cancels", "grace", "idle_timeout", "reported", "since", "timer", "tools")

    def __init__(self, idle_timeout: float, grace: float, cancels: bool) -> None:
        self.idle_timeout = idle_timeout
        self.grace = grace
        self.cancels = cancels
        self.since: float | None = None
        self.reported: float | None = None
        self.timer: Timer | None = None
        self.tools: dict[str, None] = {}

    @property
    def allowed(self) -> float:
        """How long silence may last now: longer while a tool call is in progress."""
        return max(self.idle_timeout, self.grace) if self.tools else self.idle_timeout

    def saw_tool(self, tool_id: str, status: str | None, announced: bool, limit: int) -> None:
        """A tool call was announced, or told something of itself. Past ``limit`` further ones are not looked after."""
        if status in UNFINISHED or (status is None and announced):
            if len(self.tools) < limit:
                self.tools[tool_id] = None
        elif status is not None:
            self.tools.pop(tool_id, None)


class Turn:
    """One prompt and what comes of it.

    ``prompt_id`` is its JSON-RPC id, ``identity`` the owner's name for it, ``token`` the caller's. ``updates`` counts
    the updates that came while it ran; ``last_at`` is when the last one came, in seconds. ``cancel_asked`` is None,
    ``"owner"``, ``"deadline"`` or ``"idle"``. ``watch`` looks after its silence, if it was asked for.
    """

    __slots__ = ("cancel_asked", "identity", "last_at", "prompt_id", "sent_at", "token", "updates", "watch")

    def __init__(self, prompt_id: int, identity: str | None, token: object, watch: Watch | None = None) -> None:
        self.prompt_id = prompt_id
        self.identity = identity
        self.token = token
        self.sent_at: float | None = None
        self.last_at: float | None = None
        self.updates = 0
        self.cancel_asked: str | None = None
        self.watch = watch

    def __repr__(self) -> str:
        return f"Turn(prompt_id={self.prompt_id}, identity={self.identity!r})"


class Plan:
    """How a session is to be opened: what ``open_session`` was given, and how far it has come."""

    __slots__ = (
        "auth",
        "auth_tried",
        "authenticate_deadline",
        "config",
        "cwd",
        "directories",
        "fresh_if_refused",
        "fresh_tried",
        "mcp_servers",
        "model",
        "opened_by",
        "replay",
        "resume",
        "setup",
        "step_deadline",
        "steps",
    )

    def __init__(
        self,
        *,
        cwd: str,
        resume: str | None,
        setup: str = "",
        mcp_servers: Sequence[JsonObject] = (),
        directories: bool = False,
        auth: str | None,
        model: str | None,
        config: Mapping[str, str | bool],
        replay: Replay,
        fresh_if_refused: bool,
        step_deadline: float,
        authenticate_deadline: float,
    ) -> None:
        self.cwd = cwd
        self.resume = resume
        # The params as JSON without their closing brace, and what in them depends on the agent's capabilities.
        self.setup = setup
        self.mcp_servers = mcp_servers
        self.directories = directories
        self.auth = auth
        self.auth_tried = False
        self.model = model
        self.config = dict(config)
        self.replay = replay
        self.fresh_if_refused = fresh_if_refused
        self.fresh_tried = False
        self.step_deadline = step_deadline
        self.authenticate_deadline = authenticate_deadline
        self.opened_by = ""
        # What is left to configure: pairs of option id and value; "" stands for the model.
        self.steps: list[tuple[str, str | bool]] = []

    @property
    def reopens(self) -> str | None:
        """The id that is still to be reopened; None for a new session, or when a fresh one was tried instead."""
        return None if self.fresh_tried else self.resume


class Session:
    """The handle of a session, given at once by ``open_session``; ``session_id`` is None until the agent names it.

    Read-only for its owner. ``modes``, ``config_options``, ``models``, ``available_commands``, ``title`` and ``usage``
    are the latest the agent said, as they stood on the wire.
    """

    __slots__ = (
        "__weakref__",
        "attached",
        "available_commands",
        "cancel_timer",
        "close_deadline",
        "config_options",
        "current_mode_id",
        "cwd",
        "fenced",
        "history_left",
        "in_tail",
        "live",
        "models",
        "modes",
        "opened_id",
        "owner",
        "plan",
        "prompt_request",
        "session_id",
        "state",
        "then",
        "title",
        "token",
        "tools",
        "turn",
        "usage",
    )

    def __init__(self, owner: object, plan: Plan, token: object) -> None:
        self.owner = owner
        self.plan = plan
        self.token = token
        self.cwd = plan.cwd
        self.session_id: str | None = None
        self.state = STARTING
        self.live = False
        self.in_tail = False
        self.attached = False
        # The request that loaded or resumed it, and how many updates behind its answer are still history: in a replayed
        # tail that is all that tells history from what was live.
        self.opened_id: int | None = None
        self.history_left = 0
        self.turn: Turn | None = None
        self.prompt_request: OwnRequest | None = None
        self.cancel_timer: Timer | None = None
        # What follows when a cancel is not answered, and how long a close of the session may then take.
        self.then = ""
        self.close_deadline = 10.0
        self.fenced: OwnRequest | None = None
        self.forget()

    def forget(self) -> None:
        """Nothing was said about the session yet; or what was said is of another one, which the agent has refused."""
        self.modes: JsonObject | None = None
        self.current_mode_id: str | None = None
        self.config_options: list[JsonObject] | None = None
        self.models: JsonObject | None = None
        # Title and kind of the latest tool calls, by id: a permission request may hold only the id.
        self.tools: dict[str, tuple[str | None, str | None]] = {}
        self.available_commands: list[JsonObject] = []
        self.title: str | None = None
        self.usage: JsonObject | None = None

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, {self.state})"

    @property
    def model(self) -> str | None:
        """The model that the agent last said is selected (client rule M4), or None when it never said."""
        for option in self.config_options or []:
            if is_model(option):
                return get_str(option, "currentValue")
        return get_str(self.models or {}, "currentModelId")

    @property
    def unsent(self) -> bool:
        """A prompt was given, and none of its bytes has been handed over."""
        request = self.prompt_request
        return request is not None and request.state in (WAITING, QUEUED)

    @property
    def waiting(self) -> OwnRequest | None:
        """The prompt that waits for the session to be ready."""
        request = self.prompt_request
        return request if request is not None and request.state == WAITING else None

    def leave_tail(self) -> None:
        """The replayed tail is over: updates are live from here on."""
        self.in_tail = False
        self.live = self.state in LIVE

    def move(self, event: str) -> None:
        """Walk the session table. ``live`` says for the hot path whether a transcript update is live."""
        self.state = move(SESSION, self.state, event)
        self.live = self.state in LIVE and not self.in_tail
