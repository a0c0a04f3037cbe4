"""The same as disable_rules.py, for the rules of the protocol itself: tests/spec/requirements.py has them in words.

``python tests/tools/disable_spec_rules.py [RULE ...]`` disables the line that keeps a rule and demands that a test
which is marked with it fails.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.spec.requirements import REQUIREMENTS, marked_tests
from tests.tools.disable_rules import TIMEOUT, Disabling, copy_to, misplaced, run_pytest

NEEDED = (
    *("acp_core", "acp_sync", "tests/core", "tests/spec", "tests/sync/workspace", "tests/tools", "tests/corpus"),
    "pyproject.toml",
)
# Rules that are shown with processes, not with the core alone.
IN_PROCESSES = {4, 6, 7, 8}

AGENT = "acp_core/agent.py"
CLIENT = "acp_core/client.py"
CODEC = "acp_core/codec.py"
CONNECTION = "acp_core/connection.py"
ELICITATION = "acp_core/elicitation.py"
ERRORS = "acp_core/errors.py"
METHODS = "acp_core/methods.py"
OPENING = "acp_core/opening.py"
TABLE = "acp_core/schema/v1_table.py"
TRANSCRIPT = "acp_core/transcript.py"
VALIDATION = "acp_core/schema/validation.py"
FILES = "acp_sync/workspace/files.py"
TERMINALS = "acp_sync/workspace/terminals.py"

DISABLINGS = (
    Disabling("1", CODEC, '            fault = Reject(MALFORMED, "utf8",', '            _ = Reject(MALFORMED, "utf8",'),
    Disabling("2", CODEC, '"result":{result}}}\\n\'.encode', '"result":{result}}}\'.encode'),
    Disabling(
        "3", CODEC, "    if isinstance(value, list):\n        if value and", "    if False:\n        if value and"
    ),
    Disabling("5", CODEC, '    return f\'{{"jsonrpc":"2.0","id":{id},', '    return f\'{{"jsonrpc":"1.0","id":{id},'),
    Disabling(
        "9",
        CONNECTION,
        "self._take([self._framer.whole(data)], size)",
        "self._take(self._framer.feed(data, 0)[0], size)",
    ),
    Disabling(
        "10",
        CONNECTION,
        "        self._emit(events.NotificationReceived(wire,",
        '        self._answer_error(None, refusal(-32601, wire, "method", "x"))\n'
        "        self._emit(events.NotificationReceived(wire,",
    ),
    Disabling(
        "11",
        TABLE,
        '(("elicitationId", "r", "ElicitationId"), ("url"',
        '(("elicitation_id", "r", "ElicitationId"), ("url"',
    ),
    Disabling("12", METHODS, "not isinstance(value, bool) and value > 0", "not isinstance(value, bool) and value >= 0"),
    Disabling(
        "13",
        CODEC,
        "    name = id if isinstance(id, int) else ",
        "    name = encode_basestring_ascii(str(id)) if id is not None else ",
    ),
    Disabling("14", AGENT, "            if session_id in self._sessions:\n", "            if False:\n"),
    Disabling("16", CLIENT, '        tail = f\',"prompt":', '        tail = f\',"messageId":"made","prompt":'),
    Disabling(
        "17",
        TRANSCRIPT,
        "        if value is None:\n            return None\n        if isinstance(value, str) and 0",
        "        if value is False:\n            return None\n        if isinstance(value, str) and 0",
    ),
    Disabling("20", AGENT, "            if name in self._urls:\n", "            if False:\n"),
    Disabling("24", OPENING, '{"protocolVersion": self.methods.version, "client', '{"protocolVersion": 2, "client'),
    Disabling(
        "25",
        OPENING,
        '        if self._state != NEW:\n            local("initialize.once"',
        '        if False:\n            local("initialize.once"',
    ),
    Disabling("26", AGENT, '{"protocolVersion": methods.version, "agent', '{"protocolVersion": 2, "agent'),
    Disabling("27", OPENING, "            self._fatal = (str(error), error)\n", ""),
    Disabling("28", OPENING, "not int or version != self.methods.version:", "not int:"),
    Disabling(
        "29",
        OPENING,
        '(("clientCapabilities", capabilities), ("clientInfo", info))',
        '(("clientCapabilities", capabilities),)',
    ),
    Disabling("30", AGENT, "or not 0 <= version <= 65535:", "or False:"),
    Disabling(
        "33", METHODS, '        return value is True if self.marker == "bool" else', "        return True if value else"
    ),
    Disabling(
        "34", OPENING, "        return gate is None or gate.open(self._peer_capabilities)\n", "        return True\n"
    ),
    Disabling(
        "35",
        METHODS,
        '            event="NewSessionRequested",\n',
        '            event="NewSessionRequested",\n            gate=Gate("bool", "x"),\n',
    ),
    Disabling(
        "36",
        AGENT,
        '            if not isinstance(params.get("prompt"), list):\n',
        '            if params.get("prompt") != []:\n',
    ),
    Disabling(
        "37",
        CLIENT,
        '            if gate is not None and not gate.open(self._peer_capabilities):\n                local("cap',
        '            if False:\n                local("cap',
    ),
    Disabling("38", METHODS, '            gate=Gate("object", "sessionCapabilities", "list"),\n', ""),
    Disabling("40", METHODS, '            gate=Gate("object", "auth", "logout"),\n', ""),
    Disabling(
        "41", OPENING, "        if plan.directories and not DIRECTORIES_GATE.open(caps):\n", "        if False:\n"
    ),
    Disabling("42", METHODS, '            gate=Gate("bool", "fs", "readTextFile"),\n', ""),
    Disabling("43", AGENT, '            if option.get("type") == "boolean" and not', "            if False and not"),
    Disabling(
        "44",
        AGENT,
        '        gate = Gate("object", "elicitation", mode)\n',
        '        gate = Gate("object", "elicitation")\n',
    ),
    Disabling("45", AGENT, "        if not TERMINAL_LOGINS.open(self._peer_capabilities):\n", "        if False:\n"),
    Disabling(
        "46",
        OPENING,
        '            gate = MCP_GATES.get(get_str(server, "type") or "")\n',
        '            gate = MCP_GATES.get(get_str(server, "type") or "http")\n',
    ),
    Disabling("48", METHODS, '    "plan_update": Gate("object", "plan"),\n', ""),
    Disabling(
        "50",
        AGENT,
        "        if self._version is None:\n            return refusal(",
        "        if False:\n            return refusal(",
    ),
    Disabling("51", OPENING, '                if method.get("type") == "terminal":\n', "                if False:\n"),
    Disabling("55", ERRORS, "        return self.code == AUTH_REQUIRED\n", "        return False\n"),
    Disabling("57", AGENT, '"session_load": LOADING, ', '"session_load": RESUMING, '),
    Disabling(
        "58",
        AGENT,
        "        if session.state == RESUMING:\n            local(",
        "        if False:\n            local(",
    ),
    Disabling(
        "61", CLIENT, "            if not replay.report:\n                return None\n", "            return None\n"
    ),
    Disabling(
        "62",
        AGENT,
        'session.move("closing")\n                for turn in session.turns.values():\n',
        'session.move("closing")\n                for turn in []:\n',
    ),
    Disabling(
        "64",
        METHODS,
        '            event="ListSessionsRequested",\n            paths=("cwd",),\n',
        '            event="ListSessionsRequested",\n',
    ),
    Disabling("65", OPENING, "] = directories\n", "] = [cwd, *directories]\n"),
    Disabling(
        "66",
        AGENT,
        "        if not isinstance(cwd, str) or not is_absolute(cwd):\n",
        "        if not isinstance(cwd, str):\n",
    ),
    Disabling("67", OPENING, "            if not is_absolute(directory):\n", "            if False:\n"),
    Disabling(
        "68",
        AGENT,
        "            if not isinstance(directory, str) or not is_absolute(directory):\n",
        "            if False:\n",
    ),
    Disabling(
        "70",
        AGENT,
        '        further = params.get("additionalDirectories", [])\n',
        '        further = params.get("additionalDirectories")\n',
    ),
    Disabling(
        "71",
        CONNECTION,
        "            self._check_writable()\n            self._send_cancel(request)\n",
        "            self._check_writable()\n",
    ),
    Disabling(
        "72",
        CONNECTION,
        "            self._cancel_asked(request, at)\n            return True\n",
        '            self._abandon(request, "cancelled", at)\n            return True\n',
    ),
    Disabling("73", CONNECTION, "            if self._issued(id):\n                return\n", ""),
    Disabling(
        "74",
        CONNECTION,
        '        error = refusal(REQUEST_CANCELLED, "the',
        '        error = refusal(INTERNAL_ERROR, "the',
    ),
    Disabling(
        "75",
        CONNECTION,
        "            self._check_writable()\n            self._send_cancel(request)\n",
        "            self._check_writable()\n            self._send_cancel(request)\n"
        '            over = Settlement("closed", ANSWERED, error=RequestError(REQUEST_CANCELLED, "not waited for"))\n'
        '            self._settle(request, "give_up", over, self._now)\n',
    ),
    Disabling("76", TRANSCRIPT, "        return CANCELLED if cancelled and", "        return CANCELLED if False and"),
    Disabling(
        "77", "acp_core/host.py", 'prompt.finished is None and prompt.stop == "none":', "prompt.finished is None:"
    ),
    Disabling(
        "78", AGENT, "        if turn.cancelled:\n            result = {", "        if False:\n            result = {"
    ),
    Disabling(
        "79",
        AGENT,
        "        if handle.state == CLOSED:\n            local(",
        '        if handle.state in (CLOSED, "cancelling"):\n            local(',
    ),
    Disabling(
        "80",
        CLIENT,
        "        if session is None or not session.live:\n",
        '        if session is not None and session.state == "cancelling":\n            return None\n'
        "        if session is None or not session.live:\n",
    ),
    Disabling(
        "82",
        CLIENT,
        "        if verdict == ASK:\n",
        "        if True:\n",
    ),
    Disabling("83", CLIENT, '        self._cancel_permissions(session, None, "cancel", self._now)\n', "        pass\n"),
    Disabling(
        "88",
        AGENT,
        '        result: dict[str, object] = {"stopReason": stop_reason}\n',
        '        result: dict[str, object] = {"stop": stop_reason}\n',
    ),
    Disabling(
        "92",
        TRANSCRIPT,
        '            self._set_list("plan", update.get("entries"))\n',
        '            self._set_list("plan", [*(self.plan or []), *(update.get("entries") or [])])\n',
    ),
    Disabling("97", TRANSCRIPT, '            if entry.stop_reason == "refusal":\n', "            if False:\n"),
    Disabling("69", FILES, "                    if len(walked) == 1:\n", "                    if False:\n"),
    Disabling("99", FILES, "missing = parents and", "missing = False and"),
    Disabling("100", TERMINALS, "del self._kept[: len(self._kept) - self.limit]", "del self._kept[self.limit :]"),
    Disabling(
        "103", TERMINALS, "self._terminals.pop((session_id, terminal_id))", "self._terminals[session_id, terminal_id]"
    ),
    Disabling("104", AGENT, '            if option.get("currentValue") is None:\n', "            if False:\n"),
    Disabling("105", "acp_core/sessions.py", '    if option.get("type", "select") != "select":\n', "    if False:\n"),
    Disabling("108", CLIENT, "        if mode_id not in offered:\n", "        if False:\n"),
    Disabling(
        "109",
        TRANSCRIPT,
        '            self._set_list("commands", update.get("availableCommands"))\n',
        "            pass\n",
    ),
    Disabling(
        "110", AGENT, '            if not isinstance(params.get("requestId"), (int, str)):\n', "            if False:\n"
    ),
    Disabling("111", AGENT, '                or not isinstance(form.get("properties"), dict)\n', ""),
    Disabling("112", ELICITATION, "    if problems:\n", "    if False:\n"),
    Disabling("115", AGENT, 'result.get("action") == "accept")', 'result.get("action") == "never")'),
    Disabling(
        "116", AGENT, '            self._urls.pop(str(params.get("elicitationId")), None)\n', "            pass\n"
    ),
    Disabling("117", CLIENT, 'return refusal(INVALID_PARAMS, message, "mode"', 'return refusal(0, message, "mode"'),
    Disabling(
        "120",
        TABLE,
        '                ("|", "ElicitationSessionScope", "ElicitationRequestScope"),\n',
        "                None,\n",
    ),
    Disabling(
        "121",
        TABLE,
        '"CancelNotification": ("o", (("sessionId", "r", "SessionId"), ("_meta", "~", ("?", ("{", "any"))))',
        '"CancelNotification": ("o", (("sessionId", "r", "SessionId"), ("_meta", "~", "any"))',
    ),
    Disabling(
        "123",
        VALIDATION,
        '    return [] if node is None else [_render("$", path) for path in node.extra(params)]\n',
        "    return []\n",
    ),
    Disabling(
        "124", CONNECTION, "            if not free and wire not in self._extensions:\n", "            if False:\n"
    ),
    Disabling(
        "125",
        AGENT,
        '        self._peer_capabilities = get_object(params, "clientCapabilities")\n',
        "        self._peer_capabilities = {}\n",
    ),
    Disabling("129", TABLE, '    "StopReason": ("=", ', '    "StopReason": ("=", "done", '),
    Disabling("130", CONNECTION, "'{{\"requestId\":{request.id}}}'", "'{{\"requestId\":{request.id + 1}}}'"),
)


def without_a_line() -> list[int]:
    """The rules that are kept and have no line here."""
    known = {int(one.rule) for one in DISABLINGS} | IN_PROCESSES
    return [row.number for row in REQUIREMENTS if row.kept_in and row.number not in known]


def ids_of(rule: str) -> list[str]:
    """The ids of the tests that are marked with a rule and need no binding."""
    return [
        f"tests/{name}" for name in marked_tests()[int(rule)] if name.startswith(("core/", "spec/", "sync/workspace/"))
    ]


def run(tests: list[str], disabling: Disabling | None) -> tuple[int, str]:
    """Run tests in a copy, with a line disabled: pytest's exit code, and the last line it printed."""
    with tempfile.TemporaryDirectory() as directory:
        checkout = Path(directory)
        copy_to(checkout, NEEDED)
        if disabling is not None:
            path = checkout / disabling.file
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(disabling.old, disabling.new), encoding="utf-8")
        return run_pytest(checkout, tests, TIMEOUT)


def main(chosen: list[str]) -> int:
    """Disable the lines of the chosen rules, or of all, and print a table."""
    for problem in misplaced(DISABLINGS):
        print(f"not there any more: {problem}")
    if without_a_line() or misplaced(DISABLINGS):
        print(f"rules without a line: {without_a_line()}")
        return 1
    todo = [one for one in DISABLINGS if not chosen or one.rule in chosen]
    began = time.monotonic()
    unnoticed = 0
    for one in todo:
        code, said = run(ids_of(one.rule), one)
        # Only a failed test counts, not an error while the tests are collected.
        unnoticed += code != 1
        line = " / ".join(part.strip() for part in one.old.strip().splitlines())
        print(f"{one.rule:4} {'noticed' if code == 1 else 'UNNOTICED':9} {line[:90]}  [{said[:80]}]", flush=True)
    print(f"{len(todo)} lines, {unnoticed} unnoticed, {time.monotonic() - began:.0f} s")
    return 1 if unnoticed or not todo else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
