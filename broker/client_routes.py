"""Everything clients may ask a broker, put together from its parts."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from odradek.broker.auto_topics import AutoTopics
from odradek.broker.config import BrokerConfig
from odradek.broker.coordinators import Coordinators
from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.broker.fetch_sessions import FetchSessions
from odradek.broker.flushing import Flusher
from odradek.broker.handlers.cluster import PartitionsAdminHandler
from odradek.broker.handlers.configs import ConfigsHandler
from odradek.broker.handlers.delete_records import DeleteRecordsHandler
from odradek.broker.handlers.features import FeaturesHandler
from odradek.broker.handlers.fetch import FetchHandler
from odradek.broker.handlers.log_dirs import LogDirsHandler
from odradek.broker.handlers.metadata import Identity, MetadataHandler
from odradek.broker.handlers.offsets import OffsetsHandler
from odradek.broker.handlers.produce import ProduceHandler
from odradek.broker.handlers.topics import TopicsHandler
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.replica_moves import ReplicaMoves
from odradek.broker.routes import AnyRoute
from odradek.controller.controller import Controller
from odradek.controller.store import MetadataStore
from odradek.controller.topic_creation import create_topic
from odradek.controller.topics import NewTopic, TopicRules
from odradek.protocol.clock import Clock
from odradek.protocol.types import random_id
from odradek.replication.replicas import Replicas
from odradek.storage.files import Files
from odradek.storage.logs import Logs

SESSION_IDLE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ClientServices:
    """What the handlers work with."""

    config: BrokerConfig
    identity: Identity
    replicas: Replicas
    metadata: MetadataCache
    configs: DynamicConfigs
    controller: Controller
    rules: TopicRules
    store: MetadataStore
    logs: Logs
    coordinators: Coordinators
    flusher: Flusher
    moves: ReplicaMoves
    files: Files
    clock: Clock
    random: Random
    loop: asyncio.AbstractEventLoop

    async def create_topic(self, new: NewTopic) -> object:
        """Write a topic that someone uses; the controller will notice."""
        racks = {broker.id: broker.rack for broker in self.metadata.view.brokers.values()}
        return await create_topic(
            self.store,
            new,
            topic_id=random_id(),
            racks=racks,
            rules=self.rules,
            random=self.random,
        )


def client_routes(services: ClientServices) -> Iterator[AnyRoute]:
    yield from _data_routes(services)
    yield from _cluster_routes(services)


def _data_routes(services: ClientServices) -> Iterator[AnyRoute]:
    config = services.config
    yield from ProduceHandler(
        replicas=services.replicas,
        metadata=services.metadata,
        flusher=services.flusher,
        verifier=services.coordinators.verifier,
        loop=services.loop,
    ).routes()
    yield from FetchHandler(
        replicas=services.replicas,
        metadata=services.metadata,
        sessions=FetchSessions(
            max_slots=config.max_incremental_fetch_session_cache_slots,
            eviction_seconds=SESSION_IDLE_SECONDS,
            clock=services.clock,
            random=services.random,
        ),
        max_bytes=config.fetch_max_bytes,
        loop=services.loop,
        reads_near_by=config.reads_near_by,
    ).routes()
    yield from OffsetsHandler(replicas=services.replicas).routes()
    yield from DeleteRecordsHandler(
        replicas=services.replicas,
        live_brokers=lambda: list(services.metadata.view.brokers),
        loop=services.loop,
    ).routes()


def _cluster_routes(services: ClientServices) -> Iterator[AnyRoute]:
    metadata, configs, controller = services.metadata, services.configs, services.controller
    auto_topics = AutoTopics(create=services.create_topic, metadata=metadata, configs=configs)
    yield from MetadataHandler(
        metadata=metadata,
        identity=services.identity,
        create_missing=auto_topics.create_missing,
        max_partitions_described=services.config.max_request_partition_size_limit,
    ).routes()
    yield from TopicsHandler(controller=controller, configs=configs, metadata=metadata).routes()
    yield from PartitionsAdminHandler(controller=controller).routes()
    yield from ConfigsHandler(
        configs=configs,
        metadata=metadata,
        store=services.store,
        broker_id=services.identity.broker_id,
    ).routes()
    yield from LogDirsHandler(
        logs=services.logs, files=services.files, moves=services.moves
    ).routes()
    yield from FeaturesHandler(
        features=services.coordinators.features, controller=controller
    ).routes()
    yield from services.coordinators.routes(services.identity, auto_topics.ensure)
