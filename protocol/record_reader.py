"""Reading the records of a batch; see `records` for the format, the promises and the figures.

Hot code: varints of one and two bytes are decoded in place, in blocks that all look the same: a
first byte above 127 continues, and a second byte that does not adds its seven bits above (-128
takes back the first one's continuation bit). The raw value is zig-zag: even says n = raw >> 1, odd
says a negative n. The data is always a `bytes` of its own: indexing a memoryview is slower, and
a slice that reaches past the end comes out short, so that the next byte read is the IndexError that
tells.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from .batch_header import (
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    ReadableBuffer,
    read_header,
)
from .compression import MAX_DECOMPRESSED_BYTES, decompress
from .errors import ProtocolError
from .varints import VARLONG_MAX_BYTES, long_varint

Header = tuple[str, bytes | None]

_MIN_HEADER_BYTES = 2
_MAX_SHORT_DELTA = 1 << 13
_MIN_I64, _MAX_I64 = -(1 << 63), (1 << 63) - 1


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class RecordSpan(NamedTuple):
    """What compaction and time look-up ask of a record, and where in the body it lies."""

    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool
    start: int
    end: int


_Timed = TypeVar("_Timed", Record, RecordSpan)


def iter_records(
    buffer: ReadableBuffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    strict: bool = False,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[Record]:
    """The records of the batch at `position`. Decompression happens here, decoding as it is
    iterated: errors come from both."""
    if header is None:
        header = read_header(buffer, position)
    body = read_body(buffer, position, header, max_bytes=max_bytes)
    return iter_body(body, header, strict=strict)


def read_body(
    buffer: ReadableBuffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """The bytes of the batch's records, decompressed."""
    if header is None:
        header = read_header(buffer, position)
    end = position + header.size_bytes
    if end > len(buffer):
        raise ProtocolError(f"record batch of {header.size_bytes} bytes is cut off")
    body = memoryview(buffer)[position + HEADER_BYTES : end]
    return decompress(header.codec_id, body, max_bytes) if header.codec_id else bytes(body)


def iter_body(body: bytes, header: BatchHeader, *, strict: bool = False) -> Iterator[Record]:
    """The records in what `read_body` returned."""
    if header.count < 0:
        raise ProtocolError(f"record batch counts {header.count} records")
    return _checked(_iter_body(body, header, strict), header)


def _iter_body(data: bytes, header: BatchHeader, strict: bool) -> Iterator[Record]:
    base_offset, _, _, _, _, attributes, _, base_timestamp, append_time, *_ = header
    own_time = not attributes & LOG_APPEND_TIME_BIT
    new, record_type = tuple.__new__, Record
    position = 0
    try:
        for index in range(header.count):
            if (raw := data[position]) < 128:
                position += 1
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2
            else:
                raw, position = long_varint(data, position)
            end = -1 if raw & 1 else position + (raw >> 1)
            position += 1  # attributes: no record has any
            if (raw := data[position]) < 128:
                position += 1
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2
            else:
                raw, position = _long_delta(data, position, base_timestamp)
            timestamp = base_timestamp + (raw >> 1 ^ -(raw & 1)) if own_time else append_time

            if (raw := data[position]) < 128:
                position += 1
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2
            else:
                raw, position = long_varint(data, position)
            if raw & 1 or (strict and raw >> 1 != index):
                raise ProtocolError(f"record {index} has an offset out of order")
            offset = base_offset + (raw >> 1)

            if (raw := data[position]) < 128:
                position += 1
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2
            else:
                raw, position = long_varint(data, position)
            if not raw & 1:
                key = data[position : (position := position + (raw >> 1))]
            elif raw == 1:
                key = None
            else:
                raise ProtocolError("record has a key of negative length")

            if (raw := data[position]) < 128:
                position += 1
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2
            else:
                raw, position = long_varint(data, position)
            value = _null(raw) if raw & 1 else data[position : (position := position + (raw >> 1))]

            headers: tuple[Header, ...] = ()
            if data[position]:
                headers, position = _read_headers(data, position)
            else:
                position += 1
            if position != end:
                raise ProtocolError(f"record {index} is not as long as it says")
            yield new(record_type, (offset, timestamp, key, value, headers))
    except IndexError:
        raise ProtocolError("record reaches past the end of its batch") from None
    _check_end(data, position)


