"""Which fetcher copies what."""

import asyncio

import pytest
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.replication.fetch_plan import FetchLimits, Sender
from odradek.replication.fetcher import Fetcher
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


def test_a_broker_that_is_about_to_stop_follows_on_but_nothing_new():
    async def scene() -> None:
        asked: set[int] = set()

        async def connect(broker_id: int):
            asked.add(broker_id)
            raise KafkaError(Errors.NETWORK_EXCEPTION, "nobody is there")

        async def told(partition: Partition, leader_id: int, epoch: int) -> set[int]:
            asked.clear()
            partition.become_follower(
                leader_id=leader_id, epoch=epoch, partition_epoch=epoch, replicas=(1, 2, 3, 4)
            )
            fetchers.role_changed(partition)
            await asyncio.sleep(0.05)
            return set(asked)

        fetchers = Fetchers(
            sender=lambda: Sender(1, 1),
            connect=connect,
            limits=FetchLimits(),
            backoff_seconds=0.001,
        )
        followed, led = (new_partition(ManualClock()) for _ in range(2))
        led.where = TopicPartition("led", 0)
        assert await told(followed, 2, epoch=0) == {2}
        fetchers.follow_nothing_new()
        assert await told(followed, 2, epoch=0) == {2}, "it still counts as in sync"
        assert await told(led, 3, epoch=1) == {2}, "it led this, and copies nothing of it"
        assert await told(followed, 2, epoch=1) == set(), "it was taken out"
        await fetchers.close()

    asyncio.run(scene())


class Held:
    """A throttle under which every partition waits."""

    def holds(self, *_: object) -> bool:
        return True


@pytest.mark.parametrize("turns", range(5))
def test_a_fetcher_that_is_closed_ends_even_if_there_is_news_at_that_moment(turns: int):
    async def scene() -> None:
        async def connect(_: int):
            raise AssertionError("nobody is asked for what is held up")

        fetcher = Fetcher(
            2,
            sender=lambda: Sender(1, 1),
            connect=connect,
            limits=FetchLimits(),
            backoff_seconds=60,
            throttle=Held(),  # type: ignore[arg-type]  # of which it uses one method
        )
        partition = new_partition(ManualClock())
        fetcher.follow(partition, epoch=0)
        for _ in range(5):
            await asyncio.sleep(0)
        # The news reach the fetcher's task in some turn after this one.
        fetcher.follow(partition, epoch=1)
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await fetcher.close()

    asyncio.run(scene())
