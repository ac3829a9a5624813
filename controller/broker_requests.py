"""What brokers ask the controller for, from request to response.

Whoever is not controller answers NOT_CONTROLLER; a broker that speaks of an earlier life of its own
is told STALE_BROKER_EPOCH, and nothing is done.
"""

from dataclasses import dataclass

from odradek.controller.controller import Controller
from odradek.controller.decide import Decision, Plan
from odradek.controller.desk import Desk
from odradek.controller.image import ClusterImage, Topic
from odradek.controller.isr_changes import ANY_EPOCH, Granted, IsrChange, judge
from odradek.controller.producer_ids import BLOCK_SIZE, next_block
from odradek.controller.znodes import PartitionState
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    AlterPartitionTopicData,
)
from odradek.protocol.messages.replicas import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from odradek.protocol.messages.transaction_admin import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.types import NO_ID, TopicPartition


async def alter_partition(
    controller: Controller, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """Change in-sync replicas as leaders ask."""

    async def act(desk: Desk) -> AlterPartitionResponse:
        check_life(desk.image, request.broker_id, request.broker_epoch)
        return await _alter_partitions(desk, request)

    try:
        return await controller.ask(act)
    except KafkaError as refused:
        return AlterPartitionResponse(error_code=refused.error, topics=[])


def check_life(image: ClusterImage, broker_id: int, epoch: int) -> None:
    """KafkaError unless this is the broker's present life; -1 is not checked."""
    broker = image.brokers.get(broker_id)
    if broker is None or epoch not in (ANY_EPOCH, broker.epoch):
        raise KafkaError(Errors.STALE_BROKER_EPOCH)


@dataclass(frozen=True, slots=True)
class _Verdict:
    index: int
    outcome: Granted | Errors
    where: TopicPartition | None


async def _alter_partitions(desk: Desk, request: AlterPartitionRequest) -> AlterPartitionResponse:
    verdicts: list[tuple[AlterPartitionTopicData, list[_Verdict]]] = []
    states: dict[TopicPartition, PartitionState] = {}
    for asked in request.topics:
        topic = _topic(desk.image, asked)
        judged = [_judge(desk, request.broker_id, topic, asked, p) for p in asked.partitions]
        verdicts.append((asked, judged))
        for verdict in judged:
            granted = verdict.outcome
            if isinstance(granted, Granted) and not granted.is_done and verdict.where is not None:
                states[verdict.where] = granted.state
    # The leader learns of its new state by the answer: nobody else needs to be told to follow.
    await desk.carry_out(Decision(desk.image, Plan(states=states, quiet=frozenset(states))))
    response = AlterPartitionResponse(
        error_code=Errors.NONE,
        topics=[
            AlterPartitionResponseTopicData(
                topic_name=asked.topic_name,
                topic_id=asked.topic_id,
                partitions=[_answer(desk.image, verdict) for verdict in judged],
            )
            for asked, judged in verdicts
        ],
    )
    await desk.complete_moves(list(states))
    return response


def _topic(image: ClusterImage, asked: AlterPartitionTopicData) -> Topic | None:
    if asked.topic_id != NO_ID:
        return image.topic_named_by_id(asked.topic_id)
    return image.topics.get(asked.topic_name)


def _judge(
    desk: Desk,
    leader: int,
    topic: Topic | None,
    asked: AlterPartitionTopicData,
    partition: AlterPartitionPartitionData,
) -> _Verdict:
    index = partition.partition_index
    if topic is None:
        by_id = asked.topic_id != NO_ID
        unknown = Errors.UNKNOWN_TOPIC_ID if by_id else Errors.UNKNOWN_TOPIC_OR_PARTITION
        return _Verdict(index, unknown, None)
    where = TopicPartition(topic.name, index)
    members = {member.broker_id: member.broker_epoch for member in partition.new_isr_with_epochs}
    change = IsrChange(
        where=where,
        leader=leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        members=members or dict.fromkeys(partition.new_isr, ANY_EPOCH),
        recovering=partition.leader_recovery_state == 1,
    )
    return _Verdict(index, judge(desk.image, change, desk.terms), where)


def _answer(image: ClusterImage, verdict: _Verdict) -> AlterPartitionResponsePartitionData:
    if isinstance(verdict.outcome, Errors) or verdict.where is None:
        return AlterPartitionResponsePartitionData(
            partition_index=verdict.index,
            error_code=verdict.outcome if isinstance(verdict.outcome, Errors) else Errors.NONE,
            leader_id=0,
            leader_epoch=0,
            isr=[],
            partition_epoch=0,
        )
    state = image.states[verdict.where]
    return AlterPartitionResponsePartitionData(
        partition_index=verdict.index,
        error_code=Errors.NONE,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=int(state.recovering),
        partition_epoch=state.partition_epoch,
    )


async def controlled_shutdown(
    controller: Controller, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Take the lead from a broker that wants to stop."""

    async def act(desk: Desk) -> list[TopicPartition]:
        if request.broker_id not in desk.image.brokers:
            raise KafkaError(Errors.BROKER_NOT_AVAILABLE)
        check_life(desk.image, request.broker_id, request.broker_epoch)
        return await desk.shut_down(request.broker_id)

    try:
        remaining = await controller.ask(act)
    except KafkaError as refused:
        return ControlledShutdownResponse(error_code=refused.error, remaining_partitions=[])
    return ControlledShutdownResponse(
        error_code=Errors.NONE,
        remaining_partitions=[
            RemainingPartition(topic_name=where.topic, partition_index=where.partition)
            for where in remaining
        ],
    )


async def allocate_producer_ids(
    controller: Controller, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Give a broker a block of producer ids."""

    async def act(desk: Desk) -> int:
        check_life(desk.image, request.broker_id, request.broker_epoch)
        return (await next_block(desk.store, request.broker_id)).first

    try:
        first = await controller.ask(act)
    except KafkaError as refused:
        return AllocateProducerIdsResponse(
            error_code=refused.error, producer_id_start=-1, producer_id_len=0
        )
    return AllocateProducerIdsResponse(
        error_code=Errors.NONE, producer_id_start=first, producer_id_len=BLOCK_SIZE
    )
