"""The codecs of record batches: compress what we write, decompress what others wrote.

Peers choose what we decompress, so `decompress` never trusts a size that the data declares: output
is drawn in chunks and counted, and passing `max_bytes` ends it with DecompressionTooLarge (a 1 MiB
bomb of 10 GiB costs the cap and no more). Everything else wrong with the data is a ProtocolError.
No state is kept, so any thread may call.

Snappy is framed as Java's library does (magic, version, then blocks of i32 length); unframed
snappy, which other clients write, is read too. An lz4 frame is written with independent blocks,
the only kind that Java clients read. Format 0 of the log computed the frame's header checksum
over the wrong bytes; `legacy_lz4` writes that mistake and forgives it.
"""

import zlib
from collections.abc import Iterable, Iterator
from enum import IntEnum

import lz4.frame
import snappy
import zstandard

from .errors import ProtocolError
from .lz4_header import with_legacy_checksum, with_right_checksum
from .zstd_frames import ends_with_a_whole_frame

# Far above any batch a sane producer makes, far below what hurts.
MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024

_CHUNK_BYTES = 64 * 1024
_MAX_GZIP_MEMBERS = 64
_GZIP_WINDOW_BITS = 31

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
# The best snappy can do is 64 bytes for a 3-byte copy; a declared length above that is a lie.
_SNAPPY_MAX_RATIO = 22


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_id(cls, codec_id: int) -> "Codec":
        if not 0 <= codec_id <= 4:
            raise ProtocolError(f"no codec has the id {codec_id}")
        return cls(codec_id)


class DecompressionTooLarge(ProtocolError):
    """The data holds, or claims to hold, more than the caller allows."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"compressed data holds more than {max_bytes} bytes")


def compress(
    codec: Codec, data: bytes, level: int | None = None, *, legacy_lz4: bool = False
) -> bytes:
    """`level` is the codec's own scale; None is its usual level. Snappy has none."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return zlib.compress(data, -1 if level is None else level, _GZIP_WINDOW_BITS)
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            frame: bytes = lz4.frame.compress(
                data, compression_level=level or 0, block_linked=False, store_size=False
            )
            return with_legacy_checksum(frame) if legacy_lz4 else frame
        case Codec.ZSTD:
            return zstandard.ZstdCompressor(3 if level is None else level).compress(data)


def decompress(
    codec: int,
    data: bytes | memoryview,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
    *,
    legacy_lz4: bool = False,
) -> bytes:
    match Codec.from_id(codec):
        case Codec.NONE:
            return _joined([bytes(data)], max_bytes)
        case Codec.GZIP:
            return _joined(_gunzip(data, max_bytes), max_bytes)
        case Codec.SNAPPY:
            return _joined(_decompress_snappy(bytes(data), max_bytes), max_bytes)
        case Codec.LZ4:
            frame = with_right_checksum(bytes(data)) if legacy_lz4 else data
            return _joined(_decompress_lz4(frame), max_bytes)
        case Codec.ZSTD:
            return _joined(_decompress_zstd(bytes(data)), max_bytes)


def _joined(chunks: Iterable[bytes], max_bytes: int) -> bytes:
    kept: list[bytes] = []
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > max_bytes:
            raise DecompressionTooLarge(max_bytes)
        kept.append(chunk)
    return kept[0] if len(kept) == 1 else b"".join(kept)


def _gunzip(data: bytes | memoryview, max_bytes: int) -> Iterator[bytes]:
    """Each member in one call: zlib grows its output step by step up to the limit, whereas calling
    it in chunks would copy the rest of the input every time. For the same reason the number of
    members is bounded."""
    rest: bytes | memoryview = data
    for _ in range(_MAX_GZIP_MEMBERS):
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            out = member.decompress(rest, max_bytes + 1)
        except zlib.error as error:
            raise ProtocolError(f"corrupt gzip data: {error}") from None
        yield out
        if not member.eof:
            raise ProtocolError("gzip data ends too soon")
        rest = member.unused_data
        if not rest:
            return
    raise ProtocolError("gzip data has too many members")


def _compress_snappy(data: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block: bytes = snappy.compress(data[start : start + _XERIAL_BLOCK_BYTES])
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes, max_bytes: int) -> Iterator[bytes]:
    if not data.startswith(_XERIAL_MAGIC):
        yield _decompress_snappy_block(data, max_bytes)
        return
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise ProtocolError("snappy data ends within its header")
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[start - 4 : start], "big")
        if position > len(data):
            raise ProtocolError("snappy block reaches past the end of the data")
        yield _decompress_snappy_block(data[start:position], max_bytes)


def _decompress_snappy_block(block: bytes, max_bytes: int) -> bytes:
    declared_bytes = _snappy_declared_bytes(block)
    if declared_bytes > max_bytes:
        raise DecompressionTooLarge(max_bytes)
    if declared_bytes > _SNAPPY_MAX_RATIO * len(block):
        raise ProtocolError(f"snappy block of {len(block)} bytes declares {declared_bytes}")
    try:
        out: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise ProtocolError(f"corrupt snappy data: {error.__cause__}") from None
    return out


def _snappy_declared_bytes(block: bytes) -> int:
    """A block starts with its uncompressed length, a varint of at most 32 bits."""
    declared = 0
    for index, byte in enumerate(block[:5]):
        declared |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return declared
    raise ProtocolError("corrupt snappy data: no length")


def _decompress_lz4(frame: bytes | memoryview) -> Iterator[bytes]:
    """By hand instead of LZ4FrameDecompressor, which copies the unread input on every call."""
    context = lz4.frame.create_decompression_context()
    rest = memoryview(frame)
    while True:
        try:
            chunk, read_bytes, ended = lz4.frame.decompress_chunk(
                context, rest, max_length=_CHUNK_BYTES
            )
        except RuntimeError as error:
            raise ProtocolError(f"corrupt lz4 data: {error}") from None
        yield chunk
        rest = rest[read_bytes:]
        if ended:
            break
        if not read_bytes and not chunk:
            raise ProtocolError("lz4 data ends too soon")
    if rest:
        raise ProtocolError(f"{len(rest)} bytes follow the lz4 frame")


def _decompress_zstd(data: bytes) -> Iterator[bytes]:
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    try:
        while chunk := reader.read(_CHUNK_BYTES):
            yield chunk
    except zstandard.ZstdError as error:
        raise ProtocolError(f"corrupt zstd data: {error}") from None
    if not ends_with_a_whole_frame(data):
        # The library returns the part that it understood and says nothing.
        raise ProtocolError("zstd data ends too soon")
