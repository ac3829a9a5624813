"""Every partition this broker hosts, and the controller's orders that make and end them.

Orders carry the controller's epoch, this broker's epoch and, for each partition, a leader epoch;
what is older than what is known is refused or passed over, so that an order which was late, was
repeated or came from a deposed controller does no harm.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.replicas import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from odradek.protocol.types import NO_ID, TopicPartition
from odradek.replication.isr import DEFAULT_RULES, IsrRules
from odradek.replication.partition import Partition
from odradek.storage.log import Log

_log = logging.getLogger(__name__)

NO_EPOCH = -1


class LogStore(Protocol):
    """What the registry needs of storage: logs by partition."""

    def get(self, where: TopicPartition) -> Log | None: ...

    def topic_id(self, where: TopicPartition) -> bytes | None:
        """The id of the topic a log was made for, None when it does not say."""
        ...

    def create(
        self, where: TopicPartition, *, topic_id: bytes | None = None, is_new: bool = True
    ) -> Log:
        """A new log, or the one there is. Raises KAFKA_STORAGE_ERROR."""
        ...

    def delete(self, where: TopicPartition) -> None: ...


class Replicas:
    """One owner: the event loop. `is_known` tells a partition of the cluster from none at all."""

    def __init__(
        self,
        *,
        logs: LogStore,
        local_id: int,
        clock: Clock,
        is_known: Callable[[TopicPartition], bool],
        rules: IsrRules = DEFAULT_RULES,
        wants_isr_change: Callable[[Partition], None] | None = None,
    ) -> None:
        self._logs = logs
        self._local_id = local_id
        self._clock = clock
        self._is_known = is_known
        self._rules = rules
        self._wants_isr_change = wants_isr_change
        self._partitions: dict[TopicPartition, Partition] = {}
        self._role_listeners: list[Callable[[Partition], None]] = []
        self.controller_epoch = 0
        self.broker_epoch = NO_EPOCH

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def listen(self, listener: Callable[[Partition], None]) -> None:
        """Be told when a partition has got another role, or (role None) has ended here."""
        self._role_listeners.append(listener)

    def find(self, where: TopicPartition) -> Partition | None:
        return self._partitions.get(where)

    def hosted(self, where: TopicPartition) -> Partition:
        """The partition, or the KafkaError that a client gets for asking here."""
        partition = self._partitions.get(where)
        if partition is not None:
            return partition
        if self._is_known(where):
            raise KafkaError(Errors.NOT_LEADER_OR_FOLLOWER)
        raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)

    # Orders ---------------------------------------------------------------------------------

    def become(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """LeaderAndIsr: lead or follow these partitions."""
        self._check_sender(request.controller_epoch, request.broker_epoch)
        response = LeaderAndIsrResponse(error_code=0)
        for topic in _topic_states(request):
            answer = LeaderAndIsrTopicError(topic_id=topic.topic_id)
            for state in topic.partition_states:
                result = LeaderAndIsrPartitionError(
                    topic_name=topic.topic_name,
                    partition_index=state.partition_index,
                    error_code=self._become_one(topic, state),
                )
                answer.partition_errors.append(result)
                response.partition_errors.append(result)
            response.topics.append(answer)
        return response

    def _check_sender(self, controller_epoch: int, broker_epoch: int) -> None:
        if controller_epoch < self.controller_epoch:
            raise KafkaError(Errors.STALE_CONTROLLER_EPOCH)
        # A newer broker epoch is ours too: the controller knows it before we do.
        if broker_epoch != NO_EPOCH and broker_epoch < self.broker_epoch:
            raise KafkaError(Errors.STALE_BROKER_EPOCH)
        self.controller_epoch = controller_epoch

    def _become_one(
        self, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState
    ) -> Errors:
        where = TopicPartition(topic.topic_name, state.partition_index)
        known = self._partitions.get(where)
        if known is not None:
            if NO_ID not in (topic.topic_id, known.topic_id) and topic.topic_id != known.topic_id:
                return Errors.INCONSISTENT_TOPIC_ID
            if state.leader_epoch < known.leader_epoch:
                return Errors.STALE_CONTROLLER_EPOCH
        if self._local_id not in state.replicas:
            _log.warning("%s is ordered here, but broker %d is no replica", where, self._local_id)
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        try:
            partition = known or self._host(where, topic.topic_id, is_new=state.is_new)
            self._give_role(partition, state)
        except KafkaError as error:
            _log.error("%s cannot be hosted: %s", where, error)
            return error.error
        return Errors.NONE

    def _host(self, where: TopicPartition, topic_id: bytes, *, is_new: bool) -> Partition:
        stored_id = self._logs.topic_id(where)
        if stored_id is not None and topic_id not in (NO_ID, stored_id):
            raise KafkaError(
                Errors.INCONSISTENT_TOPIC_ID,
                f"the log of {where} belongs to an earlier topic of that name",
            )
        known_id = None if topic_id == NO_ID else topic_id
        log = self._logs.create(where, topic_id=known_id, is_new=is_new)
        partition = Partition(
            where,
            topic_id,
            log=log,
            local_id=self._local_id,
            clock=self._clock,
            rules=self._rules,
            wants_isr_change=self._wants_isr_change,
        )
        self._partitions[where] = partition
        return partition

    def _give_role(self, partition: Partition, state: LeaderAndIsrPartitionState) -> None:
        if state.leader == self._local_id:
            partition.become_leader(
                epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=state.replicas,
                isr=state.isr,
            )
        else:
            partition.become_follower(
                leader_id=state.leader,
                epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=state.replicas,
            )
        self._tell(partition)

    def _tell(self, partition: Partition) -> None:
        for listener in self._role_listeners:
            listener(partition)

    def stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """StopReplica: host these partitions no longer, and delete them where that is said."""
        self._check_sender(request.controller_epoch, request.broker_epoch)
        return StopReplicaResponse(
            error_code=0,
            partition_errors=[
                StopReplicaPartitionError(
                    topic_name=topic.topic_name,
                    partition_index=state.partition_index,
                    error_code=self._stop_one(topic.topic_name, state),
                )
                for topic in _stop_states(request)
                for state in topic.partition_states
            ],
        )

    def _stop_one(self, topic: str, state: StopReplicaPartitionState) -> Errors:
        where = TopicPartition(topic, state.partition_index)
        partition = self._partitions.get(where)
        if partition is not None:
            # Negative: none is given (-1), or the topic is deleted whatever is known (-2).
            if 0 <= state.leader_epoch < partition.leader_epoch:
                return Errors.FENCED_LEADER_EPOCH
            self.leave(partition)
        if not state.delete_partition:
            return Errors.NONE
        try:
            self._logs.delete(where)
        except KafkaError as error:
            _log.error("%s cannot be deleted: %s", where, error)
            return error.error
        return Errors.NONE

    def leave(self, partition: Partition) -> None:
        """Host it no longer; its log is left as it is."""
        _log.info("%s is no longer hosted", partition.where)
        del self._partitions[partition.where]
        partition.resign()
        self._tell(partition)

    def fail(self, partitions: list[TopicPartition]) -> None:
        """Their log directory failed: nothing can be asked of them here any more."""
        for where in partitions:
            partition = self._partitions.get(where)
            if partition is not None:
                partition.resign()
                self._tell(partition)


def _topic_states(request: LeaderAndIsrRequest) -> list[LeaderAndIsrTopicState]:
    """What is ordered, by topic: before v2 partitions came in one list."""
    if not request.ungrouped_partition_states:
        return request.topic_states
    by_topic: dict[str, list[LeaderAndIsrPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        by_topic.setdefault(state.topic_name, []).append(state)
    return [
        LeaderAndIsrTopicState(topic_name=name, partition_states=states)
        for name, states in by_topic.items()
    ]


def _stop_states(request: StopReplicaRequest) -> list[StopReplicaTopicState]:
    """What is to stop, in the form of v3: before it, one flag said whether all are deleted."""
    if request.topic_states:
        return request.topic_states
    by_topic: dict[str, list[int]] = {}
    for partition in request.ungrouped_partitions:
        by_topic.setdefault(partition.topic_name, []).append(partition.partition_index)
    for topic in request.topics:
        by_topic.setdefault(topic.name, []).extend(topic.partition_indexes)
    return [
        StopReplicaTopicState(
            topic_name=name,
            partition_states=[
                StopReplicaPartitionState(
                    partition_index=index, delete_partition=request.delete_partitions
                )
                for index in indexes
            ],
        )
        for name, indexes in by_topic.items()
    ]
