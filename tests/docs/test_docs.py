"""The documentation is true: code blocks run, links lead somewhere, made pages are fresh."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import acp_core

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
ANY_BLOCK = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
TEST_NAME = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def blocks() -> list[object]:
    """Every Python block of the documentation, with where it stands."""
    found: list[object] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(pytest.param(match.group(1), id=f"{page.name}:{line}"))
    return found


def run_python(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a block as a user would, from a file of its own, with the checkout importable and no input."""
    script = tmp_path / "block.py"
    script.write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    # `python` in a documented command is the interpreter that runs the tests.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    return subprocess.run(
        [sys.executable, str(script)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env=environment,
    )


@pytest.mark.parametrize("code", blocks())
def test_every_code_block_runs(code: str, tmp_path: Path) -> None:
    done = run_python(code, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_pages_import_what_is_public() -> None:
    assert acp_core.__doc__ is not None
    said = re.findall(r"``(acp_core\.\w+)``(?:,? \(?with ([^:)]*))?", acp_core.__doc__)
    public = {"acp_core"} | {name for name, _ in said}
    public |= {f"{name}.{below}" for name, rest in said for below in re.findall(r"``(\w+)``", rest)}
    assert {"acp_core.schema.validation", "acp_core.front.client", "acp_core.testing.strategies"} <= public
    for page in PAGES:
        for code in BLOCK.findall(page.read_text(encoding="utf-8")):
            for name in re.findall(r"(?:from|import) (acp_core[\w.]*)", code):
                assert name in public, f"{page.name} imports {name}"
        for name in re.findall(r"`(acp_core\.[a-z_.]+)`", page.read_text(encoding="utf-8")):
            assert name in public | {"acp_core.state"}, f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(ANY_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("tool", ["generate_docs.py"])
def test_made_pages_are_fresh(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "tools" / tool), "--check"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_named_tests_exist() -> None:
    for page in PAGES:
        for path, name in TEST_NAME.findall(page.read_text(encoding="utf-8")):
            source = ROOT / path
            assert source.exists(), f"{page.name} names {path}, which is not there"
            assert re.search(rf"def {name}\b", source.read_text(encoding="utf-8")), f"no test {name} in {path}"


def test_every_rule_that_is_named_can_be_looked_up() -> None:
    rules = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    coverage = (ROOT / "docs" / "spec-coverage.md").read_text(encoding="utf-8")
    named = 0
    for path in (path for package in ("acp_core", "acp_sync", "acp_anyio") for path in (ROOT / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\b(spec|peer|hosts)\.md\b", text), f"{path.name} names a page that is not there"
        for numbers in re.findall(r"spec rules? ([\d, ]+(?:(?:and|to) \d+)*)", text):
            for number in re.findall(r"\d+", numbers):
                assert f"\n| {number} | " in coverage, f"{path.name} names spec rule {number}"
        for rule in re.findall(r"(?:client|host) rules? ([A-Z]\d+)", text):
            named += 1
            assert f"\n| {rule} | " in rules, f"{path.name} names rule {rule}"
    assert named > 20


def test_every_decision_has_its_test() -> None:
    rows = [
        line
        for line in (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| the protocol"))
    ]
    assert len(rows) >= 17
    for row in rows:
        assert TEST_NAME.search(row), f"a decision without a test: {row}"


def test_every_code_block_type_checks(tmp_path: Path) -> None:
    """What the documentation shows is clean under mypy --strict, as a user would have it."""
    for number, page in enumerate(PAGES):
        for index, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8"))):
            name = page.stem.replace("-", "_").lower()
            (tmp_path / f"block_{number}_{name}_{index}.py").write_text(match.group(1), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), "."],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
