"""A process that copies a partition exactly once: consume, transform, produce.

Copies and the position in the source are committed in one transaction, so the next holder of the
name goes on where the last transaction that counts has ended.
"""

from typing import Final

from odradek.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from odradek.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.types import TopicPartition

from tests.sim.batches import Batch
from tests.sim.clients import LOST, Consumer, Marks, Sent
from tests.sim.ledger import Attempt, Ledger, Wish
from tests.sim.transactions import GROUP_KEY, TRANSACTION_KEY, Name, Transactional
from tests.sim.witness import Witness
from tests.sim.world import World

FETCH_OFFSETS_VERSION: Final = 7
MOST_BATCHES: Final = 3


class Copier(Transactional):
    """The group has the name of the transactional id."""

    def __init__(
        self,
        world: World,
        witness: Witness,
        number: int,
        *,
        name: Name,
        source: TopicPartition,
        partitions: list[TopicPartition],
        marks: Marks,
        ledger: Ledger,
    ) -> None:
        super().__init__(
            world, witness, number, name=name, partitions=partitions, marks=marks, ledger=ledger
        )
        self._reader = Consumer(world, witness, number, where=source, reads_committed=True)
        self._last: Attempt | None = None

    async def write(self, attempt: Attempt) -> None:
        reader = self._reader
        if self._last is None or self._last.wish is not Wish.COMMITTED:
            reader.position = await self.persist(self._committed_position)
        self._last = attempt
        found = await self.persist(self._read)
        if len(found) > MOST_BATCHES:
            found = found[:MOST_BATCHES]
            reader.position = found[-1].last + 1
        rows: dict[TopicPartition, list[Sent]] = {}
        places = [self.random.choice(self._partitions) for _ in found]
        await self.join(dict.fromkeys(places))
        for where, batch in zip(places, found, strict=True):
            attempt.sources.append(batch.mark)
            rows.setdefault(where, []).append(self.batch(attempt, where))
        await self.send_all(rows.values())
        await self._commit_position(reader.position)

    async def take_name(self) -> None:
        self._last = None
        await super().take_name()

    async def _read(self) -> list[Batch]:
        try:
            return await self._reader.read()
        except LOST:
            self._reader.forget(self._reader.where)
            raise

    # The position in the source -------------------------------------------------------------

    async def _committed_position(self) -> int:
        source = self._reader.where
        topic = OffsetFetchRequestTopic(name=source.topic, partition_indexes=[source.partition])
        request = OffsetFetchRequest(
            group_id=self.name.transactional_id, topics=[topic], require_stable=True
        )
        answer = await self.ask(GROUP_KEY, request, OffsetFetchResponse, FETCH_OFFSETS_VERSION)
        position = answer.topics[0].partitions[0].committed_offset
        self.world.note(f"{self.life} goes on at {position}")
        return max(0, position)

    async def _commit_position(self, position: int) -> None:
        assert self._identity is not None
        if not self.name.versions.bumps:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.name.transactional_id,
                producer_id=self._identity.producer_id,
                producer_epoch=self._identity.epoch,
                group_id=self.name.transactional_id,
            )
            await self.persist(
                lambda: self.ask(TRANSACTION_KEY, adding, AddOffsetsToTxnResponse, 3)
            )
        source = self._reader.where
        row = TxnOffsetCommitRequestPartition(
            partition_index=source.partition, committed_offset=position, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name.transactional_id,
            group_id=self.name.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=source.topic, partitions=[row])],
        )
        version = self.name.versions.commit_offsets
        await self.persist(lambda: self.ask(GROUP_KEY, request, TxnOffsetCommitResponse, version))
