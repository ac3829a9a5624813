"""The official connector and ours read the same things from a broker of ours."""

import asyncio
import json

import pytest
from odradek.client.admin import Admin
from odradek.client.producer import Producer
from odradek.client.sync import SyncAdmin
from odradek.protocol.types import TopicPartition

from tests.spark.room import Room, delete_before

NUMBERS = [f"value-{number:05}" for number in range(200)]


def test_a_record_arrives_with_all_its_columns(room: Room, format):
    topic = room.topic(partitions=1)
    room.fill(
        topic, ["first-01"], timestamp_ms=1_700_000_000_123, headers=[("h", b"1"), ("h", None)]
    )
    room.fill(topic, ["later-02"], timestamp_ms=1_700_000_001_000)
    frame = room.batch(format, topic, includeHeaders="true")
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("offset").collect()
    first, later = rows
    assert frame.columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    ]
    assert (bytes(first.key), bytes(first.value)) == (b"01", b"first-01")
    assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
    assert (first.ms, first.timestampType) == (1_700_000_000_123, 0)
    assert [(header.key, header.value) for header in first.headers] == [("h", b"1"), ("h", None)]
    assert later.headers is None
    assert later.offset == 1


def test_an_empty_topic_has_no_rows(room: Room, format):
    topic = room.topic()
    assert room.batch(format, topic).collect() == []
    room.fill(topic, NUMBERS[:10])
    far = {"startingTimestamp": "0", "endingTimestamp": "1"}
    assert room.batch(format, topic, **far).count() == 0


def test_offsets_bound_a_batch(room: Room, format):
    topic = room.topic(partitions=1)
    room.fill(topic, NUMBERS)
    found = room.batch(
        format,
        topic,
        startingOffsets=json.dumps({topic: {"0": 50}}),
        endingOffsets=json.dumps({topic: {"0": 60}}),
    )
    assert room.values(found) == NUMBERS[50:60]
    earliest = room.batch(format, topic, startingOffsets=json.dumps({topic: {"0": -2}}))
    assert earliest.count() == len(NUMBERS)


def test_times_bound_a_batch(room: Room, format):
    topic = room.topic(partitions=1)
    for number, value in enumerate(NUMBERS[:5]):
        room.fill(topic, [value], timestamp_ms=1_700_000_000_000 + 1000 * number)
    between = room.batch(
        format, topic, startingTimestamp="1700000001000", endingTimestamp="1700000003000"
    )
    assert room.values(between) == NUMBERS[1:3]
    each = json.dumps({topic: {"0": 1_700_000_002_500}})
    assert room.values(room.batch(format, topic, startingOffsetsByTimestamp=each)) == NUMBERS[3:5]


def test_topics_are_named_by_a_pattern_or_partitions_by_number(room: Room, format):
    one, two = room.topic("pattern-a"), room.topic("pattern-b")
    room.fill(one, NUMBERS[:10])
    room.fill(two, NUMBERS[10:30])
    both = room.batch(format, "", subscribePattern=room.name("pattern-.*"))
    assert room.values(both) == NUMBERS[:30]
    part = room.batch(format, "", assign=json.dumps({two: [1]}))
    assert {row.partition for row in part.collect()} == {1}


def test_a_batch_is_cut_into_as_many_tasks_as_are_asked_for(room: Room, format):
    topic = room.topic(partitions=1)
    room.fill(topic, NUMBERS)
    found = room.batch(format, topic, minPartitions="4")
    assert found.rdd.getNumPartitions() == 4
    assert room.values(found) == NUMBERS


def test_what_was_aborted_is_not_read(room: Room, format):
    topic = room.topic(partitions=1)

    async def write() -> None:
        async with Producer(bootstrap_servers=room.servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, "kept")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, "aborted")
            await producer.abort_transaction()

    asyncio.run(write())
    committed = room.batch(format, topic, **{"kafka.isolation.level": "read_committed"})
    assert room.values(committed) == ["kept"]
    assert room.values(room.batch(format, topic)) == ["aborted", "kept"]


def test_a_stream_reads_no_more_per_batch_than_allowed_and_goes_on_from_its_checkpoint(
    room: Room, format
):
    topic, target = room.topic(), room.topic("target")
    room.fill(topic, NUMBERS[:100])
    source = room.stream(format, topic, maxOffsetsPerTrigger=40)
    first = room.to_topic(source, format, target)
    sizes = [progress["numInputRows"] for progress in first.recentProgress]
    assert max(sizes) <= 40
    assert sum(sizes) == 100
    room.fill(topic, NUMBERS[100:])
    second = room.to_topic(source, format, target)
    assert sum(progress["numInputRows"] for progress in second.recentProgress) == 100
    assert room.values(room.batch(format, target)) == NUMBERS


