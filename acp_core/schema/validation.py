"""Checks of protocol values: strict for what is sent, lenient for what is read.

The official schema of a whole message accepts anything, because its unions end in "any extension". So every check here
goes by method: the caller says which method a value belongs to. The types come from the generated tables, which are
loaded and compiled on first use; nothing is imported beyond the standard library, and `typing` not at all.

Forms of a type in the tables: a primitive or the name of another type; ``("?", T)`` null or T; ``("[", T)`` list;
``("{", T)`` map; ``("=", ...)`` closed enum; ``("=*", base, ...)`` open enum; ``("|", ...)`` alternatives, the first
that fits; ``("o", fields, also)`` object whose fields are (name, flags, T[, default]) and for which each of `also`
holds too; ``("t", key, known, other, bare)`` object told apart by `key`: `other` takes unknown tags, `bare` none.
Flags: ``r`` required, ``~`` a bad value counts as absent, ``#`` bad list items are dropped.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    from acp_core.schema.v1_types import TerminalExitStatus

    _Kind: TypeAlias = "str | tuple[object, ...]"
    _Key: TypeAlias = "str | int"

__all__ = [
    "BSD_SIGNALS",
    "LINUX_SIGNALS",
    "Skipped",
    "UnknownMethodError",
    "ValidationError",
    "custom_fields",
    "exit_status",
    "read",
    "read_result",
    "read_type",
    "three_state_fields",
    "validate",
    "validate_result",
    "validate_type",
]

# Failures travel into events and error answers: a hostile key or value must not make them long.
PATH_LIMIT = 240
TEXT_LIMIT = 160
KEY_LIMIT = 48
VALUE_LIMIT = 48
# A list of a million bad items is one problem; the rest is counted.
SKIPPED_LIMIT = 64

_DOUBLE_MAX = 1.7976931348623157e308
_INTEGERS = {
    "u16": (0, 2**16 - 1, "schema"),
    "u32": (0, 2**32 - 1, "schema"),
    "u64": (0, 2**64 - 1, "schema"),
    "i32": (-(2**31), 2**31 - 1, "range"),
    "i64": (-(2**63), 2**63 - 1, "range"),
}
_SCHEME_REST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-")


class ValidationError(ValueError):
    """A value does not fit its type.

    `path` is a JSON path from the checked value (``$.update.content[0]``), `expected` says what would fit, `found` what
    stood there: kind and size, with the value itself only where the value is the problem (a number, an enum, a path),
    so that no header or file content ends up in a log. All three are short, whatever the peer sent. `rule` is
    ``schema`` or names a check that the official schema file does not make: ``integer``, ``range``, ``finite``,
    ``absolute-path``, ``line``, ``uri``, ``variant`` (docs/schema.md).
    """

    def __init__(self, path: str, expected: str, found: str, rule: str = "schema") -> None:
        self._path = _clip(path, PATH_LIMIT)
        self._keys: list[_Key] = []
        self.expected = _clip(expected, TEXT_LIMIT)
        self.found = _clip(found, TEXT_LIMIT)
        self.rule = rule
        super().__init__(self._path, self.expected, self.found, rule)

    @property
    def path(self) -> str:
        return _render(self._path, self._keys)

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"

    def __reduce__(self) -> "tuple[type[ValidationError], tuple[str, str, str, str]]":
        return ValidationError, (self.path, self.expected, self.found, self.rule)

    def under(self, key: "_Key") -> "ValidationError":
        """Put one step in front of the path: errors are made at the leaf and named on the way out."""
        self._keys.append(key)
        return self


class Skipped:
    """One thing that lenient reading left out or filled in. The raw value is never changed.

    `action`: ``absent`` (a broken or missing value counts as left out, or as its default), ``item`` (a list item was
    left out), ``alias`` (the value stood under another key that the official pages use), ``message`` (nothing fits:
    there is no view), ``more`` (`found` counts further ones). The other fields are those of `ValidationError`.
    """

    __slots__ = ("_error", "action")

    def __init__(self, action: str, error: ValidationError) -> None:
        self.action = action
        self._error = error

    @property
    def path(self) -> str:
        return self._error.path

    @property
    def expected(self) -> str:
        return self._error.expected

    @property
    def found(self) -> str:
        return self._error.found

    def __repr__(self) -> str:
        return f"Skipped({self.action!r}, {str(self._error)!r})"


class UnknownMethodError(LookupError):
    """Neither a method of this protocol version nor an extension (a name that begins with ``_``)."""


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _render(root: str, keys: "list[_Key]") -> str:
    steps = []
    for key in reversed(keys):
        if isinstance(key, int):
            steps.append(f"[{key}]")
        elif key.isidentifier() and len(key) <= KEY_LIMIT:
            steps.append(f".{key}")
        else:
            steps.append(f"[{_clip(ascii(key[:KEY_LIMIT]), KEY_LIMIT)}]")
    return _clip(root + "".join(steps), PATH_LIMIT)


def _describe(value: object) -> str:
    """Say what kind of thing `value` is, and how large; never its content."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a number"
    if isinstance(value, str):
        return f"a string of {len(value)} characters"
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    return _clip(f"a Python {type(value).__name__}", TEXT_LIMIT)


