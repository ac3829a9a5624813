"""What broker settings must keep among each other, beyond the check of each by itself.

Pure: a complete set of values in, one sentence for each contradiction out. The broker does not
start, and a dynamic change is refused, while there is one.
"""

from collections.abc import Iterator

from odradek.broker.settings.all import BrokerSettings
from odradek.storage.log_config import LogConfig

_CLEANER_MIN_BYTES = 1024 * 1024

# The two ways to choose a replica for a consumer, by the last word of Kafka's class names.
RACK_AWARE = "RackAwareReplicaSelector"
LEADER_ONLY = "LeaderSelector"


def contradictions(config: BrokerSettings, log_defaults: LogConfig) -> Iterator[str]:
    yield from _identity(config)
    yield from _logs(config, log_defaults)
    yield from _network(config)
    yield from _replication(config)
    yield from _groups(config)


def _identity(config: BrokerSettings) -> Iterator[str]:
    highest = config.reserved_broker_max_id
    if not config.broker_id_generation_enable and config.broker_id < 0:
        yield "broker.id must be set, because broker.id.generation.enable is false"
    if config.broker_id_generation_enable and not -1 <= config.broker_id <= highest:
        yield (
            f"broker.id must be from -1 to reserved.broker.max.id ({highest}), "
            f"not {config.broker_id}"
        )
    if config.zookeeper_connect is None:
        yield from _kraft(config)


def _kraft(config: BrokerSettings) -> Iterator[str]:
    """A configuration for KRaft will do if it is one for a single node."""
    cluster = "clusters are coordinated by ZooKeeper here: set zookeeper.connect"
    if config.process_roles and set(config.process_roles) != {"broker", "controller"}:
        yield f"process.roles must be broker,controller, because {cluster}"
    if len(config.controller_quorum_voters) > 1:
        yield f"controller.quorum.voters must name one voter, because {cluster}"
    if len(config.controller_quorum_bootstrap_servers) > 1:
        yield f"controller.quorum.bootstrap.servers must name one server, because {cluster}"


def _logs(config: BrokerSettings, log_defaults: LogConfig) -> Iterator[str]:
    if not config.data_dirs:
        yield "log.dirs must name at least one directory"
    if len(set(config.data_dirs)) < len(config.data_dirs):
        yield "log.dirs names a directory twice"
    if log_defaults.retention_ms == 0:
        yield "log.retention.ms must be at least 1, or -1 for no limit"
    if log_defaults.min_compaction_lag_ms > log_defaults.max_compaction_lag_ms:
        yield "log.cleaner.min.compaction.lag.ms must not exceed log.cleaner.max.compaction.lag.ms"
    threads = config.log_cleaner_threads
    if (
        config.log_cleaner_enable
        and config.log_cleaner_dedupe_buffer_size <= _CLEANER_MIN_BYTES * threads
    ):
        yield "log.cleaner.dedupe.buffer.size must be more than 1 MiB for each cleaner thread"


def _network(config: BrokerSettings) -> Iterator[str]:
    idle_ms = config.connections_max_idle_ms
    if 0 <= idle_ms < config.connection_failed_authentication_delay_ms:
        yield (
            "connections.max.idle.ms must not be less than "
            "connection.failed.authentication.delay.ms"
        )
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        yield "queued.max.request.bytes must be at least socket.request.max.bytes, or -1"
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        yield "max.connections.per.ip may be 0 only with max.connections.per.ip.overrides"
    for part in filter(None, config.max_connections_per_ip_overrides.split(",")):
        host, _, count = part.strip().rpartition(":")
        if not host or not count.isdecimal():
            yield f"max.connections.per.ip.overrides: {part.strip()!r} is not host:count"


def _replication(config: BrokerSettings) -> Iterator[str]:
    wait_ms = config.replica_fetch_wait_max_ms
    if wait_ms > config.replica_socket_timeout_ms:
        yield "replica.socket.timeout.ms must not be less than replica.fetch.wait.max.ms"
    if wait_ms > config.replica_lag_time_max_ms:
        yield "replica.lag.time.max.ms must not be less than replica.fetch.wait.max.ms"
    selector = config.replica_selector_class or LEADER_ONLY
    if selector.rpartition(".")[2] not in (RACK_AWARE, LEADER_ONLY):
        yield f"replica.selector.class must be {RACK_AWARE} or {LEADER_ONLY}, not {selector}"
    if config.default_replication_factor < 1:
        yield "default.replication.factor must be at least 1"


def _groups(config: BrokerSettings) -> Iterator[str]:
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        yield "group.min.session.timeout.ms must not exceed group.max.session.timeout.ms"
    yield from _within(config, "group.consumer.session.timeout.ms")
    yield from _within(config, "group.consumer.heartbeat.interval.ms")
    heartbeat_ms = config.group_consumer_heartbeat_interval_ms
    if heartbeat_ms >= config.group_consumer_session_timeout_ms:
        yield (
            "group.consumer.heartbeat.interval.ms must be less than "
            "group.consumer.session.timeout.ms"
        )


def _within(config: BrokerSettings, name: str) -> Iterator[str]:
    low_name, high_name = (
        name.replace("consumer.", f"consumer.{bound}.") for bound in ("min", "max")
    )
    value, low, high = (config.values[each] for each in (name, low_name, high_name))
    assert isinstance(value, int)
    assert isinstance(low, int)
    assert isinstance(high, int)
    if not low <= value <= high:
        yield f"{name} must be from {low_name} ({low}) to {high_name} ({high}), not {value}"
