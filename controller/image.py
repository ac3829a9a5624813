"""The controller's picture of the cluster: what the store said when it was last read.

Values are never changed in place: each step makes a new image, so that a decision can look at the
one before and the one after. Only `controller` keeps the current one; `decide` and `propagation`
are functions of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from odradek.controller.znodes import Assignment, BrokerRegistration, PartitionState
from odradek.protocol.endpoints import Endpoint
from odradek.protocol.types import TopicPartition

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker. `epoch` is the czxid of its node: a restart gives a new one."""

    id: int
    epoch: int
    registration: BrokerRegistration

    @property
    def rack(self) -> str | None:
        return self.registration.rack

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((e for e in self.registration.endpoints if e.listener == listener), None)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as its node describes it; `version` is that node's, for compare-and-set."""

    name: str
    id: bytes
    assignments: Mapping[int, Assignment]
    version: int = 0

    def partitions(self) -> Iterator[TopicPartition]:
        return (TopicPartition(self.name, index) for index in self.assignments)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    # Brokers that asked for a controlled shutdown: alive, but nothing new is given to them.
    shutting_down: frozenset[int] = frozenset()
    topics: Mapping[str, Topic] = field(default_factory=dict)
    # Partitions that never had a live replica have an assignment but no state.
    states: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)
    deleting: frozenset[str] = frozenset()
    # Partitions whose state node cannot be read: left alone until someone repairs it.
    damaged: frozenset[TopicPartition] = frozenset()
    # In-sync replicas whose brokers came back while nobody watched: what they remember is unknown.
    returned: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    # Replicas on failed directories of brokers that live.
    offline: Mapping[int, frozenset[TopicPartition]] = field(default_factory=dict)
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def live(self) -> Set[int]:
        return self.brokers.keys()

    @property
    def eligible(self) -> frozenset[int]:
        """Brokers that may be given something new: alive and not about to stop."""
        return frozenset(self.brokers) - self.shutting_down

    def assignment(self, where: TopicPartition) -> Assignment | None:
        topic = self.topics.get(where.topic)
        return None if topic is None else topic.assignments.get(where.partition)

    def partitions(self) -> Iterator[TopicPartition]:
        for topic in self.topics.values():
            yield from topic.partitions()

    def partitions_on(self, broker_id: int) -> Iterator[TopicPartition]:
        for topic in self.topics.values():
            for index, assignment in topic.assignments.items():
                if broker_id in assignment.replicas:
                    yield TopicPartition(topic.name, index)

    def is_online(self, broker_id: int, where: TopicPartition) -> bool:
        """Whether this replica can serve: its broker lives and its directory works."""
        return broker_id in self.brokers and where not in self.offline.get(broker_id, ())

    def can_lead(self, where: TopicPartition) -> frozenset[int]:
        """The brokers of a partition that may be made its leader now."""
        assignment = self.assignment(where)
        if assignment is None:
            return frozenset()
        return frozenset(
            broker_id
            for broker_id in assignment.replicas
            if broker_id not in self.shutting_down and self.is_online(broker_id, where)
        )

    def topic_named_by_id(self, topic_id: bytes) -> Topic | None:
        return next((topic for topic in self.topics.values() if topic.id == topic_id), None)

    def with_brokers(self, brokers: Mapping[int, Broker]) -> "ClusterImage":
        """New membership. Marks of brokers that left, or came back as another life, go."""
        same = {
            broker_id
            for broker_id, broker in brokers.items()
            if broker_id in self.brokers and self.brokers[broker_id].epoch == broker.epoch
        }
        return replace(
            self,
            brokers=dict(sorted(brokers.items())),
            shutting_down=self.shutting_down & same,
            offline={b: failed for b, failed in self.offline.items() if b in same},
        )

    def with_topics(self, topics: Iterable[Topic]) -> "ClusterImage":
        return replace(self, topics={**self.topics, **{topic.name: topic for topic in topics}})

    def with_states(self, states: Mapping[TopicPartition, PartitionState]) -> "ClusterImage":
        return replace(self, states={**self.states, **states}) if states else self

    def with_shutting_down(self, broker_id: int) -> "ClusterImage":
        return replace(self, shutting_down=self.shutting_down | {broker_id})

    def with_deleting(self, names: Set[str]) -> "ClusterImage":
        return replace(self, deleting=frozenset(names))

    def with_offline(self, broker_id: int, failed: Set[TopicPartition]) -> "ClusterImage":
        known = {b: f for b, f in self.offline.items() if b != broker_id}
        if failed:
            known[broker_id] = frozenset(failed)
        return replace(self, offline=known)

    def with_topic_config(self, name: str, config: Mapping[str, str]) -> "ClusterImage":
        return replace(self, topic_configs={**self.topic_configs, name: dict(config)})

    def without_topics(self, names: Set[str]) -> "ClusterImage":
        """Forget topics altogether."""
        if not names:
            return self
        return replace(
            self,
            topics=_without(self.topics, names),
            states={w: s for w, s in self.states.items() if w.topic not in names},
            deleting=self.deleting - names,
            topic_configs=_without(self.topic_configs, names),
            offline={
                b: frozenset(w for w in failed if w.topic not in names)
                for b, failed in self.offline.items()
            },
        )


def _without(mapping: Mapping[Key, Value], keys: Set[Key]) -> dict[Key, Value]:
    return {key: value for key, value in mapping.items() if key not in keys}
