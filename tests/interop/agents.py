"""Real ACP agents, pinned and offline: installed from npm once, then run against the fake model server.

The pins, with a checksum of each package, are the package files in npm/NAME beside this module.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AGENTS", "AgentSetup", "RealAgent", "age_sessions", "install", "missing", "prepare"]

PINS = Path(__file__).parent / "npm"
REPOSITORY = Path(__file__).parents[2]
INSTALL_SECONDS = 300.0

# All of the caller's environment that an agent gets to see: above all no key, no proxy and no other model service.
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SHELL", "LD_LIBRARY_PATH")

# `tee` makes it a command that neither agent holds for harmless, so that both ask before they run it.
SHELL_PROMPT = "Please do this: [[shell echo made | tee made.txt]]"


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """All that is needed to start one agent."""

    command: list[str]
    env: dict[str, str]
    """The whole environment of the process, not an addition to one."""
    cwd: Path
    """An empty folder: where to start it, and the folder to name in session/new."""
    shell_prompt: str
    """Makes the agent ask for permission to run a command that writes made.txt into `cwd`."""


@dataclass(frozen=True, slots=True)
class _Start:
    command: list[str]
    env: dict[str, str]
    files: dict[str, str]
    """Content by path below HOME."""


@dataclass(frozen=True, slots=True)
class RealAgent:
    name: str
    package: str
    npm_options: tuple[str, ...]
    start: Callable[[Path, Path, str], _Start]
    """Called with the package's installation, HOME and the base URL of the model server."""

    @property
    def version(self) -> str:
        pins: dict[str, str] = json.loads((PINS / self.name / "package.json").read_text("utf-8"))["dependencies"]
        return pins[self.package]


def _codex(installed: Path, home: Path, base_url: str) -> _Start:
    modules = installed / "node_modules"
    # The native program itself: the script that the package offers would only stand between it and our signals.
    programs = sorted(modules.glob("@zed-industries/codex-acp-*/bin/codex-acp"))
    if len(programs) != 1:
        raise RuntimeError(f"expected one codex-acp program for this platform below {modules}, found {len(programs)}")
    # A model that it knows: about any other it puts a warning into the text of each answer.
    # No sandbox: it needs kernel features that a container may lack, and each command is asked for anyway.
    config = f"""\
model = "gpt-5.4"
model_provider = "fake"
approval_policy = "untrusted"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.fake]
name = "Fake"
base_url = "{base_url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
"""
    return _Start(
        command=[str(programs[0])],
        env={"CODEX_HOME": str(home / ".codex"), "OPENAI_API_KEY": "no-key"},
        files={".codex/config.toml": config},
    )


def _gemini(installed: Path, home: Path, base_url: str) -> _Start:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    return _Start(
        command=[
            shutil.which("node") or "node",
            str(installed / "node_modules/@google/gemini-cli/bundle/gemini.js"),
            "--acp",
        ],
        env={
            "GEMINI_API_KEY": "no-key",
            "GOOGLE_GEMINI_BASE_URL": base_url,
            "GEMINI_TELEMETRY_ENABLED": "false",
            # Otherwise it starts itself a second time, which costs a second and one more process to end.
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
        files={".gemini/settings.json": json.dumps(settings)},
    )


AGENTS = {
    agent.name: agent
    for agent in (
        RealAgent("codex-acp-zed", "@zed-industries/codex-acp", (), _codex),
        # Its optional parts, a pseudo-terminal and a key store, are not needed here.
        RealAgent("gemini", "@google/gemini-cli", ("--omit=optional",), _gemini),
    )
}


def missing() -> str | None:
    """Why no real agent can run on this machine, or None."""
    absent = [program for program in ("node", "npm") if shutil.which(program) is None]
    return f"{' and '.join(absent)} not found" if absent else None


def install(name: str) -> Path:
    """The folder that holds the pinned package in its node_modules; installed now unless that was done before.

    Raises:
        RuntimeError: npm failed or took too long.
    """
    agent = AGENTS[name]
    return install_pinned(name, agent.package, agent.npm_options)


def install_pinned(name: str, package: str, npm_options: tuple[str, ...] = ()) -> Path:
    """The same for any package with its pins in npm/NAME.

    Raises:
        RuntimeError: npm failed or took too long.
    """
    pins: dict[str, str] = json.loads((PINS / name / "package.json").read_text("utf-8"))["dependencies"]
    cache = Path(os.environ.get("ACP_AGENTS_CACHE") or REPOSITORY / ".cache" / "agents")
    target = cache / f"{name}-{pins[package]}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    # Complete or absent: a folder gets its final name only once all is in it.
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=cache) as folder:
        fresh = Path(folder) / "install"
        shutil.copytree(PINS / name, fresh)
        _npm_ci(fresh, npm_options)
        try:
            fresh.rename(target)
        except OSError:
            # Another process was quicker; what it installed is the same.
            if not target.is_dir():
                raise
    return target


def _npm_ci(folder: Path, options: tuple[str, ...]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("npm not found")
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *options]
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=INSTALL_SECONDS)
        except BaseException as error:
            # npm's own children too, or the pipe would stay open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(f"{' '.join(command)} took more than {INSTALL_SECONDS:g} s") from None
            raise
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with {process.returncode}:\n{output[-2000:]}")


def prepare(name: str, workdir: Path, base_url: str) -> AgentSetup:
    """Install the agent if need be and configure it in a fresh HOME below `workdir`, for one model server.

    The setup can be started more than once: the agent keeps its sessions in that HOME (see `age_sessions`). It asks
    for permission before it runs a command.

    Raises:
        FileExistsError: this agent was prepared in this `workdir` before.
        RuntimeError: npm failed or took too long.
    """
    installed = install(name)
    place = workdir.resolve() / name
    home, cwd, scratch = place / "home", place / "work", place / "tmp"
    for folder in (home, cwd, scratch):
        folder.mkdir(parents=True)
    start = AGENTS[name].start(installed, home, base_url)
    for path, content in start.files.items():
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
    env = {key: os.environ[key] for key in INHERITED if key in os.environ}
    # Scratch space too: gemini leaves a report there of each failed request.
    env |= {"HOME": str(home), "TMPDIR": str(scratch)}
    return AgentSetup(start.command, env | start.env, cwd, SHELL_PROMPT)


def age_sessions(setup: AgentSetup) -> None:
    """To be called between two runs, for sessions of the first to be loaded by the second.

    gemini names the file of a session after the minute and the id. When it loads one in the minute of its creation, it
    first starts an empty conversation in that same file, and then finds no session any more.
    """
    for file in Path(setup.env["HOME"]).glob(".gemini/tmp/*/chats/session-*"):
        file.rename(file.with_name(re.sub(r"^session-[0-9T-]{16}", "session-2000-01-01T00-00", file.name)))
