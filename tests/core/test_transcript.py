"""The transcript: messages, tool calls and whole states from events; bounds; rendering."""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_core import (
    AgentMessageChunk,
    Event,
    LocalProtocolError,
    PermissionAnswered,
    PermissionRequested,
    Policy,
    Session,
    SessionFenced,
    ToolCallUpdate,
    Update,
)
from acp_core.transcript import (
    ENTRY_WEIGHT,
    MAX_ID_LENGTH,
    MIN_BYTES,
    STATE_SHARE,
    VALUE_WEIGHT,
    Entry,
    MessageEntry,
    ToolCallEntry,
    Transcript,
    TurnEntry,
    UnknownEntry,
)
from tests.core.helpers import (
    ClientDriver,
    Message,
    error,
    idle_client,
    notification,
    one,
    only,
    permission,
    request,
    result,
    update,
)
from tests.corpus.recordings import recordings
from tests.corpus.replay import compile_script, play
from tests.spec.requirements import requirement

QUIET = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
CHUNKS = {"user": "user_message_chunk", "agent": "agent_message_chunk", "thought": "agent_thought_chunk"}
WHOLE_STATES: tuple[tuple[str, Message], ...] = (
    ("usage_update", {"used": 1, "size": 2}),
    ("available_commands_update", {"availableCommands": []}),
    ("current_mode_update", {"currentModeId": "code"}),
    ("config_option_update", {"configOptions": []}),
    ("session_info_update", {"title": "t"}),
)


class Talk:
    """A client with one open session, and the transcript of it."""

    def __init__(self, transcript: Transcript | None = None, **how: object) -> None:
        self.driver, self.session = idle_client("s1", **how)
        self.transcript = transcript if transcript is not None else Transcript()
        self.prompt_id = 0

    def hear(self, events: Iterable[Event]) -> list[Event]:
        found = list(events)
        for event in found:
            self.transcript.add(event)
        return found

    def feed(self, *messages: Message) -> list[Event]:
        return self.hear(self.driver.feed(*messages))

    def update(self, update_kind: str, /, **fields: object) -> Talk:
        return self.take({"sessionUpdate": update_kind, **fields})

    def take(self, what: Message) -> Talk:
        """An update as it stands on the wire."""
        self.feed(notification("session/update", {"sessionId": "s1", "update": what}))
        return self

    def say(self, text: str, role: str = "agent", message_id: object = None, **fields: object) -> Talk:
        if message_id is not None:
            fields["messageId"] = message_id
        return self.update(CHUNKS[role], content={"type": "text", "text": text}, **fields)

    def tool(self, id: object, update_kind: str = "tool_call_update", /, **fields: object) -> Talk:
        return self.update(update_kind, toolCallId=id, **fields)

    def prompt(self, **how: object) -> Talk:
        self.prompt_id = self.driver.conn.prompt(self.session, "go", **how)  # type: ignore[arg-type]  # passed through
        self.driver.sent()
        self.hear(self.driver.drain())
        return self

    def end(self, **fields: object) -> Talk:
        self.feed(result(self.prompt_id, {"stopReason": "end_turn", **fields}))
        return self

    def fail(self, code: int, message: str) -> Talk:
        self.feed(error(self.prompt_id, code, message))
        return self

    # What came of it.

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.transcript.entries

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [(message.role, message.text) for message in self.transcript.messages]

    @property
    def call(self) -> ToolCallEntry:
        (found,) = self.transcript.tool_calls
        return found


def chunk_event(session: Session, text: str, mark: str = "", **fields: object) -> AgentMessageChunk:
    content = {"type": "text", "text": text}
    update: Message = {"sessionUpdate": "agent_message_chunk", "content": content, **fields}
    return AgentMessageChunk(session, None, update, "", mark, 1.0)


def shape(transcript: Transcript) -> list[str]:
    return [entry.kind for entry in transcript.entries]


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(16, 17)
def test_chunks_with_one_id_are_one_message_wherever_they_come() -> None:
    talk = (
        Talk()
        .say("one ", message_id="m1")
        .say("two ", message_id="m2")
        .tool("t", title="x")
        .say("more", message_id="m1")
    )
    assert talk.texts == [("agent", "one more"), ("agent", "two ")]
    assert shape(talk.transcript) == ["message", "message", "tool_call"]


def test_one_id_in_two_roles_is_two_messages() -> None:
    """A recorded agent gives its answer the id of the thought before it."""
    talk = Talk().say("hm", "thought", "m1").say("Hello ", message_id="m1").say(" hm", "thought", "m1")
    assert talk.texts == [("thought", "hm hm"), ("agent", "Hello ")]


def test_without_ids_a_change_of_role_separates() -> None:
    talk = Talk().say("a").say("b").say("c", "thought").say("d", "thought").say("e").say("f", "user")
    assert talk.texts == [("agent", "ab"), ("thought", "cd"), ("agent", "e"), ("user", "f")]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("tool_call", {"toolCallId": "t", "title": "x"}),
        ("tool_call_update", {"toolCallId": "t"}),
        ("plan", {"entries": []}),
        ("something_new", {}),
    ],
)
def test_without_ids_an_update_of_another_kind_separates(kind: str, fields: Message) -> None:
    assert Talk().say("a").update(kind, **fields).say("b").texts == [("agent", "a"), ("agent", "b")]


def test_an_update_of_a_known_tool_call_separates_too() -> None:
    talk = Talk().tool("t", title="x").say("a").tool("t", status="completed").say("b")
    assert talk.texts == [("agent", "a"), ("agent", "b")]


@pytest.mark.parametrize(("kind", "fields"), WHOLE_STATES)
def test_without_ids_a_whole_state_does_not_separate(kind: str, fields: Message) -> None:
    """Agents send them by the clock, in the middle of a word too."""
    assert Talk().say("Hel").update(kind, **fields).say("lo").texts == [("agent", "Hello")]


def test_without_ids_the_end_of_a_turn_separates() -> None:
    talk = Talk().prompt().say("a").end().prompt().say("b").fail(-32603, "no").say("c")
    assert talk.texts == [("agent", "a"), ("agent", "b"), ("agent", "c")]


def test_without_ids_the_end_of_a_cycle_separates() -> None:
    talk = Talk().say("a").update("usage_update", used=1, _meta={"_claude/origin": {"kind": "peer"}}).say("b")
    assert talk.texts == [("agent", "a"), ("agent", "b")]


def test_a_chunk_without_an_id_does_not_join_one_with_an_id() -> None:
    """A recorded agent puts a warning of its own, without an id, before the model's message."""
    talk = (
        Talk().say("warning").say("a", message_id="m1").say("b", message_id="m1").say("note").say("c", message_id="m1")
    )
    assert talk.texts == [("agent", "warning"), ("agent", "abc"), ("agent", "note")]


@pytest.mark.parametrize("id", [5, "", ["m"], "x" * (MAX_ID_LENGTH + 1)])
def test_what_cannot_be_an_id_is_none(id: object) -> None:
    talk = Talk().say("a").say("b", message_id=id)
    assert talk.texts == [("agent", "ab")]
    assert talk.transcript.ignored == 1
    assert Talk().say("a", message_id="x" * MAX_ID_LENGTH).transcript.messages[0].message_id == "x" * MAX_ID_LENGTH


