"""The rules of protocol version 1, one row each: who is bound, how strongly, and where this library keeps it.

Numbers are those of the project's protocol reference, section 3; rules of version 2 alone are not listed. A test says
which rules it checks with `@requirement(number, ...)`, and the tests of a row are found by that mark, so the two cannot
drift apart. A row is one of

* kept: `kept_in` names the modules, and at least one test is marked with the number;
* out of reach: `reason` says why a library cannot keep it for its user.

`docs/spec-coverage.md` is made from this file by `tests/tools/spec_coverage.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

TESTS = Path(__file__).resolve().parent.parent

TestT = TypeVar("TestT", bound=Callable[..., object])


def requirement(*numbers: int) -> Callable[[TestT], TestT]:
    """Mark a test as one that checks the rules `numbers`; KeyError for a number without a row."""
    for number in numbers:
        BY_NUMBER[number]

    def mark(test: TestT) -> TestT:
        test.__dict__["covers"] = numbers
        return test

    return mark


class Requirement(NamedTuple):
    """One rule. `who`: client, agent or both; `level`: MUST, SHOULD, MAY, or "is" for a definition."""

    number: int
    who: str
    level: str
    text: str
    kept_in: tuple[str, ...] = ()
    reason: str = ""
    draft: bool = False


def kept(number: int, who: str, level: str, text: str, *modules: str, draft: bool = False) -> Requirement:
    return Requirement(number, who, level, text, modules, draft=draft)


def beyond(number: int, who: str, level: str, text: str, reason: str, draft: bool = False) -> Requirement:
    return Requirement(number, who, level, text, reason=reason, draft=draft)


REQUIREMENTS = (
    # Framing and transport
    kept(1, "both", "MUST", "The wire is UTF-8.", "framing", "codec"),
    kept(2, "both", "MUST", "On stdio a newline ends each message and none stands inside one.", "framing", "codec"),
    kept(3, "both", "is", "A line on stdio holds exactly one request, notification or response.", "codec"),
    kept(4, "agent", "MUST", "An agent writes nothing but messages to its standard output.", "acp_sync", "acp_anyio"),
    kept(5, "client", "MUST", "A client writes nothing but messages to the agent's standard input.", "connection"),
    kept(
        6, "both", "MAY",
        "Standard error is free for logs; the client decides what becomes of it.",
        "acp_sync",
        "acp_anyio",
    ),
    kept(
        7, "client", "is",
        "The client starts the agent; to stop it, input is closed first, then the process ended.",
        "acp_sync",
        "acp_anyio",
    ),
    kept(8, "both", "SHOULD", "Stdio is supported wherever it can be.", "acp_sync", "acp_anyio"),
    kept(
        9, "both", "MUST",
        "Another transport keeps message format and lifecycle as they are.",
        "connection",
        "acp_anyio",
        "acp_sync",
    ),
    kept(
        10, "both", "is",
        "Envelopes follow JSON-RPC 2.0; a notification is never answered, not even with an error.",
        "codec",
        "connection",
    ),
    kept(11, "both", "is", "Keys are camelCase, discriminator values snake_case.", "schema"),
    kept(
        12, "both", "MUST",
        "File paths are absolute, line numbers start at 1.",
        "methods",
        "agent",
        "client",
        "schema.validation",
    ),
    # Identifiers
    kept(
        13, "both", "MUST",
        "An id is null, a 64-bit integer or a string, and the response repeats it unchanged.",
        "schema.validation",
        "codec",
        "requests",
    ),
    kept(14, "agent", "MUST", "Every new session gets an id of its own.", "agent"),
    beyond(15, "agent", "is", "Tool call ids are unique within a session.", "the agent's program names its tool calls"),
    kept(
        16, "both", "MUST",
        "Message ids come from the agent alone; a client only compares them.",
        "client",
        "transcript",
    ),
    kept(
        17, "agent", "SHOULD",
        "Chunks name their message where it is known; no id and null mean the same.",
        "agent",
        "transcript",
    ),
    beyond(
        19, "client", "MUST",
        "List cursors are opaque and not stored; a missing next cursor is the end.",
        "cursors pass through untouched; what a program does with one is its own business",
    ),
    kept(
        20, "both", "MUST",
        "Ids of open URL elicitations are unique on a connection and opaque to the client.",
        "agent",
    ),
    beyond(
        23, "agent", "is",
        "Compaction ids, and ids of MCP servers over ACP, are not used twice.",
        "draft; the agent's program makes them",
        draft=True,
    ),
    # Version negotiation and initialization
    kept(
        24, "client", "MUST",
        "Initialize comes before any session, with the newest version and the capabilities.",
        "client",
    ),
    kept(25, "client", "is", "Initialize is sent once, first.", "client"),
    kept(26, "agent", "MUST", "A supported version is answered as asked, any other with the newest one.", "agent"),
    kept(27, "client", "SHOULD", "An answer with an unsupported version ends the connection and is told.", "client"),
    kept(28, "both", "MUST", "Both sides keep to the agreed version.", "connection"),
    kept(29, "both", "SHOULD", "Both sides say who they are.", "client", "agent"),
    kept(
        30, "both", "is",
        "A version is an integer from 0 to 65535; 0 counts as unsupported.",
        "schema.validation",
        "client",
        "agent",
    ),
    # Capabilities
    kept(
        33, "both", "MUST",
        "What is not advertised is not supported.",
        "methods",
        "connection",
        "schema.validation",
    ),
    kept(34, "both", "SHOULD", "Any combination of the peer's capabilities is coped with.", "methods", "connection"),
    kept(35, "agent", "MUST", "New session, prompt, cancel and update are always there.", "agent"),
    kept(36, "agent", "MUST", "Text and resource links are accepted in any prompt.", "agent"),
    kept(37, "client", "MUST", "A prompt holds images, audio and embedded resources only where advertised.", "client"),
    kept(
        38, "client", "MUST",
        "Load, list, resume, close and delete are called only where advertised.",
        "methods",
        "client",
    ),
    kept(
        40, "client", "MUST",
        "Logout is called only where advertised.",
        "methods",
        "connection",
    ),
    kept(41, "client", "MUST", "Additional directories are sent only where advertised.", "client"),
    kept(
        42, "agent", "MUST",
        "File and terminal methods are called only where advertised.",
        "methods",
        "connection",
    ),
    kept(
        43, "agent", "MUST",
        "Boolean options are sent only to clients that advertise them.",
        "methods",
        "agent",
    ),
    kept(
        44, "agent", "MUST",
        "An elicitation uses only modes that the client advertises; an empty object is none.",
        "agent",
    ),
    kept(
        45, "agent", "MUST",
        "Terminal logins are offered only to clients that advertise them.",
        "methods",
        "agent",
        "client",
    ),
    kept(
        46, "client", "MUST",
        "HTTP and SSE servers are passed only where advertised; stdio always may be.",
        "client",
    ),
    beyond(
        47, "agent", "SHOULD",
        "An agent speaks HTTP to MCP servers and connects to all it is given.",
        "MCP is the agent's own business",
    ),
    kept(
        48, "agent", "MUST",
        "Plan and compaction drafts go only to clients that advertise them.",
        "methods",
        "agent",
        draft=True,
    ),
    # Lifecycle
    kept(50, "client", "MUST", "Initialize precedes session methods, a session precedes prompts.", "client"),
    kept(
        51, "client", "MUST",
        "A terminal login is never passed to authenticate.",
        "client",
        "agent",
    ),
    beyond(
        52, "client", "is",
        "A terminal login runs the configured program with extra arguments and reconnects.",
        "running a program in front of the user is the client's business; the method's data is passed through",
    ),
    beyond(
        54, "agent", "SHOULD",
        "The arguments of a terminal login lead to a program that logs in and exits.",
        "the agent's command line is its own",
    ),
    kept(55, "client", "SHOULD", "After logout, sessions may fail with an authentication error.", "errors"),
    beyond(
        56, "agent", "is",
        "After a login, new sessions are not refused for lack of one.",
        "the agent's program knows its logins",
    ),
    kept(
        57, "both", "MUST",
        "Load sends id, directory and servers, and is answered after the whole replay.",
        "client",
        "agent",
    ),
    kept(58, "both", "MUST", "Resume sends the same and replays nothing before its answer.", "client", "agent"),
    beyond(
        60, "agent", "SHOULD",
        "Notices are not replayed.",
        "draft; the agent's program chooses what it replays",
        draft=True,
    ),
    kept(
        61, "agent", "is",
        "A replay may hold whole states in place of every chunk.",
        "replay",
        "transcript",
        draft=True,
    ),
    kept(
        62, "agent", "MUST",
        "Closing a session cancels its work first.",
        "agent",
        "client",
    ),
    beyond(
        63, "agent", "SHOULD",
        "Deleting an unknown session succeeds; deleted ones leave the list.",
        "storage is the agent program's",
    ),
    kept(
        64, "agent", "MUST",
        "A list is a list even when empty; its filter is an absolute path.",
        "agent",
        "methods",
        "schema.validation",
    ),
    kept(65, "client", "MUST", "Additional directories of a listed session are taken as they are.", "client"),
    kept(
        66, "agent", "MUST",
        "The working directory is absolute and holds wherever the process runs.",
        "agent",
        "client",
        "schema.validation",
    ),
    kept(
        67, "client", "MUST",
        "Additional directories are absolute; load and resume send all of them again.",
        "schema.validation",
        "client",
    ),
    kept(
        68, "agent", "MUST",
        "Broken additional directories are refused, never dropped.",
        "agent",
    ),
    kept(69, "both", "MUST", "Where limits to roots are claimed, they hold against links.", "acp_sync.workspace"),
    kept(70, "agent", "MUST", "Requests without additional directories stay valid.", "agent"),
    # Cancellation
    kept(
        71, "both", "MAY",
        "A side may cancel a request of its own; the other may ignore that.",
        "connection",
    ),
    kept(
        72, "both", "MUST",
        "A cancelled request still gets an answer: a result or the cancelled error.",
        "connection",
        "agent",
        "acp_sync",
        "acp_anyio",
    ),
    kept(
        73, "both", "is",
        "A cancel that comes too late changes nothing.",
        "connection",
        "requests",
    ),
    kept(74, "both", "SHOULD", "Work that is aborted from inside answers with the cancelled error too.", "connection"),
    kept(
        75, "both", "MAY",
        "The caller may wait for that answer.",
        "connection",
        "requests",
    ),
    kept(
        76, "client", "MAY",
        "A turn may be cancelled at any time; its open tool calls count as cancelled at once.",
        "client",
        "transcript",
    ),
    kept(
        77, "agent", "SHOULD",
        "A cancelled turn stops model and tools soon.",
        "agent",
        "host",
        "acp_sync",
        "acp_anyio",
    ),
    kept(
        78, "agent", "MUST",
        "A cancelled prompt is answered with the stop reason cancelled, not with an error.",
        "agent",
    ),
    kept(79, "agent", "MUST", "Updates after a cancel precede the answer to the prompt.", "agent"),
    kept(80, "client", "SHOULD", "Tool call updates after a cancel are still taken.", "client", "sessions"),
    # Permission
    kept(82, "client", "MAY", "Permissions may be answered by a policy.", "permissions"),
    kept(
        83, "client", "MUST",
        "A cancelled turn answers every open permission request with cancelled.",
        "client",
        "permissions",
    ),
    beyond(
        87, "agent", "SHOULD",
        "After permission the tool runs and is reported in progress.",
        "the agent's program runs its tools and reports them",
    ),
    # Prompt turn, tool calls, plans, content
    kept(88, "agent", "MUST", "A finished turn answers the prompt with a stop reason.", "agent"),
    beyond(91, "agent", "SHOULD", "Tool calls and plans are reported.", "the agent's program decides what it reports"),
    kept(
        92, "both", "MUST",
        "A plan update holds all entries and replaces the plan.",
        "transcript",
    ),
    beyond(96, "client", "SHOULD", "Text is shown as Markdown.", "display is the client's"),
    kept(
        97, "client", "is",
        "After a refusal, prompt and what followed leave the context; that is shown.",
        "transcript",
    ),
    beyond(
        98, "agent", "SHOULD",
        "Tool calls name their tool.",
        "draft; the agent's program knows the name",
        draft=True,
    ),
    # Client file system and terminals
    kept(99, "client", "MUST", "Writing a file that is missing creates it.", "acp_sync.workspace"),
    kept(
        100, "client", "MUST",
        "Terminal output is cut at its start, at a character boundary, to the limit.",
        "acp_sync.workspace",
    ),
    beyond(
        101, "agent", "MUST",
        "Terminals are released when no longer needed.",
        "only the agent's program knows when that is",
    ),
    beyond(
        102, "client", "SHOULD",
        "Output of a released terminal stays visible in its tool call.",
        "display is the client's",
    ),
    kept(
        103, "client", "is",
        "Creating a terminal answers at once; killing keeps the id, releasing ends it.",
        "acp_sync.workspace",
    ),
    # Config options, modes, commands
    kept(
        104, "agent", "MUST",
        "Options have a value, and answers and updates hold the complete list.",
        "agent",
        "client",
    ),
    kept(
        105, "client", "SHOULD",
        "Options of an unknown type are passed over, order is kept.",
        "sessions",
        "client",
    ),
    beyond(
        106, "both", "MUST",
        "Categories are hints; unknown ones are fine.",
        "display is the client's; any category passes",
    ),
    beyond(
        107, "client", "SHOULD",
        "Options win over modes where both are given.",
        "both are on the session's handle as they came; which of them a user sees is the client's display",
    ),
    kept(
        108, "client", "is",
        "A mode is one of those on offer; modes and options may change at any time.",
        "methods",
        "client",
        "agent",
        "sessions",
    ),
    kept(
        109, "agent", "MAY",
        "Commands are announced after a session was made, and again at any time.",
        "agent",
        "sessions",
        "transcript",
    ),
    # Elicitation
    kept(
        110, "agent", "MUST",
        "An elicitation names its mode and its scope: a session or a request.",
        "agent",
        "schema.validation",
    ),
    kept(
        111, "agent", "MUST",
        "A form's schema says type and properties; readers cope without.",
        "agent",
        "events",
        "schema.validation",
    ),
    kept(
        112, "both", "SHOULD",
        "Answers are checked against the form on both sides.",
        "elicitation",
    ),
    beyond(113, "agent", "MUST", "Secrets are never asked for in a form.", "the library cannot tell a secret"),
    beyond(
        114, "client", "MUST",
        "The user sees who asks, and consents before a URL is opened.",
        "display is the client's",
    ),
    kept(
        115, "agent", "MUST",
        "Every outcome of an elicitation is handled, consent is not completion.",
        "agent",
    ),
    kept(
        116, "both", "MUST",
        "Completion goes to the same client; unknown ids are passed over.",
        "agent",
        "connection",
    ),
    kept(
        117, "client", "MUST",
        "A mode that was not advertised is refused as invalid params.",
        "client",
    ),
    beyond(
        118, "agent", "MUST",
        "URLs hold no personal data, and the same user finishes.",
        "the agent's program makes the URL",
    ),
    beyond(
        119, "client", "MUST",
        "Patterns of an agent are tried with bounded effort, unknown formats kept.",
        "no pattern is ever run here; formats pass as they are",
    ),
    kept(
        120, "both", "MUST",
        "Unknown modes, actions and property types are kept raw and taken for nothing known.",
        "schema.validation",
    ),
    # Extensibility
    kept(121, "both", "is", "`_meta` is an object whose values mean nothing to the protocol.", "schema.validation"),
    beyond(
        122, "both", "SHOULD",
        "Three keys of `_meta` belong to trace context.",
        "`_meta` passes untouched; nothing here sets a key",
    ),
    kept(123, "both", "MUST", "Objects of the protocol get no fields of one's own.", "schema.validation"),
    kept(
        124, "both", "MUST",
        "Methods with an underscore are free; unknown requests are refused, notifications passed over.",
        "connection",
        "schema.validation",
    ),
    kept(
        125, "both", "SHOULD",
        "Extensions are advertised in `_meta` of the capabilities.",
        "connection",
    ),
    kept(
        129, "both", "is",
        "Unions are closed but for the listed ones: what is sent is known, what is read is kept.",
        "schema.validation",
    ),
    kept(
        130, "both", "is",
        "A proxy keeps `_meta`; cancels stay on their connection.",
        "connection",
        "requests",
    ),
    # Draft features
    beyond(
        142, "agent", "MUST",
        "A fork inherits no extra roots in silence.",
        "draft; the agent's program forks",
        draft=True,
    ),
    beyond(
        143, "agent", "is",
        "Notices carry nothing that must be seen.",
        "draft; the agent's program writes them",
        draft=True,
    ),
    beyond(
        144, "agent", "is",
        "A compaction starts, gets its chunks, and ends once.",
        "draft; the agent's program compacts, its updates are gated, typed and passed on in their order",
        draft=True,
    ),
    beyond(
        145, "both", "MUST",
        "Providers are advertised, replaced as a whole, and kept out of storage.",
        "draft; typed and passed through",
        draft=True,
    ),
    beyond(
        146, "both", "is",
        "Next edit suggestions have sessions and positions of their own.",
        "draft; typed and passed through",
        draft=True,
    ),
    beyond(
        147, "both", "is",
        "MCP over ACP: the agent connects, then messages go both ways.",
        "draft; typed and passed through",
        draft=True,
    ),
    beyond(
        148, "both", "is",
        "What the numbers of usage cover is undecided.",
        "draft; typed and passed through",
        draft=True,
    ),
    beyond(149, "both", "is", "Proxy chains have methods of their own.", "draft, in no schema", draft=True),
)  # fmt: skip

BY_NUMBER = {row.number: row for row in REQUIREMENTS}


@cache
def marked_tests() -> dict[int, tuple[str, ...]]:
    """Return rule number -> ids of the tests that carry its mark, from the text of every test file."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, numbers in marks(ast.parse(path.read_text(encoding="utf-8"))):
            for number in numbers:
                found.setdefault(number, []).append(f"{path.relative_to(TESTS).as_posix()}::{name}")
    return {number: tuple(ids) for number, ids in found.items()}


def marks(tree: ast.Module) -> Iterator[tuple[str, list[int]]]:
    """Yield (name, numbers) of every marked test in a module, methods of classes included."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "requirement":
                    yield node.name, [ast.literal_eval(argument) for argument in mark.args]
