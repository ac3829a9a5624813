"""Codecs: round trips, agreement with other libraries' framing, hostile data."""

import gzip
import random
import time
import tracemalloc
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.codec import lz4_encode, snappy_decode, snappy_encode
from odradek.protocol.compression import (
    Codec,
    DecompressionTooLarge,
    compress,
    decompress,
)
from odradek.protocol.errors import ProtocolError

REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]
MIB = 1024 * 1024

# Magic, version, oldest compatible version, then one block.
XERIAL_VECTOR = bytes.fromhex("82534e4150505900 00000001 00000001 00000007 05106b61666b61")


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=2000), repeat=st.sampled_from([1, 2, 50, 700]))
def test_what_is_compressed_comes_back(codec: Codec, data: bytes, repeat: int) -> None:
    assert decompress(codec, compress(codec, data * repeat)) == data * repeat


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_memoryview_is_read_as_bytes_are(codec: Codec) -> None:
    packed = compress(codec, b"record" * 1000)
    assert decompress(codec, memoryview(b"##" + packed)[2:]) == b"record" * 1000


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (1, 9)), (Codec.LZ4, (1, 12)), (Codec.ZSTD, (1, 19))],
)
def test_a_higher_level_makes_it_smaller(codec: Codec, levels: tuple[int, int]) -> None:
    words = [b"alpha", b"beta", b"gamma", b"delta", b"epsilon"]
    chance = random.Random(7)
    data = b" ".join(chance.choice(words) for _ in range(20_000))
    low, high = (compress(codec, data, level) for level in levels)
    assert len(high) < len(low)
    assert decompress(codec, low) == decompress(codec, high) == data


def test_snappy_is_framed_as_java_does_it() -> None:
    assert compress(Codec.SNAPPY, b"kafka") == XERIAL_VECTOR
    assert snappy_decode(compress(Codec.SNAPPY, b"kafka" * 30_000)) == b"kafka" * 30_000


@pytest.mark.parametrize("encode", [snappy.compress, snappy_encode])
def test_snappy_is_read_with_and_without_framing(encode: Callable[[bytes], bytes]) -> None:
    assert decompress(Codec.SNAPPY, encode(b"kafka" * 30_000)) == b"kafka" * 30_000


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, b"kafka" * 100_000))
    assert info["block_linked"] is False


@pytest.mark.parametrize("encode", [lz4.frame.compress, lz4_encode])
def test_lz4_of_other_writers_is_read(encode: Callable[[bytes], bytes]) -> None:
    assert decompress(Codec.LZ4, encode(b"kafka" * 100_000)) == b"kafka" * 100_000


def test_lz4_of_format_0_has_and_needs_the_wrong_header_checksum() -> None:
    data = b"kafka" * 1000
    right, wrong = compress(Codec.LZ4, data), compress(Codec.LZ4, data, legacy_lz4=True)
    # xxHash32 over magic, FLG 0x60 and BD 0x40, instead of over the last two: 0x1a, not 0x82.
    assert (right[:7].hex(), wrong[:7].hex()) == ("04224d18604082", "04224d1860401a")
    assert right[7:] == wrong[7:]
    with pytest.raises(ProtocolError, match="lz4"):
        decompress(Codec.LZ4, wrong)
    assert decompress(Codec.LZ4, wrong, legacy_lz4=True) == data
    assert decompress(Codec.LZ4, right, legacy_lz4=True) == data


def test_lz4_header_checksum_is_right_with_a_content_size_too() -> None:
    frame = lz4.frame.compress(b"kafka" * 1000, store_size=True)
    broken = frame[:14] + bytes([frame[14] ^ 0xFF]) + frame[15:]
    assert decompress(Codec.LZ4, broken, legacy_lz4=True) == b"kafka" * 1000


def test_gzip_and_zstd_may_come_in_several_members() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    frames = zstandard.compress(b"one ") + _zstd_without_size(b"two") + _skippable(b"not content")
    assert decompress(Codec.ZSTD, frames) == b"one two"


def test_too_many_gzip_members_are_refused() -> None:
    with pytest.raises(ProtocolError, match="members"):
        decompress(Codec.GZIP, gzip.compress(b"") * 1000)


def test_an_unknown_codec_is_refused() -> None:
    for codec_id in (5, 7, -1):
        with pytest.raises(ProtocolError, match="codec"):
            decompress(codec_id, b"data")


@pytest.mark.parametrize("codec", list(Codec))
def test_the_cap_is_exact(codec: Codec) -> None:
    packed = compress(codec, bytes(200_000))
    assert len(decompress(codec, packed, 200_000)) == 200_000
    with pytest.raises(DecompressionTooLarge):
        decompress(codec, packed, 199_999)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_data_cut_off_anywhere_is_refused(codec: Codec) -> None:
    packed = compress(codec, b"abcdefgh" * 60)
    for end in range(len(packed)):
        if codec is Codec.SNAPPY and end in (16,):
            continue  # the header alone is a valid stream of no blocks
        with pytest.raises(ProtocolError):
            decompress(codec, packed[:end])


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bytes_after_the_end_are_refused(codec: Codec) -> None:
    with pytest.raises(ProtocolError):
        decompress(codec, compress(codec, b"abcdefgh" * 60) + b"junk")


