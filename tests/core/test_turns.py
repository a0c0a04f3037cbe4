"""Turn admission: one test for each rule P1 to P10 of hosts.md, named after it, and the bounds of each limit."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from acp_core import (
    Admission,
    CancelRequested,
    ClientConnection,
    FenceLifted,
    Limits,
    LocalProtocolError,
    PermissionAnswered,
    PermissionRequested,
    PromptSent,
    ReadTextFileRequested,
    RequestAbandoned,
    Session,
    SessionFenced,
    TurnEnded,
    TurnFailed,
    Update,
)
from acp_core.turns import WHITE_SPACE
from tests.core.helpers import (
    CWD,
    ClientDriver,
    as_line,
    chunk,
    error,
    idle_client,
    names,
    notification,
    one,
    permission,
    request,
    result,
)
from tests.core.owner import CANCEL, RUNTIME, Owner

MIB = 1024 * 1024
# The characters that a trim takes away, as docs/turns.md lists them.
TRIMMED = (
    [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)]
    + [0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
    + [0xFEFF]
)
# Python's str.strip takes these too; no Unicode property calls them white space.
ONLY_PYTHON = [0x1C, 0x1D, 0x1E, 0x1F]


def platform(admission: Admission | None = None, **how: object) -> tuple[ClientDriver, Session]:
    """An owner with admission, and one idle session."""
    return idle_client("s1", admission=admission if admission is not None else Admission(), **how)


def refusal(driver: ClientDriver, session: Session, content: object = "hi", identity: object = "run-1") -> str:
    """The rule that refuses a prompt. Nothing has changed and nothing was queued."""
    conn = driver.conn

    def everything() -> object:
        return (
            conn.snapshot(),
            conn.output_bytes,
            conn.open_requests,
            conn.busy_sessions,
            session.state,
            session.turn,
            conn.next_deadline(),
        )

    before = everything()
    with pytest.raises(LocalProtocolError) as caught:
        conn.prompt(session, content, identity=identity)  # type: ignore[arg-type]  # passed through
    assert everything() == before
    return caught.value.rule


# ── Admission ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_P1_refusals_come_in_a_fixed_order_and_change_nothing() -> None:
    bad_text, bad_identity = "x" * (MIB + 1), " run-1"

    driver, session = platform()
    driver.conn.prompt(session, "first", identity="run-0")
    driver.conn.refuse_turns()
    assert refusal(driver, session, bad_text, bad_identity) == "turn.closing"

    driver, session = platform()
    driver.conn.prompt(session, "first", identity="run-0")
    assert refusal(driver, session, bad_text, bad_identity) == "turn.one_at_a_time"

    driver, session = platform()
    assert refusal(driver, session, bad_text, bad_identity) == "admission.identity"
    assert refusal(driver, session, [], bad_identity) == "admission.identity"
    assert refusal(driver, session, bad_text) == "admission.text"
    # The same prompt with nothing wrong about it: none of the refusals has taken the place.
    driver.conn.prompt(session, "x" * MIB, identity="run-1")


@pytest.mark.parametrize(
    "identity", ["", " ", "\n", "\ufeff", "\t run", "run\r\n", "run\x85", "\u2028run", "run\ufeff"]
)
def test_P2_an_identity_that_is_not_its_own_trim_is_refused(identity: str) -> None:
    driver, session = platform()
    assert refusal(driver, session, identity=identity) == "admission.identity"


def test_P2_an_identity_is_needed() -> None:
    driver, session = platform()
    assert refusal(driver, session, identity=None) == "admission.identity"
    with pytest.raises(TypeError, match="identity"):
        driver.conn.prompt(session, "hi", identity=7)  # type: ignore[arg-type]  # on purpose
    assert session.turn is None


@pytest.mark.parametrize(
    "identity",
    [
        "a" * 1024,
        "é" * 512,
        "€" * 341 + "a",
        "😀" * 256,
        "a b",
        "a\n\u3000\ufeffb",
        "\x1crun",
        "run\x1f",
        "\u200brun",
        "\x00",
    ],
)
def test_P2_an_identity_at_the_bound_is_taken_and_never_rewritten(identity: str) -> None:
    driver, session = platform()
    driver.conn.prompt(session, "hi", identity=identity)
    assert session.turn is not None
    assert session.turn.identity == identity


@pytest.mark.parametrize("identity", ["a" * 1025, "é" * 512 + "a", "€" * 341 + "é", "😀" * 256 + "a", "a" * 10**6])
def test_P2_an_identity_past_the_bound_is_refused(identity: str) -> None:
    driver, session = platform()
    assert refusal(driver, session, identity=identity) == "admission.identity"


@pytest.mark.parametrize("identity", ["\ud800", "run\udfff", "\udc80run", "a\ud83d"])
def test_P2_a_lone_surrogate_is_refused(identity: str) -> None:
    driver, session = platform()
    assert refusal(driver, session, identity=identity) == "admission.identity"


def test_P2_the_bound_is_an_argument() -> None:
    driver, session = platform(Admission(max_identity_bytes=4))
    assert refusal(driver, session, identity="ab€") == "admission.identity"
    driver.conn.prompt(session, "hi", identity="a€")


def test_P2_the_trim_is_that_of_unicode_whatever_the_language() -> None:
    admission = Admission()
    refused = set()
    letters = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF]
    for letter in letters:
        try:
            admission.check_identity(letter)
        except LocalProtocolError:
            refused.add(ord(letter))
    # Inside, every one of them is taken.
    for start in range(0, len(letters), 200):
        admission.check_identity("r" + "".join(letters[start : start + 200]) + "n")
    # Unicode's White_Space is the separators and six controls (PropList.txt); to them comes the byte order mark.
    separators = {
        point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) in ("Zs", "Zl", "Zp")
    }
    assert refused == separators | {*range(0x09, 0x0E), 0x85, 0xFEFF}
    assert refused == {*TRIMMED} == {ord(letter) for letter in WHITE_SPACE}
    # One end is enough.
    for point in TRIMMED:
        for identity in (chr(point) + "run", "run" + chr(point)):
            with pytest.raises(LocalProtocolError, match="white space"):
                admission.check_identity(identity)


def test_P2_where_the_trims_of_languages_differ() -> None:
    python = {point for point in range(sys.maxunicode + 1) if not chr(point).strip()}
    assert python - {*TRIMMED} == {*ONLY_PYTHON}
    assert {*TRIMMED} - python == {0xFEFF}
    # ECMAScript 2024, 22.1.3.32: WhiteSpace is TAB, VT, FF, ZWNBSP and category Zs; LineTerminator LF, CR, LS, PS.
    spaces = {point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) == "Zs"}
    script = {0x09, 0x0B, 0x0C, 0xFEFF, 0x0A, 0x0D, 0x2028, 0x2029} | spaces
    assert script - {*TRIMMED} == set()
    assert {*TRIMMED} - script == {0x85}


# Each is 1,048,576 bytes of UTF-8 in a different number of characters; a further "a" is one too many.
FULL = ["a" * MIB, "é" * (MIB // 2), "€" * 349_525 + "a", "😀" * (MIB // 4), "\n" * MIB, "\u2028" * 349_525 + "\x00"]


@pytest.mark.parametrize("text", FULL, ids=range(len(FULL)))
def test_P3_text_is_bounded_in_bytes_and_the_bound_is_taken(text: str) -> None:
    assert len(text.encode()) == MIB
    driver, session = platform()
    assert refusal(driver, session, text + "a") == "admission.text"
    driver.conn.prompt(session, text, identity="run-1")
    (message,) = driver.sent()
    assert message["params"] == {"sessionId": "s1", "prompt": [{"type": "text", "text": text}]}


def test_P3_all_text_blocks_count_and_nothing_else() -> None:
    def text(value: str) -> dict[str, object]:
        return {"type": "text", "text": value}

    link = {"type": "resource_link", "uri": "file:///" + "x" * MIB, "name": "x"}
    embedded = {"type": "resource", "resource": {"uri": "file:///x", "text": "x" * MIB}, "text": "y" * MIB}
    driver, session = platform()
    assert refusal(driver, session, [text("é" * 500_000), link, text("a" * 48_577)]) == "admission.text"
    driver.conn.prompt(session, [text("é" * 500_000), link, embedded, text("a" * 48_576)], identity="run-1")


def test_P3_empty_text_is_taken_and_a_lone_surrogate_is_not() -> None:
    driver, session = platform()
    assert refusal(driver, session, "a\udc80") == "admission.text"
    assert refusal(driver, session, [{"type": "text", "text": "a"}, {"type": "text", "text": "\ud800"}]) == (
        "admission.text"
    )
    driver.conn.prompt(session, "", identity="run-1")


def test_P3_the_bound_is_an_argument() -> None:
    driver, session = platform(Admission(max_text_bytes=4))
    assert refusal(driver, session, "ab€") == "admission.text"
    driver.conn.prompt(session, "a€", identity="run-1")


@pytest.mark.parametrize("name", ["max_identity_bytes", "max_text_bytes"])
def test_P3_a_bound_is_a_positive_int(name: str) -> None:
    for wrong in (0, -1):
        with pytest.raises(LocalProtocolError, match=name):
            Admission(**{name: wrong})  # type: ignore[arg-type]  # one of the two bounds
    for value in (1.0, "1", None, True):
        with pytest.raises(TypeError, match=name):
            Admission(**{name: value})  # type: ignore[arg-type]  # on purpose


def test_P4_what_the_library_adds_does_not_count() -> None:
    """Escapes, the envelope and _meta are not the caller's text."""
    driver, session = platform(Admission(max_text_bytes=8))
    driver.conn.prompt(session, "\x00\x01\x02\x03\x04\x05\x06\x07", identity="run-1", meta={"note": "y" * 100})
    assert len(driver.conn.data_to_send(driver.now)) > 150


