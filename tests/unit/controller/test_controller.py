"""The controller at work: elections, failover, topics and their deletion, on a store in memory."""

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
    alter_partition,
    controlled_shutdown,
)
from odradek.controller.campaign import Won
from odradek.controller.configs import topic_entity, write_config
from odradek.controller.office import Deposed, Office
from odradek.controller.store import Create
from odradek.controller.store_embedded import EmbeddedStore
from odradek.controller.topic_creation import create_topic
from odradek.controller.topics import Growth, NewTopic, TopicRules
from odradek.controller.znodes import (
    Assignment,
    PartitionState,
    TopicAssignment,
    decode_epoch,
    encode_log_dir_event,
    encode_partitions,
    encode_reassignment,
)
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionTopicData,
    BrokerState,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.replicas import (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from odradek.protocol.messages.transaction_admin import AllocateProducerIdsRequest
from odradek.protocol.types import TopicPartition

from tests.unit.controller.cluster import Cluster, full_requests, node, play, until

T0 = TopicPartition("t", 0)

MOVING = {0: Assignment((2, 1), adding=(2,), removing=(1,))}


async def started(cluster: Cluster, *brokers: int, topic: tuple[int, ...] = ()) -> None:
    await cluster.start(*brokers)
    await cluster.elected()
    live = [len(m.twin.live_brokers) for m in cluster.members.values()]
    await until(
        lambda: all(len(m.twin.live_brokers) == len(live) for m in cluster.members.values())
    )
    if topic:
        (made,) = await create_topics(cluster.controller, [NewTopic("t", assignments={0: topic})])
        assert made.error is Errors.NONE
        await cluster.leader_is(topic[0], T0)


async def stored(cluster: Cluster, where: TopicPartition = T0) -> PartitionState:
    data, stat = await cluster.admin.get(paths.partition_state(where))
    return PartitionState.decode(data, stat.version)


async def topic_in_store(cluster: Cluster, name: str = "t") -> TopicAssignment:
    return TopicAssignment.decode((await cluster.admin.get(paths.topic(name)))[0])


async def set_isr(cluster: Cluster, members: tuple[int, ...], where: TopicPartition = T0) -> Errors:
    """What the present leader asks for when followers catch up or fall behind."""
    state = await stored(cluster, where)
    topic = await topic_in_store(cluster, where.topic)
    response = await alter_partition(
        cluster.controller,
        AlterPartitionRequest(
            broker_id=state.leader,
            broker_epoch=cluster.twin(state.leader).epoch,
            topics=[
                AlterPartitionTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AlterPartitionPartitionData(
                            partition_index=where.partition,
                            leader_epoch=state.leader_epoch,
                            new_isr_with_epochs=[
                                BrokerState(broker_id=b, broker_epoch=cluster.twin(b).epoch)
                                for b in members
                            ],
                            partition_epoch=state.partition_epoch,
                        )
                    ],
                )
            ],
        ),
    )
    if response.error_code:
        return Errors(response.error_code)
    return Errors(response.topics[0].partitions[0].error_code)


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


