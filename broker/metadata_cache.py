"""The cluster as this broker's clients are told of it: an immutable view, swapped as a whole.

The controller sends UpdateMetadata; nothing else changes the view. A reader takes `view` once and
sees one state of the cluster however long it works with it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from odradek.protocol.endpoints import Endpoint, SecurityProtocol
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.replicas import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.types import NO_ID, TopicPartition

NO_LEADER = -1
NO_EPOCH = -1
# In an UpdateMetadata, a partition whose topic is being deleted.
LEADER_DURING_DELETE = -2
# The type of an UpdateMetadata that tells all there is: what it does not name is no more.
FULL = 2


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    id: bytes
    partitions: Mapping[int, PartitionInfo]


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    id: int
    rack: str | None
    endpoints: Mapping[str, Endpoint]


@dataclass(frozen=True, slots=True)
class ClusterView:
    controller_id: int = -1
    brokers: Mapping[int, BrokerInfo] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    names_by_id: Mapping[bytes, str] = field(default_factory=dict)

    @property
    def is_told(self) -> bool:
        """Whether a controller has said anything yet; before that, not even we are there."""
        return bool(self.brokers)

    def topic(self, name: str, topic_id: bytes = NO_ID) -> TopicInfo | None:
        """The topic of this id, or of this name when no id is given."""
        return self.topics.get(name if topic_id == NO_ID else self.names_by_id.get(topic_id, ""))

    def partition(self, where: TopicPartition) -> PartitionInfo | None:
        topic = self.topics.get(where.topic)
        return None if topic is None else topic.partitions.get(where.partition)

    def hosts_any(self, broker_id: int) -> bool:
        """Whether the broker is a replica of anything."""
        return any(
            broker_id in partition.replicas
            for topic in self.topics.values()
            for partition in topic.partitions.values()
        )

    def endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(listener)


Condition = Callable[[ClusterView], bool]


class MetadataCache:
    """Holds the current view. One owner: the handler of UpdateMetadata."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self.controller_epoch = 0
        self._waiting: list[tuple[Condition, asyncio.Future[None]]] = []
        self._deletion_listeners: list[Callable[[frozenset[str]], None]] = []

    def listen_for_deletions(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Be told of topics that are no more, or are others of the same name."""
        self._deletion_listeners.append(listener)

    async def wait_until(self, condition: Condition, timeout_seconds: float | None) -> bool:
        """Whether the view came to meet the condition before the time was over, if it ever is."""
        if condition(self.view):
            return True
        met: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, met))
        try:
            await asyncio.wait_for(met, timeout_seconds)
        except TimeoutError:
            return False
        finally:
            self._waiting = [entry for entry in self._waiting if entry[1] is not met]
        return True

    def apply(self, request: UpdateMetadataRequest) -> None:
        """Take over what the controller says. Raises KafkaError when an old one says it."""
        if request.controller_epoch < self.controller_epoch:
            raise KafkaError(
                Errors.STALE_CONTROLLER_EPOCH,
                f"epoch {request.controller_epoch} is over, {self.controller_epoch} is known",
            )
        self.controller_epoch = request.controller_epoch
        former = self.view
        kept = ClusterView() if request.type == FULL else former
        topics = dict(kept.topics)
        names_by_id = dict(kept.names_by_id)
        for state in _topic_states(request):
            known = topics.pop(state.topic_name, None)
            if known is not None:
                names_by_id.pop(known.id, None)
            topic = _merged(known, state)
            if topic.partitions:
                topics[topic.name] = topic
                names_by_id[topic.id] = topic.name
        names_by_id.pop(NO_ID, None)
        self.view = ClusterView(
            controller_id=request.controller_id,
            brokers={broker.id: _broker(broker) for broker in request.live_brokers},
            topics=topics,
            names_by_id=names_by_id,
        )
        for condition, met in self._waiting:
            if not met.done() and condition(self.view):
                met.set_result(None)
        # What is gone from a full picture was deleted long ago, or cannot be read just now.
        deleted = frozenset() if request.type == FULL else _deleted(former, self.view)
        if deleted:
            for listener in self._deletion_listeners:
                listener(deleted)


def _deleted(former: ClusterView, now: ClusterView) -> frozenset[str]:
    return frozenset(
        name
        for name, topic in former.topics.items()
        if name not in now.topics or now.topics[name].id != topic.id
    )


def _topic_states(request: UpdateMetadataRequest) -> list[UpdateMetadataTopicState]:
    """What is told, by topic: before v5 partitions came in one list."""
    if not request.ungrouped_partition_states:
        return request.topic_states
    by_topic: dict[str, list[UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        by_topic.setdefault(state.topic_name, []).append(state)
    return [
        UpdateMetadataTopicState(topic_name=name, partition_states=states)
        for name, states in by_topic.items()
    ]


def _merged(known: TopicInfo | None, state: UpdateMetadataTopicState) -> TopicInfo:
    # A topic of the same name and another id is another topic: nothing of the old one stays.
    is_same = known is not None and state.topic_id in (NO_ID, known.id)
    partitions = dict(known.partitions) if known is not None and is_same else {}
    topic_id = known.id if known is not None and is_same else state.topic_id
    for partition in state.partition_states:
        if partition.leader == LEADER_DURING_DELETE:
            partitions.pop(partition.partition_index, None)
            continue
        if partition.leader_epoch == NO_EPOCH and partition.partition_index in partitions:
            continue  # only its existence was told, to those who did not know of it
        partitions[partition.partition_index] = PartitionInfo(
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            isr=tuple(partition.isr),
            replicas=tuple(partition.replicas),
            offline_replicas=tuple(partition.offline_replicas),
        )
    return TopicInfo(state.topic_name, topic_id, dict(sorted(partitions.items())))


def _broker(broker: UpdateMetadataBroker) -> BrokerInfo:
    endpoints = {
        e.listener: Endpoint(e.listener, SecurityProtocol(e.security_protocol), e.host, e.port)
        for e in broker.endpoints
    }
    return BrokerInfo(broker.id, broker.rack, endpoints)