def test_P5_the_wire_has_the_text_and_the_session_and_no_more() -> None:
    driver, session = platform()
    driver.conn.prompt(session, "hi", identity="run-1", token=object())
    assert driver.sent() == [
        {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "session/prompt",
            "params": {"sessionId": "s1", "prompt": [{"type": "text", "text": "hi"}]},
        }
    ]


def test_P6_a_prompt_that_cannot_be_queued_leaves_the_place_free() -> None:
    driver, session = platform(limits=Limits(max_output_bytes=600, max_output_total_bytes=1200))
    assert refusal(driver, session, "x" * 600) == "limits.max_output_bytes"
    assert (
        refusal(driver, session, [{"type": "image", "data": "", "mimeType": "i/p"}] * 20) == "limits.max_output_bytes"
    )
    driver.conn.prompt(session, "hi", identity="run-1")


def test_P7_only_the_result_frees_the_place() -> None:
    driver, session = platform()
    id = driver.conn.prompt(session, "hi", identity="run-1")
    assert refusal(driver, session) == "turn.one_at_a_time"
    driver.sent()
    assert names(driver.drain()) == ["PromptSent"]
    assert refusal(driver, session) == "turn.one_at_a_time"
    driver.feed(chunk("s1", "all of it"), permission(0, "s1"))
    assert refusal(driver, session) == "turn.one_at_a_time"
    # A cancel that was written is no end, and neither is one that was not answered in time.
    driver.conn.cancel_turn(session)
    driver.sent()
    assert refusal(driver, session) == "turn.one_at_a_time"
    assert one(driver.wait(2.0), SessionFenced).identity == "run-1"
    assert refusal(driver, session) == "turn.one_at_a_time"
    # A close that the agent refuses is none either.
    close = driver.conn.close_session(session)
    driver.sent()
    driver.feed(error(close, -32603))
    assert refusal(driver, session) == "turn.one_at_a_time"
    assert one(driver.feed(result(id, {"stopReason": "cancelled"})), FenceLifted).identity == "run-1"
    driver.conn.prompt(session, "more", identity="run-2")


