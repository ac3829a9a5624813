"""Which partition a record goes to.

Keys are hashed with murmur2 exactly as Kafka's Java client does, so that every client sends a key
to the same partition. Records without a key stay on one partition for a batch and then move on
("sticky"), which fills batches; or go round in turn.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Final, Protocol

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
# Keys tend to repeat, and a look-up costs a tenth of hashing eight bytes.
_KEPT_HASHES: Final = 16_384


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, as an unsigned number of 32 bits."""
    length = len(data)
    words = length >> 2
    h = _SEED ^ length
    for k in struct.unpack_from(f"<{words}I", data):
        k = k * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if rest := data[words << 2 :]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(_KEPT_HASHES)
def key_hash(key: bytes) -> int:
    """The hash that is taken modulo the number of partitions: never negative."""
    return murmur2(key) & 0x7FFFFFFF


class Partitioner(Protocol):
    """One topic's choice. `count` partitions exist; those in `available` have a leader."""

    def choose(self, key: bytes | None, count: int, available: Sequence[int]) -> int: ...

    def batch_is_full(self, partition: int) -> bool:
        """Told when a batch of this partition was closed; whether to choose again for the record
        that did not fit."""
        ...


class StickyPartitioner:
    """The default: by key where there is one, else sticky."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._current = -1

    def choose(self, key: bytes | None, count: int, available: Sequence[int]) -> int:
        if key is not None:
            return key_hash(key) % count
        current = self._current
        if not 0 <= current < count or (len(available) < count and current not in available):
            current = self._current = self._another(count, available)
        return current

    def batch_is_full(self, partition: int) -> bool:
        if partition != self._current:
            return False
        self._current = -1
        return True

    def _another(self, count: int, available: Sequence[int]) -> int:
        return self._random.choice(available) if available else self._random.randrange(count)


class RoundRobinPartitioner:
    """Each record to the next partition that has a leader, whatever its key."""

    def __init__(self, random: Random) -> None:
        self._next = 0

    def choose(self, key: bytes | None, count: int, available: Sequence[int]) -> int:
        turn = self._next
        self._next = turn + 1
        return available[turn % len(available)] if available else turn % count

    def batch_is_full(self, partition: int) -> bool:
        return False
