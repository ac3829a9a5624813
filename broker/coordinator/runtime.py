"""The shards of a coordinator: one for each partition of its topic that this broker leads.

A partition is in one of these states here:

    unknown    another broker leads it: NOT_COORDINATOR
    loading    its log is being replayed: COORDINATOR_LOAD_IN_PROGRESS
    active     requests are served
    failed     its log could not be read: NOT_COORDINATOR, until a new leader epoch

`elected` and `resigned` carry the leader epoch, and what is older than what is known is ignored:
the two may arrive late or twice. A newer epoch of our own drops the state of the older one and
loads again, because another broker may have led in between.

Owned by the event loop.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from odradek.broker.coordinator.loading import load
from odradek.broker.coordinator.shard import (
    Place,
    RecordCodec,
    Shard,
    ShardState,
    ShardTools,
    Writer,
)
from odradek.broker.coordinator.shard_log import ShardLog
from odradek.protocol.errors import Errors, KafkaError, ProtocolError

log: Final = logging.getLogger(__name__)

R = TypeVar("R")
S = TypeVar("S", bound=ShardState)  # type: ignore[type-arg]


class Blueprint(NamedTuple, Generic[R, S]):
    """How the shards of one kind of coordinator are made."""

    topic: str
    codec: RecordCodec[R]
    make_state: Callable[[Writer[R]], S]
    open_log: Callable[[int, int], ShardLog]
    """The log of a partition, for a leader epoch."""
    load_buffer_bytes: int


class _Entry(Generic[R, S]):
    """A partition that this broker leads or led."""

    __slots__ = ("epoch", "is_failed", "loader", "shard", "state")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.shard: Shard[R] | None = None
        self.state: S | None = None
        self.loader: asyncio.Task[None] | None = None
        self.is_failed = False

    @property
    def is_active(self) -> bool:
        return self.shard is not None and self.loader is None and not self.is_failed


class Runtime(Generic[R, S]):
    def __init__(
        self,
        blueprint: Blueprint[R, S],
        tools: ShardTools,
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._blueprint = blueprint
        self._tools = tools
        self._loop = loop
        self._entries: dict[int, _Entry[R, S]] = {}
        # Partitions load one after the other: the slices of many at once would add up.
        self._turn = asyncio.Semaphore(1)

    # Who asks -------------------------------------------------------------------------------

    def state(self, partition: int) -> S:
        """The state of an active shard. Raises KafkaError for every other partition."""
        entry = self._entries.get(partition)
        if entry is None or entry.shard is None or entry.is_failed:
            raise KafkaError(Errors.NOT_COORDINATOR)
        if entry.loader is not None:
            raise KafkaError(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        assert entry.state is not None
        return entry.state

    def active_states(self) -> Iterator[S]:
        for entry in list(self._entries.values()):
            if entry.is_active and entry.state is not None:
                yield entry.state

    @property
    def is_loading(self) -> bool:
        return any(entry.loader is not None for entry in self._entries.values())

    async def wait_loaded(self) -> None:
        """Wait until no partition is loading."""
        while loaders := [e.loader for e in self._entries.values() if e.loader is not None]:
            await asyncio.wait(loaders)

    def end_transaction(
        self, partition: int, producer_id: int, *, offset: int, committed: bool
    ) -> None:
        """A marker was appended to the partition by whoever coordinates the transaction."""
        entry = self._entries.get(partition)
        if entry is not None and entry.is_active and entry.state is not None:
            place = Place(offset, producer_id)
            entry.state.end_transaction(producer_id, place, committed=committed)

    # Leadership -----------------------------------------------------------------------------

    def elected(self, partition: int, epoch: int) -> None:
        """This broker leads the partition from this epoch on."""
        known = self._entries.get(partition)
        if known is not None:
            if epoch <= known.epoch:
                return
            self._drop(known)
        entry: _Entry[R, S] = _Entry(epoch)
        self._entries[partition] = entry
        entry.shard = Shard(
            self._blueprint.open_log(partition, epoch),
            epoch,
            self._blueprint.codec,
            self._tools,
        )
        entry.shard.state = entry.state = self._blueprint.make_state(entry.shard)
        entry.loader = self._loop.create_task(self._load(partition, entry, entry.shard))

    def resigned(self, partition: int, epoch: int | None = None) -> None:
        """Another broker leads from this epoch on; None: the partition is gone from here."""
        known = self._entries.get(partition)
        if known is None:
            if epoch is not None:
                self._entries[partition] = _Entry(epoch)
            return
        if epoch is None:
            del self._entries[partition]
        elif epoch < known.epoch or (epoch == known.epoch and known.shard is None):
            return
        else:
            known.epoch = epoch
        self._drop(known)

    def close(self) -> None:
        """The broker goes: everybody is told to look for another coordinator."""
        entries, self._entries = self._entries, {}
        for entry in entries.values():
            self._drop(entry)

    def _drop(self, entry: _Entry[R, S]) -> None:
        if entry.loader is not None:
            entry.loader.cancel()
            entry.loader = None
        if entry.shard is not None:
            entry.shard.close()
            entry.shard = entry.state = None

    async def _load(self, partition: int, entry: _Entry[R, S], shard: Shard[R]) -> None:
        name = f"{self._blueprint.topic}-{partition}"
        try:
            async with self._turn:
                count = await load(
                    shard,
                    self._blueprint.codec,
                    buffer_bytes=self._blueprint.load_buffer_bytes,
                    clock=self._tools.clock,
                )
        except (KafkaError, ProtocolError) as error:
            log.error("%s could not be loaded in epoch %d: %s", name, entry.epoch, error)
            entry.is_failed = True
        else:
            level = logging.INFO if count else logging.DEBUG
            log.log(level, "%s is loaded: %d records, epoch %d", name, count, entry.epoch)
            shard.state.begin()
        entry.loader = None
