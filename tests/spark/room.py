"""What the tests of Spark do over and over: make topics, fill them, read them, run queries."""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.client.admin import Admin
from odradek.client.admin_topics import NewTopic
from odradek.client.consumer import Consumer
from odradek.client.sync import SyncAdmin, SyncConsumer, SyncProducer
from odradek.client.values import ConsumerRecord
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.log_generator import Mixture, log_lines, produce

if TYPE_CHECKING:
    from odradek.spark_jobs.query_run import Start
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

DONE_S = 600

# Key and value of a record.
Pair = tuple[str | None, str]


class Room:
    def __init__(self, spark: "SparkSession", servers: str, folder: Path, number: int) -> None:
        self.spark = spark
        self.servers = servers
        self.folder = folder
        self._number = number

    def name(self, base: str) -> str:
        return f"{base}-{self._number}"

    def topic(self, base: str = "topic", partitions: int = 2) -> str:
        name = self.name(base)
        make_topic(self.servers, name, partitions)
        return name

    def fill(self, topic: str, values: Iterable[str], **more: object) -> None:
        fill(self.servers, topic, values, **more)

    def batch(self, format: str, topic: str, **options: object) -> "DataFrame":
        reader = self.spark.read.format(format)
        return reader.options(**self._options(topic, options)).load()

    def stream(self, format: str, topic: str, **options: object) -> "DataFrame":
        reader = self.spark.readStream.format(format).option("startingOffsets", "earliest")
        return reader.options(**self._options(topic, options)).load()

    def _options(self, topic: str, options: Mapping[str, object]) -> dict[str, str]:
        """The topic counts unless the options say what to read."""
        says_what = {"subscribe", "subscribePattern", "assign"} & options.keys()
        chosen = options if says_what else {"subscribe": topic, **options}
        given = {name: str(value) for name, value in chosen.items()}
        return {"kafka.bootstrap.servers": self.servers, **given}

    def to_topic(
        self, frame: "DataFrame", format: str, topic: str, name: str = "query", **options: str
    ) -> "StreamingQuery":
        """Write all that is there, and wait for it."""
        return run_to_its_end(
            frame.writeStream.format(format)
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", topic)
            .option("checkpointLocation", str(self.folder / name))
            .options(**options)
            .trigger(availableNow=True)
            .start
        )

    def values(self, frame: "DataFrame") -> list[str]:
        return sorted(row.v for row in frame.selectExpr("cast(value as string) v").collect())

    def read(self, topic: str) -> list[ConsumerRecord]:
        return read(self.servers, topic)


def run_to_its_end(start: "Start") -> "StreamingQuery":
    """Raises what the query failed with."""
    from odradek.spark_jobs.query_run import QueryRun

    run = QueryRun(start)
    deadline = time.monotonic() + DONE_S
    while not run.has_ended(within_s=1.0):
        assert time.monotonic() < deadline, "the query did not end"
    return run.query


def make_topic(servers: str, name: str, partitions: int = 2) -> None:
    async def make(admin: Admin) -> None:
        for made in (await admin.create_topics([NewTopic(name, partitions=partitions)])).values():
            assert not isinstance(made, Exception), made
        await admin.wait_for_topics([name])

    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.run(make)


def fill(servers: str, topic: str, values: Iterable[str], **more: object) -> None:
    """Write values, each under a key of its last two characters."""
    with SyncProducer(bootstrap_servers=servers, linger_ms=5) as producer:
        sent = [
            producer.send(topic, value, key=value[-2:], **more)  # type: ignore[arg-type]
            for value in values
        ]
        for outcome in sent:
            outcome.result(60)


def fill_with_log(servers: str, topic: str, count: int) -> list[Pair]:
    """Write lines of the generator; what was written."""
    lines = list(log_lines(Mixture(), count))
    assert asyncio.run(produce(servers, topic, iter(lines), None)) == count
    return [(line.key or None, line.text) for line in lines]


def pairs_in(servers: str, topic: str) -> list[Pair]:
    found = read(servers, topic)
    return [(_text(r.key) if r.key else None, _text(r.value)) for r in found]


def _text(data: object) -> str:
    assert isinstance(data, bytes)
    return data.decode()


def delete_before(room: Room, partition: TopicPartition, offset: int) -> None:
    async def delete(admin: Admin) -> None:
        await admin.delete_records({partition: offset})

    with SyncAdmin(bootstrap_servers=room.servers) as admin:
        admin.run(delete)


def read(servers: str, topic: str) -> list[ConsumerRecord]:
    """Everything that is committed in the topic, up to its present end."""

    async def partitions(consumer: Consumer) -> dict[TopicPartition, int]:
        indexes = await consumer.partitions_for(topic)
        return await consumer.end_offsets([TopicPartition(topic, index) for index in indexes])

    found: list[ConsumerRecord] = []
    with SyncConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        ends = consumer.run(partitions)
        consumer.assign(ends)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += consumer.poll(1.0, 10_000)
    return found


def fingerprint(pairs: Iterable[tuple[object, object]]) -> tuple[int, dict[object, int], str]:
    """Count, counts by key, and a hash of the content that does not depend on its order."""
    listed = sorted((str(key), str(value)) for key, value in pairs)
    content = hashlib.sha256(repr(listed).encode()).hexdigest()
    return len(listed), dict(Counter(key for key, _ in listed)), content
