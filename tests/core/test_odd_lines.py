"""No single line can end a connection: each of these is fed to a live one, and its prompt still ends well."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_core import (
    AgentMessageChunk,
    AnswerUnmatched,
    Event,
    ForeignUpdate,
    Limits,
    LineTooLong,
    Malformed,
    Noise,
    NotificationReceived,
    PermissionRequested,
    RequestRefused,
    RequestSettled,
    TurnEnded,
    UnknownUpdate,
)
from tests.core.helpers import (
    ClientDriver,
    agent,
    as_line,
    chunk,
    error,
    idle_client,
    names,
    one,
    only,
    prompting_client,
    request,
    result,
    update,
)
from tests.spec.requirements import requirement

MIB = 2**20
FIVE = b'{"jsonrpc":"2.0","id":5,'


def text_update(text: bytes) -> bytes:
    """An update with this JSON text in it, byte for byte."""
    return (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
        b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"' + text + b'"}}}}'
    )


# What each line is, and the event it becomes.
ODD: list[tuple[str, bytes, type[Event]]] = [
    ("number", b"42", Noise),
    ("negative number", b"-0.5e-10", Noise),
    ("null", b"null", Noise),
    ("true", b"true", Noise),
    ("string", b'"x"', Noise),
    ("array", b"[1,2]", Noise),
    ("empty array", b"[]", Noise),
    ("empty object", b"{}", Noise),
    ("text", b"Starting up...", Noise),
    ("log line", b'{"level":"info","msg":"hello","id":1,"result":{}}', Noise),
    ("no version", b'{"id":3,"result":{"stopReason":"end_turn"}}', Noise),
    ("old version", b'{"jsonrpc":"1.0","id":3,"result":{"stopReason":"end_turn"}}', Noise),
    ("request without version", b'{"id":9,"method":"session/request_permission","params":{}}', Noise),
    ("half an object", b'{"jsonrpc":"2.0","id":3,"result":{"stopRea', Malformed),
    ("two objects", as_line(chunk("s1", "a"))[:-1] + as_line(chunk("s1", "b"))[:-1], Malformed),
    ("trailing comma", b'{"jsonrpc":"2.0","method":"m",}', Malformed),
    ("single quotes", b"{'jsonrpc':'2.0','method':'m'}", Noise),
    ("control character", b'{"jsonrpc":"2.0","method":"a\x01b"}', Malformed),
    ("70 MiB", text_update(b"x" * (70 * MIB)), LineTooLong),
    ("70 MiB of text", b"x" * (70 * MIB), LineTooLong),
    ("invalid UTF-8", b'{"jsonrpc":"2.0","method":"m","params":{"x":"\xff\xfe"}}', Malformed),
    ("invalid UTF-8 text", b"\xc3\x28 caf\xe9", Noise),
    ("half a character", text_update(b"\xf0\x9f\x98"), Malformed),
    ("surrogate bytes", text_update(b"\xed\xa0\x80"), Malformed),
    ("UTF-16", as_line(chunk("s1", "x"))[:-1].decode().encode("utf-16"), Noise),
    ("100,000 brackets", b"[" * 100_000, Malformed),
    ("100,000 braces", b'{"a":' * 100_000, Malformed),
    ("100,000 closed brackets", b"[" * 100_000 + b"]" * 100_000, Malformed),
    ("deep update", text_update(b"x")[:-1] + b',"deep":' + b"[" * 5000 + b"]" * 5000 + b"}", Malformed),
    ("unknown update", as_line(update("s1", "brand_new", x=1))[:-1], UnknownUpdate),
    ("update of nobody", as_line(chunk("s9", "x"))[:-1], ForeignUpdate),
    ("update without params", b'{"jsonrpc":"2.0","method":"session/update"}', Malformed),
    ("unknown notification", b'{"jsonrpc":"2.0","method":"brand/new"}', NotificationReceived),
    ("unknown request", b'{"jsonrpc":"2.0","id":9,"method":"brand/new"}', RequestRefused),
    (
        "cancel of nothing",
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":9}}',
        NotificationReceived,
    ),
    ("response to nobody", b'{"jsonrpc":"2.0","id":999,"result":{}}', AnswerUnmatched),
    ("response with id [1]", b'{"jsonrpc":"2.0","id":[1],"result":{}}', Malformed),
    ("response with id true", b'{"jsonrpc":"2.0","id":true,"result":{}}', Malformed),
    ("response with id 3.5", b'{"jsonrpc":"2.0","id":3.5,"result":{}}', Malformed),
    ("response with id null", b'{"jsonrpc":"2.0","id":null,"result":{}}', Malformed),
    ("response with id {}", b'{"jsonrpc":"2.0","id":{"a":3},"result":{}}', Malformed),
    ("response without id", b'{"jsonrpc":"2.0","result":{"stopReason":"end_turn"}}', Malformed),
    ("error without id", b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}', AnswerUnmatched),
    ("error text without id", b'{"jsonrpc":"2.0","error":"oh no"}', Malformed),
    ("only an id", b'{"jsonrpc":"2.0","id":9}', Malformed),
    ("only a version", b'{"jsonrpc":"2.0"}', Malformed),
    ("method of a wrong type", b'{"jsonrpc":"2.0","id":9,"method":["m"]}', Malformed),
    ("method and result", b'{"jsonrpc":"2.0","id":9,"method":"m","result":{}}', Malformed),
    ("request with id null", b'{"jsonrpc":"2.0","id":null,"method":"session/request_permission"}', Malformed),
    ("batch", b'[{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}]', Malformed),
    ("empty batch", b"[ ]", Noise),
    ("NaN", b'{"jsonrpc":"2.0","method":"m","params":{"x":NaN}}', Malformed),
    ("Infinity", b'{"jsonrpc":"2.0","method":"m","params":{"x":[-Infinity]}}', Malformed),
    ("huge exponent", b'{"jsonrpc":"2.0","method":"m","params":{"x":1e999999}}', NotificationReceived),
    ("huge integer", b'{"jsonrpc":"2.0","method":"m","params":{"x":' + b"9" * 10_000 + b"}}", Malformed),
    ("large integer", b'{"jsonrpc":"2.0","method":"m","params":{"x":' + b"9" * 4000 + b"}}", NotificationReceived),
    ("huge integer id", b'{"jsonrpc":"2.0","id":' + b"9" * 10_000 + b',"result":{}}', Malformed),
    ("large integer id", b'{"jsonrpc":"2.0","id":' + b"9" * 300 + b',"result":{}}', AnswerUnmatched),
    ("long text id", b'{"jsonrpc":"2.0","id":"' + b"x" * 5000 + b'","method":"m"}', Malformed),
    ("duplicate keys", b'{"jsonrpc":"2.0","method":"a","method":"b","params":{"x":1,"x":2}}', NotificationReceived),
    ("lone surrogate", text_update(rb"\ud800 \udc00"), AgentMessageChunk),
    ("byte order mark", b"\xef\xbb\xbf" + text_update(b"x"), AgentMessageChunk),
    ("U+2028 and U+0085", text_update("a\u2028b\u2029c\u0085d\u000bx".replace("\x0b", "").encode()), AgentMessageChunk),
    ("NUL", b"\x00\x00\x00", Noise),
    ("carriage returns", b"\r\r\r{", Noise),
    ("white space around", b" \t " + text_update(b"x") + b" \r\t", AgentMessageChunk),
    ("escapes", text_update(rb"\u0041\n\"\\\/\b\f\r\t"), AgentMessageChunk),
]


def check_alive(driver: ClientDriver, prompt: int) -> None:
    """The prompt of a live connection ends well."""
    events = driver.feed(chunk("s1", "still here"), result(prompt, {"stopReason": "end_turn"}))
    assert [event.text for event in only(events, AgentMessageChunk)] == ["still here"]
    assert one(events, TurnEnded).stop_reason == "end_turn"


@pytest.mark.parametrize(("line", "kind"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_an_odd_line_is_an_event_and_nothing_else(line: bytes, kind: type[Event], end: bytes) -> None:
    driver, session, prompt = prompting_client()
    before = driver.conn.open_requests
    driver.conn.receive_data(line + end, driver.now)
    (event,) = driver.drain()
    assert type(event) is kind
    assert (session.state, driver.conn.state, driver.conn.open_requests) == ("prompting", "open", before)
    # A client answers requests, and never noise.
    asks = line.startswith(b'{"jsonrpc":"2.0","id":9,"method":') and b"result" not in line
    assert [message["id"] for message in driver.sent()] == ([9] if asks else [])
    # What came stays reachable, and the event can be printed.
    if isinstance(event, (Noise, Malformed)):
        assert event.raw == line
    repr(event)
    check_alive(driver, prompt)


def test_all_odd_lines_one_after_the_other() -> None:
    """Good lines stand between them: everything comes in order."""
    driver, _, prompt = prompting_client()
    lines = [line for _, line, kind in ODD if kind is not LineTooLong]
    data = b"".join(line + b"\n" + as_line(chunk("s1", f"after {number}")) for number, line in enumerate(lines))
    driver.conn.receive_data(data, driver.now)
    events = driver.drain()
    expected = [kind for _, _, kind in ODD if kind is not LineTooLong]
    assert [type(event) for event in events[::2]] == expected
    assert [event.text for event in only(events[1::2], AgentMessageChunk)] == [
        f"after {number}" for number in range(len(lines))
    ]
    check_alive(driver, prompt)


@pytest.mark.parametrize("line", [b"", b"  ", b"\t\t", b"\r"])
def test_blank_lines_are_nothing(line: bytes) -> None:
    driver, _, prompt = prompting_client()
    assert driver.feed(line) == []
    check_alive(driver, prompt)


def test_half_an_object_then_its_rest_on_the_next_line() -> None:
    """A raw line end inside a message makes two faulty lines of it, and nothing more."""
    driver, _, prompt = prompting_client()
    whole = as_line(chunk("s1", "x"))[:-1]
    assert names(driver.feed(whole[:40], whole[40:])) == ["Malformed", "Noise"]
    check_alive(driver, prompt)


def test_the_first_4_kib_and_the_last_256_bytes_of_a_long_line() -> None:
    driver, _, prompt = prompting_client()
    line = text_update(b"x" * (70 * MIB))
    for start in range(0, len(line), 4 * MIB):
        driver.conn.receive_data(line[start : start + 4 * MIB], driver.now)
        assert driver.drain() == []
        # Skipped in bounded memory once the bound is passed.
        assert driver.conn._framer.pending_bytes <= 64 * MIB + 1
    event = one(driver.feed(b""), LineTooLong)
    assert (event.length, event.head, event.tail) == (len(line), line[:4096], line[-256:])
    assert event.error.rule == "limits.max_line_bytes"
    check_alive(driver, prompt)


# ── Faulty answers to another open request ──────────────────────────────────────────────────────────────────────────


def asking(limit: int | None = None) -> tuple[ClientDriver, int, int]:
    """A prompt and another request are open: the driver and both ids."""
    driver, session = idle_client(limits=Limits(max_line_bytes=limit) if limit is not None else None)
    other = driver.conn.request("_other", token="t")
    prompt = driver.prompt(session)
    return driver, prompt, other


FAULTY_ANSWERS: list[tuple[str, str]] = [
    ("error that is a string", '"error":"oh no"'),
    ("error that is a list", '"error":[]'),
    ("error without a code", '"error":{"message":"m"}'),
    ("error with a text code", '"error":{"code":"-1","message":"m"}'),
    ("result and error", '"result":{},"error":{"code":1,"message":"m"}'),
    ("neither", '"_meta":{}'),
    ("null error", '"error":null'),
    ("NaN", '"result":{"x":NaN}'),
    ("invalid UTF-8", '"result":{"x":"\udcff"}'),
    ("too deep", '"result":' + "[" * 500 + "]" * 500),
    ("huge integer", '"result":' + "9" * 10_000),
]


@pytest.mark.parametrize("members", [row[1] for row in FAULTY_ANSWERS], ids=[row[0] for row in FAULTY_ANSWERS])
@pytest.mark.parametrize("order", ["id first", "id last"])
def test_a_faulty_answer_settles_its_request_at_once(members: str, order: str) -> None:
    driver, prompt, other = asking()
    text = f'"id":{other},{members}' if order == "id first" else f'{members},"id":{other}'
    line = ('{"jsonrpc":"2.0",' + text + "}").encode("utf-8", "surrogateescape")
    fault, settled = driver.feed(line)
    assert isinstance(fault, Malformed)
    assert isinstance(settled, RequestSettled)
    assert (settled.id, settled.outcome, settled.dispatch, settled.token) == (other, "invalid", "answered", "t")
    assert settled.error is fault.error
    check_alive(driver, prompt)


@pytest.mark.parametrize("order", ["id first", "id last", "id in both", "text as result"])
@pytest.mark.parametrize("spelling", ["%d", '"%d"'])
def test_an_answer_past_the_bound_settles_its_request_at_once(order: str, spelling: str) -> None:
    driver, prompt, other = asking(2000)
    id = spelling % other
    value = json.dumps({"text": "x" * 3000})
    line = {
        "id first": f'{{"jsonrpc":"2.0","id":{id},"result":{value}}}',
        "id last": f'{{"jsonrpc":"2.0","result":{value},"id":{id}}}',
        "id in both": f'{{"jsonrpc":"2.0","id":{id},"result":{value},"id":{id}}}',
        "text as result": f'{{"jsonrpc":"2.0","id":{id},"result":"{"x" * 3000}"}}',
    }[order]
    long, settled = driver.feed(line)
    assert isinstance(long, LineTooLong)
    assert isinstance(settled, RequestSettled)
    assert (settled.id, settled.outcome, settled.dispatch) == (other, "invalid", "answered")
    assert settled.error is long.error
    check_alive(driver, prompt)


@pytest.mark.parametrize(
    "line",
    [
        # The ids of both ends differ, the id stands inside a value, or the line is a notification.
        '{"jsonrpc":"2.0","id":2,"result":{"x":"%s"},"id":3}',
        '{"jsonrpc":"2.0","result":{"id":2,"x":"%s"}}',
        '{"jsonrpc":"2.0","method":"m","params":{"id":2,"x":"%s"}}',
        '{"level":"info","id":2,"x":"%s"}',
        '["%s",{"id":2}]',
    ],
)
def test_a_long_line_whose_id_cannot_be_trusted_settles_nothing(line: str) -> None:
    driver, prompt, other = asking(2000)
    assert other == 3
    assert names(driver.feed(line % ("x" * 3000))) == ["LineTooLong"]
    assert driver.conn.open_requests == 2
    check_alive(driver, prompt)


def test_a_request_past_the_bound_is_answered_and_not_raised() -> None:
    driver, prompt, _ = asking(2000)
    options = [{"optionId": "x", "name": "x" * 3000, "kind": "allow_once"}]
    first = request("p", "session/request_permission", {"sessionId": "s1", "options": options})
    last = {"jsonrpc": "2.0", "method": "fs/read_text_file", "params": {"path": "x" * 3000}, "id": 7}
    assert names(driver.feed(first, last)) == ["LineTooLong"] * 2
    answers = driver.sent()
    assert [message["id"] for message in answers] == ["p", 7]
    for message in answers:
        failure = message["error"]
        assert isinstance(failure, dict)
        assert failure["code"] == -32600
    check_alive(driver, prompt)


def test_a_request_past_the_bound_with_an_open_id_gets_no_answer() -> None:
    """It would settle the agent's open request that has the same id."""
    driver, prompt, _ = asking(2000)
    driver.feed(request(7, "fs/read_text_file", {"sessionId": "s1", "path": "/a"}))
    driver.feed(request(7, "fs/read_text_file", {"sessionId": "s1", "path": "x" * 3000}))
    assert driver.sent() == []
    assert driver.conn.open_peer_requests == 1
    check_alive(driver, prompt)