@pytest.mark.parametrize("answer", ["result", "error", "nonsense"])
def test_P7_a_result_frees_the_place_whatever_it_says(answer: str) -> None:
    driver, session = platform()
    id = driver.conn.prompt(session, "hi", identity="run-1")
    driver.sent()
    body = {"result": result(id, {"stopReason": "end_turn"}), "error": error(id, -1), "nonsense": result(id, 7)}[answer]
    driver.feed(body)
    driver.conn.prompt(session, "more", identity="run-2")


def test_P7_the_place_is_that_of_a_session_or_of_the_connection() -> None:
    for one_turn, second in (("session", None), ("connection", "turn.one_at_a_time")):
        driver, session = platform(Admission(one_turn=one_turn))
        other = driver.open("s2")
        driver.conn.prompt(session, "hi", identity="run-1")
        assert [*driver.conn.busy_sessions] == [session]
        if second is None:
            driver.conn.prompt(other, "hi", identity="run-2")
            assert [*driver.conn.busy_sessions] == [session, other]
        else:
            assert refusal(driver, other, identity="run-2") == second


def test_P7_the_place_of_a_connection_is_kept_by_a_waiting_prompt_and_by_a_fence() -> None:
    driver, session = platform(Admission(one_turn="connection"))
    opening = driver.conn.open_session(CWD)
    driver.conn.prompt(opening, "waits", identity="run-1")
    assert [*driver.conn.busy_sessions] == [opening]
    assert refusal(driver, session) == "turn.one_at_a_time"
    driver.conn.cancel_turn(opening)
    id = driver.conn.prompt(session, "hi", identity="run-2")
    driver.sent()
    driver.feed(result(3, {"sessionId": "s2"}))
    driver.conn.cancel_turn(session)
    driver.sent()
    driver.wait(2.0)
    assert [*driver.conn.busy_sessions] == []
    assert refusal(driver, opening, identity="run-3") == "turn.one_at_a_time"
    driver.feed(result(id, {"stopReason": "cancelled"}))
    driver.conn.prompt(opening, "hi", identity="run-3")


