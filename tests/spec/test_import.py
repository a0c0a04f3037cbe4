"""The schema costs nothing to those who do not use it. The benchmarks measure what importing costs (I1 to I3)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CONVERSATION = """
import sys
sys.path.insert(0, {root!r})
from acp_core import AgentConnection, ClientConnection, Policy
client = ClientConnection(nonce="c", permissions=Policy({{"default": "deny"}}), capabilities={{"terminal": True}})
agent = AgentConnection(nonce="a", capabilities={{}})
session = client.open_session("/work")
client.prompt(session, "hi")
said = []
for now in range(20):
    for one, other in ((client, agent), (agent, client)):
        data = one.data_to_send(float(now))
        if data:
            other.receive_data(data, float(now))
        for event in other.events():
            said.append(type(event).__name__)
            if said[-1] == "NewSessionRequested":
                agent.accept(event.request_id, "s1")
            if said[-1] == "PromptRequested":
                agent.update_text("s1", "message", delta="hello")
                agent.update("s1", {{"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"}})
                no = {{"optionId": "n", "name": "N", "kind": "reject_once"}}
                agent.ask_permission("s1", {{"toolCallId": "t"}}, [no])
            if said[-1] == "RequestSettled" and other is agent:
                agent.end_turn("s1")
assert {{"PermissionAnswered", "TurnEnded"}} <= set(said), said
print(*sorted(sys.modules))
"""


def test_a_whole_conversation_loads_no_schema() -> None:
    """The validator costs nothing where it is not called: it is not even there."""
    code = CONVERSATION.format(root=str(ROOT))
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    loaded = set(ran.stdout.split())
    assert {"acp_core.client", "acp_core.agent", "acp_core.codec"} <= loaded
    assert [name for name in loaded if name.startswith(("acp_core.schema", "acp_core.testing"))] == []
    assert loaded & {"typing", "dataclasses", "inspect", "asyncio"} == set()
