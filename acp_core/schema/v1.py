"""Messages of protocol version 1, stable part.

A builder per method: it returns a `Request` that knows the type of its result, or a `Notification`, and checks nothing.
`read` and `read_result` are those of `acp_core.schema.validation`, typed by method. The TypedDicts are re-exported.

Generated: change the generator, not this file (`python -m tests.tools.generate_schema`).
"""

from __future__ import annotations

from acp_core.schema import Notification, Request, validation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias, TypeVar, overload

    from acp_core.schema.v1_types import (
        AgentAuthCapabilities,
        AgentCapabilities,
        Annotations,
        AuthCapabilities,
        AuthenticateRequest,
        AuthenticateResponse,
        AuthMethod,
        AuthMethodAgent,
        AuthMethodTerminal,
        AvailableCommand,
        BlobResourceContents,
        BooleanConfigOptionCapabilities,
        CancelNotification,
        CancelRequestNotification,
        ClientCapabilities,
        ClientSessionCapabilities,
        CloseSessionRequest,
        CloseSessionResponse,
        CompleteElicitationNotification,
        ContentBlock,
        ContentBlockAudio,
        ContentBlockImage,
        ContentBlockResource,
        ContentBlockResourceLink,
        ContentBlockText,
        Cost,
        CreateElicitationRequest,
        CreateElicitationRequestFormRequest,
        CreateElicitationRequestFormSession,
        CreateElicitationRequestUrlRequest,
        CreateElicitationRequestUrlSession,
        CreateElicitationResponse,
        CreateElicitationResponseAccept,
        CreateElicitationResponseCancel,
        CreateElicitationResponseDecline,
        CreateTerminalRequest,
        CreateTerminalResponse,
        DeleteSessionRequest,
        DeleteSessionResponse,
        ElicitationCapabilities,
        ElicitationContentValue,
        ElicitationFormCapabilities,
        ElicitationPropertySchema,
        ElicitationPropertySchemaArray,
        ElicitationPropertySchemaBoolean,
        ElicitationPropertySchemaInteger,
        ElicitationPropertySchemaNumber,
        ElicitationPropertySchemaString,
        ElicitationSchema,
        ElicitationSchemaType,
        ElicitationUrlCapabilities,
        EmbeddedResourceResource,
        EnumOption,
        EnvVariable,
        Error,
        ErrorCode,
        FileSystemCapabilities,
        HttpHeader,
        Implementation,
        InitializeRequest,
        InitializeResponse,
        KillTerminalRequest,
        KillTerminalResponse,
        ListSessionsRequest,
        ListSessionsResponse,
        LoadSessionRequest,
        LoadSessionResponse,
        LogoutCapabilities,
        LogoutRequest,
        LogoutResponse,
        McpCapabilities,
        McpServer,
        McpServerHttp,
        McpServerSse,
        McpServerStdio,
        MultiSelectItems,
        MultiSelectItemsString,
        NewSessionRequest,
        NewSessionResponse,
        PermissionOption,
        PermissionOptionKind,
        PlanEntry,
        PlanEntryPriority,
        PlanEntryStatus,
        PromptCapabilities,
        PromptRequest,
        PromptResponse,
        ReadTextFileRequest,
        ReadTextFileResponse,
        ReleaseTerminalRequest,
        ReleaseTerminalResponse,
        RequestId,
        RequestPermissionOutcome,
        RequestPermissionOutcomeCancelled,
        RequestPermissionOutcomeSelected,
        RequestPermissionRequest,
        RequestPermissionResponse,
        ResumeSessionRequest,
        ResumeSessionResponse,
        Role,
        SessionAdditionalDirectoriesCapabilities,
        SessionCapabilities,
        SessionCloseCapabilities,
        SessionConfigOption,
        SessionConfigOptionBoolean,
        SessionConfigOptionCategory,
        SessionConfigOptionsCapabilities,
        SessionConfigOptionSelect,
        SessionConfigSelectGroup,
        SessionConfigSelectOption,
        SessionConfigSelectOptions,
        SessionDeleteCapabilities,
        SessionInfo,
        SessionListCapabilities,
        SessionMode,
        SessionModeState,
        SessionNotification,
        SessionResumeCapabilities,
        SessionUpdate,
        SessionUpdateAgentMessageChunk,
        SessionUpdateAgentThoughtChunk,
        SessionUpdateAvailableCommandsUpdate,
        SessionUpdateConfigOptionUpdate,
        SessionUpdateCurrentModeUpdate,
        SessionUpdatePlan,
        SessionUpdateSessionInfoUpdate,
        SessionUpdateToolCall,
        SessionUpdateToolCallUpdate,
        SessionUpdateUsageUpdate,
        SessionUpdateUserMessageChunk,
        SetSessionConfigOptionRequest,
        SetSessionConfigOptionRequestBoolean,
        SetSessionConfigOptionRequestValue,
        SetSessionConfigOptionResponse,
        SetSessionModeRequest,
        SetSessionModeResponse,
        StopReason,
        StringFormat,
        TerminalExitStatus,
        TerminalOutputRequest,
        TerminalOutputResponse,
        TextResourceContents,
        TitledMultiSelectItems,
        ToolCallContent,
        ToolCallContentContent,
        ToolCallContentDiff,
        ToolCallContentTerminal,
        ToolCallLocation,
        ToolCallStatus,
        ToolCallUpdate,
        ToolKind,
        UnstructuredCommandInput,
        WaitForTerminalExitRequest,
        WaitForTerminalExitResponse,
        WriteTextFileRequest,
        WriteTextFileResponse,
    )
    from acp_core.schema.validation import Skipped

    ViewT = TypeVar("ViewT")
    View: TypeAlias = tuple[ViewT | None, tuple[Skipped, ...]]