def test_P7_one_turn_is_one_of_two_words() -> None:
    with pytest.raises(LocalProtocolError, match="one_turn"):
        Admission(one_turn="host")


def test_P8_a_failure_is_one_event_and_frees_the_place() -> None:
    driver, session = platform()
    id = driver.conn.prompt(session, "hi", identity="run-1", token="t")
    driver.sent()
    failed = one(driver.feed(error(id, -32603, "broken"), error(id, -32603, "again")), TurnFailed)
    assert (failed.identity, failed.token, failed.outcome, str(failed.error)) == (
        "run-1",
        "t",
        "error",
        "broken (-32603)",
    )
    driver.conn.prompt(session, "more", identity="run-2")


def test_P9_a_result_that_settles_after_close_began_admits_nothing() -> None:
    owner = Owner(*platform())
    owner.prompt()
    owner.close()
    owner.answer("end_turn")
    assert owner.session.state == "idle"
    assert owner.refused() == "turn.closing"


def test_P10_a_turn_is_refused_for_good_from_the_first_close_on() -> None:
    owner = Owner(*platform(), at_once=("command", "bridge"))
    assert owner.plan.begun is False
    owner.close()
    assert owner.refused() == "turn.closing"
    owner.end(RUNTIME, OSError("still there"))
    assert (owner.plan.attempting, owner.plan.closed) == (False, False)
    assert owner.refused() == "turn.closing"
    # A session that is opened afterwards takes none either.
    owner.session = owner.driver.open("s2")
    assert owner.refused() == "turn.closing"
    assert CANCEL not in owner.running


