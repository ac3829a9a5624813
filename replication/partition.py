"""A partition this broker hosts: its log, its role, and the requests parked on it.

The role decides what may be asked: a leader takes appends and answers everyone; a follower serves
consumers up to its own high watermark; a partition without a role refuses. Every question that
carries a leader epoch is checked against ours before anything else is looked at, so that neither
a deposed leader nor a client with old metadata is ever believed. Whoever leads is hosted here: a
partition that is given up has no role from then on, so one that is at hand need not be looked for.

One owner: the event loop.
"""

from collections.abc import Callable, Iterable

from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.replication.follower import Follower
from odradek.replication.isr import DEFAULT_RULES, IsrRules
from odradek.replication.leader import Leader
from odradek.replication.waiters import Waiters
from odradek.storage.epochs import EpochEnd
from odradek.storage.log import AppendInfo, Log
from odradek.storage.log_reading import Isolation, ReadResult
from odradek.storage.validation import Origin

NO_EPOCH = -1


class Partition:
    __slots__ = (
        "__weakref__",
        "_clock",
        "_rules",
        "_wants_isr_change",
        "data_waiters",
        "hw_waiters",
        "just_appended",
        "local_id",
        "log",
        "role",
        "start_waiters",
        "topic_id",
        "where",
    )

    def __init__(
        self,
        where: TopicPartition,
        topic_id: bytes,
        *,
        log: Log,
        local_id: int,
        clock: Clock,
        rules: IsrRules = DEFAULT_RULES,
        wants_isr_change: "Callable[[Partition], None] | None" = None,
    ) -> None:
        """`wants_isr_change` is called when a change of the in-sync set waits to be sent."""
        self.where = where
        self.topic_id = topic_id
        self.log = log
        self.role: Leader | Follower | None = None
        self.local_id = local_id
        self._clock = clock
        self._rules = rules
        self._wants_isr_change = wants_isr_change
        # Producers that wait for the high watermark; fetchers that wait for the log end; deletions
        # that wait for the followers' log start.
        self.hw_waiters = Waiters()
        self.data_waiters = Waiters()
        self.start_waiters = Waiters()
        # While those hear of it who wait for the log end: they need not read it back.
        self.just_appended: AppendInfo | None = None

    def __repr__(self) -> str:
        return f"Partition({self.where}, {type(self.role).__name__})"

    # Roles ----------------------------------------------------------------------------------

    def become_leader(
        self, *, epoch: int, partition_epoch: int, replicas: Iterable[int], isr: Iterable[int]
    ) -> None:
        replicas = tuple(replicas)
        role = self.role
        if isinstance(role, Leader) and role.epoch == epoch:
            role.update(partition_epoch=partition_epoch, replicas=replicas, isr=isr)
        else:
            # The entry is made even before any data: a new leader must be able to answer for its
            # own epoch, or followers with an older one would find no end to truncate to.
            self.log.begin_epoch(epoch)
            self.role = Leader(
                local_id=self.local_id,
                epoch=epoch,
                partition_epoch=partition_epoch,
                replicas=replicas,
                isr=isr,
                epoch_start_offset=self.log.log_end_offset,
                since_epoch=role.since_epoch if isinstance(role, Leader) else epoch,
                clock=self._clock,
                rules=self._rules,
            )
            self._wake_all()
        self.advance_high_watermark()

    def become_follower(
        self, *, leader_id: int, epoch: int, partition_epoch: int, replicas: Iterable[int]
    ) -> None:
        self.role = Follower(leader_id, epoch, partition_epoch, tuple(replicas))
        self._wake_all()

    def resign(self) -> None:
        """Stop being anything: the replica moves away or its log failed."""
        self.role = None
        self._wake_all()

    def _wake_all(self) -> None:
        self.hw_waiters.release()
        self.data_waiters.release()
        self.start_waiters.release()

    @property
    def leader_epoch(self) -> int:
        return NO_EPOCH if self.role is None else self.role.epoch

    @property
    def reign(self) -> int:
        """The epoch since which this broker leads without a break, -1 when it does not lead.

        What was appended since then is still there: a leader that goes on in another epoch has cut
        nothing, so whoever waits for records to be committed may go on waiting.
        """
        return self.role.since_epoch if isinstance(self.role, Leader) else NO_EPOCH

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def has_quorum(self) -> bool:
        """Whether enough replicas are in sync for acks=all."""
        role = self.role
        return isinstance(role, Leader) and role.has_quorum(self.log.config.min_insync_replicas)

    def leading(self, expected_epoch: int = NO_EPOCH) -> Leader:
        """Our role as leader. Raises KafkaError when we are not, or when the epochs differ."""
        self.check_epoch(expected_epoch)
        role = self.role
        if not isinstance(role, Leader):
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER)
        return role

    def check_epoch(self, expected_epoch: int) -> None:
        """Compare the epoch a peer believes in with ours; -1 means that it does not know one."""
        if expected_epoch == NO_EPOCH:
            return
        ours = self.leader_epoch
        if expected_epoch < ours:
            raise KafkaError(Errors.FENCED_LEADER_EPOCH)
        if expected_epoch > ours:
            raise KafkaError(Errors.UNKNOWN_LEADER_EPOCH)

    # Writing --------------------------------------------------------------------------------

    def append(
        self,
        records: bytes | bytearray | memoryview,
        *,
        acks: int,
        origin: Origin = Origin.CLIENT,
        produce_version: int,
    ) -> AppendInfo:
        """Append as leader; with acks=all only while enough replicas are in sync."""
        leader = self.role
        if not isinstance(leader, Leader):
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER)
        # A leader without followers is always enough for itself.
        if (
            acks == -1
            and leader.followers
            and not leader.has_quorum(self.log.config.min_insync_replicas)
        ):
            raise KafkaError(
                Errors.NOT_ENOUGH_REPLICAS,
                f"{len(leader.isr.committed)} in sync, "
                f"{leader.min_isr(self.log.config.min_insync_replicas)} needed",
            )
        info = self.log.append_as_leader(
            records, leader_epoch=leader.epoch, origin=origin, produce_version=produce_version
        )
        self.advance_high_watermark()
        if self.data_waiters.parked:
            self.just_appended = info
            try:
                self.data_waiters.reach(self.log.log_end_offset)
            finally:
                self.just_appended = None
        return info

    def advance_high_watermark(self) -> None:
        """Move the high watermark to where all in-sync replicas are; it never goes back."""
        role, log = self.role, self.log
        if not isinstance(role, Leader):
            return
        end = log.log_end_offset
        if end == log.high_watermark:
            return  # it is where it can be; so it is with most that followers ask for
        if role.followers:
            if not role.has_quorum(log.config.min_insync_replicas):
                return
            end = role.committed_end(end)
        if end > log.high_watermark:
            log.update_high_watermark(end)
            if self.hw_waiters.parked:
                self.hw_waiters.reach(end)

    def note_follower_fetch(
        self, follower_id: int, *, fetch_offset: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        """A follower asks for what comes after all that it has."""
        leader = self.leading()
        leader.note_fetch(
            follower_id,
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            broker_epoch=broker_epoch,
        )
        self.advance_high_watermark()
        if self.start_waiters.parked:
            # All of them look: what counts is the least of all followers.
            self.start_waiters.release()
        if follower_id not in leader.isr.committed:
            self.review_isr(may_shrink=False)

    def has_in_sync(self, follower_id: int) -> bool:
        role = self.role
        return isinstance(role, Leader) and follower_id in role.isr.committed

    def holds_up(self, follower_id: int) -> bool:
        """Whether a follower gets nothing now because of the throttle."""
        throttle, role = self._rules.throttle, self.role
        return (
            throttle is not None
            and throttle.holds(self.where, self.log.config.leader_replication_throttled_replicas)
            and isinstance(role, Leader)
            and follower_id not in role.isr.committed
        )

    def note_sent(self, size: int) -> None:
        """A follower is sent so many bytes."""
        if self._rules.throttle is not None:
            listed = self.log.config.leader_replication_throttled_replicas
            self._rules.throttle.note(self.where, listed, size)

    # The in-sync set ------------------------------------------------------------------------

    def review_isr(self, *, may_shrink: bool = True) -> None:
        """See who should join or leave the in-sync set, and have that sent."""
        role = self.role
        if (
            isinstance(role, Leader)
            and self._wants_isr_change is not None
            and role.propose(
                self.log.high_watermark, self.log.log_end_offset, may_shrink=may_shrink
            )
        ):
            self._wants_isr_change(self)

    def isr_granted(self, *, epoch: int, partition_epoch: int, isr: Iterable[int]) -> None:
        """The controller's word on what this leader of that epoch proposed."""
        role = self.role
        if not isinstance(role, Leader) or role.epoch != epoch:
            return
        role.granted(partition_epoch=partition_epoch, isr=isr)
        # Fewer members may be further along than more were.
        self.advance_high_watermark()
        # What joined or fell behind meanwhile had to wait for this answer.
        self.review_isr(may_shrink=False)

    # Following ------------------------------------------------------------------------------

    def is_followed_in(self, leader_id: int, epoch: int) -> bool:
        """Whether a fetcher that was told to follow this leader in this epoch still may."""
        role = self.role
        return isinstance(role, Follower) and (role.leader_id, role.epoch) == (leader_id, epoch)

    def append_fetched(
        self, records: bytes | memoryview, *, leader_hw: int, leader_log_start: int
    ) -> None:
        """What the leader sent from our log end on, and how far it says that all of it is safe."""
        log = self.log
        if records:
            log.append_as_follower(records)
            if self.data_waiters.parked:
                self.data_waiters.reach(log.log_end_offset)
        if leader_hw > log.high_watermark and log.log_end_offset > log.high_watermark:
            self.hw_waiters.reach(log.update_high_watermark(leader_hw))
        if leader_log_start > log.log_start_offset:
            log.advance_log_start(min(leader_log_start, log.high_watermark))

    # Reading --------------------------------------------------------------------------------

    def check_readable(self, expected_epoch: int, *, leader_only: bool) -> None:
        """Raise KafkaError unless a fetch with this epoch may read here."""
        role = self.role
        if role is None or role.epoch != expected_epoch:
            self.check_epoch(expected_epoch)
        if role is None or (leader_only and not isinstance(role, Leader)):
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER)

    def read(
        self, offset: int, max_bytes: int, *, isolation: Isolation, min_one_batch: bool
    ) -> ReadResult:
        """Whole batches from the one that holds `offset`. Raises OFFSET_OUT_OF_RANGE."""
        return self.log.read(offset, max_bytes, isolation=isolation, min_one_batch=min_one_batch)

    def diverging_end(self, last_fetched_epoch: int, fetch_offset: int) -> EpochEnd | None:
        """Where the fetcher's log parts from ours, if it does (KIP-595)."""
        if last_fetched_epoch == NO_EPOCH:
            return None
        log = self.log
        if (
            last_fetched_epoch == log.epochs.latest_epoch
            and log.log_start_offset <= fetch_offset <= log.log_end_offset
        ):
            return None  # as it is while all is well
        end = log.end_offset_for_epoch(last_fetched_epoch)
        # An offset that is no more is told before a divergence: the fetcher starts anew.
        if fetch_offset < self.log.log_start_offset:
            raise KafkaError(Errors.OFFSET_OUT_OF_RANGE)
        if end.epoch == NO_EPOCH:
            raise KafkaError(Errors.OFFSET_OUT_OF_RANGE, "the fetcher's epoch is not known here")
        if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            return end
        return None
