"""What members of a group tell each other through the coordinator: subscriptions, assignments.

Each is a version of two bytes and a message. Assignments are written in version 0, which every
client reads; all later versions look the same. Pure; used by `membership`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from odradek.client.assignors import (
    ASSIGNORS,
    Assignment,
    Assignor,
    Member,
    by_topic,
)
from odradek.protocol.compiler import decode, encode
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)
from odradek.protocol.messages.groups import JoinGroupResponseMember
from odradek.protocol.types import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = Struct(">h")
_SUBSCRIPTION_VERSION: Final = 3
_ASSIGNMENT_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class Wish:
    """What this member wants and has when it joins."""

    topics: frozenset[str]
    owned: tuple[TopicPartition, ...]
    generation: int
    rack: str | None


def chosen_assignors(names: Iterable[str]) -> list[Assignor]:
    return [ASSIGNORS[name] for name in names]


def is_cooperative(assignors: Iterable[Assignor]) -> bool:
    """Only if every assignor that may be chosen is: otherwise everything is given up first."""
    return all(assignor.cooperative for assignor in assignors)


def encode_wish(wish: Wish, assignor: Assignor, remembered: Iterable[TopicPartition]) -> bytes:
    """`remembered` is what the member had, even if it gave it up for this rebalance."""
    subscription = ConsumerProtocolSubscription(
        topics=sorted(wish.topics),
        user_data=assignor.user_data(remembered, wish.generation),
        owned_partitions=[
            SubscriptionTopicPartition(topic=name, partitions=indexes)
            for name, indexes in by_topic(wish.owned).items()
        ],
        generation_id=wish.generation,
        rack_id=wish.rack,
    )
    return _VERSION.pack(_SUBSCRIPTION_VERSION) + encode(subscription, _SUBSCRIPTION_VERSION)


def read_member(row: JoinGroupResponseMember) -> Member:
    (version,) = _VERSION.unpack_from(row.metadata)
    told = decode(
        ConsumerProtocolSubscription,
        min(version, _SUBSCRIPTION_VERSION),
        bytes(row.metadata),
        _VERSION.size,
    )
    owned = [
        TopicPartition(t.topic, index) for t in told.owned_partitions for index in t.partitions
    ]
    return Member(
        member_id=row.member_id,
        topics=tuple(told.topics),
        owned=tuple(owned),
        generation=told.generation_id,
        instance_id=row.group_instance_id,
        user_data=None if told.user_data is None else bytes(told.user_data),
    )


def share_out(name: str, members: list[Member], counts: Mapping[str, int]) -> Assignment:
    if name not in ASSIGNORS:
        raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL, f"the group chose {name!r}")
    asked = {topic for member in members for topic in member.topics}
    return ASSIGNORS[name].assign(members, {t: c for t, c in counts.items() if t in asked})


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignmentTopicPartition(topic=name, partitions=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    )
    return _VERSION.pack(_ASSIGNMENT_VERSION) + encode(assignment, _ASSIGNMENT_VERSION)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """What the leader gave this member; nothing when it forgot it. Raises KafkaError."""
    if not data:
        return []
    try:
        told = decode(ConsumerProtocolAssignment, _ASSIGNMENT_VERSION, data, _VERSION.size)
    except ProtocolError as error:
        raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL, f"assignment: {error}") from None
    return [
        TopicPartition(t.topic, index) for t in told.assigned_partitions for index in t.partitions
    ]