def test_an_empty_chunk_adds_nothing() -> None:
    """Agents send them to carry a _meta."""
    talk = Talk().say("a").say("", _meta={"usage": 1}).say("b")
    (message,) = talk.transcript.messages
    assert message.text == "ab"
    assert message.content == [{"type": "text", "text": "ab"}]
    assert message.meta == {"usage": 1}


def test_true_deltas_that_overlap_are_not_repaired() -> None:
    assert Talk().say("|--").say("--|").say("--|").texts == [("agent", "|----|--|")]


def test_content_blocks_of_every_type_are_kept_in_order() -> None:
    blocks: list[Message] = [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "text", "text": "b"},
        {"type": "text", "text": "c", "annotations": {"priority": 1}},
        {"type": "hologram", "depth": 3, "text": "no text of ours"},
        {"type": "text", "text": 5},
        {"text": "no type"},
    ]
    talk = Talk()
    for block in blocks:
        talk.update("agent_message_chunk", content=block)
    (message,) = talk.transcript.messages
    assert message.text == "abc"
    assert message.content == blocks
    assert json.loads(json.dumps(talk.transcript.to_json()))["entries"][0]["content"] == blocks


@pytest.mark.parametrize("content", [None, "text", ["text"], 5])
def test_a_chunk_without_a_content_object_is_kept_as_it_came(content: object) -> None:
    talk = Talk().update("agent_message_chunk", content=content)
    (entry,) = talk.entries
    assert isinstance(entry, UnknownEntry)
    assert entry.update == {"sessionUpdate": "agent_message_chunk", "content": content}


def test_text_is_joined_when_asked_and_again_after_more() -> None:
    talk = Talk().say("a").say("b")
    (message,) = talk.transcript.messages
    assert message.text == "ab"
    assert message.text is message.text
    talk.say("c")
    assert message.text == "abc"


def test_the_owner_adds_the_prompt() -> None:
    talk = Talk()
    entry = talk.transcript.add_prompt("fix it", at=5.0)
    talk.say("echo", "user")
    talk.transcript.add_prompt([{"type": "text", "text": "see "}, {"type": "image", "data": "A", "mimeType": "i/p"}])
    assert talk.texts == [("user", "fix it"), ("user", "echo"), ("user", "see ")]
    assert (entry.mark, entry.at) == ("local", 5.0)
    with pytest.raises(TypeError, match="content block"):
        talk.transcript.add_prompt(["no block"])  # type: ignore[list-item]


# ── Tool calls ──────────────────────────────────────────────────────────────────────────────────────────────────────

TEXT_CONTENT = [{"type": "content", "content": {"type": "text", "text": "out"}}]


def test_absent_and_null_leave_a_field_and_lists_replace() -> None:
    talk = Talk().tool(
        "t", "tool_call", title="ls", kind="execute", status="pending", content=TEXT_CONTENT, locations=[{"path": "/a"}]
    )
    talk.tool("t", title=None, status="in_progress", content=None, rawInput={"command": "ls"})
    talk.tool("t", rawInput=None)
    assert (talk.call.title, talk.call.tool_kind, talk.call.status) == ("ls", "execute", "in_progress")
    assert talk.call.content == TEXT_CONTENT
    assert talk.call.locations == [{"path": "/a"}]
    assert talk.call.raw_input == {"command": "ls"}
    talk.tool("t", content=[{"type": "terminal", "terminalId": "x"}], locations=[], rawOutput="done")
    assert talk.call.content == [{"type": "terminal", "terminalId": "x"}]
    assert talk.call.locations == []
    assert talk.call.raw_output == "done"
    assert talk.call.announced
    assert talk.transcript.ignored == 0


def test_a_second_tool_call_replaces_the_first_whole() -> None:
    talk = Talk().tool("t", "tool_call", title="one", kind="read", status="completed", rawInput=1).say("between")
    talk.tool("t", "tool_call", title="two", kind=None)
    assert talk.call.fields == {"title": "two"}
    assert talk.call.display_state == "pending"
    # It stays where the call began.
    assert shape(talk.transcript) == ["tool_call", "message"]


def test_an_update_of_an_unseen_id_makes_the_call() -> None:
    talk = Talk().tool("t", title="late", status="completed")
    assert (talk.call.title, talk.call.display_state, talk.call.announced) == ("late", "completed", False)


def test_unknown_fields_and_words_of_a_call_are_kept() -> None:
    talk = Talk().tool("t", "tool_call", kind="teleport", status="melting", name="beam", _meta={"a": 1}, new={"b": 2})
    talk.tool("t", newer=[3], _meta={"c": 4})
    assert (talk.call.tool_kind, talk.call.status, talk.call.meta) == ("teleport", "melting", {"c": 4})
    assert talk.call.fields["new"] == {"b": 2}
    assert talk.call.fields["newer"] == [3]


def test_a_value_of_a_wrong_type_leaves_the_field_and_is_counted() -> None:
    talk = Talk().tool("t", "tool_call", title="good", content=TEXT_CONTENT)
    talk.tool("t", title=5, content="text", status=["completed"], locations={}, kind=1)
    assert talk.call.fields == {"title": "good", "content": TEXT_CONTENT}
    assert talk.transcript.ignored == 5


def test_calls_without_an_id_stay_apart() -> None:
    talk = Talk()
    talk.update("tool_call", title="one")
    talk.update("tool_call", toolCallId="", title="two")
    assert [call.title for call in talk.transcript.tool_calls] == ["one", "two"]


def test_a_permission_request_announces_a_call() -> None:
    """Some agents name a tool nowhere else."""
    talk = Talk().prompt()
    (ask,) = only(talk.feed(permission(0, "s1", toolCallId="t", title="rm", kind="delete")), PermissionRequested)
    assert (talk.call.title, talk.call.tool_kind, talk.call.announced) == ("rm", "delete", False)
    assert talk.call.permissions == [ask.request_id]
    talk.tool("t", status="in_progress")
    talk.tool("t", "tool_call", status="completed", rawOutput="ok")
    # The announcement adds to what is known from the request.
    assert (talk.call.title, talk.call.status, talk.call.announced) == ("rm", "completed", True)
    assert talk.call.prompt_id == talk.prompt_id


def test_a_permission_answered_by_policy_announces_a_call_too() -> None:
    talk = Talk(permissions=Policy({"default": "allow"})).prompt()
    talk.feed(permission(0, "s1", toolCallId="t", title="rm", kind="delete"))
    assert (talk.call.title, len(talk.call.permissions)) == ("rm", 1)


def test_a_permission_without_an_id_is_a_call_of_its_own() -> None:
    talk = Talk().prompt()
    talk.feed(permission(0, "s1", toolCallId=None, title="rm"))
    assert talk.call.title == "rm"
    talk.feed(result(talk.prompt_id, {"stopReason": "end_turn"}))
    assert talk.call.closed
    policy = Talk(permissions=Policy({"default": "deny"})).prompt()
    policy.feed(permission(0, "s1", toolCallId=None, title="rm"))
    assert policy.call.title == "rm"


