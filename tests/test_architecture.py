"""The shape of the house: who may import what, where names of the wire may stand, who may move a state."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

import acp_anyio
import acp_sync
from acp_core import V1, ClientConnection
from acp_core.front.agent import agent_connection
from acp_core.front.setup import ClientSetup
from acp_core.state import TABLES

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "acp_core"

# Imports go down this list. Modules of one row may import each other as long as there is no circle.
LAYERS = (
    ("errors", "limits"),
    ("events",),
    ("state", "timers", "framing", "permissions", "replay", "transcript", "usage", "projection"),
    ("elicitation", "options", "shapes"),
    ("codec", "methods", "methods_unstable"),
    ("requests", "sessions", "settings", "attach"),
    ("connection",),
    ("opening",),
    ("reattach",),
    ("client", "agent"),
    ("inbox", "turns", "settlement", "closing"),
    ("drive",),
    ("host",),
    ("__init__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# What the core takes from the standard library: no clock, randomness, environment, log, IO or thread among them.
CORE_LIBRARY = {"__future__", "bisect", "collections", "heapq", "json", "re", "zlib"}
SCHEMA_LIBRARY = CORE_LIBRARY | {"binascii", "types", "typing"}
TESTING_LIBRARY = CORE_LIBRARY | {"functools", "itertools", "types"}
# Loaded by bindings only, which have both.
FRONT_LIBRARY = CORE_LIBRARY | {"contextlib", "contextvars", "functools", "inspect", "typing"}


# What an owner gives that has the colour of a binding.
OWN_CODE = {"permissions", "handlers", "elicitation", "on_snapshot"}


# ── Reading the source ──────────────────────────────────────────────────────────────────────────────────────────────


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below, but not what only a type checker reads."""
    yield node
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield from run_time(other)
        else:
            yield from run_time(child)