# ── Odd values in good lines ────────────────────────────────────────────────────────────────────────────────────────


def test_a_stop_reason_that_nobody_knows_ends_the_turn() -> None:
    driver, session, prompt = prompting_client()
    ended = one(driver.feed(result(prompt, {"stopReason": "brand_new"})), TurnEnded)
    assert (ended.stop_reason, ended.known, session.state) == ("brand_new", False, "idle")


@requirement(1)
def test_text_comes_through_as_it_was_written() -> None:
    driver, _, _ = prompting_client()
    for raw, text in (
        (rb"\ud83d\ude00", "😀"),
        (rb"\ud800", "\ud800"),
        ("a\u2028b\u0085c".encode(), "a\u2028b\u0085c"),
        (rb"a\r\nb", "a\r\nb"),
        ("é\N{COMBINING ACUTE ACCENT}".encode(), "é\N{COMBINING ACUTE ACCENT}"),
        (rb"\u0000", "\x00"),
    ):
        assert one(driver.feed(text_update(raw)), AgentMessageChunk).text == text


def test_duplicate_keys_count_once_and_the_last_one_wins() -> None:
    driver, _, prompt = prompting_client()
    other = driver.conn.request("_other")
    driver.sent()
    line = f'{{"jsonrpc":"2.0","id":{prompt},"id":{other},"result":1,"result":2}}'
    settled = one(driver.feed(line), RequestSettled)
    assert (settled.id, settled.result) == (other, 2)
    check_alive(driver, prompt)


