"""One partition's log: a run of segments that is appended to, read, cut and flushed.

`log_state` tells what its offsets mean.

Owner: one thread (the broker's loop). Nothing here waits for the disk except `close` and `flush`,
which are for the moments before and after the loop runs; `log_flush` tells what happens in between.

The first I/O error fences the log (see `fence`); `on_failure` tells the owner of its directory.

Logs are opened by `recovery.open_log`.
"""

from collections.abc import Sequence

from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import NO_TIMESTAMP, BatchHeader, EndTxnMarker
from odradek.storage import log_reading
from odradek.storage.checkpoints import LEADER_EPOCHS
from odradek.storage.epochs import EpochEnd
from odradek.storage.fence import fencing
from odradek.storage.files import Buffer
from odradek.storage.follower_batches import check_replicated
from odradek.storage.log_flush import Flush
from odradek.storage.log_parts import AppendInfo
from odradek.storage.log_reading import Isolation, ReadLimits, ReadResult, TimestampedOffset
from odradek.storage.log_state import LogState
from odradek.storage.ordinary import read_continuing, read_ordinary, stamp
from odradek.storage.producer_entry import BatchMetadata
from odradek.storage.properties_files import PARTITION_METADATA
from odradek.storage.retention import Deletion, retain
from odradek.storage.segment import Segment
from odradek.storage.txn_markers import NO_MARKERS, read_markers
from odradek.storage.validation import FIRST_VERSION_WITH_ZSTD, Origin, validate_and_stamp

__all__ = ["AppendInfo", "Log"]


