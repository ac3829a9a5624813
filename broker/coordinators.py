"""The coordinators of a broker: of groups and of transactions, which know of each other.

A transaction may carry offsets of a group, and they take effect with its marker. Which version of
transactions clients use is agreed on by the cluster, as a feature, which is followed here.
"""

import asyncio
from collections.abc import Callable, Iterator

from odradek.broker.config import BrokerConfig
from odradek.broker.features import Features
from odradek.broker.group_service import CreateTopics, GroupService
from odradek.broker.handlers.metadata import Identity
from odradek.broker.links import Links
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute
from odradek.broker.transaction_service import TransactionService
from odradek.broker.txn_verification import TxnVerifier
from odradek.controller.producer_ids import ProducerIds, next_block
from odradek.controller.store import MetadataStore
from odradek.protocol.clock import Clock
from odradek.replication.replicas import Replicas


class Coordinators:
    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        *,
        broker_id: int,
        store: MetadataStore,
        replicas: Replicas,
        metadata: MetadataCache,
        links: Links | None,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`links` lead to other brokers; a broker alone has none."""
        self.groups = GroupService(
            config(), replicas=replicas, metadata=metadata, clock=clock, loop=loop
        )
        self.transactions = TransactionService(
            config,
            broker_id=broker_id,
            replicas=replicas,
            metadata=metadata,
            links=links,
            groups=self.groups.coordinator,
            group_partitions=self.groups.partition_count,
            clock=clock,
            loop=loop,
        )
        self._ids = ProducerIds(lambda: next_block(store, broker_id))
        self.features = Features(store)
        self._loop = loop
        self._following: asyncio.Task[None] | None = None

    @property
    def verifier(self) -> TxnVerifier:
        return self.transactions.verifier

    def routes(self, identity: Identity, create_topics: CreateTopics) -> Iterator[AnyRoute]:
        yield from self.groups.routes(identity, create_topics)
        yield from self.transactions.routes(self._ids)

    def start(self) -> None:
        self.groups.start()
        self.transactions.start()
        self._following = self._loop.create_task(self.features.run())

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self.transactions.close()
        self.groups.close()
