"""aiokafka as a driver: every job runs an event loop of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, ProducerFenced
from jobs import EARLIEST, LATEST, CodedError, Job, headers_of, pack, packed_headers, serve, unpack

SECONDS = 20
RESOURCES = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}
TIMESTAMP_TYPES = {0: "create", 1: "append"}
DEFAULT_SOURCE = 5
PRODUCER_FENCED = 90


def common(job: Job) -> dict[str, Any]:
    return {"bootstrap_servers": job["bootstrap"], "client_id": job["client_id"]}


@asynccontextmanager
async def started(client: Any, end: str) -> AsyncIterator[Any]:
    await client.start()
    try:
        yield client
    finally:
        await getattr(client, end)()


def admin_of(job: Job) -> Any:
    return started(AIOKafkaAdminClient(**common(job)), "close")


def consumer_of(job: Job) -> Any:
    options = {"fetch_max_wait_ms": 100}
    if job.get("committed"):
        options["isolation_level"] = "read_committed"
    consumer = AIOKafkaConsumer(**common(job), **options, group_id=None, auto_offset_reset="none")
    return started(consumer, "stop")


def check(code: int, what: object) -> None:
    if code:
        raise CodedError(code, str(what))


async def produce(job: Job) -> Job:
    producer = AIOKafkaProducer(
        **common(job),
        acks=job["acks"] if job["acks"] == "all" else int(job["acks"]),
        compression_type=None if job["codec"] == "none" else job["codec"],
        enable_idempotence=job["idempotent"],
        linger_ms=20,
        max_request_size=16_000_000,
    )
    async with started(producer, "stop"):
        sent = [
            await producer.send(
                job["topic"],
                unpack(record["value"]),
                unpack(record["key"]),
                partition=job["partition"],
                timestamp_ms=record["timestamp"],
                headers=headers_of(record),
            )
            for record in job["records"]
        ]
        reports = await asyncio.gather(*sent)
    return {"offsets": [getattr(report, "offset", None) for report in reports]}


def as_json(record: Any) -> Job:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES.get(record.timestamp_type),
        "key": pack(record.key),
        "value": pack(record.value),
        "headers": packed_headers(record.headers),
    }


async def consume(job: Job) -> Job:
    partition = TopicPartition(job["topic"], job["partition"])
    async with consumer_of(job) as consumer:
        consumer.assign([partition])
        if job["offset"] == EARLIEST:
            await consumer.seek_to_beginning(partition)
        elif job["offset"] == LATEST:
            await consumer.seek_to_end(partition)
        else:
            consumer.seek(partition, job["offset"])
        async with asyncio.timeout(SECONDS):
            return {"records": [as_json(await consumer.getone()) for _ in range(job["count"])]}


async def consume_in_group(job: Job) -> Job:
    consumer = AIOKafkaConsumer(
        job["topic"],
        **common(job),
        group_id=job["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
    )
    async with started(consumer, "stop"), asyncio.timeout(SECONDS):
        records = [as_json(await consumer.getone()) for _ in range(job["count"])]
        await consumer.commit()
    return {"records": records}


def transactional_producer(job: Job) -> Any:
    producer = AIOKafkaProducer(**common(job), transactional_id=job["transactional_id"])
    return started(producer, "stop")


async def transact(job: Job) -> None:
    partition = TopicPartition(job["topic"], job["partition"])
    async with transactional_producer(job) as producer:
        for transaction in job["transactions"]:
            await producer.begin_transaction()
            for value in transaction["values"]:
                await producer.send_and_wait(
                    job["topic"], unpack(value), partition=job["partition"]
                )
            if transaction["group"] is not None:
                offsets = {partition: transaction["offset"]}
                await producer.send_offsets_to_transaction(offsets, transaction["group"])
            if transaction["commit"]:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()


async def be_fenced(job: Job) -> None:
    async with transactional_producer(job) as first:
        await first.begin_transaction()
        await first.send_and_wait(job["topic"], b"z", partition=job["partition"])
        async with transactional_producer(job):
            await first.commit_transaction()


async def offset_at(job: Job) -> Job:
    partition = TopicPartition(job["topic"], job["partition"])
    async with consumer_of(job) as consumer:
        consumer.assign([partition])
        if job["at"] == EARLIEST:
            return {"offset": (await consumer.beginning_offsets([partition]))[partition]}
        if job["at"] == LATEST:
            return {"offset": (await consumer.end_offsets([partition]))[partition]}
        found = (await consumer.offsets_for_times({partition: job["at"]}))[partition]
    if found is None:
        return {"offset": -1}
    return {"offset": found.offset, "timestamp": found.timestamp}


async def create_topic(job: Job) -> None:
    new = NewTopic(job["topic"], job["partitions"], 1, topic_configs=job["configs"])
    async with admin_of(job) as admin:
        done = await admin.create_topics([new], validate_only=job["validate_only"])
    for error in done.topic_errors:
        check(error[1], error)


async def list_topics(job: Job) -> Job:
    async with admin_of(job) as admin:
        return {"topics": await admin.list_topics()}


async def describe_topic(job: Job) -> Job:
    async with admin_of(job) as admin:
        (topic,) = await admin.describe_topics([job["topic"]])
    check(topic["error_code"], topic)
    return {
        "partitions": [
            {
                "id": part["partition"],
                "leader": part["leader"],
                "replicas": part["replicas"],
                "isr": part["isr"],
            }
            for part in topic["partitions"]
        ]
    }


async def create_partitions(job: Job) -> None:
    async with admin_of(job) as admin:
        await admin.create_partitions({job["topic"]: NewPartitions(job["total"])})


async def describe_configs(job: Job) -> Job:
    resource = ConfigResource(RESOURCES[job["resource"]], job["name"])
    async with admin_of(job) as admin:
        (answer,) = await admin.describe_configs([resource])
    ((code, message, _, _, entries),) = answer.resources
    check(code, message)
    return {
        "configs": {
            entry[0]: {"value": entry[1], "default": entry[3] == DEFAULT_SOURCE}
            for entry in entries
        }
    }


async def replace_configs(job: Job) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, job["topic"], configs=job["configs"])
    async with admin_of(job) as admin:
        (answer,) = await admin.alter_configs([resource])
    for code, message, *_ in answer.resources:
        check(code, message)


async def delete_records(job: Job) -> Job:
    partition = TopicPartition(job["topic"], job["partition"])
    async with admin_of(job) as admin:
        done = await admin.delete_records({partition: RecordsToDelete(job["before"])})
    return {"low_watermark": done[partition]}


async def delete_topic(job: Job) -> None:
    async with admin_of(job) as admin:
        done = await admin.delete_topics([job["topic"]])
    for error in done.topic_error_codes:
        check(error[1], error)


async def describe_cluster(job: Job) -> Job:
    async with admin_of(job) as admin:
        cluster = await admin.describe_cluster()
    return {
        "cluster_id": cluster.get("cluster_id"),
        "controller": cluster["controller_id"],
        "brokers": [
            {"id": broker["node_id"], "host": broker["host"], "port": broker["port"]}
            for broker in cluster["brokers"]
        ],
    }


def code_of(failure: Exception) -> int | None:
    if isinstance(failure, ProducerFenced):
        return PRODUCER_FENCED
    code = getattr(failure, "errno", None) if isinstance(failure, KafkaError) else None
    return code if code is not None and code >= 0 else None


def run(verb: Callable[[Job], Awaitable[Any]]) -> Callable[[Job], Any]:
    return lambda job: asyncio.run(verb(job))  # type: ignore[arg-type]


VERBS = [
    *(produce, consume, consume_in_group, offset_at, transact, be_fenced),
    *(create_topic, list_topics, describe_topic, create_partitions, delete_topic),
    *(describe_configs, replace_configs, delete_records, describe_cluster),
]

if __name__ == "__main__":
    serve({verb.__name__: run(verb) for verb in VERBS}, code_of)
