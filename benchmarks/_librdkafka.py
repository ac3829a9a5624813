"""Load from librdkafka, through confluent-kafka: what the two brokers are compared with.

Every workload runs for about as long as it is told, on a topic that is there, and tells what it
got done. Records have 1 KB, topics one partition unless told. Whatever was not delivered is an
error.
"""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks._rows import percentile

VALUE = b"x" * 1000
_BATCHED = {"batch.size": 16_384, "linger.ms": 5, "queue.buffering.max.messages": 20_000}
_UNBATCHED = {"batch.num.messages": 1, "linger.ms": 0, "queue.buffering.max.messages": 1_000}
_BY_ALL = {"acks": -1}
# Warnings and worse: below that it tells of every producer that goes.
_LOG_LEVEL = 4
# As many as Kafka's own consumer hands out at a time. With many more, or a larger queue than the
# stock one, records have left the processor's caches before they are looked at: it reads half as
# fast then, and from every broker alike.
_READ_AT_ONCE = 500
_WAIT_SECONDS = 30.0


class Outcome(NamedTuple):
    """What was done in how much time; a synchronous producer also tells its percentiles."""

    records: int
    seconds: float
    p50_us: float = 0.0
    p99_us: float = 0.0

    @property
    def per_second(self) -> float:
        return self.records / self.seconds

    @property
    def mb_per_second(self) -> float:
        return self.per_second * len(VALUE) / 1e6


Workload = Callable[[str, str, float], Outcome]


def make_topic(
    bootstrap: str, topic: str, *, partitions: int = 1, replicas: int = 1, **config: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, partitions, replicas, config=config)
    for future in admin.create_topics([new]).values():
        future.result(_WAIT_SECONDS)


def produce_batched(bootstrap: str, topic: str, seconds: float) -> Outcome:
    return _produce(bootstrap, topic, seconds, _BATCHED)


def produce_unbatched(bootstrap: str, topic: str, seconds: float) -> Outcome:
    return _produce(bootstrap, topic, seconds, _UNBATCHED)


def produce_committed(bootstrap: str, topic: str, seconds: float) -> Outcome:
    """Batched, acknowledged by all replicas that are in sync."""
    return _produce(bootstrap, topic, seconds, _BATCHED | _BY_ALL)


def produce_synchronously(bootstrap: str, topic: str, seconds: float) -> Outcome:
    """One record at a time; the next when the last is acknowledged."""
    return _produce_one_by_one(bootstrap, topic, seconds, _UNBATCHED)


def produce_committed_synchronously(bootstrap: str, topic: str, seconds: float) -> Outcome:
    return _produce_one_by_one(bootstrap, topic, seconds, _UNBATCHED | _BY_ALL)


def _produce_one_by_one(
    bootstrap: str, topic: str, seconds: float, settings: Mapping[str, int]
) -> Outcome:
    delivered = _Delivered()
    producer = _producer(bootstrap, settings)
    _connect(producer, topic, delivered)
    clock = time.perf_counter
    taken: list[float] = []
    began = clock()
    while (start := clock()) < began + seconds:
        producer.produce(topic, VALUE, on_delivery=delivered)
        wanted = len(taken) + 2  # one was for the connection
        while delivered.count < wanted:
            producer.poll(_WAIT_SECONDS)
        taken.append((clock() - start) * 1e6)
    elapsed = clock() - began
    return Outcome(len(taken), elapsed, percentile(taken, 0.5), percentile(taken, 0.99))


def consume(bootstrap: str, topic: str, seconds: float) -> Outcome:
    """Read what is there from the start, again and again until the time is over."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            # When its queue is full, the client would not ask again for a second, which says
            # nothing of a broker but that it filled the queue.
            "fetch.queue.backoff.ms": 2,
            # Nor does it ask from the start again while a broker still waits for records to come
            # after the last: half a second in each pass.
            "fetch.wait.max.ms": 1,
            "log_level": _LOG_LEVEL,
        }
    )
    try:
        where = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(where, timeout=_WAIT_SECONDS)
        consumer.assign([where])
        consumer.consume(1, _WAIT_SECONDS)
        began, records, left = time.perf_counter(), 0, end - 1
        while time.perf_counter() < began + seconds:
            got = len(consumer.consume(min(left, _READ_AT_ONCE), _WAIT_SECONDS))
            records += got
            left -= got
            if not left:
                consumer.seek(where)
                left = end
        return Outcome(records, time.perf_counter() - began)
    finally:
        consumer.close()


class _Delivered:
    """Counts acknowledged records."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"a record was not delivered: {error}")
        self.count += 1


def _producer(bootstrap: str, settings: Mapping[str, int]) -> Producer:
    always = {"bootstrap.servers": bootstrap, "acks": 1, "log_level": _LOG_LEVEL}
    return Producer({**always, **settings})


def _connect(producer: Producer, topic: str, delivered: _Delivered) -> None:
    """The first record pays for connections and metadata."""
    producer.produce(topic, VALUE, on_delivery=delivered)
    if producer.flush(_WAIT_SECONDS):
        raise TimeoutError("the broker does not answer")


def _produce(bootstrap: str, topic: str, seconds: float, settings: Mapping[str, int]) -> Outcome:
    delivered = _Delivered()
    producer = _producer(bootstrap, settings)
    _connect(producer, topic, delivered)
    began, sent = time.perf_counter(), 0
    end = began + seconds
    while time.perf_counter() < end:
        try:
            for _ in range(100):
                producer.produce(topic, VALUE)
                sent += 1
            producer.poll(0)
        except BufferError:
            producer.poll(0.001)
    if left := producer.flush(_WAIT_SECONDS):
        raise TimeoutError(f"{left} records were not delivered")
    return Outcome(sent, time.perf_counter() - began)
