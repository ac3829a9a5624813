"""What does a small request cost on its way through sockets and dispatch?

The server runs in a process of its own, the client here is a loop around `send` and `recv` of
prepared bytes. Counted is the server's CPU time for a request, user and system, and the time of a
round trip. Beside ours runs a bare server that only receives and sends; both take turns, and the
best round counts.
"""

import argparse
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from odradek.protocol.frames import encode_request
from odradek.protocol.messages.sasl import SaslAuthenticateRequest
from odradek.protocol.messages.versions import ApiVersionsRequest

from benchmarks._echo_server import HOST

ROOT = Path(__file__).resolve().parents[1]
API_VERSIONS = encode_request(
    ApiVersionsRequest(client_software_name="bench", client_software_version="1"), 3, 1, "bench"
)
ECHO = encode_request(SaslAuthenticateRequest(auth_bytes=bytes(100)), 2, 1, "bench")
ROUNDS = 10


@dataclass
class Result:
    server: str
    loop: str
    request: str
    depth: int
    cpu_us: float
    requests_per_second: int
    p50_us: float
    p99_us: float


class Run:
    """One server process and one connection to it."""

    def __init__(self, process: subprocess.Popen[str], frame: bytes, depth: int) -> None:
        assert process.stdout is not None
        self._pid = process.pid
        self._socket = socket.create_connection((HOST, int(process.stdout.readline())))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._burst = frame * depth
        self._depth = depth
        self._socket.sendall(frame)
        (length,) = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))
        self._socket.recv(length, socket.MSG_WAITALL)
        self._answer_bytes = (length + 4) * depth

    def round(self, trips: int) -> tuple[float, float, list[float]]:
        """CPU seconds and wall seconds for each request, and the time of each round trip."""
        times = []
        buffer = bytearray(self._answer_bytes)
        cpu = self._cpu_seconds()
        began = time.perf_counter()
        for _ in range(trips):
            start = time.perf_counter()
            self._socket.sendall(self._burst)
            received = 0
            while received < self._answer_bytes:
                received += self._socket.recv_into(buffer)
            times.append(time.perf_counter() - start)
        elapsed = time.perf_counter() - began
        requests = trips * self._depth
        return (self._cpu_seconds() - cpu) / requests, elapsed / requests, sorted(times)

    def close(self) -> None:
        self._socket.close()

    def _cpu_seconds(self) -> float:
        return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[0]) / 1e9


@contextmanager
def serving(server: str, loop: str) -> Iterator[subprocess.Popen[str]]:
    """Its first line of output is the port."""
    command = [sys.executable, "-m", "benchmarks._echo_server", server, loop]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def running(server: str, loop: str, frame: bytes, depth: int) -> Iterator[Run]:
    with serving(server, loop) as process:
        run = Run(process, frame, depth)
        yield run
        run.close()


def compare(request: str, frame: bytes, depth: int, loop: str, trips: int) -> list[Result]:
    with (
        running("odradek", loop, frame, depth) as ours,
        running("bare", loop, frame, depth) as bare,
    ):
        named = {"odradek": ours, "bare": bare}
        rounds: dict[str, list[tuple[float, float, list[float]]]] = {name: [] for name in named}
        for run in named.values():
            run.round(trips // ROUNDS)  # warms up and does not count
        for _ in range(ROUNDS):
            for name, run in named.items():
                rounds[name].append(run.round(trips // ROUNDS))
    results = []
    for name, measured in rounds.items():
        cpu = min(each[0] for each in measured)
        wall = min(each[1] for each in measured)
        times = min((each[2] for each in measured), key=lambda times: times[len(times) // 2])
        results.append(
            Result(
                server=name,
                loop=loop,
                request=request,
                depth=depth,
                cpu_us=round(cpu * 1e6, 1),
                requests_per_second=round(1 / wall),
                p50_us=round(times[len(times) // 2] * 1e6, 1),
                p99_us=round(times[len(times) * 99 // 100] * 1e6, 1),
            )
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    trips = 500 if parser.parse_args().quick else 20_000
    results = []
    for loop in ("uvloop", "asyncio"):
        for request, frame in (("ApiVersions v3", API_VERSIONS), ("echo of 100 bytes", ECHO)):
            for depth in (1, 5):
                for result in compare(request, frame, depth, loop, trips // depth):
                    results.append(result)
                    print(result, file=sys.stderr)
    print(json.dumps({"network": [asdict(result) for result in results]}))


if __name__ == "__main__":
    main()
