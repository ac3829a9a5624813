"""The metadata log of a KRaft quorum; declared for completeness, not served."""

from collections.abc import Sized

from odradek.protocol.schema import (
    Data,
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uint16,
    uuid,
)
from odradek.protocol.types import NO_ID


class FetchSnapshotSnapshotId(Struct):
    end_offset: int = int64()
    epoch: int = int32()


class FetchSnapshotPartitionSnapshot(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: FetchSnapshotSnapshotId = nested(FetchSnapshotSnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid("1+", default=NO_ID, tag=0)


class FetchSnapshotTopicSnapshot(Struct):
    name: str = string()
    partitions: list[FetchSnapshotPartitionSnapshot] = array(FetchSnapshotPartitionSnapshot)


class FetchSnapshotRequest(Request, api_key=59, versions="0-1", flexible="0+"):
    """Read a piece of a snapshot."""

    cluster_id: str | None = string(nullable="0+", default=None, tag=0)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=2147483647)
    topics: list[FetchSnapshotTopicSnapshot] = array(FetchSnapshotTopicSnapshot)


class FetchSnapshotLeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: int = int32()
    error_code: int = int16()
    snapshot_id: FetchSnapshotSnapshotId = nested(FetchSnapshotSnapshotId)
    current_leader: FetchSnapshotLeaderIdAndEpoch | None = nested(
        FetchSnapshotLeaderIdAndEpoch, default=None, tag=0
    )
    size: int = int64()
    position: int = int64()
    unaligned_records: Sized = records()


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: str = string()
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = array(
        FetchSnapshotResponsePartitionSnapshot
    )


class FetchSnapshotNodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class FetchSnapshotResponse(Response, api_key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    topics: list[FetchSnapshotResponseTopicSnapshot] = array(FetchSnapshotResponseTopicSnapshot)
    node_endpoints: list[FetchSnapshotNodeEndpoint] = array(
        FetchSnapshotNodeEndpoint, "1+", default=[], tag=0
    )


class LeaderChangeMessageVoter(Struct):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid("1+", default=NO_ID)


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """Control record: a new leader and its voters."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter)
    granting_voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter)


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """Control record: the first of a snapshot."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """Control record: the last of a snapshot."""

    version: int = int16()


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """Control record: the kraft.version in force."""

    version: int = int16()
    kraft_version: int = int16()


class VotersRecordEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class VotersRecordVoter(Struct):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[VotersRecordEndpoint] = array(VotersRecordEndpoint)
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature)


class VotersRecord(Data, versions="0", flexible="0+"):
    """Control record: the set of voters."""

    version: int = int16()
    voters: list[VotersRecordVoter] = array(VotersRecordVoter)
