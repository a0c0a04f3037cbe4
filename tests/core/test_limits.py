"""Every bound at its limit and one above. The table of limits is walked: a new row needs a check here."""

from __future__ import annotations

import inspect
import json
import math
import tracemalloc
from collections.abc import Callable

import pytest

from acp_core import (
    AgentConnection,
    AnswerUnmatched,
    ClientConnection,
    Connection,
    ForeignUpdate,
    Limits,
    LineTooLong,
    LocalProtocolError,
    PermissionRequested,
    RequestRefused,
    SessionFenced,
)
from acp_core.limits import LIMITS
from tests.core.helpers import (
    CWD,
    AgentDriver,
    ClientDriver,
    Message,
    agent,
    as_line,
    chunk,
    client,
    idle_client,
    names,
    notification,
    one,
    only,
    permission,
    prompting_client,
    request,
    result,
    update,
)


def refused_by(call: Callable[[], object]) -> str:
    """The rule that an intent breaks; the intent has changed nothing that the next one could see."""
    with pytest.raises(LocalProtocolError) as caught:
        call()
    return caught.value.rule


def prompting_agent(limits: Limits) -> AgentDriver:
    driver = agent(limits=limits).initialize()
    driver.open()
    driver.prompt()
    return driver


# ── Lines ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def max_line_bytes() -> None:
    driver, _ = idle_client(limits=Limits(max_line_bytes=500))
    empty = len(as_line(chunk("s1", ""))) - 1
    fits, above = chunk("s1", "x" * (500 - empty)), chunk("s1", "x" * (501 - empty))
    assert names(driver.feed(fits, above)) == ["AgentMessageChunk", "LineTooLong"]
    driver.conn.receive_data(as_line(fits)[:-1] + b"\r\n", driver.now)
    assert names(driver.drain()) == ["AgentMessageChunk"]
    # The same bound for what is written.
    empty = len(as_line(json.dumps(notification("_x", {"a": ""}), separators=(",", ":")))) - 1
    driver.conn.notify("_x", {"a": "x" * (500 - empty)})
    assert driver.conn.output_bytes == 501
    assert refused_by(lambda: driver.conn.notify("_x", {"a": "x" * (501 - empty)})) == "limits.max_line_bytes"


def max_depth() -> None:
    def nested(levels: int) -> str:
        """A message whose deepest container stands at ``levels``."""
        inside = levels - 1
        return '{"jsonrpc":"2.0","method":"_x","params":' + '{"a":' * inside + "1" + "}" * inside + "}"

    driver, _ = idle_client(limits=Limits(max_depth=20))
    assert names(driver.feed(nested(20), nested(21))) == ["NotificationReceived", "Malformed"]
    for call in (driver.conn.notify, driver.conn.request):
        call("_x", json.loads(nested(18))["params"])
        assert refused_by(lambda: call("_x", json.loads(nested(20))["params"])) == "json.depth"  # noqa: B023 # run at once
    # What was written is within the bound of a peer with the same limits.
    peer, _ = idle_client(limits=Limits(max_depth=20))
    peer.conn.receive_data(driver.conn.data_to_send(driver.now), peer.now)
    assert set(names(peer.drain())) == {"NotificationReceived", "RequestRefused"}


def max_id_bytes() -> None:
    driver, _, _ = prompting_client(limits=Limits(max_id_bytes=10))
    events = driver.feed(permission("x" * 10, "s1"), permission("é" * 5, "s1"), permission("x" * 11, "s1"))
    assert names(events) == ["PermissionRequested", "PermissionRequested", "Malformed"]
    assert driver.sent() == []


def too_long_head_bytes() -> None:
    driver, _ = idle_client(limits=Limits(max_line_bytes=500, too_long_head_bytes=100))
    event = one(driver.feed("h" * 100 + "x" * 500), LineTooLong)
    assert event.head == b"h" * 100


def too_long_tail_bytes() -> None:
    driver, _ = idle_client(limits=Limits(max_line_bytes=500, too_long_tail_bytes=30))
    event = one(driver.feed("x" * 500 + "t" * 30), LineTooLong)
    assert event.tail == b"t" * 30


