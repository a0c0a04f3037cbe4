"""The client's front over a socket, against a peer that is spoken by hand."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

import acp_core
import acp_sync
from acp_core import (
    AgentMessageChunk,
    ConnectionClosed,
    ConnectionOver,
    ConsumerTooSlow,
    Event,
    HandlerFailed,
    LocalProtocolError,
    Noise,
    PermissionOption,
    PermissionRequested,
    Policy,
    RequestError,
    RequestReceived,
    RequestSettled,
    RequestTimeout,
    TurnEnded,
    TurnFailed,
)
from acp_core.inbox import Inbox
from acp_sync.connection import JOIN, finish
from tests.sync.peer import BOUND, Peer, Script, bounded, until

DENY = Policy({"default": "deny"})
KIB = 1024


@pytest.fixture
def opened(peer: Peer) -> Iterator[tuple[acp_sync.Agent, acp_sync.Session, Peer]]:
    script = Script(peer.opened)
    with acp_sync.connect(peer.other, permissions=DENY, extensions=["x/echo"]) as agent:
        session = agent.open_session("/tmp")
        script.done()
        yield agent, session, peer


Opened = tuple[acp_sync.Agent, acp_sync.Session, Peer]


def interrupt(agent: acp_sync.Agent) -> None:
    """Ctrl-C, once the main thread waits for the agent."""
    until(lambda: agent.link.inbox.waiters)
    os.kill(os.getpid(), signal.SIGINT)


def test_a_turn_is_iterated_to_its_end(opened: Opened) -> None:
    _, session, peer = opened
    turn = session.prompt("hi", identity="mine")
    prompt = peer.read_method("session/prompt")
    peer.say("one ")
    peer.say("two")
    peer.end_turn(prompt)
    seen = [*turn]
    assert [event.text for event in seen if isinstance(event, AgentMessageChunk)] == ["one ", "two"]
    assert isinstance(seen[-1], TurnEnded)
    assert seen[-1].identity == "mine"
    assert turn.result() is seen[-1]
    assert session.state == "idle"


def test_text_and_result(opened: Opened) -> None:
    _, session, peer = opened

    def answer() -> None:
        for _ in range(2):
            prompt = peer.read_method("session/prompt")
            peer.say("a")
            peer.say("b")
            peer.end_turn(prompt)

    script = Script(answer)
    assert session.prompt("1").text() == "ab"
    turn = session.prompt("2")
    assert turn.result().stop_reason == "end_turn"
    assert turn.discarded > 0
    script.done()


def test_a_failed_turn_raises_from_both(opened: Opened) -> None:
    _, session, peer = opened
    turn = session.prompt("hi")
    prompt = peer.read_method("session/prompt")
    peer.write({"id": prompt["id"], "error": {"code": -32000, "message": "log in"}})
    with pytest.raises(RequestError, match="log in"):
        for _ in turn:
            pass
    with pytest.raises(RequestError, match="log in"):
        turn.result()


def test_earlier_updates_are_queued_when_a_request_returns(opened: Opened) -> None:
    agent, session, peer = opened
    turn = session.prompt("hi")
    peer.read_method("session/prompt")

    def answer() -> None:
        request = peer.read_method("x/echo")
        for number in range(500):
            peer.say(str(number))
        peer.answer(request, {"ok": True})

    script = Script(answer)
    assert agent.request("x/echo", {}) == {"ok": True}
    script.done()

    def read() -> list[str]:
        texts: list[str] = []
        for event in turn:
            if isinstance(event, AgentMessageChunk):
                texts.append(event.text)
            if len(texts) == 500:
                break
        return texts

    # Nothing more comes: whatever is not there yet would be waited for in vain.
    assert bounded(read, 5) == [str(number) for number in range(500)]


def test_an_interrupted_request_is_cancelled_and_the_next_one_works(opened: Opened) -> None:
    agent, _, peer = opened

    def answer() -> None:
        first = peer.read_method("x/echo")
        interrupt(agent)
        cancel = peer.read_method("$/cancel_request")
        assert cancel["params"] == {"requestId": first["id"]}
        peer.write({"id": first["id"], "error": {"code": -32800, "message": "cancelled"}})
        peer.answer(peer.read_method("x/echo"), {"n": 2})

    script = Script(answer)
    with pytest.raises(KeyboardInterrupt):
        agent.request("x/echo", {})
    assert agent.request("x/echo", {}) == {"n": 2}
    script.done()


def test_an_interrupted_result_cancels_the_turn(opened: Opened) -> None:
    agent, session, peer = opened

    def answer() -> None:
        prompt = peer.read_method("session/prompt")
        interrupt(agent)
        peer.read_method("session/cancel")
        peer.end_turn(prompt, "cancelled")
        peer.end_turn(peer.read_method("session/prompt"))

    script = Script(answer)
    turn = session.prompt("hi")
    with pytest.raises(KeyboardInterrupt):
        turn.result()
    assert turn.result().stop_reason == "cancelled"
    assert session.prompt("again").result().stop_reason == "end_turn"
    script.done()


def test_an_interrupted_iteration_detaches_and_the_turn_runs_on(opened: Opened) -> None:
    agent, session, peer = opened
    going = threading.Event()

    def answer() -> None:
        prompt = peer.read_method("session/prompt")
        peer.say("x")
        assert going.wait(10)
        interrupt(agent)
        peer.say("y")
        peer.end_turn(prompt)

    script = Script(answer)
    turn = session.prompt("hi")
    with pytest.raises(KeyboardInterrupt):
        for event in turn:
            if isinstance(event, AgentMessageChunk):
                going.set()
    script.done()
    assert turn.result().stop_reason == "end_turn"


def test_an_interrupt_inside_the_core_ends_the_connection(opened: Opened) -> None:
    agent, session, peer = opened
    turn = session.prompt("hi")
    peer.read_method("session/prompt")

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent.link.call(interrupted)
    with pytest.raises(ConnectionClosed, match="interrupted inside the core"):
        turn.result()


@pytest.mark.parametrize("lost", [RequestSettled, TurnFailed, ConnectionOver])
def test_an_interrupt_that_loses_an_event_leaves_nobody_waiting(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, lost: type[Event]
) -> None:
    agent, session, peer = opened
    turn = session.prompt("hi")
    peer.read_method("session/prompt")
    ends: list[object] = []

    def waits(call: Callable[[], object]) -> threading.Thread:
        def body() -> None:
            try:
                ends.append(call())
            except ConnectionClosed as why:
                ends.append(type(why))

        thread = threading.Thread(target=body)
        thread.start()
        return thread

    threads = [waits(turn.result), waits(lambda: agent.request("x/echo", {})), waits(lambda: [*session.events()][:0])]
    peer.read_method("x/echo")
    until(lambda: len(agent.link._blocked) == 3)
    route = Inbox.route

    def interrupted(inbox: Inbox, event: Event) -> Event | None:
        if isinstance(event, lost):
            raise KeyboardInterrupt
        return route(inbox, event)

    with monkeypatch.context() as patch:
        patch.setattr(Inbox, "route", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.link.call(agent.connection.abort, "the owner has left")
    for thread in threads:
        thread.join(BOUND)
    assert sorted(map(str, ends)) == sorted(map(str, [ConnectionClosed, ConnectionClosed, []]))
    agent.link._loops[2].join(BOUND)
    assert not agent.link._loops[2].is_alive()


def test_leaving_a_loop_detaches_and_freezes_nobody(peer: Peer) -> None:
    script = Script(peer.opened)
    with acp_sync.connect(
        peer.other, permissions=DENY, extensions=["x/echo"], pause_at=16 * KIB, full_at=64 * KIB
    ) as agent:
        session = agent.open_session("/tmp")
        script.done()
        turn = session.prompt("hi")
        prompt = peer.read_method("session/prompt")

        def flood() -> None:
            for _ in range(1000):
                peer.say("x" * 1000)
            peer.answer(peer.read_method("x/echo"), {"n": 1})
            peer.end_turn(prompt)

        script = Script(flood)
        for _ in turn:
            break
        assert agent.request("x/echo", {}) == {"n": 1}
        script.done()
        assert turn.result().stop_reason == "end_turn"
        assert turn.discarded >= 999


def test_a_turn_that_nobody_holds_is_detached(peer: Peer) -> None:
    script = Script(peer.opened)
    with acp_sync.connect(peer.other, permissions=DENY, extensions=["x/echo"], pause_at=KIB, full_at=8 * KIB) as agent:
        session = agent.open_session("/tmp")
        script.done()
        session.prompt("hi")
        gc.collect()
        prompt = peer.read_method("session/prompt")
        for _ in range(500):
            peer.say("x" * 1000)
        peer.end_turn(prompt)
        script = Script(lambda: peer.answer(peer.read_method("x/echo"), {}))
        agent.request("x/echo", {})
        script.done()


def test_reading_pauses_when_nobody_reads_and_goes_on(peer: Peer) -> None:
    script = Script(peer.opened)
    with acp_sync.connect(peer.other, permissions=DENY, pause_at=64 * KIB, full_at=1024 * KIB) as agent:
        session = agent.open_session("/tmp")
        script.done()
        turn = session.prompt("hi")
        prompt = peer.read_method("session/prompt")
        count = 20_000

        def flood() -> None:
            for _ in range(count):
                peer.say("x" * 1000)
            peer.end_turn(prompt)

        flooding = Script(flood)
        until(lambda: agent.link.inbox.paused)
        size = agent.link.inbox.size
        threading.Event().wait(0.1)
        assert agent.link.inbox.size == size <= (64 + 256) * KIB
        assert flooding.running
        assert sum(isinstance(event, AgentMessageChunk) for event in turn) == count
        flooding.done()


def test_a_deadline_is_kept_while_reading_is_paused(peer: Peer) -> None:
    script = Script(peer.opened)
    with acp_sync.connect(peer.other, permissions=DENY, pause_at=KIB, full_at=1024 * KIB) as agent:
        session = agent.open_session("/tmp")
        script.done()
        turn = session.prompt("hi", deadline=0.2)
        prompt = peer.read_method("session/prompt")
        for _ in range(10):
            peer.say("x" * KIB)
        peer.read_method("session/cancel")
        peer.end_turn(prompt, "cancelled")
        ended = [*turn][-1]
        assert isinstance(ended, TurnEnded)
        assert ended.cancel_asked == "deadline"


def test_consumer_too_slow_drops_nothing(peer: Peer) -> None:
    script = Script(peer.opened)
    with acp_sync.connect(
        peer.other, permissions=DENY, extensions=["x/echo"], pause_at=16 * KIB, full_at=64 * KIB
    ) as agent:
        session = agent.open_session("/tmp")
        script.done()
        turn = session.prompt("hi")
        prompt = peer.read_method("session/prompt")

        def flood() -> None:
            request = peer.read_method("x/echo")
            for _ in range(3000):
                peer.say("x" * 1000)
            peer.answer(request, {})
            peer.end_turn(prompt)

        script = Script(flood)
        with pytest.raises(ConsumerTooSlow):
            agent.request("x/echo", {})
        assert sum(isinstance(event, AgentMessageChunk) for event in turn) == 3000
        script.done()


def test_a_hundred_thousand_updates_stay_bounded(opened: Opened) -> None:
    agent, session, peer = opened
    count = 100_000
    turn = session.prompt("hi")
    prompt = peer.read_method("session/prompt")
    update = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":'
    update += b'"agent_message_chunk","content":{"type":"text","text":"abcdefgh"}}}}\n'

    def flood() -> None:
        for _ in range(count // 1000):
            peer.mine.sendall(update * 1000)
        peer.end_turn(prompt)

    script = Script(flood)
    seen = largest = 0
    for event in turn:
        seen += isinstance(event, AgentMessageChunk)
        largest = max(largest, agent.link.inbox.size)
    script.done()
    assert seen == count
    assert largest <= (1024 + 512) * KIB


def test_eight_megabytes_both_ways_at_once(opened: Opened) -> None:
    agent, session, peer = opened
    big = "y" * (8 * KIB * KIB)
    turn = session.prompt("hi")
    prompt = peer.read_method("session/prompt")

    def flood() -> None:
        # Nothing is read before everything is written: only a reader that waits for no writer gets it.
        for _ in range(8):
            peer.say("z" * KIB * KIB)
        peer.answer(peer.read_method("x/echo"), {"n": 1})
        peer.end_turn(prompt)

    script = Script(flood)
    assert bounded(lambda: agent.request("x/echo", {"data": big})) == {"n": 1}
    assert len(turn.text()) == 8 * KIB * KIB
    script.done()


def test_two_turns_in_two_sessions_from_two_threads(opened: Opened) -> None:
    agent, first, peer = opened
    script = Script(lambda: peer.new_session("s2"))
    second = agent.open_session("/tmp")
    script.done()

    def answer() -> None:
        prompts = [peer.read_method("session/prompt") for _ in range(2)]
        for number in range(200):
            for session_id in ("s1", "s2"):
                peer.say(f"{session_id}:{number} ", session_id)
        for prompt in prompts:
            peer.end_turn(prompt)

    script = Script(answer)
    texts: dict[str, str] = {}
    threads = [
        threading.Thread(target=lambda s=session: texts.update({s.session_id: s.prompt("hi").text()}))
        for session in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    script.done()
    for session_id in ("s1", "s2"):
        assert texts[session_id] == "".join(f"{session_id}:{number} " for number in range(200))


def test_deadlines(opened: Opened) -> None:
    agent, _, peer = opened
    with pytest.raises(RequestTimeout):
        agent.request("x/echo", {}, deadline=0.05)
    request = peer.read_method("x/echo")
    assert peer.read_method("$/cancel_request")["params"] == {"requestId": request["id"]}


def test_a_deadline_is_kept_while_the_peer_does_not_read(opened: Opened) -> None:
    agent, _, _ = opened
    with contextlib.suppress(RequestTimeout):
        bounded(lambda: agent.request("x/echo", {"data": "x" * 4_000_000}, deadline=0.2), 5)
    with pytest.raises(RequestTimeout):
        bounded(lambda: agent.request("x/echo", {}, deadline=0.2), 5)


def test_a_cancel_without_an_answer_fails_the_turn_and_fences_the_session(opened: Opened) -> None:
    _, session, peer = opened
    turn = session.prompt("hi")
    peer.read_method("session/prompt")
    turn.cancel(deadline=0.05)
    peer.read_method("session/cancel")
    with pytest.raises(RequestTimeout):
        turn.result()
    assert session.state == "fenced"
    with pytest.raises(LocalProtocolError, match="fence"):
        session.prompt("again")


def test_cancel_of_a_turn_that_is_over_does_not_hit_the_next_one(opened: Opened) -> None:
    _, session, peer = opened
    first = session.prompt("1")
    peer.end_turn(peer.read_method("session/prompt"))
    first.result()
    second = session.prompt("2")
    prompt = peer.read_method("session/prompt")
    first.cancel()
    peer.end_turn(prompt)
    assert second.result().stop_reason == "end_turn"


def test_closing_settles_who_waits_in_other_threads(opened: Opened) -> None:
    agent, session, peer = opened
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            agent.request("x/echo", {})
        except ConnectionClosed as why:
            failures.append(why)

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in threads:
        peer.read_method("x/echo")
    agent.close()
    for thread in threads:
        thread.join(10)
    assert len(failures) == 4
    assert agent.closed
    with pytest.raises(LocalProtocolError):
        session.prompt("hi")
    agent.close()


def test_the_end_of_the_peer_settles_who_waits_and_later_calls(opened: Opened) -> None:
    agent, session, peer = opened
    turn = session.prompt("hi")
    peer.read_method("session/prompt")
    peer.mine.shutdown(1)
    with pytest.raises(ConnectionClosed, match="fate is unknown"):
        turn.result()
    with pytest.raises(ConnectionClosed, match="not sent"):
        agent.request("x/echo", {})


def test_handlers(peer: Peer) -> None:
    script = Script(peer.opened)
    events: list[Event] = []

    def read(request: RequestReceived) -> Mapping[str, object]:
        return {"content": f"of {request.params['path']}"}

    def write(request: RequestReceived) -> None:
        raise RequestError(-32002, "read only", {"why": 1})

    def broken(request: RequestReceived) -> Mapping[str, object]:
        raise ValueError("a secret")

    with acp_sync.connect(
        peer.other,
        permissions=DENY,
        handlers={"fs_read_text_file": read, "fs_write_text_file": write, "_x/broken": broken},
        on_event=events.append,
    ) as agent:
        agent.open_session("/tmp")
        script.done()
        assert agent.connection._capabilities == {"fs": {"readTextFile": True, "writeTextFile": True}}
        peer.ask(1, "fs/read_text_file", {"sessionId": "s1", "path": "/a"})
        assert peer.read()["result"] == {"content": "of /a"}
        peer.ask(2, "fs/write_text_file", {"sessionId": "s1", "path": "/a", "content": ""})
        assert peer.read()["error"] == {"code": -32002, "message": "read only", "data": {"why": 1}}
        peer.ask(3, "_x/broken")
        assert peer.read()["error"] == {
            "code": -32603,
            "message": "internal error",
            "data": {"field": "request", "reason": "handler.failed"},
        }
        peer.ask(4, "terminal/create", {"sessionId": "s1", "command": "ls"})
        error = peer.read()["error"]
        assert isinstance(error, dict)
        assert error["code"] == -32601
        peer.ask(5, "x/unknown")
        error = peer.read()["error"]
        assert isinstance(error, dict)
        assert error["code"] == -32601
        until(lambda: any(isinstance(event, HandlerFailed) for event in events))
    failed = [event for event in events if isinstance(event, HandlerFailed)]
    assert [str(event.exception) for event in failed] == ["a secret"]
    assert isinstance(events[-1], ConnectionOver)


def test_an_advertised_method_without_a_handler_is_answered(peer: Peer) -> None:
    script = Script(peer.opened)
    with acp_sync.connect(peer.other, permissions=DENY, capabilities={"terminal": True}) as agent:
        agent.open_session("/tmp")
        script.done()
        peer.ask(4, "terminal/create", {"sessionId": "s1", "command": "ls"})
        error = peer.read()["error"]
        assert isinstance(error, dict)
        assert error["code"] == -32601


def test_a_handler_may_use_the_agent(peer: Peer) -> None:
    script = Script(peer.opened)
    agents: list[acp_sync.Agent] = []

    def handle(request: RequestReceived) -> Mapping[str, object]:
        return {"inner": agents[0].request("x/echo", {})}

    with acp_sync.connect(peer.other, permissions=DENY, handlers={"_x/outer": handle}, extensions=["x/echo"]) as agent:
        agents.append(agent)
        agent.open_session("/tmp")
        script.done()
        peer.ask(7, "_x/outer")
        peer.answer(peer.read_method("x/echo"), 5)
        assert peer.read() == {"jsonrpc": "2.0", "id": 7, "result": {"inner": 5}}
        agents.clear()


ASK = {
    "sessionId": "s1",
    "toolCall": {"toolCallId": "t", "title": "rm"},
    "options": [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ],
}


def selected(option_id: str) -> dict[str, object]:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


def test_permissions_by_callback(peer: Peer) -> None:
    script = Script(peer.opened)
    events: list[Event] = []
    answers: Iterator[PermissionOption | str | Exception | None] = iter(
        ["y", PermissionOption("n", "No", "reject_once"), None, ValueError("oops"), "invented"]
    )

    def ask(request: PermissionRequested) -> PermissionOption | str | None:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with acp_sync.connect(peer.other, permissions=ask, on_event=events.append) as agent:
        session = agent.open_session("/tmp")
        script.done()
        turn = session.prompt("hi")
        prompt = peer.read_method("session/prompt")
        got: list[object] = []
        for number in range(5):
            peer.ask(number, "session/request_permission", ASK)
            message = peer.read()
            got.append(message.get("result", message.get("error")))
        internal = {
            "code": -32603,
            "message": "internal error",
            "data": {"field": "request", "reason": "handler.failed"},
        }
        assert got == [selected("y"), selected("n"), {"outcome": {"outcome": "cancelled"}}, internal, internal]
        peer.end_turn(prompt)
        turn.result()
        until(lambda: sum(isinstance(event, HandlerFailed) for event in events) == 2)


def test_a_policy_that_asks_denies_when_nobody_can_be_asked(peer: Peer) -> None:
    script = Script(peer.opened)
    events: list[Event] = []
    with acp_sync.connect(peer.other, permissions=Policy({"rm": "ask"}), on_event=events.append) as agent:
        agent.open_session("/tmp")
        script.done()
        peer.ask(1, "session/request_permission", ASK)
        assert peer.read()["result"] == selected("n")
        until(lambda: any(isinstance(event, PermissionRequested) for event in events))


def test_a_permission_that_is_answered_too_late_is_harmless(peer: Peer) -> None:
    script = Script(peer.opened)
    asked, go = threading.Event(), threading.Event()
    events: list[Event] = []

    def ask(request: PermissionRequested) -> str:
        asked.set()
        assert go.wait(10)
        return "y"

    with acp_sync.connect(peer.other, permissions=ask, on_event=events.append) as agent:
        session = agent.open_session("/tmp")
        script.done()
        turn = session.prompt("hi")
        prompt = peer.read_method("session/prompt")
        peer.ask(1, "session/request_permission", ASK)
        assert asked.wait(10)
        turn.cancel()
        peer.read_method("session/cancel")
        assert peer.read()["result"] == {"outcome": {"outcome": "cancelled"}}
        go.set()
        peer.end_turn(prompt, "cancelled")
        assert turn.result().stop_reason == "cancelled"
    assert not [event for event in events if isinstance(event, HandlerFailed)]


def test_on_event_gets_the_rest_in_order_and_may_raise(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    script = Script(peer.opened)
    seen: list[str] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Noise):
            seen.append(event.text)
            raise RuntimeError("contained")

    with acp_sync.connect(peer.other, permissions=DENY, on_event=on_event) as agent:
        agent.open_session("/tmp")
        script.done()
        peer.mine.sendall(b"one\ntwo\nthree\n")
        until(lambda: len(seen) == 3)
    assert seen == ["one", "two", "three"]
    assert "contained" in capsys.readouterr().err


def test_a_slow_on_event_drops_and_counts(peer: Peer) -> None:
    script = Script(peer.opened)
    go = threading.Event()
    count = 0

    def on_event(event: Event) -> None:
        nonlocal count
        count += isinstance(event, Noise)
        go.wait(20)

    with acp_sync.connect(peer.other, permissions=DENY, on_event=on_event, extensions=["x/echo"]) as agent:
        agent.open_session("/tmp")
        script.done()
        peer.mine.sendall(b"noise\n" * 20_000)
        script = Script(lambda: peer.answer(peer.read_method("x/echo"), {}))
        agent.request("x/echo", {})
        script.done()
        assert agent.dropped_events > 9000
        go.set()
        until(lambda: count + agent.dropped_events == 20_000)


def test_on_event_may_close_the_agent(peer: Peer) -> None:
    script = Script(peer.opened)
    agents: list[acp_sync.Agent] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Noise):
            agents[0].close()

    agent = acp_sync.connect(peer.other, permissions=DENY, on_event=on_event)
    agents.append(agent)
    session = agent.open_session("/tmp")
    script.done()
    turn = session.prompt("hi")
    peer.mine.sendall(b"bye\n")
    with pytest.raises(ConnectionClosed):
        turn.result()
    bounded(agent.close)


def test_events_between_turns(opened: Opened) -> None:
    _, session, peer = opened
    peer.say("late")
    for title in ("a", "b", "c"):
        update = {"sessionUpdate": "session_info_update", "title": title}
        peer.write({"method": "session/update", "params": {"sessionId": "s1", "update": update}})
    until(lambda: session.handle.title == "c")

    def read() -> list[str]:
        found: list[str] = []
        for event in session.events():
            if isinstance(event, AgentMessageChunk):
                found.append(event.text)
            elif isinstance(event, acp_core.SessionInfoUpdate):
                found.append(event.title or "")
        return found

    peer.mine.shutdown(1)
    assert bounded(read) == ["late", "c"]


def test_session_calls(peer: Peer) -> None:
    def answer() -> None:
        peer.handshake({"sessionCapabilities": {"close": {}}})
        request = peer.read_method("session/new")
        modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
        options = [{"id": "o", "name": "O", "type": "select", "currentValue": "x", "options": []}]
        peer.answer(request, {"sessionId": "s1", "modes": modes, "configOptions": options})
        peer.answer(peer.read_method("session/set_mode"))
        peer.answer(peer.read_method("session/set_config_option"), {"configOptions": options})
        peer.answer(peer.read_method("session/close"))

    script = Script(answer)
    with acp_sync.connect(peer.other, permissions=DENY) as agent:
        session = agent.open_session("/tmp")
        assert "s1" in repr(session)
        session.set_mode("b")
        assert session.handle.current_mode_id == "b"
        session.set_config_option("o", "x")
        session.close()
        assert session.state == "closed"
        assert isinstance([*session.events()][-1], acp_core.SessionClosed)
        script.done()


def test_a_session_that_cannot_be_opened(peer: Peer) -> None:
    def answer() -> None:
        peer.handshake()
        request = peer.read_method("session/new")
        peer.write({"id": request["id"], "error": {"code": -32000, "message": "log in first"}})

    script = Script(answer)
    with acp_sync.connect(peer.other, permissions=DENY) as agent:
        with pytest.raises(RequestError, match="log in first"):
            agent.open_session("/tmp")
        with pytest.raises(LocalProtocolError, match="path"):
            agent.open_session("relative")
        script.done()


def test_initialize_and_typed_requests(peer: Peer) -> None:
    from acp_core.schema import Notification, Request

    def answer() -> None:
        peer.handshake({"sessionCapabilities": {"list": {}}})
        peer.answer(peer.read_method("session/list"), {"sessions": []})
        assert peer.read_method("_x/note")["params"] == {"a": 1}

    script = Script(answer)
    with acp_sync.connect(peer.other, permissions=DENY) as agent:
        agent.initialize()
        assert agent.peer_capabilities == {"sessionCapabilities": {"list": {}}}
        ask: Request[dict[str, object]] = Request("session/list", "session_list", {})
        result = agent.request(ask)
        assert result["sessions"] == []
        agent.notify(Notification("_x/note", "_x/note", {"a": 1}))
        script.done()
        with pytest.raises(LocalProtocolError, match="once"):
            agent.initialize()


def test_wrong_arguments() -> None:
    ends = os.pipe()
    try:
        with pytest.raises(TypeError, match="permissions"):
            acp_sync.connect(ends, permissions=3)  # type: ignore[arg-type]
        with pytest.raises(LocalProtocolError, match="no handler can be named"):
            acp_sync.connect(ends, permissions=DENY, handlers={"fs_read": lambda request: None})
        with pytest.raises(LocalProtocolError, match="no handler can be named"):
            acp_sync.connect(ends, permissions=DENY, handlers={"session_request_permission": lambda request: None})
        with pytest.raises(TypeError, match="transport"):
            acp_sync.connect(object(), permissions=DENY)  # type: ignore[arg-type]
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                os.close(end)


def test_letting_go_without_closing(peer: Peer) -> None:
    script = Script(peer.opened)
    agent = acp_sync.connect(peer.other, permissions=DENY)
    agent.open_session("/tmp")
    script.done()
    del agent
    gc.collect()
    assert bounded(peer.at_end)


@pytest.mark.parametrize("what", ["turn", "agent"])
def test_a_collection_inside_the_core_waits_for_nothing(opened: Opened, what: str) -> None:
    """A finalizer runs in whatever thread allocates next: also in one that is in the core of its own connection."""
    agent, session, peer = opened
    other = Peer()

    class Circle:
        def __init__(self) -> None:
            self.me = self
            if what == "turn":
                self.held: object = session.prompt("hi")
            else:
                self.held = acp_sync.connect(other.other, permissions=DENY)

    inbox = agent.link.inbox
    gc.disable()
    try:
        Circle()
        if what == "turn":
            prompt = peer.read_method("session/prompt")
            peer.say("x" * KIB)
            until(lambda: inbox.size)

        def collect() -> bool:
            gc.collect()
            return True

        bounded(lambda: finish(agent.link.until(collect)))
        if what == "turn":
            until(lambda: not inbox.size)
            peer.end_turn(prompt)
        else:
            assert other.at_end()
    finally:
        gc.enable()
        other.close()


def test_a_session_keeps_its_connection(peer: Peer) -> None:
    def helper() -> acp_sync.Session:
        return acp_sync.connect(peer.other, permissions=DENY).open_session("/tmp")

    script = Script(peer.opened)
    session = helper()
    script.done()
    gc.collect()
    turn = session.prompt("hi")
    del session
    gc.collect()
    prompt = peer.read_method("session/prompt")
    peer.say("still here")
    peer.end_turn(prompt)
    assert turn.text() == "still here"
    # Nobody collects: that nothing is held any more is enough.
    gc.disable()
    try:
        del turn
        until(peer.at_end)
    finally:
        gc.enable()


def test_turn_as_a_context(opened: Opened) -> None:
    _, session, peer = opened
    with session.prompt("hi") as turn:
        prompt = peer.read_method("session/prompt")
    peer.say("unread")
    peer.end_turn(prompt)
    assert isinstance(turn.result(), TurnEnded)
    assert turn.discarded > 0
    assert [type(event) for event in turn] == [TurnEnded]
    assert TurnFailed not in {type(event) for event in turn}


def test_closing_from_on_event_waits_for_no_thread_that_waits(peer: Peer) -> None:
    """The dispatcher is in the close, so that the close must not wait for it."""
    took: list[float] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Noise):
            began = time.monotonic()
            agent.close()
            took.append(time.monotonic() - began)

    agent = acp_sync.connect(peer.other, permissions=DENY, on_event=on_event)
    peer.mine.sendall(b"noise\n")
    until(lambda: took)
    assert took[0] < JOIN


def test_a_step_of_closing_that_closes_does_not_wait_for_itself(peer: Peer) -> None:
    again: list[bool] = []

    def step() -> None:
        agent.close()
        again.append(agent.closing.closed)

    agent = acp_sync.connect(peer.other, permissions=DENY)
    assert agent.on_close(step, within=BOUND) == "step"
    bounded(agent.close)
    assert again == [False]
    assert agent.closing.closed


def test_a_step_of_closing_that_ends_its_thread_is_a_failure(peer: Peer) -> None:
    def step() -> None:
        if not ended:
            ended.append(True)
            raise SystemExit(3)

    ended: list[bool] = []
    agent = acp_sync.connect(peer.other, permissions=DENY)
    agent.on_close(step)
    with pytest.raises(ExceptionGroup) as caught:
        agent.close()
    assert [str(why) for why in caught.value.exceptions] == ["closing step 'step' was ended by SystemExit(3)"]
    agent.close()


def test_an_agent_with_steps_is_let_go_of_like_any_other(peer: Peer) -> None:
    """What hangs on the close of an agent that nobody closes is not released: nobody has said that it may be."""
    released: list[str] = []
    agent = acp_sync.connect(peer.other, permissions=DENY)
    agent.on_close(lambda: released.append("lock"))
    del agent
    until(peer.at_end)
    assert released == []


def test_an_interrupt_before_closing_has_begun_ends_the_agent_too(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = acp_sync.connect(peer.other, permissions=DENY, close_grace=0.2)

    def interrupted(connection: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(agent.connection), "refuse_turns", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.close()
    assert peer.at_end()
    agent.close()
    assert agent.closing.closed


def test_an_interrupt_behind_the_start_of_closing_leaves_one_who_walks(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = acp_sync.connect(peer.other, permissions=DENY, close_grace=0.2)
    walkers: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "acp closing":
            walkers.append(thread)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.close()
    assert agent.closed
    walkers[0].join(BOUND)
    assert not agent.closing.begun
    agent.close()
    assert agent.closing.closed


def test_no_thread_for_closing_ends_the_agent_all_the_same(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = acp_sync.connect(peer.other, permissions=DENY)

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start"):
            agent.close()
    assert peer.at_end()
    agent.close()
    assert agent.closing.closed
