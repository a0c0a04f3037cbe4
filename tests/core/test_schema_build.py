"""What the builders make: the wire's form, accepted by our validator, the official schema and the official SDK."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_core.schema import Notification, Request, build, v1, v1_table, v1_table_unstable, v1_unstable
from acp_core.schema.validation import custom_fields, read, read_result, validate, validate_result, validate_type
from tests.spec import agree, samples
from tests.spec.requirements import requirement

METHODS = {**v1_table.METHODS, **v1_table_unstable.METHODS}
ALL = [(message, False) for message in samples.MESSAGES] + [(message, True) for message in samples.UNSTABLE]
needs_sdk = pytest.mark.skipif(find_spec("acp") is None, reason="the official SDK is not installed")


def name_of(value: object) -> str:
    return value.key if isinstance(value, (Request, Notification)) else ""


def test_samples_cover_every_stable_method_update_and_content() -> None:
    assert {message.key for message in samples.MESSAGES} == set(v1_table.METHODS)
    assert {key for key, _ in samples.RESULTS} == {key for key, row in v1_table.METHODS.items() if row[4]}
    for name, values, key in (
        ("SessionUpdate", samples.UPDATES, "sessionUpdate"),
        ("ContentBlock", samples.BLOCKS, "type"),
        ("ToolCallContent", samples.CONTENTS, "type"),
    ):
        kind = v1_table.TYPES[name]
        assert isinstance(kind[2], tuple)
        assert {dict(value)[key] for value in values} == {row[0] for row in kind[2]}


@requirement(123)
@pytest.mark.parametrize(("message", "unstable"), ALL, ids=name_of)
def test_message_is_valid(message: Request[object] | Notification, unstable: bool) -> None:
    row = METHODS[message.key]
    assert message.method == row[0]
    assert row[1] in ("both", "request" if isinstance(message, Request) else "notification")
    validate(message.method, message.params, unstable=unstable)
    assert agree.official(row[3], unstable).is_valid(message.params)
    assert custom_fields(message.key, message.params, unstable=unstable) == []
    view, skipped = read(message.key, json.loads(json.dumps(message.params)), unstable=unstable)
    assert view is not None and skipped == ()


@pytest.mark.parametrize(("key", "result"), samples.RESULTS)
def test_result_is_valid(key: str, result: object) -> None:
    validate_result(key, result)
    assert agree.official(str(METHODS[key][4]), False).is_valid(result)
    view, skipped = read_result(key, result)
    assert view is not None and skipped == ()


def sdk_model(name: str) -> Any:
    """Return the official SDK's decoder of a type."""
    from acp import schema
    from pydantic import TypeAdapter

    if name == "SetSessionConfigOptionRequest":
        return TypeAdapter(schema.SetSessionConfigOptionSelectRequest | schema.SetSessionConfigOptionBooleanRequest)
    return TypeAdapter(getattr(schema, name))


@needs_sdk
@pytest.mark.parametrize("message", samples.MESSAGES, ids=name_of)
def test_official_sdk_reads_the_message(message: Request[object] | Notification) -> None:
    sdk_model(METHODS[message.key][3]).validate_json(json.dumps(message.params))


@needs_sdk
@pytest.mark.parametrize(("key", "result"), samples.RESULTS)
def test_official_sdk_reads_the_result(key: str, result: object) -> None:
    sdk_model(str(METHODS[key][4])).validate_json(json.dumps(result))


def test_requests_show_and_match() -> None:
    message = v1.session_prompt({"sessionId": "s", "prompt": []})
    assert repr(message) == "Request('session/prompt', 2 params)"
    assert repr(v1.session_cancel({"sessionId": "s"})) == "Notification('session/cancel', 1 params)"
    match message:
        case Request(method, key, params):
            assert (method, key, params) == ("session/prompt", "session_prompt", {"sessionId": "s", "prompt": []})
    with pytest.raises(AttributeError):
        message.other = 1  # type: ignore[attr-defined]  # slots: a misspelt attribute must not pass


def test_params_default_to_an_object_of_their_own() -> None:
    one, two = v1.logout(), v1.logout()
    assert one.params == two.params == {}
    assert one.params is not two.params


def test_message_of_both_kinds() -> None:
    params: v1_unstable.MessageMcpRequest = {"connectionId": "c", "method": "m"}
    assert isinstance(v1_unstable.mcp_message(params), Request)
    assert isinstance(v1_unstable.mcp_message_notification({"connectionId": "c", "method": "m"}), Notification)


