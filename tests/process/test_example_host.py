"""The example host as a real process: kept on disk, killed between any two writes, files that are none."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import TextContentBlock

from acp_core import AgentMessageChunk, ConnectionClosed, Policy, RequestError
from acp_sync import Agent, Session, open_agent
from tests.interop.agents import install_pinned

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "tests" / "interop" / "sdk_client.mjs"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
BOUND = 60.0


def command(state: Path, delay: float = 0.001) -> list[str]:
    return [sys.executable, "-m", "acp_sync.examples.host", "--state", str(state), "--delay", str(delay)]


def started(state: Path, delay: float = 0.001, **environment: str) -> Any:
    return open_agent(
        command(state, delay), permissions=Policy({"default": "deny"}), env={**ENVIRONMENT, **environment}
    )


def link(path: object) -> dict[str, object]:
    uri = path if isinstance(path, str) else f"file://{path}"
    return {"type": "resource_link", "name": "link", "uri": uri}


def said(session: Session, text: str) -> str:
    return session.prompt(text).text()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Agent]:
    with started(tmp_path / "state") as agent:
        yield agent


# ── A session, and after a restart ──────────────────────────────────────────────────────────────────────────────────


def test_a_session_lives_on_after_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with started(state) as agent:
        session = agent.open_session("/work")
        session_id = session.session_id
        assert said(session, "one two") == "You said: one two "
    with started(state) as agent:
        agent.initialize()
        listed = agent.request("session/list")
        assert isinstance(listed, dict)
        assert listed["sessions"] == [{"sessionId": session_id, "cwd": "/work", "title": "one two"}]
        again = agent.open_session("/work", resume=session_id)
        assert said(again, "three") == "You said: three "
        again.close()
        with pytest.raises(RequestError) as gone:
            agent.open_session("/work", resume="nobody's")
        assert gone.value.code == -32602


def test_a_long_answer_is_cancelled(host: Agent) -> None:
    session = host.open_session("/work")
    turn = session.prompt("/wait")
    for event in turn:
        if isinstance(event, AgentMessageChunk):
            turn.cancel(deadline=BOUND)
    assert turn.result().stop_reason == "cancelled"
    assert said(session, "again") == "You said: again "


def test_close_stops_the_turn(host: Agent) -> None:
    session = host.open_session("/work")
    turn = session.prompt("/wait")
    session.close()
    assert turn.result().stop_reason == "cancelled"


def test_revised_text_and_questions_fail_the_prompt_only(host: Agent) -> None:
    session = host.open_session("/work")
    for text, code in (("/revise it", "unsupported_stream_revision"), ("/ask me", "unsupported_interaction")):
        with pytest.raises(RequestError) as found:
            session.prompt(text).result()
        assert isinstance(found.value.data, dict) and found.value.data["code"] == code
    assert said(session, "fine") == "You said: fine "


def test_several_clients_at_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with started(state) as one, started(state) as other:
        session = one.open_session("/work")
        turn = session.prompt("/wait")
        iterator = iter(turn)
        while not isinstance(next(iterator), AgentMessageChunk):
            pass
        same = other.open_session("/work", resume=session.session_id)
        with pytest.raises(RequestError) as found:
            same.prompt("me too").result()
        assert isinstance(found.value.data, dict) and "another turn" in str(found.value.data["reason"])
        # The other client's cancel is for what the session shows: the turn ends, and nobody here has cancelled it.
        same.cancel()
        assert turn.result().stop_reason == "end_turn"
        assert said(same, "now me") == "You said: now me "


# ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def refused(agent: Agent, block: dict[str, object]) -> object:
    """Why a link was refused."""
    session = agent.open_session("/work")
    with pytest.raises(RequestError) as found:
        session.prompt([block]).result()
    assert found.value.code == -32602
    assert isinstance(found.value.data, dict)
    return found.value.data["reason"]


def test_a_file_is_attached(host: Agent, tmp_path: Path) -> None:
    file = tmp_path / "a file.bin"
    file.write_bytes(os.urandom(200_000))
    session = host.open_session("/work")
    text = session.prompt([{"type": "text", "text": "see"}, link(f"file://{tmp_path}/a%20file.bin")]).text()
    assert "Attached: link (200000 bytes, " in text
    with sqlite3.connect(tmp_path / "state" / "host.db") as db:
        ((data, complete),) = db.execute("SELECT data, complete FROM artifacts").fetchall()
    db.close()
    assert data == file.read_bytes() and complete == 1


def test_a_fifo_is_no_file_and_nothing_of_it_is_read(host: Agent, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # Without a writer an open that blocks would hang for ever.
    assert refused(host, link(fifo)) == "resource_not_file"
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(descriptor, b"unread")
        assert refused(host, link(fifo)) == "resource_not_file"
        assert os.read(descriptor, 100) == b"unread"
    finally:
        os.close(descriptor)


def test_a_directory_a_device_and_a_socket_are_no_files(host: Agent, tmp_path: Path) -> None:
    assert refused(host, link(tmp_path)) == "resource_not_file"
    assert refused(host, link(Path("/dev/zero"))) == "resource_not_file"


def test_a_link_loop_and_an_absent_file_cannot_be_read(host: Agent, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert refused(host, link(tmp_path / "a")) == "resource_unreadable"
    assert refused(host, link(tmp_path / "absent")) == "resource_unreadable"


@pytest.mark.parametrize("uri", ["file://host/etc/hostname", "https://host/a", "file:///a?b"])
def test_another_hosts_file_is_not_supported(host: Agent, uri: str) -> None:
    assert refused(host, link(uri)) == "unsupported_resource_uri"


def test_a_file_past_50_mib_is_too_large(host: Agent, tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as sparse:
        sparse.truncate(50 * 1024 * 1024 + 1)
    assert refused(host, link(file)) == "resource_too_large"


def test_a_file_that_grows_while_it_is_read_is_refused(host: Agent, tmp_path: Path) -> None:
    file = tmp_path / "growing"
    file.write_bytes(bytes(8 * 1024 * 1024))
    over = threading.Event()

    def grow() -> None:
        with file.open("ab", buffering=0) as end:
            while not over.wait(0.0005):
                end.write(b"more")

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        assert refused(host, link(file)) == "resource_changed"
    finally:
        over.set()
        writer.join()


# ── Killed ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def live_until_killed(state: Path, file: Path, write: int) -> bool:
    """A session with an attachment, in a process that dies before a write; whether it lived to the end."""
    try:
        with started(state, ACP_EXAMPLE_HOST_KILL_AT=str(write)) as agent:
            session = agent.open_session("/work")
            assert session.prompt([{"type": "text", "text": "a b"}, link(file)]).result().stop_reason == "end_turn"
            return True
    except (ConnectionClosed, RequestError):
        return False


def test_a_kill_between_any_two_writes_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100_000)
    deaths = 0
    whole = f"You said: a b file://{file} "
    for write in count(1):
        state = tmp_path / str(write)
        lived = live_until_killed(state, file, write)
        deaths += not lived
        with started(state) as agent:
            agent.initialize()
            listed = agent.request("session/list")
            assert isinstance(listed, dict)
            for known in listed["sessions"]:
                session = agent.open_session("/work", resume=known["sessionId"])
                assert said(session, "on") == "You said: on "
                session.close()
        with sqlite3.connect(state / "host.db") as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("SELECT count(*) FROM artifacts WHERE complete = 0").fetchall() == [(0,)]
            assert db.execute("SELECT count(*) FROM turns WHERE status = 'running'").fetchall() == [(0,)]
            answers = [text for (text,) in db.execute("SELECT text FROM messages WHERE role = 'assistant'")]
        db.close()
        # What was said before the end is there, as far as it came.
        assert all(whole.startswith(text) or text.startswith(("You said: on", whole)) for text in answers)
        if lived:
            break
    assert deaths > 10


# ── Other people's clients ──────────────────────────────────────────────────────────────────────────────────────────


class SdkClient:
    """Collects the text that the agent sends, by kind."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        self.seen.append((update.session_update, update.content.text))

    def taken(self, kind: str) -> str:
        found = "".join(text for some, text in self.seen if some == kind)
        self.seen.clear()
        return found


