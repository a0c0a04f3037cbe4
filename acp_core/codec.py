"""Lines to messages and back. Every JSON trap is handled here, and nowhere else.

Reading is lenient where that loses nothing and never raises: a line becomes a JSON-RPC object, or a Reject that says
what it is instead. Writing is strict: what JSON or UTF-8 cannot carry is a LocalProtocolError.
"""

from __future__ import annotations

import re
from json import decoder as json_decoder
from json import encoder as json_encoder
from json.decoder import JSONDecodeError, JSONDecoder
from json.encoder import JSONEncoder, encode_basestring_ascii

from .errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, LocalProtocolError, clip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    JsonObject: TypeAlias = dict[str, object]
    Parts: TypeAlias = Callable[[object, int], tuple[str, ...]]

NOISE = "noise"
MALFORMED = "malformed"

REQUEST = "request"
NOTIFICATION = "notification"
RESULT = "result"
ERROR = "error"
ERROR_WITHOUT_ID = "error_without_id"

_SPACE = " \t\r\n"
# Patterns of the slow paths: compiled (and kept by re) when one is first taken, since importing should cost little.
_NUMBER = r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"
_BLANKS = r"[ \t\r\n]*"


class Reject:
    """A line that is no message.

    ``kind`` is NOISE or MALFORMED, ``code`` the JSON-RPC error that names the fault. ``value`` is the object when the
    line could be read in spite of its fault, so that an answer in it can still be told from silence.
    """

    __slots__ = ("code", "kind", "reason", "rule", "value")

    @property
    def field(self) -> str:
        """The member that is at fault, or ``line`` for the whole of it."""
        kind, _, name = self.rule.partition(".")
        return name if kind == "jsonrpc" and name in ("id", "method", "params", "result", "error") else "line"

    def __init__(self, kind: str, rule: str, reason: str, code: int, value: JsonObject | None = None) -> None:
        self.kind = kind
        self.rule = rule
        self.reason = reason
        self.code = code
        self.value = value


class _TooDeep(Exception):
    pass


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def scanner(decoder: JSONDecoder) -> Callable[[str, int], tuple[object, int]]:
    """The scanner behind json.loads, without its Python wrapper: 0.4 of the cost of a call to json.loads a line.

    ``scan_once`` is no documented interface, so ``raw_decode`` stands in where an interpreter has none.
    """
    found: Callable[[str, int], tuple[object, int]] = getattr(decoder, "scan_once", decoder.raw_decode)
    return found


# What the scanner raises for a text that is no JSON.
FAULTS = (StopIteration, ValueError, RecursionError)
scan = scanner(JSONDecoder(parse_constant=_refuse_constant))
_scan_leniently = scanner(JSONDecoder())
_scan_string: Callable[[str, int, bool], tuple[str, int]] = getattr(json_decoder, "scanstring")  # noqa: B009 # typed so


def scanner_by_choice(
    loads: Callable[[str], object] | None,
) -> tuple[Callable[[str, int], tuple[object, int]], tuple[type[Exception], ...]]:
    """The scanner that reads with ``loads``, or the standard library's; and what it raises for no JSON."""
    if loads is None:
        return scan, FAULTS

    def scan_all(text: str, _: int) -> tuple[object, int]:
        return loads(text), len(text)

    # A codec by choice may raise anything.
    return scan_all, (Exception,)


def decode(line: str | bytes, max_depth: int) -> JsonObject | Reject:
    """The JSON-RPC object of a line, or what the line is instead. Linear; never raises for what stands in the line."""
    try:
        text = line.decode() if isinstance(line, bytes) else line
        value, end = scan(text, 0)
    except FAULTS as why:
        return diagnose(line, max_depth, why)
    return judge(value, end, text, line, max_depth)


def judge(value: object, end: int, text: str, line: str | bytes, max_depth: int) -> JsonObject | Reject:
    """What the first JSON value of a line, which ends at character ``end`` of its text, makes of the line."""
    if end != len(text):
        return diagnose(line, max_depth)
    if end > 2 * max_depth and is_deep(text, max_depth) and _deeper_than(value, max_depth):
        return _too_deep(max_depth)
    if value.__class__ is dict and value.get("jsonrpc") == "2.0":
        return value
    return _not_a_message(value)


def _too_deep(max_depth: int) -> Reject:
    return Reject(MALFORMED, "json.depth", f"nested deeper than {max_depth} levels", PARSE_ERROR)


