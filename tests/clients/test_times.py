"""Timestamps: those of producers, those of the broker, and the way from a time to an offset."""

import time

import pytest

from tests.clients.driver import MAX_TIMESTAMP, Client, Record

HOUR_MS = 3_600_000


def some_time_ago() -> int:
    return int(time.time() * 1000) - HOUR_MS


@pytest.mark.ability("timestamps")
def test_a_record_keeps_the_time_its_producer_gave_it(client: Client, topic: str) -> None:
    start = some_time_ago()
    client.produce(
        topic, [Record(b"first", timestamp=start), Record(b"second", timestamp=start + 7)]
    )
    received = client.consume(topic, 2)
    assert [record.timestamp for record in received] == [start, start + 7]
    assert {record.timestamp_type for record in received} <= {"create", None}


@pytest.mark.ability("append_time")
def test_a_topic_may_stamp_records_with_the_time_of_their_arrival(
    client: Client, reference: Client, new_name: str
) -> None:
    reference.create_topic(new_name, configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    client.produce(new_name, [Record(b"stamped"), Record(b"too")])
    after = int(time.time() * 1000)
    for record in client.consume(new_name, 2):
        assert record.timestamp is not None
        assert before <= record.timestamp <= after
        assert record.timestamp_type in ("append", None)


@pytest.mark.ability("time_lookup")
def test_a_reader_seeks_by_time(client: Client, reference: Client, topic: str) -> None:
    start = some_time_ago()
    for number in range(5):
        reference.produce(topic, [Record(b"%d" % number, timestamp=start + 1000 * number)])
    offset = client.offset_at(topic, start + 1500)
    assert offset == 2
    (received,) = client.consume(topic, 1, offset=offset)
    assert received.value == b"2"


@pytest.mark.ability("time_lookup")
def test_a_time_inside_a_batch_finds_the_record_and_not_the_batch(
    client: Client, reference: Client, topic: str
) -> None:
    start = some_time_ago()
    batch = [Record(b"%d" % number, timestamp=start + 1000 * number) for number in range(5)]
    reference.produce(topic, batch, codec="lz4")
    assert client.offset_at(topic, start) == 0
    assert client.offset_at(topic, start + 3000) == 3
    assert client.offset_at(topic, start + 3001) == 4


@pytest.mark.ability("time_lookup", "no_such_time")
def test_a_time_after_the_last_record_finds_nothing(
    client: Client, reference: Client, topic: str
) -> None:
    reference.produce(topic, [Record(b"old", timestamp=some_time_ago())])
    assert client.offset_at(topic, some_time_ago() + 2 * HOUR_MS) == -1


@pytest.mark.ability("max_timestamp")
def test_the_largest_timestamp_has_an_offset(client: Client, reference: Client, topic: str) -> None:
    start = some_time_ago()
    for number, later in enumerate((0, 5000, 2000)):
        reference.produce(topic, [Record(b"%d" % number, timestamp=start + later)])
    assert client.offset_at(topic, MAX_TIMESTAMP) == 1
