"""Records through librdkafka: written with what became of each, and all that can be read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

FLUSH_SECONDS = 60


@dataclass
class Written:
    acked: list[int] = field(default_factory=list)
    acked_in: dict[int, int] = field(default_factory=dict)
    """How many are acknowledged in each partition."""
    failed: list[tuple[int, str]] = field(default_factory=list)


class Writer:
    """Writes numbers, acks=all and idempotent, and keeps account."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        self.written = Written()
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 60_000,
                "log_level": 2,
                **settings,
            }
        )

    def write(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._producer.produce(
                self._topic,
                str(number).encode(),
                key=str(number).encode(),
                on_delivery=partial(self._note, number),
            )
            self._producer.poll(0)

    def _note(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            index = message.partition() or 0
            self.written.acked.append(number)
            self.written.acked_in[index] = self.written.acked_in.get(index, 0) + 1
        else:
            self.written.failed.append((number, error.name()))

    def finish(self) -> Written:
        left = self._producer.flush(FLUSH_SECONDS)
        assert left == 0, f"{left} records have no fate"
        return self.written


def read_all(bootstrap: str, topic: str, partitions: int, **settings: object) -> list[int]:
    """Every committed record of a topic, in the order of each partition."""
    return [
        n for numbers in read_partitions(bootstrap, topic, partitions).values() for n in numbers
    ]


def read_partitions(
    bootstrap: str, topic: str, partitions: int, **settings: object
) -> dict[int, list[int]]:
    """Every committed record of a topic, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 2,
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    numbers: dict[int, list[int]] = {index: [] for index in range(partitions)}
    at_end: set[int] = set()
    while len(at_end) < partitions:
        message: Message | None = consumer.poll(30)
        assert message is not None, f"only {len(at_end)} of {partitions} partitions ended"
        error, index = message.error(), message.partition() or 0
        if error is None:
            numbers[index].append(int(message.value() or b""))
        elif error.code() == KafkaError._PARTITION_EOF:
            at_end.add(index)
    consumer.close()
    return numbers
