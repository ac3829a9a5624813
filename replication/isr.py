"""Decisions about in-sync replicas, as pure functions.

The rules are those that keep acknowledged records safe through any change of leader:

- the high watermark is the least log end among the leader and every *maximal* ISR member: those
  stored, and those proposed and not yet known to be refused;
- it stands still while fewer than min.insync.replicas are in sync;
- a follower joins only when it has all below the high watermark and has reached the start of the
  leader's own epoch;
- a follower that is level with the leader is in sync however long nothing was written.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Isr:
    """The in-sync replicas as stored and, while a change is on its way, as proposed."""

    committed: frozenset[int]
    proposed: frozenset[int] | None = None

    @property
    def maximal(self) -> frozenset[int]:
        return self.committed if self.proposed is None else self.committed | self.proposed


@dataclass(slots=True)
class FollowerProgress:
    """What a leader knows of a follower from its fetches."""

    id: int
    log_end_offset: int = -1
    log_start_offset: int = -1
    # Monotonic seconds at which it last had all that the leader had.
    caught_up_at: float = 0.0
    broker_epoch: int = -1


def effective_min_isr(configured: int, replication_factor: int) -> int:
    return min(configured, replication_factor)


def high_watermark(
    log_end_offset: int, followers: Iterable[FollowerProgress], maximal_isr: Set[int]
) -> int:
    """The offset below which every member of the maximal ISR has everything."""
    return min([log_end_offset, *(f.log_end_offset for f in followers if f.id in maximal_isr)])


def lagging(
    followers: Iterable[FollowerProgress],
    isr: Set[int],
    *,
    leader_end_offset: int,
    now: float,
    max_lag_seconds: float,
) -> frozenset[int]:
    return frozenset(
        f.id
        for f in followers
        if f.id in isr
        and f.log_end_offset != leader_end_offset
        and now - f.caught_up_at > max_lag_seconds
    )


def may_join(follower: FollowerProgress, *, high_watermark: int, epoch_start_offset: int) -> bool:
    return follower.log_end_offset >= max(high_watermark, epoch_start_offset)
