"""One log directory: a disk's worth of partitions, owned by one broker at a time.

    .lock                              held while a broker uses the directory
    meta.properties                    whose it is
    .kafka_cleanshutdown               there only between a clean stop and the next start
    *-offset-checkpoint                recovery points, log starts, high watermarks
    <topic>-<partition>/               one log each
    <topic>-<partition>.<id>-future/   a copy on its way here from another directory

The clean-shutdown marker is removed, durably, before anything is loaded and written after
everything is closed: a crash while loading must not leave it behind.

The first I/O error takes the directory offline, and every log in it with it. The other
directories go on.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from odradek.protocol.types import TopicPartition, random_id
from odradek.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    OffsetsReading,
    read_offsets,
    replace_file,
    write_offsets,
)
from odradek.storage.fence import Fenced
from odradek.storage.files import Files, Lock
from odradek.storage.log import Log
from odradek.storage.properties_files import (
    LogDirectoryError,
    MetaProperties,
    read_meta,
    write_meta,
)

_log = logging.getLogger(__name__)

LOCK_FILE = ".lock"
CLEAN_MARKER = ".kafka_cleanshutdown"


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Offsets of the partitions in a directory, as they were at one moment."""

    recovery_points: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]


class LogDirectory(Fenced):
    def __init__(
        self, path: str, *, files: Files, on_offline: "Callable[[LogDirectory], None]"
    ) -> None:
        super().__init__(f"log directory {path}", self._take_logs_offline)
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        # Copies on their way here, by partition; never of one that is in `logs`.
        self.futures: dict[TopicPartition, Log] = {}
        self.directory_id: bytes | None = None
        self.was_clean = False
        self._files = files
        self._on_offline = on_offline
        self._lock: Lock | None = None
        # Checkpoints are written by several threads; two must not share one temporary file.
        self._checkpointing = threading.Lock()

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r})"

    @property
    def is_online(self) -> bool:
        return self.failure is None

    @property
    def every_log(self) -> dict[TopicPartition, Log]:
        return {**self.logs, **self.futures}

    def _take_logs_offline(self, error: OSError) -> None:
        _log.error("Log directory %s is offline: %s", self.path, error)
        for log in self.every_log.values():
            log.fail(error)
        self._on_offline(self)

    # Opening and closing --------------------------------------------------------------------

    def lock(self) -> None:
        """Keep other brokers out; fine when it is done already."""
        if self._lock is not None:
            return
        self._files.make_dir(self.path)
        self._lock = self._files.lock(f"{self.path}/{LOCK_FILE}")
        if self._lock is None:
            raise LogDirectoryError(f"{self.path} is in use by another broker")

    def open(self, broker_id: int, cluster_id: str) -> None:
        """Take the directory into use: lock, check whose it is, remove the clean marker."""
        self.lock()
        self._claim(broker_id, cluster_id)
        marker = f"{self.path}/{CLEAN_MARKER}"
        self.was_clean = self._files.exists(marker)
        if self.was_clean:
            self._files.remove(marker)
            self._files.sync_dir(self.path)

    def _claim(self, broker_id: int, cluster_id: str) -> None:
        meta = read_meta(self._files, self.path) or MetaProperties(None, None, None)
        if meta.broker_id not in (None, broker_id):
            raise LogDirectoryError(
                f"{self.path} belongs to broker {meta.broker_id}, this is broker {broker_id}"
            )
        if meta.cluster_id not in (None, cluster_id):
            raise LogDirectoryError(
                f"{self.path} belongs to cluster {meta.cluster_id}, this is {cluster_id}"
            )
        self.directory_id = meta.directory_id or random_id()
        claimed = MetaProperties(broker_id, cluster_id, self.directory_id)
        if claimed != meta:
            write_meta(self._files, self.path, claimed)

    def close(self, broker_epoch: int = -1, *, threads: int = 1) -> None:
        """Close all logs, checkpoint them and, when all that went well, leave the clean marker.

        Blocks for the disk. Several threads let the disk gather their syncs: a thousand logs
        take a second instead of ten.
        """
        try:
            close_all(list(self.every_log.values()), threads)
            self.write_checkpoints(self.checkpoints())
            marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch})
            replace_file(self._files, f"{self.path}/{CLEAN_MARKER}", marker.encode())
        finally:
            self.unlock()

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Checkpoints ----------------------------------------------------------------------------

    def checkpoints(self) -> Checkpoints:
        """What to write, taken on the owner's thread; `write_checkpoints` may run in another."""
        logs = self.every_log
        return Checkpoints(
            {tp: log.recovery_point for tp, log in logs.items()},
            {
                tp: log.log_start_offset
                for tp, log in logs.items()
                if log.log_start_offset > log.segments.first.base_offset
            },
            {tp: log.high_watermark for tp, log in self.logs.items()},
        )

    def write_checkpoints(self, checkpoints: Checkpoints) -> None:
        self._write(RECOVERY_POINTS, checkpoints.recovery_points)
        self._write(LOG_STARTS, checkpoints.log_starts)
        self.write_high_watermarks(checkpoints)

    def write_high_watermarks(self, checkpoints: Checkpoints) -> None:
        self._write(HIGH_WATERMARKS, checkpoints.high_watermarks)

    def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        with self._checkpointing:
            write_offsets(self._files, f"{self.path}/{name}", offsets)

    def read_checkpoints(self) -> Checkpoints:
        return Checkpoints(
            self._read(RECOVERY_POINTS), self._read(LOG_STARTS), self._read(HIGH_WATERMARKS)
        )

    def _read(self, name: str) -> Mapping[TopicPartition, int]:
        reading: OffsetsReading = read_offsets(self._files, f"{self.path}/{name}")
        if reading.damage is not None:
            _log.error("Keeping what makes sense of a damaged checkpoint: %s", reading.damage)
        return reading.offsets


def close_all(logs: Sequence[Log], threads: int) -> None:
    """Raises what the first log that could not be closed raised, after all were tried."""
    if threads <= 1:
        for log in logs:
            log.close()
        return
    with ThreadPoolExecutor(threads) as pool:
        closings = [pool.submit(log.close) for log in logs]
    for closing in closings:
        closing.result()
