"""Produce requests that are like an earlier one but for their records: the short way.

A producer that does not batch sends the same request over and over: same client, same partition,
same acks; only the correlation id, the records and their length differ. So the bytes before the
length of the records, once understood, stand for a request that was decoded already, and the
answer is a form in which three numbers are filled in; with acks=0 there is none.

`learn` is shown requests that went the long way; `answer` serves one of which it knows the
beginning, or returns None, and nothing has happened then: the long way also finds out what is
wrong with a request, and says so. Both ways append by `Partition.append`.

Hot code: a small produce takes 16 µs of Python on this way and 33 on the long one
(benchmarks/broker.py, rows CPU of a produce).
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from weakref import ReferenceType, ref

from odradek.broker.handlers.pending_produce import PendingProduce
from odradek.broker.later import Later
from odradek.broker.network.peer import Peer
from odradek.protocol.batch_header import NO_LEADER_EPOCH, write_base_offset_and_epoch
from odradek.protocol.compiler import Part
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.frames import RequestHeader, encode_response
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.primitives import read_uvarint
from odradek.protocol.records import HEADER_BYTES, MAGIC, TRANSACTIONAL_BIT
from odradek.protocol.types import NO_ID, TopicPartition
from odradek.replication.partition import Partition
from odradek.storage.log import AppendInfo

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
# Where a batch has its format, and the half of its attributes that holds all bits in use.
MAGIC_AT, ATTRIBUTES_LOW = 16, 22

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

# From this version on the three numbers of an answer stand side by side; from the other one on,
# lengths are compact and three empty sections of tagged fields end a request.
_FIRST_VERSION: Final = 5
_FIRST_COMPACT_VERSION: Final = 9
_COMPACT_END: Final = bytes(3)
_LEAST_BYTES: Final = HEADER_BYTES + 4

# What comes before the bytes that are compared: api key, version, correlation id.
_COMPARED_FROM: Final = 8
_read_length: Final = Struct(">i").unpack_from
_NUMBERS: Final = Struct(">qqq")
_NO_ANSWER: Final[Sequence[Part]] = ()
_UNLIKELY: Final = (0x0BAD_5EED_0BAD_5EED, 0x0DAD_5EED_0DAD_5EED, 0x0CAD_5EED_0CAD_5EED)

# Bounds for clients that make up names.
_MAX_KNOWN: Final = 4096
_MAX_SHARED: Final = 256

# Version, correlation id and the length of the client's id; where the last ends. Then come, in
# front of the topic's name, fields of fixed size, as transactions take the long way.
_HEAD: Final = Struct(">hih")
_read_head: Final = _HEAD.unpack_from
_HEAD_AT: Final = 2
_NAME_FROM: Final = 22
_COMPACT_NAME_FROM: Final = 19
# Around the name: its length, the number of partitions and the index of the only one. A compact
# length is one more than what it tells, and counted with the name.
_BESIDE_NAME: Final = 2 + 4 + 4
_BESIDE_COMPACT_NAME: Final = 1 + 4


class _Known(NamedTuple):
    """Requests with one beginning, and their answer as a form. What two of them can share is one
    object: a thousand of them do not fit into a core's caches."""

    partition: ReferenceType[Partition]
    """Not kept by this: the files of a topic that was deleted would stay."""
    acks: int
    version: int
    timeout_ms: int
    fill_in: Callable[..., bytes]
    length: int
    head: bytes
    tail: bytes


