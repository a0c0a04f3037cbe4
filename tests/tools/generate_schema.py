"""Write the typed layer of `acp_core.schema` from the schema files.

``python -m tests.tools.generate_schema [--check] [STABLE UNSTABLE META META_UNSTABLE]`` writes ``v1.py``,
``v1_types.py``, ``v1_unstable.py``,
``v1_unstable_types.py``, ``v1_table.py`` and ``v1_table_unstable.py``. Without paths the stripped copies under
``tests/spec/data`` are read. ``--check`` writes nothing and returns 1 when a file is not what the schema gives.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from tests.tools import schema_model
from tests.tools.schema_model import Model, Type

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "spec" / "data"
TARGET = ROOT / "acp_core" / "schema"
DEFAULT_FILES = [
    DATA / name for name in ("v1.schema.json", "v1.schema.unstable.json", "v1.meta.json", "v1.meta.unstable.json")
]

PYTHON = {
    "any": "object", "null": "None", "bool": "bool", "num": "float",
    "str": "str", "str1": "str", "path": "str", "uri": "str",
    "u16": "int", "u32": "int", "u64": "int", "i32": "int", "i64": "int", "line": "int",
}  # fmt: skip
# What a class of an untagged alternative is called after its union.
SUFFIX = {
    "ElicitationSessionScope": "Session",
    "ElicitationRequestScope": "Request",
    "SetSessionConfigOptionRequest": "Value",
}
# Variants without a tag that would otherwise be a supertype of a tagged one, so that a type checker drops the latter
# from the union: their class says that the tag is never there.
TAGLESS = {"AuthMethodAgent": "type"}
# Types that no method reaches but that stand on the wire.
EXTRA_ROOTS = ("Error",)
# Page of the protocol documentation that describes a method, by method key; "v1" and "v1d" are spec.md's shorthand.
PAGES = {
    "initialize": "v1/initialization",
    "authenticate": "v1/authentication",
    "logout": "v1/authentication",
    "session_new": "v1/session-setup",
    "session_load": "v1/session-setup",
    "session_resume": "v1/session-setup",
    "session_close": "v1/session-setup",
    "session_list": "v1/session-list",
    "session_delete": "v1/session-delete",
    "session_set_mode": "v1/session-modes",
    "session_set_config_option": "v1/session-config-options",
    "session_prompt": "v1/prompt-turn",
    "session_cancel": "v1/prompt-turn",
    "session_update": "v1/prompt-turn",
    "session_request_permission": "v1/tool-calls",
    "fs_read_text_file": "v1/file-system",
    "fs_write_text_file": "v1/file-system",
    "terminal_create": "v1/terminals",
    "terminal_output": "v1/terminals",
    "terminal_wait_for_exit": "v1/terminals",
    "terminal_kill": "v1/terminals",
    "terminal_release": "v1/terminals",
    "elicitation_create": "v1/elicitation",
    "elicitation_complete": "v1/elicitation",
    "cancel_request": "v1/cancellation",
    "session_fork": "rfd/session-fork",
    "providers_list": "rfd/custom-llm-endpoint",
    "providers_set": "rfd/custom-llm-endpoint",
    "providers_disable": "rfd/custom-llm-endpoint",
    "mcp_connect": "rfd/mcp-over-acp",
    "mcp_message": "rfd/mcp-over-acp",
    "mcp_disconnect": "rfd/mcp-over-acp",
}
NES_PAGE = "rfd/next-edit-suggestions"
COMMAND = "python -m tests.tools.generate_schema"
WIDTH = 120

Field: TypeAlias = "tuple[str, bool, Type]"
# A form of an object: suffix of its class name, fields, or else the name of the type that stands for it.
Shape: TypeAlias = "tuple[str, list[Field], str]"


def pascal(text: object) -> str:
    return "".join(part[:1].upper() + part[1:] for part in str(text).replace("-", "_").split("_"))


class Declarations:
    """The Python declarations of every reachable type of one model, in an order where each name is known before use."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.text: dict[str, str] = {}
        self.uses: dict[str, set[str]] = {}
        self._user = ""
        self.notes: dict[str, str] = {}
        for key, (method, _, _, params, result) in model.methods.items():
            self.notes[params] = f"Params of `{method}` ({PAGES.get(key, NES_PAGE)})."
            if result is not None:
                self.notes[result] = f"Result of `{method}` ({PAGES.get(key, NES_PAGE)})."
        roots = [name for _, _, _, params, result in model.methods.values() for name in (params, result) if name]
        for name in (*roots, *EXTRA_ROOTS):
            self.reference(name)

    def closure(self, name: str) -> set[str]:
        """Return `name` and every declaration it needs."""
        seen: set[str] = set()
        todo = [name]
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo.extend(self.uses[one])
        return seen

    # Expressions

    def expression(self, kind: Type) -> str:
        """Return the annotation of a field of type `kind`."""
        if isinstance(kind, str):
            return PYTHON[kind] if kind in PYTHON else self.reference(kind)
        form = kind[0]
        if form == "?":
            return f"{self.expression(sub(kind))} | None"
        if form == "[":
            item = self.expression(sub(kind))
            # A str is a sequence of str, so lists of strings stay lists; the rest accepts any covariant sequence.
            return f"list[{item}]" if item == "str" else f"Sequence[{item}]"
        if form == "{":
            return f"Mapping[str, {self.expression(sub(kind))}]"
        if form == "|":
            # None goes last, as a reader expects it.
            lists = [part for part in alternatives(kind) if part[0] == "["]
            if len(lists) == len(kind) - 1:
                # A literal list has no type of its own where several kinds of list are possible, so the items vary.
                return f"Sequence[{self.expression(('|', *(part[1] for part in lists)))}]"
            parts = [self.expression(part) for part in alternatives(kind)]
            return " | ".join(sorted(dict.fromkeys(parts), key=lambda part: part == "None"))
        raise AssertionError(kind)

    def reference(self, name: str) -> str:
        """Return how a type is written where it is used, and declare it first."""
        kind = self.model.types[name]
        if isinstance(kind, str):
            return self.expression(kind)
        if name not in self.uses:
            outer, self._user = self._user, name
            self.uses[name] = set()
            text = self.declare(name, kind)
            self.text[name] = text
            self._user = outer
        if self._user:
            self.uses[self._user].add(name)
        # A peer may send a value that this version does not know (rule 9 of the design), so a field is never closed.
        return f"{name} | str" if kind[0] == "=" else name

    # Declarations

    def declare(self, name: str, kind: tuple[object, ...]) -> str:
        form = kind[0]
        if form in ("=", "=*"):
            values = kind[1:] if form == "=" else kind[2:]
            literal = wrap(f"{name} = Literal[", [quote(value) for value in values], "]")
            return literal if form == "=" else f"{literal} | {self.expression(sub(kind))}"
        if form in ("|", "{"):
            return f"{name} = {self.expression(kind)}"
        shapes = list(self.shapes(name, kind))
        if len(shapes) == 1 and shapes[0][:1] == ("",):
            return self.declare_class(name, shapes[0][1], self.notes.get(name, f"Schema v1 `{name}`."))
        members = []
        for suffix, fields, other in shapes:
            if other:
                members.append(self.reference(other))
                continue
            member = name + suffix
            assert member not in self.text, member
            outer, self._user = self._user, member
            self.uses[member] = set()
            self.text[member] = self.declare_class(member, fields, self.note_of_variant(name, fields))
            self._user = outer
            self.uses[name].add(member)
            members.append(member)
        return union(name, members)

    def note_of_variant(self, name: str, fields: list[Field]) -> str:
        tags = [f"`{field}` `{kind[1]}`" for field, _, kind in fields if isinstance(kind, tuple) and kind[0] == "tag"]
        start = self.notes.get(name, f"Schema v1 `{name}`.").rstrip(".")
        return f"{start}: {', '.join(tags) or 'the form without a tag'}."

    def declare_class(self, name: str, fields: list[Field], note: str) -> str:
        lines = [f"class {name}(TypedDict):", f'    """{note}"""', ""]
        for field, required, kind in fields:
            tag = isinstance(kind, tuple) and kind[0] == "tag"
            annotation = f"Literal[{quote(kind[1])}]" if tag else self.expression(kind)
            lines.append(f"    {field}: {annotation if required else f'NotRequired[{annotation}]'}")
        if name in TAGLESS:
            lines.append(f"    {TAGLESS[name]}: NotRequired[Never]")
        return "\n".join(lines)

    def shapes(self, name: str, kind: Type) -> Iterator[Shape]:
        """Yield each form that an object takes."""
        if isinstance(kind, str):
            yield from self.shapes(kind, self.model.types[kind])
        elif kind[0] == "o":
            own = [(str(row[0]), "r" in str(row[1]), type_of(row[2])) for row in rows(kind[1])]
            for parts in itertools.product(*(list(self.shapes(name, type_of(part))) for part in rows(kind[2]))):
                fields = own + [field for part in parts for field in part[1]]
                meta = [field for field in fields if field[0] == "_meta"]
                fields = [field for field in fields if field[0] != "_meta"] + meta[:1]
                yield "".join(part[0] for part in parts), fields, ""
        elif kind[0] == "t":
            key, bare = str(kind[1]), kind[4]
            for value, payload in rows(kind[2]):
                for suffix, fields, _ in self.shapes(name, type_of(payload)):
                    yield pascal(value) + suffix, [(key, True, ("tag", value)), *fields], ""
            if isinstance(bare, str):
                yield "", [], bare
            elif bare is not None:
                for suffix, fields, _ in self.shapes(name, type_of(bare)):
                    yield SUFFIX[name] + suffix, fields, ""
        elif kind[0] == "|":
            for alternative in rows(kind[1:]):
                part = str(alternative)
                for suffix, fields, _ in self.shapes(part, part):
                    yield SUFFIX[part] + suffix, fields, ""
        else:
            raise AssertionError(kind)


