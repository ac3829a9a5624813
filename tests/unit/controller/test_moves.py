"""Partitions that move between brokers, by request and by tools."""

from odradek.controller import paths
from odradek.controller.admin_requests import (
    alter_reassignments,
    list_reassignments,
)
from odradek.controller.broker_requests import (
    controlled_shutdown,
)
from odradek.controller.znodes import (
    Assignment,
    PartitionState,
    TopicAssignment,
    encode_partitions,
    encode_reassignment,
)
from odradek.protocol.errors import Errors
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.replicas import (
    ControlledShutdownRequest,
    StopReplicaRequest,
)

from tests.unit.controller.cluster import Cluster, play, until
from tests.unit.controller.scenes import T0, set_isr, started, stored, topic_in_store

MOVING = {0: Assignment((2, 1), adding=(2,), removing=(1,))}


class TestMoves:
    def move(self, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
        partition = ReassignablePartition(partition_index=0, replicas=replicas)
        topic = ReassignableTopic(name="t", partitions=[partition])
        return AlterPartitionReassignmentsRequest(topics=[topic])

    def test_a_partition_moves_when_its_new_replicas_have_caught_up(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(1, 2))
            answer = await alter_reassignments(cluster.controller, self.move([3, 2]))
            assert answer.responses[0].partitions[0].error_code == 0
            listing = await list_reassignments(
                cluster.controller, ListPartitionReassignmentsRequest()
            )
            (ongoing,) = listing.topics[0].partitions
            assert (ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas) == (
                [3, 2, 1],
                [3],
                [1],
            )
            await until(lambda: T0 in cluster.twin(3).roles)
            assert await set_isr(cluster, (1, 2, 3)) is Errors.NONE
            await cluster.leader_is(3, T0)
            assert (await topic_in_store(cluster)).partitions[0].replicas == (3, 2)
            await until(lambda: cluster.twin(1).logs == set())
            assert cluster.twin(3).roles[T0].replicas == (3, 2)
            listing = await list_reassignments(
                cluster.controller, ListPartitionReassignmentsRequest()
            )
            assert listing.topics == []

        play(scene)

    def test_a_move_is_cancelled_and_refused(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(1, 2))
            none = await alter_reassignments(cluster.controller, self.move(None))
            assert none.responses[0].partitions[0].error_code == Errors.NO_REASSIGNMENT_IN_PROGRESS
            bad = await alter_reassignments(cluster.controller, self.move([9]))
            assert bad.responses[0].partitions[0].error_code == Errors.INVALID_REPLICA_ASSIGNMENT
            await alter_reassignments(cluster.controller, self.move([3]))
            await until(lambda: T0 in cluster.twin(3).logs)
            done = await alter_reassignments(cluster.controller, self.move(None))
            assert done.responses[0].partitions[0].error_code == 0
            await until(lambda: T0 not in cluster.twin(3).logs)
            assert (await topic_in_store(cluster)).partitions[0].replicas == (1, 2)

        play(scene)

    def test_a_new_controller_completes_a_move(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 4, 1, 2, 3, topic=(1, 2))
            await alter_reassignments(cluster.controller, self.move([3, 2]))
            await cluster.kill(4)
            await cluster.elected()
            assert await set_isr(cluster, (1, 2, 3)) is Errors.NONE
            await until(lambda: b'"0":[3,2]' in cluster.store.tree.node(paths.topic("t")).data)

        play(scene)

    def test_a_move_that_was_left_half_done_is_completed(self):
        """The old controller died after changing the state, before writing the assignment."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1,))
            await cluster.kill(cluster.controller_id)
            moving = TopicAssignment((await topic_in_store(cluster)).topic_id, MOVING)
            await cluster.admin.set(paths.topic("t"), moving.encode())
            state = PartitionState(2, 5, (2,), 1)
            await cluster.admin.set(paths.partition_state(T0), state.encode())
            await cluster.start(*({1, 2} - cluster.members.keys()))
            await cluster.leader_is(2, T0)
            assert (await topic_in_store(cluster)).partitions[0] == Assignment((2,))

        play(scene)

    def test_a_cancelled_move_is_trimmed_from_the_isr_before_the_assignment(self):
        """KAFKA-9672: at no moment is someone in sync who is no replica; the store is checked."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(1, 2))
            await alter_reassignments(cluster.controller, self.move([3, 4]))
            await alter_reassignments(cluster.controller, self.move([3, 1]))
            await until(lambda: T0 in cluster.twin(3).roles)
            cluster.twin(2).is_reachable = False
            assert await set_isr(cluster, (1,)) is Errors.NONE
            await alter_reassignments(cluster.controller, self.move([2, 3]))
            assert await set_isr(cluster, (1, 3)) is Errors.NONE
            await alter_reassignments(cluster.controller, self.move(None))
            assert (await stored(cluster)).isr == (1,)

        play(scene)

    def test_requests_that_tools_leave_in_the_store_are_done(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(1, 2))
            await cluster.admin.create(paths.REASSIGN_PARTITIONS, encode_reassignment({T0: (2, 1)}))
            await until(lambda: cluster.store.tree.find(paths.REASSIGN_PARTITIONS) is None)
            assert (await topic_in_store(cluster)).partitions[0].replicas == (2, 1)
            await cluster.admin.create(paths.PREFERRED_ELECTION, encode_partitions([T0]))
            await cluster.leader_is(2, T0)

        play(scene)

    def test_a_stop_names_the_epoch_it_ends(self):
        """KIP-570: one that is overtaken by a later role is ignored."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(2, 1))
            shutdown = ControlledShutdownRequest(broker_id=1, broker_epoch=cluster.twin(1).epoch)
            await controlled_shutdown(cluster.controller, shutdown)
            await until(
                lambda: any(isinstance(r, StopReplicaRequest) for r in cluster.twin(1).heard)
            )
            (stop,) = [r for r in cluster.twin(1).heard if isinstance(r, StopReplicaRequest)]
            (state,) = stop.topic_states[0].partition_states
            assert (state.leader_epoch, state.delete_partition) == (1, False)

        play(scene)