def test_the_official_python_client(tmp_path: Path) -> None:
    program, *arguments = command(tmp_path / "state")

    async def talk(session_id: str | None, how: str) -> str:
        client = SdkClient()
        served: Any = client
        async with acp.spawn_agent_process(served, program, *arguments, env=ENVIRONMENT) as (connection, _process):
            await connection.initialize(protocol_version=1)
            if session_id is None:
                session_id = (await connection.new_session(cwd="/work", mcp_servers=[])).session_id
            elif how == "load":
                await connection.load_session(cwd="/work", session_id=session_id, mcp_servers=[])
                assert client.taken("user_message_chunk") == "first"
            else:
                await connection.resume_session(cwd="/work", session_id=session_id, mcp_servers=[])
                assert client.seen == []
            prompt: list[Any] = [TextContentBlock(type="text", text=how)]
            answer = await connection.prompt(session_id=session_id, prompt=prompt)
            assert answer.stop_reason == "end_turn"
            assert client.taken("agent_message_chunk") == f"You said: {how} "
            waiting = asyncio.ensure_future(
                connection.prompt(session_id=session_id, prompt=[TextContentBlock(type="text", text="/wait")])
            )
            while not client.seen:
                await asyncio.sleep(0)
            await connection.cancel(session_id=session_id)
            assert (await waiting).stop_reason == "cancelled"
            listed = await connection.list_sessions()
            assert session_id in [session.session_id for session in listed.sessions]
            if how == "resume":
                await connection.close_session(session_id=session_id)
        return session_id

    async def all_of_it() -> None:
        session_id = await talk(None, "first")
        # Only what was said in the first process: its last prompt is cut off.
        with sqlite3.connect(tmp_path / "state" / "host.db") as db:
            db.execute("DELETE FROM messages WHERE turn IN (SELECT turn FROM messages WHERE text = '/wait')")
        db.close()
        await talk(session_id, "load")
        await talk(session_id, "resume")

    asyncio.run(asyncio.wait_for(all_of_it(), BOUND))


