"""Two linked cores under hypothesis: both roles, any chunking, delays, cancels, deadlines and ends (linked.py).

``python -m tests.core.test_state_machine --examples 5000`` runs it for longer, with new random choices each time.
"""

from __future__ import annotations

import argparse

from tests.core.checks import run_machine
from tests.core.linked import REAL

# A machine that never gets there proves nothing: what the run has to have seen.
REACHED = (
    "AgentMessageChunk",
    "AnswerUnmatched",
    "AuthenticateRequested",
    "CancelRequested",
    "CloseSessionRequested",
    "ConnectionOver",
    "FenceLifted",
    "Initialized",
    "LoadSessionRequested",
    "NotificationReceived",
    "PermissionAnswered",
    "PermissionRequested",
    "PromptSent",
    "ReplayDiscarded",
    "RequestAbandoned",
    "RequestReceived",
    "RequestRefused",
    "RequestSettled",
    "ResumeSessionRequested",
    "SessionClosed",
    "SessionFailed",
    "SessionFenced",
    "SessionReady",
    "SetConfigOptionRequested",
    "SetModeRequested",
    "ToolCall",
    "TurnCancelReceived",
    "TurnEnded",
    "TurnFailed",
    "UnknownUpdate",
    "WriteFailed",
)


def test_two_linked_cores() -> None:
    seen = run_machine(REAL, 80, 50).seen
    assert not [name for name in REACHED if not seen[name]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    for name, count in sorted(run_machine(REAL, options.examples, options.steps, derandomize=False).seen.items()):
        print(f"{count:8} {name}")


if __name__ == "__main__":
    main()
