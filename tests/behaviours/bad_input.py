"""Batches that no producer should send and names that no topic can have."""

import struct
from collections.abc import Callable

from odradek.protocol.errors import Errors
from odradek.protocol.legacy_records import build_message_set
from odradek.protocol.records import ProducerStamp, Record, write_crc

from tests.behaviours.asking import NOW_MS, batch

ILLEGAL_NAMES = ["", ".", "..", "../x", "a/b", "a\0b", "ümlaut", "x" * 250]


def changed(change: Callable[[bytearray], None], *, crc: bool = True) -> bytes:
    """A good batch with something done to it, and a fresh checksum unless told otherwise."""
    made = bytearray(batch(b"one", b"two"))
    change(made)
    if crc:
        write_crc(made, 0, len(made))
    return bytes(made)


def put(position: int, format_: str, value: int) -> Callable[[bytearray], None]:
    return lambda made: struct.pack_into(">" + format_, made, position, value)


# Each with the error that tells of it; where None, one of two may.
BAD_BATCHES = {
    "wrong checksum": (changed(put(70, "b", 1), crc=False), Errors.CORRUPT_MESSAGE),
    "magic 3": (changed(put(16, "b", 3), crc=False), Errors.CORRUPT_MESSAGE),
    "shorter than it says": (batch(b"abc")[:-2], Errors.INVALID_RECORD),
    "length below a header": (changed(put(8, "i", 10), crc=False), Errors.CORRUPT_MESSAGE),
    "base offset": (changed(put(0, "q", 5)), Errors.INVALID_RECORD),
    "count above the offsets": (changed(put(57, "i", 3)), Errors.INVALID_RECORD),
    "count zero": (changed(put(57, "i", 0)), Errors.INVALID_RECORD),
    "count below zero": (changed(put(57, "i", -1)), Errors.INVALID_RECORD),
    "old format": (
        build_message_set([Record(0, NOW_MS, None, b"old", ())], magic=1),
        Errors.INVALID_RECORD,
    ),
    "two batches": (batch(b"a") + batch(b"b"), Errors.INVALID_RECORD),
    "no batch": (b"", Errors.INVALID_RECORD),
    "control batch": (changed(put(21, "h", 0x20)), Errors.INVALID_RECORD),
    "sequence missing": (
        batch(producer=ProducerStamp(1, 0, -1)),
        Errors.INVALID_RECORD,
    ),
    "a record that lies about its length": (changed(put(61, "b", 0x70)), None),
}
