"""The Agent Client Protocol on asyncio and trio, through anyio.

``open_agent`` starts an agent, ``connect`` reaches one over a transport, ``serve`` is one. Events and errors are those
of ``acp_core``.
"""

try:
    import anyio as _anyio  # noqa: F401 # said here, where a missing one can be explained
except ModuleNotFoundError as why:
    if why.name != "anyio":
        raise
    raise ModuleNotFoundError('acp_anyio needs anyio: pip install "acp-sansio[anyio]"', name="anyio") from why

from acp_core.inbox import HandlerFailed

from .agent import AgentMethods, AgentSession, AgentTurn, PromptAgent, serve, serve_on
from .client import Agent, Session, Turn, connect
from .process import open_agent
from .stdio import DescriptorStream

__all__ = (
    "Agent",
    "AgentMethods",
    "AgentSession",
    "AgentTurn",
    "DescriptorStream",
    "HandlerFailed",
    "PromptAgent",
    "Session",
    "Turn",
    "connect",
    "open_agent",
    "serve",
    "serve_on",
)
