"""Processes under test: start one, wait for what it says, stop or kill it by its own id.

    with Process(["some", "server"], name="server") as server:
        server.wait_for_line("ready")
        server.kill()

Output (stdout and stderr together) is read by a thread and kept, so waiting is an event and not a
poll, and the last lines of every process that a failed test touched are shown in its report.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import IO, ClassVar, Self

STOP_SECONDS = 20.0


class ProcessEnded(AssertionError):
    """The process ended while something was still expected of it."""


class Process:
    """One operating-system process, started at once, and its output so far."""

    known: ClassVar["list[Process]"] = []  # those whose output a failing test will show

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        name: str,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._lines: list[str] = []
        self._news = Condition()
        self._output_ended = False
        self._popen = subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self._popen.stdout is not None
        self._reader = Thread(target=self._read, args=(self._popen.stdout,), daemon=True)
        self._reader.start()
        self.known.append(self)

    @classmethod
    def forget_ended(cls) -> None:
        """Called between tests, so that a failure shows no output of tests before it."""
        cls.known[:] = [process for process in cls.known if process.is_running]

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                with self._news:
                    self._lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._output_ended = True
            self._news.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    @property
    def output(self) -> list[str]:
        with self._news:
            return list(self._lines)

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.output[-lines:])

    def wait_for_line(self, pattern: str, *, timeout: float = 30.0, after: int = 0) -> str:
        """The first line, from number `after` on, in which the regular expression is found."""
        wanted = re.compile(pattern)
        deadline = time.monotonic() + timeout
        seen = after
        with self._news:
            while True:
                for line in self._lines[seen:]:
                    if wanted.search(line):
                        return line
                seen = max(seen, len(self._lines))
                if self._output_ended:
                    raise ProcessEnded(f"{self.name} ended without a line like {pattern!r}")
                if not self._news.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"{self.name}: no line like {pattern!r} in {timeout} s")

    def check_running(self) -> None:
        """Raise when the process has ended; for loops that wait for it from outside."""
        if not self.is_running:
            self._reader.join(STOP_SECONDS)
            raise ProcessEnded(f"{self.name} ended: {self._popen.returncode}\n{self.tail(10)}")

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """Wait for the end of the process and of its output; the exit status."""
        status = self._popen.wait(timeout)
        self._reader.join(timeout)
        return status

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """Ask it to end (SIGTERM), insist after the timeout (SIGKILL); the exit status."""
        if self.is_running:
            self._popen.terminate()
        try:
            return self.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """End it at once, as a crash does (SIGKILL); the exit status."""
        if self.is_running:
            self._popen.kill()
        return self.wait()

    def interrupt(self) -> None:
        """Ask it to end as Ctrl-C does (SIGINT)."""
        self._popen.send_signal(signal.SIGINT)

    def pause(self) -> None:
        """Freeze it (SIGSTOP), as a long collection or a stalled host does."""
        self._popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._popen.send_signal(signal.SIGCONT)
