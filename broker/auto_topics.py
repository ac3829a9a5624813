"""Topics that come into being when they are first asked for.

Any broker may write a topic; the controller then gives it leaders. Requests that name the same
missing topic wait for one creation. An answer is given when this broker's view has the topic, or
after a short while without it: clients ask again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Final

from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.broker.metadata_cache import MetadataCache
from odradek.controller.store import StoreError
from odradek.controller.topics import NewTopic, check_name
from odradek.protocol.errors import Errors, KafkaError

PATIENCE_SECONDS: Final = 2.0

CreateTopic = Callable[[NewTopic], Awaitable[object]]


class AutoTopics:
    def __init__(
        self, *, create: CreateTopic, metadata: MetadataCache, configs: DynamicConfigs
    ) -> None:
        self._create = create
        self._metadata = metadata
        self._configs = configs
        self._under_way: dict[str, asyncio.Task[Errors]] = {}

    async def create_missing(self, names: Set[str]) -> Mapping[str, Errors]:
        """What became of each topic: NONE when it is there."""
        if not self._configs.broker.auto_create_topics_enable:
            return {}
        return await self.ensure([NewTopic(name) for name in sorted(names)])

    async def ensure(self, topics: list[NewTopic]) -> Mapping[str, Errors]:
        """Create those topics that are not there."""
        missing = [topic for topic in topics if topic.name not in self._metadata.view.topics]
        tasks = {topic.name: self._begin(topic) for topic in missing}
        return {name: await asyncio.shield(task) for name, task in tasks.items()}

    def _begin(self, topic: NewTopic) -> asyncio.Task[Errors]:
        task = self._under_way.get(topic.name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._make(topic))
            self._under_way[topic.name] = task
            task.add_done_callback(lambda _: self._under_way.pop(topic.name))
        return task

    async def _make(self, topic: NewTopic) -> Errors:
        try:
            check_name(topic.name)
            await self._create(topic)
        except KafkaError as error:
            # Somebody was quicker: just as good.
            if error.error is not Errors.TOPIC_ALREADY_EXISTS:
                return error.error
        except StoreError:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        is_there = await self._metadata.wait_until(
            lambda view: topic.name in view.topics, PATIENCE_SECONDS
        )
        return Errors.NONE if is_there else Errors.LEADER_NOT_AVAILABLE
