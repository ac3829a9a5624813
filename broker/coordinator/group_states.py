"""The states of a classic group, and which may follow which: the one table of transitions."""

from collections.abc import Mapping
from enum import Enum


class GroupState(Enum):
    """Values are what clients are told."""

    EMPTY = "Empty"
    """No members; perhaps offsets."""
    PREPARING = "PreparingRebalance"
    """Joins are collected: all members must come, or are dropped when the time is over."""
    COMPLETING = "CompletingRebalance"
    """Joins are answered; the leader's assignment is awaited."""
    STABLE = "Stable"
    """Every member can have its assignment."""
    DEAD = "Dead"
    """Removed: whoever still holds on to it must look the group up again."""


TRANSITIONS: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.PREPARING: frozenset({GroupState.COMPLETING, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING: frozenset({GroupState.STABLE, GroupState.PREPARING, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}


def can_rebalance(state: GroupState) -> bool:
    return GroupState.PREPARING in TRANSITIONS[state]
