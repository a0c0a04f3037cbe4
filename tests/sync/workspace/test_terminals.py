"""Commands: output, exit status, and what is left of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_core import LocalProtocolError, RequestError
from acp_core.errors import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from acp_sync.workspace import Terminals
from acp_sync.workspace.terminals import Output, Terminal, exit_status
from tests.spec.requirements import requirement

LIMIT = 20.0


@pytest.fixture
def terminals() -> Iterator[Terminals]:
    """Terminals that leave nothing behind."""
    found = Terminals(max_terminals=4)
    yield found
    found.close()
    found.join(LIMIT)


def run(terminals: Terminals, code: str, *, limit: int | None = None, env: dict[str, str] | None = None) -> Terminal:
    command = [sys.executable, "-c", code]
    return terminals.get("s1", terminals.create("s1", command, "/tmp", env or {}, limit))


def ended(terminal: Terminal) -> dict[str, object]:
    status = terminal.wait(LIMIT)
    assert status is not None
    return status


def gone(pid: int) -> bool:
    """Whether no process of a group is left, within the limit."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.005)
    return False


# ── Output ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(100)
@pytest.mark.parametrize(
    ("limit", "expected", "truncated"),
    [
        (7, "aé€x", False),
        (6, "é€x", True),
        (5, "€x", True),
        (4, "€x", True),
        (3, "x", True),
        (1, "x", True),
        (0, "", True),
    ],
)
def test_the_beginning_goes_at_a_character(limit: int, expected: str, truncated: bool) -> None:
    for size in (1, 3, 100):
        output = Output(limit)
        data = "aé€x".encode()
        for start in range(0, len(data), size):
            output.add(data[start : start + size])
        assert output.text(complete=True) == expected
        assert output.truncated is truncated


def test_a_character_whose_end_has_not_come_is_left_out() -> None:
    output = Output(100)
    output.add("a€".encode()[:-1])
    assert output.text(complete=False) == "a"
    assert output.text(complete=True) == "a\N{REPLACEMENT CHARACTER}"
    output.add("€".encode()[-1:])
    assert output.text(complete=False) == "a€"
    assert not output.truncated


@pytest.mark.parametrize("size", range(12))
def test_what_is_no_text_stays_below_the_limit(size: int) -> None:
    output = Output(10)
    output.add(b"\xff\x80" * size)
    text = output.text(complete=True)
    assert len(text.encode()) <= 10
    assert output.truncated is (size * 6 > 10)
    assert set(text) <= {"\N{REPLACEMENT CHARACTER}"}


def test_stdout_and_stderr_are_one_output_and_stdin_is_empty(terminals: Terminals) -> None:
    code = (
        "import os, sys; os.write(1, b'one '); os.write(2, b'two '); os.write(1, repr(sys.stdin.read()).encode()); "
        "os.write(1, os.environ['MORE'].encode() + os.getcwd().encode())"
    )
    terminal = run(terminals, code, env={"MORE": " three "})
    assert ended(terminal) == {"exitCode": 0, "signal": None}
    assert terminal.output.text(complete=True) == f"one two '' three {os.path.realpath('/tmp')}"


@requirement(100)
def test_a_flood_keeps_its_end(terminals: Terminals) -> None:
    code = "import sys; sys.stdout.write('0123456789' * 500_000 + 'end')"
    terminal = run(terminals, code, limit=1000)
    ended(terminal)
    text = terminal.output.text(complete=True)
    assert len(text) == 1000
    assert text.endswith("6789end")
    assert terminal.output.truncated


def test_the_agent_cannot_ask_for_more_than_is_kept() -> None:
    terminals = Terminals(max_output_bytes=10)
    terminal = run(terminals, "print('x' * 100)", limit=10**12)
    ended(terminal)
    assert len(terminal.output.text(complete=True)) == 10
    terminals.close()
    terminals.join(LIMIT)


# ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_exit_status() -> None:
    assert exit_status(0) == {"exitCode": 0, "signal": None}
    assert exit_status(255) == {"exitCode": 255, "signal": None}
    assert exit_status(-15) == {"exitCode": None, "signal": "SIGTERM"}
    assert exit_status(-250) == {"exitCode": None, "signal": "SIG250"}


