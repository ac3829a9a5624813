"""A broker that is killed and comes back: nothing is lost, nothing is written twice."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from odradek.client.consumer import Consumer
from odradek.client.producer import Producer
from odradek.protocol.types import TopicPartition

from scripts.parts import KAFKA_ON_KRAFT
from tests.integration.client_room import make_topic
from tests.support.kafka import KafkaBroker
from tests.support.odradek import OdradekBroker

Fresh = Callable[[str], str]
Broker = KafkaBroker | OdradekBroker

PARTITIONS = 3
RECORDS = 6000
DEADLINE_S = 120


@pytest.fixture(params=["kafka", "odradek"])
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of one's own, to be killed."""
    broker: Broker
    if request.param == "kafka":
        broker = KafkaBroker(tmp_path, version=KAFKA_ON_KRAFT)
    else:
        broker = OdradekBroker(tmp_path, overrides={"group.initial.rebalance.delay.ms": 0})
    with broker:
        yield broker


def restart(broker: Broker) -> None:
    broker.kill()
    broker.start()


async def produce_slowly(producer: Producer, topic: str, half: asyncio.Event) -> None:
    """Numbers to each partition in turn, slowly enough for a broker to die in between."""
    deliveries = []
    for number in range(RECORDS):
        delivery = await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        deliveries.append(delivery)
        if number % 100 == 99:
            await asyncio.sleep(0.01)
        if number == RECORDS // 3:
            half.set()
    for delivery in deliveries:
        await delivery


def test_a_producer_with_defaults_loses_and_repeats_nothing(mortal: Broker, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(mortal.bootstrap, fresh("topic"), PARTITIONS)
        half = asyncio.Event()
        async with Producer(bootstrap_servers=mortal.bootstrap) as producer:
            producing = asyncio.create_task(produce_slowly(producer, topic, half))
            await half.wait()
            await asyncio.to_thread(restart, mortal)
            await asyncio.wait_for(producing, DEADLINE_S)
        seen: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        async with Consumer(
            bootstrap_servers=mortal.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
            async with asyncio.timeout(DEADLINE_S):
                while sum(map(len, seen.values())) < RECORDS:
                    for record in await consumer.poll():
                        assert isinstance(record.value, bytes)
                        seen[record.partition].append(int(record.value))
            assert not await consumer.poll(0.5)
        for index, numbers in seen.items():
            assert numbers == list(range(index, RECORDS, PARTITIONS))

    asyncio.run(run())


def test_a_consumer_goes_on_after_a_restart_from_its_commits(mortal: Broker, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(mortal.bootstrap, fresh("topic"))
        async with Producer(bootstrap_servers=mortal.bootstrap) as producer:
            for number in range(1000):
                await producer.send(topic, b"%d" % number)
        settings = {
            "bootstrap.servers": mortal.bootstrap,
            "group.id": fresh("group"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
        async with Consumer(settings) as consumer:
            consumer.subscribe([topic])
            offsets: list[int] = []
            async with asyncio.timeout(DEADLINE_S):
                async for record in consumer:
                    offsets.append(record.offset)
                    if len(offsets) == 500:
                        await consumer.commit()
                        await asyncio.to_thread(restart, mortal)
                    if len(offsets) == 900:
                        break
            assert offsets == list(range(900))
        async with Consumer(settings) as consumer:
            consumer.subscribe([topic])
            async with asyncio.timeout(DEADLINE_S):
                async for record in consumer:
                    assert record.offset == 500
                    break

    asyncio.run(run())
