"""The clients that are held against the broker, and what each of them can do.

One row for each client: the part it needs, the program that drives it, its settings, and its
abilities. A test that is marked with abilities runs for every client that has all of them; what a
client cannot do by itself (kcat makes no topics) is no test for it, rather than a skipped one.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from scripts.parts import (
    KAFKA_ON_KRAFT,
    KAFKA_ON_ZOOKEEPER,
    OLD_KAFKA_PYTHON,
    build_dir,
    java_client_libs,
)

PROGRAMS = Path(__file__).parent / "programs"
OLD_KAFKA_PYTHON_PART = f"kafka-python-{OLD_KAFKA_PYTHON}"

CODECS = ("gzip", "snappy", "lz4", "zstd")

# What a client does with records …
BASIC = {"produce", "consume", "acks", "offset_at", "null_values", "too_large", "auto_create"}
BASIC |= {"groups"}
SENDS = {*BASIC, "headers", "timestamps", "append_time", "binary", "reports_offsets"}
SENDS |= {"empty_values"}
TRANSACTS = {"transactions", "offsets_in_transactions", "reads_committed"}
TIMES = {"time_lookup", "no_such_time"}
MODERN = {*SENDS, *TIMES, *CODECS, "idempotent", "out_of_range", "below_start"}
# … and what it can ask and change.
TOPICS = {"create_topic", "list_topics", "describe_topic", "create_partitions", "delete_topic"}
ADMIN = {*TOPICS, "validate_only", "describe_configs", "replace_configs", "config_errors"}
ADMIN |= {"describe_cluster"}
DELETES = {"delete_records", "delete_to_the_end"}
LATEST_ADMIN = {"set_configs", "max_timestamp", "cluster_id", "describe_unknown"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the roster."""

    name: str
    parts: tuple[str, ...]
    command: tuple[str, ...]
    abilities: set[str]
    settings: dict[str, str] = field(default_factory=dict)
    needs_kafka_4: bool = False
    """Kafka 3.9 does not serve it."""

    def has(self, codec: str) -> bool:
        return codec == "none" or codec in self.abilities


def python(program: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, str(PROGRAMS / program), *arguments)


def java(version: str, main_class: str) -> tuple[str, ...]:
    quick = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    classes = build_dir("java-clients") / version
    return ("java", *quick, quiet, "-cp", f"{classes}:{java_client_libs(version)}/*", main_class)


def go(program: str) -> tuple[str, ...]:
    return (str(build_dir("go-clients") / program),)


ROSTER = (
    Entry(
        "confluent-kafka",
        (),
        python("confluent_driver.py"),
        MODERN | TRANSACTS | ADMIN | DELETES | LATEST_ADMIN,
    ),
    Entry(
        "confluent-kafka-consumer",
        (),
        python("confluent_driver.py"),
        {"groups"},
        settings={"group.protocol": "consumer"},
        needs_kafka_4=True,
    ),
    Entry(
        "kafka-python",
        (),
        python("kafka_python_driver.py"),
        MODERN | TRANSACTS | ADMIN | DELETES | LATEST_ADMIN | {"describe_log_dirs"},
    ),
    Entry(
        "aiokafka",
        (),
        python("aiokafka_driver.py"),
        MODERN | TRANSACTS | ADMIN | DELETES | {"cluster_id"},
    ),
    Entry(
        "kcat",
        ("kcat",),
        python("kcat_driver.py"),
        MODERN - {"timestamps", "binary", "reports_offsets", "empty_values"}
        | {"list_topics", "describe_topic", "describe_cluster"},
    ),
    Entry(
        "java-3.9",
        ("java-clients",),
        java(KAFKA_ON_ZOOKEEPER, "Driver"),
        MODERN | TRANSACTS | ADMIN | DELETES | LATEST_ADMIN | {"describe_log_dirs"},
    ),
    Entry(
        "java-4.2",
        ("java-clients",),
        java(KAFKA_ON_KRAFT, "Driver"),
        (MODERN | TRANSACTS | ADMIN | DELETES | LATEST_ADMIN | {"describe_log_dirs"})
        - {"replace_configs"},
    ),
    Entry(
        "java-4.2-consumer",
        ("java-clients",),
        java(KAFKA_ON_KRAFT, "Driver"),
        {"groups"},
        settings={"group.protocol": "consumer"},
        needs_kafka_4=True,
    ),
    Entry(
        "franz-go",
        ("go-clients",),
        go("franz"),
        (MODERN | ADMIN | DELETES | LATEST_ADMIN | {"describe_log_dirs"} | TRANSACTS)
        - {"no_such_time", "offsets_in_transactions"},
    ),
    Entry(
        "sarama",
        ("go-clients",),
        go("sarama"),
        MODERN
        | TRANSACTS
        | ADMIN
        | DELETES
        | LATEST_ADMIN - {"cluster_id", "max_timestamp"}
        | {"describe_log_dirs", "consume_unknown"},
    ),
    Entry(
        "kafka-go",
        ("go-clients",),
        go("kafkago"),
        (MODERN | ADMIN | LATEST_ADMIN)
        - {"idempotent", "max_timestamp", "auto_create", "validate_only", "below_start"}
        - {"empty_values"},
    ),
    Entry(
        "kafkajs",
        ("node-clients",),
        ("node", str(build_dir("node-clients") / "kafkajs.js")),
        (MODERN | TRANSACTS | ADMIN | DELETES | {"cluster_id"})
        - {"lz4", "zstd", "no_such_time", "reads_committed"},
    ),
    # Clients of the past: older versions of every request, and message formats 0 and 1.
    Entry(
        "kafka-python-2.0.2",
        (OLD_KAFKA_PYTHON_PART,),
        python("kafka_python_driver.py", str(build_dir(OLD_KAFKA_PYTHON_PART))),
        (MODERN | ADMIN | {"cluster_id"}) - {"idempotent"},
    ),
    Entry(
        "java-2.3",
        ("java-clients",),
        java("2.3.1", "RecordsDriver"),
        MODERN | TRANSACTS,
    ),
    Entry(
        "java-0.10",
        ("java-clients",),
        java("0.10.2.2", "OldDriver"),
        MODERN - {"headers", "idempotent", "zstd"} | {"list_topics"},
    ),
    Entry(
        "java-0.9",
        ("java-clients",),
        java("0.9.0.1", "OldDriver"),
        BASIC
        | {
            "gzip",
            "snappy",
            "out_of_range",
            "below_start",
            "binary",
            "reports_offsets",
            "list_topics",
        },
    ),
    Entry(
        "sarama-0.10",
        ("go-clients",),
        go("sarama"),
        MODERN - {"headers", "idempotent", "zstd"},
        settings={"version": "0.10.2.0"},
    ),
    Entry(
        "sarama-0.9",
        ("go-clients",),
        go("sarama"),
        BASIC - {"groups"}
        | {"gzip", "snappy", "out_of_range", "below_start", "binary", "reports_offsets"},
        settings={"version": "0.9.0.1"},
    ),
    Entry(
        "kcat-0.9",
        ("kcat",),
        python("kcat_driver.py"),
        BASIC | {"gzip", "snappy", "out_of_range", "below_start"},
        settings={"api.version.request": "false", "broker.version.fallback": "0.9.0.1"}
        | {"fetch.message.max.bytes": "8000000"},
    ),
)


def clients_that(wanted: set[str]) -> list[Entry]:
    return [entry for entry in ROSTER if wanted <= entry.abilities]
