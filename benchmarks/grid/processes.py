"""One, two and four brokers of ours on this machine: what more processes give."""

import os
from collections.abc import Iterator

from benchmarks._clusters import clusters
from benchmarks.grid.contest import METRICS, Arena, Contestant, Effort
from benchmarks.grid.load import Produce, Shape
from benchmarks.grid.readings import OURS, Reading

NUMBERS = (1, 2, 4)
_WORKLOAD = Produce(acks=-1, shape=Shape(partitions=12))


def measure(effort: Effort) -> Iterator[Reading]:
    cores = os.cpu_count()
    for number in NUMBERS[: effort.cells]:
        with clusters(number, with_kafka=False) as (cluster, _):
            ours = Contestant(OURS, cluster.bootstrap, cluster.cpu_seconds, lambda *_: None)
            arena = Arena(_WORKLOAD, effort.seconds)
            arena.take_turn(ours)
            turns = [arena.take_turn(ours) for _ in range(effort.rounds)]
        for metric in ("MB/s", "CPU µs/record"):
            rounds = tuple(METRICS[metric](turn) for turn in turns)
            yield Reading(f"{number} brokers on {cores} cores", OURS, metric, rounds)
