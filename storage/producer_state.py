"""What a log remembers of the producers that wrote to it.

For each producer id: its epoch, its last five batches, the epoch of the transaction coordinator
that wrote its last marker, and the first offset of its open transaction. From that follow

- idempotence: the next batch must continue the sequence (2^31 - 1 is followed by 0); one that
  repeats any of the five answers with the offsets it got the first time, unless its transaction
  has ended since;
- fencing: an older producer or coordinator epoch is refused;
- transactions: which are open, and which have ended but whose marker is not yet below the high
  watermark. The earliest first offset of both kinds bounds what read_committed may see.

`check*` decides and changes nothing; `update*` follows once the batch is in the log, on leaders,
on followers and in recovery alike, so that every replica can take over. A producer that is not
known here (expired, or its records deleted) may continue with any sequence. State survives in
snapshots (`producer_snapshots`); what is missing from them is replayed from the batches. They do
not say which ended transactions had their marker above the high watermark: after a restart such
a one counts as stable, which is safe because its outcome is decided for good.

Whether a producer's transaction has to be verified with its coordinator before the first batch
is the caller's question: `has_open_transaction` answers it.

One owner: the log. An in-order check takes 0.2 µs and an update 1.5 µs
(benchmarks/producer_state.py).
"""

from collections.abc import Iterable

from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    EndTxnMarker,
    ReadableBuffer,
    iter_records,
    read_end_txn_marker,
)
from odradek.storage.aborted import AbortedTxn
from odradek.storage.files import Files
from odradek.storage.producer_entry import (
    NO_OFFSET,
    BatchMetadata,
    LastRecord,
    ProducerEntry,
    refuse_older_epoch,
    refuse_outside_transaction,
    refuse_repeat_of_an_ended_transaction,
    refuse_unless_a_new_epoch_starts,
)
from odradek.storage.producer_snapshots import SnapshotEntry, Snapshots

__all__ = ["BatchMetadata", "LastRecord", "ProducerEntry", "ProducerStates"]


