"""Types of protocol version 1 with its draft features.

A field of the wrong name or type is a type error; the values are checked by `acp_core.schema.validation`. A field that
holds an enum also admits any other string, and a union names the variants that this version knows: what a peer sends
may be newer, so end every `match` with a default.

Generated: change the generator, not this file (`python -m tests.tools.generate_schema`).
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypedDict

from acp_core.schema.v1_types import (
    AgentAuthCapabilities,
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
    KillTerminalRequest,
    KillTerminalResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionResponse,
    LogoutCapabilities,
    LogoutRequest,
    LogoutResponse,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    MultiSelectItems,
    MultiSelectItemsString,
    NewSessionResponse,
    PermissionOption,
    PermissionOptionKind,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    PromptCapabilities,
    PromptRequest,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    RequestId,
    RequestPermissionOutcome,
    RequestPermissionOutcomeCancelled,
    RequestPermissionOutcomeSelected,
    RequestPermissionResponse,
    ResumeSessionResponse,
    Role,
    SessionAdditionalDirectoriesCapabilities,
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
    SessionResumeCapabilities,
    SessionUpdateAgentMessageChunk,
    SessionUpdateAgentThoughtChunk,
    SessionUpdateAvailableCommandsUpdate,
    SessionUpdateConfigOptionUpdate,
    SessionUpdateCurrentModeUpdate,
    SessionUpdatePlan,
    SessionUpdateSessionInfoUpdate,
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
    ToolKind,
    UnstructuredCommandInput,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)

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
]

CompactionCapabilities = Mapping[str, object]


class ClientSessionCapabilities(TypedDict):
    """Schema v1 `ClientSessionCapabilities`."""

    compaction: NotRequired[CompactionCapabilities | None]
    configOptions: NotRequired[SessionConfigOptionsCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class PlanCapabilities(TypedDict):
    """Schema v1 `PlanCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesJumpCapabilities(TypedDict):
    """Schema v1 `NesJumpCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesRenameCapabilities(TypedDict):
    """Schema v1 `NesRenameCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesSearchAndReplaceCapabilities(TypedDict):
    """Schema v1 `NesSearchAndReplaceCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class ClientNesCapabilities(TypedDict):
    """Schema v1 `ClientNesCapabilities`."""

    jump: NotRequired[NesJumpCapabilities | None]
    rename: NotRequired[NesRenameCapabilities | None]
    searchAndReplace: NotRequired[NesSearchAndReplaceCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


PositionEncodingKind = Literal["utf-16", "utf-32", "utf-8"]


class ClientCapabilities(TypedDict):
    """Schema v1 `ClientCapabilities`."""

    fs: NotRequired[FileSystemCapabilities]
    terminal: NotRequired[bool]
    session: NotRequired[ClientSessionCapabilities | None]
    plan: NotRequired[PlanCapabilities | None]
    auth: NotRequired[AuthCapabilities]
    elicitation: NotRequired[ElicitationCapabilities | None]
    nes: NotRequired[ClientNesCapabilities | None]
    positionEncodings: NotRequired[Sequence[PositionEncodingKind | str]]
    _meta: NotRequired[Mapping[str, object] | None]


class InitializeRequest(TypedDict):
    """Params of `initialize` (v1/initialization)."""

    protocolVersion: int
    clientCapabilities: NotRequired[ClientCapabilities]
    clientInfo: NotRequired[Implementation | None]
    _meta: NotRequired[Mapping[str, object] | None]


class McpCapabilities(TypedDict):
    """Schema v1 `McpCapabilities`."""

    http: NotRequired[bool]
    sse: NotRequired[bool]
    acp: NotRequired[bool]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionForkCapabilities(TypedDict):
    """Schema v1 `SessionForkCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class SessionCapabilities(TypedDict):
    """Schema v1 `SessionCapabilities`."""

    list: NotRequired[SessionListCapabilities | None]
    delete: NotRequired[SessionDeleteCapabilities | None]
    additionalDirectories: NotRequired[SessionAdditionalDirectoriesCapabilities | None]
    fork: NotRequired[SessionForkCapabilities | None]
    resume: NotRequired[SessionResumeCapabilities | None]
    close: NotRequired[SessionCloseCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ProvidersCapabilities(TypedDict):
    """Schema v1 `ProvidersCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesDocumentDidOpenCapabilities(TypedDict):
    """Schema v1 `NesDocumentDidOpenCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


TextDocumentSyncKind = Literal["full", "incremental"]


class NesDocumentDidChangeCapabilities(TypedDict):
    """Schema v1 `NesDocumentDidChangeCapabilities`."""

    syncKind: TextDocumentSyncKind | str
    _meta: NotRequired[Mapping[str, object] | None]


class NesDocumentDidCloseCapabilities(TypedDict):
    """Schema v1 `NesDocumentDidCloseCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesDocumentDidSaveCapabilities(TypedDict):
    """Schema v1 `NesDocumentDidSaveCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesDocumentDidFocusCapabilities(TypedDict):
    """Schema v1 `NesDocumentDidFocusCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesDocumentEventCapabilities(TypedDict):
    """Schema v1 `NesDocumentEventCapabilities`."""

    didOpen: NotRequired[NesDocumentDidOpenCapabilities | None]
    didChange: NotRequired[NesDocumentDidChangeCapabilities | None]
    didClose: NotRequired[NesDocumentDidCloseCapabilities | None]
    didSave: NotRequired[NesDocumentDidSaveCapabilities | None]
    didFocus: NotRequired[NesDocumentDidFocusCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class NesEventCapabilities(TypedDict):
    """Schema v1 `NesEventCapabilities`."""

    document: NotRequired[NesDocumentEventCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class NesRecentFilesCapabilities(TypedDict):
    """Schema v1 `NesRecentFilesCapabilities`."""

    maxCount: NotRequired[int | None]
    _meta: NotRequired[Mapping[str, object] | None]


class NesRelatedSnippetsCapabilities(TypedDict):
    """Schema v1 `NesRelatedSnippetsCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesEditHistoryCapabilities(TypedDict):
    """Schema v1 `NesEditHistoryCapabilities`."""

    maxCount: NotRequired[int | None]
    _meta: NotRequired[Mapping[str, object] | None]


class NesUserActionsCapabilities(TypedDict):
    """Schema v1 `NesUserActionsCapabilities`."""

    maxCount: NotRequired[int | None]
    _meta: NotRequired[Mapping[str, object] | None]


class NesOpenFilesCapabilities(TypedDict):
    """Schema v1 `NesOpenFilesCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesDiagnosticsCapabilities(TypedDict):
    """Schema v1 `NesDiagnosticsCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class NesContextCapabilities(TypedDict):
    """Schema v1 `NesContextCapabilities`."""

    recentFiles: NotRequired[NesRecentFilesCapabilities | None]
    relatedSnippets: NotRequired[NesRelatedSnippetsCapabilities | None]
    editHistory: NotRequired[NesEditHistoryCapabilities | None]
    userActions: NotRequired[NesUserActionsCapabilities | None]
    openFiles: NotRequired[NesOpenFilesCapabilities | None]
    diagnostics: NotRequired[NesDiagnosticsCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class NesCapabilities(TypedDict):
    """Schema v1 `NesCapabilities`."""

    events: NotRequired[NesEventCapabilities | None]
    context: NotRequired[NesContextCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class AgentCapabilities(TypedDict):
    """Schema v1 `AgentCapabilities`."""

    loadSession: NotRequired[bool]
    promptCapabilities: NotRequired[PromptCapabilities]
    mcpCapabilities: NotRequired[McpCapabilities]
    sessionCapabilities: NotRequired[SessionCapabilities]
    auth: NotRequired[AgentAuthCapabilities]
    providers: NotRequired[ProvidersCapabilities | None]
    nes: NotRequired[NesCapabilities | None]
    positionEncoding: NotRequired[PositionEncodingKind | str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class InitializeResponse(TypedDict):
    """Result of `initialize` (v1/initialization)."""

    protocolVersion: int
    agentCapabilities: NotRequired[AgentCapabilities]
    authMethods: NotRequired[Sequence[AuthMethod]]
    agentInfo: NotRequired[Implementation | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ListProvidersRequest(TypedDict):
    """Params of `providers/list` (rfd/custom-llm-endpoint)."""

    _meta: NotRequired[Mapping[str, object] | None]


LlmProtocol = Literal["anthropic", "openai", "azure", "vertex", "bedrock"] | str


class ProviderCurrentConfig(TypedDict):
    """Schema v1 `ProviderCurrentConfig`."""

    apiType: LlmProtocol
    baseUrl: str
    _meta: NotRequired[Mapping[str, object] | None]


class ProviderInfo(TypedDict):
    """Schema v1 `ProviderInfo`."""

    providerId: str
    supported: Sequence[LlmProtocol]
    required: bool
    current: NotRequired[ProviderCurrentConfig | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ListProvidersResponse(TypedDict):
    """Result of `providers/list` (rfd/custom-llm-endpoint)."""

    providers: Sequence[ProviderInfo]
    _meta: NotRequired[Mapping[str, object] | None]


class SetProviderRequest(TypedDict):
    """Params of `providers/set` (rfd/custom-llm-endpoint)."""

    providerId: str
    apiType: LlmProtocol
    baseUrl: str
    headers: NotRequired[Mapping[str, str]]
    _meta: NotRequired[Mapping[str, object] | None]


class SetProviderResponse(TypedDict):
    """Result of `providers/set` (rfd/custom-llm-endpoint)."""

    _meta: NotRequired[Mapping[str, object] | None]


class DisableProviderRequest(TypedDict):
    """Params of `providers/disable` (rfd/custom-llm-endpoint)."""

    providerId: str
    _meta: NotRequired[Mapping[str, object] | None]


class DisableProviderResponse(TypedDict):
    """Result of `providers/disable` (rfd/custom-llm-endpoint)."""

    _meta: NotRequired[Mapping[str, object] | None]


class McpServerAcp(TypedDict):
    """Schema v1 `McpServer`: `type` `acp`."""

    type: Literal["acp"]
    name: str
    serverId: str
    _meta: NotRequired[Mapping[str, object] | None]


McpServer = McpServerHttp | McpServerSse | McpServerAcp | McpServerStdio


class NewSessionRequest(TypedDict):
    """Params of `session/new` (v1/session-setup)."""

    cwd: str
    additionalDirectories: NotRequired[list[str]]
    mcpServers: Sequence[McpServer]
    _meta: NotRequired[Mapping[str, object] | None]


class LoadSessionRequest(TypedDict):
    """Params of `session/load` (v1/session-setup)."""

    mcpServers: Sequence[McpServer]
    cwd: str
    additionalDirectories: NotRequired[list[str]]
    sessionId: str
    _meta: NotRequired[Mapping[str, object] | None]


class Usage(TypedDict):
    """Schema v1 `Usage`."""

    totalTokens: int
    inputTokens: int
    outputTokens: int
    thoughtTokens: NotRequired[int | None]
    cachedReadTokens: NotRequired[int | None]
    cachedWriteTokens: NotRequired[int | None]
    _meta: NotRequired[Mapping[str, object] | None]


class PromptResponse(TypedDict):
    """Result of `session/prompt` (v1/prompt-turn)."""

    stopReason: StopReason | str
    usage: NotRequired[Usage | None]
    _meta: NotRequired[Mapping[str, object] | None]


class MessageMcpRequest(TypedDict):
    """Params of `mcp/message` (rfd/mcp-over-acp)."""

    connectionId: str
    method: str
    params: NotRequired[Mapping[str, object] | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ForkSessionRequest(TypedDict):
    """Params of `session/fork` (rfd/session-fork)."""

    sessionId: str
    cwd: str
    additionalDirectories: NotRequired[list[str]]
    mcpServers: NotRequired[Sequence[McpServer]]
    _meta: NotRequired[Mapping[str, object] | None]


class ForkSessionResponse(TypedDict):
    """Result of `session/fork` (rfd/session-fork)."""

    sessionId: str
    modes: NotRequired[SessionModeState | None]
    configOptions: NotRequired[Sequence[SessionConfigOption] | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ResumeSessionRequest(TypedDict):
    """Params of `session/resume` (v1/session-setup)."""

    sessionId: str
    cwd: str
    additionalDirectories: NotRequired[list[str]]
    mcpServers: NotRequired[Sequence[McpServer]]
    _meta: NotRequired[Mapping[str, object] | None]


class WorkspaceFolder(TypedDict):
    """Schema v1 `WorkspaceFolder`."""

    uri: str
    name: str
    _meta: NotRequired[Mapping[str, object] | None]


class NesRepository(TypedDict):
    """Schema v1 `NesRepository`."""

    name: str
    owner: str
    remoteUrl: str
    _meta: NotRequired[Mapping[str, object] | None]


class StartNesRequest(TypedDict):
    """Params of `nes/start` (rfd/next-edit-suggestions)."""

    workspaceUri: NotRequired[str | None]
    workspaceFolders: NotRequired[Sequence[WorkspaceFolder] | None]
    repository: NotRequired[NesRepository | None]
    _meta: NotRequired[Mapping[str, object] | None]


class StartNesResponse(TypedDict):
    """Result of `nes/start` (rfd/next-edit-suggestions)."""

    sessionId: str
    _meta: NotRequired[Mapping[str, object] | None]


class Position(TypedDict):
    """Schema v1 `Position`."""

    line: int
    character: int
    _meta: NotRequired[Mapping[str, object] | None]


class Range(TypedDict):
    """Schema v1 `Range`."""

    start: Position
    end: Position
    _meta: NotRequired[Mapping[str, object] | None]


NesTriggerKind = Literal["automatic", "diagnostic", "manual"]


class NesRecentFile(TypedDict):
    """Schema v1 `NesRecentFile`."""

    uri: str
    languageId: str
    text: str
    _meta: NotRequired[Mapping[str, object] | None]


class NesExcerpt(TypedDict):
    """Schema v1 `NesExcerpt`."""

    startLine: int
    endLine: int
    text: str
    _meta: NotRequired[Mapping[str, object] | None]


class NesRelatedSnippet(TypedDict):
    """Schema v1 `NesRelatedSnippet`."""

    uri: str
    excerpts: Sequence[NesExcerpt]
    _meta: NotRequired[Mapping[str, object] | None]


class NesEditHistoryEntry(TypedDict):
    """Schema v1 `NesEditHistoryEntry`."""

    uri: str
    diff: str
    _meta: NotRequired[Mapping[str, object] | None]


class NesUserAction(TypedDict):
    """Schema v1 `NesUserAction`."""

    action: str
    uri: str
    position: Position
    timestampMs: int
    _meta: NotRequired[Mapping[str, object] | None]


class NesOpenFile(TypedDict):
    """Schema v1 `NesOpenFile`."""

    uri: str
    languageId: str
    visibleRange: NotRequired[Range | None]
    lastFocusedMs: NotRequired[int | None]
    _meta: NotRequired[Mapping[str, object] | None]


NesDiagnosticSeverity = Literal["error", "warning", "information", "hint"]


class NesDiagnostic(TypedDict):
    """Schema v1 `NesDiagnostic`."""

    uri: str
    range: Range
    severity: NesDiagnosticSeverity | str
    message: str
    _meta: NotRequired[Mapping[str, object] | None]


class NesSuggestContext(TypedDict):
    """Schema v1 `NesSuggestContext`."""

    recentFiles: NotRequired[Sequence[NesRecentFile] | None]
    relatedSnippets: NotRequired[Sequence[NesRelatedSnippet] | None]
    editHistory: NotRequired[Sequence[NesEditHistoryEntry] | None]
    userActions: NotRequired[Sequence[NesUserAction] | None]
    openFiles: NotRequired[Sequence[NesOpenFile] | None]
    diagnostics: NotRequired[Sequence[NesDiagnostic] | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SuggestNesRequest(TypedDict):
    """Params of `nes/suggest` (rfd/next-edit-suggestions)."""

    sessionId: str
    uri: str
    version: int
    position: Position
    selection: NotRequired[Range | None]
    triggerKind: NesTriggerKind | str
    context: NotRequired[NesSuggestContext | None]
    _meta: NotRequired[Mapping[str, object] | None]


class NesTextEdit(TypedDict):
    """Schema v1 `NesTextEdit`."""

    range: Range
    newText: str
    _meta: NotRequired[Mapping[str, object] | None]


class NesSuggestionEdit(TypedDict):
    """Schema v1 `NesSuggestion`: `kind` `edit`."""

    kind: Literal["edit"]
    id: str
    uri: str
    edits: Sequence[NesTextEdit]
    cursorPosition: NotRequired[Position | None]
    _meta: NotRequired[Mapping[str, object] | None]


class NesSuggestionJump(TypedDict):
    """Schema v1 `NesSuggestion`: `kind` `jump`."""

    kind: Literal["jump"]
    id: str
    uri: str
    position: Position
    _meta: NotRequired[Mapping[str, object] | None]


class NesSuggestionRename(TypedDict):
    """Schema v1 `NesSuggestion`: `kind` `rename`."""

    kind: Literal["rename"]
    id: str
    uri: str
    position: Position
    newName: str
    _meta: NotRequired[Mapping[str, object] | None]


class NesSuggestionSearchAndReplace(TypedDict):
    """Schema v1 `NesSuggestion`: `kind` `searchAndReplace`."""

    kind: Literal["searchAndReplace"]
    id: str
    uri: str
    search: str
    replace: str
    isRegex: NotRequired[bool | None]
    _meta: NotRequired[Mapping[str, object] | None]


NesSuggestion = NesSuggestionEdit | NesSuggestionJump | NesSuggestionRename | NesSuggestionSearchAndReplace


class SuggestNesResponse(TypedDict):
    """Result of `nes/suggest` (rfd/next-edit-suggestions)."""

    suggestions: Sequence[NesSuggestion]
    _meta: NotRequired[Mapping[str, object] | None]


class AcceptNesNotification(TypedDict):
    """Params of `nes/accept` (rfd/next-edit-suggestions)."""

    sessionId: str
    id: str
    _meta: NotRequired[Mapping[str, object] | None]


NesRejectReason = Literal["rejected", "ignored", "replaced", "cancelled"]


class RejectNesNotification(TypedDict):
    """Params of `nes/reject` (rfd/next-edit-suggestions)."""

    sessionId: str
    id: str
    reason: NotRequired[NesRejectReason | str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class CloseNesRequest(TypedDict):
    """Params of `nes/close` (rfd/next-edit-suggestions)."""

    sessionId: str
    _meta: NotRequired[Mapping[str, object] | None]


class CloseNesResponse(TypedDict):
    """Result of `nes/close` (rfd/next-edit-suggestions)."""

    _meta: NotRequired[Mapping[str, object] | None]


class DidOpenDocumentNotification(TypedDict):
    """Params of `document/didOpen` (rfd/next-edit-suggestions)."""

    sessionId: str
    uri: str
    languageId: str
    version: int
    text: str
    _meta: NotRequired[Mapping[str, object] | None]


class TextDocumentContentChangeEvent(TypedDict):
    """Schema v1 `TextDocumentContentChangeEvent`."""

    range: NotRequired[Range | None]
    text: str
    _meta: NotRequired[Mapping[str, object] | None]


class DidChangeDocumentNotification(TypedDict):
    """Params of `document/didChange` (rfd/next-edit-suggestions)."""

    sessionId: str
    uri: str
    version: int
    contentChanges: Sequence[TextDocumentContentChangeEvent]
    _meta: NotRequired[Mapping[str, object] | None]


class DidCloseDocumentNotification(TypedDict):
    """Params of `document/didClose` (rfd/next-edit-suggestions)."""

    sessionId: str
    uri: str
    _meta: NotRequired[Mapping[str, object] | None]


class DidSaveDocumentNotification(TypedDict):
    """Params of `document/didSave` (rfd/next-edit-suggestions)."""

    sessionId: str
    uri: str
    _meta: NotRequired[Mapping[str, object] | None]


class DidFocusDocumentNotification(TypedDict):
    """Params of `document/didFocus` (rfd/next-edit-suggestions)."""

    sessionId: str
    uri: str
    version: int
    position: Position
    visibleRange: Range
    _meta: NotRequired[Mapping[str, object] | None]


class ToolCallUpdate(TypedDict):
    """Schema v1 `ToolCallUpdate`."""

    toolCallId: str
    kind: NotRequired[ToolKind | str | None]
    status: NotRequired[ToolCallStatus | str | None]
    title: NotRequired[str | None]
    name: NotRequired[str | None]
    content: NotRequired[Sequence[ToolCallContent] | None]
    locations: NotRequired[Sequence[ToolCallLocation] | None]
    rawInput: NotRequired[object]
    rawOutput: NotRequired[object]
    _meta: NotRequired[Mapping[str, object] | None]


class RequestPermissionRequest(TypedDict):
    """Params of `session/request_permission` (v1/tool-calls)."""

    sessionId: str
    toolCall: ToolCallUpdate
    options: Sequence[PermissionOption]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateToolCall(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `tool_call`."""

    sessionUpdate: Literal["tool_call"]
    toolCallId: str
    title: str
    name: NotRequired[str | None]
    kind: NotRequired[ToolKind | str]
    status: NotRequired[ToolCallStatus | str]
    content: NotRequired[Sequence[ToolCallContent]]
    locations: NotRequired[Sequence[ToolCallLocation]]
    rawInput: NotRequired[object]
    rawOutput: NotRequired[object]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateToolCallUpdate(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `tool_call_update`."""

    sessionUpdate: Literal["tool_call_update"]
    toolCallId: str
    kind: NotRequired[ToolKind | str | None]
    status: NotRequired[ToolCallStatus | str | None]
    title: NotRequired[str | None]
    name: NotRequired[str | None]
    content: NotRequired[Sequence[ToolCallContent] | None]
    locations: NotRequired[Sequence[ToolCallLocation] | None]
    rawInput: NotRequired[object]
    rawOutput: NotRequired[object]
    _meta: NotRequired[Mapping[str, object] | None]


class PlanUpdateContentItems(TypedDict):
    """Schema v1 `PlanUpdateContent`: `type` `items`."""

    type: Literal["items"]
    planId: str
    entries: Sequence[PlanEntry]
    _meta: NotRequired[Mapping[str, object] | None]


class PlanUpdateContentFile(TypedDict):
    """Schema v1 `PlanUpdateContent`: `type` `file`."""

    type: Literal["file"]
    planId: str
    uri: str
    _meta: NotRequired[Mapping[str, object] | None]


class PlanUpdateContentMarkdown(TypedDict):
    """Schema v1 `PlanUpdateContent`: `type` `markdown`."""

    type: Literal["markdown"]
    planId: str
    content: str
    _meta: NotRequired[Mapping[str, object] | None]


PlanUpdateContent = PlanUpdateContentItems | PlanUpdateContentFile | PlanUpdateContentMarkdown


class SessionUpdatePlanUpdate(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `plan_update`."""

    sessionUpdate: Literal["plan_update"]
    plan: PlanUpdateContent
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdatePlanRemoved(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `plan_removed`."""

    sessionUpdate: Literal["plan_removed"]
    planId: str
    _meta: NotRequired[Mapping[str, object] | None]


NoticeSeverity = Literal["info", "warning", "error"] | str


class SessionUpdateNotice(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `notice`."""

    sessionUpdate: Literal["notice"]
    severity: NoticeSeverity
    title: str
    description: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


CompactionStatus = Literal["in_progress", "completed", "failed", "cancelled"] | str


class SessionUpdateCompactionUpdate(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `compaction_update`."""

    sessionUpdate: Literal["compaction_update"]
    compactionId: str
    status: CompactionStatus
    summary: NotRequired[Sequence[ContentBlock] | None]
    error: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateCompactionSummaryChunk(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `compaction_summary_chunk`."""

    sessionUpdate: Literal["compaction_summary_chunk"]
    compactionId: str
    content: ContentBlock
    _meta: NotRequired[Mapping[str, object] | None]


SessionUpdate = (
    SessionUpdateUserMessageChunk
    | SessionUpdateAgentMessageChunk
    | SessionUpdateAgentThoughtChunk
    | SessionUpdateToolCall
    | SessionUpdateToolCallUpdate
    | SessionUpdatePlan
    | SessionUpdatePlanUpdate
    | SessionUpdatePlanRemoved
    | SessionUpdateAvailableCommandsUpdate
    | SessionUpdateCurrentModeUpdate
    | SessionUpdateConfigOptionUpdate
    | SessionUpdateSessionInfoUpdate
    | SessionUpdateUsageUpdate
    | SessionUpdateNotice
    | SessionUpdateCompactionUpdate
    | SessionUpdateCompactionSummaryChunk
)


class SessionNotification(TypedDict):
    """Params of `session/update` (v1/prompt-turn)."""

    sessionId: str
    update: SessionUpdate
    _meta: NotRequired[Mapping[str, object] | None]


class ConnectMcpRequest(TypedDict):
    """Params of `mcp/connect` (rfd/mcp-over-acp)."""

    serverId: str
    _meta: NotRequired[Mapping[str, object] | None]


class ConnectMcpResponse(TypedDict):
    """Result of `mcp/connect` (rfd/mcp-over-acp)."""

    connectionId: str
    _meta: NotRequired[Mapping[str, object] | None]


class DisconnectMcpRequest(TypedDict):
    """Params of `mcp/disconnect` (rfd/mcp-over-acp)."""

    connectionId: str
    _meta: NotRequired[Mapping[str, object] | None]


class DisconnectMcpResponse(TypedDict):
    """Result of `mcp/disconnect` (rfd/mcp-over-acp)."""

    _meta: NotRequired[Mapping[str, object] | None]
