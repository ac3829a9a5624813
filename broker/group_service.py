"""The group coordinator in its place: what it hears of the broker, and the routes it answers.

Leaders of `__consumer_offsets` are told to the coordinator as they change; deleted topics too. The
topic is created when a client first looks for a coordinator.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping

from odradek.broker.config import BrokerConfig
from odradek.broker.coordinator.group_config import GroupConfig
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.internal_topics import internal_topics
from odradek.broker.coordinator.placement import GROUP_TOPIC
from odradek.broker.coordinator.topic_shapes import TopicShapes
from odradek.broker.coordinator_topic import CoordinatorTopic
from odradek.broker.handlers.groups import GroupsHandler
from odradek.broker.handlers.groups_admin import GroupsAdminHandler
from odradek.broker.handlers.groups_consumer import ConsumerGroupsHandler
from odradek.broker.handlers.groups_find import FindCoordinatorHandler
from odradek.broker.handlers.groups_offsets import GroupOffsetsHandler
from odradek.broker.handlers.metadata import Identity
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute
from odradek.controller.topics import NewTopic
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors
from odradek.replication.replicas import Replicas

_log = logging.getLogger(__name__)

# Creates topics and says what became of each.
CreateTopics = Callable[[list[NewTopic]], Awaitable[Mapping[str, Errors]]]


class GroupService:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        replicas: Replicas,
        metadata: MetadataCache,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._topics = internal_topics(config)
        self._metadata = metadata
        self._clock = clock
        self._loop = loop
        group_config = GroupConfig.of(config)
        topic = CoordinatorTopic(
            GROUP_TOPIC,
            replicas=replicas,
            metadata=metadata,
            loop=loop,
            default_partitions=group_config.partitions,
        )
        self.partition_count = topic.partition_count
        self.coordinator = GroupCoordinator(
            group_config,
            clock=clock,
            loop=loop,
            open_log=topic.open_log,
            partition_count=topic.partition_count,
            topics=TopicShapes(lambda: metadata.view.topics),
        )
        topic.tell(self.coordinator.runtime)
        metadata.listen_for_deletions(self.coordinator.topics_deleted)

    def routes(self, identity: Identity, create_topics: CreateTopics) -> Iterator[AnyRoute]:
        coordinator, loop = self.coordinator, self._loop
        yield from FindCoordinatorHandler(
            metadata=self._metadata,
            locate=identity.address_of,
            ensure_internal_topic=lambda name: self._ensure(name, create_topics),
        ).routes()
        yield from GroupsHandler(coordinator=coordinator, loop=loop).routes()
        yield from GroupOffsetsHandler(
            coordinator=coordinator, metadata=self._metadata, clock=self._clock, loop=loop
        ).routes()
        yield from GroupsAdminHandler(coordinator=coordinator, loop=loop).routes()
        yield from ConsumerGroupsHandler(
            coordinator=coordinator, metadata=self._metadata, loop=loop
        ).routes()

    def start(self) -> None:
        self.coordinator.start()

    def close(self) -> None:
        self.coordinator.close()

    async def _ensure(self, name: str, create_topics: CreateTopics) -> None:
        topic = self._topics[name]
        new = NewTopic(
            name, topic.partitions, topic.replication_factor, configs=dict(topic.configs)
        )
        outcomes = await create_topics([new])
        if outcomes.get(name, Errors.NONE) is not Errors.NONE:
            _log.warning("%s cannot be created now: %s", name, outcomes[name].name)
