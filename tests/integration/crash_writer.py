"""Processes that write to a log until they are killed, and say what they may be held to.

    python crash_writer.py

For every line `<data directory> <seed>` on stdin a child is forked, which opens the log directory
as a broker does, appends batches of many shapes, flushes now and then and checkpoints. On stdout,
one line each, unbuffered:

    pid <number>                    whom to kill
    opened <log start> <log end>    recovery is done
    appended <log end>              in the page cache: a killed process does not lose it
    flushed <log end>               synced: nothing may lose it
    start <log start>               records below were deleted
    gone <signal>                   the child is dead, by which signal
"""

import os
import sys
from random import Random

from odradek.protocol.clock import SystemClock
from odradek.protocol.records import (
    EndTxnMarker,
    ProducerStamp,
    Record,
    build_batch,
    end_txn_marker,
)
from odradek.protocol.types import TopicPartition
from odradek.storage.directory import LogDirectory
from odradek.storage.files import OsFiles
from odradek.storage.log import Log
from odradek.storage.log_config import LogConfig
from odradek.storage.logs import Logs, LogsSettings
from odradek.storage.validation import Origin

PARTITION = TopicPartition("crash", 0)
SETTINGS = {"segment.bytes": "60000", "index.interval.bytes": "1000", "retention.ms": "-1"}


def say(word: str, *numbers: int) -> None:
    os.write(1, " ".join([word, *map(str, numbers)]).encode() + b"\n")


def value_of(offset: int) -> bytes:
    """What every record at `offset` holds, so that a reader can tell a wrong one."""
    return b"%d:" % offset + Random(offset).randbytes(offset % 400)


def give_up(directory: LogDirectory) -> None:
    say("offline")
    os._exit(3)


def open_logs(path: str, seed: int) -> Logs:
    config = LogConfig(LogConfig.table.defaults()).with_overrides(SETTINGS)
    logs = Logs(
        [path],
        files=OsFiles(),
        clock=SystemClock(),
        random=Random(seed),
        settings=LogsSettings(config_of=lambda topic: config),
        on_offline=give_up,
    )
    logs.open(1, "crash-test")
    logs.load()
    return logs


class Writer:
    def __init__(self, logs: Logs, log: Log, random: Random) -> None:
        self.logs = logs
        self.log = log
        self.random = random
        self.now_ms = SystemClock().now_ms()
        self.producer = 1 + random.randrange(1 << 30)
        self.sequence = 0

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.80:
            self.append()
        elif choice < 0.88:
            self.log.flush()
            say("flushed", self.log.log_end_offset)
        elif choice < 0.93:
            [directory] = self.logs.directories
            directory.write_checkpoints(directory.checkpoints())
        elif choice < 0.96:
            self.transaction()
        elif choice < 0.98:
            self.log.roll()
        elif self.log.log_end_offset - self.log.log_start_offset > 3000:
            self.log.update_high_watermark(self.log.log_end_offset)
            self.log.advance_log_start(self.log.log_end_offset - 1500)
            self.log.apply_retention()
            say("start", self.log.log_start_offset)

    def batch(self, count: int, *, is_transactional: bool) -> bytearray:
        first = self.log.log_end_offset
        records = [
            Record(i, self.now_ms + first + i, b"k", value_of(first + i)) for i in range(count)
        ]
        stamp = ProducerStamp(self.producer, 0, self.sequence, is_transactional)
        self.sequence += count
        return bytearray(build_batch(records, producer=stamp))

    def append(self, *, is_transactional: bool = False) -> None:
        data = self.batch(self.random.randint(1, 40), is_transactional=is_transactional)
        self.log.append_as_leader(data, leader_epoch=self.log.epochs.latest_epoch)
        say("appended", self.log.log_end_offset)

    def transaction(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.append(is_transactional=True)
        marker = end_txn_marker(
            EndTxnMarker(self.random.random() < 0.5, 0),
            producer_id=self.producer,
            producer_epoch=0,
            timestamp=self.now_ms,
        )
        epoch = self.log.epochs.latest_epoch
        self.log.append_as_leader(marker, leader_epoch=epoch, origin=Origin.COORDINATOR)
        say("appended", self.log.log_end_offset)


def write_for_ever(path: str, seed: int) -> None:
    logs = open_logs(path, seed)
    log = logs.get(PARTITION) or logs.create(PARTITION)
    say("opened", log.log_start_offset, log.log_end_offset)
    log.begin_epoch(log.epochs.latest_epoch + 1)
    writer = Writer(logs, log, Random(seed))
    while True:
        writer.step()


def main() -> None:
    for line in sys.stdin:
        path, seed = line.split()
        child = os.fork()
        if child == 0:
            write_for_ever(path, int(seed))
        say("pid", child)
        _, status = os.waitpid(child, 0)
        say("gone", os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)


if __name__ == "__main__":
    main()