__all__ = [
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "Annotations",
    "AuthCapabilities",
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodTerminal",
    "AuthenticateRequest",
    "AuthenticateResponse",
    "AvailableCommand",
    "BlobResourceContents",
    "BooleanConfigOptionCapabilities",
    "CancelNotification",
    "CancelRequestNotification",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CloseSessionRequest",
    "CloseSessionResponse",
    "CompleteElicitationNotification",
    "ContentBlock",
    "ContentBlockAudio",
    "ContentBlockImage",
    "ContentBlockResource",
    "ContentBlockResourceLink",
    "ContentBlockText",
    "Cost",
    "CreateElicitationRequest",
    "CreateElicitationRequestFormRequest",
    "CreateElicitationRequestFormSession",
    "CreateElicitationRequestUrlRequest",
    "CreateElicitationRequestUrlSession",
    "CreateElicitationResponse",
    "CreateElicitationResponseAccept",
    "CreateElicitationResponseCancel",
    "CreateElicitationResponseDecline",
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "DeleteSessionRequest",
    "DeleteSessionResponse",
    "ElicitationCapabilities",
    "ElicitationContentValue",
    "ElicitationFormCapabilities",
    "ElicitationPropertySchema",
    "ElicitationPropertySchemaArray",
    "ElicitationPropertySchemaBoolean",
    "ElicitationPropertySchemaInteger",
    "ElicitationPropertySchemaNumber",
    "ElicitationPropertySchemaString",
    "ElicitationSchema",
    "ElicitationSchemaType",
    "ElicitationUrlCapabilities",
    "EmbeddedResourceResource",
    "EnumOption",
    "EnvVariable",
    "Error",
    "ErrorCode",
    "FileSystemCapabilities",
    "HttpHeader",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "KillTerminalRequest",
    "KillTerminalResponse",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "LogoutCapabilities",
    "LogoutRequest",
    "LogoutResponse",
    "McpCapabilities",
    "McpServer",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
    "MultiSelectItems",
    "MultiSelectItemsString",
    "NewSessionRequest",
    "NewSessionResponse",
    "PermissionOption",
    "PermissionOptionKind",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
    "PromptCapabilities",
    "PromptRequest",
    "PromptResponse",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "ReleaseTerminalRequest",
    "ReleaseTerminalResponse",
    "RequestId",
    "RequestPermissionOutcome",
    "RequestPermissionOutcomeCancelled",
    "RequestPermissionOutcomeSelected",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "ResumeSessionRequest",
    "ResumeSessionResponse",
    "Role",
    "SessionAdditionalDirectoriesCapabilities",
    "SessionCapabilities",
    "SessionCloseCapabilities",
    "SessionConfigOption",
    "SessionConfigOptionBoolean",
    "SessionConfigOptionCategory",
    "SessionConfigOptionSelect",
    "SessionConfigOptionsCapabilities",
    "SessionConfigSelectGroup",
    "SessionConfigSelectOption",
    "SessionConfigSelectOptions",
    "SessionDeleteCapabilities",
    "SessionInfo",
    "SessionListCapabilities",
    "SessionMode",
    "SessionModeState",
    "SessionNotification",
    "SessionResumeCapabilities",
    "SessionUpdate",
    "SessionUpdateAgentMessageChunk",
    "SessionUpdateAgentThoughtChunk",
    "SessionUpdateAvailableCommandsUpdate",
    "SessionUpdateConfigOptionUpdate",
    "SessionUpdateCurrentModeUpdate",
    "SessionUpdatePlan",
    "SessionUpdateSessionInfoUpdate",
    "SessionUpdateToolCall",
    "SessionUpdateToolCallUpdate",
    "SessionUpdateUsageUpdate",
    "SessionUpdateUserMessageChunk",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionRequestBoolean",
    "SetSessionConfigOptionRequestValue",
    "SetSessionConfigOptionResponse",
    "SetSessionModeRequest",
    "SetSessionModeResponse",
    "StopReason",
    "StringFormat",
    "TerminalExitStatus",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "TextResourceContents",
    "TitledMultiSelectItems",
    "ToolCallContent",
    "ToolCallContentContent",
    "ToolCallContentDiff",
    "ToolCallContentTerminal",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
    "UnstructuredCommandInput",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
    "authenticate",
    "cancel_request",
    "elicitation_complete",
    "elicitation_create",
    "fs_read_text_file",
    "fs_write_text_file",
    "initialize",
    "logout",
    "read",
    "read_result",
    "session_cancel",
    "session_close",
    "session_delete",
    "session_list",
    "session_load",
    "session_new",
    "session_prompt",
    "session_request_permission",
    "session_resume",
    "session_set_config_option",
    "session_set_mode",
    "session_update",
    "terminal_create",
    "terminal_kill",
    "terminal_output",
    "terminal_release",
    "terminal_wait_for_exit",
]


