"""Types of protocol version 1, stable part.

A field of the wrong name or type is a type error; the values are checked by `acp_core.schema.validation`. A field that
holds an enum also admits any other string, and a union names the variants that this version knows: what a peer sends
may be newer, so end every `match` with a default.

Generated: change the generator, not this file (`python -m tests.tools.generate_schema`).
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Never, NotRequired, TypedDict

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
]



class FileSystemCapabilities(TypedDict):
    """Schema v1 `FileSystemCapabilities`."""

    readTextFile: NotRequired[bool]
    writeTextFile: NotRequired[bool]
    _meta: NotRequired[Mapping[str, object] | None]


class BooleanConfigOptionCapabilities(TypedDict):
    """Schema v1 `BooleanConfigOptionCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class SessionConfigOptionsCapabilities(TypedDict):
    """Schema v1 `SessionConfigOptionsCapabilities`."""

    boolean: NotRequired[BooleanConfigOptionCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ClientSessionCapabilities(TypedDict):
    """Schema v1 `ClientSessionCapabilities`."""

    configOptions: NotRequired[SessionConfigOptionsCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class AuthCapabilities(TypedDict):
    """Schema v1 `AuthCapabilities`."""

    terminal: NotRequired[bool]
    _meta: NotRequired[Mapping[str, object] | None]


class ElicitationFormCapabilities(TypedDict):
    """Schema v1 `ElicitationFormCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class ElicitationUrlCapabilities(TypedDict):
    """Schema v1 `ElicitationUrlCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class ElicitationCapabilities(TypedDict):
    """Schema v1 `ElicitationCapabilities`."""

    form: NotRequired[ElicitationFormCapabilities | None]
    url: NotRequired[ElicitationUrlCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ClientCapabilities(TypedDict):
    """Schema v1 `ClientCapabilities`."""

    fs: NotRequired[FileSystemCapabilities]
    terminal: NotRequired[bool]
    session: NotRequired[ClientSessionCapabilities | None]
    auth: NotRequired[AuthCapabilities]
    elicitation: NotRequired[ElicitationCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class Implementation(TypedDict):
    """Schema v1 `Implementation`."""

    name: str
    title: NotRequired[str | None]
    version: str
    _meta: NotRequired[Mapping[str, object] | None]


class InitializeRequest(TypedDict):
    """Params of `initialize` (v1/initialization)."""

    protocolVersion: int
    clientCapabilities: NotRequired[ClientCapabilities]
    clientInfo: NotRequired[Implementation | None]
    _meta: NotRequired[Mapping[str, object] | None]


class PromptCapabilities(TypedDict):
    """Schema v1 `PromptCapabilities`."""

    image: NotRequired[bool]
    audio: NotRequired[bool]
    embeddedContext: NotRequired[bool]
    _meta: NotRequired[Mapping[str, object] | None]


class McpCapabilities(TypedDict):
    """Schema v1 `McpCapabilities`."""

    http: NotRequired[bool]
    sse: NotRequired[bool]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionListCapabilities(TypedDict):
    """Schema v1 `SessionListCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class SessionDeleteCapabilities(TypedDict):
    """Schema v1 `SessionDeleteCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class SessionAdditionalDirectoriesCapabilities(TypedDict):
    """Schema v1 `SessionAdditionalDirectoriesCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class SessionResumeCapabilities(TypedDict):
    """Schema v1 `SessionResumeCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class SessionCloseCapabilities(TypedDict):
    """Schema v1 `SessionCloseCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class SessionCapabilities(TypedDict):
    """Schema v1 `SessionCapabilities`."""

    list: NotRequired[SessionListCapabilities | None]
    delete: NotRequired[SessionDeleteCapabilities | None]
    additionalDirectories: NotRequired[SessionAdditionalDirectoriesCapabilities | None]
    resume: NotRequired[SessionResumeCapabilities | None]
    close: NotRequired[SessionCloseCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class LogoutCapabilities(TypedDict):
    """Schema v1 `LogoutCapabilities`."""

    _meta: NotRequired[Mapping[str, object] | None]


class AgentAuthCapabilities(TypedDict):
    """Schema v1 `AgentAuthCapabilities`."""

    logout: NotRequired[LogoutCapabilities | None]
    _meta: NotRequired[Mapping[str, object] | None]


class AgentCapabilities(TypedDict):
    """Schema v1 `AgentCapabilities`."""

    loadSession: NotRequired[bool]
    promptCapabilities: NotRequired[PromptCapabilities]
    mcpCapabilities: NotRequired[McpCapabilities]
    sessionCapabilities: NotRequired[SessionCapabilities]
    auth: NotRequired[AgentAuthCapabilities]
    _meta: NotRequired[Mapping[str, object] | None]


class AuthMethodTerminal(TypedDict):
    """Schema v1 `AuthMethod`: `type` `terminal`."""

    type: Literal["terminal"]
    id: str
    name: str
    description: NotRequired[str | None]
    args: NotRequired[list[str]]
    env: NotRequired[Mapping[str, str]]
    _meta: NotRequired[Mapping[str, object] | None]


class AuthMethodAgent(TypedDict):
    """Schema v1 `AuthMethodAgent`."""

    id: str
    name: str
    description: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]
    type: NotRequired[Never]


