"""Where a consumer begins, and whether it still is where it was.

A partition without a position gets the group's committed one, or one looked up by
auto.offset.reset. When a partition has a new leader, the position is checked against that leader's
log: records that were read but are not in it any more mean that the log was truncated, and reading
must go on where the logs part (KIP-320).

One task at a time does all of this beside the application's polls.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from odradek.client.cluster import Cluster
from odradek.client.group_offsets import committed_offsets
from odradek.client.offsets import EARLIEST, LATEST, EpochEnd, end_of_epochs, list_offsets
from odradek.client.partition_state import NO_EPOCH, NO_POSITION, PartitionState
from odradek.client.settings import ConsumerSettings
from odradek.client.subscription import Subscription
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}


class Positions:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscription: Subscription,
        on_news: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._subscription = subscription
        self._on_news = on_news
        self._reset = RESETS[settings.auto_offset_reset]
        self._timeout_s = settings.default_api_timeout_ms / 1000
        self._task: asyncio.Task[None] | None = None
        cluster.on_change(self._look_for_new_leaders)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def work(self) -> None:
        """Begin whatever is to be done. Raises what went wrong before."""
        if self._task is not None:
            if not self._task.done():
                return
            task, self._task = self._task, None
            task.result()
        if self._missing() or self._resetting() or self._unvalidated():
            self._task = asyncio.get_running_loop().create_task(self._settle())
            self._task.add_done_callback(lambda task: self._on_news())

    async def settle(self) -> None:
        """Do it now and wait for it."""
        while self._missing() or self._resetting() or self._unvalidated():
            self.work()
            if self._task is not None:
                await asyncio.shield(self._task)

    def _states(self) -> Iterable[PartitionState]:
        return list(self._subscription.partitions.values())

    def _missing(self) -> list[PartitionState]:
        return [s for s in self._states() if s.position == NO_POSITION and s.reset_to is None]

    def _resetting(self) -> list[PartitionState]:
        return [s for s in self._states() if s.reset_to is not None]

    def _unvalidated(self) -> list[PartitionState]:
        return [s for s in self._states() if s.needs_validation and s.has_position]

    async def _settle(self) -> None:
        if missing := self._missing():
            await self._begin(missing)
        if resetting := self._resetting():
            await self._look_up(resetting)
        if unvalidated := self._unvalidated():
            await self._validate(unvalidated)

    async def _begin(self, states: list[PartitionState]) -> None:
        """Go on where the group left off."""
        committed = {}
        if self._settings.group_id is not None:
            committed = await committed_offsets(
                self._cluster,
                self._settings.group_id,
                [state.partition for state in states],
                timeout_s=self._timeout_s,
            )
        for state in states:
            if state.position != NO_POSITION or state.reset_to is not None:
                continue
            found = committed.get(state.partition)
            if found is not None:
                state.seek(found.offset, found.leader_epoch)
            elif self._reset is None:
                message = f"{state.partition} has no committed offset and no auto.offset.reset"
                raise KafkaError(Errors.OFFSET_OUT_OF_RANGE, message)
            else:
                state.reset(self._reset)

    async def _look_up(self, states: list[PartitionState]) -> None:
        asked = {s.partition: s.reset_to for s in states if s.reset_to is not None}
        found = await list_offsets(
            self._cluster,
            asked,
            timeout_s=self._timeout_s,
            read_committed=self._settings.isolation_level == "read_committed",
        )
        for state in states:
            row = found.get(state.partition)
            if row is not None and state.reset_to == asked[state.partition]:
                state.seek(row.offset)

    async def _validate(self, states: list[PartitionState]) -> None:
        epochs = {s.partition: s.position_epoch for s in states}
        before = {s.partition: (s.era, s.position) for s in states}
        ends = await end_of_epochs(self._cluster, epochs, self._timeout_s)
        for state in states:
            if before[state.partition][0] != state.era:
                continue
            end = ends.get(state.partition)
            if end is not None and is_truncated(end, *before[state.partition][1:]):
                self._truncate(state, end)
            state.needs_validation = False
            state.validated_epoch = self._leader_epoch(state.partition)

    def _truncate(self, state: PartitionState, end: EpochEnd) -> None:
        where = f"{state.partition}: the log ends at {end.end_offset} before {state.position}"
        if self._reset is None:
            state.error = KafkaError(Errors.OFFSET_OUT_OF_RANGE, f"{where}: it was truncated")
            return
        log.warning("%s: it was truncated; going on from there", where)
        if end.end_offset >= 0:
            state.seek(end.end_offset, NO_EPOCH)
        else:
            state.reset(self._reset)

    def _leader_epoch(self, partition: TopicPartition) -> int:
        known = self._cluster.view.partition(partition)
        return NO_EPOCH if known is None else known.leader_epoch

    def _look_for_new_leaders(self) -> None:
        for state in self._states():
            if state.position_epoch == NO_EPOCH or not state.has_position:
                continue
            epoch = self._leader_epoch(state.partition)
            if epoch > max(state.validated_epoch, state.position_epoch):
                state.needs_validation = True
                self._on_news()

    def out_of_range(self, state: PartitionState) -> None:
        """The broker has no such offset: begin again as auto.offset.reset says, or raise."""
        error, state.error = state.error, None
        assert error is not None
        if self._reset is None or error.error is not Errors.OFFSET_OUT_OF_RANGE:
            raise error
        log.warning("%s; resets to %s", error, self._settings.auto_offset_reset)
        state.reset(self._reset)


def is_truncated(end: EpochEnd, position: int) -> bool:
    """Whether records before the position are not in the leader's log any more."""
    return end.epoch < 0 or end.end_offset < position
