"""Known mistakes, one at a time: a simulation that does not find them proves nothing.

Each takes back a rule that keeps records safe, most of them as Kafka once did without it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from odradek.broker.handlers.produce import PendingProduce
from odradek.replication import fetchers, leader
from odradek.replication.partition import Partition


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


MUTANTS: Final[dict[str, Callable[[], Any]]] = {
    "truncate-to-high-watermark": _truncate_to_high_watermark,
    "acknowledge-at-once": _acknowledge_at_once,
    "ignore-divergence": _ignore_divergence,
    "join-too-early": _join_too_early,
}


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    if name is None:
        yield
    else:
        with MUTANTS[name]():
            yield
