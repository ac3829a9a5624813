"""The grid: every scenario, its cells and who takes part, declared once.

Numbers 1 to 6 are the scenarios of the benchmark that this project grew from: replicas,
acknowledgements, partitions, failures and latency. A contest is a workload for each cell, run by
all peers in turns; what is measured otherwise has a function of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks import _librdkafka
from benchmarks.grid import (
    cold,
    failures,
    growth,
    limits,
    lives,
    processes,
    rebalances,
    recovery,
    sustained,
)
from benchmarks.grid.contest import Effort, compete
from benchmarks.grid.fan_out import FanOut
from benchmarks.grid.java_clients import JavaConsume, JavaEndToEnd, JavaProduce
from benchmarks.grid.load import Consume, EndToEnd, Existing, Produce, Shape, Workload
from benchmarks.grid.peers import KAFKA_3, KAFKA_4, KFAKE, REPLAY
from benchmarks.grid.raw_consume import RawConsume
from benchmarks.grid.readings import OURS, Reading
from benchmarks.grid.stage import Stage, present

ALL = (OURS, KAFKA_3, KAFKA_4, KFAKE)
DURABLE = (OURS, KAFKA_3, KAFKA_4)
TWO = (OURS, KAFKA_3)
CLUSTER_SIZE = 4
PARTITIONS = 12
BIG_BATCH = 1_000_000
THROUGHPUT = ("MB/s", "CPU µs/record", "CPU ms/MB")
CLIENT = "client CPU ms/MB"
READING = ("MB/s", "CPU ms/MB", CLIENT)
REQUESTS = ("records/s", "CPU µs/record")
LATENCY = ("p50 µs", "p99 µs", "CPU µs/record")
ACKS = {-1: "all", 1: "1", 0: "0"}
SIZES = {100: "100 B", 1000: "1 KB", 10_000: "10 KB", 1_000_000: "1 MB"}
CODECS = ("gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Contest:
    name: str
    title: str
    cells: Mapping[str, Workload]
    metrics: tuple[str, ...] = THROUGHPUT
    peers: tuple[str, ...] = ALL
    cluster_size: int = 1
    only_reads: bool = False
    """Whether what was written for a peer's first turn serves the others, too."""
    least_rounds: int = 0
    """Where most is the client's work, brokers differ by less than rounds do: more of them tell."""

    def measure(self, stage: Stage, effort: Effort) -> Iterator[Reading]:
        names = present(self.peers, effort)
        peers = stage.contestants(names, cluster_size=self.cluster_size)
        if not effort.is_quick:
            effort = replace(effort, rounds=max(effort.rounds, self.least_rounds))
        return compete(peers, self.cells, self.metrics, effort, keeps_topics=self.only_reads)


@dataclass(frozen=True, slots=True)
class Special:
    name: str
    title: str
    run: Callable[[Effort], Iterator[Reading]]

    def measure(self, stage: Stage, effort: Effort) -> Iterator[Reading]:
        stage.clear()
        return self.run(effort)


Scenario = Contest | Special


def _replication_cells(replicas: int) -> dict[str, Workload]:
    """How many replicas must be in sync matters where all of them are waited for, so the other
    acknowledgements have one cell each."""
    return {
        f"RF {replicas}, min.insync {least}, acks={name}": Produce(
            acks=acks, shape=Shape(PARTITIONS, replicas, least)
        )
        for acks, name in ACKS.items()
        for least in ((1, 2, 4) if acks == -1 else (1,))
        if least <= replicas
    }


def _one_partition_cells() -> dict[str, Workload]:
    return {
        f"RF {replicas}, acks={name}": Produce(acks=acks, shape=Shape(1, replicas, 1))
        for replicas in (4, 2)
        for acks, name in ACKS.items()
    }


def _partition_cells(replicas: int, *numbers: int) -> dict[str, Workload]:
    return {
        f"{number} partitions": Produce(acks=-1, shape=Shape(number, replicas, replicas))
        for number in numbers
    }


SCENARIOS: tuple[Scenario, ...] = (
    Special("limits", "The machine's limits", limits.measure),
    Contest(
        "acks",
        "2, 3: one partition, one broker, 1 KB records in 16 KB batches",
        {f"acks={name}": Produce(acks=acks) for acks, name in ACKS.items()},
    ),
    Contest(
        "partitions",
        "4: partitions, one broker, acks=all, 1 KB records in 16 KB batches",
        _partition_cells(1, 1, 12, 100, 400),
    ),
    Contest(
        "unbatched",
        "Every record of 1 KB in a request of its own",
        {"1 KB": Existing(_librdkafka.produce_unbatched)},
        metrics=REQUESTS,
        least_rounds=9,
    ),
    Contest(
        "synchronous",
        "One record of 1 KB after the other",
        {
            "acks=1": Existing(_librdkafka.produce_synchronously),
            "acks=all": Existing(_librdkafka.produce_committed_synchronously),
        },
        metrics=LATENCY,
    ),
    Contest(
        "consume",
        "Reading one partition",
        {SIZES[size]: Consume(size) for size in (1000, 100, 10_000)},
        metrics=READING,
        peers=(*ALL, REPLAY),
        only_reads=True,
        least_rounds=11,
    ),
    Contest(
        "raw-consume",
        "Reading one partition by a client that only receives: pieces of 1 MB",
        {"1 KB": RawConsume()},
        only_reads=True,
    ),
    Contest(
        "sizes",
        "Record sizes, in batches of 1 MB",
        {title: Produce(size, BIG_BATCH) for size, title in SIZES.items()},
        metrics=(*THROUGHPUT, CLIENT),
        peers=DURABLE,
        least_rounds=9,
    ),
    Contest(
        "codecs",
        "Codecs, 1 KB records in batches of 1 MB",
        {codec: Produce(batch_bytes=BIG_BATCH, codec=codec) for codec in CODECS},
        peers=DURABLE,
        least_rounds=7,
    ),
    Contest(
        "batches",
        "Batch sizes, 1 KB records",
        {f"{size // 1000} KB": Produce(batch_bytes=size) for size in (4_000, 64_000, 256_000)},
        peers=DURABLE,
    ),
    Contest(
        "fan-out",
        "One producer, several consumers: MB/s delivered to all of them",
        {f"{number} consumers": FanOut(number) for number in (1, 4, 8)},
        metrics=("MB/s", "CPU ms/MB"),
        peers=DURABLE,
    ),
    Contest(
        "java-produce",
        "Kafka's ProducerPerformance, 1 KB records",
        {"stock settings": JavaProduce()},
        metrics=("MB/s", "p50 µs", "p99 µs", "CPU µs/record"),
        peers=TWO,
    ),
    Contest(
        "java-consume",
        "Kafka's ConsumerPerformance, 1 KB records",
        {"stock settings": JavaConsume()},
        metrics=("MB/s", "CPU µs/record"),
        peers=TWO,
        only_reads=True,
    ),
    Contest(
        "java-end-to-end",
        "Kafka's EndToEndLatency, acks=all, 1 KB records",
        {"stock settings": JavaEndToEnd()},
        metrics=("p50 µs", "p99 µs"),
        peers=TWO,
    ),
    Special("life", "Start to ready, and memory", lives.measure),
    Special("growth", "Cost of a small produce among many", growth.measure),
    Special("recovery", "From kill -9 to the last record read", recovery.measure),
    Special("rebalance", "A group of 100 members", rebalances.measure),
    Special("cold", "A reader of cold data beside a busy client", cold.measure),
    Special("sustained", "Steady load, all brokers side by side", sustained.measure),
    *(
        Contest(
            f"replicas-{replicas}",
            f"1: four brokers, RF {replicas}, 12 partitions, 1 KB records in 16 KB batches",
            _replication_cells(replicas),
            peers=DURABLE,
            cluster_size=CLUSTER_SIZE,
        )
        for replicas in (4, 2, 1)
    ),
    Contest(
        "replicas-latency",
        "6: four replicas, 12 partitions, acks=all, one record of 1 KB after the other",
        {
            "producer": Existing(
                _librdkafka.produce_committed_synchronously, Shape(PARTITIONS, 4, 2)
            ),
            "end to end": EndToEnd(Shape(PARTITIONS, 4, 2)),
            "producer, RF 2": Existing(
                _librdkafka.produce_committed_synchronously, Shape(PARTITIONS, 2, 2)
            ),
        },
        metrics=LATENCY,
        peers=DURABLE,
        cluster_size=CLUSTER_SIZE,
        least_rounds=9,
    ),
    Contest(
        "replicas-one-partition",
        "2, 3: four brokers, one partition, 1 KB records in 16 KB batches",
        _one_partition_cells(),
        peers=DURABLE,
        cluster_size=CLUSTER_SIZE,
    ),
    Contest(
        "replicas-partitions",
        "4: four brokers, RF 2, min.insync 2, acks=all, 1 KB records in 16 KB batches",
        _partition_cells(2, 1, 12, 100),
        peers=DURABLE,
        cluster_size=CLUSTER_SIZE,
    ),
    Special("failures", "5: brokers killed under load, RF 4, min.insync 2", failures.measure),
    Special("processes", "Several brokers of ours on this machine", processes.measure),
)
