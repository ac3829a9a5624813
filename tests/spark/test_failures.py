"""What cannot be done fails with a sentence that says why, and no query hangs."""

from pathlib import Path

import pytest
from odradek.protocol.types import TopicPartition

from tests.spark.driver import Driver
from tests.spark.room import Room, delete_before, run_to_its_end
from tests.support.network import free_port

QUICK = {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000"}


def run(room: Room, frame) -> None:
    run_to_its_end(
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(room.folder / "failing"))
        .trigger(availableNow=True)
        .start
    )


def test_a_topic_that_is_not_there_is_named(room: Room, format):
    with pytest.raises(Exception, match=r"UNKNOWN_TOPIC_OR_PARTITION.*nowhere|UnknownTopic"):
        run(room, room.stream(format, "nowhere", **(QUICK if format == "odradek" else {})))


def test_a_topic_that_is_not_there_fails_a_batch_too(room: Room):
    with pytest.raises(Exception, match="topic nowhere"):
        room.batch("odradek", "nowhere", **QUICK).count()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"maxOffsetsPerTriger": "5"}, "There is no option maxoffsetspertriger"),
        ({"startingOffsets": "middle"}, "startingOffsets must look like"),
        ({"kafka.fetch.max.bytes": "many"}, "fetch.max.bytes"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "too many are other-0"),
    ],
)
def test_a_wrong_option_is_named(room: Room, options, sentence):
    topic = room.topic()
    with pytest.raises(Exception, match=sentence):
        run(room, room.stream("odradek", topic, **options))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": "middle"}, "middle"),
        ({"kafka.fetch.max.bytes": "many"}, "fetch.max.bytes"),
        ({"maxOffsetsPerTrigger": "few"}, "(?i)few|maxOffsetsPerTrigger"),
        ({"subscribe": "one", "assign": "{}"}, "(?i)only one"),
    ],
)
def test_the_official_connector_names_wrong_options_too(room: Room, options, sentence):
    topic = room.topic()
    # Some of its settings are looked at by a consumer alone, and there is none without a record.
    room.fill(topic, ["one-01"])
    with pytest.raises(Exception, match=sentence):
        run(room, room.stream("kafka", topic, **options))


def test_a_broker_that_cannot_be_reached_is_given_up_in_time(room: Room, format):
    nobody = f"127.0.0.1:{free_port()}"
    frame = (
        room.spark.readStream.format(format)
        .option("kafka.bootstrap.servers", nobody)
        .option("subscribe", "topic")
        .options(**QUICK)
        .load()
    )
    with pytest.raises(Exception, match=nobody if format == "odradek" else "(?i)timed? ?out"):
        run(room, frame)


def test_a_sink_whose_broker_cannot_be_reached_fails_its_query(room: Room, format):
    nobody = f"127.0.0.1:{free_port()}"
    frame = room.spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    writer = frame.write.format(format).option("kafka.bootstrap.servers", nobody)
    with pytest.raises(Exception, match=nobody if format == "odradek" else "not present"):
        writer.option("topic", "t").option("kafka.max.block.ms", "1000").mode("append").save()


def test_records_lost_while_a_batch_is_read_fail_it_unless_that_is_allowed(room: Room, format):
    topic = room.topic(partitions=1)
    room.fill(topic, [f"{number:04}" for number in range(10)])
    wanted = {"startingOffsets": f'{{"{topic}": {{"0": 2}}}}'}
    delete_before(room, TopicPartition(topic, 0), 5)
    with pytest.raises(Exception, match=r"failOnDataLoss|OffsetOutOfRange|data loss|lost"):
        room.batch(format, topic, **wanted).collect()
    left = room.batch(format, topic, failOnDataLoss="false", **wanted)
    assert room.values(left) == [f"{number:04}" for number in range(5, 10)]


@pytest.mark.needs("spark")
def test_a_job_says_in_one_sentence_what_is_wrong(broker, tmp_path: Path):
    words = ["archive", "nowhere", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "c")]
    with Driver([*words, "--once", "-b", broker.bootstrap], tmp_path / "log") as driver:
        said = driver.fail()
    assert "topic nowhere" in said
    assert "Traceback" not in said.splitlines()[-1]
