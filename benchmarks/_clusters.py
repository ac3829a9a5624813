"""The clusters that are measured: four brokers of ours as processes, and four of Apache Kafka."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from benchmarks._brokers import COMPILED_ONCE, TIDY, cpu_seconds, scratch
from tests.support.kafka import KafkaBroker
from tests.support.odradek import OdradekBroker
from tests.support.zookeeper import ZooKeeper

SESSION_MS = 6000
# ZooKeeper looks for ended sessions once a tick, and allows none that is longer than twenty: with
# the shortest tick that this session can have, waiting for the next look is a small part of it.
_TICK_MS = SESSION_MS // 20
# As Kafka's own start script has it, with half the heap: four of them share this machine.
_KAFKA_JVM = ("-Xms512m", "-Xmx512m", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
# The stock settings, but for where things are and for how soon a dead broker is missed.
_SETTINGS = {**TIDY, "zookeeper.session.timeout.ms": SESSION_MS}


class Cluster(NamedTuple):
    name: str
    brokers: Sequence[OdradekBroker | KafkaBroker]
    """Numbered from 1."""

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def admin(self) -> AdminClient:
        # Silent: brokers come to an end here, and the client need not tell.
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(broker) for broker in self.brokers)

    def leader(self, topic: str) -> OdradekBroker | KafkaBroker:
        """The broker that leads partition 0."""
        found = self.admin().list_topics(topic, timeout=30)
        return self.brokers[found.topics[topic].partitions[0].leader - 1]

    def wait_until_in_sync(self, topic: str, replicas: int) -> None:
        admin = self.admin()
        deadline = time.monotonic() + 120
        while True:
            found = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
            if found and all(len(partition.isrs) == replicas for partition in found):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} has not {replicas} replicas in sync")
            time.sleep(0.1)


@contextmanager
def clusters(count: int, *, with_kafka: bool) -> Iterator[tuple[Cluster, Cluster | None]]:
    """Ours, and Kafka's beside it, on one ZooKeeper."""
    with _zookeeper() as (directory, zookeeper):
        ours = Cluster("ours", _ours(directory, zookeeper, count, COMPILED_ONCE))
        theirs = Cluster("Kafka", _theirs(directory, zookeeper, count)) if with_kafka else None
        with _started([ours, theirs] if theirs else [ours]):
            yield ours, theirs


@contextmanager
def clusters_of_builds(
    count: int, environments: Mapping[str, Mapping[str, str]]
) -> Iterator[list[Cluster]]:
    """Ours, once with each of these environments, by name, on one ZooKeeper each."""
    with ExitStack() as stack:
        found = []
        for name, environment in environments.items():
            directory, zookeeper = stack.enter_context(_zookeeper())
            found.append(Cluster(name, _ours(directory, zookeeper, count, environment)))
        stack.enter_context(_started(found))
        yield found


@contextmanager
def _zookeeper() -> Iterator[tuple[Path, ZooKeeper]]:
    with scratch() as directory, ZooKeeper(directory / "zookeeper", tick_ms=_TICK_MS) as zookeeper:
        yield directory, zookeeper


@contextmanager
def _started(found: Sequence[Cluster]) -> Iterator[None]:
    brokers = [broker for cluster in found for broker in cluster.brokers]
    try:
        with ThreadPoolExecutor(len(found[0].brokers)) as threads:
            list(threads.map(lambda broker: broker.start(), brokers))
        yield
    finally:
        for broker in brokers:
            broker.kill()


def _ours(
    directory: Path, zookeeper: ZooKeeper, count: int, environment: Mapping[str, str]
) -> list[OdradekBroker]:
    connect = {"zookeeper.connect": f"{zookeeper.connect}/ours"}
    return [
        OdradekBroker(
            directory / f"ours-{number}",
            overrides={**_SETTINGS, **connect, "broker.id": number},
            environment=environment,
        )
        for number in range(1, count + 1)
    ]


def _theirs(directory: Path, zookeeper: ZooKeeper, count: int) -> list[KafkaBroker]:
    return [
        KafkaBroker(
            directory / f"kafka-{number}",
            zookeeper=f"{zookeeper.connect}/kafka",
            broker_id=number,
            overrides=_SETTINGS,
            jvm=_KAFKA_JVM,
        )
        for number in range(1, count + 1)
    ]