def _show(value: object) -> str:
    """Return the value itself, short."""
    if isinstance(value, str):
        return _clip(ascii(value[:VALUE_LIMIT]), VALUE_LIMIT)
    if isinstance(value, int) and not isinstance(value, bool):
        # An int past the digit limit of the interpreter cannot be printed at all.
        return str(value) if abs(value) < 10**30 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    return _describe(value)


def _mismatch(expected: str, value: object) -> ValidationError:
    return ValidationError("$", expected, _describe(value))


class _Report:
    """What one reading skipped, bounded."""

    __slots__ = ("entries", "more")

    def __init__(self) -> None:
        self.entries: list[Skipped] = []
        self.more = 0

    def add(self, action: str, error: ValidationError) -> None:
        if len(self.entries) < SKIPPED_LIMIT:
            self.entries.append(Skipped(action, error))
        else:
            self.more += 1

    def under(self, mark: int, key: "_Key") -> None:
        """Put `key` in front of every entry made since there were `mark` of them."""
        for entry in self.entries[mark:]:
            entry._error.under(key)

    def rewind(self, mark: int, more: int) -> None:
        del self.entries[mark:]
        self.more = more

    def result(self) -> tuple[Skipped, ...]:
        if self.more:
            self.entries.append(Skipped("more", ValidationError("$", "fewer problems", f"{self.more} more")))
        return tuple(self.entries)


class _Node:
    """Any JSON value; the base of the compiled types.

    `check` returns the first problem or None. `read` returns what a lenient reader sees, which is `value` itself where
    nothing was left out, or the problem when the value cannot be used at all (no JSON value is a ValidationError).
    `extra` yields the path of every key that the type does not name, innermost step first.
    """

    expected = "any value"

    def check(self, value: object) -> ValidationError | None:
        return None

    def read(self, value: object, report: _Report) -> object:
        return value

    def extra(self, value: object) -> "Iterator[list[_Key]]":
        return iter(())


class _Leaf(_Node):
    """A value without parts. Reading looks at its JSON type only: a value out of range is still the wire's value."""

    def __init__(self, expected: str, *kinds: type) -> None:
        self.expected = expected
        self.kinds = kinds
        # Python counts a bool as an int, JSON does not.
        self.boolean = kinds == (bool,)

    def fits(self, value: object) -> bool:
        return isinstance(value, self.kinds) and isinstance(value, bool) is self.boolean

    # The test of `fits` is repeated in these two because they run for every value there is.
    def check(self, value: object) -> ValidationError | None:
        if isinstance(value, self.kinds) and isinstance(value, bool) is self.boolean:
            return None
        return _mismatch(self.expected, value)

    def read(self, value: object, report: _Report) -> object:
        if isinstance(value, self.kinds) and isinstance(value, bool) is self.boolean:
            return value
        return _mismatch(self.expected, value)


