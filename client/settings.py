"""The settings of clients, under Kafka's own names and with Kafka 3.9's defaults.

Each is declared once here; `configured` reads them from a mapping of Kafka's names, from Python
keyword arguments with underscores for dots, or from both:

    configured(ProducerSettings, {"linger.ms": "5"}, bootstrap_servers="a:9092,b:9092")

TLS takes PEM files. User and password of SASL have settings of their own, as in librdkafka.
"""

from collections.abc import Mapping
from typing import TypeVar

from odradek.protocol.checks import Value, at_least, between, one_of
from odradek.protocol.settings import (
    MAX_INT,
    Settings,
    SettingsError,
    boolean,
    integer,
    long,
    optional_text,
    password,
    text,
    words,
)

Given = Value | list[str]
S = TypeVar("S", bound=Settings)

NATURAL = at_least(0)
POSITIVE = at_least(1)


class ConnectionSettings(Settings):
    """What one connection needs to know."""

    client_id = text("client.id", "odradek", "The name this client gives itself in every request.")
    request_timeout_ms = integer(
        "request.timeout.ms", 30_000, "How long to wait for an answer.", check=POSITIVE
    )
    socket_connection_setup_timeout_ms = long(
        "socket.connection.setup.timeout.ms",
        10_000,
        "How long a connection may take to be there, authentication included.",
        check=POSITIVE,
    )
    security_protocol = text(
        "security.protocol",
        "PLAINTEXT",
        "How the broker's listener protects and authenticates.",
        check=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True),
    )
    sasl_mechanism = text(
        "sasl.mechanism",
        "PLAIN",
        "The SASL mechanism.",
        check=one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    )
    sasl_username = optional_text("sasl.username", "The user of PLAIN and SCRAM.")
    sasl_password = password("sasl.password", "The password of PLAIN and SCRAM.")
    ssl_ca_location = optional_text(
        "ssl.ca.location", "A PEM file of the authorities to trust; the system's when unset."
    )
    ssl_certificate_location = optional_text(
        "ssl.certificate.location", "A PEM file with the certificate of this client."
    )
    ssl_key_location = optional_text(
        "ssl.key.location", "A PEM file with the key of this client's certificate."
    )
    ssl_key_password = password("ssl.key.password", "The password of that key.")
    ssl_endpoint_identification_algorithm = text(
        "ssl.endpoint.identification.algorithm",
        "https",
        "Whether the broker's certificate must name its host; empty: it need not.",
        check=one_of("https", "", ignore_case=True),
    )


class ClientSettings(ConnectionSettings):
    """What every kind of client has in common."""

    bootstrap_servers = words(
        "bootstrap.servers", ("localhost:9092",), "Brokers to ask for the rest of the cluster."
    )
    metadata_max_age_ms = long(
        "metadata.max.age.ms",
        300_000,
        "How old metadata may get before it is asked for again.",
        check=NATURAL,
    )
    reconnect_backoff_ms = long(
        "reconnect.backoff.ms", 50, "The first pause before connecting again.", check=NATURAL
    )
    reconnect_backoff_max_ms = long(
        "reconnect.backoff.max.ms", 1_000, "The longest such pause.", check=NATURAL
    )
    retry_backoff_ms = long(
        "retry.backoff.ms", 100, "The first pause before asking again.", check=NATURAL
    )
    retry_backoff_max_ms = long(
        "retry.backoff.max.ms", 1_000, "The longest such pause.", check=NATURAL
    )


class ProducerSettings(ClientSettings):
    acks = text(
        "acks",
        "all",
        "Who has written a record before it counts: nobody (0), the leader (1), all in sync.",
        check=one_of("all", "-1", "0", "1"),
    )
    batch_size = integer("batch.size", 16_384, "The bytes of a full batch.", check=NATURAL)
    buffer_memory = long(
        "buffer.memory", 33_554_432, "The bytes of records that may wait.", check=NATURAL
    )
    compression_type = text(
        "compression.type",
        "none",
        "How batches are compressed.",
        check=one_of("none", "gzip", "snappy", "lz4", "zstd"),
    )
    delivery_timeout_ms = integer(
        "delivery.timeout.ms",
        120_000,
        "How long after `send` a record has either succeeded or failed.",
        check=NATURAL,
    )
    enable_idempotence = boolean(
        "enable.idempotence", True, "Number the batches, so that no retry writes one twice."
    )
    linger_ms = long(
        "linger.ms", 0, "How long a batch that is not full waits for more.", check=NATURAL
    )
    max_block_ms = long(
        "max.block.ms",
        60_000,
        "How long `send` waits for memory or metadata, and transactions for their coordinator.",
        check=NATURAL,
    )
    max_in_flight_requests_per_connection = integer(
        "max.in.flight.requests.per.connection",
        5,
        "Requests that may be under way to one broker.",
        check=POSITIVE,
    )
    max_request_size = integer(
        "max.request.size", 1_048_576, "The largest request, and record.", check=NATURAL
    )
    retries = integer(
        "retries", MAX_INT, "How often a batch is sent again.", check=between(0, MAX_INT)
    )
    transaction_timeout_ms = integer(
        "transaction.timeout.ms", 60_000, "When the coordinator gives a transaction up."
    )
    transactional_id = optional_text("transactional.id", "The name of this transactional producer.")


