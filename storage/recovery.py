"""Opening a log, whatever state its directory is in.

After a clean stop the files are believed and only the last few batches are looked at. Otherwise,
or when that look finds damage, every segment from the recovery point on is read and checked:

- a bad batch at or above the recovery point was never promised to anyone: the log is cut there;
- a bad batch below it was on disk once, and something broke it. If good batches follow, it stays
  where it is and its offsets are kept in `Log.damage`, so that readers get CORRUPT_MESSAGE and not
  a log that silently lacks records. If nothing good follows it is a damaged tail, and cut.

In the same pass indexes, aborted-transaction indexes, leader epochs and producer state are made
again. Nothing in a directory's contents makes `open_log` raise; OSError passes through.

Reading everything takes as long as the disk needs: call it in a thread.
"""

import logging
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from odradek.protocol.clock import Clock
from odradek.protocol.errors import KafkaError, ProtocolError
from odradek.protocol.records import NO_LEADER_EPOCH, BatchHeader
from odradek.protocol.types import TopicPartition
from odradek.storage.batch_file import Located
from odradek.storage.epochs import EpochEntry, LeaderEpochs
from odradek.storage.files import Files
from odradek.storage.loading import load_segments, mend_indexes
from odradek.storage.log import Log
from odradek.storage.log_config import LogConfig
from odradek.storage.log_parts import LogParts
from odradek.storage.log_reading import replay
from odradek.storage.producer_state import ProducerStates
from odradek.storage.segment import MAX_RELATIVE_OFFSET, Segment
from odradek.storage.segments import Segments

_log = logging.getLogger(__name__)


class LogOpening(NamedTuple):
    """All that is known of a log before its directory is looked at."""

    topic_partition: TopicPartition
    directory: str
    files: Files
    clock: Clock
    random: Random
    config: LogConfig
    producer_expiration_ms: int
    on_failure: Callable[[OSError], None]
    is_clean: bool = False
    recovery_point: int = 0  # as checkpointed, like the next
    log_start_offset: int = 0


def open_log(opening: LogOpening) -> Log:
    opener = _Opener(opening)
    if not (opening.is_clean and opener.believe_files()):
        opener.recover()
    return opener.log()