def _not_a_message(value: object) -> JsonObject | Reject:
    if isinstance(value, dict):
        if value.get("jsonrpc") == "2.0":
            return value
        return Reject(NOISE, "jsonrpc.version", 'an object without "jsonrpc": "2.0"', INVALID_REQUEST, value)
    if isinstance(value, list):
        if value and isinstance(value[0], dict) and "jsonrpc" in value[0]:
            return Reject(MALFORMED, "jsonrpc.batch", "a batch: this protocol version has none", INVALID_REQUEST)
        return Reject(NOISE, "jsonrpc.object", "a JSON array", INVALID_REQUEST)
    name = "null" if value is None else type(value).__name__
    return Reject(NOISE, "jsonrpc.object", f"a JSON scalar ({name})", INVALID_REQUEST)


def diagnose(line: str | bytes, max_depth: int, why: Exception | None = None) -> JsonObject | Reject:
    """The slow path: find out what is wrong with a line that is not plain compact JSON, or read it after all. ``why``
    is what ``scan`` raised for its text, if it was asked."""
    fault: Reject | None = None
    if isinstance(line, str):
        text = line
    else:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            text = line.decode("utf-8", "surrogateescape")
            fault = Reject(MALFORMED, "utf8", f"invalid UTF-8 at byte {error.start}", PARSE_ERROR)
    whole = text
    text = text.removeprefix("\ufeff").strip(_SPACE)
    try:
        # A syntax error of the same text stays one for a scanner that takes more: the second look is 0.7 of json.loads.
        if fault is None and len(text) == len(whole) and isinstance(why, (JSONDecodeError, StopIteration)):
            raise _syntax_error(why)
        value, strange = _parse(text, max_depth)
    except _TooDeep:
        return _too_deep(max_depth)
    except ValueError as error:
        if text.startswith("{") and '"jsonrpc"' in text:
            return fault or Reject(MALFORMED, "json.syntax", f"broken JSON: {clip(str(error))}", PARSE_ERROR)
        if fault is not None and not text.startswith("{"):
            fault.kind = NOISE
        return fault or Reject(NOISE, "json.syntax", "text, not JSON", PARSE_ERROR)
    if strange and fault is None:
        rule, reason = strange
        fault = Reject(MALFORMED, rule, reason, PARSE_ERROR)
    found = _not_a_message(value)
    if fault is None or isinstance(found, Reject):
        return found
    # The fault is inside: what the object is can still be told.
    fault.value = found
    return fault


def _parse(text: str, max_depth: int) -> tuple[object, tuple[str, str] | None]:
    """The value of ``text``, and what in it cannot be used: the rule and the reason of the first such thing.

    Raises ValueError when it is no JSON, _TooDeep past the bound.
    """
    strange: list[tuple[str, str]] = []

    def constant(name: str) -> float:
        strange.append(("json.constant", f"{name} is no JSON"))
        return float(name.replace("Infinity", "inf").replace("NaN", "nan"))

    def integer(digits: str) -> int:
        try:
            return int(digits)
        except ValueError:
            # The interpreter's own bound on digits: it can be set, and quadratic cost is why it is there.
            strange.append(("json.number", f"an integer of {len(digits)} digits"))
            return 0

    try:
        value, end = scanner(JSONDecoder(parse_constant=constant, parse_int=integer))(text, 0)
        if end != len(text):
            raise ValueError(f"text after the end, at character {end}")
    except StopIteration as why:
        raise _syntax_error(why) from None
    except RecursionError:
        # Either too deep, or the caller's own stack is: counting here does not depend on it.
        return _parse_iteratively(text, max_depth), None
    if is_deep(text, max_depth) and _deeper_than(value, max_depth):
        raise _TooDeep
    return value, strange[0] if strange else None


def _syntax_error(why: JSONDecodeError | StopIteration) -> ValueError:
    """What a scanner raised, as the ValueError of json.loads."""
    return why if isinstance(why, ValueError) else ValueError(f"no value at character {why.value}")


def is_deep(text: str, max_depth: int) -> bool:
    """Whether JSON may nest deeper than ``max_depth``: it has more brackets than that. Cheap, and mostly the answer.

    A text of at most two characters a level cannot: callers who ask for every message look at its length first.
    """
    size = len(text)
    if size < 1024:
        # Objects take five characters a level, but for the innermost: with few lists in it, a line has to be long to be
        # deep. For a line of 500 characters that is one search less, 0.07 of json.loads.
        lists = text.count("[")
        return 3 * lists >= 5 * max_depth + 2 - size and lists + text.count("{") > max_depth
    # Brackets are rare in long lines, where find is quicker than count: 0.35 of json.loads on tool calls of 10 KiB.
    left = max_depth
    for mark in "{[":
        at = text.find(mark)
        while at >= 0:
            left -= 1
            if left < 0:
                return True
            at = text.find(mark, at + 1)
    return False