class ProduceAgain:
    def __init__(
        self,
        find: Callable[[TopicPartition], Partition | None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._find = find
        self._loop = loop
        self._known: dict[bytes, _Known] = {}

    def answer(self, frame: bytearray, _: Peer) -> Sequence[Part] | Later[Sequence[Part]] | None:
        """Append and answer; None, and nothing done, when the long way must be taken."""
        try:
            version, correlation_id, client_bytes = _read_head(frame, _HEAD_AT)
            size = _records_at(frame, version, client_bytes)
        except (IndexError, StructError):
            return None
        known = self._known.get(bytes(frame[_COMPARED_FROM:size]))
        if known is None or known.version != version:
            return None
        partition = known.partition()
        if partition is None or not partition.is_leader or partition.log.flushes_appends:
            return None
        try:
            records = _records(frame, size, known.version)
        except ProtocolError:
            return None
        if records is None:
            return None
        try:
            info = partition.append(records, acks=known.acks, produce_version=known.version)
        except KafkaError as refusal:
            # What a batch says of itself is checked before it gets its offset, who sent it is
            # checked afterwards: the long way must see it without.
            if refusal.error is not Errors.INVALID_RECORD:
                write_base_offset_and_epoch(records, 0, 0, NO_LEADER_EPOCH)
            return None
        if known.acks == ACKS_NONE:
            return _NO_ANSWER
        answer = known.fill_in(
            known.length,
            correlation_id,
            known.head,
            info.first_offset,
            info.log_append_time_ms,
            info.log_start_offset,
            known.tail,
        )
        if known.acks == ACKS_ALL and partition.log.high_watermark <= info.last_offset:
            return self._wait(known, partition, info, correlation_id, answer)
        return [answer]

    def _wait(
        self,
        known: _Known,
        partition: Partition,
        info: AppendInfo,
        correlation_id: int,
        answer: bytes,
    ) -> Later[Sequence[Part]]:
        """The same answer when the replicas have the records, or what went wrong meanwhile."""
        result = PartitionProduceResponse(
            index=partition.where.partition, error_code=0, base_offset=info.first_offset
        )
        pending = PendingProduce(self._loop)
        pending.add(partition, info.last_offset + 1, result)
        topic = TopicProduceResponse(name=partition.where.topic, partition_responses=[result])
        settled = pending.begin(ProduceResponse(responses=[topic]), known.timeout_ms)
        later: Later[Sequence[Part]] = Later()

        def tell(response: ProduceResponse) -> None:
            if result.error_code:
                later.set(encode_response(response, known.version, correlation_id))
            else:
                later.set([answer])

        settled.then(tell)
        return later

    def learn(self, frame: bytearray, header: RequestHeader, request: ProduceRequest) -> None:
        """Remember how a request began, if it is of a kind that comes again."""
        if not _is_simple(header, request):
            return
        size = _beginning(frame, request, header.version)
        if size is None:
            return
        topic = request.topic_data[0]
        partition = self._find(TopicPartition(topic.name, topic.partition_data[0].index))
        if partition is None:
            return
        beginning = bytes(frame[_COMPARED_FROM:size])
        known = self._known.get(beginning)
        if known and known.version == header.version and known.partition() is partition:
            return
        form = _form(partition, request, header.version)
        if form is None:
            return
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[beginning] = form


def _records_at(frame: bytearray, version: int, client_bytes: int) -> int:
    """Where the length of the records stands, if the request is a simple one; what stands there is
    looked at only when all before it is known."""
    at = max(client_bytes, 0)
    if version < _FIRST_COMPACT_VERSION:
        at += _NAME_FROM
        return at + _BESIDE_NAME + (frame[at] << 8 | frame[at + 1])
    at += _COMPACT_NAME_FROM
    name_bytes = frame[at]
    if name_bytes > 127:
        at += 1
        name_bytes += (frame[at] << 7) - 128
    return at + _BESIDE_COMPACT_NAME + name_bytes


def _records(frame: bytearray, position: int, version: int) -> memoryview | None:
    """The records whose length stands at `position`: one batch at least, of no transaction, that
    ends where the request does."""
    if len(frame) < position + _LEAST_BYTES:
        return None
    if version < _FIRST_COMPACT_VERSION:
        (length,) = _read_length(frame, position)
        start = position + 4
        end = len(frame)
    else:
        length, start = read_uvarint(frame, position)
        length -= 1
        end = len(frame) - len(_COMPACT_END)
        if not frame.endswith(_COMPACT_END):
            return None
    if (
        start + length != end
        or length < HEADER_BYTES
        or frame[start + MAGIC_AT] != MAGIC
        or frame[start + ATTRIBUTES_LOW] & TRANSACTIONAL_BIT
    ):
        return None
    return memoryview(frame)[start:end]


def _is_simple(header: RequestHeader, request: ProduceRequest) -> bool:
    topics = request.topic_data
    return (
        len(topics) == 1
        and len(topics[0].partition_data) == 1
        and topics[0].topic_id == NO_ID
        and topics[0].name not in INTERNAL_TOPICS
        and header.version >= _FIRST_VERSION
        and request.acks in (ACKS_NONE, ACKS_LEADER, ACKS_ALL)
        and request.transactional_id is None
    )


def _beginning(frame: bytearray, request: ProduceRequest, version: int) -> int | None:
    """Where the length of the records stands; None when the request is not laid out as known."""
    records = request.topic_data[0].partition_data[0].records
    if not records:
        return None
    if version < _FIRST_COMPACT_VERSION:
        size = len(frame) - len(records) - 4
    else:
        width = max(1, ((len(records) + 1).bit_length() + 6) // 7)
        size = len(frame) - len(records) - len(_COMPACT_END) - width
    found = _records(frame, size, version)
    if found is None or found != records:
        return None
    _, _, client_bytes = _read_head(frame, _HEAD_AT)
    return size if size == _records_at(frame, version, client_bytes) else None


@lru_cache(_MAX_SHARED)
def _filling_in(head_bytes: int, tail_bytes: int) -> Callable[..., bytes]:
    return Struct(f">ii{head_bytes}sqqq{tail_bytes}s").pack


@lru_cache(_MAX_SHARED)
def _shared(data: bytes) -> bytes:
    """The first of all that are equal."""
    return data


def _form(partition: Partition, request: ProduceRequest, version: int) -> _Known | None:
    """The answer with gaps, found by encoding one with numbers that cannot be overlooked."""
    topic, index = partition.where
    offset, time_ms, start = _UNLIKELY
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic,
                partition_responses=[
                    PartitionProduceResponse(
                        index=index,
                        error_code=0,
                        base_offset=offset,
                        log_append_time_ms=time_ms,
                        log_start_offset=start,
                    )
                ],
            )
        ]
    )
    (encoded,) = encode_response(response, version, 0)
    assert isinstance(encoded, bytes)
    head, gap, tail = encoded[_COMPARED_FROM:].partition(_NUMBERS.pack(*_UNLIKELY))
    if not gap or gap in tail:
        return None
    return _Known(
        ref(partition),
        request.acks,
        version,
        request.timeout_ms,
        _filling_in(len(head), len(tail)),
        len(encoded) - 4,
        head,
        _shared(tail),
    )
