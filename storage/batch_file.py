"""A file of record batches, one behind the other: appending, walking and finding in it.

`size` is what has been written, which may be less than the file's length when it is preallocated.
Walks begin at a batch boundary. What is no batch where one must be is CORRUPT_MESSAGE, except for
`valid_batches`, which exists to find out where the good part ends.

A hole is a stretch of bytes that recovery found broken in the middle of the file. Walks pass over
it as if it were one batch with the offsets that are missing; nobody is given its bytes.

The file is opened at first use. One owner, the segment; slices may leave its thread.
"""

import errno
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.records import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    crc_matches,
    read_header,
)
from odradek.storage.files import Buffer, File, Files, FileSlice

# base_offset, length and last_offset_delta: all that finding a batch needs.
_BOUNDS = Struct(">qi11xi")
_MAGIC_AT = 16
_LEAST_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES
_LOOKUP_BYTES = 4096
_SCAN_BYTES = 1 << 20


class Located(NamedTuple):
    """A batch found by offset."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


class ValidBatch(NamedTuple):
    """A whole batch whose checksum is right."""

    position: int
    header: BatchHeader
    data: memoryview


class BatchFile:
    __slots__ = ("_file", "_files", "_holes", "path", "size")

    def __init__(self, files: Files, path: str, size: int = 0) -> None:
        self._files = files
        self._file: File | None = None
        self._holes: dict[int, Located] = {}
        self.path = path
        self.size = size

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path)
        return self._file

    def create(self, preallocate_bytes: int) -> None:
        self._file = self._files.open(self.path, create=True)
        if preallocate_bytes:
            self._file.allocate(preallocate_bytes)

    def append(self, data: Buffer) -> None:
        file, length = self._file or self.file, len(data)
        if file.pwrite(data, self.size) != length:
            raise OSError(errno.EIO, "short write", self.path)
        self.size += length

    def cut(self, size: int) -> None:
        """Forget every byte from `size` on, and what was preallocated."""
        self.file.truncate(size)
        self.size = size
        self._holes = {at: hole for at, hole in self._holes.items() if at < size}

    def note_hole(self, hole: Located) -> None:
        self._holes[hole.position] = hole

    def release(self) -> None:
        """Give the descriptor back; slices that are out keep it."""
        self._file = None

    def slice(self, position: int, length: int) -> FileSlice:
        return FileSlice(self.file, position, length)

    def read(self, position: int, size_bytes: int) -> bytes:
        return self.file.pread(size_bytes, position)

    # Walking --------------------------------------------------------------------------------

    def begins_batch(self, position: int, *, at_least: int, at_most: int) -> bool:
        """Whether what starts here looks like a batch with a base offset in that range."""
        head = self.file.pread(_BOUNDS.size, position)
        if position >= self.size or len(head) < _BOUNDS.size or head[_MAGIC_AT] != MAGIC:
            return False
        base_offset, length, _ = _BOUNDS.unpack(head)
        return bool(at_least <= base_offset <= at_most and length >= _LEAST_LENGTH)

    def find(self, offset: int, position: int) -> Located | None:
        """The first batch from `position` on whose last offset is at or above `offset`."""
        end, holes = self.size, self._holes
        pread = self.file.pread
        while position < end:
            if holes and (hole := holes.get(position)):
                if hole.last_offset >= offset:
                    return hole
                position += hole.size_bytes
                continue
            chunk = pread(_LOOKUP_BYTES, position)
            at, last = 0, min(len(chunk), end - position) - _BOUNDS.size
            while at <= last and not (holes and position + at in holes):
                base_offset, length, delta = _BOUNDS.unpack_from(chunk, at)
                if length < _LEAST_LENGTH or chunk[at + _MAGIC_AT] != MAGIC:
                    raise self._corrupt(position + at)
                if base_offset + delta >= offset:
                    size_bytes = LOG_OVERHEAD_BYTES + length
                    return Located(position + at, size_bytes, base_offset, base_offset + delta)
                at += LOG_OVERHEAD_BYTES + length
            if at == 0:
                raise self._corrupt(position)
            position += at
        return None

    def boundary_before(self, limit: int, position: int) -> int:
        """The end of the last batch, walking from `position`, that ends at or before `limit`."""
        while position < self.size:
            size_bytes = self._size_at(position)
            if position + size_bytes > limit:
                return position
            position += size_bytes
        return position

    def _size_at(self, position: int) -> int:
        if position in self._holes:
            return self._holes[position].size_bytes
        head = self.file.pread(_BOUNDS.size, position)
        if len(head) < _BOUNDS.size:
            raise self._corrupt(position)
        length: int = _BOUNDS.unpack(head)[1]
        if length < _LEAST_LENGTH:
            raise self._corrupt(position)
        return LOG_OVERHEAD_BYTES + length

    def header_at(self, position: int) -> BatchHeader:
        return self._header(self.file.pread(HEADER_BYTES, position), 0, position)

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every batch; a cut-off one is corrupt."""
        end, holes = self.size, self._holes
        while position < end:
            if position in holes:
                position += holes[position].size_bytes
                continue
            chunk = self.file.pread(_LOOKUP_BYTES, position)
            at, last = 0, min(len(chunk), end - position) - HEADER_BYTES
            while at <= last and position + at not in holes:
                header = self._header(chunk, at, position + at)
                if position + at + header.size_bytes > end:
                    raise self._corrupt(position + at)
                yield position + at, header
                at += header.size_bytes
            if at == 0:
                raise self._corrupt(position)
            position += at

    def _header(self, chunk: bytes, at: int, position: int) -> BatchHeader:
        try:
            return read_header(chunk, at)
        except ProtocolError as error:
            raise self._corrupt(position) from error

    def _corrupt(self, position: int) -> KafkaError:
        where = f"there is no batch at position {position} of {self.path}"
        return KafkaError(Errors.CORRUPT_MESSAGE, where)

    # Checking -------------------------------------------------------------------------------

    def valid_batches(self, position: int = 0) -> Iterator[ValidBatch]:
        """Whole batches with a good checksum, up to the first that is not."""
        end = self.size
        while end - position >= HEADER_BYTES:
            chunk = memoryview(self.read(position, min(_SCAN_BYTES, end - position)))
            good_bytes = 0
            for at, header in _whole_batches(chunk):
                if not crc_matches(chunk, at, header):
                    return
                good_bytes = at + header.size_bytes
                yield ValidBatch(position + at, header, chunk[at:good_bytes])
            if good_bytes == 0:
                # The batch is larger than the chunk, or it is no batch.
                batch = self.valid_batch_at(position)
                if batch is None:
                    return
                yield batch
                good_bytes = batch.header.size_bytes
            position += good_bytes

    def valid_batch_at(self, position: int) -> ValidBatch | None:
        try:
            header = read_header(self.read(position, HEADER_BYTES))
        except ProtocolError:
            return None
        if position + header.size_bytes > self.size:
            return None
        data = memoryview(self.read(position, header.size_bytes))
        return ValidBatch(position, header, data) if crc_matches(data, 0, header) else None

    def next_valid_batch(self, position: int, *, at_least: int, below: int) -> ValidBatch | None:
        """The first good batch behind the broken one at `position`, with a base offset in that
        range: where the broken one's length says, or else wherever one can be found."""
        head = self.read(position, _BOUNDS.size)
        if len(head) == _BOUNDS.size:
            length: int = _BOUNDS.unpack(head)[1]
            batch = self.valid_batch_at(position + LOG_OVERHEAD_BYTES + length)
            if length > 0 and batch and at_least <= batch.header.base_offset < below:
                return batch
        for candidate in self._positions_of_magic(position + 1):
            if self.begins_batch(candidate, at_least=at_least, at_most=below - 1):
                batch = self.valid_batch_at(candidate)
                if batch is not None:
                    return batch
        return None

    def _positions_of_magic(self, position: int) -> Iterator[int]:
        """Where a batch could begin, going by the one byte that every batch has in common."""
        magic = bytes([MAGIC])
        while position < self.size:
            chunk = self.read(position, _SCAN_BYTES)
            at = chunk.find(magic, _MAGIC_AT)
            while at >= 0:
                yield position + at - _MAGIC_AT
                at = chunk.find(magic, at + 1)
            # Overlap, so that no batch hides at the end of a chunk.
            position += len(chunk) - _MAGIC_AT if len(chunk) == _SCAN_BYTES else len(chunk)


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
