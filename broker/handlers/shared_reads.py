"""What one follower reads the others read, too, in the same moment: one look at the log for all.

Only of small reads, and only of the last one: that is what a record with acks=all comes to. The key
holds everything that a read depends on, so nothing old is ever handed out.
"""

from typing import NamedTuple

from odradek.broker.handlers.fetch_again import SMALL_BYTES
from odradek.replication.partition import Partition
from odradek.storage.files import FileSlice
from odradek.storage.log_reading import Bounds, Isolation


class Found(NamedTuple):
    records: FileSlice | bytes
    bounds: Bounds


class SharedReads:
    __slots__ = ("_found", "_key")

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._found: Found | None = None

    def read(
        self, partition: Partition, offset: int, max_bytes: int, *, min_one_batch: bool
    ) -> Found:
        """All that followers may see from `offset` on; small records are bytes already."""
        log = partition.log
        key = (
            partition,
            offset,
            max_bytes,
            min_one_batch,
            log.log_start_offset,
            log.high_watermark,
            log.log_end_offset,
            log.shape,
            log.failure,
        )
        if key == self._key and self._found is not None:
            return self._found
        if data := _just_appended(partition, offset, max_bytes):
            self._key, self._found = key, Found(data, log.bounds())
            return self._found
        records, bounds, _ = partition.read(
            offset, max_bytes, isolation=Isolation.LOG_END, min_one_batch=min_one_batch
        )
        if records is None:
            return Found(b"", bounds)
        cached = records.read_cached() if records.length <= SMALL_BYTES else None
        if cached is None:
            return Found(records, bounds)
        self._key, self._found = key, Found(cached, bounds)
        return self._found


def _just_appended(partition: Partition, offset: int, max_bytes: int) -> bytes:
    """What need not be read back, as those ask for it who have waited for it; small or nothing."""
    new = partition.just_appended
    if new is None or new.first_offset != offset:
        return b""
    return bytes(new.written) if len(new.written) <= min(max_bytes, SMALL_BYTES) else b""
