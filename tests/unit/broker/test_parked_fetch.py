"""A follower's fetch that waits for records, and a consumer's with limits beyond reason."""

import asyncio
from random import Random

import pytest
from odradek.broker.context import RequestContext
from odradek.broker.fetch_sessions import FetchSessions
from odradek.broker.handlers.fetch import FetchHandler
from odradek.broker.later import Later
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.network.peer import Address, Peer
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors
from odradek.protocol.frames import RequestHeader
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.registry import api
from odradek.protocol.types import TopicPartition
from odradek.replication.isr import FollowerProgress
from odradek.replication.leader import Leader
from odradek.replication.partition import Partition

from tests.unit.replication.conftest import batch, new_partition

FOLLOWER = 2
FETCH_KEY = 1
VERSION = 12


class OneLeader:
    """Of one partition, by whatever number it is asked for, whose one follower is in sync."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.partition = new_partition(self.clock)
        self.partition.become_leader(epoch=0, partition_epoch=0, replicas=(1, 2), isr=(1, 2))
        self._handler = FetchHandler(
            replicas=self,  # type: ignore[arg-type]  # of which it uses one method
            metadata=MetadataCache(),
            sessions=FetchSessions(
                max_slots=0, eviction_seconds=1, clock=self.clock, random=Random(1)
            ),
            max_bytes=1 << 20,
            loop=asyncio.get_running_loop(),
        )

    def hosted(self, _: TopicPartition) -> Partition:
        return self.partition

    find = hosted

    @property
    def follower(self) -> FollowerProgress:
        assert isinstance(self.partition.role, Leader)
        return self.partition.role.followers[FOLLOWER]

    def fetch(self, offset: int) -> Later[FetchResponse]:
        waiting = self.ask(self.request(offset, replica_id=FOLLOWER, max_wait_ms=30_000))
        assert isinstance(waiting, Later)
        return waiting

    def request(
        self, offset: int, *, partition_max_bytes: int = 1000, partitions: int = 1, **fields: int
    ) -> FetchRequest:
        wanted = [
            FetchPartition(
                partition=index,
                current_leader_epoch=0,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
            )
            for index in range(partitions)
        ]
        return FetchRequest(
            min_bytes=1,
            session_epoch=-1,
            topics=[FetchTopic(topic="t", partitions=wanted)],
            **fields,
        )

    def ask(self, request: FetchRequest) -> FetchResponse | Later[FetchResponse]:
        header = RequestHeader(api(FETCH_KEY), VERSION, 0, "broker-2", 0)
        address = Address("127.0.0.1", 9092)
        context = RequestContext(header, Peer("PLAINTEXT", address, address), 0.0)
        return self._handler.fetch(request, context)

    def read(self, **limits: int) -> list[int]:
        """How many bytes a consumer is sent of each partition, though it does not wait."""
        answer = self.ask(self.request(0, replica_id=-1, max_wait_ms=0, **limits))
        assert isinstance(answer, FetchResponse)
        return [len(data.records or b"") for data in answer.responses[0].partitions]


def test_what_a_follower_has_is_noted_when_it_asks_and_not_when_it_is_answered():
    async def scene() -> None:
        one = OneLeader()
        waiting = one.fetch(0)
        asked_at = one.clock.monotonic()
        assert one.follower.caught_up_at == asked_at
        one.clock.advance(5000)
        one.partition.append(batch(3), acks=-1, produce_version=9)
        answer = await waiting
        data = answer.responses[0].partitions[0]
        assert (len(data.records or b"") > 0, data.high_watermark) == (True, 0)
        # That it is sent records now is no sign of what it has.
        assert (one.follower.last_fetch_at, one.follower.last_fetch_end) == (asked_at, 0)
        assert one.follower.caught_up_at == asked_at

    asyncio.run(scene())


def test_the_next_fetch_moves_the_high_watermark():
    async def scene() -> None:
        one = OneLeader()
        waiting = one.fetch(0)
        one.partition.append(batch(3), acks=-1, produce_version=9)
        await waiting
        assert one.partition.log.high_watermark == 0
        one.fetch(3)
        assert one.partition.log.high_watermark == 3

    asyncio.run(scene())


def test_records_that_are_appended_because_of_a_fetch_are_its_answer():
    # As the marker of a transaction is, whose end this fetch commits.
    async def scene() -> None:
        one = OneLeader()
        one.partition.append(batch(3), acks=-1, produce_version=9)
        one.partition.hw_waiters.park(
            3, lambda: one.partition.append(batch(1), acks=-1, produce_version=9)
        )
        answer = one.fetch(3)
        assert answer.is_there
        assert len(answer.result.responses[0].partitions[0].records or b"") > 0

    asyncio.run(scene())


def test_a_parked_fetch_of_a_deposed_leaders_epoch_is_fenced():
    async def scene() -> None:
        one = OneLeader()
        waiting = one.fetch(0)
        one.partition.become_leader(epoch=1, partition_epoch=1, replicas=(1, 2), isr=(1, 2))
        answer = await waiting
        assert answer.responses[0].partitions[0].error_code == Errors.FENCED_LEADER_EPOCH
        # What it said in another epoch says nothing in this one.
        assert one.follower.log_end_offset == -1

    asyncio.run(scene())


# Limits -------------------------------------------------------------------------------------


def committed_batch(one: OneLeader) -> int:
    """Gives its size."""
    records = batch(3)
    one.partition.append(records, acks=-1, produce_version=9)
    one.fetch(3)
    return len(records)


@pytest.mark.parametrize("limit", [-(2**31), -1, 0, 2**31 - 1])
def test_a_limit_below_zero_or_beyond_reason_still_gets_one_batch(limit: int):
    async def scene() -> None:
        one = OneLeader()
        size = committed_batch(one)
        assert one.read(max_bytes=limit) == [size]
        assert one.read(max_bytes=1 << 20, partition_max_bytes=limit) == [size]

    asyncio.run(scene())


def test_what_a_fetch_of_a_hundred_thousand_partitions_reads_is_bounded():
    async def scene() -> None:
        one = OneLeader()
        size = committed_batch(one)
        sizes = one.read(max_bytes=10 * size, partitions=100_000)
        assert (len(sizes), sum(sizes)) == (100_000, 10 * size)

    asyncio.run(scene())
