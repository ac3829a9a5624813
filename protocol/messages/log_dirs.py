"""Log directories and the replicas in them."""

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
    uuid,
)


class AlterReplicaLogDirTopic(Struct):
    name: str = string()
    partitions: list[int] = array(INT32)


class AlterReplicaLogDir(Struct):
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Request, api_key=34, versions="0-2", flexible="2+"):
    """Move replicas between log directories of a broker."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(Response, api_key=34, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)


class DescribableLogDirTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(INT32)


class DescribeLogDirsRequest(Request, api_key=35, versions="0-4", flexible="2+"):
    """Ask for log directories, their sizes and replicas."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Struct):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)


class DescribeLogDirsResponse(Response, api_key=35, versions="0-4", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("3+", default=0)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)


class AssignReplicasToDirsPartitionData(Struct):
    partition_index: int = int32()


class AssignReplicasToDirsTopicData(Struct):
    topic_id: bytes = uuid()
    partitions: list[AssignReplicasToDirsPartitionData] = array(AssignReplicasToDirsPartitionData)


class AssignReplicasToDirsDirectoryData(Struct):
    id: bytes = uuid()
    topics: list[AssignReplicasToDirsTopicData] = array(AssignReplicasToDirsTopicData)


class AssignReplicasToDirsRequest(Request, api_key=73, versions="0", flexible="0+"):
    """Tell a KRaft controller which directories hold replicas."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[AssignReplicasToDirsDirectoryData] = array(AssignReplicasToDirsDirectoryData)


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: bytes = uuid()
    partitions: list[AssignReplicasToDirsResponsePartitionData] = array(
        AssignReplicasToDirsResponsePartitionData
    )


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: bytes = uuid()
    topics: list[AssignReplicasToDirsResponseTopicData] = array(
        AssignReplicasToDirsResponseTopicData
    )


class AssignReplicasToDirsResponse(Response, api_key=73, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    directories: list[AssignReplicasToDirsResponseDirectoryData] = array(
        AssignReplicasToDirsResponseDirectoryData
    )
