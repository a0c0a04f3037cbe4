"""Input is one ordered queue: iterators, buffers, bounds, ends, and streams that are joined in their middle."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_core import (
    AgentMessageChunk,
    ClientConnection,
    Connection,
    ConnectionOver,
    Event,
    Limits,
    LineTooLong,
    LocalProtocolError,
    Malformed,
    NotificationReceived,
    RequestSettled,
    SessionReady,
    TailDropped,
    Truncated,
    TurnEnded,
    Update,
)
from acp_core.testing import event_key
from tests.core.helpers import (
    AGENT_STATES,
    CLIENT_STATES,
    AgentDriver,
    ClientDriver,
    as_line,
    chunk,
    client,
    idle_client,
    names,
    notification,
    one,
    only,
    prompting_client,
    result,
)

STATES: dict[str, Callable[[], ClientDriver | AgentDriver]] = {
    **{f"client {name}": make for name, make in CLIENT_STATES.items()},
    **{f"agent {name}": make for name, make in AGENT_STATES.items()},
}


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in only(events, AgentMessageChunk)]


# ── Iterators ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_abandoned_iterator_loses_nothing() -> None:
    driver, _ = idle_client()
    driver.conn.receive_data(b"".join(as_line(chunk("s1", str(number))) for number in range(10)), driver.now)
    found = [next(driver.conn.events())]
    for event in driver.conn.events():
        found.append(event)
        if len(found) == 4:
            break
    fifth = driver.conn.next_event()
    assert fifth is not None
    found += [fifth, *driver.conn.events()]
    assert texts(found) == [str(number) for number in range(10)]
    assert driver.conn.next_event() is None


def test_nested_iterators_share_one_position() -> None:
    driver, _ = idle_client()
    driver.conn.receive_data(b"".join(as_line(chunk("s1", str(number))) for number in range(9)), driver.now)
    found = []
    for outer in driver.conn.events():
        found.append(outer)
        for inner in driver.conn.events():
            found.append(inner)
            if len(found) % 3 == 0:
                break
    assert texts(found) == [str(number) for number in range(9)]


def test_iterators_share_the_events_of_one_step() -> None:
    """Many events of one step, pulled by turns from nested iterators and by next_event, and new ones behind them."""
    driver, _ = idle_client()
    ids = [driver.conn.request("_x") for _ in range(9)]
    for id in ids[:6]:
        driver.conn.cancel_request(id)
    found = []
    for outer in driver.conn.events():
        found.append(outer)
        for inner in driver.conn.events():
            found.append(inner)
            break
        if len(found) == 2:
            driver.conn.abort()
        third = driver.conn.next_event()
        if third is not None:
            found.append(third)
    assert [event.id for event in found if isinstance(event, RequestSettled)] == ids
    assert isinstance(found[-1], ConnectionOver)
    assert driver.conn.closed


def test_what_a_nested_iterator_leaves_comes_before_the_next_line() -> None:
    """One line may say several things: an answer whose id came back as a str is a deviation beside."""
    driver, _ = idle_client()
    id = driver.conn.request("_slow")
    driver.sent()
    answer = as_line({"jsonrpc": "2.0", "id": str(id), "result": {}})
    driver.conn.receive_data(as_line(chunk("s1", "a")) + answer + as_line(chunk("s1", "b")), driver.now)
    found = []
    for event in driver.conn.events():
        found.append(event)
        if len(found) == 1 and (nested := driver.conn.next_event()) is not None:
            found.append(nested)
    assert names(found) == ["AgentMessageChunk", "Deviation", "RequestSettled", "AgentMessageChunk"]


def test_events_and_intents_may_mix() -> None:
    """An intent made while handling an event meets the state of that event, not of what stands behind it."""
    driver, session, id = prompting_client()
    driver.conn.receive_data(
        as_line(chunk("s1", "a")) + as_line(result(id, {"stopReason": "end_turn"})) + as_line(chunk("s1", "b")),
        driver.now,
    )
    seen = []
    for event in driver.conn.events():
        seen.append((type(event).__name__, session.state))
        if isinstance(event, AgentMessageChunk) and event.text == "a":
            with pytest.raises(LocalProtocolError):
                driver.conn.prompt(session, "too early")
        if isinstance(event, TurnEnded):
            driver.conn.prompt(session, "now")
    assert seen == [("AgentMessageChunk", "prompting"), ("TurnEnded", "idle"), ("AgentMessageChunk", "prompting")]


def test_input_received_while_iterating_is_worked_off_in_order() -> None:
    driver, _ = idle_client()
    driver.conn.receive_data(as_line(chunk("s1", "a")) + as_line(chunk("s1", "b")), driver.now)
    found = []
    for event in driver.conn.events():
        found.append(event)
        if len(found) == 1:
            driver.conn.receive_data(as_line(chunk("s1", "c")), driver.now)
    assert texts(found) == ["a", "b", "c"]


def test_closing_while_iterating_ends_the_iteration() -> None:
    driver, _ = idle_client()
    lines = [as_line(chunk("s1", str(number))) for number in range(5)]
    driver.conn.receive_data(b"".join(lines), driver.now)
    found = []
    for event in driver.conn.events():
        found.append(event)
        if len(found) == 2:
            driver.conn.close()
    assert names(found) == ["AgentMessageChunk", "AgentMessageChunk", "ConnectionOver"]
    # What was not read is counted (rule 10).
    assert one(found, ConnectionOver).unread_bytes == sum(map(len, lines[2:]))


@pytest.mark.parametrize("sizes", [[], [1], [7, 100], [65536]])
def test_unread_input_is_counted_at_the_end(sizes: list[int]) -> None:
    """Pulled lines are read, all others are not, however they were received."""
    driver, _ = idle_client()
    lines = [as_line(chunk("s1", "x" * 100)) for _ in range(30)]
    data = b"".join(lines) + b'{"half'
    for part in cut(data, sizes):
        driver.conn.receive_data(part, driver.now)
    found = [driver.conn.next_event() for _ in range(7)]
    driver.conn.abort()
    events = [event for event in found if event is not None] + driver.drain()
    assert one(events, ConnectionOver).unread_bytes == len(data) - sum(map(len, lines[:7]))
    assert driver.conn.unread_bytes == 0


TEXTS = st.sampled_from(
    [b"text", b"", b"x", "日本".encode(), b"\xff", b"a\rb", b"y\r", b"z" * 19, b"z" * 20, b"z" * 90]
)
LINES = st.tuples(TEXTS, st.sampled_from([b"\n", b"\r\n"])).map(b"".join)


@given(
    lines=st.lists(LINES, max_size=12),
    rest=TEXTS,
    cuts=st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=12),
    pulled=st.integers(0, 4),
    tail=st.booleans(),
    ended=st.booleans(),
)
def test_every_byte_is_read_or_counted_as_unread(
    lines: list[bytes], rest: bytes, cuts: list[tuple[int, bool]], pulled: int, tail: bool, ended: bool
) -> None:
    """However the lines end, however they are cut, whether they pass the bound, and wherever the owner stops."""
    lines = [b"first\r\n", *lines]
    data = b"".join(lines) + rest
    conn = Connection("client", nonce="n", limits=Limits(max_line_bytes=20), tail=tail)
    given_bytes = read = 0
    for size, drains in [*cuts, (len(data), False)]:
        part = data[given_bytes : given_bytes + size]
        if not part:
            continue
        conn.receive_data(part, 0.0)
        given_bytes += len(part)
        if drains:
            assert sum(1 for _ in conn.events()) <= len(lines)
            assert conn.unread_bytes == 0
            read = data.rfind(b"\n", 0, given_bytes) + 1
    if ended:
        conn.receive_eof(0.0)
    left = lines[data.count(b"\n", 0, read) :]
    for _ in range(pulled):
        if ended and not any(line.strip() for line in left):
            break
        if conn.next_event() is None:
            read += sum(map(len, left))
            break
        # A blank line says nothing, and is passed over on the way to the next.
        while True:
            line = left.pop(0)
            read += len(line)
            if line.strip():
                break
    conn.abort()
    (over,) = [event for event in conn.events() if isinstance(event, ConnectionOver)]
    assert over.unread_bytes == len(data) - read


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    while at < len(data):
        size = sizes[-1] if sizes else len(data)
        yield data[at : at + size]
        at += size


# ── Buffers and types ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wrap", [bytearray, lambda data: memoryview(bytearray(data))])
def test_a_buffer_that_is_used_again_was_copied(wrap: Callable[[bytes], bytearray | memoryview]) -> None:
    driver, _ = idle_client()
    line = as_line(chunk("s1", "kept"))
    buffer = wrap(line)
    driver.conn.receive_data(buffer, driver.now)
    buffer[:] = b"\x00" * len(line)
    assert texts(driver.drain()) == ["kept"]


def test_bytes_are_kept_by_reference() -> None:
    driver, _ = idle_client()
    line = as_line(chunk("s1", "é" * 100))
    big = line * 10_000
    driver.conn.receive_data(big, driver.now)
    assert any(big is data for _, data, _ in driver.conn._inputs)


def test_a_view_is_taken_as_its_bytes() -> None:
    driver, _ = idle_client()
    line = as_line(chunk("s1", "view"))
    driver.conn.receive_data(memoryview(line)[:30], driver.now)
    driver.conn.receive_data(memoryview(line)[30:], driver.now)
    assert texts(driver.drain()) == ["view"]


@pytest.mark.parametrize("wrong", ["text", None, 5, [1], object()])
def test_data_of_a_wrong_type_is_the_callers_fault(wrong: object) -> None:
    driver, _ = idle_client()
    with pytest.raises(TypeError):
        driver.conn.receive_data(wrong, driver.now)  # type: ignore[arg-type]  # wrong on purpose
    if not isinstance(wrong, str):
        with pytest.raises(TypeError):
            driver.conn.receive_message(wrong, driver.now)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError):
        driver.conn.receive_message(bytearray(b"{}"), driver.now)  # type: ignore[arg-type]  # wrong on purpose
    assert driver.drain() == []
    assert driver.conn.unread_bytes == 0


# ── Messages with boundaries ────────────────────────────────────────────────────────────────────────────────────────


def test_messages_with_boundaries() -> None:
    driver, _ = idle_client()
    text = as_line(chunk("s1", "é\u2028")).decode().removesuffix("\n")
    for line in (text, text.encode(), text + "\n", text + "\r\n", "", b"\n", text.replace(" ", "\n")):
        driver.conn.receive_message(line, driver.now)
    assert texts(driver.drain()) == ["é\u2028"] * 5
    assert driver.conn.unread_bytes == 0
    # An empty message is no end of input, and a lone surrogate in text is invalid UTF-8 on the wire.
    driver.conn.receive_message('{"jsonrpc":"2.0","method":"m","params":{"x":"\ud800"}}', driver.now)
    (fault,) = driver.drain()
    assert isinstance(fault, Malformed)
    assert fault.error.rule == "utf8"


def test_messages_do_not_touch_half_a_line_of_the_stream() -> None:
    driver, _ = idle_client()
    line = as_line(chunk("s1", "stream"))
    driver.conn.receive_data(line[:25], driver.now)
    driver.conn.receive_message(as_line(chunk("s1", "message")), driver.now)
    driver.conn.receive_data(line[25:], driver.now)
    assert texts(driver.drain()) == ["message", "stream"]


def test_a_message_past_the_bound_is_reported() -> None:
    driver, _ = idle_client(limits=Limits(max_line_bytes=400))
    message = as_line(chunk("s1", "x" * 400))[:-1]
    driver.conn.receive_message(message, driver.now)
    (event,) = driver.drain()
    assert isinstance(event, LineTooLong)
    assert (event.length, event.head, event.tail) == (len(message), message[:400], message[-256:])


# ── Chunks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(5))
def test_any_chunking_gives_the_same_events(seed: int) -> None:
    """Good lines, noise, faults, answers and lines past the bound, in any cut and with any line end."""
    chance = random.Random(seed)
    kinds = [
        as_line(chunk("s1", "é" * 30))[:-1],
        as_line(chunk("other", "x"))[:-1],
        as_line(result(99, {}))[:-1],
        as_line(notification("_note", {"a": [1, {"b": None}]}))[:-1],
        b"plain text",
        b'{"jsonrpc":"2.0","id":',
        b"\xff\xfe",
        b"",
        as_line(chunk("s1", "y" * 900))[:-1],
    ]
    data = b"".join(chance.choice(kinds) + chance.choice([b"\n", b"\r\n"]) for _ in range(60))

    def events(sizes: list[int]) -> list[str]:
        driver, _ = idle_client(limits=Limits(max_line_bytes=400))
        for part in cut(data, sizes):
            driver.conn.receive_data(part, driver.now)
            driver.drain()
        driver.end()
        return [event_key(event, at=True) for event in driver.log]

    whole = events([])
    assert len(whole) > 40
    assert events([1]) == whole
    for _ in range(5):
        assert events([chance.randint(1, 700) for _ in range(50)]) == whole


# ── Bounds of unread input ──────────────────────────────────────────────────────────────────────────────────────────


def test_unread_input_is_bounded_and_what_was_read_makes_room() -> None:
    driver, _ = idle_client(limits=Limits(max_unread_bytes=2000))
    line = as_line(chunk("s1", "x"))
    taken = 0
    with pytest.raises(LocalProtocolError) as caught:
        while True:
            driver.conn.receive_data(line, driver.now)
            taken += 1
    assert caught.value.rule == "limits.max_unread_bytes"
    assert driver.conn.unread_bytes == taken * len(line) <= 2000
    # Nothing was lost, and nothing of the refused read was taken.
    assert len(texts(driver.drain())) == taken
    assert driver.conn.unread_bytes == 0
    driver.conn.receive_data(line, driver.now)
    assert len(texts(driver.drain())) == 1


@pytest.mark.parametrize("receive", ["receive_data", "receive_message"])
def test_one_read_at_the_bound_and_one_byte_above(receive: str) -> None:
    driver, _ = idle_client(limits=Limits(max_unread_bytes=500))
    with pytest.raises(LocalProtocolError):
        getattr(driver.conn, receive)(b"x" * 501, driver.now)
    assert driver.conn.unread_bytes == 0
    getattr(driver.conn, receive)(b"x" * 500, driver.now)
    assert driver.conn.unread_bytes == 500


def test_many_tiny_reads_are_bounded_too() -> None:
    """Single bytes, and messages without any: each costs more than its bytes."""
    for receive, piece in (("receive_data", b"x"), ("receive_message", b"")):
        driver, _ = idle_client(limits=Limits(max_unread_bytes=10_000))
        with pytest.raises(LocalProtocolError):
            for _ in range(10_000):
                getattr(driver.conn, receive)(piece, driver.now)
        assert len(driver.conn._inputs) < 1000


def test_half_a_line_is_not_unread() -> None:
    """The bytes of a line whose end has not come are kept by the framer, under the bound of a line."""
    driver, _ = idle_client(limits=Limits(max_unread_bytes=1000, max_line_bytes=5000))
    for _ in range(9):
        driver.conn.receive_data(b"x" * 1000, driver.now)
        assert driver.drain() == []
        assert driver.conn.unread_bytes == 0
    (event,) = driver.feed(b"x")
    assert isinstance(event, LineTooLong)
    assert event.length == 9001


@pytest.mark.parametrize("depth", [12, 21, 40, 128])
def test_the_shortest_updates_at_the_bound_of_depth_and_one_above(depth: int) -> None:
    """Of a line that is too short to be deep no bracket is counted."""
    driver, _ = idle_client(limits=Limits(max_depth=depth))
    rules = []
    for levels in (depth, depth + 1):
        inside = levels - 2
        params = '{"":' + "[" * inside + "]" * inside + "}"
        (fault,) = driver.feed('{"jsonrpc":"2.0","method":"session/update","params":' + params + "}")
        assert isinstance(fault, Malformed)
        rules.append(fault.error.rule)
    assert rules == ["update.params", "json.depth"]


# ── The end of input ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("how", ["receive_eof", "receive_data"])
def test_the_end_of_input_settles_everything(name: str, how: str) -> None:
    driver = STATES[name]()
    sent_before = driver.conn.output_bytes
    ended = name in ("client input ended",)
    over = driver.conn.state == "over"
    if how == "receive_eof":
        driver.conn.receive_eof(driver.now)
    elif not ended and not over:
        driver.conn.receive_data(b"", driver.now)
    events = driver.drain()
    assert driver.conn.state == "over"
    assert type(events[-1]) is ConnectionOver
    assert len(only(driver.log, ConnectionOver)) == 1
    assert (driver.conn.open_requests, driver.conn.open_peer_requests) == (0, 0)
    # The transport may still be written: a message whose first byte has left goes out whole.
    assert driver.conn.output_bytes <= sent_before
    driver.sent()
    assert driver.half_sent == b""
    assert driver.conn.closed
    # A second end, and time that passes, are nothing.
    driver.conn.receive_eof(driver.now)
    driver.conn.receive_data(b"", driver.now)
    assert driver.wait(1e6) == []


def test_data_after_the_end_is_refused_until_it_is_over_and_then_ignored() -> None:
    driver, _ = idle_client()
    driver.conn.receive_data(as_line(chunk("s1", "a")), driver.now)
    driver.conn.receive_data(b"", driver.now)
    for receive in (driver.conn.receive_data, driver.conn.receive_message):
        with pytest.raises(LocalProtocolError) as caught:
            receive(b"more", driver.now)
        assert caught.value.rule == "connection.input_ended"
    assert names(driver.drain()) == ["AgentMessageChunk", "ConnectionOver"]
    driver.conn.receive_data(b"more\n", driver.now)
    driver.conn.receive_message(b"more", driver.now)
    driver.conn.handle_timeout(driver.now + 5)
    assert driver.drain() == []
    assert driver.conn.unread_bytes == 0


@pytest.mark.parametrize(
    ("rest", "outcome"),
    [
        (b"", "result"),
        (b"\r", "result"),
        (b"\n", "result"),
    ],
)
def test_a_last_line_without_newline_counts_when_it_is_whole(rest: bytes, outcome: str) -> None:
    driver, _ = idle_client()
    id = driver.conn.request("_slow")
    driver.sent()
    driver.conn.receive_data(as_line(result(id, {}))[:-1] + rest, driver.now)
    driver.conn.receive_eof(driver.now)
    settled, over = driver.drain()
    assert isinstance(settled, RequestSettled)
    assert settled.outcome == outcome
    assert isinstance(over, ConnectionOver)


@pytest.mark.parametrize(
    "half", [b'{"jsonrpc":"2.0","id":1,"res', b"some text", b"42", b"[1]", b"{}", b"\xff", b"\xc3"]
)
def test_any_other_last_line_is_truncated(half: bytes) -> None:
    driver, _ = idle_client()
    driver.conn.receive_data(half, driver.now)
    driver.conn.receive_eof(driver.now)
    truncated, over = driver.drain()
    assert isinstance(truncated, Truncated)
    assert (truncated.raw, truncated.length) == (half, len(half))
    assert isinstance(over, ConnectionOver)
    assert over.unread_bytes == 0


def test_a_last_line_past_the_bound_is_truncated() -> None:
    driver, _ = idle_client(limits=Limits(max_line_bytes=5000))
    driver.conn.receive_data(b"x" * 6000, driver.now)
    driver.conn.receive_eof(driver.now)
    truncated, over = driver.drain()
    assert isinstance(truncated, Truncated)
    assert (truncated.raw, truncated.length) == (b"x" * 4096, 6000)
    assert isinstance(over, ConnectionOver)


def test_answers_before_the_end_are_used() -> None:
    """The last words of an agent that dies: a turn's end, then nothing more."""
    driver, _, id = prompting_client()
    driver.conn.receive_data(as_line(chunk("s1", "bye")) + as_line(result(id, {"stopReason": "refusal"})), driver.now)
    driver.conn.receive_eof(driver.now)
    assert names(driver.drain()) == ["AgentMessageChunk", "TurnEnded", "ConnectionOver"]


