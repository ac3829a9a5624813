"""A broker of ours as a process of its own: `odradek serve` on a port and a directory that it keeps
over `stop`, `kill` and `start`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.network import HOST, free_port
from tests.support.processes import Process

PROGRAM = Path(sys.executable).with_name("odradek")


class OdradekBroker:
    def __init__(
        self,
        data_dir: Path,
        *,
        overrides: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.data_dir = data_dir
        self.process: Process | None = None
        self._environment = environment
        self._options = [f"-o{name}={value}" for name, value in (overrides or {}).items()]

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> Self:
        command: list[str | Path] = [
            PROGRAM,
            "serve",
            *("--host", HOST, "--port", str(self.port), "--data-dir", str(self.data_dir)),
            *self._options,
        ]
        name = f"odradek:{self.port}"
        self.process = Process(command, name=name, environment=self._environment)
        self.process.wait_for_line("^Odradek ready on ")
        return self

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
