"""What a program sees at the client's front: failures of its own code, texts, withdrawn prompts, errors, arguments."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest

import acp_anyio.client
import acp_sync.client
from acp_core import (
    AgentMessageChunk,
    ConsumerTooSlow,
    Limits,
    LocalProtocolError,
    Noise,
    PermissionRequested,
    Policy,
    ReplayDiscarded,
    RequestError,
    RequestTimeout,
    SessionReady,
)
from tests.contract.harness import CWD, LIMIT, Bench, get, wait_until


def raises(request: object) -> None:
    """A callback of the owner with a defect."""
    raise ZeroDivisionError("the owner's defect")


# ── What the owner's code raises ────────────────────────────────────────────────────────────────────────────────────


def printed(capfd: pytest.CaptureFixture[str], word: str) -> str:
    """What was printed to stderr, as soon as the word stands there."""
    found = ""
    end = time.monotonic() + LIMIT
    while word not in found:
        assert time.monotonic() < end, f"{word!r} was not printed: {found!r}"
        time.sleep(0.001)
        found += capfd.readouterr().err
    return found


@pytest.mark.parametrize(("answer", "word"), [(None, "ZeroDivisionError"), ("nonsense", "nonsense"), (True, "bool")])
def test_a_failing_permission_callback_is_printed(
    bench: Bench, answer: object, word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def ask(request: PermissionRequested) -> Any:
        return raises(request) if answer is None else answer

    _agent, session, peer = bench.session(permissions=ask, on_event=None)
    session.prompt("hi")
    peer.prompted()
    peer.send(peer.permission(3))
    assert peer.read()["error"]["code"] == -32603
    assert "Traceback" in printed(capfd, word)


def test_a_failing_elicitation_and_a_failing_handler_are_printed(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    def no_arguments() -> None:
        raise AssertionError

    _agent, _session, peer = bench.session(
        on_event=None, elicitation={"form": raises}, handlers={"_x/wrong_arity": no_arguments}
    )
    schema = {"type": "object", "properties": {}}
    params = {"sessionId": "s1", "mode": "form", "message": "Who?", "requestedSchema": schema}
    peer.send(peer.message("elicitation_create", params, 7))
    assert peer.read()["error"]["code"] == -32603
    printed(capfd, "ZeroDivisionError")
    peer.send({"id": 8, "method": "_x/wrong_arity", "params": {}})
    assert peer.read()["error"]["code"] == -32603
    printed(capfd, "TypeError")


# ── Opening a session ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("replay", ["report", "discard"])
def test_the_end_of_a_replay_is_told_to_who_reads_the_session(bench: Bench, replay: str) -> None:
    agent, peer = bench.connect(pause_at=1000)
    opening = bench.spawn(agent.open_session, CWD, resume="old", replay=replay, replay_quiet=0.05)
    peer.initialized(loadSession=True)
    request = peer.expect("session_load")
    # More than is kept for who has not asked for it.
    words = [f"{number:0200}" for number in range(20)]
    peer.send(*(peer.chunk(word, "old") for word in words), {"id": request["id"], "result": {}})
    session = get(opening)
    events = []
    for event in session.events():
        events.append(event)
        if isinstance(event, SessionReady):
            break
    ready = events[-1]
    assert isinstance(ready, SessionReady)
    assert ready.replayed == 20
    assert session.discarded == 0
    if replay == "report":
        assert [event.text for event in events if isinstance(event, AgentMessageChunk)] == words
    else:
        assert [event.count for event in events if isinstance(event, ReplayDiscarded)] == [20]
    peer.send(peer.chunk("later", "old"))
    later = next(iter(session.events()))
    assert isinstance(later, AgentMessageChunk)
    assert later.text == "later"


def test_a_replay_that_ends_in_a_failure_freezes_nobody(bench: Bench) -> None:
    agent, peer = bench.connect(pause_at=1000)
    opening = bench.spawn(agent.open_session, CWD, resume="old", replay="report")
    peer.initialized(loadSession=True)
    request = peer.expect("session_load")
    peer.send(*(peer.chunk("x" * 200, "old") for _ in range(20)))
    peer.error(request, -32603, "lost")
    with pytest.raises(RequestError):
        get(opening)
    peer.raw(b"noise\n")
    bench.wait_seen(Noise)


# ── The text of a turn ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_text_of_a_turn_is_given_again(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    peer.send(peer.chunk("a"), peer.chunk("b"))
    peer.end(prompt)
    assert [turn.text(), turn.text()] == ["ab", "ab"]
    assert turn.result().stop_reason == "end_turn"
    assert turn.text() == "ab"


def test_what_a_loop_has_read_is_in_the_text(bench: Bench) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    peer.send(peer.chunk("a"), peer.chunk("b"))
    peer.end(prompt)
    assert len([*turn]) >= 3
    assert turn.text() == "ab"


@pytest.mark.parametrize("leave", ["result", "detach", "loop"])
def test_a_text_that_was_discarded_is_not_empty(bench: Bench, leave: str) -> None:
    _agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    peer.send(peer.chunk("a"), peer.chunk("b"))
    if leave == "loop":
        for event in turn:
            if isinstance(event, AgentMessageChunk):
                break
    if leave == "detach":
        turn.detach()
    peer.end(prompt)
    assert turn.result().stop_reason == "end_turn"
    with pytest.raises(LocalProtocolError, match="discarded") as caught:
        turn.text()
    assert caught.value.rule == "turn.text"


@pytest.mark.parametrize(("words", "whole"), [(3, True), (10, False)])
def test_the_text_that_a_loop_leaves_is_bounded(bench: Bench, words: int, whole: bool) -> None:
    _agent, session, peer = bench.session(full_at=1000, pause_at=500)

    def read() -> None:
        while True:
            with suppress(ConsumerTooSlow):
                for _ in turn:
                    pass
                return

    turn = session.prompt("hi")
    prompt = peer.prompted()
    reading = bench.spawn(read)
    peer.send(*(peer.chunk("x" * 100) for _ in range(words)))
    peer.end(prompt)
    get(reading)
    if whole:
        assert turn.text() == "x" * 300
        return
    with pytest.raises(LocalProtocolError, match="kept") as caught:
        turn.text()
    assert caught.value.rule == "turn.text"


# ── Errors say what is known ────────────────────────────────────────────────────────────────────────────────────────


def test_every_error_says_whether_its_request_was_sent(bench: Bench) -> None:
    agent, _session, peer = bench.session()
    asked = bench.spawn(agent.request, "_x/refused")
    peer.error(peer.read(), -32000, "log in")
    with pytest.raises(RequestError) as refused:
        get(asked)
    with pytest.raises(RequestTimeout) as late:
        agent.request("_x/late", deadline=0.05)
    assert (refused.value.dispatch, late.value.dispatch) == ("answered", "sent_no_reply")
    assert LocalProtocolError("none", rule="none").dispatch is None


@pytest.mark.parametrize(
    ("options", "why"),
    [({}, "by its owner"), ({"deadline": 0.05}, "past its deadline"), ({"idle_timeout": 0.05}, "for its silence")],
)
def test_a_timeout_says_who_has_cancelled(bench: Bench, options: dict[str, Any], why: str) -> None:
    _agent, session, peer = bench.session(limits=Limits(cancel_grace=0.05))
    if "idle_timeout" in options:
        options = {**options, "on_idle": "cancel"}
    turn = session.prompt("hi", **options)
    peer.prompted()
    if not options:
        turn.cancel(deadline=0.05)
    with pytest.raises(RequestTimeout, match=why) as caught:
        turn.result()
    assert caught.value.dispatch == "sent_no_reply"


def test_an_intent_behind_the_end_says_why_it_has_ended(bench: Bench) -> None:
    agent, session, _peer = bench.session()
    agent.close()
    with pytest.raises(
        LocalProtocolError, match="the connection is over: closed by the owner; make a new one"
    ) as caught:
        agent.request("_x/late")
    assert caught.value.rule == "connection.over"
    with pytest.raises(LocalProtocolError):
        session.prompt("late")


# ── Arguments that are wrong ────────────────────────────────────────────────────────────────────────────────────────


async def awaited(event: object) -> None:
    """What nobody awaits."""


WRONG: list[tuple[dict[str, object], str]] = [
    ({"onevent": print}, r"open_it\(\) got an unexpected keyword argument 'onevent'"),
    ({"blocking": print}, "'blocking'"),
    ({"permissions": 3}, "permissions must be"),
    ({"workspace": "/tmp"}, "workspace must be a Workspace or None, not str"),
    ({"limits": {}}, "limits must be a Limits or None, not dict"),
    ({"methods": "V1"}, "methods must be a MethodTable, not str"),
    ({"handlers": 3}, "handlers must be a mapping or None, not int"),
    ({"handlers": {"fs_read_text_file": 3}}, r"handlers\['fs_read_text_file'\] must be callable, not int"),
    ({"elicitation": {"form": 3}}, r"elicitation\['form'\] must be callable, not int"),
    ({"restore": "{}"}, "restore must be a mapping or None, not str"),
    ({"capabilities": []}, "capabilities must be a mapping or None, not list"),
    ({"on_event": 3}, "on_event must be callable or None, not int"),
    ({"on_snapshot": 3}, "on_snapshot must be callable or None, not int"),
    ({"attach_deadline": "x"}, "attach_deadline must be a number of seconds, not str"),
    ({"pause_at": "x"}, "pause_at must be a number of bytes, not str"),
]


@pytest.mark.parametrize("colour", [acp_sync.client, acp_anyio.client], ids=["threads", "loops"])
@pytest.mark.parametrize(("options", "message"), WRONG)
def test_a_wrong_argument_is_named(colour: Any, options: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        colour.client_setup("open_it", **{"permissions": Policy(), **options})


class Awaited:
    """The same, as an object."""

    async def __call__(self, event: object) -> None: ...

    async def prompt(self, turn: object) -> None: ...


@pytest.mark.parametrize("listener", [awaited, Awaited(), Awaited().__call__, partial(awaited)])
@pytest.mark.parametrize("colour", [acp_sync.client, acp_anyio.client], ids=["threads", "loops"])
def test_an_event_is_awaited_by_nobody(colour: Any, listener: Any) -> None:
    with pytest.raises(TypeError, match="on_event must be a plain function"):
        colour.client_setup("connect", Policy(), on_event=listener)


@pytest.mark.parametrize("colour", [acp_sync, acp_anyio], ids=["threads", "loops"])
@pytest.mark.parametrize(
    ("listener", "message"), [(awaited, "on_event must be a plain function"), (3, "on_event must be callable or None")]
)
def test_an_event_of_an_agent_is_awaited_by_nobody(colour: Any, listener: Any, message: str) -> None:
    serve = partial(colour.serve_on, Awaited(), None, on_event=listener)
    with pytest.raises(TypeError, match=message):
        serve() if colour is acp_sync else anyio.run(serve)


def test_rules_of_a_policy_are_a_mapping() -> None:
    with pytest.raises(TypeError, match="rules must be a mapping of keys to verdicts, not list"):
        Policy(["deny"])  # type: ignore[arg-type]  # wrong on purpose


def test_who_is_asked_for_a_permission_is_no_handler() -> None:
    with pytest.raises(LocalProtocolError, match="is the argument permissions") as asked:
        acp_sync.client.client_setup("connect", Policy(), handlers={"session_request_permission": raises})
    with pytest.raises(LocalProtocolError, match="give a key of") as unknown:
        acp_sync.client.client_setup("connect", Policy(), handlers={"fs_read": raises})
    assert "session_request_permission" not in str(unknown.value)
    assert asked.value.rule == unknown.value.rule == "handlers.name"


def test_a_command_is_words() -> None:
    with pytest.raises(TypeError, match="command must be a str or a sequence of words, not int"):
        acp_sync.open_agent(3, permissions=Policy())  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("call", ["open_session", "prompt"])
def test_an_option_that_there_is_not_is_named(bench: Bench, call: str) -> None:
    agent, session, _peer = bench.session()
    with pytest.raises(TypeError, match=rf"{call}\(\) got an unexpected keyword argument 'token'"):
        agent.open_session(CWD, token=1) if call == "open_session" else session.prompt("hi", token=1)


# ── What is no agent ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["initialize", "open_session"])
def test_a_program_that_is_no_agent_is_told_by_what_it_prints(bench: Bench, how: str) -> None:
    agent, peer = bench.connect()
    peer.raw(b"usage: agent [--acp]\nmore\n")
    with pytest.raises(RequestTimeout) as caught:
        if how == "initialize":
            agent.initialize(deadline=0.5)
        else:
            agent.open_session(CWD, step_deadline=0.5)
    assert str(caught.value) == (
        "no answer to " + bench.methods.wire("initialize") + " in time; this is no ACP agent, or it needs other "
        "arguments; it printed: 'usage: agent [--acp]'"
    )
    assert caught.value.dispatch == "sent_no_reply"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX process groups")
def test_a_process_that_is_no_agent_is_told_by_its_stderr() -> None:
    code = "import sys, time; print('usage', file=sys.stderr, flush=True); time.sleep(60)"
    words = r"it still runs; its stderr ends with: usage$"
    with acp_sync.open_agent([sys.executable, "-c", code], permissions=Policy(), close_grace=0.1) as agent:
        wait_until(lambda: bool(agent.stderr_tail))
        with pytest.raises(RequestTimeout, match=words):
            agent.open_session(CWD, step_deadline=0.1)

    async def main() -> None:
        command = [sys.executable, "-c", code]
        async with acp_anyio.open_agent(command, permissions=Policy(), close_grace=0.1) as agent:
            while not agent.stderr_tail:
                await anyio.sleep(0.01)
            with pytest.raises(RequestTimeout, match=words):
                await agent.open_session(CWD, step_deadline=0.1)

    anyio.run(main)
