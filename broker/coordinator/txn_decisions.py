"""What a transaction coordinator answers, decided without any effect.

Each function looks at what is known of a transactional id and at what is asked. It answers with
the next `Transaction`, which is to be written before anyone is told; with Errors.NONE when there
is nothing to do; or with the error that the client gets. `is_settled` says whether the last word
on the id is committed: while it is not, a client is told to wait and ask again.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.broker.coordinator.transaction import Transaction, is_used_up, unborn
from odradek.broker.coordinator.txn_states import TxnState
from odradek.protocol.errors import Errors
from odradek.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.protocol.types import TopicPartition

Decision = Transaction | Errors


class Known(NamedTuple):
    """A transactional id as its coordinator has it."""

    transaction: Transaction
    """The last word."""
    committed: Transaction | None
    """The last one that is committed."""

    @property
    def is_settled(self) -> bool:
        return self.committed is self.transaction

    @property
    def is_growing(self) -> bool:
        """Whether an open transaction is just getting more partitions."""
        before, now = self.committed, self.transaction
        return before is not None and before.state is now.state is TxnState.ONGOING


class Holder(NamedTuple):
    """Who says that it holds a transactional id."""

    producer_id: int
    epoch: int


NOBODY = Holder(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


# InitProducerId -----------------------------------------------------------------------------


def needs_producer_id(known: Known | None) -> bool:
    """Whether `init` may need an id that nobody had."""
    if known is None:
        return True
    return known.transaction.state.is_idle and known.transaction.has_used_up_epochs


def init(
    known: Known | None, holder: Holder, timeout_ms: int, now_ms: int, new_id: int | None
) -> Decision:
    """Take over a transactional id; `new_id` is there when `needs_producer_id` said so.

    A holder that names its id and epoch goes on after a failure: it must be the last one who was
    given them. Anyone else takes over from whoever holds the id now.

    An open transaction is aborted first; that is what the answer does then, and the client is to
    ask again.
    """
    if known is None:
        assert new_id is not None
        return unborn(new_id, timeout_ms).with_next_epoch(
            timeout_ms, continues=False, now_ms=now_ms
        )
    transaction = known.transaction
    if not known.is_settled:
        return Errors.CONCURRENT_TRANSACTIONS
    if holder != NOBODY and not _may_go_on(transaction, holder):
        return Errors.PRODUCER_FENCED
    if transaction.state.is_prepared:
        return Errors.CONCURRENT_TRANSACTIONS
    if transaction.state is TxnState.ONGOING:
        return transaction.fenced(now_ms)
    return _renewed(transaction, holder, timeout_ms, now_ms, new_id)


def _may_go_on(transaction: Transaction, holder: Holder) -> bool:
    if holder.producer_id == transaction.producer_id:
        return True
    # It may not have heard of the new id it was given when its epochs were used up.
    return holder.producer_id == transaction.previous_producer_id and is_used_up(holder.epoch)


def _renewed(
    transaction: Transaction, holder: Holder, timeout_ms: int, now_ms: int, new_id: int | None
) -> Decision:
    continues = holder != NOBODY
    is_current = not continues or holder.epoch == transaction.epoch
    if transaction.has_used_up_epochs and is_current:
        assert new_id is not None
        return transaction.with_new_id(new_id, timeout_ms, continues=continues, now_ms=now_ms)
    if is_current:
        return transaction.with_next_epoch(timeout_ms, continues=continues, now_ms=now_ms)
    if holder.epoch == transaction.last_epoch:
        return transaction.given_again(timeout_ms, now_ms)
    return Errors.PRODUCER_FENCED


# Partitions ---------------------------------------------------------------------------------


def add_partitions(
    known: Known | None, holder: Holder, partitions: Iterable[TopicPartition], now_ms: int
) -> Decision:
    problem = _problem(known, holder)
    if problem is not Errors.NONE:
        return problem
    assert known is not None
    transaction, added = known.transaction, frozenset(partitions)
    if transaction.state is TxnState.ONGOING and added <= transaction.partitions:
        return Errors.NONE
    return transaction.with_partitions(added, now_ms)


def verify_partitions(
    known: Known | None, holder: Holder, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, Errors]:
    """Which of these belong to the open transaction."""
    problem = _problem(known, holder)
    if problem is Errors.CONCURRENT_TRANSACTIONS and known is not None and known.is_growing:
        # Those that were in it before stay in it; a client adds some while it uses others.
        assert known.committed is not None
        settled = known.committed.partitions
        return {where: Errors.NONE if where in settled else problem for where in partitions}
    if problem is not Errors.NONE:
        return dict.fromkeys(partitions, problem)
    assert known is not None
    transaction = known.transaction
    present = transaction.partitions if transaction.state is TxnState.ONGOING else frozenset()
    return {
        where: Errors.NONE if where in present else Errors.TRANSACTION_ABORTABLE
        for where in partitions
    }


def _problem(known: Known | None, holder: Holder) -> Errors:
    """Why this holder cannot use its transaction now, NONE if it can."""
    if known is None or holder.producer_id != known.transaction.producer_id:
        return Errors.INVALID_PRODUCER_ID_MAPPING
    if holder.epoch != known.transaction.epoch:
        return Errors.PRODUCER_FENCED
    if not known.is_settled or known.transaction.state.is_prepared:
        return Errors.CONCURRENT_TRANSACTIONS
    return Errors.NONE


# The end ------------------------------------------------------------------------------------


def end(known: Known | None, holder: Holder, *, commit: bool, now_ms: int) -> Decision:
    """Commit or abort. Asked again, the same end is fine and the other one is not."""
    if known is None or holder.producer_id != known.transaction.producer_id:
        return Errors.INVALID_PRODUCER_ID_MAPPING
    transaction = known.transaction
    if holder.epoch != transaction.epoch:
        return Errors.PRODUCER_FENCED
    if not known.is_settled:
        return Errors.CONCURRENT_TRANSACTIONS
    state = transaction.state
    if state is TxnState.ONGOING:
        return transaction.prepared(commit=commit, now_ms=now_ms)
    if state is (TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT):
        return Errors.CONCURRENT_TRANSACTIONS
    if state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT):
        return Errors.NONE
    return Errors.INVALID_TXN_STATE


def needs_producer_id_to_end(known: Known | None) -> bool:
    """Whether `end_with_bump` may need an id that nobody had."""
    return known is not None and known.transaction.has_used_up_epochs


def end_with_bump(
    known: Known | None, holder: Holder, *, commit: bool, now_ms: int, new_id: int | None
) -> Decision:
    """The same in the second version of transactions: with its end, a transaction's producer gets
    the next epoch. So a request that comes again is told from one of the next transaction, and
    what is late for one of them never touches another. A producer may abort what it has not begun,
    to get a new epoch."""
    if known is None:
        return Errors.INVALID_PRODUCER_ID_MAPPING
    transaction = known.transaction
    comes_again = known.is_settled and _has_ended(transaction, holder)
    if holder.producer_id != transaction.producer_id and not comes_again:
        return Errors.INVALID_PRODUCER_ID_MAPPING
    if holder.epoch != transaction.epoch and not comes_again:
        return Errors.PRODUCER_FENCED
    state = transaction.state
    if not known.is_settled or (state.is_prepared and not comes_again):
        return Errors.CONCURRENT_TRANSACTIONS
    if comes_again:
        return _end_again(state, commit)
    if commit and state is not TxnState.ONGOING:
        return Errors.INVALID_TXN_STATE
    return transaction.prepared_with_bump(commit=commit, new_id=new_id, now_ms=now_ms)


def _has_ended(transaction: Transaction, holder: Holder) -> bool:
    """Whether the holder's transaction has had its end: it has an older epoch, or id, by one."""
    if not transaction.bumps:
        return False
    if holder.producer_id == transaction.producer_id:
        return holder.epoch + 1 == transaction.epoch
    is_former = holder.producer_id == transaction.previous_producer_id
    return is_former and is_used_up(holder.epoch) and transaction.epoch == 0


def _end_again(state: TxnState, commit: bool) -> Errors:
    if state is (TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT):
        return Errors.CONCURRENT_TRANSACTIONS
    if state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT):
        return Errors.NONE
    # The next transaction is open already: what comes now comes too late.
    return Errors.PRODUCER_FENCED if state is TxnState.ONGOING else Errors.INVALID_TXN_STATE


def time_out(known: Known, now_ms: int) -> Decision:
    """Abort a transaction whose producer took too long, and shut the producer out."""
    if not known.is_settled or not known.transaction.has_timed_out(now_ms):
        return Errors.NONE
    return known.transaction.fenced(now_ms)
