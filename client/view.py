"""What a client knows of the cluster: immutable values, made anew from each Metadata answer.

A partition's leader is only replaced by news that is not older: brokers may be asked in any order,
and one that lags must not send us back to a leader of the past (leader epochs tell).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from odradek.protocol.errors import Errors
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.types import NO_ID, TopicPartition

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionView:
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    error: int = 0


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionView]
    error: int = 0
    authorized_operations: int = -(1 << 31)

    @property
    def partition_count(self) -> int:
        return len(self.partitions)


@dataclass(frozen=True, slots=True)
class ClusterView:
    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)

    def partition(self, partition: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def leader_of(self, partition: TopicPartition) -> Node | None:
        known = self.partition(partition)
        return None if known is None else self.nodes.get(known.leader)

    def partitions_of(self, topics: Iterable[str]) -> Iterator[TopicPartition]:
        for name in topics:
            topic = self.topics.get(name)
            if topic is not None:
                yield from (TopicPartition(name, index) for index in topic.partitions)

    def topic_ids(self) -> dict[bytes, str]:
        return {topic.id: topic.name for topic in self.topics.values() if topic.id != NO_ID}

    def with_leader(
        self, partition: TopicPartition, leader: Node, leader_epoch: int
    ) -> "ClusterView":
        """What a refused produce or fetch told us of the new leader."""
        topic = self.topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        if topic is None or known is None or known.leader_epoch >= leader_epoch:
            return self
        moved = replace(known, leader=leader.id, leader_epoch=leader_epoch, error=0)
        partitions = {**topic.partitions, partition.partition: moved}
        topics = {**self.topics, topic.name: replace(topic, partitions=partitions)}
        return replace(self, nodes={**self.nodes, leader.id: leader}, topics=topics)


def merged(
    view: ClusterView, answer: MetadataResponse, *, keep: Iterable[str] | None
) -> ClusterView:
    """The view after an answer. `keep` names topics that stay although they were not asked for;
    None says that the answer is about all topics."""
    topics = {} if keep is None else {name: view.topics[name] for name in keep}
    for told in answer.topics:
        if told.name is not None:
            topics[told.name] = _topic(told, view.topics.get(told.name))
    return ClusterView(
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
        nodes={
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in answer.brokers
        },
        topics=topics,
    )


def _topic(told: MetadataResponseTopic, known: TopicView | None) -> TopicView:
    assert told.name is not None
    is_same = known is not None and known.id == told.topic_id
    before = known.partitions if known is not None and is_same else {}
    partitions = {
        row.partition_index: _partition(row, before.get(row.partition_index))
        for row in sorted(told.partitions, key=lambda row: row.partition_index)
    }
    return TopicView(
        name=told.name,
        id=told.topic_id,
        is_internal=told.is_internal,
        partitions=partitions,
        error=told.error_code,
        authorized_operations=told.topic_authorized_operations,
    )


def _partition(row: MetadataResponsePartition, known: PartitionView | None) -> PartitionView:
    if known is not None and known.leader_epoch > row.leader_epoch >= 0:
        return known
    has_leader = row.error_code not in (Errors.LEADER_NOT_AVAILABLE, Errors.LISTENER_NOT_FOUND)
    return PartitionView(
        index=row.partition_index,
        leader=row.leader_id if has_leader else NO_LEADER,
        leader_epoch=row.leader_epoch,
        replicas=tuple(row.replica_nodes),
        isr=tuple(row.isr_nodes),
        offline=tuple(row.offline_replicas),
        error=row.error_code,
    )