def test_an_answer_does_not_bring_back_what_was_asked() -> None:
    """The core answers what is open when the turn ends: the call may have gone on since it was asked."""
    talk = Talk().prompt()
    talk.feed(permission(0, "s1", toolCallId="t", title="asked", status="pending"))
    talk.tool("t", title="renamed", status="completed")
    found = talk.feed(result(talk.prompt_id, {"stopReason": "end_turn"}))
    assert one(found, PermissionAnswered).by == "turn_end"
    assert (talk.call.title, talk.call.status) == ("renamed", "completed")


def test_a_call_announced_again_in_a_later_turn_is_a_new_one() -> None:
    """A recorded agent counts its calls anew in every turn."""
    talk = Talk().prompt().tool("call_1", "tool_call", title="one").tool("call_1", status="completed").end()
    talk.prompt().tool("call_1", "tool_call", title="two").tool("call_1", status="failed").end()
    talk.prompt().feed(permission(0, "s1", toolCallId="call_1", title="three"))
    found = [(call.title, call.display_state) for call in talk.transcript.tool_calls]
    assert found == [("one", "completed"), ("two", "failed"), ("three", "pending")]
    # Without an announcement it is the latest one that goes on.
    talk.tool("call_1", status="in_progress")
    assert [call.status for call in talk.transcript.tool_calls] == ["completed", "failed", "in_progress"]


# ── The end of a turn ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [None, "pending", "in_progress", "melting"])
@pytest.mark.parametrize("how", ["end", "fail", "close"])
def test_n6_open_tool_calls_are_closed_by_the_end_of_the_turn(status: str | None, how: str) -> None:
    talk = Talk().prompt().tool("t", "tool_call", title="x", status=status)
    assert talk.call.display_state == (status or "pending")
    if how == "end":
        talk.end()
    elif how == "fail":
        talk.fail(-32603, "no")
    else:
        talk.driver.conn.close()
        talk.hear(talk.driver.drain())
    assert talk.call.closed
    assert talk.call.display_state == "closed_by_turn_end"
    assert talk.call.status == status


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_finished_tool_calls_are_not_closed(status: str) -> None:
    talk = Talk().prompt().tool("t", "tool_call", status=status).end()
    assert (talk.call.closed, talk.call.display_state) == (False, status)


def test_a_status_behind_the_end_lifts_the_mark() -> None:
    talk = Talk().prompt().tool("t", "tool_call", status="in_progress").end()
    talk.tool("t", content=TEXT_CONTENT)
    assert talk.call.display_state == "closed_by_turn_end"
    talk.tool("t", status="in_progress")
    assert talk.call.display_state == "in_progress"
    talk.prompt().end()
    assert talk.call.display_state == "closed_by_turn_end"
    talk.tool("t", status="completed")
    assert talk.call.display_state == "completed"


def test_only_open_calls_are_touched_when_turns_end() -> None:
    """A later end does not go through the calls of earlier turns."""
    talk = Talk().prompt().tool("one", "tool_call").end()
    (first,) = talk.transcript.tool_calls
    first.closed = False
    talk.prompt().end()
    assert not first.closed


def test_the_end_of_a_turn_is_an_entry() -> None:
    talk = Talk().prompt(identity="job-7").say("hi").end(usage={"inputTokens": 3})
    talk.prompt().end(stopReason="refusal")
    talk.prompt().fail(-32603, "broken")
    one_, two, three = (entry for entry in talk.entries if isinstance(entry, TurnEntry))
    assert (one_.outcome, one_.stop_reason, one_.error, one_.identity) == ("result", "end_turn", None, "job-7")
    assert one_.usage is not None
    assert one_.usage.input_tokens == 3
    assert (two.stop_reason, two.usage, two.identity) == ("refusal", None, None)
    assert (three.outcome, three.stop_reason, three.error) == ("error", None, "broken (-32603)")
    assert len({one_.prompt_id, two.prompt_id, three.prompt_id}) == 3
    message = talk.transcript.messages[0]
    assert (message.prompt_id, message.identity) == (one_.prompt_id, "job-7")
    assert json.loads(json.dumps(one_.to_json()))["usage"] == {"source": "usage", "inputTokens": 3}


def test_an_error_that_answers_a_cancelled_prompt_is_kept() -> None:
    talk = Talk().prompt()
    talk.driver.conn.cancel_turn(talk.session)
    talk.driver.sent()
    talk.fail(-32603, "aborted")
    (entry,) = talk.entries
    assert isinstance(entry, TurnEntry)
    assert (entry.outcome, entry.cancel_asked) == ("result", "owner")
    assert entry.error == "aborted (-32603)"


# ── Replayed, late and live ─────────────────────────────────────────────────────────────────────────────────────────


def loaded() -> tuple[ClientDriver, Session, Transcript, object]:
    """A client that loads a session and reports its history."""
    driver, _ = idle_client("other")
    transcript = Transcript()
    session, id = driver.load("s1", replay="report")
    return driver, session, transcript, id


def test_history_and_live_updates_are_told_apart() -> None:
    driver, session, transcript, id = loaded()
    old = [
        update("s1", "user_message_chunk", content={"type": "text", "text": "old"}),
        update("s1", "tool_call", toolCallId="t", title="first"),
        update("s1", "user_message_chunk", content={"type": "text", "text": "older turn"}),
        update("s1", "tool_call", toolCallId="t", title="second", status="completed"),
        update("s1", "agent_message_chunk", content={"type": "text", "text": "said"}, messageId="m1"),
        update("s1", "tool_call", toolCallId="u", title="never finished"),
    ]
    for event in driver.feed(*old, result(id, {})) + driver.wait(1.0):
        transcript.add(event)
    assert session.state == "idle"
    driver.prompt(session)
    new = [
        update("s1", "agent_message_chunk", content={"type": "text", "text": "new"}, messageId="m1"),
        update("s1", "tool_call", toolCallId="t", title="mine"),
    ]
    for event in driver.feed(*new):
        transcript.add(event)
    assert [entry.replayed for entry in transcript.entries] == [True] * 5 + [False] * 2
    assert [(message.text, message.mark) for message in transcript.messages] == [
        ("old", "replayed"),
        ("older turn", "replayed"),
        ("said", "replayed"),
        ("new", ""),
    ]
    # What a history leaves open is closed with it, and the second turn of it may count anew only what had ended.
    assert [(call.title, call.display_state) for call in transcript.tool_calls] == [
        ("second", "completed"),
        ("never finished", "closed_by_turn_end"),
        ("mine", "pending"),
    ]


def test_calls_that_a_history_counts_anew_are_kept() -> None:
    driver, _, transcript, id = loaded()
    for event in driver.feed(
        update("s1", "user_message_chunk", content={"type": "text", "text": "one"}),
        update("s1", "tool_call", toolCallId="call_1", title="one", status="completed"),
        update("s1", "user_message_chunk", content={"type": "text", "text": "two"}),
        update("s1", "tool_call", toolCallId="call_1", title="two", status="completed"),
        result(id, {}),
    ):
        transcript.add(event)
    assert [call.title for call in transcript.tool_calls] == ["one", "two"]