AuthMethod = AuthMethodTerminal | AuthMethodAgent


class InitializeResponse(TypedDict):
    """Result of `initialize` (v1/initialization)."""

    protocolVersion: int
    agentCapabilities: NotRequired[AgentCapabilities]
    authMethods: NotRequired[Sequence[AuthMethod]]
    agentInfo: NotRequired[Implementation | None]
    _meta: NotRequired[Mapping[str, object] | None]


class AuthenticateRequest(TypedDict):
    """Params of `authenticate` (v1/authentication)."""

    methodId: str
    _meta: NotRequired[Mapping[str, object] | None]


class AuthenticateResponse(TypedDict):
    """Result of `authenticate` (v1/authentication)."""

    _meta: NotRequired[Mapping[str, object] | None]


class HttpHeader(TypedDict):
    """Schema v1 `HttpHeader`."""

    name: str
    value: str
    _meta: NotRequired[Mapping[str, object] | None]


class McpServerHttp(TypedDict):
    """Schema v1 `McpServer`: `type` `http`."""

    type: Literal["http"]
    name: str
    url: str
    headers: Sequence[HttpHeader]
    _meta: NotRequired[Mapping[str, object] | None]


class McpServerSse(TypedDict):
    """Schema v1 `McpServer`: `type` `sse`."""

    type: Literal["sse"]
    name: str
    url: str
    headers: Sequence[HttpHeader]
    _meta: NotRequired[Mapping[str, object] | None]


class EnvVariable(TypedDict):
    """Schema v1 `EnvVariable`."""

    name: str
    value: str
    _meta: NotRequired[Mapping[str, object] | None]


class McpServerStdio(TypedDict):
    """Schema v1 `McpServerStdio`."""

    name: str
    command: str
    args: list[str]
    env: Sequence[EnvVariable]
    _meta: NotRequired[Mapping[str, object] | None]


McpServer = McpServerHttp | McpServerSse | McpServerStdio


class NewSessionRequest(TypedDict):
    """Params of `session/new` (v1/session-setup)."""

    cwd: str
    additionalDirectories: NotRequired[list[str]]
    mcpServers: Sequence[McpServer]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionMode(TypedDict):
    """Schema v1 `SessionMode`."""

    id: str
    name: str
    description: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionModeState(TypedDict):
    """Schema v1 `SessionModeState`."""

    currentModeId: str
    availableModes: Sequence[SessionMode]
    _meta: NotRequired[Mapping[str, object] | None]


SessionConfigOptionCategory = Literal["mode", "model", "model_config", "thought_level"] | str


class SessionConfigSelectOption(TypedDict):
    """Schema v1 `SessionConfigSelectOption`."""

    value: str
    name: str
    description: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionConfigSelectGroup(TypedDict):
    """Schema v1 `SessionConfigSelectGroup`."""

    group: str
    name: str
    options: Sequence[SessionConfigSelectOption]
    _meta: NotRequired[Mapping[str, object] | None]


