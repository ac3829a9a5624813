"""A real ZooKeeper of one node, from the jars of the Kafka version that still used one."""

from pathlib import Path
from threading import Event
from typing import Self

from kazoo.client import KazooClient

from scripts.parts import KAFKA_ON_ZOOKEEPER
from tests.support.java import java_server, write_properties
from tests.support.network import HOST, answers_ruok, free_port, wait_until
from tests.support.processes import Process

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeeper:
    """One server on a port of its own. It keeps port and data over `kill` and `start`."""

    def __init__(self, data_dir: Path, *, tick_ms: int = 1000) -> None:
        self.port = free_port()
        self.data_dir = data_dir
        data_dir.mkdir(parents=True, exist_ok=True)
        self._properties = write_properties(
            data_dir / "zookeeper.properties",
            {
                "dataDir": data_dir / "data",
                "clientPort": self.port,
                "clientPortAddress": HOST,
                "tickTime": tick_ms,
                "maxClientCnxns": 0,
                "admin.enableServer": "false",
                "4lw.commands.whitelist": "*",
            },
        )
        self.process: Process | None = None

    @property
    def connect(self) -> str:
        """The value of `zookeeper.connect`; a path appended to it gives a cluster of its own."""
        return f"{HOST}:{self.port}"

    def start(self) -> Self:
        self.process = java_server(
            f"zookeeper:{self.port}", KAFKA_ON_ZOOKEEPER, MAIN_CLASS, str(self._properties)
        )
        wait_until(lambda: answers_ruok(self.port), of=self.process, what="well")
        return self

    def wait_until_gone(self, path: str, *, timeout: float = 30.0) -> None:
        """Wait for a node's end, such as that of a killed broker's: its session must expire."""
        gone = Event()
        client = KazooClient(self.connect)
        client.start()
        try:
            if client.exists(path, watch=lambda _: gone.set()) and not gone.wait(timeout):
                raise TimeoutError(f"{path} is still there after {timeout} s")
        finally:
            client.stop()
            client.close()

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
