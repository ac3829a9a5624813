"""Ports and readiness: a free port, a four-letter word to ZooKeeper, a first word to a broker."""

import os
import random
import socket
import struct
import time
from collections.abc import Callable, Mapping

from tests.support.processes import Process

HOST = "127.0.0.1"
POLL_SECONDS = 0.01
API_VERSIONS_KEY = 18
# Below the range that the system gives to outgoing connections.
PORTS = range(20_000, 32_000)

_given: set[int] = set()


def share_of_ports(environment: Mapping[str, str] = os.environ) -> range:
    """Those of this worker of xdist; all of them where there is none."""
    worker = int(environment.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(environment.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return PORTS[worker % workers :: workers]


def free_port() -> int:
    """A port that nobody listens on, and nobody else in this run ever will.

    A server that is down comes back to its port, and some tests want a port where nobody answers,
    so none is given twice, and each worker has its own. Runs beside this one are avoided by chance.
    """
    while True:
        port = random.SystemRandom().choice(share_of_ports())
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def receive_exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise ConnectionError(f"closed after {len(received)} of {count} bytes")
        received += chunk
    return received


def answers_api_versions(port: int, host: str = HOST) -> bool:
    """True when a Kafka-speaking server answers ApiVersions v0 without an error."""
    correlation_id = 7
    request = struct.pack(">hhih", API_VERSIONS_KEY, 0, correlation_id, -1)
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            _, answered, error = struct.unpack(">iih", receive_exactly(connection, 10))
    except OSError:
        return False
    return bool(answered == correlation_id and error == 0)


def answers_ruok(port: int, host: str = HOST) -> bool:
    """True when a ZooKeeper says that it is well."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(b"ruok")
            return receive_exactly(connection, 4) == b"imok"
    except OSError:
        return False


def wait_until(ready: Callable[[], bool], *, of: Process, what: str, timeout: float = 60.0) -> None:
    """Ask again and again until it is so; give up when the process ends or time is over."""
    deadline = time.monotonic() + timeout
    while not ready():
        of.check_running()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{of.name} is not {what} after {timeout} s\n{of.tail(10)}")
        time.sleep(POLL_SECONDS)