class ProducerStates:
    def __init__(self, directory: str, *, files: Files, expiration_ms: int) -> None:
        """Nothing is loaded yet: truncate_and_reload() does that."""
        self.expiration_ms = expiration_ms
        self.snapshots = Snapshots(directory, files=files)
        self._entries: dict[int, ProducerEntry] = {}
        # first offset -> producer id; appended in offset order, so the first key is the smallest.
        self._open: dict[int, int] = {}
        # first offset -> marker offset of transactions whose marker may not be replicated yet.
        self._unreplicated: dict[int, int] = {}
        self._first_unstable: int | None = None
        self._snapshot_offset = 0
        # One past the last batch whose effect is included.
        self.map_end_offset = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def entries(self) -> Iterable[ProducerEntry]:
        return self._entries.values()

    # Deciding -------------------------------------------------------------------------------

    def check(self, header: BatchHeader) -> BatchMetadata | None:
        """May this batch of a client be appended? Raises if not. When it repeats an earlier
        batch, that one's place is returned and nothing is to be appended."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        if header.base_sequence != entry.next_sequence or header.producer_epoch != entry.epoch:
            if header.producer_epoch == entry.epoch and (repeated := entry.repeated(header)):
                refuse_repeat_of_an_ended_transaction(entry, header, repeated)
                return repeated
            refuse_unless_a_new_epoch_starts(entry, header)
        if entry.txn_first_offset >= 0:
            refuse_outside_transaction(entry, header)
        return None

    def check_internal(self, header: BatchHeader) -> None:
        """The same for data that a coordinator in this broker writes in a client's name: it has
        no sequence, but it is fenced by epoch."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return
        refuse_older_epoch(entry, header)
        refuse_outside_transaction(entry, header)

    def check_marker(self, header: BatchHeader, marker: EndTxnMarker) -> None:
        """May this marker be written by the coordinator that asks for it?"""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return
        refuse_older_epoch(entry, header)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                Errors.TRANSACTION_COORDINATOR_FENCED,
                f"producer {entry.producer_id} has a marker of coordinator epoch "
                f"{entry.coordinator_epoch}, this one has {marker.coordinator_epoch}",
            )

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self._entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    # Following the log ----------------------------------------------------------------------

    def update(self, header: BatchHeader) -> None:
        """A data batch, of an idempotent producer or not, is in the log.

        Also right for a control batch that compaction has emptied: its transaction is gone.
        """
        base_offset, delta = header.base_offset, header.last_offset_delta
        last_offset = base_offset + delta
        self.map_end_offset = last_offset + 1
        producer_id = header.producer_id
        if producer_id < 0 or header.attributes & CONTROL_BIT:
            return
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        elif header.producer_epoch != entry.epoch:
            entry.move_to_epoch(header.producer_epoch)
        entry.add(BatchMetadata(header.last_sequence, last_offset, delta, header.max_timestamp))
        if entry.txn_first_offset < 0 and header.attributes & TRANSACTIONAL_BIT:
            entry.txn_first_offset = base_offset
            self._open[base_offset] = producer_id
            if self._first_unstable is None:
                self._first_unstable = base_offset

    def update_marker(self, header: BatchHeader, marker: EndTxnMarker) -> AbortedTxn | None:
        """A transaction marker is in the log. Returns what the segment's index has to note."""
        producer_id, offset = header.producer_id, header.base_offset
        self.map_end_offset = header.next_offset
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        entry.move_to_epoch(header.producer_epoch)
        entry.coordinator_epoch = max(entry.coordinator_epoch, marker.coordinator_epoch)
        entry.last_timestamp = header.max_timestamp
        first_offset = entry.txn_first_offset
        if first_offset < 0:
            return None  # it ended a transaction that wrote nothing here
        entry.txn_first_offset = NO_OFFSET
        del self._open[first_offset]
        self._unreplicated[first_offset] = offset
        self._find_first_unstable()
        if marker.commit:
            return None
        stable = next(iter(self._open), offset + 1)
        return AbortedTxn(producer_id, first_offset, offset, stable)

    def apply(self, header: BatchHeader, batch: ReadableBuffer) -> AbortedTxn | None:
        """Follow a batch whatever it is, as followers and recovery do."""
        if header.attributes & CONTROL_BIT and header.count > 0:
            marker = read_end_txn_marker(next(iter_records(batch, 0, header)))
            if marker is not None:
                return self.update_marker(header, marker)
        self.update(header)
        return None

    def _find_first_unstable(self) -> None:
        # Open transactions are in offset order, ended ones in the order of their markers.
        candidates = [*self._unreplicated, *([next(iter(self._open))] if self._open else [])]
        self._first_unstable = min(candidates, default=None)

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the earliest transaction without a marker begins."""
        return next(iter(self._open), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest transaction begins that is open or ended above the high watermark
        last given to last_stable_offset()."""
        return self._first_unstable

    def last_stable_offset(self, high_watermark: int) -> int:
        """How far read_committed may read. Forgets ended transactions whose marker is now below
        the high watermark."""
        if self._unreplicated:
            self._forget_replicated(high_watermark)
        first = self._first_unstable
        return high_watermark if first is None or first > high_watermark else first

    def _forget_replicated(self, high_watermark: int) -> None:
        done = [first for first, marker in self._unreplicated.items() if marker < high_watermark]
        for first in done:
            del self._unreplicated[first]
        if done:
            self._find_first_unstable()

    def expire(self, now_ms: int) -> int:
        """Forget producers that have been silent too long; returns how many."""
        expired = [entry for entry in self._entries.values() if self._is_expired(entry, now_ms)]
        for entry in expired:
            del self._entries[entry.producer_id]
        return len(expired)

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        is_silent = now_ms - entry.last_timestamp >= self.expiration_ms
        return is_silent and entry.txn_first_offset < 0

    def last_records(self) -> dict[int, LastRecord]:
        """For compaction: what must stay of each known producer."""
        return {
            entry.producer_id: LastRecord(
                entry.batches[-1].last_offset if entry.batches else None, entry.epoch
            )
            for entry in self._entries.values()
        }

    # Snapshots ------------------------------------------------------------------------------

    def take_snapshot(self, *, sync: bool = False) -> None:
        """Write the state as of map_end_offset, if it moved since the last one.

        Without `sync` a power cut may damage the file, which is noticed when it is read.
        """
        if self.map_end_offset > self._snapshot_offset:
            rows = [entry.to_snapshot() for entry in self._entries.values()]
            self.snapshots.write(self.map_end_offset, rows, sync=sync)
            self._snapshot_offset = self.map_end_offset

    def truncate_and_reload(self, log_start: int, log_end: int, now_ms: int) -> None:
        """Fit the state to a log that now spans [log_start, log_end). The caller then replays
        the batches from map_end_offset on."""
        self.snapshots.remove_outside(log_start - 1, log_end)
        if self.map_end_offset == log_end and self.map_end_offset > 0:
            self.advance_log_start(log_start)
            return
        self._forget_all()
        self.map_end_offset = self._snapshot_offset = log_start
        if (latest := self.snapshots.load_latest()) is not None:
            self.map_end_offset, rows = latest
            self._snapshot_offset = self.map_end_offset
            self._load(rows, now_ms)

    def _load(self, rows: list[SnapshotEntry], now_ms: int) -> None:
        for entry in map(ProducerEntry.from_snapshot, rows):
            if not self._is_expired(entry, now_ms):
                self._entries[entry.producer_id] = entry
        opened = [e for e in self._entries.values() if e.txn_first_offset >= 0]
        opened.sort(key=lambda entry: entry.txn_first_offset)
        self._open = {entry.txn_first_offset: entry.producer_id for entry in opened}
        self._find_first_unstable()

    def advance_log_start(self, log_start: int) -> None:
        """Records below `log_start` are gone; ended transactions below it are of no concern."""
        self._forget_replicated(log_start)
        self.map_end_offset = max(self.map_end_offset, log_start)
        self._snapshot_offset = max(self.snapshots.offsets, default=log_start)

    def start_at(self, offset: int) -> None:
        """The log was emptied and goes on at `offset`."""
        self._forget_all()
        self.snapshots.remove_outside(-1, -1)
        self.map_end_offset = self._snapshot_offset = offset

    def _forget_all(self) -> None:
        self._entries.clear()
        self._open.clear()
        self._unreplicated.clear()
        self._first_unstable = None
