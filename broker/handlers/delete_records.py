"""DeleteRecords: raise where logs begin, and answer when every replica that lives has done so.

Followers hear of it by their next fetch, and tell with the one after that where they begin now.
Until then a new leader could still show the records, so the answer waits, as long as the client
allows. Files go later, with the next look at retention.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.protocol.schema import versions_of
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas

NO_OFFSET: Final = -1
HIGH_WATERMARK: Final = -1


class DeleteRecordsHandler:
    def __init__(
        self,
        *,
        replicas: Replicas,
        live_brokers: Callable[[], list[int]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._replicas = replicas
        self._live_brokers = live_brokers
        self._loop = loop

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(DeleteRecordsRequest, versions_of("0-2"), self.delete_records, failed)

    def delete_records(
        self, request: DeleteRecordsRequest, context: RequestContext
    ) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
        waits: list[_Wait] = []
        response = DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[self._delete(topic.name, p, waits) for p in topic.partitions],
                )
                for topic in request.topics
            ]
        )
        if not waits:
            return response
        return self._when_done(response, waits, max(0, request.timeout_ms) / 1000)

    def _delete(
        self, topic: str, wanted: DeleteRecordsPartition, waits: "list[_Wait]"
    ) -> DeleteRecordsPartitionResult:
        result = DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=NO_OFFSET, error_code=0
        )
        try:
            partition = self._replicas.hosted(TopicPartition(topic, wanted.partition_index))
            offset = _raise_log_start(partition, wanted.offset)
            wait = _Wait(partition, offset, result, self._live_brokers)
            if not wait.is_decided():
                waits.append(wait)
        except KafkaError as error:
            result.error_code = error.error
        return result

    async def _when_done(
        self, response: DeleteRecordsResponse, waits: "list[_Wait]", timeout_seconds: float
    ) -> DeleteRecordsResponse:
        futures = [wait.begin(self._loop) for wait in waits]
        _, late = await asyncio.wait(futures, timeout=timeout_seconds)
        for wait, future in zip(waits, futures, strict=True):
            if future in late:
                wait.end()
        return response


def _raise_log_start(partition: Partition, wanted: int) -> int:
    """Where the log begins now."""
    partition.leading()
    log = partition.log
    if not log.config.has_retention:
        topic = partition.where.topic
        raise KafkaError(Errors.POLICY_VIOLATION, f"the cleanup.policy of {topic} deletes nothing")
    offset = log.high_watermark if wanted == HIGH_WATERMARK else wanted
    if offset < 0:
        raise KafkaError(Errors.OFFSET_OUT_OF_RANGE)
    log.advance_log_start(offset)
    return offset


class _Wait:
    """One partition whose replicas have yet to follow."""

    def __init__(
        self,
        partition: Partition,
        offset: int,
        result: DeleteRecordsPartitionResult,
        live_brokers: Callable[[], list[int]],
    ) -> None:
        self._partition = partition
        self._offset = offset
        self._result = result
        self._live_brokers = live_brokers

    def is_decided(self) -> bool:
        """Whether the answer is known; then it is noted."""
        try:
            leader = self._partition.leading()
        except KafkaError as error:
            self._result.error_code = error.error
            return True
        low = leader.low_watermark(self._partition.log.log_start_offset, self._live_brokers())
        if low < self._offset:
            return False
        self._result.low_watermark = low
        return True

    def begin(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = loop.create_future()
        self._park(done)
        return done

    def _park(self, done: "asyncio.Future[None]") -> None:
        self._parked = self._partition.start_waiters.park(self._offset, partial(self._look, done))

    def _look(self, done: "asyncio.Future[None]") -> None:
        if done.done():
            return
        if self.is_decided():
            done.set_result(None)
        else:
            self._park(done)

    def end(self) -> None:
        """The time is over."""
        self._parked.cancel()
        if not self.is_decided():
            self._result.error_code = Errors.REQUEST_TIMED_OUT


def failed(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=NO_OFFSET,
                        error_code=error.error,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
