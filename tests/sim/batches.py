"""The batches of a log as a story looks at them, and what became of those in transactions.

Whether a transactional batch counts is told by the log alone: the next marker of its producer says
so. That is all a reader goes by, so it is all that is looked at here; what a broker makes of it,
its last stable offset and its list of aborted transactions, is held against it.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from odradek.protocol.batch_header import BatchHeader, ReadableBuffer, iter_headers
from odradek.protocol.records import iter_records, read_end_txn_marker


class Kind(Enum):
    PLAIN = auto()
    TRANSACTIONAL = auto()
    COMMIT = auto()
    ABORT = auto()

    @property
    def is_marker(self) -> bool:
        return self in (Kind.COMMIT, Kind.ABORT)


class Batch(NamedTuple):
    base: int
    last: int
    epoch: int
    crc: int
    # Every batch that a producer of a story sends has a timestamp of its own, by which it is known.
    mark: int
    producer_id: int
    kind: Kind


class Read(NamedTuple):
    """A batch and where it lies in what was read."""

    position: int
    header: BatchHeader
    batch: Batch


def iter_batches(data: ReadableBuffer) -> Iterator[Read]:
    for position, header in iter_headers(data):
        batch = Batch(
            header.base_offset,
            header.last_offset,
            header.leader_epoch,
            header.crc,
            header.base_timestamp,
            header.producer_id,
            _kind(data, position, header),
        )
        yield Read(position, header, batch)


def _kind(data: ReadableBuffer, position: int, header: BatchHeader) -> Kind:
    if header.is_control:
        marker = read_end_txn_marker(next(iter_records(data, position, header)))
        assert marker is not None, "all control batches of a story end transactions"
        return Kind.COMMIT if marker.commit else Kind.ABORT
    return Kind.TRANSACTIONAL if header.is_transactional else Kind.PLAIN


class Fates:
    """What became of transactional batches, known by their base offsets, in a list of batches that
    only grows."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches
        self._followed = 0
        self._open: dict[int, list[Batch]] = {}
        self._is_committed: dict[int, bool] = {}

    def follow(self) -> list[Batch]:
        """Look at what was added; gives the markers that ended something."""
        markers = []
        for batch in self._batches[self._followed :]:
            if batch.kind is Kind.TRANSACTIONAL:
                self._open.setdefault(batch.producer_id, []).append(batch)
            elif batch.kind.is_marker and batch.producer_id in self._open:
                markers.append(batch)
                for ended in self._open.pop(batch.producer_id):
                    self._is_committed[ended.base] = batch.kind is Kind.COMMIT
        self._followed = len(self._batches)
        return markers

    def counts(self, batch: Batch) -> bool | None:
        """Whether a read_committed reader is given it; None while that is open."""
        if batch.kind is not Kind.TRANSACTIONAL:
            return batch.kind is Kind.PLAIN
        return self._is_committed.get(batch.base)

    @property
    def first_open(self) -> int | None:
        """Where the first transaction begins that has no marker."""
        return min((batches[0].base for batches in self._open.values()), default=None)

    def opened_by(self, producer_id: int) -> list[Batch]:
        return self._open.get(producer_id, [])
