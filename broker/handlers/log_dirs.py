"""DescribeLogDirs and AlterReplicaLogDirs: where the logs of this broker are, how much room they
take, and where they shall be instead."""

from collections.abc import Iterator, Mapping, Set
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.replica_moves import ReplicaMoves
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from odradek.protocol.schema import versions_of
from odradek.protocol.types import TopicPartition
from odradek.storage.directory import LogDirectory
from odradek.storage.files import Files
from odradek.storage.log import Log
from odradek.storage.logs import Logs

UNKNOWN_LAG: Final = -1


class LogDirsHandler:
    def __init__(self, *, logs: Logs, files: Files, moves: ReplicaMoves) -> None:
        self._logs = logs
        self._files = files
        self._moves = moves

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(AlterReplicaLogDirsRequest, versions_of("0-2"), self.alter, not_altered)
        yield Route(DescribeLogDirsRequest, versions_of("0-4"), self.describe, failed)

    def alter(
        self, request: AlterReplicaLogDirsRequest, context: RequestContext
    ) -> AlterReplicaLogDirsResponse:
        """Begin moves; DescribeLogDirs tells how they get on."""
        return _altered({where: self._move(where, path) for where, path in _wishes(request)})

    def _move(self, where: TopicPartition, path: str) -> Errors:
        try:
            self._moves.move(where, path)
        except KafkaError as error:
            return error.error
        return Errors.NONE

    def describe(
        self, request: DescribeLogDirsRequest, context: RequestContext
    ) -> DescribeLogDirsResponse:
        wanted = None
        if request.topics is not None:
            wanted = {
                TopicPartition(topic.topic, partition)
                for topic in request.topics
                for partition in topic.partitions
            }
        return DescribeLogDirsResponse(
            results=[self._describe_one(d, wanted) for d in self._logs.directories]
        )

    def _describe_one(
        self, directory: LogDirectory, wanted: Set[TopicPartition] | None
    ) -> DescribeLogDirsResult:
        if not directory.is_online:
            return DescribeLogDirsResult(
                error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[]
            )
        room = self._files.room(directory.path)
        return DescribeLogDirsResult(
            error_code=0,
            log_dir=directory.path,
            topics=self._topics(directory, wanted),
            total_bytes=room.total_bytes,
            usable_bytes=room.usable_bytes,
        )

    def _topics(
        self, directory: LogDirectory, wanted: Set[TopicPartition] | None
    ) -> list[DescribeLogDirsTopic]:
        topics: dict[str, DescribeLogDirsTopic] = {}
        for where, log in sorted(directory.every_log.items()):
            if wanted is not None and where not in wanted:
                continue
            topic = topics.setdefault(
                where.topic, DescribeLogDirsTopic(name=where.topic, partitions=[])
            )
            is_future = where in directory.futures
            current = self._logs.get(where)
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=where.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(log, current, is_future=is_future),
                    is_future_key=is_future,
                )
            )
        return list(topics.values())


def _lag(log: Log, current: Log | None, *, is_future: bool) -> int:
    """How far a copy is behind its log; a log itself, behind its high watermark."""
    if current is None:
        return UNKNOWN_LAG
    if is_future:
        return current.log_end_offset - log.log_end_offset
    return max(0, log.high_watermark - log.log_end_offset)


def _wishes(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[TopicPartition, str]]:
    for directory in request.dirs:
        for topic in directory.topics:
            for partition in topic.partitions:
                yield TopicPartition(topic.name, partition), directory.path


def _altered(errors: Mapping[TopicPartition, Errors]) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for where, error in errors.items():
        topic = results.setdefault(
            where.topic, AlterReplicaLogDirTopicResult(topic_name=where.topic, partitions=[])
        )
        topic.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=where.partition, error_code=error)
        )
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def not_altered(
    request: AlterReplicaLogDirsRequest, error: KafkaError
) -> AlterReplicaLogDirsResponse:
    return _altered({where: error.error for where, _ in _wishes(request)})


def failed(request: DescribeLogDirsRequest, error: KafkaError) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error.error, results=[])
