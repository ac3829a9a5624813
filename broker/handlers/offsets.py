"""ListOffsets and OffsetForLeaderEpoch: where logs begin, end and part."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from odradek.broker.context import RequestContext
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochEpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from odradek.protocol.schema import versions_of
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas
from odradek.storage.log_reading import Isolation, TimestampedOffset

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
# The first version of ListOffsets that may ask for each of these.
_SINCE: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}

NO_OFFSET: Final = -1
_FIRST_VERSION_OF_OFFSET_NOT_AVAILABLE = 5


class Asked(NamedTuple):
    """One question of a ListOffsets request."""

    version: int
    isolation: Isolation
    from_consumer: bool


class OffsetsHandler:
    def __init__(self, *, replicas: Replicas) -> None:
        self._replicas = replicas

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(ListOffsetsRequest, versions_of("0-9"), self.list_offsets, list_failed)
        yield Route(
            OffsetForLeaderEpochRequest,
            versions_of("0-4"),
            self.offset_for_leader_epoch,
            epochs_failed,
        )

    # ListOffsets ----------------------------------------------------------------------------

    def list_offsets(
        self, request: ListOffsetsRequest, context: RequestContext
    ) -> ListOffsetsResponse:
        asked = Asked(
            context.version,
            _isolation(request.replica_id, request.isolation_level),
            request.replica_id < 0,
        )
        twice = _named_twice(request)
        topics = []
        for topic in request.topics:
            results = []
            for wanted in topic.partitions:
                where = TopicPartition(topic.name, wanted.partition_index)
                if where in twice:
                    results.append(_no_offset(wanted, Errors.INVALID_REQUEST))
                else:
                    results.append(self._list_one(where, wanted, asked))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=results))
        return ListOffsetsResponse(topics=topics)

    def _list_one(
        self, where: TopicPartition, wanted: ListOffsetsPartition, asked: Asked
    ) -> ListOffsetsPartitionResponse:
        try:
            partition = self._replicas.hosted(where)
            partition.leading(wanted.current_leader_epoch)
            if asked.version == 0:
                return _old_style(partition, wanted)
            found = self._find(partition, wanted.timestamp, asked)
        except KafkaError as error:
            return _no_offset(wanted, error.error)
        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index,
            error_code=0,
            timestamp=found.timestamp,
            offset=found.offset,
            leader_epoch=found.leader_epoch,
        )

    def _find(self, partition: Partition, timestamp: int, asked: Asked) -> TimestampedOffset:
        if asked.version < _SINCE.get(timestamp, 0) or timestamp < LATEST_TIERED:
            raise KafkaError(Errors.UNSUPPORTED_VERSION)
        log, bounds = partition.log, partition.log.bounds()
        nothing = TimestampedOffset(-1, NO_OFFSET, -1)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            epoch = log.epochs.epoch_for_offset(bounds.log_start)
            return TimestampedOffset(-1, bounds.log_start, epoch)
        if timestamp == LATEST_TIERED:
            return nothing
        end = bounds.upper(asked.isolation)
        if asked.from_consumer:
            _check_caught_up(partition, bounds.high_watermark, asked.version)
        if timestamp == LATEST:
            return TimestampedOffset(-1, end, partition.leader_epoch)
        if timestamp == MAX_TIMESTAMP:
            found = log.latest_timestamp()
        else:
            found = log.offset_for_timestamp(timestamp)
        return nothing if found is None or found.offset >= end else found

    # OffsetForLeaderEpoch -------------------------------------------------------------------

    def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, context: RequestContext
    ) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[self._epoch_end(topic.topic, p) for p in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _epoch_end(
        self, topic: str, wanted: OffsetForLeaderPartition
    ) -> OffsetForLeaderEpochEpochEndOffset:
        result = OffsetForLeaderEpochEpochEndOffset(error_code=0, partition=wanted.partition)
        try:
            partition = self._replicas.hosted(TopicPartition(topic, wanted.partition))
            partition.leading(wanted.current_leader_epoch)
            end = partition.log.end_offset_for_epoch(wanted.leader_epoch)
        except KafkaError as error:
            result.error_code = error.error
            return result
        result.leader_epoch, result.end_offset = end.epoch, end.end_offset
        return result


def _isolation(replica_id: int, isolation_level: int) -> Isolation:
    if replica_id >= 0:
        return Isolation.LOG_END
    return Isolation.LAST_STABLE if isolation_level == 1 else Isolation.HIGH_WATERMARK


def _check_caught_up(partition: Partition, high_watermark: int, version: int) -> None:
    """A new leader does not know yet what was committed before it: its word could go back."""
    if high_watermark >= partition.leading().epoch_start_offset:
        return
    if version < _FIRST_VERSION_OF_OFFSET_NOT_AVAILABLE:
        raise KafkaError(Errors.LEADER_NOT_AVAILABLE)
    raise KafkaError(Errors.OFFSET_NOT_AVAILABLE)


def _named_twice(request: ListOffsetsRequest) -> set[TopicPartition]:
    seen: set[TopicPartition] = set()
    twice: set[TopicPartition] = set()
    for topic in request.topics:
        for partition in topic.partitions:
            where = TopicPartition(topic.name, partition.partition_index)
            (twice if where in seen else seen).add(where)
    return twice


def _old_style(partition: Partition, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    """Version 0 asks for offsets where segments begin that are older than a timestamp."""
    log = partition.log
    starts = [
        (max(segment.base_offset, log.log_start_offset), segment.modified_ms)
        for segment in log.segments
    ]
    offsets = segment_offsets_before(wanted.timestamp, starts, log.high_watermark)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=0,
        old_style_offsets=offsets[: max(0, wanted.max_num_offsets)],
    )


def segment_offsets_before(
    timestamp: int, starts: Iterable[tuple[int, int]], end: int
) -> list[int]:
    """Start offsets of segments last written before `timestamp`, newest first; LATEST adds the
    end, EARLIEST leaves only the first."""
    known = [(offset, written_ms) for offset, written_ms in starts if offset <= end]
    if timestamp == EARLIEST:
        return [known[0][0]] if known else []
    if timestamp == LATEST:
        return list(dict.fromkeys([end, *(offset for offset, _ in reversed(known))]))
    return [offset for offset, written_ms in reversed(known) if written_ms <= timestamp]


def _no_offset(wanted: ListOffsetsPartition, error: Errors) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, error_code=error, offset=NO_OFFSET
    )


def list_failed(request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_no_offset(partition, error.error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def epochs_failed(
    request: OffsetForLeaderEpochRequest, error: KafkaError
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    OffsetForLeaderEpochEpochEndOffset(
                        error_code=error.error, partition=partition.partition
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
