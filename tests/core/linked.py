"""Two linked cores under hypothesis: the machine, its model of what must hold, and the checks that end every run.

It drives any copy of the library that ``Kit`` names, so that a copy with a planted fault can be driven too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.spec.agree import official

Message: TypeAlias = dict[str, Any]

CLIENT, AGENT = "client", "agent"
SIDES = st.sampled_from([CLIENT, AGENT])
INDEXES = st.integers(0, 7)
# Up to a second mostly; the long ones pass the deadlines of a cancel, a close, a step and a held permission.
SECONDS = st.sampled_from([0.01, 0.05, 0.1, 0.1, 0.2, 0.3, 0.3, 0.5, 0.5, 1.0, 1.0, 1.5, 2.5, 2.5, 11.0, 61.0, 301.0])
DEADLINES = st.sampled_from([None, None, None, 0.05, 5.0])

EXTENSION = "_test/extension"
NOTE = "_test/note"

AGENT_CAPABILITIES: Message = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "embeddedContext": True},
    "sessionCapabilities": {"close": {}, "list": {}, "delete": {}},
}
CLIENT_CAPABILITIES: Message = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}},
}
AUTH_METHODS: list[Message] = [{"id": "key", "name": "Key", "_meta": {"api-key": {}}}]
MODES: Message = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}
PERMISSION_OPTIONS: list[Message] = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
STOP_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")

# Requests of the agent, and what the client answers.
CLIENT_METHODS: dict[str, tuple[Message, Message]] = {
    "fs/read_text_file": ({"path": "/a"}, {"content": "text"}),
    "fs/write_text_file": ({"path": "/a", "content": "x"}, {}),
    "terminal/create": ({"command": "ls"}, {"terminalId": "t1"}),
    "terminal/output": ({"terminalId": "t1"}, {"output": "", "truncated": False}),
    "terminal/wait_for_exit": ({"terminalId": "t1"}, {"exitCode": 0}),
    "terminal/kill": ({"terminalId": "t1"}, {}),
    "terminal/release": ({"terminalId": "t1"}, {}),
    "elicitation/create": (
        {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}},
        {"action": "decline"},
    ),
    EXTENSION: ({}, {"any": [1]}),
}
UPDATES: list[Message] = [
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "é\u2028"}},
    {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "…"}},
    {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hi"}},
    {"sessionUpdate": "tool_call", "toolCallId": "call", "title": "Read", "kind": "read"},
    {"sessionUpdate": "tool_call_update", "toolCallId": "call", "status": "completed"},
    {"sessionUpdate": "plan", "entries": []},
    {"sessionUpdate": "_vendor/kind", "x": 1},
    {"sessionUpdate": "available_commands_update", "availableCommands": []},
    {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
    {"sessionUpdate": "session_info_update", "title": "Title"},
    {"sessionUpdate": "usage_update", "used": 1, "size": 2},
]
WHOLE_STATE = frozenset(
    {
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    }
)
# Requests which a cancel answers.
QUESTIONS = ("session_request_permission", "elicitation_create")
OUTCOMES = {
    "result": "answered",
    "error": "answered",
    "invalid": "answered",
    "deadline": None,
    "withdrawn": "not_sent",
    "closed": None,
    "over": None,
}


def config_options(model: str = "small") -> list[Message]:
    choices = [{"value": value, "name": value} for value in ("small", "large")]
    return [
        {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": model,
            "options": choices,
        }
    ]


# How far a run is brought before hypothesis takes over: mostly to a turn in flight.
STARTS = [
    "cold",
    "opening",
    "idle",
    "loaded",
    "loaded",
    "prompting",
    "prompting",
    "asking",
    "asking",
    "cancelling",
    "cancelling",
    "fenced",
]
# How a run ends before its time, or "" for most: then everything is brought to its own end.
ENDINGS = [
    *[""] * 14,
    "client close",
    "agent close",
    "client abort",
    "agent abort",
    "client send_failed",
    "agent send_failed",
    "kill client",
    "kill agent",
    "cut to_agent",
    "cut to_client",
]


class Kit:
    """One copy of the library: the real one, or one that a test has planted a fault in."""

    def __init__(self, package: str = "acp_core") -> None:
        self.core: ModuleType = import_module(package)
        self.testing: ModuleType = import_module(f"{package}.testing")


REAL = Kit()


# ── Everything a connection was told and said, so that it can be done again ─────────────────────────────────────────


# Methods that only look.
LOOKS = frozenset({"next_deadline", "session"})


class Recorded:
    """A connection whose calls are written down with their outcomes.

    Session handles are written as numbers, in the order of ``open_session``, so that ``replay`` can make the same calls
    on a fresh connection.
    """

    def __init__(self, kit: Kit, make: Callable[[], Any]) -> None:
        self.kit = kit
        self.make = make
        self.real = make()
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = []
        self.handles: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if not callable(found):
            return found
        if name in LOOKS:
            self.__dict__[name] = found
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            coded = tuple(map(self._coded, args)) if self.handles else args
            try:
                value = found(*args, **kwargs)
            except Exception as why:
                self.calls.append((name, coded, kwargs, self._outcome(why, self.handles, self.real)))
                raise
            if isinstance(value, self.kit.core.Session):
                self.handles.append(value)
            self.calls.append((name, coded, kwargs, self._outcome(value, self.handles, self.real)))
            return value

        # The next look-up finds it at once.
        self.__dict__[name] = call
        return call

    def replay(self) -> None:
        """The same calls on a fresh connection give the same bytes, events and deadlines (rule 5)."""
        fresh = self.make()
        handles: list[Any] = []
        for number, (name, args, kwargs, outcome) in enumerate(self.calls):
            decoded = tuple(handles[arg[1]] if isinstance(arg, tuple) and arg[0] == "handle" else arg for arg in args)
            try:
                value: Any = getattr(fresh, name)(*decoded, **kwargs)
            except Exception as why:
                value = why
            if isinstance(value, self.kit.core.Session):
                handles.append(value)
            again = self._outcome(value, handles, fresh)
            assert again == outcome, f"call {number}, {name}{args}: {again} instead of {outcome}"

    def _coded(self, arg: Any) -> Any:
        if not isinstance(arg, self.kit.core.Session):
            return arg
        for number, handle in enumerate(self.handles):
            if handle is arg:
                return ("handle", number)
        return arg

    def _outcome(self, value: Any, handles: list[Any], connection: Any) -> tuple[object, ...]:
        if value is not None and not isinstance(value, (bytes, int)):
            core = self.kit.core
            if isinstance(value, core.Event):
                value = self.kit.testing.event_key(value, at=True)
            elif isinstance(value, core.Session):
                value = f"handle {next(number for number, handle in enumerate(handles) if handle is value)}"
            else:
                value = f"{type(value).__name__}: {value}"
        return (value, connection.state, connection.output_bytes, connection.next_deadline())


# ── The machine ─────────────────────────────────────────────────────────────────────────────────────────────────────


class LinkedCores(RuleBasedStateMachine):
    """A client and an agent, driven by their intents, with everything between them chosen by hypothesis.

    Its model is what was asked for and what has come; ``teardown`` brings everything to its end and checks it.
    """

    kit = REAL
    # How far every run is brought first, one of STARTS; "" leaves it to hypothesis.
    first = ""
    # How often each event was seen, over all runs: a machine that never gets anywhere proves nothing.
    seen: Counter[str] = Counter()
    # Values of the official schema that were found to fit, over all runs.
    fits: set[tuple[str, str]] = set()

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.ending: tuple[str, int] = ("", 0)
        self.over = False

    @initialize(
        agent_chunks=st.sampled_from([None, None, 100, 7, 1]),
        client_chunks=st.sampled_from([None, None, 100, 7, 1]),
        delay=st.sampled_from([0.0, 0.0, 0.2]),
        can_resume=st.booleans(),
        bare=st.sampled_from([False, False, False, True]),
        policy=st.sampled_from([None, None, None, "allow", "deny"]),
        needs_login=st.booleans(),
        ending=st.tuples(
            st.sampled_from(ENDINGS),
            st.integers(2, 60),
        ),
        start=st.sampled_from(STARTS),
        flowing=st.booleans(),
        last=st.sampled_from(["", "cancel", "close", "wait", "cancel and wait"]),
    )
    def begin(
        self,
        agent_chunks: int | None,
        client_chunks: int | None,
        delay: float,
        can_resume: bool,
        bare: bool,
        policy: str | None,
        needs_login: bool,
        ending: tuple[str, int],
        start: str,
        flowing: bool,
        last: str,
    ) -> None:
        core, testing = self.kit.core, self.kit.testing
        if self.first:
            start, can_resume, bare = self.first, False, False
        # What is not advertised is asked for all the same: then the intent has to refuse, not the peer.
        capabilities = {} if bare else json.loads(json.dumps(AGENT_CAPABILITIES))
        if can_resume:
            capabilities.setdefault("sessionCapabilities", {})["resume"] = {}
        self.needs_login = needs_login
        self.last = last
        self.client = Recorded(
            self.kit,
            lambda: core.ClientConnection(
                nonce="client",
                capabilities={} if bare else CLIENT_CAPABILITIES,
                extensions=[EXTENSION],
                info={"name": "test", "version": "1"},
                permissions=None if policy is None else core.Policy({"default": policy}),
            ),
        )
        self.agent = Recorded(
            self.kit,
            lambda: core.AgentConnection(
                nonce="agent",
                capabilities=capabilities,
                extensions=[EXTENSION],
                auth_methods=AUTH_METHODS if needs_login else [],
            ),
        )
        self.pair = testing.LinkedPair(
            self.client,
            self.agent,
            to_agent=testing.Pipe(chunks=agent_chunks, delay=delay),
            to_client=testing.Pipe(chunks=client_chunks, delay=delay),
            on_client=self.client_event,
            on_agent=self.agent_event,
        )
        # What was asked, by id: the method. What has settled, by id: the events.
        self.asked: dict[str, dict[int, str]] = {CLIENT: {}, AGENT: {}}
        self.settled: dict[str, dict[int, list[Any]]] = {CLIENT: {}, AGENT: {}}
        # Requests of the peer: raised ones, and how each of them was settled.
        self.raised: dict[str, dict[str, Any]] = {CLIENT: {}, AGENT: {}}
        self.done: dict[str, dict[str, list[str]]] = {CLIENT: {}, AGENT: {}}
        self.prompts_sent: set[int] = set()
        self.sessions: list[Any] = []
        self.session_ends: dict[int, list[Any]] = {}
        self.session_count = 0
        # Updates, numbered: (session id, number, kind) as sent, (session id, number) as they came.
        self.updates_sent: list[tuple[str, int, str]] = []
        self.updates_seen: list[tuple[str, int]] = []
        self.notes_sent: dict[str, int] = {CLIENT: 0, AGENT: 0}
        self.notes_seen: dict[str, int] = {CLIENT: 0, AGENT: 0}
        # Ids of sessions that the client has given up while the agent may still serve them, or the other way round.
        self.torn: set[str] = set()
        self.opens_given_up = 0
        self.hello_given_up = False
        # Whether everything moves after each step, or only when a rule says so.
        self.flowing = False
        if start != "cold":
            self.open_session(0, "stored" if start == "loaded" else "new", "discard", None, None, False)
        if start not in ("cold", "opening"):
            for _ in range(4):
                self.pair.exhaust(1.0)
                self.serve_all(False, 0)
        if start in ("prompting", "asking", "cancelling", "fenced"):
            self.prompt(0, None, 1)
            self.pair.exhaust(1.0)
        if start in ("asking", "cancelling"):
            self.ask_permission(0, None)
            self.pair.exhaust(1.0)
        if start in ("cancelling", "fenced"):
            self.cancel_turn(0, "report")
        if start == "fenced":
            self.pair.exhaust(3.0)
        self.steps = 0
        self.ending = ending
        self.flowing = flowing

    # ── What the two ends say ───────────────────────────────────────────────────────────────────────────────────────

    def client_event(self, event: Any) -> None:
        core = self.kit.core
        self.common_event(CLIENT, event)
        match type(event).__name__:
            case "TurnEnded" | "TurnFailed":
                assert event.turn.prompt_id == event.prompt_id
                self.settled[CLIENT].setdefault(event.prompt_id, []).append(event)
                # Its questions have been answered before (peer.md P8); at the end of all, own requests settle first.
                questions = [] if outcome_of(event)[0] == "over" else self.questions()
                assert not [ask for ask in questions if ask.turn is event.turn], questions
            case "SessionReady" | "SessionFailed":
                self.session_ends.setdefault(id(event.session), []).append(event)
                if isinstance(event, core.SessionFailed):
                    if event.session_id is not None:
                        self.torn.add(event.session_id)
                    questions = self.questions() if self.client.state == "open" else []
                    assert not [ask for ask in questions if ask.session is event.session], questions
            case "PromptSent":
                self.prompts_sent.add(event.prompt_id)
            case "SessionStep" if isinstance(event.error, core.RequestTimeout):
                self.opens_given_up += 1
                self.hello_given_up |= event.step == "initialize"
            case "SessionFenced":
                self.torn.add(event.session_id)
            case "PermissionAnswered":
                # One answered at once, by policy, was never raised; all others were.
                if event.request_id in self.raised[CLIENT]:
                    self.done[CLIENT].setdefault(event.request_id, []).append(event.by)
                else:
                    assert event.by in ("policy", "cancel", "close"), event
            case "ForeignUpdate":
                self.updates_seen.append((event.session_id, number_of(event.update)))
                assert event.why in ("closed", "unknown"), event
                # Unknown here and open there: its opening has failed here, in a later step or by a deadline.
                assert event.why == "closed" or event.session_id in self.torn or self.opens_given_up, event
        turn = getattr(event, "turn", None)
        if isinstance(event, (core.Update, core.RequestReceived)) and turn is not None:
            assert turn.prompt_id in self.prompts_sent, event
        if isinstance(event, core.Update):
            self.updates_seen.append((event.session_id, number_of(event.update)))
            assert (event.mark == "late") == (event.session.state == "fenced") or event.mark == "replayed", event

    def questions(self) -> list[Any]:
        """What the agent has asked the user and nobody has answered."""
        held = [self.raised[CLIENT][request_id] for request_id in self.open_at(CLIENT)]
        return [event for event in held if event.key in QUESTIONS]

    def agent_event(self, event: Any) -> None:
        self.common_event(AGENT, event)

    def common_event(self, side: str, event: Any) -> None:
        core = self.kit.core
        name = type(event).__name__
        self.seen[name] += 1
        assert not self.over_seen(side), f"{side}: {event} after ConnectionOver"
        # Two ends that keep their own rules never reject each other.
        assert name not in ("Malformed", "Noise", "Deviation", "LineTooLong", "TailDropped", "RequestRepeated"), event
        if isinstance(event, core.Truncated):
            assert self.over and not self.ending[0].endswith("close"), event
        elif isinstance(event, core.RequestSettled):
            self.settled[side].setdefault(event.id, []).append(event)
            if event.key == "session_close" and event.outcome == "deadline":
                self.torn.add(event.session.session_id)
            self.hello_given_up |= event.key == "initialize" and event.outcome == "deadline"
        elif isinstance(event, core.RequestReceived):
            assert event.request_id not in self.raised[side], event
            self.raised[side][event.request_id] = event
        elif isinstance(event, core.RequestAbandoned):
            assert "used its id" not in event.reason, event
            self.done[side].setdefault(event.request_id, []).append("abandoned")
        elif isinstance(event, core.RequestRefused):
            self.explain_refusal(side, event)
        elif isinstance(event, core.AnswerUnmatched):
            self.explain_unmatched(side, event)
        elif isinstance(event, core.NotificationReceived):
            if event.method == NOTE:
                self.notes_seen[side] += 1
            else:
                # The answer and the wish to cancel it have crossed (spec.md rule 73).
                assert event.method == "$/cancel_request", event

    def over_seen(self, side: str) -> bool:
        log = self.pair.client_events if side == CLIENT else self.pair.agent_events
        # The event at hand is in the log already.
        return len(log) > 1 and type(log[-2]).__name__ == "ConnectionOver"

    def explain_refusal(self, side: str, event: Any) -> None:
        """The legal races that end in a refusal; any other refusal is a rejection.

        * The client gave a turn, a session/close or an opening step up by its deadline, and the agent still goes by it:
          a session reopened from behind its fence may still be prompting there, one whose close was given up may be
          closed there, and one whose opening was given up is open there and unknown here. An initialize that was given
          up is asked for again, and an agent that cannot write any more takes none.
        * The client closed the session, or took it over with a new open, while the agent's request was under way.
        """
        session_id = event.session_id
        if side == AGENT and event.method == "initialize":
            assert self.hello_given_up or self.agent.state == "broken", event
            assert event.code == -32600, event
            return
        if side == AGENT:
            assert event.session_id in self.torn, event
            assert event.code in (-32600, -32002), event
            return
        known = self.client.session(session_id) if session_id is not None else None
        assert known is None or known.state == "closed", event
        assert known is not None or session_id in self.torn or self.opens_given_up, event
        assert event.code in (0, -32002), event

    def explain_unmatched(self, side: str, event: Any) -> None:
        """An answer that settles nothing is late: its request was given up by a deadline, a fence or a close."""
        assert event.why == "late", event
        settled = self.settled[side].get(event.rpc_id, [])
        given_up = [found for found in settled if found.outcome in ("deadline", "closed")]
        assert given_up or (side == CLIENT and event.rpc_id not in self.asked[CLIENT] and self.opens_given_up), event

    # ── Intents ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def attempt(self, side: str, intent: Callable[[], Any]) -> Any:
        """Call an intent. None when a rule forbids it now; then it has changed nothing."""
        connection = self.client if side == CLIENT else self.agent
        before = facts(connection.real)
        try:
            return intent()
        except self.kit.core.LocalProtocolError:
            assert facts(connection.real) == before
            return None

    def step(self) -> None:
        """Count a step, and bring the connection to the end that was chosen when its time has come."""
        if self.flowing:
            self.pair.run()
        self.steps += 1
        kind, when = self.ending
        if self.steps != when or not kind:
            return
        self.over = True
        first, second = kind.split(" ")
        if first == "kill":
            self.pair.kill(second)
        elif first == "cut":
            pipe = getattr(self.pair, second)
            pipe.cut_at = pipe.carried + 5
        elif second == "send_failed":
            end = self.client if first == CLIENT else self.agent
            end.send_failed("broken pipe", self.pair.now)
        else:
            end = self.client if first == CLIENT else self.agent
            getattr(end, second)()

    @rule(
        index=INDEXES,
        how=st.sampled_from(["new", "new", "known", "stored"]),
        replay=st.sampled_from(["discard", "report"]),
        model=st.sampled_from([None, None, "large"]),
        auth=st.sampled_from([None, None, "unattended"]),
        fresh=st.booleans(),
    )
    def open_session(self, index: int, how: str, replay: str, model: str | None, auth: str | None, fresh: bool) -> None:
        self.step()
        resume = None
        if how == "stored":
            resume = f"stored-{index}"
        elif how == "known":
            if not self.sessions:
                return
            resume = self.sessions[index % len(self.sessions)].session_id
            if resume is None:
                return
        known = self.client.session(resume) if resume is not None else None
        session = self.attempt(
            CLIENT,
            lambda: self.client.open_session(
                "/work", resume=resume, replay=replay, model=model, auth=auth, fresh_if_refused=fresh
            ),
        )
        if session is not None:
            self.sessions.append(session)
            if known is not None and resume is not None:
                self.torn.add(resume)

    def pick(self, index: int) -> Any:
        return self.sessions[index % len(self.sessions)]

    @precondition(lambda self: self.sessions)
    @rule(index=INDEXES, deadline=DEADLINES, size=st.sampled_from([1, 1, 500]))
    def prompt(self, index: int, deadline: float | None, size: int) -> None:
        self.step()
        rpc_id = self.attempt(CLIENT, lambda: self.client.prompt(self.pick(index), "x" * size, deadline=deadline))
        if rpc_id is not None:
            self.asked[CLIENT][rpc_id] = "session/prompt"

    @precondition(lambda self: self.sessions)
    @rule(index=INDEXES, then=st.sampled_from(["report", "report", "close_session"]))
    def cancel_turn(self, index: int, then: str) -> None:
        self.step()
        session = self.pick(index)
        self.attempt(CLIENT, lambda: self.client.cancel_turn(session, then=then))
        if session.state == "cancelling":
            # Every question of the turn is answered (spec.md rule 83), those included that are not pulled yet.
            self.pair.drain(CLIENT)
            questions = self.questions()
            assert not [ask for ask in questions if ask.session is session], questions

    @precondition(lambda self: self.sessions)
    @rule(index=INDEXES)
    def close_session(self, index: int) -> None:
        self.step()
        rpc_id = self.attempt(CLIENT, lambda: self.client.close_session(self.pick(index)))
        if rpc_id is not None:
            self.asked[CLIENT][rpc_id] = "session/close"

    @precondition(lambda self: self.sessions)
    @rule(index=INDEXES, mode=st.sampled_from(["ask", "code"]), deadline=DEADLINES)
    def set_mode(self, index: int, mode: str, deadline: float | None) -> None:
        self.step()
        rpc_id = self.attempt(CLIENT, lambda: self.client.set_mode(self.pick(index), mode, deadline=deadline))
        if rpc_id is not None:
            self.asked[CLIENT][rpc_id] = "session/set_mode"

    @precondition(lambda self: self.sessions)
    @rule(index=INDEXES, value=st.sampled_from(["small", "large"]), deadline=DEADLINES)
    def set_model(self, index: int, value: str, deadline: float | None) -> None:
        self.step()
        rpc_id = self.attempt(
            CLIENT, lambda: self.client.set_config_option(self.pick(index), "model", value, deadline=deadline)
        )
        if rpc_id is not None:
            self.asked[CLIENT][rpc_id] = "session/set_config_option"

    @rule(method=st.sampled_from(["session/list", "session/delete", EXTENSION]), deadline=DEADLINES)
    def client_request(self, method: str, deadline: float | None) -> None:
        self.step()
        params = {"sessionId": "gone"} if method == "session/delete" else {}
        rpc_id = self.attempt(CLIENT, lambda: self.client.request(method, params, deadline=deadline))
        if rpc_id is not None:
            self.asked[CLIENT][rpc_id] = method

    @rule(method=st.sampled_from(["initialize", "authenticate"]), deadline=st.sampled_from([5.0, 60.0]))
    def hello(self, method: str, deadline: float) -> None:
        self.step()
        if method == "initialize":
            rpc_id = self.attempt(CLIENT, lambda: self.client.initialize(deadline=deadline, token="hello"))
        else:
            rpc_id = self.attempt(CLIENT, lambda: self.client.authenticate("key", deadline=deadline))
        if rpc_id is not None:
            self.asked[CLIENT][rpc_id] = method

    def served(self) -> list[Any]:
        return [session for session in self.agent.sessions if session.state not in ("creating", "closed")]

    @precondition(lambda self: self.served())
    @rule(index=INDEXES, method=st.sampled_from(sorted(CLIENT_METHODS)), deadline=DEADLINES)
    def agent_request(self, index: int, method: str, deadline: float | None) -> None:
        self.step()
        sessions = self.served()
        if not sessions:
            return
        session_id = sessions[index % len(sessions)].session_id
        params = CLIENT_METHODS[method][0]
        rpc_id = self.attempt(AGENT, lambda: self.agent.request(method, params, session=session_id, deadline=deadline))
        if rpc_id is not None:
            self.asked[AGENT][rpc_id] = method

    @precondition(lambda self: self.served())
    @rule(index=INDEXES, deadline=DEADLINES)
    def ask_permission(self, index: int, deadline: float | None) -> None:
        self.step()
        sessions = self.served()
        if not sessions:
            return
        session_id = sessions[index % len(sessions)].session_id
        call = {"toolCallId": "call"}
        rpc_id = self.attempt(
            AGENT, lambda: self.agent.ask_permission(session_id, call, PERMISSION_OPTIONS, deadline=deadline)
        )
        if rpc_id is not None:
            self.asked[AGENT][rpc_id] = "session/request_permission"

    @precondition(lambda self: self.served())
    @rule(index=INDEXES, kinds=st.lists(st.integers(0, len(UPDATES)), min_size=1, max_size=4))
    def update(self, index: int, kinds: list[int]) -> None:
        self.step()
        sessions = self.served()
        if not sessions:
            return
        session_id = sessions[index % len(sessions)].session_id
        for kind in kinds:
            self.send_update(session_id, kind)

    def send_update(self, session_id: str, kind: int) -> None:
        number = len(self.updates_sent)
        before = self.agent.output_bytes
        if kind < len(UPDATES):
            update = {**UPDATES[kind], "_meta": {"number": number}}
            self.attempt(AGENT, lambda: self.agent.update(session_id, update))
            name = str(update["sessionUpdate"])
        else:
            self.attempt(AGENT, lambda: self.agent.update_text(session_id, "message", delta=f"#{number}"))
            name = "agent_message_chunk"
        if self.agent.output_bytes > before:
            self.updates_sent.append((session_id, number, name))

    @rule(side=SIDES)
    def notify(self, side: str) -> None:
        self.step()
        end = self.client if side == CLIENT else self.agent
        before = end.output_bytes
        self.attempt(side, lambda: end.notify(NOTE, {}))
        self.notes_sent[side] += end.output_bytes > before

    @precondition(lambda self: self.asked[CLIENT] or self.asked[AGENT])
    @rule(side=SIDES, index=INDEXES)
    def cancel_request(self, side: str, index: int) -> None:
        self.step()
        asked = sorted(self.asked[side])
        if asked:
            end = self.client if side == CLIENT else self.agent
            self.attempt(side, lambda: end.cancel_request(asked[index % len(asked)]))

    # ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def open_at(self, side: str) -> list[str]:
        return [request_id for request_id in self.raised[side] if request_id not in self.done[side]]

    @rule(
        side=SIDES,
        index=INDEXES,
        refuse=st.integers(0, 4),
        history=st.lists(st.integers(0, len(UPDATES) - 1), max_size=3),
    )
    def serve_one(self, side: str, index: int, refuse: int, history: list[int]) -> None:
        self.step()
        waiting = self.open_at(side)
        if waiting:
            self.serve(side, waiting[index % len(waiting)], refuse == 0, history)

    @rule(backwards=st.booleans(), refuse=INDEXES)
    def serve_all(self, backwards: bool, refuse: int) -> None:
        """Answer all that is open, in one order or the other; with ``refuse`` above 0 every so many are refused."""
        self.step()
        for side in (AGENT, CLIENT):
            for number, request_id in enumerate(sorted(self.open_at(side), reverse=backwards)):
                if request_id in self.open_at(side):
                    self.serve(side, request_id, bool(refuse) and number % refuse == refuse - 1, [0, 3, 7])

    def serve(self, side: str, request_id: str, refuse: bool, history: list[int]) -> None:
        end = self.client if side == CLIENT else self.agent
        event = self.raised[side][request_id]
        before = end.open_peer_requests
        self.attempt(side, lambda: self.answer(end, event, refuse, history))
        if end.open_peer_requests < before and request_id not in self.done[side]:
            self.done[side][request_id] = ["answered"]

    def answer(self, end: Any, event: Any, refuse: bool, history: list[int]) -> None:
        request_id = event.request_id
        if event.key == "session_request_permission":
            end.answer_permission(request_id, None if refuse else event.options[0])
            return
        if refuse:
            end.respond_error(request_id, -32000 if event.key == "session_new" and self.needs_login else -32603, "no")
            return
        match event.key:
            case "session_new":
                self.session_count += 1
                end.accept(request_id, f"s{self.session_count}", {"modes": MODES, "configOptions": config_options()})
            case "session_load" | "session_resume":
                for kind in history:
                    self.send_update(event.session_id, kind)
                end.accept(request_id, None, {"modes": MODES, "configOptions": config_options()})
            case "session_prompt":
                end.end_turn(request_id, STOP_REASONS[len(history)])
            case "session_set_config_option":
                end.respond(request_id, {"configOptions": config_options(event.params["value"])})
            case "session_list":
                end.respond(request_id, {"sessions": []})
            case _:
                end.respond(request_id, CLIENT_METHODS[event.method][1] if end is self.client else {})

    # ── What is between them ────────────────────────────────────────────────────────────────────────────────────────

    @rule(side=SIDES, size=st.sampled_from([None, 1, 30, 1000]))
    def hand_over(self, side: str, size: int | None) -> None:
        self.step()
        self.pair.hand_over(side, size)

    @rule(side=SIDES, size=st.sampled_from([None, 1, 30, 1000]), count=st.integers(1, 5))
    def deliver(self, side: str, size: int | None, count: int) -> None:
        self.step()
        for _ in range(count):
            self.pair.deliver(side, size)

    @rule(side=SIDES, limit=st.integers(1, 3))
    def pull(self, side: str, limit: int) -> None:
        self.step()
        self.pair.drain(side, limit)

    @rule()
    def run_both(self) -> None:
        self.step()
        self.pair.run()

    @rule(seconds=SECONDS)
    def advance(self, seconds: float) -> None:
        self.step()
        self.pair.advance(seconds)

    @rule(seconds=SECONDS)
    def tick(self, seconds: float) -> None:
        self.step()
        self.pair.tick(seconds)

    @rule(side=SIDES)
    def look_at_the_clock(self, side: str) -> None:
        """After a timeout was handled and all was drained, the next deadline lies ahead, or there is none."""
        self.step()
        end = self.client if side == CLIENT else self.agent
        end.handle_timeout(self.pair.now)
        self.pair.drain(side)
        while self.pair.hand_over(side):
            self.pair.drain(side)
        if end.state != "over" and side not in self.pair.dead:
            deadline = end.next_deadline()
            assert deadline is None or deadline > self.pair.now, (deadline, self.pair.now)

    # ── The end of a run ────────────────────────────────────────────────────────────────────────────────────────────

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        self.finish()
        self.check_settled()
        self.check_updates()
        self.check_wire()
        self.check_order(CLIENT)
        self.check_order(AGENT)
        self.client.replay()
        self.agent.replay()

    def finish(self) -> None:
        """Cancel or close what is running or let it be, answer everything, let all deadlines pass; then the tables are
        empty, and an end is an end."""
        for index in range(len(self.sessions)):
            if self.last.startswith("cancel"):
                self.cancel_turn(index, "report")
            elif self.last == "close":
                self.close_session(index)
        if self.last.endswith("wait"):
            # Answers come after all deadlines, cancelled turns are fenced.
            self.pair.exhaust()
        for _ in range(50):
            # Time for what is under way, not for deadlines, as long as somebody waits for an answer.
            self.pair.exhaust(1.0)
            waiting = [(side, request_id) for side in (AGENT, CLIENT) for request_id in self.open_at(side)]
            for side, request_id in waiting:
                if request_id in self.open_at(side):
                    self.serve(side, request_id, False, [0, 3, 7])
            if not waiting and not self.pair.run():
                if self.pair.next_moment() is None:
                    break
                self.pair.exhaust()
        else:
            raise AssertionError("the two ends do not come to rest")
        ends: list[tuple[str, Any]] = [(CLIENT, self.client), (AGENT, self.agent)]
        for side, end in ends:
            if side not in self.pair.dead:
                assert end.open_requests == 0, (side, end.open_requests)
                assert end.open_peer_requests == 0, (side, end.open_peer_requests)
                assert end.output_bytes == 0, (side, end.output_bytes)
                assert end.unread_bytes == 0, (side, end.unread_bytes)
                assert end.state == "over" or end.next_deadline() is None, (side, end.next_deadline())
        if not self.over:
            assert all(session.state in ("idle", "closed", "fenced") for session in self.sessions), self.sessions
        self.client.close()
        self.pair.exhaust()
        self.agent.close()
        self.pair.exhaust()
        for side, end in ends:
            log = self.pair.client_events if side == CLIENT else self.pair.agent_events
            if side not in self.pair.dead:
                assert end.closed, side
                assert type(log[-1]).__name__ == "ConnectionOver", (side, log[-1])

    def check_settled(self) -> None:
        """Every request has settled exactly once on both sides, with an outcome that fits its bytes."""
        for side, pipe in ((CLIENT, self.pair.to_agent), (AGENT, self.pair.to_client)):
            if side in self.pair.dead:
                continue
            sent = {message["id"] for message in messages(pipe.data) if "method" in message and "id" in message}
            torn = pipe.data.rpartition(b"\n")[2]
            for rpc_id, method in self.asked[side].items():
                found = self.settled[side].get(rpc_id, [])
                assert len(found) == 1, f"{side}: {method} {rpc_id} has settled {len(found)} times: {found}"
                outcome, dispatch = outcome_of(found[0])
                assert outcome in OUTCOMES, found
                assert OUTCOMES[outcome] in (None, dispatch), found
                if dispatch == "not_sent":
                    assert rpc_id not in sent, f"{side}: {method} {rpc_id} is on the wire, and settled not_sent"
                elif not torn and not pipe.lost:
                    assert rpc_id in sent, f"{side}: {method} {rpc_id} is not on the wire, and settled {dispatch}"
            for rpc_id, found in self.settled[side].items():
                assert len(found) == 1, f"{side}: {rpc_id} has settled {len(found)} times: {found}"
            for request_id, event in self.raised[side].items():
                how = self.done[side].get(request_id, [])
                assert len(how) == 1, f"{side}: {event.method} {request_id} ended {len(how)} times: {how}"
        if CLIENT not in self.pair.dead:
            for session in self.sessions:
                found = self.session_ends.get(id(session), [])
                assert len(found) == 1, f"{session} has opened or failed {len(found)} times: {found}"

    def check_updates(self) -> None:
        """No update is lost, and each session's are in order; what a replay discards is counted."""
        for session_id in {update[0] for update in self.updates_sent}:
            sent = [number for name, number, _ in self.updates_sent if name == session_id]
            seen = [number for name, number in self.updates_seen if name == session_id]
            assert seen == sorted(set(seen)), f"{session_id}: {seen}"
            assert set(seen) <= set(sent), f"{session_id}: {seen} of {sent}"
        if self.over:
            return
        seen_numbers = {number for _, number in self.updates_seen}
        missing = [update for update in self.updates_sent if update[1] not in seen_numbers]
        assert all(kind not in WHOLE_STATE for _, _, kind in missing), missing
        counted = sum(event.count for event in self.pair.client_events if type(event).__name__ == "ReplayDiscarded")
        assert counted == len(missing), f"{counted} were counted, {missing} are missing"
        for side, other in ((CLIENT, AGENT), (AGENT, CLIENT)):
            assert self.notes_seen[other] == self.notes_sent[side]

    def check_wire(self) -> None:
        """All bytes are whole lines of valid JSON-RPC, and every params and result fits the official schema."""
        pipes = ((self.pair.to_agent, CLIENT), (self.pair.to_client, AGENT))
        asked: dict[tuple[str, object], str] = {}
        for pipe, side in pipes:
            data = pipe.data
            if not self.over:
                assert data.endswith(b"\n") or not data
            for message in messages(data):
                assert message["jsonrpc"] == "2.0"
                if "method" in message and "id" in message:
                    assert (side, message["id"]) not in asked, f"id {message['id']} was used twice"
                    asked[side, message["id"]] = message["method"]
        for pipe, side in pipes:
            other = AGENT if side == CLIENT else CLIENT
            answered: set[object] = set()
            for message in messages(pipe.data):
                if "method" in message:
                    self.check_fits(
                        message["method"], "Request" if "id" in message else "Notification", message["params"]
                    )
                    continue
                assert message["id"] not in answered, f"{side} has answered {message['id']} twice"
                answered.add(message["id"])
                if "result" in message:
                    self.check_fits(asked[other, message["id"]], "Response", message["result"])
                else:
                    self.check_type("Error", message["error"])

    def check_order(self, side: str) -> None:
        """What a side is told stands in the order of the wire, and is what stood there (rules 8 and 9)."""
        core = self.kit.core
        pipe, log = (
            (self.pair.to_client, self.pair.client_events)
            if side == CLIENT
            else (self.pair.to_agent, self.pair.agent_events)
        )
        wire: dict[tuple[str, object], tuple[int, Message]] = {}
        for position, message in enumerate(messages(pipe.data)):
            if message.get("method") == "session/update":
                wire["update", number_of(message["params"]["update"])] = (position, message)
            elif "id" in message:
                wire["request" if "method" in message else "answer", message["id"]] = (position, message)
        before = -1
        for event in log:
            if side == CLIENT and isinstance(event, (core.ForeignUpdate, core.RequestRefused)):
                # It may have been held for a session/new in flight, since its session was given up here.
                continue
            if isinstance(event, core.Update):
                key: tuple[str, object] = ("update", number_of(event.update))
            elif isinstance(event, (core.RequestReceived, core.RequestRefused)):
                key = ("request", event.rpc_id)
            elif isinstance(event, core.AnswerUnmatched):
                key = ("answer", event.rpc_id)
            elif isinstance(event, (core.RequestSettled, core.TurnEnded, core.TurnFailed)):
                if outcome_of(event)[1] != "answered":
                    continue
                key = ("answer", event.id if isinstance(event, core.RequestSettled) else event.prompt_id)
            else:
                continue
            position, message = wire[key]
            assert position > before, f"{side}: {event} came out of order"
            before = position
            if key[0] == "update":
                assert event.update == message["params"]["update"]
            elif isinstance(event, core.RequestReceived):
                assert (event.method, event.params) == (message["method"], message["params"])
            elif isinstance(event, (core.RequestSettled, core.TurnEnded)) and "result" in message:
                assert event.result == message["result"]

    def check_fits(self, method: str, kind: str, value: object) -> None:
        name = TYPES.get((method, kind))
        if name is not None:
            self.check_type(name, value)
        else:
            assert method.startswith("_"), f"no {kind} {method} in the schema"

    def check_type(self, name: str, value: object) -> None:
        key = (name, json.dumps(value, sort_keys=True))
        if key not in self.fits:
            # An update of an unknown kind is an extension: its session id and that it is an object is all there is.
            if (
                name == "SessionNotification"
                and isinstance(value, dict)
                and str(value["update"]["sessionUpdate"])[0] == "_"
            ):
                value = {**value, "update": UPDATES[0]}
            errors = [error.message for error in official(name, False).iter_errors(value)]
            assert not errors, f"{name}: {errors} in {value}"
            self.fits.add(key)


