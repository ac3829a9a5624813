"""Producing to every broker the client must get along with."""

import asyncio
from collections.abc import Callable

import pytest
from odradek.client.partitioner import RoundRobinPartitioner, key_hash
from odradek.client.producer import Producer
from odradek.client.values import ProducerRecord, RecordMetadata
from odradek.protocol.errors import Errors, KafkaError

from tests.integration.client_room import (
    make_topic,
    read_all,
    read_with_confluent,
    reading,
    take,
)

Fresh = Callable[[str], str]


def test_everything_in_a_record_arrives(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        async with Producer(bootstrap_servers=bootstrap) as producer:
            headers = [("trace", b"abc"), ("empty", b""), ("null", None)]
            first = await producer.send_and_wait(
                topic, "grüße", key="key", headers=headers, timestamp_ms=1_600_000_000_123
            )
            second = await producer.send_and_wait(topic, None, key=b"deleted")
        assert first == RecordMetadata(topic, 0, 0, 1_600_000_000_123)
        assert second.offset == 1
        read, tombstone = await read_all(bootstrap, topic, 2)
        assert (read.key, read.value) == (b"key", "grüße".encode())
        assert read.headers == tuple(headers)
        assert read.timestamp_ms == 1_600_000_000_123
        assert (tombstone.key, tombstone.value) == (b"deleted", None)
        seen = read_with_confluent(bootstrap, topic, 2)
        assert seen == [(b"key", "grüße".encode()), (b"deleted", None)]

    asyncio.run(run())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_with_every_codec(bootstrap: str, fresh: Fresh, codec: str) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        values = [b"value %d " % i * 20 for i in range(500)]
        async with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for value in values:
                await producer.send(topic, value)
        assert [value for _, value in read_with_confluent(bootstrap, topic, 500)] == values
        assert [record.value for record in await read_all(bootstrap, topic, 500)] == values

    asyncio.run(run())


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_kind_of_acks(bootstrap: str, fresh: Fresh, acks: str) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        async with Producer(bootstrap_servers=bootstrap, acks=acks) as producer:
            deliveries = [await producer.send(topic, b"%d" % i) for i in range(10)]
            offsets = [(await delivery).offset for delivery in deliveries]
        assert offsets == ([-1] * 10 if acks == "0" else list(range(10)))
        assert [r.value for r in await read_all(bootstrap, topic, 10)] == [
            b"%d" % i for i in range(10)
        ]

    asyncio.run(run())


def test_keys_decide_the_partition_and_turns_where_asked(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), partitions=5)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for i in range(20):
                key = b"key-%d" % i
                assert (await producer.send_and_wait(topic, b"", key=key)).partition == (
                    key_hash(key) % 5
                )
            assert (await producer.send_and_wait(topic, b"", key=b"k", partition=3)).partition == 3
            with pytest.raises(KafkaError, match="no partition 5"):
                await producer.send(topic, b"", partition=5)
        async with Producer(
            bootstrap_servers=bootstrap, partitioner=RoundRobinPartitioner
        ) as producer:
            sent = [await producer.send_and_wait(topic, b"") for _ in range(10)]
            assert [metadata.partition for metadata in sent] == [0, 1, 2, 3, 4] * 2

    asyncio.run(run())


def test_callbacks_and_interceptors_see_every_record(bootstrap: str, fresh: Fresh) -> None:
    class Shouting:
        def __init__(self) -> None:
            self.acknowledged: list[int] = []

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(value=str(record.value).upper())

        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: KafkaError | None
        ) -> None:
            assert metadata is not None
            self.acknowledged.append(metadata.offset)

    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        interceptor = Shouting()
        called: list[tuple[RecordMetadata | None, KafkaError | None]] = []
        async with Producer(bootstrap_servers=bootstrap, interceptors=[interceptor]) as producer:
            await producer.send(topic, "hush", on_delivery=lambda *args: called.append(args))
            await producer.send(topic, "quiet")
        assert interceptor.acknowledged == [0, 1]
        assert [metadata.offset for metadata, _ in called if metadata] == [0]
        assert [r.value for r in await read_all(bootstrap, topic, 2)] == [b"HUSH", b"QUIET"]

    asyncio.run(run())


