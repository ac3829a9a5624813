"""The log directories of a broker."""

import json
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition, id_from_text
from odradek.storage.directory import CLEAN_MARKER, Checkpoints, LogDirectory
from odradek.storage.files import Files, OsFiles, read_file, write_fully
from odradek.storage.logs import Logs, LogsSettings
from odradek.storage.memory_files import MemoryFiles
from odradek.storage.partition_names import (
    deleted_name,
    directory_name,
    is_deleted_name,
    parse_directory_name,
)
from odradek.storage.properties_files import LogDirectoryError

from tests.unit.storage.log_room import DEFAULTS, START_MS, batch, values_in

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = id_from_text("AAECAwQFBgcICQoLDA0ODw")


class Broker:
    """As much of a broker as owns logs."""

    def __init__(self, files: Files, *paths: str, threads: int = 1) -> None:
        self.files = files
        self.paths = paths or ("/data1", "/data2")
        self.clock = ManualClock(START_MS)
        self.threads = threads
        self.offline: list[str] = []
        self.config = DEFAULTS.with_overrides({"segment.bytes": "1000"})
        if isinstance(files, MemoryFiles):
            for path in self.paths:
                files.make_dir(path)
            files.sync_dir("/")
        self.start()

    def start(self, broker_id: int = 1, cluster_id: str = "cluster-a") -> Logs:
        self.logs = Logs(
            self.paths,
            files=self.files,
            clock=self.clock,
            random=Random(1),
            settings=LogsSettings(
                config_of=lambda topic: self.config, recovery_threads_per_directory=self.threads
            ),
            on_offline=self.note_offline,
        )
        self.logs.open(broker_id, cluster_id)
        self.logs.load()
        return self.logs

    def note_offline(self, directory: LogDirectory) -> None:
        self.offline.append(directory.path)

    def kill(self) -> None:
        """The process is gone: its locks with it, and nothing was closed."""
        for log in self.logs:
            log.segments.release()
        self.logs.unlock()

    def fill(self, tp: TopicPartition, count: int) -> None:
        log = self.logs.create(tp, topic_id=TOPIC_ID)
        for _ in range(count):
            value = b"%s %d" % (str(tp).encode(), log.log_end_offset)
            log.append_as_leader(batch(value.ljust(80)), leader_epoch=0)
        log.update_high_watermark(log.log_end_offset)

    def values(self) -> Mapping[TopicPartition, int]:
        counts = {}
        for log in self.logs:
            count = 0
            while (records := log.read(count, 1 << 20).records) is not None:
                for offset, value in values_in(records.read()):
                    wanted = b"%s %d" % (str(log.topic_partition).encode(), offset)
                    assert value is not None
                    assert value.strip() == wanted
                    count += 1
            counts[log.topic_partition] = count
        return counts

    def names(self, path: str) -> list[str]:
        return [entry.name for entry in self.files.scan(path)]


def some_partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition(f"topic-{number % 3}", number) for number in range(count)]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_clean_restart_finds_every_log_as_it_was(threads: int) -> None:
    broker = Broker(MemoryFiles(), threads=threads)
    for number, tp in enumerate(some_partitions(12)):
        broker.fill(tp, number)
    before = broker.values()
    broker.logs.close(broker_epoch=5)
    broker.start()
    assert broker.values() == before
    assert all(directory.was_clean for directory in broker.logs.directories)
    assert all(log.high_watermark == log.log_end_offset for log in broker.logs)
    assert broker.logs.topic_id(some_partitions(1)[0]) == TOPIC_ID


def test_partitions_are_spread_over_the_directories() -> None:
    broker = Broker(MemoryFiles())
    for tp in some_partitions(10):
        broker.fill(tp, 1)
    assert [len(directory.logs) for directory in broker.logs.directories] == [5, 5]
    wished = broker.logs.directories[1]
    broker.logs.wishes[ORDERS] = wished
    broker.logs.create(ORDERS)
    assert broker.logs.directory_of(ORDERS) is wished


def test_the_identity_of_a_directory_is_kept_and_checked() -> None:
    broker = Broker(MemoryFiles())
    text = read_file(broker.files, "/data1/meta.properties").decode()
    assert "version=0\nbroker.id=1\ncluster.id=cluster-a\ndirectory.id=" in text
    ids = [directory.directory_id for directory in broker.logs.directories]
    assert len(set(ids)) == 2
    broker.logs.close()
    broker.start()
    assert [directory.directory_id for directory in broker.logs.directories] == ids
    broker.logs.close()
    with pytest.raises(LogDirectoryError, match="broker 1"):
        broker.start(broker_id=2)
    with pytest.raises(LogDirectoryError, match="cluster-a"):
        broker.start(cluster_id="cluster-b")
    broker.start()


def test_a_directory_of_another_format_is_refused() -> None:
    broker = Broker(MemoryFiles())
    broker.logs.close()
    broker.files.remove("/data2/meta.properties")
    file = broker.files.open("/data2/meta.properties", create=True)
    write_fully(file, b"version=1\nnode.id=1\n", 0)
    with pytest.raises(LogDirectoryError, match="version 1"):
        broker.start()


