"""What a controller tells brokers, and how a broker takes its leave."""

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


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1", default="")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(INT32)
    partition_epoch: int = int32()
    replicas: list[int] = array(INT32)
    adding_replicas: list[int] = array(INT32, "3+", default=[])
    removing_replicas: list[int] = array(INT32, "3+", default=[])
    is_new: bool = boolean("1+", default=False)
    leader_recovery_state: int = int8("6+", default=0)


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string("2+", default="")
    topic_id: bytes = uuid("5+", default=NO_ID)
    partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "2+", default=[]
    )


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


class LeaderAndIsrRequest(Request, api_key=4, versions="0-7", flexible="4+"):
    """Make a broker leader or follower of partitions."""

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("7+", default=False)
    controller_epoch: int = int32()
    broker_epoch: int = int64("2+", default=-1)
    type: int = int8("5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1", default=[]
    )
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+", default=[])
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4", default="")
    partition_index: int = int32()
    error_code: int = int16()


class LeaderAndIsrTopicError(Struct):
    topic_id: bytes = uuid("5+", default=NO_ID)
    partition_errors: list[LeaderAndIsrPartitionError] = array(
        LeaderAndIsrPartitionError, "5+", default=[]
    )


class LeaderAndIsrResponse(Response, api_key=4, versions="0-7", flexible="4+"):
    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(
        LeaderAndIsrPartitionError, "0-4", default=[]
    )
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+", default=[])


class StopReplicaPartitionV0(Struct):
    topic_name: str = string("0", default="")
    partition_index: int = int32("0", default=0)


class StopReplicaTopicV1(Struct):
    name: str = string("1-2", default="")
    partition_indexes: list[int] = array(INT32, "1-2", default=[])


class StopReplicaPartitionState(Struct):
    partition_index: int = int32("3+", default=0)
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+", default=False)


class StopReplicaTopicState(Struct):
    topic_name: str = string("3+", default="")
    partition_states: list[StopReplicaPartitionState] = array(
        StopReplicaPartitionState, "3+", default=[]
    )


class StopReplicaRequest(Request, api_key=5, versions="0-4", flexible="2+"):
    """Make a broker stop, and perhaps delete, replicas."""

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("4+", default=False)
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1)
    delete_partitions: bool = boolean("0-2", default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(
        StopReplicaPartitionV0, "0", default=[]
    )
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2", default=[])
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+", default=[])


class StopReplicaPartitionError(Struct):
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


class StopReplicaResponse(Response, api_key=5, versions="0-4", flexible="2+"):
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4", default="")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(INT32)
    zk_version: int = int32()
    replicas: list[int] = array(INT32)
    offline_replicas: list[int] = array(INT32, "4+", default=[])


class UpdateMetadataTopicState(Struct):
    topic_name: str = string("5+", default="")
    topic_id: bytes = uuid("7+", default=NO_ID)
    partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "5+", default=[]
    )


class UpdateMetadataEndpoint(Struct):
    port: int = int32("1+", default=0)
    host: str = string("1+", default="")
    listener: str = string("3+", default="")
    security_protocol: int = int16("1+", default=0)


class UpdateMetadataBroker(Struct):
    id: int = int32()
    v0_host: str = string("0", default="")
    v0_port: int = int32("0", default=0)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", default=[])
    rack: str | None = string("2+", nullable="0+", default=None)


class UpdateMetadataRequest(Request, api_key=6, versions="0-8", flexible="6+"):
    """Give a broker the picture of the cluster its clients ask it for."""

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+", default=False)
    type: int = int8("8+", default=0, tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4", default=[]
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+", default=[])
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


class UpdateMetadataResponse(Response, api_key=6, versions="0-8", flexible="6+"):
    error_code: int = int16()


class ControlledShutdownRequest(Request, api_key=7, versions="0-3", flexible="3+"):
    """Ask the controller to move leaders away before a broker stops."""

    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1)


class RemainingPartition(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Response, api_key=7, versions="0-3", flexible="3+"):
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
