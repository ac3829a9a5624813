"""Our client in a storm: every API it uses fails now and then, in every way that passes.

An idempotent producer writes while two members of a group read. In the end every record must be
there once, in the order in which it was sent, and the group must have seen all of them.
"""

import asyncio
from itertools import count
from typing import Any

import odradek.testing
import pytest
from odradek.client.consumer import Consumer
from odradek.client.producer import Producer
from odradek.protocol.types import TopicPartition

RECORDS = 400
PARTITIONS = 3
PATIENCE_S = 200
CHANCE = 0.1

FAULTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ApiVersions", {"drop": "connection"}),
    ("Metadata", {"error": "LEADER_NOT_AVAILABLE"}),
    ("Metadata", {"drop": "connection"}),
    ("InitProducerId", {"error": "COORDINATOR_LOAD_IN_PROGRESS"}),
    ("InitProducerId", {"drop": "answer"}),
    ("Produce", {"error": "NOT_LEADER_OR_FOLLOWER"}),
    ("Produce", {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}),
    ("Produce", {"drop": "answer"}),
    ("Produce", {"drop": "connection"}),
    ("Produce", {"delay_ms": 30}),
    ("ListOffsets", {"error": "NOT_LEADER_OR_FOLLOWER"}),
    ("ListOffsets", {"drop": "answer"}),
    ("Fetch", {"error": "NOT_LEADER_OR_FOLLOWER"}),
    ("Fetch", {"error": "FETCH_SESSION_ID_NOT_FOUND"}),
    ("Fetch", {"drop": "connection"}),
    ("Fetch", {"drop": "answer"}),
    ("FindCoordinator", {"error": "COORDINATOR_NOT_AVAILABLE"}),
    ("FindCoordinator", {"drop": "connection"}),
    ("JoinGroup", {"error": "NOT_COORDINATOR"}),
    ("JoinGroup", {"drop": "answer"}),
    ("SyncGroup", {"error": "REBALANCE_IN_PROGRESS"}),
    ("SyncGroup", {"drop": "answer"}),
    ("Heartbeat", {"error": "UNKNOWN_MEMBER_ID"}),
    ("Heartbeat", {"drop": "connection"}),
    ("OffsetFetch", {"error": "NOT_COORDINATOR"}),
    ("OffsetFetch", {"drop": "connection"}),
    ("OffsetCommit", {"error": "COORDINATOR_LOAD_IN_PROGRESS"}),
    ("OffsetCommit", {"drop": "answer"}),
)
# Little patience everywhere, so that a storm takes seconds.
HASTY: dict[str, Any] = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 5}


async def write(where: str) -> None:
    async with Producer(bootstrap_servers=where, **HASTY) as producer:
        for number in range(RECORDS):
            await producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
            if number % 10 == 0:
                await asyncio.sleep(0.002)  # or all of them would be in very few batches


async def read_in_group(where: str, seen: set[bytes | None]) -> None:
    async with Consumer(
        bootstrap_servers=where,
        group_id="readers",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=50,
        session_timeout_ms=2000,
        auto_commit_interval_ms=20,
        **HASTY,
    ) as consumer:
        consumer.subscribe(["orders"])
        while len(seen) < RECORDS:
            seen.update(record.value for record in await consumer.poll(0.2))


async def everything(where: str) -> dict[int, list[int]]:
    """All there is, by partition."""
    found: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
    async with Consumer(bootstrap_servers=where, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition("orders", index) for index in range(PARTITIONS)]
        consumer.assign(partitions)
        total = sum((await consumer.end_offsets(partitions)).values())
        while sum(map(len, found.values())) < total:
            for record in await consumer.poll(1):
                found[record.partition].append(int(record.value))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_every_record_arrives_once_and_in_order(seed: int) -> None:
    async def run() -> None:
        async with odradek.testing.Broker(topics={"orders": PARTITIONS}) as broker:
            where = broker.bootstrap_servers
            seeds = count(seed * 1000)
            for api, fault in FAULTS:
                broker.faults.add(api=api, probability=CHANCE, seed=next(seeds), **fault)
            seen: set[bytes | None] = set()
            async with asyncio.timeout(PATIENCE_S):
                readers = (read_in_group(where, seen) for _ in range(2))
                await asyncio.gather(write(where), *readers)
            assert broker.faults.hits
            broker.faults.clear()
            assert await everything(where) == {
                index: list(range(index, RECORDS, PARTITIONS)) for index in range(PARTITIONS)
            }
            assert seen == {b"%d" % number for number in range(RECORDS)}

    asyncio.run(run())
