"""The leading replica of a partition: who follows, who is in sync, how far all of them are.

Owned by its Partition; every call comes from the event loop. The rules are in `isr`, pure.
"""

from collections.abc import Iterable, Sequence

from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.replication.isr import (
    NEVER,
    FollowerProgress,
    Isr,
    IsrRules,
    effective_min_isr,
    high_watermark,
    lagging,
    may_join,
)


class Leader:
    """`epoch_start_offset` is the log end when this broker became leader of this epoch,
    `since_epoch` the epoch since which it has led without a break."""

    __slots__ = (
        "_clock",
        "_rules",
        "epoch",
        "epoch_start_offset",
        "followers",
        "isr",
        "local_id",
        "partition_epoch",
        "replicas",
        "since_epoch",
    )

    def __init__(
        self,
        *,
        local_id: int,
        epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Iterable[int],
        epoch_start_offset: int,
        since_epoch: int,
        clock: Clock,
        rules: IsrRules,
    ) -> None:
        self.local_id = local_id
        self.epoch = epoch
        self.partition_epoch = partition_epoch
        self.replicas = tuple(replicas)
        self.isr = Isr(frozenset(isr))
        self.epoch_start_offset = epoch_start_offset
        self.since_epoch = since_epoch
        self._clock = clock
        self._rules = rules
        self.followers: dict[int, FollowerProgress] = {}
        self._follow_replicas()

    def update(self, *, partition_epoch: int, replicas: Sequence[int], isr: Iterable[int]) -> None:
        """The controller changed replicas or ISR without a new leader epoch.

        A change of ours that is on its way is settled by a newer state alone. One that merely
        repeats what we know may have been sent before the controller took that change: to forget
        the change then would leave out a member that counts.
        """
        if partition_epoch < self.partition_epoch:
            return
        self.replicas = tuple(replicas)
        if partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.isr = Isr(frozenset(isr))
        self._follow_replicas()

    def _follow_replicas(self) -> None:
        # A member not heard of yet has the time of one lag to show up.
        now = self._clock.monotonic()
        self.followers = {
            id_: self.followers.get(id_)
            or FollowerProgress(id_, caught_up_at=now if id_ in self.isr.committed else NEVER)
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
        counting = self.isr.maximal
        if counting.issuperset(self.followers):
            # All of them count, as mostly.
            return min([log_end_offset, *[f.log_end_offset for f in self.followers.values()]])
        since = self._clock.monotonic() - self._rules.max_lag_seconds()
        counting |= {
            f.id
            for f in self.followers.values()
            if f.log_end_offset >= 0 and f.caught_up_at >= since and self._rules.is_live(f.id)
        }
        return high_watermark(log_end_offset, self.followers.values(), counting)

    def note_fetch(
        self,
        follower_id: int,
        *,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
    ) -> FollowerProgress:
        """A follower fetched from `fetch_offset`: it has all before that.

        Raises KafkaError when it is no replica, or when an earlier life of it speaks.
        """
        follower = self.followers.get(follower_id)
        if follower is None:
            raise KafkaError(
                Errors.NOT_LEADER_OR_FOLLOWER, f"broker {follower_id} is no replica of this"
            )
        if broker_epoch != follower.broker_epoch and broker_epoch >= 0:
            if broker_epoch < follower.broker_epoch:
                raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER, "an earlier life of the broker")
            if follower.broker_epoch >= 0:
                follower.begin_life(broker_epoch)
            follower.broker_epoch = broker_epoch
        follower.note(
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end=leader_end_offset,
            at=self._clock.monotonic(),
        )
        return follower

    # Changes of the in-sync set -------------------------------------------------------------

    def wants_to_join(self, follower: FollowerProgress, hw: int) -> bool:
        if follower.id in self.isr.maximal or not self._rules.is_live(follower.id):
            return False
        return may_join(follower, high_watermark=hw, epoch_start_offset=self.epoch_start_offset)

    def out_of_sync(self, leader_end_offset: int) -> frozenset[int]:
        return lagging(
            self.followers.values(),
            self.isr.committed,
            leader_end_offset=leader_end_offset,
            now=self._clock.monotonic(),
            max_lag_seconds=self._rules.max_lag_seconds(),
        )

    def propose(self, hw: int, leader_end_offset: int, *, may_shrink: bool) -> bool:
        """Plan the next change of the in-sync set, if one is due and none is on its way."""
        if self.isr.proposed is not None:
            return False
        committed = self.isr.committed
        joining = {f.id for f in self.followers.values() if self.wants_to_join(f, hw)}
        leaving = self.out_of_sync(leader_end_offset) if may_shrink else frozenset()
        proposed = (committed | joining) - leaving
        if proposed == committed:
            return False
        self.isr = Isr(committed, proposed)
        return True

    def granted(self, *, partition_epoch: int, isr: Iterable[int]) -> None:
        """The controller took the change, or knew of it already."""
        if partition_epoch >= self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.isr = Isr(frozenset(isr))

    def refused(self) -> None:
        """The controller certainly did not take the change."""
        self.isr = Isr(self.isr.committed)

    def low_watermark(self, local_log_start: int, alive: Iterable[int]) -> int:
        """The least log start among the replicas on live brokers."""
        alive = set(alive)
        starts = [f.log_start_offset for f in self.followers.values() if f.id in alive]
        return min([local_log_start, *starts])
