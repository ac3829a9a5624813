"""Producers and transactions: looked at, fenced, and ended from outside when they hang."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.client.admin_base import AdminBase, Results, check, failure
from odradek.client.assignors import by_topic
from odradek.client.cluster import CoordinatorKind
from odradek.client.identity import transactional_identity
from odradek.client.offsets import ask_leaders
from odradek.client.queue import Identity
from odradek.client.view import Node
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicRequest,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    # Where its open transaction begins in this partition, -1 when it has none.
    transaction_start: int


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    state: str
    timeout_ms: int
    start_ms: int
    identity: Identity
    partitions: tuple[TopicPartition, ...]


class TransactionAdmin(AdminBase):
    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """The producers that partitions remember, with their open transactions."""

        async def ask(
            node: Node, asked: Mapping[TopicPartition, None]
        ) -> dict[TopicPartition, list[ProducerDescription] | Errors]:
            connection = await self._cluster.nodes.connect(node)
            request = DescribeProducersRequest(
                topics=[
                    DescribeProducersTopicRequest(name=name, partition_indexes=indexes)
                    for name, indexes in by_topic(asked).items()
                ]
            )
            answer = await connection.request(request, DescribeProducersResponse)
            found: dict[TopicPartition, list[ProducerDescription] | Errors] = {}
            for topic in answer.topics:
                for row in topic.partitions:
                    partition = TopicPartition(topic.name, row.partition_index)
                    found[partition] = (
                        Errors.of(row.error_code)
                        if row.error_code
                        else [
                            ProducerDescription(
                                state.producer_id,
                                state.producer_epoch,
                                state.last_sequence,
                                state.last_timestamp,
                                state.coordinator_epoch,
                                state.current_txn_start_offset,
                            )
                            for state in row.active_producers
                        ]
                    )
            return found

        asked: dict[TopicPartition, None] = dict.fromkeys(partitions)
        return await ask_leaders(self._cluster, asked, ask, self._timeout_s)

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
    ) -> list[TransactionListing]:
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=longer_than_ms,
        )
        found: list[TransactionListing] = []
        for node, connection in (await self._connections()).items():
            answer = await connection.request(request, ListTransactionsResponse)
            check(answer.error_code)
            found += [
                TransactionListing(
                    row.transactional_id, row.producer_id, row.transaction_state, node
                )
                for row in answer.transaction_states
            ]
        return sorted(found, key=lambda row: row.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> Results[str, TransactionDescription]:
        results: Results[str, TransactionDescription] = {}
        for transactional_id in transactional_ids:
            try:
                results[transactional_id] = await self._describe_transaction(transactional_id)
            except KafkaError as error:
                results[transactional_id] = error
        return results

    async def _describe_transaction(self, transactional_id: str) -> TransactionDescription:
        answer = await self._ask_coordinator(
            CoordinatorKind.TRANSACTION,
            transactional_id,
            DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            DescribeTransactionsResponse,
            lambda a: a.transaction_states[0].error_code,
        )
        row = answer.transaction_states[0]
        return TransactionDescription(
            row.transactional_id,
            row.transaction_state,
            row.transaction_timeout_ms,
            row.transaction_start_time_ms,
            Identity(row.producer_id, row.producer_epoch),
            tuple(TopicPartition(t.topic, index) for t in row.topics for index in t.partitions),
        )

    async def fence_producer(self, transactional_id: str) -> Identity:
        """Shut out whoever holds the transactional id, and abort its open transaction."""
        return await transactional_identity(
            self._cluster, transactional_id, self._timeout_ms, self._timeout_s
        )

    async def abort_transaction(
        self, partition: TopicPartition, identity: Identity, coordinator_epoch: int
    ) -> None:
        """Write an abort marker into one partition: for a transaction that nobody will end."""
        topic = await self._cluster.topic(partition.topic, self._timeout_s)
        marker = WritableTxnMarker(
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            transaction_result=False,
            topics=[
                WritableTxnMarkerTopic(name=topic.name, partition_indexes=[partition.partition])
            ],
            coordinator_epoch=max(coordinator_epoch, 0),
        )

        async def ask(
            node: Node, asked: Mapping[TopicPartition, None]
        ) -> dict[TopicPartition, bool | Errors]:
            connection = await self._cluster.nodes.connect(node)
            request = WriteTxnMarkersRequest(markers=[marker])
            answer = await connection.request(request, WriteTxnMarkersResponse)
            error = failure(answer.markers[0].topics[0].partitions[0].error_code)
            return {partition: True if error is None else error.error}

        await ask_leaders(self._cluster, {partition: None}, ask, self._timeout_s)
