"""The server-side consumer group protocol (KIP-848)."""

from odradek.protocol.schema import (
    INT32,
    STRING,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    nested,
    string,
    uuid,
)


class ConsumerGroupHeartbeatTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions="0-1", flexible="0+"):
    """Join, stay in and leave a group, and learn what one owns."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(STRING, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] | None = array(
        ConsumerGroupHeartbeatTopicPartitions, nullable="0+", default=None
    )


class ConsumerGroupHeartbeatAssignment(Struct):
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] = array(
        ConsumerGroupHeartbeatTopicPartitions
    )


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatAssignment | None = nested(
        ConsumerGroupHeartbeatAssignment, nullable="0+", default=None
    )


class ConsumerGroupDescribeRequest(Request, api_key=69, versions="0-1", flexible="0+"):
    """Ask for state and members of KIP-848 groups."""

    group_ids: list[str] = array(STRING)
    include_authorized_operations: bool = boolean()


class ConsumerGroupDescribeTopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(INT32)


class ConsumerGroupDescribeAssignment(Struct):
    topic_partitions: list[ConsumerGroupDescribeTopicPartitions] = array(
        ConsumerGroupDescribeTopicPartitions
    )


class ConsumerGroupDescribeMember(Struct):
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: ConsumerGroupDescribeAssignment = nested(ConsumerGroupDescribeAssignment)
    target_assignment: ConsumerGroupDescribeAssignment = nested(ConsumerGroupDescribeAssignment)
    member_type: int = int8("1+", default=-1)


class ConsumerGroupDescribeDescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[ConsumerGroupDescribeMember] = array(ConsumerGroupDescribeMember)
    authorized_operations: int = int32(default=-2147483648)


class ConsumerGroupDescribeResponse(Response, api_key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    groups: list[ConsumerGroupDescribeDescribedGroup] = array(ConsumerGroupDescribeDescribedGroup)
