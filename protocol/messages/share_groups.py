"""Membership and offsets of share groups (KIP-932)."""

from odradek.protocol.schema import (
    INT32,
    STRING,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    nested,
    string,
    uuid,
)


class ShareGroupHeartbeatRequest(Request, api_key=76, versions="0-1", flexible="0+"):
    """Join, stay in and leave a share group."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(STRING, nullable="0+", default=None)


class ShareGroupHeartbeatTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)


class ShareGroupHeartbeatAssignment(Struct):
    topic_partitions: list[ShareGroupHeartbeatTopicPartitions] = array(
        ShareGroupHeartbeatTopicPartitions
    )


class ShareGroupHeartbeatResponse(Response, api_key=76, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ShareGroupHeartbeatAssignment | None = nested(
        ShareGroupHeartbeatAssignment, nullable="0+", default=None
    )


class ShareGroupDescribeRequest(Request, api_key=77, versions="0-1", flexible="0+"):
    """Ask for state and members of share groups."""

    group_ids: list[str] = array(STRING)
    include_authorized_operations: bool = boolean()


class ShareGroupDescribeTopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(INT32)


class ShareGroupDescribeAssignment(Struct):
    topic_partitions: list[ShareGroupDescribeTopicPartitions] = array(
        ShareGroupDescribeTopicPartitions
    )


class ShareGroupDescribeMember(Struct):
    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    assignment: ShareGroupDescribeAssignment = nested(ShareGroupDescribeAssignment)


class ShareGroupDescribeDescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[ShareGroupDescribeMember] = array(ShareGroupDescribeMember)
    authorized_operations: int = int32(default=-2147483648)


class ShareGroupDescribeResponse(Response, api_key=77, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    groups: list[ShareGroupDescribeDescribedGroup] = array(ShareGroupDescribeDescribedGroup)


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[int] = array(INT32)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(Request, api_key=90, versions="0-1", flexible="0+"):
    """Ask where share partitions start."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup
    )


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64("1+", default=-1)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic
    )
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Response, api_key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup
    )


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64()


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


class AlterShareGroupOffsetsRequest(Request, api_key=91, versions="0", flexible="0+"):
    """Move the start of share partitions."""

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


class AlterShareGroupOffsetsResponse(Response, api_key=91, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()


class DeleteShareGroupOffsetsRequest(Request, api_key=92, versions="0", flexible="0+"):
    """Forget the offsets of topics in a share group."""

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Response, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic
    )
