"""One fixed conversation and its digest; test_properties.py compares it between interpreters.

It imports nothing but the library, so that ``python -m tests.core.conversation`` starts fast.
"""

from __future__ import annotations

import hashlib

from acp_core import ClientConnection, LocalProtocolError, Policy
from acp_core.testing import LinkedPair, Pipe, ScriptedAgent, Step, Text, event_key


def conversation() -> str:
    """A digest of everything that is said and told in a conversation with some of everything in it."""
    steps: list[Step] = [
        *ScriptedAgent.opening("s1", capabilities={"sessionCapabilities": {"close": {}, "list": {}}}),
        *ScriptedAgent.turn("Hello ", Text("wörld\u2028")),
        *ScriptedAgent.turn(stop_reason="what is this"),
    ]
    client = ClientConnection(nonce="n", permissions=Policy({"default": "deny", "read": "allow"}))
    pair = LinkedPair(client, ScriptedAgent(steps), to_agent=Pipe(chunks=3), to_client=Pipe(chunks=5, delay=0.1))
    session = client.open_session("/work")
    client.prompt(session, "hi")
    pair.exhaust()
    client.prompt(session, "again")
    pair.exhaust()
    refusal = ""
    try:
        client.set_mode(session, "x")
    except LocalProtocolError as why:
        refusal = str(why)
    client.close()
    pair.exhaust()
    digest = hashlib.sha256(pair.to_agent.data + pair.to_client.data + refusal.encode())
    for event in pair.client_events:
        digest.update(event_key(event, at=True).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    print(conversation())