class _FilledStr(_Leaf):
    def __init__(self) -> None:
        super().__init__("a string that is not empty", str)

    def check(self, value: object) -> ValidationError | None:
        return _mismatch(self.expected, value) if value == "" else super().check(value)


class _Path(_Leaf):
    """Spec rule 12: absolute, in the notation of any system, since client and agent may run on different ones."""

    def __init__(self) -> None:
        super().__init__("an absolute path (POSIX, drive letter or UNC)", str)

    def check(self, value: object) -> ValidationError | None:
        if not isinstance(value, str):
            return _mismatch(self.expected, value)
        if value[:1] == "/" or value[:2] == "\\\\":
            return None
        if value[1:2] == ":" and value[2:3] in ("\\", "/") and value[2:3] and value[0].isascii() and value[0].isalpha():
            return None
        return ValidationError("$", self.expected, _show(value), "absolute-path")


class _Uri(_Leaf):
    """Scheme and colon without white space or control characters: enough to tell a URI from a path or a sentence."""

    def __init__(self) -> None:
        super().__init__("a URI", str)

    def check(self, value: object) -> ValidationError | None:
        if not isinstance(value, str):
            return _mismatch(self.expected, value)
        scheme, colon, _ = value.partition(":")
        good = bool(colon) and scheme[:1].isascii() and scheme[:1].isalpha() and _SCHEME_REST.issuperset(scheme)
        if good and all(char > " " and char != "\x7f" for char in value):
            return None
        return ValidationError("$", self.expected, _show(value), "uri")


class _Number(_Leaf):
    def __init__(self) -> None:
        super().__init__("a number", int, float)

    def check(self, value: object) -> ValidationError | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return _mismatch(self.expected, value)
        # False for NaN, for the infinities and for integers that no double holds.
        if -_DOUBLE_MAX <= value <= _DOUBLE_MAX:
            return None
        return ValidationError("$", "a finite number", _show(value), "finite")


class _Integer(_Leaf):
    """Bounds by name of the format. The schema file has lower bounds (zero) only; the other refusals have a rule."""

    def __init__(self, low: int, high: int, below: str) -> None:
        super().__init__(f"an integer from {low} to {high}", int)
        self.low, self.high, self.below = low, high, below

    def check(self, value: object) -> ValidationError | None:
        if isinstance(value, bool) or not isinstance(value, int):
            if isinstance(value, float) and value.is_integer():
                return ValidationError("$", self.expected, _show(value), "integer")
            return _mismatch(self.expected, value)
        if self.low <= value <= self.high:
            return None
        return ValidationError("$", self.expected, _show(value), self.below if value < self.low else "range")


class _Enum(_Leaf):
    """A closed enum; an unknown value of the right type is kept on reading (rule 9)."""

    def __init__(self, values: tuple[object, ...]) -> None:
        super().__init__("one of " + ", ".join(map(str, values)), type(values[0]))
        self.values = frozenset(values)

    def check(self, value: object) -> ValidationError | None:
        if self.fits(value) and value in self.values:
            return None
        return ValidationError("$", self.expected, _show(value))


class _Nullable(_Node):
    def __init__(self, item: _Node) -> None:
        self.item = item
        self.expected = f"{item.expected}, or null"

    def check(self, value: object) -> ValidationError | None:
        return None if value is None else self.item.check(value)

    def read(self, value: object, report: _Report) -> object:
        return None if value is None else self.item.read(value, report)

    def extra(self, value: object) -> "Iterator[list[_Key]]":
        return self.item.extra(value)


