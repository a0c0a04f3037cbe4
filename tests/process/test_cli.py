"""The command line, as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.conftest import ROOT, odd

BOUND = 30.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-X", "dev", "-W", "error", "-m", "acp_sync", "run", *arguments]


def odd_run(mode: str, *arguments: str) -> list[str]:
    return command("say hello", "--agent", shlex.join(odd(mode)), *arguments)


def run(argv: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout, stderr; without a terminal."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=BOUND, check=False)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err, err
    return done.returncode, out, err


def test_the_main_job_from_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.chdir(ROOT)
    code, out, err = run(command("say hello"))
    assert code == 0
    assert out == ("Hello! I am the example agent, and you said: say hello\nI was not allowed to look at the clock.\n")
    assert "thought: " in err
    assert "plan: " in err
    assert "tool call-" in err


def test_without_a_terminal_permissions_are_denied_with_a_note() -> None:
    code, out, err = run(command("say hello"))
    assert code == 0
    assert "not allowed" in out
    assert "permission: Look at the clock: Reject (denied, since nobody can be asked; --allow allows" in err


@pytest.mark.parametrize(
    ("choice", "said"), [("--allow", "I looked at the clock."), ("--deny", "I was not allowed to look at the clock.")]
)
def test_choices(choice: str, said: str) -> None:
    code, out, err = run(command("hi", choice))
    assert code == 0
    assert said in out
    assert "nobody can be asked" not in err


def test_a_choice_is_carried_out_on_the_wire() -> None:
    assert '"optionId": "y"' in run(odd_run("permission", "--allow"))[1]
    assert '"optionId": "n"' in run(odd_run("permission", "--deny"))[1]


@pytest.mark.parametrize(
    ("mode", "code", "words"),
    [
        ("stop:end_turn", 0, ""),
        ("stop:max_tokens", 3, "max_tokens"),
        ("stop:max_turn_requests", 4, "max_turn_requests"),
        ("stop:refusal", 5, "refusal"),
        ("stop:invented", 6, "invented"),
        ("stop:cancelled", 130, "cancelled"),
        ("error", 1, "error: the agent answered: it broke (-32603)"),
        ("login", 1, "log in"),
        ("exit", 8, "error: the agent exited with code 3; its stderr ends with: the last words"),
        ("exit-at-start", 8, "error: the agent exited with code 5; its stderr ends with: cannot go on: no key"),
        ("killed", 8, "error: the agent was ended by SIGKILL; it wrote nothing to stderr"),
        ("grandchild", 8, "error: the agent exited with code 4; its stderr ends with: left a child"),
        ("version", 9, "protocol version 99"),
    ],
)
def test_exit_codes(mode: str, code: int, words: str) -> None:
    got, _, err = run(odd_run(mode))
    assert got == code, err
    assert words in err
    failed = code in (1, 7, 8, 9)
    assert sum(line.startswith("error: ") for line in err.splitlines()) == failed


def test_an_agent_that_does_not_start() -> None:
    code, out, err = run(command("hi", "--agent", "no-such-agent --acp"))
    assert (code, out) == (7, "")
    assert err == "error: the agent could not be started: No such file or directory: 'no-such-agent'\n"


def test_an_agent_that_talks_nonsense() -> None:
    code, out, err = run(odd_run("chatter", "--start-timeout", "1"))
    assert (code, out) == (9, "")
    last = err.splitlines()[-1]
    assert last.startswith("error: no answer to the handshake within 1 s; this is no ACP agent")
    assert "it printed: 'Welcome!'" in last
    assert "its stderr ends with: what is this?" in last


def test_an_agent_that_echoes() -> None:
    code, _, err = run(command("hi", "--agent", "cat", "--start-timeout", "2"))
    assert code == 9
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["run"],
        ["run", "hi", "--allow", "--deny"],
        ["run", "hi", "--cwd", "/no/such/directory"],
        ["run", "hi", "--start-timeout", "-1"],
        ["run", "hi", "--ask"],
        ["run", "--agnt", "x", "hi"],
        ["run", "say", "hello"],
        ["walk"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    code, out, err = run([sys.executable, "-m", "acp_sync", *arguments])
    assert (code, out) == (2, "")
    # The usage of what was asked for.
    assert err.startswith(f"usage: python -m acp_sync{' run' if arguments[:1] == ['run'] else ''} [-h]")
    assert "agnt" not in arguments or "no such option: --agnt" in err


def test_help_has_the_exit_codes() -> None:
    code, out, _ = run(command("--help"))
    assert code == 0
    for number in ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "130", "141"):
        assert f"\n    {number} " in out


def test_json_is_one_event_a_line(tmp_path: Path) -> None:
    code, out, _ = run(command("say hello", "--json", "--allow", "--cwd", str(tmp_path)))
    assert code == 0
    events = [json.loads(line) for line in out.splitlines()]
    names = [event["event"] for event in events]
    for name in ("Initialized", "AgentMessageChunk", "ToolCall", "PermissionRequested", "TurnEnded", "ConnectionOver"):
        assert name in names
    ended = events[names.index("TurnEnded")]
    assert ended["stop_reason"] == "end_turn"
    assert ended["session_id"] == "example-1"
    text = "".join(event["text"] for event in events if event["event"] == "AgentMessageChunk")
    assert "I looked at the clock." in text


def test_json_of_an_agent_that_is_noisy_and_dies() -> None:
    for mode, code in (("noise", 0), ("exit", 8)):
        got, out, _ = run(odd_run(mode, "--json"))
        assert got == code
        assert all(json.loads(line)["event"] for line in out.splitlines())


class Started:
    """The command line in a group of its own, with Ctrl-C sent to all of it as a terminal does."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def read_line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=BOUND)
        assert b"Traceback" not in err, err
        return self.process.returncode, err.decode()


