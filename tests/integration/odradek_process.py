"""`odradek serve` on a data directory, started, stopped and killed as its users do it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.network import HOST
from tests.support.processes import Process

ODRADEK = Path(sys.executable).with_name("odradek")
_STOP_SECONDS = 30.0


class Odradek:
    """It keeps its data, but not its port unless given one, over `stop`, `kill` and `start`."""

    def __init__(
        self, data_dir: Path, *, port: int = 0, settings: Mapping[str, object] | None = None
    ) -> None:
        self.data_dir = data_dir
        self.port = port
        self._wanted_port = port
        self._settings = dict(settings or {})
        self._process: Process | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def process(self) -> Process:
        assert self._process is not None, "it was started"
        return self._process

    def start(self) -> Self:
        options = [f"-o{name}={value}" for name, value in self._settings.items()]
        listen = ("--host", HOST, "--port", str(self._wanted_port))
        self._process = Process(
            [ODRADEK, "serve", *listen, "--data-dir", self.data_dir, *options], name="odradek"
        )
        ready = self._process.wait_for_line("^Odradek ready on ", timeout=60)
        self.port = int(ready.rpartition(":")[2])
        return self

    def stop(self) -> None:
        """Stop it cleanly; a complaint on the way out is a failure."""
        assert self.process.stop(_STOP_SECONDS) == 0, self.process.tail()
        assert not [line for line in self.process.output if "Traceback" in line]

    def kill(self) -> None:
        self.process.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop(_STOP_SECONDS)
