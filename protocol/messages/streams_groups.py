"""The streams group protocol (KIP-1071)."""

from odradek.protocol.schema import (
    INT16,
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
    int64,
    nested,
    string,
    uint16,
)


class StreamsGroupHeartbeatKeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupHeartbeatTopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[StreamsGroupHeartbeatKeyValue] = array(StreamsGroupHeartbeatKeyValue)


class StreamsGroupHeartbeatCopartitionGroup(Struct):
    source_topics: list[int] = array(INT16)
    source_topic_regex: list[int] = array(INT16)
    repartition_source_topics: list[int] = array(INT16)


class StreamsGroupHeartbeatSubtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(STRING)
    source_topic_regex: list[str] = array(STRING)
    state_changelog_topics: list[StreamsGroupHeartbeatTopicInfo] = array(
        StreamsGroupHeartbeatTopicInfo
    )
    repartition_sink_topics: list[str] = array(STRING)
    repartition_source_topics: list[StreamsGroupHeartbeatTopicInfo] = array(
        StreamsGroupHeartbeatTopicInfo
    )
    copartition_groups: list[StreamsGroupHeartbeatCopartitionGroup] = array(
        StreamsGroupHeartbeatCopartitionGroup
    )


class StreamsGroupHeartbeatTopology(Struct):
    epoch: int = int32()
    subtopologies: list[StreamsGroupHeartbeatSubtopology] = array(StreamsGroupHeartbeatSubtopology)


class StreamsGroupHeartbeatTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(INT32)


class StreamsGroupHeartbeatEndpoint(Struct):
    host: str = string()
    port: int = uint16()


class StreamsGroupHeartbeatTaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupHeartbeatRequest(Request, api_key=88, versions="0", flexible="0+"):
    """Join, stay in and leave a streams group."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: StreamsGroupHeartbeatTopology | None = nested(
        StreamsGroupHeartbeatTopology, nullable="0+", default=None
    )
    active_tasks: list[StreamsGroupHeartbeatTaskIds] | None = array(
        StreamsGroupHeartbeatTaskIds, nullable="0+", default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatTaskIds] | None = array(
        StreamsGroupHeartbeatTaskIds, nullable="0+", default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatTaskIds] | None = array(
        StreamsGroupHeartbeatTaskIds, nullable="0+", default=None
    )
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: StreamsGroupHeartbeatEndpoint | None = nested(
        StreamsGroupHeartbeatEndpoint, nullable="0+", default=None
    )
    client_tags: list[StreamsGroupHeartbeatKeyValue] | None = array(
        StreamsGroupHeartbeatKeyValue, nullable="0+", default=None
    )
    task_offsets: list[StreamsGroupHeartbeatTaskOffset] | None = array(
        StreamsGroupHeartbeatTaskOffset, nullable="0+", default=None
    )
    task_end_offsets: list[StreamsGroupHeartbeatTaskOffset] | None = array(
        StreamsGroupHeartbeatTaskOffset, nullable="0+", default=None
    )
    shutdown_application: bool = boolean(default=False)


class StreamsGroupHeartbeatStatus(Struct):
    status_code: int = int8()
    status_detail: str = string()


class StreamsGroupHeartbeatTopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(INT32)


class EndpointToPartitions(Struct):
    user_endpoint: StreamsGroupHeartbeatEndpoint = nested(StreamsGroupHeartbeatEndpoint)
    active_partitions: list[StreamsGroupHeartbeatTopicPartition] = array(
        StreamsGroupHeartbeatTopicPartition
    )
    standby_partitions: list[StreamsGroupHeartbeatTopicPartition] = array(
        StreamsGroupHeartbeatTopicPartition
    )


class StreamsGroupHeartbeatResponse(Response, api_key=88, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag: int = int32()
    task_offset_interval_ms: int = int32()
    status: list[StreamsGroupHeartbeatStatus] | None = array(
        StreamsGroupHeartbeatStatus, nullable="0+"
    )
    active_tasks: list[StreamsGroupHeartbeatTaskIds] | None = array(
        StreamsGroupHeartbeatTaskIds, nullable="0+", default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatTaskIds] | None = array(
        StreamsGroupHeartbeatTaskIds, nullable="0+", default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatTaskIds] | None = array(
        StreamsGroupHeartbeatTaskIds, nullable="0+", default=None
    )
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable="0+", default=None
    )


class StreamsGroupDescribeRequest(Request, api_key=89, versions="0", flexible="0+"):
    """Ask for state, topology and members of streams groups."""

    group_ids: list[str] = array(STRING)
    include_authorized_operations: bool = boolean()


class StreamsGroupDescribeKeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupDescribeTopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[StreamsGroupDescribeKeyValue] = array(StreamsGroupDescribeKeyValue)


class StreamsGroupDescribeSubtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array(STRING)
    repartition_sink_topics: list[str] = array(STRING)
    state_changelog_topics: list[StreamsGroupDescribeTopicInfo] = array(
        StreamsGroupDescribeTopicInfo
    )
    repartition_source_topics: list[StreamsGroupDescribeTopicInfo] = array(
        StreamsGroupDescribeTopicInfo
    )


class StreamsGroupDescribeTopology(Struct):
    epoch: int = int32()
    subtopologies: list[StreamsGroupDescribeSubtopology] | None = array(
        StreamsGroupDescribeSubtopology, nullable="0+", default=None
    )


class StreamsGroupDescribeEndpoint(Struct):
    host: str = string()
    port: int = uint16()


class StreamsGroupDescribeTaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupDescribeTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array(INT32)


class StreamsGroupDescribeAssignment(Struct):
    active_tasks: list[StreamsGroupDescribeTaskIds] = array(StreamsGroupDescribeTaskIds)
    standby_tasks: list[StreamsGroupDescribeTaskIds] = array(StreamsGroupDescribeTaskIds)
    warmup_tasks: list[StreamsGroupDescribeTaskIds] = array(StreamsGroupDescribeTaskIds)


class StreamsGroupDescribeMember(Struct):
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: StreamsGroupDescribeEndpoint | None = nested(
        StreamsGroupDescribeEndpoint, nullable="0+", default=None
    )
    client_tags: list[StreamsGroupDescribeKeyValue] = array(StreamsGroupDescribeKeyValue)
    task_offsets: list[StreamsGroupDescribeTaskOffset] = array(StreamsGroupDescribeTaskOffset)
    task_end_offsets: list[StreamsGroupDescribeTaskOffset] = array(StreamsGroupDescribeTaskOffset)
    assignment: StreamsGroupDescribeAssignment = nested(StreamsGroupDescribeAssignment)
    target_assignment: StreamsGroupDescribeAssignment = nested(StreamsGroupDescribeAssignment)
    is_classic: bool = boolean()


class StreamsGroupDescribeDescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: StreamsGroupDescribeTopology | None = nested(
        StreamsGroupDescribeTopology, nullable="0+", default=None
    )
    members: list[StreamsGroupDescribeMember] = array(StreamsGroupDescribeMember)
    authorized_operations: int = int32(default=-2147483648)


class StreamsGroupDescribeResponse(Response, api_key=89, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    groups: list[StreamsGroupDescribeDescribedGroup] = array(StreamsGroupDescribeDescribedGroup)
