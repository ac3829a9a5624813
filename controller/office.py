"""The store as the controller in office writes to it: every write fenced by its epoch.

Each multi begins with a check of the epoch node's version. When that check fails another controller
has been elected, and `Deposed` ends the term. Other failures mean that the controller's picture is
older than the store; they pass through as they are, and the controller reads everything again.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from odradek.controller import paths
from odradek.controller.campaign import Won
from odradek.controller.image import Topic
from odradek.controller.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataStore,
    NodeExists,
    NoNode,
    Operation,
    Result,
    Set,
    Stat,
)
from odradek.controller.znodes import PartitionState, TopicAssignment
from odradek.protocol.types import TopicPartition

# Partitions per multi: some 10 KB, far below what ZooKeeper takes in one request, and few enough
# that the embedded store applies it in 3 ms.
BATCH = 50
WRITES_AT_ONCE = 2
READS_AT_ONCE = 100

Item = TypeVar("Item")
Value = TypeVar("Value")

States = Mapping[TopicPartition, PartitionState]


class Deposed(Exception):
    """Another controller has been elected."""


class Office:
    def __init__(self, store: MetadataStore, won: Won) -> None:
        self._store = store
        self._won = won

    @property
    def epoch(self) -> int:
        return self._won.epoch

    async def write(
        self, operations: Sequence[Operation], *, settled: frozenset[str] = frozenset()
    ) -> dict[str, Result]:
        """Write all or nothing; results by path.

        A creation or deletion of a path in `settled` is left out when it has happened already.
        """
        fence = Check(paths.CONTROLLER_EPOCH, self._won.epoch_version)
        todo = list(operations)
        while True:
            try:
                results = await self._store.multi([fence, *todo])
                return dict(zip((op.path for op in todo), results[1:], strict=True))
            except (BadVersion, NoNode, NodeExists) as error:
                if error.index == 0:
                    raise Deposed(f"epoch {self.epoch} is over") from error
                if error.index is None:
                    raise
                # Callers count their own operations, without the fence.
                error.index -= 1
                if not _is_settled(todo[error.index], error, settled):
                    raise
                del todo[error.index]

    async def store_states(self, states: States) -> dict[TopicPartition, PartitionState]:
        """Write partition states, comparing versions; gives them back with their new ones."""
        batches = _batches(states.items(), BATCH)
        writes = (self._store_batch(dict(batch)) for batch in batches)
        stored = await together(writes, at_once=WRITES_AT_ONCE)
        return {where: state for batch in stored for where, state in batch.items()}

    async def _store_batch(self, states: States) -> dict[TopicPartition, PartitionState]:
        parents: dict[str, None] = {}
        writes: list[Operation] = []
        for where, state in states.items():
            path = paths.partition_state(where)
            if state.partition_epoch >= 0:
                writes.append(Set(path, state.encode(), state.partition_epoch))
                continue
            parents[paths.partitions(where.topic)] = None
            parents[paths.partition(where)] = None
            writes.append(Create(path, state.encode()))
        operations = [*(Create(path) for path in parents), *writes]
        results = await self.write(operations, settled=frozenset(parents))
        return {
            where: replace(state, partition_epoch=_version(results[paths.partition_state(where)]))
            for where, state in states.items()
        }

    async def store_topics(self, topics: Iterable[Topic]) -> list[Topic]:
        """Write topic nodes, comparing versions; gives them back with their new ones."""
        return await together(self._store_topic(topic) for topic in topics)

    async def _store_topic(self, topic: Topic) -> Topic:
        data = TopicAssignment(topic.id, topic.assignments).encode()
        path = paths.topic(topic.name)
        results = await self.write([Set(path, data, topic.version)])
        return replace(topic, version=_version(results[path]))

    async def remove_topic(self, name: str) -> None:
        """Delete all of a topic's nodes. The mark that it is being deleted goes with the last."""
        root = paths.topic(name)
        below = [path for path in await subtree(self._store, root) if path != root]
        for batch in _batches(below, BATCH):
            await self.write([Delete(path) for path in batch], settled=frozenset(batch))
        last = [root, paths.config(f"topics/{name}"), paths.deletion(name)]
        await self.write([Delete(path) for path in last], settled=frozenset(last))

    async def remove(self, path: str) -> None:
        """Delete one node, if it is still there."""
        await self.write([Delete(path)], settled=frozenset({path}))


def _is_settled(operation: Operation, error: Exception, settled: frozenset[str]) -> bool:
    if operation.path not in settled:
        return False
    if isinstance(operation, Create):
        return isinstance(error, NodeExists)
    return isinstance(operation, Delete) and isinstance(error, NoNode)


def _version(result: Result) -> int:
    """Of a node just set, or just created."""
    return result.version if isinstance(result, Stat) else 0


async def subtree(store: MetadataStore, root: str) -> list[str]:
    """A node and everything below it, children before their parents."""
    try:
        names = await store.children(root)
    except NoNode:
        return []
    below = await together(subtree(store, f"{root}/{name}") for name in names)
    return [path for paths_below in below for path in paths_below] + [root]


async def together(
    calls: Iterable[Coroutine[None, None, Value]], *, at_once: int = READS_AT_ONCE
) -> list[Value]:
    """Await calls, some at once; when one fails, those that had begun end first.

    Bounded, for a store in the process answers without waiting: a thousand calls at once would hold
    up everything else on the loop.
    """
    values: list[Value] = []
    for batch in _batches(calls, at_once):
        for outcome in await asyncio.gather(*batch, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            values.append(outcome)
    return values


def _batches(items: Iterable[Item], size: int) -> Iterable[list[Item]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
