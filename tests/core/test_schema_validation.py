"""Strict checks of what is sent: what passes, what is refused, and how a refusal reads."""

from __future__ import annotations

import pickle

import pytest

from acp_core.schema import v1_table, v1_table_unstable
from acp_core.schema.validation import (
    BSD_SIGNALS,
    LINUX_SIGNALS,
    UnknownMethodError,
    ValidationError,
    custom_fields,
    exit_status,
    three_state_fields,
    validate,
    validate_result,
    validate_type,
)
from tests.spec.requirements import requirement


def refusal(key: str, params: object, *, unstable: bool = False) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        validate(key, params, unstable=unstable)
    return caught.value


def test_method_goes_by_wire_name_and_by_key() -> None:
    for name in ("session/cancel", "session_cancel"):
        validate(name, {"sessionId": "s"})
        assert refusal(name, {}).path == "$.sessionId"


@requirement(129)
def test_result_goes_by_method() -> None:
    validate_result("session/prompt", {"stopReason": "end_turn", "extra": 1})
    with pytest.raises(ValidationError, match="one of end_turn, max_tokens"):
        validate_result("session/prompt", {"stopReason": "done"})
    with pytest.raises(ValidationError):
        validate_result("session/load", None)


@requirement(124)
def test_extension_methods_pass_and_unknown_ones_are_named() -> None:
    validate("_vendor/anything", 42)
    validate_result("_vendor/anything", None)
    with pytest.raises(UnknownMethodError, match="sesion/new"):
        validate("sesion/new", {})
    with pytest.raises(UnknownMethodError, match="no result"):
        validate_result("session/update", {})
    with pytest.raises(UnknownMethodError) as caught:
        validate("x" * 10_000, {})
    assert len(str(caught.value)) < 200


def test_draft_methods_need_the_switch() -> None:
    with pytest.raises(UnknownMethodError):
        validate("session/fork", {"sessionId": "s", "cwd": "/"})
    validate("session/fork", {"sessionId": "s", "cwd": "/"}, unstable=True)
    assert not set(v1_table.METHODS) & set(v1_table_unstable.METHODS)
    notice = {"sessionId": "s", "update": {"sessionUpdate": "notice", "severity": "odd", "title": "t"}}
    assert refusal("session/update", notice).path == "$.update.sessionUpdate"
    validate("session/update", notice, unstable=True)
    notice["update"] = {"sessionUpdate": "notice", "severity": "info", "title": ""}
    assert refusal("session/update", notice, unstable=True).expected == "a string that is not empty"


@pytest.mark.parametrize(
    ("value", "path", "expected", "found"),
    [
        ([], "$", "an object", "a list of 0"),
        (None, "$", "an object", "null"),
        ({"sessionId": "s"}, "$.prompt", "a list", "nothing"),
        ({"sessionId": 1, "prompt": []}, "$.sessionId", "a string", "an integer"),
        ({"sessionId": "s", "prompt": "hello"}, "$.prompt", "a list", "a string of 5 characters"),
        ({"sessionId": "s", "prompt": [{}]}, "$.prompt[0].type", "one of text, image", "nothing"),
        ({"sessionId": "s", "prompt": [{"type": "text", "text": 1.5}]}, "$.prompt[0].text", "a string", "a number"),
        ({"sessionId": "s", "prompt": [{"type": "txt"}]}, "$.prompt[0].type", "one of text, image", "'txt'"),
        ({"sessionId": "s", "prompt": [], "_meta": []}, "$._meta", "an object", "a list of 0"),
        ({"sessionId": "s", "prompt": [], "_meta": {1: 1}}, "$._meta", "a string as key", "an integer"),
    ],
)
def test_refusal_names_path_expectation_and_finding(value: object, path: str, expected: str, found: str) -> None:
    error = refusal("session/prompt", value)
    assert (error.path, error.found) == (path, found)
    assert error.expected.startswith(expected)
    assert str(error) == f"{path}: expected {error.expected}, found {found}"


def test_bool_is_no_integer_and_no_number() -> None:
    assert refusal("initialize", {"protocolVersion": True}).found == "true"
    with pytest.raises(ValidationError):
        validate_type("Cost", {"amount": False, "currency": "USD"})
    with pytest.raises(ValidationError):
        validate_type("FileSystemCapabilities", {"readTextFile": 1})


@requirement(13)
@pytest.mark.parametrize("value", [None, 0, -(2**63), 2**63 - 1, "", "a"])
def test_request_ids_that_fit(value: object) -> None:
    validate("$/cancel_request", {"requestId": value})


@requirement(13)
@pytest.mark.parametrize("value", [True, 1.5, 1.0, 2**63, [], {}])
def test_request_ids_that_do_not(value: object) -> None:
    assert refusal("$/cancel_request", {"requestId": value}).path == "$.requestId"