def test_late_updates_are_told_apart() -> None:
    talk = Talk().prompt().say("a", message_id="m1").tool("t", "tool_call", title="x").say("live")
    talk.driver.conn.cancel_turn(talk.session)
    talk.driver.sent()
    found = talk.hear(talk.driver.wait(3.0))
    assert only(found, SessionFenced)
    talk.say("b", message_id="m1").say("late").tool("t", status="completed").tool("u", title="late call")
    assert [(message.text, message.late) for message in talk.transcript.messages] == [
        ("a", False),
        ("live", False),
        ("b", True),
        ("late", True),
    ]
    # A late word about a call is still about that call.
    known, unknown = talk.transcript.tool_calls
    assert (known.status, known.late, known.late_update) == ("completed", False, True)
    assert (unknown.late, unknown.late_update) == (True, True)


def test_a_message_goes_on_behind_a_replayed_tail() -> None:
    """The tail of an attached turn is that turn: its text is one text with what follows."""
    talk = Talk()
    for mark, text in (("tail", "Hel"), ("", "lo")):
        talk.transcript.add(chunk_event(talk.session, text, mark))
    assert [(message.text, message.mark) for message in talk.transcript.messages] == [("Hello", "tail")]


# ── Whole states ────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement(92, 109)
def test_whole_states_are_replaced() -> None:
    talk = Talk()
    transcript = talk.transcript
    before = (transcript.plan, transcript.usage, transcript.mode, transcript.commands, transcript.config_options)
    assert before == (None,) * 5
    for n in (1, 2):
        talk.update("plan", entries=[{"content": f"step {n}", "status": "pending", "priority": "low"}])
        talk.update("usage_update", used=n, size=10, cost={"amount": n, "currency": "EUR"})
        talk.update("current_mode_update", currentModeId=f"mode {n}")
        talk.update("available_commands_update", availableCommands=[{"name": f"c{n}", "description": ""}])
        talk.update("config_option_update", configOptions=[{"id": f"o{n}", "name": "", "new": n}])
    assert transcript.plan == [{"content": "step 2", "status": "pending", "priority": "low"}]
    assert transcript.usage == {"used": 2, "size": 10, "cost": {"amount": 2, "currency": "EUR"}}
    assert transcript.mode == "mode 2"
    assert transcript.commands == [{"name": "c2", "description": ""}]
    assert transcript.config_options == [{"id": "o2", "name": "", "new": 2}]
    talk.update("plan", entries=[])
    assert transcript.plan == []
    assert transcript.entries == ()


def test_the_title_is_a_patch_of_three_states() -> None:
    talk = Talk().update("session_info_update", title="one", updatedAt="2026-01-01")
    transcript = talk.transcript
    assert (transcript.title, transcript.updated_at) == ("one", "2026-01-01")
    talk.update("session_info_update", updatedAt="2026-01-02")
    assert (transcript.title, transcript.updated_at) == ("one", "2026-01-02")
    talk.update("session_info_update", title=None)
    assert (transcript.title, transcript.updated_at) == (None, "2026-01-02")
    talk.update("session_info_update", title="two", updatedAt=5)
    assert (transcript.title, transcript.updated_at, transcript.ignored) == ("two", "2026-01-02", 1)


def test_states_of_a_wrong_type_change_nothing_and_are_counted() -> None:
    talk = Talk().update("plan", entries=[{"content": "x"}]).update("current_mode_update", currentModeId="m")
    talk.update("plan", entries="none").update("plan").update("current_mode_update", currentModeId=5)
    assert (talk.transcript.plan, talk.transcript.mode, talk.transcript.ignored) == ([{"content": "x"}], "m", 3)
    talk.update("plan", entries=[{"content": "y"}, 5])
    assert (talk.transcript.plan, talk.transcript.ignored) == ([{"content": "y"}], 4)


def test_unknown_updates_are_kept_in_order() -> None:
    talk = Talk().say("a").update("notice", title="careful", new={"x": [1]}).say("b")
    assert shape(talk.transcript) == ["message", "unknown", "message"]
    entry = talk.entries[1]
    assert isinstance(entry, UnknownEntry)
    assert (entry.update_kind, entry.update["new"]) == ("notice", {"x": [1]})


# ── What add takes ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_event_of_another_session_is_refused_and_changes_nothing() -> None:
    talk = Talk().say("mine")
    other_driver, other = idle_client("s2")
    other_driver.conn.prompt(other, "go")
    other_driver.sent()
    found = other_driver.drain() + other_driver.feed(
        update("s2", "agent_message_chunk", content={"type": "text", "text": "theirs"}),
        permission(0, "s2"),
        result(2 + 1, {"stopReason": "end_turn"}),
    )
    refused = 0
    for event in found:
        try:
            talk.transcript.add(event)
        except LocalProtocolError as why:
            assert why.rule == "transcript.session"
            refused += 1
    assert refused >= 3
    assert talk.texts == [("agent", "mine")]
    assert len(talk.entries) == 1


def test_other_events_mean_nothing_here() -> None:
    talk = Talk()
    talk.feed(update("nobody", "agent_message_chunk", content={}), request(3, "fs/read_text_file", {"sessionId": "s1"}))
    assert talk.entries == ()
    with pytest.raises(TypeError, match="an Event"):
        talk.transcript.add("text")  # type: ignore[arg-type]


def test_add_gives_the_entry_that_changed() -> None:
    talk = Talk()
    seen: list[Entry | None] = []
    for message in (
        update("s1", "agent_message_chunk", content={"type": "text", "text": "a"}),
        update("s1", "agent_message_chunk", content={"type": "text", "text": "b"}),
        update("s1", "tool_call", toolCallId="t"),
        update("s1", "usage_update", used=1),
    ):
        seen += [talk.transcript.add(event) for event in talk.driver.feed(message)]
    message_entry, call = talk.entries
    assert seen == [message_entry, message_entry, call, None]


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        ({"text": "both"}, ValueError),
        ({"text": None}, TypeError),
        ({"max_entries": 0}, ValueError),
        ({"max_entries": True}, TypeError),
        ({"max_bytes": MIN_BYTES - 1}, ValueError),
        ({"max_bytes": 1e6}, TypeError),
    ],
)
def test_wrong_arguments_are_refused(how: dict[str, object], fault: type[Exception]) -> None:
    with pytest.raises(fault):
        Transcript(**how)  # type: ignore[arg-type]  # wrong on purpose
    Transcript(max_entries=1, max_bytes=MIN_BYTES)


# ── Cumulative text ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_cumulative_chunks_replace() -> None:
    talk = Talk(Transcript(text="cumulative"))
    for text in ("Hel", "Hello", "Hello", "Hello, you"):
        talk.say(text, message_id="m1")
    talk.say("Next", message_id="m2")
    assert talk.texts == [("agent", "Hello, you"), ("agent", "Next")]
    assert talk.transcript.revisions == 0


@pytest.mark.parametrize("text", ["Help", "Hell", "H"])
def test_a_cumulative_chunk_that_takes_text_back_is_a_revision(text: str) -> None:
    talk = Talk(Transcript(text="cumulative")).say("Hello").say(text).say(text + "!")
    (message,) = talk.transcript.messages
    assert (message.text, message.revisions, talk.transcript.revisions) == (text + "!", ["Hello"], 1)
    assert "Hello" in talk.transcript.to_text()
    assert "> Hello\n\nRevised:\n\n> " + text in talk.transcript.to_markdown()