class _List(_Node):
    expected = "a list"

    def __init__(self, item: _Node, skip: bool) -> None:
        self.item, self.skip = item, skip

    def check(self, value: object) -> ValidationError | None:
        if not isinstance(value, (list, tuple)):
            return _mismatch(self.expected, value)
        check = self.item.check
        for index, item in enumerate(value):
            error = check(item)
            if error is not None:
                return error.under(index)
        return None

    def read(self, value: object, report: _Report) -> object:
        if not isinstance(value, (list, tuple)):
            return _mismatch(self.expected, value)
        kept: list[object] | None = None
        for index, item in enumerate(value):
            mark = len(report.entries)
            seen = self.item.read(item, report)
            # What comes back unchanged has nothing to report.
            if seen is item:
                if kept is not None:
                    kept.append(item)
                continue
            if kept is None:
                kept = list(value[:index])
            if not isinstance(seen, ValidationError):
                kept.append(seen)
            elif self.skip:
                report.add("item", seen)
            else:
                return seen.under(index)
            report.under(mark, index)
        return value if kept is None else kept

    def extra(self, value: object) -> "Iterator[list[_Key]]":
        if isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                for path in self.item.extra(item):
                    yield [*path, index]


class _Map(_Node):
    expected = "an object"

    def __init__(self, item: _Node) -> None:
        self.item = item

    def check(self, value: object) -> ValidationError | None:
        if not isinstance(value, dict):
            return _mismatch(self.expected, value)
        for key, item in value.items():
            if not isinstance(key, str):
                return _mismatch("a string as key", key)
            error = self.item.check(item)
            if error is not None:
                return error.under(key)
        return None

    def read(self, value: object, report: _Report) -> object:
        if not isinstance(value, dict):
            return _mismatch(self.expected, value)
        changed: dict[str, object] = {}
        for key, item in value.items():
            mark = len(report.entries)
            seen = self.item.read(item, report)
            if isinstance(seen, ValidationError):
                return seen.under(key)
            report.under(mark, key)
            if seen is not item:
                changed[key] = seen
        return {**value, **changed} if changed else value

    def extra(self, value: object) -> "Iterator[list[_Key]]":
        if isinstance(value, dict):
            for key, item in value.items():
                for path in self.item.extra(item):
                    yield [*path, key]


_MISSING = object()


class _Field:
    """One field of an object. `default` is what an absent value stands for; _MISSING leaves it absent."""

    __slots__ = ("alias", "default", "lenient", "name", "node", "required")

    def __init__(self, name: str, flags: str, node: _Node, default: object, alias: str | None) -> None:
        self.name, self.node, self.default, self.alias = name, node, default, alias
        self.required = "r" in flags
        self.lenient = "~" in flags

    def fill(self) -> object:
        """Return a fresh default, or _MISSING."""
        if isinstance(self.node, _List) and (self.default == () or self.required):
            return []
        # An object's default is what its own fields give.
        return self.node.read({}, _Report()) if self.default == () else self.default


class _Composite(_Node):
    """The type of an object, or one of several that hold for the same object.

    `known` gives the keys that this part names, `inside` the paths that `extra` finds below them.
    """

    expected = "an object"
    known: "Callable[[Mapping[str, object]], frozenset[str]]"
    inside: "Callable[[Mapping[str, object]], Iterator[list[_Key]]]"

    def extra(self, value: object) -> "Iterator[list[_Key]]":
        if isinstance(value, dict):
            names = self.known(value)
            for key in value:
                if key not in names:
                    yield [str(key)]
            yield from self.inside(value)


