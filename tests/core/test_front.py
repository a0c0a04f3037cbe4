"""The fronts' common part, without a colour: who answers what, what is advertised, and what a turn of an owner does."""

from __future__ import annotations

import gc
import json
import types
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, Generic, TypeVar

import pytest

from acp_core import (
    AgentConnection,
    AgentMessageChunk,
    Event,
    Grace,
    LocalProtocolError,
    PermissionOption,
    PermissionRequested,
    Policy,
    PromptSent,
    RequestReceived,
    TurnCancelReceived,
    TurnEnded,
)
from acp_core.events import ConnectionOver
from acp_core.front import link as front
from acp_core.front import plain_dict, wire_message
from acp_core.front.agent import (
    AgentDesk,
    AgentSessionCalls,
    AgentTurnFront,
    agent_connection,
    check_agent,
    chosen_option,
    misspelt,
)
from acp_core.front.client import AgentCalls, SessionCalls, SessionIterator, TurnCalls, TurnIterator
from acp_core.front.closing import Closer
from acp_core.front.link import nothing
from acp_core.front.setup import ClientSetup
from acp_core.inbox import Channel, Inbox
from acp_core.schema import Notification, Request
from acp_core.sessions import Session as Handle
from tests.core.helpers import (
    AgentDriver,
    ClientDriver,
    Message,
    chunk,
    notification,
    permission,
    request,
    result,
)

T = TypeVar("T")


@types.coroutine
def pause() -> Generator[None]:
    """Suspend until whoever runs the coroutine goes on."""
    yield


class Waiter:
    """Who waits, and is woken by nobody."""

    def __init__(self) -> None:
        self.event: Event | None = None
        self.woken = 0

    def settle(self, event: Event) -> None:
        self.event = event
        self.notify()

    def notify(self) -> None:
        self.woken += 1

    async def pause(self, deadline: float | None = None) -> None:
        await pause()


