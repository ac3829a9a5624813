"""Kafka Streams counts words exactly once while brokers and the application itself are killed."""

import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER
from tests.support.cluster_processes import ProcessCluster
from tests.support.java import SMALL_JVM, java_command, java_tool
from tests.support.processes import Process

PROGRAM = Path(__file__).parent / "java" / "WordCount.java"
PARTITIONS = 4
LINES = 3000
WORDS_PER_LINE = 5
VOCABULARY = [f"word-{number}" for number in range(50)]
PATIENCE = 240.0

pytestmark = pytest.mark.needs("java")

_numbers = count()


@pytest.fixture
def cluster(zookeeper, tmp_path_factory) -> Iterator[ProcessCluster]:
    connect = f"{zookeeper.connect}/streams-{next(_numbers)}"
    overrides = {
        "transaction.state.log.num.partitions": 3,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        "group.initial.rebalance.delay.ms": 0,
        "default.replication.factor": 3,
    }
    folder = tmp_path_factory.mktemp("streams")
    with ProcessCluster(folder, connect, 3, overrides=overrides) as made:
        yield made


class Lines:
    """What is to be counted, and what the counts must be."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        self._random = Random(5)
        self.counts: Counter[str] = Counter()

    def write(self, lines: int) -> None:
        for _ in range(lines):
            words = self._random.choices(VOCABULARY, k=WORDS_PER_LINE)
            self.counts.update(words)
            self._producer.produce("lines", " ".join(words).encode())
            self._producer.poll(0)
        assert self._producer.flush(60) == 0


class Counts:
    """Every count that was ever committed, by word and in its order."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "counts",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition("counts", index, 0) for index in range(PARTITIONS)])
        self.seen: dict[str, list[int]] = {}

    @property
    def total(self) -> int:
        return sum(map(len, self.seen.values()))

    def read_until(self, wanted: int, application: Process) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.total < wanted:
            assert time.monotonic() < deadline, f"{self.total} of {wanted} are counted"
            assert application.is_running
            self.read_some()

    def read_some(self) -> None:
        for message in self._consumer.consume(1000, 0.2):
            if message.error() is None:
                word = (message.key() or b"").decode()
                self.seen.setdefault(word, []).append(int(message.value() or b""))


def finalize(cluster: ProcessCluster, version: str, level: int) -> None:
    """Have the cluster agree on a version of transactions."""
    done = java_tool(
        version,
        "org.apache.kafka.tools.FeatureCommand",
        *("--bootstrap-server", cluster.bootstrap),
        *("upgrade", "--feature", f"transaction.version={level}"),
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("client", "transaction_version"), [(KAFKA_ON_ZOOKEEPER, 0), (KAFKA_ON_KRAFT, 2)]
)
def test_words_are_counted_exactly_once(
    cluster: ProcessCluster, tmp_path: Path, client: str, transaction_version: int
) -> None:
    if transaction_version:
        finalize(cluster, client, transaction_version)
    for topic in ("lines", "counts"):
        cluster.make(topic, partitions=PARTITIONS, replicas=3, **{"min.insync.replicas": "2"})
    arguments = (cluster.bootstrap, "lines", "counts", str(tmp_path / "state"))
    command = java_command(client, str(PROGRAM), *arguments, log_level="warn", jvm=SMALL_JVM)
    lines, counts = Lines(cluster), Counts(cluster)
    part = LINES // 6
    application = Process(command, name="word-count")
    try:
        for broker in (1, 2, 3):
            lines.write(part)
            counts.read_until(lines.counts.total() // 2, application)
            cluster.kill(broker)
            lines.write(part)
            if broker == 2:
                # In the midst of a transaction, which nobody will end before its time is over.
                counts.read_until(lines.counts.total() - part * WORDS_PER_LINE // 2, application)
                application.kill()
                application = Process(command, name="word-count again")
            counts.read_until(lines.counts.total(), application)
            cluster.start(broker)
            cluster.until("counts", lambda partition: len(partition.isr) == 3)
    finally:
        application.kill()
    for _ in range(10):
        counts.read_some()
    assert {word: len(seen) for word, seen in counts.seen.items()} == lines.counts
    assert all(seen == list(range(1, len(seen) + 1)) for seen in counts.seen.values())
    assert cluster.alarms() == []