class _Object(_Composite):
    def __init__(self, fields: list[_Field], also: list[_Composite]) -> None:
        self.fields, self.also = fields, also
        self.names = frozenset(field.name for field in fields)

    def check(self, value: object) -> ValidationError | None:
        if not isinstance(value, dict):
            return _mismatch(self.expected, value)
        for field in self.fields:
            item = value.get(field.name, _MISSING)
            if item is _MISSING:
                if field.required:
                    return ValidationError("$", field.node.expected, "nothing").under(field.name)
            else:
                error = field.node.check(item)
                if error is not None:
                    return error.under(field.name)
        for node in self.also:
            error = node.check(value)
            if error is not None:
                return error
        return None

    def read(self, value: object, report: _Report) -> object:
        if not isinstance(value, dict):
            return _mismatch(self.expected, value)
        view: dict[str, object] = value
        for field in self.fields:
            item = value.get(field.name, _MISSING)
            if item is _MISSING:
                if not field.required and field.default is _MISSING:
                    continue
                seen = self.read_absent(field, value, report)
            else:
                mark = len(report.entries)
                seen = field.node.read(item, report)
                if seen is item:
                    continue
                if isinstance(seen, ValidationError):
                    if not field.lenient:
                        return seen.under(field.name)
                    report.add("absent", seen)
                    seen = field.fill()
                report.under(mark, field.name)
            if isinstance(seen, ValidationError):
                return seen
            if view is value:
                view = dict(value)
            if seen is _MISSING:
                del view[field.name]
            else:
                view[field.name] = seen
        for node in self.also:
            part = node.read(view, report)
            if isinstance(part, ValidationError):
                return part
            assert isinstance(part, dict)
            view = part
        return view

    def read_absent(self, field: _Field, value: "Mapping[str, object]", report: _Report) -> object:
        """Return what stands in for a field that is not there, or the problem when nothing does."""
        if not field.required:
            return field.fill()
        error = ValidationError("$", field.node.expected, "nothing").under(field.name)
        if field.alias is not None and field.alias in value:
            seen = field.node.read(value[field.alias], report)
            if not isinstance(seen, ValidationError):
                report.add("alias", error)
                return seen
        if not field.lenient:
            return error
        report.add("absent", error)
        return field.fill()

    def known(self, value: "Mapping[str, object]") -> frozenset[str]:
        return self.names.union(*(node.known(value) for node in self.also))

    def inside(self, value: "Mapping[str, object]") -> "Iterator[list[_Key]]":
        for field in self.fields:
            if field.name in value:
                for path in field.node.extra(value[field.name]):
                    yield [*path, field.name]
        for node in self.also:
            yield from node.inside(value)


class _Tagged(_Composite):
    def __init__(
        self, key: str, known: dict[str, _Composite], other: _Composite | None, bare: _Composite | None
    ) -> None:
        self.key, self.variants, self.other, self.bare = key, known, other, bare

    def variant(self, value: "Mapping[str, object]") -> _Composite | None:
        """Return the type that the tag selects. A known tag always binds: a broken variant is never read as another."""
        tag = value.get(self.key)
        if isinstance(tag, str):
            return self.variants.get(tag) or self.other or self.bare
        return self.bare

    def check(self, value: object) -> ValidationError | None:
        if not isinstance(value, dict):
            return _mismatch(self.expected, value)
        node = self.variant(value)
        if node is not None:
            error = node.check(value)
            if error is not None and self.bare is not None and node is not self.bare and error.rule == "schema":
                # The schema file would let this pass as the form without a tag.
                error.rule = "variant"
            return error
        tag = value.get(self.key, _MISSING)
        found = "nothing" if tag is _MISSING else _show(tag)
        return ValidationError("$", "one of " + ", ".join(self.variants), found).under(self.key)

    def read(self, value: object, report: _Report) -> object:
        if not isinstance(value, dict):
            return _mismatch(self.expected, value)
        node = self.variant(value)
        if node is not None:
            return node.read(value, report)
        if isinstance(value.get(self.key), str):
            return value
        found = _describe(value[self.key]) if self.key in value else "nothing"
        return ValidationError("$", "a string", found).under(self.key)

    def known(self, value: "Mapping[str, object]") -> frozenset[str]:
        node = self.variant(value)
        # Of a variant that this version does not know, nothing can be called custom.
        return frozenset(map(str, value)) if node is None or node is self.other else node.known(value) | {self.key}

    def inside(self, value: "Mapping[str, object]") -> "Iterator[list[_Key]]":
        node = self.variant(value)
        return iter(()) if node is None else node.inside(value)


