"""The checkers of transactions, each shown the anomaly that it is there for."""

from odradek.broker.coordinator.transaction import Transaction
from odradek.broker.coordinator.txn_records import TransactionRecord, TransactionRecords
from odradek.broker.coordinator.txn_states import TxnState
from odradek.protocol.batch_builder import BatchBuilder
from odradek.protocol.types import TopicPartition

from tests.sim.batches import Batch, Fates, Kind
from tests.sim.clients import ALL, Sent
from tests.sim.coordination import Coordination
from tests.sim.ledger import Ledger, Wish, copy_problem, order_problem

HERE = TopicPartition("t", 0)
THERE = TopicPartition("t", 1)
PRODUCER = 7


def sent(mark: int, where: TopicPartition = HERE) -> Sent:
    return Sent("transactor1", where, mark, 1, 0, b"", ALL)


def found(wish: Wish, *, read: set[int]) -> list[str]:
    """What is said of a transaction of batches 1 and 2."""
    ledger = Ledger()
    attempt = ledger.open("transactor1", "writes")
    attempt.wish = wish
    attempt.batches = [sent(1), sent(2, THERE)]
    return list(ledger.problems(dict.fromkeys(read, True)))


def test_what_was_promised_and_is_so_is_no_problem():
    assert not found(Wish.COMMITTED, read={1, 2})
    assert not found(Wish.NO_COMMIT, read=set())
    assert not found(Wish.PERHAPS, read={1, 2})
    assert not found(Wish.PERHAPS, read=set())


def test_aborted_data_that_is_read_is_found():
    """G1a."""
    assert found(Wish.NO_COMMIT, read={1, 2}) == [
        "transaction 0 of transactor1 was not committed, and 1 is read"
    ]
    assert found(Wish.NO_COMMIT, read={2})


def test_a_committed_transaction_that_is_lost_is_found():
    assert found(Wish.COMMITTED, read=set()) == [
        "transaction 0 of transactor1 was committed, and 1 is not read"
    ]
    assert found(Wish.COMMITTED, read={1})


def test_a_torn_transaction_is_found_even_if_nobody_knows_how_it_ended():
    assert found(Wish.PERHAPS, read={2}) == [
        "transaction 0 of transactor1 is torn: of 2 batches 1 are read"
    ]


def test_copies_are_made_once_and_leave_nothing_out():
    assert copy_problem([1, 2, 3], [2, 1]) is None
    assert copy_problem([1, 2, 3], [1, 2, 2]) == "2 was copied more than once"
    assert copy_problem([1, 2, 3], [1, 3]) == ("2 was passed over by those who copied more than it")


def test_batches_of_one_producer_in_another_order_are_found():
    batches = {1: sent(1), 2: sent(2)}
    assert order_problem([1, 2], batches.__getitem__) is None
    assert order_problem([2, 1], batches.__getitem__) is not None


# What logs say ------------------------------------------------------------------------------


def batch(base: int, kind: Kind) -> Batch:
    return Batch(base, base, 0, 0, base, PRODUCER, kind)


def test_the_next_marker_of_its_producer_says_what_became_of_a_batch():
    batches = [batch(0, Kind.TRANSACTIONAL), batch(1, Kind.PLAIN), batch(2, Kind.TRANSACTIONAL)]
    fates = Fates(batches)
    assert fates.follow() == []
    assert (fates.first_open, fates.counts(batches[0]), fates.counts(batches[1])) == (0, None, True)
    batches.append(batch(3, Kind.ABORT))
    assert fates.follow() == batches[3:]
    assert (fates.first_open, fates.counts(batches[0]), fates.counts(batches[2])) == (
        None,
        False,
        False,
    )
    batches += [batch(4, Kind.TRANSACTIONAL), batch(5, Kind.COMMIT)]
    fates.follow()
    assert fates.counts(batches[4]) is True


def written(state: TxnState) -> bytes:
    """A coordinator's record, as its log has it."""
    transaction = Transaction(PRODUCER, 0, 1000, state=state, partitions=frozenset({HERE}))
    key, value = TransactionRecords().encode(TransactionRecord("writes", transaction))
    builder = BatchBuilder()
    builder.append(0, key, value)
    return builder.build()


def test_a_marker_must_say_what_was_decided():
    coordination = Coordination(lambda *_: [])
    marker = batch(1, Kind.COMMIT)
    assert coordination.ending_problem(marker) is not None
    assert not list(coordination.problems(written(TxnState.PREPARE_COMMIT)))
    assert coordination.ending_problem(marker) is None
    assert coordination.ending_problem(batch(1, Kind.ABORT)) is not None
    assert not list(coordination.problems(written(TxnState.ONGOING)))
    assert coordination.ending_problem(marker) is not None


def test_a_transaction_is_not_complete_while_a_partition_lacks_its_marker():
    opened = [batch(0, Kind.TRANSACTIONAL)]
    coordination = Coordination(lambda where, _: opened if where == HERE else [])
    assert not list(coordination.problems(written(TxnState.PREPARE_COMMIT)))
    assert list(coordination.problems(written(TxnState.COMPLETE_COMMIT)))
    assert not list(coordination.problems(written(TxnState.PREPARE_COMMIT)))
    opened.clear()
    assert not list(coordination.problems(written(TxnState.COMPLETE_COMMIT)))
