"""Real agents, offline, through every binding: hello, a tool allowed and rejected, a cancel while streaming."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.agents import AGENTS, missing, prepare
from tests.interop.drive import COLOURS, Say, converse
from tests.interop.model_server import ModelServer


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("name", sorted(AGENTS))
def test_a_real_agent(name: str, colour: str, tmp_path: Path) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(f"{name} through {colour} did not run: {reason}")
    with ModelServer() as server:
        setup = prepare(name, tmp_path, server.base_url)
        says = [
            Say("[[say hello there]]"),
            Say(setup.shell_prompt, "allow"),
            Say(setup.shell_prompt.replace("made.txt", "rejected.txt"), "reject"),
            Say("[[slow]]", cancel=True),
        ]
        hello, allowed, rejected, slow = converse(colour, setup.command, says, cwd=setup.cwd, env=setup.env)
    assert (hello.text, hello.stop_reason) == ("hello there", "end_turn")
    assert allowed.stop_reason == "end_turn"
    assert len(allowed.asked) == 1
    assert (setup.cwd / "made.txt").exists()
    # One of them takes a rejection for a reason to stop.
    assert rejected.stop_reason in ("end_turn", "cancelled")
    assert len(rejected.asked) == 1
    assert not (setup.cwd / "rejected.txt").exists()
    assert slow.text
    assert slow.stop_reason == "cancelled"
