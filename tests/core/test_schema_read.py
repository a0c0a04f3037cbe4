"""Lenient reading of what a peer sent: the schema's own flags, unknown values kept, everything skipped reported."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_core.schema import v1, v1_unstable
from acp_core.schema.validation import (
    SKIPPED_LIMIT,
    Skipped,
    UnknownMethodError,
    ValidationError,
    read,
    read_result,
    read_type,
    validate_type,
)
from tests.spec.requirements import requirement
from tests.spec.strategies import JSON, Strategies

STRATEGIES = {unstable: Strategies(unstable=unstable) for unstable in (False, True)}
MESSAGES = sorted(
    {name for name in STRATEGIES[True].kinds if name.endswith(("Request", "Response", "Notification", "Update"))}
)


def told(skipped: tuple[Skipped, ...]) -> list[tuple[str, str]]:
    return [(entry.action, entry.path) for entry in skipped]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("session/update", {"sessionId": "s", "update": {"sessionUpdate": "from_the_future", "x": [1]}}),
        ("session/update", {"sessionId": "s", "update": {"sessionUpdate": "tool_call_update", "toolCallId": "t", "kind": "dance", "status": "paused"}}),  # noqa: E501
        ("session/update", {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "video", "data": "x"}}}),  # noqa: E501
        ("session/update", {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": [{"content": "c", "priority": "urgent", "status": "skipped"}]}}),  # noqa: E501
        ("session/request_permission", {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": [{"optionId": "o", "name": "n", "kind": "allow_for_an_hour"}]}),  # noqa: E501
        ("elicitation/create", {"message": "m", "mode": "voice", "sessionId": "s", "pitch": 3}),
        ("session/prompt", {"sessionId": "s", "prompt": [{"type": "hologram"}]}),
    ],
)  # fmt: skip
@requirement(120, 129)
def test_unknown_values_are_kept(key: str, value: object) -> None:
    view, skipped = read(key, value)
    assert view is value
    assert skipped == ()


@requirement(129)
@pytest.mark.parametrize("reason", ["paused", "", "end_turn"])
def test_unknown_stop_reasons_are_kept(reason: str) -> None:
    view, skipped = v1.read_result("session/prompt", {"stopReason": reason, "x": 1})
    assert view == {"stopReason": reason, "x": 1}
    assert skipped == ()


@requirement(120)
def test_unknown_permission_outcomes_are_kept() -> None:
    view, skipped = read_result("session/request_permission", {"outcome": {"outcome": "deferred", "until": 3}})
    assert view == {"outcome": {"outcome": "deferred", "until": 3}}
    assert skipped == ()


def test_bad_items_of_a_lenient_list_are_left_out() -> None:
    good = {"type": "content", "content": {"type": "text", "text": "a"}}
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": [{"type": "text"}, 3, {}, good]}
    raw = {"sessionId": "s", "update": update}
    before = copy.deepcopy(raw)
    view, skipped = v1.read("session/update", raw)
    assert raw == before
    assert view is not None
    # An unknown type of content may be something new; only what is no tagged object at all is left out.
    assert view["update"] == {**update, "content": [{"type": "text"}, good]}
    assert told(skipped) == [("item", "$.update.content[1]"), ("item", "$.update.content[2].type")]
    assert skipped[0].expected == "an object"
    assert skipped[0].found == "an integer"
    assert repr(skipped[0]) == "Skipped('item', '$.update.content[1]: expected an object, found an integer')"


def test_bad_value_of_a_lenient_field_counts_as_absent() -> None:
    update = {"sessionUpdate": "session_info_update", "title": 5, "updatedAt": None}
    view, skipped = read("session/update", {"sessionId": "s", "update": update})
    assert view == {"sessionId": "s", "update": {"sessionUpdate": "session_info_update", "updatedAt": None}}
    assert told(skipped) == [("absent", "$.update.title")]


def test_absent_null_and_value_stay_apart() -> None:
    for fields in ({}, {"title": None}, {"title": "t"}, {"title": None, "updatedAt": "2026"}):
        update = {"sessionUpdate": "session_info_update", **fields}
        view, skipped = read("session/update", {"sessionId": "s", "update": update})
        assert view == {"sessionId": "s", "update": update}
        assert skipped == ()


@requirement(33)
def test_absent_capabilities_get_their_defaults() -> None:
    view, skipped = v1.read_result("initialize", {"protocolVersion": 1})
    assert skipped == ()
    assert view == {
        "protocolVersion": 1,
        "authMethods": [],
        "agentCapabilities": {
            "loadSession": False,
            "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": {},
            "auth": {},
        },
    }
    again, _ = v1.read_result("initialize", {"protocolVersion": 1})
    assert again is not None and again["agentCapabilities"] is not view["agentCapabilities"]


@requirement(33)
def test_capability_of_the_wrong_type_is_not_advertised() -> None:
    capabilities = {"loadSession": "yes", "sessionCapabilities": {"resume": True, "list": {}}}
    view, skipped = read_result("initialize", {"protocolVersion": 1, "agentCapabilities": capabilities})
    assert isinstance(view, dict)
    seen = view["agentCapabilities"]
    assert seen["loadSession"] is False
    assert seen["sessionCapabilities"] == {"list": {}}
    assert told(skipped) == [
        ("absent", "$.agentCapabilities.loadSession"),
        ("absent", "$.agentCapabilities.sessionCapabilities.resume"),
    ]
    view, skipped = read("initialize", {"protocolVersion": 1, "clientCapabilities": None})
    assert isinstance(view, dict) and view["clientCapabilities"]["terminal"] is False
    assert told(skipped) == [("absent", "$.clientCapabilities")]


def test_tool_call_defaults_of_the_reference_decoder() -> None:
    view, skipped = v1.read_result("initialize", None)
    assert view is None and told(skipped) == [("message", "$")]
    update, skipped = read_type("ToolCall", {"toolCallId": "t", "title": "x", "kind": 3})
    assert update == {"toolCallId": "t", "title": "x", "kind": "other", "status": "pending"}
    assert told(skipped) == [("absent", "$.kind")]


# spec.md 8.3: the sender must send these lists, the receiver copes without.
REQUIRED_AND_LENIENT = {
    "NewSessionRequest": "mcpServers",
    "LoadSessionRequest": "mcpServers",
    "ListSessionsResponse": "sessions",
    "SetSessionConfigOptionResponse": "configOptions",
    "Plan": "entries",
    "AvailableCommandsUpdate": "availableCommands",
    "ConfigOptionUpdate": "configOptions",
    "SessionModeState": "availableModes",
    "SessionConfigSelectGroup": "options",
}


@pytest.mark.parametrize(("name", "field"), REQUIRED_AND_LENIENT.items())
def test_required_lists_that_a_reader_can_do_without(name: str, field: str) -> None:
    kind = STRATEGIES[False].kinds[name]
    assert isinstance(kind, tuple) and isinstance(kind[1], tuple)
    rest = {row[0]: "/x" for row in kind[1] if "r" in row[1] and row[0] != field}
    for broken in ({}, {field: None}, {field: 3}):
        value = {**rest, **broken}
        with pytest.raises(ValidationError) as caught:
            validate_type(name, value)
        assert caught.value.path == f"$.{field}"
        view, skipped = read_type(name, value)
        assert view == {**rest, field: []}
        assert told(skipped) == [("absent", f"$.{field}")]


def test_required_and_lenient_list_is_complete() -> None:
    found = {
        (name, row[0])
        for name, kind in STRATEGIES[False].kinds.items()
        if isinstance(kind, tuple) and kind[0] == "o" and isinstance(kind[1], tuple)
        for row in kind[1]
        if "r" in row[1] and "~" in row[1]
    }
    assert found == set(REQUIRED_AND_LENIENT.items())


# spec.md 8.3: here a bad value spoils the enclosing object on purpose.
@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("session/prompt", {"sessionId": "s", "prompt": [3]}, "$.prompt[0]"),
        ("session/request_permission", {"sessionId": "s", "toolCall": {"toolCallId": "t"}}, "$.options"),
        ("session/list", {"cwd": 3}, "$.cwd"),
        ("session/list", {"cursor": []}, "$.cursor"),
        ("session/cancel", {"sessionId": None}, "$.sessionId"),
        ("session/update", {"sessionId": "s", "update": {"sessionUpdate": 3}}, "$.update.sessionUpdate"),
        ("session/update", {"sessionId": "s", "update": {}}, "$.update.sessionUpdate"),
        ("session/update", [], "$"),
        ("elicitation/create", {"message": "", "mode": "form", "requestedSchema": {}}, "$"),
    ],
)
def test_what_nothing_can_make_up_for(key: str, value: object, path: str) -> None:
    view, skipped = read(key, value)
    assert view is None
    assert told(skipped)[-1] == ("message", path)


def test_malformed_server_is_left_out_and_reported() -> None:
    servers = [{"name": "n", "command": "c", "args": []}, {"type": "http", "name": "n", "url": "u", "headers": [{}]}]
    view, skipped = read("session/new", {"cwd": "/", "mcpServers": servers})
    assert view == {"cwd": "/", "mcpServers": []}
    assert told(skipped) == [("item", "$.mcpServers[0].env"), ("item", "$.mcpServers[1].headers[0].name")]


def test_values_out_of_range_are_still_the_wires_values() -> None:
    update = {"sessionUpdate": "usage_update", "used": -5, "size": 2**70}
    view, skipped = read("session/update", {"sessionId": "s", "update": update})
    assert view == {"sessionId": "s", "update": update} and skipped == ()
    view, skipped = read("fs/read_text_file", {"sessionId": "s", "path": "relative", "line": 0})
    assert view == {"sessionId": "s", "path": "relative", "line": 0} and skipped == ()


@pytest.mark.parametrize("key", ["logout", "session/list"])
def test_absent_params_count_as_empty(key: str) -> None:
    view, skipped = read(key, None)
    assert view == {} and told(skipped) == [("absent", "$")]


@pytest.mark.parametrize("key", ["session/load", "fs/write_text_file", "session/set_mode"])
def test_null_results_count_as_empty(key: str) -> None:
    view, skipped = read_result(key, None)
    assert view == {} and told(skipped) == [("absent", "$")]


def test_null_is_no_substitute_where_something_is_required() -> None:
    assert read("session/cancel", None)[0] is None
    assert read_result("session/prompt", None)[0] is None


def test_mode_update_of_the_official_example() -> None:
    """The page on session modes shows `modeId`, the schema wants `currentModeId` (spec.md D1)."""
    raw = {"sessionId": "s", "update": {"sessionUpdate": "current_mode_update", "modeId": "ask"}}
    view, skipped = v1.read("session/update", raw)
    assert view is not None
    assert view["update"] == {"sessionUpdate": "current_mode_update", "modeId": "ask", "currentModeId": "ask"}
    assert told(skipped) == [("alias", "$.update.currentModeId")]
    both = {"currentModeId": "a", "modeId": "b"}
    assert read_type("CurrentModeUpdate", both) == (both, ())
    assert read_type("CurrentModeUpdate", {"modeId": 3})[0] is None


def test_untagged_alternatives() -> None:
    groups = [{"group": "g", "name": "n", "options": [{"value": "v", "name": "n"}, 3]}]
    view, skipped = read_type("SessionConfigSelectOptions", groups)
    assert view == [{"group": "g", "name": "n", "options": [{"value": "v", "name": "n"}]}]
    assert told(skipped) == [("item", "$[0].options[1]")]
    assert read_type("SessionConfigSelectOptions", [])[0] == []
    assert read_type("RequestId", 1.5)[0] is None


def test_map_of_lenient_values() -> None:
    schema = {"properties": {"a": {"type": "string", "title": 3}, "b": {"type": "later"}}}
    view, skipped = read_type("ElicitationSchema", schema)
    assert view == {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "later"}}}
    assert told(skipped) == [("absent", "$.properties.a.title")]
    assert read_type("ElicitationSchema", {"properties": {"a": 1}})[0] is None
    assert read_type("ElicitationSchema", {"properties": 1})[0] is None


def test_reports_are_bounded() -> None:
    for extra in (0, 1):
        entries: list[object] = [3] * (SKIPPED_LIMIT + extra)
        view, skipped = read_type("Plan", {"entries": entries})
        assert view == {"entries": []}
        assert len(skipped) == SKIPPED_LIMIT + extra
        assert (skipped[-1].action, skipped[-1].found) == (("more", "1 more") if extra else ("item", "an integer"))
        assert skipped[0].path == "$.entries[0]"


def test_cost_of_a_flood_is_linear() -> None:
    view, skipped = read_type("Plan", {"entries": [{"content": {}}] * 50_000})
    assert view == {"entries": []}
    assert skipped[-1].found == f"{50_000 - SKIPPED_LIMIT} more"


def test_extension_and_unknown_methods() -> None:
    assert read("_vendor/x", 3) == (3, ())
    with pytest.raises(UnknownMethodError):
        read("nothing", {})
    with pytest.raises(KeyError):
        read_type("Nothing", {})


def test_draft_reader_knows_draft_types() -> None:
    update = {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "x", "error": 3}
    raw = {"sessionId": "s", "update": update}
    view, skipped = v1_unstable.read("session/update", raw)
    assert view is not None
    assert view["update"] == {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "x"}
    assert told(skipped) == [("absent", "$.update.error")]
    assert v1.read("session/update", raw) == (raw, ())
    assert v1_unstable.read_result("session/fork", {"sessionId": "s"})[0] == {"sessionId": "s"}
    assert v1_unstable.read_result("mcp/message", [1])[0] == [1]


COMMON = settings(
    max_examples=20, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("name", MESSAGES)
def test_reading_never_raises_never_changes_and_settles(name: str) -> None:
    made = STRATEGIES[True]

    @COMMON
    @given(st.one_of(made.mutated(name), made.valid(name), JSON))
    def check(raw: object) -> None:
        before = copy.deepcopy(raw)
        view, skipped = read_type(name, raw, unstable=True)
        assert repr(raw) == repr(before)
        assert len(skipped) <= SKIPPED_LIMIT + 1
        if view is None:
            assert raw is None or skipped[-1].action == "message"
            return
        # What was read once reads the same again, with nothing left to skip.
        again, more = read_type(name, view, unstable=True)
        assert more == ()
        assert again is view or repr(again) == repr(view)
        try:
            validate_type(name, raw, unstable=True)
        except ValidationError:
            return
        # What fits is read as it stands: only defaults are added.
        assert skipped == ()
        assert contains(view, raw)

    check()


def contains(view: object, raw: object) -> bool:
    """Whether `view` has everything that `raw` has."""
    if isinstance(view, dict) and isinstance(raw, dict):
        return all(key in view and contains(view[key], item) for key, item in raw.items())
    if isinstance(view, list) and isinstance(raw, list):
        return len(view) == len(raw) and all(map(contains, view, raw))
    return view is raw or repr(view) == repr(raw)


@COMMON
@given(STRATEGIES[True].valid("SessionNotification"))
def test_round_trip_keeps_every_field(raw: object) -> None:
    line = json.dumps(raw)
    view, _ = read("session/update", json.loads(line), unstable=True)
    assert contains(view, json.loads(line))
