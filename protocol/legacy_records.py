"""Message sets, the formats before record batches (magic 0 and 1), and conversion from and to them.

    0 offset i64 | 8 size i32 | 12 crc u32 | 16 magic i8 | 17 attributes i8
    [18 timestamp i64, magic 1] | key length i32 (-1: null), key | value length i32, value

`size` counts the bytes after itself; the CRC is the IEEE one, over magic to the end. Attributes:
bits 0-2 codec, bit 3 LogAppendTime (magic 1). A compressed message is a wrapper whose value is a
message set; it has the offset of its last inner message. Inner offsets count from the first message
in magic 1 and are the real ones in magic 0.

They live only on the wire: Produce v0-2 is converted to one batch on its way in, Fetch v0-3 from
batches on its way out. Like `records`, the reader believes nothing: lies are ProtocolError, a wrong
CRC is CORRUPT_MESSAGE, and decompression is capped.
"""

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from .compression import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from .errors import Errors, KafkaError, ProtocolError
from .records import (
    NO_TIMESTAMP,
    BatchBuilder,
    ReadableBuffer,
    Record,
    TimestampType,
    UnsupportedMagic,
    iter_headers,
    iter_records,
)

_OFFSET_AND_SIZE = Struct(">qi")
_CRC_MAGIC_ATTRIBUTES = Struct(">Ibb")
_MAGIC_ATTRIBUTES = Struct(">bb")
_I64 = Struct(">q")
_I32 = Struct(">i")
_CRC_BYTES = 4
_CODEC_MASK = 0x07
_LOG_APPEND_TIME_BIT = 0x08
_LEGACY_MAGICS = (0, 1)
_NULL = -1