def test_codes_and_signals(terminals: Terminals) -> None:
    assert ended(run(terminals, "raise SystemExit(7)")) == {"exitCode": 7, "signal": None}
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert ended(run(terminals, code)) == {"exitCode": None, "signal": "SIGTERM"}


@requirement(103)
def test_kill_keeps_output_and_status(terminals: Terminals) -> None:
    terminal = run(terminals, "import time; print('begun', flush=True); time.sleep(600)")
    end = time.monotonic() + LIMIT
    while terminal.output.text(complete=False) != "begun\n":
        assert time.monotonic() < end
        time.sleep(0.005)
    assert terminal.status is None
    terminal.kill()
    assert ended(terminal) == {"exitCode": None, "signal": "SIGKILL"}
    terminal.kill()
    assert terminal.output.text(complete=True) == "begun\n"


@requirement(103)
def test_release_ends_the_whole_group_and_the_id(terminals: Terminals) -> None:
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    terminal_id = terminals.create("s1", [sys.executable, "-c", child], "/tmp", {}, None)
    terminal = terminals.get("s1", terminal_id)
    # The command has ended, and what it started runs on and holds the output open.
    assert ended(terminal) == {"exitCode": 0, "signal": None}
    os.killpg(terminal.pid, 0)
    terminals.release("s1", terminal_id)
    assert gone(terminal.pid)
    terminals.join(LIMIT)
    assert not terminal.alive
    for call in (terminals.get, terminals.release):
        with pytest.raises(RequestError) as caught:
            call("s1", terminal_id)
        assert caught.value.code == RESOURCE_NOT_FOUND


def test_who_waits_is_told_of_a_release(terminals: Terminals) -> None:
    terminal_id = terminals.create("s1", ["sleep", "600"], "/tmp", {}, None)
    terminal = terminals.get("s1", terminal_id)
    terminals.release("s1", terminal_id)
    assert ended(terminal) == {"exitCode": None, "signal": "SIGKILL"}


def test_close_ends_everything(terminals: Terminals) -> None:
    running = [run(terminals, "import time; time.sleep(600)") for _ in range(3)]
    terminals.close()
    terminals.close()
    terminals.join(LIMIT)
    assert all(gone(terminal.pid) for terminal in running)
    assert not any(terminal.alive for terminal in running)
    with pytest.raises(RequestError) as caught:
        run(terminals, "")
    assert caught.value.code == INTERNAL_ERROR


def test_nothing_stays_open() -> None:
    def once() -> None:
        terminals = Terminals()
        ended(run(terminals, "print('x')"))
        terminals.close()
        terminals.join(LIMIT)

    once()
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        once()
    assert len(os.listdir("/dev/fd")) == before


# ── Bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_so_many_and_no_more(terminals: Terminals) -> None:
    ids = [terminals.create("s1", ["sleep", "600"], "/tmp", {}, None) for _ in range(4)]
    assert len(set(ids)) == 4
    with pytest.raises(RequestError) as caught:
        terminals.create("s1", ["sleep", "600"], "/tmp", {}, None)
    assert caught.value.code == INVALID_PARAMS
    terminals.release("s1", ids[0])
    assert terminals.create("s1", ["true"], "/tmp", {}, None) not in ids


def test_a_session_has_its_own(terminals: Terminals) -> None:
    terminal_id = terminals.create("s1", ["true"], "/tmp", {}, None)
    with pytest.raises(RequestError):
        terminals.get("s2", terminal_id)


@pytest.mark.parametrize("command", [["/no/such/program"], ["/tmp"], ["a\0b"], [""]])
def test_what_cannot_be_started(terminals: Terminals, command: list[str], tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(RequestError) as caught:
        terminals.create("s1", command, str(tmp_path), {}, None)
    assert caught.value.code == INVALID_PARAMS
    assert len(os.listdir("/dev/fd")) == before


def test_bounds_are_positive() -> None:
    with pytest.raises(LocalProtocolError):
        Terminals(max_output_bytes=0)
    with pytest.raises(LocalProtocolError):
        Terminals(max_terminals=0)
