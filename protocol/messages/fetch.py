"""Reading records: Fetch, by consumers and by followers."""

from collections.abc import Sized

from odradek.protocol.schema import (
    INT32,
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid,
)
from odradek.protocol.types import NO_ID


class FetchReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", default=NO_ID, tag=0)
    high_watermark: int = int64("18+", default=9223372036854775807, tag=1)


class FetchTopic(Struct):
    topic: str = string("0-12", default="")
    topic_id: bytes = uuid("13+", default=NO_ID)
    partitions: list[FetchPartition] = array(FetchPartition)


class FetchForgottenTopic(Struct):
    topic: str = string("7-12", default="")
    topic_id: bytes = uuid("13+", default=NO_ID)
    partitions: list[int] = array(INT32, "7+", default=[])


class FetchRequest(Request, api_key=1, versions="0-18", flexible="12+"):
    """Read record batches from an offset on, waiting for some if there are none yet."""

    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: FetchReplicaState | None = nested(FetchReplicaState, "15+", default=None, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=2147483647)
    isolation_level: int = int8("4+", default=0)
    session_id: int = int32("7+", default=0)
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[FetchForgottenTopic] = array(FetchForgottenTopic, "7+", default=[])
    rack_id: str = string("11+", default="")


class FetchEpochEndOffset(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class FetchLeaderIdAndEpoch(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class FetchSnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class FetchAbortedTransaction(Struct):
    producer_id: int = int64("4+", default=0)
    first_offset: int = int64("4+", default=0)


class FetchPartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: FetchEpochEndOffset | None = nested(
        FetchEpochEndOffset, "12+", default=None, tag=0
    )
    current_leader: FetchLeaderIdAndEpoch | None = nested(
        FetchLeaderIdAndEpoch, "12+", default=None, tag=1
    )
    snapshot_id: FetchSnapshotId | None = nested(FetchSnapshotId, "12+", default=None, tag=2)
    aborted_transactions: list[FetchAbortedTransaction] | None = array(
        FetchAbortedTransaction, "4+", nullable="4+", default=None
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Sized | None = records(nullable="0+")


class FetchableTopicResponse(Struct):
    topic: str = string("0-12", default="")
    topic_id: bytes = uuid("13+", default=NO_ID)
    partitions: list[FetchPartitionData] = array(FetchPartitionData)


class FetchNodeEndpoint(Struct):
    node_id: int = int32("16+", default=0)
    host: str = string("16+", default="")
    port: int = int32("16+", default=0)
    rack: str | None = string("16+", nullable="16+", default=None)


class FetchResponse(Response, api_key=1, versions="0-18", flexible="12+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("7+", default=0)
    session_id: int = int32("7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[FetchNodeEndpoint] = array(FetchNodeEndpoint, "16+", default=[], tag=0)
