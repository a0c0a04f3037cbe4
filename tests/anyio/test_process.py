"""Real processes: the main job, how agents die, and that nothing is left behind."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest

import acp_anyio
import acp_sync
from acp_core import AgentExited, AgentMessageChunk, AgentNotStarted, Noise, PermissionRequested, Policy
from tests.spec.requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX process groups")]
LIMIT = 30.0
ROOT = Path(__file__).parents[2]


def allow(request: PermissionRequested) -> str:
    """Choose the first option."""
    return request.options[0].option_id


def command(kind: str) -> list[str]:
    """How an agent of a kind is started."""
    return [sys.executable, "-m", "tests.anyio.agents", kind]


def alive(pid: int) -> bool:
    """Whether the process exists; a zombie does, so this also tells that it was reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    # A grandchild is reaped by init, in its own time.
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


async def gone(pid: int) -> None:
    """Wait until a process has gone."""
    with anyio.fail_after(LIMIT):
        while alive(pid):
            await anyio.sleep(0.01)


def reaped(pid: int | None) -> bool:
    """Whether our child is no zombie any more."""
    assert pid is not None
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


@requirement(8)
@pytest.mark.parametrize("kind", ["asyncio", "trio"])
async def test_the_main_job(kind: str) -> None:
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(command(kind), permissions=allow, cwd=ROOT) as agent:
            session = await agent.open_session(ROOT)
            text = ""
            async for event in session.prompt("hi"):
                if isinstance(event, AgentMessageChunk):
                    text += event.text
            assert text == "you said: hi (2)"
            assert await session.prompt("x" * (2 << 20)).text() == f"you said: {'x' * 1000} ({2 << 20})"
            assert agent.exit_cause is None
        assert reaped(agent.pid)
        assert agent.exit_cause == "the agent exited with code 0; it wrote nothing to stderr"


async def test_the_example_agent() -> None:
    if importlib.util.find_spec("acp_sync.examples.agent") is None:
        pytest.skip("there is no example agent yet")
    line = f"{sys.executable} -m acp_sync.examples.agent"
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(line, permissions=allow, cwd=ROOT) as agent:
            session = await agent.open_session(ROOT)
            assert await session.prompt("hello").text()


@requirement(4)
async def test_a_stray_print_does_no_harm() -> None:
    noise: list[object] = []

    def on_event(event: object) -> None:
        if isinstance(event, Noise):
            noise.append(event)

    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(command("asyncio"), permissions=allow, cwd=ROOT, on_event=on_event) as agent:
            session = await agent.open_session(ROOT)
            assert await session.prompt("print").text() == "stdin has ''"
        for words in (b"a stray print", b"a stray write", b"a stray child"):
            assert words in agent.stderr_tail
    assert noise == []


async def test_an_agent_that_dies_says_why() -> None:
    heard = bytearray()
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(
            command("asyncio"), permissions=allow, cwd=ROOT, on_stderr=heard.extend
        ) as agent:
            session = await agent.open_session(ROOT)
            with pytest.raises(AgentExited) as caught:
                await session.prompt("die").result()
            assert caught.value.returncode == 3
            assert caught.value.signal is None
            assert caught.value.dispatch == "sent_no_reply"
            assert "exited with code 3" in str(caught.value)
            assert "the model file is corrupt" in str(caught.value)
            with pytest.raises(AgentExited):
                session.prompt("too late")
            assert agent.closed
        assert reaped(agent.pid)
    assert b"the model file is corrupt" in heard


async def test_an_agent_that_is_killed() -> None:
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(command("trio"), permissions=allow, cwd=ROOT) as agent:
            session = await agent.open_session(ROOT)
            with pytest.raises(AgentExited) as caught:
                async for _event in session.prompt("kill"):
                    pass
            assert (caught.value.returncode, caught.value.signal) == (-9, "SIGKILL")
        assert reaped(agent.pid)


async def test_an_agent_that_is_dead_on_arrival() -> None:
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(
            [sys.executable, "-c", "import sys; sys.exit('no api key')"], permissions=allow
        ) as agent:
            with pytest.raises(AgentExited, match="no api key"):
                await agent.open_session("/tmp")


async def test_the_agent_is_dead_and_its_child_holds_stdout() -> None:
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(command("held"), permissions=allow, cwd=ROOT) as agent:
            session = await agent.open_session(ROOT)
            child = int(await session.prompt("child").text())
            with pytest.raises(AgentExited) as caught:
                await session.prompt("die").result()
            assert caught.value.returncode == 3
            assert alive(child)
        await gone(child)


@pytest.mark.parametrize("cwd", [None, "/no/such/directory"])
@pytest.mark.parametrize("wrong", [["/no/such/agent"], "no-such-agent", "", "'unbalanced", [str(ROOT)]])
async def test_an_agent_that_cannot_be_started(wrong: list[str] | str, cwd: str | None) -> None:
    with pytest.raises(AgentNotStarted, match=r"^the agent could not be started") as caught:
        async with acp_anyio.open_agent(wrong, permissions=allow, cwd=cwd):
            pass
    # Both bindings say it in the same words.
    with pytest.raises(AgentNotStarted) as threads:
        acp_sync.open_agent(wrong, permissions=Policy(), cwd=cwd)
    assert str(caught.value) == str(threads.value)


async def test_wrong_options_start_no_process() -> None:
    with pytest.raises(TypeError):
        async with acp_anyio.open_agent(command("asyncio"), permissions=None):  # type: ignore[arg-type]  # on purpose
            pass
    with pytest.raises(ValueError, match="pause_at"):
        async with acp_anyio.open_agent(command("asyncio"), permissions=allow, cwd=ROOT, pause_at=0):
            pass


