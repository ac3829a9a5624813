"""One segment of a log: a file of record batches, its two sparse indexes and aborted-txn index.

    00000000000000001017.log  .index  .timeindex  .txnindex      named by the base offset

Invariants: every offset in the segment is >= base_offset and below the next segment's; offsets
grow, with gaps after compaction. Index entries are hints that are checked against the batch they
point at when they are used: one that lies makes the segment build both indexes again.

Files are opened at first use, so an inactive segment costs no descriptor until it is read.

Hot part: `append_one` adds 2 µs to the write. `locate` knows the batch that was appended last, and
needs one index lookup and two small reads for any other: a whole read of the log takes 3.4 µs at
its end and 27 µs elsewhere (benchmarks/storage.py, rows read). Single owner, the log; slices of
`batches` may leave its thread.
"""

import logging
from collections.abc import Iterable

from odradek.protocol.records import NO_TIMESTAMP, BatchHeader
from odradek.storage.aborted import TransactionIndex
from odradek.storage.batch_file import BatchFile, Located
from odradek.storage.files import Buffer, Files
from odradek.storage.index import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset

_log = logging.getLogger(__name__)

LOG, INDEX, TIME_INDEX, TXN_INDEX = ".log", ".index", ".timeindex", ".txnindex"
SEGMENT_FILES = (INDEX, TIME_INDEX, TXN_INDEX, LOG)

# Index entries have 31 bits for an offset's distance from the base.
MAX_RELATIVE_OFFSET = 0x7FFFFFFF

_new = tuple.__new__


def segment_path(directory: str, base_offset: int, kind: str, suffix: str = "") -> str:
    return f"{directory}/{base_offset:020d}{kind}{suffix}"


