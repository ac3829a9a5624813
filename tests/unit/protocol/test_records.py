"""Record batches v2: headers, stamping, reading, building, and agreement with other clients."""

import tracemalloc
from random import Random
from struct import Struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from odradek.protocol.compression import Codec, DecompressionTooLarge, compress
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.records import (
    HEADER_BYTES,
    NO_SEQUENCE,
    BatchBuilder,
    BatchHeader,
    EndTxnMarker,
    ProducerStamp,
    Record,
    RecordSpan,
    TimestampType,
    UnsupportedMagic,
    build_batch,
    check_crc,
    crc_matches,
    end_txn_marker,
    iter_headers,
    iter_records,
    iter_spans,
    pack_batch,
    peek_magic,
    read_body,
    read_control_type,
    read_end_txn_marker,
    read_header,
    rebuild_batch,
    record_size_bound,
    set_log_append_time,
    set_producer,
    write_base_offset_and_epoch,
)
from odradek.protocol.varints import VARINT

NOW = 1_700_000_000_000

nullable_bytes = st.none() | st.binary(max_size=200) | st.binary(min_size=1, max_size=3)
header_lists = st.lists(st.tuples(st.text(max_size=8), nullable_bytes), max_size=3)
timestamps = st.integers(NOW - 10_000, NOW + 100_000) | st.integers(-1, 2**50)
contents = st.lists(
    st.tuples(timestamps, nullable_bytes, nullable_bytes, header_lists), min_size=1, max_size=30
)
Content = list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]


def batch_of(content: Content, codec: Codec = Codec.NONE, base_offset: int = 0) -> bytes:
    builder = BatchBuilder(codec)
    for timestamp, key, value, headers in content:
        builder.append(timestamp, key, value, headers)
    return builder.build(base_offset)


def records_of(content: Content, base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + index, timestamp, key, value, tuple(headers))
        for index, (timestamp, key, value, headers) in enumerate(content)
    ]


def plain(count: int = 3) -> Content:
    return [(NOW + index, b"key%d" % index, b"value", []) for index in range(count)]


def sealed(body: bytes, **fields: int) -> bytes:
    """A batch with a right CRC around any body at all."""
    header = read_header(batch_of(plain(1)))
    return pack_batch(header._replace(**fields), body)


# --- headers


def test_a_header_says_what_the_builder_was_told() -> None:
    builder = BatchBuilder(Codec.GZIP, producer=ProducerStamp(77, 3, 2**31 - 2, True))
    for timestamp in (NOW, NOW + 5, NOW + 2):
        builder.append(timestamp, b"k", b"v")
    batch = builder.build(base_offset=1000)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (1000, 1002, 1003)
    assert (header.count, header.size_bytes, header.magic) == (3, len(batch), 2)
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW + 5)
    assert (header.producer_id, header.producer_epoch) == (77, 3)
    assert (header.base_sequence, header.last_sequence) == (2**31 - 2, 0)
    assert header.codec is Codec.GZIP
    assert header.is_transactional
    assert not header.is_control
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.delete_horizon_ms is None


def test_a_header_is_read_at_any_position_of_any_buffer() -> None:
    batch = batch_of(plain())
    shifted = b"12345" + batch
    for buffer in (shifted, bytearray(shifted), memoryview(shifted)):
        assert read_header(buffer, 5) == read_header(batch)
        check_crc(buffer, 5)


def test_headers_of_whole_batches_are_walked_and_a_cut_off_one_ends_the_walk() -> None:
    first, second = batch_of(plain(2)), batch_of(plain(5), base_offset=2)
    for tail in (b"", second[:11], second[:40], second[:-1]):
        walked = list(iter_headers(first + second + tail))
        assert [(at, header.base_offset) for at, header in walked] == [(0, 0), (len(first), 2)]


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 48])
def test_a_length_below_the_header_is_refused(length: int) -> None:
    batch = bytearray(batch_of(plain()))
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError):
        list(iter_headers(batch))
    with pytest.raises(ProtocolError):
        read_header(batch)


def test_other_magic_is_named() -> None:
    batch = bytearray(batch_of(plain()))
    for magic in (0, 1, 3, -1):
        batch[16] = magic & 0xFF
        assert peek_magic(batch) == magic
        with pytest.raises(UnsupportedMagic) as caught:
            read_header(batch)
        assert caught.value.magic == magic
    with pytest.raises(UnsupportedMagic):
        read_header(batch[:30])


