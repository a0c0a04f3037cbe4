"""The transcript of one session: what its events add up to.

Linear in what was said, bounded by two arguments, and without a guess: text is never compared for overlaps, and what is
dropped is counted. Rendered as plain text, as Markdown, and as JSON for storing.
"""

from __future__ import annotations

import json
import re
from collections import deque

from . import events
from .errors import check_type, clip, local
from .events import get_object, get_objects, get_str
from .usage import Usage, turn_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from .events import Event
    from .sessions import Turn

    JsonObject: TypeAlias = dict[str, object]
    Part: TypeAlias = str | JsonObject

DELTA = "delta"
CUMULATIVE = "cumulative"

USER = "user"
AGENT = "agent"
THOUGHT = "thought"

LATE = "late"
LOCAL = "local"
REPLAYED = "replayed"
TAIL = "tail"

# After these words on the wire a tool call is over.
FINAL = frozenset({"completed", "failed", "cancelled"})
CANCELLED = "cancelled"
CLOSED_BY_TURN_END = "closed_by_turn_end"
PENDING = "pending"

# What a value weighs besides the UTF-8 bytes of its text, and an entry besides its values: about what Python needs.
VALUE_WEIGHT = 64
ENTRY_WEIGHT = 256
# Each whole state (plan, commands, ...) may weigh so much of max_bytes; there are seven of them.
STATE_SHARE = 16
# An id of a message or a tool call that is longer is taken for none: ids are never cut.
MAX_ID_LENGTH = 1024
MIN_BYTES = 8192
# What is left of a word or a sentence that is too heavy by itself, in characters.
CUT_LENGTH = 256

_ROLES: dict[type[Event], str] = {
    events.UserMessageChunk: USER,
    events.AgentMessageChunk: AGENT,
    events.AgentThoughtChunk: THOUGHT,
}
# The types of the fields of a tool call; a value of another type leaves the field as it was.
_FIELD_TYPES: dict[str, type] = {
    "title": str,
    "name": str,
    "kind": str,
    "status": str,
    "content": list,
    "locations": list,
    "_meta": dict,
}


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _weigh(value: object) -> int:
    """What a JSON value weighs: linear, and without recursion."""
    total = 0
    stack = [value]
    while stack:
        item = stack.pop()
        total += VALUE_WEIGHT
        if isinstance(item, str):
            total += _text_size(item)
        elif isinstance(item, dict):
            for name, inner in item.items():
                total += _text_size(name)
                stack.append(inner)
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, int):
            total += item.bit_length() // 8
    return total


def _without_beginning(text: str, size: int) -> str:
    """``text`` without its first ``size`` UTF-8 bytes, cut at a character."""
    if text.isascii():
        return text[size:]
    data = text.encode("utf-8", "surrogatepass")
    while size < len(data) and data[size] & 0xC0 == 0x80:
        size += 1
    return data[size:].decode("utf-8", "surrogatepass")


def _block_text(block: JsonObject) -> str:
    """The text of a content block, "" when it is no text."""
    return (get_str(block, "text") or "") if block.get("type") == "text" else ""


# ── Entries ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Entry:
    """One thing in a transcript. Read-only for its owner.

    ``number`` counts all entries of the transcript from 0, dropped ones included; ``at`` is when it began. ``mark`` is
    ``""`` for what was live, ``"replayed"``, ``"late"`` and ``"tail"`` as on the update event that began it, and
    ``"local"`` for what the owner added. ``prompt_id`` and ``identity`` are those of the turn in flight. ``cut`` is how
    much of it was dropped (bytes), ``weight`` what it counts towards ``max_bytes``.
    """

    __slots__ = ("at", "cut", "identity", "mark", "number", "prompt_id", "weight")

    kind = ""

    def __init__(self) -> None:
        self.number = 0
        self.at = 0.0
        self.mark = ""
        self.prompt_id: int | None = None
        self.identity: str | None = None
        self.cut = 0
        self.weight = ENTRY_WEIGHT

    @property
    def replayed(self) -> bool:
        """It belongs to a replayed history."""
        return self.mark == REPLAYED

    @property
    def late(self) -> bool:
        """It came behind a fence: it may belong to the turn that was given up."""
        return self.mark == LATE

    def to_json(self) -> JsonObject:
        """The entry as JSON. Its values are those of the wire and are shared, not copied."""
        return {
            "kind": self.kind,
            "number": self.number,
            "at": self.at,
            "mark": self.mark,
            "promptId": self.prompt_id,
            "identity": self.identity,
            "cut": self.cut,
        }

    def _shrink(self, weight: int) -> int:
        """Weigh no more than ``weight``, if it can be done. Gives how many bytes were dropped."""
        return 0


