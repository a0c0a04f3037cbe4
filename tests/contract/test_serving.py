"""The agent's side of a binding, against a scripted client and against the binding's own client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from acp_core import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CloseSessionRequested,
    Grace,
    LocalProtocolError,
    MethodNotFound,
    NewSessionRequested,
    NotificationReceived,
    PermissionRequested,
    Plan,
    RequestError,
    RequestReceived,
    StreamGap,
    TextRevised,
    TurnCancelReceived,
    TurnEnded,
)
from acp_core.inbox import HandlerFailed
from acp_core.schema import Notification, v1
from tests.contract.harness import Bench, Peer, get
from tests.spec.requirements import requirement


class Echo:
    """The least an agent can be."""

    def prompt(self, turn: Any) -> None:
        turn.send("you said: " + turn.text)


def opened(peer: Peer, **capabilities: object) -> tuple[dict[str, Any], str]:
    """Do the handshake and open a session."""
    peer.send(peer.message("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities}, 0))
    initialized = peer.read()["result"]
    peer.send(peer.message("session_new", {"cwd": "/tmp", "mcpServers": []}, 1))
    return initialized, peer.read()["result"]["sessionId"]


def prompt(peer: Peer, session_id: str, id: int, text: str = "hi") -> None:
    peer.send(peer.message("session_prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}, id))


@requirement(88)
def test_the_least_agent(bench: Bench) -> None:
    agent = bench.both(Echo())
    session = agent.open_session("/tmp")
    assert session.session_id
    assert session.prompt("hi").text() == "you said: hi"
    assert agent.open_session("/tmp").session_id != session.session_id
    assert agent.peer_capabilities == {}


def test_an_agent_needs_prompt(bench: Bench) -> None:
    ours, _peer = bench.pair()
    serving = bench.spawn(bench.binding.serve, object(), ours)
    with pytest.raises(TypeError):
        get(serving)
    ours.close()


class NoSession(Echo):
    def load_session(self, request: RequestReceived) -> None:
        raise AssertionError


class Misspelt(Echo):
    def new_sesion(self, request: NewSessionRequested) -> None:
        raise AssertionError


class Capitals(Echo):
    def setMode(self, request: RequestReceived) -> None:
        raise AssertionError


class Nothing(Echo):
    def prompt(self) -> None:  # type: ignore[override]  # what is refused
        raise AssertionError


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (Echo, r"give Echo\(\), not the class Echo"),
        (NoSession(), r"load_session\(request: .*\) .*cannot be called as load_session\(request, session\)"),
        (Misspelt(), r"new_sesion is never called: a method of an agent is named new_session"),
        (Capitals(), r"setMode is never called: a method of an agent is named set_mode"),
        (Nothing(), r"cannot be called as prompt\(turn\)"),
    ],
)
def test_what_would_never_be_called_is_refused_at_the_start(bench: Bench, agent: object, why: str) -> None:
    ours, _peer = bench.pair()
    serving = bench.spawn(bench.binding.serve, agent, ours)
    with pytest.raises(TypeError, match=why):
        get(serving)
    ours.close()


def test_an_option_that_does_not_exist(bench: Bench) -> None:
    ours, _peer = bench.pair()
    with pytest.raises(TypeError, match="no_such_option"):
        bench.binding.serve(Echo(), ours, methods=bench.methods, no_such_option=1)
    ours.close()


def test_a_codec_by_choice_reads_at_both_ends(bench: Bench) -> None:
    read: dict[str, int] = {"client": 0, "agent": 0}

    def counting(end: str) -> Callable[[str], object]:
        def loads(text: str) -> object:
            read[end] += 1
            return json.loads(text)

        return loads

    agent = bench.both(Echo(), codec=counting("client"), serve_options={"codec": counting("agent")})
    assert agent.open_session("/tmp").prompt("hi").text() == "you said: hi"
    # initialize, session/new and the prompt one way; their answers and the update the other.
    assert read == {"client": 4, "agent": 3}


def test_everything_a_turn_can_say(bench: Bench) -> None:
    class Talker:
        def prompt(self, turn: Any) -> str:
            turn.think("hm")
            turn.send("text", message_id="m1")
            turn.update(
                {"sessionUpdate": "plan", "entries": [{"content": "c", "priority": "low", "status": "pending"}]}
            )
            assert turn.prompt == [{"type": "text", "text": "hi"}]
            assert turn.session.session_id
            assert turn.cancelled is False
            return "max_tokens"

    events = list(bench.both(Talker()).open_session("/tmp").prompt("hi"))
    kinds = [type(event) for event in events]
    assert kinds[1:] == [AgentThoughtChunk, AgentMessageChunk, Plan, TurnEnded]
    chunk, ended = events[2], events[-1]
    assert isinstance(chunk, AgentMessageChunk)
    assert chunk.message_id == "m1"
    assert isinstance(ended, TurnEnded)
    assert ended.stop_reason == "max_tokens"


def test_permissions_are_asked(bench: Bench) -> None:
    class Asker:
        def prompt(self, turn: Any) -> None:
            options = [
                {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                {"optionId": "no", "name": "No", "kind": "reject_once"},
            ]
            turn.send(str(turn.ask_permission({"toolCallId": "1", "title": "edit"}, options)))

    def ask(request: PermissionRequested) -> str | None:
        return answers.pop()

    answers: list[str | None] = [None, "no", "yes"]
    session = bench.both(Asker(), permissions=ask).open_session("/tmp")
    assert [session.prompt("hi").text() for _ in range(3)] == ["yes", "no", "None"]


def test_what_is_no_mapping_is_a_type_error(bench: Bench) -> None:
    option = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}

    class Wrong:
        def prompt(self, turn: Any) -> None:
            for call, options in (({"toolCallId": "1"}, ["y"]), ({"toolCallId": "1"}, "y"), ("1", [option])):
                with pytest.raises(TypeError, match="must be a mapping, not str"):
                    turn.ask_permission(call, options)
            with pytest.raises(TypeError, match="must be a mapping, not list"):
                turn.update(["agent_message_chunk"])
            turn.send("done")

    assert bench.both(Wrong()).open_session("/tmp").prompt("hi").text() == "done"


def test_a_turn_may_ask_the_client(bench: Bench) -> None:
    class Reader:
        def prompt(self, turn: Any) -> None:
            result = turn.request(bench.methods.wire("fs_read_text_file"), {"path": "/a"})
            turn.send(result["content"])
            with pytest.raises(RequestError):
                turn.request(bench.methods.wire("fs_read_text_file"), {"path": "/none"})
            with pytest.raises(LocalProtocolError):
                turn.request(bench.methods.wire("terminal_create"), {"command": "x"})

    def read(request: RequestReceived) -> dict[str, object]:
        if request.params["path"] == "/none":
            raise RequestError(-32002, "no such file")
        return {"content": "the text"}

    agent = bench.both(Reader(), handlers={"fs_read_text_file": read})
    assert agent.open_session("/tmp").prompt("hi").text() == "the text"


def test_a_turn_asks_and_notifies_with_typed_messages(bench: Bench) -> None:
    class Reader:
        def prompt(self, turn: Any) -> None:
            found = turn.request(v1.fs_read_text_file({"sessionId": turn.session_id, "path": "/a"}))
            turn.send(found["content"])
            turn.notify("_x/note", {"a": 1})
            turn.notify(Notification("_x/note", "_x/note", {"a": 2}))

    agent = bench.both(Reader(), handlers={"fs_read_text_file": lambda request: {"content": "the text"}})
    session = agent.open_session("/tmp")
    assert session.prompt("hi").text() == "the text"
    notes = [note.params for note in bench.wait_seen(NotificationReceived, 2) if isinstance(note, NotificationReceived)]
    assert notes == [{"a": n, "sessionId": session.session_id} for n in (1, 2)]


def test_an_elicitation_by_url_is_completed_and_its_id_is_free_then(bench: Bench) -> None:
    create, complete = bench.methods.wire("elicitation_create"), bench.methods.wire("elicitation_complete")
    asked = {"mode": "url", "message": "Log in", "url": "https://x.test/", "elicitationId": "e1"}

    class Asker:
        def prompt(self, turn: Any) -> None:
            assert turn.peer_capabilities["elicitation"] == {"url": {}}
            for _ in range(2):
                assert turn.request(create, asked) == {"action": "accept"}
                with pytest.raises(LocalProtocolError, match="open already"):
                    turn.request(create, asked)
                turn.notify(complete, {"elicitationId": "e1"})
            turn.request(create, {**asked, "requestId": turn.event.rpc_id})

    peer, _serving = bench.serve(Asker())
    _, session_id = opened(peer, elicitation={"url": {}})
    prompt(peer, session_id, 7)
    for _ in range(2):
        request = peer.expect("elicitation_create")
        assert request["params"] == {**asked, "sessionId": session_id}
        peer.result(request, {"action": "accept"})
        assert peer.expect("elicitation_complete")["params"] == {"elicitationId": "e1"}
    request = peer.expect("elicitation_create")
    assert request["params"] == {**asked, "requestId": 7}
    peer.result(request, {"action": "decline"})
    assert peer.read()["id"] == 7


def test_a_session_that_is_open_may_speak_before_its_first_prompt(bench: Bench) -> None:
    class Greeter(Echo):
        def load_session(self, request: RequestReceived, session: Any) -> None:
            session.send("history")

        def resume_session(self, request: RequestReceived, session: Any) -> None:
            return None

        def opened(self, session: Any) -> None:
            session.update({"sessionUpdate": "session_info_update", "title": session.cwd})

    peer, _serving = bench.serve(Greeter())
    peer.send(peer.message("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, 0))
    peer.read()
    peer.send(peer.message("session_new", {"cwd": "/one", "mcpServers": []}, 1))
    assert peer.read()["id"] == 1
    assert peer.expect("session_update")["params"]["update"]["title"] == "/one"
    peer.send(peer.message("session_load", {"sessionId": "old", "cwd": "/two", "mcpServers": []}, 2))
    assert peer.expect("session_update")["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
    assert peer.read()["id"] == 2
    assert peer.expect("session_update")["params"]["update"]["title"] == "/two"
    peer.send(peer.message("session_resume", {"sessionId": "older", "cwd": "/three", "mcpServers": []}, 3))
    assert peer.read()["id"] == 3
    assert peer.expect("session_update")["params"]["update"]["title"] == "/three"


def test_a_session_that_was_refused_is_not_opened(bench: Bench) -> None:
    class Refuser(Echo):
        def new_session(self, request: RequestReceived) -> None:
            raise RequestError(-32000, "log in first")

        def opened(self, session: Any) -> None:
            raise AssertionError

    peer, _serving = bench.serve(Refuser())
    peer.send(peer.message("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, 0))
    peer.read()
    peer.send(peer.message("session_new", {"cwd": "/one", "mcpServers": []}, 1))
    assert peer.read()["error"]["code"] == -32000
    assert bench.seen == [] or HandlerFailed not in {type(event) for event in bench.seen}


def test_what_opened_raises_is_reported_and_does_not_outlive_the_connection(bench: Bench) -> None:
    forever = bench.event()

    class Broken(Echo):
        def opened(self, session: Any) -> None:
            if session.cwd == "/wait":
                forever.wait(20)
            raise ValueError("nobody is to know")

    peer, serving = bench.serve(Broken(), close_grace=0.1)
    _, session_id = opened(peer)
    (failed,) = bench.wait_seen(HandlerFailed)
    assert isinstance(failed, HandlerFailed)
    assert isinstance(failed.event, NewSessionRequested)
    prompt(peer, session_id, 7)
    assert peer.read()["params"]["update"]["content"]["text"] == "you said: hi"
    assert peer.read()["id"] == 7
    peer.send(peer.message("session_new", {"cwd": "/wait", "mcpServers": []}, 8))
    assert peer.read()["id"] == 8
    peer.close()
    get(serving)


def test_text_by_offset_and_as_a_whole(bench: Bench) -> None:
    class Writer:
        def prompt(self, turn: Any) -> None:
            said = [
                turn.update_text("message", "m", delta="Hel"),
                turn.update_text("message", "m", snapshot="Hello"),
                turn.update_text("message", "m", snapshot="Hello"),
                turn.update_text("message", "m", delta="lo!", offset=3),
            ]
            assert said == ["sent", "sent", "same", "sent"]
            with pytest.raises(StreamGap):
                turn.update_text("message", "m", delta="x", offset=30)

    events = list(bench.both(Writer()).open_session("/tmp").prompt("hi"))
    assert [event.text for event in events if isinstance(event, AgentMessageChunk)] == ["Hel", "lo", "!"]


def test_a_turn_whose_text_was_revised_is_over_and_nobodys_fault(bench: Bench) -> None:
    class Reviser:
        def prompt(self, turn: Any) -> str:
            turn.update_text("message", "m", snapshot="Hello")
            assert turn.update_text("message", "m", snapshot="Good bye") == "revised"
            return "end_turn"

    peer, _serving = bench.serve(Reviser())
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    assert peer.expect("session_update")["params"]["update"]["content"]["text"] == "Hello"
    assert peer.read()["error"]["data"]["code"] == "unsupported_stream_revision"
    bench.wait_seen(TextRevised)
    prompt(peer, session_id, 8)
    assert peer.expect("session_update")["params"]["update"]["content"]["text"] == "Hello"
    assert peer.read()["id"] == 8
    assert HandlerFailed not in {type(event) for event in bench.seen}


def test_what_is_defined_is_advertised_and_served(bench: Bench) -> None:
    class Full(Echo):
        def new_session(self, request: NewSessionRequested) -> dict[str, object]:
            return {"sessionId": "named", "modes": {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]}}

        def load_session(self, request: RequestReceived, session: Any) -> None:
            session.send("old text")

        def resume_session(self, request: RequestReceived, session: Any) -> None:
            return None

        def list_sessions(self, request: RequestReceived) -> dict[str, object]:
            return {"sessions": [{"sessionId": "named", "cwd": "/tmp"}]}

        def close_session(self, request: CloseSessionRequested) -> None:
            return None

        def set_mode(self, request: RequestReceived) -> None:
            return None

        def extension(self, request: RequestReceived) -> dict[str, object]:
            return {"echo": request.params}

    agent = bench.both(
        Full(),
        serve_options={"capabilities": {"promptCapabilities": {"image": True}}, "extensions": ["_x/one"]},
    )
    session = agent.open_session("/tmp")
    assert session.session_id == "named"
    assert agent.peer_capabilities == {
        "loadSession": True,
        "sessionCapabilities": {"resume": {}, "list": {}, "close": {}},
        "promptCapabilities": {"image": True},
    }
    session.set_mode("a")
    listed = agent.request(bench.methods.wire("session_list"))
    assert listed == {"sessions": [{"sessionId": "named", "cwd": "/tmp"}]}
    assert agent.request("_x/one", {"a": 1}) == {"echo": {"a": 1}}
    session.close()
    assert session.state == "closed"
    assert agent.open_session("/tmp", resume="named").prompt("hi").text() == "you said: hi"


def test_extension_gets_what_begins_with_an_underscore_or_what_is_named(bench: Bench) -> None:
    class Extended(Echo):
        def extension(self, request: RequestReceived) -> dict[str, object]:
            if request.method == "_x/unknown":
                raise MethodNotFound("never heard of it")
            return {"method": request.method}

    def answers(**options: object) -> list[object]:
        peer, _serving = bench.serve(Extended(), **options)
        opened(peer)
        found = []
        for id, method in enumerate(("_x/one", "_", "_x/unknown", "x/two", "_*"), 10):
            peer.send({"id": id, "method": method, "params": {}})
            answer = peer.read()
            assert answer["id"] == id
            found.append(answer["result"]["method"] if "result" in answer else answer["error"]["code"])
        return found

    assert answers() == ["_x/one", "_", -32601, -32601, "_*"]
    assert answers(extensions=["_x/one", "x/two"]) == ["_x/one", -32601, -32601, "x/two", -32601]


def test_a_load_sends_its_history_before_the_answer(bench: Bench) -> None:
    class Loader(Echo):
        def load_session(self, request: RequestReceived, session: Any) -> None:
            assert session.session_id == "old"
            session.send("history")
            session.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "more"}})

    peer, _serving = bench.serve(Loader())
    peer.send(peer.message("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, 0))
    peer.read()
    peer.send(peer.message("session_load", {"sessionId": "old", "cwd": "/tmp", "mcpServers": []}, 1))
    messages = [peer.read() for _ in range(3)]
    assert [message.get("id") for message in messages] == [None, None, 1]
    assert messages[0]["params"]["update"]["content"]["text"] == "history"


def test_what_is_not_defined_is_refused(bench: Bench) -> None:
    peer, _serving = bench.serve(Echo())
    initialized, session_id = opened(peer)
    assert initialized["agentCapabilities"] == {}
    for id, message in enumerate(
        (
            peer.message("session_load", {"sessionId": "x", "cwd": "/", "mcpServers": []}),
            peer.message("session_list", {}),
            peer.message("session_set_mode", {"sessionId": session_id, "modeId": "m"}),
            peer.message("authenticate", {"methodId": "m"}),
            {"method": "_x/unknown", "params": {}},
        ),
        10,
    ):
        peer.send({"id": id, **message})
        answer = peer.read()
        assert (answer["id"], answer["error"]["code"]) == (id, -32601)


def test_what_prompt_raises_stays_here(bench: Bench) -> None:
    class Broken:
        def prompt(self, turn: Any) -> None:
            if turn.text == "refuse":
                raise RequestError(-32000, "log in", {"url": "x"})
            raise ValueError("a secret")

    peer, _serving = bench.serve(Broken())
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    error = peer.read()["error"]
    assert error["code"] == -32603
    assert "secret" not in str(error)
    failed = bench.wait_seen(HandlerFailed)[0]
    assert isinstance(failed, HandlerFailed)
    assert isinstance(failed.exception, ValueError)
    prompt(peer, session_id, 8, "refuse")
    assert peer.read()["error"] == {"code": -32000, "message": "log in", "data": {"url": "x"}}


def test_a_stop_reason_that_does_not_exist(bench: Bench) -> None:
    class Odd:
        def prompt(self, turn: Any) -> str:
            return "bored"

    peer, _serving = bench.serve(Odd())
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    assert peer.read()["error"]["code"] == -32603
    bench.wait_seen(HandlerFailed)


@requirement(77, 78)
def test_a_cancelled_turn_answers_cancelled(bench: Bench) -> None:
    started, noticed = bench.event(), bench.event()

    class Slow:
        def prompt(self, turn: Any) -> None:
            started.set()
            assert turn.cancel_event.wait(20)

        def cancel(self, turn: Any) -> None:
            assert turn.cancelled
            noticed.set()

    peer, _serving = bench.serve(Slow())
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    assert started.wait(20)
    peer.send(peer.message("session_cancel", {"sessionId": session_id}))
    assert peer.read() == {"jsonrpc": "2.0", "id": 7, "result": {"stopReason": "cancelled"}}
    assert noticed.wait(20)
    bench.wait_seen(TurnCancelReceived)


def test_a_notice_of_a_cancel_that_raises_answers_nobody(bench: Bench) -> None:
    started = bench.event()

    class Slow:
        def prompt(self, turn: Any) -> str:
            started.set()
            assert turn.cancel_event.wait(20)
            return "end_turn"

        def cancel(self, turn: Any) -> None:
            raise ValueError("nobody is to know")

    peer, _serving = bench.serve(Slow())
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    assert started.wait(20)
    peer.send(peer.message("session_cancel", {"sessionId": session_id}))
    assert peer.read() == {"jsonrpc": "2.0", "id": 7, "result": {"stopReason": "cancelled"}}
    (failed,) = bench.wait_seen(HandlerFailed)
    assert isinstance(failed, HandlerFailed)
    assert isinstance(failed.exception, ValueError)


def test_a_client_that_goes_cancels_its_turns(bench: Bench) -> None:
    started, noticed = bench.event(), bench.event()

    class Slow:
        def prompt(self, turn: Any) -> None:
            started.set()
            assert turn.cancel_event.wait(20)

        def cancel(self, turn: Any) -> None:
            assert turn.cancelled
            noticed.set()

    peer, _serving = bench.serve(Slow())
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    assert started.wait(20)
    peer.close()
    assert noticed.wait(20)


def test_a_cancel_right_behind_the_prompt(bench: Bench) -> None:
    class Slow:
        def prompt(self, turn: Any) -> None:
            assert turn.cancel_event.wait(20)

    peer, _serving = bench.serve(Slow())
    _, session_id = opened(peer)
    content = [{"type": "text", "text": "hi"}]
    peer.send(
        peer.message("session_prompt", {"sessionId": session_id, "prompt": content}, 7),
        peer.message("session_cancel", {"sessionId": session_id}),
    )
    assert peer.read() == {"jsonrpc": "2.0", "id": 7, "result": {"stopReason": "cancelled"}}


def test_a_cancelled_permission_tells_the_agent(bench: Bench) -> None:
    class Asker:
        def prompt(self, turn: Any) -> None:
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            turn.ask_permission({"toolCallId": "1"}, options)

    peer, _serving = bench.serve(Asker())
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    asked = peer.expect("session_request_permission")
    peer.send(
        peer.message("session_cancel", {"sessionId": session_id}),
        {"id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}},
    )
    answers = [message for message in (peer.read(),) if message.get("id") == 7]
    while not answers:
        answers = [message for message in (peer.read(),) if message.get("id") == 7]
    assert answers[0]["result"] == {"stopReason": "cancelled"}


def test_the_end_of_input_ends_serving(bench: Bench) -> None:
    started, forever = bench.event(), bench.event()

    class Stuck:
        def prompt(self, turn: Any) -> None:
            started.set()
            forever.wait(20)

    peer, serving = bench.serve(Stuck())
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    assert started.wait(20)
    peer.shutdown()
    get(serving)


def test_the_waits_of_the_end_are_a_grace(bench: Bench) -> None:
    started, forever = bench.event(), bench.event()

    class Stuck:
        def prompt(self, turn: Any) -> None:
            started.set()
            forever.wait(20)

    for wrong, why in ((Grace, TypeError), ("1", TypeError), (0.0, LocalProtocolError)):
        ours, _ = bench.pair()
        with pytest.raises(why):
            get(bench.spawn(bench.binding.serve, Stuck(), ours, close_grace=wrong))
        ours.close()
    peer, serving = bench.serve(Stuck(), close_grace=Grace(write=1.0, cancel=0.1))
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    assert started.wait(20)
    peer.close()
    get(serving)


def test_turns_of_many_sessions_run_beside_each_other(bench: Bench) -> None:
    first = bench.event()

    class Meeting:
        def prompt(self, turn: Any) -> None:
            if turn.text == "wait":
                assert first.wait(20)
            else:
                first.set()
            turn.send(turn.text)

    agent = bench.both(Meeting())
    one, two = agent.open_session("/tmp"), agent.open_session("/tmp")
    waiting = bench.spawn(lambda: one.prompt("wait").text())
    assert two.prompt("go").text() == "go"
    assert get(waiting) == "wait"


def test_lines_that_are_no_message_are_survived(bench: Bench) -> None:
    peer, _serving = bench.serve(Echo())
    peer.raw(b"noise\nnull\n[]\n\xff\n")
    answers = [peer.read() for _ in range(4)]
    assert all(answer["id"] is None and answer["error"]["code"] in (-32700, -32600) for answer in answers)
    _, session_id = opened(peer)
    prompt(peer, session_id, 7)
    assert peer.read()["params"]["update"]["content"]["text"] == "you said: hi"
