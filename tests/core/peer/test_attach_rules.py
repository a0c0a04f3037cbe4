"""Rules A1 to A6: going on with a turn that an earlier owner started. One test a rule, named after it."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from acp_core import (
    AgentMessageChunk,
    AnswerUnmatched,
    ClientConnection,
    LocalProtocolError,
    PermissionAnswered,
    PermissionRequested,
    Policy,
    ReadTextFileRequested,
    RequestAbandoned,
    RequestRefused,
    RequestRepeated,
    SessionFenced,
    TailDropped,
    TailHistory,
    TailOver,
    TailRequest,
    TurnEnded,
    TurnFailed,
    Update,
    compare_tail,
)
from acp_core.attach import SNAPSHOT
from tests.core.helpers import (
    CWD,
    FULL_CLIENT,
    ClientDriver,
    Message,
    as_line,
    chunk,
    client,
    decode_output,
    error,
    idle_client,
    names,
    notification,
    one,
    only,
    permission,
    prompting_client,
    request,
    result,
    update,
)

STEP = 1 << 20
QUIET = 0.5


def attached(
    prompt: int | None = 3, restore: object = None, *, deadline: float | None = 60.0, **how: object
) -> ClientDriver:
    """A new owner of session "s1" and its prompt, before any input."""
    conn = ClientConnection(
        nonce="next",
        capabilities=FULL_CLIENT,
        restore=restore,  # type: ignore[arg-type]  # a snapshot
        **how,  # type: ignore[arg-type]  # passed through
    )
    driver = ClientDriver(conn)
    driver.conn.attach("s1", prompt, deadline=deadline)
    assert driver.conn.data_to_send(driver.now) == b"\n"
    return driver


def stored(value: object) -> dict[str, object]:
    """A snapshot after it was stored and read."""
    found = json.loads(json.dumps(value))
    assert isinstance(found, dict)
    return found


def test_A1_attach_writes_no_request_and_takes_ids_that_nothing_in_the_tail_can_answer() -> None:
    old, _, prompt = prompting_client()
    snapshot = stored(old.conn.snapshot())
    for restore, used in ((snapshot, prompt), (None, prompt), (None, 5 * STEP + 7)):
        driver = attached(used, restore)
        session = driver.conn.session("s1")
        assert session is not None
        assert session.state == "prompting"
        assert driver.drain() == []
        # Answers to what earlier owners asked are history: counted, no failures.
        events = driver.feed(result(1, {}), result(2, {"sessionId": "s1"}), result(used - 1, {}), result(99, {}))
        unmatched = only(events, AnswerUnmatched)
        assert names(events) == ["AnswerUnmatched"] * 4
        assert {event.why for event in unmatched} == {"history"}
        assert one(driver.wait(QUIET), TailOver).answers == 4
        events = driver.feed(result(used, {"stopReason": "end_turn"}))
        assert one(events, TurnEnded).prompt_id == used
        following = driver.conn.prompt(session, "next")
        assert following == (used // STEP + 1) * STEP
        assert [message["id"] for message in driver.sent()] == [following]
    # The snapshot's own next id counts too.
    far = {**snapshot, "nextId": 9 * STEP + 1}
    driver = attached(prompt, far)
    assert driver.conn.request("_x") == 10 * STEP
    # The newline stands before everything else that is ever written, and only once.
    driver = attached(prompt, snapshot)
    driver.conn.cancel_turn("s1")
    assert [message["method"] for message in driver.sent()] == ["session/cancel"]
    with pytest.raises(LocalProtocolError, match="before"):
        driver.feed(chunk("s1", "x"))
        driver.conn.attach("s2", None, deadline=None)


def test_A2_the_answer_ends_the_turn_cancel_reaches_it_and_nothing_hangs() -> None:
    driver = attached()
    ended = one(driver.feed(result(3, {"stopReason": "end_turn"})), TurnEnded)
    assert (ended.prompt_id, ended.stop_reason) == (3, "end_turn")
    # An error ends it too.
    driver = attached()
    failed = one(driver.feed({"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "no"}}), TurnFailed)
    assert (failed.outcome, failed.prompt_id) == ("error", 3)
    # Cancel reaches the session.
    driver = attached()
    driver.conn.cancel_turn("s1", deadline=2.0)
    assert [message["method"] for message in driver.sent()] == ["session/cancel"]
    ended = one(driver.feed(result(3, {"stopReason": "cancelled"})), TurnEnded)
    assert (ended.stop_reason, ended.cancel_asked) == ("cancelled", "owner")
    # An answer that is already gone: unknown, in time.
    with pytest.raises(LocalProtocolError, match="deadline"):
        ClientConnection(nonce="x").attach("s1", 3, deadline=None)
    driver = attached(deadline=60.0)
    driver.wait(59.0)
    assert only(driver.log, TurnFailed) == []
    events = driver.wait(1.0)
    failed = one(events, TurnFailed)
    assert (failed.outcome, failed.dispatch) == ("deadline", "sent_no_reply")
    assert "unknown" in str(failed.error)
    assert one(events, SessionFenced).prompt_id == 3


def test_A2_an_unknown_fate_is_a_fence_while_the_session_is_being_closed_too() -> None:
    old, _, prompt = prompting_client()
    driver = attached(prompt, stored(old.conn.snapshot()), deadline=5.0)
    session = driver.conn.session("s1")
    assert session is not None
    driver.conn.close_session(session, deadline=60.0)
    (closing,) = driver.sent()
    events = driver.wait(5.0)
    assert (one(events, TurnFailed).outcome, one(events, SessionFenced).prompt_id) == ("deadline", prompt)
    driver.feed(error(closing["id"], -32603))
    assert session.state == "fenced"
    driver.feed(result(prompt, {"stopReason": "end_turn"}))
    assert session.state == "idle"


def test_A2_a_prompt_waits_for_the_end_of_the_tail() -> None:
    """Its answer could not be told from what is replayed. One waits, and can be withdrawn, as while a session opens."""
    for ended in (False, True):
        driver = attached(3 if ended else None)
        session = driver.conn.session("s1")
        assert session is not None
        if ended:
            with pytest.raises(LocalProtocolError, match="prompting"):
                driver.conn.prompt(session, "too early")
            driver.feed(result(3, {"stopReason": "end_turn"}))
        prompt = driver.conn.prompt(session, "next")
        with pytest.raises(LocalProtocolError, match="waits already"):
            driver.conn.prompt(session, "one more")
        assert driver.sent() == []
        seen = one(driver.feed(chunk("s1", "replayed")), AgentMessageChunk)
        assert (seen.mark, seen.turn) == ("tail", None)
        asked = permission(0, "s1", title="in the tail")
        driver.feed(asked)
        events = driver.wait(QUIET)
        assert names(events) == ["TailOver", "PermissionRequested"]
        assert [message["id"] for message in driver.sent()] == [prompt]
        live = one(driver.feed(chunk("s1", "live")), AgentMessageChunk)
        assert live.turn is not None
        assert (live.mark, live.turn.prompt_id) == ("", prompt)
    # Withdrawn, or given up in time, before the tail is over.
    for how in ("cancel", "deadline", "close"):
        driver = attached(None, restorable())
        session = driver.conn.session("s1")
        assert session is not None
        driver.conn.prompt(session, "next", deadline=0.25 if how == "deadline" else None)
        if how == "cancel":
            driver.conn.cancel_turn(session)
        elif how == "close":
            driver.conn.close_session(session)
            (closing,) = driver.sent()
            driver.wait(QUIET)
            assert driver.sent() == []
            # The agent refuses, and the prompt that waited goes out now.
            driver.feed(error(closing["id"], -32603))
            assert (session.state, len(driver.sent())) == ("prompting", 1)
            continue
        assert driver.sent() == []
        driver.feed(chunk("s1", "x"))
        events = [*driver.drain(), *driver.wait(0.25), *driver.wait(QUIET)]
        assert one(driver.log, TurnFailed).dispatch == "not_sent"
        assert names(events)[-1] == "TailOver"
        assert (session.state, driver.sent()) == ("idle", [])


def restorable() -> dict[str, object]:
    """The snapshot of an owner whose session is idle."""
    old, _ = idle_client()
    return stored(old.conn.snapshot())


def tail_of(lines: Iterable[Message], cut: int) -> bytes:
    return b"".join(map(as_line, lines))[cut:]


def test_A3_the_tail_starts_anywhere_in_a_line() -> None:
    lines = [chunk("s1", 'é{}\\" ünd'), chunk("s1", "zwei"), result(3, {"stopReason": "end_turn"})]
    first = as_line(lines[0])
    for cut in range(len(first) + 1):
        driver = attached()
        driver.conn.receive_data(tail_of(lines, cut), driver.now)
        events = driver.drain()
        texts = [event.text for event in only(events, AgentMessageChunk)]
        dropped = only(events, TailDropped)
        assert texts == (['é{}\\" ünd', "zwei"] if cut == 0 else ["zwei"])
        assert one(events, TurnEnded).stop_reason == "end_turn"
        # What was dropped is reported, to its last byte.
        whole = cut in (0, len(first))
        assert [event.raw for event in dropped] == ([] if whole else [first[cut:-1]])
        assert names(events)[0] == ("AgentMessageChunk" if whole else "TailDropped")
    # A fragment whose end has not come yet is held, not judged.
    driver = attached()
    driver.conn.receive_data(first[:20], driver.now)
    assert driver.drain() == []
    driver.conn.receive_data(first[20:], driver.now)
    assert one(driver.drain(), AgentMessageChunk).text == 'é{}\\" ünd'


def line(index: int) -> bytes:
    return b'{"n":%d}' % index


def test_A4_the_tail_is_reported_with_its_lines_and_compared_by_content() -> None:
    driver = attached()
    sent = [chunk("s1", text) for text in ("seen", "also seen", "new")]
    updates = only(driver.feed(*sent), Update)
    assert [(event.mark, event.raw + b"\n") for event in updates] == [("tail", as_line(message)) for message in sent]
    found = compare_tail([as_line(message)[:-1] for message in sent[:2]], [event.raw for event in updates])
    assert (found.overlap, found.ambiguous, found.gap) == (2, False, False)
    assert found.new == [as_line(sent[2])[:-1]]
    # After the tail nothing may have been seen before.
    driver.wait(QUIET)
    assert one(driver.feed(chunk("s1", "live")), Update).mark == ""
    seven = [line(index) for index in range(7)]
    # Distinct lines: exact, wherever the tail begins.
    for begin in range(6):
        for end in range(begin + 1, 7):
            found = compare_tail(seven[:end], seven[begin:])
            assert (found.new, found.overlap, found.ambiguous, found.gap) == (seven[end:], end - begin, False, False)
    # The cut line is evidence: what contradicts it is no overlap; what was never stored contradicts nothing.
    assert compare_tail(seven[:4], seven[2:], b'"n":1}').overlap == 2
    assert compare_tail(seven[:4], seven[2:], b'"n":5}').gap
    assert compare_tail(seven[2:4], seven[2:], b'"n":1}').overlap == 2
    # Nothing whole in both: lines may be missing, and it says so.
    for tail, dropped in ((seven[5:], b""), (seven[5:], b"}"), ([], b""), ([], b'"n":9}')):
        found = compare_tail(seven[:5], tail, dropped)
        assert (found.new, found.overlap, found.gap) == (tail, 0, True)
    # So too where nothing was stored: only the owner can know that a tail goes back to the first line there was.
    assert compare_tail([], seven).gap
    assert compare_tail([], seven, b"}").gap
    assert not compare_tail([], []).gap
    # Equal lines allow more than one answer: the longest overlap is taken, and it says so.
    same, other = line(0), line(1)
    for known, tail, overlap in (
        ([same, same], [same, same, other], 2),
        ([same], [same, same, other], 1),
        ([same, other, same], [same, other, same, line(2)], 3),
        ([same, other, same], [same, line(2)], 1),
    ):
        found = compare_tail(known, tail)
        assert (found.overlap, found.ambiguous, found.new) == (overlap, True, tail[overlap:])
    assert not compare_tail([same, other], [other, line(2), line(2)]).ambiguous


def test_A4_a_history_that_was_replayed_before_is_told_from_what_was_live() -> None:
    """The tail reaches back to a session/load of the earlier owner, which discarded what was replayed."""
    history = [chunk("s1", "old one"), chunk("s1", "old two"), chunk("s1", "old three")]
    live = [chunk("s1", "new one"), chunk("s1", "new two")]
    for behind in range(4):
        old = client().initialize({"loadSession": True})
        session, id = old.load("s1")
        lines = [*history[behind:], result(id, {}), *history[:behind], *live]
        old.feed(*lines[:-2])
        old.wait(0.25)
        prompt = old.prompt(session)
        stored = [event.raw for event in only(old.feed(live[0]), Update)]
        snapshot = old.conn.snapshot()
        driver = attached(prompt, snapshot)
        tail: list[Update] = []
        for event in driver.feed(chunk("s1", "before the load"), *lines):
            if isinstance(event, TailHistory):
                assert event.session is driver.conn.session("s1")
                tail.clear()
            elif isinstance(event, Update) and event.mark == "tail":
                tail.append(event)
        found = compare_tail(stored, [event.raw for event in tail])
        assert (found.new, found.overlap, found.gap) == ([as_line(live[1])[:-1]], 1, False)
        # The next owner knows it too, and a tail that begins later has nothing to leave out.
        driver.wait(QUIET)
        assert driver.conn.snapshot()["sessions"] == snapshot["sessions"]
        again = attached(prompt, {**snapshot, "nonce": "other"})
        assert only(again.feed(*live), TailHistory) == []


def test_A4_a_tail_that_begins_inside_a_history_is_never_taken_for_news_in_silence() -> None:
    """The agent has answered the load before it replays, and that answer is older than the tail: nothing in the tail
    tells the history from what was live, so the comparison says that it does not know."""
    for live in (
        ["new one", "new two", "new three"],
        ["old two", "old three", "new"],
        ["old two", "old two", "old two"],
    ):
        history = [chunk("s1", text) for text in ("old one", "old two", "old three")]
        old = client().initialize({"loadSession": True})
        session, id = old.load("s1")
        old.feed(result(id, {}), *history)
        old.wait(0.25)
        prompt = old.prompt(session)
        snapshot = stored(old.conn.snapshot())
        said = [chunk("s1", text) for text in live]
        for seen in range(len(said) + 1):
            known = [as_line(message)[:-1] for message in said[:seen]]
            for begin in range(len(history)):
                driver = attached(prompt, snapshot)
                tail = only(driver.feed(*history[begin:], *said), Update)
                assert only(driver.log, TailHistory) == []
                found = compare_tail(known, [update.raw for update in tail])
                assert found.gap or found.ambiguous


def test_A4_every_whole_line_of_the_tail_is_reported_with_its_line() -> None:
    """Updates, answers, requests whatever becomes of them, and noise: an owner can compare all that it stored."""
    old, prompt, lines = asking()
    for snapshot in (stored(old.conn.snapshot()), None):
        said: list[Message | str] = [
            result(2, {"sessionId": "s1"}),
            chunk("s1", "x"),
            *lines,
            "noise",
            permission(7, "s1", title="first with its id"),
            permission(7, "s1", title="second with its id"),
            permission(8, "s1", title="of the turn that ends"),
            request(9, "fs/read_text_file", {"sessionId": "s1", "path": "/g"}),
            request(10, "unknown/method", {}),
            notification("_note", {}),
            update("other", "plan", entries=[]),
            result(prompt, {"stopReason": "end_turn"}),
        ]
        driver = attached(prompt, snapshot)
        events = [*driver.feed(*said), *driver.wait(QUIET)]
        seen = [event.line for event in events if hasattr(event, "line")]
        texts = [as_line(line)[:-1].decode() for line in said]
        # Each at least once; one that is answered and told as abandoned or cancelled may be there again.
        assert {line for line in seen if isinstance(line, str)} == set(texts)
        history = only(events, TailRequest)
        assert one(events, TailOver).requests == len(history)
        assert [(event.rpc_id, event.why, event.session_id) for event in history] == (
            [(0, "answered", "s1"), (7, "reused", "s1")]
            if snapshot is not None
            else [(7, "reused", "s1"), *((id, "turn_over", "s1") for id in (0, 1, 2, 7, 8, 9))]
        )
        assert history[0].method == "session/request_permission"
        assert history[0].params == (lines[0] if snapshot is not None else said[6])["params"]  # type: ignore[index]


def asking() -> tuple[ClientDriver, int, list[Message]]:
    """An owner with one permission answered, one held, and one file request open: driver, prompt, the lines."""
    driver, _, prompt = prompting_client()
    lines = [
        permission(0, "s1", title="answered"),
        permission(1, "s1", title="held"),
        request(2, "fs/read_text_file", {"sessionId": "s1", "path": "/f"}),
    ]
    answered, _, _ = driver.feed(*lines)
    assert isinstance(answered, PermissionRequested)
    driver.conn.answer_permission(answered.request_id, "yes")
    driver.sent()
    return driver, prompt, lines


def test_A5_requests_in_the_tail_are_history_still_open_or_raised_once_it_is_over() -> None:
    old, prompt, lines = asking()
    _, held = only(old.log, PermissionRequested)
    reading = one(old.log, ReadTextFileRequested)
    snapshot = stored(old.conn.snapshot())
    unseen = permission(9, "s1", title="unseen")
    driver = attached(prompt, snapshot)
    events = driver.feed(*lines, chunk("s1", "x"), unseen)
    # The answered one is history, the open ones are not raised again, the new one waits for the tail's end.
    assert [event.request_id for event in only(events, RequestRepeated)] == [held.request_id, reading.request_id]
    assert names(events) == ["TailRequest", "RequestRepeated", "RequestRepeated", "AgentMessageChunk"]
    assert driver.sent() == []
    events = driver.wait(QUIET)
    assert one(events, TailOver).requests == 1
    raised = one(events, PermissionRequested)
    assert (raised.title, raised.replayed) == ("unseen", True)
    # Ids of the earlier owner still work, once.
    driver.conn.answer_permission(held.request_id, "no")
    driver.conn.respond(reading.request_id, {"content": ""})
    driver.conn.answer_permission(raised.request_id, "yes")
    assert [message["id"] for message in driver.sent()] == [1, 2, 9]
    with pytest.raises(LocalProtocolError):
        driver.conn.answer_permission(held.request_id, "no")
    # The owner may say that the tail is over; a restored permission is not held for ever either.
    driver = attached(prompt, snapshot, permissions=Policy(ask_deadline=30.0))
    driver.feed(unseen)
    driver.conn.end_tail()
    assert names(driver.drain()) == ["TailOver", "PermissionRequested"]
    driver.conn.answer_permission(one(driver.log, PermissionRequested).request_id, None)
    answered = one(driver.wait(30.0), PermissionAnswered)
    assert (answered.request_id, answered.by, answered.option_id) == (held.request_id, "deadline", "no")
    # A turn that ended in the tail takes its questions with it, and an id that came again the older one.
    driver = attached(prompt, None)
    events = driver.feed(unseen, permission(9, "s1", title="later"))
    assert one(events, TailRequest).why == "reused"
    assert [event.title for event in only(driver.wait(QUIET), PermissionRequested)] == ["later"]
    driver = attached(prompt, None)
    assert names(driver.feed(unseen)) == []
    events = driver.feed(result(prompt, {"stopReason": "end_turn"}))
    assert (one(events, TailRequest).why, one(events, TailRequest).rpc_id) == ("turn_over", 9)
    assert only(driver.wait(QUIET), PermissionRequested) == []
    # With a snapshot it is known that nobody has seen them: they are answered, and the handlers' ones are raised.
    driver = attached(prompt, snapshot)
    files = request(8, "fs/read_text_file", {"sessionId": "s1", "path": "/g"})
    events = driver.feed(unseen, files, result(prompt, {"stopReason": "end_turn"}))
    assert [event.rpc_id for event in only(events, RequestRefused)] == [9]
    assert [event.rpc_id for event in only(events, PermissionAnswered)] == [1]
    assert [(message["id"], message["result"]) for message in driver.sent()] == [
        (1, {"outcome": {"outcome": "cancelled"}}),
        (9, {"outcome": {"outcome": "cancelled"}}),
    ]
    assert [event.rpc_id for event in only(driver.wait(QUIET), ReadTextFileRequested)] == [8]
    # What is collected is bounded by the same limit as open requests.
    driver = attached(prompt, None)
    limit = driver.conn.limits.max_incoming_requests
    driver.feed(*(permission(index, "s1") for index in range(limit - 1)))
    assert only(driver.log, TailOver) == []
    assert len(only(driver.feed(permission(limit, "s1")), PermissionRequested)) == limit


def test_A5_a_connection_that_ends_in_its_tail_says_what_stood_there() -> None:
    old, _, prompt = prompting_client()
    snapshot = stored(old.conn.snapshot())
    lines = [permission(0, "s1"), request(1, "fs/read_text_file", {"sessionId": "s1", "path": "/f"})]
    for end in ("close", "abort", "eof"):
        for known in (snapshot, None):
            driver = attached(prompt, known)
            driver.feed(*lines)
            if end == "close":
                driver.conn.close()
            elif end == "abort":
                driver.conn.abort()
            else:
                driver.conn.receive_eof(driver.now)
            events = driver.drain()
            driver.conn.end_tail()
            assert driver.drain() == []
            assert names(events)[-2:] == ["TailOver", "ConnectionOver"]
            told = [event.rpc_id for event in events if isinstance(event, (TailRequest, RequestRefused))]
            assert sorted(told, key=str) == [0, 1]
            assert driver.conn.open_peer_requests == 0
            if end == "close" and known is not None:
                # Nobody has seen the question: the agent is not left with it.
                cancelled = {"outcome": {"outcome": "cancelled"}}
                assert [(message["id"], message["result"]) for message in driver.sent()] == [(0, cancelled)]


def test_A5_an_answer_whose_bytes_may_not_have_left_is_not_given_again() -> None:
    """A snapshot is stored before the write. Should the bytes not have arrived, the turn's deadline is the bound."""
    old, _, prompt = prompting_client()
    question = permission(0, "s1", title="Bash")
    asked = one(old.feed(question), PermissionRequested)
    before = stored(old.conn.snapshot())
    old.conn.answer_permission(asked.request_id, "yes")
    assert b'"yes"' in old.conn.data_to_send(old.now)
    driver = attached(prompt, stored(old.conn.snapshot()), deadline=60.0)
    assert one(driver.feed(question), TailRequest).why == "answered"
    driver.wait(QUIET)
    assert driver.sent() == []
    assert one(driver.wait(60.0), TurnFailed).outcome == "deadline"
    # An owner that knows it, since its relay counts what it has given, restores the snapshot before: that one asks.
    driver = attached(prompt, before)
    assert one(driver.feed(question), RequestRepeated).request_id == asked.request_id
    driver.conn.answer_permission(asked.request_id, "yes")
    assert [message["id"] for message in driver.sent()] == [0]