def test_records_that_are_gone_fail_a_stream_unless_that_is_allowed(room: Room, format):
    topic, target = room.topic(partitions=1), room.topic("target")
    room.fill(topic, NUMBERS[:10])
    room.to_topic(room.stream(format, topic), format, target)
    room.fill(topic, NUMBERS[10:30])
    delete_before(room, TopicPartition(topic, 0), 20)
    with pytest.raises(Exception, match="failOnDataLoss"):
        room.to_topic(room.stream(format, topic), format, target)
    lenient = room.stream(format, topic, failOnDataLoss="false")
    room.to_topic(lenient, format, target)
    assert room.values(room.batch(format, target)) == NUMBERS[:10] + NUMBERS[20:30]


def test_the_progress_of_a_stream_shows_as_the_lag_of_its_group(room: Room):
    topic, target, group = room.topic(), room.topic("target"), room.name("group")
    room.fill(topic, NUMBERS)
    source = room.stream("odradek", topic, **{"kafka.group.id": group})
    room.to_topic(source, "odradek", target)
    with SyncAdmin(bootstrap_servers=room.servers) as admin:
        committed = admin.run(lambda client: client.list_group_offsets(group))
    assert sum(position.offset for position in committed.values()) == len(NUMBERS)


def test_partitions_that_come_while_a_stream_rests_are_read_from_their_beginning(
    room: Room, format
):
    # Rows keep their partition, so the target has as many as the source will have.
    topic, target = room.topic(partitions=1), room.topic("target", partitions=3)
    room.fill(topic, NUMBERS[:10])
    room.to_topic(room.stream(format, topic), format, target)

    async def grow(admin: Admin) -> None:
        for result in (await admin.create_partitions({topic: 3})).values():
            assert result is None

    with SyncAdmin(bootstrap_servers=room.servers) as admin:
        admin.run(grow)
    for index in range(3):
        room.fill(topic, NUMBERS[10 * (index + 1) : 10 * (index + 2)], partition=index)
    room.to_topic(room.stream(format, topic, maxOffsetsPerTrigger=20), format, target)
    assert room.values(room.batch(format, target)) == NUMBERS[:40]


def test_a_stream_takes_the_options_that_a_batch_takes(room: Room, format):
    """Where it begins, what it reads and how it is cut, for a stream that begins anew each time."""
    one, two = room.topic("stream-a", partitions=1), room.topic("stream-b")
    for number, value in enumerate(NUMBERS[:5]):
        room.fill(one, [value], timestamp_ms=1_700_000_000_000 + 1000 * number)
    room.fill(two, NUMBERS[5:40])
    late = json.dumps({one: {"0": 1_700_000_002_500}})
    both = {"subscribePattern": room.name("stream-.*")}
    second = {"assign": json.dumps({two: [1]})}
    of_second = sorted(str(r.value, "utf-8") for r in room.read(two) if r.partition == 1)
    cases: list[tuple[dict[str, object], list[str]]] = [
        ({"startingOffsets": json.dumps({one: {"0": 3}})}, NUMBERS[3:5]),
        ({"startingTimestamp": "1700000001000"}, NUMBERS[1:5]),
        ({"startingOffsetsByTimestamp": late}, NUMBERS[3:5]),
        (both, NUMBERS[:40]),
        (second, of_second),
        ({"minPartitions": "3", "includeHeaders": "true"}, NUMBERS[:5]),
        ({"minOffsetsPerTrigger": "100", "maxTriggerDelay": "1h"}, NUMBERS[:5]),
        ({"startingOffsets": "latest"}, []),
    ]
    for number, (options, expected) in enumerate(cases):
        target = room.topic(f"target-{number}", partitions=2)
        source = room.stream(format, one, **options).select("key", "value")
        room.to_topic(source, format, target, name=f"query-{number}")
        assert room.values(room.batch(format, target)) == expected, options


def test_a_stream_of_what_is_committed_waits_for_no_marker(room: Room, format):
    """The end of a log that is read_committed lies behind markers, which are no rows."""
    topic, target = room.topic(partitions=1), room.topic("target", partitions=1)

    async def write() -> None:
        async with Producer(bootstrap_servers=room.servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            for value in ("kept", "aborted", "kept too"):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, value)
                if value == "aborted":
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()

    asyncio.run(write())
    source = room.stream(format, topic, **{"kafka.isolation.level": "read_committed"})
    room.to_topic(source, format, target)
    assert sorted(str(r.value, "utf-8") for r in room.read(target)) == ["kept", "kept too"]
