"""Attempts at one task of our sink, without a Spark around them: on our broker and on Kafka."""

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from tests.spark.room import make_topic, read
from tests.support.parts import require

require("spark")

import pyarrow as pa  # noqa: E402
from odradek.client.sync import SyncAdmin  # noqa: E402
from odradek.protocol.errors import KafkaError  # noqa: E402
from odradek.protocol.types import TopicPartition  # noqa: E402
from odradek.spark_jobs.options import sink_options  # noqa: E402
from odradek.spark_jobs.sink import Attempt, Written, write_rows  # noqa: E402

_numbers = count()


REAL_KAFKA = pytest.param("kafka_on_zookeeper", marks=pytest.mark.xdist_group("real servers"))


@pytest.fixture(params=["broker", REAL_KAFKA])
def servers(request: pytest.FixtureRequest) -> str:
    """Ours, and Apache Kafka 3.9: the sink counts on the same things in both."""
    bootstrap: str = request.getfixturevalue(request.param).bootstrap
    return bootstrap


@pytest.fixture
def topic(servers: str) -> str:
    name = f"attempts-{next(_numbers)}"
    make_topic(servers, name, 1)
    return name


def rows(*values: str) -> Iterator[pa.RecordBatch]:
    for value in values:
        yield pa.record_batch({"value": pa.array([value.encode()])})


def write(servers: str, topic: str, attempt: Attempt, *values: str) -> Written:
    options = sink_options({"kafka.bootstrap.servers": servers, "topic": topic})
    return asyncio.run(write_rows(options, attempt, rows(*values)))


def values_in(servers: str, topic: str) -> list[str]:
    return [str(record.value, "utf-8") for record in read(servers, topic)]


def test_a_second_attempt_at_a_batch_writes_nothing_and_the_next_batch_does(servers, topic):
    # More tasks than the topic has partitions.
    first, following = (Attempt(f"query-{topic}", 7, batch_id) for batch_id in (4, 5))
    assert write(servers, topic, first, "a", "b") == Written(rows=2, was_there=False)
    assert write(servers, topic, first, "a", "b") == Written(rows=2, was_there=True)
    assert write(servers, topic, following, "c") == Written(rows=1, was_there=False)
    assert values_in(servers, topic) == ["a", "b", "c"]


def test_tasks_of_one_batch_do_not_hide_each_other(servers, topic):
    for task in (0, 1):
        assert not write(servers, topic, Attempt(f"query-{topic}", task, 0), f"{task}").was_there
    assert sorted(values_in(servers, topic)) == ["0", "1"]


def test_the_marker_of_a_batch_is_an_offset_of_the_tasks_group(servers, topic):
    write(servers, topic, Attempt(f"query-{topic}", 1, 41), "a")
    with SyncAdmin(bootstrap_servers=servers) as admin:
        group = f"odradek-sink-query-{topic}-1"
        committed = admin.run(lambda client: client.list_group_offsets(group))
    assert committed[TopicPartition(topic, 0)].offset == 42


def test_an_attempt_that_was_taken_for_dead_is_shut_out_by_its_successor(servers, topic):
    attempt = Attempt(f"query-{topic}", 0, 0)
    options = sink_options({"kafka.bootstrap.servers": servers, "topic": topic})

    async def overtaken() -> Written:
        """While the first attempt waits for its second row, another one does all the work."""
        loop = asyncio.get_running_loop()

        def slow() -> Iterator[pa.RecordBatch]:
            yield from rows("a")
            second = asyncio.run_coroutine_threadsafe(
                write_rows(options, attempt, rows("a", "b")), loop
            )
            assert second.result(60) == Written(rows=2, was_there=False)
            yield from rows("b")

        return await write_rows(options, attempt, slow())

    with pytest.raises(KafkaError, match=r"FENCED|EPOCH"):
        asyncio.run(overtaken())
    assert values_in(servers, topic) == ["a", "b"]


def test_an_attempt_that_breaks_off_leaves_nothing_to_be_read(servers, topic):
    options = sink_options({"kafka.bootstrap.servers": servers, "topic": topic})

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows("a")
        raise RuntimeError("the task fails")

    with pytest.raises(RuntimeError, match="the task fails"):
        asyncio.run(write_rows(options, Attempt(f"query-{topic}", 0, 0), broken()))
    assert values_in(servers, topic) == []
