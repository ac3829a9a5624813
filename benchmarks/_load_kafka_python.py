"""kafka-python at work."""

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks._load_tools import BATCH_BYTES, Stopwatch, latencies


async def produce(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
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


async def latency(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks=1, enable_idempotence=False)

    async def send() -> None:
        producer.send(topic, value).get(30)

    found = await latencies(send, count)
    producer.close()
    return found


async def poll(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
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


async def iterate(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    watch = None
    for got, record in enumerate(consumer, 1):
        watch = watch or Stopwatch()
        _ = record.value
        if got == count:
            break
    reading = watch.reading() if watch else {}
    consumer.close()
    return reading
