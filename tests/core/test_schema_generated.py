"""The generated files are fresh, the stored schema holds facts only, and importing all this costs next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import acp_core.schema
from acp_core.schema import build, v1, v1_table, v1_table_unstable, v1_types, v1_unstable, v1_unstable_types, validation
from tests.tools import generate_schema, strip_schema
from tests.tools.schema_model import ABSOLUTE, ALIASES, DECODER_DEFAULTS, ONE_BASED, load

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "spec" / "data"


def test_generated_files_are_fresh() -> None:
    assert generate_schema.main(["--check"]) == 0


def test_check_notices_a_stale_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_schema, "TARGET", tmp_path)
    assert generate_schema.main(["--check"]) == 1
    assert "v1_table.py is not fresh" in capsys.readouterr().err
    assert generate_schema.main([]) == 0
    assert generate_schema.main(["--check"]) == 0
    for name in ("v1.py", "v1_types.py", "v1_table.py", "v1_unstable.py", "v1_unstable_types.py"):
        assert (tmp_path / name).read_bytes() == (ROOT / "acp_core" / "schema" / name).read_bytes()
    with pytest.raises(SystemExit):
        generate_schema.main(["one path"])


def words(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield str(key)
            yield from words(value)
    elif isinstance(node, list):
        for value in node:
            yield from words(value)
    elif isinstance(node, str):
        yield node


@pytest.mark.parametrize("name", strip_schema.SCHEMAS)
def test_stored_schema_has_no_sentence(name: str) -> None:
    schema = json.loads((DATA / name).read_text(encoding="utf-8"))
    assert not [word for word in words(schema) if " " in word or "\n" in word]
    # As property names the words stay.
    assert "title" in schema["$defs"]["ToolCall"]["properties"]
    assert "description" in schema["$defs"]["AvailableCommand"]["properties"]


def test_stripping_keeps_facts_and_is_settled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (*strip_schema.SCHEMAS, *strip_schema.METAS):
        node = json.loads((DATA / name).read_text(encoding="utf-8"))
        if name in strip_schema.SCHEMAS:
            assert strip_schema.strip(node) == node
            node = {"title": "Some prose.", "description": "More prose.", **node}
        (tmp_path / name).write_text(json.dumps(node), encoding="utf-8")
    assert strip_schema.main([str(tmp_path), "--check"]) == 0
    (tmp_path / "v1.meta.json").write_text("{}", encoding="utf-8")
    assert strip_schema.main([str(tmp_path), "--check"]) == 1
    assert "v1.meta.json" in capsys.readouterr().err


def test_stripped_copies_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(strip_schema, "DATA", tmp_path / "new")
    assert strip_schema.main([str(DATA)]) == 0
    for name in (*strip_schema.SCHEMAS, *strip_schema.METAS):
        assert (tmp_path / "new" / name).read_bytes() == (DATA / name).read_bytes()


def test_facts_beside_the_schema_name_fields_that_exist() -> None:
    model = load(DATA / "v1.schema.unstable.json", DATA / "v1.meta.unstable.json")
    fields = {
        f"{name}.{row[0]}"
        for name, kind in model.types.items()
        if isinstance(kind, tuple) and kind[0] == "o" and isinstance(kind[1], tuple)
        for row in kind[1]
    }
    assert ABSOLUTE | ONE_BASED | DECODER_DEFAULTS.keys() <= fields
    assert {f"{name}.{row[0]}" for name, rows in ALIASES.items() for row in rows} <= fields


def test_defaults_of_objects_follow_from_their_fields() -> None:
    """The table keeps no nested default, so the official ones must be what an empty object reads as."""
    defs = json.loads((DATA / "v1.schema.json").read_text(encoding="utf-8"))["$defs"]
    checked = 0
    for definition in defs.values():
        for field in definition.get("properties", {}).values():
            if isinstance(field.get("default"), dict) and "allOf" in field:
                name = field["allOf"][0]["$ref"].rsplit("/", 1)[1]
                assert validation.read_type(name, {}) == (field["default"], ())
                checked += 1
    assert checked >= 7


def test_counts_of_the_protocol() -> None:
    """25 stable methods, 17 in draft, 11 kinds of update (spec.md 1.1, 1.2, 2.1)."""
    assert len(v1_table.METHODS) == 25
    assert len(v1_table_unstable.METHODS) == 17
    kind = v1_table.TYPES["SessionUpdate"]
    assert len(kind[2]) == 11  # type: ignore[arg-type]  # a tagged union has its variants there


def fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_stays_free_of_typing() -> None:
    """Builders and validation do not pull in what the core must not; only a look at a TypedDict does."""
    code = (
        "import sys\n"
        "from acp_core.schema import build, v1, v1_unstable, validation\n"
        "validation.validate('session/cancel', v1.session_cancel({'sessionId': 's'}).params)\n"
        "validation.read('session/update', {}, unstable=True)\n"
        "build.image(b'x', mime_type='image/png')\n"
        "print([name for name in ('typing', 'dataclasses', 'inspect', 'asyncio') if name in sys.modules])\n"
        "v1.ToolCallLocation\n"
        "print('typing' in sys.modules)\n"
    )
    assert fresh(code).splitlines() == ["[]", "True"]


def test_tables_are_loaded_on_use() -> None:
    code = (
        "import sys\n"
        "from acp_core.schema import v1, validation\n"
        "print('acp_core.schema.v1_table' in sys.modules)\n"
        "validation.validate('logout', {})\n"
        "print('acp_core.schema.v1_table' in sys.modules, 'acp_core.schema.v1_table_unstable' in sys.modules)\n"
    )
    assert fresh(code).splitlines() == ["False", "True False"]


@pytest.mark.parametrize("module", [acp_core.schema, build, v1, v1_types, v1_unstable, v1_unstable_types, validation])
def test_public_names_exist(module: ModuleType) -> None:
    names = module.__all__
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(module, name) is not None


def test_types_are_made_on_first_use() -> None:
    assert v1.ToolCallLocation is v1_types.ToolCallLocation
    assert v1_unstable.ToolCallLocation is v1_types.ToolCallLocation
    assert v1_unstable.SessionNotification is not v1.SessionNotification
    assert set(dir(v1)) == set(v1.__all__)
    assert set(dir(v1_unstable)) > set(dir(v1))
    for module in (v1, v1_unstable):
        with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
            module.Nothing  # noqa: B018  # the missing name is the point


def test_types_work_at_run_time() -> None:
    assert v1.ToolCallLocation.__required_keys__ == {"path"}
    assert v1.ToolCallLocation.__optional_keys__ == {"line", "_meta"}
    hints = typing.get_type_hints(v1.SessionUpdateToolCall)
    assert hints["sessionUpdate"] == typing.Literal["tool_call"]
    assert hints["title"] is str


@pytest.mark.parametrize("unstable", [False, True])
def test_types_and_table_have_the_same_fields(unstable: bool) -> None:
    """The TypedDicts and the validator's table come from one model; this looks at both from outside."""
    table = {**v1_table.TYPES, **(v1_table_unstable.TYPES if unstable else {})}
    module = v1_unstable_types if unstable else v1_types
    checked = 0
    for name, kind in table.items():
        cls = getattr(module, name, None)
        if cls is not None and isinstance(kind, tuple) and kind[0] == "o" and hasattr(cls, "__required_keys__"):
            assert isinstance(kind[1], tuple)
            required = {row[0] for row in kind[1] if "r" in row[1]}
            optional = {row[0] for row in kind[1]} - required
            # A class that stands for a variant of the same name has the tag as well.
            assert cls.__required_keys__ - required <= {"type"}, name
            assert cls.__optional_keys__ - optional <= set(generate_schema.TAGLESS.values()), name
            assert required <= cls.__required_keys__ and optional <= cls.__optional_keys__, name
            checked += 1
    assert checked > 80