def test_too_few_bytes_are_no_header() -> None:
    batch = batch_of(plain())
    for size in range(HEADER_BYTES):
        with pytest.raises(ProtocolError):
            read_header(batch[:size])
    assert peek_magic(batch[:16]) is None


def test_any_flipped_bit_under_the_crc_is_noticed() -> None:
    batch = batch_of(plain())
    for at in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[at] ^= 1
        with pytest.raises(KafkaError) as caught:
            check_crc(damaged)
        assert caught.value.error is Errors.CORRUPT_MESSAGE


def test_a_cut_off_batch_fails_its_crc() -> None:
    batch = batch_of(plain())
    assert crc_matches(batch, 0, read_header(batch))
    assert not crc_matches(batch[:-1], 0, read_header(batch))


# --- stamping


def test_base_offset_and_leader_epoch_are_stamped_in_place_outside_the_crc() -> None:
    buffer = bytearray(b"##" + batch_of(plain()))
    write_base_offset_and_epoch(buffer, 2, 2**40, 9)
    header = read_header(buffer, 2)
    assert (header.base_offset, header.leader_epoch) == (2**40, 9)
    check_crc(buffer, 2)
    assert [record.offset - 2**40 for record in iter_records(buffer, 2)] == [0, 1, 2]


def test_log_append_time_replaces_every_timestamp() -> None:
    buffer = memoryview(bytearray(b"##" + batch_of(plain())))
    set_log_append_time(buffer, 2, NOW + 500)
    check_crc(buffer, 2)
    header = read_header(buffer, 2)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == NOW + 500
    assert {record.timestamp for record in iter_records(buffer, 2)} == {NOW + 500}
    assert {span.timestamp for span in iter_spans(read_body(buffer, 2), header)} == {NOW + 500}


def test_a_retry_gets_another_epoch_and_sequence() -> None:
    buffer = bytearray(batch_of(plain()))
    set_producer(buffer, 0, producer_id=8, producer_epoch=2, base_sequence=40)
    header = read_header(buffer)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 2, 40)
    check_crc(buffer)


# --- round trips


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=40, deadline=None)
@given(content=contents, base_offset=st.integers(0, 2**62))
def test_records_come_back_as_they_were_appended(
    codec: Codec, content: Content, base_offset: int
) -> None:
    batch = batch_of(content, codec, base_offset)
    check_crc(batch)
    expected = records_of(content, base_offset)
    assert list(iter_records(batch, strict=True)) == expected
    spans = list(iter_spans(read_body(batch), read_header(batch)))
    assert [(s.offset, s.timestamp, s.key, s.has_value) for s in spans] == [
        (r.offset, r.timestamp, r.key, r.value is not None) for r in expected
    ]
    assert build_batch(expected, codec) == batch


@given(sizes=st.lists(st.sampled_from([0, 63, 64, 8191, 8192, 70_000, 2**20]), max_size=4))
@settings(max_examples=20, deadline=None)
def test_every_width_of_varint_is_read(sizes: list[int]) -> None:
    content: Content = [
        (NOW + 2**index, bytes(size), bytes(size + 1), [("h" * (size % 9000), bytes(size))])
        for index, size in enumerate(sizes)
    ]
    assert list(iter_records(batch_of(content), strict=True)) == records_of(content)


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_have_the_length_that_their_value_needs(number: int) -> None:
    raw = number << 1 if number >= 0 else (-number << 1) - 1
    assert len(VARINT[number]) == max(1, -(-raw.bit_length() // 7))


@pytest.mark.parametrize("base", [2**63 - 1, -(2**63), -1, 0])
def test_timestamps_at_the_ends_of_64_bits_are_read(base: int) -> None:
    batch = batch_of([(base, None, b"v", []), (base, None, b"v", [])])
    assert [record.timestamp for record in iter_records(batch)] == [base, base]


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (2**62, 2**62), (-(2**63), -1)])
def test_timestamps_beyond_64_bits_are_refused(base: int, delta: int) -> None:
    body = record_bytes(timestamp_delta=VARINT[delta])
    batch = sealed(body, base_timestamp=base)
    with pytest.raises(ProtocolError, match="timestamp"):
        list(iter_records(batch))
    with pytest.raises(ProtocolError, match="timestamp"):
        list(iter_spans(body, read_header(batch)))


