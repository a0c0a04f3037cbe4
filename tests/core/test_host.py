"""The adapter to a runtime host: each rule M13 to M63 that is ours, by its number (docs/host.md)."""

from __future__ import annotations

import pytest

from acp_core import LocalProtocolError, RequestError, host
from acp_core.host import (
    HostError,
    HostLimits,
    Root,
    Said,
    StartTurn,
    StopTurn,
    Transcript,
    UploadAbort,
    UploadBegin,
    UploadChunk,
    UploadCommit,
    Uploaded,
)
from tests.core.helpers import CWD, Message
from tests.core.host_rig import TEXT, Rig, link
from tests.spec.requirements import requirement

CANCELLED = {"stopReason": "cancelled"}
END_TURN = {"stopReason": "end_turn"}


# ── Text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_M13_the_next_turn_starts_once_the_revised_one_is_stopped() -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.text(turn, "old")
    rig.whole(turn, "new")
    assert rig.code(id) == (-32603, "unsupported_stream_revision")
    rig.prompt()
    assert len(rig.taken(StartTurn)) == 1
    rig.ok(StopTurn)
    assert len(rig.taken(StartTurn)) == 2


@pytest.mark.parametrize("way", ["completion", "recovery"])
def test_M13_a_revision_stops_the_exact_turn_once_and_the_session_goes_on(way: str) -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.text(turn, "old")
    if way == "completion":
        rig.whole(turn, "new")
    else:
        rig.transcript = Transcript([Said(turn, "assistant", "m", "new")])
        rig.say(host.SubscriptionLost("s1", recoverable=True))
        rig.wait(0.1)
        rig.transcript = Transcript()
    rig.text(turn, " and more")
    stop = rig.waiting(StopTurn)
    assert (stop.session_id, stop.turn_id, stop.run_id) == ("s1", turn, "run")
    rig.fail(StopTurn)
    assert rig.code(id) == (-32603, "unsupported_stream_revision")
    assert rig.texts() == [("message", "m", "old")]
    assert len(rig.taken(StopTurn)) == 1
    again, turn = rig.running()
    rig.whole(turn, "new")
    rig.finish(turn)
    assert rig.answer(again) == END_TURN
    assert len(rig.taken(host.OpenSubscription)) == (1 if way == "completion" else 2)


def test_M9_a_recovered_transcript_is_compared_thought_first() -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.text(turn, "he")
    rig.text(turn, "hm", kind="thought")
    rig.transcript = Transcript(
        [
            Said("other", "assistant", "m", "another turn's"),
            Said(turn, "user", "u", "hi"),
            Said(turn, "assistant", "m", "hello", "hmm"),
        ],
        Root(turn, "run", "completed"),
    )
    rig.say(host.SubscriptionLost("s1", recoverable=True))
    rig.wait(0.1)
    assert rig.texts()[2:] == [("thought", "m", "m"), ("message", "m", "llo")]
    assert rig.answer(id) == END_TURN


def test_M6_a_gap_is_a_failure_of_another_name() -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.say(host.TextArrived("s1", turn, "message", "m", delta="x", offset=3))
    rig.ok(StopTurn)
    answer = rig.answer(id)
    assert isinstance(answer, tuple)
    assert (answer[1]["source"], answer[1]["operation"]) == ("runtime_host", "subscription.open")
    assert rig.code(id) == (-32603, "internal_failure")


@pytest.mark.parametrize(("status", "stop_reason"), [("completed", END_TURN), ("aborted", END_TURN)])
def test_M14_an_end_that_nobody_here_asked_for_is_end_turn(status: str, stop_reason: Message) -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.finish(turn, status)
    assert rig.answer(id) == stop_reason
    assert rig.taken(StopTurn) == []


def test_M14_what_a_failed_turn_becomes_is_an_argument() -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.say(host.TurnFinished("s1", turn, "failed", "no model"))
    assert rig.code(id) == (-32603, "turn_failed")
    rig = Rig(failed_turn="end_turn")
    id, turn = rig.running()
    rig.finish(turn, "failed")
    assert rig.answer(id) == END_TURN
    with pytest.raises(LocalProtocolError):
        Rig(failed_turn="cancelled")


# ── Content and files ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "audio"},
        {"type": "resource"},
        {"type": "text"},
        {},
        "text",
    ],
)
def test_M16_only_text_and_links_are_taken(block: object) -> None:
    rig = Rig()
    rig.session()
    before = len(rig.log)
    id = rig.prompt(content=[*TEXT, block])  # type: ignore[list-item]  # wrong on purpose
    assert rig.reason(id) == (-32602, "unsupported_content_type")
    assert len(rig.log) == before


def test_M17_eight_links_are_taken_and_nine_refused() -> None:
    rig = Rig()
    rig.session()
    rig.files["/f"] = b""
    before = len(rig.log)
    id = rig.prompt(content=[link("/f")] * 9)
    assert rig.reason(id) == (-32602, "too_many_attachments")
    assert len(rig.log) == before
    # Checked first: before the type of any other block.
    assert rig.reason(rig.prompt(content=[{"type": "image"}, *[link("/f")] * 9]))[1] == "too_many_attachments"
    rig.prompt(content=[link("/f")] * 8)
    assert len(rig.taken(host.OpenFile)) == 8


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("https://example.org/a", "unsupported_resource_uri"),
        ("data:text/plain,x", "unsupported_resource_uri"),
        ("file://host/a", "unsupported_resource_uri"),
        ("file://localhost/a", "unsupported_resource_uri"),
        ("file://user@/a", "unsupported_resource_uri"),
        ("file://:80/a", "unsupported_resource_uri"),
        ("file:///a?b", "unsupported_resource_uri"),
        ("file:///a#b", "unsupported_resource_uri"),
        ("/a", "invalid_resource_uri"),
        ("", "invalid_resource_uri"),
        ("1file:///a", "invalid_resource_uri"),
        ("file:a", "invalid_resource_uri"),
        ("file://", "invalid_resource_uri"),
        ("file:///%zz", "invalid_resource_uri"),
        ("file:///%4", "invalid_resource_uri"),
        ("file:///a%2Fb", "invalid_resource_uri"),
        ("file:///a%00b", "invalid_resource_uri"),
        ("file:///%ff", "invalid_resource_uri"),
        ("file:///a\nb", "invalid_resource_uri"),
    ],
)
def test_M18_a_link_is_a_plain_local_file_uri(uri: str, reason: str) -> None:
    rig = Rig()
    rig.session()
    before = len(rig.log)
    id = rig.prompt(content=[{"type": "resource_link", "name": "x", "uri": uri}])
    assert rig.reason(id) == (-32602, reason)
    assert len(rig.log) == before