SessionConfigSelectOptions = Sequence[SessionConfigSelectOption | SessionConfigSelectGroup]


class SessionConfigOptionSelect(TypedDict):
    """Schema v1 `SessionConfigOption`: `type` `select`."""

    id: str
    name: str
    description: NotRequired[str | None]
    category: NotRequired[SessionConfigOptionCategory | None]
    type: Literal["select"]
    currentValue: str
    options: SessionConfigSelectOptions
    _meta: NotRequired[Mapping[str, object] | None]


class SessionConfigOptionBoolean(TypedDict):
    """Schema v1 `SessionConfigOption`: `type` `boolean`."""

    id: str
    name: str
    description: NotRequired[str | None]
    category: NotRequired[SessionConfigOptionCategory | None]
    type: Literal["boolean"]
    currentValue: bool
    _meta: NotRequired[Mapping[str, object] | None]


SessionConfigOption = SessionConfigOptionSelect | SessionConfigOptionBoolean


class NewSessionResponse(TypedDict):
    """Result of `session/new` (v1/session-setup)."""

    sessionId: str
    modes: NotRequired[SessionModeState | None]
    configOptions: NotRequired[Sequence[SessionConfigOption] | None]
    _meta: NotRequired[Mapping[str, object] | None]


class LoadSessionRequest(TypedDict):
    """Params of `session/load` (v1/session-setup)."""

    mcpServers: Sequence[McpServer]
    cwd: str
    additionalDirectories: NotRequired[list[str]]
    sessionId: str
    _meta: NotRequired[Mapping[str, object] | None]


