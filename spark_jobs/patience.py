"""When a stream begins a batch: at once, or when enough is there or it has waited long enough.

As in the official connector the first batch of a run never waits.
"""

from odradek.protocol.clock import Clock, SystemClock


class Patience:
    def __init__(self, enough: int | None, most_ms: int, clock: Clock | None = None) -> None:
        """`enough`: how many offsets are worth a batch; None when one is."""
        self._enough = enough
        self._most_ms = most_ms
        self._clock = clock or SystemClock()
        self._last: float | None = None

    def is_over(self, behind: int) -> bool:
        """Whether to begin now, being so many offsets behind; if so, the next wait begins."""
        if self._enough is None:
            return True
        now = self._clock.monotonic()
        has_waited_long = self._last is None or (now - self._last) * 1000 >= self._most_ms
        if behind < self._enough and not has_waited_long:
            return False
        self._last = now
        return True
