"""How a member of a consumer group gets from what it holds to what it shall hold.

A member first gives up what it shall not hold any more, and says so; only then does it move on to
the epoch of the target and is given what nobody else holds. What others still hold, it is given
as they let go of it:

    STABLE      holds its target
    UNREVOKED   was told to give partitions up, and has not said yet that it has; it stays in its
                epoch, and nobody else gets these partitions meanwhile
    UNRELEASED  is in the epoch of the target, but others have not let go of all of it yet

So at any time a partition has at most one holder: a member that may still read a partition counts
as its holder. Pure: nothing here changes a group.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from odradek.broker.coordinator.assignments import (
    NOTHING,
    Assignment,
    common,
    gathered,
    joined,
    overlaps,
    slots_of,
    without,
)

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
AWAY_EPOCH = -2
"""Of a static member that means to come back."""


class MemberState(IntEnum):
    """Values are those of the record."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


class Holding(NamedTuple):
    """What a member holds, and since which epoch of its group."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    revoking: Assignment = NOTHING
    """Told to give up, not yet given up."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    @property
    def all_held(self) -> Assignment:
        return joined(self.assigned, self.revoking) if self.revoking else self.assigned


class Target(NamedTuple):
    """What a member shall hold, and the epoch of the assignment that says so."""

    epoch: int
    assignment: Assignment


# Whether nobody holds a partition, the asking member included.
IsFree = Callable[[bytes, int], bool]


def reconciled(
    holding: Holding, target: Target, owned: Assignment | None, is_free: IsFree
) -> Holding:
    """The next step towards the target. `owned` is what the member says it holds, if it does."""
    if holding.is_reconciled_to(target.epoch):
        return holding
    epoch = holding.epoch
    if holding.state is MemberState.UNREVOKED:
        if _still_has(owned, holding.revoking):
            return holding
        epoch += 1
    return _next(holding, epoch, target, owned, is_free)


def _next(
    holding: Holding, epoch: int, target: Target, owned: Assignment | None, is_free: IsFree
) -> Holding:
    kept = common(holding.assigned, target.assignment)
    to_revoke = without(holding.assigned, kept)
    if to_revoke and _still_has(owned, to_revoke):
        return Holding(epoch, holding.epoch, MemberState.UNREVOKED, kept, to_revoke)
    missing = without(target.assignment, kept)
    free = gathered(slot for slot in slots_of(missing) if is_free(*slot))
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED
    return Holding(target.epoch, holding.epoch, state, joined(kept, free))


def _still_has(owned: Assignment | None, partitions: Assignment) -> bool:
    """Whether the member may still read them: so it is unless it says that it does not."""
    return owned is None or overlaps(owned, partitions)
