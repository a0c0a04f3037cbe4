"""Where events go between the core and a consumer, and what is kept of them."""

from __future__ import annotations

import json

import pytest

from acp_core import (
    AgentMessageChunk,
    ClientConnection,
    ConsumerBehind,
    Event,
    Session,
    SessionFailed,
    SessionReady,
    TailOver,
    UsageUpdate,
)
from acp_core.inbox import Channel, Inbox, TurnToken


def opened() -> tuple[ClientConnection, Session]:
    client = ClientConnection(nonce="n")
    session = client.open_session("/w")
    client.data_to_send(0.0)
    client.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n', 0.0)
    list(client.events())
    client.data_to_send(0.0)
    client.receive_data(b'{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}\n', 0.0)
    list(client.events())
    return client, session


class Waiter:
    """Who waits."""

    def settle(self, event: Event) -> None:
        """Nobody does here."""


def feed(client: ClientConnection, inbox: Inbox, update: dict[str, object]) -> int:
    """Route one update; the length of its line."""
    params = {"sessionId": "s", "update": update}
    line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode()
    client.receive_data(line + b"\n", 1.0)
    for event in client.events():
        inbox.route(event)
    return len(line)


def chunk(text: str) -> dict[str, object]:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


def usage(used: int) -> dict[str, object]:
    return {"sessionUpdate": "usage_update", "used": used, "size": 9}


def drained(channel: Channel) -> list[object]:
    found: list[object] = []
    while (event := channel.take()) is not None:
        found.append(
            event.text
            if isinstance(event, AgentMessageChunk)
            else event.used
            if isinstance(event, UsageUpdate)
            else event
        )
    return found


def test_idle_metadata_coalesces_to_its_latest_state_in_its_latest_place() -> None:
    client, session = opened()
    inbox = Inbox()
    channel = inbox.listen(session)
    for update in (usage(1), chunk("a"), usage(2), chunk("b"), usage(3)):
        feed(client, inbox, update)
    assert len(channel) == 3
    assert drained(channel) == ["a", "b", 3]
    assert (channel.size, inbox.size, len(channel)) == (0, 0, 0)


