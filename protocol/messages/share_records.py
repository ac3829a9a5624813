"""Reading and acknowledging records in share groups (KIP-932)."""

from collections.abc import Sized

from odradek.protocol.schema import (
    INT8,
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
    nested,
    records,
    string,
    uuid,
)


class ShareFetchAcknowledgementBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(INT8)


class FetchPartition(Struct):
    partition_index: int = int32()
    partition_max_bytes: int = int32("0", default=0)
    acknowledgement_batches: list[ShareFetchAcknowledgementBatch] = array(
        ShareFetchAcknowledgementBatch
    )


class FetchTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


class ShareFetchForgottenTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(INT32)


class ShareFetchRequest(Request, api_key=78, versions="0-2", flexible="0+"):
    """Acquire records in a share session."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    max_records: int = int32("1+", default=0)
    batch_size: int = int32("1+", default=0)
    share_acquire_mode: int = int8("2+", default=0)
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ShareFetchForgottenTopic] = array(ShareFetchForgottenTopic)


class ShareFetchLeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class ShareFetchAcquiredRecords(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class ShareFetchPartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: ShareFetchLeaderIdAndEpoch = nested(ShareFetchLeaderIdAndEpoch)
    records: Sized | None = records(nullable="0")
    acquired_records: list[ShareFetchAcquiredRecords] = array(ShareFetchAcquiredRecords)


class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[ShareFetchPartitionData] = array(ShareFetchPartitionData)


class ShareFetchNodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class ShareFetchResponse(Response, api_key=78, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+", default=0)
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[ShareFetchNodeEndpoint] = array(ShareFetchNodeEndpoint)


class ShareAcknowledgeAcknowledgementBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(INT8)


class AcknowledgePartition(Struct):
    partition_index: int = int32()
    acknowledgement_batches: list[ShareAcknowledgeAcknowledgementBatch] = array(
        ShareAcknowledgeAcknowledgementBatch
    )


class AcknowledgeTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


class ShareAcknowledgeRequest(Request, api_key=79, versions="0-2", flexible="0+"):
    """Accept, release or reject acquired records."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


class ShareAcknowledgeLeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class ShareAcknowledgePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: ShareAcknowledgeLeaderIdAndEpoch = nested(ShareAcknowledgeLeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[ShareAcknowledgePartitionData] = array(ShareAcknowledgePartitionData)


class ShareAcknowledgeNodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class ShareAcknowledgeResponse(Response, api_key=79, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", default=0)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[ShareAcknowledgeNodeEndpoint] = array(ShareAcknowledgeNodeEndpoint)
