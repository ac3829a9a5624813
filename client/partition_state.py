"""One assigned partition of a consumer: where it is, and what has been fetched ahead of that.

`position` is the next offset the application gets; `fetch_offset` the next one to ask a broker for.
Between the two lie batches as they came from the wire, taken apart one at a time when records are
wanted. Whatever moves the position (a seek, a reset, a truncation) drops them and starts a new
`era`, by which answers to older fetches are recognized.

Hot code: `next_records`. Records of a batch become ConsumerRecords in one loop.
"""

from collections import deque
from itertools import repeat
from typing import NamedTuple

from odradek.client.record_columns import read_columns
from odradek.client.record_runs import read_run
from odradek.client.values import ConsumerRecord, Deserializer, as_bytes
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.fetch import FetchAbortedTransaction
from odradek.protocol.records import (
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    ReadableBuffer,
    check_crc,
    iter_body,
    iter_records,
    read_body,
    read_end_txn_marker,
)
from odradek.protocol.types import TopicPartition

NO_POSITION = -1
NO_EPOCH = -1
# Far from the ends of 64 bits, whatever a record adds to it.
LAST_USUAL_TIME = 1 << 62


class FetchedBatch(NamedTuple):
    data: ReadableBuffer
    at: int
    header: BatchHeader


class Filter:
    """Which batches of a fetch belong to aborted transactions.

    A broker lists (producer, first offset) of each aborted transaction in what it returns; from its
    first offset on, everything transactional of that producer is void, up to the abort marker.
    """

    __slots__ = ("_aborted", "_void")

    def __init__(self, aborted: list[FetchAbortedTransaction]) -> None:
        self._aborted = deque(sorted(aborted, key=lambda row: row.first_offset))
        self._void: set[int] = set()

    def drops(self, batch: FetchedBatch) -> bool:
        header = batch.header
        while self._aborted and self._aborted[0].first_offset <= header.last_offset:
            self._void.add(self._aborted.popleft().producer_id)
        if header.is_control:
            for record in iter_records(batch.data, batch.at, header):
                marker = read_end_txn_marker(record)
                if marker is not None and not marker.commit:
                    self._void.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._void


class Fetched(NamedTuple):
    batches: deque[FetchedBatch]
    filter: Filter | None