def max_unread_bytes() -> None:
    driver, _ = idle_client(limits=Limits(max_unread_bytes=1000))
    too_much = b"x" * 1001
    assert refused_by(lambda: driver.conn.receive_data(too_much, driver.now)) == "limits.max_unread_bytes"
    driver.conn.receive_data(too_much[1:], driver.now)
    assert driver.conn.unread_bytes == 1000
    assert refused_by(lambda: driver.conn.receive_data(b"x", driver.now)) == "limits.max_unread_bytes"
    driver.drain()
    driver.conn.receive_data(too_much[1:], driver.now)


# ── Output ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def max_output_bytes() -> None:
    size = len(as_line(json.dumps(notification("_x", {}), separators=(",", ":"))))
    driver, _ = idle_client(limits=Limits(max_output_bytes=size * 10))
    for _ in range(10):
        driver.conn.notify("_x")
    assert driver.conn.output_bytes == size * 10
    assert refused_by(lambda: driver.conn.notify("_x")) == "limits.max_output_bytes"
    # What has left makes room, byte by byte.
    driver.sent(size - 1)
    assert refused_by(lambda: driver.conn.notify("_x")) == "limits.max_output_bytes"
    driver.sent(1)
    driver.conn.notify("_x")


def max_output_total_bytes() -> None:
    driver, _ = idle_client()
    driver.feed(request(1, "unknown/method", {}))
    size = driver.conn.output_bytes
    for limit, survives in ((size * 5, True), (size * 5 - 1, False)):
        driver, _ = idle_client(limits=Limits(max_output_bytes=size, max_output_total_bytes=limit))
        driver.feed(*[request(1, "unknown/method", {}) for _ in range(5)])
        assert (driver.conn.state != "over") == survives
    with pytest.raises(ValueError, match="max_output_total_bytes"):
        Limits(max_output_bytes=size + 1, max_output_total_bytes=size)


# ── Tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def max_open_requests() -> None:
    driver, session = idle_client(limits=Limits(max_open_requests=3))
    ids = [driver.conn.request("_x") for _ in range(3)]
    for call in (
        lambda: driver.conn.request("_x"),
        lambda: driver.conn.prompt(session, "hi"),
        lambda: driver.conn.close_session(session),
    ):
        assert refused_by(call) == "limits.max_open_requests"
    assert driver.conn.open_requests == 3
    driver.sent()
    driver.feed(result(ids[0], {}))
    assert driver.conn.prompt(session, "hi") == ids[-1] + 1
    served = prompting_agent(Limits(max_open_requests=1))
    served.conn.request("_x")
    asked = [{"optionId": "a", "name": "A", "kind": "allow_once"}]
    assert (
        refused_by(lambda: served.conn.ask_permission("s1", {"toolCallId": "c"}, asked)) == "limits.max_open_requests"
    )


def max_incoming_requests() -> None:
    driver, _, _ = prompting_client(limits=Limits(max_incoming_requests=3))
    events = driver.feed(*[permission(number, "s1") for number in range(4)])
    assert names(events) == ["PermissionRequested"] * 3 + ["RequestRefused"]
    assert one(events, RequestRefused).code == -32603
    assert [message["id"] for message in driver.sent()] == [3]
    # A repetition of an open one takes no room, an answer makes some.
    assert names(driver.feed(permission(0, "s1"))) == ["RequestRepeated"]
    driver.conn.answer_permission(only(events, PermissionRequested)[0].request_id, None)
    assert names(driver.feed(permission(9, "s1"))) == ["PermissionRequested"]


def max_tombstones() -> None:
    driver, _ = idle_client(limits=Limits(max_tombstones=3))
    ids = [driver.conn.request("_x", deadline=1.0) for _ in range(4)]
    driver.sent()
    driver.wait(1.0)
    events = driver.feed(*[result(id, {}) for id in ids])
    assert [event.why for event in only(events, AnswerUnmatched)] == ["repeated", "late", "late", "late"]
    # As many that were withdrawn, and neither kind takes the room of the other.
    late = driver.conn.request("_x", deadline=1.0)
    driver.sent()
    driver.wait(1.0)
    ids = [driver.conn.request("_x") for _ in range(4)]
    for id in ids:
        driver.conn.cancel_request(id)
    events = driver.feed(*[result(id, {}) for id in (*ids, late)])
    assert [event.why for event in only(events, AnswerUnmatched)] == ["repeated", "unsent", "unsent", "unsent", "late"]