def _deeper_than(value: object, max_depth: int) -> bool:
    """Whether containers nest deeper than ``max_depth``; level by level, so that no stack is used."""
    level = [value] if isinstance(value, (dict, list)) else []
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            return True
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if item.__class__ is dict or item.__class__ is list
        ]
    return False


def _parse_iteratively(text: str, max_depth: int) -> object:
    """JSON without recursion, for input that the C scanner gives up on. Raises ValueError and _TooDeep."""
    stack: list[dict[str, object] | list[object]] = []
    keys: list[str] = []
    position = 0
    length = len(text)
    blanks = re.compile(_BLANKS)

    def skip(index: int) -> int:
        found = blanks.match(text, index)
        return found.end() if found else index

    def key_at(index: int) -> int:
        if text[index : index + 1] != '"':
            raise ValueError(f"no key at character {index}")
        name, index = _scan_string(text, index + 1, True)
        keys.append(name)
        index = skip(index)
        if text[index : index + 1] != ":":
            raise ValueError(f"no colon at character {index}")
        return skip(index + 1)

    while True:
        position = skip(position)
        mark = text[position : position + 1]
        value: object
        if mark == "{" or mark == "[":
            if len(stack) >= max_depth:
                raise _TooDeep
            opened: dict[str, object] | list[object] = {} if mark == "{" else []
            value = opened
            position = skip(position + 1)
            if text[position : position + 1] == ("}" if mark == "{" else "]"):
                position += 1
            else:
                stack.append(opened)
                if mark == "{":
                    position = key_at(position)
                continue
        elif mark == '"':
            value, position = _scan_string(text, position + 1, True)
        else:
            value, position = _scalar(text, position)
        while stack:
            top = stack[-1]
            if isinstance(top, dict):
                top[keys.pop()] = value
            else:
                top.append(value)
            position = skip(position)
            mark = text[position : position + 1]
            position += 1
            if mark == ",":
                if isinstance(top, dict):
                    position = key_at(skip(position))
                break
            if mark != ("}" if isinstance(top, dict) else "]"):
                raise ValueError(f"no comma or end at character {position - 1}")
            value = stack.pop()
        else:
            if skip(position) != length:
                raise ValueError(f"text after the end, at character {position}")
            return value


def _scalar(text: str, position: int) -> tuple[object, int]:
    for name, value in (("true", True), ("false", False), ("null", None)):
        if text.startswith(name, position):
            return value, position + len(name)
    found = re.compile(_NUMBER).match(text, position)
    if found is None:
        raise ValueError(f"no value at character {position}")
    digits = found.group()
    return (float(digits) if found.group(1) or found.group(2) else int(digits)), found.end()


# ── Envelopes ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Envelope:
    """A JSON-RPC object that keeps the rules: its ``kind``, and the members of that kind."""

    __slots__ = ("code", "error", "id", "kind", "message", "method", "params", "result")

    def __init__(
        self,
        kind: str,
        id: int | str | float | None,
        *,
        method: str = "",
        params: JsonObject | None = None,
        result: object = None,
        error: JsonObject | None = None,
        code: int = 0,
        message: str = "",
    ) -> None:
        self.kind = kind
        self.id = id
        self.method = method
        self.params = params if params is not None else {}
        self.result = result
        self.error = error if error is not None else {}
        self.code = code
        self.message = message


def is_request_id(value: object) -> bool:
    """Whether ``value`` may be the id of a request: an int that is no bool, or a str."""
    return value.__class__ is int or value.__class__ is str


