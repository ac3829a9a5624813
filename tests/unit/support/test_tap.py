"""The tap finds requests however the stream is cut, and passes every byte."""

import socket
import struct
from threading import Thread

import pytest

from tests.support.network import receive_exactly
from tests.support.tap import RequestScanner, Tap


def request(key: int, version: int, body: bytes = b"") -> bytes:
    rest = struct.pack(">hhi", key, version, 7) + body
    return struct.pack(">i", len(rest)) + rest


@pytest.mark.parametrize("piece_bytes", [1, 3, 8, 1000])
def test_requests_are_found_however_the_stream_is_cut(piece_bytes: int) -> None:
    stream = request(18, 3) + request(0, 9, bytes(100)) + request(1, 16, b"x")
    scanner = RequestScanner()
    pieces = [stream[at : at + piece_bytes] for at in range(0, len(stream), piece_bytes)]
    found = [pair for piece in pieces for pair in scanner.feed(piece)]
    assert found == [(18, 3), (0, 9), (1, 16)]


def echo_once(listener: socket.socket, count: int) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(receive_exactly(connection, count))


def test_bytes_pass_and_are_counted_for_the_client_of_the_moment() -> None:
    stream = request(18, 3) + request(3, 12, bytes(5000))
    with socket.create_server(("127.0.0.1", 0)) as broker, Tap() as tap:
        Thread(target=echo_once, args=(broker, len(stream)), daemon=True).start()
        tap.open_to(f"127.0.0.1:{broker.getsockname()[1]}")
        tap.client = "tester"
        host, _, port = tap.address.rpartition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(stream)
            assert receive_exactly(connection, len(stream)) == stream
        assert tap.usage() == {"tester": {"ApiVersions": [3], "Metadata": [12]}}
