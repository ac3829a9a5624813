"""ElectLeaders, reassignments and absent replicas on a broker that has nobody beside it."""

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersTopicPartitions,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)

from tests.behaviours.asking import Asker

PREFERRED, UNCLEAN = 0, 1


def elect(asker: Asker, topic: str, index: int, kind: int) -> int:
    wanted = ElectLeadersTopicPartitions(topic=topic, partitions=[index])
    request = ElectLeadersRequest(election_type=kind, topic_partitions=[wanted], timeout_ms=5000)
    (result,) = asker.ask(request, 2).replica_election_results[0].partition_result
    return result.error_code


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_a_leader_that_is_right_needs_no_election(asker: Asker, topic: str, kind: int) -> None:
    assert elect(asker, topic, 0, kind) == Errors.ELECTION_NOT_NEEDED


def test_an_election_for_an_unknown_partition(asker: Asker, topic: str) -> None:
    assert elect(asker, topic, 7, PREFERRED) == Errors.UNKNOWN_TOPIC_OR_PARTITION


def move(asker: Asker, topic: str, replicas: list[int] | None, index: int = 0) -> int:
    partition = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[partition])], timeout_ms=5000
    )
    return asker.ask(request, 0).responses[0].partitions[0].error_code


def test_moves_to_nowhere_are_refused(asker: Asker, topic: str) -> None:
    here = asker.metadata([]).controller_id
    assert move(asker, topic, [here + 50]) == Errors.INVALID_REPLICA_ASSIGNMENT
    assert move(asker, topic, [here, here]) == Errors.INVALID_REPLICA_ASSIGNMENT
    assert move(asker, topic, []) == Errors.INVALID_REPLICA_ASSIGNMENT
    assert move(asker, topic, [here], index=9) == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_there_is_no_move_to_cancel(asker: Asker, topic: str) -> None:
    assert move(asker, topic, None) == Errors.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_to_where_it_is_ends_at_once(asker: Asker, topic: str) -> None:
    here = asker.metadata([]).controller_id
    assert move(asker, topic, [here]) == 0
    answer = asker.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=5000), 0)
    assert (answer.error_code, answer.topics) == (0, [])


def test_replicas_of_a_new_topic_may_be_on_brokers_that_are_not_there(
    asker: Asker, name: str
) -> None:
    here = asker.metadata([]).controller_id
    replicas = CreatableReplicaAssignment(partition_index=0, broker_ids=[here + 50, here])
    wish = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=[replicas], configs=[]
    )
    request = CreateTopicsRequest(topics=[wish], timeout_ms=10_000)
    assert asker.ask(request, 7).topics[0].error_code == 0
    (partition,) = asker.metadata([name]).topics[0].partitions
    assert partition.replica_nodes == [here + 50, here]
    assert (partition.leader_id, partition.isr_nodes) == (here, [here])
