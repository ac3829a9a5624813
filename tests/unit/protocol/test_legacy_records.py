"""Message sets (magic 0 and 1): reading, building, conversion, agreement with other clients."""

import tracemalloc
import zlib
from random import Random
from struct import Struct

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatch as AiokafkaSet
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords
from odradek.protocol.compression import Codec, DecompressionTooLarge, compress
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.legacy_records import (
    build_message_set,
    down_convert,
    iter_legacy_records,
    iter_messages,
    up_convert,
)
from odradek.protocol.records import (
    NO_TIMESTAMP,
    EndTxnMarker,
    Record,
    TimestampType,
    UnsupportedMagic,
    build_batch,
    check_crc,
    end_txn_marker,
    iter_records,
    read_header,
    set_log_append_time,
    write_base_offset_and_epoch,
)

NOW = 1_700_000_000_000
MAGICS = [0, 1]
LEGACY_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]

nullable_bytes = st.none() | st.binary(max_size=100)
contents = st.lists(
    st.tuples(st.integers(-1, 2**50), nullable_bytes, nullable_bytes), min_size=1, max_size=12
)
Content = list[tuple[int, bytes | None, bytes | None]]


def records_of(content: Content, magic: int, base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + index, timestamp if magic else NO_TIMESTAMP, key, value)
        for index, (timestamp, key, value) in enumerate(content)
    ]


def plain(count: int = 3, base_offset: int = 0) -> list[Record]:
    return [Record(base_offset + n, NOW + n, b"key%d" % n, b"value") for n in range(count)]


# --- round trips


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", LEGACY_CODECS)
@settings(max_examples=40, deadline=None)
@given(content=contents, base_offset=st.integers(0, 2**40))
def test_records_come_back_as_they_were_built(
    magic: int, codec: Codec, content: Content, base_offset: int
) -> None:
    records = records_of(content, magic, base_offset)
    assert list(iter_legacy_records(build_message_set(records, magic, codec))) == records


def test_a_wrapper_has_the_last_offset_and_the_newest_timestamp() -> None:
    records = [Record(70, NOW + 9, None, b"a"), Record(75, NOW, None, b"b")]
    (wrapper,) = iter_messages(build_message_set(records, 1, Codec.GZIP))
    assert (wrapper.offset, wrapper.timestamp, wrapper.codec_id) == (75, NOW + 9, Codec.GZIP)
    assert list(iter_legacy_records(build_message_set(records, 1, Codec.GZIP))) == records


