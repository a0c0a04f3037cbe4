"""Files below the roots: what is read and written, and that no path leads out."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from acp_core import LocalProtocolError, RequestError
from acp_core.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND
from acp_sync.workspace import Files, files
from tests.spec.requirements import requirement

SECRET = "outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root, and beside it a file that nobody may reach."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "root" / "sub").mkdir(parents=True)
    return tmp_path / "root"


def code(call: Callable[[], object]) -> int:
    with pytest.raises(RequestError) as caught:
        call()
    # For programs, as every error that the library answers by itself.
    data = caught.value.data
    assert isinstance(data, dict) and {*data} == {"field", "reason"}
    return caught.value.code


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_read_as_it_stands(root: Path) -> None:
    (root / "a").write_bytes("eins\r\nzwei\n\ndrei é".encode())
    assert Files([root]).read(str(root / "a")) == "eins\r\nzwei\n\ndrei é"
    (root / "empty").touch()
    assert Files([root]).read(str(root / "empty")) == ""


@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (1, None, "1\n2\n3"),
        (2, None, "2\n3"),
        (None, 2, "1\n2\n"),
        (2, 1, "2\n"),
        (3, 5, "3"),
        (4, None, ""),
        (2**32 - 1, 2**32 - 1, ""),
        (1, 0, ""),
        (0, 1, "1\n"),
    ],
)
def test_lines_count_from_one(root: Path, line: int | None, limit: int | None, expected: str) -> None:
    (root / "a").write_text("1\n2\n3")
    assert Files([root]).read(str(root / "a"), line, limit) == expected


def test_what_is_too_long_is_asked_for_in_parts(root: Path) -> None:
    (root / "a").write_text("12345\n" * 3)
    kept = Files([root], max_bytes=17)
    path = str(root / "a")
    assert code(lambda: kept.read(path)) == INVALID_PARAMS
    assert code(lambda: kept.read(path, limit=3)) == INVALID_PARAMS
    assert kept.read(path, limit=2) == "12345\n" * 2
    assert Files([root], max_bytes=18).read(path) == "12345\n" * 3
    # A long line that is only skipped costs nothing.
    (root / "b").write_text("x" * 200_000 + "\nshort\n")
    assert kept.read(str(root / "b"), 2) == "short\n"


def test_what_is_no_text_file_is_refused(root: Path) -> None:
    (root / "a").write_bytes(b"\xff\xfe")
    os.mkfifo(root / "pipe")
    served = Files([root])
    assert code(lambda: served.read(str(root / "a"))) == INVALID_PARAMS
    assert code(lambda: served.read(str(root / "pipe"))) == INVALID_PARAMS
    assert code(lambda: served.read(str(root / "sub"))) == INVALID_PARAMS
    assert code(lambda: served.read(str(root))) == INVALID_PARAMS
    assert code(lambda: served.read(str(root / "none"))) == RESOURCE_NOT_FOUND
    assert code(lambda: served.read(str(root / "none" / "deeper"))) == RESOURCE_NOT_FOUND
    assert code(lambda: served.read(str(root / "a" / "deeper"))) == RESOURCE_NOT_FOUND


# ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(99)
def test_a_missing_file_is_made_with_its_directories(root: Path) -> None:
    served = Files([root])
    served.write(str(root / "new" / "deep" / "a"), "é\r\n")
    assert (root / "new" / "deep" / "a").read_bytes() == "é\r\n".encode()
    deep = root.joinpath(*["d"] * 100, "a")
    served.write(str(deep), "far down")
    assert deep.read_text() == "far down"


def test_a_file_is_written_in_place(root: Path) -> None:
    (root / "a").write_text("a long text")
    (root / "a").chmod(0o700)
    before = (root / "a").stat()
    Files([root]).write(str(root / "a"), "short")
    after = (root / "a").stat()
    assert (root / "a").read_text() == "short"
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_what_cannot_be_written_is_refused_and_changes_nothing(root: Path) -> None:
    (root / "a").write_text("12345")
    served = Files([root], max_bytes=5)
    assert code(lambda: served.write(str(root / "a"), "123456")) == INVALID_PARAMS
    assert code(lambda: served.write(str(root / "a"), "\ud800")) == INVALID_PARAMS
    assert (root / "a").read_text() == "12345"
    served.write(str(root / "a"), "54321")
    for directory in (root, root / "sub"):
        assert code(lambda: served.write(str(directory), "")) == INVALID_PARAMS  # noqa: B023 # called at once
    os.mkfifo(root / "pipe")
    assert code(lambda: served.write(str(root / "pipe"), "")) == INVALID_PARAMS
    assert code(lambda: served.write(str(root / "a" / "b"), "")) == RESOURCE_NOT_FOUND


# ── No way out ──────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(69)
def test_paths_that_lead_out_are_refused(root: Path) -> None:
    served = Files([root])
    (root.parent / "root2").mkdir()
    (root.parent / "root2" / "a").write_text(SECRET)
    for path in (
        "a",
        "",
        "sub/../a",
        "/etc/passwd",
        str(root.parent / "secret"),
        f"{root}/../secret",
        f"{root}/sub/../../secret",
        f"{root}/sub/./..//../secret",
        f"{root}2/a",
        f"{root}/a\0",
    ):
        assert code(partial(served.read, path)) == INVALID_PARAMS, path
        assert code(partial(served.write, path, "x")) == INVALID_PARAMS, path
    assert (root.parent / "secret").read_text() == SECRET
    assert code(lambda: served.read(str(root))) < 0


def test_links_inside_are_followed(root: Path) -> None:
    (root / "sub" / "a").write_text("inside")
    (root / "relative").symlink_to("sub/a")
    (root / "absolute").symlink_to(root / "sub" / "a")
    (root / "directory").symlink_to("sub")
    (root / "sub" / "back").symlink_to("../sub/./a")
    (root / "chain").symlink_to("relative")
    (root / "dangling").symlink_to("sub/made")
    served = Files([root])
    for path in ("relative", "absolute", "directory/a", "sub/back", "chain", "directory/../sub/a"):
        assert served.read(str(root / path)) == "inside", path
    served.write(str(root / "dangling"), "made")
    assert (root / "sub" / "made").read_text() == "made"
    assert (root / "dangling").is_symlink()


@requirement(69)
def test_links_that_lead_out_are_refused(root: Path) -> None:
    (root / "file").symlink_to(root.parent / "secret")
    (root / "relative").symlink_to("../secret")
    (root / "up").symlink_to("..")
    (root / "sub" / "up").symlink_to("../..")
    (root / "abroad").symlink_to("/etc")
    (root / "dangling").symlink_to(root.parent / "made")
    (root / "chain").symlink_to("file")
    served = Files([root])
    for path in ("file", "relative", "up/secret", "sub/up/secret", "abroad/passwd", "dangling", "chain"):
        assert code(partial(served.read, str(root / path))) == INVALID_PARAMS, path
        assert code(partial(served.write, str(root / path), "x")) == INVALID_PARAMS, path
    assert (root.parent / "secret").read_text() == SECRET
    assert not (root.parent / "made").exists()


def test_a_circle_of_links_ends(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    (root / "self").symlink_to("self/x")
    served = Files([root])
    assert code(lambda: served.read(str(root / "a"))) < 0
    assert code(lambda: served.write(str(root / "self"), "x")) < 0


def test_several_roots_and_links_between_them(root: Path) -> None:
    other = root.parent / "other"
    other.mkdir()
    (other / "a").write_text("over there")
    (root / "over").symlink_to(other / "a")
    assert Files([root, other]).read(str(root / "over")) == "over there"
    assert Files([other, root]).read(str(other / "a")) == "over there"
    assert code(lambda: Files([root]).read(str(root / "over"))) == INVALID_PARAMS


def test_a_root_may_be_named_by_a_link(root: Path) -> None:
    (root / "a").write_text("inside")
    alias = root.parent / "alias"
    alias.symlink_to(root)
    served = Files([alias])
    assert served.read(str(alias / "a")) == served.read(str(root / "a")) == "inside"
    assert served.roots == (str(root.resolve()),)


def test_the_outer_of_two_roots_counts(root: Path) -> None:
    (root / "a").write_text("inside")
    assert Files([root / "sub", root]).read(f"{root}/sub/../a") == "inside"


@pytest.mark.parametrize("swapped", ["sub", "a"])
def test_a_swap_under_the_walk_leads_nowhere(root: Path, swapped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory, or the file, becomes a link to the outside just before the step that goes through it."""
    (root / "sub" / "a").write_text("inside")
    (root.parent / "evil").mkdir()
    (root.parent / "evil" / "a").write_text(SECRET)
    opened = os.open
    steps: list[str] = []

    def swap(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "a" and not steps:
            steps.append(path)
            target = root / "sub" if swapped == "sub" else root / "sub" / "a"
            target.rename(target.with_name("moved"))
            target.symlink_to(root.parent / "evil" if swapped == "sub" else root.parent / "secret")
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap)
    monkeypatch.setattr(files, "RELATIVE", True)
    served = Files([root])
    path = str(root / "sub" / "a")
    if swapped == "sub":
        # The walk is in the directory that it was in: its file is read, wherever it stands now.
        assert served.read(path) == "inside"
    else:
        assert code(lambda: served.read(path)) == INVALID_PARAMS
    assert steps