def test_a_header_key_that_is_no_utf8_survives_a_rewrite() -> None:
    headers = VARINT[1] + VARINT[2] + b"\xff\xfe" + VARINT[1] + b"v"
    batch = sealed(record_bytes(headers=headers))
    records = list(iter_records(batch))
    assert read_body(build_batch(records)) == read_body(batch)


def test_gaps_left_by_compaction_are_kept_and_strict_refuses_them() -> None:
    records = [Record(10, NOW, b"a", b"1"), Record(15, NOW, b"b", None), Record(16, NOW, b"", b"")]
    batch = build_batch(records)
    assert list(iter_records(batch)) == records
    assert read_header(batch).last_offset == 16
    with pytest.raises(ProtocolError, match="out of order"):
        list(iter_records(batch, strict=True))


# --- the builder's size


def test_the_builder_knows_its_size_and_when_it_is_full() -> None:
    builder = BatchBuilder(max_bytes=300)
    sizes = []
    while (size := builder.append(NOW, b"key", b"v" * 50)) is not None:
        sizes.append(size)
        assert len(builder.build()) == size == builder.size_bytes
    assert len(sizes) == builder.count == 3
    assert len(list(iter_records(builder.build(), strict=True))) == 3


def test_a_first_record_fits_whatever_its_size() -> None:
    builder = BatchBuilder(max_bytes=100)
    assert builder.append(NOW, None, bytes(1000)) is not None
    assert builder.append(NOW, None, b"") is None


@given(contents)
@settings(deadline=None)
def test_the_size_bound_of_a_record_holds(content: Content) -> None:
    builder = BatchBuilder()
    for timestamp, key, value, headers in content:
        before = builder.size_bytes
        after = builder.append(timestamp, key, value, headers)
        assert after is not None
        assert after - before <= record_size_bound(key, value, headers)


# --- compaction


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=40, deadline=None)
@given(content=contents, data=st.data())
def test_a_rebuilt_batch_holds_the_kept_records_at_their_offsets(
    codec: Codec, content: Content, data: st.DataObject
) -> None:
    builder = BatchBuilder(codec, producer=ProducerStamp(5, 1, 10))
    for timestamp, key, value, headers in content:
        builder.append(timestamp, key, value, headers)
    batch = builder.build(100)
    header, body = read_header(batch), read_body(batch)
    keep = data.draw(st.lists(st.booleans(), min_size=len(content), max_size=len(content)))
    kept = [span for span, wanted in zip(iter_spans(body, header), keep, strict=True) if wanted]
    horizon = data.draw(st.none() | st.integers(0, 2**45))

    rebuilt = rebuild_batch(header, body, kept, delete_horizon_ms=horizon)

    check_crc(rebuilt)
    expected = [r for r, wanted in zip(records_of(content, 100), keep, strict=True) if wanted]
    assert list(iter_records(rebuilt)) == expected
    new = read_header(rebuilt)
    assert (new.base_offset, new.last_offset) == (header.base_offset, header.last_offset)
    assert (new.producer_id, new.base_sequence) == (5, 10)
    assert new.delete_horizon_ms == horizon
    newest = max((record.timestamp for record in expected), default=header.max_timestamp)
    assert new.max_timestamp == newest


def test_a_batch_that_has_its_delete_horizon_keeps_it() -> None:
    batch = batch_of(plain())
    header, body = read_header(batch), read_body(batch)
    once = rebuild_batch(header, body, list(iter_spans(body, header)), delete_horizon_ms=NOW + 9)
    header, body = read_header(once), read_body(once)
    assert header.delete_horizon_ms == NOW + 9
    again = rebuild_batch(header, body, list(iter_spans(body, header))[1:])
    assert read_header(again).delete_horizon_ms == NOW + 9
    assert list(iter_records(again)) == records_of(plain())[1:]


def test_an_emptied_batch_stays_as_a_header() -> None:
    batch = batch_of(plain(), base_offset=7)
    emptied = rebuild_batch(read_header(batch), read_body(batch), [])
    assert len(emptied) == HEADER_BYTES
    assert list(iter_records(emptied)) == []
    assert (read_header(emptied).last_offset, read_header(emptied).count) == (9, 0)


