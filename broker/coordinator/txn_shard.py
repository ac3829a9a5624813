"""The transactional ids of one partition of `__transaction_state`: the state of a shard.

Every event is decided by `txn_decisions`, written, and told when it is committed. The order that
keeps transactions whole:

    1. the decision to commit or abort is written and committed: from now on it stands
    2. the client is told, and the markers are sent, until every partition has its own
    3. that they all have it is written

A coordinator that takes over finds the prepared transactions of its predecessor. It cannot know
whether their record was committed, so it writes it once more and goes on with 2 when that is. With
all other ids it goes on when the high watermark has passed their last record; until then, clients
are told to ask again.
Whatever could not be written is tried again as long as this broker coordinates the partition.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from odradek.broker.coordinator import txn_decisions
from odradek.broker.coordinator.shard import Place, Then, Writer
from odradek.broker.coordinator.timeline import Timeline
from odradek.broker.coordinator.timers import Timers
from odradek.broker.coordinator.transaction import Transaction
from odradek.broker.coordinator.txn_completion import Completion
from odradek.broker.coordinator.txn_config import RETRY_MS, TxnConfig
from odradek.broker.coordinator.txn_decisions import NOBODY, Decision, Holder, Known
from odradek.broker.coordinator.txn_records import TransactionRecord
from odradek.broker.coordinator.txn_states import TxnState
from odradek.broker.coordinator.write_errors import transaction_error
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors
from odradek.protocol.types import TopicPartition

log: Final = logging.getLogger(__name__)

ErrorReply = Callable[[Errors], None]
InitReply = Callable[[Errors, Holder], None]


class TxnWriter(Writer[TransactionRecord], Protocol):
    @property
    def epoch(self) -> int:
        """The leader epoch, which is the coordinator's."""
        ...

    @property
    def safe_end(self) -> int:
        """What lies below is committed for sure, also of what was loaded."""
        ...


class TxnTools(NamedTuple):
    clock: Clock
    timers: Timers
    config: TxnConfig
    writer: TxnWriter
    send_markers: Callable[[Completion], None]


