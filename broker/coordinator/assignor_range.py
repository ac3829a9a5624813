"""The assignor `range`: each topic is cut into as many ranges as it has subscribers.

Members are lined up in the same order for every topic, so that partitions of the same number of
topics with the same subscribers and the same number of partitions meet in one member: whoever
joins such topics relies on it. Static members stand in the order of their instance ids, and keep
their ranges over restarts.
"""

from odradek.broker.coordinator.assignments import Assignment
from odradek.broker.coordinator.wishes import PartitionCounts, Wish, Wishes, subscribers


def assign_ranges(wishes: Wishes, counts: PartitionCounts) -> dict[str, Assignment]:
    line = dict(sorted(wishes.items(), key=_place_in_line))
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in wishes}
    for topic_id, members in subscribers(line).items():
        start = 0
        share, larger = divmod(counts[topic_id], len(members))
        for number, member_id in enumerate(members):
            end = start + share + (number < larger)
            if end > start:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _place_in_line(item: tuple[str, Wish]) -> tuple[bool, str]:
    member_id, wish = item
    return wish.instance_id is None, wish.instance_id or member_id
