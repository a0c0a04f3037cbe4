"""Files, terminals and elicitations, served by the bindings: the same answers in every colour, nothing left over."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from acp_core import ElicitationRequested, LocalProtocolError, RequestReceived
from acp_core.inbox import HandlerFailed
from acp_sync.workspace import Workspace
from tests.contract.harness import Bench, Peer, get, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.contract.harness import JsonObject


def ask(peer: Peer, key: str, id: object = 1, **params: object) -> JsonObject:
    """Send a request about the session, and take the answer."""
    peer.send(peer.message(key, {"sessionId": "s1", **params}, id))
    answer = peer.read()
    assert answer["id"] == id
    return answer


def running(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def started(peer: Peer, tmp_path: Path) -> tuple[str, int]:
    """A command that runs until it is killed: its terminal's id, and its process id."""
    code = f"import os, time; open({str(tmp_path / 'pid.new')!r}, 'w').write(str(os.getpid())); "
    code += f"os.rename({str(tmp_path / 'pid.new')!r}, {str(tmp_path / 'pid')!r}); time.sleep(600)"
    terminal_id = ask(peer, "terminal_create", command=sys.executable, args=["-c", code])["result"]["terminalId"]
    wait_until((tmp_path / "pid").exists)
    return terminal_id, int((tmp_path / "pid").read_text())


# ── A workspace ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"fs": {"readTextFile": True, "writeTextFile": True}}),
        ({"write": False}, {"fs": {"readTextFile": True}}),
        ({"terminals": True}, {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}),
    ],
)
def test_what_a_workspace_serves_is_advertised(
    bench: Bench, options: dict[str, Any], expected: object, tmp_path: Path
) -> None:
    agent, peer = bench.connect(workspace=Workspace(tmp_path, **options), elicitation={"form": lambda request: None})
    job = bench.spawn(agent.initialize)
    capabilities = peer.initialized()["params"]["clientCapabilities"]
    get(job)
    assert capabilities.pop("elicitation") == {"form": {}}
    assert capabilities == expected


def test_files_of_a_workspace(bench: Bench, tmp_path: Path) -> None:
    _agent, _session, peer = bench.session(workspace=Workspace(tmp_path))
    path = str(tmp_path / "new" / "a")
    assert ask(peer, "fs_write_text_file", path=path, content="1\n2\n3\n")["result"] == {}
    assert ask(peer, "fs_read_text_file", path=path)["result"] == {"content": "1\n2\n3\n"}
    assert ask(peer, "fs_read_text_file", path=path, line=2, limit=1)["result"] == {"content": "2\n"}
    assert ask(peer, "fs_read_text_file", path=path, line=None, limit=None)["result"] == {"content": "1\n2\n3\n"}
    assert ask(peer, "fs_read_text_file", path=f"{path}x")["error"]["code"] == -32002
    assert ask(peer, "fs_read_text_file", path="/etc/passwd")["error"]["code"] == -32602
    assert ask(peer, "fs_write_text_file", path=f"{tmp_path}/../x", content="")["error"]["code"] == -32602
    assert bench.seen == [event for event in bench.seen if not isinstance(event, HandlerFailed)]


def test_a_terminal_from_create_to_release(bench: Bench, tmp_path: Path) -> None:
    _agent, _session, peer = bench.session(workspace=Workspace(tmp_path, terminals=True))
    code = "import os; print(os.environ['A'] + os.getcwd() + 'x' * 100, end='')"
    created = ask(
        peer,
        "terminal_create",
        command=sys.executable,
        args=["-c", code],
        env=[{"name": "A", "value": "é"}],
        cwd=str(tmp_path),
        outputByteLimit=102,
    )
    terminal = {"terminalId": created["result"]["terminalId"]}
    status = {"exitCode": 0, "signal": None}
    assert ask(peer, "terminal_wait_for_exit", **terminal)["result"] == status
    output = ask(peer, "terminal_output", **terminal)["result"]
    end = f"é{os.path.realpath(tmp_path)}{'x' * 100}".encode()[-102:].decode()
    assert output == {"output": end, "truncated": True, "exitStatus": status}
    assert ask(peer, "terminal_kill", **terminal)["result"] == {}
    assert ask(peer, "terminal_release", **terminal)["result"] == {}
    for key in ("terminal_output", "terminal_wait_for_exit", "terminal_kill", "terminal_release"):
        assert ask(peer, key, **terminal)["error"]["code"] == -32002


