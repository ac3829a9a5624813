"""Moves batches from their queues to the leaders of their partitions and hears what became of them.

No task per batch: queues that may have something to send are marked, and one `pump` on the loop
takes what may leave, one batch of each partition a request, up to the limits of requests under way
and of their size. Answers come back as callbacks and mark queues again.
"""

import asyncio
import logging
from collections import defaultdict
from enum import Enum, auto
from functools import partial
from typing import Final, Protocol

from odradek.client.accumulator import Accumulator
from odradek.client.batch import Batch, Outcome
from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.nodes import Channel
from odradek.client.queue import Identity, PartitionQueue
from odradek.client.settings import ProducerSettings
from odradek.client.view import Node
from odradek.protocol.compression import Codec
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import ProducerStamp
from odradek.protocol.schema import Response
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

# The last version that names topics; version 12 also joins partitions to transactions by itself.
NEWEST_PRODUCE: Final = 12
NEWEST_PRODUCE_BEFORE_TV2: Final = 11
EXPIRY_CHECK_S: Final = 0.5

STALE_METADATA: Final = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.LISTENER_NOT_FOUND,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.NETWORK_EXCEPTION,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_ID,
    }
)
# The broker did not write the batch, because its number does not fit what it knows.
WRONG_NUMBER: Final = frozenset(
    {Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, Errors.UNKNOWN_PRODUCER_ID, Errors.INVALID_PRODUCER_EPOCH}
)


class Verdict(Enum):
    WRITTEN = auto()
    AGAIN = auto()
    RENUMBER = auto()
    SPLIT = auto()
    FAILED = auto()


