"""The official Python SDK as judge: our client against its agent, our agents against its client."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse, TextContentBlock

from tests.interop.drive import COLOURS, Say, converse

ROOT = Path(__file__).resolve().parents[2]
SDK_AGENT = [sys.executable, str(Path(__file__).with_name("sdk_agent.py"))]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("colour", COLOURS)
def test_our_client_and_the_sdks_agent(colour: str, tmp_path: Path) -> None:
    says = [
        Say("hello"),
        Say("tool", "allow"),
        Say("tool", "reject"),
        Say("tool"),
        Say("wait", cancel=True),
        Say("hello"),
    ]
    turns = converse(colour, SDK_AGENT, says, cwd=tmp_path, env=ENVIRONMENT)
    hello = "Héllo wörld\u2028"
    assert [turn.text for turn in turns] == [hello, hello + "[yes]", hello + "[no]", hello + "[none]", hello, hello]
    assert [turn.stop_reason for turn in turns] == ["end_turn"] * 4 + ["cancelled", "end_turn"]
    assert [len(turn.asked) for turn in turns] == [0, 1, 1, 1, 0, 0]
    # The request holds only the id; the title is what the tool call before it said.
    assert turns[1].asked[0].title == "Look"
    assert turns[1].asked[0].tool_kind == "read"


class SdkClient:
    """Collects what the agent sends, and allows or rejects."""

    def __init__(self, option_id: str | None) -> None:
        self.option_id = option_id
        self.text = ""
        self.kinds: list[str] = []
        self.seen = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        self.kinds.append(update.session_update)
        if update.session_update == "agent_message_chunk":
            self.text += update.content.text
            self.seen.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **rest: Any
    ) -> RequestPermissionResponse:
        if self.option_id is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        assert self.option_id in [option.option_id for option in options]
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.option_id))


async def talk(command: list[str], client: SdkClient, text: str, cwd: Path, *, cancel: bool = False) -> str:
    """One prompt through the SDK's client; the stop reason."""
    # Its Client is a protocol of 14 methods, all abstract to a type checker; two are enough at run time.
    served: Any = client
    async with acp.spawn_agent_process(served, command[0], *command[1:], env=ENVIRONMENT) as (connection, _process):
        initialized = await connection.initialize(protocol_version=1)
        assert initialized.protocol_version == 1
        session = await connection.new_session(cwd=str(cwd), mcp_servers=[])
        prompt = asyncio.ensure_future(
            connection.prompt(session_id=session.session_id, prompt=[TextContentBlock(type="text", text=text)])
        )
        if cancel:
            await client.seen.wait()
            await connection.cancel(session_id=session.session_id)
        return (await prompt).stop_reason


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_sdks_client_and_our_agent_on_anyio(backend: str, tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("our_agent.py")), backend]
    for option in ("yes", "no", None):
        client = SdkClient(option)
        assert asyncio.run(asyncio.wait_for(talk(command, client, "hello", tmp_path), 60)) == "end_turn"
        assert client.text == f"Héllo wörld\u2028[{option}]"
        assert client.kinds == [
            "agent_thought_chunk",
            "agent_message_chunk",
            "agent_message_chunk",
            "plan",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk",
        ]
    client = SdkClient(None)
    assert asyncio.run(asyncio.wait_for(talk(command, client, "wait", tmp_path, cancel=True), 60)) == "cancelled"


def test_the_sdks_client_and_our_agent_on_threads(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "acp_sync.examples.agent"]
    client = SdkClient(None)
    assert asyncio.run(asyncio.wait_for(talk(command, client, "hello there", tmp_path), 60)) == "end_turn"
    assert "hello there" in client.text
    assert {"agent_message_chunk", "tool_call", "tool_call_update"} <= set(client.kinds)
    client = SdkClient(None)
    assert asyncio.run(asyncio.wait_for(talk(command, client, "hello there", tmp_path, cancel=True), 60)) == "cancelled"
