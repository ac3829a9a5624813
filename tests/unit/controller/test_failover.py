"""Controllers that die, are cut off or come back: one is in charge, and goes on."""

import asyncio

import pytest
from odradek.controller import paths
from odradek.controller.admin_requests import (
    create_topics,
    delete_topics,
)
from odradek.controller.campaign import Won
from odradek.controller.office import Deposed, Office
from odradek.controller.store import Create, StoreFailed
from odradek.controller.store_embedded import EmbeddedStore
from odradek.controller.topics import NewTopic
from odradek.controller.znodes import (
    PartitionState,
    decode_epoch,
)
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors
from odradek.protocol.messages.replicas import (
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)

from tests.unit.controller.cluster import Cluster, full_requests, node, play, until
from tests.unit.controller.scenes import T0, started, stored, topic_in_store


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

    def test_a_broker_that_came_back_between_two_controllers_is_not_in_sync(self):
        """Nobody saw it go, and its disk may have forgotten what it had acknowledged."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(1, 2, 3))
            first = cluster.controller_id
            cluster.twin(first).session.suspend()
            back, stayed = (b for b in (1, 2, 3) if b != first)
            await cluster.bounce(back)
            await cluster.kill(first)
            await cluster.leader_is(stayed, T0)
            assert (await stored(cluster)).isr == (stayed,)

        play(scene)

    def test_a_new_controller_tells_who_lives_before_who_leads(self):
        """KAFKA-4443: UpdateMetadata comes before LeaderAndIsr, and everything is told anew."""

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
        """KAFKA-6082: the old one's writes fail on the epoch's version, whatever it believes."""

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
        """Every request carries the epoch that lets them."""

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
        """Suspended means no metadata changes; the session lives on."""

        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1, 2, 3, topic=(3, 2, 1))
            first = cluster.controller_id
            assert first == 1
            session = cluster.twin(1).session
            session.suspend()
            await cluster.kill(3)
            asking = asyncio.create_task(create_topics(cluster.controller, [NewTopic("u")]))
            assert (await stored(cluster)).leader == 3
            assert not asking.done()
            session.resume()
            await cluster.leader_is(2, T0)
            assert cluster.controller_id == 1
            assert (await stored(cluster)).controller_epoch == 1
            (made,) = await asking
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

    def test_a_store_that_fails_ends_the_controller_and_says_so(self, tmp_path):
        async def scene(cluster: Cluster) -> None:
            await started(cluster, 1)
            controller = cluster.controller
            assert cluster.store._journal is not None
            cluster.store._journal.close()
            (refused,) = await create_topics(controller, [NewTopic("t")])
            assert refused.error is Errors.NOT_CONTROLLER
            with pytest.raises(StoreFailed):
                await controller.wait()
            assert not controller.is_active

        play(scene, store=EmbeddedStore(clock=ManualClock(), path=tmp_path / "db"))

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
        """KIP-516: the topic is not re-created under the feet of a replica that never heard."""

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
