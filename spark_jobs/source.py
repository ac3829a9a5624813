"""`format("odradek")`: Spark's Python data source for Odradek and Kafka, without a jar.

    spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Each task reads a range of offsets of one partition and hands Arrow batches to the JVM. Where a
query is, Spark keeps in its checkpoint; with `kafka.group.id` each finished batch is also committed
to that group, for tools to see the lag, but never read back from there.
"""

import logging
from collections.abc import Iterator, Sequence

import pyarrow as pa
from odradek.protocol.errors import KafkaError
from odradek.spark_jobs.columns import schema_of
from odradek.spark_jobs.lookup import Lookup
from odradek.spark_jobs.offsets import (
    DataLoss,
    Document,
    OffsetRange,
    Offsets,
    behind,
    from_document,
    limited,
    planned,
    split,
    to_document,
)
from odradek.spark_jobs.options import SourceOptions, sink_options, source_options
from odradek.spark_jobs.patience import Patience
from odradek.spark_jobs.range_reader import RangeReader
from odradek.spark_jobs.sink import BatchWriter, StreamWriter
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

log = logging.getLogger(__name__)


class OdradekDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "odradek"

    def schema(self) -> str:
        # Whether it is a stream is not known yet; headers are asked for alike in both.
        return schema_of(self.options.get("includeHeaders", "false").lower() == "true")

    def reader(self, schema: StructType) -> "BatchReader":
        return BatchReader(source_options(self.options, is_streaming=False))

    def streamReader(self, schema: StructType) -> "StreamReader":
        return StreamReader(source_options(self.options, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(sink_options(self.options), schema, overwrites=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(sink_options(self.options), schema)


class RangePartition(InputPartition):
    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[RangePartition]:
        with Lookup(self._options) as lookup:
            start = lookup.resolve(self._options.starting)
            end = lookup.resolve(self._options.ending)
        # An end by time may lie before the start: then there is nothing between them.
        reached = {p: max(stop, start.get(p, stop)) for p, stop in end.items()}
        return tasks(self._options, start, reached)

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read, Spark makes up a partition of nothing.
        if partition.value is None:
            return iter(())
        return RangeReader(self._options, partition.value).read()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side lives as long as the query; tasks get a copy that never looked anything
    up."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._lookup: Lookup | None = None
        self._target: Offsets | None = None
        self._noted: Document | None = None
        self._patience = Patience(options.min_offsets_per_trigger, options.max_trigger_delay_ms)

    def initialOffset(self) -> Document:
        return to_document(self._ask().resolve(self._options.starting))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:
        # Asked only when all before the start is done; after the last batch `commit` is not called.
        self.commit(start)
        latest = self._latest()
        if not isinstance(limit, ReadMaxRows) and self._options.min_offsets_per_trigger is None:
            return to_document(latest)
        begin = from_document(start)
        begin |= self._new(begin, latest)
        # A query that only reads what is available would end where it waits.
        if self._target is None and not self._patience.is_over(behind(begin, latest)):
            return start
        if not isinstance(limit, ReadMaxRows):
            return to_document(latest)
        return to_document(limited(begin, latest, limit.max_rows))

    def reportLatestOffset(self) -> Document:
        return to_document(self._ask().latest())

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ask().latest()

    def partitions(self, start: Document, end: Document) -> Sequence[RangePartition]:
        begin, stop = from_document(start), from_document(end)
        return tasks(self._options, begin | self._new(begin, stop), stop)

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        return RangeReader(self._options, partition.value).read()

    def commit(self, end: Document) -> None:
        if self._options.group_id is None or end == self._noted:
            return
        try:
            self._ask().commit(self._options.group_id, from_document(end))
            self._noted = end
        except KafkaError as error:
            # Spark's checkpoint decides what is read next; the group only shows it to people.
            log.warning("the progress of %s was not committed: %s", self._options.group_id, error)

    def stop(self) -> None:
        if self._lookup is not None:
            self._lookup.close()
            self._lookup = None

    def _ask(self) -> Lookup:
        if self._lookup is None:
            self._lookup = Lookup(self._options)
        return self._lookup

    def _latest(self) -> Offsets:
        """As far as a batch may go: to the end of the logs, or to where they ended when a query
        that only reads what is available began."""
        return self._target if self._target is not None else self._ask().latest()

    def _new(self, begin: Offsets, latest: Offsets) -> Offsets:
        """Where partitions that came after the start begin: at their first record."""
        return self._ask().earliest(set(latest.keys() - begin.keys()))


def tasks(options: SourceOptions, start: Offsets, end: Offsets) -> list[RangePartition]:
    """A range for each task. Raises DataLoss where records are gone and that is not allowed."""
    ranges, losses = planned(start, end)
    if losses and options.is_fatal_to_lose:
        raise DataLoss(f"{'; '.join(losses)}. With failOnDataLoss=false the query goes on.")
    for loss in losses:
        log.warning("%s", loss)
    pieces = split(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    return [RangePartition(piece) for piece in pieces]
