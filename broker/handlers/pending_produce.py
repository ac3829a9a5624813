"""Produce with acks=all: an answer that waits for the replicas."""

import asyncio
from typing import Final

from odradek.broker.later import Later
from odradek.protocol.errors import Errors
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from odradek.replication.partition import Partition
from odradek.replication.waiters import Parked
from odradek.storage.log import Log

NO_OFFSET: Final = -1


class PendingProduce:
    """An answer that waits until enough replicas have the records, or for the timeout."""

    __slots__ = (
        "_answer",
        "_loop",
        "_parked",
        "_response",
        "_timer",
        "has_new_leaders",
        "unsynced",
        "waits",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # (partition, the offset its high watermark must reach, our reign then, its result)
        self.waits: list[tuple[Partition, int, int, PartitionProduceResponse]] = []
        self.has_new_leaders = False
        # Logs that must be on disk first.
        self.unsynced: list[tuple[Log, PartitionProduceResponse]] = []
        self._parked: dict[Partition, Parked] = {}

    def add(self, partition: Partition, offset: int, result: PartitionProduceResponse) -> None:
        self.waits.append((partition, offset, partition.reign, result))

    def begin(self, response: ProduceResponse, timeout_ms: int) -> Later[ProduceResponse]:
        """Wait for what is not decided yet: other requests may have been served since `add`."""
        self._response = response
        self._answer: Later[ProduceResponse] = Later()
        self._forget_decided()
        if not self.waits:
            self._answer.set(response)
            return self._answer
        self._timer = self._loop.call_later(max(0, timeout_ms) / 1000, self._time_is_over)
        for partition, offset, _, _ in self.waits:
            self._parked[partition] = partition.hw_waiters.park(offset, self._look)
        return self._answer

    def _forget_decided(self) -> None:
        self.waits = [wait for wait in self.waits if not self._is_decided(*wait)]

    def _look(self) -> None:
        """Something moved: answer when everything is decided."""
        self._forget_decided()
        if not self.waits:
            self._finish()
            return
        for partition, offset, _, _ in self.waits:
            # Let go though nothing is decided: a new epoch in which this broker leads on.
            if self._parked[partition].callback is None:
                self._parked[partition] = partition.hw_waiters.park(offset, self._look)

    def _is_decided(
        self, partition: Partition, offset: int, reign: int, result: PartitionProduceResponse
    ) -> bool:
        if partition.reign != reign:
            fail(result, Errors.NOT_LEADER_OR_FOLLOWER)
            return True
        if partition.log.high_watermark < offset:
            return False
        if not partition.has_quorum:
            fail(result, Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def _time_is_over(self) -> None:
        for _, _, _, result in self.waits:
            fail(result, Errors.REQUEST_TIMED_OUT)
        self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        for parked in self._parked.values():
            parked.cancel()
        self._answer.set(self._response)


def fail(result: PartitionProduceResponse, error: Errors) -> None:
    """Turn a success into a failure: the records may or may not be kept."""
    result.error_code = error
    result.base_offset = NO_OFFSET
    result.log_append_time_ms = -1
