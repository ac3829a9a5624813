"""Which committed offsets are no longer kept.

The clock of a group's offsets starts when nobody can need them: when the group became Empty, or,
for consumers that never were in a group, with each commit. Of a group with members only offsets
of topics that no member subscribes to can expire, and only while the group is Stable: in a
rebalance the members' wishes are not known. A client of old may have named a time of its own.

In a consumer group the clock starts with each commit, and stands still for the topics that a
member wants.
"""

from collections.abc import Iterator

from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.offsets import CommittedOffset, expires_by_itself
from odradek.broker.coordinator.subscriptions import CONSUMER
from odradek.protocol.types import TopicPartition


def expired_offsets(
    group: Group | ConsumerGroup, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    return [
        where
        for where, committed, unused_since_ms in _unused_offsets(group)
        if _is_expired(committed, unused_since_ms, now_ms, retention_ms)
        and not group.offsets.is_pending(where)
    ]


def _unused_offsets(
    group: Group | ConsumerGroup,
) -> Iterator[tuple[TopicPartition, CommittedOffset, int]]:
    """Offsets that nobody uses now, and since when."""
    if isinstance(group, ConsumerGroup):
        wanted = group.subscribed_topics()
        for where, committed in group.offsets.latest().items():
            if where.topic not in wanted:
                yield where, committed, committed.commit_timestamp_ms
    elif group.protocol_type is None:
        for where, committed in group.offsets.latest().items():
            yield where, committed, committed.commit_timestamp_ms
    elif group.state is GroupState.EMPTY:
        since_ms = group.state_timestamp_ms
        for where, committed in group.offsets.latest().items():
            yield where, committed, committed.commit_timestamp_ms if since_ms is None else since_ms
    elif group.state is GroupState.STABLE and group.protocol_type == CONSUMER:
        topics = group.subscribed_topics
        if topics is None:
            return
        for where, committed in group.offsets.latest().items():
            if where.topic not in topics:
                yield where, committed, committed.commit_timestamp_ms


def _is_expired(
    committed: CommittedOffset, unused_since_ms: int, now_ms: int, retention_ms: int
) -> bool:
    if expires_by_itself(committed):
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - unused_since_ms >= retention_ms


def is_forgotten(group: Group | ConsumerGroup) -> bool:
    """Whether nothing is left of the group that anyone could ask for."""
    if isinstance(group, ConsumerGroup):
        return not group.members and not group.offsets
    return group.state is GroupState.EMPTY and not group.offsets and not group.pending_members
