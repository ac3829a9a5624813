"""Zig-zag varints as records use them: 32-bit "varints" and 64-bit "varlongs".

`VARINT[n]` is the encoding of n: computed, and looked up from then on for the numbers that records
are full of (one and two bytes). Decoding of one and two bytes is written out in `record_reader`,
where a call per field would double the time; `long_varint` is its slow way out.
"""

from .errors import ProtocolError

VARINT_MAX_BYTES = 5
VARLONG_MAX_BYTES = 10
_MIN_I64, _MAX_I64 = -(1 << 63), (1 << 63) - 1
# Peers choose the numbers, and the table must not grow with them.
_KEPT = range(-64, 8192)


def _encode(number: int) -> bytes:
    if not _MIN_I64 <= number <= _MAX_I64:
        raise ValueError(f"{number} is too big for a varint")
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class _Encodings(dict[int, bytes]):
    def __missing__(self, number: int) -> bytes:
        encoded = _encode(number)
        if number in _KEPT:
            self[number] = encoded
        return encoded


VARINT = _Encodings()


def long_varint(data: bytes, position: int, max_bytes: int = VARINT_MAX_BYTES) -> tuple[int, int]:
    """The raw value (before zig-zag) that starts at `position`, and the position after it.
    Raises IndexError where the data ends, as the callers' own reading does."""
    raw = 0
    for index in range(max_bytes):
        byte = data[position + index]
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    else:
        raise ProtocolError(f"varint is longer than {max_bytes} bytes")
    if raw >> (32 if max_bytes == VARINT_MAX_BYTES else 64):
        raise ProtocolError("varint is out of range")
    return raw, position + index + 1
