"""The records of consumer groups in `__consumer_offsets`, as Kafka 4.2 writes them.

    3   group                 its epoch, and a hash of the topics it wants
    4   group                 the topics it wants; Kafka wrote that before 4.1, and only its removal
                              is written here
    5   group, member         what the member says of itself
    6   group                 the epoch of the target assignment
    7   group, member         the member's share of the target assignment
    8   group, member         what the member holds, and in which epoch
    16  group, pattern        the topics that a regular expression stands for

A record without a value removes what its key names.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from odradek.broker.coordinator.group_records import ClassicRecord, ClassicRecords
from odradek.protocol.compiler import decode, encode
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from odradek.protocol.schema import Data

_VERSION: Final = Struct(">h")
_VALUE_VERSION: Final = 0


class EpochRecord(NamedTuple):
    group_id: str
    value: ConsumerGroupMetadataValue | None


class PartitionsRecord(NamedTuple):
    group_id: str
    value: ConsumerGroupPartitionMetadataValue | None


class MemberRecord(NamedTuple):
    group_id: str
    member_id: str
    value: ConsumerGroupMemberMetadataValue | None


class TargetEpochRecord(NamedTuple):
    group_id: str
    value: ConsumerGroupTargetAssignmentMetadataValue | None


class TargetRecord(NamedTuple):
    group_id: str
    member_id: str
    value: ConsumerGroupTargetAssignmentMemberValue | None


class HoldingRecord(NamedTuple):
    group_id: str
    member_id: str
    value: ConsumerGroupCurrentMemberAssignmentValue | None


class PatternRecord(NamedTuple):
    group_id: str
    pattern: str
    value: ConsumerGroupRegularExpressionValue | None


ConsumerRecord: TypeAlias = (
    EpochRecord
    | PartitionsRecord
    | MemberRecord
    | TargetEpochRecord
    | TargetRecord
    | HoldingRecord
    | PatternRecord
)
AnyGroupRecord: TypeAlias = ClassicRecord | ConsumerRecord


class _Layout(NamedTuple):
    """A type of record: the number of its key, and how key and value are laid out."""

    number: int
    record: Callable[..., ConsumerRecord]
    key: type[Data]
    value: type[Data]

    @property
    def key_fields(self) -> list[str]:
        """In the order of the record's own fields, before its value."""
        return [field.name for field in self.key.fields]


_LAYOUTS: Final = (
    _Layout(3, EpochRecord, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    _Layout(
        4,
        PartitionsRecord,
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupPartitionMetadataValue,
    ),
    _Layout(5, MemberRecord, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    _Layout(
        6,
        TargetEpochRecord,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
    ),
    _Layout(
        7,
        TargetRecord,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
    ),
    _Layout(
        8,
        HoldingRecord,
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
    ),
    _Layout(
        16,
        PatternRecord,
        ConsumerGroupRegularExpressionKey,
        ConsumerGroupRegularExpressionValue,
    ),
)
_BY_NUMBER: Final = {layout.number: layout for layout in _LAYOUTS}
_BY_RECORD: Final = {layout.record: layout for layout in _LAYOUTS}


class GroupRecords:
    """The codec of all records of the topic, of classic groups as well."""

    def __init__(self) -> None:
        self._classic = ClassicRecords()

    def encode(self, record: AnyGroupRecord, /) -> tuple[bytes, bytes | None]:
        layout = _BY_RECORD.get(type(record))  # type: ignore[arg-type]
        if layout is None:
            return self._classic.encode(record)  # type: ignore[arg-type]
        *names, value = record
        fields = dict(zip(layout.key_fields, names, strict=True))
        key = _VERSION.pack(layout.number) + encode(layout.key(**fields), layout.number)
        if value is None:
            return key, None
        return key, _VERSION.pack(_VALUE_VERSION) + encode(value, _VALUE_VERSION)

    def decode(self, key: bytes | None, value: bytes | None, /) -> AnyGroupRecord | None:
        classic = self._classic.decode(key, value)
        if classic is not None:
            return classic
        assert key is not None
        layout = _BY_NUMBER.get(int(_VERSION.unpack_from(key)[0]))
        if layout is None:
            return None
        decoded = decode(layout.key, layout.number, key, _VERSION.size)
        names = [getattr(decoded, field) for field in layout.key_fields]
        return layout.record(*names, _decode_value(layout, value))


def _decode_value(layout: _Layout, value: bytes | None) -> Data | None:
    if value is None:
        return None
    if len(value) < _VERSION.size:
        raise ProtocolError("a record of a coordinator has no version")
    (version,) = _VERSION.unpack_from(value)
    if version not in layout.value.versions:
        raise ProtocolError(f"{layout.value.__name__} has no version {version}")
    return decode(layout.value, version, value, _VERSION.size)
