"""A controller and its topics: made, grown, deleted, restarted with; nonsense survived."""

import asyncio
from pathlib import Path
from random import Random

import pytest
from odradek.controller import paths
from odradek.controller.admin_requests import (
    alter_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    list_reassignments,
)
from odradek.controller.broker_requests import (
    allocate_producer_ids,
    controlled_shutdown,
)
from odradek.controller.configs import topic_entity, write_config
from odradek.controller.store_embedded import EmbeddedStore
from odradek.controller.topic_creation import create_topic
from odradek.controller.topics import Growth, NewTopic, TopicRules
from odradek.controller.znodes import (
    PartitionState,
    decode_epoch,
)
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from odradek.protocol.messages.replicas import (
    ControlledShutdownRequest,
)
from odradek.protocol.messages.transaction_admin import AllocateProducerIdsRequest
from odradek.protocol.types import TopicPartition

from tests.unit.controller.cluster import Cluster, play, until
from tests.unit.controller.scenes import T0, started, stored, topic_in_store


class TestOneBroker:
    def test_a_topic_is_created_led_and_known_when_the_answer_comes(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1)
            outcomes = await create_topics(cluster.controller, [NewTopic("t", partitions=3)])
            assert [(o.error, o.partitions, o.replication_factor) for o in outcomes] == [
                (Errors.NONE, 3, 1)
            ]
            twin = cluster.twin(1)
            assert sorted(twin.metadata) == [TopicPartition("t", p) for p in range(3)]
            assert all(role.leader == 1 for role in twin.roles.values())
            assert {role.topic_id for role in twin.roles.values()} == {outcomes[0].topic_id}
            state = await stored(cluster)
            assert (state.leader, state.leader_epoch, state.isr, state.controller_epoch) == (
                1,
                0,
                (1,),
                1,
            )

        play(scene)

    def test_everything_is_checked_before_anything_is_written(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, topic=(1,))
            before = cluster.store.tree.zxid
            wanted = [
                NewTopic("../x"),
                NewTopic("t"),
                NewTopic("big", replication_factor=2),
                NewTopic("none", partitions=0),
                NewTopic("twice"),
                NewTopic("twice"),
            ]
            outcomes = await create_topics(cluster.controller, wanted)
            assert [o.error for o in outcomes] == [
                Errors.INVALID_TOPIC_EXCEPTION,
                Errors.TOPIC_ALREADY_EXISTS,
                Errors.INVALID_REPLICATION_FACTOR,
                Errors.INVALID_PARTITIONS,
                Errors.INVALID_REQUEST,
            ]
            (tried,) = await create_topics(
                cluster.controller, [NewTopic("v", partitions=2)], validate_only=True
            )
            assert (tried.error, tried.partitions) == (Errors.NONE, 2)
            assert cluster.store.tree.zxid == before

        play(scene)

    def test_a_topic_grows(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, topic=(1,))
            (grown,) = await create_partitions(cluster.controller, [Growth("t", 4)])
            assert grown.error is Errors.NONE
            assert len(cluster.twin(1).metadata) == 4
            (refused,) = await create_partitions(cluster.controller, [Growth("t", 2)])
            assert refused.error is Errors.INVALID_PARTITIONS
            (unknown,) = await create_partitions(cluster.controller, [Growth("u", 2)])
            assert unknown.error is Errors.UNKNOWN_TOPIC_OR_PARTITION

        play(scene)

    def test_a_deleted_topic_is_gone_when_the_answer_comes_and_can_be_made_again(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, topic=(1,))
            first = (await topic_in_store(cluster)).topic_id
            await write_config(cluster.admin, topic_entity("t"), {"retention.ms": "1"})
            (gone,) = await delete_topics(cluster.controller, ["t"])
            assert gone.error is Errors.NONE
            assert cluster.twin(1).metadata == {}
            assert cluster.twin(1).logs == set()
            for path in (paths.topic("t"), paths.deletion("t"), paths.config("topics/t")):
                assert await cluster.node(path) is None
            (again,) = await create_topics(cluster.controller, [NewTopic("t")])
            assert again.error is Errors.NONE
            assert again.topic_id != first

        play(scene)

    def test_unknown_topics_cannot_be_deleted_and_none_when_that_is_switched_off(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1)
            (unknown,) = await delete_topics(cluster.controller, ["t"])
            assert unknown.error is Errors.UNKNOWN_TOPIC_OR_PARTITION

        async def forbidden(cluster: Cluster) -> None:
            await started(cluster, 1, topic=(1,))
            (refused,) = await delete_topics(cluster.controller, ["t"])
            assert refused.error is Errors.TOPIC_DELETION_DISABLED
            await cluster.admin.create(paths.deletion("t"))
            await until(lambda: cluster.store.tree.find(paths.deletion("t")) is None)
            assert await cluster.node(paths.topic("t")) is not None

        play(scene)
        play(forbidden, delete_topics=False)

    def test_any_broker_may_write_a_topic_and_the_controller_gives_it_leaders(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2)
            await create_topic(
                cluster.twin(2).session,
                NewTopic("auto", partitions=2, configs={"retention.ms": "5"}),
                topic_id=b"i" * 16,
                racks={1: None, 2: None},
                rules=TopicRules(),
                random=Random(1),
            )
            await until(lambda: len(cluster.twin(1).metadata) == 2)
            with pytest.raises(KafkaError, match="already exists"):
                await create_topic(
                    cluster.twin(1).session,
                    NewTopic("auto"),
                    topic_id=b"j" * 16,
                    racks={1: None},
                    rules=TopicRules(),
                    random=Random(1),
                )

        play(scene)

    def test_topics_without_id_are_given_one_for_good(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1)
            await cluster.admin.create(paths.topic("old"), b'{"version":1,"partitions":{"0":[1]}}')
            await cluster.leader_is(1, TopicPartition("old", 0))
            given = (await topic_in_store(cluster, "old")).topic_id
            assert given != bytes(16)
            await cluster.kill(1)
            await started(cluster, 1)
            assert (await topic_in_store(cluster, "old")).topic_id == given

        play(scene)

    def test_hostile_nodes_are_skipped_and_the_controller_lives(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, topic=(1,))
            await cluster.admin.create(paths.topic("deep"), b"[" * 100_000)
            await cluster.admin.create(paths.topic("bad name"), b"{}")
            await cluster.admin.create(paths.broker(9), b"rubbish", ephemeral=True)
            await cluster.admin.create(f"{paths.BROKER_IDS}/x", b"{}")
            await cluster.admin.create(paths.deletion("nowhere"))
            await cluster.admin.create(paths.REASSIGN_PARTITIONS, b"rubbish")
            await cluster.admin.create(paths.PREFERRED_ELECTION, b'{"partitions":7}')
            await cluster.admin.create(
                f"{paths.LOG_DIR_EVENTS}/log_dir_event_", b"", sequential=True
            )
            (made,) = await create_topics(cluster.controller, [NewTopic("u")])
            assert made.error is Errors.NONE
            await cluster.admin.set(paths.partition_state(T0), b"rubbish")
            await cluster.kill(1)
            await started(cluster, 1)
            await cluster.leader_is(1, TopicPartition("u", 0))
            assert await cluster.node(paths.partition_state(T0)) == b"rubbish"

        play(scene, store=EmbeddedStore(clock=ManualClock()))

    def test_a_store_that_moved_on_is_read_again(self):
        """Someone else wrote a state: the compare fails, and the truth of the store wins."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            state = await stored(cluster)
            changed = PartitionState(1, state.leader_epoch + 5, (1, 2), 1)
            await cluster.admin.set(paths.partition_state(T0), changed.encode())
            other = next(b for b in (1, 2) if b != cluster.controller_id)
            await cluster.kill(other)
            survivor = cluster.controller_id
            await cluster.leader_is(survivor, T0, epoch=state.leader_epoch + 6)

        play(scene)

    def test_without_an_office_every_request_is_answered_not_controller(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2)
            idle = next(
                m.controller for m in cluster.members.values() if not m.controller.is_active
            )
            no = Errors.NOT_CONTROLLER
            assert [o.error for o in await create_topics(idle, [NewTopic("t")])] == [no]
            assert [o.error for o in await delete_topics(idle, ["t"])] == [no]
            assert [o.error for o in await create_partitions(idle, [Growth("t", 2)])] == [no]
            elect = ElectLeadersRequest(topic_partitions=None)
            assert (await elect_leaders(idle, elect)).error_code == no
            shutdown = ControlledShutdownRequest(broker_id=1)
            assert (await controlled_shutdown(idle, shutdown)).error_code == no
            move = AlterPartitionReassignmentsRequest(topics=[])
            assert (await alter_reassignments(idle, move)).error_code == no
            listing = ListPartitionReassignmentsRequest()
            assert (await list_reassignments(idle, listing)).error_code == no
            ids = AllocateProducerIdsRequest(broker_id=1)
            assert (await allocate_producer_ids(idle, ids)).error_code == no

        play(scene)

    def test_producer_ids_come_in_blocks_to_living_brokers(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1)
            epoch = cluster.twin(1).epoch
            request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
            first = await allocate_producer_ids(cluster.controller, request)
            second = await allocate_producer_ids(cluster.controller, request)
            assert (first.producer_id_start, second.producer_id_start) == (0, 1000)
            stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch - 1)
            refused = await allocate_producer_ids(cluster.controller, stale)
            assert refused.error_code == Errors.STALE_BROKER_EPOCH

        play(scene)

    def test_a_request_that_fails_harms_nobody_else(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, topic=(1,))
            await cluster.admin.set(paths.PRODUCER_ID_BLOCK, b"rubbish")
            request = AllocateProducerIdsRequest(broker_id=1)
            refused = await allocate_producer_ids(cluster.controller, request)
            assert refused.error_code == Errors.UNKNOWN_SERVER_ERROR
            (made,) = await create_topics(cluster.controller, [NewTopic("u")])
            assert made.error is Errors.NONE
            assert decode_epoch((await cluster.admin.get(paths.CONTROLLER_EPOCH))[0]) == 1

        play(scene)

    def test_a_topic_too_large_for_a_node_is_refused(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1)
            configs = {"leader.replication.throttled.replicas": "0:1," * 300_000}
            (refused,) = await create_topics(cluster.controller, [NewTopic("u", configs=configs)])
            assert refused.error is Errors.POLICY_VIOLATION

        play(scene)

    def test_a_restart_goes_on_where_the_store_was_left(self, tmp_path):
        """One broker, one file: the epochs rise, the topic and its id stay."""

        async def life(first: bool) -> tuple[int, int, int, bytes]:
            store = EmbeddedStore(clock=ManualClock(), path=tmp_path / "metadata.db")
            cluster = Cluster(store)
            await started(cluster, 1, topic=(1,) if first else ())
            await cluster.leader_is(1, T0)
            state = await stored(cluster)
            topic = await topic_in_store(cluster)
            lived = (state.controller_epoch, state.leader_epoch, cluster.twin(1).epoch)
            await cluster.stop()
            return (*lived, topic.topic_id)

        one = asyncio.run(life(True))
        two = asyncio.run(life(False))
        assert one[3] == two[3]
        assert cluster_epoch(tmp_path) == 2
        # Nobody else could lead meanwhile: the state of the last life is still the right one.
        assert two[1] == one[1] == 0
        assert two[2] > one[2]

    def test_a_kill_of_the_only_broker_is_survived(self, tmp_path):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, topic=(1,))
            await cluster.kill(1)
            await started(cluster, 1)
            await cluster.leader_is(1, T0)
            assert (await stored(cluster)).isr == (1,)

        play(scene)


def cluster_epoch(folder: Path) -> int:
    async def read() -> int:
        store = EmbeddedStore(clock=ManualClock(), path=folder / "metadata.db")
        data, _ = await store.session().get(paths.CONTROLLER_EPOCH)
        await store.close()
        return decode_epoch(data)

    return asyncio.run(read())
