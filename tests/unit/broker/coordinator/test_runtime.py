"""Shards come and go with leadership, and are loaded whole before they serve."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from odradek.broker.coordinator.consumer_records import AnyGroupRecord
from odradek.broker.coordinator.group_config import GroupConfig
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.group_records import (
    ClassicRecord,
    ClassicRecords,
    GroupRecord,
    OffsetRecord,
)
from odradek.broker.coordinator.group_shard import GroupShard
from odradek.broker.coordinator.runtime import Runtime
from odradek.broker.coordinator.shard_log import MemoryLog
from odradek.protocol.clock import SystemClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.group_records import (
    GroupMetadataMemberMetadata,
    GroupMetadataValue,
    OffsetCommitValue,
)
from odradek.protocol.records import (
    NO_PRODUCER,
    BatchBuilder,
    EndTxnMarker,
    ProducerStamp,
    end_txn_marker,
)
from odradek.protocol.types import TopicPartition

T0 = TopicPartition("t", 0)


def offset(group: str, value: int, where: TopicPartition = T0) -> OffsetRecord:
    content = OffsetCommitValue(offset=value, leader_epoch=-1, metadata="", commit_timestamp=0)
    return OffsetRecord(group, where, content)


def generation(group: str, number: int, *members: str) -> GroupRecord:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol="range",
        leader=members[0] if members else None,
        members=[
            GroupMetadataMemberMetadata(
                member_id=member,
                client_id="c",
                client_host="/h",
                session_timeout=10_000,
                rebalance_timeout=60_000,
                subscription=b"",
                assignment=b"",
            )
            for member in members
        ],
    )
    return GroupRecord(group, value)


def filled(log: MemoryLog, *records: ClassicRecord, producer: ProducerStamp = NO_PRODUCER) -> None:
    builder = BatchBuilder(producer=producer)
    for record in records:
        builder.append(0, *ClassicRecords().encode(record))
    log.append(builder.build())


class Broker:
    """A coordinator whose logs are in memory."""

    def __init__(self, *partitions: MemoryLog) -> None:
        self.logs = list(partitions)
        self.coordinator = GroupCoordinator(
            GroupConfig(load_buffer_bytes=4096),
            clock=SystemClock(),
            loop=asyncio.get_running_loop(),
            open_log=lambda partition, epoch: self.logs[partition],
            partition_count=lambda: len(self.logs),
            topics=dict,
        )

    @property
    def runtime(self) -> Runtime[AnyGroupRecord, GroupShard]:
        return self.coordinator.runtime

    async def led(self, epoch: int = 1) -> GroupShard:
        self.runtime.elected(0, epoch)
        await self.runtime.wait_loaded()
        return self.runtime.state(0)


def on_a_loop(story: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(asyncio.wait_for(story(), 20))  # type: ignore[arg-type]

    run.__name__, run.__doc__ = story.__name__, story.__doc__
    return run


def refusal(broker: Broker, partition: int = 0) -> Errors:
    with pytest.raises(KafkaError) as caught:
        broker.runtime.state(partition)
    return caught.value.error


def committed(shard: GroupShard, group: str, where: TopicPartition = T0) -> int:
    return shard.offsets(group, [where], require_stable=False)[where].committed.offset


@on_a_loop
async def test_a_partition_led_elsewhere_is_not_coordinated_here() -> None:
    broker = Broker(MemoryLog())
    assert refusal(broker) is Errors.NOT_COORDINATOR


@on_a_loop
async def test_nothing_is_served_before_the_whole_log_is_loaded() -> None:
    """Reliability, item 46."""
    log = MemoryLog()
    for number in range(500):
        filled(log, *(offset(f"g{number}", index) for index in range(20)))
    broker = Broker(log)
    broker.runtime.elected(0, 1)
    assert refusal(broker) is Errors.COORDINATOR_LOAD_IN_PROGRESS
    turns = 0
    while broker.runtime.is_loading:
        turns += 1
        await asyncio.sleep(0)
    # 10,000 records do not fit into one slice: others had turns in between.
    assert turns > 3
    shard = broker.runtime.state(0)
    assert len(shard.groups) == 500
    assert committed(shard, "g499") == 19


@on_a_loop
async def test_records_above_the_high_watermark_are_loaded_and_shown() -> None:
    """Reliability, item 46: what the old leader told clients may be above what we know to be
    committed."""
    log = MemoryLog()
    filled(log, offset("g", 1))
    log.holds_back = True
    filled(log, offset("g", 2))
    assert committed(await Broker(log).led(), "g") == 2


@on_a_loop
async def test_loading_ends_when_the_log_gives_nothing_more() -> None:
    """Reliability, item 46 (KAFKA-9065): the last records may have been compacted away."""
    log = MemoryLog()
    filled(log, offset("g", 1))
    log.end_offset = 10
    assert committed(await Broker(log).led(), "g") == 1


@on_a_loop
async def test_later_tombstones_win_and_later_records_win_over_tombstones() -> None:
    """Reliability, item 46 (KAFKA-5600, KAFKA-4704)."""
    log = MemoryLog()
    filled(log, offset("gone", 1), generation("gone", 1, "m"), offset("back", 1))
    filled(log, OffsetRecord("gone", T0, None), GroupRecord("gone", None))
    filled(log, OffsetRecord("back", T0, None), offset("back", 2), generation("back", 3, "m"))
    shard = await Broker(log).led()
    assert set(shard.groups) == {"back"}
    assert committed(shard, "back") == 2
    assert shard.groups["back"].generation == 3


@on_a_loop
async def test_a_groups_tombstone_leaves_its_offsets() -> None:
    log = MemoryLog()
    filled(log, offset("g", 1), generation("g", 1, "m"), GroupRecord("g", None))
    shard = await Broker(log).led()
    assert committed(shard, "g") == 1
    assert not shard.groups["g"].members


@on_a_loop
async def test_transactional_offsets_are_loaded_as_pending_and_ended_by_markers() -> None:
    log = MemoryLog()
    for producer_id, value in ((1, 10), (2, 20), (3, 30)):
        stamp = ProducerStamp(producer_id, 0, 0, is_transactional=True)
        filled(log, offset(f"g{producer_id}", value), producer=stamp)
    for producer_id, commit in ((1, True), (2, False)):
        marker = EndTxnMarker(commit, 0)
        log.append(end_txn_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=0))
    shard = await Broker(log).led()
    assert committed(shard, "g1") == 10
    assert committed(shard, "g2") == -1
    assert shard.offsets("g3", [T0], require_stable=True)[T0].error is Errors.UNSTABLE_OFFSET_COMMIT


@on_a_loop
async def test_a_record_of_unknown_type_or_broken_bytes_is_passed_over() -> None:
    log = MemoryLog()
    builder = BatchBuilder()
    for key, value in ((b"\x00\x63", b"x"), (b"\x00\x01\x7f", b"x"), (None, b"x"), (b"", b"")):
        builder.append(0, key, value)
    builder.append(0, *ClassicRecords().encode(offset("g", 1)))
    log.append(builder.build())
    assert committed(await Broker(log).led(), "g") == 1


@on_a_loop
async def test_a_damaged_log_is_not_served() -> None:
    log = MemoryLog()
    filled(log, offset("g", 1))
    log.batches[0] = log.batches[0][:-1] + b"\xff"
    broker = Broker(log)
    broker.runtime.elected(0, 1)
    await broker.runtime.wait_loaded()
    assert refusal(broker) is Errors.NOT_COORDINATOR


# Epochs ---------------------------------------------------------------------------------------


@on_a_loop
async def test_loads_and_unloads_are_ordered_by_leader_epoch() -> None:
    """Reliability, item 46 (KAFKA-10614)."""
    broker = Broker(MemoryLog())
    shard = await broker.led(epoch=5)
    broker.runtime.resigned(0, 4)
    assert broker.runtime.state(0) is shard, "an older resignation is late"
    broker.runtime.elected(0, 5)
    assert broker.runtime.state(0) is shard, "the same election twice changes nothing"
    broker.runtime.resigned(0, 6)
    assert refusal(broker) is Errors.NOT_COORDINATOR
    broker.runtime.elected(0, 5)
    assert refusal(broker) is Errors.NOT_COORDINATOR, "an older election is late"
    assert await broker.led(epoch=7) is not shard


@on_a_loop
async def test_a_resignation_that_overtakes_its_election_wins() -> None:
    broker = Broker(MemoryLog())
    broker.runtime.resigned(0, 6)
    broker.runtime.elected(0, 5)
    assert refusal(broker) is Errors.NOT_COORDINATOR


@on_a_loop
async def test_a_newer_epoch_loads_again() -> None:
    log = MemoryLog()
    broker = Broker(log)
    first = await broker.led(epoch=1)
    filled(log, offset("g", 7))
    second = await broker.led(epoch=2)
    assert second is not first
    assert committed(second, "g") == 7


@on_a_loop
async def test_a_load_can_be_given_up() -> None:
    log = MemoryLog()
    filled(log, generation("g", 1, "m"))
    broker = Broker(log)
    broker.runtime.elected(0, 1)
    broker.runtime.resigned(0, 2)
    await asyncio.sleep(0)
    assert refusal(broker) is Errors.NOT_COORDINATOR
    assert not broker.runtime.is_loading


@on_a_loop
async def test_a_partition_that_is_gone_is_forgotten() -> None:
    broker = Broker(MemoryLog())
    await broker.led(epoch=5)
    broker.runtime.resigned(0)
    assert refusal(broker) is Errors.NOT_COORDINATOR
    await broker.led(epoch=0)


@on_a_loop
async def test_a_closed_coordinator_serves_nothing() -> None:
    broker = Broker(MemoryLog())
    broker.coordinator.start()
    await broker.led()
    broker.coordinator.close()
    assert refusal(broker) is Errors.NOT_COORDINATOR


# Housekeeping ---------------------------------------------------------------------------------


@on_a_loop
async def test_offsets_of_deleted_topics_go_from_every_shard() -> None:
    """In slices: with many groups it takes more than one turn of the loop."""
    logs = [MemoryLog(), MemoryLog()]
    for log in logs:
        for number in range(2000):
            filled(log, offset(f"g{number}", 1), offset(f"g{number}", 1, TopicPartition("u", 0)))
    broker = Broker(*logs)
    for partition in range(2):
        broker.runtime.elected(partition, 1)
    await broker.runtime.wait_loaded()
    shards = list(broker.runtime.active_states())
    broker.coordinator.topics_deleted(frozenset({"t"}))
    turns = 0
    while any(committed(shard, f"g{n}") != -1 for shard in shards for n in (0, 1999)):
        turns += 1
        await asyncio.sleep(0)
    assert turns > 1
    assert all(committed(shard, "g1999", TopicPartition("u", 0)) == 1 for shard in shards)


@on_a_loop
async def test_expired_offsets_are_looked_for_at_intervals() -> None:
    log = MemoryLog()
    filled(log, offset("g", 1))
    broker = Broker(log)
    broker.coordinator.config = GroupConfig(retention_check_interval_ms=1)
    shard = await broker.led()
    tombstone = asyncio.Event()
    log.watch(log.end_offset + 1, tombstone.set)
    broker.coordinator.start()
    await tombstone.wait()
    assert "g" not in shard.groups
