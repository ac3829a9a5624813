"""Brings markers to the leaders of a transaction's partitions, until every one has its own.

A partition that this broker leads is written to at once. For each other broker one request is on
its way at a time, and what comes meanwhile goes into the next one. Who leads is looked up anew for
every try. A partition that the cluster does not know any more has nothing to end.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from odradek.broker.coordinator.txn_completion import Completion
from odradek.broker.coordinator.txn_config import RETRY_MS
from odradek.broker.metadata_cache import NO_LEADER, MetadataCache
from odradek.broker.txn_marker_writer import MarkerWriter
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.transaction_admin import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.types import TopicPartition

log: Final = logging.getLogger(__name__)

# The partition knows a newer producer or coordinator: whoever ends this transaction, it is not us.
_SUPERSEDED: Final = (Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED)
# Nothing of a transaction can be there.
_POINTLESS: Final = (Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, Errors.UNSUPPORTED_VERSION)

# Asks another broker.
Ask = Callable[[int, WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]


class MarkerSender:
    """One owner: the event loop."""

    def __init__(
        self,
        *,
        local_id: int,
        metadata: MetadataCache,
        writer: MarkerWriter,
        ask: Ask,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._local_id = local_id
        self._metadata = metadata
        self._writer = writer
        self._ask = ask
        self._loop = loop
        self._queues: dict[int, dict[Completion, list[TopicPartition]]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}
        self._resting: set[Completion] = set()
        self._is_closed = False

    def send(self, completion: Completion) -> None:
        """Begin, or begin again with what is left."""
        view = self._metadata.view
        for where in sorted(completion.unwritten):
            known = view.partition(where)
            if known is None:
                completion.written(where)
            elif known.leader == self._local_id:
                self._write(completion, where)
            elif known.leader == NO_LEADER:
                self._rest(completion)
            else:
                self._enqueue(known.leader, completion, where)
        completion.look()

    async def close(self) -> None:
        self._is_closed = True
        senders = list(self._senders.values())
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)

    # Outcomes -------------------------------------------------------------------------------

    def _write(self, completion: Completion, where: TopicPartition) -> None:
        self._writer.write(
            where, completion.marker, lambda error: self._told(completion, where, error)
        )

    def _told(self, completion: Completion, where: TopicPartition, error: Errors) -> None:
        if error is Errors.NONE or error in _POINTLESS:
            completion.written(where)
        elif error in _SUPERSEDED:
            log.error(
                "the transaction of %r is not ours to end: %s says %s",
                completion.transactional_id,
                where,
                error.name,
            )
            completion.drop()
        else:
            log.debug("%s has no marker yet: %s", where, error.name)
            self._rest(completion)

    def _rest(self, completion: Completion) -> None:
        """Try again what is left, after a while."""
        if completion in self._resting or self._is_closed:
            return
        self._resting.add(completion)
        self._loop.call_later(RETRY_MS / 1000, self._send_again, completion)

    def _send_again(self, completion: Completion) -> None:
        self._resting.discard(completion)
        if not completion.is_dropped and not self._is_closed:
            self.send(completion)

    # Other brokers --------------------------------------------------------------------------

    def _enqueue(self, broker_id: int, completion: Completion, where: TopicPartition) -> None:
        waiting = self._queues.setdefault(broker_id, {}).setdefault(completion, [])
        if where not in waiting:
            waiting.append(where)
        if broker_id not in self._senders:
            self._senders[broker_id] = self._loop.create_task(self._drain(broker_id))

    async def _drain(self, broker_id: int) -> None:
        """Send what waits for a broker, until nothing does."""
        try:
            while queue := self._queues.pop(broker_id, None):
                wanted = {c: where for c, where in queue.items() if not c.is_dropped}
                if wanted:
                    await self._send_to(broker_id, wanted)
        finally:
            del self._senders[broker_id]

    async def _send_to(
        self, broker_id: int, wanted: Mapping[Completion, list[TopicPartition]]
    ) -> None:
        request = WriteTxnMarkersRequest(markers=[_marker(c, w) for c, w in wanted.items()])
        try:
            response = await self._ask(broker_id, request)
        except (KafkaError, OSError, TimeoutError) as error:
            log.info("broker %d took no markers: %s", broker_id, error)
            for completion in wanted:
                self._rest(completion)
            return
        outcomes = _outcomes(response)
        for completion, partitions in wanted.items():
            for where in partitions:
                key = (completion.marker.producer_id, where)
                self._told(completion, where, outcomes.get(key, Errors.UNKNOWN_SERVER_ERROR))


def _marker(completion: Completion, partitions: list[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    marker = completion.marker
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.commit,
        coordinator_epoch=marker.coordinator_epoch,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in topics.items()
        ],
    )


def _outcomes(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], Errors]:
    return {
        (marker.producer_id, TopicPartition(topic.name, each.partition_index)): Errors.of(
            each.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }
