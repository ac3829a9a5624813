"""The brokers that are measured, as processes on this machine: ours, and Apache Kafka beside it.

Each runs on the loopback with its stock settings and a directory of its own, and is stopped by its
process id when the block that started it ends. What a process has cost is read from /proc.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from scripts.parts import KAFKA_ON_ZOOKEEPER, whats_missing
from tests.support.kafka import KafkaBroker
from tests.support.odradek import OdradekBroker
from tests.support.processes import Process
from tests.support.zookeeper import ZooKeeper

KAFKA_NAME = f"Apache Kafka {KAFKA_ON_ZOOKEEPER}"
# What Kafka's own start script chooses beside the heap.
_KAFKA_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# The stock settings, but for this one: the files of a deleted topic go at once, and not a minute
# later in the middle of another broker's round.
TIDY = {"log.segment.delete.delay.ms": 0}
# Compiled files lie ready where a package is installed, so they may be kept here too.
COMPILED_ONCE = {
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": str(Path(__file__).parent.parent / "build" / "compiled"),
}
# Linux makes the clock of another process from its id and this kind; it counts nanoseconds, where
# /proc counts ticks of ten milliseconds.
_CPU_TIME = 2


class Broker(Protocol):
    """What a measurement needs of a running broker."""

    port: int
    process: Process | None

    @property
    def bootstrap(self) -> str: ...


@contextmanager
def odradek(**overrides: object) -> Iterator[OdradekBroker]:
    """A broker of ours; a setting `log.segment.bytes` is given as log_segment_bytes."""
    settings = {name.replace("_", "."): value for name, value in overrides.items()}
    with scratch() as directory, new_odradek(directory, settings) as broker:
        yield broker


def new_odradek(directory: Path, settings: Mapping[str, object] | None = None) -> OdradekBroker:
    """A broker that is still to be started."""
    return OdradekBroker(directory / "data", overrides=settings, environment=COMPILED_ONCE)


def kafka_jvm(heap: str = "1g") -> tuple[str, ...]:
    """The options of Kafka's start script, which gives a heap of 1 GB."""
    return (f"-Xms{heap}", f"-Xmx{heap}", *_KAFKA_JVM)


@contextmanager
def kafka() -> Iterator[KafkaBroker]:
    with scratch() as directory, ZooKeeper(directory / "zookeeper") as zookeeper:
        broker = KafkaBroker(directory / "kafka", zookeeper=zookeeper, jvm=kafka_jvm())
        with broker:
            yield broker


def why_no_kafka() -> str | None:
    """What this machine lacks to run Kafka beside us."""
    return whats_missing("java") or whats_missing(f"kafka-{KAFKA_ON_ZOOKEEPER}")


@contextmanager
def scratch() -> Iterator[Path]:
    with TemporaryDirectory(prefix="odradek-bench-") as directory:
        yield Path(directory)


def pid_of(broker: Broker) -> int:
    assert broker.process is not None, "it was started"
    return broker.process.pid


def cpu_seconds(broker: Broker) -> float:
    return cpu_seconds_of(pid_of(broker))


def cpu_seconds_of(pid: int) -> float:
    """What all threads of the process have used so far, in its own code and in the kernel."""
    return time.clock_gettime(~pid << 3 | _CPU_TIME)


def rss_mb(broker: Broker) -> float:
    return _figure(broker, "status", "VmRSS:") / 1024


def disk_reads_mb(broker: Broker) -> float:
    """What the process has made the disk deliver so far: what it found in memory is not in it."""
    return _figure(broker, "io", "read_bytes:") / 1e6


def _figure(broker: Broker, table: str, field: str) -> int:
    for line in Path(f"/proc/{pid_of(broker)}/{table}").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise LookupError(field)
