"""``python -m benchmarks.scale``: what a message costs among many sessions, connections, updates and turns, and whether
anything grows.

A cost is a ratio to the same messages without the many; flat within a tenth is what it should be. The soak runs a
client against an agent in virtual time. It decides nothing.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time

from acp_core import (
    AgentConnection,
    AgentMessageChunk,
    ClientConnection,
    FenceLifted,
    Limits,
    NewSessionRequested,
    Policy,
    PromptRequested,
    RequestReceived,
    Session,
    SessionFenced,
    TurnEnded,
)

from . import traffic
from .__main__ import line
from .ends import ASK, MANY
from .idle import open_connection
from .measuring import Result, measure
from .receiving import READ, cut
from .rows import Arm, Figure, Lines, Ratio, Row, Work

# How many there are at size 1.
SESSIONS, CONNECTIONS, TURNS = 10_000, 10_000, 200
UPDATES = 1_000_000
SOAK = 10_000_000
MESSAGES = 50_000
FLAT = 1.10


def session_id(number: int) -> str:
    """Ids of one length, as long as those of the traffic."""
    return f"sess_{number:036d}"


def opened(sessions: int, turns: int) -> ClientConnection:
    """A client with so many sessions, so many of them in a turn."""
    client = ClientConnection(
        nonce="scale", permissions=Policy({"default": "allow"}), limits=Limits(max_open_requests=MANY)
    )

    def exchange() -> None:
        for raw in client.data_to_send(0.0).splitlines():
            sent = traffic.parse(raw)
            result: dict[str, object]
            match sent["method"]:
                case "initialize":
                    result = {"protocolVersion": 1}
                case "session/new":
                    result = {"sessionId": session_id(len(handles))}
                    handles.append(None)
                case _:
                    continue
            client.receive_data(traffic.compact({"jsonrpc": "2.0", "id": sent["id"], "result": result}) + b"\n", 0.0)
            for _ in client.events():
                pass

    handles: list[None] = []
    found = []
    for _ in range(sessions):
        found.append(client.open_session("/work"))
        exchange()
        exchange()
    for session in found[:turns]:
        client.prompt(session, "go")
    exchange()
    list(client.events())
    return client


def among(sessions: int, turns: int, idle: int, used: int, lines: Lines) -> Arm:
    """The lines, dealt out to the first ``used`` sessions of a client, while ``idle`` other connections do nothing."""
    dealt = [
        text.replace(traffic.SESSION.encode(), session_id(number % used).encode()) for number, text in enumerate(lines)
    ]
    parts = cut(dealt, READ)

    def arm() -> Work:
        kept = [open_connection() for _ in range(idle)]
        client = opened(sessions, turns)

        def work() -> None:
            for part in parts:
                client.receive_data(part, 1.0)
                for _ in client.events():
                    pass
            assert len(kept) == idle

        return work

    return arm


def one(lines: Lines) -> Arm:
    """One session on the only connection."""
    return among(1, 1, 0, 1, lines)


def many_sessions(lines: Lines) -> Arm:
    """Updates for each of many sessions."""
    count = share(SESSIONS, lines)
    return among(count, 0, 0, count, lines)


def beside_sessions(lines: Lines) -> Arm:
    """Updates for one of many sessions."""
    return among(share(SESSIONS, lines), 1, 0, 1, lines)


def many_connections(lines: Lines) -> Arm:
    """Updates on one of many connections."""
    return among(1, 1, share(CONNECTIONS, lines), 1, lines)


def many_turns(lines: Lines) -> Arm:
    """Updates for each of many turns."""
    return among(TURNS, TURNS, 0, TURNS, lines)


def share(count: int, lines: Lines) -> int:
    """As many as fit the size, which shows in the number of lines."""
    return max(2, round(count * len(lines) / MESSAGES))


def long_session(size: float) -> float:
    """The cost of updates of a session that has had many, in that of a new one's, by turns."""
    updates = [*traffic.chunks(900), *traffic.tools(100)]
    parts = cut([text.replace(traffic.SESSION.encode(), session_id(0).encode()) for text in updates], READ)

    def feed(client: ClientConnection) -> float:
        began = time.process_time()
        for part in parts:
            client.receive_data(part, 1.0)
            for _ in client.events():
                pass
        return time.process_time() - began

    old = opened(1, 1)
    rounds = max(10, round(UPDATES * size / len(updates)))
    for _ in range(rounds * 9 // 10):
        feed(old)
    return statistics.median(feed(old) / feed(opened(1, 1)) for _ in range(rounds // 10))


class Soak:
    """A client and an agent that say the same turns to each other for a long time. Nothing waits: time is a number."""

    def __init__(self) -> None:
        limits = Limits()
        self.now = 0.0
        self.client = ClientConnection(
            nonce="client", permissions=Policy({"default": "allow"}), extensions=[ASK], limits=limits
        )
        self.agent = AgentConnection(nonce="agent", extensions=[ASK], limits=limits)
        self.session: Session = self.client.open_session("/work")
        self.messages = 0
        self.turns = 0
        self.ended = 0
        self.chunks = 0
        self.prompt = ""
        self.exchange()

    def exchange(self) -> None:
        """Carry bytes until both are silent."""
        while True:
            to_agent, to_client = self.client.data_to_send(self.now), self.agent.data_to_send(self.now)
            if not to_agent and not to_client:
                return
            self.messages += to_agent.count(b"\n") + to_client.count(b"\n")
            if to_agent:
                self.agent.receive_data(to_agent, self.now)
            if to_client:
                self.client.receive_data(to_client, self.now)
            for event in self.agent.events():
                match event:
                    case NewSessionRequested(request_id=request_id):
                        self.agent.accept(request_id, traffic.SESSION)
                    case PromptRequested(request_id=request_id):
                        self.prompt = request_id
                    case RequestReceived(request_id=request_id):
                        self.agent.respond(request_id, {})
            for event in self.client.events():
                match event:
                    case AgentMessageChunk():
                        self.chunks += 1
                    case TurnEnded() | FenceLifted():
                        self.ended += 1
                    case RequestReceived(request_id=request_id):
                        self.client.respond(request_id, {})

    def turn(self) -> None:
        """One turn of about 100 messages; every tenth is cancelled, every fiftieth not answered in time."""
        self.turns += 1
        self.now += 1.0
        number = self.turns
        client, agent = self.client, self.agent
        client.prompt(self.session, "go", identity=f"turn-{number}")
        self.exchange()
        for piece in range(80):
            agent.update_text(traffic.SESSION, "message", f"m{number}", delta=f"piece {piece} ")
        for part in range(4):
            call = {"toolCallId": f"c{number}-{part}", "title": "Run", "kind": "execute"}
            agent.update(traffic.SESSION, {"sessionUpdate": "tool_call", "status": "pending", **call})
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            agent.ask_permission(traffic.SESSION, call, options)
            update = {"sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "status": "completed"}
            agent.update(traffic.SESSION, update)
        agent.request(ASK)
        client.request(ASK, deadline=5.0)
        self.exchange()
        if number % 10 == 0:
            client.cancel_turn(self.session, deadline=2.0)
            self.exchange()
        if number % 50 == 0:
            self.now += 3.0
            client.handle_timeout(self.now)
            assert any(isinstance(event, SessionFenced) for event in client.events())
        agent.end_turn(self.prompt)
        self.exchange()

    def run(self, messages: int) -> float:
        """The growth of what is allocated, in percent, from a tenth of the messages to their end."""
        start = 0
        while self.messages < messages or not start:
            self.turn()
            # Both counts are taken at the same point of the cycle.
            if self.turns % 50 == 0 and not start and self.messages >= messages / 10:
                start = allocated()
        while self.turns % 50:
            self.turn()
        assert self.ended == self.turns and self.chunks == 80 * self.turns
        return 100 * (allocated() / start - 1)


def allocated() -> int:
    """Blocks of memory that the interpreter has handed out."""
    gc.collect()
    return sys.getallocatedblocks()


def soak(size: float) -> float:
    """The growth of a client and an agent in a long time."""
    return Soak().run(round(SOAK * size))


ROWS: list[Row] = [
    Ratio(
        "sessions",
        "10,000 sessions, updates for all / for the only one",
        FLAT,
        traffic.chunks,
        MESSAGES,
        many_sessions,
        one,
    ),
    Ratio(
        "beside",
        "10,000 sessions, updates for one / for the only one",
        FLAT,
        traffic.chunks,
        MESSAGES,
        beside_sessions,
        one,
    ),
    Ratio(
        "connections", "10,000 idle connections beside it / none", FLAT, traffic.chunks, MESSAGES, many_connections, one
    ),
    Ratio("turns", "200 concurrent turns / one", FLAT, traffic.chunks, MESSAGES, many_turns, one),
    Figure("updates", "the last of 1,000,000 updates of a session / those of a new one", FLAT, long_session),
    Figure("soak", "growth over 10,000,000 messages of a client and an agent, percent", 1.0, soak),
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--only", help="names of rows, separated by commas")
    parser.add_argument("--rounds", type=int, default=7, help="how many rounds a ratio has, 7 by default")
    parser.add_argument("--size", type=float, default=1.0, help="how many there are of everything, 1 by default")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [row.name for row in ROWS]
    results: list[Result] = []
    for result in measure([row for row in ROWS if row.name in names], options.rounds, options.size):
        results.append(result)
        print(line(result), flush=True)


if __name__ == "__main__":
    main()
