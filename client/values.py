"""The values that producers and consumers take and give, and the seams users may fill.

Serializers turn what an application has into bytes and back; the defaults pass bytes through and
let producers send text as UTF-8. Interceptors see every record on its way.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol

from odradek.protocol.errors import KafkaError
from odradek.protocol.records import Header
from odradek.protocol.types import TopicPartition

Serializer = Callable[[object], bytes | None]
Deserializer = Callable[[bytes | None], object]


class ProducerRecord(NamedTuple):
    topic: str
    value: object = None
    key: object = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[Header] = ()


class RecordMetadata(NamedTuple):
    """Where a record was written; offset -1 when nobody confirmed it (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ConsumerRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: object
    value: object
    headers: tuple[Header, ...] = ()
    leader_epoch: int = -1
    is_log_append_time: bool = False


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, and what the committer noted beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Who commits: what a transaction must know of the consumer whose offsets it carries."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class ConsumerRecords:
    """What one poll brought: iterate for the records, `by_partition` keeps them apart."""

    __slots__ = ("by_partition",)

    def __init__(self, by_partition: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        self.by_partition = by_partition

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return chain.from_iterable(self.by_partition.values())

    def __len__(self) -> int:
        return sum(map(len, self.by_partition.values()))

    def __bool__(self) -> bool:
        return bool(self.by_partition)


OnDelivery = Callable[[RecordMetadata | None, KafkaError | None], None]


class ProducerInterceptor(Protocol):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record to send instead; called before anything is serialized."""
        ...

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None: ...


class ConsumerInterceptor(Protocol):
    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords: ...

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...


def to_bytes(value: object) -> bytes | None:
    """The default serializer."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} needs a serializer: only bytes and str go as they are")


def as_bytes(value: bytes | None) -> object:
    """The default deserializer: nothing is changed."""
    return value
