"""One prompt on the command line: ``python -m acp_sync run "say hello"``.

The agent's answer goes to stdout as it streams; thoughts, plans, tool calls, permissions and notes go to stderr. With
``--json`` stdout has one event a line instead: ``{"event": class name, ...fields}``.

Exit codes:

    0    the turn ended (end_turn)
    1    the agent answered with an error
    2    wrong usage
    3    max_tokens: the answer was cut off
    4    max_turn_requests: the agent took too many steps
    5    refusal: the agent refused
    6    another stop reason, one that this version does not know
    7    the agent could not be started
    8    the agent ended in the middle
    9    the agent does not speak the protocol: no proper answer to the handshake in time
    130  cancelled: Ctrl-C once cancels the turn, twice ends it
    141  nobody reads stdout any more
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

import acp_core
from acp_core import (
    ACPError,
    AgentExited,
    AgentMessageChunk,
    AgentNotStarted,
    AgentThoughtChunk,
    ConnectionClosed,
    Event,
    HandlerFailed,
    LineTooLong,
    Malformed,
    Noise,
    PermissionAnswered,
    PermissionOption,
    PermissionRequested,
    Plan,
    Policy,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
    ToolCall,
    ToolCallUpdate,
    TurnEnded,
)
from acp_core.errors import clip, last_words

from .client import Agent, Turn
from .process import open_agent

OK, FAILED, USAGE, UNKNOWN_STOP, NOT_STARTED, DIED, NONSENSE, CANCELLED, STDOUT_CLOSED = 0, 1, 2, 6, 7, 8, 9, 130, 141
STOP_CODES = {"end_turn": OK, "max_tokens": 3, "max_turn_requests": 4, "refusal": 5, "cancelled": CANCELLED}
# Seconds for each step of ending the agent.
CLOSE_GRACE = 1.0
HOW_TO_ALLOW = "denied, since nobody can be asked; --allow allows, --deny denies without this note"


class Screen:
    """Where things are shown: answers on stdout, all else on stderr; with ``as_json`` events on stdout."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._lock = threading.Lock()
        self._in_line = False
        self.noise: list[str] = []

    def show(self, event: Event) -> None:
        """Show an event of the turn."""
        if self.as_json:
            self._json(event)
            return
        match event:
            case AgentMessageChunk(text=text):
                with self._lock:
                    sys.stdout.write(text)
                    sys.stdout.flush()
                    if text:
                        self._in_line = not text.endswith("\n")
            case AgentThoughtChunk(text=text):
                self.note(f"thought: {text}")
            case Plan(entries=entries):
                self.note("plan: " + "; ".join(f"{entry.get('content')} ({entry.get('status')})" for entry in entries))
            case ToolCall() | ToolCallUpdate():
                self.note(f"tool {event.tool_call_id}: {event.title or ''} {event.status or ''}".rstrip())
            case PermissionAnswered():
                self.note(f"permission {event.verdict}: {event.option_id or 'cancelled'} (by {event.by})")

    def other(self, event: Event) -> None:
        """Show an event that belongs to no turn."""
        match event:
            case Noise(text=text):
                self.noise.append(text)
                del self.noise[3:]
        with contextlib.suppress(OSError, ValueError):
            if self.as_json:
                self._json(event)
                return
            match event:
                case Noise(text=text):
                    self.note(f"agent: {clip(text)}")
                case Malformed() | LineTooLong():
                    self.note(f"agent: {event.error}")
                case HandlerFailed():
                    self.note(f"failed: {event.exception!r}")

    def note(self, text: str) -> None:
        """One line on stderr."""
        with self._lock:
            if self._in_line:
                # Only a terminal mixes the two.
                self._in_line = not sys.stdout.isatty()
                if sys.stdout.isatty():
                    sys.stdout.write("\n")
                    sys.stdout.flush()
            with contextlib.suppress(OSError, ValueError):
                print(printable(text), file=sys.stderr, flush=True)

    def finish(self) -> None:
        """End the last line."""
        with self._lock:
            if self._in_line:
                sys.stdout.write("\n")
            self._in_line = False
            sys.stdout.flush()

    def _json(self, event: Event) -> None:
        line = json.dumps(event_fields(event), ensure_ascii=True)
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


