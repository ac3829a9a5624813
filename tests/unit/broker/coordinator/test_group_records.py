"""The records are Kafka's to the byte: keys of type 1 and 2, values of version 3 and 1."""

import pytest
from odradek.broker.coordinator.group_records import (
    ClassicRecord,
    ClassicRecords,
    GroupRecord,
    OffsetRecord,
)
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.group_records import (
    GroupMetadataMemberMetadata,
    GroupMetadataValue,
    OffsetCommitValue,
)
from odradek.protocol.types import TopicPartition

CODEC = ClassicRecords()
OFFSET_KEY = bytes.fromhex("00010001670002747400000003")
GROUP_KEY = bytes.fromhex("0002000167")
WHERE = TopicPartition("tt", 3)
VALUE = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)


def test_an_offset_is_written_in_version_3() -> None:
    assert CODEC.encode(OffsetRecord("g", WHERE, VALUE)) == (
        OFFSET_KEY,
        bytes.fromhex("000300000000000000050000000200016d0000000000000009"),
    )


def test_an_offset_with_a_retention_time_is_written_in_version_1() -> None:
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=9, expire_timestamp=10)
    assert CODEC.encode(OffsetRecord("g", WHERE, value)) == (
        OFFSET_KEY,
        bytes.fromhex("0001000000000000000500000000000000000009000000000000000a"),
    )


def test_a_group_is_written_in_version_3() -> None:
    member = GroupMetadataMemberMetadata(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout=1,
        session_timeout=2,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=7,
        members=[member],
    )
    assert CODEC.encode(GroupRecord("g", value)) == (
        GROUP_KEY,
        bytes.fromhex("0003" "0008") + b"consumer" + bytes.fromhex("00000004" "0005") + b"range"
        + bytes.fromhex("0001" "6d" "0000000000000007" "00000001")
        + bytes.fromhex("0001" "6d" "ffff" "0001" "63" "0002" "2f68" "00000001" "00000002")
        + bytes.fromhex("00000001" "73" "00000001" "61"),
    )  # fmt: skip


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol=None, leader=None, members=[]
    )
    _, written = CODEC.encode(GroupRecord("g", value))
    assert written is not None
    assert written[12:20] == bytes.fromhex("00000001ffffffff")


def test_tombstones_have_no_value() -> None:
    assert CODEC.encode(OffsetRecord("g", WHERE, None)) == (OFFSET_KEY, None)
    assert CODEC.encode(GroupRecord("g", None)) == (GROUP_KEY, None)


@pytest.mark.parametrize(
    "record",
    [
        OffsetRecord("g", WHERE, VALUE),
        OffsetRecord("g", WHERE, None),
        GroupRecord("g", None),
    ],
)
def test_what_is_written_is_read(record: ClassicRecord) -> None:
    read = CODEC.decode(*CODEC.encode(record))
    assert read == record


def test_old_versions_are_read() -> None:
    key = bytes.fromhex("00000001670002747400000003")
    value = bytes.fromhex("0000000000000000000500016d0000000000000009")
    read = CODEC.decode(key, value)
    assert isinstance(read, OffsetRecord)
    assert read.value is not None
    assert (read.value.offset, read.value.leader_epoch, read.value.metadata) == (5, -1, "m")


def test_keys_of_other_coordinators_are_not_ours() -> None:
    assert CODEC.decode(b"\x00\x03\x00\x01g", b"\x00\x00") is None


@pytest.mark.parametrize("key", [None, b"", b"\x00", b"\x00\x01\x00\x05g"])
def test_broken_keys_are_named_as_such(key: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        CODEC.decode(key, b"\x00\x03")


def test_values_of_an_unknown_version_are_named_as_such() -> None:
    with pytest.raises(ProtocolError):
        CODEC.decode(OFFSET_KEY, b"\x00\x09")