def test_A5_nothing_is_allowed_by_itself_when_it_may_have_been_answered_before() -> None:
    allowing = Policy({"default": "allow"})
    unseen = permission(0, "s1", title="unseen")
    # Without a snapshot every request of the tail is asked; behind the tail the policy counts.
    driver = attached(permissions=allowing)
    driver.feed(unseen)
    assert one(driver.wait(QUIET), PermissionRequested).replayed
    driver.feed(permission(1, "s1", title="live"))
    assert one(driver.log, PermissionAnswered).verdict == "allow"
    # With one, the policy answers what the earlier owner has not seen.
    old, _, prompt = prompting_client()
    driver = attached(prompt, stored(old.conn.snapshot()), permissions=allowing)
    driver.feed(unseen)
    assert one(driver.wait(QUIET), PermissionAnswered).verdict == "allow"
    # But not a tool call whose name may have been said before the tail began.
    driver.feed(permission(1, "s1", toolCallId="named long ago"))
    assert one(driver.log, PermissionRequested).rpc_id == 1
    # A deny needs no name.
    driver = attached(permissions=Policy({"default": "deny"}))
    driver.feed(permission(1, "s1"))
    assert one(driver.wait(QUIET), PermissionAnswered).verdict == "deny"


def test_A6_the_snapshot_is_one_small_value_that_restores_several_turns_at_once() -> None:
    secret = {"name": "m", "command": "/m", "args": [], "env": [{"name": "KEY", "value": "hunter2"}]}
    driver, first = idle_client(permissions=None)
    second = driver.conn.open_session("/two", mcp_servers=[secret], meta={"token": "hunter2"})
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"sessionId": "s2"}))
    idle = driver.conn.open_session("/three")
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"sessionId": "s3"}))
    one_, two = driver.conn.prompt(first, "hunter2", identity="a"), driver.conn.prompt(second, "x", identity="b")
    driver.sent()
    driver.feed(permission(0, "s1", rawInput={"password": "hunter2"}), permission(1, "s2"))
    text = json.dumps(driver.conn.snapshot())
    assert "hunter2" not in text
    assert len(text) < 4096
    snapshot = stored(driver.conn.snapshot())
    names_ = ("sessionId", "cwd", "promptId", "identity")
    assert [tuple(row[name] for name in names_) for row in only_sessions(snapshot)] == [
        ("s1", CWD, one_, "a"),
        ("s2", "/two", two, "b"),
        ("s3", "/three", None, None),
    ]
    assert snapshot["nonce"] == "test"
    assert idle.state == "idle"
    restored = ClientDriver(ClientConnection(nonce="next", restore=snapshot))
    conn = restored.conn
    for session_id, prompt in (("s1", one_), ("s2", two), ("s3", None)):
        conn.attach(session_id, prompt, deadline=60.0)
    assert conn.peer_capabilities == driver.conn.peer_capabilities
    assert conn.data_to_send(restored.now) == b"\n"
    events = restored.feed(chunk("s1", "x"), chunk("s2", "y"), permission(1, "s2"))
    assert [event.identity for event in only(events, Update)] == ["a", "b"]
    assert one(events, RequestRepeated).rpc_id == 1
    # Both turns end by themselves, and their open questions with them.
    events = restored.feed(result(two, {"stopReason": "end_turn"}), result(one_, {"stopReason": "refusal"}))
    assert [(event.identity, event.stop_reason) for event in only(events, TurnEnded)] == [
        ("b", "end_turn"),
        ("a", "refusal"),
    ]
    assert [event.rpc_id for event in only(events, PermissionAnswered)] == [1, 0]
    restored.wait(QUIET)
    conn.prompt("s3", "go on")
    assert [message.get("method") for message in restored.sent()] == [None, None, "session/prompt"]
    # A prompt counts once it was handed over, and a session once it is open.
    unsent, session = idle_client()
    unsent.conn.prompt(session, "hi")
    opening = unsent.conn.open_session("/four", resume="s4")
    (row,) = only_sessions(unsent.conn.snapshot())
    assert (row["sessionId"], row["promptId"]) == ("s1", None)
    assert opening.state == "resuming"
    # Behind a fence it is the prompt whose answer may still come.
    fenced, session, prompt = prompting_client()
    fenced.conn.cancel_turn(session)
    fenced.sent()
    fenced.wait(2.0)
    assert [row["promptId"] for row in only_sessions(fenced.conn.snapshot())] == [prompt]
    # Its size has a limit, and so has what it takes.
    big, _ = idle_client()
    for number in range(900):
        big.feed(permission(number, "s1", options=[{"optionId": "x" * 500, "name": "n", "kind": "allow_once"}]))
    with pytest.raises(LocalProtocolError, match="snapshot has"):
        big.conn.snapshot()
    wrong: Message
    for wrong in ({}, {**snapshot, "format": 99}, {**snapshot, "nextId": "7"}, {**snapshot, "protocolVersion": 9}):
        with pytest.raises(LocalProtocolError):
            ClientConnection(nonce="next", restore=wrong)
    with pytest.raises(LocalProtocolError, match="nonce"):
        ClientConnection(nonce="test", restore=snapshot)
    # A part that is no such part is not taken for an empty one: a session would be lost in silence.
    row = only_sessions(snapshot)[0]
    numbers = ("promptId", "openedId", "historyLeft")
    asked: Message = {"requestId": "old.1", "rpcId": 1, "key": "", "method": "_x", "params": {}, "print": ""}
    for name, value in (
        *((part, wrong) for part in SNAPSHOT for wrong in (3.5, None)),
        *((part, [3]) for part in ("sessions", "openRequests", "authMethods", "answered")),
        ("format", True),
        ("protocolVersion", True),
        *(("nextId", wrong) for wrong in (True, -1, 2**53)),
        *(("sessions", [{**row, "sessionId": wrong}]) for wrong in (3, "")),
        *(("sessions", [{**row, name: wrong}]) for name in numbers for wrong in ("3", -1)),
        *(("sessions", [{**row, name: 3}]) for name in ("cwd", "identity")),
        *(("openRequests", [{**asked, "rpcId": wrong}]) for wrong in (True, None, 1.5, 10**2000)),
        *(("openRequests", [{**asked, name: None}]) for name in asked),
    ):
        with pytest.raises(LocalProtocolError) as caught:
            ClientConnection(nonce="next", restore={**snapshot, name: value})
        assert caught.value.rule == "snapshot.format"
    with pytest.raises(LocalProtocolError, match="cannot be written as JSON"):
        ClientConnection(nonce="next", restore={**snapshot, "clientCapabilities": {"x": float("nan")}})
    # The table of the earlier owner had more, and what is handled by the agent is open at none of its clients.
    for key in ("mcp_connect", "session_prompt"):
        with pytest.raises(LocalProtocolError, match="give methods=") as caught:
            ClientConnection(nonce="next", restore={**snapshot, "openRequests": [{**asked, "key": key}]})
        assert caught.value.rule == "snapshot.methods"
    # The public ids of an owner before the earlier one are still open, and unique.
    with pytest.raises(LocalProtocolError, match="nonce is the earlier owner's"):
        ClientConnection(nonce="old", restore={**snapshot, "openRequests": [asked]})
    ClientConnection(nonce="next", restore={**snapshot, "openRequests": [{**asked, "rpcId": 10**1000}]})