def test_where_the_os_knows_only_whole_paths(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RELATIVE", False)
    (root / "sub" / "a").write_text("inside")
    (root / "link").symlink_to("sub/a")
    (root / "out").symlink_to(root.parent / "secret")
    served = Files([root])
    assert served.read(str(root / "link")) == "inside"
    served.write(str(root / "new" / "b"), "made")
    assert (root / "new" / "b").read_text() == "made"
    for path in (str(root / "out"), f"{root}/../secret", str(root)):
        assert code(partial(served.read, path)) == INVALID_PARAMS, path


def test_nothing_stays_open(root: Path) -> None:
    (root / "sub" / "a").write_text("inside")
    (root / "link").symlink_to("sub/../sub/a")
    served = Files([root])
    before = len(os.listdir("/dev/fd"))
    for _ in range(50):
        served.read(str(root / "link"))
        served.write(str(root / "sub" / "b"), "x")
        code(lambda: served.read(f"{root}/sub/../../secret"))
        code(lambda: served.read(str(root / "sub")))
    assert len(os.listdir("/dev/fd")) == before


def test_directories_for_commands(root: Path) -> None:
    (root / "link").symlink_to("sub")
    (root / "out").symlink_to("..")
    served = Files([root])
    assert served.directory(str(root / "link")) == str((root / "sub").resolve())
    assert served.directory(str(root)) == str(root.resolve())
    assert code(lambda: served.directory(str(root / "out"))) == INVALID_PARAMS
    assert code(lambda: served.directory("/")) == INVALID_PARAMS
    assert code(lambda: served.directory(str(root / "none"))) == RESOURCE_NOT_FOUND


def test_what_is_no_root(root: Path) -> None:
    for roots in ([], [root / "none"], [root.parent / "secret"]):
        with pytest.raises(LocalProtocolError):
            Files(roots)
    with pytest.raises(LocalProtocolError):
        Files([root], max_bytes=0)
