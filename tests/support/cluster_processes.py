"""A cluster of ours as processes on a real ZooKeeper, to be stopped, killed and frozen.

What the cluster looks like is asked of every broker that can answer, each over a connection of its
own. A client would do for one of them: librdkafka keeps few connections open, and when the one it
has leads to a frozen broker, it waits there for its whole socket timeout.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)

from tests.support.odradek import OdradekBroker
from tests.support.raw_client import RawClient

PATIENCE = 60.0
SESSION_MS = 3000
METADATA_VERSION = 9
# What a healthy cluster never has to say, whatever is done to its processes.
ALARMS = ("below its high watermark", "Traceback", "CRITICAL")
ALARM_LINES = 30
NOT_YET = (KafkaError.NOT_CONTROLLER, KafkaError.INVALID_REPLICATION_FACTOR)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as one broker tells its clients."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


View = Mapping[int, PartitionView]


class ProcessCluster:
    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        brokers: int,
        *,
        overrides: Mapping[str, object] | None = None,
    ) -> None:
        self.zookeeper = zookeeper
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
        self._frozen: set[int] = set()
        self._former_output: list[str] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def awake(self) -> list[int]:
        """The brokers that run and are not frozen."""
        return [
            number
            for number, broker in self.brokers.items()
            if broker.process is not None
            and broker.process.is_running
            and number not in self._frozen
        ]

    def __enter__(self) -> Self:
        self.each(self.start)
        return self

    def __exit__(self, *_: object) -> None:
        self.each(self.kill)

    def each(self, act: Callable[[int], None]) -> None:
        """Do the same to all brokers at once."""
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(act, self.brokers))

    # Faults ---------------------------------------------------------------------------------

    def start(self, number: int) -> None:
        process = self.brokers[number].process
        if process is not None:
            self._former_output += process.output
        self.brokers[number].start()

    def stop(self, number: int) -> None:
        self.brokers[number].stop()

    def kill(self, number: int) -> None:
        self.brokers[number].kill()

    @contextmanager
    def frozen(self, number: int) -> Iterator[None]:
        process = self.brokers[number].process
        assert process is not None
        process.pause()
        self._frozen.add(number)
        try:
            yield
        finally:
            process.resume()
            self._frozen.discard(number)

    def alarms(self) -> list[str]:
        """Whatever brokers said that they must never say, and what they said next."""
        output = list(self._former_output)
        for broker in self.brokers.values():
            output += [] if broker.process is None else broker.process.output
        return [
            "\n".join(output[number : number + ALARM_LINES])
            for number, line in enumerate(output)
            if any(alarm in line for alarm in ALARMS)
        ]

    # What clients are told ------------------------------------------------------------------

    def make(
        self,
        topic: str,
        *,
        partitions: int,
        replicas: int,
        placed: list[list[int]] | None = None,
        **config: str,
    ) -> None:
        """`placed` says which brokers each partition lives on; else the controller chooses."""
        where = {"replica_assignment": placed} if placed else {"replication_factor": replicas}
        new = NewTopic(topic, partitions, config=config, **where)
        deadline = time.monotonic() + PATIENCE
        while not self._made(new):
            assert time.monotonic() < deadline, "the cluster does not come together"
            time.sleep(0.05)
        self.until(topic, lambda p: len(p.isr) == replicas)

    def _made(self, new: NewTopic) -> bool:
        """False when there is no controller yet, or it has not heard of all brokers yet, as right
        after ZooKeeper was away."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        try:
            admin.create_topics([new])[new.topic].result(PATIENCE)
        except KafkaException as failure:
            if failure.args[0].code() not in NOT_YET:
                raise
            return False
        return True

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self._controllers_address, "log_level": 2})
        admin.delete_topics([topic])[topic].result(PATIENCE)

    def move(self, topic: str, partition: int, replicas: list[int]) -> None:
        """Begin to move a partition to these brokers."""
        wish = ReassignablePartition(partition_index=partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=30_000, topics=[ReassignableTopic(name=topic, partitions=[wish])]
        )
        with RawClient(self.brokers[self.controller()].port) as client:
            response = client.ask(request, 0)
        assert isinstance(response, AlterPartitionReassignmentsResponse)
        assert not response.responses[0].partitions[0].error_code

    @property
    def _controllers_address(self) -> str:
        """Where to ask when some brokers are frozen and would let a client wait."""
        return self.brokers[self.controller()].bootstrap

    def partitions(self, topic: str, number: int | None = None) -> View:
        """As one broker tells; nothing when it does not know the topic."""
        response = self._metadata(self.awake[0] if number is None else number, topic)
        return {
            p.partition_index: PartitionView(
                p.leader_id, p.leader_epoch, tuple(p.isr_nodes), tuple(p.replica_nodes)
            )
            for t in response.topics
            for p in t.partitions
        }

    def controller(self) -> int:
        return self._metadata(self.awake[0]).controller_id

    def until(self, topic: str, condition: Callable[[PartitionView], bool]) -> None:
        """Wait until all partitions are so, as every broker tells that can be asked."""
        self.until_seen(
            topic,
            lambda views: all(view and all(map(condition, view.values())) for view in views),
        )

    def until_seen(self, topic: str, condition: Callable[[list[View]], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition(views := [self._view(number, topic) for number in self.awake]):
            assert time.monotonic() < deadline, views
            time.sleep(0.05)

    def _view(self, number: int, topic: str) -> View:
        try:
            return self.partitions(topic, number)
        except OSError:
            return {}

    def _metadata(self, number: int, topic: str | None = None) -> MetadataResponse:
        wanted = None if topic is None else [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        with RawClient(self.brokers[number].port) as client:
            response = client.ask(request, METADATA_VERSION)
        assert isinstance(response, MetadataResponse)
        return response
