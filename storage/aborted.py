"""The aborted transactions of one segment (`.txnindex`).

A sequence of 34-byte entries, big-endian, ordered by their last offset:

    0 version i16 = 0 | 2 producer_id i64 | 10 first_offset i64 | 18 last_offset i64
    26 last_stable_offset i64

first_offset is that of the transaction's first record, perhaps in an earlier segment;
last_offset that of its abort marker, which lies in this segment; last_stable_offset is the LSO
right after the marker was appended: when a reader's range ends at or below it, no later entry
can concern the range. Committed transactions leave no entry, and without aborted ones there is
no file.

The bytes are held in memory from the first use on; most segments have none. One owner: the
segment.
"""

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from odradek.storage.files import File, Files, read_file, write_fully

VERSION = 0
ENTRY_BYTES = 34
_ENTRY = Struct(">hqqqq")


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Collected(NamedTuple):
    """Aborted transactions overlapping a range; `is_complete` when no later segment matters."""

    transactions: list[AbortedTxn]
    is_complete: bool


class TransactionIndex:
    def __init__(self, path: str, *, files: Files) -> None:
        self.path = path
        self._files = files
        self._file: File | None = None
        self._loaded: bytearray | None = None

    @property
    def _data(self) -> bytearray:
        if self._loaded is None:
            try:
                self._loaded = bytearray(read_file(self._files, self.path))
            except FileNotFoundError:
                self._loaded = bytearray()
        return self._loaded

    def __len__(self) -> int:
        return len(self._data) // ENTRY_BYTES

    def __iter__(self) -> Iterator[AbortedTxn]:
        return (self._entry(number) for number in range(len(self)))

    def _entry(self, number: int) -> AbortedTxn:
        return AbortedTxn._make(_ENTRY.unpack_from(self._data, number * ENTRY_BYTES)[1:])

    def _from_last_offset(self, offset: int) -> int:
        """The number of the first entry whose transaction ended at or after `offset`."""
        return bisect_left(range(len(self)), offset, key=lambda n: self._entry(n).last_offset)

    def append(self, transaction: AbortedTxn) -> None:
        data = self._data
        if data and self._entry(len(self) - 1).last_offset >= transaction.last_offset:
            raise ValueError(f"{self.path}: {transaction} does not follow the last entry")
        entry = _ENTRY.pack(VERSION, *transaction)
        if self._file is None:
            self._file = self._files.open(self.path, create=True)
        write_fully(self._file, entry, len(data))
        data += entry

    def collect(self, fetch_offset: int, upper_bound: int) -> Collected:
        """Transactions with records in [fetch_offset, upper_bound)."""
        found = []
        for number in range(self._from_last_offset(fetch_offset), len(self)):
            transaction = self._entry(number)
            if transaction.first_offset < upper_bound:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound:
                return Collected(found, True)
        return Collected(found, False)

    def truncate_to(self, offset: int) -> None:
        """Forget transactions whose marker lies at or after `offset`."""
        size = self._from_last_offset(offset) * ENTRY_BYTES
        if size == len(self._data):
            return
        if self._file is None:
            self._file = self._files.open(self.path)
        self._file.truncate(size)
        del self._data[size:]

    def sanity_check(self, base_offset: int) -> str | None:
        """What is wrong with the file, or None. A wrong one is removed and made again from the
        segment's batches."""
        data = self._data
        if len(data) % ENTRY_BYTES:
            return f"{self.path}: {len(data)} bytes are not whole entries"
        previous = base_offset - 1
        for number in range(len(self)):
            version, _, first, last, stable = _ENTRY.unpack_from(data, number * ENTRY_BYTES)
            if version != VERSION:
                return f"{self.path}: entry {number} has version {version}"
            if not (0 <= first <= last and previous < last and stable >= 0):
                return f"{self.path}: entry {number} ({first} to {last}) is out of place"
            previous = last
        return None

    def flush(self) -> None:
        if self._file is not None:
            self._file.sync()

    def reset(self) -> None:
        """Remove the file and every entry."""
        self._file = None
        self._loaded = bytearray()
        self._files.remove(self.path)

    def moved_to(self, path: str) -> None:
        """The owner has renamed the file."""
        self.path = path
