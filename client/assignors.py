"""How the leader of a group shares partitions out: pure functions, with Java's results exactly.

Every assignor takes the members and the number of partitions of each topic they subscribe to, and
says what each member gets. Partition lists of "range" and "roundrobin" depend on nothing else; the
sticky ones also on what members owned before (see `sticky`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from odradek.client.sticky import NO_GENERATION, Claim, sticky_assignment
from odradek.protocol.compiler import decode, encode
from odradek.protocol.errors import ProtocolError
from odradek.protocol.schema import INT32, Data, Struct, array, int32, string
from odradek.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    instance_id: str | None = None
    user_data: bytes | None = None


Assignment = dict[str, list[TopicPartition]]
PartitionCounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Assignor:
    """`cooperative`: members keep their partitions while a rebalance goes on."""

    name: str
    assign: Callable[[Sequence[Member], PartitionCounts], Assignment]
    cooperative: bool = False
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None] = field(
        default=lambda owned, generation: None
    )


def turn_order(members: Iterable[Member]) -> list[Member]:
    """Static members first, by their instance ids, then the others by their member ids."""
    return sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or m.member_id))


def assign_ranges(members: Sequence[Member], counts: PartitionCounts) -> Assignment:
    """Each topic by itself is cut into as many ranges as it has members."""
    assignment: Assignment = {member.member_id: [] for member in members}
    in_turn = turn_order(members)
    for topic, count in counts.items():
        subscribed = [member for member in in_turn if topic in member.topics]
        begin = 0
        for place, member in enumerate(subscribed):
            end = begin + count // len(subscribed) + (place < count % len(subscribed))
            assignment[member.member_id] += (TopicPartition(topic, i) for i in range(begin, end))
            begin = end
    return assignment


def assign_round_robin(members: Sequence[Member], counts: PartitionCounts) -> Assignment:
    """All partitions in order, each to the next member that subscribes to its topic."""
    assignment: Assignment = {member.member_id: [] for member in members}
    subscribed = {topic for member in members for topic in member.topics}
    turns = cycle(turn_order(members))
    for topic in sorted(subscribed & counts.keys()):
        for index in range(counts[topic]):
            taker = next(member for member in turns if topic in member.topics)
            assignment[taker.member_id].append(TopicPartition(topic, index))
    return assignment


class OwnedTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(INT32)


class StickyUserData(Data, versions="0-1"):
    """What a member of the eager sticky assignor says it had before it gave everything up."""

    previous_assignment: list[OwnedTopic] = array(OwnedTopic)
    generation: int = int32("1+", default=NO_GENERATION)


class CooperativeUserData(Data, versions="0"):
    """The generation in which a member got what it owns, for leaders of an older protocol."""

    generation: int = int32()


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def sticky_user_data(owned: Iterable[TopicPartition], generation: int) -> bytes | None:
    if generation == NO_GENERATION:
        return None
    topics = [OwnedTopic(topic=name, partitions=ids) for name, ids in by_topic(owned).items()]
    return encode(StickyUserData(previous_assignment=topics, generation=generation), 1)


def sticky_memory(member: Member) -> tuple[tuple[TopicPartition, ...], int | None]:
    """What the member owned and in which generation; None when it does not say."""
    if not member.user_data:
        return (), None
    for version in (1, 0):
        try:
            told = decode(StickyUserData, version, member.user_data)
        except ProtocolError:
            continue
        owned = [
            TopicPartition(row.topic, i) for row in told.previous_assignment for i in row.partitions
        ]
        return tuple(owned), told.generation if version else None
    return (), NO_GENERATION


def cooperative_user_data(owned: Iterable[TopicPartition], generation: int) -> bytes | None:
    return encode(CooperativeUserData(generation=generation), 0)


def cooperative_memory(member: Member) -> tuple[tuple[TopicPartition, ...], int | None]:
    if member.generation != NO_GENERATION or not member.user_data:
        generation = None if member.generation == NO_GENERATION else member.generation
        return member.owned, generation
    try:
        return member.owned, decode(CooperativeUserData, 0, member.user_data).generation
    except ProtocolError:
        return member.owned, NO_GENERATION


def assign_sticky(members: Sequence[Member], counts: PartitionCounts) -> Assignment:
    claims = [Claim(m.member_id, m.topics, *sticky_memory(m), m.generation) for m in members]
    return sticky_assignment(claims, counts).partitions


def assign_cooperatively(members: Sequence[Member], counts: PartitionCounts) -> Assignment:
    """Sticky, but a partition that somebody still has is given to nobody yet: its owner gives it
    up first, and the next rebalance hands it over."""
    claims = [Claim(m.member_id, m.topics, *cooperative_memory(m), m.generation) for m in members]
    result = sticky_assignment(claims, counts)
    for partition, member in result.moving.items():
        result.partitions[member].remove(partition)
    return result.partitions


ASSIGNORS: Mapping[str, Assignor] = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", assign_ranges),
        Assignor("roundrobin", assign_round_robin),
        Assignor("sticky", assign_sticky, user_data=sticky_user_data),
        Assignor(
            "cooperative-sticky",
            assign_cooperatively,
            cooperative=True,
            user_data=cooperative_user_data,
        ),
    )
}
