"""Fixtures of tests that start real processes: commands, an environment, and a check that nothing is left behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ODD = Path(__file__).with_name("odd_agent.py")
EXAMPLE = [sys.executable, "-m", "acp_sync.examples.agent"]


def until(ready: Callable[[], object], seconds: float = 20.0) -> None:
    due = time.monotonic() + seconds
    tick = threading.Event()
    while not ready():
        assert time.monotonic() < due, f"not so within {seconds} s"
        tick.wait(0.01)


def alive(pid: int) -> bool:
    """The process runs; a zombie whose parent is not us does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def odd(mode: str) -> list[str]:
    return [sys.executable, str(ODD), mode]


def own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("acp ")}


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Children find the library in the checkout, and are quick."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("ACP_EXAMPLE_DELAY", "0.001")
    monkeypatch.setenv("ODD_PIDS", str(tmp_path / "pids"))


@pytest.fixture(autouse=True)
def nothing_left(environment: None, tmp_path: Path) -> Iterator[None]:
    """No thread, no descriptor and no process stays after a test."""
    threads, files = own_threads(), open_files()
    yield
    until(lambda: own_threads() <= threads, 5)
    until(lambda: open_files() <= files, 5)
    pids = tmp_path / "pids"
    left = [int(pid) for pid in pids.read_text().split()] if pids.exists() else []
    until(lambda: not any(alive(pid) for pid in left), 5)
