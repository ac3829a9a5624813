"""A consumer group: its members, epochs and assignments, as its records tell of them.

Nothing here changes but by `apply`, one record after the other, whether they are just written or
loaded; after compaction they may come in any order. What is decided on the way is in
`consumer_changes`.

`epoch` grows with every change of members, wishes or topics; `target_epoch` is the epoch for which
the target assignment was last made. What the group has looked at and what is under way for it is no
part of the records.
"""

from enum import Enum
from typing import NamedTuple

from odradek.broker.coordinator.assignments import NOTHING, Assignment, Slot, slots_of
from odradek.broker.coordinator.consumer_members import (
    NO_PATTERN,
    ConsumerMember,
    Subscription,
    holding_from_record,
    target_from_record,
)
from odradek.broker.coordinator.consumer_records import (
    ConsumerRecord,
    EpochRecord,
    HoldingRecord,
    MemberRecord,
    PatternRecord,
    TargetEpochRecord,
    TargetRecord,
)
from odradek.broker.coordinator.offsets import GroupOffsets
from odradek.broker.coordinator.reconciliation import LEAVING_EPOCH, Holding, Target
from odradek.broker.coordinator.topic_shapes import Topics


class ConsumerGroupState(Enum):
    """Values are what clients are told."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target assignment is older than the group."""
    RECONCILING = "Reconciling"
    """Not every member holds its target."""
    STABLE = "Stable"


class Resolved(NamedTuple):
    """The topics that a regular expression stands for, and when that was found out."""

    topics: frozenset[str]
    timestamp_ms: int


class ConsumerGroup:
    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.offsets = GroupOffsets()
        self.epoch = 0
        self.topics_hash = 0
        self.target_epoch = 0
        self.targets: dict[str, Assignment] = {}
        self.members: dict[str, ConsumerMember] = {}
        self.instances: dict[str, str] = {}
        self.patterns: dict[str, Resolved] = {}
        # Who holds a partition, or has not yet said that it has given it up.
        self._holders: dict[Slot, str] = {}
        self.seen_topics: Topics | None = None
        # The topics for which the patterns were last resolved, and whether that is under way.
        self.resolved_topics: Topics | None = None
        self.is_resolving = False

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.id!r}, {self.state.value}, epoch {self.epoch})"

    def copy(self) -> "ConsumerGroup":
        """Another of the same, to try changes on; the offsets are not copied."""
        other = ConsumerGroup(self.id)
        other.offsets = self.offsets
        other.epoch, other.topics_hash = self.epoch, self.topics_hash
        other.target_epoch, other.targets = self.target_epoch, self.targets.copy()
        other.members, other.instances = self.members.copy(), self.instances.copy()
        other.patterns, other._holders = self.patterns.copy(), self._holders.copy()
        return other

    # What it is -----------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(m.has.is_reconciled_to(self.target_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def target(self, member_id: str) -> Target:
        return Target(self.target_epoch, self.targets.get(member_id, NOTHING))

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        return (topic_id, partition) not in self._holders

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def subscribed_topics(self) -> frozenset[str]:
        return subscribed(list(self.members.values()), self.patterns)

    # Records --------------------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> None:
        match record:
            case EpochRecord(_, value):
                self.epoch = 0 if value is None else value.epoch
                self.topics_hash = 0 if value is None else value.metadata_hash
            case MemberRecord():
                self._apply_member(record)
            case TargetEpochRecord(_, value):
                self.target_epoch = 0 if value is None else value.assignment_epoch
            case TargetRecord():
                self._apply_target(record)
            case HoldingRecord():
                self._apply_holding(record)
            case PatternRecord():
                self._apply_pattern(record)

    def _apply_member(self, record: MemberRecord) -> None:
        if record.value is None:
            self._forget(record.member_id)
        else:
            self._hear(record.member_id, Subscription.from_record(record.value))

    def _apply_target(self, record: TargetRecord) -> None:
        if record.value is None:
            self.targets.pop(record.member_id, None)
        else:
            self.targets[record.member_id] = target_from_record(record.value)

    def _apply_holding(self, record: HoldingRecord) -> None:
        if record.value is not None:
            self._hold(record.member_id, holding_from_record(record.value))
        elif record.member_id in self.members:
            self._hold(record.member_id, Holding(LEAVING_EPOCH, LEAVING_EPOCH))

    def _apply_pattern(self, record: PatternRecord) -> None:
        value = record.value
        if value is None:
            self.patterns.pop(record.pattern, None)
        else:
            self.patterns[record.pattern] = Resolved(frozenset(value.topics), value.timestamp)

    def _hear(self, member_id: str, subscription: Subscription) -> None:
        member = self._member(member_id)
        self._forget_instance(member)
        self.members[member_id] = member._replace(says=subscription)
        if subscription.instance_id is not None:
            self.instances[subscription.instance_id] = member_id

    def _hold(self, member_id: str, holding: Holding) -> None:
        member = self._member(member_id)
        self._release(member)
        for slot in slots_of(holding.all_held):
            self._holders[slot] = member_id
        self.members[member_id] = member._replace(has=holding)

    def _forget(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
            self._forget_instance(member)

    def _member(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or ConsumerMember(member_id)

    def _release(self, member: ConsumerMember) -> None:
        for slot in slots_of(member.has.all_held):
            # While older records are replayed, it may have a newer holder already.
            if self._holders.get(slot) == member.id:
                del self._holders[slot]

    def _forget_instance(self, member: ConsumerMember) -> None:
        instance_id = member.says.instance_id
        if instance_id is not None and self.instances.get(instance_id) == member.id:
            del self.instances[instance_id]


def subscribed(members: list[ConsumerMember], patterns: dict[str, Resolved]) -> frozenset[str]:
    """All topics that one of these members wants, by name or by pattern."""
    names: set[str] = set()
    wanted_patterns: set[str] = set()
    for member in members:
        names |= member.says.topics
        wanted_patterns.add(member.says.pattern)
    for pattern in wanted_patterns - {NO_PATTERN}:
        if pattern in patterns:
            names |= patterns[pattern].topics
    return frozenset(names)