# --- control records


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_markers_agree_with_kafka_python(commit: bool) -> None:
    batch = end_txn_marker(
        EndTxnMarker(commit, 12), producer_id=4, producer_epoch=2, timestamp=NOW, base_offset=33
    )
    check_crc(batch)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_sequence, header.producer_epoch) == (NO_SEQUENCE, 2)
    (record,) = iter_records(batch, strict=True)
    assert read_end_txn_marker(record) == EndTxnMarker(commit, 12)
    (theirs,) = KafkaPythonBatch(batch)
    assert (theirs.commit, theirs.abort) == (commit, not commit)
    assert (theirs.offset, theirs.key, theirs.value) == (33, record.key, record.value)


def test_control_records_of_other_types_are_no_markers() -> None:
    assert read_end_txn_marker(Record(0, NOW, b"\0\0\0\2", b"")) is None
    assert read_control_type(b"\0\1\0\5more") == 5


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b""),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
    ],
)
def test_malformed_control_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        read_end_txn_marker(Record(0, NOW, key, value))


# --- agreement with other clients


def their_batch(builder_type: type, content: Content, codec: Codec) -> bytes:
    builder = builder_type(2, int(codec), 1, 9, 3, 17, 1 << 30)
    for index, (timestamp, key, value, headers) in enumerate(content):
        assert builder.append(index, timestamp, key, value, headers) is not None
    return bytes(builder.build())


@pytest.mark.parametrize("builder_type", [KafkaPythonBuilder, AiokafkaBuilder])
@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=20, deadline=None)
@given(content=contents)
def test_batches_of_other_clients_are_read(
    builder_type: type, codec: Codec, content: Content
) -> None:
    batch = their_batch(builder_type, content, codec)
    check_crc(batch)
    assert list(iter_records(batch, strict=True)) == records_of(content)


@pytest.mark.parametrize("builder_type", [KafkaPythonBuilder, AiokafkaBuilder])
@settings(max_examples=50, deadline=None)
@given(content=contents)
def test_uncompressed_batches_are_the_same_bytes(builder_type: type, content: Content) -> None:
    builder = BatchBuilder(producer=ProducerStamp(9, 3, 17, True))
    for timestamp, key, value, headers in content:
        builder.append(timestamp, key, value, headers)
    theirs = bytearray(their_batch(builder_type, content, Codec.NONE))
    write_base_offset_and_epoch(theirs, 0, 0, -1)  # kafka-python writes leader epoch 0
    assert builder.build() == theirs


@pytest.mark.parametrize("batch_type", [KafkaPythonBatch, AiokafkaBatch])
@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=20, deadline=None)
@given(content=contents)
def test_other_clients_read_our_batches(batch_type: type, codec: Codec, content: Content) -> None:
    theirs = batch_type(batch_of(content, codec, 50))
    assert theirs.validate_crc()
    read = [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in theirs
    ]
    assert read == records_of(content, 50)


# --- hostile bodies in a right CRC


def record_bytes(
    *,
    timestamp_delta: bytes = b"\x00",
    offset_delta: bytes = b"\x00",
    key: bytes = b"\x01",
    value: bytes = b"\x01",
    headers: bytes = b"\x00",
    length: int | None = None,
) -> bytes:
    record = b"\x00" + timestamp_delta + offset_delta + key + value + headers
    return VARINT[len(record) if length is None else length] + record


