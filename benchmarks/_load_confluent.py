"""confluent-kafka at work, which also fills the topics that all consumers read."""

from random import Random

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks._load_tools import BATCH_BYTES, Stopwatch, latencies


async def produce(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    producer = Producer(
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


async def fill(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    """What consumers read: full batches of 16 KB, however busy the machine is."""
    return await fill_with(bootstrap, topic, [value] * count)


async def mixed(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    """The same with sizes from half to one and a half of the given one."""
    random = Random(1)
    half, more = len(value) // 2, len(value) * 3 // 2
    doubled = value + value
    return await fill_with(
        bootstrap, topic, [doubled[: random.randrange(half, more)] for _ in range(count)]
    )


async def fill_with(bootstrap: str, topic: str, values: list[bytes]) -> dict[str, float]:
    settings = {"bootstrap.servers": bootstrap, "acks": "1"}
    producer = Producer({**settings, "linger.ms": 100, "batch.size": BATCH_BYTES})
    for value in values:
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return {}


async def latency(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "1", "linger.ms": 0})

    async def send() -> None:
        producer.produce(topic, value)
        producer.flush()

    return await latencies(send, count)


async def poll(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
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


async def iterate(bootstrap: str, topic: str, count: int, value: bytes) -> dict[str, float]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    watch = None
    for _ in range(count):
        message = consumer.poll(30)
        watch = watch or Stopwatch()
        assert message is not None, "a record was not received"
        _ = message.value()
    reading = watch.reading() if watch else {}
    consumer.close()
    return reading