def test_a_permission_with_odd_values_is_still_raised() -> None:
    driver, _, prompt = prompting_client()
    values: list[object] = [None, 5, "x", [], {}, [None, 5, {}], {"toolCallId": [1]}]
    for number, value in enumerate(values):
        params = {"sessionId": "s1", "toolCall": value, "options": value, "_meta": value}
        event = one(driver.feed(request(number, "session/request_permission", params)), PermissionRequested)
        assert (event.options, event.tool_call_id, event.title, event.tool_kind) == ((), "", None, None)
        assert event.params == params
        driver.conn.answer_permission(event.request_id, None)
    driver.sent()
    check_alive(driver, prompt)


def test_an_agent_outlives_the_same_lines() -> None:
    for _, line, _ in ODD:
        if len(line) > MIB:
            continue
        driver = agent().initialize()
        driver.open()
        id = driver.prompt()
        driver.feed(line)
        assert driver.conn.state == "open"
        driver.sent()
        driver.conn.end_turn(id)
        assert [message["result"] for message in driver.sent()] == [{"stopReason": "end_turn"}]


# ── Any line at all ─────────────────────────────────────────────────────────────────────────────────────────────────

fragments = st.sampled_from(
    [
        *(b'{"jsonrpc":"2.0"', b'"id":', b'"result":', b'"error":', b'"method":', b'"params":', b'"session/update"'),
        *(b'"session/request_permission"', b'"sessionId":"s1"', b'"update":{"sessionUpdate":"tool_call"'),
        *(b"{", b"}", b"[", b"]", b",", b":", b"1", b"2", b"3", b'"3"', b"3.0", b"null", b"true", b"NaN", b'"', b"\\"),
        *(b"\xff", b"\xc3", b" ", b"\r", b"\x00", b"\xef\xbb\xbf", b"9" * 5000, b"1e5"),
        *(b'{"code":1,"message":"m"}', b'{"stopReason":"end_turn"}'),
    ]
)


