"""Agents as child processes: how they start, end, are ended, and what callers are told of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import acp_core
import acp_sync
from acp_core import AgentExited, AgentMessageChunk, AgentNotStarted, Event, Policy, RequestError, TurnEnded
from acp_sync.process import Process, split
from tests.process.conftest import EXAMPLE, ROOT, alive, odd, until
from tests.spec.requirements import requirement

ALLOW = Policy({"default": "allow"})
DENY = Policy({"default": "deny"})


@requirement(8)
def test_the_main_job() -> None:
    with acp_sync.open_agent(EXAMPLE, permissions=ALLOW) as agent:
        pid = agent.pid
        assert pid is not None
        assert os.getpgid(pid) == pid
        session = agent.open_session("/tmp")
        events = [*session.prompt("say hello")]
        kinds = [type(event).__name__ for event in events]
        for kind in ("AgentThoughtChunk", "Plan", "AgentMessageChunk", "ToolCall", "PermissionAnswered"):
            assert kind in kinds
        text = "".join(event.text for event in events if isinstance(event, AgentMessageChunk))
        assert "say hello" in text
        assert "I looked at the clock." in text
        ended = events[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.stop_reason == "end_turn"
        assert agent.exit_cause is None
    assert agent.exit_cause == "the agent exited with code 0; it wrote nothing to stderr"
    assert not alive(pid)


def test_the_example_denied_cancelled_loaded_listed_closed() -> None:
    with acp_sync.open_agent(EXAMPLE, permissions=DENY, env={**os.environ, "ACP_EXAMPLE_DELAY": "0.2"}) as agent:
        session = agent.open_session("/tmp")
        turn = session.prompt("hi")
        for event in turn:
            if isinstance(event, AgentMessageChunk):
                break
        began = time.monotonic()
        turn.cancel()
        assert turn.result().stop_reason == "cancelled"
        assert time.monotonic() - began < 2
    with acp_sync.open_agent(EXAMPLE, permissions=DENY) as agent:
        session = agent.open_session("/tmp")
        assert "not allowed" in session.prompt("hi").text()
        assert agent.request("session/list", {}) == {"sessions": [{"sessionId": session.session_id, "cwd": "/tmp"}]}
        session.close()
        again = agent.open_session("/tmp", resume=session.session_id)
        again.close()
        with pytest.raises(RequestError, match="no such session"):
            agent.open_session("/tmp", resume="unknown")


@pytest.mark.parametrize("command", ["/no/such/agent", "no-such-agent-at-all --acp", ["/"], "", "'unclosed", []])
def test_an_agent_that_never_starts(command: str | list[str]) -> None:
    with pytest.raises(AgentNotStarted, match=r"^the agent could not be started") as caught:
        acp_sync.open_agent(command, permissions=DENY)
    assert "\n" not in str(caught.value)


def test_a_directory_that_is_not_there() -> None:
    with pytest.raises(AgentNotStarted, match="in '/no/such/directory'"):
        acp_sync.open_agent(EXAMPLE, permissions=DENY, cwd="/no/such/directory")


def test_wrong_arguments_leave_no_process() -> None:
    with pytest.raises(acp_core.LocalProtocolError):
        acp_sync.open_agent(odd("silent"), permissions=DENY, handlers={"nonsense": lambda request: None})


def test_an_agent_that_ends_at_the_start() -> None:
    with (
        acp_sync.open_agent(odd("exit-at-start"), permissions=DENY) as agent,
        pytest.raises(AgentExited, match="exited with code 5; its stderr ends with: cannot go on: no key") as caught,
    ):
        agent.open_session("/tmp")
    assert caught.value.returncode == 5
    assert caught.value.signal is None


@requirement(6)
def test_an_agent_that_dies_in_a_turn() -> None:
    with acp_sync.open_agent(odd("exit"), permissions=DENY) as agent:
        session = agent.open_session("/tmp")
        turn = session.prompt("hi")
        texts: list[str] = []
        with pytest.raises(AgentExited) as caught:
            texts.extend(event.text for event in turn if isinstance(event, AgentMessageChunk))
        assert texts == ["half an ans"]
        assert caught.value.returncode == 3
        assert caught.value.stderr_tail == b"the last words\n"
        assert caught.value.dispatch == "sent_no_reply"
        assert agent.stderr_tail == b"the last words\n"
        # Later calls say the same.
        with pytest.raises(AgentExited, match="code 3"):
            session.prompt("again")
        with pytest.raises(AgentExited, match="code 3"):
            agent.open_session("/tmp")


def test_an_agent_that_is_killed_in_a_turn() -> None:
    with acp_sync.open_agent(odd("killed"), permissions=DENY) as agent:
        turn = agent.open_session("/tmp").prompt("hi")
        with pytest.raises(AgentExited, match="was ended by SIGKILL") as caught:
            turn.result()
        assert caught.value.signal == "SIGKILL"
        assert caught.value.returncode == -9


def test_a_grandchild_that_holds_the_pipes_holds_up_nobody() -> None:
    with acp_sync.open_agent(odd("grandchild"), permissions=DENY) as agent:
        turn = agent.open_session("/tmp").prompt("hi")
        began = time.monotonic()
        with pytest.raises(AgentExited, match="code 4"):
            turn.result()
        assert time.monotonic() - began < 10


@requirement(7)
def test_an_agent_that_heeds_nothing_is_killed_with_its_children() -> None:
    with acp_sync.open_agent(odd("stubborn"), permissions=DENY, close_grace=0.3) as agent:
        agent.open_session("/tmp")
        pid = agent.pid
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert pid is not None
    assert not alive(pid)
    assert agent.exit_cause is not None
    assert "SIGKILL" in agent.exit_cause


def test_the_last_words_of_an_agent_that_does_not_read_are_heard() -> None:
    with acp_sync.open_agent(odd("last-error"), permissions=DENY) as agent:
        session = agent.open_session("/tmp")
        turn = session.prompt("hi")
        # Its input is closed: these writes fail, and reading goes on all the same.
        with contextlib.suppress(acp_core.ACPError):
            for _ in range(100):
                agent.notify("_x/filler", {"data": "x" * 10_000})
                threading.Event().wait(0.001)
        with pytest.raises(RequestError, match="out of credit"):
            turn.result()


@requirement(6)
def test_a_flood_on_stderr_blocks_nobody() -> None:
    seen = 0

    def count(data: bytes) -> None:
        nonlocal seen
        seen += len(data)
        if seen == len(data):
            raise RuntimeError("contained")

    with acp_sync.open_agent(odd("stderr-flood"), permissions=DENY, on_stderr=count) as agent:
        assert agent.open_session("/tmp").prompt("hi").result().stop_reason == "end_turn"
        until(lambda: agent.stderr_tail.endswith(b"the end of it\n"))
        assert len(agent.stderr_tail) == 64 * 1024
    assert seen == 64 * 65536 + 14


def test_eight_megabytes_to_an_agent_and_back() -> None:
    with acp_sync.open_agent(EXAMPLE, permissions=ALLOW, env={**os.environ, "ACP_EXAMPLE_DELAY": "0"}) as agent:
        text = "x" * (8 * 1024 * 1024)
        assert text in agent.open_session("/tmp").prompt(text).text()


def test_many_agents_leave_nothing() -> None:
    for _ in range(3):
        agents = [acp_sync.open_agent(EXAMPLE, permissions=DENY) for _ in range(3)]
        for agent in agents:
            agent.initialize()
        for agent in agents:
            agent.close()
            agent.close()
            assert agent.pid is not None
            assert not alive(agent.pid)


def test_an_interrupt_while_closing_leaves_nothing() -> None:
    agent = acp_sync.open_agent(odd("stubborn"), permissions=DENY, close_grace=20)
    agent.open_session("/tmp")

    def interrupt() -> None:
        until(lambda: agent.closing.begun)
        threading.Event().wait(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        agent.close()
    thread.join()
    assert time.monotonic() - began < 10
    assert agent.pid is not None
    assert not alive(agent.pid)


OWNER = """
import sys, acp_core, acp_sync
agent = acp_sync.open_agent({command!r}, permissions=acp_core.Policy({{"default": "deny"}}))
agent.open_session("/tmp")
print(agent.pid, flush=True)
{end}
"""


@pytest.mark.parametrize(
    "end",
    [
        "",
        "raise ValueError('an owner that fails')",
        "sys.exit(0)",
        "del agent; import gc; gc.collect(); sys.stdin.read()",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT); sys.stdin.read()",
    ],
)
def test_an_owner_that_does_not_close_leaves_no_process(end: str) -> None:
    script = OWNER.format(command=odd("stubborn"), end=end)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        if "stdin" in end and "kill" not in end:
            until(lambda: not alive(pid))
        _, errors = owner.communicate(b"", timeout=20)
    assert not alive(pid)
    assert b"Fatal" not in errors


def test_a_forked_child_that_ends_leaves_the_agent_alone() -> None:
    script = textwrap.dedent(
        f"""
        import os, sys, acp_core, acp_sync
        agent = acp_sync.open_agent({EXAMPLE!r}, permissions=acp_core.Policy({{"default": "deny"}}))
        agent.initialize()
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        agent.open_session("/tmp")
        agent.close()
        print("fine")
        """
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, timeout=30, check=True)
    assert done.stdout == b"fine\n"


STRAY = """
import os, subprocess, sys
print("before serve")
import acp_sync