class Link(front.Link[Waiter]):
    """A link that is worked by hand: the owner's code runs when ``run`` is called, in the order it was spawned."""

    def __init__(self, driver: ClientDriver | AgentDriver, inbox: Inbox) -> None:
        super().__init__(driver.conn, inbox, lambda: driver.now)
        self.driver = driver
        self.reported: list[Event] = []
        self.jobs: list[Callable[[], None]] = []
        self.raised: list[BaseException] = []

    def waiter(self) -> Waiter:
        return Waiter()

    def pump(self) -> None:
        self.drain()
        for wake in [*self.watching]:
            wake()

    def report(self, event: Event) -> None:
        self.reported.append(event)

    def spawn(
        self,
        event: RequestReceived,
        work: Callable[[], object],
        answer: Callable[[object], None],
        over: Callable[[], object] = nothing,
    ) -> None:
        def job() -> None:
            try:
                answer(work())
            finally:
                over()

        self.jobs.append(job)

    def tell(self, event: RequestReceived, work: Callable[[], object], *, lasts: bool = False) -> None:
        def job() -> None:
            work()

        self.jobs.append(job)

    def run(self) -> None:
        """Run what was spawned; what it raises is kept."""
        while self.jobs:
            try:
                self.jobs.pop(0)()
            except Exception as why:
                self.raised.append(why)
            self.pump()

    def feed(self, *messages: Message) -> None:
        """Receive messages, and drain as a binding does."""
        for message in messages:
            self.driver.conn.receive_message(json_line(message), self.driver.now)
        self.pump()

    def sent(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.driver.sent()
        self.pump()
        return found


def json_line(message: Message) -> bytes:
    return json.dumps(message).encode()


# ── The client ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Turn(TurnCalls[Waiter, "Session"]):
    """A turn that is waited for by hand."""

    def __aiter__(self) -> TurnIterator:
        return TurnIterator(self)


class Session(SessionCalls[Waiter, Turn]):
    """A session that is waited for by hand."""

    def events(self) -> SessionIterator:
        return SessionIterator(self)

    def _turn(self, prompt_id: int, channel: Channel, waiter: Waiter) -> Turn:
        return Turn(self, prompt_id, channel, waiter)


class Running(Generic[T]):
    """A coroutine of a front. It is gone on with by hand; what it raises comes out there."""

    def __init__(self, work: Coroutine[object, None, T]) -> None:
        self._work = work
        self._ended: list[T] = []
        self.go_on()

    def go_on(self) -> bool:
        """Let it run until it waits. Whether it has ended."""
        try:
            if not self._ended:
                self._work.send(None)
        except StopIteration as end:
            self._ended.append(end.value)
        return bool(self._ended)

    def result(self) -> T:
        """What it has returned, with nothing left to wait for."""
        assert self.go_on()
        return self._ended[0]

    def interrupt(self, why: BaseException) -> None:
        """Raise something where it waits."""
        self._work.throw(why)


def finish(work: Coroutine[object, None, T]) -> T:
    """Run what has nothing to wait for."""
    return Running(work).result()


class Agent(AgentCalls[Waiter, Session, Turn]):
    """An agent's front that is waited for by hand."""

    link: Link

    def __init__(self, permissions: object = Policy(), **options: object) -> None:
        setup = ClientSetup(Waiter, "front", permissions, **options)  # type: ignore[arg-type]  # passed through
        link = Link(ClientDriver(setup.connection), setup.inbox)
        super().__init__(setup, link, Closer(setup.connection, link, setup.grace, nothing), None)

    def _session(self, handle: Handle) -> Session:
        return Session(self.link, self.connection, handle)

    def opened(self, session_id: str = "s1") -> Session:
        """The handshake and a session."""
        handle = self.link.call(self.connection.open_session, "/tmp")
        (hello,) = self.link.sent()
        self.link.feed(result(hello["id"], {"protocolVersion": 1, "agentCapabilities": {}}))
        (new,) = self.link.sent()
        self.link.feed(result(new["id"], {"sessionId": session_id}))
        return self._session(handle)


def test_what_nobody_serves_is_answered_at_once_and_reported() -> None:
    agent = Agent(capabilities={"fs": {"readTextFile": True}})
    agent.opened()
    agent.link.feed(request(1, "fs/read_text_file", {"sessionId": "s1", "path": "/x"}))
    assert agent.link.jobs == []
    assert agent.link.sent()[0]["error"]["code"] == -32601
    assert [event.key for event in agent.link.reported if isinstance(event, RequestReceived)] == ["fs_read_text_file"]


def test_a_policy_that_asks_has_nobody_to_ask() -> None:
    agent = Agent()
    agent.opened()
    agent.link.feed(permission(1, "s1"))
    assert agent.link.jobs == []
    # Nothing is allowed in silence.
    (answer,) = agent.link.sent()
    assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "no"}
    assert [type(event) for event in agent.link.reported if isinstance(event, PermissionRequested)]


@pytest.mark.parametrize("choice", ["yes", PermissionOption("yes", "Yes", "allow_once"), None])
def test_an_option_is_chosen(choice: object) -> None:
    agent = Agent(lambda asked: choice)
    agent.opened()
    agent.link.feed(permission(1, "s1"))
    agent.link.run()
    outcome = agent.link.sent()[0]["result"]["outcome"]
    assert outcome == ({"outcome": "cancelled"} if choice is None else {"outcome": "selected", "optionId": "yes"})


