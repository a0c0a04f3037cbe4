"""A model of an agent meets a client, whatever both do: what the owner stores is what was said, and no turn hangs.

The agent answers a load before, in the middle of or after its replay, replays on resume, repeats its request ids, says
things before session/new is answered, answers cancelled prompts late or never, dies and comes back. The owner dies too,
and the next one attaches over a relay that replays the last bytes.
"""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from acp_core import (
    AgentMessageChunk,
    ClientConnection,
    ConnectionOver,
    Event,
    PermissionAnswered,
    PermissionRequested,
    RequestAbandoned,
    Session,
    SessionFailed,
    SessionFenced,
    SessionReady,
    TailHistory,
    TailOver,
    TurnEnded,
    TurnFailed,
    TurnStalled,
    compare_tail,
)
from tests.core.helpers import (
    CWD,
    Message,
    as_line,
    chunk,
    decode_output,
    error,
    permission,
    result,
    update,
)

if TYPE_CHECKING:
    from acp_core.options import OnIdle, ReplayChoice

QUIET = 0.25
TURN = 20.0
CANCEL = 2.0
TAIL = 0.5
ATTACHED = 30.0


def asked_in(item: object) -> object:
    """The session that a permission request is about; None for anything else."""
    params = item.get("params") if isinstance(item, dict) and "id" in item else None
    return params.get("sessionId") if isinstance(params, dict) else None


class Agent:
    """What the agent knows, and what it is about to say. It says one thing after the other: ``todo``."""

    def __init__(self) -> None:
        # Every text it has said live, by session; kept on disk, as it were.
        self.history: dict[str, list[str]] = {}
        self.count = 0
        self.forget()

    def forget(self) -> None:
        """It starts again: open requests and turns are gone."""
        self.todo: deque[Message] = deque()
        self.prompts: dict[str, object] = {}
        self.given_up: list[object] = []
        # Its own requests that wait for an answer, by id.
        self.asked: dict[object, str] = {}
        self.cancelled: set[str] = set()

    def text(self) -> str:
        self.count += 1
        return f"text {self.count}"


