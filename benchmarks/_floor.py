"""The least that a server can cost: one that only receives and sends back, on the same event loop.

It is measured beside a broker, by the same client with the same frames. What it takes is the price
of waking up, of the loop and of two system calls on the machine at hand, and no broker's doing.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.network import HOST
from tests.support.processes import Process

_ROOT = Path(__file__).resolve().parents[1]


class BareServer:
    """Looks like a broker to whoever measures; answers every frame with that frame."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "benchmarks._echo_server", "bare", "uvloop"]
        self.process: Process | None = Process(command, name="bare", cwd=_ROOT)
        self.port = int(self.process.wait_for_line(r"^\d+$"))

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"


@contextmanager
def bare_server() -> Iterator[BareServer]:
    server = BareServer()
    assert server.process is not None
    with server.process:
        yield server
