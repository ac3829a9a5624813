"""A Spark cluster of processes: a master and its workers, from the classes that pyspark brings."""

from pathlib import Path
from typing import Self

from tests.spark.driver import QUICK_JVM
from tests.support.network import HOST, free_port
from tests.support.processes import Process

SMALL = {
    "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_LOCAL_IP": HOST,
    "SPARK_NO_DAEMONIZE": "1",
}
STARTED_S = 120.0


class StandaloneCluster:
    def __init__(self, folder: Path, workers: int) -> None:
        import pyspark

        self._spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        self._folder = folder
        self._count = workers
        self._port = free_port()
        self._processes: list[Process] = []

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        try:
            placed = ("--host", HOST, "--port", str(self._port), "--webui-port", "0")
            master = self._start("master", "master.Master", *placed)
            master.wait_for_line("New state: ALIVE", timeout=STARTED_S)
            for number in range(self._count):
                work = ("-d", str(self._folder / f"worker-{number}"), "--webui-port", "0")
                self._start(
                    *(f"worker-{number}", "worker.Worker", "--host", HOST),
                    *("-c", "1", "-m", "1g", *work, self.master),
                ).wait_for_line("Successfully registered", timeout=STARTED_S)
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self, name: str, main_class: str, *words: str) -> Process:
        command = [self._spark_class, f"org.apache.spark.deploy.{main_class}", *words]
        process = Process(command, name=f"spark-{name}", environment=SMALL)
        self._processes.append(process)
        return process

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.stop()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def output(self) -> str:
        return "\n".join(line for process in self._processes for line in process.output)
