"""What became of a start whose response was lost: asked a bounded number of times, never sent again.

Pure: the owner asks when ``take_query`` says so, tells what came back, and passes time in. The rules are M34 to M39.
"""

from __future__ import annotations

from .errors import check_duration, check_type, clip, items, local
from .state import ADMITTED, ASKING, DROPPED, NOT_ADMITTED, PAUSING, START_SETTLEMENT, UNKNOWN, allows, move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("ADMITTED", "DROPPED", "NOT_ADMITTED", "UNKNOWN", "StartSettlement")

# Queries, the deadline of each in seconds, and the pauses between them in seconds.
ATTEMPTS = 5
ATTEMPT_DEADLINE = 1.0
PAUSES = (0.025, 0.05, 0.1, 0.2)


class StartSettlement:
    """Finds out whether a start was admitted, by queries about it.

    A fact settles it at once, whenever it comes: ``admitted`` (something shows the thing, running or over) or
    ``not_admitted`` (the other side says that it never was). Everything else is a failed attempt. After the last one it
    is ``unknown``, for good. Nothing here starts anything again.

    Args:
        attempts: the most queries that are made.
        attempt_deadline: seconds until a query without an answer counts as failed.
        pauses: seconds before the second query, the third, and so on; the last one counts for all that follow.

    Raises:
        TypeError: an argument has a wrong type.
        LocalProtocolError: there is no attempt, a time is not positive, or a pause is missing.
    """

    __slots__ = ("_asked", "_attempt_deadline", "_attempts", "_due", "_owed", "_pauses", "cause", "state")

    def __init__(
        self,
        *,
        attempts: int = ATTEMPTS,
        attempt_deadline: float = ATTEMPT_DEADLINE,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        check_type("attempts", attempts, int, "an int")
        if attempts < 1:
            local("settlement.attempts", f"attempts is {attempts}; at least one query has to be made")
        check_duration("attempt_deadline", attempt_deadline)
        waits = items("pauses", pauses, "seconds")
        for pause in waits:
            check_duration("a pause", pause)
        if attempts > 1 and not waits:
            local("settlement.pauses", f"there is no pause, but there are {attempts} attempts")
        self._attempts = attempts
        self._attempt_deadline = attempt_deadline
        self._pauses = tuple(waits)
        self._asked = 0
        self._owed = True
        self._due: float | None = None
        # What the latest failed attempt failed with.
        self.cause: object = None
        self.state = ASKING

    def __repr__(self) -> str:
        return f"StartSettlement({self.state}, {self._asked} of {self._attempts} asked)"

    @property
    def verdict(self) -> str | None:
        """``"admitted"``, ``"not_admitted"``, ``"unknown"``, ``"dropped"``, or None while it is open."""
        return None if self.state in (ASKING, PAUSING) else self.state

    @property
    def attempts(self) -> int:
        """How many queries were made."""
        return self._asked

    def take_query(self, now: float) -> int | None:
        """The number of the query to make now, from 1; None when none is due. Its deadline begins."""
        if not self._owed or self.verdict is not None:
            return None
        self._owed = False
        self._asked += 1
        self._due = now + self._attempt_deadline
        return self._asked

    def admitted(self) -> None:
        """Something shows that it was admitted. Settled before: a no-op."""
        self._settle("admitted")

    def not_admitted(self) -> None:
        """The other side says that it never was. Settled before: a no-op."""
        self._settle("not_found")

    def failed(self, attempt: int, cause: object, now: float) -> None:
        """A query came to nothing. Only the one that is being waited for counts."""
        if attempt != self._asked or not allows(START_SETTLEMENT, self.state, "fail") or self._owed:
            return
        self.cause = cause
        if self._asked >= self._attempts:
            self._settle("exhaust")
            return
        self.state = move(START_SETTLEMENT, self.state, "fail")
        self._due = now + self._pauses[min(self._asked, len(self._pauses)) - 1]

    def wake(self) -> None:
        """Something has changed: a pause ends, and the next query is due at once (host rule M34)."""
        if allows(START_SETTLEMENT, self.state, "ask"):
            self.state = move(START_SETTLEMENT, self.state, "ask")
            self._owed = True
            self._due = None

    def drop(self) -> None:
        """Nobody wants to know any more: no further query is made."""
        self._settle("drop")

    def handle_timeout(self, now: float) -> None:
        """Time has passed: a pause ends, or a query has taken too long. Early calls are no-ops."""
        if self._due is None or now < self._due:
            return
        if allows(START_SETTLEMENT, self.state, "ask"):
            self.wake()
        else:
            self.failed(self._asked, f"no answer within {clip(self._attempt_deadline)} s", now)

    def next_deadline(self) -> float | None:
        """When ``handle_timeout`` is next of use; None for never."""
        return self._due

    def _settle(self, event: str) -> None:
        if allows(START_SETTLEMENT, self.state, event):
            self.state = move(START_SETTLEMENT, self.state, event)
            self._owed = False
            self._due = None
