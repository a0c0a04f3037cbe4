"""Deadlines as data: a heap of absolute times, each with what it is set for. No clock here (rule 5)."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Deadline:
    """Something that a time is set for. ``when`` is in seconds on the caller's clock; a duration that has not started
    yet while unarmed. ``pending`` is false before it is set, and once it has fired or was cancelled."""

    __slots__ = ("pending", "when")

    when: float

    def __init__(self) -> None:
        self.pending = False


class Timer(Deadline):
    """A deadline that is nothing but an action, which is run with the time."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[float], None]) -> None:
        self.pending = False
        self.action = action


class Timers:
    """All deadlines of a connection; the earliest is known in O(1)."""

    __slots__ = ("_cancelled", "_heap", "_sequence", "_unarmed")

    def __init__(self) -> None:
        # Mostly empty: then each is the one empty tuple. The heap has tuples, by time and sequence: heapq compares them
        # without a call of ours.
        self._heap: list[tuple[float, int, Deadline]] | tuple[()] = ()
        self._unarmed: list[tuple[int, Deadline]] | tuple[()] = ()
        self._sequence = 0
        self._cancelled = 0

    @property
    def unarmed(self) -> bool:
        """Some duration waits for ``start``."""
        return bool(self._unarmed)

    def at(self, when: float, action: Callable[[float], None]) -> Timer:
        """A timer that is due from ``when`` on."""
        timer = Timer(action)
        self.arm(timer, when)
        return timer

    def after(self, seconds: float, action: Callable[[float], None]) -> Timer:
        """The same for a duration that begins with the next ``start``."""
        timer = Timer(action)
        self.arm_later(timer, seconds)
        return timer

    def arm(self, deadline: Deadline, when: float) -> None:
        """Set a deadline that is not pending: it is due from ``when`` on."""
        deadline.when = when
        deadline.pending = True
        self._sequence = sequence = self._sequence + 1
        if self._heap:
            heappush(self._heap, (when, sequence, deadline))
        else:
            self._heap = [(when, sequence, deadline)]

    def arm_later(self, deadline: Deadline, seconds: float) -> None:
        """The same for a duration that begins with the next ``start``."""
        deadline.when = seconds
        deadline.pending = True
        self._sequence += 1
        if self._unarmed:
            self._unarmed.append((self._sequence, deadline))
        else:
            self._unarmed = [(self._sequence, deadline)]

    def start(self, now: float) -> None:
        """Arm the durations."""
        if not self._unarmed:
            return
        self._heap = heap = self._heap or []
        for sequence, deadline in self._unarmed:
            deadline.when += now
            heappush(heap, (deadline.when, sequence, deadline))
        self._unarmed = ()

    def cancel(self, deadline: Deadline | None) -> None:
        """Disarm. One that is not pending is left alone."""
        if deadline is None or not deadline.pending:
            return
        deadline.pending = False
        for entry in self._unarmed:
            if entry[1] is deadline:
                self._unarmed = [other for other in self._unarmed if other is not entry]
                return
        heap = self._heap
        if heap and heap[0][2] is deadline:
            heappop(heap)
            self._drop_cancelled()
            return
        self._cancelled += 1
        # Cancelled entries below the top are kept until they outnumber the others: memory stays bounded, cost O(1).
        if heap and self._cancelled > 16 and self._cancelled * 2 > len(heap):
            heap[:] = [entry for entry in heap if entry[2].pending]
            heapify(heap)
            self._cancelled = 0

    def next(self) -> float | None:
        """The earliest deadline that is armed, or None."""
        return self._heap[0][0] if self._heap else None

    def take(self, now: float) -> Deadline | None:
        """Remove and return the earliest deadline if it is due at ``now``; it is not pending any more."""
        heap = self._heap
        if not heap or heap[0][0] > now:
            return None
        deadline = heappop(heap)[2]
        deadline.pending = False
        self._drop_cancelled()
        return deadline

    def clear(self) -> None:
        """Disarm all."""
        for entry in (*self._heap, *self._unarmed):
            entry[-1].pending = False
        self._heap = ()
        self._unarmed = ()
        self._cancelled = 0

    def _drop_cancelled(self) -> None:
        heap = self._heap
        while heap and not heap[0][2].pending:
            heappop(heap)
            self._cancelled -= 1
        if not heap:
            self._heap = ()

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled + len(self._unarmed)
