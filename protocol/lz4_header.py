"""The header checksum of an lz4 frame, right and as log format 0 had it.

A frame starts: magic (4 bytes), FLG, BD, content size (8 bytes, if FLG bit 3), HC. HC is the second
byte of xxHash32 over what lies between magic and HC. Clients and brokers of format 0 hashed the
magic too, and format 0 is stuck with it: its readers expect the wrong byte, and the lz4 library
refuses it. Only `compression` calls this.
"""

_MAGIC = b"\x04\x22\x4d\x18"
_CONTENT_SIZE_BIT = 0x08
_DICTIONARY_BIT = 0x01

_PRIME_1 = 2654435761
_PRIME_2 = 2246822519
_PRIME_3 = 3266489917
_PRIME_4 = 668265263
_PRIME_5 = 374761393
_MASK = 0xFFFFFFFF


def with_right_checksum(frame: bytes) -> bytes:
    """What the library accepts, whatever HC was written."""
    return _with_checksum_over(frame, start=len(_MAGIC))


def with_legacy_checksum(frame: bytes) -> bytes:
    """What readers of format 0 accept."""
    return _with_checksum_over(frame, start=0)


def _with_checksum_over(frame: bytes, start: int) -> bytes:
    checksum_at = _checksum_at(frame)
    if checksum_at is None:
        return frame
    checksum = _short_xxhash32(frame[start:checksum_at]) >> 8 & 0xFF
    return frame[:checksum_at] + bytes([checksum]) + frame[checksum_at + 1 :]


def _checksum_at(frame: bytes) -> int | None:
    """None for what is no frame we could mend; the library then says what is wrong with it."""
    if len(frame) < 7 or not frame.startswith(_MAGIC) or frame[4] & _DICTIONARY_BIT:
        return None
    checksum_at = 14 if frame[4] & _CONTENT_SIZE_BIT else 6
    return checksum_at if checksum_at < len(frame) else None


def _short_xxhash32(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, for which it needs no stripes."""
    value = _PRIME_5 + len(data)
    whole_words = len(data) // 4 * 4
    for start in range(0, whole_words, 4):
        value += int.from_bytes(data[start : start + 4], "little") * _PRIME_3
        value = _rotated(value, 17) * _PRIME_4
    for byte in data[whole_words:]:
        value = _rotated(value + byte * _PRIME_5, 11) * _PRIME_1
    value &= _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
