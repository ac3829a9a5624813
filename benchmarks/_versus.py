"""Our broker and Apache Kafka under the same load, in turns.

Kafka runs as its own scripts would start it: 1 GB of heap, G1, default settings, on ZooKeeper. Each
workload first runs three times against Kafka, whose compiler needs that, and once against ours;
then the rounds of both alternate. Each round has a topic of its own. The rows show the warm-up too:
where it still climbs at its end, the peer was not ready, and the ratio flatters us.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from benchmarks import _librdkafka as load
from benchmarks._brokers import (
    KAFKA_NAME,
    Broker,
    cpu_seconds,
    kafka,
    odradek,
    rss_mb,
    why_no_kafka,
)
from benchmarks._librdkafka import Outcome, Workload, make_topic
from benchmarks._rows import Row, beside

WARM_ROUNDS = 3


class Turn(NamedTuple):
    """One round of one broker."""

    outcome: Outcome
    cpu_us: float
    """Of the server, for each record."""


class Turns(NamedTuple):
    """All rounds of one workload."""

    ours: list[Turn]
    theirs: list[Turn]
    warm_up: list[Turn]
    """Theirs, before they counted."""


class Effort(NamedTuple):
    warm_seconds: float
    seconds: float
    rounds: int


class Contest:
    """Two running brokers, and what they are put through."""

    def __init__(self, ours: Broker, theirs: Broker, effort: Effort) -> None:
        self._ours, self._theirs = ours, theirs
        self._effort = effort
        self._topics = 0

    def run(self, workload: Workload) -> Turns:
        warm_seconds, seconds, rounds = self._effort
        warm_up = [self._turn(self._theirs, workload, warm_seconds) for _ in range(WARM_ROUNDS)]
        self._turn(self._ours, workload, seconds)
        turns = Turns([], [], warm_up)
        for _ in range(rounds):
            turns.ours.append(self._turn(self._ours, workload, seconds))
            turns.theirs.append(self._turn(self._theirs, workload, seconds))
        return turns

    def _turn(self, broker: Broker, workload: Workload, seconds: float) -> Turn:
        self._topics += 1
        topic = f"bench-{self._topics}"
        make_topic(broker.bootstrap, topic)
        if workload is load.consume:
            load.produce_batched(broker.bootstrap, topic, seconds)
        before = cpu_seconds(broker)
        outcome = workload(broker.bootstrap, topic, seconds)
        return Turn(outcome, (cpu_seconds(broker) - before) / outcome.records * 1e6)


class Figure(NamedTuple):
    """What is read from the turns of a workload, and how many times Kafka's it should be."""

    name: str
    unit: str
    of: Callable[[Turn], float]
    at_least: float | None = None
    at_most: float | None = None


FIGURES: dict[Workload, tuple[Figure, ...]] = {
    load.produce_batched: (
        Figure("produce, 16 KB batches", "MB/s", lambda t: t.outcome.mb_per_second, at_least=1.5),
        Figure("CPU of a record produced in 16 KB batches", "µs", lambda t: t.cpu_us),
    ),
    load.produce_unbatched: (
        Figure("produce, unbatched", "requests/s", lambda t: t.outcome.per_second, at_least=2.5),
        Figure("CPU of an unbatched produce", "µs", lambda t: t.cpu_us),
    ),
    load.produce_synchronously: (
        Figure("synchronous produce, p50", "µs", lambda t: t.outcome.p50_us, at_most=0.8),
        Figure("synchronous produce, p99", "µs", lambda t: t.outcome.p99_us),
        Figure("CPU of a synchronous produce", "µs", lambda t: t.cpu_us),
    ),
    load.consume: (
        Figure("consume", "MB/s", lambda t: t.outcome.mb_per_second),
        Figure("CPU of a record consumed", "µs", lambda t: t.cpu_us),
    ),
}


def versus_rows(*, quick: bool) -> Iterator[Row]:
    if reason := why_no_kafka():
        print(f"  nothing to compare with: {reason}", file=sys.stderr)
        return
    effort = Effort(4.0, 1.5, 3) if quick else Effort(10.0, 8.0, 5)
    with ExitStack() as stack:
        theirs, ours = stack.enter_context(kafka()), stack.enter_context(odradek())
        contest = Contest(ours, theirs, effort)
        for workload, figures in FIGURES.items():
            turns = contest.run(workload)
            yield from (_row(figure, turns) for figure in figures)
        taken = [rss_mb(theirs)]
        yield beside(
            "memory after load", [rss_mb(ours)], "MB", peer=KAFKA_NAME, peer_readings=taken
        )


def _row(figure: Figure, turns: Turns) -> Row:
    return beside(
        figure.name,
        [figure.of(turn) for turn in turns.ours],
        figure.unit,
        peer=KAFKA_NAME,
        peer_readings=[figure.of(turn) for turn in turns.theirs],
        peer_warm_up=[round(figure.of(turn), 1) for turn in turns.warm_up],
        at_least=figure.at_least,
        at_most=figure.at_most,
    )
