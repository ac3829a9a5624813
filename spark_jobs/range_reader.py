"""What a task of the source does: read one range of offsets of one partition, as Arrow batches."""

import logging
from bisect import bisect_left
from collections.abc import Iterator

import pyarrow as pa
from odradek.client.consumer import Consumer
from odradek.client.offsets import EARLIEST, LATEST
from odradek.client.sync import SyncConsumer
from odradek.client.values import ConsumerRecord
from odradek.protocol.clock import Clock, SystemClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.columns import to_arrow
from odradek.spark_jobs.offsets import DataLoss, OffsetRange
from odradek.spark_jobs.options import SourceOptions

log = logging.getLogger(__name__)

POLL_S = 1.0
# Enough for the JVM to work on while the next batch is read.
DEFAULTS = {"max.poll.records": "10000", "max.partition.fetch.bytes": "4194304"}
FIXED = {
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
}


class RangeReader:
    def __init__(
        self, options: SourceOptions, wanted: OffsetRange, clock: Clock | None = None
    ) -> None:
        self._options = options
        self._wanted = wanted
        self._partition = wanted.partition
        self._position = wanted.start
        self._clock = clock or SystemClock()

    def read(self) -> Iterator[pa.RecordBatch]:
        """Every record of the range that is there. Raises DataLoss, KafkaError or TimeoutError."""
        settings = {**DEFAULTS, **self._options.kafka, **FIXED}
        with SyncConsumer(settings) as consumer:
            consumer.assign([self._partition])
            consumer.seek(self._partition, self._position)
            deadline = self._deadline()
            while self._position < self._wanted.end:
                before = self._position
                records = self._poll(consumer)
                if records:
                    yield to_arrow(records, self._options.includes_headers)
                if self._position != before:
                    deadline = self._deadline()
                elif self._clock.monotonic() > deadline:
                    raise TimeoutError(self._nothing_comes())

    def _poll(self, consumer: SyncConsumer) -> list[ConsumerRecord]:
        try:
            records, self._position = consumer.run(self._poll_once)
        except KafkaError as error:
            if error.error is not Errors.OFFSET_OUT_OF_RANGE:
                raise
            self._out_of_range(consumer)
            return []
        if records and records[-1].offset >= self._wanted.end:
            del records[bisect_left(records, self._wanted.end, key=lambda r: r.offset) :]
        return records

    async def _poll_once(self, consumer: Consumer) -> tuple[list[ConsumerRecord], int]:
        """Records, and the position after them: markers of transactions move only the latter."""
        records = await consumer.poll(POLL_S)
        return list(records), await consumer.position(self._partition)

    def _out_of_range(self, consumer: SyncConsumer) -> None:
        """Go on where the log still has records of the range, if losing the rest is allowed."""
        first, last = consumer.run(self._ends)
        lost = f"{self._partition}: offset {self._position} is gone, the log has {first} to {last}"
        if self._options.is_fatal_to_lose:
            raise DataLoss(f"{lost}. With failOnDataLoss=false reading goes on without it.")
        log.warning("%s", lost)
        is_behind = self._position < first
        self._position = min(first, self._wanted.end) if is_behind else self._wanted.end
        consumer.seek(self._partition, self._position)

    async def _ends(self, consumer: Consumer) -> tuple[int, int]:
        partition: TopicPartition = self._partition
        first = await consumer.beginning_offsets([partition])
        last = await consumer.end_offsets([partition])
        return first.get(partition, EARLIEST), last.get(partition, LATEST)

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._options.poll_timeout_ms / 1000

    def _nothing_comes(self) -> str:
        return (
            f"{self._partition}: nothing came from offset {self._position} on for "
            f"{self._options.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs), though the log "
            f"reached {self._wanted.end}"
        )
