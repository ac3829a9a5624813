"""What administrators are shown of groups."""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.broker.coordinator.assignments import Assignment
from odradek.broker.coordinator.consumer_changes import Assignors, chosen_assignor
from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.subscriptions import CONSUMER
from odradek.protocol.errors import Errors
from odradek.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeTopicPartitions,
)
from odradek.protocol.messages.group_admin import (
    DescribedGroupMember,
    DescribeGroupsDescribedGroup,
    ListedGroup,
)

CLASSIC: Final = "classic"

# The types of members of a consumer group.
_OF_CLASSIC: Final = 0
_OF_CONSUMER: Final = 1


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
    groups: Iterable[Group | ConsumerGroup], states: Iterable[str], types: Iterable[str]
) -> list[ListedGroup]:
    """Groups in one of these states and of one of these types; none given means any."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    found = []
    for group in groups:
        state = group.state.value
        kind = CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC
        if (not wanted_states or state.lower() in wanted_states) and (
            not wanted_types or kind in wanted_types
        ):
            protocol_type = CONSUMER if isinstance(group, ConsumerGroup) else group.protocol_type
            found.append(
                ListedGroup(
                    group_id=group.id,
                    protocol_type=protocol_type or "",
                    group_state=state,
                    group_type=kind,
                )
            )
    return found


def described_consumer_group(
    group: ConsumerGroup, assignors: Assignors, names: Mapping[bytes, str]
) -> ConsumerGroupDescribeDescribedGroup:
    """`names` are those of the topics that there are; others are not shown."""
    return ConsumerGroupDescribeDescribedGroup(
        error_code=Errors.NONE,
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=chosen_assignor(group, assignors),
        members=[
            ConsumerGroupDescribeMember(
                member_id=member.id,
                instance_id=member.says.instance_id,
                rack_id=member.says.rack_id,
                member_epoch=member.has.epoch,
                client_id=member.says.client.id,
                client_host=member.says.client.host,
                subscribed_topic_names=sorted(member.says.topics),
                subscribed_topic_regex=member.says.pattern,
                assignment=_assignment(member.has.assigned, names),
                target_assignment=_assignment(group.target(member.id).assignment, names),
                member_type=_OF_CONSUMER if member.says.classic is None else _OF_CLASSIC,
            )
            for member in group.members.values()
        ],
    )


def consumer_group_not_described(
    group_id: str, error: Errors, message: str | None = None
) -> ConsumerGroupDescribeDescribedGroup:
    return ConsumerGroupDescribeDescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _assignment(
    assignment: Assignment, names: Mapping[bytes, str]
) -> ConsumerGroupDescribeAssignment:
    return ConsumerGroupDescribeAssignment(
        topic_partitions=[
            ConsumerGroupDescribeTopicPartitions(
                topic_id=topic_id, topic_name=names[topic_id], partitions=sorted(partitions)
            )
            for topic_id, partitions in assignment.items()
            if topic_id in names
        ]
    )
