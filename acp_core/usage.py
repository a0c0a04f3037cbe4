"""What a turn has used, and what kind of error a prompt met: read out of what agents really send.

Both are pure functions that never raise. Nothing in the core calls them, so an owner may use others in their place.
"""

from __future__ import annotations

import re

from .errors import AUTH_REQUIRED, REQUEST_CANCELLED, RequestError
from .events import get_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    JsonObject: TypeAlias = dict[str, object]

# ── Usage ───────────────────────────────────────────────────────────────────────────────────────────────────────────

# Each number of a Usage, and the names under which agents send it.
USAGE_NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("input_tokens", ("inputTokens", "input_tokens")),
    ("output_tokens", ("outputTokens", "output_tokens")),
    ("total_tokens", ("totalTokens", "total_tokens")),
    ("thought_tokens", ("thoughtTokens", "thought_tokens", "reasoningOutputTokens")),
    ("cached_read_tokens", ("cachedReadTokens", "cached_read_tokens", "cachedInputTokens")),
    ("cached_write_tokens", ("cachedWriteTokens", "cached_write_tokens", "cacheWriteInputTokens")),
)
# A number as text, up to a length that no count reaches.
_NUMBER = re.compile(r"\+?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][-+]?[0-9]+)?")
_NUMBER_LENGTH = 64


class Usage:
    """The tokens of one turn. A number that was not reported is None, which is not 0.

    ``source`` says where it stood: ``"usage"`` (the result's ``usage``), ``"quota"`` (``_meta.quota.token_count``) or
    ``"meta"`` (``_meta`` itself). ``raw`` is that object as it came. Whether the numbers are of the turn or of the
    whole session is up to the agent: the protocol leaves it open.
    """

    __slots__ = (
        "cached_read_tokens",
        "cached_write_tokens",
        "input_tokens",
        "output_tokens",
        "raw",
        "source",
        "thought_tokens",
        "total_tokens",
    )

    input_tokens: int | float | None
    output_tokens: int | float | None
    total_tokens: int | float | None
    thought_tokens: int | float | None
    cached_read_tokens: int | float | None
    cached_write_tokens: int | float | None

    def __init__(self, source: str, raw: JsonObject) -> None:
        self.source = source
        self.raw = raw
        for name, spellings in USAGE_NAMES:
            setattr(self, name, _first_count(raw, spellings))

    @property
    def reported(self) -> bool:
        """At least one number was reported."""
        return any(getattr(self, name) is not None for name, _ in USAGE_NAMES)

    def to_json(self) -> JsonObject:
        """The source and the reported numbers, as JSON."""
        found: JsonObject = {"source": self.source}
        for name, (spelling, *_) in USAGE_NAMES:
            value = getattr(self, name)
            if value is not None:
                found[spelling] = value
        return found

    def __repr__(self) -> str:
        shown = "".join(f", {name}={value!r}" for name, _ in USAGE_NAMES if (value := getattr(self, name)) is not None)
        return f"Usage(source={self.source!r}{shown})"


def turn_usage(result: object) -> Usage | None:
    """What a prompt's result says of the tokens it used; None when it says nothing (client rule N3).

    ``result`` is ``TurnEnded.result``. Three places are looked at, the first with a number in it counts. Integers,
    floats and numeric strings from 0 up are numbers; anything else is not reported.
    """
    if not isinstance(result, dict):
        return None
    meta = get_object(result, "_meta")
    for source, raw in (
        ("usage", get_object(result, "usage")),
        ("quota", get_object(get_object(meta, "quota"), "token_count")),
        ("meta", meta),
    ):
        usage = Usage(source, raw)
        if usage.reported:
            return usage
    return None


def _first_count(raw: JsonObject, names: tuple[str, ...]) -> int | float | None:
    for name in names:
        value = _count(raw.get(name))
        if value is not None:
            return value
    return None


def _count(value: object) -> int | float | None:
    if isinstance(value, str):
        text = value.strip(" \t\r\n")
        found = _NUMBER.fullmatch(text) if len(text) <= _NUMBER_LENGTH else None
        if found is None:
            return None
        value = float(text) if any(found.groups()) else int(text)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Also false for NaN.
    return value if 0 <= value < float("inf") else None


# ── Errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────

CANCELLED = "cancelled"
ACCOUNT = "account"
LOGIN = "auth_required"
MODEL_GONE = "model_gone"
RATE_LIMITED = "rate_limited"
GENERIC = "generic"
# What classify_error can say, and what each means.
ERROR_KINDS: dict[str, str] = {
    CANCELLED: "the request was cancelled",
    ACCOUNT: "this account or organisation may not: another login of the same one changes nothing",
    LOGIN: "log in, then ask again",
    MODEL_GONE: "the model is gone, or is not there for this account: choose another one",
    RATE_LIMITED: "too much for now: wait, then ask again",
    GENERIC: "anything else",
}

