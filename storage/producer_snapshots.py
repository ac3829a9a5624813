"""Snapshots of producer state: `<next offset, 20 digits>.snapshot`.

    0 version i16 = 1 | 2 crc u32 (CRC-32C of byte 6 to the end) | 6 count i32 | 10 entries

and 46 bytes for each producer, big-endian:

    0 producer_id i64 | 8 epoch i16 | 10 last_sequence i32 | 14 last_offset i64
    22 offset_delta i32 | 26 timestamp i64 | 34 coordinator_epoch i32
    38 first offset of its open transaction i64, or -1

A snapshot holds the effect of every batch below the offset in its name. One is taken whenever a
segment is rolled (so its offset is the next segment's base offset) and on a clean stop. A file
that fails its checksum is removed: an older one and a longer replay lead to the same state.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from odradek.protocol.checksum import crc32c
from odradek.storage.checkpoints import replace_file
from odradek.storage.files import Files, read_file

SUFFIX = ".snapshot"
VERSION = 1
ENTRY_BYTES = 46
_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_CRC_FROM = 6


class SnapshotEntry(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def encode(entries: Iterable[SnapshotEntry]) -> bytes:
    body = b"".join([_ENTRY.pack(*entry) for entry in entries])
    data = bytearray(_HEAD.pack(VERSION, 0, len(body) // ENTRY_BYTES)) + body
    _HEAD.pack_into(
        data, 0, VERSION, crc32c(memoryview(data)[_CRC_FROM:]), len(body) // ENTRY_BYTES
    )
    return bytes(data)


def decode(data: bytes) -> list[SnapshotEntry]:
    """Raises ValueError for anything but a whole, unharmed snapshot."""
    if len(data) < _HEAD.size:
        raise ValueError(f"{len(data)} bytes are no producer snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"unknown version {version} of a producer snapshot")
    if crc32c(memoryview(data)[_CRC_FROM:]) != crc:
        raise ValueError("a producer snapshot fails its CRC")
    if len(data) != _HEAD.size + count * ENTRY_BYTES:
        raise ValueError(f"a producer snapshot of {count} entries has {len(data)} bytes")
    return [SnapshotEntry._make(row) for row in _ENTRY.iter_unpack(data[_HEAD.size :])]


class Snapshots:
    """The snapshot files of one log. One owner: its producer state."""

    def __init__(self, directory: str, *, files: Files) -> None:
        self._directory = directory
        self._files = files
        names = (entry.name for entry in files.scan(directory))
        self._offsets = {
            int(stem)
            for name in names
            if (stem := name.removesuffix(SUFFIX)) != name and len(stem) == 20 and stem.isdigit()
        }

    @property
    def offsets(self) -> list[int]:
        return sorted(self._offsets)

    def moved_to(self, directory: str) -> None:
        """The log's directory was renamed."""
        self._directory = directory

    def path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SUFFIX}"

    def write(self, offset: int, entries: Iterable[SnapshotEntry], *, sync: bool) -> None:
        replace_file(self._files, self.path(offset), encode(entries), sync=sync)
        self._offsets.add(offset)

    def load_latest(self) -> tuple[int, list[SnapshotEntry]] | None:
        """The newest sound snapshot; damaged newer ones are removed on the way."""
        for offset in reversed(self.offsets):
            try:
                return offset, decode(read_file(self._files, self.path(offset)))
            except (ValueError, FileNotFoundError):
                self.remove(offset)
        return None

    def remove(self, offset: int) -> None:
        self._files.remove(self.path(offset))
        self._offsets.discard(offset)

    def remove_outside(self, after: int, up_to: int) -> None:
        """Keep only those in (after, up_to]."""
        for offset in self.offsets:
            if not after < offset <= up_to:
                self.remove(offset)

    def remove_stray(self, segment_bases: Iterable[int]) -> None:
        """Keep those of segments, and a newer one than all of them (from a clean stop)."""
        bases = set(segment_bases)
        newest = max(bases, default=-1)
        latest = max(self._offsets, default=-1)
        for offset in self.offsets:
            if offset not in bases and not (offset == latest and offset > newest):
                self.remove(offset)
