"""What a turn used (peer.md N3), and what kind of error a prompt met (C11)."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_core import ConnectionClosed, RemoteProtocolError, RequestError, RequestTimeout, TurnEnded, TurnFailed
from acp_core.usage import ERROR_KINDS, USAGE_NAMES, Usage, classify_error, turn_usage
from tests.core.helpers import error, one, prompting_client, result
from tests.corpus.recordings import recordings
from tests.corpus.replay import compile_script, play

QUIET = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))

# ── Usage ───────────────────────────────────────────────────────────────────────────────────────────────────────────

FULL = {
    "inputTokens": 10,
    "outputTokens": 5,
    "totalTokens": 15,
    "thoughtTokens": 1,
    "cachedReadTokens": 2,
    "cachedWriteTokens": 3,
}


def numbers(usage: Usage | None) -> tuple[object, ...] | None:
    return None if usage is None else (usage.source, usage.input_tokens, usage.output_tokens)


@pytest.mark.parametrize(
    ("result", "want"),
    [
        ({"usage": {"inputTokens": 10, "outputTokens": 5}}, ("usage", 10, 5)),
        ({"_meta": {"quota": {"token_count": {"input_tokens": 10, "output_tokens": 5}}}}, ("quota", 10, 5)),
        ({"_meta": {"quota": {"token_count": {"inputTokens": 10, "outputTokens": 5}}}}, ("quota", 10, 5)),
        ({"_meta": {"inputTokens": 10, "outputTokens": 5}}, ("meta", 10, 5)),
        # The first place with a number in it counts, and nothing is put together from two.
        ({"usage": {"inputTokens": 1}, "_meta": {"inputTokens": 9, "outputTokens": 9}}, ("usage", 1, None)),
        (
            {"usage": {"inputTokens": "?"}, "_meta": {"quota": {"token_count": {"output_tokens": 4}}}},
            ("quota", None, 4),
        ),
        ({"usage": None, "_meta": {"quota": {"token_count": None}, "outputTokens": 2}}, ("meta", None, 2)),
        ({"usage": {}, "_meta": {"quota": {}}}, None),
        ({"usage": {"inputTokens": None}}, None),
        ({"usage": [10, 5]}, None),
        ({"_meta": "inputTokens"}, None),
        ({"stopReason": "end_turn"}, None),
        ({}, None),
        (None, None),
        ([{"usage": {"inputTokens": 1}}], None),
    ],
)
def test_n3_the_three_places_in_their_order(result: object, want: tuple[object, ...] | None) -> None:
    assert numbers(turn_usage(result)) == want


def test_no_usage_is_not_zero_usage() -> None:
    zero = turn_usage({"usage": {"inputTokens": 0, "outputTokens": 0}})
    assert numbers(zero) == ("usage", 0, 0)
    assert zero is not None
    assert zero.total_tokens is None
    assert turn_usage({"usage": {}}) is None


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (7, 7),
        (0, 0),
        (10**30, 10**30),
        (1.5, 1.5),
        ("12", 12),
        (" 12\n", 12),
        ("+12", 12),
        ("1.5", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("9" * 64, int("9" * 64)),
        ("9" * 65, None),
        ("9" * 5000, None),
        ("1e999", None),
        ("-1", None),
        ("-0", None),
        ("1_000", None),
        ("١٢", None),
        ("0x10", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        (".", None),
        ("ten", None),
        (-1, None),
        (-0.5, None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        (False, None),
        (None, None),
        ([5], None),
        ({"tokens": 5}, None),
    ],
)
def test_n3_what_counts_as_a_number(value: object, want: object) -> None:
    found = turn_usage({"usage": {"inputTokens": value, "outputTokens": 1}})
    assert found is not None
    assert found.input_tokens == want
    assert type(found.input_tokens) is type(want)
    assert found.output_tokens == 1


def test_every_number_and_its_other_names() -> None:
    found = turn_usage({"usage": FULL})
    assert found is not None
    assert found.raw == FULL
    assert [getattr(found, name) for name, _ in USAGE_NAMES] == [10, 5, 15, 1, 2, 3]
    assert json.loads(json.dumps(found.to_json())) == {"source": "usage", **FULL}
    recorded = {"reasoningOutputTokens": 1, "cachedInputTokens": 2, "cacheWriteInputTokens": 3}
    other = turn_usage({"_meta": {"quota": {"token_count": recorded}}})
    assert other is not None
    assert (other.thought_tokens, other.cached_read_tokens, other.cached_write_tokens) == (1, 2, 3)
    assert repr(other) == "Usage(source='quota', thought_tokens=1, cached_read_tokens=2, cached_write_tokens=3)"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["usage", "_meta", "quota", "token_count", "inputTokens", "output_tokens", "x"]), inner
        )
    ),
    max_leaves=20,
)


@settings(QUIET, max_examples=200)
@given(JSON)
def test_any_result_gives_numbers_from_zero_up_or_nothing(result: object) -> None:
    usage = turn_usage(result)
    if usage is not None:
        values = [value for name, _ in USAGE_NAMES if (value := getattr(usage, name)) is not None]
        assert values
        assert all(type(value) in (int, float) and 0 <= value < float("inf") for value in values)
        json.dumps(usage.to_json(), allow_nan=False)


def test_recorded_turns() -> None:
    """Which of the recorded agents says it, and where; what stands in a result's usage is what is read."""
    places: dict[str, set[str]] = {}
    silent = 0
    for name, recording in recordings().items():
        for event in play(compile_script(name)).events:
            if not isinstance(event, TurnEnded):
                continue
            usage = turn_usage(event.result)
            said = event.result.get("usage")
            if isinstance(said, dict):
                assert usage is not None
                assert (usage.input_tokens, usage.output_tokens) == (said["inputTokens"], said["outputTokens"])
            if usage is None:
                silent += 1
            else:
                places.setdefault(recording.agent, set()).add(usage.source)
    assert places == {
        "claude-agent-acp": {"usage"},
        "codex-acp": {"usage"},
        "copilot": {"usage"},
        "gemini": {"quota"},
        "opencode": {"usage"},
        "vibe": {"usage"},
    }
    assert silent > 20


# ── Errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def anthropic(status: int, kind: str, message: str) -> str:
    """How one provider's error reads inside an agent's."""
    return f"API Error: {status} " + json.dumps({"type": "error", "error": {"type": kind, "message": message}})


ERRORS: list[tuple[str, RequestError]] = [
    ("account", RequestError(-32603, "Internal error", {"details": "oauth_org_not_allowed: Your organization ..."})),
    ("account", RequestError(-32603, "Internal error", {"errorKind": "oauth_org_not_allowed"})),
    ("account", RequestError(-32603, "Internal error", {"errorKind": "account_on_hold"})),
    ("account", RequestError(-32603, "Internal error", {"errorKind": "billing_error"})),
    ("account", RequestError(-32603, anthropic(403, "permission_error", "OAuth is not allowed here"))),
    ("account", RequestError(-32603, "API Error: 400 This organization has been disabled.")),
    ("account", RequestError(-32603, "Your organization has disabled Claude subscription access")),
    ("account", RequestError(-32603, "Your credit balance is too low to access the API")),
    ("account", RequestError(429, "You exceeded your current quota", {"error": {"code": "insufficient_quota"}})),
    ("account", RequestError(403, "forbidden")),
    ("account", RequestError(-32000, "Authentication required", {"errorKind": "oauth_org_not_allowed"})),
    ("model_gone", RequestError(500, "This model models/x-2.5-pro is no longer available to new users.")),
    ("model_gone", RequestError(404, "models/x-1.5 is not found for API version v1beta, or is not supported")),
    ("model_gone", RequestError(-32603, "Internal error", {"errorKind": "model_not_found"})),
    ("model_gone", RequestError(-32603, "Internal error", {"errorName": "ProviderModelNotFoundError"})),
    ("model_gone", RequestError(-32603, anthropic(404, "not_found_error", "model: claude-3"))),
    ("model_gone", RequestError(-32603, "The model `gpt-9` does not exist or you do not have access to it.")),
    ("model_gone", RequestError(-32603, "There's an issue with the selected model (m). It may not exist.")),
    ("model_gone", RequestError(-32603, "The 'm' model is not supported when using this account.")),
    ("auth_required", RequestError(-32000, "Authentication required")),
    ("auth_required", RequestError(-32000, "The model is no longer available")),
    ("auth_required", RequestError(-32603, "Internal error", {"errorKind": "authentication_failed"})),
    ("auth_required", RequestError(-32603, anthropic(401, "authentication_error", "invalid x-api-key"))),
    ("auth_required", RequestError(400, "API key not valid. Please pass a valid API key.")),
    ("auth_required", RequestError(-32603, "Invalid API key · Please run /login")),
    ("auth_required", RequestError(401, "unauthorized")),
    ("rate_limited", RequestError(-32603, "Internal error", {"errorKind": "rate_limit"})),
    ("rate_limited", RequestError(-32603, anthropic(429, "rate_limit_error", "Rate limited"))),
    ("rate_limited", RequestError(-32603, "You've hit your usage limit.", {"codexErrorInfo": "usageLimitExceeded"})),
    ("rate_limited", RequestError(-32603, "x", {"codex_error_info": "usage_limit_exceeded"})),
    ("rate_limited", RequestError(-32603, "x", {"codex_error_info": {"usage_limit_exceeded": {"status": 1}}})),
    ("rate_limited", RequestError(429, "RESOURCE_EXHAUSTED (code 429): Individual quota reached.")),
    ("rate_limited", RequestError(-32603, "429 Too Many Requests: Too Many Requests")),
    ("rate_limited", RequestError(429, "")),
    ("cancelled", RequestError(-32800, "Request cancelled")),
    ("cancelled", RequestError(-32800, "cancelled", {"errorKind": "rate_limit"})),
    ("generic", RequestError(-32603, "Internal error: API Error: 400 told to fail", {"errorKind": "unknown"})),
    ("generic", RequestError(-32603, "Internal error", {"message": "{}", "codex_error_info": "other"})),
    ("generic", RequestError(400, '{"type":"error","error":{"type":"api_error","code":400,"message":"fail"}}')),
    ("generic", RequestError(-32603, "A turn is already running")),
    # Much is not found, and much is said of models: only both together say that the model is gone.
    ("generic", RequestError(-32602, "Session nope not found", {"sessionId": "nope"})),
    ("generic", RequestError(-32603, "the model answered with an empty message")),
    ("generic", RequestError(-32603, "file not found", {"model": "claude-3"})),
    ("generic", RequestError(-32603, "remodeling not found")),
]


