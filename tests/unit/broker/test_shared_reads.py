"""One look at the log for all followers, and never an old one."""

from collections.abc import Callable

import pytest
from odradek.broker.handlers.fetch_again import SMALL_BYTES
from odradek.broker.handlers.shared_reads import Found, SharedReads
from odradek.protocol.clock import ManualClock
from odradek.replication.partition import Partition
from odradek.storage.files import FileSlice

from tests.unit.replication.conftest import batch, new_partition


@pytest.fixture
def partition() -> Partition:
    made = new_partition(ManualClock())
    made.become_leader(epoch=0, partition_epoch=0, replicas=(1, 2, 3), isr=(1, 2, 3))
    for _ in range(3):
        made.append(batch(2), acks=1, produce_version=9)
    return made


def read(reads: SharedReads, partition: Partition, offset: int = 0, **limits: object) -> Found:
    return reads.read(partition, offset, limits.get("max_bytes", 1000), min_one_batch=True)


def test_the_second_who_asks_for_the_same_gets_the_same(partition: Partition) -> None:
    reads = SharedReads()
    first = read(reads, partition)
    assert isinstance(first.records, bytes)
    assert read(reads, partition) is first


def _another_offset(reads: SharedReads, partition: Partition) -> Found:
    return read(reads, partition, 4)


def _fewer_bytes(reads: SharedReads, partition: Partition) -> Found:
    return read(reads, partition, max_bytes=1)


def _after_an_append(reads: SharedReads, partition: Partition) -> Found:
    partition.append(batch(), acks=1, produce_version=9)
    return read(reads, partition)


def _after_the_followers_came(reads: SharedReads, partition: Partition) -> Found:
    for follower in (2, 3):
        partition.note_follower_fetch(follower, fetch_offset=2, log_start_offset=0, broker_epoch=-1)
    return read(reads, partition)


def _after_a_cut_and_as_many_other_records(reads: SharedReads, partition: Partition) -> Found:
    partition.log.truncate_to(4)
    partition.append(batch(2), acks=1, produce_version=9)
    return read(reads, partition)


def _of_another_partition(reads: SharedReads, _: Partition) -> Found:
    other = new_partition(ManualClock())
    other.become_leader(epoch=0, partition_epoch=0, replicas=(1, 2, 3), isr=(1, 2, 3))
    for _ in range(3):
        other.append(batch(2), acks=1, produce_version=9)
    return read(reads, other)


@pytest.mark.parametrize(
    "other",
    [
        _another_offset,
        _fewer_bytes,
        _after_an_append,
        _after_the_followers_came,
        _after_a_cut_and_as_many_other_records,
        _of_another_partition,
    ],
)
def test_anything_that_differs_is_looked_up(
    partition: Partition, other: Callable[[SharedReads, Partition], Found]
) -> None:
    reads = SharedReads()
    first = read(reads, partition)
    found = other(reads, partition)
    assert found is not first
    assert found.bounds.log_end == 6 + (other is _after_an_append)


def test_much_is_read_anew_as_a_slice(partition: Partition) -> None:
    partition.append(batch(SMALL_BYTES // 10), acks=1, produce_version=9)
    reads = SharedReads()
    first = read(reads, partition, 6, max_bytes=1 << 20)
    assert isinstance(first.records, FileSlice)
    assert read(reads, partition, 6, max_bytes=1 << 20) is not first


def test_where_there_is_nothing_yet_nothing_is_kept(partition: Partition) -> None:
    reads = SharedReads()
    assert read(reads, partition, 6).records == b""
    assert read(reads, partition, 6) is not read(reads, partition, 6)


def test_those_who_wait_for_records_get_them_without_a_read(partition: Partition) -> None:
    reads, seen = SharedReads(), []
    end = partition.log.log_end_offset
    for _ in range(2):
        partition.data_waiters.park(end + 1, lambda: seen.append(read(reads, partition, end)))
    partition.data_waiters.park(end + 1, lambda: seen.append(read(reads, partition, 0)))
    partition.append(batch(2), acks=1, produce_version=9)
    one, another, all_of_it = seen
    assert one is another
    assert one == read(SharedReads(), partition, end), "what is read back afterwards"
    assert all_of_it == read(SharedReads(), partition, 0)
    assert partition.just_appended is None


def test_records_that_are_too_large_for_their_reader_are_read_in_the_common_way(
    partition: Partition,
) -> None:
    seen: list[Found] = []
    end = partition.log.log_end_offset
    partition.data_waiters.park(
        end + 1, lambda: seen.append(read(SharedReads(), partition, end, max_bytes=1))
    )
    partition.append(batch(2), acks=1, produce_version=9)
    assert seen == [read(SharedReads(), partition, end, max_bytes=1)]