def sub(kind: tuple[object, ...]) -> Type:
    return type_of(kind[1])


def alternatives(kind: tuple[object, ...]) -> list[Type]:
    return [type_of(part) for part in kind[1:]]


def type_of(value: object) -> Type:
    assert isinstance(value, (str, tuple))
    return value


def rows(value: object) -> tuple[Any, ...]:
    """Return the parts of a nested literal; what they are depends on the form, so the caller says it."""
    assert isinstance(value, tuple)
    return value


def quote(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def wrap(head: str, parts: list[str], tail: str, indent: str = "") -> str:
    """Join `parts` with commas, on one line where that fits, else one to a line."""
    line = f"{indent}{head}{', '.join(parts)}{tail}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([indent + head, *(f"{indent}    {part}," for part in parts), indent + tail])


def union(name: str, members: list[str]) -> str:
    line = f"{name} = {' | '.join(members)}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name} = (", f"    {members[0]}", *(f"    | {member}" for member in members[1:]), ")"])


def literal(value: object, start: str, indent: str = "    ") -> str:
    """Print nested tuples within the line width, after `start` and before a comma."""
    flat = f"{start}{flat_literal(value)},"
    if len(flat) <= WIDTH or not isinstance(value, tuple):
        return flat
    inner = indent + "    "
    return "\n".join([f"{start}(", *(literal(part, inner, inner) for part in value), f"{indent}),"])