def test_wait_for_exit_holds_up_nobody(bench: Bench, tmp_path: Path) -> None:
    _agent, session, peer = bench.session(workspace=Workspace(tmp_path, terminals=True))
    terminal_id, pid = started(peer, tmp_path)
    terminal = {"sessionId": "s1", "terminalId": terminal_id}
    for number in range(50):
        peer.send(peer.message("terminal_wait_for_exit", terminal, f"wait {number}"))
    assert "exitStatus" not in ask(peer, "terminal_output", terminalId=terminal_id)["result"]
    turn = bench.spawn(lambda: session.prompt("hi").text())
    prompt = peer.prompted()
    peer.send(peer.chunk("meanwhile"))
    peer.end(prompt)
    assert get(turn) == "meanwhile"
    peer.send(peer.message("terminal_kill", terminal, "kill"))
    answers = {answer["id"]: answer["result"] for answer in (peer.read() for _ in range(51))}
    assert answers.pop("kill") == {}
    assert list(answers.values()) == [{"exitCode": None, "signal": "SIGKILL"}] * 50
    assert ask(peer, "terminal_release", terminalId=terminal_id)["result"] == {}
    wait_until(lambda: not running(pid))


@pytest.mark.parametrize("second", [False, True])
def test_a_terminal_starts_in_the_sessions_directory(bench: Bench, second: bool, tmp_path: Path) -> None:
    """Where that is below a root, whichever; else in the first root."""
    roots = [tmp_path, Path("/tmp")] if second else [tmp_path]
    workspace = Workspace(*roots, terminals=True)
    _agent, _session, peer = bench.session(workspace=workspace)
    code = "import os; print(os.getcwd(), end='')"
    terminal_id = ask(peer, "terminal_create", command=sys.executable, args=["-c", code])["result"]["terminalId"]
    ask(peer, "terminal_wait_for_exit", terminalId=terminal_id)
    assert ask(peer, "terminal_output", terminalId=terminal_id)["result"]["output"] == os.path.realpath(roots[-1])


def test_params_of_a_workspace_are_checked(bench: Bench, tmp_path: Path) -> None:
    _agent, _session, peer = bench.session(workspace=Workspace(tmp_path, terminals=True))
    path = str(tmp_path / "a")
    wrong: list[tuple[str, dict[str, object], str, str]] = [
        ("fs_read_text_file", {}, "path", "params.type"),
        ("fs_read_text_file", {"path": 1}, "path", "params.type"),
        ("fs_read_text_file", {"path": "a"}, "path", "path.absolute"),
        ("fs_read_text_file", {"path": "/etc/passwd"}, "path", "path.outside"),
        ("fs_read_text_file", {"path": str(tmp_path)}, "path", "file.kind"),
        ("fs_read_text_file", {"path": path, "line": "1"}, "line", "params.type"),
        ("fs_read_text_file", {"path": path, "limit": -1}, "limit", "params.type"),
        ("fs_read_text_file", {"path": path, "limit": True}, "limit", "params.type"),
        ("fs_write_text_file", {"path": path}, "content", "params.type"),
        ("terminal_create", {}, "command", "params.type"),
        ("terminal_create", {"command": "true", "args": "x"}, "args", "params.type"),
        ("terminal_create", {"command": "true", "args": [1]}, "args", "params.type"),
        ("terminal_create", {"command": "true", "env": [{"name": "A"}]}, "env", "params.type"),
        ("terminal_create", {"command": "true", "env": ["A=1"]}, "env", "params.type"),
        ("terminal_create", {"command": "true", "env": {"A": "1"}}, "env", "params.type"),
        ("terminal_create", {"command": "true", "cwd": "/"}, "cwd", "path.outside"),
        ("terminal_create", {"command": "true", "outputByteLimit": 1.5}, "outputByteLimit", "params.type"),
        ("terminal_create", {"command": "/no/such/program"}, "command", "command.failed"),
        ("terminal_output", {}, "terminalId", "params.type"),
    ]
    for key, params, field, reason in wrong:
        error = ask(peer, key, **params)["error"]
        assert (error["code"], error["data"]) == (-32602, {"field": field, "reason": reason}), (key, params)
    error = ask(peer, "fs_read_text_file", path=path)["error"]
    assert (error["code"], error["data"]) == (-32002, {"field": "path", "reason": "file.missing"})
    error = ask(peer, "terminal_kill", terminalId="none")["error"]
    assert (error["code"], error["data"]) == (-32002, {"field": "terminalId", "reason": "terminal.unknown"})
    assert not [event for event in bench.seen if isinstance(event, HandlerFailed)]