def test_two_brokers_cannot_share_a_directory(tmp_path: Path) -> None:
    Broker(OsFiles(), str(tmp_path))
    with pytest.raises(LogDirectoryError, match="in use"):
        Broker(OsFiles(), str(tmp_path))


def test_a_partition_in_two_directories_is_an_error() -> None:
    broker = Broker(MemoryFiles())
    broker.fill(ORDERS, 1)
    broker.logs.close()
    for path in broker.paths:
        broker.files.make_dir(f"{path}/orders-0")
    with pytest.raises(LogDirectoryError, match="both"):
        broker.start()


# The clean-shutdown marker trusted after a crash (KAFKA-10471, 15375, 13315) ----------------


def test_the_clean_marker_is_gone_before_anything_is_loaded() -> None:
    files = MemoryFiles()
    broker = Broker(files)
    broker.fill(ORDERS, 20)
    broker.logs.close(broker_epoch=5)
    marker = f"/data1/{CLEAN_MARKER}"
    assert json.loads(read_file(files, marker)) == {"version": 0, "brokerEpoch": 5}
    files.fail("scan", on_call=2)  # dies while loading
    broker.start()
    broker.kill()
    files.crash()
    assert not files.exists(marker)
    broker.start()
    assert not any(directory.was_clean for directory in broker.logs.directories)
    assert broker.values() == {ORDERS: 20}


def test_the_clean_marker_is_written_only_when_every_log_was_closed() -> None:
    files = MemoryFiles()
    broker = Broker(files)
    for tp in some_partitions(4):
        broker.fill(tp, 5)
    files.fail("sync", path_contains="/data2/topic-1-1")
    broker.logs.close()
    assert files.exists(f"/data1/{CLEAN_MARKER}")
    assert not files.exists(f"/data2/{CLEAN_MARKER}")
    assert broker.offline == ["/data2"]


def test_a_power_cut_after_a_clean_stop_loses_nothing() -> None:
    files = MemoryFiles()
    broker = Broker(files)
    for tp in some_partitions(6):
        broker.fill(tp, 9)
    before = broker.values()
    broker.logs.close()
    files.crash()
    broker.start()
    assert broker.values() == before
    assert all(directory.was_clean for directory in broker.logs.directories)


# Failing directories ------------------------------------------------------------------------


def test_one_failing_directory_goes_offline_and_the_other_goes_on() -> None:
    files = MemoryFiles()
    broker = Broker(files)
    for tp in some_partitions(4):
        broker.fill(tp, 3)
    files.fail("write", path_contains="/data2/topic-1-1")
    with pytest.raises(KafkaError) as caught:
        broker.fill(TopicPartition("topic-1", 1), 1)
    assert caught.value.error is Errors.KAFKA_STORAGE_ERROR
    assert broker.offline == ["/data2"]
    other = broker.logs.get(TopicPartition("topic-0", 3))
    assert other is not None
    with pytest.raises(KafkaError, match="offline"):
        other.read(0, 100)
    broker.fill(TopicPartition("topic-0", 0), 3)
    assert [directory.path for directory in broker.logs.online] == ["/data1"]
    assert broker.logs.create(TopicPartition("new", 0)).directory == "/data1/new-0"


def test_records_in_an_offline_directory_are_not_replaced_by_an_empty_log() -> None:
    files = MemoryFiles()
    broker = Broker(files)
    broker.fill(ORDERS, 3)
    broker.kill()
    files.fail("lock", path_contains="/data1")
    broker.start()
    assert broker.logs.get(ORDERS) is None
    with pytest.raises(KafkaError) as caught:
        broker.logs.create(ORDERS, is_new=False)
    assert caught.value.error is Errors.KAFKA_STORAGE_ERROR


def test_the_last_directory_to_fail_is_told_as_well() -> None:
    files = MemoryFiles()
    broker = Broker(files, "/only")
    broker.fill(ORDERS, 1)
    files.fail("write", path_contains="orders-0")
    with pytest.raises(KafkaError):
        broker.fill(ORDERS, 1)
    assert broker.offline == ["/only"]
    assert broker.logs.online == []


# Deleting (KAFKA-12964, 13403) --------------------------------------------------------------


def test_a_deleted_partition_is_renamed_first_and_removed_later() -> None:
    broker = Broker(MemoryFiles(), "/data")
    broker.fill(ORDERS, 20)
    log = broker.logs.get(ORDERS)
    assert log is not None
    piece = log.read(0, 100).records
    assert piece is not None
    broker.logs.delete(ORDERS)
    assert broker.logs.get(ORDERS) is None
    [renamed] = [name for name in broker.names("/data") if name.endswith("-delete")]
    assert is_deleted_name(renamed)
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(b"late"), leader_epoch=0)
    assert len(piece.read()) == len(piece)
    assert broker.logs.take_deleted(broker.clock.monotonic()) == []
    broker.clock.advance(60_000)
    broker.logs.remove_deleted(broker.logs.take_deleted(broker.clock.monotonic()))
    assert not [name for name in broker.names("/data") if "orders" in name]


