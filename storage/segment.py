"""One segment of a log: a file of record batches, its two sparse indexes and aborted-txn index.

    00000000000000001017.log  .index  .timeindex  .txnindex      named by the base offset

Invariants: every offset in the segment is >= base_offset and below the next segment's; batches
follow each other without gaps in the bytes (offsets may have gaps after compaction); `size` is
what has been written, which may be less than the file's length when it is preallocated.

Files are opened at first use, so an inactive segment costs no descriptor until it is read.

Hot part: `append` adds 3 µs to the write and `locate` needs one index lookup and one or two reads
of 4 KiB (benchmarks/storage.py). Single owner, the log; `slice` results may leave its thread.
"""

import errno
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.records import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    crc_matches,
    read_header,
)
from odradek.storage.aborted import TransactionIndex
from odradek.storage.files import Buffer, File, Files, FileSlice
from odradek.storage.index import OffsetIndex, TimeIndex, TimestampOffset

LOG, INDEX, TIME_INDEX, TXN_INDEX = ".log", ".index", ".timeindex", ".txnindex"
SEGMENT_FILES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

NO_TIMESTAMP = -1
MAX_RELATIVE_OFFSET = 0x7FFFFFFF

# base_offset, length and last_offset_delta: all that finding a batch needs.
_BOUNDS = Struct(">qi11xi")
_LOOKUP_BYTES = 4096
_SCAN_BYTES = 1 << 20


