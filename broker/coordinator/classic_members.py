"""Members of the classic protocol in consumer groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Such a member is assigned to and reconciled like all others, but is told of it in its own terms: its
epoch is its generation; when it has something to give up or to be given, or the group has moved
on, it hears REBALANCE_IN_PROGRESS and joins again. A join says what it wants and still holds, and
is answered at once; a sync fetches what it shall hold. Nobody leads, and nobody waits for others.
"""

from typing import NamedTuple

from odradek.broker.coordinator.assignments import slots_of, without
from odradek.broker.coordinator.consumer_changes import Draft
from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.consumer_groups import ConsumerGroups
from odradek.broker.coordinator.consumer_members import ClassicSide, ConsumerMember, Subscription
from odradek.broker.coordinator.consumer_sessions import Duty
from odradek.broker.coordinator.heartbeat_checks import check_room, known_member
from odradek.broker.coordinator.members import (
    NO_MEMBER,
    Join,
    SyncReply,
    join_refused,
    sync_refused,
)
from odradek.broker.coordinator.migration import classic_assignment
from odradek.broker.coordinator.reconciliation import MemberState
from odradek.broker.coordinator.subscriptions import (
    CONSUMER,
    owned_partitions,
    read_subscription,
)
from odradek.broker.coordinator.topic_shapes import Topics
from odradek.broker.coordinator.write_errors import heartbeat_error
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupResponse,
    LeaveGroupMemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)


class ClassicMembers:
    def __init__(self, consumers: ConsumerGroups) -> None:
        self._consumers = consumers
        self._sessions = consumers.sessions
        self._tools = consumers.tools

    # Joining --------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, join: Join) -> None:
        try:
            self._join(group, join)
        except KafkaError as error:
            join.refuse(error.error)

    def _join(self, group: ConsumerGroup, join: Join) -> None:
        check_room(group, join.member_id, self._tools.config.consumer_max_size)
        if not supports(group, join):
            raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL)
        is_unknown = join.member_id == NO_MEMBER
        member_id = self._tools.new_id() if is_unknown else join.member_id
        if is_unknown and join.needs_id_first:
            join.reply(join_refused(Errors.MEMBER_ID_REQUIRED, member_id))
            return
        subscription = _subscription_of(join)
        topics = self._tools.topics()
        member = self._consumers.speaker(
            group, member_id, join.instance_id, join.instance_id is None or is_unknown
        )
        draft = Draft(group)
        says = _says(join, subscription)
        owned = owned_partitions(subscription, topics)
        self._consumers.advance(draft, member, member_id, says, owned)
        after = draft.group.members[member_id]

        def written(error: Errors) -> None:
            if error is not Errors.NONE:
                join.refuse(heartbeat_error(error))
                return
            join.reply(_joined(after, join))

        if self._consumers.write(draft, written):
            self._consumers.followed(group.id, member, after)
            self._sessions.is_done(group.id, member_id, Duty.JOIN)
            self._sessions.expect(group.id, after, Duty.SYNC)
            if member is not None and member.says.classic is None:
                self._consumers.drop_protocol(group)

    # Syncing --------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, reply: SyncReply) -> None:
        try:
            member, classic = self._speaker(
                group, request.member_id, request.group_instance_id, request.generation_id
            )
            self._check_sync(group, member, classic, request)
        except KafkaError as error:
            reply(sync_refused(error.error))
            return
        names = names_of(self._tools.topics())
        metadata = classic.protocols[0].metadata

        def committed(error: Errors) -> None:
            if error is not Errors.NONE:
                reply(sync_refused(heartbeat_error(error)))
                return
            reply(
                SyncGroupResponse(
                    error_code=Errors.NONE,
                    protocol_type=request.protocol_type,
                    protocol_name=request.protocol_name,
                    assignment=classic_assignment(member.has.assigned, metadata, names),
                )
            )

        self._sessions.is_done(group.id, member.id, Duty.SYNC)
        self._sessions.keep_alive(group.id, member)
        self._tools.writer.when_committed(committed)

    def _check_sync(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        classic: ClassicSide,
        request: SyncGroupRequest,
    ) -> None:
        is_same_type = request.protocol_type in (None, CONSUMER)
        if not is_same_type or request.protocol_name not in (None, classic.protocols[0].name):
            raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL)
        # One that has partitions to give up has joined already, and first has to give them up.
        is_revoking = member.has.state is MemberState.UNREVOKED
        if group.epoch > member.has.epoch and not is_revoking:
            self._sessions.expect_anyway(group.id, member, Duty.JOIN)
            raise KafkaError(Errors.REBALANCE_IN_PROGRESS)

    # Living and leaving ---------------------------------------------------------------------

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> Errors:
        try:
            member, _ = self._speaker(
                group, request.member_id, request.group_instance_id, request.generation_id
            )
        except KafkaError as error:
            return error.error
        self._sessions.keep_alive(group.id, member)
        if not should_rejoin(group, member):
            return Errors.NONE
        self._sessions.expect_anyway(group.id, member, Duty.JOIN)
        return Errors.REBALANCE_IN_PROGRESS

    def leave(self, group: ConsumerGroup, leaving: LeaveGroupMemberIdentity) -> Errors:
        """Take one member out, of whatever protocol: administrators do that too."""
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if member_id == NO_MEMBER and instance_id is not None:
            member_id = group.instances.get(instance_id, NO_MEMBER)
        try:
            member = known_member(group, member_id, instance_id)
        except KafkaError as error:
            return error.error
        self._consumers.remove(group, [member.id], lambda _: None)
        return Errors.NONE

    def _speaker(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> "_Speaker":
        member = known_member(group, member_id, instance_id)
        if member.says.classic is None:
            raise KafkaError(
                Errors.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol."
            )
        if generation != member.has.epoch:
            raise KafkaError(Errors.ILLEGAL_GENERATION)
        return _Speaker(member, member.says.classic)


class _Speaker(NamedTuple):
    member: ConsumerMember
    classic: ClassicSide


def supports(group: ConsumerGroup, join: Join) -> bool:
    """Whether it knows an assignment protocol that all members of the classic protocol know."""
    if join.protocol_type != CONSUMER:
        return False
    common = {protocol.name for protocol in join.offer.protocols}
    for member in group.members.values():
        if member.says.classic is not None and member.id != join.member_id:
            common &= {protocol.name for protocol in member.says.classic.protocols}
    return bool(common)


def should_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether the group has moved on, or the member has something to give up or to be given."""
    if member.has.epoch < group.epoch or member.has.state is MemberState.UNREVOKED:
        return True
    if member.has.state is not MemberState.UNRELEASED:
        return False
    missing = without(group.target(member.id).assignment, member.has.assigned)
    return all(group.is_free(*slot) for slot in slots_of(missing))


def names_of(topics: Topics) -> dict[bytes, str]:
    return {shape.id: name for name, shape in topics.items()}


def _subscription_of(join: Join) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(join.offer.protocols[0].metadata)
    except ProtocolError:
        raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL) from None


def _says(join: Join, subscription: ConsumerProtocolSubscription) -> Subscription:
    return Subscription(
        client=join.client,
        instance_id=join.instance_id,
        rack_id=subscription.rack_id or None,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=join.offer.rebalance_timeout_ms,
        classic=ClassicSide(join.offer.session_timeout_ms, join.offer.protocols),
    )


def _joined(member: ConsumerMember, join: Join) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=Errors.NONE,
        generation_id=member.has.epoch,
        protocol_type=CONSUMER,
        protocol_name=join.offer.protocols[0].name,
        leader="",
        member_id=member.id,
        members=[],
    )