class Interrupts:
    """Ctrl-C: the first one cancels the turn, a second one, or one without a turn, is a KeyboardInterrupt."""

    def __init__(self) -> None:
        self.asked = False
        self._turn: Turn | None = None
        # A signal handler may run while a lock is held; putting into this queue takes none.
        self._queue: queue.SimpleQueue[Turn | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._cancel, name="acp cancel", daemon=True)

    def __enter__(self) -> Interrupts:
        self._thread.start()
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        self._queue.put(None)
        self._thread.join(1.0)

    def guard(self, turn: Turn) -> None:
        """The turn that the first Ctrl-C cancels."""
        self._turn = turn

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        turn = self._turn
        if turn is None or self.asked:
            self.asked = True
            raise KeyboardInterrupt
        self.asked = True
        self._queue.put(turn)

    def _cancel(self) -> None:
        while (turn := self._queue.get()) is not None:
            with contextlib.suppress(ACPError):
                turn.cancel()


def event_fields(event: Event) -> dict[str, object]:
    """An event as a JSON object."""
    result: dict[str, object] = {"event": type(event).__name__}
    session_id = getattr(event, "session_id", None)
    if session_id is not None:
        result["session_id"] = session_id
    for name, value in event.fields():
        if name in ("session", "turn", "token", "line"):
            continue
        result[name] = plain(value)
    return result


def plain(value: object) -> object:
    """A value that JSON takes."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, PermissionOption):
        return {"optionId": value.option_id, "name": value.name, "kind": value.kind}
    if isinstance(value, Event):
        return event_fields(value)
    return str(value)


def printable(text: str) -> str:
    """Text that cannot steer a terminal."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)


def has_terminal() -> bool:
    """Somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class Asker:
    """Answers permissions as chosen on the command line."""

    def __init__(self, choice: str | None, screen: Screen) -> None:
        self._choice = choice
        self._screen = screen
        self._policy = Policy(always=True)

    def __call__(self, request: PermissionRequested) -> PermissionOption | None:
        if self._screen.as_json:
            with contextlib.suppress(OSError, ValueError):
                self._screen.show(request)
        title = request.title or request.tool_call_id or "a tool call"
        if self._choice == "ask" or (self._choice is None and has_terminal()):
            return self._ask(request, title)
        verdict = self._choice or "deny"
        option = self._policy.choose(verdict, request.options)
        how = HOW_TO_ALLOW if self._choice is None else f"by --{verdict}"
        self._screen.note(f"permission: {title}: {option.name if option is not None else 'cancelled'} ({how})")
        return option

    def _ask(self, request: PermissionRequested, title: str) -> PermissionOption | None:
        lines = [f"permission: {title}"]
        lines += [f"  {number}  {option.name}" for number, option in enumerate(request.options, 1)]
        self._screen.note("\n".join([*lines, "Number of your choice (anything else denies):"]))
        answer = read_line()
        if answer.isdigit() and 0 < int(answer) <= len(request.options):
            return request.options[int(answer) - 1]
        return self._policy.choose("deny", request.options)


def read_line() -> str:
    """A line of stdin, past Python's buffer: a thread that waits there would hold up the end of the interpreter."""
    data = b""
    while not data.endswith(b"\n"):
        try:
            piece = os.read(0, 4096)
        except OSError:
            break
        if not piece:
            break
        data += piece
    return data.decode("utf-8", "replace").strip()


def example_command() -> tuple[list[str], dict[str, str]]:
    """How the bundled agent is started, also from a checkout that is not installed: command and environment."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [env.get("PYTHONPATH")])])
    return [sys.executable, "-m", "acp_sync.examples.agent"], env


def parser() -> argparse.ArgumentParser:
    """The command line."""
    codes = (__doc__ or "").partition("Exit codes:")[2]
    top = argparse.ArgumentParser(prog="python -m acp_sync", description="Talk to an ACP agent from the command line.")
    top.add_argument("--version", action="version", version=acp_core.__version__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="send one prompt and print the answer",
        description="Start an agent, send one prompt, print the answer as it streams.",
        epilog="exit codes:" + codes,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("prompt", help="the text to send")
    run.add_argument("--agent", metavar="COMMAND", help="the agent's command (default: the bundled example agent)")
    run.add_argument("--cwd", metavar="DIR", help="the session's working directory (default: the current one)")
    choice = run.add_mutually_exclusive_group()
    for name, text in (
        ("allow", "allow what the agent asks for"),
        ("ask", "ask on the terminal (the default where there is one)"),
        ("deny", "deny what the agent asks for (the default without a terminal)"),
    ):
        choice.add_argument(f"--{name}", dest="choice", action="store_const", const=name, help=text)
    run.add_argument("--json", action="store_true", help="print events instead, one JSON object a line")
    run.add_argument(
        "--start-timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long the handshake and each further step of the start may take (default: 60)",
    )
    # What is wrong with its arguments is said with its own usage.
    run.set_defaults(error=run.error)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit code."""
    arguments, rest = parser().parse_known_args(argv)
    unknown = [word for word in rest if word.startswith("-")]
    if unknown:
        arguments.error(f"no such option: {', '.join(unknown)}")
    if rest:
        arguments.error(f"words behind the prompt: {' '.join(rest)}; put all of it in quotes")
    cwd = os.path.abspath(arguments.cwd or os.getcwd())
    if not os.path.isdir(cwd):
        arguments.error(f"--cwd: {cwd} is no directory")
    if not 0 < arguments.start_timeout < float("inf"):
        arguments.error("--start-timeout: give a positive number of seconds")
    if arguments.choice == "ask" and not has_terminal():
        arguments.error("--ask: there is no terminal to ask on; give --allow or --deny")
    screen = Screen(arguments.json)
    try:
        code = run(arguments, cwd, screen)
        screen.finish()
        return code
    except KeyboardInterrupt:
        screen.note("interrupted")
        return CANCELLED
    except BrokenPipeError:
        # What is still buffered must not be tried again at the end of the interpreter.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        return STDOUT_CLOSED