def test_A6_what_is_restored_does_not_change_with_the_callers_dict() -> None:
    driver, _ = idle_client()
    snapshot = stored(driver.conn.snapshot())
    again = ClientConnection(nonce="next", restore=snapshot)
    told = json.dumps(again.peer_capabilities)
    part = snapshot["agentCapabilities"]
    assert isinstance(part, dict)
    part.clear()
    assert json.dumps(again.peer_capabilities) == told


def only_sessions(snapshot: dict[str, object]) -> list[dict[str, object]]:
    rows = snapshot["sessions"]
    assert isinstance(rows, list)
    return rows


def test_A6_a_restored_request_of_a_session_that_nobody_attached_ends_with_the_connection() -> None:
    old, _, _ = asking()
    driver = ClientDriver(ClientConnection(nonce="next", restore=stored(old.conn.snapshot())))
    driver.conn.attach("other", None, deadline=None)
    driver.conn.close()
    assert [event.rpc_id for event in only(driver.drain(), RequestAbandoned)] == [1, 2]
    answers = decode_output(driver.conn.data_to_send(driver.now)[1:])
    assert [answer.get("result", answer.get("error")) for answer in answers] == [
        {"outcome": {"outcome": "cancelled"}},
        {
            "code": -32800,
            "message": "the connection is closing",
            "data": {"field": "request", "reason": "connection.closing"},
        },
    ]
