"""Produce: append what a client sends to the partitions this broker leads.

Stage one checks and appends, partition by partition; each partition succeeds or fails for itself.
With acks=0 nothing is ever answered, and an error closes the connection, which is how such a
client learns that its metadata is old. With acks=1 the answer is ready at once. With acks=all it
waits, as stage two, until the high watermark has passed the records or the client's timeout is
over; on a partition with one replica it has passed them already.
"""

import asyncio
from collections.abc import Awaitable, Iterator

from odradek.broker.context import RequestContext
from odradek.broker.flushing import Flusher
from odradek.broker.handlers.new_leaders import endpoints_of
from odradek.broker.handlers.pending_produce import NO_OFFSET, PendingProduce, fail
from odradek.broker.handlers.produce_again import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    ATTRIBUTES_LOW,
    INTERNAL_TOPICS,
    MAGIC_AT,
    ProduceAgain,
)
from odradek.broker.handlers.produce_transactional import TransactionalProduce
from odradek.broker.metadata_cache import MetadataCache, PartitionInfo
from odradek.broker.routes import AnyRoute, Route
from odradek.broker.txn_verification import TxnVerifier
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceBatchIndexAndErrorMessage,
    ProduceLeaderIdAndEpoch,
    ProduceNodeEndpoint,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.records import HEADER_BYTES, MAGIC, TRANSACTIONAL_BIT
from odradek.protocol.schema import versions_of
from odradek.protocol.types import NO_ID, TopicPartition
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas
from odradek.storage.validation import InvalidRecords

# The one client that may write to internal topics, by the name Kafka's admin tools give it.
ADMIN_CLIENT_ID = "__admin_client"

# Errors that end at the leader: others would answer the same request.
_LEADER_MOVED = (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH)


class ProduceHandler:
    def __init__(
        self,
        *,
        replicas: Replicas,
        metadata: MetadataCache,
        flusher: Flusher,
        verifier: TxnVerifier,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._flusher = flusher
        self._loop = loop
        self._transactional = TransactionalProduce(self, verifier, loop)

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(
            ProduceRequest,
            versions_of("0-12"),
            self.produce,
            failure=failed,
            shortcut=ProduceAgain(self._replicas.find, self._loop),
        )

    def produce(
        self, request: ProduceRequest, context: RequestContext
    ) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
        if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
            return failed(request, KafkaError(Errors.INVALID_REQUIRED_ACKS))
        pending = PendingProduce(self._loop)
        if _has_transactional_records(request):
            return self._transactional.produce(request, context, pending)
        topics = [
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    self.append_one(topic, partition, request.acks, context, pending)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        return self.finish(request, context, ProduceResponse(responses=topics), pending)

    def finish(
        self,
        request: ProduceRequest,
        context: RequestContext,
        response: ProduceResponse,
        pending: PendingProduce,
    ) -> ProduceResponse | Awaitable[ProduceResponse] | None:
        """Everything is appended or refused: answer, or wait for what must happen first."""
        if request.acks == ACKS_NONE:
            _hang_up_after_errors(response, context)
            return None
        if pending.has_new_leaders:
            response.node_endpoints = endpoints_of(
                (
                    partition.current_leader.leader_id
                    for topic in response.responses
                    for partition in topic.partition_responses
                    if partition.current_leader is not None
                ),
                self._metadata.view,
                context.listener,
                ProduceNodeEndpoint,
            )
        if pending.unsynced:
            return self._after_flush(pending, response, request.timeout_ms)
        if not pending.waits:
            return response
        return pending.begin(response, request.timeout_ms)

    async def _after_flush(
        self, pending: PendingProduce, response: ProduceResponse, timeout_ms: int
    ) -> ProduceResponse:
        """flush.messages asks for the disk before the answer."""
        for log, result in pending.unsynced:
            try:
                await self._flusher.flush(log)
            except KafkaError as error:
                fail(result, error.error)
        return await pending.begin(response, timeout_ms)

    def append_one(
        self,
        topic: TopicProduceData,
        data: PartitionProduceData,
        acks: int,
        context: RequestContext,
        pending: PendingProduce,
    ) -> PartitionProduceResponse:
        try:
            partition = self.find(topic, data.index, context)
            info = partition.append(data.records or b"", acks=acks, produce_version=context.version)
        except KafkaError as error:
            return self.refused(topic, data.index, error, pending)
        result = PartitionProduceResponse(
            index=data.index,
            error_code=0,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time_ms,
            log_start_offset=info.log_start_offset,
        )
        log = partition.log
        if log.unflushed_records >= log.config.flush_messages:
            pending.unsynced.append((log, result))
        if acks == ACKS_ALL and log.high_watermark <= info.last_offset:
            pending.add(partition, info.last_offset + 1, result)
        return result

    def find(self, topic: TopicProduceData, index: int, context: RequestContext) -> Partition:
        name = topic.name
        if topic.topic_id != NO_ID:
            info = self._metadata.view.topic("", topic.topic_id)
            if info is None:
                raise KafkaError(Errors.UNKNOWN_TOPIC_ID)
            name = info.name
        if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
            raise KafkaError(Errors.INVALID_TOPIC_EXCEPTION, f"{name} is written by the broker")
        return self._replicas.hosted(TopicPartition(name, index))

    def refused(
        self, topic: TopicProduceData, index: int, error: KafkaError, pending: PendingProduce
    ) -> PartitionProduceResponse:
        result = PartitionProduceResponse(
            index=index,
            error_code=error.error,
            base_offset=NO_OFFSET,
            error_message=error.message,
        )
        if isinstance(error, InvalidRecords):
            result.record_errors = [
                ProduceBatchIndexAndErrorMessage(
                    batch_index=record.batch_index, batch_index_error_message=record.message
                )
                for record in error.record_errors
            ]
        if error.error in _LEADER_MOVED:
            known = self._partition_info(topic, index)
            if known is not None:
                pending.has_new_leaders = True
                result.current_leader = ProduceLeaderIdAndEpoch(
                    leader_id=known.leader, leader_epoch=known.leader_epoch
                )
        return result

    def _partition_info(self, topic: TopicProduceData, index: int) -> PartitionInfo | None:
        info = self._metadata.view.topic(topic.name, topic.topic_id)
        return None if info is None else info.partitions.get(index)


def _has_transactional_records(request: ProduceRequest) -> bool:
    """Told by the batches themselves: what the request says of itself is only a claim. Old message
    sets have other things at that place, and know no transactions."""
    for topic in request.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if (
                records
                and len(records) >= HEADER_BYTES
                and records[MAGIC_AT] == MAGIC
                and records[ATTRIBUTES_LOW] & TRANSACTIONAL_BIT
            ):
                return True
    return False


def failed(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """The same error for every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition.index,
                        error_code=error.error,
                        base_offset=NO_OFFSET,
                        error_message=error.message,
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _hang_up_after_errors(response: ProduceResponse, context: RequestContext) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                error = Errors.of(partition.error_code).name
                where = f"{topic.name}-{partition.index}"
                context.hang_up(f"produce to {where} with acks=0 failed with {error}")
                return
