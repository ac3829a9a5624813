"""Our own client at work."""

from odradek.client.consumer import Consumer
from odradek.client.producer import Producer
from odradek.protocol.types import TopicPartition

from benchmarks._load_tools import BATCH_BYTES, Stopwatch, iterated, latencies


async def produce(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    async with Producer(bootstrap_servers=bootstrap, acks="1", batch_size=BATCH_BYTES) as producer:
        await producer.send_and_wait(topic, value)
        watch = Stopwatch()
        for _ in range(count):
            await producer.send(topic, value)
        await producer.flush()
        return watch.reading()


async def latency(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    async with Producer(bootstrap_servers=bootstrap, acks="1") as producer:
        return await latencies(lambda: producer.send_and_wait(topic, value), count)


async def poll(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        got = len(await consumer.poll(30))
        watch = Stopwatch()
        while got < count:
            for record in await consumer.poll(30):
                got += 1
                _ = record.value
        return watch.reading()


async def iterate(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return await iterated(consumer, count)