def schema_types() -> Iterator[tuple[tuple[str, str], str]]:
    """Method and kind of message to the name of its type in the official schema."""
    from tests.spec.agree import definitions

    for name, definition in definitions(False).items():
        assert isinstance(definition, dict)
        if "x-method" in definition:
            for kind in ("Request", "Response", "Notification"):
                if name.endswith(kind):
                    yield (definition["x-method"], kind), name


TYPES = dict(schema_types())


def messages(data: bytes) -> Iterator[Message]:
    """The whole lines of a stream, parsed."""
    for line in data.split(b"\n")[:-1]:
        message = json.loads(line.decode("utf-8"))
        assert isinstance(message, dict)
        yield message


def number_of(update: Message) -> int:
    """The number that the agent gave an update."""
    meta = update.get("_meta")
    return int(meta["number"]) if meta is not None else int(update["content"]["text"][1:])


def outcome_of(event: Any) -> tuple[str, str]:
    return ("result", "answered") if type(event).__name__ == "TurnEnded" else (event.outcome, event.dispatch)


def facts(connection: Any) -> tuple[object, ...]:
    """What can be seen of a connection without touching it."""
    return (
        connection.state,
        connection.closed,
        connection.output_closed,
        connection.unread_bytes,
        connection.output_bytes,
        connection.open_requests,
        connection.open_peer_requests,
        connection.next_deadline(),
        [(session.session_id, session.state) for session in connection.sessions],
    )
