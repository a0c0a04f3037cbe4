"""What every binding does around a connection, driven by hand: no thread, no loop, and a clock that is a number."""

from __future__ import annotations

import json

import pytest

from acp_core import (
    AgentConnection,
    ClientConnection,
    ConnectionClosed,
    ConnectionOver,
    ConsumerBehind,
    ConsumerTooSlow,
    Event,
    HandlerFailed,
    LocalProtocolError,
    NotificationReceived,
    PermissionRequested,
    PromptSent,
    RequestError,
    RequestReceived,
    RequestSettled,
)
from acp_core.connection import Connection
from acp_core.drive import LATE, MAX_REPORT_BYTES, MAX_REPORTS, NEVER, WRITE_SIZE, Drive, Pieces
from acp_core.inbox import Inbox, TurnToken

HELLO = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n'


class Waiter:
    """The token of a request."""

    def __init__(self) -> None:
        self.event: Event | None = None
        self.woken = 0

    def settle(self, event: Event) -> None:
        self.event = event

    def wake(self) -> None:
        self.woken += 1


class Hand(Drive):
    """A binding that notes what it is asked for. ``writes``: it writes at once, else a writer would have to."""

    def __init__(
        self, connection: Connection, *, writes: bool = True, whole: bool = False, full_at: int = 2000
    ) -> None:
        self.now = 10.0
        super().__init__(
            connection, Inbox(pause_at=1000, full_at=full_at), lambda: self.now, whole_writes=whole, messages=False
        )
        self.writes = writes
        self.out: list[bytes] = []
        self.woken: list[str] = []
        self.cancelled: list[str] = []
        self.acted: list[Event] = []
        self.act = self.look

    def look(self, event: Event) -> bool:
        self.acted.append(event)
        return isinstance(event, RequestReceived)

    def write_soon(self) -> bool:
        self.woken.append("writer")
        if not self.writes:
            return False
        data = self.take_output()
        self.drain()
        self.out.append(data)
        self.sending = False
        return bool(data)

    def wake_reader(self) -> None:
        self.woken.append("reader")

    def wake_timer(self) -> None:
        self.woken.append("timer")

    def wake_dispatcher(self) -> None:
        self.woken.append("dispatcher")

    def cancel_handler(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    def say(self, **message: object) -> None:
        self.received(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.pump()

    def written(self) -> list[dict[str, object]]:
        lines, self.out = b"".join(self.out).splitlines(), []
        return [json.loads(line) for line in lines]

    def reports(self) -> list[Event]:
        found = []
        while (event := self.next_report()) is not None:
            found.append(event)
        return found


def client(**options: bool | int) -> Hand:
    """A client behind its handshake."""
    hand = Hand(ClientConnection(nonce="n", extensions=["_x/ask"]), **options)  # type: ignore[arg-type] # as given
    hand.connection.initialize()  # type: ignore[attr-defined] # a client
    writes, hand.writes = hand.writes, True
    hand.pump()
    hand.received(HELLO)
    hand.pump()
    hand.writes = writes
    hand.written()
    hand.reports()
    hand.woken.clear()
    hand.acted.clear()
    return hand


def asked(hand: Hand) -> RequestReceived:
    """A request of the peer."""
    hand.say(id=7, method="_x/ask")
    event = hand.acted[-1]
    assert isinstance(event, RequestReceived)
    return event


# ── The pump ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pump_writes_what_an_intent_queued_and_settles_what_was_answered() -> None:
    hand, waiter = client(), Waiter()
    id = hand.connection.request("_x/ask", token=waiter)
    hand.pump()
    assert [message["id"] for message in hand.written()] == [id]
    hand.say(id=id, result={"a": 1})
    assert isinstance(waiter.event, RequestSettled)
    assert waiter.event.result == {"a": 1}


def test_a_pump_with_nothing_to_do_wakes_nobody() -> None:
    hand = client()
    hand.pump()
    assert hand.woken == []


def test_the_timer_is_woken_only_for_an_earlier_deadline() -> None:
    hand = client()
    hand.sleeps_until = None
    for seconds, woken in ((50.0, ["timer"]), (60.0, []), (20.0, ["timer"])):
        hand.woken.clear()
        hand.connection.request("_x/ask", deadline=seconds)
        hand.pump()
        assert [one for one in hand.woken if one == "timer"] == woken
    assert hand.sleeps_until == hand.now + 20.0
    hand.now += 20.0
    hand.time_is_up()
    hand.pump()
    assert hand.connection.open_requests == 2


def test_durations_start_while_a_write_hangs() -> None:
    hand = client(writes=False)
    hand.sleeps_until = None
    hand.sending = True
    hand.connection.request("_x/ask", deadline=5.0)
    hand.pump()
    assert (hand.connection.next_deadline(), hand.woken) == (15.0, ["timer"])
    # Who writes looks again by himself.
    assert hand.output_waits
    hand.sending = False
    hand.pump()
    assert hand.woken == ["timer", "writer"]


def test_the_writer_is_woken_at_the_end() -> None:
    hand = client(writes=False)
    hand.connection.abort("enough")
    hand.pump()
    assert hand.woken == ["dispatcher", "writer"]
    assert hand.output_waits
    assert (hand.take_output(), hand.sending, hand.connection.closed) == (b"", False, True)


@pytest.mark.parametrize("whole", [False, True])
def test_how_much_a_write_takes(whole: bool) -> None:
    hand = client(whole=whole)
    hand.connection.notify("_x/told", {"text": "x" * WRITE_SIZE})
    hand.pump()
    assert [len(data) > WRITE_SIZE for data in hand.out if data] == ([True] if whole else [False, False])
    assert len(hand.written()) == 1


def test_what_was_read_goes_in_by_what_it_is() -> None:
    hand = client()
    hand.received('{"jsonrpc":"2.0","method":"_x/told"}')
    hand.received(b'{"jsonrpc":"2.0","method":"_x/told"}\n')
    hand.received(None)
    hand.pump()
    assert [type(event) for event in hand.acted] == [NotificationReceived, NotificationReceived, ConnectionOver]


# ── Waiting and reading ─────────────────────────────────────────────────────────────────────────────────────────────


def turn_of(hand: Hand) -> tuple[TurnToken, Waiter]:
    """A session in a turn."""
    connection = hand.connection
    assert isinstance(connection, ClientConnection)
    session = connection.open_session("/w")
    hand.pump()
    hand.say(id=2, result={"sessionId": "s"})
    waiter = Waiter()
    token = TurnToken(hand.inbox.channel(), waiter)
    token.channel.wake = waiter.wake
    connection.prompt(session, "go", token=token)
    hand.pump()
    assert isinstance(token.channel.take(), PromptSent)
    waiter.woken = 0
    hand.woken.clear()
    return token, waiter


def chunk(hand: Hand, text: str) -> None:
    """One update of the turn."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    hand.say(method="session/update", params={"sessionId": "s", "update": update})


def test_reading_pauses_and_goes_on() -> None:
    hand = client()
    token, _ = turn_of(hand)
    chunk(hand, "x" * 900)
    assert hand.must_pause
    hand.paused = True
    hand.refresh()
    # The owner is told that nobody reads.
    assert hand.woken == ["dispatcher"]
    assert isinstance(hand.next_report(), ConsumerBehind)
    token.channel.take()
    hand.taken(hand.pump)
    assert hand.woken == ["dispatcher", "reader"]


def test_who_waits_for_an_answer_lets_reading_go_on_to_the_second_mark() -> None:
    hand, waiter = client(), Waiter()
    turn_of(hand)
    chunk(hand, "x" * 900)
    hand.paused = True
    hand.block(waiter.wake, counts=False)
    assert hand.must_pause
    hand.block(waiter.wake)
    assert (hand.must_pause, hand.woken) == (False, ["dispatcher", "reader"])
    hand.paused = False
    chunk(hand, "x" * 900)
    assert waiter.woken == 1
    with pytest.raises(ConsumerTooSlow, match="and 2000 are the bound"):
        hand.block(waiter.wake)
    hand.block(waiter.wake, counts=False)
    for counts in (True, False, False):
        hand.unblock(waiter.wake, counts=counts)
    assert hand.inbox.waiters == 0
    chunk(hand, "x")
    assert waiter.woken == 1


def test_one_who_has_taken_wakes_another_who_waits_for_the_same() -> None:
    hand, waiter = client(), Waiter()
    hand.taken(waiter.wake)
    assert waiter.woken == 0
    hand.block(waiter.wake)
    hand.taken(waiter.wake)
    assert waiter.woken == 1


def test_a_consumer_is_woken_when_there_was_nothing_before() -> None:
    hand = client()
    token, waiter = turn_of(hand)
    for text in "abc":
        chunk(hand, text)
    assert waiter.woken == 1
    assert all(token.channel.take() for _ in range(3))
    chunk(hand, "d")
    assert waiter.woken == 2


def test_a_consumer_that_leaves_lets_reading_go_on() -> None:
    hand = client()
    token, _ = turn_of(hand)
    chunk(hand, "x" * 900)
    hand.paused = True
    hand.detach(token.channel)
    assert hand.woken == ["dispatcher", "reader"]


def test_reading_goes_on_behind_the_end() -> None:
    hand = client()
    turn_of(hand)
    chunk(hand, "x" * 900)
    hand.paused = True
    hand.connection.abort("enough")
    hand.pump()
    assert "reader" in hand.woken
    assert not hand.must_pause


def test_who_watches_is_called_after_every_pump() -> None:
    hand, waiter = client(), Waiter()
    hand.watching.add(waiter.wake)
    hand.pump()
    hand.pump()
    assert waiter.woken == 2


# ── Reports ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_reports_are_bounded_and_the_last_one_is_never_dropped() -> None:
    hand = client()
    for _ in range(MAX_REPORTS + 5):
        hand.say(method="_x/told")
    hand.connection.abort("enough")
    hand.pump()
    reports = hand.reports()
    assert (len(reports), hand.dropped_reports) == (MAX_REPORTS + 1, 5)
    assert isinstance(reports[-1], ConnectionOver)
    assert hand.next_report() is None


def test_the_lines_of_reports_are_bounded() -> None:
    hand = client()
    line = NotificationReceived("_x/told", {}, None, False, b"x" * (MAX_REPORT_BYTES // 4), 0.0)
    for _ in range(5):
        hand.report(line)
    assert (len(hand.reports()), hand.dropped_reports) == (4, 1)
    hand.report(line)
    assert len(hand.reports()) == 1


# ── Refusals and handlers ───────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_refused_intent_raises() -> None:
    hand = client()
    broken = LocalProtocolError("no", rule="some.rule")
    assert hand.refusal(broken) is broken
    hand.connection.abort("the peer has gone")
    hand.pump()
    with pytest.raises(LocalProtocolError) as refused:
        hand.connection.request("_x/ask")
    error = hand.refusal(refused.value)
    assert isinstance(error, ConnectionClosed)
    assert "the peer has gone" in str(error)
    hand.closing = True
    assert hand.refusal(refused.value) is refused.value


def answer_to(hand: Hand) -> dict[str, object]:
    hand.pump()
    (message,) = hand.written()
    error = message["error"]
    assert isinstance(error, dict)
    return error


def test_a_request_error_is_the_answer_and_no_failure() -> None:
    hand = client()
    hand.handler_raised(asked(hand), RequestError(-32001, "not here", {"a": 1}))
    assert answer_to(hand) == {"code": -32001, "message": "not here", "data": {"a": 1}}
    assert hand.reports() == []


def test_anything_else_is_reported_and_not_told() -> None:
    hand, why = client(), ValueError("secret")
    event = asked(hand)
    hand.handler_raised(event, why)
    assert "secret" not in json.dumps(answer_to(hand))
    (report,) = hand.reports()
    assert isinstance(report, HandlerFailed)
    assert (report.exception, report.event) == (why, event)


def test_an_error_that_is_no_json_becomes_a_plain_one() -> None:
    hand = client()
    hand.handler_raised(asked(hand), RequestError(-32001, "bad", object()))
    assert answer_to(hand)["code"] == -32603
    (report,) = hand.reports()
    assert isinstance(report, HandlerFailed)


@pytest.mark.parametrize("rule", LATE)
def test_what_came_too_late_is_no_failure(rule: str) -> None:
    hand = client()
    hand.handler_raised(asked(hand), LocalProtocolError("gone", rule=rule))
    assert hand.reports() == []


def test_an_answer_that_was_given_stays() -> None:
    hand = client()
    event = asked(hand)
    hand.connection.respond(event.request_id, {})
    hand.pump()
    hand.written()
    hand.handler_raised(event, RequestError(-32001, "too late"))
    hand.pump()
    assert (hand.written(), hand.reports()) == ([], [])


def test_handlers_are_cancelled_whose_answer_nobody_waits_for() -> None:
    hand = client()
    event = asked(hand)
    hand.say(method="$/cancel_request", params={"requestId": 7})
    assert hand.cancelled == [event.request_id]
    turn_of(hand)
    options = [{"optionId": "a", "name": "A", "kind": "allow_once"}]
    params = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options}
    hand.say(id=8, method="session/request_permission", params=params)
    permission = hand.acted[-1]
    assert isinstance(permission, PermissionRequested)
    hand.connection.cancel_turn("s")  # type: ignore[attr-defined] # a client
    hand.pump()
    assert hand.cancelled == [event.request_id, permission.request_id]
    hand.received(None)
    hand.pump()
    assert event.request_id in hand.cancelled


def test_an_agent_is_driven_alike() -> None:
    hand = Hand(AgentConnection(nonce="n"))
    hand.say(id=0, method="initialize", params={"protocolVersion": 1})
    (answer,) = hand.written()
    assert answer["id"] == 0
    assert hand.connection.next_deadline() != NEVER


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_are_cut_whatever_the_pieces() -> None:
    data = b"one\ntwo\n\nfour\n"
    for size in range(1, len(data) + 1):
        pieces = Pieces()
        found = [message for at in range(0, len(data), size) for message in pieces.cut(data[at : at + size])]
        assert found == [b"one", b"two", b"", b"four"]
