"""One message for every method, update kind and content type of version 1, made with the builders.

Typed by hand, so checking this file with mypy and pyright checks the generated types; the values are checked against
our validator, the official schema and the official Python SDK.
"""

from __future__ import annotations

from typing import TypeAlias

from acp_core.schema import Notification, Request, build, v1, v1_unstable

Message: TypeAlias = "Request[object] | Notification"

SESSION = "sess-1"
BLOCKS: list[v1.ContentBlock] = [
    build.text("hello", annotations=build.annotate(audience=["user"], priority=0.5, last_modified="2026-01-01")),
    build.image(b"\x89PNG", mime_type="image/png", uri="file:///a.png"),
    build.audio("UklGRg==", mime_type="audio/wav"),
    build.resource_link("file:///a.txt", name="a.txt", title="A", description="d", mime_type="text/plain", size=3),
    build.text_resource("file:///a.txt", "abc", mime_type="text/plain"),
    build.blob_resource("file:///a.bin", b"\x00\x01", mime_type="application/octet-stream"),
]
CONTENTS: list[v1.ToolCallContent] = [
    *map(build.content, BLOCKS),
    build.diff("/work/a.py", old_text="a", new_text="b"),
    build.diff("C:\\work\\a.py", new_text="b"),
    build.terminal("term-1"),
]
SERVERS: list[v1.McpServer] = [
    build.mcp_stdio("files", command="/usr/bin/files", args=["--stdio"], env={"KEY": "value"}),
    build.mcp_http("web", url="https://example.org/mcp", headers={"Authorization": "Bearer x"}),
    build.mcp_sse("old", url="https://example.org/sse"),
]
OPTIONS: list[v1.SessionConfigOption] = [
    {
        "id": "model",
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": "small",
        "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large", "description": None}],
    },
    {
        "id": "mode",
        "name": "Mode",
        "type": "select",
        "currentValue": "a",
        "options": [{"group": "g", "name": "Group", "options": [{"value": "a", "name": "A"}]}],
    },
    {"id": "web", "name": "Web", "type": "boolean", "currentValue": True},
]
MODES: v1.SessionModeState = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}


def chunk(block: v1.ContentBlock) -> v1.SessionUpdateUserMessageChunk:
    return {"sessionUpdate": "user_message_chunk", "content": block, "messageId": "m"}


UPDATES: list[v1.SessionUpdate] = [
    *map(chunk, BLOCKS),
    {"sessionUpdate": "agent_message_chunk", "content": build.text("hi")},
    {"sessionUpdate": "agent_thought_chunk", "content": build.text("hm"), "messageId": None},
    build.tool_call(
        "call-1",
        title="Read",
        kind="read",
        status="in_progress",
        content=CONTENTS,
        locations=[build.location("/work/a.py", line=1)],
        raw_input={"path": "a.py"},
        raw_output=None,
        meta={"x": 1},
    ),
    build.tool_call("call-2", title="Think"),
    build.tool_call_update("call-1", status="completed", content=[], title="Read a.py", kind="read", raw_output=[1]),
    build.plan([build.plan_entry("do it", priority="high", status="pending")]),
    {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "plan", "description": "d", "input": {"hint": "what"}}],
    },
    {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
    {"sessionUpdate": "config_option_update", "configOptions": OPTIONS},
    build.session_info(title="T", updated_at=None),
    build.session_info(),
    {"sessionUpdate": "usage_update", "used": 1, "size": 200_000, "cost": {"amount": 0.5, "currency": "USD"}},
]

MESSAGES: list[Message] = [
    v1.initialize(
        {
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": {"readTextFile": True, "writeTextFile": False},
                "terminal": True,
                "session": {"configOptions": {"boolean": {}}},
                "auth": {"terminal": True},
                "elicitation": {"form": {}, "url": {}},
            },
            "clientInfo": {"name": "editor", "title": "Editor", "version": "1"},
        }
    ),
    v1.authenticate({"methodId": "login"}),
    v1.logout(),
    v1.session_new({"cwd": "/work", "mcpServers": SERVERS, "additionalDirectories": ["/lib"]}),
    v1.session_load({"sessionId": SESSION, "cwd": "/work", "mcpServers": []}),
    v1.session_resume({"sessionId": SESSION, "cwd": "/work"}),
    v1.session_close({"sessionId": SESSION}),
    v1.session_list(),
    v1.session_list({"cwd": "/work", "cursor": "opaque"}),
    v1.session_delete({"sessionId": SESSION}),
    v1.session_set_mode({"sessionId": SESSION, "modeId": "ask"}),
    v1.session_set_config_option({"sessionId": SESSION, "configId": "model", "value": "small"}),
    v1.session_set_config_option({"sessionId": SESSION, "configId": "web", "type": "boolean", "value": False}),
    v1.session_prompt({"sessionId": SESSION, "prompt": BLOCKS, "_meta": {"traceparent": "00-x"}}),
    v1.session_cancel({"sessionId": SESSION}),
    *(v1.session_update({"sessionId": SESSION, "update": update}) for update in UPDATES),
    v1.session_request_permission(
        {
            "sessionId": SESSION,
            "toolCall": build.tool_call_fields("call-1", title="Write", kind="edit", content=CONTENTS),
            "options": [
                build.permission_option("yes", name="Allow", kind="allow_once"),
                build.permission_option("no", name="Reject", kind="reject_always"),
            ],
        }
    ),
    v1.fs_read_text_file({"sessionId": SESSION, "path": "/work/a.py", "line": 1, "limit": 10}),
    v1.fs_write_text_file({"sessionId": SESSION, "path": "/work/a.py", "content": "x\n"}),
    v1.terminal_create(
        {
            "sessionId": SESSION,
            "command": "make",
            "args": ["test"],
            "env": [{"name": "CI", "value": "1"}],
            "cwd": "/work",
            "outputByteLimit": 1 << 20,
        }
    ),
    v1.terminal_output({"sessionId": SESSION, "terminalId": "term-1"}),
    v1.terminal_wait_for_exit({"sessionId": SESSION, "terminalId": "term-1"}),
    v1.terminal_kill({"sessionId": SESSION, "terminalId": "term-1"}),
    v1.terminal_release({"sessionId": SESSION, "terminalId": "term-1"}),
    v1.elicitation_create(
        {
            "message": "Who are you?",
            "mode": "form",
            "sessionId": SESSION,
            "requestedSchema": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "title": "Name", "minLength": 1, "format": "email"},
                    "age": {"type": "integer", "minimum": 0, "default": 3},
                    "size": {"type": "number", "maximum": 2.5},
                    "sure": {"type": "boolean", "default": False},
                    "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
                    "more": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
                },
            },
        }
    ),
    v1.elicitation_create(
        {
            "message": "Log in",
            "mode": "url",
            "requestId": 3,
            "elicitationId": "e1",
            "url": "https://example.org/login",
        }
    ),
    v1.elicitation_complete({"elicitationId": "e1"}),
    v1.cancel_request({"requestId": "a"}),
]

