"""DeleteRecords waits for followers, as long as its client does."""

import asyncio

from odradek.broker.handlers.delete_records import DeleteRecordsHandler
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors
from odradek.protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition

from tests.unit.replication.conftest import batch, new_partition


class OnePartition:
    def __init__(self) -> None:
        self.partition = new_partition(ManualClock())
        self.partition.become_leader(epoch=0, partition_epoch=0, replicas=(1, 2), isr=(1, 2))
        self.partition.append(batch(5), acks=1, produce_version=9)
        self.follower_fetches(offset=5, log_start=0)

    def hosted(self, _: TopicPartition) -> Partition:
        return self.partition

    def follower_fetches(self, *, offset: int, log_start: int) -> None:
        self.partition.note_follower_fetch(
            2, fetch_offset=offset, log_start_offset=log_start, broker_epoch=-1
        )

    def delete(self, *, live: list[int], timeout_ms: int):
        handler = DeleteRecordsHandler(
            replicas=self,  # type: ignore[arg-type]  # of which it uses one method
            live_brokers=lambda: live,
            loop=asyncio.get_running_loop(),
        )
        wanted = DeleteRecordsPartition(partition_index=0, offset=3)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=timeout_ms
        )
        return handler.delete_records(request, None)  # type: ignore[arg-type]  # not looked at


def result_of(response) -> DeleteRecordsPartitionResult:
    return response.topics[0].partitions[0]


def test_the_answer_comes_when_the_follower_begins_there_too():
    async def scene() -> None:
        one = OnePartition()
        answer = asyncio.ensure_future(one.delete(live=[1, 2], timeout_ms=30_000))
        await asyncio.sleep(0)
        one.follower_fetches(offset=5, log_start=0)
        await asyncio.sleep(0)
        assert not answer.done()
        one.follower_fetches(offset=5, log_start=3)
        result = result_of(await answer)
        assert (result.error_code, result.low_watermark) == (Errors.NONE, 3)

    asyncio.run(scene())


def test_a_follower_that_does_not_live_is_not_waited_for():
    async def scene() -> None:
        result = result_of(OnePartition().delete(live=[1], timeout_ms=30_000))
        assert (result.error_code, result.low_watermark) == (Errors.NONE, 3)

    asyncio.run(scene())


def test_a_follower_that_is_late_makes_the_request_time_out():
    async def scene() -> None:
        result = result_of(await OnePartition().delete(live=[1, 2], timeout_ms=1))
        assert result.error_code == Errors.REQUEST_TIMED_OUT

    asyncio.run(scene())


def test_a_leader_that_is_deposed_meanwhile_says_so():
    async def scene() -> None:
        one = OnePartition()
        answer = asyncio.ensure_future(one.delete(live=[1, 2], timeout_ms=30_000))
        await asyncio.sleep(0)
        one.partition.become_follower(leader_id=2, epoch=1, partition_epoch=1, replicas=(1, 2))
        assert result_of(await answer).error_code == Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scene())
