"""Every benchmark runs, at a size that says nothing about speed: the table cannot rot."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import fresh, huge, idle, measuring, peers, scale, traffic
from benchmarks.features import FEATURES, Feature, edited
from benchmarks.page import insert
from benchmarks.rows import Figure, Ratio, Row
from benchmarks.table import ROWS, pick

ROOT = Path(__file__).resolve().parent.parent
TINY = 0.0005


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_gives_a_number(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (huge, idle, peers):
        monkeypatch.setattr(module, "in_fresh_process", fresh.call)
    if isinstance(row, Ratio):
        [found] = measuring.measure_ratios([row], 1, TINY)
        assert [value for value in found.values if not value > 0] == []
        assert found.floor > 0
    else:
        assert isinstance(row, Figure)
        figure = row.take(TINY)
        assert (figure is None) == (bool(row.program) and not peers.typescript())
        assert figure is None or math.isfinite(figure)


def test_names_and_bars() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.name for row in pick(["R3", "H1.image"])} == {
        *(row.name for row in ROWS if row.name.startswith("R3.")),
        "H1.image",
    }
    with pytest.raises(SystemExit, match="no row is called X9"):
        pick(["X9"])
    at_most, at_least = Row("a", "", 2.0), Row("b", "", 2.0, at_least=True)
    assert [at_most.ok(value) for value in (1.9, 2.0, 2.1)] == [True, True, False]
    assert [at_least.ok(value) for value in (1.9, 2.0, 2.1)] == [False, True, True]


@pytest.mark.parametrize(
    ("name", "bytes_of_a_line"),
    [("chunks", 244), ("other_chunks", 246), ("tools", 11_500), ("permissions", 485), ("results", 64), ("mixed", 1162)],
)
def test_the_traffic_is_what_it_says(name: str, bytes_of_a_line: int) -> None:
    make = getattr(traffic, name)
    lines = make(1000)
    assert lines == make(1000)
    assert sum(map(len, lines)) / len(lines) == pytest.approx(bytes_of_a_line, rel=0.05)
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in lines)


def test_the_command_prints_a_table_and_stores_it(tmp_path: Path) -> None:
    stored, plot, page = (tmp_path / name for name in ("found.json", "plot.svg", "page.md"))
    page.write_text("before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n")
    files = ["--json", str(stored), "--plot", str(plot), "--page", str(page)]
    out = run("benchmarks", "--only", "R1,M3", "--rounds", "1", "--size", "0.001", *files)
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["R1", "M3"]
    found = json.loads(stored.read_text())
    assert found["M3"] == {"median": 0.0, "bar": 0, "at_least": False, "ok": True}
    assert found["R1"]["bar"] == 0.9
    assert found["R1"]["ok"] == (found["R1"]["median"] <= 0.9)
    assert "R1" in plot.read_text()
    assert ElementTree.parse(plot).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    before, *table, after = page.read_text().splitlines()
    assert (before, after) == ("before", "after")
    assert [row.split("|")[1].strip() for row in table if row.startswith("|")] == ["row", "---", "R1", "M3"]
    assert "old" not in table


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no <!-- measured -->"):
        insert("text\n", "table\n")


@pytest.mark.parametrize("row", scale.ROWS, ids=lambda row: row.name)
def test_every_row_of_the_scale_gives_a_number(row: Row) -> None:
    [found] = measuring.measure([row], 1, TINY)
    assert found.median is not None and math.isfinite(found.median)


def test_instructions_name_what_they_cannot_count() -> None:
    command = [sys.executable, "-m", "benchmarks.instructions", "HEAD", "I1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "valgrind is not installed" in done.stderr or "none of I1 can be counted; these can: R1" in done.stderr


def test_a_figure_from_a_process_of_its_own() -> None:
    assert 0 < fresh.in_fresh_process("huge", "peak_growth", 2, 65536) < 20


def test_a_counted_process_forks_twice_for_an_arm(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"\n".join(traffic.chunks(3)))
    arm = ["benchmarks.receiving", "receive", str(lines)]
    assert len(set(run("benchmarks.counted", *arm, *arm).split())) == 4


def run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: f"{feature.rows[0]} {feature.name}")
def test_a_feature_that_is_left_out_is_there(feature: Feature) -> None:
    compile(edited(feature), feature.file, "exec")
    assert all(isinstance(row, Ratio) for row in pick(feature.rows))
