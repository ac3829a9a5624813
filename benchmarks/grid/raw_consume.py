"""A consumer that only receives: it looks at no record, so that the broker is what is measured.

It walks through the log once and remembers its requests and how long their answers are; then it
sends them again and again, two at a time, and counts bytes.
"""

import time
from dataclasses import dataclass
from itertools import cycle

from odradek.protocol.frames import decode_response
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.records import iter_headers

from benchmarks._raw_load import FETCH_VERSION, fetch_request, frame_of
from benchmarks.grid.load import ALONE, Consume, Done, Shape
from tests.support.raw_client import LENGTH, RawClient

_METADATA_VERSION = 12
_RECEIVE_BYTES = 1 << 20
_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class RawConsume:
    shape: Shape = ALONE

    def prepare(self, bootstrap: str, topic: str) -> None:
        Consume().prepare(bootstrap, topic)

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        with RawClient(port_of(bootstrap)) as client:
            pieces = _walk(client, topic_id_of(client, topic))
            return _receive(client, pieces, seconds)


def port_of(bootstrap: str) -> int:
    return int(bootstrap.rpartition(":")[2])


def topic_id_of(client: RawClient, topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    answer = client.ask(request, _METADATA_VERSION)
    assert isinstance(answer, MetadataResponse)
    return answer.topics[0].topic_id


@dataclass(frozen=True, slots=True)
class _Piece:
    frame: bytes
    answer_bytes: int
    record_bytes: int
    records: int


def _walk(client: RawClient, topic_id: bytes) -> list[_Piece]:
    pieces: list[_Piece] = []
    offset = 0
    while True:
        request = fetch_request(topic_id, offset)
        request.max_wait_ms = 0
        frame = frame_of(request, FETCH_VERSION)
        answer_bytes, answer = _ask(client, frame)
        data = answer.responses[0].partitions[0].records if answer.responses else b""
        if not isinstance(data, memoryview) or not data:
            return pieces
        after = max(header.next_offset for _, header in iter_headers(data))
        pieces.append(_Piece(frame, answer_bytes, len(data), after - offset))
        offset = after


def _ask(client: RawClient, frame: bytes) -> tuple[int, FetchResponse]:
    client.send(frame)
    body = client.read_frame()
    _, answer = decode_response(body, FetchRequest, FETCH_VERSION)
    assert isinstance(answer, FetchResponse)
    return LENGTH.size + len(body), answer


def _receive(client: RawClient, pieces: list[_Piece], seconds: float) -> Done:
    connection, buffer = client.socket, bytearray(_RECEIVE_BYTES)
    coming, going = cycle(pieces), cycle(pieces)
    for _ in range(_AT_ONCE):
        connection.sendall(next(going).frame)
    began, records, size = time.perf_counter(), 0, 0
    while (elapsed := time.perf_counter() - began) < seconds:
        piece = next(coming)
        left = piece.answer_bytes
        while left:
            got = connection.recv_into(buffer, min(left, _RECEIVE_BYTES))
            if not got:
                raise ConnectionError("closed under load")
            left -= got
        connection.sendall(next(going).frame)
        records += piece.records
        size += piece.record_bytes
    return Done(records, size, elapsed)
