"""What no broker on this machine can exceed: the physical limits, written in the least of code.

- sendfile: bytes of a file in the page cache, sent in pieces of 1 MB over the loopback to a process
  that receives and forgets them; as the system sends, which may pace its connections (BBR), and
  unpaced;
- write and CRC: pieces of 16 KB, their CRC-32C taken and then written to a file, on one core;
- echo: the round trip of 100 bytes with a server that is nothing but uvloop, `recv` and `send`;
- Python: a loop that makes objects. The same version is a third slower where it was built without
  profile-guided optimisation, and so is a broker.
"""

import os
import socket
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import crc32c

from benchmarks._brokers import scratch
from benchmarks._rows import percentile
from benchmarks.grid.contest import Effort
from benchmarks.grid.readings import Reading
from benchmarks.network import ECHO
from benchmarks.network import running as echo_server

MACHINE = "machine"
SENDFILE, UNPACED_SENDFILE = "sendfile over the loopback", "sendfile over the loopback, unpaced"
_HOST = "127.0.0.1"
_FILE_BYTES = 64 << 20
_SEND_BYTES = 1 << 20
_WRITE_BYTES = 16_384
_WRITTEN_BYTES = 512 << 20
_OBJECTS = 10_000


def measure(effort: Effort) -> Iterator[Reading]:
    rounds = range(effort.rounds)
    with scratch() as directory:
        path = directory / "pages"
        path.write_bytes(os.urandom(_FILE_BYTES))
        sent = [
            [
                _sendfile_mb_per_second(path, effort.seconds, is_paced=paced)
                for paced in (True, False)
            ]
            for _ in rounds
        ]
        for cell, taken in zip((SENDFILE, UNPACED_SENDFILE), zip(*sent, strict=True), strict=True):
            yield Reading(cell, MACHINE, "MB/s", taken)
        written = tuple(_write_mb_per_second(directory / f"written-{n}") for n in rounds)
        yield Reading("write and CRC-32C, 16 KB", MACHINE, "MB/s", written)
    trips = 500 if effort.is_quick else 5000
    with echo_server("bare", "uvloop", ECHO, 1) as run:
        run.round(trips)
        readings = [run.round(trips) for _ in rounds]
    cell = "echo of a bare uvloop server"
    for name, share in (("p50 µs", 0.5), ("p99 µs", 0.99)):
        times = tuple(percentile(taken, share) * 1e6 for _, _, taken in readings)
        yield Reading(cell, MACHINE, name, times)
    cpu = tuple(cpu_seconds * 1e6 for cpu_seconds, _, _ in readings)
    yield Reading(cell, MACHINE, "CPU µs/record", cpu)
    made = tuple(_object_us() for _ in range(10 * len(rounds)))
    yield Reading("an object made in Python", MACHINE, "CPU µs/record", made)


class _Point:
    __slots__ = ("x", "y")

    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y


def _object_us() -> float:
    began = time.process_time()
    for number in range(_OBJECTS):
        _Point(number, 1)
    return (time.process_time() - began) / _OBJECTS * 1e6


def _sendfile_mb_per_second(path: Path, seconds: float, *, is_paced: bool) -> float:
    context = get_context("spawn")
    here, there = context.Pipe()
    receiver = context.Process(target=_receive, args=(there,), daemon=True)
    receiver.start()
    try:
        with socket.create_connection((_HOST, here.recv())) as connection, path.open("rb") as file:
            if not is_paced:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
            began, sent, position = time.perf_counter(), 0, 0
            while time.perf_counter() < began + seconds:
                sent += os.sendfile(connection.fileno(), file.fileno(), position, _SEND_BYTES)
                position = sent % (_FILE_BYTES - _SEND_BYTES)
            connection.shutdown(socket.SHUT_WR)
            here.recv()
            elapsed = time.perf_counter() - began
    finally:
        receiver.kill()
        receiver.join()
    return sent / elapsed / 1e6


def _receive(parent: Connection) -> None:
    with socket.create_server((_HOST, 0)) as listening:
        parent.send(listening.getsockname()[1])
        connection, _ = listening.accept()
        buffer = bytearray(_SEND_BYTES)
        while connection.recv_into(buffer):
            pass
        parent.send("all")


def _write_mb_per_second(path: Path) -> float:
    piece = os.urandom(_WRITE_BYTES)
    with path.open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(_WRITTEN_BYTES // _WRITE_BYTES):
            crc32c.crc32c(piece)
            file.write(piece)
        elapsed = time.perf_counter() - began
    path.unlink()
    return _WRITTEN_BYTES / elapsed / 1e6