def run(arguments: argparse.Namespace, cwd: str, screen: Screen) -> int:
    """Start the agent, do the prompt. Returns the exit code; every failure is one sentence on stderr."""
    command: str | list[str] = arguments.agent
    env: dict[str, str] | None = None
    if command is None:
        command, env = example_command()
    asker = Asker(arguments.choice, screen)
    try:
        with (
            Interrupts() as interrupts,
            open_agent(
                command, permissions=asker, env=env, cwd=cwd, on_event=screen.other, close_grace=CLOSE_GRACE
            ) as agent,
        ):
            return prompt(agent, arguments, cwd, screen, interrupts)
    except AgentNotStarted as why:
        screen.note(f"error: {why}")
        return NOT_STARTED


def prompt(agent: Agent, arguments: argparse.Namespace, cwd: str, screen: Screen, interrupts: Interrupts) -> int:
    """The handshake, the session and the turn."""
    step: float = arguments.start_timeout
    try:
        agent.initialize(deadline=step)
    except (RequestError, RequestTimeout, RemoteProtocolError) as why:
        screen.note(f"error: {nonsense(agent, screen, why, step)}")
        return NONSENSE
    except ACPError as why:
        return failure(why, agent, screen, interrupts)
    try:
        session = agent.open_session(cwd, step_deadline=step)
        turn = session.prompt(arguments.prompt)
        interrupts.guard(turn)
        for event in turn:
            screen.show(event)
            if isinstance(event, TurnEnded):
                if event.stop_reason != "end_turn":
                    screen.note(f"the turn ended: {event.stop_reason or 'without a stop reason'}")
                return STOP_CODES.get(event.stop_reason, UNKNOWN_STOP)
        return FAILED
    except ACPError as why:
        return failure(why, agent, screen, interrupts)


def failure(why: ACPError, agent: Agent, screen: Screen, interrupts: Interrupts) -> int:
    """Say what failed, in one sentence, and give the exit code."""
    if isinstance(why, RequestError) and why.cancelled and interrupts.asked:
        screen.note("the turn ended: cancelled")
        return CANCELLED
    if isinstance(why, AgentExited):
        screen.note(f"error: {why}")
        return DIED
    tail = last_words(agent.stderr_tail)
    said = f"; its stderr ends with: {tail}" if tail else ""
    if isinstance(why, RequestTimeout) and interrupts.asked:
        screen.note(f"error: the agent did not react to the cancel{said}")
        return CANCELLED
    if isinstance(why, ConnectionClosed):
        screen.note(f"error: {why}{said}")
        return DIED
    if isinstance(why, RequestError):
        hint = "; log in with the agent's own tools first" if why.auth_required else ""
        screen.note(f"error: the agent answered: {why}{hint}{said}")
        return FAILED
    screen.note(f"error: {why}{said}")
    return FAILED


def nonsense(agent: Agent, screen: Screen, why: Exception, step: float) -> str:
    """Why this is no agent, in one sentence."""
    tail = last_words(agent.stderr_tail)
    words = [
        f"no answer to the handshake within {step:g} s; this is no ACP agent, or it needs other arguments"
        if isinstance(why, RequestTimeout)
        else f"the agent does not speak the protocol, its answer to the handshake was: {why}"
    ]
    if screen.noise:
        words.append(f"it printed: {clip(screen.noise[0])}")
    words.append(agent.exit_cause or f"it still runs; its stderr {'ends with: ' + tail if tail else 'is empty'}")
    return "; ".join(words)
