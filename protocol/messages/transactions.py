"""Producer ids and transactions, as producers use them."""

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
    string,
)


class InitProducerIdRequest(Request, api_key=22, versions="0-6", flexible="2+"):
    """Get a producer id and epoch; fences older holders of the transactional id."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+", default=False)
    keep_prepared_txn: bool = boolean("6+", default=False)


class InitProducerIdResponse(Response, api_key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


class AddPartitionsToTxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array(INT32)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string("4+", default="")
    producer_id: int = int64("4+", default=0)
    producer_epoch: int = int16("4+", default=0)
    verify_only: bool = boolean("4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+", default=[])


class AddPartitionsToTxnRequest(Request, api_key=24, versions="0-5", flexible="3+"):
    """Make partitions part of a transaction; from v4 on, between brokers."""

    transactions: list[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, "4+", default=[]
    )
    v3_and_below_transactional_id: str = string("0-3", default="")
    v3_and_below_producer_id: int = int64("0-3", default=0)
    v3_and_below_producer_epoch: int = int16("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, "0-3", default=[]
    )


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string("4+", default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "4+", default=[]
    )


class AddPartitionsToTxnResponse(Response, api_key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("4+", default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, "4+", default=[]
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3", default=[]
    )


class AddOffsetsToTxnRequest(Request, api_key=25, versions="0-4", flexible="3+"):
    """Make the offsets of a group part of a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()


class EndTxnRequest(Request, api_key=26, versions="0-5", flexible="3+"):
    """Commit or abort a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Response, api_key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Request, api_key=28, versions="0-5", flexible="3+"):
    """Commit group offsets inside a transaction."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Response, api_key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32(default=0)
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
