"""Produce, as clients depend on it."""

import struct

import pytest
from odradek.protocol.compression import Codec
from odradek.protocol.errors import Errors
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.transactions import InitProducerIdRequest
from odradek.protocol.records import ProducerStamp, read_header, write_crc

from tests.behaviours.asking import NOW_MS, Asker, batch, produce_request
from tests.behaviours.bad_input import BAD_BATCHES, changed, put


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


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_is_refused_as_a_whole(asker: Asker, topic: str, case: str) -> None:
    records, error = BAD_BATCHES[case]
    answer = asker.produce(topic, records)
    expected = {error} if error else {Errors.INVALID_RECORD, Errors.CORRUPT_MESSAGE}
    assert answer.error_code in expected
    assert answer.base_offset == -1
    assert asker.produce(topic, batch()).base_offset == 0


def test_offsets_within_a_batch_are_the_producers_own_affair(asker: Asker, topic: str) -> None:
    """Nobody looks at them; what follows is counted by the header all the same."""
    second_record = 61 + 1 + (batch(b"one", b"two")[61] >> 1)
    twice_the_first = changed(put(second_record + 3, "b", 0))
    assert asker.produce(topic, twice_the_first).error_code == 0
    assert asker.produce(topic, batch()).base_offset == 2
    assert asker.list_offset(topic, -1).offset == 3


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_a_codec_that_nobody_knows_is_refused(asker: Asker, topic: str, codec_id: int) -> None:
    answer = asker.produce(topic, changed(put(21, "h", codec_id)))
    # Real Kafka has no better word for it than an unknown error of its own.
    assert answer.error_code in (Errors.UNSUPPORTED_COMPRESSION_TYPE, Errors.UNKNOWN_SERVER_ERROR)
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


def test_the_admin_client_may_write_internal_topics(asker: Asker) -> None:
    asker.create("__consumer_offsets")
    # The tombstone of an offset that nobody committed changes nothing.
    key = struct.pack(">hh7sh7si", 1, 7, b"nobodys", 7, b"nothing", 0)
    request = produce_request("__consumer_offsets", batch(None, key=key))
    asker.client.request(request, 9, client_id="__admin_client")
    _, answer = asker.client.read_response(ProduceRequest, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


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
