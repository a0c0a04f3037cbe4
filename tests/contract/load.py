"""Heavy loads, each in a process of its own so that its memory can be measured: ``python -m tests.contract.load``.

Arguments: the load and the colour. Prints one JSON object; an assertion that fails ends it with a traceback.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import anyio
from anyio.from_thread import start_blocking_portal

from acp_core import V1, AgentMessageChunk, Event
from tests.contract.harness import Bench, Binding, Loop, LoopTurn, Threads, TurnLike, get
from tests.contract.page import Page

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1024 * 1024
UPDATES = 100_000
SLOW = 2_000
SESSIONS = 200
EACH = 50


def peak() -> int:
    """The most memory that this process has ever had, in bytes."""
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib if sys.platform == "darwin" else kib * 1024


def lines(peer_name: str, session_id: str, first: int, count: int, pad: str = "") -> bytes:
    """So many chunks whose texts are numbers."""
    head = f'{{"jsonrpc":"2.0","method":"{peer_name}","params":{{"sessionId":"{session_id}","update":'
    head += '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
    return "".join(f'{head}{number}{pad}"}}}}}}}}\n' for number in range(first, first + count)).encode()


def consume(turn: TurnLike, visit: Callable[[Event], bool]) -> None:
    """Read a turn in its own colour, without a change of threads for each event. After an event for which ``visit`` is
    true the consumer takes a millisecond."""
    if not isinstance(turn, LoopTurn):
        for event in turn:
            if visit(event):
                time.sleep(0.001)
        return
    inner = turn.inner

    async def read() -> None:
        async for event in inner:
            if visit(event):
                await anyio.sleep(0.001)

    turn.loop.portal.call(read)


def texts(turn: TurnLike) -> list[str]:
    """The texts of a turn's chunks, in order."""
    found: list[str] = []

    def visit(event: Event) -> bool:
        if isinstance(event, AgentMessageChunk):
            found.append(event.text)
        return False

    consume(turn, visit)
    return found


def slow_consumer(bench: Bench) -> dict[str, object]:
    """100,000 updates for a consumer who takes a millisecond for each of the first 2,000."""
    _agent, session, peer = bench.session()
    wire = bench.methods.wire("session_update")
    turn = session.prompt("hi")
    prompt = peer.prompted()

    def send() -> None:
        for first in range(0, UPDATES, 1000):
            peer.raw(lines(wire, "s1", first, 1000, " " + "x" * 100))
        peer.end(prompt)

    before = peak()
    sending = bench.spawn(send)
    seen = 0

    def visit(event: Event) -> bool:
        nonlocal seen
        if not isinstance(event, AgentMessageChunk):
            return False
        assert int(event.text.partition(" ")[0]) == seen
        seen += 1
        return seen <= SLOW

    consume(turn, visit)
    get(sending)
    assert seen == UPDATES
    return {"grown": peak() - before}


def many_sessions(bench: Bench) -> dict[str, object]:
    """200 sessions on one connection, their updates interleaved at random, read beside each other."""
    agent, first, peer = bench.session("s0")
    sessions = [first, *(bench.another(agent, peer, f"s{number}") for number in range(1, SESSIONS))]
    wire = bench.methods.wire("session_update")
    turns = [session.prompt("hi") for session in sessions]
    prompts = {prompt["params"]["sessionId"]: prompt for prompt in (peer.prompted() for _ in turns)}
    reading = [bench.spawn(texts, turn) for turn in turns]
    order = [number for number in range(SESSIONS) for _ in range(EACH)]
    random.Random(7).shuffle(order)
    sent = [0] * SESSIONS
    for number in order:
        peer.raw(lines(wire, f"s{number}", sent[number], 1))
        sent[number] += 1
        if sent[number] == EACH:
            peer.end(prompts[f"s{number}"])
    for job in reading:
        assert get(job) == [str(number) for number in range(EACH)]
    return {}


def answer_behind_updates(bench: Bench) -> dict[str, object]:
    """A caller waits for an answer behind 10 MiB of updates that nobody reads."""
    agent, session, peer = bench.session()
    turn = session.prompt("hi")
    prompt = peer.prompted()
    asked = bench.spawn(agent.request, "_x/ask")
    request = peer.read()
    count = 10 * MIB // 1024 + 1
    data = lines(bench.methods.wire("session_update"), "s1", 0, count, " " + "x" * 1024)
    assert len(data) > 10 * MIB
    peer.raw(data)
    peer.result(request, {"ok": True})
    assert get(asked) == {"ok": True}
    peer.end(prompt)
    assert [int(text.partition(" ")[0]) for text in texts(turn)] == [*range(count)]
    return {}


LOADS: dict[str, Callable[[Bench], dict[str, object]]] = {
    load.__name__: load for load in (slow_consumer, many_sessions, answer_behind_updates)
}


def main(load: str, colour: str) -> None:
    """Run one load on one colour."""
    with ExitStack() as stack:
        binding: Binding = Threads()
        if colour != "threads":
            # asyncio's own debug mode, which python -X dev switches on too, keeps a traceback of every call.
            portal = stack.enter_context(
                start_blocking_portal("trio")
                if colour == "trio"
                else start_blocking_portal("asyncio", backend_options={"debug": False})
            )
            binding = Page(colour, portal) if colour == "page" else Loop(colour, portal)
        bench = Bench(binding, V1)
        with bench.stack:
            found = LOADS[load](bench)
        print(json.dumps({**found, "cpu": time.process_time()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
