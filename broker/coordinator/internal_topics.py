"""The internal topics of the coordinators: how Kafka creates them."""

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.broker.config import BrokerConfig
from odradek.broker.coordinator.placement import GROUP_TOPIC, TRANSACTION_TOPIC


@dataclass(frozen=True, slots=True)
class InternalTopic:
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def internal_topics(config: BrokerConfig) -> dict[str, InternalTopic]:
    """By name."""
    groups = InternalTopic(
        GROUP_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )
    transactions = InternalTopic(
        TRANSACTION_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
    return {topic.name: topic for topic in (groups, transactions)}


def internal_settings(config: BrokerConfig, topic: str) -> Mapping[str, str]:
    """What an internal topic is created with; nothing for others."""
    internal = internal_topics(config).get(topic)
    return {} if internal is None else internal.configs
