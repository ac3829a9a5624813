"""Transcripts of committed offsets: who may commit, what is shown, what is kept how long."""

import pytest
from odradek.broker.coordinator.committing import fits
from odradek.broker.coordinator.group_records import (
    ClassicRecords,
    GroupRecord,
    OffsetRecord,
)
from odradek.broker.coordinator.shard import Place
from odradek.protocol.errors import Errors
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.records import iter_records
from odradek.protocol.types import TopicPartition

from tests.unit.broker.coordinator.story import GROUP, World, tell

STABLE = "a joins; 3 s; a syncs a=A"
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def after_stable(story: str, **settings: int) -> str:
    return " / ".join(tell(f"{STABLE}; {story}", **settings).split(" / ")[3:])


def records_of(world: World) -> list[OffsetRecord | GroupRecord]:
    codec = ClassicRecords()
    found = [
        codec.decode(r.key, r.value) for batch in world.log.batches for r in iter_records(batch)
    ]
    return [record for record in found if record is not None]


# Who may commit -------------------------------------------------------------------------------


def test_consumers_outside_of_groups_commit_to_an_empty_group() -> None:
    assert tell("x commits t-0 5; fetch t-0 t-1; fetch") == (
        "Empty: x NONE / Empty: t-0 5, t-1 -1 / Empty: t-0 5"
    )


