"""A job of `odradek spark` as a process with all its children, to be killed as one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from scripts.parts import jar_folders
from tests.support.network import HOST
from tests.support.odradek import PROGRAM

DONE_S = 600.0
# The Sparks of tests live for seconds: they start quickly rather than run fast, and are nobody
# else's to reach.
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
SHORT_LIVED = {
    "spark.driver.bindAddress": HOST,
    "spark.driver.host": HOST,
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
}
SMALL = tuple(word for name, value in SHORT_LIVED.items() for word in ("-S", f"{name}={value}"))


class Driver:
    """In a process group of its own, so that the JVM and Python's workers die with the driver."""

    def __init__(
        self,
        words: Sequence[str],
        output: Path,
        settings: Sequence[str] = SMALL,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        from odradek.spark_jobs.session import JARS_VARIABLE

        parts = {
            "PYSPARK_PYTHON": sys.executable,
            JARS_VARIABLE: str(jar_folders()["spark-connector"]),
        }
        self._output = output
        with output.open("ab") as log:
            self._popen = subprocess.Popen(
                [PROGRAM, "spark", *words, *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **parts, **(environment or {})},
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End all of it at once, as a machine that loses power does."""
        try:
            os.killpg(self._popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            self._popen.wait()

    def wait_until(self, is_time: Callable[[], bool]) -> None:
        """Until something has happened, in the middle of its work."""
        deadline = time.monotonic() + DONE_S
        while not is_time():
            assert self._popen.poll() is None, f"it ended before: {self.tail()}"
            assert time.monotonic() < deadline, self.tail()
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask the driver alone to end, as an operator does."""
        self._popen.terminate()

    def finish(self, timeout: float = DONE_S) -> str:
        """Wait for its end, which must be a good one; what it said."""
        status = self._popen.wait(timeout)
        assert status == 0, self.tail()
        return self.tail()

    def fail(self, timeout: float = DONE_S) -> str:
        """Wait for its end, which must be a bad one; what it said."""
        assert self._popen.wait(timeout) != 0, self.tail()
        return self.tail()

    def tail(self) -> str:
        return self._output.read_text(errors="replace")[-4000:]
