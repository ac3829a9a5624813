"""How many transactions does a broker take, and how long does one last, with Kafka beside us?

One librdkafka producer with one transaction after the other, each of 100 records of 1 KB: into one
partition, into ten of them, and with the offset of a consumer group in it. A transaction is timed
from its beginning until its commit is answered. Both brokers take turns in the same run; Kafka is
warmed by three rounds first. Server CPU is all that the process used, kernel included.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks._brokers import KAFKA_NAME, Broker, cpu_seconds, kafka, odradek, why_no_kafka
from benchmarks._rows import Row, beside, percentile, reading, tell

RECORDS = 100
VALUE = b"v" * 1024
SECONDS = 30.0
WARM_ROUNDS = 3


class Kind(NamedTuple):
    """What a transaction holds."""

    name: str
    partitions: int
    has_offsets: bool = False


class Round(NamedTuple):
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


KINDS = (
    Kind("into 1 partition", 1),
    Kind("into 10 partitions", 10),
    Kind("with the offset of a group", 1, has_offsets=True),
)


class Load:
    """One producer on one broker; each round has a topic and a transactional id of its own."""

    def __init__(self, broker: Broker, kind: Kind, number: int) -> None:
        self._kind = kind
        self.topic = f"{kind.name.replace(' ', '-')}-{number}"
        address = {"bootstrap.servers": broker.bootstrap}
        admin = AdminClient({**address})
        new = NewTopic(self.topic, kind.partitions, 1)
        admin.create_topics([new])[self.topic].result(SECONDS)
        self._producer = Producer({**address, "transactional.id": self.topic, "linger.ms": 1})
        self._producer.init_transactions(SECONDS)
        consumer = Consumer({**address, "group.id": self.topic})
        self._group = consumer.consumer_group_metadata()
        consumer.close()

    def transact(self) -> float:
        """Milliseconds of one transaction."""
        producer, kind = self._producer, self._kind
        began = time.perf_counter()
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(self.topic, VALUE, partition=number % kind.partitions)
        if kind.has_offsets:
            place = TopicPartition(self.topic, 0, 1)
            producer.send_offsets_to_transaction([place], self._group, SECONDS)
        producer.commit_transaction(SECONDS)
        return (time.perf_counter() - began) * 1000


def play(broker: Broker, kind: Kind, number: int, transactions: int) -> Round:
    load = Load(broker, kind, number)
    load.transact()
    before, began = cpu_seconds(broker), time.perf_counter()
    taken = [load.transact() for _ in range(transactions)]
    seconds = time.perf_counter() - began
    used = cpu_seconds(broker) - before
    return Round(
        transactions / seconds,
        median(taken),
        percentile(taken, 0.99),
        used / transactions * 1e6,
    )


FIGURES: dict[str, tuple[str, Callable[[Round], float], dict[str, float]]] = {
    "transactions": ("/s", lambda r: r.per_second, {"at_least": 1.5}),
    "p50 of a transaction": ("ms", lambda r: r.p50_ms, {"at_most": 0.8}),
    "p99 of a transaction": ("ms", lambda r: r.p99_ms, {}),
    "CPU of a transaction": ("µs", lambda r: r.cpu_us, {}),
}


def rows(*, quick: bool) -> Iterator[Row]:
    transactions, rounds = (50, 3) if quick else (400, 5)
    reason = why_no_kafka()
    if reason:
        print(f"  nothing to compare with: {reason}", file=sys.stderr)
    with ExitStack() as stack:
        theirs = None if reason else stack.enter_context(kafka())
        ours = stack.enter_context(odradek())
        for kind in KINDS:
            yield from _rows_of(kind, ours, theirs, transactions, rounds)


def _rows_of(
    kind: Kind, ours: Broker, theirs: Broker | None, transactions: int, rounds: int
) -> Iterator[Row]:
    warm_up, our_rounds, their_rounds = [], [], []
    if theirs is not None:
        warm_up = [play(theirs, kind, -1 - n, transactions) for n in range(WARM_ROUNDS)]
    play(ours, kind, -1, transactions)
    for number in range(rounds):
        our_rounds.append(play(ours, kind, number, transactions))
        if theirs is not None:
            their_rounds.append(play(theirs, kind, number, transactions))
    for name, (unit, of, target) in FIGURES.items():
        title, readings = f"{name}, {kind.name}", [of(each) for each in our_rounds]
        if theirs is None:
            yield reading(title, median(readings), unit)
            continue
        more: dict[str, Any] = {"peer_warm_up": [round(of(each), 1) for each in warm_up], **target}
        yield beside(
            title,
            readings,
            unit,
            peer=KAFKA_NAME,
            peer_readings=[of(each) for each in their_rounds],
            **more,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short rounds")
    arguments = parser.parse_args()
    load_average = os.getloadavg()[0]
    result = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_average_before": round(load_average, 2),
        "rows": [tell(row) for row in rows(quick=arguments.quick)],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
