"""Records of different sizes without keys, read as two columns: times and values.

Where records have no common shape (see `record_runs`) each must be walked through, but many are
simple: offsets that follow each other, no key, no headers, a value. The length of such a record
says how the length of its value must be written, so that one comparison checks everything between
its time and its value. Whatever does not fit leaves the whole batch to the plain reader, which
reads it or says what is wrong: nothing is accepted here that is refused there.

Two walks: records of one moment, whose times take a byte, are read as numbers of a fixed size;
others byte by byte.

Hot code. Microseconds per record on Python 3.11 (benchmarks/client_parts.py), until there are
ConsumerRecords:

                   16 x 1 KB    145 x 100 B
    one moment        0.6           0.4
    byte by byte      0.7           0.5
    plainly           0.9           0.8
"""

import struct
from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.records import BatchHeader
from odradek.protocol.varints import VARINT

_NULL: Final = 1
# Offset deltas of one and two bytes, in their encodings.
_OFFSETS: Final = [VARINT[delta] for delta in range(8192)]
_ONE_BYTE: Final = 64
# Beside a value: attributes, time, the missing key, and the count of headers, a byte each.
_OTHERS_BYTES: Final = 4
# The bytes of larger values cost more than their walk. All lengths up to here take two bytes at
# most, so that a third one, which is not looked for, never passes for a part of the record.
_MAX_VALUE_BYTES: Final = 8000


class Columns(NamedTuple):
    """The records of a batch, the first at its base offset and the others right behind."""

    timestamps: list[int]
    values: list[bytes]


def read_columns(body: bytes, header: BatchHeader) -> Columns | None:
    """The records of a body if they are simple; None where the plain reader has to look.

    For times that are the records' own and far from the ends of 64 bits.
    """
    if not 0 < header.count <= len(_OFFSETS):
        return None
    base = header.base_timestamp
    if header.max_timestamp - base < _ONE_BYTE:
        columns = of_one_moment(body, header.count, base)
        if columns is not None:
            return columns
    try:
        return _walked(body, header.count, base)
    except IndexError:
        return None


def _value_bytes(others_bytes: int, record_bytes: int) -> tuple[int, int]:
    """Of a record without key: how long its value is, and how many bytes say so."""
    for length_bytes in (1, 2):
        size = record_bytes - others_bytes - length_bytes
        if 0 <= size <= _MAX_VALUE_BYTES and len(VARINT[size]) == length_bytes:
            return size, length_bytes
    raise IndexError("no record without a key is so long, or none that is read here")


# Records of one moment. What is before a value is taken as three numbers, from the byte before the
# record on, which is the last one's count of headers, on to some bytes that may be the value's:
#
#     length < 64:  | 0 length attributes time | offset | offset? null length value... |
#     longer:       | 0 length length attributes | time | offset offset? null length length? ... |
#
# Shifted, both end alike: offset, null, length and its second byte, or the value's first.

_NUMBERS: Final = Struct(">IBQ")
_LONG_LENGTH: Final = 1 << 23
_SHORT_SHIFT: Final = 8
_WITHOUT_LAST_BYTE: Final = ~0xFF


# Where the value begins and ends, from the byte before the record on, and what is before it.
_Layout = tuple[int, int, int]


class _LayoutsByNumber(dict[int, _Layout]):
    """How records are laid out whose length and offset take so many bytes, by what their first
    number says before the time.

    Only what exists is kept, so that a peer cannot fill it.
    """

    def __init__(self, length_bytes: int, offset_bytes: int) -> None:
        self._length_bytes = length_bytes
        self._offset_bytes = offset_bytes

    def __missing__(self, first: int) -> _Layout:
        before, *length, attributes = first.to_bytes(2 + self._length_bytes)
        raw = length[0] if len(length) == 1 else (length[0] & 0x7F) | length[1] << 7
        if before or attributes or length[-1] > 127 or raw & 1:
            raise IndexError("not a simple record")
        size, size_bytes = _value_bytes(_OTHERS_BYTES + self._offset_bytes, raw >> 1)
        value_at = 1 + self._length_bytes + 3 + self._offset_bytes + size_bytes
        ahead = _NULL << 16 | int.from_bytes(VARINT[size].ljust(2, b"\0"))
        layout = self[first] = value_at, value_at + size, ahead
        return layout


