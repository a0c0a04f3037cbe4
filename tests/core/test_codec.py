"""Every JSON trap, line by line; and a decode that raises for nothing that a peer can send."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_core import LocalProtocolError, codec
from acp_core.codec import Envelope, Reject, decode, encode, envelope, trusted_id
from acp_core.testing.strategies import odd_lines
from tests.spec.requirements import requirement

DEPTH = 128
T = TypeVar("T")


def rejected(line: str | bytes) -> Reject:
    found = decode(line, DEPTH)
    assert isinstance(found, Reject)
    return found


def deep(levels: int, opening: str = "[", closing: str = "]") -> str:
    """A message whose params nest so that the deepest container stands at ``levels``."""
    return '{"jsonrpc":"2.0","method":"m","params":' + opening * (levels - 1) + closing * (levels - 1) + "}"


def deep_in_the_stack(frames: int, call: Callable[[], T]) -> T:
    return call() if frames == 0 else deep_in_the_stack(frames - 1, call)


def stack_depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


# ── What a line is ──────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(1, 3)
@pytest.mark.parametrize(
    ("line", "kind", "rule"),
    [
        ("42", "noise", "jsonrpc.object"),
        ("null", "noise", "jsonrpc.object"),
        ("true", "noise", "jsonrpc.object"),
        ('"x"', "noise", "jsonrpc.object"),
        ("NaN", "noise", "jsonrpc.object"),
        ("[1,2]", "noise", "jsonrpc.object"),
        ("[]", "noise", "jsonrpc.object"),
        ("{}", "noise", "jsonrpc.version"),
        ('{"jsonrpc":"1.0","id":1,"result":{}}', "noise", "jsonrpc.version"),
        ('{"jsonrpc":2.0,"id":1,"result":{}}', "noise", "jsonrpc.version"),
        ('{"id":1,"result":{}}', "noise", "jsonrpc.version"),
        ("Welcome to the agent!", "noise", "json.syntax"),
        ("{not json", "noise", "json.syntax"),
        (b"caf\xe9", "noise", "utf8"),
        ('{"jsonrpc":"2.0","method":', "malformed", "json.syntax"),
        ('{"jsonrpc":"2.0","method":"a"} {"jsonrpc":"2.0"}', "malformed", "json.syntax"),
        ('{"jsonrpc":"2.0","method":"m","params":{"x":NaN}}', "malformed", "json.constant"),
        ('{"jsonrpc":"2.0","method":"m","params":{"x":-Infinity}}', "malformed", "json.constant"),
        (b'{"jsonrpc":"2.0","method":"m","params":{"x":"\xff"}}', "malformed", "utf8"),
        # A surrogate as UTF-8 bytes is no UTF-8.
        (b'{"jsonrpc":"2.0","method":"m","params":{"x":"\xed\xa0\x80"}}', "malformed", "utf8"),
        ('[{"jsonrpc":"2.0","method":"m"}]', "malformed", "jsonrpc.batch"),
        ("[" * 100_000, "malformed", "json.depth"),
        ('{"a":' * 100_000, "malformed", "json.depth"),
    ],
)
def test_lines_that_are_no_message(line: str | bytes, kind: str, rule: str) -> None:
    reject = rejected(line)
    assert (reject.kind, reject.rule) == (kind, rule)
    assert reject.reason
    assert reject.code in (-32700, -32600)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('{"jsonrpc":"2.0","x":1}', 1),
        # White space where JSON has it, a byte order mark before it.
        (' \t{ "jsonrpc" : "2.0" , "x" : 1 } \r', 1),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","x":1}', 1),
        # Characters that other readers take for the end of a line.
        ('{"jsonrpc":"2.0","x":"a\u2028b\u2029c\u0085d"}'.encode(), "a\u2028b\u2029c\u0085d"),
        # Lone surrogates are kept readable, pairs become one character.
        (r'{"jsonrpc":"2.0","x":"\ud800|\udc00|\ud83d\ude00"}', "\ud800|\udc00|\U0001f600"),
        # The last of two equal keys counts, also for the version.
        ('{"jsonrpc":"2.0","x":1,"x":2}', 2),
        ('{"jsonrpc":"1.0","jsonrpc":"2.0","x":3}', 3),
        ('{"jsonrpc":"2.0","x":1e999}', math.inf),
        ('{"jsonrpc":"2.0","x":-0.0}', 0.0),
        ('{"jsonrpc":"2.0","x":12345678901234567890123}', 12345678901234567890123),
        (b'{"jsonrpc":"2.0","x":"\xc3\xa9\xf0\x9f\x98\x80"}', "é😀"),
    ],
)
def test_lines_that_are_a_message(line: str | bytes, value: object) -> None:
    found = decode(line, DEPTH)
    assert isinstance(found, dict)
    assert found["x"] == value


def test_a_number_too_long_to_read_is_a_fault_that_still_names_its_request() -> None:
    """Python refuses integers of thousands of digits, at a number that the process can set."""
    digits = "9" * (sys.get_int_max_str_digits() + 1)
    reject = rejected('{"jsonrpc":"2.0","id":5,"result":{"n":' + digits + "}}")
    assert (reject.kind, reject.rule) == ("malformed", "json.number")
    assert codec.answered_id(reject, "") == 5
    assert rejected(digits).kind == "noise"
    fits = "9" * sys.get_int_max_str_digits()
    found = decode('{"jsonrpc":"2.0","n":' + fits + "}", DEPTH)
    assert isinstance(found, dict)
    assert found["n"] == int(fits)


def test_the_raw_value_behind_a_fault_is_kept() -> None:
    reject = rejected(b'{"jsonrpc":"2.0","id":5,"result":{"x":"\xff"}}')
    assert reject.value == {"jsonrpc": "2.0", "id": 5, "result": {"x": "\udcff"}}
    assert codec.answered_id(reject, b"") == 5


@example('{"jsonrpc":"2.0","x":[NaN,')
@example('{"jsonrpc":"2.0","x":[' + "1" * 5000 + ",")
@example(' {"jsonrpc":"2.0","x":')
@example('\ufeff{"jsonrpc":"2.0"}')
@example("[" * 100_000)
@given(odd_lines() | st.text(alphabet='{}[]",:1aN \ufeff\\'))
def test_a_line_is_diagnosed_alike_with_and_without_what_the_scanner_said(line: bytes | str) -> None:
    try:
        codec.scan(line if isinstance(line, str) else line.decode(), 0)
    except codec.FAULTS as why:
        assert described(codec.diagnose(line, DEPTH, why)) == described(codec.diagnose(line, DEPTH))


def described(found: object) -> str:
    """NaN is equal to nothing, so values are compared as they are written."""
    return repr([getattr(found, name) for name in Reject.__slots__] if isinstance(found, Reject) else found)


# ── Depth ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_depth_at_the_bound_and_one_above(opening: str, closing: str) -> None:
    step = opening.count("[") + opening.count("{")
    line = '{"jsonrpc":"2.0","x":' + opening * ((DEPTH - 1) // step) + "1" + closing * ((DEPTH - 1) // step) + "}"
    levels = 1 + step * ((DEPTH - 1) // step)
    assert isinstance(decode(line, levels), dict)
    assert rejected_at(line, levels - 1).rule == "json.depth"


def rejected_at(line: str, depth: int) -> Reject:
    found = decode(line, depth)
    assert isinstance(found, Reject)
    return found


def test_brackets_in_text_are_not_deep() -> None:
    found = decode('{"jsonrpc":"2.0","x":"' + "[{" * 1000 + '"}', DEPTH)
    assert isinstance(found, dict)
    wide = decode('{"jsonrpc":"2.0","x":[' + ",".join(["[{}]"] * 1000) + "]}", DEPTH)
    assert isinstance(wide, dict)


@pytest.mark.parametrize("levels", [1, 100, DEPTH, DEPTH + 1, 5000])
def test_depth_does_not_depend_on_the_callers_stack(levels: int) -> None:
    """Near the interpreter's recursion limit the same lines are read, and the same are refused."""
    line = deep(levels) if levels > 1 else '{"jsonrpc":"2.0","x":["é",1.5e3,true,null,{"a":"\\u00e9\\n"},[]]}'
    free = decode(line, DEPTH)
    frames = sys.getrecursionlimit() - stack_depth() - 60
    found = deep_in_the_stack(frames, lambda: decode(line, DEPTH))
    if isinstance(free, Reject):
        assert isinstance(found, Reject)
        assert (found.kind, found.rule) == (free.kind, free.rule) == ("malformed", "json.depth")
    else:
        assert found == free


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values, st.sampled_from([None, 0, 2]), st.booleans())
def test_both_ways_of_reading_agree(value: object, indent: int | None, ascii_only: bool) -> None:
    """The reader that needs no stack, and the fast one: equal for every value, with and without white space."""
    text = json.dumps({"jsonrpc": "2.0", "x": value}, indent=indent, ensure_ascii=ascii_only).replace("\n", " ")
    assert codec._parse_iteratively(text, DEPTH) == json.loads(text)
    assert decode(text if text.isascii() else text.encode("utf-8", "surrogatepass"), DEPTH) is not None


