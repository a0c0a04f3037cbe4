"""Show that each rule of the client session has a test which fails when the line that keeps the rule is disabled.

``python tests/tools/disable_rules.py [RULE ...]`` copies the core and the rules' tests to a temporary directory, checks
that they pass there, then disables one line after the other and demands that the rule's own test fails. It prints a
table and exits with 1 when a disabled line went unnoticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TESTS = "tests/core/peer"
# What the rules' tests need of the checkout.
NEEDED = ("acp_core", TESTS, "tests/core/helpers.py", "tests/spec/requirements.py", "pyproject.toml")
TIMEOUT = 120.0

RULES = (
    *(f"C{number}" for number in range(1, 13)),
    *(f"L{number}" for number in range(1, 8)),
    *(f"A{number}" for number in range(1, 7)),
    *(f"P{number}" for number in range(1, 10)),
    *(f"M{number}" for number in range(1, 5)),
    *(f"N{number}" for number in range(1, 7)),
)


class Disabling(NamedTuple):
    """One line that keeps a rule (``old`` stands once in ``file``), and what it becomes."""

    rule: str
    file: str
    old: str
    new: str


CLIENT = "acp_core/client.py"
OPENING = "acp_core/opening.py"
REATTACH = "acp_core/reattach.py"
SETTINGS = "acp_core/settings.py"
CONNECTION = "acp_core/connection.py"
ATTACH = "acp_core/attach.py"
POLICY = "acp_core/permissions.py"
STATE = "acp_core/state.py"
# A line that keeps several rules.
REPLAY = "REPLAY = frozenset({STARTING, LOADING, RESUMING, REPLAYING})\n"

DISABLINGS = (
    # C1: idle again after a turn; a login comes before the session
    Disabling("C1", CLIENT, '            session.move("turn_over")\n', "            pass\n"),
    Disabling(
        "C1",
        OPENING,
        "                self._log_in(session, method_id, self._open, at)\n                return\n        self._open(",
        "                self._log_in(session, method_id, self._open, at)\n        self._open(",
    ),
    # C2: one waits, any other is refused; it is encoded when it is given; withdrawn unsent
    Disabling("C2", CLIENT, "        if not waits and handle.state != IDLE:\n", "        if False:\n"),
    Disabling("C2", CLIENT, "        if waits and handle.turn is not None:\n", "        if False:\n"),
    Disabling("C2", CLIENT, "            self._withdraw_prompt(request)\n            return\n", "            return\n"),
    # C3: what comes while idle is reported
    Disabling(
        "C3",
        CLIENT,
        "        turn = session.turn\n        if turn is not None:\n            if turn.sent_at",
        "        turn = session.turn\n        if turn is None:\n            return None\n"
        "        if turn is not None:\n            if turn.sent_at",
    ),
    # C4: the end of a cycle, by the origin, from either place, and not out of a history
    Disabling("C4", CLIENT, "origin in self._cycle_origins:\n", "False:\n"),
    Disabling("C4", CLIENT, "            for holder in (update, params):\n", "            for holder in (update,):\n"),
    Disabling("C4", CLIENT, "events.UsageUpdate and session.state not in REPLAY:\n", "events.UsageUpdate:\n"),
    # C5: with the first byte, and never for one that was withdrawn
    Disabling("C5", CLIENT, "            self._emit(events.PromptSent(session, turn, request.id, now))\n", ""),
    Disabling(
        "C5",
        CONNECTION,
        "                leaving[-1] = message = self._handed_over(message, now)\n",
        "                whole = len(message.data) <= room\n"
        "                leaving[-1] = message = self._handed_over(message, now) if whole else message.data\n",
    ),
    # C6: a session needs an id; first the id, then what was held
    Disabling(
        "C6",
        OPENING,
        "            if not session_id:\n                error = Remote",
        "            if False:\n                error = Remote",
    ),
    Disabling(
        "C6",
        OPENING,
        "            self._emit(events.SessionOpened(session, key, result, at))\n"
        "            self._release_held(session_id, at)\n",
        "            self._release_held(session_id, at)\n"
        "            self._emit(events.SessionOpened(session, key, result, at))\n",
    ),
    # C7: no word is taken for success
    Disabling("C7", CLIENT, '(get_str(result, "stopReason") or "")', '(get_str(result, "stopReason") or "end_turn")'),
    Disabling("C7", "acp_core/events.py", "        return self.stop_reason in STOP_REASONS\n", "        return True\n"),
    # C8: each step is told
    Disabling(
        "C8", OPENING, "        self._emit(events.SessionStep(session, row.key, row.wire, phase, error, at))\n", ""
    ),
    Disabling(
        "C8",
        CLIENT,
        '            self._emit(events.SessionStep(waiting, row.key, row.wire, "sent", None, now))\n',
        "            pass\n",
    ),
    # C9: once, and nothing is written after it
    Disabling(
        "C9",
        CONNECTION,
        "        if self._state == BROKEN:\n            return\n        self._state",
        "        self._state",
    ),
    Disabling(
        "C9",
        CONNECTION,
        "        if self._state in UNWRITABLE or self._fatal is not None:\n",
        "        if False:\n",
    ),
    Disabling(
        "C9",
        OPENING,
        "        if self._state != OPEN:\n            # The agent has",
        "        if False:\n            # The",
    ),
    # C10: an answer to nobody
    Disabling("C10", CONNECTION, "        self._emit(events.AnswerUnmatched(wire_id, why, raw, line, at))\n", ""),
    Disabling("C10", CONNECTION, '            why = "repeated"\n', '            why = "unknown"\n'),
    # C11: only the prompt's own id; the text of an error counts for a prompt only
    Disabling(
        "C11",
        CONNECTION,
        "        request = self._requests.get(rpc_id) if isinstance(rpc_id, int) else None\n        if request is None",
        "        request = next(iter(self._requests.values()), None)\n        if request is None",
    ),
    Disabling("C11", "acp_core/usage.py", ' if method_key == "session_prompt" else GENERIC', ""),
    # C12: the owner's identity
    Disabling("C12", CLIENT, "turn = Turn(0, identity, token, ", "turn = Turn(0, None, token, "),
    Disabling("C12", "acp_core/events.py", "turn: Turn | None = request.turn\n", "turn: Turn | None = None\n"),
    Disabling(
        "C12",
        REATTACH,
        '        "identity": turn.identity if turn is not None else None,\n',
        '        "identity": None,\n',
    ),
    # L1: resume first; a clear failure when there is neither; never the same session twice
    Disabling(
        "L1",
        OPENING,
        '            key = "session_resume" if self._advertised("session_resume") else "session_load"\n',
        '            key = "session_load" if self._advertised("session_load") else "session_resume"\n',
    ),
    Disabling("L1", OPENING, "            if not self._advertised(key):\n", "            if False:\n"),
    Disabling("L1", OPENING, "            if not resume:\n", "            if False:\n"),
    Disabling("L1", OPENING, "if one.plan.reopens == resume), None)\n", "if False), None)\n"),
    # L2: everything is sent again
    Disabling(
        "L2",
        OPENING,
        """params = f'{plan.setup},"sessionId":""",
        """params = f'{{"cwd":"{plan.cwd}","mcpServers":[],"sessionId":""",
    ),
    # L3: transcript updates are replay, and whole states are applied
    Disabling("L3", CLIENT, "        if transcript and session.state in REPLAY:\n", "        if False:\n"),
    Disabling("L3", CLIENT, "            if not replay.report:\n", "            if False:\n"),
    Disabling(
        "L3",
        CLIENT,
        "        if keep is not None:\n            self._keep(session, keep, cls, params, at)\n        if transcript",
        "        if transcript",
    ),
    Disabling("L3", STATE, REPLAY, "REPLAY = frozenset({LOADING, RESUMING, REPLAYING})\n"),
    # L4: the window stays open after the response, for a quiet time and no longer than its maximum
    Disabling("L4", OPENING, "        if session.plan.replay.deadline() > at:\n", "        if False:\n"),
    Disabling(
        "L4",
        "acp_core/replay.py",
        "        return min(self.last_at + self.quiet, began + self.longest)\n",
        "        return self.last_at + self.quiet\n",
    ),
    Disabling(
        "L4", CLIENT, "        if transcript and session.state in REPLAY:\n", "        if session.state in REPLAY:\n"
    ),
    Disabling("L4", STATE, REPLAY, "REPLAY = frozenset({STARTING, LOADING, RESUMING})\n"),
    # L5: a resume's history is history too, and no window follows it
    Disabling("L5", STATE, REPLAY, "REPLAY = frozenset({STARTING, LOADING, REPLAYING})\n"),
    # L6: one fresh session, only when asked for and refused, and nothing after a failed write
    Disabling(
        "L6",
        OPENING,
        "            plan.fresh_tried = True\n            # What was asked",
        "            # What was asked",
    ),
    Disabling("L6", OPENING, "        if refused and plan.fresh_if_refused and", "        if refused and"),
    Disabling(
        "L6",
        OPENING,
        '            self._cancel_permissions(session, None, "close", at)\n            self._drop_id(session)\n',
        "            self._drop_id(session)\n",
    ),
    Disabling("L6", OPENING, "            session.forget()\n", ""),
    Disabling(
        "L6",
        OPENING,
        '        refused = settlement.outcome == "error" and self._state == OPEN\n',
        '        refused = settlement.outcome == "error"\n',
    ),
    Disabling(
        "L6",
        OPENING,
        '        refused = settlement.outcome == "error" and self._state == OPEN\n',
        "        refused = self._state == OPEN\n",
    ),
    # L7: requests are answered during the window
    Disabling(
        "L7",
        CLIENT,
        "        if row.session and (session is None or session.state == CLOSED):\n",
        "        if row.session and (session is None or session.state in REPLAY):\n",
    ),
    # A1: a newline first, ids far above, history is no failure
    Disabling("A1", REATTACH, '            self._queue(b"\\n")\n', ""),
    Disabling(
        "A1",
        REATTACH,
        "        self._first_id = self._next_id = first_id_after(used)\n",
        "        self._first_id = self._next_id = used + 1\n",
    ),
    Disabling("A1", REATTACH, "        self._first_id = self._next_id = first_id_after(snapshot.next_id)\n", ""),
    # A2: the answer ends the turn, and a deadline is required and kept
    Disabling("A2", CLIENT, " or (handle.state == IDLE and handle.in_tail)\n", "\n"),
    Disabling(
        "A2",
        REATTACH,
        "            if session.state == IDLE:\n                self._session_ready(",
        "            if False:\n                self._session_ready(",
    ),
    Disabling(
        "A2",
        CLIENT,
        "session.turn if session.in_tail and not session.unsent else",
        "session.turn if session.in_tail else",
    ),
    Disabling(
        "A2", REATTACH, "        self._requests[prompt_id] = request\n        session.turn", "        session.turn"
    ),
    Disabling(
        "A2",
        REATTACH,
        "self._timers.after(deadline, lambda at: self._fence(session, request, why, at))\n",
        "None\n",
    ),
    Disabling(
        "A2",
        REATTACH,
        "            if deadline is None:\n                local(",
        "            if False:\n                local(",
    ),
    # A3: the first line counts only when it is whole
    Disabling("A3", REATTACH, "            self._join()\n", ""),
    Disabling(
        "A3",
        CONNECTION,
        "            elif not isinstance(decode(first, self._max_depth), dict):\n",
        "            else:\n",
    ),
    # A4: compared by content, ambiguity and gaps told
    Disabling("A4", ATTACH, "    overlap = overlaps[0]\n", "    overlap = overlaps[-1]\n"),
    Disabling("A4", ATTACH, "len(overlaps) > 1 or places > 2, False)\n", "False, False)\n"),
    Disabling(
        "A4",
        ATTACH,
        "        return TailComparison(list(tail), 0, False, bool(stored or tail or dropped))\n",
        "        return TailComparison(list(tail), 0, False, False)\n",
    ),
    Disabling("A4", ATTACH, "        if before < 0 or stored[before].endswith(dropped):\n", "        if True:\n"),
    Disabling("A4", CLIENT, '            mark = "tail"\n', '            mark = ""\n'),
    Disabling("A4", REATTACH, "                self._emit(events.TailHistory(session, at))\n", ""),
    Disabling(
        "A4", REATTACH, '            self._tell_history(window, collected, "answered", at)\n', "            pass\n"
    ),
    Disabling(
        "A4", REATTACH, '                self._tell_history(window, earlier, "reused", at)\n', "                pass\n"
    ),
    Disabling(
        "A4",
        REATTACH,
        '                self._tell_history(window, collected, "turn_over", at)\n',
        "                pass\n",
    ),
    Disabling("A4", ATTACH, "bool(stored or tail or dropped)", "bool(stored or dropped)"),
    Disabling("A4", REATTACH, "                session.history_left = session.plan.replay.after\n", ""),
    Disabling(
        "A5", REATTACH, '                self._tell_history(window, collected, "over", at)\n', "                pass\n"
    ),
    # A5: answered ones are history, open ones are not raised again, nothing is allowed by itself
    Disabling("A5", REATTACH, "        if (rpc_id, mark) in self._answered:\n", "        if False:\n"),
    Disabling("A5", REATTACH, "        if older is not None and older.mark == mark:\n", "        if False:\n"),
    Disabling("A5", CLIENT, "            (self._replaying and not self._restored) or ", "            "),
    Disabling("A5", CLIENT, " or (session.attached and title is None and kind is None)\n", "\n"),
    Disabling(
        "A5",
        CLIENT,
        "        if self._window is not None and not self._replaying:\n            self._collect(",
        "        if False:\n            self._collect(",
    ),
    Disabling(
        "A5",
        REATTACH,
        "                    self._ask_restored(open_request)\n",
        "                    pass\n",
    ),
    Disabling(
        "A5", CLIENT, "                self._leave_questions(self._window, session, at)\n", "                pass\n"
    ),
    Disabling("A5", REATTACH, "            elif row.key in QUESTIONS:\n", "            elif False:\n"),
    # A6: small, without secrets, all turns at once
    Disabling("A6", REATTACH, "        if size > self.limits.max_snapshot_bytes:\n", "        if False:\n"),
    Disabling(
        "A6",
        REATTACH,
        "            self._peer_requests[request_id] = request\n            self._peer_ids[rpc_id] = request\n",
        "",
    ),
    Disabling("A6", REATTACH, "                if session.state != CLOSED and session.state not in OPENING\n", ""),
    Disabling(
        "A6",
        REATTACH,
        "    if request is None or request.state in (WAITING, QUEUED):\n        request = session.fenced\n",
        "    if request is None:\n        request = session.fenced\n",
    ),
    Disabling("A6", REATTACH, "        request = session.fenced\n    turn", "        pass\n    turn"),
    Disabling("A6", REATTACH, "        if self.nonce in owners:\n", "        if False:\n"),
    # P1: what was not advertised is refused, and the first answer is the only one
    Disabling(
        "P1",
        CONNECTION,
        "        if not self._gate_open(row):\n            message",
        "        if False:\n            message",
    ),
    Disabling(
        "P1", CLIENT, "            if gate is None or not gate.open(self._capabilities):\n", "            if False:\n"
    ),
    Disabling(
        "P1",
        CONNECTION,
        "if self._peer_requests.pop(request.request_id, None)",
        "if self._peer_requests.get(request.request_id)",
    ),
    # P2: title, then kind, then default, on what is known of the tool call
    Disabling(
        "P2",
        POLICY,
        "        if title in rules:\n            verdict = rules[title]\n        elif kind in rules:\n",
        "        if title in rules and kind not in rules:\n            verdict = rules[title]\n"
        "        elif kind in rules:\n",
    ),
    Disabling(
        "P2",
        CLIENT,
        "                title, kind = title or known[0], kind or known[1]\n",
        "            pass\n",
    ),
    Disabling("P2", POLICY, "verdict if verdict in VERDICTS else DENY", "verdict if verdict in VERDICTS else ASK"),
    # P3: always only on purpose
    Disabling("P3", POLICY, '"allow_always") if self.always else ("allow_once",)', '"allow_always")'),
    Disabling(
        "P3",
        "acp_core/events.py",
        "                    return option_id\n    return None\n",
        "                    return option_id\n"
        '    return str(get_objects(params, "options")[0]["optionId"]) if offered else None\n',
    ),
    # P4: one of the offered ids, in time
    Disabling("P4", CLIENT, "        if not events.offers_option(request.params, option_id):\n", "        if False:\n"),
    Disabling(
        "P4",
        CLIENT,
        "            self._timers.arm(request, at + policy.ask_deadline)\n",
        "",
    ),
    # P5: public ids never come again
    Disabling("P5", CONNECTION, "        self._next_peer_request += 1\n", ""),
    # P6: a replay is counted, another one takes the place, an open id is never answered with an error
    Disabling(
        "P6",
        CONNECTION,
        "            if older.method.wire == row.wire and older.params == request.params:\n",
        "            if False:\n",
    ),
    Disabling(
        "P6", CONNECTION, '            self._abandon(older, "the peer used its id for another request", at)\n', ""
    ),
    Disabling(
        "P6",
        CONNECTION,
        "        if not codec.is_request_id(rpc_id) or rpc_id in self._peer_ids:\n",
        "        if not codec.is_request_id(rpc_id):\n",
    ),
    # P7: the stricter, for every key and every tool call; what widens is named
    Disabling("P7", POLICY, "    return max(one, other, key=VERDICTS.index)\n", "    return one\n"),
    Disabling(
        "P7", POLICY, "            verdict = _stricter(verdict, policy.verdict(title, kind))\n", "            pass\n"
    ),
    Disabling("P7", POLICY, "            for kind in (None, *keys):\n", "            for kind in (None,):\n"),
    # P8: open questions are answered cancelled, and so are later ones; the end of a turn ends them; a fence holds
    Disabling("P8", CLIENT, '        self._cancel_permissions(session, None, "cancel", self._now)\n', ""),
    Disabling(
        "P8", CLIENT, "        if session.state in ENDING:\n            # What", "        if False:\n            # What"
    ),
    Disabling(
        "P8", CLIENT, '            self._cancel_permissions(session, turn, "turn_end", at)\n', "            pass\n"
    ),
    Disabling(
        "P8",
        CLIENT,
        '            self._answer_permission(request, "peer_cancel", DENY, None, at)\n',
        "            super()._cancel_asked(request, at)\n",
    ),
    Disabling(
        "P8",
        CLIENT,
        '        if error is None or (asked is not None and settlement.outcome == "error"):\n',
        "        if error is None:\n",
    ),
    Disabling("P8", CLIENT, "codec.is_request_id(rpc_id) and rpc_id in self._held_ids:\n", "False:\n"),
    # P9: foreign permissions are cancelled, and what comes ahead of its session is held
    Disabling(
        "P9",
        CLIENT,
        '        if row.key != "session_request_permission":\n            error = refusal(',
        "        if True:\n            error = refusal(",
    ),
    Disabling(
        "P9",
        CLIENT,
        "            if not (named and self._hold(",
        "            if not (False and self._hold(",
    ),
    Disabling(
        "P9",
        CLIENT,
        "            if self._creating:\n                if self._hold(",
        "            if self._creating:\n                if False and self._hold(",
    ),
    # M1: no person, nothing unasked, no failure of the open by an automatic login
    Disabling(
        "M1",
        OPENING,
        '            if "api-key" in get_object(method, "_meta") or method.get("type") == "env_var":\n',
        "            if True:\n",
    ),
    Disabling("M1", OPENING, '                if method.get("type") == "terminal":\n', "                if False:\n"),
    Disabling(
        "M1",
        OPENING,
        "(settlement.error is not None and waiter.plan.auth == method_id):\n",
        "settlement.error is not None:\n",
    ),
    # M2: once
    Disabling(
        "M2",
        OPENING,
        "error.auth_required and not plan.auth_tried:\n            plan.auth_tried = True\n",
        "error.auth_required:\n",
    ),
    Disabling("M2", OPENING, "error.auth_required and not plan.auth_tried:\n", "False:\n"),
    # M3: before the first prompt, only when changed, and a failure when there is nothing to select with
    Disabling("M3", OPENING, "            if done:\n", "            if False:\n"),
    Disabling(
        "M3",
        OPENING,
        "            if not key:\n                what",
        "            if not key:\n                break\n                what",
    ),
    Disabling("M3", OPENING, "        plan.steps = [*(((", "        plan.steps = [*(() and (("),
    # M4: what was confirmed is what was asked for
    Disabling("M4", OPENING, "            if wrong is not None:\n", "            if False:\n"),
    Disabling(
        "M4",
        SETTINGS,
        "    return bool(left) and bool(right) and (left in right or right in left)\n",
        "    return one == other\n",
    ),
    Disabling("M4", SETTINGS, "        elif not depth and letter", "        elif letter"),
    # N1: noise is never answered by a client, and settles nothing
    Disabling("N1", CONNECTION, "        if self.role == CLIENT:\n            return\n", ""),
    Disabling(
        "N1", CONNECTION, "        if self.role == CLIENT and reject.kind == codec.NOISE:\n            return\n", ""
    ),
    Disabling("N1", CONNECTION, "            self._emit(events.Noise(line, reject.reason, at))\n", ""),
    # N2: blank lines and CRLF
    Disabling("N2", CONNECTION, "        if line.strip():\n", "        if True:\n"),
    # N3: no usage is not zero usage
    Disabling(
        "N3", "acp_core/usage.py", '    return value if 0 <= value < float("inf") else None\n', "    return value\n"
    ),
    Disabling("N3", "acp_core/usage.py", "        if usage.reported:\n", "        if True:\n"),
    # N4: metadata opens and ends no cycle
    Disabling("N4", CLIENT, "        if cls is events.UsageUpdate and session", "        if session"),
    # N5: a broken answer fails its own turn
    Disabling("N5", CONNECTION, "            self._settle_invalid(answered, error, line, at)\n", "            pass\n"),
    Disabling(
        "N5",
        CONNECTION,
        "            self._settle_invalid(answered, error, line, at)\n",
        "            self._end(str(error), at)\n",
    ),
    # N6: what is still open at the turn's end is closed
    Disabling(
        "N6",
        "acp_core/transcript.py",
        "        self._close_open_calls()\n        self._turns += 1\n",
        "        self._turns += 1\n",
    ),
)


