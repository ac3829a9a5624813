"""Which partition of an internal topic keeps a group or a transactional id.

Kafka's rule, to the bit: brokers of both kinds must agree on it, and so must tools that look into
the topics.
"""

from functools import lru_cache
from typing import Final

GROUP_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"

_MIN_INT: Final = -(1 << 31)


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, as a signed 32-bit number."""
    if text.isascii():
        units: bytes | memoryview = text.encode()
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@lru_cache(maxsize=100_000)
def partition_for(key: str, partitions: int) -> int:
    """The absolute value of the hash, modulo; the one number that has none counts as 0."""
    value = java_hash(key)
    return 0 if value == _MIN_INT else abs(value) % partitions
