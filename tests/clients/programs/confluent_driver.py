"""confluent-kafka (librdkafka) as a driver; settings of a job go to librdkafka as they are."""

import time
from typing import Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from jobs import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Job,
    headers_of,
    pack,
    packed_headers,
    serve,
    unpack,
)

SECONDS = 20
RESOURCES = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER}
SPECS = {
    EARLIEST: OffsetSpec.earliest,
    LATEST: OffsetSpec.latest,
    MAX_TIMESTAMP: OffsetSpec.max_timestamp,
}
TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "append"}


def settings(job: Job, **more: Any) -> dict[str, Any]:
    base = {"bootstrap.servers": job["bootstrap"], "client.id": job["client_id"]}
    return base | {name.replace("_", "."): value for name, value in more.items()} | job["settings"]


def ask(job: Job, verb: str, *arguments: Any, **named: Any) -> Any:
    """Call the admin client and wait; it must outlive its futures, so it is held until then."""
    admin = AdminClient(settings(job))
    answer = getattr(admin, verb)(*arguments, **named)
    (future,) = answer.values() if isinstance(answer, dict) else (answer,)
    return future.result(SECONDS)


def produce(job: Job) -> Job:
    producer = Producer(
        settings(
            job,
            acks=job["acks"],
            compression_type=job["codec"],
            enable_idempotence=job["idempotent"],
            linger_ms=20,
            message_max_bytes=16_000_000,
            message_timeout_ms=SECONDS * 1000,
        )
    )
    reports: list[tuple[KafkaError | None, Message]] = []
    for record in job["records"]:
        stamp = {} if record["timestamp"] is None else {"timestamp": record["timestamp"]}
        if record["headers"]:
            stamp["headers"] = headers_of(record)
        producer.produce(
            job["topic"],
            unpack(record["value"]),
            unpack(record["key"]),
            partition=job["partition"],
            on_delivery=lambda error, message: reports.append((error, message)),
            **stamp,
        )
    producer.flush(SECONDS)
    for error, _ in reports:
        if error is not None:
            raise KafkaException(error)
    return {"offsets": [message.offset() for _, message in reports]}


def as_json(message: Message) -> Job:
    kind, timestamp = message.timestamp()
    return {
        "offset": message.offset(),
        "timestamp": timestamp,
        "timestamp_type": TIMESTAMP_TYPES.get(kind),
        "key": pack(message.key()),
        "value": pack(message.value()),
        "headers": packed_headers(message.headers()),
    }


def consume(job: Job) -> Job:
    consumer = Consumer(
        settings(
            job,
            group_id="none",
            enable_auto_commit=False,
            auto_offset_reset="error",
            allow_auto_create_topics=False,
            fetch_wait_max_ms=100,
            isolation_level="read_committed" if job["committed"] else "read_uncommitted",
        )
    )
    try:
        consumer.assign([starting_point(consumer, job)])
        return {"records": read(consumer, job["count"])}
    finally:
        consumer.close()


def starting_point(consumer: Consumer, job: Job) -> TopicPartition:
    """With an offset by number: librdkafka looks the others up only after half a second."""
    partition = TopicPartition(job["topic"], job["partition"], job["offset"])
    if job["offset"] < 0:
        first, end = consumer.get_watermark_offsets(partition, timeout=SECONDS)
        partition.offset = first if job["offset"] == EARLIEST else end
    return partition


def read(consumer: Consumer, count: int) -> list[Job]:
    records: list[Job] = []
    deadline = time.monotonic() + SECONDS
    while len(records) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        records.append(as_json(message))
    return records


def consume_in_group(job: Job) -> Job:
    consumer = Consumer(
        settings(
            job,
            group_id=job["group"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_wait_max_ms=100,
        )
    )
    consumer.subscribe([job["topic"]])
    try:
        records = read(consumer, job["count"])
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return {"records": records}


def transactional_producer(job: Job) -> Producer:
    producer = Producer(settings(job, transactional_id=job["transactional_id"], linger_ms=0))
    producer.init_transactions(SECONDS)
    return producer


def transact(job: Job) -> None:
    producer = transactional_producer(job)
    for transaction in job["transactions"]:
        producer.begin_transaction()
        for value in transaction["values"]:
            producer.produce(job["topic"], unpack(value), partition=job["partition"])
        if transaction["group"] is not None:
            place = TopicPartition(job["topic"], job["partition"], transaction["offset"])
            producer.send_offsets_to_transaction([place], metadata_of(job, transaction), SECONDS)
        producer.flush(SECONDS)
        if transaction["commit"]:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)


