"""Committed offsets of groups: read and written at the group's coordinator."""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.client.assignors import by_topic
from odradek.client.cluster import Cluster, CoordinatorKind
from odradek.client.identity import MOVED_COORDINATOR
from odradek.client.retry import until_done
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.protocol.errors import Errors, KafkaError
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
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from odradek.protocol.types import TopicPartition

# Later versions name topics by id.
NEWEST_COMMIT: Final = 9
NEWEST_FETCH: Final = 9
FIRST_WITH_GROUPS: Final = 8

Offsets = dict[TopicPartition, OffsetAndMetadata]


async def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    timeout_s: float,
    require_stable: bool = True,
) -> Offsets:
    """What the group has committed of these partitions, or of all; others are left out.

    `require_stable`: wait for offsets that an open transaction is about to commit.
    """
    topics = None if partitions is None else by_topic(partitions)
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id,
                topics=None
                if topics is None
                else [
                    OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                    for name, indexes in topics.items()
                ],
            )
        ],
        require_stable=require_stable,
    )

    async def ask() -> Offsets:
        connection = await cluster.coordinator(CoordinatorKind.GROUP, group_id)
        version = connection.version_of(OffsetFetchRequest, NEWEST_FETCH)
        try:
            answer = await connection.request(request, OffsetFetchResponse, version=version)
            return _read_offsets(answer)
        except KafkaError as error:
            if error.error in MOVED_COORDINATOR:
                cluster.forget_coordinator(CoordinatorKind.GROUP, group_id)
            raise

    return await until_done(ask, backoff=cluster.backoff, timeout_s=timeout_s)


def _read_offsets(answer: OffsetFetchResponse) -> Offsets:
    _check(answer.error_code)
    rows: list[tuple[str, list[OffsetFetchResponsePartition] | list[OffsetFetchResponsePartitions]]]
    rows = [(topic.name, topic.partitions) for topic in answer.topics]
    for group in answer.groups:
        _check(group.error_code)
        rows += [(topic.name, topic.partitions) for topic in group.topics]
    found: Offsets = {}
    for name, partitions in rows:
        for row in partitions:
            _check(row.error_code)
            if row.committed_offset >= 0:
                found[TopicPartition(name, row.partition_index)] = OffsetAndMetadata(
                    row.committed_offset, row.metadata or "", row.committed_leader_epoch
                )
    return found


async def commit_offsets(
    cluster: Cluster,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    timeout_s: float,
) -> None:
    """Store these offsets. Raises KafkaError when the coordinator does not take all of them."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, position in offsets.items():
        row = OffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=position.offset,
            committed_leader_epoch=position.leader_epoch,
            committed_metadata=position.metadata,
        )
        topics.setdefault(partition.topic, []).append(row)
    request = OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()
        ],
    )

    async def ask() -> None:
        connection = await cluster.coordinator(CoordinatorKind.GROUP, group.group_id)
        version = connection.version_of(OffsetCommitRequest, NEWEST_COMMIT)
        try:
            answer = await connection.request(request, OffsetCommitResponse, version=version)
            for topic in answer.topics:
                for told in topic.partitions:
                    _check(told.error_code)
        except KafkaError as error:
            if error.error in MOVED_COORDINATOR:
                cluster.forget_coordinator(CoordinatorKind.GROUP, group.group_id)
            raise

    await until_done(ask, backoff=cluster.backoff, timeout_s=timeout_s)


def _check(code: int) -> None:
    if code:
        raise KafkaError(Errors.of(code))
