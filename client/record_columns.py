"""Records of different sizes without keys, read as two columns: times and values.

Where records have no common shape (see `record_runs`) each must be walked through, but many are
simple: offsets that follow each other, no key, no headers, a value. The length of such a record
says how the length of its value must be written, so that one comparison checks everything between
its time and its value. Whatever does not fit leaves the whole batch to the plain reader, which
reads it or says what is wrong: nothing is accepted here that is refused there.

Hot code. Microseconds per record on Python 3.11 (benchmarks/client_parts.py):

               16 x 1 KB    145 x 100 B
    here          0.9           0.6
    plainly       1.2           1.0
"""

from typing import Final, NamedTuple

from odradek.protocol.varints import VARINT

_NULL: Final = 1
# Offset deltas of one and two bytes, in their encodings.
_OFFSETS: Final = [VARINT[delta] for delta in range(8192)]
# Beside a value: attributes, time, the missing key, and the count of headers, a byte each.
_OTHERS_BYTES: Final = 4
# The bytes of larger values cost more than their walk. All lengths up to here take two bytes at
# most, so that a third one, which is not looked for, never passes for a part of the record.
_MAX_VALUE_BYTES: Final = 8000


class Columns(NamedTuple):
    """The records of a batch, the first at its base offset and the others right behind."""

    time_deltas: list[int]
    values: list[bytes]


class _Layouts(dict[int, tuple[bytes, int]]):
    """By the length of a record without key and offset, as a varint says it: the bytes before the
    value, and how far before the record's end the value begins."""

    def __missing__(self, raw: int) -> tuple[bytes, int]:
        for length_bytes in (1, 2):
            size = (raw >> 1) - _OTHERS_BYTES - length_bytes
            is_read_here = 0 <= size <= _MAX_VALUE_BYTES and not raw & 1
            if is_read_here and len(VARINT[size]) == length_bytes:
                layout = self[raw] = bytes((_NULL,)) + VARINT[size], size + 1
                return layout
        raise IndexError("no record without a key is so long, or none that is read here")


_LAYOUTS: Final = _Layouts()


def read_columns(body: bytes, count: int) -> Columns | None:
    """The records of a body if they are simple; None where the plain reader has to look."""
    if not 0 < count <= len(_OFFSETS):
        return None
    try:
        return _walked(body, count)
    except IndexError:
        return None


def _walked(body: bytes, count: int) -> Columns | None:
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
        add_time(time >> 1 ^ -(time & 1))
        add_value(body[end - from_end : end - 1])
        position = end
    return Columns(times, values) if position == len(body) else None
