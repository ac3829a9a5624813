"""Three brokers in one process: replicated, failing over, moving, through real sockets."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from odradek.controller.store_embedded import EmbeddedSession
from odradek.protocol.errors import Errors
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

from tests.behaviours.asking import Asker, batch
from tests.support.cluster import local_cluster
from tests.support.raw_client import RawClient
from tests.support.records import read_all
from tests.support.stage import PATIENCE, Stage, play_in


@pytest.fixture
def play(tmp_path: Path):
    return partial(play_in, tmp_path)


def test_what_was_acknowledged_is_on_every_replica_and_outlives_the_leader(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t", **{"min.insync.replicas": "2"})
        await stage.write("t", range(200))
        ends = {p.log.log_end_offset for p in stage.replicas("t").values()}
        assert ends == {200}
        leader = stage.leader("t")
        assert leader is not None
        await stage.cluster.stop_broker(leader)
        await stage.until(lambda: stage.leader("t") not in (None, leader))
        written = await stage.write("t", range(200, 300))
        assert not written.written.failed
        assert await stage.read("t") == list(range(300))
        await stage.cluster.start_broker(leader)
        await stage.until(lambda: stage.in_sync("t") == {1, 2, 3})
        assert {p.log.log_end_offset for p in stage.replicas("t").values()} == {300}

    play(scene)


def test_below_the_least_in_sync_replicas_nothing_is_taken_until_they_are_back(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t", **{"min.insync.replicas": "2"})
        await stage.write("t", range(10))
        first, second = (id_ for id_ in (1, 2, 3) if id_ != stage.leader("t"))
        await stage.cluster.stop_broker(first)
        assert not (await stage.write("t", range(10, 20))).written.failed
        await stage.cluster.stop_broker(second)
        await stage.until(lambda: len(stage.in_sync("t")) == 1)
        refused = await stage.write(
            "t", range(20, 22), **{"message.timeout.ms": 1500, "enable.idempotence": False}
        )
        assert len(refused.written.failed) == 2
        await stage.cluster.start_broker(first)
        await stage.until(lambda: len(stage.in_sync("t")) == 2)
        assert not (await stage.write("t", range(30, 40))).written.failed
        read = await stage.read("t")
        assert [number for number in read if number < 20 or number >= 30] == [
            *range(20),
            *range(30, 40),
        ]

    play(scene)


def test_a_broker_whose_session_expired_registers_again_and_is_in_sync_again(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t")
        broker = stage.cluster.brokers[3]
        before = broker.epoch
        assert isinstance(broker.store, EmbeddedSession)
        broker.store.expire()
        await stage.until(lambda: broker.epoch > before)
        await stage.write("t", range(10))
        await stage.until(lambda: stage.in_sync("t") == {1, 2, 3})
        assert await stage.read("t") == list(range(10))

    play(scene)


def test_a_broker_that_is_cut_from_the_store_hosts_new_topics_once_it_is_back(play):
    """It cannot read their settings meanwhile, and must not host them without."""

    async def scene(stage: Stage) -> None:
        broker = next(b for b in stage.cluster.brokers.values() if not b.is_controller)
        assert isinstance(broker.store, EmbeddedSession)
        broker.store.suspend()
        making = asyncio.create_task(stage.make("t", **{"min.insync.replicas": "2"}))
        await stage.until(lambda: len(stage.replicas("t")) == 2)
        assert not making.done()
        broker.store.resume()
        await making
        config = stage.replicas("t")[broker.id].log.config
        assert config.min_insync_replicas == 2
        await stage.write("t", range(10))
        await stage.until(lambda: stage.in_sync("t") == {1, 2, 3})

    play(scene)


def test_another_broker_is_controller_when_the_controller_stops(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t")
        controller = next(id_ for id_, b in stage.cluster.brokers.items() if b.is_controller)
        await stage.cluster.stop_broker(controller)
        await stage.until(lambda: any(b.is_controller for b in stage.cluster.brokers.values()))
        await stage.write("t", range(10))
        await stage.cluster.start_broker(controller)
        await stage.until(lambda: stage.in_sync("t") == {1, 2, 3})
        await stage.make("u")
        assert await stage.read("t") == list(range(10))

    play(scene)


def test_preferred_leaders_are_elected_on_request(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t")
        preferred = stage.leader("t")
        assert preferred is not None
        await stage.cluster.stop_broker(preferred)
        await stage.cluster.start_broker(preferred)
        await stage.until(lambda: stage.in_sync("t") == {1, 2, 3})
        assert stage.leader("t") != preferred
        admin = AdminClient({"bootstrap.servers": stage.bootstrap, "log_level": 2})
        elected = admin.elect_leaders(ElectionType.PREFERRED, [ClientPartition("t", 0)])
        await asyncio.to_thread(elected.result, PATIENCE)
        await stage.until(lambda: stage.leader("t") == preferred)

    play(scene)


def test_a_deleted_topic_leaves_every_broker(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t")
        await stage.write("t", range(10))
        admin = AdminClient({"bootstrap.servers": stage.bootstrap, "log_level": 2})
        await asyncio.to_thread(admin.delete_topics(["t"])["t"].result, PATIENCE)
        await stage.until(lambda: not stage.replicas("t"))
        await stage.make("t")
        await stage.write("t", range(5))
        assert await stage.read("t") == list(range(5))

    play(scene)


def test_a_cluster_that_was_stopped_goes_on_where_it_was(tmp_path):
    async def scene() -> None:
        for round_ in range(2):
            cluster = local_cluster(tmp_path / "cluster")
            await cluster.start()
            stage = Stage(cluster)
            if round_ == 0:
                await stage.make("t")
                await stage.write("t", range(50))
            else:
                await stage.until(lambda stage=stage: stage.leader("t") is not None)
                assert await stage.read("t") == list(range(50))
            await cluster.stop()

    asyncio.run(scene())


def fetch(stage: Stage, broker_id: int, topic: str, *, rack: str = "") -> FetchPartitionData:
    """What a broker answers to a consumer in a rack that reads partition 0 from its start."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        rack_id=rack,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    with RawClient(stage.cluster.brokers[broker_id].address.port) as client:
        response = client.ask(request, 11)
    assert isinstance(response, FetchResponse)
    return response.responses[0].partitions[0]


