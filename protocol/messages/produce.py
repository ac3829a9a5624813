"""Writing records: Produce."""

from odradek.protocol.schema import (
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
    uuid,
)
from odradek.protocol.types import NO_ID

Buffer = bytes | bytearray | memoryview


class PartitionProduceData(Struct):
    index: int = int32()
    # A writable view of the frame, where it was decoded from one: offsets are stamped in place.
    records: Buffer | None = records(nullable="0+")


class TopicProduceData(Struct):
    name: str = string("0-12", default="")
    topic_id: bytes = uuid("13+", default=NO_ID)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Request, api_key=0, versions="0-13", flexible="9+"):
    """Append record batches to partitions this broker leads."""

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class ProduceBatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+", default=0)
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class ProduceLeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[ProduceBatchIndexAndErrorMessage] = array(
        ProduceBatchIndexAndErrorMessage, "8+", default=[]
    )
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: ProduceLeaderIdAndEpoch | None = nested(
        ProduceLeaderIdAndEpoch, "10+", default=None, tag=0
    )


class TopicProduceResponse(Struct):
    name: str = string("0-12", default="")
    topic_id: bytes = uuid("13+", default=NO_ID)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class ProduceNodeEndpoint(Struct):
    node_id: int = int32("10+", default=0)
    host: str = string("10+", default="")
    port: int = int32("10+", default=0)
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Response, api_key=0, versions="0-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+", default=0)
    node_endpoints: list[ProduceNodeEndpoint] = array(ProduceNodeEndpoint, "10+", default=[], tag=0)
