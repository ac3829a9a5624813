"""kafka-python as a driver: the present release and, in an environment of its own, 2.0.2."""

import re
import sys
import time
from typing import Any

from jobs import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    CodedError,
    Job,
    headers_of,
    pack,
    packed_headers,
    serve,
    unpack,
)

IS_OLD = len(sys.argv) == 2  # the folder of an old release, which then hides the present one
if IS_OLD:
    sys.path.insert(0, sys.argv[1])
    # It carries its own copy of six, whose importer newer Pythons do not understand.
    import six

    sys.modules["kafka.vendor.six.moves"] = six.moves

from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # noqa: E402
from kafka.admin import (  # noqa: E402  # noqa: E402
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewPartitions,
    NewTopic,
)
from kafka.errors import KafkaError  # noqa: E402
from kafka.structs import OffsetAndMetadata  # noqa: E402

SECONDS = 20
RESOURCES = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}
TIMESTAMP_TYPES = {0: "create", 1: "append"}


def common(job: Job) -> dict[str, Any]:
    return {"bootstrap_servers": job["bootstrap"], "client_id": job["client_id"]}


class Admin(KafkaAdminClient):
    """Closes itself; 2.0.2 is no context manager."""

    def __init__(self, job: Job) -> None:
        super().__init__(**common(job), request_timeout_ms=SECONDS * 1000)

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check(errors: Any) -> None:
    """Raise what 2.0.2 only returns: (name, code, message) in its answers."""
    for name, code, message in errors:
        if code:
            raise CodedError(code, f"{name}: {message}")


def produce(job: Job) -> Job:
    acks = job["acks"] if job["acks"] == "all" else int(job["acks"])
    codec = None if job["codec"] == "none" else job["codec"]
    idempotence = {} if IS_OLD else {"enable_idempotence": job["idempotent"]}
    producer = KafkaProducer(
        **common(job),
        **idempotence,
        acks=acks,
        compression_type=codec,
        linger_ms=20,
        max_request_size=16_000_000,
        max_block_ms=SECONDS * 1000,
    )
    try:
        futures = [
            producer.send(
                job["topic"],
                value=unpack(record["value"]),
                key=unpack(record["key"]),
                headers=headers_of(record),
                partition=job["partition"],
                timestamp_ms=record["timestamp"],
            )
            for record in job["records"]
        ]
        producer.flush(SECONDS)
        return {"offsets": [future.get(SECONDS).offset for future in futures]}
    finally:
        producer.close(5)


def as_json(record: Any) -> Job:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES.get(record.timestamp_type),
        "key": pack(record.key),
        "value": pack(record.value),
        "headers": packed_headers(record.headers),
    }


def consumer_of(job: Job) -> tuple[KafkaConsumer, TopicPartition]:
    options: dict[str, Any] = {"fetch_max_wait_ms": 100}
    if job.get("committed"):
        options["isolation_level"] = "read_committed"
    consumer = KafkaConsumer(**common(job), **options, group_id=None, auto_offset_reset="none")
    partition = TopicPartition(job["topic"], job["partition"])
    consumer.assign([partition])
    return consumer, partition


def consume(job: Job) -> Job:
    consumer, partition = consumer_of(job)
    records: list[Job] = []
    deadline = time.monotonic() + SECONDS
    try:
        match job["offset"]:
            case -2:
                consumer.seek_to_beginning(partition)
            case -1:
                consumer.seek_to_end(partition)
            case offset:
                consumer.seek(partition, offset)
        while len(records) < job["count"] and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=200).values():
                records += [as_json(record) for record in batch]
    finally:
        consumer.close()
    return {"records": records[: job["count"]]}


def consume_in_group(job: Job) -> Job:
    consumer = KafkaConsumer(
        **common(job),
        group_id=job["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
    )
    # It joins again when the number of partitions becomes known, and then now and then reads
    # nothing, of whatever broker; so it learns the number first.
    consumer.partitions_for_topic(job["topic"])
    consumer.subscribe([job["topic"]])
    records: list[Job] = []
    deadline = time.monotonic() + SECONDS
    try:
        while len(records) < job["count"] and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=200).values():
                records += [as_json(record) for record in batch]
        consumer.commit()
    finally:
        consumer.close()
    return {"records": records}


def transactional_producer(job: Job) -> KafkaProducer:
    producer = KafkaProducer(**common(job), transactional_id=job["transactional_id"])
    producer.init_transactions()
    return producer


def transact(job: Job) -> None:
    producer = transactional_producer(job)
    partition = TopicPartition(job["topic"], job["partition"])
    try:
        for transaction in job["transactions"]:
            producer.begin_transaction()
            for value in transaction["values"]:
                producer.send(job["topic"], value=unpack(value), partition=job["partition"])
            producer.flush(SECONDS)
            if transaction["group"] is not None:
                offsets = {partition: OffsetAndMetadata(transaction["offset"], "", -1)}
                producer.send_offsets_to_transaction(offsets, transaction["group"])
            if transaction["commit"]:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close(5)


def be_fenced(job: Job) -> None:
    first = transactional_producer(job)
    first.begin_transaction()
    first.send(job["topic"], value=b"z", partition=job["partition"]).get(SECONDS)
    second = transactional_producer(job)
    try:
        first.commit_transaction()
    finally:
        second.close(5)
        first.close(0)