def test_cumulative_text_beside_other_blocks() -> None:
    talk = Talk(Transcript(text="cumulative")).say("one")
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    talk.update("agent_message_chunk", content=image)
    noted = {"type": "text", "text": "one two", "annotations": {}}
    talk.update("agent_message_chunk", content=noted).say("")
    (message,) = talk.transcript.messages
    assert (message.text, message.content, message.revisions) == ("one two", [noted, image], [])


def test_cumulative_text_past_the_bound_is_no_revision() -> None:
    talk = Talk(Transcript(text="cumulative", max_bytes=MIN_BYTES))
    whole = ""
    for n in range(2000):
        whole += f"word {n} "
        talk.say(whole)
    (message,) = talk.transcript.messages
    assert whole.endswith(message.text)
    assert len(message.text) > MIN_BYTES // 4
    assert (message.revisions, talk.transcript.revisions) == ([], 0)
    assert talk.transcript.loss.bytes == message.cut == len(whole) - len(message.text)
    assert talk.transcript.weight <= MIN_BYTES


# ── Bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_max_entries_drops_the_oldest_and_says_so() -> None:
    talk = Talk(Transcript(max_entries=3))
    for n in range(3):
        talk.say(f"{n}", message_id=f"m{n}")
    assert talk.transcript.loss.entries == 0
    talk.say("3", message_id="m3")
    assert [text for _, text in talk.texts] == ["1", "2", "3"]
    assert [entry.number for entry in talk.entries] == [1, 2, 3]
    assert talk.transcript.loss.entries == 1
    assert "1 earlier entries were dropped" in talk.transcript.to_text()
    assert "1 earlier entries were dropped" in talk.transcript.to_markdown()
    assert talk.transcript.to_json()["loss"] == {"entries": 1, "bytes": talk.transcript.loss.bytes, "states": 0}
    # What goes on behind its dropped beginning is an entry again.
    talk.say("0 again", message_id="m0")
    assert [text for _, text in talk.texts] == ["2", "3", "0 again"]


def test_a_dropped_call_that_goes_on_is_an_entry_again() -> None:
    talk = Talk(Transcript(max_entries=1)).prompt().tool("t", "tool_call", title="x").say("a")
    talk.tool("t", status="in_progress")
    assert (talk.call.title, talk.call.status, talk.transcript.loss.entries) == (None, "in_progress", 2)
    talk.end()
    assert shape(talk.transcript) == ["turn_end"]


def test_max_bytes_at_the_limit_and_one_past_it() -> None:
    def weight(text: str) -> int:
        return ENTRY_WEIGHT + len("m0") + VALUE_WEIGHT + len(text)

    texts = ["a" * 500] * 9
    rest = MIN_BYTES - 9 * weight(texts[0]) - weight("")
    for extra, kept in ((0, 10), (1, 9)):
        talk = Talk(Transcript(max_bytes=MIN_BYTES))
        for n, text in enumerate([*texts, "b" * (rest + extra)]):
            talk.say(text, message_id=f"m{n}")
        assert len(talk.entries) == kept
        assert talk.transcript.weight == MIN_BYTES if kept == 10 else talk.transcript.weight < MIN_BYTES
        assert talk.transcript.loss.entries == 10 - kept
        assert talk.transcript.loss.bytes == (0 if kept == 10 else weight(texts[0]))


def test_a_message_that_is_too_long_loses_its_beginning() -> None:
    talk = Talk(Transcript(max_bytes=MIN_BYTES))
    whole = ""
    for n in range(3000):
        piece = f"wörd {n} "
        whole += piece
        talk.say(piece)
    (message,) = talk.transcript.messages
    assert whole.endswith(message.text)
    assert len(message.text) > MIN_BYTES // 8
    assert message.cut == talk.transcript.loss.bytes == len(whole.encode()) - len(message.text.encode())
    assert f"dropped: {message.cut} bytes" in talk.transcript.to_text()
    assert talk.transcript.weight <= MIN_BYTES


@pytest.mark.parametrize("letter", ["a", "ö", "漢", "😀", "\ud83d"])
def test_one_chunk_that_is_too_long_is_cut_at_a_character(letter: str) -> None:
    talk = Talk(Transcript(max_bytes=MIN_BYTES))
    talk.transcript.add(chunk_event(talk.session, letter * 20_000))
    (message,) = talk.transcript.messages
    assert set(message.text) == {letter}
    assert MIN_BYTES // 4 < len(message.text.encode("utf-8", "surrogatepass")) < MIN_BYTES
    talk.transcript.to_markdown().encode()


def test_the_message_that_is_written_stays_and_others_go() -> None:
    talk = Talk(Transcript(max_bytes=MIN_BYTES)).say("first ", message_id="m0")
    for n in range(10):
        talk.say("x" * 300, message_id=f"o{n}")
    talk.say("y" * 4000, message_id="m0")
    assert talk.texts[0] == ("agent", "first " + "y" * 4000)
    assert [message.message_id for message in talk.transcript.messages] == ["m0", "o4", "o5", "o6", "o7", "o8", "o9"]
    assert (talk.transcript.loss.entries, talk.transcript.messages[0].cut) == (4, 0)
    assert talk.transcript.weight <= MIN_BYTES
    # When another one is written, the oldest goes like any other.
    talk.say("z" * 4000)
    assert "m0" not in [message.message_id for message in talk.transcript.messages]


def test_a_tool_call_that_is_too_heavy_loses_its_heaviest_fields() -> None:
    talk = Talk(Transcript(max_bytes=MIN_BYTES)).tool("t", "tool_call", title="cat", status="in_progress")
    talk.tool("t", rawOutput="x" * 9000)
    assert talk.call.fields == {"title": "cat", "status": "in_progress"}
    assert talk.call.cut == talk.transcript.loss.bytes > 9000
    assert talk.transcript.weight <= MIN_BYTES
    talk.tool("t", rawOutput="short")
    assert talk.call.raw_output == "short"


def test_replaced_fields_weigh_once() -> None:
    """A recorded kind of agent sends the whole output again with every line of it."""
    talk = Talk(Transcript(max_bytes=MIN_BYTES))
    for n in range(1, 200):
        talk.tool("t", content=[{"type": "content", "content": {"type": "text", "text": "line\n" * n}}])
    assert talk.transcript.loss.bytes == 0
    assert len(json.dumps(talk.call.content)) > 1000


def test_what_was_replaced_weighs_nothing() -> None:
    once = Talk().tool("t", "tool_call", title="two").transcript.weight
    assert (
        Talk()
        .tool("t", "tool_call", title="one", rawInput="x" * 999)
        .tool("t", "tool_call", title="two")
        .transcript.weight
        == once
    )
    talk = Talk(Transcript(text="cumulative"))
    for text in ("a", "ab", "abc"):
        talk.say(text, _meta={"n": text})
    assert talk.transcript.weight == Talk().say("abc", _meta={"n": "abc"}).transcript.weight


