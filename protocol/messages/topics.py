"""Creating, growing and deleting topics."""

from odradek.protocol.schema import (
    INT32,
    STRING,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)
from odradek.protocol.types import NO_ID


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = array(INT32)


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreateTopicsRequest(Request, api_key=19, versions="0-7", flexible="5+"):
    """Create topics, or only check whether that could be done."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+", default=False)


class CreatableTopicConfigs(Struct):
    name: str = string("5+", default="")
    value: str | None = string("5+", nullable="5+", default=None)
    read_only: bool = boolean("5+", default=False)
    config_source: int = int8("5+", default=-1)
    is_sensitive: bool = boolean("5+", default=False)


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: bytes = uuid("7+", default=NO_ID)
    error_code: int = int16()
    error_message: str | None = string("1+", nullable="0+", default=None)
    topic_config_error_code: int = int16("5+", default=0, tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="5+", default=None
    )


class CreateTopicsResponse(Response, api_key=19, versions="0-7", flexible="5+"):
    throttle_time_ms: int = int32("2+", default=0)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+", default=NO_ID)


class DeleteTopicsRequest(Request, api_key=20, versions="0-6", flexible="4+"):
    """Delete topics by name or id."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+", default=[])
    topic_names: list[str] = array(STRING, "0-5", default=[])
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", default=NO_ID)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Response, api_key=20, versions="0-6", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(INT32)


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


class CreatePartitionsRequest(Request, api_key=37, versions="0-3", flexible="2+"):
    """Give topics more partitions."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
