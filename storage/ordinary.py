"""The short way into a log, for the batches that nearly all producers send.

An ordinary batch is one whole batch of format 2, with a good checksum, that needs no change but
its offset and epoch: no control batch, no timestamps or codec to convert, no keys to look at.
`read_ordinary` recognises it in one function; whatever it does not recognise takes the long way
through `validation`, which also finds out what is wrong and says so. The two must agree on what
is good; tests/unit/storage/test_ordinary.py sends the same batches both ways.

Hot code: an append of 16 KB takes 20 µs of CPU time on this way, 12 of them for the write and the
checksum alone, and 32 on the long one (benchmarks/storage.py, rows append).
"""

from struct import Struct

from odradek.protocol.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)
from odradek.protocol.checksum import crc32c
from odradek.protocol.compression import Codec
from odradek.protocol.errors import ProtocolError
from odradek.protocol.records import BatchHeader, WritableBuffer
from odradek.protocol.settings import MAX_LONG
from odradek.storage.files import Buffer
from odradek.storage.framing import check_framing
from odradek.storage.log_config import LogConfig
from odradek.storage.validation import Origin

_UNUSUAL_BITS = ~(CODEC_MASK | TRANSACTIONAL_BIT)
_unpack = HEADER.unpack_from
_new = tuple.__new__
_write_stamp = Struct(">qii").pack_into


_NOBODY: tuple[Origin, ...] = ()
_COORDINATORS = (Origin.COORDINATOR,)
_ALL = (Origin.CLIENT, Origin.COORDINATOR)


def takes_ordinary_from(config: LogConfig) -> tuple[Origin, ...]:
    """Of whom a topic takes batches as they come; of a coordinator also without a look at keys and
    timestamps. Logs share what this returns."""
    if config.compression_type != "producer" or config.uses_append_time:
        return _NOBODY
    if (
        config.is_compacted
        or config.oldest_timestamp_lag_ms != MAX_LONG
        or config.newest_timestamp_lead_ms != MAX_LONG
    ):
        return _COORDINATORS
    return _ALL


def read_ordinary(data: WritableBuffer, max_bytes: int) -> BatchHeader | None:
    """The header of an ordinary batch, which fills `data`; None for anything else."""
    size = len(data)
    if not HEADER_BYTES <= size <= max_bytes:
        return None
    row = _unpack(data, 0)
    base_offset, length, _, magic, crc, attributes, delta, _, _, producer_id, epoch, sequence, n = (
        row
    )
    codec_id = attributes & CODEC_MASK
    if (
        magic != MAGIC
        or length != size - LOG_OVERHEAD_BYTES
        or base_offset
        or not 0 < n == delta + 1
        or attributes & _UNUSUAL_BITS
        or codec_id > Codec.ZSTD
    ):
        return None
    if (epoch < 0 or sequence < 0) if producer_id >= 0 else attributes & TRANSACTIONAL_BIT:
        return None
    whole = memoryview(data)
    if whole.readonly or crc32c(whole[CRC_FROM:]) != crc:
        return None
    if not codec_id:
        try:
            check_framing(data, HEADER_BYTES, size, n)
        except ProtocolError:
            return None
    return _new(BatchHeader, row)


def read_continuing(data: Buffer, next_offset: int, leader_epoch: int | None) -> BatchHeader | None:
    """The header of one whole batch as a leader sends it most of the time: it fills `data`, goes on
    at `next_offset` in the same epoch, is no marker, and is intact. None for anything else."""
    size = len(data)
    if size < HEADER_BYTES:
        return None
    row = _unpack(data, 0)
    base_offset, length, epoch, magic, crc, attributes, delta = row[:7]
    if (
        magic != MAGIC
        or base_offset != next_offset
        or length != size - LOG_OVERHEAD_BYTES
        or epoch != leader_epoch
        or attributes & CONTROL_BIT
        or delta < 0
        or crc32c(memoryview(data)[CRC_FROM:]) != crc
    ):
        return None
    return _new(BatchHeader, row)


def stamp(data: WritableBuffer, header: BatchHeader, offset: int, leader_epoch: int) -> None:
    """Write offset and epoch into the batch that `header` was read from; outside its CRC."""
    _write_stamp(data, 0, offset, header.length, leader_epoch)