def test_a_full_buffer_holds_the_sender_back(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        async with Producer(bootstrap_servers=bootstrap, buffer_memory=40_000) as producer:
            for i in range(2000):
                await producer.send(topic, b"%04d" % i + bytes(300))
        async with reading(bootstrap, topic) as consumer:
            values = [bytes(str(r.value)[2:6], "ascii") for r in await take(consumer, 2000)]
        assert values == [b"%04d" % i for i in range(2000)]

    asyncio.run(run())


def test_records_that_are_too_large_are_refused(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), max_message_bytes="2000")
        async with Producer(bootstrap_servers=bootstrap, max_request_size=100_000) as producer:
            with pytest.raises(KafkaError, match=r"exceeds max\.request\.size"):
                await producer.send(topic, bytes(200_000))
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await producer.send_and_wait(topic, bytes(50_000))
            assert (await producer.send_and_wait(topic, b"fits")).offset == 0

    asyncio.run(run())


def test_a_batch_its_broker_finds_too_large_is_split(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), max_message_bytes="2000")
        async with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
            deliveries = [await producer.send(topic, b"%03d" % i + bytes(97)) for i in range(200)]
            offsets = [(await delivery).offset for delivery in deliveries]
        assert offsets == list(range(200))
        read = await read_all(bootstrap, topic, 200)
        assert [bytes(str(r.value)[2:5], "ascii") for r in read] == [
            b"%03d" % i for i in range(200)
        ]

    asyncio.run(run())


def test_a_topic_that_cannot_be_is_an_error(bootstrap: str) -> None:
    async def run() -> None:
        async with Producer(bootstrap_servers=bootstrap, max_block_ms=2000) as producer:
            with pytest.raises(KafkaError) as caught:
                await producer.send("no such / topic", b"")
            assert caught.value.error is Errors.INVALID_TOPIC_EXCEPTION

    asyncio.run(run())


def test_only_committed_transactions_are_read_committed(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        settings = {"bootstrap_servers": bootstrap, "transactional_id": fresh("transactional")}
        async with Producer(**settings) as producer:
            await producer.init_transactions()
            for i in range(6):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % i)
                await (producer.abort_transaction() if i % 2 else producer.commit_transaction())
        committed = [b"0", b"2", b"4"]
        read = await read_all(bootstrap, topic, 3, isolation_level="read_committed")
        assert [record.value for record in read] == committed
        outside = read_with_confluent(bootstrap, topic, 3, isolation="read_committed")
        assert [value for _, value in outside] == committed
        assert len(await read_all(bootstrap, topic, 6)) == 6

    asyncio.run(run())


def test_a_transaction_that_raises_is_aborted_and_the_next_one_works(
    bootstrap: str, fresh: Fresh
) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), max_message_bytes="2000")
        settings = {"bootstrap_servers": bootstrap, "transactional_id": fresh("transactional")}
        async with Producer(**settings) as producer:
            await producer.init_transactions()

            async def send_and_stumble() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"lost")
                    raise ZeroDivisionError

            async def send_too_much() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"lost too")
                    await producer.send(topic, bytes(10_000))

            with pytest.raises(ZeroDivisionError):
                await send_and_stumble()
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await send_too_much()
            async with producer.transaction():
                await producer.send(topic, b"kept")
        read = await read_all(bootstrap, topic, 1, isolation_level="read_committed")
        assert [record.value for record in read] == [b"kept"]

    asyncio.run(run())


def test_a_second_holder_of_a_transactional_id_shuts_the_first_out(
    bootstrap: str, fresh: Fresh
) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        settings = {"bootstrap_servers": bootstrap, "transactional_id": fresh("transactional")}
        async with Producer(**settings) as first, Producer(**settings) as second:
            await first.init_transactions()
            await first.begin_transaction()
            await first.send_and_wait(topic, b"of the first")
            await second.init_transactions()
            async with second.transaction():
                await second.send(topic, b"of the second")
            with pytest.raises(KafkaError) as caught:
                await first.commit_transaction()
            assert caught.value.error is Errors.PRODUCER_FENCED
            with pytest.raises(KafkaError):
                await first.begin_transaction()
        read = await read_all(bootstrap, topic, 1, isolation_level="read_committed")
        assert [record.value for record in read] == [b"of the second"]

    asyncio.run(run())