def test_what_is_no_option_and_no_result_is_the_owners_fault() -> None:
    agent = Agent(lambda asked: 3, handlers={"_x/ask": lambda asked: ["no mapping"]})
    agent.opened()
    agent.link.feed(permission(1, "s1"), request(2, "_x/ask", {}))
    agent.link.run()
    assert [type(why) for why in agent.link.raised] == [TypeError, TypeError]
    assert agent.link.sent() == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"name": "Ada"}, {"action": "accept", "content": {"name": "Ada"}}),
        (False, {"action": "decline"}),
        (None, {"action": "cancel"}),
    ],
)
def test_elicitations_have_a_callback_a_mode(answer: object, expected: Mapping[str, object]) -> None:
    from acp_core.methods_unstable import V1_UNSTABLE

    agent = Agent(methods=V1_UNSTABLE, elicitation={"form": lambda asked: answer})
    assert agent.connection._capabilities["elicitation"] == {"form": {}}
    agent.opened()
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = {"sessionId": "s1", "mode": "form", "message": "Who?", "requestedSchema": schema}
    agent.link.feed(request(1, V1_UNSTABLE.wire("elicitation_create"), params))
    agent.link.run()
    assert [message.get("result") for message in agent.link.sent()] == [expected]


def test_what_is_no_answer_to_an_elicitation_is_the_owners_fault() -> None:
    from acp_core.methods_unstable import V1_UNSTABLE

    agent = Agent(methods=V1_UNSTABLE, elicitation={"url": lambda asked: "yes"})
    agent.opened()
    params = {"sessionId": "s1", "mode": "url", "message": "Go", "url": "https://x.test", "elicitationId": "e"}
    agent.link.feed(request(1, V1_UNSTABLE.wire("elicitation_create"), params))
    agent.link.run()
    assert [type(why) for why in agent.link.raised] == [TypeError]


class Workspace:
    """Serves one method."""

    def __init__(self) -> None:
        self.handlers = {"fs_read_text_file": lambda asked: {"content": "x"}}
        self.calls: list[str] = []

    def close(self) -> None:
        self.calls.append("close")

    def join(self) -> None:
        self.calls.append("join")


def test_a_workspace_is_served_advertised_and_let_go_of() -> None:
    workspace = Workspace()
    agent = Agent(workspace=workspace)
    assert agent.connection._capabilities == {"fs": {"readTextFile": True}}
    agent.opened()
    agent.link.feed(request(1, "fs/read_text_file", {"sessionId": "s1", "path": "/x"}))
    agent.link.run()
    assert agent.link.sent()[0]["result"] == {"content": "x"}
    assert "workspace" in agent.closing.states
    agent.link.call(agent.connection.abort, "enough")
    assert workspace.calls == ["close"]
    agent._closer.closing.steps["workspace"]()
    assert workspace.calls == ["close", "join"]
    assert agent.closed
    assert isinstance(agent.link.reported[-1], ConnectionOver)