def test_ctrl_c_once_cancels_the_turn() -> None:
    started = Started(odd_run("cancellable"))
    assert started.read_line() == b"working\n"
    started.interrupt()
    code, err = started.end()
    assert code == 130
    assert "the turn ended: cancelled" in err


def test_ctrl_c_twice_ends_it() -> None:
    started = Started(odd_run("deaf"))
    assert started.read_line() == b"working\n"
    began = time.monotonic()
    started.interrupt()
    assert started.read_line() == b"ignored\n"
    started.interrupt()
    code, err = started.end()
    assert code == 130
    assert "interrupted" in err
    assert time.monotonic() - began < 10


def test_ctrl_c_with_a_deaf_agent_ends_by_itself() -> None:
    started = Started(odd_run("deaf"))
    assert started.read_line() == b"working\n"
    started.interrupt()
    code, err = started.end()
    assert code == 130
    assert "error: the agent did not react to the cancel" in err


def test_ctrl_c_before_the_turn_ends_it() -> None:
    started = Started(odd_run("chatter"))
    assert started.process.stderr is not None
    assert started.process.stderr.readline() == b"agent: 'Welcome!'\n"
    started.interrupt()
    code, _ = started.end()
    assert code == 130


def test_a_stdout_that_nobody_reads_any_more() -> None:
    started = Started(odd_run("stream"))
    assert started.read_line() == b"0\n"
    assert started.process.stdout is not None
    started.process.stdout.close()
    assert started.process.wait(BOUND) == 141
    assert started.process.stderr is not None
    assert b"Traceback" not in started.process.stderr.read()
    started.process.stderr.close()


def in_terminal(argv: list[str], talk: Callable[[int], None]) -> int:
    """Run with stdin and stderr on a terminal of its own."""
    master, slave = pty.openpty()
    process = subprocess.Popen(argv, stdin=slave, stderr=slave, stdout=subprocess.PIPE, start_new_session=True)
    os.close(slave)
    try:
        talk(master)
        assert process.stdout is not None
        process.stdout.read()
        process.stdout.close()
        return process.wait(BOUND)
    finally:
        process.kill()
        os.close(master)


def read_until(master: int, mark: bytes) -> bytes:
    data = b""
    due = time.monotonic() + BOUND
    while mark not in data:
        assert time.monotonic() < due, data
        if select.select([master], [], [], 1)[0]:
            data += os.read(master, 4096)
    return data


@pytest.mark.parametrize("choice", [[], ["--ask"]])
@pytest.mark.parametrize(("answer", "status"), [(b"1\n", b"completed"), (b"2\n", b"failed"), (b"\n", b"failed")])
def test_a_terminal_is_asked(choice: list[str], answer: bytes, status: bytes) -> None:
    def talk(master: int) -> None:
        asked = read_until(master, b"denies):")
        assert b"1  Allow" in asked
        assert b"2  Reject" in asked
        os.write(master, answer)
        read_until(master, b"tool call-2:  " + status)

    assert in_terminal(command("hi", *choice), talk) == 0


def test_ctrl_c_while_a_terminal_is_asked() -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command("hi"), stdin=slave, stderr=slave, stdout=subprocess.DEVNULL, start_new_session=True
    )
    os.close(slave)
    try:
        read_until(master, b"denies):")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(BOUND) == 130
        assert b"Fatal" not in read_until(master, b"cancelled")
    finally:
        process.kill()
        os.close(master)
