"""The sink of `format("odradek")`: every task writes its rows in one transaction.

A task of a streaming query has a name that outlives crashes: the query's id, which is in the
checkpoint, and the task's number. The name is its transactional id, so a second attempt shuts the
first one out. With the rows the transaction commits an offset to a group of the same name,

    group odradek-sink-<query id>-<number of the task>, <a topic it wrote to>-0: batch id + 1

so a task that is repeated, by Spark or by a driver that was killed, finds its batch there and
writes nothing. This counts on a repeated batch being cut into the same tasks, which holds while
the query's plan, its options and the number of shuffle partitions stay.

One group for each task, as an offset must belong to a partition that exists, and there may be more
tasks than partitions. A batch query has no such name: one is drawn for each job, and its groups are
deleted after it.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from odradek.client.admin import Admin
from odradek.client.loop_thread import new_loop
from odradek.client.producer import Producer
from odradek.client.sync import SyncAdmin
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.offsets import OptionError
from odradek.spark_jobs.options import SinkOptions, admin_settings
from odradek.spark_jobs.rows import check_columns, rows_of
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

PREFIX: Final = "odradek-sink-"
# How Spark tells tasks to which batch of which streaming query they belong.
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
# Big batches, as a task has all its rows at hand and nobody waits for a single one; and time enough
# for a task that computes long between its rows.
DEFAULTS: Final = {
    "linger.ms": "20",
    "batch.size": "262144",
    "transaction.timeout.ms": "300000",
}
# A group that stays behind is untidy, and not worth waiting long for a cluster that is gone.
FORGET_SOON: Final = {"default.api.timeout.ms": "5000"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which part of which batch is being written; the same for every attempt at it."""

    writer_id: str
    task: int
    batch_id: int

    @property
    def name(self) -> str:
        """The transactional id, and the group that says which batches are done."""
        return f"{PREFIX}{self.writer_id}-{self.task}"


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    rows: int
    was_there: bool


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(options, schema)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None, "Spark runs writers in tasks"
        query_id, batch_id = (context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID))
        if query_id is None or batch_id is None:
            raise RuntimeError("Spark did not say which batch of which query this is")
        attempt = Attempt(query_id, context.partitionId(), int(batch_id))
        return run(write_rows(self._options, attempt, iterator))


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType, *, overwrites: bool) -> None:
        if overwrites:
            raise OptionError("A topic can only be appended to: use mode('append')")
        check_columns(options, schema)
        self._options = options
        self._writer_id = str(uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None, "Spark runs writers in tasks"
        attempt = Attempt(self._writer_id, context.partitionId(), 0)
        return run(write_rows(self._options, attempt, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._forget(len(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._forget(len(messages))

    def _forget(self, tasks: int) -> None:
        """Delete the groups that said which tasks are done."""
        if not self._options.is_exactly_once:
            return
        groups = [Attempt(self._writer_id, task, 0).name for task in range(tasks)]

        async def delete(admin: Admin) -> None:
            await admin.delete_groups(groups)

        try:
            with SyncAdmin(FORGET_SOON | admin_settings(self._options.kafka)) as admin:
                admin.run(delete)
        except KafkaError as error:
            log.warning("groups of %s could not be deleted: %s", self._writer_id, error)


def run(work: Coroutine[object, object, Written]) -> Written:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


async def write_rows(
    options: SinkOptions, attempt: Attempt, batches: Iterator[pa.RecordBatch]
) -> Written:
    first = await asyncio.to_thread(next, batches, None)
    while first is not None and not first.num_rows:
        first = await asyncio.to_thread(next, batches, None)
    if first is None:
        return Written(rows=0, was_there=False)
    settings = {**DEFAULTS, **options.kafka}
    if not options.is_exactly_once:
        async with Producer(settings) as producer:
            return Written(await _send(producer, options, first, batches), was_there=False)
    settings["transactional.id"] = attempt.name
    async with Producer(settings) as producer:
        # First take over the name: whatever an older attempt has begun is over after this.
        await producer.init_transactions()
        marker = TopicPartition(_topic_of(options, first), 0)
        if await _is_written(options, attempt, marker):
            rows = first.num_rows + await asyncio.to_thread(_count, batches)
            return Written(rows, was_there=True)
        async with producer.transaction():
            rows = await _send(producer, options, first, batches)
            done = OffsetAndMetadata(attempt.batch_id + 1, f"batch {attempt.batch_id}: {rows} rows")
            await producer.send_offsets_to_transaction({marker: done}, GroupMetadata(attempt.name))
        return Written(rows, was_there=False)


async def _is_written(options: SinkOptions, attempt: Attempt, marker: TopicPartition) -> bool:
    """Whether an earlier attempt at this part committed, now that no other can any more.

    A coordinator of groups may hear of that a little after the transaction is over, and waits for
    it only where a partition is named. An earlier batch may have begun with another topic.
    """
    async with Admin(admin_settings(options.kafka)) as admin:
        named = await admin.list_group_offsets(attempt.name, [marker], require_stable=True)
        every = await admin.list_group_offsets(attempt.name)
    return any(position.offset > attempt.batch_id for position in (every | named).values())


async def _send(
    producer: Producer,
    options: SinkOptions,
    first: pa.RecordBatch,
    batches: Iterator[pa.RecordBatch],
) -> int:
    """Send all rows and wait until each is written. Raises the first failure."""
    failures: list[KafkaError] = []

    def note(_: object, error: KafkaError | None) -> None:
        if error is not None:
            failures.append(error)

    # A transaction cannot commit after a failure; without one, each record has to tell.
    on_delivery = None if options.is_exactly_once else note
    sent = 0
    batch: pa.RecordBatch | None = first
    send = producer.send
    while batch is not None and not failures:
        for topic, key, value, partition, timestamp_ms, headers in rows_of(options, batch):
            await send(
                topic,
                value,
                key=key,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
                on_delivery=on_delivery,
            )
        sent += batch.num_rows
        # In a thread: the producer goes on sending while Spark computes the next rows.
        batch = await asyncio.to_thread(next, batches, None)
    await producer.flush()
    if failures:
        raise failures[0]
    return sent


def _topic_of(options: SinkOptions, batch: pa.RecordBatch) -> str:
    return next(rows_of(options, batch))[0]


def _count(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)
