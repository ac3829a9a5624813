"""Produce with transactional batches: each is verified before it is the first of a transaction.

Apart from that it is an ordinary Produce, and `ProduceHandler` does it. A partition whose producer
has its transaction open here takes the batch at once; for another one the coordinator is asked,
which takes no time when it is this broker. Partitions do not wait for each other.
"""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from odradek.broker.context import RequestContext
from odradek.broker.coordinator.txn_decisions import Holder
from odradek.broker.txn_verification import Claim, TxnVerifier, produce_error
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.records import BatchHeader, read_header

if TYPE_CHECKING:
    from odradek.broker.handlers.pending_produce import PendingProduce
    from odradek.broker.handlers.produce import ProduceHandler

FIRST_VERSION_WITH_ABORTABLE: Final = 11
# From here on a batch makes its partition part of the transaction.
FIRST_VERSION_THAT_ADDS: Final = 12
# Stands in for a result that is not there yet.
_UNDECIDED: Final = PartitionProduceResponse(index=-1, error_code=0, base_offset=-1)


class TransactionalProduce:
    def __init__(
        self,
        handler: "ProduceHandler",
        verifier: TxnVerifier,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._handler = handler
        self._verifier = verifier
        self._loop = loop

    def produce(
        self, request: ProduceRequest, context: RequestContext, pending: "PendingProduce"
    ) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
        if request.transactional_id is None:
            raise KafkaError(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        begun = _Begun(request, context, pending, self._loop)
        for topic in request.topic_data:
            results: list[PartitionProduceResponse] = []
            begun.response.responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=results
                )
            )
            for data in topic.partition_data:
                results.append(_UNDECIDED)
                self._begin_one(begun, topic, data, results)
        if not begun.unverified:
            return self._handler.finish(request, context, begun.response, pending)
        return self._finish_later(begun)

    async def _finish_later(self, begun: "_Begun") -> ProduceResponse | None:
        await begun.all_verified
        answer = self._handler.finish(begun.request, begun.context, begun.response, begun.pending)
        return await answer if isinstance(answer, Awaitable) else answer

    def _begin_one(
        self,
        begun: "_Begun",
        topic: TopicProduceData,
        data: PartitionProduceData,
        results: list[PartitionProduceResponse],
    ) -> None:
        """Fill in the last of the results, now or when the batch is verified."""
        place, version = len(results) - 1, begun.context.version

        def go_on(error: Errors) -> None:
            if error is Errors.NONE:
                results[place] = self._handler.append_one(
                    topic, data, begun.request.acks, begun.context, begun.pending
                )
            else:
                told = produce_error(error, knows_abortable=version >= FIRST_VERSION_WITH_ABORTABLE)
                refusal = KafkaError(told, f"the transaction was not verified: {error.name}")
                results[place] = self._handler.refused(topic, data.index, refusal, begun.pending)

        def verified(error: Errors) -> None:
            go_on(error)
            begun.one_is_verified()

        try:
            partition = self._handler.find(topic, data.index, begun.context)
            header = _header(data)
        except (KafkaError, ProtocolError):
            # Whatever is wrong, an append will say so.
            go_on(Errors.NONE)
            return
        holder = Holder(header.producer_id, header.producer_epoch)
        is_plain = not header.is_transactional or not partition.is_leader
        if is_plain or not self._verifier.must_ask(partition, holder):
            go_on(Errors.NONE)
            return
        assert begun.request.transactional_id is not None
        adds = version >= FIRST_VERSION_THAT_ADDS
        claim = Claim(begun.request.transactional_id, holder, adds)
        begun.unverified += 1
        self._verifier.verify(partition, claim, header.base_sequence, verified)


def _header(data: PartitionProduceData) -> BatchHeader:
    return read_header(data.records or b"")


class _Begun:
    """A request some of whose batches may be waiting for their verification."""

    __slots__ = ("_loop", "_verified", "context", "pending", "request", "response", "unverified")

    def __init__(
        self,
        request: ProduceRequest,
        context: RequestContext,
        pending: "PendingProduce",
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.request = request
        self.context = context
        self.pending = pending
        self.response = ProduceResponse(responses=[])
        self.unverified = 0
        self._loop = loop
        self._verified: asyncio.Future[None] | None = None

    @property
    def all_verified(self) -> Awaitable[None]:
        if self._verified is None:
            self._verified = self._loop.create_future()
            if not self.unverified:
                self._verified.set_result(None)
        return self._verified

    def one_is_verified(self) -> None:
        self.unverified -= 1
        if not self.unverified and self._verified is not None and not self._verified.done():
            self._verified.set_result(None)
