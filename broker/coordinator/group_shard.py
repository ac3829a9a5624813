"""The groups of one partition of `__consumer_offsets`: the state of a shard.

Offsets are replayed into memory whenever they are written; the membership of a group lives in
memory, is written down when a generation is complete, and is replayed only when a coordinator
takes over. Then every member has a full session to be heard of. Everything of consumer groups is
replayed; they have rooms of their own (`consumer_groups`), and here they meet the classic ones.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from odradek.broker.coordinator.classic_members import ClassicMembers
from odradek.broker.coordinator.committing import (
    CommitReply,
    Committer,
    Committing,
    Positions,
    Shown,
    epoch_problem,
    no_such_group,
    show_offsets,
)
from odradek.broker.coordinator.consumer_changes import Draft
from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.consumer_groups import (
    Beat,
    ConsumerGroups,
    ConsumerTools,
    HeartbeatReply,
)
from odradek.broker.coordinator.consumer_records import AnyGroupRecord, ConsumerRecord
from odradek.broker.coordinator.expiry import is_forgotten
from odradek.broker.coordinator.group import Group, restored_offer
from odradek.broker.coordinator.group_records import GroupRecord, OffsetRecord
from odradek.broker.coordinator.heartbeat_checks import is_leaving, not_a_consumer_group
from odradek.broker.coordinator.joining import Joining
from odradek.broker.coordinator.members import (
    NO_MEMBER,
    Client,
    Join,
    Member,
    SyncReply,
    sync_refused,
)
from odradek.broker.coordinator.migration import downgraded, may_downgrade, upgraded
from odradek.broker.coordinator.offsets import GroupOffsets
from odradek.broker.coordinator.rebalancing import GroupTools, Rebalancing
from odradek.broker.coordinator.reconciliation import JOINING_EPOCH
from odradek.broker.coordinator.removal import Removal
from odradek.broker.coordinator.shard import Place
from odradek.broker.coordinator.syncing import Syncing
from odradek.broker.coordinator.write_errors import group_error
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.group_records import GroupMetadataValue
from odradek.protocol.messages.groups import (
    HeartbeatRequest,
    LeaveGroupMemberIdentity,
    SyncGroupRequest,
)
from odradek.protocol.records import NO_PRODUCER_ID
from odradek.protocol.types import TopicPartition

log: Final = logging.getLogger(__name__)

ErrorReply = Callable[[Errors], None]


class GroupShard:
    def __init__(self, tools: GroupTools, consumer_tools: ConsumerTools) -> None:
        # Classic groups; a group is either here or among the consumer groups.
        self.groups: dict[str, Group] = {}
        # By producer: the groups for which its open transaction has committed offsets.
        self._groups_of_producer: dict[int, set[str]] = {}
        self._is_active = False
        self._tools = tools
        self._rebalancing = Rebalancing(tools)
        self._joining = Joining(tools, self._rebalancing)
        self._syncing = Syncing(tools, self._rebalancing)
        self._committing = Committing(tools, self._rebalancing)
        self.consumers = ConsumerGroups(consumer_tools, self._downgrade)
        self._classic_members = ClassicMembers(self.consumers)
        self.removal = Removal(tools, self.groups, self.consumers, self._rebalancing)

    # Replay ---------------------------------------------------------------------------------

    def replay(self, record: AnyGroupRecord, place: Place, /) -> None:
        if isinstance(record, OffsetRecord):
            self._replay_offset(record, place)
        elif not isinstance(record, GroupRecord):
            self._replay_consumer(record)
        elif self._is_active:
            # It tells of a membership that lives here.
            return
        elif record.value is None:
            self._forget_membership(record.group_id)
        else:
            self._restore(record.group_id, record.value)

    def _replay_offset(self, record: OffsetRecord, place: Place) -> None:
        offsets = self._offsets_of(record.group_id)
        if offsets is None:
            if record.value is None:
                return
            offsets = self._group(record.group_id).offsets
        if place.producer_id != NO_PRODUCER_ID:
            self._groups_of_producer.setdefault(place.producer_id, set()).add(record.group_id)
        offsets.replay(record.where, record.value, place, self._tools.writer.committed_end)

    def _replay_consumer(self, record: ConsumerRecord) -> None:
        """Offsets stay when a group changes its protocol, or all else of it is removed."""
        group_id = record.group_id
        former = self.consumers.groups.get(group_id)
        self.consumers.replay(record)
        group = self.consumers.groups.get(group_id)
        if former is not None and group is None and former.offsets:
            self._group(group_id).offsets = former.offsets
        elif group is not None and (classic := self.groups.pop(group_id, None)) is not None:
            group.offsets = classic.offsets
            self._rebalancing.dissolve(classic, Errors.REBALANCE_IN_PROGRESS)

    def _restore(self, group_id: str, value: GroupMetadataValue) -> None:
        group = self._group(group_id)
        members = [
            Member(
                each.member_id,
                each.group_instance_id,
                Client(each.client_id, each.client_host),
                restored_offer(each, value.protocol),
                bytes(each.assignment),
            )
            for each in value.members
        ]
        for member in members:
            self._rebalancing.watch_session(group, member)
        group.restore(value, members)

    def _forget_membership(self, group_id: str) -> None:
        """A tombstone of a group: its offsets have tombstones of their own."""
        known = self.groups.pop(group_id, None)
        if known is not None and known.offsets:
            self._group(group_id).offsets = known.offsets

    def end_transaction(self, producer_id: int, place: Place, *, committed: bool) -> None:
        committed_end = self._tools.writer.committed_end
        for group_id in self._groups_of_producer.pop(producer_id, ()):
            if (offsets := self._offsets_of(group_id)) is not None:
                offsets.end_transaction(
                    producer_id, place.offset, committed_end, committed=committed
                )

    def begin(self) -> None:
        self._is_active = True
        for group in list(self.groups.values()):
            if is_forgotten(group) and not group.generation:
                del self.groups[group.id]
                continue
            for member in group.members.values():
                self._rebalancing.keep_alive(member)
            if len(group.members) > self._tools.config.max_size:
                self._rebalancing.rebalance(group, "the group is larger than it may be")
        self.consumers.begin()

    def unload(self) -> None:
        groups = list(self.groups.values())
        self.groups.clear()
        for group in groups:
            self._rebalancing.dissolve(group, Errors.NOT_COORDINATOR)
        self.consumers.unload()

    def _offsets_of(self, group_id: str) -> GroupOffsets | None:
        group = self.groups.get(group_id) or self.consumers.groups.get(group_id)
        return None if group is None else group.offsets

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._tools.clock.now_ms())
        return group

    # Classic membership ---------------------------------------------------------------------

    def join(self, group_id: str, join: Join) -> None:
        consumer = self.consumers.groups.get(group_id)
        if consumer is not None and consumer.members:
            self._classic_members.join(consumer, join)
            return
        if consumer is not None and (problem := self._make_classic(consumer)) is not Errors.NONE:
            join.refuse(group_error(problem))
            return
        group = self.groups.get(group_id)
        if group is not None:
            self._joining.join(group, join)
        elif join.member_id != NO_MEMBER:
            join.refuse(Errors.UNKNOWN_MEMBER_ID)
        else:
            group = Group(group_id, self._tools.clock.now_ms())
            # Before the join: it may end the group's first rebalance, which is then written.
            self.groups[group_id] = group
            self._joining.join(group, join)
            if not group.members and is_forgotten(group):
                del self.groups[group_id]

    def sync(self, request: SyncGroupRequest, reply: SyncReply) -> None:
        group = self.groups.get(request.group_id)
        consumer = self.consumers.groups.get(request.group_id)
        if group is not None:
            self._syncing.sync(group, request, reply)
        elif consumer is not None:
            self._classic_members.sync(consumer, request, reply)
        else:
            reply(sync_refused(Errors.UNKNOWN_MEMBER_ID))

    def heartbeat(self, request: HeartbeatRequest) -> Errors:
        group = self.groups.get(request.group_id)
        if group is not None:
            return self._joining.heartbeat(group, request)
        consumer = self.consumers.groups.get(request.group_id)
        if consumer is not None:
            return self._classic_members.heartbeat(consumer, request)
        return Errors.UNKNOWN_MEMBER_ID

    def leave(self, group_id: str, leaving: LeaveGroupMemberIdentity) -> Errors:
        group = self.groups.get(group_id)
        if group is not None:
            return self._joining.leave(group, leaving)
        consumer = self.consumers.groups.get(group_id)
        if consumer is not None:
            return self._classic_members.leave(consumer, leaving)
        return Errors.UNKNOWN_MEMBER_ID

    # The consumer protocol ------------------------------------------------------------------

    def consumer_heartbeat(self, beat: Beat, reply: HeartbeatReply) -> None:
        """Raises KafkaError for a heartbeat that is refused."""
        classic = self.groups.get(beat.group_id)
        if classic is not None and beat.epoch != JOINING_EPOCH:
            raise not_a_consumer_group(beat.group_id)
        if is_leaving(beat.epoch):
            self.consumers.leave(beat, reply)
            return
        draft = None
        if classic is not None:
            draft = upgraded(classic, self._tools.config, self.consumers.tools.topics())
        self.consumers.heartbeat(beat, draft, reply)
        if draft is not None and (group := self.consumers.groups.get(beat.group_id)) is not None:
            log.info("group %s is a consumer group now", beat.group_id)
            for member in group.members.values():
                self.consumers.sessions.keep_alive(group.id, member)

    def _make_classic(self, group: ConsumerGroup) -> Errors:
        """Remove an empty consumer group, so that a classic one of its name can be; why not."""
        draft = Draft(group)
        draft.dissolve()
        empty = Group(group.id, self._tools.clock.now_ms()).to_record({})
        outcomes: list[Errors] = []
        is_written = self.consumers.tools.writer.write(
            [*draft.records, GroupRecord(group.id, empty)], outcomes.append
        )
        return Errors.NONE if is_written else outcomes[0]

    def _downgrade(self, group: ConsumerGroup, leaving: Collection[str], then: ErrorReply) -> bool:
        """Make a classic group of the members that are left, if they can be one."""
        if not may_downgrade(group, leaving, self._tools.config):
            return False
        topics, now_ms = self.consumers.tools.topics(), self._tools.clock.now_ms()
        value = downgraded(group, leaving, topics, now_ms)
        draft = Draft(group)
        draft.dissolve()
        records = [*draft.records, GroupRecord(group.id, value)]
        if self.consumers.tools.writer.write(records, then):
            log.info("group %s is a classic group now", group.id)
            self._restore(group.id, value)
            classic = self.groups[group.id]
            for member in classic.members.values():
                self._rebalancing.keep_alive(member)
            self._rebalancing.rebalance(classic, "it was a consumer group")
        return True

    # Offsets --------------------------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        committer: Committer,
        positions: Positions,
        reply: CommitReply,
    ) -> None:
        consumer = self.consumers.groups.get(group_id)
        if consumer is not None:
            self._committing.commit_to_consumer_group(consumer, committer, positions, reply)
            return
        group = self.groups.get(group_id)
        if group is None:
            if committer.generation >= 0:
                reply(dict.fromkeys(positions, no_such_group(committer)))
                return
            # It comes to be with its first offset, if that can be written.
            group = Group(group_id, self._tools.clock.now_ms())
        self._committing.commit(group, committer, positions, reply)

    def offsets(
        self,
        group_id: str,
        wanted: Iterable[TopicPartition] | None,
        *,
        require_stable: bool,
        asker: tuple[str | None, int] = (None, -1),
    ) -> dict[TopicPartition, Shown]:
        """`asker` is the member that asks and its epoch, if it says so. Raises KafkaError when it
        has no business with the offsets of a consumer group."""
        member_id, epoch = asker
        consumer = self.consumers.groups.get(group_id)
        if consumer is not None and (member_id is not None or epoch >= 0):
            problem = epoch_problem(consumer, member_id or NO_MEMBER, epoch)
            if problem is not Errors.NONE:
                raise KafkaError(problem)
        return show_offsets(
            self.groups.get(group_id) or consumer,
            wanted,
            require_stable=require_stable,
            committed_end=self._tools.writer.committed_end,
        )