def initialize(params: InitializeRequest) -> Request[InitializeResponse]:
    """Request `initialize`, handled by the agent (v1/initialization)."""
    return Request("initialize", "initialize", params)


def authenticate(params: AuthenticateRequest) -> Request[AuthenticateResponse]:
    """Request `authenticate`, handled by the agent (v1/authentication)."""
    return Request("authenticate", "authenticate", params)


def session_new(params: NewSessionRequest) -> Request[NewSessionResponse]:
    """Request `session/new`, handled by the agent (v1/session-setup)."""
    return Request("session/new", "session_new", params)


def session_load(params: LoadSessionRequest) -> Request[LoadSessionResponse]:
    """Request `session/load`, handled by the agent (v1/session-setup)."""
    return Request("session/load", "session_load", params)


def session_set_mode(params: SetSessionModeRequest) -> Request[SetSessionModeResponse]:
    """Request `session/set_mode`, handled by the agent (v1/session-modes)."""
    return Request("session/set_mode", "session_set_mode", params)


def session_set_config_option(params: SetSessionConfigOptionRequest) -> Request[SetSessionConfigOptionResponse]:
    """Request `session/set_config_option`, handled by the agent (v1/session-config-options)."""
    return Request("session/set_config_option", "session_set_config_option", params)


def session_prompt(params: PromptRequest) -> Request[PromptResponse]:
    """Request `session/prompt`, handled by the agent (v1/prompt-turn)."""
    return Request("session/prompt", "session_prompt", params)


def session_cancel(params: CancelNotification) -> Notification:
    """Notification `session/cancel`, handled by the agent (v1/prompt-turn)."""
    return Notification("session/cancel", "session_cancel", params)


def session_list(params: ListSessionsRequest | None = None) -> Request[ListSessionsResponse]:
    """Request `session/list`, handled by the agent (v1/session-list)."""
    return Request("session/list", "session_list", {} if params is None else params)


def session_delete(params: DeleteSessionRequest) -> Request[DeleteSessionResponse]:
    """Request `session/delete`, handled by the agent (v1/session-delete)."""
    return Request("session/delete", "session_delete", params)


def session_resume(params: ResumeSessionRequest) -> Request[ResumeSessionResponse]:
    """Request `session/resume`, handled by the agent (v1/session-setup)."""
    return Request("session/resume", "session_resume", params)


def session_close(params: CloseSessionRequest) -> Request[CloseSessionResponse]:
    """Request `session/close`, handled by the agent (v1/session-setup)."""
    return Request("session/close", "session_close", params)


def logout(params: LogoutRequest | None = None) -> Request[LogoutResponse]:
    """Request `logout`, handled by the agent (v1/authentication)."""
    return Request("logout", "logout", {} if params is None else params)


def session_request_permission(params: RequestPermissionRequest) -> Request[RequestPermissionResponse]:
    """Request `session/request_permission`, handled by the client (v1/tool-calls)."""
    return Request("session/request_permission", "session_request_permission", params)


def session_update(params: SessionNotification) -> Notification:
    """Notification `session/update`, handled by the client (v1/prompt-turn)."""
    return Notification("session/update", "session_update", params)


