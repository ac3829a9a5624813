"""Produce, as clients depend on it."""

import struct
from collections.abc import Callable

import pytest
from odradek.protocol.compression import Codec
from odradek.protocol.errors import Errors
from odradek.protocol.messages.transactions import InitProducerIdRequest
from odradek.protocol.records import (
    ProducerStamp,
    read_header,
    write_crc,
)

from tests.behaviours.asking import NOW_MS, Asker, batch, produce_request


def changed(change: Callable[[bytearray], None], *, crc: bool = True) -> bytes:
    """A good batch with something done to it, and a fresh checksum unless told otherwise."""
    made = bytearray(batch(b"one", b"two"))
    change(made)
    if crc:
        write_crc(made, 0, len(made))
    return bytes(made)


def put(position: int, format_: str, value: int) -> Callable[[bytearray], None]:
    return lambda made: struct.pack_into(">" + format_, made, position, value)


def test_acks_0_is_never_answered(asker: Asker, topic: str) -> None:
    asker.client.request(produce_request(topic, batch(), acks=0), 9, correlation_id=7)
    assert asker.list_offset(topic, -1).offset == 1  # and its answer is the next that comes


def test_an_error_with_acks_0_closes_the_connection(asker: Asker, topic: str) -> None:
    asker.client.request(produce_request(topic + "-unknown", batch(), acks=0), 9)
    assert asker.client.is_closed()


def test_other_acks_are_refused(asker: Asker, topic: str) -> None:
    answer = asker.produce(topic, batch(), acks=2)
    assert answer.error_code == Errors.INVALID_REQUIRED_ACKS


