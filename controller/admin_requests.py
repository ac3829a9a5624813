"""What clients ask the controller for: topics, elections, moves of partitions.

Handlers of the broker call these after checking permissions and quotas. Topics are asked for with
the values of `topics`, because the answers also need what only the broker knows; the rest goes from
request to response. Whoever is not controller answers NOT_CONTROLLER.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.controller import reassignment
from odradek.controller.controller import Controller
from odradek.controller.desk import Desk, Told
from odradek.controller.image import Topic
from odradek.controller.leadership import ElectionType
from odradek.controller.topics import Growth, NewTopic
from odradek.controller.znodes import Assignment
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from odradek.protocol.types import NO_ID, TopicPartition


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one topic that was asked for."""

    name: str
    error: Errors = Errors.NONE
    message: str | None = None
    topic_id: bytes = NO_ID
    partitions: int = -1
    replication_factor: int = -1


def _refusal(name: str, refused: KafkaError) -> TopicOutcome:
    return TopicOutcome(name, refused.error, refused.message)


def _twice(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name, count in Counter(names).items() if count > 1)


_DUPLICATE = KafkaError(Errors.INVALID_REQUEST, "Duplicate topic name.")


async def create_topics(
    controller: Controller,
    wanted: Sequence[NewTopic],
    *,
    validate_only: bool = False,
    timeout_seconds: float = 30,
) -> list[TopicOutcome]:
    """Create topics; answers when the controller's own broker knows of them, or the time is over.
    Other brokers are given a moment to hear of them, too.

    A topic named twice is refused, once.
    """
    twice = _twice(new.name for new in wanted)
    once = [new for new in wanted if new.name not in twice]

    async def act(desk: Desk) -> tuple[list[TopicOutcome], Told | None]:
        outcomes, created = [], []
        for new in once:
            try:
                topic = await desk.create_topic(new, validate_only=validate_only)
            except KafkaError as refused:
                outcomes.append(_refusal(new.name, refused))
                continue
            outcomes.append(_created(topic))
            created.append(topic)
        if validate_only or not created:
            return outcomes, None
        await desk.adopt(created)
        return outcomes, desk.told()

    try:
        outcomes, told = await controller.ask(act)
    except KafkaError as refused:
        return [_refusal(new.name, refused) for new in wanted]
    if told is not None and not await told.within(timeout_seconds):
        late = KafkaError(Errors.REQUEST_TIMED_OUT)
        outcomes = [o if o.error else _refusal(o.name, late) for o in outcomes]
    return outcomes + [_refusal(name, _DUPLICATE) for name in sorted(twice)]


def _created(topic: Topic) -> TopicOutcome:
    factor = len(topic.assignments[min(topic.assignments)].replicas)
    return TopicOutcome(
        topic.name,
        topic_id=topic.id,
        partitions=len(topic.assignments),
        replication_factor=factor,
    )


async def create_partitions(
    controller: Controller,
    wanted: Sequence[Growth],
    *,
    validate_only: bool = False,
    timeout_seconds: float = 30,
) -> list[TopicOutcome]:
    """Give topics more partitions."""
    twice = _twice(growth.topic for growth in wanted)
    once = [growth for growth in wanted if growth.topic not in twice]

    async def act(desk: Desk) -> tuple[list[TopicOutcome], Told]:
        outcomes = []
        for growth in once:
            try:
                await desk.grow_topic(growth, validate_only=validate_only)
                outcomes.append(TopicOutcome(growth.topic))
            except KafkaError as refused:
                outcomes.append(_refusal(growth.topic, refused))
        return outcomes, desk.told()

    try:
        outcomes, told = await controller.ask(act)
    except KafkaError as refused:
        return [_refusal(growth.topic, refused) for growth in wanted]
    await told.within(timeout_seconds)
    return outcomes + [_refusal(name, _DUPLICATE) for name in sorted(twice)]


