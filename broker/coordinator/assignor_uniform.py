"""The assignor `uniform`: loads as even as the wishes allow, and as little moved as that allows.

Topics that the same members want form a pool. A pool is dealt out so that the loads of its members
are level, what they have of other pools counted in; whoever holds partitions of it keeps them up
to its share. One pool levels another's work out of balance, so pools are dealt again until that
makes nothing more even. With one pool, which is the common case, one deal is enough.

In the end no partition can move between two of its subscribers and make their loads more even. An
assignment that is so already is left as it is.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.broker.coordinator.assignments import Assignment, Slot, gathered
from odradek.broker.coordinator.wishes import PartitionCounts, Wishes, subscribers


@dataclass(slots=True)
class _Pool:
    members: tuple[str, ...]
    slots: tuple[Slot, ...]
    dealt: dict[str, list[Slot]]
    """What each member has of the pool, in the order of the slots."""


def assign_uniformly(wishes: Wishes, counts: PartitionCounts) -> dict[str, Assignment]:
    pools = _pools(wishes, counts)
    loads: Counter[str] = Counter()
    for pool in pools:
        loads.update({member_id: len(slots) for member_id, slots in pool.dealt.items()})
    unevenness: int | None = None
    while True:
        for pool in pools:
            _deal(pool, loads)
        now = sum(load * load for load in loads.values())
        if len(pools) == 1 or (unevenness is not None and now >= unevenness):
            break
        unevenness = now
    assigned: dict[str, list[Slot]] = {member_id: [] for member_id in wishes}
    for pool in pools:
        for member_id, slots in pool.dealt.items():
            assigned[member_id] += slots
    return {member_id: gathered(slots) for member_id, slots in assigned.items()}


def _pools(wishes: Wishes, counts: PartitionCounts) -> list[_Pool]:
    """Those with few members first: they have the least choice."""
    topics: dict[tuple[str, ...], list[bytes]] = {}
    for topic_id, wanting in subscribers(wishes).items():
        topics.setdefault(tuple(sorted(wanting)), []).append(topic_id)
    pools = []
    for members, topic_ids in sorted(topics.items(), key=lambda item: (len(item[0]), item[0])):
        slots = tuple((t, number) for t in sorted(topic_ids) for number in range(counts[t]))
        pools.append(_Pool(members, slots, _kept(wishes, members, slots)))
    return pools


def _kept(wishes: Wishes, members: Sequence[str], slots: Sequence[Slot]) -> dict[str, list[Slot]]:
    """What each has of these slots already; what two claim, the first keeps."""
    holders: dict[Slot, str] = {}
    for member_id in members:
        for topic_id, partitions in wishes[member_id].held.items():
            for partition in partitions:
                holders.setdefault((topic_id, partition), member_id)
    kept: dict[str, list[Slot]] = {member_id: [] for member_id in members}
    for slot in slots:
        if (holder := holders.get(slot)) is not None:
            kept[holder].append(slot)
    return kept


def _deal(pool: _Pool, loads: Counter[str]) -> None:
    """Level the loads of the pool's members with the pool's partitions."""
    held = {member_id: len(slots) for member_id, slots in pool.dealt.items()}
    others = {member_id: loads[member_id] - held[member_id] for member_id in pool.members}
    shares = level_shares(others, held, len(pool.slots))
    dealt = {member_id: pool.dealt[member_id][:count] for member_id, count in shares.items()}
    taken = {slot for slots in dealt.values() for slot in slots}
    left = iter([slot for slot in pool.slots if slot not in taken])
    hungry = [member_id for member_id, count in shares.items() if len(dealt[member_id]) < count]
    while hungry:
        for member_id in hungry:
            dealt[member_id].append(next(left))
        hungry = [member_id for member_id in hungry if len(dealt[member_id]) < shares[member_id]]
    for member_id, count in shares.items():
        loads[member_id] = others[member_id] + count
        dealt[member_id].sort()
    pool.dealt = dealt


def level_shares(others: Mapping[str, int], held: Mapping[str, int], total: int) -> dict[str, int]:
    """How many of `total` each member gets, so that with the others it has all loads are level.

    Where it is all the same for the loads, those who hold more keep more.
    """
    level = _level([*others.values()], total)
    shares = {member_id: max(0, level - other) for member_id, other in others.items()}
    left = total - sum(shares.values())
    candidates = [member_id for member_id, other in others.items() if other <= level]
    candidates.sort(key=lambda member_id: held[member_id] <= shares[member_id])
    for member_id in candidates[:left]:
        shares[member_id] += 1
    return shares


def _level(loads: list[int], total: int) -> int:
    """The highest level to which so much fills the loads up."""
    loads.sort()
    filled, level = 0, loads[0]
    for number, load in enumerate(loads[1:], 1):
        step = (load - level) * number
        if filled + step > total:
            return level + (total - filled) // number
        filled += step
        level = load
    return level + (total - filled) // len(loads)
