"""Timers of the coordinators: deadlines that are moved far more often than they are met.

A member's session ends unless it is heard of, and every heartbeat moves that end. Setting and
cancelling a timer of the event loop for each would fill its heap with dead entries. A `Deadline`
keeps one timer that looks, when it fires, whether the deadline was moved meanwhile.

Times are monotonic. `ManualTimers` is the twin for tests: time passes when it is told to.
"""

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from odradek.protocol.clock import Clock, ManualClock


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    """The part of an event loop that is needed here."""

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer: ...


class Deadline:
    """Calls `on_expiry` once it is past, however often it was moved before."""

    __slots__ = ("_clock", "_due", "_on_expiry", "_timer", "_timer_due", "_timers")

    def __init__(self, timers: Timers, clock: Clock, on_expiry: Callable[[], None]) -> None:
        self._timers = timers
        self._clock = clock
        self._on_expiry = on_expiry
        self._due: float | None = None
        self._timer: Timer | None = None
        self._timer_due = 0.0

    @property
    def is_set(self) -> bool:
        return self._due is not None

    def set(self, delay_ms: int) -> None:
        """Expire this long from now, whatever was said before."""
        due = self._due = self._clock.monotonic() + delay_ms / 1000
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._start(due, delay_ms / 1000)

    def clear(self) -> None:
        """Never expire, until set again."""
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expire(self) -> None:
        """Expire now, if it is set."""
        if self._due is not None:
            self.clear()
            self._on_expiry()

    def look(self) -> None:
        """Expire now if it is past: a loop that is late hears of requests before its timers."""
        if self._due is not None and self._due <= self._clock.monotonic():
            self.expire()

    def _start(self, due: float, delay: float) -> None:
        self._timer_due = due
        self._timer = self._timers.call_later(max(0.0, delay), self._fire)

    def _fire(self) -> None:
        self._timer = None
        due = self._due
        if due is None:
            return
        left = due - self._clock.monotonic()
        if left > 0:
            self._start(due, left)
            return
        self._due = None
        self._on_expiry()


class ManualTimer:
    __slots__ = ("callback", "due", "order")

    def __init__(self, due: float, order: int, callback: Callable[[], None]) -> None:
        self.due = due
        self.order = order
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: "ManualTimer") -> bool:
        return (self.due, self.order) < (other.due, other.order)

    def cancel(self) -> None:
        self.callback = None


class ManualTimers:
    """Timers on a clock that moves only when told to."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._heap: list[ManualTimer] = []
        self._order = 0

    @property
    def pending(self) -> int:
        """How many timers are still going to fire."""
        return sum(timer.callback is not None for timer in self._heap)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> ManualTimer:
        self._order += 1
        timer = ManualTimer(self._clock.monotonic() + delay, self._order, callback)
        heappush(self._heap, timer)
        return timer

    def advance(self, milliseconds: int) -> None:
        """Let time pass; what becomes due on the way happens at its own moment."""
        end = self._clock.now_ms() + milliseconds
        while self._heap:
            wait_ms = math.ceil(round((self._heap[0].due - self._clock.monotonic()) * 1000, 3))
            if self._clock.now_ms() + wait_ms > end:
                break
            self._clock.advance(max(0, wait_ms))
            timer = heappop(self._heap)
            if timer.callback is not None:
                timer.callback()
        self._clock.advance(end - self._clock.now_ms())