@given(
    st.text(st.sampled_from('{}[]",:\\u0123ef-+.truefalsn \t'), max_size=30)
    | json_values.map(json.dumps).flatmap(lambda text: st.integers(0, len(text)).map(lambda cut: text[:cut]))
)
def test_both_ways_of_reading_refuse_the_same(text: str) -> None:
    def outcome(read: Callable[[], object]) -> object:
        try:
            return read()
        except ValueError:
            return "refused"

    def strict() -> object:
        return json.loads(text, parse_constant=lambda name: [][0] if name else None)

    stripped = text.strip(" \t\r\n")
    assert outcome(lambda: codec._parse_iteratively(stripped, DEPTH)) == outcome(strict)


@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
def test_decode_never_raises(data: bytes) -> None:
    for line in (data, b'{"jsonrpc":"2.0",' + data, b'{"jsonrpc":"2.0","x":' + data + b"}"):
        found = decode(line.decode() if line.isascii() else line, DEPTH)
        assert isinstance(found, (dict, Reject))
        if isinstance(found, dict):
            assert isinstance(envelope(found, 1024), (Envelope, Reject))
        else:
            codec.answered_id(found, line)


# ── Envelopes ───────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(3, 10)
@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"id": 1, "method": "m", "params": {}}, "request"),
        ({"id": "a", "method": "m"}, "request"),
        ({"id": 0, "method": "m", "params": None}, "request"),
        ({"method": "m", "params": {"a": 1}}, "notification"),
        ({"id": 1, "result": None}, "result"),
        ({"id": 1.0, "result": {}}, "result"),
        ({"id": "1", "result": {}, "error": None}, "result"),
        ({"id": 1, "error": {"code": -1, "message": ""}}, "error"),
        ({"id": 1, "result": None, "error": {"code": -1, "message": "m"}}, "error"),
        ({"id": None, "error": {"code": -1, "message": "m"}}, "error_without_id"),
        ({"error": {"code": -1, "message": "m"}}, "error_without_id"),
    ],
)
def test_kinds_of_messages(members: dict[str, object], kind: str) -> None:
    found = envelope({"jsonrpc": "2.0", **members}, 1024)
    assert isinstance(found, Envelope)
    assert found.kind == kind