class _Opener:
    """A log being put together."""

    def __init__(self, opening: LogOpening) -> None:
        self._opening = opening
        self._found = load_segments(opening.files, opening.directory, opening.config)
        self._segments = Segments(
            opening.directory,
            [found.segment for found in self._found],
            files=opening.files,
            clock=opening.clock,
            random=opening.random,
            config=opening.config,
        )
        if not len(self._segments):
            self._segments.create(opening.log_start_offset)
        self._epochs = LeaderEpochs(opening.directory, files=opening.files)
        self._producers = ProducerStates(
            opening.directory, files=opening.files, expiration_ms=opening.producer_expiration_ms
        )
        self._producers.snapshots.remove_stray([s.base_offset for s in self._segments])
        self._log_end = self._segments.active.base_offset
        self._recovery_point = opening.recovery_point
        self._damage: list[range] = []
        # What the epoch history said of the part that is scanned: believed where it fits.
        self._recorded_epochs: list[EpochEntry] = []

    def log(self) -> Log:
        opening = self._opening
        if opening.log_start_offset > self._log_end:
            self._start_over(opening.log_start_offset)
        log_start = self._log_start()
        self._epochs.truncate_from_end(self._log_end)
        self._epochs.truncate_from_start(log_start)
        self._segments.release()
        return Log(
            LogParts(
                topic_partition=opening.topic_partition,
                directory=opening.directory,
                files=opening.files,
                clock=opening.clock,
                segments=self._segments,
                epochs=self._epochs,
                producers=self._producers,
                log_start_offset=log_start,
                log_end_offset=self._log_end,
                recovery_point=min(self._recovery_point, self._log_end),
                damage=self._damage,
                on_failure=opening.on_failure,
            )
        )

    def _log_start(self) -> int:
        return max(self._opening.log_start_offset, self._segments.first.base_offset)

    def _start_over(self, offset: int) -> None:
        """All that is left was deleted on request, and what came after it is lost. Offsets that
        were given once must not be given again."""
        where = self._opening.directory
        _log.error("%s ends at %d, below its log start %d", where, self._log_end, offset)
        self._segments.discard(list(self._segments))
        self._segments.create(offset)
        self._epochs.clear()
        self._producers.start_at(offset)
        self._log_end = offset
        self._damage.clear()

    # After a clean stop ---------------------------------------------------------------------

    def believe_files(self) -> bool:
        """Look at no more than the tail; False when that is not as a clean stop leaves it."""
        for found in self._found:
            mend_indexes(found)
        try:
            self._log_end = self._recovery_point = self._segments.active.next_offset()
            self._find_epochs(self._log_end)
            self._load_producers(self._log_end)
        except (KafkaError, ProtocolError) as error:
            where = self._opening.directory
            _log.error("%s is damaged although it was stopped cleanly: %s", where, error)
            return False
        return self._first_bad_txn_index() is None

    def _first_bad_txn_index(self) -> Segment | None:
        for segment, _, has_transactions in self._found:
            if has_transactions:
                problem = segment.transactions.sanity_check(segment.base_offset)
                if problem is not None:
                    _log.warning("Making an index of aborted transactions again: %s", problem)
                    return segment
        return None

    def _find_epochs(self, end: int) -> None:
        """Make a missing or damaged leader epoch history again, from the batches below `end`."""
        if self._epochs.damage:
            _log.warning("Making the leader epochs again: %s", self._epochs.damage)
            self._epochs.clear()
        if self._epochs.entries:
            return
        for header in self._headers_below(end):
            if header.leader_epoch < 0:
                return  # written without epochs
            self._note_epoch(header)

    def _headers_below(self, end: int) -> Iterator[BatchHeader]:
        for segment in self._segments:
            if segment.base_offset >= end:
                return
            for _, header in segment.batches.headers():
                if header.base_offset >= end:
                    return
                yield header

    def _note_epoch(self, header: BatchHeader) -> None:
        if header.leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(header.leader_epoch, header.base_offset)

    def _load_producers(self, end: int) -> None:
        """Producer state as of `end`: the last snapshot and the batches behind it."""
        producers = self._producers
        start = min(self._log_start(), end)
        producers.truncate_and_reload(start, end, self._opening.clock.now_ms())
        for header, batch in replay(self._segments, producers.map_end_offset, end):
            producers.apply(header, batch)

    # After any other ------------------------------------------------------------------------

    def recover(self) -> None:
        """Check everything from the recovery point on, and cut off what is no good."""
        bad_index = self._first_bad_txn_index()
        start = self._opening.recovery_point
        if bad_index is not None:
            start = min(start, bad_index.base_offset)
        suspects = self._segments.reaching(start)
        self._prepare(suspects[0].base_offset)
        for number, segment in enumerate(suspects):
            later = suspects[number + 1 :]
            scan = _Scan(segment, self._recovery_point, later[0].base_offset if later else None)
            is_whole = self._recover_segment(scan)
            if not is_whole:
                self._segments.discard(later)
                break
            if later:
                # Named by the next segment even if compaction left a gap before it.
                self._producers.map_end_offset = later[0].base_offset
                self._producers.take_snapshot()

    def _prepare(self, start: int) -> None:
        """Bring indexes, epochs and producers to where the scan begins."""
        for found in self._found:
            if found.segment.base_offset < start:
                mend_indexes(found)
        self._log_end = start
        try:
            self._find_epochs(start)
            self._recorded_epochs = self._epochs.entries
            self._epochs.truncate_from_end(start)
            self._load_producers(start)
        except (KafkaError, ProtocolError) as error:
            # Damage further down than we are about to look. It stays, for readers to be told of.
            _log.error("%s is damaged below offset %d: %s", self._opening.directory, start, error)
            self._producers.start_at(start)

    def _recover_segment(self, scan: "_Scan") -> bool:
        """Whether the segment was good to its end."""
        segment = scan.segment
        _log.info("Recovering %s", segment)
        segment.transactions.reset()
        segment.index_batches(self._followed(scan))
        is_whole = scan.end_position == segment.size
        if not is_whole:
            _log.warning(
                "Cutting %s from %d to %d bytes: no good batch there",
                segment.batches.path,
                segment.size,
                scan.end_position,
            )
            segment.batches.cut(scan.end_position)
        segment.release()
        self._damage += scan.damage
        self._log_end = scan.expected
        return is_whole

    def _recall_epochs(self, header: BatchHeader, *, at_least: int) -> None:
        """Compaction may have taken the first records of an epoch, or all of them. Where such an
        epoch began is known from the history alone, if that fits into the gap before a batch."""
        for epoch, start in self._recorded_epochs:
            is_next = self._epochs.latest_epoch < epoch <= header.leader_epoch
            if is_next and at_least <= start <= header.base_offset:
                self._epochs.assign(epoch, start)

    def _followed(self, scan: "_Scan") -> Iterator[tuple[int, BatchHeader]]:
        """The good batches, each followed by epochs and producer state on its way."""
        for position, header, data in scan.batches():
            if header.leader_epoch > self._epochs.latest_epoch:
                self._recall_epochs(header, at_least=scan.expected)
                self._note_epoch(header)
            try:
                aborted = self._producers.apply(header, data)
            except ProtocolError as error:
                _log.error("Control batch at offset %d: %s", header.base_offset, error)
                aborted = None
            if aborted is not None:
                scan.segment.transactions.append(aborted)
            yield position, header