class TestFailures:
    def test_a_dead_broker_loses_its_partitions_to_an_in_sync_replica(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(1, 2, 3))
            await cluster.kill(1)
            await cluster.leader_is(2, T0, epoch=1)
            assert (await stored(cluster)).isr == (2, 3)
            assert cluster.twin(3).roles[T0].leader == 2

        play(scene)

    def test_a_bounce_within_the_session_is_seen_as_a_new_life(self):
        """Item 22: old requests cannot reach the new life, and the old ISR place is not kept."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(2, 1))
            before = cluster.twin(2).epoch
            await cluster.bounce(2)
            after = cluster.twin(2).epoch
            assert after > before
            await cluster.leader_is(1, T0)
            await until(lambda: T0 in cluster.twin(2).roles)
            meant_for_now = [r for r in cluster.twin(2).heard if r.broker_epoch == after]
            assert meant_for_now
            assert (await stored(cluster)).isr == (1,)
            assert await set_isr(cluster, (1, 2)) is Errors.NONE

        play(scene)

    def test_a_stale_isr_change_is_refused_and_a_repeated_one_granted(self):
        """Items 19 and 29, as the leader of a partition sees them."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(1, 2, 3))
            topic = await topic_in_store(cluster)

            async def ask(members: tuple[int, ...], partition_epoch: int, leader_epoch: int = 0):
                request = AlterPartitionRequest(
                    broker_id=1,
                    broker_epoch=cluster.twin(1).epoch,
                    topics=[
                        AlterPartitionTopicData(
                            topic_id=topic.topic_id,
                            partitions=[
                                AlterPartitionPartitionData(
                                    partition_index=0,
                                    leader_epoch=leader_epoch,
                                    new_isr_with_epochs=[BrokerState(broker_id=b) for b in members],
                                    partition_epoch=partition_epoch,
                                )
                            ],
                        )
                    ],
                )
                response = await alter_partition(cluster.controller, request)
                return response.topics[0].partitions[0]

            shrunk = await ask((1, 2), 0)
            assert (shrunk.error_code, shrunk.isr, shrunk.partition_epoch) == (0, [1, 2], 1)
            again = await ask((1, 2), 0)
            assert (again.error_code, again.partition_epoch) == (0, 1)
            assert (await ask((1,), 0)).error_code == Errors.INVALID_UPDATE_VERSION
            assert (await ask((1,), 1, leader_epoch=-1)).error_code == Errors.FENCED_LEADER_EPOCH
            state = await stored(cluster)
            assert (state.isr, state.leader_epoch, state.partition_epoch) == ((1, 2), 0, 1)
            await until(lambda: cluster.twin(3).metadata[T0].isr == [1, 2])

        play(scene)

    def test_a_restarted_follower_is_not_let_in_by_what_its_old_life_fetched(self):
        """Item 30: the leader's request names the life it saw catching up."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            old = cluster.twin(2).epoch
            await cluster.bounce(2)
            new = cluster.twin(2).epoch
            await cluster.leader_is(1, T0, epoch=1)
            cluster.twin(2).epoch = old
            assert await set_isr(cluster, (1, 2)) is Errors.INELIGIBLE_REPLICA
            cluster.twin(2).epoch = new
            assert await set_isr(cluster, (1, 2)) is Errors.NONE

        play(scene)

    def test_a_failed_directory_takes_its_replicas_offline_until_the_broker_returns(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            cluster.twin(1).failed.add(T0)
            await cluster.admin.create(
                paths.LOG_DIR_EVENT_PREFIX, encode_log_dir_event(1), sequential=True
            )
            await cluster.leader_is(2, T0)
            assert cluster.twin(2).metadata[T0].offline_replicas == [1]
            await until(lambda: cluster.store.tree.names(paths.LOG_DIR_EVENTS) == [])
            cluster.twin(1).failed.clear()
            await cluster.bounce(1)
            await until(lambda: cluster.twin(1).roles.get(T0) is not None)
            assert await set_isr(cluster, (2, 1)) is Errors.NONE

        play(scene)

    def test_an_unreachable_broker_is_told_again_until_it_hears(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            cluster.twin(2).is_reachable = False
            asking = asyncio.create_task(
                create_topics(cluster.controller, [NewTopic("u", assignments={0: (2,)})])
            )
            (made,) = await asking
            assert made.error is Errors.NONE
            cluster.twin(2).is_reachable = True
            await until(lambda: TopicPartition("u", 0) in cluster.twin(2).roles)

        play(scene)

    def test_controlled_shutdown_moves_leaders_away_first(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            epoch = cluster.twin(1).epoch
            stale = ControlledShutdownRequest(broker_id=1, broker_epoch=epoch - 1)
            answer = await controlled_shutdown(cluster.controller, stale)
            assert answer.error_code == Errors.STALE_BROKER_EPOCH
            request = ControlledShutdownRequest(broker_id=1, broker_epoch=epoch)
            answer = await controlled_shutdown(cluster.controller, request)
            assert (answer.error_code, answer.remaining_partitions) == (0, [])
            await cluster.leader_is(2, T0)
            assert (await stored(cluster)).isr == (2,)
            unknown = ControlledShutdownRequest(broker_id=9)
            answer = await controlled_shutdown(cluster.controller, unknown)
            assert answer.error_code == Errors.BROKER_NOT_AVAILABLE

        play(scene)

    def test_unclean_election_follows_the_topics_setting(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 3, 1, 2, topic=(1, 2))
            assert await set_isr(cluster, (1,)) is Errors.NONE
            await cluster.kill(1)
            await cluster.leader_is(-1, T0)
            await write_config(
                cluster.admin, topic_entity("t"), {"unclean.leader.election.enable": "true"}
            )
            await cluster.leader_is(2, T0)
            assert (await stored(cluster)).recovering

        play(scene)

    def test_preferred_leaders_are_restored_on_request_and_by_the_clock(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 3, 1, 2, topic=(1, 2))
            await cluster.kill(1)
            await cluster.leader_is(2, T0)
            await cluster.start(1)
            await until(lambda: T0 in cluster.twin(1).roles)
            assert await set_isr(cluster, (2, 1)) is Errors.NONE
            request = ElectLeadersRequest(topic_partitions=None)
            response = await elect_leaders(cluster.controller, request)
            (topic,) = response.replica_election_results
            assert [(p.partition_id, p.error_code) for p in topic.partition_result] == [(0, 0)]
            await cluster.leader_is(1, T0)

        async def by_itself(cluster: Cluster) -> None:
            await started(cluster, 3, 1, 2, topic=(1, 2))
            await cluster.kill(1)
            await cluster.leader_is(2, T0)
            await cluster.start(1)
            await until(lambda: T0 in cluster.twin(1).roles)
            assert await set_isr(cluster, (2, 1)) is Errors.NONE
            await cluster.leader_is(1, T0)

        play(scene)
        play(by_itself, rebalance_interval_seconds=0.01)


class TestFailover:
    def test_another_broker_takes_over_with_a_higher_epoch(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(1, 2, 3))
            first = cluster.controller_id
            await cluster.kill(first)
            second = await cluster.elected()
            assert second != first
            assert decode_epoch((await cluster.admin.get(paths.CONTROLLER_EPOCH))[0]) == 2
            leader = next(b for b in (1, 2, 3) if b != first)
            await cluster.leader_is(leader, T0)
            assert (await stored(cluster)).controller_epoch == 2

        play(scene)

    def test_a_new_controller_tells_who_lives_before_who_leads(self):
        """Item 27: UpdateMetadata comes before LeaderAndIsr, and everything is told anew."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(1, 2, 3))
            first = cluster.controller_id
            await cluster.kill(first)
            for member in cluster.members.values():
                member.twin.heard.clear()
            await cluster.elected()
            twin = cluster.twin(3)
            await until(lambda: bool(full_requests(twin)))
            kinds = [type(request) for request in twin.heard]
            assert kinds[0] is UpdateMetadataRequest
            assert kinds.index(UpdateMetadataRequest) < kinds.index(LeaderAndIsrRequest)
            assert {request.controller_epoch for request in twin.heard} == {2}

        play(scene)

    def test_two_controllers_cannot_both_write(self):
        """Item 20: the old one's writes fail on the epoch's version, whatever it believes."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, topic=(1,))
            won = Won(1, (await cluster.admin.exists(paths.CONTROLLER_EPOCH)).version)
            old = Office(cluster.twin(1).session, won)
            await old.write([Create("/fine")])
            await cluster.kill(1)
            await started(cluster, 2)
            late = Office(cluster.admin, won)
            with pytest.raises(Deposed):
                await late.write([Create("/late")])
            with pytest.raises(Deposed):
                await late.store_states({T0: PartitionState(1, 9, (1,), 1, False, 0)})
            assert await cluster.node("/late") is None

        play(scene)

    def test_brokers_refuse_the_requests_of_an_old_controller(self):
        """Item 21: every request carries the epoch that lets them."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            first = cluster.controller_id
            old_request = cluster.twin(3 - first).heard[0]
            await cluster.kill(first)
            survivor = await cluster.elected()
            twin = cluster.twin(survivor)
            await until(lambda: twin.controller_epoch == 2)
            answer = await twin.handle(old_request)
            assert answer.error_code == Errors.STALE_CONTROLLER_EPOCH

        play(scene)

    def test_a_controller_whose_session_expired_stops_and_campaigns_again(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            first = cluster.controller_id
            cluster.twin(first).session.expire()
            await until(
                lambda: (
                    cluster.members[3 - first].controller.is_active
                    and not cluster.members[first].controller.is_active
                )
            )
            member = cluster.members[first]
            member.twin.epoch = await member.registration.register(node(first), patience_seconds=5)
            await cluster.leader_is(3 - first, T0)
            assert member.controller.controller_id == 3 - first

        play(scene)

    def test_a_cut_controller_changes_nothing_and_goes_on_when_it_is_back(self):
        """Item 24: suspended means no metadata changes; the session lives on."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(3, 2, 1))
            first = cluster.controller_id
            assert first == 1
            session = cluster.twin(1).session
            session.suspend()
            await cluster.kill(3)
            asking = asyncio.create_task(create_topics(cluster.controller, [NewTopic("u")]))
            await until(asking.done)
            assert asking.result()[0].error is Errors.REQUEST_TIMED_OUT
            assert (await stored(cluster)).leader == 3
            session.resume()
            await cluster.leader_is(2, T0)
            assert cluster.controller_id == 1
            assert (await stored(cluster)).controller_epoch == 1
            (made,) = await create_topics(cluster.controller, [NewTopic("u")])
            assert made.error is Errors.NONE

        play(scene)

    def test_deleting_the_controller_node_forces_an_election(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            await cluster.admin.delete(paths.CONTROLLER)
            await until(lambda: all(m.twin.controller_epoch == 2 for m in cluster.members.values()))
            await cluster.elected()

        play(scene)

    def test_a_clean_stop_gives_up_the_office_at_once(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2)
            first = cluster.controller_id
            await cluster.members[first].controller.close()
            await until(lambda: cluster.members[3 - first].controller.is_active)

        play(scene)

    def test_a_deletion_survives_the_controller_that_began_it(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(2, 3))
            first = cluster.controller_id
            assert first == 1
            cluster.twin(3).is_reachable = False
            (marked,) = await delete_topics(cluster.controller, ["t"], timeout_seconds=0)
            assert marked.error is Errors.NONE
            await cluster.kill(1)
            await cluster.elected()
            assert await cluster.node(paths.deletion("t")) is not None
            cluster.twin(3).is_reachable = True
            await until(lambda: cluster.store.tree.find(paths.topic("t")) is None)
            assert cluster.store.tree.find(paths.deletion("t")) is None
            await until(lambda: not cluster.twin(2).logs and not cluster.twin(3).logs)

        play(scene)

    def test_a_deletion_waits_for_brokers_that_are_away(self):
        """Item 32: the topic is not re-created under the feet of a replica that never heard."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            old = (await topic_in_store(cluster)).topic_id
            away = 3 - cluster.controller_id
            stale_log = cluster.twin(away).logs
            await cluster.kill(away)
            await delete_topics(cluster.controller, ["t"], timeout_seconds=0)
            (exists,) = await create_topics(cluster.controller, [NewTopic("t")])
            assert exists.error is Errors.TOPIC_ALREADY_EXISTS
            await cluster.start(away)
            cluster.twin(away).logs |= stale_log
            await until(lambda: cluster.store.tree.find(paths.topic("t")) is None)
            assert cluster.twin(away).logs == set()
            (made,) = await create_topics(cluster.controller, [NewTopic("t")])
            assert made.topic_id not in (old, bytes(16))

        play(scene)


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
        """Item 28: at no moment is someone in sync who is no replica; the store is checked."""

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
        """Item 26: one that is overtaken by a later role is ignored."""

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
