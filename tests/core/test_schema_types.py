"""The generated types and the builders, as type checkers see them: misspelt fields are errors, results are known."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.interop.agents import install_pinned, missing

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "spec" / "typing_cases.txt"


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "typing_cases.py"
    path.write_text(CASES.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def wanted() -> set[int]:
    lines = CASES.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# E")}


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_finds_every_misspelling_and_nothing_else(cases: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    command += ["--no-pretty", "--hide-error-context", "--explicit-package-bases", str(cases)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert done.returncode == 1, done.stdout + done.stderr
    assert {int(line.split(".py:")[1].split(":")[0]) for line in errors} == wanted(), done.stdout


def test_pyright_finds_every_misspelling_and_nothing_else(cases: Path) -> None:
    settings: dict[str, object] = {"include": [str(cases)], "extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
    settings |= {"pythonVersion": "3.11", "reportUnusedExpression": False, "reportUnusedVariable": False}
    project = cases.parent / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    reason = missing()
    if reason is not None:
        pytest.skip(f"pyright did not check the generated types: {reason}")
    pyright = install_pinned("pyright", "pyright") / "node_modules" / ".bin" / "pyright"
    command = [str(pyright), "--outputjson", "--pythonpath", sys.executable, "-p", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = {entry["range"]["start"]["line"] + 1 for entry in found if entry["severity"] == "error"}
    assert errors == wanted(), done.stdout
