"""What a leader accepts from producers, what it answers to the rest, and what it stamps."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.batch_header import HEADER
from odradek.protocol.compression import Codec, compress
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.legacy_records import build_message_set
from odradek.protocol.records import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    EndTxnMarker,
    ProducerStamp,
    Record,
    TimestampType,
    build_batch,
    check_crc,
    end_txn_marker,
    iter_records,
    pack_batch,
    read_body,
    read_header,
)
from odradek.storage.framing import check_framing
from odradek.storage.log_config import LogConfig
from odradek.storage.validation import AppendPlan, InvalidRecords, Origin, validate_and_stamp

NOW = 1_700_000_000_000


def config(**values: str) -> LogConfig:
    return LogConfig({}).with_overrides({n.replace("_", "."): v for n, v in values.items()})


def records(count: int = 3, *, key: bytes | None = b"k", timestamp: int = NOW) -> list[Record]:
    return [Record(n, timestamp, key, b"value %d" % n) for n in range(count)]


def batch(count: int = 3, codec: Codec = Codec.NONE, **shape: object) -> bytes:
    return build_batch(records(count, **shape), codec)  # type: ignore[arg-type]


def changed(data: bytes, **fields: int) -> bytes:
    """The batch with header fields changed and a right CRC."""
    return pack_batch(read_header(data)._replace(**fields), data[HEADER_BYTES:])


def with_body(body: bytes, count: int, attributes: int = 0) -> bytes:
    """A batch with a right CRC around any body."""
    return pack_batch(read_header(batch(count))._replace(attributes=attributes), body)


def accept(
    data: bytes | bytearray | memoryview,
    topic: LogConfig | None = None,
    *,
    origin: Origin = Origin.CLIENT,
    version: int = 9,
) -> AppendPlan:
    return validate_and_stamp(
        data,
        next_offset=1000,
        leader_epoch=7,
        config=topic or config(),
        now_ms=NOW,
        origin=origin,
        produce_version=version,
    )


def refusal(data: bytes, topic: LogConfig | None = None, *, version: int = 9) -> Errors:
    with pytest.raises(KafkaError) as caught:
        accept(data, topic, version=version)
    return caught.value.error


def blamed(data: bytes, topic: LogConfig) -> tuple[Errors, list[int]]:
    with pytest.raises(InvalidRecords) as caught:
        accept(data, topic)
    return caught.value.error, [error.batch_index for error in caught.value.record_errors]


# Stamping -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
def test_offset_and_epoch_are_stamped_and_the_rest_is_left_alone(codec: Codec) -> None:
    data = batch(5, codec)
    plan = accept(data)
    assert bytes(plan.data[16:]) == data[16:]
    assert plan.header == read_header(plan.data)
    assert (plan.header.base_offset, plan.header.last_offset) == (1000, 1004)
    assert plan.header.leader_epoch == 7
    assert plan.log_append_time_ms == -1
    check_crc(plan.data)


def test_a_writable_buffer_is_stamped_in_place() -> None:
    request = bytearray(b"header" + batch() + b"tail")
    view = memoryview(request)[6:-4]
    plan = accept(view)
    assert plan.data is view
    assert read_header(request, 6).base_offset == 1000
    assert request.endswith(b"tail")


def test_read_only_bytes_are_copied() -> None:
    data = batch()
    assert accept(memoryview(data)).header.base_offset == 1000
    assert read_header(data).base_offset == 0


def test_a_refused_batch_is_not_touched() -> None:
    data = bytearray(batch(key=None))
    before = bytes(data)
    with pytest.raises(KafkaError):
        accept(data, config(cleanup_policy="compact"))
    assert data == before


def test_log_append_time_rewrites_timestamp_and_crc() -> None:
    data = batch(timestamp=5)
    plan = accept(data, config(message_timestamp_type="LogAppendTime"))
    assert plan.log_append_time_ms == NOW
    assert plan.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert plan.header == read_header(plan.data)
    check_crc(plan.data)
    assert {record.timestamp for record in iter_records(plan.data)} == {NOW}


@pytest.mark.parametrize("stored", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", Codec)
def test_the_topics_compression_replaces_the_producers(sent: Codec, stored: str) -> None:
    stamp = ProducerStamp(9, 2, 40, is_transactional=True)
    data = build_batch(records(50), sent, producer=stamp)
    plan = accept(data, config(compression_type=stored))
    wanted = Codec.NONE if stored == "uncompressed" else Codec[stored.upper()]
    assert plan.header.codec is wanted
    check_crc(plan.data)
    assert [r._replace(offset=r.offset - 1000) for r in iter_records(plan.data)] == records(50)
    kept = ("producer_id", "producer_epoch", "base_sequence", "is_transactional", "max_timestamp")
    for name in kept:
        assert getattr(plan.header, name) == getattr(read_header(data), name)


def test_the_topics_compression_and_append_time_go_together() -> None:
    topic = config(compression_type="gzip", message_timestamp_type="LogAppendTime")
    plan = accept(batch(20), topic)
    check_crc(plan.data)
    assert plan.header.max_timestamp == NOW


def test_a_batch_that_grows_when_recompressed_must_still_fit() -> None:
    data = build_batch([Record(0, NOW, b"k", bytes(5000))], Codec.ZSTD)
    limits = config(compression_type="uncompressed", max_message_bytes="1000")
    assert refusal(data, limits) is Errors.MESSAGE_TOO_LARGE


def test_the_broker_may_write_control_batches_and_they_are_never_compressed() -> None:
    marker = end_txn_marker(
        EndTxnMarker(commit=True, coordinator_epoch=3), producer_id=7, producer_epoch=1, timestamp=5
    )
    topic = config(compression_type="gzip")
    plan = accept(marker, topic, origin=Origin.COORDINATOR)
    assert plan.header.is_control
    assert plan.header.codec is Codec.NONE


# Sizes and shapes -----------------------------------------------------------------------------


def test_damaged_batches_are_corrupt() -> None:
    """Bad input 20: CRC mismatch, unknown magic, size below the minimum."""
    data = batch()
    flipped = bytearray(data)
    flipped[-3] ^= 1
    short_length = data[:8] + (40).to_bytes(4, "big") + data[12:]
    negative_length = data[:8] + b"\xff" * 4 + data[12:]
    for damaged in (flipped, data[:16] + b"\3" + data[17:], short_length, negative_length):
        assert refusal(bytes(damaged)) is Errors.CORRUPT_MESSAGE


def test_a_batch_that_is_cut_off_is_none() -> None:
    data = batch()
    for cut in (1, 12, 16, 30, 61, len(data) - 1):
        assert refusal(data[:cut]) is Errors.INVALID_RECORD


def test_batches_over_the_limits_are_too_large() -> None:
    """Bad input 21. The 61 bytes of header count."""
    data = batch()
    size = len(data)
    accept(data, config(max_message_bytes=str(size), segment_bytes=str(size)))
    assert refusal(data, config(max_message_bytes=str(size - 1))) is Errors.MESSAGE_TOO_LARGE
    assert refusal(data, config(segment_bytes=str(size - 1))) is Errors.RECORD_LIST_TOO_LARGE


def test_batches_of_the_wrong_shape_are_invalid() -> None:
    """Bad input 22: none, two, old formats, lying counts, a base offset."""
    data = batch()
    assert refusal(b"") is Errors.INVALID_RECORD
    assert refusal(data + data) is Errors.INVALID_RECORD
    for magic in (0, 1):
        old = data[:16] + bytes([magic]) + data[17:]
        assert refusal(old) is Errors.INVALID_RECORD
    for wrong in ({"count": 2}, {"count": 4}, {"last_offset_delta": 5}, {"base_offset": 1}):
        assert refusal(changed(data, **wrong)) is Errors.INVALID_RECORD
    for count in (0, -1):
        empty = changed(data, count=count, last_offset_delta=count - 1)
        assert refusal(empty) is Errors.INVALID_RECORD


def test_batches_that_only_brokers_may_write_are_invalid() -> None:
    """Bad input 23, and the delete horizon of compaction."""
    data = batch()
    for bit in (CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT):
        assert refusal(changed(data, attributes=bit)) is Errors.INVALID_RECORD


def test_a_producer_id_needs_a_sequence_and_an_epoch() -> None:
    """Bad input 23."""
    stamped = build_batch(records(), producer=ProducerStamp(9, 0, 0))
    accept(stamped)
    assert refusal(changed(stamped, base_sequence=-1)) is Errors.INVALID_RECORD
    assert refusal(changed(stamped, producer_epoch=-1)) is Errors.INVALID_RECORD


def test_zstd_needs_a_new_produce_and_unknown_codecs_are_refused() -> None:
    """Bad input 24."""
    zstd = batch(3, Codec.ZSTD)
    accept(zstd, version=7)
    assert refusal(zstd, version=6) is Errors.UNSUPPORTED_COMPRESSION_TYPE
    for codec_id in (5, 6, 7):
        unknown = changed(batch(), attributes=codec_id)
        assert refusal(unknown) is Errors.UNSUPPORTED_COMPRESSION_TYPE


# Old formats ----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_the_messages_of_old_producers_become_one_batch(magic: int, codec: Codec) -> None:
    plan = accept(build_message_set(records(5), magic, codec), version=2)
    assert (plan.header.base_offset, plan.header.count, plan.header.codec) == (1000, 5, codec)
    check_crc(plan.data)
    sent = [(r.key, r.value, r.timestamp if magic else -1) for r in records(5)]
    assert [(r.key, r.value, r.timestamp) for r in iter_records(plan.data)] == sent


def test_old_producers_are_checked_like_new_ones() -> None:
    keyless = build_message_set(records(2, key=None), 1)
    with pytest.raises(InvalidRecords):
        accept(keyless, config(cleanup_policy="compact"), version=2)
    small = config(max_message_bytes="100")
    assert refusal(build_message_set(records(50), 1), small, version=2) is Errors.MESSAGE_TOO_LARGE
    late = config(message_timestamp_after_max_ms="5")
    future = build_message_set(records(1, timestamp=NOW + 6), 1)
    assert refusal(future, late, version=2) is Errors.INVALID_TIMESTAMP


def test_damaged_messages_of_old_producers_are_corrupt() -> None:
    message_set = build_message_set(records(2), 1)
    flipped = bytearray(message_set)
    flipped[-1] ^= 1
    for damaged in (bytes(flipped), message_set[:-3], message_set[:20]):
        assert refusal(damaged, version=2) is Errors.CORRUPT_MESSAGE


def test_a_batch_may_come_by_an_old_produce_as_well() -> None:
    assert accept(batch(), version=2).header.count == 3


# Records --------------------------------------------------------------------------------------


def test_record_lengths_that_lie_are_invalid() -> None:
    """Bad input 25, where the records do not fill the batch."""
    body = batch(3)[HEADER_BYTES:]
    longer = bytes([body[0] + 2]) + body[1:]
    shorter = bytes([body[0] - 2]) + body[1:]
    negative = b"\x01" + body[1:]
    huge = b"\xff\xff\xff\xff\x0f" + body[5:]
    endless = b"\xff" * 9 + body[9:]
    for lie in (longer, shorter, negative, huge, endless, body + b"\0", body[:-1], b""):
        assert refusal(with_body(lie, 3)) is Errors.INVALID_RECORD


def test_lies_inside_a_record_are_invalid_wherever_records_are_read() -> None:
    """Bad input 25: a compacted topic reads keys, a changed compression checks the lengths."""
    body = bytearray(batch(1)[HEADER_BYTES:])
    body[4] = 0x7E  # the key's length: 63 bytes in a record of 14
    assert refusal(with_body(bytes(body), 1), config(cleanup_policy="compact")) is (
        Errors.INVALID_RECORD
    )
    compressed = compress(Codec.GZIP, bytes([body[0] + 2]) + bytes(body[1:]))
    lying = with_body(compressed, 1, attributes=Codec.GZIP)
    assert refusal(lying, config(compression_type="zstd")) is Errors.INVALID_RECORD


@pytest.mark.parametrize("topic", [{"cleanup_policy": "compact"}, {"compression_type": "lz4"}])
def test_a_decompression_bomb_is_refused_where_it_would_be_opened(topic: dict[str, str]) -> None:
    """Bad input 26. 300 MB of zeros in 300 KB; a topic that stores it as it came never opens it."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = deflate.compress(b"") + deflate.flush(zlib.Z_FULL_FLUSH)
    megabyte = deflate.compress(bytes(1 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH)
    bomb = head + 300 * megabyte
    data = with_body(bomb, 1, attributes=Codec.GZIP)
    assert refusal(data, config(**topic)) is Errors.INVALID_RECORD
    accept(data)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_garbage_instead_of_compressed_records_is_refused_where_it_is_opened(codec: Codec) -> None:
    data = with_body(b"garbage!" * 10, 3, attributes=codec)
    assert refusal(data, config(cleanup_policy="compact")) is Errors.INVALID_RECORD


def test_timestamps_outside_the_window_are_refused() -> None:
    """Bad input 27."""
    future = config(message_timestamp_after_max_ms="1000")
    past = config(message_timestamp_before_max_ms="1000")
    accept(batch(timestamp=NOW + 1000), future)
    accept(batch(timestamp=NOW - 1000), past)
    assert refusal(batch(timestamp=NOW + 1001), future) is Errors.INVALID_TIMESTAMP
    assert refusal(batch(timestamp=NOW - 1001), past) is Errors.INVALID_TIMESTAMP
    accept(batch(timestamp=NOW + 10**12))
    accept(batch(timestamp=0))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_the_records_with_wrong_timestamps_are_named(codec: Codec) -> None:
    stamps = [NOW, NOW - 5000, NOW, NOW + 5000, -1]
    data = build_batch([Record(n, stamp, b"k", b"v") for n, stamp in enumerate(stamps)], codec)
    past = config(message_timestamp_before_max_ms="1000")
    future = config(message_timestamp_after_max_ms="1000")
    assert blamed(data, past) == (Errors.INVALID_TIMESTAMP, [1])
    assert blamed(data, future) == (Errors.INVALID_TIMESTAMP, [3])


def test_a_header_that_claims_the_far_future_is_refused_although_its_records_do_not() -> None:
    lying = changed(batch(), max_timestamp=NOW + 10**9)
    assert refusal(lying, config(message_timestamp_after_max_ms="1000")) is Errors.INVALID_TIMESTAMP


def test_a_producer_that_says_log_append_time_keeps_its_own_time() -> None:
    data = changed(batch(), attributes=LOG_APPEND_TIME_BIT)
    stored = accept(data).header
    assert not stored.attributes & LOG_APPEND_TIME_BIT
    assert stored.max_timestamp == read_header(data).max_timestamp
    append_time = config(message_timestamp_type="LogAppendTime")
    assert accept(data, append_time).header.attributes & LOG_APPEND_TIME_BIT


def test_log_append_time_asks_for_no_window() -> None:
    topic = config(message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms="0")
    accept(batch(timestamp=NOW + 10**9), topic)


@pytest.mark.parametrize("codec", Codec)
def test_records_without_a_key_are_named_on_a_compacted_topic(codec: Codec) -> None:
    """Bad input 28. An empty key is a key."""
    keys = [b"a", None, b"", None]
    data = build_batch([Record(n, NOW, key, b"v") for n, key in enumerate(keys)], codec)
    compacted = config(cleanup_policy="compact,delete")
    assert blamed(data, compacted) == (Errors.INVALID_RECORD, [1, 3])
    accept(data)
    accept(batch(4, codec), compacted)


# Framing --------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 300) | st.sampled_from([5, 60, 9000]), min_size=1, max_size=80))
def test_the_framing_of_every_built_batch_is_right(sizes: list[int]) -> None:
    data = build_batch([Record(n, NOW, None, bytes(size)) for n, size in enumerate(sizes)])
    check_framing(memoryview(data), HEADER_BYTES, len(data), len(sizes))


@given(
    sizes=st.lists(st.sampled_from([5, 5, 5, 5, 70]), min_size=1, max_size=60),
    damage=st.data(),
)
def test_a_changed_length_is_never_accepted_unless_the_records_still_fill_the_batch(
    sizes: list[int], damage: st.DataObject
) -> None:
    made = build_batch([Record(n, NOW, None, bytes(size)) for n, size in enumerate(sizes)])
    body = bytearray(read_body(made))
    at = damage.draw(st.integers(0, len(body) - 1))
    body[at] = damage.draw(st.integers(0, 255))
    data = with_body(bytes(body), len(sizes))
    assert _is_accepted(data) == _fills_by_plain_walk(bytes(body), len(sizes))


def _is_accepted(data: bytes, version: int = 9) -> bool:
    try:
        accept(data, version=version)
    except KafkaError:
        return False
    return True


def _fills_by_plain_walk(body: bytes, count: int) -> bool:
    position = 0
    for _ in range(count):
        raw = shift = 0
        while True:
            if position >= len(body) or shift > 28:
                return False
            byte = body[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 128:
                break
        if raw & 1 or raw >> 32:
            return False
        position += raw >> 1
        if position > len(body):
            return False
    return position == len(body)


@given(st.binary(max_size=200), st.sampled_from([2, 9]))
def test_no_bytes_whatever_raise_anything_but_a_kafka_error(data: bytes, version: int) -> None:
    assert _is_accepted(data, version) is False


@given(at=st.integers(0, 60), value=st.integers(0, 255), reseal=st.booleans())
def test_no_header_whatever_raises_anything_but_a_kafka_error(
    at: int, value: int, reseal: bool
) -> None:
    data = bytearray(batch(3, Codec.GZIP))
    data[at] = value
    if reseal:
        changed_header = BatchHeader._make(HEADER.unpack_from(data))
        data = bytearray(pack_batch(changed_header, bytes(data[HEADER_BYTES:])))
    compacted = config(cleanup_policy="compact", compression_type="zstd")
    for topic in (config(), compacted, config(message_timestamp_before_max_ms="5")):
        try:
            plan = accept(bytes(data), topic)
        except KafkaError:
            continue
        check_crc(plan.data)
