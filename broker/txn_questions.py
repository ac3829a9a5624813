"""Asks the coordinator of a transactional id whether a partition belongs to its transaction, or
tells it that it now does.

In this process when that is us, which takes no time; otherwise by the form of AddPartitionsToTxn
that brokers use. Questions of one producer that come up in one turn of the loop, as those of one
Produce request do, go together.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.broker.coordinator.placement import TRANSACTION_TOPIC, partition_for
from odradek.broker.coordinator.txn_coordinator import TransactionCoordinator
from odradek.broker.metadata_cache import NO_LEADER, MetadataCache
from odradek.broker.txn_verification import Claim, Question, Then
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.types import TopicPartition

# Asks another broker.
Ask = Callable[[int, AddPartitionsToTxnRequest], Awaitable[AddPartitionsToTxnResponse]]

_Waiting = dict[TopicPartition, list[Then]]

_UNREACHABLE: Final = Errors.NETWORK_EXCEPTION


class TxnQuestions:
    """One owner: the event loop."""

    def __init__(
        self,
        *,
        local_id: int,
        metadata: MetadataCache,
        coordinator: TransactionCoordinator,
        ask: Ask,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._local_id = local_id
        self._metadata = metadata
        self._coordinator = coordinator
        self._ask = ask
        self._loop = loop
        self._waiting: dict[Claim, _Waiting] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    def ask(self, question: Question, then: Then) -> None:
        coordinator_id = self._locate(question.claim.transactional_id)
        if coordinator_id is None:
            then(Errors.COORDINATOR_NOT_AVAILABLE)
        elif coordinator_id == self._local_id:
            self._ask_here(question, then)
        else:
            if not self._waiting:
                self._loop.call_soon(self._send_all)
            waiting = self._waiting.setdefault(question.claim, {})
            waiting.setdefault(question.where, []).append(then)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _locate(self, transactional_id: str) -> int | None:
        topic = self._metadata.view.topics.get(TRANSACTION_TOPIC)
        if topic is None:
            return None
        partition = topic.partitions.get(partition_for(transactional_id, len(topic.partitions)))
        if partition is None or partition.leader == NO_LEADER:
            return None
        return partition.leader

    def _ask_here(self, question: Question, then: Then) -> None:
        (transactional_id, holder, adds), where = question
        try:
            shard = self._coordinator.shard_of(transactional_id)
        except KafkaError as error:
            then(error.error)
            return
        if adds:
            shard.add_partitions(transactional_id, holder, [where], then)
        else:
            then(shard.verify_partitions(transactional_id, holder, [where])[where])

    def _send_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for claim, partitions in waiting.items():
            task = self._loop.create_task(self._send(claim, partitions))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    async def _send(self, claim: Claim, waiting: _Waiting) -> None:
        coordinator_id = self._locate(claim.transactional_id)
        outcomes: dict[TopicPartition, Errors] = {}
        failure = Errors.COORDINATOR_NOT_AVAILABLE
        if coordinator_id is not None:
            try:
                answer = await self._ask(coordinator_id, _request(claim, waiting))
                outcomes, failure = _outcomes(answer), Errors.of(answer.error_code)
            except (KafkaError, OSError, TimeoutError):
                failure = _UNREACHABLE
        for where, then_all in waiting.items():
            for then in then_all:
                then(outcomes.get(where, failure or _UNREACHABLE))


def _request(claim: Claim, partitions: _Waiting) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=claim.transactional_id,
        producer_id=claim.holder.producer_id,
        producer_epoch=claim.holder.epoch,
        verify_only=not claim.adds,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def _outcomes(response: AddPartitionsToTxnResponse) -> dict[TopicPartition, Errors]:
    return {
        TopicPartition(topic.name, each.partition_index): Errors.of(each.partition_error_code)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for each in topic.results_by_partition
    }