@requirement(10)
@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({"id": True, "method": "m"}, "jsonrpc.id"),
        ({"id": 1.5, "method": "m"}, "jsonrpc.id"),
        ({"id": 1.0, "method": "m"}, "jsonrpc.id"),
        ({"id": None, "method": "m"}, "jsonrpc.id"),
        ({"id": [1], "method": "m"}, "jsonrpc.id"),
        ({"id": {}, "method": "m"}, "jsonrpc.id"),
        ({"id": True, "result": {}}, "jsonrpc.id"),
        ({"id": 1.5, "result": {}}, "jsonrpc.id"),
        ({"id": None, "result": {}}, "jsonrpc.id"),
        ({"result": {}}, "jsonrpc.id"),
        ({"id": [1], "result": {}}, "jsonrpc.id"),
        ({"id": [1], "error": {"code": 1, "message": "m"}}, "jsonrpc.id"),
        ({"id": math.inf, "result": {}}, "jsonrpc.id"),
        ({"id": 1, "method": 5}, "jsonrpc.method"),
        ({"id": 1, "method": None}, "jsonrpc.method"),
        ({"id": 1, "method": "m", "params": [1]}, "jsonrpc.params"),
        ({"method": "m", "params": "text"}, "jsonrpc.params"),
        ({"id": 1}, "jsonrpc.kind"),
        ({"id": 1, "error": None}, "jsonrpc.kind"),
        ({"id": 1, "result": {}, "error": {"code": 1, "message": "m"}}, "jsonrpc.kind"),
        ({"id": 1, "method": "m", "result": {}}, "jsonrpc.kind"),
        ({"id": 1, "error": "text"}, "jsonrpc.error"),
        ({"id": 1, "error": {"code": "1", "message": "m"}}, "jsonrpc.error"),
        ({"id": 1, "error": {"code": True, "message": "m"}}, "jsonrpc.error"),
        ({"id": 1, "error": {"code": 1}}, "jsonrpc.error"),
    ],
)
def test_messages_that_break_a_rule(members: dict[str, object], rule: str) -> None:
    found = envelope({"jsonrpc": "2.0", **members}, 1024)
    assert isinstance(found, Reject)
    assert (found.kind, found.rule) == ("malformed", rule)