@pytest.mark.parametrize(
    ("uri", "path"),
    [("file:///a%20b", "/a b"), ("FILE:///a", "/a"), ("file:/a", "/a"), ("file:///%C3%A9", "/é"), ("file:///é", "/é")],
)
def test_M18_escapes_are_resolved(uri: str, path: str) -> None:
    assert host.local_path(uri) == path


@pytest.mark.parametrize("regular", [False, True])
def test_M19_what_is_no_regular_file_is_refused_before_a_byte_is_read(regular: bool) -> None:
    rig = Rig()
    rig.session()
    rig.files |= {"/f": host.FileFacts("/g", path="/f", name="f", regular=regular, size=0), "/g": b""}
    id = rig.prompt(content=[link("/f")])
    if regular:
        assert rig.answer(id) is None
    else:
        assert rig.reason(id) == (-32602, "resource_not_file")
        assert rig.taken(host.ReadFile) == []
        assert len(rig.taken(host.CloseFile)) == 1
    # And one that cannot be opened.
    id = rig.prompt(content=[link("/absent")])
    assert rig.reason(id) == (-32602, "resource_unreadable")


@pytest.mark.parametrize(
    ("size", "taken"), [(0, True), (50 * 1024 * 1024, True), (50 * 1024 * 1024 + 1, False), (-1, False)]
)
def test_M20_a_file_has_at_most_50_mib(size: int, taken: bool) -> None:
    rig = Rig(manual=(host.ReadFile,))
    rig.session()
    rig.files["/f"] = host.FileFacts("/f", path="/real", name="f", regular=True, size=size)
    before = len(rig.taken(host.OpenSubscription))
    id = rig.prompt(content=[link("/f")])
    if taken:
        assert rig.answer(id) is None
        assert rig.waiting(host.ReadFile).size == (48 * 1024 if size else 1)
    else:
        assert rig.reason(id) == (-32602, "resource_too_large")
        assert len(rig.taken(host.OpenSubscription)) == before


@pytest.mark.parametrize(
    ("content", "text", "display"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\n\nb", None),
        ([{"type": "text", "text": "a"}, link("/f"), {"type": "text", "text": "b"}], "a\n\nfile:///f\n\nb", "a\n\nb"),
        ([link("/f")], "file:///f", ""),
        ([], "", None),
    ],
)
def test_M21_the_model_sees_the_links_and_people_do_not(content: list[Message], text: str, display: str | None) -> None:
    found = host.map_content(content, HostLimits())
    assert (found.text, found.display_text) == (text, display)


def test_M21_a_type_that_was_found_wins_over_the_declared_one() -> None:
    rig = Rig()
    rig.session()
    rig.files["/f"] = b"x"
    rig.prompt(content=[link("/f", mimeType="text/declared")])
    assert rig.waiting(UploadBegin).mime == "text/declared"
    rig = Rig()
    rig.session()
    rig.files["/f"] = host.FileFacts("/g", path="/g", name="g", regular=True, size=1, mime="image/found")
    rig.files["/g"] = b"x"
    rig.prompt(content=[link("/f", mimeType="text/declared")])
    assert rig.waiting(UploadBegin).mime == "image/found"


@pytest.mark.parametrize(
    ("text", "taken"), [("x" * 48 * 1024, True), ("x" * (48 * 1024 + 1), False), ("é" * 24 * 1024 + "x", False)]
)
def test_M22_a_prompt_has_at_most_48_kib_of_text(text: str, taken: bool) -> None:
    rig = Rig()
    rig.session()
    before = len(rig.log)
    id = rig.prompt(content=[{"type": "text", "text": text}])
    if taken:
        assert rig.waiting(StartTurn).text == text
    else:
        assert rig.reason(id) == (-32602, "runtime_host_admission_rejected")
        assert len(rig.log) == before


def test_M22_text_and_displayed_text_have_at_most_52_kib() -> None:
    limits = HostLimits(max_text_bytes=100, max_content_bytes=27)
    content = [{"type": "text", "text": "x" * 8}, link("/f")]
    assert len(host.map_content(content, HostLimits()).text) == 19
    with pytest.raises(RequestError):
        host.map_content([{"type": "text", "text": "x" * 9}, link("/f")], limits)
    assert host.map_content(content, limits).display_text == "x" * 8


# ── Uploads ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_M23_one_step_after_the_other() -> None:
    rig = Rig(manual=(host.Connect, host.OpenSubscription, host.ReadFile))
    rig.session()
    rig.ok(host.Connect)
    rig.files |= {"/a": b"A", "/b": b"B"}
    rig.prompt(content=[*TEXT, link("/a"), link("/b")])
    steps: list[tuple[type[host.Command], object]] = [
        (host.OpenSubscription, "s"),
        *[
            step
            for data, reference in ((b"A", "ra"), (b"B", "rb"))
            for step in (
                (host.ReadFile, data),
                (host.ReadFile, b""),
                (UploadBegin, 0),
                (UploadChunk, 1),
                (UploadCommit, Uploaded(reference)),
            )
        ],
    ]
    for kind, value in steps:
        assert [type(command) for command in rig.held] == [kind]
        rig.ok(kind, value)
    start = rig.waiting(StartTurn)
    assert start.attachments == ["ra", "rb"]
    assert len(rig.taken(host.CloseFile)) == 2


@pytest.mark.parametrize(
    "at",
    [host.OpenFile, host.OpenSubscription, host.ReadTranscript, host.ReadFile, UploadBegin, UploadChunk, UploadCommit],
)
def test_M23_a_cancel_at_any_step_starts_nothing(at: type[host.Command]) -> None:
    rig = Rig(manual=(at,))
    rig.session()
    rig.files["/a"] = b"A"
    id = rig.prompt(content=[link("/a")])
    for kind, value in ((UploadBegin, 0), (UploadChunk, 1), (UploadCommit, Uploaded("r"))):
        if at is not kind and any(isinstance(command, kind) for command in rig.held):
            rig.ok(kind, value)
    rig.waiting(at)
    rig.cancel()
    if at in (host.ReadFile, UploadBegin, UploadChunk, UploadCommit):
        assert rig.answer(id) is None, "the step under way is waited for"
        gives: dict[type[host.Command], object] = {
            host.ReadFile: b"A",
            UploadBegin: 0,
            UploadChunk: 1,
            UploadCommit: Uploaded("r"),
        }
        rig.ok(at, gives[at])
    if at in (UploadBegin, UploadChunk):
        rig.ok(UploadAbort)
    assert rig.answer(id) == CANCELLED
    assert rig.taken(StartTurn) == []
    if at is host.OpenFile:
        # It comes too late, and is closed.
        rig.ok(host.OpenFile, host.FileFacts("/a", path="/a", name="a", regular=True, size=1))
    if at not in (host.OpenSubscription, host.ReadTranscript):
        assert len(rig.taken(host.CloseFile)) == 1


