"""The settings that the group coordinator looks at, taken from the broker's."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.broker.config import BrokerConfig
from odradek.broker.coordinator.assignors import Assignor, assignors_of
from odradek.protocol.compression import Codec

# How long a new member may wait for its first generation: its client may be gone long since.
NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class GroupConfig:
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 30 * 60 * 1000
    initial_rebalance_delay_ms: int = 3000
    max_size: int = (1 << 31) - 1
    metadata_max_chars: int = 4096
    commit_timeout_ms: int = 5000
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_check_interval_ms: int = 10 * 60 * 1000
    load_buffer_bytes: int = 5 * 1024 * 1024
    partitions: int = 50
    compression: Codec = Codec.NONE
    # The consumer protocol; members of the classic one in such groups bring timeouts of their own.
    serves_consumer_protocol: bool = True
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_max_size: int = (1 << 31) - 1
    assignors: Mapping[str, Assignor] = field(
        default_factory=lambda: assignors_of(("uniform", "range"))
    )
    """By name; the first is for groups whose members name none."""
    can_upgrade: bool = True
    can_downgrade: bool = True

    @classmethod
    def of(cls, config: BrokerConfig) -> "GroupConfig":
        policy = config.group_consumer_migration_policy.lower()
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
            metadata_max_chars=config.offset_metadata_max_bytes,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
            retention_ms=config.offsets_retention_minutes * 60 * 1000,
            retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            load_buffer_bytes=config.offsets_load_buffer_size,
            partitions=config.offsets_topic_num_partitions,
            compression=Codec(config.offsets_topic_compression_codec),
            serves_consumer_protocol="consumer" in config.group_coordinator_rebalance_protocols,
            consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            consumer_max_size=config.group_consumer_max_size,
            assignors=assignors_of(config.group_consumer_assignors),
            can_upgrade=policy in ("upgrade", "bidirectional"),
            can_downgrade=policy in ("downgrade", "bidirectional"),
        )
