"""Two linked cores under hypothesis: both roles, any chunking, delays, cancels, deadlines and ends (linked.py).

``python -m tests.core.test_state_machine --examples 5000`` runs it for longer, with new random choices each time.
"""

from __future__ import annotations

import argparse

import pytest

from tests.core.checks import run_machine
from tests.core.linked import REAL

# Where the runs start, how many there are, and what they have to have seen: a machine that never gets anywhere proves
# nothing.
RUNS = [
    (
        "",
        40,
        "AnswerUnmatched CancelRequested ConnectionOver Initialized NotificationReceived PermissionAnswered "
        "PromptRequested PromptSent RequestAbandoned RequestSettled SessionReady TurnCancelReceived TurnEnded "
        "TurnFailed",
    ),
    ("asking", 20, "PermissionRequested PermissionAnswered PromptSent RequestSettled TurnEnded"),
    ("fenced", 20, "SessionFenced FenceLifted AnswerUnmatched TurnFailed TurnCancelReceived"),
    ("loaded", 20, "LoadSessionRequested ReplayDiscarded AvailableCommandsUpdate SessionReady"),
]


@pytest.mark.parametrize(("first", "examples", "reached"), RUNS, ids=[run[0] or "anywhere" for run in RUNS])
def test_two_linked_cores(first: str, examples: int, reached: str) -> None:
    seen = run_machine(REAL, examples, 50, first=first).seen
    assert not [name for name in reached.split() if not seen[name]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    for name, count in sorted(run_machine(REAL, options.examples, options.steps, derandomize=False).seen.items()):
        print(f"{count:8} {name}")


if __name__ == "__main__":
    main()
