"""What leaves the shard of a coordinator: groups, offsets of deleted topics, expired offsets.

Tombstones go to the log in batches; a group is gone when they are committed, unless somebody came
to it meanwhile.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from odradek.broker.coordinator.consumer_changes import Draft
from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.consumer_groups import ConsumerGroups
from odradek.broker.coordinator.expiry import expired_offsets, is_forgotten
from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_records import ClassicRecord, GroupRecord, OffsetRecord
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.rebalancing import GroupTools, Rebalancing
from odradek.broker.coordinator.subscriptions import CONSUMER
from odradek.broker.coordinator.write_errors import commit_error
from odradek.protocol.errors import Errors
from odradek.protocol.types import TopicPartition

log: Final = logging.getLogger(__name__)

ErrorReply = Callable[[Errors], None]
AnyGroup: TypeAlias = Group | ConsumerGroup

# So many tombstones go into one batch: well below the smallest limit anyone sets.
_TOMBSTONES_PER_BATCH: Final = 200


class Removal:
    def __init__(
        self,
        tools: GroupTools,
        groups: dict[str, Group],
        consumers: ConsumerGroups,
        rebalancing: Rebalancing,
    ) -> None:
        self._tools = tools
        self._groups = groups
        self._consumers = consumers
        self._rebalancing = rebalancing

    def _find(self, group_id: str) -> AnyGroup | None:
        return self._groups.get(group_id) or self._consumers.groups.get(group_id)

    def _all(self) -> list[AnyGroup]:
        return [*self._groups.values(), *self._consumers.groups.values()]

    # What administrators remove -------------------------------------------------------------

    def delete_group(self, group_id: str, reply: ErrorReply) -> None:
        group = self._find(group_id)
        if isinstance(group, Group):
            self._rebalancing.end_sessions(group)
        if group is None:
            reply(Errors.GROUP_ID_NOT_FOUND)
        elif not _is_empty(group):
            reply(Errors.NON_EMPTY_GROUP)
        else:
            self._remove(group, list(_tombstones(group, group.offsets.latest())), reply)

    def delete_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        reply: Callable[[Errors, dict[TopicPartition, Errors]], None],
    ) -> None:
        """OffsetDelete: the error of the whole request, and that of each partition."""
        group = self._find(group_id)
        if group is None:
            reply(Errors.GROUP_ID_NOT_FOUND, {})
            return
        if isinstance(group, Group) and group.members and group.protocol_type != CONSUMER:
            reply(Errors.NON_EMPTY_GROUP, {})
            return
        outcomes = {
            where: Errors.GROUP_SUBSCRIBED_TO_TOPIC
            if _is_subscribed(group, where.topic)
            else Errors.NONE
            for where in partitions
        }
        latest = group.offsets.latest()
        gone = [w for w, outcome in outcomes.items() if outcome is Errors.NONE and w in latest]
        self._write_in_batches(
            list(_tombstones(group, gone)),
            lambda error: reply(commit_error(error), outcomes if error is Errors.NONE else {}),
        )

    # What goes by itself --------------------------------------------------------------------

    def topics_deleted(self, topics: frozenset[str]) -> Iterator[None]:
        """Forget the offsets of topics that are no more; yields where others may have a turn."""
        for group in self._all():
            gone = [where for where in group.offsets.latest() if where.topic in topics]
            self._write_in_batches(list(_tombstones(group, gone)), _log_failure)
            yield

    def expire(self) -> Iterator[None]:
        """Forget old offsets and groups of which nothing is left; yields like the above."""
        for group in self._all():
            self._expire_group(group)
            yield

    def _expire_group(self, group: AnyGroup) -> None:
        now_ms = self._tools.clock.now_ms()
        gone = expired_offsets(group, now_ms, self._tools.config.retention_ms)
        if gone:
            log.info("group %s: %d committed offsets expire", group.id, len(gone))
            self._write_in_batches(list(_tombstones(group, gone)), _log_failure)
        if is_forgotten(group):
            self._remove(group, [], _log_failure)

    # Groups ---------------------------------------------------------------------------------

    def _remove(self, group: AnyGroup, tombstones: list[ClassicRecord], reply: ErrorReply) -> None:
        """Remove an Empty group for good, its offsets first."""
        if isinstance(group, Group):
            self._remove_classic(group, tombstones, reply)
        else:
            self._remove_consumer(group, tombstones, reply)

    def _remove_classic(
        self, group: Group, tombstones: list[ClassicRecord], reply: ErrorReply
    ) -> None:
        def written(error: Errors) -> None:
            if error is Errors.NONE and self._is_bare(group):
                del self._groups[group.id]
                self._rebalancing.dissolve(group, Errors.UNKNOWN_MEMBER_ID)
            reply(commit_error(error))

        if group.generation:
            tombstones.append(GroupRecord(group.id, None))
        self._write_in_batches(tombstones, written)

    def _remove_consumer(
        self, group: ConsumerGroup, tombstones: list[ClassicRecord], reply: ErrorReply
    ) -> None:
        def written(error: Errors) -> None:
            if error is not Errors.NONE or not self._is_bare(group):
                reply(commit_error(error))
                return
            draft = Draft(group)
            draft.dissolve()
            self._consumers.write(draft, lambda outcome: reply(commit_error(outcome)))

        self._write_in_batches(tombstones, written)

    def _is_bare(self, group: AnyGroup) -> bool:
        """Whether nobody came to the group while it was being removed."""
        return self._find(group.id) is group and _is_empty(group) and not group.offsets

    def _write_in_batches(self, records: list[ClassicRecord], then: ErrorReply) -> None:
        """Write as many batches as it takes; `then` hears of the first failure or the end."""
        if not records:
            then(Errors.NONE)
            return
        batch, rest = records[:_TOMBSTONES_PER_BATCH], records[_TOMBSTONES_PER_BATCH:]

        def written(error: Errors) -> None:
            if error is Errors.NONE and rest:
                self._write_in_batches(rest, then)
            else:
                then(error)

        self._tools.writer.write(batch, written)


def _is_empty(group: AnyGroup) -> bool:
    if isinstance(group, Group):
        return group.state is GroupState.EMPTY
    return not group.members


def _is_subscribed(group: AnyGroup, topic: str) -> bool:
    if not group.members:
        return False
    if isinstance(group, ConsumerGroup):
        return topic in group.subscribed_topics()
    return group.subscribed_topics is None or topic in group.subscribed_topics


def _tombstones(group: AnyGroup, partitions: Iterable[TopicPartition]) -> Iterator[ClassicRecord]:
    return (OffsetRecord(group.id, where, None) for where in partitions)


def _log_failure(error: Errors) -> None:
    if error is not Errors.NONE:
        log.warning("offsets could not be removed, they will be tried again: %s", error.name)
