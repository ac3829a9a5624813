"""Where records gather until they are sent: a queue of batches for each partition.

The hot path of a producer ends here: `Lane` holds what `send` needs of a topic, so that a record
costs a few look-ups and one list append. Memory is reserved by the batch, not by the record.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from odradek.client.batch import ORDER_SPAN, Batch, Outcome
from odradek.client.memory import BufferMemory
from odradek.client.partitioner import Partitioner
from odradek.client.queue import PartitionQueue
from odradek.client.view import TopicView
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition


class Lane:
    """One topic: its queues by partition and its partitioner."""

    __slots__ = ("available", "partitioner", "queues", "topic")

    def __init__(self, topic: str, partitioner: Partitioner) -> None:
        self.topic = topic
        self.partitioner = partitioner
        self.queues: list[PartitionQueue] = []
        self.available: Sequence[int] = ()

    def follow(self, view: TopicView) -> None:
        """Take over how many partitions there are and which have a leader."""
        for index in range(len(self.queues), view.partition_count):
            self.queues.append(PartitionQueue(TopicPartition(self.topic, index)))
        self.available = [row.index for row in view.partitions.values() if row.leader >= 0]


class Accumulator:
    def __init__(
        self,
        *,
        batch_bytes: int,
        memory: BufferMemory,
        linger_s: float,
        on_ready: Callable[[PartitionQueue], None],
        lanes: dict[str, Lane],
    ) -> None:
        self.memory = memory
        self.lanes = lanes
        self._batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._on_ready = on_ready
        self._loop = asyncio.get_running_loop()
        self._orders = 0
        # Everything that has no outcome yet, in the order it was begun.
        self._unsettled: dict[int, Batch] = {}
        self._flushes: list[tuple[int, asyncio.Future[None]]] = []
        self._lingering: deque[tuple[float, Batch, PartitionQueue]] = deque()
        self._linger_timer: asyncio.TimerHandle | None = None

    def queues(self) -> Iterator[PartitionQueue]:
        for lane in self.lanes.values():
            yield from lane.queues

    async def begin_batch(
        self, queue: PartitionQueue, first_record_bytes: int, timeout_s: float
    ) -> Batch:
        """A new open batch for the queue, as soon as there is memory for it."""
        self.close_batch(queue)
        wanted = max(self._batch_bytes, first_record_bytes)
        if not self.memory.try_reserve(wanted):
            self.hurry()
            await self.memory.reserve(wanted, timeout_s)
        if queue.open is not None:
            # Somebody else began one while we waited.
            self.memory.release(wanted)
            return queue.open
        self._orders += ORDER_SPAN
        batch = Batch(queue.partition, self._orders, self._loop.time(), self._batch_bytes)
        batch.reserved_bytes = wanted
        self._unsettled[batch.order] = batch
        queue.waiting.append(batch)
        queue.open = batch
        if self._linger_s > 0:
            self._linger(batch, queue)
        else:
            batch.is_ripe = True
            self._on_ready(queue)
        return batch

    def close_batch(self, queue: PartitionQueue) -> bool:
        """Take no more records into the open batch; it is ready to go.

        Whether the partitioner would now choose another partition.
        """
        if queue.open is None:
            return False
        queue.open = None
        self._on_ready(queue)
        topic, index = queue.partition
        return self.lanes[topic].partitioner.batch_is_full(index)

    def settle(self, batch: Batch, outcome: Outcome) -> None:
        """Make the outcome known and give the memory back."""
        parent = batch.parent
        if parent is not None:
            batch.settle(outcome)
            if all(part.outcome is not None for part in parent.parts):
                self.settle(parent, outcome)
            return
        del self._unsettled[batch.order]
        if batch.reserved_bytes:
            self.memory.release(batch.reserved_bytes)
        batch.settle(outcome)
        if self._flushes:
            self._end_flushes()

    async def flush(self) -> None:
        """Wait until everything begun so far has its outcome."""
        for queue in self.queues():
            self.close_batch(queue)
        if not self._unsettled:
            return
        done: asyncio.Future[None] = self._loop.create_future()
        self._flushes.append((self._orders, done))
        await done

    def hurry(self) -> None:
        """Send what there is: somebody waits for memory."""
        for queue in self.queues():
            if queue.open is not None and queue.open.records:
                self.close_batch(queue)

    def fail_waiting(self, error: KafkaError) -> bool:
        """Give up all batches that are not under way; whether any of them had been before."""
        any_attempted = False
        for queue in self.queues():
            queue.open = None
            while queue.waiting:
                batch = queue.waiting.popleft()
                if batch.attempts:
                    queue.has_gap = any_attempted = True
                self.settle(batch, Outcome(error=error))
        return any_attempted

    @property
    def unsettled(self) -> int:
        return len(self._unsettled)

    def _end_flushes(self) -> None:
        oldest = next(iter(self._unsettled), self._orders + 1)
        waiting = self._flushes
        self._flushes = [(order, done) for order, done in waiting if order >= oldest]
        for order, done in waiting:
            if order < oldest and not done.done():
                done.set_result(None)

    def _linger(self, batch: Batch, queue: PartitionQueue) -> None:
        self._lingering.append((batch.created_at + self._linger_s, batch, queue))
        if self._linger_timer is None:
            self._linger_timer = self._loop.call_at(self._lingering[0][0], self._lingered)

    def _lingered(self) -> None:
        now = self._loop.time()
        while self._lingering and self._lingering[0][0] <= now:
            _, batch, queue = self._lingering.popleft()
            batch.is_ripe = True
            if queue.open is batch:
                self._on_ready(queue)
        self._linger_timer = None
        if self._lingering:
            self._linger_timer = self._loop.call_at(self._lingering[0][0], self._lingered)
