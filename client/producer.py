"""The producer: records in, metadata or an error out.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("orders", b"value", key=b"key")   # accepted, on its way
        metadata = await delivery                                        # written
        await producer.send_and_wait("orders", b"value")                 # both in one
        await producer.send("orders", b"value", on_delivery=report)      # called back

`send` returns as soon as the record has a place in a batch; it waits only for metadata of a new
topic and, when the buffer is full, for memory (max.block.ms). A record that nobody waits for is
still retried until delivery.timeout.ms. Everything runs on one event loop; nothing is thread-safe.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Self

from odradek.client.accumulator import Accumulator, Lane
from odradek.client.batch import Batch, Delivery, record_bytes
from odradek.client.cluster import Cluster
from odradek.client.connection import Dial, dial_tcp
from odradek.client.identity import Idempotence
from odradek.client.memory import BufferMemory
from odradek.client.partitioner import Partitioner, StickyPartitioner
from odradek.client.sender import Sender
from odradek.client.settings import Given, ProducerSettings, configured
from odradek.client.transactions import Transactions
from odradek.client.values import (
    GroupMetadata,
    OffsetAndMetadata,
    OnDelivery,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
    Serializer,
    to_bytes,
)
from odradek.protocol.clock import Clock, SystemClock
from odradek.protocol.compression import Codec
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import HEADER_BYTES, Header
from odradek.protocol.settings import SettingsError
from odradek.protocol.types import TopicPartition

MAX_IN_FLIGHT_FOR_IDEMPOTENCE = 5


class Producer:
    def __init__(
        self,
        config: Mapping[str, Given] | None = None,
        *,
        key_serializer: Serializer = to_bytes,
        value_serializer: Serializer = to_bytes,
        partitioner: Callable[[Random], Partitioner] = StickyPartitioner,
        interceptors: Sequence[ProducerInterceptor] = (),
        clock: Clock | None = None,
        random: Random | None = None,
        dial: Dial = dial_tcp,
        **settings: Given,
    ) -> None:
        self.settings = configured(ProducerSettings, config, **settings)
        self._is_idempotent = is_idempotent(self.settings)
        self._serialize_key = key_serializer
        self._serialize_value = value_serializer
        self._new_partitioner = partitioner
        self._interceptors = tuple(interceptors)
        self._clock = clock or SystemClock()
        self._random = random or Random()
        self._cluster = Cluster(self.settings, dial=dial, random=self._random, creates_topics=True)
        self._block_s = self.settings.max_block_ms / 1000
        self._lanes: dict[str, Lane] = {}
        self._transactions: Transactions | None = None
        self._gate: Idempotence | Transactions
        self._sender: Sender
        self._accumulator: Accumulator
        self._is_open = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close()

    async def start(self, timeout_s: float | None = None) -> None:
        """Find the cluster and, for idempotence, get a producer id."""
        settings = self.settings
        gate: Idempotence | Transactions
        if settings.transactional_id is None:
            gate = Idempotence(self._cluster, self._block_s, self._changed)
        else:
            gate = self._transactions = Transactions(
                self._cluster,
                settings.transactional_id,
                transaction_timeout_ms=settings.transaction_timeout_ms,
                timeout_s=self._block_s,
                on_change=self._changed,
            )
        self._gate = gate
        self._sender = Sender(
            self._cluster,
            settings,
            codec=Codec[settings.compression_type.upper()],
            is_idempotent=self._is_idempotent,
            gate=gate,
        )
        self._accumulator = Accumulator(
            batch_bytes=settings.batch_size,
            memory=BufferMemory(settings.buffer_memory),
            linger_s=settings.linger_ms / 1000,
            on_ready=self._sender.mark,
            lanes=self._lanes,
        )
        self._sender.accumulator = self._accumulator
        self._cluster.on_change(self._follow_partitions)
        try:
            await self._cluster.start(self._block_s if timeout_s is None else timeout_s)
            if self._is_idempotent and isinstance(gate, Idempotence):
                await gate.start()
        except BaseException:
            await self._cluster.close()
            raise
        self._is_open = True

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver what was sent, then let go of everything. After `timeout_s` the rest fails."""
        if self._is_open:
            self._is_open = False
            try:
                async with asyncio.timeout(timeout_s):
                    await self._accumulator.flush()
            except TimeoutError:
                error = KafkaError(Errors.REQUEST_TIMED_OUT, "the producer was closed")
                self._accumulator.fail_waiting(error)
            await self._sender.close()
            await self._gate.close()
        await self._cluster.close()

    # Sending

    async def send(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Take the record into a batch. Raises KafkaError when that is not possible in time."""
        if self._interceptors:
            record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
            for interceptor in self._interceptors:
                record = interceptor.on_send(record)
            topic, value, key, partition, timestamp_ms, headers = record
            on_delivery = self._acknowledging(on_delivery)
        if not self._is_open:
            raise KafkaError(Errors.INVALID_REQUEST, "the producer is not open")
        if self._transactions is not None:
            self._transactions.check_open()
        # Bytes with the default serializer are by far the most common case.
        if type(value) is not bytes or self._serialize_value is not to_bytes:
            value = self._serialize_value(value)
        if key is not None and (type(key) is not bytes or self._serialize_key is not to_bytes):
            key = self._serialize_key(key)
        if timestamp_ms is None:
            timestamp_ms = self._clock.now_ms()
        lane = self._lanes.get(topic) or await self._open_lane(topic)
        size_bytes = record_bytes(key, value, headers)
        index = partition
        if index is None:
            index = lane.partitioner.choose(key, len(lane.queues), lane.available)
        elif not 0 <= index < len(lane.queues):
            await self._wait_for_partition(lane, index)
        batch = lane.queues[index].open
        if batch is None or batch.size_bytes + size_bytes > batch.limit_bytes:
            may_move = partition is None and key is None
            batch = await self._batch_with_room(lane, index, size_bytes, may_move)
        place = len(batch.records)
        batch.records.append((timestamp_ms, key, value, headers))
        batch.size_bytes += size_bytes
        if on_delivery is not None:
            if batch.callbacks is None:
                batch.callbacks = []
            batch.callbacks.append((place, on_delivery))
        return Delivery(batch, place)

    async def send_and_wait(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> RecordMetadata:
        """Send and wait until the record is written. Raises KafkaError when it was not."""
        delivery = await self.send(
            topic,
            value,
            key=key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
        )
        return await delivery

    async def flush(self) -> None:
        """Wait until everything sent so far is written or has failed."""
        await self._accumulator.flush()

    async def partitions_for(self, topic: str) -> list[int]:
        view = await self._cluster.topic(topic, self._block_s)
        return list(view.partitions)

    async def _batch_with_room(
        self, lane: Lane, index: int, size_bytes: int, may_move: bool
    ) -> Batch:
        """An open batch that takes this record, and never an await between it and its record.

        `may_move`: the partitioner chose the partition, and may choose another now.
        """
        if size_bytes + HEADER_BYTES > self.settings.max_request_size:
            raise KafkaError(
                Errors.MESSAGE_TOO_LARGE, f"a record of {size_bytes} bytes exceeds max.request.size"
            )
        while True:
            queue = lane.queues[index]
            batch = queue.open
            if batch is None:
                batch = await self._accumulator.begin_batch(queue, size_bytes, self._block_s)
            if not batch.records or batch.size_bytes + size_bytes <= batch.limit_bytes:
                return batch
            if self._accumulator.close_batch(queue) and may_move:
                index = lane.partitioner.choose(None, len(lane.queues), lane.available)
            # Full batches are when to let the loop write and read: senders may never pause.
            await asyncio.sleep(0)

    async def _open_lane(self, topic: str) -> Lane:
        view = await self._cluster.topic(topic, self._block_s)
        lane = self._lanes.get(topic)
        if lane is None:
            lane = self._lanes[topic] = Lane(topic, self._new_partitioner(self._random))
            lane.follow(view)
        return lane

    async def _wait_for_partition(self, lane: Lane, index: int) -> None:
        """A partition that is not known may have been added just now."""
        if index >= 0:
            await self._cluster.refresh_within(self._block_s)
        if not 0 <= index < len(lane.queues):
            message = f"topic {lane.topic} has no partition {index}"
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, message)

    def _follow_partitions(self) -> None:
        for topic, lane in self._lanes.items():
            view = self._cluster.view.topics.get(topic)
            if view is not None:
                lane.follow(view)

    def _acknowledging(self, on_delivery: OnDelivery | None) -> OnDelivery:
        def acknowledged(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            for interceptor in self._interceptors:
                interceptor.on_acknowledgement(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return acknowledged

    # Transactions

    async def init_transactions(self) -> None:
        """Take over the transactional id; once, before the first transaction."""
        await self._transactional().init()

    async def begin_transaction(self) -> None:
        self._transactional().begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit a consumer's offsets together with what this transaction writes."""
        await self._transactional().send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        transactions = self._transactional()
        transactions.check_open()
        await self._accumulator.flush()
        await transactions.end(commit=True)

    async def abort_transaction(self) -> None:
        transactions = self._transactional()
        transactions.give_up()
        await self._accumulator.flush()
        await transactions.end(commit=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction that commits at the end of the block and aborts if it raises."""
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            await self.abort_transaction()
            raise
        try:
            await self.commit_transaction()
        except KafkaError:
            if self._transactional().is_doomed:
                await self.abort_transaction()
            raise

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise KafkaError(Errors.INVALID_TXN_STATE, "transactional.id is not set")
        return self._transactions

    def _changed(self) -> None:
        """The gate opened, or closed for good."""
        transactions = self._transactions
        error = None if transactions is None else transactions.why_given_up()
        if transactions and error and self._accumulator.fail_waiting(error):
            transactions.left_a_gap()
        self._sender.mark_all()


def is_idempotent(settings: ProducerSettings) -> bool:
    """Whether batches are numbered: by default, unless other settings rule it out."""
    possible = (
        settings.enable_idempotence
        and settings.acks in ("all", "-1")
        and settings.retries > 0
        and settings.max_in_flight_requests_per_connection <= MAX_IN_FLIGHT_FOR_IDEMPOTENCE
    )
    if settings.transactional_id is not None and not possible:
        raise SettingsError(["transactional.id needs idempotence, acks=all and retries"])
    return possible
