"""Listeners, sockets and requests."""

from odradek.protocol.checks import at_least, one_of
from odradek.protocol.endpoints import SecurityProtocol
from odradek.protocol.settings import (
    MAX_INT,
    Dynamic,
    Importance,
    Settings,
    integer,
    long,
    optional_text,
    text,
)

_PROTOCOLS = [protocol.name for protocol in SecurityProtocol]


class ListenerSettings(Settings):
    """Listeners."""

    listeners = text(
        "listeners",
        "PLAINTEXT://:9092",
        "Where the broker listens: NAME://host:port, separated by commas. No host is every "
        "interface, port 0 any free port.",
        dynamic=Dynamic.PER_BROKER,
        importance=Importance.HIGH,
    )
    advertised_listeners = optional_text(
        "advertised.listeners",
        "What clients are told to connect to, when that is not what `listeners` says.",
        dynamic=Dynamic.PER_BROKER,
        importance=Importance.HIGH,
    )
    listener_security_protocol_map = text(
        "listener.security.protocol.map",
        ",".join(f"{name}:{name}" for name in _PROTOCOLS),
        "The security protocol of each listener name: NAME:PROTOCOL, separated by commas.",
        dynamic=Dynamic.PER_BROKER,
        importance=Importance.LOW,
    )
    inter_broker_listener_name = optional_text(
        "inter.broker.listener.name",
        "The listener that other brokers use; unset means the one of "
        "`security.inter.broker.protocol`.",
    )
    security_inter_broker_protocol = text(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "The security protocol between brokers, when no listener is named for it.",
        check=one_of(*_PROTOCOLS),
    )
    control_plane_listener_name = optional_text(
        "control.plane.listener.name",
        "The listener on which the controller talks to this broker; unset means the one between "
        "brokers.",
        importance=Importance.HIGH,
    )
    controller_listener_names = optional_text(
        "controller.listener.names",
        "Listeners of this name in `listeners` are not opened: they are for KRaft controllers, "
        "which do not exist here.",
        importance=Importance.HIGH,
    )


class AcceptorSettings(Settings):
    """Connections of a listener."""

    num_network_threads = integer(
        "num.network.threads",
        3,
        "How many processors share the connections of a listener.",
        check=at_least(1),
        dynamic=Dynamic.CLUSTER_WIDE,
        importance=Importance.HIGH,
    )
    max_connections = integer(
        "max.connections",
        MAX_INT,
        "How many connections the broker holds at once.",
        check=at_least(0),
        dynamic=Dynamic.CLUSTER_WIDE,
    )
    max_connection_creation_rate = integer(
        "max.connection.creation.rate",
        MAX_INT,
        "How many connections a second the broker accepts.",
        check=at_least(0),
        dynamic=Dynamic.CLUSTER_WIDE,
    )


class NetworkSettings(Settings):
    """Sockets and requests."""

    num_io_threads = integer(
        "num.io.threads",
        8,
        "How many handlers serve requests from the queue.",
        check=at_least(1),
        dynamic=Dynamic.CLUSTER_WIDE,
        importance=Importance.HIGH,
    )
    background_threads = integer(
        "background.threads",
        10,
        "How many threads do what would block the broker: syncing, deleting, checkpointing.",
        check=at_least(1),
        dynamic=Dynamic.CLUSTER_WIDE,
        importance=Importance.HIGH,
    )
    queued_max_requests = integer(
        "queued.max.requests",
        500,
        "How many requests may wait for a handler before connections are no longer read.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    queued_max_request_bytes = long(
        "queued.max.request.bytes",
        -1,
        "How many bytes of requests may wait before connections are no longer read; -1 is no "
        "limit.",
    )
    socket_send_buffer_bytes = integer(
        "socket.send.buffer.bytes",
        -1,
        "The send buffer of a connection; -1 leaves it to the operating system. Kafka's default is "
        "102400, and who reads what is only on disk gets no more than that.",
        importance=Importance.HIGH,
    )
    socket_receive_buffer_bytes = integer(
        "socket.receive.buffer.bytes",
        -1,
        "The receive buffer of a connection; -1 leaves it to the operating system. Kafka's default "
        "is 102400.",
        importance=Importance.HIGH,
    )
    socket_request_max_bytes = integer(
        "socket.request.max.bytes",
        100 * 1024**2,
        "The largest request that is read; a connection that announces more is closed.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    socket_listen_backlog_size = integer(
        "socket.listen.backlog.size",
        50,
        "How many connections may wait to be accepted.",
        check=at_least(1),
    )
    connections_max_idle_ms = long(
        "connections.max.idle.ms",
        10 * 60 * 1000,
        "How long a connection may be silent before it is closed; -1 is no limit.",
    )
    max_connections_per_ip = integer(
        "max.connections.per.ip",
        MAX_INT,
        "How many connections one address may hold at once.",
        check=at_least(0),
        dynamic=Dynamic.CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides = text(
        "max.connections.per.ip.overrides",
        "",
        "Limits of single addresses or hosts: host:count, separated by commas.",
        dynamic=Dynamic.CLUSTER_WIDE,
    )
    connection_failed_authentication_delay_ms = integer(
        "connection.failed.authentication.delay.ms",
        100,
        "How long the answer to a failed authentication is held back.",
        check=at_least(0),
        importance=Importance.LOW,
    )
    request_timeout_ms = integer(
        "request.timeout.ms",
        30_000,
        "How long the broker waits for the answer to a request of its own.",
        importance=Importance.HIGH,
    )
    socket_connection_setup_timeout_ms = long(
        "socket.connection.setup.timeout.ms",
        10_000,
        "How long the broker waits for a connection it opens to another broker.",
    )
    socket_connection_setup_timeout_max_ms = long(
        "socket.connection.setup.timeout.max.ms",
        30_000,
        "The longest that wait becomes after repeated failures.",
    )
    fetch_max_bytes = integer(
        "fetch.max.bytes",
        55 * 1024**2,
        "The most bytes a fetch is answered with, whatever the consumer asks for.",
        check=at_least(1024),
    )
    max_incremental_fetch_session_cache_slots = integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "How many incremental fetch sessions the broker remembers.",
        check=at_least(0),
    )
    max_request_partition_size_limit = integer(
        "max.request.partition.size.limit",
        2000,
        "How many partitions one DescribeTopicPartitions request is answered with.",
        check=at_least(1),
    )
    telemetry_max_bytes = integer(
        "telemetry.max.bytes",
        1024**2,
        "The largest metrics message that a client may push.",
        check=at_least(1),
        importance=Importance.LOW,
    )
