"""The sticky assignment: even shares, and as few partitions moved as possible.

First the members' claims to what they owned are settled: of two claims the newer generation wins,
and a partition claimed twice in one generation belongs to nobody. Then, if all members subscribe
to the same topics, everyone keeps what fits into an even share and the rest is dealt out
(`even_shares`); otherwise `sticky_balance` moves single partitions until nothing gets better.

The order in which members are visited decides ties, and is Java's (see `java_order`), so that the
result is the same whichever client leads the group. Racks are not looked at.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.client.java_order import hash_order, string_hash
from odradek.client.sticky_balance import Balance
from odradek.protocol.types import TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says it owned, and since which generation if it knows.

    `announced` is the generation in its subscription itself, which older clients do not send.
    """

    member_id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    generation: int | None = None
    announced: int = NO_GENERATION


@dataclass(slots=True)
class Settled:
    """The claims after conflicts are resolved, in the order of visits."""

    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    claimed_twice: set[TopicPartition] = field(default_factory=set)
    newest_generation: int = NO_GENERATION
    is_uniform: bool = True


@dataclass(frozen=True, slots=True)
class StickyAssignment:
    """`moving`: who gets a partition that somebody else still has."""

    partitions: dict[str, list[TopicPartition]]
    moving: dict[TopicPartition, str]


def sticky_assignment(claims: Sequence[Claim], counts: Mapping[str, int]) -> StickyAssignment:
    visits = hash_order(claims, lambda claim: string_hash(claim.member_id))
    settled = settle(visits, counts)
    if settled.is_uniform:
        return EvenShares(settled, counts).dealt()
    previous = previous_owners(visits, settled.newest_generation)
    topics = {claim.member_id: claim.topics for claim in visits}
    balanced = Balance(topics, counts, settled.owned, previous).balanced()
    return StickyAssignment(balanced, moving_partitions(claims, balanced))


def settle(visits: Iterable[Claim], counts: Mapping[str, int]) -> Settled:
    settled = Settled()
    topics: set[str] = set()
    announced = {claim.member_id: claim.announced for claim in visits}
    owners: dict[TopicPartition, str] = {}
    for claim in visits:
        if not topics:
            topics.update(claim.topics)
        elif len(claim.topics) != len(topics) or not topics.issuperset(claim.topics):
            settled.is_uniform = False
        generation = NO_GENERATION if claim.generation is None else claim.generation
        settled.newest_generation = max(settled.newest_generation, generation)
        mine = settled.owned[claim.member_id] = []
        for partition in claim.owned:
            if partition.topic not in counts:
                continue
            rival = owners.get(partition)
            if rival is None:
                mine.append(partition)
                owners[partition] = claim.member_id
            elif generation >= announced[rival]:
                if partition in settled.owned[rival]:
                    settled.owned[rival].remove(partition)
                owners[partition] = claim.member_id
                if generation == announced[rival]:
                    settled.claimed_twice.add(partition)
                else:
                    mine.append(partition)
    return settled


def previous_owners(visits: Iterable[Claim], newest: int) -> dict[TopicPartition, str]:
    """Who had a partition in the generation before the newest one that has a claim to it."""
    found: dict[TopicPartition, tuple[int, str]] = {}
    for claim in visits:
        if claim.generation is None:
            if newest <= NO_GENERATION:
                continue
            generation = NO_GENERATION
        elif claim.generation < newest:
            generation = claim.generation
        else:
            continue
        for partition in claim.owned:
            if partition not in found or generation > found[partition][0]:
                found[partition] = (generation, claim.member_id)
    return {partition: member for partition, (_, member) in found.items()}


def moving_partitions(
    claims: Iterable[Claim], assignment: Mapping[str, Sequence[TopicPartition]]
) -> dict[TopicPartition, str]:
    owned = {claim.member_id: set(claim.owned) for claim in claims}
    revoked = {
        partition
        for member, partitions in owned.items()
        for partition in partitions.difference(assignment[member])
    }
    return {
        partition: member
        for member, partitions in assignment.items()
        for partition in partitions
        if partition not in owned[member] and partition in revoked
    }


class EvenShares:
    """Everybody gets the same number of partitions, or one more.

    Members below the lower share wait in `hungry`; members with exactly the lower share wait in
    `content` as long as the higher share is not given to as many members as it must be.
    """

    def __init__(self, settled: Settled, counts: Mapping[str, int]) -> None:
        self._settled = settled
        self._all = [
            TopicPartition(topic, index)
            for topic in sorted(counts)
            for index in range(counts[topic])
        ]
        members = len(settled.owned)
        self._low = len(self._all) // members
        self._high = -(-len(self._all) // members)
        self._high_shares_left = len(self._all) % members
        self._hungry: list[str] = []
        self._content: deque[str] = deque()
        self._given: dict[str, list[TopicPartition]] = {member: [] for member in settled.owned}
        self._taken_from: dict[TopicPartition, str] = {}
        self._moving: dict[TopicPartition, str] = {}

    def dealt(self) -> StickyAssignment:
        for member in self._settled.owned:
            self._keep_own(member)
        self._hungry.sort()
        self._content = deque(sorted(self._content))
        kept = {partition for given in self._given.values() for partition in given}
        self._deal([partition for partition in self._all if partition not in kept])
        return StickyAssignment(self._given, self._moving)

    def _keep_own(self, member: str) -> None:
        owned = sorted(
            set(self._settled.owned[member]) - self._settled.claimed_twice,
            key=lambda partition: (partition.partition, partition.topic),
        )
        if len(owned) < self._low:
            share = len(owned)
            self._hungry.append(member)
        elif len(owned) >= self._high and self._high_shares_left:
            share = self._high
            self._high_shares_left -= 1
            if not self._high_shares_left:
                self._content.clear()
        else:
            share = self._low
            if self._high_shares_left:
                self._content.append(member)
        self._given[member] += owned[:share]
        self._taken_from.update(dict.fromkeys(owned[share:], member))

    def _deal(self, partitions: Iterable[TopicPartition]) -> None:
        """Round and round to the hungry until nobody is, then one each to the content."""
        turn = 0
        for partition in partitions:
            if not self._hungry:
                self._give(partition, self._content.popleft())
                continue
            turn %= len(self._hungry)
            member = self._hungry[turn]
            if self._give(partition, member) == self._low:
                del self._hungry[turn]
                self._content.append(member)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member: str) -> int:
        given = self._given[member]
        given.append(partition)
        before = self._taken_from.get(partition, member)
        if before != member or partition in self._settled.claimed_twice:
            self._moving[partition] = member
        return len(given)