def max_sessions() -> None:
    driver = client(limits=Limits(max_sessions=2)).initialize()
    driver.open("s1")
    driver.open("s2")
    assert refused_by(lambda: driver.conn.open_session(CWD)) == "limits.max_sessions"
    served = agent(limits=Limits(max_sessions=2)).initialize()
    served.open("s1", 1)
    served.open("s2", 2)
    (event,) = served.feed(request(3, "session/new", {"cwd": CWD, "mcpServers": []}))
    assert refused_by(lambda: served.conn.accept(getattr(event, "request_id", ""), "s3")) == "limits.max_sessions"
    for method in ("session/load", "session/resume"):
        refused = one(served.feed(request(4, method, {"sessionId": "s3", "cwd": CWD})), RequestRefused)
        assert refused.code == -32603
    # One that is known may be opened again.
    assert names(served.feed(request(5, "session/load", {"sessionId": "s1", "cwd": CWD}))) == ["LoadSessionRequested"]


def max_held_bytes() -> None:
    def overflow(limit: int, text: str) -> list[ForeignUpdate]:
        driver = client(limits=Limits(max_held_bytes=limit)).initialize()
        driver.conn.open_session(CWD)
        driver.sent()
        driver.drain()
        return only(driver.feed(chunk("s1", text)), ForeignUpdate)

    # The least limit that holds this update; one byte more of it overflows.
    limit = next(limit for limit in range(1, 2000) if not overflow(limit, "x"))
    assert limit >= len(as_line(chunk("s1", "x"))) - 1
    (lost,) = overflow(limit, "xx")
    assert (lost.why, lost.session_id) == ("overflow", "s1")
    # Many small ones are bounded too, and a request that does not fit is answered.
    driver = client(limits=Limits(max_held_bytes=limit * 3)).initialize()
    driver.conn.open_session(CWD)
    (message,) = driver.sent()
    driver.drain()
    events = driver.feed(*[chunk("s1", "x")] * 5, permission("p", "s1"))
    assert [event.why for event in only(events, ForeignUpdate)] == ["overflow"] * 2
    assert driver.sent() == [result("p", {"outcome": {"outcome": "cancelled"}})]
    held = driver.feed(result(message["id"], {"sessionId": "s1"}))
    assert names(held).count("AgentMessageChunk") == 3
    # Released, there is room for the next.
    driver.conn.open_session(CWD)
    driver.sent()
    driver.drain()
    assert driver.feed(*[chunk("s2", "x")] * 3) == []


def max_tool_calls() -> None:
    driver, _, _ = prompting_client(limits=Limits(max_tool_calls=3))
    for number in range(4):
        driver.feed(update("s1", "tool_call", toolCallId=f"t{number}", title=f"title {number}", kind="read"))
    titles = []
    for number in range(4):
        event = one(driver.feed(permission(number, "s1", toolCallId=f"t{number}")), PermissionRequested)
        titles.append(event.title)
    assert titles == [None, "title 1", "title 2", "title 3"]


def max_answered_kept() -> None:
    driver, _, _ = prompting_client(limits=Limits(max_answered_kept=3))
    kept = []
    for number in range(4):
        event = one(driver.feed(permission(number, "s1")), PermissionRequested)
        driver.conn.answer_permission(event.request_id, None)
        answered = driver.conn.snapshot()["answered"]
        assert isinstance(answered, list)
        kept.append(answered)
    assert [len(answered) for answered in kept] == [1, 2, 3, 3]
    # The oldest goes first.
    assert kept[3] == [*kept[2][1:], kept[3][-1]]


def max_snapshot_bytes() -> None:
    driver, _, _ = prompting_client()
    size = len(json.dumps(driver.conn.snapshot(), separators=(",", ":")))
    driver, _, _ = prompting_client(limits=Limits(max_snapshot_bytes=size))
    assert len(json.dumps(driver.conn.snapshot(), separators=(",", ":"))) == size
    driver, _, _ = prompting_client(limits=Limits(max_snapshot_bytes=size - 1))
    assert refused_by(driver.conn.snapshot) == "limits.max_snapshot_bytes"


