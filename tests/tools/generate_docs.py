"""Make the doc pages that restate the code: events, limits, states and methods.

``python tests/tools/generate_docs.py`` writes them; ``--check`` exits with 1 when a page is not what the code says.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from acp_core import events  # noqa: E402
from acp_core.limits import LIMITS, MIB  # noqa: E402
from acp_core.methods import V1, Method  # noqa: E402
from acp_core.methods_unstable import V1_UNSTABLE  # noqa: E402
from acp_core.state import TABLES  # noqa: E402

MADE = "<!-- Made from the code by tests/tools/generate_docs.py: change the code, then run it. -->\n"

# Bases that exist to be shared, not to be matched.
BASES = (events.Event, events.SessionEvent, events.ToolCallFields, events.TerminalRequest, events.SessionSetupRequested)
SECTIONS: tuple[tuple[str, Callable[[type[events.Event]], bool]], ...] = (
    ("The connection", lambda cls: not issubclass(cls, (events.SessionEvent, events.RequestReceived))),
    ("Sessions and turns (client)", lambda cls: issubclass(cls, events.SessionEvent) and not _is_update(cls)),
    ("Updates (client)", lambda cls: _is_update(cls)),
    ("Requests of the peer", lambda cls: issubclass(cls, events.RequestReceived)),
)


def _is_update(cls: type[events.Event]) -> bool:
    return issubclass(cls, events.Update)


def _classes() -> list[type[events.Event]]:
    return [
        cls
        for cls in vars(events).values()
        if isinstance(cls, type) and issubclass(cls, events.Event) and cls not in BASES
    ]


def _fields(cls: type[events.Event]) -> str:
    names = [name for base in reversed(cls.__mro__) for name in base.__dict__.get("__slots__", ())]
    properties = [
        name
        for base in reversed(cls.__mro__)
        for name, value in base.__dict__.items()
        if isinstance(value, property) and not name.startswith("_")
    ]
    text = ", ".join(f"`{name}`" for name in dict.fromkeys(names) if name[0] != "_")
    if properties:
        text += "; computed: " + ", ".join(f"`{name}`" for name in dict.fromkeys(properties))
    return text


def _entry(cls: type[events.Event]) -> str:
    return f"### {cls.__name__}\n\n{inspect.getdoc(cls)}\n\nFields: {_fields(cls)}.\n"


def events_page() -> str:
    """Every event: what it is, when it comes, what an owner does with it."""
    parts = [MADE, "# Events\n"]
    parts.append(
        "What `connection.events()` yields: one class per kind, made for `match`. Every event has `at`, the `now`\n"
        "of the input that completed it. Fields hold what stood on the wire; computed properties never raise.\n"
    )
    for title, belongs in SECTIONS:
        parts.append(f"## {title}\n")
        parts += [_entry(cls) for cls in _classes() if belongs(cls)]
    return "\n".join(parts)


def _amount(value: int | float, unit: str) -> str:
    if unit == "bytes" and isinstance(value, int) and value >= MIB and value % MIB == 0:
        return f"{value // MIB} MiB"
    return f"{value:,} {unit}"


def limits_page() -> str:
    """Every bound with its default and reason."""
    rows = [f"| `{name}` | {_amount(value, unit)} | {reason} |" for name, value, unit, reason in LIMITS]
    return "\n".join(
        [
            MADE,
            "# Limits\n",
            "Every buffer, table and depth of the core has a bound. `Limits(name=value)` changes one.\n",
            "| name | default | reason |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _diagram(table: Mapping[str, Mapping[str, str]]) -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    {state} --> {target}: {event}" for state, moves in table.items() for event, target in moves.items()]
    return [*lines, "```", ""]


def states_page() -> str:
    """Every state table, as a diagram and as rows."""
    parts = [
        MADE,
        "# States\n",
        "Each table of `acp_core.state`. An input that a state does not list is illegal in it.\n",
    ]
    for name, table in TABLES.items():
        parts += [f"## {name.capitalize()}\n", *_diagram(table), "| state | input | leads to |", "| --- | --- | --- |"]
        parts += [
            f"| {state} | {event} | {target} |" for state, moves in table.items() for event, target in moves.items()
        ]
        parts.append("")
    return "\n".join(parts)


def _use(row: Method) -> str:
    return row.intent or row.event


def _needs(row: Method) -> str:
    if row.presence:
        return f"`{row.presence}` in the session's result"
    if row.gate is None:
        return ""
    return f"{row.gate}" if row.advertiser == row.handler else f"{row.gate} of the {row.advertiser}"


def methods_page() -> str:
    """The method table of version 1."""

    def rows(table: Iterable[Method]) -> list[str]:
        return [
            f"| `{row.wire}` | `{row.key}` | {row.handler} | {row.kind} | {_needs(row)} | {_use(row)} |"
            for row in table
        ]

    head = [
        "| on the wire | key | handled by | kind | needs | call or event |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join(
        [
            MADE,
            "# Methods\n",
            "The table of protocol version 1. Using what the other side did not advertise is a LocalProtocolError\n"
            "that names the capability; being asked for what this side did not advertise is answered -32601.\n",
            *head,
            *rows(V1),
            "",
            "## Drafts\n",
            "Off by default, as if there were no such methods. `methods=V1_UNSTABLE` turns them on, each still behind\n"
            "its capability; what they carry is in `acp_core.schema.v1_unstable`.\n",
            *head,
            *rows(row for row in V1_UNSTABLE if row.key not in {stable.key for stable in V1}),
            "",
        ]
    )


# The ten rules of the project, and a test that holds each.
RULES = (
    (
        "The core keeps every rule of the protocol; a binding knows no method.",
        "test_architecture.py::test_wire_names_stand_in_the_method_table_only",
    ),
    (
        "An intent checks, changes the state and queues its bytes at once; one that raises has changed nothing.",
        "core/test_properties.py::test_a_client_intent_that_raises_changes_nothing",
    ),
    (
        "Every request settles exactly once, and says whether its bytes had been handed to the transport.",
        "core/test_pair.py::test_a_prompt_settles_once_under_every_fault",
    ),
    (
        "Receiving never raises for what the peer sends, and no line ends a connection; a wrong type raises.",
        "core/test_pair.py::test_odd_lines_end_no_connection",
    ),
    (
        "The core has no clock, randomness, environment, log or IO: the same calls give the same bytes and events.",
        "test_architecture.py::test_core_imports_nothing_else",
    ),
    (
        "Cost is linear in bytes however they are cut, and everything that is kept has a bound.",
        "core/test_limits.py::test_at_the_limit_and_one_above",
    ),
    (
        "Reading never waits for writing, and no cancelled call tears or drops a message.",
        "contract/test_cancel.py::test_a_caller_cancelled_in_the_middle_of_its_write",
    ),
    (
        "An answer is given after every notification that stood before it.",
        "contract/test_order.py::test_an_answer_comes_after_the_updates_before_it",
    ),
    (
        "What is unknown is kept and reachable: fields, kinds, words, `_meta`.",
        "core/test_client.py::test_unknown_kinds_are_kept",
    ),
    (
        "Nothing is dropped in silence: it is counted and reported.",
        "core/test_input.py::test_unread_input_is_counted_at_the_end",
    ),
)
FAMILIES = (
    (
        "Client rules",
        "A session of a client that outlives its turns and its owner.",
        (
            ("C", "connection and turns"),
            ("L", "opening a session again"),
            ("A", "reattaching to a turn in flight"),
            ("P", "what the agent asks"),
            ("M", "login, model and options"),
            ("N", "noise, metadata and usage"),
        ),
        "core/peer/*.py",
    ),
    (
        "Turn and closing rules",
        "Admission of turns, cancelling, and closing what an owner holds.",
        (("P", "turns and closing"),),
        "core/test_*.py",
    ),
    (
        "Host rules",
        "An agent over a runtime host; [host.md](host.md) says which are left to a product.",
        (("M", "text, prompts, starts, cancels and ends"),),
        "core/test_*.py",
    ),
)
RULE_TEST = re.compile(r"^def test_([A-Z])(\d+)_(\w+)", re.M)


def rules_page() -> str:
    """Each rule that code and pages name, and the tests that hold it; what a test is called says the rule."""
    parts = [
        MADE,
        "# Rules\n",
        "What the rules are that docstrings, comments and tests name by a letter or a number. Each is held by the\n"
        "tests beside it, in `tests/`; what they are called says what it is.\n",
        "- *rule 3* is one of the ten rules of this project, below.",
        "- *spec rule 72* is a rule of the protocol: its row in [spec-coverage.md](spec-coverage.md).",
        "- *client rule C4* and *host rule M8* are in the tables further down.\n",
        "## The ten rules\n",
        "| rule | what it says | held by |",
        "| --- | --- | --- |",
    ]
    parts += [f"| {number} | {text} | `tests/{test}` |" for number, (text, test) in enumerate(RULES, 1)]
    for title, about, letters, where in FAMILIES:
        parts += [f"\n## {title}\n", f"{about}\n", "| rule | what it says | held by |", "| --- | --- | --- |"]
        for letter, subject in letters:
            found: dict[int, list[tuple[str, str]]] = {}
            for path in sorted((ROOT / "tests").glob(where)):
                for kind, number, name in RULE_TEST.findall(path.read_text(encoding="utf-8")):
                    if kind == letter:
                        said = re.sub(r"^([A-Z]\d+_)+", "", name).replace("_", " ")
                        found.setdefault(int(number), []).append((said, path.relative_to(ROOT / "tests").as_posix()))
            parts.append(f"| **{letter}** | *{subject}* | |")
            for number, tests in sorted(found.items()):
                files = ", ".join(f"`{name}`" for name in dict.fromkeys(name for _, name in tests))
                parts.append(f"| {letter}{number} | {'; '.join(said for said, _ in tests)} | {files} |")
    return "\n".join([*parts, ""])


PAGES = {
    "rules.md": rules_page,
    "events.md": events_page,
    "limits.md": limits_page,
    "states.md": states_page,
    "methods.md": methods_page,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or say which are stale."""
    stale = []
    for name, page in PAGES.items():
        path = ROOT / "docs" / name
        text = page()
        if "--check" in arguments:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/{name} is stale: run python tests/tools/generate_docs.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
