"""Hypothesis strategies for what goes over the wire. The one module of the kit that needs hypothesis.

Everything drawn is plain data: JSON values as Python holds them, lines as bytes. What a function calls valid fits the
official schema of protocol version 1. Strategies are made once and kept, since making one takes longer than drawing.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise

from hypothesis import strategies as st

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    JsonObject: TypeAlias = dict[str, object]
    Strategy: TypeAlias = st.SearchStrategy
    JsonStrategy: TypeAlias = "st.SearchStrategy[JsonObject]"

# The eleven kinds of session/update in version 1.
UPDATE_KINDS = (
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
)
TOOL_KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
TOOL_STATUSES = ("pending", "in_progress", "completed", "failed")
OPTION_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")

# Lines that are no message, or a wrong one, or a strange one, without their line end: each is real or feared.
ODD_LINES: tuple[bytes, ...] = (
    b"42",
    b"-0.0",
    b"null",
    b"true",
    b'"x"',
    b"[1,2]",
    b"[]",
    b"{}",
    b"",
    b" \t ",
    b"\r",
    b"warning: deprecated",
    b"Traceback (most recent call last):",
    b"\x1b[31mred\x1b[0m",
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf{}",
    b'{"jsonrpc":"2.0","method":"session/upd',
    b'{"jsonrpc":"2.0",}',
    b'{"jsonrpc":"2.0","method":"x"} trailing',
    b'{"jsonrpc":"2.0","method":"x"}{"jsonrpc":"2.0","method":"y"}',
    b'{"jsonrpc":"1.0","id":1,"result":{}}',
    b'{"id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":999,"result":{}}',
    b'{"jsonrpc":"2.0","id":[1],"result":{}}',
    b'{"jsonrpc":"2.0","id":true,"result":{}}',
    b'{"jsonrpc":"2.0","id":1.5,"result":{}}',
    b'{"jsonrpc":"2.0","id":null,"result":{}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
    b'{"jsonrpc":"2.0","id":998,"error":"a string"}',
    b'{"jsonrpc":"2.0","id":998,"error":{"code":"1","message":2}}',
    b'{"jsonrpc":"2.0","id":998,"result":{},"error":{"code":1,"message":"both"}}',
    b'{"jsonrpc":"2.0","id":998}',
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","method":1}',
    b'{"jsonrpc":"2.0","method":"_x/unknown","params":[1]}',
    b'{"jsonrpc":"2.0","method":"_x/unknown"}',
    b'{"jsonrpc":"2.0","id":"odd-1","method":"_x/unknown","params":{}}',
    b'{"jsonrpc":"2.0","id":"odd-2","method":"no/such/method"}',
    b'{"jsonrpc":"2.0","id":{},"method":"_x/unknown"}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":1,"update":[]}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"nobody","update":{"sessionUpdate":"plan"}}}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{}}',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":12345}}',
    b'{"jsonrpc":"2.0","method":"_x/n","params":{"a":NaN}}',
    b'{"jsonrpc":"2.0","method":"_x/n","params":{"a":1e999}}',
    b'{"jsonrpc":"2.0","method":"_x/n","params":{"a":"\\ud800"}}',
    b'{"jsonrpc":"2.0","method":"_x/n","params":{"a":"\xe2\x80\xa8\xc2\x85"}}',
    b'{"jsonrpc":"2.0","method":"_x/n","params":{"a":"\xff"}}',
    b'{"jsonrpc":"2.0","method":"_x/n","method":"_x/m","params":{}}',
    b'[{"jsonrpc":"2.0","method":"_x/n"}]',
    b"[" * 200 + b"]" * 200,
    b'{"jsonrpc":"2.0","method":"_x/n","params":' + b'{"a":' * 150 + b"1" + b"}" * 150 + b"}",
    b'{"jsonrpc":"2.0","method":"_x/n","params":{"a":' + b"9" * 5000 + b"}}",
)


@cache
def texts(max_size: int = 20) -> st.SearchStrategy[str]:
    """Text as JSON carries it: any code points, lone surrogates included. ``max_size`` is in code points."""
    return st.text(st.characters(), max_size=max_size)


@cache
def json_values(max_leaves: int = 10) -> st.SearchStrategy[object]:
    """Any JSON value: null, bool, integers beyond 64 bits, finite floats, text, lists, objects with str keys."""
    return st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(2**70), 2**70),
            st.floats(allow_nan=False, allow_infinity=False),
            texts(),
        ),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts(6), inner, max_size=4)),
        max_leaves=max_leaves,
    )


@cache
def json_objects(max_leaves: int = 10) -> JsonStrategy:
    """Any JSON object."""
    return st.dictionaries(texts(6), json_values(max_leaves), max_size=4)


@cache
def metas() -> JsonStrategy:
    """A ``_meta`` object: str keys, any values."""
    return json_objects(4)


@cache
def content_blocks() -> JsonStrategy:
    """A valid content block of any of the five types: text, image, audio, resource_link, resource."""
    uri = st.just("file:///a/b%20c.txt")
    data = st.binary(max_size=6).map(lambda raw: raw.hex())
    return st.one_of(
        _object({"type": st.just("text"), "text": texts()}),
        _object({"type": st.just("image"), "data": data, "mimeType": st.just("image/png")}, {"uri": uri}),
        _object({"type": st.just("audio"), "data": data, "mimeType": st.just("audio/wav")}),
        _object({"type": st.just("resource_link"), "name": texts(8), "uri": uri}, {"size": st.integers(0, 2**53)}),
        _object(
            {
                "type": st.just("resource"),
                "resource": st.one_of(
                    _object({"uri": uri, "text": texts()}), _object({"uri": uri, "blob": data}, {"mimeType": texts(4)})
                ),
            }
        ),
    )


@cache
def tool_calls() -> JsonStrategy:
    """The fields of a valid tool call, as in ``tool_call`` and in a permission request."""
    return _object({"toolCallId": _ids("call"), "title": texts()}, _tool_fields())


@cache
def updates(*kinds: str, unknown: bool = True) -> JsonStrategy:
    """The ``update`` of a valid session/update: of these kinds, or of any; by default unknown kinds too.

    Raises:
        KeyError: a kind is not in UPDATE_KINDS.
    """
    made = [_update(kind) for kind in kinds or UPDATE_KINDS]
    if unknown and not kinds:
        made.append(unknown_updates())
    return st.one_of(made)


@cache
def unknown_updates() -> JsonStrategy:
    """An update of a kind that version 1 does not know."""
    return st.builds(
        lambda kind, rest: {**rest, "sessionUpdate": kind},
        st.sampled_from(["_vendor/thing", "notice", "", "Plan"]),
        json_objects(4),
    )


@cache
def permission_options() -> st.SearchStrategy[list[JsonObject]]:
    """One to four options of a permission request, with ids of their own."""
    kinds = st.lists(st.sampled_from(OPTION_KINDS), min_size=1, max_size=4)
    return kinds.map(
        lambda found: [{"optionId": f"option-{index}", "name": kind, "kind": kind} for index, kind in enumerate(found)]
    )


@cache
def permission_requests(session_id: str) -> JsonStrategy:
    """The valid params of a session/request_permission for one session."""
    return st.fixed_dictionaries(
        {"sessionId": st.just(session_id), "toolCall": tool_calls(), "options": permission_options()}
    )


@cache
def odd_lines() -> st.SearchStrategy[bytes]:
    """A line, without its line end, that is noise, malformed, or a message nobody waits for. Never raises anywhere,
    never ends a connection, and settles no request made here unless its id is 1."""
    noise = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b" "))
    scalars = json_values(3).map(lambda value: json.dumps(value).encode("ascii"))
    return st.one_of(st.sampled_from(ODD_LINES), noise, scalars)


def chunkings(data: bytes) -> st.SearchStrategy[list[bytes]]:
    """``data`` cut into pieces that are not empty: whole, byte by byte (long data in a thousand pieces), around its
    line ends, or anywhere."""
    if len(data) < 2:
        return st.just([data] if data else [])
    step = 1 + len(data) // 1000
    lines = [index for index in range(1, len(data)) if data[index : index + 1] == b"\n"]
    cuts = st.integers(1, len(data) - 1)
    if lines:
        near = st.tuples(st.sampled_from(lines), st.integers(-1, 2)).map(sum)
        cuts = st.one_of(cuts, near.filter(lambda cut: 0 < cut < len(data)))
    return st.one_of(
        st.just([data]),
        st.just([data[index : index + step] for index in range(0, len(data), step)]),
        st.lists(cuts, max_size=12, unique=True).map(lambda found: _pieces(data, sorted(found))),
    )


@cache
def chunk_sizes() -> st.SearchStrategy[int | None]:
    """A size of reads or writes in bytes, for a Pipe: small ones mostly, None for all there is."""
    return st.one_of(st.none(), st.integers(1, 8), st.integers(1, 4096))


def _object(required: dict[str, Strategy[object]], optional: dict[str, Strategy[object]] | None = None) -> JsonStrategy:
    return st.fixed_dictionaries(required, optional={**(optional or {}), "_meta": metas()})


def _ids(stem: str) -> st.SearchStrategy[str]:
    return st.integers(0, 3).map(lambda number: f"{stem}-{number}")


@cache
def _tool_fields() -> dict[str, Strategy[object]]:
    content: Strategy[object] = st.one_of(
        _object({"type": st.just("content"), "content": content_blocks()}),
        _object({"type": st.just("diff"), "path": st.just("/a"), "newText": texts()}, {"oldText": texts()}),
        _object({"type": st.just("terminal"), "terminalId": _ids("terminal")}),
    )
    return {
        "kind": st.sampled_from(TOOL_KINDS),
        "status": st.sampled_from(TOOL_STATUSES),
        "content": st.lists(content, max_size=2),
        "locations": st.lists(_object({"path": st.just("/a/b")}, {"line": st.integers(1, 9)}), max_size=2),
        "rawInput": json_values(4),
        "rawOutput": json_values(4),
    }


@cache
def _update(kind: str) -> JsonStrategy:
    if kind not in UPDATE_KINDS:
        raise KeyError(f"no update kind {kind!r}; there are {', '.join(UPDATE_KINDS)}")
    tag: dict[str, Strategy[object]] = {"sessionUpdate": st.just(kind)}
    if kind.endswith("_chunk"):
        return _object({**tag, "content": content_blocks()}, {"messageId": _ids("message")})
    if kind == "tool_call":
        return _object({**tag, "toolCallId": _ids("call"), "title": texts()}, _tool_fields())
    if kind == "tool_call_update":
        return _object({**tag, "toolCallId": _ids("call")}, {**_tool_fields(), "title": texts()})
    if kind == "plan":
        entry = _object(
            {
                "content": texts(),
                "priority": st.sampled_from(["high", "medium", "low"]),
                "status": st.sampled_from(["pending", "in_progress", "completed"]),
            }
        )
        return _object({**tag, "entries": st.lists(entry, max_size=3)})
    if kind == "available_commands_update":
        command = _object({"name": texts(8), "description": texts()}, {"input": _object({"hint": texts()})})
        return _object({**tag, "availableCommands": st.lists(command, max_size=2)})
    if kind == "current_mode_update":
        return _object({**tag, "currentModeId": _ids("mode")})
    if kind == "config_option_update":
        return _object({**tag, "configOptions": st.lists(_config_options(), max_size=2)})
    if kind == "session_info_update":
        return _object(tag, {"title": st.one_of(st.none(), texts()), "updatedAt": st.just("2026-01-01T00:00:00Z")})
    cost = _object({"amount": st.floats(0, 1e6), "currency": st.just("USD")})
    return _object({**tag, "used": st.integers(0, 2**53), "size": st.integers(0, 2**53)}, {"cost": cost})


@cache
def _config_options() -> JsonStrategy:
    choices = st.lists(_object({"value": _ids("value"), "name": texts(8)}), max_size=2)
    return _object(
        {
            "id": _ids("option"),
            "name": texts(8),
            "type": st.just("select"),
            "currentValue": _ids("value"),
            "options": choices,
        },
        {"category": st.sampled_from(["mode", "model", "_own"]), "description": texts()},
    )


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *cuts, len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]
