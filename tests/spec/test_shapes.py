"""The shapes by which intents check what they are given, against the official schema and against our validator's types.

What a shape takes, the official schema takes; and what is valid, a shape takes. So a call that is let through writes
bytes that pass the schema, and no good call is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_core import V1, V1_UNSTABLE
from acp_core.errors import LocalProtocolError
from acp_core.schema import v1_table, v1_table_unstable
from acp_core.shapes import UPDATES, check_shape, misfit
from tests.spec.agree import official, strategies

if TYPE_CHECKING:
    from acp_core.shapes import Shape

Case: TypeAlias = "tuple[str, Shape, dict[str, object]]"

TYPES = {**v1_table.METHODS, **v1_table_unstable.METHODS}
# What the core adds by itself: the scope of an elicitation, and the session of what is about one.
SESSION: dict[str, object] = {"sessionId": "s"}
KINDS = {
    "user_message_chunk": "ContentChunk",
    "tool_call": "ToolCall",
    "tool_call_update": "ToolCallUpdate",
    "plan": "Plan",
    "available_commands_update": "AvailableCommandsUpdate",
    "current_mode_update": "CurrentModeUpdate",
    "config_option_update": "ConfigOptionUpdate",
    "session_info_update": "SessionInfoUpdate",
    "usage_update": "UsageUpdate",
}


def cases(unstable: bool) -> list[Case]:
    """The name of a type, its shape, and the members that are there whatever the caller gives."""
    found: list[Case] = [(name, UPDATES, {"sessionUpdate": kind}) for kind, name in KINDS.items()]
    for row in V1_UNSTABLE if unstable else V1:
        if row.params is not None:
            name = TYPES[row.key][3]
            found.append((str(name), row.params, SESSION if row.session or row.key == "elicitation_create" else {}))
        if row.result is not None:
            found.append((str(TYPES[row.key][4]), row.result, {}))
    return found


STABLE, DRAFT = cases(unstable=False), cases(unstable=True)


def name_of(case: Case) -> str:
    return case[0]


def test_every_stable_row_has_its_shapes() -> None:
    """But for what the core writes by itself, and what comes by the thousand."""
    own = {"session_close", "session_cancel", "session_set_mode", "session_set_config_option", "cancel_request"}
    checked_by_hand = {"session_update", "session_request_permission"}
    assert {row.key for row in V1 if row.stable and row.params is None} == own | checked_by_hand
    assert not [row.key for row in V1 if row.stable and row.result is None and TYPES[row.key][4] is not None]


@pytest.mark.parametrize("case", STABLE, ids=name_of)
@settings(max_examples=60)
@given(data=st.data())
def test_what_is_valid_is_taken_and_what_is_taken_is_valid(case: Case, data: st.DataObject) -> None:
    name, shape, added = case
    makers = strategies(False)
    value = data.draw(st.one_of(makers.valid(name), makers.mutated(name)))
    if not isinstance(value, dict):
        assert misfit(shape, value, "")
        return
    whole = {**value, **added}
    if not misfit(shape, whole, ""):
        assert official(name, False).is_valid(whole)


@pytest.mark.parametrize(
    ("case", "unstable"),
    [*((case, False) for case in STABLE), *((case, True) for case in DRAFT)],
    ids=lambda value: value[0] if isinstance(value, tuple) else ("draft" if value else "stable"),
)
@settings(max_examples=25)
@given(data=st.data())
def test_nothing_valid_is_refused(case: Case, unstable: bool, data: st.DataObject) -> None:
    name, shape, added = case
    value = data.draw(strategies(unstable).valid(name))
    assert isinstance(value, dict)
    # All three ways to open a session are given their servers.
    servers: dict[str, object] = {"mcpServers": []} if name == "ResumeSessionRequest" else {}
    check_shape(shape, {**servers, **value, **added}, name)


@pytest.mark.parametrize("case", STABLE, ids=name_of)
@settings(max_examples=20)
@given(data=st.data())
def test_a_refusal_is_short_and_names_the_member(case: Case, data: st.DataObject) -> None:
    name, shape, added = case
    value = data.draw(strategies(False).mutated(name))
    try:
        check_shape(shape, {**value, **added} if isinstance(value, dict) else value, "it")
    except LocalProtocolError as why:
        assert why.rule == "message.shape"
        assert "; give " in str(why) and len(str(why)) < 600
        str(why).encode("utf-8")


def test_no_secret_is_told() -> None:
    server = {"type": "http", "name": "m", "url": "u", "headers": ["Authorization: Bearer x"]}
    with pytest.raises(LocalProtocolError) as caught:
        check_shape(V1["session_new"].params, {"cwd": "/", "mcpServers": [server]}, "it")
    assert "mcpServers[0].headers[0] is a str; give a dict" in str(caught.value)
    assert "Bearer" not in str(caught.value)
