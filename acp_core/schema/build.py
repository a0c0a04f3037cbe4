"""What people write by hand every day, from keyword arguments: content blocks, tool calls, plans, servers.

Every function returns the TypedDict of protocol version 1 that goes on the wire. An argument left out, or None, leaves
its key out; `meta` becomes ``_meta``. Nothing is checked here beyond the types: `acp_core.schema.validation` does that
for a whole message. Sources: v1/content, v1/tool-calls, v1/agent-plan, v1/session-setup, v1/session-list.
"""

from __future__ import annotations

from binascii import b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from acp_core.schema.v1_types import (
        Annotations,
        ContentBlock,
        ContentBlockAudio,
        ContentBlockImage,
        ContentBlockResource,
        ContentBlockResourceLink,
        ContentBlockText,
        EnvVariable,
        HttpHeader,
        McpServerHttp,
        McpServerSse,
        McpServerStdio,
        PermissionOption,
        PermissionOptionKind,
        PlanEntry,
        PlanEntryPriority,
        PlanEntryStatus,
        Role,
        SessionUpdatePlan,
        SessionUpdateSessionInfoUpdate,
        SessionUpdateToolCall,
        SessionUpdateToolCallUpdate,
        ToolCallContent,
        ToolCallContentContent,
        ToolCallContentDiff,
        ToolCallContentTerminal,
        ToolCallLocation,
        ToolCallStatus,
        ToolCallUpdate,
        ToolKind,
    )

    Meta = Mapping[str, object]

__all__ = [
    "KEEP",
    "annotate",
    "audio",
    "blob_resource",
    "content",
    "diff",
    "image",
    "location",
    "mcp_http",
    "mcp_sse",
    "mcp_stdio",
    "permission_option",
    "plan",
    "plan_entry",
    "resource_link",
    "session_info",
    "terminal",
    "text",
    "text_resource",
    "tool_call",
    "tool_call_fields",
    "tool_call_update",
]


