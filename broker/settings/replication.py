"""Replication, leadership and shutdown."""

from odradek.protocol.checks import at_least
from odradek.protocol.settings import (
    MAX_LONG,
    Dynamic,
    Importance,
    Settings,
    boolean,
    integer,
    long,
    optional_integer,
    optional_text,
)


class ReplicationSettings(Settings):
    """Replication."""

    num_replica_fetchers = integer(
        "num.replica.fetchers",
        1,
        "How many fetchers copy from each leading broker.",
        check=at_least(1),
        dynamic=Dynamic.CLUSTER_WIDE,
        importance=Importance.HIGH,
    )
    replica_lag_time_max_ms = long(
        "replica.lag.time.max.ms",
        30_000,
        "How long a follower may lag behind its leader and still count as in sync.",
        importance=Importance.HIGH,
    )
    replica_socket_timeout_ms = integer(
        "replica.socket.timeout.ms",
        30_000,
        "How long a follower waits for the answer to a fetch.",
        importance=Importance.HIGH,
    )
    replica_socket_receive_buffer_bytes = integer(
        "replica.socket.receive.buffer.bytes",
        64 * 1024,
        "The receive buffer of a follower's connection to its leader.",
        importance=Importance.HIGH,
    )
    replica_fetch_max_bytes = integer(
        "replica.fetch.max.bytes",
        1024**2,
        "How many bytes a follower asks for per partition; a larger batch comes all the same.",
        check=at_least(0),
    )
    replica_fetch_response_max_bytes = integer(
        "replica.fetch.response.max.bytes",
        10 * 1024**2,
        "How many bytes a follower asks for in one fetch; a larger batch comes all the same.",
        check=at_least(0),
    )
    replica_fetch_min_bytes = integer(
        "replica.fetch.min.bytes",
        1,
        "How many bytes a leader gathers before it answers a follower that waits.",
        importance=Importance.HIGH,
    )
    replica_fetch_wait_max_ms = integer(
        "replica.fetch.wait.max.ms",
        500,
        "How long a leader lets a follower wait for new records.",
        importance=Importance.HIGH,
    )
    replica_fetch_backoff_ms = integer(
        "replica.fetch.backoff.ms",
        1000,
        "How long a follower rests after a failed fetch.",
        check=at_least(0),
    )
    replica_high_watermark_checkpoint_interval_ms = long(
        "replica.high.watermark.checkpoint.interval.ms",
        5000,
        "How often the high watermarks are written to disk.",
        importance=Importance.HIGH,
    )
    replica_selector_class = optional_text(
        "replica.selector.class",
        "How the replica for a consumer is chosen: RackAwareReplicaSelector sends consumers to a "
        "replica in their own rack; unset is always the leader.",
    )
    num_replica_alter_log_dirs_threads = optional_integer(
        "num.replica.alter.log.dirs.threads",
        "How many threads move replicas between log directories; unset means one per directory.",
        importance=Importance.HIGH,
    )
    leader_replication_throttled_rate = long(
        "leader.replication.throttled.rate",
        MAX_LONG,
        "How many bytes a second throttled replicas may be sent from here; set while running.",
        check=at_least(0),
        dynamic=Dynamic.PER_BROKER,
    )
    follower_replication_throttled_rate = long(
        "follower.replication.throttled.rate",
        MAX_LONG,
        "How many bytes a second throttled replicas here may fetch; set while running.",
        check=at_least(0),
        dynamic=Dynamic.PER_BROKER,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        MAX_LONG,
        "How fast replicas move between log directories; set while running.",
        check=at_least(0),
        dynamic=Dynamic.PER_BROKER,
    )


class LeadershipSettings(Settings):
    """Leadership and shutdown."""

    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable",
        True,
        "Whether leadership goes back to the preferred replicas by itself.",
        importance=Importance.HIGH,
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller looks whether leadership is unbalanced.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    leader_imbalance_per_broker_percentage = integer(
        "leader.imbalance.per.broker.percentage",
        10,
        "Which share of a broker's preferred partitions may be led elsewhere before the "
        "controller moves them back.",
        importance=Importance.HIGH,
    )
    controlled_shutdown_enable = boolean(
        "controlled.shutdown.enable",
        True,
        "Whether a broker hands over its leaderships before it stops.",
    )
    controlled_shutdown_max_retries = integer(
        "controlled.shutdown.max.retries", 3, "How often that is tried again."
    )
    controlled_shutdown_retry_backoff_ms = long(
        "controlled.shutdown.retry.backoff.ms", 5000, "How long to wait between those attempts."
    )
    controller_socket_timeout_ms = integer(
        "controller.socket.timeout.ms",
        30_000,
        "How long the controller waits for a broker's answer.",
    )
