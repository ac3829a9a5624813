"""The 61-byte header of a record batch (magic 2): reading, checking and stamping it in place.

    0 base_offset i64 | 8 length i32 | 12 leader_epoch i32 | 16 magic i8 | 17 crc u32
    21 attributes i16 | 23 last_offset_delta i32 | 27 base_timestamp i64 | 35 max_timestamp i64
    43 producer_id i64 | 51 producer_epoch i16 | 53 base_sequence i32 | 57 count i32 | 61 records

`length` counts the bytes after itself. The CRC-32C covers byte 21 to the end, so base offset and
leader epoch are stamped without touching it. Everything here works on any buffer at a position,
copies nothing and looks at no record. Users import these names from `records`.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from .checksum import crc32c
from .compression import Codec
from .errors import Errors, KafkaError, ProtocolError

ReadableBuffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

HEADER_BYTES = 61
MAGIC = 2
# Bytes that `length` does not count: base_offset and itself.
LOG_OVERHEAD_BYTES = 12

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

HEADER = Struct(">qiibIhiqqqhii")
_OFFSET_LENGTH_EPOCH = Struct(">qii")
_OFFSET_LENGTH = Struct(">qi")
_CRC = Struct(">I")
_PRODUCER = Struct(">qhi")
_I64 = Struct(">q")
_I16 = Struct(">h")
_MAGIC_AT = 16
_CRC_AT = 17
CRC_FROM = 21
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43
_SEQUENCE_MODULUS = 1 << 31


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class UnsupportedMagic(ProtocolError):
    """A batch whose format is not version 2; `magic` says which it claims."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"record batch has magic {magic}, expected {MAGIC}")
        self.magic = magic


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    # The wire's own name; nobody counts occurrences in a header.
    count: int  # type: ignore[assignment]

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD_BYTES + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_MODULUS

    @property
    def codec_id(self) -> int:
        """The raw codec bits, 0 to 7: a peer may send an id that no codec has."""
        return self.attributes & CODEC_MASK

    @property
    def codec(self) -> Codec:
        return Codec.from_id(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop this batch's tombstones and markers: bit 6 says that it was
        written over base_timestamp (record deltas then count from it)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


_unpack_header = HEADER.unpack_from
_make_header = BatchHeader._make


def read_header(buffer: ReadableBuffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Its length may reach past the buffer; its magic is 2."""
    if position + HEADER_BYTES > len(buffer):
        raise _no_header(buffer, position)
    header = _make_header(_unpack_header(buffer, position))
    if header.magic != MAGIC:
        raise UnsupportedMagic(header.magic)
    if header.length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise ProtocolError(f"record batch of {header.length} bytes is smaller than its header")
    return header


def _no_header(buffer: ReadableBuffer, position: int) -> ProtocolError:
    """A short old-format message is named as such, not as a truncated batch."""
    magic = peek_magic(buffer, position)
    if magic is not None and magic != MAGIC:
        return UnsupportedMagic(magic)
    return ProtocolError(
        f"record batch needs {HEADER_BYTES} bytes of header, {max(0, len(buffer) - position)} left"
    )


def peek_magic(buffer: ReadableBuffer, position: int = 0) -> int | None:
    """The format version of the batch or message at `position`: all formats keep it in one place.
    None when there are too few bytes to tell."""
    if position + _MAGIC_AT >= len(buffer):
        return None
    magic = buffer[position + _MAGIC_AT]
    return magic - 256 if magic > 127 else magic


def iter_headers(buffer: ReadableBuffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch. A batch cut off by the end of the buffer ends the
    walk silently, because fetched bytes may stop anywhere; who needs every byte accounted for
    compares the last position + size_bytes with the buffer's length."""
    end = len(buffer)
    while end - position >= LOG_OVERHEAD_BYTES:
        _, length = _OFFSET_LENGTH.unpack_from(buffer, position)
        if length >= 0 and position + LOG_OVERHEAD_BYTES + length > end:
            return
        header = read_header(buffer, position)
        yield position, header
        position += LOG_OVERHEAD_BYTES + length


def crc_of(buffer: ReadableBuffer, position: int, size_bytes: int) -> int:
    """The CRC-32C that the batch at `position` should carry."""
    with memoryview(buffer) as whole:
        value: int = crc32c(whole[position + CRC_FROM : position + size_bytes])
    return value


def crc_matches(buffer: ReadableBuffer, position: int, header: BatchHeader) -> bool:
    if position + header.size_bytes > len(buffer):
        return False
    return crc_of(buffer, position, header.size_bytes) == header.crc


def check_crc(buffer: ReadableBuffer, position: int = 0, header: BatchHeader | None = None) -> None:
    """Raises CORRUPT_MESSAGE unless the batch is whole and its checksum is right."""
    if header is None:
        header = read_header(buffer, position)
    if not crc_matches(buffer, position, header):
        raise KafkaError(
            Errors.CORRUPT_MESSAGE, f"record batch at offset {header.base_offset} fails its CRC"
        )


def write_base_offset_and_epoch(
    buffer: WritableBuffer, position: int, base_offset: int, leader_epoch: int
) -> None:
    """What a leader stamps on every appended batch; outside the CRC."""
    _, length = _OFFSET_LENGTH.unpack_from(buffer, position)
    _OFFSET_LENGTH_EPOCH.pack_into(buffer, position, base_offset, length, leader_epoch)


def set_log_append_time(buffer: WritableBuffer, position: int, timestamp_ms: int) -> None:
    """Turn the batch's timestamps into the broker's one: bit 3, max_timestamp, and the CRC again.
    Record timestamp deltas stay; readers of a LogAppendTime batch ignore them."""
    header = read_header(buffer, position)
    attributes = header.attributes | LOG_APPEND_TIME_BIT
    _I16.pack_into(buffer, position + CRC_FROM, attributes)
    _I64.pack_into(buffer, position + _MAX_TIMESTAMP_AT, timestamp_ms)
    write_crc(buffer, position, header.size_bytes)


def set_producer(
    buffer: WritableBuffer,
    position: int,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> None:
    """Give a built batch another producer epoch and sequence, as a retry after a bump needs."""
    size_bytes = read_header(buffer, position).size_bytes
    _PRODUCER.pack_into(buffer, position + _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    write_crc(buffer, position, size_bytes)


def set_create_time(buffer: WritableBuffer, position: int) -> None:
    """Let the records' own timestamps count: clear bit 3, and the CRC again."""
    header = read_header(buffer, position)
    _I16.pack_into(buffer, position + CRC_FROM, header.attributes & ~LOG_APPEND_TIME_BIT)
    write_crc(buffer, position, header.size_bytes)


def write_crc(buffer: WritableBuffer, position: int, size_bytes: int) -> None:
    """Seal the batch after a change inside what the CRC covers."""
    _CRC.pack_into(buffer, position + _CRC_AT, crc_of(buffer, position, size_bytes))


def pack_batch(header: BatchHeader, body: bytes) -> bytes:
    """A whole batch of `body` (compressed as the attributes say): length and CRC are computed,
    the other fields are taken from `header`."""
    fields = list(header)
    fields[1] = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(body)
    fields[4] = 0
    packed = bytearray(HEADER.pack(*fields))
    _CRC.pack_into(packed, _CRC_AT, crc32c(body, crc32c(packed[CRC_FROM:])))
    return bytes(packed) + body