def fs_write_text_file(params: WriteTextFileRequest) -> Request[WriteTextFileResponse]:
    """Request `fs/write_text_file`, handled by the client (v1/file-system)."""
    return Request("fs/write_text_file", "fs_write_text_file", params)


def fs_read_text_file(params: ReadTextFileRequest) -> Request[ReadTextFileResponse]:
    """Request `fs/read_text_file`, handled by the client (v1/file-system)."""
    return Request("fs/read_text_file", "fs_read_text_file", params)


def terminal_create(params: CreateTerminalRequest) -> Request[CreateTerminalResponse]:
    """Request `terminal/create`, handled by the client (v1/terminals)."""
    return Request("terminal/create", "terminal_create", params)


def terminal_output(params: TerminalOutputRequest) -> Request[TerminalOutputResponse]:
    """Request `terminal/output`, handled by the client (v1/terminals)."""
    return Request("terminal/output", "terminal_output", params)


def terminal_release(params: ReleaseTerminalRequest) -> Request[ReleaseTerminalResponse]:
    """Request `terminal/release`, handled by the client (v1/terminals)."""
    return Request("terminal/release", "terminal_release", params)


def terminal_wait_for_exit(params: WaitForTerminalExitRequest) -> Request[WaitForTerminalExitResponse]:
    """Request `terminal/wait_for_exit`, handled by the client (v1/terminals)."""
    return Request("terminal/wait_for_exit", "terminal_wait_for_exit", params)


def terminal_kill(params: KillTerminalRequest) -> Request[KillTerminalResponse]:
    """Request `terminal/kill`, handled by the client (v1/terminals)."""
    return Request("terminal/kill", "terminal_kill", params)


def elicitation_create(params: CreateElicitationRequest) -> Request[CreateElicitationResponse]:
    """Request `elicitation/create`, handled by the client (v1/elicitation)."""
    return Request("elicitation/create", "elicitation_create", params)


def elicitation_complete(params: CompleteElicitationNotification) -> Notification:
    """Notification `elicitation/complete`, handled by the client (v1/elicitation)."""
    return Notification("elicitation/complete", "elicitation_complete", params)


def cancel_request(params: CancelRequestNotification) -> Notification:
    """Notification `$/cancel_request`, either direction (v1/cancellation)."""
    return Notification("$/cancel_request", "cancel_request", params)


