"""Compaction: rewrite segments so that of each key only the last record stays.

`clean_segments` is a function over files: it may run in a worker process while the log goes on.
It reads inactive segments and writes new ones as `.cleaned`, synced, which the owner of the log
then swaps in (`cleaning`). Two walks: over the dirty part, to learn each key's last offset, as far
as memory allows; then over everything up to there, to copy what stays:

- a record stays if its offset is the last one of its key. Offsets never change, so gaps arise.
  A batch keeps its base and last offset, producer and sequence; untouched batches are copied;
- a tombstone (no value) stays until its batch's delete horizon is past. The horizon is set to
  now + delete.retention.ms when the batch is first rewritten with older records of its keys gone,
  so that every reader has that long to learn of the deletion;
- data of aborted transactions goes. Markers are matched by transaction, never by key; one whose
  data is gone gets a delete horizon, and goes when that is past (`cleaned_transactions`);
- the last batch of each producer the log still knows stays, if need be without its records,
  because sequence and epoch are needed to rebuild producer state; so does the last batch of each
  new segment, so that the segment still ends where the old ones did;
- from the end of the known keys on everything is copied as it is.

Memory is flat: the key map, one megabyte of input and one of output, and one batch decompressed.
A batch that cannot be read ends the cleaning with CORRUPT_MESSAGE; nothing was changed then.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.protocol.batch_header import CODEC_MASK
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.records import (
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    RecordSpan,
    iter_spans,
    pack_batch,
    read_body,
    rebuild_batch,
)
from odradek.storage.aborted import AbortedTxn
from odradek.storage.batch_file import BatchFile, ValidBatch
from odradek.storage.cleaned_transactions import CleanedTransactions
from odradek.storage.compaction_plan import SegmentSpan, group_by_size
from odradek.storage.files import Files, OsFiles
from odradek.storage.key_offsets import KeyOffsets
from odradek.storage.producer_entry import LastRecord
from odradek.storage.segment import LOG, Segment, segment_path
from odradek.storage.segment_swap import CLEANED

_WRITE_BYTES = 1 << 20


class CleaningJob(NamedTuple):
    """All that a worker has to know; made on the log's own thread by `cleaning.prepare`."""

    directory: str
    segments: tuple[SegmentSpan, ...]  # all inactive ones up to the end of the cleaning
    first_dirty: int
    aborted: tuple[AbortedTxn, ...]
    last_records: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int
    map_bytes: int

    @property
    def delete_horizon_ms(self) -> int:
        return self.now_ms + self.delete_retention_ms


