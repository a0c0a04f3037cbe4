"""The keyword arguments of the client's long intents, once, for bindings that pass them through. For type checkers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypedDict

    class OpenOptions(TypedDict, total=False):
        """What ``ClientConnection.open_session`` takes besides the working directory and the token."""

        resume: str | None
        mcp_servers: Sequence[Mapping[str, object]]
        additional_directories: Sequence[str]
        auth: str | None
        model: str | None
        config: Mapping[str, str | bool] | None
        replay: str
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
        on_idle: str
        meta: Mapping[str, object] | None
