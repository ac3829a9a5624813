"""In which order Java's hash collections give back what was put into them.

Two assignors of Kafka's Java client break ties by the iteration order of a HashMap. A group may be
led by any of its members, so ours has to break them the same way, or partitions would move each
time the leader changes. Buckets come by hash, and within a bucket by insertion; tables start
with 16 buckets and double when they are three quarters full. (Very long buckets become trees in
Java; ours do not, which takes eight equal buckets to be seen.)
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from odradek.protocol.types import TopicPartition

T = TypeVar("T")

_MASK = 0xFFFFFFFF
_FIRST_TABLE = 16


def string_hash(text: str) -> int:
    """String.hashCode, as an unsigned number: over UTF-16 units."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & _MASK
    return value


def partition_hash(partition: TopicPartition) -> int:
    """The hashCode of Kafka's TopicPartition."""
    return ((31 + partition.partition) * 31 + string_hash(partition.topic)) & _MASK


def table_size(entries: int) -> int:
    """How many buckets a table has that grew to hold this many entries."""
    size = _FIRST_TABLE
    while entries > size * 3 // 4:
        size *= 2
    return size


def hash_order(items: Iterable[T], hash_of: Callable[[T], int], peak: int | None = None) -> list[T]:
    """The items, given as they were inserted, in the order a HashMap iterates over them.

    `peak` is the most entries the table ever had; it does not shrink when some are removed.
    """
    listed = list(items)
    mask = table_size(len(listed) if peak is None else peak) - 1

    def bucket(item: T) -> int:
        code = hash_of(item)
        return (code ^ code >> 16) & mask

    return sorted(listed, key=bucket)