class _Scan:
    """The good batches of one segment, and where they end."""

    def __init__(self, segment: Segment, recovery_point: int, next_base: int | None) -> None:
        self.segment = segment
        self.expected = segment.base_offset  # the offset the next batch may have at least
        self.end_position = 0
        self.damage: list[range] = []
        self._recovery_point = recovery_point
        self._next_base = next_base
        self._leader_epoch = NO_LEADER_EPOCH

    def batches(self) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        while True:
            for batch in self.segment.batches.valid_batches(self.end_position):
                if not self._continues(batch.header):
                    break
                yield batch
                self.expected = batch.header.next_offset
                self._leader_epoch = batch.header.leader_epoch
                self.end_position = batch.position + batch.header.size_bytes
            if self.end_position == self.segment.size or not self._skip_damage():
                return

    @property
    def _limit(self) -> int:
        if self._next_base is not None:
            return self._next_base
        return self.segment.base_offset + MAX_RELATIVE_OFFSET

    def _continues(self, header: BatchHeader) -> bool:
        if self.expected >= self._recovery_point and header.leader_epoch < self._leader_epoch:
            # Epochs never go back: these are bytes from before a truncation that was not synced.
            return False
        return (
            header.base_offset >= self.expected
            and header.last_offset_delta >= 0
            and header.last_offset < self._limit
        )

    def _skip_damage(self) -> bool:
        """Pass over broken bytes that must not be cut off; False when they may be."""
        if self.expected >= self._recovery_point:
            return False
        good = self.segment.batches.next_valid_batch(
            self.end_position, at_least=self.expected, below=self._limit
        )
        if good is not None:
            stop, resume = good.header.base_offset, good.position
        elif self._next_base is not None:
            stop, resume = self._next_base, self.segment.size
        else:
            return False
        _log.error(
            "%s is damaged from position %d to %d: offsets %d to %d cannot be read",
            self.segment.batches.path,
            self.end_position,
            resume,
            self.expected,
            stop - 1,
        )
        size_bytes = resume - self.end_position
        hole = Located(self.end_position, size_bytes, self.expected, stop - 1)
        self.segment.batches.note_hole(hole)
        self.damage.append(range(self.expected, stop))
        self.expected, self.end_position = stop, resume
        return True
