"""What a consumer reads: chosen by hand, or topics whose partitions a group shares out.

The two ways exclude each other, as in every Kafka client. Owns the state of assigned partitions.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from odradek.client.partition_state import PartitionState
from odradek.client.view import ClusterView
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition


class RebalanceListener:
    """Told when partitions come and go; override what is of interest. Called while polling."""

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """These are new. Seek here to begin elsewhere."""

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """These are about to go. Commit here what must not be read again by their next owner."""

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """These are gone already, and may be read by somebody else: too late to commit."""
        await self.on_partitions_revoked(partitions)


@dataclass(frozen=True, slots=True)
class Topics:
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pattern:
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class ByHand:
    """`assign` was called."""


@dataclass(slots=True)
class Subscription:
    choice: Topics | Pattern | ByHand | None = None
    listener: RebalanceListener = field(default_factory=RebalanceListener)
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)

    def subscribe(self, choice: Topics | Pattern, listener: RebalanceListener | None) -> None:
        if isinstance(self.choice, ByHand):
            raise KafkaError(Errors.INVALID_REQUEST, "partitions are assigned by hand already")
        self.choice = choice
        self.listener = listener or RebalanceListener()

    def assign_by_hand(self, partitions: Iterable[TopicPartition]) -> None:
        if isinstance(self.choice, Topics | Pattern):
            raise KafkaError(Errors.INVALID_REQUEST, "topics are subscribed to already")
        self.choice = ByHand()
        self.assign(partitions)

    def clear(self) -> None:
        self.choice = None
        self.assign(())

    @property
    def uses_group(self) -> bool:
        return isinstance(self.choice, Topics | Pattern)

    def topics(self, view: ClusterView) -> set[str]:
        """The topics subscribed to, as far as they are known."""
        if isinstance(self.choice, Topics):
            return set(self.choice.names)
        if isinstance(self.choice, Pattern):
            search = self.choice.pattern.fullmatch
            return {
                topic.name
                for topic in view.topics.values()
                if not topic.is_internal and not topic.error and search(topic.name)
            }
        return {partition.topic for partition in self.partitions}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These and no others; those that were assigned already stay as they are."""
        wanted = dict.fromkeys(partitions)
        for partition, state in self.partitions.items():
            if partition not in wanted:
                # Whoever still holds the state must find it empty.
                state.reset(0)
        self.partitions = {
            partition: self.partitions.get(partition) or PartitionState(partition)
            for partition in wanted
        }

    def state(self, partition: TopicPartition) -> PartitionState:
        state = self.partitions.get(partition)
        if state is None:
            message = f"{partition} is not assigned to this consumer"
            raise KafkaError(Errors.INVALID_REQUEST, message)
        return state
