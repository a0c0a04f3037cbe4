"""``python -m benchmarks [--only R1,S2] [--json FILE] [--rounds N]``: every figure beside its floor, shuffled rounds.

A figure is the median over the rounds of (time of the row) / (time of its floor in the same round). It never decides
anything; it is for a person, before and after a change.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from acp_core import AgentConnection, ClientConnection, NewSessionRequested, Policy

from . import traffic

READ = 65536
Work = Callable[[], object]


def prompting() -> ClientConnection:
    """A client after a real handshake, its session prompting, a policy set."""
    client = ClientConnection(nonce="bench", permissions=Policy({"default": "allow"}))
    session = client.open_session("/work")
    client.data_to_send(0.0)
    client.receive_data(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n', 0.0)
    list(client.events())
    client.data_to_send(0.0)
    client.receive_data(
        traffic.compact({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": traffic.SESSION}}) + b"\n", 0.0
    )
    list(client.events())
    client.prompt(session, "go")
    client.data_to_send(0.0)
    list(client.events())
    return client


def serving() -> AgentConnection:
    """An agent with one idle session."""
    agent = AgentConnection(nonce="bench")
    agent.receive_data(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n', 0.0)
    list(agent.events())
    agent.receive_data(b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/work"}}\n', 0.0)
    for event in agent.events():
        if isinstance(event, NewSessionRequested):
            agent.accept(event.request_id, traffic.SESSION)
    agent.data_to_send(0.0)
    return agent


def receive(lines: list[bytes], read: int | None) -> Work:
    """Feed the lines in reads of ``read`` bytes, or one line a call for None."""
    data = b"\n".join(lines) + b"\n"
    parts = (
        [line + b"\n" for line in lines] if read is None else [data[i : i + read] for i in range(0, len(data), read)]
    )

    def work() -> None:
        client = prompting()
        events = 0
        for part in parts:
            client.receive_data(part, 1.0)
            for _ in client.events():
                events += 1
            if client.output_bytes:
                client.data_to_send(1.0)
        assert events >= len(lines)

    return work


def loads(lines: list[bytes]) -> Work:
    """The floor of receiving."""

    def work() -> None:
        for line in lines:
            json.loads(line)

    return work


def send_updates(texts: list[str], *, helper: bool) -> Work:
    """An agent writes chunks, by ``update`` or by ``update_text``."""

    def work() -> None:
        agent = serving()
        for text in texts:
            if helper:
                agent.update_text(traffic.SESSION, "message", "m1", delta=text)
            else:
                update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
                agent.update(traffic.SESSION, update)
            if agent.output_bytes > READ:
                agent.data_to_send(1.0)

    return work


def dumps(texts: list[str]) -> Work:
    """The floor of sending."""

    def work() -> None:
        for text in texts:
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
            message = {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {"sessionId": traffic.SESSION, "update": update},
            }
            json.dumps(message).encode()

    return work


def importing(module: str) -> Work:
    """A fresh process that imports one module."""

    def work() -> None:
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    return work


def rows() -> dict[str, tuple[str, Work, Work]]:
    """Every figure: what it is, its work, its floor."""
    plain, uni = traffic.chunks(20000), traffic.chunks(20000, other=0.15)
    tools, asks = traffic.tools(800), traffic.permissions(1000)
    mixed = [*plain[:8800], *tools[:80], *asks[:300]]
    random.Random(3).shuffle(mixed)
    texts = [json.loads(line)["params"]["update"]["content"]["text"] for line in plain]
    return {
        "R1": ("chunks, 64 KiB reads / json.loads", receive(plain, READ), loads(plain)),
        "R2": ("chunks, one line a read / json.loads", receive(plain, None), loads(plain)),
        "R3u": ("chunks with other scripts, 64 KiB / json.loads", receive(uni, READ), loads(uni)),
        "R3p": ("permissions answered by policy, 64 KiB / json.loads", receive(asks, READ), loads(asks)),
        "R3t": ("tool calls, 64 KiB / json.loads", receive(tools, READ), loads(tools)),
        "R3m": ("mixed, 64 KiB / json.loads", receive(mixed, READ), loads(mixed)),
        "S1": ("update() of chunks / json.dumps().encode()", send_updates(texts, helper=False), dumps(texts)),
        "S2": ("update_text() of chunks / json.dumps().encode()", send_updates(texts, helper=True), dumps(texts)),
        "I1": ("a process that imports acp_core / json", importing("acp_core"), importing("json")),
    }


def measure(table: dict[str, tuple[str, Work, Work]], rounds: int) -> dict[str, float]:
    """The median ratio of every row; the order of all works is shuffled in every round."""
    rng = random.Random(4)
    ratios: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(rounds):
        works = [(name, part) for name in table for part in (1, 2)]
        rng.shuffle(works)
        seconds: dict[tuple[str, int], float] = {}
        for name, part in works:
            work = table[name][part]
            assert not isinstance(work, str)
            gc.collect()
            # Child processes count too.
            began = sum(cpu())
            work()
            seconds[name, part] = sum(cpu()) - began
        for name in table:
            ratios[name].append(seconds[name, 1] / seconds[name, 2])
    return {name: statistics.median(found) for name, found in ratios.items()}


def cpu() -> tuple[float, float, float, float]:
    """User and system seconds of this process and of its children."""
    spent = os.times()
    return spent.user, spent.system, spent.children_user, spent.children_system


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", help="names of rows, separated by commas")
    parser.add_argument("--json", type=Path, help="write the medians to this file")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    table = rows()
    if options.only:
        table = {name: table[name] for name in options.only.split(",")}
    began = time.monotonic()
    medians = measure(table, options.rounds)
    for name, median in medians.items():
        print(f"{name:4} {median:6.2f}  {table[name][0]}")
    print(f"{options.rounds} rounds in {time.monotonic() - began:.0f} s")
    if options.json is not None:
        options.json.write_text(json.dumps({name: {"median": median} for name, median in medians.items()}, indent=2))


if __name__ == "__main__":
    main()
