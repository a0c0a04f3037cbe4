"""The append-only ledger: what has to be said so that the reader has the whole text, or why it cannot be (M1 to M9)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_core import LocalProtocolError, StreamConflict, StreamGap, StreamRevision, TextLedger
from acp_core.projection import utf16_length

# Letters that differ in every encoding: one, two, three bytes, a surrogate pair, a combining mark, a lone surrogate.
LETTERS = "ab é€😀𝒳\u0301\ud800\n"
TEXTS = st.text(LETTERS, max_size=12)
KINDS = st.sampled_from(["message", "thought", "user"])
IDS = st.sampled_from(["m1", "m2", None])


# ── One rule after the other ────────────────────────────────────────────────────────────────────────────────────────


def test_M1_kinds_and_ids_are_streams_of_their_own_and_clear_begins_anew() -> None:
    ledger = TextLedger()
    assert ledger.delta("message", "m", "text") == "text"
    assert ledger.snapshot("thought", "m", "thought") == "thought"
    assert ledger.snapshot("message", "n", "other") == "other"
    assert ledger.snapshot("message", "m", "text!") == "!"
    assert ledger.text("thought", "m") == "thought"
    ledger.clear()
    assert ledger.text("message", "m") is None
    assert ledger.snapshot("message", "m", "quite another") == "quite another"


def test_M3_the_same_says_nothing_and_a_longer_text_says_its_rest() -> None:
    ledger = TextLedger()
    assert ledger.snapshot("message", "m", "") == ""
    assert ledger.delta("message", "m", "he") == "he"
    assert ledger.delta("message", "m", "llo") == "llo"
    assert ledger.snapshot("message", "m", "hello") == ""
    assert ledger.snapshot("message", "m", "hello you") == " you"
    assert ledger.text("message", "m") == "hello you"


@pytest.mark.parametrize("now", ["olD", "ol", "", "xold", "Old and more"])
def test_M3_a_changed_shortened_or_cleared_text_is_a_revision(now: str) -> None:
    ledger = TextLedger()
    ledger.delta("message", "m", "old")
    with pytest.raises(StreamRevision) as found:
        ledger.snapshot("message", "m", now)
    assert (found.value.kind, found.value.message_id) == ("message", "m")
    assert (found.value.said, found.value.now) == (3, len(now))
    assert found.value.rule == "text.revision"


def test_M4_a_whole_text_that_comes_first_is_one_piece() -> None:
    assert TextLedger().snapshot("message", "m", "all of it") == "all of it"


def test_M5_a_delta_with_an_offset_says_what_sticks_out() -> None:
    ledger = TextLedger()
    assert ledger.delta("message", "m", "hello", 0) == "hello"
    assert ledger.delta("message", "m", "ell", 1) == ""
    assert ledger.delta("message", "m", "lo you", 3) == " you"
    assert ledger.delta("message", "m", "!", 9) == "!"
    assert ledger.delta("message", "m", "", 10) == ""
    assert ledger.text("message", "m") == "hello you!"


def test_M6_a_gap_and_a_conflict_are_no_revision_and_change_nothing() -> None:
    ledger = TextLedger()
    ledger.delta("message", "m", "hello")
    with pytest.raises(StreamGap) as gap:
        ledger.delta("message", "m", "x", 6)
    with pytest.raises(StreamConflict) as conflict:
        ledger.delta("message", "m", "lx", 3)
    assert not isinstance(gap.value, StreamRevision) and not isinstance(conflict.value, StreamRevision)
    assert (gap.value.rule, conflict.value.rule) == ("text.gap", "text.conflict")
    assert ledger.delta("message", "m", "lo!", 3) == "!"


def test_M8_a_revision_sticks_and_leaves_the_text_as_it_was() -> None:
    ledger = TextLedger()
    ledger.delta("message", "m", "old")
    with pytest.raises(StreamRevision) as first:
        ledger.snapshot("message", "m", "new")
    assert ledger.text("message", "m") == "old"
    calls: list[Callable[[], object]] = [
        lambda: ledger.delta("message", "m", " and on"),
        lambda: ledger.snapshot("message", "m", "old"),
        lambda: ledger.delta("thought", "other", "x", 0),
    ]
    for again in calls:
        with pytest.raises(StreamRevision) as later:
            again()
        assert later.value is first.value
    assert ledger.text("message", "m") == "old"
    ledger.clear()
    assert ledger.delta("message", "m", "new") == "new"


def test_missing_asks_without_a_change() -> None:
    ledger = TextLedger()
    ledger.add("message", "m", "old")
    with pytest.raises(StreamRevision):
        ledger.missing("message", "m", snapshot="new")
    assert ledger.revision is None
    assert ledger.missing("message", "m", snapshot="older") == "er"
    assert ledger.missing("message", "m", delta="der", offset=2) == "er"
    assert ledger.text("message", "m") == "old"


def test_M9_a_transcript_is_compared_thought_first() -> None:
    ledger = TextLedger()
    ledger.delta("thought", "m1", "hm")
    ledger.delta("message", "m1", "he")
    assert ledger.recover([("m1", "hmm", "hello"), ("m2", None, "more")]) == [
        ("thought", "m1", "m"),
        ("message", "m1", "llo"),
        ("message", "m2", "more"),
    ]


def test_M9_a_thought_that_the_transcript_has_not_counts_as_empty() -> None:
    ledger = TextLedger()
    ledger.delta("thought", "m1", "hm")
    with pytest.raises(StreamRevision) as found:
        ledger.recover([("m1", None, "hello")])
    assert found.value.kind == "thought"
    assert ledger.text("message", "m1") is None


def test_M68_a_seed_says_nothing_and_is_compared_with() -> None:
    ledger = TextLedger()
    ledger.seed("message", "m", "from before")
    assert ledger.snapshot("message", "m", "from before, and now") == ", and now"
    ledger.seed("message", "m", "again")
    assert ledger.text("message", "m") == "again"
    assert ledger.size == TextLedger().size + 64 + 1 + 5


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"delta": "a", "snapshot": "b"}, TypeError),
        ({"snapshot": "b", "offset": 1}, TypeError),
        ({}, TypeError),
        ({"delta": 3}, TypeError),
        ({"delta": "a", "offset": 1.0}, TypeError),
        ({"delta": "a", "offset": True}, TypeError),
        ({"delta": "a", "offset": -1}, LocalProtocolError),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        TextLedger().missing("message", "m", **arguments)  # type: ignore[arg-type]  # wrong on purpose


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        TextLedger().delta("tool", "m", "x")
    with pytest.raises(TypeError):
        TextLedger().delta("message", 1, "x")  # type: ignore[arg-type]  # wrong on purpose


# ── UTF-16 ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None)
@given(st.lists(st.text(LETTERS, max_size=5), max_size=8), st.booleans())
def test_utf16_offsets_are_what_an_encoder_says(pieces: list[str], ask_between: bool) -> None:
    ledger = TextLedger()
    for piece in pieces:
        ledger.delta("message", "m", piece)
        if ask_between:
            ledger.from_utf16("message", "m", 0)
    text = "".join(pieces)
    places = {len(text[:index].encode("utf-16-le", "surrogatepass")) // 2: index for index in range(len(text) + 1)}
    end = max(places)
    assert utf16_length(text) == end
    for units in range(end + 1):
        if units in places:
            assert ledger.from_utf16("message", "m", units) == places[units]
        else:
            with pytest.raises(StreamConflict):
                ledger.from_utf16("message", "m", units)
    # Past the end it is a gap, whatever lies there.
    assert ledger.from_utf16("message", "m", end + 3) == len(text) + 3
    with pytest.raises(LocalProtocolError):
        ledger.from_utf16("message", "m", -1)


@pytest.mark.parametrize("around", range(-2, 3))
def test_utf16_offsets_in_a_text_of_many_blocks(around: int) -> None:
    text = ("a" * 1023 + "😀") * 5 + "end"
    ledger = TextLedger()
    ledger.delta("message", "m", text)
    for block in range(1, 6):
        units = block * 1025 + around
        if around == -1:
            with pytest.raises(StreamConflict):
                ledger.from_utf16("message", "m", units)
        else:
            points = text.encode("utf-16-le")[: 2 * units].decode("utf-16-le")
            assert ledger.from_utf16("message", "m", units) == len(points)


# ── The bound ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_at_the_bound_all_is_known_and_past_it_the_oldest_is_forgotten() -> None:
    ledger = TextLedger(max_size=2 * (64 + 1) + 10)
    ledger.delta("message", "a", "12345")
    ledger.delta("message", "b", "12345")
    assert (ledger.forgotten, ledger.size) == (0, 140)
    ledger.delta("message", "b", "6")
    assert (ledger.forgotten, ledger.text("message", "a"), ledger.text("message", "b")) == (1, None, "123456")
    calls: list[Callable[[], object]] = [
        lambda: ledger.snapshot("message", "a", "12345"),
        lambda: ledger.delta("message", "a", "5", 4),
    ]
    for wrong in calls:
        with pytest.raises(LocalProtocolError) as found:
            wrong()
        assert found.value.rule == "text.forgotten"
    # Plain deltas go on, also where it cannot be told what came before.
    assert ledger.delta("message", "a", "6") == "6"
    assert ledger.delta("message", "c", "new") == "new"
    with pytest.raises(LocalProtocolError):
        ledger.snapshot("message", "c", "new")


def test_one_text_past_the_bound_is_forgotten_itself() -> None:
    ledger = TextLedger(max_size=64 + 1 + 10)
    assert ledger.delta("message", "m", "1234567890") == "1234567890"
    assert ledger.forgotten == 0
    assert ledger.delta("message", "m", "x") == "x"
    assert (ledger.forgotten, ledger.size) == (1, 65)
    assert ledger.delta("message", "m", "y") == "y"
    assert (ledger.forgotten, ledger.size) == (1, 65)
    with pytest.raises(LocalProtocolError):
        ledger.snapshot("message", "m", "1234567890xy")
    with pytest.raises(LocalProtocolError):
        ledger.from_utf16("message", "m", 1)


# ── Any interleaving ────────────────────────────────────────────────────────────────────────────────────────────────

STEPS = st.lists(
    st.tuples(
        KINDS,
        IDS,
        st.sampled_from(["delta", "offset", "gap", "snapshot", "replay", "shorter", "other", "recover"]),
        TEXTS,
        st.integers(0, 30),
    ),
    max_size=30,
)


@settings(max_examples=500, deadline=None)
@given(STEPS)
def test_what_was_said_is_always_a_prefix_of_what_the_source_said(
    steps: list[tuple[str, str | None, str, str, int]],
) -> None:
    """A model that knows only: pieces are appended to what the reader has."""
    ledger = TextLedger()
    reader: dict[tuple[str, str | None], str] = {}
    revised = False
    for kind, message_id, what, text, number in steps:
        key = (kind, message_id)
        had = reader.get(key, "")
        said: str | None = None
        piece = ""
        error: type[Exception] | None = None
        try:
            if what == "delta":
                said = had + text
                piece = ledger.delta(kind, message_id, text)
            elif what == "offset":
                start = number % (len(had) + 1)
                # What the source says from there on: all of what was said, or a part of it, then perhaps more.
                claimed = had[start:] + text if number % 2 else (had[start:] + text)[: number // 2]
                said = had if len(claimed) < len(had) - start else had[:start] + claimed
                piece = ledger.delta(kind, message_id, claimed, start)
            elif what == "gap":
                piece = ledger.delta(kind, message_id, text, len(had) + 1 + number)
            elif what == "snapshot":
                said = had + text
                piece = ledger.snapshot(kind, message_id, said)
            elif what == "replay":
                said = had
                piece = ledger.snapshot(kind, message_id, had)
            elif what == "shorter":
                said = had[: number % (len(had) + 1)]
                piece = ledger.snapshot(kind, message_id, said)
            elif what == "other":
                said = text
                piece = ledger.snapshot(kind, message_id, text)
            else:
                said = had
                pieces = ledger.recover([(message_id, reader.get(("thought", message_id)), text)])
                for found_kind, found_id, found in pieces:
                    reader[found_kind, found_id] = reader.get((found_kind, found_id), "") + found
                said = reader.get(key, "")
        except LocalProtocolError as why:
            error = type(why)
        if error is not None:
            assert error in (StreamRevision, StreamGap)
            assert error is StreamGap or what in ("shorter", "other", "recover") or revised
            revised = revised or error is StreamRevision
            assert (ledger.revision is not None) == revised
        else:
            assert not revised, "after a revision nothing is said"
            reader[key] = reader.get(key, "") + piece
            assert said is not None and reader[key] == said
        for (some_kind, some_id), whole in reader.items():
            assert (ledger.text(some_kind, some_id) or "") == whole


# ── Cost ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _stream(count: int, letter: str) -> float:
    """Seconds of the source that is worst for a ledger: each delta twice, at its offset in UTF-16."""
    ledger = TextLedger()
    start = process_time()
    size = len(letter.encode("utf-16-le")) // 2
    for index in range(count):
        for _ in range(2):
            offset = ledger.from_utf16("message", "m", index * size)
            ledger.delta("message", "m", letter, offset)
        # And an old one again.
        ledger.delta("message", "m", letter, ledger.from_utf16("message", "m", index // 2 * size))
    assert ledger.text("message", "m") == letter * count
    return process_time() - start


@pytest.mark.parametrize("letter", ["a", "😀"])
def test_time_is_linear(letter: str) -> None:
    _stream(500, letter)
    small = min(_stream(2_000, letter) for _ in range(3))
    large = min(_stream(16_000, letter) for _ in range(3))
    # Quadratic would be 64 times.
    assert large < 24 * small + 0.02


def test_memory_is_linear() -> None:
    tracemalloc.start()
    try:
        ledger = TextLedger()
        for index in range(20_000):
            ledger.delta("message", "m", f"{index:9}|", index * 10)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used < 10 * 20_000 * 20


def test_a_shorter_snapshot_costs_nothing() -> None:
    ledger = TextLedger()
    for _ in range(20_000):
        ledger.delta("message", "m", "x" * 100)
    start = process_time()
    for _ in range(1_000):
        with pytest.raises(StreamRevision):
            ledger.missing("message", "m", snapshot="x")
    assert process_time() - start < 0.5
