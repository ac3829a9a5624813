"""A hosted partition: what its role allows, and what wakes those who wait."""

import pytest
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.replication.partition import Partition
from odradek.storage.log_reading import Isolation

from tests.unit.replication.conftest import LOCAL, batch, new_partition


def lead(
    partition: Partition, *, epoch: int = 5, replicas: tuple[int, ...] = (LOCAL,), version: int = 0
) -> None:
    partition.become_leader(epoch=epoch, partition_epoch=version, replicas=replicas, isr=replicas)


def append(partition: Partition, count: int = 1, *, acks: int = -1) -> int:
    return partition.append(batch(count), acks=acks, produce_version=9).last_offset


def fetched_by(partition: Partition, follower: int, offset: int) -> None:
    partition.note_follower_fetch(follower, fetch_offset=offset, log_start_offset=0, broker_epoch=1)


def test_a_partition_without_a_role_refuses(partition: Partition) -> None:
    for ask in (
        lambda: append(partition),
        lambda: partition.leading(),
        lambda: partition.check_readable(-1, leader_only=False),
    ):
        with pytest.raises(KafkaError) as refused:
            ask()
        assert refused.value.error is Errors.NOT_LEADER_OR_FOLLOWER


def test_a_lone_leader_commits_what_it_appends(partition: Partition) -> None:
    lead(partition)
    append(partition, 3)
    assert partition.log.high_watermark == 3


def test_the_high_watermark_waits_for_the_slowest_in_sync_follower(partition: Partition) -> None:
    lead(partition, replicas=(LOCAL, 2, 3))
    append(partition, 3)
    fetched_by(partition, 2, 3)
    assert partition.log.high_watermark == 0
    fetched_by(partition, 3, 2)
    assert partition.log.high_watermark == 2
    fetched_by(partition, 3, 3)
    assert partition.log.high_watermark == 3


def test_the_high_watermark_never_goes_back(partition: Partition) -> None:
    lead(partition, replicas=(LOCAL, 2))
    append(partition, 3)
    fetched_by(partition, 2, 3)
    fetched_by(partition, 2, 1)
    assert partition.log.high_watermark == 3


def test_acks_all_needs_enough_in_sync_replicas(clock: ManualClock) -> None:
    partition = new_partition(clock, **{"min.insync.replicas": "2"})
    partition.become_leader(epoch=0, partition_epoch=0, replicas=(LOCAL, 2, 3), isr=(LOCAL,))
    with pytest.raises(KafkaError) as refused:
        append(partition)
    assert refused.value.error is Errors.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    append(partition, acks=1)
    # Below min ISR a leader may take records, but none of them counts as committed.
    assert partition.log.high_watermark == 0


def test_a_new_leader_knows_where_its_epoch_begins_before_any_record(
    partition: Partition,
) -> None:
    lead(partition, epoch=5)
    append(partition, 2)
    lead(partition, epoch=6)
    assert partition.log.end_offset_for_epoch(5) == (5, 2)
    assert partition.log.end_offset_for_epoch(6) == (6, 2)


@pytest.mark.parametrize(
    ("believed", "error"),
    [(4, Errors.FENCED_LEADER_EPOCH), (6, Errors.UNKNOWN_LEADER_EPOCH), (5, None), (-1, None)],
)
def test_epochs_are_compared_before_anything_else(
    partition: Partition, believed: int, error: Errors | None
) -> None:
    lead(partition, epoch=5)
    if error is None:
        partition.leading(believed)
        return
    with pytest.raises(KafkaError) as refused:
        partition.leading(believed)
    assert refused.value.error is error


def test_a_deposed_leader_is_fenced_even_as_follower(partition: Partition) -> None:
    partition.become_follower(leader_id=2, epoch=7, partition_epoch=0, replicas=(LOCAL, 2))
    with pytest.raises(KafkaError) as refused:
        partition.leading(5)
    assert refused.value.error is Errors.FENCED_LEADER_EPOCH


def test_consumers_see_only_what_is_committed(partition: Partition) -> None:
    lead(partition, replicas=(LOCAL, 2))
    append(partition, 2)
    see = partition.read(0, 1000, isolation=Isolation.HIGH_WATERMARK, min_one_batch=True)
    assert see.records is None
    replicate = partition.read(0, 1000, isolation=Isolation.LOG_END, min_one_batch=True)
    assert replicate.records is not None


def test_a_diverging_fetcher_is_told_where_the_logs_part(partition: Partition) -> None:
    lead(partition, epoch=5)
    append(partition, 3)
    lead(partition, epoch=7)
    append(partition, 2)
    assert partition.diverging_end(5, 3) is None
    assert partition.diverging_end(5, 4) == (5, 3)
    assert partition.diverging_end(6, 3) == (5, 3)
    assert partition.diverging_end(-1, 99) is None


def test_waiters_are_woken_by_commits_appends_and_changes_of_role(partition: Partition) -> None:
    lead(partition, replicas=(LOCAL, 2))
    woken: list[str] = []
    partition.data_waiters.park(1, lambda: woken.append("appended"))
    partition.hw_waiters.park(1, lambda: woken.append("committed"))
    partition.hw_waiters.park(9, lambda: woken.append("role changed"))
    append(partition)
    fetched_by(partition, 2, 1)
    partition.become_follower(leader_id=2, epoch=6, partition_epoch=1, replicas=(LOCAL, 2))
    assert woken == ["appended", "committed", "role changed"]


def test_a_stranger_is_not_taken_for_a_follower(partition: Partition) -> None:
    lead(partition, replicas=(LOCAL, 2))
    with pytest.raises(KafkaError) as refused:
        fetched_by(partition, 9, 0)
    assert refused.value.error is Errors.NOT_LEADER_OR_FOLLOWER


def test_an_isr_change_in_the_same_epoch_keeps_what_is_known_of_followers(
    partition: Partition,
) -> None:
    lead(partition, replicas=(LOCAL, 2, 3))
    append(partition, 2)
    fetched_by(partition, 2, 2)
    partition.become_leader(epoch=5, partition_epoch=1, replicas=(LOCAL, 2, 3), isr=(LOCAL, 2))
    assert partition.log.high_watermark == 2
    # An older version of the state changes nothing.
    partition.become_leader(epoch=5, partition_epoch=0, replicas=(LOCAL, 2, 3), isr=(LOCAL, 3))
    assert partition.leading().isr.committed == {LOCAL, 2}