# ── Joining a stream in its middle ──────────────────────────────────────────────────────────────────────────────────


def tail_client() -> ClientDriver:
    return client(tail=True)


def everything(driver: ClientDriver, data: bytes) -> list[Event]:
    driver.conn.receive_data(data, driver.now)
    return driver.drain()


def test_every_cut_of_a_stream_is_joined_without_an_invented_message() -> None:
    """The first line is dropped unless it is whole; whatever byte the stream is joined at."""
    first = as_line(notification("_one", {"text": 'a"}{\\" {"jsonrpc":"2.0"} é\u2028', "deep": {"jsonrpc": "2.0"}}))
    second = as_line(notification("_two", {}))
    for at in range(len(first) + 1):
        events = everything(tail_client(), first[at:] + second)
        received = [event.method for event in only(events, NotificationReceived)]
        dropped = only(events, TailDropped)
        if at in (0, len(first)):
            assert received == (["_one", "_two"] if at == 0 else ["_two"])
            assert dropped == []
        else:
            assert received == ["_two"]
            assert [event.raw for event in dropped] == [first[at:-1]]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_fragment_is_held_until_its_end(size: int) -> None:
    driver = tail_client()
    data = b'half": 1}}\n' + as_line(notification("_two", {}))
    for part in cut(data, [size]):
        driver.conn.receive_data(part, driver.now)
        driver.drain()
    assert names(driver.log) == ["TailDropped", "NotificationReceived"]


