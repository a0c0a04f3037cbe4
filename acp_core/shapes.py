"""What the objects of protocol version 1 look like, as data, for what intents take as dicts and send.

The tool call of a permission request is not checked by it, for its cost, nor what the protocol has drafts of only: the
whole schema is that of ``acp_core.schema``, which a connection does not load.

A shape is: the name of a leaf in ``LEAVES``; a frozenset, one of whose words it is; a dict, an object with these
members, where ``name?`` may be absent and ``name~`` absent or null; a list with one shape, that of each item; a tuple
of shapes, one of which has to fit; ``Tagged``, an object told apart by one of its members; ``Mapped``, an object whose
values all have one shape. Members that a shape does not name are free; ``_meta`` is an object everywhere.
"""

from __future__ import annotations

from .errors import clip, is_absolute, local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final, TypeAlias

    Shape: TypeAlias = "str | frozenset[str] | dict[str, Shape] | list[Shape] | tuple[Shape, ...] | Tagged | Mapped"


class Tagged:
    """An object whose member ``key`` says which of ``variants`` it is. ``other`` is that of any other word, ``bare``
    that of no word, and of any other where ``other`` is None."""

    __slots__ = ("bare", "key", "other", "variants")

    def __init__(
        self, key: str, variants: dict[str, Shape], other: Shape | None = None, bare: Shape | None = None
    ) -> None:
        self.key = key
        self.variants = variants
        self.other = other if other is not None else bare
        self.bare = bare


class Mapped:
    """An object whose values all have one shape."""

    __slots__ = ("item",)

    def __init__(self, item: Shape) -> None:
        self.item = item