class _Union(_Composite):
    def __init__(self, parts: list[_Node]) -> None:
        self.parts = parts
        self.objects = [part for part in parts if isinstance(part, _Composite)]
        self.expected = " or ".join(part.expected for part in parts)

    def check(self, value: object) -> ValidationError | None:
        errors = []
        for part in self.parts:
            error = part.check(value)
            if error is None:
                return None
            errors.append(error)
        # The closest alternative is one that fails by a rule of ours alone, else the one that fails deepest.
        best = max(errors, key=lambda error: (error.rule != "schema", len(error._keys)))
        return best if best._keys or best.rule != "schema" else _mismatch(self.expected, value)

    def read(self, value: object, report: _Report) -> object:
        mark, more = len(report.entries), report.more
        for part in self.parts:
            seen = part.read(value, report)
            if not isinstance(seen, ValidationError):
                return seen
            report.rewind(mark, more)
        return _mismatch(self.expected, value)

    def extra(self, value: object) -> "Iterator[list[_Key]]":
        return next((part for part in self.parts if part.check(value) is None), self.parts[0]).extra(value)

    def object_part(self, value: "Mapping[str, object]") -> _Composite:
        return next((part for part in self.objects if part.check(value) is None), self.objects[0])

    def known(self, value: "Mapping[str, object]") -> frozenset[str]:
        return self.object_part(value).known(value)

    def inside(self, value: "Mapping[str, object]") -> "Iterator[list[_Key]]":
        return self.object_part(value).inside(value)


class _Schema:
    """The tables of one protocol version, compiled type by type on first use."""

    def __init__(self, unstable: bool) -> None:
        from acp_core.schema import v1_table

        self.kinds = dict(v1_table.TYPES)
        rows = dict(v1_table.METHODS)
        self.three_state = v1_table.THREE_STATE
        self.aliases = v1_table.ALIASES
        if unstable:
            from acp_core.schema import v1_table_unstable

            self.kinds.update(v1_table_unstable.TYPES)
            rows.update(v1_table_unstable.METHODS)
        self.methods = {row[0]: row for row in rows.values()}
        self.methods.update(rows)
        self.nodes: dict[str, _Node] = {name: _Integer(*row) for name, row in _INTEGERS.items()}
        self.nodes.update(
            any=_Node(),
            null=_Leaf("null", type(None)),
            bool=_Leaf("true or false", bool),
            num=_Number(),
            str=_Leaf("a string", str),
            str1=_FilledStr(),
            path=_Path(),
            uri=_Uri(),
            line=_Integer(1, 2**32 - 1, "line"),
        )

    def node(self, name: str) -> _Node:
        """Return the compiled type `name`; KeyError when there is none."""
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {type(name).__name__}")
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = self.compile(self.kinds[name], name)
        return found

    def compile(self, kind: "_Kind", owner: str = "", flags: str = "") -> _Node:
        if isinstance(kind, str):
            return self.node(kind)
        form, rest = kind[0], kind[1:]
        if form == "=":
            return _Enum(rest)
        if form == "=*":
            return self.compile(_kind(rest[0]))
        parts = [] if form in ("o", "t") else [self.compile(_kind(part), "", flags) for part in rest]
        if form == "?":
            return _Nullable(parts[0])
        if form == "[":
            return _List(parts[0], "#" in flags)
        if form == "{":
            return _Map(parts[0])
        if form == "|":
            return _Union(parts)
        if form == "o":
            aliases = dict(self.aliases.get(owner, ()))
            fields = []
            for row in _rows(rest[0]):
                name, own = str(row[0]), str(row[1])
                default = (*row, _MISSING)[3]
                fields.append(_Field(name, own, self.compile(_kind(row[2]), "", own), default, aliases.get(name)))
            return _Object(fields, [self.part(part) for part in _rows(rest[1])])
        known = {str(tag): self.part(payload) for tag, payload in _rows(rest[1])}
        _, key, _, other, bare = kind
        return _Tagged(
            str(key), known, None if other is None else self.part(other), None if bare is None else self.part(bare)
        )

    def part(self, kind: object) -> _Composite:
        node = self.compile(_kind(kind))
        assert isinstance(node, _Composite)
        return node