def test_log_append_time_of_a_wrapper_holds_for_what_it_wraps() -> None:
    built = build_message_set(
        plain(), 1, Codec.SNAPPY, timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    assert {record.timestamp for record in iter_legacy_records(built)} == {NOW + 2}


def test_a_cut_off_end_is_the_end_of_what_was_fetched_and_an_error_in_what_is_produced() -> None:
    whole, more = build_message_set(plain(2), 1), build_message_set(plain(1, base_offset=2), 1)
    for size in range(1, len(more)):
        cut = whole + more[:size]
        assert list(iter_legacy_records(cut, may_be_cut_off=True)) == plain(2)
        with pytest.raises(ProtocolError):
            list(iter_legacy_records(cut))


# --- agreement with other clients


def theirs(builder_type: type, magic: int, codec: Codec, content: Content) -> bytes:
    if builder_type is AiokafkaBuilder:
        builder = builder_type(magic, int(codec), 1 << 30)
    else:
        builder = builder_type(magic=magic, compression_type=int(codec), batch_size=1 << 30)
    for index, (timestamp, key, value) in enumerate(content):
        assert builder.append(index, timestamp, key, value) is not None
    return bytes(builder.build())


def they_can(magic: int, codec: Codec) -> bool:
    """Both need a package for the wrong checksum of lz4 in magic 0, which is no part of tests."""
    return not (magic == 0 and codec is Codec.LZ4)


COMBINATIONS = [(m, c) for m in MAGICS for c in LEGACY_CODECS if they_can(m, c)]


@pytest.mark.parametrize("builder_type", [KafkaPythonBuilder, AiokafkaBuilder])
@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
@settings(max_examples=20, deadline=None)
@given(content=contents)
def test_message_sets_of_other_clients_are_read(
    builder_type: type, magic: int, codec: Codec, content: Content
) -> None:
    read = list(iter_legacy_records(theirs(builder_type, magic, codec, content)))
    # Their wrappers have offset 0, the broker's business; only the distances are theirs to give.
    shift = read[0].offset
    assert [record._replace(offset=record.offset - shift) for record in read] == records_of(
        content, magic
    )


@pytest.mark.parametrize("builder_type", [KafkaPythonBuilder, AiokafkaBuilder])
@pytest.mark.parametrize("magic", MAGICS)
@settings(max_examples=40, deadline=None)
@given(content=contents)
def test_uncompressed_message_sets_are_the_same_bytes(
    builder_type: type, magic: int, content: Content
) -> None:
    ours = build_message_set(records_of(content, magic), magic)
    assert ours == theirs(builder_type, magic, Codec.NONE, content)


@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
@settings(max_examples=20, deadline=None)
@given(content=contents)
def test_kafka_python_reads_our_message_sets(magic: int, codec: Codec, content: Content) -> None:
    records = records_of(content, magic, 500)
    memory = MemoryRecords(build_message_set(records, magic, codec))
    read = []
    while memory.has_next():
        batch = memory.next_batch()
        assert batch.validate_crc()
        read += [_in_our_terms(record) for record in batch]
    assert read == records


@pytest.mark.parametrize(("magic", "codec"), COMBINATIONS)
@settings(max_examples=20, deadline=None)
@given(content=contents)
def test_aiokafka_reads_our_message_sets(magic: int, codec: Codec, content: Content) -> None:
    records = records_of(content, magic, 500)
    entry = records if codec else records[:1]
    batch = AiokafkaSet(build_message_set(entry, magic, codec), magic)
    assert batch.validate_crc()
    assert [_in_our_terms(record) for record in batch] == entry


def _in_our_terms(theirs: object) -> Record:
    timestamp = theirs.timestamp  # type: ignore[attr-defined]
    return Record(
        theirs.offset,  # type: ignore[attr-defined]
        NO_TIMESTAMP if timestamp is None else timestamp,
        theirs.key,  # type: ignore[attr-defined]
        theirs.value,  # type: ignore[attr-defined]
    )


# --- conversion


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", LEGACY_CODECS)
@settings(max_examples=25, deadline=None)
@given(content=contents)
def test_a_produced_message_set_becomes_one_batch(
    magic: int, codec: Codec, content: Content
) -> None:
    batch = up_convert(build_message_set(records_of(content, magic, 900), magic, codec))
    check_crc(batch)
    assert read_header(batch).codec is codec
    assert list(iter_records(batch, strict=True)) == records_of(content, magic)


def test_several_wrappers_become_one_batch() -> None:
    message_set = (
        build_message_set(plain(2), 1)
        + build_message_set(plain(3), 1, Codec.GZIP)
        + build_message_set(plain(1), 1)
    )
    batch = up_convert(message_set)
    assert (read_header(batch).count, read_header(batch).codec) == (6, Codec.GZIP)
    assert [record.offset for record in iter_records(batch, strict=True)] == [0, 1, 2, 3, 4, 5]


def test_a_producer_may_not_set_log_append_time_nor_odd_timestamps() -> None:
    stamped = build_message_set(plain(), 1, timestamp_type=TimestampType.LOG_APPEND_TIME)
    negative = build_message_set([Record(0, -2, None, b"v")], 1)
    too_far = build_message_set([Record(0, -1, None, b""), Record(1, 2**63 - 1, None, b"")], 1)
    for message_set in (stamped, negative, too_far):
        with pytest.raises(KafkaError) as caught:
            up_convert(message_set)
        assert caught.value.error is Errors.INVALID_TIMESTAMP


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", LEGACY_CODECS)
@settings(max_examples=25, deadline=None)
@given(content=contents)
def test_batches_become_message_sets_without_headers_and_markers(
    magic: int, codec: Codec, content: Content
) -> None:
    records = records_of(content, 1, 40)
    with_headers = [record._replace(headers=(("name", b"content"),)) for record in records]
    marker = end_txn_marker(
        EndTxnMarker(True, 0), producer_id=1, producer_epoch=0, timestamp=NOW, base_offset=99
    )
    log = build_batch(with_headers, codec) + marker + build_batch(plain(2, 100), codec)
    expected = records_of(content, magic, 40) + [
        record if magic else record._replace(timestamp=NO_TIMESTAMP) for record in plain(2, 100)
    ]
    for buffer in (log, memoryview(log)):
        assert list(iter_legacy_records(down_convert(buffer, magic))) == expected


def test_down_conversion_starts_at_the_fetched_offset_and_skips_a_cut_off_batch() -> None:
    log = build_batch(plain(5)) + build_batch(plain(5, 5)) + build_batch(plain(5, 10))[:-1]
    converted = down_convert(log, 1, first_offset=7)
    assert [record.offset for record in iter_legacy_records(converted)] == [7, 8, 9]


def test_down_conversion_keeps_log_append_time() -> None:
    log = bytearray(build_batch(plain()))
    set_log_append_time(log, 0, NOW + 77)
    (first, *_) = iter_messages(down_convert(log, 1))
    assert first.is_log_append_time
    assert first.timestamp == NOW + 77


def test_zstd_cannot_be_converted_either_way() -> None:
    for attempt in (
        lambda: down_convert(build_batch(plain(), Codec.ZSTD), 1),
        lambda: up_convert(build_message_set(plain(), 1, Codec.ZSTD)),
    ):
        with pytest.raises(KafkaError) as caught:
            attempt()
        assert caught.value.error is Errors.UNSUPPORTED_COMPRESSION_TYPE


# --- hostile message sets


def with_crc(body: bytes) -> bytes:
    """A message of any body (magic first) with the CRC it should have."""
    return Struct(">qiI").pack(0, 4 + len(body), zlib.crc32(body)) + body


NULLS = b"\xff" * 8
BAD_SETS = {
    "nothing": b"",
    "size of a few bytes": bytes(8) + b"\x00\x00\x00\x05" + bytes(5),
    "negative size": bytes(8) + b"\xff\xff\xff\xff" + bytes(20),
    "size past the end": bytes(8) + b"\x7f\xff\xff\xff" + bytes(20),
    "no room for a timestamp": with_crc(b"\x01\x00" + bytes(4)),
    "no key": with_crc(b"\x00\x00"),
    "no value": with_crc(b"\x00\x00" + b"\xff" * 4),
    "key of 2 GiB": with_crc(b"\x00\x00" + b"\x7f\xff\xff\xff" + bytes(8)),
    "key length -2": with_crc(b"\x00\x00" + b"\xff\xff\xff\xfe" + b"\xff" * 4),
    "bytes after the value": with_crc(b"\x00\x00" + NULLS + b"x"),
    "magic 2": with_crc(b"\x02\x00" + NULLS),
    "magic -1": with_crc(b"\xff\x00" + NULLS),
    "unknown codec": with_crc(b"\x00\x05" + b"\xff" * 4 + b"\x00\x00\x00\x01x"),
    "wrapper of null": with_crc(b"\x00\x01" + NULLS),
}


@pytest.mark.parametrize("message_set", BAD_SETS.values(), ids=BAD_SETS.keys())
def test_a_message_set_that_lies_is_refused(message_set: bytes) -> None:
    with pytest.raises(ProtocolError):
        up_convert(message_set)


def wrap(inner: bytes, magic: int = 1, codec: Codec = Codec.GZIP) -> bytes:
    """A compressed message of anything: the wrapper's own record is built, then marked."""
    value = compress(codec, inner)
    timestamp = bytes(8) if magic else b""
    sized = b"\xff" * 4 + len(value).to_bytes(4, "big") + value
    return with_crc(bytes([magic, codec]) + timestamp + sized)


@pytest.mark.parametrize(
    "inner",
    [
        b"",
        b"junk",
        wrap(build_message_set(plain(), 1)),
        build_message_set(plain(), 0),
        build_message_set(plain(), 1)[:-1],
        build_batch(plain()),
    ],
    ids=["nothing", "junk", "a wrapper", "another magic", "cut off", "a batch"],
)
def test_a_wrapper_holds_whole_plain_messages_of_its_own_magic(inner: bytes) -> None:
    with pytest.raises(ProtocolError):
        up_convert(wrap(inner))


def test_a_batch_is_no_message_set_and_the_other_way_round() -> None:
    with pytest.raises(UnsupportedMagic):
        list(iter_messages(build_batch(plain())))
    with pytest.raises(UnsupportedMagic):
        down_convert(build_message_set(plain(), 1), 1)


def test_any_flipped_bit_under_the_crc_is_noticed() -> None:
    message_set = build_message_set(plain(1), 1)
    for at in (*range(12, 16), *range(17, len(message_set))):
        damaged = bytearray(message_set)
        damaged[at] ^= 1
        with pytest.raises(KafkaError) as caught:
            list(iter_messages(damaged))
        assert caught.value.error is Errors.CORRUPT_MESSAGE


def test_all_wrappers_together_stay_below_the_cap() -> None:
    one = build_message_set([Record(0, NOW, None, bytes(60_000))], 1, Codec.GZIP)
    assert read_header(up_convert(one, max_bytes=100_000)).count == 1
    with pytest.raises(DecompressionTooLarge):
        up_convert(one * 2, max_bytes=100_000)


def attempt_all(message_set: bytes) -> None:
    """Everything a broker or consumer does. Anything but our own errors fails the test."""
    for use in (
        lambda: list(iter_legacy_records(message_set, may_be_cut_off=True, max_bytes=1 << 20)),
        lambda: up_convert(message_set, max_bytes=1 << 20),
    ):
        try:
            use()
        except (ProtocolError, KafkaError):
            continue


def resealed(message_set: bytearray) -> bytes:
    """With the first message's CRC made right again, so that damage gets past it."""
    size_bytes = int.from_bytes(message_set[8:12], "big", signed=True)
    return with_crc(bytes(message_set[16 : 12 + max(4, size_bytes)]))


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", LEGACY_CODECS)
@settings(max_examples=60, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_mutated_message_sets_raise_nothing_but_our_errors(
    magic: int, codec: Codec, chance: Random
) -> None:
    message_set = build_message_set(plain(), magic, codec)
    for _ in range(20):
        mutated = bytearray(message_set)
        for _ in range(chance.randint(1, 4)):
            mutated[chance.randrange(8, len(mutated))] = chance.randrange(256)
        attempt_all(bytes(mutated))
        attempt_all(resealed(mutated))
        attempt_all(bytes(mutated[: chance.randrange(len(mutated))]))


@pytest.mark.parametrize("magic", MAGICS)
@settings(max_examples=60, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_mutated_batches_are_converted_or_refused(magic: int, chance: Random) -> None:
    batch = build_batch(plain(), chance.choice(list(Codec)))
    for _ in range(20):
        mutated = bytearray(batch)
        for _ in range(chance.randint(1, 4)):
            mutated[chance.randrange(12, len(mutated))] = chance.randrange(256)
        write_base_offset_and_epoch(mutated, 0, 5, 0)
        try:
            down_convert(mutated, magic, max_bytes=1 << 20)
        except (ProtocolError, KafkaError):
            continue


def test_lies_cost_no_memory() -> None:
    tracemalloc.start()
    try:
        for message_set in BAD_SETS.values():
            attempt_all(message_set)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 256 * 1024
