"""aiokafka at work."""

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks._load_tools import BATCH_BYTES, Stopwatch, iterated, latencies


async def produce(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
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


async def latency(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1)
    await producer.start()
    found = await latencies(lambda: producer.send_and_wait(topic, value), count)
    await producer.stop()
    return found


async def poll(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
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


async def iterate(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    reading = await iterated(consumer, count)
    await consumer.stop()
    return reading
