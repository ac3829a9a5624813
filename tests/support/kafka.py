"""A real Apache Kafka broker as a process: 3.9 on ZooKeeper, 4.x as its own KRaft controller.

The oracle of the tests: what it answers, writes to disk and puts into ZooKeeper is right by
definition. Internal topics have one small partition layout, so that a broker alone will do.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

from scripts.parts import KAFKA_ON_ZOOKEEPER
from tests.support.java import SMALL_JVM, java_server, java_tool, write_properties
from tests.support.network import HOST, answers_api_versions, free_port, wait_until
from tests.support.processes import Process
from tests.support.raw_client import RawClient
from tests.support.zookeeper import ZooKeeper

Properties = Mapping[str, object]

METADATA_VERSION = 9

ALONE: Properties = {
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.check.interval.ms": 300_000,
    "controlled.shutdown.max.retries": 1,
}


def zookeeper_properties(broker_id: int, port: int, connect: str) -> Properties:
    return {
        "broker.id": broker_id,
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": 6000,
    }


def kraft_properties(broker_id: int, port: int, quorum: str) -> Properties:
    """`quorum` is `id@host:port` of the one controller: this broker itself, or another."""
    controller_id, _, controller = quorum.partition("@")
    if int(controller_id) != broker_id:
        return {
            "node.id": broker_id,
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": quorum,
        }
    return {
        "node.id": broker_id,
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": quorum,
    }


class KafkaBroker:
    """One broker on a port of its own. It keeps port and data over `stop`, `kill` and `start`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        version: str = KAFKA_ON_ZOOKEEPER,
        zookeeper: ZooKeeper | str | None = None,
        controlled_by: "KafkaBroker | None" = None,
        broker_id: int = 1,
        overrides: Properties | None = None,
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        """`zookeeper` is a server or a connect string with a path; without one it is KRaft, and its
        own controller unless it joins the cluster of another broker, which must start first."""
        self.version = version
        self.broker_id = broker_id
        self.port = free_port()
        self.log_dir = data_dir / "logs"
        self.process: Process | None = None
        self._jvm = jvm
        self._is_kraft = zookeeper is None
        self._controller = controlled_by or self
        self._quorum = f"{broker_id}@{HOST}:{free_port()}"
        self._cluster_id = ""
        if zookeeper is None:
            placement = kraft_properties(broker_id, self.port, self._controller._quorum)
        else:
            connect = zookeeper if isinstance(zookeeper, str) else zookeeper.connect
            placement = zookeeper_properties(broker_id, self.port, connect)
        data_dir.mkdir(parents=True, exist_ok=True)
        self._properties = write_properties(
            data_dir / "server.properties",
            {"log.dirs": self.log_dir, **ALONE, **placement, **(overrides or {})},
        )

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        return self.log_dir / f"{topic}-{partition}"

    def start(self) -> Self:
        if self._is_kraft:
            self._format_storage()
        name = f"kafka-{self.version}:{self.port}"
        properties = str(self._properties)
        self.process = java_server(name, self.version, "kafka.Kafka", properties, jvm=self._jvm)
        wait_until(self._knows_itself, of=self.process, what="ready", timeout=120)
        return self

    def _knows_itself(self) -> bool:
        """Whether its controller has told it of itself. Before that it answers, but tells clients
        that nothing exists, which some of them then believe for minutes."""
        if not answers_api_versions(self.port):
            return False
        with RawClient(self.port) as client:
            response = client.ask(MetadataRequest(topics=[]), METADATA_VERSION)
        assert isinstance(response, MetadataResponse)
        return any(broker.node_id == self.broker_id for broker in response.brokers)

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop(timeout=60)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def tool(self, main_class: str, *args: str | Path, stdin: str | None = None) -> str:
        """The stdout of one of the tools of the broker's own version, which must succeed."""
        done = java_tool(self.version, main_class, *args, stdin=stdin)
        assert done.returncode == 0, f"{main_class}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def _format_storage(self) -> None:
        """Give the log directory its cluster id; a directory that has one is left as it is."""
        if (self.log_dir / "meta.properties").exists():
            return
        if self._controller is self:
            self._cluster_id = self.tool("kafka.tools.StorageTool", "random-uuid").strip()
        cluster_id = self._controller._cluster_id
        arguments = ("format", "--ignore-formatted", "-t", cluster_id, "-c", self._properties)
        self.tool("kafka.tools.StorageTool", *arguments)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
