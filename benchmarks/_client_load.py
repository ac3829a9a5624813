"""One client does one piece of work against a running broker, in a process of its own.

`python -m benchmarks._client_load CLIENT WORK BOOTSTRAP TOPIC COUNT BYTES` prints one JSON object:
seconds and CPU seconds (of this process) for COUNT records of BYTES, or percentiles of single
sends. Every client has its stock settings except acks=1 and batches of 16 KB, and uses uvloop where
it runs on asyncio; all producers send without keys and wait for everything at the end.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from random import Random

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from odradek.client.consumer import Consumer
from odradek.client.producer import Producer
from odradek.protocol.types import TopicPartition as OurPartition

BATCH_BYTES = 16_384


class Stopwatch:
    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def reading(self) -> dict[str, float]:
        return {
            "seconds": time.perf_counter() - self._wall,
            "cpu": time.process_time() - self._cpu,
        }


def percentiles(latencies: list[float]) -> dict[str, float]:
    latencies.sort()
    return {"p50": latencies[len(latencies) // 2], "p99": latencies[len(latencies) * 99 // 100]}


async def produce_odradek(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    async with Producer(bootstrap_servers=bootstrap, acks="1", batch_size=BATCH_BYTES) as producer:
        await producer.send_and_wait(topic, value)
        watch = Stopwatch()
        for _ in range(count):
            await producer.send(topic, value)
        await producer.flush()
        return watch.reading()


async def produce_aiokafka(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1, max_batch_size=BATCH_BYTES)
    await producer.start()
    await producer.send_and_wait(topic, value)
    watch = Stopwatch()
    for _ in range(count):
        await producer.send(topic, value)
    await producer.flush()
    reading = watch.reading()
    await producer.stop()
    return reading


async def produce_kafka_python(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks=1, batch_size=BATCH_BYTES, enable_idempotence=False
    )
    producer.send(topic, value).get(30)
    watch = Stopwatch()
    for _ in range(count):
        producer.send(topic, value)
    producer.flush()
    reading = watch.reading()
    producer.close()
    return reading


async def produce_confluent(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    producer = ConfluentProducer(
        {"bootstrap.servers": bootstrap, "acks": "1", "batch.size": BATCH_BYTES, "linger.ms": 0}
    )
    producer.produce(topic, value)
    producer.flush()
    watch = Stopwatch()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return watch.reading()


async def fill_confluent(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    """What consumers read: full batches of 16 KB, however busy the machine is."""
    return await fill(bootstrap, topic, [value] * count)


async def mixed_confluent(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    """The same with sizes from half to one and a half of the given one."""
    random = Random(1)
    half, more = len(value) // 2, len(value) * 3 // 2
    doubled = value + value
    return await fill(
        bootstrap, topic, [doubled[: random.randrange(half, more)] for _ in range(count)]
    )


async def fill(bootstrap: str, topic: str, values: list[bytes]) -> dict[str, float]:
    settings = {"bootstrap.servers": bootstrap, "acks": "1"}
    producer = ConfluentProducer({**settings, "linger.ms": 100, "batch.size": BATCH_BYTES})
    for value in values:
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return {}


async def latency_odradek(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    async with Producer(bootstrap_servers=bootstrap, acks="1") as producer:
        return await latencies(lambda: producer.send_and_wait(topic, value), count)


async def latency_aiokafka(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1)
    await producer.start()
    found = await latencies(lambda: producer.send_and_wait(topic, value), count)
    await producer.stop()
    return found


async def latencies(send: Callable[[], Awaitable[object]], count: int) -> dict[str, float]:
    found = []
    for number in range(count + count // 10):
        began = time.perf_counter()
        await send()
        if number >= count // 10:
            found.append(time.perf_counter() - began)
    return percentiles(found)


async def latency_kafka_python(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks=1, enable_idempotence=False)

    async def send() -> None:
        producer.send(topic, value).get(30)

    found = await latencies(send, count)
    producer.close()
    return found


async def latency_confluent(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "acks": "1", "linger.ms": 0})

    async def send() -> None:
        producer.produce(topic, value)
        producer.flush()

    return await latencies(send, count)


async def poll_odradek(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([OurPartition(topic, 0)])
        got = len(await consumer.poll(30))
        watch = Stopwatch()
        while got < count:
            for record in await consumer.poll(30):
                got += 1
                _ = record.value
        return watch.reading()


async def poll_aiokafka(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    got = 0
    watch = None
    while got < count:
        batches = await consumer.getmany(timeout_ms=30_000, max_records=500)
        for records in batches.values():
            for record in records:
                got += 1
                _ = record.value
        watch = watch or Stopwatch()
    reading = watch.reading() if watch else {}
    await consumer.stop()
    return reading


async def poll_kafka_python(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([KafkaPythonPartition(topic, 0)])
    got = 0
    watch = None
    while got < count:
        for records in consumer.poll(timeout_ms=30_000, max_records=500).values():
            for record in records:
                got += 1
                _ = record.value
        watch = watch or Stopwatch()
    reading = watch.reading() if watch else {}
    consumer.close()
    return reading


async def poll_confluent(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    consumer = ConfluentConsumer(settings)
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    got = 0
    watch = None
    while got < count:
        for message in consumer.consume(500, timeout=30):
            got += 1
            _ = message.value()
        watch = watch or Stopwatch()
    reading = watch.reading() if watch else {}
    consumer.close()
    return reading


async def iterate_odradek(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([OurPartition(topic, 0)])
        return await iterated(consumer, count)


async def iterate_aiokafka(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    reading = await iterated(consumer, count)
    await consumer.stop()
    return reading


async def iterated(consumer: "Consumer | AIOKafkaConsumer", count: int) -> dict[str, float]:
    got = 0
    watch = None
    async for record in consumer:
        watch = watch or Stopwatch()
        got += 1
        _ = record.value
        if got == count:
            break
    return watch.reading() if watch else {}


async def iterate_kafka_python(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([KafkaPythonPartition(topic, 0)])
    watch = None
    for got, record in enumerate(consumer, 1):
        watch = watch or Stopwatch()
        _ = record.value
        if got == count:
            break
    reading = watch.reading() if watch else {}
    consumer.close()
    return reading


async def iterate_confluent(
    bootstrap: str, topic: str, count: int, value: bytes
) -> dict[str, float]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    consumer = ConfluentConsumer(settings)
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    watch = None
    for _ in range(count):
        message = consumer.poll(30)
        watch = watch or Stopwatch()
        _ = message.value()
    reading = watch.reading() if watch else {}
    consumer.close()
    return reading


def main() -> None:
    client, work, bootstrap, topic, count, size = sys.argv[1:]
    job = globals()[f"{work}_{client.replace('-', '_')}"]
    value = b"x" * int(size)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(job(bootstrap, topic, int(count), value))))


if __name__ == "__main__":
    main()
