"""A follower that has everything waits for the next record: the short way to do that.

While all is well, this is what a fetch of a follower comes to: it names the partition whose records
it was just sent, has all of them, and there is nothing else to tell. So what it has is noted, which
commits records, and its answer waits for what the partition is appended next.

Everything unusual is left to `Fetch`, before the wait as after it: an epoch or a role that is not
as it was, a follower out of sync, a read that fails, time that is over, a session that is due to
look at all its partitions.

Hot code: a leader of four replicas does this three times for a record (benchmarks/following.py).
"""

from collections.abc import Callable, Sequence

from odradek.broker.fetch_sessions import FetchSession, WantedPartition
from odradek.broker.handlers.fetch_again import NO_EPOCH
from odradek.broker.handlers.fetch_terms import FetchTerms
from odradek.broker.handlers.shared_reads import Found
from odradek.broker.later import Later
from odradek.protocol.compiler import Part
from odradek.protocol.errors import KafkaError
from odradek.replication.fetch_plan import FetchLimits
from odradek.replication.leader import Leader
from odradek.replication.partition import Partition
from odradek.replication.short_fetch import ShortAnswer, ShortFetch, answer_form

Parts = Sequence[Part]


class FollowerWait:
    """`otherwise` answers by the long way, from what has moved in the session."""

    __slots__ = (
        "_asked",
        "_limits",
        "_otherwise",
        "_session",
        "_terms",
        "_timer",
        "_version",
        "answer",
    )

    def __init__(
        self,
        asked: ShortFetch,
        version: int,
        limits: FetchLimits,
        session: FetchSession,
        terms: FetchTerms,
        otherwise: Callable[[], Parts],
    ) -> None:
        self._asked = asked
        self._version = version
        self._limits = limits
        self._session = session
        self._terms = terms
        self._otherwise = otherwise
        self.answer: Later[Parts] = Later()

    def begin(self, wanted: WantedPartition, partition: Partition) -> Later[Parts]:
        session = self._session
        session.settle(wanted, partition)
        session.on_move = self._moved
        self._timer = self._terms.loop.call_later(self._limits.max_wait_ms / 1000, self._end)
        return self.answer

    def _moved(self, wanted: WantedPartition) -> None:
        if self.answer.is_there:
            return
        found = self._read(wanted)
        if found is None:
            self._end()
            return
        records, bounds = found
        session, asked = self._session, self._asked
        wanted.high_watermark = bounds.high_watermark
        wanted.log_start_offset = bounds.log_start
        session.served(wanted)
        answer = ShortAnswer(
            asked.correlation_id,
            asked.session_id,
            wanted.topic_id,
            wanted.request.partition,
            bounds.high_watermark,
            bounds.last_stable,
            bounds.log_start,
        )
        self._finish(answer_form(self._version).write(answer, records))

    def _read(self, wanted: WantedPartition) -> Found | None:
        """The records that a partition has moved by; None when it takes a closer look."""
        partition, row = wanted.found, wanted.request
        if partition is None or not is_as_asked(
            partition, row.current_leader_epoch, row.last_fetched_epoch, self._asked.replica_id
        ):
            return None
        try:
            found = self._terms.shared_reads.read(
                partition,
                row.fetch_offset,
                min(row.partition_max_bytes, self._limits.max_bytes, self._terms.max_bytes),
                min_one_batch=True,
            )
        except KafkaError:
            return None
        partition.note_sent(len(found.records))
        return found

    def _end(self) -> None:
        self._finish(self._otherwise())

    def _finish(self, parts: Parts) -> None:
        self._timer.cancel()
        session = self._session
        if session.on_move == self._moved:
            session.on_move = None
        self.answer.set(parts)


def is_as_asked(partition: Partition, epoch: int, last_epoch: int, follower_id: int) -> bool:
    """Whether the follower of this epoch is in sync, and its log cannot have parted from ours."""
    role = partition.role
    return (
        isinstance(role, Leader)
        and role.epoch == epoch
        and (last_epoch == NO_EPOCH or last_epoch == partition.log.epochs.latest_epoch)
        and follower_id in role.isr.committed
    )


def has_everything(asked: ShortFetch, session: FetchSession, wanted: WantedPartition) -> bool:
    """Whether there is nothing to tell a follower that is in sync, of this partition or another."""
    partition = wanted.found
    return (
        partition is not None
        and len(session.unsettled) == 1
        and wanted.is_level(partition.log)
        and is_as_asked(partition, asked.leader_epoch, asked.last_epoch, asked.replica_id)
    )


def has_nothing_new(asked: ShortFetch, session: FetchSession, partition: Partition) -> bool:
    """Whether that is so still, after what the follower has was noted."""
    return partition.log.log_end_offset == asked.fetch_offset and len(session.unsettled) == 1
