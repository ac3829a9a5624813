"""What the nodes of the store hold: Kafka's JSON, as small values with `encode` and `decode`.

Encoders write the newest version Kafka 3.9 writes; decoders also take the older ones and ignore
fields they do not know. `decode` raises `BadNode` for anything else. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.controller.fields import BadNode, Fields, encode, parse_integer
from odradek.protocol.endpoints import Endpoint, SecurityProtocol, parse_endpoint
from odradek.protocol.types import NO_ID, TopicPartition, id_from_text, id_to_text

NO_LEADER: Final = -1

# Marks partitions of a topic that is being deleted, in what brokers are told; never stored.
LEADER_DURING_DELETION: Final = -2


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """/controller: who is in charge."""

    broker_id: int
    timestamp_ms: int

    def encode(self) -> bytes:
        fields = {"version": 2, "brokerid": self.broker_id, "timestamp": str(self.timestamp_ms)}
        return encode({**fields, "kraftControllerEpoch": -1})

    @classmethod
    def decode(cls, data: bytes) -> "ControllerNode":
        fields = Fields.parse(data)
        timestamp_ms = fields.long("timestamp") if "timestamp" in fields else -1
        return cls(fields.integer("brokerid"), timestamp_ms)


def encode_epoch(epoch: int) -> bytes:
    """/controller_epoch: plain digits."""
    return str(epoch).encode()


def decode_epoch(data: bytes) -> int:
    return parse_integer("controller epoch", data[:40].decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """/brokers/ids/N: how to reach a broker, as long as it lives."""

    endpoints: tuple[Endpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1

    def encode(self) -> bytes:
        plain = next((e for e in self.endpoints if e.security is SecurityProtocol.PLAINTEXT), None)
        fields: dict[str, object] = {
            "version": 5,
            "host": None if plain is None else plain.host,
            "port": -1 if plain is None else plain.port,
            "endpoints": [str(endpoint) for endpoint in self.endpoints],
            "listener_security_protocol_map": {
                endpoint.listener: endpoint.security.name for endpoint in self.endpoints
            },
            "jmx_port": self.jmx_port,
            "timestamp": str(self.timestamp_ms),
        }
        if self.rack is not None:
            fields["rack"] = self.rack
        return encode({**fields, "features": {}})

    @classmethod
    def decode(cls, data: bytes) -> "BrokerRegistration":
        fields = Fields.parse(data)
        return cls(
            endpoints=_endpoints(fields),
            timestamp_ms=fields.long("timestamp") if "timestamp" in fields else -1,
            rack=fields.optional_text("rack"),
            jmx_port=fields.integer("jmx_port", -1),
        )


def _endpoints(fields: Fields) -> tuple[Endpoint, ...]:
    if "endpoints" not in fields:
        # Version 1, of brokers that knew one plain listener only.
        plain = SecurityProtocol.PLAINTEXT
        return (Endpoint(plain.name, plain, fields.text("host"), fields.integer("port")),)
    protocols = fields.object("listener_security_protocol_map")
    return tuple(_endpoint(text, protocols) for text in fields.texts("endpoints"))


def _endpoint(text: str, protocols: Fields) -> Endpoint:
    try:
        listener, host, port = parse_endpoint(text)
        # Older brokers name their listeners after the protocol.
        security = SecurityProtocol[protocols.text(listener, listener)]
    except (ValueError, KeyError) as error:
        raise BadNode(f"not an endpoint: {error}") from None
    return Endpoint(listener, security, host, port)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where a partition lives. While it moves, `replicas` is where it is and where it goes."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once nothing moves any more."""
        return tuple(r for r in self.replicas if r not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the move."""
        return tuple(r for r in self.replicas if r not in self.adding)


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """/brokers/topics/T: the topic's id and the brokers of each partition."""

    topic_id: bytes
    partitions: Mapping[int, Assignment]

    def encode(self) -> bytes:
        ordered = sorted(self.partitions.items())
        return encode(
            {
                "version": 3,
                "topic_id": id_to_text(self.topic_id),
                "partitions": {str(p): list(a.replicas) for p, a in ordered},
                "adding_replicas": {str(p): list(a.adding) for p, a in ordered if a.adding},
                "removing_replicas": {str(p): list(a.removing) for p, a in ordered if a.removing},
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "TopicAssignment":
        """A topic of versions 1 and 2 has no id: NO_ID, until a controller gives it one."""
        fields = Fields.parse(data)
        text = fields.optional_text("topic_id")
        replicas = _replica_lists(fields.object("partitions"))
        for brokers in replicas.values():
            if not brokers or len(set(brokers)) < len(brokers) or min(brokers) < 0:
                raise BadNode(f"not a list of replicas: {list(brokers)[:20]}")
        adding = _replica_lists(fields.object("adding_replicas"))
        removing = _replica_lists(fields.object("removing_replicas"))
        partitions = {
            p: Assignment(brokers, adding.get(p, ()), removing.get(p, ()))
            for p, brokers in sorted(replicas.items())
        }
        return cls(NO_ID if text is None else _topic_id(text), partitions)


def _topic_id(text: str) -> bytes:
    try:
        return id_from_text(text)
    except ValueError as error:
        raise BadNode(str(error)[:80]) from None


def _replica_lists(fields: Fields) -> dict[int, tuple[int, ...]]:
    lists = {parse_integer("partition", name): fields.integers(name) for name in fields.names()}
    if any(partition < 0 for partition in lists):
        raise BadNode("a partition number is negative")
    return lists


@dataclass(frozen=True, slots=True)
class PartitionState:
    """…/partitions/P/state: leader and in-sync replicas.

    `partition_epoch` is the node's version, -1 before it is stored: compare-and-set goes by it.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovering: bool = False
    partition_epoch: int = -1

    def encode(self) -> bytes:
        fields: dict[str, object] = {
            "version": 1,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "controller_epoch": self.controller_epoch,
            "isr": list(self.isr),
        }
        if self.recovering:
            fields["leader_recovery_state"] = 1
        return encode(fields)

    @classmethod
    def decode(cls, data: bytes, version: int = -1) -> "PartitionState":
        fields = Fields.parse(data)
        return cls(
            leader=fields.integer("leader"),
            leader_epoch=fields.integer("leader_epoch"),
            isr=fields.integers("isr"),
            controller_epoch=fields.integer("controller_epoch"),
            recovering=fields.integer("leader_recovery_state", 0) == 1,
            partition_epoch=version,
        )


def encode_cluster_id(cluster_id: str) -> bytes:
    """/cluster/id. Its version is text, unlike everyone else's."""
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return Fields.parse(data).text("id")


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """/config/…: what was set for one entity; everything else has its default."""

    config: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        return encode({"version": 1, "config": dict(self.config)})

    @classmethod
    def decode(cls, data: bytes) -> "ConfigNode":
        if not data:
            return cls({})
        config = Fields.parse(data).object("config")
        return cls({name: config.text(name) for name in config.names()})


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """/config/changes/config_change_N: look again at this entity."""

    entity_path: str

    def encode(self) -> bytes:
        return encode({"version": 2, "entity_path": self.entity_path})

    @classmethod
    def decode(cls, data: bytes) -> "ConfigChange":
        fields = Fields.parse(data)
        if fields.integer("version") == 1:
            return cls(f"{fields.text('entity_type')}/{fields.text('entity_name')}")
        return cls(fields.text("entity_path"))


def encode_reassignment(moves: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """/admin/reassign_partitions: how tools of old ask for a move."""
    rows = [
        {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
        for where, replicas in moves.items()
    ]
    return encode({"version": 1, "partitions": rows})


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    rows = Fields.parse(data).objects("partitions")
    return {_partition_of(row): row.integers("replicas") for row in rows}


def encode_partitions(partitions: list[TopicPartition]) -> bytes:
    """/admin/preferred_replica_election and ISR change notifications."""
    rows = [{"topic": where.topic, "partition": where.partition} for where in partitions]
    return encode({"version": 1, "partitions": rows})


def decode_partitions(data: bytes) -> list[TopicPartition]:
    return [_partition_of(row) for row in Fields.parse(data).objects("partitions")]


def _partition_of(fields: Fields) -> TopicPartition:
    return TopicPartition(fields.text("topic"), fields.integer("partition"))


def encode_log_dir_event(broker_id: int) -> bytes:
    """/log_dir_event_notification/log_dir_event_N: a broker lost one of its directories."""
    return encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes) -> int:
    return Fields.parse(data).integer("broker")


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """/latest_producer_id_block: the last block of producer ids given out, both ends included."""

    broker_id: int
    first: int
    last: int

    def encode(self) -> bytes:
        ends = {"block_start": str(self.first), "block_end": str(self.last)}
        return encode({"version": 1, "broker": self.broker_id, **ends})

    @classmethod
    def decode(cls, data: bytes) -> "ProducerIdBlock":
        fields = Fields.parse(data)
        block = cls(fields.integer("broker"), fields.long("block_start"), fields.long("block_end"))
        if not 0 <= block.first <= block.last:
            raise BadNode(f"not a block of ids: {block.first} to {block.last}")
        return block


def encode_features(features: Mapping[str, int]) -> bytes:
    """/feature: finalized feature levels."""
    return encode({"version": 2, "status": 1, "features": dict(features)})


def decode_features(data: bytes) -> dict[str, int]:
    fields = Fields.parse(data)
    if fields.integer("status") == 0:
        return {}
    features = fields.object("features")
    if fields.integer("version") >= 2:
        return {name: features.integer(name) for name in features.names()}
    return {name: features.object(name).integer("max_version_level") for name in features.names()}
