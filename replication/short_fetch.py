"""A follower's fetch that names one partition, and an answer with records of one: as forms.

They are what replication consists of while all is well. Both sides read and write them without the
codec; whatever has another shape, an error above all, goes through it.
"""

from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from odradek.protocol.compiler import Part
from odradek.protocol.errors import ProtocolError
from odradek.protocol.forms import INT32, INT64, UUID, Form
from odradek.protocol.frames import LENGTH, encode_request, encode_response
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartitionData,
    FetchResponse,
)
from odradek.protocol.primitives import Buffer, read_uvarint, uvarint
from odradek.protocol.types import TopicPartition
from odradek.replication.fetch_plan import (
    REPLICA_EPOCH_VERSION,
    FetchLimits,
    Place,
    Sender,
    Wanted,
    fetch_request,
)

FIRST_VERSION: Final = REPLICA_EPOCH_VERSION

_NUMBER, _SESSION, _EPOCH, _PARTITION, _LEADER_EPOCH, _LAST_EPOCH, _REPLICA, _SIZE = INT32[:8]
_OFFSET, _LOG_START, _REPLICA_EPOCH, _HIGH_WATERMARK, _LAST_STABLE = INT64[:5]
_MARK: Final = b"\x0e\xad\x5e\xed" * 4


class ShortFetch(NamedTuple):
    """What a request says; the fields are in the order of the wire."""

    correlation_id: int
    session_id: int
    session_epoch: int
    topic_id: bytes
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_epoch: int
    log_start: int
    replica_id: int
    replica_epoch: int


@lru_cache(maxsize=64)
def request_form(version: int, client_id: str | None, limits: FetchLimits) -> Form:
    """Frames without their length."""
    row = Wanted(
        UUID.example,
        _LEADER_EPOCH.example,
        _OFFSET.example,
        _LAST_EPOCH.example,
        _LOG_START.example,
    )
    request = fetch_request(
        Place(_SESSION.example, _EPOCH.example),
        {TopicPartition("", _PARTITION.example): row},
        version,
        Sender(_REPLICA.example, _REPLICA_EPOCH.example),
        limits,
    )
    gaps = (
        _NUMBER,
        _SESSION,
        _EPOCH,
        UUID,
        _PARTITION,
        _LEADER_EPOCH,
        _OFFSET,
        _LAST_EPOCH,
        _LOG_START,
        _REPLICA,
        _REPLICA_EPOCH,
    )
    encoded = encode_request(request, version, _NUMBER.example, client_id)
    return Form(encoded[LENGTH.size :], gaps)


class ShortAnswer(NamedTuple):
    correlation_id: int
    session_id: int
    topic_id: bytes
    partition: int
    high_watermark: int
    last_stable: int
    log_start: int


class AnswerForm:
    """The answers of one version."""

    __slots__ = ("_head", "_tail")

    def __init__(self, version: int) -> None:
        data = FetchPartitionData(
            partition_index=_PARTITION.example,
            error_code=0,
            high_watermark=_HIGH_WATERMARK.example,
            last_stable_offset=_LAST_STABLE.example,
            log_start_offset=_LOG_START.example,
            records=_MARK,
        )
        topic = FetchableTopicResponse(topic_id=UUID.example, partitions=[data])
        response = FetchResponse(session_id=_SESSION.example, responses=[topic])
        parts: list[Any] = encode_response(response, version, _NUMBER.example)
        encoded = b"".join(parts)[LENGTH.size :]
        head, _, self._tail = encoded.partition(_MARK)
        gaps = (
            _NUMBER,
            _SESSION,
            UUID,
            _PARTITION,
            _HIGH_WATERMARK,
            _LAST_STABLE,
            _LOG_START,
        )
        # Without the length of those records, which takes one byte.
        self._head = Form(head[:-1], gaps)

    def write(self, answer: ShortAnswer, records: Part) -> list[Part]:
        """A whole frame; records of a file stay a part of their own."""
        head = self._head.write(*answer) + uvarint(len(records) + 1)
        head = LENGTH.pack(len(head) + len(records) + len(self._tail)) + head
        if isinstance(records, bytes):
            return [head + records + self._tail]
        return [head, records, self._tail]

    def read(self, frame: Buffer) -> tuple[ShortAnswer, memoryview] | None:
        """Of a frame without its length; None when it has another shape."""
        values = self._head.read(frame)
        if values is None:
            return None
        try:
            length, start = read_uvarint(frame, self._head.size)
        except (IndexError, ProtocolError):
            return None
        end = start + length - 1
        if length < 1 or frame[end:] != self._tail:
            return None
        return ShortAnswer(*values), memoryview(frame)[start:end]


answer_form: Final = cache(AnswerForm)
