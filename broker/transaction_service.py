"""The transaction coordinator in its place: what it hears of the broker, whom it speaks to.

Leaders of `__transaction_state` are told to the coordinator as they change. Markers go out to the
leaders of partitions and come in for those that this broker leads; questions whether a partition
belongs to a transaction go out to coordinators. A broker alone has only itself to speak to.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from odradek.broker.config import BrokerConfig
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.placement import TRANSACTION_TOPIC
from odradek.broker.coordinator.txn_completion import Marker
from odradek.broker.coordinator.txn_config import TxnConfig
from odradek.broker.coordinator.txn_coordinator import TransactionCoordinator
from odradek.broker.coordinator_topic import CoordinatorTopic
from odradek.broker.handlers.transactions import TransactionsHandler
from odradek.broker.handlers.transactions_admin import TransactionsAdminHandler
from odradek.broker.handlers.transactions_offsets import TxnOffsetsHandler
from odradek.broker.links import Links
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute
from odradek.broker.txn_marker_sender import MarkerSender
from odradek.broker.txn_marker_writer import MarkerWriter
from odradek.broker.txn_questions import TxnQuestions
from odradek.broker.txn_verification import TxnVerifier
from odradek.controller.producer_ids import ProducerIds
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.transaction_admin import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from odradek.replication.replicas import Replicas

# A coordinator that does not answer within this time is as good as away; producers ask again.
QUESTION_SECONDS: Final = 5.0


class TransactionService:
    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        *,
        broker_id: int,
        replicas: Replicas,
        metadata: MetadataCache,
        links: Links | None,
        groups: GroupCoordinator,
        group_partitions: Callable[[], int],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._links = links
        # A marker waits for its replicas.
        self._marker_links = None if links is None else links.apart()
        self._groups = groups
        self._group_partitions = group_partitions
        self._clock = clock
        self._loop = loop
        self._marker_seconds = config().request_timeout_ms / 1000
        txn_config = TxnConfig.of(config())
        topic = CoordinatorTopic(
            TRANSACTION_TOPIC,
            replicas=replicas,
            metadata=metadata,
            loop=loop,
            default_partitions=txn_config.partitions,
        )
        self.coordinator = TransactionCoordinator(
            txn_config,
            clock=clock,
            loop=loop,
            open_log=topic.open_log,
            partition_count=topic.partition_count,
            send_markers=lambda completion: self._sender.send(completion),
        )
        self._questions = TxnQuestions(
            local_id=broker_id,
            metadata=metadata,
            coordinator=self.coordinator,
            ask=self._ask_coordinator,
            loop=loop,
        )
        self.verifier = TxnVerifier(
            self._questions.ask,
            is_enabled=lambda: config().transaction_partition_verification_enable,
        )
        self._writer = MarkerWriter(
            replicas=replicas,
            clock=clock,
            loop=loop,
            timeout_ms=config().request_timeout_ms,
            revoke=self.verifier.revoke,
            offsets_ended=self._offsets_ended,
        )
        self._sender = MarkerSender(
            local_id=broker_id,
            metadata=metadata,
            writer=self._writer,
            ask=self._ask_leader,
            loop=loop,
        )
        topic.tell(self.coordinator.runtime)

    def routes(self, ids: ProducerIds) -> Iterator[AnyRoute]:
        yield from TransactionsHandler(
            coordinator=self.coordinator,
            ids=ids,
            metadata=self._metadata,
            group_partitions=self._group_partitions,
            loop=self._loop,
        ).routes()
        yield from TxnOffsetsHandler(
            groups=self._groups,
            group_partitions=self._group_partitions,
            verifier=self.verifier,
            replicas=self._replicas,
            metadata=self._metadata,
            clock=self._clock,
            loop=self._loop,
        ).routes()
        yield from TransactionsAdminHandler(
            coordinator=self.coordinator,
            writer=self._writer,
            replicas=self._replicas,
            clock=self._clock,
            loop=self._loop,
        ).routes()

    def start(self) -> None:
        self.coordinator.start()

    async def close(self) -> None:
        self.coordinator.close()
        await self._sender.close()
        await self._questions.close()
        if self._marker_links is not None:
            self._marker_links.close()

    # What it hears --------------------------------------------------------------------------

    def _offsets_ended(self, partition: int, marker: Marker, offset: int) -> None:
        self._groups.runtime.end_transaction(
            partition, marker.producer_id, offset=offset, committed=marker.commit
        )

    # Whom it speaks to ----------------------------------------------------------------------

    async def _ask_coordinator(
        self, broker_id: int, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        return await _reachable(self._links).ask(
            broker_id, request, AddPartitionsToTxnResponse, timeout_s=QUESTION_SECONDS
        )

    async def _ask_leader(
        self, broker_id: int, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        return await _reachable(self._marker_links).ask(
            broker_id, request, WriteTxnMarkersResponse, timeout_s=self._marker_seconds
        )


def _reachable(links: Links | None) -> Links:
    if links is None:
        raise KafkaError(Errors.BROKER_NOT_AVAILABLE, "this broker is alone")
    return links