BAD_BODIES = {
    "no record": b"",
    "length too small": record_bytes(length=5),
    "length too big": record_bytes(length=7),
    "length of the negative number that looks right": record_bytes(length=-7),
    "length of 2 GiB": record_bytes(length=2**31 - 1),
    "key past the end": record_bytes(key=VARINT[1000]),
    "key of 2 GiB": record_bytes(key=VARINT[2**31 - 1]),
    "negative key length": record_bytes(key=VARINT[-2]),
    "value past the end": record_bytes(value=VARINT[1000]),
    "negative value length": record_bytes(value=VARINT[-300]),
    "negative offset delta": record_bytes(offset_delta=VARINT[-1]),
    "offset delta out of order": record_bytes(offset_delta=VARINT[1]),
    "negative header count": record_bytes(headers=VARINT[-1]),
    "header count of 2^31 - 1": record_bytes(headers=VARINT[2**31 - 1]),
    "header count beyond the bytes left": record_bytes(headers=VARINT[2] + b"\x00\x01"),
    "negative header key length": record_bytes(headers=VARINT[1] + VARINT[-1] + b"\x01"),
    "negative header value length": record_bytes(headers=VARINT[1] + b"\x00" + VARINT[-2]),
    "header value past the end": record_bytes(headers=VARINT[1] + b"\x00" + VARINT[9], length=15),
    "varint of 6 bytes": record_bytes(key=b"\x80\x80\x80\x80\x80\x00"),
    "varint of 33 bits": record_bytes(key=b"\xff\xff\xff\xff\x1f"),
    "varlong of 11 bytes": record_bytes(timestamp_delta=b"\x80" * 10 + b"\x00"),
    "varlong of 65 bits": record_bytes(timestamp_delta=b"\xff" * 9 + b"\x03"),
    "varint without an end": b"\xff\xff\xff\xff",
    "bytes after the last record": record_bytes() + b"\x00",
    "one record more than counted": record_bytes() + record_bytes(offset_delta=VARINT[1]),
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_body_that_lies_is_refused(body: bytes, codec: Codec) -> None:
    batch = sealed(compress(codec, body), attributes=int(codec))
    check_crc(batch)
    with pytest.raises(ProtocolError):
        list(iter_records(batch, strict=True))


@pytest.mark.parametrize("count", [-1, -(2**31), 0, 2, 2**31 - 1])
def test_a_count_that_lies_is_refused(count: int) -> None:
    batch = sealed(record_bytes(), count=count)
    with pytest.raises(ProtocolError):
        list(iter_records(batch))
    with pytest.raises(ProtocolError):
        list(iter_spans(read_body(batch), read_header(batch)))


def test_a_batch_does_not_read_into_the_next_one() -> None:
    first = sealed(record_bytes(value=VARINT[100], length=106))
    with pytest.raises(ProtocolError):
        list(iter_records(first + batch_of(plain(30))))


def test_a_cut_off_batch_has_no_records() -> None:
    batch = batch_of(plain())
    for size in range(len(batch)):
        with pytest.raises(ProtocolError):
            list(iter_records(batch[:size]))


def test_an_unknown_codec_is_refused() -> None:
    for codec_id in (5, 6, 7):
        with pytest.raises(ProtocolError, match="codec"):
            iter_records(sealed(record_bytes(), attributes=codec_id))


def test_decompression_stops_at_the_callers_cap() -> None:
    batch = batch_of([(NOW, None, bytes(100_000), [])], Codec.ZSTD)
    with pytest.raises(DecompressionTooLarge):
        iter_records(batch, max_bytes=99_999)


def attempt(batch: bytes) -> None:
    """Everything a reader does. Anything raised but our own errors fails the test."""
    try:
        for position, header in iter_headers(batch):
            crc_matches(batch, position, header)
            for record in iter_records(batch, position, header, max_bytes=1 << 20):
                STAMP.pack(record.offset & (2**63 - 1), record.timestamp)
            list(iter_records(batch, position, header, strict=True, max_bytes=1 << 20))
    except (ProtocolError, KafkaError):
        pass
    try:
        header = read_header(batch)
        body = read_body(batch, 0, header, max_bytes=1 << 20)
        kept: list[RecordSpan] = list(iter_spans(body, header))
        assert isinstance(header, BatchHeader)
        rebuild_batch(header, body, kept)
    except (ProtocolError, KafkaError):
        pass


STAMP = Struct(">qq")


MUTATED: Content = [
    (NOW, None, b"value" * 20, []),
    (NOW + 70, b"key", None, [("header", b"content"), ("", None)]),
    (NOW + 7, b"", bytes(200), []),
    (-1, b"another key", b"value", [("header", b"")]),
]


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=100, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_mutated_batches_raise_nothing_but_our_errors(codec: Codec, chance: Random) -> None:
    batch = batch_of(MUTATED, codec)
    for _ in range(20):
        mutated = bytearray(batch)
        for _ in range(chance.randint(1, 4)):
            first = chance.choice((0, HEADER_BYTES))
            mutated[chance.randrange(first, len(batch))] = chance.randrange(256)
        attempt(bytes(mutated))
        attempt(bytes(mutated[: chance.randrange(len(batch))]))


@settings(max_examples=500, deadline=None)
@given(body=st.binary(max_size=200), count=st.integers(0, 20))
def test_random_bodies_raise_nothing_but_our_errors(body: bytes, count: int) -> None:
    attempt(sealed(body, count=count))


def test_lies_cost_no_memory() -> None:
    tracemalloc.start()
    try:
        for body in BAD_BODIES.values():
            attempt(sealed(body))
            attempt(sealed(body, count=2**31 - 1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 256 * 1024