def offset_at(job: Job) -> Job:
    if job["at"] == MAX_TIMESTAMP:
        return offset_of_max_timestamp(job)
    consumer, partition = consumer_of(job)
    try:
        if job["at"] == EARLIEST:
            return {"offset": consumer.beginning_offsets([partition])[partition]}
        if job["at"] == LATEST:
            return {"offset": consumer.end_offsets([partition])[partition]}
        found = consumer.offsets_for_times({partition: job["at"]})[partition]
    finally:
        consumer.close()
    if found is None:
        return {"offset": -1}
    return {"offset": found.offset, "timestamp": found.timestamp}


def offset_of_max_timestamp(job: Job) -> Job:
    from kafka.admin import OffsetSpec

    partition = TopicPartition(job["topic"], job["partition"])
    with Admin(job) as admin:
        found = admin.list_partition_offsets({partition: OffsetSpec.MAX_TIMESTAMP})[partition]
    return {"offset": found.offset, "timestamp": found.timestamp}


def create_topic(job: Job) -> None:
    new = NewTopic(job["topic"], job["partitions"], 1, topic_configs=job["configs"])
    with Admin(job) as admin:
        done = admin.create_topics([new], validate_only=job["validate_only"])
    if IS_OLD:
        check(done.topic_errors)


def list_topics(job: Job) -> Job:
    with Admin(job) as admin:
        return {"topics": admin.list_topics()}


def describe_topic(job: Job) -> Job:
    with Admin(job) as admin:
        (topic,) = admin.describe_topics([job["topic"]])
    check([(job["topic"], topic["error_code"], "")])
    return {
        "partitions": [
            {
                "id": part.get("partition_index", part.get("partition")),
                "leader": part.get("leader_id", part.get("leader")),
                "replicas": part.get("replica_nodes", part.get("replicas")),
                "isr": part.get("isr_nodes", part.get("isr")),
            }
            for part in topic["partitions"]
        ]
    }


def create_partitions(job: Job) -> None:
    with Admin(job) as admin:
        done = admin.create_partitions({job["topic"]: NewPartitions(job["total"])})
    if IS_OLD:
        check(done.topic_errors)


def describe_configs(job: Job) -> Job:
    resource = ConfigResource(RESOURCES[job["resource"]], job["name"])
    with Admin(job) as admin:
        if IS_OLD:
            return {"configs": old_configs(admin.describe_configs([resource]))}
        described = admin.describe_configs([resource], config_filter="all")
    found = described[job["resource"]][job["name"]]
    return {
        "configs": {
            name: {"value": entry["value"], "default": entry["config_source"] == "DEFAULT_CONFIG"}
            for name, entry in found.items()
        }
    }


def old_configs(responses: Any) -> Job:
    ((code, message, _, name, entries),) = responses[0].resources
    check([(name, code, message)])
    return {entry[0]: {"value": entry[1], "default": is_default(entry[3])} for entry in entries}


def is_default(source: Any) -> bool:
    """Version 0 says whether, later versions say where from; 5 is the default."""
    return source if isinstance(source, bool) else source == 5


def set_configs(job: Job) -> None:
    from kafka.admin import AlterConfigOp

    changes = {
        name: (AlterConfigOp.DELETE if value is None else AlterConfigOp.SET, value)
        for name, value in job["configs"].items()
    }
    alter(job, changes, incremental=True, raise_on_unknown=False)


def replace_configs(job: Job) -> None:
    choice = {} if IS_OLD else {"incremental": False, "raise_on_unknown": False}
    alter(job, job["configs"], **choice)


def alter(job: Job, configs: Job, **how: bool) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, job["topic"], configs=configs)
    with Admin(job) as admin:
        done = admin.alter_configs([resource], **how)
    if IS_OLD:
        check((name, code, message) for code, message, _, name in done.resources)
    elif (result := done["topic"][job["topic"]]) != "OK":
        code = re.match(r"\[Error (\d+)\]", result)
        raise CodedError(int(code.group(1)) if code else None, result)


def delete_records(job: Job) -> Job:
    partition = TopicPartition(job["topic"], job["partition"])
    with Admin(job) as admin:
        done = admin.delete_records({partition: job["before"]})[partition]
    return {"low_watermark": done["low_watermark"]}


def delete_topic(job: Job) -> None:
    with Admin(job) as admin:
        done = admin.delete_topics([job["topic"]])
    if IS_OLD:
        check((name, code, "") for name, code in done.topic_error_codes)


def describe_cluster(job: Job) -> Job:
    with Admin(job) as admin:
        cluster = admin.describe_cluster()
    return {
        "cluster_id": cluster["cluster_id"],
        "controller": cluster["controller_id"],
        "brokers": [
            {
                "id": broker.get("broker_id", broker.get("node_id")),
                "host": broker["host"],
                "port": broker["port"],
            }
            for broker in cluster["brokers"]
        ],
    }


def describe_log_dirs(job: Job) -> Job:
    with Admin(job) as admin:
        (broker,) = admin.describe_log_dirs()
    return {
        "sizes": {
            str(partition["partition_index"]): partition["partition_size"]
            for folder in broker["log_dirs"]
            for topic in folder["topics"]
            if topic["name"] == job["topic"]
            for partition in topic["partitions"]
        }
    }


def code_of(failure: Exception) -> int | None:
    code = getattr(failure, "errno", None) if isinstance(failure, KafkaError) else None
    return code if code is not None and code >= 0 else None


VERBS = [
    *(produce, consume, consume_in_group, offset_at, transact, be_fenced),
    *(create_topic, list_topics, describe_topic, create_partitions, delete_topic),
    *(describe_configs, set_configs, replace_configs, delete_records),
    *(describe_cluster, describe_log_dirs),
]

if __name__ == "__main__":
    serve({verb.__name__: verb for verb in VERBS}, code_of)
