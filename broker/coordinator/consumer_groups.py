"""The consumer groups of a shard: heartbeats in, records and answers out.

Everything that lasts is in records (see `consumer_changes`); what is kept beside them are the
members' deadlines. A member hears of nothing that is not committed: an answer waits even when it
needs no record of its own, as long as there are uncommitted ones before it.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from odradek.broker.coordinator.assignments import Assignment
from odradek.broker.coordinator.consumer_changes import Draft
from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.consumer_members import NO_PATTERN, ConsumerMember, Subscription
from odradek.broker.coordinator.consumer_records import (
    AnyGroupRecord,
    ConsumerRecord,
    EpochRecord,
    MemberRecord,
)
from odradek.broker.coordinator.consumer_sessions import ConsumerSessions, Duty
from odradek.broker.coordinator.group_config import GroupConfig
from odradek.broker.coordinator.heartbeat_checks import (
    check_epoch,
    check_released,
    check_room,
    known_member,
)
from odradek.broker.coordinator.members import Client
from odradek.broker.coordinator.reconciliation import (
    AWAY_EPOCH,
    JOINING_EPOCH,
    MemberState,
)
from odradek.broker.coordinator.shard import Then, Writer
from odradek.broker.coordinator.timers import Deadline
from odradek.broker.coordinator.topic_shapes import Topics
from odradek.broker.coordinator.write_errors import heartbeat_error
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

log: Final = logging.getLogger(__name__)

HeartbeatReply = Callable[[ConsumerGroupHeartbeatResponse], None]

Found = Mapping[str, frozenset[str]]
"""The topics that patterns stand for."""
Resolve = Callable[[Collection[str], Collection[str], Callable[[Found], None]], None]
"""Patterns, names of topics, and who is told which pattern matches what, now or later."""

_NOT_GIVEN: Final = -1
_RETRY_MS: Final = 1000


class ConsumerTools(NamedTuple):
    """What consumer groups need of the world."""

    clock: Clock
    new_deadline: Callable[[Callable[[], None]], Deadline]
    config: GroupConfig
    writer: Writer[AnyGroupRecord]
    new_id: Callable[[], str]
    topics: Callable[[], Topics]
    resolve: Resolve


class Beat(NamedTuple):
    """A heartbeat as everything here looks at it."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    owned: Assignment | None
    is_full: bool
    """Whether it says everything, and so wants to hear everything."""
    request: ConsumerGroupHeartbeatRequest
    client: Client

    @classmethod
    def of(cls, request: ConsumerGroupHeartbeatRequest, client: Client, member_id: str) -> "Beat":
        given = request.topic_partitions
        owned = None if given is None else {g.topic_id: frozenset(g.partitions) for g in given}
        says_topics = (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        return cls(
            request.group_id,
            member_id,
            request.member_epoch,
            request.instance_id,
            owned,
            request.rebalance_timeout_ms != _NOT_GIVEN and says_topics and owned is not None,
            request,
            client,
        )

    def updated(self, said: Subscription) -> Subscription:
        """What the member says of itself now: what it leaves out, it said before."""
        request = self.request
        names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        return Subscription(
            self.client,
            self.instance_id or said.instance_id,
            request.rack_id or said.rack_id,
            said.topics if names is None else frozenset(names),
            said.pattern if pattern is None else pattern,
            said.rebalance_timeout_ms if timeout_ms == _NOT_GIVEN else timeout_ms,
            request.server_assignor or said.assignor,
        )


Downgrade = Callable[[ConsumerGroup, Collection[str], Then], bool]
"""Before members leave: whether the group is made a classic one instead, which ends it here."""


class ConsumerGroups:
    def __init__(self, tools: ConsumerTools, downgrade: Downgrade) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.tools = tools
        self._downgrade = downgrade
        self.sessions = ConsumerSessions(
            tools.new_deadline, tools.config.consumer_session_timeout_ms, self._overdue
        )

    # Records --------------------------------------------------------------------------------

    def replay(self, record: ConsumerRecord) -> None:
        group = self.groups.get(record.group_id)
        if group is None:
            if record.value is None:
                return
            group = self.groups[record.group_id] = ConsumerGroup(record.group_id)
        group.apply(record)
        if isinstance(record, MemberRecord) and record.value is None:
            self.sessions.forget(group.id, record.member_id)
        elif isinstance(record, EpochRecord) and record.value is None:
            del self.groups[group.id]

    def begin(self) -> None:
        """Everything is loaded: members have their full time to be heard of."""
        for group in self.groups.values():
            for member in group.members.values():
                self.sessions.keep_alive(group.id, member)
                if member.has.state is MemberState.UNREVOKED:
                    self.sessions.expect(group.id, member, Duty.REVOKE)

    def unload(self) -> None:
        self.groups.clear()
        self.sessions.forget_all()

    def write(self, draft: Draft, then: Then) -> bool:
        """Make the group what the draft is; False if that was refused at once."""
        if draft.records:
            return self.tools.writer.write(draft.records, then)
        self.tools.writer.when_committed(then)
        return True

    # Heartbeats -----------------------------------------------------------------------------

    def heartbeat(self, beat: Beat, upgraded: Draft | None, reply: HeartbeatReply) -> None:
        """`upgraded` is of a classic group that becomes a consumer group with this heartbeat.

        Raises KafkaError for a heartbeat that is refused.
        """
        group = self._group_for(beat) if upgraded is None else upgraded.group
        check_room(group, beat.member_id, self.tools.config.consumer_max_size)
        member = self.speaker(group, beat.member_id, beat.instance_id, beat.epoch == JOINING_EPOCH)
        if member is not None and beat.epoch != JOINING_EPOCH:
            check_epoch(member, beat.epoch, beat.owned)
        elif member is not None and beat.instance_id is not None and not member.says.classic:
            check_released(member, beat.member_id)
        topics = self.tools.topics()
        says = beat.updated(Subscription() if member is None else member.says)
        if member is not None and self._is_settled(group, member, says, topics):
            draft = None
        else:
            draft = Draft(group) if upgraded is None else upgraded
            self.advance(draft, member, beat.member_id, says, beat.owned)
        self._answer(beat, draft, member, reply)

    def _group_for(self, beat: Beat) -> ConsumerGroup:
        group = self.groups.get(beat.group_id)
        if group is not None:
            return group
        if beat.epoch != JOINING_EPOCH:
            raise KafkaError(
                Errors.GROUP_ID_NOT_FOUND, f"Consumer group {beat.group_id} not found."
            )
        return ConsumerGroup(beat.group_id)

    def speaker(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, is_joining: bool
    ) -> ConsumerMember | None:
        """Who of the group speaks; None for a newcomer.

        A static member that joins may be known under another id.
        """
        if not is_joining:
            return known_member(group, member_id, instance_id)
        if instance_id is not None:
            return group.static_member(instance_id)
        return group.members.get(member_id)

    def _is_settled(
        self, group: ConsumerGroup, member: ConsumerMember, says: Subscription, topics: Topics
    ) -> bool:
        """Whether there is nothing to do: most heartbeats are so."""
        return (
            member.says == says
            and group.seen_topics is topics
            and group.epoch == group.target_epoch
            and member.has.is_reconciled_to(group.target_epoch)
            and not needs_resolving(group, says.pattern, topics)
        )

    def advance(
        self,
        draft: Draft,
        member: ConsumerMember | None,
        member_id: str,
        says: Subscription,
        owned: Assignment | None,
    ) -> None:
        """Let the draft take in what a member says, and bring the member closer to its target."""
        topics = self.tools.topics()
        if member is not None and (member.id != member_id or member.has.epoch == AWAY_EPOCH):
            draft.replace(member, member_id)
        is_changed = draft.hear(member_id, says)
        seen = self.groups[draft.group.id].seen_topics if draft.group.id in self.groups else None
        if is_changed or seen is not topics:
            draft.look(topics, is_changed=is_changed)
        draft.assign(topics, self.tools.config.assignors)
        draft.reconcile(member_id, owned)

    def _answer(
        self,
        beat: Beat,
        draft: Draft | None,
        before: ConsumerMember | None,
        reply: HeartbeatReply,
    ) -> None:
        group = self.groups[beat.group_id] if draft is None else draft.group
        after = group.members[beat.member_id]
        is_told = beat.is_full or before is None or before.has.assigned != after.has.assigned
        response = ConsumerGroupHeartbeatResponse(
            error_code=Errors.NONE,
            member_id=after.id,
            member_epoch=after.has.epoch,
            heartbeat_interval_ms=self.tools.config.consumer_heartbeat_interval_ms,
            assignment=_assignment(after.has.assigned) if is_told else None,
        )

        def written(error: Errors) -> None:
            reply(response if error is Errors.NONE else refused(heartbeat_error(error)))

        if draft is None:
            self.sessions.keep_alive(group.id, after)
            self.tools.writer.when_committed(written)
        elif self.write(draft, written):
            self.followed(group.id, before, after)

    def followed(self, group_id: str, before: ConsumerMember | None, after: ConsumerMember) -> None:
        """A member has spoken and it is in the log: what follows beside the records."""
        group = self.groups.get(group_id)
        if group is None or after.id not in group.members:
            return
        topics = self.tools.topics()
        group.seen_topics = topics
        self.sessions.keep_alive(group_id, after)
        if before is None or before.has != after.has:
            if after.has.state is MemberState.UNREVOKED:
                self.sessions.expect(group_id, after, Duty.REVOKE)
            else:
                self.sessions.is_done(group_id, after.id, Duty.REVOKE)
        if before is not None and before.says.classic and not after.says.classic:
            self.sessions.is_done(group_id, after.id, Duty.JOIN)
            self.sessions.is_done(group_id, after.id, Duty.SYNC)
        if needs_resolving(group, after.says.pattern, topics):
            self._resolve_patterns(group, topics)

    def drop_protocol(self, group: ConsumerGroup) -> None:
        """A member has changed its protocol: perhaps nobody is left who speaks the group's."""
        if self.groups.get(group.id) is group:
            self._downgrade(group, (), _log_failure)

    # Patterns -------------------------------------------------------------------------------

    def _resolve_patterns(self, group: ConsumerGroup, topics: Topics) -> None:
        """Find out what the group's patterns stand for."""
        used = {member.says.pattern for member in group.members.values()} - {NO_PATTERN}
        group.is_resolving = True

        def found(topics_of: Found) -> None:
            if self.groups.get(group.id) is not group:
                return
            group.is_resolving = False
            draft = Draft(group)
            draft.resolve(topics_of, topics, self.tools.clock.now_ms())
            if not draft.records or self.write(draft, _log_failure):
                group.resolved_topics = topics

        self.tools.resolve(used, topics.keys(), found)

    # Leaving --------------------------------------------------------------------------------

    def leave(self, beat: Beat, reply: HeartbeatReply) -> None:
        group = self.groups.get(beat.group_id)
        if group is None:
            raise KafkaError(Errors.GROUP_ID_NOT_FOUND, f"Group {beat.group_id} not found.")
        member = known_member(group, beat.member_id, beat.instance_id)
        response = ConsumerGroupHeartbeatResponse(
            error_code=Errors.NONE,
            member_id=member.id,
            member_epoch=beat.epoch,
            heartbeat_interval_ms=0,
        )

        def written(error: Errors) -> None:
            reply(response if error is Errors.NONE else refused(heartbeat_error(error)))

        if beat.epoch != AWAY_EPOCH:
            log.info("group %s: member %s leaves", group.id, member.id)
            self.remove(group, [member.id], written)
            return
        log.info("group %s: static member %s leaves for a while", group.id, member.id)
        draft = Draft(group)
        draft.send_away(member)
        if self.write(draft, written):
            self.sessions.is_done(group.id, member.id, Duty.REVOKE)

    def remove(self, group: ConsumerGroup, member_ids: Collection[str], then: Then) -> None:
        """Take members out, which begins a new epoch."""
        if self._downgrade(group, member_ids, then):
            return
        draft = Draft(group)
        for member_id in member_ids:
            draft.remove(member_id)
        draft.look(self.tools.topics(), is_changed=True)
        self.write(draft, then)

    def _overdue(self, group_id: str, member_id: str, duty: Duty) -> None:
        group = self.groups.get(group_id)
        if group is None or member_id not in group.members:
            return

        def written(error: Errors) -> None:
            if error is not Errors.NONE and self.groups.get(group_id) is group:
                self.sessions.try_again(group_id, member_id, duty, _RETRY_MS)

        log.info("group %s: member %s %s", group_id, member_id, duty.value)
        self.remove(group, [member_id], written)


def needs_resolving(group: ConsumerGroup, pattern: str, topics: Topics) -> bool:
    """Whether a member's pattern is new, or there are other topics than when all were resolved."""
    if group.is_resolving:
        return False
    is_new = pattern != NO_PATTERN and pattern not in group.patterns
    return is_new or (bool(group.patterns) and group.resolved_topics is not topics)


def refused(error: Errors, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=error, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


def _assignment(assigned: Assignment) -> ConsumerGroupHeartbeatAssignment:
    return ConsumerGroupHeartbeatAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


def _log_failure(error: Errors) -> None:
    if error is not Errors.NONE:
        log.warning("a change that nobody waits for could not be written: %s", error.name)
