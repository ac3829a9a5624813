"""What classic members of a consumer group tell each other, as far as the coordinator can tell.

The metadata of members is their own business; of consumers, Kafka's coordinator reads along, to
know whose offsets are in use, and to speak for members of the classic protocol in groups of the
consumer protocol. What does not read as a subscription makes the answer unknown.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final

from odradek.broker.coordinator.assignments import NOTHING, Assignment, gathered
from odradek.broker.coordinator.topic_shapes import Topics
from odradek.protocol.compiler import decode, encode
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

CONSUMER: Final = "consumer"

_VERSION: Final = Struct(">h")
_LATEST: Final = 3


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all these subscriptions; None when one of them cannot be read."""
    topics: set[str] = set()
    for each in metadata:
        try:
            topics.update(read_subscription(each).topics)
        except ProtocolError:
            return None
    return frozenset(topics)


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    return decode(ConsumerProtocolSubscription, version_of(metadata), metadata, _VERSION.size)


def read_assignment(data: bytes, topics: Topics) -> Assignment:
    """The partitions of an assignment, of the topics that there are; nothing reads as nothing."""
    if not data:
        return NOTHING
    given = decode(ConsumerProtocolAssignment, version_of(data), data, _VERSION.size)
    return gathered(
        (topics[each.topic].id, partition)
        for each in given.assigned_partitions
        if each.topic in topics
        for partition in each.partitions
    )


def owned_partitions(subscription: ConsumerProtocolSubscription, topics: Topics) -> Assignment:
    """What a member says it holds; one of old says nothing, and holds nothing when it joins."""
    return gathered(
        (topics[each.topic].id, partition)
        for each in subscription.owned_partitions
        if each.topic in topics
        for partition in each.partitions
    )


def write_assignment(assignment: Assignment, names: Mapping[bytes, str], version: int) -> bytes:
    """An assignment for a member of the classic protocol; topics that are gone are left out."""
    value = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignmentTopicPartition(topic=names[topic_id], partitions=sorted(partitions))
            for topic_id, partitions in assignment.items()
            if topic_id in names
        ]
    )
    return _VERSION.pack(version) + encode(value, version)


def version_of(data: bytes) -> int:
    """The version to read it in: a newer one than is known only adds fields at the end."""
    if len(data) < _VERSION.size:
        raise ProtocolError("a message of the consumer protocol has no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"a message of the consumer protocol has version {version}")
    return min(int(version), _LATEST)
