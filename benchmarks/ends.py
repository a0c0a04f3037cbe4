"""The two ends of a connection as the rows need them: after a real handshake, in the middle of a turn."""

from __future__ import annotations

from acp_core import AgentConnection, ClientConnection, Limits, NewSessionRequested, Policy, RequestReceived

from . import traffic

# More than any row has open at a time.
MANY = 200_000
ASK = "_bench/ask"


def prompting(*, requests: int = 0, policy: bool = True, line: int = 64 << 20) -> ClientConnection:
    """A client whose session is prompting, with a policy or without; ``requests`` of its own are open."""
    client = ClientConnection(
        nonce="bench",
        permissions=Policy({"default": "allow"}) if policy else None,
        limits=Limits(max_open_requests=MANY, max_incoming_requests=MANY, max_line_bytes=line),
    )
    session = client.open_session("/work")
    client.data_to_send(0.0)
    client.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n', 0.0)
    list(client.events())
    client.data_to_send(0.0)
    opened = {"jsonrpc": "2.0", "id": 2, "result": {"sessionId": traffic.SESSION}}
    client.receive_data(traffic.compact(opened) + b"\n", 0.0)
    list(client.events())
    client.prompt(session, "go")
    for _ in range(requests):
        client.request(ASK)
    client.data_to_send(0.0)
    list(client.events())
    return client


def serving(*, turn: bool = False, requests: int = 0) -> tuple[AgentConnection, list[str]]:
    """An agent with one session, idle or in a turn, and the public ids of requests that wait for its answer."""
    agent = AgentConnection(
        nonce="bench",
        extensions=[ASK],
        limits=Limits(max_open_requests=MANY, max_incoming_requests=MANY),
    )
    waiting: list[str] = []

    def receive(message: dict[str, object]) -> None:
        agent.receive_data(traffic.compact({"jsonrpc": "2.0", **message}) + b"\n", 0.0)
        for event in agent.events():
            match event:
                case NewSessionRequested(request_id=request_id):
                    agent.accept(request_id, traffic.SESSION)
                case RequestReceived(method=method, request_id=request_id) if method == ASK:
                    waiting.append(request_id)

    receive({"id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    receive({"id": 1, "method": "session/new", "params": {"cwd": "/work", "mcpServers": []}})
    if turn:
        prompt = [{"type": "text", "text": "go"}]
        receive({"id": 2, "method": "session/prompt", "params": {"sessionId": traffic.SESSION, "prompt": prompt}})
    for number in range(requests):
        receive({"id": 10 + number, "method": ASK})
    agent.data_to_send(0.0)
    return agent, waiting
