"""Rules N1 to N6: noise, usage, metadata, failures that stay where they are. One test a rule, named after it."""

from __future__ import annotations

import pytest

from acp_core import (
    AgentMessageChunk,
    ConnectionOver,
    CycleEnded,
    LocalProtocolError,
    Malformed,
    Noise,
    TurnEnded,
    TurnFailed,
    Update,
)
from acp_core.transcript import Transcript
from acp_core.usage import turn_usage
from tests.core.helpers import (
    as_line,
    chunk,
    client,
    idle_client,
    names,
    one,
    only,
    prompting_client,
    request,
    result,
    update,
)


def test_N1_what_is_no_message_is_text_of_the_runtime_and_never_answered() -> None:
    driver, session, prompt = prompting_client()
    lines: list[str | bytes] = [
        "warning: something",
        "42",
        "null",
        '"x"',
        "[1, 2]",
        "{}",
        f'{{"id": {prompt}, "result": {{"stopReason": "end_turn"}}}}',
        f'{{"jsonrpc": "1.0", "id": {prompt}, "result": {{}}}}',
        '{"id": 7, "method": "session/request_permission", "params": {}}',
        '{"jsonrpc": "2.0", "id": [7], "method": "_x"}',
        '{"half',
        b"\xff\xfe",
    ]
    events = driver.feed(*lines)
    told = [event for event in events if isinstance(event, (Noise, Malformed))]
    assert len(events) == len(told) == len(lines)
    assert [event.raw + b"\n" for event in told] == [as_line(line) for line in lines]
    assert told[0].text == "warning: something"  # type: ignore[union-attr]  # it is noise
    # Nothing is answered, nothing has settled, and the connection lives.
    assert driver.sent() == []
    assert session.state == "prompting"
    assert one(driver.feed(result(prompt, {"stopReason": "end_turn"})), TurnEnded).known


def test_N2_lines_are_read_with_either_end_and_written_with_one() -> None:
    driver, session, prompt = prompting_client()
    driver.conn.receive_data(b"\n\r\n  \n" + as_line(chunk("s1", "a"))[:-1] + b"\r\n\n", driver.now)
    events = driver.drain()
    assert names(events) == ["AgentMessageChunk"]
    assert not one(events, AgentMessageChunk).raw.endswith(b"\r")
    driver.feed(result(prompt, {"stopReason": "end_turn"}))
    driver.conn.prompt(session, "two\nlines\r\nand \x85 \u2028 \udc80")
    driver.conn.request("_x", {"text": "a\nb\r"})
    driver.conn.cancel_turn(session)
    data = driver.conn.data_to_send(driver.now)
    assert data.endswith(b"\n")
    assert b"\r" not in data
    written = data[:-1].split(b"\n")
    assert all(line.startswith(b'{"jsonrpc":"2.0"') and line.endswith(b"}") for line in written)
    assert data.decode("utf-8")


def test_N3_no_usage_is_not_zero_usage() -> None:
    quota = {"_meta": {"quota": {"token_count": {"input_tokens": "12", "output_tokens": 3.0}}}}
    for answer, source, tokens in (
        ({"usage": {"inputTokens": 0, "outputTokens": 2}, **quota}, "usage", (0, 2)),
        (quota, "quota", (12, 3.0)),
        ({"_meta": {"inputTokens": 5, "outputTokens": "1e2"}}, "meta", (5, 100.0)),
        ({"usage": {"inputTokens": -1, "outputTokens": 2}}, "usage", (None, 2)),
    ):
        driver, _, prompt = prompting_client()
        ended = one(driver.feed(result(prompt, {"stopReason": "end_turn", **answer})), TurnEnded)
        usage = turn_usage(ended.result)
        assert usage is not None
        assert (usage.source, (usage.input_tokens, usage.output_tokens)) == (source, tokens)
    nothing: list[object] = [
        {},
        {"usage": {"inputTokens": True}},
        {"usage": None},
        {"_meta": {"inputTokens": "many"}},
        3,
    ]
    assert [turn_usage(answer) for answer in nothing] == [None] * 5


def test_N4_metadata_is_no_activity() -> None:
    driver, session = idle_client()
    kinds = ("session_info_update", "available_commands_update", "current_mode_update", "config_option_update")
    meta = {"_claude/origin": {"kind": "peer"}}
    events = driver.feed(*(update("s1", kind, _meta=meta) for kind in kinds))
    # Reported, and that is all: no cycle, no turn, no other state, and a prompt may go out at once.
    assert [event.kind for event in only(events, Update)] == list(kinds)
    assert len(events) == len(kinds)
    assert only(driver.log, CycleEnded) == []
    assert {event.turn for event in only(events, Update)} == {None}
    assert (session.state, session.turn) == ("idle", None)
    assert driver.conn.next_deadline() is None
    driver.prompt(session)


def test_N5_a_failure_of_the_protocol_fails_the_turn_and_nothing_else() -> None:
    driver, session, prompt = prompting_client()
    other = driver.conn.open_session("/other")
    (message,) = driver.sent()
    driver.feed(result(message["id"], {"sessionId": "s2"}))
    running = driver.prompt(other)
    for broken in ({"result": {}, "error": {"code": 1, "message": ""}}, {"error": "a string"}):
        failed = one(driver.feed({"jsonrpc": "2.0", "id": prompt, **broken}), TurnFailed)
        assert (failed.outcome, failed.prompt_id) == ("invalid", prompt)
        assert session.state == "idle"
        # The other session's turn is untouched, and this one takes the next prompt.
        assert other.state == "prompting"
        prompt = driver.prompt(session)
    # Receiving raises for nothing that the agent sends, and what raises for the owner has changed nothing.
    driver.feed(request(0, "session/request_permission", {"sessionId": "s1"}), "}", '{"jsonrpc":"2.0"}')
    with pytest.raises(LocalProtocolError):
        driver.conn.prompt(session, "another")
    ended = driver.feed(*(result(id, {"stopReason": "end_turn"}) for id in (prompt, running)))
    assert [event.prompt_id for event in only(ended, TurnEnded)] == [prompt, running]
    # The end of the agent is an event of each turn, not an exception for the owner.
    turns = [driver.prompt(session), driver.prompt(other)]
    events = driver.end()
    assert [event.prompt_id for event in only(events, TurnFailed)] == turns
    assert isinstance(events[-1], ConnectionOver)


def test_N6_tool_calls_still_open_at_the_turns_end_are_closed_in_the_transcript() -> None:
    driver = client().initialize()
    session = driver.open("s1")
    prompt = driver.prompt(session)
    driver.feed(
        update("s1", "tool_call", toolCallId="a", title="A", status="in_progress"),
        update("s1", "tool_call", toolCallId="b", title="B", status="completed"),
        update("s1", "tool_call_update", toolCallId="never announced", status="pending"),
        result(prompt, {"stopReason": "end_turn"}),
    )
    transcript = Transcript()
    for event in driver.log:
        transcript.add(event)
    calls = {call.tool_call_id: call for call in transcript.tool_calls}
    assert {id: call.ended for id, call in calls.items()} == dict.fromkeys(("a", "b", "never announced"), True)
    # Marked so, and the agent's own last word is kept.
    assert {id: call.display_state for id, call in calls.items()} == {
        "a": "closed_by_turn_end",
        "b": "completed",
        "never announced": "closed_by_turn_end",
    }
    assert (calls["a"].status, calls["b"].status) == ("in_progress", "completed")
