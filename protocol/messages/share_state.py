"""Share-partition state, between brokers (KIP-932)."""

from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class InitializeShareGroupStatePartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[InitializeShareGroupStatePartitionData] = array(
        InitializeShareGroupStatePartitionData
    )


class InitializeShareGroupStateRequest(Request, api_key=83, versions="0", flexible="0+"):
    """Begin the state of share partitions."""

    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class InitializeShareGroupStatePartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class InitializeStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[InitializeShareGroupStatePartitionResult] = array(
        InitializeShareGroupStatePartitionResult
    )


class InitializeShareGroupStateResponse(Response, api_key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult] = array(InitializeStateResult)


class ReadShareGroupStatePartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStatePartitionData] = array(ReadShareGroupStatePartitionData)


class ReadShareGroupStateRequest(Request, api_key=84, versions="0", flexible="0+"):
    """Read the state of share partitions."""

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class ReadShareGroupStateStateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ReadShareGroupStatePartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[ReadShareGroupStateStateBatch] = array(ReadShareGroupStateStateBatch)


class ReadShareGroupStateReadStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStatePartitionResult] = array(ReadShareGroupStatePartitionResult)


class ReadShareGroupStateResponse(Response, api_key=84, versions="0", flexible="0+"):
    results: list[ReadShareGroupStateReadStateResult] = array(ReadShareGroupStateReadStateResult)


class WriteShareGroupStateStateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class WriteShareGroupStatePartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)
    state_batches: list[WriteShareGroupStateStateBatch] = array(WriteShareGroupStateStateBatch)


class WriteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[WriteShareGroupStatePartitionData] = array(WriteShareGroupStatePartitionData)


class WriteShareGroupStateRequest(Request, api_key=85, versions="0-1", flexible="0+"):
    """Write the state of share partitions."""

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class WriteShareGroupStatePartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class WriteShareGroupStateWriteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[WriteShareGroupStatePartitionResult] = array(
        WriteShareGroupStatePartitionResult
    )


class WriteShareGroupStateResponse(Response, api_key=85, versions="0-1", flexible="0+"):
    results: list[WriteShareGroupStateWriteStateResult] = array(
        WriteShareGroupStateWriteStateResult
    )


class DeleteShareGroupStatePartitionData(Struct):
    partition: int = int32()


class DeleteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[DeleteShareGroupStatePartitionData] = array(DeleteShareGroupStatePartitionData)


class DeleteShareGroupStateRequest(Request, api_key=86, versions="0", flexible="0+"):
    """Delete the state of share partitions."""

    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class DeleteShareGroupStatePartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[DeleteShareGroupStatePartitionResult] = array(
        DeleteShareGroupStatePartitionResult
    )


class DeleteShareGroupStateResponse(Response, api_key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult] = array(DeleteStateResult)


class ReadShareGroupStateSummaryPartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStateSummaryPartitionData] = array(
        ReadShareGroupStateSummaryPartitionData
    )


class ReadShareGroupStateSummaryRequest(Request, api_key=87, versions="0-1", flexible="0+"):
    """Read only where share partitions start."""

    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class ReadShareGroupStateSummaryPartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReadShareGroupStateSummaryPartitionResult] = array(
        ReadShareGroupStateSummaryPartitionResult
    )


class ReadShareGroupStateSummaryResponse(Response, api_key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
