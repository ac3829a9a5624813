"""Which fetcher copies what."""

import asyncio

from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.replication.fetch_plan import FetchLimits, Sender
from odradek.replication.fetchers import Fetchers
from odradek.replication.partition import Partition

from tests.unit.replication.conftest import new_partition


def test_a_leaders_partitions_are_spread_over_so_many_fetchers_as_are_wanted():
    async def scene() -> None:
        dialled: list[int] = []

        async def connect(broker_id: int):
            dialled.append(broker_id)
            raise KafkaError(Errors.NETWORK_EXCEPTION, "nobody is there")

        fetchers = Fetchers(
            sender=lambda: Sender(1, 1),
            connect=connect,
            limits=FetchLimits(),
            backoff_seconds=60,
            lanes=3,
        )
        clock = ManualClock()
        log = new_partition(clock).log
        for index in range(8):
            where = TopicPartition("t", index)
            partition = Partition(where, b"i" * 16, log=log, local_id=1, clock=clock)
            partition.become_follower(leader_id=2, epoch=0, partition_epoch=0, replicas=(2, 1))
            fetchers.role_changed(partition)
        await asyncio.sleep(0.01)
        assert dialled == [2, 2, 2]
        dialled.clear()
        fetchers.use_lanes(1)
        await asyncio.sleep(0.01)
        assert len(dialled) <= 1, "one fetcher owns all of them"
        fetchers.use_lanes(2)
        await asyncio.sleep(0.01)
        assert set(dialled) == {2}
        await fetchers.close()

    asyncio.run(scene())
