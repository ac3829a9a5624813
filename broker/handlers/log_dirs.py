"""DescribeLogDirs: where the logs of this broker are and how much room they take."""

from collections.abc import Iterator, Mapping, Set

from odradek.broker.context import RequestContext
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.log_dirs import (
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


class LogDirsHandler:
    def __init__(self, *, logs: Logs, files: Files) -> None:
        self._logs = logs
        self._files = files

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(DescribeLogDirsRequest, versions_of("0-4"), self.describe, failed)

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
            topics=_topics(directory.logs, wanted),
            total_bytes=room.total_bytes,
            usable_bytes=room.usable_bytes,
        )


def _topics(
    logs: Mapping[TopicPartition, Log], wanted: Set[TopicPartition] | None
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for where, log in sorted(logs.items()):
        if wanted is not None and where not in wanted:
            continue
        topic = topics.setdefault(
            where.topic, DescribeLogDirsTopic(name=where.topic, partitions=[])
        )
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=where.partition,
                partition_size=log.size_bytes,
                offset_lag=max(0, log.high_watermark - log.log_end_offset),
                is_future_key=False,
            )
        )
    return list(topics.values())


def failed(request: DescribeLogDirsRequest, error: KafkaError) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error.error, results=[])
