"""Records through librdkafka: written with what became of each, and all that can be read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

FLUSH_SECONDS = 60


@dataclass
class Written:
    acked: list[int] = field(default_factory=list)
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

    def _note(self, number: int, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.written.acked.append(number)
        else:
            self.written.failed.append((number, error.name()))

    def finish(self) -> Written:
        left = self._producer.flush(FLUSH_SECONDS)
        assert left == 0, f"{left} records have no fate"
        return self.written


def read_all(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Every committed record of a topic, in the order of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    numbers: list[int] = []
    at_end: set[int] = set()
    while len(at_end) < partitions:
        message: Message | None = consumer.poll(30)
        assert message is not None, f"only {len(at_end)} of {partitions} partitions ended"
        error, index = message.error(), message.partition()
        if error is None:
            numbers.append(int(message.value() or b""))
        elif error.code() == KafkaError._PARTITION_EOF and index is not None:
            at_end.add(index)
    consumer.close()
    return numbers
