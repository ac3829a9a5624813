"""What the client's integration tests share: topics to order, and readers that are not ours."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition
from odradek.client.admin import Admin, NewTopic, raise_failures
from odradek.client.connection import ConnectionOptions, open_connection
from odradek.client.consumer import Consumer
from odradek.client.values import ConsumerRecord
from odradek.protocol.schema import Request
from odradek.protocol.types import TopicPartition

READ_SECONDS = 30


async def make_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> str:
    """A topic; settings are spelled with underscores. No record is too old for it, so that tests
    may give records the times they like."""
    settings = {"retention.ms": "-1"}
    settings |= {key.replace("_", "."): text for key, text in configs.items()}
    async with Admin(bootstrap_servers=bootstrap) as admin:
        topic = NewTopic(name, partitions, 1, settings)
        raise_failures(await admin.create_topics([topic]))
        await admin.wait_for_topics([name])
    return name


async def require_api(bootstrap: str, request: type[Request]) -> None:
    """Skip where the broker does not offer an API."""
    host, _, port = bootstrap.rpartition(":")
    connection = await open_connection(host, int(port), ConnectionOptions())
    supported = connection.supports(request)
    connection.close()
    if not supported:
        pytest.skip(f"the broker does not offer {request.__name__}")


@asynccontextmanager
async def reading(
    bootstrap: str, topic: str, partitions: Iterable[int] = (0,), **settings: str
) -> AsyncIterator[Consumer]:
    """A consumer that reads these partitions from their beginning."""
    async with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings
    ) as consumer:
        consumer.assign([TopicPartition(topic, index) for index in partitions])
        yield consumer


async def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    taken: list[ConsumerRecord] = []
    async with asyncio.timeout(READ_SECONDS):
        async for record in consumer:
            taken.append(record)
            if len(taken) == count:
                return taken
    raise AssertionError("unreachable")


async def read_all(bootstrap: str, topic: str, count: int, **settings: str) -> list[ConsumerRecord]:
    async with reading(bootstrap, topic, **settings) as consumer:
        return await take(consumer, count)


def read_with_confluent(
    bootstrap: str, topic: str, count: int, *, isolation: str = "read_uncommitted"
) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of partition 0, as librdkafka sees them."""
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "outsider",
            "enable.auto.commit": False,
            "isolation.level": isolation,
        }
    )
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    found: list[tuple[bytes | None, bytes | None]] = []
    while len(found) < count:
        message = consumer.poll(READ_SECONDS)
        assert message is not None, f"only {len(found)} of {count} records came"
        assert message.error() is None, message.error()
        found.append((message.key(), message.value()))
    consumer.close()
    return found
