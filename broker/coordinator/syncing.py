"""SyncGroup of classic groups: the leader brings the assignment, everybody takes a share away.

The assignment is written down first; only when it is committed does the group become Stable and
does anyone hear of it. If it cannot be written, all must join again.
"""

from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_records import GroupRecord
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.members import Member, SyncReply, sync_refused
from odradek.broker.coordinator.rebalancing import GroupTools, Rebalancing
from odradek.broker.coordinator.write_errors import group_error
from odradek.protocol.errors import Errors
from odradek.protocol.messages.groups import SyncGroupRequest, SyncGroupResponse


class Syncing:
    def __init__(self, tools: GroupTools, rebalancing: Rebalancing) -> None:
        self._tools = tools
        self._rebalancing = rebalancing

    def sync(self, group: Group, request: SyncGroupRequest, reply: SyncReply) -> None:
        problem = sync_problem(group, request)
        if problem is not Errors.NONE:
            reply(sync_refused(problem))
            return
        member = group.members[request.member_id]
        self._rebalancing.note_sync(group, member)
        if group.state is GroupState.STABLE:
            self._rebalancing.keep_alive(member)
            reply(assigned(group, member))
            self._rebalancing.sync_is_answered(group)
            return
        # A client that repeats its request only listens for the last one.
        member.answer_sync(sync_refused(Errors.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = reply
        if member.id == group.leader_id:
            given = {each.member_id: bytes(each.assignment) for each in request.assignments}
            self._assign(group, given)

    def _assign(self, group: Group, given: dict[str, bytes]) -> None:
        generation = group.generation
        # Members that the leader forgot get nothing to do.
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}

        def written(error: Errors) -> None:
            if group.state is not GroupState.COMPLETING or group.generation != generation:
                return
            if error is Errors.NONE:
                self._hand_out(group, assignments)
            else:
                self._rebalancing.drop_assignments(group, group_error(error))
                self._rebalancing.rebalance(group, f"the assignment was not kept: {error.name}")

        record = GroupRecord(group.id, group.to_record(assignments))
        self._tools.writer.write([record], written)

    def _hand_out(self, group: Group, assignments: dict[str, bytes]) -> None:
        group.become(GroupState.STABLE, self._tools.clock.now_ms())
        for member in group.members.values():
            member.assignment = assignments.get(member.id, b"")
            if member.awaiting_sync is not None:
                self._rebalancing.keep_alive(member)
                member.answer_sync(assigned(group, member))


def sync_problem(group: Group, request: SyncGroupRequest) -> Errors:
    """Why a sync is refused, NONE if it is not."""
    problem = group.membership_problem(request.member_id, request.group_instance_id)
    if problem is not Errors.NONE:
        return problem
    if request.generation_id != group.generation:
        return Errors.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return Errors.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return Errors.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING:
        return Errors.REBALANCE_IN_PROGRESS
    return Errors.NONE


def assigned(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=Errors.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