@requirement(30)
@pytest.mark.parametrize("value", ["1", -1, 65536, None, 1.0])
def test_protocol_version_is_an_integer_of_16_bits(value: object) -> None:
    validate("initialize", {"protocolVersion": 65535})
    assert refusal("initialize", {"protocolVersion": value}).path == "$.protocolVersion"


@requirement(12, 66, 67)
@pytest.mark.parametrize("path", ["/", "/a", "//server/share", "C:\\", "c:/x", "\\\\server\\share"])
def test_absolute_paths_of_any_system(path: str) -> None:
    validate("session/new", {"cwd": path, "additionalDirectories": [path], "mcpServers": []})


@requirement(12, 66, 67)
@pytest.mark.parametrize("path", ["", "a", "./a", "C:", "C:a", "1:/a", "é:/a", ":/", "\\a", "~/x", "file:///a"])
def test_relative_paths(path: str) -> None:
    error = refusal("session/new", {"cwd": "/", "additionalDirectories": ["/", path], "mcpServers": []})
    assert (error.path, error.rule) == ("$.additionalDirectories[1]", "absolute-path")


def test_lone_surrogates_are_text() -> None:
    validate("fs/write_text_file", {"sessionId": "\ud800", "path": "/\udfff", "content": "\ud800"})
    error = refusal("fs/write_text_file", {"sessionId": "s", "path": "\ud800", "content": ""})
    assert error.found.isascii()


def test_tuples_count_as_lists() -> None:
    validate("session/prompt", {"sessionId": "s", "prompt": ({"type": "text", "text": ""},)})


def test_text_of_a_refusal_is_bounded() -> None:
    long = "x" * 100_000
    nested = {"sessionId": "s", "prompt": [], "_meta": {long: 1}}
    validate("session/prompt", nested)
    for error in (
        refusal("session/update", {"sessionId": "s", "update": {"sessionUpdate": long}}),
        refusal("fs/read_text_file", {"sessionId": "s", "path": long}),
        refusal("initialize", {"protocolVersion": 10**5000}),
        refusal(
            "elicitation/create",
            {
                "message": "",
                "mode": "form",
                "sessionId": "s",
                "requestedSchema": {"properties": {long: {"type": "string", "title": 1}}},
            },
        ),
    ):
        assert len(str(error)) < 600
    assert "..." in error.path
    assert "5000" not in refusal("initialize", {"protocolVersion": 10**5000}).found


def test_content_is_not_repeated_in_a_refusal() -> None:
    error = refusal("session/new", {"cwd": "/", "mcpServers": [{"type": "http", "name": "n", "url": "secret-url"}]})
    assert "secret" not in str(error)
    headers = {"type": "http", "name": "n", "url": "u", "headers": "Bearer secret"}
    assert "secret" not in str(refusal("session/new", {"cwd": "/", "mcpServers": [headers]}))


def test_odd_keys_are_quoted_in_paths() -> None:
    error = refusal(
        "elicitation/create",
        {"message": "", "mode": "form", "sessionId": "s", "requestedSchema": {"properties": {"a b": 1}}},
    )
    assert error.path == "$.requestedSchema.properties['a b']"


def test_foreign_objects_are_described_by_type() -> None:
    assert refusal("session/cancel", {"sessionId": b"s"}).found == "a Python bytes"


def test_refusal_can_be_pickled() -> None:
    error = refusal("session/prompt", {"sessionId": "s", "prompt": [{"type": "text"}]})
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.rule) == (str(error), error.rule)


def test_union_reports_the_alternative_that_was_meant() -> None:
    with pytest.raises(ValidationError) as caught:
        validate_type(
            "SessionConfigSelectOptions", [{"group": "g", "name": "n", "options": [{"value": "v", "name": 1}]}]
        )
    assert caught.value.path == "$[0].options[0].name"
    with pytest.raises(ValidationError, match="a string or an integer"):
        validate_type("ElicitationContentValue", None)


@requirement(123)
def test_custom_fields_are_found() -> None:
    params = {
        "sessionId": "s",
        "vendor": 1,
        "_meta": {"vendor": 1},
        "update": {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "x",
            "x": 1,
            "rawInput": {"anything": 1},
            "content": [{"type": "content", "content": {"type": "text", "text": "", "y": 1}}, {"type": "odd", "z": 1}],
        },
    }
    assert custom_fields("session/update", params) == [
        "$.vendor",
        "$.update.x",
        "$.update.content[0].content.y",
    ]
    assert custom_fields("_vendor/x", {"a": 1}) == []


