"""The settings that the transaction coordinator looks at, taken from the broker's."""

from dataclasses import dataclass
from typing import Final

from odradek.broker.config import BrokerConfig

# How long a record of ours may wait for its replicas, as Kafka's coordinator waits.
COMMIT_TIMEOUT_MS: Final = 30_000
# What could not be written or reached is tried again after this rest.
RETRY_MS: Final = 100


@dataclass(frozen=True, slots=True)
class TxnConfig:
    max_timeout_ms: int = 15 * 60 * 1000
    expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    abort_interval_ms: int = 10_000
    expiration_interval_ms: int = 60 * 60 * 1000
    load_buffer_bytes: int = 5 * 1024 * 1024
    partitions: int = 50
    commit_timeout_ms: int = COMMIT_TIMEOUT_MS

    @classmethod
    def of(cls, config: BrokerConfig) -> "TxnConfig":
        return cls(
            max_timeout_ms=config.transaction_max_timeout_ms,
            expiration_ms=config.transactional_id_expiration_ms,
            abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiration_interval_ms=(
                config.transaction_remove_expired_transaction_cleanup_interval_ms
            ),
            load_buffer_bytes=config.transaction_state_log_load_buffer_size,
            partitions=config.transaction_state_log_num_partitions,
        )
