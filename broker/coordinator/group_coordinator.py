"""The group coordinator of a broker: finds the shard of a group, and keeps house in the shards.

A request for a group that is coordinated elsewhere gets NOT_COORDINATOR; for one whose partition
is being loaded, COORDINATOR_LOAD_IN_PROGRESS.

Expired offsets are looked for at intervals, and offsets of deleted topics are removed when that
is heard of, both in slices, so that no client waits for it.
"""

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Final

from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.consumer_groups import ConsumerTools, Found
from odradek.broker.coordinator.consumer_records import AnyGroupRecord, GroupRecords
from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_config import GroupConfig
from odradek.broker.coordinator.group_shard import GroupShard
from odradek.broker.coordinator.placement import GROUP_TOPIC, partition_for
from odradek.broker.coordinator.rebalancing import GroupTools
from odradek.broker.coordinator.runtime import Blueprint, Runtime
from odradek.broker.coordinator.shard import ShardTools, Writer
from odradek.broker.coordinator.shard_log import ShardLog
from odradek.broker.coordinator.timers import Deadline
from odradek.broker.coordinator.topic_pattern import matches_of
from odradek.broker.coordinator.topic_shapes import Topics
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError

_SLICE_SECONDS: Final = 0.002


class GroupCoordinator:
    def __init__(
        self,
        config: GroupConfig,
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        open_log: Callable[[int, int], ShardLog],
        partition_count: Callable[[], int],
        topics: Callable[[], Topics],
    ) -> None:
        """`open_log` gives the log of a partition of the groups' topic, for a leader epoch;
        `partition_count` says how many partitions the topic has, or will have; `topics` are those
        that consumer groups can be assigned."""
        self.config = config
        self._clock = clock
        self._loop = loop
        self._partition_count = partition_count
        self._topics = topics
        blueprint = Blueprint(
            GROUP_TOPIC, GroupRecords(), self._new_shard, open_log, config.load_buffer_bytes
        )
        tools = ShardTools(clock, loop, config.commit_timeout_ms, config.compression)
        self.runtime: Runtime[AnyGroupRecord, GroupShard] = Runtime(blueprint, tools, loop=loop)
        self._housekeeping = Deadline(loop, clock, self._expire_all)

    def start(self) -> None:
        self._housekeeping.set(self.config.retention_check_interval_ms)

    def close(self) -> None:
        self._housekeeping.clear()
        self.runtime.close()

    def _new_shard(self, writer: Writer[AnyGroupRecord]) -> GroupShard:
        tools = GroupTools(self._clock, self._loop, self.config, writer, _new_id)
        consumer_tools = ConsumerTools(
            self._clock, tools.deadline, self.config, writer, _new_id, self._topics, self._resolve
        )
        return GroupShard(tools, consumer_tools)

    def _resolve(
        self,
        patterns: Collection[str],
        names: Collection[str],
        found: Callable[[Found], None],
    ) -> None:
        """In a thread: there may be many topics, and clients wait for the loop."""

        def done(future: "asyncio.Future[dict[str, frozenset[str]]]") -> None:
            if not future.cancelled():
                found(future.result())

        work = self._loop.run_in_executor(None, matches_of, tuple(patterns), tuple(names))
        work.add_done_callback(done)

    # Requests -------------------------------------------------------------------------------

    def shard_of(self, group_id: str) -> GroupShard:
        """The shard that keeps the group. Raises KafkaError when it is not served here now."""
        return self.runtime.state(partition_for(group_id, self._partition_count()))

    def members_shard(self, group_id: str) -> GroupShard:
        """The same for requests of members: consumers outside of groups may have no group name,
        and administrators may clean up after them; members must have one."""
        if not group_id:
            raise KafkaError(Errors.INVALID_GROUP_ID)
        return self.shard_of(group_id)

    def groups(self) -> Iterator[Group | ConsumerGroup]:
        for shard in self.runtime.active_states():
            yield from shard.groups.values()
            yield from shard.consumers.groups.values()

    # Housekeeping ---------------------------------------------------------------------------

    def topics_deleted(self, topics: frozenset[str]) -> None:
        shards = self.runtime.active_states()
        self._work(chain.from_iterable(shard.removal.topics_deleted(topics) for shard in shards))

    def _expire_all(self) -> None:
        shards = self.runtime.active_states()
        self._work(chain.from_iterable(shard.removal.expire() for shard in shards))
        self._housekeeping.set(self.config.retention_check_interval_ms)

    def _work(self, steps: Iterator[None]) -> None:
        """Go through the steps, a slice of time in each turn of the loop."""
        end = self._clock.monotonic() + _SLICE_SECONDS
        for _ in steps:
            if self._clock.monotonic() >= end:
                self._loop.call_soon(self._work, steps)
                return


def _new_id() -> str:
    return str(uuid.uuid4())
