"""An agent on acp_anyio, run on the backend that its argument names: what the official SDK's client talks to."""

from __future__ import annotations

import sys

import anyio

import acp_anyio
from acp_core.schema import build
from acp_core.schema.v1 import StopReason


class Agent:
    """Streams, thinks, plans, announces a tool call, asks for it, and says what was answered."""

    async def prompt(self, turn: acp_anyio.AgentTurn) -> StopReason:
        """One turn."""
        await turn.think("hm")
        await turn.send("Héllo ", message_id="m1")
        await turn.send("wörld\u2028", message_id="m1")
        if "wait" in turn.text:
            await anyio.sleep_forever()
        await turn.update(build.plan([build.plan_entry("Look", priority="high", status="in_progress")]))
        await turn.update(build.tool_call("call-1", title="Look", kind="read", status="pending"))
        options = [
            build.permission_option("yes", name="Yes", kind="allow_once"),
            build.permission_option("no", name="No", kind="reject_once"),
        ]
        chosen = await turn.ask_permission(build.tool_call_fields("call-1"), options)
        await turn.update(build.tool_call_update("call-1", status="completed"))
        await turn.send(f"[{chosen}]", message_id="m2")
        return "end_turn"


async def main() -> None:
    """Serve until the input ends."""
    await acp_anyio.serve(Agent())


if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1])