def test_produce_creates_no_topic(asker: Asker, name: str) -> None:
    assert asker.produce(name, batch()).error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    answer = asker.metadata([name])
    assert answer.topics[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("index", [-1, 1, 2**31 - 1])
def test_a_partition_that_is_not_there_is_unknown(asker: Asker, topic: str, index: int) -> None:
    answer = asker.produce(topic, batch(), index=index)
    assert answer.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.base_offset == -1


def test_offsets_follow_the_order_of_appends(asker: Asker, topic: str) -> None:
    assert asker.produce(topic, batch(b"a", b"b")).base_offset == 0
    second = asker.produce(topic, batch(b"c"), acks=-1)
    assert (second.base_offset, second.log_append_time_ms, second.log_start_offset) == (2, -1, 0)


def test_a_batch_over_max_message_bytes_is_too_large(asker: Asker, name: str) -> None:
    asker.create(name, configs={"max.message.bytes": "200"})
    assert asker.produce(name, batch(b"x" * 300)).error_code == Errors.MESSAGE_TOO_LARGE
    assert asker.produce(name, batch(b"x" * 80)).error_code == 0


def test_a_batch_over_segment_bytes_is_too_large_for_the_log(asker: Asker, name: str) -> None:
    asker.create(name, configs={"segment.bytes": "300"})
    assert asker.produce(name, batch(b"x" * 400)).error_code == Errors.RECORD_LIST_TOO_LARGE


BAD_BATCHES = {
    "wrong checksum": (changed(put(70, "b", 1), crc=False), Errors.CORRUPT_MESSAGE),
    "magic 3": (changed(put(16, "b", 3), crc=False), Errors.CORRUPT_MESSAGE),
    "shorter than it says": (batch(b"abc")[:-2], Errors.INVALID_RECORD),
    "length below a header": (changed(put(8, "i", 10), crc=False), Errors.CORRUPT_MESSAGE),
    "base offset": (changed(put(0, "q", 5)), Errors.INVALID_RECORD),
    "count above the offsets": (changed(put(57, "i", 3)), Errors.INVALID_RECORD),
    "count zero": (changed(put(57, "i", 0)), Errors.INVALID_RECORD),
    "two batches": (batch(b"a") + batch(b"b"), Errors.INVALID_RECORD),
    "no batch": (b"", Errors.INVALID_RECORD),
    "control batch": (changed(put(21, "h", 0x20)), Errors.INVALID_RECORD),
    "sequence missing": (
        batch(producer=ProducerStamp(1, 0, -1)),
        Errors.INVALID_RECORD,
    ),
    "a record that lies about its length": (changed(put(61, "b", 0x70)), None),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_is_refused_as_a_whole(asker: Asker, topic: str, case: str) -> None:
    records, error = BAD_BATCHES[case]
    answer = asker.produce(topic, records)
    expected = {error} if error else {Errors.INVALID_RECORD, Errors.CORRUPT_MESSAGE}
    assert answer.error_code in expected
    assert answer.base_offset == -1
    assert asker.produce(topic, batch()).base_offset == 0


def test_a_compacted_topic_wants_keys(asker: Asker, name: str) -> None:
    asker.create(name, configs={"cleanup.policy": "compact"})
    refused = asker.produce(name, batch(b"no key"))
    assert refused.error_code == Errors.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [0]
    assert asker.produce(name, batch(b"v", key=b"k")).error_code == 0


def test_timestamps_outside_the_window_are_refused(asker: Asker, name: str) -> None:
    asker.create(
        name,
        configs={
            "message.timestamp.before.max.ms": "3600000",
            "message.timestamp.after.max.ms": "3600000",
        },
    )
    for timestamp in (NOW_MS - 10**9, NOW_MS + 10**12):
        answer = asker.produce(name, batch(timestamp=timestamp))
        assert answer.error_code == Errors.INVALID_TIMESTAMP


def test_a_producer_that_claims_the_brokers_time_is_not_believed(asker: Asker, topic: str) -> None:
    assert asker.produce(topic, changed(put(21, "h", 8))).error_code == 0
    stored = read_header(bytes(asker.fetch(topic, 0).records))
    assert (stored.attributes, stored.max_timestamp) == (0, NOW_MS + 1)


def test_a_transactional_batch_without_a_transactional_id_is_refused(
    asker: Asker, topic: str
) -> None:
    stamped = bytearray(batch(producer=ProducerStamp(1, 0, 0)))
    stamped[22] = 0x10
    write_crc(stamped, 0, len(stamped))
    answer = asker.produce(topic, bytes(stamped))
    assert answer.error_code == Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_log_append_time_is_told_and_stored(asker: Asker, name: str) -> None:
    asker.create(name, configs={"message.timestamp.type": "LogAppendTime"})
    answer = asker.produce(name, batch(b"a", b"b"))
    assert answer.log_append_time_ms > NOW_MS
    stored = read_header(bytes(asker.fetch(name, 0).records))
    assert stored.max_timestamp == answer.log_append_time_ms
    assert stored.attributes & 8


def test_zstd_needs_produce_7(asker: Asker, topic: str) -> None:
    compressed = batch(b"x" * 100, codec=Codec.ZSTD)
    old = asker.produce(topic, compressed, version=6)
    assert old.error_code == Errors.UNSUPPORTED_COMPRESSION_TYPE
    assert asker.produce(topic, compressed, version=7).error_code == 0


def test_batches_are_stored_as_they_were_sent(asker: Asker, topic: str) -> None:
    sent = batch(b"x" * 100, b"y" * 100, codec=Codec.LZ4)
    asker.produce(topic, sent)
    stored = bytes(asker.fetch(topic, 0).records)
    assert stored[16:] == sent[16:]


def test_compression_type_makes_the_broker_recompress(asker: Asker, name: str) -> None:
    asker.create(name, configs={"compression.type": "gzip"})
    asker.produce(name, batch(b"x" * 1000))
    stored = bytes(asker.fetch(name, 0).records)
    assert read_header(stored).codec is Codec.GZIP
    assert len(stored) < 300


def test_clients_may_not_write_internal_topics(asker: Asker) -> None:
    asker.create("__consumer_offsets")
    answer = asker.produce("__consumer_offsets", batch(key=b"k"))
    assert answer.error_code == Errors.INVALID_TOPIC_EXCEPTION


# Idempotence --------------------------------------------------------------------------------


@pytest.fixture
def producer_id(asker: Asker) -> int:
    return new_producer_id(asker)


def new_producer_id(asker: Asker) -> int:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    answer = asker.ask(request, 1)
    while answer.error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS:
        answer = asker.ask(request, 1)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    return answer.producer_id


def test_every_producer_gets_an_id_of_its_own(asker: Asker) -> None:
    assert new_producer_id(asker) != new_producer_id(asker)


def test_an_empty_transactional_id_is_refused(asker: Asker) -> None:
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
    assert asker.ask(request, 1).error_code == Errors.INVALID_REQUEST


def test_a_repeated_batch_is_answered_like_the_first_and_not_appended(
    asker: Asker, topic: str, producer_id: int
) -> None:
    batches = [batch(b"%d" % n, producer=ProducerStamp(producer_id, 0, n)) for n in range(5)]
    first = [asker.produce(topic, each).base_offset for each in batches]
    again = [asker.produce(topic, each) for each in batches]
    assert [(a.error_code, a.base_offset) for a in again] == [(0, offset) for offset in first]
    assert asker.list_offset(topic, -1).offset == 5


def test_a_gap_in_the_sequence_is_out_of_order(asker: Asker, topic: str, producer_id: int) -> None:
    asker.produce(topic, batch(producer=ProducerStamp(producer_id, 0, 0)))
    answer = asker.produce(topic, batch(producer=ProducerStamp(producer_id, 0, 2)))
    assert answer.error_code == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_older_than_the_last_five_is_out_of_order(
    asker: Asker, topic: str, producer_id: int
) -> None:
    for n in range(6):
        asker.produce(topic, batch(producer=ProducerStamp(producer_id, 0, n)))
    answer = asker.produce(topic, batch(producer=ProducerStamp(producer_id, 0, 0)))
    assert answer.error_code == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_begins_at_sequence_zero_and_fences_the_old(
    asker: Asker, topic: str, producer_id: int
) -> None:
    asker.produce(topic, batch(producer=ProducerStamp(producer_id, 0, 0)))
    wrong = asker.produce(topic, batch(producer=ProducerStamp(producer_id, 1, 5)))
    assert wrong.error_code == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert asker.produce(topic, batch(producer=ProducerStamp(producer_id, 1, 0))).error_code == 0
    old = asker.produce(topic, batch(producer=ProducerStamp(producer_id, 0, 1)))
    assert old.error_code == Errors.INVALID_PRODUCER_EPOCH


def test_an_unknown_producer_may_begin_anywhere(asker: Asker, topic: str) -> None:
    answer = asker.produce(topic, batch(producer=ProducerStamp(987_654, 3, 17)))
    assert answer.error_code == 0


def test_sequences_wrap_to_zero(asker: Asker, topic: str, producer_id: int) -> None:
    asker.produce(topic, batch(b"a", producer=ProducerStamp(producer_id, 0, 2**31 - 1)))
    assert asker.produce(topic, batch(producer=ProducerStamp(producer_id, 0, 0))).error_code == 0
