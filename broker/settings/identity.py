"""Who the broker is and where the cluster's metadata lives."""

from odradek.protocol.checks import at_least, kafka_version, one_of
from odradek.protocol.settings import (
    Importance,
    Settings,
    Synonym,
    boolean,
    integer,
    optional_integer,
    optional_text,
    text,
    words,
)


class IdentitySettings(Settings):
    """Identity and metadata."""

    broker_id = integer(
        "broker.id",
        -1,
        "The broker's number in the cluster. With -1 a number above reserved.broker.max.id is "
        "generated at the first start and kept in the log directories.",
        importance=Importance.HIGH,
        synonyms=(Synonym("node.id"),),
    )
    node_id = integer(
        "node.id",
        -1,
        "Read as `broker.id` when that is unset, for configurations written for KRaft.",
        importance=Importance.HIGH,
    )
    broker_id_generation_enable = boolean(
        "broker.id.generation.enable", True, "Whether a broker without a number gets one."
    )
    reserved_broker_max_id = integer(
        "reserved.broker.max.id",
        1000,
        "The largest number that may be given as broker.id; generated ones are larger.",
        check=at_least(0),
    )
    broker_rack = optional_text(
        "broker.rack",
        "Where the broker stands; replicas are spread over racks, and consumers may read near by.",
    )
    zookeeper_connect = optional_text(
        "zookeeper.connect",
        "The ZooKeeper ensemble as host:port,host:port/path. Unset means a single broker that "
        "keeps the metadata in its own log directory.",
        importance=Importance.HIGH,
    )
    zookeeper_session_timeout_ms = integer(
        "zookeeper.session.timeout.ms",
        18_000,
        "How long ZooKeeper waits for a silent broker before the cluster counts it as gone.",
        importance=Importance.HIGH,
    )
    zookeeper_connection_timeout_ms = optional_integer(
        "zookeeper.connection.timeout.ms",
        "How long to wait for ZooKeeper at the start; unset means as long as the session timeout.",
        importance=Importance.HIGH,
    )
    zookeeper_max_in_flight_requests = integer(
        "zookeeper.max.in.flight.requests",
        10,
        "How many requests may be under way to ZooKeeper at once.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    zookeeper_set_acl = boolean(
        "zookeeper.set.acl",
        False,
        "Whether nodes in ZooKeeper are created so that only brokers may change them.",
        importance=Importance.HIGH,
    )
    inter_broker_protocol_version = text(
        "inter.broker.protocol.version",
        "3.9-IV0",
        "The Kafka version that brokers speak with each other.",
        check=kafka_version(),
    )
    process_roles = words(
        "process.roles",
        (),
        "Accepted as broker,controller, for configurations written for one KRaft node that is "
        "both. A cluster needs `zookeeper.connect` instead.",
        check=one_of("broker", "controller"),
        importance=Importance.HIGH,
    )
    controller_quorum_voters = words(
        "controller.quorum.voters",
        (),
        "Accepted with a single voter, for configurations written for one KRaft node.",
        importance=Importance.HIGH,
    )
    controller_quorum_bootstrap_servers = words(
        "controller.quorum.bootstrap.servers",
        (),
        "Accepted with a single server, for configurations written for one KRaft node.",
        importance=Importance.HIGH,
    )

    @property
    def zookeeper_connection_wait_ms(self) -> int:
        if self.zookeeper_connection_timeout_ms is None:
            return self.zookeeper_session_timeout_ms
        return self.zookeeper_connection_timeout_ms
