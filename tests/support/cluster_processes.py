"""A cluster of ours as processes on a real ZooKeeper, to be stopped, killed and frozen."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import PartitionMetadata
from confluent_kafka.cimpl import NewTopic

from tests.support.odradek import OdradekBroker

PATIENCE = 60.0
SESSION_MS = 3000


class ProcessCluster:
    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        brokers: int,
        *,
        overrides: Mapping[str, object] | None = None,
    ) -> None:
        settings = {
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "replica.lag.time.max.ms": 3000,
            "offsets.topic.num.partitions": 3,
            **(overrides or {}),
        }
        self.brokers = {
            number: OdradekBroker(
                directory / f"broker-{number}", overrides={**settings, "broker.id": number}
            )
            for number in range(1, brokers + 1)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def __enter__(self) -> Self:
        self._each(OdradekBroker.start)
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        return self

    def __exit__(self, *_: object) -> None:
        self._each(OdradekBroker.kill)

    def _each(self, act: Callable[[OdradekBroker], object]) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(act, self.brokers.values()))

    def make(self, topic: str, *, partitions: int, replicas: int, **config: str) -> None:
        new = NewTopic(topic, partitions, replicas, config=config)
        self._admin.create_topics([new])[topic].result(PATIENCE)
        self.until(topic, lambda p: len(p.isrs) == replicas)

    def partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        """What clients are told; nothing when the broker that was asked is frozen."""
        try:
            return dict(self._admin.list_topics(topic, timeout=3).topics[topic].partitions)
        except KafkaException:
            return {}

    def controller(self) -> int:
        return int(self._admin.list_topics(timeout=10).controller_id)

    def until(self, topic: str, condition: Callable[[PartitionMetadata], bool]) -> None:
        """Wait until all partitions are so, as clients are told."""
        deadline = time.monotonic() + PATIENCE
        while not (found := self.partitions(topic)) or not all(map(condition, found.values())):
            assert time.monotonic() < deadline, {i: (p.leader, p.isrs) for i, p in found.items()}
            time.sleep(0.1)
