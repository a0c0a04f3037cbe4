"""Heavy loads: bounded memory, order kept, nobody hangs; clean in Python's development mode with warnings as errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.load import LOADS, MIB

ROOT = Path(__file__).resolve().parents[2]
# The colours of the shipped bindings, and the one of docs/writing-a-binding.md.
COLOURS = ["asyncio", "trio", "threads", "page"]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("load", LOADS)
def test_load(load: str, colour: str) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-m", "tests.contract.load", load, colour]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    found = json.loads(done.stdout)
    # Processor time, which says the same on a busy machine; without load the wait is about as long.
    assert found["cpu"] < 15
    assert found.get("grown", 0) < 32 * MIB
