"""ListOffsets asked of a leader that does not know yet what was committed before it."""

import pytest
from odradek.broker.context import RequestContext
from odradek.broker.handlers.offsets import EARLIEST, LATEST, OffsetsHandler
from odradek.broker.network.peer import Address, Peer
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors
from odradek.protocol.frames import RequestHeader
from odradek.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.registry import api
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition

from tests.unit.replication.conftest import batch, new_partition

LIST_OFFSETS = 2


class NewLeader:
    """With one record of the epoch before, which its follower may or may not have."""

    def __init__(self) -> None:
        self.partition = new_partition(ManualClock())
        self.lead(0)
        self.partition.append(batch(), acks=-1, produce_version=9)
        self.lead(1)
        self._handler = OffsetsHandler(
            replicas=self  # type: ignore[arg-type]  # of which it uses one method
        )

    def lead(self, epoch: int) -> None:
        self.partition.become_leader(
            epoch=epoch, partition_epoch=epoch, replicas=(1, 2), isr=(1, 2)
        )

    def hosted(self, _: TopicPartition) -> Partition:
        return self.partition

    def ask(self, timestamp: int, version: int = 5) -> ListOffsetsPartitionResponse:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[wanted])]
        )
        here = Address("here", 9092)
        header = RequestHeader(api(LIST_OFFSETS), version, 0, "client", 0)
        context = RequestContext(header, Peer("PLAINTEXT", here, here), 0.0)
        return self._handler.list_offsets(request, context).topics[0].partitions[0]


@pytest.mark.parametrize(
    ("version", "error"), [(4, Errors.LEADER_NOT_AVAILABLE), (5, Errors.OFFSET_NOT_AVAILABLE)]
)
def test_a_new_leader_names_no_end_that_could_go_back(version: int, error: Errors):
    leader = NewLeader()
    for timestamp in (LATEST, 0):
        answer = leader.ask(timestamp, version)
        assert (answer.error_code, answer.offset) == (error, -1)


def test_the_beginning_is_known_at_once_and_the_end_with_the_followers_word():
    leader = NewLeader()
    assert (leader.ask(EARLIEST).error_code, leader.ask(EARLIEST).offset) == (0, 0)
    leader.partition.note_follower_fetch(2, fetch_offset=1, log_start_offset=0, broker_epoch=-1)
    assert (leader.ask(LATEST).error_code, leader.ask(LATEST).offset) == (0, 1)
