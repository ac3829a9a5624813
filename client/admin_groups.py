"""Consumer groups: listed, described, emptied of members, deleted; and their committed offsets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.client.admin_base import AdminBase, Results, check, failure
from odradek.client.assignors import by_topic
from odradek.client.cluster import CoordinatorKind
from odradek.client.group_offsets import commit_offsets, committed_offsets
from odradek.client.group_protocol import PROTOCOL_TYPE, read_assignment
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from odradek.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from odradek.protocol.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from odradek.protocol.messages.groups import (
    LeaveGroupMemberIdentity,
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from odradek.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    type: str


class GroupAdmin(AdminBase):
    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """The groups of all coordinators, sorted by id."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        found: list[GroupListing] = []
        for node, connection in (await self._connections()).items():
            answer = await connection.request(request, ListGroupsResponse)
            check(answer.error_code)
            found += [
                GroupListing(row.group_id, row.protocol_type, row.group_state, row.group_type, node)
                for row in answer.groups
            ]
        return sorted(found, key=lambda group: group.group_id)

    async def describe_groups(self, group_ids: Iterable[str]) -> Results[str, GroupDescription]:
        return {group_id: await self._describe_group(group_id) for group_id in group_ids}

    async def _describe_group(self, group_id: str) -> GroupDescription | KafkaError:
        """A group of either protocol: the newer one is asked first where it is spoken."""
        try:
            connection = await self._retry(
                lambda: self._cluster.coordinator(CoordinatorKind.GROUP, group_id)
            )
            if connection.supports(ConsumerGroupDescribeRequest):
                newer = await self._describe_newer(group_id)
                if newer is not None:
                    return newer
            answer = await self._ask_coordinator(
                CoordinatorKind.GROUP,
                group_id,
                DescribeGroupsRequest(groups=[group_id]),
                DescribeGroupsResponse,
                lambda a: a.groups[0].error_code,
            )
        except KafkaError as error:
            return error
        return _classic_group(answer.groups[0])

    async def _describe_newer(self, group_id: str) -> GroupDescription | None:
        request = ConsumerGroupDescribeRequest(
            group_ids=[group_id], include_authorized_operations=False
        )
        try:
            answer = await self._ask_coordinator(
                CoordinatorKind.GROUP,
                group_id,
                request,
                ConsumerGroupDescribeResponse,
                lambda a: a.groups[0].error_code,
            )
        except KafkaError as error:
            if error.error in (Errors.GROUP_ID_NOT_FOUND, Errors.UNSUPPORTED_VERSION):
                return None
            raise
        return _newer_group(answer.groups[0])

    async def delete_groups(self, group_ids: Iterable[str]) -> Results[str, None]:
        results: Results[str, None] = {}
        for group_id in group_ids:
            try:
                await self._ask_coordinator(
                    CoordinatorKind.GROUP,
                    group_id,
                    DeleteGroupsRequest(groups_names=[group_id]),
                    DeleteGroupsResponse,
                    lambda a: a.results[0].error_code,
                )
                results[group_id] = None
            except KafkaError as error:
                results[group_id] = error
        return results

    async def remove_members(
        self, group_id: str, members: Sequence[GroupMember], *, reason: str = ""
    ) -> Results[str, None]:
        """Take members out of a group: static ones by their instance id."""
        request = LeaveGroupRequest(
            group_id=group_id,
            members=[
                LeaveGroupMemberIdentity(
                    member_id="" if member.instance_id else member.member_id,
                    group_instance_id=member.instance_id,
                    reason=reason or None,
                )
                for member in members
            ],
        )
        answer = await self._ask_coordinator(
            CoordinatorKind.GROUP, group_id, request, LeaveGroupResponse, lambda a: a.error_code
        )
        return {
            row.group_instance_id or row.member_id: failure(row.error_code)
            for row in answer.members
        }

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed, of these partitions or of all.

        `require_stable`: wait for what a transaction is about to commit to these partitions.
        """
        return await committed_offsets(
            self._cluster,
            group_id,
            partitions,
            timeout_s=self._timeout_s,
            require_stable=require_stable,
        )

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit in the name of a group that has no members now."""
        await commit_offsets(
            self._cluster, GroupMetadata(group_id), offsets, timeout_s=self._timeout_s
        )

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Results[TopicPartition, None]:
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
                )
                for name, indexes in by_topic(partitions).items()
            ],
        )
        answer = await self._ask_coordinator(
            CoordinatorKind.GROUP, group_id, request, OffsetDeleteResponse, lambda a: a.error_code
        )
        return {
            TopicPartition(topic.name, row.partition_index): failure(row.error_code)
            for topic in answer.topics
            for row in topic.partitions
        }


def _classic_group(row: DescribeGroupsDescribedGroup) -> GroupDescription:
    is_consumer = row.protocol_type == PROTOCOL_TYPE
    members = [
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            tuple(read_assignment(bytes(member.member_assignment))) if is_consumer else (),
        )
        for member in row.members
    ]
    return GroupDescription(
        row.group_id,
        row.group_state,
        row.protocol_type,
        row.protocol_data,
        tuple(members),
        "classic",
    )


def _newer_group(row: ConsumerGroupDescribeDescribedGroup) -> GroupDescription:
    members = [
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            tuple(
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            ),
        )
        for member in row.members
    ]
    return GroupDescription(
        row.group_id, row.group_state, PROTOCOL_TYPE, row.assignor_name, tuple(members), "consumer"
    )
