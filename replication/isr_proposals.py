"""Changes of in-sync sets on their way to the controller (AlterPartition).

A leader's change counts only once the controller has stored it; until then old and new members both
hold the high watermark. All changes that wait go in one request, one request is under way at a
time, and a change is repeated unaltered until its fate is known: an answer that was lost may have
said yes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionTopicData,
    BrokerState,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.leader import Leader
from odradek.replication.partition import Partition

_log = logging.getLogger(__name__)

# Asks the controller; KafkaError, OSError or TimeoutError when it could not be asked.
AskController = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]

RETRY_SECONDS: Final = 0.05

# The controller looked and did nothing, so the change may be forgotten at once.
_REFUSED: Final = (Errors.INELIGIBLE_REPLICA, Errors.OPERATION_NOT_ATTEMPTED)
# The controller knows of a later state, of which we shall hear: until then both sets count.
_SUPERSEDED: Final = (
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.UNKNOWN_TOPIC_ID,
    Errors.FENCED_LEADER_EPOCH,
    Errors.INVALID_UPDATE_VERSION,
    Errors.INVALID_REQUEST,
    Errors.NEW_LEADER_ELECTED,
)


class IsrProposals:
    """One owner: the event loop."""

    def __init__(
        self, *, local_id: int, broker_epoch: Callable[[], int], ask_controller: AskController
    ) -> None:
        self._local_id = local_id
        self._broker_epoch = broker_epoch
        self._ask_controller = ask_controller
        self._waiting: dict[TopicPartition, Partition] = {}
        self._sending: asyncio.Task[None] | None = None

    def send(self, partition: Partition) -> None:
        """A partition has proposed a change."""
        self._waiting[partition.where] = partition
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                # What is due in this turn of the loop goes together.
                await asyncio.sleep(0)
                sent = {w: p for w, p in self._waiting.items() if _proposal(p) is not None}
                self._waiting = {}
                if sent and not await self._send(sent):
                    self._waiting = {**sent, **self._waiting}
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._sending = None

    async def _send(self, sent: dict[TopicPartition, Partition]) -> bool:
        """Whether the controller answered."""
        epochs = {where: partition.leader_epoch for where, partition in sent.items()}
        try:
            answer = await self._ask_controller(self._request(sent.values()))
            if answer.error_code:
                raise KafkaError(Errors.of(answer.error_code))
        except (KafkaError, OSError, TimeoutError) as error:
            _log.debug("the controller took no changes of in-sync sets: %s", error)
            return False
        ids = {partition.topic_id: partition.where.topic for partition in sent.values()}
        for topic in answer.topics:
            name = topic.topic_name or ids.get(topic.topic_id, "")
            for result in topic.partitions:
                where = TopicPartition(name, result.partition_index)
                if where in sent:
                    self._settle(sent[where], epochs[where], result)
        return True

    def _request(self, partitions: Iterable[Partition]) -> AlterPartitionRequest:
        topics: dict[str, AlterPartitionTopicData] = {}
        for partition in partitions:
            name = partition.where.topic
            topic = topics.setdefault(
                name,
                AlterPartitionTopicData(
                    topic_name=name, topic_id=partition.topic_id, partitions=[]
                ),
            )
            topic.partitions.append(self._change(partition))
        return AlterPartitionRequest(
            broker_id=self._local_id,
            broker_epoch=self._broker_epoch(),
            topics=list(topics.values()),
        )

    def _change(self, partition: Partition) -> AlterPartitionPartitionData:
        leader, proposed = partition.leading(), _proposal(partition)
        assert proposed is not None, "only what is proposed is sent"
        members = sorted(proposed, key=leader.replicas.index)
        return AlterPartitionPartitionData(
            partition_index=partition.where.partition,
            leader_epoch=leader.epoch,
            new_isr=members,
            new_isr_with_epochs=[
                BrokerState(broker_id=member, broker_epoch=self._epoch_of(leader, member))
                for member in members
            ],
            partition_epoch=leader.partition_epoch,
        )

    def _epoch_of(self, leader: Leader, member: int) -> int:
        if member == self._local_id:
            return self._broker_epoch()
        return leader.followers[member].broker_epoch

    def _settle(
        self, partition: Partition, epoch: int, result: AlterPartitionResponsePartitionData
    ) -> None:
        leader = partition.role
        if not isinstance(leader, Leader) or leader.epoch != epoch:
            return
        error = Errors.of(result.error_code)
        if error is Errors.NONE:
            if result.leader_epoch == epoch:
                _log.info("%s: in sync are %s", partition.where, result.isr)
                partition.isr_granted(
                    epoch=epoch, partition_epoch=result.partition_epoch, isr=result.isr
                )
        elif error in _REFUSED:
            leader.refused()
            # Who was to join was waited for.
            partition.advance_high_watermark()
        elif error not in _SUPERSEDED:
            self._waiting[partition.where] = partition


def _proposal(partition: Partition) -> frozenset[int] | None:
    role = partition.role
    if not isinstance(role, Leader) or role.isr.proposed is None:
        return None
    # A reassignment may have taken away a member meanwhile.
    return role.isr.proposed & set(role.replicas)