def _check_end(data: bytes, position: int) -> None:
    if position != len(data):
        raise ProtocolError(f"{len(data) - position} bytes follow the last record of a batch")


def _null(raw: int) -> bytes | None:
    """What an odd length stands for: -1 is null."""
    if raw == 1:
        return None
    raise ProtocolError("record has a field of negative length")


def _read_headers(data: bytes, position: int) -> tuple[tuple[Header, ...], int]:
    raw, position = long_varint(data, position)
    if raw & 1 or raw >> 1 > (len(data) - position) // _MIN_HEADER_BYTES:
        raise ProtocolError("record counts more headers than it can hold")
    headers = []
    for _ in range(raw >> 1):
        raw, position = long_varint(data, position)
        if raw & 1:
            raise ProtocolError("record header has a key of negative length")
        # Keys that are not UTF-8 come back unchanged when they are written again.
        key = data[position : (position := position + (raw >> 1))].decode(errors="surrogateescape")
        raw, position = long_varint(data, position)
        value = _null(raw) if raw & 1 else data[position : (position := position + (raw >> 1))]
        headers.append((key, value))
    if position > len(data):
        raise IndexError
    return tuple(headers), position


def _long_delta(data: bytes, position: int, base_timestamp: int) -> tuple[int, int]:
    """A timestamp delta of three bytes or more. Added to its base it must not leave 64 bits."""
    raw, position = long_varint(data, position, VARLONG_MAX_BYTES)
    _check_timestamp(base_timestamp + (~(raw >> 1) if raw & 1 else raw >> 1))
    return raw, position


def _check_timestamp(timestamp: int) -> None:
    if not _MIN_I64 <= timestamp <= _MAX_I64:
        raise ProtocolError(f"record has a timestamp out of range: {timestamp}")


def _checked(items: Iterator[_Timed], header: BatchHeader) -> Iterator[_Timed]:
    """Short deltas are added without a look, which is wrong only for a base next to the ends of
    64 bits."""
    if abs(header.base_timestamp) < _MAX_I64 - _MAX_SHORT_DELTA:
        return items
    return _each_checked(items)


def _each_checked(items: Iterator[_Timed]) -> Iterator[_Timed]:
    for item in items:
        _check_timestamp(item.timestamp)
        yield item


def iter_spans(body: bytes, header: BatchHeader) -> Iterator[RecordSpan]:
    """Offsets, timestamps and keys of what `read_body` returned. Of values only whether there is
    one, and of headers nothing, is read or checked."""
    if header.count < 0:
        raise ProtocolError(f"record batch counts {header.count} records")
    return _checked(_iter_spans(body, header), header)


def _iter_spans(data: bytes, header: BatchHeader) -> Iterator[RecordSpan]:
    base_offset, _, _, _, _, attributes, _, base_timestamp, append_time, *_ = header
    own_time = not attributes & LOG_APPEND_TIME_BIT
    new, span_type = tuple.__new__, RecordSpan
    position = 0
    try:
        for index in range(header.count):
            start = position
            if (raw := data[position]) < 128:
                position += 1
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2
            else:
                raw, position = long_varint(data, position)
            end = -1 if raw & 1 else position + (raw >> 1)
            position += 1  # attributes: no record has any
            if (raw := data[position]) < 128:
                position += 1
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2
            else:
                raw, position = _long_delta(data, position, base_timestamp)
            timestamp = base_timestamp + (raw >> 1 ^ -(raw & 1)) if own_time else append_time

            if (raw := data[position]) < 128:
                position += 1
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2
            else:
                raw, position = long_varint(data, position)
            if raw & 1:
                raise ProtocolError(f"record {index} has an offset out of order")
            offset = base_offset + (raw >> 1)

            if (raw := data[position]) < 128:
                position += 1
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2
            else:
                raw, position = long_varint(data, position)
            if not raw & 1:
                key = data[position : (position := position + (raw >> 1))]
            elif raw == 1:
                key = None
            else:
                raise ProtocolError("record has a key of negative length")

            has_value = data[position] != 1
            if not position < end <= len(data):
                raise ProtocolError(f"record {index} is not as long as it says")
            position = end
            yield new(span_type, (offset, timestamp, key, has_value, start, end))
    except IndexError:
        raise ProtocolError("record reaches past the end of its batch") from None
    _check_end(data, position)