class Stray:
    def prompt(self, turn):
        print("a stray print")
        os.write(1, b"a stray write\\n")
        subprocess.run(["echo", "a stray child"])
        turn.send(f"stdin gives {sys.stdin.read()!r}")

acp_sync.serve(Stray())
print("after serve")
"""


@requirement(4)
def test_a_stray_print_does_not_corrupt_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a buffer, what is printed before serve() has left before anything can be done about it.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    events: list[Event] = []
    with acp_sync.open_agent([sys.executable, "-c", STRAY], permissions=DENY, on_event=events.append) as agent:
        assert agent.open_session("/tmp").prompt("hi").text() == "stdin gives ''"
    names = {type(event).__name__ for event in events}
    assert "Noise" not in names
    assert "Malformed" not in names
    for text in (b"before serve", b"a stray print", b"a stray write", b"a stray child", b"after serve"):
        assert text in agent.stderr_tail


def test_serve_leaves_the_mode_of_its_descriptors_alone() -> None:
    reader, writer = os.pipe()
    out_reader, out_writer = os.pipe()
    with subprocess.Popen(EXAMPLE, stdin=reader, stdout=out_writer) as agent:
        os.write(writer, b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
        assert os.read(out_reader, 65536).startswith(b'{"jsonrpc":"2.0","id":1')
        assert os.get_blocking(reader)
        assert os.get_blocking(out_writer)
        os.close(writer)
        assert agent.wait(10) == 0
    for end in (reader, out_reader, out_writer):
        os.close(end)


def test_noise_is_an_event() -> None:
    events: list[Event] = []
    with acp_sync.open_agent(odd("noise"), permissions=DENY, on_event=events.append) as agent:
        assert agent.open_session("/tmp").prompt("hi").text() == "heard"
    assert [event.text for event in events if isinstance(event, acp_core.Noise)] == ["just some text"]


def test_the_environment_is_inherited_or_exactly_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_MARK", "1")
    script = "import os, sys; sys.stderr.write(repr(sorted(os.environ)))"
    tails: list[bytes] = []
    for env in (None, {"ONLY": "this"}):
        process = Process([sys.executable, "-c", script], env=env)
        process.end()
        process.kill()
        process.transport.close()
        tails.append(process.stderr_tail)
    assert b"ODD_MARK" in tails[0]
    assert b"ONLY" in tails[1]
    assert b"ODD_MARK" not in tails[1]


def test_split(monkeypatch: pytest.MonkeyPatch) -> None:
    assert split("""a 'b c' "d" e\\ f # g""") == ["a", "b c", "d", "e f", "#", "g"]
    monkeypatch.setattr("acp_sync.process.os.name", "nt")
    assert split("""C:\\dir\\agent.cmd "C:\\Program Files\\x" """) == ["C:\\dir\\agent.cmd", "C:\\Program Files\\x"]


def test_the_working_directory_of_the_process(tmp_path: Path) -> None:
    script = "import os, sys; sys.stderr.write(os.getcwd())"
    process = Process([sys.executable, "-c", script], cwd=tmp_path)
    process.end()
    process.kill()
    process.transport.close()
    assert process.stderr_tail.decode() == str(tmp_path)
    assert process.exit_cause is not None
    assert ROOT.exists()
