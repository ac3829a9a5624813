"""Transactions on three brokers: the coordinator, the leaders and the group are elsewhere.

In one process and over real sockets. Every transactional id has its state in one partition, so that
there is one coordinator, and topics lie on the brokers that a scene names.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from odradek.broker.local_cluster import LocalCluster
from odradek.protocol.errors import Errors
from odradek.protocol.messages.transaction_admin import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.types import TopicPartition

from tests.behaviours.asking import Asker
from tests.behaviours.txn_asking import Producer
from tests.support.cluster import local_cluster

PATIENCE = 30.0
READ_COMMITTED = 1
STATE = TopicPartition("__transaction_state", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
ID = "transactional"
ALONE = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}

T = TypeVar("T")


class Stage:
    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    def port(self, broker_id: int) -> int:
        return self.cluster.brokers[broker_id].address.port

    async def make(self, topic: str, *replicas: list[int]) -> None:
        bootstrap = ",".join(map(str, self.cluster.addresses))
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        new = NewTopic(topic, len(replicas), replica_assignment=list(replicas))
        await asyncio.to_thread(admin.create_topics([new])[topic].result, PATIENCE)
        await self.until(
            lambda: all(
                self.leader(TopicPartition(topic, index)) == ids[0]
                for index, ids in enumerate(replicas)
            )
        )

    def leader(self, where: TopicPartition) -> int | None:
        for broker_id, broker in self.cluster.brokers.items():
            partition = broker.replicas.find(where)
            if partition is not None and partition.is_leader:
                return broker_id
        return None

    async def coordinator(self) -> int:
        """Where the coordinator is, made if need be."""
        with Producer(self.port(min(self.cluster.brokers)), ID) as anyone:
            await asyncio.to_thread(anyone.find_coordinator)
            await asyncio.to_thread(anyone.find_coordinator, group="g")
        await self.until(lambda: None not in (self.leader(STATE), self.leader(OFFSETS)))
        leader = self.leader(STATE)
        assert leader is not None
        return leader

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            # Looks at several brokers at once, none of which has an event for all of them.
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def stable_end(self, broker_id: int, topic: str) -> int:
        return (await self._fetched(broker_id, topic)).last_stable_offset

    async def _fetched(self, broker_id: int, topic: str):
        asker = Asker(self.port(broker_id))
        try:
            return await asyncio.to_thread(asker.fetch, topic, 0, isolation_level=READ_COMMITTED)
        finally:
            asker.close()

    async def until_stable(self, broker_id: int, topic: str, end: int) -> None:
        async with asyncio.timeout(PATIENCE):
            # Asked as a client asks, who hears of it in no other way.
            while await self.stable_end(broker_id, topic) < end:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    def speaks_for(self, producer: Producer, broker_id: int) -> Producer:
        """The same producer, on a connection to another broker."""
        other = Producer(self.port(broker_id), producer.transactional_id)
        other.id, other.epoch = producer.id, producer.epoch
        return other


async def do(call: Callable[..., T], *arguments: object, **named: object) -> T:
    return await asyncio.to_thread(call, *arguments, **named)


async def stable_offset(reader: Producer, where: TopicPartition) -> tuple[int, Errors]:
    """The committed offset of group g, once its coordinator is ready to say."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await do(reader.committed_offset, "g", where, stable=True)
            except IndexError:  # an error of the whole answer, which then names no topic
                await asyncio.sleep(0.02)


def others(broker_id: int) -> tuple[int, int]:
    first, second = (id_ for id_ in (1, 2, 3) if id_ != broker_id)
    return first, second


@pytest.fixture
def play(tmp_path: Path):
    def run(scene) -> None:
        async def whole() -> None:
            cluster = local_cluster(tmp_path / "cluster", overrides=ALONE)
            await cluster.start()
            try:
                await scene(Stage(cluster))
            finally:
                await cluster.stop()

        asyncio.run(whole())

    return run


def test_leaders_ask_the_coordinator_and_get_its_markers(play):
    async def scene(stage: Stage) -> None:
        coordinator = await stage.coordinator()
        far, near = others(coordinator)
        await stage.make("t", [far], [near], [coordinator])
        with Producer(stage.port(coordinator), ID) as producer:
            await do(producer.init)
            with stage.speaks_for(producer, far) as writer:
                refused = await do(writer.ask_produce, "t", b"early")
                assert refused.error_code == Errors.INVALID_TXN_STATE
                await do(producer.add, *(TopicPartition("t", index) for index in range(3)))
                assert (await do(writer.produce, "t", b"a")).error_code == 0
            with stage.speaks_for(producer, near) as writer:
                assert (await do(writer.produce, "t", b"b", partition=1)).error_code == 0
            assert await stage.stable_end(far, "t") == 0
            assert await do(producer.end, commit=True) is Errors.NONE
            await do(producer.wait_for_state, "CompleteCommit")
            assert await stage.stable_end(far, "t") == 2

    play(scene)


def test_a_new_coordinator_writes_the_markers_that_the_former_one_could_not(play):
    """It was decided, the client was told, and then the coordinator and a leader were gone."""

    async def scene(stage: Stage) -> None:
        coordinator = await stage.coordinator()
        away, heir = others(coordinator)
        await stage.make("t", [away])
        with Producer(stage.port(coordinator), ID) as producer:
            await do(producer.init)
            await do(producer.add, TopicPartition("t", 0))
            with stage.speaks_for(producer, away) as writer:
                assert (await do(writer.produce, "t", b"a")).error_code == 0
            await stage.cluster.stop_broker(away)
            assert await do(producer.end, commit=True) is Errors.NONE
            assert (await do(producer.describe)).transaction_state == "PrepareCommit"
        await stage.cluster.stop_broker(coordinator)
        await stage.until(lambda: stage.leader(STATE) == heir)
        await stage.cluster.start_broker(away)
        await stage.until_stable(away, "t", 2)
        with Producer(stage.port(heir), ID) as watcher:
            found = await do(watcher.wait_for_state, "CompleteCommit")
            assert found.producer_id == producer.id

    play(scene)


def test_an_open_transaction_is_ended_by_a_new_coordinator(play):
    async def scene(stage: Stage) -> None:
        coordinator = await stage.coordinator()
        far, _ = others(coordinator)
        await stage.make("t", [far])
        with Producer(stage.port(coordinator), ID) as producer:
            await do(producer.init)
            await do(producer.add, TopicPartition("t", 0))
            with stage.speaks_for(producer, far) as writer:
                await do(writer.produce, "t", b"a")
        await stage.cluster.stop_broker(coordinator)
        await stage.until(lambda: stage.leader(STATE) not in (None, coordinator))
        heir = stage.leader(STATE)
        assert heir is not None
        with stage.speaks_for(producer, heir) as ending:
            assert await do(ending.end, commit=False) is Errors.NONE
            await do(ending.wait_for_state, "CompleteAbort")
        assert await stage.stable_end(far, "t") == 2

    play(scene)


def test_a_marker_of_a_former_coordinator_is_refused(play):
    async def scene(stage: Stage) -> None:
        coordinator = await stage.coordinator()
        far, _ = others(coordinator)
        await stage.make("t", [far])
        with Producer(stage.port(coordinator), ID) as producer:
            await do(producer.init)
        await stage.cluster.stop_broker(coordinator)
        await stage.until(lambda: stage.leader(STATE) not in (None, coordinator))
        heir = stage.leader(STATE)
        assert heir is not None
        with stage.speaks_for(producer, heir) as ours:
            await do(ours.add, TopicPartition("t", 0))
            with stage.speaks_for(ours, far) as writer:
                await do(writer.produce, "t", b"a")
            await do(ours.end, commit=True)
            await do(ours.wait_for_state, "CompleteCommit")
        late = WritableTxnMarker(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            coordinator_epoch=0,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )
        asker = Asker(stage.port(far))
        answer = await do(asker.ask, WriteTxnMarkersRequest(markers=[late]), 1)
        asker.close()
        (result,) = answer.markers[0].topics[0].partitions
        assert result.error_code == Errors.TRANSACTION_COORDINATOR_FENCED

    play(scene)


def test_the_end_of_a_transaction_waits_for_nothing_that_was_deleted(play):
    async def scene(stage: Stage) -> None:
        coordinator = await stage.coordinator()
        far, near = others(coordinator)
        await stage.make("t", [far])
        await stage.make("gone", [near])
        with Producer(stage.port(coordinator), ID) as producer:
            await do(producer.init)
            await do(producer.add, TopicPartition("t", 0), TopicPartition("gone", 0))
            admin = AdminClient({"bootstrap.servers": str(stage.cluster.addresses[0])})
            await do(admin.delete_topics(["gone"])["gone"].result, PATIENCE)
            await stage.until(lambda: stage.leader(TopicPartition("gone", 0)) is None)
            assert await do(producer.end, commit=True) is Errors.NONE
            await do(producer.wait_for_state, "CompleteCommit")

    play(scene)


