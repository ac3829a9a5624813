"""The quickest that a broker could be read from: a server that knows the answers already.

    python -m benchmarks._replay_server PORT UPSTREAM_PORT

It passes on what it is asked to the broker behind it, whose advertised address it has, and keeps
the long answers to fetches in memory. A fetch that was asked before gets its answer by `sendfile`,
without a look at it: what a client then reads is as much as that client can read on this machine.

Only for logs that no longer grow, as an answer is taken to stay the same, and for requests that
have one (acks=0 has none).
"""

import os
import socket
import sys
from threading import Thread
from typing import NamedTuple

HOST = "127.0.0.1"
_FETCH = (1).to_bytes(2, "big")
_LENGTH_BYTES = 4
# A request begins with its kind and version, and then the number that its answer begins with.
_NUMBER = slice(4, 8)
_LONG_BYTES = 100_000


class Kept(NamedTuple):
    position: int
    length: int


class Answers:
    """In a file in memory, each without the number that it begins with."""

    def __init__(self) -> None:
        self._file = os.memfd_create("answers")
        self._end = 0
        self._kept: dict[bytes, Kept] = {}

    def find(self, question: bytes) -> Kept | None:
        return self._kept.get(question)

    def keep(self, question: bytes, answer: memoryview) -> None:
        os.pwrite(self._file, answer, self._end)
        self._kept[question] = Kept(self._end, len(answer))
        self._end += len(answer)

    def send(self, connection: socket.socket, number: bytes, kept: Kept) -> None:
        length = (len(number) + kept.length).to_bytes(_LENGTH_BYTES, "big")
        connection.sendall(length + number, socket.MSG_MORE)
        position, end = kept.position, kept.position + kept.length
        while position < end:
            position += os.sendfile(connection.fileno(), self._file, position, end - position)


def serve(port: int, upstream_port: int) -> None:
    answers = Answers()
    with socket.create_server((HOST, port)) as listening:
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
            Thread(target=converse, args=(connection, upstream_port, answers), daemon=True).start()


def converse(connection: socket.socket, upstream_port: int, answers: Answers) -> None:
    with connection, socket.create_connection((HOST, upstream_port)) as upstream:
        while request := read_frame(connection):
            number = bytes(request[_NUMBER])
            question = bytes(request[: _NUMBER.start]) + bytes(request[_NUMBER.stop :])
            if kept := answers.find(question):
                answers.send(connection, number, kept)
                continue
            send_frame(upstream, request)
            if not (answer := read_frame(upstream)):
                return
            send_frame(connection, answer)
            if question.startswith(_FETCH) and len(answer) > _LONG_BYTES:
                answers.keep(question, answer[len(number) :])


def read_frame(connection: socket.socket) -> memoryview:
    """Empty at the end."""
    length = int.from_bytes(_read(connection, _LENGTH_BYTES), "big")
    return _read(connection, length)


def send_frame(connection: socket.socket, frame: memoryview) -> None:
    connection.sendall(len(frame).to_bytes(_LENGTH_BYTES, "big"), socket.MSG_MORE)
    connection.sendall(frame)


def _read(connection: socket.socket, length: int) -> memoryview:
    data = memoryview(bytearray(length))
    got = 0
    while got < length:
        count = connection.recv_into(data[got:])
        if not count:
            return data[:0]
        got += count
    return data


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
