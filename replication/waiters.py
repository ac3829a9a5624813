"""Parked requests: callbacks that wait until an offset is reached.

A partition keeps one of these for its high watermark (producers with acks=all, consumers), one
for its log end (followers) and one for its last stable offset (read_committed consumers). Nothing
here knows of time: whoever parks sets a timer of its own and cancels what it parked.
"""

from collections.abc import Callable
from heapq import heappop, heappush

Callback = Callable[[], None]


class Parked:
    """A callback that waits; `cancel` makes it wait in vain."""

    __slots__ = ("_order", "callback", "offset")

    def __init__(self, offset: int, order: int, callback: Callback) -> None:
        self.offset = offset
        self._order = order
        self.callback: Callback | None = callback

    def __lt__(self, other: "Parked") -> bool:
        return (self.offset, self._order) < (other.offset, other._order)

    def cancel(self) -> None:
        self.callback = None


class Waiters:
    __slots__ = ("_cancelled_room", "_order", "parked")

    def __init__(self) -> None:
        self.parked: list[Parked] = []
        """A heap, of those that were cancelled, too; only to be looked at from outside."""
        self._order = 0
        self._cancelled_room = 64

    def park(self, offset: int, callback: Callback) -> Parked:
        """Call `callback` once the offset is reached; those of one offset in order."""
        self._order += 1
        parked = Parked(offset, self._order, callback)
        heappush(self.parked, parked)
        if len(self.parked) > self._cancelled_room:
            self._sweep()
        return parked

    def reach(self, offset: int) -> None:
        """Call all that wait for `offset` or less."""
        heap = self.parked
        while heap and heap[0].offset <= offset:
            _call(heappop(heap))

    def release(self) -> None:
        """Call all that wait, whatever for: things changed, let them look for themselves."""
        waiting, self.parked = sorted(self.parked), []
        for parked in waiting:
            _call(parked)

    def _sweep(self) -> None:
        """Long polls on a quiet partition come and go by timeout; forget those that went."""
        self.parked = sorted(parked for parked in self.parked if parked.callback is not None)
        self._cancelled_room = max(64, 2 * len(self.parked))


def _call(parked: Parked) -> None:
    callback, parked.callback = parked.callback, None
    if callback is not None:
        callback()