def test_offsets_take_effect_on_another_broker_and_outlive_it(play):
    async def scene(stage: Stage) -> None:
        coordinator = await stage.coordinator()
        keeper = stage.leader(OFFSETS)
        assert keeper is not None
        await stage.make("t", [coordinator])
        where = TopicPartition("t", 0)
        with Producer(stage.port(coordinator), ID) as producer:
            await do(producer.init)
            await do(producer.add_offsets, "g")
            with stage.speaks_for(producer, keeper) as committing:
                assert await do(committing.commit_offset, "g", where, 17) is Errors.NONE
                found = await do(committing.committed_offset, "g", where, stable=True)
                assert found == (-1, Errors.UNSTABLE_OFFSET_COMMIT)
                await do(producer.end, commit=True)
                await do(producer.wait_for_state, "CompleteCommit")
                found = await do(committing.committed_offset, "g", where, stable=True)
                assert found == (17, Errors.NONE)
        await stage.cluster.stop_broker(keeper)
        await stage.until(lambda: stage.leader(OFFSETS) not in (None, keeper))
        heir = stage.leader(OFFSETS)
        assert heir is not None
        with Producer(stage.port(heir), ID) as reader:
            found = await stable_offset(reader, where)
            assert found == (17, Errors.NONE)

    play(scene)


def test_offsets_of_an_open_transaction_are_unstable_for_a_new_group_coordinator(play):
    async def scene(stage: Stage) -> None:
        coordinator = await stage.coordinator()
        keeper = stage.leader(OFFSETS)
        assert keeper is not None
        await stage.make("t", [1, 2, 3])
        where = TopicPartition("t", 0)
        with Producer(stage.port(coordinator), ID) as producer:
            await do(producer.init)
            await do(producer.add_offsets, "g")
            with stage.speaks_for(producer, keeper) as committing:
                assert await do(committing.commit_offset, "g", where, 17) is Errors.NONE
        await stage.cluster.stop_broker(keeper)
        await stage.until(
            lambda: (
                None not in (stage.leader(STATE), stage.leader(OFFSETS))
                and keeper not in (stage.leader(STATE), stage.leader(OFFSETS))
            )
        )
        heir, ending_at = stage.leader(OFFSETS), stage.leader(STATE)
        assert heir is not None
        assert ending_at is not None
        with Producer(stage.port(heir), ID) as reader:
            found = await stable_offset(reader, where)
            assert found == (-1, Errors.UNSTABLE_OFFSET_COMMIT)
            with stage.speaks_for(producer, ending_at) as ending:
                await do(ending.end, commit=False)
                await do(ending.wait_for_state, "CompleteAbort")
            assert await stable_offset(reader, where) == (-1, Errors.NONE)

    play(scene)


def test_a_batch_that_is_sent_again_to_a_new_leader_gets_its_first_offset(play):
    async def scene(stage: Stage) -> None:
        coordinator = await stage.coordinator()
        leader, _ = others(coordinator)
        await stage.make("t", [leader, *others(leader)])
        where = TopicPartition("t", 0)
        with Producer(stage.port(coordinator), ID) as producer:
            await do(producer.init)
            await do(producer.add, where)
            with stage.speaks_for(producer, leader) as writer:
                assert (await do(writer.produce, "t", b"a", b"b")).base_offset == 0
            await stage.cluster.stop_broker(leader)
            await stage.until(lambda: stage.leader(where) not in (None, leader))
            heir = stage.leader(where)
            assert heir is not None
            with stage.speaks_for(producer, heir) as writer:
                again = await do(writer.produce, "t", b"a", b"b", sequence=0)
                assert (again.error_code, again.base_offset) == (0, 0)
                assert (await do(writer.produce, "t", b"c", sequence=2)).base_offset == 2
            assert await do(producer.end, commit=True) is Errors.NONE
            await do(producer.wait_for_state, "CompleteCommit")
            assert await stage.stable_end(heir, "t") == 4

    play(scene)