def test_nothing_holds_on_to_what_was_dropped() -> None:
    before = alive()
    talk = Talk(Transcript(max_entries=5))
    for n in range(100):
        talk.tool(f"t{n}", "tool_call").say("a", message_id=f"m{n}").say("b")
    assert alive() - before == 5


def alive() -> int:
    """How many entries there are in memory."""
    gc.collect()
    return sum(issubclass(type(thing), Entry) for thing in gc.get_objects())


def test_permission_requests_weigh_too() -> None:
    talk = Talk(Transcript(max_bytes=MIN_BYTES)).prompt()
    for n in range(500):
        talk.feed(permission(n, "s1", toolCallId="t"))
    assert talk.transcript.weight <= MIN_BYTES
    assert 0 < len(talk.call.permissions) < 200


@pytest.mark.parametrize(
    "feed",
    [
        lambda talk: talk.update("new", data="x" * 20_000),
        lambda talk: talk.update("n" * 20_000),
        lambda talk: talk.prompt().fail(-32603, "x" * 20_000),
        lambda talk: talk.prompt().end(stopReason="x" * 20_000, usage={"inputTokens": 1, "rest": "x" * 20_000}),
        lambda talk: talk.say("a", _meta={"x": "y" * 20_000}),
        lambda talk: talk.tool("t", **{f"k{n}": n for n in range(2000)}),
        lambda talk: talk.update("agent_message_chunk", content={"type": "image", "data": "A" * 20_000}),
    ],
)
def test_nothing_gets_past_the_bound(feed: Callable[[Talk], Talk]) -> None:
    talk = feed(Talk(Transcript(max_bytes=MIN_BYTES)))
    (entry,) = talk.entries
    assert talk.transcript.weight <= MIN_BYTES
    assert len(json.dumps(talk.transcript.to_json())) < MIN_BYTES
    assert entry.cut == talk.transcript.loss.bytes > 0


def test_a_heavy_state_is_dropped_and_counted() -> None:
    share = MIN_BYTES // STATE_SHARE
    talk = Talk(Transcript(max_bytes=MIN_BYTES)).say("kept")
    talk.update("session_info_update", title="x" * (share - VALUE_WEIGHT))
    assert (talk.transcript.loss.states, len(talk.transcript.title or "")) == (0, share - VALUE_WEIGHT)
    talk.update("session_info_update", title="x" * (share - VALUE_WEIGHT + 1))
    assert (talk.transcript.loss.states, talk.transcript.title) == (1, None)
    assert talk.transcript.loss.bytes == share + 1
    assert talk.texts == [("agent", "kept")]


def test_states_take_room_from_entries() -> None:
    talk = Talk(Transcript(max_bytes=MIN_BYTES))
    for n in range(40):
        talk.say("x" * 300, message_id=f"m{n}")
    before = talk.transcript.loss.entries
    talk.update("session_info_update", title="t" * 400, updatedAt="u" * 400)
    assert talk.transcript.loss.entries > before
    assert talk.transcript.weight <= MIN_BYTES


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)
KINDS = [
    *CHUNKS.values(),
    "tool_call",
    "tool_call_update",
    "plan",
    "usage_update",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "new",
]
FIELDS = ["content", "messageId", "toolCallId", "title", "status", "entries", "_meta", "rawOutput", "availableCommands"]
UPDATES = st.builds(
    lambda kind, fields: {**fields, "sessionUpdate": kind},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(FIELDS), JSON | st.builds(lambda text: {"type": "text", "text": text}, st.text())),
)


@settings(QUIET, max_examples=80)
@given(st.lists(UPDATES, max_size=25), st.sampled_from(["delta", "cumulative"]), st.integers(1, 6))
def test_any_updates_at_all_stay_within_the_bounds(updates: list[Message], text: str, max_entries: int) -> None:
    talk = Talk(Transcript(text=text, max_entries=max_entries, max_bytes=MIN_BYTES))
    transcript = talk.transcript
    for one_update in updates:
        talk.take(one_update)
        states = transcript.weight - sum(entry.weight for entry in transcript.entries)
        assert 0 <= states <= 7 * MIN_BYTES // STATE_SHARE
        assert transcript.weight <= MIN_BYTES
        assert len(transcript.entries) <= max_entries
        numbers = [entry.number for entry in transcript.entries]
        assert numbers == sorted(numbers)
    json.dumps(transcript.to_json(), allow_nan=False)
    transcript.to_text().encode()
    check_markdown(transcript.to_markdown())


# ── Any interleaving ────────────────────────────────────────────────────────────────────────────────────────────────

SAID = st.tuples(st.sampled_from(sorted(CHUNKS)), st.sampled_from([None, "m1", "m2"]), st.text(max_size=8))
DONE = st.tuples(st.just("tool"), st.sampled_from(["t1", "t2"]), st.text(max_size=8))
STATE = st.tuples(st.just("state"), st.none(), st.just(""))


@settings(QUIET, max_examples=150)
@given(st.lists(SAID | DONE | STATE, max_size=30))
def test_any_interleaving_keeps_all_text_in_order(steps: list[tuple[str, str | None, str]]) -> None:
    talk = Talk()
    by_id: dict[tuple[str, str], str] = {}
    without_id: dict[str, str] = {}
    titles: dict[str, str] = {}
    seen: list[tuple[str, str | None]] = []
    last: tuple[str, str | None] | None = None
    for role, id, text in steps:
        if role == "state":
            talk.update("usage_update", used=1, size=2)
            continue
        if role == "tool":
            assert id is not None
            talk.tool(id, title=text)
            titles[id] = text
        else:
            talk.say(text, role, id)
            if id is None:
                without_id[role] = without_id.get(role, "") + text
            else:
                by_id[role, id] = by_id.get((role, id), "") + text
        if (role, id) not in seen if id is not None else last != (role, None):
            seen.append((role, id))
        last = (role, id)
    messages = talk.transcript.messages
    for (role, id_), whole in by_id.items():
        assert [m.text for m in messages if (m.role, m.message_id) == (role, id_)] == [whole]
    for role in CHUNKS:
        joined = "".join(m.text for m in messages if m.role == role and m.message_id is None)
        assert joined == without_id.get(role, "")
    assert {call.tool_call_id: call.title for call in talk.transcript.tool_calls} == titles
    # Entries stand in the order in which they began.
    assert [key(entry) for entry in talk.entries] == seen
    assert talk.transcript.loss.bytes == 0


def key(entry: Entry) -> tuple[str, str | None]:
    if isinstance(entry, MessageEntry):
        return entry.role, entry.message_id
    assert isinstance(entry, ToolCallEntry)
    return "tool", entry.tool_call_id


# ── Cost ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def plain_chunks(session: Session, count: int) -> Iterator[Update]:
    return (chunk_event(session, f"word {n} ") for n in range(count))


def interleaved_chunks(session: Session, count: int) -> Iterator[Update]:
    return (chunk_event(session, f"word {n} ", messageId=f"m{n % 50}") for n in range(count))


def tool_updates(session: Session, count: int) -> Iterator[Update]:
    for n in range(count):
        update: Message = {"sessionUpdate": "tool_call_update", "toolCallId": f"t{n % 1000}", "title": f"{n}"}
        yield ToolCallUpdate(session, None, update, "", "", 1.0)