def imports(path: Path, package: str) -> Iterator[str]:
    """The absolute name of every module that a file imports when it runs; names taken from a package count too."""
    parts = package.split(".")
    for node in run_time(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = parts[: len(parts) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            yield name
            if (ROOT / name.replace(".", "/")).is_dir():
                yield from (f"{name}.{alias.name}" for alias in node.names)


def files(package: str) -> list[tuple[Path, str]]:
    """The files of a package with the package each is in."""
    return [(path, ".".join(path.parent.relative_to(ROOT).parts)) for path in sorted((ROOT / package).rglob("*.py"))]


def name_of(value: object) -> str:
    """For the ids of parametrized tests: no path of a machine."""
    return value.relative_to(ROOT).as_posix() if isinstance(value, Path) else ""


def core_edges() -> Iterator[tuple[str, str]]:
    """Which core module imports which."""
    for path in sorted(CORE.glob("*.py")):
        for name in imports(path, "acp_core"):
            first, _, rest = name.partition(".")
            target = rest.partition(".")[0]
            if first == "acp_core" and (CORE / f"{target}.py").exists():
                yield path.stem, target


# ── Imports ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_core_module_has_a_layer() -> None:
    assert {path.stem for path in CORE.glob("*.py")} <= RANK.keys()


def test_core_imports_go_one_way() -> None:
    edges = set(core_edges())
    # The walk sees something: these edges stand there for good.
    assert {
        ("connection", "codec"),
        ("opening", "connection"),
        ("client", "reattach"),
        ("agent", "connection"),
    } <= edges
    assert [f"{one} imports {other}" for one, other in sorted(edges) if RANK[one] < RANK[other]] == []
    # No circle inside a layer: take away what imports nothing, until nothing is left.
    left = {name for edge in edges for name in edge}
    while free := {name for name in left if not any(one == name and other in left for one, other in edges)}:
        left -= free
    assert left == set()


@pytest.mark.parametrize(("path", "package"), files("acp_core"), ids=name_of)
def test_core_imports_nothing_else(path: Path, package: str) -> None:
    inside = path.relative_to(CORE).parts[0]
    above = {"schema": SCHEMA_LIBRARY, "testing": TESTING_LIBRARY, "front": FRONT_LIBRARY}
    allowed = above.get(inside, CORE_LIBRARY)
    if path.name == "strategies.py":
        allowed = allowed | {"hypothesis"}
    for name in imports(path, package):
        first, _, rest = name.partition(".")
        if first == "acp_core":
            # The kit, the schema and the fronts stand on the core, never the other way round.
            assert inside in above or rest.partition(".")[0] not in above, name
        else:
            assert first in allowed, name


def test_core_starts_without_a_library() -> None:
    """No site-packages, and nothing slow, impure or concurrent comes in with it."""
    code = (
        "import sys; sys.path.insert(0, '.'); before = set(sys.modules); import acp_core; "
        "every = [getattr(acp_core, name) for name in acp_core.__all__]; "
        "print(*sorted(set(sys.modules) - before))"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(found.stdout.split())
    assert {"acp_core.connection", "acp_core.client", "acp_core.agent", "acp_core.host"} <= loaded
    heavy = {"dataclasses", "inspect", "typing", "asyncio", "ast", "decimal", "datetime", "email", "pathlib"}
    impure = {"time", "random", "secrets", "os", "io", "logging", "socket", "select", "selectors", "ssl", "tempfile"}
    concurrent = {"threading", "subprocess", "multiprocessing", "concurrent", "signal", "contextvars", "queue"}
    others = {"anyio", "trio", "hypothesis", "pydantic", "acp_core.schema", "acp_core.testing", "acp_core.front"}
    assert loaded & (heavy | impure | concurrent | others) == set()


def test_acp_anyio_without_anyio_names_the_extra() -> None:
    code = "import sys; sys.path.insert(0, '.'); import acp_anyio"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert found.stderr.endswith('ModuleNotFoundError: acp_anyio needs anyio: pip install "acp-sansio[anyio]"\n')


@pytest.mark.parametrize(("path", "package"), files("acp_anyio"), ids=name_of)
def test_acp_anyio_knows_no_event_loop(path: Path, package: str) -> None:
    """Only anyio, the core and the standard library: the same code runs on asyncio and trio."""
    for name in imports(path, package):
        first = name.partition(".")[0]
        assert first not in ("asyncio", "trio", "sniffio", "acp_sync"), name
        assert first in ("acp_core", "acp_anyio", "anyio") or first in sys.stdlib_module_names, name


@pytest.mark.parametrize(("path", "package"), files("acp_sync"), ids=name_of)
def test_acp_sync_needs_nothing(path: Path, package: str) -> None:
    """Only the core and the standard library: the main job runs from a checkout."""
    for name in imports(path, package):
        first = name.partition(".")[0]
        assert first not in ("asyncio", "acp_anyio"), name
        assert first in ("acp_core", "acp_sync") or first in sys.stdlib_module_names, name


@pytest.mark.parametrize(("path", "package"), files("acp_sync/workspace"), ids=name_of)
def test_a_workspace_has_no_colour(path: Path, package: str) -> None:
    """Only the core and the standard library, and no binding: every binding may use it."""
    for name in imports(path, package):
        first = name.partition(".")[0]
        own = name == "acp_sync.workspace" or name.startswith("acp_sync.workspace.")
        assert first != "asyncio", name
        assert own or first == "acp_core" or first in sys.stdlib_module_names, name


@pytest.mark.parametrize(
    ("options", "intent", "own"),
    [
        ("OpenOptions", ClientConnection.open_session, {"self", "cwd", "token"}),
        ("PromptOptions", ClientConnection.prompt, {"self", "session", "content", "token"}),
        ("AgentOptions", agent_connection, {"nonce", "agent"}),
        ("ConnectOptions", ClientSetup.__init__, OWN_CODE | {"self", "waiter", "nonce", "blocking"}),
    ],
)
def test_options_are_those_of_the_intents(options: str, intent: Callable[..., object], own: set[str]) -> None:
    (found,) = (
        node for node in ast.walk(tree(CORE / "options.py")) if isinstance(node, ast.ClassDef) and node.name == options
    )
    said = {
        ast.unparse(node.target): ast.unparse(node.annotation) for node in found.body if isinstance(node, ast.AnnAssign)
    }
    taken = inspect.signature(intent).parameters.values()
    assert said == {parameter.name: parameter.annotation for parameter in taken if parameter.name not in own}


# What one binding has and the other cannot: threads are told of a cancel, tasks are cancelled.
OF_A_COLOUR = {"AgentTurn": {"wait_cancelled"}}


def calls(cls: type) -> dict[str, list[tuple[str, object]] | None]:
    """The public names of a class; of what can be called the parameters and their defaults."""
    return {
        name: [(one.name, one.default) for one in inspect.signature(value).parameters.values()]
        if inspect.isfunction(value := getattr(cls, name))
        else None
        for name in dir(cls)
        if not name.startswith("_")
    }


@pytest.mark.parametrize("name", ["Agent", "AgentSession", "AgentTurn", "Session", "Turn"])
def test_bindings_have_the_same_names(name: str) -> None:
    threads, loops = calls(getattr(acp_sync, name)), calls(getattr(acp_anyio, name))
    for only in OF_A_COLOUR.get(name, ()):
        threads.pop(only)
    assert threads == loops


def test_bindings_take_the_same_options() -> None:
    (threads, loops) = (
        {ast.unparse(node.target) for node in ast.walk(tree(ROOT / package / "options.py")) if is_field(node)}
        for package in ("acp_sync", "acp_anyio")
    )
    assert threads == loops == OWN_CODE - {"permissions"}


def is_field(node: ast.AST) -> TypeGuard[ast.AnnAssign]:
    return isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) != "TypeAlias"


# ── Names of the wire ───────────────────────────────────────────────────────────────────────────────────────────────


def strings(path: Path) -> Iterator[ast.Constant]:
    """Every string of a file that is no docstring."""
    docs = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docs.add(node.value)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs:
            yield node


def speaks_wire(path: Path) -> bool:
    inside = path.relative_to(ROOT).parts
    return path.name == "methods.py" or "schema" in inside or "examples" in inside


@pytest.mark.parametrize("package", ["acp_core", "acp_anyio", "acp_sync"])
def test_wire_names_stand_in_the_method_table_only(package: str) -> None:
    """So that a table with other names works unchanged. Names that are keys too, such as initialize, are free."""
    keys = {row.key for row in V1}
    wires = {row.wire for row in V1} - keys
    assert len(wires) > 20
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value!r}"
        for path, _ in files(package)
        if not speaks_wire(path)
        for node in strings(path)
        for wire in wires
        if node.value == wire or f'"{wire}"' in str(node.value)
    ]
    assert found == []


