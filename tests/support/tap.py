"""A tap on the wire: passes bytes between clients and a broker, and notes which APIs they use.

    with Tap() as tap:
        …start a broker that advertises tap.address…
        tap.open_to("127.0.0.1:9092")
        tap.client = "kcat"          # the connections made from now on are kcat's
        tap.usage()                  # {"kcat": {"Metadata": [4], …}}

A broker tells clients where to connect to, so it must name the tap's address as its own. Only the
first bytes of each request are looked at; nothing is changed.
"""

import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from threading import Lock, Thread
from typing import Self

from odradek.protocol.registry import api

from tests.support.network import HOST

_SIZE_KEY_VERSION = struct.Struct(">ihh")
_SIZE_BYTES = 4
_CHUNK_BYTES = 65536


class RequestScanner:
    """Finds the API key and version of each request in a stream that comes in pieces."""

    def __init__(self) -> None:
        self._start = b""  # of a request that is not known yet
        self._skip = 0  # bytes left of a request that is

    def feed(self, data: bytes) -> Iterator[tuple[int, int]]:
        while data:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
            wanted = _SIZE_KEY_VERSION.size - len(self._start)
            self._start += data[:wanted]
            data = data[wanted:]
            if len(self._start) == _SIZE_KEY_VERSION.size:
                size, key, version = _SIZE_KEY_VERSION.unpack(self._start)
                self._skip = size - (_SIZE_KEY_VERSION.size - _SIZE_BYTES)
                self._start = b""
                yield key, version


class Tap:
    """Listens from the start; lets connections through once it knows the broker."""

    def __init__(self) -> None:
        self.client = "unknown"
        self._listener = socket.create_server((HOST, 0))
        self._broker = ("", 0)
        self._seen: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self._lock = Lock()  # orders the notes of the connections' threads

    @property
    def address(self) -> str:
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def open_to(self, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        self._broker = (host, int(port))
        Thread(target=self._accept, daemon=True).start()

    def usage(self) -> dict[str, dict[str, list[int]]]:
        """Client -> name of the API -> the versions that were seen."""
        found: dict[str, dict[str, list[int]]] = {}
        with self._lock:
            for client, pairs in sorted(self._seen.items()):
                apis = found.setdefault(client, {})
                for key, version in sorted(pairs):
                    apis.setdefault(api(key).name, []).append(version)
        return found

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed: the end
                return
            try:
                far = socket.create_connection(self._broker)
            except OSError:  # no broker: what the client would have met without us
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Thread(target=self._requests, args=(near, far, self.client), daemon=True).start()
            Thread(target=_pass_on, args=(far, near), daemon=True).start()

    def _requests(self, near: socket.socket, far: socket.socket, client: str) -> None:
        scanner = RequestScanner()
        for data in _pieces(near):
            with self._lock:
                self._seen[client].update(scanner.feed(data))
            _send(far, data)
        _end(far)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    for data in _pieces(source):
        _send(target, data)
    _end(target)


def _pieces(source: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = source.recv(_CHUNK_BYTES)
        except OSError:  # reset: an end like any other
            return
        if not data:
            return
        yield data


def _send(target: socket.socket, data: bytes) -> None:
    try:
        target.sendall(data)
    except OSError:  # its other direction has noticed and ends the pair
        return


def _end(target: socket.socket) -> None:
    """No more will come: say so, as the other side of the pair said it to us."""
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:  # gone already
        return
