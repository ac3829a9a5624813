"""Staying awake for a moment after a request, because the next may come at once.

An event loop that has nothing to do sleeps, and to be woken takes a fifth to a third of the time
that one small request takes. A client that sends one record after the other pays that each time.
So the loop looks for the next event for a while before it sleeps, as long as that pays:

- when nothing comes in time, many more events pass before the loop stays awake again than after a
  time when it was of use, so that it only looks where four of five looks find something: a broker
  that is asked now and then, or by many now and then, sleeps in between;
- at every look others may have the core. When one kept it for a while, that counts as if nothing
  had come: where more want to run than there are cores, the loop soon sleeps like everybody else;
- where something has come at every look, the loop would not have slept, and need not look.

Measured by benchmarks/grid (`synchronous`): 120 µs for a record became 80 to 100.
"""

from collections.abc import Callable
from typing import Final

# A turn of the loop in which nothing happens takes 3 to 5 µs. Where others are merely there, one of
# them now and then takes the core for 50; who has work to do keeps it for longer.
_CROWDED_SECONDS: Final = 100e-6
# What a miss weighs beside a look that was of use, and the most of it that is remembered: 4 events
# pass after the first of several misses, then 16, 64 and 256.
_MISS_WEIGHT: Final = 4
_MOST_WEIGHT: Final = 16
_BUSY_LOOKS: Final = 16
_BUSY_EVENTS: Final = 64


class BusyPoll:
    """Owned by the network, whose connections tell it of bytes that came."""

    __slots__ = (
        "_busy_looks",
        "_call_soon",
        "_give_way",
        "_has_come",
        "_is_looking",
        "_is_quiet",
        "_looked_at",
        "_misses",
        "_now",
        "_rest",
        "_seconds",
        "_until",
    )

    def __init__(
        self,
        *,
        seconds: float,
        now: Callable[[], float],
        call_soon: Callable[[Callable[[], None]], object],
        give_way: Callable[[], None],
    ) -> None:
        self._seconds = seconds
        self._now = now
        self._call_soon = call_soon
        self._give_way = give_way
        self._is_looking = False
        self._has_come = False
        self._is_quiet = False
        self._until = 0.0
        self._looked_at = 0.0
        self._rest = 0
        self._misses = 0
        self._busy_looks = 0

    def heard(self) -> None:
        """Bytes came, and were served."""
        if self._is_looking:
            self._has_come = True
        elif self._rest:
            self._rest -= 1
        else:
            self._is_looking = self._has_come = True
            self._is_quiet = False
            self._busy_looks = 0
            self._call_soon(self._look)

    def _look(self) -> None:
        now = self._now()
        if self._has_come:
            self._has_come = False
            if self._is_quiet:
                # Staying awake was of use.
                self._is_quiet = False
                self._busy_looks = 0
                self._misses = max(0, self._misses - 1)
            else:
                self._busy_looks += 1
                if self._busy_looks > _BUSY_LOOKS:
                    self._rest_for(_BUSY_EVENTS)
                    return
            self._until = now + self._seconds
        elif now >= self._until or now - self._looked_at > _CROWDED_SECONDS:
            self._misses = min(self._misses + _MISS_WEIGHT, _MOST_WEIGHT)
            self._rest_for(1 << self._misses // 2)
            return
        else:
            self._is_quiet = True
        self._looked_at = now
        self._give_way()
        self._call_soon(self._look)

    def _rest_for(self, events: int) -> None:
        self._is_looking = False
        self._rest = events