async def delete_topics(
    controller: Controller, names: Sequence[str], *, timeout_seconds: float = 30
) -> list[TopicOutcome]:
    """Mark topics for deletion, which nothing takes back; waits a while for them to be gone."""
    twice = _twice(names)
    once = [name for name in names if name not in twice]

    async def act(desk: Desk) -> tuple[list[TopicOutcome], "list[asyncio.Future[None]]"]:
        if not desk.settings.delete_topics:
            raise KafkaError(Errors.TOPIC_DELETION_DISABLED)
        outcomes = []
        for name in once:
            known = desk.image.topics.get(name)
            if known is None:
                outcomes.append(TopicOutcome(name, Errors.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            await desk.mark_for_deletion(name)
            outcomes.append(TopicOutcome(name, topic_id=known.id))
        going = [outcome.name for outcome in outcomes if not outcome.error]
        gone = [desk.deletions.awaited(name) for name in going]
        await desk.delete(going)
        return outcomes, gone

    try:
        outcomes, gone = await controller.ask(act)
    except KafkaError as refused:
        return [_refusal(name, refused) for name in names]
    if gone:
        await asyncio.wait(gone, timeout=max(0, timeout_seconds))
    return outcomes + [_refusal(name, _DUPLICATE) for name in sorted(twice)]


async def elect_leaders(
    controller: Controller, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elect preferred leaders, or unclean ones where there is no other; null asks for all."""
    asked = request.topic_partitions

    async def act(desk: Desk) -> dict[TopicPartition, Errors]:
        try:
            kind = ElectionType(request.election_type)
        except ValueError:
            raise KafkaError(Errors.INVALID_REQUEST) from None
        if asked is not None:
            wanted = [TopicPartition(t.topic, p) for t in asked for p in t.partitions]
            return await desk.elect(wanted, kind)
        outcomes = await desk.elect(list(desk.image.partitions()), kind)
        needless = Errors.ELECTION_NOT_NEEDED
        return {where: error for where, error in outcomes.items() if error is not needless}

    try:
        outcomes = await controller.ask(act)
    except KafkaError as refused:
        return ElectLeadersResponse(error_code=refused.error, replica_election_results=[])
    return ElectLeadersResponse(
        error_code=Errors.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    ElectLeadersPartitionResult(
                        partition_id=where.partition,
                        error_code=outcomes[where],
                        error_message=outcomes[where].message if outcomes[where] else None,
                    )
                    for where in partitions
                ],
            )
            for topic, partitions in _by_topic(outcomes).items()
        ],
    )


async def alter_reassignments(
    controller: Controller, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin and cancel moves of partitions."""
    wishes: dict[TopicPartition, tuple[int, ...] | None] = {
        TopicPartition(topic.name, p.partition_index): (
            None if p.replicas is None else tuple(p.replicas)
        )
        for topic in request.topics
        for p in topic.partitions
    }

    async def act(desk: Desk) -> dict[TopicPartition, KafkaError]:
        return await desk.begin_moves(wishes)

    try:
        refused = await controller.ask(act)
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(
            error_code=error.error, error_message=error.message, responses=[]
        )
    return AlterPartitionReassignmentsResponse(
        error_code=Errors.NONE,
        responses=[
            ReassignableTopicResponse(
                name=topic, partitions=[_move_outcome(where, refused) for where in partitions]
            )
            for topic, partitions in _by_topic(wishes).items()
        ],
    )


def _move_outcome(
    where: TopicPartition, refused: Mapping[TopicPartition, KafkaError]
) -> ReassignablePartitionResponse:
    error = refused.get(where)
    return ReassignablePartitionResponse(
        partition_index=where.partition,
        error_code=Errors.NONE if error is None else error.error,
        error_message=None if error is None else error.message or error.error.message,
    )


async def list_reassignments(
    controller: Controller, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The moves under way, all of them or those asked about."""

    async def act(desk: Desk) -> dict[TopicPartition, Assignment]:
        return reassignment.ongoing(desk.image)

    try:
        ongoing = await controller.ask(act)
    except KafkaError as refused:
        return ListPartitionReassignmentsResponse(
            error_code=refused.error, error_message=refused.message, topics=[]
        )
    if request.topics is not None:
        asked = {TopicPartition(t.name, p) for t in request.topics for p in t.partition_indexes}
        ongoing = {where: move for where, move in ongoing.items() if where in asked}
    return ListPartitionReassignmentsResponse(
        error_code=Errors.NONE,
        topics=[
            OngoingTopicReassignment(
                name=topic,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=where.partition,
                        replicas=list(ongoing[where].replicas),
                        adding_replicas=list(ongoing[where].adding),
                        removing_replicas=list(ongoing[where].removing),
                    )
                    for where in partitions
                ],
            )
            for topic, partitions in _by_topic(ongoing).items()
        ],
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for where in partitions:
        grouped.setdefault(where.topic, []).append(where)
    return grouped