async def test_the_environment_is_exactly_what_was_given() -> None:
    env = {"ONLY": "this"}
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(command("asyncio"), permissions=allow, cwd=ROOT, env=env) as agent:
            session = await agent.open_session(ROOT)
            names = (await session.prompt("env").text()).split(",")
            # The C library of the interpreter may add its own.
            assert set(names) - {"LC_CTYPE"} == {"ONLY"}


async def said(agent: acp_anyio.Agent, kind: str) -> list[int]:
    """Wait until an agent of this kind is up: the processes that it has named on stderr."""
    while not (agent.stderr_tail.endswith(b"\n") or (kind == "deaf" and agent.stderr_tail)):
        await anyio.sleep(0.01)
    return [int(word) for word in agent.stderr_tail.decode().split() if word.isdigit()]


@requirement(7)
@pytest.mark.parametrize("kind", ["stubborn", "deaf", "family"])
async def test_the_ladder_ends_everything(kind: str) -> None:
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(command(kind), permissions=allow, cwd=ROOT, close_grace=0.3) as agent:
            pids = await said(agent, kind)
            with anyio.move_on_after(0.1):
                await agent.open_session(ROOT)
            begin = time.monotonic()
            await agent.close()
            assert time.monotonic() - begin < 10
        assert reaped(agent.pid)
        assert len(pids) == (kind != "deaf")
        for pid in pids:
            await gone(pid)
    assert len(agent.stderr_tail) <= 64 * 1024


async def test_a_cancelled_caller_leaves_no_process() -> None:
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            pids: list[int] = []
            with anyio.CancelScope() as scope:
                async with acp_anyio.open_agent(
                    command("family"), permissions=allow, cwd=ROOT, close_grace=0.3
                ) as agent:

                    async def cancel_when_up() -> None:
                        pids.extend(await said(agent, "family"))
                        scope.cancel()

                    tasks.start_soon(cancel_when_up)
                    await agent.open_session(ROOT)
        assert scope.cancelled_caught
        assert reaped(agent.pid)
        assert len(pids) == 1
        await gone(pids[0])


async def test_cancelled_while_it_starts() -> None:
    """Cancelled before or right after the process exists: it is gone all the same."""
    before = children()
    for seconds in (0, 0.0001, 0.001, 0.01, 0.05):
        with anyio.move_on_after(seconds):
            async with acp_anyio.open_agent(command("asyncio"), permissions=allow, cwd=ROOT, close_grace=0.5):
                await anyio.sleep_forever()
    assert children() <= before


def children() -> set[int]:
    """Our child processes, zombies included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found


async def test_cancelled_in_the_middle_of_a_write_to_a_pipe() -> None:
    """On trio a cancelled send tears the line: no caller's cancellation may reach it."""
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(command("asyncio"), permissions=allow, cwd=ROOT) as agent:
            session = await agent.open_session(ROOT)
            for seconds in (0.0, 0.001, 0.005, 0.02):
                with anyio.move_on_after(seconds):
                    await session.prompt("y" * (4 << 20)).result()
                while session.state != "idle":
                    await anyio.sleep(0.001)
                assert await session.prompt("still whole?").text() == "you said: still whole? (12)"


async def test_no_descriptor_is_left() -> None:
    async def once() -> None:
        async with acp_anyio.open_agent(command("asyncio"), permissions=allow, cwd=ROOT) as agent:
            session = await agent.open_session(ROOT)
            await session.prompt("hi").result()

    with anyio.fail_after(LIMIT):
        await once()
        before = len(os.listdir("/proc/self/fd"))
        await once()
        assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_serving_sets_no_flag_on_shared_descriptors(kind: str) -> None:
    """The open files of stdin and stdout belong to others too (a terminal, a shell): they stay blocking."""
    reader, ours = os.pipe()
    back, writer = os.pipe()
    process = subprocess.Popen(command(kind), stdin=reader, stdout=writer, cwd=ROOT)
    try:
        os.write(ours, b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n')
        assert b'"protocolVersion":1' in os.read(back, 65536)
        assert os.get_blocking(reader)
        assert os.get_blocking(writer)
    finally:
        os.close(ours)
        assert process.wait(LIMIT) == 0
        for descriptor in (reader, back, writer):
            os.close(descriptor)


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_serving_reads_a_file_and_writes_one(kind: str, tmp_path: Path) -> None:
    """``agent < script > log``: files are always ready, and cannot be polled on every loop."""
    script = tmp_path / "script"
    script.write_bytes(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n')
    log = tmp_path / "log"
    with script.open("rb") as stdin, log.open("wb") as stdout:
        done = subprocess.run(command(kind), stdin=stdin, stdout=stdout, cwd=ROOT, timeout=LIMIT, check=False)
    assert done.returncode == 0
    assert b'"protocolVersion":1' in log.read_bytes()


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_agent_ends_at_sigint_with_stdin_open(kind: str) -> None:
    """The thread that reads stdin does not keep the process."""
    process = subprocess.Popen(
        command(kind), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n')
        process.stdin.flush()
        assert b"protocolVersion" in process.stdout.readline()
        process.send_signal(2)
        process.wait(LIMIT)
        process.stdin.close()


async def test_no_thread_is_left() -> None:
    before = threading.active_count()
    with anyio.fail_after(LIMIT):
        async with acp_anyio.open_agent(command("asyncio"), permissions=allow, cwd=ROOT) as agent:
            await agent.open_session(ROOT)
    # The loop's own worker threads are kept for later use.
    assert threading.active_count() <= before + 2
