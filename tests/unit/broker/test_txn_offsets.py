"""TxnOffsetCommit: what is checked when the coordinator of the transaction has answered."""

import asyncio

from odradek.broker.context import RequestContext
from odradek.broker.handlers.transactions_offsets import TxnOffsetsHandler
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.network.peer import Address, Peer
from odradek.broker.txn_verification import Question, Then, TxnVerifier
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors
from odradek.protocol.frames import RequestHeader
from odradek.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.registry import api
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition

from tests.unit.broker.coordinator.story import World
from tests.unit.broker.test_metadata_cache import ONE, update
from tests.unit.replication.conftest import new_partition

TXN_OFFSET_COMMIT = 28
VERSION = 3


class Stage:
    """A group on a shard in memory, and a transaction coordinator that answers by hand."""

    def __init__(self) -> None:
        self.group = World()
        self.group.tell("a joins; 3 s; a syncs a=A")
        self.partition = new_partition(ManualClock())
        self.partition.become_leader(epoch=0, partition_epoch=0, replicas=(1,), isr=(1,))
        self.questions: list[tuple[Question, Then]] = []
        verifier = TxnVerifier(
            lambda question, then: self.questions.append((question, then)),
            is_enabled=lambda: True,
        )
        metadata = MetadataCache()
        metadata.apply(update("t", ONE, {0: 1}))
        self._handler = TxnOffsetsHandler(
            groups=self,  # type: ignore[arg-type]  # of which it uses one method
            group_partitions=lambda: 1,
            verifier=verifier,
            replicas=self,  # type: ignore[arg-type]  # likewise
            metadata=metadata,
            clock=ManualClock(),
            loop=asyncio.get_running_loop(),
        )

    def members_shard(self, _: str):
        return self.group.state

    def hosted(self, _: TopicPartition) -> Partition:
        return self.partition

    def commit(self, generation: int) -> "asyncio.Future[TxnOffsetCommitResponse]":
        row = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id="id",
            group_id="g",
            producer_id=7,
            producer_epoch=0,
            generation_id=generation,
            member_id=self.group.ids["a"],
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[row])],
        )
        header = RequestHeader(api(TXN_OFFSET_COMMIT), VERSION, 0, "a", 0)
        address = Address("127.0.0.1", 9092)
        context = RequestContext(header, Peer("PLAINTEXT", address, address), 0.0)
        answer = self._handler.commit(request, context)
        assert isinstance(answer, asyncio.Future)
        return answer

    def answer(self) -> None:
        _, then = self.questions.pop()
        then(Errors.NONE)


async def outcome(answer: "asyncio.Future[TxnOffsetCommitResponse]") -> int:
    return (await answer).topics[0].partitions[0].error_code


def test_a_member_commits_in_its_transaction():
    async def scene() -> None:
        stage = Stage()
        answer = stage.commit(generation=1)
        stage.answer()
        assert await outcome(answer) == Errors.NONE

    asyncio.run(scene())


def test_the_generation_is_looked_at_when_the_coordinator_has_answered():
    """KAFKA-15784: meanwhile the group may have gone on."""

    async def scene() -> None:
        stage = Stage()
        answer = stage.commit(generation=1)
        assert stage.group.tell("b joins; a joins; a syncs").startswith("Preparing")
        assert stage.group.group is not None
        assert stage.group.group.generation == 2
        stage.answer()
        assert await outcome(answer) == Errors.ILLEGAL_GENERATION

    asyncio.run(scene())


def test_a_member_that_left_while_the_coordinator_was_asked_commits_nothing():
    async def scene() -> None:
        stage = Stage()
        answer = stage.commit(generation=1)
        stage.group.tell("a leaves")
        stage.answer()
        assert await outcome(answer) == Errors.UNKNOWN_MEMBER_ID

    asyncio.run(scene())
