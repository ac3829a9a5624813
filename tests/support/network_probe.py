"""What a test asks about the health of a server, and the `network_server` as one to ask."""

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from odradek.protocol.messages.versions import ApiVersionsRequest, ApiVersionsResponse

from tests.support.processes import Process
from tests.support.raw_client import RawClient

ROOT = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.01
MEGABYTE = 1024 * 1024
# What the allocator may keep of memory that was given back to it.
SLACK_BYTES = 16 * MEGABYTE


class ServerProbe:
    """A process that serves on a port, and what it held when it had served one request."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.port = port
        # Serves one request, so that what is loaded with the first one counts as the baseline.
        self.bystander = RawClient(self.port)
        self.check_serves(self.bystander)
        self.baseline_files = self.open_files()
        self.baseline_bytes = self.resident_bytes()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.bystander.close()
        self.process.stop()

    def client(self, **options: str | int | None) -> RawClient:
        return RawClient(self.port, **options)  # type: ignore[arg-type]

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        """The most memory that was resident since the last `forget_peak`."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kilobytes) * 1024

    def cpu_seconds(self) -> float:
        ran = Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]
        return int(ran) / 1e9

    def check_serves(self, client: RawClient) -> None:
        response = client.ask(ApiVersionsRequest(), 0)
        assert isinstance(response, ApiVersionsResponse)
        assert response.error_code == 0

    def check_well(self) -> None:
        """Alive, serving a connection that was there before, and nothing is left behind."""
        self.check_serves(self.bystander)
        wait_for(lambda: self.open_files() <= self.baseline_files, "descriptors are closed")
        wait_for(
            lambda: self.resident_bytes() < self.baseline_bytes + SLACK_BYTES, "memory is free"
        )

    def complaints(self) -> list[str]:
        return [line for line in self.process.output if line.startswith(("WARNING", "ERROR"))]


class NetworkProbe(ServerProbe):
    def __init__(self, *settings: str, loop: str = "uvloop", files: int | None = None) -> None:
        limit = [] if files is None else ["--files", str(files)]
        command = [sys.executable, "-m", "tests.support.network_server", "--loop", loop]
        process = Process([*command, *limit, *settings], name="network server", cwd=ROOT)
        _, *listeners = process.wait_for_line("^ready").split()
        self.ports = {name: int(port) for name, port in (text.split("=") for text in listeners)}
        super().__init__(process, next(iter(self.ports.values())))


def wait_for(condition: Callable[[], bool], what: str, timeout: float = 10.0) -> None:
    """For facts of another process that announce themselves to nobody."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not so after {timeout} s: {what}"
        time.sleep(POLL_SECONDS)
