"""Produce with acks=all waits for its replicas, through whatever happens to its leader."""

import asyncio

from odradek.broker.handlers.produce import PendingProduce
from odradek.broker.later import Later
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from odradek.replication.partition import Partition

from tests.unit.replication.conftest import batch, new_partition


def lead(partition: Partition, epoch: int) -> None:
    partition.become_leader(epoch=epoch, partition_epoch=epoch, replicas=(1, 2), isr=(1, 2))


def follower_has_it(partition: Partition) -> None:
    partition.note_follower_fetch(2, fetch_offset=1, log_start_offset=0, broker_epoch=-1)


def appended(partition: Partition) -> tuple[PartitionProduceResponse, PendingProduce]:
    lead(partition, 0)
    partition.append(batch(), acks=-1, produce_version=9)
    pending = PendingProduce(asyncio.get_running_loop())
    result = PartitionProduceResponse(index=0, error_code=0, base_offset=0)
    pending.add(partition, 1, result)
    return result, pending


def begun(
    partition: Partition, timeout_ms: int = 30_000
) -> tuple[PartitionProduceResponse, Later[ProduceResponse]]:
    result, pending = appended(partition)
    return result, pending.begin(ProduceResponse(responses=[]), timeout_ms)


def test_a_leader_that_leads_on_in_a_new_epoch_still_answers_for_what_it_has():
    async def scene() -> None:
        partition = new_partition(ManualClock())
        result, answer = begun(partition)
        lead(partition, 1)
        assert not answer.is_there
        follower_has_it(partition)
        assert answer.is_there
        assert result.error_code == Errors.NONE

    asyncio.run(scene())


def test_a_leader_that_was_deposed_in_between_cannot_answer_for_anything():
    async def scene() -> None:
        partition = new_partition(ManualClock())
        result, answer = begun(partition)
        partition.become_follower(leader_id=2, epoch=1, partition_epoch=1, replicas=(1, 2))
        lead(partition, 2)
        assert answer.is_there
        assert result.error_code == Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scene())


def test_records_that_no_follower_fetches_in_time_are_written_and_told_as_late():
    async def scene() -> None:
        partition = new_partition(ManualClock())
        result, answer = begun(partition, timeout_ms=0)
        await answer
        assert (result.error_code, result.base_offset) == (Errors.REQUEST_TIMED_OUT, -1)
        assert partition.log.log_end_offset == 1

    asyncio.run(scene())


def test_replicas_that_leave_after_the_append_are_told_though_the_records_are_written():
    async def scene() -> None:
        partition = new_partition(ManualClock(), **{"min.insync.replicas": "2"})
        result, pending = appended(partition)
        follower_has_it(partition)
        partition.become_leader(epoch=0, partition_epoch=1, replicas=(1, 2), isr=(1,))
        assert pending.begin(ProduceResponse(responses=[]), 30_000).is_there
        assert result.error_code == Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert partition.log.log_end_offset == 1

    asyncio.run(scene())


def test_records_that_were_committed_before_the_wait_began_are_not_waited_for():
    # As those of a transaction are, which are appended when they are verified, in one turn of the
    # loop, and waited for in the next.
    async def scene() -> None:
        partition = new_partition(ManualClock())
        result, pending = appended(partition)
        follower_has_it(partition)
        assert pending.begin(ProduceResponse(responses=[]), 30_000).is_there
        assert (result.error_code, result.base_offset) == (Errors.NONE, 0)

    asyncio.run(scene())
