"""Messages of protocol version 1 with its draft features; importing this module is the switch.

A builder per method: it returns a `Request` that knows the type of its result, or a `Notification`, and checks nothing.
`read` and `read_result` are those of `acp_core.schema.validation`, typed by method. The TypedDicts are re-exported.

Generated: change the generator, not this file (`python -m tests.tools.generate_schema`).
"""

from __future__ import annotations

from acp_core.schema import Notification, Request, validation
from acp_core.schema.v1 import (
    authenticate,
    cancel_request,
    elicitation_complete,
    elicitation_create,
    fs_read_text_file,
    fs_write_text_file,
    logout,
    session_cancel,
    session_close,
    session_delete,
    session_list,
    session_set_config_option,
    session_set_mode,
    terminal_create,
    terminal_kill,
    terminal_output,
    terminal_release,
    terminal_wait_for_exit,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias, TypeVar, overload

    from acp_core.schema.v1_unstable_types import (
        AcceptNesNotification,
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
        ClientNesCapabilities,
        ClientSessionCapabilities,
        CloseNesRequest,
        CloseNesResponse,
        CloseSessionRequest,
        CloseSessionResponse,
        CompactionCapabilities,
        CompactionStatus,
        CompleteElicitationNotification,
        ConnectMcpRequest,
        ConnectMcpResponse,
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
        DidChangeDocumentNotification,
        DidCloseDocumentNotification,
        DidFocusDocumentNotification,
        DidOpenDocumentNotification,
        DidSaveDocumentNotification,
        DisableProviderRequest,
        DisableProviderResponse,
        DisconnectMcpRequest,
        DisconnectMcpResponse,
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
        ForkSessionRequest,
        ForkSessionResponse,
        HttpHeader,
        Implementation,
        InitializeRequest,
        InitializeResponse,
        KillTerminalRequest,
        KillTerminalResponse,
        ListProvidersRequest,
        ListProvidersResponse,
        ListSessionsRequest,
        ListSessionsResponse,
        LlmProtocol,
        LoadSessionRequest,
        LoadSessionResponse,
        LogoutCapabilities,
        LogoutRequest,
        LogoutResponse,
        McpCapabilities,
        McpServer,
        McpServerAcp,
        McpServerHttp,
        McpServerSse,
        McpServerStdio,
        MessageMcpRequest,
        MultiSelectItems,
        MultiSelectItemsString,
        NesCapabilities,
        NesContextCapabilities,
        NesDiagnostic,
        NesDiagnosticsCapabilities,
        NesDiagnosticSeverity,
        NesDocumentDidChangeCapabilities,
        NesDocumentDidCloseCapabilities,
        NesDocumentDidFocusCapabilities,
        NesDocumentDidOpenCapabilities,
        NesDocumentDidSaveCapabilities,
        NesDocumentEventCapabilities,
        NesEditHistoryCapabilities,
        NesEditHistoryEntry,
        NesEventCapabilities,
        NesExcerpt,
        NesJumpCapabilities,
        NesOpenFile,
        NesOpenFilesCapabilities,
        NesRecentFile,
        NesRecentFilesCapabilities,
        NesRejectReason,
        NesRelatedSnippet,
        NesRelatedSnippetsCapabilities,
        NesRenameCapabilities,
        NesRepository,
        NesSearchAndReplaceCapabilities,
        NesSuggestContext,
        NesSuggestion,
        NesSuggestionEdit,
        NesSuggestionJump,
        NesSuggestionRename,
        NesSuggestionSearchAndReplace,
        NesTextEdit,
        NesTriggerKind,
        NesUserAction,
        NesUserActionsCapabilities,
        NewSessionRequest,
        NewSessionResponse,
        NoticeSeverity,
        PermissionOption,
        PermissionOptionKind,
        PlanCapabilities,
        PlanEntry,
        PlanEntryPriority,
        PlanEntryStatus,
        PlanUpdateContent,
        PlanUpdateContentFile,
        PlanUpdateContentItems,
        PlanUpdateContentMarkdown,
        Position,
        PositionEncodingKind,
        PromptCapabilities,
        PromptRequest,
        PromptResponse,
        ProviderCurrentConfig,
        ProviderInfo,
        ProvidersCapabilities,
        Range,
        ReadTextFileRequest,
        ReadTextFileResponse,
        RejectNesNotification,
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
        SessionForkCapabilities,
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
        SessionUpdateCompactionSummaryChunk,
        SessionUpdateCompactionUpdate,
        SessionUpdateConfigOptionUpdate,
        SessionUpdateCurrentModeUpdate,
        SessionUpdateNotice,
        SessionUpdatePlan,
        SessionUpdatePlanRemoved,
        SessionUpdatePlanUpdate,
        SessionUpdateSessionInfoUpdate,
        SessionUpdateToolCall,
        SessionUpdateToolCallUpdate,
        SessionUpdateUsageUpdate,
        SessionUpdateUserMessageChunk,
        SetProviderRequest,
        SetProviderResponse,
        SetSessionConfigOptionRequest,
        SetSessionConfigOptionRequestBoolean,
        SetSessionConfigOptionRequestValue,
        SetSessionConfigOptionResponse,
        SetSessionModeRequest,
        SetSessionModeResponse,
        StartNesRequest,
        StartNesResponse,
        StopReason,
        StringFormat,
        SuggestNesRequest,
        SuggestNesResponse,
        TerminalExitStatus,
        TerminalOutputRequest,
        TerminalOutputResponse,
        TextDocumentContentChangeEvent,
        TextDocumentSyncKind,
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
        Usage,
        WaitForTerminalExitRequest,
        WaitForTerminalExitResponse,
        WorkspaceFolder,
        WriteTextFileRequest,
        WriteTextFileResponse,
    )
    from acp_core.schema.validation import Skipped

    ViewT = TypeVar("ViewT")
    View: TypeAlias = tuple[ViewT | None, tuple[Skipped, ...]]

__all__ = [
    "AcceptNesNotification",
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
    "ClientNesCapabilities",
    "ClientSessionCapabilities",
    "CloseNesRequest",
    "CloseNesResponse",
    "CloseSessionRequest",
    "CloseSessionResponse",
    "CompactionCapabilities",
    "CompactionStatus",
    "CompleteElicitationNotification",
    "ConnectMcpRequest",
    "ConnectMcpResponse",
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
    "DidChangeDocumentNotification",
    "DidCloseDocumentNotification",
    "DidFocusDocumentNotification",
    "DidOpenDocumentNotification",
    "DidSaveDocumentNotification",
    "DisableProviderRequest",
    "DisableProviderResponse",
    "DisconnectMcpRequest",
    "DisconnectMcpResponse",
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
    "ForkSessionRequest",
    "ForkSessionResponse",
    "HttpHeader",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "KillTerminalRequest",
    "KillTerminalResponse",
    "ListProvidersRequest",
    "ListProvidersResponse",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LlmProtocol",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "LogoutCapabilities",
    "LogoutRequest",
    "LogoutResponse",
    "McpCapabilities",
    "McpServer",
    "McpServerAcp",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
    "MessageMcpRequest",
    "MultiSelectItems",
    "MultiSelectItemsString",
    "NesCapabilities",
    "NesContextCapabilities",
    "NesDiagnostic",
    "NesDiagnosticSeverity",
    "NesDiagnosticsCapabilities",
    "NesDocumentDidChangeCapabilities",
    "NesDocumentDidCloseCapabilities",
    "NesDocumentDidFocusCapabilities",
    "NesDocumentDidOpenCapabilities",
    "NesDocumentDidSaveCapabilities",
    "NesDocumentEventCapabilities",
    "NesEditHistoryCapabilities",
    "NesEditHistoryEntry",
    "NesEventCapabilities",
    "NesExcerpt",
    "NesJumpCapabilities",
    "NesOpenFile",
    "NesOpenFilesCapabilities",
    "NesRecentFile",
    "NesRecentFilesCapabilities",
    "NesRejectReason",
    "NesRelatedSnippet",
    "NesRelatedSnippetsCapabilities",
    "NesRenameCapabilities",
    "NesRepository",
    "NesSearchAndReplaceCapabilities",
    "NesSuggestContext",
    "NesSuggestion",
    "NesSuggestionEdit",
    "NesSuggestionJump",
    "NesSuggestionRename",
    "NesSuggestionSearchAndReplace",
    "NesTextEdit",
    "NesTriggerKind",
    "NesUserAction",
    "NesUserActionsCapabilities",
    "NewSessionRequest",
    "NewSessionResponse",
    "NoticeSeverity",
    "PermissionOption",
    "PermissionOptionKind",
    "PlanCapabilities",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
    "PlanUpdateContent",
    "PlanUpdateContentFile",
    "PlanUpdateContentItems",
    "PlanUpdateContentMarkdown",
    "Position",
    "PositionEncodingKind",
    "PromptCapabilities",
    "PromptRequest",
    "PromptResponse",
    "ProviderCurrentConfig",
    "ProviderInfo",
    "ProvidersCapabilities",
    "Range",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "RejectNesNotification",
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
    "SessionForkCapabilities",
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
    "SessionUpdateCompactionSummaryChunk",
    "SessionUpdateCompactionUpdate",
    "SessionUpdateConfigOptionUpdate",
    "SessionUpdateCurrentModeUpdate",
    "SessionUpdateNotice",
    "SessionUpdatePlan",
    "SessionUpdatePlanRemoved",
    "SessionUpdatePlanUpdate",
    "SessionUpdateSessionInfoUpdate",
    "SessionUpdateToolCall",
    "SessionUpdateToolCallUpdate",
    "SessionUpdateUsageUpdate",
    "SessionUpdateUserMessageChunk",
    "SetProviderRequest",
    "SetProviderResponse",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionRequestBoolean",
    "SetSessionConfigOptionRequestValue",
    "SetSessionConfigOptionResponse",
    "SetSessionModeRequest",
    "SetSessionModeResponse",
    "StartNesRequest",
    "StartNesResponse",
    "StopReason",
    "StringFormat",
    "SuggestNesRequest",
    "SuggestNesResponse",
    "TerminalExitStatus",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "TextDocumentContentChangeEvent",
    "TextDocumentSyncKind",
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
    "Usage",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
    "WorkspaceFolder",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
    "authenticate",
    "cancel_request",
    "document_did_change",
    "document_did_close",
    "document_did_focus",
    "document_did_open",
    "document_did_save",
    "elicitation_complete",
    "elicitation_create",
    "fs_read_text_file",
    "fs_write_text_file",
    "initialize",
    "logout",
    "mcp_connect",
    "mcp_disconnect",
    "mcp_message",
    "mcp_message_notification",
    "nes_accept",
    "nes_close",
    "nes_reject",
    "nes_start",
    "nes_suggest",
    "providers_disable",
    "providers_list",
    "providers_set",
    "read",
    "read_result",
    "session_cancel",
    "session_close",
    "session_delete",
    "session_fork",
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


def providers_list(params: ListProvidersRequest | None = None) -> Request[ListProvidersResponse]:
    """Request `providers/list`, handled by the agent (rfd/custom-llm-endpoint)."""
    return Request("providers/list", "providers_list", {} if params is None else params)


def providers_set(params: SetProviderRequest) -> Request[SetProviderResponse]:
    """Request `providers/set`, handled by the agent (rfd/custom-llm-endpoint)."""
    return Request("providers/set", "providers_set", params)


def providers_disable(params: DisableProviderRequest) -> Request[DisableProviderResponse]:
    """Request `providers/disable`, handled by the agent (rfd/custom-llm-endpoint)."""
    return Request("providers/disable", "providers_disable", params)


def session_new(params: NewSessionRequest) -> Request[NewSessionResponse]:
    """Request `session/new`, handled by the agent (v1/session-setup)."""
    return Request("session/new", "session_new", params)


def session_load(params: LoadSessionRequest) -> Request[LoadSessionResponse]:
    """Request `session/load`, handled by the agent (v1/session-setup)."""
    return Request("session/load", "session_load", params)


def session_prompt(params: PromptRequest) -> Request[PromptResponse]:
    """Request `session/prompt`, handled by the agent (v1/prompt-turn)."""
    return Request("session/prompt", "session_prompt", params)


def mcp_message(params: MessageMcpRequest) -> Request[object]:
    """Request `mcp/message`, either direction (rfd/mcp-over-acp)."""
    return Request("mcp/message", "mcp_message", params)


def mcp_message_notification(params: MessageMcpRequest) -> Notification:
    """Notification `mcp/message`, either direction (rfd/mcp-over-acp)."""
    return Notification("mcp/message", "mcp_message", params)


def session_fork(params: ForkSessionRequest) -> Request[ForkSessionResponse]:
    """Request `session/fork`, handled by the agent (rfd/session-fork)."""
    return Request("session/fork", "session_fork", params)


def session_resume(params: ResumeSessionRequest) -> Request[ResumeSessionResponse]:
    """Request `session/resume`, handled by the agent (v1/session-setup)."""
    return Request("session/resume", "session_resume", params)


def nes_start(params: StartNesRequest | None = None) -> Request[StartNesResponse]:
    """Request `nes/start`, handled by the agent (rfd/next-edit-suggestions)."""
    return Request("nes/start", "nes_start", {} if params is None else params)


def nes_suggest(params: SuggestNesRequest) -> Request[SuggestNesResponse]:
    """Request `nes/suggest`, handled by the agent (rfd/next-edit-suggestions)."""
    return Request("nes/suggest", "nes_suggest", params)


def nes_accept(params: AcceptNesNotification) -> Notification:
    """Notification `nes/accept`, handled by the agent (rfd/next-edit-suggestions)."""
    return Notification("nes/accept", "nes_accept", params)


def nes_reject(params: RejectNesNotification) -> Notification:
    """Notification `nes/reject`, handled by the agent (rfd/next-edit-suggestions)."""
    return Notification("nes/reject", "nes_reject", params)


def nes_close(params: CloseNesRequest) -> Request[CloseNesResponse]:
    """Request `nes/close`, handled by the agent (rfd/next-edit-suggestions)."""
    return Request("nes/close", "nes_close", params)


def document_did_open(params: DidOpenDocumentNotification) -> Notification:
    """Notification `document/didOpen`, handled by the agent (rfd/next-edit-suggestions)."""
    return Notification("document/didOpen", "document_did_open", params)


def document_did_change(params: DidChangeDocumentNotification) -> Notification:
    """Notification `document/didChange`, handled by the agent (rfd/next-edit-suggestions)."""
    return Notification("document/didChange", "document_did_change", params)


def document_did_close(params: DidCloseDocumentNotification) -> Notification:
    """Notification `document/didClose`, handled by the agent (rfd/next-edit-suggestions)."""
    return Notification("document/didClose", "document_did_close", params)


def document_did_save(params: DidSaveDocumentNotification) -> Notification:
    """Notification `document/didSave`, handled by the agent (rfd/next-edit-suggestions)."""
    return Notification("document/didSave", "document_did_save", params)


def document_did_focus(params: DidFocusDocumentNotification) -> Notification:
    """Notification `document/didFocus`, handled by the agent (rfd/next-edit-suggestions)."""
    return Notification("document/didFocus", "document_did_focus", params)


def session_request_permission(params: RequestPermissionRequest) -> Request[RequestPermissionResponse]:
    """Request `session/request_permission`, handled by the client (v1/tool-calls)."""
    return Request("session/request_permission", "session_request_permission", params)


def session_update(params: SessionNotification) -> Notification:
    """Notification `session/update`, handled by the client (v1/prompt-turn)."""
    return Notification("session/update", "session_update", params)


def mcp_connect(params: ConnectMcpRequest) -> Request[ConnectMcpResponse]:
    """Request `mcp/connect`, handled by the client (rfd/mcp-over-acp)."""
    return Request("mcp/connect", "mcp_connect", params)


def mcp_disconnect(params: DisconnectMcpRequest) -> Request[DisconnectMcpResponse]:
    """Request `mcp/disconnect`, handled by the client (rfd/mcp-over-acp)."""
    return Request("mcp/disconnect", "mcp_disconnect", params)


if TYPE_CHECKING:
    @overload
    def read(key: Literal["initialize"], value: object) -> View[InitializeRequest]: ...
    @overload
    def read(key: Literal["authenticate"], value: object) -> View[AuthenticateRequest]: ...
    @overload
    def read(key: Literal["providers_list", "providers/list"], value: object) -> View[ListProvidersRequest]: ...
    @overload
    def read(key: Literal["providers_set", "providers/set"], value: object) -> View[SetProviderRequest]: ...
    @overload
    def read(key: Literal["providers_disable", "providers/disable"], value: object) -> View[DisableProviderRequest]: ...
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
    def read(key: Literal["mcp_message", "mcp/message"], value: object) -> View[MessageMcpRequest]: ...
    @overload
    def read(key: Literal["session_list", "session/list"], value: object) -> View[ListSessionsRequest]: ...
    @overload
    def read(key: Literal["session_delete", "session/delete"], value: object) -> View[DeleteSessionRequest]: ...
    @overload
    def read(key: Literal["session_fork", "session/fork"], value: object) -> View[ForkSessionRequest]: ...
    @overload
    def read(key: Literal["session_resume", "session/resume"], value: object) -> View[ResumeSessionRequest]: ...
    @overload
    def read(key: Literal["session_close", "session/close"], value: object) -> View[CloseSessionRequest]: ...
    @overload
    def read(key: Literal["logout"], value: object) -> View[LogoutRequest]: ...
    @overload
    def read(key: Literal["nes_start", "nes/start"], value: object) -> View[StartNesRequest]: ...
    @overload
    def read(key: Literal["nes_suggest", "nes/suggest"], value: object) -> View[SuggestNesRequest]: ...
    @overload
    def read(key: Literal["nes_accept", "nes/accept"], value: object) -> View[AcceptNesNotification]: ...
    @overload
    def read(key: Literal["nes_reject", "nes/reject"], value: object) -> View[RejectNesNotification]: ...
    @overload
    def read(key: Literal["nes_close", "nes/close"], value: object) -> View[CloseNesRequest]: ...
    @overload
    def read(
        key: Literal["document_did_open", "document/didOpen"], value: object
    ) -> View[DidOpenDocumentNotification]: ...
    @overload
    def read(
        key: Literal["document_did_change", "document/didChange"], value: object
    ) -> View[DidChangeDocumentNotification]: ...
    @overload
    def read(
        key: Literal["document_did_close", "document/didClose"], value: object
    ) -> View[DidCloseDocumentNotification]: ...
    @overload
    def read(
        key: Literal["document_did_save", "document/didSave"], value: object
    ) -> View[DidSaveDocumentNotification]: ...
    @overload
    def read(
        key: Literal["document_did_focus", "document/didFocus"], value: object
    ) -> View[DidFocusDocumentNotification]: ...
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
    def read(key: Literal["mcp_connect", "mcp/connect"], value: object) -> View[ConnectMcpRequest]: ...
    @overload
    def read(key: Literal["mcp_disconnect", "mcp/disconnect"], value: object) -> View[DisconnectMcpRequest]: ...
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
    def read_result(key: Literal["providers_list", "providers/list"], value: object) -> View[ListProvidersResponse]: ...
    @overload
    def read_result(key: Literal["providers_set", "providers/set"], value: object) -> View[SetProviderResponse]: ...
    @overload
    def read_result(
        key: Literal["providers_disable", "providers/disable"], value: object
    ) -> View[DisableProviderResponse]: ...
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
    def read_result(key: Literal["mcp_message", "mcp/message"], value: object) -> View[object]: ...
    @overload
    def read_result(key: Literal["session_list", "session/list"], value: object) -> View[ListSessionsResponse]: ...
    @overload
    def read_result(key: Literal["session_delete", "session/delete"], value: object) -> View[DeleteSessionResponse]: ...
    @overload
    def read_result(key: Literal["session_fork", "session/fork"], value: object) -> View[ForkSessionResponse]: ...
    @overload
    def read_result(key: Literal["session_resume", "session/resume"], value: object) -> View[ResumeSessionResponse]: ...
    @overload
    def read_result(key: Literal["session_close", "session/close"], value: object) -> View[CloseSessionResponse]: ...
    @overload
    def read_result(key: Literal["logout"], value: object) -> View[LogoutResponse]: ...
    @overload
    def read_result(key: Literal["nes_start", "nes/start"], value: object) -> View[StartNesResponse]: ...
    @overload
    def read_result(key: Literal["nes_suggest", "nes/suggest"], value: object) -> View[SuggestNesResponse]: ...
    @overload
    def read_result(key: Literal["nes_close", "nes/close"], value: object) -> View[CloseNesResponse]: ...
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
    def read_result(key: Literal["mcp_connect", "mcp/connect"], value: object) -> View[ConnectMcpResponse]: ...
    @overload
    def read_result(key: Literal["mcp_disconnect", "mcp/disconnect"], value: object) -> View[DisconnectMcpResponse]: ...
    @overload
    def read_result(
        key: Literal["elicitation_create", "elicitation/create"], value: object
    ) -> View[CreateElicitationResponse]: ...
    def read_result(key: str, value: object) -> tuple[object, tuple[Skipped, ...]]:
        # For type checkers; what runs is the function below.
        raise NotImplementedError
else:

    def read(key, value):
        return validation.read(key, value, unstable=True)

    def read_result(key, value):
        return validation.read_result(key, value, unstable=True)

    def __getattr__(name):
        # The classes need `typing`, which costs more than all the rest here, so they are made when somebody asks.
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from acp_core.schema import v1_unstable_types

        globals().update((key, getattr(v1_unstable_types, key)) for key in v1_unstable_types.__all__)
        return globals()[name]

    def __dir__():
        return __all__