def flat_literal(value: object) -> str:
    if isinstance(value, tuple):
        parts = ", ".join(map(flat_literal, value))
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    return quote(value)


# Files


def header(summary: str) -> str:
    return f'"""{summary}\n\nGenerated: change the generator, not this file (`{COMMAND}`).\n"""\n\n'


TYPES_NOTE = """\
A field of the wrong name or type is a type error; the values are checked by `acp_core.schema.validation`. A field that
holds an enum also admits any other string, and a union names the variants that this version knows: what a peer sends
may be newer, so end every `match` with a default."""

BUILDER_NOTE = """\
A builder per method: it returns a `Request` that knows the type of its result, or a `Notification`, and checks nothing.
`read` and `read_result` are those of `acp_core.schema.validation`, typed by method. The TypedDicts are re-exported."""


def builders(declared: Declarations, keys: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of one builder per method."""
    for key in keys:
        method, kind, side, params, result = declared.model.methods[key]
        handler = {"agent": "handled by the agent", "client": "handled by the client", "both": "either direction"}[side]
        page = PAGES.get(key, NES_PAGE)
        optional = all("r" not in str(f[1]) for f in rows(own_fields(declared.model.types[params])))
        signature = f"params: {params} | None = None" if optional else f"params: {params}"
        value = "{} if params is None else params" if optional else "params"
        for is_request in {"request": (True,), "notification": (False,), "both": (True, False)}[kind]:
            name = key if is_request or kind != "both" else f"{key}_notification"
            what = "Request" if is_request else "Notification"
            returns = f"Request[{result_type(declared, result)}]" if is_request else "Notification"
            yield (
                name,
                f"def {name}({signature}) -> {returns}:\n"
                f'    """{what} `{method}`, {handler} ({page})."""\n'
                f'    return {what}("{method}", "{key}", {value})\n',
            )


def own_fields(kind: Type) -> object:
    assert isinstance(kind, tuple) and kind[0] == "o"
    return kind[1]


def result_type(declared: Declarations, result: str | None) -> str:
    assert result is not None
    return declared.expression(result)


def readers(declared: Declarations) -> str:
    """Return the overloads that give `read` and `read_result` the type of their method."""
    lines = ["if TYPE_CHECKING:"]
    for function, column in (("read", 3), ("read_result", 4)):
        for key, row in declared.model.methods.items():
            kind = row[column]
            if kind is None:
                continue
            names = ", ".join(quote(name) for name in dict.fromkeys((key, row[0])))
            view = declared.expression(str(kind))
            returns = f"View[{view}]"
            line = f"    def {function}(key: Literal[{names}], value: object) -> {returns}: ..."
            lines.append("    @overload")
            lines += (
                [line]
                if len(line) <= WIDTH
                else [
                    f"    def {function}(",
                    f"        key: Literal[{names}], value: object",
                    f"    ) -> {returns}: ...",
                ]
            )
        lines += [
            f"    def {function}(key: str, value: object) -> tuple[object, tuple[Skipped, ...]]:",
            "        # For type checkers; what runs is the function below.",
            "        raise NotImplementedError",
            "",
        ]
    return "\n".join(lines)


def name_list(names: list[str]) -> str:
    lines = "".join(f'    "{name}",\n' for name in sorted(names, key=all_key))
    return f"__all__ = [\n{lines}]\n"


def import_list(source: str, names: list[str], indent: str = "") -> str:
    lines = "".join(f"{indent}    {name},\n" for name in sorted(names, key=isort_key))
    return f"{indent}from {source} import (\n{lines}{indent})\n"


def types_module(summary: str, declared: Declarations, reused: list[str], own: list[str]) -> str:
    """Return the module with the declarations of `own`; `reused` come from the stable one."""
    parts = [header(f"{summary}\n\n{TYPES_NOTE}")]
    parts.append("from collections.abc import Mapping, Sequence\n")
    never = "Never, " if any("[Never]" in declared.text[name] for name in own) else ""
    parts.append(f"from typing import Literal, {never}NotRequired, TypedDict\n\n")
    if reused:
        parts.append(import_list("acp_core.schema.v1_types", reused) + "\n")
    parts.append(name_list([*reused, *own]) + "\n")
    previous_class = False
    for name in own:
        text = declared.text[name]
        is_class = text.startswith("class ")
        parts.append(("\n\n" if is_class or previous_class else "") + text + "\n")
        previous_class = is_class
    return "".join(parts)


def builders_module(
    name: str, summary: str, declared: Declarations, keys: list[str], reused: list[str], unstable: bool
) -> str:
    """Return the module that users import: builders of `keys`, those of `reused` from the stable one, types on use."""
    types = f"acp_core.schema.{name}_types"
    functions = dict(builders(declared, keys))
    parts = [header(f"{summary}\n\n{BUILDER_NOTE}"), "from __future__ import annotations\n\n"]
    parts.append("from acp_core.schema import Notification, Request, validation\n")
    if reused:
        parts.append(import_list("acp_core.schema.v1", reused))
    parts.append("\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n")
    parts.append("    from typing import Literal, TypeAlias, TypeVar, overload\n\n")
    parts.append(import_list(types, list(declared.text), "    "))
    parts.append("    from acp_core.schema.validation import Skipped\n\n")
    parts.append('    ViewT = TypeVar("ViewT")\n    View: TypeAlias = tuple[ViewT | None, tuple[Skipped, ...]]\n\n')
    parts.append(name_list([*declared.text, *functions, *reused, "read", "read_result"]) + "\n\n")
    parts.append("\n\n".join(functions.values()))
    parts.append("\n\n" + readers(declared))
    parts.append(UNSTABLE_READERS if unstable else STABLE_READERS)
    parts.append(LAZY_TYPES.format(module=f"{name}_types"))
    return "".join(parts)


STABLE_READERS = """\
else:
    read = validation.read
    read_result = validation.read_result
"""
UNSTABLE_READERS = """\
else:

    def read(key, value):
        return validation.read(key, value, unstable=True)

    def read_result(key, value):
        return validation.read_result(key, value, unstable=True)
"""
LAZY_TYPES = """
    def __getattr__(name):
        # The classes need `typing`, which costs more than all the rest here, so they are made when somebody asks.
        if name not in __all__:
            raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
        from acp_core.schema import {module}

        globals().update((key, getattr({module}, key)) for key in {module}.__all__)
        return globals()[name]

    def __dir__():
        return __all__
"""


def isort_key(name: str) -> tuple[int, str]:
    """Order of imported names: constants, classes, functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name.lower())