@pytest.mark.parametrize(
    ("commit", "error"),
    [
        ("a commits t-0 5", "NONE"),
        ("a commits t-0 5 generation=0", "ILLEGAL_GENERATION"),
        ("a commits t-0 5 generation=2", "ILLEGAL_GENERATION"),
        ("a commits t-0 5 generation=-1", "ILLEGAL_GENERATION"),
        ("a commits t-0 5 id=stranger", "UNKNOWN_MEMBER_ID"),
        ("a commits t-0 5 id=none generation=-1", "UNKNOWN_MEMBER_ID"),
        ("a commits t-0 5 instance=i", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_only_members_commit_to_a_group_that_has_some(commit: str, error: str) -> None:
    assert after_stable(commit) == f"Stable(1) a: a {error}"


def test_a_generation_in_an_unknown_group_is_of_the_past() -> None:
    assert tell("a commits t-0 5 id=x generation=3") == "-: a ILLEGAL_GENERATION"


def test_commits_during_a_rebalance() -> None:
    assert after_stable("b joins; a commits t-0 5; a joins; a commits t-0 6") == (
        "Preparing(1) a,b / Preparing(1) a,b: a NONE / "
        "Completing(2) a,b: a leads a,b, b follows a / Completing(2) a,b: a REBALANCE_IN_PROGRESS"
    )


def test_metadata_longer_than_allowed_is_refused() -> None:
    """Bad input, item 40."""
    assert tell(f"x commits t-0 5 metadata={'m' * 4096}") == "Empty: x NONE"
    assert tell(f"x commits t-0 5 metadata={'m' * 4097}") == "-: x OFFSET_METADATA_TOO_LARGE"


def test_metadata_is_counted_in_utf_16_units() -> None:
    assert fits("é" * 10, 10)
    assert not fits("😀" * 10, 10)
    assert fits("😀" * 5, 10)


def test_negative_offsets_are_kept_as_they_are() -> None:
    """Bad input, item 40: Kafka keeps whatever number a client commits."""
    assert tell("x commits t-0 -1; x commits t-1 -5; fetch").endswith("t-0 -1, t-1 -5")


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        ("UNKNOWN_TOPIC_OR_PARTITION", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
        ("KAFKA_STORAGE_ERROR", "NOT_COORDINATOR"),
        ("MESSAGE_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
        ("RECORD_LIST_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
        ("INVALID_FETCH_SIZE", "INVALID_COMMIT_OFFSET_SIZE"),
    ],
)
def test_errors_of_the_log_become_errors_of_the_coordinator(refusal: str, told: str) -> None:
    assert tell(f"log refuses {refusal}; x commits t-0 5; fetch t-0") == (
        f"- / -: x {told} / -: t-0 -1"
    )


# What is shown --------------------------------------------------------------------------------


def test_a_commit_is_answered_and_shown_only_when_replicas_have_it() -> None:
    """Reliability, item 46."""
    story = "x commits t-0 5; log waits; x commits t-0 6; fetch t-0; log commits; fetch t-0"
    assert tell(story) == (
        "Empty: x NONE / Empty / Empty / Empty: t-0 5 / Empty: x NONE / Empty: t-0 6"
    )


def test_commits_are_answered_in_the_order_of_their_records() -> None:
    story = "log waits; x commits t-0 1; y commits t-1 2; log commits"
    assert tell(story) == "- / Empty / Empty / Empty: x NONE, y NONE"


def test_a_commit_that_takes_too_long_is_told_so_and_may_still_happen() -> None:
    assert tell("log waits; x commits t-0 5; 5 s; fetch t-0; log commits; fetch t-0") == (
        "- / Empty / Empty: x REQUEST_TIMED_OUT / Empty: t-0 -1 / Empty / Empty: t-0 5"
    )


def test_too_few_replicas_after_the_append() -> None:
    world = World()
    world.log.has_quorum = False
    assert world.tell("x commits t-0 5") == "Empty: x COORDINATOR_NOT_AVAILABLE"


def test_unknown_groups_and_partitions_have_no_offset() -> None:
    assert tell("fetch t-0; fetch") == "-: t-0 -1 / -"


# Transactions ---------------------------------------------------------------------------------


def offset_record(where: TopicPartition, offset: int) -> OffsetRecord:
    value = OffsetCommitValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp=0)
    return OffsetRecord(GROUP, where, value)


def test_offsets_of_an_open_transaction_are_pending_until_its_marker() -> None:
    world = World()
    world.tell("x commits t-0 1")
    world.state.replay(offset_record(T0, 5), Place(10, producer_id=7))
    assert world.tell("fetch t-0; fetch") == (
        "Empty: t-0 UNSTABLE_OFFSET_COMMIT / Empty: t-0 UNSTABLE_OFFSET_COMMIT"
    )
    shown = world.state.offsets(GROUP, [T0], require_stable=False)
    assert shown[T0].committed.offset == 1
    world.log.committed_end = 20
    world.state.end_transaction(7, Place(11, 7), committed=True)
    assert world.tell("fetch t-0") == "Empty: t-0 5"


def test_offsets_of_an_aborted_transaction_are_dropped() -> None:
    world = World()
    world.tell("x commits t-0 1")
    world.state.replay(offset_record(T0, 5), Place(10, producer_id=7))
    world.state.end_transaction(7, Place(11, 7), committed=False)
    assert world.tell("fetch t-0") == "Empty: t-0 1"


def test_a_commit_after_the_transactions_record_wins_over_its_marker() -> None:
    world = World()
    world.state.replay(offset_record(T0, 5), Place(10, producer_id=7))
    world.state.replay(offset_record(T0, 6), Place(11))
    world.log.committed_end = 20
    world.state.end_transaction(7, Place(12, 7), committed=True)
    assert world.tell("fetch t-0") == "Empty: t-0 6"


# Expiry ---------------------------------------------------------------------------------------


def test_offsets_of_simple_consumers_expire_after_their_last_commit() -> None:
    assert tell(
        "x commits t-0 1; 6 days; x commits t-1 1; 1 days; expire; fetch; 6 days; expire"
    ) == ("Empty: x NONE / Empty / Empty: x NONE / Empty / Empty / Empty: t-1 1 / Empty / -")


def test_retention_starts_when_the_group_is_empty() -> None:
    """Reliability, item 47."""
    world = World()
    world.tell("a joins session=1800; 3 s; a syncs a=A; a commits t-0 1")
    for _ in range(8 * 24 * 4):
        world.tell("15 min; a beats")
    assert world.tell("expire; a leaves; 6 days; expire; fetch; 1 days; expire; fetch t-0") == (
        "Stable(1) a / Empty(2): a NONE / Empty(2) / Empty(2) / Empty(2): t-0 1 / Empty(2) / - / "
        "-: t-0 -1"
    )


def test_offsets_never_expire_while_rebalancing() -> None:
    """Reliability, item 47: what members subscribe to is not known then."""
    world = World()
    world.tell("a joins session=900000 rebalance=900000; 3 s; a syncs a=A; a commits u-0 1")
    world.tell("b joins")
    assert world.tell("8 days; expire; fetch").endswith("Preparing(1) a: u-0 1")


def test_topics_that_no_member_subscribes_to_expire_in_a_stable_group() -> None:
    world = World()
    world.tell("a joins session=1800 topics=t; 3 s; a syncs a=A; a commits t-0 1; a commits u-0 1")
    for _ in range(7 * 24 * 4):
        world.tell("15 min; a beats")
    assert world.tell("expire; fetch") == "Stable(1) a / Stable(1) a: t-0 1"


def test_expiry_writes_tombstones_of_offsets_and_of_the_group() -> None:
    world = World()
    world.tell(f"{STABLE}; a commits t-0 1; a leaves; 7 days; expire")
    assert records_of(world)[-2:] == [OffsetRecord(GROUP, T0, None), GroupRecord(GROUP, None)]


def test_a_group_that_only_ever_had_offsets_needs_no_tombstone_of_its_own() -> None:
    world = World()
    world.tell("x commits t-0 1; 7 days; expire")
    assert records_of(world)[-1] == OffsetRecord(GROUP, T0, None)


def test_a_retention_time_of_the_clients_own_is_kept() -> None:
    world = World()
    value = OffsetCommitValue(
        offset=1,
        leader_epoch=-1,
        metadata="",
        commit_timestamp=0,
        expire_timestamp=world.clock.now_ms() + 60_000,
    )
    world.shard.write([OffsetRecord(GROUP, T0, value)], lambda error: None)
    assert world.tell("59 s; expire; fetch; 1 s; expire; fetch") == (
        "Empty / Empty / Empty: t-0 1 / Empty / - / -"
    )


# Removal --------------------------------------------------------------------------------------


def test_deleting_groups() -> None:
    assert tell("delete group") == "-: delete GROUP_ID_NOT_FOUND"
    assert after_stable("delete group") == "Stable(1) a: delete NON_EMPTY_GROUP"
    assert tell("x commits t-0 1; delete group; fetch t-0").endswith("-: delete NONE / -: t-0 -1")


def test_a_member_whose_time_is_over_keeps_no_group_from_being_deleted() -> None:
    world = World()
    world.tell(STABLE)
    world.clock.advance(10_000)  # and the timers are late
    assert world.tell("delete group") == "-: delete NONE"


def test_a_deleted_groups_offsets_are_shown_until_the_deletion_is_committed() -> None:
    story = "x commits t-0 1; log waits; delete group; fetch t-0; log commits; fetch t-0"
    assert tell(story).endswith("Empty / Empty: t-0 1 / -: delete NONE / -: t-0 -1")


def test_a_member_that_comes_while_its_group_is_deleted_stays() -> None:
    story = "a leaves; log waits; delete group; a joins id=none; log commits; 3 s"
    assert after_stable(story).endswith(
        "Preparing(2) a / Preparing(2) a: delete NONE / Completing(3) a: a leads a"
    )


def delete_offsets(world: World, *partitions: TopicPartition) -> object:
    told: list[object] = []
    world.state.removal.delete_offsets(GROUP, partitions, lambda *outcome: told.append(outcome))
    return told[0]


def test_deleting_offsets_of_an_empty_group() -> None:
    world = World()
    world.tell("x commits t-0 1; x commits t-1 1")
    expected = {T0: Errors.NONE, U0: Errors.NONE}
    assert delete_offsets(world, T0, U0) == (Errors.NONE, expected)
    assert world.tell("fetch") == "Empty: t-1 1"


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    world = World()
    world.tell(f"{STABLE}; a commits t-0 1; a commits u-0 1")
    expected = {T0: Errors.GROUP_SUBSCRIBED_TO_TOPIC, U0: Errors.NONE}
    assert delete_offsets(world, T0, U0) == (Errors.NONE, expected)


def test_offsets_cannot_be_deleted_of_no_group_or_of_one_that_is_no_consumer() -> None:
    assert delete_offsets(World(), T0) == (Errors.GROUP_ID_NOT_FOUND, {})
    world = World()
    world.tell("a joins type=connect; 3 s; a syncs a=A")
    assert delete_offsets(world, T0) == (Errors.NON_EMPTY_GROUP, {})


def test_deleting_a_topic_deletes_its_offsets_with_tombstones() -> None:
    world = World()
    world.tell("x commits t-0 1; x commits u-0 1")
    list(world.state.removal.topics_deleted(frozenset({"t"})))
    assert world.tell("fetch") == "Empty: u-0 1"
    assert records_of(world)[-1] == OffsetRecord(GROUP, T0, None)


def test_many_tombstones_go_into_several_batches() -> None:
    world = World()
    for partition in range(450):
        world.commit("x", TopicPartition("t", partition), 1, {})
    before = len(world.log.batches)
    assert world.tell("delete group").endswith("delete NONE")
    assert len(world.log.batches) == before + 3
