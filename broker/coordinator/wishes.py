"""What an assignor of consumer groups is asked: who wants what, and how much of it there is."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from odradek.broker.coordinator.assignments import Assignment


class Wish(NamedTuple):
    """What an assignor knows of a member."""

    topics: frozenset[bytes]
    """Ids of the topics that it wants, of those that there are."""
    held: Assignment
    """Its share of the last assignment."""
    instance_id: str | None = None


Wishes: TypeAlias = Mapping[str, Wish]
"""By member id."""
PartitionCounts: TypeAlias = Mapping[bytes, int]
"""By topic id."""


def subscribers(wishes: Wishes) -> dict[bytes, list[str]]:
    """Who wants each topic, in the order of the wishes."""
    found: dict[bytes, list[str]] = {}
    for member_id, wish in wishes.items():
        for topic_id in wish.topics:
            found.setdefault(topic_id, []).append(member_id)
    return found
