"""Short ways to speak to a group coordinator, one connection for each member."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self, cast

from odradek.protocol.errors import Errors
from odradek.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupMemberIdentity,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.types import TopicPartition

from tests.support.raw_client import RawClient

SUBSCRIPTION_TO_T = bytes.fromhex("000000000001000174ffffffff")
TRANSIENT = (Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR, 14)


class Member:
    """One member, or somebody who would be: a connection and what the coordinator told it."""

    def __init__(self, port: int, group: str, *, instance: str | None = None) -> None:
        self.client = RawClient(port, timeout=30)
        self.group = group
        self.instance = instance
        self.id = ""
        self.generation = -1
        self._join_version = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()

    # Joining --------------------------------------------------------------------------------

    def ask_to_join(
        self,
        version: int = 5,
        *,
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        protocols: Mapping[str, bytes] | None = None,
        kind: str = "consumer",
    ) -> None:
        """Send the request; `joined` reads the answer."""
        offered = {"range": SUBSCRIPTION_TO_T} if protocols is None else protocols
        self._join_version = version
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version else -1,
            member_id=self.id,
            group_instance_id=self.instance if version >= 5 else None,
            protocol_type=kind,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in offered.items()
            ],
        )
        self.client.request(request, version)

    def joined(self) -> JoinGroupResponse:
        _, response = self.client.read_response(JoinGroupRequest, self._join_version)
        answer = cast(JoinGroupResponse, response)
        if answer.error_code in (Errors.NONE, Errors.MEMBER_ID_REQUIRED):
            self.id = answer.member_id
        if answer.error_code == Errors.NONE:
            self.generation = answer.generation_id
        return answer

    def join(self, version: int = 5, **options: object) -> JoinGroupResponse:
        self.ask_to_join(version, **options)  # type: ignore[arg-type]
        answer = self.joined()
        if answer.error_code != Errors.MEMBER_ID_REQUIRED:
            return answer
        self.ask_to_join(version, **options)  # type: ignore[arg-type]
        return self.joined()

    def ask_to_sync(
        self, assignments: Mapping[str, bytes] | None = None, version: int = 3, **other: object
    ) -> None:
        fields: dict[str, object] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance if version >= 3 else None,
            **other,
        }
        request = SyncGroupRequest(
            **fields,  # type: ignore[arg-type]
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=data)
                for member, data in (assignments or {}).items()
            ],
        )
        self._sync_version = version
        self.client.request(request, version)

    def synced(self) -> SyncGroupResponse:
        _, response = self.client.read_response(SyncGroupRequest, self._sync_version)
        return cast(SyncGroupResponse, response)

    def sync(
        self, assignments: Mapping[str, bytes] | None = None, version: int = 3, **other: object
    ) -> SyncGroupResponse:
        self.ask_to_sync(assignments, version, **other)
        return self.synced()

    def settle(self) -> None:
        """Join alone and become Stable."""
        assert self.join().error_code == 0
        assert self.sync({self.id: b"mine"}).error_code == 0

    # Living ---------------------------------------------------------------------------------

    def beat(self, version: int = 3, *, generation: int | None = None) -> Errors:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id,
            group_instance_id=self.instance if version >= 3 else None,
        )
        answer = cast(HeartbeatResponse, self.client.ask(request, version))
        return Errors(answer.error_code)

    def leave(self, version: int = 2) -> LeaveGroupResponse:
        leaving = LeaveGroupMemberIdentity(member_id=self.id, group_instance_id=self.instance)
        request = LeaveGroupRequest(
            group_id=self.group,
            member_id=self.id if version < 3 else "",
            members=[leaving] if version >= 3 else [],
        )
        return cast(LeaveGroupResponse, self.client.ask(request, version))

    # Offsets --------------------------------------------------------------------------------

    def commit(
        self,
        where: TopicPartition,
        offset: int,
        version: int = 7,
        *,
        metadata: str | None = "",
        generation: int | None = None,
        retention_ms: int = -1,
    ) -> Errors:
        partition = OffsetCommitRequestPartition(
            partition_index=where.partition, committed_offset=offset, committed_metadata=metadata
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.id,
            group_instance_id=self.instance if version >= 7 else None,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequestTopic(name=where.topic, partitions=[partition])],
        )
        answer = cast(OffsetCommitResponse, self.client.ask(request, version))
        return Errors(answer.topics[0].partitions[0].error_code)

    def fetch(self, where: TopicPartition, version: int = 5) -> tuple[int, int, str | None, int]:
        """Offset, leader epoch, metadata and error of one partition."""
        topic, index = where
        if version < 8:
            request = OffsetFetchRequest(
                group_id=self.group,
                topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[index])],
            )
            answer = cast(OffsetFetchResponse, self.client.ask(request, version))
            found = answer.topics[0].partitions[0]
        else:
            wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[index])
            group = OffsetFetchRequestGroup(group_id=self.group, topics=[wanted])
            asked = OffsetFetchRequest(groups=[group])
            answer = cast(OffsetFetchResponse, self.client.ask(asked, version))
            found = answer.groups[0].topics[0].partitions[0]  # type: ignore[assignment]
        return (
            found.committed_offset,
            found.committed_leader_epoch,
            found.metadata,
            found.error_code,
        )

    def fetch_all(self, version: int = 5) -> dict[TopicPartition, int]:
        if version < 8:
            request = OffsetFetchRequest(group_id=self.group, topics=None)
            answer = cast(OffsetFetchResponse, self.client.ask(request, version))
            return {
                TopicPartition(topic.name, p.partition_index): p.committed_offset
                for topic in answer.topics
                for p in topic.partitions
            }
        group = OffsetFetchRequestGroup(group_id=self.group, topics=None)
        asked = OffsetFetchRequest(groups=[group])
        answer = cast(OffsetFetchResponse, self.client.ask(asked, version))
        return {
            TopicPartition(topic.name, p.partition_index): p.committed_offset
            for topic in answer.groups[0].topics
            for p in topic.partitions
        }

    # Administration -------------------------------------------------------------------------

    def find(self, version: int = 2) -> FindCoordinatorResponse:
        request = FindCoordinatorRequest(
            key=self.group if version < 4 else "",
            key_type=0,
            coordinator_keys=[self.group] if version >= 4 else [],
        )
        return cast(FindCoordinatorResponse, self.client.ask(request, version))

    def describe(self, version: int = 4) -> DescribeGroupsDescribedGroup:
        request = DescribeGroupsRequest(groups=[self.group])
        return cast(DescribeGroupsResponse, self.client.ask(request, version)).groups[0]

    def delete(self, version: int = 1) -> Errors:
        request = DeleteGroupsRequest(groups_names=[self.group])
        answer = cast(DeleteGroupsResponse, self.client.ask(request, version))
        return Errors(answer.results[0].error_code)
