"""Owners that are killed at any moment, and the next ones that take over: real processes, a real SIGKILL.

``python tests/process/restart.py 200`` kills 200 of them.
"""

from __future__ import annotations

import pytest

from tests.process.restart import Stage, run, stage

KILLED = -9
# The writes of an owner whose turn begins with a question: (1) what it starts from, (2, 3) a step and the newline that
# ends a half line, (4, 5) what the tail adds and what was found, (6, 7) a step and the prompt, (8) the question's line,
# (9, 10) a step and the answer, (11) the lines that follow.
PROMPT_WRITE, LINES_WRITE, STEP_WRITE, ANSWER_WRITE, MORE_LINES_WRITE = 7, 8, 9, 10, 11


def test_owners_are_killed_at_random_points_of_a_turn() -> None:
    counts = run(25, seed=7, seconds=40.0)
    assert counts.kills >= 5
    assert counts.questions >= 5


def found(made: Stage) -> dict[str, object]:
    return made.comparisons()[-1]


@pytest.mark.parametrize(
    ("crash", "cut", "torn"),
    [
        # The prompt's bytes did not leave, half of them did, all of them did.
        (PROMPT_WRITE, 0, 0),
        (PROMPT_WRITE, 500, 1),
        (PROMPT_WRITE, 1000, 0),
        # The question was half stored.
        (LINES_WRITE, 500, 0),
        # The step with the answer was half stored; it was stored, and the answer did not leave.
        (STEP_WRITE, 500, 0),
        (STEP_WRITE, 1000, 0),
        # The answer did not leave; half of it did; all but its line end did; all of it did, and nothing else.
        (ANSWER_WRITE, 0, 0),
        (ANSWER_WRITE, 500, 1),
        (ANSWER_WRITE, 999, 0),
        (ANSWER_WRITE, 1000, 0),
    ],
)
def test_a_question_is_answered_once_wherever_its_owner_died(crash: int, cut: int, torn: int) -> None:
    with stage() as made:
        text = "wait lines 2 ask 9"
        assert made.owner(1, text, crash=crash, cut=cut) == KILLED
        assert made.owner(1, text) == 0
        assert (made.questions(), made.answers(), made.torn()) == (1, 1, torn)
        made.check()


def test_a_gap_is_said_to_be_possible_when_more_was_missed_than_the_relay_keeps() -> None:
    with stage() as made:
        # It dies before it has stored anything of the turn, and the agent says 40 KiB to nobody.
        assert made.owner(1, "big 40", crash=LINES_WRITE, cut=0) == KILLED
        made.wait_for(lambda: len(made.read("said")) == 2 + 40 + 1)
        assert made.owner(1, "big 40") == 0
        comparison = found(made)
        assert (comparison["gap"], comparison["overlap"], comparison["ambiguous"]) == (True, 0, False)
        # What the relay still had is stored, once, behind what was stored before.
        said, stored = made.read("said"), made.read("lines")
        assert stored[:2] == said[:2]
        assert stored[2:] == said[-len(stored) + 2 :]
        assert 10 < len(stored) < len(said)


def test_equal_neighbours_are_said_to_be_ambiguous() -> None:
    with stage() as made:
        # A few of 200 equal lines are stored; the tail has more than 100 of them, and nothing tells which.
        text = "wait equal 200"
        assert made.owner(1, text, crash=MORE_LINES_WRITE, cut=1000) == KILLED
        made.wait_for(lambda: len(made.read("said")) == 2 + 1 + 200 + 1)
        assert len(made.read("lines")) > 3 + 2
        assert made.owner(1, text) == 0
        comparison = found(made)
        assert (comparison["ambiguous"], comparison["gap"]) == (True, False)
        assert comparison["overlap"] != 0


def test_an_owner_that_comes_late_finds_the_turn_ended() -> None:
    with stage() as made:
        text = "big 3"
        assert made.owner(1, text, crash=PROMPT_WRITE, cut=1000) == KILLED
        made.wait_for(lambda: len(made.read("said")) == 2 + 3 + 1)
        assert made.owner(1, text) == 0
        made.check()
        # And the one that comes after a finished turn has nothing to do.
        assert made.owner(1, text) == 0
        made.check()
        assert sum(b'"session/prompt"' in line for line in made.read("heard")) == 1