class MessageEntry(Entry):
    """A message. ``role`` is ``"user"``, ``"agent"`` or ``"thought"``, ``message_id`` the agent's id for it, if any.

    ``meta`` is the last ``_meta`` that came with a chunk. ``revisions`` are texts that the agent took back, oldest
    first: only where each chunk is the whole text so far.
    """

    __slots__ = ("_cut_text", "_parts", "_slot", "message_id", "meta", "revisions", "role")

    kind = "message"

    def __init__(self, role: str, message_id: str | None) -> None:
        super().__init__()
        self.role = role
        self.message_id = message_id
        self.meta: JsonObject | None = None
        self.revisions: list[str] = []
        # Pieces of text, and the blocks that are more than a plain text. Joined when somebody asks.
        self._parts: list[Part] = []
        # Where each chunk is the whole text: the part that holds it, and how many characters of it were cut.
        self._slot: int | None = None
        self._cut_text = 0
        self.weight += _text_size(message_id or "")

    @property
    def text(self) -> str:
        """The whole text; blocks of other types count as nothing. Joined once, and again after a new chunk."""
        self._join()
        if len(self._parts) == 1 and isinstance(self._parts[0], str):
            return self._parts[0]
        return "".join(part if isinstance(part, str) else _block_text(part) for part in self._parts)

    @property
    def content(self) -> list[JsonObject]:
        """The content blocks in order, neighbouring plain texts as one; blocks of unknown types as they came."""
        self._join()
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in self._parts]

    def to_json(self) -> JsonObject:
        return {
            **super().to_json(),
            "role": self.role,
            "messageId": self.message_id,
            "content": self.content,
            "revisions": [*self.revisions],
            "meta": self.meta,
        }

    def _join(self) -> None:
        if len(self._parts) < 2:
            return
        joined: list[Part] = []
        run: list[str] = []
        for part in self._parts:
            if isinstance(part, str):
                run.append(part)
                continue
            if run:
                joined.append("".join(run))
                run = []
            joined.append(part)
        if run:
            joined.append("".join(run))
        if len(joined) < len(self._parts):
            self._parts = joined

    def _append(self, part: Part) -> int:
        """Add a part. Gives what it weighs."""
        self._parts.append(part)
        return VALUE_WEIGHT + _text_size(part) if isinstance(part, str) else _weigh(part)

    def _replace(self, part: Part, text: str) -> tuple[int, bool]:
        """Take ``text`` for the whole text so far. Gives how much the weight changes, and whether it is a revision."""
        if self._cut_text:
            part = text = text[self._cut_text :]
        if self._slot is None:
            self._slot = len(self._parts)
            return self._append(part), False
        before = self._parts[self._slot]
        old = before if isinstance(before, str) else _block_text(before)
        self._parts[self._slot] = part
        change = _weigh(part) - _weigh(before)
        if text.startswith(old):
            return change, False
        self.revisions.append(old)
        return change + VALUE_WEIGHT + _text_size(old), True

    def _shrink(self, weight: int) -> int:
        self._join()
        parts = [_weigh(part) for part in self._parts]
        revisions = [VALUE_WEIGHT + _text_size(text) for text in self.revisions]
        meta = _weigh(self.meta) if self.meta is not None else 0
        self.weight = ENTRY_WEIGHT + _text_size(self.message_id or "") + meta + sum(parts) + sum(revisions)
        excess = before = self.weight - weight
        if excess > 0 and meta > weight // STATE_SHARE:
            self.meta = None
            excess -= meta
        gone = 0
        while excess > 0 and gone < len(revisions):
            excess -= revisions[gone]
            gone += 1
        del self.revisions[:gone]
        gone = 0
        while excess > 0 and gone < len(parts):
            part = self._parts[gone]
            if isinstance(part, str) and parts[gone] - VALUE_WEIGHT > excess:
                rest = _without_beginning(part, excess)
                self._parts[gone] = rest
                excess -= _text_size(part) - _text_size(rest)
                self._cut_text += len(part) - len(rest) if self._slot == gone else 0
                break
            if self._slot == gone:
                self._cut_text += len(part if isinstance(part, str) else _block_text(part))
            excess -= parts[gone]
            gone += 1
        del self._parts[:gone]
        if self._slot is not None:
            self._slot = self._slot - gone if self._slot >= gone else None
        dropped = before - excess if before > 0 else 0
        self.weight -= dropped
        return dropped