class _Keep:
    """Type of `KEEP`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "KEEP"


KEEP = _Keep()
"""Leaves a field out where None means something of its own: a JSON null."""


def _base64(data: bytes | str) -> str:
    return data if isinstance(data, str) else b2a_base64(data, newline=False).decode("ascii")


# Content blocks


def annotate(
    *,
    audience: Sequence[Role] | None = None,
    last_modified: str | None = None,
    priority: float | None = None,
    meta: Meta | None = None,
) -> Annotations:
    """Hints for the reader of a block; `last_modified` is ISO 8601 text, `priority` a number from 0 to 1."""
    out: Annotations = {}
    if audience is not None:
        out["audience"] = list(audience)
    if last_modified is not None:
        out["lastModified"] = last_modified
    if priority is not None:
        out["priority"] = priority
    if meta is not None:
        out["_meta"] = meta
    return out


def text(text: str, *, annotations: Annotations | None = None, meta: Meta | None = None) -> ContentBlockText:
    """A text block (Markdown, spec rule 96)."""
    out: ContentBlockText = {"type": "text", "text": text}
    if annotations is not None:
        out["annotations"] = annotations
    if meta is not None:
        out["_meta"] = meta
    return out


def image(
    data: bytes | str,
    *,
    mime_type: str,
    uri: str | None = None,
    annotations: Annotations | None = None,
    meta: Meta | None = None,
) -> ContentBlockImage:
    """An image block; `data` as bytes, or as text that is base64 already. Needs the `image` capability (spec rule
    37)."""
    out: ContentBlockImage = {"type": "image", "data": _base64(data), "mimeType": mime_type}
    if uri is not None:
        out["uri"] = uri
    if annotations is not None:
        out["annotations"] = annotations
    if meta is not None:
        out["_meta"] = meta
    return out


def audio(
    data: bytes | str, *, mime_type: str, annotations: Annotations | None = None, meta: Meta | None = None
) -> ContentBlockAudio:
    """An audio block; `data` as bytes, or as text that is base64 already. Needs the `audio` capability (spec rule
    37)."""
    out: ContentBlockAudio = {"type": "audio", "data": _base64(data), "mimeType": mime_type}
    if annotations is not None:
        out["annotations"] = annotations
    if meta is not None:
        out["_meta"] = meta
    return out


def resource_link(
    uri: str,
    *,
    name: str,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    annotations: Annotations | None = None,
    meta: Meta | None = None,
) -> ContentBlockResourceLink:
    """A reference to something the reader can fetch; `size` in bytes."""
    out: ContentBlockResourceLink = {"type": "resource_link", "name": name, "uri": uri}
    if title is not None:
        out["title"] = title
    if description is not None:
        out["description"] = description
    if mime_type is not None:
        out["mimeType"] = mime_type
    if size is not None:
        out["size"] = size
    if annotations is not None:
        out["annotations"] = annotations
    if meta is not None:
        out["_meta"] = meta
    return out


def text_resource(
    uri: str,
    text: str,
    *,
    mime_type: str | None = None,
    annotations: Annotations | None = None,
    meta: Meta | None = None,
) -> ContentBlockResource:
    """An embedded resource with text. Needs the `embeddedContext` capability (spec rule 37)."""
    out: ContentBlockResource = {"type": "resource", "resource": {"uri": uri, "text": text}}
    if mime_type is not None:
        out["resource"]["mimeType"] = mime_type
    if annotations is not None:
        out["annotations"] = annotations
    if meta is not None:
        out["_meta"] = meta
    return out


def blob_resource(
    uri: str,
    data: bytes | str,
    *,
    mime_type: str | None = None,
    annotations: Annotations | None = None,
    meta: Meta | None = None,
) -> ContentBlockResource:
    """An embedded resource with bytes; `data` as in `image`. Needs the `embeddedContext` capability (spec rule 37)."""
    out: ContentBlockResource = {"type": "resource", "resource": {"uri": uri, "blob": _base64(data)}}
    if mime_type is not None:
        out["resource"]["mimeType"] = mime_type
    if annotations is not None:
        out["annotations"] = annotations
    if meta is not None:
        out["_meta"] = meta
    return out


# Tool calls


def content(block: ContentBlock, *, meta: Meta | None = None) -> ToolCallContentContent:
    """A content block as content of a tool call."""
    out: ToolCallContentContent = {"type": "content", "content": block}
    if meta is not None:
        out["_meta"] = meta
    return out


def diff(path: str, *, new_text: str, old_text: str | None = None, meta: Meta | None = None) -> ToolCallContentDiff:
    """A change of one file as content of a tool call; `path` is absolute (spec rule 12), no `old_text` is a new
    file."""
    out: ToolCallContentDiff = {"type": "diff", "path": path, "newText": new_text}
    if old_text is not None:
        out["oldText"] = old_text
    if meta is not None:
        out["_meta"] = meta
    return out


def terminal(terminal_id: str, *, meta: Meta | None = None) -> ToolCallContentTerminal:
    """A terminal as content of a tool call; embed it before it is released (spec rule 102)."""
    out: ToolCallContentTerminal = {"type": "terminal", "terminalId": terminal_id}
    if meta is not None:
        out["_meta"] = meta
    return out


def location(path: str, *, line: int | None = None, meta: Meta | None = None) -> ToolCallLocation:
    """A place a tool call works at; `path` is absolute, `line` starts at 1 (spec rule 12)."""
    out: ToolCallLocation = {"path": path}
    if line is not None:
        out["line"] = line
    if meta is not None:
        out["_meta"] = meta
    return out


def tool_call(
    tool_call_id: str,
    *,
    title: str,
    kind: ToolKind | None = None,
    status: ToolCallStatus | None = None,
    content: Sequence[ToolCallContent] | None = None,
    locations: Sequence[ToolCallLocation] | None = None,
    raw_input: object = KEEP,
    raw_output: object = KEEP,
    meta: Meta | None = None,
) -> SessionUpdateToolCall:
    """The update that starts a tool call; `tool_call_id` is unique in the session (spec rule 15)."""
    out: SessionUpdateToolCall = {"sessionUpdate": "tool_call", "toolCallId": tool_call_id, "title": title}
    if kind is not None:
        out["kind"] = kind
    if status is not None:
        out["status"] = status
    if content is not None:
        out["content"] = list(content)
    if locations is not None:
        out["locations"] = list(locations)
    if raw_input is not KEEP:
        out["rawInput"] = raw_input
    if raw_output is not KEEP:
        out["rawOutput"] = raw_output
    if meta is not None:
        out["_meta"] = meta
    return out


def tool_call_fields(
    tool_call_id: str,
    *,
    title: str | None = None,
    kind: ToolKind | None = None,
    status: ToolCallStatus | None = None,
    content: Sequence[ToolCallContent] | None = None,
    locations: Sequence[ToolCallLocation] | None = None,
    raw_input: object = KEEP,
    raw_output: object = KEEP,
    meta: Meta | None = None,
) -> ToolCallUpdate:
    """What a permission request says of its tool call. What is left out is unchanged; lists replace the old ones."""
    out: ToolCallUpdate = {"toolCallId": tool_call_id}
    if title is not None:
        out["title"] = title
    if kind is not None:
        out["kind"] = kind
    if status is not None:
        out["status"] = status
    if content is not None:
        out["content"] = list(content)
    if locations is not None:
        out["locations"] = list(locations)
    if raw_input is not KEEP:
        out["rawInput"] = raw_input
    if raw_output is not KEEP:
        out["rawOutput"] = raw_output
    if meta is not None:
        out["_meta"] = meta
    return out


def tool_call_update(
    tool_call_id: str,
    *,
    title: str | None = None,
    kind: ToolKind | None = None,
    status: ToolCallStatus | None = None,
    content: Sequence[ToolCallContent] | None = None,
    locations: Sequence[ToolCallLocation] | None = None,
    raw_input: object = KEEP,
    raw_output: object = KEEP,
    meta: Meta | None = None,
) -> SessionUpdateToolCallUpdate:
    """The update that changes a tool call; fields as in `tool_call_fields`."""
    fields = tool_call_fields(
        tool_call_id,
        title=title,
        kind=kind,
        status=status,
        content=content,
        locations=locations,
        raw_input=raw_input,
        raw_output=raw_output,
        meta=meta,
    )
    return {"sessionUpdate": "tool_call_update", **fields}


# Plans, permissions, session state


def plan_entry(
    content: str, *, priority: PlanEntryPriority, status: PlanEntryStatus, meta: Meta | None = None
) -> PlanEntry:
    """One step of a plan."""
    out: PlanEntry = {"content": content, "priority": priority, "status": status}
    if meta is not None:
        out["_meta"] = meta
    return out


def plan(entries: Sequence[PlanEntry], *, meta: Meta | None = None) -> SessionUpdatePlan:
    """The update with the whole plan: every entry, every time (spec rule 92)."""
    out: SessionUpdatePlan = {"sessionUpdate": "plan", "entries": list(entries)}
    if meta is not None:
        out["_meta"] = meta
    return out


def permission_option(
    option_id: str, *, name: str, kind: PermissionOptionKind, meta: Meta | None = None
) -> PermissionOption:
    """One answer that a permission request offers."""
    out: PermissionOption = {"optionId": option_id, "name": name, "kind": kind}
    if meta is not None:
        out["_meta"] = meta
    return out


def session_info(
    *, title: str | _Keep | None = KEEP, updated_at: str | _Keep | None = KEEP, meta: Meta | None = None
) -> SessionUpdateSessionInfoUpdate:
    """The update of a session's title and time (ISO 8601); None clears a field, left out it stays."""
    out: SessionUpdateSessionInfoUpdate = {"sessionUpdate": "session_info_update"}
    if not isinstance(title, _Keep):
        out["title"] = title
    if not isinstance(updated_at, _Keep):
        out["updatedAt"] = updated_at
    if meta is not None:
        out["_meta"] = meta
    return out


