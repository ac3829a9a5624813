"""A static member that comes back: same instance id, no member id.

Its old id is fenced at once. In a Stable group nothing else changes: the new id is written down
and, when that is committed, the member gets the current generation. So a restart is not noticed by
the others, nor by a coordinator that takes over meanwhile.
"""

import logging
from typing import Final

from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_records import GroupRecord
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.members import NO_MEMBER, Join, Member, join_refused
from odradek.broker.coordinator.rebalancing import GroupTools, Rebalancing, joined
from odradek.broker.coordinator.write_errors import group_error
from odradek.protocol.errors import Errors
from odradek.protocol.messages.groups import JoinGroupResponse

log: Final = logging.getLogger(__name__)


class StaticMembers:
    def __init__(self, tools: GroupTools, rebalancing: Rebalancing) -> None:
        self._tools = tools
        self._rebalancing = rebalancing

    def replace(self, group: Group, member: Member, member_id: str, join: Join) -> None:
        log.info("group %s: %s comes back as %s", group.id, member.id, member_id)
        old_id, old_offer, old_leader = member.id, member.offer, group.leader_id
        member.refuse_all(Errors.FENCED_INSTANCE_ID)
        group.rename(member, member_id)
        self._rebalancing.keep_alive(member)
        self._rebalancing.wait_for_join(group, member, join.offer, join.reply)
        if group.state is not GroupState.STABLE or changes_protocol(group):
            self._rebalancing.rebalance(group, f"static member {member_id} comes back")
            return

        def written(error: Errors) -> None:
            if group.members.get(member_id) is not member or member.awaiting_join is not join.reply:
                return  # a rebalance, or a later return of the same member, answers instead
            if error is not Errors.NONE:
                group.accept(member, old_offer)
                group.rename(member, old_id)
                self._rebalancing.keep_alive(member)
                member.answer_join(join_refused(group_error(error), NO_MEMBER))
            elif group.state is GroupState.STABLE:
                member.answer_join(returned(group, member, join, old_leader))

        assignments = {each.id: each.assignment for each in group.members.values()}
        record = GroupRecord(group.id, group.to_record(assignments))
        self._tools.writer.write([record], written)


def changes_protocol(group: Group) -> bool:
    """Whether the next vote would choose another protocol than the one in use."""
    return group.select_protocol() != group.protocol_name


def returned(group: Group, member: Member, join: Join, old_leader: str | None) -> JoinGroupResponse:
    """The current generation, told so that a leader which comes back does not assign.

    From version 9 on it is told that it leads and may skip the assignment. Before, it is told the
    leader's old id, and so takes itself for a follower: a Stable group would not listen to an
    assignment.
    """
    is_leader = member.id == group.leader_id
    response = joined(group, member, lists_members=is_leader and join.can_skip_assignment)
    if join.can_skip_assignment:
        response.skip_assignment = is_leader
    else:
        response.leader = old_leader or ""
    return response
