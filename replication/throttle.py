"""Throttles of replication (KIP-73): how fast replicas that catch up may be copied.

A broker has a rate for what it sends to such replicas and one for what it fetches; a topic's
settings name the replicas the rates hold for, as `partition:broker` with the number of the broker
whose rate it is, or `*`. Over the rate they wait, and only they: a replica that is in sync is never
held up, for then it would not stay so.

The rate is an average over the last windows, reckoned as if at least all but one of them were over.
So a short burst is let through, as Kafka does.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from odradek.protocol.clock import Clock
from odradek.protocol.settings import MAX_LONG
from odradek.protocol.types import TopicPartition

EVERY_REPLICA: Final = "*"


class Windows(NamedTuple):
    number: int = 11
    seconds: float = 1.0


class ByteRate:
    """Bytes a second over the last windows."""

    __slots__ = ("_clock", "_samples", "_windows")

    def __init__(self, clock: Clock, windows: Windows) -> None:
        self._clock = clock
        self._windows = windows
        # (the number of a window, the bytes in it), oldest first
        self._samples: deque[tuple[int, int]] = deque()

    def note(self, size: int) -> None:
        window = self._forget_old()
        if self._samples and self._samples[-1][0] == window:
            size += self._samples.pop()[1]
        self._samples.append((window, size))

    def per_second(self) -> float:
        self._forget_old()
        if not self._samples:
            return 0.0
        number, seconds = self._windows
        since_oldest = self._clock.monotonic() - self._samples[0][0] * seconds
        return sum(size for _, size in self._samples) / max((number - 1) * seconds, since_oldest)

    def _forget_old(self) -> int:
        window = int(self._clock.monotonic() // self._windows.seconds)
        while self._samples and self._samples[0][0] <= window - self._windows.number:
            self._samples.popleft()
        return window


class Throttle:
    """One direction of one broker. One owner: the event loop."""

    __slots__ = ("_broker_id", "_limit", "_rate")

    def __init__(
        self, *, broker_id: int, limit: Callable[[], int], clock: Clock, windows: Windows
    ) -> None:
        self._broker_id = broker_id
        self._limit = limit
        self._rate = ByteRate(clock, windows)

    def holds(self, where: TopicPartition, listed: Sequence[str]) -> bool:
        """Whether this replica has to wait; `listed` is what its topic's settings say."""
        if not listed or not self._is_listed(where, listed):
            return False
        limit = self._limit()
        return limit < MAX_LONG and self._rate.per_second() > limit

    def note(self, where: TopicPartition, listed: Sequence[str], size: int) -> None:
        if listed and self._is_listed(where, listed):
            self._rate.note(size)

    def _is_listed(self, where: TopicPartition, listed: Sequence[str]) -> bool:
        return EVERY_REPLICA in listed or f"{where.partition}:{self._broker_id}" in listed
