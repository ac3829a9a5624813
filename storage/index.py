"""The two sparse indexes of a segment: memory-mapped, append-only, rebuilt on doubt.

    .index      8 bytes: relative offset u32 | position u32      offset of a batch's last record
    .timeindex 12 bytes: timestamp i64 | relative offset u32     largest timestamp so far

Entries grow strictly, all numbers are big-endian, and relative offsets count from the segment's
base offset. The files carry no checksum: `recovery` checks and rebuilds them from the log. The
file of the active segment is preallocated to its full size, so entries end where `count` says
and not where the file does; `trim` cuts it when the segment becomes inactive or closes.

Opening is lazy. An index costs a descriptor and a mapping only once it is searched or grown, so
thousands of inactive segments cost nothing.

Search (the fenced hot part): the interpreter cannot bisect big-endian entries in place, so every
16th key is kept as a plain array of numbers. A C bisect over that array and another over the 16
entries it points at take 1.4 / 2.6 / 2.9 µs for 1 / 1,000 / 100,000 entries (benchmarks/storage.py,
row index_lookup); a bisect over the mapping alone goes from 0.5 to 4.1 µs.

Only the owner of the segment calls this, from one thread.
"""

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from functools import partial
from struct import Struct
from typing import Generic, NamedTuple, TypeVar

from odradek.storage.files import Files, Mapping

_STRIDE = 16
_MAX_U32 = 0xFFFFFFFF


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


EntryT = TypeVar("EntryT", OffsetPosition, TimestampOffset)


class _Index(ABC, Generic[EntryT]):
    """Two numbers an entry, sorted by both; the first is the search key."""

    _entry: Struct
    _key_code: str

    def __init__(
        self, files: Files, path: str, *, base_offset: int, max_bytes: int, size: int = 0
    ) -> None:
        """`size` is the length of the existing file: whole entries only, without zeros behind."""
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self._entry_bytes = self._entry.size
        self._capacity = max_bytes // self._entry_bytes
        self.count = size // self._entry_bytes
        self.is_full = self.count >= self._capacity
        self._mapping: Mapping | None = None
        self._mapped_entries = 0
        self._room = 0
        self._samples = array(self._key_code)
        self._forget_buffer()

    @property
    def size_bytes(self) -> int:
        return self.count * self._entry_bytes

    def entries(self) -> list[EntryT]:
        self._open()
        return [self._at(slot) for slot in range(self.count)]

    def last(self) -> EntryT | None:
        if not self.count:
            return None
        self._open()
        return self._at(self.count - 1)

    def trim(self) -> None:
        """Unmap and cut the file to its entries, creating it when it never had any."""
        self.release()
        self._files.open(self.path, create=True).truncate(self.size_bytes)

    def release(self) -> None:
        """Give mapping and descriptor back; the next use maps again."""
        if self._mapping is not None:
            self._forget_buffer()
            self._mapping.close()
            self._mapping = None
            self._mapped_entries = self._room = 0
            del self._samples[:]

    def reset(self) -> None:
        """Forget all entries, and write from the start: the first step of a rebuild."""
        self._keep(0)

    def moved_to(self, path: str) -> None:
        """The file was renamed. A mapping, if any, stays good."""
        self.path = path

    @abstractmethod
    def _at(self, slot: int) -> EntryT: ...

    def _forget_buffer(self) -> None:
        self._read = partial(self._entry.unpack_from, b"")
        self._write = partial(self._entry.pack_into, bytearray())

    def _keep(self, count: int) -> None:
        self.count = count
        self.is_full = count >= self._capacity
        del self._samples[(count + _STRIDE - 1) // _STRIDE :]

    def _slot_before(self, key: tuple[int, int]) -> int:
        """The slot of the largest entry <= key, or -1. A key's second number breaks ties."""
        self._open()
        block = bisect_right(self._samples, key[0]) * _STRIDE - _STRIDE
        if block < 0:
            return -1
        width = self._entry_bytes
        start = block * width
        end = min(block + _STRIDE, self.count) * width
        found = bisect_right(range(start, end, width), key, key=self._read)
        return block + found - 1

    def _append(self, key: int, value: int) -> None:
        slot = self.count
        if slot >= self._room:
            self._make_room()
        self._write(slot * self._entry_bytes, key, value)
        if slot % _STRIDE == 0:
            self._samples.append(key)
        self.count = slot = slot + 1
        if slot >= self._capacity:
            self.is_full = True

    def _open(self) -> None:
        if self._mapping is None and self.count:
            self._map(self.count)

    def _make_room(self) -> None:
        """Map the whole capacity at the first append, and reserve disk blocks step by step."""
        if self.is_full:
            raise OverflowError(f"{self.path} is full at {self.count} entries")
        if self._mapping is None or self._mapped_entries < self._capacity:
            self.release()
            self._map(self._capacity)
        assert self._mapping is not None, "just mapped"
        reserved = self._mapping.reserve(self.size_bytes + self._entry_bytes)
        self._room = reserved // self._entry_bytes

    def _map(self, entries: int) -> None:
        mapping = self._files.map(self.path, entries * self._entry_bytes)
        self._mapping = mapping
        self._mapped_entries = entries
        self._read = partial(self._entry.unpack_from, mapping.buffer)
        self._write = partial(self._entry.pack_into, mapping.buffer)
        step = _STRIDE * self._entry_bytes
        keys = (self._read(at)[0] for at in range(0, self.size_bytes, step))
        self._samples = array(self._key_code, keys)


class OffsetIndex(_Index[OffsetPosition]):
    """Last offset of a batch -> where that batch starts in the log file."""

    _entry = Struct(">II")
    _key_code = "I"

    def append(self, offset: int, position: int) -> None:
        self._append(offset - self.base_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last indexed batch that ends at or before `offset`, or the segment's start."""
        slot = self._slot_before((offset - self.base_offset, _MAX_U32))
        return self._at(slot) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def lookup_position(self, position: int) -> OffsetPosition:
        """The last indexed batch that starts at or before `position`, or the segment's start."""
        self._open()
        read = self._read
        found = bisect_right(range(0, self.size_bytes, 8), position, key=lambda at: read(at)[1])
        return self._at(found - 1) if found else OffsetPosition(self.base_offset, 0)

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        self._keep(self._slot_before((offset - self.base_offset - 1, _MAX_U32)) + 1)

    def _at(self, slot: int) -> OffsetPosition:
        relative, position = self._read(slot * 8)
        return OffsetPosition(self.base_offset + relative, position)


class TimeIndex(_Index[TimestampOffset]):
    """Largest timestamp so far -> last offset of the batch that holds it."""

    _entry = Struct(">qI")
    _key_code = "q"

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Record a new maximum; an equal or earlier timestamp, or no timestamp, adds nothing."""
        if timestamp < 0:
            return
        if self.count:
            if self._mapping is None:
                self._open()
            if timestamp <= self._read(self.count * 12 - 12)[0]:
                return
        self._append(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset | None:
        """The last entry whose timestamp is <= the given one."""
        slot = self._slot_before((timestamp, _MAX_U32))
        return self._at(slot) if slot >= 0 else None

    def truncate_to(self, offset: int) -> None:
        """Drop entries that point at or above `offset`."""
        self._open()
        read = self._read
        kept = bisect_left(
            range(0, self.size_bytes, 12), offset - self.base_offset, key=lambda at: read(at)[1]
        )
        self._keep(kept)

    def _at(self, slot: int) -> TimestampOffset:
        timestamp, relative = self._read(slot * 12)
        return TimestampOffset(timestamp, self.base_offset + relative)
