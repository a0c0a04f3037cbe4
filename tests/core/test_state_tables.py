"""The state tables themselves: total, closed, and with a way to the end from everywhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import acp_core
from acp_core import state
from acp_core.state import TABLES, allows, move

SOURCE = Path(acp_core.__file__).parent

# A table begins with its first state, unless several ways lead in.
BEGINS = {name: frozenset({next(iter(table))}) for name, table in TABLES.items()}
BEGINS["served session"] = frozenset({state.CREATING, state.LOADING, state.RESUMING})
# It ends where nothing leads out; one that never ends comes back to its beginning. A closed session is an end too,
# though a load may open it again.
ENDS = {
    name: frozenset(here for here in table if set(table[here].values()) <= {here}) or BEGINS[name]
    for name, table in TABLES.items()
}
ENDS["served session"] = frozenset({state.CLOSED})
INPUTS = sorted({name for table in TABLES.values() for row in table.values() for name in row})


def reachable(table: state.Table, begins: frozenset[str]) -> set[str]:
    found = set(begins)
    todo = [*begins]
    while todo:
        for target in table[todo.pop()].values():
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


def test_where_the_everyday_tables_end() -> None:
    assert ENDS["connection"] == {state.OVER}
    assert ENDS["request"] == {state.SETTLED}
    assert ENDS["incoming request"] == {state.ANSWERED, state.ABANDONED}
    assert ENDS["session"] == {state.CLOSED}


@given(st.sampled_from(sorted(TABLES)), st.data())
def test_what_is_absent_is_illegal(name: str, data: st.DataObject) -> None:
    table = TABLES[name]
    here = data.draw(st.sampled_from(sorted(table)))
    event = data.draw(st.one_of(st.sampled_from(INPUTS), st.text(max_size=8)))
    legal = event in table[here]
    assert allows(table, here, event) is legal
    if legal:
        assert move(table, here, event) == table[here][event]
    else:
        with pytest.raises(KeyError):
            move(table, here, event)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_target_is_a_state(name: str) -> None:
    for row in TABLES[name].values():
        assert set(row.values()) <= set(TABLES[name])


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_state_can_be_reached(name: str) -> None:
    assert reachable(TABLES[name], BEGINS[name]) == set(TABLES[name])


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_state_has_a_way_to_the_end(name: str) -> None:
    for here in TABLES[name]:
        assert reachable(TABLES[name], frozenset({here})) & ENDS[name], f"no way out of {here}"


def test_the_end_of_a_connection_ends_everything() -> None:
    """Whatever state a session, a request or a connection is in, the end of the connection is a legal input."""
    for name, event in (("connection", "end"), ("request", "end"), ("session", "fail"), ("served session", "close")):
        for here in set(TABLES[name]) - ENDS[name]:
            assert allows(TABLES[name], here, event), (name, here)


def test_sets_of_states_are_states_of_a_session() -> None:
    for group in (state.LIVE, state.REPLAY, state.OPENING):
        assert group <= set(state.SESSION)
    assert not state.LIVE & state.REPLAY


def test_every_input_is_used() -> None:
    """A transition that no code asks for would be a rule that nobody keeps."""
    words: set[object] = set()
    for file in SOURCE.glob("*.py"):
        if file.name != "state.py":
            words |= {node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)}
    assert not [name for name in INPUTS if name not in words]


def assignments() -> Iterator[tuple[str, str, ast.expr]]:
    """Every assignment to an attribute ``state`` or ``_state`` in the core: file, enclosing function, value."""
    for file in SOURCE.glob("*.py"):
        for function in ast.walk(ast.parse(file.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Assign):
                    names = [target.attr for target in node.targets if isinstance(target, ast.Attribute)]
                    if set(names) & {"state", "_state"}:
                        yield file.name, function.name, node.value


def test_states_move_by_the_tables_only() -> None:
    """Outside a constructor, a state is only ever what ``move`` gives."""
    found = list(assignments())
    assert len(found) > 10
    for file, function, value in found:
        if function != "__init__":
            assert isinstance(value, ast.Call), (file, function)
            assert isinstance(value.func, ast.Name), (file, function)
            assert value.func.id == "move", (file, function)
