"""A codec by choice reads faster and changes nothing: every line becomes the same event, odd ones too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from json import encoder as json_encoder

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_core import ClientConnection, LocalProtocolError, NotificationReceived, RemoteProtocolError
from acp_core.codec import encode, encoder
from acp_core.testing import event_key
from acp_core.testing.strategies import json_objects, json_values, odd_lines, updates
from tests.core.helpers import as_line, chunk, prompting_client, request
from tests.core.test_odd_lines import ODD, mutations

Loads = Callable[[str], object]


def broken(text: str) -> object:
    """A codec that can do nothing."""
    raise RemoteProtocolError("no codec at all", rule="test")


CODECS: dict[str, Loads] = {"msgspec": msgspec.json.decode, "orjson": orjson.loads, "broken": broken}
# orjson reads an integer past 64 bits as a float: that is in the documentation, and the one difference.
BIG = ("large integer", "large integer id")


def heard(data: bytes, codec: Loads | None) -> list[str]:
    """What a client with a running turn makes of these bytes, and what it answers."""
    driver, _, _ = prompting_client(codec=codec)
    driver.conn.receive_data(data, driver.now)
    events = [event_key(event) for event in driver.drain()]
    return [*events, *(json.dumps(message) for message in driver.sent())]


@pytest.mark.parametrize("name", CODECS)
def test_every_odd_line_is_the_same_event(name: str) -> None:
    for what, line, _ in ODD:
        if name == "orjson" and what in BIG:
            continue
        data = line + b"\n" + as_line(chunk("s1", "after"))
        assert heard(data, CODECS[name]) == heard(data, None), what


@pytest.mark.parametrize("name", CODECS)
def test_every_mutation_of_a_request_is_the_same_event(name: str) -> None:
    line = as_line(request(7, "session/request_permission", {"sessionId": "s1", "toolCall": {"toolCallId": "t"}}))[:-1]
    data = b"\n".join(mutations(line)) + b"\n"
    assert heard(data, CODECS[name]) == heard(data, None)


def small(value: object) -> bool:
    """No integer of it passes 64 bits."""
    if isinstance(value, dict):
        return all(small(one) for one in value.values())
    if isinstance(value, list):
        return all(small(one) for one in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**64


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_any_value_reads_the_same(name: str, data: st.DataObject) -> None:
    value = data.draw(json_values() if name != "orjson" else json_values().filter(small))
    ascii_only = data.draw(st.booleans())
    text = json.dumps({"jsonrpc": "2.0", "method": "_x/y", "params": {"value": value}}, ensure_ascii=ascii_only)
    line = text.encode("utf-8", "surrogatepass") + b"\n"
    assert heard(line, CODECS[name]) == heard(line, None)


@pytest.mark.parametrize("name", CODECS)
@given(lines=st.lists(odd_lines() | updates().map(json.dumps).map(str.encode), max_size=6))
def test_any_lines_are_the_same_events(name: str, lines: list[bytes]) -> None:
    data = b"".join(line + b"\n" for line in lines if name != "orjson" or b"99999" not in line)
    if name == "orjson":
        # Every number that may be past 64 bits is left out: see BIG.
        data = b"".join(line for line in data.splitlines(True) if not any(len(part) > 18 for part in digits(line)))
    assert heard(data, CODECS[name]) == heard(data, None)


def digits(line: bytes) -> list[bytes]:
    """The runs of digits in a line."""
    return "".join(chr(byte) if 48 <= byte < 58 else " " for byte in line).encode().split()


def test_an_integer_past_64_bits_is_a_float_with_orjson() -> None:
    """The one difference, so that the documentation stays true."""
    line = b'{"jsonrpc":"2.0","method":"_x/y","params":{"value":18446744073709551616}}\n'
    for codec, kind in ((None, int), (msgspec.json.decode, int), (orjson.loads, float)):
        conn = prompting_client(codec=codec)[0].conn
        conn.receive_data(line, 9.0)
        (event,) = conn.events()
        assert isinstance(event, NotificationReceived)
        assert type(event.params["value"]) is kind


def test_a_codec_is_a_function() -> None:
    with pytest.raises(TypeError, match="codec must be a function from str to a value, not str"):
        ClientConnection(nonce="n", codec="orjson")  # type: ignore[arg-type]  # the mistake


# ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def outcome(parts: Callable[[object, int], Iterable[str]], value: object) -> str:
    """The text, or the kind of error."""
    try:
        return "".join(parts(value, 0))
    except (TypeError, ValueError, RecursionError) as why:
        return "cycle" if isinstance(why, RecursionError) or "Circular" in str(why) else type(why).__name__


fast, plain = encoder(getattr(json_encoder, "c_make_encoder", None)), encoder(None)


@given(json_objects())
def test_the_encoder_and_its_fallback_write_what_json_writes(value: dict[str, object]) -> None:
    expected = json.dumps(value, separators=(",", ":"))
    assert outcome(fast, value) == outcome(plain, value) == expected
    assert json.loads(encode(value, "it", 128)) == value


def test_the_encoder_and_its_fallback_refuse_the_same() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    for value in ({1, 2}, b"x", float("nan"), float("-inf"), [object()], cycle, {"a": {"b": 1j}}, {(1, 2): 3}):
        assert outcome(fast, value) == outcome(plain, value) != ""
        with pytest.raises(LocalProtocolError):
            encode(value, "it", 128)
