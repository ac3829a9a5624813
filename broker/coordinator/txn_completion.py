"""A transaction whose end is decided and written down, on its way to its partitions.

Each partition gets a marker, in any order and as often as it takes; when the last one has it, the
coordinator notes that the transaction is complete. A completion belongs to one term of one
coordinator: when that is over it is dropped, and answers that come later find it so.
"""

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.coordinator.transaction import Transaction
from odradek.broker.coordinator.txn_states import TxnState
from odradek.protocol.types import TopicPartition


class Marker(NamedTuple):
    """What a partition is told."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


class Completion:
    __slots__ = ("_on_all_written", "is_dropped", "marker", "transactional_id", "unwritten")

    def __init__(
        self,
        transactional_id: str,
        transaction: Transaction,
        coordinator_epoch: int,
        on_all_written: "Callable[[Completion], None]",
    ) -> None:
        self.transactional_id = transactional_id
        self.marker = Marker(
            transaction.producer_id,
            transaction.epoch,
            transaction.state is TxnState.PREPARE_COMMIT,
            coordinator_epoch,
        )
        self.unwritten = set(transaction.partitions)
        self.is_dropped = False
        self._on_all_written = on_all_written

    def written(self, where: TopicPartition) -> None:
        """The partition has its marker, or is no more. Told of the last one, it is all done."""
        if self.is_dropped or where not in self.unwritten:
            return
        self.unwritten.discard(where)
        self.look()

    def look(self) -> None:
        """See whether anything is left; asked once more by whoever begins."""
        if not self.unwritten and not self.is_dropped:
            self.is_dropped = True
            self._on_all_written(self)

    def drop(self) -> None:
        """Nobody waits for this any more."""
        self.is_dropped = True
