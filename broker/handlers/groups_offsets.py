"""OffsetCommit, OffsetFetch and OffsetDelete: how far groups have read.

Version 0 of commit and fetch was of the time when offsets were kept in ZooKeeper; here they are
kept like all others, so that a client which moves on to version 1 finds them again.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from odradek.broker.context import RequestContext
from odradek.broker.coordinator.committing import (
    NOTHING_COMMITTED,
    Committer,
    Outcomes,
    Positions,
    Shown,
)
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.group_records import NO_EXPIRY
from odradek.broker.handlers.groups_reply import Reply
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.schema import versions_of
from odradek.protocol.types import TopicPartition

_NOT_GIVEN: Final = -1
# Of a topic whose id nobody knows.
_NO_NAME: Final = ""
_FIRST_FETCH_WITH_ERROR: Final = 2
_FIRST_FETCH_OF_MANY: Final = 8
_FIRST_WITH_EPOCHS: Final = 9
_FIRST_WITH_TOPIC_IDS: Final = 10

V = TypeVar("V")


class GroupOffsetsHandler:
    def __init__(
        self,
        *,
        coordinator: GroupCoordinator,
        metadata: MetadataCache,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._coordinator = coordinator
        self._metadata = metadata
        self._clock = clock
        self._loop = loop

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(OffsetCommitRequest, versions_of("0-10"), self.commit, commit_failed)
        yield Route(OffsetFetchRequest, versions_of("0-10"), self.fetch, fetch_failed)
        yield Route(OffsetDeleteRequest, versions_of("0"), self.delete, delete_failed)

    # OffsetCommit ---------------------------------------------------------------------------

    def commit(
        self, request: OffsetCommitRequest, context: RequestContext
    ) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
        shard = self._coordinator.shard_of(request.group_id)
        view, now_ms = self._metadata.view, self._clock.now_ms()
        if context.version >= _FIRST_WITH_TOPIC_IDS:
            for topic in request.topics:
                topic.name = view.names_by_id.get(topic.topic_id, _NO_NAME)
        positions: Positions = {}
        for topic in request.topics:
            for partition in topic.partitions:
                where = TopicPartition(topic.name, partition.partition_index)
                if view.partition(where) is not None:
                    positions[where] = _position(partition, request.retention_time_ms, now_ms)
        reply: Reply[OffsetCommitResponse] = Reply(self._loop)

        def answer(outcomes: Outcomes) -> None:
            reply(_commit_response(request, outcomes))

        if positions:
            generation = request.generation_id_or_member_epoch
            committer = Committer(
                request.member_id,
                request.group_instance_id,
                generation,
                knows_epochs=context.version >= _FIRST_WITH_EPOCHS,
            )
            shard.commit(request.group_id, committer, positions, answer)
        else:
            answer({})
        return reply.answer()

    # OffsetFetch ----------------------------------------------------------------------------

    def fetch(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        if context.version >= _FIRST_FETCH_OF_MANY:
            groups = [self._fetch_group(g, request, context.version) for g in request.groups]
            return OffsetFetchResponse(groups=groups)
        try:
            shown = self._shown(request.group_id, request.topics, request.require_stable)
        except KafkaError as error:
            if context.version >= _FIRST_FETCH_WITH_ERROR:
                return OffsetFetchResponse(error_code=error.error)
            return fetch_failed(request, error)
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic, partitions=[_old_partition(i, each) for i, each in partitions]
                )
                for topic, partitions in by_topic(shown)
            ]
        )

    def _fetch_group(
        self, group: OffsetFetchRequestGroup, request: OffsetFetchRequest, version: int
    ) -> OffsetFetchResponseGroup:
        if version >= _FIRST_WITH_TOPIC_IDS:
            for topic in group.topics or ():
                topic.name = self._metadata.view.names_by_id.get(topic.topic_id, _NO_NAME)
        known = group.topics and [topic for topic in group.topics if topic.name != _NO_NAME]
        asker = group.member_id, group.member_epoch
        try:
            shown = self._shown(group.group_id, known, request.require_stable, asker)
        except KafkaError as error:
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.error)
        topics = [
            OffsetFetchResponseTopics(
                name=topic, partitions=[_partition(i, each) for i, each in partitions]
            )
            for topic, partitions in by_topic(shown)
        ]
        if version >= _FIRST_WITH_TOPIC_IDS:
            topics = [*self._with_ids(topics), *_unknown_topics(group)]
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)

    def _with_ids(
        self, topics: list[OffsetFetchResponseTopics]
    ) -> Iterator[OffsetFetchResponseTopics]:
        """The same by id; who asks for everything is not told of topics that are gone."""
        for topic in topics:
            if (known := self._metadata.view.topics.get(topic.name)) is not None:
                topic.topic_id = known.id
                yield topic

    def _shown(
        self,
        group_id: str,
        topics: list[OffsetFetchRequestTopic] | list[OffsetFetchRequestTopics] | None,
        require_stable: bool,
        asker: tuple[str | None, int] = (None, _NOT_GIVEN),
    ) -> dict[TopicPartition, Shown]:
        """No topics at all stand for every partition that has an offset."""
        shard = self._coordinator.shard_of(group_id)
        wanted = None
        if topics is not None:
            wanted = [TopicPartition(t.name, i) for t in topics for i in t.partition_indexes]
        return shard.offsets(group_id, wanted, require_stable=require_stable, asker=asker)

    # OffsetDelete ---------------------------------------------------------------------------

    def delete(
        self, request: OffsetDeleteRequest, context: RequestContext
    ) -> OffsetDeleteResponse | asyncio.Future[OffsetDeleteResponse]:
        shard = self._coordinator.members_shard(request.group_id)
        reply: Reply[OffsetDeleteResponse] = Reply(self._loop)
        view = self._metadata.view
        wanted = [
            TopicPartition(topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        ]

        def answer(error: Errors, outcomes: Outcomes) -> None:
            if error is not Errors.NONE:
                reply(OffsetDeleteResponse(error_code=error, topics=[]))
                return
            all_outcomes = {
                where: outcomes.get(where, Errors.UNKNOWN_TOPIC_OR_PARTITION) for where in wanted
            }
            reply(_delete_response(all_outcomes))

        known = [where for where in wanted if view.partition(where) is not None]
        shard.removal.delete_offsets(request.group_id, known, answer)
        return reply.answer()


def by_topic(values: dict[TopicPartition, V]) -> Iterable[tuple[str, list[tuple[int, V]]]]:
    """The same, by topic and then by partition, in the order given."""
    topics: dict[str, list[tuple[int, V]]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, []).append((partition, value))
    return topics.items()


def _position(
    partition: OffsetCommitRequestPartition, retention_ms: int, now_ms: int
) -> OffsetCommitValue:
    committed_ms = partition.commit_timestamp
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms if committed_ms == _NOT_GIVEN else committed_ms,
        expire_timestamp=NO_EXPIRY if retention_ms == _NOT_GIVEN else now_ms + retention_ms,
    )


def _commit_response(request: OffsetCommitRequest, outcomes: Outcomes) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=p.partition_index,
                        error_code=outcomes.get(
                            TopicPartition(topic.name, p.partition_index), _unknown(topic.name)
                        ),
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _unknown(topic: str) -> Errors:
    if topic == _NO_NAME:
        return Errors.UNKNOWN_TOPIC_ID
    return Errors.UNKNOWN_TOPIC_OR_PARTITION


def commit_failed(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """The same error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error.error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _old_partition(index: int, shown: Shown) -> OffsetFetchResponsePartition:
    committed, error = shown
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )


def _partition(index: int, shown: Shown) -> OffsetFetchResponsePartitions:
    committed, error = shown
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )


def _unknown_topics(group: OffsetFetchRequestGroup) -> Iterator[OffsetFetchResponseTopics]:
    """Of the topics that were asked for, those whose id nobody knows."""
    for topic in group.topics or ():
        if topic.name == _NO_NAME:
            unknown = Shown(NOTHING_COMMITTED, Errors.UNKNOWN_TOPIC_ID)
            yield OffsetFetchResponseTopics(
                topic_id=topic.topic_id,
                partitions=[_partition(index, unknown) for index in topic.partition_indexes],
            )


def fetch_failed(request: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    """In every place where some version looks for the error."""
    return OffsetFetchResponse(
        error_code=error.error,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=-1,
                        metadata="",
                        error_code=error.error,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.error)
            for group in request.groups
        ],
    )


def _delete_response(outcomes: Outcomes) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        error_code=Errors.NONE,
        topics=[
            OffsetDeleteResponseTopic(
                name=topic,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=index, error_code=error)
                    for index, error in partitions
                ],
            )
            for topic, partitions in by_topic(outcomes)
        ],
    )


def delete_failed(request: OffsetDeleteRequest, error: KafkaError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.error, topics=[])