class ConsumerSettings(ClientSettings):
    allow_auto_create_topics = boolean(
        "allow.auto.create.topics", True, "Let a subscription create its topics."
    )
    auto_commit_interval_ms = integer(
        "auto.commit.interval.ms", 5_000, "The time between automatic commits.", check=NATURAL
    )
    auto_offset_reset = text(
        "auto.offset.reset",
        "latest",
        "Where to begin without a committed offset.",
        check=one_of("earliest", "latest", "none"),
    )
    check_crcs = boolean("check.crcs", True, "Check the checksum of every batch.")
    client_rack = text("client.rack", "", "Where this consumer is; brokers may be chosen by it.")
    default_api_timeout_ms = integer(
        "default.api.timeout.ms", 60_000, "How long calls without a timeout try.", check=NATURAL
    )
    enable_auto_commit = boolean("enable.auto.commit", True, "Commit positions from time to time.")
    fetch_max_bytes = integer(
        "fetch.max.bytes", 52_428_800, "The most a broker answers at once.", check=NATURAL
    )
    fetch_max_wait_ms = integer(
        "fetch.max.wait.ms", 500, "How long a broker waits for fetch.min.bytes.", check=NATURAL
    )
    fetch_min_bytes = integer(
        "fetch.min.bytes", 1, "How much a broker collects before it answers.", check=NATURAL
    )
    group_id = optional_text("group.id", "The consumer group.")
    group_instance_id = optional_text(
        "group.instance.id", "The name of a static member, kept over restarts."
    )
    heartbeat_interval_ms = integer(
        "heartbeat.interval.ms", 3_000, "The time between heartbeats.", check=POSITIVE
    )
    isolation_level = text(
        "isolation.level",
        "read_uncommitted",
        "Whether records of open and aborted transactions are seen.",
        check=one_of("read_uncommitted", "read_committed"),
    )
    max_partition_fetch_bytes = integer(
        "max.partition.fetch.bytes", 1_048_576, "The most of one partition.", check=NATURAL
    )
    max_poll_interval_ms = integer(
        "max.poll.interval.ms",
        300_000,
        "The time between polls after which a member counts as stuck.",
        check=POSITIVE,
    )
    max_poll_records = integer(
        "max.poll.records", 500, "The most records of one poll.", check=POSITIVE
    )
    partition_assignment_strategy = words(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        "How partitions are shared out, in order of preference.",
        check=one_of("range", "roundrobin", "sticky", "cooperative-sticky"),
    )
    session_timeout_ms = integer(
        "session.timeout.ms", 45_000, "When a silent member is taken for dead.", check=POSITIVE
    )


class AdminSettings(ClientSettings):
    default_api_timeout_ms = integer(
        "default.api.timeout.ms", 60_000, "How long calls without a timeout try.", check=NATURAL
    )


def configured(kind: type[S], given: Mapping[str, Given] | None = None, **named: Given) -> S:
    """Settings of this kind, under either kind of name; keyword arguments win.

    Raises one SettingsError for all problems.
    """
    by_attribute = {setting.attribute: name for name, setting in kind.table.items()}
    both = {**(given or {}), **named}
    merged = {by_attribute.get(name, name): value for name, value in both.items()}
    unknown = kind.table.unknown(merged)
    if unknown:
        raise SettingsError([f"Unknown configuration {name}" for name in sorted(unknown)])
    texts: dict[str, str] = {}
    for name, value in merged.items():
        plain = tuple(value) if isinstance(value, list) else value
        as_text = kind.table[name].text_of(plain)
        if as_text is not None:
            texts[name] = as_text
    return kind(kind.table.parse(texts))
