"""Short ways to speak the consumer protocol of groups, one connection for each member."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast

from odradek.protocol.errors import Errors
from odradek.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from odradek.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

from tests.support.raw_client import RawClient

Owned = Mapping[bytes, Sequence[int]]


class Consumer:
    """A member of the consumer protocol, or somebody who would be."""

    def __init__(self, port: int, group: str, name: str, *, instance: str | None = None) -> None:
        self.client = RawClient(port, timeout=30)
        self.group = group
        self.id = name
        self.instance = instance
        self.epoch = 0
        self.held: dict[bytes, list[int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()

    # Heartbeats -----------------------------------------------------------------------------

    def send(
        self, epoch: int, version: int = 1, owned: Owned | None = None, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat as it is told; what is answered becomes what the member knows."""
        partitions = None
        if owned is not None:
            partitions = [
                ConsumerGroupHeartbeatTopicPartitions(topic_id=topic, partitions=list(numbers))
                for topic, numbers in owned.items()
            ]
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": epoch,
            "instance_id": self.instance,
            "topic_partitions": partitions,
            **fields,
        }
        request = ConsumerGroupHeartbeatRequest(**values)
        answer = cast(ConsumerGroupHeartbeatResponse, self.client.ask(request, version))
        if answer.error_code == Errors.NONE:
            self.id = answer.member_id or self.id
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.held = {
                    each.topic_id: sorted(each.partitions)
                    for each in answer.assignment.topic_partitions
                }
        return answer

    def join(
        self, *topics: str, version: int = 1, pattern: str | None = None, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        values: dict[str, Any] = {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": list(topics) if pattern is None else None,
            "owned": {},
            **fields,
        }
        if version >= 1:
            values["subscribed_topic_regex"] = pattern
        return self.send(0, version, **values)

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return self.send(self.epoch, **fields)

    def settle(self) -> None:
        """Beat, and give up what has to be given up, until nothing more changes."""
        while True:
            before = self.epoch, self.held
            answer = self.beat(owned=self.held)
            assert answer.error_code == Errors.NONE, answer.error_message
            if (self.epoch, self.held) == before:
                return

    def leave(self) -> Errors:
        return Errors(self.send(-1).error_code)

    # Offsets --------------------------------------------------------------------------------

    def commit(
        self,
        topic: str,
        offset: int,
        version: int = 9,
        *,
        epoch: int | None = None,
        topic_id: bytes = bytes(16),
        index: int = 0,
    ) -> Errors:
        partition = OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=""
        )
        named = OffsetCommitRequestTopic(
            name=topic if version < 10 else "", topic_id=topic_id, partitions=[partition]
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch if epoch is None else epoch,
            member_id=self.id,
            topics=[named],
        )
        answer = cast(OffsetCommitResponse, self.client.ask(request, version))
        assert answer.topics[0].topic_id == topic_id
        return Errors(answer.topics[0].partitions[0].error_code)

    def fetch(
        self,
        topic: str,
        version: int = 9,
        *,
        member: str | None = None,
        epoch: int = -1,
        topic_id: bytes = bytes(16),
        indexes: Sequence[int] = (0,),
    ) -> OffsetFetchResponseGroup:
        wanted = OffsetFetchRequestTopics(
            name=topic if version < 10 else "",
            topic_id=topic_id,
            partition_indexes=list(indexes),
        )
        group = OffsetFetchRequestGroup(
            group_id=self.group, member_id=member, member_epoch=epoch, topics=[wanted]
        )
        request = OffsetFetchRequest(groups=[group])
        return cast(OffsetFetchResponse, self.client.ask(request, version)).groups[0]

    # Administration -------------------------------------------------------------------------

    def describe(self, version: int = 1) -> ConsumerGroupDescribeDescribedGroup:
        request = ConsumerGroupDescribeRequest(
            group_ids=[self.group], include_authorized_operations=True
        )
        return cast(ConsumerGroupDescribeResponse, self.client.ask(request, version)).groups[0]
