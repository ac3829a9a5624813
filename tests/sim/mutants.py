"""Known mistakes, one at a time: a simulation that does not find them proves nothing.

Each takes back a rule that keeps records safe, most of them as Kafka once did without it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from odradek.broker import txn_marker_writer
from odradek.broker.coordinator import txn_decisions
from odradek.broker.coordinator.offsets import GroupOffsets
from odradek.broker.coordinator.shard import Place
from odradek.broker.coordinator.transaction import Transaction
from odradek.broker.coordinator.txn_completion import Completion
from odradek.broker.coordinator.txn_decisions import Decision, Holder, Known
from odradek.broker.coordinator.txn_shard import ErrorReply, TxnShard
from odradek.broker.coordinator.txn_states import TxnState
from odradek.broker.handlers.produce import PendingProduce
from odradek.broker.txn_verification import Claim, Then, TxnVerifier
from odradek.protocol.errors import Errors
from odradek.protocol.records import NO_PRODUCER_ID
from odradek.protocol.types import TopicPartition
from odradek.replication import fetchers, leader
from odradek.replication.partition import Partition
from odradek.storage import log_reading
from odradek.storage.producer_state import ProducerStates


def _truncate_to_high_watermark() -> Any:
    """A follower trusts nothing above its high watermark, which lags (KIP-101)."""

    def forget(partition: Partition) -> None:
        log = partition.log
        if log.log_end_offset > log.high_watermark:
            log.truncate_to(log.high_watermark)

    return patch.object(fetchers, "forget_uncertain", forget)


def _acknowledge_at_once() -> Any:
    """acks=all is answered before the in-sync replicas have the records."""
    return patch.object(PendingProduce, "add", lambda *_: None)


def _ignore_divergence() -> Any:
    """The leader does not compare the epoch of a follower's last record with its own past, so it
    never tells where the two logs part (KIP-279, KIP-320)."""
    return patch.object(Partition, "diverging_end", lambda *_: None)


def _join_too_early() -> Any:
    """A follower is in sync as soon as it fetches (KAFKA-7128)."""
    return patch.object(leader, "may_join", lambda *_, **__: True)


# Of transactions ----------------------------------------------------------------------------


def _read_past_open_transactions() -> Any:
    """The last stable offset is the high watermark."""
    return patch.object(
        ProducerStates, "last_stable_offset", lambda _, high_watermark: high_watermark
    )


def _hide_aborts() -> Any:
    """Readers are not told which transactions were aborted."""
    return patch.object(log_reading, "aborted_transactions", lambda *_: [])


def _trust_a_marker_at_once() -> Any:
    """A marker counts as written before the in-sync replicas have it."""

    def begin(wait: Any, *_: object) -> None:
        wait._tell(Errors.NONE)

    return patch.object(txn_marker_writer._Wait, "begin", begin)


def _let_the_shut_out_end() -> Any:
    """Whoever names the transactional id may end its transaction, in whatever epoch."""
    decide = txn_decisions.end

    def end(known: Known | None, holder: Holder, **options: Any) -> Decision:
        if known is not None:
            holder = holder._replace(epoch=known.transaction.epoch)
        return decide(known, holder, **options)

    return patch.object(txn_decisions, "end", end)


def _mark_before_it_is_decided() -> Any:
    """Markers are sent while the decision may still be lost."""

    def end(shard: TxnShard, name: str, prepared: Transaction, reply: ErrorReply) -> None:
        shard._write(name, prepared, reply)
        shard._send_markers(name, prepared)

    return patch.object(TxnShard, "_end", end)


def _forget_what_was_prepared() -> Any:
    """A new coordinator does not go on with what the last one has decided (KAFKA-9777)."""

    def begin(shard: TxnShard) -> None:
        shard._is_active = True

    return patch.object(TxnShard, "begin", begin)


def _let_in_what_is_late() -> Any:
    """A leader does not ask whether a batch belongs to an open transaction (KIP-890)."""
    ask = TxnVerifier.verify

    def verify(
        verifier: TxnVerifier, partition: Partition, claim: Claim, sequence: int, then: Then
    ) -> None:
        if claim.adds:
            ask(verifier, partition, claim, sequence, then)
        else:
            then(Errors.NONE)

    return patch.object(TxnVerifier, "verify", verify)


def _promise_before_it_is_decided() -> Any:
    """Whoever asks for an end is told before the decision is safe."""
    decide = TxnShard._end

    def end(shard: TxnShard, name: str, prepared: Transaction, reply: ErrorReply) -> None:
        reply(Errors.NONE)
        decide(shard, name, prepared, lambda _: None)

    return patch.object(TxnShard, "_end", end)


def _end_the_next_transaction() -> Any:
    """In the second version of transactions, too, an end that is late hits what is open now."""
    decide = txn_decisions.end_with_bump

    def end(known: Known | None, holder: Holder, **options: Any) -> Decision:
        if known is not None and known.transaction.state is TxnState.ONGOING:
            holder = holder._replace(epoch=known.transaction.epoch)
        return decide(known, holder, **options)

    return patch.object(txn_decisions, "end_with_bump", end)


def _forget_a_partition() -> Any:
    """One of a transaction's partitions gets no marker."""
    begin = Completion.__init__

    def forget(completion: Completion, *args: Any, **options: Any) -> None:
        begin(completion, *args, **options)
        if len(completion.unwritten) > 1:
            completion.unwritten.discard(max(completion.unwritten))

    return patch.object(Completion, "__init__", forget)