class LoadSessionResponse(TypedDict):
    """Result of `session/load` (v1/session-setup)."""

    modes: NotRequired[SessionModeState | None]
    configOptions: NotRequired[Sequence[SessionConfigOption] | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SetSessionModeRequest(TypedDict):
    """Params of `session/set_mode` (v1/session-modes)."""

    sessionId: str
    modeId: str
    _meta: NotRequired[Mapping[str, object] | None]


class SetSessionModeResponse(TypedDict):
    """Result of `session/set_mode` (v1/session-modes)."""

    _meta: NotRequired[Mapping[str, object] | None]


class SetSessionConfigOptionRequestBoolean(TypedDict):
    """Params of `session/set_config_option` (v1/session-config-options): `type` `boolean`."""

    sessionId: str
    configId: str
    type: Literal["boolean"]
    value: bool
    _meta: NotRequired[Mapping[str, object] | None]


class SetSessionConfigOptionRequestValue(TypedDict):
    """Params of `session/set_config_option` (v1/session-config-options): the form without a tag."""

    sessionId: str
    configId: str
    value: str
    _meta: NotRequired[Mapping[str, object] | None]


SetSessionConfigOptionRequest = SetSessionConfigOptionRequestBoolean | SetSessionConfigOptionRequestValue


class SetSessionConfigOptionResponse(TypedDict):
    """Result of `session/set_config_option` (v1/session-config-options)."""

    configOptions: Sequence[SessionConfigOption]
    _meta: NotRequired[Mapping[str, object] | None]


Role = Literal["assistant", "user"]


class Annotations(TypedDict):
    """Schema v1 `Annotations`."""

    audience: NotRequired[Sequence[Role | str] | None]
    lastModified: NotRequired[str | None]
    priority: NotRequired[float | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ContentBlockText(TypedDict):
    """Schema v1 `ContentBlock`: `type` `text`."""

    type: Literal["text"]
    annotations: NotRequired[Annotations | None]
    text: str
    _meta: NotRequired[Mapping[str, object] | None]


class ContentBlockImage(TypedDict):
    """Schema v1 `ContentBlock`: `type` `image`."""

    type: Literal["image"]
    annotations: NotRequired[Annotations | None]
    data: str
    mimeType: str
    uri: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ContentBlockAudio(TypedDict):
    """Schema v1 `ContentBlock`: `type` `audio`."""

    type: Literal["audio"]
    annotations: NotRequired[Annotations | None]
    data: str
    mimeType: str
    _meta: NotRequired[Mapping[str, object] | None]


class ContentBlockResourceLink(TypedDict):
    """Schema v1 `ContentBlock`: `type` `resource_link`."""

    type: Literal["resource_link"]
    annotations: NotRequired[Annotations | None]
    description: NotRequired[str | None]
    mimeType: NotRequired[str | None]
    name: str
    size: NotRequired[int | None]
    title: NotRequired[str | None]
    uri: str
    _meta: NotRequired[Mapping[str, object] | None]


class TextResourceContents(TypedDict):
    """Schema v1 `TextResourceContents`."""

    mimeType: NotRequired[str | None]
    text: str
    uri: str
    _meta: NotRequired[Mapping[str, object] | None]


class BlobResourceContents(TypedDict):
    """Schema v1 `BlobResourceContents`."""

    blob: str
    mimeType: NotRequired[str | None]
    uri: str
    _meta: NotRequired[Mapping[str, object] | None]


EmbeddedResourceResource = TextResourceContents | BlobResourceContents


class ContentBlockResource(TypedDict):
    """Schema v1 `ContentBlock`: `type` `resource`."""

    type: Literal["resource"]
    annotations: NotRequired[Annotations | None]
    resource: EmbeddedResourceResource
    _meta: NotRequired[Mapping[str, object] | None]


ContentBlock = (
    ContentBlockText
    | ContentBlockImage
    | ContentBlockAudio
    | ContentBlockResourceLink
    | ContentBlockResource
)


class PromptRequest(TypedDict):
    """Params of `session/prompt` (v1/prompt-turn)."""

    sessionId: str
    prompt: Sequence[ContentBlock]
    _meta: NotRequired[Mapping[str, object] | None]


StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class PromptResponse(TypedDict):
    """Result of `session/prompt` (v1/prompt-turn)."""

    stopReason: StopReason | str
    _meta: NotRequired[Mapping[str, object] | None]


class CancelNotification(TypedDict):
    """Params of `session/cancel` (v1/prompt-turn)."""

    sessionId: str
    _meta: NotRequired[Mapping[str, object] | None]


class ListSessionsRequest(TypedDict):
    """Params of `session/list` (v1/session-list)."""

    cwd: NotRequired[str | None]
    cursor: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionInfo(TypedDict):
    """Schema v1 `SessionInfo`."""

    sessionId: str
    cwd: str
    additionalDirectories: NotRequired[list[str]]
    title: NotRequired[str | None]
    updatedAt: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ListSessionsResponse(TypedDict):
    """Result of `session/list` (v1/session-list)."""

    sessions: Sequence[SessionInfo]
    nextCursor: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class DeleteSessionRequest(TypedDict):
    """Params of `session/delete` (v1/session-delete)."""

    sessionId: str
    _meta: NotRequired[Mapping[str, object] | None]


class DeleteSessionResponse(TypedDict):
    """Result of `session/delete` (v1/session-delete)."""

    _meta: NotRequired[Mapping[str, object] | None]


class ResumeSessionRequest(TypedDict):
    """Params of `session/resume` (v1/session-setup)."""

    sessionId: str
    cwd: str
    additionalDirectories: NotRequired[list[str]]
    mcpServers: NotRequired[Sequence[McpServer]]
    _meta: NotRequired[Mapping[str, object] | None]


class ResumeSessionResponse(TypedDict):
    """Result of `session/resume` (v1/session-setup)."""

    modes: NotRequired[SessionModeState | None]
    configOptions: NotRequired[Sequence[SessionConfigOption] | None]
    _meta: NotRequired[Mapping[str, object] | None]


class CloseSessionRequest(TypedDict):
    """Params of `session/close` (v1/session-setup)."""

    sessionId: str
    _meta: NotRequired[Mapping[str, object] | None]


class CloseSessionResponse(TypedDict):
    """Result of `session/close` (v1/session-setup)."""

    _meta: NotRequired[Mapping[str, object] | None]


class LogoutRequest(TypedDict):
    """Params of `logout` (v1/authentication)."""

    _meta: NotRequired[Mapping[str, object] | None]


class LogoutResponse(TypedDict):
    """Result of `logout` (v1/authentication)."""

    _meta: NotRequired[Mapping[str, object] | None]


ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolCallStatus = Literal["pending", "in_progress", "completed", "failed"]


class ToolCallContentContent(TypedDict):
    """Schema v1 `ToolCallContent`: `type` `content`."""

    type: Literal["content"]
    content: ContentBlock
    _meta: NotRequired[Mapping[str, object] | None]


class ToolCallContentDiff(TypedDict):
    """Schema v1 `ToolCallContent`: `type` `diff`."""

    type: Literal["diff"]
    path: str
    oldText: NotRequired[str | None]
    newText: str
    _meta: NotRequired[Mapping[str, object] | None]


class ToolCallContentTerminal(TypedDict):
    """Schema v1 `ToolCallContent`: `type` `terminal`."""

    type: Literal["terminal"]
    terminalId: str
    _meta: NotRequired[Mapping[str, object] | None]


ToolCallContent = ToolCallContentContent | ToolCallContentDiff | ToolCallContentTerminal


class ToolCallLocation(TypedDict):
    """Schema v1 `ToolCallLocation`."""

    path: str
    line: NotRequired[int | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ToolCallUpdate(TypedDict):
    """Schema v1 `ToolCallUpdate`."""

    toolCallId: str
    kind: NotRequired[ToolKind | str | None]
    status: NotRequired[ToolCallStatus | str | None]
    title: NotRequired[str | None]
    content: NotRequired[Sequence[ToolCallContent] | None]
    locations: NotRequired[Sequence[ToolCallLocation] | None]
    rawInput: NotRequired[object]
    rawOutput: NotRequired[object]
    _meta: NotRequired[Mapping[str, object] | None]


PermissionOptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionOption(TypedDict):
    """Schema v1 `PermissionOption`."""

    optionId: str
    name: str
    kind: PermissionOptionKind | str
    _meta: NotRequired[Mapping[str, object] | None]


class RequestPermissionRequest(TypedDict):
    """Params of `session/request_permission` (v1/tool-calls)."""

    sessionId: str
    toolCall: ToolCallUpdate
    options: Sequence[PermissionOption]
    _meta: NotRequired[Mapping[str, object] | None]


class RequestPermissionOutcomeCancelled(TypedDict):
    """Schema v1 `RequestPermissionOutcome`: `outcome` `cancelled`."""

    outcome: Literal["cancelled"]


class RequestPermissionOutcomeSelected(TypedDict):
    """Schema v1 `RequestPermissionOutcome`: `outcome` `selected`."""

    outcome: Literal["selected"]
    optionId: str
    _meta: NotRequired[Mapping[str, object] | None]


RequestPermissionOutcome = RequestPermissionOutcomeCancelled | RequestPermissionOutcomeSelected


class RequestPermissionResponse(TypedDict):
    """Result of `session/request_permission` (v1/tool-calls)."""

    outcome: RequestPermissionOutcome
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateUserMessageChunk(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `user_message_chunk`."""

    sessionUpdate: Literal["user_message_chunk"]
    content: ContentBlock
    messageId: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateAgentMessageChunk(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `agent_message_chunk`."""

    sessionUpdate: Literal["agent_message_chunk"]
    content: ContentBlock
    messageId: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateAgentThoughtChunk(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `agent_thought_chunk`."""

    sessionUpdate: Literal["agent_thought_chunk"]
    content: ContentBlock
    messageId: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateToolCall(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `tool_call`."""

    sessionUpdate: Literal["tool_call"]
    toolCallId: str
    title: str
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
    content: NotRequired[Sequence[ToolCallContent] | None]
    locations: NotRequired[Sequence[ToolCallLocation] | None]
    rawInput: NotRequired[object]
    rawOutput: NotRequired[object]
    _meta: NotRequired[Mapping[str, object] | None]


PlanEntryPriority = Literal["high", "medium", "low"]
PlanEntryStatus = Literal["pending", "in_progress", "completed"]


class PlanEntry(TypedDict):
    """Schema v1 `PlanEntry`."""

    content: str
    priority: PlanEntryPriority | str
    status: PlanEntryStatus | str
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdatePlan(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `plan`."""

    sessionUpdate: Literal["plan"]
    entries: Sequence[PlanEntry]
    _meta: NotRequired[Mapping[str, object] | None]


class UnstructuredCommandInput(TypedDict):
    """Schema v1 `UnstructuredCommandInput`."""

    hint: str
    _meta: NotRequired[Mapping[str, object] | None]


class AvailableCommand(TypedDict):
    """Schema v1 `AvailableCommand`."""

    name: str
    description: str
    input: NotRequired[UnstructuredCommandInput | None]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateAvailableCommandsUpdate(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `available_commands_update`."""

    sessionUpdate: Literal["available_commands_update"]
    availableCommands: Sequence[AvailableCommand]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateCurrentModeUpdate(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `current_mode_update`."""

    sessionUpdate: Literal["current_mode_update"]
    currentModeId: str
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateConfigOptionUpdate(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `config_option_update`."""

    sessionUpdate: Literal["config_option_update"]
    configOptions: Sequence[SessionConfigOption]
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateSessionInfoUpdate(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `session_info_update`."""

    sessionUpdate: Literal["session_info_update"]
    title: NotRequired[str | None]
    updatedAt: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class Cost(TypedDict):
    """Schema v1 `Cost`."""

    amount: float
    currency: str
    _meta: NotRequired[Mapping[str, object] | None]


class SessionUpdateUsageUpdate(TypedDict):
    """Schema v1 `SessionUpdate`: `sessionUpdate` `usage_update`."""

    sessionUpdate: Literal["usage_update"]
    used: int
    size: int
    cost: NotRequired[Cost | None]
    _meta: NotRequired[Mapping[str, object] | None]


SessionUpdate = (
    SessionUpdateUserMessageChunk
    | SessionUpdateAgentMessageChunk
    | SessionUpdateAgentThoughtChunk
    | SessionUpdateToolCall
    | SessionUpdateToolCallUpdate
    | SessionUpdatePlan
    | SessionUpdateAvailableCommandsUpdate
    | SessionUpdateCurrentModeUpdate
    | SessionUpdateConfigOptionUpdate
    | SessionUpdateSessionInfoUpdate
    | SessionUpdateUsageUpdate
)


class SessionNotification(TypedDict):
    """Params of `session/update` (v1/prompt-turn)."""

    sessionId: str
    update: SessionUpdate
    _meta: NotRequired[Mapping[str, object] | None]


class WriteTextFileRequest(TypedDict):
    """Params of `fs/write_text_file` (v1/file-system)."""

    sessionId: str
    path: str
    content: str
    _meta: NotRequired[Mapping[str, object] | None]


class WriteTextFileResponse(TypedDict):
    """Result of `fs/write_text_file` (v1/file-system)."""

    _meta: NotRequired[Mapping[str, object] | None]


class ReadTextFileRequest(TypedDict):
    """Params of `fs/read_text_file` (v1/file-system)."""

    sessionId: str
    path: str
    line: NotRequired[int | None]
    limit: NotRequired[int | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ReadTextFileResponse(TypedDict):
    """Result of `fs/read_text_file` (v1/file-system)."""

    content: str
    _meta: NotRequired[Mapping[str, object] | None]


class CreateTerminalRequest(TypedDict):
    """Params of `terminal/create` (v1/terminals)."""

    sessionId: str
    command: str
    args: NotRequired[list[str]]
    env: NotRequired[Sequence[EnvVariable]]
    cwd: NotRequired[str | None]
    outputByteLimit: NotRequired[int | None]
    _meta: NotRequired[Mapping[str, object] | None]


class CreateTerminalResponse(TypedDict):
    """Result of `terminal/create` (v1/terminals)."""

    terminalId: str
    _meta: NotRequired[Mapping[str, object] | None]


class TerminalOutputRequest(TypedDict):
    """Params of `terminal/output` (v1/terminals)."""

    sessionId: str
    terminalId: str
    _meta: NotRequired[Mapping[str, object] | None]


class TerminalExitStatus(TypedDict):
    """Schema v1 `TerminalExitStatus`."""

    exitCode: NotRequired[int | None]
    signal: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class TerminalOutputResponse(TypedDict):
    """Result of `terminal/output` (v1/terminals)."""

    output: str
    truncated: bool
    exitStatus: NotRequired[TerminalExitStatus | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ReleaseTerminalRequest(TypedDict):
    """Params of `terminal/release` (v1/terminals)."""

    sessionId: str
    terminalId: str
    _meta: NotRequired[Mapping[str, object] | None]


class ReleaseTerminalResponse(TypedDict):
    """Result of `terminal/release` (v1/terminals)."""

    _meta: NotRequired[Mapping[str, object] | None]


class WaitForTerminalExitRequest(TypedDict):
    """Params of `terminal/wait_for_exit` (v1/terminals)."""

    sessionId: str
    terminalId: str
    _meta: NotRequired[Mapping[str, object] | None]


class WaitForTerminalExitResponse(TypedDict):
    """Result of `terminal/wait_for_exit` (v1/terminals)."""

    exitCode: NotRequired[int | None]
    signal: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class KillTerminalRequest(TypedDict):
    """Params of `terminal/kill` (v1/terminals)."""

    sessionId: str
    terminalId: str
    _meta: NotRequired[Mapping[str, object] | None]


class KillTerminalResponse(TypedDict):
    """Result of `terminal/kill` (v1/terminals)."""

    _meta: NotRequired[Mapping[str, object] | None]


ElicitationSchemaType = Literal["object"]
StringFormat = Literal["email", "uri", "date", "date-time"]


class EnumOption(TypedDict):
    """Schema v1 `EnumOption`."""

    const: str
    title: str
    description: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ElicitationPropertySchemaString(TypedDict):
    """Schema v1 `ElicitationPropertySchema`: `type` `string`."""

    type: Literal["string"]
    title: NotRequired[str | None]
    description: NotRequired[str | None]
    minLength: NotRequired[int | None]
    maxLength: NotRequired[int | None]
    pattern: NotRequired[str | None]
    format: NotRequired[StringFormat | str | None]
    default: NotRequired[str | None]
    enum: NotRequired[list[str] | None]
    oneOf: NotRequired[Sequence[EnumOption] | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ElicitationPropertySchemaNumber(TypedDict):
    """Schema v1 `ElicitationPropertySchema`: `type` `number`."""

    type: Literal["number"]
    title: NotRequired[str | None]
    description: NotRequired[str | None]
    minimum: NotRequired[float | None]
    maximum: NotRequired[float | None]
    default: NotRequired[float | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ElicitationPropertySchemaInteger(TypedDict):
    """Schema v1 `ElicitationPropertySchema`: `type` `integer`."""

    type: Literal["integer"]
    title: NotRequired[str | None]
    description: NotRequired[str | None]
    minimum: NotRequired[int | None]
    maximum: NotRequired[int | None]
    default: NotRequired[int | None]
    _meta: NotRequired[Mapping[str, object] | None]


class ElicitationPropertySchemaBoolean(TypedDict):
    """Schema v1 `ElicitationPropertySchema`: `type` `boolean`."""

    type: Literal["boolean"]
    title: NotRequired[str | None]
    description: NotRequired[str | None]
    default: NotRequired[bool | None]
    _meta: NotRequired[Mapping[str, object] | None]


class MultiSelectItemsString(TypedDict):
    """Schema v1 `MultiSelectItems`: `type` `string`."""

    type: Literal["string"]
    enum: list[str]
    _meta: NotRequired[Mapping[str, object] | None]


class TitledMultiSelectItems(TypedDict):
    """Schema v1 `TitledMultiSelectItems`."""

    anyOf: Sequence[EnumOption]
    _meta: NotRequired[Mapping[str, object] | None]


MultiSelectItems = MultiSelectItemsString | TitledMultiSelectItems


class ElicitationPropertySchemaArray(TypedDict):
    """Schema v1 `ElicitationPropertySchema`: `type` `array`."""

    type: Literal["array"]
    title: NotRequired[str | None]
    description: NotRequired[str | None]
    minItems: NotRequired[int | None]
    maxItems: NotRequired[int | None]
    items: MultiSelectItems
    default: NotRequired[list[str] | None]
    _meta: NotRequired[Mapping[str, object] | None]


ElicitationPropertySchema = (
    ElicitationPropertySchemaString
    | ElicitationPropertySchemaNumber
    | ElicitationPropertySchemaInteger
    | ElicitationPropertySchemaBoolean
    | ElicitationPropertySchemaArray
)


class ElicitationSchema(TypedDict):
    """Schema v1 `ElicitationSchema`."""

    type: NotRequired[ElicitationSchemaType | str]
    title: NotRequired[str | None]
    properties: NotRequired[Mapping[str, ElicitationPropertySchema]]
    required: NotRequired[list[str] | None]
    description: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class CreateElicitationRequestFormSession(TypedDict):
    """Params of `elicitation/create` (v1/elicitation): `mode` `form`."""

    message: str
    mode: Literal["form"]
    requestedSchema: ElicitationSchema
    sessionId: str
    toolCallId: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


RequestId = int | str | None


class CreateElicitationRequestFormRequest(TypedDict):
    """Params of `elicitation/create` (v1/elicitation): `mode` `form`."""

    message: str
    mode: Literal["form"]
    requestedSchema: ElicitationSchema
    requestId: RequestId
    _meta: NotRequired[Mapping[str, object] | None]


class CreateElicitationRequestUrlSession(TypedDict):
    """Params of `elicitation/create` (v1/elicitation): `mode` `url`."""

    message: str
    mode: Literal["url"]
    elicitationId: str
    url: str
    sessionId: str
    toolCallId: NotRequired[str | None]
    _meta: NotRequired[Mapping[str, object] | None]


class CreateElicitationRequestUrlRequest(TypedDict):
    """Params of `elicitation/create` (v1/elicitation): `mode` `url`."""

    message: str
    mode: Literal["url"]
    elicitationId: str
    url: str
    requestId: RequestId
    _meta: NotRequired[Mapping[str, object] | None]


CreateElicitationRequest = (
    CreateElicitationRequestFormSession
    | CreateElicitationRequestFormRequest
    | CreateElicitationRequestUrlSession
    | CreateElicitationRequestUrlRequest
)
ElicitationContentValue = str | int | float | bool | list[str]


class CreateElicitationResponseAccept(TypedDict):
    """Result of `elicitation/create` (v1/elicitation): `action` `accept`."""

    action: Literal["accept"]
    content: NotRequired[Mapping[str, ElicitationContentValue] | None]
    _meta: NotRequired[Mapping[str, object] | None]


class CreateElicitationResponseDecline(TypedDict):
    """Result of `elicitation/create` (v1/elicitation): `action` `decline`."""

    action: Literal["decline"]
    _meta: NotRequired[Mapping[str, object] | None]


class CreateElicitationResponseCancel(TypedDict):
    """Result of `elicitation/create` (v1/elicitation): `action` `cancel`."""

    action: Literal["cancel"]
    _meta: NotRequired[Mapping[str, object] | None]


CreateElicitationResponse = (
    CreateElicitationResponseAccept
    | CreateElicitationResponseDecline
    | CreateElicitationResponseCancel
)


class CompleteElicitationNotification(TypedDict):
    """Params of `elicitation/complete` (v1/elicitation)."""

    elicitationId: str
    _meta: NotRequired[Mapping[str, object] | None]


class CancelRequestNotification(TypedDict):
    """Params of `$/cancel_request` (v1/cancellation)."""

    requestId: RequestId
    _meta: NotRequired[Mapping[str, object] | None]


ErrorCode = Literal[-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002] | int


class Error(TypedDict):
    """Schema v1 `Error`."""

    code: ErrorCode
    message: str
    data: NotRequired[object]