def test_a_partition_created_again_shares_nothing_with_the_deleted_one() -> None:
    broker = Broker(MemoryFiles(), "/data")
    broker.fill(ORDERS, 20)
    old = broker.logs.get(ORDERS)
    assert old is not None
    flush = old.begin_flush()
    broker.logs.delete(ORDERS)
    broker.fill(ORDERS, 2)
    flush.run()  # a flush of the old log, late in its thread
    old.finish_flush(flush)
    broker.clock.advance(60_000)
    broker.logs.remove_deleted(broker.logs.take_deleted(broker.clock.monotonic()))
    assert broker.values() == {ORDERS: 2}
    broker.kill()
    broker.start()
    assert broker.values() == {ORDERS: 2}


def test_what_was_being_deleted_is_removed_after_a_restart() -> None:
    broker = Broker(MemoryFiles(), "/data")
    broker.fill(ORDERS, 20)
    broker.logs.delete(ORDERS)
    broker.kill()
    broker.start()
    assert len(broker.logs) == 0
    broker.logs.remove_deleted(broker.logs.take_deleted(broker.clock.monotonic()))
    assert not [name for name in broker.names("/data") if "orders" in name]


# Checkpoints and names ----------------------------------------------------------------------


def test_checkpoints_hold_recovery_points_log_starts_and_high_watermarks() -> None:
    broker = Broker(MemoryFiles(), "/data")
    broker.fill(ORDERS, 30)
    log = broker.logs.get(ORDERS)
    assert log is not None
    log.flush()
    log.advance_log_start(11)
    broker.fill(ORDERS, 3)
    [directory] = broker.logs.directories
    directory.write_checkpoints(directory.checkpoints())
    for name, offset in [("recovery-point", 30), ("log-start", 11), ("replication", 33)]:
        text = read_file(broker.files, f"/data/{name}-offset-checkpoint").decode()
        assert text == f"0\n1\norders 0 {offset}\n"
    broker.kill()
    broker.start()
    log = broker.logs.get(ORDERS)
    assert log is not None
    assert (log.log_start_offset, log.high_watermark, log.recovery_point) == (11, 33, 30)


def test_checkpoints_may_be_written_by_several_threads_at_once(tmp_path: Path) -> None:
    directory = LogDirectory(str(tmp_path), files=OsFiles(), on_offline=lambda _: None)
    state = Checkpoints({ORDERS: 7}, {ORDERS: 3}, {ORDERS: 6})
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(directory.write_checkpoints, state) for _ in range(40)]
        written += [pool.submit(directory.write_high_watermarks, state) for _ in range(40)]
    assert [future.exception() for future in written] == [None] * 80
    assert directory.read_checkpoints() == state


def test_damaged_checkpoints_do_not_stop_a_start() -> None:
    broker = Broker(MemoryFiles(), "/data")
    broker.fill(ORDERS, 30)
    broker.logs.close()
    for name in broker.names("/data"):
        if name.endswith("checkpoint"):
            write_fully(broker.files.open(f"/data/{name}"), b"\xff\x00garbage", 0)
    broker.start()
    assert broker.values() == {ORDERS: 30}


def test_strange_directories_are_ignored_and_told(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(MemoryFiles(), "/data")
    broker.fill(ORDERS, 1)
    broker.logs.close()
    for name in ("lost+found", "orders", "orders-", "orders-01", "x-99999999999"):
        broker.files.make_dir(f"/data/{name}")
    with caplog.at_level(logging.WARNING):
        broker.start()
    assert broker.values() == {ORDERS: 1}
    assert caplog.text.count("not a partition's name") == 5


def test_directory_names_are_read_from_the_right() -> None:
    assert parse_directory_name("t-1-0") == TopicPartition("t-1", 0)
    assert parse_directory_name("a.b_c-17") == TopicPartition("a.b_c", 17)
    for strange in (
        "t",
        "-1",
        "t-",
        "t-x",
        "t-01",
        "t-2147483648",
        "..-1",
        "t é-1",
        "t-1.x-delete",
    ):
        assert parse_directory_name(strange) is None
    long = TopicPartition("t" * 249, 12)
    assert parse_directory_name(directory_name(long)) == long
    assert len(deleted_name(long, Random(1))) == 255


def test_too_low_a_limit_of_open_files_is_said(caplog: pytest.LogCaptureFixture) -> None:
    logs = Logs(
        ["/data"],
        files=MemoryFiles(),
        clock=ManualClock(),
        random=Random(1),
        settings=LogsSettings(config_of=lambda topic: DEFAULTS, max_open_files=100),
        on_offline=lambda directory: None,
    )
    logs.open(1, "c")
    with caplog.at_level(logging.WARNING):
        logs.load()
    assert "open files" in caplog.text