class SessionModel(RuleBasedStateMachine):
    @initialize(
        replay=st.sampled_from(("discard", "report")),
        can=st.sampled_from(("load", "load", "resume", "both", "none")),
    )
    def start(self, replay: ReplayChoice, can: str) -> None:
        self.replay = replay
        self.can_load, self.can_resume = can in ("load", "both"), can in ("resume", "both")
        self.agent = Agent()
        self.now = 1000.0
        self.owners = 0
        # The owner's store: the raw lines of the live updates, with their sessions and texts.
        self.stored: list[tuple[str, str, bytes]] = []
        self.said: list[tuple[str, str]] = []
        # Sessions by id that the owner knows of, for the next connection.
        self.known: list[str] = []
        # How many lives there were; each has to bring something new before the next one ends.
        self.lives = 1
        self.connect(None)
        # A session with something to remember, so that opening again is worth it.
        self.open(0, True, False)
        self.the_agent_says(3, 0.0, (10,))
        self.the_agent_works(0, 3)
        self.the_agent_says(3, 0.0, (10,))

    @property
    def lived(self) -> bool:
        return len(self.said) > 2 * self.lives

    # ── The wire ────────────────────────────────────────────────────────────────────────────────────────────────────

    def connect(self, snapshot: dict[str, object] | None) -> None:
        self.owners += 1
        self.conn = ClientConnection(nonce=f"owner{self.owners}", restore=snapshot)
        self.handles: dict[str, Session] = {}
        self.opening: Session | None = None
        # Turns that have not ended: the latest moment at which each may.
        self.bounds: dict[int, float] = {}
        self.ended: set[int] = set()
        self.silences: set[tuple[int, float]] = set()
        self.asks: dict[str, str] = {}
        self.replayed: list[str] = []
        self.tail: list[tuple[str, str, bytes]] | None = None
        # What the agent has written since there is a relay.
        self.stream = b""

    def pump(self) -> None:
        """Drain and write until nothing moves; the agent reads all of it."""
        for event in self.conn.events():
            self.handle(event)
        while data := self.conn.data_to_send(self.now):
            for event in self.conn.events():
                self.handle(event)
            for message in decode_output(data.lstrip(b"\n")):
                self.agent_reads(message)
            for event in self.conn.events():
                self.handle(event)

    def hear(self, data: bytes, sizes: tuple[int, ...] = ()) -> None:
        start = 0
        for size in sizes:
            if data[start : start + size]:
                self.conn.receive_data(data[start : start + size], self.now)
                self.pump()
            start += size
        if data[start:]:
            self.conn.receive_data(data[start:], self.now)
        self.pump()

    def wait_until(self, moment: float) -> None:
        """Let time pass, with every deadline on the way at its own time."""
        while (due := self.conn.next_deadline()) is not None and due <= moment:
            self.now = max(self.now, due)
            self.conn.handle_timeout(self.now)
            self.pump()
        self.now = moment

    # ── The owner ───────────────────────────────────────────────────────────────────────────────────────────────────

    def handle(self, event: Event) -> None:
        match event:
            case AgentMessageChunk(mark="replayed") if self.tail is not None:
                pass
            case AgentMessageChunk(text=text, session=session, mark="replayed"):
                assert session is self.opening or session.state == "replaying"
                self.replayed.append(text)
            case AgentMessageChunk(text=text, session_id=str(id), mark="tail"):
                assert self.tail is not None
                self.tail.append((id, text, event.raw))
            case AgentMessageChunk(text=text, session_id=str(id)):
                self.stored.append((id, text, event.raw))
            case TailHistory(session_id=id):
                assert self.tail is not None
                self.tail = [update for update in self.tail if update[0] != id]
            case TailOver():
                self.tail_over()
            case SessionReady(session=session, replayed=count):
                assert session is self.opening
                self.opening = None
                known = session.session_id
                assert known is not None
                self.handles[known] = session
                if known not in self.known:
                    self.known.append(known)
                # All of the history or nothing of it; and it was counted.
                assert count == self.expected_replay
                if self.replay == "report":
                    assert self.replayed == self.agent.history[known][: len(self.replayed)]
                    assert len(self.replayed) == count
                else:
                    assert self.replayed == []
            case SessionFailed(session=session):
                assert session is self.opening
                self.opening = None
            case TurnEnded(prompt_id=prompt) | TurnFailed(prompt_id=prompt):
                assert prompt not in self.ended, "a prompt has settled twice"
                self.ended.add(prompt)
                del self.bounds[prompt]
            case TurnStalled(turn=turn, session=session, since=since, at=at):
                assert turn.watch is not None
                assert session.turn is turn
                assert at - since >= turn.watch.idle_timeout - 1e-6
                assert (turn.prompt_id, since) not in self.silences, "one silence was told twice"
                self.silences.add((turn.prompt_id, since))
            case PermissionRequested(request_id=request_id, session_id=str(id)):
                self.asks[request_id] = id
            case PermissionAnswered(request_id=request_id) | RequestAbandoned(request_id=request_id):
                self.asks.pop(request_id, None)
            case _:
                pass

    def tail_over(self) -> None:
        """De-duplicate: what the owner stores is what it had, and what the tail adds."""
        assert self.tail is not None
        tail, self.tail = self.tail, None
        for id in dict.fromkeys(id for id, _, _ in tail):
            mine = [update for update in tail if update[0] == id]
            known = [raw for session_id, _, raw in self.stored if session_id == id]
            found = compare_tail(known, [raw for _, _, raw in mine])
            assert not found.ambiguous
            # A gap is said to be possible only where no whole update stands in both.
            assert found.gap == (not found.overlap)
            self.stored += mine[found.overlap :]

    @precondition(lambda self: self.alive and self.opening is None and self.tail is None and len(self.handles) < 3)
    @rule(pick=st.integers(0, 5), prompt=st.booleans(), fresh=st.booleans())
    def open(self, pick: int, prompt: bool, fresh: bool) -> None:
        closed = [id for id in self.known if self.state(id) in ("", "fenced", "closed")]
        resume = closed[pick % len(closed)] if closed and pick else None
        self.replayed = []
        self.expected_replay = 0
        self.opening = self.conn.open_session(
            CWD,
            resume=resume,
            replay=self.replay,
            replay_quiet=QUIET,
            replay_max=600.0,
            fresh_if_refused=fresh,
            step_deadline=600.0,
        )
        if prompt and self.opening.state != "closed":
            self.bounds[self.conn.prompt(self.opening, "hi")] = float("inf")
        self.pump()

    def state(self, id: str) -> str:
        return self.handles[id].state if id in self.handles else ""

    def idle(self, *states: str) -> list[str]:
        return [id for id in self.handles if self.state(id) in states]

    @property
    def alive(self) -> bool:
        return self.conn.state != "over"

    def free(self) -> list[str]:
        """Idle, and no prompt waits there for the end of a tail."""
        return [id for id in self.idle("idle") if self.handles[id].turn is None]

    @precondition(lambda self: self.alive and self.free())
    @rule(
        pick=st.integers(0, 5),
        deadline=st.sampled_from((1.0, TURN)),
        silence=st.sampled_from((None, 0.5, 5.0)),
        on_idle=st.sampled_from(("report", "cancel")),
    )
    def prompt(self, pick: int, deadline: float, silence: float | None, on_idle: OnIdle) -> None:
        idle = self.free()
        id = self.conn.prompt(idle[pick % len(idle)], "hi", deadline=deadline, idle_timeout=silence, on_idle=on_idle)
        self.bounds[id] = self.now + deadline + CANCEL
        self.pump()

    @precondition(lambda self: self.alive and self.idle("prompting", "cancelling", "idle"))
    @rule(pick=st.integers(0, 5))
    def cancel(self, pick: int) -> None:
        running = self.idle("prompting", "cancelling", "idle")
        handle = self.handles[running[pick % len(running)]]
        if handle.state == "prompting" and handle.turn is not None:
            self.bounds[handle.turn.prompt_id] = self.now + CANCEL
        self.conn.cancel_turn(handle, deadline=CANCEL)
        self.pump()

    @precondition(lambda self: self.asks)
    @rule(pick=st.integers(0, 5), option=st.sampled_from(("yes", "no", None)))
    def answer(self, pick: int, option: str | None) -> None:
        request_id = [*self.asks][pick % len(self.asks)]
        del self.asks[request_id]
        self.conn.answer_permission(request_id, option)
        self.pump()

    @precondition(lambda self: not self.replaying)
    @rule(seconds=st.sampled_from((0.1, QUIET, 1.0, CANCEL, TURN, 100.0)))
    def wait(self, seconds: float) -> None:
        # An agent that opens a session does not take all day.
        self.wait_until(self.now + (seconds if self.opening is None else min(seconds, 1.0)))

    @property
    def replaying(self) -> bool:
        """The agent has history left to say: it goes on within the quiet time."""
        return any("history" in message for message in self.agent.todo)

    @precondition(lambda self: self.alive and self.conn.version is not None and self.opening is None and self.lived)
    @rule(away=st.integers(0, 6), back=st.integers(0, 3000), seconds=st.sampled_from((0.0, 5.0)))
    def the_owner_dies(self, away: int, back: int, seconds: float) -> None:
        """The next one restores what was stored, and attaches to every session."""
        self.lives += 1
        if self.tail is not None:
            self.wait_until(self.now + 20.0)
        snapshot = json.loads(json.dumps(self.conn.snapshot()))
        running = {row["sessionId"]: row["promptId"] for row in snapshot["sessions"]}
        asks, seen = self.asks, len(self.stream)
        stream = self.stream
        self.now += seconds
        # Nobody listens; the relay keeps what is said, and more of what was said before.
        for _ in range(away):
            if self.agent.todo:
                stream += self.say(self.agent.todo.popleft())
        self.connect(snapshot)
        self.asks = asks
        self.stream = stream
        self.tail = []
        for id, prompt in running.items():
            self.handles[id] = self.conn.attach(id, prompt, deadline=ATTACHED, tail_quiet=TAIL)
            if prompt is not None:
                self.bounds[prompt] = self.now + ATTACHED
        if not running:
            self.tail = None
            self.conn.initialize(deadline=None)
        self.pump()
        begin = max(0, seen - back)
        if running and stream[begin:]:
            self.hear(stream[begin:])

    # ── The agent ───────────────────────────────────────────────────────────────────────────────────────────────────

    def agent_reads(self, message: Message) -> None:
        agent = self.agent
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        id = str(params.get("sessionId"))
        match message.get("method"):
            case "initialize":
                capabilities: Message = {"loadSession": self.can_load}
                if self.can_resume:
                    capabilities["sessionCapabilities"] = {"resume": {}}
                agreed = {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": []}
                agent.todo.append(result(message["id"], agreed))
            case "session/new" | "session/load" | "session/resume":
                self.opens(message, id)
            case "session/prompt":
                assert id not in agent.prompts, "a second prompt in one session"
                agent.prompts[id] = message["id"]
                agent.cancelled.discard(id)
            case "session/cancel":
                if id in agent.prompts:
                    agent.cancelled.add(id)
            case None:
                assert message["id"] in agent.asked, "a request of the agent was answered twice, or for nothing"
                del agent.asked[message["id"]]
            case other:
                raise AssertionError(f"unexpected {other}")

    def opens(self, message: Message, id: str) -> None:
        """Plan the answer; ``shape`` counts the opens, so that every order comes about."""
        agent = self.agent
        shape = agent.count
        if message["method"] == "session/new":
            id = f"session {len(agent.history)}"
            agent.history[id] = []
            early: list[Message] = [{"live": id}] * (shape % 3)
            agent.todo.extend([*early, result(message["id"], {"sessionId": id})])
            return
        # An old turn of the session is over for the agent; its prompt may still be answered.
        if id in agent.prompts:
            agent.given_up.append(agent.prompts.pop(id))
        dropped = [item for item in agent.todo if id in (item.get("live"), asked_in(item.get("again", item)))]
        for item in dropped:
            agent.todo.remove(item)
            if "method" in item:
                del agent.asked[item["id"]]
        if shape % 7 == 6:
            agent.todo.append(error(message["id"], -32002, "no such session"))
            return
        history: list[Message] = [{"history": id, "text": text} for text in agent.history[id]]
        answer = result(message["id"], {})
        if message["method"] == "session/load":
            history.insert(shape % (len(history) + 1), answer)
        elif shape % 2:
            history.append(answer)
        else:
            history = [answer]
        agent.todo.extend(history)

    def say(self, item: Message) -> bytes:
        """The line of one thing that is said now."""
        agent = self.agent
        if "live" in item:
            id, text = str(item["live"]), agent.text()
            agent.history[id].append(text)
            self.said.append((id, text))
            return as_line(chunk(id, text))
        if "history" in item:
            self.expected_replay += 1
            return as_line(chunk(str(item["history"]), str(item["text"])))
        if "again" in item:
            # Only while it is open: an answered question that is asked again is a new one.
            question = item["again"]
            assert isinstance(question, dict)
            open = agent.asked.get(question["id"]) == question["params"]["toolCall"]["title"]
            return as_line(question) if open else b""
        return as_line(item)

    @precondition(lambda self: self.alive and self.agent.todo)
    @rule(count=st.integers(1, 8), gap=st.sampled_from((0.0, 0.2)), sizes=st.tuples(st.integers(1, 90)))
    def the_agent_says(self, count: int, gap: float, sizes: tuple[int]) -> None:
        for _ in range(count):
            if self.agent.todo:
                self.wait_until(self.now + gap)
                line = self.say(self.agent.todo.popleft())
                self.stream += line
                self.hear(line, sizes)

    @precondition(lambda self: self.alive and self.agent.prompts)
    @rule(pick=st.integers(0, 5), count=st.integers(1, 3))
    def the_agent_works(self, pick: int, count: int) -> None:
        id = [*self.agent.prompts][pick % len(self.agent.prompts)]
        self.agent.todo.extend([{"live": id}] * count)

    @precondition(lambda self: self.alive and self.idle("idle", "fenced") and self.opening is None)
    @rule(pick=st.integers(0, 5))
    def the_agent_goes_on_by_itself(self, pick: int) -> None:
        idle = self.idle("idle", "fenced")
        self.agent.todo.append({"live": idle[pick % len(idle)]})

    @precondition(lambda self: self.alive and self.agent.prompts)
    @rule(pick=st.integers(0, 5), id=st.sampled_from((0, 1, "u")), again=st.booleans())
    def the_agent_asks(self, pick: int, id: object, again: bool) -> None:
        """With an id that comes again in every turn; one that is open is only ever repeated as it was."""
        agent = self.agent
        session = [*agent.prompts][pick % len(agent.prompts)]
        if id not in agent.asked:
            agent.asked[id] = agent.text()
            question = permission(id, session, title=agent.asked[id])
            agent.todo.append(question)
            if again:
                agent.todo.append({"again": question})

    @precondition(lambda self: self.alive and self.agent.prompts)
    @rule(pick=st.integers(0, 5), reason=st.sampled_from(("end_turn", "refusal", "new_reason", None)))
    def the_agent_ends_a_turn(self, pick: int, reason: str | None) -> None:
        agent = self.agent
        id = [*agent.prompts][pick % len(agent.prompts)]
        prompt = agent.prompts.pop(id)
        if id in agent.cancelled and reason == "refusal":
            agent.todo.append(error(prompt, -32603, "aborted"))
        else:
            agent.todo.append(result(prompt, {"stopReason": "cancelled" if id in agent.cancelled else reason}))

    @precondition(lambda self: self.alive and self.agent.given_up)
    @rule()
    def the_agent_answers_an_old_prompt(self) -> None:
        self.agent.todo.append(result(self.agent.given_up.pop(), {"stopReason": "cancelled"}))

    @precondition(lambda self: self.alive and self.tail is None and not self.replaying and self.lived)
    @rule(cut=st.integers(0, 60))
    def the_agent_dies(self, cut: int) -> None:
        """In the middle of a line too. A new connection, and the sessions are opened again one by one."""
        self.hear(as_line(update("session 0", "usage_update", used=1, size=2))[:cut])
        self.conn.receive_eof(self.now)
        self.pump()
        assert self.conn.closed
        assert not self.bounds
        assert self.opening is None
        # What it was about to tell a session that never got its id is nobody's.
        self.said = [(id, text) for id, text in self.said if id in self.known]
        self.agent.forget()
        self.lives += 1
        self.connect(None)

    # ── What must hold ──────────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_store_is_what_was_said(self) -> None:
        if self.tail is None and self.opening is None:
            for known in self.agent.history:
                found = [text for id, text, _ in self.stored if id == known]
                assert found == [text for id, text in self.said if id == known]

    @invariant()
    def no_question_outlives_its_turn(self) -> None:
        assert {self.state(id) for id in self.asks.values()} <= {"prompting"}

    @invariant()
    def no_turn_is_past_its_bound(self) -> None:
        assert all(self.now <= bound for bound in self.bounds.values())

    def teardown(self) -> None:
        if not hasattr(self, "conn"):
            return
        # The agent says what it had in mind and then nothing more: time alone ends every turn.
        while self.agent.todo and self.alive:
            line = self.say(self.agent.todo.popleft())
            self.stream += line
            self.hear(line)
        self.wait_until(self.now + 700.0)
        assert not {prompt: bound for prompt, bound in self.bounds.items() if bound < float("inf")}
        self.the_store_is_what_was_said()
        assert not self.alive or not self.agent.asked, "a request of the agent was never answered"
        events = []
        self.conn.close()
        while (event := self.conn.next_event()) is not None:
            events.append(event)
            self.handle(event)
        self.conn.data_to_send(self.now)
        assert self.conn.closed
        assert isinstance(events[-1], ConnectionOver)
        assert not self.bounds
        assert not [event for event in events if isinstance(event, SessionFenced)]


SessionModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSessionModel = SessionModel.TestCase
