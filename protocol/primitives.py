"""Lengths and varints, the small change of the wire format.

Compiled codecs read the first byte of a length themselves and call here only when it is not the
last; so the plain loops below are off the hot path. Reading past the end raises IndexError, which
the callers of compiled code turn into ProtocolError.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from odradek.protocol.errors import ProtocolError

Buffer = bytes | bytearray

MAX_STRING_BYTES: Final = 32_767

_KEPT_VECTORS: Final = 256

# The encoding of every unsigned varint that takes one byte.
ONE_BYTE: Final = tuple(bytes([value]) for value in range(128))


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and the position after it."""
    first = buffer[position]
    position += 1
    if first < 128:
        return first, position
    return finish_uvarint(buffer, first, position)


def finish_uvarint(buffer: Buffer, first: int, position: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte had its continuation bit set."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                raise ProtocolError("varint does not fit in 32 bits")
            return value, position
    raise ProtocolError("varint longer than 5 bytes")


def uvarint(value: int) -> bytes:
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text_uvarint(value: int) -> bytes:
    """The compact length of a text, which is one more than its bytes."""
    if value > MAX_STRING_BYTES + 1:
        raise ValueError(f"a text of {value - 1} bytes is too long to be sent")
    return uvarint(value)


def skip_tagged_fields(buffer: Buffer, count: int, position: int) -> int:
    """The position after a section of `count` tagged fields that nobody here knows."""
    if count > 127:
        count, position = finish_uvarint(buffer, count, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise ProtocolError("tagged field ends past the end of the message")
    return position


class Vectors(dict[int, Callable[..., Any]]):
    """A method of the Struct of n values of one format after a fixed prefix, made on demand.

    Vectors("hB", "i", "pack")[3] is Struct(">hB3i").pack. Only short ones are kept.
    """

    def __init__(self, prefix: str, code: str, method: str) -> None:
        super().__init__()
        self._prefix = prefix
        self._code = code
        self._method = method

    def __missing__(self, count: int) -> Callable[..., Any]:
        code = self._code
        values = f"{count}{code}" if len(code) == 1 else code * count
        made: Callable[..., Any] = getattr(Struct(f">{self._prefix}{values}"), self._method)
        if count <= _KEPT_VECTORS:
            self[count] = made
        return made