@pytest.mark.parametrize("now", [b"12", b"1234", b""])
def test_M24_a_file_that_changes_is_refused(now: bytes) -> None:
    rig = Rig()
    rig.session()
    rig.files["/f"] = host.FileFacts("/f now", path="/f", name="f", regular=True, size=3)
    rig.files["/f now"] = now
    id = rig.prompt(content=[link("/f")])
    assert rig.reason(id) == (-32602, "resource_changed")
    assert rig.taken(UploadBegin) == []


def test_M24_a_file_is_read_and_sent_in_pieces() -> None:
    rig = Rig(limits=HostLimits(read_bytes=4, chunk_bytes=3))
    rig.session()
    rig.files["/f"] = b"0123456789"
    rig.prompt(content=[link("/f")])
    assert [(read.offset, read.size) for read in rig.taken(host.ReadFile)] == [(0, 4), (4, 4), (8, 2), (10, 1)]
    begin = rig.waiting(UploadBegin)
    assert begin.data == b"0123456789"
    # The server knows the first part already.
    rig.ok(UploadBegin, 5)
    rig.ok(UploadChunk, 8)
    rig.ok(UploadChunk, 10)
    assert [(chunk.offset, chunk.data) for chunk in rig.taken(UploadChunk)] == [(5, b"567"), (8, b"89")]
    assert {chunk.upload_id for chunk in rig.taken(UploadChunk)} == {begin.upload_id}
    rig.waiting(UploadCommit)


def test_M25_a_file_the_host_has_is_not_sent() -> None:
    rig = Rig()
    rig.session()
    rig.files["/f"] = b"x"
    rig.prompt(content=[link("/f")])
    rig.ok(UploadBegin, Uploaded("known"))
    assert rig.waiting(StartTurn).attachments == ["known"]
    assert not rig.taken(UploadChunk) and not rig.taken(UploadCommit)


@pytest.mark.parametrize(
    ("kind", "value"), [(UploadBegin, 9), (UploadBegin, "x"), (UploadChunk, 2), (UploadChunk, None), (UploadCommit, 3)]
)
def test_M25_an_answer_of_another_kind_is_an_error(kind: type[host.Command], value: object) -> None:
    rig = Rig()
    rig.session()
    rig.files["/f"] = b"xyz"
    id = rig.prompt(content=[link("/f")])
    for step, good in ((UploadBegin, 0), (UploadChunk, 3), (UploadCommit, Uploaded("r"))):
        rig.ok(step, value if step is kind else good)
        if step is kind:
            break
    rig.ok(UploadAbort)
    assert rig.code(id) == (-32603, "internal_failure")
    assert rig.taken(StartTurn) == []


def test_M25_the_host_does_not_skip_what_was_not_sent() -> None:
    rig = Rig(limits=HostLimits(chunk_bytes=1))
    rig.session()
    rig.files["/f"] = b"xyz"
    id = rig.prompt(content=[link("/f")])
    rig.ok(UploadBegin, 0)
    rig.ok(UploadChunk, 2)
    rig.ok(UploadAbort)
    assert rig.code(id) == (-32603, "internal_failure")


@pytest.mark.parametrize("kind", [UploadBegin, UploadChunk, UploadCommit])
@pytest.mark.parametrize("abort_fails", [False, True])
def test_M26_an_upload_that_fails_is_aborted_once_and_its_error_wins(
    kind: type[host.Command], abort_fails: bool
) -> None:
    rig = Rig()
    rig.session()
    rig.files["/f"] = b"xyz"
    id = rig.prompt(content=[link("/f")])
    for step, good in ((UploadBegin, 0), (UploadChunk, 3)):
        if step is kind:
            break
        rig.ok(step, good)
    rig.fail(kind, "disk_full")
    if kind is UploadBegin:
        assert rig.taken(UploadAbort) == []
    else:
        assert rig.answer(id) is None, "the abort is awaited"
        if abort_fails:
            rig.fail(UploadAbort, "gone")
        else:
            rig.ok(UploadAbort)
    assert rig.code(id) == (-32603, "disk_full")
    assert len(rig.taken(UploadAbort)) == (kind is not UploadBegin)


@pytest.mark.parametrize("how", ["cancel", "close", "abort"])
def test_M27_whoever_ends_a_prompt_while_begin_is_in_flight_sees_begin_and_abort(how: str) -> None:
    rig = Rig()
    rig.session()
    rig.files["/f"] = b"x"
    id = rig.prompt(content=[link("/f")])
    closing = 0
    if how == "cancel":
        rig.cancel()
    elif how == "close":
        closing = rig.close()
    else:
        rig.feed({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})
    rig.ok(UploadBegin, 0)
    rig.ok(UploadAbort)
    assert rig.answer(id) == CANCELLED
    uploads = [type(command) for command in rig.log if isinstance(command, host.UploadCommand)]
    assert uploads == [UploadBegin, UploadAbort]
    assert rig.taken(StartTurn) == []
    if closing:
        assert rig.answer(closing) == {}


def test_M28_the_reference_is_the_one_of_the_commit() -> None:
    rig = Rig()
    rig.session()
    rig.files["/f"] = b"x"
    rig.prompt(content=[link("/f")])
    rig.ok(UploadBegin, 0)
    rig.ok(UploadChunk, 1)
    reference = {"id": 1}
    rig.ok(UploadCommit, Uploaded(reference))
    assert rig.waiting(StartTurn).attachments == [reference]
    assert rig.waiting(StartTurn).attachments[0] is reference


# ── Admission ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_M29_what_comes_before_the_start_is_answered_is_shown() -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    turn = rig.turn_id()
    rig.text(turn, "early")
    rig.finish(turn)
    assert rig.texts() == [("message", "m", "early")]
    assert rig.answer(id) is None
    rig.ok(StartTurn, host.Started("run"))
    assert rig.answer(id) == END_TURN


def test_M30_a_turn_has_the_unique_id_of_its_prompt() -> None:
    rig = Rig()
    rig.session()
    rig.prompt()
    rig.prompt()
    first, second = rig.taken(StartTurn)
    assert first.turn_id != second.turn_id
    # Each has its own flags: the end of one is not the other's.
    rig.finish(second.turn_id)
    rig.held.clear()
    rig.adapter.succeeded(second.id, host.Started("b"), rig.now)
    assert len([answer for answer in rig.answers().values() if answer == END_TURN]) == 1


@pytest.mark.parametrize("shown", [False, True])
def test_M31_a_blocked_start_fails_and_is_stopped_only_when_it_is_shown(shown: bool) -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    if shown:
        rig.root(rig.turn_id())
    rig.ok(StartTurn, host.Blocked("busy"))
    if shown:
        rig.ok(StopTurn)
    assert rig.code(id) == (-32603, "internal_failure")
    assert len(rig.taken(StopTurn)) == shown


@pytest.mark.parametrize(
    ("code", "dispatch", "found"),
    [
        ("invalid_request", "answered", -32602),
        ("not_found", "answered", -32602),
        ("overloaded", "answered", -32603),
        ("request_interrupted", "not_sent", -32603),
        ("not_found", "not_sent", -32603),
    ],
)
def test_M32_a_definite_failure_is_told_and_nothing_is_asked(code: str, dispatch: str, found: int) -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    rig.fail(StartTurn, code, dispatch)
    assert rig.code(id) == (found, code)
    assert rig.taken(host.QueryTurn) == [] and rig.taken(StopTurn) == []


def test_M33_a_start_whose_response_is_lost_is_never_sent_again() -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    for _ in range(5):
        rig.fail(host.QueryTurn)
        rig.wait(1.0)
    assert rig.code(id) == (-32603, "outcome_unknown")
    rig.wait(60.0)
    assert len(rig.taken(StartTurn)) == 1


def test_M34_queries_of_one_second_with_pauses_and_at_most_five() -> None:
    rig = Rig()
    rig.session()
    rig.prompt()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    for pause in (0.025, 0.05, 0.1, 0.2):
        rig.wait(0.999)
        assert len(rig.held) == 1
        rig.held.clear()
        rig.wait(0.002)
        assert rig.held == []
        rig.wait(pause - 0.002)
        assert rig.held == []
        rig.wait(0.004)
        rig.waiting(host.QueryTurn)
    assert len(rig.taken(host.QueryTurn)) == 5


def test_M34_a_pause_ends_with_any_change() -> None:
    rig = Rig()
    rig.session()
    rig.prompt()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    rig.fail(host.QueryTurn)
    assert rig.held == []
    rig.root("somebody's")
    rig.waiting(host.QueryTurn)


@pytest.mark.parametrize("fact", ["root", "query", "not_found", "other root", "fresh subscription", "permanent error"])
def test_M35_which_facts_settle(fact: str) -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    turn = rig.turn_id()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    if fact == "root":
        rig.root(turn)
    elif fact == "query":
        rig.ok(host.QueryTurn, Root(turn, "run"))
    elif fact == "not_found":
        rig.fail(host.QueryTurn, "not_found")
    elif fact == "other root":
        rig.root("somebody's")
    elif fact == "fresh subscription":
        rig.say(host.SubscriptionLost("s1", recoverable=True))
        rig.wait(0.03)
        assert len(rig.taken(host.OpenSubscription)) == 2
    else:
        rig.fail(host.QueryTurn, "invalid_request")
    stops = len(rig.taken(StopTurn))
    assert stops == (fact in ("root", "query"))
    assert (rig.answer(id) is None) == (fact != "not_found")
    if stops:
        assert rig.waiting(StopTurn).turn_id == turn
        rig.ok(StopTurn)
        assert rig.code(id) == (-32603, "request_interrupted")
        assert len(rig.taken(host.QueryTurn)) == 1


def test_M36_after_the_last_query_the_outcome_is_unknown() -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    for number in range(5):
        rig.fail(host.QueryTurn, f"down {number}")
        rig.wait(0.5)
    answer = rig.answer(id)
    assert isinstance(answer, tuple)
    code, data = answer
    assert code == -32603
    assert {key: data[key] for key in ("operation", "code", "reason", "attempts")} == {
        "operation": "turn.query",
        "code": "outcome_unknown",
        "reason": "admission_query_failed",
        "attempts": 5,
    }
    assert data["cause"]["code"] == "down 4"


@pytest.mark.parametrize("outcome", ["running", "terminal", "not_found"])
def test_M37_a_lost_start_never_turns_into_success(outcome: str) -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    turn = rig.turn_id()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    if outcome == "running":
        rig.ok(host.QueryTurn, Root(turn, "run"))
        assert rig.answer(id) is None
        rig.ok(StopTurn)
    elif outcome == "terminal":
        rig.ok(host.QueryTurn, Root(turn, "run", "completed"))
    else:
        rig.fail(host.QueryTurn, "not_found")
    answer = rig.answer(id)
    assert isinstance(answer, tuple)
    assert (answer[1]["code"], answer[1]["dispatch"]) == ("request_interrupted", "dispatched")
    assert len(rig.taken(StopTurn)) == (outcome == "running")


@pytest.mark.parametrize("outcome", ["running", "terminal", "not_found", "exhausted"])
def test_M38_a_cancelled_lost_start_is_cancelled_and_close_tells_what_is_unknown(outcome: str) -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    turn = rig.turn_id()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    rig.cancel()
    if outcome == "running":
        rig.ok(host.QueryTurn, Root(turn, "run"))
        rig.ok(StopTurn)
        rig.finish(turn, "aborted")
    elif outcome == "terminal":
        rig.ok(host.QueryTurn, Root(turn, "run", "failed"))
    elif outcome == "not_found":
        rig.fail(host.QueryTurn, "not_found")
    else:
        for _ in range(5):
            rig.fail(host.QueryTurn)
            rig.wait(0.5)
    assert rig.answer(id) == CANCELLED
    closing = rig.close()
    if outcome == "exhausted":
        assert rig.code(closing) == (-32603, "outcome_unknown")
        (diagnostic,) = rig.diagnostics
        assert isinstance(diagnostic.error.data, dict) and diagnostic.error.data["code"] == "outcome_unknown"
    else:
        assert rig.answer(closing) == {}
        assert rig.diagnostics == []


@pytest.mark.parametrize("how", ["settled", "closed"])
def test_M39_no_query_once_it_is_settled_or_closed(how: str) -> None:
    rig = Rig()
    rig.session()
    rig.prompt()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    if how == "settled":
        rig.fail(host.QueryTurn, "not_found")
    else:
        rig.dispose()
    count = len(rig.taken(host.QueryTurn))
    for _ in range(60):
        rig.wait(1.0)
    assert len(rig.taken(host.QueryTurn)) == count == 1