@pytest.mark.parametrize("name", ["session_new", "session_request_permission", "nonsense", "fs/read_text_file"])
def test_no_handler_may_have_a_name_that_nobody_asks_for(name: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        Agent(handlers={name: lambda asked: None})
    assert caught.value.rule == "handlers.name"


def test_handlers_of_extensions_are_taken_by_their_names() -> None:
    handlers = {"_x/ask": lambda asked: None, "named/ask": lambda asked: {"a": 1}}
    agent = Agent(handlers=handlers, extensions="named/ask")
    agent.opened()
    agent.link.feed(request(1, "_x/ask", {}), request(2, "named/ask", {}))
    agent.link.run()
    assert [message["result"] for message in agent.link.sent()] == [{}, {"a": 1}]


def test_permissions_are_a_policy_or_who_is_asked() -> None:
    with pytest.raises(TypeError, match="permissions must be a Policy or a callable, not NoneType"):
        Agent(None)


def test_a_turn_reads_its_channel_and_cancels_itself_only() -> None:
    agent = Agent()
    session = agent.opened()
    assert (session.session_id, session.state) == ("s1", "idle")
    turn = session.prompt("hi")
    assert repr(turn) == f"Turn(prompt_id={turn.prompt_id}, session_id='s1')"
    agent.link.sent()
    agent.link.feed(chunk("s1", "one"))
    assert [type(turn.channel.take()) for _ in range(2)] == [PromptSent, AgentMessageChunk]
    turn.cancel()
    assert [message["method"] for message in agent.link.sent()] == ["session/cancel"]
    agent.link.feed(result(turn.prompt_id, {"stopReason": "cancelled"}))
    assert isinstance(turn.waiter.event, TurnEnded)
    assert turn.waiter.woken
    later = session.prompt("more")
    agent.link.sent()
    # Over: another one's turn is not hit.
    turn.cancel()
    assert agent.link.sent() == []
    session.cancel()
    assert len(agent.link.sent()) == 1
    assert later.discarded == 0


def test_a_turn_that_nobody_holds_is_read_by_nobody() -> None:
    agent = Agent()
    session = agent.opened()
    turn = session.prompt("hi")
    channel = turn.channel
    agent.link.sent()
    agent.link.feed(chunk("s1", "one"))
    turn.detach()
    turn.detach()
    assert turn.discarded == 2
    del turn
    gc.collect()
    other = agent.link.inbox.channel()
    Turn(session, 99, other, Waiter())
    gc.collect()
    assert (channel.detached, other.detached) == (True, True)


def test_a_prompt_that_is_refused_leaves_no_turn() -> None:
    agent = Agent()
    session = agent.opened()
    with pytest.raises(LocalProtocolError):
        session.prompt([])
    gc.collect()
    assert session.state == "idle"


def test_typed_messages_have_the_names_of_this_table() -> None:
    agent = Agent()
    session = agent.opened()
    asking: Request[object] = Request("session/other", "session_set_mode", {"modeId": "m"})
    extension: Request[object] = Request("_x/ask", "_x/ask", {})
    assert wire_message(agent.connection.methods, asking, None) == ("session/set_mode", {"modeId": "m"})
    assert wire_message(agent.connection.methods, extension, None) == ("_x/ask", {})
    asked = Running(agent.request(extension, session=session, deadline=5.0))
    finish(agent.notify("_x/say", {"a": 1}, session="s1"))
    finish(agent.notify(Notification("_x/say", "_x/say", {})))
    request_sent, *said = agent.link.sent()
    id = request_sent.pop("id")
    assert [request_sent, *said] == [
        {"jsonrpc": "2.0", "method": "_x/ask", "params": {"sessionId": "s1"}},
        {"jsonrpc": "2.0", "method": "_x/say", "params": {"a": 1, "sessionId": "s1"}},
        {"jsonrpc": "2.0", "method": "_x/say", "params": {}},
    ]
    agent.link.feed(result(id, {"b": 2}))
    assert asked.result() == {"b": 2}


@pytest.mark.parametrize("why", [KeyboardInterrupt(), GeneratorExit()], ids=["interrupt", "collected"])
@pytest.mark.parametrize("what", ["request", "result", "text"])
def test_who_is_interrupted_cancels_what_was_waited_for(what: str, why: BaseException) -> None:
    agent = Agent()
    session = agent.opened()
    work: Coroutine[object, None, object]
    if what == "request":
        work = agent.request("_x/ask", {})
    else:
        turn = session.prompt("hi")
        work = turn.result() if what == "result" else turn.text()
    waiting = Running(work)
    (sent,) = agent.link.sent()
    assert not waiting.go_on()
    with pytest.raises(type(why)):
        waiting.interrupt(why)
    cancels = {
        "request": notification("$/cancel_request", {"requestId": sent["id"]}),
        "result": notification("session/cancel", {"sessionId": "s1"}),
        "text": notification("session/cancel", {"sessionId": "s1"}),
    }
    # What is collected has nobody to ask for a cancel.
    assert agent.link.sent() == ([] if isinstance(why, GeneratorExit) else [cancels[what]])


def test_what_goes_on_the_wire_is_a_mapping() -> None:
    assert plain_dict(None) is None
    with pytest.raises(TypeError, match="a mapping or None, not list"):
        plain_dict([])


def test_a_snapshot_is_kept_between_the_handshake_and_the_end() -> None:
    stored: list[int] = []
    setup = ClientSetup(Waiter, "front", Policy(), on_snapshot=lambda snapshot, size: stored.append(size))
    assert setup.keep is not None
    assert setup.keep(7) is None
    link = Link(ClientDriver(setup.connection), setup.inbox)
    setup.connection.initialize()
    (hello,) = link.sent()
    link.feed(result(hello["id"], {"protocolVersion": 1}))
    store = setup.keep(8)
    assert store is not None
    store()
    setup.connection.close()
    assert setup.keep(9) is None
    assert stored == [8]


def test_a_process_is_known_where_there_is_one() -> None:
    agent = Agent(close_grace=1.0)
    assert (agent.pid, agent.stderr_tail, agent.exit_cause) == (None, b"", None)
    assert agent._closer.closing.grace.exit == Grace.of(1.0).exit
    assert (agent.peer_capabilities, agent.auth_methods, agent.restored, agent.dropped_events) == ({}, [], [], 0)


# ── The agent ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Echo:
    """An agent that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.gives: object = None

    def prompt(self, turn: AgentTurnFront[AgentSessionCalls]) -> object:
        self.told.append(turn.text)
        finish(turn.session.send(turn.text))
        return self.gives

    def cancel(self, turn: AgentTurnFront[AgentSessionCalls]) -> None:
        self.told.append(("cancel", turn.cancelled))

    def load_session(self, asked: RequestReceived, session: AgentSessionCalls) -> None:
        self.told.append(("load", session.session_id, session.cwd))


def serving(agent: object) -> Link:
    """The desk of an agent behind a handshake."""
    connection: AgentConnection = agent_connection("front", agent)
    driver = AgentDriver(connection)
    link = Link(driver, Inbox())
    ids = iter(("made-1", "made-2"))
    desk = AgentDesk(link, connection, agent, session=AgentSessionCalls, turn=AgentTurnFront, new_id=lambda: next(ids))
    link.act = desk.act
    link.feed(request(0, "initialize", {"protocolVersion": 1}))
    link.sent()
    return link


def opened(agent: object) -> Link:
    link = serving(agent)
    link.feed(request(1, "session/new", {"cwd": "/tmp", "mcpServers": []}))
    link.run()
    assert [message["result"] for message in link.sent()] == [{"sessionId": "made-1"}]
    return link


def prompt(link: Link, id: int = 2) -> None:
    link.feed(request(id, "session/prompt", {"sessionId": "made-1", "prompt": [{"type": "text", "text": "hi"}]}))


@pytest.mark.parametrize(("gives", "reason"), [(None, "end_turn"), ("refusal", "refusal")])
def test_a_prompt_goes_to_its_method(gives: object, reason: str) -> None:
    agent = Echo()
    agent.gives = gives
    link = opened(agent)
    prompt(link)
    link.run()
    update, answer = link.sent()
    assert update["params"]["update"]["content"]["text"] == "hi"
    assert answer["result"] == {"stopReason": reason}
    assert agent.told == ["hi"]


def test_what_is_no_stop_reason_is_the_agents_fault() -> None:
    agent = Echo()
    agent.gives = 3
    link = opened(agent)
    prompt(link)
    link.run()
    assert [str(why) for why in link.raised] == ["prompt() gave int, not a stop reason or None"]


def test_a_cancel_is_told_once_and_answered_cancelled() -> None:
    agent = Echo()
    agent.gives = "end_turn"
    link = opened(agent)
    prompt(link)
    link.feed(
        notification("session/cancel", {"sessionId": "made-1"}), notification("$/cancel_request", {"requestId": 2})
    )
    link.run()
    assert agent.told == ["hi", ("cancel", True)]
    assert link.sent()[-1]["result"] == {"stopReason": "cancelled"}
    assert [event for event in link.reported if isinstance(event, TurnCancelReceived)]
    # Over: nobody is told of a turn that has ended.
    link.call(link.driver.conn.abort)
    assert link.jobs == []


def test_the_end_of_the_client_cancels_what_runs() -> None:
    agent = Echo()
    link = opened(agent)
    prompt(link)
    link.call(link.driver.conn.abort)
    link.jobs.pop(0)
    link.run()
    assert agent.told == [("cancel", True)]


def test_what_an_agent_does_not_define_is_answered_at_once_and_reported() -> None:
    link = opened(Echo())
    link.feed(request(2, "_x/ask", {}), request(3, "session/load", {"sessionId": "s9", "cwd": "/w", "mcpServers": []}))
    assert [message["error"]["code"] for message in link.sent()] == [-32601]
    agent = Echo()
    link = serving(agent)
    link.feed(request(3, "session/load", {"sessionId": "s9", "cwd": "/w", "mcpServers": []}))
    link.run()
    assert link.sent() == [result(3, {})]
    assert agent.told == [("load", "s9", "/w")]


def test_a_turn_asks_the_client() -> None:
    agent = Echo()
    link = opened(agent)
    prompt(link)
    handle = link.driver.conn.session("made-1") if isinstance(link.driver.conn, AgentConnection) else None
    assert isinstance(link.driver.conn, AgentConnection)
    session = AgentSessionCalls(link, link.driver.conn, handle)
    assert repr(session) == "AgentSessionCalls('made-1')"
    option = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
    chosen = Running(session.ask_permission({"toolCallId": "t"}, [option], deadline=5.0))
    answered = Running(session.request("_x/ask", {"a": 1}))
    finish(session.update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}))
    asked, extension, update = link.sent()
    assert (asked["method"], asked["params"]["options"]) == ("session/request_permission", [option])
    assert (extension["method"], extension["params"]) == ("_x/ask", {"a": 1, "sessionId": "made-1"})
    assert update["params"]["update"]["content"]["text"] == "x"
    outcome = {"outcome": "selected", "optionId": "y"}
    link.feed(result(asked["id"], {"outcome": outcome}), result(extension["id"], {"b": 2}))
    assert (chosen.result(), answered.result()) == ("y", {"b": 2})


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("new_sesion", "new_session"),
        ("new_sesssion", "new_session"),
        ("new_sesison", "new_session"),
        ("newSession", "new_session"),
        ("log_out", "logout"),
        ("promt", "prompt"),
        ("prmopt", "prompt"),
        ("cancell", "cancel"),
    ],
)
def test_names_that_are_misspelt(name: str, known: str) -> None:
    assert misspelt(name, known)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("new_session", "new_session"),
        ("load_sessions", "load_session"),
        ("reload_session", "load_session"),
        ("clone_session", "close_session"),
        ("list_session", "list_sessions"),
        ("get_mode", "set_mode"),
        ("set_model", "set_mode"),
        ("set_node", "set_mode"),
        ("opener", "opened"),
        ("open", "opened"),
        ("channel", "cancel"),
        ("prompts", "prompt"),
        ("", "prompt"),
        ("p", "prompt"),
    ],
)
def test_names_of_helpers_are_not_misspelt(name: str, known: str) -> None:
    assert not misspelt(name, known)


def test_a_helper_beside_the_method_and_an_attribute_are_nobodys_fault() -> None:
    class Helped(Echo):
        new_sesion = "no function"

        def set_mode(self, asked: RequestReceived, force: bool = False) -> None:
            raise AssertionError

        def setmode(self) -> None:
            raise AssertionError

        list_sessions = dict  # what says nothing about its arguments

    check_agent(Helped())


def test_what_the_client_chose() -> None:
    assert chosen_option({"outcome": {"outcome": "selected", "optionId": "y"}}) == "y"
    assert chosen_option({"outcome": {"outcome": "cancelled"}}) is None
    assert chosen_option("nonsense") is None


def test_a_loop_that_was_interrupted_while_it_was_made_is_dropped_without_a_word() -> None:
    TurnIterator.__new__(TurnIterator).__del__()
