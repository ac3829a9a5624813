"""The leading replica of a partition: who follows, who is in sync, how far all of them are.

Owned by its Partition; every call comes from the event loop. The rules are in `isr`, pure.
"""

from collections.abc import Iterable, Sequence

from odradek.protocol.clock import Clock
from odradek.replication.isr import (
    FollowerProgress,
    Isr,
    effective_min_isr,
    high_watermark,
    lagging,
    may_join,
)


class Leader:
    """`epoch_start_offset` is the log end when this broker became leader of this epoch."""

    def __init__(
        self,
        *,
        local_id: int,
        epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Iterable[int],
        epoch_start_offset: int,
        clock: Clock,
    ) -> None:
        self.local_id = local_id
        self.epoch = epoch
        self.partition_epoch = partition_epoch
        self.replicas = tuple(replicas)
        self.isr = Isr(frozenset(isr))
        self.epoch_start_offset = epoch_start_offset
        self._clock = clock
        self.followers: dict[int, FollowerProgress] = {}
        self._follow_replicas()

    def update(self, *, partition_epoch: int, replicas: Sequence[int], isr: Iterable[int]) -> None:
        """The controller changed replicas or ISR without a new leader epoch."""
        if partition_epoch < self.partition_epoch:
            return
        self.partition_epoch = partition_epoch
        self.replicas = tuple(replicas)
        self.isr = Isr(frozenset(isr))
        self._follow_replicas()

    def _follow_replicas(self) -> None:
        # A follower not heard of yet has the time of one lag to show up.
        now = self._clock.monotonic()
        self.followers = {
            id_: self.followers.get(id_) or FollowerProgress(id_, caught_up_at=now)
            for id_ in self.replicas
            if id_ != self.local_id
        }

    def min_isr(self, configured: int) -> int:
        return effective_min_isr(configured, len(self.replicas))

    def has_quorum(self, min_insync_replicas: int) -> bool:
        """Whether enough replicas are in sync for acks=all."""
        return len(self.isr.committed) >= self.min_isr(min_insync_replicas)

    def committed_end(self, log_end_offset: int) -> int:
        """How far every replica that counts has come."""
        return high_watermark(log_end_offset, self.followers.values(), self.isr.maximal)

    def note_fetch(
        self,
        follower_id: int,
        *,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
    ) -> FollowerProgress | None:
        """A follower fetched from `fetch_offset`: it has all before that. None: not a replica."""
        follower = self.followers.get(follower_id)
        if follower is None:
            return None
        if fetch_offset >= leader_end_offset:
            follower.caught_up_at = self._clock.monotonic()
        follower.log_end_offset = fetch_offset
        follower.log_start_offset = log_start_offset
        follower.broker_epoch = broker_epoch
        return follower

    def wants_to_join(self, follower: FollowerProgress, hw: int) -> bool:
        if follower.id in self.isr.maximal:
            return False
        return may_join(follower, high_watermark=hw, epoch_start_offset=self.epoch_start_offset)

    def out_of_sync(self, leader_end_offset: int, max_lag_seconds: float) -> frozenset[int]:
        return lagging(
            self.followers.values(),
            self.isr.committed,
            leader_end_offset=leader_end_offset,
            now=self._clock.monotonic(),
            max_lag_seconds=max_lag_seconds,
        )

    def low_watermark(self, local_log_start: int, alive: Iterable[int]) -> int:
        """The least log start among the replicas on live brokers."""
        alive = set(alive)
        starts = [f.log_start_offset for f in self.followers.values() if f.id in alive]
        return min([local_log_start, *starts])
