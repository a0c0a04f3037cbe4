"""What a type checker says of the arguments of a client: read by mypy with everything else, and never run. A comment
that ignores nothing is an error, so each of them stands for a mistake that is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import acp_anyio
import acp_sync
from acp_core import Policy

if TYPE_CHECKING:
    from acp_core import ElicitationRequested, ReadTextFileRequested, RequestReceived, WriteTextFileRequested

POLICY = Policy({"default": "deny"})


def read(request: ReadTextFileRequested) -> dict[str, object]:
    """A handler of one request of the table."""
    return {"content": request.path}


async def read_soon(request: ReadTextFileRequested) -> dict[str, object]:
    """The same, async."""
    return {"content": request.path}


def write(request: WriteTextFileRequested) -> None:
    """Another one."""


def any_request(request: RequestReceived) -> None:
    """A handler of whatever comes."""


def form(request: ElicitationRequested) -> bool:
    """Asks the user."""
    return bool(request.message)


def right(agent: acp_sync.Agent, wire: tuple[int, int]) -> None:
    """Every way to say it."""
    acp_sync.connect(wire, permissions=POLICY, handlers={"fs_read_text_file": read, "fs_write_text_file": write})
    acp_sync.connect(wire, permissions=POLICY, handlers={"fs_read_text_file": any_request, "_x/own": any_request})
    acp_sync.connect(wire, permissions=POLICY, elicitation={"form": form, "url": form})
    acp_anyio.open_agent("agent", permissions=POLICY, handlers={"fs_read_text_file": read_soon})
    session = agent.open_session("/tmp", replay="report")
    session.prompt("hi", idle_timeout=1.0, on_idle="cancel").cancel(then="close_session")
    agent.on_close(print, needs="success")


def wrong(agent: acp_sync.Agent, wire: tuple[int, int]) -> None:
    """Each is one misspelt word, or a handler of another request."""
    acp_sync.connect(wire, permissions=POLICY, handlers={"fs_read_text_file": write})  # type: ignore[dict-item]
    acp_sync.connect(wire, permissions=POLICY, elicitation={"from": form})  # type: ignore[dict-item]
    Policy({"default": "denny"})  # type: ignore[dict-item]
    session = agent.open_session("/tmp", replay="reprot")  # type: ignore[arg-type]
    turn = session.prompt("hi", on_idle="cancle")  # type: ignore[arg-type]
    turn.cancel(then="close_sesion")  # type: ignore[arg-type]
    session.cancel(then="stop")  # type: ignore[arg-type]
    agent.on_close(print, needs="sucess")  # type: ignore[arg-type]