def test_only_the_first_line_is_dropped() -> None:
    events = everything(tail_client(), b"fragment\nnoise\n" + as_line(notification("_x", {})) + b"noise\n")
    assert names(events) == ["TailDropped", "Noise", "NotificationReceived", "Noise"]


def test_a_fragment_past_the_bound_is_dropped() -> None:
    driver = client(tail=True, limits=Limits(max_line_bytes=300))
    # Its end looks like an answer with an id, which nothing may settle.
    id = driver.conn.initialize()
    driver.sent()
    events = everything(driver, b"x" * 400 + b'"},"id":%d}\n' % id + as_line(notification("_x", {})))
    assert names(events) == ["TailDropped", "NotificationReceived"]
    assert driver.conn.open_requests == 1


def test_a_stream_that_ends_in_its_first_fragment() -> None:
    driver = tail_client()
    driver.conn.receive_data(b'half": 1}', driver.now)
    driver.conn.receive_eof(driver.now)
    assert names(driver.drain()) == ["Truncated", "ConnectionOver"]


# ── What cannot be made ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("nonce", ["", "a.b", "x" * 65])
def test_a_nonce_is_short_and_has_no_dot(nonce: str) -> None:
    with pytest.raises(LocalProtocolError):
        ClientConnection(nonce=nonce)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ClientConnection(nonce=5),  # type: ignore[arg-type]
        lambda: ClientConnection(nonce="a", extensions="_x"),
        lambda: ClientConnection(nonce="a", extensions=b"_x"),  # type: ignore[arg-type]
        lambda: ClientConnection(nonce="a", capabilities=[]),  # type: ignore[arg-type]
        lambda: ClientConnection(nonce="a", info="me"),  # type: ignore[arg-type]
        lambda: ClientConnection(nonce="a", permissions="allow"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_a_wrong_type_are_the_callers_fault(make: Callable[[], Connection]) -> None:
    with pytest.raises(TypeError):
        make()


def test_a_connection_of_no_role() -> None:
    with pytest.raises(LocalProtocolError):
        Connection("server", nonce="a")
    assert [type(Connection(role, nonce="a")) for role in ("client", "agent")] == [Connection] * 2


def test_what_was_advertised_does_not_change_with_the_callers_dict() -> None:
    capabilities: dict[str, object] = {"terminal": True}
    driver = ClientDriver(ClientConnection(nonce="a", capabilities=capabilities))
    capabilities["terminal"] = False
    driver.conn.initialize()
    (message,) = driver.sent()
    params = message["params"]
    assert isinstance(params, dict)
    assert params["clientCapabilities"] == {"terminal": True}


def test_updates_before_a_session_is_ready_are_in_order_with_it() -> None:
    """Events that an intent or a held message makes known never overtake what was received before."""
    driver = client().initialize()
    driver.conn.open_session("/work")
    (message,) = driver.sent()
    driver.drain()
    events = driver.feed(
        chunk("s1", "1"), chunk("s1", "2"), result(message["id"], {"sessionId": "s1"}), chunk("s1", "3")
    )
    assert texts(events) == ["1", "2", "3"]
    assert names(events) == [
        "SessionStep",
        "SessionOpened",
        "AgentMessageChunk",
        "AgentMessageChunk",
        "SessionReady",
    ] + ["AgentMessageChunk"]
    assert len(only(events, SessionReady)) == 1
    assert [event.mark for event in only(events, Update)] == ["", "", ""]
