"""The agent's front over a socket, against a client that is spoken by hand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

import acp_core
import acp_sync
from acp_core import Event, HandlerFailed, RequestError
from acp_core.schema.v1 import StopReason
from acp_sync import AgentSession, AgentTurn
from tests.sync.peer import JsonObject, Peer, Script, until


@contextmanager
def served(
    agent: acp_sync.PromptAgent, peer: Peer, on_event: Callable[[Event], None] | None = None
) -> Iterator[JsonObject]:
    """Serve ``agent`` to the peer; gives the result of initialize."""
    script = Script(lambda: acp_sync.serve_on(agent, peer.other, on_event=on_event, extensions=["x/ping"]))
    yield peer.initialize()
    peer.mine.shutdown(1)
    script.done()


def new_session(peer: Peer) -> str:
    peer.ask(1, "session/new", {"cwd": "/tmp", "mcpServers": []})
    result = peer.read()["result"]
    assert isinstance(result, dict)
    session_id = result["sessionId"]
    assert isinstance(session_id, str)
    return session_id


def prompt(peer: Peer, session_id: str, text: str = "hi", id: int = 2) -> None:
    peer.ask(id, "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]})


def code(message: Mapping[str, object]) -> object:
    error = message["error"]
    assert isinstance(error, dict)
    return error["code"]


class Echo:
    def prompt(self, turn: AgentTurn) -> None:
        turn.send(turn.text)


class Typed(acp_sync.AgentMethods):
    """What a type checker says of the wrong ones; ``ignore`` that nothing needs is an error of its own."""

    def prompt(self, turn: AgentTurn) -> StopReason | None:
        return None

    def new_session(self, request: acp_core.NewSessionRequested) -> str:
        return "s1"

    def load_session(self, request: acp_core.LoadSessionRequested) -> None:  # type: ignore[override]  # no session
        raise AssertionError

    def set_mode(self, request: acp_core.SetModeRequested) -> int:  # type: ignore[override]  # no result
        raise AssertionError


def test_a_method_that_is_async_is_refused() -> None:
    class Async:
        async def prompt(self, turn: AgentTurn) -> StopReason | None:
            raise AssertionError

    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(TypeError, match=r"Async.prompt is async"):
        acp_sync.serve_on(Async(), ours)  # type: ignore[arg-type]  # what is refused


def test_the_types_of_the_methods_define_none_of_them() -> None:
    class Least(acp_sync.AgentMethods):
        def prompt(self, turn: AgentTurn) -> None:
            raise AssertionError

    assert [name for name in dir(Least()) if not name.startswith("_")] == ["prompt"]
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(TypeError, match=r"Typed.load_session"):
        acp_sync.serve_on(Typed(), ours)


def test_the_smallest_agent(peer: Peer) -> None:
    with served(Echo(), peer) as result:
        assert result["agentCapabilities"] == {}
        session_id = new_session(peer)
        prompt(peer, session_id)
        params = peer.read_method("session/update")["params"]
        assert isinstance(params, dict)
        assert params["update"]["content"] == {"type": "text", "text": "hi"}
        assert peer.read()["result"] == {"stopReason": "end_turn"}
        for number, method in enumerate(("session/load", "session/list", "session/set_mode", "x/ping", "x/other"), 10):
            peer.ask(number, method, {"sessionId": session_id, "cwd": "/", "mcpServers": [], "modeId": "m"})
            assert code(peer.read()) == -32601


class Everything:
    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.noticed = threading.Event()
        self.asked: list[str | None] = []

    def new_session(self, request: acp_core.NewSessionRequested) -> Mapping[str, object]:
        modes = {"currentModeId": "a", "availableModes": []}
        return {"sessionId": "mine", "modes": modes, "configOptions": []}

    def load_session(self, request: acp_core.LoadSessionRequested, session: AgentSession) -> None:
        if session.session_id == "none":
            raise RequestError(-32002, "no such session")
        session.echo("before")
        session.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "then"}})

    def resume_session(self, request: acp_core.ResumeSessionRequested, session: AgentSession) -> None:
        assert session.cwd == "/tmp"

    def list_sessions(self, request: acp_core.ListSessionsRequested) -> Mapping[str, object]:
        return {"sessions": []}

    def close_session(self, request: acp_core.CloseSessionRequested) -> None:
        return None

    def set_mode(self, request: acp_core.SetModeRequested) -> None:
        return None

    def set_config_option(self, request: acp_core.SetConfigOptionRequested) -> list[int]:
        return [1]

    def extension(self, request: acp_core.RequestReceived) -> Mapping[str, object]:
        return {"pong": request.params}

    def cancel(self, turn: AgentTurn) -> None:
        self.noticed.set()

    def prompt(self, turn: AgentTurn) -> StopReason | None:
        match turn.text:
            case "wait":
                if turn.wait_cancelled(20):
                    self.cancelled.set()
                turn.think("late words")
                return "end_turn"
            case "ask":
                tool = {"toolCallId": "t"}
                options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
                self.asked.append(turn.ask_permission(tool, options, deadline=10))
                return "refusal"
            case "read":
                got = turn.request("fs/read_text_file", {"path": "/a"}, deadline=10)
                turn.send(str(got))
                return None
            case "raise":
                raise ValueError("a secret")
            case "refuse":
                raise RequestError(-32000, "log in")
            case _:
                return turn.text  # type: ignore[return-value]  # what is no stop reason


@pytest.fixture
def agent() -> Everything:
    return Everything()


def test_capabilities_follow_from_the_methods(peer: Peer, agent: Everything) -> None:
    with served(agent, peer) as result:
        assert result["agentCapabilities"] == {
            "loadSession": True,
            "sessionCapabilities": {"resume": {}, "list": {}, "close": {}},
        }
        peer.ask(5, "session/list")
        assert peer.read()["result"] == {"sessions": []}
        peer.ask(6, "x/ping", {"a": 1})
        assert peer.read()["result"] == {"pong": {"a": 1}}


def test_load_sends_the_history_before_its_answer(peer: Peer, agent: Everything) -> None:
    with served(agent, peer):
        peer.ask(5, "session/load", {"sessionId": "old", "cwd": "/tmp", "mcpServers": []})
        kinds: list[object] = []
        for _ in range(2):
            params = peer.read_method("session/update")["params"]
            assert isinstance(params, dict)
            kinds.append(params["update"]["sessionUpdate"])
        assert kinds == ["user_message_chunk", "agent_message_chunk"]
        assert peer.read()["id"] == 5
        peer.ask(6, "session/resume", {"sessionId": "old2", "cwd": "/tmp", "mcpServers": []})
        assert peer.read()["result"] == {}
        peer.ask(7, "session/load", {"sessionId": "none", "cwd": "/tmp", "mcpServers": []})
        assert code(peer.read()) == -32002


def test_a_cancel_reaches_the_turn(peer: Peer, agent: Everything) -> None:
    with served(agent, peer):
        session_id = new_session(peer)
        prompt(peer, session_id, "wait")
        peer.write({"method": "session/cancel", "params": {"sessionId": session_id}})
        peer.read_method("session/update")
        assert peer.read()["result"] == {"stopReason": "cancelled"}
        assert agent.cancelled.is_set()
        assert agent.noticed.wait(5)


def test_permissions(peer: Peer, agent: Everything) -> None:
    with served(agent, peer):
        session_id = new_session(peer)
        prompt(peer, session_id, "ask")
        request = peer.read_method("session/request_permission")
        peer.answer(request, {"outcome": {"outcome": "selected", "optionId": "y"}})
        assert peer.read()["result"] == {"stopReason": "refusal"}
        prompt(peer, session_id, "ask", 3)
        request = peer.read_method("session/request_permission")
        # A client that forgets to answer its permission holds nothing up.
        peer.write({"method": "session/cancel", "params": {"sessionId": session_id}})
        assert peer.read_method("$/cancel_request")["params"] == {"requestId": request["id"]}
        assert peer.read()["result"] == {"stopReason": "cancelled"}
        prompt(peer, session_id, "ask", 4)
        peer.write({"id": peer.read()["id"], "error": {"code": -32601, "message": "no"}})
        assert code(peer.read()) == -32601
        assert agent.asked == ["y", None]


def test_requests_of_a_turn(peer: Peer, agent: Everything) -> None:
    script = Script(lambda: acp_sync.serve_on(agent, peer.other))
    peer.ask(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}}})
    peer.read()
    session_id = new_session(peer)
    prompt(peer, session_id, "read")
    request = peer.read_method("fs/read_text_file")
    assert request["params"] == {"path": "/a", "sessionId": session_id}
    peer.answer(request, {"content": "text"})
    params = peer.read_method("session/update")["params"]
    assert isinstance(params, dict)
    assert params["update"]["content"]["text"] == "{'content': 'text'}"
    assert peer.read()["result"] == {"stopReason": "end_turn"}
    peer.mine.shutdown(1)
    script.done()


def test_failures_are_answered_and_reported(peer: Peer, agent: Everything) -> None:
    events: list[Event] = []
    with served(agent, peer, events.append):
        session_id = new_session(peer)
        prompt(peer, session_id, "raise")
        assert peer.read()["error"] == {
            "code": -32603,
            "message": "internal error",
            "data": {"field": "request", "reason": "handler.failed"},
        }
        prompt(peer, session_id, "refuse", 3)
        assert peer.read()["error"] == {"code": -32000, "message": "log in"}
        prompt(peer, session_id, "an invented stop reason", 4)
        assert code(peer.read()) == -32603
        peer.ask(5, "session/set_config_option", {"sessionId": session_id, "configId": "a", "value": "b"})
        assert code(peer.read()) == -32603
        until(lambda: sum(isinstance(event, HandlerFailed) for event in events) == 3)


def test_a_failure_goes_to_stderr_by_default(peer: Peer, agent: Everything, capsys: pytest.CaptureFixture[str]) -> None:
    with served(agent, peer):
        prompt(peer, new_session(peer), "raise")
        peer.read()
    assert "a secret" in capsys.readouterr().err


def test_the_end_of_the_client_cancels_what_runs(peer: Peer, agent: Everything) -> None:
    with served(agent, peer):
        prompt(peer, new_session(peer), "wait")
    assert agent.cancelled.is_set()


def test_close_ends_the_turn_as_cancelled(peer: Peer, agent: Everything) -> None:
    with served(agent, peer):
        session_id = new_session(peer)
        prompt(peer, session_id, "wait")
        peer.ask(3, "session/close", {"sessionId": session_id})
        answers: dict[object, object] = {}
        while len(answers) < 2:
            message = peer.read()
            if "result" in message:
                answers[message["id"]] = message["result"]
        assert answers == {2: {"stopReason": "cancelled"}, 3: {}}


class Flood:
    def __init__(self) -> None:
        self.sent = 0

    def prompt(self, turn: AgentTurn) -> None:
        while not turn.cancelled and self.sent < 100_000:
            turn.send("x" * 1000)
            self.sent += 1


def test_an_agent_that_is_not_read_waits(peer: Peer) -> None:
    agent = Flood()
    with served(agent, peer):
        session_id = new_session(peer)
        prompt(peer, session_id)
        until(lambda: agent.sent > 500)
        until(lambda: settles(lambda: agent.sent))
        assert agent.sent < 5000
        peer.write({"method": "session/cancel", "params": {"sessionId": session_id}})
        while "result" not in (message := peer.read()):
            pass
        assert message["result"] == {"stopReason": "cancelled"}


def settles(value: Callable[[], int]) -> bool:
    before = value()
    threading.Event().wait(0.2)
    return value() == before