def _keep_the_epoch() -> Any:
    """Whoever takes a name over has the epoch of the one before, who is not shut out."""
    decide = txn_decisions.init

    def init(known: Known | None, *args: Any) -> Decision:
        decision = decide(known, *args)
        if known is None or isinstance(decision, Errors):
            return decision
        return replace(decision, epoch=known.transaction.epoch)

    return patch.object(txn_decisions, "init", init)


def _time_out_without_a_word() -> Any:
    """A transaction that takes too long is aborted, and its producer goes on in its epoch as if
    nothing had happened (KAFKA-6119)."""
    decide = txn_decisions.time_out

    def time_out(known: Known, now_ms: int) -> Decision:
        decision = decide(known, now_ms)
        if isinstance(decision, Errors):
            return decision
        return replace(decision, epoch=known.transaction.epoch)

    return patch.object(txn_decisions, "time_out", time_out)


def _commit_offsets_at_once() -> Any:
    """A group's offsets take effect before their transaction has ended, however it does."""
    follow = GroupOffsets.replay

    def replay(
        offsets: GroupOffsets, where: TopicPartition, value: Any, place: Place, end: int
    ) -> None:
        follow(offsets, where, value, place._replace(producer_id=NO_PRODUCER_ID), end)

    return patch.object(GroupOffsets, "replay", replay)


MUTANTS: Final[dict[str, Callable[[], Any]]] = {
    "truncate-to-high-watermark": _truncate_to_high_watermark,
    "acknowledge-at-once": _acknowledge_at_once,
    "ignore-divergence": _ignore_divergence,
    "join-too-early": _join_too_early,
    "read-past-open-transactions": _read_past_open_transactions,
    "hide-aborts": _hide_aborts,
    "trust-a-marker-at-once": _trust_a_marker_at_once,
    "let-the-shut-out-end": _let_the_shut_out_end,
    "mark-before-it-is-decided": _mark_before_it_is_decided,
    "forget-what-was-prepared": _forget_what_was_prepared,
    "let-in-what-is-late": _let_in_what_is_late,
    "promise-before-it-is-decided": _promise_before_it_is_decided,
    "end-the-next-transaction": _end_the_next_transaction,
    "forget-a-partition": _forget_a_partition,
    "keep-the-epoch": _keep_the_epoch,
    "time-out-without-a-word": _time_out_without_a_word,
    "commit-offsets-at-once": _commit_offsets_at_once,
}


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    if name is None:
        yield
    else:
        with MUTANTS[name]():
            yield