def take_all(events: Iterable[Event], how: dict[str, int]) -> None:
    """Take the updates and render what came of them."""
    transcript = Transcript(**how)  # type: ignore[arg-type]  # bounds
    for event in events:
        transcript.add(event)
    assert transcript.to_text()
    assert transcript.to_json()


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called to do something."""
    calls = 0

    def count_call(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def steps(make: Callable[[Session, int], Iterator[Update]], count: int, how: dict[str, int]) -> int:
    events = list(make(Talk().session, count))
    return calls_of(lambda: take_all(events, how))


def seconds(events: list[Update], how: dict[str, int]) -> float:
    """Processor time to take the updates."""
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        take_all(events, how)
        return time.process_time() - began
    finally:
        gc.enable()


BOUNDS = pytest.mark.parametrize("how", [{}, {"max_bytes": 100_000, "max_entries": 100}], ids=["roomy", "tight"])


@BOUNDS
@pytest.mark.parametrize("make", [plain_chunks, interleaved_chunks, tool_updates])
def test_twice_the_updates_take_twice_the_steps(
    make: Callable[[Session, int], Iterator[Update]], how: dict[str, int]
) -> None:
    assert steps(make, 20_000, how) < 2.1 * steps(make, 10_000, how)


@BOUNDS
def test_200_000_chunks_cost_less_than_three_times_100_000(how: dict[str, int]) -> None:
    events = list(plain_chunks(Talk().session, 200_000))
    # A busy machine disturbs one measurement, not all of them; what is quadratic takes four times each time.
    pairs = ((seconds(events[:100_000], how), seconds(events, how)) for _ in range(6))
    assert any(double < 3 * single for single, double in pairs)


def test_the_end_of_a_turn_does_not_go_through_earlier_turns() -> None:
    talk = Talk()
    taken = []
    for n in range(100):
        talk.prompt()
        for call in range(10):
            talk.tool(f"{n}.{call}", "tool_call")
        ended = talk.driver.feed(result(talk.prompt_id, {"stopReason": "end_turn"}))
        taken.append(calls_of(partial(talk.hear, ended)))
    assert max(taken) <= taken[0] + 5
    assert all(call.closed for call in talk.transcript.tool_calls)
    assert len(talk.transcript.tool_calls) == 1000


# ── Rendering ───────────────────────────────────────────────────────────────────────────────────────────────────────


def check_markdown(markdown: str) -> None:
    """Nothing of what was said or written stands free: each line is quoted, fenced, a heading, a label or an item."""
    fence = ""
    lines = markdown.split("\n")
    for line in lines:
        if fence:
            fence = "" if line.strip(" \t") == fence else fence
            continue
        if line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
            assert line[len(fence) :] in ("", "json", "diff"), line
            continue
        assert "\r" not in line
        free = outside_code(line)
        assert free.startswith((">", "# ", "### ", "- [", "*")) or free.strip("(), ") in {"", *LABELS}, line
    assert fence == ""


LABELS = {
    *("At:", "Audio:", "Block:", "Content:", "Diff:", "Dropped:", "Error:", "Image:", "Input:", "Link:"),
    *("Not in the agent's context any more:", "Output:", "Resource:", "Revised:", "Terminal:"),
}


def outside_code(line: str) -> str:
    """A line without its code spans; a span that is not closed is an error."""
    if line.startswith((">", "# ", "- [")):
        return line
    free = ""
    while "`" in line:
        before, _, rest = line.partition("`")
        ticks = 1 + len(rest) - len(rest.lstrip("`"))
        rest = rest.lstrip("`")
        run = "`" * ticks
        at = rest.find(run)
        while at >= 0 and (rest[at + ticks : at + ticks + 1] == "`" or rest[at - 1 : at] == "`"):
            at = rest.find(run, at + 1)
        assert at >= 0, f"an open code span: {line}"
        free += before
        line = rest[at + ticks :]
    return free + line


NASTY = [
    "```\nopen",
    "````\n```\nx",
    "~~~\nopen",
    "<!-- open",
    "<script>\nopen",
    "# heading\n---\n- list\n1. list",
    "a\r```\rb",
    "`",
    "``` ` ``",
    " ` ",
    "[x]: http://example.org",
    "\ud83d alone",
    "line\u2028separator\x85next",
    "\n\n\n",
    "    indented",
    "",
]
NASTY_TEXT = st.one_of(
    st.sampled_from(NASTY), st.text(alphabet="`~<>!-#\r\n \\ab|*_[]", max_size=40), st.text(max_size=20)
)


@settings(QUIET, max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(range(9)), NASTY_TEXT), max_size=12))
def test_markdown_keeps_everything_in_its_place(steps: list[tuple[int, str]]) -> None:
    talk = Talk()
    for what, text in steps:
        if what < 3:
            talk.say(text, sorted(CHUNKS)[what])
        elif what == 3:
            talk.tool("t", "tool_call", title=text, kind=text, status=text, name=text)
        elif what == 4:
            talk.tool("t", content=[{"type": "content", "content": {"type": "text", "text": text}}], rawInput=text)
        elif what == 5:
            talk.tool("u", content=[{"type": "diff", "path": text, "oldText": text, "newText": text}])
        elif what == 6:
            talk.update("plan", entries=[{"content": text, "status": text, "priority": text}])
        elif what == 7:
            talk.update(text, x=text).update("session_info_update", title=text)
        else:
            link = {"type": "resource_link", "name": text, "uri": text}
            talk.update("agent_message_chunk", content=link)
            talk.tool("t", rawOutput={"x": text}, locations=[{"path": text, "line": 3}])
    markdown = talk.transcript.to_markdown()
    check_markdown(markdown)
    markdown.encode()
    talk.transcript.to_text().encode()


def test_the_longest_run_of_backticks_is_fenced() -> None:
    output = "a\n`````\nb\n```js\nc"
    talk = Talk().tool("t", "tool_call", content=[{"type": "content", "content": {"type": "text", "text": output}}])
    assert f"\n\n``````\n{output}\n``````\n" in talk.transcript.to_markdown()


TOOL_CONTENT: list[Message] = [
    {"type": "content", "content": {"type": "text", "text": "tool text"}},
    {"type": "content", "content": {"type": "resource", "resource": {"uri": "file:///r", "text": "resource text"}}},
    {"type": "content", "content": {"type": "resource", "resource": {"uri": "file:///b", "blob": "QUJD"}}},
    {"type": "content", "content": {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}},
    {"type": "content", "content": {"type": "hologram", "secret": "hologram text"}},
    {"type": "content", "content": "bare text"},
    {"type": "diff", "path": "/d", "oldText": "old one\nold two", "newText": "new one\nnew two\n"},
    {"type": "diff", "path": "/e", "newText": "created text"},
    {"type": "diff", "path": "/f", "newText": 5},
    {"type": "terminal", "terminalId": "terminal-1"},
    {"type": "sculpture", "shape": "sculpture text"},
]


def rich() -> Talk:
    talk = Talk().update("session_info_update", title="A `title`").prompt()
    talk.transcript.add_prompt("user text")
    talk.say("thought text", "thought").say("agent text\n\n```\nopen code")
    talk.update(
        "agent_message_chunk", content={"type": "image", "data": "QUJD", "mimeType": "image/png", "uri": "file:///i"}
    )
    link = {
        "type": "resource_link",
        "name": "link name",
        "uri": "file:///l",
        "title": "Link",
        "description": "link words",
    }
    talk.update("agent_message_chunk", content=link)
    talk.update("agent_message_chunk", content={"type": "hologram", "text": "hologram words"})
    talk.tool("t", "tool_call", title="tool title", kind="edit", locations=[{"path": "/d", "line": 7}, {"path": "/e"}])
    talk.tool("t", content=[*TOOL_CONTENT, "stray text"], rawInput={"command": "raw input"}, rawOutput="raw output")
    talk.update("notice", description="notice text")
    steps = [("done step", "completed"), ("next step", "pending"), ("this step", "in_progress")]
    talk.update("plan", entries=[{"content": text, "status": status, "priority": "medium"} for text, status in steps])
    return talk.end(stopReason="refusal")


WORDS = [
    *["user text", "thought text", "agent text", "open code", "image/png", "file:///i", "link name", "link words"],
    *["hologram words", "tool title", "/d:7", "tool text", "resource text", "file:///b", "audio/wav", "hologram text"],
    *["bare text", "old one", "old two", "new one", "new two", "created text", "terminal-1", "sculpture text"],
    *["stray text", "raw input", "raw output", "notice text", "done step", "next step", "this step", "refusal"],
    *["closed_by_turn_end", "context any more"],
]


def test_no_text_is_lost_in_any_form() -> None:
    transcript = rich().transcript
    text, markdown, stored = transcript.to_text(), transcript.to_markdown(), json.dumps(transcript.to_json())
    for word in WORDS:
        assert word in text, word
        assert word in markdown.replace("\\", ""), word
        if word not in ("/d:7", "context any more"):
            assert word in stored, word
    check_markdown(markdown)
    assert "raw" not in transcript.to_text(raw=False)
    assert "raw" not in transcript.to_markdown(raw=False)


def test_plain_text_looks_like_this() -> None:
    talk = Talk().prompt()
    talk.transcript.add_prompt("list files")
    talk.say("Let me look.").tool(
        "t", "tool_call", title="ls", kind="execute", status="completed", content=TEXT_CONTENT
    )
    talk.update(
        "plan", entries=[{"content": "look", "status": "completed"}, {"content": "tell", "status": "in_progress"}]
    )
    talk.say("One file.").end()
    assert talk.transcript.to_text() == (
        "[user]\nlist files\n\n"
        "[agent]\nLet me look.\n\n"
        "[tool ls (execute) (completed)]\nout\n\n"
        "[agent]\nOne file.\n\n"
        "[turn ended end_turn]\n\n"
        "[plan]\n- [x] look\n- [ ] tell (in_progress)"
    )
    assert talk.transcript.to_markdown() == (
        "### User\n\n> list files\n\n"
        "### Agent\n\n> Let me look.\n\n"
        "### Tool `ls`\n\n(`execute`, `completed`)\n\n```\nout\n```\n\n"
        "### Agent\n\n> One file.\n\n"
        "### Turn ended `end_turn`\n\n"
        "### Plan\n\n- [x] look\n- [ ] tell (in\\_progress)\n"
    )


def test_an_empty_transcript_renders_as_nothing() -> None:
    assert Transcript().to_text() == Transcript().to_markdown() == ""
    assert Transcript().to_json()["entries"] == []


def test_marks_are_shown() -> None:
    driver, _, transcript, id = loaded()
    for event in driver.feed(
        update("s1", "agent_message_chunk", content={"type": "text", "text": "old"}), result(id, {})
    ):
        transcript.add(event)
    assert transcript.to_text() == "[agent (replayed)]\nold"
    assert transcript.to_markdown() == "### Agent\n\n(`replayed`)\n\n> old\n"


def test_the_stored_form_names_everything() -> None:
    talk = rich()
    stored = json.loads(json.dumps(talk.transcript.to_json()))
    assert stored["version"] == 1
    assert stored["sessionId"] == "s1"
    assert [entry["kind"] for entry in stored["entries"]] == shape(talk.transcript)
    call = next(entry for entry in stored["entries"] if entry["kind"] == "tool_call")
    assert call["toolCallId"] == "t"
    assert call["toolCall"]["content"] == [*TOOL_CONTENT, "stray text"]
    assert call["displayState"] == "closed_by_turn_end"
    assert stored["plan"] == talk.transcript.plan
    assert stored["title"] == "A `title`"


# ── Real agents ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", sorted(recordings()))
def test_recordings_add_up(name: str) -> None:
    """What a plain count over the events says: no text and no tool call is lost, whatever the agent sends."""
    transcripts: dict[str, Transcript] = {}
    texts: dict[tuple[str, str], list[str]] = {}
    calls: dict[str, set[str]] = {}
    for event in play(compile_script(name)).events:
        session_id = getattr(event, "session_id", None)
        if not isinstance(session_id, str):
            continue
        transcripts.setdefault(session_id, Transcript()).add(event)
        if isinstance(event, Update):
            for role, kind in CHUNKS.items():
                if event.kind == kind:
                    texts.setdefault((session_id, role), []).append(getattr(event, "text", ""))
            if "toolCallId" in event.update:
                calls.setdefault(session_id, set()).add(str(event.update["toolCallId"]))
        if isinstance(event, (PermissionRequested, PermissionAnswered)):
            call = event.params.get("toolCall")
            assert isinstance(call, dict)
            calls.setdefault(session_id, set()).add(str(call["toolCallId"]))
    for session_id, transcript in transcripts.items():
        for role in CHUNKS:
            found = "".join(message.text for message in transcript.messages if message.role == role)
            wanted = "".join(texts.get((session_id, role), []))
            assert sorted(found) == sorted(wanted)
            if all(message.message_id is None for message in transcript.messages):
                assert found == wanted
        assert {call.tool_call_id for call in transcript.tool_calls} == calls.get(session_id, set())
        assert (transcript.loss.bytes, transcript.ignored, transcript.revisions) == (0, 0, 0)
        check_markdown(transcript.to_markdown())
        json.dumps(transcript.to_json())


def test_recorded_agent_that_counts_anew_keeps_every_turn() -> None:
    transcript = Transcript()
    for event in play(compile_script("ts-sdk-example/07_out_of_turn")).events:
        transcript.add(event)
    ids = [call.tool_call_id for call in transcript.tool_calls]
    assert ids.count("call_1") == sum(isinstance(entry, TurnEntry) for entry in transcript.entries) > 1


def test_the_weight_is_what_is_kept() -> None:
    """However it was reached: shuffled updates of the same entries weigh the same as one update each."""
    rng = random.Random(7)
    talk, plain = Talk(), Talk()
    last: dict[str, str] = {}
    for _ in range(300):
        id, text = f"t{rng.randrange(5)}", "x" * rng.randrange(100)
        last.setdefault(id, "")
        last[id] = text
        talk.tool(id, title=text)
    for id, text in last.items():
        plain.tool(id, title=text)
    assert talk.transcript.weight == plain.transcript.weight
