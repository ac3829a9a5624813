"""Consuming from every broker the client must get along with: alone and in groups."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from odradek.client.admin import Admin
from odradek.client.consumer import Consumer
from odradek.client.producer import Producer
from odradek.client.subscription import RebalanceListener
from odradek.client.values import (
    ConsumerRecords,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition

from tests.integration.client_room import make_topic, read_all, reading, take

Fresh = Callable[[str], str]
DEADLINE_S = 30


async def fill(bootstrap: str, topic: str, count: int, *, partitions: int = 1) -> None:
    """`count` records in each partition: value b"<partition>:<number>", timestamps 1000, 1001 …"""
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            for index in range(partitions):
                value = b"%d:%d" % (index, number)
                await producer.send(topic, value, partition=index, timestamp_ms=1000 + number)


async def poll_until(consumer: Consumer, done: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not done():
            await consumer.poll(0.1)


def test_records_come_in_order_and_positions_follow(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        partition = TopicPartition(topic, 0)
        await fill(bootstrap, topic, 1000)
        async with reading(bootstrap, topic) as consumer:
            first = await consumer.poll(DEADLINE_S, max_records=300)
            assert len(first) == 300
            assert await consumer.position(partition) == 300
            rest = await take(consumer, 700)
            assert [r.offset for r in (*first, *rest)] == list(range(1000))
            assert await consumer.position(partition) == 1000
            assert not await consumer.poll(0.05)
            assert consumer.lag(partition) == 0

    asyncio.run(run())


def test_iteration_may_stop_and_go_on_anywhere(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        await fill(bootstrap, topic, 100)
        async with reading(bootstrap, topic) as consumer:
            seen = [r.offset for count in (1, 2, 30, 67) for r in await take(consumer, count)]
        assert seen == list(range(100))

    asyncio.run(run())


def test_seeking_pausing_and_resuming(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), partitions=2)
        left, right = TopicPartition(topic, 0), TopicPartition(topic, 1)
        await fill(bootstrap, topic, 100, partitions=2)
        async with reading(bootstrap, topic, (0, 1)) as consumer:
            consumer.pause(right)
            assert {r.partition for r in await take(consumer, 100)} == {0}
            consumer.pause(left)
            consumer.resume(right)
            assert consumer.paused() == {left}
            assert {r.partition for r in await take(consumer, 100)} == {1}
            consumer.resume(left)
            consumer.seek(left, 95)
            assert [r.offset for r in await take(consumer, 5)] == [95, 96, 97, 98, 99]
            consumer.seek_to_beginning(right)
            assert (await take(consumer, 1))[0].offset == 0
            consumer.seek_to_end()
            assert await consumer.position(right) == 100
            with pytest.raises(KafkaError, match="not assigned"):
                consumer.seek(TopicPartition("other", 0), 1)

    asyncio.run(run())


def test_offsets_are_found_by_time_and_by_end(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        partition = TopicPartition(topic, 0)
        await fill(bootstrap, topic, 50)
        async with reading(bootstrap, topic) as consumer:
            found = await consumer.offsets_for_times({partition: 1020})
            position = found[partition]
            assert position is not None
            assert position[:2] == OffsetAndTimestamp(20, 1020)[:2]
            assert await consumer.offsets_for_times({partition: 99_999}) == {partition: None}
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 50}
            assert await consumer.partitions_for(topic) == [0]

    asyncio.run(run())


def test_without_a_position_the_reset_decides(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        partition = TopicPartition(topic, 0)
        await fill(bootstrap, topic, 10)
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="latest") as consumer:
            consumer.assign([partition])
            assert await consumer.position(partition) == 10
            consumer.seek(partition, 5000)
            await poll_until(consumer, lambda: consumer.lag(partition) == 0)
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            with pytest.raises(KafkaError, match="no committed offset"):
                await consumer.poll(DEADLINE_S)
            consumer.seek(partition, 5000)
            with pytest.raises(KafkaError) as caught:
                await consumer.poll(DEADLINE_S)
            assert caught.value.error is Errors.OFFSET_OUT_OF_RANGE

    asyncio.run(run())


def test_a_group_goes_on_from_its_commits(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        partition = TopicPartition(topic, 0)
        await fill(bootstrap, topic, 100)
        settings: Mapping[str, str] = {
            "bootstrap.servers": bootstrap,
            "group.id": fresh("group"),
            "auto.offset.reset": "earliest",
        }
        manual = {**settings, "enable.auto.commit": "false"}
        async with Consumer(manual) as consumer:
            consumer.subscribe([topic])
            await take(consumer, 30)
            await consumer.commit()
            await take(consumer, 20)
        async with Consumer(manual) as consumer:
            consumer.subscribe([topic])
            assert (await take(consumer, 1))[0].offset == 30
            await consumer.commit({partition: OffsetAndMetadata(70, "note")})
            committed = await consumer.committed([partition])
            assert committed[partition][:2] == (70, "note")
        async with Consumer(settings) as consumer:
            consumer.subscribe([topic])
            assert [r.offset for r in await take(consumer, 10)] == list(range(70, 80))
        async with Consumer(settings) as consumer:
            consumer.subscribe([topic])
            assert (await take(consumer, 1))[0].offset == 80

    asyncio.run(run())


def test_a_position_past_the_end_of_its_epoch_means_a_truncated_log(
    bootstrap: str, fresh: Fresh
) -> None:
    """The group had read to 90 in the epoch of a leader whose records from 40 on are lost."""

    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        partition = TopicPartition(topic, 0)
        await fill(bootstrap, topic, 40)
        group = fresh("group")
        async with Admin(bootstrap_servers=bootstrap) as admin:
            lost = OffsetAndMetadata(90, leader_epoch=0)
            await admin.alter_group_offsets(group, {partition: lost})
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": "false",
        }
        async with Consumer(settings, auto_offset_reset="earliest") as consumer:
            consumer.assign([partition])
            assert await consumer.position(partition) == 40
            await fill(bootstrap, topic, 1)
            assert (await take(consumer, 1))[0].offset == 40
        async with Consumer(settings, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            with pytest.raises(KafkaError, match="truncated"):
                await consumer.poll(DEADLINE_S)

    asyncio.run(run())


class Noting(RebalanceListener):
    def __init__(self) -> None:
        self.notes: list[tuple[str, list[int]]] = []

    def _note(self, word: str, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.notes.append((word, sorted(p.partition for p in partitions)))

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._note("assigned", partitions)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._note("revoked", partitions)


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_share_partitions_and_hand_them_over(
    bootstrap: str, fresh: Fresh, assignor: str
) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), partitions=4)
        settings = {
            "bootstrap_servers": bootstrap,
            "group_id": fresh("group"),
            "partition_assignment_strategy": assignor,
            "heartbeat_interval_ms": 100,
            "auto_offset_reset": "earliest",
        }
        first_notes = Noting()
        async with Consumer(**settings) as first:
            first.subscribe([topic], listener=first_notes)
            await poll_until(first, lambda: len(first.assignment()) == 4)
            async with Consumer(**settings) as second:
                second.subscribe([topic])

                def is_shared() -> bool:
                    return len(first.assignment()) == len(second.assignment()) == 2

                await asyncio.gather(poll_until(first, is_shared), poll_until(second, is_shared))
                assert not first.assignment() & second.assignment()
            await poll_until(first, lambda: len(first.assignment()) == 4)
        words = [word for word, _ in first_notes.notes]
        assert first_notes.notes[0] == ("assigned", [0, 1, 2, 3])
        if assignor == "cooperative-sticky":
            assert [len(p) for word, p in first_notes.notes if word == "revoked"] == [2, 4]
        else:
            assert words == ["assigned", "revoked", "assigned", "revoked", "assigned", "revoked"]

    asyncio.run(run())


def test_a_pattern_follows_topics_as_they_appear(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        prefix = fresh("family")
        await make_topic(bootstrap, f"{prefix}-one")
        async with Consumer(
            bootstrap_servers=bootstrap,
            group_id=fresh("group"),
            metadata_max_age_ms=200,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe(pattern=f"{prefix}-.*")
            await poll_until(consumer, lambda: len(consumer.assignment()) == 1)
            await make_topic(bootstrap, f"{prefix}-two", partitions=2)
            await poll_until(consumer, lambda: len(consumer.assignment()) == 3)
            assert consumer.subscription() == {f"{prefix}-one", f"{prefix}-two"}

    asyncio.run(run())


def test_a_static_member_comes_back_to_its_partitions(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), partitions=4)
        group = fresh("group")

        def member(name: str) -> Consumer:
            return Consumer(
                bootstrap_servers=bootstrap,
                group_id=group,
                group_instance_id=name,
                heartbeat_interval_ms=100,
            )

        async with member("b") as stays:
            stays.subscribe([topic])
            async with member("a") as leaves:
                leaves.subscribe([topic])

                def is_shared() -> bool:
                    return len(stays.assignment()) == len(leaves.assignment()) == 2

                await asyncio.gather(poll_until(stays, is_shared), poll_until(leaves, is_shared))
                before = leaves.assignment()
                generation = stays.group_metadata().generation_id
            async with member("a") as back:
                back.subscribe([topic])
                await asyncio.gather(
                    poll_until(back, lambda: len(back.assignment()) == 2),
                    poll_until(stays, lambda: len(back.assignment()) == 2),
                )
                assert back.assignment() == before
                assert stays.group_metadata().generation_id == generation

    asyncio.run(run())


def test_one_group_may_mix_our_members_with_confluents(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), partitions=6)
        group = fresh("group")
        theirs = ConfluentConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "partition.assignment.strategy": "range",
                "heartbeat.interval.ms": 100,
            }
        )
        theirs.subscribe([topic])
        stop = asyncio.Event()

        async def poll_theirs() -> None:
            while not stop.is_set():
                await asyncio.to_thread(theirs.poll, 0.1)

        polling = asyncio.create_task(poll_theirs())
        async with Consumer(
            bootstrap_servers=bootstrap, group_id=group, heartbeat_interval_ms=100
        ) as ours:
            ours.subscribe([topic])

            def is_shared() -> bool:
                return len(ours.assignment()) == len(theirs.assignment()) == 3

            await poll_until(ours, is_shared)
            assert not {p.partition for p in ours.assignment()} & {
                p.partition for p in theirs.assignment()
            }
        stop.set()
        await polling
        await asyncio.to_thread(theirs.close)

    asyncio.run(run())


def test_interceptors_and_deserializers(bootstrap: str, fresh: Fresh) -> None:
    class Counting:
        def __init__(self) -> None:
            self.consumed = 0
            self.committed: dict[TopicPartition, int] = {}

        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            self.consumed += len(records)
            return records

        def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
            self.committed.update((p, row.offset) for p, row in offsets.items())

    def as_number(value: bytes | None) -> object:
        return None if value is None else int(value.partition(b":")[2])

    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        await fill(bootstrap, topic, 10)
        counting = Counting()
        async with Consumer(
            bootstrap_servers=bootstrap,
            group_id=fresh("group"),
            auto_offset_reset="earliest",
            value_deserializer=as_number,
            interceptors=[counting],
        ) as consumer:
            consumer.subscribe([topic])
            assert [record.value for record in await take(consumer, 10)] == list(range(10))
        assert counting.consumed == 10
        assert counting.committed == {TopicPartition(topic, 0): 10}

    asyncio.run(run())


def test_offsets_travel_with_a_transaction(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        source = await make_topic(bootstrap, fresh("source"))
        sink = await make_topic(bootstrap, fresh("sink"))
        partition = TopicPartition(source, 0)
        await fill(bootstrap, source, 20)
        async with (
            Consumer(
                bootstrap_servers=bootstrap,
                group_id=fresh("group"),
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as consumer,
            Producer(bootstrap_servers=bootstrap, transactional_id=fresh("id")) as producer,
        ):
            await producer.init_transactions()
            consumer.subscribe([source])
            for record in await take(consumer, 10):
                await producer.begin_transaction()
                await producer.send_and_wait(sink, bytes(str(record.offset), "ascii"))
                offsets = {partition: OffsetAndMetadata(record.offset + 1)}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                is_odd = record.offset % 2
                await (producer.abort_transaction() if is_odd else producer.commit_transaction())
            committed = await consumer.committed([partition])
            assert committed[partition].offset == 9
        read = await read_all(bootstrap, sink, 5, isolation_level="read_committed")
        assert [r.value for r in read] == [b"0", b"2", b"4", b"6", b"8"]

    asyncio.run(run())
