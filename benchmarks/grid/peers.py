"""Who is measured: our broker and its peers, each a process on the loopback with stock settings,
but for the files of deleted topics, which go at once.

Apache Kafka 3.9 on ZooKeeper and 4.x on KRaft have the heap and the collector that Kafka's own
start script gives them; one more 3.9 has a small heap. kfake is franz-go's broker in memory. The
data of all of them lies in the same file system. One peer is no broker: it shows what the client of
a measurement can read at most.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from benchmarks._brokers import TIDY, Broker, kafka_jvm, new_odradek, scratch
from benchmarks.grid.readings import OURS
from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER, build_dir, whats_missing
from tests.support.kafka import KafkaBroker
from tests.support.network import HOST, answers_api_versions, free_port, wait_until
from tests.support.processes import Process
from tests.support.zookeeper import ZooKeeper

KAFKA_3, KAFKA_4, SMALL_KAFKA, KFAKE = "kafka-3.9", "kafka-4", "kafka-3.9-small", "kfake"
REPLAY = "replay"
SMALL_HEAP = "192m"


class _Server:
    """A program that serves on a port of its own, beside our brokers and Kafka's."""

    def __init__(self) -> None:
        self.port = free_port()
        self.process: Process | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def run(self, command: Sequence[str | Path], name: str) -> None:
        self.process = Process(command, name=f"{name}:{self.port}")
        wait_until(lambda: answers_api_versions(self.port), of=self.process, what="ready")

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


class Kfake(_Server):
    """franz-go's broker, built by `make setup` from benchmarks/kfake."""

    def start(self) -> Self:
        self.run([build_dir("kfake") / "kfake", str(self.port)], KFAKE)
        return self


class Replay(_Server):
    """The answers of a broker of ours, given by a server that has them ready."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        here = {"advertised.listeners": f"PLAINTEXT://{self.bootstrap}"}
        self._broker = new_odradek(directory, {**TIDY, **here})

    def start(self) -> Self:
        self._broker.start()
        ports = map(str, (self.port, self._broker.port))
        self.run([sys.executable, "-m", "benchmarks._replay_server", *ports], REPLAY)
        return self

    def stop(self) -> None:
        super().stop()
        self._broker.stop()

    def kill(self) -> None:
        super().kill()
        self._broker.kill()


class Startable(Broker, Protocol):
    """A broker that keeps its port and its data over a stop or a kill."""

    def start(self) -> object: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


NewBroker = Callable[[Path], AbstractContextManager[Startable]]


@contextmanager
def _new_odradek(directory: Path) -> Iterator[Startable]:
    yield new_odradek(directory, TIDY)


@contextmanager
def _new_kfake(directory: Path) -> Iterator[Startable]:
    yield Kfake()


@contextmanager
def _new_replay(directory: Path) -> Iterator[Startable]:
    yield Replay(directory)


def _new_kafka_3(heap: str) -> NewBroker:
    @contextmanager
    def made(directory: Path) -> Iterator[Startable]:
        with ZooKeeper(directory / "zookeeper") as zookeeper:
            yield KafkaBroker(
                directory / "kafka", zookeeper=zookeeper, overrides=TIDY, jvm=kafka_jvm(heap)
            )

    return made


@contextmanager
def _new_kafka_4(directory: Path) -> Iterator[Startable]:
    yield KafkaBroker(
        directory / "kafka", version=KAFKA_ON_KRAFT, overrides=TIDY, jvm=kafka_jvm("1g")
    )


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    title: str
    needs: tuple[str, ...]
    new: NewBroker
    """A broker still to be started, in a directory; what it needs beside it runs already."""
    warms_up: bool = False
    forgotten_seconds: float = 0.0
    """How long ZooKeeper remembers a killed one; until then it does not start again."""

    def whats_missing(self) -> str | None:
        return next((why for part in self.needs if (why := whats_missing(part))), None)


PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, "Odradek", (), _new_odradek),
        Peer(
            KAFKA_3,
            f"Apache Kafka {KAFKA_ON_ZOOKEEPER} (ZooKeeper)",
            (f"kafka-{KAFKA_ON_ZOOKEEPER}",),
            _new_kafka_3("1g"),
            warms_up=True,
            forgotten_seconds=9.0,
        ),
        Peer(
            KAFKA_4,
            f"Apache Kafka {KAFKA_ON_KRAFT} (KRaft)",
            (f"kafka-{KAFKA_ON_KRAFT}",),
            _new_kafka_4,
            warms_up=True,
        ),
        Peer(KFAKE, "kfake (franz-go, in memory)", ("kfake",), _new_kfake),
        Peer(
            REPLAY,
            "a server that only replays answers, for what a client can read",
            (),
            _new_replay,
        ),
        Peer(
            SMALL_KAFKA,
            f"Apache Kafka {KAFKA_ON_ZOOKEEPER}, heap of {SMALL_HEAP}",
            (f"kafka-{KAFKA_ON_ZOOKEEPER}",),
            _new_kafka_3(SMALL_HEAP),
            warms_up=True,
            forgotten_seconds=9.0,
        ),
    )
}


@contextmanager
def new_broker(name: str) -> Iterator[Startable]:
    """A broker that is still to be started, with a directory of its own."""
    with scratch() as directory, PEERS[name].new(directory) as broker:
        try:
            yield broker
        finally:
            broker.kill()


@contextmanager
def running(name: str) -> Iterator[Startable]:
    with new_broker(name) as broker:
        broker.start()
        yield broker