def max_identity_bytes() -> None:
    driver, session = idle_client(limits=Limits(max_identity_bytes=10))
    for above in ("x" * 11, "é" * 6, "😀" * 3):
        assert refused_by(lambda: driver.conn.prompt(session, "hi", identity=above)) == "prompt.identity"  # noqa: B023 # run at once
    for fits in ("x" * 10, "é" * 5, ""):
        id = driver.conn.prompt(session, "hi", identity=fits)
        driver.sent()
        driver.feed(result(id, {"stopReason": "end_turn"}))


def max_ledger_size() -> None:
    """Past it nothing can be compared any more, and plain pieces still go out."""
    fits = prompting_agent(Limits(max_ledger_size=64 + 10))
    fits.conn.update_text("s1", "message", delta="x" * 10)
    assert fits.conn.update_text("s1", "message", snapshot="x" * 10) == "same"
    above = prompting_agent(Limits(max_ledger_size=64 + 10))
    above.conn.update_text("s1", "message", delta="x" * 11)
    assert refused_by(lambda: above.conn.update_text("s1", "message", snapshot="x" * 12)) == "text.forgotten"
    above.conn.update_text("s1", "message", delta="y")
    assert len(above.sent()) == 2


# ── Answers to what is no message, and times ────────────────────────────────────────────────────────────────────────


def error_answer_burst() -> None:
    driver = agent(limits=Limits(error_answer_burst=3)).initialize()
    driver.feed(*["text"] * 4)
    assert len(driver.sent()) == 3


def error_answer_rate() -> None:
    driver = agent(limits=Limits(error_answer_burst=1, error_answer_rate=0.25)).initialize()
    answered = []
    for now in (100.0, 103.9, 104.0, 107.9, 108.1):
        driver.now = now
        driver.feed("text")
        answered.append(len(driver.sent()))
    assert answered == [1, 0, 1, 0, 1]


def cancel_grace() -> None:
    driver, session = idle_client(limits=Limits(cancel_grace=7.0))
    driver.conn.prompt(session, "hi", deadline=5.0)
    driver.sent()
    driver.drain()
    driver.wait(5.0)
    driver.sent()
    assert driver.wait(6.9) == []
    assert len(only(driver.wait(0.1), SessionFenced)) == 1


def write_grace() -> None:
    driver, _, _ = prompting_client(limits=Limits(write_grace=7.0))
    driver.conn.send_failed("gone", driver.now)
    driver.drain()
    assert driver.wait(6.9) == []
    assert names(driver.wait(0.1))[-1] == "ConnectionOver"


@pytest.mark.parametrize("name", [row[0] for row in LIMITS])
def test_at_the_limit_and_one_above(name: str) -> None:
    check = globals()[name]
    assert inspect.isfunction(check)
    check()


# ── The table ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_row_has_a_reason_and_is_the_default() -> None:
    limits = Limits()
    for name, default, unit, reason in LIMITS:
        assert getattr(limits, name) == default
        assert unit
        assert len(reason) > 10
    assert [row[0] for row in LIMITS] == [*inspect.signature(Limits).parameters]


@pytest.mark.parametrize("name", [row[0] for row in LIMITS])
def test_a_limit_is_a_positive_number(name: str) -> None:
    def make(value: object) -> Limits:
        given: dict[str, object] = {name: value}
        return Limits(**given)  # type: ignore[arg-type]  # wrong on purpose

    for wrong in ("5", True, [5], b"5"):
        with pytest.raises(TypeError):
            make(wrong)
    bad: tuple[float, ...] = (0, -1)
    if name in ("error_answer_rate", "write_grace", "cancel_grace"):
        bad = (*bad, math.inf, math.nan, 10**400)
    else:
        with pytest.raises(TypeError):
            make(5.5)
    for value in bad:
        with pytest.raises(ValueError, match=name):
            make(value)


def test_limits_are_fixed_once_made() -> None:
    limits = Limits(max_sessions=5)
    for name in ("max_sessions", "max_depth", "anything"):
        with pytest.raises(AttributeError):
            setattr(limits, name, 7)
    assert limits.max_sessions == 5


