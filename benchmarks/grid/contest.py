"""Peers under the same load, in turns: A B C A B C, so that a noisy machine hits all of them.

A virtual machine that compiles while it runs is warmed up first: round after round of the
workload, until it stops growing. The others get one round that does not count.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from confluent_kafka import KafkaException

from benchmarks.grid.load import Done, Workload, delete_topic, make_topic
from benchmarks.grid.readings import Reading, is_still_growing


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to do; the quick one only shows that everything still runs."""

    seconds: float
    """Of a round."""
    rounds: int
    most_warm_rounds: int
    cells: int | None
    """How many of a scenario's cells to run; all when None."""
    is_quick: bool = False


FULL = Effort(0.5, 5, 14, None)
QUICK = Effort(0.3, 1, 1, 1, is_quick=True)


class Contestant(NamedTuple):
    """One broker or a whole cluster, as its clients and its bill see it."""

    name: str
    bootstrap: str
    cpu_seconds: Callable[[], float]
    settle: Callable[[str, int], None]
    """Wait until a topic has all its replicas in sync."""
    keeps_topics: bool = False
    """Whether the rounds of a cell share a topic: a cluster takes seconds to make one."""
    warms_up: bool = False


class Turn(NamedTuple):
    done: Done
    cpu_seconds: float
    client_seconds: float
    """What the load cost this process; at one core for each of its threads it is the limit."""


METRICS: Mapping[str, Callable[[Turn], float]] = {
    "MB/s": lambda t: t.done.bytes / t.done.seconds / 1e6,
    "records/s": lambda t: t.done.records / t.done.seconds,
    "p50 µs": lambda t: t.done.p50_us,
    "p99 µs": lambda t: t.done.p99_us,
    "CPU µs/record": lambda t: t.cpu_seconds / t.done.records * 1e6,
    "CPU ms/MB": lambda t: t.cpu_seconds / t.done.bytes * 1e9,
    "client CPU ms/MB": lambda t: t.client_seconds / t.done.bytes * 1e9,
}

_numbers = count()


class Arena:
    """Where peers take their turns in one cell: a topic for each turn, or for all of a peer."""

    def __init__(self, workload: Workload, seconds: float, *, keeps_topics: bool = False) -> None:
        self._workload = workload
        self._seconds = seconds
        self._keeps_topics = keeps_topics
        self._kept: dict[Contestant, str] = {}

    def take_turn(self, peer: Contestant) -> Turn:
        topic = self._kept.get(peer) or self._new_topic(peer)
        os.sync()  # or the disk would still be busy with what the one before wrote
        before, client_before = peer.cpu_seconds(), time.process_time()
        done = self._workload.run(peer.bootstrap, topic, self._seconds)
        spent = peer.cpu_seconds() - before
        turn = Turn(done, spent, time.process_time() - client_before)
        if self._keeps_topics or peer.keeps_topics:
            self._kept[peer] = topic
        else:
            _delete(peer, topic)
        return turn

    def _new_topic(self, peer: Contestant) -> str:
        topic = f"grid-{next(_numbers)}"
        make_topic(peer.bootstrap, topic, self._workload.shape)
        peer.settle(topic, self._workload.shape.replicas)
        self._workload.prepare(peer.bootstrap, topic)
        return topic

    def clear(self) -> None:
        for peer, topic in self._kept.items():
            _delete(peer, topic)


def _delete(peer: Contestant, topic: str) -> None:
    """One that stays is in nobody's way: no reason to give up the scenario."""
    try:
        delete_topic(peer.bootstrap, topic)
    except (TimeoutError, KafkaException) as error:
        print(f"  {peer.name} has not deleted {topic}: {error!r}", file=sys.stderr)


def warm_up(peer: Contestant, arena: Arena, most_rounds: int) -> list[Turn]:
    """Once only, or until the rate stops growing."""
    turns = [arena.take_turn(peer)]
    while len(turns) < most_rounds and is_still_growing(_rates(turns)):
        turns.append(arena.take_turn(peer))
    return turns


def _rates(turns: list[Turn]) -> list[float]:
    return [METRICS["records/s"](turn) for turn in turns]


def compete(
    peers: list[Contestant],
    cells: Mapping[str, Workload],
    metrics: tuple[str, ...],
    effort: Effort,
    *,
    keeps_topics: bool = False,
) -> Iterator[Reading]:
    """The first cell warms up for all: they differ in degree, and one more round precedes each."""
    for number, (cell, workload) in enumerate(list(cells.items())[: effort.cells]):
        arena = Arena(workload, effort.seconds, keeps_topics=keeps_topics)
        before = {
            peer.name: warm_up(
                peer,
                arena,
                effort.most_warm_rounds if number == 0 and peer.warms_up else 1,
            )
            for peer in peers
        }
        taken: dict[str, list[Turn]] = {peer.name: [] for peer in peers}
        for _ in range(effort.rounds):
            for peer in peers:
                taken[peer.name].append(arena.take_turn(peer))
        arena.clear()
        for metric in metrics:
            value = METRICS[metric]
            for name, turns in taken.items():
                warm = tuple(value(turn) for turn in before[name])
                yield Reading(cell, name, metric, tuple(map(value, turns)), warm)
