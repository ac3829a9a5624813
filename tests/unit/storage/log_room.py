"""A room with one log in it: batches to append, ways to read back, stops of every kind."""

from dataclasses import dataclass, field
from random import Random

from odradek.protocol.clock import ManualClock
from odradek.protocol.records import (
    EndTxnMarker,
    ProducerStamp,
    Record,
    build_batch,
    end_txn_marker,
    iter_headers,
    iter_records,
    write_base_offset_and_epoch,
)
from odradek.protocol.types import TopicPartition
from odradek.storage.files import Files
from odradek.storage.log import Log
from odradek.storage.log_config import LogConfig
from odradek.storage.log_parts import AppendInfo
from odradek.storage.log_reading import Isolation
from odradek.storage.memory_files import MemoryFiles
from odradek.storage.recovery import LogOpening, open_log
from odradek.storage.validation import Origin

DIRECTORY = "/data/orders-0"
DEFAULTS = LogConfig(LogConfig.table.defaults())
START_MS = 1_700_000_000_000


def batch(
    *values: bytes,
    timestamp: int = START_MS,
    producer: ProducerStamp | None = None,
    key: bytes | None = b"k",
) -> bytearray:
    """One produced batch; record i is one millisecond later than record i - 1."""
    records = [Record(i, timestamp + i, key, value) for i, value in enumerate(values)]
    if producer is None:
        return bytearray(build_batch(records))
    return bytearray(build_batch(records, producer=producer))


def replicated(*values: bytes, offset: int, epoch: int = 0, timestamp: int = START_MS) -> bytes:
    """A batch as a leader sends it."""
    data = batch(*values, timestamp=timestamp)
    write_base_offset_and_epoch(data, 0, offset, epoch)
    return bytes(data)


def values_in(data: bytes) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record but markers; raises unless `data` is whole good batches."""
    found = []
    end = 0
    for position, header in iter_headers(data):
        end = position + header.size_bytes
        if not header.is_control:
            found += [(r.offset, r.value) for r in iter_records(data, position, header)]
    assert end == len(data), "whole batches"
    return found


@dataclass
class Room:
    files: Files = field(default_factory=MemoryFiles)
    directory: str = DIRECTORY
    overrides: dict[str, str] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))
    failures: list[OSError] = field(default_factory=list)
    log_start: int = 0
    recovery_point: int = 0

    def __post_init__(self) -> None:
        self.files.make_dir(self.directory)
        if isinstance(self.files, MemoryFiles):
            self.files.sync_dir("/")  # the log directory is older than any log
        self.log = self.open(is_clean=True)

    @property
    def memory(self) -> MemoryFiles:
        assert isinstance(self.files, MemoryFiles)
        return self.files

    @property
    def config(self) -> LogConfig:
        return DEFAULTS.with_overrides(self.overrides)

    def open(self, *, is_clean: bool) -> Log:
        self.log = open_log(
            LogOpening(
                topic_partition=TopicPartition("orders", 0),
                directory=self.directory,
                files=self.files,
                clock=self.clock,
                random=Random(1),
                config=self.config,
                producer_expiration_ms=86_400_000,
                on_failure=self.failures.append,
                is_clean=is_clean,
                recovery_point=self.recovery_point,
                log_start_offset=self.log_start,
            )
        )
        return self.log

    def checkpoint(self) -> None:
        self.log_start = self.log.log_start_offset
        self.recovery_point = self.log.recovery_point

    def stop_and_open(self) -> Log:
        """A clean restart."""
        self.log.close()
        self.checkpoint()
        return self.open(is_clean=True)

    def kill_and_open(self) -> Log:
        """A killed process: the files stay as they are, nothing is closed."""
        self.log.segments.release()
        return self.open(is_clean=False)

    def cut_power_and_open(self, random: Random | None = None) -> Log:
        self.memory.crash(random)
        return self.open(is_clean=False)

    def append(self, *values: bytes, epoch: int = 0, timestamp: int = START_MS) -> AppendInfo:
        info = self.log.append_as_leader(batch(*values, timestamp=timestamp), leader_epoch=epoch)
        return info

    def append_committed(self, *values: bytes) -> AppendInfo:
        info = self.append(*values)
        self.log.update_high_watermark(self.log.log_end_offset)
        return info

    def fill(self, count: int, size: int = 100) -> None:
        """`count` batches of one record of `size` bytes, all below the high watermark."""
        for _ in range(count):
            value = b"%d:" % self.log.log_end_offset
            self.append_committed(value.ljust(size, b"."))

    def end_transaction(self, producer_id: int, *, commit: bool, epoch: int = 0) -> AppendInfo:
        marker = end_txn_marker(
            EndTxnMarker(commit, 0),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=self.clock.now_ms(),
        )
        return self.log.append_as_leader(
            bytearray(marker), leader_epoch=0, origin=Origin.COORDINATOR
        )

    def read(self, offset: int, max_bytes: int = 1 << 30, **options: bool) -> bytes:
        result = self.log.read(offset, max_bytes, **options)
        return result.records.read() if result.records else b""

    def read_all(self, isolation: Isolation = Isolation.LOG_END) -> list[tuple[int, bytes | None]]:
        """Every record from the log start on, fetched as a consumer would."""
        found: list[tuple[int, bytes | None]] = []
        offset = self.log.log_start_offset
        while True:
            result = self.log.read(offset, 10_000, isolation=isolation)
            if result.records is None:
                return [row for row in found if row[0] >= self.log.log_start_offset]
            data = result.records.read()
            found += values_in(data)
            *_, (_, last) = iter_headers(data)
            assert last.next_offset > offset, "reading goes on"
            offset = last.next_offset

    def names(self) -> list[str]:
        return [entry.name for entry in self.files.scan(self.directory)]
