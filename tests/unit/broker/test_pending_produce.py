"""Produce with acks=all waits for its replicas, through whatever happens to its leader."""

import asyncio

from odradek.broker.handlers.produce import PendingProduce
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors
from odradek.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from odradek.replication.partition import Partition

from tests.unit.replication.conftest import batch, new_partition


def lead(partition: Partition, epoch: int) -> None:
    partition.become_leader(epoch=epoch, partition_epoch=epoch, replicas=(1, 2), isr=(1, 2))


def follower_has_it(partition: Partition) -> None:
    partition.note_follower_fetch(2, fetch_offset=1, log_start_offset=0, broker_epoch=-1)


def begun(partition: Partition) -> tuple[PartitionProduceResponse, asyncio.Future]:
    lead(partition, 0)
    partition.append(batch(), acks=-1, produce_version=9)
    pending = PendingProduce(asyncio.get_running_loop())
    result = PartitionProduceResponse(index=0, error_code=0, base_offset=0)
    pending.add(partition, 1, result)
    return result, pending.begin(ProduceResponse(responses=[]), 30_000)


def test_a_leader_that_leads_on_in_a_new_epoch_still_answers_for_what_it_has():
    async def scene() -> None:
        partition = new_partition(ManualClock())
        result, answer = begun(partition)
        lead(partition, 1)
        assert not answer.done()
        follower_has_it(partition)
        assert answer.done()
        assert result.error_code == Errors.NONE

    asyncio.run(scene())


def test_a_leader_that_was_deposed_in_between_cannot_answer_for_anything():
    async def scene() -> None:
        partition = new_partition(ManualClock())
        result, answer = begun(partition)
        partition.become_follower(leader_id=2, epoch=1, partition_epoch=1, replicas=(1, 2))
        lead(partition, 2)
        assert answer.done()
        assert result.error_code == Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scene())