class ToolCallEntry(Entry):
    """A tool call, merged from everything that was said about its id.

    ``fields`` is the merged object as on the wire, unknown fields included; the properties read it. ``announced`` says
    that a ``tool_call`` came, else there were only updates or a permission request. ``closed`` says that it was still
    open when its turn ended; ``status`` stays the agent's word. ``late_update`` says that something about it came
    behind a fence. ``permissions`` are the public ids of the permission requests about it.
    """

    __slots__ = (
        "_turn",
        "_turns",
        "_weights",
        "announced",
        "closed",
        "fields",
        "late_update",
        "permissions",
        "tool_call_id",
    )

    kind = "tool_call"

    def __init__(self, tool_call_id: str) -> None:
        super().__init__()
        self.tool_call_id = tool_call_id
        self.announced = False
        self.closed = False
        self.late_update = False
        self.fields: JsonObject = {}
        self.permissions: list[str] = []
        self._weights: dict[str, int] = {}
        self._turn: Turn | None = None
        self._turns = 0
        self.weight += _text_size(tool_call_id)

    @property
    def title(self) -> str | None:
        """What the agent says it does."""
        return get_str(self.fields, "title")

    @property
    def tool_kind(self) -> str | None:
        """The category: read, edit, delete, move, search, execute, think, fetch, switch_mode, other, or a new word."""
        return get_str(self.fields, "kind")

    @property
    def status(self) -> str | None:
        """The agent's word: pending, in_progress, completed, failed, or a new one; None when there was none."""
        return get_str(self.fields, "status")

    @property
    def display_state(self) -> str:
        """What to show: the status, ``pending`` without one, ``closed_by_turn_end`` when the turn ended before it, and
        ``cancelled`` from the moment on in which its turn was cancelled (spec rule 76), until the agent says how it
        ended."""
        if self.closed:
            return CLOSED_BY_TURN_END
        cancelled = self._turn is not None and self._turn.cancel_asked is not None
        return CANCELLED if cancelled and self.status not in FINAL else self.status or PENDING

    @property
    def ended(self) -> bool:
        """Nothing more is expected of it."""
        return self.closed or self.status in FINAL

    @property
    def content(self) -> list[JsonObject]:
        """What it produced: blocks, diffs, terminals."""
        return get_objects(self.fields, "content")

    @property
    def locations(self) -> list[JsonObject]:
        """The files it touches."""
        return get_objects(self.fields, "locations")

    @property
    def raw_input(self) -> object:
        """The tool's input, any JSON value."""
        return self.fields.get("rawInput")

    @property
    def raw_output(self) -> object:
        """The tool's output, any JSON value."""
        return self.fields.get("rawOutput")

    @property
    def meta(self) -> JsonObject:
        """The last ``_meta`` that came, or an empty object."""
        return get_object(self.fields, "_meta")

    def to_json(self) -> JsonObject:
        return {
            **super().to_json(),
            "toolCallId": self.tool_call_id,
            "toolCall": self.fields,
            "displayState": self.display_state,
            "announced": self.announced,
            "lateUpdate": self.late_update,
            "permissions": [*self.permissions],
        }

    def _merge(self, fields: JsonObject, whole: bool) -> tuple[int, int]:
        """Take new fields. Gives how much the weight changes, and how many values had a wrong type."""
        change = wrong = 0
        weights = self._weights
        if whole:
            change = -sum(weights.values())
            self.fields = {}
            weights.clear()
        for name, value in fields.items():
            if value is None or name == "sessionUpdate" or (name == "toolCallId" and value == self.tool_call_id):
                continue
            if not isinstance(value, _FIELD_TYPES.get(name, object)):
                wrong += 1
                continue
            weight = _text_size(name) + _weigh(value)
            change += weight - weights.get(name, 0)
            weights[name] = weight
            self.fields[name] = value
        if get_str(fields, "status") is not None or whole:
            self.closed = False
        return change, wrong

    def _ask(self, request_id: str) -> int:
        """Remember a permission request. Gives what it weighs."""
        self.permissions.append(request_id)
        return VALUE_WEIGHT + _text_size(request_id)

    def _shrink(self, weight: int) -> int:
        before = self.weight
        if self.weight > weight:
            self.weight -= sum(VALUE_WEIGHT + _text_size(request_id) for request_id in self.permissions)
            self.permissions.clear()
        for name in sorted(self._weights, key=self._weights.__getitem__, reverse=True):
            if self.weight <= weight:
                break
            self.weight -= self._weights.pop(name)
            del self.fields[name]
        return before - self.weight


class UnknownEntry(Entry):
    """An update that this version does not know, or cannot use, as it came."""

    __slots__ = ("update",)

    kind = "unknown"

    def __init__(self, update: JsonObject) -> None:
        super().__init__()
        self.update = update

    @property
    def update_kind(self) -> str:
        """The wire's ``sessionUpdate``."""
        return get_str(self.update, "sessionUpdate") or ""

    def to_json(self) -> JsonObject:
        return {**super().to_json(), "update": self.update}

    def _shrink(self, weight: int) -> int:
        before = self.weight
        self.update = {"sessionUpdate": self.update_kind[:CUT_LENGTH]}
        self.weight = ENTRY_WEIGHT + _weigh(self.update)
        return before - self.weight


class TurnEntry(Entry):
    """The end of a turn.

    ``outcome`` is ``"result"`` or the outcome of TurnFailed. ``stop_reason`` is the agent's word, None without a
    result. ``error`` is the text of the failure. ``usage`` is what the turn used, None when nothing was reported.
    """

    __slots__ = ("cancel_asked", "error", "outcome", "stop_reason", "usage")

    kind = "turn_end"

    def __init__(
        self,
        outcome: str,
        stop_reason: str | None,
        error: str | None,
        cancel_asked: str | None,
        usage: Usage | None,
    ) -> None:
        super().__init__()
        self.outcome = outcome
        self.stop_reason = stop_reason
        self.error = error
        self.cancel_asked = cancel_asked
        self.usage = usage

    def to_json(self) -> JsonObject:
        return {
            **super().to_json(),
            "outcome": self.outcome,
            "stopReason": self.stop_reason,
            "error": self.error,
            "cancelAsked": self.cancel_asked,
            "usage": self.usage.to_json() if self.usage is not None else None,
        }

    def _weigh_values(self) -> int:
        raw = self.usage.raw if self.usage is not None else None
        return _weigh([self.stop_reason, self.error, raw])

    def _shrink(self, weight: int) -> int:
        before = self.weight
        self.usage = None
        self.stop_reason = self.stop_reason and self.stop_reason[:CUT_LENGTH]
        self.error = self.error and self.error[:CUT_LENGTH]
        self.weight = ENTRY_WEIGHT + self._weigh_values()
        return before - self.weight


