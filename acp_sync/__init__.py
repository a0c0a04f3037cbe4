"""The Agent Client Protocol for plain synchronous code: the names of ``acp_anyio``, with threads inside.

Client side: ``open_agent`` starts an agent as a process, ``connect`` talks to one over a transport that is there;
both give an ``Agent``, whose ``open_session`` gives a ``Session``, whose ``prompt`` gives a ``Turn`` to iterate. Agent
side: ``serve`` and ``serve_on``. Events, errors, ``Policy`` and ``Limits`` are those of ``acp_core``, and named there.

``python -m acp_sync run "say hello"`` does one prompt on the command line.
"""

from .agent import AgentMethods, AgentSession, AgentTurn, PromptAgent, serve_on
from .client import Agent, Session, Turn, connect
from .process import open_agent
from .stdio import serve
from .transport import MessageTransport, Transport

__all__ = (
    "Agent",
    "AgentMethods",
    "AgentSession",
    "AgentTurn",
    "MessageTransport",
    "PromptAgent",
    "Session",
    "Transport",
    "Turn",
    "connect",
    "open_agent",
    "serve",
    "serve_on",
)