# ── Nothing of a peer grows without bound ───────────────────────────────────────────────────────────────────────────


def sizes(conn: Connection) -> dict[str, int]:
    """How much stands in each table of a connection; what was answered is bounded by a limit of its own."""
    names = {name for cls in type(conn).__mro__ for name in vars(cls).get("__slots__", ())}
    values = {name: getattr(conn, name) for name in names - {"_answered", "__weakref__"}}
    found = {name: len(value) for name, value in values.items() if hasattr(value, "__len__")}
    assert found.keys() >= {"_requests", "_peer_requests", "_ready", "_output", "_tombstones", "_timers"}
    return found


def test_a_client_that_reads_for_ever_keeps_nothing() -> None:
    """Ten thousand lines of every harmless kind leave every table as it was."""
    driver, _, _ = prompting_client()

    def traffic(rounds: int) -> None:
        for number in range(rounds):
            lines: list[Message | str] = [
                chunk("s1", "x"),
                chunk(f"nobody {number}", "x"),
                result(1_000_000 + number, {}),
                notification("_note", {"n": number}),
                notification("$/cancel_request", {"requestId": number}),
                request(number, "unknown/method", {}),
                permission(number, f"nobody {number}"),
                "noise",
            ]
            driver.feed(*lines)
            driver.conn.data_to_send(driver.now)
            driver.drain()
            driver.log.clear()

    traffic(10)
    before = sizes(driver.conn)
    traffic(1000)
    assert sizes(driver.conn) == before


def test_an_agent_that_serves_for_ever_keeps_nothing() -> None:
    driver = prompting_agent(Limits())

    def traffic(rounds: int) -> None:
        for number in range(rounds):
            driver.feed(
                notification("session/cancel", {"sessionId": f"nobody {number}"}),
                request(f"p{number}", "session/prompt", {"sessionId": f"nobody {number}", "prompt": []}),
                request(f"u{number}", "unknown/method", {}),
                notification("$/cancel_request", {"requestId": number}),
                result(1_000_000 + number, {}),
            )
            (event,) = driver.feed(request(f"l{number}", "session/load", {"sessionId": f"stored {number}", "cwd": CWD}))
            driver.conn.respond_error(getattr(event, "request_id", ""), -32002, "gone")
            driver.conn.data_to_send(driver.now)
            driver.drain()
            driver.log.clear()

    traffic(10)
    before = sizes(driver.conn)
    traffic(500)
    assert sizes(driver.conn) == before


def test_a_client_that_prompts_for_ever_keeps_nothing() -> None:
    driver, session = idle_client()
    assert isinstance(driver, ClientDriver)
    found = []
    for round in range(300):
        id = driver.prompt(session)
        asked = one(driver.feed(permission(0, "s1")), PermissionRequested)
        driver.conn.answer_permission(asked.request_id, "yes")
        other = driver.conn.request("_x", deadline=5.0)
        driver.sent()
        driver.feed(chunk("s1", "x"), result(other, {}), result(id, {"stopReason": "end_turn"}))
        driver.log.clear()
        if round in (20, 299):
            found.append(sizes(driver.conn))
    assert found[0] == found[1]


def test_failed_opens_do_not_count_as_sessions() -> None:
    client = ClientConnection(nonce="n", limits=Limits(max_sessions=2))
    client.initialize()
    client.data_to_send(0.0)
    client.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n', 0.0)
    list(client.events())
    for turn in range(5):
        session = client.open_session("/w")
        client.data_to_send(0.0)
        client.receive_data(b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"no"}}\n' % (turn + 2), 0.0)
        list(client.events())
        assert session.state == "closed"


def test_an_idle_connection_is_small() -> None:
    """After the handshake it is less than 4 KiB, and has no room for attributes besides its own."""
    kept = [idle() for _ in range(2)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept += [idle() for _ in range(100)]
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used < 100 * 4096
    assert not any(hasattr(conn, "__dict__") for conn in (*kept, AgentConnection(nonce="n")))


def idle() -> ClientConnection:
    """A client after its handshake."""
    conn = ClientConnection(nonce="n")
    conn.initialize()
    conn.data_to_send(0.0)
    conn.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n', 0.0)
    assert [*conn.events()]
    return conn
