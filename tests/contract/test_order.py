"""What stood first on the wire is given first (rule 8), however slow handlers and readers are."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from acp_core import AgentMessageChunk, CycleEnded, PermissionRequested, PromptSent, RequestReceived, TurnEnded, Update
from tests.contract.harness import Bench, get

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from acp_core import Event


def texts(events: Iterable[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, AgentMessageChunk)]


def test_a_turn_is_prompt_updates_end(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi", identity="mine")
    prompt = peer.prompted()
    assert prompt["params"]["prompt"] == [{"type": "text", "text": "hi"}]
    assert prompt["id"] == turn.prompt_id
    peer.send(*(peer.chunk(str(number)) for number in range(200)), peer.update("new_kind", x=1))
    peer.end(prompt)
    events = list(turn)
    assert isinstance(events[0], PromptSent)
    assert texts(events) == [str(number) for number in range(200)]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].identity == "mine"
    assert events[-1].stop_reason == "end_turn"
    assert list(turn) == events[-1:]


def test_the_prompt_is_known_before_any_answer(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    iterator = iter(session.prompt("hi"))
    assert isinstance(next(iterator), PromptSent)
    peer.end(peer.prompted())
    assert isinstance(next(iterator), TurnEnded)


def test_an_answer_comes_after_the_updates_before_it(bench: Bench) -> None:
    agent, session, peer = bench.session()
    asked = bench.spawn(agent.request, "_x/ask")
    request = peer.read()
    peer.send(*(peer.chunk(str(number)) for number in range(50)), {"id": request["id"], "result": {}})
    get(asked)
    # All of them are there by now: taking them waits for nothing.
    events = session.events()
    found: list[str] = []
    while len(found) < 50:
        event = next(events)
        if isinstance(event, Update):
            found += texts([event])
    assert found == [str(number) for number in range(50)]


def test_turns_of_one_session_do_not_mix(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    for number in range(30):
        job = bench.spawn(lambda: session.prompt("hi").text())
        prompt = peer.prompted()
        peer.send(
            peer.chunk(f"a{number}"),
            peer.chunk(f"b{number}"),
            {"id": prompt["id"], "result": {"stopReason": "end_turn"}},
        )
        assert get(job) == f"a{number}b{number}"


def test_sessions_do_not_mix(bench: Bench) -> None:
    agent, one, peer = bench.session("s1")
    two = bench.another(agent, peer, "s2")
    turns = one.prompt("1"), two.prompt("2")
    prompts = {message["params"]["sessionId"]: message for message in (peer.prompted(), peer.prompted())}
    for number in range(50):
        peer.send(peer.chunk(f"{number} ", "s1"), peer.chunk(f"{-number} ", "s2"))
    peer.end(prompts["s2"])
    assert turns[1].text() == "".join(f"{-number} " for number in range(50))
    peer.end(prompts["s1"])
    assert turns[0].text() == "".join(f"{number} " for number in range(50))


def test_a_slow_permission_holds_up_no_update(bench: Bench) -> None:
    release = bench.event()

    def ask(request: PermissionRequested) -> str:
        assert release.wait(20)
        return "yes"

    _agent, session, peer = bench.session(permissions=ask)
    turn = session.prompt("hi")
    prompt = peer.prompted()
    peer.send(peer.chunk("1"), peer.permission(7), peer.chunk("2"), peer.chunk("3"))
    found: list[str] = []
    for event in turn:
        found += texts([event])
        if len(found) == 3:
            release.set()
            assert peer.read()["result"]["outcome"]["optionId"] == "yes"
            peer.send(peer.chunk("4"))
            peer.end(prompt)
    assert found == ["1", "2", "3", "4"]


def test_handlers_run_beside_each_other(bench: Bench) -> None:
    """The second handler has to end before the first one can."""
    second = threading.Event()

    def read(request: RequestReceived) -> Mapping[str, object]:
        if request.params["path"] == "/first":
            assert second.wait(20)
        else:
            second.set()
        return {"content": str(request.params["path"])}

    _agent, _session, peer = bench.session(handlers={"fs_read_text_file": read})
    for path in ("/first", "/second"):
        peer.send(peer.message("fs_read_text_file", {"sessionId": "s1", "path": path}, path))
    answers = [peer.read(), peer.read()]
    assert {answer["id"]: answer["result"]["content"] for answer in answers} == {
        "/first": "/first",
        "/second": "/second",
    }


def test_what_the_agent_says_ahead_of_the_session_id_is_kept(bench: Bench) -> None:
    agent, peer = bench.connect()
    opening = bench.spawn(agent.open_session, "/tmp")
    peer.initialized()
    request = peer.expect("session_new")
    peer.send(peer.chunk("early"), {"id": request["id"], "result": {"sessionId": "s1"}})
    session = get(opening)
    for event in session.events():
        if isinstance(event, AgentMessageChunk):
            assert event.text == "early"
            break


def test_replay_goes_to_the_session(bench: Bench) -> None:
    agent, peer = bench.connect()
    opening = bench.spawn(agent.open_session, "/tmp", resume="old", replay="report", replay_quiet=0.2)
    peer.initialized(loadSession=True)
    request = peer.expect("session_load")
    peer.send(peer.chunk("one", "old"), {"id": request["id"], "result": None}, peer.chunk("two", "old"))
    session = get(opening)
    found: list[str] = []
    for event in session.events():
        if isinstance(event, AgentMessageChunk):
            assert event.replayed
            found.append(event.text)
            if len(found) == 2:
                break
    assert found == ["one", "two"]


def test_events_of_a_session_end_with_the_connection(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    reading = bench.spawn(lambda: list(session.events()))
    peer.send(peer.update("session_info_update", title="t"))
    peer.shutdown()
    events = get(reading)
    assert [event.update["title"] for event in events if isinstance(event, Update)] == ["t"]


def test_each_reader_of_events_is_woken(bench: Bench) -> None:
    _agent, session, peer = bench.session()

    def read() -> str:
        return next(event.text for event in session.events() if isinstance(event, AgentMessageChunk))

    readers = [bench.spawn(read) for _ in range(3)]
    for text in "abc":
        peer.send(peer.chunk(text))
    assert sorted(get(reader) for reader in readers) == ["a", "b", "c"]


def test_the_origins_that_end_a_cycle_are_an_argument(bench: Bench) -> None:
    _agent, session, peer = bench.session(cycle_origins=["mine"])
    for kind in ("task-notification", "mine"):
        peer.send(peer.update("usage_update", used=1, size=2, _meta={"_claude/origin": {"kind": kind}}))
    peer.send(peer.chunk("last"))
    events = session.events()
    seen: list[Event] = []
    while not isinstance(seen[-1] if seen else None, AgentMessageChunk):
        seen.append(next(events))
    assert [event.origin for event in seen if isinstance(event, CycleEnded)] == ["mine"]
