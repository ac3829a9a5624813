"""TxnOffsetCommit: offsets of a group that take effect when the producer's transaction commits.

Asked of the group's coordinator. Like any write of a transaction it is verified before it is the
first one in its partition.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.coordinator.committing import Committer, Outcomes, Positions
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.group_records import NO_EXPIRY
from odradek.broker.coordinator.placement import GROUP_TOPIC, partition_for
from odradek.broker.coordinator.txn_decisions import Holder
from odradek.broker.handlers.groups_reply import Reply
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute, Route
from odradek.broker.txn_verification import Claim, TxnVerifier, offset_commit_error
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.records import NO_SEQUENCE, ProducerStamp
from odradek.protocol.schema import versions_of
from odradek.protocol.types import TopicPartition
from odradek.replication.replicas import Replicas

_FIRST_WITH_ABORTABLE: Final = 4
# From here on the commit makes the group's offsets part of the transaction.
_FIRST_THAT_ADDS: Final = 5
# Older clients do not know that a coordinator may be loading: they ask again after this one.
_FIRST_WITH_LOADING: Final = 2


class TxnOffsetsHandler:
    def __init__(
        self,
        *,
        groups: GroupCoordinator,
        group_partitions: Callable[[], int],
        verifier: TxnVerifier,
        replicas: Replicas,
        metadata: MetadataCache,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`group_partitions` says how many partitions the topic of groups has, or will have."""
        self._groups = groups
        self._group_partitions = group_partitions
        self._verifier = verifier
        self._replicas = replicas
        self._metadata = metadata
        self._clock = clock
        self._loop = loop

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(TxnOffsetCommitRequest, versions_of("0-5"), self.commit, failed)

    def commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]:
        reply: Reply[TxnOffsetCommitResponse] = Reply(self._loop)
        positions = self._positions(request)

        def answer(outcomes: Outcomes) -> None:
            reply(_response(request, _by_age(outcomes, context.version)))

        def verified(error: Errors) -> None:
            if error is Errors.NONE:
                self._commit(request, positions, answer)
            else:
                knows_abortable = context.version >= _FIRST_WITH_ABORTABLE
                told = offset_commit_error(error, knows_abortable=knows_abortable)
                answer(dict.fromkeys(positions, told))

        if positions:
            try:
                self._verify(request, context.version >= _FIRST_THAT_ADDS, verified)
            except KafkaError as error:
                answer(dict.fromkeys(positions, error.error))
        else:
            answer({})
        return reply.answer()

    def _positions(self, request: TxnOffsetCommitRequest) -> Positions:
        view, now_ms = self._metadata.view, self._clock.now_ms()
        positions: Positions = {}
        for topic in request.topics:
            for partition in topic.partitions:
                where = TopicPartition(topic.name, partition.partition_index)
                if view.partition(where) is not None:
                    positions[where] = OffsetCommitValue(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.committed_metadata or "",
                        commit_timestamp=now_ms,
                        expire_timestamp=NO_EXPIRY,
                    )
        return positions

    def _verify(
        self, request: TxnOffsetCommitRequest, adds: bool, verified: Callable[[Errors], None]
    ) -> None:
        """Raises KafkaError when the group is not kept here."""
        self._groups.members_shard(request.group_id)
        index = partition_for(request.group_id, self._group_partitions())
        partition = self._replicas.hosted(TopicPartition(GROUP_TOPIC, index))
        holder = Holder(request.producer_id, request.producer_epoch)
        if self._verifier.must_ask(partition, holder):
            claim = Claim(request.transactional_id, holder, adds)
            self._verifier.verify(partition, claim, NO_SEQUENCE, verified)
        else:
            verified(Errors.NONE)

    def _commit(
        self,
        request: TxnOffsetCommitRequest,
        positions: Positions,
        answer: Callable[[Outcomes], None],
    ) -> None:
        producer = ProducerStamp(
            request.producer_id, request.producer_epoch, NO_SEQUENCE, is_transactional=True
        )
        committer = Committer(
            request.member_id, request.group_instance_id, request.generation_id, producer
        )
        try:
            shard = self._groups.members_shard(request.group_id)
        except KafkaError as error:
            answer(dict.fromkeys(positions, error.error))
            return
        shard.commit(request.group_id, committer, positions, answer)


def _by_age(outcomes: Outcomes, version: int) -> Outcomes:
    if version >= _FIRST_WITH_LOADING:
        return outcomes
    loading = Errors.COORDINATOR_LOAD_IN_PROGRESS
    return {
        where: Errors.COORDINATOR_NOT_AVAILABLE if error is loading else error
        for where, error in outcomes.items()
    }


def _response(request: TxnOffsetCommitRequest, outcomes: Outcomes) -> TxnOffsetCommitResponse:
    unknown = Errors.UNKNOWN_TOPIC_OR_PARTITION
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=outcomes.get(
                            TopicPartition(topic.name, each.partition_index), unknown
                        ),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def failed(request: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    """The same error for every partition."""
    everywhere = {
        TopicPartition(topic.name, each.partition_index): error.error
        for topic in request.topics
        for each in topic.partitions
    }
    return _response(request, everywhere)