def all_key(name: str) -> tuple[int, str]:
    """Order of `__all__`: the same groups, but capitals before small letters."""
    return (isort_key(name)[0], name)


def table(summary: str, types: dict[str, Type], methods: dict[str, object], with_facts: bool) -> str:
    parts = [header(summary), 'METHODS: "dict[str, tuple[str, str, str, str, str | None]]" = {\n']
    parts += [literal(row, f'    "{key}": ') + "\n" for key, row in methods.items()]
    parts.append('}\n\nTYPES: "dict[str, str | tuple[object, ...]]" = {\n')
    parts += [literal(kind, f'    "{name}": ') + "\n" for name, kind in types.items()]
    parts.append("}\n")
    if with_facts:
        parts.append('\nTHREE_STATE: "dict[str, tuple[str, ...]]" = {\n')
        parts += [literal(fact, f'    "{name}": ') + "\n" for name, fact in schema_model.THREE_STATE.items()]
        parts.append('}\n\nALIASES: "dict[str, tuple[tuple[str, str], ...]]" = {\n')
        parts += [literal(fact, f'    "{name}": ') + "\n" for name, fact in schema_model.ALIASES.items()]
        parts.append("}\n")
    return "".join(parts)


def generate(files: list[Path]) -> dict[str, str]:
    """Return file name -> text for every generated file."""
    stable, unstable = schema_model.load(files[0], files[2]), schema_model.load(files[1], files[3])
    one, two = Declarations(stable), Declarations(unstable)
    same = {name for name, text in two.text.items() if one.text.get(name) == text}
    reused = [name for name in two.text if two.closure(name) <= same]
    own = [name for name in two.text if name not in reused]
    one_builders, two_builders = dict(builders(one, list(stable.methods))), dict(builders(two, list(unstable.methods)))
    changed_types = set(own)
    keys = [
        key
        for key, row in unstable.methods.items()
        if stable.methods.get(key) != row or {row[3], row[4]} & changed_types or one_builders[key] != two_builders[key]
    ]
    reused_builders = [name for name in one_builders if name not in dict(builders(two, keys))]
    new_types = {name: kind for name, kind in unstable.types.items() if stable.types.get(name) != kind}
    new_methods: dict[str, object] = {
        key: row for key, row in unstable.methods.items() if stable.methods.get(key) != row
    }
    table_note = "The form of a row is described in `acp_core.schema.validation`."
    return {
        "v1_types.py": types_module("Types of protocol version 1, stable part.", one, [], list(one.text)),
        "v1_unstable_types.py": types_module("Types of protocol version 1 with its draft features.", two, reused, own),
        "v1.py": builders_module(
            "v1", "Messages of protocol version 1, stable part.", one, list(stable.methods), [], unstable=False
        ),
        "v1_unstable.py": builders_module(
            "v1_unstable",
            "Messages of protocol version 1 with its draft features; importing this module is the switch.",
            two,
            keys,
            reused_builders,
            unstable=True,
        ),
        "v1_table.py": table(
            f"Protocol version 1, stable part, as data. {table_note}", stable.types, dict(stable.methods), True
        ),
        "v1_table_unstable.py": table(
            f"What the draft features of version 1 add or change. {table_note}", new_types, new_methods, False
        ),
    }


def main(argv: list[str] | None = None) -> int:
    """Write the files, or compare them with ``--check``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=DEFAULT_FILES)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    if len(options.files) != 4:
        parser.error("four paths: stable schema, unstable schema, stable methods, unstable methods")
    stale = []
    for name, text in generate(options.files).items():
        path = TARGET / name
        if options.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"acp_core/schema/{name} is not fresh: run {COMMAND}", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