def test_consumers_are_sent_to_an_in_sync_replica_in_their_rack(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t")
        await stage.write("t", range(10))
        leader = stage.leader("t")
        assert leader is not None
        near, far = (id_ for id_ in (1, 2, 3) if id_ != leader)
        referred = await asyncio.to_thread(fetch, stage, leader, "t", rack=f"rack-{near}")
        assert referred.preferred_read_replica == near
        assert not referred.records
        for rack in ("", f"rack-{leader}", "rack-of-nobody"):
            served = await asyncio.to_thread(fetch, stage, leader, "t", rack=rack)
            assert served.preferred_read_replica == -1
            assert served.records
        # A follower hears at once what is committed, and serves exactly that.
        await stage.until(lambda: stage.replicas("t")[near].log.high_watermark == 10)
        assert (await asyncio.to_thread(fetch, stage, near, "t")).records
        reading = asyncio.to_thread(
            read_all, stage.bootstrap, "t", 1, **{"client.rack": f"rack-{near}"}
        )
        assert await reading == list(range(10))
        await stage.cluster.stop_broker(near)
        await stage.until(lambda: stage.in_sync("t") == {leader, far})
        served = await asyncio.to_thread(fetch, stage, leader, "t", rack=f"rack-{near}")
        assert served.preferred_read_replica == -1
        assert served.records

    play(scene, **{"replica.selector.class": "RackAwareReplicaSelector"})


def test_who_does_not_lead_or_control_says_so_and_who_does(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t")
        leader = stage.leader("t")
        follower = next(id_ for id_ in (1, 2, 3) if id_ != leader)
        asker = await asyncio.to_thread(Asker, stage.cluster.brokers[follower].address.port)
        refused = await asyncio.to_thread(asker.produce, "t", batch(), version=10)
        assert (refused.error_code, refused.base_offset) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)
        assert refused.current_leader.leader_id == leader
        asker.close()
        stranger = next(b for b in stage.cluster.brokers.values() if not b.is_controller)
        asker = await asyncio.to_thread(Asker, stranger.address.port)
        made = await asyncio.to_thread(asker.create, "u")
        assert made.error_code == Errors.NOT_CONTROLLER
        told = (await asyncio.to_thread(asker.metadata, [])).controller_id
        assert stage.cluster.brokers[told].is_controller
        asker.close()

    play(scene)


def test_deleted_records_are_gone_from_every_replica_when_the_answer_comes(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t")
        await stage.write("t", range(10))
        admin = AdminClient({"bootstrap.servers": stage.bootstrap, "log_level": 2})
        wanted = ClientPartition("t", 0, 4)
        deleted = await asyncio.to_thread(admin.delete_records([wanted])[wanted].result, PATIENCE)
        assert deleted.low_watermark == 4
        assert {p.log.log_start_offset for p in stage.replicas("t").values()} == {4}
        assert await stage.read("t") == list(range(4, 10))

    play(scene)


def test_several_fetchers_share_the_partitions_of_one_leader(play):
    async def scene(stage: Stage) -> None:
        await stage.make("t", partitions=12)
        await stage.write("t", range(500))
        assert sorted(await stage.read("t", 12)) == list(range(500))
        for broker in stage.cluster.brokers.values():
            ends = {p.log.log_end_offset == p.log.high_watermark for p in broker.replicas}
            assert ends == {True}

    play(scene, **{"num.replica.fetchers": 3, "replica.selector.class": "RackAwareReplicaSelector"})
