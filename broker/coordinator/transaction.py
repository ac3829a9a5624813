"""What a coordinator knows of one transactional id, and how each event changes it.

A value: an event makes the next one, which is written to the log and replaces it. Nothing here
asks whether an event may happen; `txn_decisions` does.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from odradek.broker.coordinator.txn_states import COMPLETED, PREPARED, TxnState
from odradek.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.protocol.types import TopicPartition

NO_TIME: Final = -1
NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()

# Epochs are 16 bits wide. The last one is kept for the coordinator, which must be able to shut out
# whoever holds the one before it; with that one reached, a producer gets a new id.
LAST_EPOCH: Final = (1 << 15) - 1


@dataclass(frozen=True, slots=True)
class Transaction:
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TxnState = TxnState.EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    last_epoch: int = NO_PRODUCER_EPOCH
    """The epoch that a producer held when it asked for this one: its question may come again."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before this one, when its epochs were used up."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id that takes over with the end of this transaction, for the same reason."""
    bumps: bool = False
    """Whether its last end gave the producer a new epoch (KIP-890, transaction.version 2)."""

    @property
    def successor(self) -> tuple[int, int]:
        """The producer id and epoch of the next transaction, once this one has its end."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.epoch

    @property
    def has_used_up_epochs(self) -> bool:
        return is_used_up(self.epoch)

    def has_timed_out(self, now_ms: int) -> bool:
        return self.state is TxnState.ONGOING and now_ms >= self.started_ms + self.timeout_ms

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state.is_idle and now_ms >= self.updated_ms + expiration_ms

    # What events make of it -----------------------------------------------------------------

    def with_next_epoch(self, timeout_ms: int, *, continues: bool, now_ms: int) -> "Transaction":
        """A producer begins anew; one that `continues` may ask the same again."""
        return Transaction(
            producer_id=self.producer_id,
            epoch=self.epoch + 1,
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
            last_epoch=self.epoch if continues else NO_PRODUCER_EPOCH,
            previous_producer_id=self.previous_producer_id,
        )

    def with_new_id(
        self, producer_id: int, timeout_ms: int, *, continues: bool, now_ms: int
    ) -> "Transaction":
        return Transaction(
            producer_id=producer_id,
            epoch=0,
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
            last_epoch=self.epoch if continues else NO_PRODUCER_EPOCH,
            previous_producer_id=self.producer_id,
        )

    def given_again(self, timeout_ms: int, now_ms: int) -> "Transaction":
        """The epoch that was asked for a second time."""
        return replace(
            self,
            timeout_ms=timeout_ms,
            state=TxnState.EMPTY,
            partitions=NO_PARTITIONS,
            started_ms=NO_TIME,
            updated_ms=now_ms,
        )

    def with_partitions(self, added: Iterable[TopicPartition], now_ms: int) -> "Transaction":
        is_open = self.state is TxnState.ONGOING
        return replace(
            self,
            state=TxnState.ONGOING,
            partitions=self.partitions.union(added) if is_open else frozenset(added),
            started_ms=self.started_ms if is_open else now_ms,
            updated_ms=now_ms,
        )

    def prepared(self, *, commit: bool, now_ms: int) -> "Transaction":
        return replace(self, state=PREPARED[commit], updated_ms=now_ms)

    def prepared_with_bump(self, *, commit: bool, new_id: int | None, now_ms: int) -> "Transaction":
        """The end in the producer's next epoch, so that nothing late can be taken for part of the
        next transaction. Also the abort of one that was not begun."""
        is_open = self.state is TxnState.ONGOING
        return replace(
            self,
            state=PREPARED[commit],
            partitions=self.partitions if is_open else NO_PARTITIONS,
            epoch=self.epoch + 1,
            last_epoch=self.epoch,
            next_producer_id=NO_PRODUCER_ID if new_id is None else new_id,
            bumps=True,
            started_ms=self.started_ms if is_open else now_ms,
            updated_ms=now_ms,
        )

    def fenced(self, now_ms: int) -> "Transaction":
        """Its abort, in an epoch that its producer does not have."""
        return replace(
            self,
            epoch=self.epoch + 1,
            last_epoch=NO_PRODUCER_EPOCH,
            state=TxnState.PREPARE_ABORT,
            updated_ms=now_ms,
        )

    def completed(self, now_ms: int) -> "Transaction":
        producer_id, epoch = self.successor
        is_same = producer_id == self.producer_id
        return replace(
            self,
            producer_id=producer_id,
            epoch=epoch,
            previous_producer_id=self.previous_producer_id if is_same else self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            state=COMPLETED[self.state],
            partitions=NO_PARTITIONS,
            updated_ms=now_ms,
        )


def is_used_up(epoch: int) -> bool:
    return epoch >= LAST_EPOCH - 1


def unborn(producer_id: int, timeout_ms: int) -> Transaction:
    """What the first epoch of a new id follows on; never written."""
    return Transaction(producer_id, NO_PRODUCER_EPOCH, timeout_ms)
