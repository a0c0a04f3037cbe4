"""Every state and every transition, as literals, and the small engine that walks them.

A table maps a state to the inputs it takes and the state each leads to; what is absent is illegal. The tables know no
role: the same rules bind both ends. Nothing outside this module writes a transition, and docs/states.md is made from
these tables.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    Table: TypeAlias = Mapping[str, Mapping[str, str]]

# A connection. OVERDUE: initialize was given up, its answer may still come. BROKEN: nothing can be written any more,
# reading goes on. OVER: nothing can be read any more.
NEW, INITIALIZING, OVERDUE, OPEN, BROKEN, OVER = "new", "initializing", "overdue", "open", "broken", "over"

CONNECTION: Table = {
    NEW: {"initialize": INITIALIZING, "attach": OPEN, "write_failed": BROKEN, "end": OVER},
    INITIALIZING: {"initialized": OPEN, "refused": NEW, "no_answer": OVERDUE, "write_failed": BROKEN, "end": OVER},
    OVERDUE: {"initialized": OPEN, "refused": NEW, "write_failed": BROKEN, "end": OVER},
    OPEN: {"write_failed": BROKEN, "end": OVER},
    BROKEN: {"initialized": BROKEN, "refused": BROKEN, "end": OVER},
    OVER: {"end": OVER},
}

# A request that was made here. WAITING: its bytes are not in the output yet. FORGOTTEN: settled by its deadline, the
# answer may still come.
WAITING, QUEUED, SENT, CANCEL_SENT, FORGOTTEN, SETTLED = (
    "waiting",
    "queued",
    "sent",
    "cancel_sent",
    "forgotten",
    "settled",
)

REQUEST: Table = {
    WAITING: {"queue": QUEUED, "attach": SENT, "withdraw": SETTLED, "end": SETTLED},
    QUEUED: {"hand_over": SENT, "withdraw": SETTLED, "end": SETTLED},
    SENT: {"answer": SETTLED, "cancel": CANCEL_SENT, "deadline": FORGOTTEN, "give_up": FORGOTTEN, "end": SETTLED},
    CANCEL_SENT: {
        "answer": SETTLED,
        "cancel": CANCEL_SENT,
        "deadline": FORGOTTEN,
        "give_up": FORGOTTEN,
        "end": SETTLED,
    },
    FORGOTTEN: {"answer": SETTLED, "end": SETTLED},
    SETTLED: {},
}

# A request of the peer.
UNANSWERED, CANCEL_ASKED, ANSWERED, ABANDONED = "unanswered", "cancel_asked", "answered", "abandoned"

INCOMING: Table = {
    UNANSWERED: {"answer": ANSWERED, "cancel": CANCEL_ASKED, "abandon": ABANDONED},
    CANCEL_ASKED: {"answer": ANSWERED, "cancel": CANCEL_ASKED, "abandon": ABANDONED},
    ANSWERED: {},
    ABANDONED: {},
}

# A session, seen by the side that opened it. STARTING: the handshake or a login is still under way.
# CONFIGURING: model and options are being set. FENCED: a cancelled turn got no answer in time.
STARTING, CREATING, LOADING, RESUMING, REPLAYING, CONFIGURING = (
    "starting",
    "creating",
    "loading",
    "resuming",
    "replaying",
    "configuring",
)
IDLE, PROMPTING, CANCELLING, FENCED, CLOSING, CLOSED = (
    "idle",
    "prompting",
    "cancelling",
    "fenced",
    "closing",
    "closed",
)

SESSION: Table = {
    STARTING: {
        "create": CREATING,
        "load": LOADING,
        "resume": RESUMING,
        "attach": PROMPTING,
        "attach_idle": IDLE,
        "fail": CLOSED,
    },
    CREATING: {"opened": CONFIGURING, "retry": STARTING, "fail": CLOSED},
    LOADING: {"answered": REPLAYING, "retry": STARTING, "fail": CLOSED},
    RESUMING: {"opened": CONFIGURING, "retry": STARTING, "fail": CLOSED},
    REPLAYING: {"opened": CONFIGURING, "fail": CLOSED},
    CONFIGURING: {"ready": IDLE, "fail": CLOSED},
    IDLE: {"prompt": PROMPTING, "close": CLOSING, "fail": CLOSED},
    PROMPTING: {"cancel": CANCELLING, "turn_over": IDLE, "no_answer": FENCED, "close": CLOSING, "fail": CLOSED},
    CANCELLING: {
        "cancel": CANCELLING,
        "turn_over": IDLE,
        "no_answer": FENCED,
        "close": CLOSING,
        "fail": CLOSED,
    },
    FENCED: {"late_answer": IDLE, "close": CLOSING, "fail": CLOSED},
    CLOSING: {
        "turn_over": CLOSING,
        "late_answer": CLOSING,
        "closed": CLOSED,
        "refused": IDLE,
        "refused_in_turn": PROMPTING,
        "refused_in_cancel": CANCELLING,
        "refused_in_fence": FENCED,
        "fail": CLOSED,
    },
    CLOSED: {"late_answer": CLOSED, "fail": CLOSED},
}

# A session, seen by the side that serves it. PROMPTING and CANCELLING end with the last of its open prompts.
SERVED_SESSION: Table = {
    CREATING: {"accept": IDLE, "refuse": CLOSED, "close": CLOSED},
    LOADING: {"accept": IDLE, "refuse": CLOSED, "close": CLOSED},
    RESUMING: {"accept": IDLE, "refuse": CLOSED, "close": CLOSED},
    IDLE: {"prompt": PROMPTING, "load": LOADING, "resume": RESUMING, "closing": CLOSING, "close": CLOSED},
    PROMPTING: {
        "prompt": PROMPTING,
        "cancel": CANCELLING,
        "turn_over": IDLE,
        "closing": CLOSING,
        "close": CLOSED,
    },
    CANCELLING: {
        "prompt": PROMPTING,
        "cancel": CANCELLING,
        "turn_over": IDLE,
        "closing": CLOSING,
        "close": CLOSED,
    },
    CLOSING: {
        "closing": CLOSING,
        "cancel": CLOSING,
        "turn_over": CLOSING,
        "refused": IDLE,
        "refused_in_cancel": CANCELLING,
        "close": CLOSED,
    },
    CLOSED: {"load": LOADING, "resume": RESUMING, "close": CLOSED},
}

# One step of a closing plan. OVERDUE: it ran past its bound and still runs. KEPT: what it needs did not succeed.
STEP_WAITING, STEP_RUNNING, STEP_DONE, STEP_FAILED, STEP_OVERDUE, STEP_KEPT = (
    "waiting",
    "running",
    "done",
    "failed",
    "overdue",
    "kept",
)

CLOSE_STEP: Table = {
    STEP_WAITING: {"start": STEP_RUNNING, "keep": STEP_KEPT},
    STEP_RUNNING: {"succeed": STEP_DONE, "fail": STEP_FAILED, "overdue": STEP_OVERDUE},
    STEP_OVERDUE: {"succeed": STEP_DONE, "fail": STEP_FAILED, "wait_again": STEP_RUNNING},
    STEP_FAILED: {"retry": STEP_WAITING},
    STEP_KEPT: {"retry": STEP_WAITING},
    STEP_DONE: {},
}

# What became of a start whose response was lost (settlement.py). PAUSING: an attempt has failed, the next one waits.
ASKING, PAUSING, ADMITTED, NOT_ADMITTED, UNKNOWN, DROPPED = (
    "asking",
    "pausing",
    "admitted",
    "not_admitted",
    "unknown",
    "dropped",
)

START_SETTLEMENT: Table = {
    ASKING: {
        "fail": PAUSING,
        "exhaust": UNKNOWN,
        "admitted": ADMITTED,
        "not_found": NOT_ADMITTED,
        "drop": DROPPED,
    },
    PAUSING: {"ask": ASKING, "admitted": ADMITTED, "not_found": NOT_ADMITTED, "drop": DROPPED},
    ADMITTED: {},
    NOT_ADMITTED: {},
    UNKNOWN: {},
    DROPPED: {},
}

# A prompt on its way to a runtime host (host.py). Up to UPLOADING nothing was asked to start; SETTLING: the start's
# response was lost.
CHECKING, CONNECTING, ATTACHING, UPLOADING, SETTLING, RUNNING, ENDED = (
    "checking",
    "connecting",
    "attaching",
    "uploading",
    "settling",
    "running",
    "ended",
)

HOST_PROMPT: Table = {
    CHECKING: {"checked": CONNECTING, "over": ENDED},
    CONNECTING: {"connected": ATTACHING, "over": ENDED},
    ATTACHING: {"attached": UPLOADING, "over": ENDED},
    UPLOADING: {"uploaded": STARTING, "over": ENDED},
    STARTING: {"started": RUNNING, "lost": SETTLING, "over": ENDED},
    SETTLING: {"over": ENDED},
    RUNNING: {"over": ENDED},
    ENDED: {},
}

# The subscription of a session at a runtime host. HYDRATING: it is open, and what came before is being read.
UNATTACHED, SUBSCRIBING, HYDRATING, ATTACHED, BACKING_OFF = (
    "unattached",
    "subscribing",
    "hydrating",
    "attached",
    "backing_off",
)

HOST_ATTACHMENT: Table = {
    UNATTACHED: {"subscribe": SUBSCRIBING},
    SUBSCRIBING: {"subscribed": HYDRATING, "recover": BACKING_OFF, "retire": UNATTACHED},
    HYDRATING: {"hydrated": ATTACHED, "recover": BACKING_OFF, "retire": UNATTACHED},
    ATTACHED: {"recover": BACKING_OFF, "retire": UNATTACHED},
    BACKING_OFF: {"subscribe": SUBSCRIBING, "retire": UNATTACHED},
}

TABLES: Mapping[str, Table] = {
    "connection": CONNECTION,
    "request": REQUEST,
    "incoming request": INCOMING,
    "session": SESSION,
    "served session": SERVED_SESSION,
    "start settlement": START_SETTLEMENT,
    "prompt at a host": HOST_PROMPT,
    "subscription at a host": HOST_ATTACHMENT,
    "closing step": CLOSE_STEP,
}

# States of a session in which a transcript update is live.
LIVE = frozenset({IDLE, PROMPTING, CANCELLING, CONFIGURING, CLOSING})
# States in which the work of a session was cancelled: its questions are answered so.
ENDING = frozenset({CANCELLING, FENCED, CLOSING})
# States in which a transcript update is replayed history. STARTING: the agent has asked for a login before it reopens.
REPLAY = frozenset({STARTING, LOADING, RESUMING, REPLAYING})
# States of a connection in which nothing can be written.
UNWRITABLE = frozenset({BROKEN, OVER})
# States in which the opening plan is still under way.
OPENING = frozenset({STARTING, CREATING, LOADING, RESUMING, REPLAYING, CONFIGURING})


def move(table: Table, state: str, event: str) -> str:
    """The state that ``event`` leads to. KeyError when the table has no such transition: a defect of this library."""
    return table[state][event]


def allows(table: Table, state: str, event: str) -> bool:
    """Whether ``event`` is legal in ``state``."""
    return event in table[state]
