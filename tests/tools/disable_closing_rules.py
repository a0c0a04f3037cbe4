"""Show that each rule of admission, cancelling and closing has a test that fails when what keeps the rule is disabled.

``python tests/tools/disable_closing_rules.py [RULE ...]`` works as ``disable_rules.py`` does, whose engine it is. The
rule ``every`` stands for the model check: it has to notice by itself what the rules' own tests notice.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.tools.disable_rules import CLIENT, STATE, Disabling, main

CLOSING = "acp_core/closing.py"
TURNS = "acp_core/turns.py"
FRONT = "acp_core/front/closing.py"
TESTS = (
    "tests/core/test_turns.py",
    "tests/core/test_closing.py",
    "tests/core/test_cancel_escalate.py",
    "tests/core/test_closing_model.py",
    "tests/contract/test_close_plan.py",
)
NEEDED = (
    *("acp_core", "acp_sync", "acp_anyio", "pyproject.toml", "docs/writing-a-binding.md"),
    *(
        *TESTS,
        "tests/core/helpers.py",
        "tests/core/owner.py",
        "tests/spec/requirements.py",
        "tests/contract/conftest.py",
        "tests/contract/harness.py",
        "tests/contract/page.py",
    ),
)
RULES = (*(f"P{number}" for number in range(1, 26)), "every")

REFUSED = "        if self._turns_refused:\n"
SETTLED = "        return self.state not in (STEP_WAITING, STEP_RUNNING)\n"
READY = "not all(other.settled for other in step.after):"
NEEDS = "            if step.needs == SUCCESS and not"
SUCCEEDED = "all(other.state == STEP_DONE for other in step.after)"
DUE = "step.deadline is not None and step.deadline <= self._now:"
STARTED = "        step.deadline = self._now + step.within\n"
JOINS = "        if self._attempting:\n            return []\n"
RELEASED = "        return self.best_effort or self.state == STEP_DONE\n"
RETRY = '                step.state = move(CLOSE_STEP, step.state, "retry")\n'
OVERDUE = '                self._run(step, "wait_again")\n'
KEEP = '                step.state = move(CLOSE_STEP, step.state, "keep")\n'
LEAVES = "[*_leaves(self._failures.values())]"
LATE = "        if step.state == STEP_RUNNING:\n            step.error = error\n"
IDENTITY = "            admission.check_identity(identity)\n"
TURN_OVER = '            session.move("turn_over")\n'
NO_ANSWER = (
    '        if allows(SESSION, session.state, "no_answer"):\n            session.move("no_answer")\n        # While'
)

DISABLINGS = (
    # P1: closing, active turn, identity, text, in this order
    Disabling("P1", CLIENT, REFUSED, "        if self._turns_refused and handle.turn is None:\n"),
    Disabling(
        "P1",
        CLIENT,
        "        if not waits and handle.state != IDLE:\n",
        "        if self._admission is not None:\n            self._admission.check_identity(identity)\n"
        "        if not waits and handle.state != IDLE:\n",
    ),
    Disabling("P1", CLIENT, IDENTITY, "            admission.check_text(self._content(content))\n" + IDENTITY),
    # P2: the identity is there, is its own trim, and fits
    Disabling("P2", TURNS, "        if identity is None:\n", '        identity = identity or "x"\n        if False:\n'),
    Disabling("P2", TURNS, "        if not identity:\n", '        if identity == "\\0":\n'),
    Disabling("P2", TURNS, "identity[0] in WHITE_SPACE or ", ""),
    Disabling("P2", TURNS, " or identity[-1] in WHITE_SPACE", ""),
    Disabling("P2", TURNS, "\\u3000\\ufeff", "\\u3000"),
    Disabling("P2", TURNS, "\\x85", ""),
    Disabling("P2", TURNS, "\\x0b\\x0c\\r ", "\\x0b\\x0c\\r\\x1c "),
    Disabling(
        "P2",
        TURNS,
        '        if size is None:\n            local("admission.identity"',
        '        if size is None:\n            size = 3\n        if False:\n            local("admission.identity"',
    ),
    Disabling("P2", TURNS, "        if size > limit:\n", "        if size > limit + 1:\n"),
    Disabling("P2", TURNS, "        if size > limit:\n", "        if size >= limit:\n"),
    Disabling(
        "P2",
        TURNS,
        '        return len(text.encode("utf-8"))\n',
        '        return len(text.encode("utf-8")) * 0 + len(text)\n',
    ),
    # P3: all text blocks together fit
    Disabling(
        "P3", TURNS, "        if total > self.max_text_bytes:\n", "        if total > self.max_text_bytes + 1:\n"
    ),
    Disabling("P3", TURNS, "        if total > self.max_text_bytes:\n", "        if total >= self.max_text_bytes:\n"),
    Disabling("P3", TURNS, "            total += size\n", "            total = size\n"),
    Disabling("P3", TURNS, '            if block.get("type") != "text" or not', "            if not"),
    Disabling(
        "P3",
        TURNS,
        '            if size is None:\n                local("admission.text"',
        '            size = size if size is not None else 3\n            if 0:\n                local("admission.text"',
    ),
    # P4: what the library adds does not count
    Disabling(
        "P4",
        CLIENT,
        "            admission.check_text(blocks)\n",
        '            admission.check_text([{"type": "text", "text": codec.encode(blocks, "", 9)}])\n',
    ),
    # P5: the wire has the text and the session
    Disabling("P5", CLIENT, '        tail = f\',"prompt":', '        tail = f\',"identity":"","prompt":'),
    # P6: the place is taken last
    Disabling(
        "P6",
        CLIENT,
        "        self._check_room(len(tail) + 256)\n",
        "        handle.turn = Turn(0, identity, token)\n        self._check_room(len(tail) + 256)\n",
    ),
    # P7: the place is freed by the result
    Disabling("P7", CLIENT, NO_ANSWER, NO_ANSWER.replace("no_answer", "turn_over")),
    Disabling("P7", CLIENT, '            session.move("refused_in_fence")\n', '            session.move("refused")\n'),
    Disabling("P7", CLIENT, TURN_OVER, "            pass\n"),
    Disabling("P7", STATE, '    FENCED: {"late_answer": IDLE,', '    FENCED: {"late_answer": FENCED,'),
    Disabling("P7", CLIENT, "            self._check_place(admission)\n", ""),
    Disabling("P7", CLIENT, "if session.state == FENCED), None", "if session.state == CLOSING), None"),
    # P8: a failure is told and frees the place
    Disabling("P8", CLIENT, TURN_OVER, "            pass\n"),
    Disabling(
        "P8",
        CLIENT,
        "        if error is None or (asked is not None and",
        "        if error is not None or (asked is not None and",
    ),
    # P9, P10: nothing is admitted from the first close on
    Disabling("P9", CLIENT, REFUSED, "        if self._turns_refused and self.busy_sessions:\n"),
    Disabling("P10", CLIENT, "        self._turns_refused = True\n", "        pass\n"),
    # P11: one cancel an attempt, ahead of everything
    Disabling("P11", CLOSING, JOINS, ""),
    Disabling("P11", CLOSING, READY, "False:"),
    # P12: the wait is bounded, and its failure is recorded
    Disabling("P12", CLOSING, DUE, DUE.replace("<=", "<")),
    Disabling("P12", CLOSING, STARTED, STARTED.replace("step.within", "2 * step.within")),
    Disabling("P12", CLOSING, LATE, LATE.replace("step.error = error", "pass")),
    Disabling("P12", CLOSING, "                step.error = StepTimeout(step.name, step.within)\n", ""),
    # P13: cleanup goes on
    Disabling("P13", CLOSING, SETTLED, "        return self.state == STEP_DONE\n"),
    # P14: a cancel has no reason on the wire
    Disabling(
        "P14",
        CLIENT,
        '(session.session_id or "")}}}\'))\n        turn = ',
        '(session.session_id or "")},"reason":0}}\'))\n        turn = ',
    ),
    # P15: a cancel without a turn is written
    Disabling(
        "P15",
        CLIENT,
        "        if handle.session_id is None or handle.state == CLOSED:\n",
        "        if handle.session_id is None or handle.state in (CLOSED, IDLE):\n",
    ),
    Disabling("P15", STATE, '    PROMPTING: {"cancel": CANCELLING,', '    PROMPTING: {"cancel": IDLE,'),
    # P16: both facts, the fence, and what follows
    Disabling("P16", CLIENT, "        turn.cancel_asked = by\n", ""),
    Disabling(
        "P16",
        CLIENT,
        '            stop = (get_str(result, "stopReason") or "") if error is None else "cancelled"\n',
        '            stop = "cancelled"\n',
    ),
    Disabling("P16", CLIENT, "        elif session.then == CLOSE:\n", "        elif session.then == REPORT:\n"),
    Disabling(
        "P16", CLIENT, "        if session.then == CLOSE_SESSION and self._state == OPEN:\n", "        if False:\n"
    ),
    Disabling("P16", CLIENT, '            self._check_gate(self.methods["session_close"])\n', "            pass\n"),
    Disabling(
        "P16",
        CLIENT,
        '            if "result" in raw:\n                self._end_session',
        "            if False:\n                self._end_session",
    ),
    Disabling("P16", CLIENT, "                self._emit(events.FenceLifted(", "                (events.FenceLifted("),
    Disabling(
        "P16",
        CLIENT,
        "        session.fenced = request\n        self._settle(",
        "        self._settle(",
    ),
    # P17: one cancellation, the first reason stays
    Disabling(
        "P17", CLIENT, "        if not joins:\n            self._cancel(", "        if True:\n            self._cancel("
    ),
    Disabling(
        "P17", CLIENT, "THEN.index(then) > THEN.index(handle.then)", "THEN.index(then) < THEN.index(handle.then)"
    ),
    Disabling("P17", CLIENT, "        if not joins or THEN.index", "        if THEN.index"),
    # P18: who calls again joins
    Disabling("P18", CLOSING, JOINS, ""),
    # P19: what a step waits for
    Disabling("P19", CLOSING, READY, "False:"),
    Disabling("P19", CLOSING, NEEDS, "            if False and not"),
    Disabling("P19", CLOSING, SETTLED, "        return self.state == STEP_DONE\n"),
    # P20: a runtime that does not settle keeps the credential, for a bounded time
    Disabling("P20", CLOSING, DUE, "False:"),
    Disabling("P20", CLOSING, SUCCEEDED, SUCCEEDED.replace("== STEP_DONE", "in (STEP_DONE, STEP_OVERDUE)")),
    # P21: kept is kept, and no error
    Disabling("P21", CLOSING, KEEP, KEEP + "                step.error = StepTimeout(step.name, 0)\n"),
    Disabling(
        "P21", CLOSING, RELEASED, "        return self.best_effort or self.state not in (STEP_RUNNING, STEP_WAITING)\n"
    ),
    # P22: flat, in order, exceptions only
    Disabling("P22", CLOSING, LEAVES, "[*self._failures.values()]"),
    Disabling("P22", CLOSING, LEAVES, LEAVES + "[::-1]"),
    Disabling(
        "P22",
        CLOSING,
        '            check_type("error", error, Exception, "an Exception or None")\n',
        "            pass\n",
    ),
    # P23: a failed cancel leaves nothing to close
    Disabling("P23", CLOSING, RELEASED, "        return self.state == STEP_DONE\n"),
    Disabling("P23", CLOSING, "        if released:\n", "        if False:\n"),
    # P24: a retry runs what is left
    Disabling("P24", CLOSING, RETRY, "                pass\n"),
    Disabling(
        "P24",
        CLOSING,
        "            elif step.state not in (STEP_WAITING, STEP_DONE):\n",
        "            elif step.state not in (STEP_WAITING, STEP_DONE) and not step.best_effort:\n",
    ),
    # P25: after the attempt before it, and never twice
    Disabling("P25", CLOSING, JOINS, ""),
    Disabling("P25", CLOSING, OVERDUE, OVERDUE.replace('self._run(step, "wait_again")', "step.state = STEP_WAITING")),
    Disabling("P25", CLOSING, OVERDUE, OVERDUE.replace('self._run(step, "wait_again")', "pass")),
    # The bindings keep them too
    Disabling("P10", FRONT, "            self._link.call(self._connection.refuse_turns)\n", ""),
    Disabling("P11", CLOSING, "self.plan.add(AGENT, after=[CANCEL],", "self.plan.add(AGENT,"),
    Disabling("P11", FRONT, "        self._link.call(self.closing.leave_turns)\n", ""),
    Disabling("P12", CLOSING, "deadline=2 * self.grace.cancel)", "deadline=self.grace.cancel / 2)"),
    Disabling("P12", CLOSING, "                errors.append(why)\n", "                pass\n"),
    Disabling("P12", FRONT, "lambda: self.closing.turns_left)", "lambda: self.closing.turns_left, counts=False)"),
    Disabling("P13", CLOSING, "within=grace.cancel, best_effort=True)", "within=100 * grace.cancel)"),
    Disabling("P18", FRONT, "if self._attempt is not None and not self._attempt.over:\n", "if False:\n"),
    Disabling("P20", FRONT, "await self._wake.pause(deadline)", "await self._wake.pause()"),
    Disabling("P22", FRONT, "            raise attempt.error\n", "            pass\n"),
    Disabling(
        "P23",
        CLOSING,
        "return None if [*self.plan.failures] == [CANCEL] else self.plan.error",
        "return self.plan.error",
    ),
    Disabling("P23", FRONT, "        if self.closing.plan.closed:\n", "        if False:\n"),
    Disabling(
        "P24",
        CLOSING,
        "        self._take(now)\n        return self.plan.begin(now)\n",
        "        return self.plan.begin(now)\n",
    ),
    # The model check, by itself
    Disabling("every", CLIENT, REFUSED, "        if self._turns_refused and self.busy_sessions:\n"),
    Disabling("every", CLIENT, NO_ANSWER, NO_ANSWER.replace("no_answer", "turn_over")),
    Disabling(
        "every",
        CLIENT,
        "        if not joins:\n            self._cancel(",
        "        if True:\n            self._cancel(",
    ),
    Disabling("every", CLOSING, JOINS, ""),
    Disabling("every", CLOSING, READY, "False:"),
    Disabling("every", CLOSING, NEEDS, "            if False and not"),
    Disabling("every", CLOSING, SETTLED, "        return self.state == STEP_DONE\n"),
    Disabling("every", CLOSING, DUE, "False:"),
    Disabling("every", CLOSING, STARTED, STARTED.replace("step.within", "2 * step.within")),
    Disabling("every", CLOSING, SUCCEEDED, SUCCEEDED.replace("== STEP_DONE", "in (STEP_DONE, STEP_OVERDUE)")),
    Disabling("every", CLOSING, RELEASED, "        return self.state == STEP_DONE\n"),
    Disabling("every", CLOSING, RETRY, "                pass\n"),
    Disabling("every", CLOSING, OVERDUE, OVERDUE.replace('self._run(step, "wait_again")', "step.state = STEP_WAITING")),
    Disabling("every", CLOSING, OVERDUE, OVERDUE.replace('self._run(step, "wait_again")', "pass")),
    Disabling("every", CLOSING, "        if released:\n", "        if False:\n"),
    Disabling("every", CLOSING, "                step.error = StepTimeout(step.name, step.within)\n", ""),
)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], RULES, DISABLINGS, TESTS, NEEDED))