@pytest.mark.parametrize("key", METHODS)
def test_every_method_has_a_builder(key: str) -> None:
    module = v1 if key in v1_table.METHODS else v1_unstable
    for name in (key, f"{key}_notification") if key == "mcp_message" else (key,):
        message = getattr(module, name)({"x": 1})
        assert (message.method, message.key, message.params) == (METHODS[key][0], key, {"x": 1})
        assert message.params == getattr(v1_unstable, name)({"x": 1}).params
        if METHODS[key][1] != "both":
            assert type(message).__name__.lower() == METHODS[key][1]


def test_bytes_become_base64_and_text_stays() -> None:
    assert build.image(b"\x00\xff\x00" * 40, mime_type="image/png")["data"] == "AP8A" * 40
    assert build.audio("AP8=", mime_type="audio/wav")["data"] == "AP8="
    assert build.blob_resource("u:x", b"")["resource"] == {"uri": "u:x", "blob": ""}


def test_null_is_not_left_out() -> None:
    assert build.tool_call("t", title="x", raw_input=None)["rawInput"] is None
    assert build.tool_call_fields("t", raw_output=None) == {"toolCallId": "t", "rawOutput": None}
    assert build.session_info(title=None) == {"sessionUpdate": "session_info_update", "title": None}
    assert build.session_info() == {"sessionUpdate": "session_info_update"}
    assert repr(build.KEEP) == "KEEP"


def test_meta_goes_everywhere() -> None:
    meta = {"vendor": 1}
    made = [
        build.annotate(meta=meta),
        build.text("", meta=meta),
        build.image("", mime_type="", meta=meta),
        build.audio("", mime_type="", meta=meta),
        build.resource_link("u:x", name="", meta=meta),
        build.text_resource("u:x", "", meta=meta),
        build.blob_resource("u:x", "", meta=meta),
        build.content(build.text(""), meta=meta),
        build.diff("/", new_text="", meta=meta),
        build.terminal("t", meta=meta),
        build.location("/", meta=meta),
        build.tool_call("t", title="", meta=meta),
        build.tool_call_fields("t", meta=meta),
        build.tool_call_update("t", meta=meta),
        build.plan_entry("", priority="low", status="completed", meta=meta),
        build.plan([], meta=meta),
        build.permission_option("o", name="", kind="allow_once", meta=meta),
        build.session_info(meta=meta),
        build.mcp_stdio("n", command="c", meta=meta),
        build.mcp_http("n", url="u", meta=meta),
        build.mcp_sse("n", url="u", meta=meta),
    ]
    assert [dict(value)["_meta"] for value in made] == [meta] * len(made)


def test_annotations_and_mime_type_of_every_block() -> None:
    hints = build.annotate(audience=("user", "assistant"))
    blocks: list[v1.ContentBlock] = [
        build.text("", annotations=hints),
        build.image("", mime_type="m", annotations=hints),
        build.audio("", mime_type="m", annotations=hints),
        build.resource_link("u:x", name="n", annotations=hints),
        build.text_resource("u:x", "t", annotations=hints, mime_type="m"),
        build.blob_resource("u:x", "t", annotations=hints, mime_type="m"),
    ]
    for block in blocks:
        assert block.get("annotations") == {"audience": ["user", "assistant"]}
        validate_type("ContentBlock", block)
        if block["type"] == "resource":
            assert block["resource"].get("mimeType") == "m"


TEXT = st.text(max_size=5)


@settings(max_examples=50, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "title": TEXT,
            "kind": st.sampled_from(["read", "edit", "other"]),
            "status": st.sampled_from(["pending", "failed"]),
            "content": st.lists(st.builds(build.content, st.builds(build.text, TEXT)), max_size=2),
            "locations": st.lists(st.builds(build.location, st.just("/a"), line=st.integers(1, 9)), max_size=2),
            "raw_input": st.none() | TEXT,
        },
    )
)
def test_any_mix_of_arguments_gives_a_valid_update(arguments: dict[str, Any]) -> None:
    update = build.tool_call_update("t", **arguments)
    validate("session/update", {"sessionId": "s", "update": update})
    fields = build.tool_call_fields("t", **arguments)
    validate_type("ToolCallUpdate", fields)
    assert update == {"sessionUpdate": "tool_call_update", **fields}
    assert len(fields) == len(arguments) + 1
