"""Brokers that die, restart, lose disks or stop, as the controller deals with them."""

import asyncio

from odradek.controller import paths
from odradek.controller.admin_requests import (
    create_topics,
    elect_leaders,
)
from odradek.controller.broker_requests import (
    alter_partition,
    controlled_shutdown,
)
from odradek.controller.configs import topic_entity, write_config
from odradek.controller.topics import NewTopic
from odradek.controller.znodes import (
    encode_log_dir_event,
)
from odradek.protocol.errors import Errors
from odradek.protocol.messages.partitions import (
    AlterPartitionPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopicData,
    BrokerState,
    ElectLeadersRequest,
)
from odradek.protocol.messages.replicas import (
    ControlledShutdownRequest,
)
from odradek.protocol.types import TopicPartition

from tests.unit.controller.cluster import Cluster, play, until
from tests.unit.controller.scenes import T0, set_isr, started, stored, topic_in_store


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
        """KIP-380: old requests cannot reach the new life, and the old ISR place is not kept."""

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
        """KAFKA-2729 and KAFKA-14144, as the leader of a partition sees them."""

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
        """KIP-903: the leader's request names the life it saw catching up."""

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

    def test_a_new_topic_is_announced_to_its_creator_when_slower_brokers_know_it_too(self):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, topic=(1, 2))
            where = TopicPartition("u", 0)
            cluster.twin(2).is_reachable = False
            asking = asyncio.create_task(
                create_topics(cluster.controller, [NewTopic("u", assignments={0: (1,)})])
            )
            await until(lambda: where in cluster.twin(1).metadata)
            cluster.twin(2).is_reachable = True
            (made,) = await asking
            assert made.error is Errors.NONE
            assert where in cluster.twin(2).metadata

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