def envelope(value: JsonObject, max_id_bytes: int) -> Envelope | Reject:
    """What kind of message an object is. A Reject names the first rule that it breaks."""

    def bad(rule: str, reason: str, code: int = INVALID_REQUEST) -> Reject:
        return Reject(MALFORMED, rule, reason, code, value)

    rpc_id = value.get("id")
    if not id_fits(rpc_id, max_id_bytes):
        return bad("jsonrpc.id", f"an id longer than {max_id_bytes} bytes")
    method = value.get("method")
    error = value.get("error")
    if "method" in value:
        if not isinstance(method, str):
            return bad("jsonrpc.method", f"the method is {_kind(method)}, not a string")
        if "result" in value or "error" in value:
            return bad("jsonrpc.kind", "a method beside a result or an error")
        if "id" in value and not is_request_id(rpc_id):
            return bad("jsonrpc.id", f"the id of a request is {_kind(rpc_id)}: {clip(rpc_id, 40)}")
        params = value.get("params")
        if params is not None and not isinstance(params, dict):
            return bad("jsonrpc.params", f"the params are {_kind(params)}, not an object", INVALID_PARAMS)
        if isinstance(rpc_id, (int, str)):
            return Envelope(REQUEST, rpc_id, method=method, params=params)
        return Envelope(NOTIFICATION, None, method=method, params=params)
    if "result" not in value and error is None:
        return bad("jsonrpc.kind", "neither a method nor a result nor an error")
    if error is not None and value.get("result") is not None:
        return bad("jsonrpc.kind", "a result beside an error")
    if not (is_request_id(rpc_id) or (isinstance(rpc_id, float) and rpc_id.is_integer())):
        if rpc_id is not None or error is None:
            return bad("jsonrpc.id", f"the id of a response is {_kind(rpc_id)}: {clip(rpc_id, 40)}")
    answered = rpc_id if isinstance(rpc_id, (int, str, float)) else None
    if error is None:
        return Envelope(RESULT, answered, result=value["result"])
    if not isinstance(error, dict):
        return bad("jsonrpc.error", f"the error is {_kind(error)}, not an object: {clip(error)}")
    code, message = error.get("code"), error.get("message")
    if not isinstance(code, int) or isinstance(code, bool) or not isinstance(message, str):
        return bad("jsonrpc.error", f"the error has no integer code and string message: {clip(error)}")
    kind = ERROR if answered is not None else ERROR_WITHOUT_ID
    return Envelope(kind, answered, error=error, code=code, message=message)


