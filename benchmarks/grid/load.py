"""What brokers are put through: the workloads of the grid, each a value that says all about itself.

The load comes from librdkafka, the same binary against every peer. A workload makes a topic of its
shape, runs for so many seconds, and tells how many records and bytes were done in what time.
Whatever was not delivered is an error.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks import _librdkafka
from benchmarks._librdkafka import VALUE
from benchmarks._rows import percentile

_WAIT_SECONDS = 60.0
_LOG_LEVEL = 3
_QUEUE_BYTES = 20_000_000
# A round ends when its queue is empty: with the other one, Kafka's rounds would take six seconds.
_REPLICATED_QUEUE_BYTES = 5_000_000
_CHUNK_BYTES = 200_000
_FILL_BYTES = 100_000_000
_NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
)
LARGEST_MESSAGE = 1_048_588


class Done(NamedTuple):
    records: int
    bytes: int
    seconds: float
    p50_us: float = 0.0
    p99_us: float = 0.0


class Shape(NamedTuple):
    partitions: int = 1
    replicas: int = 1
    min_insync: int = 1


ALONE = Shape()


class Workload(Protocol):
    @property
    def shape(self) -> Shape: ...

    def prepare(self, bootstrap: str, topic: str) -> None:
        """What must be there before the clock runs."""

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done: ...


def make_topic(bootstrap: str, topic: str, shape: Shape) -> None:
    config = {"min.insync.replicas": str(shape.min_insync)} if shape.replicas > 1 else {}
    new = NewTopic(topic, shape.partitions, shape.replicas, config=config)
    admin = _admin(bootstrap)  # it must live until it is answered
    admin.create_topics([new])[topic].result(_WAIT_SECONDS)


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = _admin(bootstrap)
    admin.delete_topics([topic])[topic].result(_WAIT_SECONDS)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": _LOG_LEVEL})


@cache
def values(record_bytes: int) -> list[bytes]:
    """Different texts, which codecs make about three times smaller."""
    random = Random(record_bytes)
    words = [random.randbytes(random.randrange(2, 6)).hex() for _ in range(2000)]
    text = " ".join(random.choices(words, k=400_000)).encode()
    count = max(4, min(1000, 10_000_000 // record_bytes))
    starts = (random.randrange(len(text) - record_bytes) for _ in range(count))
    return [text[start : start + record_bytes] for start in starts]


@dataclass(frozen=True, slots=True)
class Produce:
    """Records in batches, as fast as they are taken."""

    record_bytes: int = 1000
    batch_bytes: int = 16_384
    acks: int = 1
    codec: str = "none"
    shape: Shape = ALONE

    def prepare(self, bootstrap: str, topic: str) -> None:
        pass

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        return self.send(bootstrap, topic, lambda sent, elapsed: sent > 0 and elapsed >= seconds)

    def send(self, bootstrap: str, topic: str, is_over: Callable[[int, float], bool]) -> Done:
        """Until it is over, which is asked with the records sent and the seconds since the first
        of them."""
        unanswered = self.acks == 0 and self.shape.replicas == 1
        before = end_offsets(bootstrap, topic, self.shape.partitions) if unanswered else 0
        producer = self.producer(bootstrap)
        producer.produce(topic, b"first")  # pays for connections and metadata
        _flush(producer)
        pool = values(self.record_bytes)
        chunk = [{"value": value} for value in pool[: max(1, _CHUNK_BYTES // self.record_bytes)]]
        most = self.queue_records - len(chunk)
        began, sent = time.perf_counter(), 0
        while not is_over(sent, time.perf_counter() - began):
            if len(producer) > most:
                producer.poll(0.001)
                continue
            assert producer.produce_batch(topic, chunk) == len(chunk), "the queue has room"
            sent += len(chunk)
            producer.poll(0)
        _flush(producer)
        if unanswered:
            _wait_for_records(bootstrap, topic, self.shape.partitions, before + sent + 1)
        return Done(sent, sent * self.record_bytes, time.perf_counter() - began)

    @property
    def queue_records(self) -> int:
        size = _QUEUE_BYTES if self.shape.replicas == 1 else _REPLICATED_QUEUE_BYTES
        return max(8, size // self.record_bytes)

    def producer(self, bootstrap: str) -> Producer:
        return Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": self.acks,
                "batch.size": self.batch_bytes,
                "message.max.bytes": LARGEST_MESSAGE,
                "linger.ms": 5,
                "compression.type": self.codec,
                "queue.buffering.max.messages": self.queue_records,
                "delivery.report.only.error": True,
                "on_delivery": _fail,
                "log_level": _LOG_LEVEL,
            }
        )


@dataclass(frozen=True, slots=True)
class Existing:
    """A workload of `_librdkafka`: records of 1 KB, one partition unless told."""

    run_it: _librdkafka.Workload
    shape: Shape = ALONE

    def prepare(self, bootstrap: str, topic: str) -> None:
        pass

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        outcome = self.run_it(bootstrap, topic, seconds)
        size = outcome.records * len(VALUE)
        return Done(outcome.records, size, outcome.seconds, outcome.p50_us, outcome.p99_us)


@dataclass(frozen=True, slots=True)
class Consume:
    """Read what was written in large batches, from the start, again and again."""

    record_bytes: int = 1000
    shape: Shape = ALONE

    def prepare(self, bootstrap: str, topic: str) -> None:
        wanted = _FILL_BYTES // self.record_bytes
        writer = Produce(self.record_bytes, batch_bytes=1_000_000)
        writer.send(bootstrap, topic, lambda sent, _: sent >= wanted)

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        outcome = _librdkafka.consume(bootstrap, topic, seconds)
        return Done(outcome.records, outcome.records * self.record_bytes, outcome.seconds)


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """One record at a time: from the call that sends it until a consumer has it."""

    shape: Shape = ALONE

    def prepare(self, bootstrap: str, topic: str) -> None:
        pass

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": -1, "linger.ms": 0, "log_level": _LOG_LEVEL}
        )
        consumer = reader(bootstrap, topic, range(self.shape.partitions), from_end=True)
        try:
            for number in range(self.shape.partitions):  # each pays for its connections
                _send_and_receive(producer, consumer, topic, number)
            taken: list[float] = []
            began = time.perf_counter()
            while (start := time.perf_counter()) < began + seconds:
                partition = len(taken) % self.shape.partitions
                _send_and_receive(producer, consumer, topic, partition)
                taken.append((time.perf_counter() - start) * 1e6)
            elapsed = time.perf_counter() - began
        finally:
            consumer.close()
        size = len(taken) * len(VALUE)
        return Done(len(taken), size, elapsed, percentile(taken, 0.5), percentile(taken, 0.99))


def _send_and_receive(producer: Producer, consumer: Consumer, topic: str, partition: int) -> None:
    producer.produce(topic, VALUE, partition=partition, on_delivery=_fail)
    while not (got := consumer.poll(_WAIT_SECONDS)) or got.error():
        if got is None:
            raise TimeoutError("a record was not received")
        _fail(got.error(), got)
    producer.poll(0)


def reader(bootstrap: str, topic: str, partitions: range, *, from_end: bool = False) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 2,
            "fetch.error.backoff.ms": 10,
            "log_level": _LOG_LEVEL,
        }
    )
    places = [TopicPartition(topic, number, 0) for number in partitions]
    for place in places if from_end else ():
        place.offset = _end_of(consumer, place)
    consumer.assign(places)
    return consumer


def _end_of(consumer: Consumer, place: TopicPartition) -> int:
    """Of a topic that was just made not every broker has heard yet, nor has every leader begun."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            return consumer.get_watermark_offsets(place, timeout=_WAIT_SECONDS)[1]
        except KafkaException as failure:
            if failure.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def end_offsets(bootstrap: str, topic: str, partitions: int) -> int:
    """How many records a topic holds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", "log_level": 0})
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        return sum(_end_of(consumer, place) for place in places)
    finally:
        consumer.close()


def _wait_for_records(bootstrap: str, topic: str, partitions: int, wanted: int) -> None:
    """Without acknowledgements, only the log says when the work is done. With replicas it tells
    clients what all of them have, which is more than this producer asked for."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while (there := end_offsets(bootstrap, topic, partitions)) < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{there} of {wanted} records arrived")


def _flush(producer: Producer) -> None:
    if left := producer.flush(_WAIT_SECONDS):
        raise TimeoutError(f"{left} records were not delivered")


def _fail(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise KafkaException(error)
