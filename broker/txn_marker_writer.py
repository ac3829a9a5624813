"""Transaction markers written into the partitions that this broker leads.

A marker is appended like any record that must not be lost, and is told of when the high watermark
has passed it. Then, too, the offsets that the transaction committed for a group take effect: not
before, since a marker that another leader does not have would be taken back.

With the append, whoever is being verified for this producer loses its permission: its batch would
come after the end of its transaction, and no marker would ever follow it.
"""

import asyncio
from collections.abc import Callable

from odradek.broker.coordinator.placement import GROUP_TOPIC
from odradek.broker.coordinator.txn_completion import Marker
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import EndTxnMarker, end_txn_marker
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas
from odradek.storage.validation import FIRST_VERSION_WITH_ZSTD, Origin

_ALL_IN_SYNC = -1

Then = Callable[[Errors], None]
# Told of a partition of the groups' topic, the marker in it, and its offset.
OffsetsEnded = Callable[[int, Marker, int], None]


class MarkerWriter:
    def __init__(
        self,
        *,
        replicas: Replicas,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        timeout_ms: int,
        revoke: Callable[[TopicPartition, int], None],
        offsets_ended: OffsetsEnded,
    ) -> None:
        """`revoke` takes permissions from a producer in a partition."""
        self._replicas = replicas
        self._clock = clock
        self._loop = loop
        self._timeout_ms = timeout_ms
        self._revoke = revoke
        self._offsets_ended = offsets_ended

    def write(self, where: TopicPartition, marker: Marker, then: Then) -> None:
        """`then` hears once what became of the marker, perhaps before this returns."""
        try:
            partition = self._replicas.hosted(where)
            offset = self._append(partition, marker)
        except KafkaError as error:
            then(error.error)
            return
        self._revoke(where, marker.producer_id)

        def settled(error: Errors) -> None:
            if error is Errors.NONE and where.topic == GROUP_TOPIC:
                self._offsets_ended(where.partition, marker, offset)
            then(error)

        _Wait(partition, offset + 1, settled).begin(self._loop, self._timeout_ms)

    def _append(self, partition: Partition, marker: Marker) -> int:
        batch = end_txn_marker(
            EndTxnMarker(marker.commit, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=self._clock.now_ms(),
        )
        return partition.append(
            batch,
            acks=_ALL_IN_SYNC,
            origin=Origin.COORDINATOR,
            produce_version=FIRST_VERSION_WITH_ZSTD,
        ).last_offset


class _Wait:
    """Until a high watermark has come to an offset, in the leader epoch of now."""

    __slots__ = ("_end", "_epoch", "_parked", "_partition", "_then", "_timer")

    def __init__(self, partition: Partition, end: int, then: Then) -> None:
        self._partition = partition
        self._end = end
        self._epoch = partition.leader_epoch
        self._then: Then | None = then

    def begin(self, loop: asyncio.AbstractEventLoop, timeout_ms: int) -> None:
        outcome = self._outcome()
        if outcome is not None:
            self._tell(outcome)
            return
        self._timer = loop.call_later(timeout_ms / 1000, self._time_is_over)
        self._parked = self._partition.hw_waiters.park(self._end, self._look)

    def _outcome(self) -> Errors | None:
        partition = self._partition
        if not partition.is_leader or partition.leader_epoch != self._epoch:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if partition.log.high_watermark < self._end:
            return None
        return Errors.NONE if partition.has_quorum else Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def _look(self) -> None:
        self._timer.cancel()
        self._tell(self._outcome() or Errors.NONE)

    def _time_is_over(self) -> None:
        self._parked.cancel()
        self._tell(Errors.REQUEST_TIMED_OUT)

    def _tell(self, outcome: Errors) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(outcome)
