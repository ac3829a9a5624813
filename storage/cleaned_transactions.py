"""Following transactions through a log while it is cleaned.

Batches are shown in offset order. Data of an aborted transaction may go at once. A marker may go
only when no data of its transaction was met before it in this pass: then the data went in an
earlier one. An abort marker that stays because data was met (even data that goes in this very
pass, because a reader may hold it) keeps its entry in the segment's index of aborted
transactions.
"""

from collections.abc import Iterable

from odradek.protocol.records import (
    BatchHeader,
    ReadableBuffer,
    iter_records,
    read_end_txn_marker,
)
from odradek.storage.aborted import AbortedTxn


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        """`aborted`: all that have data or their marker in the range that will be shown."""
        # The next to begin is last, where it can be popped.
        self._to_come = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        self._has_data: set[int] = set()

    def is_aborted_data(self, header: BatchHeader) -> bool:
        """Take note of a data batch; whether its transaction was aborted."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        self._has_data.add(producer_id)
        transaction = self._aborted.get(producer_id)
        if transaction is not None and transaction.last_offset < header.base_offset:
            # Its marker is gone already, so what follows is another transaction.
            del self._aborted[producer_id]
            transaction = None
        return transaction is not None

    def is_dispensable_marker(
        self, header: BatchHeader, batch: ReadableBuffer
    ) -> tuple[bool, AbortedTxn | None]:
        """Take note of a control batch; whether nothing of its transaction was met, and the
        index entry that must accompany it if it stays."""
        self._begin_up_to(header.last_offset)
        if header.count == 0:
            return True, None
        marker = read_end_txn_marker(next(iter_records(batch, 0, header)))
        if marker is None:
            return False, None  # of a kind that is not ours to judge
        transaction = self._aborted.pop(header.producer_id, None)
        had_data = header.producer_id in self._has_data
        self._has_data.discard(header.producer_id)
        return not had_data, transaction if had_data and not marker.commit else None

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            transaction = self._to_come.pop()
            held = self._aborted.get(transaction.producer_id)
            # Of two that the log knows for one producer the earlier is still to be ended.
            if held is None or held.last_offset < transaction.first_offset:
                self._aborted[transaction.producer_id] = transaction