# ── Cancel and stop ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_M40_a_cancel_of_nothing_is_nothing() -> None:
    rig = Rig()
    rig.session()
    before = len(rig.log)
    rig.cancel()
    rig.cancel("nobody")
    assert len(rig.log) == before
    rig.dispose()
    rig.cancel()
    assert [type(command) for command in rig.log[before:]] == [host.Disconnect]


@pytest.mark.parametrize("at", [host.OpenSubscription, host.ReadTranscript])
def test_M41_a_cancel_ends_an_opening(at: type[host.Command]) -> None:
    rig = Rig(manual=(at,))
    rig.session()
    id = rig.prompt()
    rig.waiting(at)
    rig.cancel()
    assert rig.answer(id) == CANCELLED
    # What comes of it is let go.
    rig.ok(at, "late" if at is host.OpenSubscription else Transcript())
    assert len(rig.taken(host.CloseSubscription)) == 1
    assert rig.taken(StartTurn) == []
    rig.automatic += (at,)
    rig.prompt()
    rig.waiting(StartTurn)
    assert len(rig.taken(host.OpenSubscription)) == 2


def test_M41_a_cancel_ends_a_wait_for_a_new_subscription() -> None:
    rig = Rig()
    _, turn = rig.running()
    rig.say(host.SubscriptionLost("s1", recoverable=True))
    rig.cancel()
    rig.ok(StopTurn)
    rig.wait(3.0)
    assert CANCELLED in rig.answers().values()
    assert turn