class TxnShard:
    def __init__(self, tools: TxnTools) -> None:
        self._tools = tools
        self._transactions: Timeline[str, Transaction] = Timeline()
        self._completions: dict[str, Completion] = {}
        self._is_active = False

    # Replay ---------------------------------------------------------------------------------

    def replay(self, record: TransactionRecord, place: Place, /) -> None:
        self._transactions.put(
            record.transactional_id, record.value, place.offset, self._tools.writer.committed_end
        )

    def end_transaction(self, producer_id: int, place: Place, *, committed: bool) -> None:
        """Nothing is written to this topic in a transaction."""

    def begin(self) -> None:
        self._is_active = True
        for transactional_id, transaction in list(self._transactions.all_latest()):
            if transaction.state.is_prepared:
                self._prepare_again(transactional_id, transaction)

    def unload(self) -> None:
        self._is_active = False
        completions, self._completions = self._completions, {}
        for completion in completions.values():
            completion.drop()

    # Looking --------------------------------------------------------------------------------

    def known(self, transactional_id: str) -> Known | None:
        """The last word on an id, and whether it is committed.

        What was loaded may be lost once more, like anything above the high watermark. Were it
        taken for settled, a leader would be told that its partition is in the transaction, and the
        next coordinator might know nothing of it and never send it a marker.
        """
        latest = self._transactions.latest(transactional_id)
        if latest is None:
            return None
        return Known(
            latest, self._transactions.committed(transactional_id, self._tools.writer.safe_end)
        )

    def committed(self, transactional_id: str) -> Transaction | None:
        return self._transactions.committed(transactional_id, self._tools.writer.committed_end)

    def all_committed(self) -> Iterator[tuple[str, Transaction]]:
        return self._transactions.all_committed(self._tools.writer.committed_end)

    # Events ---------------------------------------------------------------------------------

    def init(
        self,
        transactional_id: str,
        holder: Holder,
        timeout_ms: int,
        new_id: int | None,
        reply: InitReply,
    ) -> None:
        known, now_ms = self.known(transactional_id), self._tools.clock.now_ms()
        decision = txn_decisions.init(known, holder, timeout_ms, now_ms, new_id)
        if isinstance(decision, Errors):
            reply(decision, NOBODY)
        elif decision.state is TxnState.PREPARE_ABORT:
            self._end(
                transactional_id,
                decision,
                lambda error: reply(error or Errors.CONCURRENT_TRANSACTIONS, NOBODY),
            )
        else:
            given = Holder(decision.producer_id, decision.epoch)
            self._write(
                transactional_id,
                decision,
                lambda error: reply(transaction_error(error), NOBODY if error else given),
            )

    def add_partitions(
        self,
        transactional_id: str,
        holder: Holder,
        partitions: Collection[TopicPartition],
        reply: ErrorReply,
    ) -> None:
        decision = txn_decisions.add_partitions(
            self.known(transactional_id), holder, partitions, self._tools.clock.now_ms()
        )
        if isinstance(decision, Errors):
            reply(decision)
        else:
            self._write(transactional_id, decision, lambda error: reply(transaction_error(error)))

    def verify_partitions(
        self, transactional_id: str, holder: Holder, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Errors]:
        return txn_decisions.verify_partitions(self.known(transactional_id), holder, partitions)

    def end(self, transactional_id: str, holder: Holder, commit: bool, reply: ErrorReply) -> None:
        known, now_ms = self.known(transactional_id), self._tools.clock.now_ms()
        decision = txn_decisions.end(known, holder, commit=commit, now_ms=now_ms)
        if isinstance(decision, Errors):
            reply(decision)
        else:
            self._end(transactional_id, decision, reply)

    def end_with_bump(
        self,
        transactional_id: str,
        holder: Holder,
        commit: bool,
        new_id: int | None,
        reply: InitReply,
    ) -> None:
        """`reply` hears whom the producer is to be in its next transaction."""
        known, now_ms = self.known(transactional_id), self._tools.clock.now_ms()
        decision = txn_decisions.end_with_bump(
            known, holder, commit=commit, now_ms=now_ms, new_id=new_id
        )
        if isinstance(decision, Errors):
            assert known is not None or decision is not Errors.NONE
            reply(decision, NOBODY if known is None else Holder(*known.transaction.successor))
        else:
            next_holder = Holder(*decision.successor)
            self._end(transactional_id, decision, lambda error: reply(error, next_holder))

    # Housekeeping ---------------------------------------------------------------------------

    def abort_timed_out(self) -> Iterator[None]:
        """Abort what takes too long; yields where others may have a turn."""
        for transactional_id, _ in list(self._transactions.all_latest()):
            known = self.known(transactional_id)
            if known is not None and self._is_active:
                decision = txn_decisions.time_out(known, self._tools.clock.now_ms())
                self._time_out(transactional_id, decision)
            yield

    def _time_out(self, transactional_id: str, decision: Decision) -> None:
        if isinstance(decision, Errors):
            return
        log.info("transaction of %r has timed out and is aborted", transactional_id)
        self._end(transactional_id, decision, _log_failure)

    def expire(self) -> Iterator[None]:
        """Forget ids that were not used for long; yields like the above."""
        for transactional_id, _ in list(self._transactions.all_latest()):
            known, now_ms = self.known(transactional_id), self._tools.clock.now_ms()
            if (
                known is not None
                and known.is_settled
                and self._is_active
                and known.transaction.has_expired(now_ms, self._tools.config.expiration_ms)
            ):
                self._write(transactional_id, None, _log_failure)
            yield

    # The end of transactions ----------------------------------------------------------------

    def _end(self, transactional_id: str, prepared: Transaction, reply: ErrorReply) -> None:
        """Write the decision; once it is committed, tell who asked and send the markers."""

        def written(error: Errors) -> None:
            reply(transaction_error(error))
            if error is Errors.NONE:
                self._send_markers(transactional_id, prepared)
            else:
                self._later(self._prepare_again, transactional_id, prepared)

        self._write(transactional_id, prepared, written)

    def _prepare_again(self, transactional_id: str, prepared: Transaction) -> None:
        """It is in the log, but perhaps not committed: its copy will tell."""
        self._end(transactional_id, prepared, _log_failure)

    def _send_markers(self, transactional_id: str, prepared: Transaction) -> None:
        def all_written(completion: Completion) -> None:
            if self._completions.get(transactional_id) is completion:
                del self._completions[transactional_id]
                self._complete(transactional_id, prepared)

        completion = Completion(
            transactional_id, prepared, self._tools.writer.epoch, on_all_written=all_written
        )
        self._completions[transactional_id] = completion
        self._tools.send_markers(completion)

    def _complete(self, transactional_id: str, prepared: Transaction) -> None:
        def written(error: Errors) -> None:
            if error is not Errors.NONE:
                # Refused, nothing has changed; if it is in the log, it need not be said again.
                self._later(self._complete, transactional_id, prepared)

        completed = prepared.completed(self._tools.clock.now_ms())
        self._write(transactional_id, completed, written)

    def _later(
        self,
        act: Callable[[str, Transaction], None],
        transactional_id: str,
        transaction: Transaction,
    ) -> None:
        """Try again after a rest, if the id is still as it was."""

        def try_again() -> None:
            if self._is_active and self._transactions.latest(transactional_id) is transaction:
                act(transactional_id, transaction)

        self._tools.timers.call_later(RETRY_MS / 1000, try_again)

    def _write(self, transactional_id: str, value: Transaction | None, then: Then) -> None:
        self._tools.writer.write([TransactionRecord(transactional_id, value)], then)


def _log_failure(error: Errors) -> None:
    if error is not Errors.NONE:
        log.warning("a transaction could not be written, it will be tried: %s", error.name)