if TYPE_CHECKING:
    @overload
    def read(key: Literal["initialize"], value: object) -> View[InitializeRequest]: ...
    @overload
    def read(key: Literal["authenticate"], value: object) -> View[AuthenticateRequest]: ...
    @overload
    def read(key: Literal["session_new", "session/new"], value: object) -> View[NewSessionRequest]: ...
    @overload
    def read(key: Literal["session_load", "session/load"], value: object) -> View[LoadSessionRequest]: ...
    @overload
    def read(key: Literal["session_set_mode", "session/set_mode"], value: object) -> View[SetSessionModeRequest]: ...
    @overload
    def read(
        key: Literal["session_set_config_option", "session/set_config_option"], value: object
    ) -> View[SetSessionConfigOptionRequest]: ...
    @overload
    def read(key: Literal["session_prompt", "session/prompt"], value: object) -> View[PromptRequest]: ...
    @overload
    def read(key: Literal["session_cancel", "session/cancel"], value: object) -> View[CancelNotification]: ...
    @overload
    def read(key: Literal["session_list", "session/list"], value: object) -> View[ListSessionsRequest]: ...
    @overload
    def read(key: Literal["session_delete", "session/delete"], value: object) -> View[DeleteSessionRequest]: ...
    @overload
    def read(key: Literal["session_resume", "session/resume"], value: object) -> View[ResumeSessionRequest]: ...
    @overload
    def read(key: Literal["session_close", "session/close"], value: object) -> View[CloseSessionRequest]: ...
    @overload
    def read(key: Literal["logout"], value: object) -> View[LogoutRequest]: ...
    @overload
    def read(
        key: Literal["session_request_permission", "session/request_permission"], value: object
    ) -> View[RequestPermissionRequest]: ...
    @overload
    def read(key: Literal["session_update", "session/update"], value: object) -> View[SessionNotification]: ...
    @overload
    def read(key: Literal["fs_write_text_file", "fs/write_text_file"], value: object) -> View[WriteTextFileRequest]: ...
    @overload
    def read(key: Literal["fs_read_text_file", "fs/read_text_file"], value: object) -> View[ReadTextFileRequest]: ...
    @overload
    def read(key: Literal["terminal_create", "terminal/create"], value: object) -> View[CreateTerminalRequest]: ...
    @overload
    def read(key: Literal["terminal_output", "terminal/output"], value: object) -> View[TerminalOutputRequest]: ...
    @overload
    def read(key: Literal["terminal_release", "terminal/release"], value: object) -> View[ReleaseTerminalRequest]: ...
    @overload
    def read(
        key: Literal["terminal_wait_for_exit", "terminal/wait_for_exit"], value: object
    ) -> View[WaitForTerminalExitRequest]: ...
    @overload
    def read(key: Literal["terminal_kill", "terminal/kill"], value: object) -> View[KillTerminalRequest]: ...
    @overload
    def read(
        key: Literal["elicitation_create", "elicitation/create"], value: object
    ) -> View[CreateElicitationRequest]: ...
    @overload
    def read(
        key: Literal["elicitation_complete", "elicitation/complete"], value: object
    ) -> View[CompleteElicitationNotification]: ...
    @overload
    def read(key: Literal["cancel_request", "$/cancel_request"], value: object) -> View[CancelRequestNotification]: ...
    def read(key: str, value: object) -> tuple[object, tuple[Skipped, ...]]:
        # For type checkers; what runs is the function below.
        raise NotImplementedError

    @overload
    def read_result(key: Literal["initialize"], value: object) -> View[InitializeResponse]: ...
    @overload
    def read_result(key: Literal["authenticate"], value: object) -> View[AuthenticateResponse]: ...
    @overload
    def read_result(key: Literal["session_new", "session/new"], value: object) -> View[NewSessionResponse]: ...
    @overload
    def read_result(key: Literal["session_load", "session/load"], value: object) -> View[LoadSessionResponse]: ...
    @overload
    def read_result(
        key: Literal["session_set_mode", "session/set_mode"], value: object
    ) -> View[SetSessionModeResponse]: ...
    @overload
    def read_result(
        key: Literal["session_set_config_option", "session/set_config_option"], value: object
    ) -> View[SetSessionConfigOptionResponse]: ...
    @overload
    def read_result(key: Literal["session_prompt", "session/prompt"], value: object) -> View[PromptResponse]: ...
    @overload
    def read_result(key: Literal["session_list", "session/list"], value: object) -> View[ListSessionsResponse]: ...
    @overload
    def read_result(key: Literal["session_delete", "session/delete"], value: object) -> View[DeleteSessionResponse]: ...
    @overload
    def read_result(key: Literal["session_resume", "session/resume"], value: object) -> View[ResumeSessionResponse]: ...
    @overload
    def read_result(key: Literal["session_close", "session/close"], value: object) -> View[CloseSessionResponse]: ...
    @overload
    def read_result(key: Literal["logout"], value: object) -> View[LogoutResponse]: ...
    @overload
    def read_result(
        key: Literal["session_request_permission", "session/request_permission"], value: object
    ) -> View[RequestPermissionResponse]: ...
    @overload
    def read_result(
        key: Literal["fs_write_text_file", "fs/write_text_file"], value: object
    ) -> View[WriteTextFileResponse]: ...
    @overload
    def read_result(
        key: Literal["fs_read_text_file", "fs/read_text_file"], value: object
    ) -> View[ReadTextFileResponse]: ...
    @overload
    def read_result(
        key: Literal["terminal_create", "terminal/create"], value: object
    ) -> View[CreateTerminalResponse]: ...
    @overload
    def read_result(
        key: Literal["terminal_output", "terminal/output"], value: object
    ) -> View[TerminalOutputResponse]: ...
    @overload
    def read_result(
        key: Literal["terminal_release", "terminal/release"], value: object
    ) -> View[ReleaseTerminalResponse]: ...
    @overload
    def read_result(
        key: Literal["terminal_wait_for_exit", "terminal/wait_for_exit"], value: object
    ) -> View[WaitForTerminalExitResponse]: ...
    @overload
    def read_result(key: Literal["terminal_kill", "terminal/kill"], value: object) -> View[KillTerminalResponse]: ...
    @overload
    def read_result(
        key: Literal["elicitation_create", "elicitation/create"], value: object
    ) -> View[CreateElicitationResponse]: ...
    def read_result(key: str, value: object) -> tuple[object, tuple[Skipped, ...]]:
        # For type checkers; what runs is the function below.
        raise NotImplementedError
else:
    read = validation.read
    read_result = validation.read_result

    def __getattr__(name):
        # The classes need `typing`, which costs more than all the rest here, so they are made when somebody asks.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from acp_core.schema import v1_types

        globals().update((key, getattr(v1_types, key)) for key in v1_types.__all__)
        return globals()[name]

    def __dir__():
        return __all__
