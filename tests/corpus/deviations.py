"""Where recorded lines leave the protocol: every line is validated by its method and direction, results and errors by
the request they answer.

``deviations.jsonl`` beside this file lists what was found: who wrote it (an agent, or the client that made the
recordings), the rule, the line as it stood on the wire, and how often. ``python -m tests.corpus.deviations`` prints the
same from the recordings, to be compared and read before it is stored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from acp_core import V1_UNSTABLE, codec
from acp_core.methods import BOTH
from acp_core.schema.validation import UnknownMethodError, ValidationError, validate, validate_result, validate_type
from tests.corpus.recordings import Recording, recordings

LISTED = Path(__file__).with_name("deviations.jsonl")
CLIENT = "client"

# The rules that a line can break besides those of a reader (noise) and those of the schema ($.path and rule).
WHY = {
    "method": "a method of no schema: an extension without an underscore, or one that only some agents speak",
    "direction": "the other side handles this method",
    "result": "a result for a method of no schema",
    "answer": "an answer to no request that is open, or without an id",
}


class Deviation(NamedTuple):
    who: str
    rule: str
    raw: str


def written(recording: Recording) -> Iterator[tuple[str, Deviation | None]]:
    """Every line of a recording: what kind of message it is, and how it leaves the protocol, if it does."""
    # The requests of each side that are open, by their ids as JSON.
    asked: dict[bool, dict[str, str]] = {True: {}, False: {}}
    for line in recording.lines:
        who = recording.agent if line.by_agent else CLIENT
        kind, rule = fault(line.raw, line.by_agent, asked)
        yield kind, Deviation(who, rule, line.raw) if rule else None


def fault(raw: str, by_agent: bool, asked: dict[bool, dict[str, str]]) -> tuple[str, str]:
    """The kind of a line, and the rule that it breaks or ""."""
    value = codec.decode(raw, 128)
    found = codec.envelope(value, 1024) if isinstance(value, dict) else value
    if isinstance(found, codec.Reject):
        return found.kind, found.rule
    try:
        if found.kind in (codec.REQUEST, codec.NOTIFICATION):
            if found.kind == codec.REQUEST:
                asked[by_agent][json.dumps(found.id)] = found.method
            row = V1_UNSTABLE.find(found.method)
            validate(found.method, found.params, unstable=True)
            if row is not None and row.handler not in (CLIENT if by_agent else "agent", BOTH):
                return found.kind, "direction"
            return found.kind, ""
        method = asked[not by_agent].pop(json.dumps(found.id), None)
        if found.kind != codec.RESULT:
            validate_type("Error", found.error)
        if method is None:
            return found.kind, "answer"
        if found.kind == codec.RESULT:
            validate_result(method, found.result, unstable=True)
    except UnknownMethodError:
        return found.kind, "result" if found.kind == codec.RESULT else "method"
    except ValidationError as why:
        return found.kind, f"{why.path} {why.rule}"
    return found.kind, ""


def deviations() -> tuple[Counter[str], Counter[Deviation]]:
    """How many lines of each kind there are, and what leaves the protocol how often."""
    kinds: Counter[str] = Counter()
    found: Counter[Deviation] = Counter()
    for recording in recordings().values():
        for kind, deviation in written(recording):
            kinds[kind] += 1
            if deviation is not None:
                found[deviation] += 1
    return kinds, found


def listed() -> Counter[Deviation]:
    """What ``deviations.jsonl`` says."""
    found: Counter[Deviation] = Counter()
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[Deviation(row["who"], row["rule"], row["raw"])] = row["lines"]
    return found


def main() -> None:
    """Print what the recordings have, one JSON object a line."""
    for deviation, lines in sorted(deviations()[1].items()):
        print(json.dumps({**deviation._asdict(), "lines": lines}))


if __name__ == "__main__":
    main()
