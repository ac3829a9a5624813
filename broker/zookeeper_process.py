"""A ZooKeeper of our own for local clusters: one Java process, from jars that are there already.

The server's classes come with Spark and with Kafka: pyspark's folder is looked at first, then the
cache of downloaded parts (`.cache`, or where ODRADEK_CACHE points).
"""

import asyncio
import importlib.util
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from odradek.broker.failures import CannotStart

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 1.0
_HOST: Final = "127.0.0.1"


def find_jars(environment: Mapping[str, str]) -> Path:
    """A folder of jars with ZooKeeper among them. Raises CannotStart."""
    for folder in _folders(environment):
        if any(folder.glob("zookeeper-[0-9]*.jar")):
            return folder
    raise CannotStart(
        "No ZooKeeper was found: install pyspark, whose jars have one, "
        "or give the address of one that runs with --zookeeper HOST:PORT."
    )


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    spark = importlib.util.find_spec("pyspark")
    if spark is not None and spark.origin is not None:
        yield Path(spark.origin).parent / "jars"
    cache = Path(environment.get("ODRADEK_CACHE") or ".cache")
    yield from sorted(cache.glob("kafka/*/libs"))


class ZooKeeperProcess:
    def __init__(self, directory: Path, jars: Path) -> None:
        self._directory = directory
        self._jars = jars
        self._port = _free_port()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def connect(self) -> str:
        return f"{_HOST}:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "started first"
        return self._process.pid

    async def start(self) -> None:
        if shutil.which("java") is None:
            raise CannotStart("ZooKeeper needs Java, and there is no `java` on the path.")
        self._process = await asyncio.create_subprocess_exec(
            *("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{self._jars}/*", MAIN_CLASS, str(self._configuration())),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._until_well()
        except TimeoutError:
            await self.stop()
            raise CannotStart("ZooKeeper did not start in time.") from None

    async def stop(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _configuration(self) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / "zookeeper.properties"
        path.write_text(
            f"dataDir={self._directory / 'data'}\nclientPort={self._port}\n"
            f"clientPortAddress={_HOST}\ntickTime=1000\nmaxClientCnxns=0\n"
            "admin.enableServer=false\n4lw.commands.whitelist=ruok\n"
        )
        return path

    async def _until_well(self) -> None:
        assert self._process is not None
        while not await self._answers():
            if self._process.returncode is not None:
                raise CannotStart(f"ZooKeeper ended at once, with {self._process.returncode}.")
            await asyncio.sleep(_POLL_SECONDS)

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection(_HOST, self._port)
        except OSError:
            return False
        writer.write(b"ruok")
        try:
            # A server that is not up yet may take the connection and never answer.
            return await asyncio.wait_for(reader.read(), _ANSWER_SECONDS) == b"imok"
        except (OSError, TimeoutError):
            return False
        finally:
            writer.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