def misplaced(disablings: Iterable[Disabling] = DISABLINGS) -> list[str]:
    """The literals that do not stand exactly once in their file."""
    found = []
    for rule, file, old, _new in disablings:
        count = (ROOT / file).read_text(encoding="utf-8").count(old)
        if count != 1:
            found.append(f"{rule}: {count} times in {file}: {old!r}")
    return found


def copy_to(target: Path, needed: Sequence[str] = NEEDED) -> None:
    """The part of the checkout that the rules' tests need."""
    for name in needed:
        source = ROOT / name
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def run_tests(checkout: Path, rule: str, tests: Sequence[str] = (TESTS,)) -> tuple[int, str]:
    """Run a rule's tests, or all of them for "": pytest's exit code, and the last line it printed."""
    chosen = [*tests]
    if rule:
        # Only the files that have a test of this name: collecting costs more than running it.
        files = [path for name in tests for path in sorted((checkout / name).rglob("test_*.py")) or [checkout / name]]
        name = f"test_{rule}_"
        chosen = [str(path) for path in files if f"def {name}" in path.read_text(encoding="utf-8")] + ["-k", name]
    # All of them together take longer than one that hangs may.
    return run_pytest(checkout, chosen, TIMEOUT if rule else 5 * TIMEOUT)


def run_pytest(checkout: Path, tests: Sequence[str], limit: float) -> tuple[int, str]:
    """Run these tests there, for ``limit`` seconds at most: pytest's exit code, and the last line it printed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, f"still running after {limit:.0f} s"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return done.returncode, lines[-1] if lines else ""


def disable(disabling: Disabling, tests: Sequence[str] = (TESTS,), needed: Sequence[str] = NEEDED) -> tuple[bool, str]:
    """Whether the rule's test fails without its line, and what pytest said. Only a failed test counts: 1, not an error
    while the tests are collected."""
    rule, file, old, new = disabling
    with tempfile.TemporaryDirectory() as directory:
        checkout = Path(directory)
        copy_to(checkout, needed)
        text = (checkout / file).read_text(encoding="utf-8")
        (checkout / file).write_text(text.replace(old, new), encoding="utf-8")
        code, said = run_tests(checkout, rule, tests)
    return code == 1, said


def main(
    chosen: list[str],
    rules: Iterable[str] = RULES,
    disablings: Sequence[Disabling] = DISABLINGS,
    tests: Sequence[str] = (TESTS,),
    needed: Sequence[str] = NEEDED,
) -> int:
    """Disable the lines of the chosen rules, or of all, and print a table."""
    for problem in misplaced(disablings):
        print(f"not there any more: {problem}")
    missing = sorted(set(rules) - {disabling.rule for disabling in disablings})
    if missing or misplaced(disablings):
        print(f"rules without a line: {missing}")
        return 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        copy_to(Path(directory), needed)
        code, said = run_tests(Path(directory), "", tests)
    print(f"untouched: {said}")
    if code:
        return 1
    todo = [disabling for disabling in disablings if not chosen or disabling.rule in chosen]
    unnoticed = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        found = pool.map(partial(disable, tests=tests, needed=needed), todo)
        for disabling, (noticed, said) in zip(todo, found, strict=True):
            unnoticed += not noticed
            line = " / ".join(part.strip() for part in disabling.old.strip().splitlines())
            print(f"{disabling.rule:4} {'noticed' if noticed else 'UNNOTICED':9} {line[:100]}")
            if not noticed:
                print(f"     {said}")
    seconds = time.monotonic() - began
    print(f"{len(todo)} lines of {len({one.rule for one in todo})} rules, {unnoticed} unnoticed, {seconds:.0f} s")
    return 1 if unnoticed or not todo else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