@given(st.lists(fragments | st.binary(max_size=6), max_size=24).map(b"".join), st.integers(1, 30))
def test_any_bytes_leave_a_connection_that_works(data: bytes, size: int) -> None:
    driver, session, prompt = prompting_client()
    for start in range(0, len(data), size):
        driver.conn.receive_data(data[start : start + size], driver.now)
        driver.drain()
    driver.feed(b"")
    assert driver.conn.state == "open"
    assert session.state in ("prompting", "idle")
    if session.state == "prompting":
        check_alive(driver, prompt)
    driver.sent()
    assert names(driver.end())[-1] == "ConnectionOver"


def mutations(line: bytes) -> Iterator[bytes]:
    """Every byte of a line left out, doubled, and replaced."""
    for at in range(len(line)):
        yield line[:at] + line[at + 1 :]
        yield line[:at] + line[at : at + 1] + line[at:]
        for byte in b'"\\{}[],:0a\xff ':
            yield line[:at] + bytes([byte]) + line[at + 1 :]


@requirement(1)
@pytest.mark.parametrize(
    "message",
    [
        result(4, {"stopReason": "end_turn"}),
        error(4, -1),
        request(7, "session/request_permission", {"sessionId": "s1"}),
    ],
)
def test_a_good_line_with_one_wrong_byte(message: dict[str, object]) -> None:
    """Nothing raised, and what is settled is settled once: the one open request, at most."""
    line = json.dumps(message, separators=(",", ":")).encode()
    for bad in mutations(line):
        driver, _ = idle_client()
        other = driver.conn.request("_other")
        id = driver.conn.request("_mutated")
        driver.sent()
        assert (other, id) == (3, 4)
        events = driver.feed(bad)
        assert driver.conn.open_requests + len(only(events, RequestSettled)) == 2
        assert [event.outcome for event in only(driver.feed(result(other, {})), RequestSettled)] in ([], ["result"])