class PartitionState:
    __slots__ = (
        "buffered_bytes",
        "end",
        "end_epoch",
        "era",
        "error",
        "fetch_after",
        "fetch_offset",
        "fetched",
        "high_watermark",
        "is_paused",
        "last_stable_offset",
        "log_start_offset",
        "needs_validation",
        "partition",
        "position",
        "position_epoch",
        "preferred_replica",
        "preferred_until",
        "ready",
        "reset_to",
        "validated_epoch",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position = NO_POSITION
        # The leader epoch of the last record before the position: what a truncation is told by.
        self.position_epoch = NO_EPOCH
        self.fetch_offset = NO_POSITION
        self.fetch_after = 0.0
        self.era = 0
        # Taken apart and not yet handed out; the position after the last of them.
        self.ready: deque[ConsumerRecord] = deque()
        self.end = NO_POSITION
        self.end_epoch = NO_EPOCH
        self.fetched: deque[Fetched] = deque()
        self.buffered_bytes = 0
        self.is_paused = False
        # A timestamp (or -1, -2 for the ends) to look the position up by.
        self.reset_to: int | None = None
        self.needs_validation = False
        self.validated_epoch = NO_EPOCH
        self.preferred_replica = -1
        self.preferred_until = 0.0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.error: KafkaError | None = None

    @property
    def has_position(self) -> bool:
        return self.position != NO_POSITION and self.reset_to is None

    @property
    def has_data(self) -> bool:
        return bool(self.ready or self.fetched)

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        self.position = self.fetch_offset = offset
        self.position_epoch = epoch
        self.reset_to = None
        self.needs_validation = epoch != NO_EPOCH
        self.validated_epoch = NO_EPOCH
        self._drop()

    def reset(self, timestamp: int) -> None:
        """Have the position looked up; until then there is none."""
        self.reset_to = timestamp
        self._drop()

    def _drop(self) -> None:
        self.era += 1
        self.ready.clear()
        self.fetched.clear()
        self.buffered_bytes = 0
        self.error = None
        self.preferred_replica = -1

    def add(
        self, batches: list[FetchedBatch], aborted: list[FetchAbortedTransaction] | None
    ) -> None:
        """Keep what was fetched from `fetch_offset` on."""
        chosen = Filter(aborted) if aborted else None
        self.fetched.append(Fetched(deque(batches), chosen))
        self.fetch_offset = batches[-1].header.next_offset
        self.buffered_bytes += sum(batch.header.size_bytes for batch in batches)

    def prepare(self, settings: "ReadSettings") -> bool:
        """Take batches apart until some records are ready; whether there are any."""
        while not self.ready and self.fetched:
            fetched = self.fetched[0]
            batch = fetched.batches.popleft()
            if not fetched.batches:
                self.fetched.popleft()
            header = batch.header
            self.buffered_bytes -= header.size_bytes
            if settings.check_crcs:
                check_crc(batch.data, batch.at, header)
            self.end, self.end_epoch = header.next_offset, header.leader_epoch
            drops = fetched.filter.drops(batch) if fetched.filter else header.is_control
            if not drops and header.count:
                self.ready.extend(self._records(batch, settings))
            if not self.ready:
                self.finish_batch()
        return bool(self.ready)

    def _records(self, batch: FetchedBatch, settings: "ReadSettings") -> list[ConsumerRecord]:
        header = batch.header
        body = read_body(batch.data, batch.at, header)
        records = None
        if has_usual_times(header):
            records = self._alike(body, header) or self._simple(body, header)
        if records is None:
            records = self._unlike(body, header)
        if header.base_offset < self.position:
            records = [record for record in records if record.offset >= self.position]
        if settings.key is as_bytes and settings.value is as_bytes:
            return records
        return [
            record._replace(
                key=settings.key(record.key),  # type: ignore[arg-type]
                value=settings.value(record.value),  # type: ignore[arg-type]
            )
            for record in records
        ]

    def _alike(self, body: bytes, header: BatchHeader) -> list[ConsumerRecord] | None:
        """The records if they come in runs of one shape."""
        topic, index = self.partition
        base_time, epoch = header.base_timestamp, header.leader_epoch
        new, kind = tuple.__new__, ConsumerRecord
        records: list[ConsumerRecord] = []
        position = delta = 0
        while delta < header.count:
            run = read_run(body, position, delta, header.count - delta)
            if run is None:
                return None
            first = header.base_offset + delta
            rows = zip(range(first, first + run.size), run.times, run.contents, strict=True)
            if run.has_key:
                records += [
                    new(kind, (topic, index, o, base_time + t, key, value, (), epoch, False))
                    for o, t, (key, value) in rows
                ]
            else:
                records += [
                    new(kind, (topic, index, o, base_time + t, None, value, (), epoch, False))
                    for o, t, (value,) in rows
                ]
            position = run.end
            delta += run.size
        return records if position == len(body) else None

    def _simple(self, body: bytes, header: BatchHeader) -> list[ConsumerRecord] | None:
        """The records if they have no keys and nothing unusual."""
        columns = read_columns(body, header)
        if columns is None:
            return None
        topic, index = self.partition
        first = header.base_offset
        rows = zip(
            repeat(topic),
            repeat(index),
            range(first, first + header.count),
            columns.timestamps,
            repeat(None),
            columns.values,
            repeat(()),
            repeat(header.leader_epoch),
            repeat(False),
            strict=False,
        )
        return list(map(tuple.__new__, repeat(ConsumerRecord), rows))

    def _unlike(self, body: bytes, header: BatchHeader) -> list[ConsumerRecord]:
        """The records one by one; raises ProtocolError for what cannot be read."""
        topic, index = self.partition
        epoch = header.leader_epoch
        is_append_time = header.attributes & LOG_APPEND_TIME_BIT != 0
        new, kind = tuple.__new__, ConsumerRecord
        return [
            new(kind, (topic, index, offset, time, key, value, headers, epoch, is_append_time))
            for offset, time, key, value, headers in iter_body(body, header)
        ]

    def finish_batch(self) -> None:
        """The position after the batch: past gaps, markers and void records at its end."""
        self.position = max(self.position, self.end)
        self.position_epoch = self.end_epoch

    def take(self, most: int) -> list[ConsumerRecord]:
        """Up to `most` ready records; the position moves past them."""
        ready = self.ready
        if len(ready) <= most:
            taken = list(ready)
            ready.clear()
            self.finish_batch()
            return taken
        taken = [ready.popleft() for _ in range(most)]
        self.position = taken[-1].offset + 1
        self.position_epoch = self.end_epoch
        return taken


def has_usual_times(header: BatchHeader) -> bool:
    """Whether records have times of their own, which can be added up without a look."""
    return abs(header.base_timestamp) < LAST_USUAL_TIME and not (
        header.attributes & LOG_APPEND_TIME_BIT
    )


class ReadSettings(NamedTuple):
    """How records are read."""

    check_crcs: bool = True
    key: Deserializer = as_bytes
    value: Deserializer = as_bytes