class CleanedGroup(NamedTuple):
    """Segments that one new segment, bearing the first one's base offset, is to replace."""

    replaced: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a worker has done. Below `cleaned_to` the log is clean once the groups are swapped."""

    groups: tuple[CleanedGroup, ...]
    cleaned_to: int
    bytes_read: int
    bytes_written: int


@dataclass(slots=True)
class _Pass:
    """The state of the second walk."""

    job: CleaningJob
    keys: KeyOffsets
    keys_end: int
    transactions: CleanedTransactions
    bytes_read: int = 0
    bytes_written: int = 0
    groups: list[CleanedGroup] = field(default_factory=list)


def clean_segments(job: CleaningJob, files: Files | None = None) -> Cleaned:
    """Blocks for as long as it takes. Without `files` the real ones are used."""
    assert job.segments, "there is something to clean"
    files = files or OsFiles()
    keys, keys_end = _last_offsets(job, files)
    affected = [span for span in job.segments if span.base_offset < keys_end]
    walk = _Pass(job, keys, keys_end, CleanedTransactions(job.aborted))
    for group in group_by_size(affected, job.segment_bytes):
        _clean_group(walk, group, files)
    if walk.groups:
        files.sync_dir(job.directory)
    return Cleaned(tuple(walk.groups), keys_end, walk.bytes_read, walk.bytes_written)


# The first walk -----------------------------------------------------------------------------


def _last_offsets(job: CleaningJob, files: Files) -> tuple[KeyOffsets, int]:
    """The last offset of each key from first_dirty on, and the offset before which they hold."""
    keys = KeyOffsets(job.map_bytes)
    since = [txn for txn in job.aborted if txn.last_offset >= job.first_dirty]
    transactions = CleanedTransactions(since)
    for span in job.segments:
        if span.next_offset <= job.first_dirty:
            continue
        for batch in _batches(files, job.directory, span):
            header = batch.header
            if header.last_offset < job.first_dirty:
                continue
            if keys.is_full:
                return keys, header.base_offset
            if header.is_control:
                transactions.is_dispensable_marker(header, batch.data)
            elif not transactions.is_aborted_data(header):
                _note_keys(keys, batch, job.first_dirty)
    return keys, job.segments[-1].next_offset


def _note_keys(keys: KeyOffsets, batch: ValidBatch, first_dirty: int) -> None:
    put = keys.put
    for offset, _, key, _, _, _ in iter_spans(_body(batch), batch.header):
        if key is not None and offset >= first_dirty:
            put(key, offset)


def _batches(files: Files, directory: str, span: SegmentSpan) -> Iterator[ValidBatch]:
    """Every batch of a segment. What cannot be read must not be cleaned away."""
    path = segment_path(directory, span.base_offset, LOG)
    file = BatchFile(files, path, span.size_bytes)
    end = 0
    try:
        for batch in file.valid_batches():
            yield batch
            end = batch.position + batch.header.size_bytes
    except ProtocolError as error:
        raise KafkaError(Errors.CORRUPT_MESSAGE, f"{path}: {error}") from error
    if end != span.size_bytes:
        text = f"{path}: there is no sound batch at position {end}"
        raise KafkaError(Errors.CORRUPT_MESSAGE, text)


def _body(batch: ValidBatch) -> bytes:
    return read_body(batch.data, 0, batch.header)


# The second walk ----------------------------------------------------------------------------


def _clean_group(walk: _Pass, group: Sequence[SegmentSpan], files: Files) -> None:
    job = walk.job
    old_bytes = sum(span.size_bytes for span in group)
    walk.bytes_read += old_bytes
    new = Segment(
        files,
        job.directory,
        group[0].base_offset,
        index_bytes=job.index_bytes,
        index_interval_bytes=job.index_interval_bytes,
        suffix=CLEANED,
    )
    new.remove()  # a worker that died may have left some
    new.create()
    is_changed = _copy(walk, group, files, new)
    if len(group) == 1 and not is_changed:
        new.remove()
        return
    new.index_batches(new.batches.headers())
    new.batches.file.sync()
    for path in new.side_files():
        if files.exists(path):
            files.open(path).sync()
    walk.bytes_written += new.size
    walk.groups.append(CleanedGroup(tuple(span.base_offset for span in group), new.size))
    new.release()


def _copy(walk: _Pass, group: Sequence[SegmentSpan], files: Files, new: Segment) -> bool:
    """Write what stays of a group; whether anything went or changed."""
    pending = bytearray()
    is_changed = False
    for span in group:
        for batch, is_last in _with_last(_batches(files, walk.job.directory, span)):
            kept = _what_stays(walk, batch, new, must_stay=is_last and span is group[-1])
            is_changed = is_changed or kept is not batch.data
            if kept is not None:
                pending += kept
            if len(pending) >= _WRITE_BYTES:
                new.batches.append(pending)
                pending = bytearray()
    if pending:
        new.batches.append(pending)
    return is_changed


def _with_last(batches: Iterator[ValidBatch]) -> Iterator[tuple[ValidBatch, bool]]:
    held = next(batches, None)
    for batch in batches:
        assert held is not None, "only the end of the batches ends them"
        yield held, False
        held = batch
    if held is not None:
        yield held, True


def _what_stays(
    walk: _Pass, batch: ValidBatch, new: Segment, *, must_stay: bool
) -> memoryview | bytes | None:
    header = batch.header
    must_stay = must_stay or _is_last_of_producer(header, walk.job.last_records)
    is_beyond = header.base_offset >= walk.keys_end
    if header.is_control:
        is_dispensable, entry = walk.transactions.is_dispensable_marker(header, batch.data)
        kept = batch.data if is_beyond else _marker(walk.job, batch, is_dispensable)
        if entry is not None:
            new.transactions.append(entry)
    elif walk.transactions.is_aborted_data(header) and not is_beyond:
        kept = None
    else:
        kept = batch.data if is_beyond else _live_records(walk, batch)
    if kept is None and must_stay:
        # Without its record a marker would not tell a replica the producer's epoch.
        return batch.data if header.is_control or header.count == 0 else _emptied(header)
    return kept


def _is_last_of_producer(header: BatchHeader, last_records: Mapping[int, LastRecord]) -> bool:
    last = last_records.get(header.producer_id) if header.producer_id >= 0 else None
    if last is None:
        return False
    if last.last_data_offset is None:
        return header.is_control and header.producer_epoch == last.epoch
    return header.last_offset == last.last_data_offset


def _marker(job: CleaningJob, batch: ValidBatch, is_dispensable: bool) -> memoryview | bytes | None:
    horizon_ms = batch.header.delete_horizon_ms
    if not is_dispensable:
        return batch.data
    if batch.header.count == 0 or (horizon_ms is not None and horizon_ms <= job.now_ms):
        return None
    if horizon_ms is not None:
        return batch.data
    body = _body(batch)
    kept = list(iter_spans(body, batch.header))
    return rebuild_batch(batch.header, body, kept, delete_horizon_ms=job.delete_horizon_ms)


def _live_records(walk: _Pass, batch: ValidBatch) -> memoryview | bytes | None:
    """The batch as it is, rebuilt with fewer records, or None when none is left."""
    header, body, last = batch.header, _body(batch), walk.keys.last
    horizon_ms = header.delete_horizon_ms
    keeps_tombstones = horizon_ms is None or walk.job.now_ms < horizon_ms
    kept: list[RecordSpan] = []
    has_tombstones = False
    for span in iter_spans(body, header):
        offset, _, key, has_value, _, _ = span
        if key is None or offset < last(key):
            continue
        if has_value:
            kept.append(span)
        elif keeps_tombstones:
            kept.append(span)
            has_tombstones = True
    if not kept:
        return None
    if has_tombstones and horizon_ms is None:
        horizon_ms = walk.job.delete_horizon_ms
        return rebuild_batch(header, body, kept, delete_horizon_ms=horizon_ms)
    return batch.data if len(kept) == header.count else rebuild_batch(header, body, kept)


def _emptied(header: BatchHeader) -> bytes:
    """Only the header: offsets, epoch, producer and sequence, and the newest timestamp."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    bare = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0)
    return pack_batch(bare, b"")
