"""The same clients for programs without an event loop: each runs on a loop in a thread of its own.

    with SyncProducer(bootstrap_servers="localhost:9092") as producer:
        producer.send("orders", b"value").result()
    with SyncConsumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer: ...
    with SyncAdmin(bootstrap_servers="localhost:9092") as admin:
        names = admin.run(lambda client: client.list_topics())

Thin by design: `run` reaches whatever has no method here. May be used from any thread.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Generic, NamedTuple, Self, TypeVar

from odradek.client.admin import Admin
from odradek.client.consumer import Consumer
from odradek.client.loop_thread import LoopThread
from odradek.client.producer import Producer
from odradek.client.settings import Given
from odradek.client.subscription import RebalanceListener
from odradek.client.values import (
    ConsumerInterceptor,
    ConsumerRecord,
    ConsumerRecords,
    Deserializer,
    OffsetAndMetadata,
    OnDelivery,
    ProducerInterceptor,
    RecordMetadata,
    Serializer,
    as_bytes,
    to_bytes,
)
from odradek.protocol.errors import KafkaError
from odradek.protocol.records import Header
from odradek.protocol.types import TopicPartition

C = TypeVar("C", Admin, Consumer, Producer)
T = TypeVar("T")

# How many records may be on their way to the producer's thread before `send` waits.
MAX_HANDED_OVER = 10_000


class SyncClient(Generic[C]):
    def __init__(self, client: C) -> None:
        self.client: C = client
        self._thread = LoopThread(f"odradek-{type(client).__name__.lower()}")
        try:
            self._thread.run(client.start)
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, work: Callable[[C], Awaitable[T]]) -> T:
        """Have the client do something on its loop, and wait for it."""
        return self._thread.run(lambda: work(self.client))

    def call(self, work: Callable[[C], T]) -> T:
        """The same for methods that are not coroutines."""
        return self._thread.call(lambda: work(self.client))

    def close(self) -> None:
        self._thread.run(self.client.close)
        self._thread.stop()


class Handed(NamedTuple):
    """A record on its way to the producer's thread."""

    topic: str
    value: object
    key: object
    partition: int | None
    timestamp_ms: int | None
    headers: Sequence[Header]
    outcome: "Future[RecordMetadata]"


class SyncProducer(SyncClient[Producer]):
    def __init__(
        self,
        config: Mapping[str, Given] | None = None,
        *,
        key_serializer: Serializer = to_bytes,
        value_serializer: Serializer = to_bytes,
        interceptors: Sequence[ProducerInterceptor] = (),
        **settings: Given,
    ) -> None:
        super().__init__(
            Producer(
                {**(config or {}), **settings},
                key_serializer=key_serializer,
                value_serializer=value_serializer,
                interceptors=interceptors,
            )
        )
        self._handed: deque[Handed] = deque()
        self._room = threading.Semaphore(MAX_HANDED_OVER)
        self._taker: asyncio.Task[None] | None = None
        self._is_called = False

    def send(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> "Future[RecordMetadata]":
        """Send; the future brings the metadata or the error. Waits while the buffer is full."""
        outcome: Future[RecordMetadata] = Future()
        self._room.acquire()
        self._handed.append(Handed(topic, value, key, partition, timestamp_ms, headers, outcome))
        # The taker looks once more after it cleared the flag, so no record is forgotten.
        if not self._is_called:
            self._is_called = True
            self._thread.loop.call_soon_threadsafe(self._take_soon)
        return outcome

    def flush(self) -> None:
        async def flush(producer: Producer) -> None:
            while self._handed or self._taker is not None:
                self._take_soon()
                if self._taker is not None:
                    await asyncio.shield(self._taker)
            await producer.flush()

        self.run(flush)

    def close(self) -> None:
        self.flush()
        super().close()

    def _take_soon(self) -> None:
        if self._taker is None:
            self._taker = self._thread.loop.create_task(self._take())

    async def _take(self) -> None:
        try:
            while True:
                while self._handed:
                    record = self._handed.popleft()
                    self._room.release()
                    await self._send(record)
                self._is_called = False
                if not self._handed:
                    return
        finally:
            self._taker = None

    async def _send(self, record: Handed) -> None:
        outcome = record.outcome
        try:
            await self.client.send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
                on_delivery=_report_to(outcome),
            )
        except Exception as error:
            outcome.set_exception(error)


def _report_to(outcome: "Future[RecordMetadata]") -> OnDelivery:
    def report(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if error is not None:
            outcome.set_exception(error)
        elif metadata is not None:
            outcome.set_result(metadata)

    return report


class SyncConsumer(SyncClient[Consumer]):
    def __init__(
        self,
        config: Mapping[str, Given] | None = None,
        *,
        key_deserializer: Deserializer = as_bytes,
        value_deserializer: Deserializer = as_bytes,
        interceptors: Sequence[ConsumerInterceptor] = (),
        **settings: Given,
    ) -> None:
        super().__init__(
            Consumer(
                {**(config or {}), **settings},
                key_deserializer=key_deserializer,
                value_deserializer=value_deserializer,
                interceptors=interceptors,
            )
        )

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        self.call(lambda c: c.subscribe(topics, pattern=pattern, listener=listener))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.call(lambda c: c.assign(partitions))

    def poll(self, timeout_s: float = 1.0, max_records: int | None = None) -> ConsumerRecords:
        return self.run(lambda c: c.poll(timeout_s, max_records))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            yield from self.poll()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.call(lambda c: c.seek(partition, offset))

    def position(self, partition: TopicPartition) -> int:
        return self.run(lambda c: c.position(partition))

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        self.run(lambda c: c.commit(offsets))

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.run(lambda c: c.committed(partitions))


class SyncAdmin(SyncClient[Admin]):
    def __init__(self, config: Mapping[str, Given] | None = None, **settings: Given) -> None:
        super().__init__(Admin({**(config or {}), **settings}))
