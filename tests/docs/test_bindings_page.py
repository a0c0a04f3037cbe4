"""The page about the bindings names what there is, and says of each event where it goes."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import acp_anyio
import acp_core
import acp_sync
from acp_core import ClientConnection, Event, RequestReceived, TurnEnded, TurnFailed
from acp_core.front.setup import ClientSetup
from acp_core.inbox import Channel, Inbox, TurnToken
from acp_core.methods import AGENT
from acp_core.methods_unstable import V1_UNSTABLE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bindings.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Where each event goes")[2].partition("\n## ")[0]
ROW = re.compile(r"^\| ([A-Z]\w+(?:, \w+)*) \| (.+) \|$", re.M)
SAID = {name: place for names, place in ROW.findall(SECTION) for name in names.split(", ")}

# Shared, never made themselves; and what only an agent's connection has.
BASES = {
    "Event",
    "SessionEvent",
    "Update",
    "Chunk",
    "ToolCallFields",
    "TerminalRequest",
    "SessionSetupRequested",
}
REQUESTS = {row.event for row in V1_UNSTABLE if row.handler == AGENT} - {"RequestReceived"}
OF_AGENTS = REQUESTS | {"TurnCancelReceived", "TextRevised"}
IN_TURN, IDLE = "the turn: its last event; TurnFailed is raised", "`session.events()`"
ELSE_IDLE = f"the turn in flight, else {IDLE}"
TAIL_OVER = f"`on_event`, and for each restored session {ELSE_IDLE}"
WAITER, REST = "who waits: the call returns, or raises", "`on_event`"
HANDLER = "who serves it; where nobody does it is answered, and then `on_event` has it"


class Waiter:
    """Who waits."""

    def __init__(self) -> None:
        self.settled: list[Event] = []

    def settle(self, event: Event) -> None:
        self.settled.append(event)

    def notify(self) -> None:
        """Nobody sleeps here."""


class Anything:
    """A turn, a session: what routing looks at."""

    def __init__(self, **fields: object) -> None:
        self.__dict__ |= fields


def client_events() -> list[type[Event]]:
    found = [getattr(acp_core, name) for name in acp_core.__all__ if name not in BASES | OF_AGENTS]
    return [cls for cls in found if isinstance(cls, type) and issubclass(cls, Event)]


def place(cls: type[Event], *, in_flight: bool) -> str:
    """Where an event of this class lands."""
    inbox, waiter, asked = Inbox(), Waiter(), Waiter()
    channel = inbox.channel()
    turn = Anything(token=TurnToken(channel, waiter))
    # A turn's own end stands on its turn, in flight or not any more.
    own = turn if in_flight or cls in (TurnEnded, TurnFailed) else None
    session = Anything(turn=own, token=asked, tools={}, unsent=False)
    fields: dict[str, object] = {"session": session, "sessions": (session,), "turn": own, "token": asked}
    fields |= {"line": "", "outcome": "error", "at": 0.0}
    event = cls.__new__(cls)
    for name, value in fields.items():
        if any(name in base.__dict__.get("__slots__", ()) for base in cls.__mro__):
            setattr(event, name, value)
    rest = inbox.route(event)
    if rest is not None and (len(channel) or inbox._idle):
        return TAIL_OVER if in_flight == bool(len(channel)) else ""
    if rest is not None:
        return HANDLER if isinstance(rest, RequestReceived) else REST
    if asked.settled:
        return f"{WAITER}; and {ELSE_IDLE}" if len(channel) or inbox._idle else WAITER
    if len(channel):
        return IN_TURN if channel.ended else ELSE_IDLE
    assert [len(queue) for queue in inbox._idle.values()] == [1]
    return IDLE


def test_the_table_has_every_event_of_a_client_once() -> None:
    assert sorted(SAID) == sorted(cls.__name__ for cls in client_events())
    assert len(SAID) == sum(len(names.split(", ")) for names, _ in ROW.findall(SECTION))


@pytest.mark.parametrize("cls", client_events(), ids=lambda cls: cls.__name__)
def test_each_event_goes_where_the_page_says(cls: type[Event]) -> None:
    said = SAID[cls.__name__]
    assert said == place(cls, in_flight=True)
    assert said == place(cls, in_flight=False) or place(cls, in_flight=False) == IDLE


def test_a_fence_is_between_turns() -> None:
    client, inbox = ClientConnection(nonce="n"), Inbox()
    now = 0.0

    def step(*messages: dict[str, object], after: float = 0.0) -> None:
        nonlocal now
        now += after
        for message in messages:
            client.receive_data(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n", now)
        if after:
            client.handle_timeout(now)
        for _ in range(2):
            for event in client.events():
                inbox.route(event)
            client.data_to_send(now)

    session = client.open_session("/w")
    step()
    step({"id": 1, "result": {"protocolVersion": 1}})
    step({"id": 2, "result": {"sessionId": "s"}})
    turn, waiter = inbox.channel(), Waiter()
    client.prompt(session, "hi", token=TurnToken(turn, waiter))
    step()
    client.cancel_turn(session, deadline=1.0)
    step()
    step(after=2.0)
    step({"id": 3, "result": {"stopReason": "cancelled"}})
    client.close()
    step()
    assert names(turn) == ["PromptSent", "TurnFailed"]
    idle = names(inbox.idle(session))
    assert idle[-2:] == ["SessionFenced", "FenceLifted"]
    assert {"SessionStep", "SessionOpened"} <= {*idle}


def names(channel: Channel) -> list[str]:
    found = []
    while (event := channel.take()) is not None:
        found.append(type(event).__name__)
    return found


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_every_name_of_the_fronts_is_on_the_page() -> None:
    for binding in (acp_sync, acp_anyio):
        for cls in (binding.Agent, binding.Session, binding.Turn):
            for name in public(cls) - {"link"}:
                assert re.search(rf"`{name}[`(]", PAGE), f"{binding.__name__}.{cls.__name__}.{name}"


def parameters(function: Callable[..., object]) -> set[str]:
    return {*inspect.signature(function).parameters}


def test_every_option_is_on_the_page() -> None:
    taken = parameters(ClientSetup) | parameters(acp_sync.open_agent) | parameters(acp_anyio.open_agent)
    for name in taken - {"waiter", "nonce", "blocking", "command", "options"}:
        assert f"`{name}`" in PAGE, name