NODE = shutil.which("node") is not None and shutil.which("npm") is not None


@pytest.mark.skipif(not NODE, reason="node and npm are not here: the TypeScript SDK's client did not run")
def test_the_official_typescript_client(tmp_path: Path) -> None:
    installed = install_pinned("typescript-sdk", "@agentclientprotocol/sdk")
    # The script finds the package beside itself.
    script = tmp_path / "client.mjs"
    shutil.copy(CLIENT, script)
    (tmp_path / "node_modules").symlink_to(installed / "node_modules")
    program, *arguments = command(tmp_path / "state")

    def talk(**how: object) -> dict[str, Any]:
        wanted = json.dumps({"command": program, "args": arguments, "cwd": "/work", **how})
        done = subprocess.run(
            ["node", str(script), wanted], env=ENVIRONMENT, capture_output=True, text=True, timeout=BOUND, check=False
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    first = talk(prompts=["one", "two"])
    assert first["ends"] == [["end_turn", "You said: one "], ["end_turn", "You said: two "]]
    loaded = talk(load=first["sessionId"], prompts=["three"])
    assert [text for kind, text in loaded["history"] if kind == "user_message_chunk"] == ["one", "two"]
    assert [text for kind, text in loaded["history"] if kind == "agent_message_chunk"] == [
        "You said: one ",
        "You said: two ",
    ]
    assert loaded["ends"] == [["end_turn", "You said: three "]]
    resumed = talk(resume=first["sessionId"], prompts=["four"])
    assert resumed["history"] == []
    assert resumed["ends"] == [["end_turn", "You said: four "]]
    assert resumed["sessions"] == [first["sessionId"]]
