"""Where a log begins and ends, and what epoch an offset belongs to."""

from odradek.protocol.schema import (
    INT64,
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
)


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request, api_key=2, versions="0-11", flexible="6+"):
    """Find an offset by timestamp, or an end of the log by a negative one."""

    replica_id: int = int32()
    isolation_level: int = int8("2+", default=0)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", default=0)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array(INT64, "0", default=[])
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, api_key=2, versions="0-11", flexible="6+"):
    throttle_time_ms: int = int32("2+", default=0)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)


class OffsetForLeaderPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Request, api_key=23, versions="0-4", flexible="4+"):
    """Ask where a leader epoch ended, to find out where two logs part."""

    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class OffsetForLeaderEpochEpochEndOffset(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderEpochEpochEndOffset] = array(OffsetForLeaderEpochEpochEndOffset)


class OffsetForLeaderEpochResponse(Response, api_key=23, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("2+", default=0)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)


class DeleteRecordsPartition(Struct):
    partition_index: int = int32()
    offset: int = int64()


class DeleteRecordsTopic(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


class DeleteRecordsRequest(Request, api_key=21, versions="0-2", flexible="2+"):
    """Drop the records before an offset."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


class DeleteRecordsTopicResult(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Response, api_key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