def test_P10_a_prompt_that_waits_when_closing_begins_is_withdrawn() -> None:
    driver, _ = platform()
    owner = Owner(driver, driver.conn.open_session(CWD))
    owner.driver.conn.prompt(owner.session, "waits", identity="run-1")
    owner.close()
    failed = one(driver.log, TurnFailed)
    assert (failed.outcome, failed.dispatch, failed.identity) == ("withdrawn", "not_sent", "run-1")
    assert owner.plan.states[CANCEL] == "done"
    driver.sent()
    driver.feed(result(3, {"sessionId": "s2"}))
    assert owner.session.state == "idle"
    assert driver.sent() == []


# ── The identity ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_identity_is_on_every_event_of_its_turn() -> None:
    driver, session = platform()
    id = driver.conn.prompt(session, "hi", identity="run-1")
    driver.sent()
    driver.drain()
    driver.feed(
        chunk("s1", "a"),
        permission(0, "s1"),
        request(1, "fs/read_text_file", {"sessionId": "s1", "path": "/a"}),
        notification("$/cancel_request", {"requestId": 1}),
        # Its id is used again: the older one is abandoned.
        request(1, "fs/read_text_file", {"sessionId": "s1", "path": "/b"}),
    )
    driver.conn.cancel_turn(session)
    driver.sent()
    driver.wait(2.0)
    driver.feed(result(id, {"stopReason": "cancelled"}))
    kinds = (
        PromptSent,
        Update,
        PermissionRequested,
        PermissionAnswered,
        ReadTextFileRequested,
        CancelRequested,
        RequestAbandoned,
        TurnFailed,
        SessionFenced,
        FenceLifted,
    )
    seen = [event for event in driver.log if isinstance(event, kinds)]
    assert {kind for kind in kinds for event in seen if isinstance(event, kind)} == {*kinds}
    assert {event.identity for event in seen} == {"run-1"}
    id = driver.conn.prompt(session, "more", identity="run-2")
    driver.sent()
    assert one(driver.feed(result(id, {"stopReason": "end_turn"})), TurnEnded).identity == "run-2"
    # Between turns there is nobody to name.
    assert one(driver.feed(chunk("s1", "idle")), Update).identity is None


def test_the_identity_is_in_the_snapshot_and_comes_back_with_the_turn() -> None:
    driver, session = platform()
    id = driver.conn.prompt(session, "hi", identity="run-1")
    driver.sent()
    driver.drain()
    kept = [json.dumps(driver.conn.snapshot())]
    # Behind a fence it is the turn whose answer may still come.
    driver.conn.cancel_turn(session)
    driver.sent()
    driver.wait(2.0)
    kept.append(json.dumps(driver.conn.snapshot()))
    for number, stored in enumerate(kept):
        later = ClientDriver(
            ClientConnection(nonce=f"later{number}", restore=json.loads(stored), admission=Admission())
        )
        again = later.conn.attach("s1", id, deadline=60.0)
        later.conn.data_to_send(later.now)
        assert again.turn is not None
        assert again.turn.identity == "run-1"
        with pytest.raises(LocalProtocolError) as caught:
            later.conn.prompt(again, "more", identity="run-2")
        assert caught.value.rule == "turn.one_at_a_time"
        assert one(later.feed(as_line(result(id, {"stopReason": "end_turn"}))[:-1]), TurnEnded).identity == "run-1"


def test_without_admission_nothing_but_the_one_turn_is_asked_for() -> None:
    driver, session = idle_client()
    driver.conn.prompt(session, "x" * (2 * MIB), identity=None)
    assert driver.conn.busy_sessions == (session,)
    with pytest.raises(LocalProtocolError) as caught:
        driver.conn.prompt(session, "more")
    assert caught.value.rule == "turn.one_at_a_time"