def metadata_of(job: Job, transaction: Job) -> object:
    consumer = Consumer(settings(job, group_id=transaction["group"]))
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def be_fenced(job: Job) -> None:
    first = transactional_producer(job)
    first.begin_transaction()
    first.produce(job["topic"], b"z", partition=job["partition"])
    first.flush(SECONDS)
    transactional_producer(job)
    first.commit_transaction(SECONDS)


def offset_at(job: Job) -> Job:
    at = job["at"]
    spec = SPECS[at]() if at in SPECS else OffsetSpec.for_timestamp(at)
    found = ask(job, "list_offsets", {TopicPartition(job["topic"], job["partition"]): spec})
    return {"offset": found.offset, "timestamp": found.timestamp}


def create_topic(job: Job) -> None:
    new = NewTopic(job["topic"], job["partitions"], 1, config=job["configs"])
    ask(job, "create_topics", [new], validate_only=job["validate_only"])


def list_topics(job: Job) -> Job:
    return {"topics": list(AdminClient(settings(job)).list_topics(timeout=SECONDS).topics)}


def describe_topic(job: Job) -> Job:
    described = ask(job, "describe_topics", TopicCollection([job["topic"]]))
    return {
        "partitions": [
            {
                "id": partition.id,
                "leader": partition.leader.id,
                "replicas": [node.id for node in partition.replicas],
                "isr": [node.id for node in partition.isr],
            }
            for partition in described.partitions
        ]
    }


def create_partitions(job: Job) -> None:
    ask(job, "create_partitions", [NewPartitions(job["topic"], job["total"])])


def describe_configs(job: Job) -> Job:
    resource = ConfigResource(RESOURCES[job["resource"]], job["name"])
    entries = ask(job, "describe_configs", [resource])
    sources = {name: ConfigSource(entry.source).name for name, entry in entries.items()}
    return {
        "configs": {
            name: {"value": entry.value, "default": sources[name] == "DEFAULT_CONFIG"}
            for name, entry in entries.items()
        }
    }


def set_configs(job: Job) -> None:
    entries = [
        ConfigEntry(
            name,
            value,
            incremental_operation=(
                AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            ),
        )
        for name, value in job["configs"].items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, job["topic"], incremental_configs=entries)
    ask(job, "incremental_alter_configs", [resource])


def replace_configs(job: Job) -> None:
    resource = ConfigResource(ResourceType.TOPIC, job["topic"], set_config=job["configs"])
    ask(job, "alter_configs", [resource])


def delete_records(job: Job) -> Job:
    until = TopicPartition(job["topic"], job["partition"], job["before"])
    return {"low_watermark": ask(job, "delete_records", [until]).low_watermark}


def delete_topic(job: Job) -> None:
    ask(job, "delete_topics", [job["topic"]])


def describe_cluster(job: Job) -> Job:
    cluster = ask(job, "describe_cluster")
    brokers = [{"id": node.id, "host": node.host, "port": node.port} for node in cluster.nodes]
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller.id,
        "brokers": brokers,
    }


def code_of(failure: Exception) -> int | None:
    if not isinstance(failure, KafkaException):
        return None
    error = failure.args[0]
    if error.code() == KafkaError._AUTO_OFFSET_RESET and "out of range" in error.str():
        return KafkaError.OFFSET_OUT_OF_RANGE
    if error.code() == KafkaError._FENCED:
        return KafkaError.PRODUCER_FENCED
    return error.code() if error.code() >= 0 else None


VERBS = [
    *(produce, consume, consume_in_group, offset_at, transact, be_fenced),
    *(create_topic, list_topics, describe_topic, create_partitions, delete_topic),
    *(describe_configs, set_configs, replace_configs, delete_records, describe_cluster),
]

if __name__ == "__main__":
    serve({verb.__name__: verb for verb in VERBS}, code_of)