class _Widths:
    """Records whose offset takes so many bytes."""

    def __init__(self, offset_bytes: int) -> None:
        self.short = _LayoutsByNumber(1, offset_bytes)
        self.long = _LayoutsByNumber(2, offset_bytes)
        # Cuts eight bytes to the offset, null, and a length of two bytes.
        self.shift = 8 * (5 - offset_bytes)


_ONE_BYTE_OFFSETS: Final = _Widths(1)
_TWO_BYTE_OFFSETS: Final = _Widths(2)
# Of deltas of one and of two bytes: their encodings before null and a length of two bytes.
_AHEAD: Final = [int.from_bytes(offset) << 24 for offset in _OFFSETS]


def of_one_moment(body: bytes, count: int, base: int) -> Columns | None:
    """The records if their times are less than 64 ms away from the base, and all is simple."""
    data = b"".join((b"\0", body, bytes(_NUMBERS.size)))
    try:
        raw_times, values, position = _walked_by_numbers(
            data, 0, _ONE_BYTE_OFFSETS, _AHEAD[: min(count, _ONE_BYTE)]
        )
        if count > _ONE_BYTE:
            more_times, more_values, position = _walked_by_numbers(
                data, position, _TWO_BYTE_OFFSETS, _AHEAD[_ONE_BYTE:count]
            )
            raw_times += more_times
            values += more_values
    except (IndexError, struct.error):
        return None
    times = {raw: base + (raw >> 1 ^ -(raw & 1)) for raw in set(raw_times)}
    if position != len(body) or data[position] or max(times) > 127:
        return None
    return Columns(list(map(times.__getitem__, raw_times)), values)


def _walked_by_numbers(
    data: bytes, position: int, widths: _Widths, offsets: list[int]
) -> tuple[list[int], list[bytes], int]:
    """Times as they are written, values, and the position of the last record's last byte."""
    times: list[int] = []
    values: list[bytes] = []
    add_time, add_value, unpack = times.append, values.append, _NUMBERS.unpack_from
    short, long = widths.short, widths.long
    shift, short_shift = widths.shift, widths.shift + _SHORT_SHIFT
    for offset in offsets:
        first, time, found = unpack(data, position)
        if first & _LONG_LENGTH:
            value_at, end, ahead = long[first]
            found >>= shift
        else:
            value_at, end, ahead = short[first >> 8]
            found = (time << 64 | found) >> short_shift
            time = first & 0xFF
        ahead += offset
        # A length of one byte stands before a byte of the value, and before 0 in its layout.
        if found != ahead and found & _WITHOUT_LAST_BYTE != ahead:
            raise IndexError("not a simple record")
        add_time(time)
        add_value(data[position + value_at : (position := position + end)])
    return times, values, position


# Records of all times.


class _Layouts(dict[int, tuple[bytes, int]]):
    """By the length of a record without key and offset, as a varint says it: the bytes before the
    value, and how far before the record's end the value begins."""

    def __missing__(self, raw: int) -> tuple[bytes, int]:
        if raw & 1:
            raise IndexError("no length is negative")
        size, _ = _value_bytes(_OTHERS_BYTES, raw >> 1)
        layout = self[raw] = bytes((_NULL,)) + VARINT[size], size + 1
        return layout


_LAYOUTS: Final = _Layouts()


def _walked(body: bytes, count: int, base: int) -> Columns | None:
    times: list[int] = []
    values: list[bytes] = []
    add_time, add_value, layouts = times.append, values.append, _LAYOUTS
    position = 0
    for offset in _OFFSETS[:count]:
        if (raw := body[position]) < 128:
            position += 1
        else:
            raw += (body[position + 1] << 7) - 128
            position += 2
        end = position + (raw >> 1)
        if body[position]:
            return None
        if (time := body[position + 1]) >= 128:
            time += (body[position + 2] << 7) - 128
            if time >= 1 << 14:
                return None
            position += 1
            raw -= 2
        ahead, from_end = layouts[raw - 2 * len(offset)]
        if body[position + 2 : end - from_end] != offset + ahead or body[end - 1]:
            return None
        add_time(base + (time >> 1 ^ -(time & 1)))
        add_value(body[end - from_end : end - 1])
        position = end
    return Columns(times, values) if position == len(body) else None