class Message(NamedTuple):
    """One entry of a message set as it stands: a record, or a wrapper around more of them."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec_id(self) -> int:
        return self.attributes & _CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.magic > 0 and self.attributes & _LOG_APPEND_TIME_BIT != 0

    @property
    def record(self) -> Record:
        return Record(self.offset, self.timestamp, self.key, self.value)


# --- reading


def iter_messages(buffer: ReadableBuffer, *, may_be_cut_off: bool = False) -> Iterator[Message]:
    """The entries of a message set, their CRCs checked. What a broker sends may be cut off at the
    end, which then is the end; what a producer sends may not."""
    data = bytes(buffer)
    position = 0
    while position < len(data):
        body_at = position + _OFFSET_AND_SIZE.size
        if body_at > len(data):
            break
        offset, size_bytes = _OFFSET_AND_SIZE.unpack_from(data, position)
        if size_bytes < 0:
            raise ProtocolError(f"message of {size_bytes} bytes")
        if body_at + size_bytes > len(data):
            break
        yield _read_message(offset, data[body_at : body_at + size_bytes])
        position = body_at + size_bytes
    if position < len(data) and not may_be_cut_off:
        raise ProtocolError("message set is cut off")


def _read_message(offset: int, body: bytes) -> Message:
    if len(body) < _CRC_MAGIC_ATTRIBUTES.size:
        raise ProtocolError(f"message of {len(body)} bytes")
    crc, magic, attributes = _CRC_MAGIC_ATTRIBUTES.unpack_from(body)
    if magic not in _LEGACY_MAGICS:
        raise UnsupportedMagic(magic)
    if zlib.crc32(body[_CRC_BYTES:]) != crc:
        raise KafkaError(Errors.CORRUPT_MESSAGE, f"message at offset {offset} fails its CRC")
    position = _CRC_MAGIC_ATTRIBUTES.size
    timestamp = NO_TIMESTAMP
    if magic:
        if len(body) < position + _I64.size:
            raise ProtocolError(f"message of {len(body)} bytes")
        (timestamp,) = _I64.unpack_from(body, position)
        position += _I64.size
    key, position = _read_bytes(body, position)
    value, position = _read_bytes(body, position)
    if position != len(body):
        raise ProtocolError("message is not as long as it says")
    return Message(offset, magic, attributes, timestamp, key, value)


def _read_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    start = position + _I32.size
    if start > len(body):
        raise ProtocolError("message ends too soon")
    (length,) = _I32.unpack_from(body, position)
    if length == _NULL:
        return None, start
    if not 0 <= length <= len(body) - start:
        raise ProtocolError("message has a key or value of impossible length")
    return body[start : start + length], start + length


def iter_legacy_records(
    buffer: ReadableBuffer,
    *,
    may_be_cut_off: bool = False,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """All records, those inside compressed messages too; `max_bytes` bounds all wrappers
    together."""
    for message in iter_messages(buffer, may_be_cut_off=may_be_cut_off):
        if not message.codec_id:
            yield message.record
            continue
        unwrapped, inner_bytes = _unwrap(message, max_bytes)
        max_bytes -= inner_bytes
        yield from unwrapped


def _unwrap(wrapper: Message, max_bytes: int) -> tuple[list[Record], int]:
    """The records in a compressed message, and how many bytes they took."""
    if wrapper.codec_id == Codec.ZSTD:
        raise _no_zstd()
    if wrapper.value is None:
        raise ProtocolError("compressed message has no value")
    data = decompress(wrapper.codec_id, wrapper.value, max_bytes, legacy_lz4=wrapper.magic == 0)
    inner = list(iter_messages(data))
    if not inner:
        raise ProtocolError("compressed message holds no message")
    if any(message.codec_id or message.magic != wrapper.magic for message in inner):
        raise ProtocolError("compressed message holds one of another format")
    base_offset = wrapper.offset - inner[-1].offset if wrapper.magic else 0
    records = [
        Record(
            base_offset + message.offset,
            wrapper.timestamp if wrapper.is_log_append_time else message.timestamp,
            message.key,
            message.value,
        )
        for message in inner
    ]
    return records, len(data)


def _no_zstd() -> KafkaError:
    return KafkaError(Errors.UNSUPPORTED_COMPRESSION_TYPE, "message sets know no zstd")


# --- building


def build_message_set(
    records: Sequence[Record],
    magic: int,
    codec: Codec = Codec.NONE,
    *,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """The records at their own offsets, in one wrapper if there is a codec. What the format has no
    place for is left out: headers, and in magic 0 timestamps."""
    assert magic in _LEGACY_MAGICS
    attributes = _LOG_APPEND_TIME_BIT if magic and timestamp_type else 0
    if codec is Codec.NONE or not records:
        return b"".join(_pack(record, magic, attributes) for record in records)
    first, last = records[0].offset, records[-1].offset
    inner = b"".join(
        _pack(record, magic, attributes, base_offset=first if magic else 0) for record in records
    )
    wrapper = Record(
        offset=last,
        timestamp=max(record.timestamp for record in records),
        key=None,
        value=compress(codec, inner, legacy_lz4=magic == 0),
    )
    return _pack(wrapper, magic, attributes | codec)


def _pack(record: Record, magic: int, attributes: int, *, base_offset: int = 0) -> bytes:
    timestamp = _I64.pack(record.timestamp) if magic else b""
    body = b"".join(
        (
            _MAGIC_ATTRIBUTES.pack(magic, attributes),
            timestamp,
            *_sized(record.key),
            *_sized(record.value),
        )
    )
    offset_and_size = _OFFSET_AND_SIZE.pack(record.offset - base_offset, _CRC_BYTES + len(body))
    return offset_and_size + zlib.crc32(body).to_bytes(_CRC_BYTES, "big") + body


def _sized(content: bytes | None) -> tuple[bytes, bytes]:
    return (_I32.pack(_NULL), b"") if content is None else (_I32.pack(len(content)), content)


# --- conversion


def up_convert(message_set: ReadableBuffer, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """One batch of everything a producer of Produce v0-2 sent, at offsets 0, 1, 2, ... and
    compressed as the messages were (as the last one was, if they differ)."""
    messages = list(iter_messages(message_set))
    if not messages:
        raise ProtocolError("message set is empty")
    if any(message.is_log_append_time for message in messages):
        raise KafkaError(Errors.INVALID_TIMESTAMP, "only the broker may set LogAppendTime")
    codec = next((m.codec_id for m in reversed(messages) if m.codec_id), Codec.NONE)
    builder = BatchBuilder(Codec.from_id(codec))
    for record in iter_legacy_records(message_set, max_bytes=max_bytes):
        if record.timestamp < NO_TIMESTAMP:
            raise KafkaError(Errors.INVALID_TIMESTAMP, f"timestamp {record.timestamp}")
        try:
            builder.append(record.timestamp, record.key, record.value)
        except ValueError as error:
            raise KafkaError(Errors.INVALID_TIMESTAMP, str(error)) from None
    return builder.build()


def down_convert(
    batches: ReadableBuffer,
    magic: int,
    *,
    first_offset: int = 0,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """What a consumer of Fetch v0-3 is sent instead of `batches`: records from `first_offset` on,
    without control batches, which it would take for data. `max_bytes` bounds each batch."""
    parts = []
    for position, header in iter_headers(batches):
        if header.is_control or header.last_offset < first_offset:
            continue
        if header.codec_id == Codec.ZSTD:
            raise _no_zstd()
        records = [
            record
            for record in iter_records(batches, position, header, max_bytes=max_bytes)
            if record.offset >= first_offset
        ]
        codec, timestamp_type = header.codec, header.timestamp_type
        parts.append(build_message_set(records, magic, codec, timestamp_type=timestamp_type))
    return b"".join(parts)