# Words by which agents and their providers name an error, written without "_" and in lower case: they stand in the
# error's body as a word of their own, in snake_case or in camelCase.
ERROR_WORDS: dict[str, frozenset[str]] = {
    ACCOUNT: frozenset(
        {
            "oauthorgnotallowed",
            "accountonhold",
            "permissionerror",
            "permissiondenied",
            "billingerror",
            "insufficientquota",
        }
    ),
    LOGIN: frozenset({"authenticationfailed", "authenticationerror", "unauthenticated", "invalidapikey"}),
    MODEL_GONE: frozenset({"modelnotfound", "modelnotfounderror", "providermodelnotfounderror"}),
    RATE_LIMITED: frozenset(
        {
            "ratelimit",
            "ratelimited",
            "ratelimiterror",
            "ratelimitexceeded",
            "resourceexhausted",
            "usagelimitexceeded",
            "usagelimitreached",
        }
    ),
}
# Phrases in the text of an error, in lower case.
ERROR_PHRASES: dict[str, tuple[str, ...]] = {
    ACCOUNT: (
        "organization has been disabled",
        "organization has disabled",
        "not allowed for this organization",
        "account has been disabled",
        "account has been suspended",
        "credit balance is too low",
    ),
    LOGIN: (
        "invalid api key",
        "api key not valid",
        "please run /login",
        "oauth token has expired",
        "token has been revoked",
    ),
    MODEL_GONE: (
        "not found",
        "not_found",
        "does not exist",
        "may not exist",
        "no longer available",
        "is not available",
        "model is not supported",
        "has been retired",
        "has been deprecated",
        "decommissioned",
        "unknown model",
    ),
    RATE_LIMITED: ("rate limit", "too many requests", "usage limit", "hit your limit"),
}
# Some agents use the status of their provider's answer as the code of the error.
HTTP_KINDS = {401: LOGIN, 402: ACCOUNT, 403: ACCOUNT, 429: RATE_LIMITED}
# Most telling first: a body often names several, such as a permission error about a model.
_BY_WORD = (ACCOUNT, MODEL_GONE, LOGIN, RATE_LIMITED)
_WORD = re.compile(r"[a-z0-9_]+")
_MODEL = frozenset({"model", "models"})
# How much of an error's body is read: characters, and values.
_BODY_LENGTH = 65536
_BODY_VALUES = 1024


def classify_error(error: Exception, method_key: str = "session_prompt") -> str:
    """What kind of error answered a request: one of ``ERROR_KINDS`` (client rule C11).

    ``error`` is that of ``TurnFailed`` or ``RequestSettled``; ``method_key`` is the key of the method that was called.
    The codes for "log in" and "cancelled" count for every method. All else is read out of the error's text, which is
    all that agents give, and so it counts for a prompt only: the same text from another call is ``"generic"``.
    """
    if not isinstance(error, RequestError):
        return GENERIC
    if error.code == REQUEST_CANCELLED:
        return CANCELLED
    found = _read_body(error) if method_key == "session_prompt" else GENERIC
    if error.code == AUTH_REQUIRED and found != ACCOUNT:
        return LOGIN
    return found


def _read_body(error: RequestError) -> str:
    texts = list(_texts(error.message, error.data))
    words = {word.replace("_", "") for text in texts for word in _WORD.findall(text)}
    for kind in _BY_WORD:
        if not words.isdisjoint(ERROR_WORDS[kind]):
            return kind
    for kind in _BY_WORD:
        for text in texts:
            if any(phrase in text for phrase in ERROR_PHRASES[kind]):
                # Much is "not found": it is a model only where the same text says so.
                if kind != MODEL_GONE or not _MODEL.isdisjoint(_WORD.findall(text)):
                    return kind
    return HTTP_KINDS.get(error.code, GENERIC)


def _texts(*values: object) -> Iterator[str]:
    """Every text inside an error, names included, in lower case and in order, up to a bound."""
    stack = [*reversed(values)]
    room = _BODY_LENGTH
    for _ in range(_BODY_VALUES):
        if not stack or room <= 0:
            return
        value = stack.pop()
        if isinstance(value, str):
            yield value[:room].lower()
            room -= len(value)
        elif isinstance(value, dict):
            for name, inner in reversed([*value.items()][:_BODY_VALUES]):
                stack += (inner, name)
        elif isinstance(value, list):
            stack += reversed(value[:_BODY_VALUES])
