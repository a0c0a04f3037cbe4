"""Our strict validator and the official schema agree on every type; `python -m tests.spec.agree` does it for longer."""

from __future__ import annotations

import pytest

from acp_core.schema import validation
from acp_core.schema.validation import ValidationError, validate_type
from tests.spec import agree
from tests.spec.requirements import requirement

# 1,000 values of each of the 268 types. Most of the time goes into drawing, so few are drawn and each is changed often.
EXAMPLES, CHANGES = 10, 99

# For each rule of agree.DIFFERENCES: type, value that only the official schema accepts.
WITNESSES: dict[str, list[tuple[str, object]]] = {
    "integer": [
        ("UsageUpdate", {"used": 1.0, "size": 2}),
        ("RequestId", 1.0),
        ("ElicitationRequestScope", {"requestId": 2.0}),
    ],
    "range": [
        ("TerminalExitStatus", {"exitCode": 2**32}),
        ("UsageUpdate", {"used": 2**64, "size": 0}),
        ("RequestId", 2**63),
        ("Error", {"code": 2**31, "message": ""}),
        ("ToolCallLocation", {"path": "/a", "line": 2**32}),
    ],
    "finite": [
        ("Cost", {"amount": float("nan"), "currency": "USD"}),
        ("Cost", {"amount": float("-inf"), "currency": "USD"}),
        ("Annotations", {"priority": 10**400}),
    ],
    "absolute-path": [
        ("NewSessionRequest", {"cwd": "work", "mcpServers": []}),
        ("NewSessionRequest", {"cwd": "/work", "mcpServers": [], "additionalDirectories": ["/a", ""]}),
        ("ListSessionsRequest", {"cwd": "C:relative"}),
        ("Diff", {"path": "~/a", "newText": ""}),
    ],
    "line": [("ToolCallLocation", {"path": "/a", "line": 0})],
    "uri": [
        ("ElicitationUrlMode", {"elicitationId": "e", "sessionId": "s", "url": "example.org"}),
        ("ElicitationUrlMode", {"elicitationId": "e", "sessionId": "s", "url": "https://a b"}),
    ],
    "variant": [
        ("AuthMethod", {"type": "terminal", "id": "i", "name": "n", "args": "no list"}),
        ("McpServer", {"type": "http", "name": "n", "command": "c", "args": [], "env": []}),
        ("SetSessionConfigOptionRequest", {"sessionId": "s", "configId": "c", "type": "boolean", "value": "x"}),
        ("MultiSelectItems", {"type": "string", "anyOf": []}),
    ],
}


@pytest.mark.parametrize("name", agree.type_names(unstable=False))
def test_stable_type_agrees_with_the_official_schema(name: str) -> None:
    compared = agree.run(name, unstable=False, examples=EXAMPLES, changes=CHANGES, derandomize=True)
    assert compared == 1000


@pytest.mark.parametrize("name", agree.type_names(unstable=True))
def test_draft_type_agrees_with_the_official_schema(name: str) -> None:
    compared = agree.run(name, unstable=True, examples=EXAMPLES, changes=CHANGES, derandomize=True)
    assert compared == 1000


def test_every_difference_is_listed_with_a_witness() -> None:
    assert WITNESSES.keys() == agree.DIFFERENCES.keys()


@requirement(12, 13, 30, 64, 66, 67)
@pytest.mark.parametrize(("rule", "name", "value"), [(rule, *row) for rule, rows in WITNESSES.items() for row in rows])
def test_difference_is_what_the_table_says(rule: str, name: str, value: object) -> None:
    assert agree.official(name, False).is_valid(value)
    with pytest.raises(ValidationError) as caught:
        validate_type(name, value)
    assert caught.value.rule == rule
    assert agree.compare(name, value, False) == rule


def test_envelopes_cannot_be_used_to_validate() -> None:
    """The official types of whole messages accept anything (spec.md 8.3), so they are not in the tables."""
    message = {"method": "session/update", "params": {"bogus": 1}}
    assert agree.official("AgentNotification", False).is_valid(message)
    with pytest.raises(KeyError):
        validate_type("AgentNotification", message)
    with pytest.raises(ValidationError):
        validation.validate("session/update", message["params"])


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert agree.main(["--examples", "5", "--changes", "9", "--type", "Cost"]) == 0
    assert "1 types, 50 values" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        agree.main(["--type", "Nothing"])