def _integer(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_number(value: object) -> bool:
    # What is infinite or no number, and an integer that no double holds, fails the comparison.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -_DOUBLE <= value <= _DOUBLE


_DOUBLE = 1.7976931348623157e308
STR: Final = "a str"
BOOL: Final = "a bool"
OBJECT: Final = "a dict"
PATH: Final = "an absolute path"
NUMBER: Final = "a finite number"
LINE: Final = "a line, counted from 1"
U16: Final = "an int from 0 to 65535"
U32: Final = "an int from 0 to 2**32 - 1"
U64: Final = "an int from 0 to 2**64 - 1"
I64: Final = "an int of 64 bits"
INT: Final = "an int"
COUNT: Final = "an int from 0 to 2**53 - 1"
LEAVES: dict[str, Callable[[object], bool]] = {
    STR: lambda value: isinstance(value, str),
    BOOL: lambda value: isinstance(value, bool),
    OBJECT: lambda value: isinstance(value, dict),
    PATH: lambda value: isinstance(value, str) and is_absolute(value),
    NUMBER: _is_number,
    LINE: _integer(1, 2**32 - 1),
    U16: _integer(0, 2**16 - 1),
    U32: _integer(0, 2**32 - 1),
    U64: _integer(0, 2**64 - 1),
    I64: _integer(-(2**63), 2**63 - 1),
    INT: lambda value: isinstance(value, int) and not isinstance(value, bool),
    COUNT: _integer(0, 2**53 - 1),
}


def check_shape(shape: Shape | None, value: object, what: str) -> None:
    """Refuse a value of another shape; None is any. ``what`` names it in the error.

    Raises:
        LocalProtocolError: it has another shape; the message names the member at fault, and what would fit.
    """
    if shape is None:
        return
    problem = misfit(shape, value, "")
    if problem:
        local("message.shape", f"{what} cannot be sent: {problem}")


def misfit(shape: Shape, value: object, path: str) -> str:
    """What is wrong with a value, as one clause; "" when nothing is."""
    if isinstance(shape, str):
        return "" if LEAVES[shape](value) else _is(path, value, shape)
    if isinstance(shape, frozenset):
        words = ", ".join(sorted(shape))
        return "" if isinstance(value, str) and value in shape else _is(path, value, f"one of {words}")
    if isinstance(shape, tuple):
        problems = [misfit(one, value, path) for one in shape]
        # The last alternative's is told: it is the longest form.
        return problems[-1] if all(problems) else ""
    if isinstance(shape, list):
        # The encoder takes both.
        if not isinstance(value, (list, tuple)):
            return _is(path, value, "a list")
        return _first(misfit(shape[0], item, f"{path}[{index}]") for index, item in enumerate(value))
    if not isinstance(value, dict):
        return _is(path, value, OBJECT)
    if isinstance(shape, Mapped):
        return _first(misfit(shape.item, item, _under(path, str(name))) for name, item in value.items())
    if isinstance(shape, Tagged):
        tag = value.get(shape.key)
        variant = shape.variants.get(tag, shape.other) if isinstance(tag, str) else shape.bare
        if variant is None:
            words = ", ".join(shape.variants)
            return _member(value, shape.key, path, f"one of {words}")
        return misfit(variant, value, path)
    return _members(shape, value, path)


def _members(shape: dict[str, Shape], value: dict[object, object], path: str) -> str:
    for name, kind in shape.items():
        need = name[-1]
        if need in "?~":
            name = name[:-1]
            if name not in value or (need == "~" and value[name] is None):
                continue
        elif name not in value:
            return f"{_under(path, name)} is missing; give {_words(kind)}"
        problem = misfit(kind, value[name], _under(path, name))
        if problem:
            return problem
    meta = value.get("_meta")
    return "" if meta is None or isinstance(meta, dict) else _is(_under(path, "_meta"), meta, OBJECT)


def _member(value: dict[object, object], name: str, path: str, want: str) -> str:
    where = _under(path, name)
    return _is(where, value[name], want) if name in value else f"{where} is missing; give {want}"


def _under(path: str, name: str) -> str:
    return f"{path}.{clip(name)[1:-1]}" if path else name


def _is(path: str, value: object, want: str) -> str:
    # Texts may be secrets, as the headers of a server are; words and paths are none.
    told = isinstance(value, str) and (want == PATH or want.startswith("one of"))
    hidden = isinstance(value, (str, bytes, dict, list, tuple)) and not told
    return f"{path or 'it'} is {f'a {type(value).__name__}' if hidden else clip(value)}; give {want}"


def _words(shape: Shape) -> str:
    if isinstance(shape, str):
        return shape
    if isinstance(shape, frozenset):
        return f"one of {', '.join(sorted(shape))}"
    return "a list" if isinstance(shape, list) or (isinstance(shape, tuple) and isinstance(shape[0], list)) else OBJECT


def _first(problems: Iterable[str]) -> str:
    return next(filter(None, problems), "")


# ── The objects ─────────────────────────────────────────────────────────────────────────────────────────────────────

NOTHING: dict[str, Shape] = {}

# The handshake.
INFO: Shape = {"name": STR, "title~": STR, "version": STR}
CLIENT_CAPABILITIES: Shape = {
    "fs?": {"readTextFile?": BOOL, "writeTextFile?": BOOL},
    "terminal?": BOOL,
    "session~": {"configOptions~": {"boolean~": NOTHING}},
    "auth?": {"terminal?": BOOL},
    "elicitation~": {"form~": NOTHING, "url~": NOTHING},
}
AGENT_CAPABILITIES: Shape = {
    "loadSession?": BOOL,
    "promptCapabilities?": {"image?": BOOL, "audio?": BOOL, "embeddedContext?": BOOL},
    "mcpCapabilities?": {"http?": BOOL, "sse?": BOOL},
    "sessionCapabilities?": {
        "list~": NOTHING,
        "delete~": NOTHING,
        "additionalDirectories~": NOTHING,
        "resume~": NOTHING,
        "close~": NOTHING,
    },
    "auth?": {"logout~": NOTHING},
}
_LOGIN: dict[str, Shape] = {"id": STR, "name": STR, "description~": STR}
AUTH_METHOD = Tagged("type", {"terminal": {**_LOGIN, "args?": [STR], "env?": Mapped(STR)}}, bare=_LOGIN)

# Sessions.
PAIR: Shape = {"name": STR, "value": STR}
_BY_URL: Shape = {"name": STR, "url": STR, "headers": [PAIR]}
MCP_STDIO: Shape = {"name": STR, "command": STR, "args": [STR], "env": [PAIR]}
MCP_BY_TYPE: dict[str, Shape] = {"http": _BY_URL, "sse": _BY_URL}
SETUP: dict[str, Shape] = {
    "cwd": PATH,
    "additionalDirectories?": [PATH],
    "mcpServers": [Tagged("type", MCP_BY_TYPE, bare=MCP_STDIO)],
}
MODES: Shape = {"currentModeId": STR, "availableModes": [{"id": STR, "name": STR, "description~": STR}]}
_OPTION: dict[str, Shape] = {"id": STR, "name": STR, "description~": STR, "category~": STR}
_CHOICES: list[Shape] = [{"value": STR, "name": STR, "description~": STR}]
CONFIG_OPTION = Tagged(
    "type",
    {
        "select": {
            **_OPTION,
            "currentValue": STR,
            "options": ([{"group": STR, "name": STR, "options": _CHOICES}], _CHOICES),
        },
        "boolean": {**_OPTION, "currentValue": BOOL},
    },
)
OPENED: dict[str, Shape] = {"modes~": MODES, "configOptions~": [CONFIG_OPTION]}
SESSION_INFO: Shape = {
    "sessionId": STR,
    "cwd": PATH,
    "additionalDirectories?": [PATH],
    "title~": STR,
    "updatedAt~": STR,
}

# Prompts.
_ANNOTATED: dict[str, Shape] = {
    "annotations~": {
        "audience~": [frozenset({"assistant", "user"})],
        "lastModified~": STR,
        "priority~": NUMBER,
    }
}
_RESOURCE: dict[str, Shape] = {"uri": STR, "mimeType~": STR}
CONTENT = Tagged(
    "type",
    {
        "text": {**_ANNOTATED, "text": STR},
        "image": {**_ANNOTATED, "data": STR, "mimeType": STR, "uri~": STR},
        "audio": {**_ANNOTATED, "data": STR, "mimeType": STR},
        "resource_link": {
            **_ANNOTATED,
            **_RESOURCE,
            "name": STR,
            "title~": STR,
            "description~": STR,
            "size~": I64,
        },
        "resource": {**_ANNOTATED, "resource": ({**_RESOURCE, "blob": STR}, {**_RESOURCE, "text": STR})},
    },
)

# What an agent asks of a client.
PERMISSION_RESULT: Shape = {"outcome": Tagged("outcome", {"cancelled": NOTHING, "selected": {"optionId": STR}})}
EXIT_STATUS: Shape = {"exitCode~": U32, "signal~": STR}
TERMINAL: Shape = {"terminalId": STR}
_TEXTS: list[Shape] = [STR]
_TITLED: dict[str, Shape] = {"title~": STR, "description~": STR}
_CHOSEN: list[Shape] = [{"const": STR, "title": STR, "description~": STR}]
FIELD = Tagged(
    "type",
    {
        "string": {
            **_TITLED,
            "minLength~": U32,
            "maxLength~": U32,
            "pattern~": STR,
            "format~": frozenset({"email", "uri", "date", "date-time"}),
            "default~": STR,
            "enum~": _TEXTS,
            "oneOf~": _CHOSEN,
        },
        "number": {**_TITLED, "minimum~": NUMBER, "maximum~": NUMBER, "default~": NUMBER},
        "integer": {**_TITLED, "minimum~": I64, "maximum~": I64, "default~": I64},
        "boolean": {**_TITLED, "default~": BOOL},
        "array": {
            **_TITLED,
            "minItems~": U64,
            "maxItems~": U64,
            "items": Tagged("type", {"string": {"enum": _TEXTS}}, NOTHING, {"anyOf": _CHOSEN}),
            "default~": _TEXTS,
        },
    },
    NOTHING,
)
FORM: Shape = {**_TITLED, "type?": frozenset({"object"}), "properties?": Mapped(FIELD), "required~": _TEXTS}
_ASKED: dict[str, Shape] = {"message": STR, "requestId~": (I64, STR), "toolCallId~": STR}
ELICITATION = Tagged(
    "mode",
    {
        "form": {**_ASKED, "requestedSchema": FORM},
        "url": {**_ASKED, "elicitationId": STR, "url": STR},
    },
    _ASKED,
)
ELICITATION_RESULT = Tagged("action", {"accept": {"content~": Mapped((NUMBER, BOOL, _TEXTS, STR))}}, NOTHING)

# Updates of a session.
_CHUNK: Shape = {"content": CONTENT, "messageId~": STR}
_KIND = frozenset(
    {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"},
)
_STATUS = frozenset({"pending", "in_progress", "completed", "failed"})
_PARTS: list[Shape] = [
    Tagged(
        "type",
        {
            "content": {"content": CONTENT},
            "diff": {"path": PATH, "oldText~": STR, "newText": STR},
            "terminal": TERMINAL,
        },
    )
]
_PLACES: list[Shape] = [{"path": PATH, "line~": LINE}]
UPDATES = Tagged(
    "sessionUpdate",
    {
        "user_message_chunk": _CHUNK,
        "agent_message_chunk": _CHUNK,
        "agent_thought_chunk": _CHUNK,
        "tool_call": {
            "toolCallId": STR,
            "title": STR,
            "kind?": _KIND,
            "status?": _STATUS,
            "content?": _PARTS,
            "locations?": _PLACES,
        },
        "tool_call_update": {
            "toolCallId": STR,
            "title~": STR,
            "kind~": _KIND,
            "status~": _STATUS,
            "content~": _PARTS,
            "locations~": _PLACES,
        },
        "plan": {
            "entries": [
                {
                    "content": STR,
                    "priority": frozenset({"high", "medium", "low"}),
                    "status": frozenset({"pending", "in_progress", "completed"}),
                }
            ]
        },
        "available_commands_update": {
            "availableCommands": [{"name": STR, "description": STR, "input~": {"hint": STR}}],
        },
        "current_mode_update": {"currentModeId": STR},
        "config_option_update": {"configOptions": [CONFIG_OPTION]},
        "session_info_update": {"title~": STR, "updatedAt~": STR},
        "usage_update": {"used": U64, "size": U64, "cost~": {"amount": NUMBER, "currency": STR}},
    },
    NOTHING,
)