def _kind(value: object) -> "_Kind":
    assert isinstance(value, (str, tuple))
    return value


def _rows(value: object) -> "tuple[tuple[object, ...], ...]":
    assert isinstance(value, tuple)
    return value


_schemas: dict[bool, _Schema] = {}


def _schema(unstable: bool) -> _Schema:
    found = _schemas.get(unstable)
    if found is None:
        # Two threads may both build it; either result is the same.
        found = _schemas[unstable] = _Schema(unstable)
    return found


def _method_node(key: str, column: int, unstable: bool) -> _Node | None:
    """Return the type of params (column 3) or result (column 4); None for an extension, which has none."""
    if not isinstance(key, str):
        raise TypeError(f"key must be a str, not {type(key).__name__}")
    schema = _schema(unstable)
    row = schema.methods.get(key)
    if row is None:
        if key.startswith("_"):
            return None
        raise UnknownMethodError(_clip(ascii(key[:TEXT_LIMIT]), TEXT_LIMIT))
    name = row[column]
    if name is None:
        raise UnknownMethodError(f"{row[0]} is a notification and has no result")
    return schema.node(name)


def validate(key: str, params: object, *, unstable: bool = False) -> None:
    """Check what is to be sent as the params of a method.

    `key` is the wire's name (``session/new``) or the key (``session_new``). Unknown keys in objects pass, since a proxy
    must keep them (spec rule 130); `custom_fields` finds them. Extension methods pass unchecked. `unstable` adds the
    draft features of the version.

    Raises ValidationError for the first problem, UnknownMethodError for a method that does not exist.
    Source: the official schema by method, spec rules 12, 13, 30 and 64 to 67.
    """
    node = _method_node(key, 3, unstable)
    error = None if node is None else node.check(params)
    if error is not None:
        raise error


def validate_result(key: str, result: object, *, unstable: bool = False) -> None:
    """Check what is to be sent as the result of a request. Arguments and errors are those of `validate`."""
    node = _method_node(key, 4, unstable)
    error = None if node is None else node.check(result)
    if error is not None:
        raise error


def validate_type(name: str, value: object, *, unstable: bool = False) -> None:
    """Check `value` against a type of the schema by its name (``ContentBlock``, ``Error``).

    Raises ValidationError, and KeyError for a name that the schema does not have.
    """
    error = _schema(unstable).node(name).check(value)
    if error is not None:
        raise error


def read(key: str, value: object, *, unstable: bool = False) -> "tuple[object, tuple[Skipped, ...]]":
    """Return (view, skipped): the params of a method as a lenient reader sees them.

    The view is `value` itself where nothing was left out, else a copy; `value` is never changed. Values out of range,
    enum values and variants that this version does not know stay what they are. Only where a value is absent or of the
    wrong JSON type, the schema's own flags apply: the field counts as absent (or as its default), the list item is left
    out, and `skipped` says so. Absent params (None) count as ``{}`` where nothing is required. The view is None when
    the value cannot be used: the last of `skipped` then says why. Fields that `three_state_fields` names keep the
    difference between absent and null. Never raises for what a peer sent; UnknownMethodError for an unknown method.
    `acp_core.schema.v1.read` is the same function with types.
    Source: spec rules 105, 120, 129.
    """
    return _read(_method_node(key, 3, unstable), value)


