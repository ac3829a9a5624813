"""A whole cluster in one process: several brokers, one metadata store, real sockets in between.

What a laptop or a test runs: the brokers elect a controller, replicate and fail over as they would
on hosts of their own. The store is a file beside their directories, so a cluster can be stopped and
started again.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from odradek.broker.broker import Broker
from odradek.broker.config import BrokerConfig
from odradek.broker.metadata_stores import METADATA_FILE
from odradek.broker.network.peer import Address
from odradek.broker.wanted_topics import WantedTopic
from odradek.controller.store_embedded import EmbeddedStore
from odradek.protocol.clock import Clock
from odradek.storage.files import Files

# Internal topics are as safe as the cluster's size allows.
MAX_INTERNAL_REPLICAS: Final = 3


def cluster_settings(brokers: int) -> dict[str, str]:
    """What brokers of a cluster of this size are set to unless told otherwise."""
    replicas = min(brokers, MAX_INTERNAL_REPLICAS)
    in_sync = max(1, replicas - 1)
    return {
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "default.replication.factor": str(replicas),
    }


class LocalCluster:
    """Made and used on one event loop. `brokers` are those that run, by id."""

    def __init__(
        self,
        configs: Sequence[BrokerConfig],
        *,
        directory: Path,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        files: Files,
        random: Random,
        on_fatal: Callable[[str], None],
    ) -> None:
        """`directory` is where the metadata is kept; each config has a broker.id of its own."""
        self._configs = {config.broker_id: config for config in configs}
        self._loop = loop
        self._clock = clock
        self._files = files
        self._random = random
        self._on_fatal = on_fatal
        self.store = EmbeddedStore(clock=clock, path=directory / METADATA_FILE)
        self.brokers: dict[int, Broker] = {}

    @property
    def addresses(self) -> list[Address]:
        return [broker.address for _, broker in sorted(self.brokers.items())]

    async def start(self, topics: Sequence[WantedTopic] = ()) -> None:
        """Returns when every broker serves. Raises as Broker.start does, all undone."""
        try:
            first, *others = self._configs
            await self.start_broker(first)
            await asyncio.gather(*map(self.start_broker, others))
            if topics:
                await self._controller().make_topics(topics)
        except BaseException:
            await self.stop()
            raise

    async def start_broker(self, broker_id: int) -> Broker:
        broker = Broker(
            self._configs[broker_id],
            loop=self._loop,
            clock=self._clock,
            files=self._files,
            random=self._random,
            on_fatal=self._on_fatal,
            shared_store=self.store,
        )
        await broker.start()
        self.brokers[broker_id] = broker
        return broker

    async def stop_broker(self, broker_id: int) -> None:
        """As one broker is stopped whose cluster goes on: it hands over first."""
        await self.brokers.pop(broker_id).stop()

    async def stop(self) -> None:
        """Stop everything; nobody is left to hand over to."""
        while self.brokers:
            _, broker = self.brokers.popitem()
            await broker.stop(hand_over=False)
        await self.store.close()

    def _controller(self) -> Broker:
        return next(broker for broker in self.brokers.values() if broker.is_controller)
