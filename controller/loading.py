"""Reading the cluster out of the store, with watches on everything that may change.

A watch belongs to the read that set it, so nothing that changes in between is missed: whoever is
called back reads the same thing again. Nodes that cannot be understood are logged and left out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from odradek.controller import paths
from odradek.controller.configs import read_config, topic_entity
from odradek.controller.fields import BadNode, log, readable
from odradek.controller.image import Broker, ClusterImage, Topic
from odradek.controller.office import together
from odradek.controller.store import MetadataStore, NoNode, Watch
from odradek.controller.topics import check_name
from odradek.controller.znodes import BrokerRegistration, PartitionState, TopicAssignment
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Watches:
    """Whom to call when what was read has changed."""

    brokers: Watch
    topics: Watch
    topic: Callable[[str], Watch]
    deletions: Watch


@dataclass(frozen=True, slots=True)
class PartitionStates:
    states: Mapping[TopicPartition, PartitionState]
    # The transaction that wrote each of them last.
    written: Mapping[TopicPartition, int]
    damaged: frozenset[TopicPartition]


async def read_image(store: MetadataStore, watches: Watches) -> ClusterImage:
    """Everything a controller needs to begin."""
    brokers = await read_brokers(store, watches.brokers)
    names = await store.children(paths.TOPICS, watch=watches.topics)
    topics = await read_topics(store, names, watches.topic)
    found = await read_states(store, topics)
    configs = await together(read_config(store, topic_entity(topic.name)) for topic in topics)
    return ClusterImage(
        brokers=brokers,
        topics={topic.name: topic for topic in topics},
        states=found.states,
        damaged=found.damaged,
        returned=_returned(found, brokers),
        deleting=await read_deletions(store, watches.deletions),
        topic_configs={t.name: c for t, c in zip(topics, configs, strict=True) if c},
    )


def _returned(
    found: PartitionStates, brokers: Mapping[int, Broker]
) -> dict[TopicPartition, frozenset[int]]:
    """In-sync members that registered after the state was written. A controller that sees a broker
    come back writes the states of its partitions, so nobody saw these."""
    returned = {
        where: frozenset(
            member
            for member in state.isr
            if member in brokers and brokers[member].epoch > found.written[where]
        )
        for where, state in found.states.items()
    }
    return {where: members for where, members in returned.items() if members}


async def read_brokers(store: MetadataStore, watch: Watch) -> dict[int, Broker]:
    names = await store.children(paths.BROKER_IDS, watch=watch)
    ids = sorted(int(name) for name in names if name.isdecimal())
    found = await together(_read_broker(store, broker_id, watch) for broker_id in ids)
    return {broker.id: broker for broker in found if broker is not None}


async def _read_broker(store: MetadataStore, broker_id: int, watch: Watch) -> Broker | None:
    path = paths.broker(broker_id)
    try:
        data, stat = await store.get(path, watch=watch)
    except NoNode:
        return None
    registration = readable(path, data, BrokerRegistration.decode)
    return None if registration is None else Broker(broker_id, stat.czxid, registration)


async def read_topics(
    store: MetadataStore, names: Iterable[str], watch: Callable[[str], Watch]
) -> list[Topic]:
    legal = [name for name in names if _is_legal(name)]
    found = await together(read_topic(store, name, watch(name)) for name in legal)
    return [topic for topic in found if topic is not None]


def _is_legal(name: str) -> bool:
    """The name becomes a directory: one that no broker would have made must not get that far."""
    try:
        check_name(name)
    except KafkaError as error:
        log.error("skipping a topic: %s", error.message)
        return False
    return True


async def read_topic(store: MetadataStore, name: str, watch: Watch) -> Topic | None:
    path = paths.topic(name)
    try:
        data, stat = await store.get(path, watch=watch)
    except NoNode:
        return None
    found = readable(path, data, TopicAssignment.decode)
    return None if found is None else Topic(name, found.topic_id, found.partitions, stat.version)


async def read_states(store: MetadataStore, topics: Iterable[Topic]) -> PartitionStates:
    """The states of all partitions that have one, and those that have an unreadable one."""
    partitions = [where for topic in topics for where in topic.partitions()]
    outcomes = await together(_read_state(store, where) for where in partitions)
    pairs = list(zip(partitions, outcomes, strict=True))
    read = {where: outcome for where, outcome in pairs if isinstance(outcome, tuple)}
    return PartitionStates(
        states={where: state for where, (state, _) in read.items()},
        written={where: zxid for where, (_, zxid) in read.items()},
        damaged=frozenset(where for where, outcome in pairs if outcome is _DAMAGED),
    )


class _Mark(Enum):
    DAMAGED = "damaged"


_DAMAGED = _Mark.DAMAGED


async def _read_state(
    store: MetadataStore, where: TopicPartition
) -> tuple[PartitionState, int] | _Mark | None:
    path = paths.partition_state(where)
    try:
        data, stat = await store.get(path)
        return PartitionState.decode(data, stat.version), stat.mzxid
    except NoNode:
        return None
    except BadNode as error:
        log.error("leaving %s alone, its state %s cannot be read: %s", where, path, error)
        return _DAMAGED


async def read_deletions(store: MetadataStore, watch: Watch) -> frozenset[str]:
    return frozenset(await store.children(paths.DELETE_TOPICS, watch=watch))
