"""Decisions about in-sync replicas, as pure functions.

The rules are those that keep acknowledged records safe through any change of leader:

- the high watermark is the least log end among the leader and every *maximal* ISR member: those
  stored, and those proposed and not yet known to be refused;
- it waits, too, for a follower that is caught up and only has yet to be let in: were it left
  behind in between, it could not join;
- it stands still while fewer than min.insync.replicas are in sync;
- a follower joins only when it has all below the high watermark and has reached the start of the
  leader's own epoch;
- a follower that is level with the leader is in sync however long nothing was written.
"""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from odradek.replication.throttle import Throttle

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Isr:
    """The in-sync replicas as stored and, while a change is on its way, as proposed."""

    committed: frozenset[int]
    proposed: frozenset[int] | None = None

    @property
    def maximal(self) -> frozenset[int]:
        return self.committed if self.proposed is None else self.committed | self.proposed


@dataclass(frozen=True, slots=True)
class IsrRules:
    """What the rules need to know of this broker and of the cluster."""

    max_lag_seconds: Callable[[], float] = lambda: 30.0
    is_live: Callable[[int], bool] = lambda _: True
    throttle: Throttle | None = None
    """Of what is sent to followers that catch up."""


DEFAULT_RULES = IsrRules()


@dataclass(slots=True)
class FollowerProgress:
    """What a leader knows of a follower from its fetches."""

    id: int
    log_end_offset: int = -1
    log_start_offset: int = -1
    # Monotonic seconds at which it last had all that the leader had.
    caught_up_at: float = NEVER
    broker_epoch: int = -1
    # The leader's log end when the follower last fetched, and when that was: who has reached it by
    # the next fetch was caught up then, though the leader has moved on since.
    last_fetch_end: int = -1
    last_fetch_at: float = NEVER

    def note(self, *, fetch_offset: int, log_start_offset: int, leader_end: int, at: float) -> None:
        """It fetched from `fetch_offset`: it has all before that."""
        if fetch_offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, at)
        elif fetch_offset >= self.last_fetch_end:
            self.caught_up_at = max(self.caught_up_at, self.last_fetch_at)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_end = leader_end
        self.last_fetch_at = at

    def begin_life(self, broker_epoch: int) -> None:
        """It restarted, maybe with an empty disk: what was known of it is no longer true."""
        self.broker_epoch = broker_epoch
        self.log_end_offset = self.log_start_offset = self.last_fetch_end = -1
        self.caught_up_at = self.last_fetch_at = NEVER


def effective_min_isr(configured: int, replication_factor: int) -> int:
    return min(configured, replication_factor)


def high_watermark(
    log_end_offset: int, followers: Iterable[FollowerProgress], counting: Set[int]
) -> int:
    """The offset below which every replica that counts has everything."""
    return min([log_end_offset, *(f.log_end_offset for f in followers if f.id in counting)])


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
