"""Every bound of the core: its name, its default and the reason for the default (rule 6).

``LIMITS`` is the one table; ``Limits`` takes each row as a keyword argument and docs/limits.md is made from it.
"""

from __future__ import annotations

from .errors import END_OF_TIME, clip

MIB = 1024 * 1024

# (name, default, unit, reason)
LIMITS: tuple[tuple[str, int | float, str, str], ...] = (
    ("max_line_bytes", 64 * MIB, "bytes", "base64 images and replayed tool results of 16 MiB and more are real"),
    ("max_depth", 128, "levels", "real traffic nests less than 20 levels; far below any interpreter's own limit"),
    ("max_id_bytes", 1024, "bytes", "a peer's request id is kept and echoed; UUIDs need 36"),
    ("too_long_head_bytes", 4096, "bytes", "what is kept of a line past the bound: enough to see what it was"),
    ("too_long_tail_bytes", 256, "bytes", "enough to find an id that is written last"),
    (
        "max_unread_bytes",
        160 * MIB,
        "bytes",
        "two of the longest lines and a large read; a caller that drains needs less",
    ),
    ("max_output_bytes", 80 * MIB, "bytes", "one of the longest lines and 16 MiB of others may wait for a slow peer"),
    ("max_output_total_bytes", 96 * MIB, "bytes", "automatic answers and cancels still fit where intents are refused"),
    (
        "max_open_requests",
        4096,
        "requests",
        "own requests and elicitations by URL that are open: 200 busy sessions",
    ),
    ("max_incoming_requests", 1024, "requests", "the peer's requests that wait for our answer"),
    (
        "max_tombstones",
        4096,
        "ids",
        "requests given up whose answer may still come, and as many withdrawn ones: tells late and unsent from unknown",
    ),
    ("max_sessions", 65536, "sessions", "sessions on one connection, ended ones that are still known included"),
    ("max_held_bytes", 1 * MIB, "bytes", "updates that come before the session/new answer which names their session"),
    ("error_answer_burst", 16, "answers", "answers to lines that are no message, before the rate counts"),
    ("error_answer_rate", 1.0, "answers per second", "a peer that prints text must not be answered line by line"),
    (
        "max_tool_calls",
        1024,
        "tool calls",
        "title and kind kept a session: a permission request may hold only an id",
    ),
    (
        "max_answered_kept",
        256,
        "requests",
        "fingerprints kept, so that a replayed request is not raised again",
    ),
    (
        "max_snapshot_bytes",
        262144,
        "bytes",
        "stored at every step; a busy one has about 1 KiB a session",
    ),
    ("max_identity_bytes", 1024, "bytes", "an owner's identity of a prompt, kept with its turn"),
    (
        "max_ledger_size",
        16 * MIB,
        "code points",
        "text of one served turn, kept to compare with what comes later; the output of a model is far below",
    ),
    ("cancel_grace", 2.0, "seconds", "a turn past its own deadline is cancelled, and answered within so long"),
    ("write_grace", 2.0, "seconds", "after a failed write the peer's last words are read for so long"),
)


class Limits:
    """The bounds of one connection. Every argument is optional; see ``LIMITS`` for defaults, units and reasons.

    Raises:
        TypeError: an argument is no number.
        ValueError: an argument is not positive, or two of them contradict each other.
    """

    __slots__ = tuple(row[0] for row in LIMITS)

    max_line_bytes: int
    max_depth: int
    max_id_bytes: int
    too_long_head_bytes: int
    too_long_tail_bytes: int
    max_unread_bytes: int
    max_output_bytes: int
    max_output_total_bytes: int
    max_open_requests: int
    max_incoming_requests: int
    max_tombstones: int
    max_sessions: int
    max_held_bytes: int
    error_answer_burst: int
    error_answer_rate: float
    max_tool_calls: int
    max_answered_kept: int
    max_snapshot_bytes: int
    max_identity_bytes: int
    max_ledger_size: int
    cancel_grace: float
    write_grace: float

    def __init__(
        self,
        *,
        max_line_bytes: int | None = None,
        max_depth: int | None = None,
        max_id_bytes: int | None = None,
        too_long_head_bytes: int | None = None,
        too_long_tail_bytes: int | None = None,
        max_unread_bytes: int | None = None,
        max_output_bytes: int | None = None,
        max_output_total_bytes: int | None = None,
        max_open_requests: int | None = None,
        max_incoming_requests: int | None = None,
        max_tombstones: int | None = None,
        max_sessions: int | None = None,
        max_held_bytes: int | None = None,
        error_answer_burst: int | None = None,
        error_answer_rate: float | None = None,
        max_tool_calls: int | None = None,
        max_answered_kept: int | None = None,
        max_snapshot_bytes: int | None = None,
        max_identity_bytes: int | None = None,
        max_ledger_size: int | None = None,
        cancel_grace: float | None = None,
        write_grace: float | None = None,
    ) -> None:
        given = locals()
        for name, default, unit, _reason in LIMITS:
            value = given[name]
            if value is None:
                value = default
            elif isinstance(value, bool) or not isinstance(value, (int, float) if isinstance(default, float) else int):
                raise TypeError(f"{name} must be a number of {unit}, not {type(value).__name__}")
            if not 0 < value < END_OF_TIME:
                raise ValueError(f"{name} must be a positive number of {unit}, not {clip(value)}")
            object.__setattr__(self, name, value)
        if self.max_output_total_bytes < self.max_output_bytes:
            raise ValueError(
                f"max_output_total_bytes ({self.max_output_total_bytes}) must not be below max_output_bytes "
                f"({self.max_output_bytes}): automatic answers need room above intents"
            )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Limits are fixed once made: pass {name}= to Limits()")


# They are fixed once made, so that connections without limits of their own share them.
DEFAULT_LIMITS = Limits()
