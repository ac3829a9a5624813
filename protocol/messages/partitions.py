"""Leaders, in-sync replicas and reassignments of partitions."""

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
    int64,
    string,
    uuid,
)
from odradek.protocol.types import NO_ID


class ElectLeadersTopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(INT32)


class ElectLeadersRequest(Request, api_key=43, versions="0-2", flexible="2+"):
    """Elect preferred, or out-of-sync, leaders."""

    election_type: int = int8("1+", default=0)
    topic_partitions: list[ElectLeadersTopicPartitions] | None = array(
        ElectLeadersTopicPartitions, nullable="0+"
    )
    timeout_ms: int = int32(default=60000)


class ElectLeadersPartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[ElectLeadersPartitionResult] = array(ElectLeadersPartitionResult)


class ElectLeadersResponse(Response, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)


class ReassignablePartition(Struct):
    partition_index: int = int32()
    replicas: list[int] | None = array(INT32, nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Request, api_key=45, versions="0-1", flexible="0+"):
    """Begin or cancel moving partitions to other brokers."""

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class ReassignableTopicResponse(Struct):
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Response, api_key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)


class ListPartitionReassignmentsTopics(Struct):
    name: str = string()
    partition_indexes: list[int] = array(INT32)


class ListPartitionReassignmentsRequest(Request, api_key=46, versions="0", flexible="0+"):
    """List partitions that are being moved."""

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32()
    replicas: list[int] = array(INT32)
    adding_replicas: list[int] = array(INT32)
    removing_replicas: list[int] = array(INT32)


class OngoingTopicReassignment(Struct):
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Response, api_key=46, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)


class BrokerState(Struct):
    broker_id: int = int32("3+", default=0)
    broker_epoch: int = int64("3+", default=-1)


class AlterPartitionPartitionData(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(INT32, "0-2", default=[])
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+", default=[])
    leader_recovery_state: int = int8("1+", default=0)
    partition_epoch: int = int32()


class AlterPartitionTopicData(Struct):
    topic_name: str = string("0-1", default="")
    topic_id: bytes = uuid("2+", default=NO_ID)
    partitions: list[AlterPartitionPartitionData] = array(AlterPartitionPartitionData)


class AlterPartitionRequest(Request, api_key=56, versions="0-3", flexible="0+"):
    """Ask the controller to change the in-sync replicas of partitions."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionTopicData] = array(AlterPartitionTopicData)


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(INT32)
    leader_recovery_state: int = int8("1+", default=0)
    partition_epoch: int = int32()


class AlterPartitionResponseTopicData(Struct):
    topic_name: str = string("0-1", default="")
    topic_id: bytes = uuid("2+", default=NO_ID)
    partitions: list[AlterPartitionResponsePartitionData] = array(
        AlterPartitionResponsePartitionData
    )


class AlterPartitionResponse(Response, api_key=56, versions="0-3", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)