class TranscriptLoss:
    """What a transcript dropped to stay within its bounds.

    ``entries`` are whole entries, always the oldest ones. ``bytes`` is the weight of all that was dropped: entries,
    beginnings of long messages, fields of heavy tool calls, and whole states. ``states`` counts those states.
    """

    __slots__ = ("bytes", "entries", "states")

    def __init__(self) -> None:
        self.entries = 0
        self.bytes = 0
        self.states = 0

    def __repr__(self) -> str:
        return f"TranscriptLoss(entries={self.entries}, bytes={self.bytes}, states={self.states})"


# ── The transcript ──────────────────────────────────────────────────────────────────────────────────────────────────


class Transcript:
    """What one session has said, kept from its events.

    Feed it with ``add``, in the order in which the events came. Then read ``entries``, and the latest whole states:
    ``plan``, ``usage``, ``mode``, ``commands``, ``config_options``, ``title`` and ``updated_at``, each as on the wire
    and None until it is known. ``revisions`` counts texts that were taken back, ``ignored`` values of a wrong type.

    Messages are told apart by their ids. Chunks without one belong together until a chunk of another role, a tool call,
    a plan, an unknown update, or the end of a turn comes between; a whole state between them does not count, since
    agents send those by the clock. A tool call is everything that was said of its id, wherever its updates come. A
    second ``tool_call`` with the id replaces it; in a later turn it is a new one, for agents that count anew each turn.

    Past ``max_entries`` or ``max_bytes`` the oldest entries go. The entry that is being written stays; when it is more
    than three quarters by itself, a message loses its beginning and a tool call its heaviest fields, down to a half. A
    whole state past a sixteenth of ``max_bytes`` is not kept. ``loss`` counts it all.

    Args:
        text: ``"delta"``: each chunk is the next piece of its message. ``"cumulative"``: each chunk is the whole text
            of its message so far; one that does not begin with the text before it is kept as a revision.
        max_entries: how many entries are kept.
        max_bytes: how much is kept, in UTF-8 bytes of text, plus 64 for each value and 256 for each entry.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: ``text`` is another word, ``max_entries`` is below 1, or ``max_bytes`` below 8192.
    """

    __slots__ = (
        "_calls",
        "_count",
        "_cumulative",
        "_entries",
        "_last",
        "_messages",
        "_open",
        "_state_weights",
        "_turns",
        "_weight",
        "commands",
        "config_options",
        "ignored",
        "loss",
        "max_bytes",
        "max_entries",
        "mode",
        "plan",
        "revisions",
        "session_id",
        "text_mode",
        "title",
        "updated_at",
        "usage",
    )

    def __init__(self, *, text: str = DELTA, max_entries: int = 65536, max_bytes: int = 64 * 1024 * 1024) -> None:
        check_type("text", text, str, "a str")
        check_type("max_entries", max_entries, int, "an int")
        check_type("max_bytes", max_bytes, int, "an int")
        if text not in (DELTA, CUMULATIVE):
            raise ValueError(f"text is {clip(text)}; it is {DELTA!r} or {CUMULATIVE!r}")
        if max_entries < 1:
            raise ValueError(f"max_entries is {max_entries}; at least one entry has to be kept")
        if max_bytes < MIN_BYTES:
            raise ValueError(f"max_bytes is {max_bytes}; give at least {MIN_BYTES}")
        self.text_mode = text
        self.max_entries = max_entries
        self.max_bytes = max_bytes
        self.session_id: str | None = None
        self.plan: list[JsonObject] | None = None
        self.usage: JsonObject | None = None
        self.mode: str | None = None
        self.commands: list[JsonObject] | None = None
        self.config_options: list[JsonObject] | None = None
        self.title: str | None = None
        self.updated_at: str | None = None
        self.revisions = 0
        self.ignored = 0
        self.loss = TranscriptLoss()
        self._cumulative = text == CUMULATIVE
        self._entries: deque[Entry] = deque()
        self._count = 0
        self._weight = 0
        self._state_weights: dict[str, int] = {}
        # The entry that the last update of the conversation went to: what a chunk without an id may join.
        self._last: Entry | None = None
        self._messages: dict[tuple[str, str, str], MessageEntry] = {}
        self._calls: dict[tuple[bool, str], ToolCallEntry] = {}
        self._open: dict[int, ToolCallEntry] = {}
        self._turns = 0

    # ── What is kept ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything that is kept, in the order in which each entry began on the wire."""
        return tuple(self._entries)

    @property
    def messages(self) -> tuple[MessageEntry, ...]:
        """The messages among the entries."""
        return tuple(entry for entry in self._entries if isinstance(entry, MessageEntry))

    @property
    def tool_calls(self) -> tuple[ToolCallEntry, ...]:
        """The tool calls among the entries."""
        return tuple(entry for entry in self._entries if isinstance(entry, ToolCallEntry))

    @property
    def weight(self) -> int:
        """What is kept, measured as ``max_bytes`` is."""
        return self._weight

    # ── What comes in ───────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, event: Event) -> Entry | None:
        """Take an event of the session; an event that says nothing about the conversation changes nothing.

        Returns: the entry that was added or changed, None when there is none.

        Raises:
            TypeError: ``event`` is no Event.
            LocalProtocolError: the event is of another session.
        """
        if isinstance(event, events.Update):
            self._check_session(event.session.session_id)
            role = _ROLES.get(event.__class__)
            if role is not None:
                return self._chunk(event, role)
            return self._update(event)
        check_type("event", event, events.Event, "an Event")
        if isinstance(event, events.PermissionRequested):
            self._check_session(event.session_id)
            mark = TAIL if event.replayed else ""
            return self._permission(event.tool_call, event.request_id, mark, event.at)
        if isinstance(event, events.SessionEvent):
            return self._session_event(event)
        return None

    def add_prompt(self, content: str | Sequence[Mapping[str, object]], at: float = 0.0) -> MessageEntry:
        """Add what the user was told to ask: a user message marked ``"local"``.

        For agents that do not repeat the prompt as user chunks; after one that does, it stands there twice.

        Args:
            content: a text, or content blocks, as given to ``prompt``.

        Raises:
            TypeError: ``content`` is neither.
        """
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
        for block in blocks:
            check_type("a content block", block, dict, "a dict")
        entry = MessageEntry(USER, None)
        self._place(entry, LOCAL, None, at)
        change = 0
        for block in blocks:
            part = _plain(block)
            change += entry._append(part if part is not None else dict(block))
        self._charge(entry, change)
        return entry

    def _check_session(self, session_id: str | None) -> None:
        if session_id == self.session_id or session_id is None:
            return
        if self.session_id is not None:
            local(
                "transcript.session",
                f"an event of session {clip(session_id)}; this transcript is of {clip(self.session_id)}: keep one each",
            )
        self.session_id = session_id

    def _chunk(self, event: events.Update, role: str) -> Entry:
        update = event.update
        block = update.get("content")
        if not isinstance(block, dict):
            return self._unknown(event)
        mark = event.mark
        message_id = self._checked_id(update.get("messageId"))
        entry: MessageEntry | None = None
        if message_id is not None:
            entry = self._messages.get((role, _scope(mark), message_id))
        elif isinstance(last := self._last, MessageEntry):
            if last.role == role and last.message_id is None and _scope(last.mark) == _scope(mark):
                entry = last
        if entry is None:
            entry = MessageEntry(role, message_id)
            if message_id is not None:
                self._messages[role, _scope(mark), message_id] = entry
            if role == USER and mark == REPLAYED:
                # A history has no ends of turns: what the user said begins the next one.
                self._turns += 1
            self._place(entry, mark, event.turn, event.at)
        self._last = entry
        change = 0
        part = _plain(block)
        if part is None:
            text = _block_text(block)
            if self._cumulative and text:
                change = self._whole_text(entry, block, text)
            else:
                change = entry._append(block)
        elif part:
            change = self._whole_text(entry, part, part) if self._cumulative else entry._append(part)
        meta = update.get("_meta")
        if isinstance(meta, dict):
            change += _weigh(meta) - (_weigh(entry.meta) if entry.meta is not None else 0)
            entry.meta = meta
        self._charge(entry, change)
        return entry

    def _whole_text(self, entry: MessageEntry, part: Part, text: str) -> int:
        change, revised = entry._replace(part, text)
        self.revisions += revised
        return change

    def _update(self, event: events.Update) -> Entry | None:
        update = event.update
        if isinstance(event, events.ToolCallFields):
            whole = isinstance(event, events.ToolCall)
            return self._tool_call(update, whole, whole, event.mark, event.turn, event.at)
        if isinstance(event, events.Plan):
            self._last = None
            self._set_list("plan", update.get("entries"))
        elif isinstance(event, events.AvailableCommandsUpdate):
            self._set_list("commands", update.get("availableCommands"))
        elif isinstance(event, events.ConfigOptionUpdate):
            self._set_list("config_options", update.get("configOptions"))
        elif isinstance(event, events.CurrentModeUpdate):
            if event.current_mode_id:
                self._set_state("mode", event.current_mode_id)
            else:
                self.ignored += 1
        elif isinstance(event, events.UsageUpdate):
            self._set_state("usage", {name: value for name, value in update.items() if name != "sessionUpdate"})
        elif isinstance(event, events.SessionInfoUpdate):
            for name, key in (("title", "title"), ("updated_at", "updatedAt")):
                value = update.get(key)
                if value is None and key not in update:
                    continue
                if value is None or isinstance(value, str):
                    self._set_state(name, value)
                else:
                    self.ignored += 1
        else:
            return self._unknown(event)
        return None

    def _session_event(self, event: events.SessionEvent) -> Entry | None:
        if isinstance(event, events.PermissionAnswered):
            self._check_session(event.session_id)
            tool_call = get_object(event.params, "toolCall")
            known = self._calls.get((False, get_str(tool_call, "toolCallId") or ""))
            if known is not None and event.request_id in known.permissions:
                # It was taken when it was asked; since then the call may have gone on.
                return known
            if known is None and not get_str(tool_call, "toolCallId") and event.by != "policy":
                return None
            return self._permission(tool_call, event.request_id, "", event.at)
        if isinstance(event, (events.TurnEnded, events.TurnFailed)):
            self._check_session(event.session_id)
            return self._turn_over(event)
        if isinstance(event, (events.SessionReady, events.SessionClosed)):
            self._check_session(event.session_id)
            self._close_open_calls()
        elif isinstance(event, events.CycleEnded):
            self._check_session(event.session_id)
            self._last = None
        return None

    def _turn_over(self, event: events.TurnEnded | events.TurnFailed) -> TurnEntry:
        self._close_open_calls()
        self._turns += 1
        if isinstance(event, events.TurnEnded):
            error = event.cancel_error
            entry = TurnEntry("result", event.stop_reason, None, event.cancel_asked, turn_usage(event.result))
        else:
            error = event.error
            entry = TurnEntry(event.outcome, None, None, event.cancel_asked, None)
        entry.error = str(error) if error is not None else None
        self._place(entry, "", event.turn, event.at)
        entry.prompt_id = event.prompt_id
        self._charge(entry, entry._weigh_values())
        return entry

    def _close_open_calls(self) -> None:
        """Whatever is still open will not be finished by its agent (client rule N6)."""
        for call in self._open.values():
            call.closed = True
        self._open.clear()

    def _permission(self, tool_call: JsonObject, request_id: str, mark: str, at: float) -> Entry:
        """A permission request may be the first, or the only one to say what a tool does."""
        entry = self._tool_call(tool_call, False, True, mark, None, at)
        self._charge(entry, entry._ask(request_id))
        return entry

    def _tool_call(
        self, fields: JsonObject, whole: bool, begins: bool, mark: str, turn: Turn | None, at: float
    ) -> ToolCallEntry:
        call_id = self._checked_id(fields.get("toolCallId"))
        key = (mark == REPLAYED, call_id or "")
        entry = self._calls.get(key) if call_id is not None else None
        if entry is not None and begins and entry.ended and entry._turns != self._turns:
            entry = None
        if entry is None:
            entry = ToolCallEntry(call_id or "")
            if call_id is not None:
                self._calls[key] = entry
            self._place(entry, mark, turn, at)
        self._last = entry
        entry._turns = self._turns
        if turn is not None:
            entry._turn = turn
        entry.late_update |= mark == LATE
        if entry.prompt_id is None and turn is not None:
            entry.prompt_id, entry.identity = turn.prompt_id, turn.identity
        # The first announcement of a call that is known from a permission request or from updates adds to it.
        change, wrong = entry._merge(fields, whole and entry.announced)
        entry.announced |= whole
        self.ignored += wrong
        if entry.ended:
            self._open.pop(entry.number, None)
        else:
            self._open[entry.number] = entry
        self._charge(entry, change)
        return entry

    def _unknown(self, event: events.Update) -> UnknownEntry:
        entry = UnknownEntry(event.update)
        self._place(entry, event.mark, event.turn, event.at)
        self._charge(entry, _weigh(event.update))
        return entry

    def _checked_id(self, value: object) -> str | None:
        """An id of the agent; None for none, and for what cannot be one."""
        if value is None:
            return None
        if isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH:
            return value
        self.ignored += 1
        return None

    # ── Bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _place(self, entry: Entry, mark: str, turn: Turn | None, at: float) -> None:
        entry.number = self._count
        entry.mark = mark
        entry.at = at
        if turn is not None:
            entry.prompt_id, entry.identity = turn.prompt_id, turn.identity
        self._count += 1
        self._entries.append(entry)
        self._weight += entry.weight
        self._last = entry
        if len(self._entries) > self.max_entries:
            self._forget(self._entries.popleft())

    def _charge(self, entry: Entry, change: int) -> None:
        entry.weight += change
        self._weight += change
        if self._weight > self.max_bytes:
            self._make_room(entry)

    def _make_room(self, written: Entry | None) -> None:
        """Cut the entry that is being written when it is too much by itself, then drop the oldest of the others."""
        room = self.max_bytes - sum(self._state_weights.values())
        if written is not None and written.weight > room * 3 // 4:
            # Down to a half, so that this is rare: its cost is the whole message each time.
            before = written.weight
            dropped = written._shrink(room // 2)
            written.cut += dropped
            self.loss.bytes += dropped
            self._weight += written.weight - before
        aside: Entry | None = None
        while self._weight > self.max_bytes and self._entries:
            oldest = self._entries.popleft()
            if oldest is written:
                aside = oldest
            else:
                self._forget(oldest)
        if aside is not None:
            self._entries.appendleft(aside)

    def _forget(self, entry: Entry) -> None:
        self._weight -= entry.weight
        self.loss.entries += 1
        self.loss.bytes += entry.weight
        if entry is self._last:
            self._last = None
        if isinstance(entry, MessageEntry):
            if entry.message_id is not None:
                self._messages.pop((entry.role, _scope(entry.mark), entry.message_id), None)
        elif isinstance(entry, ToolCallEntry):
            self._open.pop(entry.number, None)
            key = (entry.mark == REPLAYED, entry.tool_call_id)
            if self._calls.get(key) is entry:
                del self._calls[key]

    def _set_list(self, name: str, value: object) -> None:
        if isinstance(value, list):
            found = [item for item in value if isinstance(item, dict)]
            self.ignored += len(value) - len(found)
            self._set_state(name, found)
        else:
            self.ignored += 1

    def _set_state(self, name: str, value: object) -> None:
        weight = _weigh(value)
        if weight > self.max_bytes // STATE_SHARE:
            self.loss.states += 1
            self.loss.bytes += weight
            value, weight = None, 0
        setattr(self, name, value)
        self._weight += weight - self._state_weights.get(name, 0)
        self._state_weights[name] = weight
        if self._weight > self.max_bytes:
            self._make_room(self._entries[-1] if self._entries else None)

    # ── What goes out ───────────────────────────────────────────────────────────────────────────────────────────────

    def to_json(self) -> JsonObject:
        """Everything that is kept, as a value for ``json.dumps``. Values of the wire are shared, not copied."""
        return {
            "version": 1,
            "sessionId": self.session_id,
            "text": self.text_mode,
            "entries": [entry.to_json() for entry in self._entries],
            "plan": self.plan,
            "usage": self.usage,
            "mode": self.mode,
            "commands": self.commands,
            "configOptions": self.config_options,
            "title": self.title,
            "updatedAt": self.updated_at,
            "loss": {"entries": self.loss.entries, "bytes": self.loss.bytes, "states": self.loss.states},
            "revisions": self.revisions,
            "ignored": self.ignored,
        }

    def to_text(self, *, raw: bool = True) -> str:
        """The conversation as plain text. ``raw=False`` leaves out the tools' raw input and output."""
        blocks = [self.title] if self.title else []
        if self.loss.entries:
            blocks.append(f"[{_loss(self.loss)}]")
        for shown in _shown(self._entries, raw):
            words = (shown.label, shown.name, *(f"({detail})" for detail in shown.details))
            blocks.append("\n".join([f"[{_one_line(' '.join(filter(None, words)))}]", *map(_as_text, shown.pieces)]))
        if self.plan:
            lines = [f"- [{box}] {_one_line(content)}{note}" for box, content, note in _plan_lines(self.plan)]
            blocks.append("\n".join(["[plan]", *lines]))
        return _encodable("\n\n".join(blocks))

    def to_markdown(self, *, raw: bool = True) -> str:
        """The conversation as Markdown. ``raw=False`` leaves out the tools' raw input and output.

        What was said is quoted, what tools read or wrote is fenced, and names stand in code spans: whatever they
        contain, an open code block or a piece of HTML, they end where they end.
        """
        blocks = [f"# {_inline(self.title)}"] if self.title else []
        if self.loss.entries:
            blocks.append(f"*{_loss(self.loss)}*")
        for shown in _shown(self._entries, raw):
            blocks.append(f"### {shown.label.capitalize()}{' ' + _code(shown.name) if shown.name else ''}")
            if shown.details:
                # No line of ours begins with backticks, unless it is a fence.
                blocks.append(f"({', '.join(map(_code, shown.details))})")
            for piece in shown.pieces:
                blocks += _as_markdown(piece)
        if self.plan:
            lines = [f"- [{box}] {_inline(content)}{_inline(note)}" for box, content, note in _plan_lines(self.plan)]
            blocks += ["### Plan", "\n".join(lines)]
        return _encodable("\n\n".join(blocks) + "\n") if blocks else ""


def _scope(mark: str) -> str:
    """Where an id holds: history, what came behind a fence, and what the owner added are told apart from the rest."""
    return "" if mark == TAIL else mark


def _plain(block: Mapping[str, object]) -> str | None:
    """The text of a block that is a text and nothing more, else None."""
    if len(block) == 2 and block.get("type") == "text":
        text = block.get("text")
        return text if isinstance(text, str) else None
    return None


# ── Rendering ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Piece:
    """A piece of an entry: what it is and its name, or a text, or both. ``said`` means Markdown by its author."""

    __slots__ = ("info", "label", "name", "said", "text")

    def __init__(self, label: str, name: str, text: str | None, info: str = "", said: bool = False) -> None:
        self.label = label
        self.name = name
        self.text = text
        self.info = info
        self.said = said


class _Shown:
    """How an entry is shown: the label and name of its heading, details, and pieces."""

    __slots__ = ("details", "label", "name", "pieces")

    def __init__(self, label: str, name: str, details: list[str], pieces: list[_Piece]) -> None:
        self.label = label
        self.name = name
        self.details = details
        self.pieces = pieces


def _shown(entries: Iterable[Entry], raw: bool) -> Iterator[_Shown]:
    for entry in entries:
        details = [entry.mark] if entry.mark and entry.mark != LOCAL else []
        pieces = [_Piece("dropped", f"{entry.cut} bytes", None)] if entry.cut else []
        if isinstance(entry, MessageEntry):
            pieces += _message_pieces(entry)
            if pieces:
                yield _Shown(entry.role, "", details, pieces)
        elif isinstance(entry, ToolCallEntry):
            name = get_str(entry.fields, "name")
            details += [word for word in (entry.tool_kind, name, entry.display_state) if word]
            pieces += _tool_pieces(entry, raw)
            yield _Shown("tool", entry.title or entry.tool_call_id, details, pieces)
        elif isinstance(entry, UnknownEntry):
            pieces.append(_Piece("", "", _dumps(entry.update), "json"))
            yield _Shown("update", entry.update_kind, details, pieces)
        elif isinstance(entry, TurnEntry):
            if entry.stop_reason == "refusal":
                pieces.append(_Piece("not in the agent's context any more", "this prompt and what followed it", None))
            if entry.error is not None:
                pieces.append(_Piece("error", "", entry.error))
            yield _Shown("turn ended", entry.stop_reason or entry.outcome, details, pieces)


def _message_pieces(entry: MessageEntry) -> Iterator[_Piece]:
    for text in entry.revisions:
        yield _Piece("", "", text, said=True)
        yield _Piece("revised", "", None)
    for block in entry.content:
        yield from _block_pieces(block, said=True)


def _block_pieces(block: JsonObject, said: bool) -> Iterator[_Piece]:
    kind = get_str(block, "type")
    resource = get_object(block, "resource")
    # Binary data is named and not shown.
    data = get_str(resource, "blob") if kind == "resource" else get_str(block, "data")
    size = f"{len(data)} characters of base64" if data is not None else None
    if kind == "text" and (text := get_str(block, "text")) is not None:
        if text:
            yield _Piece("", "", text, said=said)
    elif kind in ("image", "audio") and size is not None:
        yield _Piece(kind, _words(get_str(block, "mimeType"), size, get_str(block, "uri")), None)
    elif kind == "resource_link" and (uri := get_str(block, "uri")) is not None:
        names = (get_str(block, "title"), get_str(block, "name"))
        yield _Piece("link", _words(*names, uri, get_str(block, "description")), None)
    elif kind == "resource" and (text := get_str(resource, "text")) is not None:
        yield _Piece("resource", _words(get_str(resource, "uri"), get_str(resource, "mimeType")), text)
    elif kind == "resource" and size is not None:
        yield _Piece("resource", _words(get_str(resource, "uri"), get_str(resource, "mimeType"), size), None)
    else:
        yield _Piece("block", kind or "", _dumps(block), "json")


def _words(*words: str | None) -> str:
    return " ".join(filter(None, words))


def _tool_pieces(entry: ToolCallEntry, raw: bool) -> Iterator[_Piece]:
    for location in entry.locations:
        line = location.get("line")
        path = get_str(location, "path") or _dumps(location)
        yield _Piece("at", path if line is None else f"{path}:{line}", None)
    if raw and entry.raw_input is not None:
        yield _value_piece("input", entry.raw_input)
    content = entry.fields.get("content")
    for item in content if isinstance(content, list) else []:
        if not isinstance(item, dict):
            yield _value_piece("content", item)
        elif item.get("type") == "content" and isinstance(block := item.get("content"), dict):
            yield from _block_pieces(block, said=False)
        elif item.get("type") == "diff" and isinstance(new := item.get("newText"), str):
            old = get_str(item, "oldText")
            lines = [*_prefixed("-", old), *_prefixed("+", new)]
            yield _Piece("diff", get_str(item, "path") or "", "\n".join(lines), "diff")
        elif item.get("type") == "terminal" and isinstance(terminal := item.get("terminalId"), str):
            yield _Piece("terminal", terminal, None)
        else:
            yield _value_piece("content", item)
    if raw and entry.raw_output is not None:
        yield _value_piece("output", entry.raw_output)


def _prefixed(sign: str, text: str | None) -> Iterable[str]:
    """The lines of one side of a diff, all of them: nothing is left out for being equal on both sides."""
    if not text:
        return ()
    return [sign + line for line in text.removesuffix("\n").split("\n")]


def _value_piece(label: str, value: object) -> _Piece:
    if isinstance(value, str):
        return _Piece(label, "", value)
    return _Piece(label, "", _dumps(value), "json")


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _plan_lines(plan: list[JsonObject]) -> Iterator[tuple[str, str, str]]:
    for item in plan:
        status, priority = get_str(item, "status"), get_str(item, "priority")
        words = [word for word in (status, priority) if word and word not in ("completed", "pending", "medium")]
        content = item.get("content")
        text = content if isinstance(content, str) else _dumps(item)
        yield "x" if status == "completed" else " ", text, f" ({', '.join(words)})" if words else ""


def _loss(loss: TranscriptLoss) -> str:
    return f"{loss.entries} earlier entries were dropped, {loss.bytes} bytes in all"


def _as_text(piece: _Piece) -> str:
    label = f"{piece.label}: {_one_line(piece.name)}" if piece.name else f"{piece.label}:" if piece.label else ""
    return "\n".join(part for part in (label, piece.text) if part)


def _as_markdown(piece: _Piece) -> Iterator[str]:
    if piece.label:
        yield f"{piece.label.capitalize()}: {_code(piece.name)}" if piece.name else f"{piece.label.capitalize()}:"
    if piece.text is not None:
        yield _quoted(piece.text) if piece.said else _fenced(piece.text, piece.info)


_BACKTICKS = re.compile("`+")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#&!|~])")
_LINE_END = re.compile(r"\r\n?|\n")


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _fenced(text: str, info: str = "") -> str:
    """A code block that nothing in ``text`` can close."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{info}\n{text}\n{fence}"


def _quoted(text: str) -> str:
    """A block quote: whatever is open at the end of ``text`` ends with it."""
    return "\n".join("> " + line if line else ">" for line in _LINE_END.split(text))


def _one_line(text: str) -> str:
    return _LINE_END.sub(" ", text)


def _code(text: str) -> str:
    """A code span that nothing in ``text`` can close."""
    text = _one_line(text)
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if text[:1] in ("`", " ") or text[-1:] in ("`", " ") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _inline(text: str) -> str:
    """Text that is no Markdown, on one line of Markdown."""
    return _SPECIAL.sub(r"\\\1", _one_line(text))


def _encodable(text: str) -> str:
    """Lone surrogates written out, so that the text can be stored as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
