"""Leadership and voters of a KRaft quorum; declared for completeness, not served."""

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
    nested,
    string,
    uint16,
    uuid,
)
from odradek.protocol.types import NO_ID


class VotePartitionData(Struct):
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("1+", default=NO_ID)
    voter_directory_id: bytes = uuid("1+", default=NO_ID)
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean("2+", default=False)


class VoteTopicData(Struct):
    topic_name: str = string()
    partitions: list[VotePartitionData] = array(VotePartitionData)


class VoteRequest(Request, api_key=52, versions="0-2", flexible="0+"):
    """Ask for a vote."""

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[VoteTopicData] = array(VoteTopicData)


class VoteResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


class VoteResponseTopicData(Struct):
    topic_name: str = string()
    partitions: list[VoteResponsePartitionData] = array(VoteResponsePartitionData)


class VoteNodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class VoteResponse(Response, api_key=52, versions="0-2", flexible="0+"):
    error_code: int = int16()
    topics: list[VoteResponseTopicData] = array(VoteResponseTopicData)
    node_endpoints: list[VoteNodeEndpoint] = array(VoteNodeEndpoint, "1+", default=[], tag=0)


class BeginQuorumEpochPartitionData(Struct):
    partition_index: int = int32()
    voter_directory_id: bytes = uuid("1+", default=NO_ID)
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochTopicData(Struct):
    topic_name: str = string()
    partitions: list[BeginQuorumEpochPartitionData] = array(BeginQuorumEpochPartitionData)


class LeaderEndpoint(Struct):
    name: str = string("1+", default="")
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class BeginQuorumEpochRequest(Request, api_key=53, versions="0-1", flexible="1+"):
    """Announce a new leader."""

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[BeginQuorumEpochTopicData] = array(BeginQuorumEpochTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", default=[])


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: str = string()
    partitions: list[BeginQuorumEpochResponsePartitionData] = array(
        BeginQuorumEpochResponsePartitionData
    )


class BeginQuorumEpochNodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class BeginQuorumEpochResponse(Response, api_key=53, versions="0-1", flexible="1+"):
    error_code: int = int16()
    topics: list[BeginQuorumEpochResponseTopicData] = array(BeginQuorumEpochResponseTopicData)
    node_endpoints: list[BeginQuorumEpochNodeEndpoint] = array(
        BeginQuorumEpochNodeEndpoint, "1+", default=[], tag=0
    )


class ReplicaInfo(Struct):
    candidate_id: int = int32("1+", default=0)
    candidate_directory_id: bytes = uuid("1+", default=NO_ID)


class EndQuorumEpochPartitionData(Struct):
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(INT32, "0", default=[])
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+", default=[])


class EndQuorumEpochTopicData(Struct):
    topic_name: str = string()
    partitions: list[EndQuorumEpochPartitionData] = array(EndQuorumEpochPartitionData)


class EndQuorumEpochRequest(Request, api_key=54, versions="0-1", flexible="1+"):
    """Give up leadership."""

    cluster_id: str | None = string(nullable="0+", default=None)
    topics: list[EndQuorumEpochTopicData] = array(EndQuorumEpochTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", default=[])


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: str = string()
    partitions: list[EndQuorumEpochResponsePartitionData] = array(
        EndQuorumEpochResponsePartitionData
    )


class EndQuorumEpochNodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class EndQuorumEpochResponse(Response, api_key=54, versions="0-1", flexible="1+"):
    error_code: int = int16()
    topics: list[EndQuorumEpochResponseTopicData] = array(EndQuorumEpochResponseTopicData)
    node_endpoints: list[EndQuorumEpochNodeEndpoint] = array(
        EndQuorumEpochNodeEndpoint, "1+", default=[], tag=0
    )


class DescribeQuorumPartitionData(Struct):
    partition_index: int = int32()


class DescribeQuorumTopicData(Struct):
    topic_name: str = string()
    partitions: list[DescribeQuorumPartitionData] = array(DescribeQuorumPartitionData)


class DescribeQuorumRequest(Request, api_key=55, versions="0-2", flexible="0+"):
    """Ask for the state of the quorum."""

    topics: list[DescribeQuorumTopicData] = array(DescribeQuorumTopicData)


class DescribeQuorumReplicaState(Struct):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+", default=NO_ID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default=None)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[DescribeQuorumReplicaState] = array(DescribeQuorumReplicaState)
    observers: list[DescribeQuorumReplicaState] = array(DescribeQuorumReplicaState)


class DescribeQuorumResponseTopicData(Struct):
    topic_name: str = string()
    partitions: list[DescribeQuorumResponsePartitionData] = array(
        DescribeQuorumResponsePartitionData
    )


class DescribeQuorumListener(Struct):
    name: str = string("2+", default="")
    host: str = string("2+", default="")
    port: int = uint16("2+", default=0)


class Node(Struct):
    node_id: int = int32("2+", default=0)
    listeners: list[DescribeQuorumListener] = array(DescribeQuorumListener, "2+", default=[])


class DescribeQuorumResponse(Response, api_key=55, versions="0-2", flexible="0+"):
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default=None)
    topics: list[DescribeQuorumResponseTopicData] = array(DescribeQuorumResponseTopicData)
    nodes: list[Node] = array(Node, "2+", default=[])


class AddRaftVoterListener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(Request, api_key=80, versions="0-1", flexible="0+"):
    """Add a voter."""

    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[AddRaftVoterListener] = array(AddRaftVoterListener)
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Response, api_key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class RemoveRaftVoterRequest(Request, api_key=81, versions="0", flexible="0+"):
    """Remove a voter."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


class RemoveRaftVoterResponse(Response, api_key=81, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class UpdateRaftVoterListener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class UpdateRaftVoterRequest(Request, api_key=82, versions="0", flexible="0+"):
    """Update the endpoints of a voter."""

    cluster_id: str | None = string(nullable="0+")
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[UpdateRaftVoterListener] = array(UpdateRaftVoterListener)
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature)


class UpdateRaftVoterCurrentLeader(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string()
    port: int = int32()


class UpdateRaftVoterResponse(Response, api_key=82, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    current_leader: UpdateRaftVoterCurrentLeader | None = nested(
        UpdateRaftVoterCurrentLeader, default=None, tag=0
    )
