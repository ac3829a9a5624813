"""JoinGroup, Heartbeat and LeaveGroup of classic groups.

The answer to a join comes when the next generation begins. A member that has nothing new to say
while its generation is under way gets that generation again, with two exceptions: the leader of a
Stable group may mean to assign anew, and so always begins a rebalance; and so does everybody whose
protocols have changed.

A dynamic member of version 4 and up is first given an id (MEMBER_ID_REQUIRED) and joins with it,
so that a client which never hears the answer leaves no ghost behind.
"""

from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.members import NO_MEMBER, Join, Member, Offer, join_refused
from odradek.broker.coordinator.rebalancing import GroupTools, Rebalancing, joined
from odradek.broker.coordinator.static_members import StaticMembers
from odradek.protocol.errors import Errors
from odradek.protocol.messages.groups import HeartbeatRequest, LeaveGroupMemberIdentity


class Joining:
    def __init__(self, tools: GroupTools, rebalancing: Rebalancing) -> None:
        self._tools = tools
        self._rebalancing = rebalancing
        self._static_members = StaticMembers(tools, rebalancing)

    def join(self, group: Group, join: Join) -> None:
        """Begin a join; the group may be new."""
        if not group.has_room_for(join.member_id, self._tools.config.max_size):
            self._turn_away(group, join)
        elif not group.supports(join.protocol_type, join.offer):
            join.refuse(Errors.INCONSISTENT_GROUP_PROTOCOL)
        elif join.member_id == NO_MEMBER:
            self._join_unknown(group, join)
        else:
            self._join_known(group, join)

    def _turn_away(self, group: Group, join: Join) -> None:
        """The group is full: also a member of old has to go, if it comes back too late."""
        join.reply(join_refused(Errors.GROUP_MAX_SIZE_REACHED, NO_MEMBER))
        member = group.members.get(join.member_id)
        if member is not None:
            self._rebalancing.remove_member(group, member, "found the group full")

    def _join_unknown(self, group: Group, join: Join) -> None:
        prefix = join.client.id if join.instance_id is None else join.instance_id
        member_id = f"{prefix}-{self._tools.new_id()}"
        if join.instance_id is not None and join.instance_id in group.instances:
            member = group.members[group.instances[join.instance_id]]
            self._static_members.replace(group, member, member_id, join)
        elif join.needs_id_first:
            self._rebalancing.promise_id(group, member_id, join.offer.session_timeout_ms)
            join.reply(join_refused(Errors.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, join, member_id)

    def _add(self, group: Group, join: Join, member_id: str) -> None:
        member = Member(member_id, join.instance_id, join.client, join.offer)
        self._rebalancing.add_member(group, member, join.protocol_type, join.reply)

    def _join_known(self, group: Group, join: Join) -> None:
        if join.instance_id is None and join.member_id in group.pending_members:
            self._rebalancing.take_promise(group, join.member_id)
            self._add(group, join, join.member_id)
            return
        problem = group.membership_problem(join.member_id, join.instance_id)
        if problem is not Errors.NONE:
            join.refuse(problem)
            return
        member = group.members[join.member_id]
        if begins_rebalance(group, member, join.offer):
            self._rebalancing.rejoin_member(group, member, join.offer, join.reply)
            return
        # The client may have missed the answer to its join: it gets the same again.
        is_leader = member.id == group.leader_id
        if group.state is GroupState.STABLE:
            self._rebalancing.keep_alive(member)
        lists_members = is_leader and group.state is GroupState.COMPLETING
        join.reply(joined(group, member, lists_members=lists_members))

    # Heartbeats and leaving -----------------------------------------------------------------

    def heartbeat(self, group: Group, request: HeartbeatRequest) -> Errors:
        problem = group.membership_problem(request.member_id, request.group_instance_id)
        if problem is not Errors.NONE:
            return problem
        if request.generation_id != group.generation:
            return Errors.ILLEGAL_GENERATION
        self._rebalancing.keep_alive(group.members[request.member_id])
        if group.state is GroupState.PREPARING:
            return Errors.REBALANCE_IN_PROGRESS
        return Errors.NONE

    def leave(self, group: Group, leaving: LeaveGroupMemberIdentity) -> Errors:
        """Take one member out; administrators name static members by their instance alone."""
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if member_id == NO_MEMBER and instance_id is not None:
            member_id = group.instances.get(instance_id, NO_MEMBER)
        if instance_id is None and member_id in group.pending_members:
            self._rebalancing.withdraw_id(group, member_id)
            return Errors.NONE
        problem = group.membership_problem(member_id, instance_id)
        if problem is Errors.NONE:
            reason = f"leaves ({leaving.reason})" if leaving.reason else "leaves"
            self._rebalancing.remove_member(group, group.members[member_id], reason)
        return problem


def begins_rebalance(group: Group, member: Member, offer: Offer) -> bool:
    """Whether a join of a known member starts a new generation, or joins one being prepared."""
    if group.state is GroupState.PREPARING:
        return True
    if group.state is GroupState.STABLE and member.id == group.leader_id:
        return True
    return member.offer.protocols != offer.protocols
