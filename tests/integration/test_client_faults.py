"""Our client when the cluster is for a moment not what it should be."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import odradek.testing
import pytest
from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.consumer import Consumer
from odradek.client.producer import Producer
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition

PATIENCE_S = 20
# No refresh comes by itself while a test runs.
QUIET = {"metadata_max_age_ms": 600_000, "retry_backoff_ms": 20}


@asynccontextmanager
async def broker() -> AsyncIterator[odradek.testing.Broker]:
    async with asyncio.timeout(PATIENCE_S), odradek.testing.Broker(topics=["orders"]) as broker:
        yield broker


async def lose_the_leader(broker: odradek.testing.Broker, cluster: Cluster, answers: int) -> None:
    """Let the client's next view of the cluster, and some after it, know no leader."""
    rule = broker.faults.add(
        api="Metadata", topic="orders", error="LEADER_NOT_AVAILABLE", times=answers
    )
    while not rule.hits:
        # One that was under way already is shared, and may have been answered before.
        await cluster.refresh()


@pytest.mark.parametrize("answers", [1, 3])
def test_a_producer_asks_for_a_leader_until_there_is_one(answers: int) -> None:
    async def run() -> None:
        async with (
            broker() as one,
            Producer(bootstrap_servers=one.bootstrap_servers, **QUIET) as producer,
        ):
            assert (await producer.send_and_wait("orders", b"a")).offset == 0
            await lose_the_leader(one, producer._cluster, answers)
            assert (await producer.send_and_wait("orders", b"b")).offset == 1

    asyncio.run(run())


@pytest.mark.parametrize("answers", [1, 3])
def test_a_consumer_that_only_waits_asks_for_a_leader_until_there_is_one(answers: int) -> None:
    async def run() -> None:
        async with (
            broker() as one,
            Producer(bootstrap_servers=one.bootstrap_servers) as producer,
            Consumer(
                bootstrap_servers=one.bootstrap_servers, auto_offset_reset="earliest", **QUIET
            ) as consumer,
        ):
            consumer.assign([TopicPartition("orders", 0)])
            records = aiter(consumer)
            await producer.send_and_wait("orders", b"a")
            assert (await anext(records)).value == b"a"
            waiting = asyncio.ensure_future(anext(records))
            await lose_the_leader(one, consumer._cluster, answers)
            await producer.send_and_wait("orders", b"b")
            assert (await waiting).value == b"b"

    asyncio.run(run())


def test_records_stay_in_order_when_only_the_first_batch_of_a_producer_is_refused() -> None:
    async def run() -> None:
        async with broker() as one:
            one.faults.add(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=1)
            async with Producer(bootstrap_servers=one.bootstrap_servers, linger_ms=0) as producer:
                for number in range(200):
                    await producer.send("orders", b"%d" % number)
                    await asyncio.sleep(0)  # so that batches leave one by one, many at once
            async with Consumer(
                bootstrap_servers=one.bootstrap_servers, auto_offset_reset="earliest"
            ) as consumer:
                consumer.assign([TopicPartition("orders", 0)])
                records = aiter(consumer)
                values = [(await anext(records)).value for _ in range(200)]
            assert values == [b"%d" % number for number in range(200)]

    asyncio.run(run())


async def look_up(where: str) -> None:
    async with Consumer(bootstrap_servers=where) as consumer:
        partition = TopicPartition("orders", 0)
        assert await consumer.beginning_offsets([partition]) == {partition: 0}


async def subscribe_to_a_pattern(where: str) -> None:
    async with Consumer(bootstrap_servers=where, group_id="readers") as consumer:
        consumer.subscribe(pattern="ord.*")
        while not consumer.assignment():
            await consumer.poll(0.1)


async def send_to_a_partition(where: str) -> None:
    async with Producer(bootstrap_servers=where) as producer:
        await producer.send_and_wait("orders", b"a")
        with pytest.raises(KafkaError, match="has no partition 7"):
            await producer.send("orders", b"a", partition=7)


async def describe(where: str) -> None:
    async with Admin(bootstrap_servers=where) as admin:
        assert len((await admin.describe_cluster()).nodes) == 1
        assert len(await admin.api_versions()) == 1
        assert len(await admin.describe_log_dirs()) == 1


@pytest.mark.parametrize(
    "work",
    [look_up, subscribe_to_a_pattern, send_to_a_partition, describe],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_a_connection_that_breaks_under_a_refresh_is_nobodys_business(
    work: Callable[[str], Awaitable[None]], nth: int
) -> None:
    async def run() -> None:
        async with broker() as one:
            one.faults.add(api="Metadata", drop="connection", nth=nth)
            await work(one.bootstrap_servers)

    asyncio.run(run())


@asynccontextmanager
async def member(where: str, topic: str) -> AsyncIterator[Consumer]:
    async with Consumer(
        bootstrap_servers=where, group_id="readers", allow_auto_create_topics=False, **QUIET
    ) as consumer:
        consumer.subscribe([topic])
        yield consumer


async def until_assigned(consumer: Consumer) -> None:
    while not consumer.assignment():
        await consumer.poll(0.05)


@pytest.mark.parametrize("answers", [1, 2, 3, 5])
def test_a_group_shares_out_a_topic_that_had_no_leader_at_first(answers: int) -> None:
    async def run() -> None:
        async with broker() as one:
            one.faults.add(
                api="Metadata", topic="orders", error="LEADER_NOT_AVAILABLE", times=answers
            )
            async with member(one.bootstrap_servers, "orders") as consumer:
                await until_assigned(consumer)

    asyncio.run(run())


def test_a_group_shares_out_a_topic_that_comes_later() -> None:
    async def run() -> None:
        async with broker() as one, member(one.bootstrap_servers, "late") as consumer:
            while not consumer.group_metadata().generation_id > 0:
                await consumer.poll(0.05)
            assert not consumer.assignment()
            await asyncio.to_thread(one.create_topics, ["late"])
            await until_assigned(consumer)

    asyncio.run(run())


def test_a_group_does_not_share_out_anew_when_a_leader_is_missing_for_a_moment() -> None:
    async def run() -> None:
        async with broker() as one, member(one.bootstrap_servers, "orders") as consumer:
            await until_assigned(consumer)
            generation = consumer.group_metadata().generation_id
            await lose_the_leader(one, consumer._cluster, 2)
            while consumer._cluster.view.topics["orders"].error:
                await consumer.poll(0.05)
            assert consumer.group_metadata().generation_id == generation
            assert consumer.assignment()

    asyncio.run(run())
