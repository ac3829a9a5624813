"""The groups of one partition of `__consumer_offsets`: the state of a shard.

Offsets are replayed into memory whenever they are written; the membership of a group lives in
memory, is written down when a generation is complete, and is replayed only when a coordinator
takes over. Then every member has a full session to be heard of.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from odradek.broker.coordinator.committing import (
    CommitReply,
    Committer,
    Committing,
    Positions,
    Shown,
    show_offsets,
)
from odradek.broker.coordinator.expiry import expired_offsets, is_forgotten
from odradek.broker.coordinator.group import Group, restored_offer
from odradek.broker.coordinator.group_records import ClassicRecord, GroupRecord, OffsetRecord
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.joining import Joining
from odradek.broker.coordinator.members import (
    NO_MEMBER,
    Client,
    Join,
    Member,
    SyncReply,
    sync_refused,
)
from odradek.broker.coordinator.rebalancing import GroupTools, Rebalancing
from odradek.broker.coordinator.shard import Place
from odradek.broker.coordinator.subscriptions import CONSUMER
from odradek.broker.coordinator.syncing import Syncing
from odradek.broker.coordinator.write_errors import commit_error
from odradek.protocol.errors import Errors
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

# So many tombstones go into one batch: well below the smallest limit anyone sets.
_TOMBSTONES_PER_BATCH: Final = 200


class GroupShard:
    def __init__(self, tools: GroupTools) -> None:
        self.groups: dict[str, Group] = {}
        # By producer: the groups for which its open transaction has committed offsets.
        self._groups_of_producer: dict[int, set[str]] = {}
        self._is_active = False
        self._tools = tools
        self._rebalancing = Rebalancing(tools)
        self._joining = Joining(tools, self._rebalancing)
        self._syncing = Syncing(tools, self._rebalancing)
        self._committing = Committing(tools, self._rebalancing)

    # Replay ---------------------------------------------------------------------------------

    def replay(self, record: ClassicRecord, place: Place, /) -> None:
        if isinstance(record, OffsetRecord):
            self._replay_offset(record, place)
        elif self._is_active:
            # It tells of a membership that lives here.
            return
        elif record.value is None:
            self._forget_membership(record.group_id)
        else:
            self._restore(record.group_id, record.value)

    def _replay_offset(self, record: OffsetRecord, place: Place) -> None:
        if record.value is None and record.group_id not in self.groups:
            return
        if place.producer_id != NO_PRODUCER_ID:
            self._groups_of_producer.setdefault(place.producer_id, set()).add(record.group_id)
        offsets = self._group(record.group_id).offsets
        offsets.replay(record.where, record.value, place, self._tools.writer.committed_end)

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
            if (group := self.groups.get(group_id)) is not None:
                group.offsets.end_transaction(
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

    def unload(self) -> None:
        groups, self.groups = self.groups, {}
        for group in groups.values():
            self._rebalancing.dissolve(group, Errors.NOT_COORDINATOR)

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._tools.clock.now_ms())
        return group

    # Membership -----------------------------------------------------------------------------

    def join(self, group_id: str, join: Join) -> None:
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
        if group is None:
            reply(sync_refused(Errors.UNKNOWN_MEMBER_ID))
        else:
            self._syncing.sync(group, request, reply)

    def heartbeat(self, request: HeartbeatRequest) -> Errors:
        group = self.groups.get(request.group_id)
        if group is None:
            return Errors.UNKNOWN_MEMBER_ID
        return self._joining.heartbeat(group, request)

    def leave(self, group_id: str, leaving: LeaveGroupMemberIdentity) -> Errors:
        group = self.groups.get(group_id)
        if group is None:
            return Errors.UNKNOWN_MEMBER_ID
        return self._joining.leave(group, leaving)

    # Offsets --------------------------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        committer: Committer,
        positions: Positions,
        reply: CommitReply,
    ) -> None:
        group = self.groups.get(group_id)
        if group is None:
            if committer.generation >= 0:
                reply(dict.fromkeys(positions, Errors.ILLEGAL_GENERATION))
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
    ) -> dict[TopicPartition, Shown]:
        return show_offsets(
            self.groups.get(group_id),
            wanted,
            require_stable=require_stable,
            committed_end=self._tools.writer.committed_end,
        )

    # Removal --------------------------------------------------------------------------------

    def delete_group(self, group_id: str, reply: ErrorReply) -> None:
        group = self.groups.get(group_id)
        if group is None:
            reply(Errors.GROUP_ID_NOT_FOUND)
        elif group.state is not GroupState.EMPTY:
            reply(Errors.NON_EMPTY_GROUP)
        else:
            records = list(_tombstones(group, group.offsets.latest()))
            if group.generation:
                records.append(GroupRecord(group_id, None))
            self._remove(group, records, reply)

    def delete_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        reply: Callable[[Errors, dict[TopicPartition, Errors]], None],
    ) -> None:
        """OffsetDelete: the error of the whole request, and that of each partition."""
        group = self.groups.get(group_id)
        if group is None:
            reply(Errors.GROUP_ID_NOT_FOUND, {})
            return
        if group.members and group.protocol_type != CONSUMER:
            reply(Errors.NON_EMPTY_GROUP, {})
            return
        outcomes = {
            where: Errors.GROUP_SUBSCRIBED_TO_TOPIC
            if _is_subscribed(group, where.topic)
            else Errors.NONE
            for where in partitions
        }
        latest = group.offsets.latest()
        gone = [w for w, outcome in outcomes.items() if outcome is Errors.NONE and w in latest]
        self._write_in_batches(
            list(_tombstones(group, gone)),
            lambda error: reply(commit_error(error), outcomes if error is Errors.NONE else {}),
        )

    def topics_deleted(self, topics: frozenset[str]) -> Iterator[None]:
        """Forget the offsets of topics that are no more; yields where others may have a turn."""
        for group in list(self.groups.values()):
            gone = [where for where in group.offsets.latest() if where.topic in topics]
            self._write_in_batches(list(_tombstones(group, gone)), _log_failure)
            yield

    def expire(self) -> Iterator[None]:
        """Forget old offsets and groups of which nothing is left; yields like the above."""
        for group in list(self.groups.values()):
            self._expire_group(group)
            yield

    def _expire_group(self, group: Group) -> None:
        now_ms = self._tools.clock.now_ms()
        gone = expired_offsets(group, now_ms, self._tools.config.retention_ms)
        if gone:
            log.info("group %s: %d committed offsets expire", group.id, len(gone))
            self._write_in_batches(list(_tombstones(group, gone)), _log_failure)
        if not is_forgotten(group):
            return
        self._remove(group, [GroupRecord(group.id, None)] if group.generation else [], _log_failure)

    def _remove(self, group: Group, records: list[ClassicRecord], reply: ErrorReply) -> None:
        """Remove an Empty group for good, when its tombstones are committed."""

        def written(error: Errors) -> None:
            if error is Errors.NONE and self._is_bare(group):
                del self.groups[group.id]
                self._rebalancing.dissolve(group, Errors.UNKNOWN_MEMBER_ID)
            reply(commit_error(error))

        self._write_in_batches(records, written)

    def _is_bare(self, group: Group) -> bool:
        """Whether nobody came to the group while it was being removed."""
        is_known = self.groups.get(group.id) is group
        return is_known and group.state is GroupState.EMPTY and not group.offsets

    def _write_in_batches(self, records: list[ClassicRecord], then: ErrorReply) -> None:
        """Write as many batches as it takes; `then` hears of the first failure or the end."""
        if not records:
            then(Errors.NONE)
            return
        batch, rest = records[:_TOMBSTONES_PER_BATCH], records[_TOMBSTONES_PER_BATCH:]

        def written(error: Errors) -> None:
            if error is Errors.NONE and rest:
                self._write_in_batches(rest, then)
            else:
                then(error)

        self._tools.writer.write(batch, written)


def _is_subscribed(group: Group, topic: str) -> bool:
    if not group.members:
        return False
    return group.subscribed_topics is None or topic in group.subscribed_topics


def _tombstones(group: Group, partitions: Iterable[TopicPartition]) -> Iterator[ClassicRecord]:
    return (OffsetRecord(group.id, where, None) for where in partitions)


def _log_failure(error: Errors) -> None:
    if error is not Errors.NONE:
        log.warning("offsets could not be removed, they will be tried again: %s", error.name)