def id_fits(rpc_id: object, max_bytes: int) -> bool:
    """Whether an id takes at most ``max_bytes``: bytes of UTF-8, or digits where it is past 64 bits."""
    if isinstance(rpc_id, str):
        return len(rpc_id) * 4 <= max_bytes or len(rpc_id.encode("utf-8", "surrogatepass")) <= max_bytes
    return not isinstance(rpc_id, int) or abs(rpc_id) < 2**63 or len(str(rpc_id)) <= max_bytes


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "a bool", int: "an integer", float: "a fraction", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def loose_id(value: object) -> int | None:
    """The integer that an id stands for when it is written as ``7.0`` or ``"7"``, else None."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        return int(value)
    return None


def answered_id(reject: Reject, line: str | bytes) -> int | None:
    """The id of our own request that a faulty line answers without doubt, or None."""
    value = reject.value
    if reject.kind == NOISE:
        return None
    if value is None:
        if reject.rule != "json.depth":
            return None
        raw = line.encode("ascii") if isinstance(line, str) else line
        found, is_request = trusted_id(raw[:4096], raw[-256:])
        return found if isinstance(found, int) and not is_request else None
    if "method" in value:
        return None
    rpc_id = value.get("id")
    return rpc_id if isinstance(rpc_id, int) and not isinstance(rpc_id, bool) else loose_id(rpc_id)


_TAIL_ID = rb',[ \t]*"id"[ \t]*:[ \t]*(-?[0-9]{1,18}|"[^"\\\x00-\x1f]{0,200}")[ \t]*\}[ \t]*$'


def trusted_id(head: bytes, tail: bytes) -> tuple[int | str | None, bool]:
    """The top-level id of a line of which only both ends are kept, and whether the line is a request.

    An id is trusted when it stands before the first nested value, or when ``,"id":X}`` closes the line; None when
    neither holds, when both do and differ, or when the line is no JSON-RPC 2.0 object.
    """
    members, nested = _scalar_members(head)
    if not members and not nested:
        return None, False
    if members.get("jsonrpc", "2.0") != "2.0":
        return None, False
    is_request = "method" in members
    if not is_request and nested not in ("result", "error") and not members.keys() & {"result", "error"}:
        return None, False
    head_id = members.get("id")
    closing = re.search(_TAIL_ID, tail)
    tail_id = _scan_leniently(closing.group(1).decode("utf-8", "replace"), 0)[0] if closing else None
    found = head_id if is_request_id(head_id) else None
    if found is None:
        found = tail_id
    elif tail_id is not None and (tail_id != found or tail_id.__class__ is not found.__class__):
        return None, is_request
    return (found if isinstance(found, (int, str)) else None), is_request


def _scalar_members(head: bytes) -> tuple[JsonObject, str]:
    """The members before the first nested value, and the key of that value."""
    text = head.decode("utf-8", "ignore").removeprefix("\ufeff").lstrip(_SPACE)
    members: JsonObject = {}
    if not text.startswith("{"):
        return members, ""
    key = ""
    position = 1
    try:
        while True:
            position = _blank_end(text, position)
            if text[position] != '"':
                return members, ""
            key, position = _scan_string(text, position + 1, True)
            position = _blank_end(text, position)
            if text[position] != ":":
                return members, ""
            position = _blank_end(text, position + 1)
            if text[position] in "{[":
                return members, key
            if text[position] == '"':
                value: object
                value, position = _scan_string(text, position + 1, True)
            else:
                value, position = _scalar(text, position)
            position = _blank_end(text, position)
            mark = text[position]
            members[key] = value
            if mark != ",":
                return members, ""
            position += 1
    except (IndexError, ValueError):
        # The kept head ends here; a string that was cut is the value of ``key``, and its name is enough.
        return members, key


def _blank_end(text: str, position: int) -> int:
    found = re.compile(_BLANKS).match(text, position)
    return found.end() if found else position


# ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def encoder(make: Callable[..., Parts] | None) -> Parts:
    """What json.dumps does with compact separators, its C encoder made once: 0.5 of the cost of json.dumps a message.
    It takes a value and 0, the level of indentation, and gives the pieces of its JSON.

    ``c_make_encoder`` is no documented interface: where an interpreter has none, ``make`` is None and JSONEncoder
    stands in. Raises TypeError, ValueError and RecursionError.
    """
    # ASCII output: every line is valid UTF-8 whatever surrogates stand in it, and no reader can split it at U+2028.
    plain = JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    if make is None:
        return lambda value, _: (plain.encode(value),)
    # Without a table of what is open, a value that contains itself ends in a RecursionError.
    return make(None, plain.default, encode_basestring_ascii, None, ":", ",", False, False, False)


_parts = encoder(getattr(json_encoder, "c_make_encoder", None))


def encode(value: object, what: str, max_depth: int) -> str:
    """``value`` as compact ASCII JSON. ``what`` names it in the error.

    Raises:
        LocalProtocolError: JSON cannot carry it: NaN, a set, a cycle, bytes, or nesting past ``max_depth``.
    """
    try:
        text = "".join(_parts(value, 0))
    except (TypeError, ValueError, RecursionError) as why:
        reason = "it is nested too deeply or contains itself" if isinstance(why, RecursionError) else str(why)
        raise LocalProtocolError(
            f"{what} cannot be written as JSON: {clip(reason)}; use str, int, float, bool, None, list and dict only",
            rule="json.encode",
        ) from None
    # Two levels are left for the envelope around it.
    if len(text) > 2 * max_depth and is_deep(text, max_depth - 2) and _deeper_than(value, max_depth - 2):
        raise LocalProtocolError(
            f"{what} nests deeper than Limits.max_depth ({max_depth}) with the message around it; flatten it or raise "
            "the limit on both sides",
            rule="json.depth",
        )
    return text


def encode_str(value: str) -> str:
    """A str as ASCII JSON."""
    return encode_basestring_ascii(value)


def request_line(id: int, method: str, params: str) -> bytes:
    """The line of a request; ``params`` is JSON already."""
    return f'{{"jsonrpc":"2.0","id":{id},"method":{encode_basestring_ascii(method)},"params":{params}}}\n'.encode()


def notification_line(method: str, params: str) -> bytes:
    """The line of a notification; ``params`` is JSON already."""
    return f'{{"jsonrpc":"2.0","method":{encode_basestring_ascii(method)},"params":{params}}}\n'.encode()


def result_line(id: int | str, result: str) -> bytes:
    """The line of an answer; ``result`` is JSON already."""
    name = id if isinstance(id, int) else encode_basestring_ascii(id)
    return f'{{"jsonrpc":"2.0","id":{name},"result":{result}}}\n'.encode()


def error_line(id: int | str | None, code: int, message: str, data: str | None) -> bytes:
    """The line of an error; ``data`` is JSON already, or None for no data."""
    tail = "" if data is None else f',"data":{data}'
    name = "null" if id is None else id if isinstance(id, int) else encode_basestring_ascii(id)
    body = f'{{"code":{code},"message":{encode_basestring_ascii(message)}{tail}}}'
    return f'{{"jsonrpc":"2.0","id":{name},"error":{body}}}\n'.encode()
