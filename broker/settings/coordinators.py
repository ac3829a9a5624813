"""Consumer groups and transactions."""

from odradek.protocol.checks import at_least, between, one_of
from odradek.protocol.settings import (
    MAX_INT,
    Dynamic,
    Importance,
    Settings,
    boolean,
    integer,
    long,
    short,
    text,
    words,
)

_DAY_MS = 24 * 60 * 60 * 1000
_ASSIGNORS = (
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)


class GroupSettings(Settings):
    """Consumer groups."""

    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms", 6000, "The shortest session timeout a member may ask for."
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms",
        30 * 60 * 1000,
        "The longest session timeout a member may ask for.",
    )
    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        3000,
        "How long an empty group waits for more members before its first rebalance.",
    )
    group_max_size = integer(
        "group.max.size", MAX_INT, "How many members a group may have.", check=at_least(1)
    )
    group_coordinator_rebalance_protocols = words(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer"),
        "The group protocols that are served; of those named, classic and consumer exist.",
        check=one_of("classic", "consumer", "share", "streams"),
    )
    group_consumer_session_timeout_ms = integer(
        "group.consumer.session.timeout.ms",
        45_000,
        "The session timeout of members of the consumer protocol.",
        check=at_least(1),
    )
    group_consumer_min_session_timeout_ms = integer(
        "group.consumer.min.session.timeout.ms",
        45_000,
        "The shortest session timeout of the consumer protocol.",
        check=at_least(1),
    )
    group_consumer_max_session_timeout_ms = integer(
        "group.consumer.max.session.timeout.ms",
        60_000,
        "The longest session timeout of the consumer protocol.",
        check=at_least(1),
    )
    group_consumer_heartbeat_interval_ms = integer(
        "group.consumer.heartbeat.interval.ms",
        5000,
        "How often members of the consumer protocol are told to send heartbeats.",
        check=at_least(1),
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        "group.consumer.min.heartbeat.interval.ms",
        5000,
        "The shortest heartbeat interval of the consumer protocol.",
        check=at_least(1),
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "The longest heartbeat interval of the consumer protocol.",
        check=at_least(1),
    )
    group_consumer_max_size = integer(
        "group.consumer.max.size",
        MAX_INT,
        "How many members a group of the consumer protocol may have.",
        check=at_least(1),
    )
    group_consumer_assignors = words(
        "group.consumer.assignors",
        _ASSIGNORS,
        "The assignors of the consumer protocol, by Kafka's class names or as uniform and range; "
        "the first is the default.",
        check=one_of(*_ASSIGNORS, "uniform", "range"),
    )
    group_consumer_migration_policy = text(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which way a group with members may change between the classic and the consumer protocol: "
        "upgrade, when a member of the consumer protocol joins, downgrade, when the last one "
        "leaves, bidirectional, or disabled.",
        check=one_of("disabled", "downgrade", "upgrade", "bidirectional", ignore_case=True),
    )


class OffsetSettings(Settings):
    """Committed offsets."""

    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions",
        50,
        "How many partitions the topic of committed offsets gets when it is created.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_topic_replication_factor = short(
        "offsets.topic.replication.factor",
        3,
        "How many replicas the topic of committed offsets gets; it is not created before that "
        "many brokers are there.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes",
        100 * 1024**2,
        "The segment size of the topic of committed offsets; small ones load fast.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_topic_compression_codec = integer(
        "offsets.topic.compression.codec",
        0,
        "The compression of committed offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
        importance=Importance.HIGH,
    )
    offsets_load_buffer_size = integer(
        "offsets.load.buffer.size",
        5 * 1024**2,
        "How many bytes are read at a time while committed offsets are loaded.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long the offsets of a group without members are kept.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        10 * 60 * 1000,
        "How often the broker looks for offsets to forget.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_commit_timeout_ms = integer(
        "offsets.commit.timeout.ms",
        5000,
        "How long a commit may wait for the replicas of the offsets topic.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes",
        4096,
        "The longest text that may be committed with an offset.",
        importance=Importance.HIGH,
    )


class TransactionSettings(Settings):
    """Transactions and idempotent producers."""

    transaction_state_log_num_partitions = integer(
        "transaction.state.log.num.partitions",
        50,
        "How many partitions the topic of transactions gets when it is created.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_replication_factor = short(
        "transaction.state.log.replication.factor",
        3,
        "How many replicas the topic of transactions gets; it is not created before that many "
        "brokers are there.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_min_isr = integer(
        "transaction.state.log.min.isr",
        2,
        "The min.insync.replicas of the topic of transactions.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_segment_bytes = integer(
        "transaction.state.log.segment.bytes",
        100 * 1024**2,
        "The segment size of the topic of transactions; small ones load fast.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_load_buffer_size = integer(
        "transaction.state.log.load.buffer.size",
        5 * 1024**2,
        "How many bytes are read at a time while transactions are loaded.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_max_timeout_ms = integer(
        "transaction.max.timeout.ms",
        15 * 60 * 1000,
        "The longest transaction timeout a producer may ask for.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transactional_id_expiration_ms = integer(
        "transactional.id.expiration.ms",
        7 * _DAY_MS,
        "How long an unused transactional id is remembered.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        "How often the coordinator looks for transactions past their timeout.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        60 * 60 * 1000,
        "How often the coordinator looks for transactional ids to forget.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    transaction_partition_verification_enable = boolean(
        "transaction.partition.verification.enable",
        True,
        "Whether a leader asks the coordinator if a partition belongs to a transaction before it "
        "takes the first batch.",
        dynamic=Dynamic.CLUSTER_WIDE,
        importance=Importance.LOW,
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        _DAY_MS,
        "How long a partition remembers a producer that has gone silent.",
        check=at_least(1),
        dynamic=Dynamic.CLUSTER_WIDE,
        importance=Importance.LOW,
    )
    producer_id_expiration_check_interval_ms = integer(
        "producer.id.expiration.check.interval.ms",
        10 * 60 * 1000,
        "How often partitions look for producers to forget.",
        check=at_least(1),
        importance=Importance.LOW,
    )
