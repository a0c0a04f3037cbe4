"""The replay window: how long a loaded session's history may still be coming."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .timers import Timer


class Replay:
    """What belongs to one load or resume: what was counted, and when the window closes.

    ``quiet`` and ``longest`` are in seconds: the window closes when no transcript update has come for ``quiet``, at the
    latest ``longest`` after the response (client rule L4). Until the response has come, ``answered_at`` is None.
    """

    __slots__ = ("after", "answered_at", "count", "last_at", "longest", "quiet", "report", "timer", "wire_bytes")

    def __init__(self, quiet: float, longest: float, report: bool) -> None:
        self.quiet = quiet
        self.longest = longest
        self.report = report
        self.count = 0
        # How many of them came behind the response.
        self.after = 0
        self.wire_bytes = 0
        self.last_at = 0.0
        self.answered_at: float | None = None
        self.timer: Timer | None = None

    def saw(self, size: int, at: float) -> None:
        """Count one transcript update of the history."""
        self.count += 1
        self.after += self.answered_at is not None
        self.wire_bytes += size
        self.last_at = at

    def answered(self, at: float) -> None:
        """The response has come: the quiet period counts from here."""
        self.answered_at = at
        self.last_at = at

    def deadline(self) -> float:
        """When the window closes, as far as is known now."""
        began = self.answered_at if self.answered_at is not None else self.last_at
        return min(self.last_at + self.quiet, began + self.longest)
