"""A producer's batches: their bytes, their outcome, and their halves."""

import asyncio
from random import Random

import pytest
from odradek.client.batch import Batch, Delivery, Outcome, RawRecord, sealed_batch
from odradek.client.values import RecordMetadata
from odradek.protocol.compression import Codec
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import BatchBuilder, ProducerStamp, check_crc, iter_records
from odradek.protocol.types import TopicPartition

PARTITION = TopicPartition("orders", 3)


def random_record(random: Random) -> RawRecord:
    key = random.choice([None, b"", random.randbytes(random.randrange(200))])
    value = random.choice([None, b"", random.randbytes(random.randrange(20_000))])
    headers = [("name", random.choice([None, b"content"]))] * random.randrange(3)
    return 1_700_000_000_000 + random.randrange(-5, 100_000), key, value, headers


@pytest.mark.parametrize("seed", range(20))
def test_bytes_are_those_of_the_batch_builder(seed: int) -> None:
    random = Random(seed)
    records = [random_record(random) for _ in range(random.randrange(1, 300))]
    stamp = ProducerStamp(5, 6, 7, is_transactional=seed % 2 == 0)
    codec = random.choice([Codec.NONE, Codec.LZ4])
    builder = BatchBuilder(codec, producer=stamp)
    for record in records:
        builder.append(*record)
    sealed = sealed_batch(records, codec, stamp)
    assert sealed == builder.build()
    check_crc(sealed)


def batch_of(count: int) -> Batch:
    batch = Batch(PARTITION, 0, 0.0, 1000)
    batch.records = [(100 + index, None, b"%d" % index, ()) for index in range(count)]
    batch.base_sequence = 50
    return batch


def test_each_record_has_its_offset_and_timestamp() -> None:
    batch = batch_of(3)
    batch.settle(Outcome(base_offset=40))
    assert batch.metadata_of(2) == RecordMetadata("orders", 3, 42, 102)


def test_the_brokers_time_wins_where_it_is_used() -> None:
    batch = batch_of(3)
    batch.settle(Outcome(base_offset=40, log_append_time_ms=999))
    assert batch.metadata_of(2) == RecordMetadata("orders", 3, 42, 999)


def test_waiting_for_a_record_gives_its_metadata_or_its_error() -> None:
    async def run() -> RecordMetadata:
        batch = batch_of(2)
        asyncio.get_running_loop().call_soon(batch.settle, Outcome(base_offset=9))
        return await Delivery(batch, 1)

    assert asyncio.run(run()).offset == 10

    async def fail() -> None:
        batch = batch_of(2)
        batch.settle(Outcome(error=KafkaError(Errors.INVALID_RECORD)))
        await Delivery(batch, 1)

    with pytest.raises(KafkaError, match="INVALID_RECORD"):
        asyncio.run(fail())


def test_everybody_who_waits_hears_of_it_and_may_give_up_alone() -> None:
    async def run() -> list[object]:
        batch = batch_of(3)
        waiting = [asyncio.ensure_future(Delivery(batch, index)) for index in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.sleep(0)
        batch.settle(Outcome(base_offset=7))
        return await asyncio.gather(*waiting, return_exceptions=True)

    first, second, third = asyncio.run(run())
    assert isinstance(first, RecordMetadata)
    assert isinstance(third, RecordMetadata)
    assert (first.offset, third.offset) == (7, 9)
    assert isinstance(second, asyncio.CancelledError)


def test_a_callback_that_fails_keeps_no_other_from_its_outcome(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[RecordMetadata | None] = []

    def fail(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        raise ValueError("the application's own mistake")

    batch = batch_of(2)
    batch.callbacks = [(0, fail), (1, lambda metadata, error: heard.append(metadata))]
    batch.settle(Outcome(base_offset=7))
    assert heard == [RecordMetadata("orders", 3, 8, 101)]
    assert "the application's own mistake" in caplog.text


def test_halves_keep_numbers_and_order_and_answer_for_the_whole() -> None:
    batch = batch_of(5)
    first, second = batch.halved()
    assert [first.base_sequence, second.base_sequence] == [50, 52]
    assert first.order < second.order < batch.order + batch.span
    quarter, last = second.halved()
    assert first.order < quarter.order < last.order
    first.settle(Outcome(base_offset=10))
    quarter.settle(Outcome(base_offset=20))
    last.settle(Outcome(error=KafkaError(Errors.MESSAGE_TOO_LARGE)))
    assert [batch.metadata_of(index).offset for index in range(3)] == [10, 11, 20]
    assert batch.error_of(2) is None
    assert batch.error_of(4) is not None


def test_a_sealed_batch_reads_back() -> None:
    sealed = sealed_batch([(5, b"k", None, [("h", None)])], Codec.NONE, ProducerStamp())
    (record,) = iter_records(sealed)
    assert record == (0, 5, b"k", None, (("h", None),))