def read_result(key: str, value: object, *, unstable: bool = False) -> "tuple[object, tuple[Skipped, ...]]":
    """Return (view, skipped) for the result of a request; see `read`.

    ``null`` counts as ``{}`` where nothing is required, since examples of the official pages answer with it.
    """
    return _read(_method_node(key, 4, unstable), value)


def read_type(name: str, value: object, *, unstable: bool = False) -> "tuple[object, tuple[Skipped, ...]]":
    """Return (view, skipped) for a value of the type `name`; see `read`. KeyError for a name the schema lacks."""
    return _read(_schema(unstable).node(name), value)


def _read(node: _Node | None, value: object) -> "tuple[object, tuple[Skipped, ...]]":
    if node is None:
        return value, ()
    report = _Report()
    seen = node.read(value, report)
    if value is None and isinstance(seen, ValidationError):
        # An omitted object without required fields is an empty one.
        empty = node.read({}, _Report())
        if not isinstance(empty, ValidationError) and node.check({}) is None:
            report.add("absent", seen)
            return empty, report.result()
    if isinstance(seen, ValidationError):
        report.add("message", seen)
        entries = report.result()
        return None, entries
    return seen, report.result()


def custom_fields(key: str, params: object, *, unstable: bool = False) -> list[str]:
    """Return the path of every field in `params` that the method's types do not name, outermost first.

    The protocol forbids custom fields beside the specified ones; what an extension adds belongs into ``_meta``.
    Source: spec rule 123. Raises UnknownMethodError.
    """
    node = _method_node(key, 3, unstable)
    return [] if node is None else [_render("$", path) for path in node.extra(params)]


def three_state_fields(name: str) -> tuple[str, ...]:
    """Return the fields of type `name` where absent, null and a value differ: unchanged, cleared, set."""
    return _schema(True).three_state.get(name, ())


_COMMON_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    21: "SIGTTIN",
    22: "SIGTTOU",
    24: "SIGXCPU",
    25: "SIGXFSZ",
    26: "SIGVTALRM",
    27: "SIGPROF",
    28: "SIGWINCH",
}
LINUX_SIGNALS: "Mapping[int, str]" = {
    **_COMMON_SIGNALS,
    7: "SIGBUS",
    10: "SIGUSR1",
    12: "SIGUSR2",
    16: "SIGSTKFLT",
    17: "SIGCHLD",
    18: "SIGCONT",
    19: "SIGSTOP",
    20: "SIGTSTP",
    23: "SIGURG",
    29: "SIGIO",
    30: "SIGPWR",
    31: "SIGSYS",
}
BSD_SIGNALS: "Mapping[int, str]" = {
    **_COMMON_SIGNALS,
    7: "SIGEMT",
    10: "SIGBUS",
    12: "SIGSYS",
    16: "SIGURG",
    17: "SIGSTOP",
    18: "SIGTSTP",
    19: "SIGCONT",
    20: "SIGCHLD",
    23: "SIGIO",
    29: "SIGINFO",
    30: "SIGUSR1",
    31: "SIGUSR2",
}


def exit_status(returncode: int, signals: "Mapping[int, str]" = LINUX_SIGNALS) -> "TerminalExitStatus":
    """Return the exit status of a process for ``terminal/output`` and ``terminal/wait_for_exit``.

    `returncode` as `subprocess` reports it: zero and up is an exit code, negative the number of the signal that ended
    the process, which the wire cannot carry as a number (exit codes are u32) and gets as a name. `signals` gives the
    names, `BSD_SIGNALS` on macOS; a number without one becomes ``SIG<number>``.
    Raises ValueError for a code past u32, TypeError for what is no int. Source: v1/terminals.
    """
    if isinstance(returncode, bool) or not isinstance(returncode, int):
        raise TypeError(f"returncode must be an int, not {type(returncode).__name__}")
    if returncode < 0:
        return {"signal": signals.get(-returncode, f"SIG{-returncode}")}
    if returncode > _INTEGERS["u32"][1]:
        raise ValueError("an exit code is at most 4294967295")
    return {"exitCode": returncode}
