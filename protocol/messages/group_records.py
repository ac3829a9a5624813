"""What a classic group coordinator writes to `__consumer_offsets`.

The version of a key is its record type.
"""

from odradek.protocol.schema import Data, Struct, array, blob, int32, int64, string, uuid
from odradek.protocol.types import NO_ID


class OffsetCommitKey(Data, versions="0-1"):
    """Key of a committed offset (record types 0 and 1)."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Data, versions="0-4", flexible="4+"):
    """A committed offset."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", default=NO_ID, tag=0)


class GroupMetadataKey(Data, versions="2"):
    """Key of a classic group (record type 2)."""

    group: str = string()


class GroupMetadataMemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = blob()
    assignment: bytes = blob()


class GroupMetadataValue(Data, versions="0-4", flexible="4+"):
    """A generation of a classic group."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[GroupMetadataMemberMetadata] = array(GroupMetadataMemberMetadata)
