"""What a cluster looks like to its clients."""

from odradek.protocol.schema import (
    INT32,
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
from odradek.protocol.types import NO_ID


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid("10+", default=NO_ID)
    name: str | None = string(nullable="10+")


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+"):
    """Ask for brokers, topics and who leads their partitions; may create topics."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10", default=False)
    include_topic_authorized_operations: bool = boolean("8+", default=False)


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array(INT32)
    isr_nodes: list[int] = array(INT32)
    offline_replicas: list[int] = array(INT32, "5+", default=[])


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+", default=NO_ID)
    is_internal: bool = boolean("1+", default=False)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+", default=0)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", default=0)


class DescribeClusterRequest(Request, api_key=60, versions="0-2", flexible="0+"):
    """Ask for the brokers, the controller and what one may do to the cluster."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+", default=False)


class DescribeClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+", default=False)


class DescribeClusterResponse(Response, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)


class DescribeTopicPartitionsTopicRequest(Struct):
    name: str = string()


class DescribeTopicPartitionsCursor(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Request, api_key=75, versions="0", flexible="0+"):
    """Ask for the partitions of topics, page by page."""

    topics: list[DescribeTopicPartitionsTopicRequest] = array(DescribeTopicPartitionsTopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: DescribeTopicPartitionsCursor | None = nested(
        DescribeTopicPartitionsCursor, nullable="0+", default=None
    )


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array(INT32)
    isr_nodes: list[int] = array(INT32)
    eligible_leader_replicas: list[int] | None = array(INT32, nullable="0+", default=None)
    last_known_elr: list[int] | None = array(INT32, nullable="0+", default=None)
    offline_replicas: list[int] = array(INT32)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()
    is_internal: bool = boolean(default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2147483648)


class DescribeTopicPartitionsResponse(Response, api_key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: DescribeTopicPartitionsCursor | None = nested(
        DescribeTopicPartitionsCursor, nullable="0+", default=None
    )
