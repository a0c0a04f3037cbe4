"""Drive an agent process through each binding: the conversation is data, the outcome too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

import acp_anyio
import acp_sync
from acp_core import AgentMessageChunk, Event, PermissionOption, PermissionRequested, TurnEnded

COLOURS = ("threads", "asyncio", "trio")
# Nothing here takes more than a few seconds; a wait that reaches this has hung.
LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Say:
    """One prompt: how permissions are answered (``allow``, ``reject`` or None for cancelled), and whether the turn is
    cancelled at its first piece of text."""

    text: str
    answer: str | None = None
    cancel: bool = False


@dataclass(slots=True)
class Turn:
    """What came of one prompt."""

    stop_reason: str = ""
    text: str = ""
    kinds: list[str] = field(default_factory=list)
    asked: list[PermissionRequested] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Note one event."""
        self.kinds.append(type(event).__name__)
        if isinstance(event, AgentMessageChunk):
            self.text += event.text
        elif isinstance(event, TurnEnded):
            self.stop_reason = event.stop_reason


class Answers:
    """Answers permissions as the prompt at hand says, and keeps what was asked."""

    def __init__(self) -> None:
        self.say = Say("")
        self.turn = Turn()

    def begin(self, say: Say) -> Turn:
        """The next prompt."""
        self.say, self.turn = say, Turn()
        return self.turn

    def __call__(self, ask: PermissionRequested) -> PermissionOption | None:
        self.turn.asked.append(ask)
        if self.say.answer is None:
            return None
        return next(option for option in ask.options if option.kind == f"{self.say.answer}_once")


def converse(
    colour: str, command: Sequence[str], says: Sequence[Say], *, cwd: Path, env: Mapping[str, str] | None = None
) -> list[Turn]:
    """Start the agent, open one session, say each thing in turn, close."""
    if colour == "threads":
        return _threads(command, says, cwd, env)
    return anyio.run(_loop, command, says, cwd, env, backend=colour)


def _threads(command: Sequence[str], says: Sequence[Say], cwd: Path, env: Mapping[str, str] | None) -> list[Turn]:
    answers = Answers()
    turns = []
    with acp_sync.open_agent(command, permissions=answers, env=env, cwd=cwd) as agent:
        session = agent.open_session(str(cwd))
        for say in says:
            outcome = answers.begin(say)
            turns.append(outcome)
            with session.prompt(say.text, deadline=LIMIT) as turn:
                for event in turn:
                    outcome.take(event)
                    if say.cancel and isinstance(event, AgentMessageChunk):
                        turn.cancel(deadline=10.0)
    return turns


async def _loop(command: Sequence[str], says: Sequence[Say], cwd: Path, env: Mapping[str, str] | None) -> list[Turn]:
    answers = Answers()
    turns = []
    with anyio.fail_after(4 * LIMIT):
        async with acp_anyio.open_agent(command, permissions=answers, env=env, cwd=cwd) as agent:
            session = await agent.open_session(str(cwd))
            for say in says:
                outcome = answers.begin(say)
                turns.append(outcome)
                async with session.prompt(say.text, deadline=LIMIT) as turn:
                    async for event in turn:
                        outcome.take(event)
                        if say.cancel and isinstance(event, AgentMessageChunk):
                            turn.cancel(deadline=10.0)
    return turns


Driver = Callable[[Sequence[str], Sequence[Say]], list[Turn]]
