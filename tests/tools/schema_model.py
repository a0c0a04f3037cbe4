"""The official schema as small tuples: what `generate_schema` prints and what the validator of `acp_core` reads.

A type is one of

* a string: a primitive (``any null bool str str1 path uri num u16 u32 u64 i32 i64 line``) or, capitalised, a type;
* ``("?", T)`` null or T, ``("[", T)`` list, ``("{", T)`` object used as a map;
* ``("=", value, ...)`` closed enum, ``("=*", base, value, ...)`` open enum;
* ``("|", T, ...)`` the first alternative that fits;
* ``("o", fields, also)`` object: a field is ``(name, flags, T)`` or ``(name, flags, T, default)``, flags are ``r``
  required, ``~`` a bad value counts as absent, ``#`` bad items are dropped; each T of `also` holds for the same object;
* ``("t", key, ((value, T), ...), other, bare)`` object told apart by `key`: `other` for an unknown string (None:
  closed), `bare` when neither fits (None: refused).

Facts that the schema file does not carry (absolute paths, 1-based lines, three-state fields, defaults that live in the
reference decoder only) are the literals below.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeAlias

Type: TypeAlias = "str | tuple[object, ...]"

# JSON-RPC envelopes: they accept anything, so nothing may be validated with them.
ENVELOPES = frozenset(
    f"{who}{what}" for who in ("Agent", "Client", "Ext") for what in ("Request", "Response", "Notification")
)

# Rules 12, 64, 66, 67: file paths are absolute. `McpServerStdio.command` is left out: it may be a bare name.
ABSOLUTE = frozenset(
    {
        *(f"{kind}SessionRequest.cwd" for kind in ("New", "Load", "Resume", "Fork")),
        *(f"{kind}SessionRequest.additionalDirectories" for kind in ("New", "Load", "Resume", "Fork")),
        "ListSessionsRequest.cwd",
        "SessionInfo.cwd",
        "SessionInfo.additionalDirectories",
        "ReadTextFileRequest.path",
        "WriteTextFileRequest.path",
        "CreateTerminalRequest.cwd",
        "Diff.path",
        "ToolCallLocation.path",
    }
)
# Rule 12: line numbers of files start at 1. The positions of next edit suggestions are zero-based and not listed.
ONE_BASED = frozenset({"ReadTextFileRequest.line", "ToolCallLocation.line"})
# A missing or broken value stands for this; the reference decoder does it, the schema file does not say so.
DECODER_DEFAULTS = {"ToolCall.kind": "other", "ToolCall.status": "pending"}
# Fields where absent, null and a value are three different things.
THREE_STATE = {
    "SessionInfoUpdate": ("title", "updatedAt"),
    "CompactionUpdate": ("summary", "error", "_meta"),
}
# Keys that an example of the official pages uses for a field of another name.
ALIASES = {"CurrentModeUpdate": (("currentModeId", "modeId"),)}

INTEGERS = {"uint16": "u16", "uint32": "u32", "uint64": "u64", "int32": "i32", "int64": "i64"}


class Model:
    """All types and methods of one schema file."""

    def __init__(self, schema: dict[str, object], meta: dict[str, object]) -> None:
        defs = schema["$defs"]
        assert isinstance(defs, dict)
        self.types: dict[str, Type] = {}
        self.methods: dict[str, tuple[str, str, str, str, str | None]] = {}
        for name, node in defs.items():
            if name not in ENVELOPES:
                self.types[name] = annotate(name, parse(node))
        self._read_methods(defs, meta)

    def _read_methods(self, defs: dict[str, dict[str, object]], meta: dict[str, object]) -> None:
        """Fill `methods`: key -> (wire method, request|notification|both, handler, params type, result type)."""
        found: dict[object, dict[str, str]] = {}
        for name, node in defs.items():
            if "x-method" in node:
                role = next(r for r in ("Request", "Response", "Notification") if name.endswith(r))
                found.setdefault(node["x-method"], {})[role] = name
        for group, side in (("agentMethods", "agent"), ("clientMethods", "client"), ("protocolMethods", "both")):
            names = meta[group]
            assert isinstance(names, dict)
            for key, method in names.items():
                roles = found[method]
                kind = "both" if len(roles) == 3 else "request" if "Request" in roles else "notification"
                params = roles.get("Request") or roles["Notification"]
                handler = "both" if key in self.methods else side
                self.methods[key] = (method, kind, handler, params, roles.get("Response"))
        assert len(found) == len(self.methods)


def load(schema: Path, meta: Path) -> Model:
    """Read one pair of files."""
    return Model(json.loads(schema.read_text(encoding="utf-8")), json.loads(meta.read_text(encoding="utf-8")))


def parse(node: dict[str, object]) -> Type:
    """Translate one schema node."""
    alternatives = node.get("anyOf") or node.get("oneOf")
    if "$ref" in node:
        return str(node["$ref"]).rsplit("/", 1)[1]
    if "const" in node:
        return ("=", node["const"])
    if node.get("properties") or ("type" in node and node["type"] == "object" and alternatives):
        return parse_object(node)
    if isinstance(alternatives, list):
        return parse_alternatives(alternatives)
    if "allOf" in node:
        return parse(only(node["allOf"]))
    kind = node.get("type")
    if isinstance(kind, list):
        base = parse({**node, "type": only([k for k in kind if k != "null"])})
        return ("?", base)
    if kind == "array":
        return ("[", parse(as_dict(node["items"])))
    if kind == "object":
        extra = node.get("additionalProperties", True)
        return ("{", "any" if extra is True else parse(as_dict(extra)))
    if kind == "integer":
        return INTEGERS[str(node["format"])]
    if kind == "string":
        assert node.get("minLength", 1) == 1
        return "uri" if node.get("format") == "uri" else "str1" if "minLength" in node else "str"
    if kind is None:
        return "any"
    return {"boolean": "bool", "number": "num", "null": "null"}[str(kind)]


def parse_object(node: dict[str, object]) -> Type:
    required = as_list(node.get("required", []))
    fields: list[tuple[object, ...]] = []
    for name, sub in as_dict(node.get("properties", {})).items():
        sub = as_dict(sub)
        flags = "r" if name in required else ""
        flags += "~" if sub.get("x-deserialize-default-on-error") else ""
        flags += "#" if sub.get("x-deserialize-skip-invalid-items") else ""
        field: tuple[object, ...] = (name, flags, parse(sub))
        if "default" in sub:
            # An object's own fields bring their defaults along, so an empty tuple is enough for it.
            default = sub["default"]
            field = (*field, () if default in ({}, []) or isinstance(default, dict) else default)
        fields.append(field)
    also: list[Type] = [parse(as_dict(sub)) for sub in as_list(node.get("allOf", []))]
    alternatives = node.get("anyOf") or node.get("oneOf")
    if alternatives:
        also.append(parse_alternatives(as_list(alternatives)))
    return ("o", tuple(fields), tuple(also))


def parse_alternatives(nodes: list[object]) -> Type:
    subs = [as_dict(node) for node in nodes]
    rest = [sub for sub in subs if sub != {"type": "null"}]
    if len(rest) < len(subs) and len(rest) == 1:
        return ("?", parse(rest[0]))
    if len(subs) == 1:
        return parse(subs[0])
    consts = [sub["const"] for sub in subs if "const" in sub]
    if len(consts) == len(subs):
        return ("=", *consts)
    if consts and len(consts) == len(subs) - 1:
        return ("=*", parse(subs[-1]), *consts)
    key = tag_key(subs)
    return tagged(key, subs) if key else ("|", *map(parse, subs))


def tag_key(subs: list[dict[str, object]]) -> str | None:
    for sub in subs:
        for name, field in as_dict(sub.get("properties", {})).items():
            if "const" in as_dict(field):
                return name
    return None


def tagged(key: str, subs: list[dict[str, object]]) -> Type:
    known: list[tuple[object, Type]] = []
    other: Type | None = None
    bare: Type | None = None
    for sub in subs:
        properties = dict(as_dict(sub.get("properties", {})))
        tag = as_dict(properties.pop(key, {}))
        required = [name for name in as_list(sub.get("required", [])) if name != key]
        payload = parse_object({**sub, "properties": properties, "required": required})
        assert isinstance(payload, tuple)
        if payload[1] == () and isinstance(payload[2], tuple) and len(payload[2]) == 1:
            payload = payload[2][0]
        if "const" in tag:
            known.append((tag["const"], payload))
        elif "not" in sub:
            other = payload
        else:
            bare = payload
    return ("t", key, tuple(known), other, bare)


def annotate(name: str, kind: Type) -> Type:
    """Put the facts of this file's literals into the fields of type `name`."""
    if not (isinstance(kind, tuple) and kind[0] == "o"):
        return kind
    fields = []
    assert isinstance(kind[1], tuple)
    for field in kind[1]:
        where = f"{name}.{field[0]}"
        if where in ABSOLUTE:
            field = (*field[:2], swap(field[2], "str", "path"), *field[3:])
        if where in ONE_BASED:
            field = (*field[:2], swap(field[2], "u32", "line"), *field[3:])
        if where in DECODER_DEFAULTS:
            field = (*field[:3], DECODER_DEFAULTS[where])
        fields.append(field)
    return ("o", tuple(fields), kind[2])


def swap(kind: Type, old: str, new: str) -> Type:
    if isinstance(kind, tuple):
        assert isinstance(kind[1], (str, tuple))
        return (kind[0], swap(kind[1], old, new))
    assert kind == old
    return new


def only(items: object) -> dict[str, object]:
    (item,) = as_list(items)
    return item  # type: ignore[return-value]  # the caller passes a list with one schema, or one type name


def as_dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def as_list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
