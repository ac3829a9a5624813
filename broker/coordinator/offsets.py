"""The committed offsets of one group, and those that wait for the end of a transaction."""

from collections.abc import Iterator
from typing import NamedTuple

from odradek.broker.coordinator.group_records import NO_EXPIRY
from odradek.broker.coordinator.shard import Place
from odradek.broker.coordinator.timeline import Timeline
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.records import NO_PRODUCER_ID
from odradek.protocol.types import TopicPartition


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    written_at: int
    """The offset of its record in the log: of two commits the later record wins."""


class GroupOffsets:
    __slots__ = ("_committed", "_pending")

    def __init__(self) -> None:
        self._committed: Timeline[TopicPartition, CommittedOffset] = Timeline()
        # By producer: what its open transaction has committed.
        self._pending: dict[int, dict[TopicPartition, CommittedOffset]] = {}

    def __bool__(self) -> bool:
        return bool(self._pending) or next(self._committed.all_latest(), None) is not None

    def replay(
        self,
        where: TopicPartition,
        value: OffsetCommitValue | None,
        place: Place,
        committed_end: int,
    ) -> None:
        committed = None if value is None else _from_record(value, place.offset)
        if place.producer_id == NO_PRODUCER_ID:
            self._committed.put(where, committed, place.offset, committed_end)
            return
        mine = self._pending.setdefault(place.producer_id, {})
        if committed is None:
            mine.pop(where, None)
        else:
            mine[where] = committed

    def end_transaction(
        self, producer_id: int, marker_offset: int, committed_end: int, *, committed: bool
    ) -> None:
        pending = self._pending.pop(producer_id, {})
        if not committed:
            return
        for where, value in pending.items():
            known = self._committed.latest(where)
            if known is None or known.written_at < value.written_at:
                self._committed.put(where, value, marker_offset, committed_end)

    def is_pending(self, where: TopicPartition) -> bool:
        """Whether a transaction that is still open has committed an offset here."""
        return any(where in mine for mine in self._pending.values())

    def committed(self, where: TopicPartition, committed_end: int) -> CommittedOffset | None:
        return self._committed.committed(where, committed_end)

    def all_committed(self, committed_end: int) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        return self._committed.all_committed(committed_end)

    def pending_partitions(self) -> set[TopicPartition]:
        return {where for mine in self._pending.values() for where in mine}

    def latest(self) -> dict[TopicPartition, CommittedOffset]:
        return dict(self._committed.all_latest())


def _from_record(value: OffsetCommitValue, offset: int) -> CommittedOffset:
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        written_at=offset,
    )


def expires_by_itself(committed: CommittedOffset) -> bool:
    return committed.expire_timestamp_ms != NO_EXPIRY