@pytest.mark.parametrize(("kind", "failure"), ERRORS, ids=lambda value: str(value)[:60])
def test_c11_errors_of_the_prompt(kind: str, failure: RequestError) -> None:
    assert classify_error(failure) == kind
    assert kind in ERROR_KINDS
    # The same body inside a list of a list is the same body.
    assert classify_error(RequestError(failure.code, failure.message, [[failure.data]])) == kind


@pytest.mark.parametrize(("kind", "failure"), ERRORS, ids=lambda value: str(value)[:60])
def test_c11_the_same_text_of_another_call_is_generic(kind: str, failure: RequestError) -> None:
    by_code = {-32000: "auth_required", -32800: "cancelled"}
    assert classify_error(failure, "session_new") == by_code.get(failure.code, "generic")


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionClosed("rate limit"),
        RequestTimeout("the model was not found"),
        RemoteProtocolError("oauth_org_not_allowed", rule="x"),
        ValueError("rate limit"),
    ],
)
def test_what_no_agent_said_is_generic(failure: Exception) -> None:
    assert classify_error(failure) == "generic"


def test_a_huge_body_is_read_up_to_a_bound() -> None:
    assert classify_error(RequestError(-32603, "x" * 10_000_000 + " rate limit")) == "generic"
    assert classify_error(RequestError(-32603, "", ["x"] * 1_000_000 + ["rate_limit"])) == "generic"
    assert classify_error(RequestError(-32603, "x" * 65537, "rate limits")) == "generic"
    assert classify_error(RequestError(-32603, "", [["x"] * 1000, ["x"] * 1000, "rate_limit"])) == "generic"
    nested: object = "rate_limit"
    for _ in range(900):
        nested = [nested]
    assert classify_error(RequestError(-32603, "", nested)) == "rate_limited"


@settings(QUIET, max_examples=200)
@given(st.integers(-40000, 1000), st.text(), JSON, st.sampled_from(["session_prompt", "session_new"]))
def test_any_error_has_a_kind(code: int, message: str, data: object, key: str) -> None:
    assert classify_error(RequestError(code, message, data), key) in ERROR_KINDS


def test_through_a_connection() -> None:
    driver, _, prompt_id = prompting_client()
    failed = one(driver.feed(error(prompt_id, 429, "slow down")), TurnFailed)
    assert classify_error(failed.error) == "rate_limited"
    driver, _, prompt_id = prompting_client()
    ended = one(driver.feed(result(prompt_id, {"stopReason": "end_turn", "usage": FULL})), TurnEnded)
    assert numbers(turn_usage(ended.result)) == ("usage", 10, 5)


def test_recorded_errors() -> None:
    """The fake model of the recordings failed in a way that means nothing special: no kind is guessed."""
    found: Counter[str] = Counter()
    for name in recordings():
        for event in play(compile_script(name)).events:
            if isinstance(event, TurnFailed):
                found[classify_error(event.error)] += 1
    assert set(found) == {"generic"}
    assert found["generic"] > 5
