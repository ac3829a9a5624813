"""Who may write the first batch of a transaction, while the coordinator is being asked."""

import pytest
from odradek.broker.coordinator.txn_decisions import Holder
from odradek.broker.txn_verification import (
    Claim,
    Question,
    Then,
    TxnVerifier,
    offset_commit_error,
    produce_error,
)
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors
from odradek.protocol.records import (
    BatchBuilder,
    EndTxnMarker,
    ProducerStamp,
    end_txn_marker,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition
from odradek.storage.validation import Origin

from tests.unit.replication.conftest import new_partition

WHERE = TopicPartition("t", 0)
PRODUCER = 7
EPOCH = 3
CLAIM = Claim("txn", Holder(PRODUCER, EPOCH))
OLDER = Claim("txn", Holder(PRODUCER, EPOCH - 1))
NEWER = Claim("txn", Holder(PRODUCER, EPOCH + 1))
END = EndTxnMarker(commit=True, coordinator_epoch=0)


class Stage:
    """A partition that leads, and a coordinator whose answers are given by hand."""

    def __init__(self) -> None:
        self.partition: Partition = new_partition(ManualClock(), local_id=1)
        self.lead(epoch=5)
        self.questions: list[tuple[Question, Then]] = []
        self.is_enabled = True
        self.verifier = TxnVerifier(
            lambda question, then: self.questions.append((question, then)),
            is_enabled=lambda: self.is_enabled,
        )
        self.heard: list[tuple[int, Errors]] = []

    def lead(self, epoch: int) -> None:
        self.partition.become_leader(epoch=epoch, partition_epoch=1, replicas=[1], isr=[1])

    def send(self, sequence: int, claim: Claim = CLAIM) -> None:
        """A batch comes in; it is appended when it may be."""

        def then(outcome: Errors) -> None:
            self.heard.append((sequence, outcome))
            if outcome is Errors.NONE:
                self.append(sequence, claim)

        if self.verifier.must_ask(self.partition, claim.holder):
            self.verifier.verify(self.partition, claim, sequence, then)
        else:
            then(Errors.NONE)

    def append(self, sequence: int, claim: Claim = CLAIM) -> None:
        stamp = ProducerStamp(*claim.holder, sequence, is_transactional=True)
        builder = BatchBuilder(producer=stamp)
        builder.append(0, b"k", b"v")
        self.partition.append(bytearray(builder.build()), acks=1, produce_version=9)

    def answer(self, outcome: Errors = Errors.NONE) -> None:
        _, then = self.questions.pop(0)
        then(outcome)

    def mark(self) -> None:
        """The transaction ends in the partition."""
        self.verifier.revoke(WHERE, PRODUCER)
        batch = end_txn_marker(END, producer_id=PRODUCER, producer_epoch=EPOCH, timestamp=0)
        self.partition.append(batch, acks=-1, origin=Origin.COORDINATOR, produce_version=9)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_the_coordinator_is_asked_once_for_a_transaction(stage: Stage) -> None:
    stage.send(0)
    assert [question for question, _ in stage.questions] == [Question(CLAIM, WHERE)]
    stage.answer()
    stage.send(1)
    assert stage.questions == []
    assert stage.heard == [(0, Errors.NONE), (1, Errors.NONE)]


def test_batches_queue_up_behind_the_question_and_keep_their_order(stage: Stage) -> None:
    for sequence in range(3):
        stage.send(sequence)
    assert len(stage.questions) == 1
    assert stage.heard == []
    stage.answer()
    assert stage.heard == [(0, Errors.NONE), (1, Errors.NONE), (2, Errors.NONE)]
    assert stage.partition.log.log_end_offset == 3


def test_a_marker_takes_the_permission_away(stage: Stage) -> None:
    """Or else the batch would open a transaction that nobody ends."""
    stage.send(0)
    stage.mark()
    stage.answer()
    assert stage.heard == [(0, Errors.TRANSACTION_ABORTABLE)]
    assert stage.partition.log.producers.first_undecided_offset is None


def test_every_transaction_is_verified_anew(stage: Stage) -> None:
    stage.send(0)
    stage.answer()
    stage.mark()
    stage.send(1)
    assert len(stage.questions) == 1
    stage.answer(Errors.TRANSACTION_ABORTABLE)
    assert stage.heard[-1] == (1, Errors.TRANSACTION_ABORTABLE)


def test_a_permission_ends_with_the_leader_epoch(stage: Stage) -> None:
    stage.send(0)
    stage.lead(epoch=6)
    stage.answer()
    assert stage.heard == [(0, Errors.NOT_LEADER_OR_FOLLOWER)]


def test_a_batch_does_not_overtake_one_that_was_turned_away_for_the_moment(stage: Stage) -> None:
    """Nothing is known of the producer here, so any sequence would be taken for its first."""
    stage.send(0)
    stage.answer(Errors.CONCURRENT_TRANSACTIONS)
    stage.send(1)
    stage.answer()
    assert stage.heard == [
        (0, Errors.CONCURRENT_TRANSACTIONS),
        (1, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ]
    stage.send(0)
    stage.answer()
    assert stage.heard[-1] == (0, Errors.NONE)


def test_a_newer_epoch_takes_over_while_the_older_one_waits(stage: Stage) -> None:
    stage.send(0)
    stage.send(0, NEWER)
    stage.answer()
    stage.answer()
    assert stage.heard == [(0, Errors.TRANSACTION_ABORTABLE), (0, Errors.NONE)]


def test_an_older_epoch_is_refused_while_the_newer_one_waits(stage: Stage) -> None:
    stage.send(0)
    stage.send(4, OLDER)
    assert stage.heard == [(4, Errors.INVALID_PRODUCER_EPOCH)]


def test_nobody_is_asked_when_verification_is_off(stage: Stage) -> None:
    stage.is_enabled = False
    stage.send(0)
    assert stage.heard == [(0, Errors.NONE)]
    assert stage.questions == []


@pytest.mark.parametrize(
    ("error", "old", "new"),
    [
        (Errors.TRANSACTION_ABORTABLE, Errors.INVALID_TXN_STATE, Errors.TRANSACTION_ABORTABLE),
        (Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH, Errors.INVALID_PRODUCER_EPOCH),
        (Errors.CONCURRENT_TRANSACTIONS, Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.NETWORK_EXCEPTION, Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.NOT_COORDINATOR, Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_ENOUGH_REPLICAS),
        (
            Errors.INVALID_PRODUCER_ID_MAPPING,
            Errors.INVALID_PRODUCER_ID_MAPPING,
            Errors.INVALID_PRODUCER_ID_MAPPING,
        ),
    ],
)
def test_what_a_producer_hears(error: Errors, old: Errors, new: Errors) -> None:
    assert produce_error(error, knows_abortable=False) is old
    assert produce_error(error, knows_abortable=True) is new


def test_what_a_committer_of_offsets_hears() -> None:
    told = {
        error: offset_commit_error(error, knows_abortable=False)
        for error in (
            Errors.TRANSACTION_ABORTABLE,
            Errors.CONCURRENT_TRANSACTIONS,
            Errors.NOT_LEADER_OR_FOLLOWER,
        )
    }
    assert told == {
        Errors.TRANSACTION_ABORTABLE: Errors.INVALID_TXN_STATE,
        Errors.CONCURRENT_TRANSACTIONS: Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    }
