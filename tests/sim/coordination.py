"""What the logs of transaction coordinators say, held against the partitions they coordinate.

No marker ends anything before the decision to end it is committed, and all say what was decided. A
coordinator writes that a transaction is complete when all its partitions have their marker, safe
with all replicas that are in sync. So from the moment that this is committed, none of them has
anything open of that producer: only then may the next transaction begin.
"""

from collections.abc import Callable, Iterable

from odradek.broker.coordinator.placement import TRANSACTION_TOPIC
from odradek.broker.coordinator.transaction import Transaction
from odradek.broker.coordinator.txn_records import TransactionRecords
from odradek.broker.coordinator.txn_states import TxnState
from odradek.protocol.batch_header import ReadableBuffer, iter_headers
from odradek.protocol.records import iter_records
from odradek.protocol.types import TopicPartition

from tests.sim.batches import Batch, Kind

COMPLETE = (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)


class Coordination:
    def __init__(self, opened: Callable[[TopicPartition, int], Iterable[Batch]]) -> None:
        """`opened` gives what is committed in a partition of a producer's open transaction."""
        self._opened = opened
        self._codec = TransactionRecords()
        self._prepared: dict[str, Transaction] = {}
        # By producer id: how its transaction ends.
        self._decided: dict[int, Kind] = {}

    def follows(self, where: TopicPartition) -> bool:
        return where.topic == TRANSACTION_TOPIC

    def ending_problem(self, marker: Batch) -> str | None:
        """What is wrong with a marker that ended something."""
        decided = self._decided.get(marker.producer_id)
        return None if marker.kind is decided else f"{marker} is there, and {decided} was decided"

    def problems(self, data: ReadableBuffer) -> Iterable[str]:
        """What is wrong now that these batches of a coordinator's log are committed."""
        for position, header in iter_headers(data):
            for record in iter_records(data, position, header):
                decoded = self._codec.decode(record.key, record.value)
                if decoded is not None and decoded.value is not None:
                    yield from self._problems(decoded.transactional_id, decoded.value)

    def _problems(self, name: str, now: Transaction) -> Iterable[str]:
        prepared = self._prepared.pop(name, None)
        if now.state.is_prepared:
            self._prepared[name] = now
            is_commit = now.state is TxnState.PREPARE_COMMIT
            self._decided[now.producer_id] = Kind.COMMIT if is_commit else Kind.ABORT
        elif now.state is TxnState.ONGOING:
            self._decided.pop(now.producer_id, None)
        if now.state not in COMPLETE or prepared is None:
            return
        for where in sorted(prepared.partitions):
            for batch in self._opened(where, prepared.producer_id):
                yield f"{name} has {prepared} behind it, and {where} has no marker after {batch}"
