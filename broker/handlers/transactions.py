"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: what producers ask for.

All but InitProducerId without a transactional id are for the coordinator of the id. Clients that do
not know PRODUCER_FENCED hear INVALID_PRODUCER_EPOCH.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.coordinator.placement import GROUP_TOPIC, partition_for
from odradek.broker.coordinator.txn_coordinator import TransactionCoordinator
from odradek.broker.coordinator.txn_decisions import (
    NOBODY,
    Holder,
    needs_producer_id,
    needs_producer_id_to_end,
)
from odradek.broker.handlers.groups_reply import Reply
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute, Route
from odradek.controller.producer_ids import ProducerIds
from odradek.controller.store import StoreError
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.protocol.schema import versions_of
from odradek.protocol.types import TopicPartition

# The first versions that know PRODUCER_FENCED.
_INIT_FENCED: Final = 4
_FENCED: Final = 2
_FIRST_OF_BROKERS: Final = 4
# The second version of transactions begins here.
_FIRST_END_WITH_BUMP: Final = 5

Outcomes = Mapping[TopicPartition, Errors]


class TransactionsHandler:
    def __init__(
        self,
        *,
        coordinator: TransactionCoordinator,
        ids: ProducerIds,
        metadata: MetadataCache,
        group_partitions: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`group_partitions` says how many partitions the topic of groups has, or will have."""
        self._coordinator = coordinator
        self._ids = ids
        self._metadata = metadata
        self._group_partitions = group_partitions
        self._loop = loop

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(InitProducerIdRequest, versions_of("0-5"), self.init, init_failed)
        yield Route(AddPartitionsToTxnRequest, versions_of("0-5"), self.add_partitions, add_failed)
        yield Route(AddOffsetsToTxnRequest, versions_of("0-4"), self.add_offsets, offsets_failed)
        yield Route(EndTxnRequest, versions_of("0-5"), self.end, end_failed)

    # InitProducerId -------------------------------------------------------------------------

    async def init(
        self, request: InitProducerIdRequest, context: RequestContext
    ) -> InitProducerIdResponse:
        transactional_id = request.transactional_id
        if transactional_id is None:
            return _given(Holder(await self._take_id(), 0))
        self._check_init(request)
        shard = self._coordinator.shard_of(transactional_id)
        new_id = None
        if needs_producer_id(shard.known(transactional_id)):
            new_id = await self._take_id()
            # Much may have happened meanwhile.
            shard = self._coordinator.shard_of(transactional_id)
        reply: Reply[InitProducerIdResponse] = Reply(self._loop)

        def answer(error: Errors, given: Holder) -> None:
            if error is Errors.NONE:
                reply(_given(given))
            else:
                told = _by_age(error, knows_fenced=context.version >= _INIT_FENCED)
                reply(init_failed(request, KafkaError(told)))

        holder = Holder(request.producer_id, request.producer_epoch)
        shard.init(transactional_id, holder, request.transaction_timeout_ms, new_id, answer)
        answered = reply.answer()
        return answered if isinstance(answered, InitProducerIdResponse) else await answered

    async def _take_id(self) -> int:
        """An id that nobody had. Without a word from the store, clients are to ask again."""
        try:
            return await self._ids.take()
        except StoreError as error:
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error

    def _check_init(self, request: InitProducerIdRequest) -> None:
        has_id = request.producer_id != NO_PRODUCER_ID
        has_epoch = request.producer_epoch != NO_PRODUCER_EPOCH
        if not request.transactional_id or has_id != has_epoch:
            raise KafkaError(Errors.INVALID_REQUEST)
        if not 0 < request.transaction_timeout_ms <= self._coordinator.config.max_timeout_ms:
            raise KafkaError(Errors.INVALID_TRANSACTION_TIMEOUT)

    # AddPartitionsToTxn ---------------------------------------------------------------------

    def add_partitions(
        self, request: AddPartitionsToTxnRequest, context: RequestContext
    ) -> AddPartitionsToTxnResponse | asyncio.Future[AddPartitionsToTxnResponse]:
        if context.version >= _FIRST_OF_BROKERS:
            return self._add_for_brokers(request)
        reply: Reply[AddPartitionsToTxnResponse] = Reply(self._loop)
        topics = request.v3_and_below_topics

        def answer(outcomes: Outcomes) -> None:
            told = {
                where: _by_age(error, knows_fenced=context.version >= _FENCED)
                for where, error in outcomes.items()
            }
            results = _topic_results(topics, told)
            reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))

        holder = Holder(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        self._add(request.v3_and_below_transactional_id, holder, topics, answer)
        return reply.answer()

    def _add(
        self,
        transactional_id: str,
        holder: Holder,
        topics: Iterable[AddPartitionsToTxnTopic],
        answer: Callable[[Outcomes], None],
        *,
        verify_only: bool = False,
    ) -> None:
        """All or none: where one partition is not known, nothing is attempted."""
        partitions = _partitions(topics)
        view = self._metadata.view
        unknown = {where for where in partitions if view.partition(where) is None}
        if unknown:
            answer(
                {
                    where: Errors.UNKNOWN_TOPIC_OR_PARTITION
                    if where in unknown
                    else Errors.OPERATION_NOT_ATTEMPTED
                    for where in partitions
                }
            )
            return
        try:
            shard = self._coordinator.shard_of(transactional_id)
        except KafkaError as error:
            answer(dict.fromkeys(partitions, error.error))
            return
        if verify_only:
            answer(shard.verify_partitions(transactional_id, holder, partitions))
            return
        shard.add_partitions(
            transactional_id,
            holder,
            partitions,
            lambda error: answer(dict.fromkeys(partitions, error)),
        )

    def _add_for_brokers(
        self, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse | asyncio.Future[AddPartitionsToTxnResponse]:
        """Many transactions in one request, each to be added to or merely looked at."""
        reply: Reply[AddPartitionsToTxnResponse] = Reply(self._loop)
        results: dict[int, AddPartitionsToTxnResult] = {}

        def answer_one(number: int, outcomes: Outcomes) -> None:
            each = request.transactions[number]
            results[number] = AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=_topic_results(each.topics, outcomes),
            )
            if len(results) == len(request.transactions):
                ordered = [results[index] for index in sorted(results)]
                reply(AddPartitionsToTxnResponse(results_by_transaction=ordered))

        if not request.transactions:
            return AddPartitionsToTxnResponse()
        for number, each in enumerate(request.transactions):
            self._add(
                each.transactional_id,
                Holder(each.producer_id, each.producer_epoch),
                each.topics,
                partial(answer_one, number),
                verify_only=each.verify_only,
            )
        return reply.answer()

    # AddOffsetsToTxn ------------------------------------------------------------------------

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, context: RequestContext
    ) -> AddOffsetsToTxnResponse | asyncio.Future[AddOffsetsToTxnResponse]:
        """The partition that keeps the group's offsets becomes part of the transaction."""
        shard = self._coordinator.shard_of(request.transactional_id)
        index = partition_for(request.group_id, self._group_partitions())
        reply: Reply[AddOffsetsToTxnResponse] = Reply(self._loop)

        def answer(error: Errors) -> None:
            told = _by_age(error, knows_fenced=context.version >= _FENCED)
            reply(AddOffsetsToTxnResponse(error_code=told))

        holder = Holder(request.producer_id, request.producer_epoch)
        where = TopicPartition(GROUP_TOPIC, index)
        shard.add_partitions(request.transactional_id, holder, [where], answer)
        return reply.answer()

    # EndTxn ---------------------------------------------------------------------------------

    def end(
        self, request: EndTxnRequest, context: RequestContext
    ) -> EndTxnResponse | Awaitable[EndTxnResponse]:
        shard = self._coordinator.shard_of(request.transactional_id)
        if context.version >= _FIRST_END_WITH_BUMP:
            if needs_producer_id_to_end(shard.known(request.transactional_id)):
                return self._end_with_new_id(request)
            return self._end_with_bump(request, None)
        reply: Reply[EndTxnResponse] = Reply(self._loop)

        def answer(error: Errors) -> None:
            told = _by_age(error, knows_fenced=context.version >= _FENCED)
            reply(EndTxnResponse(error_code=told))

        holder = Holder(request.producer_id, request.producer_epoch)
        shard.end(request.transactional_id, holder, request.committed, answer)
        return reply.answer()

    async def _end_with_new_id(self, request: EndTxnRequest) -> EndTxnResponse:
        answer = self._end_with_bump(request, await self._take_id())
        return await answer if isinstance(answer, Awaitable) else answer

    def _end_with_bump(
        self, request: EndTxnRequest, new_id: int | None
    ) -> EndTxnResponse | asyncio.Future[EndTxnResponse]:
        shard = self._coordinator.shard_of(request.transactional_id)
        reply: Reply[EndTxnResponse] = Reply(self._loop)

        def answer(error: Errors, given: Holder) -> None:
            holder = NOBODY if error else given
            reply(
                EndTxnResponse(
                    error_code=error, producer_id=holder.producer_id, producer_epoch=holder.epoch
                )
            )

        holder = Holder(request.producer_id, request.producer_epoch)
        shard.end_with_bump(request.transactional_id, holder, request.committed, new_id, answer)
        return reply.answer()


def _by_age(error: Errors, *, knows_fenced: bool) -> Errors:
    if error is Errors.PRODUCER_FENCED and not knows_fenced:
        return Errors.INVALID_PRODUCER_EPOCH
    return error


def _given(holder: Holder) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=0, producer_id=holder.producer_id, producer_epoch=holder.epoch
    )


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _topic_results(
    topics: Iterable[AddPartitionsToTxnTopic], outcomes: Outcomes
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=outcomes[TopicPartition(topic.name, index)],
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def init_failed(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error.error, producer_id=NOBODY.producer_id, producer_epoch=NOBODY.epoch
    )


def add_failed(request: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    """In every place where some version looks for the error."""
    topics = request.v3_and_below_topics
    outcomes = dict.fromkeys(_partitions(topics), error.error)
    return AddPartitionsToTxnResponse(
        error_code=error.error, results_by_topic_v3_and_below=_topic_results(topics, outcomes)
    )


def offsets_failed(request: AddOffsetsToTxnRequest, error: KafkaError) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error.error)


def end_failed(request: EndTxnRequest, error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.error)