def verdict(error: Errors, records: int, *, is_idempotent: bool, is_transactional: bool) -> Verdict:
    """What an answer means for its batch."""
    if error in (Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.WRITTEN
    if error is Errors.MESSAGE_TOO_LARGE and records > 1:
        return Verdict.SPLIT
    if error in WRONG_NUMBER and is_idempotent and not is_transactional:
        return Verdict.RENUMBER
    if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER and is_transactional:
        return Verdict.RENUMBER
    return Verdict.AGAIN if error.retriable else Verdict.FAILED


class Gate(Protocol):
    """What a transaction has to say about sending."""

    @property
    def is_transactional(self) -> bool: ...

    @property
    def transactional_id(self) -> str | None: ...

    @property
    def uses_v2(self) -> bool:
        """Whether produce requests join their partitions to the transaction."""
        ...

    @property
    def identity(self) -> Identity: ...

    @property
    def gives_up(self) -> bool:
        """Whether batches that failed are not worth another try."""
        ...

    def may_send(self, partition: TopicPartition) -> bool: ...

    def batch_failed(self, batch: Batch, error: KafkaError) -> None: ...

    def renew(self) -> None:
        """The identity cannot go on: get another epoch or id, and call back when it is there."""
        ...


class Leader:
    """Requests under way to one broker."""

    __slots__ = ("connecting", "in_flight", "is_missed")

    def __init__(self) -> None:
        self.in_flight = 0
        self.is_missed = False
        self.connecting: asyncio.Task[None] | None = None


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        *,
        codec: Codec,
        is_idempotent: bool,
        gate: Gate,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._codec = codec
        self._is_idempotent = is_idempotent
        self._gate = gate
        self._acks = -1 if settings.acks == "all" else int(settings.acks)
        self._loop = asyncio.get_running_loop()
        self._leaders: defaultdict[int, Leader] = defaultdict(Leader)
        self._marked: dict[PartitionQueue, None] = {}
        self._is_pumping = False
        self._wake: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.accumulator: Accumulator
        cluster.on_change(self.pump_soon)

    def mark(self, queue: PartitionQueue) -> None:
        """The queue may have something to send."""
        self._marked[queue] = None
        if not self._is_pumping:
            self.pump_soon()

    def mark_all(self) -> None:
        for queue in self.accumulator.queues():
            if queue.waiting:
                self.mark(queue)

    def pump_soon(self) -> None:
        if not self._is_pumping and not self._is_closed:
            self._is_pumping = True
            self._loop.call_soon(self._pump)
            if self._expiry is None:
                self._expiry = self._loop.call_later(EXPIRY_CHECK_S, self._expire)

    async def close(self) -> None:
        self._is_closed = True
        for timer in (self._wake, self._expiry):
            if timer is not None:
                timer.cancel()
        tasks = [leader.connecting for leader in self._leaders.values() if leader.connecting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _pump(self) -> None:
        self._is_pumping = False
        while self._marked and not self._is_closed and self._pump_once():
            continue

    def _pump_once(self) -> bool:
        """Send at most one request to every broker; whether there was any."""
        now = self._loop.time()
        requests: dict[int, tuple[Connection, list[Batch]]] = {}
        sizes: dict[int, int] = defaultdict(int)
        for queue in list(self._marked):
            if not self._may_leave(queue, now):
                continue
            leader = self._cluster.view.leader_of(queue.partition)
            if leader is None:
                self._cluster.refresh_soon()
                continue
            connection = self._ready_connection(leader)
            if connection is None:
                continue
            size_bytes = queue.waiting[0].size_bytes
            if sizes[leader.id] and sizes[leader.id] + size_bytes > self._settings.max_request_size:
                continue
            if self._is_idempotent:
                queue.number(self._gate.identity)
            sizes[leader.id] += size_bytes
            requests.setdefault(leader.id, (connection, []))[1].append(queue.take())
            if not queue.waiting:
                del self._marked[queue]
        for node_id, (connection, batches) in requests.items():
            self._send(node_id, connection, batches)
        return bool(requests)

    def _may_leave(self, queue: PartitionQueue, now: float) -> bool:
        """Whether the queue's first batch may go now. If not, either an answer, a timer or new
        metadata marks the queue again, or it stays marked."""
        if not queue.may_send():
            del self._marked[queue]
            return False
        if now < queue.not_before:
            self._wake_at(queue.not_before)
            return False
        if not self._gate.may_send(queue.partition):
            return False
        if not self._is_idempotent:
            return True
        if queue.needs_new_epoch(self._gate.identity):
            self._gate.renew()
        identity = self._gate.identity
        return identity.is_known and queue.may_number(identity)

    def _wake_at(self, when: float) -> None:
        if self._wake is not None:
            if self._wake.when() <= when:
                return
            self._wake.cancel()
        self._wake = self._loop.call_at(when, self._woken)

    def _woken(self) -> None:
        self._wake = None
        self.pump_soon()

    def _ready_connection(self, node: Node) -> Connection | None:
        """The connection to a broker that may be given another request."""
        leader = self._leaders[node.id]
        if leader.in_flight >= self._settings.max_in_flight_requests_per_connection:
            return None
        connection = self._cluster.nodes.connected(node, Channel.DATA)
        if connection is None and leader.connecting is None:
            leader.connecting = self._loop.create_task(self._connect(node, leader))
        return connection

    async def _connect(self, node: Node, leader: Leader) -> None:
        try:
            await self._cluster.nodes.connect(node, Channel.DATA)
            leader.is_missed = False
        except KafkaError as error:
            # Said once for each time that it is away.
            log.log(logging.DEBUG if leader.is_missed else logging.WARNING, "%s", error)
            leader.is_missed = True
            self._cluster.refresh_soon()
        finally:
            leader.connecting = None
            self.pump_soon()

    def _send(self, node_id: int, connection: Connection, batches: list[Batch]) -> None:
        try:
            request = self._request(batches)
            newest = NEWEST_PRODUCE
            if self._gate.is_transactional and not self._gate.uses_v2:
                newest = NEWEST_PRODUCE_BEFORE_TV2
            version = connection.version_of(ProduceRequest, newest)
            if self._acks == 0:
                connection.send_unanswered(request, version=version)
                for batch in batches:
                    self._settle(batch, Outcome())
                return
            answered = partial(self._answered, node_id, batches)
            connection.send_then(request, answered, version=version)
        except KafkaError as error:
            for batch in batches:
                self._judge(batch, error)
            return
        self._leaders[node_id].in_flight += 1

    def _request(self, batches: list[Batch]) -> ProduceRequest:
        by_topic: dict[str, list[PartitionProduceData]] = {}
        is_transactional = self._gate.is_transactional
        for batch in batches:
            stamp = ProducerStamp(*batch.producer, batch.base_sequence, is_transactional)
            data = PartitionProduceData(
                index=batch.partition.partition, records=batch.seal(self._codec, stamp)
            )
            by_topic.setdefault(batch.partition.topic, []).append(data)
        return ProduceRequest(
            transactional_id=self._gate.transactional_id,
            acks=self._acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=topic, partition_data=data)
                for topic, data in by_topic.items()
            ],
        )

    def _answered(self, node_id: int, batches: list[Batch], answer: Response | KafkaError) -> None:
        self._leaders[node_id].in_flight -= 1
        if isinstance(answer, KafkaError):
            for batch in batches:
                self._judge(batch, answer)
        else:
            assert isinstance(answer, ProduceResponse)
            self._read_answer(batches, answer)
        if self._marked:
            self.pump_soon()

    def _read_answer(self, batches: list[Batch], response: ProduceResponse) -> None:
        rows = {
            (topic.name, row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        for batch in batches:
            row = rows.get(batch.partition)
            if row is None:
                self._judge(batch, KafkaError(Errors.UNKNOWN_SERVER_ERROR, "no answer for it"))
            elif not row.error_code:
                self._settle(batch, Outcome(row.base_offset, row.log_append_time_ms))
            else:
                self._note_leader(batch.partition, row, response)
                self._judge(batch, KafkaError(Errors.of(row.error_code), row.error_message))

    def _note_leader(
        self, partition: TopicPartition, row: PartitionProduceResponse, response: ProduceResponse
    ) -> None:
        hint = row.current_leader
        if hint is None or hint.leader_id < 0:
            return
        for node in response.node_endpoints:
            if node.node_id == hint.leader_id:
                leader = Node(node.node_id, node.host, node.port, node.rack)
                self._cluster.note_leader(partition, leader, hint.leader_epoch)

    def _queue_of(self, batch: Batch) -> PartitionQueue:
        return self.accumulator.lanes[batch.partition.topic].queues[batch.partition.partition]

    def _settle(self, batch: Batch, outcome: Outcome) -> None:
        queue = self._queue_of(batch)
        queue.written(batch)
        queue.failures = 0
        if queue.waiting:
            self._marked[queue] = None
        self.accumulator.settle(batch, outcome)

    def _judge(self, batch: Batch, error: KafkaError) -> None:
        """Act on what went wrong with a batch that was under way."""
        queue = self._queue_of(batch)
        ruling = verdict(
            error.error,
            len(batch.records),
            is_idempotent=self._is_idempotent,
            is_transactional=self._gate.is_transactional,
        )
        if error.error in STALE_METADATA:
            self._cluster.refresh_soon()
        if ruling is Verdict.WRITTEN:
            self._settle(batch, Outcome())
        elif ruling is Verdict.SPLIT:
            queue.replace_with(batch, batch.halved())
            self.mark(queue)
        elif self._may_repeat(ruling, batch, queue, error):
            self._again(batch, queue, error)
        else:
            self._fail(batch, queue, error)

    def _may_repeat(
        self, ruling: Verdict, batch: Batch, queue: PartitionQueue, error: KafkaError
    ) -> bool:
        if ruling is Verdict.RENUMBER:
            return self._may_renumber(batch, queue, error)
        return ruling is Verdict.AGAIN and self._has_time(batch)

    def _may_renumber(self, batch: Batch, queue: PartitionQueue, error: KafkaError) -> bool:
        batch.is_refused = True
        if queue.is_first(batch):
            if self._gate.is_transactional:
                return False
            if not queue.has_gap:
                log.warning("%s: %s; goes on under a new epoch", batch.partition, error)
            queue.has_gap = True
        return self._has_time(batch)

    def _has_time(self, batch: Batch) -> bool:
        if self._gate.gives_up:
            return False
        late = self._loop.time() - batch.created_at >= self._settings.delivery_timeout_ms / 1000
        return batch.attempts <= self._settings.retries and not late

    def _again(self, batch: Batch, queue: PartitionQueue, error: KafkaError) -> None:
        log.debug("%s: %s; sent again", batch.partition, error)
        queue.put_back(batch)
        queue.failures += 1
        queue.not_before = self._loop.time() + self._cluster.backoff.pause_s(queue.failures)
        self.mark(queue)

    def _fail(self, batch: Batch, queue: PartitionQueue, error: KafkaError) -> None:
        queue.settled(batch)
        if batch.attempts:
            queue.has_gap = True
        log.warning("%s: %d records failed: %s", batch.partition, len(batch.records), error)
        self._gate.batch_failed(batch, error)
        self.mark(queue)
        self.accumulator.settle(batch, Outcome(error=error))

    def _expire(self) -> None:
        """Fail the batches that waited longer than delivery.timeout.ms."""
        self._expiry = None
        if self._is_closed or not self.accumulator.unsettled:
            return
        oldest = self._loop.time() - self._settings.delivery_timeout_ms / 1000
        for queue in self.accumulator.queues():
            while queue.waiting and queue.waiting[0].created_at <= oldest:
                batch = queue.waiting.popleft()
                if batch is queue.open:
                    queue.open = None
                message = f"{batch.partition}: not delivered in time"
                self._fail(batch, queue, KafkaError(Errors.REQUEST_TIMED_OUT, message))
        self._expiry = self._loop.call_later(EXPIRY_CHECK_S, self._expire)
