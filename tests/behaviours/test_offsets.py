"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords, as clients depend on them."""

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from tests.behaviours.asking import NOW_MS, Asker, batch


@pytest.fixture
def timed(asker: Asker, topic: str) -> str:
    """Records at NOW, NOW+100, NOW+200 and, late, NOW+50, in batches of one."""
    for lag in (0, 100, 200, 50):
        asker.produce(topic, batch(timestamp=NOW_MS + lag))
    return topic


def test_the_ends_of_the_log(asker: Asker, timed: str) -> None:
    latest, earliest = asker.list_offset(timed, -1), asker.list_offset(timed, -2)
    assert (latest.offset, latest.timestamp, earliest.offset, earliest.timestamp) == (4, -1, 0, -1)


@pytest.mark.parametrize(
    ("lag", "offset", "found"), [(-5, 0, 0), (1, 1, 100), (100, 1, 100), (101, 2, 200)]
)
def test_the_first_record_at_or_after_a_time(
    asker: Asker, timed: str, lag: int, offset: int, found: int
) -> None:
    answer = asker.list_offset(timed, NOW_MS + lag)
    assert (answer.offset, answer.timestamp) == (offset, NOW_MS + found)


def test_no_record_after_a_time_is_no_error(asker: Asker, timed: str) -> None:
    answer = asker.list_offset(timed, NOW_MS + 201)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


def test_the_largest_timestamp(asker: Asker, timed: str) -> None:
    answer = asker.list_offset(timed, -3, version=7)
    assert (answer.offset, answer.timestamp) == (2, NOW_MS + 200)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-7, 9)])
def test_special_times_need_their_version(
    asker: Asker, timed: str, timestamp: int, version: int
) -> None:
    answer = asker.list_offset(timed, timestamp, version=version)
    assert answer.error_code == Errors.UNSUPPORTED_VERSION


def test_without_tiers_local_is_earliest_and_nothing_is_tiered(asker: Asker, timed: str) -> None:
    assert asker.list_offset(timed, -4, version=8).offset == 0
    tiered = asker.list_offset(timed, -5, version=9)
    assert (tiered.error_code, tiered.offset) == (0, -1)


def test_a_partition_named_twice_is_refused(asker: Asker, timed: str) -> None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=timed, partitions=[wanted, wanted])]
    )
    answers = asker.ask(request, 5).topics[0].partitions
    assert {answer.error_code for answer in answers} == {Errors.INVALID_REQUEST}


def test_version_0_lists_where_segments_begin(asker: Asker, timed: str) -> None:
    def offsets(timestamp: int) -> list[int]:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=5)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=timed, partitions=[wanted])]
        )
        return asker.ask(request, 0).topics[0].partitions[0].old_style_offsets

    assert offsets(-1) == [4, 0]
    assert offsets(-2) == [0]


def test_the_epoch_a_client_believes_in_is_checked(asker: Asker, timed: str) -> None:
    assert asker.list_offset(timed, -1, epoch=500).error_code == Errors.UNKNOWN_LEADER_EPOCH
    assert asker.list_offset(timed, -1, epoch=0).error_code == 0


def epoch_end(asker: Asker, topic: str, epoch: int) -> tuple[int, int, int]:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    )
    answer = asker.ask(request, 3).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


def test_the_present_epoch_ends_at_the_log_end(asker: Asker, timed: str) -> None:
    assert epoch_end(asker, timed, 0) == (0, 0, 4)


def test_an_epoch_from_the_future_is_unknown(asker: Asker, timed: str) -> None:
    assert epoch_end(asker, timed, 7) == (0, -1, -1)


def delete_before(asker: Asker, topic: str, offset: int) -> DeleteRecordsPartitionResult:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=5000
    )
    return asker.ask(request, 1).topics[0].partitions[0]


def test_records_before_an_offset_can_be_deleted(asker: Asker, timed: str) -> None:
    answer = delete_before(asker, timed, 2)
    assert (answer.error_code, answer.low_watermark) == (0, 2)
    assert asker.list_offset(timed, -2).offset == 2
    assert asker.fetch(timed, 1).error_code == Errors.OFFSET_OUT_OF_RANGE
    assert asker.fetch(timed, 2).log_start_offset == 2


def test_all_records_can_be_deleted(asker: Asker, timed: str) -> None:
    answer = delete_before(asker, timed, -1)
    assert (answer.error_code, answer.low_watermark) == (0, 4)
    assert asker.produce(timed, batch()).base_offset == 4


@pytest.mark.parametrize("offset", [5, -2])
def test_deleting_beyond_the_high_watermark_is_out_of_range(
    asker: Asker, timed: str, offset: int
) -> None:
    assert delete_before(asker, timed, offset).error_code == Errors.OFFSET_OUT_OF_RANGE


def test_a_topic_that_is_only_compacted_deletes_no_records(asker: Asker, name: str) -> None:
    asker.create(name, configs={"cleanup.policy": "compact"})
    assert delete_before(asker, name, 0).error_code == Errors.POLICY_VIOLATION
