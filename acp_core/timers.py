"""Deadlines as data: a heap of absolute times, each with the action it stands for. No clock here (rule 5)."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """One deadline. ``when`` is in seconds on the caller's clock; a duration that has not started yet while unarmed."""

    __slots__ = ("action", "sequence", "when")

    def __init__(self, when: float, sequence: int, action: Callable[[float], None] | None) -> None:
        self.when = when
        self.sequence = sequence
        self.action = action


class Timers:
    """All deadlines of a connection; the earliest is known in O(1)."""

    __slots__ = ("_cancelled", "_heap", "_sequence", "_unarmed")

    def __init__(self) -> None:
        # Mostly empty: then each is the one empty tuple. The heap has tuples, by time and sequence: heapq compares them
        # without a call of ours.
        self._heap: list[tuple[float, int, Timer]] | tuple[()] = ()
        self._unarmed: list[Timer] | tuple[()] = ()
        self._sequence = 0
        self._cancelled = 0

    @property
    def unarmed(self) -> bool:
        """Some duration waits for ``start``."""
        return bool(self._unarmed)

    def at(self, when: float, action: Callable[[float], None]) -> Timer:
        """Run ``action(now)`` at the first timeout that is handled at or after ``when``."""
        self._sequence += 1
        timer = Timer(when, self._sequence, action)
        self._arm(timer)
        return timer

    def after(self, seconds: float, action: Callable[[float], None]) -> Timer:
        """The same for a duration that begins with the next ``start``."""
        self._sequence += 1
        timer = Timer(seconds, self._sequence, action)
        if self._unarmed:
            self._unarmed.append(timer)
        else:
            self._unarmed = [timer]
        return timer

    def start(self, now: float) -> None:
        """Arm the durations."""
        for timer in self._unarmed:
            if timer.action is not None:
                timer.when += now
                self._arm(timer)
        self._unarmed = ()

    def cancel(self, timer: Timer | None) -> None:
        """Disarm. A timer that fired or was cancelled before is left alone."""
        if timer is None or timer.action is None:
            return
        timer.action = None
        if self._unarmed and timer in self._unarmed:
            self._unarmed.remove(timer)
            return
        self._cancelled += 1
        self._drop_cancelled()
        heap = self._heap
        # Cancelled entries below the top are kept until they outnumber the others: memory stays bounded, cost O(1).
        if heap and self._cancelled > 16 and self._cancelled * 2 > len(heap):
            heap[:] = [entry for entry in heap if entry[2].action is not None]
            heapify(heap)
            self._cancelled = 0

    def next(self) -> float | None:
        """The earliest deadline that is armed, or None."""
        return self._heap[0][0] if self._heap else None

    def fire(self, now: float) -> bool:
        """Run the earliest timer if it is due at ``now``. False when none is due."""
        heap = self._heap
        if not heap or heap[0][0] > now:
            return False
        timer = heappop(heap)[2]
        action, timer.action = timer.action, None
        self._drop_cancelled()
        if action is not None:
            action(now)
        return True

    def clear(self) -> None:
        """Disarm all."""
        for timer in (*(entry[2] for entry in self._heap), *self._unarmed):
            timer.action = None
        self._heap = ()
        self._unarmed = ()
        self._cancelled = 0

    def _arm(self, timer: Timer) -> None:
        entry = (timer.when, timer.sequence, timer)
        if self._heap:
            heappush(self._heap, entry)
        else:
            self._heap = [entry]

    def _drop_cancelled(self) -> None:
        heap = self._heap
        while heap and heap[0][2].action is None:
            heappop(heap)
            self._cancelled -= 1
        if not heap:
            self._heap = ()

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled + len(self._unarmed)