INITIALIZED: v1.InitializeResponse = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": False},
        "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
        "auth": {"logout": {}},
    },
    "authMethods": [
        {"id": "login", "name": "Log in"},
        {"type": "terminal", "id": "term", "name": "Terminal", "args": ["login"], "env": {"A": "b"}},
    ],
    "agentInfo": {"name": "agent", "version": "1"},
}
NEW: v1.NewSessionResponse = {"sessionId": SESSION, "modes": MODES, "configOptions": OPTIONS}
LOADED: v1.LoadSessionResponse = {"modes": MODES, "configOptions": OPTIONS}
RESUMED: v1.ResumeSessionResponse = {}
LISTED: v1.ListSessionsResponse = {
    "sessions": [{"sessionId": SESSION, "cwd": "/work", "title": "T", "updatedAt": "2026-01-01T00:00:00Z"}],
    "nextCursor": "c",
}
STOPPED: v1.PromptResponse = {"stopReason": "end_turn"}
SELECTED: v1.RequestPermissionResponse = {"outcome": {"outcome": "selected", "optionId": "yes"}}
CANCELLED: v1.RequestPermissionResponse = {"outcome": {"outcome": "cancelled"}}
OUTPUT: v1.TerminalOutputResponse = {"output": "x", "truncated": False, "exitStatus": {"exitCode": 0}}
EXITED: v1.WaitForTerminalExitResponse = {"exitCode": None, "signal": "SIGKILL"}
ACCEPTED: v1.CreateElicitationResponse = {"action": "accept", "content": {"name": "x", "tags": ["a"], "age": 3}}
DECLINED: v1.CreateElicitationResponse = {"action": "decline"}
DISMISSED: v1.CreateElicitationResponse = {"action": "cancel"}
OPTIONS_SET: v1.SetSessionConfigOptionResponse = {"configOptions": OPTIONS}
FILE: v1.ReadTextFileResponse = {"content": "x"}
STARTED: v1.CreateTerminalResponse = {"terminalId": "term-1"}

RESULTS: list[tuple[str, object]] = [
    ("initialize", INITIALIZED),
    ("authenticate", {}),
    ("logout", {}),
    ("session_new", NEW),
    ("session_load", LOADED),
    ("session_resume", RESUMED),
    ("session_close", {}),
    ("session_list", LISTED),
    ("session_delete", {}),
    ("session_set_mode", {}),
    ("session_set_config_option", OPTIONS_SET),
    ("session_prompt", STOPPED),
    ("session_request_permission", SELECTED),
    ("session_request_permission", CANCELLED),
    ("fs_read_text_file", FILE),
    ("fs_write_text_file", {}),
    ("terminal_create", STARTED),
    ("terminal_output", OUTPUT),
    ("terminal_wait_for_exit", EXITED),
    ("terminal_kill", {}),
    ("terminal_release", {}),
    ("elicitation_create", ACCEPTED),
    ("elicitation_create", DECLINED),
    ("elicitation_create", DISMISSED),
]

UNSTABLE: list[Message] = [
    v1_unstable.session_fork({"sessionId": SESSION, "cwd": "/work"}),
    v1_unstable.mcp_message({"connectionId": "c", "method": "tools/list", "params": {}}),
    v1_unstable.mcp_message_notification({"connectionId": "c", "method": "notifications/initialized"}),
    v1_unstable.session_update(
        {"sessionId": SESSION, "update": {"sessionUpdate": "notice", "severity": "info", "title": "t"}}
    ),
    v1_unstable.session_update(
        {
            "sessionId": SESSION,
            "update": {"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "# x"}},
        }
    ),
    v1_unstable.session_list({"cwd": "/work"}),
]
