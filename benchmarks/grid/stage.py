"""Where contests take place: the brokers or clusters of one kind, started when first needed.

They stay for the scenarios after it, so that a warmed-up peer stays warm, and leave when another
kind is asked for: nothing that is not measured should run meanwhile.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Self

from benchmarks._brokers import TIDY, Broker, cpu_seconds, kafka_jvm, scratch
from benchmarks._clusters import SESSION_MS, Cluster, clusters
from benchmarks.grid.contest import Contestant, Effort
from benchmarks.grid.peers import KAFKA_3, KAFKA_4, PEERS, SMALL_KAFKA, running
from benchmarks.grid.readings import OURS
from scripts.parts import KAFKA_ON_KRAFT
from tests.support.kafka import KafkaBroker

# A quick run only shows that all works, and one virtual machine more shows little.
NOT_IN_A_HURRY = frozenset({KAFKA_4, SMALL_KAFKA})
_CLUSTER_HEAP = "512m"


class Stage:
    def __init__(self) -> None:
        self._stack = ExitStack()
        self._cluster_size = 0
        self._there: dict[str, Contestant] = {}

    def contestants(self, names: Sequence[str], *, cluster_size: int) -> list[Contestant]:
        """A size of 1 is a broker alone."""
        if cluster_size != self._cluster_size:
            self.clear()
            self._cluster_size = cluster_size
        if new := [name for name in names if name not in self._there]:
            enter = self._enter_alone if cluster_size == 1 else self._enter_clusters
            enter(new)
        return [self._there[name] for name in names]

    def _enter_alone(self, names: Sequence[str]) -> None:
        for name in names:
            broker = self._stack.enter_context(running(name))
            self._there[name] = as_contestant(broker, name, warms_up=PEERS[name].warms_up)

    def _enter_clusters(self, names: Sequence[str]) -> None:
        with_kafka = KAFKA_3 in names
        both = self._stack.enter_context(clusters(self._cluster_size, with_kafka=with_kafka))
        found = dict(zip((OURS, KAFKA_3), both, strict=True))
        if KAFKA_4 in names:
            found[KAFKA_4] = self._stack.enter_context(kraft_cluster(self._cluster_size))
        for name, cluster in found.items():
            if cluster is not None:
                self._there[name] = cluster_as_contestant(
                    cluster, name, warms_up=PEERS[name].warms_up
                )

    def clear(self) -> None:
        self._stack.close()
        self._there.clear()
        self._cluster_size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


def as_contestant(broker: Broker, name: str, *, warms_up: bool = False) -> Contestant:
    return Contestant(
        name, broker.bootstrap, partial(cpu_seconds, broker), lambda *_: None, warms_up=warms_up
    )


def cluster_as_contestant(cluster: Cluster, name: str, *, warms_up: bool = False) -> Contestant:
    return Contestant(
        name,
        cluster.bootstrap,
        cluster.cpu_seconds,
        cluster.wait_until_in_sync,
        keeps_topics=True,
        warms_up=warms_up,
    )


def present(names: Iterable[str], effort: Effort) -> list[str]:
    """Those that this machine can run and that are worth their start."""
    found = []
    for name in names:
        if effort.is_quick and name in NOT_IN_A_HURRY:
            continue
        if reason := PEERS[name].whats_missing():
            print(f"  without {name}: {reason}", file=sys.stderr)
        else:
            found.append(name)
    return found


@contextmanager
def kraft_cluster(size: int) -> Iterator[Cluster]:
    """The first broker is also the controller, as the cluster's stock example has it."""
    with scratch() as directory:
        brokers: list[KafkaBroker] = []
        for number in range(1, size + 1):
            broker = KafkaBroker(
                directory / f"kafka-{number}",
                version=KAFKA_ON_KRAFT,
                controlled_by=brokers[0] if brokers else None,
                broker_id=number,
                overrides={**TIDY, "broker.session.timeout.ms": SESSION_MS},
                jvm=kafka_jvm(_CLUSTER_HEAP),
            )
            brokers.append(broker)
        try:
            brokers[0].start()
            with ThreadPoolExecutor(size) as threads:
                list(threads.map(lambda broker: broker.start(), brokers[1:]))
            yield Cluster("Kafka 4", brokers)
        finally:
            for broker in brokers:
                broker.kill()
