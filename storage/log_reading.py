"""Reading a log: which bytes answer a fetch, and which offset belongs to a timestamp.

A read answers with a slice of one segment file that holds whole batches only, from the batch that
contains the wanted offset on. The bounds of the log (start, high watermark, last stable offset,
end) are taken once and handed back with the bytes, so that an answer can never mix two moments.

Functions of segments and bounds; nothing here changes a log.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.records import NO_TIMESTAMP, BatchHeader, iter_spans, read_body
from odradek.storage.aborted import AbortedTxn
from odradek.storage.batch_file import Located
from odradek.storage.files import FileSlice
from odradek.storage.log_segments import SegmentList
from odradek.storage.segment import Segment

# So small a part of the bytes asked for may stay unused if that spares a look at the log.
_UNUSED: Final = 8


class Isolation(Enum):
    """Up to where a reader may see."""

    LOG_END = "replicas"
    HIGH_WATERMARK = "read_uncommitted"
    LAST_STABLE = "read_committed"


class Bounds(NamedTuple):
    """The offsets that delimit a log at one moment; the last three are exclusive ends."""

    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int

    def upper(self, isolation: Isolation) -> int:
        if isolation is Isolation.LOG_END:
            return self.log_end
        if isolation is Isolation.HIGH_WATERMARK:
            return self.high_watermark
        return self.last_stable


class ReadResult(NamedTuple):
    records: FileSlice | None  # None: there is nothing to read yet
    bounds: Bounds
    aborted: list[AbortedTxn] | None  # None: not asked for


class TimestampedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class ReadLimits(NamedTuple):
    max_bytes: int
    upper: int  # only batches that lie wholly below this offset
    log_end: int
    min_one_batch: bool


class Found(NamedTuple):
    """Whole batches in one segment."""

    segment: Segment
    records: FileSlice


def check_in_range(offset: int, bounds: Bounds) -> None:
    if not bounds.log_start <= offset <= bounds.log_end:
        raise KafkaError(
            Errors.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not within {bounds.log_start} to {bounds.log_end}",
        )


def stop_at_damage(offset: int, upper: int, damage: Iterable[range]) -> int:
    """Where a read from `offset` must end because offsets further on are known to be broken."""
    for broken in damage:
        if offset in broken:
            raise KafkaError(
                Errors.CORRUPT_MESSAGE,
                f"offsets {broken.start} to {broken.stop - 1} are damaged on disk",
            )
        if offset < broken.start:
            upper = min(upper, broken.start)
    return upper


def read_batches(segments: SegmentList, offset: int, limits: ReadLimits) -> Found | None:
    """Whole batches from the one that holds `offset`, or the next one after a gap."""
    segment = segments.floor(offset)
    found = None
    while segment is not None and (found := segment.locate(offset)) is None:
        segment = segments.after(segment)
    if segment is None or found is None or found.last_offset >= limits.upper:
        return None
    end = _end_position(segments, segment, limits)
    length = _whole_batches(segment, found, end - found.position, limits)
    return Found(segment, segment.batches.slice(found.position, length)) if length else None


def _end_position(segments: SegmentList, segment: Segment, limits: ReadLimits) -> int:
    """Where the batches below the upper offset end in this segment."""
    if limits.upper >= limits.log_end:
        return segment.size
    following = segments.after(segment)
    if following is not None and following.base_offset <= limits.upper:
        return segment.size
    found = segment.locate(limits.upper)
    return segment.size if found is None else found.position


def _whole_batches(segment: Segment, found: Located, available: int, limits: ReadLimits) -> int:
    if available <= limits.max_bytes:
        return available
    if found.size_bytes > limits.max_bytes:
        return found.size_bytes if limits.min_one_batch else 0
    limit = found.position + limits.max_bytes
    near_enough = max(limit - limits.max_bytes // _UNUSED, found.position + found.size_bytes)
    return segment.boundary_before(limit, near_enough) - found.position


def aborted_transactions(
    segments: SegmentList, offset: int, found: Found, upper: int
) -> list[AbortedTxn]:
    """The aborted transactions with records in what a read from `offset` found."""
    with_any = [segment for segment in segments.reaching(offset) if segment.transactions]
    if not with_any:
        return []  # without a look behind the slice, which may still be on disk
    end = _offset_behind(segments, found, upper)
    aborted: list[AbortedTxn] = []
    for segment in with_any:
        transactions, is_complete = segment.transactions.collect(offset, end)
        aborted += transactions
        if is_complete:
            break
    return aborted


def _offset_behind(segments: SegmentList, found: Found, upper: int) -> int:
    """The first offset that the slice does not reach: it begins the batch behind the slice."""
    segment, records = found
    end = records.position + records.length
    if end < segment.size:
        return min(upper, segment.batches.header_at(end).base_offset)
    following = segments.after(segment)
    return upper if following is None else min(upper, following.base_offset)


def replay(segments: SegmentList, start: int, end: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches from `start` to `end`, as producer state needs them: of control batches also
    the bytes."""
    for segment in segments.reaching(start):
        if segment.base_offset >= end or start >= end:
            return
        found = segment.locate(start)
        if found is None:
            continue
        for position, header in segment.batches.headers(found.position):
            if header.base_offset >= end:
                return
            is_read = header.is_control
            data = segment.batches.read(position, header.size_bytes) if is_read else b""
            yield header, data


def first_at_or_after(
    segments: SegmentList, timestamp: int, bounds: Bounds
) -> TimestampedOffset | None:
    """The first record, from the log start on, whose timestamp is not below the given one."""
    for segment in segments:
        if segment.latest.timestamp < timestamp:
            continue
        start = segment.position_for_time(timestamp)
        for position, header in segment.batches.headers(start):
            if header.max_timestamp < timestamp or header.last_offset < bounds.log_start:
                continue
            record = _first_record(segment, position, header, timestamp, bounds.log_start)
            if record is not None:
                return record
    return None


def latest_timestamp(segments: SegmentList) -> TimestampedOffset | None:
    """The record with the largest timestamp, the first of them when several have it."""
    latest: Segment | None = None
    for segment in segments:
        if segment.size and (latest is None or segment.latest.timestamp > latest.latest.timestamp):
            latest = segment
    if latest is None or latest.latest.timestamp == NO_TIMESTAMP:
        return None
    timestamp, offset = latest.latest
    found = latest.locate(offset)
    if found is None:
        return None
    header = latest.batches.header_at(found.position)
    return _first_record(latest, found.position, header, timestamp, 0)


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, at_least: int
) -> TimestampedOffset | None:
    batch = segment.batches.read(position, header.size_bytes)
    try:
        for span in iter_spans(read_body(batch, 0, header), header):
            if span.timestamp >= timestamp and span.offset >= at_least:
                return TimestampedOffset(span.timestamp, span.offset, header.leader_epoch)
    except ProtocolError as error:
        where = f"the batch at offset {header.base_offset} does not decode: {error}"
        raise KafkaError(Errors.CORRUPT_MESSAGE, where) from error
    return None