@requirement(123)
def test_custom_fields_know_every_form() -> None:
    server = {"type": "stdio", "name": "n", "command": "c", "args": [], "env": []}
    assert custom_fields("session/new", {"cwd": "/", "mcpServers": [server]}) == []
    option = {"sessionId": "s", "configId": "c", "value": "v", "extra": 1}
    assert custom_fields("session/set_config_option", option) == ["$.extra"]
    form = {"message": "", "mode": "form", "requestId": 1, "requestedSchema": {"odd": 1}, "more": 1}
    assert custom_fields("elicitation/create", form) == ["$.more", "$.requestedSchema.odd"]
    other = {"message": "", "mode": "_mine", "sessionId": "s", "more": 1}
    assert custom_fields("elicitation/create", other) == []
    options = [{"group": "g", "name": "n", "options": [], "x": 1}]
    update = {
        "sessionUpdate": "config_option_update",
        "configOptions": [{"id": "i", "name": "n", "type": "select", "currentValue": "v", "options": options}],
    }
    paths = custom_fields("session/update", {"sessionId": "s", "update": update})
    assert paths == ["$.update.configOptions[0].options[0].x"]
    assert custom_fields("session/update", []) == []
    assert custom_fields("session/prompt", {"sessionId": "s", "prompt": {}}) == []
    message = {"message": "", "mode": "form", "requestId": 1}
    properties = {"a": {"type": "string", "x": 1}, "b": {"type": "_later", "x": 1}}
    form = {**message, "requestedSchema": {"properties": properties}}
    assert custom_fields("elicitation/create", form) == ["$.requestedSchema.properties.a.x"]
    assert custom_fields("elicitation/create", {**message, "requestedSchema": {"properties": 1}}) == []


def test_three_state_fields() -> None:
    assert three_state_fields("SessionInfoUpdate") == ("title", "updatedAt")
    assert three_state_fields("CompactionUpdate") == ("summary", "error", "_meta")
    assert three_state_fields("ToolCallUpdate") == ()


@pytest.mark.parametrize("code", [0, 1, 255, 0xC0000005, 2**32 - 1])
def test_exit_codes(code: int) -> None:
    assert exit_status(code) == {"exitCode": code}
    validate_type("TerminalExitStatus", exit_status(code))


def test_signals_have_names() -> None:
    assert exit_status(-9) == {"signal": "SIGKILL"}
    assert exit_status(-10) == {"signal": "SIGUSR1"}
    assert exit_status(-10, BSD_SIGNALS) == {"signal": "SIGBUS"}
    assert exit_status(-64) == {"signal": "SIG64"}
    assert set(LINUX_SIGNALS) == set(BSD_SIGNALS) == set(range(1, 32))


def test_signal_names_are_those_of_this_system() -> None:
    import signal
    import sys

    names = {"linux": LINUX_SIGNALS, "darwin": BSD_SIGNALS}.get(sys.platform, {})
    known = {number.value: number.name for number in signal.Signals}
    assert {number: name for number, name in names.items() if known.get(number, name) != name} == {}


def test_exit_codes_that_the_wire_cannot_carry() -> None:
    with pytest.raises(ValueError, match="4294967295"):
        exit_status(2**32)
    for value in (True, 1.0, "1"):
        with pytest.raises(TypeError):
            exit_status(value)  # type: ignore[arg-type]  # the wrong type is the point


@requirement(12)
def test_lines_start_at_one() -> None:
    params = {"sessionId": "s", "path": "/a", "line": 1}
    validate("fs/read_text_file", params)
    assert refusal("fs/read_text_file", {**params, "line": 0}).rule == "line"
    assert refusal("fs/read_text_file", {**params, "line": -1}).rule == "line"


@pytest.mark.parametrize("url", ["", "example.org", "://x", "1a:b", "é:b", "a b:c", "a:b c", "a:\x7f", "/a:b", 3, None])
def test_urls_that_are_none(url: object) -> None:
    params = {"message": "", "mode": "url", "sessionId": "s", "elicitationId": "e", "url": url}
    assert refusal("elicitation/create", params).path == "$.url"


@requirement(120)
def test_open_unions_take_unknown_tags_and_closed_ones_do_not() -> None:
    validate("elicitation/create", {"message": "", "mode": "_mine", "sessionId": "s", "anything": 1})
    validate_result("elicitation/create", {"action": "_later"})
    assert refusal("elicitation/create", {"message": "", "sessionId": "s"}).path == "$.mode"
    assert refusal("elicitation/create", {"message": "", "mode": "_mine"}).rule == "schema"
    validate_type("ElicitationPropertySchema", {"type": "_date"})
    validate_type("SessionConfigOptionCategory", "_mine")
    with pytest.raises(ValidationError):
        validate_type("SessionUpdate", {"sessionUpdate": "_mine"})


@requirement(121)
def test_meta_is_an_object_or_null() -> None:
    for meta in ({}, {"": {"deep": [1]}}, None):
        validate("session/cancel", {"sessionId": "s", "_meta": meta})
    wrongs: list[object] = [[], "x", 1]
    for wrong in wrongs:
        assert refusal("session/cancel", {"sessionId": "s", "_meta": wrong}).path == "$._meta"
