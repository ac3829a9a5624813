"""The records of `__consumer_offsets`: committed offsets and generations of classic groups.

A key begins with its type, a value with its version, both i16. Written as Kafka 3.9 writes them:

    offset  key 1 {group, topic, partition}   value 3, or 1 when the client named a retention time
    group   key 2 {group}                     value 3

Every version that Kafka ever wrote is read. Keys of other types belong to other coordinators.
"""

from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from odradek.protocol.compiler import decode, encode
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.types import TopicPartition

_VERSION: Final = Struct(">h")

_OFFSET_KEY: Final = 1
_OFFSET_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2
_OFFSET_VALUE: Final = 3
_OFFSET_VALUE_WITH_EXPIRY: Final = 1
_GROUP_VALUE: Final = 3

NO_EXPIRY: Final = -1


class OffsetRecord(NamedTuple):
    """A committed offset of a group; None removes it."""

    group_id: str
    where: TopicPartition
    value: OffsetCommitValue | None


class GroupRecord(NamedTuple):
    """A generation of a group; None removes the group."""

    group_id: str
    value: GroupMetadataValue | None


ClassicRecord = OffsetRecord | GroupRecord


class ClassicRecords:
    """The codec of these records."""

    def encode(self, record: ClassicRecord, /) -> tuple[bytes, bytes | None]:
        if isinstance(record, OffsetRecord):
            return _encode_offset(record)
        key = _VERSION.pack(_GROUP_KEY) + encode(GroupMetadataKey(group=record.group_id), 2)
        if record.value is None:
            return key, None
        return key, _VERSION.pack(_GROUP_VALUE) + encode(record.value, _GROUP_VALUE)

    def decode(self, key: bytes | None, value: bytes | None, /) -> ClassicRecord | None:
        key_type = _read_version(key)
        assert key is not None
        if key_type in _OFFSET_KEYS:
            named = decode(OffsetCommitKey, key_type, key, _VERSION.size)
            where = TopicPartition(named.topic, named.partition)
            if value is None:
                return OffsetRecord(named.group, where, None)
            version = _read_version(value)
            content = decode(OffsetCommitValue, version, value, _VERSION.size)
            return OffsetRecord(named.group, where, content)
        if key_type == _GROUP_KEY:
            group = decode(GroupMetadataKey, key_type, key, _VERSION.size).group
            if value is None:
                return GroupRecord(group, None)
            version = _read_version(value)
            return GroupRecord(group, decode(GroupMetadataValue, version, value, _VERSION.size))
        return None


@lru_cache(maxsize=20_000)
def _offset_key(group_id: str, where: TopicPartition) -> bytes:
    """Kept, because a group commits the same partitions again and again."""
    named = OffsetCommitKey(group=group_id, topic=where.topic, partition=where.partition)
    return _VERSION.pack(_OFFSET_KEY) + encode(named, _OFFSET_KEY)


def _encode_offset(record: OffsetRecord) -> tuple[bytes, bytes | None]:
    key = _offset_key(record.group_id, record.where)
    value = record.value
    if value is None:
        return key, None
    expires = value.expire_timestamp != NO_EXPIRY
    version = _OFFSET_VALUE_WITH_EXPIRY if expires else _OFFSET_VALUE
    return key, _VERSION.pack(version) + encode(value, version)


def _read_version(data: bytes | None) -> int:
    if data is None or len(data) < _VERSION.size:
        raise ProtocolError("a record of a coordinator has no version")
    return int(_VERSION.unpack_from(data)[0])