def test_the_end_of_the_connection_ends_the_commands(bench: Bench, tmp_path: Path) -> None:
    agent, _session, peer = bench.session(workspace=Workspace(tmp_path, terminals=True))
    terminal_id, pid = started(peer, tmp_path)
    peer.send(peer.message("terminal_wait_for_exit", {"sessionId": "s1", "terminalId": terminal_id}, "wait"))
    agent.close()
    assert not running(pid)
    peer.rest()


def test_an_agent_that_vanishes_leaves_no_command(bench: Bench, tmp_path: Path) -> None:
    _agent, _session, peer = bench.session(workspace=Workspace(tmp_path, terminals=True))
    _terminal_id, pid = started(peer, tmp_path)
    peer.close()
    wait_until(lambda: not running(pid))


# ── Elicitations ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_elicitations_are_answered(bench: Bench) -> None:
    asked: list[ElicitationRequested] = []

    def form(request: ElicitationRequested) -> Mapping[str, object] | bool | None:
        asked.append(request)
        answers: tuple[Mapping[str, object] | bool | None, ...] = ({"name": "é"}, False, None)
        return answers[len(asked) - 1]

    _agent, _session, peer = bench.session(elicitation={"form": form, "url": lambda request: bool(request.url)})
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    fields = {"mode": "form", "message": "Who?", "requestedSchema": schema, "toolCallId": "t1"}
    assert ask(peer, "elicitation_create", **fields)["result"] == {"action": "accept", "content": {"name": "é"}}
    assert ask(peer, "elicitation_create", **fields)["result"] == {"action": "decline"}
    assert ask(peer, "elicitation_create", **fields)["result"] == {"action": "cancel"}
    assert (asked[0].message, asked[0].requested_schema, asked[0].tool_call_id) == ("Who?", schema, "t1")
    url = {"mode": "url", "message": "Log in", "url": "https://example.com/", "elicitationId": "e1"}
    assert ask(peer, "elicitation_create", **url)["result"] == {"action": "accept"}


def test_content_that_does_not_fit_the_form_is_not_sent(bench: Bench) -> None:
    _agent, _session, peer = bench.session(elicitation={"form": lambda request: {"age": "old"}})
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    answer = ask(peer, "elicitation_create", mode="form", message="Age?", requestedSchema=schema)
    assert answer["error"]["code"] == -32603
    assert "old" not in str(answer)
    failed = bench.wait_seen(HandlerFailed)[0]
    assert isinstance(failed, HandlerFailed)
    assert isinstance(failed.exception, LocalProtocolError)
    assert failed.exception.rule == "elicitation.content"


def test_an_elicitation_mode_without_a_callback_is_refused(bench: Bench) -> None:
    _agent, _session, peer = bench.session(elicitation={"form": lambda request: True})
    for mode in ("url", "telepathy", None):
        assert ask(peer, "elicitation_create", mode=mode, message="?")["error"]["code"] == -32602


def test_what_an_elicitation_callback_raises_stays_here(bench: Bench) -> None:
    def fail(request: RequestReceived) -> bool:
        raise ValueError("a secret")

    never = threading.Event()
    _agent, _session, peer = bench.session(elicitation={"form": fail, "url": lambda request: never})
    for mode in ("form", "url"):
        answer = ask(peer, "elicitation_create", mode=mode, message="?")
        assert answer["error"]["code"] == -32603
        assert "secret" not in str(answer)
    bench.wait_seen(HandlerFailed, 2)


def test_an_elicitation_mode_that_does_not_exist(bench: Bench) -> None:
    ours, _peer = bench.pair()
    with (
        pytest.raises(LocalProtocolError, match="telepathy"),
        bench.binding.connect(ours, permissions=lambda request: None, elicitation={"telepathy": lambda request: True}),
    ):
        pass
    ours.close()
