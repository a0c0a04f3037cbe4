"""Every field of a request or an update has a property on its event, in snake_case; and it is total."""

from __future__ import annotations

import re

import pytest

from acp_core import (
    V1,
    CreateTerminalRequested,
    ElicitationRequested,
    Method,
    ReadTextFileRequested,
    RequestReceived,
    SessionInfoUpdate,
    Update,
    events,
)
from acp_core.client import UPDATES
from acp_core.requests import PeerRequest
from acp_core.schema import v1_table
from tests.core.helpers import CWD, FULL_CLIENT, Message, idle_client, one, prompting_client, request, update

# Names that mean something else on every event, or on every request.
RENAMED = {
    ("ReadTextFileRequested", "line"): "start_line",
    ("ElicitationRequested", "requestId"): "scope_request",
    # A Python value has its type by itself.
    ("SetConfigOptionRequested", "type"): "value",
}
# Properties whose value is of more than one type on the wire.
ANY_TYPE = {"value", "scope_request"}
REQUESTS = [row for row in V1 if row.event and row.stable]
UPDATE_FIELDS = ("content", "toolCallId", "entries", "used", "title", "configOptions", "locations", "availableCommands")
ODD: list[object] = [None, True, 5, -1.5, "", "text", [], [None], [{}], {}, {"name": 5}, [{"name": "a", "value": 7}]]


def fields(kind: object) -> set[str]:
    """The names of all fields of a type, those of its variants too."""
    if isinstance(kind, str):
        return fields(v1_table.TYPES[kind]) if kind in v1_table.TYPES else set()
    assert isinstance(kind, tuple)
    if kind[0] == "o":
        return {str(field[0]) for field in kind[1]} | {name for part in kind[2] for name in fields(part)}
    if kind[0] == "t":
        variants = [variant for _, variant in kind[2]] + [part for part in kind[3:] if part is not None]
        return {str(kind[1])} | {name for variant in variants for name in fields(variant)}
    assert kind[0] == "|"
    return {name for part in kind[1:] for name in fields(part)}


def property_of(cls: type, field: str) -> str:
    snake = re.sub(r"(?<!^)([A-Z])", lambda found: "_" + found[1].lower(), field)
    return RENAMED.get((cls.__name__, field), snake.lstrip("_"))


@pytest.mark.parametrize("row", REQUESTS, ids=lambda row: row.key)
def test_every_field_of_a_request_has_a_property(row: Method) -> None:
    cls = getattr(events, row.event)
    wanted = fields(v1_table.METHODS[row.key][3])
    assert wanted
    assert [name for name in sorted(wanted) if not hasattr(cls, property_of(cls, name))] == []


@pytest.mark.parametrize("kind", sorted(UPDATES))
def test_every_field_of_an_update_has_a_property(kind: str) -> None:
    cls = UPDATES[kind][0]
    table = v1_table.TYPES["SessionUpdate"]
    assert isinstance(table, tuple) and isinstance(table[2], tuple)
    variants = dict(table[2])
    assert variants.keys() == UPDATES.keys()
    wanted = fields(variants[kind])
    assert wanted
    assert [name for name in sorted(wanted) if not hasattr(cls, property_of(cls, name))] == []


@pytest.mark.parametrize("row", REQUESTS, ids=lambda row: row.key)
def test_properties_of_requests_never_raise(row: Method) -> None:
    """Whatever stands in a field, a property gives a value of its own type."""
    cls = getattr(events, row.event)
    names = [name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, property)]
    assert names
    types: dict[str, set[type]] = {}
    for odd in ODD:
        params = dict.fromkeys(fields(v1_table.METHODS[row.key][3]), odd)
        event = cls(PeerRequest("test.1", 1, row, params, None, None, None), False, b"", 1.0)
        assert isinstance(event, RequestReceived)
        for name in names:
            types.setdefault(name, set()).add(type(getattr(event, name)))
    for name, found in types.items():
        assert name in ANY_TYPE or len(found - {type(None)}) <= 1, (name, found)


@pytest.mark.parametrize("kind", sorted(UPDATES))
def test_properties_of_updates_never_raise(kind: str) -> None:
    driver, _, _ = prompting_client()
    for odd in ODD:
        params: Message = dict.fromkeys(UPDATE_FIELDS, odd)
        event = one(driver.feed(update("s1", kind, params)), Update)
        names = [
            name for base in type(event).__mro__ for name, value in vars(base).items() if isinstance(value, property)
        ]
        assert [getattr(event, name) for name in names]


def test_a_file_is_read_from_a_line_on() -> None:
    driver, _ = idle_client()
    params = {"sessionId": "s1", "path": "/a", "line": 3, "limit": 10}
    event = one(driver.feed(request(1, "fs/read_text_file", params)), ReadTextFileRequested)
    assert (event.path, event.start_line, event.limit) == ("/a", 3, 10)
    event = one(
        driver.feed(request(2, "fs/read_text_file", {"sessionId": "s1", "path": "/a", "line": True, "limit": None})),
        ReadTextFileRequested,
    )
    assert (event.start_line, event.limit) == (None, None)


def test_a_command_is_started() -> None:
    driver, _ = idle_client()
    params: Message = {
        "sessionId": "s1",
        "command": "make",
        "args": ["-j", 4, "all"],
        "env": [{"name": "A", "value": "1"}, {"name": "B"}, "x", {"name": "A", "value": "2"}],
        "cwd": CWD,
        "outputByteLimit": 1000,
    }
    event = one(driver.feed(request(1, "terminal/create", params)), CreateTerminalRequested)
    assert (event.command, event.args, event.env) == ("make", ["-j", "all"], {"A": "2"})
    assert (event.cwd, event.output_byte_limit) == (CWD, 1000)


def test_an_elicitation_is_about_a_session_or_a_request() -> None:
    driver, _ = idle_client(capabilities=FULL_CLIENT)
    params: Message = {
        "mode": "url",
        "message": "log in",
        "url": "https://localhost/",
        "elicitationId": "e",
        "requestId": 1,
    }
    event = one(driver.feed(request(1, "elicitation/create", params)), ElicitationRequested)
    assert (event.mode, event.message, event.url, event.elicitation_id) == (
        "url",
        "log in",
        "https://localhost/",
        "e",
    )
    assert (event.scope_request, event.session_id, event.tool_call_id) == (1, None, None)
    params = {"mode": "form", "message": "?", "sessionId": "s1", "toolCallId": "t", "requestId": True}
    event = one(driver.feed(request(2, "elicitation/create", params)), ElicitationRequested)
    assert (event.scope_request, event.session_id, event.tool_call_id) == (None, "s1", "t")


def test_absent_null_and_value_of_a_title_stay_apart() -> None:
    driver, session = idle_client()

    def told(**fields: object) -> tuple[bool, str | None, bool, str | None, str | None]:
        event = one(driver.feed(update("s1", "session_info_update", fields)), SessionInfoUpdate)
        return event.title_given, event.title, event.updated_at_given, event.updated_at, session.title

    assert told(title="one", updatedAt="2026-01-01") == (True, "one", True, "2026-01-01", "one")
    assert told() == (False, None, False, None, "one")
    # A value of a wrong type says nothing.
    assert told(title=5, updatedAt=[]) == (False, None, False, None, "one")
    assert told(title=None, updatedAt=None) == (True, None, True, None, None)
