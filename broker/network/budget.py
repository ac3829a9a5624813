"""How many bytes of requests may be in memory at once (`queued.max.request.bytes`).

A connection asks before it receives, and reserves the whole length of a frame when the frame
begins: reserving as bytes come would let many half-received frames fill the budget so that none
could ever end. As in Kafka, a frame may begin while anything at all is left, so the budget is
exceeded by at most the one frame that begins last.
"""

from math import inf
from typing import Protocol


class Waiter(Protocol):
    def resume_receiving(self) -> None:
        """Called when there may be room again. Must not begin requests: dispatch is calling."""
        ...


class MemoryBudget:
    __slots__ = ("limit_bytes", "used_bytes", "waiting")

    def __init__(self, limit_bytes: int) -> None:
        """A limit below zero means that there is none."""
        self.limit_bytes = limit_bytes if limit_bytes >= 0 else inf
        self.waiting: dict[Waiter, None] = {}
        self.used_bytes = 0

    @property
    def is_exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    def reserve(self, count: int) -> None:
        self.used_bytes += count

    def release(self, count: int) -> None:
        self.used_bytes -= count
        if self.waiting:
            self.admit()

    def wait(self, waiter: Waiter) -> None:
        self.waiting[waiter] = None

    def forget(self, waiter: Waiter) -> None:
        self.waiting.pop(waiter, None)

    def admit(self) -> None:
        """Tell those who wait, if there is room."""
        if self.is_exhausted:
            return
        # Each one looks for itself when it next receives whether there is still room.
        waiting, self.waiting = self.waiting, {}
        for waiter in waiting:
            waiter.resume_receiving()
