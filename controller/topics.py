"""What makes a topic acceptable: names, counts, replicas, configs. Pure; errors as Kafka's.

Everything is checked before anything is written. `plan_topic` and `plan_growth` give the replicas
of each new partition or raise `KafkaError` with the code and sentence a client is to see.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from odradek.controller.image import Topic
from odradek.controller.placement import Start, place
from odradek.controller.znodes import Assignment
from odradek.protocol.errors import Errors, KafkaError

MAX_NAME_LENGTH: Final = 249
DEFAULT: Final = -1

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")

Racks = Mapping[int, str | None]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic as it is asked for: counts (-1 is the default) or the replicas themselves."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Growth:
    """More partitions for a topic: the new total, and replicas of the added ones if wished."""

    topic: str
    count: int
    assignments: Sequence[tuple[int, ...]] | None = None


def _accept_any_config(configs: Mapping[str, str]) -> None:
    """For callers that checked before."""


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The broker's defaults and limits. `check_config` raises KafkaError for a bad setting."""

    default_partitions: int = 1
    default_replication_factor: int = 1
    max_partitions: int = 20_000
    check_config: Callable[[Mapping[str, str]], None] = _accept_any_config


def check_name(name: str) -> None:
    """KafkaError unless `name` can be a topic: it becomes a path, a directory and a metric."""
    if not name:
        problem = "the name is empty"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"the length of the name is longer than {MAX_NAME_LENGTH} characters"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = "it contains characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    shown = name[:MAX_NAME_LENGTH].encode("ascii", "backslashreplace").decode()
    raise KafkaError(Errors.INVALID_TOPIC_EXCEPTION, f"Topic name {shown!r} is illegal: {problem}.")


def collides_with(name: str, existing: Collection[str]) -> list[str]:
    """Topics whose metrics could not be told from those of `name`: dots become underscores."""
    if "." not in name and "_" not in name:
        return []
    flat = name.replace(".", "_")
    return sorted(other for other in existing if other.replace(".", "_") == flat and other != name)


def plan_topic(
    new: NewTopic, *, existing: Collection[str], racks: Racks, rules: TopicRules, random: Random
) -> dict[int, tuple[int, ...]]:
    """Replicas of every partition of a new topic. `existing` includes topics being deleted."""
    check_name(new.name)
    if new.name in existing:
        raise KafkaError(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' already exists.")
    others = collides_with(new.name, existing)
    if others:
        raise KafkaError(
            Errors.INVALID_TOPIC_EXCEPTION,
            f"Topic '{new.name}' collides with existing topics: {', '.join(others[:10])}",
        )
    placed = _given_replicas(new) if new.assignments else _placed(new, racks, rules, random)
    if len(placed) > rules.max_partitions:
        raise _too_many(len(placed), rules)
    rules.check_config(given_configs(new))
    return placed


def given_configs(new: NewTopic) -> dict[str, str]:
    missing = sorted(name for name, value in new.configs.items() if value is None)
    if missing:
        raise KafkaError(
            Errors.INVALID_CONFIG,
            f"Null value not supported for topic configs: {', '.join(missing)}",
        )
    return {name: value for name, value in new.configs.items() if value is not None}


def _placed(
    new: NewTopic, racks: Racks, rules: TopicRules, random: Random
) -> dict[int, tuple[int, ...]]:
    partitions = rules.default_partitions if new.partitions == DEFAULT else new.partitions
    factor = new.replication_factor
    if factor == DEFAULT:
        factor = rules.default_replication_factor
    if partitions < 1:
        raise KafkaError(Errors.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if partitions > rules.max_partitions:
        raise _too_many(partitions, rules)
    if not racks:
        # Without brokers any factor is too large; there is nowhere to start from either.
        return place(racks, partitions=range(0), replication_factor=factor, start=Start(0, 0))
    start = Start(random.randrange(len(racks)), random.randrange(len(racks)))
    return place(racks, partitions=range(partitions), replication_factor=factor, start=start)


def _too_many(partitions: int, rules: TopicRules) -> KafkaError:
    return KafkaError(
        Errors.POLICY_VIOLATION,
        f"{partitions} partitions are more than the {rules.max_partitions} a topic may have.",
    )


def _given_replicas(new: NewTopic) -> dict[int, tuple[int, ...]]:
    """Brokers that are not there are no mistake in a new topic; in growth, they are."""
    if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    if sorted(new.assignments) != list(range(len(new.assignments))):
        raise _bad_replicas("Partitions should be a consecutive 0-based integer sequence.")
    _check_replicas(new.assignments.values(), len(new.assignments[0]))
    return dict(sorted(new.assignments.items()))


def _check_replicas(lists: Collection[tuple[int, ...]], factor: int) -> None:
    for replicas in lists:
        if not replicas:
            raise _bad_replicas("A partition needs at least one replica.")
        if len(set(replicas)) < len(replicas):
            raise _bad_replicas(f"Duplicate brokers not allowed in replica assignment: {replicas}.")
        if len(replicas) != factor:
            raise _bad_replicas("All partitions should have the same number of replicas.")


def _bad_replicas(message: str) -> KafkaError:
    return KafkaError(Errors.INVALID_REPLICA_ASSIGNMENT, message)


def plan_growth(
    growth: Growth, topic: Topic, *, racks: Racks, rules: TopicRules
) -> dict[int, tuple[int, ...]]:
    """Replicas of the partitions to add to a topic, spread on from its first partition."""
    have = len(topic.assignments)
    if any(assignment.is_moving for assignment in topic.assignments.values()):
        raise KafkaError(
            Errors.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{topic.name}'.",
        )
    if growth.count < have:
        raise KafkaError(
            Errors.INVALID_PARTITIONS,
            f"Topic currently has {have} partitions, which is higher than the requested "
            f"{growth.count}.",
        )
    if growth.count == have:
        raise KafkaError(Errors.INVALID_PARTITIONS, f"Topic already has {have} partitions.")
    if growth.count > rules.max_partitions:
        raise _too_many(growth.count, rules)
    first = topic.assignments[min(topic.assignments)]
    added = range(have, growth.count)
    if growth.assignments is None:
        start = _start_after(first, racks)
        factor = len(first.replicas)
        return place(racks, partitions=added, replication_factor=factor, start=start)
    if len(growth.assignments) != len(added):
        raise _bad_replicas(
            f"Increasing the number of partitions by {len(added)} but "
            f"{len(growth.assignments)} assignments provided."
        )
    _check_replicas(growth.assignments, len(first.replicas))
    unknown = sorted(
        {broker for replicas in growth.assignments for broker in replicas} - racks.keys()
    )
    if unknown:
        raise _bad_replicas(f"Unknown broker(s) in replica assignment: {unknown}.")
    return dict(zip(added, growth.assignments, strict=True))


def _start_after(first: Assignment, racks: Racks) -> Start:
    """Go on in the circle that the topic's first partition began."""
    brokers = sorted(racks)
    head = first.replicas[0]
    index = next((i for i, broker in enumerate(brokers) if broker >= head), 0)
    return Start(index, index)