def test_M42_one_prompts_request_is_that_prompt_only() -> None:
    rig = Rig(manual=(host.OpenSubscription,))
    rig.session()
    first, second = rig.prompt(), rig.prompt()
    rig.feed({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": first}})
    assert rig.answers().keys() & {first, second} == {first}
    rig.ok(host.OpenSubscription, "s")
    rig.ok(StartTurn, host.Started("run"))
    rig.finish(rig.turn_id())
    assert rig.answer(second) == END_TURN
    assert rig.taken(host.CloseSubscription) == []


def test_M43_before_the_dispatch_there_is_nothing_to_stop() -> None:
    rig = Rig(manual=(host.OpenSubscription,))
    rig.session()
    id = rig.prompt()
    # The start waits in the queue, and is taken back.
    command = rig.waiting(host.OpenSubscription)
    rig.adapter.succeeded(command.id, "s", rig.now)
    transcript = rig.adapter.next_command()
    assert isinstance(transcript, host.ReadTranscript)
    rig.adapter.succeeded(transcript.id, Transcript(), rig.now)
    rig.cancel()
    assert rig.answer(id) == CANCELLED
    assert rig.taken(StartTurn) == [] and rig.taken(StopTurn) == []


@requirement(77)
@pytest.mark.parametrize("identity", ["root", "start", "query"])
def test_M44_the_stop_waits_for_the_identity_and_goes_out_once(identity: str) -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    turn = rig.turn_id()
    rig.cancel()
    rig.cancel()
    assert rig.taken(StopTurn) == []
    if identity == "root":
        rig.root(turn)
    elif identity == "start":
        rig.ok(StartTurn, host.Started("run"))
    else:
        rig.fail(StartTurn, "request_interrupted", "dispatched")
        rig.ok(host.QueryTurn, Root(turn, "run"))
    rig.cancel()
    (stop,) = rig.taken(StopTurn)
    assert (stop.session_id, stop.turn_id, stop.run_id) == ("s1", turn, "run")
    rig.ok(StopTurn)
    rig.cancel()
    if identity == "root":
        assert rig.answer(id) is None
        rig.ok(StartTurn, host.Started("run"))
    rig.finish(turn, "aborted")
    assert rig.answer(id) == CANCELLED
    assert len(rig.taken(StopTurn)) == 1


def test_M44_a_turn_that_is_over_is_not_stopped() -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    rig.finish(rig.turn_id())
    rig.cancel()
    rig.ok(StartTurn, host.Started("run"))
    assert rig.answer(id) == CANCELLED
    assert rig.taken(StopTurn) == []


def test_M45_a_stop_that_fails_is_told_once_and_tried_again_by_a_close() -> None:
    rig = Rig()
    id, _ = rig.running()
    rig.cancel()
    rig.fail(StopTurn, "host_down")
    assert rig.answer(id) == CANCELLED
    (diagnostic,) = rig.diagnostics
    assert isinstance(diagnostic.error.data, dict) and diagnostic.error.data["code"] == "host_down"
    assert rig.taken(host.CloseSubscription) == [], "the subscription stays"
    closing = rig.close()
    rig.fail(StopTurn, "still_down")
    assert rig.code(closing) == (-32603, "still_down")
    assert len(rig.taken(StopTurn)) == 2


@pytest.mark.parametrize("how", ["cancel", "close", "dispose"])
def test_M46_another_clients_turn_is_stopped_too(how: str) -> None:
    rig = Rig()
    _, turn = rig.running()
    rig.finish(turn)
    rig.root("theirs", "their run")
    closing = 0
    if how == "cancel":
        rig.cancel()
        rig.cancel()
    elif how == "close":
        closing = rig.close()
        assert rig.answer(closing) is None
    else:
        rig.dispose()
    (stop,) = rig.taken(StopTurn)
    assert (stop.turn_id, stop.run_id) == ("theirs", "their run")
    rig.ok(StopTurn)
    if closing:
        assert rig.answer(closing) == {}
    assert rig.adapter.disposed == (how == "dispose")
    rig.root("theirs", "their run", "aborted")
    rig.cancel()
    assert len(rig.taken(StopTurn)) == 1


def test_M47_a_cancelled_prompt_is_cancelled_though_its_text_cannot_be_shown() -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.text(turn, "old")
    rig.cancel()
    rig.whole(turn, "new")
    rig.ok(StopTurn)
    rig.finish(turn, "aborted")
    assert rig.answer(id) == CANCELLED


def test_M47_a_prompt_that_dispose_cancelled_is_cancelled_though_its_start_failed() -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    rig.dispose()
    rig.fail(StartTurn, "overloaded")
    assert rig.answer(id) == CANCELLED


def test_M48_a_cancelled_prompt_is_kept_until_its_stop_has_settled() -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.cancel()
    rig.finish(turn, "aborted")
    closing = rig.close()
    assert rig.answer(id) is None and rig.answer(closing) is None
    assert rig.taken(host.CloseSubscription) == []
    rig.ok(StopTurn)
    assert (rig.answer(id), rig.answer(closing)) == (CANCELLED, {})


def test_a_stopped_turn_has_a_moment_for_its_last_words() -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.cancel()
    rig.ok(StopTurn)
    rig.text(turn, "last")
    assert rig.answer(id) is None
    rig.wait(1.999)
    assert rig.answer(id) is None
    rig.wait(0.001)
    assert rig.answer(id) == CANCELLED
    assert rig.texts() == [("message", "m", "last")]


# ── Interactions ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["permission", "question", "form", "sandbox_boundary", "client_capability"])
@pytest.mark.parametrize("stop_fails", [False, True])
def test_M49_an_interaction_is_neither_answered_nor_approved(kind: str, stop_fails: bool) -> None:
    rig = Rig()
    id, turn = rig.running()
    rig.say(host.InteractionPending("s1", turn, kind))
    assert len(rig.taken(host.CloseSubscription)) == 1
    if stop_fails:
        rig.fail(StopTurn, "host_down")
    else:
        rig.ok(StopTurn)
    answer = rig.answer(id)
    assert isinstance(answer, tuple)
    assert (answer[0], answer[1]["code"], answer[1]["kind"]) == (-32603, "unsupported_interaction", kind)
    assert len(rig.taken(StopTurn)) == 1 and len(rig.diagnostics) == stop_fails
    again, turn = rig.running()
    rig.finish(turn)
    assert rig.answer(again) == END_TURN
    assert len(rig.taken(host.OpenSubscription)) == 2


@pytest.mark.parametrize("how", ["cancel", "close"])
@pytest.mark.parametrize("stop_fails", [False, True])
def test_M50_another_clients_interaction_is_theirs(how: str, stop_fails: bool) -> None:
    rig = Rig()
    _, turn = rig.running()
    rig.finish(turn)
    rig.root("theirs", "their run")
    rig.say(host.InteractionPending("s1", "theirs", "question"))
    assert rig.taken(StopTurn) == [] and rig.taken(host.CloseSubscription) == []
    closing = rig.close() if how == "close" else 0
    if how == "cancel":
        rig.cancel()
    if stop_fails:
        rig.fail(StopTurn)
    else:
        rig.ok(StopTurn)
    if closing:
        assert (rig.answer(closing) == {}) != stop_fails
    else:
        closing = rig.close()
        if stop_fails:
            rig.ok(StopTurn)
        assert rig.answer(closing) == {}


# ── Subscriptions ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_M53_one_lazy_subscription_a_session_that_first_prompts_share() -> None:
    rig = Rig(manual=(host.OpenSubscription,))
    for _ in range(17):
        rig.session()
    assert rig.taken(host.OpenSubscription) == []
    rig.prompt()
    rig.prompt()
    rig.ok(host.OpenSubscription, "s")
    first, second = rig.taken(StartTurn)
    for start, run in ((first, "a"), (second, "b")):
        rig.adapter.succeeded(start.id, host.Started(run), rig.now)
        rig.finish(start.turn_id)
    rig.held.clear()
    # It outlives its prompts.
    rig.prompt()
    assert len(rig.taken(host.OpenSubscription)) == 1
    assert list(rig.answers().values()).count(END_TURN) == 2


@pytest.mark.parametrize("when", ["opening", "running"])
def test_M54_a_failed_subscription_fails_its_prompts_and_the_next_opens_another(when: str) -> None:
    rig = Rig(manual=(host.OpenSubscription,))
    rig.session()
    id = rig.prompt()
    if when == "opening":
        rig.fail(host.OpenSubscription)
        assert rig.taken(StartTurn) == []
    else:
        rig.ok(host.OpenSubscription, "s")
        rig.ok(StartTurn, host.Started("run"))
        rig.say(host.SubscriptionLost("s1", "broke"))
        rig.ok(StopTurn)
        assert rig.taken(host.CloseSubscription) == []
    answer = rig.answer(id)
    assert isinstance(answer, tuple)
    assert (answer[0], answer[1]["operation"], answer[1]["code"]) == (
        -32603,
        "subscription.open",
        "subscription_failure",
    )
    rig.prompt()
    rig.ok(host.OpenSubscription, "again")
    rig.waiting(StartTurn)


@pytest.mark.parametrize("how", ["alone", "cancel", "close", "dispose"])
@pytest.mark.parametrize("response", ["started", "interrupted"])
def test_M55_a_lost_subscription_does_not_settle_a_pending_start(how: str, response: str) -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    rig.say(host.SubscriptionLost("s1"))
    closing = 0
    if how == "cancel":
        rig.cancel()
    elif how == "close":
        closing = rig.close()
    elif how == "dispose":
        rig.dispose()
    assert rig.answer(id) is None and rig.answer(closing) is None and not rig.adapter.disposed
    if response == "started":
        rig.ok(StartTurn, host.Started("run"))
        assert rig.answer(id) is None
        rig.ok(StopTurn)
    else:
        rig.fail(StartTurn, "request_interrupted", "not_sent")
        assert rig.taken(StopTurn) == []
    if how == "alone":
        assert rig.code(id) == (-32603, "subscription_failure")
    else:
        assert rig.answer(id) == CANCELLED
    if closing:
        assert rig.answer(closing) == {}
    assert rig.adapter.disposed == (how == "dispose")


@pytest.mark.parametrize(("count", "fails"), [(512, False), (513, True)])
def test_M56_so_many_events_are_kept_while_a_subscription_hydrates(count: int, fails: bool) -> None:
    rig = Rig(manual=(host.ReadTranscript,))
    rig.session()
    id = rig.prompt()
    rig.say(*[host.RootShown("s1", None)] * count)
    if fails:
        assert rig.code(id) == (-32603, "slow_consumer")
    else:
        rig.ok(host.ReadTranscript, Transcript())
        rig.waiting(StartTurn)


def test_M56_a_lost_subscription_is_opened_again_with_growing_pauses() -> None:
    rig = Rig(manual=(host.OpenSubscription,))
    rig.session()
    id = rig.prompt()
    rig.ok(host.OpenSubscription, "s")
    rig.ok(StartTurn, host.Started("run"))
    rig.say(host.SubscriptionLost("s1", recoverable=True))
    for pause in (0.025, 0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5):
        rig.wait(pause - 0.001)
        assert not rig.held
        rig.wait(0.002)
        rig.fail(host.OpenSubscription, dispatch="not_sent")
    rig.ok(StopTurn)
    assert rig.code(id) == (-32603, "subscription_failure")
    assert len(rig.taken(host.OpenSubscription)) == 9


@pytest.mark.parametrize("why", ["live", "stable"])
def test_M56_the_count_begins_anew(why: str) -> None:
    rig = Rig()
    _, turn = rig.running()
    for _ in range(20):
        rig.say(host.SubscriptionLost("s1", recoverable=True))
        rig.wait(0.5)
        if why == "live":
            rig.text(turn, "x")
        else:
            rig.wait(1.0)
    assert rig.taken(StopTurn) == []
    assert len(rig.taken(host.OpenSubscription)) == 21


def test_M56_text_is_dropped_for_a_slow_client_and_read_again() -> None:
    rig = Rig(limits=HostLimits(pace_at=1000, max_queued=10, rearm_at=5))
    id, turn = rig.running()
    said = ""
    for number in range(200):
        piece = f"{number:4}"
        rig.say(host.TextArrived("s1", turn, "message", "m", delta=piece, offset=len(said)))
        said += piece
    tool = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"}
    rig.say(host.UpdateArrived("s1", turn, tool))
    rig.finish(turn)
    assert rig.answer(id) is None
    assert rig.client.conn.output_bytes < 3000
    rig.transcript = Transcript([Said(turn, "assistant", "m", said)])
    for _ in range(20):
        rig.answers()
        rig.adapter.resume(rig.now)
        rig.pump()
    assert "".join(text for _, _, text in rig.texts()) == said
    assert rig.answer(id) == END_TURN
    assert any(message["params"]["update"] == tool for message in rig.seen if "method" in message)  # type: ignore[index]  # ours


@pytest.mark.parametrize("how", ["fails", "stalls", "late"])
def test_M57_a_presentation_read_stops_no_prompt(how: str) -> None:
    rig = Rig(presentation=True)
    rig.session()
    if how == "fails":
        rig.fail(host.ReadPresentation)
        assert len(rig.diagnostics) == 1
    id, turn = rig.running()
    if how == "late":
        rig.ok(host.ReadPresentation, [{"sessionUpdate": "available_commands_update", "availableCommands": []}])
    rig.finish(turn)
    assert rig.answer(id) == END_TURN


# ── Ownership, close, dispose ───────────────────────────────────────────────────────────────────────────────────────


def test_M58_only_what_was_opened_here_can_be_used() -> None:
    rig = Rig()
    listing = rig.call("session/list")
    assert rig.answer(listing) == {"sessions": [{"sessionId": "other", "cwd": CWD}]}
    before = len(rig.log)
    for id in (rig.prompt("other"), rig.close("other")):
        answer = rig.answer(id)
        assert isinstance(answer, tuple) and answer[0] == -32002
    assert len(rig.log) == before


def test_M59_closes_that_meet_share_one_and_nothing_gets_in() -> None:
    rig = Rig()
    id, _ = rig.running()
    first, second = rig.close(), rig.close()
    late = rig.prompt()
    answer = rig.answer(late)
    assert isinstance(answer, tuple) and answer[0] == -32002
    rig.fail(StopTurn, "host_down")
    assert rig.answer(id) == CANCELLED
    assert rig.code(first) == rig.code(second) == (-32603, "host_down")
    assert len(rig.taken(StopTurn)) == len(rig.taken(host.CloseSubscription)) == 1
    # Closed for good, also where it failed.
    again = rig.answer(rig.close())
    assert isinstance(again, tuple) and again[0] == -32002


def test_M60_the_order_of_a_close() -> None:
    rig = Rig(manual=(host.CloseSubscription,))
    id, _ = rig.running()
    closing = rig.close()
    assert [type(command) for command in rig.held] == [StopTurn]
    rig.fail(StopTurn, "first")
    # It goes on although a step has failed.
    assert [type(command) for command in rig.held] == [host.CloseSubscription]
    assert rig.answer(id) == CANCELLED and rig.answer(closing) is None
    rig.ok(host.CloseSubscription)
    assert rig.code(closing) == (-32603, "first")


def test_M61_close_does_not_wait_for_a_presentation_read() -> None:
    rig = Rig(presentation=True)
    rig.session()
    closing = rig.close()
    assert rig.answer(closing) == {}
    rig.ok(host.ReadPresentation, [{"sessionUpdate": "available_commands_update", "availableCommands": []}])
    assert all("method" not in message for message in rig.client.sent())


def test_M62_dispose_settles_starts_then_stops_then_closes() -> None:
    rig = Rig(manual=(host.Disconnect,))
    id, turn = rig.running()
    pending = rig.prompt()
    rig.dispose()
    rig.dispose()
    refused = rig.call("session/new", cwd=CWD, mcpServers=[])
    answer = rig.answer(refused)
    assert isinstance(answer, tuple)
    assert (answer[0], answer[1]["operation"], answer[1]["code"]) == (-32603, "session/new", "registry_closed")
    assert len(rig.taken(host.CloseSubscription)) == 1
    rig.fail(StopTurn)
    assert rig.answer(id) == CANCELLED and rig.taken(host.Disconnect) == []
    rig.ok(StartTurn, host.Started("late"))
    assert rig.waiting(StopTurn).run_id == "late" and rig.taken(host.Disconnect) == []
    rig.ok(StopTurn)
    assert rig.answer(pending) == CANCELLED
    assert not rig.adapter.disposed
    rig.ok(host.Disconnect)
    assert rig.adapter.disposed and turn


def test_M62_a_start_that_only_a_query_could_settle_holds_nothing_up() -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    rig.waiting(host.QueryTurn)
    rig.dispose()
    assert rig.answer(id) == CANCELLED
    assert rig.adapter.disposed


def test_M62_nor_where_the_connection_is_gone_already() -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    rig.fail(StartTurn, "request_interrupted", "dispatched")
    rig.automatic = tuple(kind for kind in rig.automatic if kind is not host.Connect)
    rig.lose()
    rig.waiting(host.Connect)
    rig.dispose()
    assert rig.answer(id) == CANCELLED
    rig.fail(host.Connect)
    assert rig.adapter.disposed


def test_M62_dispose_is_bounded() -> None:
    rig = Rig()
    rig.session()
    id = rig.prompt()
    rig.dispose()
    rig.wait(9.999)
    assert not rig.adapter.disposed
    rig.wait(0.001)
    assert rig.adapter.disposed
    assert rig.answer(id) == CANCELLED


def test_M62_the_end_of_the_client_disposes() -> None:
    rig = Rig()
    rig.running()
    for event in rig.client.end():
        rig.adapter.receive(event, rig.now)
    rig.pump()
    rig.ok(StopTurn)
    assert rig.adapter.disposed


def test_M63_a_failed_connect_is_told_and_the_next_call_tries_again() -> None:
    rig = Rig(manual=(host.Connect,))
    first = rig.call("session/new", cwd=CWD, mcpServers=[])
    second = rig.call("session/list")
    rig.fail(host.Connect)
    assert rig.code(first) == rig.code(second) == (-32603, "connection_failed")
    assert len(rig.taken(host.Connect)) == 1
    rig.call("session/new", cwd=CWD, mcpServers=[])
    rig.ok(host.Connect)
    assert rig.sessions == 1


@pytest.mark.parametrize("when", ["first", "meanwhile"])
def test_M63_nothing_connects_once_disposed(when: str) -> None:
    rig = Rig(manual=(host.Connect,))
    if when == "meanwhile":
        id = rig.call("session/new", cwd=CWD, mcpServers=[])
        rig.dispose()
        assert not rig.adapter.disposed
        rig.ok(host.Connect)
        # It resolves late, and is closed.
        assert len(rig.taken(host.Disconnect)) == 1
        assert rig.code(id) == (-32603, "registry_closed")
    else:
        rig.dispose()
        rig.call("session/new", cwd=CWD, mcpServers=[])
        assert rig.log == []
    assert rig.adapter.disposed


def test_M64_a_session_that_was_created_is_given_though_its_presentation_fails() -> None:
    rig = Rig(presentation=True)
    id = rig.call("session/new", cwd=CWD, mcpServers=[])
    rig.fail(host.ReadPresentation)
    assert rig.answer(id) == {"sessionId": "s1"}


def test_M68_a_loaded_session_says_its_history_and_a_resumed_one_does_not() -> None:
    rig = Rig()
    rig.transcript = Transcript([Said("t", "user", "u", "hi"), Said("t", "assistant", "m", "hello", "hm")])
    loaded = rig.call("session/load", sessionId="old", cwd=CWD, mcpServers=[])
    assert rig.texts() == [("user_message", "u", "hi"), ("thought", "m", "hm"), ("message", "m", "hello")]
    assert rig.answer(loaded) == {}
    assert "result" in rig.seen[-1]
    resumed = rig.call("session/resume", sessionId="older", cwd=CWD)
    assert rig.answer(resumed) == {} and len(rig.texts()) == 3
    rig.transcript = HostError("not_found")
    assert rig.code(rig.call("session/load", sessionId="gone", cwd=CWD, mcpServers=[])) == (-32602, "not_found")


def test_what_is_not_served_is_said() -> None:
    rig = Rig()
    rig.session()
    answer = rig.answer(rig.call("session/set_mode", sessionId="s1", modeId="m"))
    assert isinstance(answer, tuple) and answer[0] == -32601


def test_every_constant_is_positive() -> None:
    with pytest.raises(ValueError, match="max_links"):
        HostLimits(max_links=0)


# ── The crash matrix ────────────────────────────────────────────────────────────────────────────────────────────────

# What was going on when the connection to the host was lost, and what the client did: how the prompt ended (the code of
# its error, or cancelled), then how many starts, stops and aborts the host was sent.
MATRIX: dict[tuple[str, str], tuple[str, int, int, int]] = {
    ("before dispatch", "alone"): ("subscription_failure", 0, 0, 0),
    ("before dispatch", "cancel"): ("cancelled", 0, 0, 0),
    ("before dispatch", "close"): ("cancelled", 0, 0, 0),
    ("before dispatch", "dispose"): ("cancelled", 0, 0, 0),
    ("after dispatch", "alone"): ("connection_lost", 1, 1, 0),
    ("after dispatch", "cancel"): ("cancelled", 1, 1, 0),
    ("after dispatch", "close"): ("cancelled", 1, 1, 0),
    ("after dispatch", "dispose"): ("cancelled", 1, 0, 0),
    ("during upload", "alone"): ("connection_lost", 0, 0, 1),
    ("during upload", "cancel"): ("cancelled", 0, 0, 1),
    ("during upload", "close"): ("cancelled", 0, 0, 1),
    ("during upload", "dispose"): ("cancelled", 0, 0, 1),
    ("during query", "alone"): ("request_interrupted", 1, 0, 0),
    ("during query", "cancel"): ("cancelled", 1, 0, 0),
    ("during query", "close"): ("cancelled", 1, 0, 0),
    ("during query", "dispose"): ("cancelled", 1, 0, 0),
    ("at shutdown", "alone"): ("cancelled", 1, 1, 0),
    ("at shutdown", "cancel"): ("cancelled", 1, 1, 0),
    ("at shutdown", "close"): ("cancelled", 1, 1, 0),
    ("at shutdown", "dispose"): ("cancelled", 1, 1, 0),
}


@pytest.mark.parametrize(("when", "how"), MATRIX)
def test_crash_matrix(when: str, how: str) -> None:
    end, starts, stops, aborts = MATRIX[when, how]
    rig = Rig(manual=(host.OpenSubscription,) if when == "before dispatch" else ())
    rig.session()
    rig.files["/f"] = b"xyz"
    id = rig.prompt(content=[link("/f")] if when == "during upload" else None)
    if when == "during upload":
        rig.ok(UploadBegin, 0)
        rig.waiting(UploadChunk)
    elif when == "during query":
        rig.fail(StartTurn, "request_interrupted", "dispatched")
        rig.waiting(host.QueryTurn)
    elif when == "at shutdown":
        rig.ok(StartTurn, host.Started("run"))
    closing = 0
    if how == "cancel":
        rig.cancel()
    elif how == "close":
        closing = rig.close()
    elif how == "dispose":
        rig.dispose()
    if when == "at shutdown":
        rig.dispose()
        rig.waiting(StopTurn)
    rig.lose()
    # The host is there again, and says what it knows.
    for _ in range(6):
        for command in [*rig.held]:
            rig.held.remove(command)
            if isinstance(command, host.QueryTurn):
                if when == "after dispatch":
                    rig.adapter.succeeded(command.id, Root(command.turn_id, "run"), rig.now)
                else:
                    rig.adapter.failed(command.id, HostError("not_found"), rig.now)
            else:
                rig.adapter.succeeded(command.id, "fine", rig.now)
            rig.pump()
        rig.wait(1.0)
    found = rig.answer(id)
    assert (found[1]["code"] if isinstance(found, tuple) else found) == (CANCELLED if end == "cancelled" else end)
    assert len(rig.taken(StartTurn)) == starts
    assert len(rig.taken(StopTurn)) == stops
    assert len(rig.taken(UploadAbort)) == aborts
    assert len(rig.taken(host.QueryTurn)) <= 5
    if closing and when == "at shutdown":
        # The stop was lost with the connection, and close says so.
        assert rig.code(closing) == (-32603, "connection_lost")
    elif closing:
        assert rig.answer(closing) == {}
    assert rig.adapter.disposed == (how == "dispose" or when == "at shutdown")
    # Nothing is left over: no timer, no command, no file.
    assert rig.adapter.next_deadline() is None
    assert rig.held == []
    assert len(rig.taken(host.CloseFile)) == len(rig.taken(host.OpenFile))
