"""WriteTxnMarkers, DescribeProducers, DescribeTransactions and ListTransactions.

The first one comes from the coordinators of other brokers, and from an administrator who ends a
transaction that hangs; the others show what partitions and coordinators know.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.coordinator.transaction import Transaction
from odradek.broker.coordinator.txn_completion import Marker
from odradek.broker.coordinator.txn_coordinator import TransactionCoordinator
from odradek.broker.coordinator.txn_records import by_topic
from odradek.broker.coordinator.txn_states import BY_TITLE
from odradek.broker.handlers.groups_reply import Reply
from odradek.broker.routes import AnyRoute, Route
from odradek.broker.txn_marker_writer import MarkerWriter
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
    PartitionResponse,
    ProducerState,
    TopicResponse,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.records import NO_SEQUENCE
from odradek.protocol.schema import versions_of
from odradek.protocol.types import TopicPartition
from odradek.replication.replicas import Replicas
from odradek.storage.producer_entry import ProducerEntry

_ANY_DURATION: Final = -1


class TransactionsAdminHandler:
    def __init__(
        self,
        *,
        coordinator: TransactionCoordinator,
        writer: MarkerWriter,
        replicas: Replicas,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._coordinator = coordinator
        self._writer = writer
        self._replicas = replicas
        self._clock = clock
        self._loop = loop

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(WriteTxnMarkersRequest, versions_of("0-1"), self.write_markers, write_failed)
        yield Route(
            DescribeProducersRequest, versions_of("0"), self.describe_producers, producers_failed
        )
        yield Route(DescribeTransactionsRequest, versions_of("0"), self.describe, describe_failed)
        yield Route(ListTransactionsRequest, versions_of("0-1"), self.list, list_failed)

    # WriteTxnMarkers ------------------------------------------------------------------------

    def write_markers(
        self, request: WriteTxnMarkersRequest, context: RequestContext
    ) -> WriteTxnMarkersResponse | asyncio.Future[WriteTxnMarkersResponse]:
        reply: Reply[WriteTxnMarkersResponse] = Reply(self._loop)
        response = markers_response(request, Errors.UNKNOWN_SERVER_ERROR)
        wanted = [
            (marker, TopicPartition(topic.name, each.partition_index), each)
            for marker, result in zip(request.markers, response.markers, strict=True)
            for topic in result.topics
            for each in topic.partitions
        ]
        if not wanted:
            return response
        left = len(wanted)

        def written(result: WritableTxnMarkerPartitionResult, error: Errors) -> None:
            nonlocal left
            result.error_code = error
            left -= 1
            if not left:
                reply(response)

        for marker, where, result in wanted:
            end = Marker(
                marker.producer_id,
                marker.producer_epoch,
                marker.transaction_result,
                marker.coordinator_epoch,
            )
            self._writer.write(where, end, partial(written, result))
        return reply.answer()

    # DescribeProducers ----------------------------------------------------------------------

    def describe_producers(
        self, request: DescribeProducersRequest, context: RequestContext
    ) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        self._producers_of(TopicPartition(topic.name, index))
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

    def _producers_of(self, where: TopicPartition) -> PartitionResponse:
        try:
            partition = self._replicas.hosted(where)
            partition.leading()
        except KafkaError as error:
            return _no_producers(where.partition, error)
        return PartitionResponse(
            partition_index=where.partition,
            error_code=0,
            active_producers=[_shown(each) for each in partition.log.producers.entries()],
        )

    # DescribeTransactions -------------------------------------------------------------------

    def describe(
        self, request: DescribeTransactionsRequest, context: RequestContext
    ) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[self._describe_one(each) for each in request.transactional_ids]
        )

    def _describe_one(self, transactional_id: str) -> DescribeTransactionsTransactionState:
        try:
            found = self._coordinator.shard_of(transactional_id).committed(transactional_id)
        except KafkaError as error:
            return _undescribed(transactional_id, error.error)
        if found is None:
            return _undescribed(transactional_id, Errors.TRANSACTIONAL_ID_NOT_FOUND)
        return DescribeTransactionsTransactionState(
            error_code=0,
            transactional_id=transactional_id,
            transaction_state=found.state.title,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.started_ms,
            producer_id=found.producer_id,
            producer_epoch=found.epoch,
            topics=[
                DescribeTransactionsTopicData(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(found.partitions).items()
            ],
        )

    # ListTransactions -----------------------------------------------------------------------

    def list(
        self, request: ListTransactionsRequest, context: RequestContext
    ) -> ListTransactionsResponse:
        if self._coordinator.runtime.is_loading:
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        now_ms = self._clock.now_ms()
        return ListTransactionsResponse(
            error_code=0,
            unknown_state_filters=[name for name in request.state_filters if name not in BY_TITLE],
            transaction_states=[
                ListTransactionsTransactionState(
                    transactional_id=transactional_id,
                    producer_id=found.producer_id,
                    transaction_state=found.state.title,
                )
                for shard in self._coordinator.runtime.active_states()
                for transactional_id, found in shard.all_committed()
                if is_wanted(found, request, now_ms)
            ],
        )


def is_wanted(found: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    """Whether a transaction passes the filters; an empty filter lets all pass."""
    if request.producer_id_filters and found.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and found.state.title not in request.state_filters:
        return False
    if request.duration_filter == _ANY_DURATION:
        return True
    return now_ms - found.started_ms > request.duration_filter


def _shown(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )


def _no_producers(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=error.error,
        error_message=error.message,
        active_producers=[],
    )


def _undescribed(transactional_id: str, error: Errors) -> DescribeTransactionsTransactionState:
    return DescribeTransactionsTransactionState(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def markers_response(request: WriteTxnMarkersRequest, error: Errors) -> WriteTxnMarkersResponse:
    """The same error for every partition."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=error
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def write_failed(request: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    return markers_response(request, error.error)


def producers_failed(
    request: DescribeProducersRequest, error: KafkaError
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_no_producers(index, error) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def describe_failed(
    request: DescribeTransactionsRequest, error: KafkaError
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_undescribed(each, error.error) for each in request.transactional_ids]
    )


def list_failed(request: ListTransactionsRequest, error: KafkaError) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=error.error, unknown_state_filters=[], transaction_states=[]
    )
