"""The last offset of each key, in bounded memory: what compaction decides by.

Keys up to 32 bytes are held as they are; of longer ones a 264-bit BLAKE2b digest, which no held
key equals because it is longer than all of them. So no two keys are ever taken for one, which
would lose a record.

A dict costs about 160 bytes a key beside the key itself (its table at the moment of growing, the
bytes object, the offset), several times what a packed table would. It is filled at the speed of
the interpreter's own code, and memory only decides how many passes a log needs: when the map is
full the cleaning ends there, and the next one goes on from that offset.
"""

from hashlib import blake2b

_HELD_BYTES = 32
_COST_BYTES = 160


class KeyOffsets:
    __slots__ = ("_max_bytes", "_offsets", "_used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Never while it is empty: each cleaning gets at least one batch further."""
        return self._used_bytes >= max(self._max_bytes, 1)

    def put(self, key: bytes, offset: int) -> None:
        """Offsets come in growing order."""
        if len(key) > _HELD_BYTES:
            key = blake2b(key, digest_size=_HELD_BYTES + 1).digest()
        if key not in self._offsets:
            self._used_bytes += _COST_BYTES + len(key)
        self._offsets[key] = offset

    def last(self, key: bytes) -> int:
        """-1 for a key that was not put."""
        if len(key) > _HELD_BYTES:
            key = blake2b(key, digest_size=_HELD_BYTES + 1).digest()
        return self._offsets.get(key, -1)