class Located(NamedTuple):
    """A batch found by offset."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def segment_path(directory: str, base_offset: int, kind: str, suffix: str = "") -> str:
    return f"{directory}/{base_offset:020d}{kind}{suffix}"


class Segment:
    __slots__ = (
        "_bytes_since_index",
        "_file",
        "_files",
        "_first_timestamp",
        "_index_interval_bytes",
        "_max_timestamp",
        "_offset_of_max_timestamp",
        "base_offset",
        "created_ms",
        "directory",
        "offset_index",
        "size",
        "suffix",
        "time_index",
        "transactions",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        *,
        index_bytes: int,
        index_interval_bytes: int,
        sizes: dict[str, int] | None = None,
        created_ms: int = 0,
        suffix: str = "",
    ) -> None:
        """`sizes` are the lengths of existing files by kind; none for a new segment."""
        sizes = sizes or {}
        self._files = files
        self._file: File | None = None
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.created_ms = created_ms
        self.size = sizes.get(LOG, 0)
        self._index_interval_bytes = index_interval_bytes
        self._bytes_since_index = 0
        self._first_timestamp: int | None = None
        # None until looked up: the last time index entry knows it.
        self._max_timestamp: int | None = None if self.size else NO_TIMESTAMP
        self._offset_of_max_timestamp = base_offset
        self.offset_index = OffsetIndex(
            files,
            self.path(INDEX),
            base_offset=base_offset,
            max_bytes=index_bytes,
            size=sizes.get(INDEX, 0),
        )
        self.time_index = TimeIndex(
            files,
            self.path(TIME_INDEX),
            base_offset=base_offset,
            max_bytes=index_bytes,
            size=sizes.get(TIME_INDEX, 0),
        )
        self.transactions = TransactionIndex(self.path(TXN_INDEX), files=files)

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG)!r}, size={self.size})"

    def path(self, kind: str) -> str:
        return segment_path(self.directory, self.base_offset, kind, self.suffix)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path(LOG))
        return self._file

    def create(self, preallocate_bytes: int = 0) -> None:
        """Make the log file of a new segment. The caller syncs the directory with its flush."""
        self._file = self._files.open(self.path(LOG), create=True)
        if preallocate_bytes:
            self._file.allocate(preallocate_bytes)

    # Append ---------------------------------------------------------------------------------

    def append(self, data: Buffer, headers: Iterable[BatchHeader]) -> None:
        """Write batches, whose headers are given in order, behind the last one. One write call."""
        start = position = self.size
        if self.file.pwrite(data, start) != len(data):
            raise OSError(errno.EIO, "short write", self.path(LOG))
        for header in headers:
            self._note(header, position)
            position += LOG_OVERHEAD_BYTES + header.length
        assert position == start + len(data), "headers describe the data"
        self.size = position

    def _note(self, header: BatchHeader, position: int) -> None:
        """Keep timestamps and indexes up to date with a batch at `position`."""
        last_offset = header.base_offset + header.last_offset_delta
        timestamp = header.max_timestamp
        if timestamp > self.max_timestamp:
            self._max_timestamp = timestamp
            self._offset_of_max_timestamp = last_offset
        if self._first_timestamp is None and position == 0:
            self._first_timestamp = timestamp
        if self._bytes_since_index > self._index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append_if_later(self.max_timestamp, self._offset_of_max_timestamp)
            self._bytes_since_index = 0
        self._bytes_since_index += LOG_OVERHEAD_BYTES + header.length

    @property
    def is_index_full(self) -> bool:
        return self.offset_index.is_full or self.time_index.is_full

    def can_hold(self, last_offset: int) -> bool:
        """Whether the offset fits the 31 bits that index entries have for it."""
        return 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    # Timestamps -----------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> int:
        if self._max_timestamp is None:
            self._load_max_timestamp()
        assert self._max_timestamp is not None, "just loaded"
        return self._max_timestamp

    @property
    def max_timestamp_entry(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the batch that has it."""
        return TimestampOffset(self.max_timestamp, self._offset_of_max_timestamp)

    def _load_max_timestamp(self) -> None:
        """The last time index entry, which is written when a segment becomes inactive."""
        last = self.time_index.last()
        self.time_index.release()
        if last is None:
            # No entry although there is data: batches without timestamps, or a cut-off tail.
            last = TimestampOffset(NO_TIMESTAMP, self.base_offset)
            for _, header in self.headers():
                if header.max_timestamp > last.timestamp:
                    last = TimestampOffset(header.max_timestamp, header.last_offset)
        self._max_timestamp, self._offset_of_max_timestamp = last

    @property
    def first_timestamp(self) -> int | None:
        """The largest timestamp of the first batch, from which the segment's age counts."""
        if self._first_timestamp is None and self.size:
            first = next(self.headers(), None)
            self._first_timestamp = first[1].max_timestamp if first else None
        return self._first_timestamp

    # Reading --------------------------------------------------------------------------------

    def slice(self, position: int, length: int) -> FileSlice:
        return FileSlice(self.file, position, length)

    def locate(self, offset: int) -> Located | None:
        """The first batch whose last offset is at or above `offset`; None past the last batch."""
        position, end = self.offset_index.lookup(offset), self.size
        pread = self.file.pread
        while position < end:
            chunk = pread(_LOOKUP_BYTES, position)
            at, last = 0, min(len(chunk), end - position) - _BOUNDS.size
            while at <= last:
                base_offset, length, delta = _BOUNDS.unpack_from(chunk, at)
                if base_offset + delta >= offset:
                    size_bytes = LOG_OVERHEAD_BYTES + length
                    return Located(position + at, size_bytes, base_offset, base_offset + delta)
                if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                    raise self._corrupt(position + at)
                at += LOG_OVERHEAD_BYTES + length
            if at == 0:
                raise self._corrupt(position)
            position += at
        return None

    def boundary_before(self, position: int) -> int:
        """The end of the last batch that ends at or before `position`."""
        start = self.offset_index.position_at_or_before(position)
        pread = self.file.pread
        while start < self.size:
            bounds = pread(_BOUNDS.size, start)
            if len(bounds) < _BOUNDS.size:
                raise self._corrupt(start)
            _, length, _ = _BOUNDS.unpack(bounds)
            if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                raise self._corrupt(start)
            if start + LOG_OVERHEAD_BYTES + length > position:
                return start
            start += LOG_OVERHEAD_BYTES + length
        return start

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every batch from a batch boundary on; raises on garbage."""
        end = self.size
        while position < end:
            chunk = self.file.pread(_LOOKUP_BYTES, position)
            at, last = 0, min(len(chunk), end - position) - HEADER_BYTES
            while at <= last:
                header = self._header(chunk, at, position)
                yield position + at, header
                at += header.size_bytes
            if at == 0:
                raise self._corrupt(position)
            position += at

    def _header(self, chunk: bytes, at: int, position: int) -> BatchHeader:
        try:
            return read_header(chunk, at)
        except ProtocolError as error:
            raise self._corrupt(position + at) from error

    def _corrupt(self, position: int) -> KafkaError:
        where = f"no batch at position {position} of {self.path(LOG)}"
        return KafkaError(Errors.CORRUPT_MESSAGE, where)

    def valid_batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Whole batches with a good checksum, up to the first that is not; never raises for it."""
        end = self.size
        while end - position >= HEADER_BYTES:
            chunk = memoryview(self.file.pread(min(_SCAN_BYTES, end - position), position))
            at = 0
            for start, header in _whole_batches(chunk):
                if not crc_matches(chunk, start, header):
                    return
                at = start + header.size_bytes
                yield position + start, header, chunk[start:at]
            if at == 0:
                # The batch is larger than the chunk, or it is no batch.
                big = self._big_batch(chunk, position)
                if big is None:
                    return
                yield position, *big
                at = big[0].size_bytes
            position += at

    def _big_batch(self, head: memoryview, position: int) -> tuple[BatchHeader, memoryview] | None:
        try:
            header = read_header(head)
        except ProtocolError:
            return None
        if not len(head) < header.size_bytes <= self.size - position:
            return None
        batch = memoryview(self.file.pread(header.size_bytes, position))
        return (header, batch) if crc_matches(batch, 0, header) else None

    def next_offset(self) -> int:
        """One past the last offset, read from the batches behind the last index entry.

        Also finds the largest timestamp of that tail: call it on the active segment at load.
        """
        last_entry = self.offset_index.last()
        next_offset = self.base_offset
        latest = self.time_index.last() or TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self.offset_index.release()
        self.time_index.release()
        for _, header in self.headers(last_entry.position if last_entry else 0):
            next_offset = header.next_offset
            if header.max_timestamp > latest.timestamp:
                latest = TimestampOffset(header.max_timestamp, header.last_offset)
        self._max_timestamp, self._offset_of_max_timestamp = latest
        return next_offset

    # Change of shape ------------------------------------------------------------------------

    def rebuild_from(self, headers: Iterable[tuple[int, BatchHeader]], size: int) -> None:
        """Cut the log to `size` and make both indexes again from the batches below it."""
        self.cut(size)
        self.offset_index.reset()
        self.time_index.reset()
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._first_timestamp = None
        self._bytes_since_index = 0
        for position, header in headers:
            if self.is_index_full:
                # Fewer entries than usual cost a longer walk, not correctness.
                self._bytes_since_index = 0
            self._note(header, position)

    def cut(self, size: int) -> None:
        """Forget every byte from `size` on."""
        self.file.truncate(size)
        self.size = size

    def truncate_to(self, offset: int) -> int:
        """Drop the batches that hold `offset` or more; returns how many bytes went."""
        found = self.locate(offset)
        # The indexes first: they must never point past the end of the log.
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transactions.truncate_to(offset)
        if found is None:
            return 0
        dropped = self.size - found.position
        self.cut(found.position)
        self._bytes_since_index = 0
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        if self.size:
            self.next_offset()
        else:
            self._first_timestamp = None
        return dropped

    def become_inactive(self) -> None:
        """Write the last time index entry and give back what was preallocated."""
        if self.size and not self.time_index.is_full:
            self.time_index.append_if_later(self.max_timestamp, self._offset_of_max_timestamp)
        self.offset_index.trim()
        self.time_index.trim()
        if self._file is not None and self._file.size() != self.size:
            self._file.truncate(self.size)

    def release(self) -> None:
        """Give descriptors and mappings back; slices that are out keep theirs."""
        self._file = None
        self.offset_index.release()
        self.time_index.release()

    def rename(self, suffix: str) -> None:
        """Change the suffix of all files, the log last: without it the rest is nothing."""
        for kind in (INDEX, TIME_INDEX, TXN_INDEX, LOG):
            old = self.path(kind)
            new = segment_path(self.directory, self.base_offset, kind, suffix)
            if self._files.exists(old):
                self._files.replace(old, new)
        self.suffix = suffix
        self.offset_index.moved_to(self.path(INDEX))
        self.time_index.moved_to(self.path(TIME_INDEX))
        self.transactions.moved_to(self.path(TXN_INDEX))

    def remove(self) -> None:
        """Delete the files. May run in a thread once no one else uses the segment."""
        self.release()
        for kind in SEGMENT_FILES:
            self._files.remove(self.path(kind))


def _whole_batches(chunk: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    at, end = 0, len(chunk)
    while end - at >= HEADER_BYTES:
        try:
            header = read_header(chunk, at)
        except ProtocolError:
            return
        if at + header.size_bytes > end:
            return
        yield at, header
        at += header.size_bytes
