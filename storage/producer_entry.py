"""What is remembered of one producer, and the rules by which its next batch is judged.

See `producer_state`, whose entries these are. A producer's last five batches are kept, because
clients have at most five requests in flight and may repeat any of them.
"""

from typing import NamedTuple

from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import NO_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader
from odradek.storage.producer_snapshots import SnapshotEntry

BATCHES_KEPT = 5
NO_COORDINATOR_EPOCH = -1
NO_OFFSET = -1
_SEQUENCES = 1 << 31


class BatchMetadata(NamedTuple):
    """Where a batch went: the answer to its repetition."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % _SEQUENCES

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class LastRecord(NamedTuple):
    """What compaction must leave of a producer: its last data batch or, without one, a marker
    that carries its epoch."""

    last_data_offset: int | None
    epoch: int


class ProducerEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[BatchMetadata] = []
        self.next_sequence = 0
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = -1
        self.txn_first_offset = NO_OFFSET

    def add(self, batch: BatchMetadata) -> None:
        batches = self.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) % _SEQUENCES
        self.last_timestamp = batch.timestamp

    def move_to_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

    def repeated(self, header: BatchHeader) -> BatchMetadata | None:
        first, last = header.base_sequence, header.last_sequence
        for batch in reversed(self.batches):
            if batch.last_sequence == last and batch.first_sequence == first:
                return batch
        return None

    def to_snapshot(self) -> SnapshotEntry:
        last = self.batches[-1] if self.batches else BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, -1)
        return SnapshotEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.txn_first_offset,
        )

    @classmethod
    def from_snapshot(cls, row: SnapshotEntry) -> "ProducerEntry":
        entry = cls(row.producer_id, row.epoch)
        if row.last_offset >= 0:
            batch = (row.last_sequence, row.last_offset, row.offset_delta, row.timestamp)
            entry.add(BatchMetadata._make(batch))
        entry.last_timestamp = row.timestamp
        entry.coordinator_epoch = row.coordinator_epoch
        entry.txn_first_offset = row.txn_first_offset
        return entry


def refuse_older_epoch(entry: ProducerEntry, header: BatchHeader) -> None:
    if header.producer_epoch < entry.epoch:
        raise KafkaError(
            Errors.INVALID_PRODUCER_EPOCH,
            f"producer {entry.producer_id} is at epoch {entry.epoch}, "
            f"the batch has {header.producer_epoch}",
        )


def refuse_unless_a_new_epoch_starts(entry: ProducerEntry, header: BatchHeader) -> None:
    """The batch does not continue the sequence: only the first one of a new epoch may do that."""
    refuse_older_epoch(entry, header)
    if header.producer_epoch > entry.epoch and header.base_sequence == 0:
        return
    expected = entry.next_sequence if header.producer_epoch == entry.epoch else 0
    raise KafkaError(
        Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {entry.producer_id} of epoch {header.producer_epoch} sent sequence "
        f"{header.base_sequence} where {expected} was due",
    )


def refuse_repeat_of_an_ended_transaction(
    entry: ProducerEntry, header: BatchHeader, repeated: BatchMetadata
) -> None:
    """A client ends a transaction when all of its batches are answered, or gives them up with it.

    So this is no repetition: librdkafka, for one, uses the sequence of a batch again whose answer
    it has not got when it aborts. To answer with the place of the first, which is aborted, would
    lose the second.
    """
    is_open = 0 <= entry.txn_first_offset <= repeated.base_offset
    if header.attributes & TRANSACTIONAL_BIT and not is_open:
        raise KafkaError(
            Errors.UNKNOWN_PRODUCER_ID,
            f"producer {entry.producer_id} sent sequence {header.base_sequence} again, "
            "whose transaction has ended",
        )


def refuse_outside_transaction(entry: ProducerEntry, header: BatchHeader) -> None:
    if entry.txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL_BIT:
        raise KafkaError(
            Errors.INVALID_TXN_STATE,
            f"producer {entry.producer_id} has an open transaction; the batch is not part of it",
        )