def test_coalescing_is_bounded_and_linear() -> None:
    client, session = opened()
    inbox = Inbox()
    channel = inbox.listen(session)
    feed(client, inbox, chunk("first"))
    size = 0
    for used in range(10000, 15000):
        size = feed(client, inbox, usage(used))
        assert len(channel) == 2
    assert (
        channel.size
        == inbox.size
        == size
        + len(
            json.dumps(
                {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": chunk("first")}}
            )
        )
    )
    assert drained(channel) == ["first", 14999]


def test_a_session_nobody_listens_to_does_not_pause_reading() -> None:
    client, session = opened()
    inbox = Inbox(pause_at=4096, full_at=8192)
    for number in range(200):
        feed(client, inbox, chunk(f"{number}"))
        feed(client, inbox, usage(number))
        assert not inbox.paused
    channel = inbox.idle(session)
    assert channel.discarded > 0
    kept = drained(channel)
    # The oldest are kept, and the latest metadata; the rest is counted.
    assert kept[0] == "0"
    assert kept[-1] == 199
    assert len(kept) - 1 + channel.discarded == 200


@pytest.mark.parametrize("waiters", [0, 1])
def test_the_two_marks(waiters: int) -> None:
    client, session = opened()
    size = feed(client, Inbox(), chunk("x"))
    inbox = Inbox(pause_at=3 * size, full_at=5 * size)
    inbox.waiters = waiters
    inbox.listen(session)
    verdicts = []
    for _ in range(5):
        feed(client, inbox, chunk("x"))
        verdicts.append((inbox.paused, inbox.full))
    pausing = waiters == 0
    assert verdicts == [(False, False), (False, False), (pausing, False), (pausing, False), (True, True)]
    inbox.idle(session).detach()
    assert (inbox.paused, inbox.full, inbox.size) == (False, False, 0)


def test_where_a_tail_ends_is_told_to_who_reads_it() -> None:
    """In the turn that was attached; between turns where there is none, also when a prompt waits for that."""
    conn = ClientConnection(nonce="n")
    inbox = Inbox()
    tokens = [TurnToken(inbox.channel(), Waiter()) for _ in range(2)]
    conn.attach("s", 7, deadline=60.0, token=tokens[0])
    waits = conn.attach("t", None, deadline=None, token=Waiter())
    idle = conn.attach("u", None, deadline=None, token=Waiter())
    conn.prompt(waits, "hi", token=tokens[1])
    conn.data_to_send(0.0)
    params = {"sessionId": "t", "update": chunk("seen")}
    conn.receive_data(
        json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n", 0.0
    )
    rest = [inbox.route(event) for event in conn.events()]
    conn.handle_timeout(1.0)
    rest += [inbox.route(event) for event in conn.events()]
    (over,) = [event for event in rest if isinstance(event, TailOver)]
    assert drained(tokens[0].channel) == [over]
    assert drained(inbox.idle(waits)) == ["seen", over]
    assert drained(inbox.idle(idle)) == [over]
    assert drained(tokens[1].channel) == []
    assert {session.session_id for session in over.sessions} == {"s", "t", "u"}


def test_the_end_of_an_opening_settles_who_waits_and_is_read_by_who_listens() -> None:
    class Waiting:
        def __init__(self) -> None:
            self.settled: list[Event] = []

        def settle(self, event: Event) -> None:
            self.settled.append(event)

    client, inbox, waiting = ClientConnection(nonce="n"), Inbox(), (Waiting(), Waiting())
    ready = client.open_session("/w", token=waiting[0])
    failed = client.open_session("/w", token=waiting[1])
    client.data_to_send(0.0)
    client.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n', 0.0)
    while (event := client.next_event()) is not None:
        inbox.route(event)
    client.data_to_send(0.0)
    client.receive_data(b'{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}\n', 0.0)
    client.receive_data(b'{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}\n', 0.0)
    while (event := client.next_event()) is not None:
        inbox.route(event)
    for session, waiter, kind in ((ready, waiting[0], SessionReady), (failed, waiting[1], SessionFailed)):
        last = drained(inbox.idle(session))[-1]
        assert isinstance(last, kind)
        assert waiter.settled == [last]
        assert inbox.idle(session).ended == (kind is SessionFailed)


# ── Who does not read ───────────────────────────────────────────────────────────────────────────────────────────────


def told(client: ClientConnection, inbox: Inbox, text: str) -> list[ConsumerBehind]:
    params = {"sessionId": "s", "update": chunk(text)}
    line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode()
    client.receive_data(line + b"\n", 1.0)
    rest = [inbox.route(event) for event in client.events()]
    return [event for event in rest if isinstance(event, ConsumerBehind)]


@pytest.mark.parametrize("waiters", [0, 1])
def test_what_nobody_reads_is_told_once_until_half_of_it_was_read(waiters: int) -> None:
    """Reading pauses at the mark for as long as nobody waits, so the owner has to know; whoever waits now may leave."""
    client, session = opened()
    inbox = Inbox(pause_at=1000, full_at=100_000)
    inbox.waiters = waiters
    channel = inbox.listen(session)
    while inbox.size < 1000:
        behind = told(client, inbox, "x" * 50)
        assert bool(behind) == (inbox.size >= 1000)
    assert (behind[0].session, behind[0].unread_bytes, behind[0].at) == (session, inbox.size, 1.0)
    assert inbox.paused == (not waiters)
    assert told(client, inbox, "x") == []
    # Around the mark it is not said again.
    while inbox.size > 700:
        assert channel.take() is not None
    assert [behind for _ in range(4) for behind in told(client, inbox, "x" * 50)] == []
    while inbox.size >= 500:
        assert channel.take() is not None
    assert sum(len(told(client, inbox, "x" * 50)) for _ in range(8)) == 1
    # Who leaves is behind no more.
    channel.detach()
    assert told(client, inbox, "x" * 2000) == [] and inbox.size == 0


def test_who_is_behind_is_told_by_the_session_that_has_most_of_it() -> None:
    client, session = opened()
    inbox = Inbox(pause_at=1000, full_at=100_000)
    inbox.listen(session)
    token = TurnToken(inbox.channel(), Waiter())
    client.prompt(session, "hi", token=token)
    client.data_to_send(1.0)
    while inbox.size < 1000:
        behind = told(client, inbox, "x" * 50)
    # All of it is in the turn's own channel, and the session is that of the turn.
    assert (token.channel.size, behind[0].session) == (inbox.size, session)


def test_who_never_asked_holds_nobody_up_and_nothing_is_told() -> None:
    client, session = opened()
    inbox = Inbox(pause_at=1000, full_at=100_000)
    assert [behind for _ in range(30) for behind in told(client, inbox, "x" * 50)] == []
    assert (inbox.paused, inbox.idle(session).discarded > 0) == (False, True)
