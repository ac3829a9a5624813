"""Records through librdkafka: written with what became of each, and all that can be read."""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

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
    found = read_partitions(bootstrap, topic, partitions, **settings)
    return [number for numbers in found.values() for number in numbers]


def read_partitions(
    bootstrap: str, topic: str, partitions: int, **settings: object
) -> dict[int, list[int]]:
    """Every committed record of a topic, partition by partition.

    A leader that was just elected shows less for a moment than was committed, but does not say
    where its log ends before it knows. So that is asked first, and read up to.
    """
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
    wanted = [TopicPartition(topic, index, 0) for index in range(partitions)]
    ends = {where.partition: _end(consumer, where) for where in wanted}
    consumer.assign(wanted)
    numbers: dict[int, list[int]] = {index: [] for index in range(partitions)}
    at_end: set[int] = set()
    newest = dict.fromkeys(range(partitions), -1)
    while len(at_end) < partitions:
        message: Message | None = consumer.poll(30)
        assert message is not None, f"only {len(at_end)} of {partitions} partitions ended"
        error, index = message.error(), message.partition() or 0
        if error is None:
            offset = message.offset() or 0
            assert offset > newest[index], f"{index}: {offset} is given after {newest[index]}"
            newest[index] = offset
            numbers[index].append(int(message.value() or b""))
        elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= ends[index]:
            at_end.add(index)
    consumer.close()
    return numbers


def _end(consumer: Consumer, where: TopicPartition) -> int:
    deadline = time.monotonic() + FLUSH_SECONDS
    while time.monotonic() < deadline:
        # A new leader may say OFFSET_NOT_AVAILABLE, and this client asks only once.
        with suppress(KafkaException):
            found = consumer.get_watermark_offsets(where, timeout=10)
            if found is not None:
                return int(found[1])
    raise TimeoutError(f"nobody says where {where} ends")