# ── States ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def assignments(path: Path) -> Iterator[tuple[str, ast.Attribute, ast.expr | None]]:
    """Every assignment to an attribute: the function it stands in, the target and the value."""
    for function in ast.walk(tree(path)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                pairs = [(target, node.value) for target in node.targets]
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
                pairs = [(node.target, node.value)] if node.value is not None else []
            else:
                continue
            for target, value in pairs:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(part, ast.Attribute):
                        yield function.name, part, value


def test_states_move_through_the_tables_only() -> None:
    moved = 0
    for path in sorted(CORE.glob("*.py")):
        for function, target, value in assignments(path):
            if target.attr not in ("state", "_state") or function == "__init__":
                continue
            where = f"{path.name}:{target.lineno}"
            assert isinstance(value, ast.Call), where
            assert ast.unparse(value.func) == "move", where
            moved += 1
    assert moved > 10


def choices(node: ast.expr) -> Iterator[ast.expr]:
    """The values that an expression can have, as far as it says so itself."""
    if isinstance(node, ast.IfExp):
        yield from choices(node.body)
        yield from choices(node.orelse)
    else:
        yield node


def moves() -> Iterator[str]:
    """Every literal event that the code walks."""
    for path in sorted(CORE.glob("*.py")):
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call) or path.stem == "state":
                continue
            name = ast.unparse(node.func)
            if name in ("move", "allows"):
                event = node.args[2]
            elif name.endswith(".move"):
                event = node.args[0]
            else:
                continue
            for part in choices(event):
                if isinstance(part, ast.Constant):
                    yield str(part.value)


def test_code_and_tables_know_the_same_events() -> None:
    """No event that no table has, and no row of a table that no code walks."""
    known = {event for table in TABLES.values() for row in table.values() for event in row}
    assert set(moves()) <= known
    # Events that reach a table through a variable stand in the code as strings too.
    said = {str(node.value) for path in CORE.glob("*.py") if path.stem != "state" for node in strings(path)}
    assert known <= said


@pytest.mark.parametrize("name", TABLES)
def test_every_state_can_be_reached(name: str) -> None:
    """From the first row of its table, which is where a thing of its kind begins."""
    table = TABLES[name]
    reached, new = set[str](), {next(iter(table))}
    while new:
        reached |= new
        new = {target for state in new for target in table[state].values()} - reached
    assert reached == table.keys()