class Segment:
    __slots__ = (
        "_bytes_since_index",
        "_files",
        "_first_timestamp",
        "_index_interval_bytes",
        "_latest_offset",
        "_latest_timestamp",
        "_tail_base_offset",
        "_tail_last_offset",
        "_tail_position",
        "base_offset",
        "batches",
        "directory",
        "limit_bytes",
        "limit_offset",
        "limit_timestamp",
        "modified_ms",
        "offset_index",
        "roll_jitter_ms",
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
        modified_ms: int = 0,
        roll_jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        """`sizes` are the lengths of existing files by kind; none for a new segment."""
        sizes = sizes or {}
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.modified_ms = modified_ms  # of the creation, or the file's when it was loaded
        self.roll_jitter_ms = roll_jitter_ms
        # Up to here an append needs no thought about rolling; `Segments` sets them.
        self.limit_bytes = self.limit_offset = self.limit_timestamp = -1
        self._index_interval_bytes = index_interval_bytes
        self._bytes_since_index = 0
        self.batches = BatchFile(files, self.path(LOG), sizes.get(LOG, 0))
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
        # The batch that was appended last, as long as nothing was cut: readers at the end of the
        # log ask for it. Three numbers that are there anyway, and no object more for each append.
        self._tail_position: int | None = None
        self._tail_base_offset = self._tail_last_offset = 0
        self._first_timestamp: int | None = None
        # None until looked up: the last time index entry knows it.
        self._latest_timestamp: int | None = None if self.size else NO_TIMESTAMP
        self._latest_offset = base_offset

    def __repr__(self) -> str:
        return f"Segment({self.batches.path!r}, size={self.size})"

    def path(self, kind: str) -> str:
        return segment_path(self.directory, self.base_offset, kind, self.suffix)

    def side_files(self) -> list[str]:
        """The paths of the files that go with the log file; some may not exist."""
        return [self.path(kind) for kind in (INDEX, TIME_INDEX, TXN_INDEX)]

    def create(self, preallocate_bytes: int = 0) -> None:
        """Make the log file of a new segment. The caller syncs the directory with its flush."""
        self.batches.create(preallocate_bytes)

    @property
    def size(self) -> int:
        return self.batches.size

    # Append ---------------------------------------------------------------------------------

    def append(self, data: Buffer, headers: Iterable[BatchHeader]) -> None:
        """Write batches, whose headers are given in order, behind the last one. One write call."""
        position = self.batches.size
        self.batches.append(data)
        for header in headers:
            self._tail_position = position
            self._tail_base_offset = header.base_offset
            self._tail_last_offset = header.last_offset
            position = self._note(
                position, header.size_bytes, header.last_offset, header.max_timestamp
            )
        assert position == self.batches.size, "the headers describe the data"

    def append_one(self, data: Buffer, offset: int, last_offset: int, timestamp: int) -> None:
        """The same for one batch, by what matters of its header."""
        batches = self.batches
        position = batches.size
        batches.append(data)
        self._tail_position = position
        self._tail_base_offset = offset
        self._tail_last_offset = last_offset
        self._note(position, len(data), last_offset, timestamp)

    def _note(self, position: int, size_bytes: int, last_offset: int, timestamp: int) -> int:
        """Keep timestamps and indexes up to date with a batch at `position`; returns its end."""
        latest = self._latest_timestamp or self.latest.timestamp
        if timestamp > latest:
            self._latest_timestamp = latest = timestamp
            self._latest_offset = last_offset
        if position == 0:
            self._first_timestamp = timestamp
        unindexed = self._bytes_since_index
        if unindexed > self._index_interval_bytes and not self.is_index_full:
            self.offset_index.append(last_offset, position)
            self.time_index.append_if_later(latest, self._latest_offset)
            if self.is_index_full:
                # The next append rolls. Later batches of this one, a follower's, go unindexed:
                # a longer walk is all it costs.
                self.limit_bytes = -1
            unindexed = 0
        self._bytes_since_index = unindexed + size_bytes
        return position + size_bytes

    def has_room(self, size: int, last_offset: int, timestamp: int) -> bool:
        """Whether a batch fits without any doubt; False means that it takes a closer look."""
        return (
            self.batches.size + size <= self.limit_bytes
            and 0 <= timestamp <= self.limit_timestamp
            and last_offset <= self.limit_offset
        )

    @property
    def is_index_full(self) -> bool:
        return self.offset_index.is_full or self.time_index.is_full

    # Timestamps -----------------------------------------------------------------------------

    def _no_timestamp(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self.base_offset)

    @property
    def latest(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the batch that has it."""
        if self._latest_timestamp is None:
            self._load_latest()
        assert self._latest_timestamp is not None, "just loaded"
        return TimestampOffset(self._latest_timestamp, self._latest_offset)

    def _load_latest(self) -> None:
        """The last time index entry, which is written when a segment becomes inactive."""
        last = self.time_index.last()
        if last is not None and self._bears_out(last):
            self._latest_timestamp, self._latest_offset = last
            self.offset_index.release()
            self.time_index.release()
        else:
            self.rebuild_indexes("its time index does not end with its latest timestamp")

    def _bears_out(self, entry: TimestampOffset) -> bool:
        """Whether the batch that a time index entry points at has the entry's timestamp."""
        found = self.locate(entry.offset)
        if found is None or found.base_offset > entry.offset:
            return False
        return self.batches.header_at(found.position).max_timestamp == entry.timestamp

    def position_for_time(self, timestamp: int) -> int:
        """A batch boundary before which every timestamp is below `timestamp`."""
        entry = self.time_index.lookup(timestamp - 1)
        if entry is not None and not self._bears_out(entry):
            self.rebuild_indexes(f"its time index is wrong about offset {entry.offset}")
            entry = self.time_index.lookup(timestamp - 1)
        found = self.locate(entry.offset) if entry else None
        return found.position if found else 0

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which the segment's age counts."""
        if self._first_timestamp is None:
            self._first_timestamp = (
                self.batches.header_at(0).max_timestamp if self.size else NO_TIMESTAMP
            )
        return self._first_timestamp

    # Finding --------------------------------------------------------------------------------

    def locate(self, offset: int) -> Located | None:
        """The first batch whose last offset is at or above `offset`; None past the last batch."""
        position, base_offset = self._tail_position, self._tail_base_offset
        if position is not None and offset >= base_offset:
            last_offset = self._tail_last_offset
            if offset > last_offset:
                return None
            return _new(Located, (position, self.size - position, base_offset, last_offset))
        return self.batches.find(offset, self._checked(self.offset_index.lookup(offset)))

    def boundary_before(self, position: int, near_enough: int) -> int:
        """The end of the last batch that ends at or before `position`, or of one that the index
        knows from `near_enough` on: that takes no look at pages that may still be on disk.

        If the index is wrong there, the last batch of a read is cut off, as a reader must expect,
        and where its next read begins is checked.
        """
        entry = self.offset_index.lookup_position(position)
        if entry.position >= near_enough:
            return entry.position
        return self.batches.boundary_before(position, self._checked(entry))

    def _checked(self, entry: OffsetPosition) -> int:
        """The position of an index entry, or 0 if the index turns out to be wrong there."""
        offset, position = entry
        if position and not self.batches.begins_batch(
            position, at_least=self.base_offset, at_most=offset
        ):
            self.rebuild_indexes(f"its index is wrong about position {position}")
            return 0
        return position

    def next_offset(self) -> int:
        """One past the last offset, read from the batches behind the last index entry.

        Also finds the largest timestamp of that tail: for the active segment, when it is loaded
        or was cut.
        """
        last = self.offset_index.last() or OffsetPosition(self.base_offset, 0)
        start = self._checked(last)
        latest = self.time_index.last() or self._no_timestamp()
        next_offset = self.base_offset
        for _, header in self.batches.headers(start):
            next_offset = header.next_offset
            if header.max_timestamp > latest.timestamp:
                latest = TimestampOffset(header.max_timestamp, header.last_offset)
        self._latest_timestamp, self._latest_offset = latest
        self.offset_index.release()
        self.time_index.release()
        return next_offset

    # Change of shape ------------------------------------------------------------------------

    def rebuild_indexes(self, reason: str) -> None:
        """Make both indexes again by walking the headers: for one that is missing or wrong."""
        _log.warning("Building the indexes of %s again: %s", self.batches.path, reason)
        self.index_batches(self.batches.headers())

    def index_batches(self, batches: Iterable[tuple[int, BatchHeader]]) -> None:
        """Replace both indexes by ones for these batches: (position, header), in order.

        A gap in the positions, which damage leaves, is followed by an entry: no walk crosses it.
        """
        self._tail_position = None
        self.offset_index.reset()
        self.time_index.reset()
        self._latest_timestamp, self._latest_offset = self._no_timestamp()
        self._bytes_since_index = expected = 0
        for position, header in batches:
            if position != expected:
                self._bytes_since_index = self._index_interval_bytes + 1
            expected = self._note(
                position, header.size_bytes, header.last_offset, header.max_timestamp
            )
        self.become_inactive()  # right for an active segment too: its next append maps again

    def truncate_to(self, offset: int) -> int:
        """Drop the batches that hold `offset` or more; returns where the segment ends then."""
        found = self.locate(offset)
        self._tail_position = None
        # The indexes first: they must never point past the end of the log.
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transactions.truncate_to(offset)
        if found is not None:
            self.batches.cut(found.position)
            self._bytes_since_index = 0
        return self.next_offset()

    def become_inactive(self) -> None:
        """Write the last time index entry and give back what was preallocated."""
        if not self.time_index.is_full:
            self.time_index.append_if_later(*self.latest)
        self.offset_index.trim()
        self.time_index.trim()
        if self.batches.file.size() > self.size:
            self.batches.cut(self.size)

    def release(self) -> None:
        """Give descriptors and mappings back; slices that are out keep theirs."""
        self.batches.release()
        self.offset_index.release()
        self.time_index.release()

    def rename(self, suffix: str) -> None:
        """Change the suffix of all files, the log last: without it the rest is nothing."""
        for kind in SEGMENT_FILES:
            new = segment_path(self.directory, self.base_offset, kind, suffix)
            if self._files.exists(self.path(kind)):
                self._files.replace(self.path(kind), new)
        self.suffix = suffix
        self._name_files()

    def moved_to(self, directory: str) -> None:
        """The log's directory was renamed."""
        self.directory = directory
        self._name_files()

    def _name_files(self) -> None:
        self.batches.path = self.path(LOG)
        self.offset_index.moved_to(self.path(INDEX))
        self.time_index.moved_to(self.path(TIME_INDEX))
        self.transactions.moved_to(self.path(TXN_INDEX))

    def remove(self) -> None:
        """Delete the files. May run in a thread once no one else uses the segment."""
        self.release()
        for kind in SEGMENT_FILES:
            self._files.remove(self.path(kind))