class Log(LogState):
    __slots__ = ()

    # Append ---------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        origin: Origin = Origin.CLIENT,
        produce_version: int = FIRST_VERSION_WITH_ZSTD,
    ) -> AppendInfo:
        """Check a produced batch, write its offset and epoch into `records`, and append it."""
        if self.failure is not None:
            raise self.storage_error()
        try:
            if origin in self._takes_ordinary_from:
                appended = self._append_ordinary(records, leader_epoch, origin, produce_version)
                if appended is not None:
                    return appended
            return self._append_checked(records, leader_epoch, origin, produce_version)
        except OSError as error:  # as `fencing` does, without its cost
            self.fail(error)
            raise self.storage_error() from error

    def _append_ordinary(
        self, records: Buffer, leader_epoch: int, origin: Origin, produce_version: int
    ) -> AppendInfo | None:
        """The short way, for one batch as most are; None when it needs the long one."""
        if leader_epoch != self._appended_epoch or isinstance(records, bytes):
            return None
        if produce_version < FIRST_VERSION_WITH_ZSTD:
            return None
        header = read_ordinary(records, self._max_batch_bytes)
        if header is None:
            return None
        first_offset = self.log_end_offset
        last_offset = first_offset + header.last_offset_delta
        if not self.segments.active.has_room(len(records), last_offset, header.max_timestamp):
            return None
        is_tracked = header.producer_id >= 0
        if is_tracked and origin is Origin.COORDINATOR:
            return None
        if is_tracked and (repeated := self.producers.check(header)) is not None:
            return self._repeated(repeated)
        stamp(records, header, first_offset, leader_epoch)
        return self._append_one(records, header, first_offset)

    def _append_one(self, records: Buffer, header: BatchHeader, offset: int) -> AppendInfo:
        """Write a batch that fits, which gets this offset and is no marker."""
        last_offset = offset + header.last_offset_delta
        self.segments.active.append_one(records, offset, last_offset, header.max_timestamp)
        if header.producer_id >= 0:
            self.producers.update(header._replace(base_offset=offset))
        self.log_end_offset = last_offset + 1
        return AppendInfo(offset, last_offset, NO_TIMESTAMP, self.log_start_offset, False, records)

    def _append_checked(
        self, records: Buffer, leader_epoch: int, origin: Origin, produce_version: int
    ) -> AppendInfo:
        header, data, log_append_time_ms = validate_and_stamp(
            records,
            next_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            config=self.segments.config,
            now_ms=self._clock.now_ms(),
            origin=origin,
            produce_version=produce_version,
        )
        headers = (header,)
        markers = NO_MARKERS if origin is Origin.CLIENT else read_markers(data, headers)
        if header.producer_id >= 0:
            repeated = self._check_producer(header, markers, origin)
            if repeated is not None:
                return self._repeated(repeated)
        self._append(data, headers, markers)
        first, last = header.base_offset, self.log_end_offset - 1
        return AppendInfo(first, last, log_append_time_ms, self.log_start_offset, False, data)

    def _check_producer(
        self, header: BatchHeader, markers: dict[int, EndTxnMarker], origin: Origin
    ) -> BatchMetadata | None:
        """The place of the batch that this one repeats; raises when it may not be appended."""
        if origin is Origin.CLIENT:
            return self.producers.check(header)
        if (marker := markers.get(header.base_offset)) is not None:
            self.producers.check_marker(header, marker)
        else:
            self.producers.check_internal(header)
        return None

    def _repeated(self, batch: BatchMetadata) -> AppendInfo:
        timestamp = batch.timestamp if self.config.uses_append_time else NO_TIMESTAMP
        return AppendInfo(
            batch.base_offset, batch.last_offset, timestamp, self.log_start_offset, True
        )

    @fencing
    def append_as_follower(self, records: Buffer) -> AppendInfo | None:
        """Append the whole batches among the leader's bytes as they are; None if there is none."""
        has_room = self.segments.active.has_room
        header = read_continuing(records, self.log_end_offset, self._appended_epoch)
        if header and has_room(len(records), header.last_offset, header.max_timestamp):
            return self._append_one(records, header, header.base_offset)
        is_empty = self.log_start_offset == self.log_end_offset and not self.segments.active.size
        data, headers = check_replicated(records, self.log_end_offset, is_empty=is_empty)
        if not headers:
            return None
        markers = read_markers(data, headers)
        first_offset = headers[0].base_offset
        if first_offset < self.log_end_offset:
            # The leader's first batch straddles its log start, at which this empty log waits.
            self._restart_at(first_offset, log_start=self.log_start_offset)
        self._append(data, headers, markers)
        last_offset = self.log_end_offset - 1
        start = self.log_start_offset
        return AppendInfo(first_offset, last_offset, NO_TIMESTAMP, start, False, data)

    def _append(
        self, data: Buffer, headers: Sequence[BatchHeader], markers: dict[int, EndTxnMarker]
    ) -> None:
        """Everything that follows from batches being good: bytes, epochs, producers, log end."""
        if self.segments.must_roll_for(len(data), headers):
            self._roll(headers[0].base_offset)
        if headers[-1].leader_epoch != self._appended_epoch:
            self._note_epochs(headers)
        segment = self.segments.active
        segment.append(data, headers)
        for header in headers:
            marker = markers.get(header.base_offset)
            if marker is None:
                self.producers.update(header)
            elif (aborted := self.producers.update_marker(header, marker)) is not None:
                segment.transactions.append(aborted)
        self.log_end_offset = headers[-1].next_offset

    def _note_epochs(self, headers: Sequence[BatchHeader]) -> None:
        for header in headers:
            if header.leader_epoch >= 0:
                self.epochs.assign(header.leader_epoch, header.base_offset)
        self._appended_epoch = self.epochs.latest_epoch

    @fencing
    def roll(self) -> None:
        """Begin a new segment at the log end, unless the active one is still empty."""
        if self.segments.active.size:
            self._roll(self.log_end_offset)

    def _roll(self, base_offset: int) -> None:
        if self.segments.active.size:
            self._take_snapshot()
        self.segments.roll(base_offset)

    def _take_snapshot(self) -> None:
        # Behind the last batch of a producer there may be batches of none.
        self.producers.map_end_offset = self.log_end_offset
        self.producers.take_snapshot()

    # Reading --------------------------------------------------------------------------------

    @fencing
    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: Isolation = Isolation.LOG_END,
        min_one_batch: bool = True,
    ) -> ReadResult:
        """Whole batches from `offset` on. With LAST_STABLE also the aborted transactions."""
        bounds = self.bounds()
        log_reading.check_in_range(offset, bounds)
        upper = bounds.upper(isolation)
        if self.damage:
            upper = log_reading.stop_at_damage(offset, upper, self.damage)
        found = None
        if offset < upper:
            limits = ReadLimits(max_bytes, upper, bounds.log_end, min_one_batch)
            found = log_reading.read_batches(self.segments, offset, limits)
        aborted = None
        if isolation is Isolation.LAST_STABLE:
            aborted = []
            if found is not None:
                aborted = log_reading.aborted_transactions(self.segments, offset, found, upper)
        return ReadResult(found.records if found else None, bounds, aborted)

    @fencing
    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record with that timestamp or a later one; the caller knows how far it may
        look."""
        return log_reading.first_at_or_after(self.segments, timestamp, self.bounds())

    @fencing
    def latest_timestamp(self) -> TimestampedOffset | None:
        """The record with the largest timestamp."""
        return log_reading.latest_timestamp(self.segments)

    # Epochs ---------------------------------------------------------------------------------

    @fencing
    def begin_epoch(self, leader_epoch: int) -> None:
        """Become leader: the epoch begins here even before its first batch."""
        self.epochs.assign(leader_epoch, self.log_end_offset)
        self._appended_epoch = None

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # Cutting --------------------------------------------------------------------------------

    @fencing
    def truncate_to(self, offset: int) -> None:
        """Drop everything from `offset` on, and the whole batch that contains it. The log then
        ends with its last batch, even if that leaves a gap below `offset`."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(offset)
            return
        if offset < self.segments.first.base_offset:
            self._restart_at(offset)
            return
        self.segments.discard(self.segments.above(offset))
        end = self.segments.active.truncate_to(offset)
        self.epochs.truncate_from_end(end)
        self._end_at(end)
        self._replay_producers()

    @fencing
    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empty the log; its next record gets `offset`."""
        self._restart_at(offset)

    def _restart_at(self, offset: int, log_start: int | None = None) -> None:
        self.segments.discard(list(self.segments))
        self.segments.create(offset)
        self.epochs.clear()
        self.producers.start_at(offset)
        self._end_at(offset)
        self.log_start_offset = offset if log_start is None else log_start
        self.high_watermark = self.log_start_offset

    def _end_at(self, offset: int) -> None:
        self.shape += 1
        self._appended_epoch = None
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.damage = [broken for broken in self.damage if broken.start < offset]

    def _replay_producers(self) -> None:
        """Bring the producer state from its last snapshot to the log end."""
        producers, end = self.producers, self.log_end_offset
        producers.truncate_and_reload(self.log_start_offset, end, self._clock.now_ms())
        for header, batch in log_reading.replay(self.segments, producers.map_end_offset, end):
            producers.apply(header, batch)

    @fencing
    def advance_log_start(self, offset: int) -> None:
        """Forget records below `offset`, which must not be above the high watermark."""
        if offset > self.high_watermark:
            raise KafkaError(
                Errors.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is above the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.advance_log_start(offset)

    @fencing
    def apply_retention(self) -> list[Deletion]:
        """Delete the segments that retention and the log start offset leave no use for."""
        decision = retain(
            self.segments.facts(self.log_end_offset),
            config=self.config,
            log_start=self.log_start_offset,
            high_watermark=self.high_watermark,
            now_ms=self._clock.now_ms(),
        )
        if not decision.deletions:
            return []
        if decision.roll_first:
            self._roll(self.log_end_offset)
        doomed = {deletion.base_offset for deletion in decision.deletions}
        self.advance_log_start(decision.log_start)
        self.segments.discard([s for s in self.segments if s.base_offset in doomed])
        for base_offset in doomed:
            self.producers.snapshots.remove(base_offset)
        return decision.deletions

    @fencing
    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put compacted segments in the place of those they were made from."""
        self.segments.replace(new, old)

    # Durability -----------------------------------------------------------------------------

    @property
    def unflushed_records(self) -> int:
        return self.log_end_offset - self.recovery_point

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms ask for it, or a segment was completed."""
        return self.unflushed_records > 0 and (
            self.unflushed_records >= self.config.flush_messages
            or now_ms - self.last_flush_ms >= self.config.flush_ms
            or self.recovery_point < self.segments.active.base_offset
        )

    @fencing
    def begin_flush(self) -> Flush:
        """Note what has to be synced; see `log_flush`."""
        unsynced = self.segments.reaching(self.recovery_point)
        side_files = [path for segment in unsynced[:-1] for path in segment.side_files()]
        snapshots = self.producers.snapshots
        side_files += [snapshots.path(o) for o in snapshots.offsets if o > self.recovery_point]
        directories = []
        if self.epochs.entries != self._synced_epochs:
            self._synced_epochs = self.epochs.entries
            side_files.append(f"{self.directory}/{LEADER_EPOCHS}")
            self.segments.has_unsynced_names = True
        if self.segments.has_unsynced_names or side_files:
            self.segments.has_unsynced_names = False
            directories.append(self.directory)
        if not self.is_name_synced:
            self.is_name_synced = True
            side_files.append(f"{self.directory}/{PARTITION_METADATA}")
            directories.append(self.directory.rpartition("/")[0])
        self.last_flush_ms = self._clock.now_ms()
        logs = [segment.batches.file for segment in unsynced]
        return Flush(self._files, self.log_end_offset, self.shape, logs, side_files, directories)

    def finish_flush(self, flush: Flush) -> None:
        """Publish what a flush has made durable."""
        if flush.shape == self.shape and self.failure is None:
            self.recovery_point = max(self.recovery_point, flush.target_offset)

    @fencing
    def flush(self) -> None:
        """Sync here and now: blocks."""
        flush = self.begin_flush()
        flush.run()
        self.finish_flush(flush)

    @fencing
    def close(self) -> None:
        """Make everything durable and give back files. Blocks. The log is of no use afterwards."""
        active = self.segments.active
        active.become_inactive()
        self._take_snapshot()
        flush = self.begin_flush()
        flush = flush._replace(side_files=[*flush.side_files, *active.side_files()])
        flush.run()
        self.finish_flush(flush)
        self.segments.release()
