"""Transaction markers, and looking at producers and transactions."""

from odradek.protocol.schema import (
    INT32,
    INT64,
    STRING,
    Data,
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
)


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(INT32)


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", default=0)


class WriteTxnMarkersRequest(Request, api_key=27, versions="0-2", flexible="1+"):
    """Write the end of transactions into partitions; coordinator to leaders."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Response, api_key=27, versions="0-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)


class DescribeProducersTopicRequest(Struct):
    name: str = string()
    partition_indexes: list[int] = array(INT32)


class DescribeProducersRequest(Request, api_key=61, versions="0", flexible="0+"):
    """Ask for the producers a partition remembers."""

    topics: list[DescribeProducersTopicRequest] = array(DescribeProducersTopicRequest)


class ProducerState(Struct):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(Response, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    topics: list[TopicResponse] = array(TopicResponse)


class DescribeTransactionsRequest(Request, api_key=65, versions="0", flexible="0+"):
    """Ask for the state of transactions."""

    transactional_ids: list[str] = array(STRING)


class DescribeTransactionsTopicData(Struct):
    topic: str = string()
    partitions: list[int] = array(INT32)


class DescribeTransactionsTransactionState(Struct):
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[DescribeTransactionsTopicData] = array(DescribeTransactionsTopicData)


class DescribeTransactionsResponse(Response, api_key=65, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    transaction_states: list[DescribeTransactionsTransactionState] = array(
        DescribeTransactionsTransactionState
    )


class ListTransactionsRequest(Request, api_key=66, versions="0-2", flexible="0+"):
    """List the transactions this broker coordinates."""

    state_filters: list[str] = array(STRING)
    producer_id_filters: list[int] = array(INT64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class ListTransactionsTransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    unknown_state_filters: list[str] = array(STRING)
    transaction_states: list[ListTransactionsTransactionState] = array(
        ListTransactionsTransactionState
    )


class AllocateProducerIdsRequest(Request, api_key=67, versions="0", flexible="0+"):
    """Reserve a block of producer ids."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Response, api_key=67, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()


class EndTxnMarker(Data, versions="0"):
    """The value of a commit or abort marker."""

    coordinator_epoch: int = int32()
