"""Fixtures of the threads binding: a peer by hand, and a check that nothing is left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from tests.sync.peer import Peer, until


def own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("acp ")}


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No thread and no descriptor stays after a test."""
    threads, files = own_threads(), open_files()
    yield
    until(lambda: own_threads() <= threads, 5)
    until(lambda: open_files() <= files, 5)


@pytest.fixture
def peer(nothing_left: None) -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()
