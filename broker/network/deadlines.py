"""When a connection has been silent for too long. Pure: facts in, a reason or None out.

Two clocks run. `connections.max.idle.ms` is for connections on which nothing moves: no request
is being answered, or its answer is not taken. The other clock is for frames that have begun: the
rest must come within `FRAME_SECONDS`, plus what a slow line needs for its length. Kafka has only
the first, and holds the memory of a peer that sends a byte a minute for ever.
"""

from dataclasses import dataclass
from typing import Final

FRAME_SECONDS: Final = 30.0
SLOWEST_BYTES_PER_SECOND: Final = 256 * 1024

# Connections are looked at this many times within the shortest deadline, but not all the time.
_LOOKS: Final = 10
_MIN_INTERVAL: Final = 0.05
_MAX_INTERVAL: Final = 10.0


@dataclass(frozen=True, slots=True)
class Deadlines:
    idle_seconds: float | None
    frame_seconds: float = FRAME_SECONDS

    @property
    def interval(self) -> float:
        """How often to look."""
        shortest = min(self.frame_seconds, self.idle_seconds or self.frame_seconds)
        return min(max(shortest / _LOOKS, _MIN_INTERVAL), _MAX_INTERVAL)

    def frame_is_late(self, began_at: float | None, length: int, now: float) -> bool:
        if began_at is None:
            return False
        return now - began_at > self.frame_seconds + length / SLOWEST_BYTES_PER_SECOND

    def is_idle(self, active_at: float, now: float, *, is_being_served: bool) -> bool:
        if self.idle_seconds is None or is_being_served:
            return False
        return now - active_at > self.idle_seconds
