"""Kafka clients as a test of faults sees them: write one record, read some, commit one offset.

What a client gives up with is `Refused` with Kafka's error code, or None where it says none. All
wait little between attempts, so that a test of retries takes no time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import confluent_kafka
import kafka
import kafka.errors
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioError
from odradek.client.sync import SyncConsumer, SyncProducer
from odradek.client.values import OffsetAndMetadata
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition

PATIENCE_S = 30
PAUSE_MS = 20
T = TypeVar("T")


class Refused(Exception):
    def __init__(self, code: int | None) -> None:
        super().__init__(None if code is None else Errors.of(code).name)
        self.code = code


class Client(Protocol):
    name: str

    def produce(
        self, where: str, topic: str, *, idempotent: bool = True, request_timeout_ms: int = 10_000
    ) -> int:
        """The offset of one record, once it is acknowledged."""
        ...

    def consume(self, where: str, topic: str, count: int) -> list[bytes]:
        """Values from partition 0, without a group."""
        ...

    def join_and_commit(self, where: str, topic: str, group: str) -> None:
        """Read a record as a member of a group and commit the offset after it."""
        ...


class Confluent:
    name = "confluent-kafka"

    def produce(
        self, where: str, topic: str, *, idempotent: bool = True, request_timeout_ms: int = 10_000
    ) -> int:
        producer = confluent_kafka.Producer(
            {
                **self._common(where),
                "enable.idempotence": idempotent,
                "acks": "all",
                "retry.backoff.ms": PAUSE_MS,
                "request.timeout.ms": request_timeout_ms,
                "socket.timeout.ms": request_timeout_ms,
                "message.timeout.ms": PAUSE_MS * 1000,
            }
        )
        reports: list[tuple[Any, Any]] = []
        producer.produce(topic, b"v", partition=0, on_delivery=lambda *told: reports.append(told))
        assert producer.flush(PATIENCE_S) == 0
        ((error, message),) = reports
        if error is not None:
            raise Refused(error.code())
        return int(message.offset())

    def consume(self, where: str, topic: str, count: int) -> list[bytes]:
        consumer = confluent_kafka.Consumer({**self._common(where), "group.id": "unused"})
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            return [self._next(consumer).value() for _ in range(count)]
        finally:
            consumer.close()

    def join_and_commit(self, where: str, topic: str, group: str) -> None:
        consumer = confluent_kafka.Consumer(
            {
                **self._common(where),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.subscribe([topic])
            consumer.commit(self._next(consumer), asynchronous=False)
        except confluent_kafka.KafkaException as error:
            raise Refused(error.args[0].code()) from error
        finally:
            consumer.close()

    def _common(self, where: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": where,
            "client.id": self.name,
            "log_level": 2,
            "reconnect.backoff.ms": PAUSE_MS,
            "retry.backoff.ms": PAUSE_MS,
        }

    def _next(self, consumer: Any) -> Any:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "no record came"
        if message.error() is not None:
            raise Refused(message.error().code())
        return message


class KafkaPython:
    name = "kafka-python"

    def produce(
        self, where: str, topic: str, *, idempotent: bool = True, request_timeout_ms: int = 10_000
    ) -> int:
        producer = kafka.KafkaProducer(
            **self._common(where),
            enable_idempotence=idempotent,
            acks="all",
            retries=10,
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=PATIENCE_S * 1000,
        )
        try:
            sent = producer.send(topic, b"v", partition=0).get(PATIENCE_S)
            return int(sent.offset)
        except kafka.errors.KafkaError as error:
            raise Refused(getattr(error, "errno", None)) from error
        finally:
            producer.close(1)

    def consume(self, where: str, topic: str, count: int) -> list[bytes]:
        consumer = kafka.KafkaConsumer(
            **self._common(where),
            group_id=None,
            auto_offset_reset="earliest",
            consumer_timeout_ms=PATIENCE_S * 1000,
        )
        try:
            consumer.assign([kafka.TopicPartition(topic, 0)])
            return [next(consumer).value for _ in range(count)]
        finally:
            consumer.close()

    def join_and_commit(self, where: str, topic: str, group: str) -> None:
        consumer = kafka.KafkaConsumer(
            topic,
            **self._common(where),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=PATIENCE_S * 1000,
        )
        try:
            next(consumer)
            consumer.commit()
        except kafka.errors.KafkaError as error:
            raise Refused(getattr(error, "errno", None)) from error
        finally:
            consumer.close()

    def _common(self, where: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": where,
            "client_id": self.name,
            "retry_backoff_ms": PAUSE_MS,
            "reconnect_backoff_ms": PAUSE_MS,
        }


class AioKafka:
    name = "aiokafka"

    def produce(
        self, where: str, topic: str, *, idempotent: bool = True, request_timeout_ms: int = 10_000
    ) -> int:
        async def work() -> int:
            producer = AIOKafkaProducer(
                **self._common(where),
                enable_idempotence=idempotent,
                acks="all",
                request_timeout_ms=request_timeout_ms,
            )
            await producer.start()
            try:
                return int((await producer.send_and_wait(topic, b"v", partition=0)).offset)
            finally:
                await producer.stop()

        return self._run(work)

    def consume(self, where: str, topic: str, count: int) -> list[bytes]:
        async def work() -> list[bytes]:
            consumer = AIOKafkaConsumer(**self._common(where), auto_offset_reset="earliest")
            await consumer.start()
            try:
                consumer.assign([AioPartition(topic, 0)])
                return [(await consumer.getone()).value for _ in range(count)]
            finally:
                await consumer.stop()

        return self._run(work)

    def join_and_commit(self, where: str, topic: str, group: str) -> None:
        async def work() -> None:
            consumer = AIOKafkaConsumer(
                topic,
                **self._common(where),
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            await consumer.start()
            try:
                await consumer.getone()
                await consumer.commit()
            finally:
                await consumer.stop()

        self._run(work)

    def _common(self, where: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": where,
            "client_id": self.name,
            "retry_backoff_ms": PAUSE_MS,
        }

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async def in_time() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await work()

        try:
            return asyncio.run(in_time())
        except AioError as error:
            raise Refused(getattr(error, "errno", None)) from error


class Own:
    name = "odradek"

    def produce(
        self, where: str, topic: str, *, idempotent: bool = True, request_timeout_ms: int = 10_000
    ) -> int:
        with SyncProducer(
            **self._common(where),
            enable_idempotence=idempotent,
            request_timeout_ms=request_timeout_ms,
        ) as producer:
            try:
                return producer.send(topic, b"v", partition=0).result(PATIENCE_S).offset
            except KafkaError as error:
                raise Refused(error.error) from error

    def consume(self, where: str, topic: str, count: int) -> list[bytes]:
        with SyncConsumer(**self._common(where), auto_offset_reset="earliest") as consumer:
            consumer.call(lambda client: client.assign([TopicPartition(topic, 0)]))
            values: list[bytes] = []
            while len(values) < count:
                values += [record.value or b"" for record in consumer.poll(PATIENCE_S)]
            return values

    def join_and_commit(self, where: str, topic: str, group: str) -> None:
        with SyncConsumer(
            **self._common(where),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            consumer.subscribe([topic])
            record = next(iter(consumer.poll(PATIENCE_S)))
            after = {TopicPartition(topic, 0): OffsetAndMetadata(record.offset + 1)}
            try:
                consumer.run(lambda client: client.commit(after))
            except KafkaError as error:
                raise Refused(error.error) from error

    def _common(self, where: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": where,
            "client_id": self.name,
            "retry_backoff_ms": PAUSE_MS,
            "reconnect_backoff_ms": PAUSE_MS,
        }


CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), AioKafka(), Own())
