"""Whether a partition belongs to a producer's transaction, asked before its first batch (KIP-890).

A batch that came late, after its transaction had ended, would open one that nobody ever ends, and
read_committed readers would wait for ever. So the leader asks the coordinator before it takes the
first batch of a transaction; of newer clients it is said that the partition joins by that. While
the answer is on its way:

- batches of the same producer queue up and go on in their order, so that none overtakes another;
- a marker for the producer takes the permission away, and so does a new leader epoch;
- of a producer without any history here, no batch is let in before one that was turned away for
  the moment: sequences would be lost without a trace.

`TxnVerifier` keeps this; whom to ask is `TxnQuestions`' affair.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.broker.coordinator.txn_decisions import Holder
from odradek.protocol.errors import Errors
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition

Then = Callable[[Errors], None]

# Permissions in the making; beyond that the oldest is forgotten, which only costs a question more.
_MAX_GUARDS: Final = 10_000

# The coordinator could not say: the client tries again, without looking for a new leader.
_UNDECIDED: Final = (
    Errors.CONCURRENT_TRANSACTIONS,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
    Errors.NETWORK_EXCEPTION,
    Errors.REQUEST_TIMED_OUT,
    # It has not heard yet of a partition that we lead.
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.OPERATION_NOT_ATTEMPTED,
)


class Claim(NamedTuple):
    """Who says that a partition belongs to its transaction."""

    transactional_id: str
    holder: Holder
    adds: bool = False
    """Whether the partition is to become part of the transaction if it is not: so it is in the
    second version of transactions."""


class Question(NamedTuple):
    claim: Claim
    where: TopicPartition


# Asks the coordinator; the answer may come before this returns.
AskCoordinator = Callable[[Question, Then], None]


class _Guard:
    """A permission in the making, for one producer epoch in one leader epoch."""

    __slots__ = ("epoch", "first_sequence", "is_asking", "is_revoked", "leader_epoch", "waiting")

    def __init__(self, epoch: int, leader_epoch: int, sequence: int) -> None:
        self.epoch = epoch
        self.leader_epoch = leader_epoch
        self.first_sequence = sequence
        self.is_asking = False
        self.is_revoked = False
        self.waiting: list[tuple[int, Then]] = []


class TxnVerifier:
    """One owner: the event loop."""

    def __init__(self, ask: AskCoordinator, *, is_enabled: Callable[[], bool]) -> None:
        self._ask = ask
        self._is_enabled = is_enabled
        self._guards: dict[tuple[TopicPartition, int], _Guard] = {}

    def must_ask(self, partition: Partition, holder: Holder) -> bool:
        """Whether this would be the first batch of a transaction here."""
        producer_id, epoch = holder
        return not partition.log.producers.has_open_transaction(producer_id, epoch)

    def verify(self, partition: Partition, claim: Claim, sequence: int, then: Then) -> None:
        """`then` hears NONE when a batch with this first sequence may be appended; it has to do
        so before it returns. What else it may hear is for `produce_error` to put into words."""
        if not claim.adds and not self._is_enabled():
            then(Errors.NONE)
            return
        key = (partition.where, claim.holder.producer_id)
        guard = self._guards.get(key)
        if guard is not None and guard.epoch > claim.holder.epoch:
            then(Errors.INVALID_PRODUCER_EPOCH)
            return
        if guard is None or (guard.epoch, guard.leader_epoch) != (
            claim.holder.epoch,
            partition.leader_epoch,
        ):
            guard = self._new_guard(key, claim.holder.epoch, partition.leader_epoch, sequence)
        guard.first_sequence = min(guard.first_sequence, sequence)
        guard.waiting.append((sequence, then))
        if not guard.is_asking:
            guard.is_asking = True
            question = Question(claim, partition.where)
            self._ask(question, lambda error: self._answered(partition, key, guard, error))

    def revoke(self, where: TopicPartition, producer_id: int) -> None:
        """The producer's transaction ends here."""
        guard = self._guards.pop((where, producer_id), None)
        if guard is not None:
            guard.is_revoked = True

    def _new_guard(
        self, key: tuple[TopicPartition, int], epoch: int, leader_epoch: int, sequence: int
    ) -> _Guard:
        self.revoke(*key)
        if len(self._guards) >= _MAX_GUARDS:
            self.revoke(*next(iter(self._guards)))
        guard = self._guards[key] = _Guard(epoch, leader_epoch, sequence)
        return guard

    def _answered(
        self, partition: Partition, key: tuple[TopicPartition, int], guard: _Guard, error: Errors
    ) -> None:
        guard.is_asking = False
        waiting, guard.waiting = guard.waiting, []
        producers, producer_id = partition.log.producers, key[1]
        for sequence, then in waiting:
            outcome = error
            if guard.is_revoked:
                outcome = Errors.TRANSACTION_ABORTABLE
            elif partition.leader_epoch != guard.leader_epoch:
                outcome = Errors.NOT_LEADER_OR_FOLLOWER
            elif error is Errors.NONE and (
                producers.get(producer_id) is None and sequence > guard.first_sequence
            ):
                outcome = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
            then(outcome)
        is_over = producers.has_open_transaction(producer_id, guard.epoch)
        is_final = error is not Errors.NONE and error not in _UNDECIDED
        if (is_over or is_final) and self._guards.get(key) is guard:
            del self._guards[key]


def produce_error(error: Errors, *, knows_abortable: bool) -> Errors:
    """What a producer hears whose batch was not let in."""
    if error in _UNDECIDED:
        return Errors.NOT_ENOUGH_REPLICAS
    return _told_by_age(error, knows_abortable)


def offset_commit_error(error: Errors, *, knows_abortable: bool) -> Errors:
    """The same for offsets that were to be committed in a transaction."""
    if error is Errors.NOT_LEADER_OR_FOLLOWER:
        return Errors.NOT_COORDINATOR
    if error in _UNDECIDED:
        return Errors.COORDINATOR_NOT_AVAILABLE
    return _told_by_age(error, knows_abortable)


def _told_by_age(error: Errors, knows_abortable: bool) -> Errors:
    if error is Errors.PRODUCER_FENCED:
        # A producer that is no zombie gets over this one by beginning a new epoch.
        return Errors.INVALID_PRODUCER_EPOCH
    if error is Errors.TRANSACTION_ABORTABLE and not knows_abortable:
        return Errors.INVALID_TXN_STATE
    return error
