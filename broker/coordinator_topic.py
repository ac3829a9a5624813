"""The internal topic of a coordinator, as this broker hosts it: its partitions, logs and roles.

One piece for the coordinators of groups and of transactions; each brings its topic's name.
"""

import asyncio
from typing import Protocol

from odradek.broker.coordinator.partition_log import PartitionLog
from odradek.broker.metadata_cache import MetadataCache
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas


class Shards(Protocol):
    """What hears of the roles: a coordinator's runtime."""

    def elected(self, partition: int, epoch: int) -> None: ...

    def resigned(self, partition: int, epoch: int | None = None) -> None: ...


class CoordinatorTopic:
    def __init__(
        self,
        name: str,
        *,
        replicas: Replicas,
        metadata: MetadataCache,
        loop: asyncio.AbstractEventLoop,
        default_partitions: int,
    ) -> None:
        self._name = name
        self._replicas = replicas
        self._metadata = metadata
        self._loop = loop
        self._default_partitions = default_partitions

    def partition_count(self) -> int:
        """How many partitions the topic has, or will have."""
        topic = self._metadata.view.topics.get(self._name)
        return self._default_partitions if topic is None else len(topic.partitions)

    def open_log(self, partition: int, epoch: int) -> PartitionLog:
        hosted = self._replicas.hosted(TopicPartition(self._name, partition))
        return PartitionLog(hosted, epoch, loop=self._loop)

    def tell(self, shards: Shards) -> None:
        """Let these hear, from now on, which partitions this broker comes to lead and leaves."""

        def role_changed(partition: Partition) -> None:
            topic, index = partition.where
            if topic != self._name:
                return
            if partition.is_leader:
                shards.elected(index, partition.leader_epoch)
            elif partition.role is None:
                shards.resigned(index)
            else:
                shards.resigned(index, partition.leader_epoch)

        self._replicas.listen(role_changed)