# MCP servers


def mcp_stdio(
    name: str,
    *,
    command: str,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    meta: Meta | None = None,
) -> McpServerStdio:
    """An MCP server that the agent starts as a process. `args` and `env` go on the wire even when empty (D14)."""
    variables: list[EnvVariable] = [{"name": key, "value": value} for key, value in _pairs("env", env)]
    out: McpServerStdio = {"name": name, "command": command, "args": list(args), "env": variables}
    if meta is not None:
        out["_meta"] = meta
    return out


def _pairs(name: str, given: Mapping[str, str] | None) -> Iterable[tuple[str, str]]:
    if given is not None and not hasattr(given, "items"):
        raise TypeError(f"{name} must be a mapping of names to values, not {type(given).__name__}")
    return (given or {}).items()


def _headers(headers: Mapping[str, str] | None) -> list[HttpHeader]:
    return [{"name": key, "value": value} for key, value in _pairs("headers", headers)]


def mcp_http(
    name: str, *, url: str, headers: Mapping[str, str] | None = None, meta: Meta | None = None
) -> McpServerHttp:
    """An MCP server over HTTP. Needs the agent's `mcpCapabilities.http` (spec rule 46)."""
    out: McpServerHttp = {"type": "http", "name": name, "url": url, "headers": _headers(headers)}
    if meta is not None:
        out["_meta"] = meta
    return out


def mcp_sse(name: str, *, url: str, headers: Mapping[str, str] | None = None, meta: Meta | None = None) -> McpServerSse:
    """An MCP server over server-sent events. Needs the agent's `mcpCapabilities.sse` (spec rule 46)."""
    out: McpServerSse = {"type": "sse", "name": name, "url": url, "headers": _headers(headers)}
    if meta is not None:
        out["_meta"] = meta
    return out
