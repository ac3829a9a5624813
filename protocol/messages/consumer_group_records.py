"""What the KIP-848 coordinator writes to `__consumer_offsets`.

The version of a key is its record type.
"""

from odradek.protocol.schema import (
    INT32,
    STRING,
    Data,
    Struct,
    array,
    blob,
    int8,
    int32,
    int64,
    nested,
    string,
    uuid,
)


class ConsumerGroupPartitionMetadataKey(Data, versions="4"):
    """Record type 4."""

    group_id: str = string()


class ConsumerGroupPartitionMetadataPartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array(STRING)


class ConsumerGroupPartitionMetadataTopicMetadata(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[ConsumerGroupPartitionMetadataPartitionMetadata] = array(
        ConsumerGroupPartitionMetadataPartitionMetadata
    )


class ConsumerGroupPartitionMetadataValue(Data, versions="0", flexible="0+"):
    """The subscribed topics as last seen."""

    topics: list[ConsumerGroupPartitionMetadataTopicMetadata] = array(
        ConsumerGroupPartitionMetadataTopicMetadata
    )


class ConsumerGroupMetadataKey(Data, versions="3"):
    """Record type 3."""

    group_id: str = string()


class ConsumerGroupMetadataValue(Data, versions="0", flexible="0+"):
    """The epoch of a group."""

    epoch: int = int32()
    metadata_hash: int = int64(default=0, tag=0)


class ConsumerGroupMemberMetadataKey(Data, versions="5"):
    """Record type 5."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupMemberMetadataClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = blob()


class ConsumerGroupMemberMetadataClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ConsumerGroupMemberMetadataClassicProtocol] = array(
        ConsumerGroupMemberMetadataClassicProtocol
    )


class ConsumerGroupMemberMetadataValue(Data, versions="0", flexible="0+"):
    """What a member subscribes to."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ConsumerGroupMemberMetadataClassicMemberMetadata | None = nested(
        ConsumerGroupMemberMetadataClassicMemberMetadata, nullable="0+", default=None, tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Data, versions="6"):
    """Record type 6."""

    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Data, versions="0", flexible="0+"):
    """The epoch of the target assignment."""

    assignment_epoch: int = int32()


class ConsumerGroupTargetAssignmentMemberKey(Data, versions="7"):
    """Record type 7."""

    group_id: str = string()
    member_id: str = string()


class TargetAssignmentTopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)


class ConsumerGroupTargetAssignmentMemberValue(Data, versions="0", flexible="0+"):
    """What a member shall own."""

    topic_partitions: list[TargetAssignmentTopicPartition] = array(TargetAssignmentTopicPartition)


class ConsumerGroupCurrentMemberAssignmentKey(Data, versions="8"):
    """Record type 8."""

    group_id: str = string()
    member_id: str = string()


class CurrentAssignmentTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)


class ConsumerGroupCurrentMemberAssignmentValue(Data, versions="0", flexible="0+"):
    """What a member owns now."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentAssignmentTopicPartitions] = array(
        CurrentAssignmentTopicPartitions
    )
    partitions_pending_revocation: list[CurrentAssignmentTopicPartitions] = array(
        CurrentAssignmentTopicPartitions
    )


class ConsumerGroupRegularExpressionKey(Data, versions="16"):
    """Record type 16."""

    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Data, versions="0", flexible="0+"):
    """The topics a pattern was resolved to."""

    topics: list[str] = array(STRING)
    version: int = int64()
    timestamp: int = int64()