def test_zstd_data_of_a_streaming_writer_cut_off_is_refused() -> None:
    whole = _zstd_without_size(random.Random(1).randbytes(300_000))
    assert len(decompress(Codec.ZSTD, whole)) == 300_000
    for end in (1, 5, 100, 131_100, 200_000, len(whole) - 1):
        with pytest.raises(ProtocolError, match="zstd"):
            decompress(Codec.ZSTD, whole[:end])


@pytest.mark.parametrize("codec", REAL_CODECS)
@settings(max_examples=400, deadline=None)
@given(random_source=st.randoms(use_true_random=False), garbage=st.binary(max_size=64))
def test_damaged_data_raises_nothing_but_protocol_errors(
    codec: Codec, random_source: random.Random, garbage: bytes
) -> None:
    packed = bytearray(compress(codec, random_source.randbytes(200) * 5))
    for _ in range(random_source.randint(1, 4)):
        packed[random_source.randrange(len(packed))] = random_source.randrange(256)
    at = random_source.randrange(len(packed))
    for data in (bytes(packed), bytes(packed[:at]) + garbage, garbage):
        try:
            decompress(codec, data, MIB)
        except ProtocolError:
            continue


def _gzip_bomb() -> bytes:
    """After a full flush a block needs nothing before it, so that it can be repeated."""
    writer = zlib.compressobj(9, zlib.DEFLATED, 31)
    header = writer.compress(b"") + writer.flush(zlib.Z_FULL_FLUSH)
    block = writer.compress(bytes(16 * MIB)) + writer.flush(zlib.Z_FULL_FLUSH)
    return header + block * (MIB // len(block))


def _zstd_bomb() -> bytes:
    """RLE blocks of 128 KiB, four bytes each: 1 MiB stands for 32 GiB."""
    header = b"\x28\xb5\x2f\xfd\x00\x58"  # no content size, a window of 2 MiB
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (1 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return header + block * (MIB // 4) + last


def _lz4_bomb() -> bytes:
    frame = lz4.frame.compress(bytes(4 * MIB), block_linked=False, store_size=False)
    blocks = frame[7:-4]
    return frame[:7] + blocks * (MIB // len(blocks) + 1) + frame[-4:]


def _snappy_bomb() -> bytes:
    block = snappy.compress(bytes(MIB))
    framed = len(block).to_bytes(4, "big") + block
    return XERIAL_VECTOR[:16] + framed * (MIB // len(framed))


@pytest.mark.parametrize(
    ("codec", "make_bomb"),
    [
        (Codec.GZIP, _gzip_bomb),
        (Codec.SNAPPY, _snappy_bomb),
        (Codec.LZ4, _lz4_bomb),
        (Codec.ZSTD, _zstd_bomb),
    ],
)
def test_a_bomb_stops_at_the_cap(codec: Codec, make_bomb: Callable[[], bytes]) -> None:
    bomb = make_bomb()
    cap = 4 * MIB
    peak, seconds = _peak_and_seconds(codec, bomb, cap, DecompressionTooLarge)
    # The output is held twice when it is joined; nothing depends on what the bomb would become.
    assert peak < 3 * cap
    assert seconds < 5


@pytest.mark.parametrize(
    ("codec", "forged"),
    [
        (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f\x00abc"),
        (Codec.SNAPPY, b"\x80\x80\x80\x20\x00abc"),  # 64 MiB: below the cap, above what 8 can hold
        (Codec.SNAPPY, XERIAL_VECTOR[:16] + b"\x00\x00\x00\x08\x80\x80\x80\x20\x00abc"),
        (Codec.SNAPPY, XERIAL_VECTOR[:16] + b"\x7f\xff\xff\xff\x00abc"),
        (Codec.LZ4, lz4.frame.compress(b"x", store_size=True)[:6] + b"\xff" * 7 + b"\x00\x00abc"),
        (Codec.ZSTD, b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 7 + b"\x00" + b"\x09\x00\x00a"),
    ],
)
def test_a_forged_size_allocates_nothing(codec: Codec, forged: bytes) -> None:
    peak, _ = _peak_and_seconds(codec, forged, 128 * MIB, ProtocolError)
    assert peak < MIB


def _peak_and_seconds(
    codec: Codec, data: bytes, cap: int, expected: type[ProtocolError]
) -> tuple[int, float]:
    started = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(expected):
            decompress(codec, data, cap)
        return tracemalloc.get_traced_memory()[1], time.monotonic() - started
    finally:
        tracemalloc.stop()


def _zstd_without_size(data: bytes) -> bytes:
    writer = zstandard.ZstdCompressor().compressobj()
    return writer.compress(data) + writer.flush()


def _skippable(content: bytes) -> bytes:
    return b"\x53\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content
