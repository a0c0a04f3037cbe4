"""Owners that are killed, for real: each one by SIGKILL, at a random point of a turn, and the next one takes over.

``python tests/process/restart.py [KILLS [SEED]]`` kills 200 owners and prints what was found; test_restart.py kills
fewer. Most kills are in the middle of a write, to a file or to the socket; the others come from outside, at any time.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 120.0


class Stage:
    """A relay with its agent, and a directory in which owners come after each other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        agent = [sys.executable, str(HERE / "restart_agent.py"), str(directory)]
        relay = [sys.executable, str(HERE / "restart_relay.py"), str(directory / "relay"), *agent]
        self.relay = subprocess.Popen(relay, stdin=subprocess.PIPE)
        self.wait_for(lambda: (directory / "relay").exists())
        assert self.owner(0, "") == 0

    def close(self) -> None:
        assert self.relay.stdin is not None
        self.relay.stdin.close()
        self.relay.wait(PATIENCE)

    def owner(self, turn: int, text: str, *, crash: int = 0, cut: int = 0, kill_after: float | None = None) -> int:
        """Let one owner live: its exit code, -9 when it was killed."""
        arguments = [str(self.directory), str(turn), text, str(crash), str(cut)]
        process = subprocess.Popen([sys.executable, "-S", str(HERE / "restart_owner.py"), *arguments])
        try:
            if kill_after is not None:
                try:
                    return process.wait(kill_after)
                except subprocess.TimeoutExpired:
                    process.kill()
            return process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()

    @staticmethod
    def wait_for(ready: object) -> None:
        assert callable(ready)
        due = time.monotonic() + PATIENCE
        while not ready():
            assert time.monotonic() < due, "it takes too long"
            time.sleep(0.005)

    def read(self, name: str) -> list[bytes]:
        path = self.directory / name
        return path.read_bytes().split(b"\n")[:-1] if path.exists() else []

    def comparisons(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.read("found")]

    def questions(self) -> int:
        return sum(b'"session/request_permission"' in line for line in self.read("said"))

    def answers(self) -> int:
        """Whole answers that the agent has read."""
        return sum(is_answer(line) for line in self.read("heard"))

    def torn(self) -> int:
        """Lines the agent has read that are no JSON: the halves that killed owners left behind."""
        return sum(bool(line) and parse(line) is None for line in self.read("heard"))

    def check(self) -> None:
        """Nothing is lost, nothing is doubled, every question has one answer."""
        said, stored = self.read("said"), self.read("lines")
        assert len(set(said)) == len(said), "the agent's lines are distinct"
        assert stored == said, f"{len(stored)} lines are stored, {len(said)} were said"
        assert self.answers() == self.questions()
        for found in self.comparisons():
            assert not found["ambiguous"]
            # Nothing was missed, so a gap is only said to be possible where no whole line stands on both sides.
            assert not found["gap"] or found["overlap"] == 0


def parse(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def is_answer(line: bytes) -> bool:
    message = parse(line)
    return isinstance(message, dict) and "method" not in message and "result" in message


@contextmanager
def stage() -> Iterator[Stage]:
    # Not pytest's own directory: the path of a socket has to be short.
    with tempfile.TemporaryDirectory(prefix="acp") as directory:
        made = Stage(Path(directory))
        try:
            yield made
        finally:
            made.close()


class Counts:
    """What a run has seen."""

    def __init__(self) -> None:
        self.kills = self.in_writes = self.turns = self.questions = self.lines = self.torn = self.gaps = 0

    def __str__(self) -> str:
        return (
            f"{self.kills} owners killed ({self.in_writes} in a write) in {self.turns} turns: {self.lines} lines "
            f"stored, none lost or doubled; {self.questions} questions, each answered once; {self.torn} half lines "
            f"left in the agent's stdin; {self.gaps} gaps said to be possible"
        )


def run(kills: int, seed: int, seconds: float = float("inf")) -> Counts:
    """Kill so many owners, or as many as the time allows, and check after each turn."""
    chance = random.Random(seed)
    counts = Counts()
    due = time.monotonic() + seconds
    with stage() as made:
        while counts.kills < kills and time.monotonic() < due:
            counts.turns += 1
            text = f"lines {chance.randint(10, 30)} ask {chance.randint(2, 8)}"
            killed = True
            while killed:
                inside = chance.random() < 0.7
                # The next one may be killed as well; the last one ends the turn.
                if counts.kills >= kills:
                    code = made.owner(counts.turns, text)
                elif inside:
                    code = made.owner(counts.turns, text, crash=chance.randint(1, 25), cut=chance.randint(0, 1000))
                else:
                    code = made.owner(counts.turns, text, kill_after=chance.uniform(0.03, 0.5))
                assert code in (0, -9)
                killed = code == -9
                counts.kills += killed
                counts.in_writes += killed and inside
            made.check()
        counts.questions = made.questions()
        counts.lines = len(made.read("lines"))
        counts.torn = made.torn()
        counts.gaps = sum(bool(found["gap"]) for found in made.comparisons())
    return counts


def main(arguments: list[str]) -> None:
    kills, seed = [*map(int, arguments), 200, 1][:2] if len(arguments) != 1 else (int(arguments[0]), 1)
    began = time.monotonic()
    print(f"{run(kills, seed)}; seed {seed}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
