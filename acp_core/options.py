"""Keyword arguments that bindings pass through, each list of them once. For type checkers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Generic, Literal, Protocol, Required, TypeAlias, TypedDict, TypeVar

    from .closing import Grace
    from .events import (
        CreateTerminalRequested,
        Event,
        KillTerminalRequested,
        ReadTextFileRequested,
        ReleaseTerminalRequested,
        RequestReceived,
        TerminalOutputRequested,
        WaitForTerminalExitRequested,
        WriteTextFileRequested,
    )
    from .limits import Limits
    from .methods import MethodTable

    # Words that an argument may be. A misspelt one is a type error, and refused when it is given.
    ReplayChoice: TypeAlias = Literal["discard", "report"]
    OnIdle: TypeAlias = Literal["report", "cancel"]
    CancelThen: TypeAlias = Literal["report", "close_session", "close"]
    StepNeeds: TypeAlias = Literal["settled", "success"]
    ElicitationMode: TypeAlias = Literal["form", "url"]
    Verdict: TypeAlias = Literal["allow", "ask", "deny"]

    Result = TypeVar("Result")

    class Handlers(TypedDict, Generic[Result], total=False):
        """What serves the requests of the method table, each with its own event. Handlers of extensions, and those of
        any request, are a mapping of names to functions of a RequestReceived."""

        fs_read_text_file: Callable[[ReadTextFileRequested], Result]
        fs_write_text_file: Callable[[WriteTextFileRequested], Result]
        terminal_create: Callable[[CreateTerminalRequested], Result]
        terminal_output: Callable[[TerminalOutputRequested], Result]
        terminal_wait_for_exit: Callable[[WaitForTerminalExitRequested], Result]
        terminal_kill: Callable[[KillTerminalRequested], Result]
        terminal_release: Callable[[ReleaseTerminalRequested], Result]

    class Workspace(Protocol):
        """What serves files and terminals of this machine, for one connection. Its functions block."""

        @property
        def handlers(self) -> Mapping[str, Callable[[RequestReceived], Mapping[str, object]]]: ...
        def close(self) -> None: ...
        def join(self) -> None: ...

    class ConnectionOptions(TypedDict, total=False):
        """What ``Connection`` takes besides its role."""

        nonce: Required[str]
        limits: Limits | None
        methods: MethodTable
        extensions: Iterable[str]
        tail: bool
        codec: Callable[[str], object] | None

    class HandshakeOptions(ConnectionOptions, total=False):
        """What ``OpeningClient`` takes."""

        capabilities: Mapping[str, object] | None
        info: Mapping[str, object] | None

    class OpenOptions(TypedDict, total=False):
        """What ``ClientConnection.open_session`` takes besides the working directory and the token."""

        resume: str | None
        mcp_servers: Sequence[Mapping[str, object]]
        additional_directories: Sequence[str]
        auth: str | None
        model: str | None
        config: Mapping[str, str | bool] | None
        replay: ReplayChoice
        replay_quiet: float
        replay_max: float
        fresh_if_refused: bool
        step_deadline: float
        authenticate_deadline: float
        meta: Mapping[str, object] | None

    class PromptOptions(TypedDict, total=False):
        """What ``ClientConnection.prompt`` takes besides the session, the content and the token."""

        identity: str | None
        deadline: float | None
        idle_timeout: float | None
        pending_tool_grace: float
        on_idle: OnIdle
        meta: Mapping[str, object] | None

    class ConnectOptions(TypedDict, total=False):
        """What ``connect`` and ``open_agent`` of every binding take, besides the owner's code (permissions, handlers,
        elicitation, on_snapshot): what ``acp_core.front.client.ClientSetup`` takes."""

        capabilities: Mapping[str, object] | None
        info: Mapping[str, object] | None
        workspace: Workspace | None
        limits: Limits | None
        methods: MethodTable
        extensions: Iterable[str]
        codec: Callable[[str], object] | None
        on_event: Callable[[Event], None] | None
        close_grace: float | Grace | None
        pause_at: int
        full_at: int
        cycle_origins: Iterable[str]
        restore: Mapping[str, object] | None
        attach_deadline: float
        tail_quiet: float
        tail_max: float

    class AgentOptions(TypedDict, total=False):
        """What ``acp_core.front.agent.agent_connection`` takes besides the nonce and the agent."""

        limits: Limits | None
        methods: MethodTable
        extensions: Iterable[str]
        codec: Callable[[str], object] | None
        info: Mapping[str, object] | None
        capabilities: Mapping[str, object] | None
        auth_methods: Sequence[Mapping[str, object]] | None

    class ServeOptions(AgentOptions, total=False):
        """What ``serve`` of a binding takes besides the agent."""

        on_event: Callable[[Event], None] | None
        close_grace: float | Grace
