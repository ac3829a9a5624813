"""Read, write and commit in one transaction: every record exactly once, whatever is killed."""

import sys
import time
from collections.abc import Iterator
from itertools import count
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.cluster_processes import ProcessCluster
from tests.support.processes import Process
from tests.support.records import Writer

PARTITIONS = 4
RECORDS = 100_000
PATIENCE = 240.0

_numbers = count()


@pytest.fixture
def cluster(zookeeper, tmp_path_factory) -> Iterator[ProcessCluster]:
    connect = f"{zookeeper.connect}/exactly-once-{next(_numbers)}"
    overrides = {
        "transaction.state.log.num.partitions": 3,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        "group.initial.rebalance.delay.ms": 0,
    }
    folder = tmp_path_factory.mktemp("exactly-once")
    with ProcessCluster(folder, connect, 3, overrides=overrides) as made:
        yield made


class Copier:
    """A copying process that is started again whenever it ends."""

    def __init__(self, cluster: ProcessCluster, source: str, target: str, name: str) -> None:
        module = "tests.cluster.copier"
        self._command = [sys.executable, "-m", module, cluster.bootstrap, source, target, name]
        self._name = name
        self.starts = 0
        self.process = self._start()

    def _start(self) -> Process:
        self.starts += 1
        return Process(self._command, name=f"{self._name}-{self.starts}")

    def look(self) -> None:
        if not self.process.is_running:
            self.process = self._start()

    def kill(self) -> None:
        self.process.kill()


class Output:
    """The committed records of a topic, as far as they have been read."""

    def __init__(self, cluster: ProcessCluster, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "output",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        self.values: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}

    @property
    def count(self) -> int:
        return sum(map(len, self.values.values()))

    def read_some(self) -> None:
        for message in self._consumer.consume(5000, 0.2):
            if message.error() is None:
                self.values[message.partition() or 0].append(int(message.value() or b""))
            else:
                assert message.error().code() != KafkaError.OFFSET_OUT_OF_RANGE

    def close(self) -> None:
        self._consumer.close()


def run_until(output: Output, copiers: list[Copier], wanted: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while output.count < wanted:
        assert time.monotonic() < deadline, f"{output.count} of {wanted} are copied"
        for copier in copiers:
            copier.look()
        output.read_some()


@pytest.mark.timeout(600)
def test_copiers_and_brokers_are_killed_and_every_record_is_copied_once(cluster: ProcessCluster):
    for topic in ("source", "target"):
        cluster.make(topic, partitions=PARTITIONS, replicas=3, **{"min.insync.replicas": "2"})
    writer = Writer(cluster.bootstrap, "source")
    writer.write(range(RECORDS))
    written = writer.finish()
    assert not written.failed
    copiers = [Copier(cluster, "source", "target", f"copier-{n}") for n in range(2)]
    output = Output(cluster, "target")
    random = Random(7)
    try:
        for step in range(1, 7):
            run_until(output, copiers, RECORDS * step // 8)
            if step % 2:
                random.choice(copiers).kill()
            else:
                cluster.kill(step // 2)
                run_until(output, copiers, RECORDS * step // 8 + RECORDS // 20)
                cluster.start(step // 2)
                for topic in ("target", "__transaction_state", "__consumer_offsets"):
                    cluster.until(topic, lambda partition: len(partition.isr) == 3)
        run_until(output, copiers, RECORDS)
    finally:
        for copier in copiers:
            copier.kill()
        output.close()
    final = Output(cluster, "target")
    run_until(final, [], RECORDS)
    for _ in range(10):
        final.read_some()
    final.close()
    source = Output(cluster, "source")
    run_until(source, [], RECORDS)
    source.close()
    assert cluster.alarms() == []
    assert sum(copier.starts for copier in copiers) > 2, "nothing was killed"
    assert final.values == source.values, "each partition has each record once, in its order"
