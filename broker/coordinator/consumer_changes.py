"""What a change of a consumer group writes down: decided on a draft, before anything is written.

A `Draft` is a copy of the group that takes every record as it is decided, so that the next
decision sees it. If the records can be written, replaying them makes the group what the draft is;
if not, the draft is forgotten and nothing has happened.

The steps of a heartbeat, each of which may have nothing to do:

    1. `hear` what the member says of itself
    2. `look` at the topics; a new wish or a changed topic begins a new epoch of the group
    3. `assign`: make the target assignment of that epoch
    4. `reconcile` the member with its target
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from odradek.broker.coordinator.assignments import NOTHING, Assignment
from odradek.broker.coordinator.assignors import Assignor
from odradek.broker.coordinator.consumer_group import ConsumerGroup, subscribed
from odradek.broker.coordinator.consumer_members import (
    NO_PATTERN,
    ConsumerMember,
    Subscription,
    holding_to_record,
    target_to_record,
)
from odradek.broker.coordinator.consumer_records import (
    AnyGroupRecord,
    ConsumerRecord,
    EpochRecord,
    HoldingRecord,
    MemberRecord,
    PartitionsRecord,
    PatternRecord,
    TargetEpochRecord,
    TargetRecord,
)
from odradek.broker.coordinator.reconciliation import (
    AWAY_EPOCH,
    JOINING_EPOCH,
    Holding,
    reconciled,
)
from odradek.broker.coordinator.topic_shapes import Topics, hash_of
from odradek.broker.coordinator.wishes import Wish
from odradek.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)

Assignors = Mapping[str, Assignor]
"""By name; the first is for groups whose members name none."""

# Kafka notes the version of its metadata here, to know when to look again; we look at each start.
_NO_VERSION: Final = 0


class Draft:
    """A group as it will be, and the records that make it so."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group.copy()
        self.records: list[AnyGroupRecord] = []

    def write(self, record: ConsumerRecord) -> None:
        self.group.apply(record)
        self.records.append(record)

    # Members --------------------------------------------------------------------------------

    def hear(self, member_id: str, says: Subscription) -> bool:
        """Take down what a member says of itself; whether it wants other topics than before."""
        group = self.group
        former = group.members.get(member_id)
        if former is not None and former.says == says:
            return False
        self.write(MemberRecord(group.id, member_id, says.to_record()))
        if former is None:
            return bool(says.topics or says.pattern)
        if former.says.pattern != says.pattern:
            self._drop_unused_pattern(former.says.pattern)
        return (former.says.topics, former.says.pattern) != (says.topics, says.pattern)

    def hold(self, member_id: str, holding: Holding) -> None:
        self.write(HoldingRecord(self.group.id, member_id, holding_to_record(holding)))

    def shall_hold(self, member_id: str, assignment: Assignment) -> None:
        self.write(TargetRecord(self.group.id, member_id, target_to_record(assignment)))

    def remove(self, member_id: str) -> None:
        group = self.group
        pattern = group.members[member_id].says.pattern
        self.write(HoldingRecord(group.id, member_id, None))
        self.write(TargetRecord(group.id, member_id, None))
        self.write(MemberRecord(group.id, member_id, None))
        self._drop_unused_pattern(pattern)

    def replace(self, former: ConsumerMember, member_id: str) -> None:
        """Let a static member go on under another id, with all it has."""
        group = self.group
        target = group.target(former.id).assignment
        for record in (
            HoldingRecord(group.id, former.id, None),
            TargetRecord(group.id, former.id, None),
            MemberRecord(group.id, former.id, None),
        ):
            self.write(record)
        self.write(MemberRecord(group.id, member_id, former.says.to_record()))
        self.shall_hold(member_id, target)
        self.hold(member_id, former.has._replace(epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH))

    def send_away(self, member: ConsumerMember) -> None:
        """A static member goes, and means to come back; what it holds waits for it."""
        self.hold(member.id, member.has._replace(epoch=AWAY_EPOCH, revoking=NOTHING))

    # Epochs ---------------------------------------------------------------------------------

    def look(self, topics: Topics, *, is_changed: bool) -> None:
        """Begin a new epoch if something has changed, or the topics have."""
        group = self.group
        topics_hash = hash_of(topics, group.subscribed_topics())
        if is_changed or not group.epoch or topics_hash != group.topics_hash:
            self.begin_epoch(group.epoch + 1, topics_hash)

    def begin_epoch(self, epoch: int, topics_hash: int) -> None:
        value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=topics_hash)
        self.write(EpochRecord(self.group.id, value))

    def assign(self, topics: Topics, assignors: Assignors) -> None:
        """Make the target assignment of the group's epoch, unless it is made."""
        group = self.group
        if group.epoch <= group.target_epoch:
            return
        wishes = {
            member.id: Wish(
                frozenset(topics[name].id for name in wanted_by(group, member) if name in topics),
                group.targets.get(member.id, NOTHING),
                member.says.instance_id,
            )
            for member in group.members.values()
        }
        counts = {shape.id: shape.partitions for shape in topics.values()}
        assignor = assignors[chosen_assignor(group, assignors)]
        for member_id, assignment in assignor(wishes, counts).items():
            if group.targets.get(member_id) != assignment:
                self.shall_hold(member_id, assignment)
        self.write_target_epoch(group.epoch)

    def write_target_epoch(self, epoch: int) -> None:
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
        self.write(TargetEpochRecord(self.group.id, value))

    def reconcile(self, member_id: str, owned: Assignment | None) -> None:
        group = self.group
        has = group.members[member_id].has
        following = reconciled(has, group.target(member_id), owned, group.is_free)
        if following != has:
            self.hold(member_id, following)

    # Patterns -------------------------------------------------------------------------------

    def resolve(self, found: Mapping[str, frozenset[str]], topics: Topics, now_ms: int) -> None:
        """Note what patterns stand for; what the group wants may have changed with it."""
        group = self.group
        used = {member.says.pattern for member in group.members.values()}
        is_changed = False
        for pattern, names in found.items():
            known = group.patterns.get(pattern)
            if pattern not in used or (known is not None and known.topics == names):
                continue
            is_changed = True
            value = ConsumerGroupRegularExpressionValue(
                topics=sorted(names), version=_NO_VERSION, timestamp=now_ms
            )
            self.write(PatternRecord(group.id, pattern, value))
        if is_changed:
            self.look(topics, is_changed=True)

    def _drop_unused_pattern(self, pattern: str) -> None:
        group = self.group
        is_used = any(member.says.pattern == pattern for member in group.members.values())
        if pattern in group.patterns and not is_used:
            self.write(PatternRecord(group.id, pattern, None))

    # The end --------------------------------------------------------------------------------

    def dissolve(self) -> None:
        """Remove everything that tells of the group."""
        group, group_id = self.group, self.group.id
        members = list(group.members)
        for member_id in members:
            self.write(HoldingRecord(group_id, member_id, None))
        for member_id in list(group.targets):
            self.write(TargetRecord(group_id, member_id, None))
        self.write(TargetEpochRecord(group_id, None))
        for member_id in members:
            self.write(MemberRecord(group_id, member_id, None))
        for pattern in list(group.patterns):
            self.write(PatternRecord(group_id, pattern, None))
        self.write(PartitionsRecord(group_id, None))
        self.write(EpochRecord(group_id, None))


def wanted_by(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    if member.says.pattern == NO_PATTERN:
        return member.says.topics
    return subscribed([member], group.patterns)


def chosen_assignor(group: ConsumerGroup, assignors: Assignors) -> str:
    """The assignor that most members name, of those that name one."""
    named = Counter(
        member.says.assignor
        for member in group.members.values()
        if member.says.assignor in assignors
    )
    return next((str(name) for name, _ in named.most_common(1)), next(iter(assignors)))
