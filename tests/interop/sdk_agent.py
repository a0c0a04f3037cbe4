"""An agent made with the official Python SDK: streams, announces a tool call, asks, sleeps until it is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import acp
from acp import helpers
from acp.schema import AgentCapabilities, PermissionOption, ToolCallUpdate


class SdkAgent:
    """What our client talks to in test_official_sdk."""

    def __init__(self) -> None:
        self.client: Any = None
        self.cancelled = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **rest: Any
    ) -> acp.InitializeResponse:
        return acp.InitializeResponse(protocol_version=1, agent_capabilities=AgentCapabilities(load_session=True))

    async def new_session(
        self, cwd: str, additional_directories: Any = None, mcp_servers: Any = None, **rest: Any
    ) -> acp.NewSessionResponse:
        return acp.NewSessionResponse(session_id="sdk-1")

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, additional_directories: Any = None, **rest: Any
    ) -> acp.LoadSessionResponse:
        await self.client.session_update(session_id, helpers.update_user_message_text("earlier question"))
        await self.client.session_update(session_id, helpers.update_agent_message_text("earlier answer"))
        return acp.LoadSessionResponse()

    async def cancel(self, session_id: str, **rest: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **rest: Any) -> acp.PromptResponse:
        self.cancelled.clear()
        text = prompt[0].text
        await self.client.session_update(session_id, helpers.update_agent_message_text("Héllo "))
        await self.client.session_update(session_id, helpers.update_agent_message_text("wörld\u2028"))
        if "wait" in text:
            await self.cancelled.wait()
            return acp.PromptResponse(stop_reason="cancelled")
        if "tool" in text:
            await self.client.session_update(session_id, helpers.start_tool_call("call-1", "Look", kind="read"))
            answer = await self.client.request_permission(
                session_id,
                ToolCallUpdate(tool_call_id="call-1"),
                [
                    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
                    PermissionOption(option_id="no", name="No", kind="reject_once"),
                ],
            )
            chosen = getattr(answer.outcome, "option_id", "none")
            await self.client.session_update(session_id, helpers.update_agent_message_text(f"[{chosen}]"))
        return acp.PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    # Its Agent is a protocol of 15 methods, all abstract to a type checker; those above are enough at run time.
    served: Any = SdkAgent()
    asyncio.run(acp.run_agent(served))
