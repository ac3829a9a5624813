"""The records of consumer groups: read as written, and nothing else is taken for one."""

import pytest
from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.consumer_members import NO_PATTERN
from odradek.broker.coordinator.consumer_records import (
    AnyGroupRecord,
    EpochRecord,
    GroupRecords,
    HoldingRecord,
    MemberRecord,
    PartitionsRecord,
    PatternRecord,
    TargetEpochRecord,
    TargetRecord,
)
from odradek.broker.coordinator.group_records import GroupRecord, OffsetRecord
from odradek.broker.coordinator.reconciliation import MemberState
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
)
from odradek.protocol.records import iter_records
from odradek.protocol.types import TopicPartition

from tests.unit.broker.coordinator.consumer_story import ConsumerWorld

CODEC = GroupRecords()

TOMBSTONES: list[AnyGroupRecord] = [
    EpochRecord("g", None),
    PartitionsRecord("g", None),
    MemberRecord("g", "m", None),
    TargetEpochRecord("g", None),
    TargetRecord("g", "m", None),
    HoldingRecord("g", "m", None),
    PatternRecord("g", "[tu].*", None),
    GroupRecord("g", None),
    OffsetRecord("g", TopicPartition("t", 1), None),
]


@pytest.mark.parametrize("record", TOMBSTONES, ids=lambda record: type(record).__name__)
def test_a_key_is_read_as_written(record: AnyGroupRecord) -> None:
    key, value = CODEC.encode(record)
    assert value is None
    assert CODEC.decode(key, value) == record


def test_every_kind_of_record_is_read_as_written() -> None:
    world = ConsumerWorld()
    world.tell("topics t=4; a joins pattern=t; a beats; k joins classic; k syncs; a gives")
    kinds = set()
    for batch in world.log.batches:
        for stored in iter_records(batch):
            record = CODEC.decode(stored.key, stored.value)
            assert record is not None
            assert CODEC.encode(record) == (stored.key, stored.value)
            kinds.add(type(record))
    assert kinds == {
        EpochRecord,
        MemberRecord,
        TargetEpochRecord,
        TargetRecord,
        HoldingRecord,
        PatternRecord,
    }


def test_records_of_other_coordinators_are_passed_over() -> None:
    assert CODEC.decode(b"\x00\x09\x00\x01g", b"\x00\x00\x00") is None


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x01\x00\x00", b"\x00\x00\x00"])
def test_a_broken_value_is_not_taken_for_a_record(value: bytes) -> None:
    key, _ = CODEC.encode(EpochRecord("g", None))
    with pytest.raises(ProtocolError):
        CODEC.decode(key, value)


# What other coordinators write ----------------------------------------------------------------


def member_value(pattern: str | None) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        subscribed_topic_regex=pattern,
        server_assignor=None,
    )


def test_a_member_of_old_has_no_pattern() -> None:
    group = ConsumerGroup("g")
    group.apply(MemberRecord("g", "m", member_value(None)))
    assert group.members["m"].says.pattern == NO_PATTERN


def test_a_state_of_the_future_is_reconciled_from_what_is_held() -> None:
    group = ConsumerGroup("g")
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=3,
        previous_member_epoch=2,
        state=99,
        assigned_partitions=[],
        partitions_pending_revocation=[],
    )
    group.apply(HoldingRecord("g", "m", value))
    assert group.members["m"].has.state is MemberState.UNRELEASED


def test_records_may_come_in_any_order() -> None:
    """Compaction leaves the last record of a key, so those of a member may come before others."""
    group = ConsumerGroup("g")
    holding = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=3,
        previous_member_epoch=2,
        state=0,
        assigned_partitions=[],
        partitions_pending_revocation=[],
    )
    group.apply(HoldingRecord("g", "m", holding))
    group.apply(EpochRecord("g", ConsumerGroupMetadataValue(epoch=3)))
    group.apply(MemberRecord("g", "m", member_value("")))
    assert group.members["m"].has.epoch == 3
    assert group.members["m"].says.topics == {"t"}
    group.apply(HoldingRecord("g", "gone", None))
    group.apply(TargetRecord("g", "gone", None))
    group.apply(MemberRecord("g", "gone", None))
    assert list(group.members) == ["m"]
