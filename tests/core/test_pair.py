"""The kit for tests: linked pairs, scripted peers, events as data, wire logs, strategies."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_core import (
    AgentConnection,
    AgentMessageChunk,
    ClientConnection,
    ConnectionOver,
    Event,
    HandlerFailed,
    Initialized,
    Limits,
    Malformed,
    NewSessionRequested,
    PermissionRequested,
    PromptRequested,
    PromptSent,
    RequestReceived,
    RequestSettled,
    Session,
    SessionFailed,
    SessionReady,
    TurnEnded,
    TurnFailed,
    WriteFailed,
)
from acp_core.testing import (
    SESSION,
    TO_AGENT,
    TO_CLIENT,
    Answer,
    Call,
    Crash,
    Die,
    Expect,
    ExpectAnswer,
    Late,
    LinkedPair,
    Noisy,
    Notify,
    Oversize,
    Pipe,
    Print,
    Raw,
    Refuse,
    ScriptedAgent,
    ScriptedClient,
    ScriptError,
    SendUpdate,
    Silence,
    Slow,
    Split,
    Step,
    Text,
    Twice,
    WireEntry,
    WireLog,
    describe,
    event_key,
    inject,
)
from acp_core.testing import strategies as wire
from tests.spec.agree import definitions, official

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = settings(
    derandomize=True, database=None, deadline=None, max_examples=60, suppress_health_check=list(HealthCheck)
)

Pair = LinkedPair[ClientConnection, AgentConnection]


def make_pair(
    *, to_agent: Pipe | None = None, to_client: Pipe | None = None, log: WireLog | None = None, now: float = 0.0
) -> Pair:
    """A client, and an agent that serves everything and answers each prompt with two pieces of text."""
    client = ClientConnection(nonce="client", extensions=["_ping"])
    agent = AgentConnection(nonce="agent", extensions=["_ping"])
    pair = LinkedPair(client, agent, to_agent=to_agent, to_client=to_client, log=log, now=now)

    def serve(event: Event) -> None:
        match event:
            case NewSessionRequested():
                agent.accept(event.request_id, f"s{len(agent.sessions) + 1}")
            case PromptRequested():
                assert event.session_id is not None
                agent.update_text(event.session_id, "message", delta="Hello ")
                agent.update_text(event.session_id, "message", delta="wörld")
                agent.end_turn(event.request_id)

    pair.on_agent = serve
    return pair


def open_session(pair: Pair) -> Session:
    session = pair.client.open_session("/work")
    pair.exhaust()
    assert session.state == "idle"
    return session


def names(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, AgentMessageChunk))


# ── Linked pairs ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation() -> None:
    pair = make_pair()
    session = pair.client.open_session("/work")
    prompt_id = pair.client.prompt(session, "hi")
    assert pair.run() > 0
    assert text(pair.client_events) == "Hello wörld"
    ended = pair.client_events[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.prompt_id, ended.stop_reason) == (prompt_id, "end_turn")
    assert names(pair.agent_events) == ["Initialized", "NewSessionRequested", "PromptRequested"]
    assert pair.run() == 0
    sent = [json.loads(line)["method"] for line in pair.to_agent.data.splitlines()]
    assert sent == ["initialize", "session/new", "session/prompt"]
    assert pair.now == 0.0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 5000, None])
def test_any_chunks_and_writes_lead_to_the_same(size: int | None) -> None:
    whole = make_pair()
    whole.client.prompt(open_session(whole), "hi")
    whole.exhaust()
    cut = make_pair(to_agent=Pipe(chunks=size), to_client=Pipe(writes=size))
    cut.client.prompt(open_session(cut), "hi")
    cut.exhaust()
    assert list(map(event_key, cut.client_events)) == list(map(event_key, whole.client_events))
    assert list(map(event_key, cut.agent_events)) == list(map(event_key, whole.agent_events))
    assert (cut.to_agent.data, cut.to_client.data) == (whole.to_agent.data, whole.to_client.data)


def test_reads_have_the_sizes_that_were_asked_for() -> None:
    pipe = Pipe(chunks=itertools.chain([1, 2], itertools.repeat(3, 1)))
    pipe.write(b"abcd", 0.0)
    pipe.write(b"efgh", 0.0)
    assert [pipe.read(0.0) for _ in range(5)] == [b"a", b"bc", b"def", b"gh", None]
    pipe.write(b"ijk", 0.0)
    assert pipe.read(0.0, 2) == b"ij"
    assert (pipe.carried, pipe.delivered, pipe.in_flight) == (11, 10, 1)


def test_writes_have_the_size_that_was_asked_for() -> None:
    pair = make_pair(to_agent=Pipe(writes=50))
    open_session(pair)
    assert max(len(data) for _, data in pair.to_agent.written) == 50


@pytest.mark.parametrize(
    "wrong", [{"chunks": 0}, {"chunks": -1}, {"writes": 0}, {"delay": -0.1}, {"cut_at": -1}], ids=str
)
def test_a_pipe_refuses_sizes_that_go_nowhere(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"least 1|not negative"):
        Pipe(**wrong)


def test_a_chunk_of_nothing_is_refused_when_it_is_drawn() -> None:
    pipe = Pipe(chunks=[1, 0])
    pipe.write(b"ab", 0.0)
    assert pipe.read(0.0) == b"a"
    with pytest.raises(ValueError, match="0 bytes"):
        pipe.read(0.0)


def test_bytes_take_their_time() -> None:
    pair = make_pair(to_agent=Pipe(delay=2.0), to_client=Pipe(delay=0.5), now=10.0)
    pair.client.initialize()
    pair.run()
    assert pair.agent_events == []
    assert pair.next_moment() == 12.0
    pair.advance(1.9)
    assert (pair.now, pair.agent_events) == (11.9, [])
    assert pair.jump()
    assert [event.at for event in pair.agent_events] == [12.0]
    pair.advance(10.0)
    (initialized, *_) = [event for event in pair.client_events if isinstance(event, Initialized)]
    assert initialized.at == 12.5
    assert pair.now == 22.0


def test_deadlines_come_at_their_own_time() -> None:
    pair = make_pair()
    open_session(pair)
    pair.client.request("_ping", deadline=3.0)
    pair.client.request("_ping", deadline=1.0)
    pair.advance(10.0)
    settled = [event for event in pair.client_events if isinstance(event, RequestSettled) and event.key == ""]
    assert [(event.at, event.outcome) for event in settled] == [(1.0, "deadline"), (3.0, "deadline")]
    assert pair.now == 10.0


def test_jumps_end_when_nothing_will_happen() -> None:
    pair = make_pair()
    session = open_session(pair)
    pair.on_agent = None
    pair.client.prompt(session, "hi", deadline=5.0)
    moments = []
    while pair.jump():
        moments.append(pair.now)
    # The prompt's own deadline, and two seconds for the answer to the cancel.
    assert moments == [5.0, 7.0]
    assert session.state == "fenced"


def test_exhaust_stops_at_its_bound() -> None:
    pair = make_pair()
    open_session(pair)
    pair.client.request("_ping", deadline=100.0)
    pair.exhaust(50.0)
    assert (pair.client.open_requests, pair.now) == (1, 0.0)
    pair.exhaust(100.0)
    assert (pair.client.open_requests, pair.now) == (0, 100.0)


def test_the_clock_is_moved_by_nothing_else() -> None:
    pair = make_pair()
    pair.tick(5.0)
    assert (pair.now, pair.client_events) == (5.0, [])
    for move in (pair.tick, pair.advance):
        with pytest.raises(ValueError, match="backwards"):
            move(-1.0)


def test_a_prompts_id_is_known_before_its_bytes_leave() -> None:
    pair = make_pair()
    session = open_session(pair)
    seen: list[int] = []

    def watch(event: Event) -> None:
        if isinstance(event, PromptSent):
            seen.append(pair.to_agent.carried)

    pair.on_client = watch
    before = pair.to_agent.carried
    pair.client.prompt(session, "hi")
    pair.run()
    assert seen == [before]


def test_a_timer_waits_for_what_can_be_read() -> None:
    pair = make_pair(to_client=Pipe(delay=1.0))
    open_session(pair)
    pair.on_agent = lambda event: pair.agent.respond(event.request_id) if isinstance(event, RequestReceived) else None
    pair.client.request("_ping", deadline=1.0)
    pair.advance(1.0)
    # The answer and the deadline fall together: what has come counts.
    assert isinstance(pair.client_events[-1], RequestSettled)
    assert pair.client_events[-1].outcome == "result"
    assert not pair.wake("client")


def test_ends_that_answer_each_other_for_ever_are_found() -> None:
    pair = make_pair()
    open_session(pair)
    pair.on_agent = lambda event: pair.agent.notify("_ping")
    pair.on_client = lambda event: pair.client.notify("_ping")
    pair.client.notify("_ping")
    with pytest.raises(RuntimeError, match="still moving after 30 rounds"):
        pair.run(max_rounds=30)


def test_steps_one_by_one() -> None:
    pair = make_pair()
    pair.client.initialize()
    assert pair.drain("client") == 0
    assert pair.hand_over("client", 10) == 10
    assert pair.deliver("agent", 4) == 4
    assert pair.deliver("agent") == 6
    assert pair.deliver("agent") == -1
    assert pair.hand_over("client") > 10
    while pair.deliver("agent", 1) == 1:
        pass
    assert pair.drain("agent", 1) == 1
    assert names(pair.agent_events) == ["Initialized"]
    with pytest.raises(ValueError, match="side is 'server'"):
        pair.drain("server")


def test_both_ends_end() -> None:
    pair = make_pair()
    open_session(pair)
    pair.client.close()
    pair.run()
    assert pair.client.closed
    assert pair.agent.closed
    assert isinstance(pair.client_events[-1], ConnectionOver)
    assert isinstance(pair.agent_events[-1], ConnectionOver)
    assert pair.to_agent.end_delivered


def test_a_cut_at_any_byte_settles_everything() -> None:
    whole = make_pair()
    whole.client.prompt(whole.client.open_session("/work"), "hi")
    whole.run()
    for cut in range(0, whole.to_client.carried, 5):
        pair = make_pair(to_client=Pipe(cut_at=cut))
        session = pair.client.open_session("/work")
        pair.client.prompt(session, "hi")
        pair.exhaust()
        ends = [event for event in pair.client_events if isinstance(event, (TurnEnded, TurnFailed))]
        assert len(ends) == 1, cut
        assert pair.to_client.data == whole.to_client.data[:cut]
        assert pair.to_client.lost > 0
        assert isinstance(pair.client_events[-1], ConnectionOver)
        assert pair.client.open_requests == 0


def test_a_write_after_the_cut_fails() -> None:
    pair = make_pair()
    session = open_session(pair)
    pair.to_agent.cut_at = pair.to_agent.carried
    pair.client.notify("_ping")
    pair.hand_over("client")
    assert (pair.to_agent.broken, pair.to_agent.lost > 0) == (True, True)
    pair.client.prompt(session, "hi")
    pair.run()
    assert [event.reason for event in pair.client_events if isinstance(event, WriteFailed)] == ["the pipe is broken"]
    assert isinstance(pair.agent_events[-1], ConnectionOver)


def test_a_killed_end_says_and_hears_nothing_more() -> None:
    pair = make_pair()
    session = open_session(pair)
    pair.client.prompt(session, "hi")
    pair.hand_over("client")
    pair.kill("agent")
    pair.run()
    assert pair.dead == {"agent"}
    assert names(pair.agent_events)[-1] == "NewSessionRequested"
    failed = [event for event in pair.client_events if isinstance(event, TurnFailed)]
    assert [event.dispatch for event in failed] == ["sent_no_reply"]
    assert pair.hand_over("agent") == 0


def test_the_log_has_every_line() -> None:
    log = WireLog()
    pair = make_pair(to_agent=Pipe(writes=7), log=log)
    pair.client.prompt(open_session(pair), "hi")
    pair.run()
    assert log.data(TO_AGENT) == pair.to_agent.data
    assert log.data(TO_CLIENT) == pair.to_client.data


# ── Scripted peers ──────────────────────────────────────────────────────────────────────────────────────────────────


def against(steps: list[Step], *, prompts: int = 1, **how: Any) -> tuple[LinkedPair[Any, Any], ScriptedAgent, Session]:
    """A client that opens a session and prompts, against an agent with these steps."""
    agent = ScriptedAgent(steps)
    client = ClientConnection(nonce="client", **how)
    pair = LinkedPair(client, agent)
    session = client.open_session("/work", step_deadline=20.0)
    for _ in range(prompts):
        client.prompt(session, "hi", deadline=30.0)
        pair.exhaust()
    return pair, agent, session


def test_a_scripted_agent_does_what_its_steps_say() -> None:
    steps = [
        *ScriptedAgent.opening("s7"),
        *ScriptedAgent.turn("one ", "two"),
        *ScriptedAgent.turn(stop_reason="refusal"),
    ]
    pair, agent, session = against(steps, prompts=2)
    agent.check()
    assert session.session_id == agent.session_id == "s7"
    assert text(pair.client_events) == "one two"
    ends = [event.stop_reason for event in pair.client_events if isinstance(event, TurnEnded)]
    assert ends == ["end_turn", "refusal"]
    assert [message["method"] for message in agent.received] == [
        "initialize",
        "session/new",
        "session/prompt",
        "session/prompt",
    ]


def test_a_scripted_agent_asks_and_is_answered() -> None:
    ask = {"sessionId": SESSION, "toolCall": {"toolCallId": "c"}, "options": [{"optionId": "a", "kind": "allow_once"}]}
    steps = [
        *ScriptedAgent.opening(),
        Expect("session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}),
        SendUpdate({"sessionUpdate": "plan", "entries": [], "_meta": {"session": SESSION}}),
        Call("session/request_permission", ask),
        ExpectAnswer("session/request_permission"),
        Notify("_vendor/done", {"session": SESSION}),
        Answer(lambda request: {"stopReason": "end_turn", "_meta": {"saw": request["id"]}}),
    ]
    agent = ScriptedAgent(steps)
    client = ClientConnection(nonce="client")
    pair = LinkedPair(client, agent)

    def answer(event: Event) -> None:
        if isinstance(event, PermissionRequested):
            client.answer_permission(event.request_id, event.options[0])

    pair.on_client = answer
    session = client.open_session("/work")
    prompt_id = client.prompt(session, "hi")
    pair.exhaust()
    agent.check()
    ended = pair.client_events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.result["_meta"] == {"saw": prompt_id}
    assert {
        "jsonrpc": "2.0",
        "id": 0,
        "result": {"outcome": {"outcome": "selected", "optionId": "a"}},
    } in agent.received


def test_a_scripted_client_drives_an_agent() -> None:
    steps = [
        *ScriptedClient.opening("/work"),
        *ScriptedClient.turn("hi", Expect("session/update"), Expect("session/update")),
    ]
    pair = make_pair()
    client = ScriptedClient(steps)
    agent = AgentConnection(nonce="agent")
    linked = LinkedPair(client, agent)

    def serve(event: Event) -> None:
        if isinstance(event, NewSessionRequested):
            agent.accept(event.request_id, "s1")
        elif isinstance(event, PromptRequested):
            agent.update_text("s1", "message", delta=event.text)
            agent.update_text("s1", "thought", delta="hm")
            agent.end_turn("s1")

    linked.on_agent = serve
    linked.exhaust()
    client.check()
    assert client.session_id == "s1"
    assert pair.now == 0.0


def test_an_expect_takes_the_first_that_fits_and_leaves_the_others() -> None:
    steps: list[Step] = [Expect("_b"), Expect("_a", {"deep": {"x": 1}})]
    agent = ScriptedAgent(steps)
    for message in (
        {"method": "_a", "params": {"deep": {"x": 2}}},
        {"method": "_a", "params": {"deep": {"x": 1, "y": 2}, "more": 1}},
        {"method": "_b"},
    ):
        agent.receive_data(json.dumps(message).encode() + b"\n", 0.0)
    assert agent.done
    assert agent.unused == [{"method": "_a", "params": {"deep": {"x": 2}}}]
    with pytest.raises(ScriptError, match="no step expected"):
        agent.check()


def test_a_script_that_cannot_go_on_says_where() -> None:
    agent = ScriptedAgent([Expect("_never")])
    with pytest.raises(ScriptError, match="stopped at step 0, Expect"):
        agent.check()
    for steps, why in (
        ([Answer()], "no such request is open"),
        ([Text("x")], "no session is known"),
        ([ExpectAnswer()], "no request of ours"),
        ([Twice(Late(Print(), 1.0))], "put Late around"),
    ):
        with pytest.raises(ScriptError, match=why):
            ScriptedAgent(steps).data_to_send(0.0)
    noisy = ScriptedAgent([])
    noisy.receive_data(b"\n42\nno json\n", 0.0)
    with pytest.raises(ScriptError, match="no JSON objects"):
        noisy.check()


def test_silence_and_death() -> None:
    agent = ScriptedAgent([Print("a"), Silence(2.0), Print("b"), Die(b'{"half'), Print("never")])
    assert agent.data_to_send(0.0) == b"a\n"
    assert agent.data_to_send(0.0) == b""
    assert agent.next_deadline() == 2.0
    agent.handle_timeout(1.0)
    assert agent.data_to_send(1.0) == b""
    assert agent.data_to_send(2.0) == b"b\n"
    assert not agent.output_closed
    assert agent.data_to_send(2.0) == b'{"half'
    assert agent.crashed
    assert agent.output_closed
    assert agent.data_to_send(3.0) == b""
    assert agent.next_deadline() is None


def said(agent: ScriptedAgent) -> list[tuple[float, bytes]]:
    """Everything that an agent says by itself, with the time it says it at."""
    found: list[tuple[float, bytes]] = []
    now = 0.0
    while True:
        while data := agent.data_to_send(now):
            found.append((round(now, 6), data))
        deadline = agent.next_deadline()
        if deadline is None:
            return found
        now = deadline


def test_faults_do_what_they_are_called() -> None:
    line = b"warning\n"
    step = Print("warning")
    assert said(ScriptedAgent([Split(step, (3, 4), pause=0.5)])) == [(0.0, b"war"), (0.5, b"ning"), (1.0, b"\n")]
    assert said(ScriptedAgent([Late(step, 2.0), Print("x")])) == [(0.0, b"x\n"), (2.0, line)]
    assert said(ScriptedAgent([Twice(step)])) == [(0.0, line + line)]
    assert said(ScriptedAgent([Slow(step, 40.0)])) == [(0.0, b"warn"), (0.1, b"ing\n")]
    assert said(ScriptedAgent([Slow(step, 0.5)]))[-1] == (14.0, b"\n")
    crashed = ScriptedAgent([Crash(step, 3), Print("never")])
    assert said(crashed) == [(0.0, b"war")]
    assert crashed.crashed
    assert said(ScriptedAgent([Noisy(step, "noise")])) == [(0.0, b"noise\n" + line)]
    ((_, long),) = said(ScriptedAgent([Oversize(Notify("_x", {"a": {}}), 1000)]))
    assert len(long) == 1001
    assert json.loads(long)["params"] == {"a": {}}
    # A slow message is not torn by the next one, and a late one waits for it.
    slow: list[Step] = [Split(step, (4,), 1.0), Late(Print("late"), 0.5), Print("x")]
    assert b"".join(data for _, data in said(ScriptedAgent(slow))) == line + b"x\nlate\n"


@pytest.mark.parametrize("wrong", [lambda: Split(Print(), ()), lambda: Split(Print(), (0,)), lambda: Slow(Print(), 0)])
def test_faults_refuse_what_never_ends(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"at least 1 byte|positive"):
        wrong()


PLAIN: list[Step] = [*ScriptedAgent.opening(), *ScriptedAgent.turn("one ", "two")]
INJECTED = dict(inject(PLAIN, size=3000))


def test_injections_are_told_apart_by_their_names() -> None:
    assert len(INJECTED) == len(list(inject(PLAIN, size=3000))) == 5 * 9


@pytest.mark.parametrize("name", INJECTED)
def test_a_prompt_settles_once_under_every_fault(name: str) -> None:
    pair, _, session = against(INJECTED[name], limits=Limits(max_line_bytes=2000))
    ends = [event for event in pair.client_events if isinstance(event, (TurnEnded, TurnFailed))]
    opened = [event for event in pair.client_events if isinstance(event, (SessionReady, SessionFailed))]
    assert len(ends) == len(opened) == 1
    if name.startswith(("split", "late", "twice", "slow", "noisy")):
        assert isinstance(ends[0], TurnEnded)
        assert text(pair.client_events).startswith("twoone " if name == "late at step 5, text" else "one ")
    assert session.state in ("idle", "closed", "fenced")


def test_steps_are_values() -> None:
    assert Text("x") == Text("x")
    assert Text("x") != Text("y")
    assert Text("x") != Print("x")
    assert Late(Text("x"), 1.0) == Late(Text("x"), 1.0)
    assert repr(Refuse(-32603)) == "Refuse(-32603, None, 'refused', None)"


def test_a_refusal_and_raw_bytes() -> None:
    steps: list[Step] = [
        Expect("initialize"),
        Raw(b"\xff\xfe\n"),
        Refuse(-32603, "no", {"why": SESSION}, to="initialize"),
    ]
    agent = ScriptedAgent(steps)
    agent.session_id = "s1"
    client = ClientConnection(nonce="client")
    pair = LinkedPair(client, agent)
    client.initialize()
    pair.exhaust()
    assert names(pair.client_events) == ["Noise", "RequestSettled"]
    settled = pair.client_events[-1]
    assert isinstance(settled, RequestSettled)
    assert (settled.outcome, str(settled.error)) == ("error", "no (-32603)")


def test_a_peer_takes_part_in_the_end() -> None:
    agent = ScriptedAgent([Print("x"), Silence(1.0), Print("y")])
    agent.receive_data(b"", 0.0)
    assert agent.input_ended
    assert not agent.output_closed
    assert [data for _, data in said(agent)] == [b"x\n", b"y\n"]
    assert agent.output_closed
    deaf = ScriptedAgent([Print("x"), Late(Print("y"), 1.0)])
    deaf.handle_timeout(0.0)
    deaf.send_failed("broken pipe", 0.0)
    assert said(deaf) == []
    assert deaf.next_event() is None


def test_a_peer_writes_in_pieces() -> None:
    agent = ScriptedAgent([Print("warning")])
    assert [agent.data_to_send(0.0, 3) for _ in range(4)] == [b"war", b"nin", b"g\n", b""]


# ── Events as data ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_events_as_plain_data() -> None:
    pair = make_pair()
    pair.client.prompt(open_session(pair), "hi", token=object())
    pair.run()
    for event in [*pair.client_events, *pair.agent_events]:
        plain = describe(event)
        assert plain["type"] == type(event).__name__
        assert plain["at"] == event.at
        assert json.loads(json.dumps(plain)) == plain
        assert set(plain) == {"type", *(name for name, _ in event.fields())}
        assert "at" not in describe(event, at=False)
        assert json.loads(event_key(event, at=True)) == plain
    chunk = next(event for event in pair.client_events if isinstance(event, AgentMessageChunk))
    assert (describe(chunk)["session"], describe(chunk)["turn"], describe(chunk)["text"]) == ("s1", 3, "Hello ")


def test_odd_values_as_plain_data() -> None:
    client = ClientConnection(nonce="n")
    client.receive_data(b'{"jsonrpc":"2.0","method":"_x","params":{"a":"\xff"}}\n', 0.0)
    (event,) = client.events()
    assert isinstance(event, Malformed)
    plain = describe(event)
    assert plain["line"] == '{"jsonrpc":"2.0","method":"_x","params":{"a":"\udcff"}}'
    assert plain["error"] == {
        "error": "RemoteProtocolError",
        "message": str(event.error),
        "rule": "utf8",
        "code": -32700,
    }
    failed = HandlerFailed(ValueError("x"), event)
    assert describe(failed)["exception"] == {"error": "ValueError", "message": "x"}
    assert describe(failed)["event"] == plain


def test_keys_differ_where_events_do() -> None:
    first, second = make_pair(), make_pair(now=5.0)
    for pair in (first, second):
        pair.client.initialize()
        pair.run()
    same = list(zip(first.client_events, second.client_events, strict=True))
    assert all(event_key(one) == event_key(other) for one, other in same)
    assert all(event_key(one, at=True) != event_key(other, at=True) for one, other in same)
    assert len(set(map(event_key, first.client_events))) == len(first.client_events)


# ── Wire logs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_log_keeps_the_newest_lines() -> None:
    log = WireLog(max_lines=3)
    for number in range(3):
        log.add(float(number), TO_AGENT, b"%d" % number)
    assert (len(log), log.dropped) == (3, 0)
    log.add(3.0, TO_CLIENT, b"3\r\n")
    assert (len(log), log.dropped) == (3, 1)
    assert list(log) == [
        WireEntry(1.0, TO_AGENT, b"1"),
        WireEntry(2.0, TO_AGENT, b"2"),
        WireEntry(3.0, TO_CLIENT, b"3"),
    ]
    assert [entry.text for entry in log] == ["1", "2", "3"]
    assert log.data(TO_AGENT) == b"1\n2\n"


def test_a_log_is_bounded_in_bytes() -> None:
    log = WireLog(max_bytes=3 * (64 + 10))
    for _ in range(3):
        log.add(0.0, TO_AGENT, b"x" * 10)
    assert (len(log), log.size, log.dropped) == (3, log.max_bytes, 0)
    log.add(0.0, TO_AGENT, b"")
    assert (len(log), log.dropped) == (3, 1)
    log.add(0.0, TO_AGENT, b"x" * 11)
    assert log.size <= log.max_bytes


def test_a_log_cuts_long_lines() -> None:
    log = WireLog(max_line_bytes=5)
    log.add(0.0, TO_AGENT, b"12345")
    assert log.cut == 0
    log.add(0.0, TO_AGENT, b"123456")
    for _ in range(1000):
        log.feed(0.0, TO_CLIENT, b"abc")
    log.feed(0.0, TO_CLIENT, b"\n1\n")
    assert [entry.line for entry in log] == [b"12345", b"12345", b"abcab", b"1"]
    assert log.cut == 2


@SETTINGS
@given(st.lists(st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"")), max_size=5), st.data())
def test_a_log_is_fed_by_any_chunks(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    log = WireLog()
    for piece in data.draw(wire.chunkings(stream)):
        log.feed(0.0, TO_AGENT, piece)
    assert [entry.line for entry in log] == [line.rstrip(b"\r") for line in lines]


@SETTINGS
@given(st.lists(st.tuples(st.floats(0, 1e9), st.sampled_from([TO_AGENT, TO_CLIENT]), st.binary(max_size=30))))
def test_a_log_travels_as_json_lines(entries: list[tuple[float, str, bytes]]) -> None:
    log = WireLog()
    for now, direction, line in entries:
        log.add(now, direction, line.replace(b"\n", b""))
    written = log.to_jsonl()
    assert written.isascii()
    assert list(WireLog.from_jsonl(written)) == list(log)
    assert WireLog.from_jsonl("\n" + written + "\n").to_jsonl() == written


@pytest.mark.parametrize(
    "row",
    [
        "no json",
        "[]",
        "{}",
        '{"now":"x","direction":"to_agent","line":""}',
        '{"now":1,"direction":"up","line":""}',
        '{"now":1,"direction":"to_agent","line":1}',
        "[" * 100_000,
    ],
    ids=range(7),
)
def test_a_log_says_which_line_it_cannot_read(row: str) -> None:
    good = '{"now": 1.0, "direction": "to_agent", "line": "x"}\n'
    with pytest.raises(ValueError, match="line 2 of the wire log"):
        WireLog.from_jsonl(good + row + "\n")


def test_a_log_refuses_what_it_cannot_keep() -> None:
    wrongs: list[dict[str, Any]] = [{"max_lines": 0}, {"max_bytes": 0}, {"max_line_bytes": 0}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="positive"):
            WireLog(**wrong)
    for use in (
        lambda: WireLog().add(0.0, "up", b""),
        lambda: WireLog().feed(0.0, "up", b""),
        lambda: WireLog().data("up"),
    ):
        with pytest.raises(ValueError, match="direction is 'up'"):
            use()


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "line",
    [
        '{"params":{"mcpServers":[{"env":[{"name":"KEY","value":"s3cr3t"}]}]}}',
        '{"params":{"mcpServers":[{"headers":[{"name":"Authorization","value":"Bearer s3cr3t"}]}]}}',
        '{"params":{"env":{"KEY":"s3cr3t"}}}',
        '{"params":{"env":["s3cr3t"]}}',
        '{"params":{"env":"s3cr3t"}}',
        '{"params":{"env":{"deep":{"env":{"x":["s3cr3t"]}}}}}',
        '{"params":{"\\u0065n\\u0076":{"KEY":"s3cr3t"}}}',
        '{"params":{"env":{"KEY":"s3cr3t"},"env":null}}',
        '{"params":{"env":{"KEY":"s3cr3t"}},"params":null}',
        '{"params":{"env":{"KEY":"s3cr3t"',
        '{"params":{"\\u0065nv":{"KEY":"s3cr3t"',
        '{"env":' + '{"a":' * 5000 + '"s3cr3t"' + "}" * 5001,
    ],
    ids=range(12),
)
def test_a_log_keeps_no_secret(line: str) -> None:
    log = WireLog()
    log.add(0.0, TO_AGENT, line.encode())
    assert SECRET not in log.to_jsonl()
    assert len(log) == 1
    open_log = WireLog(redact=())
    open_log.add(0.0, TO_AGENT, line.encode())
    assert [entry.line for entry in open_log] == [line.encode()]


def test_a_log_keeps_names_and_everything_else() -> None:
    log = WireLog()
    line = b'{"jsonrpc":"2.0","id":1,"params":{"env":[{"name":"KEY","value":"x"}],"headers":null,"cwd":"/a"}}'
    log.add(0.0, TO_AGENT, line)
    log.add(0.0, TO_AGENT, b'{ "text" : "an env without quotes" }')
    first, second = (entry.line for entry in log)
    assert json.loads(first)["params"] == {
        "env": [{"name": "KEY", "value": "[redacted]"}],
        "headers": None,
        "cwd": "/a",
    }
    assert second == b'{ "text" : "an env without quotes" }'


def test_a_log_is_received_again() -> None:
    log = WireLog()
    pair = make_pair(log=log)
    pair.client.prompt(open_session(pair), "hi")
    pair.run()
    again = ClientConnection(nonce="client", extensions=["_ping"])
    session = again.open_session("/work")
    found = []
    for entry in WireLog.from_jsonl(log.to_jsonl()):
        if entry.direction == TO_CLIENT:
            again.receive_message(entry.line, entry.now)
            found += list(again.events())
        if session.state == "idle" and not any(isinstance(event, PromptSent) for event in found):
            again.prompt(session, "hi")
        again.data_to_send(entry.now)
        found += list(again.events())
    assert list(map(event_key, found)) == list(map(event_key, pair.client_events))


# ── Strategies ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check_valid(kind: str, value: object) -> None:
    errors = [error.message for error in official(kind, False).iter_errors(value)]
    assert not errors, (value, errors)


@pytest.mark.parametrize("kind", wire.UPDATE_KINDS)
def test_updates_fit_the_schema(kind: str) -> None:
    @settings(SETTINGS, max_examples=25)
    @given(wire.updates(kind))
    def check(update: dict[str, object]) -> None:
        assert update["sessionUpdate"] == kind
        check_valid("SessionUpdate", update)

    check()


def test_kinds_are_those_of_the_schema() -> None:
    update = definitions(False)["SessionUpdate"]
    assert isinstance(update, dict)
    official_kinds = {variant["properties"]["sessionUpdate"]["const"] for variant in update["oneOf"]}
    assert set(wire.UPDATE_KINDS) == official_kinds
    with pytest.raises(KeyError, match="no update kind 'poem'"):
        wire.updates("poem")


@SETTINGS
@given(wire.permission_requests("s1"), wire.content_blocks(), wire.unknown_updates(), wire.updates())
def test_other_values_fit_the_schema(
    ask: dict[str, object], block: dict[str, object], unknown: dict[str, object], update: dict[str, object]
) -> None:
    check_valid("RequestPermissionRequest", ask)
    check_valid("ContentBlock", block)
    assert unknown["sessionUpdate"] not in wire.UPDATE_KINDS
    assert isinstance(update["sessionUpdate"], str)


@SETTINGS
@given(st.binary(max_size=60), st.data())
def test_chunkings_lose_nothing(data: bytes, draw: st.DataObject) -> None:
    pieces = draw.draw(wire.chunkings(data))
    assert b"".join(pieces) == data
    assert all(pieces)


@SETTINGS
@given(st.lists(wire.odd_lines(), max_size=5))
def test_odd_lines_end_no_connection(lines: list[bytes]) -> None:
    for connection in (ClientConnection(nonce="n"), AgentConnection(nonce="n")):
        for line in lines:
            assert b"\n" not in line
            connection.receive_data(line + b"\n", 0.0)
            list(connection.events())
        assert connection.state == "new"


@SETTINGS
@given(wire.json_objects(), wire.chunk_sizes())
def test_json_values_travel(value: dict[str, object], size: int | None) -> None:
    assert json.loads(json.dumps(value)) == value
    Pipe(chunks=size)


def test_the_kit_needs_nothing_but_the_library() -> None:
    """hypothesis is loaded by the strategies only."""
    code = "import sys; sys.path.insert(0, '.'); import acp_core.testing; print(sorted(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    for name in ("hypothesis", "asyncio", "dataclasses", "typing", "inspect", "socket", "subprocess", "random"):
        assert f"'{name}'" not in found


def test_what_the_kit_is_given_is_checked() -> None:
    client, agent = ClientConnection(nonce="c"), AgentConnection(nonce="a")
    for ends in ((agent, client), (ScriptedAgent([]), agent), (client, ScriptedClient([])), (client, client)):
        with pytest.raises(ValueError, match="give the client first"):
            LinkedPair(*ends)
    pair = LinkedPair(client, agent)
    with pytest.raises(ValueError, match="clent"):
        pair.kill("clent")
    assert pair.dead == set()
    wrong: Any = [Text("a"), 3]
    for make in (ScriptedAgent, ScriptedClient, lambda steps: [*inject(steps)]):
        with pytest.raises(TypeError, match="step 1 of the script is 3"):
            make(wrong)
    log, text = WireLog(), "x\n"
    for keep in (log.feed, log.add):
        with pytest.raises(TypeError, match="is bytes, not str"):
            keep(0.0, TO_AGENT, text)  # type: ignore[arg-type]  # on purpose
    assert len(log) == 0
