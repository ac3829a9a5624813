"""The controller's orders: obeyed once, in the right order of epochs, and only for us."""

import pytest
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.replicas import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.follower import Follower
from odradek.replication.leader import Leader
from odradek.replication.replicas import Replicas
from odradek.storage.log import Log

from tests.unit.replication.conftest import LOCAL, new_partition

ID, OTHER_ID = b"1" * 16, b"2" * 16
WHERE = TopicPartition("t", 0)


class MemoryLogs:
    """Logs that live as long as this object."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, bytes] = {}

    def get(self, where: TopicPartition) -> Log | None:
        return self.logs.get(where)

    def topic_id(self, where: TopicPartition) -> bytes | None:
        return self.topic_ids.get(where)

    def create(
        self, where: TopicPartition, *, topic_id: bytes | None = None, is_new: bool = True
    ) -> Log:
        if topic_id is not None:
            self.topic_ids.setdefault(where, topic_id)
        return self.logs.setdefault(where, new_partition(self._clock).log)

    def delete(self, where: TopicPartition) -> None:
        self.logs.pop(where, None)


@pytest.fixture
def logs(clock: ManualClock) -> MemoryLogs:
    return MemoryLogs(clock)


@pytest.fixture
def replicas(clock: ManualClock, logs: MemoryLogs) -> Replicas:
    made = Replicas(
        logs=logs, local_id=LOCAL, clock=clock, is_known=lambda where: where.topic == "known"
    )
    made.broker_epoch = 100
    return made


def order(
    *,
    leader: int = LOCAL,
    epoch: int = 0,
    topic_id: bytes = ID,
    controller_epoch: int = 1,
    broker_epoch: int = 100,
    members: tuple[int, ...] = (LOCAL, 2),
) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=controller_epoch,
        leader=leader,
        leader_epoch=epoch,
        isr=list(members),
        partition_epoch=0,
        replicas=list(members),
        is_new=True,
    )
    return LeaderAndIsrRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=[state])
        ],
        live_leaders=[],
    )


def outcome(replicas: Replicas, request: LeaderAndIsrRequest) -> int:
    return replicas.become(request).topics[0].partition_errors[0].error_code


def stop(*, epoch: int = -1, delete: bool = False) -> StopReplicaRequest:
    state = StopReplicaPartitionState(
        partition_index=0, leader_epoch=epoch, delete_partition=delete
    )
    return StopReplicaRequest(
        controller_id=9,
        controller_epoch=1,
        broker_epoch=100,
        topic_states=[StopReplicaTopicState(topic_name="t", partition_states=[state])],
    )


def test_an_order_makes_a_leader_or_a_follower(replicas: Replicas) -> None:
    assert outcome(replicas, order(leader=LOCAL, epoch=3)) == 0
    assert isinstance(replicas.hosted(WHERE).role, Leader)
    assert outcome(replicas, order(leader=2, epoch=4)) == 0
    assert isinstance(replicas.hosted(WHERE).role, Follower)


def test_an_older_leader_epoch_changes_nothing(replicas: Replicas) -> None:
    outcome(replicas, order(leader=LOCAL, epoch=4))
    assert outcome(replicas, order(leader=2, epoch=3)) == Errors.STALE_CONTROLLER_EPOCH
    assert replicas.hosted(WHERE).leader_epoch == 4


def test_a_deposed_controller_is_not_obeyed(replicas: Replicas) -> None:
    replicas.become(order(controller_epoch=2))
    with pytest.raises(KafkaError) as refused:
        replicas.become(order(controller_epoch=1, epoch=9))
    assert refused.value.error is Errors.STALE_CONTROLLER_EPOCH


def test_an_order_for_an_earlier_life_of_this_broker_is_refused(replicas: Replicas) -> None:
    with pytest.raises(KafkaError) as refused:
        replicas.become(order(broker_epoch=99))
    assert refused.value.error is Errors.STALE_BROKER_EPOCH
    assert outcome(replicas, order(broker_epoch=101)) == 0


def test_a_topic_of_the_same_name_and_another_id_is_refused(replicas: Replicas) -> None:
    outcome(replicas, order(topic_id=ID))
    assert outcome(replicas, order(topic_id=OTHER_ID, epoch=1)) == Errors.INCONSISTENT_TOPIC_ID


def test_an_order_for_partitions_of_others_is_refused(replicas: Replicas) -> None:
    error = outcome(replicas, order(leader=2, members=(2, 3)))
    assert error == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert replicas.find(WHERE) is None


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ("known", Errors.NOT_LEADER_OR_FOLLOWER),
        ("nowhere", Errors.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_clients_that_ask_here_for_what_is_not_here_are_told_why(
    replicas: Replicas, topic: str, error: Errors
) -> None:
    with pytest.raises(KafkaError) as refused:
        replicas.hosted(TopicPartition(topic, 0))
    assert refused.value.error is error


def test_a_stop_that_is_older_than_the_role_is_passed_over(
    replicas: Replicas, logs: MemoryLogs
) -> None:
    outcome(replicas, order(epoch=5))
    answer = replicas.stop(stop(epoch=4, delete=True))
    assert answer.partition_errors[0].error_code == Errors.FENCED_LEADER_EPOCH
    assert replicas.find(WHERE) is not None
    assert WHERE in logs.logs


def test_a_stop_ends_the_replica_and_deletes_only_when_told_to(
    replicas: Replicas, logs: MemoryLogs
) -> None:
    told: list[object] = []
    replicas.listen(lambda partition: told.append(partition.role))
    outcome(replicas, order(epoch=5))
    replicas.stop(stop(epoch=5))
    assert replicas.find(WHERE) is None
    assert told[-1] is None
    assert WHERE in logs.logs
    replicas.stop(stop(epoch=-2, delete=True))
    assert WHERE not in logs.logs


def test_a_log_left_by_an_earlier_topic_of_that_name_is_not_taken_over(
    replicas: Replicas, logs: MemoryLogs
) -> None:
    logs.create(WHERE, topic_id=OTHER_ID)
    assert outcome(replicas, order(topic_id=ID)) == Errors.INCONSISTENT_TOPIC_ID
    assert replicas.find(WHERE) is None
