"""Hypothesis strategies for every type of the schema, made from the tables that the validator reads.

``Strategies(unstable=...)`` has `valid(name)`, values that must be accepted, and `mutated(name)`, the same with one or
two random changes, which may or may not be accepted. Both are for tests of anything that sends or reads messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

from hypothesis import strategies as st

from acp_core.schema import v1_table, v1_table_unstable

Kind: TypeAlias = "str | tuple[object, ...]"
Json: TypeAlias = object
Strategy: TypeAlias = "st.SearchStrategy[Json]"

TEXT = st.text(max_size=6)
# Lone surrogates are legal in a JSON string with escapes, so they are legal here.
WILD_TEXT = st.text(st.characters(), max_size=6)
ATOMS: Strategy = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), WILD_TEXT
)
JSON: Strategy = st.one_of(
    ATOMS, st.lists(ATOMS, max_size=2), st.dictionaries(TEXT, ATOMS, max_size=2), st.just([[{"a": []}]])
)
PATHS = ("/", "/home/user/a b", "C:\\work", "d:/x/y", "\\\\server\\share\\file", "//net/x", "/tmp/ünïcode/\ud800")
EDGES: list[Json] = [
    None, True, False, 0, 1, -1, 1.0, -1.0, 0.5, 65535, 65536, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64,
    -(2**31) - 1, -(2**63) - 1, float("nan"), float("inf"), 10**400, "", "x", "text", "relative/path", "C:", "/abs",
    "cancelled", "boolean", "string", "1", "https://example.org", "no uri", [], [None], [[]], {}, {"type": "text"},
    {"type": 1}, {"x": None}, "\ud800",
]  # fmt: skip

# Members that an object may get: some that mean something in many places, and one that means nothing.
ADDED = ("type", "_meta", "value", "mode", "anyOf", "x")

PRIMITIVES: dict[str, Strategy] = {
    "any": JSON,
    "null": st.none(),
    "bool": st.booleans(),
    "num": st.one_of(st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False)),
    "str": WILD_TEXT,
    "str1": st.text(min_size=1, max_size=4),
    "path": st.sampled_from(PATHS),
    "uri": st.sampled_from(["https://example.org/a?b=c#d", "urn:x:y", "mailto:a@b.c", "x-1.0+a:%20"]),
    "line": st.sampled_from([1, 2, 1000, 2**32 - 1]),
}
for _bits in (16, 32, 64):
    PRIMITIVES[f"u{_bits}"] = st.one_of(st.integers(0, 9), st.integers(0, 2**_bits - 1))
for _bits in (32, 64):
    PRIMITIVES[f"i{_bits}"] = st.one_of(st.integers(-9, 9), st.integers(-(2 ** (_bits - 1)), 2 ** (_bits - 1) - 1))


class Strategies:
    """Strategies for the types of one table."""

    def __init__(self, *, unstable: bool = False) -> None:
        self.kinds: dict[str, Kind] = dict(v1_table.TYPES)
        if unstable:
            self.kinds.update(v1_table_unstable.TYPES)
        self._made: dict[str, Strategy] = dict(PRIMITIVES)

    def valid(self, name: str) -> Strategy:
        """Return values that fit the type `name` in every respect that the validator checks."""
        if name not in self._made:
            self._made[name] = self._make(self.kinds[name])
        return self._made[name]

    def mutated(self, name: str) -> Strategy:
        """Return values of the type `name` with one or two random changes anywhere inside."""
        return mutants(self.valid(name))

    def _make(self, kind: Kind) -> Strategy:
        if isinstance(kind, str):
            return self.valid(kind)
        form = kind[0]
        if form == "=":
            return st.sampled_from(kind[1:])
        if form == "=*":
            return st.one_of(st.sampled_from(kind[2:]), self._make(_kind(kind[1])))
        if form == "?":
            return st.one_of(st.none(), self._make(_kind(kind[1])))
        if form == "[":
            return st.lists(self._make(_kind(kind[1])), max_size=2)
        if form == "{":
            return st.dictionaries(TEXT, self._make(_kind(kind[1])), max_size=2)
        if form == "|":
            return st.one_of([self._make(_kind(part)) for part in kind[1:]])
        if form == "o":
            return self._object(kind)
        return self._tagged(kind)

    def _object(self, kind: tuple[object, ...]) -> Strategy:
        required: dict[str, Strategy] = {}
        optional: dict[str, Strategy] = {}
        for row in _rows(kind[1]):
            (required if "r" in str(row[1]) else optional)[str(row[0])] = self._make(_kind(row[2]))
        # An unknown key is legal everywhere, and must survive.
        optional["x-unknown"] = ATOMS
        own = st.fixed_dictionaries(required, optional=optional)
        parts = [self._make(_kind(part)) for part in _rows(kind[2])]
        return st.builds(_merge, own, *parts) if parts else own

    def _tagged(self, kind: tuple[object, ...]) -> Strategy:
        _, key, known, other, bare = kind
        tags = [str(row[0]) for row in _rows(known)]
        forms = [st.builds(_merge, self._make(_kind(payload)), st.just({key: tag})) for tag, payload in _rows(known)]
        strange = WILD_TEXT.filter(lambda text: text not in tags)
        if other is not None:
            forms.append(st.builds(_with(str(key)), self._make(_kind(other)), strange))
        if bare is not None:
            forms.append(self._make(_kind(bare)))
            if other is None:
                forms.append(st.builds(_with(str(key)), self._make(_kind(bare)), strange))
        return st.one_of(forms)


def _kind(value: object) -> Kind:
    assert isinstance(value, (str, tuple))
    return value


def _rows(value: object) -> tuple[tuple[object, ...], ...]:
    assert isinstance(value, tuple)
    return value


def _merge(first: dict[str, Json], *rest: dict[str, Json]) -> Json:
    out = dict(first)
    for part in rest:
        out.update(part)
    return out


def _with(key: str) -> Callable[[dict[str, Json], str], Json]:
    return lambda value, tag: {**value, key: tag}


@st.composite
def mutants(draw: st.DrawFn, values: Strategy) -> Json:
    """Draw a value and change it in one or two places."""
    value = draw(values)
    for _ in range(draw(st.integers(1, 2))):
        value = _change(draw, value)
    return value


def neighbours(value: Json, count: int, chance: Random) -> Iterator[Json]:
    """Yield `count` values that differ from `value` in one place: replaced, left out or added; all places alike."""
    places = list(_places(value, ()))
    for _ in range(count):
        yield _changed(value, chance.choice(places), chance)


def _places(value: Json, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index))


def _changed(value: Json, path: tuple[str | int, ...], chance: Random) -> Json:
    """A copy of `value`, changed at `path`; what is not on the way is shared."""
    if path and isinstance(value, dict):
        key = str(path[0])
        if len(path) == 1 and chance.random() < 0.2:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _changed(value[key], path[1:], chance)}
    if path and isinstance(value, list):
        index = int(path[0])
        return [*value[:index], _changed(value[index], path[1:], chance), *value[index + 1 :]]
    how = chance.random()
    if isinstance(value, list) and how < 0.4:
        return [*value, chance.choice(EDGES)]
    if isinstance(value, dict) and how < 0.4:
        return {**value, chance.choice(ADDED): chance.choice(EDGES)}
    if isinstance(value, str) and how < 0.2:
        return value + chance.choice("x /:")
    if isinstance(value, int) and not isinstance(value, bool) and how < 0.2:
        return value + chance.choice((1, -1, 2**32, -(2**32)))
    return chance.choice(EDGES)


def _change(draw: st.DrawFn, value: Json) -> Json:
    """Go down a random way and replace, drop or add something there; drawn values are shared, so they are copied."""
    inner = isinstance(value, (dict, list)) and bool(value) and draw(st.integers(0, 3)) > 0
    if inner and isinstance(value, dict):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 4)) == 0:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _change(draw, value[key])}
    if inner and isinstance(value, list):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], _change(draw, value[index]), *value[index + 1 :]]
    if isinstance(value, list) and draw(st.booleans()):
        return [*value, draw(st.sampled_from(EDGES))]
    if isinstance(value, dict) and draw(st.booleans()):
        return {**value, draw(st.sampled_from(ADDED)): draw(JSON)}
    return draw(st.sampled_from(EDGES))
