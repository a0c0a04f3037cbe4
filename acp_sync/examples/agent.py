"""An example agent that answers by itself, without any model: ``python -m acp_sync.examples.agent``.

Every prompt gets a thought, a plan, an answer in pieces, and one tool call, for which it asks a permission. It says
what became of that, and ends. Sessions can be closed, resumed, and loaded with their history, as long as the process
lives. ``ACP_EXAMPLE_DELAY`` in the environment is the pause between two pieces, in seconds (default 0.02).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from acp_core import (
    AuthenticateRequested,
    CloseSessionRequested,
    ListSessionsRequested,
    LoadSessionRequested,
    NewSessionRequested,
    RequestError,
    ResumeSessionRequested,
)
from acp_core.errors import RESOURCE_NOT_FOUND
from acp_core.schema.v1 import StopReason
from acp_sync import AgentSession, AgentTurn, serve

OPTIONS = (
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
)


class Cancelled(Exception):
    """The client has cancelled the turn."""


class ExampleAgent:
    """The agent. Each method is one method of the protocol."""

    def __init__(self, delay: float = 0.02) -> None:
        self.delay = delay
        self.lock = threading.Lock()
        # Session id to its working directory and its history: pairs of who spoke and what was said.
        self.sessions: dict[str, tuple[str, list[tuple[str, str]]]] = {}

    def new_session(self, request: NewSessionRequested) -> str:
        with self.lock:
            session_id = f"example-{len(self.sessions) + 1}"
            self.sessions[session_id] = (request.cwd, [])
        return session_id

    def load_session(self, request: LoadSessionRequested, session: AgentSession) -> None:
        for who, text in self.history(request.session_id):
            (session.echo if who == "user" else session.send)(text)

    def resume_session(self, request: ResumeSessionRequested, session: AgentSession) -> None:
        self.history(request.session_id)

    def list_sessions(self, request: ListSessionsRequested) -> Mapping[str, object]:
        with self.lock:
            known = [*self.sessions.items()]
        return {"sessions": [{"sessionId": session_id, "cwd": cwd} for session_id, (cwd, _) in known]}

    def close_session(self, request: CloseSessionRequested) -> None:
        """Nothing is left to do: a running turn is cancelled, and the history stays."""

    def authenticate(self, request: AuthenticateRequested) -> None:
        """Anybody may."""

    def prompt(self, turn: AgentTurn) -> StopReason:
        history = self.history(turn.session_id)
        history.append(("user", turn.text))
        try:
            self.think(turn)
            self.answer(turn, history)
            self.use_tool(turn, history)
        except Cancelled:
            return "cancelled"
        return "end_turn"

    def think(self, turn: AgentTurn) -> None:
        turn.think("The user wants an answer. ")
        self.plan(turn, "in_progress", "pending")

    def answer(self, turn: AgentTurn, history: list[tuple[str, str]]) -> None:
        words = f"Hello! I am the example agent, and you said: {turn.text}".split(" ")
        for index, word in enumerate(words):
            self.pause(turn)
            turn.send(word if index == 0 else f" {word}", message_id="answer")
        turn.send("\n", message_id="answer")
        history.append(("message", " ".join(words) + "\n"))

    def use_tool(self, turn: AgentTurn, history: list[tuple[str, str]]) -> None:
        self.plan(turn, "completed", "in_progress")
        call_id = f"call-{len(history)}"
        call = {"toolCallId": call_id, "title": "Look at the clock", "kind": "execute"}
        turn.update({"sessionUpdate": "tool_call", "status": "pending", **call})
        try:
            chosen = turn.ask_permission(call, OPTIONS)
        except RequestError:
            chosen = "reject"
        if turn.cancelled:
            raise Cancelled
        status = "completed" if chosen == "allow" else "failed"
        turn.update({"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status})
        told = {"allow": "I looked at the clock.", "reject": "I was not allowed to look at the clock."}
        text = told.get(chosen or "", "Nobody decided whether I may look at the clock.")
        turn.send(f"{text}\n", message_id="told")
        history.append(("message", f"{text}\n"))
        self.plan(turn, "completed", "completed")

    def plan(self, turn: AgentTurn, *status: str) -> None:
        steps = zip(("Say hello", "Look at the clock"), status, strict=True)
        entries = [{"content": content, "priority": "medium", "status": state} for content, state in steps]
        turn.update({"sessionUpdate": "plan", "entries": entries})

    def pause(self, turn: AgentTurn) -> None:
        if turn.wait_cancelled(self.delay):
            raise Cancelled

    def history(self, session_id: str | None) -> list[tuple[str, str]]:
        with self.lock:
            found = self.sessions.get(session_id or "")
        if found is None:
            raise RequestError(RESOURCE_NOT_FOUND, "there is no such session")
        return found[1]


def main() -> None:
    """Serve on stdin and stdout until the input ends."""
    delay = float(os.environ.get("ACP_EXAMPLE_DELAY", "0.02"))
    serve(ExampleAgent(delay), info={"name": "example-agent", "title": "Example agent", "version": "1"})


if __name__ == "__main__":
    main()