def test_ids_at_the_bound_and_one_above() -> None:
    def request(id: object) -> Envelope | Reject:
        return envelope({"jsonrpc": "2.0", "id": id, "method": "m"}, 8)

    assert isinstance(request("x" * 8), Envelope)
    assert isinstance(request("x" * 9), Reject)
    # Bytes, not characters.
    assert isinstance(request("é" * 4), Envelope)
    assert isinstance(request("é" * 5), Reject)
    # A number is kept and echoed too; those of 64 bits always fit.
    assert isinstance(request(2**63 - 1), Envelope)
    assert isinstance(request(2**63), Reject)
    assert isinstance(request(-(10**30)), Reject)
    assert isinstance(envelope({"jsonrpc": "2.0", "id": 10**30, "method": "m"}, 31), Envelope)


@pytest.mark.parametrize(
    ("id", "own"),
    [(7.0, 7), ("7", 7), ("007", 7), (7.5, None), ("7.0", None), ("", None), ("-7", None), ("٧", None), (1e300, None)],
)
def test_ids_that_stand_for_an_integer(id: object, own: int | None) -> None:
    assert codec.loose_id(id) == own


# ── Lines of which only both ends are kept ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("head", "tail", "id", "is_request"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"a":"', b'xxx"}}', 7, False),
        (b'{"id":"u","jsonrpc":"2.0","result":{"a":"', b'xxx"}}', "u", False),
        (b'{"jsonrpc":"2.0","id":8,"method":"m","params":{"a":"', b'xxx"}}', 8, True),
        # One agent writes its ids last.
        (b'{"jsonrpc":"2.0","result":{"a":"', b'xxx"},"id":9}', 9, False),
        (b'{"jsonrpc":"2.0","result":{"a":"', b'xxx"} , "id" : "s" } ', "s", False),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":"', b'xxx"},"id":9}', 9, True),
        (b'{"jsonrpc":"2.0","id":5,"result":{"a":"', b'xxx"},"id":5}', 5, False),
        # The value that is too long may be a text of its own.
        (b'{"jsonrpc":"2.0","id":6,"result":"xxxx', b'xxxx"}', 6, False),
        (b' {"jsonrpc": "2.0", "id": 6, "error": {"message": "x', b'x"}}', 6, False),
        # Both ends name an id, and they differ: trust neither.
        (b'{"jsonrpc":"2.0","id":5,"result":{"a":"', b'xxx"},"id":6}', None, False),
        (b'{"jsonrpc":"2.0","id":5,"result":{"a":"', b'xxx"},"id":"5"}', None, False),
        # An id inside a value, or one that no request has.
        (b'{"jsonrpc":"2.0","result":{"id":5,"a":"', b'xxx"}}', None, False),
        (b'{"jsonrpc":"2.0","id":1.5,"result":{"a":"', b'xxx"}}', None, False),
        (b'{"jsonrpc":"2.0","id":null,"result":{"a":"', b'xxx"}}', None, False),
        (b'{"jsonrpc":"2.0","id":true,"result":{"a":"', b'xxx"}}', None, False),
        (b'{"jsonrpc":"2.0","result":{"a":"', b'\\",\\"id\\":9}"}}', None, False),
        # No message at all.
        (b'{"jsonrpc":"1.0","id":7,"result":{"a":"', b'xxx"}}', None, False),
        (b'{"id":7,"level":"debug","fields":{"a":"', b'xxx"}}', None, False),
        (b'[{"jsonrpc":"2.0","id":7,"result":{"a":"', b'xxx"}}]', None, False),
        (b"xxxxxxxx", b'xxx,"id":9}', None, False),
        (b'{"jsonrpc', b'"}', None, False),
    ],
)
def test_the_id_of_a_line_that_is_too_long(head: bytes, tail: bytes, id: object, is_request: bool) -> None:
    found, request = trusted_id(head, tail)
    assert (found, type(found)) == (id, type(id))
    assert id is None or request == is_request


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_trusted_id_never_raises(head: bytes, tail: bytes) -> None:
    for start in (head, b'{"jsonrpc":"2.0",' + head, b'{"jsonrpc":"2.0","result":' + head):
        for end in (tail, b',"id":' + tail + b"}"):
            found, _ = trusted_id(start, end)
            assert found is None or codec.is_request_id(found)


# ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(json_values)
def test_what_is_written_is_valid_whatever_stands_in_it(value: object) -> None:
    """ASCII, one line, and the same value on the other side: lone surrogates too."""
    text = encode(value, "it", DEPTH)
    assert text.isascii()
    assert "\n" not in text
    assert "\r" not in text
    assert json.loads(text) == value


def test_lone_surrogates_are_written_as_escapes() -> None:
    assert encode("\ud800", "it", DEPTH) == r'"\ud800"'
    assert codec.encode_str("é\u2028\n") == r'"\u00e9\u2028\n"'


def cycle() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, b"bytes", {1, 2}, object(), cycle(), {"a": math.nan}, {("a",): 1}]
)
def test_what_json_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        encode(value, "the thing", DEPTH)
    assert caught.value.rule == "json.encode"
    assert "the thing" in str(caught.value)


def test_written_depth_leaves_room_for_the_envelope() -> None:
    """A value at the bound makes a line that the other side reads; one level more is refused here."""
    value: list[object] = []
    for _ in range(DEPTH - 4):
        value = [value]
    line = codec.request_line(1, "m", encode({"x": value}, "it", DEPTH))
    assert isinstance(decode(line.decode(), DEPTH), dict)
    with pytest.raises(LocalProtocolError) as caught:
        encode({"x": [value]}, "it", DEPTH)
    assert caught.value.rule == "json.depth"


@requirement(1, 2)
@pytest.mark.parametrize(
    "line",
    [
        codec.request_line(1, "é", "{}"),
        codec.notification_line("m", '{"a":1}'),
        codec.result_line("ü\ud800", "null"),
        codec.error_line(None, -1, "é\n", None),
        codec.error_line(5, -1, "m", '{"a":[]}'),
    ],
)
def test_lines_are_ascii_and_end_once(line: bytes) -> None:
    assert line.isascii()
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    found = decode(line[:-1].decode(), DEPTH)
    assert isinstance(found, dict)
    assert isinstance(envelope(found, 1024), Envelope)


@given(
    st.lists(st.sampled_from(["[", "{", "[0,", '{"a":0,"":']), min_size=1, max_size=40),
    st.sampled_from(["", "0", '"["', '"' + "x" * 99 + '"', "{}", "[]"]),
    st.integers(1, 40),
)
def test_what_is_not_looked_at_is_not_deep(opened: list[str], inside: str, max_depth: int) -> None:
    """Brackets are counted only where the length of a line allows for the depth."""
    text, closing = "", ""
    for number, mark in enumerate(opened):
        last = number == len(opened) - 1
        if mark in "[{":
            text += mark if mark == "[" or (last and not inside) else '{"":'
        else:
            text += mark if inside or not last else mark + "0"
        closing = ("]" if mark[0] == "[" else "}") + closing
    text += inside + closing
    json.loads(text)
    depth = len(opened) + (inside in ("{}", "[]"))
    assert codec.is_deep(text, max_depth) or depth <= max_depth
