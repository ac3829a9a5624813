"""Both sinks write what they are given; ours writes it once, whatever is repeated."""

import os
from collections import Counter
from collections.abc import Iterable

import pytest
from odradek.client.sync import SyncAdmin

from tests.spark.room import Pair, Room, fill_with_log, fingerprint, pairs_in

RECORDS = int(os.environ.get("ODRADEK_SPARK_RECORDS", "20000"))


def test_a_batch_is_written_with_all_its_columns(room: Room, format):
    one, two = room.topic("one"), room.topic("two")
    frame = room.spark.sql(
        f"""SELECT '{one}' AS topic, 'k' AS key, 'v' AS value, 1 AS partition,
                   array(struct('h' AS key, CAST('x' AS BINARY) AS value)) AS headers
            UNION ALL SELECT '{two}', NULL, NULL, 0, NULL"""
    )
    writer = frame.write.format(format).option("kafka.bootstrap.servers", room.servers)
    writer.option("includeHeaders", "true").mode("append").save()
    (first,) = room.read(one)
    assert (first.partition, first.key, first.value) == (1, b"k", b"v")
    assert first.headers == (("h", b"x"),)
    (second,) = room.read(two)
    assert (second.partition, second.key, second.value, second.headers) == (0, None, None, ())


@pytest.mark.timeout(900)
def test_many_records_come_through_a_query_as_plain_python_computes_them(room: Room, format):
    topic, target = room.topic(partitions=3), room.topic("target", partitions=3)
    written = fill_with_log(room.servers, topic, RECORDS)
    lines = room.stream(format, topic, maxOffsetsPerTrigger=RECORDS // 3 + 1).selectExpr(
        "key", "split(CAST(value AS STRING), ' ') AS fields"
    )
    slow = lines.where("size(fields) = 7 AND CAST(fields[6] AS INT) >= 30").selectExpr(
        "key", "concat(fields[3], ' ', CAST(fields[6] AS INT) * 3) AS value"
    )
    room.to_topic(slow, format, target)
    fields = [(key, line.split(" ")) for key, line in written]
    expected = [
        (key, f"{row[3]} {int(row[6]) * 3}")
        for key, row in fields
        if len(row) == 7 and int(row[6]) >= 30
    ]
    found = pairs_in(room.servers, target)
    assert fingerprint(found) == fingerprint(expected)
    assert sums_by_key(found) == sums_by_key(expected)


def sums_by_key(pairs: Iterable[Pair]) -> Counter[str | None]:
    sums: Counter[str | None] = Counter()
    for key, value in pairs:
        sums[key] += int(value.split(" ")[1])
    return sums


def fail_the_first_attempt(value: bytes) -> bytes:
    """In the middle: rows before this one are with the sink already."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if value >= b"002000" and context is not None and context.attemptNumber() == 0:
        raise RuntimeError("the first attempt fails halfway")
    return value


def test_a_task_that_fails_halfway_and_is_repeated_writes_its_rows_once(room: Room):
    from pyspark.sql.functions import udf

    topic, target = room.topic(), room.topic("target")
    values = [f"{number:06}" for number in range(3_000)]
    room.fill(topic, values)
    shaky = udf(fail_the_first_attempt, "BINARY", useArrow=False)
    room.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "300")
    try:
        source = room.stream("odradek", topic).select("key", shaky("value").alias("value"))
        room.to_topic(source, "odradek", target)
    finally:
        room.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert sorted(record.value.decode() for record in room.read(target)) == values


def forget_commits(room: Room, name: str = "query") -> int:
    """What a driver leaves that dies after its tasks are done and before it could note that."""
    notes = list((room.folder / name / "commits").iterdir())
    for note in notes:
        note.unlink()
    return len([note for note in notes if not note.name.startswith(".")])


def test_a_batch_whose_end_was_not_noted_is_repeated_without_effect(room: Room):
    topic, target = room.topic(), room.topic("target")
    room.fill(topic, [f"{number:04}" for number in range(500)])
    source = room.stream("odradek", topic)
    room.to_topic(source, "odradek", target)
    assert forget_commits(room) == 1
    again = room.to_topic(source, "odradek", target)
    assert sum(progress["numInputRows"] for progress in again.recentProgress) == 500
    assert len(room.read(target)) == 500


def test_without_exactly_once_a_repeated_batch_is_written_again(room: Room):
    topic, target = room.topic(), room.topic("target")
    room.fill(topic, ["one-01"])
    source = room.stream("odradek", topic)
    room.to_topic(source, "odradek", target, exactlyOnce="false")
    forget_commits(room)
    room.to_topic(source, "odradek", target, exactlyOnce="false")
    assert len(room.read(target)) == 2


def test_a_batch_write_leaves_no_group_behind(room: Room):
    topic = room.topic()
    frame = room.spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    writer = frame.write.format("odradek").option("kafka.bootstrap.servers", room.servers)
    with SyncAdmin(bootstrap_servers=room.servers) as admin:
        before = {group.group_id for group in admin.run(lambda a: a.list_groups())}
        writer.option("topic", topic).mode("append").save()
        after = {group.group_id for group in admin.run(lambda a: a.list_groups())}
    assert len(room.read(topic)) == 10
    assert after <= before


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("id", "A column value is needed"),
        ("CAST(id AS STRING) AS value", "Give the option topic"),
        ("id AS value, 't' AS topic", "Column value must be"),
    ],
)
def test_columns_that_cannot_be_written_are_refused_before_anything_is(
    room: Room, columns, sentence
):
    frame = room.spark.range(3).selectExpr(*columns.split(", "))
    writer = frame.write.format("odradek").option("kafka.bootstrap.servers", room.servers)
    with pytest.raises(Exception, match=sentence):
        writer.mode("append").save()
