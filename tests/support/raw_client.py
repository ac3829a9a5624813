"""A client that speaks bytes: any frame, well-formed or not, at any pace.

    with RawClient(port) as client:
        client.send(struct.pack(">i", -1))
        assert client.is_closed()

Every wait ends after `timeout` seconds at the latest, and then fails the test that waits.
"""

import select
import socket
import struct
from collections.abc import Iterable
from typing import Self

from odradek.protocol.frames import decode_response, encode_request
from odradek.protocol.schema import Request, Response

from tests.support.network import HOST

LENGTH = struct.Struct(">i")


def framed(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def header(api_key: int, version: int, correlation_id: int = 1, client_id: str = "raw") -> bytes:
    """A request header of version 1, whatever the version calls for."""
    name = client_id.encode()
    return struct.pack(">hhih", api_key, version, correlation_id, len(name)) + name


class RawClient:
    def __init__(
        self,
        port: int,
        *,
        host: str = HOST,
        source: str | None = None,
        receive_buffer: int | None = None,
        timeout: float = 20.0,
    ) -> None:
        """`source` is the address to connect from: all of 127.0.0.0/8 is this machine."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.connect((host, port))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send(framed(body))

    def dribble(self, data: bytes, piece_bytes: int = 1) -> None:
        """Send in small pieces, each in a packet of its own."""
        for start in range(0, len(data), piece_bytes):
            self.send(data[start : start + piece_bytes])

    def request(
        self,
        message: Request,
        version: int,
        correlation_id: int = 1,
        client_id: str | None = "raw",
    ) -> None:
        self.send(encode_request(message, version, correlation_id, client_id))

    def ask(self, message: Request, version: int, correlation_id: int = 1) -> Response:
        """Send a request and read its answer, which must bear the same correlation id."""
        self.request(message, version, correlation_id)
        answered, response = self.read_response(type(message), version)
        assert answered == correlation_id
        return response

    def read_exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            chunk = self.socket.recv(min(count - len(received), 1 << 20))
            if not chunk:
                raise ConnectionError(f"closed after {len(received)} of {count} bytes")
            received += chunk
        return bytes(received)

    def read_frame(self) -> bytes:
        (length,) = LENGTH.unpack(self.read_exactly(LENGTH.size))
        return self.read_exactly(length)

    def read_response(self, request: type[Request], version: int) -> tuple[int, Response]:
        return decode_response(self.read_frame(), request, version)

    def read_correlation_ids(self, count: int) -> list[int]:
        """Read so many answers and tell which requests they answer."""
        return [LENGTH.unpack_from(self.read_frame())[0] for _ in range(count)]

    def has_nothing_to_read(self) -> bool:
        """Whether no byte has come up to now and the connection stands."""
        readable, _, _ = select.select([self.socket], [], [], 0)
        return not readable

    def is_closed(self) -> bool:
        """Wait for the server's next word; True when that is the end of the connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def half_close(self) -> None:
        """Send no more, but go on reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Close with a reset, as a crash of the client's machine would look like."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.socket.close()


def close_all(clients: Iterable[RawClient]) -> None:
    for client in clients:
        client.close()
