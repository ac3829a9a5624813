"""What administrators are shown of groups."""

from collections.abc import Iterable

from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_states import GroupState
from odradek.protocol.errors import Errors
from odradek.protocol.messages.group_admin import (
    DescribedGroupMember,
    DescribeGroupsDescribedGroup,
    ListedGroup,
)

CLASSIC = "classic"


def described(group: Group) -> DescribeGroupsDescribedGroup:
    """While a group rebalances, what its members want and have is not shown: it is in flux."""
    is_stable = group.state is GroupState.STABLE
    return DescribeGroupsDescribedGroup(
        error_code=Errors.NONE,
        group_id=group.id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client.id,
                client_host=member.client.host,
                member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )


def not_described(group_id: str, error: Errors, state: str = "") -> DescribeGroupsDescribedGroup:
    return DescribeGroupsDescribedGroup(
        error_code=error,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def listed(
    groups: Iterable[Group], states: Iterable[str], types: Iterable[str]
) -> list[ListedGroup]:
    """Groups in one of these states and of one of these types; none given means any."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    if wanted_types and CLASSIC not in wanted_types:
        return []
    return [
        ListedGroup(
            group_id=group.id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=CLASSIC,
        )
        for group in groups
        if not wanted_states or group.state.value.lower() in wanted_states
    ]
