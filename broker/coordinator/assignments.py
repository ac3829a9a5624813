"""Sets of partitions by topic id, as members of consumer groups are given them.

An `Assignment` is never changed, and holds no topic without partitions; two of the same partitions
are therefore equal.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

Assignment: TypeAlias = Mapping[bytes, frozenset[int]]

NOTHING: Final[Assignment] = {}

# A topic id and the number of a partition.
Slot: TypeAlias = tuple[bytes, int]


def gathered(slots: Iterable[Slot]) -> Assignment:
    """The assignment of these partitions."""
    found: dict[bytes, set[int]] = {}
    for topic_id, partition in slots:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}


def slots_of(assignment: Assignment) -> Iterator[Slot]:
    for topic_id, partitions in assignment.items():
        for partition in partitions:
            yield topic_id, partition


def contains(whole: Assignment, part: Assignment) -> bool:
    return all(
        partitions <= whole.get(topic_id, frozenset()) for topic_id, partitions in part.items()
    )


def overlaps(one: Assignment, other: Assignment) -> bool:
    return any(not partitions.isdisjoint(other.get(id_, ())) for id_, partitions in one.items())


def common(one: Assignment, other: Assignment) -> Assignment:
    found = {id_: partitions & other.get(id_, frozenset()) for id_, partitions in one.items()}
    return {id_: partitions for id_, partitions in found.items() if partitions}


def without(whole: Assignment, part: Assignment) -> Assignment:
    found = {id_: partitions - part.get(id_, frozenset()) for id_, partitions in whole.items()}
    return {id_: partitions for id_, partitions in found.items() if partitions}


def joined(one: Assignment, other: Assignment) -> Assignment:
    found = dict(one)
    for topic_id, partitions in other.items():
        found[topic_id] = found.get(topic_id, frozenset()) | partitions
    return found
