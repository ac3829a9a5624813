"""A shard's log on a partition that this broker leads.

Bound to one leader epoch: when the partition has another, every question is answered with
NOT_LEADER_OR_FOLLOWER, even if this broker leads again. Reading happens in a thread: what a new
coordinator loads has mostly not been touched for long.
"""

import asyncio
from collections.abc import Callable

from odradek.protocol.errors import Errors, KafkaError
from odradek.replication.leader import Leader
from odradek.replication.partition import Partition
from odradek.storage.log_reading import Isolation
from odradek.storage.validation import FIRST_VERSION_WITH_ZSTD, Origin

_ALL_IN_SYNC = -1


class PartitionLog:
    def __init__(
        self, partition: Partition, epoch: int, *, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._partition = partition
        self._epoch = epoch
        self._loop = loop

    @property
    def start_offset(self) -> int:
        return self._partition.log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._partition.log.log_end_offset

    @property
    def committed_end(self) -> int:
        return self._partition.log.high_watermark

    @property
    def _is_leading(self) -> bool:
        role = self._partition.role
        return isinstance(role, Leader) and role.epoch == self._epoch

    def append(self, batch: bytes) -> int:
        if not self._is_leading:
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER)
        info = self._partition.append(
            bytearray(batch),  # gets its offset in place
            acks=_ALL_IN_SYNC,
            origin=Origin.COORDINATOR,
            produce_version=FIRST_VERSION_WITH_ZSTD,
        )
        return info.last_offset + 1

    def outcome(self, end: int) -> Errors | None:
        if not self._is_leading:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if self._partition.log.high_watermark < end:
            return None
        if not self._partition.has_quorum:
            return Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return Errors.NONE

    def watch(self, end: int, look: Callable[[], None]) -> None:
        self._partition.hw_waiters.park(end, look)

    async def read(self, offset: int, max_bytes: int) -> bytes:
        found = self._partition.read(
            offset, max_bytes, isolation=Isolation.LOG_END, min_one_batch=True
        )
        if found.records is None:
            return b""
        return await self._loop.run_in_executor(None, found.records.read)
