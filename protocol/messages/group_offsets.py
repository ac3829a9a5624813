"""The committed offsets of groups."""

from odradek.protocol.schema import (
    INT32,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uuid,
)
from odradek.protocol.types import NO_ID


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = string("0-9", default="")
    topic_id: bytes = uuid("10+", default=NO_ID)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


class OffsetCommitRequest(Request, api_key=8, versions="0-10", flexible="8+"):
    """Store how far a group has read."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1)
    member_id: str = string("1+", default="")
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Struct):
    name: str = string("0-9", default="")
    topic_id: bytes = uuid("10+", default=NO_ID)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


class OffsetCommitResponse(Response, api_key=8, versions="0-10", flexible="8+"):
    throttle_time_ms: int = int32("3+", default=0)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)


class OffsetFetchRequestTopic(Struct):
    name: str = string("0-7", default="")
    partition_indexes: list[int] = array(INT32, "0-7", default=[])


class OffsetFetchRequestTopics(Struct):
    name: str = string("8-9", default="")
    topic_id: bytes = uuid("10+", default=NO_ID)
    partition_indexes: list[int] = array(INT32, "8+", default=[])


class OffsetFetchRequestGroup(Struct):
    group_id: str = string("8+", default="")
    member_id: str | None = string("9+", nullable="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, "8+", nullable="8+", default=None
    )


class OffsetFetchRequest(Request, api_key=9, versions="0-10", flexible="6+"):
    """Ask how far groups have read."""

    group_id: str = string("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7", default=None
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+", default=[])
    require_stable: bool = boolean("7+", default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32("0-7", default=0)
    committed_offset: int = int64("0-7", default=0)
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string("0-7", nullable="0-7", default=None)
    error_code: int = int16("0-7", default=0)


class OffsetFetchResponseTopic(Struct):
    name: str = string("0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = array(
        OffsetFetchResponsePartition, "0-7", default=[]
    )


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32("8+", default=0)
    committed_offset: int = int64("8+", default=0)
    committed_leader_epoch: int = int32("8+", default=-1)
    metadata: str | None = string("8+", nullable="8+", default=None)
    error_code: int = int16("8+", default=0)


class OffsetFetchResponseTopics(Struct):
    name: str = string("8-9", default="")
    topic_id: bytes = uuid("10+", default=NO_ID)
    partitions: list[OffsetFetchResponsePartitions] = array(
        OffsetFetchResponsePartitions, "8+", default=[]
    )


class OffsetFetchResponseGroup(Struct):
    group_id: str = string("8+", default="")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+", default=[])
    error_code: int = int16("8+", default=0)


class OffsetFetchResponse(Response, api_key=9, versions="0-10", flexible="6+"):
    throttle_time_ms: int = int32("3+", default=0)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7", default=[])
    error_code: int = int16("2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+", default=[])


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32()


class OffsetDeleteRequestTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Request, api_key=47, versions="0"):
    """Forget committed offsets of a group."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Response, api_key=47, versions="0"):
    error_code: int = int16()
    throttle_time_ms: int = int32(default=0)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
