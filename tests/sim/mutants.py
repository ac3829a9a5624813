"""Known mistakes, one at a time: a simulation that does not find them proves nothing.

Each takes back a rule that keeps records safe, most of them as Kafka once did without it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from odradek.broker.handlers.produce import PendingProduce
from odradek.protocol.errors import Errors
from odradek.protocol.messages.replicas import LeaderAndIsrPartitionState, LeaderAndIsrTopicState
from odradek.protocol.types import TopicPartition
from odradek.replication import fetchers, leader
from odradek.replication.isr import Isr
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas


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


def _obey_old_orders() -> Any:
    """Roles of an earlier epoch are taken, and orders of a controller that was deposed."""
    become = Replicas._become_one

    def become_one(
        replicas: Replicas, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState
    ) -> Errors:
        known = replicas.find(TopicPartition(topic.topic_name, state.partition_index))
        if known is not None and state.leader_epoch < known.leader_epoch:
            replicas._give_role(known, state)
            return Errors.NONE
        return become(replicas, topic, state)

    return patch.multiple(Replicas, _check_sender=lambda *_: None, _become_one=become_one)


def _ignore_divergence() -> Any:
    """A follower is not told where its log parts from the leader's (KIP-279)."""
    return patch.object(Partition, "diverging_end", lambda *_: None)


def _join_too_early() -> Any:
    """A follower is in sync as soon as it fetches (KAFKA-7128)."""
    return patch.object(leader, "may_join", lambda *_, **__: True)


def _forget_the_proposed() -> Any:
    """The high watermark waits for the stored in-sync set alone, not for one on its way."""
    return patch.object(Isr, "maximal", property(lambda isr: isr.committed))


MUTANTS: Final[dict[str, Callable[[], Any]]] = {
    "truncate-to-high-watermark": _truncate_to_high_watermark,
    "acknowledge-at-once": _acknowledge_at_once,
    "obey-old-orders": _obey_old_orders,
    "ignore-divergence": _ignore_divergence,
    "join-too-early": _join_too_early,
    "forget-the-proposed": _forget_the_proposed,
}


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    if name is None:
        yield
    else:
        with MUTANTS[name]():
            yield
