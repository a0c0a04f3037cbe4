"""The draft methods of protocol version 1, as data. ``methods=V1_UNSTABLE`` is the switch that turns them on.

They come as RequestReceived and NotificationReceived, and are sent by ``request`` and ``notify``. Without the switch
they are methods that nobody knows.
"""

from __future__ import annotations

from .methods import AGENT, BOTH, CLIENT, NOTIFICATION_KIND, REQUEST_KIND, V1, Gate, Method, MethodTable
from .shapes import MCP_BY_TYPE, MCP_STDIO, SETUP, STR, Tagged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .shapes import Shape

_NES = Gate("object", "nes")
_MCP = Gate("bool", "mcpCapabilities", "acp")


def _request(key: str, wire: str, gate: Gate, handler: str = AGENT, kind: str = REQUEST_KIND) -> Method:
    paths = ("cwd",) if key == "session_fork" else ()
    # It is the agent that says it can reach MCP servers over this connection, whoever handles the message.
    return Method(
        key, wire, handler, kind, gate=gate, advertiser=AGENT, event="RequestReceived", paths=paths, stable=False
    )


def _notification(key: str, wire: str, gate: Gate) -> Method:
    return Method(key, wire, AGENT, NOTIFICATION_KIND, gate=gate, stable=False)


def _document(name: str) -> Method:
    gate = Gate("object", "nes", "events", "document", f"did{name}")
    return _notification(f"document_did_{name.lower()}", f"document/did{name}", gate)


# A server that this connection carries itself.
_SERVERS = Tagged("type", {**MCP_BY_TYPE, "acp": {"name": STR, "serverId": STR}}, bare=MCP_STDIO)
_SETUP: Shape = {**SETUP, "mcpServers": [_SERVERS]}


V1_UNSTABLE = MethodTable(
    1,
    (
        *(row.shaped(_SETUP) if row.params is SETUP else row for row in V1),
        _request("session_fork", "session/fork", Gate("object", "sessionCapabilities", "fork")),
        _request("providers_list", "providers/list", Gate("object", "providers")),
        _request("providers_set", "providers/set", Gate("object", "providers")),
        _request("providers_disable", "providers/disable", Gate("object", "providers")),
        _request("nes_start", "nes/start", _NES),
        _request("nes_suggest", "nes/suggest", _NES),
        _request("nes_close", "nes/close", _NES),
        _notification("nes_accept", "nes/accept", _NES),
        _notification("nes_reject", "nes/reject", _NES),
        _document("Open"),
        _document("Change"),
        _document("Close"),
        _document("Save"),
        _document("Focus"),
        _request("mcp_connect", "mcp/connect", _MCP, CLIENT),
        _request("mcp_disconnect", "mcp/disconnect", _MCP, CLIENT),
        _request("mcp_message", "mcp/message", _MCP, BOTH, BOTH),
    ),
)
