"""Every recorded line against the schema, by its direction; what leaves the protocol is listed, and nothing else is."""

from __future__ import annotations

import json

import pytest

from tests.corpus.deviations import CLIENT, LISTED, WHY, deviations, fault, listed
from tests.corpus.recordings import recordings


def test_every_line_is_valid_or_its_deviation_is_listed() -> None:
    kinds, found = deviations()
    assert found - listed() == {}, "these lines are listed nowhere"
    assert listed() - found == {}, "these rows of the list are stale"
    assert sum(kinds.values()) == sum(len(recording.lines) for recording in recordings().values())
    # Nearly all lines are valid messages.
    assert kinds["request"] > 1000 and kinds["notification"] > 2500 and kinds["result"] > 850
    assert sum(lines for deviation, lines in found.items() if deviation.who != CLIENT) < 50


def test_the_list_names_whom_what_and_why() -> None:
    rows = [json.loads(line) for line in LISTED.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len(listed())
    agents = {recording.agent for recording in recordings().values()}
    for row in rows:
        assert row["who"] in agents | {CLIENT}
        assert row["lines"] > 0
        assert row["rule"] in WHY or row["rule"].startswith(("$", "json.", "jsonrpc.")), row["rule"]


@pytest.mark.parametrize(
    ("raw", "by_agent", "kind", "rule"),
    [
        ("text", True, "noise", "json.syntax"),
        ('{"jsonrpc":"2.0","id":1,"method":"session/cancel","params":{}}', False, "request", "$.sessionId schema"),
        ('{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}', True, "notification", "direction"),
        ('{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}', False, "notification", ""),
        ('{"jsonrpc":"2.0","id":7,"result":{"stopReason":"end_turn"}}', True, "result", ""),
        ('{"jsonrpc":"2.0","id":7,"result":{"stopReason":"done"}}', True, "result", "$.stopReason schema"),
        ('{"jsonrpc":"2.0","id":7,"result":null}', True, "result", "$ schema"),
        ('{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}', True, "error", ""),
        ('{"jsonrpc":"2.0","id":8,"error":{"code":1,"message":"m"}}', True, "error", "answer"),
        ('{"jsonrpc":"2.0","id":7,"result":{}}', False, "result", "answer"),
        ('{"jsonrpc":"2.0","method":"_mine","params":{"any":1}}', True, "notification", ""),
        ('{"jsonrpc":"2.0","method":"mine","params":{}}', True, "notification", "method"),
    ],
)
def test_faults_are_seen(raw: str, by_agent: bool, kind: str, rule: str) -> None:
    """The check is none that lets everything pass."""
    assert fault(raw, by_agent, {False: {"7": "session/prompt"}, True: {}}) == (kind, rule)
